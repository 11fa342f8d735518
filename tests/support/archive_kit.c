/* archive_kit.c: see archive_kit.h. */
#include "archive_kit.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int status, struct archive *archive)
{
    if (status >= ARCHIVE_WARN)
        return;
    fprintf(stderr, "test archive: %s\n", archive_error_string(archive));
    exit(1);
}

static void add(struct archive *archive, const test_member *member)
{
    const char *text = member->text == NULL ? "" : member->text;
    const size_t size_bytes = member->size_bytes != 0 ? member->size_bytes : strlen(text);
    struct archive_entry *entry = archive_entry_new();

    archive_entry_set_pathname(entry, member->name);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_filetype(entry, member->type == 'd' ? AE_IFDIR : AE_IFREG);
    if (member->type == 'h')
        archive_entry_set_hardlink(entry, text);
    if (member->type == 's') {
        archive_entry_set_filetype(entry, AE_IFLNK);
        archive_entry_set_symlink(entry, text);
    }
    archive_entry_set_size(entry, member->type == 0 ? (la_int64_t)size_bytes : 0);
    must(archive_write_header(archive, entry), archive);
    if (member->type == 0 &&
        archive_write_data(archive, text, size_bytes) != (la_ssize_t)size_bytes)
        must(ARCHIVE_FATAL, archive);
    archive_entry_free(entry);
}

void test_archive_write(const char *path, const char *format, const char *filter,
                        const test_member *members, size_t count)
{
    struct archive *archive = archive_write_new();
    const int stored = strcmp(format, "stored") == 0;

    must(archive_write_set_format_by_name(archive, stored ? "zip" : format), archive);
    if (stored)
        must(archive_write_set_options(archive, "zip:compression=store"), archive);
    if (strcmp(format, "pax") == 0)
        must(archive_write_set_options(archive, "hdrcharset=BINARY"), archive);
    if (filter != NULL)
        must(archive_write_add_filter_by_name(archive, filter), archive);
    must(archive_write_set_bytes_in_last_block(archive, 1), archive);
    must(archive_write_open_filename(archive, path), archive);
    for (size_t i = 0; i < count; i++)
        add(archive, &members[i]);
    must(archive_write_close(archive), archive);
    (void)archive_write_free(archive);
}
