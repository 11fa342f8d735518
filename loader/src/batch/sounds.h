/* sounds.h: noises and room impulse responses (RIRs), called sounds here. They are utterances of
 * datasets, and a random fraction selects one.
 *
 * The thread that needs a sound reads it, through the page cache. It reads only a part: as much of
 * a noise as the utterance is long, and the first SPSH_LOADER_ROOM_SECONDS of an RIR.
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
    uint64_t utterance_count; /* in all datasets; 0: there are no sounds */
    uint32_t rate_hz_max;
} spsh__sounds;

/* Copies the list, and borrows the datasets. dataset_count may be 0. */
spsh_status spsh__sounds_open(spsh__sounds *sounds, const char *what,
                              const spsh_dataset *const *datasets, uint32_t dataset_count,
                              const spsh_allocator *allocator, spsh_error *err);
void spsh__sounds_close(spsh__sounds *sounds);

/* Find the utterance that a fraction selects. There must be a sound. Returns the number of its
 * dataset. */
uint32_t spsh__sounds_find(const spsh__sounds *sounds, spsh_fraction which,
                           const spsh_dataset **ret_dataset, uint64_t *ret_position);

/* The readers and buffers of one thread. */
typedef struct spsh__sound_reader {
    const spsh__sounds *sounds; /* NULL: not open */
    spsh__budget *budget;
    spsh_reader **readers; /* per dataset; opened at the first use */
    uint8_t *chunk;        /* samples of all channels; [SPSH__CHUNK_BYTES] */
    int16_t *stored;       /* one channel at the stored rate */
    int16_t *pcm;          /* one channel, resampled */
    uint64_t stored_max, pcm_max;
} spsh__sound_reader;

/* The result of a read; empty if the sound is empty. */
typedef struct spsh__sound {
    const int16_t *pcm; /* borrowed until the next read */
    uint64_t sample_count;
    uint64_t start; /* index of the first sample to use; the sound then repeats */
} spsh__sound;

/* seconds_max: maximum length that is read of a sound. rate_hz_max: maximum rate of the batches. */
spsh_status spsh__sound_reader_open(spsh__sound_reader *reader, const spsh__sounds *sounds,
                                    double seconds_max, uint32_t rate_hz_max, spsh__budget *budget,
                                    spsh_error *err);
void spsh__sound_reader_close(spsh__sound_reader *reader);

/* Read sample_count samples of the drawn noise at rate_hz, from its drawn start on, wrapping around
 * at its end. A shorter noise is read whole, and ret_sound->start is the drawn start. Errors name
 * the utterance. */
spsh_status spsh__sound_read_noise(spsh__sound_reader *reader, const spsh_augment_draw *draw,
                                   uint32_t rate_hz, uint64_t sample_count, spsh__sound *ret_sound,
                                   spsh_error *err);

/* Maximum number of samples of an RIR at a rate. */
uint64_t spsh__room_samples_max(uint32_t rate_hz);

/* Read the drawn RIR. */
spsh_status spsh__sound_read_room(spsh__sound_reader *reader, const spsh_augment_draw *draw,
                                  uint32_t rate_hz, spsh__sound *ret_sound, spsh_error *err);

#endif
