/* golden_format_example.c: the bytes printed in FORMAT.md are what the library writes, and it
 * reads them.
 *
 *     test_format_example print       prints them as the document shows them
 *
 * A dump is a fenced block whose first line is ```hexdump NAME; a star stands for lines of zeros,
 * and the last line is the size.
 */
#include "base/checksum.h"
#include "format/block.h"
#include "format/container.h"
#include "format/record.h"
#include "memory_io.h"
#include "spsh_test.h"

enum { BYTES_MAX = 32768, BLOCK_AT = 4096, BLOCK_BYTES = 4096 };

typedef struct bytes {
    uint8_t data[BYTES_MAX];
    size_t size_bytes;
} bytes;

static const uint8_t dataset_id[16] = {'e', 'x', 'a', 'm', 'p', 'l', 'e', ' ',
                                       'd', 'a', 't', 'a', 's', 'e', 't', '!'};

/* An overlay "bad" that skips utterance "utt-1" because of "noise". */
static void make_overlay(bytes *file)
{
    static const char name[] = "bad";
    static const char value[] = "noise";
    char folder[256];
    char path[300];
    uint8_t page[SPSH__PAGE_BYTES];
    uint8_t identity[16 + 16 + 3 + 16 + 8 + 5 + 8];
    uint8_t *content = identity + 35;
    uint8_t *data = NULL;
    spsh_file_writer *writer = NULL;
    spsh__section_writer *sections = NULL;
    spsh__footer footer;
    const spsh__section shapes[5] = {
        {1, 16, 1},
        {2, 8,  1},
        {3, 1,  5},
        {4, 1,  0},
        {5, 8,  1}
    };
    spsh__header header = {.kind = SPSH__KIND_OVERLAY, .ordinal = 1};
    memcpy(identity, dataset_id, 16);
    spsh__store_u64le(identity + 16, 1);
    spsh__store_u64le(identity + 24, 3);
    memcpy(identity + 32, name, 3);
    spsh__hash128("utt-1", 5, content);
    spsh__store_u64le(content + 16, 5);
    memcpy(content + 24, value, 5);
    spsh__store_u64le(content + 29, spsh__hash64("utt-1", 5));
    spsh__hash128(identity, sizeof(identity), header.file_id);
    memcpy(header.dataset_id, dataset_id, 16);
    test_temp_dir(folder, sizeof(folder));
    REQUIRE(spsh_file_writer_open(spsh_io_default(), folder, "o", 0, NULL, &writer, NULL) ==
            SPSH_OK);
    spsh__header_encode(&header, page);
    REQUIRE(spsh_file_writer_write(writer, page, sizeof(page), NULL) == SPSH_OK);
    REQUIRE(spsh__section_writer_open(writer, &header, shapes, 5, NULL, &sections, NULL) ==
            SPSH_OK);
    REQUIRE(spsh__section_append(sections, 1, content, 1, NULL) == SPSH_OK);
    REQUIRE(spsh__section_append(sections, 2, content + 16, 1, NULL) == SPSH_OK);
    REQUIRE(spsh__section_append(sections, 3, content + 24, 5, NULL) == SPSH_OK);
    REQUIRE(spsh__section_append(sections, 5, content + 29, 1, NULL) == SPSH_OK);
    REQUIRE(spsh__section_writer_finish(sections, NULL, 0, 0, 0, &footer, NULL) == SPSH_OK);
    REQUIRE(spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, NULL) == SPSH_OK);
    spsh__section_writer_free(sections);
    spsh_file_writer_free(writer);
    (void)snprintf(path, sizeof(path), "%s/o", folder);
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, BYTES_MAX, NULL, &data, &file->size_bytes,
                              NULL) == SPSH_OK);
    memcpy(file->data, data, file->size_bytes);
    free(data);
    test_remove_tree(folder);
}

static void example_file_id(uint8_t file_id[16])
{
    uint8_t identity[32] = {0};
    memcpy(identity, dataset_id, 16);
    spsh__hash128(identity, sizeof(identity), file_id);
}

/* The first block of shard 0 of unit 0: one record "a" with the payload "hello" and one seek point.
 */
static void make_block(bytes *file)
{
    static const spsh_seek_point point = {0, 2};
    uint8_t file_id[16];
    uint8_t payload_hash[16];
    spsh__record_size size;
    const spsh_record record = {
        .id = {(const uint8_t *)"a", 1},
        .payload_bytes = 5,
        .samples = 800,
        .sample_rate_hz = 8000,
        .nominal_rate_hz = 8000,
        .channels = 1,
        .codec = SPSH_CODEC_FLAC,
        .format = SPSH_SAMPLE_I16,
        .bits_per_sample = 16,
        .flags = SPSH_RECORD_UNDECODABLE,
        .seek_points = &point,
        .seek_point_count = 1,
    };
    memset(file, 0, sizeof(*file));
    file->size_bytes = BLOCK_BYTES;
    example_file_id(file_id);
    REQUIRE(spsh__record_check_fields(&record, &size, NULL) == SPSH_OK);
    spsh__record_head_encode(file_id, BLOCK_AT + 64, 0, &record, "hello", file->data + 64,
                             payload_hash);
    memcpy(file->data + 64 + size.head_bytes, "hello", 5);
    const spsh__block block = {
        .kind = SPSH__BLOCK_RECORDS,
        .block_bytes = BLOCK_BYTES,
        .used_bytes = 64 + size.record_bytes,
        .count = 1,
    };
    spsh__block_header_encode(&block, file->data);
    (void)spsh__block_seal(file_id, BLOCK_AT, file->data, BLOCK_BYTES);
}

static void print_dump(const char *name, const bytes *file)
{
    static const uint8_t zeros[16] = {0};
    bool star = false;
    printf("```hexdump %s\n", name);
    for (size_t at = 0; at < file->size_bytes; at += 16) {
        if (memcmp(file->data + at, zeros, 16) == 0) {
            if (!star)
                printf("*\n");
            star = true;
            continue;
        }
        star = false;
        printf("%08zx ", at);
        for (size_t i = 0; i < 16; i++)
            printf("%s%02x", i == 8 ? "  " : " ", file->data[at + i]);
        printf("  |");
        for (size_t i = 0; i < 16; i++) {
            uint8_t c = file->data[at + i];
            putchar(c >= 0x20 && c < 0x7f ? c : '.');
        }
        printf("|\n");
    }
    printf("%08zx\n```\n", file->size_bytes);
}

/* Reads the dump NAME of the document. Only the offsets and the bytes count. */
static void parse_dump(const char *name, bytes *file)
{
    char path[600];
    char line[400];
    char start[64];
    bool inside = false;
    test_source_path(path, sizeof(path), "docs/reference/FORMAT.md");
    (void)snprintf(start, sizeof(start), "```hexdump %s\n", name);
    memset(file, 0, sizeof(*file));
    FILE *document = fopen(path, "r");
    REQUIRE(document != NULL);
    while (fgets(line, sizeof(line), document) != NULL) {
        if (strcmp(line, start) == 0) {
            inside = true;
        } else if (inside && strncmp(line, "```", 3) == 0) {
            break;
        } else if (inside && line[0] != '*') {
            char *at = line;
            size_t offset = (size_t)strtoull(line, &at, 16);
            REQUIRE(offset <= BYTES_MAX - 16);
            file->size_bytes = offset;
            for (size_t i = 0; i < 16 && *at != '\n'; i++)
                file->data[offset + i] = (uint8_t)strtoul(at, &at, 16);
        }
    }
    (void)fclose(document);
    REQUIRE(inside);
}

static void check_same(const bytes *shown, const bytes *written)
{
    CHECK_U64(shown->size_bytes, written->size_bytes);
    for (size_t i = 0; i < written->size_bytes; i++)
        if (shown->data[i] != written->data[i]) {
            fprintf(stderr, "byte %zu: shown %02x, written %02x\n", i, shown->data[i],
                    written->data[i]);
            CHECK(shown->data[i] == written->data[i]);
            return;
        }
}

static void test_overlay_example(void)
{
    static bytes shown;
    static bytes written;
    spsh__container *c = NULL;
    const uint8_t *key = NULL;
    uint8_t want[16];
    spsh_bytes value;
    parse_dump("overlay", &shown);
    make_overlay(&written);
    check_same(&shown, &written);
    memory_io memory = {shown.data, shown.size_bytes};
    spsh_io io = memory_io_table(&memory);
    CHECK_I64(spsh__container_open(&io, "example", SPSH__KIND_OVERLAY, NULL, &c, NULL), SPSH_OK);
    REQUIRE(c != NULL);
    CHECK_I64(spsh__container_require_strings(c, 2, 1, NULL), SPSH_OK);
    CHECK_I64(spsh__container_column(c, 1, 0, 1, &key, NULL), SPSH_OK);
    spsh__hash128("utt-1", 5, want);
    CHECK(memcmp(key, want, 16) == 0);
    CHECK_I64(spsh__container_string(c, 2, 0, &value, NULL), SPSH_OK);
    CHECK(value.size_bytes == 5 && memcmp(value.data, "noise", 5) == 0);
    spsh__container_close(c);
}

static void test_block_example(void)
{
    static bytes shown;
    static bytes written;
    spsh__block block;
    spsh_record record;
    spsh_bytes payload;
    uint8_t file_id[16];
    parse_dump("block", &shown);
    make_block(&written);
    check_same(&shown, &written);
    example_file_id(file_id);
    CHECK_I64(spsh__block_header_decode(shown.data, BLOCK_AT, "example", &block, NULL), SPSH_OK);
    CHECK_I64(spsh__block_check(file_id, BLOCK_AT, shown.data, &block, "example", NULL), SPSH_OK);
    CHECK_I64(spsh_record_check(file_id, BLOCK_AT + 64, shown.data + 64,
                                (size_t)block.used_bytes - 64, &record, &payload, NULL),
              SPSH_OK);
    CHECK(payload.size_bytes == 5 && memcmp(payload.data, "hello", 5) == 0);
}

TEST_MAIN(golden_format_example)
{
    static bytes file;
    if (argc == 2 && strcmp(argv[1], "print") == 0) {
        make_overlay(&file);
        print_dump("overlay", &file);
        make_block(&file);
        print_dump("block", &file);
        return 0;
    }
    RUN(test_overlay_example);
    RUN(test_block_example);
    return TEST_RESULT();
}
