/* fuzz_flac_frames.c: arbitrary bytes through the frame walker: frames never overlap or leave the
 * file, and every one that it returns begins with a header that parses. */
#include <stdlib.h>

#include "audio/flac_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const uint8_t streaminfo[34] = {16, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0x03, 0xe8, 0x00, 0xf0};
    spsh_bytes file = {data, size_bytes};
    spsh__flac_walker walker;
    spsh__flac_frame frame;
    uint64_t end = 0;
    uint64_t sample = 0;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh__flac_walk_begin(&walker, file, 0, size_bytes >= 34 ? data + size_bytes - 34 : streaminfo);
    for (int pass = 0; pass < 2; pass++) {
        for (;;) {
            rc = spsh__flac_walk_next(&walker, &frame, &err);
            if (rc != SPSH_OK)
                break;
            if (frame.offset_bytes != end || frame.size_bytes < 9 || frame.sample != sample ||
                frame.size_bytes > size_bytes - end || frame.block_samples == 0)
                abort();
            end += frame.size_bytes;
            sample += frame.block_samples;
        }
        if (rc != SPSH_E_END && (rc != SPSH_E_CORRUPT || err.offset_bytes != end))
            abort();
        spsh__flac_walk_begin(&walker, file, 0, streaminfo);
        end = 0;
        sample = 0;
    }
    return 0;
}
