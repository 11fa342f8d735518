/* limits.h: every limit of the system, each with its reason. Checked before any allocation. */
#ifndef SPEECHSHARD_LIMITS_H
#define SPEECHSHARD_LIMITS_H

/* clang-format off */

/* One file. 16 TiB is ext4's limit with 4 KiB blocks. */
#define SPSH_FILE_BYTES_MAX              (UINT64_C(1) << 44)

/* A block that is not an oversize record's own. Larger reads gain nothing on NVMe. */
#define SPSH_BLOCK_BYTES_MAX             (UINT64_C(4) << 20)

/* One record: head and payload. A day of 48 kHz stereo WAV has 16.6 GB: such sources are rejected. */
#define SPSH_RECORD_BYTES_MAX            (UINT64_C(2) << 30)

/* Decoded PCM of one recording, as one sees it in memory. */
#define SPSH_PCM_BYTES_MAX               (UINT64_C(2) << 30)

/* Ordinals are u32 inside a shard; one value means "none". */
#define SPSH_SHARD_RECORDS_MAX           (UINT32_C(1) << 31)
#define SPSH_SHARD_UTTERANCES_MAX        (UINT32_C(1) << 31)

/* Shards of one dataset. */
#define SPSH_SHARDS_MAX                  (UINT32_C(1) << 24)

/* Overlays in force at once. A look-up by id asks every one. */
#define SPSH_OVERLAYS_MAX                UINT32_C(1024)

/* An utterance or recording id, UTF-8 bytes. PATH_MAX is 4096. */
#define SPSH_ID_BYTES_MAX                UINT32_C(4096)

/* A transcript, or an utterance's extras as a JSON object. */
#define SPSH_TEXT_BYTES_MAX              (UINT32_C(1) << 20)

/* A domain, split, language, speaker or document name. */
#define SPSH_NAME_BYTES_MAX              UINT32_C(1024)

/* Sampling rates: 1 kHz to 768 kHz; channels: third-order ambisonics needs 16, arrays up to 64. */
#define SPSH_SAMPLE_RATE_HZ_MIN          UINT32_C(1000)
#define SPSH_SAMPLE_RATE_HZ_MAX          UINT32_C(768000)
#define SPSH_CHANNELS_MAX                UINT32_C(64)

/* clang-format on */

#endif
