/* fault_shard_damage.c: the bytes of a shard change, or the calls that write and read it fail. The
 * reader must return an error or the original data. The writer must leave a complete shard or none.
 */
#include <dirent.h>

#include "fault_alloc.h"
#include "fault_io.h"
#include "memory_io.h"
#include "reseal.h"
#include "speechshard/shard.h"
#include "spsh_test.h"
#include "tiny_shard.h"

#include "base/base_internal.h"

#define NAME "000007-002.spsh"

enum { PAGE = 4096 };

typedef struct file {
    uint8_t *data;
    size_t size_bytes;
    uint8_t digest[16];
} file;

static char folder[256];

static void shard_path(char *path, size_t size_bytes)
{
    int length = snprintf(path, size_bytes, "%s/" NAME, folder);
    REQUIRE(length > 0 && (size_t)length < size_bytes);
}

static file write_and_load(tiny_kind kind)
{
    char path[300];
    spsh_shard_seal seal;
    spsh_error err = SPSH_ERROR_INIT;
    file f = {NULL, 0, {0}};
    shard_path(path, sizeof(path));
    (void)unlink(path);
    if (tiny_shard_write(folder, kind, NULL, NULL, &seal, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(err.status == SPSH_OK);
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &f.data, &f.size_bytes,
                              &err) == SPSH_OK);
    CHECK_U64(f.size_bytes, seal.file_bytes);
    memory_io memory = {f.data, f.size_bytes};
    spsh_io io = memory_io_table(&memory);
    REQUIRE(tiny_shard_read(NAME, NULL, &io, f.digest, &err) == SPSH_OK);
    return f;
}

static spsh_status read_bytes(const uint8_t *data, size_t size_bytes, uint8_t digest[16],
                              spsh_error *err)
{
    memory_io memory = {data, size_bytes};
    spsh_io io = memory_io_table(&memory);
    return tiny_shard_read(NAME, NULL, &io, digest, err);
}

/* ---- bits ---- */

/* Mark the bytes that reading ignores: the headers and padding of record blocks. Only verify and
 * repair use them, since a reader accesses the records directly. Both footers are marked, too,
 * because one copy may be lost. */
static void mark_untouched(const file *f, uint8_t *untouched)
{
    const uint8_t *footer = f->data + f->size_bytes - PAGE;
    uint64_t end = spsh__load_u64le(footer + 32);
    memset(untouched, 0, f->size_bytes);
    for (uint64_t at = PAGE; at < end;) {
        const uint8_t *block = f->data + at;
        uint64_t size = spsh__load_u64le(block + 16);
        uint64_t used = spsh__load_u64le(block + 24);
        if (spsh__load_u32le(block + 12) == 1) {
            memset(untouched + at, 1, 64);
            memset(untouched + at + used, 1, (size_t)(size - used));
        }
        at += size;
    }
    memset(untouched + f->size_bytes - 2 * (size_t)PAGE, 1, 2 * (size_t)PAGE);
}

static void flip(file *f, const uint8_t *untouched, size_t at, unsigned bit, size_t counts[2])
{
    uint8_t digest[16] = {0};
    spsh_error err = SPSH_ERROR_INIT;
    f->data[at] ^= (uint8_t)(1u << bit);
    spsh_status rc = read_bytes(f->data, f->size_bytes, digest, &err);
    f->data[at] ^= (uint8_t)(1u << bit);
    bool same = rc == SPSH_OK && memcmp(digest, f->digest, 16) == 0;
    bool good = untouched[at] ? same : rc != SPSH_OK && strstr(err.message, NAME) != NULL;
    if (!good)
        fprintf(stderr, "byte %zu bit %u: %s, \"%s\"\n", at, bit, spsh_status_name(rc),
                err.message);
    CHECK(good);
    counts[same ? 1 : 0]++;
}

static void test_every_bit(void)
{
    file f = write_and_load(TINY_SMALL);
    uint8_t *untouched = (uint8_t *)malloc(f.size_bytes);
    size_t counts[2] = {0, 0};
    REQUIRE(untouched != NULL);
    mark_untouched(&f, untouched);
    for (size_t at = 0; at < f.size_bytes && test_failures == 0; at++)
        for (unsigned bit = 0; bit < 8; bit++)
            flip(&f, untouched, at, bit, counts);
    printf("    %zu bytes: %zu bits found, %zu bits that reading does not need\n", f.size_bytes,
           counts[0], counts[1]);
    free(untouched);
    free(f.data);
}

/* The larger shard has two metadata blocks, a payload of two pages and an index of more than one
 * page. */
static void test_bits_of_a_larger_shard(void)
{
    file f = write_and_load(TINY_TWO);
    uint8_t *untouched = (uint8_t *)malloc(f.size_bytes);
    uint64_t seed = test_seed(1);
    size_t counts[2] = {0, 0};
    REQUIRE(untouched != NULL);
    mark_untouched(&f, untouched);
    for (size_t at = 0; at < f.size_bytes && test_failures == 0; at += 1 + test_random(&seed) % 150)
        flip(&f, untouched, at, (unsigned)(test_random(&seed) % 8), counts);
    printf("    %zu bytes: %zu bits found, %zu bits that reading does not need\n", f.size_bytes,
           counts[0], counts[1]);
    free(untouched);
    free(f.data);
}

static void test_every_truncation(void)
{
    file f = write_and_load(TINY_SMALL);
    for (size_t size = 0; size < f.size_bytes && test_failures == 0; size++) {
        uint8_t digest[16];
        uint8_t *cut = (uint8_t *)malloc(size == 0 ? 1 : size); /* exact: over-reads show */
        REQUIRE(cut != NULL);
        memcpy(cut, f.data, size);
        CHECK_I64(read_bytes(cut, size, digest, NULL), SPSH_E_TRUNCATED);
        free(cut);
    }
    free(f.data);
}

static void test_extended(void)
{
    file f = write_and_load(TINY_SMALL);
    static const size_t extra[] = {1, 7, 4095, 4096, 8192, 12288, 65536};
    for (size_t i = 0; i < sizeof(extra) / sizeof(extra[0]); i++) {
        uint8_t digest[16];
        uint8_t *longer = (uint8_t *)malloc(f.size_bytes + extra[i]);
        REQUIRE(longer != NULL);
        memcpy(longer, f.data, f.size_bytes);
        memset(longer + f.size_bytes, 0, extra[i]);
        spsh_status rc = read_bytes(longer, f.size_bytes + extra[i], digest, NULL);
        CHECK(rc == SPSH_E_TRUNCATED || rc == SPSH_E_CORRUPT);
        free(longer);
    }
    free(f.data);
}

/* ---- rules: one field broken, all checksums right ---- */

typedef enum part {
    HEADER,
    BLOCK,     /* the record block; record 0 is at 64, its payload at 256 */
    RECORD,    /* record 1, the one with a seek table */
    METADATA,  /* the metadata block */
    DIRECTORY, /* section directory */
    SECTION,   /* the data of section `section` */
    TABLE,     /* page table */
    FOOTER,    /* both copies */
    LAST_FOOTER
} part;

typedef struct rule {
    const char *what;
    part where;
    uint32_t section;
    uint32_t at;
    uint32_t width; /* 1, 2, 4, 8; 0: XOR the byte with value */
    uint64_t value;
    spsh_status want;
} rule;

/* One rule a line. */
/* clang-format off */
static const rule rules[] = {
    /* 2.2 */
    {"magic", HEADER, 0, 0, 1, 'X', SPSH_E_NOT_SPEECHSHARD},
    {"file_id", HEADER, 0, 16, 0, 1, SPSH_E_CORRUPT},
    {"file_id, last byte", HEADER, 0, 31, 0, 1, SPSH_E_CORRUPT},
    {"kind of another file", HEADER, 0, 32, 4, 2, SPSH_E_CORRUPT}, /* a manifest has no number */
    {"unknown kind", HEADER, 0, 32, 4, 8, SPSH_E_CORRUPT},
    {"version_major", HEADER, 0, 36, 2, 2, SPSH_E_VERSION},
    {"version_minor", HEADER, 0, 38, 2, 7, SPSH_OK},
    {"features_ignore", HEADER, 0, 40, 8, 1, SPSH_OK},
    {"features_readonly", HEADER, 0, 48, 8, 1, SPSH_OK},
    {"features_refuse", HEADER, 0, 56, 8, 1, SPSH_E_VERSION},
    {"dataset_id", HEADER, 0, 64, 0, 1, SPSH_E_CORRUPT},
    {"ordinal", HEADER, 0, 80, 8, 8, SPSH_E_CORRUPT},
    {"sub_ordinal", HEADER, 0, 88, 4, 3, SPSH_E_CORRUPT},
    {"page_bytes", HEADER, 0, 92, 4, 4096, SPSH_E_CORRUPT},
    {"first_record", HEADER, 0, 96, 8, 5, SPSH_E_CORRUPT},
    {"reserved", HEADER, 0, 112, 1, 1, SPSH_E_CORRUPT},
    {"reserved, last byte", HEADER, 0, 4095, 1, 1, SPSH_E_CORRUPT},
    /* 2.3 */
    {"section ids ascend", DIRECTORY, 0, 40, 4, 1, SPSH_E_CORRUPT},
    {"element_bytes 0", DIRECTORY, 0, 4, 4, 0, SPSH_E_CORRUPT},
    {"element_bytes 3", DIRECTORY, 0, 4, 4, 3, SPSH_E_CORRUPT},
    {"element_bytes 32", DIRECTORY, 0, 4, 4, 32, SPSH_E_CORRUPT},
    {"element_bytes of a known section", DIRECTORY, 0, 4, 4, 4, SPSH_E_CORRUPT},
    {"section offset", DIRECTORY, 0, 8, 0, 64, SPSH_E_CORRUPT},
    {"section offset, alignment", DIRECTORY, 0, 8, 0, 1, SPSH_E_CORRUPT},
    {"section offset, outside", DIRECTORY, 0, 15, 1, 1, SPSH_E_CORRUPT},
    {"section count, outside", DIRECTORY, 0, 16, 8, 1000, SPSH_E_CORRUPT},
    {"section count, overflow", DIRECTORY, 0, 16, 8, UINT64_C(1) << 61, SPSH_E_CORRUPT},
    {"section count of records", DIRECTORY, 0, 16, 8, 3, SPSH_E_CORRUPT},
    {"section reserved", DIRECTORY, 0, 24, 1, 1, SPSH_E_CORRUPT},
    {"section reserved, last byte", DIRECTORY, 0, 39, 1, 1, SPSH_E_CORRUPT},
    {"an unknown id instead of a known one", DIRECTORY, 0, 37 * 40, 4, 97, SPSH_E_CORRUPT},
    {"string table: ends descend", SECTION, 80, 0, 8, 100, SPSH_E_CORRUPT},
    {"string table: last end", SECTION, 80, 8, 8, 3, SPSH_E_CORRUPT},
    /* 2.4 */
    {"footer kind", FOOTER, 0, 16, 4, 3, SPSH_E_CORRUPT},
    {"section_count", FOOTER, 0, 20, 4, 257, SPSH_E_CORRUPT},
    {"section_count, one less", FOOTER, 0, 20, 4, 37, SPSH_E_CORRUPT},
    {"file_bytes, more", FOOTER, 0, 24, 8, 1 << 20, SPSH_E_TRUNCATED},
    {"file_bytes, less", FOOTER, 0, 24, 8, 8192, SPSH_E_CORRUPT},
    {"section_area_offset", FOOTER, 0, 32, 8, 4096, SPSH_E_CORRUPT},
    {"section_area_offset, huge", FOOTER, 0, 39, 1, 0xff, SPSH_E_CORRUPT},
    {"section_area_offset 0", FOOTER, 0, 32, 8, 0, SPSH_E_CORRUPT},
    {"section_area_bytes", FOOTER, 0, 40, 8, 4095, SPSH_E_CORRUPT},
    {"section_area_bytes, other", FOOTER, 0, 40, 8, 8192, SPSH_E_CORRUPT},
    {"page_table_offset", FOOTER, 0, 48, 0, 64, SPSH_E_CORRUPT},
    {"page_table_bytes", FOOTER, 0, 56, 8, 8192, SPSH_E_CORRUPT},
    {"page_count", FOOTER, 0, 64, 8, 2, SPSH_E_CORRUPT},
    {"block_count, one more", FOOTER, 0, 80, 8, 3, SPSH_E_CORRUPT},
    {"block_count, huge", FOOTER, 0, 80, 8, 1 << 20, SPSH_E_CORRUPT},
    {"record_count", FOOTER, 0, 104, 8, 3, SPSH_E_CORRUPT},
    {"record_count, limit", FOOTER, 0, 104, 8, (UINT64_C(1) << 31) + 1, SPSH_E_LIMIT},
    {"utterance_count", FOOTER, 0, 112, 8, 6, SPSH_E_CORRUPT},
    {"utterance_count, limit", FOOTER, 0, 112, 8, (UINT64_C(1) << 31) + 1, SPSH_E_LIMIT},
    {"copy", FOOTER, 0, 120, 4, 2, SPSH_E_CORRUPT},
    {"footer reserved", FOOTER, 0, 124, 1, 1, SPSH_E_CORRUPT},
    {"footer reserved, last byte", FOOTER, 0, 4079, 1, 1, SPSH_E_CORRUPT},
    {"only copy 1 is wrong", LAST_FOOTER, 0, 124, 1, 1, SPSH_OK},
    /* 3.1: of the metadata block, which is read whole */
    {"block magic", METADATA, 0, 8, 1, 'X', SPSH_E_CORRUPT},
    {"block kind", METADATA, 0, 12, 4, 1, SPSH_E_CORRUPT},
    {"block kind, unknown", METADATA, 0, 12, 4, 3, SPSH_E_CORRUPT},
    {"block_bytes 0", METADATA, 0, 16, 8, 0, SPSH_E_CORRUPT},
    {"block_bytes, no multiple", METADATA, 0, 16, 8, 4097, SPSH_E_CORRUPT},
    {"block_bytes, outside", METADATA, 0, 16, 8, 8192, SPSH_E_CORRUPT},
    {"block_bytes, over 4 MiB", METADATA, 0, 16, 8, (4 << 20) + 4096, SPSH_E_CORRUPT},
    {"used_bytes, too small", METADATA, 0, 24, 8, 64, SPSH_E_CORRUPT},
    {"used_bytes, without directory", METADATA, 0, 24, 8, 70, SPSH_E_CORRUPT},
    {"used_bytes, too large", METADATA, 0, 24, 8, 4097, SPSH_E_CORRUPT},
    {"used_bytes, all of the block", METADATA, 0, 24, 8, 4096, SPSH_E_CORRUPT},
    {"block padding", METADATA, 0, 4095, 1, 1, SPSH_E_CORRUPT},
    {"block first", METADATA, 0, 32, 8, 1, SPSH_E_CORRUPT},
    {"block first, overflow", METADATA, 0, 32, 8, UINT64_MAX, SPSH_E_CORRUPT},
    {"block count 0", METADATA, 0, 40, 4, 0, SPSH_E_CORRUPT},
    {"block count", METADATA, 0, 40, 4, 4, SPSH_E_CORRUPT},
    {"block flags", METADATA, 0, 44, 4, 2, SPSH_E_CORRUPT},
    {"block oversize", METADATA, 0, 44, 4, 1, SPSH_E_CORRUPT},
    {"block reserved", METADATA, 0, 56, 1, 1, SPSH_E_CORRUPT},
    /* 3.2 */
    {"record magic", RECORD, 0, 8, 1, 'X', SPSH_E_CORRUPT},
    {"head_bytes 0", RECORD, 0, 12, 4, 0, SPSH_E_CORRUPT},
    {"head_bytes, no multiple", RECORD, 0, 12, 4, 200, SPSH_E_CORRUPT},
    {"head_bytes, more", RECORD, 0, 12, 4, 320, SPSH_E_CORRUPT},
    {"head_bytes, over 16 MiB", RECORD, 0, 12, 4, (16 << 20) + 64, SPSH_E_CORRUPT},
    {"payload_bytes", RECORD, 0, 16, 8, 250, SPSH_E_CORRUPT},
    {"payload_bytes, over 2 GiB", RECORD, 0, 16, 8, UINT64_C(1) << 62, SPSH_E_CORRUPT},
    {"record ordinal", RECORD, 0, 24, 8, 2, SPSH_E_CORRUPT},
    {"samples", RECORD, 0, 32, 8, 9999, SPSH_E_CORRUPT},
    {"sample_rate_hz", RECORD, 0, 40, 4, 999, SPSH_E_CORRUPT},
    {"sample_rate_hz, too high", RECORD, 0, 40, 4, 768001, SPSH_E_CORRUPT},
    {"nominal_rate_hz", RECORD, 0, 44, 4, 8000, SPSH_E_CORRUPT},
    {"channels 0", RECORD, 0, 48, 2, 0, SPSH_E_CORRUPT},
    {"channels 65", RECORD, 0, 48, 2, 65, SPSH_E_CORRUPT},
    {"codec 0", RECORD, 0, 50, 2, 0, SPSH_E_CORRUPT},
    {"codec 7", RECORD, 0, 50, 2, 7, SPSH_E_CORRUPT},
    {"bits of a lossy codec", RECORD, 0, 50, 2, 3, SPSH_E_CORRUPT},
    {"sample_format 0", RECORD, 0, 52, 2, 0, SPSH_E_CORRUPT},
    {"sample_format 4", RECORD, 0, 52, 2, 4, SPSH_E_CORRUPT},
    {"bits_per_sample", RECORD, 0, 54, 2, 65, SPSH_E_CORRUPT},
    {"record flags, unknown", RECORD, 0, 56, 4, 33, SPSH_E_CORRUPT},
    {"record flags, bits 0 and 1", RECORD, 0, 56, 4, 3, SPSH_E_CORRUPT},
    {"record flags, bits 0 and 2", RECORD, 0, 56, 4, 5, SPSH_E_CORRUPT},
    {"pcm_hash without its flag", RECORD, 0, 56, 4, 0, SPSH_E_CORRUPT},
    {"id_bytes 0", RECORD, 0, 60, 4, 0, SPSH_E_CORRUPT},
    {"id_bytes, too many", RECORD, 0, 60, 4, 4097, SPSH_E_CORRUPT},
    {"pcm_hash", RECORD, 0, 64, 0, 1, SPSH_E_CORRUPT}, /* the index has another */
    {"payload_hash", RECORD, 0, 80, 0, 1, SPSH_E_CORRUPT}, /* likewise */
    {"seek_count", RECORD, 0, 96, 4, 4, SPSH_E_CORRUPT},
    {"seek_count, huge", RECORD, 0, 96, 4, UINT32_MAX, SPSH_E_CORRUPT},
    {"page_count", RECORD, 0, 100, 4, 2, SPSH_E_CORRUPT},
    {"record reserved", RECORD, 0, 104, 1, 1, SPSH_E_CORRUPT},
    {"record reserved, last byte", RECORD, 0, 127, 1, 1, SPSH_E_CORRUPT},
    {"id is not UTF-8", RECORD, 0, 128, 1, 0xff, SPSH_E_CORRUPT},
    {"id padding", RECORD, 0, 128 + 8, 1, 1, SPSH_E_CORRUPT},
    {"first seek point", RECORD, 0, 136, 8, 1, SPSH_E_CORRUPT},
    {"seek samples ascend", RECORD, 0, 152, 8, 0, SPSH_E_CORRUPT},
    {"seek offsets ascend", RECORD, 0, 176, 8, 60, SPSH_E_CORRUPT},
    {"seek sample inside", RECORD, 0, 168, 8, 10001, SPSH_E_CORRUPT},
    {"seek offset inside", RECORD, 0, 176, 8, 256, SPSH_E_CORRUPT},
    {"head padding", BLOCK, 0, 64 + 150, 1, 1, SPSH_E_CORRUPT},
    {"payload padding", BLOCK, 0, 64 + 192 + 100, 1, 1, SPSH_E_CORRUPT},
    /* 3.3 */
    {"column_count", METADATA, 0, 64, 4, 65, SPSH_E_CORRUPT},
    {"column_count, one less", METADATA, 0, 64, 4, 10, SPSH_E_CORRUPT},
    {"metadata reserved", METADATA, 0, 68, 1, 1, SPSH_E_CORRUPT},
    {"column ids ascend", METADATA, 0, 72 + 32, 4, 1, SPSH_E_CORRUPT},
    {"column missing", METADATA, 0, 72, 4, 0, SPSH_E_CORRUPT},
    {"column encoding", METADATA, 0, 76, 4, 2, SPSH_E_CORRUPT},
    {"LZ4 column as raw", METADATA, 0, 76, 4, 0, SPSH_E_CORRUPT},
    {"column offset", METADATA, 0, 80, 0, 8, SPSH_E_CORRUPT},
    {"column offset, outside", METADATA, 0, 80, 8, UINT64_MAX - 7, SPSH_E_CORRUPT},
    {"stored_bytes", METADATA, 0, 88, 8, 1 << 20, SPSH_E_CORRUPT},
    {"stored_bytes, overflow", METADATA, 0, 88, 8, UINT64_MAX, SPSH_E_CORRUPT},
    {"raw_bytes", METADATA, 0, 96, 8, 1, SPSH_E_CORRUPT},
    {"raw_bytes, over 1 GiB", METADATA, 0, 96, 8, (UINT64_C(1) << 30) + 1, SPSH_E_CORRUPT},
    {"raw_bytes, ratio", METADATA, 0, 96, 8, 1 << 28, SPSH_E_CORRUPT},
    /* 3.4 against the blocks */
    {"record_offset", SECTION, 1, 8, 0, 64, SPSH_E_CORRUPT},
    {"record_offset, alignment", SECTION, 1, 8, 0, 1, SPSH_E_CORRUPT},
    {"record_offset, outside", SECTION, 1, 8, 8, UINT64_C(1) << 40, SPSH_E_CORRUPT},
    {"record_offset 0", SECTION, 1, 8, 8, 0, SPSH_E_CORRUPT},
    {"record_head_bytes", SECTION, 2, 4, 4, 320, SPSH_E_CORRUPT},
    {"record_head_bytes 0", SECTION, 2, 4, 4, 0, SPSH_E_CORRUPT},
    {"record_payload_bytes", SECTION, 3, 8, 8, 255, SPSH_E_CORRUPT},
    {"record_payload_bytes, huge", SECTION, 3, 8, 8, UINT64_MAX, SPSH_E_CORRUPT},
    {"record_samples", SECTION, 4, 8, 8, 20000, SPSH_E_CORRUPT},
    {"record_sample_rate_hz", SECTION, 5, 4, 4, 8000, SPSH_E_CORRUPT},
    {"record_nominal_rate_hz", SECTION, 6, 4, 4, 8000, SPSH_E_CORRUPT},
    {"record_channels", SECTION, 7, 2, 2, 1, SPSH_E_CORRUPT},
    {"record_codec", SECTION, 8, 2, 2, 1, SPSH_E_CORRUPT},
    {"record_sample_format", SECTION, 9, 2, 2, 2, SPSH_E_CORRUPT},
    {"record_bits_per_sample", SECTION, 10, 2, 2, 24, SPSH_E_CORRUPT},
    {"record_flags", SECTION, 11, 4, 4, 17, SPSH_E_CORRUPT},
    {"record_pcm_hash", SECTION, 12, 16, 0, 1, SPSH_E_CORRUPT},
    {"record_payload_hash", SECTION, 13, 16, 0, 1, SPSH_E_CORRUPT},
    {"id_hash", SECTION, 32, 0, 0, 1, SPSH_E_CORRUPT},
    {"by_id, outside", SECTION, 33, 0, 4, 5, SPSH_E_CORRUPT},
    {"row: record", SECTION, 34, 8, 8, 12, SPSH_E_CORRUPT},
    {"row: record, outside", SECTION, 34, 8, 8, 14, SPSH_E_CORRUPT},
    {"row: start_sample", SECTION, 35, 8, 8, 4, SPSH_E_CORRUPT},
    {"row: the segment leaves its record", SECTION, 35, 8, 8, 9999, SPSH_E_CORRUPT},
    {"row: overflow", SECTION, 35, 8, 8, UINT64_MAX, SPSH_E_CORRUPT},
    {"row: samples", SECTION, 36, 8, 8, 501, SPSH_E_CORRUPT},
    {"row: flags", SECTION, 37, 4, 4, 0, SPSH_E_CORRUPT},
    {"row: flags, unknown", SECTION, 37, 4, 4, 3, SPSH_E_CORRUPT},
    {"row: domain, outside", SECTION, 38, 0, 4, 2, SPSH_E_CORRUPT},
    {"row: document, outside", SECTION, 42, 0, 4, 0, SPSH_E_CORRUPT},
    {"row: text_bytes", SECTION, 43, 0, 4, 3, SPSH_E_CORRUPT},
    {"row: text_bytes without text", SECTION, 43, 8, 4, 3, SPSH_E_CORRUPT},
    {"metadata_offset", SECTION, 64, 0, 0, 16, SPSH_E_CORRUPT},
    {"metadata_offset, a record block", SECTION, 64, 0, 8, 4096, SPSH_E_CORRUPT},
    {"metadata_offset, outside", SECTION, 64, 0, 8, 12288, SPSH_E_CORRUPT},
    {"metadata_first_row", SECTION, 65, 0, 4, 1, SPSH_E_CORRUPT},
};
/* clang-format on */

static uint64_t find_section(const file *f, uint32_t id)
{
    const uint8_t *footer = f->data + f->size_bytes - PAGE;
    uint64_t area = spsh__load_u64le(footer + 32);
    uint32_t count = spsh__load_u32le(footer + 20);
    for (uint32_t n = 0; n < count; n++) {
        const uint8_t *entry = f->data + area + (size_t)n * 40;
        if (spsh__load_u32le(entry) == id)
            return spsh__load_u64le(entry + 8);
    }
    test_stop(__FILE__, __LINE__, "no such section");
}

static uint64_t find_part(const file *f, const rule *r)
{
    const uint8_t *footer = f->data + f->size_bytes - PAGE;
    switch (r->where) {
    case HEADER: return 0;
    case BLOCK: return PAGE;
    case RECORD: return spsh__load_u64le(f->data + find_section(f, 1) + 8);
    case METADATA: return spsh__load_u64le(f->data + find_section(f, 64));
    case DIRECTORY: return spsh__load_u64le(footer + 32);
    case SECTION: return find_section(f, r->section);
    case TABLE: return spsh__load_u64le(footer + 48);
    case FOOTER: return f->size_bytes - 2 * (size_t)PAGE;
    case LAST_FOOTER: return f->size_bytes - PAGE;
    }
    return 0;
}

static void patch(uint8_t *at, const rule *r)
{
    switch (r->width) {
    case 0: *at ^= (uint8_t)r->value; break;
    case 1: *at = (uint8_t)r->value; break;
    case 2: spsh__store_u16le(at, (uint16_t)r->value); break;
    case 4: spsh__store_u32le(at, (uint32_t)r->value); break;
    default: spsh__store_u64le(at, r->value); break;
    }
}

static void test_every_rule(void)
{
    file f = write_and_load(TINY_SMALL);
    uint8_t *copy = (uint8_t *)malloc(f.size_bytes);
    REQUIRE(copy != NULL);
    memcpy(copy, f.data, f.size_bytes);
    reseal(copy, f.size_bytes);
    CHECK(memcmp(copy, f.data, f.size_bytes) == 0); /* nothing was changed, so nothing changes */
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const rule *r = &rules[i];
        uint8_t digest[16];
        spsh_error err = SPSH_ERROR_INIT;
        uint64_t at = find_part(&f, r) + r->at;
        memcpy(copy, f.data, f.size_bytes);
        patch(copy + at, r);
        if (r->where == FOOTER)
            patch(copy + at + PAGE, r);
        reseal(copy, f.size_bytes);
        spsh_status rc = read_bytes(copy, f.size_bytes, digest, &err);
        if (rc != r->want)
            fprintf(stderr, "rule \"%s\": %s \"%s\", want %s\n", r->what, spsh_status_name(rc),
                    err.message, spsh_status_name(r->want));
        CHECK(rc == r->want);
    }
    printf("    %zu rules\n", sizeof(rules) / sizeof(rules[0]));
    free(copy);
    free(f.data);
}

/* ---- memory ---- */

static void test_reader_allocations(void)
{
    file f = write_and_load(TINY_SMALL);
    memory_io memory = {f.data, f.size_bytes};
    spsh_io io = memory_io_table(&memory);
    spsh_status rc = SPSH_E_NO_MEMORY;
    uint64_t fail_at = 0;
    for (; rc != SPSH_OK; fail_at++) {
        uint8_t digest[16];
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        REQUIRE(fail_at < 200);
        rc = tiny_shard_read(NAME, &allocator, &io, digest, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_I64(fault.live_count, 0);
    }
    printf("    %llu allocations\n", (unsigned long long)fail_at - 1);
    free(f.data);
}

static size_t count_files(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    REQUIRE(dir != NULL);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count += entry->d_name[0] != '.' ? 1 : 0;
    (void)closedir(dir);
    return count;
}

static void test_writer_allocations(void)
{
    char path[300];
    spsh_status rc = SPSH_E_NO_MEMORY;
    uint64_t fail_at = 0;
    shard_path(path, sizeof(path));
    for (; rc != SPSH_OK; fail_at++) {
        spsh_shard_seal seal;
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        REQUIRE(fail_at < 2000);
        (void)unlink(path);
        rc = tiny_shard_write(folder, TINY_SMALL, &allocator, NULL, &seal, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_I64(fault.live_count, 0);
        CHECK_U64(count_files(), rc == SPSH_OK ? 1 : 0);
    }
    printf("    %llu allocations\n", (unsigned long long)fail_at - 1);
}

/* ---- calls ---- */

static bool is_published(const file *f)
{
    char path[300];
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    shard_path(path, sizeof(path));
    if (spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &data, &size_bytes, NULL) !=
        SPSH_OK)
        return false;
    CHECK_U64(size_bytes, f->size_bytes); /* never an incomplete shard, never another shard */
    CHECK(size_bytes == f->size_bytes && memcmp(data, f->data, size_bytes) == 0);
    free(data);
    return true;
}

static void remove_all(void)
{
    DIR *dir = opendir(folder);
    REQUIRE(dir != NULL);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[600];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            CHECK(unlink(path) == 0);
    }
    (void)closedir(dir);
}

/* Makes call n fail, for all n; then writes again. */
static void fail_each_call(const file *f, int os_errno, uint64_t fail_count, spsh_status want)
{
    spsh_status rc = SPSH_E_IO;
    uint64_t fail_at = 0;
    bool crash = fail_count == UINT64_MAX;
    for (bool reached = true; reached; fail_at++) {
        spsh_shard_seal seal;
        fault_io fault = {.fail_at = fail_at, .fail_count = fail_count, .fail_errno = os_errno};
        spsh_io io = fault_io_table(&fault);
        REQUIRE(fail_at < 500);
        remove_all();
        rc = tiny_shard_write(folder, TINY_SMALL, NULL, &io, &seal, NULL);
        reached = fault.call_count > fail_at;
        CHECK_I64(fault.open_count, 0);
        bool published = is_published(f);
        CHECK(rc == SPSH_OK ? published : rc == want);
        if (!crash)
            CHECK_U64(count_files(), published ? 1 : 0);
        /* A second call without faults succeeds whether or not the first one published. */
        CHECK_I64(tiny_shard_write(folder, TINY_SMALL, NULL, NULL, &seal, NULL), SPSH_OK);
        CHECK(is_published(f));
    }
    CHECK_I64(rc, SPSH_OK);
    printf("    errno %d, %s: %llu calls\n", os_errno, crash ? "crash" : "once",
           (unsigned long long)fail_at - 1);
}

static void test_writer_calls(void)
{
    file f = write_and_load(TINY_SMALL);
    fail_each_call(&f, EIO, 1, SPSH_E_IO);
    fail_each_call(&f, ENOSPC, 1, SPSH_E_NO_SPACE);
    fail_each_call(&f, EDQUOT, 1, SPSH_E_NO_SPACE);
    fail_each_call(&f, EINTR, 1, SPSH_E_IO);
    fail_each_call(&f, EIO, UINT64_MAX, SPSH_E_IO);
    fail_each_call(&f, ENOSPC, UINT64_MAX, SPSH_E_NO_SPACE);
    free(f.data);
}

static void test_short_transfers(void)
{
    file f = write_and_load(TINY_SMALL);
    static const size_t sizes[] = {1, 7, 1000, 4095};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char path[300];
        uint8_t digest[16];
        spsh_shard_seal seal;
        fault_io fault = {.fail_at = UINT64_MAX, .transfer_bytes_max = sizes[i]};
        spsh_io io = fault_io_table(&fault);
        remove_all();
        shard_path(path, sizeof(path));
        CHECK_I64(tiny_shard_write(folder, TINY_SMALL, NULL, &io, &seal, NULL), SPSH_OK);
        CHECK(is_published(&f));
        CHECK_I64(tiny_shard_read(path, NULL, &io, digest, NULL), SPSH_OK);
        CHECK(memcmp(digest, f.digest, 16) == 0);
        CHECK_I64(fault.open_count, 0);
    }
    free(f.data);
}

static void test_reader_calls(void)
{
    file f = write_and_load(TINY_SMALL);
    char path[300];
    spsh_status rc = SPSH_E_IO;
    uint64_t fail_at = 0;
    shard_path(path, sizeof(path));
    for (bool reached = true; reached; fail_at++) {
        uint8_t digest[16] = {0};
        fault_io fault = {.fail_at = fail_at, .fail_count = 1, .fail_errno = EIO};
        spsh_io io = fault_io_table(&fault);
        REQUIRE(fail_at < 500);
        rc = tiny_shard_read(path, NULL, &io, digest, NULL);
        reached = fault.call_count > fail_at;
        CHECK(rc == SPSH_OK || rc == SPSH_E_IO || rc == SPSH_E_NO_MEMORY);
        CHECK(rc != SPSH_OK || memcmp(digest, f.digest, 16) == 0);
        CHECK_I64(fault.open_count, 0);
    }
    CHECK_I64(rc, SPSH_OK);
    free(f.data);
}

/* The writer never changes an existing shard with other bytes. */
static void test_other_contents_stay(void)
{
    char path[300];
    spsh_shard_seal seal;
    shard_path(path, sizeof(path));
    remove_all();
    CHECK_I64(tiny_shard_write(folder, TINY_TWO, NULL, NULL, &seal, NULL), SPSH_OK);
    CHECK_I64(tiny_shard_write(folder, TINY_SMALL, NULL, NULL, &seal, NULL), SPSH_E_EXISTS);
    CHECK_U64(count_files(), 1);
    struct stat info;
    CHECK(stat(path, &info) == 0 && (uint64_t)info.st_size > 100000);
}

TEST_MAIN(fault_shard_damage)
{
    test_temp_dir(folder, sizeof(folder));
    RUN(test_every_truncation);
    RUN(test_extended);
    RUN(test_every_rule);
    remove_all();
    RUN(test_reader_allocations);
    remove_all();
    RUN(test_writer_allocations);
    RUN(test_writer_calls);
    RUN(test_short_transfers);
    RUN(test_reader_calls);
    RUN(test_other_contents_stay);
    remove_all();
    RUN(test_bits_of_a_larger_shard);
    RUN(test_every_bit);
    test_remove_tree(folder);
    return TEST_RESULT();
}
