/* first_batches.c DATASET [BATCHES]: load the first batches of an epoch, as a training program
 * does, and print their contents. tools/quickstart.sh runs this program.
 *
 * A batch is one block of 16-bit samples. Utterance n of the batch has utterances[n].samples of
 * them, from utterances[n].offset on. A training program copies them to its model instead of
 * printing how loud they are.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "speechshard/loader.h"

enum { UTTERANCES_SHOWN = 3 };

static int loudest(const int16_t *pcm, uint64_t samples)
{
    int peak = 0;
    for (uint64_t i = 0; i < samples; i++)
        peak = abs(pcm[i]) > peak ? abs(pcm[i]) : peak;
    return peak;
}

static void print_batch(unsigned number, const spsh_batch *batch)
{
    uint64_t samples = 0;
    for (uint32_t n = 0; n < batch->utterance_count; n++)
        samples += batch->utterances[n].samples;
    printf("batch %u: %" PRIu32 " utterances, %" PRIu64 " samples of 16 bits\n", number,
           batch->utterance_count, samples);
    for (uint32_t n = 0; n < batch->utterance_count && n < UTTERANCES_SHOWN; n++) {
        const spsh_batch_utterance *u = &batch->utterances[n];
        printf("  %-32.*s %6" PRIu64 " samples, the loudest is %5d\n", (int)u->id.size_bytes,
               (const char *)u->id.data, u->samples, loudest(batch->i16 + u->offset, u->samples));
    }
    if (batch->utterance_count > UTTERANCES_SHOWN)
        printf("  ...\n");
}

int main(int argc, char **argv)
{
    spsh_dataset *dataset = NULL;
    spsh_loader *loader = NULL;
    const spsh_batch *batch = NULL;
    spsh_plan_options plan = SPSH_PLAN_OPTIONS_INIT;
    spsh_loader_options options = SPSH_LOADER_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    const unsigned wanted = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 2;
    if (argc < 2) {
        fprintf(stderr, "usage: first_batches DATASET [BATCHES]\n");
        return 2;
    }
    plan.seed = 1;                /* the order follows from it, on any machine */
    plan.batch_seconds_max = 120; /* speech in one batch, at most */
    options.plan = &plan;
    spsh_status rc = spsh_dataset_open(argv[1], NULL, &dataset, &err);
    if (rc == SPSH_OK)
        rc = spsh_loader_open((const spsh_dataset *const *)&dataset, 1, &options, &loader, &err);
    for (unsigned number = 1; rc == SPSH_OK && number <= wanted; number++) {
        rc = spsh_loader_next(loader, &batch, &err);
        if (rc != SPSH_OK)
            break;
        print_batch(number, batch);
        spsh_loader_release(loader, batch);
    }
    if (rc == SPSH_E_END) /* a small dataset has fewer batches */
        rc = SPSH_OK;
    if (rc != SPSH_OK)
        fprintf(stderr, "first_batches: %s\n", err.message);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
    return rc == SPSH_OK ? 0 : 1;
}
