/* fuzz_container.c: a changed container without blocks, with or without corrected checksums. Tests
 * every access that other sources rely on.
 */
#include "format/container.h"
#include "memory_io.h"
#include "patch.h"
#include "spsh_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { SECTIONS = 7 };

static patch_base base;

static void append(spsh__section_writer *writer, const spsh__section *section)
{
    uint8_t bytes[16];
    for (uint64_t i = 0; i < section->count; i++) {
        for (uint64_t b = 0; b < 16; b++)
            bytes[b] = (uint8_t)(section->id + i * 16 + b);
        if (section->id == 80) /* ends of three strings of two bytes */
            spsh__store_u64le(bytes, 2 * (i + 1));
        REQUIRE(spsh__section_append(writer, section->id, bytes, 1, NULL) == SPSH_OK);
    }
}

static void make_base(void)
{
    static const spsh__section sections[SECTIONS] = {
        {1,   8,  20},
        {2,   4,  21},
        {3,   2,  5 },
        {9,   16, 4 },
        {80,  8,  3 },
        {81,  1,  6 },
        {200, 1,  0 },
    };
    char folder[256];
    char path[300];
    uint8_t page[SPSH__PAGE_BYTES];
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    spsh_file_writer *file = NULL;
    spsh__section_writer *writer = NULL;
    spsh__footer footer;
    const spsh__header header = {.kind = SPSH__KIND_INDEX, .ordinal = 1};
    test_temp_dir(folder, sizeof(folder));
    REQUIRE(spsh_file_writer_open(spsh_io_default(), folder, "x", 0, NULL, &file, NULL) == SPSH_OK);
    spsh__header_encode(&header, page);
    REQUIRE(spsh_file_writer_write(file, page, sizeof(page), NULL) == SPSH_OK);
    REQUIRE(spsh__section_writer_open(file, &header, sections, SECTIONS, NULL, &writer, NULL) ==
            SPSH_OK);
    for (unsigned s = 0; s < SECTIONS; s++)
        append(writer, &sections[s]);
    REQUIRE(spsh__section_writer_finish(writer, NULL, 0, 0, 3, &footer, NULL) == SPSH_OK);
    spsh__section_writer_free(writer);
    REQUIRE(spsh_file_writer_publish(file, SPSH_PUBLISH_NEW, NULL) == SPSH_OK);
    spsh_file_writer_free(file);
    (void)snprintf(path, sizeof(path), "%s/x", folder);
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &data, &size_bytes, NULL) ==
            SPSH_OK);
    test_remove_tree(folder);
    patch_base_init(&base, data, size_bytes);
}

static volatile uint8_t sink;

static void read_bytes(const uint8_t *bytes, uint64_t size_bytes)
{
    for (uint64_t i = 0; i < size_bytes; i++)
        sink = (uint8_t)(sink + bytes[i]);
}

static void read_section(const spsh__container *c, uint32_t id)
{
    uint64_t count = spsh__container_count(c, id);
    const uint8_t *bytes = NULL;
    uint16_t u16 = 0;
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    for (uint32_t width = 1; width <= 16; width *= 2)
        if (spsh__container_require(c, id, width, count, NULL) == SPSH_OK &&
            spsh__container_column(c, id, 0, count, &bytes, NULL) == SPSH_OK)
            read_bytes(bytes, count * width);
    for (uint64_t at = 0; at <= count && at < 40; at++) {
        (void)spsh__container_u16(c, id, at, &u16, NULL);
        (void)spsh__container_u32(c, id, at, &u32, NULL);
        (void)spsh__container_u64(c, id, at, &u64, NULL);
    }
    REQUIRE(spsh__container_u64(c, id, count, &u64, NULL) != SPSH_OK);
    REQUIRE(spsh__container_column(c, id, 1, UINT64_MAX, &bytes, NULL) != SPSH_OK);
}

static void read_strings(const spsh__container *c, uint32_t id)
{
    spsh_status rc = spsh__container_require_strings(c, id, UINT64_MAX, NULL);
    for (uint64_t k = 0; k < spsh__container_count(c, id) && k < 1000 && rc == SPSH_OK; k++) {
        spsh_bytes string;
        if (spsh__container_string(c, id, k, &string, NULL) == SPSH_OK)
            read_bytes(string.data, string.size_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const uint32_t ids[] = {0, 1, 2, 3, 9, 80, 81, 127, 200, 255, UINT32_MAX};
    size_t file_bytes = 0;
    spsh__container *c = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (base.data == NULL)
        make_base();
    uint8_t *file = patch_apply(&base, data, size_bytes, &file_bytes);
    memory_io memory = {file, file_bytes};
    spsh_io io = memory_io_table(&memory);
    spsh_status rc = spsh__container_open(&io, "fuzz", 0, NULL, &c, &err);
    REQUIRE(rc == err.status && (rc == SPSH_OK) == (c != NULL));
    if (rc == SPSH_OK) {
        for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
            read_section(c, ids[i]);
            read_strings(c, ids[i]);
        }
        for (uint64_t page = 0; page < spsh__container_footer(c)->page_count; page++)
            (void)spsh__container_check_page(c, page, NULL);
        (void)spsh__container_check_padding(c, NULL);
    }
    spsh__container_close(c);
    free(file);
    return 0;
}
