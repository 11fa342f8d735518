/* run_cost.h: the cost of a run: machine hours, restarts, lost work, and the price.
 *
 *     const spsh__run_cost cost = spsh__run_cost_of(history);
 *     price = spsh__run_price(cost.kept_process_s + cost.lost_process_s, 9.83, &rates);
 *
 * A process lasts from its start line to its last line. Its time is *kept* up to the checkpoint
 * from which the next start resumed, and *lost* after the checkpoint. Between two processes the
 * run was *stopped*. Time that no line records is not counted: before the start line (which is
 * part of the stop), and after the last line, such as writing the last checkpoint. Starts at the
 * end without any work are ignored. Process-seconds are seconds times the number of processes of
 * the start. Unknown values are NaN.
 */
#ifndef SPSH_TRAIN_RUN_COST_H
#define SPSH_TRAIN_RUN_COST_H

#include "run_history.h"

typedef struct spsh__run_cost {
    uint64_t restarts;
    double wall_s; /* from the first start to the last line */
    double kept_s, kept_process_s;
    double lost_s, lost_process_s, lost_samples;  /* samples counts utterances */
    double stopped_s, stopped_process_s;          /* process count of the start that ended the
                                                     stop */
    double step_s, evaluation_s, save_s, other_s; /* shares of kept_s */
} spsh__run_cost;

/* Prices of a node-hour in any currency. NaN: not given. */
typedef struct spsh__run_rates {
    double on_demand, preemptible;
    double processes_per_node; /* assumes that all nodes are full */
} spsh__run_rates;

spsh__run_cost spsh__run_cost_of(const spsh__run_history *history);

double spsh__run_price(double process_s, double rate, const spsh__run_rates *rates);

/* The same values for people. */
enum { SPSH__RUN_COST_ROWS_MAX = 12 };
typedef struct spsh__run_cost_row {
    const char *what;
    char text[208];
} spsh__run_cost_row;

/* Fill the rows. rates NULL: no prices. Returns the number of rows; 0: the run records no times. */
size_t spsh__run_cost_rows(const spsh__run_cost *cost, const spsh__run_rates *rates,
                           spsh__run_cost_row rows[SPSH__RUN_COST_ROWS_MAX]);

#endif
