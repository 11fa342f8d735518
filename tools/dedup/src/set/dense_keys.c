/* dense_keys.c: decode one channel of an utterance in pieces, and collect the keys or words of each
 * frame.
 */
#include "dense_keys.h"

#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "segment/print_mix.h"
#include "speechshard/inside.h"

enum { PIECE = 16384 }; /* samples of a channel */

/* List of dense keys or of words. */
typedef struct list {
    void *items;
    size_t count, capacity;
} list;

static spsh_status append(list *to, const void *item, size_t size_bytes, spsh_error *err)
{
    if (!spsh__grow_array(&to->items, &to->capacity, to->count + 1, size_bytes))
        return SPSH_NO_MEMORY(err);
    memcpy((uint8_t *)to->items + to->count++ * size_bytes, item, size_bytes);
    return SPSH_OK;
}

static spsh_status take_key(void *user, const spsh__dense_key *key, spsh_error *err)
{
    return append(user, key, sizeof(*key), err);
}

static spsh_status take_word(void *user, const spsh__weak_word *word, spsh_error *err)
{
    return append(user, word, sizeof(*word), err);
}

static spsh_status feed(spsh__fingerprint *maker, spsh_reader *reader, uint64_t position,
                        const spsh_row *row, uint32_t channel, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    int16_t *pcm = calloc((size_t)PIECE * row->channels, sizeof(*pcm));
    if (pcm == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint64_t at = 0; rc == SPSH_OK && at < row->samples;) {
        uint64_t got = 0;
        rc = spsh_reader_read_i16(reader, position, at, pcm, PIECE, &got, err);
        if (rc != SPSH_OK || got == 0)
            break;
        spsh__mix_channel(pcm, (size_t)got, row->channels, channel, pcm);
        rc = spsh__fingerprint_push(maker, pcm, (size_t)got, err);
        at += got;
    }
    free(pcm);
    return rc == SPSH_OK ? spsh__fingerprint_finish(maker, err) : rc;
}

static spsh_status make(const spsh__print_set *set, spsh_reader *reader, uint64_t print,
                        spsh__print_sink sink, spsh_error *err)
{
    spsh__set_print whose;
    spsh_row row;
    spsh__fingerprint *maker = NULL;

    spsh_status rc = spsh__print_set_print(set, print, &whose, err);
    if (rc == SPSH_OK)
        rc = spsh__print_set_index_row(set, whose.utterance, &row, err);
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_new(row.sample_rate_hz, sink, &maker, err);
    if (rc == SPSH_OK)
        rc = feed(maker, reader, spsh__print_set_place(set, whose.utterance).position, &row,
                  whose.channel, err);
    spsh__fingerprint_free(maker);
    return rc;
}

spsh_status spsh__dense_keys_make(const spsh__print_set *set, spsh_reader *reader, uint64_t print,
                                  spsh__dense_key **ret_keys, size_t *ret_count, spsh_error *err)
{
    list keys = {NULL, 0, 0};
    const spsh__print_sink sink = {.dense_fn = take_key, .user = &keys};
    const spsh_status rc = make(set, reader, print, sink, err);
    if (rc != SPSH_OK) {
        free(keys.items);
        return rc;
    }
    *ret_keys = keys.items;
    *ret_count = keys.count;
    return SPSH_OK;
}

spsh_status spsh__weak_words_make(const spsh__print_set *set, spsh_reader *reader, uint64_t print,
                                  spsh__weak_word **ret_words, size_t *ret_count, spsh_error *err)
{
    list words = {NULL, 0, 0};
    const spsh__print_sink sink = {.word_fn = take_word, .user = &words};
    const spsh_status rc = make(set, reader, print, sink, err);
    if (rc != SPSH_OK) {
        free(words.items);
        return rc;
    }
    *ret_words = words.items;
    *ret_count = words.count;
    return SPSH_OK;
}
