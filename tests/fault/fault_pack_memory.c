/* fault_pack_memory.c: each allocation of a pack fails once. The call then succeeds with the same
 * bytes, or returns SPSH_E_NO_MEMORY, closes its files, and the same call finishes the pack.
 */
#include <dirent.h>

#include "fail_malloc.h"
#include "speechshard/pack.h"
#include "spsh_test.h"
#include "test_file.h"

#define CLIPS 6U

static char directory[256];
static char corpus[300];
static char output[300];

static spsh_status pack(uint64_t fail_at, uint64_t *ret_packed)
{
    const char *const corpora[] = {corpus};
    spsh_pack_options options = SPSH_PACK_OPTIONS_INIT;
    spsh_pack_report *report = NULL;
    options.corpora = corpora;
    options.corpus_count = 1;
    options.output = output;
    options.codec = SPSH_PACK_PCM;
    options.memory_bytes = SPSH_PACK_MEMORY_BYTES_MIN;
    options.threads = 1; /* one thread allocates in a fixed order */
    fail_malloc.calls = 0;
    fail_malloc.at = fail_at;
    const spsh_status rc = spsh_pack(&options, &report, NULL);
    fail_malloc.at = UINT64_MAX;
    CHECK((rc == SPSH_OK) == (report != NULL));
    if (report != NULL)
        *ret_packed = spsh_pack_report_facts(report)->packed;
    spsh_pack_report_free(report);
    return rc;
}

static void remove_output(void)
{
    if (access(output, F_OK) == 0)
        test_remove_tree(output);
}

static size_t count_open_files(void)
{
    DIR *files = opendir("/proc/self/fd");
    size_t count = 0;
    REQUIRE(files != NULL);
    while (readdir(files) != NULL)
        count++;
    (void)closedir(files);
    return count;
}

/* The manifest holds hashes of everything else. */
static size_t read_manifest(uint8_t *ret_bytes, size_t size)
{
    char path[400];
    (void)snprintf(path, sizeof(path), "%s/manifest.spsh", output);
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    const size_t got = fread(ret_bytes, 1, size, file);
    (void)fclose(file);
    return got;
}

static void check_manifest(const uint8_t *wanted, size_t wanted_bytes, size_t size)
{
    uint8_t *found = (uint8_t *)malloc(size);
    REQUIRE(found != NULL);
    CHECK_U64(read_manifest(found, size), wanted_bytes);
    CHECK(memcmp(found, wanted, wanted_bytes) == 0);
    free(found);
}

static void sweep(uint64_t stride)
{
    enum { MANIFEST_BYTES_MAX = 1 << 16 };
    static uint8_t wanted[MANIFEST_BYTES_MAX];
    uint64_t packed = 0;

    remove_output();
    REQUIRE(pack(UINT64_MAX, &packed) == SPSH_OK);
    CHECK_U64(packed, CLIPS);
    const uint64_t calls = fail_malloc.calls;
    const size_t wanted_bytes = read_manifest(wanted, sizeof(wanted));
    const size_t open_files = count_open_files();
    for (uint64_t n = 0; n < calls && test_failures == 0; n += stride) {
        remove_output();
        const spsh_status rc = pack(n, &packed);
        if (rc != SPSH_OK) {
            CHECK_I64(rc, SPSH_E_NO_MEMORY);
            CHECK_U64(count_open_files(), open_files);
            packed = 0;
            CHECK_I64(pack(UINT64_MAX, &packed), SPSH_OK);
        }
        CHECK_U64(packed, CLIPS);
        check_manifest(wanted, wanted_bytes, sizeof(wanted));
        if (test_failures != 0)
            fprintf(stderr, "allocation %" PRIu64 " of %" PRIu64 "\n", n, calls);
    }
    printf("%" PRIu64 " allocations\n", calls);
    CHECK(calls > 100);
}

static void write_clip(unsigned number)
{
    uint8_t wav[44 + 4000] =
        "RIFF\xC4\x0F\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1F\0\0\x80\x3E\0\0\2\0\x10\0data\xA0\x0F";
    char path[400];
    for (size_t i = 44; i < sizeof(wav); i++)
        wav[i] = (uint8_t)((i * (number + 3)) >> (number % 5));
    (void)snprintf(path, sizeof(path), "%s/%02u.wav", corpus, number);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fwrite(wav, 1, sizeof(wav), file) == sizeof(wav));
    REQUIRE(fclose(file) == 0);
}

TEST_MAIN(fault_pack_memory)
{
    const uint64_t stride = test_stride(argc, argv, 11);
    if (access("/dev/shm", W_OK) ==
        0) /* in memory, since hundreds of packs would wait for the disk */
        (void)setenv("TMPDIR", "/dev/shm", 0);
    test_temp_dir(directory, sizeof(directory));
    (void)snprintf(corpus, sizeof(corpus), "%s/corpus", directory);
    (void)snprintf(output, sizeof(output), "%s/corpus.spsh", directory);
    REQUIRE(mkdir(corpus, 0777) == 0);
    for (unsigned i = 0; i < CLIPS; i++)
        write_clip(i);
    sweep(stride);
    test_remove_tree(directory);
    return TEST_RESULT();
}
