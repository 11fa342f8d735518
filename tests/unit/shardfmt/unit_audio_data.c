/* unit_audio_data.c: every file of the real speech is decoded and judged.
 *
 *     WAV     equals the samples that a few lines here read from the file
 *     FLAC    its MD5 agrees; LJ recordings equal the WAV in the same folder
 *     others  counts add up to the output of ffmpeg 5.1 and opusdec 0.2 for these files
 *
 * Inspection agrees with the decode, and ranges through a decoder equal slices of the whole.
 */
#include "audio/audio_internal.h"
#include "spsh_test.h"

enum { CODECS = 8, RANGES = 3 };

static const char *root;
static size_t root_length;

/* Counts per codec. */
static uint64_t file_count[CODECS];
static uint64_t sample_count[CODECS];

typedef struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
} buffer;

static uint64_t random_state = 17;

static spsh_status collect(void *user, const spsh_audio_info *info, const void *pcm,
                           uint64_t samples, spsh_error *err)
{
    buffer *all = (buffer *)user;
    size_t size = (size_t)samples * info->channels * spsh__sample_bytes(info->format);
    (void)err;
    if (size > all->capacity - all->size) {
        all->capacity = 2 * (all->capacity + size);
        all->data = (uint8_t *)realloc(all->data, all->capacity);
        REQUIRE(all->data != NULL);
    }
    memcpy(all->data + all->size, pcm, size);
    all->size += size;
    return SPSH_OK;
}

static buffer load(const char *path)
{
    buffer file = {NULL, 0, 0};
    struct stat info;
    FILE *stream = fopen(path, "rb");
    REQUIRE(stream != NULL && fstat(fileno(stream), &info) == 0);
    file.size = (size_t)info.st_size;
    file.data = (uint8_t *)malloc(file.size + 1);
    REQUIRE(file.data != NULL && fread(file.data, 1, file.size, stream) == file.size);
    (void)fclose(stream);
    return file;
}

/* The samples of these WAV files are at the end of the chunk "data", whose size is right. */
static void check_wav(const buffer *file, const buffer *pcm, const spsh_audio_info *info)
{
    size_t at = 12;
    while (memcmp(file->data + at, "data", 4) != 0)
        at +=
            8 + spsh__load_u32le(file->data + at + 4) + (spsh__load_u32le(file->data + at + 4) & 1);
    size_t size = spsh__load_u32le(file->data + at + 4);
    size_t bytes = info->bits_per_sample / 8;
    REQUIRE(at + 8 + size <= file->size);
    size_t count = size / bytes;
    size_t wide = spsh__sample_bytes(info->format);
    REQUIRE(pcm->size == count * wide);
    const uint8_t *samples = file->data + at + 8;
    size_t different = 0;
    for (size_t i = 0; i < count; i++) { /* left-justified: low bytes are zero */
        different += memcmp(pcm->data + i * wide + (wide - bytes), samples + i * bytes, bytes) != 0;
        for (size_t k = 0; k < wide - bytes; k++)
            different += pcm->data[i * wide + k] != 0;
    }
    CHECK_U64(different, 0);
}

static void check_ranges(spsh_bytes file, const spsh_decode_result *result, const buffer *pcm)
{
    spsh_memory_source memory = {file};
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder *decoder = NULL;
    size_t block = spsh__sample_bytes(result->info.format) * result->info.channels;
    uint8_t *part = (uint8_t *)malloc(4000 * block);
    REQUIRE(part != NULL);
    REQUIRE(spsh_decoder_open(&source, result->info.codec, NULL, &decoder, NULL) == SPSH_OK);
    for (int i = 0; i < RANGES; i++) {
        uint64_t begin = test_random(&random_state) % (result->samples + 1);
        uint64_t wanted = test_random(&random_state) % 4001;
        uint64_t left = result->samples - begin;
        uint64_t got = 0;
        spsh_status rc = spsh_decoder_seek(decoder, begin, NULL);
        if (rc == SPSH_OK && result->info.format == SPSH_SAMPLE_I16)
            rc = spsh_decoder_read_i16(decoder, (int16_t *)(void *)part, wanted, &got, NULL);
        else if (rc == SPSH_OK && result->info.format == SPSH_SAMPLE_I32)
            rc = spsh_decoder_read_i32(decoder, (int32_t *)(void *)part, wanted, &got, NULL);
        else if (rc == SPSH_OK)
            rc = spsh_decoder_read_f32(decoder, (float *)(void *)part, wanted, &got, NULL);
        CHECK_I64(rc, SPSH_OK);
        CHECK_U64(got, wanted < left ? wanted : left);
        CHECK(memcmp(part, pcm->data + begin * block, (size_t)got * block) == 0);
    }
    spsh_decoder_free(decoder);
    free(part);
}

/* ljspeech-3codecs: x.wav, x.flac, x.mp3 are one recording. */
static void check_twin(const char *path, const spsh_decode_result *result)
{
    char twin[4096];
    size_t length = strlen(path);
    spsh_decode_result other = SPSH_DECODE_RESULT_INIT;
    struct stat info;
    if (strstr(path + root_length, "ljspeech") == NULL || length < 5 ||
        strcmp(path + length - 5, ".flac") != 0)
        return;
    REQUIRE(snprintf(twin, sizeof(twin), "%.*s.wav", (int)(length - 5), path) > 0);
    if (stat(twin, &info) != 0)
        return;
    buffer file = load(twin);
    REQUIRE(spsh_audio_decode_memory((spsh_bytes){file.data, file.size}, SPSH_CODEC_WAV, NULL, NULL,
                                     NULL, &other, NULL) == SPSH_OK);
    CHECK(memcmp(other.pcm_hash, result->pcm_hash, 16) == 0);
    free(file.data);
}

/* Without an MD5 check, our own decoder does the work, with the same samples. */
static void check_without_md5(spsh_bytes bytes, const spsh_decode_result *result)
{
    spsh_decoder_options options = SPSH_DECODER_OPTIONS_INIT;
    spsh_decode_result other = SPSH_DECODE_RESULT_INIT;
    options.skip_md5 = true;
    REQUIRE(spsh_audio_decode_memory(bytes, SPSH_CODEC_FLAC, &options, NULL, NULL, &other, NULL) ==
            SPSH_OK);
    CHECK_U64(other.samples, result->samples);
    CHECK_I64(other.verdict, result->verdict);
    CHECK(memcmp(other.pcm_hash, result->pcm_hash, 16) == 0);
}

/* Field by field: padding has no value. */
static bool same_info(const spsh_audio_info *a, const spsh_audio_info *b)
{
    return a->codec == b->codec && a->format == b->format &&
           a->sample_rate_hz == b->sample_rate_hz && a->nominal_rate_hz == b->nominal_rate_hz &&
           a->channels == b->channels && a->bits_per_sample == b->bits_per_sample &&
           a->samples == b->samples && a->has_md5 == b->has_md5 &&
           memcmp(a->md5, b->md5, sizeof(a->md5)) == 0;
}

static void check_file(const char *path)
{
    buffer file = load(path);
    spsh_bytes bytes = {file.data, file.size};
    spsh_codec codec = spsh_audio_sniff(file.data, file.size < 4096 ? file.size : 4096, path);
    buffer pcm = {NULL, 0, 0};
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh_audio_info info;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_memory_source memory = {bytes};
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    if (codec == SPSH_CODEC_UNKNOWN) {
        free(file.data);
        return;
    }
    spsh_status rc =
        spsh_audio_decode_memory(bytes, SPSH_CODEC_UNKNOWN, NULL, collect, &pcm, &result, &err);
    if (rc != SPSH_OK || result.verdict > SPSH_DECODE_UNVERIFIED) {
        fprintf(stderr, "%s: %s %s\n", path, err.message, rc == SPSH_OK ? result.detail : "");
        CHECK(rc == SPSH_OK && result.verdict <= SPSH_DECODE_UNVERIFIED);
    } else {
        CHECK_I64(spsh_audio_inspect(&source, SPSH_CODEC_UNKNOWN, &info, NULL), SPSH_OK);
        CHECK(same_info(&info, &result.info));
        if (result.verdict == SPSH_DECODE_UNVERIFIED)
            CHECK(info.samples == SPSH_SAMPLES_UNKNOWN);
        if (codec == SPSH_CODEC_WAV)
            check_wav(&file, &pcm, &result.info);
        if (codec == SPSH_CODEC_FLAC) {
            CHECK(info.has_md5 && result.verdict == SPSH_DECODE_EXACT);
            check_without_md5(bytes, &result);
        }
        check_ranges(bytes, &result, &pcm);
        check_twin(path, &result);
        file_count[codec]++;
        sample_count[codec] += result.samples;
    }
    free(pcm.data);
    free(file.data);
}

static int visit(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)walk;
    if (kind == FTW_F)
        check_file(path);
    return 0;
}

static void test_all_files(void)
{
    REQUIRE(nftw(root, visit, 16, FTW_PHYS) == 0);
}

static void test_totals(void)
{
    static const struct {
        spsh_codec codec;
        uint64_t files;
        uint64_t samples;
    } totals[] = {
        {SPSH_CODEC_WAV,    3190, 24813038},
        {SPSH_CODEC_FLAC,   510,  94938434},
        {SPSH_CODEC_MP3,    39,   5635972 },
        {SPSH_CODEC_VORBIS, 30,   6658176 },
        {SPSH_CODEC_OPUS,   123,  37031080},
    };
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        CHECK_U64(file_count[totals[i].codec], totals[i].files);
        CHECK_U64(sample_count[totals[i].codec], totals[i].samples);
    }
}

TEST_MAIN(unit_audio_data)
{
    char path[4096];
    test_data_path(path, sizeof(path), ".");
    root = path;
    root_length = strlen(path);
    RUN(test_all_files);
    RUN(test_totals);
    return TEST_RESULT();
}
