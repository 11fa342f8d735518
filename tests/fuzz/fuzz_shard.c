/* fuzz_shard.c: a small shard with changes, with or without corrected checksums, read completely.
 * Without corrected checksums it may be read only if no byte that reading needs was changed.
 */
#include "base/base_internal.h"
#include "memory_io.h"
#include "patch.h"
#include "spsh_test.h"
#include "tiny_shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static patch_base base;
static uint8_t base_digest[16];

static spsh_status read_all(const uint8_t *data, size_t size_bytes, uint8_t digest[16])
{
    memory_io memory = {data, size_bytes};
    spsh_io io = memory_io_table(&memory);
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = tiny_shard_read("fuzz", NULL, &io, digest, &err);
    REQUIRE(rc == err.status);
    REQUIRE((rc == SPSH_OK) == (err.message[0] == '\0'));
    return rc;
}

static void make_base(void)
{
    char folder[256];
    char path[300];
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    spsh_shard_seal seal;
    test_temp_dir(folder, sizeof(folder));
    REQUIRE(tiny_shard_write(folder, TINY_SMALL, NULL, NULL, &seal, NULL) == SPSH_OK);
    (void)snprintf(path, sizeof(path), "%s/000007-002.spsh", folder);
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &data, &size_bytes, NULL) ==
            SPSH_OK);
    test_remove_tree(folder);
    patch_base_init(&base, data, size_bytes);
    REQUIRE(read_all(data, size_bytes, base_digest) == SPSH_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    uint8_t digest[16];
    size_t file_bytes = 0;
    if (base.data == NULL)
        make_base();
    uint8_t *file = patch_apply(&base, data, size_bytes, &file_bytes);
    spsh_status rc = read_all(file, file_bytes, digest);
    bool resealed = size_bytes > 0 && (data[0] & 1) != 0;
    if (rc == SPSH_OK && !resealed) /* a raw input may be another good shard, of the same bytes */
        REQUIRE(memcmp(digest, base_digest, 16) == 0);
    free(file);
    return 0;
}
