/* repair_manifest.c: the newest manifest of a dataset that is readable in full.
 *
 * All generations list the same shards: only the list of overlays differs. So an older manifest
 * tells everything about the shards, and repair_overlays.c deals with the difference.
 */
#include "dataset/manifest.h"
#include "speechshard/verify.h"

typedef struct manifest_view {
    spsh_repair_manifest view; /* first: what callers hold is this object */
    spsh__manifest manifest;
    spsh_shard_seal *seals;
} manifest_view;

static spsh_status fill_view(manifest_view *v, spsh_error *err)
{
    const spsh__container *c = v->manifest.container;
    uint64_t count = v->manifest.info.shard_count;
    uint64_t json_bytes = spsh__container_count(c, SPSH__MANIFEST_OPTIONS);
    const uint8_t *json = NULL;
    v->seals = spsh__alloc_array(spsh_allocator_default(), (size_t)count + 1, sizeof(*v->seals));
    if (v->seals == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "manifest");
    spsh_status rc = spsh__container_column(c, SPSH__MANIFEST_OPTIONS, 0, json_bytes, &json, err);
    for (uint64_t n = 0; n < count && rc == SPSH_OK; n++)
        rc = spsh__manifest_seal(&v->manifest, n, &v->seals[n], err);
    v->view.info = &v->manifest.info;
    v->view.seals = v->seals;
    v->view.options_json = (spsh_bytes){json, (size_t)json_bytes};
    return rc;
}

static spsh_status open_generation(manifest_view *v, const char *dataset_path, const spsh_io *io,
                                   uint64_t generation, spsh_error *err)
{
    spsh_status rc = spsh__manifest_open(io, spsh_allocator_default(), dataset_path, generation,
                                         &v->manifest, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__manifest_check(&v->manifest, err);
    if (rc == SPSH_OK)
        rc = fill_view(v, err);
    if (rc == SPSH_OK)
        return rc;
    spsh__manifest_close(&v->manifest);
    spsh__free(spsh_allocator_default(), v->seals);
    v->seals = NULL;
    return rc;
}

/* The highest readable generation below that of manifest.spsh. */
static spsh_status open_older(manifest_view *v, const char *dataset_path, const spsh_io *io)
{
    spsh__buffer numbers = {NULL, 0, 0};
    spsh_status rc =
        spsh__manifest_generations(spsh_allocator_default(), dataset_path, &numbers, NULL);
    const uint64_t *number = (const uint64_t *)(const void *)numbers.data;
    size_t left = rc == SPSH_OK ? numbers.size_bytes / sizeof(*number) : 0;
    rc = SPSH_E_NOT_FOUND;
    while (rc != SPSH_OK && left > 0)
        rc = open_generation(v, dataset_path, io, number[--left], NULL);
    spsh__buffer_free(&numbers, spsh_allocator_default());
    return rc;
}

spsh_status spsh_repair_manifest_open(const char *dataset_path, const spsh_io *io,
                                      spsh_repair_manifest **ret_manifest, spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    manifest_view *v = spsh__new(allocator, 1, sizeof(*v));
    if (v == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "manifest");
    if (io == NULL)
        io = spsh_io_default();
    spsh_status rc = open_generation(v, dataset_path, io, 0, err);
    v->view.newest = rc == SPSH_OK;
    if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY && open_older(v, dataset_path, io) == SPSH_OK)
        rc = SPSH_OK;
    if (rc == SPSH_OK)
        *ret_manifest = &v->view;
    else
        spsh__free(allocator, v);
    return rc;
}

void spsh_repair_manifest_close(spsh_repair_manifest *manifest)
{
    if (manifest == NULL)
        return;
    manifest_view *v = (manifest_view *)(void *)manifest;
    spsh__manifest_close(&v->manifest);
    spsh__free(spsh_allocator_default(), v->seals);
    spsh__free(spsh_allocator_default(), v);
}
