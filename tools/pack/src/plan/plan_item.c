/* plan_item.c: plan items to bytes and back. */
#include "plan_item.h"

#include <string.h>

#include "speechshard/inside.h"

#define ITEM_STRINGS 12U
#define ITEM_PATHS                                                                                 \
    2U /* the last strings: paths of the files, which are not part of the
                              dataset */
#define ITEM_SIZE_BYTES 4U
#define ITEM_NUMBERS    11U /* 64-bit numbers per item */
#define ITEM_HEAD_BYTES (ITEM_SIZE_BYTES + 8U + 8U * ITEM_NUMBERS + 4U * ITEM_STRINGS)

#define LENGTH_SLACK_NS   UINT64_C(50000000)
#define LENGTH_SLACK_PART UINT64_C(100)

#define ITEM_HAS_TEXT UINT32_C(1)
#define ITEM_SIDECAR  UINT32_C(2)

static spsh_bytes bytes_of_path(const char *path)
{
    return path == NULL ? (spsh_bytes){NULL, 0} : (spsh_bytes){(const uint8_t *)path, strlen(path)};
}

static void strings_of(const spsh_ingest_item *item, spsh_bytes ret_strings[ITEM_STRINGS])
{
    const spsh_bytes strings[ITEM_STRINGS] = {
        item->source,
        item->recording_id,
        item->id,
        item->text,
        item->domain,
        item->split,
        item->speaker,
        item->language,
        item->document,
        item->extras,
        bytes_of_path(item->audio.path),
        bytes_of_path(item->sidecar.path),
    };
    memcpy(ret_strings, strings, sizeof(strings));
}

static uint32_t flags_of(const spsh_ingest_item *item)
{
    return (item->has_text ? ITEM_HAS_TEXT : 0) | (item->sidecar.path != NULL ? ITEM_SIDECAR : 0);
}

static void append_u32(spsh__builder *out, uint32_t value)
{
    spsh__builder_append(out, &value, sizeof(value));
}

void spsh__item_append(spsh__builder *out, const spsh_ingest_item *item, uint64_t sequence)
{
    spsh_bytes strings[ITEM_STRINGS];
    size_t size_bytes = ITEM_HEAD_BYTES - ITEM_SIZE_BYTES;

    strings_of(item, strings);
    for (size_t i = 0; i < ITEM_STRINGS; i++)
        size_bytes += strings[i].size_bytes + 1;
    if (size_bytes > UINT32_MAX) {
        out->failed = true;
        return;
    }
    append_u32(out, (uint32_t)size_bytes);
    append_u32(out, flags_of(item));
    append_u32(out, item->nominal_rate_hz);
    const uint64_t numbers[ITEM_NUMBERS] = {
        item->start_ns,           item->end_ns,
        item->source_bytes,       sequence,
        item->audio.offset_bytes, item->audio.size_bytes,
        item->audio.file_bytes,   item->sidecar.offset_bytes,
        item->sidecar.size_bytes, item->sidecar.file_bytes,
        item->expected_ns,
    };
    spsh__builder_append(out, numbers, sizeof(numbers));
    for (size_t i = 0; i < ITEM_STRINGS; i++)
        append_u32(out, (uint32_t)strings[i].size_bytes);
    for (size_t i = 0; i < ITEM_STRINGS; i++) {
        spsh__builder_append_bytes(out, strings[i]);
        spsh__builder_append(out, "", 1);
    }
}

static uint32_t load_u32(const uint8_t *data)
{
    uint32_t value = 0;
    memcpy(&value, data, sizeof(value));
    return value;
}

size_t spsh__item_size(spsh_bytes data)
{
    if (data.size_bytes < ITEM_HEAD_BYTES)
        return 0;
    size_t size_bytes = (size_t)load_u32(data.data) + ITEM_SIZE_BYTES;
    return size_bytes >= ITEM_HEAD_BYTES && size_bytes <= data.size_bytes ? size_bytes : 0;
}

static bool read_strings(spsh_bytes data, spsh_bytes ret_strings[ITEM_STRINGS])
{
    const uint8_t *lengths = data.data + ITEM_HEAD_BYTES - (size_t)4 * ITEM_STRINGS;
    size_t at = ITEM_HEAD_BYTES;

    for (size_t i = 0; i < ITEM_STRINGS; i++) {
        size_t length = load_u32(lengths + 4 * i);
        if (length >= data.size_bytes - at || data.data[at + length] != 0)
            return false;
        ret_strings[i] = (spsh_bytes){data.data + at, length};
        at += length + 1;
    }
    return at == data.size_bytes;
}

bool spsh__item_read(spsh_bytes data, spsh_ingest_item *ret_item, uint64_t *ret_sequence)
{
    spsh_bytes s[ITEM_STRINGS];
    size_t size_bytes = spsh__item_size(data);

    if (size_bytes == 0 || !read_strings((spsh_bytes){data.data, size_bytes}, s))
        return false;
    const uint8_t *head = data.data + ITEM_SIZE_BYTES;
    uint32_t flags = load_u32(head);
    uint64_t n[ITEM_NUMBERS];
    memcpy(n, head + 8, sizeof(n));
    *ret_item = (spsh_ingest_item){
        .audio = {(const char *)s[10].data, n[4], n[5], n[6]},
        .source = s[0],
        .recording_id = s[1],
        .id = s[2],
        .has_text = (flags & ITEM_HAS_TEXT) != 0,
        .text = s[3],
        .domain = s[4],
        .split = s[5],
        .speaker = s[6],
        .language = s[7],
        .document = s[8],
        .extras = s[9],
        .start_ns = n[0],
        .end_ns = n[1],
        .source_bytes = n[2],
        .expected_ns = n[10],
        .nominal_rate_hz = load_u32(head + 4),
    };
    if ((flags & ITEM_SIDECAR) != 0)
        ret_item->sidecar = (spsh__piece){(const char *)s[11].data, n[7], n[8], n[9]};
    *ret_sequence = n[3];
    return true;
}

spsh_status spsh__item_take(spsh_bytes *rest, spsh_ingest_item *ret_item, uint64_t *ret_sequence,
                            spsh_error *err)
{
    if (!spsh__item_read(*rest, ret_item, ret_sequence))
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "the plan is damaged");
    const size_t size_bytes = spsh__item_size(*rest);
    *rest = (spsh_bytes){rest->data + size_bytes, rest->size_bytes - size_bytes};
    return SPSH_OK;
}

bool spsh__item_length_is_off(const spsh_ingest_item *item, uint64_t audio_ns)
{
    const uint64_t part_ns = item->expected_ns / LENGTH_SLACK_PART;
    const uint64_t slack_ns = part_ns > LENGTH_SLACK_NS ? part_ns : LENGTH_SLACK_NS;
    const uint64_t off_ns =
        audio_ns > item->expected_ns ? audio_ns - item->expected_ns : item->expected_ns - audio_ns;
    const bool is_whole = item->start_ns == 0 && item->end_ns == SPSH_SEGMENT_END;
    return item->expected_ns != 0 && is_whole && off_ns > slack_ns;
}

void spsh__item_hash(spsh__pack_hasher *hasher, const spsh_ingest_item *item)
{
    spsh_bytes strings[ITEM_STRINGS];
    const uint64_t numbers[] = {flags_of(item), item->nominal_rate_hz, item->start_ns, item->end_ns,
                                item->source_bytes};

    strings_of(item, strings);
    spsh__pack_hasher_add(hasher, (spsh_bytes){(const uint8_t *)numbers, sizeof(numbers)});
    for (size_t i = 0; i < ITEM_STRINGS - ITEM_PATHS; i++) {
        uint64_t length = strings[i].size_bytes;
        spsh__pack_hasher_add(hasher, (spsh_bytes){(const uint8_t *)&length, sizeof(length)});
        spsh__pack_hasher_add(hasher, strings[i]);
    }
}
