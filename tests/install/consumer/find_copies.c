/* find_copies.c DATASET: finds the copies in a dataset and prints the kept ones first. */
#include <inttypes.h>
#include <stdio.h>

#include "speechshard/dedup.h"

static void print_member(const spsh_dedupe_result *result, const spsh_copy_member *member)
{
    const spsh_dataset *dataset = spsh_dedupe_result_dataset(result, member->dataset);
    spsh_reader *reader = NULL;
    spsh_utterance utterance;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_reader_open(dataset, &reader, &err) == SPSH_OK &&
        spsh_reader_metadata(reader, member->position, &utterance, &err) == SPSH_OK)
        printf("  %s %.*s (%s)\n", spsh_copy_decision_text(member->decision),
               (int)utterance.id.size_bytes, (const char *)utterance.id.data, member->reason);
    else
        fprintf(stderr, "%s: %s\n", spsh_status_text(err.status), err.message);
    spsh_reader_close(reader);
}

int main(int argc, char **argv)
{
    spsh_dedup_sources *sources = NULL;
    spsh_dedupe_result *result = NULL;
    const spsh_dedupe_facts *facts = NULL;
    spsh_dedupe_options options = SPSH_DEDUPE_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;

    options.work_path = "dedupe.work";
    if (spsh_dedup_sources_new(&sources, &err) != SPSH_OK ||
        spsh_dedup_sources_add(sources, argc > 1 ? argv[1] : ".", SPSH_SIDE_TRAIN, NULL, &err) !=
            SPSH_OK ||
        spsh_dedupe_run(sources, &options, &result, &err) != SPSH_OK)
        goto out;
    facts = spsh_dedupe_result_facts(result);
    printf("%" PRIu64 " utterances, %" PRIu64 " clusters of copies\n", facts->utterance_count,
           facts->cluster_count);
    for (uint64_t i = 0; i < facts->cluster_count; i++) {
        const spsh_copy_cluster *cluster = spsh_dedupe_result_cluster(result, i);
        for (uint64_t k = 0; k < cluster->member_count; k++)
            print_member(result, spsh_dedupe_result_member(result, cluster->first_member + k));
    }
out:
    if (err.status != SPSH_OK)
        fprintf(stderr, "%s: %s\n", spsh_status_text(err.status), err.message);
    spsh_dedupe_result_free(result);
    spsh_dedup_sources_free(sources);
    return err.status == SPSH_OK ? 0 : 1;
}
