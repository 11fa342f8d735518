/* plan_item.h: an utterance as the plan keeps it on disk, between the scan and the packing.
 *
 *     u32 size of all that follows
 *     u32 flags (bit 0 has_text, bit 1 sidecar is set)   u32 nominal_rate_hz
 *     u64 start_ns   u64 end_ns   u64 source_bytes   u64 sequence
 *     u64 offset_bytes, size_bytes, file_bytes of the audio, and the same of the sidecar
 *     u64 expected_ns
 *     ITEM_STRINGS x u32 lengths, then the strings, each with a NUL behind it
 *
 * Host byte order: the plan never leaves the machine's file system before the dataset is published.
 */
#ifndef SPSH_PLAN_ITEM_H
#define SPSH_PLAN_ITEM_H

#include "common/byte_builder.h"
#include "common/hash.h"
#include "ingest/scan/ingest.h"

/* Append item, its audio and sidecar as pieces; sequence is the order in which the layouts emitted
 * it. */
void spsh__item_append(spsh__builder *out, const spsh_ingest_item *item, uint64_t sequence);

/* Size of the item at the start of data, its size field included; 0 if data ends before it does. */
size_t spsh__item_size(spsh_bytes data);

/* Take the item at the start of data apart; strings point into data. false: the plan is damaged. */
bool spsh__item_read(spsh_bytes data, spsh_ingest_item *ret_item, uint64_t *ret_sequence);

/* Whether audio of that length is another than the metadata describe: they differ by more than 50
 * ms and by more than 1 % of what is stated. Lengths in metadata are rounded, and encoders pad. */
bool spsh__item_length_is_off(const spsh_ingest_item *item, uint64_t audio_ns);

/* Everything that a dataset depends on goes into the dataset's id: not where the corpus lies, nor
 * in what it was delivered, nor how long its metadata say that the audio is. */
void spsh__item_hash(spsh__pack_hasher *hasher, const spsh_ingest_item *item);

#endif
