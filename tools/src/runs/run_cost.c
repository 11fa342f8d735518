/* run_cost.c: see run_cost.h. A sum with an unknown part is NaN, and so unknown. */
#include "run_cost.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/cli.h"

/* Return the time between two clock readings. Clocks of two machines may differ, so a negative
 * difference counts as 0. */
static double between(double from, double to)
{
    return to < from ? 0 : to - from;
}

static void add_stop(spsh__run_cost *c, const spsh__run_start *s)
{
    const double stopped_s = between(s->before_time, s->time) + s->stopped_s;
    c->restarts += 1 + (s->lost_starts > 0 && s->lost_starts < 1e9 ? (uint64_t)s->lost_starts : 0);
    c->lost_s += s->lost_s;
    c->lost_process_s += s->lost_process_s;
    c->lost_samples += s->lost_samples;
    c->stopped_s += stopped_s;
    c->stopped_process_s += stopped_s * s->world_size;
}

/* Count the starts, except starts at the end without a later line. Such a start belongs to a run
 * that was complete or has just resumed. */
static size_t busy_starts(const spsh__run_history *h)
{
    size_t count = h->start_count;
    while (count > 1 && h->starts[count - 1].last_time <= h->starts[count - 1].time)
        count--;
    return count;
}

static double evaluation_seconds(const spsh__run_history *h)
{
    double sum = 0;
    for (size_t i = 0; i < h->evaluation_count; i++)
        sum += h->evaluations[i].seconds;
    return sum;
}

spsh__run_cost spsh__run_cost_of(const spsh__run_history *h)
{
    spsh__run_cost c = {.wall_s = (double)NAN, .kept_s = (double)NAN, .lost_s = (double)NAN};
    const size_t count = busy_starts(h);
    if (count == 0)
        return c;
    c.wall_s = between(h->starts[0].time, h->starts[count - 1].last_time);
    c.kept_s = c.lost_s = 0;
    for (size_t i = 0; i < count; i++) {
        const spsh__run_start *s = &h->starts[i];
        const double kept_s = between(s->time, s->last_time);
        c.kept_s += kept_s;
        c.kept_process_s += kept_s * s->world_size;
        if (i > 0)
            add_stop(&c, s);
    }
    c.step_s = spsh__series_sum(&h->steps, SPSH__RUN_STEP_S);
    c.save_s = h->steps.count > 0 && isnan(h->last[SPSH__RUN_SAVE_S])
                   ? (double)NAN
                   : spsh__series_sum(&h->steps, SPSH__RUN_SAVE_S);
    c.evaluation_s = evaluation_seconds(h);
    c.other_s = between(c.step_s + c.save_s + c.evaluation_s, c.kept_s);
    return c;
}

double spsh__run_price(double process_s, double rate, const spsh__run_rates *rates)
{
    return process_s / 3600 / rates->processes_per_node * rate;
}

/* ---- for people ---- */

typedef struct row_list {
    spsh__run_cost_row *rows;
    size_t count;
} row_list;

static void put(row_list *l, const char *what, const char *format, ...) SPSH_PRINTF(3, 4);
static void put(row_list *l, const char *what, const char *format, ...)
{
    spsh__run_cost_row *row = &l->rows[l->count++];
    va_list arguments;
    row->what = what;
    va_start(arguments, format);
    (void)vsnprintf(row->text, sizeof(row->text), format, arguments);
    va_end(arguments);
}

/* Format a value for people, or "unknown". */
#define SHOW_KNOWN(value_, unit_)                                                                  \
    (isfinite(value_) ? SPSH_SHOW("%.2f " unit_, (value_)) : "unknown")
#define SHOW_HOURS(seconds_)      SHOW_KNOWN((seconds_) / 3600, "h")
#define SHOW_SHARE(part_, whole_) SHOW_KNOWN(100 * (part_) / (whole_), "%%")

static void put_process_hours(row_list *l, const char *what, double seconds, double process_s)
{
    put(l, what, "%s, of processes %s", SHOW_HOURS(seconds), SHOW_HOURS(process_s));
}

static void put_losses(row_list *l, const spsh__run_cost *c)
{
    if (!isfinite(c->lost_process_s + c->stopped_s + c->lost_samples)) {
        put(l, "lost work", "unknown: an earlier version did not record the lost work");
        return;
    }
    put(l, "lost work", "%s, of processes %s, %s of all; %.0f utterances", SHOW_HOURS(c->lost_s),
        SHOW_HOURS(c->lost_process_s),
        SHOW_SHARE(c->lost_process_s, c->kept_process_s + c->lost_process_s), c->lost_samples);
    put_process_hours(l, "stopped", c->stopped_s, c->stopped_process_s);
}

static void put_price(row_list *l, const char *what, double price, const char *of)
{
    if (isfinite(price))
        put(l, what, "%.2f %s", price, of);
    else
        put(l, what, "unknown");
}

static void put_prices(row_list *l, const spsh__run_cost *c, const spsh__run_rates *r)
{
    const double ran_s = c->kept_process_s + c->lost_process_s;
    if (isfinite(r->preemptible)) {
        put_price(l, "price, preemptible", spsh__run_price(ran_s, r->preemptible, r),
                  "for the kept and the lost work");
        if (c->restarts > 0)
            put_price(l, "at most",
                      spsh__run_price(ran_s + c->stopped_process_s, r->preemptible, r),
                      "if you also paid for the machines while the run was stopped");
    }
    if (isfinite(r->on_demand))
        put_price(l, "price, on demand", spsh__run_price(c->kept_process_s, r->on_demand, r),
                  "for the kept work only, as if nothing had stopped the run");
}

size_t spsh__run_cost_rows(const spsh__run_cost *c, const spsh__run_rates *rates,
                           spsh__run_cost_row rows[SPSH__RUN_COST_ROWS_MAX])
{
    row_list l = {rows, 0};
    if (!isfinite(c->wall_s))
        return 0;
    put(&l, "wall clock", "%s", SHOW_HOURS(c->wall_s));
    put_process_hours(&l, "kept work", c->kept_s, c->kept_process_s);
    put(&l, "parts of it", "steps %s, evaluations %s, checkpoints %s, other %s",
        SHOW_SHARE(c->step_s, c->kept_s), SHOW_SHARE(c->evaluation_s, c->kept_s),
        SHOW_SHARE(c->save_s, c->kept_s), SHOW_SHARE(c->other_s, c->kept_s));
    put(&l, "restarts", "%" PRIu64, c->restarts);
    if (c->restarts > 0)
        put_losses(&l, c);
    if (rates != NULL)
        put_prices(&l, c, rates);
    return l.count;
}
