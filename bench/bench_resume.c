/* bench_resume.c: how long it takes until a plan of many utterances has its first batch, anywhere
 * in an epoch.
 *
 *     bench_resume DIRECTORY UTTERANCES DOMAINS [ROUNDS]
 *
 * Writes a dataset index of that size into DIRECTORY (93 bytes an utterance; checksums are real,
 * shards are not needed), or takes the one that is there; its domains are of sizes 1, 1/2, 1/3, ...
 * and mixed in storage. Then, with the index in the page cache:
 *
 *     open         scan of all utterances, or what a cache directory has from before
 *     window       making one of 65,536 utterances, the next in a row
 *     skim         past windows that are not known, in utterances a second
 *     resume       from nothing: dataset, plan, sampler, seek to 1 %, 50 %, 99 %, one batch
 *     seek         in an open plan that knows the place
 *
 * With several domains a place in an epoch is known when it has been gone through; the cache
 * directory keeps that.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "manifest.h"
#include "speechshard/sampler.h"

enum { BATCH = 8192, ROUNDS_MAX = 100, PLACES = 3 };

static const uint8_t dataset_id[16] = "bench of resumes";
static const unsigned percents[PLACES] = {1, 50, 99};
static spsh_error err = SPSH_ERROR_INIT;

static void stop(const char *what)
{
    fprintf(stderr, "bench_resume: %s: %s %s\n", what, err.message,
            errno != 0 ? strerror(errno) : "");
    exit(1);
}

static void check(spsh_status rc, const char *what)
{
    if (rc != SPSH_OK)
        stop(what);
}

static double now_ms(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static uint64_t mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

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

static uint64_t cell(const request *r, uint32_t column, uint64_t p)
{
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

static void write_rows(const request *r, spsh__section_writer *sections)
{
    static uint8_t bytes[BATCH * 8];
    for (uint64_t first = 0; first < r->count; first += BATCH) {
        uint64_t rows = r->count - first < BATCH ? r->count - first : BATCH;
        for (uint32_t c = SPSH__INDEX_COLUMN_FIRST; c <= SPSH__INDEX_COLUMN_LAST; c++) {
            uint32_t width = spsh__index_element_bytes(c);
            for (uint64_t i = 0; i < rows; i++) {
                uint64_t value = cell(r, c, first + i);
                memcpy(bytes + i * width, &value, width); /* little-endian machines only */
            }
            check(spsh__section_append(sections, c, bytes, rows, &err), "index");
        }
    }
}

typedef struct names {
    uint64_t *ends;
    char *bytes;
} names;

static names make_names(uint32_t count)
{
    names n = {(uint64_t *)calloc(count, sizeof(uint64_t)), (char *)calloc(count, 16)};
    uint64_t used = 0;
    if (n.ends == NULL || n.bytes == NULL)
        stop("memory");
    for (uint32_t d = 0; d < count; d++) {
        used += (uint64_t)snprintf(n.bytes + used, 16, "domain%u", d);
        n.ends[d] = used;
    }
    return n;
}

static void write_index(const request *r, const names *n, spsh__footer *ret_footer)
{
    spsh__section
        list[SPSH__INDEX_COLUMN_LAST - SPSH__INDEX_COLUMN_FIRST + 1 + 2 * SPSH_NAME_KINDS];
    uint32_t used = 0;
    spsh__header header = {.kind = SPSH__KIND_INDEX, .ordinal = 1};
    uint8_t page[SPSH__PAGE_BYTES];
    spsh_file_writer *file = NULL;
    spsh__section_writer *sections = NULL;
    for (uint32_t c = SPSH__INDEX_COLUMN_FIRST; c <= SPSH__INDEX_COLUMN_LAST; c++)
        list[used++] = (spsh__section){c, spsh__index_element_bytes(c), r->count};
    for (uint32_t i = 0; i < 2 * SPSH_NAME_KINDS; i++)
        list[used++] = (spsh__section){SPSH__INDEX_NAME_ENDS + i, i % 2 == 0 ? 8 : 1,
                                       i == 0   ? r->domains
                                       : i == 1 ? n->ends[r->domains - 1]
                                                : 0};
    memcpy(header.dataset_id, dataset_id, 16);
    spsh__generation_file_id(dataset_id, 1, "index", header.file_id);
    spsh__header_encode(&header, page);
    check(spsh_file_writer_open(spsh_io_default(), r->directory, "index-00000001.spsh", 0, NULL,
                                &file, &err),
          "index");
    check(spsh_file_writer_write(file, page, sizeof(page), &err), "index");
    check(spsh__section_writer_open(file, &header, list, used, NULL, &sections, &err), "index");
    write_rows(r, sections);
    check(spsh__section_append(sections, SPSH__INDEX_NAME_ENDS, n->ends, r->domains, &err),
          "names");
    check(spsh__section_append(sections, SPSH__INDEX_NAME_ENDS + 1, n->bytes,
                               n->ends[r->domains - 1], &err),
          "names");
    check(spsh__section_writer_finish(sections, NULL, 0, 0, r->count, ret_footer, &err), "index");
    check(spsh_file_writer_publish(file, SPSH_PUBLISH_NEW, &err), "index");
    spsh__section_writer_free(sections);
    spsh_file_writer_free(file);
}

static void write_manifest(const request *r, const names *n, const spsh__footer *index)
{
    static const uint64_t zeros[2];
    static const uint64_t bytes = UINT64_C(1) << 40;
    const uint64_t begins[2] = {0, r->count};
    const uint64_t totals[SPSH__TOTALS] = {r->count, r->count, 0, 0, 0, 0, 0, r->count};
    const uint64_t generation = 1;
    const spsh__column columns[] = {
        {SPSH__MANIFEST_SHARD_FILE_ID,        16, 1,                       zeros             },
        {SPSH__MANIFEST_SHARD_ROOT_HASH,      16, 1,                       zeros             },
        {SPSH__MANIFEST_SHARD_BYTES,          8,  1,                       &bytes            },
        {SPSH__MANIFEST_SHARD_UNIT,           4,  1,                       zeros             },
        {SPSH__MANIFEST_SHARD_NUMBER,         4,  1,                       zeros             },
        {SPSH__MANIFEST_UTTERANCE_BEGIN,      8,  2,                       begins            },
        {SPSH__MANIFEST_RECORD_BEGIN,         8,  2,                       begins            },
        {SPSH__MANIFEST_GROUP_DOMAIN,         4,  0,                       NULL              },
        {SPSH__MANIFEST_GROUP_SPLIT,          4,  0,                       NULL              },
        {SPSH__MANIFEST_GROUP_SAMPLE_RATE_HZ, 4,  0,                       NULL              },
        {SPSH__MANIFEST_GROUP_UTTERANCES,     8,  0,                       NULL              },
        {SPSH__MANIFEST_GROUP_SAMPLES,        8,  0,                       NULL              },
        {SPSH__MANIFEST_TOTALS,               8,  SPSH__TOTALS,            totals            },
        {SPSH__MANIFEST_INDEX_FILE_ID,        16, 1,                       index->file_id    },
        {SPSH__MANIFEST_INDEX_ROOT_HASH,      16, 1,                       index->root_hash  },
        {SPSH__MANIFEST_INDEX_BYTES,          8,  1,                       &index->file_bytes},
        {SPSH__MANIFEST_INDEX_GENERATION,     8,  1,                       &generation       },
        {SPSH__MANIFEST_OVERLAY_FILE_ID,      16, 0,                       NULL              },
        {SPSH__MANIFEST_OVERLAY_ROOT_HASH,    16, 0,                       NULL              },
        {SPSH__MANIFEST_OVERLAY_BYTES,        8,  0,                       NULL              },
        {SPSH__MANIFEST_OVERLAY_NAME_ENDS,    8,  0,                       NULL              },
        {SPSH__MANIFEST_OVERLAY_NAMES,        1,  0,                       NULL              },
        {SPSH__MANIFEST_OPTIONS,              1,  0,                       NULL              },
        {SPSH__MANIFEST_DOMAIN_ENDS,          8,  r->domains,              n->ends           },
        {SPSH__MANIFEST_DOMAINS,              1,  n->ends[r->domains - 1], n->bytes          },
        {SPSH__MANIFEST_SPLIT_ENDS,           8,  0,                       NULL              },
        {SPSH__MANIFEST_SPLITS,               1,  0,                       NULL              },
    };
    spsh__columns_file file = {
        .directory = r->directory,
        .name = "manifest.spsh",
        .header = {.kind = SPSH__KIND_MANIFEST, .ordinal = 1},
        .columns = columns,
        .column_count = sizeof(columns) / sizeof(columns[0]),
        .utterance_count = r->count,
        .mode = SPSH_PUBLISH_NEW
    };
    memcpy(file.header.dataset_id, dataset_id, 16);
    spsh__generation_file_id(dataset_id, 1, "manifest", file.header.file_id);
    check(spsh__columns_publish(spsh_io_default(), spsh_allocator_default(), &file, NULL, &err),
          "manifest");
}

/* ---- measuring ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, double *times, size_t rounds, const char *end)
{
    qsort(times, rounds, sizeof(*times), compare_doubles);
    printf("  \"%s\": {\"median\": %.3f, \"least\": %.3f, \"most\": %.3f}%s\n", name,
           times[rounds / 2], times[0], times[rounds - 1], end);
}

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
    check(spsh_dataset_open(r->directory, NULL, &o.dataset, &err), "dataset");
    const spsh_dataset *const list[] = {o.dataset};
    check(spsh_plan_open(list, 1, &opt, &o.plan, &err), "plan");
    check(spsh_sampler_open(o.plan, 0, 8, &o.sampler, &err), "sampler");
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
    spsh_planned_batch batch;
    const spsh_position place = place_at(o->plan, percent);
    check(spsh_sampler_seek(o->sampler, &place, &err), "seek");
    check(spsh_sampler_next(o->sampler, &batch, &err), "next");
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
        check(spsh_sampler_seek(o.sampler, &place, &err), "seek");
        makes[i] = 1e30;
        for (place.window = 1; place.window < info->window_count && place.window < 6;
             place.window++) {
            begin = now_ms();
            check(spsh_sampler_seek(o.sampler, &place, &err), "seek");
            double took = now_ms() - begin;
            makes[i] = took < makes[i] ? took : makes[i];
        }
        if (i == 0 && info->window_count > 20 && r->domains > 1) {
            uint32_t windows = info->window_count < 200 ? info->window_count - 10 : 190;
            place.window += windows - 6;
            begin = now_ms();
            check(spsh_sampler_seek(o.sampler, &place, &err), "seek");
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
    check(spsh_plan_batch_count(o.plan, 0, &batches, &err), "epoch");
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
        spsh__footer footer;
        names n = make_names(r.domains);
        if (mkdir(argv[1], 0777) != 0 || mkdir(cache, 0777) != 0)
            stop(argv[1]);
        write_index(&r, &n, &footer);
        write_manifest(&r, &n, &footer);
        free(n.ends);
        free(n.bytes);
    }
    errno = 0;
    printf("{\n  \"utterances\": %" PRIu64 ",\n  \"domains\": %u,\n", r.count, r.domains);
    measure_open(&r, rounds);
    measure_resume(&r, cache, rounds);
    printf("}\n");
    return 0;
}
