/* unit_overlay.c: edits of a sealed dataset: adding, stacking, undoing, rejecting, interrupting,
 * and damaging them.
 */
#include <sys/stat.h>

#include "base/checksum.h"
#include "dataset/dataset_lock.h"
#include "dataset/overlay.h"
#include "fault_alloc.h"
#include "fault_io.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

static char root[512];

static spsh_bytes text(const char *string)
{
    return (spsh_bytes){(const uint8_t *)string, strlen(string)};
}

static bool is_text(spsh_bytes bytes, const char *string)
{
    if (bytes.size_bytes != strlen(string))
        return false;
    return bytes.size_bytes == 0 || memcmp(bytes.data, string, bytes.size_bytes) == 0;
}

static void make_dataset(tiny_dataset *tiny, const char *name)
{
    char path[600];
    REQUIRE(snprintf(path, sizeof(path), "%s/%s", root, name) < 600);
    tiny_dataset_write(tiny, path);
    REQUIRE(tiny_dataset_publish(tiny, SPSH_DEDUPE_BYTES, NULL, NULL, NULL, NULL) == SPSH_OK);
}

static spsh_status add(const char *path, const char *name, spsh_overlay_type type, const char *id,
                       const char *value)
{
    const spsh_overlay_entry entry = {text(id), text(value)};
    return spsh_overlay_add(path, name, type, &entry, 1, NULL, NULL);
}

static spsh_dataset *open_dataset(const char *path, uint64_t generation, uint32_t flags)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    opt.generation = generation;
    opt.flags = flags;
    if (spsh_dataset_open(path, &opt, &dataset, &err) != SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
    return dataset;
}

static void check_text(const spsh_dataset *dataset, uint64_t position, const char *want,
                       bool has_text)
{
    spsh_reader *reader = NULL;
    spsh_utterance u;
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    REQUIRE(spsh_reader_metadata(reader, position, &u, NULL) == SPSH_OK);
    CHECK(is_text(u.text, want));
    CHECK(((u.flags & SPSH_UTTERANCE_HAS_TEXT) != 0) == has_text);
    spsh_reader_close(reader);
}

static void check_skip(const spsh_dataset *dataset, const char *id, const char *want)
{
    bool skipped = true;
    spsh_bytes reason = text("untouched");
    CHECK_I64(spsh_dataset_skipped(dataset, text(id), &skipped, &reason, NULL), SPSH_OK);
    CHECK(skipped == (want != NULL));
    CHECK(is_text(reason, want == NULL ? "untouched" : want));
}

static void test_skips_and_transcripts(void)
{
    tiny_dataset tiny;
    make_dataset(&tiny, "both");
    spsh_overlay_entry skips[] = {
        {text("w2"),     text("noise")  },
        {text("u1"),     text("")       },
        {text("nobody"), text("unknown")}
    };
    CHECK_I64(spsh_overlay_add(tiny.path, "skips.1", SPSH_OVERLAY_SKIP, skips, 3, NULL, NULL),
              SPSH_OK);
    spsh_overlay_entry texts[] = {
        {text("u2"), text("now it has one")},
        {text("u0"), text("")              }
    };
    CHECK_I64(spsh_overlay_add(tiny.path, "texts", SPSH_OVERLAY_TRANSCRIPT, texts, 2, NULL, NULL),
              SPSH_OK);
    spsh_dataset *dataset = open_dataset(tiny.path, 0, 0);
    CHECK_U64(spsh_dataset_info_get(dataset)->generation, 3);
    CHECK_U64(spsh_dataset_info_get(dataset)->overlay_count, 2);
    spsh_overlay_info info = SPSH_OVERLAY_INFO_INIT;
    REQUIRE(spsh_dataset_overlay(dataset, 0, &info, NULL) == SPSH_OK);
    CHECK(is_text(info.name, "skips.1") && info.type == SPSH_OVERLAY_SKIP && info.entry_count == 3);
    REQUIRE(spsh_dataset_overlay(dataset, 1, &info, NULL) == SPSH_OK);
    CHECK(is_text(info.name, "texts") && info.type == SPSH_OVERLAY_TRANSCRIPT);
    CHECK_I64(spsh_dataset_overlay(dataset, 2, &info, NULL), SPSH_E_INVALID_ARG);
    check_skip(dataset, "w2", "noise");
    check_skip(dataset, "u1", "");
    check_skip(dataset, "nobody", "unknown");
    check_skip(dataset, "u0", NULL);
    check_text(dataset, 2, "now it has one", true);
    check_text(dataset, 0, "", true);
    check_text(dataset, 1, "part", true);
    spsh_dataset_close(dataset);

    dataset = open_dataset(tiny.path, 0, SPSH_DATASET_IGNORE_OVERLAYS);
    CHECK_U64(spsh_dataset_info_get(dataset)->overlay_count, 0);
    check_skip(dataset, "w2", NULL);
    check_text(dataset, 2, "", false);
    check_text(dataset, 0, "first", true);
    spsh_dataset_close(dataset);
}

static void test_later_ones_win_and_removal_undoes(void)
{
    tiny_dataset tiny;
    uint8_t digests[5][16];
    make_dataset(&tiny, "stack");
    CHECK_I64(tiny_dataset_read(tiny.path, NULL, true, digests[0], NULL), SPSH_OK);
    CHECK_I64(add(tiny.path, "one", SPSH_OVERLAY_TRANSCRIPT, "u0", "one"), SPSH_OK);
    CHECK_I64(tiny_dataset_read(tiny.path, NULL, true, digests[1], NULL), SPSH_OK);
    CHECK_I64(add(tiny.path, "two", SPSH_OVERLAY_TRANSCRIPT, "u0", "two"), SPSH_OK);
    CHECK_I64(add(tiny.path, "three", SPSH_OVERLAY_SKIP, "u0", "three"), SPSH_OK);
    spsh_dataset *dataset = open_dataset(tiny.path, 0, 0);
    check_text(dataset, 0, "two", true);
    check_skip(dataset, "u0", "three");
    spsh_dataset_close(dataset);
    CHECK_I64(spsh_overlay_remove(tiny.path, "two", NULL, NULL), SPSH_OK);
    CHECK_I64(spsh_overlay_remove(tiny.path, "two", NULL, NULL), SPSH_E_NOT_FOUND);
    dataset = open_dataset(tiny.path, 0, 0);
    check_text(dataset, 0, "one", true);
    CHECK_U64(spsh_dataset_info_get(dataset)->generation, 5);
    spsh_dataset_close(dataset);
    /* Older generations still exist, unchanged. */
    dataset = open_dataset(tiny.path, 3, 0);
    check_text(dataset, 0, "two", true);
    check_skip(dataset, "u0", NULL);
    spsh_dataset_close(dataset);
    dataset = open_dataset(tiny.path, 5, 0);
    CHECK_U64(spsh_dataset_info_get(dataset)->overlay_count, 2);
    spsh_dataset_close(dataset);
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    opt.generation = 6;
    CHECK_I64(spsh_dataset_open(tiny.path, &opt, &dataset, NULL), SPSH_E_NOT_FOUND);
    opt.generation = 1;
    CHECK_I64(tiny_dataset_read(tiny.path, &opt, true, digests[2], NULL), SPSH_OK);
    CHECK(memcmp(digests[0], digests[2], 16) == 0);
    opt.generation = 2;
    CHECK_I64(tiny_dataset_read(tiny.path, &opt, true, digests[3], NULL), SPSH_OK);
    CHECK(memcmp(digests[1], digests[3], 16) == 0);
}

static void check_positions(const spsh_dataset *dataset, const uint64_t *want, uint64_t want_count)
{
    uint64_t found[20];
    uint64_t count = 99;
    CHECK_I64(spsh_dataset_skipped_positions(dataset, NULL, 0, &count, NULL), SPSH_OK);
    CHECK_U64(count, want_count);
    for (uint64_t capacity = 0; capacity < 20; capacity++) {
        memset(found, 0xff, sizeof(found));
        CHECK_I64(spsh_dataset_skipped_positions(dataset, found, capacity, &count, NULL), SPSH_OK);
        CHECK_U64(count, want_count);
        for (uint64_t i = 0; i < 20; i++)
            CHECK_U64(found[i], i < capacity && i < want_count ? want[i] : UINT64_MAX);
    }
}

static void test_positions_of_skips(void)
{
    static const uint64_t first[] = {1, 9}, both[] = {0, 1, 9, 12};
    tiny_dataset tiny;
    make_dataset(&tiny, "positions");
    const spsh_overlay_entry one[] = {
        {text("w2"),     text("")},
        {text("u1"),     text("")},
        {text("nobody"), text("")}
    };
    const spsh_overlay_entry two[] = {
        {text("x2"), text("")},
        {text("u0"), text("")},
        {text("u1"), text("")}
    };
    spsh_dataset *dataset = open_dataset(tiny.path, 0, 0);
    check_positions(dataset, NULL, 0);
    spsh_dataset_close(dataset);
    REQUIRE(spsh_overlay_add(tiny.path, "one", SPSH_OVERLAY_SKIP, one, 3, NULL, NULL) == SPSH_OK);
    REQUIRE(add(tiny.path, "text", SPSH_OVERLAY_TRANSCRIPT, "u3", "no skip") == SPSH_OK);
    REQUIRE(spsh_overlay_add(tiny.path, "two", SPSH_OVERLAY_SKIP, two, 3, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_overlay_add(tiny.path, "none", SPSH_OVERLAY_SKIP, NULL, 0, NULL, NULL) == SPSH_OK);
    dataset = open_dataset(tiny.path, 0, 0);
    check_positions(dataset, both, 4);
    spsh_dataset_close(dataset);
    dataset = open_dataset(tiny.path, 3, 0);
    check_positions(dataset, first, 2);
    spsh_dataset_close(dataset);
    dataset = open_dataset(tiny.path, 0, SPSH_DATASET_IGNORE_OVERLAYS);
    check_positions(dataset, NULL, 0);
    spsh_dataset_close(dataset);
}

/* Make a dataset of utterances without decodable audio. */
static void make_plain_dataset(const char *name, const char *const *ids, uint32_t count,
                               char path[600])
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_publish_options publish = SPSH_PUBLISH_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    spsh_shard_seal seal;
    uint64_t record = 0;
    char shards[700];
    REQUIRE(snprintf(path, 600, "%s/%s", root, name) < 600);
    (void)snprintf(shards, sizeof(shards), "%s/shards", path);
    REQUIRE(mkdir(path, 0777) == 0 && mkdir(shards, 0777) == 0);
    opt.directory = shards;
    REQUIRE(spsh_shard_writer_open(&opt, &writer, NULL) == SPSH_OK);
    const spsh_record head = {.id = text("recording"),
                              .payload_bytes = 5,
                              .samples = 800,
                              .sample_rate_hz = 8000,
                              .nominal_rate_hz = 8000,
                              .channels = 1,
                              .codec = SPSH_CODEC_FLAC,
                              .format = SPSH_SAMPLE_I16,
                              .bits_per_sample = 16,
                              .flags = SPSH_RECORD_UNDECODABLE};
    REQUIRE(spsh_shard_writer_add_record(writer, &head, "hello", &record, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < count; i++) {
        const spsh_utterance row = {.id = text(ids[i]), .record = record, .samples = 800};
        REQUIRE(spsh_shard_writer_add_utterance(writer, &row, NULL) == SPSH_OK);
    }
    REQUIRE(spsh_shard_writer_seal(writer, &seal, NULL) == SPSH_OK);
    spsh_shard_writer_free(writer);
    publish.path = path;
    publish.seals = &seal;
    publish.seal_count = 1;
    publish.options_json = text("{}");
    REQUIRE(spsh_dataset_publish(&publish, NULL, NULL) == SPSH_OK);
}

/* Pairs of ids with the same XXH3-64 are told apart by their keys. */
static void test_ids_whose_hashes_collide(void)
{
    static const char *const ids[] = {"avd5", "b", "azv3", "c.QYKqOH", "v9RDrzlE"};
    static const uint64_t want[] = {2, 3};
    char path[600];
    CHECK_U64(spsh__hash64("avd5", 4), spsh__hash64("c.QYKqOH", 8));
    CHECK_U64(spsh__hash64("azv3", 4), spsh__hash64("v9RDrzlE", 8));
    CHECK_U64(spsh__hash64("f3m8", 4), spsh__hash64("kZdhoGoH", 8));
    make_plain_dataset("collide", ids, 5, path);
    const spsh_overlay_entry skips[] = {
        {text("c.QYKqOH"), text("")},
        {text("azv3"),     text("")},
    };
    REQUIRE(spsh_overlay_add(path, "skips", SPSH_OVERLAY_SKIP, skips, 2, NULL, NULL) == SPSH_OK);
    spsh_dataset *dataset = open_dataset(path, 0, 0);
    check_positions(dataset, want, 2);
    spsh_dataset_close(dataset);
}

static void test_names(void)
{
    static const char *const bad[] = {"", ".", "..", ".x", "a/b", "a b", "\xc3\xa9", "a\n"};
    tiny_dataset tiny;
    char longest[130];
    make_dataset(&tiny, "names");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_I64(add(tiny.path, bad[i], SPSH_OVERLAY_SKIP, "u0", ""), SPSH_E_INVALID_ARG);
    memset(longest, 'x', 129);
    longest[129] = '\0';
    CHECK_I64(add(tiny.path, longest, SPSH_OVERLAY_SKIP, "u0", ""), SPSH_E_INVALID_ARG);
    longest[128] = '\0';
    CHECK_I64(add(tiny.path, longest, SPSH_OVERLAY_SKIP, "u0", ""), SPSH_OK);
    CHECK_I64(add(tiny.path, longest, SPSH_OVERLAY_SKIP, "u0", ""), SPSH_E_EXISTS);
    CHECK_I64(add(tiny.path, "A-z_0.9", SPSH_OVERLAY_SKIP, "u0", ""), SPSH_OK);
}

static void test_entries(void)
{
    tiny_dataset tiny;
    spsh_error err = SPSH_ERROR_INIT;
    make_dataset(&tiny, "entries");
    spsh_overlay_entry twice[] = {
        {text("a"), text("1")},
        {text("b"), text("2")},
        {text("a"), text("3")}
    };
    CHECK_I64(spsh_overlay_add(tiny.path, "x", SPSH_OVERLAY_SKIP, twice, 3, NULL, &err),
              SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "\"a\" appears twice") != NULL);
    CHECK_I64(add(tiny.path, "x", SPSH_OVERLAY_SKIP, "", "no id"), SPSH_E_INVALID_ARG);
    CHECK_I64(add(tiny.path, "x", SPSH_OVERLAY_TRANSCRIPT, "a", "\xff"), SPSH_E_INVALID_ARG);
    CHECK_I64(add(tiny.path, "x", (spsh_overlay_type)3, "a", ""), SPSH_E_INVALID_ARG);
    uint8_t *large = (uint8_t *)malloc((1 << 20) + 1);
    REQUIRE(large != NULL);
    memset(large, 'a', (1 << 20) + 1);
    spsh_overlay_entry entry = {
        text("a"), {large, (1 << 20) + 1}
    };
    CHECK_I64(spsh_overlay_add(tiny.path, "x", SPSH_OVERLAY_TRANSCRIPT, &entry, 1, NULL, &err),
              SPSH_E_INVALID_ARG);
    entry.value.size_bytes--;
    CHECK_I64(spsh_overlay_add(tiny.path, "x", SPSH_OVERLAY_TRANSCRIPT, &entry, 1, NULL, &err),
              SPSH_OK);
    CHECK_I64(spsh_overlay_add(tiny.path, "none", SPSH_OVERLAY_TRANSCRIPT, NULL, 0, NULL, &err),
              SPSH_OK);
    free(large);
    CHECK_I64(add("/nonexistent", "x", SPSH_OVERLAY_SKIP, "a", ""), SPSH_E_NOT_FOUND);
    CHECK_I64(spsh_overlay_remove(tiny.path, "y", NULL, NULL), SPSH_E_NOT_FOUND);
}

static void load_overlay(const char *path, const char *name, spsh__overlay *overlay)
{
    char full[1200];
    spsh__container *container = NULL;
    (void)snprintf(full, sizeof(full), "%s/overlays/%s.spsh", path, name);
    REQUIRE(spsh__container_open(NULL, full, SPSH__KIND_OVERLAY, NULL, &container, NULL) ==
            SPSH_OK);
    REQUIRE(spsh__overlay_load(container, overlay, NULL) == SPSH_OK);
    overlay->name = text(name);
}

static void test_many_entries(void)
{
    enum { COUNT = 30000 };
    tiny_dataset tiny;
    static char ids[COUNT][16];
    static char values[COUNT][16];
    static spsh_overlay_entry entries[COUNT];
    make_dataset(&tiny, "many");
    for (uint32_t i = 0; i < COUNT; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "id-%u", i);
        (void)snprintf(values[i], sizeof(values[i]), "%u", i * 7);
        entries[i] = (spsh_overlay_entry){text(ids[i]), text(values[i])};
    }
    CHECK_I64(spsh_overlay_add(tiny.path, "many", SPSH_OVERLAY_SKIP, entries, COUNT, NULL, NULL),
              SPSH_OK);
    spsh_dataset *dataset = open_dataset(tiny.path, 0, 0);
    for (uint32_t i = 0; i < COUNT; i++)
        check_skip(dataset, ids[i], values[i]);
    check_skip(dataset, "id-30000", NULL);
    spsh_dataset_close(dataset);
    spsh__overlay overlay;
    load_overlay(tiny.path, "many", &overlay);
    CHECK_I64(spsh__overlay_check(&overlay, spsh_allocator_default(), NULL), SPSH_OK);
    for (uint64_t i = 0; i < COUNT; i++) { /* each hash matches its key */
        uint64_t hash = 0;
        uint64_t entry = 0;
        spsh_bytes value;
        REQUIRE(spsh__container_string(overlay.container, SPSH__OVERLAY_VALUE_ENDS, i, &value,
                                       NULL) == SPSH_OK);
        for (size_t digit = 0; digit < value.size_bytes; digit++)
            entry = 10 * entry + (uint64_t)(value.data[digit] - '0');
        REQUIRE(spsh__container_u64(overlay.container, SPSH__OVERLAY_ID_HASH, i, &hash, NULL) ==
                SPSH_OK);
        CHECK_U64(hash, spsh__hash64(ids[entry / 7], strlen(ids[entry / 7])));
    }
    overlay.name = text("other");
    CHECK_I64(spsh__overlay_check(&overlay, spsh_allocator_default(), NULL), SPSH_E_CORRUPT);
    spsh__overlay_close(&overlay);
}

static void check_names(const spsh_dataset *dataset, const char *name, const char *given_name)
{
    spsh_overlay_info info = SPSH_OVERLAY_INFO_INIT;
    CHECK_U64(spsh_dataset_info_get(dataset)->overlay_count, 1);
    REQUIRE(spsh_dataset_overlay(dataset, 0, &info, NULL) == SPSH_OK);
    CHECK(is_text(info.name, name));
    CHECK(is_text(info.given_name, given_name));
}

/* The file of a removed overlay stays for the generations that list it. Its name can be used again.
 * The same edit reuses the file. Another edit gets a new file. */
static void test_name_of_a_removed_one(void)
{
    static const char *const values[] = {"a", "b", "a", "c", "b"};
    static const char *const names[] = {"x", "x..2", "x", "x..3", "x..2"};
    tiny_dataset tiny;
    spsh_dataset *dataset = NULL;
    char longest[129];
    make_dataset(&tiny, "removed");
    for (size_t i = 0; i < 5; i++) {
        CHECK_I64(add(tiny.path, "x", SPSH_OVERLAY_SKIP, "u0", values[i]), SPSH_OK);
        CHECK_I64(add(tiny.path, "x", SPSH_OVERLAY_SKIP, "u0", "other"), SPSH_E_EXISTS);
        dataset = open_dataset(tiny.path, 0, 0);
        check_names(dataset, names[i], "x");
        check_skip(dataset, "u0", values[i]);
        spsh_dataset_close(dataset);
        CHECK_I64(spsh_overlay_remove(tiny.path, i == 3 ? names[i] : "x", NULL, NULL), SPSH_OK);
    }
    for (uint64_t i = 0; i < 5; i++) { /* each generation is unchanged */
        dataset = open_dataset(tiny.path, 2 * i + 2, 0);
        check_names(dataset, names[i], "x");
        check_skip(dataset, "u0", values[i]);
        spsh_dataset_close(dataset);
    }
    CHECK_I64(add(tiny.path, "x..2", SPSH_OVERLAY_SKIP, "u0", "d"), SPSH_E_INVALID_ARG);
    CHECK_I64(add(tiny.path, "x..02", SPSH_OVERLAY_SKIP, "u0", "d"), SPSH_OK);
    CHECK_I64(spsh_overlay_remove(tiny.path, "x..02", NULL, NULL), SPSH_OK);
    memset(longest, 'y', 128);
    longest[128] = '\0';
    CHECK_I64(add(tiny.path, longest, SPSH_OVERLAY_SKIP, "u0", "a"), SPSH_OK);
    CHECK_I64(spsh_overlay_remove(tiny.path, longest, NULL, NULL), SPSH_OK);
    CHECK_I64(add(tiny.path, longest, SPSH_OVERLAY_SKIP, "u0", "b"), SPSH_E_EXISTS);
    CHECK_I64(add(tiny.path, longest, SPSH_OVERLAY_SKIP, "u0", "a"), SPSH_OK);
}

/* An unreadable file of that name does not reserve the name. */
static void test_name_of_a_damaged_one(void)
{
    static const long places[] = {90000, 20}; /* after the first page; in the header */
    static char value[100001];
    tiny_dataset tiny;
    char path[1200];
    memset(value, 'a', sizeof(value) - 1);
    make_dataset(&tiny, "damaged");
    (void)snprintf(path, sizeof(path), "%s/overlays/x.spsh", tiny.path);
    CHECK_I64(add(tiny.path, "x", SPSH_OVERLAY_SKIP, "u0", value), SPSH_OK);
    CHECK_I64(spsh_overlay_remove(tiny.path, "x", NULL, NULL), SPSH_OK);
    for (size_t i = 0; i < 2; i++) {
        FILE *file = fopen(path, "r+b");
        REQUIRE(file != NULL && fseek(file, places[i], SEEK_SET) == 0);
        REQUIRE(fputc('!', file) == '!' && fclose(file) == 0);
        CHECK_I64(add(tiny.path, "x", SPSH_OVERLAY_SKIP, "u0", value), SPSH_OK);
        spsh_dataset *dataset = open_dataset(tiny.path, 0, 0);
        check_names(dataset, "x..2", "x");
        check_skip(dataset, "u0", value);
        spsh_dataset_close(dataset);
        CHECK_I64(spsh_overlay_remove(tiny.path, "x", NULL, NULL), SPSH_OK);
    }
}

/* ---- the writer lock ---- */

static void put_file(const char *path, const char *name)
{
    char full[1200];
    (void)snprintf(full, sizeof(full), "%s/%s", path, name);
    FILE *file = fopen(full, "wb");
    REQUIRE(file != NULL && fclose(file) == 0);
}

static bool is_there(const char *path, const char *name)
{
    char full[1200];
    struct stat info;
    (void)snprintf(full, sizeof(full), "%s/%s", path, name);
    return stat(full, &info) == 0;
}

static int count_one(void *user, const char *name)
{
    CHECK(name[0] != '/');
    (*(uint64_t *)user)++;
    return 0;
}

static uint64_t leftover_count(const char *path)
{
    uint64_t count = 0;
    spsh_dataset_leftovers(path, count_one, &count);
    return count;
}

static const char *const leftovers[] = {
    ".lock",
    "repair.tmp",
    "manifest.spsh.tmp-1-0",
    "manifest-00000001.spsh.tmp-123456-17",
    "index-00000001.spsh.tmp-1-0",
    ".sort.tmp-1-0",
    "overlays/x.spsh.tmp-1-0",
    "repair.tmp/000000-000.spsh",
    "repair.tmp/000000-001.spsh.tmp-1-0",
};
static const char *const others[] = {
    "notes.tmp-1-0", "manifest.spsh.tmp-", "manifest.spsh.tmp-1",   "index-1.spsh.tmp-1-0x",
    "sort.tmp-1-0",  "overlays/x.spsh",    "overlays/notes.tmp-1-0"};
enum { LEFTOVERS = sizeof(leftovers) / sizeof(leftovers[0]) };
enum { OTHERS = sizeof(others) / sizeof(others[0]) };

static void put_leftovers(const char *path)
{
    char folder[1200];
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(folder, sizeof(folder), "%s/%s", path, i == 0 ? "overlays" : "repair.tmp");
        (void)mkdir(folder, 0777);
    }
    for (size_t i = 0; i < LEFTOVERS; i++)
        if (strcmp(leftovers[i], "repair.tmp") != 0)
            put_file(path, leftovers[i]);
}

static void check_left(const char *path, bool is_left)
{
    for (size_t i = 0; i < LEFTOVERS; i++)
        CHECK(is_there(path, leftovers[i]) == is_left);
    for (size_t i = 0; i < OTHERS; i++)
        CHECK(is_there(path, others[i]));
}

/* The process ids in the names of leftovers do not matter: process 1 always exists. */
static void test_next_writer_removes_leftovers(void)
{
    tiny_dataset tiny;
    make_dataset(&tiny, "leftovers");
    CHECK_U64(leftover_count(tiny.path), 0);
    put_leftovers(tiny.path);
    for (size_t i = 0; i < OTHERS; i++)
        put_file(tiny.path, others[i]);
    CHECK_U64(leftover_count(tiny.path), LEFTOVERS);
    check_left(tiny.path, true);
    CHECK_I64(add(tiny.path, "y", SPSH_OVERLAY_SKIP, "u0", "a"), SPSH_OK);
    check_left(tiny.path, false);
    CHECK_U64(leftover_count(tiny.path), 0);
    put_leftovers(tiny.path);
    CHECK_I64(spsh_overlay_remove(tiny.path, "y", NULL, NULL), SPSH_OK);
    check_left(tiny.path, false);
    put_leftovers(tiny.path);
    CHECK_I64(tiny_dataset_publish(&tiny, SPSH_DEDUPE_BYTES, NULL, NULL, NULL, NULL), SPSH_OK);
    check_left(tiny.path, false);
}

/* While a writer holds the lock, no other writer starts. The writer's files stay, and are not
 * reported. */
static void test_live_writer_is_left_alone(void)
{
    tiny_dataset tiny;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dataset_lock *lock = NULL, *second = NULL;
    make_dataset(&tiny, "live");
    REQUIRE(spsh_dataset_lock_open(tiny.path, NULL, &lock, &err) == SPSH_OK);
    put_leftovers(tiny.path);
    for (size_t i = 0; i < OTHERS; i++)
        put_file(tiny.path, others[i]);
    CHECK_U64(leftover_count(tiny.path), 0);
    CHECK_I64(spsh_dataset_lock_open(tiny.path, NULL, &second, &err), SPSH_E_EXISTS);
    CHECK(strstr(err.message, "another command is writing to it") != NULL);
    CHECK_I64(add(tiny.path, "y", SPSH_OVERLAY_SKIP, "u0", "a"), SPSH_E_EXISTS);
    check_left(tiny.path, true);
    spsh_dataset_lock_close(lock);
    CHECK_I64(add(tiny.path, "y", SPSH_OVERLAY_SKIP, "u0", "a"), SPSH_OK);
    check_left(tiny.path, false);
    spsh_dataset_lock_close(NULL);
}

/* Publishers of the same bytes do not exclude each other. The last one removes the lock file. */
static void test_publishers_share_the_lock(void)
{
    tiny_dataset tiny;
    spsh_dataset_lock *locks[3] = {NULL};
    make_dataset(&tiny, "shared");
    for (size_t i = 0; i < 2; i++)
        CHECK_I64(spsh__dataset_lock_open(tiny.path, SPSH__LOCK_SHARED, spsh_io_default(),
                                          spsh_allocator_default(), &locks[i], NULL),
                  SPSH_OK);
    put_leftovers(tiny.path);
    CHECK_I64(spsh_dataset_lock_open(tiny.path, NULL, &locks[2], NULL), SPSH_E_EXISTS);
    CHECK_I64(tiny_dataset_publish(&tiny, SPSH_DEDUPE_BYTES, NULL, NULL, NULL, NULL), SPSH_OK);
    CHECK(is_there(tiny.path, "manifest.spsh.tmp-1-0") && is_there(tiny.path, ".lock"));
    spsh_dataset_lock_close(locks[0]);
    CHECK(is_there(tiny.path, ".lock"));
    CHECK_I64(spsh_dataset_lock_open(tiny.path, NULL, &locks[2], NULL), SPSH_E_EXISTS);
    spsh_dataset_lock_close(locks[1]);
    CHECK(!is_there(tiny.path, ".lock"));
    CHECK_I64(spsh_dataset_lock_open(tiny.path, NULL, &locks[2], NULL), SPSH_OK);
    CHECK(!is_there(tiny.path, "manifest.spsh.tmp-1-0"));
    spsh_dataset_lock_close(locks[2]);
}

static void move_file(const char *path, const char *from, const char *to)
{
    char full_from[1200];
    char full_to[1200];
    (void)snprintf(full_from, sizeof(full_from), "%s/%s", path, from);
    (void)snprintf(full_to, sizeof(full_to), "%s/%s", path, to);
    REQUIRE(rename(full_from, full_to) == 0);
}

static void test_wrong_overlay_files(void)
{
    tiny_dataset tiny;
    spsh_dataset *dataset = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    make_dataset(&tiny, "wrong");
    CHECK_I64(add(tiny.path, "x", SPSH_OVERLAY_SKIP, "u0", "a"), SPSH_OK);
    CHECK_I64(add(tiny.path, "y", SPSH_OVERLAY_SKIP, "u0", "a"), SPSH_OK);
    move_file(tiny.path, "overlays/x.spsh", "overlays/z");
    CHECK_I64(spsh_dataset_open(tiny.path, NULL, &dataset, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "x.spsh") != NULL);
    move_file(tiny.path, "overlays/y.spsh", "overlays/x.spsh");
    CHECK_I64(spsh_dataset_open(tiny.path, NULL, &dataset, &err), SPSH_E_MISMATCH);
    CHECK(strstr(err.message, "x.spsh") != NULL);
    CHECK(dataset == NULL);
    /* It can still be read as it was packed. */
    dataset = open_dataset(tiny.path, 0, SPSH_DATASET_IGNORE_OVERLAYS);
    spsh_dataset_close(dataset);
}

static spsh_status edit_with(const char *path, const spsh_allocator *allocator, const spsh_io *io,
                             spsh_error *err)
{
    const spsh_overlay_entry entries[] = {
        {text("u0"), text("a")},
        {text("w1"), text("b")}
    };
    const spsh__overlay_edit edit = {.io = io == NULL ? spsh_io_default() : io,
                                     .allocator =
                                         allocator == NULL ? spsh_allocator_default() : allocator,
                                     .dataset_path = path,
                                     .name = "edit",
                                     .type = SPSH_OVERLAY_SKIP,
                                     .entries = entries,
                                     .entry_count = 2};
    return spsh__overlay_add(&edit, err);
}

static void test_every_allocation_failure(void)
{
    tiny_dataset tiny;
    spsh_status rc = SPSH_E_NO_MEMORY;
    make_dataset(&tiny, "allocations");
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        REQUIRE(fail_at < 1000);
        rc = edit_with(tiny.path, &allocator, NULL, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_I64(fault.live_count, 0);
        if (rc == SPSH_OK)
            break;
        spsh_dataset *dataset = open_dataset(tiny.path, 0, 0);
        CHECK_U64(spsh_dataset_info_get(dataset)->generation, 1);
        spsh_dataset_close(dataset);
    }
    spsh_dataset *dataset = open_dataset(tiny.path, 0, 0);
    CHECK_U64(spsh_dataset_info_get(dataset)->generation, 2);
    spsh_dataset_close(dataset);
}

/* Return to generation 1 as it was published. */
static void forget_edits(const char *path)
{
    char command[1200];
    (void)snprintf(command, sizeof(command),
                   "cd '%s' && rm -rf overlays *tmp* && mv manifest-00000001.spsh manifest.spsh",
                   path);
    REQUIRE(system(command) == 0);
}

/* After each failure or crash, the newest generation is either the old one or the new one,
 * complete. The same call then ends with the new one, and removes the leftovers of the crash. */
static void run_io_failures(const char *name, uint64_t fail_count)
{
    uint64_t calls = UINT64_MAX;
    fault_io plain = {.fail_at = UINT64_MAX};
    spsh_io plain_io = fault_io_table(&plain);
    tiny_dataset tiny;
    make_dataset(&tiny, name);
    for (uint64_t fail_at = 0; fail_at <= calls; fail_at++) {
        spsh_error err = SPSH_ERROR_INIT;
        fault_io fault = {.fail_at = fail_at, .fail_count = fail_count, .fail_errno = ENOSPC};
        spsh_io io = fault_io_table(&fault);
        spsh_status rc = edit_with(tiny.path, NULL, &io, &err);
        CHECK_I64(fault.open_count, 0);
        if (fault.call_count <= fail_at)
            calls = 0; /* no call failed: all calls have been tested */
        spsh_dataset *dataset = open_dataset(tiny.path, 0, 0);
        uint64_t generation = spsh_dataset_info_get(dataset)->generation;
        CHECK(generation == 2 || (generation == 1 && rc != SPSH_OK));
        spsh_dataset_close(dataset);
        rc = edit_with(tiny.path, NULL, &plain_io, &err);
        CHECK_I64(rc, generation == 1 ? SPSH_OK : SPSH_E_EXISTS);
        CHECK_U64(leftover_count(tiny.path), 0);
        dataset = open_dataset(tiny.path, 0, 0);
        CHECK_U64(spsh_dataset_info_get(dataset)->generation, 2);
        check_skip(dataset, "w1", "b");
        spsh_dataset_close(dataset);
        dataset = open_dataset(tiny.path, 1, 0);
        check_skip(dataset, "w1", NULL);
        spsh_dataset_close(dataset);
        forget_edits(tiny.path);
        REQUIRE(fail_at < 1000);
    }
}

static void test_every_io_failure(void)
{
    run_io_failures("io-once", 1);
}

static void test_a_crash_at_every_call(void)
{
    run_io_failures("io-crash", UINT64_MAX);
}

static int no_link(void *user, const char *from, const char *to)
{
    (void)user, (void)from, (void)to;
    return -EPERM;
}

static void test_file_system_without_links(void)
{
    tiny_dataset tiny;
    spsh_io io = *spsh_io_default();
    io.link_fn = no_link;
    make_dataset(&tiny, "no-links");
    CHECK_I64(edit_with(tiny.path, NULL, &io, NULL), SPSH_OK);
    spsh_dataset *dataset = open_dataset(tiny.path, 1, 0);
    CHECK_U64(spsh_dataset_info_get(dataset)->generation, 1);
    spsh_dataset_close(dataset);
}

TEST_MAIN(unit_overlay)
{
    test_temp_dir(root, sizeof(root));
    RUN(test_skips_and_transcripts);
    RUN(test_later_ones_win_and_removal_undoes);
    RUN(test_positions_of_skips);
    RUN(test_ids_whose_hashes_collide);
    RUN(test_names);
    RUN(test_entries);
    RUN(test_many_entries);
    RUN(test_name_of_a_removed_one);
    RUN(test_name_of_a_damaged_one);
    RUN(test_next_writer_removes_leftovers);
    RUN(test_live_writer_is_left_alone);
    RUN(test_publishers_share_the_lock);
    RUN(test_wrong_overlay_files);
    RUN(test_every_allocation_failure);
    RUN(test_every_io_failure);
    RUN(test_a_crash_at_every_call);
    RUN(test_file_system_without_links);
    test_remove_tree(root);
    return TEST_RESULT();
}
