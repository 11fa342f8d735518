/* fuzz_overlay.c: a changed overlay, with or without corrected checksums, listed by a matching
 * manifest. Tests every lookup in the overlay, and the complete check of verify.
 *
 * The first byte chooses skips or transcripts; the rest is a patch (tests/support/patch.h).
 */
#include "dataset/overlay.h"
#include "memory_dataset.h"
#include "patch.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static memory_dataset memory;
static spsh_io io;
static memory_file *manifest, *overlays[2];
static memory_file good_manifest, good_overlays[2];
static patch_base bases[2];

static spsh_bytes text(const char *string)
{
    return (spsh_bytes){(const uint8_t *)string, strlen(string)};
}

static void make_base(void)
{
    char root[512];
    char path[600];
    tiny_dataset tiny;
    const spsh_overlay_entry skips[] = {
        {text("u1"),     text("noise")  },
        {text("w0"),     text("")       },
        {text("nobody"), text("unknown")}
    };
    const spsh_overlay_entry texts[] = {
        {text("u0"), text("changed")          },
        {text("x2"), text("\xc3\xa9t\xc3\xa9")}
    };
    test_temp_dir(root, sizeof(root));
    (void)snprintf(path, sizeof(path), "%s/tiny", root);
    tiny_dataset_write(&tiny, path);
    REQUIRE(tiny_dataset_publish(&tiny, SPSH_DEDUPE_NONE, NULL, NULL, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_overlay_add(path, "a", SPSH_OVERLAY_SKIP, skips, 3, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_overlay_add(path, "b", SPSH_OVERLAY_TRANSCRIPT, texts, 2, NULL, NULL) == SPSH_OK);
    memory_dataset_load(&memory, path);
    test_remove_tree(root);
    io = memory_dataset_table(&memory);
    manifest = memory_dataset_file(&memory, "manifest.spsh");
    good_manifest = *manifest;
    overlays[0] = memory_dataset_file(&memory, "overlays/a.spsh");
    overlays[1] = memory_dataset_file(&memory, "overlays/b.spsh");
    for (int i = 0; i < 2; i++) {
        good_overlays[i] = *overlays[i];
        patch_base_init(&bases[i], good_overlays[i].data, good_overlays[i].size_bytes);
    }
}

static void read_dataset(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    opt.io = &io;
    spsh_status rc = spsh_dataset_open("fuzz", &opt, &dataset, &err);
    REQUIRE(rc == err.status && (rc == SPSH_OK) == (dataset != NULL));
    if (rc != SPSH_OK)
        return;
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < TINY_UTTERANCES; i++) {
        bool skipped = false;
        spsh_bytes reason = {NULL, 0};
        spsh_utterance u;
        if (spsh_dataset_skipped(dataset, text(tiny_dataset_ids[i]), &skipped, &reason, NULL) ==
                SPSH_OK &&
            skipped)
            REQUIRE(reason.size_bytes < 1 << 20);
        if ((i == 0 || i == 12) && spsh_reader_metadata(reader, i, &u, NULL) == SPSH_OK)
            REQUIRE(u.text.size_bytes < 1 << 20);
    }
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void check_file(const char *name)
{
    spsh__container *container = NULL;
    spsh__overlay overlay;
    if (spsh__container_open(&io, name, SPSH__KIND_OVERLAY, NULL, &container, NULL) != SPSH_OK)
        return;
    if (spsh__overlay_load(container, &overlay, NULL) == SPSH_OK) {
        overlay.name = text("a");
        (void)spsh__overlay_check(&overlay, spsh_allocator_default(), NULL);
    }
    spsh__container_close(container);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (manifest == NULL)
        make_base();
    if (size_bytes == 0)
        return 0;
    int chosen = data[0] % 2;
    memory_file *changed = overlays[chosen];
    changed->data = patch_apply(&bases[chosen], data + 1, size_bytes - 1, &changed->size_bytes);
    manifest->data = (uint8_t *)malloc(good_manifest.size_bytes);
    REQUIRE(manifest->data != NULL);
    memcpy(manifest->data, good_manifest.data, good_manifest.size_bytes);
    memory_dataset_agree(&memory);
    read_dataset();
    check_file(changed->name);
    free(changed->data);
    free(manifest->data);
    *changed = good_overlays[chosen];
    *manifest = good_manifest;
    return 0;
}
