/* memory_dataset.h: the files of a dataset in memory, to damage them, and an I/O table that reads
 * them there.
 *
 *     memory_dataset_load(&memory, path);       the folder may be removed then
 *     spsh_io io = memory_dataset_table(&memory);
 *     spsh_dataset_open("anything", {.io = &io}, ...)
 *
 * A file is found by the end of its path. Mappings point into its data. If the data is a block of
 * its exact size, a sanitizer sees an over-read of one byte.
 */
#ifndef MEMORY_DATASET_H
#define MEMORY_DATASET_H

#include "speechshard/io.h"

enum { MEMORY_FILES_MAX = 24 };

typedef struct memory_file {
    char name[160]; /* relative to the dataset */
    uint8_t *data;  /* NULL: the file is not there */
    size_t size_bytes;
} memory_file;

typedef struct memory_dataset {
    memory_file files[MEMORY_FILES_MAX];
    size_t file_count;
} memory_dataset;

/* All files below path; the test stops on failure. */
void memory_dataset_load(memory_dataset *memory, const char *path);
void memory_dataset_free(memory_dataset *memory);

/* memory must outlive the table. */
spsh_io memory_dataset_table(memory_dataset *memory);

/* Find a file by its name. The test stops if there is none. */
memory_file *memory_dataset_file(memory_dataset *memory, const char *name);

/* Find a section of a container without blocks. The test stops if there is none. */
uint8_t *memory_dataset_section(const memory_file *file, uint32_t id, uint64_t *ret_bytes);

/* Update the file id, root hash, and size of the index and the overlays in the manifest. Then
 * correct the checksums of the manifest. */
void memory_dataset_agree(memory_dataset *memory);

#endif
