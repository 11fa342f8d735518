/* exact_pcm.c: samples of two utterances side by side, and readers of them for threads.
 *
 * Pieces grow from 2,048 samples, because most stretches end soon after the chunk that suggested
 * them. Backwards, a stretch is read piece by piece from its end, but each piece is read forwards.
 */
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "exact_internal.h"
#include "set/set_readers.h"
#include "speechshard/inside.h"

enum { PIECE_VALUES = 65536, PIECE_FIRST = 2048 };

struct spsh__exact_reader {
    const spsh__print_set *set;
    spsh__set_readers readers[2]; /* one for a, one for b; each continues at its last position */
    int32_t pcm[2][PIECE_VALUES];
    spsh__chunk *chunks[2];
    size_t chunk_capacity[2];
    uint64_t chunks_of[2]; /* ordinals whose chunks are loaded */
};

spsh_status spsh__exact_reader_open(const spsh__print_set *set, spsh__exact_reader **ret_reader,
                                    spsh_error *err)
{
    spsh__exact_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return SPSH_NO_MEMORY(err);
    reader->set = set;
    reader->chunks_of[0] = reader->chunks_of[1] = SPSH_NONE_U64;
    spsh_status rc = spsh__set_readers_open(set, &reader->readers[0], err);
    if (rc == SPSH_OK)
        rc = spsh__set_readers_open(set, &reader->readers[1], err);
    if (rc != SPSH_OK) {
        spsh__exact_reader_free(reader);
        return rc;
    }
    *ret_reader = reader;
    return SPSH_OK;
}

void spsh__exact_reader_free(spsh__exact_reader *reader)
{
    if (reader == NULL)
        return;
    for (size_t i = 0; i < 2; i++) {
        spsh__set_readers_close(&reader->readers[i]);
        free(reader->chunks[i]);
    }
    free(reader);
}

spsh_status spsh__exact_reader_chunks(spsh__exact_reader *reader, int which,
                                      const spsh__exact_row *row, const spsh__chunk **ret_chunks,
                                      spsh_error *err)
{
    const size_t count = (size_t)row->row.chunk_count;
    if (reader->chunks_of[which] != row->source) {
        reader->chunks_of[which] = SPSH_NONE_U64;
        if (!SPSH_GROW(reader->chunks[which], reader->chunk_capacity[which], count))
            return SPSH_NO_MEMORY(err);
        spsh_status rc =
            spsh__print_set_chunks(reader->set, row->source, reader->chunks[which], err);
        if (rc != SPSH_OK)
            return rc;
        reader->chunks_of[which] = row->source;
    }
    *ret_chunks = reader->chunks[which];
    return SPSH_OK;
}

static spsh_status read_piece(spsh__exact_reader *reader, int which, const spsh__exact_row *row,
                              uint64_t first, uint64_t count, spsh_error *err)
{
    spsh_reader *from = NULL;
    uint64_t position = 0;
    uint64_t got = 0;
    spsh_status rc =
        spsh__set_readers_find(&reader->readers[which], row->ordinal, &from, &position, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_read_i32(from, position, first, reader->pcm[which], count, &got, err);
    if (rc == SPSH_OK && got != count)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "an utterance is shorter than its segment states");
    return rc;
}

/* Compare one frame of the samples that were read. */
static bool is_frame_equal(const spsh__exact_reader *reader, const spsh__exact_span *span,
                           uint64_t at)
{
    const uint32_t a_channels = span->a->row.channels;
    const uint32_t b_channels = span->b->row.channels;
    const int32_t *a = reader->pcm[0] + at * a_channels;
    const int32_t *b = reader->pcm[1] + at * b_channels;
    const uint32_t most = a_channels > b_channels ? a_channels : b_channels;
    for (uint32_t c = 0; c < most; c++)
        if (a[a_channels == 1 ? 0 : c] != b[b_channels == 1 ? 0 : c])
            return false;
    return true;
}

/* Count the equal frames among the count frames that were read, from the first forward or from the
 * last backward. */
static uint64_t count_equal(const spsh__exact_reader *reader, const spsh__exact_span *span,
                            uint64_t count, bool backwards)
{
    const uint32_t channels = span->a->row.channels;
    uint64_t equal = 0;
    if (channels == span->b->row.channels && /* fast path, the usual case */
        memcmp(reader->pcm[0], reader->pcm[1],
               (size_t)count * channels * sizeof(reader->pcm[0][0])) == 0)
        return count;
    while (equal < count && is_frame_equal(reader, span, backwards ? count - equal - 1 : equal))
        equal++;
    return equal;
}

static bool can_compare(const spsh__segment_row *a, const spsh__segment_row *b)
{
    return a->channels > 0 && b->channels > 0 && a->sample_rate_hz == b->sample_rate_hz &&
           (a->channels == b->channels || a->channels == 1 || b->channels == 1);
}

spsh_status spsh__exact_equal(spsh__exact_reader *reader, const spsh__exact_span *span,
                              bool backwards, uint64_t *ret_count, spsh_error *err)
{
    const spsh__segment_row *a = &span->a->row;
    const spsh__segment_row *b = &span->b->row;
    uint64_t done = 0;
    uint64_t piece = PIECE_FIRST;
    *ret_count = 0;
    if (!can_compare(a, b))
        return SPSH_OK;
    const uint64_t most = PIECE_VALUES / (a->channels > b->channels ? a->channels : b->channels);
    while (done < span->count) {
        piece = piece < most ? piece : most;
        const uint64_t some = span->count - done < piece ? span->count - done : piece;
        const uint64_t a_first = backwards ? span->a_at - done - some : span->a_at + done;
        const uint64_t b_first = backwards ? span->b_at - done - some : span->b_at + done;
        spsh_status rc = read_piece(reader, 0, span->a, a_first, some, err);
        if (rc == SPSH_OK)
            rc = read_piece(reader, 1, span->b, b_first, some, err);
        if (rc != SPSH_OK)
            return rc;
        const uint64_t equal = count_equal(reader, span, some, backwards);
        done += equal;
        *ret_count = done;
        if (equal < some)
            return SPSH_OK;
        piece *= 2;
    }
    return SPSH_OK;
}

/* ---- threads ---- */

spsh_status spsh__exact_team_open(const spsh__print_set *set, uint32_t threads,
                                  spsh__exact_team *ret_team, spsh_error *err)
{
    const uint32_t count = threads > 0 ? threads : 1;
    spsh_status rc = SPSH_OK;
    *ret_team = (spsh__exact_team){NULL, 0};
    ret_team->readers = calloc(count, sizeof(spsh__exact_reader *));
    if (ret_team->readers == NULL)
        return SPSH_NO_MEMORY(err);
    while (rc == SPSH_OK && ret_team->count < count) {
        rc = spsh__exact_reader_open(set, &ret_team->readers[ret_team->count], err);
        ret_team->count += rc == SPSH_OK;
    }
    return rc;
}

void spsh__exact_team_close(spsh__exact_team *team)
{
    for (uint32_t i = 0; i < team->count; i++)
        spsh__exact_reader_free(team->readers[i]);
    free((void *)team->readers);
    *team = (spsh__exact_team){0};
}
