/* bench_open.c: how long a dataset of many shards and utterances takes to open, and how much of it
 * opening reads.
 *
 *     bench_open DIRECTORY SHARDS UTTERANCES [ROUNDS] > results/open.json
 *
 * Writes a manifest and a dataset index of that size into DIRECTORY (93 bytes per utterance, 61 per
 * shard; checksums are real, shards are not needed), or uses existing ones. Then opens the dataset,
 * in rounds:
 *
 *     cold    both files dropped from the page cache before
 *     warm    again, at once
 *
 * and looks up rows by position and missing ids, at random (an existing id would also need its
 * shard). Memory: growth of the resident set over the open; and the pages of both files that are in
 * the page cache after a cold open, which includes the kernel's read-ahead.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_kit.h"
#include "dataset/manifest.h"
#include "index_files.h"

enum {
    LOOKUPS = 20000,
    COLD_LOOKUPS = 500,
    COLUMN_CALLS = 20000000,
    ROUNDS_MAX = 100,
};

static const uint8_t dataset_id[16] = "bench of opening";

/* ---- a dataset index ---- */

/* Position p is entry (p * factor) % count of by_id, and entry e has an evenly spread hash that
 * grows with e: so both columns can be written without sorting. */
typedef struct layout {
    uint64_t count, factor, inverse, step;
    uint64_t shard_rows;
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

static uint64_t cell(const void *user, uint32_t column, uint64_t p)
{
    const layout *l = (const layout *)user;
    switch (column) {
    case SPSH__INDEX_ID_HASH: return hash_of_entry(l, multiply_modulo(p, l->factor, l->count));
    case SPSH__INDEX_BY_ID: return multiply_modulo(p, l->inverse, l->count);
    case SPSH__INDEX_PAYLOAD_SHARD: return p / l->shard_rows;
    case SPSH__INDEX_PAYLOAD_RECORD: return p % l->shard_rows;
    case SPSH__INDEX_RECORD_OFFSET: return 4096 + p % l->shard_rows * 131072;
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

static void write_dataset(const char *directory, uint64_t shards, uint64_t count)
{
    layout l = make_layout(count);
    const index_files files = {.path = directory,
                               .dataset_id = dataset_id,
                               .utterance_count = count,
                               .shard_count = shards,
                               .shard_bytes = UINT64_C(1) << 30,
                               .cell_fn = cell,
                               .user = &l};
    l.shard_rows = index_files_shard_rows(&files);
    check(index_files_write(&files, &failure), "dataset");
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
        unsigned char *present = (unsigned char *)calloc(pages, 1);
        void *mapping = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (present == NULL || mapping == MAP_FAILED || mincore(mapping, size_bytes, present) != 0)
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
    check(spsh_dataset_open(directory, NULL, &dataset, &failure), "open");
    return dataset;
}

static double rows_ms(const spsh_dataset *dataset, uint64_t seed, uint64_t lookups)
{
    uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    double begin = now_ms();
    for (uint64_t i = 0; i < lookups; i++) {
        spsh_row row;
        check(spsh_dataset_rows(dataset, mix64(seed + i) % count, 1, &row, &failure), "row");
    }
    return now_ms() - begin;
}

/* One element per call, in order or not. */
static double column_ns(const spsh_dataset *dataset, bool shuffled)
{
    const uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    const uint64_t calls = count < COLUMN_CALLS ? count : COLUMN_CALLS;
    uint64_t samples = 0;
    double begin = now_ms();
    for (uint64_t i = 0; i < calls; i++) {
        spsh_bytes element;
        const uint64_t at = shuffled ? mix64(i) % count : i;
        check(spsh_dataset_column(dataset, SPSH_COLUMN_SAMPLES, at, 1, &element, &failure),
              "column");
        samples += element.data[0];
    }
    if (samples == 0)
        stop("column");
    return (now_ms() - begin) * 1e6 / (double)calls;
}

static double finds_ms(const spsh_dataset *dataset, uint64_t seed, uint64_t lookups)
{
    spsh_reader *reader = NULL;
    check(spsh_reader_open(dataset, &reader, &failure), "reader");
    double begin = now_ms();
    for (uint64_t i = 0; i < lookups; i++) {
        uint64_t id = mix64(seed + i);
        uint64_t position = 0;
        if (spsh_reader_find(reader, (spsh_bytes){(const uint8_t *)&id, 8}, &position, &failure) !=
            SPSH_E_NOT_FOUND)
            stop("find");
    }
    double spent = now_ms() - begin;
    spsh_reader_close(reader);
    return spent;
}

static void measure(const char *directory, size_t rounds)
{
    double cold[ROUNDS_MAX];
    double warm[ROUNDS_MAX];
    uint64_t grown_most = 0;
    uint64_t cached_most = 0;
    spsh_dataset_close(open_dataset(directory)); /* load code and grow the heap first */
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
    print_times("open_cold_ms", cold, rounds, ",");
    print_times("open_warm_ms", warm, rounds, ",");
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
    path_of(path, argv[1], names[0]);
    if (stat(path, &info) != 0) {
        errno = 0;
        write_dataset(argv[1], shards, count);
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
