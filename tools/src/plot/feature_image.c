/* feature_image.c: see feature_image.h. Mel scales are those of docs/reference/FEATURES.md. */
#include "feature_image.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/compare.h"
#include "heat.h"
#include "speechshard/inside.h"

static const double range_db = 80;
static const double cepstrum_deviations = 2.5;
static const double outside_share = 0.005; /* share of the cells at each end of the range */

/* ---- axes ---- */

static double mel_of(spsh_mel_scale scale, double hertz)
{
    if (scale != SPSH_MEL_SLANEY)
        return 1127 * log(1 + hertz / 700);
    return hertz < 1000 ? hertz * 3 / 200 : 15 + 27 * log(hertz / 1000) / log(6.4);
}

bool spsh__feature_image_is_in_hertz(const spsh__feature_image *image)
{
    return image->options.kind != SPSH_FEATURE_MFCC;
}

static uint32_t window_samples(const spsh_feature_options *f)
{
    return (uint32_t)((uint64_t)f->sample_rate_hz * f->window_us / 1000000);
}

static uint32_t transform_size(const spsh_feature_options *f)
{
    uint32_t size = 1;
    if (!f->power_of_two)
        return window_samples(f);
    while (size < window_samples(f))
        size *= 2;
    return size;
}

/* Return the number of rows below the first bin. */
static uint32_t rows_before(const spsh__feature_image *image)
{
    return image->options.energy != SPSH_ENERGY_NONE && spsh__feature_image_is_in_hertz(image) ? 1
                                                                                               : 0;
}

double spsh__feature_image_height_of(const spsh__feature_image *image, double value)
{
    const spsh_feature_options *f = &image->options;
    const double half = f->sample_rate_hz / 2.0;
    double bin = value;
    if (f->kind == SPSH_FEATURE_SPECTRUM) {
        bin = value * transform_size(f) / f->sample_rate_hz;
    } else if (f->kind == SPSH_FEATURE_MEL) {
        const double high_hz =
            (double)f->high_hz > 0 ? (double)f->high_hz : half + (double)f->high_hz;
        const double low = mel_of(f->mel_scale, (double)f->low_hz);
        const double high = mel_of(f->mel_scale, high_hz);
        /* Bin 0 has its peak one step above low. */
        bin = (mel_of(f->mel_scale, value) - low) / (high - low) * (f->mel_count + 1) - 1;
    }
    return (bin + rows_before(image) + 0.5) / image->dim;
}

static void place_in_time(const spsh__feature_rows *rows, spsh__feature_image *image)
{
    const spsh_feature_options *f = &rows->options;
    const double hop = floor((double)f->sample_rate_hz * f->hop_us / 1e6);
    double middle = 0; /* middle of frame 0, in samples */
    if (f->edges == SPSH_EDGES_SNIP)
        middle = window_samples(f) / 2.0;
    else if (f->edges == SPSH_EDGES_MIRROR)
        middle = hop / 2;
    image->first_s = (middle - hop / 2) / f->sample_rate_hz;
    image->end_s = image->first_s + hop * (double)rows->frame_count / f->sample_rate_hz;
}

/* ---- values ---- */

/* Compute the mean of each cell. cells has columns * rows values, the lowest bin first. */
static void average(const spsh__feature_rows *rows, const spsh__feature_image *image, double *cells)
{
    for (uint64_t column = 0; column < image->columns; column++) {
        const uint64_t first = column * rows->frame_count / image->columns;
        const uint64_t end = (column + 1) * rows->frame_count / image->columns;
        for (uint64_t row = 0; row < image->rows; row++) {
            const uint64_t bin = row * rows->dim / image->rows;
            const uint64_t bin_end = (row + 1) * rows->dim / image->rows;
            double sum = 0;
            for (uint64_t k = first; k < end; k++)
                for (uint64_t d = bin; d < bin_end; d++)
                    sum += (double)rows->rows[k * rows->dim + d];
            cells[row * image->columns + column] = sum / (double)((end - first) * (bin_end - bin));
        }
    }
}

/* Convert powers to decibels. Returns the shown range below the maximum, HUGE_VAL for no limit. */
static double make_comparable(spsh__feature_image *image, double *cells)
{
    const spsh_feature_options *f = &image->options;
    const double decades = range_db / (f->power == SPSH_POWER ? 10 : 20);
    const size_t count = (size_t)image->columns * image->rows;
    image->unit = "";
    if (f->norm == SPSH_NORM_WHISPER || f->norm == SPSH_NORM_UTTERANCE || f->log == SPSH_LOG_1P)
        return HUGE_VAL;
    if (f->log == SPSH_LOG_NATURAL)
        return decades * log(10);
    if (f->log == SPSH_LOG_10)
        return decades;
    if (f->norm != SPSH_NORM_NONE)
        return HUGE_VAL;
    for (size_t i = 0; i < count; i++)
        cells[i] = (range_db / decades) * log10(fmax(cells[i], DBL_MIN));
    image->unit = "dB";
    return range_db;
}

/* Scale each row to mean 0 and deviation 1. */
static void normalise_rows(const spsh__feature_image *image, double *cells)
{
    for (size_t row = 0; row < image->rows; row++) {
        double *cell = cells + row * image->columns;
        double mean = 0, square = 0;
        for (size_t i = 0; i < image->columns; i++)
            mean += cell[i] / image->columns;
        for (size_t i = 0; i < image->columns; i++)
            square += (cell[i] - mean) * (cell[i] - mean) / image->columns;
        for (size_t i = 0; i < image->columns; i++)
            cell[i] = square > 1e-20 ? (cell[i] - mean) / sqrt(square) : 0;
    }
}

/* Set the value range. Without logarithms, a few large values would leave the rest dark. */
static spsh_status find_range(spsh__feature_image *image, double *cells, spsh_error *err)
{
    const size_t count = (size_t)image->columns * image->rows;
    if (!spsh__feature_image_is_in_hertz(image)) {
        normalise_rows(image, cells);
        image->low = -cepstrum_deviations;
        image->high = cepstrum_deviations;
        image->unit = "sd";
        return SPSH_OK;
    }
    const double range = make_comparable(image, cells);
    double *sorted = (double *)malloc(count * sizeof(*sorted));
    if (sorted == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "out of memory for a picture");
    memcpy(sorted, cells, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), spsh__compare_real);
    image->low = sorted[0];
    image->high = sorted[count - 1];
    if (range == HUGE_VAL) {
        image->low = sorted[(size_t)((double)(count - 1) * outside_share)];
        image->high = sorted[(size_t)((double)(count - 1) * (1 - outside_share))];
    }
    image->low = fmax(image->low, image->high - range);
    free(sorted);
    return SPSH_OK;
}

spsh_status spsh__feature_image_make(const spsh__feature_rows *rows, spsh__feature_image *ret_image,
                                     spsh_error *err)
{
    spsh__feature_image *image = ret_image;
    const uint64_t columns =
        rows->frame_count < SPSH__IMAGE_COLUMNS_MAX ? rows->frame_count : SPSH__IMAGE_COLUMNS_MAX;
    *image = (spsh__feature_image){.options = rows->options,
                                   .dim = rows->dim,
                                   .columns = (uint32_t)columns,
                                   .rows = rows->dim < SPSH__IMAGE_ROWS_MAX ? rows->dim
                                                                            : SPSH__IMAGE_ROWS_MAX,
                                   .unit = ""};
    place_in_time(rows, image);
    if (image->columns == 0 || image->rows == 0)
        return SPSH_OK;
    const size_t count = (size_t)image->columns * image->rows;
    double *cells = (double *)calloc(count, sizeof(*cells));
    image->levels = (uint8_t *)malloc(count);
    if (cells == NULL || image->levels == NULL) {
        free(cells);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "out of memory for a picture");
    }
    average(rows, image, cells);
    const spsh_status rc = find_range(image, cells, err);
    const double scale =
        image->high > image->low ? (SPSH__HEAT_LEVELS - 1) / (image->high - image->low) : 0;
    for (size_t row = 0; row < image->rows; row++) {
        const double *from = cells + row * image->columns;
        uint8_t *to = image->levels + (image->rows - 1 - row) * image->columns;
        for (size_t i = 0; i < image->columns; i++)
            to[i] = (uint8_t)fmin(fmax(round((from[i] - image->low) * scale), 0),
                                  SPSH__HEAT_LEVELS - 1);
    }
    free(cells);
    return rc;
}

void spsh__feature_image_free(spsh__feature_image *image)
{
    free(image->levels);
    image->levels = NULL;
}
