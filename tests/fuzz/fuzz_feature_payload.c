/* fuzz_feature_payload.c: hostile payloads of the codec `features`: inspect, decode whole and in
 * part, which must agree. */
#include "speechshard/features.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { BYTES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static uint8_t rows[BYTES_MAX], part[BYTES_MAX], scratch[SPSH_FEATURES_BLOCK_BYTES];
    const spsh_bytes payload = {data, size_bytes};
    spsh_features_info info;
    spsh_error err;

    /* Decoding does its own checks, so it is also tested on payloads that inspect rejects. */
    if (spsh_features_inspect(data, size_bytes, &info, &err) != SPSH_OK) {
        if (spsh_features_decode(payload, 0, 0, rows, scratch, &err) == SPSH_OK)
            abort();
        return 0;
    }
    const size_t row_bytes = (size_t)info.dim * info.value_bytes;
    if (info.frame_count > BYTES_MAX / row_bytes)
        return 0;
    if (spsh_features_decode(payload, 0, info.frame_count, rows, scratch, &err) != SPSH_OK)
        return 0;
    const uint64_t first = data[size_bytes / 2] * info.frame_count / 256;
    const uint64_t count = (info.frame_count - first) / 2;
    if (spsh_features_decode(payload, first, count, part, scratch, &err) != SPSH_OK ||
        memcmp(part, rows + first * row_bytes, (size_t)count * row_bytes) != 0)
        abort();
    return 0;
}
