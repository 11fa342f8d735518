/* device_tables.h: the tables of a featgen in one allocation, so that one copy moves them to a
 * device.
 */
#ifndef SPSH_DEVICE_TABLES_H
#define SPSH_DEVICE_TABLES_H

#include "device_job.h"

/* Position of the next table. Every element has four bytes. */
typedef struct spsh__device_place {
    char *from; /* NULL: nothing is copied, only sizes are counted */
    char *base; /* base of pointers into the allocation */
    size_t used_bytes;
} spsh__device_place;

/* Copy count elements. Returns their later address. */
static inline void *spsh__device_put(spsh__device_place *place, const void *elements, size_t count)
{
    const size_t at = place->used_bytes;
    place->used_bytes += count * sizeof(float);
    if (place->from == NULL || count == 0)
        return NULL;
    memcpy(place->from + at, elements, count * sizeof(float));
    return place->base + at;
}

/**
 * Copy all tables to memory, and make a copy of `tables` whose pointers point into base instead.
 *
 * @param memory  host memory of as many bytes as are returned; NULL: only count them
 * @param base    later address of memory's bytes on the device, aligned for floats
 */
static inline size_t spsh__device_tables(const spsh__frame_tables *tables, void *memory, void *base,
                                         spsh__frame_tables *moved)
{
    const spsh__fft_plan *plan = &tables->fft;
    const spsh__mel_bank *bank = &tables->mels;
    const size_t unpack_count = plan->is_paired ? (size_t)plan->point_count / 2 + 1 : 0;
    const size_t row_count = bank->row_count;
    const size_t cosine_count = (size_t)tables->features.cepstrum_count * row_count;
    const bool has_dct = tables->features.kind == SPSH_FEATURE_MFCC;
    spsh__device_place place = {(char *)memory, (char *)base, 0};
    *moved = *tables;
    moved->window = (float *)spsh__device_put(&place, tables->window, tables->window_samples);
    for (uint32_t i = 0; i < plan->pass_count; i++) {
        const spsh__fft_pass *pass = &plan->passes[i];
        const size_t turns = (size_t)2 * (pass->step - 1) * (pass->radix - 1);
        moved->fft.passes[i].twiddles =
            (const float *)spsh__device_put(&place, pass->twiddles, turns);
        moved->fft.passes[i].circle = (const float *)spsh__device_put(
            &place, pass->circle, pass->circle != NULL ? (size_t)2 * pass->radix : 0);
    }
    moved->fft.places = (uint32_t *)spsh__device_put(&place, plan->places, plan->point_count);
    moved->fft.unpack = (float *)spsh__device_put(&place, plan->unpack, 2 * unpack_count);
    moved->fft.memory = NULL;
    moved->mels.first_bins = (uint32_t *)spsh__device_put(&place, bank->first_bins, row_count);
    moved->mels.offsets =
        (uint32_t *)spsh__device_put(&place, bank->offsets, row_count != 0 ? row_count + 1 : 0);
    moved->mels.weights = (float *)spsh__device_put(&place, bank->weights,
                                                    row_count != 0 ? bank->offsets[row_count] : 0);
    moved->dct = (float *)spsh__device_put(&place, tables->dct, has_dct ? cosine_count : 0);
    return place.used_bytes;
}

#endif
