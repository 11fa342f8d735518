/* spsh_test.h: the whole test kit. A test is a process; it exits with 0, 1, or 77 (skipped).
 *
 *     static void test_empty_is_refused(void)
 *     {
 *         CHECK(spsh_dataset_open("", NULL, &dataset, NULL) == SPSH_E_INVALID_ARG);
 *     }
 *
 *     TEST_MAIN(unit_dataset)
 *     {
 *         RUN(test_empty_is_refused);
 *         return TEST_RESULT();
 *     }
 *
 * Many tests share a program (test_runner.h), so all functions and variables of a test file are
 * static.
 *
 * A failed CHECK is reported and the test continues; REQUIRE stops the program. Random tests take
 * their numbers from test_random. test_seed prints the seed, which SPEECHSHARD_TEST_SEED can set.
 */
#ifndef SPSH_TEST_H
#define SPSH_TEST_H

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A sanitizer's malloc ends the process if it fails. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_HAS_OWN_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define TEST_HAS_OWN_MALLOC 1
#endif
#endif

/* The main function of a test: its name in CMake, and its argc and argv. A test with a separate
 * program (speechshard_add_test without PROGRAM) is compiled with TEST_IS_ALONE. */
#ifdef TEST_IS_ALONE
#define TEST_MAIN(name_)                                                                           \
    int main(__attribute__((unused)) int argc, __attribute__((unused)) char **argv)
#else
#define TEST_MAIN(name_)                                                                           \
    int name_(int argc, char **argv);                                                              \
    int name_(__attribute__((unused)) int argc, __attribute__((unused)) char **argv)
#endif

static int test_failures;

#define TEST_SKIPPED  77
#define TEST_RESULT() (test_failures == 0 ? 0 : 1)

#define CHECK(condition_)                                                                          \
    ((condition_) ? (void)0 : test_fail(__FILE__, __LINE__, "CHECK(" #condition_ ")"))
#define REQUIRE(condition_)                                                                        \
    ((condition_) ? (void)0 : test_stop(__FILE__, __LINE__, "REQUIRE(" #condition_ ")"))

/* Both print the two values, so that the log suffices to understand a wrong status or count. */
#define CHECK_I64(got_, want_)                                                                     \
    test_compare_i64(__FILE__, __LINE__, #got_ " == " #want_, (int64_t)(got_), (int64_t)(want_))
#define CHECK_U64(got_, want_)                                                                     \
    test_compare_u64(__FILE__, __LINE__, #got_ " == " #want_, (uint64_t)(got_), (uint64_t)(want_))
#define CHECK_STR(got_, want_)                                                                     \
    test_compare_str(__FILE__, __LINE__, #got_ " == " #want_, (got_), (want_))

#define RUN(function_) test_run(#function_, function_)

static inline void test_fail(const char *file, int line, const char *text)
{
    test_failures++;
    fprintf(stderr, "%s:%d: %s failed\n", file, line, text);
}

_Noreturn static inline void test_stop(const char *file, int line, const char *text)
{
    test_fail(file, line, text);
    exit(1);
}

static inline void test_compare_i64(const char *file, int line, const char *text, int64_t got,
                                    int64_t want)
{
    if (got == want)
        return;
    test_fail(file, line, text);
    fprintf(stderr, "    got %" PRId64 ", want %" PRId64 "\n", got, want);
}

static inline void test_compare_u64(const char *file, int line, const char *text, uint64_t got,
                                    uint64_t want)
{
    if (got == want)
        return;
    test_fail(file, line, text);
    fprintf(stderr, "    got %" PRIu64 ", want %" PRIu64 "\n", got, want);
}

static inline void test_compare_str(const char *file, int line, const char *text, const char *got,
                                    const char *want)
{
    if (got != NULL && want != NULL && strcmp(got, want) == 0)
        return;
    test_fail(file, line, text);
    fprintf(stderr, "    got  \"%s\"\n    want \"%s\"\n", got == NULL ? "(null)" : got,
            want == NULL ? "(null)" : want);
}

static inline void test_run(const char *name, void (*function)(void))
{
    int before = test_failures;
    function();
    printf("%s %s\n", test_failures == before ? "ok    " : "FAILED", name);
    fflush(stdout);
}

/* End the program as skipped, or as failed if skips are not allowed. */
_Noreturn static inline void test_skip(const char *why)
{
    const char *required = getenv("SPEECHSHARD_REQUIRE_DATA");
    bool fail = required != NULL && strcmp(required, "1") == 0;
    fprintf(stderr, "%s: %s\n", fail ? "must not be skipped" : "skipped", why);
    exit(fail ? 1 : TEST_SKIPPED);
}

/* A test runs completely by default. With `--fewer`, for sanitizers, which are ten times slower, it
 * uses smaller sizes and larger steps in sweeps. With `--races`, for ThreadSanitizer, it also skips
 * code with one thread, in which no races can be found. */
static inline bool test_wants_races(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--races") == 0;
}

static inline bool test_wants_fewer(int argc, char **argv)
{
    return test_wants_races(argc, argv) || (argc > 1 && strcmp(argv[1], "--fewer") == 0);
}

/* Step of a sweep: every position, or every n-th. A prime n reaches every field of structures whose
 * sizes are powers of two. */
static inline uint64_t test_stride(int argc, char **argv, uint64_t n)
{
    return test_wants_fewer(argc, argv) ? n : 1;
}

/* SplitMix64: small, and good enough to choose positions and sizes. */
static inline uint64_t test_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Never taken from the clock: a failure must come back on the next run. */
static inline uint64_t test_seed(uint64_t default_seed)
{
    const char *text = getenv("SPEECHSHARD_TEST_SEED");
    uint64_t seed = text == NULL ? default_seed : strtoull(text, NULL, 0);
    printf("seed %" PRIu64 "\n", seed);
    return seed;
}

/* Writes the path of a file of the source tree, such as "tests/golden/tiny.spsh". */
static inline void test_source_path(char *path, size_t size_bytes, const char *relative)
{
    const char *root = getenv("SPEECHSHARD_SOURCE_DIR");
    int length = snprintf(path, size_bytes, "%s/%s", root == NULL ? "." : root, relative);
    REQUIRE(length > 0 && (size_t)length < size_bytes);
}

/* Writes the path of a file or folder of real speech; skips the test if the path does not exist. */
static inline void test_data_path(char *path, size_t size_bytes, const char *relative)
{
    const char *root = getenv("SPEECHSHARD_TEST_DATA");
    struct stat info;
    int length = 0;
    if (root != NULL) {
        length = snprintf(path, size_bytes, "%s/%s", root, relative);
        REQUIRE(length > 0 && (size_t)length < size_bytes);
    } else {
        char below_source[512];
        length = snprintf(below_source, sizeof(below_source), "../shared/data/%s", relative);
        REQUIRE(length > 0 && (size_t)length < sizeof(below_source));
        test_source_path(path, size_bytes, below_source);
    }
    if (stat(path, &info) != 0)
        test_skip(path);
}

/* Makes a new empty folder below TMPDIR; the caller removes it with test_remove_tree. */
static inline void test_temp_dir(char *path, size_t size_bytes)
{
    const char *root = getenv("TMPDIR");
    int length = snprintf(path, size_bytes, "%s/spsh-test-XXXXXX", root == NULL ? "/tmp" : root);
    REQUIRE(length > 0 && (size_t)length < size_bytes);
    REQUIRE(mkdtemp(path) != NULL);
}

/* The same in memory, if there is enough and TMPDIR is unset: for many small files that do not test
 * the disk, since a shared disk is slow. */
static inline void test_temp_memory(char *path, size_t size_bytes)
{
    struct statvfs disk;
    const char *memory = "/dev/shm";
    const bool has_space = getenv("TMPDIR") == NULL && statvfs(memory, &disk) == 0 &&
                           access(memory, W_OK) == 0 &&
                           (uint64_t)disk.f_bavail * disk.f_frsize >= (UINT64_C(16) << 20);
    if (!has_space) {
        test_temp_dir(path, size_bytes);
        return;
    }
    const int length = snprintf(path, size_bytes, "%s/spsh-test-XXXXXX", memory);
    REQUIRE(length > 0 && (size_t)length < size_bytes);
    REQUIRE(mkdtemp(path) != NULL);
}

static inline int test_remove_entry(const char *path, const struct stat *info, int kind,
                                    struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

/* Deletes what test_temp_dir made, and all below it; links are not followed. */
static inline void test_remove_tree(const char *path)
{
    CHECK(nftw(path, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

#endif
