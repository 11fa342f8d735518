/* archive_kit.h: archives for tests.
 *
 *     static const test_member members[] = {TEST_FILE("a.wav", "RIFF")};
 *     test_archive_write(path, "gnutar", "gzip", members, 1);
 */
#ifndef SPSH_ARCHIVE_KIT_H
#define SPSH_ARCHIVE_KIT_H

#include <stddef.h>

typedef struct test_member {
    const char *name;
    const char *text;
    size_t size_bytes; /* bytes of text; 0: it ends with NUL */
    char type;         /* 0 a file, 'd' a folder, 'h' a hard and 's' a symbolic link to text */
} test_member;

#define TEST_FILE(name_, text_)                                                                    \
    {                                                                                              \
        name_, text_, 0, 0                                                                         \
    }
#define TEST_MEMBER(name_, type_, text_)                                                           \
    {                                                                                              \
        name_, text_, 0, type_                                                                     \
    }

/* format as libarchive calls it ("gnutar", "pax", "ustar", "v7tar", "zip"; "stored" is a zip that
 * does not pack), filter too, or NULL. Stops the program when it cannot. */
void test_archive_write(const char *path, const char *format, const char *filter,
                        const test_member *members, size_t count);

#endif
