/* unit_train_run.c: runs that are stopped, killed, and resumed end with the same weights, to the
 * bit, as an uninterrupted run. Failures are in fault/fault_train_run.c. */
#include <sys/wait.h>

#include "train_kit.h"

static kit_run whole = {.folder = "whole"};

static void test_whole_run(void)
{
    REQUIRE(train_kit_run(&whole) == SPSH_OK);
    CHECK_U64(whole.result.epochs, 2);
    CHECK_U64(whole.result.samples, 2 * TALK_UTTERANCES);
    CHECK(whole.result.steps > 4);
    CHECK(whole.result.wer >= 0);
    kit_run again = {.folder = "whole"};
    CHECK_I64(train_kit_run(&again), SPSH_E_EXISTS); /* it has checkpoints */
}

static void test_stopped(void)
{
    for (uint64_t step = 1; step < whole.result.steps; step += 3) {
        char name[32];
        (void)snprintf(name, sizeof(name), "stopped%d", (int)step);
        kit_run run = {.folder = name, .stop_at = step};
        CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
        /* The stop was requested after a step. The run ends after the next step, or in the
         * evaluation of the epoch. */
        CHECK_U64(run.result.steps, step + (step % (whole.result.steps / 2) != 0));
        run.resume = true;
        run.stop_at = 0;
        CHECK_I64(train_kit_run(&run), SPSH_OK);
        CHECK_U64(run.result.steps, whole.result.steps);
        CHECK_U64(train_kit_weights(name), train_kit_weights("whole"));
    }
}

static void die(kit_run *run, uint64_t step)
{
    (void)run;
    if (step == whole.result.steps - 1)
        _exit(9);
}

/* Steps after the checkpoint of the first epoch are repeated with the same results. */
static void test_killed(void)
{
    kit_run run = {.folder = "killed", .step_fn = die};
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        (void)train_kit_run(&run);
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_I64(WEXITSTATUS(status), 9);
    run = (kit_run){.folder = "killed", .resume = true};
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK_U64(run.result.steps, whole.result.steps);
    CHECK_U64(train_kit_weights("killed"), train_kit_weights("whole"));
}

static void test_recognises(void)
{
    char data[1024];
    const char *const names[] = {data, NULL};
    spsh_evaluate_options options = SPSH_EVALUATE_OPTIONS_INIT;
    spsh_evaluation result = SPSH_EVALUATION_INIT;
    (void)snprintf(data, sizeof(data), "%s", at("talk.spsh"));
    options.checkpoint = at("whole");
    options.datasets = names;
    CHECK_I64(spsh_evaluate(&options, &result, NULL), SPSH_OK);
    CHECK_U64(result.utterances, TALK_UTTERANCES);
    CHECK(result.wer >= 0.999 * whole.result.wer && result.wer <= 1.001 * whole.result.wer);
    static const int16_t quiet[16000];
    spsh_recogniser *recogniser = NULL;
    char *text = NULL;
    spsh_recogniser_options hearing = SPSH_RECOGNISER_OPTIONS_INIT;
    hearing.checkpoint = at("whole");
    hearing.threads = 3;
    hearing.beam_width = 4;
    REQUIRE(spsh_recogniser_open(&hearing, &recogniser, NULL) == SPSH_OK);
    for (uint64_t count = 0; count <= 16000; count += 4000) { /* also an empty utterance */
        CHECK_I64(spsh_recogniser_transcribe(recogniser, quiet, count, 8000, &text, NULL), SPSH_OK);
        free(text);
        text = NULL;
    }
    CHECK_I64(spsh_recogniser_transcribe(recogniser, quiet, 16000, 8000, &text, NULL), SPSH_OK);
    (void)fflush(NULL);
    const pid_t child = fork(); /* the backend's threads do not exist here */
    REQUIRE(child >= 0);
    if (child == 0) {
        char *again = NULL;
        (void)alarm(60);
        CHECK_I64(spsh_recogniser_transcribe(recogniser, quiet, 16000, 8000, &again, NULL),
                  SPSH_OK);
        CHECK(strcmp(again, text) == 0);
        free(again);
        spsh_recogniser_close(recogniser);
        _exit(TEST_RESULT());
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(text);
    spsh_recogniser_close(recogniser);
}

TEST_MAIN(unit_train_run)
{
    test_temp_dir(base, sizeof(base));
    train_kit_make("");
    RUN(test_whole_run);
    RUN(test_stopped);
    RUN(test_killed);
    RUN(test_recognises);
    test_remove_tree(base);
    return TEST_RESULT();
}
