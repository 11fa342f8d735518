/* cmd_bench_disk.c: measure only reading, with the loader's read engine: the limit of the disk (or
 * the page cache).
 *
 * Sequential: the sample's files from the first byte to the last, 1 MiB at a time, repeatedly.
 * Random: whole records in the order of the epoch. Nothing is checked or copied.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd_bench_parts.h"
#include "speechshard/read_engine.h"

enum { DEPTH = 64, SEQUENTIAL_DEPTH = 32, SEQUENTIAL_BYTES = 1 << 20, PATH_BYTES_MAX = 4096 };
/* Holds the largest record of a sample and several others at the same time. */
#define ARENA_BYTES (UINT64_C(48) << 20)

static double timeval_seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

spsh__bench_clock spsh__bench_now(void)
{
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    return (spsh__bench_clock){spsh__cli_now_s(),
                               timeval_seconds(used.ru_utime) + timeval_seconds(used.ru_stime)};
}

/* ---- the next request ---- */

typedef struct place {
    uint32_t file;
    uint64_t offset_bytes;
    size_t size_bytes;
} place;

typedef struct stream {
    const spsh__bench_sample *sample;
    spsh_read_engine *engine;
    uint32_t *files; /* file numbers of the engine */
    bool sequential;
    size_t at; /* index of the next record, or of the next file if sequential */
    uint64_t offset_bytes;
} stream;

static place next_record(stream *s)
{
    const spsh__bench_record *r = &s->sample->records[s->at];
    s->at = (s->at + 1) % s->sample->count;
    return (place){s->files[r->file], r->offset_bytes, r->record_bytes};
}

static place next_piece(stream *s)
{
    const uint32_t file = s->files[s->at];
    const uint64_t left = spsh_read_file_bytes(s->engine, file) - s->offset_bytes;
    const place p = {file, s->offset_bytes,
                     left < SEQUENTIAL_BYTES ? (size_t)left : SEQUENTIAL_BYTES};
    s->offset_bytes += p.size_bytes;
    if (p.size_bytes == left) {
        s->at = (s->at + 1) % s->sample->file_count;
        s->offset_bytes = 0;
    }
    return p;
}

/* ---- reading ---- */

/* Submit reads while the engine has capacity, and wait for the oldest read. After end_wall only
 * wait for the pending reads. */
static spsh_status read_until(stream *s, double end_wall, spsh__bench_disk *disk, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    bool more = true;
    place next = s->sequential ? next_piece(s) : next_record(s);
    while (rc == SPSH_OK) {
        spsh_read_completion done;
        while (more && rc == SPSH_OK && spsh_read_has_space(s->engine, next.size_bytes)) {
            rc = spsh_read_submit(s->engine, next.file, next.offset_bytes, next.size_bytes, 0, err);
            next = s->sequential ? next_piece(s) : next_record(s);
        }
        if (rc != SPSH_OK || spsh_read_pending(s->engine) == 0)
            break;
        rc = spsh_read_wait(s->engine, &done, err);
        if (rc != SPSH_OK)
            break;
        if (done.status != SPSH_OK) {
            rc = done.status;
            spsh_error_set(err, rc, done.os_errno, done.offset_bytes,
                           "cannot read a shard at byte %llu: %s",
                           (unsigned long long)done.offset_bytes, spsh_status_text(rc));
        }
        disk->bytes += done.got_bytes;
        disk->reads++;
        spsh_read_recycle(s->engine, &done);
        more = more && spsh__cli_now_s() < end_wall;
    }
    return rc;
}

int spsh__bench_disk_read(const spsh__bench_sample *sample, uint32_t read_flags, bool sequential,
                          double seconds, spsh__bench_disk *ret_disk)
{
    spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    spsh__bench_disk disk = {.engine = ""};
    stream s = {.sample = sample, .sequential = sequential};
    opt.arena_bytes = ARENA_BYTES;
    opt.requests_max = sequential ? SEQUENTIAL_DEPTH : DEPTH;
    opt.files_max = sample->file_count;
    opt.flags = read_flags | (sequential ? SPSH_READ_IN_ORDER : 0);
    s.files = (uint32_t *)calloc(sample->file_count, sizeof(*s.files));
    if (s.files == NULL)
        return spsh__cli_fail_memory();
    spsh_status rc = spsh_read_engine_open(&opt, &s.engine, &err);
    for (uint32_t i = 0; i < sample->file_count && rc == SPSH_OK; i++)
        rc = spsh_read_engine_add_file(s.engine, sample->files[i].path, &s.files[i], &err);
    if (rc == SPSH_OK) {
        const spsh__bench_clock begin = spsh__bench_now();
        rc = read_until(&s, begin.wall + seconds, &disk, &err);
        const spsh__bench_clock end = spsh__bench_now();
        disk.seconds = end.wall - begin.wall;
        disk.cpu_seconds = end.cpu - begin.cpu;
        disk.direct = spsh_read_file_direct(s.engine, s.files[0]);
        snprintf(disk.engine, sizeof(disk.engine), "%s", spsh_read_engine_name(s.engine));
    }
    spsh_read_engine_close(s.engine);
    free(s.files);
    if (rc != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    *ret_disk = disk;
    return SPSH_EXIT_DONE;
}

/* ---- the page cache ---- */

/* Add the file's pages and its resident pages to the counts. Returns false if unknown. */
static bool count_pages(int fd, size_t size_bytes, uint64_t *pages, uint64_t *resident)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const size_t count = (size_t)(size_bytes + page_bytes - 1) / page_bytes;
    void *map = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *in_core = (unsigned char *)malloc(count + 1);
    bool good = map != MAP_FAILED && in_core != NULL && mincore(map, size_bytes, in_core) == 0;
    for (size_t i = 0; i < count && good; i++)
        *resident += in_core[i] & 1U;
    *pages += count;
    free(in_core);
    if (map != MAP_FAILED)
        (void)munmap(map, size_bytes);
    return good;
}

static bool drop_file(const char *path, uint64_t *pages, uint64_t *resident)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0;
    if (good) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        good = count_pages(fd, (size_t)status.st_size, pages, resident);
    }
    if (fd >= 0)
        (void)close(fd);
    return good;
}

int spsh__bench_cache_drop(const spsh__datasets *datasets, double *ret_resident)
{
    uint64_t pages = 0, resident = 0;
    for (uint32_t i = 0; i < datasets->count; i++) {
        const char *path = spsh_dataset_path(datasets->items[i]);
        const uint64_t shards = spsh_dataset_info_get(datasets->items[i])->shard_count;
        for (uint64_t shard = 0; shard < shards; shard++) {
            spsh_error err = SPSH_ERROR_INIT;
            spsh_shard_seal seal;
            char name[32], file[PATH_BYTES_MAX];
            if (spsh_dataset_shard(datasets->items[i], shard, &seal, &err) != SPSH_OK)
                return spsh__cli_fail(NULL, &err);
            spsh_shard_file_name(seal.unit, seal.number, name);
            snprintf(file, sizeof(file), "%s/shards/%s", path, name);
            if (!drop_file(file, &pages, &resident)) {
                spsh__cli_error("%s: cannot drop the file from the page cache, or cannot count its "
                                "cached pages",
                                file);
                return SPSH_EXIT_FAILED;
            }
        }
    }
    *ret_resident = pages == 0 ? 0 : (double)resident / (double)pages;
    return SPSH_EXIT_DONE;
}
