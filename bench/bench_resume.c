/* bench_resume.c: how long it takes until a plan of many utterances has its first batch, anywhere
 * in an epoch.
 *
 *     bench_resume DIRECTORY UTTERANCES DOMAINS [ROUNDS]
 *
 * Writes a dataset index of that size into DIRECTORY (93 bytes per utterance; checksums are real,
 * shards are not needed), or uses an existing one. Its domains are of sizes 1, 1/2, 1/3, ... and
 * mixed in storage. Then, with the index in the page cache:
 *
 *     open         scan of all utterances, or reading an earlier scan from a cache directory
 *     window       making one of 65,536 utterances, the next in a row
 *     skim         past windows that are not known, in utterances per second
 *     resume       from nothing: dataset, plan, sampler, seek to 1 %, 50 %, 99 %, one batch
 *     seek         in an open plan that knows the position
 *
 * With several domains, the plan knows a position in an epoch after it has passed it. The cache
 * directory keeps these positions.
 */
#include <inttypes.h>
#include <sys/stat.h>

#include "bench_kit.h"
#include "dataset/manifest.h"
#include "index_files.h"
#include "speechshard/sampler.h"

enum { ROUNDS_MAX = 100, PLACES = 3 };

static const uint8_t dataset_id[16] = "bench of resumes";
static const unsigned percents[PLACES] = {1, 50, 99};

/* ---- a dataset ---- */

typedef struct request {
    const char *directory;
    uint64_t count;
    uint32_t domains;
} request;

/* Domain d with a share of 1 / (d + 1). */
static uint32_t domain_of(const request *r, uint64_t p)
{
    static double ends[4096];
    if (r->domains == 1)
        return 0;
    if (!(ends[0] > 0)) {
        double sum = 0;
        for (uint32_t d = 0; d < r->domains; d++)
            ends[d] = sum += 1.0 / (d + 1);
        for (uint32_t d = 0; d < r->domains; d++)
            ends[d] /= sum;
    }
    double draw = (double)(mix64(p + 1) >> 11) * 0x1p-53;
    uint32_t low = 0;
    uint32_t high = r->domains - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (ends[middle] > draw)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint64_t cell(const void *user, uint32_t column, uint64_t p)
{
    const request *r = (const request *)user;
    switch (column) {
    case SPSH__INDEX_ID_HASH: /* ascends, so that by_id is the position */
    case SPSH__INDEX_BY_ID:
    case SPSH__INDEX_PAYLOAD_RECORD: return p;
    case SPSH__INDEX_RECORD_OFFSET: return 4096 + p * 131072 % (UINT64_C(1) << 40);
    case SPSH__INDEX_RECORD_BYTES: return 131072;
    case SPSH__INDEX_SAMPLES: return 16000 + mix64(p) % 300000;
    case SPSH__INDEX_SAMPLE_RATE_HZ: return 16000;
    case SPSH__INDEX_CHANNELS: return 1;
    case SPSH__INDEX_CODEC: return SPSH_CODEC_FLAC;
    case SPSH__INDEX_FLAGS: return SPSH_UTTERANCE_HAS_TEXT;
    case SPSH__INDEX_DUPLICATE_OF: return SPSH_NONE_U64;
    case SPSH__INDEX_TEXT_BYTES: return 120;
    case SPSH__INDEX_DOMAIN: return domain_of(r, p);
    default: return column > SPSH__INDEX_DOMAIN ? SPSH_NONE_U32 : 0;
    }
}

static void write_dataset(const request *r)
{
    index_files files = {.path = r->directory,
                         .dataset_id = dataset_id,
                         .utterance_count = r->count,
                         .shard_count = 1,
                         .shard_bytes = UINT64_C(1) << 40,
                         .cell_fn = cell,
                         .user = r};
    index_names *domains = &files.names[SPSH_NAME_DOMAIN];
    *domains = index_names_make("domain", 0, r->domains);
    if (domains->bytes == NULL)
        stop("memory");
    check(index_files_write(&files, &failure), "dataset");
    index_names_free(domains);
}

/* ---- measuring ---- */

typedef struct opened {
    spsh_dataset *dataset;
    spsh_plan *plan;
    spsh_sampler *sampler;
} opened;

static opened open_all(const request *r, const char *cache)
{
    opened o = {NULL, NULL, NULL};
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    opt.seed = 1;
    opt.cache_dir = cache;
    check(spsh_dataset_open(r->directory, NULL, &o.dataset, &failure), "dataset");
    const spsh_dataset *const list[] = {o.dataset};
    check(spsh_plan_open(list, 1, &opt, &o.plan, &failure), "plan");
    check(spsh_sampler_open(o.plan, 0, 8, &o.sampler, &failure), "sampler");
    return o;
}

static void close_all(opened *o)
{
    spsh_sampler_close(o->sampler);
    spsh_plan_close(o->plan);
    spsh_dataset_close(o->dataset);
}

static spsh_position place_at(const spsh_plan *plan, unsigned percent)
{
    uint32_t windows = spsh_plan_info_get(plan)->window_count;
    return (spsh_position){.window = (uint32_t)((uint64_t)windows * percent / 100)};
}

static void first_batch(const opened *o, unsigned percent)
{
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    const spsh_position place = place_at(o->plan, percent);
    check(spsh_sampler_seek(o->sampler, &place, &failure), "seek");
    check(spsh_sampler_next(o->sampler, &batch, &failure), "next");
}

static void measure_open(const request *r, size_t rounds)
{
    double times[ROUNDS_MAX];
    double makes[ROUNDS_MAX];
    double skim = 0;
    for (size_t i = 0; i < rounds; i++) {
        double begin = now_ms();
        opened o = open_all(r, NULL);
        times[i] = now_ms() - begin;
        const spsh_plan_info *info = spsh_plan_info_get(o.plan);
        spsh_position place = {.window = 0};
        check(spsh_sampler_seek(o.sampler, &place, &failure), "seek");
        makes[i] = 1e30;
        for (place.window = 1; place.window < info->window_count && place.window < 6;
             place.window++) {
            begin = now_ms();
            check(spsh_sampler_seek(o.sampler, &place, &failure), "seek");
            double took = now_ms() - begin;
            makes[i] = took < makes[i] ? took : makes[i];
        }
        if (i == 0 && info->window_count > 20 && r->domains > 1) {
            uint32_t windows = info->window_count < 200 ? info->window_count - 10 : 190;
            place.window += windows - 6;
            begin = now_ms();
            check(spsh_sampler_seek(o.sampler, &place, &failure), "seek");
            double took = now_ms() - begin - makes[0];
            skim = (double)(windows - 6) * (double)info->utterance_count /
                   (double)info->window_count / took / 1e3;
        }
        close_all(&o);
    }
    print_times("open_by_scan_ms", times, rounds, ",");
    print_times("window_ms", makes, rounds, ",");
    printf("  \"skim_million_utterances_a_second\": %.2f,\n", skim);
}

static void measure_resume(const request *r, const char *cache, size_t rounds)
{
    double times[PLACES][ROUNDS_MAX];
    double opens[ROUNDS_MAX];
    double seeks[ROUNDS_MAX];
    double begin = now_ms();
    opened o = open_all(r, NULL);
    first_batch(&o, 50);
    printf("  \"resume_at_50_percent_without_cache_ms\": %.1f,\n", now_ms() - begin);
    close_all(&o);
    o = open_all(r, cache);
    uint64_t batches = 0;
    begin = now_ms();
    check(spsh_plan_batch_count(o.plan, 0, &batches, &failure), "epoch");
    printf("  \"epoch_gone_through_ms\": %.1f,\n", now_ms() - begin);
    for (size_t i = 0; i < rounds; i++) {
        begin = now_ms();
        first_batch(&o, (unsigned)(10 + 7 * i % 80));
        seeks[i] = now_ms() - begin;
    }
    close_all(&o);
    for (size_t i = 0; i < rounds; i++)
        for (size_t place = 0; place < PLACES; place++) {
            begin = now_ms();
            o = open_all(r, cache);
            opens[i] = now_ms() - begin;
            first_batch(&o, percents[place]);
            times[place][i] = now_ms() - begin;
            close_all(&o);
        }
    print_times("seek_to_known_place_ms", seeks, rounds, ",");
    print_times("open_with_cache_ms", opens, rounds, ",");
    for (size_t place = 0; place < PLACES; place++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "resume_at_%u_percent_ms", percents[place]);
        print_times(name, times[place], rounds, place + 1 < PLACES ? "," : "");
    }
}

int main(int argc, char **argv)
{
    char path[4096];
    char cache[4096];
    struct stat info;
    if (argc < 4) {
        fprintf(stderr, "usage: bench_resume DIRECTORY UTTERANCES DOMAINS [ROUNDS]\n");
        return 2;
    }
    const request r = {argv[1], strtoull(argv[2], NULL, 10), (uint32_t)strtoul(argv[3], NULL, 10)};
    size_t rounds = argc > 4 ? strtoul(argv[4], NULL, 10) : 5;
    if (r.count == 0 || r.domains == 0 || r.domains > 4096 || rounds == 0 || rounds > ROUNDS_MAX ||
        snprintf(path, sizeof(path), "%s/manifest.spsh", argv[1]) >= 4096 ||
        snprintf(cache, sizeof(cache), "%s/cache", argv[1]) >= 4096)
        stop("arguments");
    if (stat(path, &info) != 0) {
        if (mkdir(argv[1], 0777) != 0 || mkdir(cache, 0777) != 0)
            stop(argv[1]);
        write_dataset(&r);
    }
    errno = 0;
    printf("{\n  \"utterances\": %" PRIu64 ",\n  \"domains\": %u,\n", r.count, r.domains);
    measure_open(&r, rounds);
    measure_resume(&r, cache, rounds);
    printf("}\n");
    return 0;
}
