/* sort128.c: half of the memory holds records, the other half is scratch space for the radix sort.
 * Full buffers become runs, which are merged. Both halves grow with the number of added records.
 *
 *     add ... add   buffer full -> radix sort -> a run of blocks in a spill file
 *     next          nothing spilled: the sorted buffer itself
 *                   else: one block per run in memory, a tree of losers selects the minimum
 *
 * A block is 1/256 of the memory (16 KiB to 256 KiB), so one merge reads up to 250 runs of 128
 * blocks each: 125 times the memory. If there are more runs, groups of runs are merged into a
 * second file first, starting with the last runs of the first file. The first file is truncated
 * after each group, so the disk holds all records plus one group. At 64 MiB, a second level is
 * needed from 7.8 GiB on.
 */
#include "sort128.h"

#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "speechshard/inside.h"
#include "spill.h"

enum {
    MEMORY_MIN = 1 << 20,
    BLOCKS_IN_MEMORY = 256,
    BLOCK_BYTES_MIN = 16 << 10,
    BLOCK_BYTES_MAX = 256 << 10,
    RECORD_BYTES = sizeof(spsh__u128),
};

typedef struct run {
    uint64_t first_block;
    uint64_t count; /* capacity in records */
    uint32_t file;
} run;

/* A run that is being merged. */
typedef struct head {
    spsh__u128 *block;
    size_t at, filled;
    uint64_t next_block;
    uint64_t left; /* records of the run that are not in memory yet */
    uint32_t file;
    bool is_over;
} head;

struct spsh__sort128 {
    const spsh_io *io;
    char *temporary_path;
    uint64_t memory_bytes;
    uint32_t threads;
    uint64_t count;
    uint64_t spilled_bytes;

    spsh__u128 *records;
    spsh__u128 *scratch;
    size_t filled;
    size_t capacity, capacity_max; /* current and maximum capacity of `records` */
    size_t block_records;

    spsh__spill *files[2];
    run *runs;
    size_t run_count, run_capacity;
    size_t merge_max; /* maximum number of runs per merge */

    bool is_reading;
    bool is_over;
    spsh_status failure;
    spsh__u128 *memory; /* merge buffers: one output block, then one block per run */
    head *heads;
    uint32_t *losers; /* losers[0] is the winner */
    size_t head_count;
};

spsh_status spsh__sort128_open(const spsh__sort128_options *options, spsh__sort128 **ret_sort,
                               spsh_error *err)
{
    if (options->memory_bytes < MEMORY_MIN || options->threads == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "sorting needs at least 1 MiB and one thread");
    spsh__sort128 *sort = calloc(1, sizeof(*sort));
    if (sort == NULL)
        return SPSH_NO_MEMORY(err);
    uint64_t block_bytes = options->memory_bytes / BLOCKS_IN_MEMORY / RECORD_BYTES * RECORD_BYTES;
    if (block_bytes < BLOCK_BYTES_MIN)
        block_bytes = BLOCK_BYTES_MIN;
    if (block_bytes > BLOCK_BYTES_MAX)
        block_bytes = BLOCK_BYTES_MAX;
    sort->io = options->io;
    sort->memory_bytes = options->memory_bytes;
    sort->threads = options->threads;
    sort->block_records = (size_t)(block_bytes / RECORD_BYTES) - 1; /* one record is the seal */
    sort->capacity_max = (size_t)(options->memory_bytes / 2 / RECORD_BYTES);
    sort->capacity_max -= sort->capacity_max % sort->block_records;
    sort->merge_max = (size_t)(options->memory_bytes / (block_bytes + 64)) - 2;
    sort->temporary_path = strdup(options->temporary_path);
    if (sort->temporary_path == NULL) {
        spsh__sort128_free(sort);
        return SPSH_NO_MEMORY(err);
    }
    *ret_sort = sort;
    return SPSH_OK;
}

static void drop_memory(spsh__sort128 *sort)
{
    free(sort->records);
    free(sort->scratch);
    free(sort->memory);
    free(sort->heads);
    free(sort->losers);
    sort->records = NULL;
    sort->scratch = NULL;
    sort->memory = NULL;
    sort->heads = NULL;
    sort->losers = NULL;
}

void spsh__sort128_free(spsh__sort128 *sort)
{
    if (sort == NULL)
        return;
    drop_memory(sort);
    spsh__spill_close(sort->files[0]);
    spsh__spill_close(sort->files[1]);
    free(sort->runs);
    free(sort->temporary_path);
    free(sort);
}

bool spsh__sort128_clear(spsh__sort128 *sort)
{
    if (sort->run_count > 0 || sort->failure != SPSH_OK)
        return false;
    sort->count = 0;
    sort->filled = 0;
    sort->is_reading = false;
    sort->is_over = false;
    return true;
}

static spsh_status write_block(spsh__sort128 *sort, uint32_t file, const spsh__u128 *records,
                               size_t count, uint64_t *ret_block, spsh_error *err)
{
    sort->spilled_bytes += (count + 1) * RECORD_BYTES;
    return spsh__spill_write(sort->files[file], records, count, ret_block, err);
}

static spsh_status open_file(spsh__sort128 *sort, uint32_t file, spsh_error *err)
{
    return sort->files[file] != NULL
               ? SPSH_OK
               : spsh__spill_open(sort->io, sort->temporary_path, sort->block_records,
                                  &sort->files[file], err);
}

static spsh_status sort_buffer(spsh__sort128 *sort, spsh_error *err)
{
    if (sort->scratch == NULL)
        sort->scratch = malloc(sort->capacity * RECORD_BYTES);
    if (sort->scratch == NULL)
        return SPSH_NO_MEMORY(err);
    return spsh__radix_sort128(sort->records, sort->scratch, sort->filled, sort->threads, err);
}

static spsh_status add_run(spsh__sort128 *sort, run added, spsh_error *err)
{
    if (!SPSH_GROW(sort->runs, sort->run_capacity, sort->run_count + 1))
        return SPSH_NO_MEMORY(err);
    sort->runs[sort->run_count++] = added;
    return SPSH_OK;
}

static spsh_status spill_buffer(spsh__sort128 *sort, spsh_error *err)
{
    spsh_status rc = open_file(sort, 0, err);
    if (rc == SPSH_OK)
        rc = sort_buffer(sort, err);
    run written = {.count = sort->filled};
    for (size_t at = 0; rc == SPSH_OK && at < sort->filled; at += sort->block_records) {
        const size_t left = sort->filled - at;
        uint64_t block = 0;
        rc = write_block(sort, 0, sort->records + at,
                         left < sort->block_records ? left : sort->block_records, &block, err);
        if (at == 0)
            written.first_block = block;
    }
    if (rc == SPSH_OK)
        rc = add_run(sort, written, err);
    sort->filled = 0;
    return rc;
}

/* Grow the buffer to `wanted` records, limited by sort->capacity_max. */
static spsh_status grow(spsh__sort128 *sort, size_t wanted, spsh_error *err)
{
    size_t capacity = sort->capacity == 0 ? sort->block_records : sort->capacity;
    while (capacity < wanted && capacity < sort->capacity_max)
        capacity *= 2;
    if (capacity > sort->capacity_max)
        capacity = sort->capacity_max;
    if (capacity == sort->capacity)
        return SPSH_OK;
    spsh__u128 *grown = realloc(sort->records, capacity * RECORD_BYTES);
    if (grown == NULL)
        return SPSH_NO_MEMORY(err);
    free(sort->scratch); /* too small now */
    sort->scratch = NULL;
    sort->records = grown;
    sort->capacity = capacity;
    return SPSH_OK;
}

spsh_status spsh__sort128_add(spsh__sort128 *sort, const spsh__u128 *records, size_t count,
                              spsh_error *err)
{
    spsh_status rc = SPSH_OK;

    if (sort->is_reading)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "records were added after the first read");
    if (sort->failure != SPSH_OK)
        return SPSH_FAIL(err, sort->failure, "an earlier call of the sort failed");
    sort->count += count;
    while (rc == SPSH_OK && count > 0) {
        if (sort->filled + count > sort->capacity)
            rc = grow(sort, sort->filled + count, err);
        if (rc != SPSH_OK)
            break;
        const size_t space = sort->capacity - sort->filled;
        const size_t taken = count < space ? count : space;
        memcpy(sort->records + sort->filled, records, taken * RECORD_BYTES);
        sort->filled += taken;
        records += taken;
        count -= taken;
        if (sort->filled == sort->capacity_max)
            rc = spill_buffer(sort, err);
    }
    sort->failure = rc;
    return rc;
}

/* Read the next block of a run, or mark the end of the run. */
static spsh_status fill_head(spsh__sort128 *sort, head *from, spsh_error *err)
{
    from->at = 0;
    from->filled = from->left < sort->block_records ? (size_t)from->left : sort->block_records;
    if (from->filled == 0) {
        from->is_over = true;
        return SPSH_OK;
    }
    from->left -= from->filled;
    return spsh__spill_read(sort->files[from->file], from->next_block++, from->block, from->filled,
                            err);
}

static bool head_is_less(const head *a, const head *b)
{
    if (a->is_over || b->is_over)
        return !a->is_over;
    return spsh__u128_less(&a->block[a->at], &b->block[b->at]);
}

/* Replay the matches of run `winner` from its leaf to the root. The losers stay in the inner nodes.
 */
static void replay(spsh__sort128 *sort, uint32_t winner)
{
    for (size_t node = (winner + sort->head_count) / 2; node > 0; node /= 2) {
        const uint32_t other = sort->losers[node];
        if (head_is_less(&sort->heads[other], &sort->heads[winner])) {
            sort->losers[node] = winner;
            winner = other;
        }
    }
    sort->losers[0] = winner;
}

/* Return the winner below a node. Leaves are head_count to 2 head_count - 1. Recursion depth:
 * log2(head_count). */
static uint32_t first_game(spsh__sort128 *sort, size_t node)
{
    if (node >= sort->head_count)
        return (uint32_t)(node - sort->head_count);
    const uint32_t left = first_game(sort, 2 * node);
    const uint32_t right = first_game(sort, 2 * node + 1);
    const bool is_right = head_is_less(&sort->heads[right], &sort->heads[left]);
    sort->losers[node] = is_right ? left : right;
    return is_right ? right : left;
}

/* Set up a merge of the last `count` runs. */
static spsh_status begin_merge(spsh__sort128 *sort, size_t count, spsh_error *err)
{
    const size_t block = sort->block_records + 1;
    spsh_status rc = SPSH_OK;

    drop_memory(sort);
    sort->memory = malloc((count + 1) * block * RECORD_BYTES);
    sort->heads = calloc(count, sizeof(*sort->heads));
    sort->losers = calloc(count, sizeof(*sort->losers));
    if (sort->memory == NULL || sort->heads == NULL || sort->losers == NULL)
        return SPSH_NO_MEMORY(err);
    sort->head_count = count;
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        const run *from = &sort->runs[sort->run_count - count + i];
        sort->heads[i] = (head){.block = sort->memory + (i + 1) * block,
                                .next_block = from->first_block,
                                .left = from->count,
                                .file = from->file};
        rc = fill_head(sort, &sort->heads[i], err);
    }
    if (rc == SPSH_OK)
        sort->losers[0] = first_game(sort, 1);
    return rc;
}

/* Merge one block of output. *ret_count is 0 at the end. */
static spsh_status merge_block(spsh__sort128 *sort, size_t *ret_count, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t count = 0;
    while (rc == SPSH_OK && count < sort->block_records) {
        head *winner = &sort->heads[sort->losers[0]];
        if (winner->is_over)
            break;
        sort->memory[count++] = winner->block[winner->at++];
        if (winner->at == winner->filled)
            rc = fill_head(sort, winner, err);
        replay(sort, sort->losers[0]);
    }
    *ret_count = count;
    return rc;
}

/* Merge the last `count` runs, all in one file, into one run in the other file. */
static spsh_status merge_group(spsh__sort128 *sort, size_t count, run *ret_run, spsh_error *err)
{
    const size_t first = sort->run_count - count;
    const uint32_t from = sort->runs[first].file;
    run made = {.file = 1 - from};
    size_t filled = 0;

    spsh_status rc = open_file(sort, made.file, err);
    if (rc == SPSH_OK)
        rc = begin_merge(sort, count, err);
    while (rc == SPSH_OK) {
        uint64_t block = 0;
        rc = merge_block(sort, &filled, err);
        if (rc != SPSH_OK || filled == 0)
            break;
        rc = write_block(sort, made.file, sort->memory, filled, &block, err);
        if (made.count == 0)
            made.first_block = block;
        made.count += filled;
    }
    if (rc == SPSH_OK)
        rc = spsh__spill_cut(sort->files[from], sort->runs[first].first_block, err);
    sort->run_count = first;
    *ret_run = made;
    return rc;
}

/* Merge one level: groups of runs, from the last run on, until one merge can take all remaining
 * runs. All runs are in one file at the start, and also at the end unless one merge suffices. */
static spsh_status merge_level(spsh__sort128 *sort, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t made_count = 0;
    run *made = calloc(sort->run_count / 2 + 1, sizeof(*made));
    if (made == NULL)
        return SPSH_NO_MEMORY(err);
    while (rc == SPSH_OK && sort->run_count > 0 && sort->run_count + made_count > sort->merge_max) {
        /* Merge only as many runs as the limit of one merge requires. */
        const size_t excess = sort->run_count + made_count - sort->merge_max + 1;
        size_t count = excess < sort->merge_max ? excess : sort->merge_max;
        if (count > sort->run_count)
            count = sort->run_count;
        rc = merge_group(sort, count, &made[made_count++], err);
    }
    for (size_t i = 0; rc == SPSH_OK && i < made_count; i++)
        rc = add_run(sort, made[i], err);
    free(made);
    return rc;
}

static spsh_status start_reading(spsh__sort128 *sort, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    sort->is_reading = true;
    if (sort->run_count == 0)
        return sort->filled > 0 ? sort_buffer(sort, err) : SPSH_OK;
    if (sort->filled > 0)
        rc = spill_buffer(sort, err);
    drop_memory(sort);
    while (rc == SPSH_OK && sort->run_count > sort->merge_max)
        rc = merge_level(sort, err);
    return rc == SPSH_OK ? begin_merge(sort, sort->run_count, err) : rc;
}

spsh_status spsh__sort128_next(spsh__sort128 *sort, const spsh__u128 **ret_records,
                               size_t *ret_count, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t count = 0;

    if (sort->failure != SPSH_OK)
        return SPSH_FAIL(err, sort->failure, "an earlier call of the sort failed");
    if (!sort->is_reading)
        rc = start_reading(sort, err);
    if (rc == SPSH_OK && sort->is_over)
        return SPSH_E_END;
    if (rc == SPSH_OK && sort->run_count > 0) {
        rc = merge_block(sort, &count, err);
        *ret_records = sort->memory;
    } else if (rc == SPSH_OK) {
        count = sort->filled;
        *ret_records = sort->records;
        sort->is_over = true;
    }
    sort->failure = rc;
    if (rc != SPSH_OK)
        return rc;
    if (count == 0) {
        sort->is_over = true;
        return SPSH_E_END;
    }
    *ret_count = count;
    return SPSH_OK;
}

uint64_t spsh__sort128_count(const spsh__sort128 *sort)
{
    return sort->count;
}

uint64_t spsh__sort128_spilled_bytes(const spsh__sort128 *sort)
{
    return sort->spilled_bytes;
}
