/* backend_cuda_loss.c: softmax, cross-entropy, and CTC: the arguments and results of the kernels of
 * kernels_loss.h. Logarithms of losses are computed here, in double, as on the CPU.
 */
#include <math.h>
#include <stdlib.h>

#include "backend/ctc.h"
#include "backend_cuda.h"

enum {
    PARTS_MAX = 64,
    GROUP_LOG2_MAX = 8,
    NEAR_BYTES_MAX = 48 * 1024, /* shared memory per block that every device has */
    CHUNK_MAX = 64,
    SPILL_CHUNK = 8,
    SCRATCH_TABLE = 0,
    SCRATCH_ROWS = 1,
    SCRATCH_ALPHA = 2,
    SCRATCH_FOUND = 3,
};

_Static_assert(SPSH__DEVICE_THREADS == 1U << GROUP_LOG2_MAX, "a row has at most a block");

#define LN2 0.69314718055994530942

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Threads for a row: about eight elements each. */
static uint32_t group_log2(uint32_t width)
{
    uint32_t log2 = 0;
    while (log2 < GROUP_LOG2_MAX && (width >> log2) > 8)
        log2++;
    return log2;
}

static uint32_t row_blocks(uint64_t rows, uint32_t log2)
{
    const uint64_t rows_per_block = SPSH__DEVICE_THREADS >> log2;
    return (uint32_t)((rows + rows_per_block - 1) / rows_per_block);
}

static double product_log(const spsh__loss_product *product)
{
    return log(product->value) + (double)product->power * LN2;
}

/* ---- log softmax */

void spsh__cuda_log_softmax(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer x,
                            spsh__backend_buffer y)
{
    const uint32_t log2 = group_log2(width);
    const spsh__softmax_job job = {spsh__cuda_array(b, x), spsh__cuda_array(b, y), rows, width,
                                   log2};
    const spsh__device_use uses[] = {spsh__cuda_reads(x, rows * width),
                                     spsh__cuda_writes(y, rows * width)};
    if (rows == 0 || width == 0)
        return;
    spsh__cuda_launch(b, &(spsh__kernel_launch){.kernel = SPSH__KERNEL_LOG_SOFTMAX,
                                                .blocks_x = row_blocks(rows, log2),
                                                .blocks_y = 1,
                                                .shared_bytes = SPSH__LOSS_ROW_BYTES,
                                                SPSH__CUDA_JOB(&job, uses, 2)});
}

/* ---- argmax */

typedef struct argmax_taker {
    uint32_t *to;
    size_t rows;
} argmax_taker;

static void take_places(const void *user, const void *bytes)
{
    const argmax_taker *taker = user;
    memcpy(taker->to, bytes, taker->rows * sizeof(*taker->to));
}

void spsh__cuda_argmax(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer x,
                       uint32_t *ret)
{
    const uint32_t log2 = group_log2(width);
    const size_t found_bytes = rows * sizeof(*ret);
    if (rows == 0 || width == 0)
        return;
    uint32_t *found = spsh__cuda_scratch(b, SCRATCH_ROWS, found_bytes);
    if (found == NULL)
        return;
    const spsh__argmax_job job = {spsh__cuda_array(b, x), found, rows, width, log2};
    const spsh__device_use uses[] = {
        spsh__cuda_reads(x, rows * width), {found, found_bytes, 1}
    };
    spsh__cuda_launch(b, &(spsh__kernel_launch){.kernel = SPSH__KERNEL_ARGMAX,
                                                .blocks_x = row_blocks(rows, log2),
                                                .blocks_y = 1,
                                                .shared_bytes = SPSH__LOSS_ROW_BYTES,
                                                SPSH__CUDA_JOB(&job, uses, 2)});
    argmax_taker taker = {.rows = rows};
    taker.to = ret;
    spsh__cuda_download(b, found, found_bytes, take_places, &taker, sizeof(taker));
}

/* ---- cross-entropy */

typedef struct entropy_taker {
    spsh__cross_entropy *c;
    size_t parts;
} entropy_taker;

static void take_parts(const void *user, const void *bytes)
{
    const entropy_taker *taker = user;
    const spsh__entropy_sum *sums = bytes;
    taker->c->loss = 0;
    taker->c->right = 0;
    for (size_t i = 0; i < taker->parts; i++) {
        taker->c->loss += sums[i].gaps + product_log(&sums[i].sums);
        taker->c->right += sums[i].right;
    }
}

static void take_rows(const void *user, const void *bytes)
{
    const entropy_taker *taker = user;
    const spsh__entropy_row *rows = bytes;
    for (size_t i = 0; i < taker->c->rows; i++)
        taker->c->row_losses[i] =
            (double)rows[i].most - (double)rows[i].own + log((double)rows[i].sum);
}

static void sum_entropy(spsh__backend *b, spsh__cross_entropy *c, const spsh__entropy_row *found)
{
    const uint64_t part_rows = (c->rows + PARTS_MAX - 1) / PARTS_MAX;
    const uint32_t parts = (uint32_t)((c->rows + part_rows - 1) / part_rows);
    const size_t part_bytes = parts * sizeof(spsh__entropy_sum);
    spsh__entropy_sum *sums = spsh__cuda_scratch(b, SCRATCH_FOUND, part_bytes);
    if (sums == NULL)
        return;
    const spsh__entropy_sums_job job = {found, sums, c->rows, part_rows};
    const spsh__device_use uses[] = {
        {found, c->rows * sizeof(*found), 0},
        {sums,  part_bytes,               1}
    };
    spsh__cuda_launch(b, &(spsh__kernel_launch){.kernel = SPSH__KERNEL_ENTROPY_SUMS,
                                                .blocks_x = parts,
                                                .blocks_y = 1,
                                                .shared_bytes = SPSH__ENTROPY_BYTES,
                                                SPSH__CUDA_JOB(&job, uses, 2)});
    const entropy_taker taker = {c, parts};
    spsh__cuda_download(b, sums, part_bytes, take_parts, &taker, sizeof(taker));
    if (c->row_losses != NULL)
        spsh__cuda_download(b, found, c->rows * sizeof(*found), take_rows, &taker, sizeof(taker));
}

void spsh__cuda_cross_entropy(spsh__backend *b, spsh__cross_entropy *c)
{
    c->loss = 0;
    c->right = 0;
    if (c->rows == 0 || c->width == 0)
        return;
    const uint32_t log2 = group_log2(c->width);
    const size_t state_bytes = c->rows * sizeof(*c->states);
    uint32_t *states = spsh__cuda_scratch(b, SCRATCH_TABLE, state_bytes);
    spsh__entropy_row *found =
        spsh__cuda_scratch(b, SCRATCH_ROWS, c->rows * sizeof(spsh__entropy_row));
    if (states == NULL || found == NULL)
        return;
    spsh__cuda_upload(b, states, c->states, state_bytes);
    const spsh__entropy_job job = {.x = spsh__cuda_array(b, c->logits),
                                   .dx = spsh__cuda_array(b, c->dlogits),
                                   .states = states,
                                   .found = found,
                                   .rows = c->rows,
                                   .width = c->width,
                                   .group_log2 = log2,
                                   .scale = (float)c->scale};
    const spsh__device_use uses[] = {
        spsh__cuda_reads(c->logits, c->rows * c->width),
        {states, state_bytes,              0},
        {found,  c->rows * sizeof(*found), 1},
        spsh__cuda_writes(c->dlogits, c->rows * c->width),
    };
    spsh__cuda_launch(
        b, &(spsh__kernel_launch){.kernel = SPSH__KERNEL_CROSS_ENTROPY,
                                  .blocks_x = row_blocks(c->rows, log2),
                                  .blocks_y = 1,
                                  .shared_bytes = SPSH__LOSS_ROW_BYTES,
                                  SPSH__CUDA_JOB(&job, uses, c->dlogits.data != NULL ? 4 : 3)});
    sum_entropy(b, c, found);
}

/* ---- CTC: the table */

typedef struct ctc_call {
    spsh__backend *b;
    const spsh__ctc_shape *s;
    const uint32_t *lengths;
    const spsh__label_batch *labels;
    const spsh__ctc_io *io;
    spsh__ctc_item *items; /* batch, then words: one block of the host's memory */
    uint32_t *words;
    uint64_t *sorted; /* labels of one utterance */
    size_t word_count, table_bytes;
    uint64_t pairs, spill_bytes;
    uint32_t shared_bytes, label_count_max;
    uint8_t *alpha; /* followed by data that does not fit into shared memory */
    uint64_t alpha_bytes;
} ctc_call;

static uint32_t labels_of(const ctc_call *call, size_t n)
{
    return call->labels->offsets[n + 1] - call->labels->offsets[n];
}

/* Maximum number of words of an utterance: kernels_loss.h. */
static size_t words_max(uint32_t label_count)
{
    return 2 * ((size_t)label_count + 1) + 1 + 2 * (size_t)label_count;
}

static bool open_table(ctc_call *call)
{
    const spsh_allocator *allocator = &call->b->allocator;
    size_t words = 0;
    for (size_t n = 0; n < call->s->batch; n++) {
        const uint32_t count = labels_of(call, n);
        words += words_max(count);
        call->label_count_max = count > call->label_count_max ? count : call->label_count_max;
    }
    const size_t sorted_bytes = ((size_t)call->label_count_max + 1) * sizeof(*call->sorted);
    const size_t item_bytes = call->s->batch * sizeof(*call->items);
    uint8_t *block = allocator->alloc_fn(allocator->user,
                                         item_bytes + sorted_bytes + words * sizeof(*call->words));
    if (block == NULL) {
        spsh_error err = {.status = SPSH_E_NO_MEMORY,
                          .message = "backend cuda: labels of a batch: out of memory"};
        spsh__cuda_failed(call->b, SPSH_E_NO_MEMORY, &err);
        return false;
    }
    call->sorted = (uint64_t *)(void *)block;
    call->items = (spsh__ctc_item *)(void *)(block + sorted_bytes);
    call->words = (uint32_t *)(void *)(block + sorted_bytes + item_bytes);
    return true;
}

static int compare_places(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Write the words of an utterance (kernels_loss.h). Returns symbol_count. */
static uint32_t put_words(const ctc_call *call, const uint32_t *labels, uint32_t count,
                          uint32_t *words)
{
    uint32_t symbols = 1;
    for (uint32_t i = 0; i < count; i++)
        call->sorted[i] = (uint64_t)labels[i] << 32 | i;
    qsort(call->sorted, count, sizeof(*call->sorted), compare_places);
    for (uint32_t i = 0; i < count; i++)
        symbols += i == 0 || call->sorted[i] >> 32 != call->sorted[i - 1] >> 32;
    uint32_t *begins = words + symbols;
    uint32_t *order = begins + symbols + 1;
    uint32_t *slots = order + count;
    uint32_t d = 0;
    words[0] = call->s->blank;
    begins[0] = 0;
    begins[1] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t symbol = (uint32_t)(call->sorted[i] >> 32);
        const uint32_t place = (uint32_t)call->sorted[i];
        if (i == 0 || call->sorted[i - 1] >> 32 != symbol)
            words[++d] = symbol;
        begins[d + 1] = i + 1;
        order[i] = place;
        slots[place] = 2 * d + (place > 0 && labels[place - 1] != symbol);
    }
    return symbols;
}

/* Choose as many frames per chunk as fit into shared memory. */
static void choose_memory(ctc_call *call, spsh__ctc_item *item)
{
    const uint64_t none = SPSH__CTC_FIXED_BYTES + spsh__ctc_near_bytes(item, 0);
    const uint64_t frame = spsh__ctc_near_bytes(item, 1) - spsh__ctc_near_bytes(item, 0);
    item->spill_at = UINT64_MAX;
    if (none + frame <= NEAR_BYTES_MAX) {
        const uint64_t chunk = (NEAR_BYTES_MAX - none) / frame;
        item->chunk = chunk < CHUNK_MAX ? (uint32_t)chunk : CHUNK_MAX;
        const uint32_t bytes = (uint32_t)(none + item->chunk * frame);
        call->shared_bytes = bytes > call->shared_bytes ? bytes : call->shared_bytes;
        return;
    }
    item->chunk = SPILL_CHUNK;
    item->spill_at = call->spill_bytes;
    call->spill_bytes += aligned(spsh__ctc_near_bytes(item, SPILL_CHUNK));
}

static void put_item(ctc_call *call, size_t n)
{
    const spsh__ctc_shape *s = call->s;
    const double weight = call->io->weights == NULL ? 1 : call->io->weights[n];
    const uint32_t frames = call->lengths[n] < s->frames ? call->lengths[n] : s->frames;
    const uint32_t *labels = call->labels->labels + call->labels->offsets[n];
    const spsh__ctc_utterance u = {.frames = frames,
                                   .symbols = s->symbols,
                                   .blank = s->blank,
                                   .labels = labels,
                                   .label_count = labels_of(call, n)};
    spsh__ctc_item item = {.frames = frames, .words_at = call->word_count};
    item.is_feasible = spsh__ctc_frames_min(&u) <= frames;
    call->io->results[n] = (spsh__ctc_result){(double)INFINITY, item.is_feasible == 0};
    if (item.is_feasible != 0) {
        uint32_t *words = call->words + call->word_count;
        item.label_count = u.label_count;
        item.is_learnt = call->io->dlogits.data != NULL && weight != 0;
        item.scale = (float)(s->scale * weight);
        item.symbol_count = put_words(call, labels, u.label_count, words);
        item.alpha_at = call->pairs;
        call->pairs += (uint64_t)frames * (u.label_count + 1);
        call->word_count += 2 * (size_t)item.symbol_count + 1 + 2 * (size_t)u.label_count;
        choose_memory(call, &item);
    }
    call->items[n] = item;
}

/* ---- CTC: the work */

typedef struct ctc_taker {
    spsh__ctc_result *results;
    size_t batch;
} ctc_taker;

static double loss_of(const spsh__ctc_found *found)
{
    const double blank = (double)found->blank.e;
    const double label = (double)found->label.e;
    const double greatest = blank > label ? blank : label;
    if (found->is_bad != 0)
        return (double)NAN;
    if (greatest < (double)CTC_NOTHING / 2)
        return (double)INFINITY;
    const double mantissa = (double)found->blank.m * exp2(blank - greatest) +
                            (double)found->label.m * exp2(label - greatest);
    return product_log(&found->sums) - log(mantissa) - greatest * LN2;
}

static void take_found(const void *user, const void *bytes)
{
    const ctc_taker *taker = user;
    const spsh__ctc_found *found = bytes;
    for (size_t n = 0; n < taker->batch; n++) {
        if (!taker->results[n].is_infeasible)
            taker->results[n].loss = loss_of(&found[n]);
    }
}

static void launch_ctc(const ctc_call *call, const spsh__ctc_job *job)
{
    spsh__backend *b = call->b;
    const uint64_t rows = (uint64_t)job->frames * job->batch;
    const bool has_gradient = job->dx.data != NULL;
    const uint32_t longest =
        call->label_count_max > job->symbols ? call->label_count_max : job->symbols;
    const spsh__device_use uses[] = {
        spsh__cuda_reads(call->io->logits, rows * job->symbols),
        {job->items,  call->table_bytes,                0},
        {job->rows,   rows * sizeof(*job->rows),        1},
        {job->found,  job->batch * sizeof(*job->found), 1},
        {call->alpha, call->alpha_bytes,                1},
        spsh__cuda_writes(call->io->dlogits, rows * job->symbols),
    };
    spsh__ctc_job copy = *job;
    spsh__kernel_launch l = {.kernel = SPSH__KERNEL_CTC_ROWS,
                             .blocks_x = row_blocks(rows, job->group_log2),
                             .blocks_y = 1,
                             .shared_bytes = SPSH__LOSS_ROW_BYTES,
                             SPSH__CUDA_JOB(&copy, uses, 3)};
    if (rows > 0)
        spsh__cuda_launch(b, &l);
    l.kernel = SPSH__KERNEL_CTC_STATES;
    l.blocks_x = job->batch;
    l.shared_bytes = call->shared_bytes;
    l.use_count = 5;
    spsh__cuda_launch(b, &l);
    if (!has_gradient || rows == 0)
        return;
    copy.group_log2 = group_log2(longest);
    l.kernel = SPSH__KERNEL_CTC_GRADIENT;
    l.blocks_x = row_blocks(rows, copy.group_log2);
    l.shared_bytes = SPSH__LOSS_ROW_BYTES;
    l.use_count = 6;
    spsh__cuda_launch(b, &l);
}

static void run_ctc(ctc_call *call)
{
    const spsh__ctc_shape *s = call->s;
    spsh__backend *b = call->b;
    const uint64_t rows = (uint64_t)s->frames * s->batch;
    const size_t item_bytes = s->batch * sizeof(*call->items);
    if (call->io->dlogits.data == NULL)
        call->pairs = 0;
    call->table_bytes = item_bytes + call->word_count * sizeof(*call->words);
    const uint64_t spill_at = aligned(call->pairs * sizeof(spsh__ctc_pair));
    uint8_t *table = spsh__cuda_scratch(b, SCRATCH_TABLE, call->table_bytes);
    spsh__ctc_row *found_rows =
        spsh__cuda_scratch(b, SCRATCH_ROWS, (rows + 1) * sizeof(*found_rows));
    call->alpha_bytes = spill_at + call->spill_bytes + 256;
    call->alpha = spsh__cuda_scratch(b, SCRATCH_ALPHA, call->alpha_bytes);
    spsh__ctc_found *found =
        spsh__cuda_scratch(b, SCRATCH_FOUND, s->batch * sizeof(spsh__ctc_found));
    if (table == NULL || found_rows == NULL || call->alpha == NULL || found == NULL)
        return;
    spsh__cuda_upload(b, table, call->items, call->table_bytes);
    const spsh__ctc_job job = {
        .x = spsh__cuda_array(b, call->io->logits),
        .dx = spsh__cuda_array(b, call->io->dlogits),
        .items = (const spsh__ctc_item *)(void *)table,
        .words = (const uint32_t *)(void *)(table + item_bytes),
        .rows = found_rows,
        .alpha = call->pairs > 0 ? (spsh__ctc_pair *)(void *)call->alpha : NULL,
        .found = found,
        .spill = call->alpha + spill_at,
        .frames = s->frames,
        .batch = s->batch,
        .symbols = s->symbols,
        .group_log2 = group_log2(s->symbols),
    };
    launch_ctc(call, &job);
    const ctc_taker taker = {call->io->results, s->batch};
    spsh__cuda_download(b, found, s->batch * sizeof(*found), take_found, &taker, sizeof(taker));
}

void spsh__cuda_ctc(spsh__backend *b, const spsh__ctc_shape *s, const uint32_t *lengths,
                    const spsh__label_batch *labels, const spsh__ctc_io *io)
{
    ctc_call call = {.b = b, .s = s, .lengths = lengths, .labels = labels, .io = io};
    call.shared_bytes = SPSH__CTC_FIXED_BYTES;
    if (s->batch == 0 || spsh__cuda_has_failed(b) || !open_table(&call))
        return;
    for (size_t n = 0; n < s->batch; n++)
        put_item(&call, n);
    run_ctc(&call);
    spsh__free(&b->allocator, call.sorted);
}
