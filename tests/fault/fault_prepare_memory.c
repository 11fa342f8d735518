/* fault_prepare_memory.c: each allocation of preparing and comparing recordings fails in turn. The
 * result must equal the result with enough memory, or be SPSH_E_NO_MEMORY. It must not be other
 * bytes, a reject, or a false copy.
 *
 * The codec libraries allocate too, so the program replaces malloc for all of them. Opus and the
 * resampler are missing: libsndfile 1.2 and libsoxr 0.1.3 crash if an allocation fails.
 */
#include "speechshard/audio.h"
#include "test_file.h"
#include "unit/prepare.h"

#define SAMPLES   4000U
#define LONG_S    61U /* gets a seek table */
#define CALLS_MAX UINT64_C(20000)

#if !defined(TEST_HAS_OWN_MALLOC) && defined(__GLIBC__)
static uint64_t calls, fail_at = UINT64_MAX;

static bool fails(void)
{
    if (calls++ != fail_at)
        return false;
    errno = ENOMEM;
    return true;
}

#define EXPORT __attribute__((visibility("default"))) /* so that the libraries find it */

/* glibc defines these names.
 * NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

EXPORT void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t nmemb, size_t size)
{
    return fails() ? NULL : __libc_calloc(nmemb, size);
}

EXPORT void *realloc(void *ptr, size_t size)
{
    return fails() ? NULL : __libc_realloc(ptr, size);
}

static char directory[256];

static const char *path_of(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static void store_u32(uint8_t *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* The same samples as WAV and as FLAC. */
static void write_pair(const char *wav_name, const char *flac_name, uint32_t samples)
{
    static const uint8_t head[44] =
        "RIFF____WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1F\0\0\x80\x3E\0\0\2\0\x10\0data";
    size_t flac_bytes = 0;
    const size_t wav_bytes = sizeof(head) + 2 * (size_t)samples;
    const size_t capacity = spsh_flac_bound(samples, 1, 16);
    uint8_t *wav = malloc(wav_bytes);
    uint8_t *flac = malloc(capacity);
    int16_t *pcm = calloc(samples, sizeof(*pcm));
    REQUIRE(wav != NULL && flac != NULL && pcm != NULL);
    for (uint32_t i = 0; i < samples; i++)
        pcm[i] = (int16_t)((i * 37) % 1001);
    memcpy(wav, head, sizeof(head));
    store_u32(wav + 4, (uint32_t)wav_bytes - 8);
    store_u32(wav + 40, 2 * samples);
    memcpy(wav + sizeof(head), pcm, 2 * (size_t)samples);
    REQUIRE(spsh_flac_encode(pcm, SPSH_SAMPLE_I16, 16, samples, 1, 8000, flac, capacity,
                             &flac_bytes, NULL) == SPSH_OK);
    test_file_write(path_of(wav_name), wav, wav_bytes);
    test_file_write(path_of(flac_name), flac, flac_bytes);
    free(pcm);
    free(flac);
    free(wav);
}

/* The first eighths of a file. */
static void copy_part(const char *path, const char *name, size_t eighths)
{
    size_t size_bytes = 0;
    uint8_t *data = test_file_read(path, &size_bytes);
    test_file_write(path_of(name), data, size_bytes * eighths / 8);
    free(data);
}

static void copy_golden(const char *name)
{
    char relative[128];
    char path[4096];
    (void)snprintf(relative, sizeof(relative), "tests/golden/audio/%s", name);
    test_source_path(path, sizeof(path), relative);
    copy_part(path, name, 8);
}

static spsh_status prepare(const spsh_pack_options *options, const char *name,
                           spsh__prepared *ret_prepared)
{
    const spsh_ingest_item item = {
        .source = {(const uint8_t *)name,      strlen(name)             },
        .audio = { path_of(name), 0, SPSH_SOURCE_BYTES_UNKNOWN, SPSH_SOURCE_BYTES_UNKNOWN},
    };
    spsh_error err = SPSH_ERROR_INIT;
    *ret_prepared = (spsh__prepared){0};
    const spsh_status rc = spsh__prepare(options, &item, ret_prepared, &err);
    CHECK_I64(err.status, rc); /* success does not write err */
    return rc;
}

static void check_same(const spsh__prepared *got, const spsh__prepared *want)
{
    const spsh_record *a = &got->record;
    const spsh_record *b = &want->record;
    CHECK_U64(got->rejected, want->rejected);
    CHECK_STR(got->detail, want->detail);
    CHECK_U64(got->unverified, want->unverified);
    CHECK(memcmp(got->key, want->key, sizeof(got->key)) == 0);
    CHECK(memcmp(a->pcm_hash, b->pcm_hash, sizeof(a->pcm_hash)) == 0);
    CHECK_U64(a->flags, b->flags);
    CHECK_U64(a->samples, b->samples);
    CHECK_U64(a->seek_point_count, b->seek_point_count);
    CHECK_U64(a->payload_bytes, b->payload_bytes);
    CHECK(a->payload_bytes == b->payload_bytes &&
          (got->rejected || memcmp(got->payload, want->payload, (size_t)a->payload_bytes) == 0));
}

static void sweep_prepare(const spsh_pack_options *options, const char *name)
{
    spsh__prepared want, got;
    const int failures = test_failures;
    uint64_t n = 0;
    REQUIRE(prepare(options, name, &want) == SPSH_OK);
    for (bool reached = true; reached && n < CALLS_MAX && test_failures == failures; n++) {
        calls = 0;
        fail_at = n;
        const spsh_status rc = prepare(options, name, &got);
        fail_at = UINT64_MAX;
        reached = calls > n;
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        if (rc == SPSH_OK)
            check_same(&got, &want);
        spsh__prepared_free(&got);
    }
    if (test_failures != failures)
        fprintf(stderr, "    %s, codec %d: allocation %" PRIu64 "\n", name, (int)options->codec,
                n - 1);
    spsh__prepared_free(&want);
    CHECK(n > 1 && n < CALLS_MAX);
}

static spsh_pack_options options_of(spsh_pack_codec codec)
{
    return (spsh_pack_options){
        .codec = codec, .dedupe = SPSH_PACK_DEDUPE_PCM, .io = spsh_io_default()};
}

static void test_prepare(void)
{
    static const char *const names[] = {"a.wav",     "a.flac",   "long.flac", "chirp.mp3",
                                        "chirp.gsm", "cut.flac", "text.wav"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const spsh_pack_options keep = options_of(SPSH_PACK_KEEP);
        const spsh_pack_options flac = options_of(SPSH_PACK_FLAC);
        const spsh_pack_options pcm = options_of(SPSH_PACK_PCM);
        spsh_pack_options trusting = keep;
        trusting.trusts_headers = true;
        sweep_prepare(&keep, names[i]);
        sweep_prepare(&flac, names[i]);
        sweep_prepare(&pcm, names[i]);
        sweep_prepare(&trusting, names[i]);
    }
}

/* Compares in turn with each allocation failing; want: the answer with enough memory. */
static void sweep_equal(const spsh__prepared *a, const spsh__prepared *b, bool want)
{
    uint64_t n = 0, failed = 0;
    for (bool reached = true; reached && n < CALLS_MAX; n++) {
        bool equal = !want;
        spsh_error err = SPSH_ERROR_INIT;
        calls = 0;
        fail_at = n;
        const spsh_status rc = spsh__prepared_equal(a, b, SPSH_PACK_DEDUPE_PCM, &equal, &err);
        fail_at = UINT64_MAX;
        reached = calls > n;
        failed += rc != SPSH_OK;
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_I64(err.status, rc);
        CHECK(rc != SPSH_OK || equal == want);
    }
    CHECK(failed > 3 && n < CALLS_MAX);
}

static void test_equal(void)
{
    const spsh_pack_options keep = options_of(SPSH_PACK_KEEP);
    spsh__prepared wav, flac;
    REQUIRE(prepare(&keep, "a.wav", &wav) == SPSH_OK && prepare(&keep, "a.flac", &flac) == SPSH_OK);
    sweep_equal(&wav, &flac, true);
    sweep_equal(&flac, &wav, true);
    spsh__prepared_free(&wav);
    spsh__prepared_free(&flac);
}

/* Under --trust-headers, two files with the same MD5 are compared without decoding; one of them is
 * damaged. */
static void test_undecodable_is_no_copy(void)
{
    spsh_pack_options trusting = options_of(SPSH_PACK_KEEP);
    spsh__prepared whole, cut;
    trusting.trusts_headers = true;
    REQUIRE(prepare(&trusting, "a.flac", &whole) == SPSH_OK && !whole.rejected);
    REQUIRE(prepare(&trusting, "cut.flac", &cut) == SPSH_OK && !cut.rejected);
    CHECK(memcmp(whole.key, cut.key, sizeof(whole.key)) == 0);
    sweep_equal(&whole, &cut, false);
    sweep_equal(&cut, &whole, false);
    spsh__prepared_free(&whole);
    spsh__prepared_free(&cut);
}

TEST_MAIN(fault_prepare_memory)
{
    char path[512];
    test_temp_dir(directory, sizeof(directory));
    write_pair("a.wav", "a.flac", SAMPLES);
    write_pair("long.wav", "long.flac", LONG_S * 8000);
    copy_golden("chirp.mp3");
    copy_golden("chirp.gsm");
    (void)snprintf(path, sizeof(path), "%s", path_of("a.flac"));
    copy_part(path, "cut.flac", 6);
    test_file_write_text(path_of("text.wav"), "no audio");
    RUN(test_prepare);
    RUN(test_equal);
    RUN(test_undecodable_is_no_copy);
    test_remove_tree(directory);
    return TEST_RESULT();
}
#else
TEST_MAIN(fault_prepare_memory)
{
    printf("malloc is the sanitizer's, or not glibc's\n");
    return TEST_SKIPPED;
}
#endif
