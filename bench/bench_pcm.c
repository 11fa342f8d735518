/* bench_pcm.c: the codec `pcm` compared with libFLAC at level 5: speed on one core, and size.
 *
 *     bench_pcm FILE-OR-FOLDER... > results/pcm-NAME.json
 *
 * All 16-bit files that libsndfile opens are decoded and encoded in memory first. Then each way
 * goes over all of them, on one thread, in ROUNDS rounds. The ways run in turn, so that a busy
 * machine disturbs all alike. A round of one way lasts at least ROUND_SECONDS of its processor
 * time. Rates are bytes of PCM per second of processor time: median, minimum, and maximum of the
 * rounds.
 *
 *     flac_decode    libFLAC, samples written to an int16 buffer, no MD5
 *     flac_encode    libFLAC, level 5
 *     pcm_encode     spsh_pcm_encode
 *     pcm_decode_x   spsh_pcm_decode, whole payloads, with the instruction set x
 *     memcpy         the same PCM, copied: the limit
 */
#include <FLAC/stream_decoder.h>
#include <FLAC/stream_encoder.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_files.h"
#include "bench_kit.h"
#include "codec/pcm_internal.h"
#include "speechshard/pcm.h"

enum { ROUNDS = 7, FILES_MAX = 100000, FRAME_VALUES_MAX = 65535 * 8 };
#define ROUND_SECONDS 0.1

typedef struct byte_buffer {
    uint8_t *bytes;
    size_t size_bytes;
    size_t capacity_bytes;
} byte_buffer;

typedef struct bench_file {
    int16_t *pcm;
    uint64_t samples;
    uint32_t channels;
    uint32_t sample_rate_hz;
    byte_buffer flac;
    byte_buffer payload;
} bench_file;

typedef struct bench_way {
    const char *name;
    void (*run_fn)(const bench_file *file);
    pcm_isa isa;
    double rates[ROUNDS];
} bench_way;

static bench_file files[FILES_MAX];
static size_t file_count;
static int16_t *decoded; /* as large as the largest file */
static size_t decoded_values;
static byte_buffer scratch;
static FLAC__int32 wide[FRAME_VALUES_MAX];

static size_t pcm_size(const bench_file *file)
{
    return (size_t)file->samples * file->channels * sizeof(int16_t);
}

static void reserve(byte_buffer *buffer, size_t capacity_bytes)
{
    if (capacity_bytes <= buffer->capacity_bytes)
        return;
    buffer->capacity_bytes = 2 * capacity_bytes;
    buffer->bytes = (uint8_t *)realloc(buffer->bytes, buffer->capacity_bytes);
    must(buffer->bytes != NULL, "realloc");
}

static FLAC__StreamEncoderWriteStatus take_flac(const FLAC__StreamEncoder *encoder,
                                                const FLAC__byte bytes[], size_t size_bytes,
                                                uint32_t samples, uint32_t frame, void *user)
{
    byte_buffer *out = (byte_buffer *)user;
    (void)encoder, (void)samples, (void)frame;
    reserve(out, out->size_bytes + size_bytes);
    memcpy(out->bytes + out->size_bytes, bytes, size_bytes);
    out->size_bytes += size_bytes;
    return FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
}

static void encode_flac(const bench_file *file, byte_buffer *out)
{
    FLAC__StreamEncoder *encoder = FLAC__stream_encoder_new();
    must(encoder != NULL, "FLAC__stream_encoder_new");
    out->size_bytes = 0;
    must(FLAC__stream_encoder_set_channels(encoder, file->channels) &&
             FLAC__stream_encoder_set_bits_per_sample(encoder, 16) &&
             FLAC__stream_encoder_set_sample_rate(encoder, file->sample_rate_hz) &&
             FLAC__stream_encoder_set_compression_level(encoder, 5) &&
             FLAC__stream_encoder_set_total_samples_estimate(encoder, file->samples) &&
             FLAC__stream_encoder_init_stream(encoder, take_flac, NULL, NULL, NULL, out) ==
                 FLAC__STREAM_ENCODER_INIT_STATUS_OK,
         "flac encoder");
    for (uint64_t done = 0; done < file->samples;) {
        uint64_t count = file->samples - done < 4096 ? file->samples - done : 4096;
        const int16_t *pcm = file->pcm + done * file->channels;
        for (size_t i = 0; i < count * file->channels; i++)
            wide[i] = pcm[i];
        must(FLAC__stream_encoder_process_interleaved(encoder, wide, (uint32_t)count), "encoding");
        done += count;
    }
    must(FLAC__stream_encoder_finish(encoder), "encoding");
    FLAC__stream_encoder_delete(encoder);
}

static FLAC__StreamDecoderWriteStatus take_samples(const FLAC__StreamDecoder *decoder,
                                                   const FLAC__Frame *frame,
                                                   const FLAC__int32 *const planes[], void *user)
{
    uint32_t channels = frame->header.channels;
    (void)decoder, (void)user;
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t i = 0; i < frame->header.blocksize; i++)
            decoded[decoded_values + (size_t)i * channels + c] = (int16_t)planes[c][i];
    decoded_values += (size_t)frame->header.blocksize * channels;
    return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

static void take_error(const FLAC__StreamDecoder *decoder, FLAC__StreamDecoderErrorStatus status,
                       void *user)
{
    (void)decoder, (void)user;
    must(false, FLAC__StreamDecoderErrorStatusString[status]);
}

static void run_flac_decode(const bench_file *file)
{
    bench_stream in = {
        {file->flac.bytes, file->flac.size_bytes},
        0
    };
    FLAC__StreamDecoder *decoder = FLAC__stream_decoder_new();
    must(decoder != NULL, "FLAC__stream_decoder_new");
    decoded_values = 0;
    must(FLAC__stream_decoder_init_stream(decoder, bench_flac_read, NULL, NULL, NULL, NULL,
                                          take_samples, NULL, take_error,
                                          &in) == FLAC__STREAM_DECODER_INIT_STATUS_OK &&
             FLAC__stream_decoder_process_until_end_of_stream(decoder),
         "flac decoder");
    FLAC__stream_decoder_delete(decoder);
    must(decoded_values * sizeof(int16_t) == pcm_size(file), "decoding flac");
}

static void run_flac_encode(const bench_file *file)
{
    encode_flac(file, &scratch);
}

static void encode_pcm(const bench_file *file, byte_buffer *out)
{
    reserve(out, spsh_pcm_bound(file->samples, file->channels));
    must(spsh_pcm_encode(file->pcm, file->samples, file->channels, out->bytes, out->capacity_bytes,
                         &out->size_bytes, NULL) == SPSH_OK,
         "spsh_pcm_encode");
}

static void run_pcm_encode(const bench_file *file)
{
    encode_pcm(file, &scratch);
}

static void run_pcm_decode(const bench_file *file)
{
    must(spsh_pcm_decode(file->payload.bytes, file->payload.size_bytes, 0, file->samples, decoded,
                         NULL) == SPSH_OK,
         "spsh_pcm_decode");
}

static void run_memcpy(const bench_file *file)
{
    memcpy(decoded, file->pcm, pcm_size(file));
}

static bench_way ways[] = {
    {"flac_decode",       run_flac_decode, PCM_ISA_COUNT,  {0}},
    {"pcm_decode_scalar", run_pcm_decode,  PCM_ISA_SCALAR, {0}},
    {"pcm_decode_avx2",   run_pcm_decode,  PCM_ISA_AVX2,   {0}},
    {"pcm_decode_avx512", run_pcm_decode,  PCM_ISA_AVX512, {0}},
    {"memcpy",            run_memcpy,      PCM_ISA_COUNT,  {0}},
    {"flac_encode",       run_flac_encode, PCM_ISA_COUNT,  {0}},
    {"pcm_encode",        run_pcm_encode,  PCM_ISA_COUNT,  {0}},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static bool is_supported(const bench_way *way)
{
    return way->isa == PCM_ISA_COUNT || spsh__pcm_isa_is_supported(way->isa);
}

static void take_file(const char *path)
{
    SF_INFO info = {0};
    SNDFILE *source = sf_open(path, SFM_READ, &info);
    if (source == NULL)
        return;
    if ((info.format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_16 && info.frames > 0 &&
        file_count < FILES_MAX) {
        bench_file *file = &files[file_count++];
        file->channels = (uint32_t)info.channels;
        file->sample_rate_hz = (uint32_t)info.samplerate;
        file->pcm = (int16_t *)malloc((size_t)info.frames * file->channels * sizeof(int16_t));
        must(file->pcm != NULL, "malloc");
        file->samples = (uint64_t)sf_readf_short(source, file->pcm, info.frames);
    }
    (void)sf_close(source);
}

static double measure(const bench_way *way, double pcm_bytes)
{
    double start = cpu_seconds();
    double seconds = 0;
    uint64_t passes = 0;
    spsh__pcm_force_isa(way->isa);
    for (; seconds < ROUND_SECONDS; passes++) {
        for (size_t i = 0; i < file_count; i++)
            way->run_fn(&files[i]);
        seconds = cpu_seconds() - start;
    }
    return (double)passes * pcm_bytes / seconds;
}

static void print_machine(void)
{
    char line[256];
    FILE *cpu = fopen("/proc/cpuinfo", "r");
    while (cpu != NULL && fgets(line, sizeof(line), cpu) != NULL) {
        const char *name = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && name != NULL) {
            printf("  \"machine\": \"%.*s\",\n", (int)strcspn(name + 2, "\n"), name + 2);
            break;
        }
    }
    if (cpu != NULL)
        (void)fclose(cpu);
}

static void print_results(int argc, char **argv, double pcm_bytes)
{
    double flac_bytes = 0;
    double payload_bytes = 0;
    double flac_rate = 0;
    for (size_t i = 0; i < file_count; i++) {
        flac_bytes += (double)files[i].flac.size_bytes;
        payload_bytes += (double)files[i].payload.size_bytes;
    }
    printf("{\n  \"command\": \"bench_pcm");
    for (int i = 1; i < argc; i++) {
        const char *name = strrchr(argv[i], '/');
        printf(" %s", name == NULL ? argv[i] : name + 1);
    }
    printf("\",\n");
    print_machine();
    printf("  \"compiler\": \"%s\",\n  \"libflac\": \"%s\",\n", __VERSION__, FLAC__VERSION_STRING);
    printf("  \"files\": %zu,\n  \"pcm_bytes\": %.0f,\n", file_count, pcm_bytes);
    printf(
        "  \"flac5_to_pcm\": %.4f,\n  \"payload_to_pcm\": %.4f,\n  \"payload_to_flac5\": %.4f,\n",
        flac_bytes / pcm_bytes, payload_bytes / pcm_bytes, payload_bytes / flac_bytes);
    printf("  \"rounds\": %d,\n  \"mb_per_s\": {", ROUNDS);
    for (size_t w = 0; w < WAYS; w++) {
        if (!is_supported(&ways[w]))
            continue;
        const figure rate = figure_of(ways[w].rates, ROUNDS);
        flac_rate = w == 0 ? rate.median : flac_rate;
        printf("%s\n    \"%s\": {\"median\": %.0f, \"least\": %.0f, \"most\": %.0f, "
               "\"to_flac_decode\": %.2f}",
               w == 0 ? "" : ",", ways[w].name, rate.median / 1e6, rate.least / 1e6,
               rate.most / 1e6, rate.median / flac_rate);
    }
    printf("\n  }\n}\n");
}

int main(int argc, char **argv)
{
    double pcm_bytes = 0;
    size_t largest_bytes = 1;
    for (int i = 1; i < argc; i++)
        bench_walk(argv[i], take_file);
    if (file_count == 0) {
        fprintf(stderr, "usage: bench_pcm FILE-OR-FOLDER... > RESULT.json\n");
        return 2;
    }
    for (size_t i = 0; i < file_count; i++) {
        bench_file *file = &files[i];
        encode_flac(file, &file->flac);
        encode_pcm(file, &file->payload);
        pcm_bytes += (double)pcm_size(file);
        largest_bytes = pcm_size(file) > largest_bytes ? pcm_size(file) : largest_bytes;
    }
    decoded = (int16_t *)malloc(largest_bytes);
    must(decoded != NULL, "malloc");
    for (size_t i = 0; i < file_count; i++) {
        run_pcm_decode(&files[i]);
        must(memcmp(decoded, files[i].pcm, pcm_size(&files[i])) == 0, "comparing");
    }
    for (int round = 0; round < ROUNDS; round++)
        for (size_t w = 0; w < WAYS; w++)
            if (is_supported(&ways[w]))
                ways[w].rates[round] = measure(&ways[w], pcm_bytes);
    print_results(argc, argv, pcm_bytes);
    return 0;
}
