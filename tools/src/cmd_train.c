/* cmd_train.c: `speechshard train`: train a recognizer on packed speech, or make its vocabulary.
 *
 * SIGTERM, SIGINT, and SIGUSR1 only set a flag: the run finishes its step and saves, and the
 * command exits with 75, which asks its launcher to start it again. If the same signal comes a
 * second time, the command ends at once without saving. A different second signal does not end it,
 * because schedulers may announce one event, or a preemption and the job's end, by two signals. If
 * another process of the run does not answer, the command exits with 70, which also asks for a
 * restart.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "commands.h"
#include "common/json_out.h"
#include "print/train_estimate_out.h"
#include "print/train_simulate_out.h"
#include "runs/run_page.h"
#include "speechshard/train.h"

enum { LOG_INTERVAL_S = 60 };
enum { EXIT_ALONE = 70, OVERRIDES_MAX = 256, SYMBOLS_MAX = 65536 };

typedef struct train_command {
    const char *config, *run, *strategy, *rendezvous, *cluster, *replay;
    char strategy_change[128]; /* as an override */
    const char *overrides[OVERRIDES_MAX + 1];
    int resume; /* 0: no, 1: auto */
    bool make_vocabulary, estimate, json, record;
    int kind;
    const char *profile;
    uint64_t symbols;
    spsh_cli_texts slow, freeze, kill;
    const char *link;
    spsh_train_world world;
    spsh_progress progress;
    bool has_begun;
    double logged_s; /* time of the last reported step, without a live line */
} train_command;

static volatile int stop;

static void on_signal(int number)
{
    static volatile int seen; /* one bit per signal; the handler blocks all three signals */
    if ((seen & 1 << number) != 0)
        _exit(SPSH_EXIT_STOPPED);
    seen |= 1 << number;
    stop = 1;
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        (void)sigaddset(&action.sa_mask, numbers[i]);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        (void)sigaction(numbers[i], &action, NULL);
}

/* Update the progress line on a terminal. In a log, print one line per minute. */
static void on_progress(void *user, uint64_t step, const char *line)
{
    train_command *c = (train_command *)user;
    if (!c->has_begun)
        c->progress.done_before = step - 1; /* steps of the run before it was resumed */
    c->has_begun = true;
    spsh__progress_update(&c->progress, step, line);
    if (c->progress.enabled || spsh__cli_now_s() - c->logged_s < LOG_INTERVAL_S)
        return;
    c->logged_s = spsh__cli_now_s();
    spsh__cli_message("step %s, %s", SPSH_SHOW_COUNT(step), line);
}

/* ---- the vocabulary ---- */

static int make_vocabulary(const train_command *c)
{
    static const char *const kinds[] = {"characters", "pieces"};
    spsh_vocabulary_options options = SPSH_VOCABULARY_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    char *path = NULL;
    uint32_t symbols = 0;
    options.config_path = c->config;
    options.overrides = c->overrides;
    options.kind = kinds[c->kind];
    options.profile = c->profile;
    options.symbols = (uint32_t)c->symbols;
    if (spsh_vocabulary_make(&options, &path, &symbols, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    (void)printf("%s: %" PRIu32 " symbols with the blank\n", path, symbols);
    free(path);
    return SPSH_EXIT_DONE;
}

/* ---- the run ---- */

static int put_json(const train_command *c, const spsh_train_result *result)
{
    spsh_json *json = spsh__json_new();
    spsh__json_put_string(json, "run", c->run);
    spsh__json_put_u64(json, "steps", result->steps);
    spsh__json_put_u64(json, "epochs", result->epochs);
    spsh__json_put_u64(json, "utterances", result->samples);
    spsh__json_put_real(json, "loss", result->loss);
    spsh__json_put_real(json, "wer", result->wer);
    spsh__json_put_real(json, "cer", result->cer);
    spsh__json_put_real(json, "frame_error", result->frame_error);
    return spsh__cli_json(json);
}

static int print_result(const train_command *c, const spsh_train_result *result)
{
    (void)printf("%s: %s steps, %s utterances", c->run, SPSH_SHOW_COUNT(result->steps),
                 SPSH_SHOW_COUNT(result->samples));
    if (isfinite(result->loss))
        (void)printf(", loss %.4g", result->loss);
    if (isfinite(result->wer))
        (void)printf(", WER %.2f %%, CER %.2f %%", 100 * result->wer, 100 * result->cer);
    if (isfinite(result->frame_error))
        (void)printf(", wrong frames %.2f %%", 100 * result->frame_error);
    (void)printf("\n");
    return SPSH_EXIT_DONE;
}

static void on_end(void *user, const char *stopped)
{
    train_command *c = (train_command *)user;
    spsh_error err = SPSH_ERROR_INIT;
    spsh__progress_end(&c->progress);
    if (stopped != NULL && c->replay != NULL)
        spsh__cli_message("%s, as the recorded run was", stopped);
    else if (stopped != NULL)
        spsh__cli_message("%s; the same command with --resume auto continues", stopped);
    if (spsh__run_page_write(c->run, NULL, NULL, spsh_io_default(), &err) != SPSH_OK)
        spsh__cli_error("%s", err.message); /* the run succeeded without its page */
}

static int train(train_command *c)
{
    spsh_train_options options = SPSH_TRAIN_OPTIONS_INIT;
    spsh_train_result result = SPSH_TRAIN_RESULT_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    const bool is_first = c->world.rank == 0;
    options.config_path = c->config;
    options.overrides = c->overrides;
    options.run = c->run;
    options.resume = c->resume == 1;
    options.log_fn = spsh__cli_log;
    options.progress_fn = on_progress;
    options.progress_user = c;
    options.end_fn = on_end;
    options.end_user = c;
    options.stop = &stop;
    options.rendezvous = c->rendezvous;
    options.slow = c->slow.count > 0 ? c->slow.items : NULL;
    options.freeze = c->freeze.count > 0 ? c->freeze.items : NULL;
    options.kill = c->kill.count > 0 ? c->kill.items : NULL;
    options.link = c->link;
    options.simulate = c->cluster;
    options.record = c->record;
    options.replay = c->replay;
    watch_signals();
    c->logged_s = spsh__cli_now_s();
    if (is_first)
        spsh__progress_begin(&c->progress, "train", "steps", 0);
    const spsh_status rc = spsh_train(&options, &result, &err);
    spsh__progress_end(&c->progress);
    if (rc != SPSH_OK && rc != SPSH_E_CANCELED) {
        const int code = spsh__cli_fail(NULL, &err);
        return rc == SPSH_E_TIMEOUT ? EXIT_ALONE : code;
    }
    if (rc == SPSH_E_CANCELED)
        return SPSH_EXIT_STOPPED;
    if (!is_first)
        return SPSH_EXIT_DONE;
    return c->json ? put_json(c, &result) : print_result(c, &result);
}

/* ---- arguments ---- */

/* The operand without '=' is the configuration file. The other operands override its keys. */
static int sort_operands(train_command *c, const spsh_cli_args *args)
{
    size_t count = 0;
    for (int i = 0; i < args->operand_count; i++) {
        const char *operand = args->operands[i];
        const bool is_override = strchr(operand, '=') != NULL;
        if (!is_override && c->config != NULL)
            return spsh__cli_usage(
                "train",
                "'%s': more than one configuration; give one CONFIG, and changes as KEY=VALUE",
                operand);
        if (!is_override)
            c->config = operand;
        else if (count < OVERRIDES_MAX)
            c->overrides[count++] = operand;
        else
            return spsh__cli_usage("train", "more than %d changes", (int)OVERRIDES_MAX);
    }
    if (c->strategy != NULL && count == OVERRIDES_MAX)
        return spsh__cli_usage("train", "more than %d changes", (int)OVERRIDES_MAX);
    if (c->strategy != NULL) { /* a truncated name is rejected as unknown */
        (void)snprintf(c->strategy_change, sizeof(c->strategy_change), "train.strategy=%s",
                       c->strategy);
        c->overrides[count++] = c->strategy_change;
    }
    c->overrides[count] = NULL;
    return SPSH_CLI_RUN;
}

static int check(const train_command *c)
{
    if (!c->make_vocabulary && (c->kind != 0 || c->profile != NULL || c->symbols != 0))
        return spsh__cli_usage(
            "train", "--vocab-kind, --vocab-profile, and --vocab-symbols need --make-vocab");
    const bool is_run =
        !c->make_vocabulary && !c->estimate && (c->cluster == NULL || c->run != NULL);
    const bool is_tried = c->slow.count + c->freeze.count + c->kill.count > 0 || c->link != NULL;
    if (is_tried && !is_run)
        return spsh__cli_usage(
            "train",
            "--slow, --link, --freeze, and --kill need a run, and this command starts none");
    if ((c->record || c->replay != NULL) && !is_run)
        return spsh__cli_usage("train",
                               "--record and --replay need a run, and this command starts none");
    if (c->make_vocabulary)
        return c->config == NULL
                   ? spsh__cli_usage("train",
                                     "--make-vocab needs CONFIG, which names the vocabulary")
                   : SPSH_CLI_RUN;
    if (c->cluster != NULL && c->estimate)
        return spsh__cli_usage("train", "--simulate and --estimate exclude each other");
    if (c->cluster != NULL && c->run == NULL)
        return c->strategy != NULL
                   ? spsh__cli_usage("train", "--simulate without -o takes strategies from its "
                                              "CLUSTER: strategy=NAME,NAME")
                   : SPSH_CLI_RUN;
    if (c->estimate)
        return c->config == NULL ? spsh__cli_usage("train", "--estimate needs CONFIG")
                                 : SPSH_CLI_RUN;
    if (c->run == NULL)
        return spsh__cli_usage("train", "the run's directory is missing: -o RUN");
    if (c->replay != NULL && (c->config != NULL || c->overrides[0] != NULL || c->resume != 0))
        return spsh__cli_usage("train",
                               "--replay uses the recorded run's configuration; omit CONFIG");
    if (c->config == NULL && c->resume == 0 && c->replay == NULL)
        return spsh__cli_usage(
            "train", "a configuration is missing; only --resume auto takes it from the run");
    return SPSH_CLI_RUN;
}

static const char about[] =
    "CONFIG is a YAML file; each KEY=VALUE overrides a key, such as train.rate=3e-4. It uses a "
    "GPU if there is one (train.backend, 'speechshard info --devices'). Processes that mpirun, "
    "srun with PMIx, or torchrun started train together. On SIGTERM, SIGINT, and SIGUSR1 it "
    "finishes the step, saves, and exits with 75: the same command with --resume auto "
    "continues.";
static const char examples[] =
    "speechshard train digits.yaml --make-vocab\n"
    "speechshard train digits.yaml --estimate\n"
    "speechshard train --simulate "
    "learners=8,link=10us+100Gbit,step=250ms,slow=3:10x,weights=100M\n"
    "speechshard train digits.yaml --simulate learners=4,step=250ms,slow=3:10x -o run\n"
    "speechshard train digits.yaml -o run train.epochs=20\n"
    "speechshard train digits.yaml -o run --resume auto\n"
    "mpirun -n 4 speechshard train digits.yaml -o run\n"
    "mpirun -n 4 speechshard train digits.yaml -o run --record train.strategy=adpsgd-random\n"
    "speechshard train --replay run -o again\n";

static int parse(train_command *c, int argc, char **argv)
{
    const spsh_cli_option options[] = {
        {"output", 'o', SPSH_CLI_TEXT, "RUN",
         "directory of the run: metrics, checkpoints, report.html", &c->run, 0, 0},
        {"resume", 0, SPSH_CLI_CHOICE, "no|auto",
         "auto: resume from the newest good checkpoint, if there is one (default: no)", &c->resume,
         0, 0},
        {"strategy", 0, SPSH_CLI_TEXT, "NAME",
         "strategy that keeps the models of several processes together; the same as "
         "train.strategy=NAME",
         &c->strategy, 0, 0},
        {"make-vocab", 0, SPSH_CLI_FLAG, NULL,
         "write the vocabulary that CONFIG names, from the transcripts of its data.train, and stop",
         &c->make_vocabulary, 0, 0},
        {"vocab-kind", 0, SPSH_CLI_CHOICE, "characters|pieces",
         "--make-vocab: kind of the vocabulary (default: characters)", &c->kind, 0, 0},
        {"vocab-profile", 0, SPSH_CLI_TEXT, "NAME",
         "--make-vocab: normalization of the transcripts: lower, upper, or nfc (default: lower)",
         &c->profile, 0, 0},
        {"vocab-symbols", 0, SPSH_CLI_COUNT, "N",
         "--make-vocab: maximum number of symbols, with the blank", &c->symbols, 2, SYMBOLS_MAX},
        {"estimate", 0, SPSH_CLI_FLAG, NULL,
         "estimate steps and memory without training; exit 1 if the run could not start",
         &c->estimate, 0, 0},
        {"simulate", 0, SPSH_CLI_TEXT, "CLUSTER",
         "simulate strategies on a cluster such as "
         "learners=8,link=10us+100Gbit,step=250ms,slow=3:10x; with -o the run trains there: in one "
         "process, under a virtual clock",
         &c->cluster, 0, 0},
        {"rendezvous", 0, SPSH_CLI_TEXT, "WHERE",
         "where processes of torchrun or Kubernetes find each other: auto, file://FOLDER, "
         "tcp://HOST:PORT; without a shared folder set SPEECHSHARD_SECRET (default: auto)",
         &c->rendezvous, 0, 0},
        {"slow", 0, SPSH_CLI_TEXTS, "RANK:FACTORx",
         "to try a strategy, multiply the computing time of this process by FACTOR (3:10x); may be "
         "repeated",
         &c->slow, 0, 0},
        {"link", 0, SPSH_CLI_TEXT, "LATENCY+BANDWIDTH",
         "minimum latency and maximum bandwidth of messages: 1ms+1Gbit", &c->link, 0, 0},
        {"freeze", 0, SPSH_CLI_TEXTS, "RANK:AT+FOR",
         "suspend this process: 1:10s+5s; AT is a time or a number of steps", &c->freeze, 0, 0},
        {"kill", 0, SPSH_CLI_TEXTS, "RANK:AT", "kill this process", &c->kill, 0, 0},
        {"record", 0, SPSH_CLI_FLAG, NULL,
         "record the order of messages in RUN/record, if it depends on timing", &c->record, 0, 0},
        {"replay", 0, SPSH_CLI_TEXT, "RUN1",
         "repeat a recorded run in one process, with identical bits", &c->replay, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print the result as JSON", &c->json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {"train", "[CONFIG] [KEY=VALUE...]",
                                      NULL,    "train a recognizer on packed speech",
                                      about,   examples,
                                      options};
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc == SPSH_CLI_RUN)
        rc = sort_operands(c, &args);
    return rc != SPSH_CLI_RUN ? rc : check(c);
}

static int do_command(train_command *c)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (c->make_vocabulary)
        return make_vocabulary(c);
    if (c->cluster != NULL && c->run == NULL)
        return spsh__train_simulate(c->cluster, c->config, c->overrides, c->json);
    c->world = (spsh_train_world)SPSH_TRAIN_WORLD_INIT;
    if (spsh_train_world_find(&c->world, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    if (c->estimate && c->world.rank != 0)
        return SPSH_EXIT_DONE;
    return c->estimate ? spsh__train_estimate(c->config, c->overrides, c->json) : train(c);
}

int spsh__cmd_train(int argc, char **argv)
{
    train_command c = {.resume = 0};
    const int rc = parse(&c, argc, argv);
    return rc != SPSH_CLI_RUN ? rc : spsh__cli_finish(do_command(&c));
}
