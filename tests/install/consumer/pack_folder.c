/* pack_folder.c CORPUS DATASET: pack a corpus, and print the results of its rows. */
#include <inttypes.h>
#include <stdio.h>

#include "speechshard/pack.h"

int main(int argc, char **argv)
{
    const char *corpora[1];
    spsh_pack_options options = SPSH_PACK_OPTIONS_INIT;
    spsh_pack_report *report = NULL;
    const spsh_pack_facts *facts;
    spsh_error err = SPSH_ERROR_INIT;

    if (argc != 3)
        return 2;
    corpora[0] = argv[1];
    options.corpora = corpora;
    options.corpus_count = 1;
    options.output = argv[2];
    if (spsh_pack(&options, &report, &err) != SPSH_OK) {
        fprintf(stderr, "%s: %s\n", spsh_status_text(err.status), err.message);
        return 1;
    }
    facts = spsh_pack_report_facts(report);
    printf("%" PRIu64 " rows: %" PRIu64 " packed, %" PRIu64 " rejected\n", facts->rows_in,
           facts->packed, facts->rejected);
    spsh_pack_report_free(report);
    return 0;
}
