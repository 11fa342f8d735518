/* pack_report.c: the files of a report. */
#include "pack_report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

#define COPY_BYTES ((size_t)1 << 16)

/* Copy a reject file in pieces. A corpus with many bad rows has a large one. */
static spsh_status copy_file(const spsh_io *io, const char *directory, const char *name,
                             spsh_file_writer *to, spsh__examples *examples, spsh_error *err)
{
    spsh__builder path = {0};
    uint8_t piece[COPY_BYTES];
    uint64_t offset = 0;
    spsh_status rc = SPSH_OK;

    if (spsh__builder_path(&path, directory, name) == NULL)
        return SPSH_NO_MEMORY(err);
    int fd = io->open_fn(io->user, (const char *)path.data, O_RDONLY | O_CLOEXEC, 0);
    int64_t got = fd;
    while (fd >= 0 && rc == SPSH_OK) {
        got = io->pread_fn(io->user, fd, piece, sizeof(piece), offset);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            break;
        offset += (uint64_t)got;
        rc = spsh_file_writer_write(to, piece, (size_t)got, err);
        if (rc == SPSH_OK && !spsh__examples_watch(examples, (spsh_bytes){piece, (size_t)got}))
            rc = SPSH_NO_MEMORY(err);
    }
    if (fd >= 0)
        (void)io->close_fn(io->user, fd);
    if (rc == SPSH_OK && got < 0)
        rc = SPSH_FAIL_OS(err, spsh_io_status((int)-got), (int)-got, "%s: %s",
                          (const char *)path.data, strerror((int)-got));
    spsh__builder_free(&path);
    return rc;
}

spsh_status spsh__report_write_rejects(const spsh_pack_options *options, const char *work_directory,
                                       const char *report_directory, const spsh__packed *packed,
                                       spsh__examples *examples, spsh_error *err)
{
    spsh_file_writer *file = NULL;
    spsh_status rc =
        spsh_file_writer_open(options->io, report_directory, "rejects.jsonl", 0, NULL, &file, err);

    for (size_t i = 0; rc == SPSH_OK && i < packed->reject_file_count; i++)
        rc = copy_file(options->io, work_directory, packed->reject_files[i], file, examples, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(file, SPSH_PUBLISH_REPLACE, err);
    spsh_file_writer_free(file);
    return rc;
}

spsh_status spsh__report_write(const spsh_io *io, const char *report_directory, const char *command,
                               const spsh__facts *facts, spsh_error *err)
{
    spsh__builder out = {0};
    char *json = NULL;
    spsh_status rc = spsh__report_json(facts, &json, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__builder_append_text(&out, json);
    spsh__builder_append(&out, "\n", 1);
    free(json);
    if (out.failed)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = spsh__pack_publish(io, report_directory, "pack.json", spsh__builder_bytes(&out), err);
    spsh__builder_clear(&out);
    spsh__report_html(&out, facts, command);
    if (rc == SPSH_OK && out.failed)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = spsh__pack_publish(io, report_directory, "pack.html", spsh__builder_bytes(&out), err);
    spsh__builder_free(&out);
    return rc;
}
