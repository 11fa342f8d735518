/* pack_facts.c: see pack_facts.h.
 *
 * Hours by domain and split come from the groups of the manifest; durations, codecs and copies from
 * one pass over the rows of the index. Durations are counted in bins of a millisecond up to a
 * minute and of a second up to a day, which gives percentiles without a sort.
 */
#include "pack_facts.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/human.h"
#include "speechshard/inside.h"

#define CHUNK_ROWS      UINT64_C(4096)
#define FINE_BINS       60000U /* milliseconds */
#define COARSE_BINS     86400U /* seconds */
#define BINS            (FINE_BINS + COARSE_BINS)
#define KINDS_MAX       256U
#define DURATION_TARGET 40U /* number of bars that hold nearly all utterances */
#define SHARE_WARNED    0.01

const unsigned spsh__percentiles[SPSH__PERCENTILES] = {1, 5, 25, 50, 75, 95, 99};

typedef struct gatherer {
    const spsh_dataset *dataset;
    spsh__facts *facts;
    uint64_t *bins;
    size_t *domain_places, *split_places; /* number of a name -> index in the parts */
    spsh_row *rows;                       /* rows of one chunk */
} gatherer;

/* ---- domains, splits, and their combinations ---- */

static spsh_status name_parts(gatherer *g, spsh_name_kind kind, spsh__fact_parts *parts,
                              spsh_error *err)
{
    const size_t count = (size_t)spsh_dataset_name_count(g->dataset, kind);
    parts->items = calloc(count + 1, sizeof(*parts->items));
    if (parts->items == NULL)
        return SPSH_NO_MEMORY(err);
    parts->count = count + 1; /* the last part is for utterances without a name */
    for (size_t i = 0; i < count; i++) {
        spsh_status rc =
            spsh_dataset_name(g->dataset, kind, (uint32_t)i, &parts->items[i].name, err);
        if (rc != SPSH_OK)
            return rc;
        parts->items[i].number = i;
    }
    parts->items[count].number = count;
    return SPSH_OK;
}

static int compare_names(spsh_bytes a, spsh_bytes b)
{
    const size_t common = a.size_bytes < b.size_bytes ? a.size_bytes : b.size_bytes;
    const int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.size_bytes > b.size_bytes) - (a.size_bytes < b.size_bytes);
}

static int by_name(const void *a, const void *b)
{
    return compare_names(((const spsh__part *)a)->name, ((const spsh__part *)b)->name);
}

static int by_seconds(const void *a, const void *b)
{
    const spsh__part *x = a;
    const spsh__part *y = b;
    if (x->all.seconds != y->all.seconds)
        return x->all.seconds > y->all.seconds ? -1 : 1;
    return compare_names(x->name, y->name);
}

/* Find a part by name. parts are sorted by name and include the names of all groups. */
static size_t find_part(const spsh__fact_parts *parts, spsh_bytes name)
{
    const spsh__part wanted = {.name = name};
    const spsh__part *found =
        bsearch(&wanted, parts->items, parts->count, sizeof(*parts->items), by_name);
    return found == NULL ? 0 : (size_t)(found - parts->items);
}

static void add_amount(spsh__amount *amount, uint64_t utterances, double seconds)
{
    amount->utterances += utterances;
    amount->seconds += seconds;
}

static int by_place(const void *a, const void *b)
{
    const spsh__fact_cell *x = a;
    const spsh__fact_cell *y = b;
    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    return (x->split > y->split) - (x->split < y->split);
}

/* Merge cells of the same domain and split. Groups also differ in their rates. */
static void join_cells(spsh__facts *f)
{
    size_t kept = 0;
    if (f->cell_count > 1)
        qsort(f->cells, f->cell_count, sizeof(*f->cells), by_place);
    for (size_t i = 0; i < f->cell_count; i++) {
        if (kept > 0 && by_place(&f->cells[kept - 1], &f->cells[i]) == 0)
            add_amount(&f->cells[kept - 1].all, f->cells[i].all.utterances,
                       f->cells[i].all.seconds);
        else
            f->cells[kept++] = f->cells[i];
    }
    f->cell_count = kept;
}

static spsh_status count_groups(gatherer *g, spsh_error *err)
{
    spsh__facts *f = g->facts;
    const uint64_t count = spsh_dataset_group_count(g->dataset);
    f->cells = calloc((size_t)count + 1, sizeof(*f->cells));
    if (f->cells == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint64_t i = 0; i < count; i++) {
        spsh_dataset_group group;
        spsh_status rc = spsh_dataset_group_get(g->dataset, i, &group, err);
        if (rc != SPSH_OK)
            return rc;
        const size_t domain = find_part(&f->domains, group.domain);
        const size_t split = find_part(&f->splits, group.split);
        const double seconds = (double)group.samples / group.sample_rate_hz;
        add_amount(&f->domains.items[domain].all, group.utterance_count, seconds);
        add_amount(&f->splits.items[split].all, group.utterance_count, seconds);
        add_amount(&f->all, group.utterance_count, seconds);
        f->cells[f->cell_count++] = (spsh__fact_cell){
            domain, split, {group.utterance_count, seconds}
        };
    }
    return SPSH_OK;
}

/* Map each part's number to its index in the sorted parts. The last number means "no name". */
static size_t *places_of(const spsh__fact_parts *parts)
{
    size_t *places = calloc(parts->count + 1, sizeof(*places));
    for (size_t i = 0; places != NULL && i < parts->count; i++)
        places[parts->items[i].number] = i;
    return places;
}

static size_t place_of(const size_t *places, const spsh__fact_parts *parts, uint32_t number)
{
    return places[number < parts->count - 1 ? number : parts->count - 1];
}

/* Sort the parts by duration, update the indices in the cells, and remove empty parts. */
static spsh_status settle_parts(spsh__facts *f, bool domains, spsh_error *err)
{
    spsh__fact_parts *parts = domains ? &f->domains : &f->splits;
    for (size_t i = 0; i < parts->count; i++)
        parts->items[i].number = i;
    qsort(parts->items, parts->count, sizeof(*parts->items), by_seconds);
    size_t *places = places_of(parts);
    if (places == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < f->cell_count; i++) {
        size_t *place = domains ? &f->cells[i].domain : &f->cells[i].split;
        *place = places[*place];
    }
    free(places);
    while (parts->count > 0 && parts->items[parts->count - 1].all.utterances == 0)
        parts->count--;
    return SPSH_OK;
}

/* Copy the names, which must outlive the dataset. */
static spsh_status keep_names(spsh__facts *f, spsh_error *err)
{
    const spsh__fact_parts *const all[] = {&f->domains, &f->splits};
    size_t at = 0;
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < all[k]->count; i++)
            spsh__builder_append_bytes(&f->names, all[k]->items[i].name);
    }
    if (f->names.failed)
        return SPSH_NO_MEMORY(err);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < all[k]->count; i++) {
            spsh_bytes *name = &all[k]->items[i].name;
            *name = (spsh_bytes){f->names.data + at, name->size_bytes};
            at += name->size_bytes;
        }
    }
    return SPSH_OK;
}

/* ---- rows ---- */

static void count_duration(uint64_t *bins, uint64_t samples, uint32_t rate_hz)
{
    const uint64_t seconds = samples / rate_hz;
    const uint64_t ms = seconds * 1000 + samples % rate_hz * 1000 / rate_hz;
    if (ms < FINE_BINS)
        bins[ms]++;
    else
        bins[FINE_BINS + (seconds < COARSE_BINS ? seconds : COARSE_BINS - 1)]++;
}

static void count_kind(spsh__facts *f, const spsh_row *row, double seconds)
{
    size_t i = 0;
    spsh_pack_kind kind = {row->codec, row->sample_rate_hz, row->channels, 0, 0};
    while (i < f->kind_count &&
           (f->kinds[i].codec != kind.codec || f->kinds[i].sample_rate_hz != kind.sample_rate_hz ||
            f->kinds[i].channels != kind.channels))
        i++;
    if (i + 1 >= KINDS_MAX) {
        i = KINDS_MAX - 1;
        kind = (spsh_pack_kind){SPSH_CODEC_UNKNOWN, 0, 0, 0, 0};
    }
    if (i >= f->kind_count) {
        f->kinds[i] = kind;
        f->kind_count = i + 1;
    }
    f->kinds[i].utterances++;
    f->kinds[i].seconds += seconds;
}

static spsh_status count_copy(gatherer *g, const spsh_row *row, double seconds, spsh_error *err)
{
    spsh__facts *f = g->facts;
    spsh_row original;
    spsh_status rc = spsh_dataset_rows(g->dataset, row->duplicate_of, 1, &original, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__part *domain = &f->domains.items[place_of(g->domain_places, &f->domains, row->domain)];
    spsh__part *split = &f->splits.items[place_of(g->split_places, &f->splits, row->split)];
    add_amount(&f->copies, 1, seconds);
    add_amount(&domain->copies, 1, seconds);
    add_amount(&split->copies, 1, seconds);
    domain->from_others += original.domain != row->domain ? 1 : 0;
    split->from_others += original.split != row->split ? 1 : 0;
    return SPSH_OK;
}

static spsh_status count_row(gatherer *g, const spsh_row *row, spsh_error *err)
{
    spsh__facts *f = g->facts;
    spsh__durations *d = &f->durations;
    const double seconds = (double)row->samples / row->sample_rate_hz;
    count_duration(g->bins, row->samples, row->sample_rate_hz);
    count_kind(f, row, seconds);
    d->min_seconds = seconds < d->min_seconds ? seconds : d->min_seconds;
    d->max_seconds = seconds > d->max_seconds ? seconds : d->max_seconds;
    return (row->flags & SPSH_UTTERANCE_DUPLICATE) != 0 ? count_copy(g, row, seconds, err)
                                                        : SPSH_OK;
}

static spsh_status count_rows(gatherer *g, spsh_error *err)
{
    const uint64_t count = g->facts->info.utterance_count;
    spsh_status rc = SPSH_OK;
    for (uint64_t first = 0; first < count && rc == SPSH_OK; first += CHUNK_ROWS) {
        const uint64_t chunk = count - first < CHUNK_ROWS ? count - first : CHUNK_ROWS;
        rc = spsh_dataset_rows(g->dataset, first, chunk, g->rows, err);
        for (uint64_t i = 0; i < chunk && rc == SPSH_OK; i++)
            rc = count_row(g, &g->rows[i], err);
    }
    return rc;
}

/* ---- durations ---- */

static uint64_t bin_ms(size_t bin)
{
    return bin < FINE_BINS ? bin : (uint64_t)(bin - FINE_BINS) * 1000;
}

/* Find the percentiles by nearest rank. */
static void find_percentiles(spsh__facts *f, const uint64_t *bins)
{
    uint64_t seen = 0;
    size_t at = 0;
    for (size_t i = 0; i < BINS && at < SPSH__PERCENTILES; i++) {
        seen += bins[i];
        while (at < SPSH__PERCENTILES && seen > 0 &&
               (double)seen * 100 >= (double)spsh__percentiles[at] * (double)f->all.utterances)
            f->durations.percentiles[at++] = (double)bin_ms(i) / 1000;
    }
}

/* Choose a round bar width so that the bars cover nearly all utterances. */
static void fill_bars(spsh__facts *f, const uint64_t *bins)
{
    static const unsigned steps[] = {1, 2, 5};
    spsh__durations *d = &f->durations;
    const uint64_t reach_ms = (uint64_t)(d->percentiles[SPSH__PERCENTILES - 1] * 1000) + 1;
    uint64_t width_ms = 10;
    uint64_t decade_ms = 10;
    for (size_t i = 0; reach_ms / width_ms >= DURATION_TARGET; i++) {
        decade_ms *= i % 3 == 2 ? 10 : 1;
        width_ms = decade_ms * steps[(i + 1) % 3];
    }
    for (size_t i = 0; i < BINS; i++) {
        uint64_t bar = bin_ms(i) / width_ms;
        if (bins[i] == 0)
            continue;
        d->last_is_open |= bar >= SPSH__DURATION_BARS;
        bar = bar < SPSH__DURATION_BARS ? bar : SPSH__DURATION_BARS - 1;
        d->bars[bar] += bins[i];
        d->bar_count = bar + 1;
    }
    d->bar_seconds = (double)width_ms / 1000;
}

/* ---- warnings for a person ---- */

static void warn(spsh__facts *f, const char *format, ...) SPSH_PRINTF(2, 3);
static void warn(spsh__facts *f, const char *format, ...)
{
    va_list args;
    if (f->warning_count == SPSH__WARNINGS_MAX)
        return;
    va_start(args, format);
    (void)vsnprintf(f->warnings[f->warning_count++], SPSH__WARNING_BYTES, format, args);
    va_end(args);
}

static void warn_of_share(spsh__facts *f, const char *what, uint64_t part, uint64_t whole)
{
    if (part > 0 && (double)part >= SHARE_WARNED * (double)whole)
        warn(f, "%s: %s of %s (%s)", what, SPSH_SHOW_COUNT(part), SPSH_SHOW_COUNT(whole),
             SPSH_SHOW_PERCENT((double)part, (double)whole));
}

/* Compare every kind of audio with the kind that has the most hours, and warn about the share that
 * differs. */
static void warn_of_kinds(spsh__facts *f)
{
    double other_rate = 0;
    double other_channels = 0;
    for (size_t i = 1; i < f->kind_count; i++) {
        if (f->kinds[i].sample_rate_hz != f->kinds[0].sample_rate_hz)
            other_rate += f->kinds[i].seconds;
        if (f->kinds[i].channels != f->kinds[0].channels)
            other_channels += f->kinds[i].seconds;
    }
    if (other_rate > 0)
        warn(f, "sample rates differ: %s of the hours are not %" PRIu32 " Hz",
             SPSH_SHOW_PERCENT(other_rate, f->all.seconds), f->kinds[0].sample_rate_hz);
    if (other_channels > 0)
        warn(f, "numbers of channels differ: %s of the hours have another one than %" PRIu32,
             SPSH_SHOW_PERCENT(other_channels, f->all.seconds), f->kinds[0].channels);
}

static void warn_of_all(spsh__facts *f)
{
    char line[SPSH__PUBLISHED_LINE_BYTES];
    uint64_t crossing = 0;
    for (size_t i = 0; i < spsh__published_count(); i++) {
        const uint64_t found = f->published.utterances[i];
        if (found > 0 && spsh__published_differs(i, found))
            warn(f, "%s", spsh__published_line(i, found, line));
    }
    for (size_t i = 0; i < f->sources.count; i++) {
        if (f->sources.items[i].notes[0] != '\0')
            warn(f, "%s", f->sources.items[i].notes);
    }
    warn_of_share(f, "rejected rows", spsh__source_rejected(&f->rows, &f->tally),
                  spsh__source_rows_in(&f->rows));
    for (size_t i = 0; i < f->splits.count; i++)
        crossing += f->splits.items[i].from_others;
    if (crossing > 0) /* warn about any number of them */
        warn(f, "utterances that are copies of audio in another split: %s",
             SPSH_SHOW_COUNT(crossing));
    if (f->rejects.events[SPSH_REJECT_DURATION_MISMATCH] > 0) /* maybe metadata of other audio */
        warn(f, "utterances whose audio is not as long as their metadata say: %s of %s",
             SPSH_SHOW_COUNT(f->rejects.events[SPSH_REJECT_DURATION_MISMATCH]),
             SPSH_SHOW_COUNT(f->counts.packed));
    if (f->rejects.events[SPSH_REJECT_NO_END_FLAG] > 0)
        warn(f, "Ogg recordings without an end-of-stream flag (no_end_flag), whole otherwise: %s",
             SPSH_SHOW_COUNT(f->rejects.events[SPSH_REJECT_NO_END_FLAG]));
    warn_of_share(f, "utterances without text", f->counts.text_missing, f->counts.packed);
    warn_of_share(f, "recordings that are as good as silent, RMS below -60 dBFS",
                  spsh__level_quiet(&f->levels), f->levels.recordings);
    warn_of_share(f, "clipped recordings, 8 or more values at full scale", f->levels.clipped,
                  f->levels.recordings);
    warn_of_kinds(f);
    if (f->counts.decode_unjudged > 0)
        warn(f, "headers were trusted: nothing was decoded, levels were not measured");
}

/* ---- all facts ---- */

static int kinds_by_seconds(const void *a, const void *b)
{
    const spsh_pack_kind *x = a;
    const spsh_pack_kind *y = b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    if (x->codec != y->codec)
        return x->codec < y->codec ? -1 : 1;
    if (x->sample_rate_hz != y->sample_rate_hz)
        return x->sample_rate_hz < y->sample_rate_hz ? -1 : 1;
    return (x->channels > y->channels) - (x->channels < y->channels);
}

static spsh_status ensure_capacity(gatherer *g, spsh_error *err)
{
    spsh__facts *f = g->facts;
    qsort(f->domains.items, f->domains.count, sizeof(*f->domains.items), by_name);
    qsort(f->splits.items, f->splits.count, sizeof(*f->splits.items), by_name);
    g->domain_places = places_of(&f->domains);
    g->split_places = places_of(&f->splits);
    g->bins = calloc(BINS, sizeof(*g->bins));
    g->rows = calloc(CHUNK_ROWS, sizeof(*g->rows));
    f->kinds = calloc(KINDS_MAX, sizeof(*f->kinds));
    return g->domain_places == NULL || g->split_places == NULL || g->bins == NULL ||
                   g->rows == NULL || f->kinds == NULL
               ? SPSH_NO_MEMORY(err)
               : SPSH_OK;
}

static spsh_status read_dataset(gatherer *g, spsh_error *err)
{
    spsh__facts *f = g->facts;
    f->durations.min_seconds = HUGE_VAL;
    spsh_status rc = name_parts(g, SPSH_NAME_DOMAIN, &f->domains, err);
    if (rc == SPSH_OK)
        rc = name_parts(g, SPSH_NAME_SPLIT, &f->splits, err);
    if (rc == SPSH_OK)
        rc = ensure_capacity(g, err);
    if (rc == SPSH_OK)
        rc = count_groups(g, err);
    if (rc == SPSH_OK)
        rc = count_rows(g, err);
    if (rc == SPSH_OK)
        rc = settle_parts(f, true, err);
    if (rc == SPSH_OK)
        rc = settle_parts(f, false, err);
    if (rc == SPSH_OK)
        rc = keep_names(f, err);
    if (rc != SPSH_OK)
        return rc;
    join_cells(f);
    qsort(f->kinds, f->kind_count, sizeof(*f->kinds), kinds_by_seconds);
    find_percentiles(f, g->bins);
    fill_bars(f, g->bins);
    f->has_dataset = true;
    return SPSH_OK;
}

static void sum_sources(spsh__facts *f)
{
    for (size_t i = 0; i < f->sources.count; i++) {
        const spsh__source_rows *rows = &f->sources.items[i].rows;
        f->rows.offered += rows->offered;
        f->rows.rejected += rows->rejected;
        f->rows.repeated += rows->repeated;
        f->rows.merged += rows->merged;
        f->rows.excluded += rows->excluded;
        f->tally.packed += f->tallies[i].packed;
        f->tally.rejected += f->tallies[i].rejected;
        f->tally.audio_ns += f->tallies[i].audio_ns;
    }
}

spsh_status spsh__facts_gather(const spsh__pack_result *result, spsh__plan *plan,
                               spsh__packed *packed, const spsh_dataset *dataset,
                               spsh__facts *facts, spsh_error *err)
{
    gatherer g = {.dataset = dataset, .facts = facts};
    spsh_status rc = SPSH_OK;

    memcpy(facts->dataset_id, plan->dataset_id, sizeof(facts->dataset_id));
    spsh__builder_append_bytes(&facts->options, spsh__builder_bytes(&plan->options));
    facts->sources = plan->sources;
    plan->sources = (spsh__sources){0};
    facts->tallies = packed->tallies;
    packed->tallies = NULL;
    facts->published = plan->published;
    facts->levels = packed->levels;
    facts->counts = result->counts;
    facts->rejects = result->rejects;
    facts->info = result->info;
    sum_sources(facts);
    if (facts->options.failed)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK && dataset != NULL)
        rc = read_dataset(&g, err);
    if (rc == SPSH_OK)
        warn_of_all(facts);
    free(g.domain_places);
    free(g.split_places);
    free(g.bins);
    free(g.rows);
    return rc;
}

void spsh__facts_free(spsh__facts *facts)
{
    if (facts == NULL)
        return;
    spsh__sources_free(&facts->sources);
    spsh__examples_free(&facts->examples);
    spsh__builder_free(&facts->options);
    spsh__builder_free(&facts->names);
    free(facts->tallies);
    free(facts->domains.items);
    free(facts->splits.items);
    free(facts->cells);
    free(facts->kinds);
    *facts = (spsh__facts){0};
}
