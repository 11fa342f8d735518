/* limits.h: every limit of the system, each with its reason. Checked before any allocation. */
#ifndef SPEECHSHARD_LIMITS_H
#define SPEECHSHARD_LIMITS_H

/* clang-format off */

/* Bytes of a file. 16 TiB is the limit of ext4 with 4 KiB blocks. */
#define SPSH_FILE_BYTES_MAX              (UINT64_C(1) << 44)

/* Bytes of a block, except the block of an oversize record. Larger reads gain nothing on NVMe. */
#define SPSH_BLOCK_BYTES_MAX             (UINT64_C(4) << 20)

/* Bytes of a record: head and payload. Longer sources are rejected, such as a day of 48 kHz stereo
 * WAV, which has 16.6 GB. */
#define SPSH_RECORD_BYTES_MAX            (UINT64_C(2) << 30)

/* Bytes of the decoded PCM of a recording, in memory. */
#define SPSH_PCM_BYTES_MAX               (UINT64_C(2) << 30)

/* Records and utterances of a shard. Their numbers are u32, of which one value means "none". */
#define SPSH_SHARD_RECORDS_MAX           (UINT32_C(1) << 31)
#define SPSH_SHARD_UTTERANCES_MAX        (UINT32_C(1) << 31)

/* Shards of one dataset. */
#define SPSH_SHARDS_MAX                  (UINT32_C(1) << 24)

/* Overlays in force. A lookup by id searches all of them. */
#define SPSH_OVERLAYS_MAX                UINT32_C(1024)

/* UTF-8 bytes of the id of an utterance or a recording: PATH_MAX, because ids may be paths. */
#define SPSH_ID_BYTES_MAX                UINT32_C(4096)

/* Bytes of a transcript, or of an utterance's extras as a JSON object. */
#define SPSH_TEXT_BYTES_MAX              (UINT32_C(1) << 20)

/* Bytes of the name of a domain, split, language, speaker, or document. */
#define SPSH_NAME_BYTES_MAX              UINT32_C(1024)

/* Sample rates, and channels: third-order ambisonics has 16, microphone arrays have up to 64. */
#define SPSH_SAMPLE_RATE_HZ_MIN          UINT32_C(1000)
#define SPSH_SAMPLE_RATE_HZ_MAX          UINT32_C(768000)
#define SPSH_CHANNELS_MAX                UINT32_C(64)

/* clang-format on */

#endif
