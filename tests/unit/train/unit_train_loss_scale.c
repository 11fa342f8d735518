/* unit_train_loss_scale.c: the scale of a loss: its start, how it falls and grows, and values from
 * a checkpoint. */
#include <math.h>

#include "run/loss_scale.h"
#include "spsh_test.h"

static void test_is_one_elsewhere(void)
{
    static const spsh__precision precisions[] = {SPSH__FP32, SPSH__TF32, SPSH__BF16};
    for (size_t i = 0; i < 3; i++) {
        spsh__loss_scale s = spsh__loss_scale_start(precisions[i]);
        CHECK(s.scale == 1);
        CHECK(!spsh__loss_scale_step(&s, precisions[i], false));
        for (int step = 0; step < 5000; step++)
            CHECK(!spsh__loss_scale_step(&s, precisions[i], true));
        CHECK(s.scale == 1 && s.good_steps == 0);
    }
}

static void test_falls_to_one(void)
{
    spsh__loss_scale s = spsh__loss_scale_start(SPSH__FP16);
    CHECK(s.scale == 65536);
    for (int i = 15; i >= 0; i--) {
        CHECK(spsh__loss_scale_step(&s, SPSH__FP16, false));
        CHECK(s.scale == ldexp(1, i));
    }
    CHECK(!spsh__loss_scale_step(&s, SPSH__FP16, false)); /* a lower scale would not help */
    CHECK(s.scale == 1);
}

static void test_grows(void)
{
    spsh__loss_scale s = {4, 0};
    for (uint64_t i = 1; i < SPSH__LOSS_SCALE_GOOD; i++)
        CHECK(!spsh__loss_scale_step(&s, SPSH__FP16, true));
    CHECK(s.scale == 4);
    CHECK(spsh__loss_scale_step(&s, SPSH__FP16, false)); /* and the count of good steps is reset */
    CHECK(s.scale == 2 && s.good_steps == 0);
    for (uint64_t i = 0; i < SPSH__LOSS_SCALE_GOOD; i++)
        CHECK(!spsh__loss_scale_step(&s, SPSH__FP16, true));
    CHECK(s.scale == 4 && s.good_steps == 0);
    s = (spsh__loss_scale){SPSH__LOSS_SCALE_MAX, SPSH__LOSS_SCALE_GOOD - 1};
    CHECK(!spsh__loss_scale_step(&s, SPSH__FP16, true));
    CHECK(s.scale == SPSH__LOSS_SCALE_MAX);
}

static void test_resumes(void)
{
    static const struct {
        spsh__loss_scale before;
        spsh__precision precision;
        double want;
        uint64_t good_steps;
    } rows[] = {
        {{512, 77},             SPSH__FP16, 512,   77},
        {{1, 5},                SPSH__FP16, 1,     5 },
        {{512, 77},             SPSH__BF16, 1,     0 },
        {{1, 0},                SPSH__FP16, 65536, 0 }, /* no scale was saved */
        {{3, 0},                SPSH__FP16, 65536, 0 }, /* not valid scales */
        {{0, 1},                SPSH__FP16, 65536, 0 },
        {{-2, 1},               SPSH__FP16, 65536, 0 },
        {{0.5, 1},              SPSH__FP16, 65536, 0 },
        {{33554432, 1},         SPSH__FP16, 65536, 0 },
        {{2, 2000},             SPSH__FP16, 65536, 0 },
        {{(double)NAN, 1},      SPSH__FP16, 65536, 0 },
        {{(double)INFINITY, 1}, SPSH__FP16, 65536, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const spsh__loss_scale s = spsh__loss_scale_resume(&rows[i].before, rows[i].precision);
        CHECK(s.scale == rows[i].want);
        CHECK_U64(s.good_steps, rows[i].good_steps);
    }
}

TEST_MAIN(unit_train_loss_scale)
{
    RUN(test_is_one_elsewhere);
    RUN(test_falls_to_one);
    RUN(test_grows);
    RUN(test_resumes);
    return TEST_RESULT();
}
