/* event_file.c: see event_file.h.
 *
 * A message is built front to back in one buffer. The length of a summary is known before it is
 * written, because the length of each value is the length of its tag plus 9 bytes. Tags are so
 * short that each inner length takes one byte. The length of the summary is a varint.
 */
#include "event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/append_all.h"
#include "base/double_bits.h"
#include "speechshard/inside.h"

enum {
    HEAD_BYTES = 12,
    VALUE_BYTES_MAX = 9 + SPSH__EVENT_TAG_MAX, /* two record heads, a tag, and a float */
    MESSAGE_BYTES_MAX = 64 + SPSH__EVENT_SCALARS_MAX * VALUE_BYTES_MAX,
    NAMES_TRIED_MAX = 1000,
};

/* Field number and wire type of a protocol buffer. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
#define KEY(field_, type_) ((uint8_t)(((field_) << 3) | (type_)))

struct spsh__event_file {
    spsh_allocator allocator;
    const spsh_io *io;
    int fd;
    uint64_t size_bytes;
    char *path;
    uint8_t record[HEAD_BYTES + MESSAGE_BYTES_MAX + 4];
};

uint32_t spsh__crc32c(const void *data, size_t size_bytes)
{
    const uint8_t *bytes = (const uint8_t *)data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size_bytes; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

/* Mask a CRC as TFRecord does, because the CRC of data that contains its own CRC is weak. */
static uint32_t masked_crc(const void *data, size_t size_bytes)
{
    const uint32_t crc = spsh__crc32c(data, size_bytes);
    return ((crc >> 15) | (crc << 17)) + UINT32_C(0xa282ead8);
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *put_time_and_step(uint8_t *at, double wall_s, uint64_t step)
{
    *at++ = KEY(1, FIXED64);
    spsh__store_u64le(at, spsh__bits_of_double(wall_s));
    at += 8;
    *at++ = KEY(2, VARINT);
    return put_varint(at, step);
}

/* Complete the record: its message starts after the head and ends at `end`. */
static spsh_status put_record(spsh__event_file *file, uint8_t *end, spsh_error *err)
{
    uint8_t *message = file->record + HEAD_BYTES;
    const size_t size_bytes = (size_t)(end - message);
    spsh__store_u64le(file->record, size_bytes);
    spsh__store_u32le(file->record + 8, masked_crc(file->record, 8));
    spsh__store_u32le(end, masked_crc(message, size_bytes));
    end += 4;
    return spsh__append_all(file->io, file->fd, file->record, (size_t)(end - file->record),
                            &file->size_bytes, file->path, err);
}

static size_t tag_bytes(const spsh__scalar *scalar)
{
    size_t length = strnlen(scalar->tag, SPSH__EVENT_TAG_MAX + 1);
    if (length <= SPSH__EVENT_TAG_MAX)
        return length;
    length = SPSH__EVENT_TAG_MAX;
    while (length > 0 && ((uint8_t)scalar->tag[length] & 0xc0) == 0x80) /* keep characters whole */
        length--;
    return length;
}

/* True if the value is finite as a float. */
static bool is_written(const spsh__scalar *scalar)
{
    return isfinite((float)scalar->value) != 0;
}

static uint8_t *put_scalar(uint8_t *at, const spsh__scalar *scalar)
{
    const size_t tag = tag_bytes(scalar);
    const float value = (float)scalar->value;
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    *at++ = KEY(1, BYTES);
    *at++ = (uint8_t)(2 + tag + 5);
    *at++ = KEY(1, BYTES);
    *at++ = (uint8_t)tag;
    memcpy(at, scalar->tag, tag);
    at += tag;
    *at++ = KEY(2, FIXED32);
    spsh__store_u32le(at, bits);
    return at + 4;
}

spsh_status spsh__event_file_put(spsh__event_file *file, double wall_s, uint64_t step,
                                 const spsh__scalar *scalars, size_t count, spsh_error *err)
{
    size_t summary_bytes = 0;
    if (count > SPSH__EVENT_SCALARS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%zu scalars in one step; the limit is %u", count,
                         SPSH__EVENT_SCALARS_MAX);
    for (size_t i = 0; i < count; i++)
        summary_bytes += is_written(&scalars[i]) ? 9 + tag_bytes(&scalars[i]) : 0;
    if (summary_bytes == 0)
        return SPSH_OK;
    uint8_t *at = put_time_and_step(file->record + HEAD_BYTES, wall_s, step);
    *at++ = KEY(5, BYTES);
    at = put_varint(at, summary_bytes);
    for (size_t i = 0; i < count; i++)
        at = is_written(&scalars[i]) ? put_scalar(at, &scalars[i]) : at;
    return put_record(file, at, err);
}

static spsh_status put_first_records(spsh__event_file *file, double wall_s, uint64_t step,
                                     spsh_error *err)
{
    static const char version[] = "brain.Event:2";
    uint8_t *at = put_time_and_step(file->record + HEAD_BYTES, wall_s, 0);
    *at++ = KEY(3, BYTES);
    *at++ = (uint8_t)(sizeof(version) - 1);
    memcpy(at, version, sizeof(version) - 1);
    const spsh_status rc = put_record(file, at + sizeof(version) - 1, err);
    if (rc != SPSH_OK)
        return rc;
    at = put_time_and_step(file->record + HEAD_BYTES, wall_s, step);
    *at++ = KEY(7, BYTES);
    *at++ = 2;
    *at++ = KEY(1, VARINT);
    *at++ = 1; /* START */
    return put_record(file, at, err);
}

static spsh_status make_file(spsh__event_file *file, const char *directory, double wall_s,
                             spsh_error *err)
{
    const size_t capacity = strlen(directory) + 64;
    file->path = (char *)spsh__new(&file->allocator, capacity, 1);
    if (file->path == NULL)
        return SPSH_NO_MEMORY(err);
    for (int number = 0; number < NAMES_TRIED_MAX && (file->fd < 0); number++) {
        (void)snprintf(file->path, capacity, "%s/events.out.tfevents.%010" PRIu64 ".%d", directory,
                       wall_s > 0 ? (uint64_t)wall_s : 0, number);
        file->fd = file->io->open_fn(file->io->user, file->path,
                                     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd < 0 && file->fd != -EEXIST)
            break;
    }
    if (file->fd >= 0)
        return SPSH_OK;
    const int os_errno = -file->fd;
    const spsh_status rc = spsh_io_status(os_errno);
    return SPSH_FAIL_OS(err, rc, os_errno, "%s: cannot create: %s", file->path, strerror(os_errno));
}

spsh_status spsh__event_file_open(const spsh_io *io, const char *directory, double wall_s,
                                  uint64_t step, const spsh_allocator *allocator,
                                  spsh__event_file **ret, spsh_error *err)
{
    const spsh_allocator *a = allocator != NULL ? allocator : spsh_allocator_default();
    spsh__event_file *file = (spsh__event_file *)spsh__new(a, 1, sizeof(*file));
    if (file == NULL)
        return SPSH_NO_MEMORY(err);
    file->allocator = *a;
    file->io = io != NULL ? io : spsh_io_default();
    file->fd = -1;
    spsh_status rc = make_file(file, directory, wall_s, err);
    if (rc == SPSH_OK)
        rc = put_first_records(file, wall_s, step, err);
    if (rc == SPSH_OK) {
        *ret = file;
        file = NULL;
    }
    spsh__event_file_close(file);
    return rc;
}

void spsh__event_file_close(spsh__event_file *file)
{
    if (file == NULL)
        return;
    if (file->fd >= 0)
        (void)file->io->close_fn(file->io->user, file->fd);
    const spsh_allocator allocator = file->allocator;
    spsh__free(&allocator, file->path);
    spsh__free(&allocator, file);
}
