/* bench_chunks.c: canonical digests and content-defined chunks: samples per second on one core.
 *
 *     bench_chunks > results/chunks.json
 *
 * The input is ten minutes of 16 kHz noise, as left-justified 32-bit samples in pieces of 4,096,
 * like the extractor's. In each round, the ways below run in turn. Noise costs as much as speech:
 * every sample is hashed, and no value is looked up.
 *
 *     memcpy      to another buffer in the same pieces: the limit of memory
 *     canonical   spsh__canonical_push: three hashes, clipping, zeros
 *     canonical_stereo   the same values as two channels: per channel value
 *     chunker     spsh__chunker_push
 */
#include <stdio.h>

#include "bench_kit.h"
#include "segment/canonical.h"
#include "segment/chunker.h"

enum { ROUNDS = 9, RATE = 16000, COUNT = 600 * RATE, PIECE = 4096, WAYS = 4 };

static int32_t *pcm, *copy;
static spsh__canonical *canonical;
static spsh__chunker *chunker;
static uint64_t chunk_count;

static void run_memcpy(void)
{
    for (size_t at = 0; at < COUNT; at += PIECE) {
        const size_t some = COUNT - at < PIECE ? COUNT - at : PIECE;
        memcpy(copy + at, pcm + at, some * sizeof(*pcm));
        __asm__ volatile("" ::: "memory");
    }
}

static void run_digests(uint32_t channels)
{
    spsh__digests digests;
    spsh__canonical_begin(canonical, RATE, channels);
    for (size_t at = 0; at < COUNT; at += PIECE)
        spsh__canonical_push(canonical, pcm + at,
                             (COUNT - at < PIECE ? COUNT - at : PIECE) / channels);
    spsh__canonical_finish(canonical, &digests);
}

static void run_canonical(void)
{
    run_digests(1);
}

static void run_canonical_stereo(void)
{
    run_digests(2);
}

static void run_chunker(void)
{
    const spsh__chunk *chunks = NULL;
    size_t count = 0;
    check_ok(spsh__chunker_begin(chunker, RATE, 1, &failure));
    for (size_t at = 0; at < COUNT; at += PIECE)
        check_ok(spsh__chunker_push(chunker, pcm + at, COUNT - at < PIECE ? COUNT - at : PIECE,
                                    &failure));
    check_ok(spsh__chunker_finish(chunker, &chunks, &count, &failure));
    chunk_count = count;
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run_fn)(void);
    } ways[WAYS] = {
        {"memcpy",           run_memcpy          },
        {"canonical",        run_canonical       },
        {"canonical_stereo", run_canonical_stereo},
        {"chunker",          run_chunker         },
    };
    static double rates[WAYS][ROUNDS];
    uint64_t random = 1;
    pcm = malloc(COUNT * sizeof(*pcm));
    copy = calloc(COUNT, sizeof(*copy));
    must(pcm != NULL && copy != NULL, "memory");
    for (size_t i = 0; i < COUNT; i++)
        pcm[i] = (int32_t)(next_random(&random) >> 48) * 65536;
    check_ok(spsh__canonical_new(&canonical, &failure));
    check_ok(spsh__chunker_new(&chunker, &failure));
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t way = 0; way < WAYS; way++) {
            const double start = cpu_seconds();
            for (int repeat = 0; repeat < 2; repeat++)
                ways[way].run_fn();
            rates[way][round] = 2.0 * COUNT / (cpu_seconds() - start) / 1e6;
        }
    printf("{\n  \"unit\": \"million samples a second, one thread\",\n");
    for (size_t way = 0; way < WAYS; way++)
        print_times(ways[way].name, rates[way], ROUNDS, ",");
    printf("  \"chunks_a_second_of_audio\": %.3f\n}\n",
           (double)chunk_count / (COUNT / (double)RATE));
    spsh__canonical_free(canonical);
    spsh__chunker_free(chunker);
    free(pcm);
    free(copy);
    return 0;
}
