/* repair_overlays.c: edits are keyed by utterance id and belong to the dataset's id, so the same
 * files are right for a repaired dataset; they only have to be listed there. */
#include "io_internal.h"
#include "manifest.h"
#include "speechshard/verify.h"

#include <stdio.h>

#define OVERLAY_FILE_BYTES_MAX ((size_t)1 << 36)

enum { GENERATIONS_MAX = 100000 };

/* ---- the manifest ---- */

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
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "manifest");
    spsh_status rc = spsh__container_column(c, SPSH__MANIFEST_OPTIONS, 0, json_bytes, &json, err);
    for (uint64_t n = 0; n < count && rc == SPSH_OK; n++)
        rc = spsh__manifest_seal(&v->manifest, n, &v->seals[n], err);
    v->view.info = v->manifest.info;
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
    rc = fill_view(v, err);
    if (rc == SPSH_OK)
        return rc;
    spsh__manifest_close(&v->manifest);
    spsh__free(spsh_allocator_default(), v->seals);
    v->seals = NULL;
    return rc;
}

spsh_status spsh_repair_manifest_open(const char *dataset_path, const spsh_io *io,
                                      spsh_repair_manifest **ret_manifest, spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    manifest_view *v = spsh__alloc_zero(allocator, sizeof(*v));
    if (v == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "manifest");
    if (io == NULL)
        io = spsh_io_default();
    spsh_status rc = open_generation(v, dataset_path, io, 0, err);
    v->view.newest = rc == SPSH_OK;
    /* Generations are numbered without gaps; one may be damaged, too. */
    uint64_t next = 1, best = 0;
    spsh_status last = SPSH_OK;
    while (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY && next < GENERATIONS_MAX &&
           last != SPSH_E_NOT_FOUND) {
        spsh__manifest manifest;
        last = spsh__manifest_open(io, allocator, dataset_path, next, &manifest, NULL);
        if (last == SPSH_OK) {
            best = next;
            spsh__manifest_close(&manifest);
        }
        next++;
    }
    if (best != 0)
        rc = open_generation(v, dataset_path, io, best, err);
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

/* ---- overlays ---- */

typedef struct carry {
    const spsh_io *io;
    const spsh_allocator *allocator;
    const char *from_path, *to_path;
    spsh__manifest from, to;
} carry;

static spsh_status copy_file(const carry *c, spsh_bytes name, spsh_error *err)
{
    char file_name[200], relative[240];
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    spsh_file_writer *writer = NULL;
    (void)snprintf(file_name, sizeof(file_name), "%.*s.spsh", (int)name.size_bytes,
                   (const char *)name.data);
    (void)snprintf(relative, sizeof(relative), "overlays/%s", file_name);
    char *source = spsh__path_join(c->allocator, c->from_path, relative);
    char *directory = spsh__path_join(c->allocator, c->to_path, "overlays");
    spsh_status rc = source == NULL || directory == NULL
                         ? SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "%s", relative)
                         : spsh_io_make_directory(c->io, directory, err);
    if (rc == SPSH_OK)
        rc = spsh_io_read_file(c->io, source, OVERLAY_FILE_BYTES_MAX, c->allocator, &data,
                               &size_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_open(c->io, directory, file_name, 0, c->allocator, &writer, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(writer, data, size_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, err);
    spsh_file_writer_free(writer);
    spsh__free(c->allocator, data);
    spsh__free(c->allocator, directory);
    spsh__free(c->allocator, source);
    return rc;
}

static spsh_status carry_all(const carry *c, spsh_error *err)
{
    uint64_t count = c->from.info.overlay_count;
    spsh_status rc = SPSH_OK;
    if (memcmp(c->from.info.dataset_id, c->to.info.dataset_id, 16) != 0)
        return SPSH_FAIL(err, SPSH_E_MISMATCH, SPSH_OFFSET_NONE, "%s and %s are different datasets",
                         c->from_path, c->to_path);
    spsh__overlay_entry_ref *entries =
        spsh__alloc_array(c->allocator, (size_t)count, sizeof(*entries));
    if (entries == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "overlays");
    for (uint64_t n = 0; n < count && rc == SPSH_OK; n++) {
        rc = spsh__manifest_overlay(&c->from, n, &entries[n].file, &entries[n].name, err);
        if (rc == SPSH_OK)
            rc = copy_file(c, entries[n].name, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__manifest_publish_overlays(c->io, c->allocator, c->to_path, &c->to, entries,
                                             count, err);
    spsh__free(c->allocator, entries);
    return rc;
}

spsh_status spsh_repair_overlays(const char *from_path, const char *to_path, const spsh_io *io,
                                 uint64_t *ret_count, spsh_error *err)
{
    carry c = {.io = io != NULL ? io : spsh_io_default(),
               .allocator = spsh_allocator_default(),
               .from_path = from_path,
               .to_path = to_path};
    spsh_status rc = spsh__manifest_open(c.io, c.allocator, from_path, 0, &c.from, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t count = c.from.info.overlay_count;
    if (count != 0) {
        rc = spsh__manifest_open(c.io, c.allocator, to_path, 0, &c.to, err);
        if (rc == SPSH_OK) {
            rc = carry_all(&c, err);
            spsh__manifest_close(&c.to);
        }
    }
    spsh__manifest_close(&c.from);
    if (rc == SPSH_OK && ret_count != NULL)
        *ret_count = count;
    return rc;
}
