/* unit_train_metrics.c: metrics of a run: lines and event files, lines that a resume removes, full
 * disks. */

#include <glob.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>

#include "fault_io.h"
#include "metrics/event_file.h"
#include "metrics/metrics.h"
#include "spsh_test.h"

static char folder[512];

static void make_folder(void)
{
    test_temp_dir(folder, sizeof(folder));
}

static uint8_t *read_all(const char *path, size_t *ret_bytes)
{
    uint8_t *data = NULL;
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, 1 << 24, spsh_allocator_default(), &data,
                              ret_bytes, NULL) == SPSH_OK);
    return data;
}

/* The lines of metrics.jsonl, parsed; each must parse. */
static json_t *read_lines(void)
{
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    size_t size_bytes = 0;
    char *text = (char *)read_all(path, &size_bytes);
    json_t *lines = json_array();
    for (size_t at = 0; at < size_bytes;) {
        size_t end = at;
        while (end < size_bytes && text[end] != '\n')
            end++;
        REQUIRE(end < size_bytes);
        json_t *line = json_loadb(text + at, end - at, 0, NULL);
        REQUIRE(line != NULL);
        REQUIRE(json_array_append_new(lines, line) == 0);
        at = end + 1;
    }
    free(text);
    return lines;
}

static const char *kind_of(const json_t *lines, size_t i)
{
    return json_string_value(json_object_get(json_array_get(lines, i), "kind"));
}

static double real_of(const json_t *lines, size_t i, const char *key)
{
    return json_number_value(json_object_get(json_array_get(lines, i), key));
}

static spsh__step_facts facts_of(uint64_t step)
{
    spsh__step_facts facts = {.step = step,
                              .epoch = 1,
                              .samples = step * 8,
                              .loss = 10.0 / (double)step,
                              .gradient_norm = 2,
                              .rate = 1e-3,
                              .step_s = 0.5,
                              .wait_s = 0.01,
                              .audio_s = 40,
                              .utterances = 8,
                              .sent_bytes = UINT64_C(5000000000) * step,
                              .has_staleness = step == 2,
                              .domain_count = 2};
    facts.staleness[0] = 3;
    facts.staleness[2] = 2;
    facts.domains[0] = (spsh__domain_facts){"read \"speech\"", 3.5, 6};
    facts.domains[1] = (spsh__domain_facts){"", (double)NAN, 0};
    return facts;
}

static spsh__metrics *open_at(uint64_t samples, const spsh_io *io)
{
    const spsh__start_facts start = {.samples = samples,
                                     .step = samples / 8,
                                     .world_size = 2,
                                     .weights = 1000,
                                     .backend = "cpu",
                                     .strategy = "allreduce"};
    spsh__metrics *m = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__metrics_open(folder, &start, io, &m, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    return m;
}

static void put_steps(spsh__metrics *m, uint64_t first, uint64_t end)
{
    for (uint64_t step = first; step < end; step++) {
        const spsh__step_facts facts = facts_of(step);
        CHECK(spsh__metrics_step(m, &facts, NULL) == SPSH_OK);
    }
}

static void test_staleness(void)
{
    static const struct {
        uint64_t changes;
        uint32_t place;
    } of[] = {
        {0,          0 },
        {15,         15},
        {16,         16},
        {31,         16},
        {32,         17},
        {63,         17},
        {64,         18},
        {UINT64_MAX, 18}
    };
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
        CHECK_U64(spsh__metric_staleness(of[i].changes), of[i].place);
}

static void test_lines(void)
{
    make_folder();
    spsh__metrics *m = open_at(0, NULL);
    REQUIRE(m != NULL);
    put_steps(m, 1, 3);
    const spsh__example examples[] = {
        {"u1", "ein <zwei>", "ein \"zwo\""}
    };
    const spsh__evaluation_facts evaluation = {.step = 2,
                                               .samples = 16,
                                               .set = "caf\xe9.spsh:dev", /* a path in Latin-1 */
                                               .loss = (double)INFINITY,
                                               .wer = 0.25,
                                               .utterances = 1,
                                               .words = 2,
                                               .examples = examples,
                                               .example_count = 1};
    CHECK(spsh__metrics_evaluation(m, &evaluation, NULL) == SPSH_OK);
    spsh__metrics_close(m);
    json_t *lines = read_lines();
    CHECK_U64(json_array_size(lines), 4);
    CHECK_STR(kind_of(lines, 0), "start");
    CHECK(real_of(lines, 0, "world_size") == 2);
    CHECK_STR(kind_of(lines, 1), "step");
    CHECK(real_of(lines, 2, "loss") == 5.0);
    CHECK(real_of(lines, 2, "sent_bytes") == 1e10);
    CHECK(json_object_get(json_array_get(lines, 1), "staleness") == NULL);
    json_t *counts = json_pack("[iii]", 3, 0, 2);
    CHECK(json_equal(json_object_get(json_array_get(lines, 2), "staleness"), counts));
    json_decref(counts);
    const double time = real_of(lines, 2, "time") * 1e3; /* to the millisecond */
    CHECK(time > 1.6e12 && fabs(time - round(time)) < 1e-3);
    const json_t *domains = json_object_get(json_array_get(lines, 1), "domains");
    const json_t *quoted = json_object_get(domains, "read \"speech\"");
    CHECK(json_number_value(json_object_get(quoted, "loss")) == 3.5);
    CHECK(json_is_null(json_object_get(json_object_get(domains, ""), "loss")));
    CHECK_STR(kind_of(lines, 3), "evaluation");
    const json_t *set = json_object_get(json_array_get(lines, 3), "set");
    CHECK_STR(json_string_value(set), "caf\xef\xbf\xbd.spsh:dev");
    CHECK(json_is_null(json_object_get(json_array_get(lines, 3), "loss")));
    const json_t *example =
        json_array_get(json_object_get(json_array_get(lines, 3), "examples"), 0);
    CHECK_STR(json_string_value(json_object_get(example, "found")), "ein \"zwo\"");
    json_decref(lines);
    test_remove_tree(folder);
}

static void append_torn(void)
{
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "ab");
    REQUIRE(file != NULL);
    (void)fputs("{\"kind\":\"step\",\"samples\":8,\"st", file);
    REQUIRE(fclose(file) == 0);
}

static void test_resume_cuts(void)
{
    make_folder();
    spsh__metrics *m = open_at(0, NULL);
    REQUIRE(m != NULL);
    put_steps(m, 1, 11);
    spsh__metrics_close(m);
    append_torn();
    m = open_at(4 * 8, NULL);
    REQUIRE(m != NULL);
    put_steps(m, 5, 7);
    spsh__metrics_close(m);
    json_t *lines = read_lines();
    CHECK_U64(json_array_size(lines), 1 + 4 + 1 + 2);
    CHECK(real_of(lines, 4, "samples") == 32);
    CHECK_STR(kind_of(lines, 5), "start");
    CHECK(real_of(lines, 6, "samples") == 40);
    CHECK(json_is_null(json_object_get(json_array_get(lines, 0), "before_time")));
    CHECK(real_of(lines, 5, "before_time") >= real_of(lines, 4, "time"));
    CHECK(real_of(lines, 5, "lost_samples") == 48);
    json_decref(lines);
    test_remove_tree(folder);
}

/* After the checkpoint, four processes ran for 100 s and 100 utterances, then two processes did the
 * same. Between them are a restart, with the losses that it recorded, and 250 s without a process.
 */
static void test_start_tells_what_was_lost(void)
{
    static const char *const old[] = {
        "{\"kind\":\"start\",\"samples\":0,\"time\":1000,\"world_size\":4}",
        "{\"kind\":\"step\",\"samples\":100,\"time\":1100,\"domains\":{\"\\\"lost_s\\\":9\":1}}",
        "{\"kind\":\"step\",\"samples\":200,\"time\":1200}",
        /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one line of the file */
        "{\"kind\":\"start\",\"samples\":200,\"time\":1500,\"world_size\":2,\"before_time\":1250,"
        "\"lost_samples\":30,\"lost_starts\":2,\"lost_s\":50.5,\"lost_process_s\":200,"
        "\"stopped_s\":7,\"backend\":\"cpu\"}",
        "{\"kind\":\"evaluation\",\"samples\":200,\"time\":1540,\"set\":\"\"}",
        "{\"kind\":\"step\",\"samples\":300,\"time\":1600}",
    };
    char path[600];
    make_folder();
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
        (void)fprintf(file, "%s\n", old[i]);
    REQUIRE(fclose(file) == 0);
    append_torn();
    spsh__metrics_close(open_at(104, NULL));
    json_t *lines = read_lines();
    CHECK_U64(json_array_size(lines), 3);
    CHECK(real_of(lines, 2, "before_time") == 1600);
    CHECK(real_of(lines, 2, "lost_samples") == 100 + 30 + 100);
    CHECK(real_of(lines, 2, "lost_starts") == 3);
    CHECK(real_of(lines, 2, "lost_s") == 100 + 50.5 + 100);
    CHECK(real_of(lines, 2, "lost_process_s") == 400 + 200 + 200);
    CHECK(real_of(lines, 2, "stopped_s") == 250 + 7);
    json_decref(lines);
    test_remove_tree(folder);
}

/* Every call fails once, or stops short. All lines in the file are whole, and include all
 * acknowledged lines. */
static void test_full_disk(void)
{
    for (uint64_t fail_at = 0;; fail_at++) {
        make_folder();
        fault_io fault = {
            .fail_at = fail_at, .fail_count = 1, .fail_errno = ENOSPC, .transfer_bytes_max = 50};
        const spsh_io io = fault_io_table(&fault);
        spsh__metrics *m = open_at(0, &io);
        uint64_t put = 0;
        for (uint64_t step = 1; m != NULL && step < 4; step++) {
            const spsh__step_facts facts = facts_of(step);
            const spsh_status rc = spsh__metrics_step(m, &facts, NULL);
            CHECK(rc == SPSH_OK || rc == SPSH_E_NO_SPACE);
            put += rc == SPSH_OK;
        }
        const bool was_open = m != NULL;
        spsh__metrics_close(m);
        CHECK_I64(fault.open_count, 0);
        if (was_open) {
            m = open_at(1000, NULL); /* removes only a torn line */
            REQUIRE(m != NULL);
            spsh__metrics_close(m);
            json_t *lines = read_lines();
            CHECK(json_array_size(lines) >= put + 2);
            json_decref(lines);
        }
        test_remove_tree(folder);
        if (fault.call_count <= fail_at)
            break;
        REQUIRE(fail_at < 1000);
    }
}

/* ---- event files ---- */

static uint64_t get_little_endian(const uint8_t *at, unsigned size_bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < size_bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static uint32_t unmasked(uint64_t crc)
{
    const uint32_t turned = (uint32_t)crc - UINT32_C(0xa282ead8);
    return (turned >> 17) | (turned << 15);
}

static uint8_t *event_file(size_t *ret_bytes)
{
    char pattern[600];
    glob_t found;
    (void)snprintf(pattern, sizeof(pattern), "%s/events.out.tfevents.*", folder);
    REQUIRE(glob(pattern, 0, NULL, &found) == 0);
    CHECK_U64(found.gl_pathc, 1);
    uint8_t *data = read_all(found.gl_pathv[0], ret_bytes);
    globfree(&found);
    return data;
}

static void test_crc(void)
{
    CHECK_U64(spsh__crc32c("123456789", 9), UINT32_C(0xe3069283));
    CHECK_U64(spsh__crc32c("", 0), 0);
}

/* The bytes of an event file, as TensorBoard's readers parse them. */
static void test_event_bytes(void)
{
    make_folder();
    spsh__event_file *file = NULL;
    REQUIRE(spsh__event_file_open(NULL, folder, 1.5e9, 300, NULL, &file, NULL) == SPSH_OK);
    const spsh__scalar scalars[] = {
        {"loss", 1.5        },
        {"no",   (double)NAN},
        {"far",  1e300      }
    };
    CHECK(spsh__event_file_put(file, 1.5e9, 300, scalars, 3, NULL) == SPSH_OK);
    CHECK(spsh__event_file_put(file, 1.5e9, 301, scalars + 1, 2, NULL) ==
          SPSH_OK); /* writes nothing */
    spsh__event_file_close(file);
    /* wall_time 1.5e9; step 300 = ac 02 */
    static const uint8_t time_bytes[] = {0x09, 0, 0, 0, 0xc0, 0x0b, 0x5a, 0xd6, 0x41};
    static const uint8_t start[] = {0x10, 0xac, 0x02, 0x3a, 0x02, 0x08, 0x01};
    static const uint8_t summary[] = {0x10, 0xac, 0x02, 0x2a, 0x0d, 0x0a, 0x0b, 0x0a, 0x04,
                                      'l',  'o',  's',  's',  0x15, 0,    0,    0xc0, 0x3f};
    static const struct {
        const uint8_t *rest;
        size_t size_bytes;
    } wanted[] = {
        {(const uint8_t *)"\x10\0\x1a\x0d"
                          "brain.Event:2", 17             },
        {start,                                     sizeof(start)  },
        {summary,                                   sizeof(summary)}
    };
    size_t size_bytes = 0, at = 0;
    uint8_t *data = event_file(&size_bytes);
    for (size_t i = 0; i < 3; i++) {
        REQUIRE(size_bytes - at >= 12);
        const uint64_t length = get_little_endian(data + at, 8);
        CHECK_U64(unmasked(get_little_endian(data + at + 8, 4)), spsh__crc32c(data + at, 8));
        CHECK_U64(length, sizeof(time_bytes) + wanted[i].size_bytes);
        REQUIRE(size_bytes - at >= 12 + length + 4);
        const uint8_t *message = data + at + 12;
        CHECK_U64(unmasked(get_little_endian(message + length, 4)), spsh__crc32c(message, length));
        CHECK(memcmp(message, time_bytes, sizeof(time_bytes)) == 0);
        CHECK(memcmp(message + sizeof(time_bytes), wanted[i].rest, wanted[i].size_bytes) == 0);
        at += 12 + length + 4;
    }
    CHECK_U64(at, size_bytes);
    free(data);
    test_remove_tree(folder);
}

static void test_long_tags(void)
{
    make_folder();
    spsh__event_file *file = NULL;
    char tag[400];
    memset(tag, 'x', sizeof(tag));
    memcpy(tag + SPSH__EVENT_TAG_MAX - 1, "\xc3\xa4", 2); /* the character is removed as a whole */
    tag[sizeof(tag) - 1] = '\0';
    spsh__scalar scalars[SPSH__EVENT_SCALARS_MAX + 1];
    for (size_t i = 0; i < SPSH__EVENT_SCALARS_MAX + 1; i++)
        scalars[i] = (spsh__scalar){tag, (double)i};
    REQUIRE(spsh__event_file_open(NULL, folder, 1, 0, NULL, &file, NULL) == SPSH_OK);
    CHECK(spsh__event_file_put(file, 1, UINT64_MAX, scalars, SPSH__EVENT_SCALARS_MAX, NULL) ==
          SPSH_OK);
    CHECK(spsh__event_file_put(file, 1, 1, scalars, SPSH__EVENT_SCALARS_MAX + 1, NULL) ==
          SPSH_E_LIMIT);
    spsh__event_file_close(file);
    size_t size_bytes = 0;
    uint8_t *data = event_file(&size_bytes);
    CHECK(size_bytes > SPSH__EVENT_SCALARS_MAX * (SPSH__EVENT_TAG_MAX - 1));
    CHECK(memmem(data, size_bytes, "\xc3", 1) == NULL);
    free(data);
    test_remove_tree(folder);
}

static void test_live_line(void)
{
    (void)setlocale(LC_NUMERIC, "C"); /* messages depend on the locale of the host program */
    char text[160];
    spsh__step_facts facts = facts_of(4);
    facts.left_s = (double)NAN;
    CHECK_STR(spsh__metrics_line(&facts, text, sizeof(text)),
              "epoch 2, loss 2.5, rate 0.001, 16 utterances/s, waited 2.0 %");
    facts.epochs = 12;
    facts.left_s = 3723.9;
    CHECK_STR(spsh__metrics_line(&facts, text, sizeof(text)),
              "epoch 2 of 12, loss 2.5, rate 0.001, 16 utterances/s, waited 2.0 %, ETA 1:02:03");
}

TEST_MAIN(unit_train_metrics)
{
    RUN(test_lines);
    RUN(test_staleness);
    RUN(test_resume_cuts);
    RUN(test_start_tells_what_was_lost);
    RUN(test_full_disk);
    RUN(test_crc);
    RUN(test_event_bytes);
    RUN(test_long_tags);
    RUN(test_live_line);
    return TEST_RESULT();
}
