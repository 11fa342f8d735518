/* fault_dataset_damage.c: manifest, index, and overlays with every bit flipped, every length cut,
 * every rule violated.
 *
 *     fault_dataset_damage [--all]
 *
 * Without --all, only one bit of each zero byte (padding, most of a small file) is flipped. A flip
 * must cause an error or have no effect. Only the two footers may have no effect, since each can
 * replace the other.
 */
#include "dataset/manifest.h"
#include "memory_dataset.h"
#include "reseal.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

static memory_dataset memory;
static spsh_io io;
static spsh_dataset_options options = SPSH_DATASET_OPTIONS_INIT;
static uint8_t whole[16];
static bool flip_all;

static spsh_bytes text(const char *string)
{
    return (spsh_bytes){(const uint8_t *)string, strlen(string)};
}

static void make_memory(void)
{
    char root[512];
    char path[600];
    tiny_dataset tiny;
    const spsh_overlay_entry skip = {text("u1"), text("noise")};
    const spsh_overlay_entry texts[] = {
        {text("u0"), text("changed")},
        {text("w1"), text("too")    }
    };
    test_temp_dir(root, sizeof(root));
    (void)snprintf(path, sizeof(path), "%s/tiny", root);
    tiny_dataset_write(&tiny, path);
    REQUIRE(tiny_dataset_publish(&tiny, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_overlay_add(path, "a", SPSH_OVERLAY_SKIP, &skip, 1, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_overlay_add(path, "b", SPSH_OVERLAY_TRANSCRIPT, texts, 2, NULL, NULL) == SPSH_OK);
    memory_dataset_load(&memory, path);
    test_remove_tree(root);
    io = memory_dataset_table(&memory);
    options.io = &io;
    REQUIRE(tiny_dataset_read("memory", &options, true, whole, NULL) == SPSH_OK);
    REQUIRE(tiny_dataset_read("memory", &options, false, whole, NULL) == SPSH_OK);
}

/* ---- flips and cuts ---- */

static void flip_bits(const char *name)
{
    memory_file *file = memory_dataset_file(&memory, name);
    uint64_t unnoticed = 0;
    uint64_t flips = 0;
    size_t footers = file->size_bytes - SPSH__FOOTERS_BYTES;
    uint64_t expected = 0;
    for (size_t at = 0; at < file->size_bytes; at++) {
        bool every = flip_all || file->data[at] != 0;
        for (unsigned bit = every ? 0 : (unsigned)(at % 8); bit < (every ? 8 : at % 8 + 1); bit++) {
            uint8_t digest[16];
            spsh_error err = SPSH_ERROR_INIT;
            file->data[at] ^= (uint8_t)(1u << bit);
            spsh_status rc = tiny_dataset_read("memory", &options, false, digest, &err);
            file->data[at] ^= (uint8_t)(1u << bit);
            flips++;
            expected += at >= footers ? 1 : 0;
            if (rc != SPSH_OK) {
                CHECK(err.status == rc && strstr(err.message, name) != NULL);
                CHECK(at < footers);
                continue;
            }
            unnoticed++;
            CHECK(memcmp(digest, whole, 16) == 0);
        }
    }
    printf("%s: %" PRIu64 " flips, %" PRIu64 " in a footer whose copy is used\n", name, flips,
           unnoticed);
    CHECK_U64(unnoticed, expected);
}

static void test_flips(void)
{
    flip_bits("manifest.spsh");
    flip_bits("index-00000001.spsh");
    flip_bits("overlays/a.spsh");
    flip_bits("overlays/b.spsh");
}

static void cut(const char *name, size_t step)
{
    memory_file *file = memory_dataset_file(&memory, name);
    const memory_file kept = *file;
    for (size_t size = 0; size < kept.size_bytes; size += step) {
        uint8_t digest[16];
        file->data = (uint8_t *)malloc(size + (size == 0));
        file->size_bytes = size;
        REQUIRE(file->data != NULL);
        memcpy(file->data, kept.data, size);
        spsh_status rc = tiny_dataset_read("memory", &options, false, digest, NULL);
        CHECK(rc == SPSH_E_TRUNCATED || (size < 8 && rc == SPSH_E_NOT_SPEECHSHARD));
        free(file->data);
    }
    *file = kept;
}

static void test_cuts(void)
{
    cut("manifest.spsh", flip_all ? 1 : 61);
    cut("index-00000001.spsh", flip_all ? 1 : 61);
    cut("overlays/b.spsh", flip_all ? 1 : 61);
}

static void test_missing_files(void)
{
    for (size_t i = 0; i < memory.file_count; i++) {
        uint8_t digest[16];
        uint8_t *data = memory.files[i].data;
        spsh_error err = SPSH_ERROR_INIT;
        bool old = strncmp(memory.files[i].name, "manifest-", 9) == 0;
        memory.files[i].data = NULL;
        spsh_status rc = tiny_dataset_read("memory", &options, true, digest, &err);
        CHECK_I64(rc, old ? SPSH_OK : SPSH_E_NOT_FOUND);
        if (!old && strcmp(memory.files[i].name, "manifest.spsh") != 0)
            CHECK(strstr(err.message, memory.files[i].name) != NULL);
        memory.files[i].data = data;
    }
}

/* A shard with the same name from another pack. */
static void test_stale_shard(void)
{
    memory_file *a = memory_dataset_file(&memory, "shards/000001-000.spsh");
    memory_file *b = memory_dataset_file(&memory, "shards/000002-000.spsh");
    const memory_file kept = *a;
    uint8_t digest[16];
    a->data = b->data;
    a->size_bytes = b->size_bytes;
    CHECK_I64(tiny_dataset_read("memory", &options, false, digest, NULL), SPSH_E_MISMATCH);
    /* The right file id, but other content. */
    a->data = (uint8_t *)malloc(kept.size_bytes);
    a->size_bytes = kept.size_bytes;
    REQUIRE(a->data != NULL);
    memcpy(a->data, kept.data, kept.size_bytes);
    a->data[4096 + 64 + 70]++;
    reseal(a->data, a->size_bytes);
    CHECK_I64(tiny_dataset_read("memory", &options, false, digest, NULL), SPSH_E_MISMATCH);
    free(a->data);
    *a = kept;
}

/* ---- rules ---- */

static const char manifest_name[] = "manifest.spsh";
static const char index_name[] = "index-00000001.spsh";
static const char overlay_name[] = "overlays/b.spsh";

typedef struct rule {
    const char *file;
    uint32_t section; /* 0: the file's header */
    uint64_t at;      /* byte in it */
    unsigned width;
    uint64_t value;
    spsh_status want;
} rule;

/* clang-format off */
static const rule rules[] = {
  /* headers */
    {manifest_name, 0, 32, 4, 3, SPSH_E_MISMATCH},
    {manifest_name, 0, 36, 2, 2, SPSH_E_VERSION},
    {manifest_name, 0, 40, 8, 1, SPSH_OK},
    {manifest_name, 0, 48, 8, 1, SPSH_OK},
    {manifest_name, 0, 56, 8, 1, SPSH_E_VERSION},
    {manifest_name, 0, 80, 8, 4, SPSH_E_CORRUPT},
    {manifest_name, 0, 64, 1, 99, SPSH_E_CORRUPT},
    {index_name, 0, 32, 4, 2, SPSH_E_MISMATCH},
    {index_name, 0, 64, 1, 99, SPSH_E_MISMATCH},
    {index_name, 0, 80, 8, 2, SPSH_E_CORRUPT},
    {overlay_name, 0, 80, 8, 3, SPSH_E_VERSION},
    {overlay_name, 0, 64, 1, 99, SPSH_E_MISMATCH},
 /* manifest */
    {manifest_name, SPSH__MANIFEST_SHARD_BYTES, 0, 8, UINT64_MAX, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_SHARD_BYTES, 0, 8, 4096, SPSH_E_MISMATCH},
    {manifest_name, SPSH__MANIFEST_SHARD_ROOT_HASH, 0, 8, 1, SPSH_E_MISMATCH},
    {manifest_name, SPSH__MANIFEST_SHARD_FILE_ID, 16, 8, 1, SPSH_E_MISMATCH},
    {manifest_name, SPSH__MANIFEST_SHARD_UNIT, 0, 4, 1000000, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_SHARD_NUMBER, 0, 4, 1000, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_SHARD_NUMBER, 0, 4, 7, SPSH_E_NOT_FOUND},
    {manifest_name, SPSH__MANIFEST_UTTERANCE_BEGIN, 0, 8, 1, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_UTTERANCE_BEGIN, 8, 8, 3, SPSH_E_MISMATCH},
    {manifest_name, SPSH__MANIFEST_UTTERANCE_BEGIN, 8, 8, 14, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_UTTERANCE_BEGIN, 32, 8, 14, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_RECORD_BEGIN, 0, 8, 1, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_RECORD_BEGIN, 8, 8, 1, SPSH_E_MISMATCH},
    {manifest_name, SPSH__MANIFEST_RECORD_BEGIN, 32, 8, 10, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_GROUP_DOMAIN, 0, 4, 3, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_GROUP_SPLIT, 0, 4, 2, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_TOTALS, 0, 8, 12, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_TOTALS, 8, 8, 8, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_TOTALS, 40, 8, 4, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_INDEX_GENERATION, 0, 8, 2, SPSH_E_NOT_FOUND},
    {manifest_name, SPSH__MANIFEST_OVERLAY_NAME_ENDS, 0, 8, 2, SPSH_E_NOT_FOUND},
    {manifest_name, SPSH__MANIFEST_OVERLAY_NAME_ENDS, 8, 8, 1, SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_OVERLAY_NAMES, 0, 1, '/', SPSH_E_CORRUPT},
    {manifest_name, SPSH__MANIFEST_OVERLAY_NAMES, 0, 1, 'x', SPSH_E_NOT_FOUND},
    {manifest_name, SPSH__MANIFEST_DOMAIN_ENDS, 0, 8, 5, SPSH_E_CORRUPT},
 /* index: positions 0 to 12 */
    {index_name, SPSH__INDEX_ID_HASH, 0, 8, 1, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_BY_ID, 0, 8, 13, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_PAYLOAD_SHARD, 0, 4, 4, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_PAYLOAD_RECORD, 0, 4, 2, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_PAYLOAD_RECORD, 0, 4, 1, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_RECORD_OFFSET, 0, 8, 4097, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_RECORD_OFFSET, 0, 8, 4096, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_RECORD_OFFSET, 0, 8, UINT64_C(1) << 50, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_RECORD_BYTES, 0, 4, 0, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_RECORD_BYTES, 0, 4, 64, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_START_SAMPLE, 0, 8, UINT64_MAX, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_START_SAMPLE, 0, 8, 1, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_SAMPLES, 0, 8, 2999, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_SAMPLE_RATE_HZ, 0, 4, 999, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_SAMPLE_RATE_HZ, 0, 4, 16001, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_CHANNELS, 0, 2, 0, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_CHANNELS, 0, 2, 2, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_CODEC, 0, 2, SPSH_CODEC_WAV, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_FLAGS, 0, 4, 3, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_FLAGS, 0, 4, 5, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_DUPLICATE_OF, 24, 8, 3, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_DUPLICATE_OF, 24, 8, UINT64_MAX, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_DOMAIN, 0, 4, 3, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_DOMAIN + SPSH_NAME_DOCUMENT, 0, 4, 0, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_NAME_ENDS, 0, 8, 5, SPSH_E_CORRUPT},
    {index_name, SPSH__INDEX_NAME_ENDS, 16, 8, 5, SPSH_E_CORRUPT},
 /* overlay */
    {overlay_name, 2, 0, 8, 11, SPSH_E_CORRUPT},
    {overlay_name, 2, 8, 8, 5, SPSH_E_CORRUPT},
    {overlay_name, 3, 0, 1, 0xff, SPSH_E_CORRUPT},
};
/* clang-format on */

static void test_rules(void)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const rule *r = &rules[i];
        uint8_t digest[16];
        spsh_error err = SPSH_ERROR_INIT;
        memory_file *file = memory_dataset_file(&memory, r->file);
        memory_file *manifest = memory_dataset_file(&memory, manifest_name);
        const memory_file kept = *file;
        const memory_file kept_manifest = *manifest;
        file->data = (uint8_t *)malloc(kept.size_bytes);
        REQUIRE(file->data != NULL);
        memcpy(file->data, kept.data, kept.size_bytes);
        if (manifest != file) {
            manifest->data = (uint8_t *)malloc(kept_manifest.size_bytes);
            REQUIRE(manifest->data != NULL);
            memcpy(manifest->data, kept_manifest.data, kept_manifest.size_bytes);
        }
        uint8_t *to = r->section == 0 ? file->data : memory_dataset_section(file, r->section, NULL);
        for (unsigned b = 0; b < r->width; b++)
            to[r->at + b] = (uint8_t)(r->value >> (8 * b));
        reseal(file->data, file->size_bytes);
        if (r->section == 0 && r->at == 32) { /* the footers contain the kind, too */
            spsh__store_u32le(file->data + file->size_bytes - 4096 + 16, (uint32_t)r->value);
            spsh__store_u32le(file->data + file->size_bytes - 8192 + 16, (uint32_t)r->value);
            reseal(file->data, file->size_bytes);
        }
        if (manifest != file)
            memory_dataset_agree(&memory);
        spsh_status rc = tiny_dataset_read("memory", &options, true, digest, &err);
        if (rc != r->want)
            printf("rule %zu: %s, section %u, byte %" PRIu64 " = %" PRIu64 ": %s\n", i, r->file,
                   r->section, r->at, r->value, err.message);
        CHECK_I64(rc, r->want);
        CHECK(rc == SPSH_OK || err.message[0] != '\0');
        free(file->data);
        if (manifest != file)
            free(manifest->data);
        *file = kept;
        *manifest = kept_manifest;
    }
    uint8_t digest[16];
    CHECK_I64(tiny_dataset_read("memory", &options, false, digest, NULL), SPSH_OK);
    CHECK(memcmp(digest, whole, 16) == 0);
}

TEST_MAIN(fault_dataset_damage)
{
    flip_all = argc > 1 && strcmp(argv[1], "--all") == 0;
    make_memory();
    RUN(test_rules);
    RUN(test_missing_files);
    RUN(test_stale_shard);
    RUN(test_cuts);
    RUN(test_flips);
    memory_dataset_free(&memory);
    return TEST_RESULT();
}
