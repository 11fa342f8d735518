/* index_files.c: writes indexes like the packer's index writer, but from given rows. */
#include "index_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_internal.h"
#include "dataset/manifest.h"

enum {
    BATCH = 8192,
    COLUMNS = SPSH__INDEX_COLUMN_LAST - SPSH__INDEX_COLUMN_FIRST + 1,
    SECTIONS = COLUMNS + 2 * SPSH_NAME_KINDS,
    NAME_BYTES = 40,
    TOTAL_SPEAKERS = 5,
};

index_names index_names_make(const char *word, uint64_t first, uint64_t count)
{
    index_names n = {(uint64_t *)calloc((size_t)count + 1, sizeof(uint64_t)),
                     (char *)calloc((size_t)count + 1, NAME_BYTES), count, 0};
    if (n.ends == NULL || n.bytes == NULL) {
        index_names_free(&n);
        return n;
    }
    for (uint64_t i = 0; i < count; i++) {
        int length = snprintf(n.bytes + n.size_bytes, NAME_BYTES, "%.16s%" PRIu64, word, first + i);
        n.size_bytes += (uint64_t)length;
        n.ends[i] = n.size_bytes;
    }
    return n;
}

void index_names_free(index_names *names)
{
    free(names->ends);
    free(names->bytes);
    *names = (index_names){NULL, NULL, 0, 0};
}

/* ---- the index ---- */

static spsh_status write_rows(const index_files *files, spsh__section_writer *sections,
                              spsh_error *err)
{
    static uint8_t bytes[BATCH * 8 + 8];
    spsh_status rc = SPSH_OK;
    for (uint64_t first = 0; first < files->utterance_count; first += BATCH) {
        uint64_t left = files->utterance_count - first;
        uint64_t rows = left < BATCH ? left : BATCH;
        for (uint32_t c = SPSH__INDEX_COLUMN_FIRST; c <= SPSH__INDEX_COLUMN_LAST; c++) {
            uint32_t width = spsh__index_element_bytes(c);
            for (uint64_t i = 0; i < rows; i++) /* the next store overwrites the excess bytes */
                spsh__store_u64le(bytes + i * width, files->cell_fn(files->user, c, first + i));
            rc = spsh__section_append(sections, c, bytes, rows, err);
            if (rc != SPSH_OK)
                return rc;
        }
    }
    return rc;
}

static spsh_status write_names(const index_files *files, spsh__section_writer *sections,
                               spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS && rc == SPSH_OK; kind++) {
        const index_names *n = &files->names[kind];
        uint32_t id = SPSH__INDEX_NAME_ENDS + 2 * kind;
        if (n->count == 0)
            continue;
        rc = spsh__section_append(sections, id, n->ends, n->count, err);
        if (rc == SPSH_OK)
            rc = spsh__section_append(sections, id + 1, n->bytes, n->size_bytes, err);
    }
    return rc;
}

static uint32_t list_sections(const index_files *files, spsh__section list[SECTIONS])
{
    uint32_t used = 0;
    for (uint32_t c = SPSH__INDEX_COLUMN_FIRST; c <= SPSH__INDEX_COLUMN_LAST; c++)
        list[used++] = (spsh__section){c, spsh__index_element_bytes(c), files->utterance_count};
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        const index_names *n = &files->names[kind];
        uint32_t id = SPSH__INDEX_NAME_ENDS + 2 * kind;
        list[used++] = (spsh__section){id, 8, n->count};
        list[used++] = (spsh__section){id + 1, 1, n->size_bytes};
    }
    return used;
}

static spsh_status write_index(const index_files *files, spsh__footer *ret_footer, spsh_error *err)
{
    spsh__section list[SECTIONS];
    uint32_t used = list_sections(files, list);
    spsh__header header = {.kind = SPSH__KIND_INDEX, .ordinal = 1};
    uint8_t page[SPSH__PAGE_BYTES];
    spsh_file_writer *file = NULL;
    spsh__section_writer *sections = NULL;
    memcpy(header.dataset_id, files->dataset_id, 16);
    spsh__generation_file_id(files->dataset_id, 1, "index", header.file_id);
    spsh__header_encode(&header, page);
    spsh_status rc = spsh_file_writer_open(spsh_io_default(), files->path, "index-00000001.spsh", 0,
                                           NULL, &file, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(file, page, sizeof(page), err);
    if (rc == SPSH_OK)
        rc = spsh__section_writer_open(file, &header, list, used, NULL, &sections, err);
    if (rc == SPSH_OK)
        rc = write_rows(files, sections, err);
    if (rc == SPSH_OK)
        rc = write_names(files, sections, err);
    if (rc == SPSH_OK)
        rc = spsh__section_writer_finish(sections, NULL, 0, 0, files->utterance_count, ret_footer,
                                         err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(file, SPSH_PUBLISH_NEW, err);
    spsh__section_writer_free(sections);
    spsh_file_writer_free(file);
    return rc;
}

/* ---- the manifest ---- */

uint64_t index_files_shard_rows(const index_files *files)
{
    return (files->utterance_count + files->shard_count - 1) / files->shard_count;
}

/* Columns of shards. */
typedef struct shard_columns {
    uint64_t *bytes, *begins;
    uint32_t *units;
    uint8_t *zeros; /* 16 bytes each */
} shard_columns;

static void free_shards(shard_columns *shards)
{
    free(shards->bytes);
    free(shards->begins);
    free(shards->units);
    free(shards->zeros);
}

static bool make_shards(const index_files *files, shard_columns *shards)
{
    size_t count = (size_t)files->shard_count;
    uint64_t rows = index_files_shard_rows(files);
    shards->bytes = (uint64_t *)calloc(count, sizeof(uint64_t));
    shards->begins = (uint64_t *)calloc(count + 1, sizeof(uint64_t));
    shards->units = (uint32_t *)calloc(count, sizeof(uint32_t));
    shards->zeros = (uint8_t *)calloc(count, 16);
    if (shards->bytes == NULL || shards->begins == NULL || shards->units == NULL ||
        shards->zeros == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t end = (i + 1) * rows;
        shards->bytes[i] = files->shard_bytes;
        shards->units[i] = (uint32_t)i;
        shards->begins[i + 1] = end < files->utterance_count ? end : files->utterance_count;
    }
    return true;
}

static spsh_status publish_manifest(const index_files *files, const shard_columns *shards,
                                    const spsh__footer *index, spsh_error *err)
{
    const uint64_t count = files->utterance_count;
    const uint64_t n = files->shard_count;
    const index_names *domains = &files->names[SPSH_NAME_DOMAIN];
    const index_names *splits = &files->names[SPSH_NAME_SPLIT];
    const uint64_t totals[SPSH__TOTALS] = {
        count, count, 0, 0, 0, files->names[SPSH_NAME_SPEAKER].count, 0, count};
    const uint64_t generation = 1;
    const spsh__column columns[] = {
        {SPSH__MANIFEST_SHARD_FILE_ID,        16, n,                   shards->zeros     },
        {SPSH__MANIFEST_SHARD_ROOT_HASH,      16, n,                   shards->zeros     },
        {SPSH__MANIFEST_SHARD_BYTES,          8,  n,                   shards->bytes     },
        {SPSH__MANIFEST_SHARD_UNIT,           4,  n,                   shards->units     },
        {SPSH__MANIFEST_SHARD_NUMBER,         4,  n,                   shards->zeros     },
        {SPSH__MANIFEST_UTTERANCE_BEGIN,      8,  n + 1,               shards->begins    },
        {SPSH__MANIFEST_RECORD_BEGIN,         8,  n + 1,               shards->begins    },
        {SPSH__MANIFEST_GROUP_DOMAIN,         4,  0,                   NULL              },
        {SPSH__MANIFEST_GROUP_SPLIT,          4,  0,                   NULL              },
        {SPSH__MANIFEST_GROUP_SAMPLE_RATE_HZ, 4,  0,                   NULL              },
        {SPSH__MANIFEST_GROUP_UTTERANCES,     8,  0,                   NULL              },
        {SPSH__MANIFEST_GROUP_SAMPLES,        8,  0,                   NULL              },
        {SPSH__MANIFEST_TOTALS,               8,  SPSH__TOTALS,        totals            },
        {SPSH__MANIFEST_INDEX_FILE_ID,        16, 1,                   index->file_id    },
        {SPSH__MANIFEST_INDEX_ROOT_HASH,      16, 1,                   index->root_hash  },
        {SPSH__MANIFEST_INDEX_BYTES,          8,  1,                   &index->file_bytes},
        {SPSH__MANIFEST_INDEX_GENERATION,     8,  1,                   &generation       },
        {SPSH__MANIFEST_OVERLAY_FILE_ID,      16, 0,                   NULL              },
        {SPSH__MANIFEST_OVERLAY_ROOT_HASH,    16, 0,                   NULL              },
        {SPSH__MANIFEST_OVERLAY_BYTES,        8,  0,                   NULL              },
        {SPSH__MANIFEST_OVERLAY_NAME_ENDS,    8,  0,                   NULL              },
        {SPSH__MANIFEST_OVERLAY_NAMES,        1,  0,                   NULL              },
        {SPSH__MANIFEST_OPTIONS,              1,  0,                   NULL              },
        {SPSH__MANIFEST_DOMAIN_ENDS,          8,  domains->count,      domains->ends     },
        {SPSH__MANIFEST_DOMAINS,              1,  domains->size_bytes, domains->bytes    },
        {SPSH__MANIFEST_SPLIT_ENDS,           8,  splits->count,       splits->ends      },
        {SPSH__MANIFEST_SPLITS,               1,  splits->size_bytes,  splits->bytes     },
    };
    spsh__columns_file file = {
        .directory = files->path,
        .name = "manifest.spsh",
        .header = {.kind = SPSH__KIND_MANIFEST, .ordinal = 1},
        .columns = columns,
        .column_count = sizeof(columns) / sizeof(columns[0]),
        .utterance_count = count,
        .mode = SPSH_PUBLISH_NEW
    };
    memcpy(file.header.dataset_id, files->dataset_id, 16);
    spsh__generation_file_id(files->dataset_id, 1, "manifest", file.header.file_id);
    return spsh__columns_publish(spsh_io_default(), spsh_allocator_default(), &file, NULL, err);
}

spsh_status index_files_write(const index_files *files, spsh_error *err)
{
    shard_columns shards = {NULL, NULL, NULL, NULL};
    spsh__footer index;
    spsh_status rc = SPSH_OK;
    if (!make_shards(files, &shards))
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "manifest");
    if (rc == SPSH_OK)
        rc = write_index(files, &index, err);
    if (rc == SPSH_OK)
        rc = publish_manifest(files, &shards, &index, err);
    free_shards(&shards);
    return rc;
}
