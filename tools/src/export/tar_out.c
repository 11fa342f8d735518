/* tar_out.c: writes one file with libarchive. Members are regular files with mode 0644, owner 0,
 * time 0. The format is ustar, with pax headers only for names that need them. */
#include "tar_out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <archive.h>
#include <archive_entry.h>

#include "common/byte_builder.h"
#include "speechshard/inside.h"
#include "speechshard/io.h"

enum { MEMBER_MODE = 0644, TAR_UNIT_BYTES = 512 };

struct spsh__tar_out {
    struct archive *archive;
    struct archive_entry *entry;
    spsh_file_writer *writer;
    spsh_error write_error; /* error of the callback; libarchive passes only a number */
    spsh__builder path;     /* for messages */
    uint64_t member_left_bytes;
    uint64_t bytes;
};

static spsh_status fail_archive(spsh__tar_out *tar, spsh_error *err)
{
    if (tar->write_error.status != SPSH_OK) {
        if (err != NULL)
            *err = tar->write_error;
        return tar->write_error.status;
    }
    const char *text = archive_error_string(tar->archive);
    return SPSH_FAIL(err, SPSH_E_IO, "%s: %s", (const char *)tar->path.data,
                     text == NULL ? "archive cannot be written" : text);
}

static la_ssize_t write_block(struct archive *archive, void *user, const void *data, size_t size)
{
    spsh__tar_out *tar = (spsh__tar_out *)user;
    if (spsh_file_writer_write(tar->writer, data, size, &tar->write_error) == SPSH_OK)
        return (la_ssize_t)size;
    archive_set_error(archive, EIO, "%s", tar->write_error.message);
    return -1;
}

static spsh_status open_archive(spsh__tar_out *tar, spsh_error *err)
{
    tar->archive = archive_write_new();
    tar->entry = archive_entry_new();
    if (tar->archive == NULL || tar->entry == NULL)
        return SPSH_NO_MEMORY(err);
    if (archive_write_set_format_pax_restricted(tar->archive) != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(tar->archive, 1 << 20) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(tar->archive, 1) != ARCHIVE_OK ||
        archive_write_open2(tar->archive, tar, NULL, write_block, NULL, NULL) != ARCHIVE_OK)
        return fail_archive(tar, err);
    return SPSH_OK;
}

spsh_status spsh__tar_out_open(const char *directory, const char *name, spsh__tar_out **ret_tar,
                               spsh_error *err)
{
    spsh__tar_out *tar = (spsh__tar_out *)calloc(1, sizeof(*tar));
    if (tar == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc =
        spsh__builder_path(&tar->path, directory, name) == NULL
            ? SPSH_NO_MEMORY(err)
            : spsh_file_writer_open(spsh_io_default(), directory, name, 0, NULL, &tar->writer, err);
    if (rc == SPSH_OK)
        rc = open_archive(tar, err);
    if (rc == SPSH_OK)
        *ret_tar = tar;
    else
        spsh__tar_out_free(tar);
    return rc;
}

static spsh_status check_complete(const spsh__tar_out *tar, spsh_error *err)
{
    if (tar->member_left_bytes == 0)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: %" PRIu64 " bytes of a member are missing",
                     (const char *)tar->path.data, tar->member_left_bytes);
}

spsh_status spsh__tar_out_member(spsh__tar_out *tar, const char *name, uint64_t size_bytes,
                                 spsh_error *err)
{
    spsh_status rc = check_complete(tar, err);
    if (rc != SPSH_OK)
        return rc;
    archive_entry_clear(tar->entry);
    archive_entry_update_pathname_utf8(tar->entry, name);
    archive_entry_set_filetype(tar->entry, AE_IFREG);
    archive_entry_set_perm(tar->entry, MEMBER_MODE);
    archive_entry_set_uid(tar->entry, 0);
    archive_entry_set_gid(tar->entry, 0);
    archive_entry_set_mtime(tar->entry, 0, 0);
    archive_entry_set_size(tar->entry, (la_int64_t)size_bytes);
    if (archive_write_header(tar->archive, tar->entry) != ARCHIVE_OK)
        return fail_archive(tar, err);
    tar->member_left_bytes = size_bytes;
    tar->bytes +=
        TAR_UNIT_BYTES + (size_bytes + TAR_UNIT_BYTES - 1) / TAR_UNIT_BYTES * TAR_UNIT_BYTES;
    return SPSH_OK;
}

static spsh_status write_data(void *user, const void *data, size_t size_bytes, spsh_error *err)
{
    spsh__tar_out *tar = (spsh__tar_out *)user;
    if (size_bytes == 0)
        return SPSH_OK;
    if (size_bytes > tar->member_left_bytes ||
        archive_write_data(tar->archive, data, size_bytes) != (la_ssize_t)size_bytes)
        return fail_archive(tar, err);
    tar->member_left_bytes -= size_bytes;
    return SPSH_OK;
}

spsh__byte_sink spsh__tar_out_sink(spsh__tar_out *tar)
{
    return (spsh__byte_sink){write_data, tar};
}

uint64_t spsh__tar_out_bytes(const spsh__tar_out *tar)
{
    return tar->bytes;
}

spsh_status spsh__tar_out_finish(spsh__tar_out *tar, spsh_error *err)
{
    spsh_status rc = check_complete(tar, err);
    if (rc != SPSH_OK)
        return rc;
    if (archive_write_close(tar->archive) != ARCHIVE_OK)
        return fail_archive(tar, err);
    return spsh_file_writer_publish(tar->writer, SPSH_PUBLISH_NEW, err);
}

void spsh__tar_out_free(spsh__tar_out *tar)
{
    if (tar == NULL)
        return;
    /* This also closes an unfinished archive. Its last bytes go to a temporary file that is
     * removed. */
    archive_write_free(tar->archive);
    archive_entry_free(tar->entry);
    spsh_file_writer_free(tar->writer);
    spsh__builder_free(&tar->path);
    free(tar);
}
