/* samples.c: see samples.h. Borrowed member data are copied to one buffer until their sample is
 * complete. The buffer moves while it grows, so positions in it are offsets.
 */
#include "samples.h"

#include "common/file_names.h"
#include "speechshard/inside.h"

#define TOO_MANY "a sample has more than 64 members"
#define TWICE    "its sample already has a member with this extension"

typedef struct span {
    size_t at, size_bytes;
} span;

typedef struct held_part {
    span name, extension;
    size_t path_at; /* offset of the piece's NUL-terminated path */
    spsh__piece piece;
} held_part;

typedef struct sample_reader {
    const spsh__sample_sink *sink;
    bool to_last_dot;
    spsh__builder held; /* key, names, extensions and paths of the sample */
    size_t key_bytes;   /* the key is at the start of held */
    held_part parts[SPSH__SAMPLE_PARTS_MAX];
    size_t part_count;
} sample_reader;

/* Length of the key. 0 if the name belongs to no sample. */
static size_t key_size(spsh_bytes name, bool to_last_dot)
{
    size_t begin = name.size_bytes;
    while (begin > 0 && name.data[begin - 1] != '/')
        begin--;
    size_t dot = 0;
    for (size_t i = begin; i < name.size_bytes; i++) {
        if (name.data[i] != '.')
            continue;
        dot = i;
        if (!to_last_dot)
            break;
    }
    return dot > begin && dot + 1 < name.size_bytes ? dot : 0;
}

static bool is_passed_over(const char *name)
{
    const char *base = spsh__base_name(name);
    return strncmp(base, "__meta__", 8) == 0 || spsh__is_ignored_name(base);
}

static spsh_bytes held_bytes(const sample_reader *r, span s)
{
    return (spsh_bytes){r->held.data + s.at, s.size_bytes};
}

static span hold(sample_reader *r, const void *data, size_t size_bytes)
{
    const span s = {r->held.size_bytes, size_bytes};
    spsh__builder_append(&r->held, data, size_bytes);
    return s;
}

static span hold_extension(sample_reader *r, spsh_bytes extension)
{
    const span s = hold(r, extension.data, extension.size_bytes);
    for (size_t i = 0; i < s.size_bytes && !r->held.failed; i++) {
        uint8_t *byte = &r->held.data[s.at + i];
        if (*byte >= 'A' && *byte <= 'Z')
            *byte = (uint8_t)(*byte + ('a' - 'A'));
    }
    return s;
}

/* Pass the complete sample to the sink. */
static spsh_status give_sample(sample_reader *r, spsh_error *err)
{
    spsh__sample_part parts[SPSH__SAMPLE_PARTS_MAX];
    const spsh__sample sample = {
        {r->held.data, r->key_bytes},
        parts, r->part_count
    };
    if (r->part_count == 0)
        return SPSH_OK;
    for (size_t i = 0; i < r->part_count; i++) {
        const held_part *held = &r->parts[i];
        parts[i] = (spsh__sample_part){held_bytes(r, held->name), held_bytes(r, held->extension),
                                       held->piece};
        parts[i].piece.path = (const char *)r->held.data + held->path_at;
    }
    r->part_count = 0;
    return r->sink->sample_fn(r->sink->user, &sample, err);
}

static bool has_extension(const sample_reader *r, spsh_bytes extension)
{
    for (size_t i = 0; i < r->part_count; i++) {
        if (spsh__bytes_equal_nocase(held_bytes(r, r->parts[i].extension), extension))
            return true;
    }
    return false;
}

static spsh_status take_part(sample_reader *r, spsh_bytes name, size_t key_bytes,
                             const spsh__piece *piece, spsh_error *err)
{
    const spsh_bytes extension = {name.data + key_bytes + 1, name.size_bytes - key_bytes - 1};
    const bool twice = has_extension(r, extension);
    if (twice || r->part_count == SPSH__SAMPLE_PARTS_MAX) {
        if (r->sink->spare_fn == NULL)
            return SPSH_OK;
        return r->sink->spare_fn(r->sink->user, name, twice ? TWICE : TOO_MANY, err);
    }
    held_part *part = &r->parts[r->part_count];
    *part = (held_part){.piece = *piece};
    part->name = hold(r, name.data, name.size_bytes);
    part->extension = hold_extension(r, extension);
    part->path_at = hold(r, piece->path, strlen(piece->path) + 1).at;
    if (r->held.failed)
        return SPSH_NO_MEMORY(err);
    r->part_count++;
    return SPSH_OK;
}

static spsh_status take_member(void *user, const spsh__view_member *member, spsh_error *err)
{
    sample_reader *r = user;
    const spsh_bytes name = spsh__bytes_of(member->name);
    const size_t key_bytes = key_size(name, r->to_last_dot);
    const spsh_bytes key = {name.data, key_bytes};
    spsh_status rc = SPSH_OK;
    if (member->type != SPSH__VIEW_FILE || key_bytes == 0 || is_passed_over(member->name))
        return SPSH_OK;
    if (r->part_count > 0 && !spsh__bytes_equal(key, (spsh_bytes){r->held.data, r->key_bytes}))
        rc = give_sample(r, err);
    if (rc == SPSH_OK && r->part_count == 0) {
        spsh__builder_clear(&r->held);
        r->key_bytes = hold(r, key.data, key.size_bytes).size_bytes;
    }
    return rc == SPSH_OK ? take_part(r, name, key_bytes, &member->piece, err) : rc;
}

spsh_status spsh__samples_read(const spsh__view *view, const char *archive, bool to_last_dot,
                               const spsh__sample_sink *sink, spsh_error *err)
{
    sample_reader r = {.sink = sink, .to_last_dot = to_last_dot};
    spsh_status rc = spsh__view_members(view, archive, take_member, &r, err);
    if (rc == SPSH_OK)
        rc = give_sample(&r, err);
    spsh__builder_free(&r.held);
    return rc;
}
