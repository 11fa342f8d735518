/* sounds.h: noises and room responses: utterances of datasets, of which a fraction names one.
 *
 * They are read by the thread that needs them, through the page cache, and only as much as is
 * needed: of a noise so much as the utterance is long, of a room response its first
 * SPSH_LOADER_ROOM_SECONDS.
 */
#ifndef SPSH_SOUNDS_H
#define SPSH_SOUNDS_H

#include "slot.h"

/* Datasets of sounds; fixed after open. */
typedef struct spsh__sounds {
    const char *what; /* "noise", "room"; for messages */
    const spsh_allocator *allocator;
    const spsh_dataset **datasets;
    uint32_t dataset_count;
    uint64_t utterance_count; /* of all datasets; 0: there are none */
    uint32_t rate_hz_max;
} spsh__sounds;

/* Keeps the list, borrows the datasets. None are fine. */
spsh_status spsh__sounds_open(spsh__sounds *sounds, const char *what,
                              const spsh_dataset *const *datasets, uint32_t dataset_count,
                              const spsh_allocator *allocator, spsh_error *err);
void spsh__sounds_close(spsh__sounds *sounds);

/* Which utterance a fraction names. There must be one. Returns the number of its dataset. */
uint32_t spsh__sounds_find(const spsh__sounds *sounds, spsh_fraction which,
                           const spsh_dataset **ret_dataset, uint64_t *ret_position);

/* One thread's readers and room. */
typedef struct spsh__sound_reader {
    const spsh__sounds *sounds; /* NULL: not open */
    spsh__budget *budget;
    spsh_reader **readers; /* by dataset; opened when first needed */
    uint8_t *chunk;        /* samples of all channels; SPSH__CHUNK_BYTES */
    int16_t *stored;       /* one channel, as stored */
    int16_t *pcm;          /* resampled */
    uint64_t stored_max, pcm_max;
} spsh__sound_reader;

/* What was read; empty when the sound is. */
typedef struct spsh__sound {
    const int16_t *pcm; /* borrowed until the next read */
    uint64_t sample_count;
    uint64_t start; /* where it begins; then it is repeated */
} spsh__sound;

/* seconds_max: of what is ever wanted of a sound; rate_hz_max: of the batches. */
spsh_status spsh__sound_reader_open(spsh__sound_reader *reader, const spsh__sounds *sounds,
                                    double seconds_max, uint32_t rate_hz_max, spsh__budget *budget,
                                    spsh_error *err);
void spsh__sound_reader_close(spsh__sound_reader *reader);

/* Of the noise that which names, so many samples at rate_hz, from the place that start names on,
 * round and round. One that is shorter comes whole, with the place to begin at. Errors name the
 * utterance. */
spsh_status spsh__sound_read_noise(spsh__sound_reader *reader, const spsh_augment_draw *draw,
                                   uint32_t rate_hz, uint64_t sample_count, spsh__sound *ret_sound,
                                   spsh_error *err);

/* Of a room response, at that rate. */
uint64_t spsh__room_samples_max(uint32_t rate_hz);

/* The room response that the draw names. */
spsh_status spsh__sound_read_room(spsh__sound_reader *reader, const spsh_augment_draw *draw,
                                  uint32_t rate_hz, spsh__sound *ret_sound, spsh_error *err);

#endif
