/* unit_train_simulate.c: planning: parsing the description of a cluster, and the results of
 * strategies in the cases that they were designed for. */
#include <math.h>
#include <stdlib.h>

#include "spsh_test.h"
#include "strategy/simulate_strategy.h"

static spsh_train_simulation *simulate(const char *cluster)
{
    spsh_train_simulate_options options = SPSH_TRAIN_SIMULATE_OPTIONS_INIT;
    spsh_train_simulation *s = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    options.cluster = cluster;
    if (spsh_train_simulate(&options, &s, &err) != SPSH_OK)
        printf("%s: %s\n", cluster, err.message);
    REQUIRE(s != NULL);
    return s;
}

static const spsh_train_simulated *find(const spsh_train_simulation *s, const char *strategy)
{
    for (uint32_t i = 0; i < s->run_count; i++)
        if (strcmp(s->runs[i].strategy, strategy) == 0)
            return &s->runs[i];
    REQUIRE(false);
    return NULL;
}

/* ---- the text ---- */

static void test_a_cluster_is_read(void)
{
    spsh__cluster c;
    REQUIRE(spsh__cluster_read("learners=8,link=10us+100Gbit,node=4,node_link=1us+50GB,slow=3:10x,"
                               "freeze=2:10s+5s,kill=1:30s,step=250ms,jitter=0.1,steps=200,seed=7,"
                               "weights=1.5M,deadline=1min,servers=2,staleness_max=0,"
                               "strategy=allreduce,d1-model,slow=0:1.5",
                               &c, NULL) == SPSH_OK);
    CHECK(c.size_count == 1 && c.sizes[0] == 8);
    CHECK(c.link.latency_ns == 10000 && c.link.bytes_per_s == 12.5e9);
    CHECK(c.node_size == 4 && c.node_link.latency_ns == 1000 && c.node_link.bytes_per_s == 50e9);
    CHECK(c.fault_count == 4);
    CHECK(c.faults[0].kind == SPSH__SIM_SLOW && c.faults[0].learner == 3);
    CHECK(c.faults[0].factor == 10 && c.faults[3].factor == 1.5);
    CHECK(c.faults[1].kind == SPSH__SIM_FREEZE && c.faults[1].learner == 2);
    CHECK_U64(c.faults[1].from_ns, UINT64_C(10000000000));
    CHECK_U64(c.faults[1].to_ns, UINT64_C(15000000000));
    CHECK(c.faults[2].kind == SPSH__SIM_KILL && c.faults[2].learner == 1);
    CHECK_U64(c.faults[2].from_ns, UINT64_C(30000000000));
    CHECK(c.step_ns == 250000000 && c.jitter == 0.1 && c.steps == 200 && c.seed == 7);
    CHECK(c.weights == 1500000 && c.deadline_ms == 60000 && c.servers == 2 && c.bound == 0);
    CHECK(c.name_count == 2 && strcmp(c.names[1], "d1-model") == 0 && !c.has_all_names);
}

static void test_numbers_of_learners(void)
{
    static const struct {
        const char *text;
        uint32_t count, sizes[9];
    } of[] = {
        {"learners=2,4,6",         3, {2, 4, 6}                    },
        {"learners=1..128",        8, {1, 2, 4, 8, 16, 32, 64, 128}},
        {"learners=1..100",        8, {1, 2, 4, 8, 16, 32, 64, 100}},
        {"learners=3..3",          1, {3}                          },
        {"learners=1,seed=1,2..8", 0, {0}                          },
    };
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        spsh__cluster c;
        const spsh_status rc = spsh__cluster_read(of[i].text, &c, NULL);
        CHECK((rc == SPSH_OK) == (of[i].count > 0));
        CHECK(rc != SPSH_OK || c.size_count == of[i].count);
        for (uint32_t n = 0; rc == SPSH_OK && n < of[i].count; n++)
            CHECK_U64(c.sizes[n], of[i].sizes[n]);
    }
}

/* A malformed value is reported with the offending word. */
static void test_what_is_no_cluster(void)
{
    static const struct {
        const char *text, *told;
    } of[] = {
        {"",                            "learners is missing" },
        {"8",                           "'8': expected KEY="  },
        {"learners=0",                  "learners=0"          },
        {"learners=9999",               "learners=9999"       },
        {"learners=8..4",               "learners=8..4"       },
        {"learners=2,slow=3:10x",       "learner 3 does not " },
        {"learners=2,slow=1",           "'1': expected"       },
        {"learners=2,slow=1:0x",        "'1:0x'"              },
        {"learners=2,slow=1:10y",       "'1:10y'"             },
        {"learners=2,freeze=1:10s",     "'1:10s'"             },
        {"learners=2,freeze=1:10s+0s",  "'1:10s+0s'"          },
        {"learners=2,kill=1:30",        "with its unit"       },
        {"learners=2,kill=1:30h",       "'1:30h'"             },
        {"learners=2,link=10us+",       "'10us+'"             },
        {"learners=2,link=10us+1Gbits", "'10us+1Gbits'"       },
        {"learners=2,link=",            "''"                  },
        {"learners=2,jitter=x",         "jitter=x"            },
        {"learners=2,steps=-1",         "steps=-1"            },
        {"learners=2,weights=0",        "weights=0"           },
        {"learners=2,deadline=5",       "deadline=5"          },
        {"learners=2,colour=red",       "unknown key 'colour'"},
    };
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        spsh__cluster c;
        spsh_error err = SPSH_ERROR_INIT;
        CHECK(spsh__cluster_read(of[i].text, &c, &err) == SPSH_E_INVALID_ARG);
        CHECK(strstr(err.message, of[i].told) != NULL);
        if (strstr(err.message, of[i].told) == NULL)
            printf("%s: %s\n", of[i].text, err.message);
    }
}

static void test_what_is_missing_is_asked_for(void)
{
    static const struct {
        const char *text, *told;
        spsh_status status;
    } of[] = {
        {"learners=2,weights=1M",                             "step=250ms",    SPSH_E_INVALID_ARG},
        {"learners=2,step=1ms",                               "weights=100M",  SPSH_E_INVALID_ARG},
        {"learners=2,step=1ms,weights=1M,strategy=averaging", "'averaging'",   SPSH_E_NOT_FOUND  },
        {"learners=2,weights=1M,step=/nowhere/at/all",        "metrics.jsonl", SPSH_E_NOT_FOUND  },
        {"learners=2,weights=1M,step=1001s",                  "1001 s",        SPSH_E_INVALID_ARG},
    };
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        spsh_train_simulate_options options = SPSH_TRAIN_SIMULATE_OPTIONS_INIT;
        spsh_train_simulation *s = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        options.cluster = of[i].text;
        CHECK(spsh_train_simulate(&options, &s, &err) == of[i].status);
        CHECK(s == NULL && strstr(err.message, of[i].told) != NULL);
    }
}

/* ---- what strategies do ---- */

#define EIGHT "learners=8,link=10us+100Gbit,node=2,node_link=1us+50GB,step=20ms,steps=30,weights=1M"

static void test_a_slow_learner(void)
{
    static const struct {
        const char *name;
        double least, most; /* fraction of the ideal time */
    } of[] = {
        {"allreduce",     0,   0.15},
        {"partitioned",   0,   0.15},
        {"ps-sync",       0,   0.15},
        {"dpsgd-ring",    0,   0.15},
        {"d1-model",      0,   0.15},
        {"d1-grad",       0,   0.15},
        {"adpsgd-fixed",  0.8, 0.89},
        {"adpsgd-random", 0.8, 0.89},
        {"ps-async",      0.8, 0.89},
        {"hierarchical",  0.7, 0.89},
    };
    spsh_train_simulation *slow = simulate(EIGHT ",slow=3:10x"), *alike = simulate(EIGHT);
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        const spsh_train_simulated *r = find(slow, of[i].name), *even = find(alike, of[i].name);
        printf("%-14s %.3f alike, %.3f one slow\n", of[i].name, even->share, r->share);
        CHECK(r->share >= of[i].least && r->share <= of[i].most);
        CHECK(even->share >= 0.7 && even->share < 1.001);
        CHECK(r->stopped[0] == '\0' && r->batches == 240 && r->seconds > 0);
        CHECK(even->target_batches > 0 && even->target_seconds > 0);
    }
    CHECK(strstr(find(alike, "hogwild")->stopped, "one node") != NULL);
    CHECK(find(alike, "allreduce")->staleness_max == 0);
    CHECK(find(alike, "d1-grad")->staleness_p50 == 1);
    CHECK(fabs(find(alike, "ps-async")->staleness_mean - 7) < 0.5);
    CHECK(find(slow, "ps-async")->staleness_max >= 60);
    CHECK(find(slow, "adpsgd-fixed")->slowest_steps_per_s < 6);
    CHECK(find(slow, "adpsgd-fixed")->fastest_steps_per_s > 45);
    spsh_train_simulation_free(slow);
    spsh_train_simulation_free(alike);
}

/* Each learner sends a sum, or a model, to every other learner, in pieces, and receives one. */
static void test_bytes_are_those_of_the_whole_model(void)
{
    spsh_train_simulation *s =
        simulate("learners=8,link=1us+100Gbit,step=20ms,steps=10,weights=8M");
    const double model = 32e6;
    CHECK(fabs(find(s, "allreduce")->sent_bytes / (model * 2 * 7 / 8) - 1) < 0.02);
    CHECK(fabs(find(s, "dpsgd-ring")->sent_bytes / (model * 2) - 1) < 0.1);
    CHECK(fabs(find(s, "d1-model")->sent_bytes / (model * 2 * 7 / 8) - 1) < 0.1);
    CHECK(fabs(find(s, "adpsgd-random")->sent_bytes / (model * 2) - 1) < 0.1);
    CHECK(find(s, "allreduce")->exposed_s > 0);
    spsh_train_simulation_free(s);
}

static size_t link_stride;

/* However long messages within a node take, its ranks share the leader's model. They have no
 * separate models. */
static void test_nodes_learn_as_fast_as_learners(void)
{
    static const char *const node_links[] = {"", ",node_link=2us+50GB", ",node_link=1ms+5GB",
                                             ",node_link=2us+50GB,jitter=0.1"};
    for (size_t i = 0; i < sizeof(node_links) / sizeof(node_links[0]); i += link_stride) {
        char text[200];
        (void)snprintf(text, sizeof(text),
                       "learners=32,node=8,link=20us+25Gbit,step=250ms,weights=100M,seed=3,"
                       "strategy=adpsgd-random,hierarchical%s",
                       node_links[i]);
        spsh_train_simulation *s = simulate(text);
        const spsh_train_simulated *nodes = find(s, "hierarchical");
        const spsh_train_simulated *learners = find(s, "adpsgd-random");
        printf("%-32s %llu batches to the target, without nodes %llu\n", node_links[i],
               (unsigned long long)nodes->target_batches,
               (unsigned long long)learners->target_batches);
        CHECK_U64(nodes->target_batches, learners->target_batches);
        CHECK_U64(nodes->target_batches, 128);
        spsh_train_simulation_free(s);
    }
}

/* NaN, too. */
static bool is_same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void test_a_seed_has_one_outcome(void)
{
    static const char text[] = EIGHT ",jitter=0.4,slow=1:3x,seed=5";
    spsh_train_simulation *a = simulate(text), *b = simulate(text);
    spsh_train_simulation *c = simulate(EIGHT ",jitter=0.4,slow=1:3x,seed=6");
    REQUIRE(a->run_count == b->run_count);
    for (uint32_t i = 0; i < a->run_count; i++) {
        const spsh_train_simulated *x = &a->runs[i], *y = &b->runs[i];
        for (uint32_t n = 0; n < x->learners; n++)
            CHECK(is_same(x->speeds[n], y->speeds[n]));
        CHECK(is_same(x->share, y->share) && is_same(x->seconds, y->seconds));
        CHECK(is_same(x->sent_bytes, y->sent_bytes) && is_same(x->exposed_s, y->exposed_s));
        CHECK(is_same(x->staleness_mean, y->staleness_mean));
        CHECK(is_same(x->target_seconds, y->target_seconds));
        CHECK(x->target_batches == y->target_batches && x->staleness_max == y->staleness_max);
    }
    CHECK(find(a, "adpsgd-random")->share != find(c, "adpsgd-random")->share);
    spsh_train_simulation_free(a);
    spsh_train_simulation_free(b);
    spsh_train_simulation_free(c);
}

/* The small model takes the time of the real one, and sends the same bytes. */
static void test_a_scaled_model_is_the_whole_one(void)
{
    static const char *const names[] = {"allreduce", "dpsgd-ring",    "d1-model",
                                        "ps-async",  "adpsgd-random", "d1-grad"};
    spsh__cluster c;
    REQUIRE(spsh__cluster_read("learners=4,link=200us+2Gbit,step=40ms,steps=6,jitter=0.1", &c,
                               NULL) == SPSH_OK);
    c.deadline_ms = 600000;
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        spsh_train_simulated of[2];
        for (int is_whole = 0; is_whole < 2; is_whole++) {
            const spsh__simulate_options o = {.cluster = &c,
                                              .learners = 4,
                                              .strategy = names[n],
                                              .weights = 1u << 20,
                                              .buckets = 4,
                                              .is_whole = is_whole != 0};
            REQUIRE(spsh__simulate(&o, &of[is_whole], NULL) == SPSH_OK);
            CHECK(of[is_whole].stopped[0] == '\0');
            free(of[is_whole].speeds);
        }
        printf("%-14s %.4f scaled, %.4f whole; %.0f and %.0f bytes a step\n", names[n], of[0].share,
               of[1].share, of[0].sent_bytes, of[1].sent_bytes);
        CHECK(fabs(of[0].share / of[1].share - 1) < 0.03);
        CHECK(fabs(of[0].sent_bytes / of[1].sent_bytes - 1) < 0.03);
    }
}

/* A learner that needs the lost rank stops and names it. The others continue. Times are step times.
 */
static void test_faults(void)
{
    spsh_train_simulation *dead = simulate(EIGHT ",kill=1:300ms,deadline=2s");
    spsh_train_simulation *still = simulate(EIGHT ",freeze=1:300ms+1s");
    CHECK(strstr(find(dead, "allreduce")->stopped, "rank 1") != NULL);
    CHECK(find(dead, "allreduce")->batches < 240 && isnan(find(dead, "allreduce")->seconds));
    CHECK(find(dead, "adpsgd-random")->stopped[0] == '\0');
    CHECK(find(dead, "adpsgd-random")->share > 0.8);
    CHECK(find(dead, "adpsgd-random")->speeds[1] < 0.7 * find(dead, "adpsgd-random")->speeds[0]);
    CHECK(find(still, "allreduce")->seconds > 1.6 && find(still, "allreduce")->seconds < 1.8);
    CHECK(find(still, "adpsgd-random")->seconds < 0.9);
    spsh_train_simulation_free(dead);
    spsh_train_simulation_free(still);
}

/* Delays beyond the time limit: the learners that wait give up, and the others continue. */
static void test_what_never_comes(void)
{
    spsh_train_simulation *slow = simulate(EIGHT ",slow=1:1e30x,strategy=allreduce,adpsgd-random");
    spsh_train_simulation *link =
        simulate("learners=2,link=1us+0.0000000001bit,step=20ms,weights=1M,strategy=allreduce");
    CHECK(find(slow, "allreduce")->stopped[0] != '\0');
    CHECK(find(slow, "adpsgd-random")->stopped[0] == '\0');
    CHECK(find(slow, "adpsgd-random")->share > 0.8 && find(slow, "adpsgd-random")->share < 0.9);
    CHECK(find(link, "allreduce")->stopped[0] != '\0');
    spsh_train_simulation_free(slow);
    spsh_train_simulation_free(link);
}

/* `hogwild` needs one node, because it shares memory. `hierarchical` needs nodes of equal size. */
static void test_strategies_of_other_clusters_say_so(void)
{
    spsh_train_simulation *one = simulate("learners=4,node=4,step=1ms,weights=1M,steps=10");
    spsh_train_simulation *odd = simulate("learners=6,node=4,step=1ms,weights=1M,steps=10");
    CHECK(find(one, "hogwild")->share > 0.99 && find(one, "hogwild")->staleness_mean > 2);
    CHECK(find(odd, "hierarchical")->stopped[0] != '\0');
    CHECK(find(odd, "allreduce")->stopped[0] == '\0');
    spsh_train_simulation_free(one);
    spsh_train_simulation_free(odd);
}

TEST_MAIN(unit_train_simulate)
{
    link_stride = test_stride(argc, argv, 3);
    RUN(test_a_cluster_is_read);
    RUN(test_numbers_of_learners);
    RUN(test_what_is_no_cluster);
    RUN(test_what_is_missing_is_asked_for);
    RUN(test_a_slow_learner);
    RUN(test_bytes_are_those_of_the_whole_model);
    RUN(test_nodes_learn_as_fast_as_learners);
    RUN(test_a_seed_has_one_outcome);
    RUN(test_a_scaled_model_is_the_whole_one);
    RUN(test_faults);
    RUN(test_what_never_comes);
    RUN(test_strategies_of_other_clusters_say_so);
    return TEST_RESULT();
}
