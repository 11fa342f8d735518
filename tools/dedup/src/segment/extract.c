/* extract.c: one pass over the samples of an utterance computes its whole segment entry.
 *
 *     reader, 32 bits ─┬─ digests
 *                      ├─ chunks
 *                      └─ 16 bits ─┬─ products of pairs of channels
 *                                  ├─ mix ─┬─ print 0
 *                                  │       └─ bandwidth
 *                                  └─ channels ── prints 1 ... n, of 2 to 8 channels
 *
 * Only the end of the utterance shows whether the channels differ. So the prints of the channels
 * are always made, and they are dropped if no pair correlates less than 0.98. A silent channel
 * counts as equal to any other, because its print would find nothing. Sums of products are exact
 * within a piece. Pieces have a fixed size and are added in order, so all machines decide equally.
 */
#include "extract.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "canonical.h"
#include "chunker.h"
#include "common/hash.h"
#include "fingerprint/bandwidth.h"
#include "fingerprint/resample8k.h"
#include "print_mix.h"
#include "speechshard/inside.h"

enum {
    PIECE_VALUES = 1 << 15, /* decoded at once: fits the processor's second cache */
    CHANNELS_MAX = 8,       /* channels with separate prints */
    PRINTS_MAX = CHANNELS_MAX + 1,
    FRAMES_KEPT = 1 << 20, /* frame capacity that a print keeps between utterances: 4.6 h */
};

static const double alike = 0.98;

struct spsh__extractor {
    const spsh_dataset *dataset;
    spsh_reader *reader;
    spsh__canonical *canonical;
    spsh__chunker *chunker;
    spsh__bandwidth *bandwidth;
    uint32_t rate_hz; /* sample rate of the makers */
    spsh__fingerprint *makers[PRINTS_MAX];
    spsh__print prints[PRINTS_MAX];
    uint32_t print_channels[PRINTS_MAX];
    size_t print_count; /* prints in progress; 0: prints do not support the rate */
    double products[CHANNELS_MAX][CHANNELS_MAX];
    int32_t wide[PIECE_VALUES];
    int16_t narrow[PIECE_VALUES];
    int16_t mono[PIECE_VALUES];
};

spsh_status spsh__extractor_open(const spsh_dataset *dataset, spsh__extractor **ret_extractor,
                                 spsh_error *err)
{
    spsh__extractor *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return SPSH_NO_MEMORY(err);
    x->dataset = dataset;
    for (uint32_t i = 0; i < PRINTS_MAX; i++)
        x->print_channels[i] = i;
    spsh_status rc = spsh_reader_open(dataset, &x->reader, err);
    if (rc == SPSH_OK)
        rc = spsh__canonical_new(&x->canonical, err);
    if (rc == SPSH_OK)
        rc = spsh__chunker_new(&x->chunker, err);
    if (rc == SPSH_OK)
        rc = spsh__bandwidth_new(&x->bandwidth, err);
    if (rc != SPSH_OK) {
        spsh__extractor_close(x);
        return rc;
    }
    *ret_extractor = x;
    return SPSH_OK;
}

static void free_makers(spsh__extractor *x)
{
    for (size_t i = 0; i < PRINTS_MAX; i++) {
        spsh__fingerprint_free(x->makers[i]);
        x->makers[i] = NULL;
    }
}

void spsh__extractor_close(spsh__extractor *extractor)
{
    if (extractor == NULL)
        return;
    free_makers(extractor);
    for (size_t i = 0; i < PRINTS_MAX; i++)
        spsh__print_free(&extractor->prints[i]);
    spsh__bandwidth_free(extractor->bandwidth);
    spsh__chunker_free(extractor->chunker);
    spsh__canonical_free(extractor->canonical);
    spsh_reader_close(extractor->reader);
    free(extractor);
}

/* ---- prints ---- */

static void clear_print(spsh__print *print)
{
    if (print->frame_capacity > FRAMES_KEPT)
        spsh__print_free(print);
    print->frame_count = 0;
    print->key_count = 0;
}

static spsh_status begin_prints(spsh__extractor *x, uint32_t rate_hz, uint32_t channels,
                                spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    x->print_count = 0;
    memset(x->products, 0, sizeof(x->products));
    for (size_t i = 0; i < PRINTS_MAX; i++)
        clear_print(&x->prints[i]);
    if (rate_hz < SPSH__PRINT_RATE_HZ || rate_hz > SPSH__SOURCE_RATE_MAX)
        return SPSH_OK;
    if (rate_hz != x->rate_hz)
        free_makers(x);
    x->rate_hz = rate_hz;
    x->print_count = channels >= 2 && channels <= CHANNELS_MAX ? channels + 1 : 1;
    for (size_t i = 0; i < x->print_count && rc == SPSH_OK; i++)
        if (x->makers[i] == NULL)
            rc = spsh__fingerprint_new(rate_hz, spsh__print_collect(&x->prints[i]), &x->makers[i],
                                       err);
    return rc;
}

/* Add the products of all pairs of channels. Sums over a piece stay below 2^46, so they are exact
 * as doubles. */
static void add_products(spsh__extractor *x, size_t count, uint32_t channels)
{
    for (uint32_t a = 0; a < channels; a++) {
        for (uint32_t b = a; b < channels; b++) {
            int64_t sum = 0;
            for (size_t i = 0; i < count; i++)
                sum += (int64_t)x->narrow[i * channels + a] * x->narrow[i * channels + b];
            x->products[a][b] += (double)sum;
        }
    }
}

static bool channels_differ(const spsh__extractor *x, uint32_t channels)
{
    for (uint32_t a = 0; a < channels; a++) {
        for (uint32_t b = a + 1; b < channels; b++) {
            const double power = x->products[a][a] * x->products[b][b];
            if (power > 0.0 && x->products[a][b] < alike * sqrt(power))
                return true;
        }
    }
    return false;
}

static spsh_status push_prints(spsh__extractor *x, size_t count, uint32_t channels, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__mix_narrow(x->wide, count * channels, x->narrow);
    if (x->print_count > 1)
        add_products(x, count, channels);
    for (size_t i = x->print_count; i-- > 0 && rc == SPSH_OK;) {
        spsh__mix_channel(x->narrow, count, channels, (uint32_t)i, x->mono);
        rc = spsh__fingerprint_push(x->makers[i], x->mono, count, err);
    }
    if (x->print_count == 0)
        spsh__mix_channel(x->narrow, count, channels, 0, x->mono);
    spsh__bandwidth_push(x->bandwidth, x->mono, count); /* the mix was extracted last */
    return rc;
}

/* Finish all prints, also after a failed decode, so that the makers accept the next utterance. */
static spsh_status finish_prints(spsh__extractor *x, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < x->print_count && rc == SPSH_OK; i++)
        rc = spsh__fingerprint_finish(x->makers[i], err);
    if (rc != SPSH_OK)
        free_makers(x);
    return rc;
}

/* ---- an utterance ---- */

static spsh_status decode(spsh__extractor *x, uint64_t position, const spsh_row *row,
                          spsh_error *err)
{
    const size_t capacity = PIECE_VALUES / row->channels;
    spsh_status rc = SPSH_OK;
    for (uint64_t done = 0; done < row->samples && rc == SPSH_OK;) {
        uint64_t count = 0;
        rc = spsh_reader_read_i32(x->reader, position, done, x->wide, capacity, &count, err);
        if (rc != SPSH_OK)
            break;
        spsh__canonical_push(x->canonical, x->wide, (size_t)count);
        rc = spsh__chunker_push(x->chunker, x->wide, (size_t)count, err);
        if (rc == SPSH_OK)
            rc = push_prints(x, (size_t)count, row->channels, err);
        done += count;
    }
    return rc;
}

static uint32_t active_ms(const spsh__print *print)
{
    uint64_t active = 0;
    for (size_t i = 0; i < print->frame_count; i++)
        active += print->frames[i].is_active;
    active *= 1000 * SPSH__PRINT_HOP / SPSH__PRINT_RATE_HZ;
    return active < UINT32_MAX ? (uint32_t)active : UINT32_MAX;
}

static spsh_status take_results(spsh__extractor *x, const spsh_row *row, spsh__segment_entry *entry,
                                spsh_error *err)
{
    spsh__digests digests;
    spsh_status rc = spsh__chunker_finish(x->chunker, &entry->chunks, &entry->chunk_count, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__canonical_finish(x->canonical, &digests);
    memcpy(entry->row.pcm_full, digests.full, 16);
    memcpy(entry->row.pcm_trim, digests.trim, 16);
    memcpy(entry->row.pcm_mono, digests.mono, 16);
    entry->row.trim_first = digests.trim_first;
    entry->row.trim_count = digests.trim_count;
    entry->row.clipped_count = digests.clipped_count;
    entry->row.bandwidth_hz = spsh__bandwidth_finish(x->bandwidth);
    entry->row.active_ms = x->print_count > 0 ? active_ms(&x->prints[0]) : 0;
    entry->row.flags |= SPSH__ROW_DECODED;
    entry->print_count =
        x->print_count > 1 && !channels_differ(x, row->channels) ? 1 : x->print_count;
    return SPSH_OK;
}

/* Compute all fields except the id, which is already set. */
static spsh_status extract(spsh__extractor *x, uint64_t position, const spsh_row *row,
                           spsh__segment_entry *entry, spsh_error *err)
{
    const spsh_record *record = NULL;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh_reader_record(x->reader, position, &record, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__segment_row *result = &entry->row;
    result->sample_rate_hz = row->sample_rate_hz;
    result->channels = row->channels;
    result->samples = row->samples;
    memcpy(result->payload_hash, record->payload_hash, 16);
    if (row->start_sample == 0 && row->samples == record->samples)
        result->flags |= SPSH__ROW_WHOLE;
    if ((row->codec == SPSH_CODEC_WAV || row->codec == SPSH_CODEC_FLAC ||
         row->codec == SPSH_CODEC_PCM) &&
        record->bits_per_sample != 0)
        result->flags |= SPSH__ROW_LOSSLESS;
    if (record->samples > 0) {
        const uint64_t bps = record->payload_bytes * 8 * record->sample_rate_hz / record->samples;
        result->payload_bps = bps < UINT32_MAX ? (uint32_t)bps : UINT32_MAX;
    }
    spsh__canonical_begin(x->canonical, row->sample_rate_hz, row->channels);
    spsh__bandwidth_begin(x->bandwidth, row->sample_rate_hz, row->samples);
    rc = spsh__chunker_begin(x->chunker, row->sample_rate_hz, row->channels, err);
    if (rc == SPSH_OK)
        rc = begin_prints(x, row->sample_rate_hz, row->channels, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_status decoded = decode(x, position, row, &why);
    if (decoded != SPSH_OK && decoded != SPSH_E_AUDIO) {
        free_makers(x); /* the error may come from a maker */
        return spsh__fail_again(decoded, &why, err);
    }
    rc = finish_prints(x, err);
    return rc != SPSH_OK || decoded != SPSH_OK ? rc : take_results(x, row, entry, err);
}

spsh_status spsh__extractor_run(spsh__extractor *extractor, uint64_t position,
                                spsh__segment_entry *ret_entry, spsh_error *err)
{
    spsh__extractor *x = extractor;
    spsh__segment_entry entry = {.prints = x->prints, .channels = x->print_channels};
    spsh_row row;
    spsh_utterance utterance;
    spsh_status rc = spsh_dataset_rows(x->dataset, position, 1, &row, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(x->reader, position, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__pack_hash128(utterance.id, entry.row.id_key);
    if ((row.flags & SPSH_UTTERANCE_HAS_TEXT) != 0)
        entry.row.flags |= SPSH__ROW_HAS_TEXT;
    if (row.duplicate_of != SPSH_NONE_U64)
        entry.row.flags |= SPSH__ROW_ALIAS;
    else
        rc = extract(x, position, &row, &entry, err);
    if (rc == SPSH_OK)
        *ret_entry = entry;
    return rc;
}
