/* unit_attempt.c: files that attempts to pack one unit share: finished shards, which a new attempt
 * adopts from older ones, and the commit record (unit_journal.h). Also records of finished shares.
 *
 * All attempts make the same shards and journals, so a new attempt can take each from any older
 * one. A sealed file never changes, and no process writes to an older attempt's folder except its
 * owner. So hard links are safe even if that owner still runs.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "claim/claim.h"
#include "plan/pack_journal.h"
#include "speechshard/inside.h"
#include "unit_journal.h"

#define DONE_HEAD    "speechshard-done"
#define DONE_VERSION 1U
#define SHARE_HEAD   "speechshard-share"

/* ---- adoption ---- */

/* Hard-link a file of an older attempt into the new one. True if the file is there. */
static bool link_file(const spsh_io *io, const char *from, const char *to, const char *name)
{
    spsh__builder source = {0};
    spsh__builder target = {0};
    bool linked = false;

    if (spsh__builder_path(&source, from, name) != NULL &&
        spsh__builder_path(&target, to, name) != NULL) {
        const int rc = io->link_fn(io->user, (const char *)source.data, (const char *)target.data);
        linked = rc == 0 || rc == -EEXIST; /* EEXIST: the reply to an earlier call was lost */
    }
    SPSH__BUILDERS_FREE(&source, &target);
    return linked;
}

/* Link journal number `part` with its files, the journal last. False if any of them is missing or
 * damaged, or belongs to another plan. */
static bool adopt_part(const spsh__unit_context *context, const char *from, uint64_t unit,
                       uint32_t part, bool *ret_last)
{
    const spsh_io *io = context->options->io;
    spsh__unit_summary summary;
    char name[32];
    spsh__builder path = {0};

    spsh__unit_file_name(unit, part, "", name);
    const bool intact =
        spsh__builder_path(&path, from, name) != NULL &&
        spsh__unit_journal_peek(context, (const char *)path.data, unit, part, &summary) == SPSH_OK;
    spsh__builder_free(&path);
    if (!intact)
        return false;
    if (summary.has_shard) {
        char shard[32];
        spsh_shard_file_name(unit, summary.shard_number, shard);
        if (!link_file(io, from, context->directory, shard))
            return false;
    }
    if (summary.has_rejects) {
        char rejects[32];
        spsh__unit_file_name(unit, part, ".rejects", rejects);
        if (!link_file(io, from, context->directory, rejects))
            return false;
    }
    *ret_last = summary.is_last;
    return link_file(io, from, context->directory, name);
}

/* Adopt one journal from the newest attempt that has it. */
static bool adopt_from_any(const spsh__unit_context *context, uint64_t unit, uint32_t generation,
                           uint32_t part, bool *ret_last)
{
    char name[32];
    bool adopted = false;

    (void)snprintf(name, sizeof(name), "unit-%06" PRIu64, unit);
    for (uint32_t older = generation - 1; !adopted && older > 0; older--) {
        char folder[SPSH__CLAIM_NAME_BYTES];
        spsh__builder from = {0};
        spsh__claim_folder(name, older, folder);
        adopted = spsh__builder_path(&from, context->work_directory, folder) != NULL &&
                  adopt_part(context, (const char *)from.data, unit, part, ret_last);
        spsh__builder_free(&from);
    }
    return adopted;
}

spsh_status spsh__unit_adopt(const spsh__unit_context *context, uint64_t unit, uint32_t generation,
                             uint32_t *ret_count, spsh_error *err)
{
    uint32_t count = 0;
    bool last = false;

    while (!last && adopt_from_any(context, unit, generation, count, &last))
        count++;
    *ret_count = count;
    /* If all journals are adopted, nothing else syncs the folder before the commit record. */
    return count == 0 ? SPSH_OK
                      : spsh_io_sync_directory(context->options->io, context->directory, err);
}

/* ---- the commit record ---- */

spsh_status spsh__unit_done_publish(const spsh__unit_context *context, uint64_t unit,
                                    uint32_t generation, bool *ret_won, spsh_error *err)
{
    const uint64_t head[] = {DONE_VERSION, unit, generation};
    spsh__builder out = {0};
    spsh_error cause = SPSH_ERROR_INIT;
    char name[32];

    (void)snprintf(name, sizeof(name), "unit-%06" PRIu64 ".done", unit);
    spsh__journal_numbers(&out, DONE_HEAD, head, 3);
    spsh__journal_hash(&out, "dataset", context->plan->dataset_id);
    spsh_status rc = spsh__journal_publish(context->options->io, context->work_directory, name,
                                           SPSH_PUBLISH_NEW, &out, &cause);
    spsh__builder_free(&out);
    *ret_won = rc == SPSH_OK;
    return rc == SPSH_E_EXISTS ? SPSH_OK : spsh__fail_again(rc, &cause, err);
}

spsh_status spsh__unit_done_load(const spsh_io *io, const char *work_directory,
                                 const spsh__plan *plan, uint64_t unit, uint32_t *ret_generation,
                                 spsh_error *err)
{
    spsh__journal journal = {0};
    spsh__builder path = {0};
    uint64_t head[3];
    uint8_t dataset_id[16];
    char name[32];

    (void)snprintf(name, sizeof(name), "unit-%06" PRIu64 ".done", unit);
    spsh_status rc = spsh__builder_path(&path, work_directory, name) == NULL
                         ? SPSH_NO_MEMORY(err)
                         : spsh__journal_read(io, (const char *)path.data, &journal, err);
    if (rc == SPSH_E_CORRUPT ||
        (rc == SPSH_OK &&
         (!spsh__journal_take_numbers(&journal, DONE_HEAD, head, 3) || head[0] != DONE_VERSION ||
          head[1] != unit || head[2] == 0 || head[2] > UINT32_MAX ||
          !spsh__journal_take_hash(&journal, "dataset", dataset_id) ||
          memcmp(dataset_id, plan->dataset_id, sizeof(dataset_id)) != 0)))
        rc = SPSH_FAIL(err, SPSH_E_CORRUPT,
                       "%s: the record is damaged or belongs to another plan; remove it; after "
                       "the next merge has named the unit, any part packs it again",
                       (const char *)path.data);
    if (rc == SPSH_OK)
        *ret_generation = (uint32_t)head[2];
    spsh__journal_free(&journal);
    spsh__builder_free(&path);
    return rc;
}

/* ---- shares ---- */

static void share_name(uint32_t share, uint32_t count, char dst[48])
{
    (void)snprintf(dst, 48, SPSH__SHARE_PREFIX "%" PRIu32 "-of-%" PRIu32 ".done", share, count);
}

void spsh__share_done_publish(const spsh_io *io, const char *work_directory, const spsh__plan *plan,
                              uint32_t share, uint32_t count)
{
    const uint64_t head[] = {share, count};
    spsh__builder out = {0};
    char name[48];

    share_name(share, count, name);
    spsh__journal_numbers(&out, SHARE_HEAD, head, 2);
    spsh__journal_hash(&out, "dataset", plan->dataset_id);
    (void)!spsh__journal_publish(io, work_directory, name, SPSH_PUBLISH_REPLACE, &out, NULL);
    spsh__builder_free(&out);
}

bool spsh__share_done_load(const spsh_io *io, const char *work_directory, const spsh__plan *plan,
                           uint32_t share, uint32_t count)
{
    spsh__journal journal = {0};
    spsh__builder path = {0};
    uint64_t head[2];
    uint8_t dataset_id[16];
    char name[48];

    share_name(share, count, name);
    const bool is_done =
        spsh__builder_path(&path, work_directory, name) != NULL &&
        spsh__journal_read(io, (const char *)path.data, &journal, NULL) == SPSH_OK &&
        spsh__journal_take_numbers(&journal, SHARE_HEAD, head, 2) && head[0] == share &&
        head[1] == count && spsh__journal_take_hash(&journal, "dataset", dataset_id) &&
        memcmp(dataset_id, plan->dataset_id, sizeof(dataset_id)) == 0;
    spsh__journal_free(&journal);
    spsh__builder_free(&path);
    return is_done;
}
