/* gunzip.c: zlib, member by member. Zeros may follow the last member, as on a tape. Other trailing
 * bytes are the rest of a damaged member. */
#include "gunzip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST /* makes next_in a pointer to const */
#include <zlib.h>

#define OUT_BYTES   ((size_t)256 << 10)
#define GZIP_WINDOW (MAX_WBITS + 16) /* expect the header and trailer of gzip, not of zlib */

static const char no_memory[] = "out of memory";

struct spsh__gunzip {
    spsh__gunzip_source source;
    z_stream stream;
    bool is_between;     /* between members: the last one has ended */
    bool is_over;        /* zeros follow the last member */
    const char *problem; /* damage that is reported after the bytes before it */
    uint8_t out[OUT_BYTES];
};

bool spsh__gunzip_fits(const uint8_t *head, size_t size_bytes)
{
    static const uint8_t magic[] = {0x1f, 0x8b, 8};
    return size_bytes >= sizeof(magic) && memcmp(head, magic, sizeof(magic)) == 0;
}

static void take_input(spsh__gunzip *g, const uint8_t *data, size_t size_bytes)
{
    g->stream.next_in = data;
    g->stream.avail_in = (uInt)size_bytes;
}

spsh__gunzip *spsh__gunzip_new(const spsh__gunzip_source *source, const uint8_t *head,
                               size_t size_bytes)
{
    spsh__gunzip *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return NULL;
    g->source = *source;
    if (inflateInit2(&g->stream, GZIP_WINDOW) != Z_OK) {
        free(g);
        return NULL;
    }
    take_input(g, head, size_bytes);
    return g;
}

void spsh__gunzip_free(spsh__gunzip *gunzip)
{
    if (gunzip != NULL)
        (void)inflateEnd(&gunzip->stream);
    free(gunzip);
}

/* Return the count of available input bytes, 0 at the end of the file, or a negative value after a
 * failure. */
static int64_t fill(spsh__gunzip *g)
{
    const uint8_t *data = NULL;
    if (g->stream.avail_in > 0)
        return g->stream.avail_in;
    const int64_t got = g->source.read_fn(g->source.user, &data);
    if (got > 0)
        take_input(g, data, (size_t)got);
    return got;
}

/* After a member, begin the next one, or skip trailing zeros. */
static const char *begin_member(spsh__gunzip *g)
{
    if (*g->stream.next_in == 0 || g->is_over) {
        g->is_over = true;
        for (; g->stream.avail_in > 0; g->stream.next_in++, g->stream.avail_in--)
            if (*g->stream.next_in != 0)
                return "there are bytes after the end of the gzip stream";
        return NULL;
    }
    g->is_between = false;
    return inflateReset(&g->stream) == Z_OK ? NULL : no_memory;
}

/* Inflate the next bytes. Returns NULL, or a description of the damage. */
static const char *inflate_some(spsh__gunzip *g)
{
    switch (inflate(&g->stream, Z_NO_FLUSH)) {
    case Z_STREAM_END: g->is_between = true; return NULL;
    case Z_OK:
    case Z_BUF_ERROR: return NULL;
    case Z_MEM_ERROR: return no_memory;
    default: return g->stream.msg != NULL ? g->stream.msg : "damaged gzip stream";
    }
}

int64_t spsh__gunzip_step(spsh__gunzip *gunzip, const uint8_t **ret_data, const char **ret_problem)
{
    spsh__gunzip *g = gunzip;
    g->stream.next_out = g->out;
    g->stream.avail_out = OUT_BYTES;
    while (g->stream.avail_out == OUT_BYTES && g->problem == NULL) {
        const int64_t got = fill(g);
        if (got < 0)
            return got;
        if (got == 0 && g->is_between)
            return 0;
        if (got == 0)
            g->problem = "truncated gzip stream";
        else
            g->problem = g->is_between ? begin_member(g) : inflate_some(g);
    }
    const size_t bytes = OUT_BYTES - g->stream.avail_out;
    *ret_data = g->out;
    if (bytes > 0)
        return (int64_t)bytes;
    *ret_problem = g->problem == no_memory ? NULL : g->problem;
    return g->problem == no_memory ? -ENOMEM : -EILSEQ;
}
