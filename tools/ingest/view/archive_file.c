/* archive_file.c: libarchive with restrictions.
 *
 * The first bytes select the format, tar (ustar, PAX, GNU, v7) or zip, so that no other libarchive
 * format claims the file. Decompression filters are offered only for other files. libarchive reads
 * through our I/O table with exact skips, so that only the headers of an uncompressed archive are
 * read.
 *
 * Names must be the bytes of the archive, as tar would write them to a disk. libarchive converts
 * PAX and zip names from UTF-8 to the locale. In a UTF-8 locale it also composes them: "e" and an
 * accent become one character, and metadata that name the file no longer match. So libarchive runs
 * in the C locale, where it keeps names that it cannot convert. For zips it then returns no name at
 * all, and the name is read from the member's local header.
 *
 * A member is a piece of the file if its bytes are stored there uncompressed. The first piece of an
 * archive is compared with the output of libarchive. If they differ, no member is treated as a
 * piece.
 */
#include "archive_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/byte_builder.h"
#include "gunzip.h"
#include "speechshard/inside.h"

/* Limits that no speech archive exceeds. */
#define NAME_BYTES_MAX   4096U               /* PATH_MAX: tar cannot unpack a longer name */
#define MEMBER_BYTES_MAX (UINT64_C(1) << 44) /* so that sums of sizes do not overflow */
#define MEMBERS_MAX      (UINT64_C(1) << 30) /* the largest release has 31 million */
/* Maximum decompression ratio. FLAC, MP3, and Opus do not shrink, text and WAV shrink by 20 at
 * most, and digital silence by 1000 in small parts. */
#define RATIO_MAX        UINT64_C(256)
#define RATIO_FREE_BYTES (UINT64_C(1) << 30)

#define PLAIN_BLOCK_BYTES  ((size_t)16 << 10) /* for headers only, because clips are skipped */
#define STREAM_BLOCK_BYTES ((size_t)256 << 10)
#define SNIFF_BYTES        ((size_t)64 << 10)
#define TAR_BLOCK_BYTES    ((size_t)512)
#define STREAM_HEAD_BYTES  ((size_t)32) /* longest header of a compression format */
#define MAGIC_BYTES_MAX    ((size_t)6)  /* longest magic number of a compression format */
#define ZIP_HEADER_BYTES   30U
#define ZIP_SEARCH_BYTES   (ZIP_HEADER_BYTES + 2U * 65535U)
#define ZIP_END_BYTES      ((size_t)22) /* end-of-directory record without its comment */
#define ZIP_LOCATOR_BYTES  ((size_t)20) /* zip64 locator, right before the record */
#define ZIP64_END_BYTES    ((size_t)56)
#define ZIP_TAIL_BYTES     (ZIP64_END_BYTES + ZIP_LOCATOR_BYTES + ZIP_END_BYTES + 65535U)

struct spsh__archive {
    const spsh_io *io;
    int fd;
    const char *path;
    char *own_path; /* copy of path, or NULL if the caller owns path */
    struct archive *handle;
    locale_t locale;
    bool seekable;
    bool stream; /* the whole decompressed input is one member */
    bool zip;
    bool tar;     /* not compressed */
    bool plain;   /* members may be pieces */
    bool checked; /* a piece was compared with the output of libarchive */
    bool at_end;
    int os_errno;   /* errno of the call that failed inside libarchive */
    uint64_t begin; /* offset of a stream in the file */
    uint64_t position;
    uint64_t size_bytes; /* size of the file, or end of the stream; UINT64_MAX: unknown */
    uint64_t delivered;  /* total bytes of all members */
    uint64_t member_count;
    uint64_t member_at; /* bytes of this member returned so far */
    uint64_t member_bytes;
    uint64_t header_at; /* expected offset of the next header in a tar */
    bool held;          /* the check has already read this block of the member */
    const void *block;
    size_t block_bytes;
    uint64_t block_offset;
    uint8_t *buffer;
    size_t buffer_bytes;
    spsh__gunzip *gunzip; /* NULL: the input is not gzip */
    bool has_begun;       /* the first bytes of a compressed input were checked */
    spsh__builder name;
    spsh__builder target;
};

/* ---- callbacks of libarchive ---- */

/* Read input into the buffer from `at` on. Returns the byte count, 0 at the end, or a negative
 * value after a failure. */
static int64_t read_input(spsh__archive *a, size_t at)
{
    const size_t space_bytes = a->buffer_bytes - at;
    int64_t got = 0;

    do {
        if (a->seekable) {
            uint64_t left = a->size_bytes > a->position ? a->size_bytes - a->position : 0;
            size_t bytes = left < space_bytes ? (size_t)left : space_bytes;
            got = a->io->pread_fn(a->io->user, a->fd, a->buffer + at, bytes, a->position);
        } else {
            got = read(a->fd, a->buffer + at, space_bytes);
            got = got < 0 ? -(int64_t)errno : got;
        }
    } while (got == -EINTR && a->seekable);
    if (got < 0)
        a->os_errno = (int)-got;
    else
        a->position += (uint64_t)got;
    return got;
}

static int64_t read_gzip(void *user, const uint8_t **ret_data)
{
    spsh__archive *a = user;
    *ret_data = a->buffer;
    return read_input(a, 0);
}

/* Read the first bytes of a compressed input and detect gzip. A pipe may return them one by one. */
static int64_t begin_input(spsh__archive *a)
{
    const spsh__gunzip_source source = {read_gzip, a};
    size_t bytes = 0;
    int64_t got = 1;

    a->has_begun = true;
    for (; bytes < MAGIC_BYTES_MAX && got > 0; bytes += got > 0 ? (size_t)got : 0)
        got = read_input(a, bytes);
    if (got < 0 || !spsh__gunzip_fits(a->buffer, bytes))
        return got < 0 ? got : (int64_t)bytes;
    a->gunzip = spsh__gunzip_new(&source, a->buffer, bytes);
    return a->gunzip != NULL ? 0 : -ENOMEM;
}

static la_ssize_t on_read(struct archive *handle, void *user, const void **ret_data)
{
    spsh__archive *a = user;
    const uint8_t *data = a->buffer;
    const char *problem = NULL;
    int64_t got = 0;

    if (!a->plain && !a->has_begun)
        got = begin_input(a);
    else if (a->gunzip == NULL)
        got = read_input(a, 0);
    if (got == 0 && a->gunzip != NULL)
        got = spsh__gunzip_step(a->gunzip, &data, &problem);
    if (got < 0) {
        archive_set_error(handle, (int)-got, "%s", problem != NULL ? problem : strerror((int)-got));
        return ARCHIVE_FATAL;
    }
    *ret_data = data;
    return (la_ssize_t)got;
}

static la_int64_t on_skip(struct archive *handle, void *user, la_int64_t request)
{
    spsh__archive *a = user;
    uint64_t left = a->size_bytes > a->position ? a->size_bytes - a->position : 0;
    uint64_t skipped = request < 0 ? 0 : (uint64_t)request;

    (void)handle;
    if (!a->seekable)
        return 0;
    skipped = skipped < left ? skipped : left;
    a->position += skipped;
    return (la_int64_t)skipped;
}

static la_int64_t on_seek(struct archive *handle, void *user, la_int64_t offset, int whence)
{
    spsh__archive *a = user;
    la_int64_t base = 0;

    if (whence == SEEK_CUR)
        base = (la_int64_t)a->position;
    else if (whence == SEEK_END)
        base = (la_int64_t)a->size_bytes;
    if (offset < -base || offset > (la_int64_t)a->size_bytes - base) {
        archive_set_error(handle, EINVAL, "the position is outside the file");
        return ARCHIVE_FATAL;
    }
    a->position = (uint64_t)(base + offset);
    return base + offset;
}

/* ---- errors ---- */

/* Convert the error of libarchive to a status. */
static spsh_status fail_read(spsh__archive *a, spsh_error *err)
{
    const char *text = archive_error_string(a->handle);
    int number = archive_errno(a->handle);

    /* A pipe may be silent for hours. A handled signal ends the wait. */
    if (a->os_errno == EINTR)
        return SPSH_FAIL(err, SPSH_E_CANCELED, "canceled");
    if (a->os_errno != 0)
        return SPSH_FAIL_OS(err, SPSH_E_IO, a->os_errno, "%s: %s", a->path, strerror(a->os_errno));
    if (number == ENOMEM)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: out of memory", a->path);
    text = text == NULL ? "cannot be read" : text;
    if (strcasestr(text, "truncated") != NULL)
        return SPSH_FAIL(err, SPSH_E_TRUNCATED, "%s: the file ends too early (%s)", a->path, text);
    return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: damaged at byte %" PRIu64 " (%s)", a->path,
                     a->position, text);
}

static spsh_status fail_memory(const spsh__archive *a, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: out of memory", a->path);
}

/* Read bytes of the file. Returns fewer bytes at its end. */
static spsh_status read_at(const spsh__archive *a, void *out, size_t size_bytes, uint64_t offset,
                           size_t *ret_got, spsh_error *err)
{
    size_t at = 0;

    while (at < size_bytes) {
        int64_t got =
            a->io->pread_fn(a->io->user, a->fd, (uint8_t *)out + at, size_bytes - at, offset + at);
        if (got == -EINTR)
            continue;
        if (got < 0)
            return SPSH_FAIL_OS(err, SPSH_E_IO, (int)-got, "%s: %s", a->path, strerror((int)-got));
        if (got == 0)
            break;
        at += (size_t)got;
    }
    *ret_got = at;
    return SPSH_OK;
}

/* ---- detecting the format ---- */

/* Whether head is a tar header with a valid checksum. Blocks of zeros prove nothing. */
static bool is_tar(const uint8_t *head, size_t size_bytes)
{
    uint64_t wanted = 0;
    uint64_t sum = 8 * (uint64_t)' ';
    int64_t signed_sum = 8 * (int64_t)' ';
    size_t at = 148;

    if (size_bytes < TAR_BLOCK_BYTES || head[0] == 0)
        return false;
    while (at < 156 && head[at] == ' ')
        at++;
    const size_t first = at;
    for (; at < 156 && head[at] >= '0' && head[at] <= '7'; at++)
        wanted = wanted * 8 + (uint64_t)(head[at] - '0');
    if (at == first || (at < 156 && head[at] != '\0' && head[at] != ' '))
        return false; /* no checksum; as 0, it would match 1 in 4,000 files by chance */
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++) {
        if (i >= 148 && i < 156)
            continue;
        sum += head[i];
        signed_sum += head[i] < 128 ? head[i] : (int64_t)head[i] - 256; /* old tars used signed
                                                                           bytes */
    }
    return wanted == sum || (int64_t)wanted == signed_sum;
}

static bool is_zip(const uint8_t *head, size_t size_bytes)
{
    return size_bytes >= 4 && (memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0);
}

bool spsh__archive_is_compressed(const uint8_t *head, size_t size_bytes)
{
    static const struct {
        uint8_t bytes[6];
        size_t count;
    } marks[] = {
        {{0x1f, 0x8b, 8},               3}, /* gzip */
        {{'B', 'Z', 'h'},               3},
        {{0xfd, '7', 'z', 'X', 'Z', 0}, 6},
        {{0x28, 0xb5, 0x2f, 0xfd},      4}, /* zstd */
        {{0x04, 0x22, 0x4d, 0x18},      4}, /* lz4 */
        {{0x5d, 0, 0, 0x80, 0},         5}, /* lzma, 8 MiB; has no magic number */
    };

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (size_bytes >= marks[i].count && memcmp(head, marks[i].bytes, marks[i].count) == 0)
            return true;
    return false;
}

/* ---- opening ---- */

static bool add_filters(struct archive *handle)
{
    /* ARCHIVE_WARN means that libarchive would run an external program for it. */
    return archive_read_support_filter_gzip(handle) >= ARCHIVE_WARN &&
           archive_read_support_filter_bzip2(handle) >= ARCHIVE_WARN &&
           archive_read_support_filter_xz(handle) >= ARCHIVE_WARN &&
           archive_read_support_filter_lzma(handle) >= ARCHIVE_WARN &&
           archive_read_support_filter_zstd(handle) >= ARCHIVE_WARN &&
           archive_read_support_filter_lz4(handle) >= ARCHIVE_WARN;
}

static bool add_formats(const spsh__archive *a)
{
    if (a->stream)
        return archive_read_support_format_raw(a->handle) == ARCHIVE_OK &&
               archive_read_support_format_empty(a->handle) == ARCHIVE_OK;
    if (a->zip) /* uses the directory, or the members' own headers if the end of the file is
                   missing */
        return archive_read_support_format_zip(a->handle) == ARCHIVE_OK;
    return archive_read_support_format_tar(a->handle) == ARCHIVE_OK &&
           archive_read_set_options(a->handle, "tar:read_concatenated_archives") == ARCHIVE_OK;
}

static spsh_status connect(spsh__archive *a, spsh_error *err)
{
    a->buffer_bytes = a->plain ? PLAIN_BLOCK_BYTES : STREAM_BLOCK_BYTES;
    a->buffer = malloc(a->buffer_bytes);
    a->handle = archive_read_new();
    a->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (a->buffer == NULL || a->handle == NULL || a->locale == (locale_t)0 || !add_formats(a) ||
        (!a->plain && !add_filters(a->handle)))
        return fail_memory(a, err);
    (void)archive_read_set_read_callback(a->handle, on_read);
    (void)archive_read_set_skip_callback(a->handle, on_skip);
    if (a->seekable && a->plain)
        (void)archive_read_set_seek_callback(a->handle, on_seek);
    (void)archive_read_set_callback_data(a->handle, a);
    return archive_read_open1(a->handle) == ARCHIVE_OK ? SPSH_OK : fail_read(a, err);
}

static spsh_status make(const spsh_io *io, int fd, const char *path, spsh__archive **ret_archive,
                        spsh_error *err)
{
    struct stat state;
    spsh__archive *a = calloc(1, sizeof(*a));

    if (a != NULL)
        a->own_path = strdup(path);
    if (a == NULL || a->own_path == NULL) {
        free(a);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: out of memory", path);
    }
    a->path = a->own_path;
    a->io = io;
    a->fd = fd;
    a->size_bytes = UINT64_MAX;
    *ret_archive = a;
    int error = -io->fstat_fn(io->user, fd, &state);
    if (error != 0)
        return SPSH_FAIL_OS(err, SPSH_E_IO, error, "%s: %s", path, strerror(error));
    if (S_ISREG(state.st_mode)) {
        a->seekable = true;
        a->size_bytes = (uint64_t)state.st_size;
    }
    return SPSH_OK;
}

spsh_status spsh__archive_open(const spsh_io *io, int fd, const char *path,
                               spsh__archive **ret_archive, spsh_error *err)
{
    spsh__archive *a = NULL;
    uint8_t head[TAR_BLOCK_BYTES];
    size_t got = 0;
    spsh_status rc = make(io, fd, path, &a, err);

    if (rc == SPSH_OK && !a->seekable)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: not a regular file", path);
    if (rc == SPSH_OK)
        rc = read_at(a, head, sizeof(head), 0, &got, err);
    if (rc == SPSH_OK) {
        a->zip = is_zip(head, got);
        a->tar = is_tar(head, got);
        a->plain = a->zip || a->tar;
        rc = connect(a, err);
    }
    if (rc == SPSH_OK) {
        *ret_archive = a;
        a = NULL;
    }
    spsh__archive_close(a);
    return rc;
}

spsh_status spsh__archive_open_stream(const spsh__archive_input *input, spsh__archive **ret_archive,
                                      spsh_error *err)
{
    spsh__archive *a = NULL;
    struct archive_entry *entry = NULL;
    spsh_status rc = make(input->io, input->fd, input->path, &a, err);

    if (rc == SPSH_OK) {
        a->stream = true;
        a->begin = input->begin_bytes;
        a->position = input->begin_bytes;
        if (a->seekable && input->end_bytes < a->size_bytes)
            a->size_bytes = input->end_bytes;
        a->member_bytes = UINT64_MAX;
        rc = connect(a, err);
    }
    if (rc == SPSH_OK) {
        int got = archive_read_next_header(a->handle, &entry);
        if (got == ARCHIVE_EOF)
            a->at_end = true; /* an empty file */
        else if (got != ARCHIVE_OK)
            rc = fail_read(a, err);
    }
    if (rc == SPSH_OK) {
        *ret_archive = a;
        a = NULL;
    }
    spsh__archive_close(a);
    return rc;
}

spsh_status spsh__archive_sniff(const spsh_io *io, int fd, const char *path,
                                spsh__archive_kind *ret_kind, spsh_error *err)
{
    spsh__archive *stream = NULL;
    uint8_t head[TAR_BLOCK_BYTES];
    spsh__archive probe = {.io = io, .fd = fd, .path = path};
    size_t got = 0;

    *ret_kind = SPSH__ARCHIVE_NONE;
    spsh_status rc = read_at(&probe, head, sizeof(head), 0, &got, err);
    if (rc != SPSH_OK)
        return rc;
    if (is_tar(head, got) || is_zip(head, got))
        *ret_kind = SPSH__ARCHIVE_PLAIN;
    if (*ret_kind != SPSH__ARCHIVE_NONE || !spsh__archive_is_compressed(head, got))
        return SPSH_OK;
    got = 0;
    const spsh__archive_input input = {io, fd, path, 0, SPSH_OFFSET_NONE};
    rc = spsh__archive_open_stream(&input, &stream, err);
    while (rc == SPSH_OK && got < sizeof(head)) {
        spsh_bytes data = {NULL, 0};
        rc = spsh__archive_read(stream, &data, err);
        if (rc != SPSH_OK)
            break;
        size_t take = data.size_bytes < sizeof(head) - got ? data.size_bytes : sizeof(head) - got;
        memcpy(head + got, data.data, take);
        got += take;
    }
    /* If a file ends within its compression header, libarchive returns its bytes unchanged. */
    const bool is_unpacked =
        stream != NULL && (stream->gunzip != NULL || archive_filter_count(stream->handle) > 1);
    spsh__archive_close(stream);
    if (rc != SPSH_OK && rc != SPSH_E_END)
        return rc;
    if (got == 0 || (!is_unpacked && got < STREAM_HEAD_BYTES))
        return SPSH_FAIL(err, SPSH_E_TRUNCATED,
                         "%s: the file was cut off, and nothing can be unpacked from it", path);
    *ret_kind = is_tar(head, got) ? SPSH__ARCHIVE_COMPRESSED : SPSH__ARCHIVE_TEXT;
    return SPSH_OK;
}

spsh_status spsh__archive_report_foreign(const spsh_io *io, int fd, const char *path,
                                         spsh__archive_foreign *ret_foreign, spsh_error *err)
{
    static const char pointer[] = "version https://git-lfs.";
    static const uint8_t zeros[TAR_BLOCK_BYTES];
    uint8_t head[TAR_BLOCK_BYTES];
    spsh__archive probe = {.io = io, .fd = fd, .path = path};
    size_t got = 0;
    size_t at = 0;

    *ret_foreign = (spsh__archive_foreign){NULL, true};
    spsh_status rc = read_at(&probe, head, sizeof(head), 0, &got, err);
    if (rc != SPSH_OK)
        return rc;
    while (at < got && (head[at] == ' ' || head[at] == '\n' || head[at] == '\r'))
        at++;
    if (got == 0)
        ret_foreign->what = "has 0 bytes";
    else if (at < got && head[at] == '<')
        ret_foreign->what = "looks like an HTML page, perhaps of a failed download";
    else if (got >= sizeof(pointer) && memcmp(head, pointer, sizeof(pointer) - 1) == 0)
        ret_foreign->what = "is a Git LFS pointer: the file was not downloaded; run 'git lfs pull'";
    else if (got < sizeof(head))
        ret_foreign->what = "is shorter than any archive";
    else if (memcmp(head, zeros, sizeof(head)) != 0)
        *ret_foreign = (spsh__archive_foreign){"is of a kind that cannot be read", false};
    return SPSH_OK;
}

/* ---- names ---- */

/* Append the name from the zip local header that ends where the member's bytes begin. Uses the
 * nearest match. Appends nothing without a match. */
static spsh_status zip_name(const spsh__archive *a, uint64_t end, spsh__builder *out,
                            spsh_error *err)
{
    size_t size_bytes = end < ZIP_SEARCH_BYTES ? (size_t)end : ZIP_SEARCH_BYTES;
    uint8_t *data = malloc(size_bytes + 1);
    size_t got = 0;

    if (data == NULL)
        return fail_memory(a, err);
    spsh_status rc = read_at(a, data, size_bytes, end - size_bytes, &got, err);
    if (rc == SPSH_OK && got == size_bytes) {
        for (size_t back = ZIP_HEADER_BYTES; back <= size_bytes; back++) {
            const uint8_t *header = data + size_bytes - back;
            unsigned name_bytes = spsh__load_u16le(header + 26);
            if (memcmp(header, "PK\3\4", 4) != 0 ||
                ZIP_HEADER_BYTES + name_bytes + spsh__load_u16le(header + 28) != back)
                continue;
            spsh__builder_append(out, header + ZIP_HEADER_BYTES, name_bytes);
            break;
        }
    }
    free(data);
    return rc;
}

/* Normalize the name to a path below the archive, like tar: no leading "/", no "." and no empty
 * parts. Returns NULL, or why the name must not be used. */
static const char *clean_name(spsh__builder *name)
{
    const char *problem = NULL;
    size_t out = 0;

    for (size_t at = 0; at < name->size_bytes;) {
        size_t part = at;
        while (at < name->size_bytes && name->data[at] != '/')
            at++;
        size_t length = at - part;
        at++;
        if (length == 0 || (length == 1 && name->data[part] == '.'))
            continue;
        if (length == 2 && memcmp(name->data + part, "..", 2) == 0)
            problem = "its name leads outside the archive";
        if (memchr(name->data + part, 0, length) != NULL)
            problem = "its name holds a zero byte";
        if (out > 0)
            name->data[out++] = '/';
        memmove(name->data + out, name->data + part, length);
        out += length;
    }
    name->size_bytes = out;
    if (out > NAME_BYTES_MAX) {
        name->size_bytes = NAME_BYTES_MAX;
        return "its name is longer than 4096 bytes";
    }
    return problem;
}

static spsh_status read_name(spsh__archive *a, struct archive_entry *entry,
                             const char **ret_problem, spsh_error *err)
{
    const char *name = archive_entry_pathname(entry);
    spsh_status rc = SPSH_OK;

    spsh__builder_clear(&a->name);
    if (name != NULL && name[0] != '\0')
        spsh__builder_append_text(&a->name, name);
    else if (a->zip)
        rc = zip_name(a, (uint64_t)archive_filter_bytes(a->handle, 0), &a->name, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_problem = a->name.size_bytes == 0 ? "it has no name" : clean_name(&a->name);
    return spsh__builder_text(&a->name) == NULL ? fail_memory(a, err) : SPSH_OK;
}

/* ---- members ---- */

/* Read one block of the member from libarchive. *ret_end: the member has ended. */
static spsh_status next_block(spsh__archive *a, bool *ret_end, spsh_error *err)
{
    la_int64_t offset = 0;

    *ret_end = false;
    if (a->held) {
        a->held = false;
        return SPSH_OK;
    }
    int got = archive_read_data_block(a->handle, &a->block, &a->block_bytes, &offset);
    if (got == ARCHIVE_EOF) {
        *ret_end = true;
        return SPSH_OK;
    }
    if (got < ARCHIVE_WARN || offset < 0)
        return fail_read(a, err);
    a->block_offset = (uint64_t)offset;
    return SPSH_OK;
}

/* Compare the start of a member with the bytes of the file at its offset. If they differ, no member
 * of this archive is a piece. */
static spsh_status check_piece(spsh__archive *a, spsh__archive_member *member, spsh_error *err)
{
    uint8_t bytes[TAR_BLOCK_BYTES];
    size_t got = 0;
    bool end = false;
    spsh_status rc = next_block(a, &end, err);

    if (rc != SPSH_OK)
        return rc;
    a->held = !end;
    size_t compared = end ? 0 : a->block_bytes;
    compared = compared < sizeof(bytes) ? compared : sizeof(bytes);
    rc = read_at(a, bytes, compared, member->offset_bytes, &got, err);
    if (rc != SPSH_OK)
        return rc;
    a->plain =
        !end && a->block_offset == 0 && got == compared && memcmp(bytes, a->block, compared) == 0;
    a->checked = true;
    return SPSH_OK;
}

/* Whether a zip member is stored uncompressed. */
static bool is_stored(const spsh__archive *a)
{
    const char *format = archive_format_name(a->handle);
    return !a->zip || (format != NULL && strstr(format, "(uncompressed)") != NULL);
}

static spsh_status fill_file(spsh__archive *a, struct archive_entry *entry,
                             spsh__archive_member *member, spsh_error *err)
{
    la_int64_t size_bytes = archive_entry_size(entry);

    if (!archive_entry_size_is_set(entry) || size_bytes < 0 ||
        (uint64_t)size_bytes > MEMBER_BYTES_MAX) {
        member->problem = "its size is unknown or impossibly large";
        return SPSH_OK;
    }
    member->size_bytes = (uint64_t)size_bytes;
    a->member_bytes = member->size_bytes;
    if (archive_entry_is_encrypted(entry))
        member->problem = "it is encrypted";
    if (!a->plain || member->problem != NULL || archive_entry_sparse_count(entry) > 0 ||
        !is_stored(a))
        return SPSH_OK;
    member->offset_bytes = (uint64_t)archive_filter_bytes(a->handle, 0);
    if (member->offset_bytes > a->size_bytes ||
        member->size_bytes > a->size_bytes - member->offset_bytes)
        return SPSH_FAIL(err, SPSH_E_TRUNCATED, "%s: the file ends in the middle of %s", a->path,
                         member->name);
    if (!a->checked && member->size_bytes > 0) {
        spsh_status rc = check_piece(a, member, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (!a->plain)
        member->offset_bytes = SPSH_OFFSET_NONE;
    return SPSH_OK;
}

static spsh_status fill_member(spsh__archive *a, struct archive_entry *entry,
                               spsh__archive_member *member, spsh_error *err)
{
    const char *target = archive_entry_hardlink(entry);
    spsh_status rc = read_name(a, entry, &member->problem, err);

    if (rc != SPSH_OK)
        return rc;
    member->name = (const char *)a->name.data;
    if (target != NULL) {
        member->type = SPSH__ARCHIVE_HARD_LINK;
        spsh__builder_clear(&a->target);
        spsh__builder_append_text(&a->target, target);
        const char *problem = clean_name(&a->target);
        if (member->problem == NULL)
            member->problem = problem;
        member->target = spsh__builder_text(&a->target);
        return member->target == NULL ? fail_memory(a, err) : SPSH_OK;
    }
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG: member->type = SPSH__ARCHIVE_FILE; break;
    case AE_IFDIR: member->type = SPSH__ARCHIVE_FOLDER; break;
    default: member->type = SPSH__ARCHIVE_OTHER; break;
    }
    if (member->type == SPSH__ARCHIVE_FILE && member->name[0] == '\0' && member->problem == NULL)
        member->problem = "it has no name";
    return member->type == SPSH__ARCHIVE_FILE ? fill_file(a, entry, member, err) : SPSH_OK;
}

/* ---- the end of an archive ---- */

/* Whether the parser stopped at an end mark: two blocks of zeros instead of a header. Bytes after
 * the mark are ignored, as in tar. libarchive also stops at the end of the file, which looks the
 * same if the file was cut between two members. */
static spsh_status find_tar_end(const spsh__archive *a, bool *ret_found, spsh_error *err)
{
    static const uint8_t zeros[2 * TAR_BLOCK_BYTES];
    uint8_t mark[2 * TAR_BLOCK_BYTES];
    size_t got = 0;
    spsh_status rc = read_at(a, mark, sizeof(mark), a->header_at, &got, err);

    *ret_found = got == sizeof(mark) && memcmp(mark, zeros, sizeof(mark)) == 0;
    return rc;
}

/** The end-of-directory record of a zip, or its zip64 form. */
typedef struct zip_end {
    uint64_t at;
    uint64_t entries, entries_mask; /* the mask covers the bits that the record can hold */
    uint64_t directory_at, directory_bytes;
} zip_end;

/* Parse the record at `at` in tail, which holds the last bytes of the file. A zip64 record takes
 * precedence. */
static zip_end read_zip_end(const uint8_t *tail, size_t at, uint64_t tail_at)
{
    const uint8_t *record = tail + at;
    zip_end end = {tail_at + at, spsh__load_u16le(record + 10), UINT16_MAX,
                   spsh__load_u32le(record + 16), spsh__load_u32le(record + 12)};

    if (at < ZIP64_END_BYTES + ZIP_LOCATOR_BYTES)
        return end;
    const uint8_t *locator = record - ZIP_LOCATOR_BYTES;
    const uint64_t big_at = spsh__load_u64le(locator + 8);
    if (memcmp(locator, "PK\6\7", 4) != 0 || big_at < tail_at ||
        big_at - tail_at > at - ZIP_LOCATOR_BYTES - ZIP64_END_BYTES)
        return end;
    const uint8_t *big = tail + (big_at - tail_at);
    if (memcmp(big, "PK\6\6", 4) == 0)
        end = (zip_end){big_at, spsh__load_u64le(big + 32), UINT64_MAX, spsh__load_u64le(big + 48),
                        spsh__load_u64le(big + 40)};
    return end;
}

/* Find the record at the end of a zip, which locates the directory. The end of the file may also
 * hold the record of a zip that is a stored member. The offset in such a record does not match this
 * file. */
static bool find_zip_end(const uint8_t *tail, size_t size_bytes, uint64_t tail_at, zip_end *ret_end)
{
    for (size_t left = ZIP_END_BYTES; left <= size_bytes; left++) {
        const size_t at = size_bytes - left;
        if (memcmp(tail + at, "PK\5\6", 4) != 0 ||
            spsh__load_u16le(tail + at + 20) > left - ZIP_END_BYTES)
            continue;
        *ret_end = read_zip_end(tail, at, tail_at);
        if (ret_end->directory_bytes <= ret_end->at &&
            ret_end->directory_at == ret_end->at - ret_end->directory_bytes)
            return true;
    }
    return false;
}

/* Check the end of a zip after the last member. Without a directory, libarchive reads only the
 * members that it reaches. */
static spsh_status check_zip_end(const spsh__archive *a, spsh_error *err)
{
    const size_t size_bytes =
        a->size_bytes < ZIP_TAIL_BYTES ? (size_t)a->size_bytes : ZIP_TAIL_BYTES;
    const uint64_t tail_at = a->size_bytes - size_bytes;
    uint8_t *tail = malloc(size_bytes + 1);
    zip_end end = {0};
    size_t got = 0;

    if (tail == NULL)
        return fail_memory(a, err);
    spsh_status rc = read_at(a, tail, size_bytes, tail_at, &got, err);
    const bool found = rc == SPSH_OK && find_zip_end(tail, got, tail_at, &end);
    free(tail);
    if (rc != SPSH_OK)
        return rc;
    if (!found)
        return SPSH_FAIL(err, SPSH_E_TRUNCATED,
                         "%s: the file was cut off: a zip ends with its directory", a->path);
    if ((a->member_count & end.entries_mask) != end.entries)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s: the archive has %" PRIu64
                         " members, but its directory lists %" PRIu64,
                         a->path, a->member_count, end.entries);
    return SPSH_OK;
}

/* Handle the end of the members. Returns SPSH_E_END if the archive is complete. */
static spsh_status end_members(spsh__archive *a, bool is_damaged, spsh_error *err)
{
    bool is_end = !a->tar;
    spsh_status rc = SPSH_OK;

    if (a->tar && a->os_errno == 0)
        rc = find_tar_end(a, &is_end, err);
    else if (a->zip && !is_damaged)
        rc = check_zip_end(a, err);
    if (rc != SPSH_OK)
        return rc;
    if (is_damaged && !(a->tar && is_end))
        return fail_read(a, err);
    if (!is_end)
        return SPSH_FAIL(
            err, SPSH_E_TRUNCATED,
            "%s: the file was cut off: a tar ends with two blocks of zeros after its last member",
            a->path);
    a->at_end = true;
    return SPSH_E_END;
}

/* ---- the next member ---- */

/* Skip the rest of a member. Skipped bytes count toward the decompression limits, too. */
static spsh_status pass_over(spsh__archive *a, spsh_error *err)
{
    spsh_bytes data = {NULL, 0};
    spsh_status rc = SPSH_OK;

    while (rc == SPSH_OK)
        rc = spsh__archive_read(a, &data, err);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status next_member(spsh__archive *a, spsh__archive_member *member, spsh_error *err)
{
    struct archive_entry *entry = NULL;

    if (!a->plain && a->member_count > 0) {
        spsh_status rc = pass_over(a, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (a->at_end)
        return SPSH_E_END;
    if (a->tar && a->member_count > 0 && archive_read_data_skip(a->handle) < ARCHIVE_WARN)
        return fail_read(a, err);
    a->header_at = (uint64_t)archive_filter_bytes(a->handle, 0);
    int got = archive_read_next_header(a->handle, &entry);
    /* ARCHIVE_RETRY means an invalid header. Do not guess at the bytes after it. */
    const bool is_damaged = got < ARCHIVE_WARN || got == ARCHIVE_RETRY;
    if (got == ARCHIVE_EOF || is_damaged)
        return end_members(a, is_damaged, err);
    if (++a->member_count > MEMBERS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the archive has more than 2^30 members", a->path);
    a->member_at = 0;
    a->member_bytes = 0;
    a->held = false;
    return fill_member(a, entry, member, err);
}

spsh_status spsh__archive_next(spsh__archive *archive, spsh__archive_member *ret_member,
                               spsh_error *err)
{
    spsh__archive_member member = {.offset_bytes = SPSH_OFFSET_NONE};
    locale_t previous = uselocale(archive->locale);
    spsh_status rc = next_member(archive, &member, err);

    (void)uselocale(previous);
    if (rc == SPSH_OK)
        *ret_member = member;
    return rc;
}

/* ---- reading data ---- */

/* Zeros for the hole before a block of a sparse member. */
static spsh_bytes hole(const spsh__archive *a, uint64_t size_bytes)
{
    static const uint8_t zeros[4096];
    (void)a;
    return (spsh_bytes){zeros, size_bytes < sizeof(zeros) ? (size_t)size_bytes : sizeof(zeros)};
}

static spsh_status give(spsh__archive *a, spsh_bytes data, spsh_bytes *ret_data, spsh_error *err)
{
    a->member_at += data.size_bytes;
    a->delivered += data.size_bytes;
    if (a->delivered > RATIO_FREE_BYTES &&
        (a->delivered - RATIO_FREE_BYTES) / RATIO_MAX > a->position - a->begin)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%s: %" PRIu64 " bytes of it unpack to more than %" PRIu64
                         ", which is not plausible for speech",
                         a->path, a->position - a->begin, a->delivered);
    *ret_data = data;
    return SPSH_OK;
}

spsh_status spsh__archive_read(spsh__archive *archive, spsh_bytes *ret_data, spsh_error *err)
{
    spsh__archive *a = archive;
    bool end = a->at_end;
    spsh_status rc = SPSH_OK;

    while (rc == SPSH_OK && !end) {
        rc = next_block(a, &end, err);
        if (rc != SPSH_OK || end)
            break;
        if (a->block_offset > a->member_at) {
            a->held = true;
            return give(a, hole(a, a->block_offset - a->member_at), ret_data, err);
        }
        if (a->block_bytes > 0)
            return give(a, (spsh_bytes){a->block, a->block_bytes}, ret_data, err);
    }
    if (rc != SPSH_OK)
        return rc;
    if (!a->stream && a->member_at < a->member_bytes)
        return give(a, hole(a, a->member_bytes - a->member_at), ret_data, err);
    return SPSH_E_END;
}

uint64_t spsh__archive_position(const spsh__archive *archive)
{
    return archive->position;
}

void spsh__archive_close(spsh__archive *archive)
{
    if (archive == NULL)
        return;
    (void)archive_read_free(archive->handle);
    spsh__gunzip_free(archive->gunzip);
    if (archive->locale != (locale_t)0)
        freelocale(archive->locale);
    SPSH__BUILDERS_FREE(&archive->name, &archive->target);
    free(archive->buffer);
    free(archive->own_path);
    free(archive);
}
