/* test_file.h: whole files, written and read; the test stops where that fails. */
#ifndef TEST_FILE_H
#define TEST_FILE_H

#include "spsh_test.h"

static inline void test_file_write(const char *path, const void *data, size_t size_bytes)
{
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fwrite(data, 1, size_bytes, file) == size_bytes && fclose(file) == 0);
}

static inline void test_file_write_text(const char *path, const char *text)
{
    test_file_write(path, text, strlen(text));
}

/* The caller's to free(). */
static inline uint8_t *test_file_read(const char *path, size_t *ret_size_bytes)
{
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL && fseek(file, 0, SEEK_END) == 0);
    const long size = ftell(file);
    REQUIRE(size >= 0 && fseek(file, 0, SEEK_SET) == 0);
    uint8_t *data = (uint8_t *)malloc((size_t)size + 1);
    REQUIRE(data != NULL && fread(data, 1, (size_t)size, file) == (size_t)size);
    (void)fclose(file);
    *ret_size_bytes = (size_t)size;
    return data;
}

#endif
