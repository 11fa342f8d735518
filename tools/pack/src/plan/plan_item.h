/* plan_item.h: an utterance as the plan stores it on disk, between the scan and the packing.
 *
 *     u32 size of the bytes after this field
 *     u32 flags (bit 0 has_text, bit 1 sidecar is set)   u32 nominal_rate_hz
 *     u64 start_ns   u64 end_ns   u64 source_bytes   u64 sequence
 *     u64 offset_bytes, size_bytes, file_bytes of the audio
 *     u64 offset_bytes, size_bytes, file_bytes of the sidecar
 *     u64 expected_ns
 *     ITEM_STRINGS x u32 lengths, then the strings, each NUL-terminated
 *
 * Host byte order: the plan never leaves the machine's file system before the dataset is published.
 */
#ifndef SPSH_PLAN_ITEM_H
#define SPSH_PLAN_ITEM_H

#include "common/byte_builder.h"
#include "common/hash.h"
#include "ingest/scan/ingest.h"

/* Append item, with its audio and sidecar as pieces. sequence: the position of the item in the
 * order in which the layouts emitted the items. */
void spsh__item_append(spsh__builder *out, const spsh_ingest_item *item, uint64_t sequence);

/* Return the size of the item at the start of data, its size field included; 0 if the item is cut
 * off. */
size_t spsh__item_size(spsh_bytes data);

/* Parse the item at the start of data. Strings point into data. false: the plan is damaged. */
bool spsh__item_read(spsh_bytes data, spsh_ingest_item *ret_item, uint64_t *ret_sequence);

/* Parse the item at the start of *rest, and advance *rest past it. */
SPSH_NODISCARD spsh_status spsh__item_take(spsh_bytes *rest, spsh_ingest_item *ret_item,
                                           uint64_t *ret_sequence, spsh_error *err);

/* True if the audio's length differs from the stated length by more than 50 ms and by more than 1 %
 * of the stated length. Metadata round lengths, and encoders pad. */
bool spsh__item_length_is_off(const spsh_ingest_item *item, uint64_t audio_ns);

/* Add everything that the dataset depends on to the hash for the dataset id. The path of the
 * corpus, its archives, and the lengths stated in metadata are not included. */
void spsh__item_hash(spsh__pack_hasher *hasher, const spsh_ingest_item *item);

#endif
