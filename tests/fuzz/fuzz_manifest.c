/* fuzz_manifest.c: a changed manifest or dataset index, with or without corrected checksums. Tests
 * every query of a dataset that needs no decoding.
 *
 * The first byte chooses the file; the rest is a patch (tests/support/patch.h). A matching manifest
 * names the changed index, so that the index is read.
 */
#include "memory_dataset.h"
#include "patch.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static memory_dataset memory;
static spsh_io io;
static memory_file *manifest, *dataset_index;
static memory_file good_manifest, good_index;
static patch_base manifest_base, index_base;

static void make_base(void)
{
    char root[512];
    char path[600];
    tiny_dataset tiny;
    const spsh_overlay_entry skip = {
        {(const uint8_t *)"u1",    2},
        {(const uint8_t *)"noise", 5}
    };
    test_temp_dir(root, sizeof(root));
    (void)snprintf(path, sizeof(path), "%s/tiny", root);
    tiny_dataset_write(&tiny, path);
    REQUIRE(tiny_dataset_publish(&tiny, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_overlay_add(path, "a", SPSH_OVERLAY_SKIP, &skip, 1, NULL, NULL) == SPSH_OK);
    memory_dataset_load(&memory, path);
    test_remove_tree(root);
    io = memory_dataset_table(&memory);
    manifest = memory_dataset_file(&memory, "manifest.spsh");
    dataset_index = memory_dataset_file(&memory, "index-00000001.spsh");
    good_manifest = *manifest;
    good_index = *dataset_index;
    patch_base_init(&manifest_base, good_manifest.data, good_manifest.size_bytes);
    patch_base_init(&index_base, good_index.data, good_index.size_bytes);
}

static void read_all(void)
{
    uint8_t digest[16];
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    opt.io = &io;
    spsh_status rc = tiny_dataset_read("fuzz", &opt, false, digest, &err);
    REQUIRE(rc == SPSH_OK || rc == SPSH_E_MISMATCH || rc == err.status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (manifest == NULL)
        make_base();
    if (size_bytes == 0)
        return 0;
    if (data[0] % 2 == 0) {
        manifest->data =
            patch_apply(&manifest_base, data + 1, size_bytes - 1, &manifest->size_bytes);
        read_all();
    } else {
        dataset_index->data =
            patch_apply(&index_base, data + 1, size_bytes - 1, &dataset_index->size_bytes);
        manifest->data = (uint8_t *)malloc(good_manifest.size_bytes);
        REQUIRE(manifest->data != NULL);
        memcpy(manifest->data, good_manifest.data, good_manifest.size_bytes);
        memory_dataset_agree(&memory);
        read_all();
        free(dataset_index->data);
    }
    free(manifest->data);
    *manifest = good_manifest;
    *dataset_index = good_index;
    return 0;
}
