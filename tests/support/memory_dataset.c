/* memory_dataset.c: descriptors are file numbers; functions that change files return EROFS. */
#include "memory_dataset.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/manifest.h"
#include "memory_io.h"
#include "reseal.h"
#include "spsh_test.h"

static memory_dataset *loading; /* nftw passes no user pointer */
static size_t root_bytes;

static int load_file(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)walk;
    if (kind != FTW_F)
        return 0;
    REQUIRE(loading->file_count < MEMORY_FILES_MAX);
    memory_file *file = &loading->files[loading->file_count++];
    REQUIRE(snprintf(file->name, sizeof(file->name), "%s", path + root_bytes + 1) <
            (int)sizeof(file->name));
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, 1 << 30, NULL, &file->data,
                              &file->size_bytes, NULL) == SPSH_OK);
    return 0;
}

void memory_dataset_load(memory_dataset *memory, const char *path)
{
    memset(memory, 0, sizeof(*memory));
    loading = memory;
    root_bytes = strlen(path);
    REQUIRE(nftw(path, load_file, 16, FTW_PHYS) == 0);
}

void memory_dataset_free(memory_dataset *memory)
{
    for (size_t i = 0; i < memory->file_count; i++)
        free(memory->files[i].data);
    memory->file_count = 0;
}

static memory_file *find(memory_dataset *memory, const char *path)
{
    size_t path_bytes = strlen(path);
    for (size_t i = 0; i < memory->file_count; i++) {
        memory_file *file = &memory->files[i];
        size_t name_bytes = strlen(file->name);
        if (file->data != NULL && path_bytes >= name_bytes &&
            strcmp(path + path_bytes - name_bytes, file->name) == 0 &&
            (path_bytes == name_bytes || path[path_bytes - name_bytes - 1] == '/'))
            return file;
    }
    return NULL;
}

memory_file *memory_dataset_file(memory_dataset *memory, const char *name)
{
    memory_file *file = find(memory, name);
    REQUIRE(file != NULL);
    return file;
}

/* ---- the table ---- */

static int files_open(void *user, const char *path, int flags, mode_t mode)
{
    memory_dataset *memory = (memory_dataset *)user;
    const memory_file *file = find(memory, path);
    (void)mode;
    if (file == NULL)
        return -ENOENT;
    return (flags & O_ACCMODE) == O_RDONLY ? (int)(file - memory->files) : -EROFS;
}

static int64_t files_pread(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes)
{
    const memory_dataset *memory = (const memory_dataset *)user;
    memory_io one = {memory->files[fd].data, memory->files[fd].size_bytes};
    const spsh_io io = memory_io_table(&one);
    return io.pread_fn(io.user, fd, dst, size_bytes, offset_bytes);
}

static int files_fstat(void *user, int fd, struct stat *ret_stat)
{
    const memory_dataset *memory = (const memory_dataset *)user;
    memory_io one = {memory->files[fd].data, memory->files[fd].size_bytes};
    const spsh_io io = memory_io_table(&one);
    return io.fstat_fn(io.user, fd, ret_stat);
}

static int files_stat(void *user, const char *path, struct stat *ret_stat)
{
    memory_dataset *memory = (memory_dataset *)user;
    const memory_file *file = find(memory, path);
    return file == NULL ? -ENOENT : files_fstat(user, (int)(file - memory->files), ret_stat);
}

static void *files_mmap(void *user, int fd, size_t size_bytes, uint64_t offset_bytes)
{
    const memory_dataset *memory = (const memory_dataset *)user;
    memory_io one = {memory->files[fd].data, memory->files[fd].size_bytes};
    const spsh_io io = memory_io_table(&one);
    return io.mmap_fn(io.user, fd, size_bytes, offset_bytes);
}

spsh_io memory_dataset_table(memory_dataset *memory)
{
    spsh_io io = memory_io_table(NULL);
    io.user = memory;
    io.open_fn = files_open;
    io.pread_fn = files_pread;
    io.fstat_fn = files_fstat;
    io.stat_fn = files_stat;
    io.mmap_fn = files_mmap;
    return io;
}

/* ---- changing files ---- */

/* NULL if the directory, which may be damaged, has no valid entry for the section. */
static uint8_t *find_section(const memory_file *file, uint32_t id, uint64_t *ret_bytes)
{
    if (file->size_bytes < SPSH__PAGE_BYTES + SPSH__FOOTERS_BYTES)
        return NULL;
    const uint8_t *footer = file->data + file->size_bytes - SPSH__PAGE_BYTES;
    uint64_t area = spsh__load_u64le(footer + 32);
    uint32_t count = spsh__load_u32le(footer + 20);
    for (uint64_t i = 0; i < count && i < SPSH__SECTIONS_MAX; i++) {
        if (area > file->size_bytes || file->size_bytes - area < 40 * (i + 1))
            return NULL;
        const uint8_t *entry = file->data + area + 40 * i;
        uint64_t offset = spsh__load_u64le(entry + 8);
        uint64_t width = spsh__load_u32le(entry + 4);
        uint64_t elements = spsh__load_u64le(entry + 16);
        if (spsh__load_u32le(entry) != id)
            continue;
        if (width == 0 || offset > file->size_bytes ||
            elements > (file->size_bytes - offset) / width)
            return NULL;
        *ret_bytes = elements * width;
        return file->data + offset;
    }
    return NULL;
}

uint8_t *memory_dataset_section(const memory_file *file, uint32_t id, uint64_t *ret_bytes)
{
    uint64_t size_bytes = 0;
    uint8_t *section = find_section(file, id, &size_bytes);
    REQUIRE(section != NULL);
    if (ret_bytes != NULL)
        *ret_bytes = size_bytes;
    return section;
}

static void agree(const memory_file *manifest, const memory_file *file, uint32_t file_id_section,
                  uint64_t at)
{
    static const uint64_t widths[3] = {16, 16, 8};
    uint8_t size[8];
    if (file == NULL || file->size_bytes < SPSH__PAGE_BYTES)
        return;
    const uint8_t *footer = file->data + file->size_bytes - SPSH__PAGE_BYTES;
    const uint8_t *values[3] = {footer, footer + 88, size};
    spsh__store_u64le(size, file->size_bytes);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t section_bytes = 0;
        uint8_t *section = find_section(manifest, file_id_section + i, &section_bytes);
        if (section != NULL && section_bytes >= (at + 1) * widths[i])
            memcpy(section + at * widths[i], values[i], (size_t)widths[i]);
    }
}

void memory_dataset_agree(memory_dataset *memory)
{
    memory_file *manifest = memory_dataset_file(memory, "manifest.spsh");
    uint64_t overlay = 0;
    agree(manifest, find(memory, "index-00000001.spsh"), SPSH__MANIFEST_INDEX_FILE_ID, 0);
    for (size_t i = 0; i < memory->file_count; i++)
        overlay += strncmp(memory->files[i].name, "overlays/", 9) == 0 ? 1 : 0;
    /* Overlays are called a, b, ... in the order in which they were added. */
    for (uint64_t i = 0; i < overlay; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "overlays/%c.spsh", (char)('a' + (int)i));
        agree(manifest, find(memory, name), SPSH__MANIFEST_OVERLAY_FILE_ID, i);
    }
    reseal(manifest->data, manifest->size_bytes);
}
