/* metrics.h: what a run tells: a JSON line a step, a live line, TensorBoard events, and the
 * report's page. */
#ifndef SPSH_TRAIN_METRICS_H
#define SPSH_TRAIN_METRICS_H

#include "speechshard/io.h"

#define SPSH__METRIC_DOMAINS_MAX 64

typedef struct spsh__step_facts {
    uint64_t step, epoch, samples, seen_seconds; /* since the run began */
    double loss;                                 /* mean per utterance that counted */
    double gradient_norm, rate;
    double step_s, wait_s, compute_s, exchange_s;
    double audio_s, padding; /* share of the batch */
    uint32_t utterances, infeasible, without_text, skipped_steps;
    uint32_t domain_count;
    struct {
        const char *name;
        double loss;
        uint64_t utterances;
    } domains[SPSH__METRIC_DOMAINS_MAX];
} spsh__step_facts;

typedef struct spsh__evaluation_facts {
    uint64_t step, samples;
    const char *set; /* "dev.spsh:test" */
    double loss, wer, cer, cer_letters, seconds;
    uint64_t utterances, words;
} spsh__evaluation_facts;

typedef struct spsh__metrics spsh__metrics;
/* RUN/metrics.jsonl, appended to (lines beyond `samples` of a resume are cut first),
 * RUN/events.out.tfevents.* */
spsh_status spsh__metrics_open(const char *run, uint64_t samples, const spsh_io *io,
                               spsh__metrics **ret, spsh_error *err);
spsh_status spsh__metrics_step(spsh__metrics *m, const spsh__step_facts *facts, spsh_error *err);
spsh_status spsh__metrics_evaluation(spsh__metrics *m, const spsh__evaluation_facts *facts,
                                     spsh_error *err);
void spsh__metrics_close(spsh__metrics *m);

/* A self-contained page of curves, rates, domains, examples, restarts from RUN's files. */
spsh_status spsh__report_write(const char *run, const char *path, const spsh_io *io,
                               spsh_error *err);
#endif
