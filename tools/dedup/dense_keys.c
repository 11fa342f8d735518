/* dense_keys.c: decodes one channel of an utterance in pieces and keeps its dense keys. */
#include "dense_keys.h"

#include <stdlib.h>

#include "fail.h"
#include "mix.h"

enum { PIECE = 16384 }; /* samples of a channel */

typedef struct key_list {
    spsh__dense_key *keys;
    size_t count, capacity;
} key_list;

static spsh_status take_key(void *user, const spsh__dense_key *key, spsh_error *err)
{
    key_list *list = user;
    if (list->count == list->capacity) {
        const size_t larger = list->capacity == 0 ? 256 : 2 * list->capacity;
        spsh__dense_key *grown = realloc(list->keys, larger * sizeof(*grown));
        if (grown == NULL)
            return SPSH_DEDUP_NO_MEMORY(err);
        list->keys = grown;
        list->capacity = larger;
    }
    list->keys[list->count++] = *key;
    return SPSH_OK;
}

static spsh_status feed(spsh__fingerprint *maker, spsh_reader *reader, uint64_t position,
                        const spsh_row *row, uint32_t channel, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    int16_t *pcm = calloc((size_t)PIECE * row->channels, sizeof(*pcm));
    if (pcm == NULL)
        return SPSH_DEDUP_NO_MEMORY(err);
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

spsh_status spsh__dense_keys_make(const spsh__print_set *set, spsh_reader *reader, uint64_t print,
                                  spsh__dense_key **ret_keys, size_t *ret_count, spsh_error *err)
{
    spsh__set_print whose;
    size_t dataset = 0;
    uint64_t position = 0;
    spsh_row row;
    key_list list = {NULL, 0, 0};
    spsh__fingerprint *maker = NULL;
    const spsh__print_sink sink = {.dense_fn = take_key, .user = &list};

    spsh_status rc = spsh__print_set_print(set, print, &whose, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__print_set_place(set, whose.utterance, &dataset, &position);
    rc = spsh_dataset_rows(spsh__print_set_dataset(set, dataset), position, 1, &row, err);
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_new(row.sample_rate_hz, sink, &maker, err);
    if (rc == SPSH_OK)
        rc = feed(maker, reader, position, &row, whose.channel, err);
    spsh__fingerprint_free(maker);
    if (rc != SPSH_OK) {
        free(list.keys);
        return rc;
    }
    *ret_keys = list.keys;
    *ret_count = list.count;
    return SPSH_OK;
}
