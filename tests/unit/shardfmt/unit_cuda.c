/* unit_cuda.c TWIN ODD-FOLDER [PLUGIN], or --old-driver PLUGIN: finding and loading the CUDA
 * plug-in, and explaining failures.
 *
 * TWIN is the host emulation of the plug-in (support/twin_plugin.c). ODD-FOLDER has faulty plug-ins
 * (support/odd_plugin.c). PLUGIN is the real one, if it was built.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "speechshard/cuda_plugin.h"
#include "spsh_test.h"

enum { PATH_BYTES = 1024 };

static const char *twin_path, *odd_folder, *real_path, *program;

/* Check the status of opening a path, and a part of the message. */
static void check_refused(const char *path, spsh_status want, const char *part)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_cuda *cuda = NULL;
    CHECK_I64(spsh_cuda_open(path, &cuda, &err), want);
    CHECK(cuda == NULL);
    CHECK_I64(err.status, want);
    if (strstr(err.message, part) == NULL)
        fprintf(stderr, "%s: %s\n", path, err.message);
    CHECK(strstr(err.message, part) != NULL);
    CHECK_I64(spsh_cuda_open(path, &cuda, NULL), want);
}

static void check_odd(const char *name, spsh_status want, const char *part)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/libodd_plugin_%s.so", odd_folder, name);
    check_refused(path, want, part);
}

static void test_refused(void)
{
    char versions[80];
    (void)snprintf(versions, sizeof(versions),
                   "has interface version %u, but this library has version %u", SPSH__CUDA_ABI + 1U,
                   (unsigned)SPSH__CUDA_ABI);
    check_odd("ABI", SPSH_E_VERSION, versions);
    check_odd("VERSION", SPSH_E_VERSION, "has version 0.0.1");
    check_odd("DRIVER", SPSH_E_UNSUPPORTED, "the driver says no");
    check_odd("NOTHING", SPSH_E_VERSION, "not a CUDA plug-in: it has no symbol spsh_cuda_plugin");
    check_odd("MISSING", SPSH_E_NOT_FOUND,
              "libodd_plugin_MISSING.so: the CUDA plug-in was not found");
    char text[PATH_BYTES]; /* __FILE__ may be relative to the folder where the compiler ran */
    test_source_path(text, sizeof(text), "README.md");
    check_refused(text, SPSH_E_IO, "cannot be loaded");
    CHECK_I64(spsh_cuda_open(twin_path, NULL, NULL), SPSH_E_INVALID_ARG);
}

static void test_twin(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_cuda *cuda = NULL;
    spsh_cuda_device device = SPSH_CUDA_DEVICE_INIT;
    const char sent[] = "samples";
    char back[sizeof(sent)] = {0};
    void *memory = NULL;
    REQUIRE(spsh_cuda_open(twin_path, &cuda, &err) == SPSH_OK);
    CHECK_U64(spsh_cuda_device_count(cuda), 2);
    CHECK_I64(spsh_cuda_device_get(cuda, 1, &device, &err), SPSH_OK);
    CHECK_STR(device.name, "twin 1");
    CHECK_I64(spsh_cuda_device_get(cuda, 2, &device, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_alloc(cuda, 2, 10, &memory, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_alloc(cuda, 0, 0, &memory, &err), SPSH_E_INVALID_ARG);
    CHECK(memory == NULL);
    REQUIRE(spsh_cuda_alloc(cuda, 0, sizeof(sent), &memory, &err) == SPSH_OK);
    CHECK_I64(spsh_cuda_copy(cuda, memory, sent, sizeof(sent), NULL, &err), SPSH_OK);
    CHECK_I64(spsh_cuda_copy(cuda, back, memory, sizeof(sent), NULL, &err), SPSH_OK);
    CHECK_I64(spsh_cuda_copy(cuda, NULL, NULL, 0, NULL, &err), SPSH_OK);
    CHECK_I64(spsh_cuda_synchronize(cuda, NULL, &err), SPSH_OK);
    CHECK_STR(back, sent);
    spsh_cuda_free(cuda, memory);
    spsh_cuda_free(cuda, NULL);
    CHECK(spsh_cuda_symbol(cuda, "spsh_cuda_features_entry") != NULL);
    CHECK(spsh_cuda_symbol(cuda, "nobody") == NULL);
    spsh_cuda_close(cuda);
    spsh_cuda_close(NULL);
}

static void copy_file(const char *from, const char *to)
{
    char buffer[65536];
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    const int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    ssize_t got = 0;
    REQUIRE(in >= 0 && out >= 0);
    while ((got = read(in, buffer, sizeof(buffer))) > 0)
        REQUIRE(write(out, buffer, (size_t)got) == got);
    REQUIRE(close(in) == 0 && close(out) == 0);
}

/* Run a copy of this program with only the option `--beside`. Return its exit status, which is the
 * result (main). */
static int run_beside(const char *path, const char *name)
{
    int status = 0;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        execl(path, name, "--beside", (char *)NULL);
        _exit(99);
    }
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Without a path, the library looks for the plug-in next to the program that contains the library,
 * and in the folder speechshard_cuda next to the program's folder. */
static void test_beside(void)
{
    char folder[PATH_BYTES / 2], path[PATH_BYTES], plugin[PATH_BYTES];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/speechshard", folder);
    REQUIRE(mkdir(path, 0700) == 0);
    (void)snprintf(path, sizeof(path), "%s/speechshard_cuda", folder);
    REQUIRE(mkdir(path, 0700) == 0);
    (void)snprintf(path, sizeof(path), "%s/speechshard/program", folder);
    copy_file(program, path);
    CHECK_I64(run_beside(path, path), 3);
    (void)snprintf(plugin, sizeof(plugin), "%s/speechshard_cuda/%s", folder, SPSH_CUDA_PLUGIN_NAME);
    copy_file(twin_path, plugin);
    CHECK_I64(run_beside(path, path), 2);
    REQUIRE(unlink(plugin) == 0);
    (void)snprintf(plugin, sizeof(plugin), "%s/speechshard/%s", folder, SPSH_CUDA_PLUGIN_NAME);
    copy_file(twin_path, plugin);
    CHECK_I64(run_beside(path, path), 2);
    CHECK_I64(run_beside(path, "program"), 2); /* as found in PATH by a shell */
    test_remove_tree(folder);
}

static int beside(void)
{
    spsh_cuda *cuda = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc = spsh_cuda_open(NULL, &cuda, &err);
    if (rc == SPSH_E_NOT_FOUND && strstr(err.message, "was not built or not installed") != NULL)
        return 3;
    const int result = rc == SPSH_OK && spsh_cuda_device_count(cuda) == 2 ? 2 : 4;
    spsh_cuda_close(cuda);
    return result;
}

/* The real plug-in either opens a device or reports why it cannot. */
static void test_real(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_cuda *cuda = NULL;
    const spsh_status rc = spsh_cuda_open(real_path, &cuda, &err);
    if (rc == SPSH_OK) {
        spsh_cuda_device device = SPSH_CUDA_DEVICE_INIT;
        CHECK(spsh_cuda_device_count(cuda) >= 1);
        CHECK_I64(spsh_cuda_device_get(cuda, 0, &device, &err), SPSH_OK);
        CHECK(device.name[0] != '\0' && device.memory_bytes > 0);
    } else {
        printf("    %s\n", err.message);
        CHECK_I64(rc, SPSH_E_UNSUPPORTED);
        CHECK(strstr(err.message, "driver") != NULL || strstr(err.message, "device") != NULL);
    }
    spsh_cuda_close(cuda);
}

/* With old_driver.c loaded before the real driver. */
static void test_old_driver(void)
{
    check_refused(real_path, SPSH_E_UNSUPPORTED,
                  "the NVIDIA driver is too old: it supports CUDA 11.4");
}

TEST_MAIN(unit_cuda)
{
    if (argc == 2 && strcmp(argv[1], "--beside") == 0)
        return beside();
    if (argc == 3 && strcmp(argv[1], "--old-driver") == 0) {
        real_path = argv[2];
        RUN(test_old_driver);
        return TEST_RESULT();
    }
    REQUIRE(argc == 3 || argc == 4);
    program = argv[0];
    twin_path = argv[1];
    odd_folder = argv[2];
    real_path = argc == 4 ? argv[3] : NULL;
    RUN(test_refused);
    RUN(test_twin);
    RUN(test_beside);
    if (real_path != NULL)
        RUN(test_real);
    return TEST_RESULT();
}
