/* fault_pack_io.c: every call of the I/O table fails in turn while a small corpus is packed, once
 * or from then on (a crash). A clean rerun must then produce the bytes of an undisturbed run. The
 * corpus is a folder of files, and the same files in a compressed tar, a plain tar, and a
 * compressed zip.
 */
#include "archive_kit.h"
#include "common/hash.h"
#include "fault_io.h"
#include "speechshard/pack.h"
#include "spsh_test.h"

#define CLIPS 24U

static char directory[256]; /* folder of this test */
static char corpus[300];
static char output[300];
static uint8_t sum[16]; /* exclusive or of the hashes of all files; independent of the order */
static uint64_t stride; /* from one call that fails to the next */
static uint64_t sweeps;

static spsh_status pack(const spsh_io *io, spsh_error *err)
{
    const char *const corpora[] = {corpus};
    spsh_pack_options options = SPSH_PACK_OPTIONS_INIT;
    spsh_pack_report *report = NULL;
    options.corpora = corpora;
    options.corpus_count = 1;
    options.output = output;
    options.shard_bytes = UINT64_C(64) << 10;
    options.threads = 1; /* one thread makes the calls in a fixed order */
    options.memory_bytes = UINT64_C(16) << 20;
    options.lease_s = 1; /* a crash between two calls can leave a claim without a record */
    options.io = io;
    spsh_status rc = spsh_pack(&options, &report, err);
    spsh_pack_report_free(report);
    return rc;
}

static int add_file(const char *path, const struct stat *state, int type, struct FTW *place)
{
    (void)place;
    if (type != FTW_F)
        return 0;
    size_t name_bytes = strlen(path);
    uint8_t *data = malloc(name_bytes + (size_t)state->st_size);
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL && data != NULL);
    memcpy(data, path, name_bytes);
    size_t size_bytes = fread(data + name_bytes, 1, (size_t)state->st_size, file);
    uint8_t hash[16];
    spsh__pack_hash128((spsh_bytes){data, name_bytes + size_bytes}, hash);
    for (size_t i = 0; i < sizeof(hash); i++)
        sum[i] ^= hash[i];
    free(data);
    (void)fclose(file);
    return 0;
}

static void digest(uint8_t ret_hash[16])
{
    memset(sum, 0, sizeof(sum));
    REQUIRE(nftw(output, add_file, 16, FTW_PHYS) == 0);
    memcpy(ret_hash, sum, sizeof(sum));
}

static void remove_output(void)
{
    struct stat state;
    if (stat(output, &state) == 0)
        test_remove_tree(output);
}

#define WAV_BYTES ((size_t)44 + 4000)

static void make_wav(uint8_t wav[WAV_BYTES], unsigned seed)
{
    static const uint8_t head[44] =
        "RIFF\xC4\x0F\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1F\0\0\x80\x3E\0\0\2\0\x10\0data\xA0\x0F";
    memcpy(wav, head, sizeof(head));
    for (size_t i = sizeof(head); i < WAV_BYTES; i++)
        wav[i] = (uint8_t)((i * (seed + 3)) >> (seed % 5));
}

static void write_wav(const char *path, unsigned seed)
{
    uint8_t wav[WAV_BYTES];
    FILE *file = fopen(path, "wb");
    make_wav(wav, seed);
    REQUIRE(file != NULL && fwrite(wav, 1, sizeof(wav), file) == sizeof(wav));
    REQUIRE(fclose(file) == 0);
}

/* The same clips, a third of them in each archive. */
static void make_archives(void)
{
    static const char *const forms[3][3] = {
        {"gnutar", "gzip", "a.tar.gz"},
        {"ustar",  NULL,   "b.tar"   },
        {"zip",    NULL,   "c.zip"   },
    };
    static uint8_t wavs[CLIPS][WAV_BYTES];
    static char names[CLIPS][16];
    test_member members[CLIPS];
    char path[400];

    test_remove_tree(corpus);
    REQUIRE(mkdir(corpus, 0777) == 0);
    for (unsigned i = 0; i < CLIPS; i++) {
        make_wav(wavs[i], i % 21);
        (void)snprintf(names[i], sizeof(names[0]), "%02u.wav", i);
        members[i] = (test_member){names[i], (const char *)wavs[i], WAV_BYTES, 0};
    }
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", corpus, forms[i][2]);
        test_archive_write(path, forms[i][0], forms[i][1], members + i * (CLIPS / 3), CLIPS / 3);
    }
}

static void make_corpus(void)
{
    char path[400];
    test_temp_dir(directory, sizeof(directory));
    (void)snprintf(corpus, sizeof(corpus), "%s/corpus", directory);
    (void)snprintf(output, sizeof(output), "%s/corpus.spsh", directory);
    REQUIRE(mkdir(corpus, 0777) == 0);
    for (unsigned i = 0; i < CLIPS; i++) {
        (void)snprintf(path, sizeof(path), "%s/%02u.wav", corpus, i);
        write_wav(path, i % 21);
    }
}

/* Fail call n for count calls, until n exceeds the calls of a whole pack. Sweeps begin at different
 * calls, so that together they fail most of them with any stride. */
static void sweep(uint64_t fail_count, int fail_errno)
{
    uint8_t wanted[16];
    uint64_t n = sweeps++ % stride;
    bool reached = true;

    remove_output();
    CHECK_I64(pack(spsh_io_default(), NULL), SPSH_OK);
    digest(wanted);
    for (; reached && test_failures == 0; n += stride) {
        fault_io fault = {.fail_at = n, .fail_count = fail_count, .fail_errno = fail_errno};
        const spsh_io io = fault_io_table(&fault);
        spsh_error err = SPSH_ERROR_INIT;
        uint8_t found[16];

        remove_output();
        spsh_status rc = pack(&io, &err);
        reached = fault.call_count > n;
        CHECK(rc == SPSH_OK || err.message[0] != '\0');
        /* The command's exit status depends on the errno. */
        CHECK(rc != SPSH_E_IO || err.os_errno == fail_errno);
        CHECK_I64(fault.open_count, 0);
        spsh_status again = pack(spsh_io_default(), &err);
        CHECK_I64(again, SPSH_OK);
        if (again != SPSH_OK)
            fprintf(stderr, "call %" PRIu64 ": %s\n", n, err.message);
        digest(found);
        if (memcmp(found, wanted, sizeof(found)) != 0)
            fprintf(stderr, "call %" PRIu64 ", errno %d, first run %d\n", n, fail_errno, rc);
        CHECK(memcmp(found, wanted, sizeof(found)) == 0);
    }
    printf("%" PRIu64 " calls\n", n);
    CHECK(n > 100);
}

static void test_no_space(void)
{
    sweep(1, ENOSPC);
}

static void test_input_output_error(void)
{
    sweep(1, EIO);
}

/* An error of a file server, which ends the pack like EIO. It may not become a reject. */
static void test_stale_handle(void)
{
    const uint64_t wanted = stride;
    stride = wanted * 7;
    sweep(1, ESTALE);
    stride = wanted;
}

/* ---- sources on a file server that fails for a moment ---- */

static unsigned failures_left;

static int stale_open(void *user, const char *path, int flags, mode_t mode)
{
    const size_t length = strlen(path);
    (void)user;
    if (length > 4 && strcmp(path + length - 4, ".wav") == 0 && failures_left > 0) {
        failures_left--;
        return -ESTALE;
    }
    return spsh_io_default()->open_fn(NULL, path, flags, mode);
}

/* A short failure changes nothing. A longer one ends the pack without a reject. */
static void test_failing_source(void)
{
    static const struct {
        unsigned failures;
        spsh_status want;
    } cases[] = {
        {1, SPSH_OK  },
        {2, SPSH_OK  },
        {3, SPSH_E_IO}
    };
    uint8_t wanted[16];
    uint8_t found[16];
    spsh_io io = *spsh_io_default();

    io.open_fn = stale_open;
    remove_output();
    CHECK_I64(pack(spsh_io_default(), NULL), SPSH_OK);
    digest(wanted);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh_error err = SPSH_ERROR_INIT;
        remove_output();
        failures_left = cases[i].failures;
        CHECK_I64(pack(&io, &err), cases[i].want);
        CHECK(cases[i].want == SPSH_OK || err.os_errno == ESTALE);
        CHECK_U64(failures_left, 0);
        CHECK_I64(pack(spsh_io_default(), NULL), SPSH_OK);
        digest(found);
        CHECK(memcmp(found, wanted, sizeof(found)) == 0);
    }
}

static void test_interrupted_call(void)
{
    sweep(1, EINTR);
}

static void test_crash(void)
{
    sweep(UINT64_MAX, EIO);
}

/* Reads and writes that stop short change nothing. */
static void test_short_transfers(void)
{
    static const size_t limits[] = {1, 7, 4095, 65537};
    uint8_t wanted[16];
    uint8_t found[16];

    remove_output();
    CHECK_I64(pack(spsh_io_default(), NULL), SPSH_OK);
    digest(wanted);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        fault_io fault = {.fail_at = UINT64_MAX, .transfer_bytes_max = limits[i]};
        const spsh_io io = fault_io_table(&fault);
        remove_output();
        CHECK_I64(pack(&io, NULL), SPSH_OK);
        digest(found);
        CHECK(memcmp(found, wanted, sizeof(found)) == 0);
    }
}

TEST_MAIN(fault_pack_io)
{
    stride = test_stride(argc, argv, 11);
    /* Thousands of packs would wait for the disk: use a file system in memory, if there is one. */
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
    make_corpus();
    uint8_t files[16];
    uint8_t archives[16];
    REQUIRE(pack(spsh_io_default(), NULL) == SPSH_OK);
    digest(files);
    RUN(test_failing_source);
    for (int form = 0; form < 2; form++) {
        if (form == 1)
            make_archives();
        RUN(test_no_space);
        RUN(test_input_output_error);
        RUN(test_stale_handle);
        RUN(test_interrupted_call);
        RUN(test_crash);
        RUN(test_short_transfers);
    }
    digest(archives);
    CHECK(memcmp(files, archives, sizeof(files)) == 0);
    test_remove_tree(directory);
    return TEST_RESULT();
}
