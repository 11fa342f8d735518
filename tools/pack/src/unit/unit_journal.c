/* unit_journal.c: the journals of a unit, one per sealed shard. The reject lines are published
 * first, so a journal never refers to missing lines. */
#include "unit_journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "common/hash.h"
#include "plan/pack_journal.h"
#include "speechshard/inside.h"

#define HEAD        "speechshard-unit"
#define STATE_WORDS 7U
#define SEAL_WORDS  4U
#define VERSION     3U

void spsh__unit_file_name(uint64_t unit, uint32_t part, const char *suffix, char dst[32])
{
    (void)snprintf(dst, 32, "unit-%06" PRIu64 ".%03" PRIu32 "%s", unit, part, suffix);
}

static spsh_status add_seal(spsh__packed *packed, const spsh_shard_seal *seal, spsh_error *err)
{
    if (!SPSH_GROW(packed->seals, packed->seal_capacity, packed->seal_count + 1))
        return SPSH_NO_MEMORY(err);
    packed->seals[packed->seal_count++] = *seal;
    return SPSH_OK;
}

static spsh_status add_reject_file(const spsh__unit_context *context, spsh__packed *packed,
                                   const spsh__unit_state *state, spsh_error *err)
{
    char name[32];

    spsh__unit_file_name(state->unit, state->part, ".rejects", name);
    return spsh__packed_add_rejects(packed, context->folder, name) ? SPSH_OK : SPSH_NO_MEMORY(err);
}

/* Add structs of uint64_t counts, word by word. */
static void add_words(void *sum, const void *more, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t to = 0;
        uint64_t from = 0;
        memcpy(&to, (const char *)sum + i * sizeof(to), sizeof(to));
        memcpy(&from, (const char *)more + i * sizeof(from), sizeof(from));
        to += from;
        memcpy((char *)sum + i * sizeof(to), &to, sizeof(to));
    }
}

/* Add the counts, the seal, and the reject file of one journal to packed. Then reset the counts. */
static spsh_status account(const spsh__unit_context *context, spsh__unit_state *state,
                           const spsh_shard_seal *seal, bool has_rejects, spsh__packed *packed,
                           spsh_error *err)
{
    const size_t tally_bytes = context->plan->sources.count * sizeof(*state->tallies);
    spsh_status rc = has_rejects ? add_reject_file(context, packed, state, err) : SPSH_OK;

    if (rc == SPSH_OK && seal != NULL)
        rc = add_seal(packed, seal, err);
    if (rc != SPSH_OK)
        return rc;
    add_words(&packed->counts, &state->counts, SPSH__PACK_COUNTS_WORDS);
    add_words(&packed->levels, &state->levels, SPSH__LEVEL_COUNTS_WORDS);
    add_words(packed->tallies, state->tallies, tally_bytes / sizeof(uint64_t));
    spsh__reject_counts_add(&packed->rejects, &state->rejects);
    state->counts = (spsh__pack_counts){0};
    state->levels = (spsh__level_counts){0};
    state->rejects = (spsh__reject_counts){0};
    memset(state->tallies, 0, tally_bytes);
    state->part++;
    return SPSH_OK;
}

static spsh_status write_rejects(const spsh__unit_context *context, const spsh__unit_state *state,
                                 spsh_error *err)
{
    char name[32];

    if (state->reject_lines.failed)
        return SPSH_NO_MEMORY(err);
    if (state->reject_lines.size_bytes == 0)
        return SPSH_OK;
    spsh__unit_file_name(state->unit, state->part, ".rejects", name);
    return spsh__pack_publish(context->options->io, context->directory, name,
                              spsh__builder_bytes(&state->reject_lines), err);
}

static void append_stored(spsh__builder *out, const spsh__unit_state *state)
{
    for (size_t i = state->stored_written; i < state->stored.count; i++) {
        const spsh__stored_entry *entry = &state->stored.entries[i];
        char text[33];
        char line[96];
        spsh__hex128(entry->key, text);
        int length = snprintf(line, sizeof(line), "stored %s %" PRIu64 " %" PRIu64 "\n", text,
                              entry->record, entry->job);
        spsh__builder_append(out, line, (size_t)length);
    }
}

static void append_journal(spsh__builder *out, const spsh__unit_context *context,
                           const spsh__unit_state *state, const spsh_shard_seal *seal)
{
    const uint64_t head[] = {VERSION, state->unit, state->part};
    const uint64_t words[STATE_WORDS] = {
        state->shard_number,           state->next_job,     state->next_record,
        state->next_utterance,         state->last ? 1 : 0, seal != NULL ? 1 : 0,
        state->reject_lines.size_bytes};
    uint64_t counts[SPSH__PACK_COUNTS_WORDS];
    uint64_t levels[SPSH__LEVEL_COUNTS_WORDS];

    memcpy(counts, &state->counts, sizeof(counts));
    memcpy(levels, &state->levels, sizeof(levels));
    spsh__journal_numbers(out, HEAD, head, 3);
    spsh__journal_hash(out, "dataset", context->plan->dataset_id);
    spsh__journal_numbers(out, "state", words, STATE_WORDS);
    spsh__journal_numbers(out, "counts", counts, SPSH__PACK_COUNTS_WORDS);
    spsh__journal_numbers(out, "reject_events", state->rejects.events, SPSH_REJECT_COUNT);
    spsh__journal_numbers(out, "reject_rows", state->rejects.rows, SPSH_REJECT_COUNT);
    spsh__journal_numbers(out, "levels", levels, SPSH__LEVEL_COUNTS_WORDS);
    spsh__tallies_append(out, state->tallies, context->plan->sources.count);
    if (seal != NULL) {
        const uint64_t seal_words[SEAL_WORDS] = {seal->number, seal->file_bytes, seal->record_count,
                                                 seal->utterance_count};
        spsh__journal_hash(out, "file_id", seal->file_id);
        spsh__journal_hash(out, "root_hash", seal->root_hash);
        spsh__journal_numbers(out, "seal", seal_words, SEAL_WORDS);
    }
    append_stored(out, state);
}

spsh_status spsh__unit_journal_write(const spsh__unit_context *context, spsh__unit_state *state,
                                     const spsh_shard_seal *seal, spsh__packed *packed,
                                     spsh_error *err)
{
    spsh__builder out = {0};
    char name[32];
    bool has_rejects = state->reject_lines.size_bytes > 0;

    spsh_status rc = write_rejects(context, state, err);
    if (rc == SPSH_OK) {
        spsh__unit_file_name(state->unit, state->part, "", name);
        append_journal(&out, context, state, seal);
        rc = spsh__journal_publish(context->options->io, context->directory, name,
                                   SPSH_PUBLISH_REPLACE, &out, err);
    }
    spsh__builder_free(&out);
    if (rc != SPSH_OK)
        return rc;
    state->stored_written = state->stored.count;
    spsh__builder_clear(&state->reject_lines);
    return account(context, state, seal, has_rejects, packed, err);
}

static bool read_seal(spsh__journal *journal, const spsh__unit_state *state,
                      spsh_shard_seal *ret_seal)
{
    uint64_t words[SEAL_WORDS];

    if (!spsh__journal_take_hash(journal, "file_id", ret_seal->file_id) ||
        !spsh__journal_take_hash(journal, "root_hash", ret_seal->root_hash) ||
        !spsh__journal_take_numbers(journal, "seal", words, SEAL_WORDS))
        return false;
    ret_seal->unit = state->unit;
    ret_seal->number = (uint32_t)words[0];
    ret_seal->file_bytes = words[1];
    ret_seal->record_count = words[2];
    ret_seal->utterance_count = words[3];
    return true;
}

static bool read_stored(spsh__journal *journal, spsh__unit_state *state)
{
    const char *rest = NULL;

    while (spsh__journal_take(journal, "stored", &rest)) {
        spsh__stored_entry entry;
        uint64_t words[2];
        char key[33];
        if (strlen(rest) < 34)
            return false;
        memcpy(key, rest, 32);
        key[32] = '\0';
        if (!spsh__hex128_parse(key, entry.key) || !spsh__journal_parse(rest + 33, words, 2))
            return false;
        entry.record = words[0];
        entry.job = words[1];
        journal->no_memory = spsh__stored_add(&state->stored, &entry, NULL) != SPSH_OK;
        if (journal->no_memory)
            return false;
    }
    state->stored_written = state->stored.count;
    return journal->at == journal->size_bytes;
}

static bool read_state(spsh__journal *journal, const spsh__unit_context *context,
                       spsh__unit_state *state, bool *ret_sealed, bool *ret_has_rejects)
{
    uint64_t head[3];
    uint64_t words[STATE_WORDS];
    uint64_t counts[SPSH__PACK_COUNTS_WORDS];
    uint64_t levels[SPSH__LEVEL_COUNTS_WORDS];
    uint8_t dataset_id[16];

    if (!spsh__journal_take_numbers(journal, HEAD, head, 3) || head[0] != VERSION ||
        head[1] != state->unit || head[2] != state->part ||
        !spsh__journal_take_hash(journal, "dataset", dataset_id) ||
        memcmp(dataset_id, context->plan->dataset_id, sizeof(dataset_id)) != 0 ||
        !spsh__journal_take_numbers(journal, "state", words, STATE_WORDS) ||
        !spsh__journal_take_numbers(journal, "counts", counts, SPSH__PACK_COUNTS_WORDS) ||
        !spsh__journal_take_numbers(journal, "reject_events", state->rejects.events,
                                    SPSH_REJECT_COUNT) ||
        !spsh__journal_take_numbers(journal, "reject_rows", state->rejects.rows,
                                    SPSH_REJECT_COUNT) ||
        !spsh__journal_take_numbers(journal, "levels", levels, SPSH__LEVEL_COUNTS_WORDS) ||
        !spsh__tallies_take(journal, state->tallies, context->plan->sources.count))
        return false;
    memcpy(&state->counts, counts, sizeof(counts));
    memcpy(&state->levels, levels, sizeof(levels));
    state->shard_number = (uint32_t)words[0];
    state->next_job = words[1];
    state->next_record = words[2];
    state->next_utterance = words[3];
    state->last = words[4] != 0;
    *ret_sealed = words[5] != 0;
    *ret_has_rejects = words[6] != 0;
    return true;
}

/* The files that belong to a journal. */
typedef struct journal_files {
    bool has_shard;
    bool has_rejects;
    spsh_shard_seal seal; /* if has_shard */
} journal_files;

/* Read and check a whole journal. */
static spsh_status read_journal(const spsh__unit_context *context, const char *path,
                                spsh__unit_state *state, journal_files *files, spsh_error *err)
{
    spsh__journal journal = {0};

    spsh_status rc = spsh__journal_read(context->options->io, path, &journal, err);
    if (rc != SPSH_OK)
        return rc;
    if (!read_state(&journal, context, state, &files->has_shard, &files->has_rejects) ||
        (files->has_shard && !read_seal(&journal, state, &files->seal)) ||
        !read_stored(&journal, state))
        rc = spsh__journal_malformed(&journal, err);
    spsh__journal_free(&journal);
    return rc;
}

static spsh_status take_journal(const spsh__unit_context *context, const char *path,
                                spsh__unit_state *state, spsh__packed *packed, spsh_error *err)
{
    journal_files files = {0};
    spsh_status rc = read_journal(context, path, state, &files, err);

    if (rc != SPSH_OK)
        return rc;
    return account(context, state, files.has_shard ? &files.seal : NULL, files.has_rejects, packed,
                   err);
}

spsh_status spsh__unit_journal_resume(const spsh__unit_context *context, spsh__unit_state *state,
                                      spsh__packed *packed, spsh_error *err)
{
    spsh_status rc = SPSH_OK;

    while (rc == SPSH_OK && !state->last) {
        spsh__builder path = {0};
        char name[32];
        spsh__unit_file_name(state->unit, state->part, "", name);
        rc = spsh__builder_path(&path, context->directory, name) == NULL
                 ? SPSH_NO_MEMORY(err)
                 : take_journal(context, (const char *)path.data, state, packed, err);
        spsh__builder_free(&path);
    }
    return rc == SPSH_E_NOT_FOUND ? SPSH_OK : rc;
}

spsh_status spsh__unit_journal_peek(const spsh__unit_context *context, const char *path,
                                    uint64_t unit, uint32_t part, spsh__unit_summary *ret_summary)
{
    spsh__unit_state state = {.unit = unit, .part = part};
    journal_files files = {0};

    state.tallies = calloc(context->plan->sources.count, sizeof(*state.tallies));
    spsh_status rc = state.tallies == NULL ? SPSH_E_NO_MEMORY
                                           : read_journal(context, path, &state, &files, NULL);
    if (rc == SPSH_OK)
        *ret_summary =
            (spsh__unit_summary){files.has_shard, files.seal.number, files.has_rejects, state.last};
    spsh__stored_free(&state.stored);
    free(state.tallies);
    return rc;
}
