/* hear_words.h: command-line options for the audio of an utterance as training gets it, for `cat`
 * and `plan --show-augment`.
 *
 *     spsh__hear_words words = {.augment = "speed-perturb"};
 *     rc = spsh__hear_request_make("cat", &words, &request);
 *     spsh_hearing_open(dataset, position, &request.loader, &hearing, &err);
 *     spsh__hear_request_free(&request);
 */
#ifndef SPSH_HEAR_WORDS_H
#define SPSH_HEAR_WORDS_H

#include "cli.h"
#include "common/byte_builder.h"
#include "plan_words.h"
#include "speechshard/hear.h"

/** Values from the command line. Borrowed from argv. NULL: not given. */
typedef struct spsh__hear_words {
    const char *features, *augment;
    uint64_t seed;
    spsh_cli_texts noises, rooms; /* paths of datasets */
} spsh__hear_words;

/** Options for spsh_hearing_open and their memory. Must not be moved, because pointers refer to its
 * members. */
typedef struct spsh__hear_request {
    spsh_loader_options loader;
    spsh_plan_options plan;
    spsh_feature_options features;
    spsh_augment_options augment;
    spsh__datasets noises, rooms;
} spsh__hear_request;

/** Make the options. Returns SPSH_EXIT_DONE, or reports the failure and returns SPSH_EXIT_USAGE or
 * SPSH_EXIT_FAILED. */
int spsh__hear_request_make(const char *command, const spsh__hear_words *words,
                            spsh__hear_request *request);
void spsh__hear_request_free(spsh__hear_request *request);

/** Describe a draw: "speed 0.9 (17778 samples), noise cafe-1 from its sample 52 on at 12.5 dB,
 * without frames 12 to 51", or "as it is". */
void spsh__hear_print(spsh__builder *out, const spsh_augment_draw *draw,
                      const spsh_augment_subject *subject);

#endif
