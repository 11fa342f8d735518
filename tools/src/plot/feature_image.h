/* feature_image.h: turn rows of features into an image, and give the meaning of its axes.
 *
 *     spsh__feature_image_make(&rows, &image, &err);
 *     ... image.levels[row * image.columns + column], the top row first ...
 *     y = (1 - spsh__feature_image_height_of(&image, 1000)) * height     // position of 1 kHz
 *     spsh__feature_image_free(&image);
 *
 * If there are more frames than columns, or more bins than rows, they are averaged. The darkest
 * level is the minimum and the brightest level the maximum of the shown range. For logarithms and
 * powers, the range is at most 80 dB below the maximum. For other values, the lowest and the
 * highest half percent are clipped. For cepstra, each coefficient has its own range.
 */
#ifndef SPSH_PLOT_FEATURE_IMAGE_H
#define SPSH_PLOT_FEATURE_IMAGE_H

#include <stdbool.h>

#include "speechshard/featgen.h"

enum { SPSH__IMAGE_COLUMNS_MAX = 920, SPSH__IMAGE_ROWS_MAX = 480 };

/** Input rows; borrowed. */
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
    double low, high;      /* values of the lowest and the highest level */
    const char *unit;      /* unit of the values: "dB", "" */
    double first_s, end_s; /* start of the first frame and end of the last, in steps of the hop */
} spsh__feature_image;

SPSH_NODISCARD spsh_status spsh__feature_image_make(const spsh__feature_rows *rows,
                                                    spsh__feature_image *ret_image,
                                                    spsh_error *err);
void spsh__feature_image_free(spsh__feature_image *image);

/** True if the vertical axis is a frequency. Otherwise the axis counts coefficients. */
bool spsh__feature_image_is_in_hertz(const spsh__feature_image *image);

/** Return the height of a frequency, or of the middle of a coefficient: 0 is the lower edge, 1 the
 * upper edge. Values outside are not on the axis. */
double spsh__feature_image_height_of(const spsh__feature_image *image, double value);

#endif
