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

/* A decoded head. Its pointers point into the bytes that it was decoded from. */
typedef struct spsh__record_head {
    spsh_record record; /* id borrowed; seek_points NULL, seek_point_count set */
    uint64_t ordinal;   /* number within the shard */
    uint32_t head_bytes;
    uint32_t page_count;
    uint64_t record_bytes; /* size of head, payload, and padding */
    const uint8_t *seek_table;
    const uint8_t *page_checksums;
} spsh__record_head;

typedef struct spsh__record_size {
    uint32_t head_bytes;
    uint32_t page_count;
    uint64_t record_bytes;
} spsh__record_size;

/* Return the name of a field of the fixed part that breaks FORMAT.md 3.2, or NULL. Does not check
 * id and seek points. */
const char *spsh__record_find_bad(const spsh_record *record);

/* Return SPSH_E_AUDIO unless rate, channels, and format from a decoder match the head. */
spsh_status spsh__record_check_audio(const spsh_record *record, const spsh_audio_info *audio,
                                     spsh_error *err);

/* Check every rule of FORMAT.md 3.2 for the fields of a record from a caller of the writer, and the
 * limits. SPSH_E_INVALID_ARG names the field; SPSH_E_LIMIT. ret_size: sizes of the encoded record.
 */
spsh_status spsh__record_check_fields(const spsh_record *record, spsh__record_size *ret_size,
                                      spsh_error *err);

/* Write the head of a record that passed check_fields; computes payload_hash and page checksums.
 * head has size->head_bytes; ret_payload_hash may point into *record. */
void spsh__record_head_encode(const uint8_t file_id[16], uint64_t offset_bytes, uint64_t ordinal,
                              const spsh_record *record, const void *payload, uint8_t *head,
                              uint8_t ret_payload_hash[16]);

/* Check from the first 16 bytes that this is a record, and get the size of its head. */
spsh_status spsh__record_head_size(const uint8_t *start, uint64_t offset_bytes, const char *path,
                                   uint32_t *ret_head_bytes, spsh_error *err);

/* Check and decode a head. data holds at least the head (SPSH_E_TRUNCATED otherwise). offset_bytes:
 * offset of the record in the file. */
spsh_status spsh__record_head_decode(const uint8_t file_id[16], uint64_t offset_bytes,
                                     spsh_bytes data, const char *path, spsh__record_head *ret_head,
                                     spsh_error *err);

/* Return a page's size; the last one's includes its padding. page < head->page_count. */
size_t spsh__record_page_bytes(const spsh__record_head *head, uint32_t page);

/* Check one payload page (its bytes with padding) of the record at offset_bytes. */
spsh_status spsh__record_page_check(const uint8_t file_id[16], uint64_t offset_bytes,
                                    const spsh__record_head *head, uint32_t page,
                                    const uint8_t *data, const char *path, spsh_error *err);

/* Copy the seek points; points has capacity for head->record.seek_point_count. */
void spsh__record_seek_points(const spsh__record_head *head, spsh_seek_point *points);

#endif
