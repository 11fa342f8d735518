/* unit_pcm_speech.c: the codec `pcm` on real speech: exact on every instruction set, and small. */
#include "codec/pcm_internal.h"
#include "speechshard/pcm.h"
#include "spsh_test.h"

#include <ftw.h>
#include <sndfile.h>

enum { FILES_MAX = 40 }; /* files per folder */

static struct {
    size_t file_count;
    uint64_t source_bytes;
    uint64_t pcm_bytes;
    uint64_t payload_bytes;
} totals;

static void check_decoded(const uint8_t *payload, size_t payload_bytes, const int16_t *pcm,
                          const SF_INFO *info)
{
    size_t values = (size_t)info->frames * (size_t)info->channels;
    int16_t *decoded = (int16_t *)malloc(values * sizeof(int16_t));
    REQUIRE(decoded != NULL);
    for (int isa = 0; isa < PCM_ISA_COUNT; isa++) {
        if (!spsh__pcm_isa_is_supported((pcm_isa)isa))
            continue;
        spsh__pcm_force_isa((pcm_isa)isa);
        memset(decoded, 0xa5, values * sizeof(int16_t));
        CHECK_I64(spsh_pcm_decode(payload, payload_bytes, 0, (uint64_t)info->frames, decoded, NULL),
                  SPSH_OK);
        CHECK(memcmp(decoded, pcm, values * sizeof(int16_t)) == 0);
    }
    free(decoded);
}

static void check_encoded(const int16_t *pcm, const SF_INFO *info)
{
    size_t values = (size_t)info->frames * (size_t)info->channels;
    size_t capacity_bytes = spsh_pcm_bound((uint64_t)info->frames, (uint32_t)info->channels);
    uint8_t *first = (uint8_t *)malloc(capacity_bytes);
    uint8_t *other = (uint8_t *)malloc(capacity_bytes);
    size_t first_bytes = 0;
    REQUIRE(first != NULL && other != NULL);
    for (int isa = 0; isa < PCM_ISA_COUNT; isa++) {
        size_t other_bytes = 0;
        if (!spsh__pcm_isa_is_supported((pcm_isa)isa))
            continue;
        spsh__pcm_force_isa((pcm_isa)isa);
        CHECK_I64(spsh_pcm_encode(pcm, (uint64_t)info->frames, (uint32_t)info->channels,
                                  isa == 0 ? first : other, capacity_bytes,
                                  isa == 0 ? &first_bytes : &other_bytes, NULL),
                  SPSH_OK);
        CHECK(isa == 0 || (other_bytes == first_bytes && memcmp(first, other, first_bytes) == 0));
    }
    check_decoded(first, first_bytes, pcm, info);
    spsh__pcm_force_isa(PCM_ISA_COUNT);
    totals.pcm_bytes += values * sizeof(int16_t);
    totals.payload_bytes += first_bytes;
    free(first);
    free(other);
}

static int check_file(const char *path, const struct stat *file, int kind, struct FTW *walk)
{
    SF_INFO info = {0};
    (void)walk;
    if (kind != FTW_F || totals.file_count == FILES_MAX)
        return 0;
    SNDFILE *source = sf_open(path, SFM_READ, &info);
    if (source == NULL)
        return 0; /* not audio */
    if ((info.format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_16 && info.frames > 0) {
        size_t values = (size_t)info.frames * (size_t)info.channels;
        int16_t *pcm = (int16_t *)malloc(values * sizeof(int16_t));
        REQUIRE(pcm != NULL);
        info.frames = sf_readf_short(source, pcm, info.frames);
        check_encoded(pcm, &info);
        totals.source_bytes += (uint64_t)file->st_size;
        totals.file_count++;
        free(pcm);
    }
    (void)sf_close(source);
    return 0;
}

static void check_folder(const char *folder)
{
    char path[1024];
    memset(&totals, 0, sizeof(totals));
    test_data_path(path, sizeof(path), folder);
    CHECK(nftw(path, check_file, 16, FTW_PHYS) == 0);
    CHECK(totals.file_count > 0);
    printf("%s: %zu files, payloads %.4f of PCM\n", folder, totals.file_count,
           (double)totals.payload_bytes / (double)totals.pcm_bytes);
}

/* Check the size limit of the design on the files as their corpus published them. */
static void test_flac_files(void)
{
    check_folder("librispeech-351");
    CHECK(totals.payload_bytes * 100 <= totals.source_bytes * 106);
}

static void test_wav_files(void)
{
    check_folder("yesno");
    check_folder("fsdd");
    check_folder("ljspeech-3codecs");
    check_folder("mfa-fixtures");
}

TEST_MAIN(unit_pcm_speech)
{
    RUN(test_flac_files);
    RUN(test_wav_files);
    return TEST_RESULT();
}
