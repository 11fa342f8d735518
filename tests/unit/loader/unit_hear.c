/* unit_hear.c: spsh_hearing produces the samples and features that the loader serves, in every
 * epoch. The JSON of an augmentation draw describes the augmentation that is applied. */
#include "speechshard/hear.h"

#include "fault_alloc.h"
#include "loader_kit.h"
#include "talk_dataset.h"

static char plain_path[600], mixed_path[600], work[512];

/* All augmentations at once. The noises are utterances, too. */
static spsh_loader_options augmented(const spsh_feature_options *features,
                                     const spsh_augment_options *augment,
                                     const spsh_dataset *const *sounds)
{
    spsh_loader_options opt = feature_options(features);
    kit_plan.seed = 11;
    kit_plan.batch_seconds_max = 3;
    opt.memory_bytes = 256 << 20;
    opt.augment = augment;
    opt.noises = sounds;
    opt.noise_count = sounds == NULL ? 0 : 2;
    opt.rooms = sounds;
    opt.room_count = sounds == NULL ? 0 : 1;
    return opt;
}

static const char everything[] =
    "speeds=0.9:1:1.1,noise_probability=0.7,noise_snr_db_min=0,noise_snr_db_max=20,"
    "room_probability=0.3,gain_probability=0.5,gain_db_min=-6,gain_db_max=6,time_masks=2,"
    "time_mask_frames_max=20,frequency_masks=1,frequency_mask_bins_max=10";

static void compare(const spsh_batch_utterance *u, const float *rows, const spsh_heard *heard)
{
    CHECK_U64(heard->sample_count, u->samples);
    CHECK_U64(heard->frame_count, u->frames);
    CHECK(heard->samples != NULL);
    if (heard->frame_count == u->frames)
        CHECK(memcmp(rows + u->offset, heard->rows, u->frames * heard->dim * sizeof(*rows)) == 0);
}

/* The JSON gives the sample count after the change of speed. */
static void check_told(const spsh_heard *heard, const spsh_augment_draw *draw,
                       const spsh_augment_subject *subject)
{
    char text[4096];
    CHECK_U64(spsh_augment_sample_count(draw, subject->sample_count), heard->sample_count);
    CHECK_U64(subject->frame_count, heard->frame_count);
    CHECK_U64(subject->dim, heard->dim);
    CHECK(spsh_augment_draw_json(draw, subject, text, sizeof(text)) < sizeof(text));
    CHECK(draw->has_noise == (strstr(text, "\"noise\": {\"id\": \"s") != NULL));
    CHECK(draw->has_room == (strstr(text, "\"room\": {\"id\": \"s") != NULL));
}

static void check_epochs(const spsh_dataset *dataset, const spsh_loader_options *opt)
{
    const spsh_batch *batch = NULL;
    spsh_loader *loader = NULL;
    uint64_t utterances = 0, noises = 0;
    require(spsh_loader_open(&dataset, 1, opt, &loader, &err));
    for (uint64_t epoch = 0; epoch < 2;) {
        const spsh_status rc = spsh_loader_next(loader, &batch, &err);
        if (rc == SPSH_E_END) {
            epoch++;
            continue;
        }
        require(rc);
        for (uint32_t n = 0; n < batch->utterance_count; n++) {
            const spsh_batch_utterance *u = &batch->utterances[n];
            spsh_hearing *hearing = NULL;
            spsh_heard heard = SPSH_HEARD_INIT;
            spsh_augment_draw draw;
            spsh_augment_subject subject;
            require(spsh_hearing_open(dataset, u->item.position, opt, &hearing, &err));
            require(spsh_hearing_listen(hearing, batch->epoch, &heard, &err));
            require(spsh_hearing_draw(hearing, batch->epoch, &draw, &subject, &err));
            compare(u, (const float *)batch->features, &heard);
            check_told(&heard, &draw, &subject);
            noises += draw.has_noise;
            utterances++;
            spsh_hearing_close(hearing);
        }
        spsh_loader_release(loader, batch);
    }
    CHECK_U64(utterances, 2 * TALK_UTTERANCES);
    CHECK((noises > 0) == (opt->noise_count > 0));
    spsh_loader_close(loader);
}

static void test_heard_as_served(void)
{
    static const char *const texts[] = {"kaldi-fbank", "deepspeech,sample_rate_hz=8000"};
    spsh_dataset *dataset = open_dataset(mixed_path);
    spsh_dataset *plain = open_dataset(plain_path);
    const spsh_dataset *const sounds[2] = {plain, dataset};
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    require(spsh_augment_options_parse(everything, &augment, &err));
    for (size_t i = 0; i < 2; i++) {
        spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
        require(spsh_feature_options_parse(texts[i], &features, &err));
        spsh_loader_options opt = augmented(&features, &augment, sounds);
        check_epochs(dataset, &opt);
        opt = augmented(&features, NULL, NULL);
        check_epochs(dataset, &opt);
    }
    spsh_dataset_close(plain);
    spsh_dataset_close(dataset);
}

/* One hearing reused for several epochs: it reuses its memory, and the result depends only on the
 * epoch. */
static void test_epochs_in_any_order(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    require(spsh_augment_options_parse("speeds=0.8:1:1.2,time_masks=1,time_mask_frames_max=9",
                                       &augment, &err));
    const spsh_loader_options opt = augmented(NULL, &augment, NULL);
    spsh_hearing *hearing = NULL;
    spsh_heard heard = SPSH_HEARD_INIT;
    static float rows[1 << 20];
    uint64_t counts[8], lengths = 0;
    require(spsh_hearing_open(dataset, 3, &opt, &hearing, &err));
    CHECK_U64(spsh_hearing_features(hearing)->sample_rate_hz, 16000);
    size_t at = 0;
    for (uint64_t epoch = 0; epoch < 8; epoch++) {
        require(spsh_hearing_listen(hearing, epoch, &heard, &err));
        counts[epoch] = heard.frame_count * heard.dim;
        REQUIRE(at + counts[epoch] <= sizeof(rows) / sizeof(*rows));
        memcpy(rows + at, heard.rows, counts[epoch] * sizeof(*rows));
        at += counts[epoch];
        lengths += counts[epoch] != counts[0];
    }
    CHECK(lengths > 0);
    for (uint64_t epoch = 8; epoch-- > 0;) {
        require(spsh_hearing_listen(hearing, epoch, &heard, &err));
        at -= counts[epoch];
        CHECK(memcmp(rows + at, heard.rows, counts[epoch] * sizeof(*rows)) == 0);
    }
    spsh_hearing_close(hearing);
    spsh_dataset_close(dataset);
}

/* ---- no samples ---- */

/* Make a dataset of one utterance without samples, in a recording of eight samples. */
static void make_empty(const char *path)
{
    static const uint8_t wav[60] = "RIFF\x34\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0"
                                   "\0\x7d\0\0\x02\0\x10\0data\x10\0\0\0";
    static const uint8_t id[16] = "emptyemptyempty";
    spsh_shard_writer_options writing = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_publish_options publishing = SPSH_PUBLISH_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    spsh_shard_seal seal;
    uint64_t number = 0;
    char shards[700];
    const spsh_bytes name = {(const uint8_t *)"empty", 5};
    (void)snprintf(shards, sizeof(shards), "%s/shards", path);
    REQUIRE(mkdir(path, 0700) == 0 && mkdir(shards, 0700) == 0);
    writing.directory = shards;
    memcpy(writing.dataset_id, id, sizeof(id));
    require(spsh_shard_writer_open(&writing, &writer, &err));
    const spsh_record record = {.id = name,
                                .codec = SPSH_CODEC_WAV,
                                .format = SPSH_SAMPLE_I16,
                                .bits_per_sample = 16,
                                .channels = 1,
                                .sample_rate_hz = 16000,
                                .nominal_rate_hz = 16000,
                                .samples = 8,
                                .payload_bytes = sizeof(wav)};
    require(spsh_shard_writer_add_record(writer, &record, wav, &number, &err));
    const spsh_utterance utterance = {.id = name, .record = number, .domain = name};
    require(spsh_shard_writer_add_utterance(writer, &utterance, &err));
    require(spsh_shard_writer_seal(writer, &seal, &err));
    spsh_shard_writer_free(writer);
    publishing.path = path;
    memcpy(publishing.dataset_id, id, sizeof(id));
    publishing.seals = &seal;
    publishing.seal_count = 1;
    publishing.options_json = (spsh_bytes){(const uint8_t *)"{}", 2};
    require(spsh_dataset_publish(&publishing, NULL, &err));
}

/* An utterance without samples is not augmented. Only the features of its padding are masked. */
static void test_no_samples(void)
{
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/empty", work);
    make_empty(path);
    spsh_dataset *dataset = open_dataset(path);
    spsh_dataset *plain = open_dataset(plain_path);
    const spsh_dataset *const sounds[2] = {plain, plain};
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    require(spsh_augment_options_parse(everything, &augment, &err));
    for (size_t i = 0; i < 2; i++) {
        spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
        require(spsh_feature_options_parse(i == 0 ? "kaldi-fbank" : "whisper-logmel,pad_us=50000",
                                           &features, &err));
        spsh_loader_options opt = augmented(&features, &augment, sounds);
        spsh_hearing *hearing = NULL;
        require(spsh_hearing_open(dataset, 0, &opt, &hearing, &err));
        for (uint64_t epoch = 0; epoch < 8; epoch++) {
            spsh_heard heard = SPSH_HEARD_INIT;
            spsh_augment_draw draw;
            spsh_augment_subject subject;
            require(spsh_hearing_listen(hearing, epoch, &heard, &err));
            require(spsh_hearing_draw(hearing, epoch, &draw, &subject, &err));
            CHECK_U64(heard.sample_count, 0);
            CHECK_U64(heard.frame_count, i == 0 ? 0 : 5);
            CHECK(!draw.has_noise && !draw.has_room && !draw.has_gain);
        }
        spsh_hearing_close(hearing);
    }
    spsh_dataset_close(plain);
    spsh_dataset_close(dataset);
}

static void refuse(const spsh_dataset *dataset, uint64_t position, const spsh_loader_options *opt,
                   spsh_status want)
{
    spsh_hearing *hearing = NULL;
    CHECK_I64(spsh_hearing_open(dataset, position, opt, &hearing, &err), want);
    CHECK(hearing == NULL);
}

static void test_options(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    require(spsh_augment_options_parse("noise_probability=1", &augment, &err));
    spsh_loader_options opt = augmented(NULL, &augment, NULL);
    refuse(dataset, 0, &opt, SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "no datasets of noises") != NULL);
    opt.augment = NULL;
    refuse(dataset, TALK_UTTERANCES, &opt, SPSH_E_INVALID_ARG);
    opt.channel = 2;
    refuse(dataset, 0, &opt, SPSH_E_NOT_FOUND);
    opt.channel = SPSH_CHANNEL_MIX;
    opt.memory_bytes = 100000;
    spsh_hearing *hearing = NULL;
    spsh_heard heard = SPSH_HEARD_INIT;
    const spsh_status rc = spsh_hearing_open(dataset, 0, &opt, &hearing, &err);
    CHECK(rc == SPSH_E_NO_MEMORY ||
          spsh_hearing_listen(hearing, 0, &heard, &err) == SPSH_E_NO_MEMORY);
    spsh_hearing_close(hearing);
    spsh_hearing_close(NULL);
    spsh_dataset_close(dataset);
}

static void test_allocation_failures(void)
{
    spsh_dataset *dataset = open_dataset(mixed_path);
    spsh_dataset *plain = open_dataset(plain_path);
    const spsh_dataset *const sounds[2] = {plain, dataset};
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    require(spsh_augment_options_parse(everything, &augment, &err));
    augment.noise_probability = augment.room_probability = 1;
    spsh_loader_options opt = augmented(NULL, &augment, sounds);
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh_hearing *hearing = NULL;
        spsh_heard heard = SPSH_HEARD_INIT;
        spsh_augment_draw draw;
        spsh_augment_subject subject;
        REQUIRE(fail_at < 200);
        kit_plan.allocator = &allocator;
        rc = spsh_hearing_open(dataset, 1, &opt, &hearing, &err);
        if (rc == SPSH_OK)
            rc = spsh_hearing_draw(hearing, 0, &draw, &subject, &err);
        if (rc == SPSH_OK)
            rc = spsh_hearing_listen(hearing, 0, &heard, &err);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        spsh_hearing_close(hearing);
        CHECK_I64(fault.live_count, 0);
    }
    spsh_dataset_close(plain);
    spsh_dataset_close(dataset);
}

TEST_MAIN(unit_hear)
{
    test_temp_dir(work, sizeof(work));
    (void)snprintf(plain_path, sizeof(plain_path), "%s/plain", work);
    (void)snprintf(mixed_path, sizeof(mixed_path), "%s/mixed", work);
    talk_dataset_make(plain_path, TALK_PLAIN);
    talk_dataset_make(mixed_path, TALK_MIXED);
    RUN(test_heard_as_served);
    RUN(test_epochs_in_any_order);
    RUN(test_no_samples);
    RUN(test_options);
    RUN(test_allocation_failures);
    test_remove_tree(work);
    return TEST_RESULT();
}
