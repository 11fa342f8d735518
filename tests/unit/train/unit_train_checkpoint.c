/* unit_train_checkpoint.c: saving and reading checkpoints, choosing the current file, excluding
 * other writers, and every "must" of FORMAT.md section 10. */
#include <pthread.h>

#include "checkpoint/checkpoint_internal.h"
#include "checkpoint_kit.h"
#include "reseal.h"
#include "speechshard/table_file.h"
#include "speechshard/verify.h"
#include "test_file.h"
#include "test_tree.h"

enum { ELEMENTS = 1000, MANY_ELEMENTS = 70000, SECTIONS_MAX = 11 };

static const uint32_t section_ids[SECTIONS_MAX] = {1, 2, 3, 4, 8, 32, 33, 34, 35, 48, 49};

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static void read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    text[fread(text, 1, size - 1, file)] = '\0';
    (void)fclose(file);
}

/* ---- saving and reading ---- */

static void test_round_trip(void)
{
    kit_state s;
    char text[80];
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    kit_make(&s, MANY_ELEMENTS, 12000);
    spsh__checkpoint_writer *writer = kit_writer(at("trip"), 3, NULL);
    CHECK_U64(spsh__checkpoint_writer_generation(writer), 1);
    CHECK_U64(kit_newest(at("trip")), 0);
    kit_put(writer, &s, 12000);
    CHECK_U64(kit_newest(at("trip")), 12000);
    read_text(at("trip/latest"), text, sizeof(text));
    CHECK_STR(text, "000001-000000012000.spsh\n");

    const char *path = at("trip/checkpoints/000001-000000012000.spsh");
    REQUIRE(spsh__checkpoint_open(path, NULL, NULL, NULL, &file, &c, NULL) == SPSH_OK);
    CHECK_U64(c.generation, 1);
    CHECK(kit_is_whole(&c));
    CHECK(strcmp(c.parameters[2].name, "rnn0.w_hh") == 0 && c.parameters[2].decays);
    CHECK(!c.parameters[1].decays && c.parameters[0].shape[2] == 5);
    spsh__checkpoint_close(file);
    spsh__checkpoint_writer_close(writer);
    kit_free(&s);
}

/* A checkpoint without moments, statistics, cursor, strategy, and parameters, and with empty
 * strings. */
static void test_the_least_there_can_be(void)
{
    const float weight = 0.5F;
    const spsh__parameter none;
    spsh__checkpoint c = {.config = "",
                          .vocabulary = "",
                          .weights = &weight,
                          .arena_elements = 1,
                          .parameters = &none};
    spsh__checkpoint read;
    spsh__checkpoint_file *file = NULL;
    spsh__checkpoint_writer *writer = kit_writer(at("least"), 1, NULL);
    CHECK_I64(spsh__checkpoint_put(writer, &c, NULL), SPSH_OK);
    CHECK_I64(spsh__checkpoint_flush(writer, NULL), SPSH_OK);
    spsh__checkpoint_writer_close(writer);
    REQUIRE(spsh__checkpoint_open(at("least"), NULL, NULL, NULL, &file, &read, NULL) == SPSH_OK);
    CHECK(read.moments[0] == NULL && read.moments[1] == NULL);
    CHECK_U64(read.statistics_elements + read.cursor_size + read.strategy_size, 0);
    CHECK(read.arena_elements == 1 && kit_same(read.weights, &weight, sizeof(weight)));
    CHECK_STR(read.config, "");
    spsh__checkpoint_close(file);
}

static void test_what_cannot_be_stored_is_refused(void)
{
    kit_state s;
    kit_make(&s, ELEMENTS, 5);
    spsh__checkpoint_writer *writer = kit_writer(at("refused"), 1, NULL);
    for (int n = 0; n < 10; n++) {
        spsh__checkpoint c = s.c;
        kit_parameters(&s);
        switch (n) {
        case 0: c.config = NULL; break;
        case 1: c.weights = NULL; break;
        case 2: c.arena_elements = UINT64_C(1) << 62; break;
        case 3: c.statistics = NULL; break;
        case 4: s.parameters[1].offset = 29; break;
        case 5: s.parameters[2].offset = 129; break;
        case 6: s.parameters[0].rank = 5; break;
        case 7: s.parameters[0].shape[1] = 4; break;
        case 8: memset(s.parameters[0].name, 'x', sizeof(s.parameters[0].name)); break;
        default: c.cursor = NULL; break;
        }
        CHECK_I64(spsh__checkpoint_put(writer, &c, NULL), SPSH_E_INVALID_ARG);
    }
    kit_parameters(&s);
    kit_put(writer, &s, 6);
    spsh__checkpoint_writer_close(writer);
    kit_free(&s);
}

static spsh_status fill_late(void *user, spsh_error *err)
{
    kit_state *s = (kit_state *)user;
    (void)err;
    kit_fill(s, s->c.samples);
    return SPSH_OK;
}

/* All but the arenas is copied: changes after put do not reach the file. The arenas are complete
 * only when the thread asks for them. Two puts in a row wait. */
static void test_puts_do_not_see_what_comes_later(void)
{
    kit_state s, late;
    kit_make(&s, MANY_ELEMENTS, 1);
    kit_make(&late, MANY_ELEMENTS, 1);
    spsh__checkpoint_writer *writer = kit_writer(at("later"), 0, NULL);
    for (uint64_t samples = 1; samples <= 20; samples++) {
        CHECK_I64(spsh__checkpoint_flush(writer, NULL), SPSH_OK);
        kit_fill(&late, samples + 500);
        kit_fill(&s, samples);
        late.c.samples = samples;
        s.c.arena_elements = late.c.arena_elements;
        s.c.weights = late.arenas[0];
        s.c.moments[0] = late.arenas[1];
        s.c.moments[1] = late.arenas[2];
        s.c.statistics = late.statistics;
        s.c.ready_fn = fill_late;
        s.c.ready_user = &late;
        CHECK_I64(spsh__checkpoint_put(writer, &s.c, NULL), SPSH_OK);
        kit_fill(&s, samples + 1000);
    }
    spsh__checkpoint_writer_close(writer);
    kit_free(&late);
    for (uint64_t samples = 1; samples <= 20; samples++) {
        char path[200];
        spsh__checkpoint c;
        spsh__checkpoint_file *file = NULL;
        (void)snprintf(path, sizeof(path), "later/checkpoints/000001-%012" PRIu64 ".spsh", samples);
        REQUIRE(spsh__checkpoint_open(at(path), NULL, NULL, NULL, &file, &c, NULL) == SPSH_OK);
        CHECK_U64(c.samples, samples);
        CHECK(kit_is_whole(&c));
        spsh__checkpoint_close(file);
    }
    kit_free(&s);
}

/* A second save at the same step replaces the first. */
static void test_the_same_samples_again(void)
{
    kit_state s;
    kit_make(&s, ELEMENTS, 40);
    spsh__checkpoint_writer *writer = kit_writer(at("again"), 2, NULL);
    kit_put(writer, &s, 40);
    s.c.restarts = 9;
    kit_put(writer, &s, 40);
    spsh__checkpoint_writer_close(writer);
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    REQUIRE(spsh__checkpoint_open(at("again"), NULL, NULL, NULL, &file, &c, NULL) == SPSH_OK);
    CHECK_U64(c.restarts, 9);
    spsh__checkpoint_close(file);
    kit_free(&s);
}

static void test_another_model_is_told(void)
{
    kit_state s;
    spsh_error err = SPSH_ERROR_INIT;
    kit_make(&s, ELEMENTS, 1);
    spsh__parameter other[KIT_PARAMETERS];
    memcpy(other, s.parameters, sizeof(other));
    CHECK_I64(spsh__checkpoint_match(&s.c, other, 3, ELEMENTS, KIT_STATISTICS, NULL), SPSH_OK);
    CHECK_I64(spsh__checkpoint_match(&s.c, other, 2, ELEMENTS, KIT_STATISTICS, NULL),
              SPSH_E_MISMATCH);
    CHECK_I64(spsh__checkpoint_match(&s.c, other, 3, ELEMENTS + 1, KIT_STATISTICS, NULL),
              SPSH_E_MISMATCH);
    CHECK_I64(spsh__checkpoint_match(&s.c, other, 3, ELEMENTS, 0, NULL), SPSH_E_MISMATCH);
    other[0].shape[0] = 3, other[0].shape[1] = 2;
    CHECK_I64(spsh__checkpoint_match(&s.c, other, 3, ELEMENTS, KIT_STATISTICS, &err),
              SPSH_E_MISMATCH);
    CHECK(strstr(err.message, "head.weight [2, 3, 5]") != NULL);
    CHECK(strstr(err.message, "head.weight [3, 2, 5]") != NULL);
    kit_free(&s);
}

/* ---- the current file ---- */

static void test_the_newest_and_the_best_are_kept(void)
{
    kit_state s;
    kit_make(&s, ELEMENTS, 1);
    spsh__checkpoint_writer *writer = kit_writer(at("kept"), 2, NULL);
    for (uint64_t samples = 10; samples <= 60; samples += 10) {
        s.c.best_samples = samples < 20 ? samples : 20;
        kit_put(writer, &s, samples);
    }
    spsh__checkpoint_writer_close(writer);
    CHECK(!exists(at("kept/checkpoints/000001-000000000010.spsh")));
    CHECK(exists(at("kept/checkpoints/000001-000000000020.spsh")));
    CHECK(!exists(at("kept/checkpoints/000001-000000000030.spsh")));
    CHECK(!exists(at("kept/checkpoints/000001-000000000040.spsh")));
    CHECK(exists(at("kept/checkpoints/000001-000000000050.spsh")));
    CHECK(exists(at("kept/checkpoints/000001-000000000060.spsh")));
    kit_free(&s);
}

/* If a run returned to an older state and saved, the newest generation is current. */
static void test_generations_come_before_samples(void)
{
    kit_state s;
    kit_make(&s, ELEMENTS, 1);
    spsh__checkpoint_writer *writer = kit_writer(at("order"), 0, NULL);
    kit_put(writer, &s, 900);
    spsh__checkpoint_writer_close(writer);
    writer = kit_writer(at("order"), 0, NULL);
    CHECK_U64(spsh__checkpoint_writer_generation(writer), 2);
    CHECK_U64(kit_newest(at("order")), 900);
    kit_put(writer, &s, 400);
    CHECK_U64(kit_newest(at("order")), 400);
    spsh__checkpoint_writer_close(writer);
    kit_free(&s);
}

/* Files with other names are neither read nor removed. */
static void test_other_files_are_let_alone(void)
{
    static const char *const names[] = {"000009-12.spsh", "000007.generation.old",
                                        "7.generation",   "000001-000000000001.spsh.bak",
                                        "notes.txt",      "99999999999-000000000001.spsh"};
    char path[200];
    kit_state s;
    kit_make(&s, ELEMENTS, 1);
    spsh__checkpoint_writer_close(kit_writer(at("others"), 1, NULL));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "others/checkpoints/%s", names[i]);
        test_file_write(at(path), "x", 1);
    }
    spsh__checkpoint_writer *writer = kit_writer(at("others"), 1, NULL);
    CHECK_U64(spsh__checkpoint_writer_generation(writer), 2);
    kit_put(writer, &s, 3);
    kit_put(writer, &s, 4);
    spsh__checkpoint_writer_close(writer);
    CHECK_U64(kit_newest(at("others")), 4);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "others/checkpoints/%s", names[i]);
        CHECK(exists(at(path)));
    }
    kit_free(&s);
}

static void test_nothing_there(void)
{
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    spsh__checkpoint_writer_close(kit_writer(at("nothing"), 1, NULL));
    CHECK_I64(spsh__checkpoint_open(at("nothing"), NULL, NULL, NULL, &file, &c, NULL),
              SPSH_E_NOT_FOUND);
    CHECK_I64(spsh__checkpoint_open(at("nowhere"), NULL, NULL, NULL, &file, &c, NULL),
              SPSH_E_NOT_FOUND);
    REQUIRE(mkdir(at("bare"), 0777) == 0);
    CHECK_I64(spsh__checkpoint_open(at("bare"), NULL, NULL, NULL, &file, &c, NULL),
              SPSH_E_NOT_FOUND);
    CHECK(file == NULL);
}

/* ---- write permission ---- */

static void test_an_old_process_stops(void)
{
    kit_state s;
    spsh_error err = SPSH_ERROR_INIT;
    char text[80];
    kit_make(&s, ELEMENTS, 1);
    spsh__checkpoint_writer *old = kit_writer(at("fence"), 1, NULL);
    kit_put(old, &s, 100);
    spsh__checkpoint_writer *new = kit_writer(at("fence"), 1, NULL);
    kit_put(new, &s, 50);
    kit_fill(&s, 200);
    CHECK_I64(spsh__checkpoint_put(old, &s.c, NULL), SPSH_OK);
    CHECK_I64(spsh__checkpoint_flush(old, &err), SPSH_E_MISMATCH);
    CHECK(strstr(err.message, "start 2 has taken over") != NULL);
    CHECK_I64(spsh__checkpoint_flush(old, NULL), SPSH_OK); /* reported once */
    CHECK(!exists(at("fence/checkpoints/000001-000000000200.spsh")));
    CHECK_U64(kit_newest(at("fence")), 50);
    read_text(at("fence/latest"), text, sizeof(text));
    CHECK_STR(text, "000002-000000000050.spsh\n");
    spsh__checkpoint_writer_close(old);
    kit_put(new, &s, 60);
    spsh__checkpoint_writer_close(new);
    kit_free(&s);
}

/* Incomplete files of earlier generations are removed. Files of this generation and later ones
 * stay. */
static void test_leftovers_are_swept(void)
{
    spsh__checkpoint_writer_close(kit_writer(at("sweep"), 1, NULL));
    test_file_write(at("sweep/checkpoints/000001-000000000200.spsh.tmp-77-0"), "x", 1);
    test_file_write(at("sweep/checkpoints/000002-000000000200.spsh.tmp-78-0"), "x", 1);
    test_file_write(at("sweep/latest.tmp-77-0"), "x", 1);
    spsh__checkpoint_writer_close(kit_writer(at("sweep"), 1, NULL));
    CHECK(!exists(at("sweep/checkpoints/000001-000000000200.spsh.tmp-77-0")));
    CHECK(exists(at("sweep/checkpoints/000002-000000000200.spsh.tmp-78-0")));
    CHECK(!exists(at("sweep/latest.tmp-77-0")));
    CHECK(!exists(at("sweep/checkpoints/000001.generation")));
    CHECK(exists(at("sweep/checkpoints/000002.generation")));
}

enum { CLAIMERS = 8, CLAIMS = 25 };

static void *claim_many(void *opaque)
{
    uint32_t *claimed = (uint32_t *)opaque;
    char folder[600];
    (void)snprintf(folder, sizeof(folder), "%s/claims/checkpoints", base);
    for (int i = 0; i < CLAIMS; i++) {
        const spsh_io *io = spsh_io_default();
        const spsh_allocator *allocator = spsh_allocator_default();
        CHECK_I64(spsh__checkpoint_claim(folder, io, allocator, &claimed[i], NULL), SPSH_OK);
        spsh__checkpoint_sweep(folder, claimed[i], io, allocator);
    }
    return NULL;
}

static int compare_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* If many processes start at once, no number is claimed twice, and the numbers of each process
 * rise. */
static void test_claims_are_exclusive(void)
{
    static uint32_t claimed[CLAIMERS * CLAIMS];
    pthread_t threads[CLAIMERS];
    spsh__checkpoint_writer_close(kit_writer(at("claims"), 1, NULL));
    for (size_t t = 0; t < CLAIMERS; t++)
        REQUIRE(pthread_create(&threads[t], NULL, claim_many, claimed + t * CLAIMS) == 0);
    for (size_t t = 0; t < CLAIMERS; t++)
        REQUIRE(pthread_join(threads[t], NULL) == 0);
    for (size_t t = 0; t < CLAIMERS; t++)
        for (size_t i = 1; i < CLAIMS; i++)
            CHECK(claimed[t * CLAIMS + i] > claimed[t * CLAIMS + i - 1]);
    qsort(claimed, CLAIMERS * CLAIMS, sizeof(claimed[0]), compare_u32);
    for (size_t i = 1; i < CLAIMERS * CLAIMS; i++)
        CHECK(claimed[i] != claimed[i - 1]);
}

/* ---- rules of the format ---- */

typedef enum change { PATCH, SHORTEN, DROP, ORDINAL, SUB_ORDINAL } change;

typedef struct rule {
    const char *what;
    change change;
    uint32_t section;
    uint32_t offset_bytes; /* PATCH: position; SHORTEN: number of elements to remove */
    uint32_t size_bytes;   /* size of value */
    uint64_t value;
    spsh_status want;
} rule;

static uint32_t width_of(uint32_t id)
{
    switch (id) {
    case 1:
    case 32:
    case 33:
    case 34:
    case 35: return 4;
    case 4: return 8;
    case 8: return 16;
    default: return 1;
    }
}

/* Publish the file's columns with one change and correct checksums. */
static void publish_changed(const char *from, const rule *r)
{
    spsh_table_file *file = NULL;
    spsh_table_column columns[SECTIONS_MAX];
    uint8_t *memory[SECTIONS_MAX];
    uint32_t count = 0;
    REQUIRE(spsh_table_file_open_kind(from, SPSH_TABLE_CHECKPOINT, NULL, NULL, &file, NULL) ==
            SPSH_OK);
    for (size_t i = 0; i < SECTIONS_MAX; i++) {
        const uint32_t id = section_ids[i];
        uint64_t elements = spsh_table_file_count(file, id);
        spsh_bytes bytes = {NULL, 0};
        REQUIRE(spsh_table_file_column(file, id, 0, elements, &bytes, NULL) == SPSH_OK);
        memory[i] = malloc(bytes.size_bytes + 1);
        REQUIRE(memory[i] != NULL);
        memcpy(memory[i], bytes.data, bytes.size_bytes);
        if (id == r->section && r->change == PATCH) {
            REQUIRE(r->offset_bytes + r->size_bytes <= bytes.size_bytes);
            memcpy(memory[i] + r->offset_bytes, &r->value, r->size_bytes);
        }
        if (id == r->section && r->change == SHORTEN)
            elements -= r->offset_bytes;
        if (id != r->section || r->change != DROP)
            columns[count++] = (spsh_table_column){id, width_of(id), elements, memory[i]};
    }
    spsh_table_file_content content = {.directory = at("rules"),
                                       .name = "changed.spsh",
                                       .info = *spsh_table_file_info_get(file),
                                       .columns = columns,
                                       .column_count = count,
                                       .mode = SPSH_PUBLISH_REPLACE};
    if (r->change == ORDINAL)
        content.info.unit = r->value;
    if (r->change == SUB_ORDINAL)
        content.info.number = (uint32_t)r->value;
    CHECK_I64(spsh_table_file_publish(&content, NULL, NULL), SPSH_OK);
    spsh_table_file_close(file);
    for (size_t i = 0; i < SECTIONS_MAX; i++)
        free(memory[i]);
}

static const rule rules[] = {
    {"nothing",                PATCH,       1,  0,              4, 1,          SPSH_OK       },
    {"version",                PATCH,       1,  0,              4, 2,          SPSH_E_VERSION},
    {"version: two of them",   SHORTEN,     1,  1,              0, 0,          SPSH_E_CORRUPT},
    {"zero in the config",     PATCH,       2,  3,              1, 0,          SPSH_E_CORRUPT},
    {"zero in the vocabulary", PATCH,       3,  0,              1, 0,          SPSH_E_CORRUPT},
    {"samples",                PATCH,       4,  0,              8, 71,         SPSH_E_CORRUPT},
    {"generation",             PATCH,       4,  24,             8, 2,          SPSH_E_CORRUPT},
    {"world size",             PATCH,       4,  52,             4, 1,          SPSH_E_CORRUPT},
    {"virtual world",          PATCH,       4,  60,             4, 1,          SPSH_E_CORRUPT},
    {"weights' hash",          PATCH,       4,  72,             4, 5,          SPSH_E_CORRUPT},
    {"counters",               SHORTEN,     4,  1,              0, 0,          SPSH_E_CORRUPT},
    {"header's samples",       ORDINAL,     0,  0,              0, 71,         SPSH_E_CORRUPT},
    {"header's generation",    SUB_ORDINAL, 0,  0,              0, 3,          SPSH_E_CORRUPT},
    {"half a parameter",       SHORTEN,     8,  1,              0, 0,          SPSH_E_CORRUPT},
    {"no name",                PATCH,       8,  0,              8, 0,          SPSH_E_CORRUPT},
    {"behind the name",        PATCH,       8,  63,             1, 'x',        SPSH_E_CORRUPT},
    {"before its predecessor", PATCH,       8,  112 + 64,       8, 29,         SPSH_E_CORRUPT},
    {"leaves the arena",       PATCH,       8,  224 + 64,       8, 129,        SPSH_E_CORRUPT},
    {"far beyond the arena",   PATCH,       8,  224 + 64,       8, UINT64_MAX, SPSH_E_CORRUPT},
    {"count",                  PATCH,       8,  72,             8, 31,         SPSH_E_CORRUPT},
    {"shape",                  PATCH,       8,  80,             4, 3,          SPSH_E_CORRUPT},
    {"shape of 0",             PATCH,       8,  84,             4, 0,          SPSH_E_CORRUPT},
    {"shape beyond rank",      PATCH,       8,  92,             4, 1,          SPSH_E_CORRUPT},
    {"rank 0",                 PATCH,       8,  96,             4, 0,          SPSH_E_CORRUPT},
    {"rank 5",                 PATCH,       8,  96,             4, 5,          SPSH_E_CORRUPT},
    {"rank of all bits",       PATCH,       8,  96,             4, UINT32_MAX, SPSH_E_CORRUPT},
    {"flags",                  PATCH,       8,  100,            4, 2,          SPSH_E_CORRUPT},
    {"reserved",               PATCH,       8,  111,            1, 1,          SPSH_E_CORRUPT},
    {"a weight",               PATCH,       32, 3,              1, 7,          SPSH_E_CORRUPT},
    {"a weight is missing",    SHORTEN,     32, 1,              0, 0,          SPSH_E_CORRUPT},
    {"no weights",             SHORTEN,     32, ELEMENTS,       0, 0,          SPSH_E_CORRUPT},
    {"a moment is missing",    SHORTEN,     33, 1,              0, 0,          SPSH_E_CORRUPT},
    {"a moment is missing",    SHORTEN,     34, 1,              0, 0,          SPSH_E_CORRUPT},
    {"no second moments",      SHORTEN,     34, ELEMENTS,       0, 0,          SPSH_OK       },
    {"no statistics",          SHORTEN,     35, KIT_STATISTICS, 0, 0,          SPSH_OK       },
};

static void test_rules(void)
{
    kit_state s;
    spsh__checkpoint c;
    kit_make(&s, ELEMENTS, 70);
    spsh__checkpoint_writer *writer = kit_writer(at("rules"), 1, NULL);
    kit_put(writer, &s, 70);
    spsh__checkpoint_writer_close(writer);
    const size_t rule_count = sizeof(rules) / sizeof(rules[0]);
    for (size_t i = 0; i < rule_count + SECTIONS_MAX; i++) {
        const rule dropped = {
            "a section", DROP,          section_ids[i < rule_count ? 0 : i - rule_count], 0, 0,
            0,           SPSH_E_CORRUPT};
        const rule *r = i < rule_count ? &rules[i] : &dropped;
        spsh__checkpoint_file *file = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        publish_changed(at("rules/checkpoints/000001-000000000070.spsh"), r);
        const spsh_status rc =
            spsh__checkpoint_open(at("rules/changed.spsh"), NULL, NULL, NULL, &file, &c, &err);
        if (rc != r->want)
            fprintf(stderr, "%s (section %u): %s\n", r->what, r->section, err.message);
        CHECK_I64(rc, r->want);
        CHECK(rc == SPSH_OK || strstr(err.message, "changed.spsh") != NULL);
        spsh__checkpoint_close(file);
    }
    kit_free(&s);
}

/* The bytes between sections must be zero, even if all checksums are correct. */
static void test_gaps_are_zero(void)
{
    uint8_t *data = NULL;
    size_t size = 0;
    uint64_t offset = 0;
    uint64_t count = 0;
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    const char *path = at("rules/changed.spsh");
    publish_changed(at("rules/checkpoints/000001-000000000070.spsh"), &rules[0]);
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, 1 << 20, NULL, &data, &size, NULL) ==
            SPSH_OK);
    memcpy(&offset, data + 4096 + 40 + 8, sizeof(offset)); /* config, the second section */
    memcpy(&count, data + 4096 + 40 + 16, sizeof(count));
    REQUIRE(offset + count < size && data[offset + count] == 0);
    data[offset + count] = 1;
    reseal(data, size);
    test_file_write(path, data, size);
    CHECK_I64(spsh__checkpoint_open(path, NULL, NULL, NULL, &file, &c, NULL), SPSH_E_CORRUPT);
    free(data);
}

/* A fingerprint segment is rejected as a checkpoint, and a checkpoint as a fingerprint segment. */
static void test_kinds_are_kept_apart(void)
{
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    spsh_table_file *table = NULL;
    const spsh_table_file_content content = {
        .directory = base, .name = "segment.spsh", .mode = SPSH_PUBLISH_REPLACE};
    spsh_table_file_content odd = content;
    odd.info.kind = 1;
    REQUIRE(spsh_table_file_publish(&content, NULL, NULL) == SPSH_OK);
    CHECK_I64(spsh__checkpoint_open(at("segment.spsh"), NULL, NULL, NULL, &file, &c, NULL),
              SPSH_E_MISMATCH);
    CHECK_I64(spsh_table_file_open(at("rules/changed.spsh"), NULL, NULL, &table, NULL),
              SPSH_E_MISMATCH);
    CHECK_I64(spsh_table_file_publish(&odd, NULL, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_table_file_open_kind(at("segment.spsh"), 1, NULL, NULL, &table, NULL),
              SPSH_E_INVALID_ARG);
}

/* `speechshard verify FILE` needs no knowledge of checkpoints: every byte has a checksum. */
static void test_verify_reads_them(void)
{
    const char *path = at("trip/checkpoints/000001-000000012000.spsh");
    spsh_verify_options options = SPSH_VERIFY_OPTIONS_INIT;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    options.flags = SPSH_VERIFY_CACHED | SPSH_VERIFY_NO_URING;
    REQUIRE(spsh_verify(path, &options, &result, NULL) == SPSH_OK);
    CHECK_U64(result.damage_count, 0);
    FILE *file = fopen(path, "r+b");
    REQUIRE(file != NULL);
    REQUIRE(fseek(file, 400000, SEEK_SET) == 0 && fputc(0, file) == 0 && fputc(1, file) == 1);
    REQUIRE(fclose(file) == 0);
    REQUIRE(spsh_verify(path, &options, &result, NULL) == SPSH_OK);
    CHECK_U64(result.damage_count, 1);
}

TEST_MAIN(unit_train_checkpoint)
{
    test_temp_dir(base, sizeof(base));
    RUN(test_round_trip);
    RUN(test_the_least_there_can_be);
    RUN(test_what_cannot_be_stored_is_refused);
    RUN(test_puts_do_not_see_what_comes_later);
    RUN(test_the_same_samples_again);
    RUN(test_another_model_is_told);
    RUN(test_the_newest_and_the_best_are_kept);
    RUN(test_generations_come_before_samples);
    RUN(test_other_files_are_let_alone);
    RUN(test_nothing_there);
    RUN(test_an_old_process_stops);
    RUN(test_leftovers_are_swept);
    RUN(test_claims_are_exclusive);
    RUN(test_rules);
    RUN(test_gaps_are_zero);
    RUN(test_kinds_are_kept_apart);
    RUN(test_verify_reads_them);
    test_remove_tree(base);
    return TEST_RESULT();
}
