/* unit_pcm_device.c PLUGIN: the codec `pcm` on a device returns the samples of pcm.c. This holds
 * for every form of block, any range, any number of channels, and any order of threads. For any
 * bytes, the decoder touches only its own memory. PLUGIN is the host emulation, with guards around
 * its memory, or the real plug-in (77: no device).
 */
#include <ftw.h>
#include <math.h>
#include <sndfile.h>

#include "codec/pcm_internal.h"
#include "device_test.h"
#include "speechshard/limits.h"
#include "speechshard/pcm_cuda.h"
#include "spsh_test.h"

enum { UTTERANCES_MAX = 12, SAMPLES_MAX = 40000, FILLER = 0x5a5a, KINDS = 9, FILES_MAX = 6 };

static spsh_error err;
static spsh_cuda *cuda;
static spsh_cuda_pcm *decoder;
static twin_controls *twin; /* NULL: a real device */
static uint64_t random_state;
static const uint32_t orders[] = {0, 1, 77, 12345};
static uint64_t met[8]; /* blocks by form and by feature: enum below */

enum { MET_EMPTY = 3, MET_STARTS = 4, MET_ZERO_BITS = 5, MET_SETS = 6, MET_ONE_SET = 7 };

static void check_ok(spsh_status rc)
{
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
}

static void *new_buffer(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    REQUIRE(memory != NULL);
    return memory;
}

static void *new_device_buffer(size_t bytes)
{
    void *memory = NULL;
    check_ok(spsh_cuda_alloc(cuda, 0, bytes, &memory, &err));
    return memory;
}

static uint32_t below(uint32_t end)
{
    return (uint32_t)(test_random(&random_state) % end);
}

static void copy(void *to, const void *from, size_t bytes)
{
    check_ok(spsh_cuda_copy(cuda, to, from, bytes, NULL, &err));
    check_ok(spsh_cuda_synchronize(cuda, NULL, &err));
}

/* ---- an utterance: payload of a signal, a range of it, and its destinations */

typedef struct utterance {
    uint8_t *payload;
    size_t payload_bytes;
    uint32_t channels;
    uint64_t samples;
    spsh_pcm_part part;
    int16_t *want; /* expected samples of the range */
    spsh_cuda_pcm_utterance call;
} utterance;

static int16_t value_of(uint32_t kind, uint64_t i)
{
    const double t = (double)i;
    const double noise = (double)(int32_t)below(2001) - 1000;
    switch (kind) {
    case 0: return 1234;
    case 1: return (int16_t)test_random(&random_state);
    case 2: return (int16_t)(8000 * sin(t * 0.05) + noise / 20);
    case 3: return (int16_t)((int16_t)(60 * sin(t * 0.02) + noise / 100) * 256);
    case 4: return (int16_t)(12000 * sin(t * 0.11 + 3 * sin(t * 0.0007)) * sin(t * 0.0003));
    case 5: return i % 2 == 0 ? INT16_MAX : INT16_MIN;
    case 6: return (int16_t)((double)(i / 700 % 2) * 9000 + noise / 300);
    case 7: return (int16_t)(i % 3000 < 1500 ? 0 : noise * 8);
    default: return (int16_t)(20000 + noise / 500);
    }
}

static void count_blocks(const utterance *u)
{
    const size_t blocks =
        (size_t)((u->samples + SPSH_PCM_FRAME_SAMPLES - 1) / SPSH_PCM_FRAME_SAMPLES * u->channels);
    size_t begin = 8 + 4 * blocks;
    for (size_t i = 0; i < blocks; i++) {
        size_t end = 0;
        for (size_t k = 4; k-- > 0;)
            end = end << 8 | u->payload[8 + 4 * i + k];
        const uint8_t *block = u->payload + begin;
        if (begin == end)
            met[MET_EMPTY]++;
        else
            met[block[0]]++;
        if (begin != end && block[0] == PCM_FORM_PREDICTED) {
            met[MET_STARTS] += (block[1] & PCM_FLAG_STARTS) != 0;
            met[MET_ZERO_BITS] += block[1] >> PCM_ZERO_BITS_SHIFT != 0;
            met[(block[1] & PCM_SETS_LOG2_MASK) != 0 ? MET_SETS : MET_ONE_SET]++;
        }
        begin = end;
    }
}

/* pcm: samples * channels values. */
static utterance utterance_of(const int16_t *pcm, uint64_t samples, uint32_t channels)
{
    const size_t capacity = spsh_pcm_bound(samples, channels);
    utterance u = {.payload = new_buffer(capacity), .channels = channels, .samples = samples};
    check_ok(spsh_pcm_encode(pcm, samples, channels, u.payload, capacity, &u.payload_bytes, &err));
    u.part.head = (spsh_bytes){u.payload, u.payload_bytes};
    u.part.piece = u.part.head;
    u.call.sample_count = samples;
    count_blocks(&u);
    return u;
}

static uint64_t random_length(void)
{
    static const uint32_t edges[] = {0,   1,   15,   16,   17,   255,  256,   257,
                                     511, 513, 8191, 8192, 8193, 8447, 16384, 16385};
    const uint32_t at = below(24);
    return at < 16 ? edges[at] : below(SAMPLES_MAX);
}

static utterance random_utterance(uint32_t kind)
{
    const uint64_t samples = random_length();
    const uint32_t channels = below(3) > 0 ? 1 : 1 + below(4);
    int16_t *pcm = new_buffer((size_t)samples * channels * sizeof(*pcm));
    for (uint64_t i = 0; i < samples; i++)
        for (uint32_t c = 0; c < channels; c++) {
            const bool is_same = c > 0 && (kind + c) % 2 == 0;
            const int16_t own = value_of((kind + c) % KINDS, i);
            pcm[i * channels + c] = own;
            if (is_same)
                pcm[i * channels + c] = pcm[i * channels + c - 1];
        }
    utterance u = utterance_of(pcm, samples, channels);
    free(pcm);
    return u;
}

/* Choose a range, and the part of the payload that a reader of the range has. */
static void cut(utterance *u)
{
    uint64_t offset = 0, size = 0;
    u->call.first_sample = below((uint32_t)u->samples + 1);
    u->call.sample_count = below((uint32_t)(u->samples - u->call.first_sample) + 1);
    if (below(2) == 0)
        return;
    check_ok(spsh_pcm_range(u->part.head, u->call.first_sample, u->call.sample_count, &offset,
                            &size, &err));
    u->part.head.size_bytes = spsh_pcm_head_bytes(u->samples, u->channels);
    u->part.piece = (spsh_bytes){u->payload + offset, (size_t)size};
    u->part.offset_bytes = offset;
}

static void expect(utterance *u)
{
    u->want = new_buffer((size_t)u->call.sample_count * u->channels * sizeof(*u->want));
    check_ok(spsh_pcm_check_part(&u->part, u->call.first_sample, u->call.sample_count, &err));
    check_ok(
        spsh_pcm_decode_part(&u->part, u->call.first_sample, u->call.sample_count, u->want, &err));
}

static void forget(utterance *u)
{
    free(u->payload);
    free(u->want);
}

/* ---- a batch */

typedef struct batch {
    utterance utterances[UTTERANCES_MAX];
    spsh_cuda_pcm_utterance calls[UTTERANCES_MAX];
    spsh_cuda_pcm_batch call;
    uint8_t *payloads; /* the host's copy */
    uint8_t *there;    /* the device's */
    int16_t *want, *got;
} batch;

/* Lay out utterances at random offsets, with gaps between them. The value offsets are multiples of
 * `step`. */
static void lay_out(batch *b, size_t count, uint32_t step)
{
    size_t bytes = 0, values = 0;
    memset(&b->call, 0, sizeof(b->call));
    for (size_t i = 0; i < count; i++) {
        utterance *u = &b->utterances[i];
        bytes += below(20);
        values += below(5);
        values = (values + step - 1) / step * step;
        u->call.part = &u->part;
        u->call.piece_offset = bytes;
        u->call.first_value = values;
        bytes += u->part.piece.size_bytes;
        values += (size_t)u->call.sample_count * u->channels;
        b->calls[i] = u->call;
    }
    b->payloads = new_buffer(bytes);
    b->want = new_buffer(values * sizeof(int16_t));
    b->got = new_buffer(values * sizeof(int16_t));
    memset(b->payloads, 0xa5, bytes);
    memset(b->want, FILLER & 0xff, values * sizeof(int16_t));
    for (size_t i = 0; i < count; i++) {
        const utterance *u = &b->utterances[i];
        memcpy(b->payloads + u->call.piece_offset, u->part.piece.data, u->part.piece.size_bytes);
        memcpy(b->want + u->call.first_value, u->want,
               (size_t)u->call.sample_count * u->channels * sizeof(int16_t));
    }
    b->there = new_device_buffer(bytes + (bytes == 0));
    b->call = (spsh_cuda_pcm_batch){.utterances = b->calls,
                                    .count = count,
                                    .payloads = b->there,
                                    .payload_bytes = bytes,
                                    .samples = new_device_buffer(values * 2 + (values == 0)),
                                    .capacity = values};
}

static void bring(const batch *b)
{
    uint8_t *payloads = new_buffer(b->call.payload_bytes);
    memcpy(payloads, b->payloads, b->call.payload_bytes);
    if (b->call.payload_bytes > 0) {
        copy(b->there, payloads, b->call.payload_bytes);
    }
    if (b->call.capacity > 0)
        check_ok(spsh_cuda_fill(cuda, b->call.samples, FILLER & 0xff,
                                b->call.capacity * sizeof(int16_t), NULL, &err));
    free(payloads);
}

static void fetch(const batch *b)
{
    check_ok(spsh_cuda_synchronize(cuda, NULL, &err));
    if (b->call.capacity > 0)
        copy(b->got, b->call.samples, b->call.capacity * sizeof(int16_t));
}

static uint64_t count_wrong(const batch *b)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < b->call.capacity; i++)
        wrong += b->got[i] != b->want[i];
    return wrong;
}

static void free_batch(batch *b)
{
    spsh_cuda_free(cuda, b->there);
    spsh_cuda_free(cuda, b->call.samples);
    for (size_t i = 0; i < b->call.count; i++)
        forget(&b->utterances[i]);
    free(b->payloads), free(b->want), free(b->got);
}

static void check_batch(batch *b)
{
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        if (twin != NULL)
            twin->order = orders[i];
        bring(b);
        check_ok(spsh_cuda_pcm_decode(decoder, NULL, &b->call, &err));
        fetch(b);
        CHECK_U64(count_wrong(b), 0);
        if (twin == NULL)
            break;
    }
    if (twin != NULL)
        twin->order = 0;
}

static void test_all_kinds_of_signals_and_ranges(void)
{
    for (int round = 0; round < 30; round++) {
        batch b;
        const size_t count = 1 + below(UTTERANCES_MAX);
        for (size_t i = 0; i < count; i++) {
            b.utterances[i] = random_utterance(below(KINDS));
            if (below(3) > 0)
                cut(&b.utterances[i]);
            expect(&b.utterances[i]);
        }
        lay_out(&b, count, round % 2 == 0 ? 8 : 1);
        check_batch(&b);
        free_batch(&b);
    }
    for (size_t i = 0; i < sizeof(met) / sizeof(met[0]); i++)
        CHECK(met[i] > 0);
}

/* More batches than slots, on two streams, without waiting. */
static void test_many_are_under_way(void)
{
    enum { BATCHES = 7 };
    static batch all[BATCHES];
    void *streams[2] = {NULL, NULL};
    for (size_t i = 0; i < 2; i++)
        check_ok(spsh_cuda_stream_open(cuda, 0, 0, &streams[i], &err));
    for (size_t i = 0; i < BATCHES; i++) {
        all[i].utterances[0] = random_utterance(2);
        expect(&all[i].utterances[0]);
        lay_out(&all[i], 1, 1);
        bring(&all[i]);
    }
    check_ok(spsh_cuda_synchronize(cuda, NULL, &err));
    for (size_t i = 0; i < BATCHES; i++)
        check_ok(spsh_cuda_pcm_decode(decoder, streams[i % 2], &all[i].call, &err));
    for (size_t i = 0; i < 2; i++)
        check_ok(spsh_cuda_synchronize(cuda, streams[i], &err));
    for (size_t i = 0; i < BATCHES; i++) {
        fetch(&all[i]);
        CHECK_U64(count_wrong(&all[i]), 0);
        free_batch(&all[i]);
    }
    for (size_t i = 0; i < 2; i++)
        spsh_cuda_stream_close(cuda, streams[i]);
}

/* ---- damage */

static void damage(uint8_t *bytes, size_t size)
{
    for (uint32_t i = 0; i < 1 + below(4) && size > 0; i++)
        bytes[below((uint32_t)size)] ^= (uint8_t)(1U << below(8));
}

/* The host's check returns the status of its decoder, for any bytes. */
static void test_check_is_as_decoding(void)
{
    static int16_t pcm[SAMPLES_MAX * 4];
    uint64_t refused = 0, taken = 0;
    for (int round = 0; round < 3000; round++) {
        utterance u = random_utterance(below(KINDS));
        if (u.samples > 9000) { /* to save time */
            forget(&u);
            continue;
        }
        if (below(4) > 0)
            damage(u.payload, u.payload_bytes);
        else
            u.part.piece.size_bytes = u.part.head.size_bytes = below((uint32_t)u.payload_bytes + 1);
        spsh_error found = SPSH_ERROR_INIT, wanted = SPSH_ERROR_INIT;
        const spsh_status want = spsh_pcm_decode_part(&u.part, 0, u.samples, pcm, &wanted);
        const spsh_status rc = spsh_pcm_check_part(&u.part, 0, u.samples, &found);
        CHECK_I64(rc, want);
        if (want != SPSH_OK)
            CHECK_STR(found.message, wanted.message);
        refused += want != SPSH_OK;
        taken += want == SPSH_OK;
        forget(&u);
    }
    CHECK(refused > 100 && taken > 100);
    CHECK_I64(spsh_pcm_check_part(NULL, 0, 0, NULL), SPSH_E_INVALID_ARG);
}

/* Change bytes on the device after the host has checked them. The samples of other utterances, and
 * the gaps between utterances, must not change.
 */
static void test_damage_stays_where_it_is(void)
{
    for (int round = 0; round < 60; round++) {
        batch b;
        const size_t count = 2 + below(4);
        const size_t victim = below((uint32_t)count);
        for (size_t i = 0; i < count; i++) {
            b.utterances[i] = random_utterance(below(KINDS));
            expect(&b.utterances[i]);
        }
        lay_out(&b, count, 1);
        const utterance *u = &b.utterances[victim];
        uint8_t *bytes = b.payloads + u->call.piece_offset;
        if (round % 3 == 0)
            memset(bytes, (int)below(256), u->part.piece.size_bytes);
        for (int i = 0; i < 20; i++)
            damage(bytes, u->part.piece.size_bytes);
        const size_t head = spsh_pcm_head_bytes(u->samples, u->channels);
        if (round % 3 == 1 && u->part.piece.size_bytes > head) { /* widths beyond the maximum */
            bytes[head] = PCM_FORM_PREDICTED;
            for (size_t i = head + 2; i < u->part.piece.size_bytes && i < head + 400; i++)
                bytes[i] = (uint8_t)below(256) | (uint8_t)(round % 2 == 0 ? 0xff : 0);
        }
        bring(&b);
        check_ok(spsh_cuda_pcm_decode(decoder, NULL, &b.call, &err));
        fetch(&b);
        memcpy(b.want + u->call.first_value, b.got + u->call.first_value,
               (size_t)u->call.sample_count * u->channels * sizeof(int16_t));
        CHECK_U64(count_wrong(&b), 0);
        free_batch(&b);
    }
}

/* Damage bytes before the host checks them. The host must reject them, or the device must decode
 * them as the host does. */
static void test_damage_that_is_valid_decodes_alike(void)
{
    uint64_t decoded = 0;
    for (int round = 0; round < 200; round++) {
        batch b;
        utterance *u = &b.utterances[0];
        *u = random_utterance(2 + below(KINDS - 2));
        damage(u->payload + u->payload_bytes / 2, u->payload_bytes - u->payload_bytes / 2);
        if (u->samples > 20000 || spsh_pcm_check_part(&u->part, 0, u->samples, NULL) != SPSH_OK) {
            free(u->payload);
            continue;
        }
        expect(u);
        lay_out(&b, 1, 1);
        bring(&b);
        check_ok(spsh_cuda_pcm_decode(decoder, NULL, &b.call, &err));
        fetch(&b);
        CHECK_U64(count_wrong(&b), 0);
        decoded++;
        free_batch(&b);
    }
    CHECK(decoded > 20);
}

/* ---- limits, arguments */

static spsh_status decode_changed(const batch *b, void (*change)(spsh_cuda_pcm_batch *call))
{
    spsh_cuda_pcm_batch call = b->call;
    change(&call);
    return spsh_cuda_pcm_decode(decoder, NULL, &call, &err);
}

static void no_samples(spsh_cuda_pcm_batch *call)
{
    call->samples = NULL;
}

static void beside(spsh_cuda_pcm_batch *call)
{
    call->samples++;
}

static void bytes_beside(spsh_cuda_pcm_batch *call)
{
    call->payloads++;
}

static void shrink_capacity(spsh_cuda_pcm_batch *call)
{
    call->capacity = 3 * SPSH_PCM_FRAME_SAMPLES - 1;
}

static void fewer_bytes(spsh_cuda_pcm_batch *call)
{
    call->payload_bytes--;
}

static void many(spsh_cuda_pcm_batch *call)
{
    call->count = 3;
}

static void test_arguments(void)
{
    const spsh_cuda_pcm_options small = {
        .struct_size = sizeof(small), .utterance_count_max = 2, .block_count_max = 3};
    const spsh_cuda_pcm_options wrong[] = {
        {.struct_size = sizeof(small),       .device = 99},
        {.struct_size = sizeof(small),                                  .block_count_max = (1U << 24) + 1},
        {.struct_size = 1},
    };
    static int16_t pcm[4 * SPSH_PCM_FRAME_SAMPLES];
    static batch b;
    spsh_cuda_pcm *other = NULL;
    for (size_t i = 0; i < 3; i++)
        CHECK_I64(spsh_cuda_pcm_open(cuda, &wrong[i], &other, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_pcm_open(NULL, NULL, &other, &err), SPSH_E_INVALID_ARG);
    for (size_t i = 0; i < 2; i++)
        b.utterances[i] = utterance_of(pcm, (3 + i) * SPSH_PCM_FRAME_SAMPLES, 1);
    b.utterances[1].call.sample_count = 0;
    for (size_t i = 0; i < 2; i++)
        expect(&b.utterances[i]);
    lay_out(&b, 2, 8);
    bring(&b);
    CHECK_I64(decode_changed(&b, no_samples), SPSH_E_INVALID_ARG);
    CHECK_I64(decode_changed(&b, beside), SPSH_E_INVALID_ARG);
    CHECK_I64(decode_changed(&b, bytes_beside), SPSH_E_INVALID_ARG);
    CHECK_I64(decode_changed(&b, shrink_capacity), SPSH_E_LIMIT);
    b.calls[1].sample_count = 1;
    b.calls[1].first_value = 0;
    CHECK_I64(decode_changed(&b, fewer_bytes), SPSH_E_LIMIT);
    b.calls[1].first_sample = b.utterances[1].samples;
    CHECK_I64(spsh_cuda_pcm_decode(decoder, NULL, &b.call, &err), SPSH_E_INVALID_ARG);
    b.calls[1].sample_count = b.calls[1].first_sample = 0;
    check_ok(spsh_cuda_pcm_open(cuda, &small, &other, &err));
    check_ok(spsh_cuda_pcm_decode(other, NULL, &b.call, &err)); /* three blocks */
    fetch(&b);
    CHECK_U64(count_wrong(&b), 0);
    spsh_cuda_pcm_batch more = b.call;
    many(&more);
    CHECK_I64(spsh_cuda_pcm_decode(other, NULL, &more, &err), SPSH_E_LIMIT);
    b.calls[0] = b.calls[1];
    b.calls[0].sample_count = b.utterances[1].samples; /* four blocks */
    b.call.capacity++;
    CHECK_I64(spsh_cuda_pcm_decode(other, NULL, &b.call, &err), SPSH_E_LIMIT);
    b.call.capacity--;
    b.call.count = 0;
    check_ok(spsh_cuda_pcm_decode(other, NULL, &b.call, &err));
    b.call.count = 2;
    spsh_cuda_pcm_close(other);
    spsh_cuda_pcm_close(NULL);
    free_batch(&b);
}

static void test_blocks_are_counted(void)
{
    CHECK_U64(spsh_cuda_pcm_block_count(0, 0, 3), 0);
    CHECK_U64(spsh_cuda_pcm_block_count(0, 1, 3), 3);
    CHECK_U64(spsh_cuda_pcm_block_count(8191, 2, 1), 2);
    CHECK_U64(spsh_cuda_pcm_block_count(8192, 8192, 2), 2);
    CHECK_U64(spsh_cuda_pcm_block_count(UINT64_MAX, 2, 1), UINT64_MAX);
    CHECK_U64(spsh_cuda_pcm_block_count(5, UINT64_MAX, 1), UINT64_MAX);
}

/* ---- speech */

static batch speech;
static size_t speech_count;

static int add_file(const char *path, const struct stat *file, int kind, struct FTW *walk)
{
    SF_INFO info = {0};
    (void)walk, (void)file;
    if (kind != FTW_F || speech_count == FILES_MAX)
        return 0;
    SNDFILE *source = sf_open(path, SFM_READ, &info);
    if (source == NULL)
        return 0; /* not audio */
    if ((info.format & SF_FORMAT_SUBMASK) == SF_FORMAT_PCM_16 && info.frames > 0) {
        int16_t *pcm = new_buffer((size_t)info.frames * (size_t)info.channels * sizeof(*pcm));
        info.frames = sf_readf_short(source, pcm, info.frames);
        speech.utterances[speech_count] =
            utterance_of(pcm, (uint64_t)info.frames, (uint32_t)info.channels);
        expect(&speech.utterances[speech_count++]);
        free(pcm);
    }
    (void)sf_close(source);
    return 0;
}

static void test_speech(void)
{
    static const char *const folders[] = {"librispeech-351", "ljspeech-3codecs"};
    for (size_t i = 0; i < 2; i++) {
        char path[1024];
        test_data_path(path, sizeof(path), folders[i]);
        speech_count = 0;
        CHECK(nftw(path, add_file, 16, FTW_PHYS) == 0);
        CHECK(speech_count > 0);
        lay_out(&speech, speech_count, 8);
        check_batch(&speech);
        free_batch(&speech);
    }
}

TEST_MAIN(unit_pcm_device)
{
    REQUIRE(argc >= 2);
    const int refused = device_test_open(argv[1], &cuda, &twin);
    if (refused != 0)
        return refused;
    random_state = test_seed(20261122);
    check_ok(spsh_cuda_pcm_open(cuda, NULL, &decoder, &err));
    if (argc == 3) {
        RUN(test_speech);
    } else {
        RUN(test_all_kinds_of_signals_and_ranges);
        RUN(test_many_are_under_way);
        RUN(test_check_is_as_decoding);
        RUN(test_damage_stays_where_it_is);
        RUN(test_damage_that_is_valid_decodes_alike);
        RUN(test_arguments);
        RUN(test_blocks_are_counted);
    }
    spsh_cuda_pcm_close(decoder);
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}
