/* run_cost.h: what a run took of its machines: hours, restarts, lost work, and its price.
 *
 *     const spsh__run_cost cost = spsh__run_cost_of(history);
 *     price = spsh__run_price(cost.kept_process_s + cost.lost_process_s, 9.83, &rates);
 *
 * The life of a process is from its line of start to its last line. It is *kept* up to the
 * checkpoint that the next start went on from, *lost* behind it; between one life and the next the
 * run was *stopped*. What no line tells is in none of them: a process before its line of start,
 * which is part of the stop, and after its last one, as when the last checkpoint is written.
 * Starts at the end that have done nothing are left out. Process-seconds are seconds times
 * processes of the start. What is not known is NaN.
 */
#ifndef SPSH_TRAIN_RUN_COST_H
#define SPSH_TRAIN_RUN_COST_H

#include "run_history.h"

typedef struct spsh__run_cost {
    uint64_t restarts;
    double wall_s; /* from the first start to the last line */
    double kept_s, kept_process_s;
    double lost_s, lost_process_s, lost_samples;  /* samples: utterances */
    double stopped_s, stopped_process_s;          /* processes: of the start that ended the stop */
    double step_s, evaluation_s, save_s, other_s; /* of kept_s */
} spsh__run_cost;

/* Any currency, for an hour of a node. NaN: not given. */
typedef struct spsh__run_rates {
    double on_demand, preemptible;
    double processes_per_node; /* all nodes are full */
} spsh__run_rates;

spsh__run_cost spsh__run_cost_of(const spsh__run_history *history);

double spsh__run_price(double process_s, double rate, const spsh__run_rates *rates);

/* The same for people. */
enum { SPSH__RUN_COST_ROWS_MAX = 12 };
typedef struct spsh__run_cost_row {
    const char *what;
    char text[208];
} spsh__run_cost_row;

/* rates NULL: no prices. Returns how many rows there are; 0: the run tells nothing of its time. */
size_t spsh__run_cost_rows(const spsh__run_cost *cost, const spsh__run_rates *rates,
                           spsh__run_cost_row rows[SPSH__RUN_COST_ROWS_MAX]);

#endif
