/* run_rows.c: see run_rows.h. */
#include "run_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

spsh_status spsh__rows_open(const spsh__feed *feed, uint32_t leaves, bool has_own,
                            spsh__step_rows *ret, spsh_error *err)
{
    uint32_t domains = spsh__feed_domain_count(feed);
    if (domains > SPSH__METRIC_DOMAINS_MAX)
        domains = SPSH__METRIC_DOMAINS_MAX; /* the last one is the rest of them */
    ret->leaves = leaves;
    ret->domain_count = domains;
    ret->count = SPSH__ROW_DOMAINS + 3 * domains;
    ret->rows = calloc((size_t)leaves * ret->count + 1, sizeof(*ret->rows));
    ret->totals = calloc(ret->count, sizeof(*ret->totals));
    ret->own_totals = has_own ? calloc(ret->count, sizeof(*ret->own_totals)) : ret->totals;
    if (ret->rows == NULL || ret->totals == NULL || ret->own_totals == NULL)
        return SPSH_NO_MEMORY(err);
    return SPSH_OK;
}

void spsh__rows_close(spsh__step_rows *rows)
{
    free(rows->rows);
    if (rows->own_totals != rows->totals)
        free(rows->own_totals);
    free(rows->totals);
}

void spsh__rows_clear(spsh__step_rows *rows)
{
    memset(rows->rows, 0, (size_t)rows->leaves * rows->count * sizeof(*rows->rows));
}

double *spsh__row_of(const spsh__step_rows *rows, uint32_t own)
{
    return rows->rows + (size_t)own * rows->count;
}

void spsh__row_count(double *row, const spsh__feed_batch *b, uint64_t padded_frames)
{
    row[SPSH__ROW_SERVED] = b->source->utterance_count;
    row[SPSH__ROW_WITHOUT_TEXT] = b->without_text;
    row[SPSH__ROW_WITHOUT_FRAMES] = b->without_frames;
    row[SPSH__ROW_WITHOUT_ALIGNMENT] = b->without_alignment;
    row[SPSH__ROW_OTHER_LENGTH] = b->other_length;
    row[SPSH__ROW_AUDIO_S] = b->seconds;
    row[SPSH__ROW_PADDED_FRAMES] = (double)padded_frames;
    for (uint32_t n = 0; n < b->batch; n++)
        row[SPSH__ROW_FRAMES] += b->lengths[n];
}

void spsh__row_add_loss(double *row, uint32_t domain_count, uint32_t domain, const double loss[3])
{
    const size_t last = domain_count - 1;
    double *of_domain = row + SPSH__ROW_DOMAINS + 3 * (domain < last ? domain : last);
    row[SPSH__ROW_LOSS] += loss[0];
    row[SPSH__ROW_LOSSES] += loss[1];
    row[SPSH__ROW_COUNTED] += loss[2];
    for (int i = 0; i < 3; i++)
        of_domain[i] += loss[i];
}

void spsh__row_drop_loss(double *row, uint32_t count)
{
    if (isfinite(row[SPSH__ROW_LOSS]))
        return;
    row[SPSH__ROW_LOSS] = row[SPSH__ROW_LOSSES] = 0;
    for (uint32_t i = SPSH__ROW_DOMAINS; i < count; i++)
        row[i] = 0;
}

void spsh__rows_report(const spsh__step_rows *rows, const spsh__feed *feed, spsh__step_facts *f)
{
    const double *t = rows->totals;
    f->loss = t[SPSH__ROW_LOSS] / t[SPSH__ROW_LOSSES];
    f->audio_s = t[SPSH__ROW_AUDIO_S];
    f->padding =
        t[SPSH__ROW_PADDED_FRAMES] > 0 ? 1 - t[SPSH__ROW_FRAMES] / t[SPSH__ROW_PADDED_FRAMES] : 0;
    f->utterances = (uint32_t)t[SPSH__ROW_SERVED];
    f->infeasible = (uint32_t)t[SPSH__ROW_INFEASIBLE];
    f->without_text = (uint32_t)t[SPSH__ROW_WITHOUT_TEXT];
    f->without_frames = (uint32_t)t[SPSH__ROW_WITHOUT_FRAMES];
    f->without_alignment = (uint32_t)t[SPSH__ROW_WITHOUT_ALIGNMENT];
    f->other_length = (uint32_t)t[SPSH__ROW_OTHER_LENGTH];
    f->frame_error = 1 - t[SPSH__ROW_RIGHT] / t[SPSH__ROW_LOSSES];
    f->sent_bytes = (uint64_t)t[SPSH__ROW_SENT];
    for (uint32_t i = 0; i < SPSH__METRIC_STALENESS; i++)
        f->staleness[i] = (uint64_t)t[SPSH__ROW_STALE + i];
    f->domain_count = rows->domain_count;
    for (uint32_t d = 0; d < rows->domain_count; d++) {
        const double *domain = t + SPSH__ROW_DOMAINS + 3 * (size_t)d;
        f->domains[d] = (spsh__domain_facts){spsh__feed_domain_name(feed, d), domain[0] / domain[1],
                                             (uint64_t)domain[2]};
    }
}
