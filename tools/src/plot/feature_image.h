/* feature_image.h: rows of features as an image, and what its axes mean.
 *
 *     spsh__feature_image_make(&rows, &image, &err);
 *     ... image.levels[row * image.columns + column], the top row first ...
 *     y = (1 - spsh__feature_image_height_of(&image, 1000)) * height     // where 1 kHz is
 *     spsh__feature_image_free(&image);
 *
 * More frames than there are columns are averaged, and more bins than rows. Levels go from the
 * darkest for the least to the brightest for the greatest value that is seen. Of logarithms and of
 * powers no more than 80 dB below the greatest are told apart; of other values the least and
 * greatest half percent are not; of cepstra, each coefficient has its own range.
 */
#ifndef SPSH_PLOT_FEATURE_IMAGE_H
#define SPSH_PLOT_FEATURE_IMAGE_H

#include <stdbool.h>

#include "speechshard/featgen.h"

enum { SPSH__IMAGE_COLUMNS_MAX = 920, SPSH__IMAGE_ROWS_MAX = 480 };

/** Borrowed. */
typedef struct spsh__feature_rows {
    spsh_feature_options options;
    const float *rows; /* frame_count * dim */
    uint64_t frame_count;
    uint32_t dim;
} spsh__feature_rows;

typedef struct spsh__feature_image {
    spsh_feature_options options;
    uint32_t dim;
    uint8_t *levels; /* columns * rows, the top row first; NULL: no frames */
    uint32_t columns, rows;
    double low, high;      /* values of the first and the last level */
    const char *unit;      /* of them: "dB", "" */
    double first_s, end_s; /* where the first frame begins and the last one ends, hop by hop */
} spsh__feature_image;

SPSH_NODISCARD spsh_status spsh__feature_image_make(const spsh__feature_rows *rows,
                                                    spsh__feature_image *ret_image,
                                                    spsh_error *err);
void spsh__feature_image_free(spsh__feature_image *image);

/** Is the upright axis one of frequency? Else coefficients are counted. */
bool spsh__feature_image_is_in_hertz(const spsh__feature_image *image);

/** Where a frequency lies, or the middle of a coefficient: 0 the lower edge, 1 the upper one;
 * others are not on it. */
double spsh__feature_image_height_of(const spsh__feature_image *image, double value);

#endif
