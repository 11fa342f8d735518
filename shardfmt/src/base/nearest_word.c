/* nearest_word.c: suggest the word that a user may have meant, by the optimal string alignment
 * distance: insert, delete, replace, swap adjacent characters. */
#include "speechshard/nearest_word.h"

#include <stdbool.h>
#include <string.h>

enum { WORD_BYTES_MAX = 96 };

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Both are at most WORD_BYTES_MAX long. */
static size_t distance_of(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t row[3][WORD_BYTES_MAX + 1];
    for (size_t j = 0; j <= b_size; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t *now = row[i % 3];
        const size_t *last = row[(i - 1) % 3];
        const size_t *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            const size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
            now[j] = least_of(least_of(last[j] + 1, now[j - 1] + 1), last[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least_of(now[j], before[j - 2] + 1);
        }
    }
    return row[a_size % 3][b_size];
}

const char *spsh_nearest_word(const char *text, size_t size_bytes, const char *const *words)
{
    const char *nearest = NULL;
    size_t least = least_of(2 + size_bytes / 4, size_bytes); /* only smaller distances are near */
    for (; size_bytes <= WORD_BYTES_MAX && *words != NULL; words++) {
        const size_t word_size = strlen(*words);
        if (word_size > WORD_BYTES_MAX)
            continue;
        const bool is_beginning = size_bytes >= 2 && strncmp(text, *words, size_bytes) == 0;
        const size_t distance = is_beginning ? 1 : distance_of(text, size_bytes, *words, word_size);
        if (distance < least) {
            least = distance;
            nearest = *words;
        }
    }
    return nearest;
}
