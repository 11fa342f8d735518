/* unit_feature_payload.c: the codec `features`: golden bytes, round trips, ranges, damage. */
#include "speechshard/features.h"
#include "spsh_test.h"

enum { FLOAT16 = 2, FLOAT32 = 4, HEAD_BYTES = 40, BLOCK_BYTES = 65536 };

typedef struct payload {
    uint8_t *bytes; /* a block of exactly size_bytes: a sanitizer sees an over-read of one byte */
    size_t size_bytes;
} payload;

static uint64_t random_state;
static uint8_t scratch[SPSH_FEATURES_BLOCK_BYTES];

static void *take(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes == 0 ? 1 : size_bytes);
    REQUIRE(memory != NULL);
    return memory;
}

static payload encode(const spsh_features_info *info, const void *rows)
{
    const size_t capacity = spsh_features_bound(info->frame_count, info->dim, info->value_bytes);
    REQUIRE(capacity != SIZE_MAX);
    uint8_t *wide = take(capacity);
    payload p = {NULL, 0};
    memset(wide, 0xa5, capacity);
    REQUIRE(spsh_features_encode(info, rows, wide, capacity, &p.size_bytes, NULL) == SPSH_OK);
    REQUIRE(p.size_bytes <= capacity);
    p.bytes = take(p.size_bytes);
    memcpy(p.bytes, wide, p.size_bytes);
    free(wide);
    return p;
}

static spsh_status decode(const payload *p, uint64_t first, uint64_t count, void *rows)
{
    return spsh_features_decode((spsh_bytes){p->bytes, p->size_bytes}, first, count, rows, scratch,
                                NULL);
}

static size_t row_bytes(const spsh_features_info *info)
{
    return (size_t)info->dim * info->value_bytes;
}

/* Like features: the upper byte moves slowly, the others are noise. Without smoothness: noise. */
static uint8_t *make_rows(const spsh_features_info *info, bool smooth)
{
    const size_t size = (size_t)info->frame_count * row_bytes(info);
    uint8_t *rows = take(size);
    for (size_t i = 0; i < size; i++)
        rows[i] = (uint8_t)(smooth && i % info->value_bytes == info->value_bytes - 1U
                                ? 0x40 + i / 3000 % 3
                                : test_random(&random_state));
    return rows;
}

static void check_ranges(const payload *p, const spsh_features_info *info, const uint8_t *rows)
{
    for (int i = 0; i < 20 && info->frame_count > 0; i++) {
        const uint64_t first = test_random(&random_state) % (info->frame_count + 1);
        const uint64_t count = test_random(&random_state) % (info->frame_count - first + 1);
        const size_t size = (size_t)count * row_bytes(info);
        uint8_t *part = take(size);
        CHECK_I64(decode(p, first, count, part), SPSH_OK);
        CHECK(memcmp(part, rows + (size_t)first * row_bytes(info), size) == 0);
        free(part);
    }
}

static void check_round_trip(uint64_t frames, uint32_t dim, uint32_t value_bytes, bool smooth)
{
    const spsh_features_info info = {.dim = dim,
                                     .value_bytes = value_bytes,
                                     .frame_count = frames,
                                     .source = "sixteen bytes..."};
    uint8_t *rows = make_rows(&info, smooth);
    const size_t size = (size_t)frames * row_bytes(&info);
    uint8_t *back = take(size);
    payload p = encode(&info, rows);
    spsh_features_info found;
    memset(back, 0xa5, size);
    REQUIRE(spsh_features_inspect(p.bytes, p.size_bytes, &found, NULL) == SPSH_OK);
    CHECK_U64(found.dim, dim);
    CHECK_U64(found.value_bytes, value_bytes);
    CHECK_U64(found.frame_count, frames);
    CHECK(memcmp(found.source, info.source, 16) == 0);
    CHECK(found.block_frames * row_bytes(&info) <= SPSH_FEATURES_BLOCK_BYTES);
    CHECK_I64(decode(&p, 0, frames, back), SPSH_OK);
    CHECK(memcmp(back, rows, size) == 0);
    if (smooth && size > 4096)
        CHECK(p.size_bytes < size - size / 8);
    CHECK(p.size_bytes <= HEAD_BYTES + size + size / 1024 + 64);
    check_ranges(&p, &info, rows);
    CHECK_I64(decode(&p, 0, frames + 1, back), SPSH_E_INVALID_ARG);
    CHECK_I64(decode(&p, frames + 1, 0, back), SPSH_E_INVALID_ARG);
    CHECK_I64(decode(&p, 1, UINT64_MAX, back), SPSH_E_INVALID_ARG);
    free(p.bytes);
    free(back);
    free(rows);
}

static void test_round_trips(void)
{
    static const uint32_t dims[] = {1, 13, 80, 257, SPSH_FEATURES_DIM_MAX};
    for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++) {
        for (uint32_t bytes = FLOAT16; bytes <= FLOAT32; bytes += 2) {
            const uint32_t block =
                BLOCK_BYTES / (dims[d] * bytes) > 0 ? BLOCK_BYTES / (dims[d] * bytes) : 1;
            const uint64_t frames[] = {0, 1, 2, block - 1, block, block + 1, 3 * block + 1};
            for (size_t f = 0; f < sizeof(frames) / sizeof(frames[0]); f++)
                for (int smooth = 0; smooth < 2; smooth++)
                    check_round_trip(frames[f], dims[d], bytes, smooth != 0);
        }
    }
}

/* ---- golden bytes ---- */

static const uint8_t golden[] = {
    1,    2,    0,    0,    3,    0,    0,    0,
    0xaa, 0x2a, 0,    0,    0,    0,    0,    0, /* version, halves; 3; 10,922 a block */
    2,    0,    0,    0,    0,    0,    0,    0,
    'f',  'r',  'o',  'm',  ' ',  't',  'h',  'e', /* 2 frames; source */
    's',  'e',  ' ',  'o',  'n',  'e',  's',  '.',
    12,   0,    0,    0,    0x00, 0x3c, 0x00, 0xc0, /* 1, -2 */
    0xff, 0x7b, 0x00, 0x00, 0x00, 0x80, 0x01, 0x00, /* 65504, 0; -0, 2^-24 */
};
static const uint16_t golden_rows[6] = {0x3c00, 0xc000, 0x7bff, 0x0000, 0x8000, 0x0001};

/* 64 frames of one float, 1.0 each: the planes are 128 zeros, 64 times 0x80, 64 times 0x3f. */
static const uint8_t golden_lz4[] = {
    1,    4,    0,    0,    1,    0,    0,  0, 0, 0x40, 0,    0,    0,    0,    0,    0, 64,
    0,    0,    0,    0,    0,    0,    0,  0, 0, 0,    0,    0,    0,    0,    0,    0, 0,
    0,    0,    0,    0,    0,    0,    20, 0, 0, 0,    0x1f, 0x00, 0x01, 0x00, 0x6c, /* a zero, 127
                                                                                         more */
    0x1f, 0x80, 0x01, 0x00, 0x2c, /* 0x80, 63 more */
    0x1f, 0x3f, 0x01, 0x00, 0x27, /* 0x3f, 58 more */
    0x50, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f,
};

static void test_golden(void)
{
    const spsh_features_info info = {
        .dim = 3, .value_bytes = FLOAT16, .frame_count = 2, .source = "from these ones."};
    payload p = encode(&info, golden_rows);
    REQUIRE(p.size_bytes == sizeof(golden));
    CHECK(memcmp(p.bytes, golden, sizeof(golden)) == 0);
    free(p.bytes);
    uint16_t rows[6];
    payload given = {take(sizeof(golden)), sizeof(golden)};
    memcpy(given.bytes, golden, sizeof(golden));
    CHECK_I64(decode(&given, 0, 2, rows), SPSH_OK);
    free(given.bytes);
    CHECK(memcmp(rows, golden_rows, sizeof(rows)) == 0);
}

static void test_golden_lz4(void)
{
    float rows[64];
    payload p = {take(sizeof(golden_lz4)), sizeof(golden_lz4)};
    memcpy(p.bytes, golden_lz4, sizeof(golden_lz4));
    p.bytes[HEAD_BYTES] = (uint8_t)(sizeof(golden_lz4) - HEAD_BYTES - 4);
    CHECK_I64(decode(&p, 0, 64, rows), SPSH_OK);
    for (size_t i = 0; i < 64; i++)
        CHECK(rows[i] == 1.0F);
    free(p.bytes);
}

static void test_hash(void)
{
    const spsh_features_info info = {.dim = 3, .value_bytes = FLOAT16, .frame_count = 2};
    const spsh_features_info other = {.dim = 2, .value_bytes = FLOAT16, .frame_count = 3};
    uint8_t hash[16], same[16], turned[16];
    char text[33] = "";
    spsh_features_hash(&info, golden_rows, hash);
    spsh_features_hash(&info, golden_rows, same);
    spsh_features_hash(&other, golden_rows, turned);
    CHECK(memcmp(hash, same, 16) == 0);
    CHECK(memcmp(hash, turned, 16) != 0);
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", hash[i]);
    CHECK_STR(text, "8fb5bf7ce7a583c8afa35b8be8747f68");
}

/* ---- damage ---- */

static void test_every_truncation(void)
{
    const spsh_features_info info = {.dim = 80, .value_bytes = FLOAT16, .frame_count = 900};
    uint8_t *rows = make_rows(&info, true);
    uint8_t *back = take(900 * 160);
    payload p = encode(&info, rows);
    for (size_t size = 0; size < p.size_bytes; size += size < 64 ? 1 : 97) {
        payload cut = {take(size), size};
        memcpy(cut.bytes, p.bytes, size);
        CHECK_I64(decode(&cut, 0, 1, back), SPSH_E_TRUNCATED);
        free(cut.bytes);
    }
    payload longer = {take(p.size_bytes + 1), p.size_bytes + 1};
    memcpy(longer.bytes, p.bytes, p.size_bytes);
    longer.bytes[p.size_bytes] = 0;
    CHECK_I64(decode(&longer, 0, 1, back), SPSH_E_CORRUPT);
    free(longer.bytes);
    free(p.bytes);
    free(back);
    free(rows);
}

/* Any changed bit of the head must have one of three effects: the head is rejected, it gives
 * another frame count, or the rows differ. It must never crash the decoder. */
static void test_every_bit_of_the_head(void)
{
    const spsh_features_info info = {.dim = 16, .value_bytes = FLOAT32, .frame_count = 3000};
    uint8_t *rows = make_rows(&info, true);
    payload p = encode(&info, rows);
    for (size_t bit = 0; bit < 8 * (HEAD_BYTES + 12); bit++) {
        spsh_features_info found;
        p.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        if (spsh_features_inspect(p.bytes, p.size_bytes, &found, NULL) == SPSH_OK) {
            const size_t size = (size_t)found.frame_count * row_bytes(&found);
            uint8_t *back = take(size);
            const spsh_status rc = decode(&p, 0, found.frame_count, back);
            CHECK(rc == SPSH_OK || rc == SPSH_E_CORRUPT);
            CHECK(bit / 8 >= 4); /* a changed version, width, or reserved bit is rejected */
            free(back);
        }
        p.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    free(p.bytes);
    free(rows);
}

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* Break each rule of format-features.md separately, and check the returned code. */
static void test_every_rule(void)
{
    static const struct {
        size_t at;
        uint32_t value;
        spsh_status want;
    } rules[] = {
        {0,  0x00000202,                SPSH_E_VERSION  },
        {0,  0x00000301,                SPSH_E_CORRUPT  }, /* values of 3 bytes */
        {0,  0x00010201,                SPSH_E_CORRUPT  }, /* reserved */
        {12, 1,                         SPSH_E_CORRUPT  },
        {4,  0,                         SPSH_E_CORRUPT  }, /* dim */
        {4,  SPSH_FEATURES_DIM_MAX + 1, SPSH_E_LIMIT    },
        {8,  0,                         SPSH_E_CORRUPT  }, /* frames per block */
        {8,  100000,                    SPSH_E_LIMIT    },
        {20, 1,                         SPSH_E_LIMIT    }, /* 2^32 frames */
        {16, 400000,                    SPSH_E_TRUNCATED}, /* more blocks than bytes */
        {40, 0,                         SPSH_E_CORRUPT  }, /* stored bytes */
        {40, 13,                        SPSH_E_CORRUPT  },
        {40, 11,                        SPSH_E_CORRUPT  }, /* a byte is left over */
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        uint8_t bytes[sizeof(golden)];
        spsh_features_info info;
        memcpy(bytes, golden, sizeof(bytes));
        put_u32(bytes + rules[i].at, rules[i].value);
        const spsh_status rc = spsh_features_inspect(bytes, sizeof(bytes), &info, NULL);
        if (rc != rules[i].want)
            fprintf(stderr, "rule %zu\n", i);
        CHECK_I64(rc, rules[i].want);
    }
}

static void test_block_that_does_not_decompress(void)
{
    float rows[64];
    for (size_t at = HEAD_BYTES + 4; at < sizeof(golden_lz4); at++) {
        payload p = {take(sizeof(golden_lz4)), sizeof(golden_lz4)};
        memcpy(p.bytes, golden_lz4, sizeof(golden_lz4));
        p.bytes[HEAD_BYTES] = (uint8_t)(sizeof(golden_lz4) - HEAD_BYTES - 4);
        p.bytes[at] ^= 0xf0;
        const spsh_status rc = decode(&p, 0, 64, rows);
        CHECK(rc == SPSH_OK || rc == SPSH_E_CORRUPT);
        if (at == HEAD_BYTES + 4) /* 14 literals instead of one */
            CHECK_I64(rc, SPSH_E_CORRUPT);
        free(p.bytes);
    }
}

static void test_arguments(void)
{
    uint8_t payload_bytes[64];
    size_t size = 0;
    const spsh_features_info wide = {.dim = SPSH_FEATURES_DIM_MAX + 1, .value_bytes = FLOAT16};
    const spsh_features_info one = {.dim = 1, .value_bytes = FLOAT16, .frame_count = 1};
    CHECK(spsh_features_bound(1, 0, FLOAT16) == SIZE_MAX);
    CHECK(spsh_features_bound(1, 1, 3) == SIZE_MAX);
    CHECK(spsh_features_bound(UINT64_MAX, 1, FLOAT16) == SIZE_MAX);
    CHECK(spsh_features_bound((UINT64_C(1) << 30) + 1, 1, FLOAT16) == SIZE_MAX);
    CHECK_I64(spsh_features_encode(&wide, NULL, payload_bytes, 64, &size, NULL),
              SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_features_encode(&one, NULL, payload_bytes, 64, &size, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_features_encode(&one, golden_rows, payload_bytes, 64, &size, NULL),
              SPSH_E_LIMIT);
    CHECK_U64(size, 0);
}

TEST_MAIN(unit_feature_payload)
{
    random_state = test_seed(6);
    RUN(test_golden);
    RUN(test_golden_lz4);
    RUN(test_hash);
    RUN(test_round_trips);
    RUN(test_every_truncation);
    RUN(test_every_bit_of_the_head);
    RUN(test_every_rule);
    RUN(test_block_that_does_not_decompress);
    RUN(test_arguments);
    return TEST_RESULT();
}
