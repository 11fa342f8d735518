/* unit_loader_stored.c: the loader serves stored features as it serves features computed from their
 * source. Feature norms use the statistics stored next to a dataset. */
#include <fcntl.h>
#include <unistd.h>

#include "loader_kit.h"
#include "speechshard/features.h"
#include "speechshard/publish.h"
#include "speechshard/statistics.h"
#include "talk_dataset.h"

enum { VALUES_MAX = 1 << 16, SPEAKERS = 4 };

static char audio_path[600], single_path[600], half_path[600], work[512];

/* ---- a dataset of features ---- */

/* As section 3 of format-features.md, from the batches of a loader. */
static void add_features(spsh_shard_writer *writer, const spsh_dataset *source,
                         const spsh_batch *batch)
{
    static uint8_t payload[VALUES_MAX * 4 + 4096];
    const bool is_half = batch->feature_dtype == SPSH_FLOAT16;
    const spsh_batch_utterance *u = &batch->utterances[0];
    const spsh_features_info info = {.dim = batch->feature_dim,
                                     .value_bytes = is_half ? 2 : 4,
                                     .frame_count = u->frames,
                                     .source = {(uint8_t)u->item.position}};
    size_t size = 0;
    uint64_t number = 0;
    spsh_row row;
    spsh_bytes domain;
    require(spsh_dataset_rows(source, u->item.position, 1, &row, &err));
    require(spsh_dataset_name(source, SPSH_NAME_DOMAIN, row.domain, &domain, &err));
    require(spsh_features_encode(&info, batch->features, payload, sizeof(payload), &size, &err));
    spsh_record record = {.id = u->id,
                          .payload_bytes = size,
                          .samples = row.samples,
                          .sample_rate_hz = row.sample_rate_hz,
                          .nominal_rate_hz = row.sample_rate_hz,
                          .channels = row.channels,
                          .codec = SPSH_CODEC_FEATURES,
                          .format = SPSH_SAMPLE_F32,
                          .bits_per_sample = 8 * info.value_bytes,
                          .flags = SPSH_RECORD_PCM_HASH | SPSH_RECORD_TRANSCODED};
    spsh_features_hash(&info, batch->features, record.pcm_hash);
    require(spsh_shard_writer_add_record(writer, &record, payload, &number, &err));
    const spsh_utterance utterance = {.id = u->id,
                                      .record = number,
                                      .samples = row.samples,
                                      .flags = row.flags & SPSH_UTTERANCE_HAS_TEXT,
                                      .domain = domain,
                                      .speaker = u->speaker,
                                      .language = u->language,
                                      .text = u->text};
    require(spsh_shard_writer_add_utterance(writer, &utterance, &err));
}

static void publish(const char *path, const spsh_shard_seal *seal,
                    const spsh_feature_options *features, spsh_feature_dtype dtype)
{
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    char json[SPSH_FEATURE_TEXT_BYTES_MAX + 200];
    (void)spsh_feature_options_text(features, text, sizeof(text));
    (void)snprintf(json, sizeof(json),
                   "{\"features\":\"%s\",\"dtype\":\"%s\",\"source\":\"%032d\"}", text,
                   dtype == SPSH_FLOAT16 ? "float16" : "float32", 7);
    opt.path = path;
    memcpy(opt.dataset_id, "feat", 4);
    opt.seals = seal;
    opt.seal_count = 1;
    opt.options_json = (spsh_bytes){(const uint8_t *)json, strlen(json)};
    require(spsh_dataset_publish(&opt, NULL, &err));
}

static void make_features(const char *path, const char *text, spsh_feature_dtype dtype)
{
    const spsh_feature_options features = features_of(text);
    spsh_loader_options opt = feature_options(&features);
    spsh_shard_writer_options how = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_dataset *source = open_dataset(audio_path);
    spsh_shard_writer *writer = NULL;
    const spsh_batch *batch = NULL;
    spsh_shard_seal seal;
    char shards[700];
    (void)snprintf(shards, sizeof(shards), "%s/shards", path);
    REQUIRE(mkdir(path, 0700) == 0 && mkdir(shards, 0700) == 0);
    how.directory = shards;
    memcpy(how.dataset_id, "feat", 4);
    require(spsh_shard_writer_open(&how, &writer, &err));
    kit_plan.flags = SPSH_PLAN_IN_ORDER;
    kit_plan.batch_utterances_max = 1;
    opt.feature_dtype = dtype;
    spsh_loader *loader = open_loader(source, &opt);
    while (spsh_loader_next(loader, &batch, &err) == SPSH_OK) {
        add_features(writer, source, batch);
        spsh_loader_release(loader, batch);
    }
    CHECK_I64(err.status, SPSH_E_END);
    spsh_loader_close(loader);
    require(spsh_shard_writer_seal(writer, &seal, &err));
    spsh_shard_writer_free(writer);
    publish(path, &seal, &features, dtype);
    spsh_dataset_close(source);
}

/* ---- served utterances, by id ---- */

typedef struct served {
    char id[16];
    uint64_t frames, value_count;
    float values[3000];
} served;

typedef struct epoch {
    uint32_t count;
    spsh_loader_stats stats;
    served utterances[2 * TALK_UTTERANCES];
} epoch;

static epoch want, found;

static int compare_ids(const void *left, const void *right)
{
    return strcmp(((const served *)left)->id, ((const served *)right)->id);
}

static void note(epoch *e, const spsh_batch *batch, const spsh_batch_utterance *u)
{
    served *s = &e->utterances[e->count++];
    const float *floats = (const float *)batch->features;
    const uint16_t *halves = (const uint16_t *)batch->features;
    memset(s, 0, sizeof(*s));
    memcpy(s->id, u->id.data, u->id.size_bytes);
    s->frames = u->frames;
    s->value_count = u->frames * batch->feature_dim;
    REQUIRE(s->value_count <= 3000 && u->id.size_bytes < sizeof(s->id));
    if (batch->feature_dtype == SPSH_FLOAT16)
        spsh_float_from_half(s->values, halves + u->offset, s->value_count);
    else if (s->value_count > 0)
        memcpy(s->values, floats + u->offset, s->value_count * sizeof(float));
}

static spsh_status serve(const spsh_dataset *const *datasets, uint32_t count,
                         const spsh_loader_options *opt, epoch *e)
{
    spsh_loader *loader = NULL;
    const spsh_batch *batch = NULL;
    e->count = 0;
    spsh_status rc = spsh_loader_open(datasets, count, opt, &loader, &err);
    if (rc != SPSH_OK)
        return rc;
    while ((rc = spsh_loader_next(loader, &batch, &err)) == SPSH_OK) {
        for (uint32_t n = 0; n < batch->utterance_count; n++)
            note(e, batch, &batch->utterances[n]);
        spsh_loader_release(loader, batch);
    }
    e->stats = (spsh_loader_stats)SPSH_LOADER_STATS_INIT;
    spsh_loader_stats_get(loader, &e->stats);
    spsh_loader_close(loader);
    qsort(e->utterances, e->count, sizeof(*e->utterances), compare_ids);
    return rc;
}

static void serve_path(const char *path, const spsh_loader_options *opt, epoch *e)
{
    spsh_dataset *dataset = open_dataset(path);
    CHECK_I64(serve((const spsh_dataset *const *)&dataset, 1, opt, e), SPSH_E_END);
    spsh_dataset_close(dataset);
}

static void check_equal(const served *a, const served *b)
{
    CHECK(strcmp(a->id, b->id) == 0);
    CHECK_U64(a->frames, b->frames);
    for (uint64_t n = 0; n < b->value_count; n++)
        REQUIRE(a->values[n] == b->values[n]);
}

static void check_same(void)
{
    CHECK_U64(found.count, want.count);
    for (uint32_t n = 0; n < want.count && n < found.count; n++)
        check_equal(&found.utterances[n], &want.utterances[n]);
}

#define TEXT  "kaldi-fbank,mel_count=20"
#define MASKS "time_masks=2,time_mask_frames_max=6,frequency_masks=1,frequency_mask_bins_max=9"

/* Features stored as float32 and as float16, served as both. */
static void test_served_as_computed(void)
{
    const spsh_feature_options features = features_of(TEXT);
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    require(spsh_augment_options_parse(MASKS, &augment, &err));
    for (uint32_t n = 0; n < 8; n++) {
        spsh_loader_options opt = feature_options(&features);
        const bool is_masked = n >= 4;
        const bool is_half = n % 4 == 2;
        opt.feature_dtype = n % 2 == 0 ? SPSH_FLOAT16 : SPSH_FLOAT32;
        opt.decode_threads = 1 + n % 3;
        opt.augment = is_masked ? &augment : NULL;
        if (is_half && is_masked)
            continue; /* rounding to float16 changes the mean */
        serve_path(audio_path, &opt, &want);
        CHECK_U64(want.count, TALK_UTTERANCES);
        opt.features = n % 3 == 0 ? NULL : &features;
        opt.flags = n % 4 == 1 ? SPSH_LOADER_DIRECT : 0;
        serve_path(is_half ? half_path : single_path, &opt, &found);
        CHECK_U64(found.stats.retries, 0);
        check_same();
    }
    /* Stored float16 features have the same values if they are served as float32. */
    spsh_loader_options opt = feature_options(NULL);
    opt.feature_dtype = SPSH_FLOAT16;
    serve_path(half_path, &opt, &want);
    opt.feature_dtype = SPSH_FLOAT32;
    serve_path(half_path, &opt, &found);
    check_same();
}

static void test_beside_audio(void)
{
    const spsh_feature_options features = features_of(TEXT);
    spsh_loader_options opt = feature_options(&features);
    spsh_dataset *audio = open_dataset(audio_path);
    spsh_dataset *stored = open_dataset(single_path);
    const spsh_dataset *datasets[2] = {audio, stored};
    CHECK_I64(serve(datasets, 2, &opt, &found), SPSH_E_END);
    CHECK_U64(found.count, 2 * TALK_UTTERANCES);
    for (uint32_t n = 0; n + 1 < found.count; n += 2) /* each twice: sorted by id */
        check_equal(&found.utterances[n], &found.utterances[n + 1]);
    opt.features = NULL;
    CHECK_I64(serve(datasets, 2, &opt, &found), SPSH_E_END);
    CHECK_U64(found.count, 2 * TALK_UTTERANCES);
    spsh_dataset_close(audio);
    spsh_dataset_close(stored);
}

/* ---- rejected options ---- */

static void refuse(const spsh_loader_options *opt, spsh_status status, const char *word)
{
    spsh_dataset *dataset = open_dataset(single_path);
    spsh_loader *loader = NULL;
    CHECK_I64(spsh_loader_open((const spsh_dataset *const *)&dataset, 1, opt, &loader, &err),
              status);
    CHECK(strstr(err.message, word) != NULL && strstr(err.message, single_path) != NULL);
    if (strstr(err.message, word) == NULL)
        fprintf(stderr, "%s\n", err.message);
    spsh_dataset_close(dataset);
}

static void test_refused(void)
{
    const spsh_feature_options other = features_of("kaldi-fbank,mel_count=21");
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_loader_options opt = feature_options(&other);
    refuse(&opt, SPSH_E_MISMATCH, "mel_count=21");
    opt = feature_options(NULL);
    opt.output = SPSH_OUTPUT_INT16;
    refuse(&opt, SPSH_E_INVALID_ARG, "for audio, open the dataset");
    opt = feature_options(NULL);
    require(spsh_augment_options_parse("speeds=0.9:1", &augment, &err));
    opt.augment = &augment;
    refuse(&opt, SPSH_E_INVALID_ARG, "can only be masked");
    opt = feature_options(NULL);
    opt.channel = 1;
    refuse(&opt, SPSH_E_INVALID_ARG, "channel");
    opt = feature_options(NULL);
    kit_plan.long_utterances = SPSH_LONG_SPLIT;
    refuse(&opt, SPSH_E_INVALID_ARG, "split");
    spsh_dataset *features = open_dataset(single_path);
    const spsh_dataset *const noises = features;
    require(spsh_augment_options_parse("noise_probability=1,noise_snr_db_max=9", &augment, &err));
    spsh_dataset *audio = open_dataset(audio_path);
    spsh_loader *loader = NULL;
    opt = feature_options(&other);
    opt.augment = &augment;
    opt.noises = &noises;
    opt.noise_count = 1;
    CHECK_I64(spsh_loader_open((const spsh_dataset *const *)&audio, 1, &opt, &loader, &err),
              SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "features") != NULL && strstr(err.message, single_path) != NULL);
    spsh_dataset_close(audio);
    spsh_dataset_close(features);
}

/* ---- damage ---- */

static void flip(const char *path, uint64_t offset)
{
    uint8_t byte = 0;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0 && pread(fd, &byte, 1, (off_t)offset) == 1);
    byte ^= 0x20;
    REQUIRE(pwrite(fd, &byte, 1, (off_t)offset) == 1 && close(fd) == 0);
}

static void test_damage(void)
{
    spsh_dataset *dataset = open_dataset(single_path);
    spsh_loader_options opt = feature_options(NULL);
    char shard[700];
    spsh_row row;
    (void)snprintf(shard, sizeof(shard), "%s/shards/000000-000.spsh", single_path);
    CHECK_I64(serve((const spsh_dataset *const *)&dataset, 1, &opt, &want), SPSH_E_END);
    require(spsh_dataset_rows(dataset, 5, 1, &row, &err));
    flip(shard, row.record_offset_bytes + row.record_bytes / 2);
    const spsh_status rc = serve((const spsh_dataset *const *)&dataset, 1, &opt, &found);
    CHECK_I64(rc, SPSH_E_CORRUPT);
    CHECK(strstr(err.message, single_path) != NULL);
    opt.on_error = SPSH_ON_ERROR_SKIP;
    CHECK_I64(serve((const spsh_dataset *const *)&dataset, 1, &opt, &found), SPSH_E_END);
    CHECK_U64(found.count, TALK_UTTERANCES - 1);
    opt.on_error = SPSH_ON_ERROR_SUBSTITUTE;
    CHECK_I64(serve((const spsh_dataset *const *)&dataset, 1, &opt, &found), SPSH_E_END);
    CHECK_U64(found.count, TALK_UTTERANCES);
    for (uint32_t n = 0; n < found.count; n++) { /* one utterance a second time */
        const served *at = &found.utterances[n];
        const void *same =
            bsearch(at, want.utterances, want.count, sizeof(want.utterances[0]), compare_ids);
        REQUIRE(same != NULL);
        check_equal(at, (const served *)same);
    }
    flip(shard, row.record_offset_bytes + row.record_bytes / 2);
    CHECK_I64(serve((const spsh_dataset *const *)&dataset, 1, &opt, &found), SPSH_E_END);
    CHECK_U64(found.count, TALK_UTTERANCES);
    spsh_dataset_close(dataset);
}

/* ---- statistics ---- */

static void publish_statistics(const spsh_dataset *dataset, const char *text, bool by_speaker)
{
    static const uint64_t groups[2 + SPEAKERS] = {0, 1, 2, 3, 4, 5};
    static const uint64_t frames[2 + SPEAKERS] = {100, 0, 20, 30, 40, 10};
    static double sums[(2 + SPEAKERS) * 20], squares[(2 + SPEAKERS) * 20];
    const spsh_feature_options features = features_of(text);
    char canonical[SPSH_FEATURE_TEXT_BYTES_MAX];
    (void)spsh_feature_options_text(&features, canonical, sizeof(canonical));
    for (uint32_t g = 0; g < 2 + SPEAKERS; g++)
        for (uint32_t d = 0; d < 20; d++) {
            const double mean = 5 + g + 0.25 * d;
            sums[g * 20 + d] = mean * (double)frames[g];
            squares[g * 20 + d] = (mean * mean + 4) * (double)frames[g];
        }
    const spsh_statistics_content content = {.dataset = dataset,
                                             .text = canonical,
                                             .shard = SPSH_STATISTICS_WHOLE,
                                             .dim = 20,
                                             .group_count = by_speaker ? 2 + SPEAKERS : 1,
                                             .groups = groups,
                                             .frame_counts = frames,
                                             .sums = sums,
                                             .square_sums = squares};
    require(spsh_statistics_publish(&content, NULL, &err));
}

/* Speakers have the numbers of the dataset's names: ann, bob, cem, dia. */
static void check_normed(const spsh_dataset *dataset, bool by_speaker)
{
    spsh_reader *reader = NULL;
    require(spsh_reader_open(dataset, &reader, &err));
    CHECK_U64(found.count, want.count);
    for (uint32_t n = 0; n < found.count; n++) {
        const served *plain = &want.utterances[n];
        const served *normed = &found.utterances[n];
        uint64_t position = 0;
        spsh_row row;
        require(spsh_reader_find(
            reader, (spsh_bytes){(const uint8_t *)plain->id, strlen(plain->id)}, &position, &err));
        require(spsh_dataset_rows(dataset, position, 1, &row, &err));
        const uint32_t group = by_speaker ? 2 + row.speaker : 0;
        for (uint64_t i = 0; i < plain->value_count; i++) {
            const float mean = (float)(5 + group + 0.25 * (double)(i % 20));
            REQUIRE(normed->values[i] > (plain->values[i] - mean) * 0.5F - 1e-4F &&
                    normed->values[i] < (plain->values[i] - mean) * 0.5F + 1e-4F);
        }
    }
    spsh_reader_close(reader);
}

static void test_statistics(void)
{
    spsh_dataset *dataset = open_dataset(audio_path);
    const spsh_dataset *const datasets = dataset;
    spsh_feature_options features = features_of(TEXT);
    spsh_loader_options opt = feature_options(&features);
    CHECK_I64(serve(&datasets, 1, &opt, &want), SPSH_E_END);
    features.norm = SPSH_NORM_SPEAKER;
    CHECK_I64(serve(&datasets, 1, &opt, &found), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "speechshard featgen") != NULL);
    publish_statistics(dataset, TEXT, false);
    CHECK_I64(serve(&datasets, 1, &opt, &found), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "--by speaker") != NULL);
    features.norm = SPSH_NORM_DATASET;
    CHECK_I64(serve(&datasets, 1, &opt, &found), SPSH_E_END);
    check_normed(dataset, false);
    publish_statistics(dataset, TEXT, true);
    CHECK_I64(serve(&datasets, 1, &opt, &found), SPSH_E_END);
    check_normed(dataset, false);
    features.norm = SPSH_NORM_SPEAKER;
    CHECK_I64(serve(&datasets, 1, &opt, &found), SPSH_E_END);
    check_normed(dataset, true);
    spsh_dataset_close(dataset);
}

TEST_MAIN(unit_loader_stored)
{
    test_temp_dir(work, sizeof(work));
    (void)snprintf(audio_path, sizeof(audio_path), "%s/audio", work);
    (void)snprintf(single_path, sizeof(single_path), "%s/single", work);
    (void)snprintf(half_path, sizeof(half_path), "%s/half", work);
    talk_dataset_make(audio_path, TALK_MIXED);
    make_features(single_path, TEXT, SPSH_FLOAT32);
    make_features(half_path, TEXT, SPSH_FLOAT16);
    RUN(test_served_as_computed);
    RUN(test_beside_audio);
    RUN(test_refused);
    RUN(test_damage);
    RUN(test_statistics);
    test_remove_tree(work);
    return TEST_RESULT();
}
