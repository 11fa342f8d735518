/* unit_loader_device.c PLUGIN: batches in device memory equal the batches of a host loader: the
 * same utterances in the same order with the same values, even if the borrower is late.
 *
 * Two loaders with the same options, one with a device, run in parallel. The test copies each
 * device batch back on a separate stream, releases the batch after that copy with one event that is
 * recorded again for each batch, and compares several batches later: if the loader reused memory
 * too early, the values differ.
 *
 * PLUGIN is the host emulation (support/twin_plugin.c), which runs work late, in random orders
 * between events, and stops if two streams access the same bytes; all bits must then be equal. Or
 * PLUGIN is the real one: features are then close (FEATURES.md), and without a device the
 * program prints the reason and is skipped.
 */
#include <math.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy_dataset.h"
#include "device_test.h"
#include "loader_kit.h"
#include "speechshard/cuda.h"
#include "speechshard/pcm.h"
#include "speechshard/statistics.h"
#include "talk_dataset.h"

#define TOLERANCE 1e-4F /* for logarithms */
#define TEXT      "kaldi-fbank,mel_count=20"

enum {
    PENDING_MAX = 64,
    DIM = 20,
    SPEAKERS = 4,
    PCM_UTTERANCES = 40,
    PCM_SAMPLES_MAX = 20000,
    CALLS_OF_FAILED = 50000,
    CHILD_SECONDS = 60,
};

static spsh_cuda *cuda;
static uint64_t seed;
static uint64_t stride;     /* stride through the kinds of batches */
static twin_controls *twin; /* NULL: the real plug-in */
static char work[512], plain_path[600], mixed_path[600], pcm_path[600];

/* ---- the borrower ---- */

typedef struct pending {
    uint8_t *got, *want;
    size_t size_bytes, value_bytes;
} pending;

typedef struct borrower {
    void *stream, *event;
    bool is_exact; /* features must be identical, too */
    uint32_t late; /* number of batches by which it compares late */
    pending list[PENDING_MAX];
    uint32_t count;
} borrower;

static void borrower_open(borrower *b, const spsh_loader_options *opt, uint32_t late)
{
    memset(b, 0, sizeof(*b));
    b->is_exact = twin != NULL || opt->output != SPSH_OUTPUT_FEATURES;
    b->late = late;
    require(spsh_cuda_stream_open(cuda, opt->device, 0, &b->stream, &err));
    require(spsh_cuda_event_open(cuda, opt->device, 0, &b->event, &err));
}

static void compare(const borrower *b, const pending *p)
{
    if (b->is_exact || p->value_bytes != sizeof(float)) {
        CHECK(memcmp(p->got, p->want, p->size_bytes) == 0);
        return;
    }
    for (size_t n = 0; n < p->size_bytes / sizeof(float); n++) {
        float got = 0;
        float want = 0;
        memcpy(&got, p->got + n * sizeof(got), sizeof(got));
        memcpy(&want, p->want + n * sizeof(want), sizeof(want));
        REQUIRE(fabsf(got - want) <= TOLERANCE);
    }
}

static void look(borrower *b)
{
    require(spsh_cuda_synchronize(cuda, b->stream, &err));
    for (uint32_t n = 0; n < b->count; n++) {
        compare(b, &b->list[n]);
        free(b->list[n].got);
        free(b->list[n].want);
    }
    b->count = 0;
}

static void borrower_close(borrower *b)
{
    look(b);
    spsh_cuda_event_close(cuda, b->event);
    spsh_cuda_stream_close(cuda, b->stream);
}

static const void *values_of(const spsh_batch *batch, size_t *ret_value_bytes)
{
    *ret_value_bytes = 4;
    switch (batch->output) {
    case SPSH_OUTPUT_INT16: *ret_value_bytes = 2; return batch->i16;
    case SPSH_OUTPUT_FLOAT32: return batch->f32;
    case SPSH_OUTPUT_FEATURES: break;
    }
    *ret_value_bytes = batch->feature_dtype == SPSH_FLOAT16 ? 2 : 4;
    return batch->features;
}

/* Copy a batch back and release it. Compare its values later. */
static void borrow(borrower *b, spsh_loader *loader, const spsh_batch *host,
                   const spsh_batch *batch)
{
    pending *p = &b->list[b->count++];
    const void *there = values_of(batch, &p->value_bytes);
    p->size_bytes = (size_t)host->value_count * p->value_bytes;
    p->got = calloc(1, p->size_bytes + 1);
    p->want = calloc(1, p->size_bytes + 1);
    REQUIRE(p->got != NULL && p->want != NULL && batch->stream != NULL && batch->ready != NULL);
    if (p->size_bytes > 0)
        memcpy(p->want, values_of(host, &p->value_bytes), p->size_bytes);
    require(spsh_cuda_event_wait(cuda, batch->ready, b->stream, &err));
    require(spsh_cuda_copy(cuda, p->got, there, p->size_bytes, b->stream, &err));
    require(spsh_cuda_event_record(cuda, b->event, b->stream, &err));
    spsh_loader_release_after(loader, batch, b->event);
    if (b->count == b->late)
        look(b);
}

/* ---- side by side ---- */

static void check_string(spsh_bytes got, spsh_bytes want)
{
    CHECK(got.size_bytes == want.size_bytes &&
          (want.size_bytes == 0 || memcmp(got.data, want.data, want.size_bytes) == 0));
}

static void check_head(const spsh_batch *got, const spsh_batch *want)
{
    CHECK_U64(got->epoch, want->epoch);
    CHECK_U64(got->step, want->step);
    CHECK_U64(got->number, want->number);
    CHECK_U64(got->flags, want->flags);
    CHECK_U64(got->sample_rate_hz, want->sample_rate_hz);
    CHECK_U64(got->channels, want->channels);
    CHECK_U64(got->padded_samples, want->padded_samples);
    CHECK_U64(got->padded_frames, want->padded_frames);
    CHECK_U64(got->feature_dim, want->feature_dim);
    CHECK_U64(got->value_count, want->value_count);
    CHECK(want->stream == NULL && want->ready == NULL);
    REQUIRE(got->utterance_count == want->utterance_count);
    for (uint32_t n = 0; n < want->utterance_count; n++) {
        const spsh_batch_utterance *g = &got->utterances[n];
        const spsh_batch_utterance *w = &want->utterances[n];
        CHECK_U64(g->item.position, w->item.position);
        CHECK_U64(g->item.start_sample, w->item.start_sample);
        CHECK_U64(g->offset, w->offset);
        CHECK_U64(g->samples, w->samples);
        CHECK_U64(g->frames, w->frames);
        CHECK(g->substitute == w->substitute);
        check_string(g->id, w->id);
        check_string(g->text, w->text);
        check_string(g->speaker, w->speaker);
    }
}

/* Run both loaders until `epochs` epochs have ended or both report the same error. batches_max 0:
 * no limit. */
static spsh_status side_by_side(spsh_loader *host, spsh_loader *there, borrower *b, uint32_t epochs,
                                uint32_t batches_max)
{
    spsh_error other = SPSH_ERROR_INIT;
    for (uint32_t n = 0; batches_max == 0 || n < batches_max;) {
        const spsh_batch *want = NULL;
        const spsh_batch *got = NULL;
        const spsh_status rc = spsh_loader_next(host, &want, &err);
        const spsh_status rc_there = spsh_loader_next(there, &got, &other);
        if (rc_there != rc)
            fprintf(stderr, "%s: %s\n", spsh_status_name(rc_there), other.message);
        REQUIRE(rc_there == rc);
        if (rc == SPSH_E_END && --epochs == 0)
            return rc;
        if (rc == SPSH_E_END)
            continue;
        if (rc != SPSH_OK) {
            if (strcmp(err.message, other.message) != 0)
                fprintf(stderr, "%s\n%s\n", err.message, other.message);
            CHECK(strcmp(err.message, other.message) == 0);
            return rc;
        }
        check_head(got, want);
        borrow(b, there, want, got);
        spsh_loader_release(host, want);
        n++;
    }
    return SPSH_OK;
}

/* Open both loaders and run two epochs. Returns the last status, and the statistics of the loader
 * with the device. */
static spsh_status run(const char *path, const spsh_loader_options *opt, uint32_t late,
                       spsh_loader_stats *ret_stats)
{
    spsh_dataset *dataset = open_dataset(path);
    spsh_loader_options plain = *opt;
    borrower b;
    plain.cuda = NULL;
    plain.decode = SPSH_DECODE_HOST;
    spsh_loader *host = open_loader(dataset, &plain);
    spsh_loader *there = open_loader(dataset, opt);
    borrower_open(&b, opt, late);
    const spsh_status rc = side_by_side(host, there, &b, 2, 0);
    if (ret_stats != NULL)
        spsh_loader_stats_get(there, ret_stats);
    borrower_close(&b);
    spsh_loader_close(there);
    spsh_loader_close(host);
    spsh_dataset_close(dataset);
    return rc;
}

static spsh_loader_options device_options(void)
{
    spsh_loader_options opt = small_options();
    opt.cuda = cuda;
    opt.memory_bytes = 48 << 20;
    opt.slots = 3;
    return opt;
}

/* ---- datasets ---- */

static const uint64_t bad[] = {2, 11, 19, 30};
enum { BAD = sizeof(bad) / sizeof(bad[0]) };

/* Samples of utterance n; one is noise, which does not get smaller. */
static uint32_t make_samples(uint32_t n, int16_t *pcm)
{
    const uint32_t samples = n == 7 ? 1 : 900 + 450 * n;
    uint64_t state = n;
    for (uint32_t i = 0; i < samples; i++) {
        const uint64_t random = test_random(&state);
        const double tone = 900.0 * sin(0.01 * (n + 1) * i) + (double)(random % 60);
        pcm[i] = (int16_t)lrint(tone);
        if (n == 3)
            pcm[i] = (int16_t)(random >> 48);
    }
    return samples;
}

/* Make a dataset of mono codec pcm records. is_malformed: the first blocks of some records have an
 * invalid form, under correct checksums. */
static void make_pcm(const char *path, bool is_malformed)
{
    static int16_t pcm[PCM_SAMPLES_MAX];
    copy_dataset *set = copy_dataset_open(path, 3);
    for (uint32_t n = 0; n < PCM_UTTERANCES; n++) {
        const uint32_t samples = make_samples(n, pcm);
        const copy_audio audio = {SPSH_CODEC_PCM, 16, 16000, 1, pcm, samples};
        bool is_bad = false;
        for (uint32_t i = 0; i < BAD; i++)
            is_bad = is_bad || (is_malformed && bad[i] == n);
        if (is_bad)
            copy_dataset_add_spoiled(set, &audio, spsh_pcm_head_bytes(samples, 1), 9);
        else
            copy_dataset_add(set, &audio);
    }
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
}

static void publish_statistics(const spsh_dataset *dataset)
{
    static const uint64_t groups[2 + SPEAKERS] = {0, 1, 2, 3, 4, 5};
    static const uint64_t frames[2 + SPEAKERS] = {100, 0, 20, 30, 40, 10};
    static double sums[(2 + SPEAKERS) * DIM], squares[(2 + SPEAKERS) * DIM];
    const spsh_feature_options features = features_of(TEXT);
    char canonical[SPSH_FEATURE_TEXT_BYTES_MAX];
    (void)spsh_feature_options_text(&features, canonical, sizeof(canonical));
    for (uint32_t g = 0; g < 2 + SPEAKERS; g++)
        for (uint32_t d = 0; d < DIM; d++) {
            const double mean = 5 + g + 0.25 * d;
            sums[g * DIM + d] = mean * (double)frames[g];
            squares[g * DIM + d] = (mean * mean + 4) * (double)frames[g];
        }
    const spsh_statistics_content content = {.dataset = dataset,
                                             .text = canonical,
                                             .shard = SPSH_STATISTICS_WHOLE,
                                             .dim = DIM,
                                             .group_count = 2 + SPEAKERS,
                                             .groups = groups,
                                             .frame_counts = frames,
                                             .sums = sums,
                                             .square_sums = squares};
    require(spsh_statistics_publish(&content, NULL, &err));
}

/* Change a byte of its payload. */
static void flip(const char *path, uint64_t position)
{
    char file[700];
    spsh_dataset *dataset = open_dataset(path);
    spsh_row row;
    require(spsh_dataset_rows(dataset, position, 1, &row, &err));
    talk_dataset_shard(path, row.payload_shard, file, sizeof(file));
    FILE *shard = fopen(file, "r+b");
    REQUIRE(shard != NULL);
    const long at = (long)(row.record_offset_bytes + row.record_bytes - row.record_bytes / 4);
    REQUIRE(fseek(shard, at, SEEK_SET) == 0);
    const int byte = fgetc(shard);
    REQUIRE(byte != EOF && fseek(shard, at, SEEK_SET) == 0 && fputc(byte ^ 0x10, shard) != EOF &&
            fclose(shard) == 0);
    spsh_dataset_close(dataset);
}

/* ---- tests ---- */

typedef struct kind {
    const char *features; /* NULL: audio */
    spsh_output output;
    spsh_feature_dtype dtype;
    const char *augment; /* or NULL */
    spsh_decode decode;
    uint32_t rate_hz;
    int32_t channel;
} kind;

/* Options of a kind; their pointers are valid until the next call. */
static spsh_loader_options options_of(const kind *k)
{
    static spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    static spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_loader_options opt = device_options();
    opt.output = k->output;
    opt.decode = k->decode;
    opt.channel = k->channel;
    kit_plan.sample_rate_hz = k->rate_hz;
    if (k->features != NULL) {
        features = features_of(k->features);
        opt.output = SPSH_OUTPUT_FEATURES;
        opt.features = &features;
        opt.feature_dtype = k->dtype;
        opt.feature_padding = -3.5F;
    }
    if (k->augment != NULL) {
        require(spsh_augment_options_parse(k->augment, &augment, &err));
        opt.augment = &augment;
    }
    return opt;
}

static const char speeds[] = "speeds=0.9:1:1.1,gain_probability=0.5,gain_db_min=-9";
static const char masks[] = "time_masks=1,time_mask_frames_max=5,frequency_masks=1,"
                            "frequency_mask_bins_max=4";
/* Masks of up to a whole utterance. */
static const char wide[] = "time_masks=2,time_mask_frames_max=1000000,frequency_masks=2,"
                           "frequency_mask_bins_max=1000";
static const char both[] = "speeds=0.9:1:1.1,gain_probability=0.5,gain_db_min=-9,time_masks=3,"
                           "time_mask_frames_max=9,time_mask_share_max=0.3";

static const kind kinds[] = {
    {NULL,                   SPSH_OUTPUT_INT16,    SPSH_FLOAT32, NULL,   SPSH_DECODE_HOST,   0,     0               },
    {NULL,                   SPSH_OUTPUT_INT16,    SPSH_FLOAT32, NULL,   SPSH_DECODE_DEVICE, 0,     0               },
    {NULL,                   SPSH_OUTPUT_INT16,    SPSH_FLOAT32, NULL,   SPSH_DECODE_DEVICE, 0,     SPSH_CHANNEL_ALL},
    {NULL,                   SPSH_OUTPUT_INT16,    SPSH_FLOAT32, NULL,   SPSH_DECODE_DEVICE, 8000,  1               },
    {NULL,                   SPSH_OUTPUT_INT16,    SPSH_FLOAT32, speeds, SPSH_DECODE_DEVICE, 16000, 0               },
    {NULL,                   SPSH_OUTPUT_FLOAT32,  SPSH_FLOAT32, NULL,   SPSH_DECODE_HOST,   0,     0               },
    {NULL,                   SPSH_OUTPUT_FLOAT32,  SPSH_FLOAT32, NULL,   SPSH_DECODE_DEVICE, 0,     SPSH_CHANNEL_ALL},
    {TEXT,                   SPSH_OUTPUT_FEATURES, SPSH_FLOAT32, NULL,   SPSH_DECODE_HOST,   0,     0               },
    {TEXT,                   SPSH_OUTPUT_FEATURES, SPSH_FLOAT32, NULL,   SPSH_DECODE_DEVICE, 0,     0               },
    {TEXT,                   SPSH_OUTPUT_FEATURES, SPSH_FLOAT32, both,   SPSH_DECODE_DEVICE, 0,     0               },
    {TEXT,                   SPSH_OUTPUT_FEATURES, SPSH_FLOAT32, masks,  SPSH_DECODE_DEVICE, 0,     0               },
    {TEXT ",norm=utterance", SPSH_OUTPUT_FEATURES, SPSH_FLOAT16, wide,   SPSH_DECODE_DEVICE, 0,     0               },
    {TEXT ",norm=speaker",   SPSH_OUTPUT_FEATURES, SPSH_FLOAT32, wide,   SPSH_DECODE_DEVICE, 0,     0               },
    {TEXT ",norm=dataset",   SPSH_OUTPUT_FEATURES, SPSH_FLOAT16, speeds, SPSH_DECODE_HOST,   0,     0               },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void test_same_batches(void)
{
    for (uint64_t n = 0; n < KINDS; n += stride) {
        spsh_loader_options opt = options_of(&kinds[n]);
        if (twin != NULL) {
            twin->order = (uint32_t)(n % 4);
            twin->seed = seed + n;
            opt.device = (uint32_t)(n % 2);
        }
        if (kinds[n].dtype == SPSH_FLOAT16 && twin == NULL)
            continue; /* a step of half precision may be beyond the tolerance */
        CHECK_I64(run(mixed_path, &opt, 4, NULL), SPSH_E_END);
    }
}

/* With every read engine, for every rank, and for any number of threads and slots. */
static void test_engines_and_ranks(void)
{
    for (uint32_t n = 0; n < 6; n++) {
        spsh_loader_options opt = options_of(&kinds[n % 2 == 0 ? 8 : 1]);
        opt.engine = n < 3 ? SPSH_ENGINE_AUTO : SPSH_ENGINE_PREAD;
        opt.flags = n % 2 == 0 ? SPSH_LOADER_CACHED : SPSH_LOADER_DIRECT;
        opt.world_size = 3;
        opt.rank = n % 3;
        opt.decode_threads = 1 + n;
        opt.slots = 2 + n;
        CHECK_I64(run(plain_path, &opt, 3, NULL), SPSH_E_END);
    }
}

/* The borrower compares late, so the host emulation delays all work until many more batches were
 * requested. The loader itself has to wait for the events. */
static void test_late_borrower(void)
{
    spsh_loader_options opt = options_of(&kinds[8]);
    opt.slots = 2;
    CHECK_I64(run(plain_path, &opt, PENDING_MAX, NULL), SPSH_E_END);
    opt = options_of(&kinds[1]);
    opt.slots = 2;
    CHECK_I64(run(pcm_path, &opt, PENDING_MAX, NULL), SPSH_E_END);
}

/* Only the payloads are copied, less than half of the bytes that they decode to. */
static void test_payloads_go_over(void)
{
    spsh_loader_stats host = SPSH_LOADER_STATS_INIT, device = SPSH_LOADER_STATS_INIT;
    spsh_loader_options opt = options_of(&kinds[0]);
    CHECK_I64(run(pcm_path, &opt, 3, &host), SPSH_E_END);
    CHECK(host.copied_bytes >= 2 * host.microseconds * 16 / 1000); /* plus the batches decoded
                                                                      ahead */
    opt.decode = SPSH_DECODE_DEVICE;
    CHECK_I64(run(pcm_path, &opt, 3, &device), SPSH_E_END);
    CHECK_U64(device.microseconds, host.microseconds);
    CHECK(device.copied_bytes > 0 && device.copied_bytes < host.copied_bytes * 3 / 4);
    CHECK(host.device_bytes > 0 && device.device_bytes > host.device_bytes);
    CHECK(device.pinned);
}

/* Masked features need a copy of the samples, which are several times larger than the rows. */
static void test_samples_go_over_for_masks(void)
{
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    spsh_loader_options opt = options_of(&kinds[10]);
    opt.decode = SPSH_DECODE_HOST;
    CHECK_I64(run(pcm_path, &opt, 3, &stats), SPSH_E_END);
    CHECK(stats.copied_bytes >= 2 * stats.microseconds * 16 / 1000);
}

/* Wait for the batch, and copy its values to the host. */
static void copy_back(const spsh_batch *batch, int16_t *pcm)
{
    require(spsh_cuda_event_synchronize(cuda, batch->ready, &err));
    require(spsh_cuda_copy(cuda, pcm, batch->i16, batch->value_count * sizeof(*pcm), batch->stream,
                           &err));
    require(spsh_cuda_synchronize(cuda, batch->stream, &err));
}

/* A borrower that waits for all of its work releases without an event. */
static void test_plain_release(void)
{
    static int16_t got[1 << 20];
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = options_of(&kinds[1]);
    spsh_loader *there = open_loader(dataset, &opt);
    opt.cuda = NULL;
    opt.decode = SPSH_DECODE_HOST;
    spsh_loader *host = open_loader(dataset, &opt);
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK) {
        const spsh_batch *batch = NULL;
        const spsh_batch *want = NULL;
        rc = spsh_loader_next(there, &batch, &err);
        CHECK_I64(spsh_loader_next(host, &want, &err), rc);
        if (rc != SPSH_OK)
            break;
        REQUIRE(batch->value_count == want->value_count && want->value_count <= 1 << 20);
        copy_back(batch, got);
        CHECK(memcmp(got, want->i16, want->value_count * sizeof(*got)) == 0);
        spsh_loader_release(there, batch);
        spsh_loader_release(host, want);
    }
    CHECK_I64(rc, SPSH_E_END);
    spsh_loader_close(there);
    spsh_loader_close(host);
    spsh_dataset_close(dataset);
}

/* Damage that checksums detect, and damage that they do not, under each policy, decoded on host and
 * device. */
static void test_bad_records(void)
{
    char path[600];
    for (uint32_t n = 0; n < 2; n++) {
        (void)snprintf(path, sizeof(path), "%s/bad%u", work, n);
        make_pcm(path, n == 1);
        for (uint32_t i = 0; i < BAD && n == 0; i++)
            flip(path, bad[i]);
        for (uint64_t i = 0; i < 9; i += stride) {
            static const uint32_t which[] = {1, 8, 0};
            spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
            spsh_loader_options opt = options_of(&kinds[which[i / 3]]);
            opt.on_error = (spsh_on_error)(i % 3);
            const spsh_status rc = run(path, &opt, 3, &stats);
            CHECK_I64(rc, opt.on_error == SPSH_ON_ERROR_FAIL ? SPSH_E_CORRUPT : SPSH_E_END);
            CHECK(opt.on_error == SPSH_ON_ERROR_FAIL || stats.bad_records >= BAD);
        }
    }
}

/* Norms and masks together with skipped utterances, and with substitutes that a change of speed has
 * made longer than the utterances that they replace. */
static void test_bad_records_and_augmentation(void)
{
    static const uint32_t which[] = {12, 9};
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/talk", work);
    talk_dataset_make(path, TALK_MIXED);
    spsh_dataset *dataset = open_dataset(path);
    publish_statistics(dataset);
    spsh_dataset_close(dataset);
    for (uint64_t position = 2; position < TALK_UTTERANCES; position += 9)
        flip(path, position);
    for (uint32_t i = 0; i < 4; i++) {
        spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
        spsh_loader_options opt = options_of(&kinds[which[i / 2]]);
        opt.on_error = i % 2 == 0 ? SPSH_ON_ERROR_SKIP : SPSH_ON_ERROR_SUBSTITUTE;
        opt.quarantine_max = TALK_UTTERANCES;
        CHECK_I64(run(path, &opt, 3, &stats), SPSH_E_END);
        CHECK(stats.bad_records > 5);
    }
}

/* Prefetched batches are dropped during their copy. */
static void test_cursor(void)
{
    uint8_t cursor[1024];
    size_t cursor_bytes = 0;
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = options_of(&kinds[8]);
    spsh_loader *there = open_loader(dataset, &opt);
    borrower b;
    borrower_open(&b, &opt, 5);
    opt.cuda = NULL;
    opt.decode = SPSH_DECODE_HOST;
    spsh_loader *host = open_loader(dataset, &opt);
    CHECK_I64(side_by_side(host, there, &b, 9, 7), SPSH_OK);
    require(spsh_loader_cursor_save(there, cursor, sizeof(cursor), &cursor_bytes, &err));
    for (uint32_t n = 0; n < 4; n++) {
        CHECK_I64(side_by_side(host, there, &b, 9, 3 + n), SPSH_OK);
        require(spsh_loader_cursor_restore(there, cursor, cursor_bytes, &err));
        require(spsh_loader_cursor_restore(host, cursor, cursor_bytes, &err));
    }
    CHECK_I64(side_by_side(host, there, &b, 2, 0), SPSH_E_END);
    require(spsh_loader_seek(there, 1, 2, &err));
    require(spsh_loader_seek(host, 1, 2, &err));
    CHECK_I64(side_by_side(host, there, &b, 1, 0), SPSH_E_END);
    borrower_close(&b);
    spsh_loader_close(there);
    spsh_loader_close(host);
    spsh_dataset_close(dataset);
}

/* Batches are borrowed or being copied when the loader is closed. */
static void test_close_while_lent(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = options_of(&kinds[8]);
    for (uint32_t lent = 0; lent < 3; lent++) {
        spsh_loader *loader = open_loader(dataset, &opt);
        for (uint32_t n = 0; n < lent; n++) {
            const spsh_batch *batch = NULL;
            require(spsh_loader_next(loader, &batch, &err));
        }
        spsh_loader_close(loader);
    }
    opt.slots = 2;
    spsh_loader *loader = open_loader(dataset, &opt);
    const spsh_batch *batch = NULL;
    require(spsh_loader_next(loader, &batch, &err));
    require(spsh_loader_next(loader, &batch, &err));
    CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_LIMIT);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

static void test_options(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    const spsh_dataset *const datasets = dataset;
    spsh_loader *loader = NULL;
    spsh_loader_options opt = device_options();
    opt.device = spsh_cuda_device_count(cuda);
    CHECK_I64(spsh_loader_open(&datasets, 1, &opt, &loader, &err), SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "does not exist") != NULL);
    opt = device_options();
    opt.decode = (spsh_decode)2;
    CHECK_I64(spsh_loader_open(&datasets, 1, &opt, &loader, &err), SPSH_E_INVALID_ARG);
    opt.decode = SPSH_DECODE_DEVICE;
    opt.cuda = NULL;
    CHECK_I64(spsh_loader_open(&datasets, 1, &opt, &loader, &err), SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "cuda is NULL") != NULL);
    spsh_dataset_close(dataset);
}

static void *pinned_new(void *user, size_t size_bytes)
{
    void *memory = NULL;
    (void)user;
    return spsh_cuda_host_alloc(cuda, size_bytes, &memory, NULL) == SPSH_OK ? memory : NULL;
}

static void pinned_free(void *user, void *memory, size_t size_bytes)
{
    (void)user, (void)size_bytes;
    spsh_cuda_host_free(cuda, memory);
}

/* A caller's memory that is pinned already. */
static void test_pinned_arena(void)
{
    const spsh_arena arena = {pinned_new, pinned_free, NULL};
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = options_of(&kinds[0]);
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    opt.arena = &arena;
    spsh_loader *loader = open_loader(dataset, &opt);
    const spsh_batch *batch = NULL;
    require(spsh_loader_next(loader, &batch, &err));
    spsh_loader_stats_get(loader, &stats);
    CHECK(stats.pinned && stats.copied_bytes > 0);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

/* ---- only with the host emulation ---- */

/* Return the KiB of mappings that a forked child does not inherit. */
static uint64_t not_forked_kib(void)
{
    char line[512];
    uint64_t size_kib = 0; /* size of the current mapping */
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "Size:", 5) == 0)
            size_kib = strtoull(line + 5, NULL, 10);
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dc ") != NULL)
            kib += size_kib;
    }
    (void)fclose(file);
    return kib;
}

/* Each fork would copy pinned pages. Children never inherit the read buffers. They inherit slots if
 * batches are in host memory, to read a borrowed batch. */
static void test_slots_are_not_forked(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = device_options();
    opt.engine = SPSH_ENGINE_PREAD; /* rings are not forked either */
    const uint64_t before = not_forked_kib();
    const spsh_cuda *device = opt.cuda;
    opt.cuda = NULL;
    spsh_loader *loader = open_loader(dataset, &opt);
    const uint64_t of_host = not_forked_kib();
    spsh_loader_close(loader);
    CHECK_U64(not_forked_kib(), before);
    opt.cuda = device;
    loader = open_loader(dataset, &opt);
    CHECK(of_host > before && not_forked_kib() > of_host);
    spsh_loader_close(loader);
    CHECK_U64(not_forked_kib(), before);
    spsh_dataset_close(dataset);
}

/* A child cannot use the device. It closes the loader without a call to CUDA.
 */
static void test_close_in_a_child(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    const spsh_loader_options opt = options_of(&kinds[8]);
    spsh_loader *loader = open_loader(dataset, &opt);
    const spsh_batch *batch = NULL;
    for (uint32_t n = 0; n < 4; n++) {
        int status = 0;
        require(spsh_loader_next(loader, &batch, &err));
        (void)fflush(NULL);
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            (void)alarm(CHILD_SECONDS);
            CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_INVALID_ARG);
            spsh_loader_release_after(loader, batch, batch->ready);
            spsh_loader_close(loader);
            spsh_dataset_close(dataset);
            _exit(TEST_RESULT());
        }
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        require(spsh_cuda_event_synchronize(cuda, batch->ready, &err));
        spsh_loader_release(loader, batch);
    }
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

static void test_no_memory(void)
{
    const uint64_t before = twin->device_bytes;
    spsh_dataset *dataset = open_dataset(plain_path);
    const spsh_dataset *const datasets = dataset;
    for (uint64_t bytes = 4096; bytes < before; bytes *= 4) {
        spsh_loader *loader = NULL;
        spsh_loader_options opt = options_of(&kinds[8]);
        twin->device_bytes = bytes;
        const spsh_status rc = spsh_loader_open(&datasets, 1, &opt, &loader, &err);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK(rc == SPSH_OK || strstr(err.message, "device 0") != NULL);
        spsh_loader_close(loader);
    }
    spsh_loader_options opt = options_of(&kinds[0]);
    spsh_loader *loader = NULL;
    twin->device_bytes = 65536;
    CHECK_I64(spsh_loader_open(&datasets, 1, &opt, &loader, &err), SPSH_E_NO_MEMORY);
    CHECK(strstr(err.message, "MB are free; use fewer slots") != NULL);
    twin->device_bytes = before;
    spsh_dataset_close(dataset);
}

/* The device fails once, when a slot is released. The next batch still becomes ready, but it is not
 * served. */
static void test_failure_lasts(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = device_options();
    const spsh_batch *batch = NULL;
    spsh_status rc = SPSH_E_IO;
    opt.is_asked = true; /* no thread uses the device while no batch is requested */
    spsh_loader *loader = open_loader(dataset, &opt);
    require(spsh_loader_ask(loader, 0, 0, &err));
    require(spsh_loader_next(loader, &batch, &err));
    twin->is_lost = true;
    spsh_loader_release(loader, batch);
    twin->is_lost = false;
    require(spsh_loader_ask(loader, 0, 1, &err));
    for (uint32_t calls = 0; calls < CALLS_OF_FAILED && rc == SPSH_E_IO; calls++) {
        (void)sched_yield();
        rc = spsh_loader_next(loader, &batch, &err);
    }
    CHECK_I64(rc, SPSH_E_IO);
    CHECK(strstr(err.message, "waiting for device 0") != NULL);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

/* spsh_loader_next reports the lost device repeatedly. Nothing hangs, and everything can be closed.
 */
static void test_lost_device(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    for (uint64_t n = 1; n < 40; n += 3) {
        spsh_loader_options opt = options_of(&kinds[n % 2 == 0 ? 8 : 1]);
        spsh_loader *loader = open_loader(dataset, &opt);
        const spsh_batch *batch = NULL;
        spsh_status rc = SPSH_OK;
        twin->lost_after = twin->work_count + n;
        for (uint32_t calls = 0; rc == SPSH_OK; calls++) {
            REQUIRE(calls < 1000);
            rc = spsh_loader_next(loader, &batch, &err);
            if (rc == SPSH_OK) {
                spsh_status lost = spsh_cuda_event_synchronize(cuda, batch->ready, &err);
                CHECK(lost == SPSH_OK || lost == SPSH_E_IO);
                spsh_loader_release(loader, batch);
            }
            rc = rc == SPSH_E_END ? SPSH_OK : rc;
        }
        CHECK_I64(rc, SPSH_E_IO);
        CHECK(strstr(err.message, "device 0") != NULL);
        CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_IO);
        spsh_loader_close(loader);
        twin->lost_after = 0;
        twin->is_lost = false;
    }
    spsh_dataset_close(dataset);
}

static void test_all_is_closed(void)
{
    CHECK_U64(twin->open_memory, 0);
    CHECK_U64(twin->open_pinned, 0);
    CHECK_U64(twin->open_streams, 0);
    CHECK_U64(twin->open_events, 0);
    CHECK_U64(twin->hazards, 0);
    CHECK(twin->work_count > 0);
}

/* ---- the program ---- */

TEST_MAIN(unit_loader_device)
{
    REQUIRE(argc >= 2);
    seed = test_seed(1);
    stride = test_stride(argc - 1, argv + 1, 5);
    const int refused = device_test_open(argv[1], &cuda, &twin);
    if (refused != 0)
        return refused;
    test_temp_dir(work, sizeof(work));
    (void)snprintf(plain_path, sizeof(plain_path), "%s/plain", work);
    (void)snprintf(mixed_path, sizeof(mixed_path), "%s/mixed", work);
    (void)snprintf(pcm_path, sizeof(pcm_path), "%s/pcm", work);
    talk_dataset_make(plain_path, TALK_PLAIN);
    talk_dataset_make(mixed_path, TALK_MIXED);
    make_pcm(pcm_path, false);
    spsh_dataset *dataset = open_dataset(mixed_path);
    publish_statistics(dataset);
    spsh_dataset_close(dataset);
    RUN(test_same_batches);
    RUN(test_engines_and_ranks);
    RUN(test_late_borrower);
    RUN(test_payloads_go_over);
    RUN(test_samples_go_over_for_masks);
    RUN(test_plain_release);
    RUN(test_bad_records);
    RUN(test_bad_records_and_augmentation);
    RUN(test_cursor);
    RUN(test_close_while_lent);
    RUN(test_options);
    RUN(test_pinned_arena);
    if (twin != NULL) {
        RUN(test_slots_are_not_forked);
        RUN(test_close_in_a_child);
        RUN(test_no_memory);
        RUN(test_failure_lasts);
        RUN(test_lost_device);
        RUN(test_all_is_closed);
    }
    spsh_cuda_close(cuda);
    test_remove_tree(work);
    return TEST_RESULT();
}
