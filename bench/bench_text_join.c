/* bench_text_join.c: a small test side of transcripts joined with a very large train side, and a
 * very large set of transcripts joined with itself.
 *
 *     bench_text_join audit TRAIN-ROWS TEST-ROWS [THREADS [plain|accents]]
 *     bench_text_join self ROWS MEMORY-MB TEMPORARY-FOLDER
 *
 * Rows are generated on demand: sentences of 8 to 14 words of a vocabulary with the frequencies of
 * language. Every fifth sentence is one that many speakers read. `accents` puts letters outside
 * ASCII into each. Of each 1,000 train rows, one is a test text with other case and punctuation
 * (exact), one has a word replaced, one has a letter replaced (near), and one is inside a longer
 * text (covered). The program prints how many of these are found, and the times. `self` brings
 * equal texts of all rows together by an external sort of 128 bits, 88 of the hash and 40 of the
 * row.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "bench_kit.h"
#include "records/hash_map.h"
#include "records/sort128.h"
#include "text/text_cover.h"
#include "text/text_index.h"
#include "text/text_near.h"

enum { WORDS = 50000, DRAWS = 1 << 16, TEXT_BYTES = 400, THREADS_MAX = 64, PIECE = 4096 };
enum { PART_ROWS = 500000, KEEP = 10 };

static char words[WORDS][16];
static uint32_t draws[DRAWS]; /* words, as frequent as in language */
static bool with_accents;

static void make_words(void)
{
    static const char *const plain[] = {"th", "an", "er", "on", "re", "st", "al", "i",
                                        "in", "e",  "o",  "ou", "t",  "en", "w",  "l"};
    static const char *const accents[] = {"th",       "\xc3\xa4n", "er", "on", "r\xc3\xa9", "st",
                                          "al",       "i",         "in", "e",  "\xc3\xb6",  "ou",
                                          "\xc3\x9f", "en",        "w",  "l"};
    uint64_t random = 7;
    for (size_t i = 0; i < WORDS; i++) {
        size_t size = 0;
        for (size_t n = 1 + (size_t)(next_random(&random) % 5); n > 0; n--)
            size += (size_t)snprintf(words[i] + size, sizeof(words[i]) - size, "%s",
                                     (with_accents ? accents : plain)[next_random(&random) % 16]);
    }
    double sum = 0, at = 0;
    for (size_t i = 0; i < WORDS; i++)
        sum += 1 / (double)(i + 3);
    for (size_t i = 0, to = 0; i < WORDS; i++) {
        at += 1 / (double)(i + 3) / sum * DRAWS;
        while (to < DRAWS && (double)to < at)
            draws[to++] = (uint32_t)i;
    }
}

/* Append `count` words. Return the new size. */
static size_t add_words(uint64_t *random, size_t count, size_t size, char *text)
{
    for (; count > 0; count--) {
        const char *word = words[draws[next_random(random) % DRAWS]];
        if (size > 0)
            text[size++] = ' ';
        for (; *word != '\0'; word++)
            text[size++] = *word;
    }
    return size;
}

static size_t sentence(uint64_t number, char *text)
{
    uint64_t random = mix64(number + 1);
    return add_words(&random, 8 + (size_t)(next_random(&random) % 7), 0, text);
}

static size_t test_text(uint64_t number, char *text)
{
    return sentence(UINT64_C(1) << 62 | number, text);
}

typedef enum planted { PLANTED_EXACT, PLANTED_WORD, PLANTED_LETTER, PLANTED_COVERED } planted;

/* Make a train row that leaks a test text. */
static size_t leak(planted kind, uint64_t number, char *text)
{
    char whole[TEXT_BYTES];
    uint64_t random = mix64(number);
    const size_t bytes = test_text(number, whole);
    size_t size = 0;
    if (kind == PLANTED_COVERED)
        size = add_words(&random, 9, 0, text);
    if (size > 0)
        text[size++] = ' ';
    memcpy(text + size, whole, bytes);
    size += bytes;
    if (kind == PLANTED_EXACT) {
        text[0] = (char)(text[0] >= 'a' ? text[0] - 'a' + 'A' : text[0]);
        text[size++] = '.';
    } else if (kind == PLANTED_LETTER) {
        size_t at = bytes / 2;
        while (at > 0 && (uint8_t)text[at] >= 0x80)
            at--;
        text[at] = text[at] == 'x' ? 'y' : 'x';
    } else if (kind == PLANTED_WORD) {
        /* The first word of the second half. */
        const char *begin = memchr(whole + bytes / 2, ' ', bytes - bytes / 2);
        const size_t from = begin == NULL ? bytes : (size_t)(begin - whole);
        const char *end = begin == NULL ? NULL : memchr(begin + 1, ' ', bytes - from - 1);
        size = add_words(&random, 1, from, text);
        if (end != NULL) {
            memcpy(text + size, end, bytes - (size_t)(end - whole));
            size += bytes - (size_t)(end - whole);
        }
    }
    return size;
}

static uint64_t train_rows, test_rows;

static size_t train_text(uint64_t ordinal, char *text)
{
    if (ordinal % 1000 < 4 && test_rows > 0)
        return leak((planted)(ordinal % 1000), ordinal / 1000 % test_rows, text);
    if (ordinal % 5 == 4)
        return sentence(mix64(ordinal) % (train_rows / 100 + 1), text);
    return sentence(ordinal, text);
}

static double process_seconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double peak_mb(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1000;
}

/* ---- audit ---- */

static spsh__text_index *text_index;
static atomic_uint_fast64_t next_row;
static atomic_uint_fast64_t checksum;

static void *probe_rows(void *user)
{
    char text[TEXT_BYTES];
    spsh__text_probe *probe = NULL;
    spsh_error error = SPSH_ERROR_INIT;
    uint64_t sum = 0;
    if (user != NULL)
        must(spsh__text_probe_open(text_index, &probe, &error) == SPSH_OK, error.message);
    for (;;) {
        const uint64_t first = atomic_fetch_add(&next_row, PIECE);
        for (uint64_t i = first; i < first + PIECE && i < train_rows; i++) {
            bool is_empty = false;
            const spsh_bytes row = {(const uint8_t *)text, train_text(i, text)};
            sum += row.size_bytes + row.data[row.size_bytes / 2];
            if (probe != NULL)
                must(spsh__text_probe_text(probe, i, row, &is_empty, &error) == SPSH_OK,
                     error.message);
        }
        if (first >= train_rows)
            break;
    }
    spsh__text_probe_free(probe);
    atomic_fetch_add(&checksum, sum);
    return NULL;
}

/* Return processor seconds. user NULL: only make the rows. */
static double run_threads(unsigned threads, void *user, double *ret_wall_s)
{
    pthread_t ids[THREADS_MAX];
    const double begin = process_seconds();
    const double wall = now_ms();
    atomic_store(&next_row, 0);
    for (unsigned t = 0; t < threads; t++)
        must(pthread_create(&ids[t], NULL, probe_rows, user) == 0, "thread");
    for (unsigned t = 0; t < threads; t++)
        must(pthread_join(ids[t], NULL) == 0, "thread");
    *ret_wall_s = (now_ms() - wall) / 1e3;
    return process_seconds() - begin;
}

static void print_found(void)
{
    static const char *const names[] = {"exact", "near", "covered"};
    uint64_t counts[SPSH__TEXT_TIERS] = {0};
    for (uint32_t i = 0; i < spsh__text_index_count(text_index); i++) {
        for (unsigned tier = 0; tier < SPSH__TEXT_TIERS; tier++) {
            const spsh__hit *hits = NULL;
            uint32_t kept = 0;
            counts[tier] +=
                spsh__text_index_hits(text_index, (spsh__text_tier)tier, i, &hits, &kept);
        }
    }
    const uint64_t each = train_rows / 1000;
    for (unsigned tier = 0; tier < SPSH__TEXT_TIERS; tier++)
        printf("  \"%s_found\": %" PRIu64 ", \"%s_planted\": %" PRIu64 ",\n", names[tier],
               counts[tier], names[tier], tier == SPSH__TEXT_NEAR ? 2 * each : each);
}

/* Time of each step on one thread, with rows made beforehand. */
static void print_parts(void)
{
    static uint64_t ends[PART_ROWS + 1];
    spsh__builder texts = {0};
    spsh__builder normal = {0};
    spsh__text_near *near = spsh__text_near_new(SPSH_TEXT_PROFILE_DEFAULT);
    spsh__text_cover *cover = spsh__text_cover_new();
    char text[TEXT_BYTES];
    uint64_t sum = 0;
    must(near != NULL && cover != NULL, "memory");
    for (uint32_t i = 0; i < test_rows; i++) {
        const spsh_bytes row = {(const uint8_t *)text, test_text(i, text)};
        check_ok(spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, row, &normal, &failure));
        check_ok(spsh__text_near_add(near, i, spsh__builder_bytes(&normal), &failure));
        check_ok(spsh__text_cover_add(cover, i, spsh__builder_bytes(&normal), &failure));
    }
    check_ok(spsh__text_near_finish(near, &failure));
    check_ok(spsh__text_cover_finish(cover, &failure));
    spsh__near_probe *near_probe = spsh__near_probe_new(near);
    spsh__cover_probe *cover_probe = spsh__cover_probe_new(cover);
    must(near_probe != NULL && cover_probe != NULL, "memory");

    double times[4] = {cpu_seconds()};
    for (uint32_t i = 0; i < PART_ROWS; i++) {
        const spsh_bytes row = {(const uint8_t *)text, sentence(i, text)};
        check_ok(spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, row, &normal, &failure));
        sum += spsh__hash_of(spsh__builder_bytes(&normal)).low;
        spsh__builder_append_bytes(&texts, spsh__builder_bytes(&normal));
        ends[i + 1] = texts.size_bytes;
    }
    times[1] = cpu_seconds();
    for (uint32_t i = 0; i < PART_ROWS; i++) {
        const spsh__near_text *found = NULL;
        bool is_crowded = false;
        const spsh_bytes row = {texts.data + ends[i], (size_t)(ends[i + 1] - ends[i])};
        sum += spsh__near_probe_text(near_probe, row, &found, &is_crowded);
    }
    times[2] = cpu_seconds();
    for (uint32_t i = 0; i < PART_ROWS; i++) {
        const spsh__covered *covered = NULL;
        size_t count = 0;
        const spsh_bytes row = {texts.data + ends[i], (size_t)(ends[i + 1] - ends[i])};
        check_ok(spsh__cover_probe_text(cover_probe, row, 0.5, &covered, &count, &failure));
        sum += count;
    }
    times[3] = cpu_seconds();
    atomic_fetch_add(&checksum, sum);
    printf("  \"normalise_and_hash_ns\": %.0f, \"near_ns\": %.0f, \"covered_ns\": %.0f,\n",
           (times[1] - times[0]) * 1e9 / PART_ROWS, (times[2] - times[1]) * 1e9 / PART_ROWS,
           (times[3] - times[2]) * 1e9 / PART_ROWS);
    spsh__near_probe_free(near_probe);
    spsh__cover_probe_free(cover_probe);
    spsh__text_near_free(near);
    spsh__text_cover_free(cover);
    spsh__builder_free(&texts);
    spsh__builder_free(&normal);
}

static void audit(unsigned threads)
{
    char text[TEXT_BYTES];
    double wall = 0, made_wall = 0;
    check_ok(spsh__text_index_open(SPSH_TEXT_PROFILE_DEFAULT, (spsh__hit_rule){KEEP, NULL},
                                   UINT64_C(4) << 30, &text_index, &failure));
    const double begin = cpu_seconds();
    for (uint64_t i = 0; i < test_rows; i++) {
        uint32_t number = 0;
        const spsh_bytes row = {(const uint8_t *)text, test_text(i, text)};
        check_ok(spsh__text_index_add(text_index, row, &number, &failure));
    }
    check_ok(spsh__text_index_finish(text_index, &failure));
    const double built = cpu_seconds() - begin;
    const double made = run_threads(threads, NULL, &made_wall);
    const double all = run_threads(threads, text_index, &wall);
    printf("{\n  \"train_rows\": %" PRIu64 ", \"test_rows\": %" PRIu64
           ", \"threads\": %u, \"accents\": %s,\n",
           train_rows, test_rows, threads, with_accents ? "true" : "false");
    printf("  \"test_side_s\": %.2f, \"test_side_bytes_a_text\": %" PRIu64 ",\n", built,
           spsh__text_index_bytes(text_index) / spsh__text_index_count(text_index));
    printf("  \"wall_s\": %.1f, \"cpu_s\": %.1f, \"cpu_s_of_making_rows\": %.1f,\n", wall, all,
           made);
    printf("  \"rows_a_second_a_core\": %.0f,\n", (double)train_rows / (all - made));
    print_found();
    const double peak = peak_mb();
    print_parts();
    printf("  \"peak_rss_mb\": %.0f\n}\n", peak);
    spsh__text_index_free(text_index);
}

/* ---- self ---- */

#define ROW_BITS 40

static void add_rows(spsh__sort128 *sort)
{
    static spsh__u128 records[PIECE];
    spsh__builder normal = {0};
    char text[TEXT_BYTES];
    for (uint64_t first = 0; first < train_rows; first += PIECE) {
        size_t count = 0;
        for (uint64_t i = first; i < train_rows && i < first + PIECE; i++) {
            const spsh_bytes row = {(const uint8_t *)text, train_text(i, text)};
            check_ok(spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, row, &normal, &failure));
            const spsh__u128 hash = spsh__hash_of(spsh__builder_bytes(&normal));
            records[count++] = (spsh__u128){hash.high, hash.low >> ROW_BITS << ROW_BITS | i};
        }
        check_ok(spsh__sort128_add(sort, records, count, &failure));
    }
    spsh__builder_free(&normal);
}

static void self(uint64_t memory_bytes, const char *temporary)
{
    const spsh__sort128_options options = {
        .temporary_path = temporary, .memory_bytes = memory_bytes, .threads = 2};
    spsh__sort128 *sort = NULL;
    const spsh__u128 *records = NULL;
    size_t count = 0;
    uint64_t distinct = 0, repeated = 0, most = 0, run = 0;
    spsh__u128 before = {0, 0};
    char text[TEXT_BYTES];
    const double made_begin = cpu_seconds();
    uint64_t sum = 0;
    for (uint64_t i = 0; i < train_rows; i++)
        sum += train_text(i, text);
    const double made = cpu_seconds() - made_begin;
    const double begin = process_seconds();
    const double wall = now_ms();
    spsh_status rc = spsh__sort128_open(&options, &sort, &failure);
    check_ok(rc);
    add_rows(sort);
    const double added = now_ms();
    while ((rc = spsh__sort128_next(sort, &records, &count, &failure)) == SPSH_OK) {
        for (size_t i = 0; i < count; i++) {
            const spsh__u128 r = {records[i].high, records[i].low >> ROW_BITS};
            run = distinct > 0 && r.high == before.high && r.low == before.low ? run + 1 : 1;
            distinct += run == 1;
            repeated += run > 1;
            most = run > most ? run : most;
            before = r;
        }
    }
    must(rc == SPSH_E_END, "sort");
    const double end = now_ms();
    const double cpu = process_seconds() - begin;
    printf("{\n  \"rows\": %" PRIu64 ", \"memory_mb\": %" PRIu64 ", \"mean_bytes\": %.1f,\n",
           train_rows, memory_bytes / 1000000, (double)sum / (double)train_rows);
    printf("  \"distinct\": %" PRIu64 ", \"repeated\": %" PRIu64 ", \"most_repeated\": %" PRIu64
           ",\n",
           distinct, repeated, most);
    printf("  \"add_s\": %.1f, \"merge_s\": %.1f, \"cpu_s\": %.1f, \"cpu_s_of_making_rows\": %.1f,"
           "\n",
           (added - wall) / 1e3, (end - added) / 1e3, cpu, made);
    printf("  \"rows_a_second_a_core\": %.0f, \"spilled_mb\": %" PRIu64 ", \"peak_rss_mb\": %.0f"
           "\n}\n",
           (double)train_rows / (cpu - made), spsh__sort128_spilled_bytes(sort) / 1000000,
           peak_mb());
    spsh__sort128_free(sort);
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "audit") == 0) {
        const unsigned threads = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 1;
        train_rows = strtoull(argv[2], NULL, 10);
        test_rows = strtoull(argv[3], NULL, 10);
        with_accents = argc > 5 && strcmp(argv[5], "accents") == 0;
        make_words();
        if (test_rows > 0 && threads > 0 && threads <= THREADS_MAX) {
            audit(threads);
            return 0;
        }
    }
    if (argc == 5 && strcmp(argv[1], "self") == 0) {
        train_rows = strtoull(argv[2], NULL, 10);
        make_words();
        self(strtoull(argv[3], NULL, 10) * 1000000, argv[4]);
        return 0;
    }
    fprintf(stderr, "usage: bench_text_join audit TRAIN-ROWS TEST-ROWS [THREADS [plain|accents]]\n"
                    "       bench_text_join self ROWS MEMORY-MB TEMPORARY-FOLDER\n");
    return 2;
}
