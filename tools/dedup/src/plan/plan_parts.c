/* plan_parts.c: see plan_parts.h. Sums are indexed by the number of a name in its dataset, so each
 * utterance costs only a few additions. The total audio of a part comes from the groups of the
 * dataset.
 */
#include "plan_parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "copy_page.h"
#include "speechshard/inside.h"

enum { KINDS = 3 };

static const spsh_name_kind kinds[KINDS] = {SPSH_NAME_DOMAIN, SPSH_NAME_SPLIT, SPSH_NAME_LANGUAGE};
static const char *const titles[KINDS] = {"domain|#dropped|#utterances|#of its audio|",
                                          "split|#dropped|#utterances|#of its audio|",
                                          "language|#dropped|#utterances||"};

typedef struct part {
    double seconds;
    uint64_t count;
} part;

typedef struct sums {
    const spsh_dataset *dataset;
    part all;
    part *by[KINDS]; /* indexed by number of the name; the last element counts utterances without a
                        name */
    uint64_t name_counts[KINDS];
} sums;

struct spsh__plan_parts {
    const spsh__print_set *set;
    size_t count;
    sums *datasets;
};

/* One row of a table. */
typedef struct line {
    const spsh_dataset *dataset; /* NULL if the row does not name its dataset */
    spsh_bytes name;
    part going;
    double total_s; /* negative: unknown */
    size_t rank;    /* position before sorting, to break ties */
} line;

spsh_status spsh__plan_parts_open(const spsh__print_set *set, spsh__plan_parts **ret_parts,
                                  spsh_error *err)
{
    spsh__plan_parts *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return SPSH_NO_MEMORY(err);
    p->set = set;
    p->datasets = calloc(spsh__print_set_dataset_count(set) + 1, sizeof(*p->datasets));
    bool failed = p->datasets == NULL;
    for (size_t i = 0; !failed && i < spsh__print_set_dataset_count(set); i++) {
        sums *s = &p->datasets[p->count++];
        s->dataset = spsh__print_set_dataset(set, i);
        for (size_t k = 0; !failed && k < KINDS; k++) {
            s->name_counts[k] = spsh_dataset_name_count(s->dataset, kinds[k]);
            s->by[k] = calloc((size_t)s->name_counts[k] + 1, sizeof(part));
            failed = s->by[k] == NULL;
        }
    }
    if (failed) {
        spsh__plan_parts_free(p);
        return SPSH_NO_MEMORY(err);
    }
    *ret_parts = p;
    return SPSH_OK;
}

void spsh__plan_parts_free(spsh__plan_parts *parts)
{
    if (parts == NULL)
        return;
    for (size_t i = 0; i < parts->count; i++)
        for (size_t k = 0; k < KINDS; k++)
            free(parts->datasets[i].by[k]);
    free(parts->datasets);
    free(parts);
}

static void add(part *p, double seconds)
{
    p->seconds += seconds;
    p->count++;
}

void spsh__plan_parts_add(spsh__plan_parts *parts, uint64_t ordinal, double seconds)
{
    spsh_row row;
    sums *s = &parts->datasets[spsh__print_set_place(parts->set, ordinal).number];
    add(&s->all, seconds);
    if (spsh__print_set_index_row(parts->set, ordinal, &row, NULL) != SPSH_OK)
        return;
    const uint32_t numbers[KINDS] = {row.domain, row.split, row.language};
    for (size_t k = 0; k < KINDS; k++) {
        const uint64_t number = numbers[k] < s->name_counts[k] ? numbers[k] : s->name_counts[k];
        add(&s->by[k][number], seconds);
    }
}

/* ---- drawing ---- */

/* Total seconds of a dataset's audio, or of one domain or split of it. */
static double total_of(const spsh_dataset *dataset, size_t kind, const spsh_bytes *name)
{
    spsh_dataset_group group;
    double seconds = 0;
    for (uint64_t i = 0; i < spsh_dataset_group_count(dataset); i++) {
        if (spsh_dataset_group_get(dataset, i, &group, NULL) != SPSH_OK ||
            group.sample_rate_hz == 0)
            continue;
        if (name == NULL || spsh__bytes_equal(*name, kind == 0 ? group.domain : group.split))
            seconds += (double)group.samples / group.sample_rate_hz;
    }
    return seconds;
}

static void row_line(spsh__builder *out, const void *user, size_t row)
{
    const line *l = (const line *)user + row;
    spsh__builder_append_text(out, "<td class=\"name\">");
    if (l->dataset != NULL) {
        spsh__page_name(out, spsh__bytes_of(spsh__copy_last_part(spsh_dataset_path(l->dataset))));
        spsh__builder_append_text(out, ": ");
    }
    spsh__page_name(out, l->name);
    spsh__builder_append_text(out, "</td>");
    spsh__page_cell_duration(out, l->going.seconds);
    spsh__page_cell_count(out, l->going.count);
    if (l->total_s >= 0) {
        spsh__page_cell_percent(out, l->going.seconds, l->total_s);
        spsh__page_cell_bar(out, l->going.seconds, l->total_s, 4);
    } else {
        spsh__builder_append_text(out, "<td></td><td class=\"bars\"></td>");
    }
}

/* In descending order of dropped audio. Equal lines keep their order. */
static int compare_lines(const void *left, const void *right)
{
    const line *a = (const line *)left;
    const line *b = (const line *)right;
    if (a->going.seconds > b->going.seconds || a->going.seconds < b->going.seconds)
        return a->going.seconds > b->going.seconds ? -1 : 1;
    return a->rank < b->rank ? -1 : 1;
}

static void draw_lines(spsh__builder *out, line *lines, size_t count, const char *head)
{
    const spsh__page_table table = {lines, head, row_line, count, "the plan", false};
    if (count == 0 || (count == 1 && lines[0].name.size_bytes == 0)) /* the table would not divide
                                                                        the audio */
        return;
    for (size_t i = 0; i < count; i++)
        lines[i].rank = i;
    qsort(lines, count, sizeof(*lines), compare_lines);
    spsh__page_rows(out, &table);
}

static void draw_datasets(const spsh__plan_parts *parts, spsh__builder *out, line *lines)
{
    size_t count = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const sums *s = &parts->datasets[i];
        lines[count++] = (line){.name = spsh__bytes_of(spsh_dataset_path(s->dataset)),
                                .going = s->all,
                                .total_s = total_of(s->dataset, 0, NULL)};
    }
    if (count > 1)
        draw_lines(out, lines, count, "dataset|#dropped|#utterances|#of its audio|");
}

static void draw_kind(const spsh__plan_parts *parts, spsh__builder *out, line *lines, size_t kind)
{
    size_t count = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const sums *s = &parts->datasets[i];
        for (uint64_t n = 0; n <= s->name_counts[kind]; n++) {
            line l = {.dataset = parts->count > 1 ? s->dataset : NULL,
                      .going = s->by[kind][n],
                      .total_s = -1};
            if (l.going.count == 0)
                continue;
            if (n < s->name_counts[kind] &&
                spsh_dataset_name(s->dataset, kinds[kind], (uint32_t)n, &l.name, NULL) != SPSH_OK)
                l.name = (spsh_bytes){NULL, 0};
            if (kinds[kind] != SPSH_NAME_LANGUAGE)
                l.total_s = total_of(s->dataset, kind, &l.name);
            lines[count++] = l;
        }
    }
    draw_lines(out, lines, count, titles[kind]);
}

spsh_status spsh__plan_parts_draw(const spsh__plan_parts *parts, spsh__builder *out,
                                  spsh_error *err)
{
    size_t most = parts->count;
    uint64_t going = 0;
    for (size_t i = 0; i < parts->count; i++)
        going += parts->datasets[i].all.count;
    if (going == 0)
        return SPSH_OK;
    for (size_t k = 0; k < KINDS; k++) {
        size_t count = 0;
        for (size_t i = 0; i < parts->count; i++)
            count += (size_t)parts->datasets[i].name_counts[k] + 1;
        most = count > most ? count : most;
    }
    line *lines = calloc(most, sizeof(*lines));
    if (lines == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__page_section_open(out, "Dropped audio by dataset, domain, split, and language");
    draw_datasets(parts, out, lines);
    for (size_t k = 0; k < KINDS; k++)
        draw_kind(parts, out, lines, k);
    spsh__page_section_close(out);
    free(lines);
    return SPSH_OK;
}
