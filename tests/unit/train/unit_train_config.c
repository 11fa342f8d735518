/* unit_train_config.c: configurations: defaults, files, overrides, rejected keys and values with
 * their position, canonical text, and rates. */
#include <locale.h>
#include <math.h>

#include "config/config.h"
#include "spsh_test.h"

static spsh__config *config;
static spsh_error err = SPSH_ERROR_INIT;

static spsh_status parse(const char *yaml, const char *const *overrides)
{
    config = NULL;
    err = (spsh_error)SPSH_ERROR_INIT;
    return spsh__config_parse(yaml, strlen(yaml), overrides, &config, &err);
}

static void require(const char *yaml, const char *const *overrides)
{
    if (parse(yaml, overrides) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(config != NULL);
}

static void drop(void)
{
    spsh__config_free(config);
    config = NULL;
}

static void test_defaults(void)
{
    require("data: {train: a.spsh}", NULL);
    CHECK_STR(config->train[0], "a.spsh");
    CHECK(config->train[1] == NULL && config->dev[0] == NULL && config->noises[0] == NULL &&
          config->rooms[0] == NULL && config->train_weights == NULL);
    CHECK_STR(config->vocabulary, "");
    CHECK(strncmp(config->features, "kind=spectrum,sample_rate_hz=16000,", 35) == 0);
    CHECK_U64(config->seed, 1);
    CHECK_U64(config->model.kind, SPSH__MODEL_DS2);
    CHECK_U64(config->model.layers, 5);
    CHECK_U64(config->model.hidden, 1024);
    CHECK_U64(config->model.cell, SPSH__CELL_LSTM);
    CHECK(config->model.is_bidirectional && !config->model.counts_padding);
    CHECK_U64(config->backend, SPSH__BACKEND_AUTO);
    CHECK_STR(config->device, "auto");
    CHECK_U64(config->precision, 0);
    CHECK(config->has_graphs && !config->is_deterministic);
    CHECK_U64(config->rnn, SPSH__RNN_AUTO);
    CHECK_U64(config->exchange, SPSH__EXCHANGE_AUTO);
    CHECK_U64(config->decode, SPSH_DECODE_HOST);
    CHECK_U64(config->damaged, SPSH_ON_ERROR_FAIL);
    CHECK_U64(config->undecodable, SPSH_UNDECODABLE_SKIP);
    CHECK_STR(config->strategy, "allreduce");
    CHECK(config->is_adamw && config->sgd.is_nesterov);
    CHECK(config->sgd.rate == 1.5e-4 && config->adamw.rate == 1.5e-4);
    CHECK(config->sgd.weight_decay == 1e-5 && config->adamw.weight_decay == 1e-5);
    CHECK(config->clip == 400 && config->alpha == 1 && config->anneal == 0.99);
    CHECK_U64(config->schedule, SPSH__SCHEDULE_ANNEAL);
    CHECK_U64(config->epochs, 70);
    CHECK_U64(config->beam_width, 0);
    CHECK_U64(config->accumulate, 1);
    drop();
}

static const char whole[] = "# digits\n"
                            "vocabulary: digits.yaml\n"
                            "features: deepspeech,sample_rate_hz=8000\n"
                            "data:\n"
                            "  train: [digits.spsh:train, \"with, comma:a,b\"]\n"
                            "  train_weights: [1, 0.25]\n"
                            "  dev:\n"
                            "    - digits.spsh:test\n"
                            "  seed: 18446744073709551615\n"
                            "  max_padded_seconds: 12.5\n"
                            "model:\n"
                            "  hidden: 96\n"
                            "  preset: ds2-tiny\n"
                            "  cell: gru\n"
                            "  bidirectional: false\n"
                            "  lookahead: 20\n"
                            "  batch_norm: compat\n"
                            "train:\n"
                            "  optimiser: sgd\n"
                            "  rate: 3e-4\n"
                            "  warm_up_samples: 1e4\n"
                            "  schedule: cosine\n"
                            "eval: {every_s: 30, beam_width: 16}\n";

static void check_whole(void)
{
    CHECK_STR(config->vocabulary, "digits.yaml");
    CHECK(strstr(config->features, "sample_rate_hz=8000,") != NULL);
    CHECK_STR(config->train[1], "with, comma:a,b");
    CHECK(config->train[2] == NULL);
    CHECK(config->train_weights != NULL && config->train_weights[1] == 0.25);
    CHECK_STR(config->dev[0], "digits.spsh:test");
    CHECK_U64(config->seed, UINT64_MAX);
    CHECK(config->max_padded_seconds == 12.5);
    CHECK_U64(config->model.hidden, 96); /* set before the preset */
    CHECK_U64(config->model.layers, 2);
    CHECK_U64(config->model.cell, SPSH__CELL_GRU);
    CHECK(!config->model.is_bidirectional && config->model.counts_padding);
    CHECK_U64(config->model.lookahead, 20);
    CHECK(!config->is_adamw && config->sgd.rate == 3e-4);
    CHECK_U64(config->warm_up_samples, 10000);
    CHECK_U64(config->schedule, SPSH__SCHEDULE_COSINE);
    CHECK(config->evaluate_every_s == 30);
    CHECK_U64(config->beam_width, 16);
}

static void test_file(void)
{
    char folder[256];
    char path[300];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/digits.yaml", folder);
    CHECK_I64(spsh__config_read(path, NULL, NULL, &config, &err), SPSH_E_NOT_FOUND);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fwrite(whole, 1, sizeof(whole) - 1, file) == sizeof(whole) - 1);
    REQUIRE(fclose(file) == 0);
    REQUIRE(spsh__config_read(path, NULL, NULL, &config, &err) == SPSH_OK);
    check_whole();
    drop();
    const char *const wrong[] = {"train.rate=fast", NULL};
    CHECK_I64(spsh__config_read(path, wrong, NULL, &config, &err), SPSH_E_INVALID_ARG);
    CHECK_STR(err.message, "train.rate=fast: train.rate: 'fast' is not a number");
    test_remove_tree(folder);
}

static void test_overrides(void)
{
    const char *const overrides[] = {
        "model.preset=ds2-small",        "train.rate=1",        "train.rate=2",
        "data.train=[x, 'y: z', \"w\"]", "data.train_weights=", "data.dev=one, of them",
        "vocabulary=a = b # c: d",       "eval.every_s=",       NULL};
    CHECK_I64(parse(whole, overrides), SPSH_E_INVALID_ARG); /* an empty number */
    CHECK_STR(err.message, "eval.every_s=: eval.every_s: '' is not a number");
    const char *const good[] = {overrides[0], overrides[1], overrides[2], overrides[3],
                                overrides[4], overrides[5], overrides[6], NULL};
    require(whole, good);
    CHECK_U64(config->model.hidden, 96); /* from the file */
    CHECK_U64(config->model.layers, 3);  /* from the other preset */
    CHECK(config->sgd.rate == 2);
    CHECK_STR(config->train[0], "x");
    CHECK_STR(config->train[1], "y: z");
    CHECK_STR(config->train[2], "w");
    CHECK(config->train_weights == NULL);
    CHECK_STR(config->dev[0], "one, of them");
    CHECK_STR(config->vocabulary, "a = b # c: d");
    drop();
}

static void test_text_comes_back(void)
{
    static const char *const odd[] = {"vocabulary=\"quoted\\ \t~",
                                      "data.rooms=[\"\\u0301a\"]",
                                      "train.rate=1.2345678901234567e-7",
                                      "train.epsilon=1e-30",
                                      "train.clip=1234567.5",
                                      "data.alpha=0.1",
                                      "augment=speed-perturb,time_masks=2",
                                      NULL};
    static const char *const none[] = {NULL};
    static const char *const hybrid[] = {"model.preset=lstm-hybrid", "train.schedule_samples=77777",
                                         "data.alignments=[ali.1.gz, \"ali, 2\"]",
                                         "model.outputs=9000", NULL};
    const char *const *const cases[] = {none, odd, hybrid};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        require(whole, cases[i]);
        char *text = spsh__config_text(config);
        drop();
        REQUIRE(text != NULL);
        require(text, NULL);
        char *again = spsh__config_text(config);
        CHECK_STR(again, text);
        if (i == 1)
            CHECK_STR(config->vocabulary, "\"quoted\\ \t~");
        if (i == 1)
            CHECK(config->sgd.rate == 1.2345678901234567e-7 && config->clip == 1234567.5);
        if (i == 0)
            check_whole();
        free(text);
        free(again);
        drop();
    }
    require(whole, NULL);
    char *text = spsh__config_text(config);
    CHECK(strstr(text, "\ntrain:\n  backend: auto\n  device: \"auto\"\n  precision: auto\n"
                       "  deterministic: false\n  graphs: true\n  rnn: auto\n"
                       "  exchange: auto\n  gradient_exchange: fp32\n  threads: 0\n") != NULL);
    CHECK(strstr(text, "  rate: 0.0003\n") != NULL);
    CHECK(strstr(text, "  train_weights: [1, 0.25]\n") != NULL);
    free(text);
    drop();
}

/* Settings of the device that a run computes on. */
static void test_devices(void)
{
    const char *const overrides[] = {"train.backend=cuda",    "train.device=3",
                                     "train.precision=fp16",  "train.deterministic=true",
                                     "train.graphs=false",    "train.rnn=stepwise",
                                     "train.exchange=host",   "train.gradient_exchange=fp16",
                                     "data.decode=device",    "data.damaged=skip",
                                     "data.undecodable=fail", NULL};
    require("data: {train: a}", overrides);
    CHECK_U64(config->backend, SPSH__BACKEND_CUDA);
    CHECK_STR(config->device, "3");
    CHECK_U64(config->precision, 1 + SPSH__FP16);
    CHECK(!config->has_graphs && config->is_deterministic);
    CHECK_U64(config->rnn, SPSH__RNN_STEPWISE);
    CHECK_U64(config->exchange, SPSH__EXCHANGE_HOST);
    CHECK_U64(spsh__config_sent_as(config), SPSH__FP16);
    CHECK_U64(config->decode, SPSH_DECODE_DEVICE);
    CHECK_U64(config->damaged, SPSH_ON_ERROR_SKIP);
    CHECK_U64(config->undecodable, SPSH_UNDECODABLE_FAIL);
    char *text = spsh__config_text(config);
    drop();
    require(text, NULL);
    char *again = spsh__config_text(config);
    CHECK_STR(again, text);
    CHECK_U64(config->precision, 1 + SPSH__FP16);
    CHECK_U64(config->rnn, SPSH__RNN_STEPWISE);
    free(text);
    free(again);
    drop();
}

static const struct {
    const char *yaml;
    const char *override;
    spsh_status want;
    const char *message; /* part of the message */
} refusals[] = {
    {"data: {train: a}\ntrain: {rat: 1}",                                                    NULL,                    SPSH_E_NOT_FOUND,
     "configuration: line 2: train.rat: unknown key; did you mean 'train.rate'?"                                                                                              },
    {"data: {train: a}\nvocabluary: x",                                                      NULL,                    SPSH_E_NOT_FOUND,   "did you mean 'vocabulary'?"        },
    {"data: {train: a}\neval: {keep: 1}",                                                    NULL,                    SPSH_E_NOT_FOUND,   "did you mean 'train.keep'?"        },
    {"data: {train: a}\ntrian: {rate: 1}",                                                   NULL,                    SPSH_E_NOT_FOUND,   "did you mean 'train.rate'?"        },
    {"data: {train: a}\ntrain: {backend: cuad}",                                             NULL,                    SPSH_E_INVALID_ARG,
     "unknown value 'cuad'; did you mean 'cuda'?"                                                                                                                             },
    {"data: {train: a}\ntrain: {precision: half}",                                           NULL,                    SPSH_E_INVALID_ARG,
     "unknown value 'half'; expected one of auto, fp32, tf32, bf16, fp16"                                                                                                     },
    {"data: {train: a}\ntrain: {device: gpu}",                                               NULL,                    SPSH_E_INVALID_ARG,
     "line 2: train.device: 'gpu' is not auto or a device number"                                                                                                             },
    {"data: {train: a}",                                                                     "train.device=-1",       SPSH_E_INVALID_ARG, "is not auto or a device"           },
    {"data: {train: a}",                                                                     "train.device=1024",     SPSH_E_INVALID_ARG, "is not auto or a device"           },
    {"data: {train: a}\nzzzzzzzzzzz: 1",                                                     NULL,                    SPSH_E_NOT_FOUND,   "zzzzzzzzzzz: unknown key"          },
    {"data: {train: a}",                                                                     "train.epcohs=3",        SPSH_E_NOT_FOUND,
     "train.epcohs=3: train.epcohs: unknown key; did you mean 'train.epochs'?"                                                                                                },
    {"data: {train: a}",                                                                     "epochs=3",              SPSH_E_NOT_FOUND,   "did you mean 'train.epochs'?"      },
    {"data: {train: a}",                                                                     "nothing",               SPSH_E_SYNTAX,      "'nothing': expected KEY=VALUE"     },
    {"data: {train: a}",                                                                     "=3",                    SPSH_E_SYNTAX,      "expected KEY=VALUE"                },
    {"data: {train: a}",                                                                     "data.train=[a",         SPSH_E_SYNTAX,      "data.train=[a: line"               },
    {"data: {train: a}",                                                                     "data.train=[]",         SPSH_E_INVALID_ARG, "names no dataset"                  },
    {"",                                                                                     NULL,                    SPSH_E_INVALID_ARG, "data.train names no dataset"       },
    {"data: {train: a}\ntrain: {gradient_exchange: bf16, strategy: d1-model}",               NULL,
     SPSH_E_INVALID_ARG,                                                                                                                  "add up gradients"                  },
    {"data: {train: a}\ntrain: {gradient_exchange: fp16, precision: bf16}",                  NULL,
     SPSH_E_INVALID_ARG,                                                                                                                  "loss scale"                        },
    {"# nothing\n",                                                                          NULL,                    SPSH_E_INVALID_ARG, "names no dataset"                  },
    {"data: {train: a}\nmodel:\neval: {beam_width: 4097}",                                   NULL,                    SPSH_E_INVALID_ARG,
     "line 3: eval.beam_width: 4097 is not in the range 0 to 4096"                                                                                                            },
    {"data: {train: a, seed: 1.5}",                                                          NULL,                    SPSH_E_INVALID_ARG, "'1.5' is not a whole number"       },
    {"data: {train: a, seed: -1}",                                                           NULL,                    SPSH_E_INVALID_ARG, "is not a whole number"             },
    {"data: {train: a, seed: 18446744073709551616}",                                         NULL,                    SPSH_E_INVALID_ARG, "is not a whole"                    },
    {"data: {train: a, alpha: nan}",                                                         NULL,                    SPSH_E_INVALID_ARG, "'nan' is not a number"             },
    {"data: {train: a, alpha: 0x1p-1}",                                                      NULL,                    SPSH_E_INVALID_ARG, "is not a number"                   },
    {"data: {train: a, alpha: 1e999}",                                                       NULL,                    SPSH_E_INVALID_ARG, "is not a number"                   },
    {"data: {train: a, alpha: '0,5'}",                                                       NULL,                    SPSH_E_INVALID_ARG, "is not a number"                   },
    {"data: {train: a, alpha: [1]}",                                                         NULL,                    SPSH_E_INVALID_ARG, "expected one value, found"         },
    {"data: {train: [a, '']}",                                                               NULL,                    SPSH_E_INVALID_ARG, "the list has an empty item"        },
    {"data: {train: a, train_weights: [1, 2]}",                                              NULL,                    SPSH_E_INVALID_ARG, "has 2 numbers"                     },
    {"data: {train: a, train_weights: [0]}",                                                 NULL,                    SPSH_E_INVALID_ARG, "0 is not in"                       },
    {"data: {train: a}\ntrain: {optimiser: adam}",                                           NULL,                    SPSH_E_INVALID_ARG,
     "unknown value 'adam'; did you mean 'adamw'?"                                                                                                                            },
    {"data: {train: a}\nmodel: {bidirectional: yes}",                                        NULL,                    SPSH_E_INVALID_ARG,
     "unknown value 'yes'; expected one of false, true"                                                                                                                       },
    {"data: {train: a}\nmodel: {preset: ds3}",                                               NULL,                    SPSH_E_NOT_FOUND,   "line 2: model.preset: "            },
    {"data: {train: a}\nfeatures: mel,x=1",                                                  NULL,                    SPSH_E_NOT_FOUND,   "line 2: features: "                },
    {"data: {train: a}",                                                                     "augment=time_masks=-1", SPSH_E_INVALID_ARG, "time_masks=-1: augment: "          },
    {"data: {train: a}\ntrain: {rate: 1, rate: 2}",                                          NULL,                    SPSH_E_SYNTAX,      "is also in line 2"                 },
    {"data: {train: a}\ndata: {train: a}",                                                   NULL,                    SPSH_E_SYNTAX,      "is also in line 1"                 },
    {"data: {train: a, utterance_seconds_min: 2, utterance_seconds_max: 1}",                 NULL,
     SPSH_E_INVALID_ARG,                                                                                                                  "utterance_seconds_max is less than"},
    {"data: {train: a}\ntrain: {epochs: 0}",                                                 NULL,                    SPSH_E_INVALID_ARG, "training would not end"            },
    {"data: {train: a}\ntrain: {optimiser: sgd, momentum: 0}",                               NULL,                    SPSH_E_INVALID_ARG,
     "nesterov needs"                                                                                                                                                         },
    {"data: {train: a}\ntrain: {schedule: cosine, schedule_samples: 5, warm_up_samples: 5}", NULL,
     SPSH_E_INVALID_ARG,                                                                                                                  "must be greater than"              },
    {"data: {train: a}\ntrain: {rate_scaling: linear}",                                      NULL,                    SPSH_E_INVALID_ARG,
     "needs train.rate_seconds"                                                                                                                                               },
    {"data: {train: a}\ntrain: {accumulate_max: 4}",                                         NULL,                    SPSH_E_INVALID_ARG,
     "grows only with both"                                                                                                                                                   },
    {"data: {train: a}\ntrain: {accumulate: 5, accumulate_max: 4, accumulate_samples: 9}",   NULL,
     SPSH_E_INVALID_ARG,                                                                                                                  "is less than train.accumulate"     },
    {"data: {train: a}\nmodel: {preset: lstm-hybrid}",                                       NULL,                    SPSH_E_INVALID_ARG,
     "data.alignments is not set"                                                                                                                                             },
    {"data: {train: a, alignments: b}",                                                      NULL,                    SPSH_E_INVALID_ARG,
     "only lstm-hybrid is trained on alignments"                                                                                                                              },
    {"data: {train: a}",                                                                     "model.outputs=5",       SPSH_E_INVALID_ARG, "only lstm-hybrid has it"           },
    {"data: {train: a}",                                                                     "model.chunk_frames=21", SPSH_E_INVALID_ARG,
     "only lstm-hybrid is trained on chunks"                                                                                                                                  },
    {"data: {train: a, alignments: b}\nmodel: {preset: lstm-hybrid, outputs: 1}",            NULL,
     SPSH_E_INVALID_ARG,                                                                                                                  "expected 2 or more states"         },
    {"data: {train: &x a, dev: *x}",                                                         NULL,                    SPSH_E_SYNTAX,      "aliases are not supported"         },
    {"data: {train: !!str a}",                                                               NULL,                    SPSH_E_SYNTAX,      "tags are not supported"            },
    {"data: {train: {a: b}}",                                                                NULL,                    SPSH_E_NOT_FOUND,   "data.train.a: unknown key"         },
    {"data: {train: [[a]]}",                                                                 NULL,                    SPSH_E_SYNTAX,      "only lists of plain values"        },
    {"data: {train: a}\n---\ndata: {}",                                                      NULL,                    SPSH_E_SYNTAX,      "more than one document"            },
    {"[a]",                                                                                  NULL,                    SPSH_E_SYNTAX,      "a list has no key"                 },
    {"a",                                                                                    NULL,                    SPSH_E_SYNTAX,      "a value has no key"                },
    {"data: {train: a",                                                                      NULL,                    SPSH_E_SYNTAX,      "configuration: line "              },
    {"data: {train: \"a\\0b\"}",                                                             NULL,                    SPSH_E_SYNTAX,      "a NUL"                             },
    {"data:\n\ttrain: a",                                                                    NULL,                    SPSH_E_SYNTAX,      "line 2: "                          },
    {"data: {train: \xff}",                                                                  NULL,                    SPSH_E_SYNTAX,      "line 1: "                          },
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const char *const overrides[] = {refusals[i].override, NULL};
        const spsh_status rc = parse(refusals[i].yaml, overrides);
        CHECK_I64(rc, refusals[i].want);
        CHECK(config == NULL);
        if (rc != refusals[i].want || strstr(err.message, refusals[i].message) == NULL) {
            fprintf(stderr, "    \"%s\": \"%s\", want \"%s\"\n", refusals[i].yaml, err.message,
                    refusals[i].message);
            CHECK(false);
        }
        drop();
    }
}

/* docs/reference/TRAINING.md has a row for each key, with its default. */
static void test_documentation(void)
{
    static char page[1 << 16];
    char path[512];
    char section[64] = "";
    test_source_path(path, sizeof(path), "docs/reference/TRAINING.md");
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    REQUIRE(fclose(file) == 0);
    require("data: {train: a}", NULL);
    char *text = spsh__config_text(config);
    drop();
    for (char *line = text, *end = NULL; *line != '\0'; line = end + 1) {
        char row[256];
        char *colon = strchr(line, ':');
        end = strchr(line, '\n');
        REQUIRE(colon != NULL && end != NULL && colon < end);
        *colon = '\0';
        *end = '\0';
        if (colon + 1 == end) {
            (void)snprintf(section, sizeof(section), "%s.", line);
            continue;
        }
        const char *key = line[0] == ' ' ? line + 2 : line;
        const bool is_long = strcmp(key, "features") == 0 || strcmp(key, "augment") == 0 ||
                             strcmp(key, "train") == 0;
        (void)snprintf(row, sizeof(row), "\n| `%s%s` |%s%s", line[0] == ' ' ? section : "", key,
                       is_long ? "" : colon + 1, is_long ? "" : " |");
        if (strstr(page, row) == NULL)
            fprintf(stderr, "    no row%s\n", row);
        CHECK(strstr(page, row) != NULL);
    }
    free(text);
}

static void test_locale(void)
{
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "fr_FR.UTF-8") == NULL)
        printf("no locale with a decimal comma\n");
    require(whole, NULL);
    CHECK(config->max_padded_seconds == 12.5);
    char *text = spsh__config_text(config);
    CHECK(text != NULL && strstr(text, "max_padded_seconds: 12.5\n") != NULL);
    free(text);
    drop();
    (void)setlocale(LC_ALL, "C");
}

static bool is_near(double got, double want)
{
    return fabs(got - want) <= 1e-15 * fabs(want);
}

static void test_rates(void)
{
    const char *const anneal[] = {
        "train.schedule=anneal", "train.anneal=0.5",        "train.rate=8",
        "train.optimiser=adamw", "train.warm_up_samples=0", NULL};
    require(whole, anneal);
    CHECK(spsh__schedule_rate(config, 1000) == 8); /* not resolved, no epoch length */
    CHECK_I64(spsh__config_resolve(config, 1000, NULL), SPSH_OK);
    CHECK_U64(config->schedule_samples, 1000);
    CHECK(spsh__schedule_rate(config, 0) == 8 && spsh__schedule_rate(config, 999) == 8);
    CHECK(spsh__schedule_rate(config, 1000) == 4 && spsh__schedule_rate(config, 2999) == 2);
    CHECK(spsh__schedule_rate(config, UINT64_MAX) == 0);
    CHECK_I64(spsh__config_resolve(config, 5, NULL), SPSH_OK);
    CHECK_U64(config->schedule_samples, 1000);
    drop();

    const char *const constant[] = {"train.schedule=constant", "train.rate=1",
                                    "train.warm_up_samples=9", NULL};
    require(whole, constant);
    CHECK_I64(spsh__config_resolve(config, 1000, NULL), SPSH_OK);
    for (uint64_t i = 0; i < 9; i++)
        CHECK(is_near(spsh__schedule_rate(config, i), (double)(i + 1) / 10));
    CHECK(spsh__schedule_rate(config, 9) == 1 && spsh__schedule_rate(config, 1 << 20) == 1);
    drop();

    const char *const cosine[] = {"train.rate=1", "train.epochs=2", "train.warm_up_samples=100",
                                  NULL};
    require(whole, cosine);
    CHECK_I64(spsh__config_resolve(config, 550, NULL), SPSH_OK);
    CHECK_U64(config->schedule_samples, 1100);
    CHECK(spsh__schedule_rate(config, 100) == 1);
    CHECK(is_near(spsh__schedule_rate(config, 600), 0.5));
    for (uint64_t i = 100; i < 1100; i += 50) {
        const double want = 0.5 + 0.5 * cos(3.14159265358979323846 * (double)(i - 100) / 1000);
        CHECK(fabs(spsh__schedule_rate(config, i) - want) < 1e-15);
        CHECK(spsh__schedule_rate(config, i) > spsh__schedule_rate(config, i + 50));
    }
    CHECK(spsh__schedule_rate(config, 1100) == 0 && spsh__schedule_rate(config, UINT64_MAX) == 0);
    drop();
    const char *const bounded[] = {"train.samples_max=300", "train.warm_up_samples=299", NULL};
    require(whole, bounded);
    CHECK_I64(spsh__config_resolve(config, 550, NULL), SPSH_OK);
    CHECK_U64(config->schedule_samples, 300);
    drop();
    const char *const warm[] = {"train.samples_max=300", "train.warm_up_samples=300", NULL};
    require(whole, warm);
    CHECK_I64(spsh__config_resolve(config, 550, NULL), SPSH_OK);
    CHECK_U64(config->schedule_samples, 301);
    CHECK(spsh__schedule_rate(config, 300) == config->sgd.rate);
    drop();
}

/* The schedule of the ADPSGD papers: from 0.1 to 1.0 over 10 epochs, then 1/sqrt(2) per epoch. */
static void test_rates_of_a_paper(void)
{
    const char *const settings[] = {"train.schedule=anneal",
                                    "train.anneal=0.70710678",
                                    "train.rate=1",
                                    "train.optimiser=sgd",
                                    "train.warm_up_samples=9",
                                    "train.warm_up_epochs=10",
                                    "train.warm_up_from=0.1",
                                    NULL};
    const uint64_t epoch = 999;
    require(whole, settings);
    CHECK_I64(spsh__config_resolve(config, epoch, NULL), SPSH_OK);
    CHECK_U64(config->warm_up_samples, 10 * epoch);
    CHECK(config->warm_up_epochs == 0); /* the stored configuration has one of them */
    CHECK(fabs(spsh__schedule_rate(config, 0) - 0.1) < 1e-3);
    CHECK(fabs(spsh__schedule_rate(config, 5 * epoch) - 0.55) < 1e-3);
    CHECK(spsh__schedule_rate(config, 10 * epoch) == 1);
    CHECK(spsh__schedule_rate(config, 11 * epoch - 1) == 1);
    CHECK(is_near(spsh__schedule_rate(config, 11 * epoch), 0.70710678));
    CHECK(fabs(spsh__schedule_rate(config, 15 * epoch + 5) - 0.1767767) < 1e-6);
    drop();
}

/* A run reads its resolved configuration again when it resumes. */
static void check_is_read_again(void)
{
    char *text = spsh__config_text(config);
    spsh__config *again = NULL;
    REQUIRE(text != NULL);
    CHECK_I64(spsh__config_parse(text, strlen(text), NULL, &again, &err), SPSH_OK);
    spsh__config_free(again);
    free(text);
}

static void test_a_warm_up_and_a_cosine(void)
{
    const char *const epochs[] = {"train.schedule=cosine", "train.schedule_samples=1000",
                                  "train.warm_up_epochs=2", "train.warm_up_samples=2000", NULL};
    require(whole, epochs);
    CHECK_I64(spsh__config_resolve(config, 499, &err), SPSH_OK);
    CHECK_U64(config->warm_up_samples, 998);
    check_is_read_again();
    drop();
    require(whole, epochs);
    CHECK_I64(spsh__config_resolve(config, 500, &err), SPSH_E_INVALID_ARG);
    CHECK_STR(err.message,
              "train.schedule_samples is 1000, but train.warm_up_epochs makes a warm-up of 1000 "
              "utterances; the cosine must be longer than the warm-up");
    drop();
    const char *const endless[] = {"train.schedule=cosine", "train.epochs=4294967295",
                                   "train.samples_max=0", "train.warm_up_epochs=1e6", NULL};
    for (uint64_t epoch = 3000000; epoch < UINT64_C(1) << 62; epoch *= 1000) {
        require(whole, endless);
        CHECK_I64(spsh__config_resolve(config, epoch, &err), SPSH_OK);
        check_is_read_again();
        drop();
    }
}

static void test_rate_scaling(void)
{
    const char *const linear[] = {"train.rate_scaling=linear", "train.rate_seconds=100",
                                  "data.max_padded_seconds=50", "train.accumulate=2", NULL};
    require(whole, linear);
    CHECK(is_near(spsh__schedule_scale(config, 1, 0), 1));
    CHECK(is_near(spsh__schedule_scale(config, 8, 0), 8));
    drop();
    const char *const root[] = {"train.rate_scaling=sqrt",
                                "train.rate_seconds=100",
                                "data.max_padded_seconds=50",
                                "train.accumulate=2",
                                "train.accumulate_max=8",
                                "train.accumulate_samples=1000",
                                NULL};
    require(whole, root);
    CHECK(is_near(spsh__schedule_scale(config, 4, 999), 2));
    CHECK(is_near(spsh__schedule_scale(config, 4, 2000), 4)); /* the batch has grown fourfold */
    drop();
    require(whole, NULL);
    CHECK(spsh__schedule_scale(config, 8, 0) == 1);
    drop();
}

static void test_growing_updates(void)
{
    const char *const settings[] = {"train.accumulate=3", "train.accumulate_max=10",
                                    "train.accumulate_samples=100", NULL};
    require(whole, settings);
    CHECK_U64(spsh__schedule_accumulate_most(config), 10);
    CHECK_U64(spsh__schedule_accumulate(config, 99), 3);
    CHECK_U64(spsh__schedule_accumulate(config, 100), 6);
    CHECK_U64(spsh__schedule_accumulate(config, 200), 10); /* not 12 */
    CHECK_U64(spsh__schedule_accumulate(config, UINT64_MAX), 10);
    drop();
    require(whole, NULL);
    CHECK_U64(spsh__schedule_accumulate(config, UINT64_MAX), config->accumulate);
    drop();
}

TEST_MAIN(unit_train_config)
{
    RUN(test_rates_of_a_paper);
    RUN(test_a_warm_up_and_a_cosine);
    RUN(test_rate_scaling);
    RUN(test_growing_updates);
    RUN(test_defaults);
    RUN(test_file);
    RUN(test_overrides);
    RUN(test_text_comes_back);
    RUN(test_devices);
    RUN(test_refusals);
    RUN(test_documentation);
    RUN(test_locale);
    RUN(test_rates);
    return TEST_RESULT();
}
