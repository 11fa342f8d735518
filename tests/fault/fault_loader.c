/* fault_loader.c: the loader on a disk that fails, returns wrong bytes, stalls, or loses files. The
 * failure must be named, nothing else may change, and nothing may hang.
 *
 * Reads go through a table that knows the shard of each descriptor and disturbs reads that touch a
 * range of it, a given number of times.
 */
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "loader_kit.h"
#include "talk_dataset.h"

enum {
    FDS_MAX = 4096,
    TROUBLES_MAX = 20,
    BATCHES_MAX = 256,
    NOTES_MAX = 16384,
    CALLS_OF_FAILED = 50000,
};

static char work[512], path[600];
static uint32_t plan_flags;

/* ---- the disk ---- */

typedef struct trouble {
    uint32_t shard;
    uint64_t begin, end;
    int os_errno;           /* 0: a byte is changed instead */
    _Atomic uint64_t times; /* times left; UINT64_MAX: no limit */
    _Atomic uint64_t hits;
} trouble;

typedef struct disk {
    _Atomic uint32_t shard_of[FDS_MAX]; /* 1 + number; 0: another file */
    trouble troubles[TROUBLES_MAX];
    _Atomic uint32_t trouble_count;
    _Atomic size_t transfer_bytes_max;
    _Atomic uint32_t delay_ms;
    _Atomic bool is_stuck; /* reads of shards wait */
    _Atomic bool is_shut;  /* opening shards waits */
    pthread_mutex_t lock;
    pthread_cond_t changed;
} disk;

static disk the_disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void wait_while(disk *d, const _Atomic bool *what)
{
    (void)pthread_mutex_lock(&d->lock);
    while (atomic_load(what))
        (void)pthread_cond_wait(&d->changed, &d->lock);
    (void)pthread_mutex_unlock(&d->lock);
}

static int disk_open(void *user, const char *file, int flags, mode_t mode)
{
    disk *d = (disk *)user;
    if (strstr(file, "/shards/") != NULL)
        wait_while(d, &d->is_shut);
    int fd = spsh_io_default()->open_fn(spsh_io_default()->user, file, flags, mode);
    if (fd < 0)
        return fd;
    REQUIRE(fd < FDS_MAX);
    uint32_t number = 0;
    const char *shard = strstr(file, "/shards/");
    if (shard != NULL)
        number = 1 + (uint32_t)strtoul(shard + strlen("/shards/"), NULL, 10);
    atomic_store(&d->shard_of[fd], number);
    return fd;
}

/* Disturb a read of a shard; return its errno, or 0. */
static int suffer(disk *d, uint32_t shard, uint8_t *dst, uint64_t begin, uint64_t size_bytes)
{
    const uint32_t delay_ms = atomic_load(&d->delay_ms);
    if (delay_ms > 0) {
        const struct timespec delay = {0, (long)delay_ms * 1000000};
        (void)nanosleep(&delay, NULL);
    }
    wait_while(d, &d->is_stuck);
    for (uint32_t n = 0; n < d->trouble_count; n++) {
        trouble *t = &d->troubles[n];
        if (t->shard != shard || begin >= t->end || begin + size_bytes <= t->begin)
            continue;
        atomic_fetch_add(&t->hits, 1);
        uint64_t times = atomic_load(&t->times);
        while (times != 0 && times != UINT64_MAX &&
               !atomic_compare_exchange_weak(&t->times, &times, times - 1)) {
        }
        if (times == 0)
            continue;
        if (t->os_errno != 0)
            return t->os_errno;
        const uint64_t middle = (t->begin + t->end) / 2;
        if (middle >= begin && middle < begin + size_bytes)
            dst[middle - begin] ^= 0x10;
    }
    return 0;
}

static int64_t disk_pread(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes)
{
    disk *d = (disk *)user;
    const uint32_t shard = atomic_load(&d->shard_of[fd]);
    if (shard != 0 && d->transfer_bytes_max != 0 && size_bytes > d->transfer_bytes_max)
        size_bytes = d->transfer_bytes_max;
    const int64_t got =
        spsh_io_default()->pread_fn(spsh_io_default()->user, fd, dst, size_bytes, offset_bytes);
    if (shard == 0 || got <= 0)
        return got;
    const int os_errno = suffer(d, shard - 1, (uint8_t *)dst, offset_bytes, (uint64_t)got);
    return os_errno != 0 ? -os_errno : got;
}

static const spsh_io *disk_io(void)
{
    static spsh_io io;
    io = *spsh_io_default();
    io.user = &the_disk;
    io.open_fn = disk_open;
    io.pread_fn = disk_pread;
    return &io;
}

static void set_stuck(bool is_stuck, bool is_shut)
{
    (void)pthread_mutex_lock(&the_disk.lock);
    atomic_store(&the_disk.is_stuck, is_stuck);
    atomic_store(&the_disk.is_shut, is_shut);
    (void)pthread_cond_broadcast(&the_disk.changed);
    (void)pthread_mutex_unlock(&the_disk.lock);
}

static void heal(void)
{
    the_disk.trouble_count = 0;
    the_disk.transfer_bytes_max = 0;
    atomic_store(&the_disk.delay_ms, 0);
    set_stuck(false, false);
}

/* ---- loaders ---- */

typedef struct notes {
    pthread_mutex_t lock;
    uint32_t count;
    char text[NOTES_MAX];
} notes;

static notes heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void hear(void *user, spsh_log_level level, const char *text)
{
    notes *to = (notes *)user;
    (void)level;
    (void)pthread_mutex_lock(&to->lock);
    to->count++;
    (void)strncat(to->text, text, NOTES_MAX - 1 - strlen(to->text));
    (void)pthread_mutex_unlock(&to->lock);
}

/* Open the dataset on the simulated disk. */
static spsh_dataset *open_on_disk(void)
{
    spsh_dataset *dataset = NULL;
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    opt.io = disk_io();
    require(spsh_dataset_open(path, &opt, &dataset, &err));
    return dataset;
}

static spsh_loader_options fault_options(void)
{
    spsh_loader_options opt = small_options();
    kit_plan.seed = 3;
    kit_plan.flags = plan_flags;
    opt.engine = SPSH_ENGINE_PREAD;
    opt.flags = SPSH_LOADER_CACHED;
    opt.io = disk_io();
    opt.log_fn = hear;
    opt.log_user = &heard;
    heard.count = 0;
    heard.text[0] = '\0';
    return opt;
}

static uint64_t mix(uint64_t state, uint64_t value)
{
    state ^= value + UINT64_C(0x9e3779b97f4a7c15) + (state << 6) + (state >> 2);
    return state * UINT64_C(0xff51afd7ed558ccd);
}

/* Facts about one served epoch. */
typedef struct served {
    uint32_t batches;
    uint32_t counts[BATCHES_MAX];
    uint64_t order[BATCHES_MAX][TALK_UTTERANCES]; /* positions */
    bool substitute[BATCHES_MAX][TALK_UTTERANCES];
    uint64_t audio[TALK_UTTERANCES]; /* hash of the utterance at each position */
    uint64_t digest;
    spsh_status rc; /* status that ended the epoch */
} served;

static uint64_t digest_audio(const spsh_batch *batch, const spsh_batch_utterance *u)
{
    uint64_t state = u->samples;
    const float *rows = (const float *)batch->features;
    for (uint64_t n = 0; rows != NULL && n < u->frames * batch->feature_dim; n++) {
        uint32_t bits = 0;
        memcpy(&bits, &rows[u->offset + n], sizeof(bits));
        state = mix(state, bits);
    }
    if (rows != NULL)
        return state;
    for (uint64_t n = 0; n < u->samples * batch->channels; n++) {
        uint32_t bits = 0;
        if (batch->f32 != NULL)
            memcpy(&bits, &batch->f32[u->offset + n], sizeof(bits));
        else
            bits = (uint16_t)batch->i16[u->offset + n];
        state = mix(state, bits);
    }
    return state;
}

static void note_batch(served *s, const spsh_batch *batch)
{
    uint64_t end = 0;
    REQUIRE(s->batches < BATCHES_MAX);
    for (uint32_t n = 0; n < batch->utterance_count; n++) {
        const spsh_batch_utterance *u = &batch->utterances[n];
        s->order[s->batches][n] = u->item.position;
        s->substitute[s->batches][n] = u->substitute;
        s->audio[u->item.position] = digest_audio(batch, u);
        s->digest = mix(mix(s->digest, u->item.position), s->audio[u->item.position]);
        CHECK_U64(u->offset, end); /* no holes */
        if (batch->features != NULL)
            end += batch->padded_frames * batch->feature_dim;
        else
            end += (batch->f32 != NULL ? batch->padded_samples : u->samples) * batch->channels;
        CHECK(u->id.size_bytes > 0);
    }
    CHECK_U64(batch->value_count, end);
    s->counts[s->batches++] = batch->utterance_count;
    s->digest = mix(s->digest, batch->utterance_count);
}

static void serve(spsh_loader *loader, served *s)
{
    memset(s, 0, sizeof(*s));
    for (;;) {
        const spsh_batch *batch = NULL;
        s->rc = spsh_loader_next(loader, &batch, &err);
        if (s->rc != SPSH_OK)
            return;
        note_batch(s, batch);
        spsh_loader_release(loader, batch);
    }
}

static void serve_with(const spsh_loader_options *opt, served *s, spsh_loader_stats *stats)
{
    spsh_dataset *dataset = open_on_disk();
    spsh_loader *loader = open_loader(dataset, opt);
    serve(loader, s);
    if (stats != NULL)
        spsh_loader_stats_get(loader, stats);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

static served clean, found, again;

/* Features come with augmentation. */
static void set_output(spsh_loader_options *opt, spsh_output output)
{
    static spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    static spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    opt->output = output;
    if (output != SPSH_OUTPUT_FEATURES)
        return;
    require(spsh_feature_options_parse("kaldi-fbank,mel_count=8", &features, &err));
    require(spsh_augment_options_parse(
        "speeds=0.9:1:1.1,gain_probability=0.5,gain_db_min=-9,time_masks=1,time_mask_frames_max=5",
        &augment, &err));
    opt->features = &features;
    opt->augment = &augment;
}

static void serve_clean(spsh_output output)
{
    spsh_loader_options opt = fault_options();
    heal();
    set_output(&opt, output);
    serve_with(&opt, &clean, NULL);
    CHECK_I64(clean.rc, SPSH_E_END);
}

/* Disturb the next `times` reads of the record of an utterance. */
static void hurt(uint64_t position, int os_errno, uint64_t times)
{
    spsh_dataset *dataset = NULL;
    spsh_row row;
    require(spsh_dataset_open(path, NULL, &dataset, &err));
    require(spsh_dataset_rows(dataset, position, 1, &row, &err));
    REQUIRE(the_disk.trouble_count < TROUBLES_MAX);
    trouble *t = &the_disk.troubles[the_disk.trouble_count];
    t->shard = row.payload_shard;
    t->begin = row.record_offset_bytes;
    t->end = row.record_offset_bytes + row.record_bytes;
    t->os_errno = os_errno;
    atomic_store(&t->times, times);
    atomic_store(&t->hits, 0);
    the_disk.trouble_count++;
    spsh_dataset_close(dataset);
}

static uint64_t hits(void)
{
    uint64_t sum = 0;
    for (uint32_t n = 0; n < the_disk.trouble_count; n++)
        sum += atomic_load(&the_disk.troubles[n].hits);
    return sum;
}

/* The position of the n-th short utterance of a shard. */
static uint64_t position_of(uint32_t shard, uint32_t n)
{
    return (uint64_t)shard * (TALK_SHORT + TALK_SEGMENTS) + n;
}

/* ---- transient troubles ---- */

static void check_unharmed(const spsh_loader_options *opt, uint64_t hits_min)
{
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    serve_with(opt, &found, &stats);
    CHECK_I64(found.rc, SPSH_E_END);
    CHECK_U64(found.digest, clean.digest);
    CHECK(hits() >= hits_min);
    CHECK(stats.retries > 0 || hits_min > 1); /* the next epoch may take some of the errors */
    CHECK_U64(stats.bad_records, 0);
    CHECK(strstr(heard.text, "a second read succeeded") != NULL || heard.count == 0);
}

/* In order, so that nothing is read only because it lies between two others. */
static void test_what_a_second_read_heals(void)
{
    plan_flags = SPSH_PLAN_IN_ORDER;
    serve_clean(SPSH_OUTPUT_INT16);
    spsh_loader_options opt = fault_options();
    hurt(position_of(1, 5), 0, 1); /* a bit that flips during the transfer */
    check_unharmed(&opt, 1);
    heal();
    hurt(position_of(1, 5), EIO, 3); /* the engine tries three times */
    check_unharmed(&opt, 3);
    heal();
    hurt(position_of(1, TALK_SHORT), EIO, 1); /* in a long recording, which a decode thread reads */
    check_unharmed(&opt, 1);
    heal();
    opt.on_error = SPSH_ON_ERROR_SKIP;
    hurt(position_of(0, 1), 0, 1);
    hurt(position_of(2, 7), 0, 1);
    check_unharmed(&opt, 1);
    heal();
    plan_flags = 0;
}

static void test_short_reads(void)
{
    static const size_t sizes[] = {1, 511, 4096, 70000};
    serve_clean(SPSH_OUTPUT_INT16);
    for (uint32_t n = 0; n < 4; n++)
        for (uint32_t direct = 0; direct < 2; direct++) {
            spsh_loader_options opt = fault_options();
            opt.flags = direct != 0 ? SPSH_LOADER_DIRECT : SPSH_LOADER_CACHED;
            if (n == 0 && direct == 0)
                continue; /* one call per byte: too slow */
            the_disk.transfer_bytes_max = direct != 0 && n < 2 ? 4096 + sizes[n] : sizes[n];
            serve_with(&opt, &found, NULL);
            CHECK_I64(found.rc, SPSH_E_END);
            CHECK_U64(found.digest, clean.digest);
        }
    heal();
}

/* ---- lasting troubles ---- */

static void test_policy_fail(void)
{
    const uint64_t bad = position_of(1, 5);
    serve_clean(SPSH_OUTPUT_INT16);
    for (uint32_t kind = 0; kind < 2; kind++) {
        spsh_loader_options opt = fault_options();
        heal();
        hurt(bad, kind == 0 ? EIO : 0, UINT64_MAX);
        spsh_dataset *dataset = open_on_disk();
        spsh_loader *loader = open_loader(dataset, &opt);
        serve(loader, &found);
        CHECK_I64(found.rc, kind == 0 ? SPSH_E_IO : SPSH_E_CORRUPT);
        CHECK(strstr(err.message, path) != NULL);
        CHECK(strstr(err.message, "s1-u5") != NULL);
        CHECK(strstr(err.message, "000001-000.spsh") != NULL);
        CHECK(kind == 0 || strstr(err.message, "expected 0x") != NULL);
        /* Earlier batches are unchanged, and the failure persists. */
        for (uint32_t n = 0; n < found.batches; n++)
            CHECK(memcmp(found.order[n], clean.order[n], sizeof(found.order[n])) == 0);
        const spsh_batch *batch = NULL;
        CHECK_I64(spsh_loader_next(loader, &batch, &err), found.rc);
        CHECK_I64(spsh_loader_next(loader, &batch, &err), found.rc);
        /* A restored cursor continues from any position. */
        heal();
        require(spsh_loader_seek(loader, 0, 0, &err));
        serve(loader, &found);
        CHECK_U64(found.digest, clean.digest);
        spsh_loader_close(loader);
        spsh_dataset_close(dataset);
    }
    heal();
}

static bool is_one_of(const uint64_t *bad, uint32_t count, uint64_t position)
{
    for (uint32_t n = 0; n < count; n++)
        if (bad[n] == position)
            return true;
    return false;
}

/* Return whether a substitute is at position `at` of batch b. It must be another, undamaged
 * utterance. */
static bool check_substitute(const uint64_t *bad, uint32_t count, uint32_t b, uint32_t at)
{
    if (at >= found.counts[b] || !found.substitute[b][at])
        return false;
    const uint64_t position = found.order[b][at];
    CHECK(!is_one_of(bad, count, position));
    CHECK_U64(found.audio[position], clean.audio[position]);
    return true;
}

/* Except for the bad utterances, which are missing or substituted, the epoch must equal the clean
 * epoch. */
static void check_others(const uint64_t *bad, uint32_t count, bool substituted)
{
    CHECK_I64(found.rc, SPSH_E_END);
    CHECK_U64(found.batches, clean.batches);
    for (uint32_t b = 0; b < clean.batches; b++) {
        uint32_t at = 0;
        for (uint32_t n = 0; n < clean.counts[b]; n++) {
            const uint64_t position = clean.order[b][n];
            if (is_one_of(bad, count, position)) {
                at += substituted && check_substitute(bad, count, b, at);
                continue;
            }
            CHECK_U64(found.order[b][at], position);
            CHECK_U64(found.audio[position], clean.audio[position]);
            CHECK(!found.substitute[b][at]);
            at++;
        }
        CHECK_U64(at, found.counts[b]);
    }
}

static void run_bad(spsh_on_error policy, spsh_output output, int os_errno)
{
    uint64_t bad[3 + TALK_SEGMENTS] = {position_of(0, 0), position_of(1, 5), position_of(2, 23)};
    static const uint32_t threads[] = {1, 4};
    for (uint32_t n = 0; n < TALK_SEGMENTS; n++) /* they share a record */
        bad[3 + n] = position_of(1, TALK_SHORT + n);
    heal();
    for (uint32_t n = 0; n < 4; n++)
        hurt(bad[n], os_errno, UINT64_MAX);
    if (os_errno == 0) { /* one flipped bit is in one segment only, if in any */
        the_disk.troubles[3].os_errno = EIO;
    }
    for (uint32_t n = 0; n < 2; n++) {
        spsh_loader_options opt = fault_options();
        spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
        opt.decode_threads = threads[n];
        opt.slots = n == 0 ? 2 : 8;
        opt.on_error = policy;
        set_output(&opt, output);
        serve_with(&opt, n == 0 ? &found : &again, &stats);
        CHECK(stats.bad_records >= 3 + TALK_SEGMENTS);
        if (policy == SPSH_ON_ERROR_SKIP)
            CHECK_U64(stats.utterances, TALK_UTTERANCES - 3 - TALK_SEGMENTS);
        CHECK(strstr(heard.text, "skipped: ") != NULL);
    }
    CHECK_U64(found.digest, again.digest);
    check_others(bad, 3 + TALK_SEGMENTS, policy == SPSH_ON_ERROR_SUBSTITUTE);
    heal();
}

static void test_policy_skip(void)
{
    serve_clean(SPSH_OUTPUT_INT16);
    run_bad(SPSH_ON_ERROR_SKIP, SPSH_OUTPUT_INT16, EIO);
    run_bad(SPSH_ON_ERROR_SKIP, SPSH_OUTPUT_INT16, 0);
    serve_clean(SPSH_OUTPUT_FLOAT32);
    run_bad(SPSH_ON_ERROR_SKIP, SPSH_OUTPUT_FLOAT32, EIO);
    serve_clean(SPSH_OUTPUT_FEATURES);
    run_bad(SPSH_ON_ERROR_SKIP, SPSH_OUTPUT_FEATURES, EIO);
}

static void test_policy_substitute(void)
{
    serve_clean(SPSH_OUTPUT_INT16);
    run_bad(SPSH_ON_ERROR_SUBSTITUTE, SPSH_OUTPUT_INT16, EIO);
    run_bad(SPSH_ON_ERROR_SUBSTITUTE, SPSH_OUTPUT_INT16, 0);
    uint32_t substitutes = 0;
    for (uint32_t b = 0; b < found.batches; b++)
        for (uint32_t n = 0; n < found.counts[b]; n++)
            substitutes += found.substitute[b][n];
    CHECK(substitutes > 0);
    serve_clean(SPSH_OUTPUT_FLOAT32);
    run_bad(SPSH_ON_ERROR_SUBSTITUTE, SPSH_OUTPUT_FLOAT32, EIO);
    serve_clean(SPSH_OUTPUT_FEATURES);
    run_bad(SPSH_ON_ERROR_SUBSTITUTE, SPSH_OUTPUT_FEATURES, EIO);
    run_bad(SPSH_ON_ERROR_SUBSTITUTE, SPSH_OUTPUT_FEATURES, 0);
}

/* ---- noises and rooms ---- */

static void serve_noisy(spsh_loader_options *opt, served *s, spsh_loader_stats *stats)
{
    spsh_dataset *noises = open_on_disk(); /* the disk belongs to the noises */
    const spsh_dataset *const sounds = noises;
    spsh_dataset *dataset = NULL;
    opt->io = NULL;
    opt->noises = &sounds;
    opt->noise_count = 1;
    require(spsh_dataset_open(path, NULL, &dataset, &err));
    spsh_loader *loader = open_loader(dataset, opt);
    serve(loader, s);
    spsh_loader_stats_get(loader, stats);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
    spsh_dataset_close(noises);
}

/* An unreadable noise fails the utterances that need it, or is skipped. Nothing else changes. */
static void test_sounds_that_cannot_be_read(void)
{
    static const uint32_t threads[] = {1, 4};
    spsh_loader_options opt = fault_options();
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    uint32_t changed = 0;
    require(spsh_augment_options_parse("noise_probability=1,noise_snr_db_max=5", &augment, &err));
    opt.augment = &augment;
    heal();
    serve_noisy(&opt, &clean, &stats);
    CHECK_I64(clean.rc, SPSH_E_END);
    CHECK_U64(stats.bad_sounds, 0);
    hurt(position_of(1, 5), EIO, 1); /* read again */
    serve_noisy(&opt, &found, &stats);
    CHECK_I64(found.rc, SPSH_E_END);
    CHECK_U64(found.digest, clean.digest);
    heal();
    for (uint32_t n = 0; n < TROUBLES_MAX; n++)
        hurt(position_of(1, n), n % 2 == 0 ? EIO : 0, UINT64_MAX);
    serve_noisy(&opt, &found, &stats);
    CHECK(found.rc == SPSH_E_IO || found.rc == SPSH_E_CORRUPT);
    CHECK(strstr(err.message, "noise: ") != NULL);
    opt.on_error = SPSH_ON_ERROR_SKIP;
    for (uint32_t n = 0; n < 2; n++) {
        opt.decode_threads = threads[n];
        serve_noisy(&opt, n == 0 ? &found : &again, &stats);
        CHECK(stats.bad_sounds > 0);
        CHECK_U64(stats.bad_records, 0);
        CHECK_U64(stats.utterances, TALK_UTTERANCES);
        CHECK(strstr(heard.text, "impulse response is omitted: ") != NULL);
    }
    CHECK_I64(found.rc, SPSH_E_END);
    CHECK_U64(found.digest, again.digest);
    for (uint32_t n = 0; n < TALK_UTTERANCES; n++)
        changed += found.audio[n] != clean.audio[n];
    CHECK(changed > 0 && changed < TALK_UTTERANCES / 2);
    heal();
}

/* ---- the limit, and what a cursor carries ---- */

/* Logs one message per bad record up to the limit, and one more for the excess. */
static void check_told(uint32_t count, uint32_t limit)
{
    uint32_t told = 0;
    for (const char *at = heard.text; (at = strstr(at, "skipped: ")) != NULL; at++)
        told++;
    CHECK_U64(told, count > limit ? limit : count);
    const char *more = strstr(heard.text, "further ones are not logged");
    CHECK((more != NULL) == (count > limit));
    CHECK(more == NULL || strstr(more + 1, "further ones are not logged") == NULL);
}

static void test_quarantine_limit(void)
{
    static const uint32_t counts[] = {1, 16, 17, 20};
    for (uint32_t at = 0; at < 4; at++)
        for (uint32_t run = 0; run < 2; run++) { /* run 0: an explicit limit; run 1: the default of
                                                  * 16 */
            const uint32_t limit = run == 0 ? counts[at] - (counts[at] > 17 ? 12 : 1) : 0;
            const uint32_t effective = run == 0 && limit > 0 ? limit : 16;
            spsh_loader_options opt = fault_options();
            opt.on_error = SPSH_ON_ERROR_SKIP;
            opt.quarantine_max = limit;
            opt.decode_threads = 4;
            heal();
            for (uint32_t n = 0; n < counts[at]; n++)
                hurt(position_of(n % 3, n), EIO, UINT64_MAX);
            spsh_dataset *dataset = open_on_disk();
            spsh_loader *loader = open_loader(dataset, &opt);
            serve(loader, &found);
            const bool too_many = counts[at] > effective;
            CHECK_I64(found.rc, too_many ? SPSH_E_LIMIT : SPSH_E_END);
            CHECK_U64(spsh_loader_bad_count(loader), too_many ? effective : counts[at]);
            const spsh_batch *batch = NULL;
            if (too_many) {
                CHECK(strstr(err.message, "quarantine_max") != NULL);
                CHECK(strstr(err.message, path) != NULL);
                CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_LIMIT);
            }
            spsh_loader_close(loader);
            spsh_dataset_close(dataset);
            check_told(counts[at], effective);
        }
    heal();
}

static void test_cursor_carries_quarantine(void)
{
    spsh_loader_options opt = fault_options();
    uint8_t cursor[SPSH_CURSOR_BYTES + 64];
    size_t size = 0;
    spsh_bad_record bad;
    opt.on_error = SPSH_ON_ERROR_SKIP;
    kit_plan.batch_utterances_max = 4;
    heal();
    hurt(position_of(0, 3), EIO, UINT64_MAX);
    hurt(position_of(2, 3), EIO, UINT64_MAX);
    spsh_dataset *dataset = open_on_disk();
    spsh_loader *loader = open_loader(dataset, &opt);
    serve(loader, &clean);
    CHECK_I64(clean.rc, SPSH_E_END);
    require(spsh_loader_cursor_save(loader, cursor, sizeof(cursor), &size, &err));
    CHECK_U64(size, SPSH_CURSOR_BYTES + 2 * 12 + 8);
    require(spsh_loader_bad_get(loader, 0, &bad, &err));
    CHECK_I64(bad.error.status, SPSH_E_IO);
    CHECK(strstr(bad.error.message, "u3") != NULL);
    CHECK_U64(bad.epoch, 0);
    serve(loader, &found); /* the next epoch: nothing is read twice */
    spsh_loader_close(loader);

    const uint64_t hits_before = hits();
    opt.engine = SPSH_ENGINE_PREAD;
    loader = open_loader(dataset, &opt);
    require(spsh_loader_cursor_restore(loader, cursor, size, &err));
    const uint64_t hits_restored = hits(); /* reads ahead of the restore do not count */
    serve(loader, &again);
    CHECK_I64(again.rc, SPSH_E_END);
    CHECK_U64(again.digest, found.digest);
    CHECK_U64(hits(), hits_restored);
    CHECK(hits_restored >= hits_before);
    CHECK_U64(spsh_loader_bad_count(loader), 2);
    size_t same = 0;
    uint8_t other[sizeof(cursor)];
    require(spsh_loader_cursor_restore(loader, cursor, size, &err));
    require(spsh_loader_cursor_save(loader, other, sizeof(other), &same, &err));
    CHECK(same == size && memcmp(cursor, other, size) == 0);

    /* Damage to any byte of the cursor is detected, and the loader stays unchanged. */
    for (size_t at = 0; at < size; at++) {
        cursor[at] ^= 4;
        CHECK(spsh_loader_cursor_restore(loader, cursor, size, &err) != SPSH_OK);
        cursor[at] ^= 4;
        if (at > 0)
            CHECK(spsh_loader_cursor_restore(loader, cursor, at, &err) != SPSH_OK);
    }
    CHECK_I64(spsh_loader_cursor_restore(loader, cursor, size + 1, &err), SPSH_E_CORRUPT);
    CHECK_U64(spsh_loader_bad_count(loader), 2);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
    heal();
}

/* ---- shards ---- */

static void copy_file(const char *from, const char *to)
{
    uint8_t *data = NULL;
    size_t size = 0;
    require(spsh_io_read_file(spsh_io_default(), from, (size_t)1 << 30, spsh_allocator_default(),
                              &data, &size, &err));
    FILE *file = fopen(to, "wb");
    REQUIRE(file != NULL && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    free(data);
}

/* Check the utterances of shard 1, whose file was removed, replaced, or cut. */
static void check_shard(spsh_dataset *dataset, spsh_status want)
{
    spsh_loader_options opt = fault_options();
    uint64_t bad[TALK_SHORT + TALK_SEGMENTS];
    for (uint32_t n = 0; n < TALK_SHORT + TALK_SEGMENTS; n++)
        bad[n] = position_of(1, n);
    spsh_loader *loader = open_loader(dataset, &opt);
    serve(loader, &found);
    CHECK_I64(found.rc, want);
    CHECK(strstr(err.message, "000001-000.spsh") != NULL);
    CHECK(strstr(err.message, path) != NULL);
    spsh_loader_close(loader);
    opt.on_error = SPSH_ON_ERROR_SKIP;
    opt.quarantine_max = TALK_UTTERANCES;
    loader = open_loader(dataset, &opt);
    serve(loader, &found);
    check_others(bad, TALK_SHORT + TALK_SEGMENTS, false);
    CHECK_U64(spsh_loader_bad_count(loader), TALK_SHORT + TALK_SEGMENTS);
    spsh_loader_close(loader);
}

static void test_shard_removed_swapped_cut(void)
{
    char shard[700], other[700], kept[700];
    talk_dataset_shard(path, 1, shard, sizeof(shard));
    talk_dataset_shard(path, 2, other, sizeof(other));
    (void)snprintf(kept, sizeof(kept), "%s/kept", work);
    serve_clean(SPSH_OUTPUT_INT16);

    REQUIRE(rename(shard, kept) == 0);
    spsh_dataset *dataset = open_on_disk();
    check_shard(dataset, SPSH_E_NOT_FOUND);
    spsh_dataset_close(dataset);

    copy_file(other, shard);
    dataset = open_on_disk();
    check_shard(dataset, SPSH_E_MISMATCH);
    spsh_dataset_close(dataset);

    REQUIRE(unlink(shard) == 0);
    copy_file(kept, shard);
    REQUIRE(truncate(shard, 4096 * 3 + 100) == 0);
    dataset = open_on_disk();
    spsh_loader_options opt = fault_options();
    spsh_loader *loader = open_loader(dataset, &opt);
    serve(loader, &found);
    CHECK(found.rc == SPSH_E_TRUNCATED || found.rc == SPSH_E_MISMATCH ||
          found.rc == SPSH_E_NOT_SPEECHSHARD);
    CHECK(strstr(err.message, "000001-000.spsh") != NULL);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);

    /* In the middle of an epoch: open files keep their contents. */
    REQUIRE(unlink(shard) == 0 && rename(kept, shard) == 0);
    dataset = open_on_disk();
    kit_plan.batch_utterances_max = 4;
    opt.slots = 2;
    heal();
    loader = open_loader(dataset, &opt);
    serve(loader, &clean);
    REQUIRE(unlink(shard) == 0);
    require(spsh_loader_seek(loader, 0, 0, &err));
    serve(loader, &found);
    CHECK_U64(found.digest, clean.digest);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
    test_remove_tree(path);
    talk_dataset_make(path, TALK_PLAIN);
}

/* ---- time ---- */

static void test_slow_reads_are_named(void)
{
    spsh_loader_options opt = fault_options();
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    opt.slow_read_ms = 1;
    kit_plan.batch_utterances_max = 16;
    heal();
    atomic_store(&the_disk.delay_ms, 4);
    serve_with(&opt, &found, &stats);
    CHECK_I64(found.rc, SPSH_E_END);
    CHECK(stats.slow_reads > 0);
    CHECK(strstr(heard.text, ".spsh") != NULL && strstr(heard.text, path) != NULL);
    heal();
}

/* The disk answers again, and all batches become ready meanwhile: that ends no failure. */
static void check_still_fails(spsh_loader *loader)
{
    const spsh_error first = err;
    spsh_status rc = SPSH_E_IO;
    for (uint32_t calls = 0; calls < CALLS_OF_FAILED && rc == SPSH_E_IO; calls++) {
        const spsh_batch *batch = NULL;
        (void)sched_yield();
        rc = spsh_loader_next_for(loader, 1, &batch, &err);
    }
    CHECK_I64(rc, SPSH_E_IO);
    CHECK(strcmp(err.message, first.message) == 0);
}

/* Deadlines of the thread that reads and, for segments of long recordings, of the decode threads.
 */
static void check_deadline(double seconds_min, bool is_shut)
{
    spsh_loader_options opt = fault_options();
    const spsh_batch *batch = NULL;
    spsh_dataset *dataset = open_on_disk();
    opt.read_deadline_ms = 1000; /* applies to good reads as well, which a busy machine delays */
    kit_plan.utterance_seconds_min = seconds_min;
    heal();
    set_stuck(!is_shut, is_shut);
    spsh_loader *loader = open_loader(dataset, &opt);
    CHECK_I64(spsh_loader_next_for(loader, 0, &batch, &err), SPSH_E_TIMEOUT);
    CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_IO);
    CHECK(strstr(err.message, "read_deadline_ms") != NULL);
    CHECK(strstr(err.message, ".spsh") != NULL && strstr(err.message, path) != NULL);
    CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_IO);
    set_stuck(false, false);
    check_still_fails(loader);
    require(spsh_loader_seek(loader, 0, 0, &err));
    serve(loader, &found);
    CHECK_I64(found.rc, SPSH_E_END);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

static void test_deadline(void)
{
    check_deadline(0, false);
    check_deadline(0.25, false);
    check_deadline(0, true);
    check_deadline(0.25, true);
}

typedef struct waiting {
    spsh_loader *loader;
    spsh_status rc;
    _Atomic bool has_returned, has_closed;
} waiting;

static void *wait_in_next(void *opaque)
{
    waiting *w = (waiting *)opaque;
    const spsh_batch *batch = NULL;
    spsh_error why = SPSH_ERROR_INIT;
    w->rc = spsh_loader_next(w->loader, &batch, &why);
    atomic_store(&w->has_returned, true);
    return NULL;
}

static void *close_it(void *opaque)
{
    waiting *w = (waiting *)opaque;
    spsh_loader_close(w->loader);
    atomic_store(&w->has_closed, true);
    return NULL;
}

static void test_close_while_next_waits(void)
{
    spsh_loader_options opt = fault_options();
    spsh_dataset *dataset = open_on_disk();
    const spsh_batch *batch = NULL;
    waiting w = {.rc = SPSH_OK};
    pthread_t threads[2];
    heal();
    set_stuck(true, false);
    w.loader = open_loader(dataset, &opt);
    CHECK_I64(spsh_loader_next_for(w.loader, 1, &batch, &err), SPSH_E_TIMEOUT);
    REQUIRE(pthread_create(&threads[0], NULL, wait_in_next, &w) == 0);
    const struct timespec moment = {0, 20000000}; /* let the thread wait in next; if it does not
                                                   * wait yet, that case is tested */
    (void)nanosleep(&moment, NULL);
    REQUIRE(pthread_create(&threads[1], NULL, close_it, &w) == 0);
    /* next returns although the disk is stuck; close then waits for the disk. */
    REQUIRE(pthread_join(threads[0], NULL) == 0);
    CHECK_I64(w.rc, SPSH_E_CANCELED);
    CHECK(!atomic_load(&w.has_closed));
    set_stuck(false, false);
    REQUIRE(pthread_join(threads[1], NULL) == 0);
    spsh_dataset_close(dataset);
}

/* ---- kernels that refuse ---- */

static int run_in_child(void (*prepare)(void), spsh_engine engine, spsh_status want)
{
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        prepare();
        spsh_loader_options opt = fault_options();
        spsh_loader *loader = NULL;
        spsh_dataset *dataset = open_on_disk();
        opt.engine = engine;
        spsh_status rc =
            spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err);
        bool good = rc == want;
        if (rc == SPSH_OK) {
            serve(loader, &found);
            good = good && found.digest == clean.digest && heard.count == 1;
        }
        _exit(good ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

static void refuse_uring(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Limit locked memory to 64 KiB, without the privilege to exceed the limit. */
static void lock_little(void)
{
    const struct rlimit limit = {65536, 65536};
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {
        {0, 0, 0}
    };
    REQUIRE(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    (void)syscall(SYS_capget, &head, data);
    data[0].effective &= ~(UINT32_C(1) << CAP_IPC_LOCK);
    (void)syscall(SYS_capset, &head, data);
}

static bool has_uring(void)
{
    spsh_loader_options opt = fault_options();
    spsh_dataset *dataset = open_on_disk();
    spsh_loader *loader = NULL;
    opt.engine = SPSH_ENGINE_URING;
    spsh_status rc =
        spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &opt, &loader, &err);
    CHECK(rc == SPSH_OK || rc == SPSH_E_UNSUPPORTED);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
    return rc == SPSH_OK;
}

static void test_refused_uring_is_said_once(void)
{
    heal();
    serve_clean(SPSH_OUTPUT_INT16);
    CHECK_I64(run_in_child(refuse_uring, SPSH_ENGINE_AUTO, SPSH_OK), 0);
    CHECK_I64(run_in_child(refuse_uring, SPSH_ENGINE_URING, SPSH_E_UNSUPPORTED), 0);
    if (has_uring())
        CHECK_I64(run_in_child(lock_little, SPSH_ENGINE_URING, SPSH_OK), 0);
}

TEST_MAIN(fault_loader)
{
    test_temp_dir(work, sizeof(work));
    (void)snprintf(path, sizeof(path), "%s/talk", work);
    talk_dataset_make(path, TALK_PLAIN);
    RUN(test_what_a_second_read_heals);
    RUN(test_short_reads);
    RUN(test_policy_fail);
    RUN(test_policy_skip);
    RUN(test_policy_substitute);
    RUN(test_sounds_that_cannot_be_read);
    RUN(test_quarantine_limit);
    RUN(test_cursor_carries_quarantine);
    RUN(test_shard_removed_swapped_cut);
    RUN(test_slow_reads_are_named);
    RUN(test_deadline);
    RUN(test_close_while_next_waits);
    RUN(test_refused_uring_is_said_once);
    test_remove_tree(work);
    return TEST_RESULT();
}
