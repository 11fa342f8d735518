/* bench_gpu_pcm.c PLUGIN: payloads of the codec pcm decoded on a GPU, in bytes of PCM per second,
 * compared with the bandwidth of the device's memory.
 *
 *     bench_gpu_pcm build/release/libspeechshard-cuda.so
 *
 * A batch is a number of utterances of 12 s at 16 kHz. `speech` is harmonics that come and go, with
 * noise, and payloads of about half the PCM. `noise` is only noise, which is stored raw. Payloads
 * are in the device's memory before the clock starts; samples stay there. A batch with less than
 * TURN_BYTES of payload and PCM gets several copies in memory (`places`), which together exceed
 * that size. The copies are decoded in turns, so that no cache still has the inputs. BATCHES are
 * enqueued on one stream without waiting; the time between two events around them, the median of
 * ROUNDS rounds after one that does not count. `call_us`: host time for its table of blocks.
 * `of_bandwidth`: the minimum to move, payload in and PCM out, per second, relative to the
 * bandwidth that clock and bus width give. `check_gb_per_s` and `host_gb_per_s`: one host thread
 * that checks payloads for the device, and one that decodes. Before the clock starts, all samples
 * are compared with the CPU's.
 *
 * Prints one JSON object. Without a device: {"measured": false, "reason": ...}, exit status 0.
 */
#include <math.h>

#include "bench_device.h"
#include "speechshard/pcm_cuda.h"

enum { SAMPLES = 12 * 16000, DIFFERENT = 16, BATCHES = 50, ROUNDS = 5, PLACES_MAX = 16 };

#define TURN_BYTES 256e6

typedef struct bench_case {
    const char *name;
    uint32_t utterances;
    bool is_noise;
} bench_case;

static const bench_case cases[] = {
    {"speech", 64,  false},
    {"speech", 512, false},
    {"noise",  64,  true },
    {"noise",  512, true }
};

/* Payloads of DIFFERENT utterances, each used as often as the batch needs. */
typedef struct material {
    int16_t *pcm;
    uint8_t *payloads; /* one after the other */
    spsh_pcm_part parts[DIFFERENT];
    size_t offsets[DIFFERENT], payload_bytes;
} material;

static void fill(int16_t *pcm, uint32_t number, bool is_noise)
{
    uint64_t state = number + 1;
    const double pitch = (90 + 13.0 * number) * 6.283185307179586 / 16000;
    for (size_t i = 0; i < SAMPLES; i++) {
        const double noise = (double)(next_random(&state) % 20001) - 10000;
        const double t = (double)i;
        const double level = 0.5 + 0.5 * sin(t * 0.0009 + number);
        double value = noise * 0.008;
        for (int k = 1; k <= 12; k++)
            value += 2600.0 / k * level * sin(t * pitch * k + k);
        pcm[i] = (int16_t)(is_noise ? noise * 3 : value);
    }
}

static material make(bool is_noise)
{
    material m = {.pcm = calloc((size_t)DIFFERENT * SAMPLES, sizeof(int16_t))};
    const size_t bound = spsh_pcm_bound(SAMPLES, 1);
    m.payloads = malloc(DIFFERENT * bound);
    must(m.pcm != NULL && m.payloads != NULL, "memory");
    for (uint32_t i = 0; i < DIFFERENT; i++) {
        int16_t *pcm = m.pcm + (size_t)i * SAMPLES;
        uint8_t *payload = m.payloads + m.payload_bytes;
        size_t bytes = 0;
        fill(pcm, i, is_noise);
        check_ok(spsh_pcm_encode(pcm, SAMPLES, 1, payload, bound, &bytes, &failure));
        m.parts[i] = (spsh_pcm_part){
            .head = {payload, bytes},
              .piece = {payload, bytes}
        };
        m.offsets[i] = m.payload_bytes;
        m.payload_bytes += bytes;
    }
    return m;
}

/* Bytes of PCM per second, on one thread of the host. */
static double host_speed(const material *m, bool is_check)
{
    int16_t *pcm = malloc(SAMPLES * sizeof(*pcm));
    double best = 0;
    must(pcm != NULL, "memory");
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now_ms();
        for (int i = 0; i < DIFFERENT; i++) {
            const spsh_pcm_part *part = &m->parts[i];
            check_ok(is_check ? spsh_pcm_check_part(part, 0, SAMPLES, &failure)
                              : spsh_pcm_decode_part(part, 0, SAMPLES, pcm, &failure));
        }
        const double speed = 2.0 * DIFFERENT * SAMPLES / ((now_ms() - start) * 1e-3);
        best = speed > best ? speed : best;
    }
    free(pcm);
    return best;
}

/* The same batch at several positions in device memory, with one list in host memory. */
typedef struct turns {
    spsh_cuda_pcm_utterance *list;
    uint32_t places;
    uint8_t *payloads[PLACES_MAX];
    spsh_cuda_pcm_batch batches[PLACES_MAX];
} turns;

static void bring(turns *t, uint32_t place, const material *m, uint32_t utterances)
{
    const uint32_t copies = utterances / DIFFERENT;
    uint8_t *payloads = device_memory(copies * m->payload_bytes);
    for (uint32_t i = 0; i < copies; i++)
        check_ok(spsh_cuda_copy(cuda, payloads + i * m->payload_bytes, m->payloads,
                                m->payload_bytes, NULL, &failure));
    t->payloads[place] = payloads;
    t->batches[place] =
        (spsh_cuda_pcm_batch){.utterances = t->list,
                              .count = utterances,
                              .payloads = payloads,
                              .payload_bytes = copies * m->payload_bytes,
                              .samples = device_memory((size_t)utterances * SAMPLES * 2),
                              .capacity = (size_t)utterances * SAMPLES};
}

static turns open_turns(const material *m, uint32_t utterances)
{
    turns t = {.list = calloc(utterances, sizeof(*t.list))};
    must(t.list != NULL, "memory");
    for (uint32_t i = 0; i < utterances; i++) {
        const uint32_t which = i % DIFFERENT;
        t.list[i] = (spsh_cuda_pcm_utterance){
            .part = &m->parts[which],
            .piece_offset = i / DIFFERENT * m->payload_bytes + m->offsets[which],
            .sample_count = SAMPLES,
            .first_value = (uint64_t)i * SAMPLES,
        };
    }
    const double bytes =
        (double)utterances * (2.0 * SAMPLES + (double)m->payload_bytes / DIFFERENT);
    t.places = 1 + (uint32_t)(TURN_BYTES / bytes);
    must(t.places <= PLACES_MAX, "places");
    for (uint32_t place = 0; place < t.places; place++)
        bring(&t, place, m, utterances);
    return t;
}

static void close_turns(turns *t)
{
    for (uint32_t place = 0; place < t->places; place++) {
        spsh_cuda_free(cuda, t->payloads[place]);
        spsh_cuda_free(cuda, t->batches[place].samples);
    }
    free(t->list);
}

static void compare(spsh_cuda_pcm *decoder, const spsh_cuda_pcm_batch *batch, const material *m)
{
    const size_t part = (size_t)DIFFERENT * SAMPLES;
    const size_t bytes = part * sizeof(int16_t);
    int16_t *got = malloc(bytes);
    must(got != NULL, "memory");
    check_ok(spsh_cuda_pcm_decode(decoder, NULL, batch, &failure));
    for (size_t at = 0; at < batch->capacity; at += part) {
        check_ok(spsh_cuda_copy(cuda, got, batch->samples + at, bytes, NULL, &failure));
        check_ok(spsh_cuda_synchronize(cuda, NULL, &failure));
        must(memcmp(got, m->pcm, bytes) == 0, "the device's samples differ");
    }
    free(got);
}

typedef struct times {
    double batch_s, call_us;
} times;

static times measure(spsh_cuda_pcm *decoder, const turns *t)
{
    double seconds[ROUNDS], calls[ROUNDS];
    void *events[2] = {NULL, NULL}, *stream = NULL;
    check_ok(spsh_cuda_stream_open(cuda, 0, 0, &stream, &failure));
    for (int i = 0; i < 2; i++)
        check_ok(spsh_cuda_event_open(cuda, 0, 1, &events[i], &failure));
    for (int round = -1; round < ROUNDS; round++) {
        float ms = 0;
        double first_calls = 0;
        check_ok(spsh_cuda_event_record(cuda, events[0], stream, &failure));
        for (int i = 0; i < BATCHES; i++) {
            const double start = now_ms();
            check_ok(spsh_cuda_pcm_decode(decoder, stream, &t->batches[(uint32_t)i % t->places],
                                          &failure));
            first_calls += i < 4 ? now_ms() - start : 0; /* later ones wait for a place */
        }
        check_ok(spsh_cuda_event_record(cuda, events[1], stream, &failure));
        check_ok(spsh_cuda_event_synchronize(cuda, events[1], &failure));
        check_ok(spsh_cuda_event_ms(cuda, events[0], events[1], &ms, &failure));
        if (round >= 0) {
            seconds[round] = (double)ms * 1e-3 / BATCHES;
            calls[round] = first_calls * 1e3 / 4;
        }
    }
    for (int i = 0; i < 2; i++)
        spsh_cuda_event_close(cuda, events[i]);
    spsh_cuda_stream_close(cuda, stream);
    return (times){figure_of(seconds, ROUNDS).median, figure_of(calls, ROUNDS).median};
}

static void run_case(const bench_case *one, double bandwidth)
{
    const spsh_cuda_pcm_options options = {.struct_size = sizeof(options),
                                           .block_count_max = one->utterances * 24};
    spsh_cuda_pcm *decoder = NULL;
    material m = make(one->is_noise);
    check_ok(spsh_cuda_pcm_open(cuda, &options, &decoder, &failure));
    turns in = open_turns(&m, one->utterances);
    for (uint32_t place = 0; place < in.places; place++)
        compare(decoder, &in.batches[place], &m);
    const times t = measure(decoder, &in);
    const spsh_cuda_pcm_batch batch = in.batches[0];
    const double pcm_bytes = (double)batch.capacity * sizeof(int16_t);
    const double bytes = pcm_bytes + (double)batch.payload_bytes;
    printf("%s\n    {\"signal\": \"%s\", \"utterances\": %u, \"places\": %u, \"payload_of_pcm\": "
           "%.3f, "
           "\"batch_us\": %.1f, \"call_us\": %.1f, \"pcm_gb_per_s\": %.1f, "
           "\"of_bandwidth\": %.3f, \"hours_per_s\": %.0f, \"check_gb_per_s\": %.2f, "
           "\"host_gb_per_s\": %.2f}",
           one == cases ? "" : ",", one->name, one->utterances, in.places,
           (double)batch.payload_bytes / pcm_bytes, t.batch_s * 1e6, t.call_us,
           pcm_bytes / t.batch_s * 1e-9, bandwidth > 0 ? bytes / t.batch_s / bandwidth : 0,
           (double)batch.capacity / 16000 / 3600 / t.batch_s, host_speed(&m, true) * 1e-9,
           host_speed(&m, false) * 1e-9);
    spsh_cuda_pcm_close(decoder);
    close_turns(&in);
    free(m.payloads);
    free(m.pcm);
}

int main(int argc, char **argv)
{
    spsh_cuda_device device = SPSH_CUDA_DEVICE_INIT;
    must(argc == 2, "usage: bench_gpu_pcm PLUGIN");
    open_device(argv[1], &device);
    const double bandwidth = (double)device.bandwidth_bytes;
    printf("{\n  \"measured\": true, \"device\": \"%s\", \"bandwidth_gb_per_s\": %.0f,\n"
           "  \"utterance\": \"%d s of 16 kHz\",\n  \"results\": [",
           device.name, bandwidth * 1e-9, SAMPLES / 16000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        run_case(&cases[i], bandwidth);
    printf("\n  ]\n}\n");
    spsh_cuda_close(cuda);
    return 0;
}
