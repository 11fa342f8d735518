/* prop_key_join.c: candidates compared with a plain double loop over all keys, in any order, with
 * any number of threads, with any memory, on disk or not. Crowds are bounded and connected. Damage
 * and a full disk are reported.
 */
#include "fault_io.h"
#include "join/key_join.h"
#include "spsh_test.h"

enum { PRINTS = 40, KEYS_MAX = 24, BASES = 60, CANDIDATES_MAX = 4096, MEMORY_BYTES = 64 << 20 };
static unsigned rounds = 4; /* with three sets of prints and two failing disks each */

static char directory[512];

typedef struct world {
    spsh__join_mode mode;
    spsh__print_key keys[PRINTS][KEYS_MAX];
    spsh__dense_key dense[PRINTS]
                         [KEYS_MAX]; /* in an audit, only prints from PRINTS / 2 on have them */
    size_t counts[PRINTS];
} world;

typedef struct result {
    spsh__candidate candidates[CANDIDATES_MAX];
    size_t count;
} result;

static bool is_test(const world *all, size_t print)
{
    return all->mode == SPSH__JOIN_AUDIT && print >= PRINTS / 2;
}

static void choose_weak(uint8_t *weak, size_t count, unsigned lowest, uint64_t *state)
{
    for (size_t i = 0; i < count; i++) {
        bool is_new = false;
        while (!is_new) {
            weak[i] = (uint8_t)(lowest + test_random(state) % (SPSH__KEY_BITS - lowest));
            is_new = true;
            for (size_t k = 0; k < i; k++)
                is_new = is_new && weak[k] != weak[i];
        }
    }
}

/* Few different keys, a bit or two apart, so that there are hits of all kinds. Frames are such that
 * an offset is within 2 frames of another one, or far from it. */
static void make_world(world *all, spsh__join_mode mode, uint64_t seed)
{
    uint64_t state = seed;
    uint64_t base[BASES];
    all->mode = mode;
    for (size_t i = 0; i < BASES; i++)
        base[i] = test_random(&state) >> 16;
    for (size_t p = 0; p < PRINTS; p++) {
        all->counts[p] = 1 + test_random(&state) % KEYS_MAX;
        const uint64_t start =
            test_random(&state) % 3 == 0 ? (1 << 20) - 44 : 11 * (test_random(&state) % 9);
        for (size_t i = 0; i < all->counts[p]; i++) {
            spsh__dense_key *key = &all->dense[p][i];
            choose_weak(key->weak, SPSH__DENSE_WEAK, 16, &state);
            choose_weak(all->keys[p][i].weak, SPSH__KEY_WEAK_MAX, 0, &state);
            key->bits = base[test_random(&state) % BASES];
            for (uint64_t flips = test_random(&state) % 3; flips > 0; flips--) {
                const uint8_t *weak = is_test(all, p) ? key->weak : all->keys[p][i].weak;
                key->bits ^= UINT64_C(1) << weak[test_random(&state) % SPSH__KEY_WEAK_MAX];
            }
            key->frame = start + i * 11 + test_random(&state) % 2;
            all->keys[p][i].bits = key->bits;
            all->keys[p][i].frame = key->frame;
        }
    }
}

static spsh_status add_world(spsh__key_join *join, const world *all, uint64_t order,
                             spsh_error *err)
{
    static const size_t steps[] = {1, 1, 3, 7}; /* without a factor in common with PRINTS */
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < PRINTS; i++) {
        const size_t p = (size_t)((i * steps[order] + order) % PRINTS);
        rc = is_test(all, p) ? spsh__key_join_add_test(join, p, all->dense[p], all->counts[p], err)
                             : spsh__key_join_add(join, p, all->keys[p], all->counts[p], err);
    }
    return rc;
}

static spsh__key_join *open_join(spsh__join_mode mode, const spsh_io *io, uint32_t threads)
{
    const spsh__key_join_options options = {.mode = mode,
                                            .io = io,
                                            .temporary_path = directory,
                                            .memory_bytes = MEMORY_BYTES,
                                            .threads = threads};
    spsh__key_join *join = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(spsh__key_join_open(&options, &join, &err) == SPSH_OK);
    return join;
}

static void run_join(const world *all, uint64_t order, uint32_t threads, result *ret)
{
    spsh__key_join *join = open_join(all->mode, NULL, threads);
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    ret->count = 0;
    REQUIRE(add_world(join, all, order, &err) == SPSH_OK);
    while ((rc = spsh__key_join_next(join, &ret->candidates[ret->count], &err)) == SPSH_OK)
        REQUIRE(++ret->count < CANDIDATES_MAX);
    CHECK_I64(rc, SPSH_E_END);
    CHECK_I64(spsh__key_join_add(join, 0, all->keys[0], 1, &err), SPSH_E_INVALID_ARG);
    spsh__key_join_free(join);
}

/* ---- the expected result, computed directly ---- */

/* Enumerate every bit pattern that a key represents. */
static size_t patterns(const uint8_t *weak, size_t count, uint64_t bits, bool is_all, uint64_t *dst)
{
    size_t made = 0;
    for (uint32_t way = 0; way < 1U << count; way++) {
        if (!is_all && (way & (way - 1)) != 0)
            continue;
        dst[made] = bits;
        for (size_t i = 0; i < count; i++)
            if ((way >> i & 1) != 0)
                dst[made] ^= UINT64_C(1) << weak[i];
        made++;
    }
    return made;
}

static size_t patterns_of(const world *all, size_t print, size_t i, uint64_t *dst)
{
    const unsigned dropped = all->mode == SPSH__JOIN_MILD ? 0 : 16;
    uint8_t weak[SPSH__DENSE_WEAK];
    size_t count = 0;
    const bool test = is_test(all, print);
    for (size_t w = 0; w < (test ? SPSH__JOIN_AUDIT_WEAK : SPSH__KEY_WEAK_MAX); w++) {
        const uint8_t place = test ? all->dense[print][i].weak[w] : all->keys[print][i].weak[w];
        if (place >= dropped)
            weak[count++] = (uint8_t)(place - dropped);
    }
    return patterns(weak, count, all->keys[print][i].bits >> dropped,
                    test || all->mode != SPSH__JOIN_AUDIT, dst);
}

static bool is_hit(const world *all, size_t a, size_t i, size_t b, size_t k)
{
    uint64_t left[64];
    uint64_t right[64];
    const size_t left_count = patterns_of(all, a, i, left);
    const size_t right_count = patterns_of(all, b, k, right);
    for (size_t x = 0; x < left_count; x++)
        for (size_t y = 0; y < right_count; y++)
            if (left[x] == right[y])
                return true;
    return false;
}

enum { SPAN = 1 << 21 };

/* Distinct frames of a that have a hit with b within 3 of an offset. */
static uint32_t count_votes(const world *all, size_t a, size_t b, int64_t offset)
{
    uint32_t votes = 0;
    for (size_t i = 0; i < all->counts[a]; i++) {
        bool has_hit = false;
        for (size_t k = 0; k < all->counts[b] && !has_hit; k++) {
            const int64_t at = (int64_t)all->keys[b][k].frame - (int64_t)all->keys[a][i].frame;
            has_hit = at >= offset - 3 && at <= offset + 3 && is_hit(all, a, i, b, k);
        }
        votes += has_hit;
    }
    return votes;
}

static bool has_offset(const result *found, size_t a, size_t b, int64_t offset, int64_t reach)
{
    for (size_t i = 0; i < found->count; i++) {
        const spsh__candidate *c = &found->candidates[i];
        if (c->a == a && c->b == b && c->offset >= offset - reach && c->offset <= offset + reach)
            return true;
    }
    return false;
}

/* Every candidate has the votes that it states. Every offset with enough votes belongs to a
 * candidate. */
static void check_pair(const world *all, const result *found, size_t a, size_t b)
{
    const size_t few = all->mode == SPSH__JOIN_MILD ? 16 : 8;
    const uint32_t least = all->counts[a] < few || all->counts[b] < few ? 1 : 2;
    for (size_t i = 0; i < all->counts[a]; i++) {
        for (size_t k = 0; k < all->counts[b]; k++) {
            const int64_t at = (int64_t)all->keys[b][k].frame - (int64_t)all->keys[a][i].frame;
            if (is_hit(all, a, i, b, k) && count_votes(all, a, b, at) >= least)
                CHECK(has_offset(found, a, b, at, 2));
        }
    }
    for (size_t i = 0; i < found->count; i++) {
        const spsh__candidate *c = &found->candidates[i];
        if (c->a != a || c->b != b)
            continue;
        CHECK(c->votes >= least);
        CHECK_U64(c->votes, count_votes(all, a, b, c->offset));
    }
}

static void check_against_loop(const world *all, const result *found)
{
    for (size_t a = 0; a < PRINTS; a++) {
        for (size_t b = 0; b < PRINTS; b++) {
            const bool is_pair =
                all->mode == SPSH__JOIN_AUDIT ? !is_test(all, a) && is_test(all, b) : a < b;
            if (is_pair)
                check_pair(all, found, a, b);
            else
                CHECK(!has_offset(found, a, b, 0, SPAN));
        }
    }
    for (size_t i = 1; i < found->count; i++) {
        const spsh__candidate *x = &found->candidates[i - 1];
        const spsh__candidate *y = &found->candidates[i];
        CHECK(x->a < y->a ||
              (x->a == y->a && (x->b < y->b || (x->b == y->b && x->offset < y->offset))));
    }
}

static bool is_same(const result *x, const result *y)
{
    bool same = x->count == y->count;
    for (size_t i = 0; same && i < x->count; i++) {
        const spsh__candidate *c = &x->candidates[i];
        const spsh__candidate *d = &y->candidates[i];
        same = c->a == d->a && c->b == d->b && c->offset == d->offset && c->votes == d->votes;
    }
    return same;
}

static void test_against_loop(void)
{
    static world all;
    static result found;
    static result again;
    size_t total = 0;
    uint64_t seed = test_seed(1);
    for (unsigned round = 0; round < 3 * rounds; round++) {
        make_world(&all, (spsh__join_mode)(round % 3), seed + round);
        run_join(&all, 0, 1, &found);
        total += found.count;
        check_against_loop(&all, &found);
        for (uint32_t threads = 2; threads <= 3; threads++) {
            run_join(&all, threads, threads, &again);
            CHECK(is_same(&again, &found));
        }
    }
    printf("%zu candidates\n", total);
    CHECK(total > 250 * rounds);
}

/* ---- many keys: planted copies among noise, on disk ---- */

enum { EACH = 16, PLANTED = 200 };
static uint64_t many = 40000;

static void make_noise(uint64_t print, spsh__print_key keys[EACH])
{
    uint64_t state = print * 977 + 5;
    for (size_t i = 0; i < EACH; i++) {
        /* In one partition, so that it does not fit into a thread's memory. */
        keys[i] = (spsh__print_key){.bits = test_random(&state) >> 26, .frame = i * 17};
        choose_weak(keys[i].weak, SPSH__KEY_WEAK_MAX, 0, &state);
    }
}

static spsh_status add_many(spsh__key_join *join, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t print = 0; rc == SPSH_OK && print < many; print++) {
        spsh__print_key keys[EACH];
        /* Print 2 n + 1 is a copy of 2 n, 100 frames later, for the first of them. */
        const bool is_copy = print < 2 * PLANTED && print % 2 == 1;
        make_noise(is_copy ? print - 1 : print, keys);
        for (size_t i = 0; is_copy && i < EACH; i++) {
            keys[i].frame += 100;
            keys[i].bits ^= i % 2 == 0 ? UINT64_C(1) << keys[i].weak[i % 3] : 0;
        }
        rc = spsh__key_join_add(join, print, keys, EACH, err);
    }
    return rc;
}

static void test_on_disk(void)
{
    spsh__key_join *join = open_join(SPSH__JOIN_MILD, NULL, 2);
    spsh__candidate got = {0};
    spsh__join_facts facts;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    uint64_t count = 0;

    REQUIRE(add_many(join, &err) == SPSH_OK);
    while ((rc = spsh__key_join_next(join, &got, &err)) == SPSH_OK) {
        CHECK(got.a == 2 * count && got.b == got.a + 1 && got.offset == 100);
        CHECK_U64(got.votes, EACH);
        count++;
    }
    CHECK_I64(rc, SPSH_E_END);
    CHECK_U64(count, PLANTED);
    spsh__key_join_facts(join, &facts);
    CHECK_U64(facts.key_count, many * EACH);
    CHECK(facts.probe_count == many * EACH * 8);
    CHECK(facts.spilled_bytes > facts.probe_count * 8); /* keys and probes were spilled */
    CHECK(facts.candidate_count == PLANTED && facts.hit_count >= PLANTED * EACH);
    spsh__key_join_free(join);
}

/* One clip occurs many times: each print is a candidate with some others, and the work stays
 * proportional to the number of prints. */
static void test_crowd(void)
{
    enum { CROWD_MAX = 20000 };
    static uint64_t parent[CROWD_MAX];
    const size_t crowd = many / 2;
    spsh__key_join *join = open_join(SPSH__JOIN_MILD, NULL, 2);
    spsh__print_key keys[EACH];
    spsh__candidate got = {0};
    spsh__join_facts facts;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    size_t parts = crowd;

    make_noise(1, keys);
    for (uint64_t print = 0; print < crowd; print++) {
        parent[print] = print;
        REQUIRE(spsh__key_join_add(join, print, keys, EACH, &err) == SPSH_OK);
    }
    while ((rc = spsh__key_join_next(join, &got, &err)) == SPSH_OK) {
        CHECK(got.offset == 0 && got.votes == EACH);
        uint64_t a = got.a;
        uint64_t b = got.b;
        while (parent[a] != a)
            a = parent[a];
        while (parent[b] != b)
            b = parent[b];
        parts -= a != b;
        parent[b] = a;
    }
    CHECK_I64(rc, SPSH_E_END);
    CHECK_U64(parts, 1);
    spsh__key_join_facts(join, &facts);
    CHECK(facts.crowded_count >= EACH);
    CHECK(facts.hit_count <= crowd * EACH * 17);
    spsh__key_join_free(join);
}

/* A held tone agrees with itself at every offset: a few of them are enough. */
static void test_tone(void)
{
    enum { LONG = 400 };
    spsh__key_join *join = open_join(SPSH__JOIN_DEEP, NULL, 1);
    spsh__print_key keys[LONG];
    spsh__candidate got = {0};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    size_t count = 0;
    int64_t last = INT64_MIN;

    for (size_t i = 0; i < LONG; i++)
        keys[i] = (spsh__print_key){
            .bits = UINT64_C(0x123456789abc), .frame = 4 * i, .weak = {1, 20, 47}
        };
    for (uint64_t print = 0; print < 2; print++)
        REQUIRE(spsh__key_join_add(join, print, keys, 20, &err) == SPSH_OK);
    while ((rc = spsh__key_join_next(join, &got, &err)) == SPSH_OK) {
        CHECK(got.offset > last && got.votes >= 2 && got.votes <= 20);
        CHECK(got.offset != 0 || got.votes == 20);
        last = got.offset;
        count++;
    }
    CHECK_I64(rc, SPSH_E_END);
    CHECK(count >= 8 && count <= 16);
    spsh__key_join_free(join);

    /* A longer tone is a crowd. */
    join = open_join(SPSH__JOIN_DEEP, NULL, 1);
    for (uint64_t print = 0; print < 2; print++)
        REQUIRE(spsh__key_join_add(join, print, keys, LONG, &err) == SPSH_OK);
    while ((rc = spsh__key_join_next(join, &got, &err)) == SPSH_OK)
        count++;
    CHECK_I64(rc, SPSH_E_END);
    spsh__key_join_free(join);
}

/* ---- the disk ---- */

static spsh_status run_many(const spsh_io *io, uint32_t threads, spsh_error *err)
{
    spsh__key_join *join = open_join(SPSH__JOIN_MILD, io, threads);
    spsh__candidate got = {0};
    spsh_status rc = add_many(join, err);
    uint64_t count = 0;
    while (rc == SPSH_OK) {
        rc = spsh__key_join_next(join, &got, err);
        count += rc == SPSH_OK;
    }
    if (rc == SPSH_E_END)
        CHECK_U64(count, PLANTED);
    else
        CHECK_I64(spsh__key_join_next(join, &got, NULL), rc);
    spsh__key_join_free(join);
    return rc;
}

static void test_disk_failures(void)
{
    fault_io fault = {.fail_at = UINT64_MAX, .transfer_bytes_max = 5000};
    spsh_io io = fault_io_table(&fault);
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t state = test_seed(3);
    CHECK_I64(run_many(&io, 1, &err), SPSH_E_END); /* short transfers */
    const uint64_t calls = fault.call_count / 2;   /* prints with memory to spare come last */
    for (unsigned round = 0; round < 2 * rounds; round++) {
        fault = (fault_io){.fail_at = round < 2 ? round : test_random(&state) % calls,
                           .fail_count = UINT64_MAX,
                           .fail_errno = round % 2 == 0 ? ENOSPC : EIO};
        io = fault_io_table(&fault);
        const spsh_status rc = run_many(&io, 1 + round % 2, &err);
        if (fault.call_count > fault.fail_at) {
            CHECK_I64(rc, round % 2 == 0 ? SPSH_E_NO_SPACE : SPSH_E_IO);
            CHECK(strstr(err.message, directory) != NULL);
        }
        CHECK_I64(fault.open_count, 0);
    }
}

/* Candidates from other sources are merged in order; equal offsets appear once. */
static void test_candidates_from_elsewhere(void)
{
    static const spsh__candidate added[] = {
        {7, 2, -5, 9      },
        {0, 9, 4,  1 << 21},
        {7, 2, 90, 4      },
        {7, 2, -3, 8      },
        {0, 1, 3,  4      },
    };
    spsh__key_join *join = open_join(SPSH__JOIN_AUDIT, NULL, 2);
    const spsh__dense_key test = {
        .bits = 5, .frame = 10, .weak = {16, 17, 18, 19, 20, 21}
    };
    const spsh__print_key train = {
        .bits = 5, .frame = 30, .weak = {1, 2, 3}
    };
    spsh__candidate got = {0};
    spsh_error err = SPSH_ERROR_INIT;
    for (size_t i = 0; i < 5; i++)
        REQUIRE(spsh__key_join_add_candidate(join, &added[i], &err) == SPSH_OK);
    REQUIRE(spsh__key_join_add(join, 3, &train, 1, &err) == SPSH_OK);
    REQUIRE(spsh__key_join_add_test(join, 1, &test, 1, &err) == SPSH_OK);
    static const spsh__candidate want[] = {
        {0, 1, 3,   4            },
        {0, 9, 4,   (1 << 20) - 1},
        {3, 1, -20, 1            },
        {7, 2, -5,  9            },
        {7, 2, 90,  4            },
    };
    for (size_t i = 0; i < 5; i++) {
        REQUIRE(spsh__key_join_next(join, &got, &err) == SPSH_OK);
        CHECK(got.a == want[i].a && got.b == want[i].b && got.offset == want[i].offset);
        CHECK_U64(got.votes, want[i].votes);
    }
    CHECK_I64(spsh__key_join_next(join, &got, &err), SPSH_E_END);
    CHECK_I64(spsh__key_join_next(join, &got, &err), SPSH_E_END);
    CHECK_I64(spsh__key_join_add_candidate(join, &added[0], &err), SPSH_E_INVALID_ARG);
    spsh__key_join_free(join);
}

/* The disk space that is stated before the join starts is sufficient. Keys have random weak bits,
 * and there are enough of them to be spilled. */
static void test_space(void)
{
    const uint64_t utterances = 3 * many;
    spsh__key_join *join = open_join(SPSH__JOIN_MILD, NULL, 1);
    spsh__print_key keys[EACH];
    spsh__candidate got = {0};
    spsh__join_facts facts;
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t state = test_seed(5);
    for (uint64_t print = 0; print < utterances; print++) {
        for (size_t i = 0; i < EACH; i++) {
            keys[i] = (spsh__print_key){.bits = test_random(&state) >> 16, .frame = i * 17};
            /* 0.64 of the three weak bits are among the upper ten, as measured */
            choose_weak(keys[i].weak, SPSH__KEY_WEAK_MAX, 0, &state);
        }
        REQUIRE(spsh__key_join_add(join, print, keys, EACH, &err) == SPSH_OK);
    }
    CHECK_I64(spsh__key_join_next(join, &got, &err), SPSH_E_END);
    spsh__key_join_facts(join, &facts);
    const double told =
        (double)spsh__key_join_space(SPSH__JOIN_MILD, utterances * EACH, 0, MEMORY_BYTES);
    printf("%.1f MiB, stated %.1f\n", (double)facts.spilled_bytes / 1048576, told / 1048576);
    CHECK(told > 0.9 * (double)facts.spilled_bytes && told < 1.1 * (double)facts.spilled_bytes);
    CHECK_U64(spsh__key_join_space(SPSH__JOIN_MILD, 1000, 0, MEMORY_BYTES), 0);
    spsh__key_join_free(join);
}

static void test_limits(void)
{
    spsh__key_join *join = open_join(SPSH__JOIN_MILD, NULL, 1);
    spsh__print_key key = {
        .bits = 1, .frame = SPSH__JOIN_FRAMES_MAX - 1, .weak = {0, 1, 2}
    };
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh__key_join_add(join, SPSH__JOIN_PRINTS_MAX - 1, &key, 1, &err), SPSH_OK);
    key.frame = 0;
    CHECK_I64(spsh__key_join_add(join, 0, &key, 1, &err), SPSH_OK);
    spsh__candidate got = {0};
    CHECK_I64(spsh__key_join_next(join, &got, &err), SPSH_OK);
    CHECK(got.a == 0 && got.b == SPSH__JOIN_PRINTS_MAX - 1);
    CHECK_I64(got.offset, SPSH__JOIN_FRAMES_MAX - 1);
    CHECK_I64(spsh__key_join_next(join, &got, &err), SPSH_E_END);
    spsh__key_join_free(join);

    join = open_join(SPSH__JOIN_MILD, NULL, 1);
    CHECK_I64(spsh__key_join_add(join, SPSH__JOIN_PRINTS_MAX, &key, 1, &err), SPSH_E_LIMIT);
    spsh__key_join_free(join);
    join = open_join(SPSH__JOIN_MILD, NULL, 1);
    key.frame = SPSH__JOIN_FRAMES_MAX;
    CHECK_I64(spsh__key_join_add(join, 0, &key, 1, &err), SPSH_E_LIMIT);
    spsh__key_join_free(join);
    join = open_join(SPSH__JOIN_DEEP, NULL, 1);
    const spsh__dense_key dense = {
        .bits = 1, .weak = {16, 17, 18, 19, 20, 21}
    };
    CHECK_I64(spsh__key_join_add_test(join, 0, &dense, 1, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__key_join_next(join, &got, &err), SPSH_E_END); /* nothing added */
    spsh__key_join_free(join);
}

TEST_MAIN(prop_key_join)
{
    if (test_wants_fewer(argc, argv)) {
        rounds = 1;
        many /= 2; /* still more than fit into memory */
    }
    test_temp_dir(directory, sizeof(directory));
    RUN(test_against_loop);
    RUN(test_on_disk);
    RUN(test_crowd);
    RUN(test_tone);
    RUN(test_candidates_from_elsewhere);
    RUN(test_space);
    RUN(test_limits);
    CHECK(rmdir(directory) == 0); /* fails if a test left a file in it */
    REQUIRE(mkdir(directory, 0700) == 0);
    RUN(test_disk_failures);
    test_remove_tree(directory); /* may hold a file whose unlink was made to fail */
    return TEST_RESULT();
}
