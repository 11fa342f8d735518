/* record.h: a record's head and its payload pages (FORMAT.md 3.2).
 *
 *     record_offset     fixed part, 128 bytes | id | seek table | page checksums | zeros to 64
 *     + head_bytes      payload | zeros to 64
 */
#ifndef SPSH_RECORD_H
#define SPSH_RECORD_H

#include "base/base_internal.h"
#include "speechshard/shard.h"

#define SPSH__RECORD_FIXED_BYTES UINT32_C(128)
#define SPSH__RECORD_ALIGNMENT   UINT32_C(64)
#define SPSH__RECORD_HEAD_MAX    (UINT32_C(16) << 20)
#define SPSH__PAYLOAD_PAGE       UINT32_C(65536)

/* A decoded head. Pointers go into the bytes that it was decoded from. */
typedef struct spsh__record_head {
    spsh_record record; /* id borrowed; seek_points NULL, seek_point_count set */
    uint64_t ordinal;   /* inside the shard */
    uint32_t head_bytes;
    uint32_t page_count;
    uint64_t record_bytes; /* head, payload and padding */
    const uint8_t *seek_table;
    const uint8_t *page_checksums;
} spsh__record_head;

typedef struct spsh__record_size {
    uint32_t head_bytes;
    uint32_t page_count;
    uint64_t record_bytes;
} spsh__record_size;

/* The name of a field of the fixed part that breaks FORMAT.md 3.2, or NULL; id and seek points are
 * not looked at. */
const char *spsh__record_find_bad(const spsh_record *record);

/* SPSH_E_AUDIO unless a decoder says of the payload what the head says: rate, channels, format. */
spsh_status spsh__record_check_audio(const spsh_record *record, const spsh_audio_info *audio,
                                     spsh_error *err);

/* What a caller may hand to the writer: every rule of FORMAT.md 3.2 for its fields, and the limits.
 * SPSH_E_INVALID_ARG names the field; SPSH_E_LIMIT. ret_size is how large the record becomes. */
spsh_status spsh__record_check_fields(const spsh_record *record, spsh__record_size *ret_size,
                                      spsh_error *err);

/* Write the head of a record that passed check_fields; computes payload_hash and page checksums.
 * head has size->head_bytes; ret_payload_hash may point into *record. */
void spsh__record_head_encode(const uint8_t file_id[16], uint64_t offset_bytes, uint64_t ordinal,
                              const spsh_record *record, const void *payload, uint8_t *head,
                              uint8_t ret_payload_hash[16]);

/* From the first 16 bytes: is this a record, and how many bytes has its head? */
spsh_status spsh__record_head_size(const uint8_t *start, uint64_t offset_bytes, const char *path,
                                   uint32_t *ret_head_bytes, spsh_error *err);

/* Check and decode a head. data holds at least the head (SPSH_E_TRUNCATED); offset_bytes: of the
 * record in the file. */
spsh_status spsh__record_head_decode(const uint8_t file_id[16], uint64_t offset_bytes,
                                     spsh_bytes data, const char *path, spsh__record_head *ret_head,
                                     spsh_error *err);

/* A page's size with the padding of the last one. page < head->page_count. */
size_t spsh__record_page_bytes(const spsh__record_head *head, uint32_t page);

/* Check one payload page (its bytes with padding) of the record at offset_bytes. */
spsh_status spsh__record_page_check(const uint8_t file_id[16], uint64_t offset_bytes,
                                    const spsh__record_head *head, uint32_t page,
                                    const uint8_t *data, const char *path, spsh_error *err);

/* Seek points; points has room for head->record.seek_point_count. */
void spsh__record_seek_points(const spsh__record_head *head, spsh_seek_point *points);

#endif
