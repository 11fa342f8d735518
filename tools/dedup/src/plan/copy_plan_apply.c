/* copy_plan_apply.c: apply plans as overlays, and remove these overlays again.
 *
 * All datasets are opened and all ids are looked up before the first change. A process that is
 * killed between two datasets leaves the plan applied to some of them. Applying again completes the
 * others. Reverting removes the plan from the changed ones.
 */
#include "copy_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "copy_page.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"
#include "speechshard/publish.h"

typedef struct place {
    const char *path;
    spsh_dataset *dataset;
    spsh_reader *reader;
    bool is_applied; /* the dataset has the plan's overlay */
    bool is_new;     /* this call added the overlay */
    bool is_tried;   /* this call tried to add the overlay; it may be in force even after an
                        error */
} place;

typedef struct view {
    spsh__copy_plan *plan;
    const spsh_io *io;
    spsh_copy_plan_facts facts; /* holds the overlay's name, made from the plan's hash; counts are
                                   set at the end */
    place *places;
    size_t count;
} view;

/* ---- opening the datasets of a plan ---- */

static spsh_status fail_other(const char *path, const char *what, const uint8_t want[16],
                              const uint8_t found[16], spsh_error *err)
{
    char want_hex[33];
    char found_hex[33];
    spsh__hex128(want, want_hex);
    spsh__hex128(found, found_hex);
    return SPSH_FAIL(err, SPSH_E_MISMATCH, "%s: %s: the plan was made for %s, but this is %s", path,
                     what, want_hex, found_hex);
}

static spsh_status find_overlay(const view *v, place *p, spsh_error *err)
{
    const uint64_t count = spsh_dataset_info_get(p->dataset)->overlay_count;
    for (uint64_t i = 0; i < count; i++) {
        spsh_overlay_info info = SPSH_OVERLAY_INFO_INIT;
        spsh_status rc = spsh_dataset_overlay(p->dataset, i, &info, err);
        if (rc != SPSH_OK)
            return rc;
        if (info.given_name.size_bytes == strlen(v->facts.overlay) &&
            memcmp(info.given_name.data, v->facts.overlay, info.given_name.size_bytes) == 0)
            p->is_applied = true;
    }
    return SPSH_OK;
}

static spsh_status open_place(const view *v, size_t number, spsh_error *err)
{
    place *p = &v->places[number];
    const spsh__copy_plan_source *planned = spsh__copy_plan_dataset(v->plan, number);
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    opt.io = v->io;
    spsh_status rc = spsh_dataset_open(p->path, &opt, &p->dataset, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_dataset_info *info = spsh_dataset_info_get(p->dataset);
    if (memcmp(info->dataset_id, planned->id, 16) != 0)
        return fail_other(p->path, "another dataset", planned->id, info->dataset_id, err);
    if (memcmp(info->index_hash, planned->index_hash, 16) != 0)
        return fail_other(p->path, "other utterances", planned->index_hash, info->index_hash, err);
    rc = spsh_reader_open(p->dataset, &p->reader, err);
    return rc == SPSH_OK ? find_overlay(v, p, err) : rc;
}

/* Use this path for the dataset of the plan that has the same dataset id. */
static spsh_status place_dataset(const view *v, const char *plan_path, const char *path,
                                 spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    bool is_known = false;
    opt.io = v->io;
    const spsh_status rc = spsh_dataset_open(path, &opt, &dataset, err);
    if (rc != SPSH_OK)
        return rc;
    const uint8_t *id = spsh_dataset_info_get(dataset)->dataset_id;
    for (size_t i = 0; i < v->count; i++) {
        if (memcmp(spsh__copy_plan_dataset(v->plan, i)->id, id, 16) != 0)
            continue;
        v->places[i].path = path;
        is_known = true;
    }
    spsh_dataset_close(dataset);
    return is_known ? SPSH_OK
                    : SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: not one of the datasets of the plan %s",
                                path, plan_path);
}

static spsh_status open_view(const char *plan_path, const spsh_copy_plan_options *options, view *v,
                             spsh_error *err)
{
    char hex[33];
    spsh_status rc = spsh__copy_plan_open(v->io, plan_path, &v->plan, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__hex128(spsh__copy_plan_hash(v->plan), hex);
    (void)snprintf(v->facts.overlay, sizeof(v->facts.overlay), "dedupe-%.12s", hex);
    v->count = spsh__copy_plan_dataset_count(v->plan);
    v->places = calloc(v->count + 1, sizeof(*v->places));
    if (v->places == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < v->count; i++)
        v->places[i].path = spsh__copy_plan_dataset(v->plan, i)->path;
    for (size_t i = 0; i < options->dataset_count && rc == SPSH_OK; i++)
        rc = place_dataset(v, plan_path, options->datasets[i], err);
    for (size_t i = 0; i < v->count && rc == SPSH_OK; i++)
        rc = open_place(v, i, err);
    return rc;
}

static void close_view(view *v)
{
    for (size_t i = 0; v->places != NULL && i < v->count; i++) {
        spsh_reader_close(v->places[i].reader);
        spsh_dataset_close(v->places[i].dataset);
    }
    free(v->places);
    spsh__copy_plan_free(v->plan);
}

/* ---- applying ---- */

static spsh_status check_kept(const view *v, const spsh__plan_drop *drop, spsh_error *err)
{
    const place *p = &v->places[drop->kept_dataset];
    spsh_bytes reason = {NULL, 0};
    uint64_t position = 0;
    bool is_skipped = false;
    spsh_status rc = spsh_reader_find(p->reader, drop->kept_id, &position, err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_skipped(p->dataset, drop->kept_id, &is_skipped, &reason, err);
    if (rc != SPSH_OK || !is_skipped)
        return rc;
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "%s: '%.*s', which the plan keeps instead of its copies, is now skipped by an "
                     "overlay; make a new plan",
                     p->path, drop->kept_id.size_bytes < 200 ? (int)drop->kept_id.size_bytes : 200,
                     (const char *)drop->kept_id.data);
}

static void append_reason(const view *v, const spsh__plan_drop *drop, spsh__builder *text)
{
    spsh__builder_append_text(text, "copy of ");
    spsh__builder_append_bytes(text, spsh__copy_base_of(v->places[drop->kept_dataset].path));
    spsh__builder_append_text(text, " ");
    spsh__builder_append_bytes(text, drop->kept_id);
    spsh__builder_append_text(text, " (");
    spsh__builder_append_text(text, spsh_copy_class_text(drop->kind));
    spsh__builder_append_text(text, ", ");
    spsh__builder_append_text(text, spsh_copy_tier_text(drop->tier));
    spsh__builder_append_text(text, ")");
}

/* Make the overlay entries of a dataset. Values point into text, which no longer grows after the
 * return. */
static spsh_status make_entries(const view *v, size_t number, spsh__builder *text,
                                spsh_overlay_entry *entries, spsh_error *err)
{
    const spsh__copy_plan_source *d = spsh__copy_plan_dataset(v->plan, number);
    size_t at = 0;
    for (uint64_t i = 0; i < d->drop_count; i++) {
        const spsh__plan_drop drop = spsh__copy_plan_drop(v->plan, d->first_drop + i);
        uint64_t position = 0;
        spsh_status rc = spsh_reader_find(v->places[number].reader, drop.id, &position, err);
        if (rc == SPSH_OK)
            rc = check_kept(v, &drop, err);
        if (rc != SPSH_OK)
            return rc;
        const size_t before = text->size_bytes;
        append_reason(v, &drop, text);
        entries[i] = (spsh_overlay_entry){
            drop.id, {NULL, text->size_bytes - before}
        };
    }
    if (text->failed)
        return SPSH_NO_MEMORY(err);
    for (uint64_t i = 0; i < d->drop_count; i++) {
        entries[i].value.data = text->data + at;
        at += entries[i].value.size_bytes;
    }
    return SPSH_OK;
}

/* Apply the plan to one dataset. If add is false, only check it. */
static spsh_status apply_one(const view *v, size_t number, bool add, spsh_error *err)
{
    place *p = &v->places[number];
    const uint64_t count = spsh__copy_plan_dataset(v->plan, number)->drop_count;
    spsh__builder text = {0};
    spsh_overlay_entry *entries = NULL;
    if (p->is_applied && add)
        spsh_dataset_leftovers_remove(p->path, v->io);
    if (count == 0 || p->is_applied)
        return SPSH_OK;
    entries = calloc((size_t)count, sizeof(*entries));
    spsh_status rc =
        entries == NULL ? SPSH_NO_MEMORY(err) : make_entries(v, number, &text, entries, err);
    if (rc == SPSH_OK && add) {
        p->is_tried = true;
        rc = spsh_overlay_add(p->path, v->facts.overlay, SPSH_OVERLAY_SKIP, entries, count, v->io,
                              err);
        p->is_new = rc == SPSH_OK;
    }
    free(entries);
    spsh__builder_free(&text);
    return rc;
}

static spsh_status undo(const view *v, spsh_status why, spsh_error *err)
{
    for (size_t i = 0; i < v->count; i++) {
        spsh_error undo_err = SPSH_ERROR_INIT;
        if (!v->places[i].is_tried)
            continue;
        const spsh_status rc =
            spsh_overlay_remove(v->places[i].path, v->facts.overlay, v->io, &undo_err);
        if (rc != SPSH_OK && rc != SPSH_E_NOT_FOUND)
            return SPSH_FAIL(err, why,
                             "the plan is applied only to some datasets, and overlay %s of %s "
                             "could not be removed: %.200s; revert the plan",
                             v->facts.overlay, v->places[i].path, undo_err.message);
    }
    return why;
}

static void count_facts(view *v, bool by_revert)
{
    for (size_t i = 0; i < v->count; i++) {
        const uint64_t drops = spsh__copy_plan_dataset(v->plan, i)->drop_count;
        v->facts.dataset_count += drops > 0;
        v->facts.utterance_count += drops;
        v->facts.changed_count += by_revert ? v->places[i].is_applied : v->places[i].is_new;
    }
}

static spsh_status apply_all(view *v, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < v->count && rc == SPSH_OK; i++)
        rc = apply_one(v, i, false, err);
    if (rc != SPSH_OK)
        return rc;
    for (size_t i = 0; i < v->count && rc == SPSH_OK; i++)
        rc = apply_one(v, i, true, err);
    return rc == SPSH_OK ? rc : undo(v, rc, err);
}

static spsh_status revert_all(view *v, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < v->count && rc == SPSH_OK; i++) {
        if (v->places[i].is_applied)
            rc = spsh_overlay_remove(v->places[i].path, v->facts.overlay, v->io, err);
        else
            spsh_dataset_leftovers_remove(v->places[i].path, v->io);
    }
    return rc;
}

static spsh_status change(const char *plan_path, const spsh_copy_plan_options *options,
                          bool by_revert, spsh_copy_plan_facts *ret_facts, spsh_error *err)
{
    spsh_copy_plan_options o = SPSH_COPY_PLAN_OPTIONS_INIT;
    view v = {0};
    spsh_status rc = spsh_options_take(options, &o, sizeof(o), err);
    if (rc == SPSH_OK)
        rc = spsh_result_check(ret_facts, sizeof(v.facts), err);
    v.io = o.io == NULL ? spsh_io_default() : o.io;
    if (rc == SPSH_OK)
        rc = open_view(plan_path, &o, &v, err);
    if (rc == SPSH_OK)
        rc = by_revert ? revert_all(&v, err) : apply_all(&v, err);
    if (rc == SPSH_OK) {
        count_facts(&v, by_revert);
        spsh_result_give(ret_facts, &v.facts, sizeof(v.facts));
    }
    close_view(&v);
    return rc;
}

spsh_status spsh_copy_plan_apply(const char *plan_path, const spsh_copy_plan_options *options,
                                 spsh_copy_plan_facts *ret_facts, spsh_error *err)
{
    return change(plan_path, options, false, ret_facts, err);
}

spsh_status spsh_copy_plan_revert(const char *plan_path, const spsh_copy_plan_options *options,
                                  spsh_copy_plan_facts *ret_facts, spsh_error *err)
{
    return change(plan_path, options, true, ret_facts, err);
}
