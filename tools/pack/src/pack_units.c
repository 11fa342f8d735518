/* pack_units.c: see pack_units.h. */
#include "pack_units.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "claim/claim_keeper.h"
#include "speechshard/inside.h"
#include "unit/unit_journal.h"

/* This process's record of a unit. */
typedef struct unit_note {
    spsh__claim_watch watch;
    bool is_done;
} unit_note;

typedef struct unit_pass {
    spsh__pack_state *state;
    unit_note *notes;
    uint64_t done;    /* number of units that are done */
    uint64_t unknown; /* in this pass: units of processes that may be alive, */
    uint64_t alive;   /* and of processes that are */
    bool packed;      /* in this pass, a unit was packed */
    bool looks_first; /* a look for the commit record costs less than a claim */
} unit_pass;

static void unit_name(uint64_t unit, char dst[32])
{
    (void)snprintf(dst, 32, "unit-%06" PRIu64, unit);
}

/* The unit is done. by_other: another process has packed it. */
static void note_done(unit_pass *pass, uint64_t unit, bool by_other)
{
    spsh__pack_state *state = pass->state;
    const spsh__plan_unit *planned = &state->plan.units[unit];

    pass->notes[unit].is_done = true;
    pass->done++;
    if (by_other) {
        state->packed.other_items += planned->item_count;
        state->packed.other_bytes += planned->source_bytes;
    }
}

static spsh_status look_for_done(unit_pass *pass, uint64_t unit, spsh_error *err)
{
    const spsh__pack_state *state = pass->state;
    spsh_error cause = SPSH_ERROR_INIT;
    uint32_t generation = 0;
    const spsh_status rc =
        spsh__unit_done_load(state->options->io, spsh__pack_path(&state->paths, SPSH__PACK_WORK),
                             &state->plan, unit, &generation, &cause);
    if (rc == SPSH_OK)
        note_done(pass, unit, true);
    return rc == SPSH_E_NOT_FOUND ? SPSH_OK : spsh__fail_again(rc, &cause, err);
}

static void log_takeover(spsh__pack_state *state, uint64_t unit, const spsh__own_claim *claim,
                         uint32_t adopted)
{
    char shards[64] = "";
    if (adopted > 0)
        (void)snprintf(shards, sizeof(shards), "; %" PRIu32 " of its shards %s kept", adopted,
                       adopted == 1 ? "is" : "are");
    state->result.units_taken_over++;
    spsh__pack_log(state->options, "taking over unit %" PRIu64 " from %s, which %s%s", unit,
                   claim->previous[0] == '\0' ? "an unknown process" : claim->previous,
                   claim->previous_has_stopped ? "has stopped" : "gave no sign of life", shards);
}

static spsh_status pack_claimed(unit_pass *pass, uint64_t unit, const spsh__own_claim *claim,
                                bool *ret_won, spsh_error *err)
{
    spsh__pack_state *state = pass->state;
    const char *work = spsh__pack_path(&state->paths, SPSH__PACK_WORK);
    spsh__builder directory = {0};
    uint32_t adopted = 0;
    spsh_status rc = SPSH_OK;

    if (spsh__builder_path(&directory, work, claim->folder) == NULL) {
        spsh__builder_free(&directory);
        return SPSH_NO_MEMORY(err);
    }
    const spsh__unit_context context = {state->options, &state->plan, work, claim->folder,
                                        (const char *)directory.data};
    if (claim->generation > 1) {
        rc = spsh__unit_adopt(&context, unit, claim->generation, &adopted, err);
        log_takeover(state, unit, claim, adopted);
    }
    if (rc == SPSH_OK)
        rc = spsh__unit_pack(&context, unit, &state->packed, err);
    if (rc == SPSH_OK)
        rc = spsh__unit_done_publish(&context, unit, claim->generation, ret_won, err);
    spsh__builder_free(&directory);
    return rc;
}

/* An error while another process finishes the unit, or publishes the dataset and removes the state,
 * is of no consequence. */
static spsh_status judge_failure(unit_pass *pass, uint64_t unit, spsh_status rc,
                                 const spsh_error *cause, spsh_error *err)
{
    spsh__pack_state *state = pass->state;

    if (rc == SPSH_E_CANCELED || rc == SPSH_E_NO_MEMORY)
        return spsh__fail_again(rc, cause, err);
    if (!spsh__pack_has_plan(state->options->io, &state->paths)) {
        state->has_ended = true;
        return SPSH_OK;
    }
    if (look_for_done(pass, unit, NULL) == SPSH_OK && pass->notes[unit].is_done)
        return SPSH_OK;
    return spsh__fail_again(rc, cause, err);
}

/* Pack a unit that this process has claimed. It may be done meanwhile, or even the dataset. */
static spsh_status take_unit(unit_pass *pass, uint64_t unit, spsh__own_claim *claim,
                             spsh_error *err)
{
    spsh__pack_state *state = pass->state;
    spsh__claim_keeper keeper;
    spsh_error cause = SPSH_ERROR_INIT;
    bool won = false;
    spsh_status rc = SPSH_OK;

    state->has_ended = !spsh__pack_has_plan(state->options->io, &state->paths);
    if (!state->has_ended && claim->generation > 1) {
        spsh__claims_refresh(state->options->io, spsh__pack_path(&state->paths, SPSH__PACK_WORK));
        rc = look_for_done(pass, unit, err);
    }
    if (rc != SPSH_OK || state->has_ended || pass->notes[unit].is_done) {
        spsh__claim_remove(claim);
        return rc;
    }
    if (state->options->is_part) /* a part learns its share as it claims units */
        state->packed.total_bytes += state->plan.units[unit].source_bytes;
    rc = spsh__claim_keeper_start(&keeper, claim, &cause);
    if (rc == SPSH_OK) {
        rc = pack_claimed(pass, unit, claim, &won, &cause);
        spsh__claim_keeper_stop(&keeper);
    }
    if (rc != SPSH_OK) {
        spsh__claim_release(claim);
        return judge_failure(pass, unit, rc, &cause, err);
    }
    spsh__claim_close(claim);
    if (!won)
        spsh__pack_log(state->options, "unit %" PRIu64 " was finished by another process, too",
                       unit);
    state->result.units_packed++;
    pass->packed = true;
    note_done(pass, unit, false);
    return SPSH_OK;
}

/* Pack a unit if it is free. */
static spsh_status visit_unit(unit_pass *pass, uint64_t unit, spsh_error *err)
{
    const spsh__pack_state *state = pass->state;
    unit_note *note = &pass->notes[unit];
    spsh__own_claim claim;
    spsh__claim_state claimed = SPSH__CLAIM_UNKNOWN;
    spsh_error cause = SPSH_ERROR_INIT;
    char name[32];
    spsh_status rc = SPSH_OK;

    if (note->is_done || pass->state->has_ended)
        return SPSH_OK;
    if (note->watch.generation > 0 || pass->looks_first)
        rc = look_for_done(pass, unit, err);
    if (rc != SPSH_OK || note->is_done)
        return rc;
    const bool is_new = note->watch.generation == 0;
    unit_name(unit, name);
    rc = spsh__claim_try(&state->claims, name, &note->watch, &claim, &claimed, NULL, &cause);
    if (rc != SPSH_OK)
        return judge_failure(pass, unit, rc, &cause, err);
    const bool has_looked = pass->looks_first;
    if (claimed != SPSH__CLAIM_WON || claim.generation > 1)
        pass->looks_first = true;
    if (claimed == SPSH__CLAIM_WON)
        return take_unit(pass, unit, &claim, err);
    if (is_new && !has_looked)
        rc = look_for_done(pass, unit, err);
    if (rc == SPSH_OK && !note->is_done) {
        pass->alive += claimed == SPSH__CLAIM_ALIVE ? 1 : 0;
        pass->unknown += claimed == SPSH__CLAIM_UNKNOWN ? 1 : 0;
    }
    return rc;
}

static spsh_status check_cancel(const spsh__pack_state *state, spsh_error *err)
{
    return spsh__pack_progress(state->options, "pack",
                               state->packed.other_bytes + state->packed.counts.source_bytes,
                               state->packed.total_bytes, err);
}

/* Number of shares in which units are looked at. 1: all units in one. */
static uint32_t share_count(const spsh__pack_state *state)
{
    const spsh_pack_options *options = state->options;
    return options->is_part && options->part_count > 0 ? options->part_count : 1;
}

/* Take all units of a share for done if another process has recorded that. Without it,
 * each part looks at each unit: the total number of looks is parts times units. */
static void skip_done_share(unit_pass *pass, uint32_t share)
{
    const spsh__pack_state *state = pass->state;
    const uint32_t count = share_count(state);

    if (count == 1 ||
        !spsh__share_done_load(state->options->io, spsh__pack_path(&state->paths, SPSH__PACK_WORK),
                               &state->plan, share, count))
        return;
    for (uint64_t unit = share; unit < state->plan.unit_count; unit += count)
        if (!pass->notes[unit].is_done)
            note_done(pass, unit, true);
}

static bool share_is_done(const unit_pass *pass, uint32_t share)
{
    const spsh__pack_state *state = pass->state;
    bool is_done = true;

    for (uint64_t unit = share; is_done && unit < state->plan.unit_count;
         unit += share_count(state))
        is_done = pass->notes[unit].is_done;
    return is_done;
}

/* Visit the units of a share that are not done. A single share begins elsewhere in each part. */
static spsh_status visit_share(unit_pass *pass, uint32_t share, spsh_error *err)
{
    const spsh__pack_state *state = pass->state;
    const uint64_t units = state->plan.unit_count;
    const uint32_t count = share_count(state);
    const uint64_t first = count == 1 && state->options->is_part ? state->options->part : share;
    spsh_status rc = SPSH_OK;

    if (share_is_done(pass, share))
        return SPSH_OK;
    skip_done_share(pass, share);
    for (uint64_t unit = share; rc == SPSH_OK && unit < units; unit += count)
        rc = visit_unit(pass, (unit - share + first) % units, err);
    if (rc == SPSH_OK && count > 1 && !state->has_ended && share_is_done(pass, share))
        spsh__share_done_publish(state->options->io,
                                 spsh__pack_path(&state->paths, SPSH__PACK_WORK), &state->plan,
                                 share, count);
    return rc;
}

/* Each part begins with its own share, so that parts that have finished it seldom meet. */
static spsh_status visit_all(unit_pass *pass, spsh_error *err)
{
    const spsh__pack_state *state = pass->state;
    const uint32_t count = share_count(state);
    spsh_status rc = SPSH_OK;

    pass->unknown = pass->alive = 0;
    pass->packed = false;
    for (uint64_t i = 0; rc == SPSH_OK && i < count; i++) {
        rc = visit_share(pass, (uint32_t)((state->options->part + i) % count), err);
        pass->looks_first = pass->looks_first || state->options->is_part;
    }
    return rc;
}

static spsh_status visit_until_done(unit_pass *pass, bool waits, spsh_error *err)
{
    const spsh__pack_state *state = pass->state;
    bool has_logged = false;
    spsh_status rc = SPSH_OK;

    while (rc == SPSH_OK && !state->has_ended && pass->done < state->plan.unit_count) {
        rc = visit_all(pass, err);
        const uint64_t left = pass->unknown + pass->alive;
        if (rc != SPSH_OK || state->has_ended || (pass->unknown == 0 && !waits && !pass->packed))
            break;
        if (left == 0 || pass->packed)
            continue;
        if (!has_logged && waits)
            spsh__pack_log(state->options, "waiting for %" PRIu64 " unit%s of other processes",
                           left, left == 1 ? "" : "s");
        has_logged = true;
        rc = spsh__pack_wait(state, err);
    }
    return rc;
}

spsh_status spsh__units_pack(spsh__pack_state *state, bool waits, spsh_error *err)
{
    unit_pass pass = {.state = state};
    spsh_status rc = check_cancel(state, err);

    if (rc != SPSH_OK || state->plan.unit_count == 0)
        return rc;
    pass.notes = calloc(state->plan.unit_count, sizeof(*pass.notes));
    if (pass.notes == NULL)
        return SPSH_NO_MEMORY(err);
    rc = visit_until_done(&pass, waits, err);
    state->result.units_left = state->plan.unit_count - pass.done;
    free(pass.notes);
    return rc;
}
