/* fault_repair.c: derived parts are rebuilt byte for byte. From damaged blocks all intact records
 * are saved, and losses are reported. The damaged file never changes. */
#include "fault_alloc.h"
#include "fault_io.h"
#include "noise_dataset.h"
#include "speechshard/verify.h"
#include "test_file.h"

#include <fcntl.h>

enum { LOST_MAX = 64 };

typedef struct losses {
    struct {
        char part[32], id[64];
        uint64_t utterances;
    } list[LOST_MAX];
    uint32_t count;
    uint64_t utterances; /* sum */
} losses;

static char root[512], dataset[560], shards[600], out[560];
static spsh_shard_seal seals[NOISE_SHARDS];
static uint64_t seed;

static int take_loss(void *user, const spsh_damage *damage)
{
    losses *lost = (losses *)user;
    if (lost->count < LOST_MAX) {
        (void)snprintf(lost->list[lost->count].part, 32, "%s", damage->part);
        (void)snprintf(lost->list[lost->count].id, 64, "%.*s", (int)damage->id.size_bytes,
                       damage->id.size_bytes == 0 ? "" : (const char *)damage->id.data);
        lost->list[lost->count].utterances = damage->utterances;
    }
    lost->count++;
    lost->utterances += damage->utterances;
    return 0;
}

static bool has_loss(const losses *lost, const char *part, const char *id)
{
    for (uint32_t n = 0; n < lost->count && n < LOST_MAX; n++)
        if (strcmp(lost->list[n].part, part) == 0 && strcmp(lost->list[n].id, id) == 0)
            return true;
    return false;
}

/* ---- files ---- */

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

static bytes read_bytes(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDONLY);
    REQUIRE(fd >= 0 && fstat(fd, &info) == 0);
    bytes file = {malloc((size_t)info.st_size + 1), (size_t)info.st_size};
    REQUIRE(file.data != NULL && read(fd, file.data, file.size) == (ssize_t)file.size);
    REQUIRE(close(fd) == 0);
    return file;
}

static void shard_path(const char *directory, uint32_t shard, char path[700])
{
    char name[32];
    spsh_shard_file_name(seals[shard].unit, seals[shard].number, name);
    (void)snprintf(path, 700, "%s/%s", directory, name);
}

static void make_out(void)
{
    REQUIRE(mkdir(out, 0700) == 0);
}

static void drop_out(void)
{
    test_remove_tree(out);
}

/* Where the sections begin, by the footer. */
static size_t blocks_end(const bytes *file)
{
    uint64_t end = 0;
    for (int i = 7; i >= 0; i--)
        end = end << 8 | file->data[file->size - 4096 + 32 + (size_t)i];
    return (size_t)end;
}

static size_t find_record(const bytes *file, uint32_t n)
{
    for (size_t at = 4096; at + 64 < file->size; at += 64)
        if (memcmp(file->data + at + 8, "SREC", 4) == 0 && file->data[at + 24] == n)
            return at;
    REQUIRE(false);
    return 0;
}

static size_t find_metadata(const bytes *file)
{
    for (size_t at = 4096; at + 64 < file->size; at += 4096)
        if (memcmp(file->data + at + 8, "SPBK\2\0\0\0", 8) == 0)
            return at;
    REQUIRE(false);
    return 0;
}

static spsh_status repair(const char *path, const uint8_t *dataset_id,
                          const spsh_repair_options *options, losses *ret_lost,
                          spsh_repair_result *ret_result)
{
    spsh_repair_options opt = *options;
    spsh_error err = SPSH_ERROR_INIT;
    memset(ret_lost, 0, sizeof(*ret_lost));
    *ret_result = (spsh_repair_result)SPSH_REPAIR_RESULT_INIT;
    opt.damage_fn = take_loss;
    opt.user = ret_lost;
    spsh_status rc = spsh_repair_shard(path, dataset_id, out, &opt, ret_result, &err);
    CHECK(rc == SPSH_OK || err.message[0] != '\0');
    if (rc == SPSH_OK)
        CHECK_U64(ret_result->utterances_lost, ret_lost->utterances);
    return rc;
}

static uint64_t count_damage_by(const char *path, uint32_t flags)
{
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    opt.flags = flags;
    spsh_status rc = spsh_verify(path, &opt, &result, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "    %s\n", err.message);
    CHECK_I64(rc, SPSH_OK);
    return result.damage_count;
}

static uint64_t count_damage(const char *path)
{
    return count_damage_by(path, SPSH_VERIFY_DECODE);
}

static uint64_t count_damage_undecoded(const char *path)
{
    return count_damage_by(path, 0);
}

/* ---- derived parts ---- */

enum { HEADER = 1, FOOTER_0 = 2, FOOTER_1 = 4, PAGE_TABLE = 8, INDEX = 16, TAIL = 32 };

static size_t destroy(bytes *file, uint32_t parts)
{
    size_t end = blocks_end(file);
    if ((parts & HEADER) != 0)
        memset(file->data, 0, 4096);
    if ((parts & FOOTER_0) != 0)
        memset(file->data + file->size - 8192, 0, 4096);
    if ((parts & FOOTER_1) != 0)
        memset(file->data + file->size - 4096, 0x55, 4096);
    if ((parts & PAGE_TABLE) != 0)
        memset(file->data + file->size - 12288, 0, 4096);
    if ((parts & INDEX) != 0)
        memset(file->data + end, 0xFF, 2000);
    return (parts & TAIL) != 0 ? end : file->size;
}

static void test_derived_parts_come_back_byte_for_byte(void)
{
    for (uint32_t shard = 0; shard < NOISE_SHARDS; shard++) {
        char path[700], repaired[700];
        shard_path(shards, shard, path);
        shard_path(out, shard, repaired);
        bytes good = read_bytes(path);
        for (uint32_t parts = 0; parts < 64; parts += shard == 1 ? 1 : 9) {
            for (uint32_t known = 0; known < 2; known++) {
                bytes bad = read_bytes(path);
                losses lost;
                spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
                spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
                opt.expected = known == 1 ? &seals[shard] : NULL;
                test_file_write(path, bad.data, destroy(&bad, parts));
                make_out();
                CHECK_I64(repair(path, NULL, &opt, &lost, &result), SPSH_OK);
                bytes again = read_bytes(repaired);
                CHECK(again.size == good.size && memcmp(again.data, good.data, good.size) == 0);
                const bool footer =
                    (parts & TAIL) == 0 && (parts & (FOOTER_0 | FOOTER_1)) != (FOOTER_0 | FOOTER_1);
                const bool witness = known == 1 || footer;
                CHECK_U64(result.identical, witness);
                CHECK_U64(result.records_kept, NOISE_RECORDS);
                CHECK_U64(result.utterances_kept, NOISE_UTTERANCES);
                CHECK_U64(lost.count, 0);
                CHECK(memcmp(&result.seal.root_hash, seals[shard].root_hash, 16) == 0);
                drop_out();
                free(again.data);
                free(bad.data);
                test_file_write(path, good.data, good.size);
            }
        }
        free(good.data);
    }
}

static void test_who_is_it(void)
{
    char path[700], moved[700], aside[700];
    losses lost;
    spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
    const spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    const uint8_t other_id[16] = {9};
    shard_path(shards, 2, path);
    bytes good = read_bytes(path), bad = read_bytes(path);
    (void)destroy(&bad, HEADER);
    (void)snprintf(moved, sizeof(moved), "%s/elsewhere.spsh", root);
    (void)snprintf(aside, sizeof(aside), "%s/000001-000.spsh", root);
    test_file_write(moved, bad.data, bad.size);
    test_file_write(aside, bad.data, bad.size);
    make_out();
    CHECK_I64(repair(moved, noise_dataset_id, &opt, &lost, &result), SPSH_E_CORRUPT); /* no name */
    CHECK_I64(repair(aside, NULL, &opt, &lost, &result), SPSH_E_CORRUPT); /* no dataset id */
    CHECK_I64(repair(aside, other_id, &opt, &lost, &result), SPSH_E_MISMATCH);
    CHECK_I64(repair(path, other_id, &opt, &lost, &result), SPSH_E_MISMATCH);
    CHECK_I64(repair("/nonexistent/000000-000.spsh", NULL, &opt, &lost, &result), SPSH_E_NOT_FOUND);
    CHECK_I64(repair(aside, noise_dataset_id, &opt, &lost, &result), SPSH_OK);
    CHECK(result.identical);
    drop_out();
    REQUIRE(unlink(moved) == 0 && unlink(aside) == 0);
    free(bad.data);
    free(good.data);
}

/* ---- salvage ---- */

static void test_the_input_is_not_touched(void)
{
    char path[700];
    losses lost;
    spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
    const spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    shard_path(shards, 0, path);
    bytes good = read_bytes(path), bad = read_bytes(path);
    bad.data[find_record(&bad, 1) + 300] ^= 1;
    test_file_write(path, bad.data, bad.size);
    make_out();
    CHECK_I64(repair(path, NULL, &opt, &lost, &result), SPSH_OK);
    bytes after = read_bytes(path);
    CHECK(after.size == bad.size && memcmp(after.data, bad.data, bad.size) == 0);
    CHECK_I64(spsh_repair_shard(path, NULL, shards, &opt, &result, NULL), SPSH_E_EXISTS);
    bytes again = read_bytes(path);
    CHECK(again.size == bad.size && memcmp(again.data, bad.data, bad.size) == 0);
    drop_out();
    test_file_write(path, good.data, good.size);
    free(again.data);
    free(after.data);
    free(bad.data);
    free(good.data);
}

static void test_a_damaged_record_takes_its_utterances_with_it(void)
{
    char path[700], repaired[700];
    losses lost;
    spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
    const spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    shard_path(shards, 0, path);
    shard_path(out, 0, repaired);
    bytes good = read_bytes(path), bad = read_bytes(path);
    bad.data[find_record(&bad, 2) + 70000] ^= 4;
    test_file_write(path, bad.data, bad.size);
    make_out();
    CHECK_I64(repair(path, NULL, &opt, &lost, &result), SPSH_OK);
    CHECK(!result.identical);
    CHECK_U64(result.records_kept, 3);
    CHECK_U64(result.records_lost, 1);
    CHECK_U64(result.utterances_kept, 4);
    CHECK_U64(result.utterances_lost, 2);
    CHECK(has_loss(&lost, "record", "recording-0-2"));
    CHECK(has_loss(&lost, "utterance", "utterance-0-2"));
    CHECK(has_loss(&lost, "utterance", "utterance-0-4"));
    CHECK_U64(count_damage(repaired), 0);
    drop_out();

    /* Damage its head, too: its name is then lost. */
    bad.data[find_record(&bad, 2) + 40] ^= 4;
    test_file_write(path, bad.data, bad.size);
    make_out();
    CHECK_I64(repair(path, NULL, &opt, &lost, &result), SPSH_OK);
    CHECK_U64(result.records_kept, 3);
    CHECK(has_loss(&lost, "record", ""));
    CHECK(has_loss(&lost, "utterance", "utterance-0-4"));
    CHECK_U64(count_damage(repaired), 0);
    drop_out();
    test_file_write(path, good.data, good.size);
    free(bad.data);
    free(good.data);
}

static void test_lost_metadata_names_the_recordings(void)
{
    char path[700], repaired[700];
    losses lost;
    spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
    const spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    shard_path(shards, 2, path);
    shard_path(out, 2, repaired);
    bytes good = read_bytes(path), bad = read_bytes(path);
    bad.data[find_metadata(&bad) + 100] ^= 4;
    test_file_write(path, bad.data, bad.size);
    make_out();
    CHECK_I64(repair(path, NULL, &opt, &lost, &result), SPSH_OK);
    CHECK_U64(result.records_kept, NOISE_RECORDS);
    CHECK_U64(result.utterances_kept, 0);
    CHECK_U64(result.utterances_lost, NOISE_UTTERANCES);
    CHECK(has_loss(&lost, "metadata", ""));
    CHECK(has_loss(&lost, "recording", "recording-2-0"));
    CHECK(has_loss(&lost, "recording", "recording-2-3"));
    CHECK_U64(count_damage(repaired), 0);
    drop_out();
    test_file_write(path, good.data, good.size);
    free(bad.data);
    free(good.data);
}

/* Random damage: all undamaged records are in the output, and the output is valid. */
static void test_random_damage(void)
{
    char path[700], repaired[700];
    uint64_t random = seed;
    shard_path(shards, 1, path);
    shard_path(out, 1, repaired);
    bytes good = read_bytes(path);
    for (uint32_t round = 0; round < 200; round++) {
        bytes bad = read_bytes(path);
        losses lost;
        spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
        bool hit[NOISE_RECORDS] = {false}, hit_metadata = false;
        size_t size = bad.size;
        spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
        opt.expected = round % 2 == 0 ? &seals[1] : NULL;
        uint64_t places = 1 + test_random(&random) % 4;
        for (uint64_t n = 0; n < places; n++) {
            size_t at = (size_t)(test_random(&random) % bad.size);
            size_t length = 1 + (size_t)(test_random(&random) % 3000);
            for (size_t i = at; i < at + length && i < bad.size; i++)
                bad.data[i] ^= (uint8_t)(1 + test_random(&random) % 255);
            size_t metadata = find_metadata(&good);
            for (uint32_t record = 0; record < NOISE_RECORDS; record++) {
                size_t begin = find_record(&good, record);
                size_t end = record + 1 < NOISE_RECORDS ? find_record(&good, record + 1) : metadata;
                hit[record] = hit[record] || (at < end && at + length > begin);
            }
            hit_metadata = hit_metadata || (at < blocks_end(&good) && at + length > metadata);
        }
        if (round % 3 == 0)
            size = blocks_end(&good);
        test_file_write(path, bad.data, size);
        make_out();
        spsh_status rc = repair(path, noise_dataset_id, &opt, &lost, &result);
        CHECK_I64(rc, SPSH_OK);
        uint64_t least = 0;
        for (uint32_t record = 0; record < NOISE_RECORDS; record++)
            least += !hit[record];
        CHECK(result.records_kept >= least);
        if (!hit_metadata && least == NOISE_RECORDS)
            CHECK_U64(result.utterances_kept, NOISE_UTTERANCES);
        CHECK_U64(count_damage(repaired), 0);
        drop_out();
        free(bad.data);
        test_file_write(path, good.data, good.size);
    }
    free(good.data);
}

static void test_a_shard_of_many_blocks(void)
{
    char path[700], repaired[700];
    spsh_shard_seal seal;
    losses lost;
    spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
    const spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    noise_big_shard_make(root, &seal);
    (void)snprintf(path, sizeof(path), "%s/000007-000.spsh", root);
    (void)snprintf(repaired, sizeof(repaired), "%s/000007-000.spsh", out);
    bytes good = read_bytes(path), bad = read_bytes(path);
    for (uint32_t n = 0; n < 2; n++) { /* without its header; then without its tail, too */
        test_file_write(path, bad.data, destroy(&bad, n == 0 ? HEADER : HEADER | TAIL));
        make_out();
        CHECK_I64(repair(path, noise_dataset_id, &opt, &lost, &result), SPSH_OK);
        bytes again = read_bytes(repaired);
        CHECK(again.size == good.size && memcmp(again.data, good.data, good.size) == 0);
        free(again.data);
        drop_out();
    }
    /* Damage a record next to an oversize record, and a block header, which loses no data. */
    bad.data[find_record(&bad, 3) + 100000] ^= 1;
    bad.data[find_record(&bad, 9) - 20] ^= 1;
    test_file_write(path, bad.data, bad.size);
    make_out();
    CHECK_I64(repair(path, noise_dataset_id, &opt, &lost, &result), SPSH_OK);
    CHECK_U64(result.records_kept, NOISE_BIG_RECORDS - 1);
    CHECK_U64(result.utterances_lost, 143);
    CHECK(has_loss(&lost, "record", "big-3"));
    CHECK_U64(count_damage_undecoded(repaired), 0);
    drop_out();
    REQUIRE(unlink(path) == 0);
    free(bad.data);
    free(good.data);
}

/* ---- a whole dataset ---- */

/* Repair the shards of unit 0 together into `again`/shards, take unit 1 as it is, publish, verify.
 */
static void repair_dataset(const char *again, uint64_t want_records, uint64_t want_utterances,
                           losses *ret_lost)
{
    char target[700];
    spsh_shard_seal new_seals[NOISE_SHARDS];
    spsh_repair_unit *unit = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    (void)snprintf(target, sizeof(target), "%s/shards", again);
    REQUIRE(mkdir(again, 0700) == 0 && mkdir(target, 0700) == 0);
    REQUIRE(spsh_repair_unit_open(NULL, &unit, &err) == SPSH_OK);
    memset(ret_lost, 0, sizeof(*ret_lost));
    for (uint32_t shard = 0; shard < NOISE_SHARDS; shard++) {
        char path[700];
        spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
        spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
        opt.unit = shard < 2 ? unit : NULL;
        opt.expected = &seals[shard];
        opt.damage_fn = take_loss;
        opt.user = ret_lost;
        shard_path(shards, shard, path);
        spsh_status rc = spsh_repair_shard(path, noise_dataset_id, target, &opt, &result, &err);
        if (rc != SPSH_OK)
            fprintf(stderr, "    %s\n", err.message);
        REQUIRE(rc == SPSH_OK);
        new_seals[shard] = result.seal;
    }
    spsh_repair_unit_close(unit);
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    spsh_dataset_info info = SPSH_DATASET_INFO_INIT;
    uint64_t overlays = 0;
    opt.path = again;
    memcpy(opt.dataset_id, noise_dataset_id, 16);
    opt.seals = new_seals;
    opt.seal_count = NOISE_SHARDS;
    opt.dedupe = SPSH_DEDUPE_BYTES;
    opt.options_json = noise_text("{}");
    spsh_status rc = spsh_dataset_publish(&opt, &info, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "    %s\n", err.message);
    REQUIRE(rc == SPSH_OK);
    CHECK_U64(info.record_count, want_records);
    CHECK_U64(info.utterance_count, want_utterances);
    CHECK_I64(spsh_repair_overlays(dataset, again, NULL, &overlays, &err), SPSH_OK);
    CHECK_U64(overlays, 1);
    CHECK_U64(count_damage(again), 0);
}

static void test_references_follow_renumbered_records(void)
{
    char path[700], again[600];
    losses lost;
    (void)snprintf(again, sizeof(again), "%s/again.spsh", root);
    shard_path(shards, 0, path);
    bytes good = read_bytes(path), bad = read_bytes(path);
    bad.data[find_record(&bad, 1) + 300] ^= 1;
    test_file_write(path, bad.data, bad.size);
    repair_dataset(again, NOISE_SHARDS * NOISE_RECORDS - 1, NOISE_SHARDS * NOISE_UTTERANCES - 1,
                   &lost);
    CHECK(has_loss(&lost, "utterance", "utterance-0-1"));
    /* utterance-1-5 refers to record 0 of the shard before, and still does. */
    spsh_dataset *opened = NULL;
    spsh_reader *reader = NULL;
    uint64_t position = 0;
    const spsh_record *record = NULL;
    REQUIRE(spsh_dataset_open(again, NULL, &opened, NULL) == SPSH_OK);
    REQUIRE(spsh_reader_open(opened, &reader, NULL) == SPSH_OK);
    CHECK_I64(spsh_reader_find(reader, noise_text("utterance-1-5"), &position, NULL), SPSH_OK);
    REQUIRE(spsh_reader_record(reader, position, &record, NULL) == SPSH_OK);
    CHECK(record->id.size_bytes == 13 && memcmp(record->id.data, "recording-0-0", 13) == 0);
    CHECK_I64(spsh_reader_find(reader, noise_text("utterance-0-1"), &position, NULL),
              SPSH_E_NOT_FOUND);
    bool skipped = false;
    CHECK_I64(spsh_dataset_skipped(opened, noise_text("utterance-0-3"), &skipped, NULL, NULL),
              SPSH_OK);
    CHECK(skipped); /* the overlay was carried over */
    spsh_reader_close(reader);
    spsh_dataset_close(opened);
    test_remove_tree(again);

    /* Record 0 is lost, and its utterances in both shards. */
    bad.data[find_record(&bad, 0) + 300] ^= 1;
    test_file_write(path, bad.data, bad.size);
    repair_dataset(again, NOISE_SHARDS * NOISE_RECORDS - 2, NOISE_SHARDS * NOISE_UTTERANCES - 4,
                   &lost);
    CHECK(has_loss(&lost, "utterance", "utterance-1-5"));
    test_remove_tree(again);

    /* The whole shard is missing. */
    REQUIRE(unlink(path) == 0);
    repair_dataset(again, 2 * NOISE_RECORDS, 2 * NOISE_UTTERANCES - 1, &lost);
    test_remove_tree(again);
    test_file_write(path, good.data, good.size);
    free(bad.data);
    free(good.data);
}

static void test_nothing_lost_gives_the_same_dataset(void)
{
    char again[600];
    losses lost;
    (void)snprintf(again, sizeof(again), "%s/again.spsh", root);
    repair_dataset(again, NOISE_SHARDS * NOISE_RECORDS, NOISE_SHARDS * NOISE_UTTERANCES, &lost);
    CHECK_U64(lost.count, 0);
    for (uint32_t n = 0; n < 2; n++) {
        char a[700], b[700];
        const char *name = n == 0 ? "manifest.spsh" : "index-00000001.spsh";
        (void)snprintf(a, sizeof(a), "%s/%s", dataset, name);
        (void)snprintf(b, sizeof(b), "%s/%s", again, name);
        bytes first = read_bytes(a), second = read_bytes(b);
        CHECK(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
        free(second.data);
        free(first.data);
    }
    test_remove_tree(again);
}

/* ---- overlays ---- */

static char memory[512], edited[560], copy[560]; /* in a file system in memory, since each case
                                                  * publishes a dataset */

static void add_overlay(const char *name, const char *id)
{
    const spsh_overlay_entry entry = {noise_text(id), noise_text("why")};
    REQUIRE(spsh_overlay_add(edited, name, SPSH_OVERLAY_SKIP, &entry, 1, NULL, NULL) == SPSH_OK);
}

/* Generation 6 lists b-words, a-more, late; skips was removed; leftover is in no manifest. */
static void make_edited(void)
{
    char from[640], to[640];
    spsh_shard_seal unused[NOISE_SHARDS];
    test_temp_memory(memory, sizeof(memory));
    (void)snprintf(edited, sizeof(edited), "%s/edited.spsh", memory);
    (void)snprintf(copy, sizeof(copy), "%s/copy.spsh", memory);
    noise_dataset_make(edited, unused);
    add_overlay("b-words", "utterance-0-0");
    add_overlay("a-more", "utterance-0-1");
    REQUIRE(spsh_overlay_remove(edited, "skips", NULL, NULL) == SPSH_OK);
    add_overlay("late", "utterance-1-0");
    add_overlay("leftover", "utterance-1-1");
    (void)snprintf(from, sizeof(from), "%s/manifest-00000006.spsh", edited);
    (void)snprintf(to, sizeof(to), "%s/manifest.spsh", edited);
    REQUIRE(rename(from, to) == 0);
}

static void make_copy(void)
{
    char source[600], target[600];
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    (void)snprintf(source, sizeof(source), "%s/shards", edited);
    (void)snprintf(target, sizeof(target), "%s/shards", copy);
    REQUIRE(mkdir(copy, 0700) == 0 && mkdir(target, 0700) == 0);
    for (uint32_t shard = 0; shard < NOISE_SHARDS; shard++) {
        char from[700], to[700];
        shard_path(source, shard, from);
        shard_path(target, shard, to);
        REQUIRE(link(from, to) == 0);
    }
    opt.path = copy;
    memcpy(opt.dataset_id, noise_dataset_id, 16);
    opt.seals = seals;
    opt.seal_count = NOISE_SHARDS;
    opt.dedupe = SPSH_DEDUPE_BYTES;
    opt.options_json = noise_text("{}");
    REQUIRE(spsh_dataset_publish(&opt, NULL, NULL) == SPSH_OK);
}

/* Reports as "part file;", and the names that the copy lists as "name;". */
typedef struct carried {
    char reports[1000], names[300];
    uint32_t count;
} carried;

static int take_report(void *user, const spsh_damage *damage)
{
    carried *c = (carried *)user;
    size_t used = strlen(c->reports);
    (void)snprintf(c->reports + used, sizeof(c->reports) - used, "%s %s;", damage->part,
                   damage->file);
    c->count++;
    return 0;
}

/* Carry the overlays of `edited` over to a new copy, which must open and be clean. */
static void carry_over(carried *ret_carried)
{
    spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    spsh_dataset *opened = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t count = 0;
    memset(ret_carried, 0, sizeof(*ret_carried));
    opt.damage_fn = take_report;
    opt.user = ret_carried;
    make_copy();
    spsh_status rc = spsh_repair_overlays(edited, copy, &opt, &count, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "    %s\n", err.message);
    CHECK_I64(rc, SPSH_OK);
    CHECK_U64(count_damage_undecoded(copy), 0);
    REQUIRE(spsh_dataset_open(copy, NULL, &opened, &err) == SPSH_OK);
    CHECK_U64(spsh_dataset_info_get(opened)->overlay_count, count);
    for (uint64_t n = 0; n < count; n++) {
        spsh_overlay_info info = SPSH_OVERLAY_INFO_INIT;
        size_t used = strlen(ret_carried->names);
        REQUIRE(spsh_dataset_overlay(opened, n, &info, NULL) == SPSH_OK);
        (void)snprintf(ret_carried->names + used, sizeof(ret_carried->names) - used, "%.*s;",
                       (int)info.name.size_bytes, (const char *)info.name.data);
    }
    spsh_dataset_close(opened);
    test_remove_tree(copy);
}

static void test_a_damaged_overlay_is_named_and_the_others_stay(void)
{
    char path[700];
    carried c;
    (void)snprintf(path, sizeof(path), "%s/overlays/b-words.spsh", edited);
    bytes good = read_bytes(path);
    for (size_t at = 20; at < good.size; at += 1021) {
        const bool in_footer = at >= good.size - 8192;
        good.data[at] ^= 1;
        test_file_write(path, good.data, good.size);
        good.data[at] ^= 1;
        carry_over(&c);
        /* One good footer is enough to rebuild both copies. */
        CHECK_STR(c.names, in_footer ? "b-words;a-more;late;" : "a-more;late;");
        CHECK_STR(c.reports, in_footer ? "" : "overlay overlays/b-words.spsh;");
    }
    REQUIRE(unlink(path) == 0);
    carry_over(&c);
    CHECK_STR(c.names, "a-more;late;");
    CHECK_STR(c.reports, "overlay overlays/b-words.spsh;");
    test_file_write(path, good.data, good.size);
    free(good.data);
}

/* A flipped bit leaves enough of the manifest to prove the list, unless it hits the four counts. */
static void test_a_damaged_manifest_still_tells_the_overlays(void)
{
    char path[700];
    uint32_t proven = 0, tried = 0;
    uint64_t random = seed;
    (void)snprintf(path, sizeof(path), "%s/manifest.spsh", edited);
    bytes good = read_bytes(path);
    for (size_t at = 17; at < good.size; at += 1 + test_random(&random) % 600, tried++) {
        const uint8_t bit = (uint8_t)(1U << (test_random(&random) % 8));
        carried c;
        good.data[at] ^= bit;
        test_file_write(path, good.data, good.size);
        good.data[at] ^= bit;
        carry_over(&c);
        proven += c.count == 0;
        if (c.count == 0)
            CHECK_STR(c.names, "b-words;a-more;late;");
        else
            CHECK(strstr(c.reports, "overlays/leftover.spsh") != NULL);
    }
    CHECK(proven >= tried - 3);
    /* Zeros in both columns leave no proof. */
    test_file_write(path, good.data, good.size);
    bytes bad = read_bytes(path);
    memset(bad.data + 4096 + 2000, 0, 4096 - 2000);
    test_file_write(path, bad.data, bad.size);
    free(bad.data);
    carried c;
    carry_over(&c);
    CHECK_STR(c.names, "b-words;a-more;late;leftover;");
    CHECK_U64(c.count, 5);
    test_file_write(path, good.data, good.size);
    free(good.data);
}

static void test_without_a_manifest_every_decision_is_reported(void)
{
    char path[700], aside[720], overlay[700];
    carried c;
    (void)snprintf(path, sizeof(path), "%s/manifest.spsh", edited);
    (void)snprintf(aside, sizeof(aside), "%s.aside", path);
    (void)snprintf(overlay, sizeof(overlay), "%s/overlays/b-words.spsh", edited);
    REQUIRE(rename(path, aside) == 0);
    carry_over(&c);
    CHECK_STR(c.names, "b-words;a-more;late;leftover;");
    CHECK_STR(c.reports, "overlay in doubt overlays/b-words.spsh;"
                         "overlay in doubt overlays/a-more.spsh;"
                         "overlay in doubt overlays/late.spsh;"
                         "overlay in doubt overlays/leftover.spsh;"
                         "overlay in doubt overlays/skips.spsh;");
    bytes good = read_bytes(overlay);
    REQUIRE(unlink(overlay) == 0);
    carry_over(&c);
    CHECK_STR(c.names, "a-more;late;leftover;");
    CHECK(strstr(c.reports, "overlay overlays/b-words.spsh;") != NULL);
    test_file_write(overlay, good.data, good.size);
    free(good.data);

    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
        opt.allocator = &allocator;
        REQUIRE(fail_at < 3000);
        make_copy();
        rc = spsh_repair_overlays(edited, copy, &opt, NULL, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_I64(fault.live_count, 0);
        test_remove_tree(copy);
        fail_at += rc == SPSH_OK ? 0 : fail_at / 8;
    }
    REQUIRE(rename(aside, path) == 0);
}

/* ---- failures ---- */

static void test_every_allocation_failure(void)
{
    char path[700];
    shard_path(shards, 1, path);
    bytes good = read_bytes(path), bad = read_bytes(path);
    for (uint32_t damaged = 0; damaged < 2; damaged++) {
        spsh_status rc = SPSH_E_NO_MEMORY;
        if (damaged == 1)
            bad.data[find_record(&bad, 1) + 300] ^= 1;
        (void)destroy(&bad, HEADER);
        test_file_write(path, bad.data, bad.size);
        for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
            fault_alloc fault = {.fail_at = fail_at};
            spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
            spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
            spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
            opt.allocator = &allocator;
            REQUIRE(fail_at < 3000);
            make_out();
            rc = spsh_repair_shard(path, noise_dataset_id, out, &opt, &result, NULL);
            /* Without memory to read an adjacent shard, the first record of the shard is unknown.
             */
            CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_CORRUPT);
            CHECK_I64(fault.live_count, 0);
            CHECK(rc == SPSH_OK || rmdir(out) == 0); /* nothing was left behind */
            if (rc == SPSH_OK)
                drop_out();
        }
    }
    test_file_write(path, good.data, good.size);
    free(bad.data);
    free(good.data);
}

static void test_every_io_failure(void)
{
    char path[700], repaired[700];
    shard_path(shards, 1, path);
    shard_path(out, 1, repaired);
    bytes good = read_bytes(path), bad = read_bytes(path);
    bad.data[find_record(&bad, 1) + 300] ^= 1;
    test_file_write(path, bad.data, bad.size);
    uint64_t calls = 1;
    for (uint64_t fail_at = 0; fail_at < calls; fail_at++) {
        fault_io fault = {.fail_at = fail_at, .fail_count = 1, .fail_errno = EIO};
        spsh_io io = fault_io_table(&fault);
        spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
        spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
        opt.io = &io;
        make_out();
        spsh_status rc = spsh_repair_shard(path, noise_dataset_id, out, &opt, &result, NULL);
        if (rc == SPSH_OK)
            CHECK_U64(count_damage(repaired), 0);
        CHECK_I64(fault.open_count, 0);
        calls = fault.call_count + 1 > calls ? fault.call_count + 1 : calls;
        REQUIRE(calls < 3000);
        drop_out();
    }
    CHECK(calls > 20);
    test_file_write(path, good.data, good.size);
    free(bad.data);
    free(good.data);
}

TEST_MAIN(fault_repair)
{
    seed = test_seed(90210);
    test_temp_dir(root, sizeof(root));
    (void)snprintf(dataset, sizeof(dataset), "%s/noise.spsh", root);
    (void)snprintf(shards, sizeof(shards), "%s/shards", dataset);
    (void)snprintf(out, sizeof(out), "%s/out", root);
    noise_dataset_make(dataset, seals);
    RUN(test_derived_parts_come_back_byte_for_byte);
    RUN(test_who_is_it);
    RUN(test_the_input_is_not_touched);
    RUN(test_a_damaged_record_takes_its_utterances_with_it);
    RUN(test_lost_metadata_names_the_recordings);
    RUN(test_random_damage);
    RUN(test_a_shard_of_many_blocks);
    RUN(test_references_follow_renumbered_records);
    RUN(test_nothing_lost_gives_the_same_dataset);
    make_edited();
    RUN(test_a_damaged_overlay_is_named_and_the_others_stay);
    RUN(test_a_damaged_manifest_still_tells_the_overlays);
    RUN(test_without_a_manifest_every_decision_is_reported);
    RUN(test_every_allocation_failure);
    RUN(test_every_io_failure);
    test_remove_tree(memory);
    test_remove_tree(root);
    return TEST_RESULT();
}
