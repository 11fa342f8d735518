/* unit_loader_features.c: the loader serves the features that spsh_featgen_compute gives for the
 * samples of a reader, for any number of threads, engines, and ranks. */
#include <math.h>

#include "fault_alloc.h"
#include "loader_kit.h"
#include "talk_dataset.h"

enum { SAMPLES_MAX = 2 * TALK_LONG_SECONDS * 16000, VALUES_MAX = 1 << 20 };

static char plain_path[600], mixed_path[600], work[512];

/* ---- expected values ---- */

/* Objects to check a batch of one dataset with. */
typedef struct check {
    const spsh_dataset *dataset;
    const spsh_loader_options *opt;
    spsh_reader *reader;
    spsh_featgen *featgen;
    spsh_featgen_worker *worker;
    spsh_augmenter *augmenter; /* NULL: no augmentation */
    uint64_t epoch;
    int16_t i16[SAMPLES_MAX], mono[SAMPLES_MAX], rate[2 * SAMPLES_MAX], augmented[4 * SAMPLES_MAX];
    int16_t noise[SAMPLES_MAX], room[SAMPLES_MAX];
    float rows[VALUES_MAX];
    uint16_t halves[VALUES_MAX];
    uint64_t utterances, empty;
} check;

static check the_check;

static void check_begin(const spsh_dataset *dataset, const spsh_feature_options *features,
                        const spsh_loader_options *opt)
{
    check *c = &the_check;
    c->dataset = dataset;
    c->opt = opt;
    c->utterances = c->empty = 0;
    require(spsh_reader_open(dataset, &c->reader, &err));
    require(spsh_featgen_open(features, NULL, &c->featgen, &err));
    require(spsh_featgen_worker_open(c->featgen, &c->worker, &err));
    c->augmenter = NULL;
    if (opt->augment != NULL)
        require(spsh_augmenter_open(opt->augment, SAMPLES_MAX, SPSH_LOADER_ROOM_SECONDS * 16000,
                                    NULL, &c->augmenter, &err));
}

static void check_end(void)
{
    check *c = &the_check;
    spsh_featgen_worker_close(c->worker);
    spsh_featgen_close(c->featgen);
    spsh_augmenter_close(c->augmenter);
    spsh_reader_close(c->reader);
}

/* The item's samples: the mean of its channels, at the features' rate. */
static const int16_t *expect_samples(check *c, const spsh_item *item, uint64_t *ret_samples)
{
    const uint32_t rate_hz = spsh_featgen_features(c->featgen)->sample_rate_hz;
    spsh_row row;
    uint64_t got = 0;
    const int16_t *pcm = c->i16;
    require(spsh_dataset_rows(c->dataset, item->position, 1, &row, &err));
    require(spsh_reader_read_i16(c->reader, item->position, item->start_sample, c->i16,
                                 item->samples, &got, &err));
    CHECK_U64(got, item->samples);
    if (row.channels > 1) {
        for (uint64_t n = 0; n < got; n++)
            c->mono[n] = (int16_t)((c->i16[2 * n] + c->i16[2 * n + 1] + 1) >> 1);
        pcm = c->mono;
    }
    *ret_samples = got;
    if (row.sample_rate_hz == rate_hz)
        return pcm;
    require(spsh_resample_i16(pcm, got, 1, row.sample_rate_hz, rate_hz, c->rate,
                              sizeof(c->rate) / 2, ret_samples, &err));
    return c->rate;
}

/* ---- augmentation, computed separately ---- */

/* Read the part of a noise or RIR that a fraction selects: one channel, at the rate of the batches.
 */
static uint64_t expect_sound(const spsh_dataset *const *datasets, uint32_t count,
                             spsh_fraction which, int16_t *pcm)
{
    spsh_reader *reader = NULL;
    uint64_t all = 0;
    uint64_t got = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        all += spsh_dataset_info_get(datasets[i])->utterance_count;
    uint64_t position = spsh_fraction_of(which, all);
    while (position >= spsh_dataset_info_get(datasets[n])->utterance_count)
        position -= spsh_dataset_info_get(datasets[n++])->utterance_count;
    require(spsh_reader_open(datasets[n], &reader, &err));
    require(spsh_reader_read_i16(reader, position, 0, pcm, SAMPLES_MAX, &got, &err));
    spsh_reader_close(reader);
    return got;
}

static void expect_draw(const check *c, const spsh_item *item, spsh_augment_draw *draw)
{
    spsh_row row;
    require(spsh_dataset_rows(c->dataset, item->position, 1, &row, &err));
    spsh_augment_draw_make(c->opt->augment, c->opt->plan->seed, c->epoch, row.id_hash, draw);
}

static const int16_t *expect_augmented(check *c, const spsh_item *item, uint64_t *ret_samples)
{
    spsh_augment_input input = {.samples = expect_samples(c, item, &input.sample_count)};
    const spsh_loader_options *opt = c->opt;
    spsh_augment_draw draw;
    *ret_samples = input.sample_count;
    if (c->augmenter == NULL)
        return input.samples;
    expect_draw(c, item, &draw);
    if (draw.has_noise) {
        input.noise = c->noise;
        input.noise_count = expect_sound(opt->noises, opt->noise_count, draw.noise, c->noise);
        input.noise_start = spsh_fraction_of(draw.noise_start, input.noise_count);
    }
    if (draw.has_room) {
        input.room = c->room;
        input.room_count = expect_sound(opt->rooms, opt->room_count, draw.room, c->room);
        if (input.room_count > SPSH_LOADER_ROOM_SECONDS * 16000)
            input.room_count = SPSH_LOADER_ROOM_SECONDS * 16000;
    }
    *ret_samples = spsh_augment_sample_count(&draw, input.sample_count);
    require(spsh_augment_samples(c->augmenter, &draw, &input, c->augmented, &err));
    return c->augmented;
}

/* Masked values are the mean of all values. */
static void expect_masks(check *c, const spsh_item *item, uint64_t frame_count)
{
    const uint32_t dim = spsh_featgen_dim(c->featgen);
    static double sums[4096];
    spsh_augment_draw draw;
    double sum = 0;
    if (c->augmenter == NULL || frame_count == 0)
        return;
    memset(sums, 0, sizeof(sums));
    for (uint64_t t = 0; t < frame_count; t++)
        for (uint32_t d = 0; d < dim; d++)
            sums[d] += (double)c->rows[t * dim + d];
    for (uint32_t d = 0; d < dim; d++)
        sum += sums[d];
    expect_draw(c, item, &draw);
    spsh_augment_mask(&draw, c->rows, frame_count, dim, (float)(sum / (double)(frame_count * dim)));
}

/* Compute the expected values of the utterance, in the data type of the batch. */
static const void *expect_values(check *c, const spsh_batch_utterance *u)
{
    spsh_feature_input input = {.sample_count = 0};
    input.i16 = expect_augmented(c, &u->item, &input.sample_count);
    CHECK_U64(u->samples, input.sample_count);
    CHECK_U64(u->frames, spsh_featgen_frame_count(c->featgen, input.sample_count));
    REQUIRE(u->frames * spsh_featgen_dim(c->featgen) <= VALUES_MAX);
    require(spsh_featgen_compute(c->worker, &input, c->rows, &err));
    expect_masks(c, &u->item, u->frames);
    if (c->opt->feature_dtype == SPSH_FLOAT32)
        return c->rows;
    spsh_half_from_float(c->halves, c->rows, u->frames * spsh_featgen_dim(c->featgen));
    return c->halves;
}

static void check_padding(const check *c, const uint8_t *padding, uint64_t count)
{
    const bool is_half = c->opt->feature_dtype == SPSH_FLOAT16;
    uint8_t want[4];
    uint16_t half = 0;
    spsh_half_from_float(&half, &c->opt->feature_padding, 1);
    memcpy(want, &c->opt->feature_padding, sizeof(want));
    if (is_half)
        memcpy(want, &half, sizeof(half));
    for (uint64_t n = 0; n < count; n++)
        REQUIRE(memcmp(padding + (is_half ? 2 : 4) * n, want, is_half ? 2 : 4) == 0);
}

static void check_batch(check *c, const spsh_batch *batch)
{
    const size_t value_bytes = batch->feature_dtype == SPSH_FLOAT16 ? 2 : 4;
    const uint8_t *values = (const uint8_t *)batch->features;
    const uint64_t dim = spsh_featgen_dim(c->featgen);
    uint64_t longest = 0;
    c->epoch = batch->epoch;
    CHECK_I64(batch->output, SPSH_OUTPUT_FEATURES);
    CHECK_I64(batch->feature_dtype, c->opt->feature_dtype);
    CHECK_U64(batch->feature_dim, dim);
    CHECK_U64(batch->channels, 1);
    CHECK_U64(batch->sample_rate_hz, spsh_featgen_features(c->featgen)->sample_rate_hz);
    REQUIRE(batch->i16 == NULL && batch->f32 == NULL && batch->features != NULL);
    for (uint32_t n = 0; n < batch->utterance_count; n++) {
        const spsh_batch_utterance *u = &batch->utterances[n];
        const void *want = expect_values(c, u);
        const uint64_t left = (batch->padded_frames - u->frames) * dim;
        REQUIRE(u->frames <= batch->padded_frames);
        CHECK_U64(u->offset, n * batch->padded_frames * dim);
        CHECK(memcmp(values + u->offset * value_bytes, want, u->frames * dim * value_bytes) == 0);
        check_padding(c, values + (u->offset + u->frames * dim) * value_bytes, left);
        longest = u->frames > longest ? u->frames : longest;
        c->utterances++;
        c->empty += u->frames == 0;
    }
    CHECK_U64(batch->padded_frames, longest);
    CHECK_U64(batch->value_count, batch->utterance_count * longest * dim);
}

/* Compare all batches of one epoch. */
static void check_epoch(const char *path, const char *text, spsh_loader_options *opt)
{
    const spsh_feature_options features = features_of(text);
    spsh_dataset *dataset = open_dataset(path);
    const spsh_batch *batch = NULL;
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    opt->features = &features;
    check_begin(dataset, &features, opt);
    spsh_loader *loader = open_loader(dataset, opt);
    spsh_status rc = SPSH_OK;
    while ((rc = spsh_loader_next(loader, &batch, &err)) == SPSH_OK) {
        check_batch(&the_check, batch);
        spsh_loader_release(loader, batch);
    }
    CHECK_I64(rc, SPSH_E_END);
    CHECK_U64(the_check.utterances, TALK_UTTERANCES);
    spsh_loader_stats_get(loader, &stats);
    CHECK(stats.feature_cpu_ns > 0);
    CHECK(stats.memory_bytes <= opt->memory_bytes);
    spsh_loader_close(loader);
    check_end();
    spsh_dataset_close(dataset);
}

static void test_rows_are_those_of_featgen(void)
{
    static const char *const texts[] = {"kaldi-fbank", "whisper-logmel", "deepspeech",
                                        "kaldi-mfcc,edges=mirror,norm=mean-variance",
                                        "spectrogram,log=natural"};
    for (uint32_t n = 0; n < 20; n++) {
        const spsh_feature_options features = features_of(texts[n % 5]);
        spsh_loader_options opt = feature_options(&features);
        opt.feature_dtype = n / 5 % 2 == 0 ? SPSH_FLOAT32 : SPSH_FLOAT16;
        opt.feature_padding = n % 3 == 0 ? 0.0F : -15.9424F;
        opt.decode_threads = 1 + n % 4;
        opt.engine = n % 2 == 0 ? SPSH_ENGINE_AUTO : SPSH_ENGINE_PREAD;
        opt.flags = n % 4 < 2 ? SPSH_LOADER_CACHED : SPSH_LOADER_DIRECT;
        check_epoch(n >= 10 ? mixed_path : plain_path, texts[n % 5], &opt);
    }
}

/* Some utterances are too short for one frame, and some batches have only such utterances. */
static void test_without_frames(void)
{
    const spsh_feature_options features = features_of("kaldi-fbank,window_us=150000");
    spsh_loader_options opt = feature_options(&features);
    check_epoch(plain_path, "kaldi-fbank,window_us=150000", &opt);
    CHECK(the_check.empty > 0 && the_check.empty < TALK_UTTERANCES);
    kit_plan.batch_utterances_max = 1;
    opt.feature_dtype = SPSH_FLOAT16;
    check_epoch(plain_path, "kaldi-fbank,window_us=150000", &opt);
    check_epoch(plain_path, "kaldi-fbank,window_us=400000", &opt);
    CHECK_U64(the_check.empty, TALK_UTTERANCES);
}

static void test_padded_to_a_length(void)
{
    const spsh_feature_options features = features_of("whisper-logmel");
    spsh_loader_options opt = feature_options(&features);
    kit_plan.batch_utterances_max = 4;
    check_epoch(plain_path, "whisper-logmel,pad_us=500000", &opt);
    opt.feature_dtype = SPSH_FLOAT16;
    check_epoch(mixed_path, "whisper-logmel,pad_us=100000", &opt);
}

static void test_other_rates_are_resampled(void)
{
    const spsh_feature_options features = features_of("kaldi-fbank");
    spsh_loader_options opt = feature_options(&features);
    check_epoch(mixed_path, "kaldi-fbank,sample_rate_hz=8000", &opt);
    check_epoch(plain_path, "kaldi-fbank,sample_rate_hz=22050", &opt);
}

/* ---- augmentation ---- */

static spsh_augment_options augment_of(const char *text)
{
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    require(spsh_augment_options_parse(text, &augment, &err));
    return augment;
}

#define ALL_OF_IT                                                                                  \
    "speeds=0.9:1:1.1,noise_probability=0.6,noise_snr_db_min=5,noise_snr_db_max=20,"               \
    "room_probability=0.5,gain_probability=0.5,gain_db_min=-6,gain_db_max=6,time_masks=2,"         \
    "time_mask_frames_max=4,frequency_masks=2,frequency_mask_bins_max=10"

static void test_augmented_as_by_direct_calls(void)
{
    static const char *const texts[] = {
        (ALL_OF_IT), "speeds=0.5:2", "noise_probability=1,noise_snr_db_max=10",
        "room_probability=1",
        "time_masks=3,time_mask_frames_max=9,frequency_masks=1,frequency_mask_bins_max=20"};
    spsh_dataset *plain = open_dataset(plain_path);
    spsh_dataset *other = open_dataset(plain_path);
    const spsh_dataset *const sounds[2] = {plain, other};
    for (uint32_t n = 0; n < 10; n++) {
        const spsh_feature_options features = features_of("kaldi-fbank");
        const spsh_augment_options augment = augment_of(texts[n % 5]);
        spsh_loader_options opt = feature_options(&features);
        opt.augment = &augment;
        opt.feature_dtype = n < 5 ? SPSH_FLOAT32 : SPSH_FLOAT16;
        opt.decode_threads = 1 + n % 4;
        if (augment.noise_probability > 0) {
            opt.noises = sounds;
            opt.noise_count = 2;
        }
        if (augment.room_probability > 0) {
            opt.rooms = sounds;
            opt.room_count = 1;
        }
        check_epoch(n % 2 == 0 ? plain_path : mixed_path, "kaldi-fbank", &opt);
    }
    spsh_dataset_close(other);
    spsh_dataset_close(plain);
}

/* The same augmented samples, without features. */
static void check_audio(check *c, const spsh_batch *batch)
{
    c->epoch = batch->epoch;
    for (uint32_t i = 0; i < batch->utterance_count; i++) {
        const spsh_batch_utterance *u = &batch->utterances[i];
        uint64_t samples = 0;
        const int16_t *want = expect_augmented(c, &u->item, &samples);
        CHECK_U64(u->samples, samples);
        CHECK_U64(u->frames, 0);
        CHECK(batch->i16 == NULL || memcmp(batch->i16 + u->offset, want, 2 * samples) == 0);
        for (uint64_t at = 0; batch->f32 != NULL && at < batch->padded_samples; at++)
            REQUIRE(batch->f32[u->offset + at] ==
                    (at < samples ? (float)want[at] / 32768.0F : 0.0F));
        c->utterances++;
    }
}

static void test_audio_is_augmented(void)
{
    const spsh_feature_options features = features_of("kaldi-fbank");
    const spsh_augment_options augment = augment_of(
        "speeds=0.9:1:1.1,noise_probability=0.6,noise_snr_db_max=20,room_probability=0.5");
    spsh_dataset *dataset = open_dataset(plain_path);
    const spsh_dataset *const sounds = dataset;
    spsh_loader_options opt = feature_options(NULL);
    opt.augment = &augment;
    opt.noises = opt.rooms = &sounds;
    opt.noise_count = opt.room_count = 1;
    for (uint32_t n = 0; n < 2; n++) {
        const spsh_batch *batch = NULL;
        uint32_t epochs = 0;
        opt.output = n == 0 ? SPSH_OUTPUT_INT16 : SPSH_OUTPUT_FLOAT32;
        check_begin(dataset, &features, &opt);
        spsh_loader *loader = open_loader(dataset, &opt);
        while (epochs < 2) {
            const spsh_status rc = spsh_loader_next(loader, &batch, &err);
            epochs += rc == SPSH_E_END;
            if (rc == SPSH_E_END)
                continue;
            require(rc);
            check_audio(&the_check, batch);
            spsh_loader_release(loader, batch);
        }
        CHECK_U64(the_check.utterances, 2 * TALK_UTTERANCES);
        spsh_loader_close(loader);
        check_end();
    }
    spsh_dataset_close(dataset);
}

/* ---- order ---- */

static uint64_t mix(uint64_t state, uint64_t value)
{
    state ^= value + UINT64_C(0x9e3779b97f4a7c15) + (state << 6) + (state >> 2);
    return state * UINT64_C(0xff51afd7ed558ccd);
}

static uint64_t digest_batch(uint64_t state, const spsh_batch *b)
{
    const uint8_t *bytes = (const uint8_t *)b->features;
    size_t value_bytes = b->feature_dtype == SPSH_FLOAT16 ? 2 : 4;
    if (b->output == SPSH_OUTPUT_INT16) {
        bytes = (const uint8_t *)b->i16;
        value_bytes = 2;
    } else if (b->output == SPSH_OUTPUT_FLOAT32) {
        bytes = (const uint8_t *)b->f32;
        value_bytes = 4;
    }
    state = mix(mix(mix(state, b->number), b->utterance_count), b->value_count);
    for (uint32_t n = 0; n < b->utterance_count; n++) {
        const spsh_batch_utterance *u = &b->utterances[n];
        state = mix(mix(mix(state, u->item.position), u->samples), u->frames);
    }
    for (uint64_t n = 0; n < b->value_count * value_bytes; n++)
        state = (state ^ bytes[n]) * UINT64_C(0x100000001b3);
    return state;
}

/* Digest N calls, or fewer if the epoch ends first. */
static uint64_t digest_calls(spsh_loader *loader, uint64_t calls)
{
    uint64_t state = 1;
    for (uint64_t n = 0; n < calls; n++) {
        const spsh_batch *batch = NULL;
        const spsh_status rc = spsh_loader_next(loader, &batch, &err);
        if (rc == SPSH_E_END)
            return mix(state, 77);
        require(rc);
        state = digest_batch(state, batch);
        spsh_loader_release(loader, batch);
    }
    return state;
}

static void check_same_for_any(const spsh_dataset *dataset, const spsh_loader_options *base)
{
    uint64_t want[2] = {0, 0};
    for (uint32_t n = 0; n < 8; n++) {
        spsh_loader_options opt = *base;
        opt.decode_threads = 1 + n % 4;
        opt.slots = 2 + n;
        opt.engine = n % 2 == 0 ? SPSH_ENGINE_AUTO : SPSH_ENGINE_PREAD;
        opt.flags = n < 4 ? SPSH_LOADER_CACHED : SPSH_LOADER_DIRECT;
        spsh_loader *loader = open_loader(dataset, &opt);
        for (uint32_t epoch = 0; epoch < 2; epoch++) {
            const uint64_t found = digest_calls(loader, UINT64_MAX);
            want[epoch] = n == 0 ? found : want[epoch];
            CHECK_U64(found, want[epoch]);
        }
        spsh_loader_close(loader);
    }
}

/* A loader that resumes from any position of an epoch serves the batches that would have followed.
 */
static void check_resume(const spsh_dataset *dataset, const spsh_loader_options *opt)
{
    spsh_loader *loader = open_loader(dataset, opt);
    uint64_t calls = 0;
    require(spsh_loader_call_count(loader, 0, &calls, &err));
    for (uint64_t at = 0; at < calls; at += 3) {
        uint8_t cursor[SPSH_CURSOR_BYTES];
        size_t size = 0;
        require(spsh_loader_seek(loader, 1, at, &err));
        require(spsh_loader_cursor_save(loader, cursor, sizeof(cursor), &size, &err));
        const uint64_t want = digest_calls(loader, 4);
        spsh_loader_options other = *opt;
        other.decode_threads = 3;
        spsh_loader *again = open_loader(dataset, &other);
        require(spsh_loader_cursor_restore(again, cursor, size, &err));
        CHECK_U64(digest_calls(again, 4), want);
        spsh_loader_close(again);
    }
    spsh_loader_close(loader);
}

/* Store digests by position, from batches of one utterance. Add to served. */
static void run_rank(const spsh_dataset *dataset, const spsh_loader_options *opt, uint64_t *digests,
                     uint32_t *served)
{
    const spsh_batch *batch = NULL;
    spsh_loader *loader = open_loader(dataset, opt);
    while (spsh_loader_next(loader, &batch, &err) == SPSH_OK) {
        spsh_batch one = *batch;
        one.number = 0;
        if (batch->utterance_count > 0) {
            const uint64_t position = batch->utterances[0].item.position;
            digests[position] = digest_batch(1, &one);
            served[position]++;
        }
        spsh_loader_release(loader, batch);
    }
    CHECK_I64(err.status, SPSH_E_END);
    spsh_loader_close(loader);
}

/* The ranks of a world together serve the whole epoch, with the same features for each utterance.
 */
static void check_worlds(const spsh_dataset *dataset, const spsh_loader_options *base)
{
    uint64_t digests[2][TALK_UTTERANCES] = {{0}, {0}};
    for (uint32_t world = 1; world <= 3; world++) {
        uint32_t served[TALK_UTTERANCES] = {0};
        for (uint32_t rank = 0; rank < world; rank++) {
            spsh_loader_options opt = *base;
            opt.rank = rank;
            opt.world_size = world;
            kit_plan.batch_utterances_max = 1;
            run_rank(dataset, &opt, digests[world > 1], served);
        }
        for (uint32_t n = 0; n < TALK_UTTERANCES; n++) {
            CHECK_U64(served[n], 1);
            CHECK_U64(digests[world > 1][n], digests[0][n]);
        }
    }
}

static bool is_whole; /* not with --races */

/* Also noises and RIRs of other rates and channel counts. */
static void test_order_of_augmented(void)
{
    const spsh_feature_options features = features_of("kaldi-fbank,mel_count=20");
    const spsh_augment_options augment = augment_of(ALL_OF_IT);
    spsh_loader_options opt = feature_options(&features);
    spsh_dataset *dataset = open_dataset(mixed_path);
    const spsh_dataset *const sounds = dataset;
    opt.augment = &augment;
    opt.noises = opt.rooms = &sounds;
    opt.noise_count = opt.room_count = 1;
    check_same_for_any(dataset, &opt);
    if (is_whole) { /* on the same threads */
        check_resume(dataset, &opt);
        check_worlds(dataset, &opt);
    }
    spsh_dataset_close(dataset);
}

static void test_order_is_of_nothing_else(void)
{
    const spsh_feature_options features = features_of("kaldi-fbank,mel_count=20");
    const spsh_loader_options opt = feature_options(&features);
    spsh_dataset *dataset = open_dataset(mixed_path);
    check_same_for_any(dataset, &opt);
    check_resume(dataset, &opt);
    check_worlds(dataset, &opt);
    spsh_dataset_close(dataset);
}

/* ---- memory ---- */

static void test_memory_is_bounded(void)
{
    const spsh_feature_options features = features_of("kaldi-fbank");
    const spsh_augment_options augment = augment_of(ALL_OF_IT);
    spsh_loader_options opt = feature_options(&features);
    spsh_dataset *dataset = open_dataset(plain_path);
    const spsh_dataset *const sounds = dataset;
    opt.augment = &augment;
    opt.noises = opt.rooms = &sounds;
    opt.noise_count = opt.room_count = 1;
    spsh_loader *loader = NULL;
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    uint32_t opened = 0;
    opt.feature_dtype = SPSH_FLOAT16;
    opt.slots = 16;
    for (uint64_t memory = (uint64_t)1 << 16; memory <= 64 << 20; memory *= 2) {
        opt.memory_bytes = memory;
        const spsh_status rc =
            spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err);
        if (rc != SPSH_OK) {
            CHECK_I64(rc, SPSH_E_LIMIT);
            CHECK(strstr(err.message, "memory_bytes") != NULL);
            CHECK(opened == 0);
            continue;
        }
        opened++;
        CHECK(digest_calls(loader, UINT64_MAX) != 0);
        spsh_loader_stats_get(loader, &stats);
        CHECK(stats.slots >= 2 && stats.slots <= 16);
        CHECK(stats.memory_bytes <= memory);
        spsh_loader_close(loader);
    }
    CHECK(opened > 2);
    spsh_dataset_close(dataset);
}

static uint64_t stride; /* distance between allocations that fail */

/* If any allocation fails, open or a batch fails, and nothing leaks. */
static void test_allocation_failures(void)
{
    const spsh_feature_options features = features_of("kaldi-fbank");
    spsh_loader_options opt = feature_options(&features);
    const spsh_augment_options augment = augment_of(ALL_OF_IT);
    spsh_dataset *dataset = open_dataset(plain_path);
    const spsh_dataset *const sounds = dataset;
    opt.augment = &augment;
    opt.noises = opt.rooms = &sounds;
    opt.noise_count = opt.room_count = 1;
    opt.feature_dtype = SPSH_FLOAT16;
    opt.decode_threads = 1;
    bool is_done = false;
    for (uint64_t at = 0; !is_done; at += stride) {
        fault_alloc fault = {.fail_at = at};
        const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        const spsh_batch *batch = NULL;
        spsh_loader *loader = NULL;
        kit_plan.allocator = &allocator;
        spsh_status rc =
            spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err);
        if (rc == SPSH_OK) {
            while ((rc = spsh_loader_next(loader, &batch, &err)) == SPSH_OK)
                spsh_loader_release(loader, batch);
            spsh_loader_close(loader);
        }
        CHECK(rc == SPSH_E_NO_MEMORY || rc == SPSH_E_LIMIT || rc == SPSH_E_END);
        is_done = rc == SPSH_E_END && atomic_load(&fault.call_count) <= at;
        CHECK_I64(atomic_load(&fault.live_count), 0);
        REQUIRE(at < 2000);
    }
    spsh_dataset_close(dataset);
}

/* Memory use does not grow with the number of utterances served. */
static void test_memory_does_not_grow(void)
{
    const spsh_feature_options features = features_of("kaldi-fbank");
    spsh_loader_options opt = feature_options(&features);
    fault_alloc fault = {.fail_at = UINT64_MAX};
    const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
    spsh_dataset *dataset = open_dataset(plain_path);
    kit_plan.allocator = &allocator;
    opt.feature_dtype = SPSH_FLOAT16;
    spsh_loader *loader = open_loader(dataset, &opt);
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        CHECK(digest_calls(loader, UINT64_MAX) != 0);
    const int64_t before = atomic_load(&fault.live_bytes_max);
    for (uint32_t epoch = 0; epoch < 20; epoch++)
        CHECK(digest_calls(loader, UINT64_MAX) != 0);
    CHECK(atomic_load(&fault.live_bytes_max) < before + 16 * 16384 + before / 4);
    spsh_loader_close(loader);
    CHECK_I64(atomic_load(&fault.live_count), 0);
    spsh_dataset_close(dataset);
}

/* ---- options ---- */

static void refuse(const spsh_dataset *dataset, const spsh_loader_options *opt, const char *word)
{
    spsh_loader *loader = NULL;
    CHECK_I64(spsh_loader_open(&dataset, 1, opt, &loader, &err), SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, word) != NULL);
    if (strstr(err.message, word) == NULL)
        fprintf(stderr, "%s\n", err.message);
}

static void test_options(void)
{
    spsh_feature_options features = features_of("kaldi-fbank");
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = feature_options(NULL);
    refuse(dataset, &opt, "features");
    opt = feature_options(&features);
    opt.output = SPSH_OUTPUT_INT16;
    refuse(dataset, &opt, "audio");
    opt = feature_options(&features);
    opt.channel = SPSH_CHANNEL_ALL;
    refuse(dataset, &opt, "channel");
    opt = feature_options(&features);
    kit_plan.sample_rate_hz = 8000;
    refuse(dataset, &opt, "8000");
    opt = feature_options(&features);
    opt.feature_padding = NAN;
    refuse(dataset, &opt, "feature_padding");
    opt = feature_options(&features);
    opt.feature_dtype = (spsh_feature_dtype)2;
    refuse(dataset, &opt, "feature_dtype");
    spsh_augment_options augment = augment_of("noise_probability=0.5");
    const spsh_dataset *const sounds = dataset;
    opt = feature_options(&features);
    opt.augment = &augment;
    refuse(dataset, &opt, "no datasets of noises");
    opt.rooms = &sounds;
    opt.room_count = 1;
    opt.noises = &sounds;
    opt.noise_count = 1;
    refuse(dataset, &opt, "room_probability is 0");
    opt.room_count = 0;
    opt.output = SPSH_OUTPUT_INT16;
    opt.features = NULL;
    opt.channel = SPSH_CHANNEL_ALL;
    refuse(dataset, &opt, "one channel");
    augment = augment_of("time_masks=1,time_mask_frames_max=5");
    opt.channel = SPSH_CHANNEL_MIX;
    opt.noise_count = 0;
    refuse(dataset, &opt, "masks");
    augment.speed_count = 1; /* a speed of 0 percent */
    refuse(dataset, &opt, "speed");
    opt = feature_options(&features);
    features.hop_us = 0;
    refuse(dataset, &opt, "hop_us");
    spsh_dataset_close(dataset);
}

TEST_MAIN(unit_loader_features)
{
    is_whole = !test_wants_races(argc, argv);
    stride = test_stride(argc, argv, 7);
    test_temp_dir(work, sizeof(work));
    (void)snprintf(plain_path, sizeof(plain_path), "%s/plain", work);
    (void)snprintf(mixed_path, sizeof(mixed_path), "%s/mixed", work);
    talk_dataset_make(plain_path, TALK_PLAIN);
    talk_dataset_make(mixed_path, TALK_MIXED);
    RUN(test_rows_are_those_of_featgen);
    RUN(test_without_frames);
    RUN(test_padded_to_a_length);
    RUN(test_other_rates_are_resampled);
    if (is_whole) /* the next test does the same, and more */
        RUN(test_order_is_of_nothing_else);
    RUN(test_order_of_augmented);
    if (is_whole) { /* compares values, on the same threads */
        RUN(test_augmented_as_by_direct_calls);
        RUN(test_audio_is_augmented);
    }
    RUN(test_memory_is_bounded);
    if (is_whole) /* with one thread */
        RUN(test_allocation_failures);
    RUN(test_memory_does_not_grow);
    RUN(test_options);
    test_remove_tree(work);
    return TEST_RESULT();
}
