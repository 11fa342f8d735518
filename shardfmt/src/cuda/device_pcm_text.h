/* device_pcm_text.h: how a block of threads decodes blocks of the codec `pcm`, in phases.
 *
 * A block of threads has PCM_TEAMS blocks of the codec, one for each team of 16 threads. Each
 * thread decodes one lane, so the 16 recursions run at once.
 *
 *     open      the head; each lane its coefficients, start, and the widths of its groups
 *     lay out   offsets of the groups: sums over a row's lanes, then over rows
 *     then, for PCM_CHUNK rows at a time,
 *     bring     the bytes of their groups, 16 at once, in storage order
 *     decode    each thread its lane: residuals, the recursion, 64 samples
 *     put       16 bytes at once, adjacent threads to adjacent addresses; and bring the next chunk
 *
 * Raw and constant blocks are put at once. No input makes a kernel access memory outside: widths
 * are clamped to 16, so the bytes fit; a byte at or after payload_bytes reads as 0; the entry,
 * which the host has made, gives the output position. An invalid block decodes to zeros.
 */
#ifndef SPSH_DEVICE_PCM_TEXT_H
#define SPSH_DEVICE_PCM_TEXT_H

#ifdef SPSH__DEVICE_THREADS
#error "before device_text.h: a block has fewer threads here"
#endif
#define SPSH__DEVICE_THREADS 64U

#include "device_pcm.h"
#include "speechshard/device_text.h"

#ifdef __CUDACC__
#define PCM_UNROLLED _Pragma("unroll")
#else
#define PCM_UNROLLED
#endif

enum {
    PCM_TEAM = 16, /* lanes */
    PCM_TEAMS = 4,
    PCM_DEVICE_ROWS = 32,
    PCM_DEVICE_ORDER = 8,
    PCM_CHUNK = 4,               /* rows */
    PCM_RUN = 16 * PCM_CHUNK,    /* samples of a lane in a chunk */
    PCM_RUN_WORDS = PCM_RUN / 2, /* plus one: lanes begin in different banks */
    PCM_QUADS = 130,             /* 16-byte units: PCM_CHUNK * 16 groups of 32 bytes, unaligned */
    PCM_KIND_PLAIN = 0,          /* value, or the samples as they are */
    PCM_KIND_RAW = 1,
    PCM_KIND_PREDICTED = 2,
};

typedef struct spsh__pcm_quad {
    uint32_t words[4];
} __attribute__((aligned(16))) spsh__pcm_quad;

/* Shared memory of one team. */
typedef struct spsh__pcm_near {
    spsh__pcm_quad in[PCM_QUADS];
    uint32_t out[PCM_TEAM][PCM_RUN_WORDS + 1]; /* two samples per word */
    uint32_t row_at[PCM_DEVICE_ROWS + 1];      /* byte offsets from group_at */
    uint16_t row_units[PCM_DEVICE_ROWS];       /* row sizes in units of 2 bytes */
    uint8_t widths[PCM_DEVICE_ROWS][PCM_TEAM];
    uint8_t units[PCM_DEVICE_ROWS][PCM_TEAM]; /* units before the group, in its row */
    int16_t coefficients[PCM_DEVICE_ORDER][PCM_TEAM];
    int16_t starts[PCM_TEAM];
    uint8_t shifts[PCM_TEAM];
    uint32_t kind, rows, zero_bits, value;
    uint32_t group_at; /* offset in the block's bytes */
} __attribute__((aligned(16))) spsh__pcm_near;

#define SPSH__PCM_SHARED_BYTES ((uint32_t)(PCM_TEAMS * sizeof(spsh__pcm_near)))

typedef struct device_pcm {
    const spsh__pcm_job *job;
    spsh__pcm_near *near; /* memory of the team */
    spsh__pcm_entry entry;
    uint32_t lane;
    bool is_there;
} device_pcm;

DEVICE device_pcm device_pcm_of(const spsh__pcm_job *job, const spsh__kernel_block *block,
                                uint32_t thread)
{
    device_pcm w;
    const uint64_t number = (uint64_t)block->x * PCM_TEAMS + thread / PCM_TEAM;
    w.job = job;
    w.near = (spsh__pcm_near *)block->shared + thread / PCM_TEAM;
    w.lane = thread % PCM_TEAM;
    w.is_there = number < job->count;
    w.entry = job->entries[w.is_there ? number : 0];
    return w;
}

/* Read a byte of the block; 0 past its end. */
DEVICE uint32_t device_pcm_byte(const device_pcm *w, uint32_t at)
{
    const uint64_t place = w->entry.payload_at + at;
    return at < w->entry.block_bytes && place < w->job->payload_bytes ? w->job->payloads[place] : 0;
}

DEVICE uint32_t device_pcm_u16(const device_pcm *w, uint32_t at)
{
    return device_pcm_byte(w, at) | device_pcm_byte(w, at + 1) << 8;
}

/* ---- open */

/* Bytes of width codes before row b. */
DEVICE uint32_t device_pcm_codes(uint32_t b)
{
    return b < 2 ? 8 * b : 16 + 4 * (b - 2);
}

DEVICE void device_pcm_read_set(const device_pcm *w, uint32_t at)
{
    w->near->shifts[w->lane] = (uint8_t)(device_pcm_byte(w, at) & 15);
    for (uint32_t k = 0; k < PCM_DEVICE_ORDER; k++) {
        const uint32_t two = device_pcm_u16(w, at + 1 + k * 12 / 8);
        const uint32_t field = k % 2 == 0 ? two & 0xfff : two >> 4;
        w->near->coefficients[k][w->lane] = (int16_t)((int32_t)(field ^ 0x800) - 0x800);
    }
}

/* Read the widths of all groups of the lane; 0 for groups after the last sample. */
DEVICE void device_pcm_read_widths(const device_pcm *w, uint32_t codes, uint32_t rows)
{
    const uint32_t first = w->lane * rows * 16;
    const uint32_t left = w->entry.count > first ? w->entry.count - first : 0;
    const uint32_t live = (left + 15) / 16;
    uint32_t width = 0;
    for (uint32_t b = 0; b < rows; b++) {
        const uint32_t at = codes + device_pcm_codes(b);
        if (b < 2) {
            const uint32_t code = device_pcm_byte(w, at + w->lane / 2) >> (w->lane % 2 * 4) & 15;
            width = code == 15 ? 16 : code;
        } else {
            const uint32_t low = device_pcm_byte(w, at + w->lane / 8) >> w->lane % 8 & 1;
            const uint32_t high = device_pcm_byte(w, at + 2 + w->lane / 8) >> w->lane % 8 & 1;
            width = (width + low + 2 * high - 1) & 0xff;
        }
        const uint32_t taken = width > 16 ? 16 : width;
        w->near->widths[b][w->lane] = (uint8_t)(b < live ? taken : 0);
    }
}

DEVICE void device_pcm_open(const spsh__pcm_job *job, const spsh__kernel_block *block,
                            uint32_t thread)
{
    const device_pcm w = device_pcm_of(job, block, thread);
    const uint32_t form = device_pcm_byte(&w, 0);
    const uint32_t flags = device_pcm_byte(&w, 1);
    const uint32_t sets_log2 = (flags & 7) < 4 ? flags & 7 : 4;
    const uint32_t starts = 2 + (13U << sets_log2);
    const uint32_t codes = starts + ((flags & 8) != 0 ? 32 : 0);
    const bool is_predicted = w.is_there && form == 2;
    const uint32_t rows = is_predicted ? (w.entry.count + 255) / 256 : 0;
    if (is_predicted && rows <= PCM_DEVICE_ROWS) {
        const uint32_t start = (flags & 8) != 0 ? device_pcm_u16(&w, starts + 2 * w.lane) : 0;
        w.near->starts[w.lane] = (int16_t)start;
        device_pcm_read_set(&w, 2 + 13 * (w.lane >> (4 - sets_log2)));
        device_pcm_read_widths(&w, codes, rows);
    }
    if (w.lane != 0)
        return;
    w.near->kind = form == 0 ? PCM_KIND_RAW : PCM_KIND_PLAIN;
    if (is_predicted && rows <= PCM_DEVICE_ROWS)
        w.near->kind = PCM_KIND_PREDICTED;
    w.near->rows = w.near->kind == PCM_KIND_PREDICTED ? rows : 0;
    w.near->zero_bits = flags >> 4;
    w.near->value = form == 1 ? device_pcm_u16(&w, 1) : 0;
    w.near->group_at = codes + device_pcm_codes(rows);
}

/* ---- lay out; and put raw and constant blocks */

DEVICE void device_pcm_sum_lanes(const spsh__kernel_block *block, uint32_t thread)
{
    spsh__pcm_near *near = (spsh__pcm_near *)block->shared + thread / PCM_TEAM;
    for (uint32_t b = thread % PCM_TEAM; b < near->rows; b += PCM_TEAM) {
        uint32_t sum = 0;
        for (uint32_t lane = 0; lane < PCM_TEAM; lane++) {
            near->units[b][lane] = (uint8_t)sum;
            sum += near->widths[b][lane];
        }
        near->row_units[b] = (uint16_t)sum;
    }
}

DEVICE void device_pcm_sum_rows(const spsh__kernel_block *block, uint32_t thread)
{
    spsh__pcm_near *near = (spsh__pcm_near *)block->shared + thread / PCM_TEAM;
    for (uint32_t b = thread % PCM_TEAM; b <= near->rows; b += PCM_TEAM) {
        uint32_t sum = 0;
        for (uint32_t before = 0; before < b; before++)
            sum += near->row_units[before];
        near->row_at[b] = 2 * sum;
    }
}

DEVICE void device_pcm_put_plain(const spsh__pcm_job *job, const spsh__kernel_block *block,
                                 uint32_t thread)
{
    const device_pcm w = device_pcm_of(job, block, thread);
    if (!w.is_there || w.near->kind == PCM_KIND_PREDICTED)
        return;
    for (uint32_t i = w.entry.from + w.lane; i < w.entry.to; i += PCM_TEAM) {
        const bool is_raw = w.near->kind == PCM_KIND_RAW;
        const uint32_t value = is_raw ? device_pcm_u16(&w, 1 + 2 * i) : w.near->value;
        const uint64_t at = w.entry.value_at + (uint64_t)(i - w.entry.from) * w.entry.stride;
        w.job->samples[at] = (int16_t)value;
    }
}

/* ---- a chunk: rows [first, first + PCM_CHUNK) */

/* The first byte of row `row`'s groups in payloads. */
DEVICE uint64_t device_pcm_row_at(const device_pcm *w, uint32_t row)
{
    return w->entry.payload_at + w->near->group_at + w->near->row_at[row];
}

DEVICE uint32_t device_pcm_chunk_end(const device_pcm *w, uint32_t first)
{
    return first + PCM_CHUNK < w->near->rows ? first + PCM_CHUNK : w->near->rows;
}

DEVICE spsh__pcm_quad device_pcm_quad(const spsh__pcm_job *job, uint64_t number)
{
    if (16 * number + 16 <= job->payload_bytes)
        return ((const spsh__pcm_quad *)(const void *)job->payloads)[number];
    spsh__pcm_quad quad;
    for (uint32_t k = 0; k < 4; k++) {
        quad.words[k] = 0;
        for (uint32_t i = 0; i < 4; i++) {
            const uint64_t place = 16 * number + 4 * k + i;
            if (place < job->payload_bytes)
                quad.words[k] |= (uint32_t)job->payloads[place] << (8 * i);
        }
    }
    return quad;
}

DEVICE void device_pcm_bring(const device_pcm *w, uint32_t first)
{
    if (first >= w->near->rows)
        return;
    const uint64_t begin = device_pcm_row_at(w, first) / 16;
    const uint64_t end = (device_pcm_row_at(w, device_pcm_chunk_end(w, first)) + 15) / 16;
    for (uint64_t i = begin + w->lane; i < end; i += PCM_TEAM)
        w->near->in[i - begin] = device_pcm_quad(w->job, i);
}

/* Read fewer than 32 bits, starting at a bit of two adjacent words. */
DEVICE uint32_t device_pcm_bits(const uint32_t *words, uint32_t bit)
{
    const uint64_t both = words[bit / 32] | (uint64_t)words[bit / 32 + 1] << 32;
    return (uint32_t)(both >> bit % 32);
}

/* Load the samples before the chunk, oldest first. */
DEVICE void device_pcm_remember(const device_pcm *w, uint32_t first, int32_t past[PCM_DEVICE_ORDER])
{
    PCM_UNROLLED
    for (uint32_t k = 0; k < PCM_DEVICE_ORDER; k++) {
        const uint32_t word = w->near->out[w->lane][PCM_RUN_WORDS - PCM_DEVICE_ORDER / 2 + k / 2];
        past[k] = first == 0 ? w->near->starts[w->lane] : (int16_t)(word >> (16 * (k % 2)));
    }
}

DEVICE void device_pcm_decode(const spsh__pcm_job *job, const spsh__kernel_block *block,
                              uint32_t first, uint32_t thread)
{
    const device_pcm w = device_pcm_of(job, block, thread);
    if (first >= w.near->rows)
        return;
    const uint32_t *in = w.near->in[0].words;
    const uint32_t begin = (uint32_t)(device_pcm_row_at(&w, first) % 16);
    const uint32_t shift = w.near->shifts[w.lane];
    const uint32_t end = device_pcm_chunk_end(&w, first);
    int32_t past[PCM_DEVICE_ORDER], c[PCM_DEVICE_ORDER];
    device_pcm_remember(&w, first, past);
    PCM_UNROLLED
    for (uint32_t k = 0; k < PCM_DEVICE_ORDER; k++)
        c[k] = w.near->coefficients[k][w.lane];
    for (uint32_t b = first; b < end; b++) {
        const uint32_t width = w.near->widths[b][w.lane];
        const uint32_t mask = (1U << width) - 1;
        uint32_t bit =
            8 * (begin + w.near->row_at[b] - w.near->row_at[first] + 2U * w.near->units[b][w.lane]);
        uint32_t *out = w.near->out[w.lane] + 8 * (b - first);
        PCM_UNROLLED
        for (uint32_t t = 0; t < 16; t++, bit += width) {
            uint32_t sum = 0;
            PCM_UNROLLED
            for (uint32_t k = 0; k < PCM_DEVICE_ORDER; k++) /* the newest sample last */
                sum += (uint32_t)(c[PCM_DEVICE_ORDER - 1 - k] * past[(t + k) % PCM_DEVICE_ORDER]);
            const uint32_t residual = (device_pcm_bits(in, bit) & mask) - (mask >> 1);
            past[t % PCM_DEVICE_ORDER] = (int16_t)(residual + (sum >> shift));
            if (t % 2 == 1)
                out[t / 2] = ((uint32_t)past[(t - 1) % PCM_DEVICE_ORDER] & 0xffff) |
                             (uint32_t)past[t % PCM_DEVICE_ORDER] << 16;
        }
    }
}

/* Store eight samples from i on, from four words of two samples each. */
DEVICE void device_pcm_put_eight(const device_pcm *w, const uint32_t *words, uint32_t i)
{
    const uint32_t zero_bits = w->near->zero_bits;
    const uint32_t kept = (0xffffU << zero_bits & 0xffffU) * 0x10001U;
    const uint64_t at = w->entry.value_at + (uint64_t)i - w->entry.from;
    spsh__pcm_quad quad;
    for (uint32_t k = 0; k < 4; k++)
        quad.words[k] = words[k] << zero_bits & kept;
    if (w->entry.stride == 1 && at % 8 == 0 && i >= w->entry.from && i + 8 <= w->entry.to) {
        *(spsh__pcm_quad *)(void *)(w->job->samples + at) = quad;
        return;
    }
    for (uint32_t k = 0; k < 8; k++) {
        if (i + k < w->entry.from || i + k >= w->entry.to)
            continue;
        const uint64_t place =
            w->entry.value_at + (uint64_t)(i + k - w->entry.from) * w->entry.stride;
        w->job->samples[place] = (int16_t)(quad.words[k / 2] >> (16 * (k % 2)));
    }
}

DEVICE void device_pcm_put(const spsh__pcm_job *job, const spsh__kernel_block *block,
                           uint32_t first, uint32_t thread)
{
    const device_pcm w = device_pcm_of(job, block, thread);
    if (first >= w.near->rows)
        return;
    const uint32_t eights = 2 * (device_pcm_chunk_end(&w, first) - first); /* per lane */
    for (uint32_t at = w.lane; at < PCM_TEAM * PCM_RUN / 8; at += PCM_TEAM) {
        const uint32_t lane = at / (PCM_RUN / 8);
        const uint32_t eight = at % (PCM_RUN / 8);
        if (eight < eights)
            device_pcm_put_eight(&w, w.near->out[lane] + 4 * eight,
                                 16 * (lane * w.near->rows + first) + 8 * eight);
    }
    device_pcm_bring(&w, first + PCM_CHUNK);
}

DEVICE void device_pcm_begin(const spsh__pcm_job *job, const spsh__kernel_block *block,
                             uint32_t thread)
{
    const device_pcm w = device_pcm_of(job, block, thread);
    device_pcm_bring(&w, 0);
    device_pcm_put_plain(job, block, thread);
}

DEVICE void spsh__kernel_pcm(const spsh__pcm_job *job, const spsh__kernel_block *block)
{
    const spsh__pcm_near *near = (const spsh__pcm_near *)block->shared;
    EACH_THREAD(block, device_pcm_open(job, block, thread));
    EACH_THREAD(block, device_pcm_sum_lanes(block, thread));
    EACH_THREAD(block, device_pcm_sum_rows(block, thread));
    EACH_THREAD(block, device_pcm_begin(job, block, thread));
    uint32_t rows = 0;
    for (uint32_t team = 0; team < PCM_TEAMS; team++)
        rows = near[team].rows > rows ? near[team].rows : rows;
    for (uint32_t first = 0; first < rows; first += PCM_CHUNK) {
        EACH_THREAD(block, device_pcm_decode(job, block, first, thread));
        EACH_THREAD(block, device_pcm_put(job, block, first, thread));
    }
}

#endif
