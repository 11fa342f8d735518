/* dump_chunks.c: canonical digests and chunks of generated signals, as text.
 *
 *     dump_chunks             what chunks.txt holds
 *     dump_chunks --samples   with the samples, which spsh_chunks.py starts from
 *
 * A line for each signal (name, rate, channels, samples), then `d` full trim mono trim_first
 * trim_count clipped, then `c` first samples hash for each chunk.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/hash.h"
#include "print_signals.h"
#include "segment/canonical.h"
#include "segment/chunker.h"

typedef struct shape {
    const char *name;
    signal_kind kind;
    uint32_t rate_hz, channels, samples;
    uint32_t silent_first, silent_count; /* zeros put into it */
    uint32_t shift;                      /* 16: 16 bits, left-justified */
} shape;

enum { SAMPLES_MAX = 64000, VALUES_MAX = 100000 };

static const shape shapes[] = {
    {"speech",  SIGNAL_SPEECH,  16000, 1, 64000, 0,     0,     16},
    {"speech",  SIGNAL_SPEECH,  16000, 1, 64000, 0,     1234,  8 },
    {"speech",  SIGNAL_SPEECH,  8000,  2, 20000, 15000, 5000,  16},
    {"dual",    SIGNAL_SPEECH,  22050, 2, 50000, 0,     0,     16},
    {"noise",   SIGNAL_NOISE,   8000,  3, 30001, 9000,  12000, 16},
    {"hiss",    SIGNAL_HISS,    11025, 1, 40000, 0,     0,     16},
    {"clipped", SIGNAL_CLIPPED, 16000, 2, 30000, 0,     0,     16},
    {"tone",    SIGNAL_TONE,    16000, 1, 40000, 0,     0,     16},
    {"silence", SIGNAL_SILENCE, 16000, 1, 20000, 0,     0,     16},
    {"short",   SIGNAL_SPEECH,  48000, 1, 3000,  0,     0,     16},
};

static void make(const shape *s, uint64_t seed, int32_t *pcm, int16_t *one)
{
    for (uint32_t c = 0; c < s->channels; c++) {
        make_signal(s->kind, s->rate_hz, strcmp(s->name, "dual") == 0 ? seed : seed + c, one,
                    s->samples);
        for (uint32_t i = 0; i < s->samples; i++)
            pcm[i * s->channels + c] = one[i] * (INT32_C(1) << s->shift);
    }
    memset(pcm + (size_t)s->silent_first * s->channels, 0,
           (size_t)s->silent_count * s->channels * sizeof(*pcm));
}

static void print_digests(const shape *s, const int32_t *pcm, spsh__canonical *canonical)
{
    spsh__digests digests;
    char full[33], trim[33], mono[33];
    spsh__canonical_begin(canonical, s->rate_hz, s->channels);
    spsh__canonical_push(canonical, pcm, s->samples);
    spsh__canonical_finish(canonical, &digests);
    spsh__hex128(digests.full, full);
    spsh__hex128(digests.trim, trim);
    spsh__hex128(digests.mono, mono);
    printf("d %s %s %s %" PRIu64 " %" PRIu64 " %" PRIu32 "\n", full, trim, mono, digests.trim_first,
           digests.trim_count, digests.clipped_count);
}

static spsh_status print_chunks(const shape *s, const int32_t *pcm, spsh__chunker *chunker,
                                spsh_error *err)
{
    const spsh__chunk *chunks = NULL;
    size_t count = 0;
    spsh_status rc = spsh__chunker_begin(chunker, s->rate_hz, s->channels, err);
    if (rc == SPSH_OK)
        rc = spsh__chunker_push(chunker, pcm, s->samples, err);
    if (rc == SPSH_OK)
        rc = spsh__chunker_finish(chunker, &chunks, &count, err);
    for (size_t i = 0; rc == SPSH_OK && i < count; i++)
        printf("c %" PRIu64 " %" PRIu32 " %016" PRIx64 "\n", chunks[i].first_sample,
               chunks[i].samples, chunks[i].hash);
    return rc;
}

int main(int argc, char **argv)
{
    static int16_t one[SAMPLES_MAX];
    static int32_t pcm[VALUES_MAX];
    const int with_samples = argc > 1 && strcmp(argv[1], "--samples") == 0;
    spsh_error err = SPSH_ERROR_INIT;
    spsh__canonical *canonical = NULL;
    spsh__chunker *chunker = NULL;
    spsh_status rc = spsh__canonical_new(&canonical, &err);
    if (rc == SPSH_OK)
        rc = spsh__chunker_new(&chunker, &err);
    for (size_t i = 0; rc == SPSH_OK && i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const shape *s = &shapes[i];
        const size_t values = (size_t)s->samples * s->channels;
        make(s, 10 * i + 1, pcm, one);
        printf("signal %s %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", s->name, s->rate_hz, s->channels,
               s->samples);
        for (size_t k = 0; with_samples && k < values; k++)
            printf("%" PRId32 "%c", pcm[k], k + 1 == values ? '\n' : ' ');
        print_digests(s, pcm, canonical);
        rc = print_chunks(s, pcm, chunker, &err);
    }
    spsh__canonical_free(canonical);
    spsh__chunker_free(chunker);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    return rc == SPSH_OK ? 0 : 1;
}
