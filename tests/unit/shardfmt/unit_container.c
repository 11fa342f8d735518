/* unit_container.c: sections of all widths and sizes around the page borders, and access by several
 * threads. */
#include <pthread.h>

#include "base/checksum.h"
#include "format/container.h"
#include "memory_io.h"
#include "reseal.h"
#include "spsh_test.h"

enum { SECTIONS_MAX = 8, COUNTS = 6, THREADS = 4 };

static char folder[256];

typedef struct image {
    uint8_t *data;
    size_t size_bytes;
} image;

static uint8_t value_at(uint32_t id, uint64_t byte)
{
    return (uint8_t)((uint64_t)id * 31 + byte * 7 + byte / 256 * 13 + byte / 65536);
}

/* Append everything in steps of `step` elements, the sections in turn. */
static void append_all(spsh__section_writer *writer, const spsh__section *sections, uint32_t count,
                       uint64_t step)
{
    uint64_t done[SECTIONS_MAX] = {0};
    uint8_t bytes[16 * 4096];
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t s = 0; s < count; s++) {
            uint64_t left = sections[s].count - done[s];
            uint64_t n = left < step ? left : step;
            uint64_t width = sections[s].element_bytes;
            for (uint64_t i = 0; i < n * width; i++)
                bytes[i] = value_at(sections[s].id, done[s] * width + i);
            CHECK_I64(spsh__section_append(writer, sections[s].id, bytes, n, NULL), SPSH_OK);
            done[s] += n;
            more = more || done[s] < sections[s].count;
        }
    }
}

static image write_image(const spsh__section *sections, uint32_t count, uint64_t step)
{
    char path[300];
    uint8_t page[SPSH__PAGE_BYTES];
    spsh_file_writer *file = NULL;
    spsh__section_writer *writer = NULL;
    spsh__footer footer;
    image result = {NULL, 0};
    spsh__header header = {.kind = SPSH__KIND_INDEX, .ordinal = 3};
    memcpy(header.file_id, "file id of index", 16);
    (void)snprintf(path, sizeof(path), "%s/x", folder);
    REQUIRE(spsh_file_writer_open(spsh_io_default(), folder, "x", 0, NULL, &file, NULL) == SPSH_OK);
    spsh__header_encode(&header, page);
    REQUIRE(spsh_file_writer_write(file, page, sizeof(page), NULL) == SPSH_OK);
    REQUIRE(spsh__section_writer_open(file, &header, sections, count, NULL, &writer, NULL) ==
            SPSH_OK);
    append_all(writer, sections, count, step);
    REQUIRE(spsh__section_writer_finish(writer, NULL, 0, 0, 5, &footer, NULL) == SPSH_OK);
    CHECK_U64(footer.file_bytes, spsh_file_writer_size(file));
    spsh__section_writer_free(writer);
    REQUIRE(spsh_file_writer_publish(file, SPSH_PUBLISH_REPLACE, NULL) == SPSH_OK);
    spsh_file_writer_free(file);
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &result.data,
                              &result.size_bytes, NULL) == SPSH_OK);
    return result;
}

static void check_sections(const spsh__container *c, const spsh__section *sections, uint32_t count)
{
    spsh_error err = SPSH_ERROR_INIT;
    for (uint32_t s = 0; s < count; s++) {
        const uint8_t *bytes = NULL;
        uint64_t size = sections[s].count * sections[s].element_bytes;
        bool same = true;
        CHECK_I64(spsh__container_require(c, sections[s].id, sections[s].element_bytes,
                                          sections[s].count, NULL),
                  SPSH_OK);
        CHECK_I64(spsh__container_column(c, sections[s].id, 0, sections[s].count, &bytes, NULL),
                  SPSH_OK);
        for (uint64_t i = 0; i < size; i++)
            same = same && bytes[i] == value_at(sections[s].id, i);
        CHECK(same);
        CHECK_I64(spsh__container_column(c, sections[s].id, sections[s].count, 1, &bytes, &err),
                  SPSH_E_CORRUPT);
        CHECK_I64(spsh__container_column(c, sections[s].id, 1, UINT64_MAX, &bytes, &err),
                  SPSH_E_CORRUPT);
    }
}

/* Counts just below, at and above a page; written in small and large steps: the same bytes. */
static void test_sections_of_all_sizes(void)
{
    static const uint64_t counts[COUNTS] = {0, 1, 4095, 65535, 65536, 70001};
    for (unsigned round = 0; round < COUNTS; round++) {
        const spsh__section sections[SECTIONS_MAX] = {
            {1,    8,  counts[round]               },
            {2,    1,  counts[(round + 1) % COUNTS]},
            {7,    2,  counts[(round + 2) % COUNTS]},
            {32,   4,  counts[(round + 3) % COUNTS]},
            {90,   16, counts[(round + 4) % COUNTS]},
            {91,   1,  65536 * 2                   },
            {127,  8,  counts[round]               },
            {4000, 4,  77                          },
        };
        uint32_t count = round == 0 ? 0 : SECTIONS_MAX;
        image first = write_image(sections, count, 4096);
        image second = write_image(sections, count, 37);
        CHECK_U64(first.size_bytes, second.size_bytes);
        CHECK(memcmp(first.data, second.data, first.size_bytes) == 0);
        memcpy(second.data, first.data, first.size_bytes);
        reseal(second.data, second.size_bytes); /* only the counts change: no checksum differs */
        CHECK(memcmp(first.data, second.data, first.size_bytes) == 0);

        memory_io memory = {first.data, first.size_bytes};
        spsh_io io = memory_io_table(&memory);
        spsh__container *c = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        CHECK_I64(spsh__container_open(&io, "x", SPSH__KIND_INDEX, NULL, &c, &err), SPSH_OK);
        REQUIRE(c != NULL);
        check_sections(c, sections, count);
        for (uint64_t page = 0; page < spsh__container_footer(c)->page_count; page++)
            CHECK_I64(spsh__container_check_page(c, page, NULL), SPSH_OK);
        CHECK_I64(spsh__container_check_padding(c, NULL), SPSH_OK);
        CHECK_U64(spsh__container_count(c, 5), 0);
        CHECK_I64(spsh__container_require(c, 5, 1, UINT64_MAX, NULL), SPSH_E_CORRUPT);
        spsh__container_close(c);
        CHECK_I64(spsh__container_open(&io, "x", SPSH__KIND_SHARD, NULL, &c, &err),
                  SPSH_E_MISMATCH);
        free(first.data);
        free(second.data);
    }
}

static void test_padding_is_checked(void)
{
    const spsh__section sections[2] = {
        {1, 1, 10},
        {2, 1, 10}
    };
    image f = write_image(sections, 2, 4);
    memory_io memory = {f.data, f.size_bytes};
    spsh_io io = memory_io_table(&memory);
    /* after the directory, between the sections, in the tail, in the page table */
    static const size_t places[] = {4096 + 80, 4096 + 128 + 10, 8191, 8192 + 8};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        spsh__container *c = NULL;
        f.data[places[i]] = 1;
        reseal(f.data, f.size_bytes);
        CHECK_I64(spsh__container_open(&io, "x", 0, NULL, &c, NULL), SPSH_OK);
        CHECK_I64(spsh__container_check_padding(c, NULL), SPSH_E_CORRUPT);
        spsh__container_close(c);
        f.data[places[i]] = 0;
    }
    free(f.data);
}

/* An empty last section begins at the next multiple of 64. If the area ends there, the bytes
 * between it and the section before are written, too. */
static void test_empty_last_section(void)
{
    for (uint64_t count = 3900; count < 4200; count++) {
        const spsh__section sections[2] = {
            {1, 1, count},
            {2, 8, 0    }
        };
        image f = write_image(sections, 2, count);
        memory_io memory = {f.data, f.size_bytes};
        spsh_io io = memory_io_table(&memory);
        spsh__container *c = NULL;
        REQUIRE(spsh__container_open(&io, "x", 0, NULL, &c, NULL) == SPSH_OK);
        check_sections(c, sections, 2);
        CHECK_I64(spsh__container_check_padding(c, NULL), SPSH_OK);
        spsh__container_close(c);
        free(f.data);
    }
}

static void test_misuse_of_the_writer(void)
{
    const spsh__section sections[1] = {
        {1, 4, 2}
    };
    const spsh__section descending[2] = {
        {2, 4, 2},
        {1, 4, 2}
    };
    spsh__header header = {.kind = SPSH__KIND_INDEX};
    spsh_file_writer *file = NULL;
    spsh__section_writer *writer = NULL;
    spsh__footer footer;
    uint8_t page[SPSH__PAGE_BYTES] = {0};
    REQUIRE(spsh_file_writer_open(spsh_io_default(), folder, "y", 0, NULL, &file, NULL) == SPSH_OK);
    REQUIRE(spsh_file_writer_write(file, page, sizeof(page), NULL) == SPSH_OK);
    CHECK_I64(spsh__section_writer_open(file, &header, descending, 2, NULL, &writer, NULL),
              SPSH_E_INVALID_ARG);
    REQUIRE(spsh__section_writer_open(file, &header, sections, 1, NULL, &writer, NULL) == SPSH_OK);
    CHECK_I64(spsh__section_append(writer, 2, page, 1, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__section_append(writer, 1, page, 3, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__section_append(writer, 1, page, 1, NULL), SPSH_OK);
    CHECK_I64(spsh__section_writer_finish(writer, NULL, 0, 0, 0, &footer, NULL),
              SPSH_E_INVALID_ARG);
    spsh__section_writer_free(writer);
    spsh_file_writer_free(file);
}

/* Change one field of both footers. Without blocks, open can check the root hash too, and must. */
static void test_root_hash_without_blocks(void)
{
    const spsh__section sections[1] = {
        {1, 8, 3}
    };
    image f = write_image(sections, 1, 4);
    memory_io memory = {f.data, f.size_bytes};
    spsh_io io = memory_io_table(&memory);
    spsh__container *c = NULL;
    for (uint32_t copy = 0; copy < 2; copy++) {
        uint8_t *page =
            f.data + f.size_bytes - SPSH__FOOTERS_BYTES + (size_t)copy * SPSH__PAGE_BYTES;
        spsh__footer footer;
        REQUIRE(spsh__footer_decode(page, copy, f.size_bytes, "x", &footer, NULL) == SPSH_OK);
        footer.root_hash[3] ^= 1;
        spsh__footer_encode(&footer, copy, page);
    }
    CHECK_I64(spsh__container_open(&io, "x", 0, NULL, &c, NULL), SPSH_E_CORRUPT);
    free(f.data);
}

static void *touch_all(void *user)
{
    const spsh__container *c = (const spsh__container *)user;
    uint64_t seed = 5;
    bool good = true;
    for (unsigned i = 0; i < 2000 && good; i++) {
        uint64_t value = 0;
        uint64_t at = test_random(&seed) % 200000;
        uint8_t want[8];
        for (unsigned b = 0; b < 8; b++)
            want[b] = value_at(1, at * 8 + b);
        good = spsh__container_u64(c, 1, at, &value, NULL) == SPSH_OK &&
               value == spsh__load_u64le(want);
    }
    return good ? user : NULL;
}

static void test_threads_touch_the_same_pages(void)
{
    const spsh__section sections[1] = {
        {1, 8, 200000}
    };
    image f = write_image(sections, 1, 4096);
    spsh__container *c = NULL;
    pthread_t threads[THREADS];
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/x", folder);
    REQUIRE(spsh__container_open(NULL, path, 0, NULL, &c, NULL) == SPSH_OK);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, touch_all, c) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *result = NULL;
        REQUIRE(pthread_join(threads[i], &result) == 0);
        CHECK(result != NULL);
    }
    spsh__container_close(c);
    free(f.data);
}

TEST_MAIN(unit_container)
{
    test_temp_dir(folder, sizeof(folder));
    RUN(test_sections_of_all_sizes);
    RUN(test_padding_is_checked);
    RUN(test_empty_last_section);
    RUN(test_misuse_of_the_writer);
    RUN(test_root_hash_without_blocks);
    RUN(test_threads_touch_the_same_pages);
    test_remove_tree(folder);
    return TEST_RESULT();
}
