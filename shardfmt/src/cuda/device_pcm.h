/* device_pcm.h: interface between the library and the plug-in to decode payloads of the codec `pcm`
 * on a device. The library checks and lays out; the plug-in starts the kernel (device_pcm_text.h).
 */
#ifndef SPSH_DEVICE_PCM_H
#define SPSH_DEVICE_PCM_H

#include "speechshard/cuda_plugin.h"

#define SPSH__DEVICE_PCM_SYMBOL "spsh_cuda_pcm_entry"

/* A block: one channel of one frame, of which samples [from, to) are decoded. */
typedef struct spsh__pcm_entry {
    uint64_t payload_at; /* first byte of the block: payloads[payload_at] */
    uint64_t value_at;   /* sample `from` goes to samples[value_at], the next ones `stride` apart */
    uint32_t block_bytes;
    uint32_t count; /* samples of the frame */
    uint32_t from, to;
    uint32_t stride;
    uint32_t padding;
} spsh__pcm_entry;

typedef struct spsh__pcm_job {
    const spsh__pcm_entry *entries; /* device memory */
    const uint8_t *payloads;        /* aligned to 16 bytes */
    uint64_t payload_bytes;
    int16_t *samples; /* aligned to 16 bytes */
    uint64_t count;   /* entry count */
} spsh__pcm_job;

typedef struct spsh__device_pcm_entry {
    size_t job_bytes, entry_bytes; /* sizeof, as the plug-in was compiled */
    spsh_status (*decode_fn)(uint32_t device, void *stream, const spsh__pcm_job *job,
                             const spsh__device_use *uses, size_t use_count, spsh_error *err);
} spsh__device_pcm_entry;

typedef const spsh__device_pcm_entry *spsh__device_pcm_entry_fn(void);

#endif
