/* first_batch.c DATASET: go through one epoch of decoded batches. */
#include <inttypes.h>
#include <stdio.h>

#include "speechshard/loader.h"

int main(int argc, char **argv)
{
    spsh_dataset *dataset = NULL;
    spsh_loader *loader = NULL;
    const spsh_batch *batch = NULL;
    spsh_plan_options plan = SPSH_PLAN_OPTIONS_INIT;
    spsh_loader_options options = SPSH_LOADER_OPTIONS_INIT;
    spsh_status rc;
    spsh_error err = SPSH_ERROR_INIT;

    plan.seed = 1; /* the order follows from it, on any number of machines */
    plan.batch_seconds_max = 600;
    plan.sample_rate_hz = 16000;
    options.plan = &plan;
    rc = spsh_dataset_open(argc > 1 ? argv[1] : ".", NULL, &dataset, &err);
    if (rc == SPSH_OK)
        rc = spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &options, &loader, &err);
    while (rc == SPSH_OK) {
        rc = spsh_loader_next(loader, &batch, &err);
        if (rc != SPSH_OK)
            break; /* SPSH_E_END: the epoch has ended, and the next call begins another */
        for (uint32_t n = 0; n < batch->utterance_count; n++) {
            const spsh_batch_utterance *u = &batch->utterances[n];
            const int16_t *pcm = batch->i16 + u->offset; /* u->samples of them */
            printf("%.*s: %" PRIu64 " samples, the first %d\n", (int)u->id.size_bytes,
                   (const char *)u->id.data, u->samples, u->samples > 0 ? pcm[0] : 0);
        }
        spsh_loader_release(loader, batch);
    }
    if (rc != SPSH_E_END)
        fprintf(stderr, "%s: %s\n", spsh_status_text(rc), err.message);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
    return rc == SPSH_E_END ? 0 : 1;
}
