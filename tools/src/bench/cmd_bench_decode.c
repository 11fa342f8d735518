/* cmd_bench_decode.c: measure only decoding: the limit of the processors.
 *
 * Each thread decodes one record of the sample after the other into its own buffer, as the
 * loader's threads do. Nothing is read, checked, or batched.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_bench_parts.h"
#include "speechshard/cores.h"
#include "speechshard/inside.h"
#include "speechshard/pcm.h"

enum { MARGIN_SAMPLES = 64 };
#define VALUE_BYTES sizeof(int32_t) /* size of the larger sample formats */

typedef struct worker worker;

typedef struct work {
    const spsh__bench_sample *sample;
    worker *workers;
    uint32_t rate_hz; /* to resample to; 0: none */
    bool as_float;
    size_t buffer_bytes;
    double end_wall;
    atomic_size_t next;
    atomic_bool failed;
} work;

struct worker {
    work *work;
    void *pcm, *scratch; /* buffer_bytes each */
    spsh_decoder *decoder;
    spsh_memory_source memory; /* source that the decoder reads */
    uint64_t utterances, microseconds, payload_bytes;
    spsh_error err;
};

static spsh_status decode_pcm(worker *w, const spsh__bench_record *r)
{
    const bool as_float = w->work->as_float;
    int16_t *samples = (int16_t *)(as_float ? w->scratch : w->pcm);
    float *values = (float *)w->pcm;
    spsh_status rc = spsh_pcm_decode(r->payload.data, r->payload.size_bytes, r->first_sample,
                                     r->samples, samples, &w->err);
    for (uint64_t i = 0; as_float && i < r->samples * r->channels; i++)
        values[i] = (float)samples[i] / 32768.0F;
    return rc;
}

/* Decode a record with the thread's decoder, which is reused for all records, as in the loader. */
static spsh_status decode_any(worker *w, const spsh__bench_record *r)
{
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    uint64_t samples = 0;
    opt.sample_rate_hz = r->sample_rate_hz;
    opt.skip_md5 = true;
    w->memory.data = r->payload;
    const spsh_audio_source source = spsh_audio_source_memory(&w->memory);
    spsh_status rc = w->decoder == NULL
                         ? spsh_decoder_open(&source, r->codec, &opt, &w->decoder, &w->err)
                         : spsh_decoder_reopen(w->decoder, &source, r->codec, &opt, &w->err);
    if (rc == SPSH_OK && r->first_sample != 0)
        rc = spsh_decoder_seek(w->decoder, r->first_sample, &w->err);
    if (rc == SPSH_OK)
        rc = w->work->as_float
                 ? spsh_decoder_read_f32(w->decoder, w->pcm, r->samples, &samples, &w->err)
                 : spsh_decoder_read_i16(w->decoder, w->pcm, r->samples, &samples, &w->err);
    return rc;
}

static spsh_status decode_one(worker *w, const spsh__bench_record *r)
{
    const work *all = w->work;
    const uint64_t capacity = all->buffer_bytes / (VALUE_BYTES * r->channels);
    uint64_t samples = 0;
    spsh_status rc = r->codec == SPSH_CODEC_PCM ? decode_pcm(w, r) : decode_any(w, r);
    if (rc != SPSH_OK || all->rate_hz == 0 || all->rate_hz == r->sample_rate_hz)
        return rc;
    return all->as_float ? spsh_resample_f32(w->pcm, r->samples, r->channels, r->sample_rate_hz,
                                             all->rate_hz, w->scratch, capacity, &samples, &w->err)
                         : spsh_resample_i16(w->pcm, r->samples, r->channels, r->sample_rate_hz,
                                             all->rate_hz, w->scratch, capacity, &samples, &w->err);
}

/* Decode records until the time is up. Each thread runs exactly one such piece. */
static spsh_status run(void *user, uint32_t number, uint64_t piece, spsh_error *err)
{
    work *all = (work *)user;
    worker *w = &all->workers[number];
    spsh_status rc = SPSH_OK;
    (void)piece;
    while (rc == SPSH_OK && spsh__cli_now_s() < all->end_wall && !atomic_load(&all->failed)) {
        const size_t next = atomic_fetch_add(&all->next, 1) % all->sample->loaded;
        const spsh__bench_record *r = &all->sample->records[next];
        rc = decode_one(w, r);
        if (rc != SPSH_OK)
            break;
        w->utterances++;
        w->microseconds += r->microseconds;
        w->payload_bytes += r->payload.size_bytes;
    }
    if (rc != SPSH_OK)
        atomic_store(&all->failed, true);
    return spsh__fail_again(rc, &w->err, err);
}

/* Return the size of the largest utterance, before or after resampling, in the larger sample
 * format. */
static size_t buffer_bytes(const spsh__bench_sample *sample, uint32_t rate_hz)
{
    size_t bytes = VALUE_BYTES;
    for (size_t i = 0; i < sample->loaded; i++) {
        const spsh__bench_record *r = &sample->records[i];
        uint64_t samples = r->samples;
        if (rate_hz > r->sample_rate_hz)
            samples = samples * rate_hz / r->sample_rate_hz;
        const size_t need = (size_t)(samples + MARGIN_SAMPLES) * r->channels * VALUE_BYTES;
        bytes = need > bytes ? need : bytes;
    }
    return bytes;
}

static int start(work *all, uint32_t threads)
{
    spsh_error err = SPSH_ERROR_INIT;
    for (uint32_t i = 0; i < threads; i++) {
        worker *w = &all->workers[i];
        w->work = all;
        w->pcm = malloc(all->buffer_bytes);
        w->scratch = malloc(all->buffer_bytes);
        if (w->pcm == NULL || w->scratch == NULL)
            return spsh__cli_fail_memory();
    }
    return spsh_cores_run(threads, threads, run, all, &err) == SPSH_OK
               ? SPSH_EXIT_DONE
               : spsh__cli_fail("decoding", &err);
}

int spsh__bench_decode(const spsh__bench_sample *sample, const spsh__plan_words *words,
                       uint32_t threads, double seconds, spsh__bench_decoded *ret_decoded)
{
    spsh__bench_decoded total = {.threads = threads};
    work all = {.sample = sample,
                .rate_hz = (uint32_t)words->sample_rate_hz,
                .as_float = words->output == SPSH_OUTPUT_FLOAT32,
                .buffer_bytes = buffer_bytes(sample, (uint32_t)words->sample_rate_hz)};
    worker *workers = (worker *)calloc(threads, sizeof(*workers));
    if (workers == NULL)
        return spsh__cli_fail_memory();
    all.workers = workers;
    const spsh__bench_clock begin = spsh__bench_now();
    all.end_wall = begin.wall + seconds;
    const int rc = sample->loaded == 0 ? SPSH_EXIT_DONE : start(&all, threads);
    const spsh__bench_clock end = spsh__bench_now();
    for (uint32_t i = 0; i < threads; i++) {
        total.utterances += workers[i].utterances;
        total.microseconds += workers[i].microseconds;
        total.payload_bytes += workers[i].payload_bytes;
        free(workers[i].pcm);
        free(workers[i].scratch);
        spsh_decoder_free(workers[i].decoder);
    }
    free(workers);
    total.seconds = end.wall - begin.wall;
    total.cpu_seconds = end.cpu - begin.cpu;
    if (rc == SPSH_EXIT_DONE)
        *ret_decoded = total;
    return rc;
}
