/* exact_pcm.c: samples of two utterances side by side, and the threads that read them.
 *
 * Pieces grow from 2,048 samples: most stretches end soon after the chunk that told of them. A
 * stretch is read backwards piece by piece, each piece forwards.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "exact_internal.h"
#include "fail.h"

enum { PIECE_VALUES = 65536, PIECE_FIRST = 2048 };

struct spsh__exact_reader {
    const spsh__print_set *set;
    spsh_reader **readers; /* two a dataset, opened when needed: each goes on where it was */
    int32_t pcm[2][PIECE_VALUES];
    spsh__chunk *chunks[2];
    size_t chunk_capacity[2];
    uint64_t chunks_of[2]; /* ordinals */
};

spsh_status spsh__exact_reader_open(const spsh__print_set *set, spsh__exact_reader **ret_reader,
                                    spsh_error *err)
{
    spsh__exact_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return SPSH_DEDUP_NO_MEMORY(err);
    reader->set = set;
    reader->chunks_of[0] = reader->chunks_of[1] = SPSH_NONE_U64;
    reader->readers = calloc(2 * spsh__print_set_dataset_count(set) + 1, sizeof(spsh_reader *));
    if (reader->readers == NULL) {
        free(reader);
        return SPSH_DEDUP_NO_MEMORY(err);
    }
    *ret_reader = reader;
    return SPSH_OK;
}

void spsh__exact_reader_free(spsh__exact_reader *reader)
{
    if (reader == NULL)
        return;
    for (size_t i = 0; i < 2 * spsh__print_set_dataset_count(reader->set); i++)
        spsh_reader_close(reader->readers[i]);
    free(reader->readers);
    free(reader->chunks[0]);
    free(reader->chunks[1]);
    free(reader);
}

spsh_status spsh__exact_reader_chunks(spsh__exact_reader *reader, int which,
                                      const spsh__exact_row *row, const spsh__chunk **ret_chunks,
                                      spsh_error *err)
{
    const size_t count = (size_t)row->row.chunk_count;
    if (reader->chunks_of[which] != row->source) {
        reader->chunks_of[which] = SPSH_NONE_U64;
        if (count > reader->chunk_capacity[which]) {
            spsh__chunk *more = realloc(reader->chunks[which], count * sizeof(*more));
            if (more == NULL)
                return SPSH_DEDUP_NO_MEMORY(err);
            reader->chunks[which] = more;
            reader->chunk_capacity[which] = count;
        }
        spsh_status rc =
            spsh__print_set_chunks(reader->set, row->source, reader->chunks[which], err);
        if (rc != SPSH_OK)
            return rc;
        reader->chunks_of[which] = row->source;
    }
    *ret_chunks = reader->chunks[which];
    return SPSH_OK;
}

static spsh_status read_piece(spsh__exact_reader *reader, int which, const spsh__exact_row *row,
                              uint64_t first, uint64_t count, spsh_error *err)
{
    spsh_reader **slot = &reader->readers[2 * row->dataset + (size_t)which];
    uint64_t got = 0;
    spsh_status rc = SPSH_OK;
    if (*slot == NULL)
        rc = spsh_reader_open(spsh__print_set_dataset(reader->set, row->dataset), slot, err);
    if (rc == SPSH_OK)
        rc =
            spsh_reader_read_i32(*slot, row->position, first, reader->pcm[which], count, &got, err);
    if (rc == SPSH_OK && got != count)
        return SPSH_DEDUP_FAIL(err, SPSH_E_CORRUPT,
                               "an utterance is shorter than its segment says");
    return rc;
}

static bool is_frame_equal(const spsh__exact_reader *reader, uint32_t a_channels,
                           uint32_t b_channels, uint64_t at)
{
    const int32_t *a = reader->pcm[0] + at * a_channels;
    const int32_t *b = reader->pcm[1] + at * b_channels;
    const uint32_t most = a_channels > b_channels ? a_channels : b_channels;
    for (uint32_t c = 0; c < most; c++)
        if (a[a_channels == 1 ? 0 : c] != b[b_channels == 1 ? 0 : c])
            return false;
    return true;
}

/* Pieces that are equal throughout are the rule, and told at once. */
static bool is_piece_equal(const spsh__exact_reader *reader, uint32_t a_channels,
                           uint32_t b_channels, uint64_t count)
{
    return a_channels == b_channels &&
           memcmp(reader->pcm[0], reader->pcm[1],
                  (size_t)count * a_channels * sizeof(reader->pcm[0][0])) == 0;
}

static uint64_t piece_most(const spsh__exact_row *a, const spsh__exact_row *b)
{
    const uint32_t channels = a->row.channels > b->row.channels ? a->row.channels : b->row.channels;
    return PIECE_VALUES / channels;
}

static bool can_compare(const spsh__exact_row *a, const spsh__exact_row *b)
{
    return a->row.channels > 0 && b->row.channels > 0 &&
           a->row.sample_rate_hz == b->row.sample_rate_hz &&
           (a->row.channels == b->row.channels || a->row.channels == 1 || b->row.channels == 1);
}

spsh_status spsh__exact_equal_after(spsh__exact_reader *reader, const spsh__exact_row *a,
                                    uint64_t a_first, const spsh__exact_row *b, uint64_t b_first,
                                    uint64_t count, uint64_t *ret_count, spsh_error *err)
{
    uint64_t done = 0;
    uint64_t piece = PIECE_FIRST;
    *ret_count = 0;
    while (can_compare(a, b) && done < count) {
        piece = piece < piece_most(a, b) ? piece : piece_most(a, b);
        const uint64_t some = count - done < piece ? count - done : piece;
        spsh_status rc = read_piece(reader, 0, a, a_first + done, some, err);
        if (rc == SPSH_OK)
            rc = read_piece(reader, 1, b, b_first + done, some, err);
        if (rc != SPSH_OK)
            return rc;
        uint64_t equal = 0;
        if (is_piece_equal(reader, a->row.channels, b->row.channels, some))
            equal = some;
        while (equal < some && is_frame_equal(reader, a->row.channels, b->row.channels, equal))
            equal++;
        done += equal;
        *ret_count = done;
        if (equal < some)
            return SPSH_OK;
        piece *= 2;
    }
    return SPSH_OK;
}

spsh_status spsh__exact_equal_before(spsh__exact_reader *reader, const spsh__exact_row *a,
                                     uint64_t a_end, const spsh__exact_row *b, uint64_t b_end,
                                     uint64_t count, uint64_t *ret_count, spsh_error *err)
{
    uint64_t done = 0;
    uint64_t piece = PIECE_FIRST;
    *ret_count = 0;
    while (can_compare(a, b) && done < count) {
        piece = piece < piece_most(a, b) ? piece : piece_most(a, b);
        const uint64_t some = count - done < piece ? count - done : piece;
        spsh_status rc = read_piece(reader, 0, a, a_end - done - some, some, err);
        if (rc == SPSH_OK)
            rc = read_piece(reader, 1, b, b_end - done - some, some, err);
        if (rc != SPSH_OK)
            return rc;
        uint64_t equal = 0;
        if (is_piece_equal(reader, a->row.channels, b->row.channels, some))
            equal = some;
        while (equal < some &&
               is_frame_equal(reader, a->row.channels, b->row.channels, some - equal - 1))
            equal++;
        done += equal;
        *ret_count = done;
        if (equal < some)
            return SPSH_OK;
        piece *= 2;
    }
    return SPSH_OK;
}

/* ---- threads ---- */

typedef struct team_member {
    spsh__exact_team *team;
    spsh__exact_reader *reader;
    pthread_t thread;
    bool is_started;
    size_t failed_at; /* the least number that failed here; SIZE_MAX: none */
    spsh_error failure;
} team_member;

struct spsh__exact_team {
    team_member *members;
    uint32_t member_count;
    const spsh__exact_work *work;
    atomic_size_t next;
};

spsh_status spsh__exact_team_open(const spsh__print_set *set, uint32_t threads,
                                  spsh__exact_team **ret_team, spsh_error *err)
{
    const uint32_t count = threads > 0 ? threads : 1;
    spsh__exact_team *team = calloc(1, sizeof(*team));
    spsh_status rc = SPSH_OK;
    if (team == NULL)
        return SPSH_DEDUP_NO_MEMORY(err);
    team->members = calloc(count, sizeof(*team->members));
    if (team->members == NULL)
        rc = SPSH_DEDUP_NO_MEMORY(err);
    for (uint32_t i = 0; rc == SPSH_OK && i < count; i++) {
        team->members[i].team = team;
        rc = spsh__exact_reader_open(set, &team->members[i].reader, err);
        if (rc == SPSH_OK)
            team->member_count++;
    }
    if (rc != SPSH_OK) {
        spsh__exact_team_free(team);
        return rc;
    }
    *ret_team = team;
    return SPSH_OK;
}

void spsh__exact_team_free(spsh__exact_team *team)
{
    if (team == NULL)
        return;
    for (uint32_t i = 0; i < team->member_count; i++)
        spsh__exact_reader_free(team->members[i].reader);
    free(team->members);
    free(team);
}

/* Numbers are taken in order, so all below one that failed have been taken, and will be finished:
 * the least that fails is the same whoever runs it. */
static void *run_member(void *user)
{
    team_member *self = user;
    const spsh__exact_work *work = self->team->work;
    for (;;) {
        spsh_error failure = SPSH_ERROR_INIT;
        const size_t number = atomic_fetch_add(&self->team->next, 1);
        if (number >= work->count)
            return NULL;
        if (work->job_fn(work->user, number, self->reader, &failure) != SPSH_OK) {
            self->failed_at = number;
            self->failure = failure;
            atomic_store(&self->team->next, work->count);
            return NULL;
        }
    }
}

spsh_status spsh__exact_team_run(spsh__exact_team *team, const spsh__exact_work *work,
                                 spsh_error *err)
{
    const team_member *first = NULL;
    team->work = work;
    atomic_store(&team->next, 0);
    for (uint32_t i = 0; i < team->member_count; i++)
        team->members[i].failed_at = SIZE_MAX;
    for (uint32_t i = 1; i < team->member_count && i < work->count; i++)
        team->members[i].is_started =
            pthread_create(&team->members[i].thread, NULL, run_member, &team->members[i]) == 0;
    (void)run_member(&team->members[0]); /* without threads it does all */
    for (uint32_t i = 0; i < team->member_count; i++) {
        team_member *member = &team->members[i];
        if (member->is_started)
            (void)pthread_join(member->thread, NULL);
        member->is_started = false;
        if (member->failed_at != SIZE_MAX &&
            (first == NULL || member->failed_at < first->failed_at))
            first = member;
    }
    if (first == NULL)
        return SPSH_OK;
    if (err != NULL)
        *err = first->failure;
    return first->failure.status;
}
