/* fuzz_archive.c: arbitrary bytes as an archive, which is detected, read member by member, and read
 * as a stream.
 *
 * A member must keep its promises: names stay below the archive, pieces are inside the file, and
 * pieces of a tar have the bytes that reading returns. A zip can contradict itself about the length
 * of a stored member.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ingest/view/archive_file.h"

#define READ_BYTES_MAX ((uint64_t)4 << 20) /* maximum number of bytes to read from an archive */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_name(const char *name)
{
    must(name[0] != '/' && strlen(name) <= 4096);
    for (const char *part = name; part != NULL; part = strchr(part, '/')) {
        part += *part == '/' ? 1 : 0;
        const size_t length = strcspn(part, "/");
        must(length > 0 || name[0] == '\0');
        must(!(length == 1 && part[0] == '.') && !(length == 2 && memcmp(part, "..", 2) == 0));
    }
}

static uint64_t read_member(spsh__archive *archive, const spsh__archive_member *member,
                            const uint8_t *data, size_t size, uint64_t budget)
{
    const bool is_piece = member->offset_bytes != SPSH_OFFSET_NONE;
    uint64_t done = 0;
    spsh_bytes bytes;

    if (is_piece)
        must(member->offset_bytes <= size && member->size_bytes <= size - member->offset_bytes);
    while (done < budget && spsh__archive_read(archive, &bytes, NULL) == SPSH_OK) {
        must(bytes.size_bytes > 0);
        if (is_piece && data[0] != 'P' && done + bytes.size_bytes <= member->size_bytes)
            must(memcmp(data + member->offset_bytes + done, bytes.data, bytes.size_bytes) == 0);
        done += bytes.size_bytes;
    }
    return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const spsh_io *io = spsh_io_default();
    spsh__archive *archive = NULL;
    spsh__archive_member member;
    spsh__archive_kind kind = SPSH__ARCHIVE_NONE;
    uint64_t done = 0;
    int fd = memfd_create("archive", MFD_CLOEXEC);

    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    must(spsh__archive_sniff(io, fd, "archive", &kind, NULL) != SPSH_E_IO);
    if (spsh__archive_open(io, fd, "archive", &archive, NULL) == SPSH_OK) {
        while (done < READ_BYTES_MAX && spsh__archive_next(archive, &member, NULL) == SPSH_OK) {
            done += 512;
            if (member.problem != NULL)
                continue;
            check_name(member.name);
            if (member.type == SPSH__ARCHIVE_HARD_LINK)
                check_name(member.target);
            if (member.type == SPSH__ARCHIVE_FILE)
                done += read_member(archive, &member, data, size, READ_BYTES_MAX);
        }
        spsh__archive_close(archive);
    }
    archive = NULL;
    const spsh__archive_input input = {io, fd, "archive", 0, SPSH_OFFSET_NONE};
    if (spsh__archive_open_stream(&input, &archive, NULL) == SPSH_OK) {
        const spsh__archive_member whole = {.offset_bytes = SPSH_OFFSET_NONE};
        (void)read_member(archive, &whole, data, size, READ_BYTES_MAX);
    }
    spsh__archive_close(archive);
    (void)close(fd);
    return 0;
}
