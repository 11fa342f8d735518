/* mel_bank.c: see mel_bank.h.
 *
 * mel_count + 2 edges have equal distances in mel from low to high. Row r's triangle rises from
 * edge r to edge r + 1 and falls to edge r + 2, with zeros at both ends. Kaldi's triangles
 * (MelBanks) are linear in mel. The others are linear in hertz, as librosa's filters.mel(htk=True,
 * norm=None) and filters.mel(htk=False, norm="slaney"). Computed in double, rounded once.
 */
#include "mel_bank.h"

#include <math.h>

#include "speechshard/featgen.h"
#include "speechshard/inside.h"

/* Slaney's Auditory Toolbox: 200 / 3 Hz a mel below 1 kHz, 27 mels for each factor of 6.4 above. */
#define SLANEY_HZ     (200.0 / 3)
#define SLANEY_BREAK  1000.0
#define SLANEY_FACTOR 6.4
#define SLANEY_MELS   27.0
#define HTK_HZ        700.0
#define HTK_MELS      1127.0

static double mel_of(spsh_mel_scale scale, double hz)
{
    if (scale != SPSH_MEL_SLANEY)
        return HTK_MELS * log(1 + hz / HTK_HZ);
    if (hz < SLANEY_BREAK)
        return hz / SLANEY_HZ;
    return SLANEY_BREAK / SLANEY_HZ + log(hz / SLANEY_BREAK) * (SLANEY_MELS / log(SLANEY_FACTOR));
}

static double hz_of(spsh_mel_scale scale, double mel)
{
    if (scale != SPSH_MEL_SLANEY)
        return HTK_HZ * (exp(mel / HTK_MELS) - 1);
    if (mel < SLANEY_BREAK / SLANEY_HZ)
        return mel * SLANEY_HZ;
    return SLANEY_BREAK *
           exp((mel - SLANEY_BREAK / SLANEY_HZ) * (log(SLANEY_FACTOR) / SLANEY_MELS));
}

typedef struct triangles {
    spsh_mel_scale scale;
    uint32_t bin_count;
    double bin_hz;
    double low_mel, step_mel;
} triangles;

/* Position of an edge or a bin on the axis (mel or hertz) on which the triangles are linear. */
static double edge_at(const triangles *t, uint32_t edge)
{
    const double mel = t->low_mel + edge * t->step_mel;
    return t->scale == SPSH_MEL_KALDI ? mel : hz_of(t->scale, mel);
}

static double bin_at(const triangles *t, uint32_t bin)
{
    const double hz = bin * t->bin_hz;
    return t->scale == SPSH_MEL_KALDI ? mel_of(t->scale, hz) : hz;
}

/* Find the bins inside row's triangle: *first, and return their count. *first is the previous row's
 * first bin on entry, since rows begin in ascending order. */
static uint32_t find_row(const triangles *t, uint32_t row, uint32_t *first)
{
    const double left = edge_at(t, row);
    const double right = edge_at(t, row + 2);
    while (*first < t->bin_count && bin_at(t, *first) <= left)
        (*first)++;
    uint32_t end = *first;
    while (end < t->bin_count && bin_at(t, end) < right)
        end++;
    return end - *first;
}

static float weight_at(const triangles *t, uint32_t row, uint32_t bin)
{
    const double left = edge_at(t, row);
    const double peak = edge_at(t, row + 1);
    const double right = edge_at(t, row + 2);
    const double height = t->scale == SPSH_MEL_SLANEY ? 2 / (right - left) : 1;
    const double at = bin_at(t, bin);
    if (bin >= t->bin_count || at <= left || at >= right)
        return 0;
    return (float)(height *
                   (at <= peak ? (at - left) / (peak - left) : (right - at) / (right - peak)));
}

/* Compute first bins and row_count + 1 offsets. The rows of a group have equal lengths. */
static void lay_out(const triangles *t, uint32_t bins, spsh__mel_bank *bank)
{
    uint32_t first = 0;
    for (uint32_t group = 0; group < bank->row_count; group += SPSH__MEL_GROUP) {
        const uint32_t left = bank->row_count - group;
        const uint32_t end = group + (left < SPSH__MEL_GROUP ? left : SPSH__MEL_GROUP);
        uint32_t longest = 0;
        for (uint32_t row = group; row < end; row++) {
            const uint32_t count = find_row(t, row, &first);
            bank->first_bins[row] = first;
            longest = count > longest ? count : longest;
        }
        for (uint32_t row = group; row < end; row++) {
            bank->offsets[row + 1] = bank->offsets[row] + longest;
            if (bank->first_bins[row] + longest > bins)
                bank->first_bins[row] = bins - longest;
        }
    }
}

spsh_status spsh__mel_bank_open(const spsh_allocator *allocator,
                                const spsh_feature_options *features, uint32_t fft_size,
                                spsh__mel_bank *bank, spsh_error *err)
{
    const double half_rate = 0.5 * features->sample_rate_hz;
    const double high =
        features->high_hz > 0 ? (double)features->high_hz : half_rate + (double)features->high_hz;
    const spsh_mel_scale scale = features->mel_scale;
    const double low_mel = mel_of(scale, (double)features->low_hz);
    const triangles t = {
        .scale = scale,
        /* Kaldi has no bin at half the rate. */
        .bin_count = scale == SPSH_MEL_KALDI ? fft_size / 2 : fft_size / 2 + 1,
        .bin_hz = (double)features->sample_rate_hz / fft_size,
        .low_mel = low_mel,
        .step_mel = (mel_of(scale, high) - low_mel) / (features->mel_count + 1.0),
    };
    const uint32_t row_count = features->mel_count;
    *bank = (spsh__mel_bank){.row_count = row_count};
    bank->first_bins = spsh__new(allocator, row_count, sizeof(uint32_t));
    bank->offsets = spsh__new(allocator, (size_t)row_count + 1, sizeof(uint32_t));
    if (bank->first_bins != NULL && bank->offsets != NULL) {
        lay_out(&t, fft_size / 2 + 1, bank);
        bank->weights = spsh__new(allocator, bank->offsets[row_count], sizeof(float));
    }
    if (bank->weights == NULL) {
        spsh__mel_bank_close(allocator, bank);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%u mel bins", row_count);
    }
    for (uint32_t row = 0; row < row_count; row++)
        for (uint32_t i = bank->offsets[row]; i < bank->offsets[row + 1]; i++)
            bank->weights[i] = weight_at(&t, row, bank->first_bins[row] + i - bank->offsets[row]);
    return SPSH_OK;
}

void spsh__mel_bank_close(const spsh_allocator *allocator, spsh__mel_bank *bank)
{
    spsh__free(allocator, bank->first_bins);
    spsh__free(allocator, bank->offsets);
    spsh__free(allocator, bank->weights);
    *bank = (spsh__mel_bank){0};
}
