/* table_file.c: containers of kinds 5 and 7 for code outside of this library (FORMAT.md 8 and 10).
 *
 * The callers define the meaning of the columns. This file only implements the guarantees of the
 * container: identity, checksums, bounds. A set of datasets has thousands of these files open at
 * once, so the descriptor is closed as soon as the file is mapped.
 */
#include "speechshard/table_file.h"

#include "format/container.h"
#include "manifest.h"

struct spsh_table_file {
    spsh_allocator allocator;
    spsh__container *container;
    spsh_table_file_info info;
};

static bool is_table_kind(uint32_t kind)
{
    return kind == SPSH_TABLE_FINGERPRINT || kind == SPSH_TABLE_CHECKPOINT;
}

spsh_status spsh_table_file_publish(const spsh_table_file_content *content, const spsh_io *io,
                                    spsh_error *err)
{
    const uint32_t kind = content->info.kind != 0 ? content->info.kind : SPSH_TABLE_FINGERPRINT;
    spsh__column columns[SPSH__COLUMNS_MAX];
    spsh__columns_file file = {
        .directory = content->directory,
        .name = content->name,
        .header = {.kind = kind,
                   .ordinal = content->info.unit,
                   .sub_ordinal = content->info.number},
        .columns = columns,
        .column_count = content->column_count,
        .utterance_count = content->info.row_count,
        .mode = content->mode,
        .is_reserved = true,
    };
    if (!is_table_kind(kind))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: %u is not a kind of table file",
                         content->name, kind);
    if (content->column_count > SPSH__COLUMNS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: %u columns exceed the limit, %d",
                         content->name, content->column_count, SPSH__COLUMNS_MAX);
    memcpy(file.header.file_id, content->info.file_id, 16);
    memcpy(file.header.dataset_id, content->info.dataset_id, 16);
    for (uint32_t i = 0; i < content->column_count; i++)
        columns[i] = (spsh__column){.id = content->columns[i].id,
                                    .element_bytes = content->columns[i].element_bytes,
                                    .count = content->columns[i].count,
                                    .elements = content->columns[i].elements};
    return spsh__columns_publish(io != NULL ? io : spsh_io_default(),
                                 content->allocator != NULL ? content->allocator
                                                            : spsh_allocator_default(),
                                 &file, NULL, err);
}

static void load_info(const spsh__container *container, spsh_table_file_info *ret_info)
{
    const spsh__header *header = spsh__container_header(container);
    const spsh__footer *footer = spsh__container_footer(container);
    *ret_info = (spsh_table_file_info){.kind = header->kind,
                                       .unit = header->ordinal,
                                       .number = header->sub_ordinal,
                                       .row_count = footer->utterance_count,
                                       .file_bytes = footer->file_bytes};
    memcpy(ret_info->file_id, header->file_id, 16);
    memcpy(ret_info->dataset_id, header->dataset_id, 16);
    memcpy(ret_info->root_hash, footer->root_hash, 16);
}

spsh_status spsh_table_file_open_kind(const char *path, uint32_t kind, const spsh_io *io,
                                      const spsh_allocator *allocator, spsh_table_file **ret_file,
                                      spsh_error *err)
{
    if (!is_table_kind(kind))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: %u is not a kind of table file", path, kind);
    if (allocator == NULL)
        allocator = spsh_allocator_default();
    spsh_table_file *file = (spsh_table_file *)spsh__new(allocator, 1, sizeof(*file));
    if (file == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: table file", path);
    file->allocator = *allocator;
    const spsh_status rc = spsh__container_open(io, path, kind, allocator, &file->container, err);
    if (rc != SPSH_OK) {
        spsh_table_file_close(file);
        return rc;
    }
    spsh__container_release_fd(file->container);
    load_info(file->container, &file->info);
    *ret_file = file;
    return SPSH_OK;
}

spsh_status spsh_table_file_open(const char *path, const spsh_io *io,
                                 const spsh_allocator *allocator, spsh_table_file **ret_file,
                                 spsh_error *err)
{
    return spsh_table_file_open_kind(path, SPSH_TABLE_FINGERPRINT, io, allocator, ret_file, err);
}

void spsh_table_file_close(spsh_table_file *file)
{
    if (file == NULL)
        return;
    const spsh_allocator allocator = file->allocator;
    spsh__container_close(file->container);
    spsh__free(&allocator, file);
}

const spsh_table_file_info *spsh_table_file_info_get(const spsh_table_file *file)
{
    return &file->info;
}

const char *spsh_table_file_path(const spsh_table_file *file)
{
    return spsh__container_path(file->container);
}

uint64_t spsh_table_file_count(const spsh_table_file *file, uint32_t id)
{
    return spsh__container_count(file->container, id);
}

spsh_status spsh_table_file_require(const spsh_table_file *file, uint32_t id,
                                    uint32_t element_bytes, uint64_t count, spsh_error *err)
{
    return spsh__container_require(file->container, id, element_bytes, count, err);
}

spsh_status spsh_table_file_column(const spsh_table_file *file, uint32_t id, uint64_t first,
                                   uint64_t count, spsh_bytes *ret_elements, spsh_error *err)
{
    return spsh__container_elements(file->container, id, first, count, ret_elements, err);
}

spsh_status spsh_table_file_check(const spsh_table_file *file, spsh_error *err)
{
    const uint64_t page_count = spsh__container_footer(file->container)->page_count;
    spsh_status rc = SPSH_OK;
    for (uint64_t page = 0; page < page_count && rc == SPSH_OK; page++)
        rc = spsh__container_check_page(file->container, page, err);
    if (rc == SPSH_OK)
        rc = spsh__container_check_padding(file->container, err);
    return rc;
}
