/* unit_loader.c: the loader serves the samples that the dataset reader returns, for any number of
 * threads, slots, engines, and ranks. Its memory and run time are bounded. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "fault_alloc.h"
#include "loader_kit.h"
#include "talk_dataset.h"
#include "test_number.h"

enum { STEPS_MAX = 512, ITEMS_MAX = 4096 };

static char plain_path[600], mixed_path[600], work[512];

/* ---- digests of batches ---- */

static uint64_t mix(uint64_t state, uint64_t value)
{
    state ^= value + UINT64_C(0x9e3779b97f4a7c15) + (state << 6) + (state >> 2);
    return state * UINT64_C(0xff51afd7ed558ccd);
}

static uint64_t mix_bytes(uint64_t state, const void *data, size_t size_bytes)
{
    const uint8_t *bytes = (const uint8_t *)data;
    for (size_t n = 0; n < size_bytes; n++)
        state = (state ^ bytes[n]) * UINT64_C(0x100000001b3);
    return state;
}

/* Digest everything that a borrower sees. */
static uint64_t digest_batch(uint64_t state, const spsh_batch *b)
{
    state = mix(mix(mix(state, b->epoch), b->step), b->number);
    state = mix(mix(mix(state, b->flags), b->utterance_count), b->sample_rate_hz);
    state = mix(mix(mix(state, b->channels), b->padded_samples), b->value_count);
    for (uint32_t n = 0; n < b->utterance_count; n++) {
        const spsh_batch_utterance *u = &b->utterances[n];
        state = mix(mix(mix(state, u->item.position), u->item.start_sample), u->item.samples);
        state = mix(mix(mix(state, u->offset), u->samples), u->substitute);
        state = mix_bytes(state, u->id.data, u->id.size_bytes);
        state = mix_bytes(state, u->text.data, u->text.size_bytes);
        state = mix_bytes(state, u->speaker.data, u->speaker.size_bytes);
        state = mix_bytes(state, u->language.data, u->language.size_bytes);
    }
    if (b->i16 != NULL)
        state = mix_bytes(state, b->i16, b->value_count * sizeof(*b->i16));
    if (b->f32 != NULL)
        state = mix_bytes(state, b->f32, b->value_count * sizeof(*b->f32));
    return state;
}

/* Read to the end of N epochs, and return the digest of all batches. */
static uint64_t digest_epochs(spsh_loader *loader, uint32_t epochs)
{
    uint64_t state = 1;
    while (epochs > 0) {
        const spsh_batch *batch = NULL;
        spsh_status rc = spsh_loader_next(loader, &batch, &err);
        if (rc == SPSH_E_END) {
            epochs--;
            state = mix(state, 77);
            continue;
        }
        require(rc);
        state = digest_batch(state, batch);
        spsh_loader_release(loader, batch);
    }
    return state;
}

/* ---- samples ---- */

typedef struct check {
    spsh_reader *reader;
    const spsh_dataset *dataset;
    int32_t channel;
    int16_t i16[2 * TALK_LONG_SECONDS * 16000], mono[TALK_LONG_SECONDS * 16000];
    int16_t out[4 * TALK_LONG_SECONDS * 16000];
    float f32[2 * TALK_LONG_SECONDS * 16000];
} check;

/* Read the utterance, then select channels, then resample. */
static const int16_t *expect_i16(check *c, const spsh_batch *batch, const spsh_item *item,
                                 uint64_t *ret_samples)
{
    spsh_row row;
    uint64_t got = 0;
    const int16_t *pcm = c->i16;
    require(spsh_dataset_rows(c->dataset, item->position, 1, &row, &err));
    require(spsh_reader_read_i16(c->reader, item->position, item->start_sample, c->i16,
                                 item->samples, &got, &err));
    CHECK_U64(got, item->samples);
    if (c->channel != SPSH_CHANNEL_ALL && row.channels > 1) {
        for (uint64_t n = 0; n < got; n++) {
            const int32_t sum = c->i16[2 * n] + c->i16[2 * n + 1];
            c->mono[n] = (int16_t)((sum + 1 + 65536) / 2 - 32768);
            if (c->channel != SPSH_CHANNEL_MIX)
                c->mono[n] = c->i16[2 * n + (uint32_t)c->channel - 1];
        }
        pcm = c->mono;
    }
    *ret_samples = got;
    if (batch->sample_rate_hz == row.sample_rate_hz)
        return pcm;
    require(spsh_resample_i16(pcm, got, batch->channels, row.sample_rate_hz, batch->sample_rate_hz,
                              c->out, sizeof(c->out) / 2 / batch->channels, ret_samples, &err));
    return c->out;
}

static void check_strings(const check *c, const spsh_batch_utterance *u)
{
    spsh_utterance want;
    require(spsh_reader_metadata(c->reader, u->item.position, &want, &err));
    CHECK(u->id.size_bytes == want.id.size_bytes &&
          memcmp(u->id.data, want.id.data, want.id.size_bytes) == 0);
    CHECK_U64(u->text.size_bytes, want.text.size_bytes);
    CHECK(want.text.size_bytes == 0 ||
          memcmp(u->text.data, want.text.data, want.text.size_bytes) == 0);
    CHECK(u->speaker.size_bytes == want.speaker.size_bytes &&
          memcmp(u->speaker.data, want.speaker.data, want.speaker.size_bytes) == 0);
    CHECK(u->language.size_bytes == 2 && memcmp(u->language.data, "en", 2) == 0);
}

static void check_i16(check *c, const spsh_batch *batch)
{
    uint64_t at = 0;
    for (uint32_t n = 0; n < batch->utterance_count; n++) {
        const spsh_batch_utterance *u = &batch->utterances[n];
        uint64_t samples = 0;
        const int16_t *want = expect_i16(c, batch, &u->item, &samples);
        CHECK_U64(u->offset, at);
        CHECK_U64(u->samples, samples);
        CHECK(memcmp(batch->i16 + at, want, samples * batch->channels * 2) == 0);
        at += samples * batch->channels;
        check_strings(c, u);
    }
    CHECK_U64(batch->value_count, at);
    CHECK(batch->f32 == NULL);
}

static void check_f32(check *c, const spsh_batch *batch)
{
    uint64_t longest = 0;
    for (uint32_t n = 0; n < batch->utterance_count; n++) {
        const spsh_batch_utterance *u = &batch->utterances[n];
        uint64_t got = 0;
        longest = u->samples > longest ? u->samples : longest;
        CHECK_U64(u->offset, n * batch->padded_samples * batch->channels);
        require(spsh_reader_read_f32(c->reader, u->item.position, u->item.start_sample, c->f32,
                                     u->item.samples, &got, &err));
        CHECK_U64(u->samples, got);
        CHECK(memcmp(batch->f32 + u->offset, c->f32, got * batch->channels * 4) == 0);
        for (uint64_t at = got * batch->channels; at < batch->padded_samples * batch->channels;
             at++)
            REQUIRE(batch->f32[u->offset + at] == 0.0F);
    }
    CHECK_U64(batch->padded_samples, longest);
    CHECK_U64(batch->value_count, batch->utterance_count * longest * batch->channels);
    CHECK(batch->i16 == NULL);
}

static void check_epoch(const char *path, const spsh_loader_options *opt)
{
    static check c;
    spsh_dataset *dataset = open_dataset(path);
    spsh_loader *loader = open_loader(dataset, opt);
    uint64_t calls = 0;
    uint64_t want_calls = 0;
    uint64_t utterances = 0;
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    spsh_status rc = SPSH_OK;
    c.dataset = dataset;
    c.channel = opt->channel;
    require(spsh_reader_open(dataset, &c.reader, &err));
    require(spsh_loader_call_count(loader, 0, &want_calls, &err));
    while (rc == SPSH_OK) {
        const spsh_batch *batch = NULL;
        rc = spsh_loader_next(loader, &batch, &err);
        if (rc != SPSH_OK)
            break;
        calls++;
        utterances += batch->utterance_count;
        if (opt->output == SPSH_OUTPUT_INT16)
            check_i16(&c, batch);
        else
            check_f32(&c, batch);
        spsh_loader_release(loader, batch);
    }
    CHECK_I64(rc, SPSH_E_END);
    CHECK_U64(calls, want_calls);
    CHECK_U64(utterances, TALK_UTTERANCES);
    spsh_loader_stats_get(loader, &stats);
    CHECK_U64(stats.utterances, TALK_UTTERANCES);
    CHECK_U64(stats.batches, calls);
    CHECK_U64(stats.range_reads > 0, 1); /* range reads of long recordings */
    CHECK_U64(stats.retries + stats.bad_records + stats.slow_reads, 0);
    CHECK(stats.read_bytes >= stats.needed_bytes);
    spsh_loader_close(loader);
    spsh_reader_close(c.reader);
    spsh_dataset_close(dataset);
}

static void test_samples_are_the_readers(void)
{
    spsh_loader_options opt = small_options();
    check_epoch(plain_path, &opt);
    opt.engine = SPSH_ENGINE_PREAD;
    opt.flags = SPSH_LOADER_DIRECT;
    check_epoch(plain_path, &opt);
    check_epoch(mixed_path, &opt); /* MIX */
    opt.flags = SPSH_LOADER_CACHED;
    opt.channel = 1;
    check_epoch(mixed_path, &opt);
    opt.channel = SPSH_CHANNEL_ALL;
    check_epoch(mixed_path, &opt);
}

static void test_resampled(void)
{
    spsh_loader_options opt = small_options();
    kit_plan.sample_rate_hz = 16000;
    check_epoch(mixed_path, &opt);
    kit_plan.sample_rate_hz = 11025;
    opt.channel = SPSH_CHANNEL_ALL;
    check_epoch(mixed_path, &opt);
}

static void test_float32_is_padded(void)
{
    spsh_loader_options opt = small_options();
    opt.output = SPSH_OUTPUT_FLOAT32;
    check_epoch(plain_path, &opt);
    opt.channel = SPSH_CHANNEL_ALL;
    check_epoch(mixed_path, &opt);
}

/* The mean in float32, then resampling in float32. The result is within the precision of int16. */
static void test_float32_mixed(void)
{
    spsh_loader_options opt = small_options();
    spsh_dataset *dataset = open_dataset(mixed_path);
    kit_plan.sample_rate_hz = 16000;
    kit_plan.batch_utterances_max = 1;
    spsh_loader *ints = open_loader(dataset, &opt);
    opt.output = SPSH_OUTPUT_FLOAT32;
    spsh_loader *floats = open_loader(dataset, &opt);
    for (uint32_t n = 0; n < TALK_UTTERANCES; n++) {
        const spsh_batch *a = NULL;
        const spsh_batch *b = NULL;
        require(spsh_loader_next(ints, &a, &err));
        require(spsh_loader_next(floats, &b, &err));
        REQUIRE(a->utterance_count == 1 && b->utterance_count == 1);
        REQUIRE(a->value_count == b->value_count);
        for (uint64_t at = 0; at < a->value_count; at++) {
            const float apart = b->f32[at] * 32768.0F - (float)a->i16[at];
            REQUIRE(apart < 2.1F && apart > -2.1F);
        }
        spsh_loader_release(ints, a);
        spsh_loader_release(floats, b);
    }
    spsh_loader_close(ints);
    spsh_loader_close(floats);
    spsh_dataset_close(dataset);
}

/* ---- order ---- */

static void test_same_for_any_threads_slots_engines(void)
{
    spsh_dataset *dataset = open_dataset(mixed_path);
    static const uint32_t threads[] = {1, 2, 8};
    static const uint32_t slots[] = {2, 6, 17};
    uint64_t want = 0;
    for (uint32_t n = 0; n < 18; n++) {
        spsh_loader_options opt = small_options();
        opt.decode_threads = threads[n % 3];
        opt.slots = slots[n / 3 % 3];
        opt.engine = n % 2 == 0 ? SPSH_ENGINE_AUTO : SPSH_ENGINE_PREAD;
        opt.flags = n >= 9 ? SPSH_LOADER_DIRECT : SPSH_LOADER_CACHED;
        opt.flags |= n % 6 == 4 ? SPSH_LOADER_SQPOLL : 0;
        opt.memory_bytes = n % 4 == 1 ? 8 << 20 : 0;
        spsh_loader *loader = open_loader(dataset, &opt);
        const uint64_t found = digest_epochs(loader, 2);
        want = n == 0 ? found : want;
        CHECK_U64(found, want);
        spsh_loader_close(loader);
    }
    spsh_dataset_close(dataset);
}

/* ---- ranks ---- */

typedef struct rank_run {
    spsh_loader *loader;
    pthread_t thread;
    uint64_t calls;
    uint32_t served[TALK_UTTERANCES];
} rank_run;

static void *run_rank(void *opaque)
{
    rank_run *run = (rank_run *)opaque;
    spsh_error why = SPSH_ERROR_INIT;
    for (;;) {
        const spsh_batch *batch = NULL;
        spsh_status rc = spsh_loader_next(run->loader, &batch, &why);
        if (rc != SPSH_OK) {
            CHECK_I64(rc, SPSH_E_END);
            return NULL;
        }
        run->calls++;
        CHECK((batch->flags & SPSH_BATCH_EMPTY) != 0 ? batch->utterance_count == 0
                                                     : batch->utterance_count > 0);
        for (uint32_t n = 0; n < batch->utterance_count; n++)
            run->served[batch->utterances[n].item.position]++;
        spsh_loader_release(run->loader, batch);
    }
}

/* Run all ranks from the positions of their loaders to the end of the epoch. Add to served. */
static void run_ranks(rank_run *runs, uint32_t world, uint32_t *served)
{
    for (uint32_t rank = 0; rank < world; rank++)
        REQUIRE(pthread_create(&runs[rank].thread, NULL, run_rank, &runs[rank]) == 0);
    for (uint32_t rank = 0; rank < world; rank++) {
        REQUIRE(pthread_join(runs[rank].thread, NULL) == 0);
        CHECK_U64(runs[rank].calls, runs[0].calls);
        for (uint32_t n = 0; n < TALK_UTTERANCES; n++)
            served[n] += runs[rank].served[n];
    }
}

static void open_ranks(const spsh_dataset *dataset, rank_run *runs, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        spsh_loader_options opt = small_options();
        opt.rank = rank;
        opt.world_size = world;
        opt.decode_threads = 1;
        memset(&runs[rank], 0, sizeof(runs[rank]));
        runs[rank].loader = open_loader(dataset, &opt);
    }
}

static void close_ranks(rank_run *runs, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++)
        spsh_loader_close(runs[rank].loader);
}

static rank_run runs[8];

static void test_ranks_cover_an_epoch_once(void)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8};
    spsh_dataset *dataset = open_dataset(plain_path);
    for (uint32_t at = 0; at < 6; at++) {
        uint32_t served[TALK_UTTERANCES] = {0};
        uint64_t calls = 0;
        open_ranks(dataset, runs, worlds[at]);
        require(spsh_loader_call_count(runs[0].loader, 0, &calls, &err));
        run_ranks(runs, worlds[at], served);
        CHECK_U64(runs[0].calls, calls);
        for (uint32_t n = 0; n < TALK_UTTERANCES; n++)
            CHECK_U64(served[n], 1);
        close_ranks(runs, worlds[at]);
    }
    spsh_dataset_close(dataset);
}

/* ---- cursors ---- */

/* Call next on every rank of a world, `steps` times, and count how often each utterance is served.
 * After that, the cursor of any rank gives the position of the rest. */
static void take_steps(rank_run *from, uint32_t world, uint32_t steps, uint32_t *served)
{
    for (uint32_t rank = 0; rank < world; rank++)
        for (uint32_t step = 0; step < steps; step++) {
            const spsh_batch *batch = NULL;
            require(spsh_loader_next(from[rank].loader, &batch, &err));
            for (uint32_t n = 0; n < batch->utterance_count; n++)
                served[batch->utterances[n].item.position]++;
            spsh_loader_release(from[rank].loader, batch);
        }
}

static void test_restore_at_another_world_size(void)
{
    static const uint32_t worlds[][2] = {
        {1, 2},
        {2, 1},
        {3, 4},
        {4, 3},
        {2, 7},
        {8, 1}
    };
    spsh_dataset *dataset = open_dataset(plain_path);
    for (uint32_t at = 0; at < 6; at++)
        for (uint32_t steps = 0; steps < 4; steps += 1 + steps) {
            uint8_t cursors[8][SPSH_CURSOR_BYTES];
            uint32_t served[TALK_UTTERANCES] = {0};
            const uint32_t world = worlds[at][0];
            size_t size = 0;
            uint64_t calls = 0;
            open_ranks(dataset, runs, world);
            require(spsh_loader_call_count(runs[0].loader, 0, &calls, &err));
            take_steps(runs, world, steps < calls ? steps : (uint32_t)calls, served);
            for (uint32_t rank = 0; rank < world; rank++) {
                require(spsh_loader_cursor_save(runs[rank].loader, cursors[rank],
                                                sizeof(cursors[rank]), &size, &err));
                CHECK_U64(size, SPSH_CURSOR_BYTES);
                CHECK(memcmp(cursors[rank], cursors[0], size) == 0);
            }
            close_ranks(runs, world);
            open_ranks(dataset, runs, worlds[at][1]);
            for (uint32_t rank = 0; rank < worlds[at][1]; rank++)
                require(spsh_loader_cursor_restore(runs[rank].loader, cursors[rank % world],
                                                   SPSH_CURSOR_BYTES, &err));
            run_ranks(runs, worlds[at][1], served);
            for (uint32_t n = 0; n < TALK_UTTERANCES; n++)
                CHECK_U64(served[n], 1);
            close_ranks(runs, worlds[at][1]);
        }
    spsh_dataset_close(dataset);
}

/* After a restore, the loader serves the same remaining batches, however far it had decoded ahead.
 */
static void test_cursor_is_exact(void)
{
    spsh_dataset *dataset = open_dataset(mixed_path);
    spsh_loader_options opt = small_options();
    spsh_loader *loader = open_loader(dataset, &opt);
    spsh_loader *other = open_loader(dataset, &opt);
    uint8_t cursor[SPSH_CURSOR_BYTES];
    size_t size = 0;
    require(spsh_loader_cursor_save(loader, NULL, 0, &size, &err));
    CHECK_U64(size, SPSH_CURSOR_BYTES);
    size = 0;
    CHECK_I64(spsh_loader_cursor_save(loader, cursor, 79, &size, &err), SPSH_E_LIMIT);
    CHECK_U64(size, SPSH_CURSOR_BYTES);
    for (uint32_t calls = 0; calls < 30; calls++) {
        const spsh_batch *batch = NULL;
        uint64_t digests[2][3];
        uint64_t states[2];
        require(spsh_loader_cursor_save(loader, cursor, sizeof(cursor), &size, &err));
        require(spsh_loader_cursor_restore(other, cursor, size, &err));
        /* Make three calls from here on both loaders. Then restore one. */
        for (uint32_t which = 0; which < 2; which++) {
            spsh_loader *now = which == 0 ? loader : other;
            states[which] = 1;
            for (uint32_t n = 0; n < 3; n++) {
                spsh_status rc = spsh_loader_next(now, &batch, &err);
                CHECK(rc == SPSH_OK || rc == SPSH_E_END);
                states[which] =
                    rc == SPSH_OK ? digest_batch(states[which], batch) : mix(states[which], 77);
                digests[which][n] = states[which];
                if (rc == SPSH_OK)
                    spsh_loader_release(now, batch);
            }
        }
        CHECK(memcmp(digests[0], digests[1], sizeof(digests[0])) == 0);
        require(spsh_loader_cursor_restore(loader, cursor, size, &err));
        if (spsh_loader_next(loader, &batch, &err) == SPSH_OK)
            spsh_loader_release(loader, batch);
    }
    cursor[20] ^= 1;
    CHECK(spsh_loader_cursor_restore(loader, cursor, sizeof(cursor), &err) != SPSH_OK);
    CHECK(spsh_loader_cursor_restore(loader, cursor, 40, &err) != SPSH_OK);
    spsh_loader_close(loader);
    spsh_loader_close(other);
    spsh_dataset_close(dataset);
}

static void test_seek(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = small_options();
    spsh_loader *loader = open_loader(dataset, &opt);
    static uint64_t digests[STEPS_MAX];
    uint64_t calls = 0;
    require(spsh_loader_call_count(loader, 1, &calls, &err));
    REQUIRE(calls > 4 && calls < STEPS_MAX);
    require(spsh_loader_seek(loader, 1, 0, &err));
    for (uint64_t n = 0; n < calls; n++) {
        const spsh_batch *batch = NULL;
        require(spsh_loader_next(loader, &batch, &err));
        CHECK_U64(batch->epoch, 1);
        CHECK_U64(batch->step, n);
        digests[n] = digest_batch(1, batch);
        spsh_loader_release(loader, batch);
    }
    for (uint64_t n = 0; n < calls; n += 3) {
        const uint64_t step = calls - 1 - n;
        const spsh_batch *batch = NULL;
        require(spsh_loader_seek(loader, 1, step, &err));
        require(spsh_loader_next(loader, &batch, &err));
        CHECK_U64(batch->step, step);
        CHECK_U64(digest_batch(1, batch), digests[step]);
        spsh_loader_release(loader, batch);
    }
    CHECK_I64(spsh_loader_seek(loader, 1, calls, &err), SPSH_E_INVALID_ARG);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

/* Random sequences of calls, at times when batches are in flight. */
static void test_random_walk(void)
{
    spsh_dataset *dataset = open_dataset(mixed_path);
    spsh_loader_options opt = small_options();
    spsh_loader *loader = open_loader(dataset, &opt);
    static uint64_t digests[2][STEPS_MAX];
    uint64_t random = test_seed(20);
    uint64_t calls[2] = {0, 0};
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        const spsh_batch *batch = NULL;
        require(spsh_loader_call_count(loader, epoch, &calls[epoch], &err));
        REQUIRE(calls[epoch] > 0 && calls[epoch] < STEPS_MAX);
        for (uint64_t n = 0; n < calls[epoch]; n++) {
            require(spsh_loader_next(loader, &batch, &err));
            digests[epoch][n] = digest_batch(1, batch);
            spsh_loader_release(loader, batch);
        }
        CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_END);
    }
    const spsh_batch *lent[3] = {NULL};
    uint64_t epoch = 2;
    uint64_t step = 0;
    for (uint32_t n = 0; n < 600; n++) {
        const uint64_t what = test_random(&random) % 16;
        uint8_t cursor[SPSH_CURSOR_BYTES];
        size_t size = 0;
        if (what == 0 || epoch > 1) {
            epoch = test_random(&random) % 2;
            step = test_random(&random) % (calls[epoch] > 0 ? calls[epoch] : 1);
            require(spsh_loader_seek(loader, epoch, step, &err));
        } else if (what <= 2) { /* close while batches are lent, and resume in a new loader */
            require(spsh_loader_cursor_save(loader, cursor, sizeof(cursor), &size, &err));
            spsh_loader_close(loader);
            memset((void *)lent, 0, sizeof(lent));
            opt.decode_threads = 1 + (uint32_t)(test_random(&random) % 4);
            opt.slots = 4 + (uint32_t)(test_random(&random) % 4);
            opt.engine = what == 1 ? SPSH_ENGINE_PREAD : SPSH_ENGINE_AUTO;
            loader = open_loader(dataset, &opt);
            require(spsh_loader_cursor_restore(loader, cursor, size, &err));
        } else {
            const uint32_t at = (uint32_t)(test_random(&random) % 3);
            if (lent[at] != NULL)
                spsh_loader_release(loader, lent[at]);
            lent[at] = NULL;
            spsh_status rc = spsh_loader_next(loader, &lent[at], &err);
            CHECK_I64(rc, step == calls[epoch] ? SPSH_E_END : SPSH_OK);
            if (rc == SPSH_OK)
                CHECK_U64(digest_batch(1, lent[at]), digests[epoch][step]);
            epoch += rc == SPSH_E_END;
            step = rc == SPSH_E_END ? 0 : step + 1;
        }
    }
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

static void test_two_datasets(void)
{
    spsh_dataset *plain = open_dataset(plain_path);
    spsh_dataset *mixed = open_dataset(mixed_path);
    const spsh_dataset *datasets[2] = {plain, mixed};
    spsh_loader_options opt = small_options();
    spsh_loader *loader = NULL;
    const spsh_batch *batch = NULL;
    uint32_t counts[2] = {0, 0};
    kit_plan.sample_rate_hz = 16000;
    require(spsh_loader_open(datasets, 2, &opt, &loader, &err));
    while (spsh_loader_next(loader, &batch, &err) == SPSH_OK) {
        for (uint32_t n = 0; n < batch->utterance_count; n++) {
            const spsh_item *item = &batch->utterances[n].item;
            spsh_row row;
            require(spsh_dataset_rows(datasets[item->dataset], item->position, 1, &row, &err));
            CHECK_U64(batch->utterances[n].samples, row.samples * 16000 / row.sample_rate_hz);
            counts[item->dataset]++;
        }
        spsh_loader_release(loader, batch);
    }
    CHECK_U64(counts[0], TALK_UTTERANCES);
    CHECK_U64(counts[1], TALK_UTTERANCES);
    spsh_loader_close(loader);
    spsh_dataset_close(plain);
    spsh_dataset_close(mixed);
}

/* A channel that the recording lacks makes the record unreadable. */
static void test_channel_that_is_missing(void)
{
    spsh_dataset *dataset = open_dataset(mixed_path);
    spsh_loader_options opt = small_options();
    const spsh_batch *batch = NULL;
    uint64_t served = 0;
    opt.channel = 2;
    spsh_loader *loader = open_loader(dataset, &opt);
    spsh_status rc = SPSH_OK;
    while ((rc = spsh_loader_next(loader, &batch, &err)) == SPSH_OK)
        spsh_loader_release(loader, batch);
    CHECK_I64(rc, SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "channel 2") != NULL && strstr(err.message, mixed_path) != NULL);
    spsh_loader_close(loader);
    opt.on_error = SPSH_ON_ERROR_SKIP;
    opt.quarantine_max = TALK_UTTERANCES;
    loader = open_loader(dataset, &opt);
    while (spsh_loader_next(loader, &batch, &err) == SPSH_OK) {
        for (uint32_t n = 0; n < batch->utterance_count; n++) {
            spsh_row row;
            require(spsh_dataset_rows(dataset, batch->utterances[n].item.position, 1, &row, &err));
            CHECK_U64(row.channels, 2);
            served++;
        }
        spsh_loader_release(loader, batch);
    }
    CHECK_I64(err.status, SPSH_E_END);
    CHECK(served > 0);
    CHECK_U64(served + spsh_loader_bad_count(loader), TALK_UTTERANCES);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

/* ---- lending ---- */

static void test_all_lent(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = small_options();
    opt.slots = 3;
    spsh_loader *loader = open_loader(dataset, &opt);
    const spsh_batch *lent[3] = {NULL};
    uint64_t digests[3];
    const spsh_batch *batch = NULL;
    CHECK_U64(spsh_loader_slots_free(loader), 3);
    for (uint32_t n = 0; n < 3; n++) {
        require(spsh_loader_next(loader, &lent[n], &err));
        digests[n] = digest_batch(1, lent[n]);
    }
    CHECK_U64(spsh_loader_slots_free(loader), 0);
    CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_LIMIT);
    CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_LIMIT);
    spsh_loader_release(loader, lent[1]);
    spsh_loader_release(loader, lent[1]); /* no effect */
    CHECK_U64(spsh_loader_slots_free(loader), 1);
    require(spsh_loader_next(loader, &lent[1], &err));
    /* A seek drops the batches that are decoded ahead. It keeps the lent batches. */
    require(spsh_loader_seek(loader, 0, 0, &err));
    CHECK_U64(digest_batch(1, lent[0]), digests[0]);
    CHECK_U64(digest_batch(1, lent[2]), digests[2]);
    spsh_loader_release(loader, lent[2]);
    require(spsh_loader_next(loader, &batch, &err));
    CHECK_U64(digest_batch(1, batch), digests[0]);
    spsh_loader_close(loader); /* with three batches lent */
    spsh_dataset_close(dataset);
}

/* ---- memory ---- */

static void test_memory_is_bounded(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = small_options();
    spsh_loader *loader = NULL;
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    kit_plan.batch_seconds_max = 0;
    kit_plan.batch_utterances_max = 64;
    opt.memory_bytes = 1 << 20;
    CHECK_I64(spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err),
              SPSH_E_LIMIT);
    CHECK(strstr(err.message, "memory_bytes") != NULL);
    CHECK(strstr(err.message, "batch_seconds_max") != NULL);
    kit_plan.batch_seconds_max = 2.0;
    for (uint64_t memory = (uint64_t)3 << 19; memory < 32 << 20; memory *= 2) {
        opt.memory_bytes = memory;
        opt.slots = 16;
        loader = open_loader(dataset, &opt);
        CHECK(digest_epochs(loader, 1) != 0);
        spsh_loader_stats_get(loader, &stats);
        CHECK(stats.slots >= 2 && stats.slots <= 16);
        CHECK(stats.memory_bytes <= memory);
        spsh_loader_close(loader);
    }
    spsh_dataset_close(dataset);
}

/* Segments are longer than the limit of a batch. */
static void test_long_utterances(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = small_options();
    spsh_loader *loader = NULL;
    kit_plan.batch_seconds_max = 0.2;
    CHECK_I64(spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err),
              SPSH_E_LIMIT);
    kit_plan.long_utterances = SPSH_LONG_DROP;
    loader = open_loader(dataset, &opt);
    const spsh_plan_info *info = spsh_plan_info_get(spsh_loader_plan(loader));
    CHECK(info->too_long_count > 0);
    CHECK(digest_epochs(loader, 1) != 0);
    spsh_loader_close(loader);

    kit_plan.long_utterances = SPSH_LONG_SPLIT;
    loader = open_loader(dataset, &opt);
    uint64_t samples[TALK_UTTERANCES] = {0};
    const spsh_batch *batch = NULL;
    while (spsh_loader_next(loader, &batch, &err) == SPSH_OK) {
        for (uint32_t n = 0; n < batch->utterance_count; n++)
            samples[batch->utterances[n].item.position] += batch->utterances[n].samples;
        spsh_loader_release(loader, batch);
    }
    CHECK_I64(err.status, SPSH_E_END);
    for (uint32_t n = 0; n < TALK_UTTERANCES; n++) {
        spsh_row row;
        require(spsh_dataset_rows(dataset, n, 1, &row, &err));
        CHECK_U64(samples[n], row.samples);
    }
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

typedef struct arena_user {
    uint32_t taken, given;
    size_t size_bytes;
    uint8_t *memory;
} arena_user;

static void *arena_take(void *opaque, size_t size_bytes)
{
    arena_user *user = (arena_user *)opaque;
    user->taken++;
    user->size_bytes = size_bytes;
    user->memory = (uint8_t *)aligned_alloc(4096, size_bytes);
    return user->memory;
}

static void arena_give(void *opaque, void *memory, size_t size_bytes)
{
    arena_user *user = (arena_user *)opaque;
    user->given++;
    CHECK(memory == user->memory && size_bytes == user->size_bytes);
    free(memory);
}

static void *arena_refuse(void *opaque, size_t size_bytes)
{
    (void)opaque, (void)size_bytes;
    return NULL;
}

static void test_arena_is_the_callers(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    arena_user user = {.taken = 0};
    spsh_arena arena = {arena_take, arena_give, &user};
    spsh_loader_options opt = small_options();
    const spsh_batch *batch = NULL;
    opt.arena = &arena;
    spsh_loader *loader = open_loader(dataset, &opt);
    require(spsh_loader_next(loader, &batch, &err));
    const uint8_t *audio = (const uint8_t *)batch->i16;
    CHECK(audio >= user.memory && audio + 2 * batch->value_count <= user.memory + user.size_bytes);
    CHECK_U64((uintptr_t)audio % 4096, 0);
    CHECK(user.size_bytes <= opt.memory_bytes);
    spsh_loader_close(loader);
    CHECK_U64(user.taken, 1);
    CHECK_U64(user.given, 1);
    arena.alloc_fn = arena_refuse;
    CHECK_I64(spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err),
              SPSH_E_NO_MEMORY);
    spsh_dataset_close(dataset);
}

static void test_every_allocation_failure(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh_loader_options opt = small_options();
        spsh_loader *loader = NULL;
        kit_plan.allocator = &allocator;
        opt.memory_bytes = 16 << 20;
        opt.decode_threads = 2;
        opt.engine = fail_at % 2 == 0 ? SPSH_ENGINE_AUTO : SPSH_ENGINE_PREAD;
        REQUIRE(fail_at < 500);
        rc = spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err);
        /* The first call of next allocates memory, too. It reports a lack of memory. */
        const spsh_batch *batch = NULL;
        if (rc == SPSH_OK)
            rc = spsh_loader_next(loader, &batch, &err);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_LIMIT);
        spsh_loader_close(loader);
        CHECK_I64(fault.live_count, 0);
    }
    spsh_dataset_close(dataset);
}

typedef struct one_failure {
    fault_alloc below;
    _Atomic uint64_t fail_at; /* only this call fails */
    _Atomic uint64_t calls;
} one_failure;

static void *fail_once(void *opaque, size_t size_bytes)
{
    one_failure *once = (one_failure *)opaque;
    if (atomic_fetch_add(&once->calls, 1) == atomic_load(&once->fail_at))
        return NULL;
    return fault_alloc_alloc(&once->below, size_bytes);
}

static void free_below(void *opaque, void *memory)
{
    fault_alloc_free(&((one_failure *)opaque)->below, memory);
}

/* An allocation failure fails its batch. A later seek resumes as if the failure had not happened.
 */
static void test_goes_on_after_an_allocation_failure(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = small_options();
    uint64_t want = 0;
    uint64_t opening = 0;
    uint32_t failures = 0;
    for (uint32_t n = 0; n < 40; n++) {
        one_failure once = {{.fail_at = UINT64_MAX}, n == 0 ? UINT64_MAX : opening + n - 1, 0};
        const spsh_allocator allocator = {fail_once, free_below, &once};
        spsh_loader *loader = NULL;
        const spsh_batch *batch = NULL;
        kit_plan.allocator = &allocator;
        spsh_status rc =
            spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err);
        opening = n == 0 ? atomic_load(&once.calls) : opening;
        while (rc == SPSH_OK && (rc = spsh_loader_next(loader, &batch, &err)) == SPSH_OK)
            spsh_loader_release(loader, batch);
        CHECK(rc == SPSH_E_END || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_LIMIT);
        failures += rc != SPSH_E_END;
        if (loader != NULL) {
            /* On a busy machine the loader may not have reached that call before the epoch's end.
             */
            atomic_store(&once.fail_at, UINT64_MAX);
            require(spsh_loader_seek(loader, 0, 0, &err));
            const uint64_t found = digest_epochs(loader, 1);
            want = n == 0 ? found : want;
            CHECK_U64(found, want);
        }
        spsh_loader_close(loader);
        CHECK_I64(once.below.live_count, 0);
    }
    CHECK(failures > 0);
    spsh_dataset_close(dataset);
}

/* The loader reuses tables and chunks for the next batch, so its memory does not grow with the
 * number of batches served. */
static void test_memory_does_not_grow(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    fault_alloc fault = {.fail_at = UINT64_MAX};
    const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
    spsh_loader_options opt = small_options();
    kit_plan.allocator = &allocator;
    spsh_loader *loader = open_loader(dataset, &opt);
    CHECK(digest_epochs(loader, 3) != 0);
    const int64_t before = atomic_load(&fault.live_bytes_max);
    CHECK(digest_epochs(loader, 30) != 0);
    CHECK(atomic_load(&fault.live_bytes_max) < before + 16 * 16384 + before / 4);
    spsh_loader_close(loader);
    CHECK_I64(fault.live_count, 0);
    spsh_dataset_close(dataset);
}

/* ---- options and counters ---- */

static void test_options(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    for (uint32_t n = 0; n < 10; n++) {
        spsh_loader_options opt = small_options();
        spsh_loader *loader = NULL;
        switch (n) {
        case 0: opt.rank = 1; break;
        case 1: opt.rank = 2, opt.world_size = 2; break;
        case 2: opt.slots = 1; break;
        case 3: opt.channel = -2; break;
        case 4: opt.flags = 64; break;
        case 5: opt.flags = SPSH_LOADER_CACHED | SPSH_LOADER_DIRECT; break;
        case 6: opt.decode_threads = SPSH_LOADER_THREADS_MAX + 1; break;
        case 7: opt.struct_size = 4; break;
        case 8: kit_plan.batch_seconds_max = -1; break;
        default: opt.channel = 65; break;
        }
        CHECK_I64(spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err),
                  SPSH_E_INVALID_ARG);
        CHECK(loader == NULL);
    }
    const spsh_dataset *none = NULL;
    spsh_loader *loader = NULL;
    CHECK_I64(spsh_loader_open(&none, 1, NULL, &loader, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_loader_open(&none, 0, NULL, &loader, &err), SPSH_E_INVALID_ARG);
    spsh_loader_close(NULL);
    spsh_dataset_close(dataset);
}

/* The digest of an epoch under the options. */
static uint64_t digest_of(const spsh_dataset *dataset, const spsh_loader_options *opt)
{
    spsh_loader *loader = open_loader(dataset, opt);
    const uint64_t digest = digest_epochs(loader, 1);
    spsh_loader_close(loader);
    return digest;
}

/* The structures of an older caller are shorter, and other data follow them in memory. */
static void test_older_callers(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = small_options();
    const uint64_t digest = digest_of(dataset, &opt);
    opt.plan = NULL;
    const uint64_t plain = digest_of(dataset, &opt);
    opt = small_options();
    opt.struct_size = offsetof(spsh_loader_options, cuda);
    kit_plan.struct_size = offsetof(spsh_plan_options, flags);
    memset((uint8_t *)&opt + opt.struct_size, 0xa5, sizeof(opt) - opt.struct_size);
    memset((uint8_t *)&kit_plan + kit_plan.struct_size, 0xa5,
           sizeof(kit_plan) - kit_plan.struct_size);
    CHECK_U64(digest_of(dataset, &opt), digest);
    opt.struct_size = offsetof(spsh_loader_options, plan); /* without the member plan */
    CHECK_U64(digest_of(dataset, &opt), plain);
    spsh_dataset_close(dataset);
}

/* The structures of a newer caller are longer. Zeros at their end mean that no new member is used.
 */
static void test_newer_callers(void)
{
    struct {
        spsh_plan_options plan;
        uint64_t new_member;
    } newer = {SPSH_PLAN_OPTIONS_INIT, 0};
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = small_options();
    spsh_loader *loader = NULL;
    const uint64_t digest = digest_of(dataset, &opt);
    newer.plan = kit_plan;
    newer.plan.struct_size = sizeof(newer);
    opt.plan = &newer.plan;
    CHECK_U64(digest_of(dataset, &opt), digest);
    newer.new_member = 1;
    CHECK_I64(spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err),
              SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "this library knows") != NULL);
    spsh_dataset_close(dataset);
}

static void test_no_text(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = small_options();
    const spsh_batch *batch = NULL;
    opt.flags = SPSH_LOADER_NO_TEXT;
    spsh_loader *loader = open_loader(dataset, &opt);
    require(spsh_loader_next(loader, &batch, &err));
    for (uint32_t n = 0; n < batch->utterance_count; n++) {
        const spsh_batch_utterance *u = &batch->utterances[n];
        CHECK_U64(u->id.size_bytes + u->text.size_bytes + u->speaker.size_bytes, 0);
    }
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

static void test_stats(void)
{
    spsh_dataset *dataset = open_dataset(plain_path);
    spsh_loader_options opt = small_options();
    opt.engine = SPSH_ENGINE_PREAD;
    opt.flags = SPSH_LOADER_CACHED;
    spsh_loader *loader = open_loader(dataset, &opt);
    const spsh_plan_info *info = spsh_plan_info_get(spsh_loader_plan(loader));
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    char text[4096];
    uint64_t units = 0;
    CHECK(digest_epochs(loader, 1) != 0);
    spsh_loader_stats_get(loader, &stats);
    CHECK_STR(stats.engine, "pread");
    CHECK(!stats.direct);
    CHECK_U64(stats.microseconds, info->microseconds);
    CHECK(stats.padded_microseconds >= stats.microseconds);
    CHECK(stats.decode_cpu_ns > 0 && stats.io_cpu_ns > 0);
    CHECK(stats.gap_p50_ns <= stats.gap_p99_ns && stats.gap_p99_ns <= stats.gap_max_ns);
    for (uint32_t n = 0; n < info->domain_count; n++)
        units += spsh_loader_domain_units(loader, n);
    CHECK_U64(units, info->microseconds);
    const size_t length = spsh_loader_stats_json(loader, text, sizeof(text));
    CHECK(length < sizeof(text) && length == strlen(text));
    CHECK(text[0] == '{' && text[length - 1] == '}');
    CHECK(strstr(text, "\"engine\": \"pread\"") != NULL);
    CHECK(strstr(text, "\"name\": \"talk\"") != NULL);
    const char *seconds = strstr(text, "\"seconds\": ");
    REQUIRE(seconds != NULL);
    CHECK(fabs(test_number(seconds + 11, &seconds) - (double)info->microseconds / 1e6) < 1e-6);
    CHECK(strncmp(seconds, ", \"padding\": 0.", 15) == 0);
    CHECK_U64(spsh_loader_stats_json(loader, text, 10) > 10, 1);
    CHECK_U64(strlen(text), 9);
    CHECK_U64(spsh_loader_bad_count(loader), 0);
    spsh_bad_record bad;
    CHECK_I64(spsh_loader_bad_get(loader, 0, &bad, &err), SPSH_E_INVALID_ARG);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

TEST_MAIN(unit_loader)
{
    test_temp_dir(work, sizeof(work));
    (void)snprintf(plain_path, sizeof(plain_path), "%s/plain", work);
    (void)snprintf(mixed_path, sizeof(mixed_path), "%s/mixed", work);
    talk_dataset_make(plain_path, TALK_PLAIN);
    talk_dataset_make(mixed_path, TALK_MIXED);
    RUN(test_samples_are_the_readers);
    RUN(test_resampled);
    RUN(test_float32_is_padded);
    RUN(test_float32_mixed);
    RUN(test_same_for_any_threads_slots_engines);
    RUN(test_ranks_cover_an_epoch_once);
    RUN(test_restore_at_another_world_size);
    RUN(test_cursor_is_exact);
    RUN(test_seek);
    RUN(test_random_walk);
    RUN(test_two_datasets);
    RUN(test_channel_that_is_missing);
    RUN(test_all_lent);
    RUN(test_memory_is_bounded);
    RUN(test_long_utterances);
    RUN(test_arena_is_the_callers);
    RUN(test_every_allocation_failure);
    RUN(test_goes_on_after_an_allocation_failure);
    RUN(test_memory_does_not_grow);
    RUN(test_options);
    RUN(test_older_callers);
    RUN(test_newer_callers);
    RUN(test_no_text);
    RUN(test_stats);
    test_remove_tree(work);
    return TEST_RESULT();
}
