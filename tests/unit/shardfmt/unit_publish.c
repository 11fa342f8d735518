/* unit_publish.c: the index and manifest of sealed shards, and all failures of publishing. */
#include "dataset/manifest.h"
#include "fault_alloc.h"
#include "fault_io.h"
#include "speechshard/pcm.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

static char root[512];

static void make_path(char path[600], const char *name)
{
    REQUIRE(snprintf(path, 600, "%s/%s", root, name) < 600);
}

static spsh_bytes text(const char *string)
{
    return (spsh_bytes){(const uint8_t *)string, strlen(string)};
}

static bool is_text(spsh_bytes bytes, const char *string)
{
    return bytes.size_bytes == strlen(string) &&
           (bytes.size_bytes == 0 || memcmp(bytes.data, string, bytes.size_bytes) == 0);
}

static void write_dataset(tiny_dataset *dataset, const char *name)
{
    char path[600];
    make_path(path, name);
    tiny_dataset_write(dataset, path);
}

static spsh_dataset *open_dataset(const char *path)
{
    spsh_dataset *dataset = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_dataset_open(path, NULL, &dataset, &err) != SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
    return dataset;
}

static uint8_t *read_file(const char *path, const char *name, size_t *ret_bytes)
{
    char full[1200];
    uint8_t *data = NULL;
    REQUIRE(snprintf(full, sizeof(full), "%s/%s", path, name) < (int)sizeof(full));
    REQUIRE(spsh_io_read_file(spsh_io_default(), full, 1 << 30, NULL, &data, ret_bytes, NULL) ==
            SPSH_OK);
    return data;
}

static bool same_file(const char *path_a, const char *path_b, const char *name)
{
    size_t a_bytes = 0;
    size_t b_bytes = 0;
    uint8_t *a = read_file(path_a, name, &a_bytes);
    uint8_t *b = read_file(path_b, name, &b_bytes);
    bool same = a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
    free(a);
    free(b);
    return same;
}

/* Check that only the files of a dataset are left. */
static void check_no_leftovers(const char *path)
{
    char command[1200];
    (void)snprintf(command, sizeof(command),
                   "cd '%s' && test -z \"$(ls -A | grep -Ev "
                   "'^(shards|overlays|index-00000001.spsh|manifest(-[0-9]+)?.spsh)$')\"",
                   path);
    CHECK(system(command) == 0);
}

/* ---- rows ---- */

typedef struct expected_row {
    uint32_t payload_shard, payload_record;
    uint64_t start, samples;
    uint64_t duplicate_of;
} expected_row;

#define NONE SPSH_NONE_U64

static const expected_row plain[TINY_UTTERANCES] = {
    {0, 0, 0,    3000, NONE},
    {0, 0, 100,  500,  NONE},
    {0, 1, 0,    1000, NONE},
    {0, 0, 100,  500,  1   },
    {1, 0, 0,    9000, NONE},
    {0, 0, 0,    3000, 0   },
    {1, 0, 5000, 123,  NONE},
    {2, 0, 0,    3000, NONE},
    {2, 1, 0,    3000, NONE},
    {2, 2, 0,    500,  NONE},
    {3, 0, 0,    500,  NONE},
    {3, 1, 0,    777,  NONE},
    {3, 2, 0,    400,  NONE},
};

static void check_rows(const spsh_dataset *dataset, spsh_dedupe dedupe)
{
    spsh_row rows[TINY_UTTERANCES];
    REQUIRE(spsh_dataset_rows(dataset, 0, TINY_UTTERANCES, rows, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < TINY_UTTERANCES; i++) {
        expected_row want = plain[i];
        if (dedupe != SPSH_DEDUPE_NONE && i == 7)
            want = (expected_row){0, 0, 0, 3000, 0};
        if (dedupe == SPSH_DEDUPE_PCM && i == 8)
            want = (expected_row){0, 0, 0, 3000, 0};
        if (dedupe != SPSH_DEDUPE_NONE && i == 10)
            want = (expected_row){2, 2, 0, 500, 9};
        CHECK_U64(rows[i].payload_shard, want.payload_shard);
        CHECK_U64(rows[i].payload_record, want.payload_record);
        CHECK_U64(rows[i].start_sample, want.start);
        CHECK_U64(rows[i].samples, want.samples);
        CHECK_U64(rows[i].duplicate_of, want.duplicate_of);
        CHECK(((rows[i].flags & SPSH_UTTERANCE_DUPLICATE) != 0) == (want.duplicate_of != NONE));
        CHECK(((rows[i].flags & SPSH_UTTERANCE_HAS_TEXT) != 0) == (i != 2));
        CHECK_U64(rows[i].shard, i < 4 ? 0 : i < 7 ? 1 : i < 10 ? 2 : 3);
    }
    CHECK_U64(rows[4].shard_row, 0);
    CHECK_U64(rows[6].shard_row, 2);
    CHECK(rows[2].channels == 2 && rows[2].sample_rate_hz == 8000);
    CHECK(rows[2].codec == SPSH_CODEC_WAV && rows[4].codec == SPSH_CODEC_FLAC);
    CHECK(rows[8].codec == (dedupe == SPSH_DEDUPE_PCM ? SPSH_CODEC_PCM : SPSH_CODEC_WAV));
    CHECK_U64(rows[1].text_bytes, 4);
    CHECK(rows[4].domain == SPSH_NONE_U32 && rows[4].split == SPSH_NONE_U32);
    CHECK_U64(rows[2].domain, 1);
    CHECK_U64(rows[12].domain, 2);
    CHECK_U64(rows[5].split, 1);
    CHECK(rows[3].speaker == SPSH_NONE_U32 && rows[10].speaker == 4);
}

static void check_groups(const spsh_dataset *dataset)
{
    static const struct {
        const char *domain, *split;
        uint32_t rate;
        uint64_t utterances, samples;
    } want[] = {
        {"en", "train", 16000, 5, 9623},
        {"en", "test",  16000, 1, 500 },
        {"de", "train", 8000,  1, 1000},
        {"de", "test",  16000, 1, 3000},
        {"fr", "train", 16000, 2, 1177},
        {"fr", "train", 22050, 2, 1000},
        {"",   "",      16000, 1, 9000},
    };
    CHECK_U64(spsh_dataset_group_count(dataset), 7);
    for (uint64_t i = 0; i < 7; i++) {
        spsh_dataset_group group;
        REQUIRE(spsh_dataset_group_get(dataset, i, &group, NULL) == SPSH_OK);
        CHECK(is_text(group.domain, want[i].domain) && is_text(group.split, want[i].split));
        CHECK_U64(group.sample_rate_hz, want[i].rate);
        CHECK_U64(group.utterance_count, want[i].utterances);
        CHECK_U64(group.samples, want[i].samples);
    }
}

static uint64_t payload_bytes_of(const spsh_dataset *dataset, uint64_t position)
{
    spsh_reader *reader = NULL;
    const spsh_record *record = NULL;
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    REQUIRE(spsh_reader_record(reader, position, &record, NULL) == SPSH_OK);
    uint64_t payload_bytes = record->payload_bytes;
    spsh_reader_close(reader);
    return payload_bytes;
}

static void test_rows_and_sums(void)
{
    static const char *const names[] = {"rows-none", "rows-bytes", "rows-pcm"};
    static const uint64_t duplicates[] = {2, 4, 5};
    for (int i = 0; i < 3; i++) {
        tiny_dataset tiny;
        spsh_dataset_info info = SPSH_DATASET_INFO_INIT;
        spsh_error err = SPSH_ERROR_INIT;
        write_dataset(&tiny, names[i]);
        CHECK_I64(tiny_dataset_publish(&tiny, (spsh_dedupe)i, NULL, NULL, &info, &err), SPSH_OK);
        CHECK_STR(err.message, "");
        spsh_dataset *dataset = open_dataset(tiny.path);
        CHECK(memcmp(&info, spsh_dataset_info_get(dataset), sizeof(info)) == 0);
        CHECK_U64(info.generation, 1);
        CHECK_U64(info.utterance_count, TINY_UTTERANCES);
        CHECK_U64(info.record_count, TINY_RECORDS);
        CHECK_U64(info.shard_count, TINY_SHARDS);
        CHECK_U64(info.speaker_count, 5);
        CHECK_U64(info.reject_count, 2);
        CHECK_U64(info.source_row_count, 15);
        CHECK_U64(info.duplicate_count, duplicates[i]);
        uint64_t a_bytes = payload_bytes_of(dataset, 0);
        uint64_t d_bytes = payload_bytes_of(dataset, 9);
        uint64_t wav_bytes = 44 + 2 * TINY_SAMPLES_A;
        uint64_t unused[] = {0, a_bytes + d_bytes, a_bytes + d_bytes + wav_bytes};
        CHECK_U64(info.unused_payload_bytes, unused[i]);
        check_rows(dataset, (spsh_dedupe)i);
        check_groups(dataset);
        check_no_leftovers(tiny.path);
        spsh_dataset_close(dataset);
    }
}

/* ---- identical bytes ---- */

static void test_repeated_and_elsewhere(void)
{
    tiny_dataset a;
    tiny_dataset b;
    write_dataset(&a, "same-a");
    write_dataset(&b, "same-b");
    CHECK_I64(tiny_dataset_publish(&a, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL), SPSH_OK);
    CHECK_I64(tiny_dataset_publish(&b, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL), SPSH_OK);
    CHECK(same_file(a.path, b.path, "manifest.spsh"));
    CHECK(same_file(a.path, b.path, "index-00000001.spsh"));
    CHECK_I64(tiny_dataset_publish(&a, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL), SPSH_OK);
    CHECK(same_file(a.path, b.path, "manifest.spsh"));
    check_no_leftovers(a.path);
    /* Other options give another result. Nothing is replaced. */
    CHECK_I64(tiny_dataset_publish(&a, SPSH_DEDUPE_NONE, NULL, NULL, NULL, NULL), SPSH_E_EXISTS);
    CHECK(same_file(a.path, b.path, "manifest.spsh"));
}

static void test_after_an_edit(void)
{
    tiny_dataset tiny;
    write_dataset(&tiny, "edited");
    const spsh_overlay_entry entry = {text("u1"), text("noise")};
    CHECK_I64(tiny_dataset_publish(&tiny, SPSH_DEDUPE_NONE, NULL, NULL, NULL, NULL), SPSH_OK);
    CHECK_I64(spsh_overlay_add(tiny.path, "skips", SPSH_OVERLAY_SKIP, &entry, 1, NULL, NULL),
              SPSH_OK);
    CHECK_I64(tiny_dataset_publish(&tiny, SPSH_DEDUPE_NONE, NULL, NULL, NULL, NULL), SPSH_OK);
    spsh_dataset *dataset = open_dataset(tiny.path);
    CHECK_U64(spsh_dataset_info_get(dataset)->generation, 2);
    spsh_dataset_close(dataset);
}

static spsh_status publish_other_id(const tiny_dataset *tiny, spsh_error *err)
{
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    opt.path = tiny->path;
    opt.seals = tiny->seals;
    opt.seal_count = TINY_SHARDS;
    return spsh_dataset_publish(&opt, NULL, err);
}

static void test_another_dataset_is_there(void)
{
    tiny_dataset tiny;
    spsh_error err = SPSH_ERROR_INIT;
    write_dataset(&tiny, "other");
    CHECK_I64(tiny_dataset_publish(&tiny, SPSH_DEDUPE_NONE, NULL, NULL, NULL, NULL), SPSH_OK);
    CHECK_I64(publish_other_id(&tiny, &err), SPSH_E_EXISTS);
    CHECK(strstr(err.message, "another dataset") != NULL);
}

static void test_no_shards(void)
{
    char path[600];
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    spsh_row row;
    make_path(path, "empty");
    REQUIRE(mkdir(path, 0777) == 0);
    opt.path = path;
    CHECK_I64(spsh_dataset_publish(&opt, NULL, NULL), SPSH_OK);
    spsh_dataset *dataset = open_dataset(path);
    CHECK_U64(spsh_dataset_info_get(dataset)->utterance_count, 0);
    CHECK_U64(spsh_dataset_group_count(dataset), 0);
    CHECK_I64(spsh_dataset_rows(dataset, 0, 0, &row, NULL), SPSH_OK);
    CHECK_I64(spsh_dataset_rows(dataset, 0, 1, &row, NULL), SPSH_E_INVALID_ARG);
    spsh_reader *reader = NULL;
    uint64_t position = 0;
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    CHECK_I64(spsh_reader_find(reader, text("u0"), &position, NULL), SPSH_E_NOT_FOUND);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

/* ---- wrong arguments and shards ---- */

static void test_wrong_seals(void)
{
    tiny_dataset tiny;
    spsh_shard_seal seals[TINY_SHARDS];
    spsh_error err = SPSH_ERROR_INIT;
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    write_dataset(&tiny, "seals");
    opt.path = tiny.path;
    memcpy(opt.dataset_id, tiny_dataset_id, 16);
    opt.seals = seals;
    opt.seal_count = TINY_SHARDS;

    memcpy(seals, tiny.seals, sizeof(seals));
    seals[0] = tiny.seals[2];
    seals[2] = tiny.seals[0];
    CHECK_I64(spsh_dataset_publish(&opt, NULL, &err), SPSH_E_INVALID_ARG);

    memcpy(seals, tiny.seals, sizeof(seals));
    seals[2].root_hash[3] ^= 1;
    CHECK_I64(spsh_dataset_publish(&opt, NULL, &err), SPSH_E_MISMATCH);
    CHECK(strstr(err.message, "000001-000.spsh") != NULL);

    memcpy(seals, tiny.seals, sizeof(seals));
    seals[1].record_count++;
    CHECK_I64(spsh_dataset_publish(&opt, NULL, &err), SPSH_E_MISMATCH);

    /* Without the first shard of unit 0, its second shard does not begin at 0. */
    memcpy(seals, tiny.seals + 1, 3 * sizeof(seals[0]));
    opt.seal_count = 3;
    CHECK_I64(spsh_dataset_publish(&opt, NULL, &err), SPSH_E_INVALID_ARG);

    memcpy(seals, tiny.seals, sizeof(seals));
    opt.seal_count = TINY_SHARDS;
    char path[1200];
    (void)snprintf(path, sizeof(path), "%s/shards/000002-000.spsh", tiny.path);
    REQUIRE(unlink(path) == 0);
    CHECK_I64(spsh_dataset_publish(&opt, NULL, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "000002-000.spsh") != NULL);
    check_no_leftovers(tiny.path);
}

/* ---- larger, from a list of ids ---- */

typedef struct made {
    char path[600];
    spsh_shard_seal seals[8];
    uint64_t seal_count;
} made;

/* Units of one shard; each has four one-sample records; utterance i of the list views record i % 4.
 * flags: of all records; their PCM hashes are 0. */
static void make_flagged_dataset(made *dataset, const char *name, uint64_t units, uint64_t rows,
                                 uint32_t flags,
                                 void (*id_of)(uint64_t unit, uint64_t row, char id[64]))
{
    char directory[700];
    uint8_t payload[4096];
    size_t payload_bytes = 0;
    make_path(dataset->path, name);
    REQUIRE(mkdir(dataset->path, 0777) == 0);
    (void)snprintf(directory, sizeof(directory), "%s/shards", dataset->path);
    REQUIRE(mkdir(directory, 0777) == 0);
    dataset->seal_count = units;
    for (uint64_t unit = 0; unit < units; unit++) {
        spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
        spsh_shard_writer *writer = NULL;
        opt.directory = directory;
        opt.unit = unit;
        REQUIRE(spsh_shard_writer_open(&opt, &writer, NULL) == SPSH_OK);
        for (uint64_t i = 0; i < 4; i++) {
            const int16_t sample = (int16_t)(unit * i); /* record 0 is the same in all units */
            uint64_t number = 0;
            const spsh_record record = {.id = text("r"),
                                        .samples = 1,
                                        .sample_rate_hz = 8000,
                                        .nominal_rate_hz = 8000,
                                        .channels = 1,
                                        .codec = SPSH_CODEC_PCM,
                                        .format = SPSH_SAMPLE_I16,
                                        .bits_per_sample = 16,
                                        .flags = flags};
            spsh_record with_size = record;
            REQUIRE(spsh_pcm_encode(&sample, 1, 1, payload, sizeof(payload), &payload_bytes,
                                    NULL) == SPSH_OK);
            with_size.payload_bytes = payload_bytes;
            REQUIRE(spsh_shard_writer_add_record(writer, &with_size, payload, &number, NULL) ==
                    SPSH_OK);
        }
        for (uint64_t row = 0; row < rows; row++) {
            char id[64];
            id_of(unit, row, id);
            const spsh_utterance utterance = {
                .id = text(id), .record = row % 4, .samples = 1, .speaker = text(id)};
            REQUIRE(spsh_shard_writer_add_utterance(writer, &utterance, NULL) == SPSH_OK);
        }
        REQUIRE(spsh_shard_writer_seal(writer, &dataset->seals[unit], NULL) == SPSH_OK);
        spsh_shard_writer_free(writer);
    }
}

static void make_dataset(made *dataset, const char *name, uint64_t units, uint64_t rows,
                         void (*id_of)(uint64_t unit, uint64_t row, char id[64]))
{
    make_flagged_dataset(dataset, name, units, rows, 0, id_of);
}

static spsh_status publish_made(const made *dataset, uint64_t memory_bytes,
                                spsh_dataset_info *ret_info, spsh_error *err)
{
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    opt.path = dataset->path;
    opt.seals = dataset->seals;
    opt.seal_count = dataset->seal_count;
    opt.dedupe = SPSH_DEDUPE_PCM;
    opt.memory_bytes = memory_bytes;
    return spsh_dataset_publish(&opt, ret_info, err);
}

static void unique_id(uint64_t unit, uint64_t row, char id[64])
{
    (void)snprintf(id, 64, "utterance-%" PRIu64 "-%" PRIu64, unit, row);
}

static void same_id_twice(uint64_t unit, uint64_t row, char id[64])
{
    unique_id(unit == 1 && row == 4 ? 0 : unit, row == 4 ? 2 : row, id);
    if (unit == 0 && row == 4)
        (void)snprintf(id, 64, "another");
}

static void test_an_id_twice(void)
{
    made dataset;
    spsh_error err = SPSH_ERROR_INIT;
    make_dataset(&dataset, "twice", 2, 6, same_id_twice);
    CHECK_I64(publish_made(&dataset, 0, NULL, &err), SPSH_E_SYNTAX);
    CHECK(strstr(err.message, "\"utterance-0-2\"") != NULL);
    CHECK(strstr(err.message, "number 4 of unit 1") != NULL);
    check_no_leftovers(dataset.path);
}

/* A caller that cancels at a call of its progress function. */
typedef struct canceler {
    uint64_t calls, cancel_at;
    uint64_t phases;
    char phase[16];
    uint64_t done;
} canceler;

static int cancel_at_call(void *user, const char *phase, uint64_t done, uint64_t total)
{
    canceler *c = (canceler *)user;
    if (strcmp(c->phase, phase) != 0) {
        (void)snprintf(c->phase, sizeof(c->phase), "%s", phase);
        c->phases++;
        c->done = 0;
    }
    CHECK(done >= c->done && done <= total);
    c->done = done;
    return c->calls++ == c->cancel_at;
}

static void test_canceling_at_every_call(void)
{
    made dataset;
    spsh_status rc = SPSH_E_CANCELED;
    make_dataset(&dataset, "canceled", 3, 6, unique_id);
    for (uint64_t n = 0; rc == SPSH_E_CANCELED; n++) {
        canceler c = {.cancel_at = n};
        spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
        spsh_dataset *opened = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        opt.path = dataset.path;
        opt.seals = dataset.seals;
        opt.seal_count = dataset.seal_count;
        opt.dedupe = SPSH_DEDUPE_BYTES;
        opt.progress_fn = cancel_at_call;
        opt.progress_user = &c;
        REQUIRE(n < 100);
        rc = spsh_dataset_publish(&opt, NULL, &err);
        CHECK(rc == SPSH_OK || rc == SPSH_E_CANCELED);
        CHECK_U64(c.calls, rc == SPSH_OK ? n : n + 1);
        check_no_leftovers(dataset.path);
        if (rc == SPSH_OK) {
            CHECK_U64(c.phases, 7);
            break;
        }
        CHECK(strstr(err.message, "canceled") != NULL);
        CHECK_I64(spsh_dataset_open(dataset.path, NULL, &opened, NULL), SPSH_E_NOT_FOUND);
    }
    spsh_dataset_close(open_dataset(dataset.path));
}

static void test_little_memory_gives_the_same(void)
{
    made a;
    made b;
    spsh_dataset_info info = SPSH_DATASET_INFO_INIT;
    make_dataset(&a, "large", 3, 20000, unique_id);
    make_dataset(&b, "small", 3, 20000, unique_id);
    CHECK_I64(publish_made(&a, 0, &info, NULL), SPSH_OK);
    CHECK_I64(publish_made(&b, 1, NULL, NULL), SPSH_OK);
    CHECK(same_file(a.path, b.path, "manifest.spsh"));
    CHECK(same_file(a.path, b.path, "index-00000001.spsh"));
    /* Unit 0 has the same record four times, units 1 and 2 have it once each. */
    CHECK_U64(info.duplicate_count, 4 * 5000 - 1 + 2 * 5000 + 6 * 5000 - 5);
    spsh_dataset *dataset = open_dataset(a.path);
    spsh_reader *reader = NULL;
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < 60000; i += 97) {
        char id[64];
        uint64_t position = 0;
        unique_id(i / 20000, i % 20000, id);
        REQUIRE(spsh_reader_find(reader, text(id), &position, NULL) == SPSH_OK);
        CHECK_U64(position, i);
        (void)snprintf(id, sizeof(id), "absent-%" PRIu64, i);
        CHECK_I64(spsh_reader_find(reader, text(id), &position, NULL), SPSH_E_NOT_FOUND);
    }
    spsh_row *rows = (spsh_row *)malloc(60000 * sizeof(*rows));
    REQUIRE(rows != NULL && spsh_dataset_rows(dataset, 0, 60000, rows, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < 60000; i++) {
        bool same_as_first = i < 20000 || i % 4 == 0;
        uint64_t first = i < 20000 || i % 4 == 0 ? 0 : i / 20000 * 20000 + i % 4;
        /* Record 2 of unit 1 and record 1 of unit 2 hold the same sample. */
        if (i >= 40000 && i % 4 == 1)
            first = 20002;
        CHECK_U64(rows[i].speaker, i);
        CHECK_U64(rows[i].payload_shard, same_as_first ? 0 : first / 20000);
        CHECK_U64(rows[i].duplicate_of, first == i ? SPSH_NONE_U64 : first);
    }
    free(rows);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

/* The PCM hashes of all records are equal, their samples are not. The first eight different ones
 * are kept for comparison. Sample 12 is the tenth, and appears twice. */
static void test_different_audio_of_equal_hashes(void)
{
    enum { UNITS = 7, ROWS = 4 * UNITS, KEPT_MAX = 8 };
    made dataset;
    spsh_row rows[ROWS];
    uint64_t kept_samples[KEPT_MAX];
    uint64_t kept_rows[KEPT_MAX];
    uint64_t kept = 0;
    uint64_t copies = 0;
    spsh_dataset_info info = SPSH_DATASET_INFO_INIT;
    make_flagged_dataset(&dataset, "equal-hashes", UNITS, 4, SPSH_RECORD_PCM_HASH, unique_id);
    CHECK_I64(publish_made(&dataset, 0, &info, NULL), SPSH_OK);
    spsh_dataset *opened = open_dataset(dataset.path);
    REQUIRE(spsh_dataset_rows(opened, 0, ROWS, rows, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < ROWS; i++) {
        const uint64_t sample = i / 4 * (i % 4);
        uint64_t k = 0;
        while (k < kept && kept_samples[k] != sample)
            k++;
        CHECK_U64(rows[i].duplicate_of, k < kept ? kept_rows[k] : NONE);
        copies += k < kept;
        if (k == kept && kept < KEPT_MAX) {
            kept_samples[kept] = sample;
            kept_rows[kept++] = i;
        }
    }
    CHECK(rows[19].duplicate_of == NONE && rows[26].duplicate_of == NONE);
    CHECK_U64(info.duplicate_count, copies);
    spsh_dataset_close(opened);
}

/* ---- failures ---- */

static void test_every_allocation_failure(void)
{
    tiny_dataset tiny;
    spsh_status rc = SPSH_E_NO_MEMORY;
    write_dataset(&tiny, "allocations");
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        REQUIRE(fail_at < 5000);
        rc = tiny_dataset_publish(&tiny, SPSH_DEDUPE_PCM, &allocator, NULL, NULL, NULL);
        /* Decoding libraries allocate their own memory. If that fails, they report only that they
         * cannot continue. */
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_AUDIO);
        CHECK_I64(fault.live_count, 0);
    }
    check_no_leftovers(tiny.path);
    tiny_dataset whole;
    write_dataset(&whole, "allocations-whole");
    CHECK_I64(tiny_dataset_publish(&whole, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL), SPSH_OK);
    CHECK(same_file(tiny.path, whole.path, "manifest.spsh"));
}

static void remove_published(const char *path)
{
    char command[1200];
    (void)snprintf(command, sizeof(command), "rm -f '%s'/*.spsh '%s'/*tmp*", path, path);
    REQUIRE(system(command) == 0);
}

/* Either one call fails, or all calls from one on fail, as after a crash. Repeating the publication
 * gives the same bytes. */
static void run_io_failures(const char *name, uint64_t fail_count)
{
    tiny_dataset tiny;
    tiny_dataset whole;
    char whole_name[64];
    (void)snprintf(whole_name, sizeof(whole_name), "%s-whole", name);
    write_dataset(&tiny, name);
    write_dataset(&whole, whole_name);
    fault_io plain_fault = {.fail_at = UINT64_MAX};
    spsh_io plain_io = fault_io_table(&plain_fault);
    CHECK_I64(tiny_dataset_publish(&whole, SPSH_DEDUPE_BYTES, NULL, &plain_io, NULL, NULL),
              SPSH_OK);
    CHECK_I64(plain_fault.open_count, 0);
    uint64_t published_though_failed = 0;
    const uint64_t calls = plain_fault.call_count;
    for (uint64_t fail_at = 0; fail_at < calls; fail_at++) {
        fault_io fault = {.fail_at = fail_at, .fail_count = fail_count, .fail_errno = EIO};
        spsh_io io = fault_io_table(&fault);
        spsh_error err = SPSH_ERROR_INIT;
        spsh_dataset *dataset = NULL;
        spsh_status rc = tiny_dataset_publish(&tiny, SPSH_DEDUPE_BYTES, NULL, &io, NULL, &err);
        CHECK(rc == SPSH_OK || err.message[0] != '\0');
        CHECK_I64(fault.open_count, 0);
        published_though_failed += rc == SPSH_OK ? 1 : 0;
        /* There is either a whole dataset or no dataset. */
        spsh_status opened = spsh_dataset_open(tiny.path, NULL, &dataset, NULL);
        CHECK(opened == SPSH_OK || (opened == SPSH_E_NOT_FOUND && rc != SPSH_OK));
        spsh_dataset_close(dataset);
        CHECK_I64(tiny_dataset_publish(&tiny, SPSH_DEDUPE_BYTES, NULL, &plain_io, NULL, NULL),
                  SPSH_OK);
        CHECK(same_file(tiny.path, whole.path, "manifest.spsh"));
        CHECK(same_file(tiny.path, whole.path, "index-00000001.spsh"));
        remove_published(tiny.path);
    }
    /* Publication may succeed if the failed call closes a file that was only read. */
    CHECK(published_though_failed < calls / 2);
}

static void test_every_io_failure(void)
{
    run_io_failures("io-once", 1);
}

static void test_a_crash_at_every_call(void)
{
    run_io_failures("io-crash", UINT64_MAX);
}

TEST_MAIN(unit_publish)
{
    test_temp_dir(root, sizeof(root));
    RUN(test_rows_and_sums);
    RUN(test_repeated_and_elsewhere);
    RUN(test_after_an_edit);
    RUN(test_another_dataset_is_there);
    RUN(test_no_shards);
    RUN(test_wrong_seals);
    RUN(test_an_id_twice);
    RUN(test_canceling_at_every_call);
    RUN(test_little_memory_gives_the_same);
    RUN(test_different_audio_of_equal_hashes);
    RUN(test_every_allocation_failure);
    RUN(test_every_io_failure);
    RUN(test_a_crash_at_every_call);
    test_remove_tree(root);
    return TEST_RESULT();
}
