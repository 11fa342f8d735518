/* first_utterance.c DATASET: print the first utterance of a dataset, and decode it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "speechshard/dataset.h"

int main(int argc, char **argv)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL; /* one per thread */
    spsh_utterance utterance;
    spsh_row row;
    int16_t *pcm = NULL;
    uint64_t samples = 0;
    spsh_error err = SPSH_ERROR_INIT;

    if (spsh_dataset_open(argc > 1 ? argv[1] : ".", NULL, &dataset, &err) != SPSH_OK ||
        spsh_reader_open(dataset, &reader, &err) != SPSH_OK ||
        spsh_dataset_rows(dataset, 0, 1, &row, &err) != SPSH_OK ||
        spsh_reader_metadata(reader, 0, &utterance, &err) != SPSH_OK)
        goto out;
    printf("%.*s: %.*s\n", (int)utterance.id.size_bytes, (const char *)utterance.id.data,
           (int)utterance.text.size_bytes, (const char *)utterance.text.data);
    pcm = (int16_t *)malloc(row.samples * row.channels * sizeof(*pcm));
    if (pcm != NULL &&
        spsh_reader_read_i16(reader, 0, 0, pcm, row.samples, &samples, &err) == SPSH_OK)
        printf("%" PRIu64 " samples at %" PRIu32 " Hz\n", samples, row.sample_rate_hz);
out:
    if (err.status != SPSH_OK)
        fprintf(stderr, "%s: %s\n", spsh_status_text(err.status), err.message);
    free(pcm);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
    return err.status == SPSH_OK ? 0 : 1;
}
