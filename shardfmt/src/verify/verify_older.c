/* verify_older.c: the generations before the newest whose manifests are still there.
 *
 * A reader can be asked for an older generation, so the files that its manifest lists are checked,
 * too. Nearly all of them are files of the newest generation, which are checked already. The others
 * are overlays that were removed. If an older manifest was deleted, no manifest lists its removed
 * overlays, and they are not checked.
 */
#include "dataset/dataset_internal.h"
#include "verify_internal.h"

/* Do both manifests list the same files with the same seals? */
static bool lists_same_shards(const spsh__manifest *a, const spsh__manifest *b)
{
    static const struct {
        uint32_t id, element_bytes, more;
    } columns[] = {
        {SPSH__MANIFEST_SHARD_FILE_ID,   16, 0},
        {SPSH__MANIFEST_SHARD_ROOT_HASH, 16, 0},
        {SPSH__MANIFEST_SHARD_BYTES,     8,  0},
        {SPSH__MANIFEST_SHARD_UNIT,      4,  0},
        {SPSH__MANIFEST_SHARD_NUMBER,    4,  0},
        {SPSH__MANIFEST_UTTERANCE_BEGIN, 8,  1},
        {SPSH__MANIFEST_RECORD_BEGIN,    8,  1},
    };
    const uint64_t shards = a->info.shard_count;
    if (shards != b->info.shard_count)
        return false;
    for (size_t n = 0; n < sizeof(columns) / sizeof(columns[0]); n++) {
        const uint8_t *left = NULL, *right = NULL;
        const uint64_t count = shards + columns[n].more;
        if (spsh__container_column(a->container, columns[n].id, 0, count, &left, NULL) != SPSH_OK ||
            spsh__container_column(b->container, columns[n].id, 0, count, &right, NULL) !=
                SPSH_OK ||
            (count != 0 && memcmp(left, right, (size_t)count * columns[n].element_bytes) != 0))
            return false;
    }
    return true;
}

static bool is_same_file(const spsh__file_ref *a, const spsh__file_ref *b)
{
    return memcmp(a->file_id, b->file_id, 16) == 0 && memcmp(a->root_hash, b->root_hash, 16) == 0 &&
           a->file_bytes == b->file_bytes;
}

static spsh_status check_files(spsh__verify *v, const spsh__manifest *manifest, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (!is_same_file(&manifest->index, &v->manifest->index) ||
        manifest->index_generation != v->manifest->index_generation) {
        char name[40];
        spsh__verify_file file = {.kind = SPSH__KIND_INDEX, .expected = &manifest->index};
        spsh__generation_name("index", manifest->index_generation, name);
        rc = spsh__verify_named(v, name, &file, NULL, err);
    }
    const bool same = lists_same_shards(manifest, v->manifest);
    for (uint64_t n = 0; !same && rc == SPSH_OK && n < manifest->info.shard_count; n++)
        rc = spsh__verify_listed_shard(v, manifest, n, err);
    return rc == SPSH_OK ? spsh__verify_overlays(v, manifest, err) : rc;
}

spsh_status spsh__verify_opens(spsh__verify *v, uint64_t generation, spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    spsh_error why = SPSH_ERROR_INIT;
    char name[40] = "manifest.spsh";
    opt.allocator = v->allocator;
    opt.io = v->io;
    opt.generation = generation;
    if (generation != 0)
        spsh__generation_name("manifest", generation, name);
    spsh_status rc = spsh_dataset_open(v->directory, &opt, &dataset, &why);
    spsh_dataset_close(dataset);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_FAIL(err, rc, "%s", why.message);
    bool is_damaged = v->result.damage_count != 0;
    if (rc != SPSH_OK && !is_damaged) {
        rc = spsh__verify_shards_damaged(v, &is_damaged, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (rc == SPSH_OK || is_damaged)
        return SPSH_OK;
    const spsh__verify_file file = {.name = name};
    return spsh__verify_refused(v, &file, "reference", 0, &why, err);
}

static spsh_status check_generation(spsh__verify *v, uint64_t generation, spsh_error *err)
{
    const uint64_t before = v->result.damage_count;
    char name[40];
    spsh__verify_file file = {.kind = SPSH__KIND_MANIFEST};
    spsh__manifest manifest;
    spsh_error why = SPSH_ERROR_INIT;
    spsh__generation_name("manifest", generation, name);
    spsh_status rc = spsh__verify_named(v, name, &file, NULL, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__manifest_open(v->io, v->allocator, v->directory, generation, &manifest, &why);
    const bool opened = rc == SPSH_OK;
    if (opened)
        rc = spsh__manifest_check(&manifest, &why);
    if (rc == SPSH_OK)
        rc = check_files(v, &manifest, err);
    else if (rc == SPSH_E_NO_MEMORY)
        rc = SPSH_FAIL(err, rc, "%s", why.message);
    else /* reported already, unless checksums are right and content is wrong */
        rc = v->result.damage_count != before
                 ? SPSH_OK
                 : spsh__verify_refused(v, &file, "content", 0, &why, err);
    if (opened)
        spsh__manifest_close(&manifest);
    return rc == SPSH_OK ? spsh__verify_opens(v, generation, err) : rc;
}

/* The newest generation is among them if manifest.spsh is damaged, or if an edit was interrupted
 * after it had linked manifest.spsh to its second name. */
spsh_status spsh__verify_older(spsh__verify *v, spsh_error *err)
{
    spsh__buffer numbers = {NULL, 0, 0};
    spsh_status rc = spsh__manifest_generations(v->allocator, v->directory, &numbers, err);
    const uint64_t *number = (const uint64_t *)(const void *)numbers.data;
    const size_t count = numbers.size_bytes / sizeof(*number);
    for (size_t n = 0; n < count && rc == SPSH_OK; n++)
        if (number[n] <= v->manifest->info.generation)
            rc = check_generation(v, number[n], err);
    spsh__buffer_free(&numbers, v->allocator);
    return rc;
}
