/* first_text.c RUN DATASET: print the transcript of the first utterance by a trained model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "speechshard/train.h"

int main(int argc, char **argv)
{
    spsh_recogniser *recogniser = NULL;
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_row row;
    int16_t *pcm = NULL;
    char *text = NULL;
    uint64_t samples = 0;
    spsh_recogniser_options options = SPSH_RECOGNISER_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;

    options.checkpoint = argc > 1 ? argv[1] : "run"; /* the newest good checkpoint of the run */
    if (spsh_recogniser_open(&options, &recogniser, &err) != SPSH_OK ||
        spsh_dataset_open(argc > 2 ? argv[2] : ".", NULL, &dataset, &err) != SPSH_OK ||
        spsh_reader_open(dataset, &reader, &err) != SPSH_OK ||
        spsh_dataset_rows(dataset, 0, 1, &row, &err) != SPSH_OK)
        goto out;
    pcm = (int16_t *)malloc(row.samples * row.channels * sizeof(*pcm)); /* this corpus is mono */
    if (pcm != NULL &&
        spsh_reader_read_i16(reader, 0, 0, pcm, row.samples, &samples, &err) == SPSH_OK &&
        spsh_recogniser_transcribe(recogniser, pcm, samples, row.sample_rate_hz, &text, &err) ==
            SPSH_OK)
        printf("%" PRIu64 " samples: %s\n", samples, text);
out:
    if (err.status != SPSH_OK)
        fprintf(stderr, "%s: %s\n", spsh_status_text(err.status), err.message);
    free(text);
    free(pcm);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
    spsh_recogniser_close(recogniser);
    return err.status == SPSH_OK ? 0 : 1;
}
