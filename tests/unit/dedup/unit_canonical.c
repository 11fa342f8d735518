/* unit_canonical.c: digests and chunks, in pieces of any size, compared with a slow implementation.
 * After any cut, the chunks become equal to the chunks of the whole again. */
#include "common/hash.h"
#include "print_signals.h"
#include "segment/canonical.h"
#include "segment/chunker.h"
#include "spsh_test.h"

enum { HEAD = 8 };

static int32_t *make_pcm(signal_kind kind, uint32_t rate_hz, uint64_t seed, size_t count,
                         uint32_t channels)
{
    int16_t *one = malloc((count + 1) * sizeof(*one));
    int32_t *pcm = calloc(count * channels + 1, sizeof(*pcm));
    REQUIRE(one != NULL && pcm != NULL);
    for (uint32_t c = 0; c < channels; c++) {
        make_signal(kind, rate_hz, seed + c, one, count);
        for (size_t i = 0; i < count; i++)
            pcm[i * channels + c] = one[i] * 65536;
    }
    free(one);
    return pcm;
}

static spsh__digests digest_in(const int32_t *pcm, size_t count, uint32_t rate_hz,
                               uint32_t channels, size_t piece)
{
    spsh__canonical *canonical = NULL;
    spsh__digests digests;
    memset(&digests, 0xa5, sizeof(digests));
    REQUIRE(spsh__canonical_new(&canonical, NULL) == SPSH_OK);
    spsh__canonical_begin(canonical, rate_hz, channels);
    for (size_t at = 0; at < count; at += piece)
        spsh__canonical_push(canonical, pcm + at * channels,
                             count - at < piece ? count - at : piece);
    spsh__canonical_finish(canonical, &digests);
    spsh__canonical_free(canonical);
    return digests;
}

static spsh__digests digest(const int32_t *pcm, size_t count, uint32_t channels)
{
    return digest_in(pcm, count, 16000, channels, count + 1);
}

static bool is_equal(const uint8_t a[16], const uint8_t b[16])
{
    return memcmp(a, b, 16) == 0;
}

static bool is_zero(const uint8_t hash[16])
{
    static const uint8_t zero[16];
    return is_equal(hash, zero);
}

/* The digest of FINGERPRINT.md 5, in one piece. */
static void hash_plainly(const int32_t *pcm, size_t values, uint32_t rate_hz, uint32_t channels,
                         uint8_t ret_hash[16])
{
    uint8_t *bytes = malloc(HEAD + 4 * values);
    REQUIRE(bytes != NULL);
    for (size_t i = 0; i < values + 2; i++) {
        const uint32_t value = i == 0 ? rate_hz : i == 1 ? channels : (uint32_t)pcm[i - 2];
        for (unsigned k = 0; k < 4; k++)
            bytes[4 * i + k] = (uint8_t)(value >> (8 * k));
    }
    spsh__pack_hash128((spsh_bytes){bytes, HEAD + 4 * values}, ret_hash);
    free(bytes);
}

static void test_digests_are_as_written(void)
{
    static const size_t pieces[] = {1, 7, 4096, 4097, 100000};
    int32_t *pcm = make_pcm(SIGNAL_SPEECH, 16000, 1, 20000, 2);
    uint8_t full[16], trim[16];
    memset(pcm, 0, 2 * 5000 * sizeof(*pcm));
    memset(pcm + 2 * 9000, 0, 2 * 5000 * sizeof(*pcm)); /* zeros in the middle are kept */
    memset(pcm + 2 * 17000, 0, 2 * 3000 * sizeof(*pcm));
    pcm[2 * 5000 + 1] = 65536; /* one nonzero channel ends the zeros to trim */
    pcm[2 * 16999] = -65536;
    hash_plainly(pcm, 40000, 16000, 2, full);
    hash_plainly(pcm + 2 * 5000, 24000, 16000, 2, trim);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        const spsh__digests got = digest_in(pcm, 20000, 16000, 2, pieces[i]);
        CHECK(is_equal(got.full, full));
        CHECK(is_equal(got.trim, trim));
        CHECK(is_zero(got.mono));
        CHECK_U64(got.trim_first, 5000);
        CHECK_U64(got.trim_count, 12000);
    }
    free(pcm);
}

static void test_dual_mono_is_mono(void)
{
    int32_t *mono = make_pcm(SIGNAL_SPEECH, 16000, 2, 12000, 1);
    int32_t *dual = calloc(2 * 14000, sizeof(*dual));
    REQUIRE(dual != NULL);
    for (size_t i = 0; i < 12000; i++)
        dual[2 * (i + 500)] = dual[2 * (i + 500) + 1] = mono[i];
    const spsh__digests one = digest(mono, 12000, 1);
    spsh__digests two = digest_in(dual, 14000, 16000, 2, 777);
    CHECK(is_equal(one.mono, two.mono));
    CHECK(is_equal(one.mono, one.trim));
    CHECK(!is_equal(one.trim, two.trim));
    CHECK_U64(two.trim_first, 500 + one.trim_first);
    CHECK_U64(two.trim_count, one.trim_count);
    dual[2 * 6000] += 65536; /* the channels differ in one late sample */
    two = digest_in(dual, 14000, 16000, 2, 777);
    CHECK(is_zero(two.mono));
    free(dual);
    free(mono);
}

static void test_rate_and_channels_count(void)
{
    int32_t *pcm = make_pcm(SIGNAL_NOISE, 16000, 3, 4000, 1);
    const spsh__digests a = digest_in(pcm, 4000, 16000, 1, 4000);
    const spsh__digests b = digest_in(pcm, 4000, 8000, 1, 4000);
    const spsh__digests c = digest_in(pcm, 2000, 16000, 2, 2000);
    CHECK(!is_equal(a.full, b.full) && !is_equal(a.full, c.full) && !is_equal(b.full, c.full));
    CHECK(!is_equal(a.trim, b.trim) && !is_equal(a.trim, c.trim));
    free(pcm);
}

static void test_silence_has_no_trimmed_digest(void)
{
    static const int32_t silence[3000];
    const spsh__digests got = digest(silence, 3000, 1);
    const spsh__digests none = digest(silence, 0, 1);
    CHECK(!is_zero(got.full) && is_zero(got.trim) && is_zero(got.mono));
    CHECK_U64(got.trim_first, 0);
    CHECK_U64(got.trim_count, 0);
    CHECK(!is_zero(none.full) && is_zero(none.trim) && is_zero(none.mono));
    CHECK(!is_equal(got.full, none.full));
}

static void test_clipping_is_runs(void)
{
    enum { FULL = 0x7FFF0000 };
    static const int32_t low = INT32_MIN;
    const int32_t pcm[] = {FULL, FULL, 0,   FULL, FULL, FULL, FULL, 0,   low,
                           low,  FULL, low, low,  low,  5,    FULL, FULL};
    CHECK_U64(digest(pcm, sizeof(pcm) / sizeof(pcm[0]), 1).clipped_count, 4 + 3);
    CHECK_U64(digest_in(pcm, sizeof(pcm) / sizeof(pcm[0]), 16000, 1, 1).clipped_count, 7);
    const int32_t stereo[] = {FULL, 0, FULL, FULL, FULL, FULL, 1, FULL};
    CHECK_U64(digest(stereo, 4, 2).clipped_count, 6);
    CHECK_U64(digest_in(stereo, 4, 16000, 2, 1).clipped_count, 6);
}

/* ---- chunks ---- */

typedef struct chunk_list {
    spsh__chunk *chunks;
    size_t count;
} chunk_list;

static chunk_list cut_in(const int32_t *pcm, size_t count, uint32_t rate_hz, uint32_t channels,
                         size_t piece)
{
    spsh__chunker *chunker = NULL;
    const spsh__chunk *chunks = NULL;
    chunk_list list = {0};
    REQUIRE(spsh__chunker_new(&chunker, NULL) == SPSH_OK);
    REQUIRE(spsh__chunker_begin(chunker, 8000, 3, NULL) == SPSH_OK); /* a second begin resets it */
    REQUIRE(spsh__chunker_begin(chunker, rate_hz, channels, NULL) == SPSH_OK);
    for (size_t at = 0; at < count; at += piece)
        REQUIRE(spsh__chunker_push(chunker, pcm + at * channels,
                                   count - at < piece ? count - at : piece, NULL) == SPSH_OK);
    REQUIRE(spsh__chunker_finish(chunker, &chunks, &list.count, NULL) == SPSH_OK);
    list.chunks = malloc((list.count + 1) * sizeof(*chunks));
    REQUIRE(list.chunks != NULL);
    if (list.count > 0)
        memcpy(list.chunks, chunks, list.count * sizeof(*chunks));
    spsh__chunker_free(chunker);
    return list;
}

static uint32_t mix_plainly(uint32_t v)
{
    v ^= v >> 16;
    v *= UINT32_C(0x9E3779B1);
    v ^= v >> 15;
    v *= UINT32_C(0x85EBCA77);
    return v ^ v >> 13;
}

static uint32_t hash_at(const int32_t *pcm, uint32_t channels, size_t at)
{
    uint32_t sum = 0;
    for (size_t j = 0; j < 32; j++) {
        uint32_t v = 0;
        for (uint32_t c = 0; c < channels; c++)
            v = v * UINT32_C(0x9E3779B1) + (uint32_t)pcm[(at - j) * channels + c];
        sum += mix_plainly(v) << j;
    }
    return sum;
}

static bool is_cut(const uint32_t *hashes, size_t count, size_t near, size_t p)
{
    if (p < near + 31 || p + near >= count)
        return false;
    for (size_t q = p - near; q <= p + near; q++)
        if (hashes[q] > hashes[p] || (q < p && hashes[q] == hashes[p]))
            return false;
    return true;
}

/* A literal implementation of FINGERPRINT.md 6. */
static chunk_list cut_plainly(const int32_t *pcm, size_t count, uint32_t rate_hz, uint32_t channels)
{
    uint32_t *hashes = calloc(count + 1, sizeof(*hashes));
    chunk_list list = {calloc(count + 1, sizeof(*list.chunks)), 0};
    size_t first = 0;
    REQUIRE(hashes != NULL && list.chunks != NULL);
    for (size_t i = 31; i < count; i++)
        hashes[i] = hash_at(pcm, channels, i);
    for (size_t p = 1; p <= count; p++) {
        if (p < count && !is_cut(hashes, count, rate_hz / 8, p))
            continue;
        bool is_constant = true;
        for (size_t i = first * channels; i < p * channels; i++)
            is_constant = is_constant && pcm[i] == pcm[first * channels + i % channels];
        const spsh_bytes bytes = {(const uint8_t *)(pcm + first * channels),
                                  (p - first) * channels * sizeof(*pcm)};
        if (p - first <= rate_hz && !is_constant)
            list.chunks[list.count++] =
                (spsh__chunk){spsh__pack_hash64(bytes), first, (uint32_t)(p - first)};
        first = p;
    }
    free(hashes);
    return list;
}

static bool are_same(chunk_list a, chunk_list b)
{
    bool is_same = a.count == b.count;
    for (size_t i = 0; is_same && i < a.count; i++)
        is_same = a.chunks[i].hash == b.chunks[i].hash &&
                  a.chunks[i].first_sample == b.chunks[i].first_sample &&
                  a.chunks[i].samples == b.chunks[i].samples;
    return is_same;
}

static void test_chunks_are_as_written(void)
{
    static const struct {
        signal_kind kind;
        uint32_t rate_hz, channels;
        size_t count, least, most;
    } cases[] = {
        {SIGNAL_SPEECH,  16000, 1, 100000, 15, 45 },
        {SIGNAL_NOISE,   8000,  1, 80001,  25, 60 },
        {SIGNAL_CLIPPED, 16000, 2, 60000,  8,  28 },
        {SIGNAL_HISS,    11025, 3, 44100,  8,  28 },
        {SIGNAL_TONE,    16000, 1, 50000,  0,  1  },
        {SIGNAL_SILENCE, 16000, 1, 50000,  0,  0  },
        {SIGNAL_SPEECH,  16000, 1, 1,      0,  0  },
        {SIGNAL_SPEECH,  16000, 1, 31,     1,  1  },
        {SIGNAL_SPEECH,  16000, 1, 4031,   1,  1  },
        {SIGNAL_SPEECH,  16000, 1, 4033,   1,  2  },
        {SIGNAL_SPEECH,  16000, 1, 16001,  1,  6  },
        {SIGNAL_SPEECH,  1000,  1, 30001,  60, 160},
        {SIGNAL_SPEECH,  16000, 1, 0,      0,  0  },
    };
    static const size_t pieces[] = {1000000, 4096, 333, 1};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const size_t count = cases[i].count;
        const uint32_t channels = cases[i].channels;
        int32_t *pcm = make_pcm(cases[i].kind, 16000, i, count, channels);
        const chunk_list want = cut_plainly(pcm, count, cases[i].rate_hz, channels);
        for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
            const chunk_list got = cut_in(pcm, count, cases[i].rate_hz, channels, pieces[k]);
            CHECK(are_same(got, want));
            free(got.chunks);
        }
        CHECK(want.count <= cases[i].most);
        CHECK(want.count >= cases[i].least);
        free(want.chunks);
        free(pcm);
    }
}

/* Long silence between sounds gives no chunks, and its memory is released. */
static void test_long_silence_is_left_out(void)
{
    const size_t count = 400000;
    int32_t *pcm = make_pcm(SIGNAL_SPEECH, 16000, 5, count, 1);
    memset(pcm + 100000, 0, 200000 * sizeof(*pcm));
    const chunk_list want = cut_plainly(pcm, count, 16000, 1);
    const chunk_list got = cut_in(pcm, count, 16000, 1, 1500);
    CHECK(are_same(got, want));
    size_t in_silence = 0;
    for (size_t i = 0; i < got.count; i++)
        in_silence += got.chunks[i].first_sample >= 100000 &&
                      got.chunks[i].first_sample + got.chunks[i].samples < 300000;
    CHECK_U64(in_silence, 0);
    free(got.chunks);
    free(want.chunks);
    free(pcm);
}

/* From the second cut after any start on, the chunks equal the chunks of the whole. */
static void test_chunks_come_into_step(void)
{
    const size_t count = 160000;
    uint64_t random = test_seed(11);
    int32_t *pcm = make_pcm(SIGNAL_SPEECH, 16000, 6, count, 1);
    const chunk_list whole = cut_in(pcm, count, 16000, 1, count);
    for (int round = 0; round < 40; round++) {
        const size_t first = (size_t)(test_random(&random) % 120000);
        const chunk_list part = cut_in(pcm + first, count - first, 16000, 1, count);
        size_t at = 0;
        while (at < whole.count && whole.chunks[at].first_sample < first + 2000 + 31)
            at++;
        CHECK(part.count > 1 && at + part.count == whole.count + 1);
        for (size_t i = 1; at < whole.count && i < part.count; i++, at++) {
            CHECK_U64(part.chunks[i].hash, whole.chunks[at].hash);
            CHECK_U64(part.chunks[i].first_sample + first, whole.chunks[at].first_sample);
        }
        free(part.chunks);
    }
    free(whole.chunks);
    free(pcm);
}

static void test_bad_arguments_are_refused(void)
{
    spsh__chunker *chunker = NULL;
    REQUIRE(spsh__chunker_new(&chunker, NULL) == SPSH_OK);
    CHECK(spsh__chunker_begin(chunker, 999, 1, NULL) == SPSH_E_INVALID_ARG);
    CHECK(spsh__chunker_begin(chunker, 768001, 1, NULL) == SPSH_E_INVALID_ARG);
    CHECK(spsh__chunker_begin(chunker, 16000, 0, NULL) == SPSH_E_INVALID_ARG);
    CHECK(spsh__chunker_begin(chunker, 16000, 65, NULL) == SPSH_E_INVALID_ARG);
    CHECK(spsh__chunker_begin(chunker, 16000, 64, NULL) == SPSH_OK);
    spsh__chunker_free(chunker);
}

TEST_MAIN(unit_canonical)
{
    RUN(test_digests_are_as_written);
    RUN(test_dual_mono_is_mono);
    RUN(test_rate_and_channels_count);
    RUN(test_silence_has_no_trimmed_digest);
    RUN(test_clipping_is_runs);
    RUN(test_chunks_are_as_written);
    RUN(test_long_silence_is_left_out);
    RUN(test_chunks_come_into_step);
    RUN(test_bad_arguments_are_refused);
    return TEST_RESULT();
}
