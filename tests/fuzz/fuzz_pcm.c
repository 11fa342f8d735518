/* fuzz_pcm.c: hostile payloads of the codec `pcm`: inspect, decode completely and in part.
 *
 * All instruction sets must produce equal results; the program ends if they differ.
 */
#include "codec/pcm_internal.h"
#include "speechshard/pcm.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { VALUES_MAX = 1 << 16 };

/* A piece of the payload without its surroundings. */
static void decode_part(const uint8_t *data, size_t size_bytes, const spsh_pcm_info *info,
                        int16_t *pcm)
{
    uint64_t first = data[size_bytes / 2] * info->samples / 256;
    uint64_t count = (info->samples - first) / 2;
    spsh_pcm_part part = {
        {data, size_bytes},
        {NULL, 0         },
        0
    };
    uint64_t piece_bytes = 0;
    if (spsh_pcm_range(part.head, first, count, &part.offset_bytes, &piece_bytes, NULL) != SPSH_OK)
        return;
    uint8_t *piece = (uint8_t *)malloc(piece_bytes == 0 ? 1 : (size_t)piece_bytes);
    if (piece != NULL && part.offset_bytes + piece_bytes <= size_bytes) {
        memcpy(piece, data + part.offset_bytes, (size_t)piece_bytes);
        part.piece = (spsh_bytes){piece, (size_t)piece_bytes};
        (void)!spsh_pcm_decode_part(&part, first, count, pcm, NULL);
    }
    free(piece);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static int16_t expected[VALUES_MAX];
    static int16_t pcm[VALUES_MAX];
    spsh_pcm_info info;
    spsh_error err;

    /* Decoding does its own checks, so it is also tested on payloads that inspect rejects. */
    if (spsh_pcm_inspect(data, size_bytes, &info, &err) != SPSH_OK) {
        (void)!spsh_pcm_decode(data, size_bytes, 0, 1, pcm, &err);
        return 0;
    }
    if (info.samples * info.channels > VALUES_MAX)
        return 0;
    spsh__pcm_force_isa(PCM_ISA_SCALAR);
    spsh_status rc = spsh_pcm_decode(data, size_bytes, 0, info.samples, expected, &err);
    for (int isa = PCM_ISA_SCALAR + 1; isa < PCM_ISA_COUNT; isa++) {
        if (!spsh__pcm_isa_is_supported((pcm_isa)isa))
            continue;
        spsh__pcm_force_isa((pcm_isa)isa);
        if (spsh_pcm_decode(data, size_bytes, 0, info.samples, pcm, &err) != rc ||
            (rc == SPSH_OK &&
             memcmp(pcm, expected, info.samples * info.channels * sizeof(pcm[0])) != 0))
            abort();
    }
    spsh__pcm_force_isa(PCM_ISA_COUNT);
    if (size_bytes > 0)
        decode_part(data, size_bytes, &info, pcm);
    return 0;
}
