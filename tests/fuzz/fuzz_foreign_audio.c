/* fuzz_foreign_audio.c: audio that only pack reads. The first byte chooses the parser:
 *
 *     0 ... 127    SPHERE: the WAV file that it makes must decode, to no more bytes than the file
 *                  has
 *     128 ... 255  the length that a file states, for each demuxer of the FFmpeg plug-in in turn
 *
 * Input is copied to a block of its exact size, so that a read past its end is found.
 */
#include <stdlib.h>
#include <string.h>

#include "ffmpeg/ffmpeg_claim.h"
#include "unit/sphere.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_sphere(spsh_bytes file)
{
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    uint8_t *wav = NULL;
    size_t bytes = 0;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__sphere_to_wav(file, &wav, &bytes, &err) != SPSH_OK) {
        must(wav == NULL && err.message[0] != '\0');
        return;
    }
    must(bytes <= file.size_bytes + 44);
    const spsh_bytes made = {wav, bytes};
    const spsh_status rc =
        spsh_audio_decode_memory(made, SPSH_CODEC_UNKNOWN, NULL, NULL, NULL, &result, &err);
    must(rc == SPSH_OK && result.verdict == SPSH_DECODE_EXACT);
    free(wav);
}

static void check_claim(spsh_bytes file, uint8_t choice)
{
    static const char *const demuxers[] = {"mov", "matroska", "asf",  "amr",
                                           "aac", "caf",      "g722", "aiff"};
    spsh__claim claim = SPSH__CLAIM_INIT;
    (void)spsh__claim_find(demuxers[choice % 8], file, &claim);
    spsh__claim_scale(&claim, 48000);
    /* The shortest frame is a byte, and has 320 samples; twice the rate doubles them. */
    must(claim.samples == SPSH_SAMPLES_UNKNOWN || claim.samples / 4096 <= file.size_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    uint8_t *copy = malloc(size - 1);
    if (copy == NULL)
        return 0;
    memcpy(copy, data + 1, size - 1);
    const spsh_bytes file = {copy, size - 1};
    if (data[0] < 128)
        check_sphere(file);
    else
        check_claim(file, data[0]);
    free(copy);
    return 0;
}
