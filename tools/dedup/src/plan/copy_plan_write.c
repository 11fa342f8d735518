/* copy_plan_write.c: write a plan from the facts, line by line.
 *
 * A pair is the group of all matches between two utterances. Each match added by a check is a
 * separate pair after the others. Members refer to pairs by number, so the pair number of each
 * match is kept while the lines are written.
 */
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/hash.h"
#include "common/json_out.h"
#include "copy_plan.h"
#include "set/set_readers.h"
#include "speechshard/inside.h"
#include "text/text_profile.h"

enum { SIDES = 2, BUFFER_BYTES = 1 << 20 };

/* The cluster of an utterance. */
typedef struct belonging {
    uint64_t ordinal, cluster;
} belonging;

typedef struct plan_writer {
    const spsh__plan_facts *facts;
    const spsh__copy_plan_options *options;
    const spsh__print_set *set;
    spsh_file_writer *file;
    spsh__builder lines; /* buffered lines that are not written yet */
    spsh__pack_hasher *hasher;
    spsh_json *json;
    spsh__set_readers readers[SIDES]; /* one per side, so that a's metadata stays valid while b's is
                                         read */
    uint64_t *pairs;                  /* pair number of each match */
    belonging *belongings;            /* sorted by ordinal */
    uint64_t belonging_count;
    spsh__builder texts[SIDES];
} plan_writer;

/* Properties of an utterance that lines show. Borrowed until the same side is read again. */
typedef struct subject {
    size_t dataset;
    spsh_utterance metadata;
    spsh__segment_row row;
    char shard[32]; /* file name */
} subject;

static spsh_status flush(plan_writer *w, spsh_error *err)
{
    if (w->lines.failed)
        return SPSH_NO_MEMORY(err);
    spsh__pack_hasher_add(w->hasher, spsh__builder_bytes(&w->lines));
    spsh_status rc = spsh_file_writer_write(w->file, w->lines.data, w->lines.size_bytes, err);
    spsh__builder_clear(&w->lines);
    return rc;
}

static spsh_status write_line(plan_writer *w, spsh_error *err)
{
    char *text = NULL;
    spsh_status rc = spsh__json_take_text(w->json, &text, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__builder_append_text(&w->lines, text);
    spsh__builder_append(&w->lines, "\n", 1);
    free(text);
    return w->lines.size_bytes >= BUFFER_BYTES ? flush(w, err) : SPSH_OK;
}

static spsh_status read_subject(plan_writer *w, unsigned side, uint64_t ordinal,
                                subject *ret_subject, spsh_error *err)
{
    spsh_status rc =
        spsh__set_readers_metadata(&w->readers[side], ordinal, &ret_subject->metadata, err);
    ret_subject->dataset = spsh__print_set_place(w->set, ordinal).number;
    if (rc == SPSH_OK)
        rc = spsh__print_set_shard_name(w->set, ordinal, ret_subject->shard, err);
    return rc == SPSH_OK ? spsh__print_set_row(w->set, ordinal, &ret_subject->row, NULL, err) : rc;
}

/* ---- the first line ---- */

static void put_datasets(const plan_writer *w)
{
    spsh__json_begin_array(w->json, "datasets");
    for (size_t i = 0; i < spsh__print_set_dataset_count(w->set); i++) {
        const spsh_dataset *dataset = spsh__print_set_dataset(w->set, i);
        const spsh_dataset_info *info = spsh_dataset_info_get(dataset);
        spsh__json_begin_object(w->json, NULL);
        spsh__json_put_string(w->json, "path", spsh_dataset_path(dataset));
        spsh__json_put_hex(w->json, "id", info->dataset_id, 16);
        spsh__json_put_u64(w->json, "generation", info->generation);
        spsh__json_put_hex(w->json, "index_hash", info->index_hash, 16);
        spsh__json_put_u64(w->json, "utterances", info->utterance_count);
        spsh__json_put_string(w->json, "splits", w->options->splits[i]);
        spsh__json_end(w->json);
    }
    spsh__json_end(w->json);
}

static void put_policy(const plan_writer *w)
{
    static const char *const keeps[] = {"best", "first", "longest"};
    static const char *const rules[] = {"tag", "keep-long", "keep-part"};
    const spsh__policy *p = w->facts->policy;
    spsh__json_begin_object(w->json, "policy");
    spsh__json_put_string(w->json, "keep", keeps[p->keep]);
    spsh__json_put_string(w->json, "contained", rules[p->contained]);
    spsh__json_begin_array(w->json, "prefer");
    for (size_t i = 0; i < p->prefer_count; i++)
        spsh__json_put_u64(w->json, NULL, p->prefer[i]);
    spsh__json_end(w->json);
    spsh__json_put_string(w->json, "drop_from", p->drop_from);
    spsh__json_put_u64(w->json, "boilerplate_min", p->boilerplate_min);
    spsh__json_end(w->json);
}

static void put_counts(const plan_writer *w)
{
    const spsh__copy_facts *f = &w->facts->common;
    spsh__json_begin_object(w->json, "matches");
    for (int tier = 0; tier < SPSH_TIER_COUNT; tier++) {
        uint64_t sum = 0;
        for (int kind = 0; kind < SPSH_COPY_CLASS_COUNT; kind++)
            sum += f->by_tier_class[tier][kind];
        if (sum == 0)
            continue;
        spsh__json_begin_object(w->json, spsh_copy_tier_text((spsh_copy_tier)tier));
        for (int kind = 0; kind < SPSH_COPY_CLASS_COUNT; kind++) {
            if (f->by_tier_class[tier][kind] > 0)
                spsh__json_put_u64(w->json, spsh_copy_class_text((spsh_copy_class)kind),
                                   f->by_tier_class[tier][kind]);
        }
        spsh__json_end(w->json);
    }
    spsh__json_end(w->json);
}

static void put_facts(const plan_writer *w)
{
    const spsh__copies_facts *c = w->facts->common.copies;
    spsh__json_begin_object(w->json, "facts");
    spsh__json_put_u64(w->json, "utterances", spsh__print_set_side_count(w->set, SPSH_SIDE_TRAIN));
    spsh__json_put_u64(w->json, "undecoded", c->undecoded_count);
    spsh__json_put_real(w->json, "seconds", w->facts->total_seconds);
    spsh__json_put_u64(w->json, "keys", c->join.key_count);
    spsh__json_put_u64(w->json, "candidates", c->join.candidate_count);
    spsh__json_put_u64(w->json, "decoded", c->judge.decoded_count);
    spsh__json_put_u64(w->json, "frame_pairs", c->judge.frame_pairs);
    put_counts(w);
    spsh__json_put_u64(w->json, "clusters", w->facts->clusters->cluster_count);
    spsh__json_put_u64(w->json, "dropped", w->facts->dropped_count);
    spsh__json_put_real(w->json, "dropped_seconds", w->facts->dropped_seconds);
    spsh__json_put_u64(w->json, "dropped_bytes", w->facts->dropped_bytes);
    spsh__json_end(w->json);
}

static spsh_status write_head(plan_writer *w, spsh_error *err)
{
    spsh__json_put_string(w->json, "schema", SPSH__COPY_PLAN_SCHEMA);
    spsh__json_put_string(w->json, "type", "plan");
    spsh__json_put_string(w->json, "tool_version", spsh_version());
    spsh__json_put_u64(w->json, "fingerprint_version", SPSH__FINGERPRINT_VERSION);
    spsh__json_put_string(w->json, "text_profile",
                          spsh__text_profile_name(SPSH_TEXT_PROFILE_DEFAULT));
    spsh__json_put_string(w->json, "search", w->facts->common.mode);
    spsh__json_put_bool(w->json, "speed_grid", w->options->speed_grid);
    spsh__json_put_bool(w->json, "confirm", w->options->confirm);
    put_datasets(w);
    put_policy(w);
    spsh__json_begin_object(w->json, "thresholds");
    spsh__limits_put(w->json, w->facts->common.limits);
    spsh__json_end(w->json);
    put_facts(w);
    return write_line(w, err);
}

/* ---- pairs ---- */

static void put_subject(spsh_json *json, const char *key, const subject *s)
{
    spsh__json_begin_object(json, key);
    spsh__json_put_u64(json, "dataset", s->dataset);
    spsh__json_put_text(json, "id", s->metadata.id);
    spsh__json_put_text_or_null(json, "split", s->metadata.split);
    spsh__json_put_string(json, "shard", s->shard);
    spsh__json_put_text_or_null(json, "speaker", s->metadata.speaker);
    spsh__json_put_text_or_null(json, "document", s->metadata.document);
    spsh__json_put_u64(json, "samples", s->row.samples);
    spsh__json_put_u64(json, "sample_rate_hz", s->row.sample_rate_hz);
    spsh__json_end(json);
}

static double seconds_of(uint64_t samples, uint32_t rate_hz)
{
    return rate_hz == 0 ? 0 : (double)samples / (double)rate_hz;
}

static void put_segment(spsh_json *json, const spsh__match *m)
{
    spsh__json_begin_object(json, NULL);
    spsh__json_put_string(json, "class", spsh_copy_class_text(m->kind));
    spsh__json_put_string(json, "tier", spsh_copy_tier_text(m->tier));
    spsh__json_put_real(json, "a_start_s", seconds_of(m->a_first, m->rate_hz));
    spsh__json_put_real(json, "a_end_s", seconds_of(m->a_first + m->count, m->rate_hz));
    spsh__json_put_real(json, "b_start_s", seconds_of(m->b_first, m->rate_hz));
    spsh__json_put_real(json, "b_end_s", seconds_of(m->b_first + m->count, m->rate_hz));
    spsh__json_put_u64(json, "a_start", m->a_first);
    spsh__json_put_u64(json, "b_start", m->b_first);
    spsh__json_put_u64(json, "count", m->count);
    spsh__json_put_u64(json, "rate_hz", m->rate_hz);
    spsh__json_put_real(json, "lag_ms", m->rate_hz == 0 ? 0 : m->lag * 1000 / m->rate_hz);
    spsh__json_put_u64(json, "a_channel", m->a_channel);
    spsh__json_put_u64(json, "b_channel", m->b_channel);
    spsh__json_put_real(json, "polarity", m->is_inverted ? -1 : 1);
    spsh__json_put_real(json, "coverage_a", m->coverage_a);
    spsh__json_put_real(json, "coverage_b", m->coverage_b);
    if (m->tier == SPSH_TIER_ACOUSTIC || m->tier == SPSH_TIER_SCALED) {
        const struct {
            const char *name;
            double value;
        } reals[] = {
            {"active_s",    m->active_s   },
            {"ber",         m->ber        },
            {"ncc",         m->ncc        },
            {"ncc_white",   m->ncc_white  },
            {"envelope",    m->envelope   },
            {"block_share", m->block_share},
            {"slope_ppm",   m->slope_ppm  },
            {"spread_ms",   m->spread_ms  },
            {"words_hz",    m->words_hz   },
            {"tonality",    m->tonality   },
            {"scale",       m->scale      },
        };
        for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
            spsh__json_put_real(json, reals[i].name, reals[i].value);
        spsh__json_put_u64(json, "votes", m->votes);
    }
    spsh__json_end(json);
}

/* Write whether two values are equal, or null if one of them is empty. */
static void put_equal(spsh_json *json, const char *key, spsh_bytes left, spsh_bytes right)
{
    if (left.size_bytes == 0 || right.size_bytes == 0)
        spsh__json_put_null(json, key);
    else
        spsh__json_put_bool(json, key, spsh__bytes_equal(left, right));
}

static spsh_status put_texts(plan_writer *w, const subject *subjects, spsh_error *err)
{
    for (unsigned side = 0; side < SIDES; side++) {
        spsh_status rc = spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT,
                                              subjects[side].metadata.text, &w->texts[side], err);
        if (rc != SPSH_OK)
            return rc;
    }
    spsh__json_begin_object(w->json, "equal");
    put_equal(w->json, "text", spsh__builder_bytes(&w->texts[0]),
              spsh__builder_bytes(&w->texts[1]));
    put_equal(w->json, "speaker", subjects[0].metadata.speaker, subjects[1].metadata.speaker);
    put_equal(w->json, "document", subjects[0].metadata.document, subjects[1].metadata.document);
    spsh__json_end(w->json);
    return SPSH_OK;
}

static int compare_belongings(const void *left, const void *right)
{
    const belonging *l = left;
    const belonging *r = right;
    return (l->ordinal > r->ordinal) - (l->ordinal < r->ordinal);
}

static uint64_t cluster_of(const plan_writer *w, uint64_t ordinal)
{
    const belonging key = {ordinal, 0};
    const belonging *found =
        bsearch(&key, w->belongings, (size_t)w->belonging_count, sizeof(key), compare_belongings);
    return found != NULL ? found->cluster : SPSH_NONE_U64;
}

static spsh_status write_pair(plan_writer *w, uint64_t number, const spsh__match *matches,
                              uint64_t count, spsh_error *err)
{
    subject subjects[SIDES];
    const spsh__match *best = spsh__match_strongest(matches, count);
    double coverage_a = 0;
    double coverage_b = 0;
    spsh_status rc = read_subject(w, 0, matches[0].a, &subjects[0], err);
    if (rc == SPSH_OK)
        rc = read_subject(w, 1, matches[0].b, &subjects[1], err);
    if (rc != SPSH_OK)
        return rc;
    for (uint64_t i = 0; i < count; i++) {
        coverage_a = matches[i].coverage_a > coverage_a ? matches[i].coverage_a : coverage_a;
        coverage_b = matches[i].coverage_b > coverage_b ? matches[i].coverage_b : coverage_b;
    }
    const uint64_t cluster = cluster_of(w, matches[0].a);
    spsh__json_put_string(w->json, "type", "pair");
    spsh__json_put_u64(w->json, "pair", number);
    spsh__json_put_string(w->json, "class", spsh_copy_class_text(best->kind));
    spsh__json_put_string(w->json, "tier", spsh_copy_tier_text(best->tier));
    put_subject(w->json, "a", &subjects[0]);
    put_subject(w->json, "b", &subjects[1]);
    spsh__json_begin_array(w->json, "segments");
    for (uint64_t i = 0; i < count; i++)
        put_segment(w->json, &matches[i]);
    spsh__json_end(w->json);
    spsh__json_put_real(w->json, "coverage_a", coverage_a);
    spsh__json_put_real(w->json, "coverage_b", coverage_b);
    rc = put_texts(w, subjects, err);
    if (cluster != SPSH_NONE_U64 && cluster == cluster_of(w, matches[0].b))
        spsh__json_put_u64(w->json, "cluster", cluster);
    else
        spsh__json_put_null(w->json, "cluster");
    return rc == SPSH_OK ? write_line(w, err) : rc;
}

/* Write the pairs. The found matches are sorted by pair. Each match of a check is one pair. */
static spsh_status write_pairs(plan_writer *w, spsh_error *err)
{
    const spsh__match *matches = w->facts->matches;
    const uint64_t count = w->facts->common.match_count;
    uint64_t number = 0;
    spsh_status rc = SPSH_OK;
    for (uint64_t first = 0; first < count && rc == SPSH_OK; number++) {
        uint64_t end = first;
        while (end < count && matches[end].a == matches[first].a &&
               matches[end].b == matches[first].b)
            w->pairs[end++] = number;
        rc = write_pair(w, number, matches + first, end - first, err);
        first = end;
    }
    for (uint64_t i = 0; i < w->facts->clusters->checked_count && rc == SPSH_OK; i++) {
        w->pairs[count + i] = number;
        rc = write_pair(w, number++, &w->facts->clusters->checked[i], 1, err);
    }
    return rc;
}

/* ---- clusters ---- */

static void put_name(spsh_json *json, const char *key, const subject *s)
{
    spsh__json_begin_object(json, key);
    spsh__json_put_u64(json, "dataset", s->dataset);
    spsh__json_put_text(json, "id", s->metadata.id);
    spsh__json_end(json);
}

static spsh_status write_cluster(plan_writer *w, uint64_t number, const subject *kept,
                                 spsh_error *err)
{
    const spsh_copy_cluster *c = &w->facts->clusters->clusters[number];
    spsh__json_put_string(w->json, "type", "cluster");
    spsh__json_put_u64(w->json, "cluster", number);
    spsh__json_put_u64(w->json, "members", c->member_count);
    put_name(w->json, "kept", kept);
    spsh__json_put_string(w->json, "reason", w->facts->clusters->members[c->first_member].reason);
    spsh__json_put_real(w->json, "saved_seconds", c->saved_seconds);
    spsh__json_put_u64(w->json, "saved_bytes", c->saved_bytes);
    spsh__json_put_bool(w->json, "texts_differ", c->texts_differ);
    return write_line(w, err);
}

static spsh_status write_member(plan_writer *w, uint64_t cluster, const spsh__member *m,
                                const subject *kept, spsh_error *err)
{
    subject s;
    spsh_status rc = read_subject(w, 1, m->ordinal, &s, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__json_put_string(w->json, "type", "member");
    spsh__json_put_u64(w->json, "cluster", cluster);
    spsh__json_put_u64(w->json, "dataset", s.dataset);
    spsh__json_put_text(w->json, "id", s.metadata.id);
    spsh__json_put_text_or_null(w->json, "split", s.metadata.split);
    spsh__json_put_string(w->json, "decision", spsh_copy_decision_text(m->decision));
    spsh__json_put_string(w->json, "reason", m->reason);
    put_name(w->json, "kept", kept);
    if (m->match == SPSH_NONE_U64) {
        spsh__json_put_null(w->json, "pair");
        spsh__json_put_null(w->json, "class");
        spsh__json_put_null(w->json, "tier");
    } else {
        const spsh__match *proof = spsh__plan_match(w->facts, m->match);
        spsh__json_put_u64(w->json, "pair", w->pairs[m->match]);
        spsh__json_put_string(w->json, "class", spsh_copy_class_text(proof->kind));
        spsh__json_put_string(w->json, "tier", spsh_copy_tier_text(proof->tier));
    }
    spsh__json_put_real(w->json, "seconds", seconds_of(s.row.samples, s.row.sample_rate_hz));
    spsh__json_put_u64(w->json, "sample_rate_hz", s.row.sample_rate_hz);
    spsh__json_put_bool(w->json, "lossless", (s.row.flags & SPSH__ROW_LOSSLESS) != 0);
    spsh__json_put_u64(w->json, "bandwidth_hz", s.row.bandwidth_hz);
    spsh__json_put_u64(w->json, "payload_bps", s.row.payload_bps);
    spsh__json_put_u64(w->json, "clipped", s.row.clipped_count);
    if (w->facts->clusters->clusters[cluster].texts_differ)
        spsh__json_put_text(w->json, "text", s.metadata.text);
    return write_line(w, err);
}

static spsh_status write_clusters(plan_writer *w, spsh_error *err)
{
    const spsh__clusters *all = w->facts->clusters;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; i < all->cluster_count && rc == SPSH_OK; i++) {
        const spsh_copy_cluster *c = &all->clusters[i];
        subject kept;
        rc = read_subject(w, 0, all->members[c->first_member].ordinal, &kept, err);
        if (rc == SPSH_OK)
            rc = write_cluster(w, i, &kept, err);
        for (uint64_t k = 0; k < c->member_count && rc == SPSH_OK; k++)
            rc = write_member(w, i, &all->members[c->first_member + k], &kept, err);
    }
    return rc;
}

static spsh_status write_boilerplate(plan_writer *w, spsh_error *err)
{
    const spsh__clusters *all = w->facts->clusters;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < all->boilerplate_count && rc == SPSH_OK; i++) {
        const spsh__boilerplate *b = &all->boilerplate[i];
        subject s;
        rc = read_subject(w, 0, b->ordinal, &s, err);
        if (rc != SPSH_OK)
            break;
        spsh__json_put_string(w->json, "type", "boilerplate");
        spsh__json_put_u64(w->json, "utterances", b->utterance_count);
        spsh__json_put_u64(w->json, "dataset", s.dataset);
        spsh__json_put_text(w->json, "id", s.metadata.id);
        spsh__json_put_real(w->json, "start_s", b->start_s);
        spsh__json_put_real(w->json, "seconds", b->seconds);
        rc = write_line(w, err);
    }
    return rc;
}

static spsh_status write_short(plan_writer *w, spsh_error *err)
{
    const spsh__match_list *all = w->facts->short_pairs;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; all != NULL && i < all->count && rc == SPSH_OK; i++) {
        const spsh__match *m = &all->items[i];
        subject subjects[SIDES];
        rc = read_subject(w, 0, m->a, &subjects[0], err);
        if (rc == SPSH_OK)
            rc = read_subject(w, 1, m->b, &subjects[1], err);
        if (rc != SPSH_OK)
            break;
        spsh__json_put_string(w->json, "type", "short");
        put_name(w->json, "a", &subjects[0]);
        put_name(w->json, "b", &subjects[1]);
        spsh__json_put_real(w->json, "active_s", m->active_s);
        spsh__json_put_real(w->json, "ber", m->ber);
        spsh__json_put_real(w->json, "ncc", m->ncc);
        spsh__json_put_real(w->json, "ncc_white", m->ncc_white);
        rc = put_texts(w, subjects, err);
        if (rc == SPSH_OK)
            rc = write_line(w, err);
    }
    return rc;
}

static spsh_status write_end(plan_writer *w, uint8_t ret_hash[16], spsh_error *err)
{
    char line[64];
    char hex[33];
    spsh_status rc = flush(w, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__pack_hasher_digest(w->hasher, ret_hash);
    spsh__hex128(ret_hash, hex);
    const int length = snprintf(line, sizeof(line), "{\"end\":\"%s\"}\n", hex);
    return spsh_file_writer_write(w->file, line, (size_t)length, err);
}

/* ---- the whole plan ---- */

static spsh_status prepare(plan_writer *w, spsh_error *err)
{
    const spsh__clusters *all = w->facts->clusters;
    const uint64_t match_count = w->facts->common.match_count + all->checked_count;
    w->hasher = spsh__pack_hasher_new();
    w->json = spsh__json_new();
    w->pairs = calloc((size_t)match_count + 1, sizeof(*w->pairs));
    w->belongings = calloc((size_t)all->member_count + 1, sizeof(*w->belongings));
    if (w->hasher == NULL || w->json == NULL || w->pairs == NULL || w->belongings == NULL)
        return SPSH_NO_MEMORY(err);
    for (unsigned side = 0; side < SIDES; side++) {
        const spsh_status rc = spsh__set_readers_open(w->set, &w->readers[side], err);
        if (rc != SPSH_OK)
            return rc;
    }
    for (uint64_t i = 0; i < all->cluster_count; i++) {
        const spsh_copy_cluster *c = &all->clusters[i];
        for (uint64_t k = 0; k < c->member_count; k++)
            w->belongings[w->belonging_count++] =
                (belonging){all->members[c->first_member + k].ordinal, i};
    }
    qsort(w->belongings, (size_t)w->belonging_count, sizeof(*w->belongings), compare_belongings);
    return SPSH_OK;
}

static spsh_status open_file(plan_writer *w, spsh_error *err)
{
    const char *path = w->options->path;
    const char *slash = strrchr(path, '/');
    char *directory =
        slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (directory == NULL)
        return SPSH_NO_MEMORY(err);
    const char *name = slash == NULL ? path : slash + 1;
    spsh_stale_files_remove_of(w->options->io, directory, name);
    const spsh_status rc =
        spsh_file_writer_open(w->options->io, directory, name, 0, NULL, &w->file, err);
    free(directory);
    return rc;
}

spsh_status spsh__copy_plan_write(const spsh__plan_facts *facts,
                                  const spsh__copy_plan_options *options, uint8_t ret_hash[16],
                                  spsh_error *err)
{
    static spsh_status (*const steps[])(plan_writer * w, spsh_error * err) = {
        prepare,        open_file,         write_head, write_pairs,
        write_clusters, write_boilerplate, write_short};
    plan_writer w = {.facts = facts, .options = options, .set = facts->common.set};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < sizeof(steps) / sizeof(steps[0]); i++)
        rc = steps[i](&w, err);
    if (rc == SPSH_OK)
        rc = write_end(&w, ret_hash, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(w.file, SPSH_PUBLISH_REPLACE, err);
    spsh_file_writer_free(w.file);
    free(w.pairs);
    free(w.belongings);
    for (unsigned side = 0; side < SIDES; side++) {
        spsh__set_readers_close(&w.readers[side]);
        spsh__builder_free(&w.texts[side]);
    }
    spsh__builder_free(&w.lines);
    spsh__pack_hasher_free(w.hasher);
    spsh__json_free(w.json);
    return rc;
}
