/* text_dataset.h: a dataset with given metadata of utterances: texts, names, sources. All of them
 * have the same few samples, and their fingerprint segments contain no sound.
 *
 *     const text_row rows[] = {{.id = "a", .split = "train", .text = "one"}, ...};
 *     text_dataset_make(path, 1, rows, 2);
 */
#ifndef TEXT_DATASET_H
#define TEXT_DATASET_H

#include <stddef.h>
#include <stdint.h>

typedef struct text_row {
    const char *id, *split;
    const char *text;                                          /* NULL: unlabelled */
    const char *speaker, *document, *domain, *source, *extras; /* NULL: none */
} text_row;

/* path must not exist; tag is part of the dataset's id. Two shards, when there are two rows. The
 * test stops on failure. */
void text_dataset_make(const char *path, uint8_t tag, const text_row *rows, size_t count);

#endif
