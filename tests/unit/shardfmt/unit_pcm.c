/* unit_pcm.c: the codec `pcm`: round trips, ranges, equal bytes on every instruction set, damage.
 */
#include "codec/pcm_internal.h"
#include "speechshard/limits.h"
#include "speechshard/pcm.h"
#include "spsh_test.h"

#include <math.h>

typedef struct payload {
    uint8_t *bytes; /* a block of exactly size_bytes: a sanitizer sees an over-read of one byte */
    size_t size_bytes;
} payload;

static uint64_t random_state;

static void *take(size_t size_bytes)
{
    void *memory = malloc(size_bytes == 0 ? 1 : size_bytes);
    REQUIRE(memory != NULL);
    return memory;
}

static payload encode(const int16_t *pcm, uint64_t samples, uint32_t channels)
{
    size_t capacity_bytes = spsh_pcm_bound(samples, channels);
    REQUIRE(capacity_bytes != SIZE_MAX);
    uint8_t *wide = (uint8_t *)take(capacity_bytes);
    payload result = {NULL, 0};
    memset(wide, 0xa5, capacity_bytes);
    REQUIRE(spsh_pcm_encode(pcm, samples, channels, wide, capacity_bytes, &result.size_bytes,
                            NULL) == SPSH_OK);
    REQUIRE(result.size_bytes <= capacity_bytes);
    result.bytes = (uint8_t *)take(result.size_bytes);
    memcpy(result.bytes, wide, result.size_bytes);
    free(wide);
    return result;
}

/* Round trip with every instruction set, all of which must give the same bytes. */
static void check_round_trip(const int16_t *pcm, uint64_t samples, uint32_t channels)
{
    size_t pcm_bytes = (size_t)samples * channels * sizeof(int16_t);
    int16_t *decoded = (int16_t *)take(pcm_bytes);
    spsh__pcm_force_isa(PCM_ISA_SCALAR);
    payload reference = encode(pcm, samples, channels);
    for (int isa = 0; isa < PCM_ISA_COUNT; isa++) {
        spsh_pcm_info info;
        if (!spsh__pcm_isa_is_supported((pcm_isa)isa))
            continue;
        spsh__pcm_force_isa((pcm_isa)isa);
        payload encoded = encode(pcm, samples, channels);
        CHECK_U64(encoded.size_bytes, reference.size_bytes);
        CHECK(encoded.size_bytes == reference.size_bytes &&
              memcmp(encoded.bytes, reference.bytes, reference.size_bytes) == 0);
        memset(decoded, 0xa5, pcm_bytes);
        CHECK_I64(spsh_pcm_decode(encoded.bytes, encoded.size_bytes, 0, samples, decoded, NULL),
                  SPSH_OK);
        CHECK(pcm_bytes == 0 || memcmp(decoded, pcm, pcm_bytes) == 0);
        CHECK_I64(spsh_pcm_inspect(encoded.bytes, encoded.size_bytes, &info, NULL), SPSH_OK);
        CHECK(info.samples == samples && info.channels == channels);
        free(encoded.bytes);
    }
    spsh__pcm_force_isa(PCM_ISA_COUNT);
    free(reference.bytes);
    free(decoded);
}

/* Kinds of signal; SPEECH resembles speech: a resonance with slowly changing loudness. */
typedef enum signal {
    SIGNAL_ZERO,
    SIGNAL_CONSTANT,
    SIGNAL_RAMP,
    SIGNAL_ALTERNATING,
    SIGNAL_SQUARE,
    SIGNAL_NOISE,
    SIGNAL_QUIET,
    SIGNAL_SINE,
    SIGNAL_SPARSE,
    SIGNAL_MULTIPLES,
    SIGNAL_SPEECH,
    SIGNAL_COUNT
} signal;

static int16_t make_value(signal kind, uint64_t i, double *state)
{
    double noise = (double)(int16_t)test_random(&random_state);
    switch (kind) {
    case SIGNAL_CONSTANT: return -12345;
    case SIGNAL_RAMP: return (int16_t)(uint16_t)(i * 7);
    case SIGNAL_ALTERNATING: return i % 2 == 0 ? INT16_MIN : INT16_MAX;
    case SIGNAL_SQUARE: return i / 50 % 2 == 0 ? INT16_MIN : INT16_MAX;
    case SIGNAL_NOISE: return (int16_t)noise;
    case SIGNAL_QUIET: return (int16_t)(noise / 30000);
    case SIGNAL_SINE: return (int16_t)(32767 * sin((double)i * 0.03));
    case SIGNAL_SPARSE: return (int16_t)(i % 997 == 5 ? noise : 0);
    case SIGNAL_MULTIPLES: return (int16_t)((int)(noise / 4000) * 512);
    case SIGNAL_SPEECH: {
        double next = 1.6 * state[0] - 0.8 * state[1] + noise * 0.01 * (1 + sin((double)i * 1e-3));
        state[1] = state[0];
        state[0] = next;
        return (int16_t)next;
    }
    default: return 0;
    }
}

static void fill(signal kind, uint64_t samples, uint32_t channels, int16_t *pcm)
{
    double state[2] = {0, 0};
    for (uint64_t i = 0; i < samples * channels; i++)
        pcm[i] = make_value(kind, i / channels, state);
}

static void test_every_signal_in_every_length(void)
{
    static const uint32_t lengths[] = {300,  511,  512,  513,   1023,  1025,  2047,  4095, 4097,
                                       8191, 8192, 8193, 12289, 16384, 20000, 24576, 24577};
    int16_t *pcm = (int16_t *)take(24577 * sizeof(int16_t));
    for (int kind = 0; kind < SIGNAL_COUNT; kind++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            fill((signal)kind, lengths[i], 1, pcm);
            check_round_trip(pcm, lengths[i], 1);
        }
        for (uint64_t samples = 0; samples < 300; samples++) {
            fill((signal)kind, samples, 1, pcm);
            check_round_trip(pcm, samples, 1);
        }
    }
    free(pcm);
}

static void test_channels(void)
{
    static const uint32_t channels[] = {1, 2, 3, 8, 64};
    static const uint64_t samples[] = {0, 1, 17, 3000, 8192, 9000};
    int16_t *pcm = (int16_t *)take(sizeof(int16_t) * 9000 * 64);
    for (size_t c = 0; c < sizeof(channels) / sizeof(channels[0]); c++) {
        for (size_t s = 0; s < sizeof(samples) / sizeof(samples[0]); s++) {
            fill(SIGNAL_SPEECH, samples[s], channels[c], pcm);
            check_round_trip(pcm, samples[s], channels[c]);
        }
    }
    free(pcm);
}

static void test_dual_mono_is_nearly_free(void)
{
    enum { SAMPLES = 20000 };
    int16_t *mono = (int16_t *)take(SAMPLES * sizeof(int16_t));
    int16_t *dual = (int16_t *)take(sizeof(int16_t) * SAMPLES * 2);
    fill(SIGNAL_SPEECH, SAMPLES, 1, mono);
    for (size_t i = 0; i < SAMPLES; i++)
        dual[2 * i] = dual[2 * i + 1] = mono[i];
    payload one = encode(mono, SAMPLES, 1);
    payload two = encode(dual, SAMPLES, 2);
    CHECK_U64(two.size_bytes, one.size_bytes + 12);
    check_round_trip(dual, SAMPLES, 2);
    free(one.bytes);
    free(two.bytes);
    free(mono);
    free(dual);
}

/* Decode a range from the whole payload, and again from only the head and the piece of the range.
 */
static void check_range(const int16_t *pcm, uint32_t channels, payload whole, uint64_t first,
                        uint64_t count)
{
    size_t bytes = (size_t)count * channels * sizeof(int16_t);
    int16_t *decoded = (int16_t *)take(bytes);
    spsh_pcm_info info;
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;
    CHECK_I64(spsh_pcm_decode(whole.bytes, whole.size_bytes, first, count, decoded, NULL), SPSH_OK);
    CHECK(bytes == 0 || memcmp(decoded, pcm + first * channels, bytes) == 0);

    REQUIRE(spsh_pcm_inspect(whole.bytes, whole.size_bytes, &info, NULL) == SPSH_OK);
    size_t head_bytes = spsh_pcm_head_bytes(info.samples, info.channels);
    uint8_t *head = (uint8_t *)take(head_bytes);
    memcpy(head, whole.bytes, head_bytes);
    spsh_bytes head_view = {head, head_bytes};
    CHECK_I64(spsh_pcm_range(head_view, first, count, &offset_bytes, &size_bytes, NULL), SPSH_OK);
    REQUIRE(offset_bytes + size_bytes <= whole.size_bytes);
    uint8_t *piece = (uint8_t *)take((size_t)size_bytes);
    memcpy(piece, whole.bytes + offset_bytes, (size_t)size_bytes);
    spsh_pcm_part part = {
        head_view, {piece, (size_t)size_bytes},
         offset_bytes
    };
    memset(decoded, 0xa5, bytes);
    CHECK_I64(spsh_pcm_decode_part(&part, first, count, decoded, NULL), SPSH_OK);
    CHECK(bytes == 0 || memcmp(decoded, pcm + first * channels, bytes) == 0);
    if (size_bytes > 0) {
        part.piece.size_bytes--;
        CHECK_I64(spsh_pcm_decode_part(&part, first, count, decoded, NULL), SPSH_E_TRUNCATED);
        part.piece.size_bytes++;
        part.offset_bytes++;
        CHECK_I64(spsh_pcm_decode_part(&part, first, count, decoded, NULL), SPSH_E_TRUNCATED);
    }
    free(piece);
    free(head);
    free(decoded);
}

static void test_ranges(void)
{
    for (uint32_t channels = 1; channels <= 3; channels++) {
        enum { SAMPLES = 2 * SPSH_PCM_FRAME_SAMPLES + 1000 };
        int16_t *pcm = (int16_t *)take((size_t)SAMPLES * channels * sizeof(int16_t));
        fill(SIGNAL_SPEECH, SAMPLES, channels, pcm);
        payload whole = encode(pcm, SAMPLES, channels);
        for (int i = 0; i < 300; i++) {
            uint64_t first = test_random(&random_state) % (SAMPLES + 1);
            uint64_t count = test_random(&random_state) % (SAMPLES - first + 1);
            check_range(pcm, channels, whole, first, i % 2 == 0 ? count : count % 20);
        }
        check_range(pcm, channels, whole, 0, SAMPLES);
        check_range(pcm, channels, whole, SAMPLES, 0);
        check_range(pcm, channels, whole, SPSH_PCM_FRAME_SAMPLES, SPSH_PCM_FRAME_SAMPLES);
        CHECK_I64(spsh_pcm_decode(whole.bytes, whole.size_bytes, 0, SAMPLES + 1, pcm, NULL),
                  SPSH_E_INVALID_ARG);
        CHECK_I64(spsh_pcm_decode(whole.bytes, whole.size_bytes, UINT64_MAX, 2, pcm, NULL),
                  SPSH_E_INVALID_ARG);
        free(whole.bytes);
        free(pcm);
    }
}

static void test_bounds_and_arguments(void)
{
    int16_t pcm[4] = {1, 2, 3, 4};
    uint8_t bytes[64];
    size_t size_bytes = 99;
    CHECK(spsh_pcm_bound(1, 0) == SIZE_MAX);
    CHECK(spsh_pcm_bound(1, SPSH_CHANNELS_MAX + 1) == SIZE_MAX);
    CHECK(spsh_pcm_bound(SPSH_PCM_BYTES_MAX / 2 + 1, 1) == SIZE_MAX);
    CHECK(spsh_pcm_bound(SPSH_PCM_BYTES_MAX / 2, 1) != SIZE_MAX);
    CHECK(spsh_pcm_bound(UINT64_MAX, 64) == SIZE_MAX);
    CHECK(spsh_pcm_head_bytes(UINT64_MAX, 64) == SIZE_MAX);
    CHECK_U64(spsh_pcm_head_bytes(0, 1), 8);
    CHECK_U64(spsh_pcm_head_bytes(8193, 2), 8 + 4 * 4);
    CHECK_I64(spsh_pcm_encode(pcm, 4, 65, bytes, sizeof(bytes), &size_bytes, NULL), SPSH_E_LIMIT);
    CHECK_I64(spsh_pcm_encode(NULL, 4, 1, bytes, sizeof(bytes), &size_bytes, NULL),
              SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_pcm_encode(pcm, 4, 1, bytes, spsh_pcm_bound(4, 1) - 1, &size_bytes, NULL),
              SPSH_E_INVALID_ARG);
    CHECK_U64(size_bytes, 99);
    CHECK_I64(spsh_pcm_decode(NULL, 0, 0, 0, NULL, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_pcm_inspect(bytes, sizeof(bytes), NULL, NULL), SPSH_E_INVALID_ARG);
}

/* Decode damaged payloads in blocks of their exact size. Any result is valid if no byte outside is
 * touched, and all instruction sets agree on it. */
static void check_damaged(const uint8_t *bytes, size_t size_bytes)
{
    spsh_pcm_info info;
    spsh_error err = SPSH_ERROR_INIT;
    int16_t *first_result = NULL;
    spsh_status first_status = SPSH_OK;
    uint8_t *exact = (uint8_t *)take(size_bytes);
    memcpy(exact, bytes, size_bytes);
    if (spsh_pcm_inspect(exact, size_bytes, &info, &err) == SPSH_OK &&
        info.samples * info.channels < 100000) {
        size_t pcm_bytes = (size_t)info.samples * info.channels * sizeof(int16_t);
        for (int isa = 0; isa < PCM_ISA_COUNT; isa++) {
            if (!spsh__pcm_isa_is_supported((pcm_isa)isa))
                continue;
            int16_t *pcm = (int16_t *)take(pcm_bytes);
            spsh__pcm_force_isa((pcm_isa)isa);
            spsh_status rc = spsh_pcm_decode(exact, size_bytes, 0, info.samples, pcm, &err);
            CHECK(rc == SPSH_OK || rc == SPSH_E_CORRUPT || rc == SPSH_E_TRUNCATED);
            if (first_result == NULL) {
                first_result = pcm;
                first_status = rc;
                continue;
            }
            CHECK_I64(rc, first_status);
            CHECK(rc != SPSH_OK || memcmp(pcm, first_result, pcm_bytes) == 0);
            free(pcm);
        }
        spsh__pcm_force_isa(PCM_ISA_COUNT);
    }
    free(first_result);
    free(exact);
}

static void test_truncation_at_every_length(void)
{
    int16_t *pcm = (int16_t *)take(sizeof(int16_t) * 9000 * 2);
    int16_t *decoded = (int16_t *)take(sizeof(int16_t) * 9000 * 2);
    fill(SIGNAL_SPEECH, 9000, 2, pcm);
    payload whole = encode(pcm, 9000, 2);
    for (size_t size_bytes = 0; size_bytes < whole.size_bytes; size_bytes++) {
        spsh_pcm_info info;
        uint8_t *exact = (uint8_t *)take(size_bytes);
        memcpy(exact, whole.bytes, size_bytes);
        CHECK_I64(spsh_pcm_inspect(exact, size_bytes, &info, NULL), SPSH_E_TRUNCATED);
        if (size_bytes % 7 == 0)
            CHECK_I64(spsh_pcm_decode(exact, size_bytes, 0, 9000, decoded, NULL), SPSH_E_TRUNCATED);
        free(exact);
    }
    free(whole.bytes);
    free(decoded);
    free(pcm);
}

static void test_bit_flips(void)
{
    static const uint64_t lengths[] = {40, 1000, 9000};
    int16_t *pcm = (int16_t *)take(sizeof(int16_t) * 9000 * 2);
    for (size_t i = 0; i < 3; i++) {
        for (uint32_t channels = 1; channels <= 2; channels++) {
            fill(SIGNAL_SPEECH, lengths[i], channels, pcm);
            payload whole = encode(pcm, lengths[i], channels);
            for (int round = 0; round < 400; round++) {
                /* Heads and width codes are small and important: every second flip hits them. */
                size_t span = round % 2 == 0 ? whole.size_bytes : whole.size_bytes / 20 + 8;
                uint64_t flip = test_random(&random_state) % (span * 8);
                whole.bytes[flip / 8] ^= (uint8_t)(1 << flip % 8);
                check_damaged(whole.bytes, whole.size_bytes);
                whole.bytes[flip / 8] ^= (uint8_t)(1 << flip % 8);
            }
            free(whole.bytes);
        }
    }
    free(pcm);
}

/* A payload of one predicted mono block, and the samples that it decodes to. Its 40 samples use
 * three groups. */
static const uint8_t golden[] = {
    0x01, 0x0d, 0x01, 0x00, 0x28, 0x00, 0x00, 0x00, 0x53, 0x00, 0x00, 0x00, 0x02, 0x00,
    0x09, 0xd9, 0x85, 0x93, 0xb8, 0xc4, 0xcb, 0x75, 0xf2, 0xe3, 0x19, 0x71, 0xfa, 0xb5,
    0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x6f, 0xd3, 0x4e, 0x65, 0x7e, 0xb3, 0xe1,
    0x54, 0xa3, 0x82, 0xf9, 0xc4, 0x8c, 0x79, 0xb9, 0xa5, 0xce, 0xae, 0xd5, 0x71, 0x78,
    0xf5, 0x4b, 0xa0, 0xfe, 0x04, 0x18, 0xc0, 0xfe, 0x21, 0x30, 0x80, 0x9d, 0xd2, 0x25,
    0xa6, 0x5c, 0x9b, 0x6a, 0x9a, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f};
static const int16_t golden_pcm[40] = {0,    12,   40,   90,   160,  240,  330,  420,  500,  560,
                                       600,  610,  590,  545,  470,  370,  250,  115,  -25,  -165,
                                       -300, -420, -520, -590, -635, -645, -620, -565, -480, -375,
                                       -250, -110, 30,   170,  305,  425,  525,  600,  640,  650};

static void test_golden_bytes(void)
{
    int16_t decoded[40];
    payload encoded = encode(golden_pcm, 40, 1);
    CHECK_U64(encoded.size_bytes, sizeof(golden));
    if (encoded.size_bytes != sizeof(golden) ||
        memcmp(encoded.bytes, golden, sizeof(golden)) != 0) {
        test_fail(__FILE__, __LINE__, "golden bytes");
        for (size_t i = 0; i < encoded.size_bytes; i++)
            fprintf(stderr, "0x%02x,%s", encoded.bytes[i], i % 16 == 15 ? "\n" : " ");
        fprintf(stderr, "\n");
    }
    CHECK_I64(spsh_pcm_decode(golden, sizeof(golden), 0, 40, decoded, NULL), SPSH_OK);
    CHECK(memcmp(decoded, golden_pcm, sizeof(golden_pcm)) == 0);
    free(encoded.bytes);
}

/* One row per "must" of the format: a changed byte of the golden payload, and the status of the
 * readers. */
static void test_every_rule(void)
{
    static const struct {
        size_t offset_bytes;
        uint8_t value;
        spsh_status inspected;
        spsh_status decoded;
    } rules[] = {
        {0,  2,    SPSH_E_VERSION,   SPSH_E_VERSION  }, /* version */
        {1,  12,   SPSH_E_VERSION,   SPSH_E_VERSION  }, /* frame length */
        {2,  0,    SPSH_E_LIMIT,     SPSH_E_LIMIT    }, /* channels */
        {2,  65,   SPSH_E_LIMIT,     SPSH_E_LIMIT    },
        {2,  2,    SPSH_E_TRUNCATED, SPSH_E_CORRUPT  }, /* an invalid directory */
        {3,  1,    SPSH_E_CORRUPT,   SPSH_E_CORRUPT  }, /* reserved */
        {7,  0x80, SPSH_E_LIMIT,     SPSH_E_LIMIT    }, /* samples */
        {7,  0x3f, SPSH_E_TRUNCATED, SPSH_E_TRUNCATED}, /* head */
        {8,  11,   SPSH_E_CORRUPT,   SPSH_E_CORRUPT  }, /* block before the head's end */
        {8,  12,   SPSH_E_CORRUPT,   SPSH_E_CORRUPT  }, /* empty block of channel 0 */
        {8,  84,   SPSH_E_TRUNCATED, SPSH_E_TRUNCATED}, /* block past the payload's end */
        {8,  82,   SPSH_E_CORRUPT,   SPSH_E_CORRUPT  }, /* block cut, bytes left over */
        {12, 3,    SPSH_OK,          SPSH_E_CORRUPT  }, /* form */
        {12, 0,    SPSH_OK,          SPSH_E_CORRUPT  }, /* raw of the wrong size */
        {12, 1,    SPSH_OK,          SPSH_E_CORRUPT  }, /* constant of the wrong size */
        {13, 5,    SPSH_OK,          SPSH_E_CORRUPT  }, /* number of sets */
        {14, 16,   SPSH_OK,          SPSH_E_CORRUPT  }, /* shift */
        {27, 0xb6, SPSH_OK,          SPSH_E_CORRUPT  }, /* widths with a wrong sum */
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        uint8_t broken[sizeof(golden)];
        int16_t decoded[128];
        spsh_pcm_info info;
        spsh_error err = SPSH_ERROR_INIT;
        memcpy(broken, golden, sizeof(golden));
        broken[rules[i].offset_bytes] = rules[i].value;
        CHECK_I64(spsh_pcm_inspect(broken, sizeof(broken), &info, NULL), rules[i].inspected);
        CHECK_I64(spsh_pcm_decode(broken, sizeof(broken), 0, 40, decoded, &err), rules[i].decoded);
        CHECK_I64(err.status, rules[i].decoded);
    }
}

TEST_MAIN(unit_pcm)
{
    random_state = test_seed(20240601);
    RUN(test_every_signal_in_every_length);
    RUN(test_channels);
    RUN(test_dual_mono_is_nearly_free);
    RUN(test_ranges);
    RUN(test_bounds_and_arguments);
    RUN(test_truncation_at_every_length);
    RUN(test_bit_flips);
    RUN(test_golden_bytes);
    RUN(test_every_rule);
    return TEST_RESULT();
}
