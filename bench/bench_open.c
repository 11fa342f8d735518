/* bench_open.c: how long a dataset of many shards and utterances takes to open, and how much of it
 * that touches.
 *
 *     bench_open DIRECTORY SHARDS UTTERANCES [ROUNDS] > results/open.json
 *
 * Writes a manifest and a dataset index of that size into DIRECTORY (93 bytes an utterance, 61 a
 * shard; checksums are real, shards are not needed), or takes the ones that are there. Then opens
 * it, in rounds:
 *
 *     cold    both files dropped from the page cache before
 *     warm    again, at once
 *
 * and looks up rows by position and ids that are not there, at random (an id that is there would
 * also need its shard). Memory: growth of the resident set over the open; and the pages of both
 * files that are in the page cache after a cold open, which includes what the kernel read ahead.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "manifest.h"
#include "speechshard/dataset.h"

enum {
    BATCH = 8192,
    LOOKUPS = 20000,
    COLD_LOOKUPS = 500,
    COLUMN_CALLS = 20000000,
    ROUNDS_MAX = 100,
};

static const uint8_t dataset_id[16] = "bench of opening";
static spsh_error err = SPSH_ERROR_INIT;

static void stop(const char *what)
{
    fprintf(stderr, "bench_open: %s: %s %s\n", what, err.message,
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

/* ---- a dataset index ---- */

/* Position p is entry (p * factor) % count of by_id, and entry e has an evenly spread hash that
 * grows with e: so both columns can be written without sorting. */
typedef struct layout {
    uint64_t count, factor, inverse, step;
} layout;

static uint64_t multiply_modulo(uint64_t a, uint64_t b, uint64_t modulus)
{
    uint64_t result = 0; /* modulus is at most 2^36: 16 bits at a time do not overflow */
    for (int shift = 48; shift >= 0; shift -= 16) {
        result = (result << 16) % modulus;
        result = (result + a % modulus * ((b >> shift) & 0xffff)) % modulus;
    }
    return result;
}

/* x with x * a = 1 modulo count, or 0 when a and count have a common divisor. */
static uint64_t invert(uint64_t of, uint64_t count)
{
    int64_t a = (int64_t)of;
    int64_t b = (int64_t)count;
    int64_t x = 1;
    int64_t y = 0;
    while (b != 0) { /* Euclid: x * of is a, y * of is b, modulo count */
        int64_t quotient = a / b;
        int64_t rest = a % b;
        int64_t next = x - quotient * y;
        a = b;
        b = rest;
        x = y;
        y = next;
    }
    if (a != 1)
        return 0;
    return (uint64_t)(x < 0 ? x + (int64_t)count : x);
}

static layout make_layout(uint64_t count)
{
    layout made = {.count = count, .factor = 1, .inverse = 1, .step = UINT64_MAX / count};
    for (uint64_t factor = count / 1000 * 618; factor > 1; factor--) {
        uint64_t inverse = invert(factor, count);
        if (inverse != 0) {
            made.factor = factor;
            made.inverse = inverse;
            break;
        }
    }
    return made;
}

static uint64_t hash_of_entry(const layout *l, uint64_t entry)
{
    return entry * l->step + mix64(entry) % l->step;
}

static uint64_t cell(const layout *l, uint32_t column, uint64_t p, uint64_t rows_per_shard)
{
    switch (column) {
    case SPSH__INDEX_ID_HASH: return hash_of_entry(l, multiply_modulo(p, l->factor, l->count));
    case SPSH__INDEX_BY_ID: return multiply_modulo(p, l->inverse, l->count);
    case SPSH__INDEX_PAYLOAD_SHARD: return p / rows_per_shard;
    case SPSH__INDEX_PAYLOAD_RECORD: return p % rows_per_shard;
    case SPSH__INDEX_RECORD_OFFSET: return 4096 + p % rows_per_shard * 131072;
    case SPSH__INDEX_RECORD_BYTES: return 131072;
    case SPSH__INDEX_SAMPLES: return 100000 + mix64(p) % 200000;
    case SPSH__INDEX_SAMPLE_RATE_HZ: return 16000;
    case SPSH__INDEX_CHANNELS: return 1;
    case SPSH__INDEX_CODEC: return SPSH_CODEC_FLAC;
    case SPSH__INDEX_FLAGS: return SPSH_UTTERANCE_HAS_TEXT;
    case SPSH__INDEX_DUPLICATE_OF: return SPSH_NONE_U64;
    case SPSH__INDEX_TEXT_BYTES: return 120;
    default: return column >= SPSH__INDEX_DOMAIN ? SPSH_NONE_U32 : 0;
    }
}

static void write_rows(spsh__section_writer *sections, uint64_t count, uint64_t rows_per_shard)
{
    static uint8_t bytes[BATCH * 8];
    const layout l = make_layout(count);
    for (uint64_t first = 0; first < count; first += BATCH) {
        uint64_t rows = count - first < BATCH ? count - first : BATCH;
        for (uint32_t c = SPSH__INDEX_COLUMN_FIRST; c <= SPSH__INDEX_COLUMN_LAST; c++) {
            uint32_t width = spsh__index_element_bytes(c);
            for (uint64_t i = 0; i < rows; i++) {
                uint64_t value = cell(&l, c, first + i, rows_per_shard);
                memcpy(bytes + i * width, &value, width); /* little-endian machines only */
            }
            check(spsh__section_append(sections, c, bytes, rows, &err), "index");
        }
    }
}

static void write_index(const char *directory, uint64_t count, uint64_t rows_per_shard,
                        spsh__footer *ret_footer)
{
    spsh__section
        list[SPSH__INDEX_COLUMN_LAST - SPSH__INDEX_COLUMN_FIRST + 1 + 2 * SPSH_NAME_KINDS];
    uint32_t used = 0;
    spsh__header header = {.kind = SPSH__KIND_INDEX, .ordinal = 1};
    uint8_t page[SPSH__PAGE_BYTES];
    spsh_file_writer *file = NULL;
    spsh__section_writer *sections = NULL;
    for (uint32_t c = SPSH__INDEX_COLUMN_FIRST; c <= SPSH__INDEX_COLUMN_LAST; c++)
        list[used++] = (spsh__section){c, spsh__index_element_bytes(c), count};
    for (uint32_t i = 0; i < 2 * SPSH_NAME_KINDS; i++)
        list[used++] = (spsh__section){SPSH__INDEX_NAME_ENDS + i, i % 2 == 0 ? 8 : 1, 0};
    memcpy(header.dataset_id, dataset_id, 16);
    spsh__generation_file_id(dataset_id, 1, "index", header.file_id);
    spsh__header_encode(&header, page);
    check(spsh_file_writer_open(spsh_io_default(), directory, "index-00000001.spsh", 0, NULL, &file,
                                &err),
          "index");
    check(spsh_file_writer_write(file, page, sizeof(page), &err), "index");
    check(spsh__section_writer_open(file, &header, list, used, NULL, &sections, &err), "index");
    write_rows(sections, count, rows_per_shard);
    check(spsh__section_writer_finish(sections, NULL, 0, 0, count, ret_footer, &err), "index");
    check(spsh_file_writer_publish(file, SPSH_PUBLISH_NEW, &err), "index");
    spsh__section_writer_free(sections);
    spsh_file_writer_free(file);
}

/* ---- a manifest ---- */

static void *zeroed(uint64_t size_bytes)
{
    void *memory = calloc(1, (size_t)size_bytes + 1);
    if (memory == NULL)
        stop("memory");
    return memory;
}

static void write_manifest(const char *directory, uint64_t shards, uint64_t count,
                           uint64_t rows_per_shard, const spsh__footer *index)
{
    uint64_t *bytes = (uint64_t *)zeroed(8 * shards);
    uint32_t *units = (uint32_t *)zeroed(4 * shards);
    uint64_t *begins = (uint64_t *)zeroed(8 * (shards + 1));
    void *zeros = zeroed(16 * shards);
    const uint64_t totals[SPSH__TOTALS] = {count, count, 0, count * 100000, 0, 0, 0, count};
    const uint64_t generation = 1;
    for (uint64_t i = 0; i < shards; i++) {
        bytes[i] = UINT64_C(1) << 30;
        units[i] = (uint32_t)i;
    }
    for (uint64_t i = 0; i <= shards; i++)
        begins[i] = i * rows_per_shard < count ? i * rows_per_shard : count;
    const spsh__column columns[] = {
        {SPSH__MANIFEST_SHARD_FILE_ID,        16, shards,       zeros             },
        {SPSH__MANIFEST_SHARD_ROOT_HASH,      16, shards,       zeros             },
        {SPSH__MANIFEST_SHARD_BYTES,          8,  shards,       bytes             },
        {SPSH__MANIFEST_SHARD_UNIT,           4,  shards,       units             },
        {SPSH__MANIFEST_SHARD_NUMBER,         4,  shards,       zeros             },
        {SPSH__MANIFEST_UTTERANCE_BEGIN,      8,  shards + 1,   begins            },
        {SPSH__MANIFEST_RECORD_BEGIN,         8,  shards + 1,   begins            },
        {SPSH__MANIFEST_GROUP_DOMAIN,         4,  0,            NULL              },
        {SPSH__MANIFEST_GROUP_SPLIT,          4,  0,            NULL              },
        {SPSH__MANIFEST_GROUP_SAMPLE_RATE_HZ, 4,  0,            NULL              },
        {SPSH__MANIFEST_GROUP_UTTERANCES,     8,  0,            NULL              },
        {SPSH__MANIFEST_GROUP_SAMPLES,        8,  0,            NULL              },
        {SPSH__MANIFEST_TOTALS,               8,  SPSH__TOTALS, totals            },
        {SPSH__MANIFEST_INDEX_FILE_ID,        16, 1,            index->file_id    },
        {SPSH__MANIFEST_INDEX_ROOT_HASH,      16, 1,            index->root_hash  },
        {SPSH__MANIFEST_INDEX_BYTES,          8,  1,            &index->file_bytes},
        {SPSH__MANIFEST_INDEX_GENERATION,     8,  1,            &generation       },
        {SPSH__MANIFEST_OVERLAY_FILE_ID,      16, 0,            NULL              },
        {SPSH__MANIFEST_OVERLAY_ROOT_HASH,    16, 0,            NULL              },
        {SPSH__MANIFEST_OVERLAY_BYTES,        8,  0,            NULL              },
        {SPSH__MANIFEST_OVERLAY_NAME_ENDS,    8,  0,            NULL              },
        {SPSH__MANIFEST_OVERLAY_NAMES,        1,  0,            NULL              },
        {SPSH__MANIFEST_OPTIONS,              1,  0,            NULL              },
        {SPSH__MANIFEST_DOMAIN_ENDS,          8,  0,            NULL              },
        {SPSH__MANIFEST_DOMAINS,              1,  0,            NULL              },
        {SPSH__MANIFEST_SPLIT_ENDS,           8,  0,            NULL              },
        {SPSH__MANIFEST_SPLITS,               1,  0,            NULL              },
    };
    spsh__columns_file file = {
        .directory = directory,
        .name = "manifest.spsh",
        .header = {.kind = SPSH__KIND_MANIFEST, .ordinal = 1},
        .columns = columns,
        .column_count = sizeof(columns) / sizeof(columns[0]),
        .utterance_count = count,
        .mode = SPSH_PUBLISH_NEW
    };
    memcpy(file.header.dataset_id, dataset_id, 16);
    spsh__generation_file_id(dataset_id, 1, "manifest", file.header.file_id);
    check(spsh__columns_publish(spsh_io_default(), spsh_allocator_default(), &file, NULL, &err),
          "manifest");
    free(bytes);
    free(units);
    free(begins);
    free(zeros);
}

/* ---- measuring ---- */

static const char *const names[] = {"manifest.spsh", "index-00000001.spsh"};

static void path_of(char path[4096], const char *directory, const char *name)
{
    if (snprintf(path, 4096, "%s/%s", directory, name) >= 4096)
        stop("path");
}

static void drop_caches(const char *directory)
{
    for (size_t i = 0; i < 2; i++) {
        char path[4096];
        path_of(path, directory, names[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
            stop(path);
        (void)close(fd);
    }
}

static uint64_t cached_bytes(const char *directory)
{
    uint64_t total = 0;
    for (size_t i = 0; i < 2; i++) {
        char path[4096];
        struct stat info;
        path_of(path, directory, names[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &info) != 0)
            stop(path);
        size_t size_bytes = (size_t)info.st_size;
        size_t pages = (size_bytes + 4095) / 4096;
        unsigned char *present = (unsigned char *)zeroed(pages);
        void *mapping = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (mapping == MAP_FAILED || mincore(mapping, size_bytes, present) != 0)
            stop(path);
        for (size_t p = 0; p < pages; p++)
            total += (present[p] & 1) * UINT64_C(4096);
        (void)munmap(mapping, size_bytes);
        (void)close(fd);
        free(present);
    }
    return total;
}

static uint64_t resident_bytes(void)
{
    char line[128];
    char *end = NULL;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fgets(line, sizeof(line), file) == NULL)
        stop("/proc/self/statm");
    (void)fclose(file);
    (void)strtoull(line, &end, 10); /* the whole size; the resident pages come next */
    return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static spsh_dataset *open_dataset(const char *directory)
{
    spsh_dataset *dataset = NULL;
    check(spsh_dataset_open(directory, NULL, &dataset, &err), "open");
    return dataset;
}

static double rows_ms(const spsh_dataset *dataset, uint64_t seed, uint64_t lookups)
{
    uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    double begin = now_ms();
    for (uint64_t i = 0; i < lookups; i++) {
        spsh_row row;
        check(spsh_dataset_rows(dataset, mix64(seed + i) % count, 1, &row, &err), "row");
    }
    return now_ms() - begin;
}

/* One element a call, in order or not. */
static double column_ns(const spsh_dataset *dataset, bool shuffled)
{
    const uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    const uint64_t calls = count < COLUMN_CALLS ? count : COLUMN_CALLS;
    uint64_t samples = 0;
    double begin = now_ms();
    for (uint64_t i = 0; i < calls; i++) {
        spsh_bytes element;
        const uint64_t at = shuffled ? mix64(i) % count : i;
        check(spsh_dataset_column(dataset, SPSH_COLUMN_SAMPLES, at, 1, &element, &err), "column");
        samples += element.data[0];
    }
    if (samples == 0)
        stop("column");
    return (now_ms() - begin) * 1e6 / (double)calls;
}

static double finds_ms(const spsh_dataset *dataset, uint64_t seed, uint64_t lookups)
{
    spsh_reader *reader = NULL;
    check(spsh_reader_open(dataset, &reader, &err), "reader");
    double begin = now_ms();
    for (uint64_t i = 0; i < lookups; i++) {
        uint64_t id = mix64(seed + i);
        uint64_t position = 0;
        if (spsh_reader_find(reader, (spsh_bytes){(const uint8_t *)&id, 8}, &position, &err) !=
            SPSH_E_NOT_FOUND)
            stop("find");
    }
    double spent = now_ms() - begin;
    spsh_reader_close(reader);
    return spent;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, double *times, size_t rounds)
{
    qsort(times, rounds, sizeof(*times), compare_doubles);
    printf("  \"%s\": {\"median\": %.3f, \"least\": %.3f, \"most\": %.3f},\n", name,
           times[rounds / 2], times[0], times[rounds - 1]);
}

static void measure(const char *directory, size_t rounds)
{
    double cold[ROUNDS_MAX];
    double warm[ROUNDS_MAX];
    uint64_t grown_most = 0;
    uint64_t cached_most = 0;
    spsh_dataset_close(open_dataset(directory)); /* code and heap are there afterwards */
    for (size_t i = 0; i < rounds; i++) {
        drop_caches(directory);
        uint64_t cached_before = cached_bytes(directory);
        uint64_t resident_before = resident_bytes();
        double begin = now_ms();
        spsh_dataset *dataset = open_dataset(directory);
        cold[i] = now_ms() - begin;
        uint64_t grown = resident_bytes() - resident_before;
        spsh_dataset_close(dataset);
        uint64_t cached = cached_bytes(directory) - cached_before;
        grown_most = grown > grown_most ? grown : grown_most;
        cached_most = cached > cached_most ? cached : cached_most;
        begin = now_ms();
        dataset = open_dataset(directory);
        warm[i] = now_ms() - begin;
        spsh_dataset_close(dataset);
    }
    print_times("open_cold_ms", cold, rounds);
    print_times("open_warm_ms", warm, rounds);
    printf("  \"resident_growth_bytes_most\": %" PRIu64 ",\n", grown_most);
    printf("  \"page_cache_bytes_after_cold_open_most\": %" PRIu64 ",\n", cached_most);
    drop_caches(directory);
    spsh_dataset *dataset = open_dataset(directory);
    printf("  \"row_by_position_cold_us\": %.2f,\n",
           rows_ms(dataset, 1, COLD_LOOKUPS) * 1e3 / COLD_LOOKUPS);
    (void)rows_ms(dataset, 7, LOOKUPS);
    printf("  \"row_by_position_again_us\": %.2f,\n", rows_ms(dataset, 7, LOOKUPS) * 1e3 / LOOKUPS);
    (void)column_ns(dataset, false);
    printf("  \"column_in_order_ns\": %.2f,\n", column_ns(dataset, false));
    printf("  \"column_shuffled_ns\": %.2f,\n", column_ns(dataset, true));
    spsh_dataset_close(dataset);
    drop_caches(directory);
    dataset = open_dataset(directory);
    printf("  \"absent_id_cold_us\": %.2f,\n",
           finds_ms(dataset, 1, COLD_LOOKUPS) * 1e3 / COLD_LOOKUPS);
    (void)finds_ms(dataset, 7, LOOKUPS);
    printf("  \"absent_id_again_us\": %.2f\n", finds_ms(dataset, 7, LOOKUPS) * 1e3 / LOOKUPS);
    spsh_dataset_close(dataset);
}

int main(int argc, char **argv)
{
    char path[4096];
    struct stat info;
    if (argc < 4) {
        fprintf(stderr, "usage: bench_open DIRECTORY SHARDS UTTERANCES [ROUNDS]\n");
        return 2;
    }
    uint64_t shards = strtoull(argv[2], NULL, 10);
    uint64_t count = strtoull(argv[3], NULL, 10);
    size_t rounds = argc > 4 ? (size_t)strtoull(argv[4], NULL, 10) : 5;
    if (shards == 0 || count < shards || count > UINT64_C(1) << 36 || rounds == 0 ||
        rounds > ROUNDS_MAX) {
        fprintf(stderr, "bench_open: want 1 <= SHARDS <= UTTERANCES <= 2^36 and 1 to 100 rounds\n");
        return 2;
    }
    uint64_t rows_per_shard = (count + shards - 1) / shards;
    path_of(path, argv[1], names[0]);
    if (stat(path, &info) != 0) {
        spsh__footer index;
        errno = 0;
        write_index(argv[1], count, rows_per_shard, &index);
        write_manifest(argv[1], shards, count, rows_per_shard, &index);
    }
    spsh_dataset *dataset = open_dataset(argv[1]);
    const spsh_dataset_info *found = spsh_dataset_info_get(dataset);
    path_of(path, argv[1], names[1]);
    if (stat(path, &info) != 0)
        stop(path);
    printf("{\n  \"shards\": %" PRIu64 ",\n  \"utterances\": %" PRIu64 ",\n", found->shard_count,
           found->utterance_count);
    printf("  \"index_bytes\": %lld,\n  \"rounds\": %zu,\n", (long long)info.st_size, rounds);
    spsh_dataset_close(dataset);
    measure(argv[1], rounds);
    printf("}\n");
    return 0;
}
