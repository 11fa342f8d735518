/* unit_dataset.c: opening, rows, lookup, text, payloads, PCM in pieces and from segments, many
 * threads, and error messages. */
#include <errno.h>
#include <pthread.h>

#include "base/checksum.h"
#include "dataset_operands.h"
#include "fault_alloc.h"
#include "fault_io.h"
#include "format/container.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

static char root[512];
static tiny_dataset tiny; /* published once, only read */

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

static void test_names_with_splits(void)
{
    spsh_io io = *spsh_io_default();
    io.stat_fn = dataset_operands_stat;
    for (size_t i = 0; i < DATASET_OPERANDS; i++) {
        char name[32];
        const char *splits = "";
        (void)snprintf(name, sizeof(name), "%s", dataset_operands[i].name);
        REQUIRE(spsh_dataset_name_cut(name, &io, &splits, NULL) == SPSH_OK);
        CHECK_STR(name, dataset_operands[i].path);
        CHECK((splits == NULL) == (dataset_operands[i].splits == NULL));
        if (splits != NULL && dataset_operands[i].splits != NULL)
            CHECK_STR(splits, dataset_operands[i].splits);
    }
    for (size_t i = 0; i < BAD_DATASET_OPERANDS; i++) {
        char name[32];
        const char *splits = "untouched";
        spsh_error err = SPSH_ERROR_INIT;
        (void)snprintf(name, sizeof(name), "%s", bad_dataset_operands[i]);
        CHECK(spsh_dataset_name_cut(name, NULL, &splits, &err) == SPSH_E_INVALID_ARG);
        CHECK_STR(name, bad_dataset_operands[i]);
        CHECK_STR(splits, "untouched");
        CHECK(strstr(err.message, bad_dataset_operands[i]) != NULL);
    }
}

static void open_both(spsh_dataset **ret_dataset, spsh_reader **ret_reader)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_dataset_open(tiny.path, NULL, ret_dataset, &err) != SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
    REQUIRE(spsh_reader_open(*ret_dataset, ret_reader, NULL) == SPSH_OK);
}

static void copy_dataset(char path[600], const char *name)
{
    char command[2000];
    REQUIRE(snprintf(path, 600, "%s/%s", root, name) < 600);
    (void)snprintf(command, sizeof(command), "cp -r '%s' '%s'", tiny.path, path);
    REQUIRE(system(command) == 0);
}

static void run_in(const char *path, const char *what)
{
    char command[2000];
    (void)snprintf(command, sizeof(command), "cd '%s' && %s", path, what);
    REQUIRE(system(command) == 0);
}

/* ---- index ---- */

static void test_arguments(void)
{
    spsh_dataset *dataset = NULL;
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    CHECK_I64(spsh_dataset_open("", NULL, &dataset, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_dataset_open(NULL, NULL, &dataset, NULL), SPSH_E_INVALID_ARG);
    opt.flags = 2;
    CHECK_I64(spsh_dataset_open(tiny.path, &opt, &dataset, NULL), SPSH_E_INVALID_ARG);
    opt.flags = 0;
    opt.struct_size = 4;
    CHECK_I64(spsh_dataset_open(tiny.path, &opt, &dataset, NULL), SPSH_E_INVALID_ARG);
    /* An older caller, with options that end before the generation. */
    opt.struct_size = offsetof(spsh_dataset_options, generation);
    opt.generation = 99;
    CHECK_I64(spsh_dataset_open(tiny.path, &opt, &dataset, NULL), SPSH_OK);
    spsh_dataset_close(dataset);
    spsh_dataset_close(NULL);
    spsh_reader_close(NULL);
}

static void test_rows_one_by_one_and_together(void)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_row all[TINY_UTTERANCES];
    open_both(&dataset, &reader);
    CHECK_STR(spsh_dataset_path(dataset), tiny.path);
    REQUIRE(spsh_dataset_rows(dataset, 0, TINY_UTTERANCES, all, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < TINY_UTTERANCES; i++) {
        spsh_row row;
        memset(&row, 0x55, sizeof(row));
        REQUIRE(spsh_dataset_rows(dataset, i, 1, &row, NULL) == SPSH_OK);
        CHECK(row.id_hash == all[i].id_hash && row.shard == all[i].shard &&
              row.shard_row == all[i].shard_row && row.samples == all[i].samples &&
              row.record_offset_bytes == all[i].record_offset_bytes);
        CHECK_U64(row.id_hash, spsh__hash64(tiny_dataset_ids[i], strlen(tiny_dataset_ids[i])));
    }
    spsh_row row;
    CHECK_I64(spsh_dataset_rows(dataset, TINY_UTTERANCES, 0, &row, NULL), SPSH_OK);
    CHECK_I64(spsh_dataset_rows(dataset, TINY_UTTERANCES, 1, &row, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_dataset_rows(dataset, 1, UINT64_MAX, &row, NULL), SPSH_E_INVALID_ARG);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static uint64_t number(spsh_bytes elements, uint64_t at, size_t element_bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < element_bytes; i++)
        value |= (uint64_t)elements.data[at * element_bytes + i] << (8 * i);
    return value;
}

/* Every column, read whole and from the middle, equals the rows. */
static void test_columns(void)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_row rows[TINY_UTTERANCES];
    open_both(&dataset, &reader);
    REQUIRE(spsh_dataset_rows(dataset, 0, TINY_UTTERANCES, rows, NULL) == SPSH_OK);
    for (uint32_t column = SPSH_COLUMN_ID_HASH; column <= SPSH_COLUMN_TEXT_BYTES; column++) {
        spsh_bytes all = {NULL, 0};
        spsh_bytes one = {NULL, 0};
        REQUIRE(spsh_dataset_column(dataset, (spsh_column)column, 0, TINY_UTTERANCES, &all, NULL) ==
                SPSH_OK);
        const size_t element_bytes = all.size_bytes / TINY_UTTERANCES;
        CHECK((uintptr_t)all.data % element_bytes == 0);
        for (uint64_t i = 0; i < TINY_UTTERANCES; i++) {
            const spsh_row *r = &rows[i];
            const uint64_t want[] = {
                r->id_hash,
                0,
                r->payload_shard,
                r->payload_record,
                r->record_offset_bytes,
                r->record_bytes,
                r->start_sample,
                r->samples,
                r->sample_rate_hz,
                r->channels,
                r->codec,
                r->flags,
                r->duplicate_of,
                r->domain,
                r->split,
                r->speaker,
                r->language,
                r->document,
                r->text_bytes,
            };
            REQUIRE(spsh_dataset_column(dataset, (spsh_column)column, i, 1, &one, NULL) == SPSH_OK);
            CHECK_U64(one.size_bytes, element_bytes);
            CHECK(one.data == all.data + i * element_bytes);
            if (column != SPSH_COLUMN_BY_ID)
                CHECK_U64(number(all, i, element_bytes), want[column - SPSH_COLUMN_ID_HASH]);
            else if (i > 0)
                CHECK(rows[number(all, i - 1, 8)].id_hash < rows[number(all, i, 8)].id_hash);
        }
    }
    spsh_bytes none = {NULL, 77};
    CHECK_I64(spsh_dataset_column(dataset, SPSH_COLUMN_FLAGS, TINY_UTTERANCES, 0, &none, NULL),
              SPSH_OK);
    CHECK_U64(none.size_bytes, 0);
    none.size_bytes = 77;
    CHECK_I64(spsh_dataset_column(dataset, SPSH_COLUMN_FLAGS, TINY_UTTERANCES, 1, &none, NULL),
              SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_dataset_column(dataset, SPSH_COLUMN_FLAGS, 1, UINT64_MAX, &none, NULL),
              SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_dataset_column(dataset, (spsh_column)31, 0, 1, &none, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_dataset_column(dataset, (spsh_column)51, 0, 1, &none, NULL), SPSH_E_INVALID_ARG);
    CHECK_U64(none.size_bytes, 77);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void test_index_hash(void)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh__container *index = NULL;
    char path[600];
    open_both(&dataset, &reader);
    (void)snprintf(path, sizeof(path), "%s/index-00000001.spsh", tiny.path);
    REQUIRE(spsh__container_open(NULL, path, SPSH__KIND_INDEX, NULL, &index, NULL) == SPSH_OK);
    CHECK(memcmp(spsh_dataset_info_get(dataset)->index_hash,
                 spsh__container_footer(index)->root_hash, 16) == 0);
    spsh__container_close(index);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void test_names_and_options(void)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_bytes name = {NULL, 0};
    spsh_dataset_group group;
    spsh_shard_seal seal;
    open_both(&dataset, &reader);
    CHECK_U64(spsh_dataset_name_count(dataset, SPSH_NAME_DOMAIN), 3);
    CHECK_U64(spsh_dataset_name_count(dataset, SPSH_NAME_DOCUMENT), 0);
    REQUIRE(spsh_dataset_name(dataset, SPSH_NAME_DOMAIN, 1, &name, NULL) == SPSH_OK);
    CHECK(is_text(name, "de"));
    REQUIRE(spsh_dataset_name(dataset, SPSH_NAME_SPEAKER, 4, &name, NULL) == SPSH_OK);
    CHECK(is_text(name, "eve"));
    REQUIRE(spsh_dataset_name(dataset, SPSH_NAME_SPEAKER, SPSH_NONE_U32, &name, NULL) == SPSH_OK);
    CHECK(is_text(name, ""));
    CHECK_I64(spsh_dataset_name(dataset, SPSH_NAME_SPEAKER, 5, &name, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_dataset_name(dataset, SPSH_NAME_KINDS, 0, &name, NULL), SPSH_E_INVALID_ARG);
    REQUIRE(spsh_dataset_pack_options(dataset, &name, NULL) == SPSH_OK);
    CHECK(is_text(name, "{\"codec\":\"keep\"}"));
    CHECK_I64(spsh_dataset_group_get(dataset, 7, &group, NULL), SPSH_E_INVALID_ARG);
    for (uint64_t i = 0; i < TINY_SHARDS; i++) {
        REQUIRE(spsh_dataset_shard(dataset, i, &seal, NULL) == SPSH_OK);
        CHECK(memcmp(seal.file_id, tiny.seals[i].file_id, 16) == 0);
        CHECK(memcmp(seal.root_hash, tiny.seals[i].root_hash, 16) == 0);
        CHECK(seal.unit == tiny.seals[i].unit && seal.number == tiny.seals[i].number);
        CHECK(seal.record_count == tiny.seals[i].record_count);
    }
    CHECK_I64(spsh_dataset_shard(dataset, TINY_SHARDS, &seal, NULL), SPSH_E_INVALID_ARG);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void test_find(void)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t position = 0;
    open_both(&dataset, &reader);
    for (uint64_t i = 0; i < TINY_UTTERANCES; i++) {
        CHECK_I64(spsh_reader_find(reader, text(tiny_dataset_ids[i]), &position, NULL), SPSH_OK);
        CHECK_U64(position, i);
    }
    CHECK_I64(spsh_reader_find(reader, text("u"), &position, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "\"u\"") != NULL && strstr(err.message, tiny.path) != NULL);
    CHECK_I64(spsh_reader_find(reader, text(""), &position, NULL), SPSH_E_NOT_FOUND);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

/* ---- audio ---- */

static void check_i16(char recording, uint64_t first, uint32_t channels, const int16_t *pcm,
                      uint64_t samples)
{
    for (uint64_t i = 0; i < samples * channels; i++)
        if (pcm[i] != tiny_dataset_sample(recording, first * channels + i)) {
            CHECK_I64(pcm[i], tiny_dataset_sample(recording, first * channels + i));
            return;
        }
}

static const struct {
    uint64_t position;
    char recording;
    uint32_t channels;
    uint64_t first, samples; /* in the recording */
} readable[] = {
    {0,  'A', 1, 0,    TINY_SAMPLES_A},
    {1,  'A', 1, 100,  500           },
    {2,  'B', 2, 0,    TINY_SAMPLES_B},
    {4,  'C', 1, 0,    TINY_SAMPLES_C},
    {5,  'A', 1, 0,    TINY_SAMPLES_A},
    {6,  'C', 1, 5000, 123           },
    {7,  'A', 1, 0,    TINY_SAMPLES_A},
    {8,  'A', 1, 0,    TINY_SAMPLES_A},
    {10, 'D', 1, 0,    TINY_SAMPLES_D},
};
enum { READABLE = sizeof(readable) / sizeof(readable[0]) };

static void test_pcm_whole_and_in_pieces(void)
{
    static const uint64_t pieces[] = {20000, 4096, 777, 1};
    static int16_t pcm[20000];
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    open_both(&dataset, &reader);
    for (size_t p = 0; p < 4; p++)
        for (size_t r = 0; r < READABLE; r++) {
            uint64_t done = 0;
            if (pieces[p] == 1 && readable[r].samples > 500)
                continue;
            while (done < readable[r].samples) {
                uint64_t got = 0;
                REQUIRE(spsh_reader_read_i16(reader, readable[r].position, done,
                                             pcm + done * readable[r].channels, pieces[p], &got,
                                             NULL) == SPSH_OK);
                uint64_t left = readable[r].samples - done;
                CHECK_U64(got, left < pieces[p] ? left : pieces[p]);
                done += got;
            }
            check_i16(readable[r].recording, readable[r].first, readable[r].channels, pcm, done);
            uint64_t got = 1;
            CHECK_I64(spsh_reader_read_i16(reader, readable[r].position, done, pcm, 10, &got, NULL),
                      SPSH_OK);
            CHECK_U64(got, 0);
            CHECK_I64(
                spsh_reader_read_i16(reader, readable[r].position, done + 1, pcm, 10, &got, NULL),
                SPSH_E_INVALID_ARG);
        }
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void test_pcm_at_random(void)
{
    static int16_t pcm[20000];
    uint64_t seed = test_seed(11);
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    open_both(&dataset, &reader);
    for (int i = 0; i < 2000; i++) {
        size_t r = (size_t)(test_random(&seed) % READABLE);
        uint64_t first = test_random(&seed) % (readable[r].samples + 1);
        uint64_t capacity = test_random(&seed) % 1200;
        uint64_t got = 0;
        REQUIRE(spsh_reader_read_i16(reader, readable[r].position, first, pcm, capacity, &got,
                                     NULL) == SPSH_OK);
        uint64_t left = readable[r].samples - first;
        CHECK_U64(got, left < capacity ? left : capacity);
        check_i16(readable[r].recording, readable[r].first + first, readable[r].channels, pcm, got);
    }
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void test_other_sample_types(void)
{
    static int32_t wide[TINY_SAMPLES_A];
    static float real[TINY_SAMPLES_A];
    uint64_t got = 0;
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    open_both(&dataset, &reader);
    REQUIRE(spsh_reader_read_i32(reader, 0, 0, wide, TINY_SAMPLES_A, &got, NULL) == SPSH_OK);
    CHECK_U64(got, TINY_SAMPLES_A);
    REQUIRE(spsh_reader_read_f32(reader, 0, 0, real, TINY_SAMPLES_A, &got, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < TINY_SAMPLES_A; i++) {
        REQUIRE(wide[i] == tiny_dataset_sample('A', i) * 65536);
        REQUIRE(real[i] == (float)tiny_dataset_sample('A', i) / 32768.0F);
    }
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void test_what_cannot_be_decoded(void)
{
    static int16_t pcm[20000];
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_record *record = NULL;
    uint64_t got = 0;
    open_both(&dataset, &reader);
    CHECK_I64(spsh_reader_read_i16(reader, 11, 0, pcm, 10, &got, &err), SPSH_E_AUDIO);
    CHECK(strstr(err.message, "\"x1\"") != NULL && strstr(err.message, tiny.path) != NULL);
    CHECK(strstr(err.message, "cannot decode") != NULL);
    CHECK_I64(spsh_reader_record(reader, 11, &record, NULL), SPSH_OK);
    CHECK(is_text(record->id, "rec-E"));
    uint8_t payload[20];
    CHECK_I64(spsh_reader_payload(reader, 11, 0, payload, 20, NULL), SPSH_OK);
    CHECK(memcmp(payload, "fLaC, but not really", 20) == 0);
    /* The stated length is too small: the beginning can be read, the end is rejected. */
    CHECK_I64(spsh_reader_read_i16(reader, 12, 0, pcm, TINY_SAMPLES_F - 1, &got, &err), SPSH_OK);
    CHECK_I64(spsh_reader_read_i16(reader, 12, TINY_SAMPLES_F - 1, pcm, 9, &got, &err),
              SPSH_E_AUDIO);
    CHECK(strstr(err.message, "\"x2\"") != NULL && strstr(err.message, "400") != NULL);
    CHECK_I64(spsh_reader_read_i16(reader, 12, 0, pcm, 5, &got, &err), SPSH_OK);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void test_payloads(void)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    const spsh_record *record = NULL;
    uint8_t whole[4100];
    uint8_t part[100];
    open_both(&dataset, &reader);
    REQUIRE(spsh_reader_record(reader, 2, &record, NULL) == SPSH_OK);
    CHECK(is_text(record->id, "rec-B") && record->channels == 2);
    CHECK_U64(record->payload_bytes, 44 + 4 * TINY_SAMPLES_B);
    REQUIRE(spsh_reader_payload(reader, 2, 0, whole, 44 + 4 * TINY_SAMPLES_B, NULL) == SPSH_OK);
    CHECK(memcmp(whole, "RIFF", 4) == 0);
    REQUIRE(spsh_reader_payload(reader, 2, 1000, part, 100, NULL) == SPSH_OK);
    CHECK(memcmp(whole + 1000, part, 100) == 0);
    CHECK(spsh_reader_payload(reader, 2, 44 + 4 * TINY_SAMPLES_B - 50, part, 100, NULL) != SPSH_OK);
    CHECK_I64(spsh_reader_payload(reader, TINY_UTTERANCES, 0, part, 1, NULL), SPSH_E_INVALID_ARG);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

/* ---- threads, with a limit of open shards below the number of shards ---- */

typedef struct job {
    const spsh_dataset *dataset;
    uint64_t seed;
    uint64_t wrong;
} job;

static void *read_at_random(void *user)
{
    job *mine = (job *)user;
    spsh_reader *reader = NULL;
    int16_t pcm[600];
    uint64_t seed = mine->seed;
    if (spsh_reader_open(mine->dataset, &reader, NULL) != SPSH_OK) {
        mine->wrong++;
        return NULL;
    }
    for (int i = 0; i < 300; i++) {
        uint64_t position = test_random(&seed) % 11; /* 11 and 12 cannot be decoded */
        uint64_t found = 0;
        uint64_t got = 0;
        spsh_utterance u;
        spsh_row row;
        spsh_status rc = spsh_dataset_rows(mine->dataset, position, 1, &row, NULL);
        if (rc == SPSH_OK)
            rc = spsh_reader_find(reader, text(tiny_dataset_ids[position]), &found, NULL);
        if (rc == SPSH_OK)
            rc = spsh_reader_metadata(reader, position, &u, NULL);
        if (rc == SPSH_OK && !is_text(u.id, tiny_dataset_ids[position]))
            rc = SPSH_E_MISMATCH;
        if (rc == SPSH_OK)
            rc = spsh_reader_read_i16(reader, position, 0, pcm, 300, &got, NULL);
        mine->wrong += rc != SPSH_OK || found != position;
    }
    spsh_reader_close(reader);
    return NULL;
}

static void test_threads(void)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    job jobs[THREADS];
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    opt.shards_open_max = 2;
    REQUIRE(spsh_dataset_open(tiny.path, &opt, &dataset, NULL) == SPSH_OK);
    for (size_t i = 0; i < THREADS; i++) {
        jobs[i] = (job){dataset, i + 1, 0};
        REQUIRE(pthread_create(&threads[i], NULL, read_at_random, &jobs[i]) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
        CHECK_U64(jobs[i].wrong, 0);
    }
    spsh_dataset_close(dataset);
}

static void test_shards_open_max_is_kept(void)
{
    fault_io fault = {.fail_at = UINT64_MAX};
    spsh_io io = fault_io_table(&fault);
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_utterance u;
    opt.io = &io;
    opt.shards_open_max = 1;
    REQUIRE(spsh_dataset_open(tiny.path, &opt, &dataset, NULL) == SPSH_OK);
    int64_t open_before = fault.open_count;
    CHECK_I64(open_before, 4); /* two files, each with a mapping */
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < TINY_UTTERANCES; i++) {
        REQUIRE(spsh_reader_metadata(reader, i, &u, NULL) == SPSH_OK);
        CHECK(fault.open_count - open_before <= 2);
    }
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
    CHECK_I64(fault.open_count, 0);
}

/* ---- missing and wrong datasets ---- */

static void test_no_dataset(void)
{
    char path[600];
    spsh_dataset *dataset = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(snprintf(path, sizeof(path), "%s/absent", root) < 600);
    CHECK_I64(spsh_dataset_open(path, NULL, &dataset, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "no such directory") != NULL);
    REQUIRE(mkdir(path, 0777) == 0);
    CHECK_I64(spsh_dataset_open(path, NULL, &dataset, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "not a dataset") != NULL);
    run_in(path, "mkdir shards");
    CHECK_I64(spsh_dataset_open(path, NULL, &dataset, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "pack has not finished") != NULL);
    CHECK(strstr(err.message, "speechshard merge after its parts") != NULL);
    run_in(path, "echo something else entirely > manifest.spsh");
    CHECK_I64(spsh_dataset_open(path, NULL, &dataset, &err), SPSH_E_NOT_SPEECHSHARD);
    CHECK(dataset == NULL);
}

static void test_damaged_manifest_names_the_older_ones(void)
{
    char path[600];
    spsh_dataset *dataset = NULL;
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_overlay_entry entry = {text("u0"), text("")};
    copy_dataset(path, "older");
    REQUIRE(spsh_overlay_add(path, "a", SPSH_OVERLAY_SKIP, &entry, 1, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_overlay_add(path, "b", SPSH_OVERLAY_SKIP, &entry, 1, NULL, NULL) == SPSH_OK);
    run_in(path, "printf x | dd of=manifest.spsh bs=1 seek=200 conv=notrunc 2>/dev/null");
    CHECK_I64(spsh_dataset_open(path, NULL, &dataset, &err), SPSH_E_CORRUPT);
    CHECK(strstr(err.message, "manifest-00000002.spsh") != NULL);
    opt.generation = 2;
    CHECK_I64(spsh_dataset_open(path, &opt, &dataset, &err), SPSH_OK);
    CHECK_U64(spsh_dataset_info_get(dataset)->overlay_count, 1);
    spsh_dataset_close(dataset);
}

static void test_index_of_another_dataset(void)
{
    char path[600];
    char other[600];
    spsh_dataset *dataset = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    copy_dataset(path, "index-mixed");
    REQUIRE(snprintf(other, sizeof(other), "%s/index-other", root) < 600);
    REQUIRE(mkdir(other, 0777) == 0);
    opt.path = other;
    REQUIRE(spsh_dataset_publish(&opt, NULL, NULL) == SPSH_OK);
    run_in(root, "cp index-other/index-00000001.spsh index-mixed/");
    CHECK_I64(spsh_dataset_open(path, NULL, &dataset, &err), SPSH_E_MISMATCH);
    CHECK(strstr(err.message, "another dataset") != NULL);
    run_in(path, "rm index-00000001.spsh");
    CHECK_I64(spsh_dataset_open(path, NULL, &dataset, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "index-00000001.spsh") != NULL);
}

static void read_from_copy(const char *path, uint64_t position, spsh_status want,
                           const char *want_message)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    int16_t pcm[100];
    uint64_t got = 0;
    REQUIRE(spsh_dataset_open(path, NULL, &dataset, NULL) == SPSH_OK);
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    spsh_status rc = spsh_reader_read_i16(reader, position, 0, pcm, 100, &got, &err);
    CHECK_I64(rc, want);
    if (rc != SPSH_OK) {
        CHECK(strstr(err.message, want_message) != NULL);
        CHECK(strstr(err.message, path) != NULL);
    }
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void test_wrong_shards(void)
{
    char path[600];
    copy_dataset(path, "swapped");
    run_in(path, "cd shards && mv 000000-001.spsh x && mv 000002-000.spsh 000000-001.spsh && "
                 "mv x 000002-000.spsh");
    read_from_copy(path, 4, SPSH_E_MISMATCH, "000000-001.spsh");
    read_from_copy(path, 0, SPSH_OK, "");
    run_in(path, "rm shards/000000-000.spsh");
    read_from_copy(path, 0, SPSH_E_NOT_FOUND, "000000-000.spsh");
    run_in(path, "truncate -s -4096 shards/000001-000.spsh");
    read_from_copy(path, 8, SPSH_E_TRUNCATED, "000001-000.spsh");
    copy_dataset(path, "payload-damage");
    /* Damage the first record's payload. It follows the file header, the block header, and the head
     * of the record. */
    run_in(path, "printf x | dd of=shards/000000-000.spsh bs=1 seek=5000 conv=notrunc 2>/dev/null");
    read_from_copy(path, 0, SPSH_E_CORRUPT, "\"u0\"");
    read_from_copy(path, 4, SPSH_OK, "");
}

/* ---- failures ---- */

static void test_every_allocation_failure(void)
{
    uint8_t want[16];
    uint8_t digest[16];
    REQUIRE(tiny_dataset_read(tiny.path, NULL, true, want, NULL) == SPSH_OK);
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
        opt.allocator = &allocator;
        REQUIRE(fail_at < 5000);
        rc = tiny_dataset_read(tiny.path, &opt, true, digest, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_AUDIO);
        CHECK_I64(fault.live_count, 0);
    }
    CHECK(memcmp(want, digest, 16) == 0);
}

static void test_every_io_failure(void)
{
    uint8_t want[16];
    uint8_t digest[16];
    REQUIRE(tiny_dataset_read(tiny.path, NULL, true, want, NULL) == SPSH_OK);
    uint64_t calls = UINT64_MAX;
    for (uint64_t fail_at = 0; fail_at < calls; fail_at++) {
        fault_io fault = {.fail_at = fail_at, .fail_count = 1, .fail_errno = EIO};
        spsh_io io = fault_io_table(&fault);
        spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
        spsh_error err = SPSH_ERROR_INIT;
        opt.io = &io;
        opt.shards_open_max = 1;
        spsh_status rc = tiny_dataset_read(tiny.path, &opt, true, digest, &err);
        CHECK_I64(fault.open_count, 0);
        CHECK(rc != SPSH_OK || memcmp(want, digest, 16) == 0);
        CHECK(rc == SPSH_OK || err.message[0] != '\0');
        if (fault.call_count <= fail_at)
            calls = 0;
    }
    fault_io brief = {.fail_at = UINT64_MAX, .transfer_bytes_max = 100};
    spsh_io io = fault_io_table(&brief);
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    opt.io = &io;
    CHECK_I64(tiny_dataset_read(tiny.path, &opt, true, digest, NULL), SPSH_OK);
    CHECK(memcmp(want, digest, 16) == 0);
}

TEST_MAIN(unit_dataset)
{
    char path[600];
    test_temp_dir(root, sizeof(root));
    REQUIRE(snprintf(path, sizeof(path), "%s/tiny", root) < 600);
    tiny_dataset_write(&tiny, path);
    REQUIRE(tiny_dataset_publish(&tiny, SPSH_DEDUPE_BYTES, NULL, NULL, NULL, NULL) == SPSH_OK);
    RUN(test_arguments);
    RUN(test_rows_one_by_one_and_together);
    RUN(test_columns);
    RUN(test_index_hash);
    RUN(test_names_and_options);
    RUN(test_find);
    RUN(test_pcm_whole_and_in_pieces);
    RUN(test_pcm_at_random);
    RUN(test_other_sample_types);
    RUN(test_what_cannot_be_decoded);
    RUN(test_payloads);
    RUN(test_threads);
    RUN(test_shards_open_max_is_kept);
    RUN(test_no_dataset);
    RUN(test_names_with_splits);
    RUN(test_damaged_manifest_names_the_older_ones);
    RUN(test_index_of_another_dataset);
    RUN(test_wrong_shards);
    RUN(test_every_allocation_failure);
    RUN(test_every_io_failure);
    test_remove_tree(root);
    return TEST_RESULT();
}
