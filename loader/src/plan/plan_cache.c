/* plan_cache.c: cache files, little-endian.
 *
 *     0   "SPSHCACH"            16  u64 body_bytes, including this header
 *     8   u32 version, u32 kind 24  u64 dataset_key, options_key, skips_key, seed, epoch
 *     64  the body's fields     ... u64 XXH3-64 of each MiB of the body; u64 XXH3-64 of these
 *
 * Kind 1 is a scan; its options_key is scan_key, which covers the options that select utterances.
 * Kind 2 is the states of an epoch, kind 3 the lengths, with their own hashes (plan_lengths.c). The
 * keys are in the file name, too. Files are written under a temporary name and renamed over an
 * existing file. Processes that write the same file write the same bytes, or states with more or
 * fewer known windows.
 *
 * The hashes detect damage. A forged file can have correct hashes, so numbers that become addresses
 * are checked, too. A forged file can change the order, but nothing else.
 */
#include "plan_cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>
#include <xxhash.h>

#include "speechshard/cores.h"

enum {
    HEAD_BYTES = SPSH__CACHE_HEAD_BYTES,
    NAME_BYTES = 128,
    PIECE_BYTES = 1 << 20,
    VERSION = 1,
    PATH_BYTES = 4096
};
enum { SCAN_FIELDS = 15, DATASET_BYTES = 8, DOMAIN_BYTES = 48, RUN_BYTES = 24 };

typedef spsh__cache_key key;
typedef spsh__cache_mapping mapping;

static key scan_key(const spsh_plan *plan)
{
    return (key){
        SPSH__CACHE_SCAN, {plan->dataset_key, plan->scan_key, plan->skips_key, 0, 0}
    };
}

static key states_key(const spsh_plan *plan, uint64_t epoch)
{
    return (key){
        SPSH__CACHE_STATES,
        {plan->dataset_key, plan->options_key, plan->skips_key, plan->options.seed, epoch}
    };
}

static void make_name(const key *k, char name[NAME_BYTES])
{
    static const char *const words[] = {"", "scan", "states", "lengths"};
    const uint64_t *v = k->values;
    uint64_t rest[3] = {v[2], v[3], v[4]};
    (void)snprintf(name, NAME_BYTES, "%s-%016" PRIx64 "-%016" PRIx64 "-%016" PRIx64, words[k->kind],
                   v[0], v[1], (uint64_t)XXH3_64bits(rest, sizeof(rest)));
}

void spsh__cache_head(const spsh__cache_key *k, uint64_t body_bytes,
                      uint8_t head[SPSH__CACHE_HEAD_BYTES])
{
    memcpy(head, "SPSHCACH", 8);
    spsh__store_u32le(head + 8, VERSION);
    spsh__store_u32le(head + 12, (uint32_t)k->kind);
    spsh__store_u64le(head + 16, body_bytes);
    for (size_t i = 0; i < 5; i++)
        spsh__store_u64le(head + 24 + 8 * i, k->values[i]);
}

/* ---- writing ---- */

/* Is `name` a temporary file for the file `user`, made by another process? Those of this process
 * are not stale: a thread may be writing one. */
static bool is_stale(void *user, const char *name, size_t name_bytes)
{
    char own[NAME_BYTES + 32];
    const char *wanted = (const char *)user;
    const int length = snprintf(own, sizeof(own), "%s.tmp-%ld-", wanted, (long)getpid());
    return strlen(wanted) == name_bytes && memcmp(wanted, name, name_bytes) == 0 &&
           strncmp(own, name, (size_t)length) != 0;
}

spsh_status spsh__cache_create(const spsh_plan *plan, const key *k, spsh_file_writer **ret_file)
{
    char name[NAME_BYTES];
    const spsh_io *io = spsh_io_default();
    make_name(k, name);
    const spsh_status rc = spsh_io_make_directory(io, plan->cache_dir, NULL);
    if (rc != SPSH_OK)
        return rc;
    spsh_stale_files_remove(io, plan->cache_dir, is_stale, name);
    return spsh_file_writer_open(io, plan->cache_dir, name, 0, &plan->allocator, ret_file, NULL);
}

typedef struct cache_writer {
    const spsh_allocator *allocator;
    spsh_file_writer *file;
    uint8_t *piece;
    size_t used;
    uint64_t *hashes;
    uint64_t hash_count;
    bool is_good;
} cache_writer;

static void end_piece(cache_writer *w)
{
    if (!w->is_good || w->used == 0)
        return;
    spsh__store_u64le(&w->hashes[w->hash_count++], XXH3_64bits(w->piece, w->used));
    w->is_good = spsh_file_writer_write(w->file, w->piece, w->used, NULL) == SPSH_OK;
    w->used = 0;
}

static void put_bytes(cache_writer *w, const void *data, size_t size_bytes)
{
    const uint8_t *bytes = (const uint8_t *)data;
    while (size_bytes > 0 && w->is_good) {
        size_t space_bytes = PIECE_BYTES - w->used;
        size_t here = size_bytes < space_bytes ? size_bytes : space_bytes;
        memcpy(w->piece + w->used, bytes, here);
        w->used += here;
        bytes += here;
        size_bytes -= here;
        if (w->used == PIECE_BYTES)
            end_piece(w);
    }
}

static void put_u32(cache_writer *w, uint32_t value)
{
    uint8_t bytes[4];
    spsh__store_u32le(bytes, value);
    put_bytes(w, bytes, sizeof(bytes));
}

static void put_u64(cache_writer *w, uint64_t value)
{
    uint8_t bytes[8];
    spsh__store_u64le(bytes, value);
    put_bytes(w, bytes, sizeof(bytes));
}

static void begin_file(cache_writer *w, const spsh_plan *plan, const key *k, uint64_t body_bytes)
{
    uint8_t head[HEAD_BYTES];
    uint64_t pieces = (body_bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    *w = (cache_writer){.allocator = &plan->allocator};
    w->piece = (uint8_t *)spsh__new(w->allocator, 1, PIECE_BYTES);
    w->hashes = (uint64_t *)spsh__new(w->allocator, (size_t)pieces, sizeof(uint64_t));
    w->is_good =
        w->piece != NULL && w->hashes != NULL && spsh__cache_create(plan, k, &w->file) == SPSH_OK;
    spsh__cache_head(k, body_bytes, head);
    put_bytes(w, head, sizeof(head));
}

static void end_file(cache_writer *w)
{
    end_piece(w);
    if (w->is_good) {
        size_t size_bytes = (size_t)w->hash_count * sizeof(uint64_t);
        uint8_t last[8];
        spsh__store_u64le(last, XXH3_64bits(w->hashes, size_bytes));
        if (spsh_file_writer_write(w->file, w->hashes, size_bytes, NULL) == SPSH_OK &&
            spsh_file_writer_write(w->file, last, sizeof(last), NULL) == SPSH_OK) {
            /* Without the file there is no cache, which is not an error. */
            spsh_status rc = spsh_file_writer_publish(w->file, SPSH_PUBLISH_REPLACE, NULL);
            (void)rc;
        }
    }
    spsh_file_writer_free(w->file);
    spsh__free(w->allocator, w->piece);
    spsh__free(w->allocator, w->hashes);
}

/* ---- reading ---- */

void spsh__cache_unmap(const spsh__cache_mapping *m)
{
    const spsh_io *io = spsh_io_default();
    union {
        const uint8_t *read_only;
        void *any;
    } data = {m->data};
    if (m->data != NULL)
        (void)io->munmap_fn(io->user, data.any, m->size_bytes);
}

static bool path_of(const spsh_plan *plan, const key *k, char path[PATH_BYTES])
{
    char name[NAME_BYTES];
    make_name(k, name);
    int length = snprintf(path, PATH_BYTES, "%s/%s", plan->cache_dir, name);
    return length > 0 && length < PATH_BYTES;
}

void spsh__cache_remove(const spsh_plan *plan, const spsh__cache_key *k)
{
    const spsh_io *io = spsh_io_default();
    char path[PATH_BYTES];
    if (path_of(plan, k, path))
        (void)io->unlink_fn(io->user, path);
}

bool spsh__cache_map(const spsh_plan *plan, const spsh__cache_key *k,
                     spsh__cache_mapping *ret_mapping)
{
    const spsh_io *io = spsh_io_default();
    char path[PATH_BYTES];
    uint8_t head[HEAD_BYTES];
    struct stat info;
    if (!path_of(plan, k, path))
        return false;
    int fd = io->open_fn(io->user, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    void *data = NULL;
    if (io->fstat_fn(io->user, fd, &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_size >= HEAD_BYTES + 16)
        data = io->mmap_fn(io->user, fd, (size_t)info.st_size, 0);
    (void)io->close_fn(io->user, fd);
    if (data == NULL)
        return false;
    mapping m = {(const uint8_t *)data, (size_t)info.st_size, 0};
    m.body_bytes = spsh__load_u64le(m.data + 16);
    spsh__cache_head(k, m.body_bytes, head);
    if (memcmp(head, m.data, sizeof(head)) != 0) {
        spsh__cache_unmap(&m);
        return false;
    }
    *ret_mapping = m;
    return true;
}

static spsh_status check_piece(void *user, uint32_t worker, uint64_t piece, spsh_error *err)
{
    const mapping *m = (const mapping *)user;
    uint64_t first = piece * PIECE_BYTES;
    uint64_t left = m->body_bytes - first;
    (void)worker;
    uint64_t hash = XXH3_64bits(m->data + first, (size_t)(left < PIECE_BYTES ? left : PIECE_BYTES));
    if (hash != spsh__load_u64le(m->data + m->body_bytes + 8 * piece))
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, first, "cache");
    return SPSH_OK;
}

/* Map a file, and check its header and all hashes. */
static bool open_file(const spsh_plan *plan, const key *k, uint32_t threads, mapping *ret_mapping)
{
    mapping m;
    if (!spsh__cache_map(plan, k, &m))
        return false;
    uint64_t size = m.size_bytes;
    bool is_good = m.body_bytes >= HEAD_BYTES && m.body_bytes < size;
    uint64_t pieces = is_good ? (m.body_bytes + PIECE_BYTES - 1) / PIECE_BYTES : 0;
    is_good = is_good && size - m.body_bytes == 8 * pieces + 8 &&
              XXH3_64bits(m.data + m.body_bytes, (size_t)(8 * pieces)) ==
                  spsh__load_u64le(m.data + size - 8) &&
              spsh_cores_run(threads, pieces, check_piece, &m, NULL) == SPSH_OK;
    if (is_good)
        *ret_mapping = m;
    else
        spsh__cache_unmap(&m);
    return is_good;
}

/* ---- scans ---- */

/* Copy the numbers of the scan from or to the plan, in file order. */
static void scan_fields(spsh_plan *plan, uint64_t *values, bool load)
{
    spsh_plan_info *info = &plan->info;
    uint64_t narrow[3] = {info->sample_rate_hz_max, info->channels_max, plan->part_count_max};
    uint64_t *const fields[10] = {&info->microseconds,    &info->longest_microseconds,
                                  &info->skipped_count,   &info->filtered_count,
                                  &info->duration_count,  &info->too_long_count,
                                  &info->duplicate_count, &info->speaker_count,
                                  &plan->run_count,       &plan->offset_count};
    for (size_t i = 0; i < 10; i++) {
        if (load)
            *fields[i] = values[i];
        else
            values[i] = *fields[i];
    }
    if (!load) {
        memcpy(values + 10, narrow, sizeof(narrow));
        values[13] = plan->dataset_count;
        values[14] = plan->domain_count;
        return;
    }
    info->sample_rate_hz_max = (uint32_t)values[10];
    info->channels_max = (uint32_t)values[11];
    plan->part_count_max = (uint32_t)values[12];
    plan->domain_count = (uint32_t)values[14];
}

static uint64_t scan_bytes(const spsh_plan *plan, uint64_t domains, uint64_t runs, uint64_t offsets)
{
    return HEAD_BYTES + 8 * SCAN_FIELDS + (uint64_t)DATASET_BYTES * plan->dataset_count +
           DOMAIN_BYTES * domains + RUN_BYTES * runs + 2 * offsets;
}

static uint64_t run_length(const spsh_plan *plan, uint64_t run)
{
    return plan->runs[run + 1].first - plan->runs[run].first;
}

static void put_runs(cache_writer *w, const spsh_plan *plan)
{
    uint64_t place = 0;
    for (uint64_t i = 0; i < plan->run_count; i++) {
        const spsh__member_run *run = &plan->runs[i];
        put_u64(w, run->first);
        put_u64(w, run->base);
        put_u64(w, run->offsets == NULL ? SPSH_NONE_U64 : place);
        if (run->offsets != NULL)
            place += run_length(plan, i);
    }
    for (uint64_t i = 0; i < plan->run_count; i++)
        for (uint64_t n = 0; plan->runs[i].offsets != NULL && n < run_length(plan, i); n++) {
            uint32_t offset = plan->runs[i].offsets[n];
            const uint8_t bytes[2] = {(uint8_t)offset, (uint8_t)(offset >> 8)};
            put_bytes(w, bytes, sizeof(bytes));
        }
}

static uint64_t count_offsets(const spsh_plan *plan)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < plan->run_count; i++)
        if (plan->runs[i].offsets != NULL)
            count += run_length(plan, i);
    return count;
}

void spsh__cache_save_scan(const spsh_plan *plan)
{
    spsh_plan copy = *plan;
    uint64_t values[SCAN_FIELDS];
    cache_writer w;
    const key k = scan_key(plan);
    if (plan->cache_dir == NULL)
        return;
    copy.offset_count = count_offsets(plan);
    scan_fields(&copy, values, false);
    begin_file(&w, plan, &k,
               scan_bytes(plan, plan->domain_count, plan->run_count, copy.offset_count));
    for (size_t i = 0; i < SCAN_FIELDS; i++)
        put_u64(&w, values[i]);
    for (uint32_t d = 0; d < plan->dataset_count; d++) {
        put_u32(&w, plan->datasets[d].rate_hz);
        put_u32(&w, plan->datasets[d].channel_count);
    }
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        const spsh__plan_domain *of = &plan->domains[d];
        put_u32(&w, of->dataset);
        put_u32(&w, of->name);
        put_u64(&w, of->count);
        put_u64(&w, of->ticks);
        put_u64(&w, of->units);
        put_u64(&w, of->extra_items);
        put_u64(&w, of->run_count);
    }
    put_runs(&w, plan);
    end_file(&w);
}

/* Are all positions of a run inside the dataset? */
static bool run_is_good(const spsh__plan_dataset *of, const spsh__member_run *run, uint64_t length)
{
    uint64_t last = length - 1;
    if (run->base >= of->count)
        return false;
    if (run->offsets == NULL)
        return last < of->count - run->base;
    for (uint64_t n = 0; of->count - run->base < SPSH__MEMBERS_BLOCK && n < length; n++)
        if (run->offsets[n] >= of->count - run->base)
            return false;
    return true;
}

/* Load the runs of one domain, and the entry after the last, which holds the member count. */
static bool load_runs(spsh_plan *plan, const spsh__plan_domain *of, const uint8_t *from,
                      spsh__member_run *runs)
{
    for (uint64_t i = 0; i <= of->run_count; i++) {
        uint64_t place = spsh__load_u64le(from + RUN_BYTES * i + 16);
        runs[i] = (spsh__member_run){spsh__load_u64le(from + RUN_BYTES * i),
                                     spsh__load_u64le(from + RUN_BYTES * i + 8), NULL};
        if (i == of->run_count)
            return runs[i].first == of->count;
        uint64_t end = spsh__load_u64le(from + RUN_BYTES * (i + 1));
        if ((i == 0 && runs[i].first != 0) || end <= runs[i].first)
            return false;
        uint64_t length = end - runs[i].first;
        if (place != SPSH_NONE_U64) {
            if (place > plan->offset_count || length > plan->offset_count - place ||
                length > SPSH__MEMBERS_BLOCK)
                return false;
            runs[i].offsets = plan->cached_offsets + place;
        }
        if (!run_is_good(&plan->datasets[of->dataset], &runs[i], length))
            return false;
    }
    return false;
}

static bool load_domains(spsh_plan *plan, const spsh__filter *filters, const uint8_t *domains,
                         const uint8_t *runs)
{
    uint64_t run = 0;
    plan->info.utterance_count = 0;
    for (uint32_t d = 0; d < plan->domain_count; d++) {
        const uint8_t *from = domains + (size_t)DOMAIN_BYTES * d;
        spsh__plan_domain *of = &plan->domains[d];
        uint64_t run_count = spsh__load_u64le(from + 40);
        *of = (spsh__plan_domain){.dataset = spsh__load_u32le(from),
                                  .name = spsh__load_u32le(from + 4),
                                  .count = spsh__load_u64le(from + 8),
                                  .ticks = spsh__load_u64le(from + 16),
                                  .units = spsh__load_u64le(from + 24),
                                  .extra_items = spsh__load_u64le(from + 32),
                                  .run_count = (uint32_t)run_count};
        if (of->dataset >= plan->dataset_count || run_count == 0 ||
            run_count >= plan->run_count - run || run_count > UINT32_MAX ||
            (of->name != SPSH_NONE_U32 && of->name >= filters[of->dataset].domain_names) ||
            of->count == 0 || of->count > plan->datasets[of->dataset].count ||
            of->units < of->count)
            return false;
        of->runs = plan->runs + run;
        if (!load_runs(plan, of, runs + RUN_BYTES * run, plan->runs + run))
            return false;
        run += run_count + 1;
        plan->info.utterance_count += of->count;
    }
    plan->info.domain_count = plan->domain_count;
    return run == plan->run_count && plan->domain_count > 0;
}

static bool load_body(spsh_plan *plan, const spsh__filter *filters, const mapping *m)
{
    uint64_t values[SCAN_FIELDS];
    const uint8_t *at = m->data + HEAD_BYTES;
    if (m->body_bytes < scan_bytes(plan, 0, 0, 0))
        return false;
    for (size_t i = 0; i < SCAN_FIELDS; i++, at += 8)
        values[i] = spsh__load_u64le(at);
    if (values[13] != plan->dataset_count || values[8] > m->body_bytes / RUN_BYTES ||
        values[9] > m->body_bytes / 2 || values[14] > m->body_bytes / DOMAIN_BYTES ||
        values[12] == 0 || m->body_bytes != scan_bytes(plan, values[14], values[8], values[9]))
        return false;
    scan_fields(plan, values, true);
    for (uint32_t d = 0; d < plan->dataset_count; d++, at += DATASET_BYTES) {
        plan->datasets[d].rate_hz = spsh__load_u32le(at);
        plan->datasets[d].channel_count = spsh__load_u32le(at + 4);
    }
    const uint8_t *domains = at;
    const uint8_t *runs = domains + (size_t)DOMAIN_BYTES * plan->domain_count;
    /* Aligned: the mapping is page-aligned, and everything before has an even size. */
    plan->cached_offsets = (const uint16_t *)(const void *)(runs + RUN_BYTES * plan->run_count);
    plan->domains = (spsh__plan_domain *)spsh__new(&plan->allocator, plan->domain_count,
                                                   sizeof(*plan->domains));
    plan->runs = (spsh__member_run *)spsh__new(&plan->allocator, (size_t)plan->run_count,
                                               sizeof(*plan->runs));
    return plan->domains != NULL && plan->runs != NULL &&
           load_domains(plan, filters, domains, runs);
}

bool spsh__cache_load_scan(spsh_plan *plan, const spsh__filter *filters, uint32_t threads)
{
    const uint32_t one = 1;
    const key k = scan_key(plan);
    mapping m;
    /* Offsets are used in the mapping itself, so the host must be little-endian. */
    if (plan->cache_dir == NULL || *(const uint8_t *)&one != 1 || !open_file(plan, &k, threads, &m))
        return false;
    if (load_body(plan, filters, &m)) {
        plan->cache_map = m.data;
        plan->cache_map_bytes = m.size_bytes;
        return true;
    }
    spsh__free(&plan->allocator, plan->domains);
    spsh__free(&plan->allocator, plan->runs);
    plan->domains = NULL;
    plan->runs = NULL;
    plan->domain_count = 0;
    plan->run_count = 0;
    plan->offset_count = 0;
    plan->part_count_max = 0;
    plan->info = (spsh_plan_info){.utterance_count = 0};
    spsh__cache_unmap(&m);
    return false;
}

void spsh__cache_close(spsh_plan *plan)
{
    const mapping m = {plan->cache_map, plan->cache_map_bytes, 0};
    spsh__cache_unmap(&m);
}

/* ---- states ---- */

static uint64_t states_bytes(const spsh_plan *plan, const spsh__cache_states *s)
{
    return HEAD_BYTES + 16 + UINT64_C(4) * s->window_count + s->kept_count +
           UINT64_C(16) * s->kept_count * plan->domain_count;
}

void spsh__cache_save_states(const spsh_plan *plan, const spsh__cache_states *states)
{
    cache_writer w;
    const key k = states_key(plan, states->epoch);
    uint64_t count = (uint64_t)states->kept_count * plan->domain_count;
    begin_file(&w, plan, &k, states_bytes(plan, states));
    put_u32(&w, states->window_count);
    put_u32(&w, states->kept_count);
    put_u32(&w, plan->domain_count);
    put_u32(&w, 0);
    for (uint32_t i = 0; i < states->window_count; i++)
        put_u32(&w, states->batches[i]);
    put_bytes(&w, states->known, states->kept_count);
    for (uint64_t i = 0; i < count; i++) {
        put_u64(&w, states->states[i].index);
        put_u64(&w, states->states[i].served);
    }
    end_file(&w);
}

bool spsh__cache_load_states(const spsh_plan *plan, const spsh__cache_states *states)
{
    mapping m;
    const key k = states_key(plan, states->epoch);
    uint64_t count = (uint64_t)states->kept_count * plan->domain_count;
    if (!open_file(plan, &k, 1, &m))
        return false;
    const uint8_t *at = m.data + HEAD_BYTES;
    bool is_good = m.body_bytes == states_bytes(plan, states) &&
                   spsh__load_u32le(at) == states->window_count &&
                   spsh__load_u32le(at + 4) == states->kept_count &&
                   spsh__load_u32le(at + 8) == plan->domain_count;
    at += 16;
    for (uint32_t i = 0; is_good && i < states->window_count; i++, at += 4)
        states->batches[i] = spsh__load_u32le(at);
    for (uint32_t i = 0; is_good && i < states->kept_count; i++, at++)
        states->known[i] = *at == 1;
    for (uint64_t i = 0; is_good && i < count; i++, at += 16)
        states->states[i] = (spsh__domain_state){spsh__load_u64le(at), spsh__load_u64le(at + 8)};
    spsh__cache_unmap(&m);
    return is_good;
}
