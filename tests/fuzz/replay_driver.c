/* replay_driver.c: runs a fuzz target on given files, without a fuzzing engine.
 *
 *     fuzz_shard FILE_OR_FOLDER...
 *
 * This makes an ordinary test of every seed and of every input that once failed, with every
 * compiler. The input is copied into a block of its exact size: a sanitizer then sees an over-read
 * of one byte. Options of libFuzzer (a leading dash) are ignored, so that both programs accept the
 * same command line.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static int run_file(const char *path, size_t size_bytes)
{
    int result = 1;
    FILE *file = fopen(path, "rb");
    uint8_t *data = (uint8_t *)malloc(size_bytes == 0 ? 1 : size_bytes);
    if (file == NULL || data == NULL)
        goto out;
    if (fread(data, 1, size_bytes, file) != size_bytes)
        goto out;
    (void)LLVMFuzzerTestOneInput(data, size_bytes);
    result = 0;
out:
    if (result != 0)
        perror(path);
    if (file != NULL)
        (void)fclose(file);
    free(data);
    return result;
}

static int run_path(const char *path, size_t *run_count);

static int run_folder(const char *path, size_t *run_count)
{
    int result = 0;
    DIR *folder = opendir(path);
    if (folder == NULL) {
        perror(path);
        return 1;
    }
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char child[4096];
        if (entry->d_name[0] == '.')
            continue;
        int length = snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof(child) || run_path(child, run_count) != 0)
            result = 1;
    }
    (void)closedir(folder);
    return result;
}

static int run_path(const char *path, size_t *run_count)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        return 1;
    }
    if (S_ISDIR(info.st_mode))
        return run_folder(path, run_count);
    (*run_count)++;
    return run_file(path, (size_t)info.st_size);
}

int main(int argc, char **argv)
{
    int result = 0;
    size_t run_count = 0;
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-' && run_path(argv[i], &run_count) != 0)
            result = 1;
    printf("%zu inputs\n", run_count);
    return run_count == 0 ? 1 : result;
}
