/* mel_bank.h: triangles over the bins of a spectrum, stored row by row without their zeros. */
#ifndef SPSH_MEL_BANK_H
#define SPSH_MEL_BANK_H

#include "speechshard/featgen.h"

/* Row r: weights[offsets[r]] ... belong to bins first_bins[r] ...; the row has offsets[r + 1] -
 * offsets[r] weights, none if its triangle is between two bins. The SPSH__MEL_GROUP rows from
 * SPSH__MEL_GROUP * i on have equal lengths, with zeros at the ends of the shorter ones, so that
 * they can be summed side by side. */
#define SPSH__MEL_GROUP 4
typedef struct spsh__mel_bank {
    uint32_t row_count;
    uint32_t *first_bins; /* row_count */
    uint32_t *offsets;    /* row_count + 1 */
    float *weights;
} spsh__mel_bank;

/* Returns SPSH_OK or SPSH_E_NO_MEMORY; after an error there is nothing to close. */
spsh_status spsh__mel_bank_open(const spsh_allocator *allocator,
                                const spsh_feature_options *features, uint32_t fft_size,
                                spsh__mel_bank *bank, spsh_error *err);
/* Close a bank. A zeroed struct is allowed. */
void spsh__mel_bank_close(const spsh_allocator *allocator, spsh__mel_bank *bank);

#endif
