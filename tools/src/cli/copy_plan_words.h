/* copy_plan_words.h: what `apply` and `revert` share: a plan, and where its datasets are. */
#ifndef SPSH_COPY_PLAN_WORDS_H
#define SPSH_COPY_PLAN_WORDS_H

#include "plan/copy_plan_apply.h"

typedef struct spsh__plan_view {
    spsh__copy_plan *plan;
    const char **paths; /* of the plan's datasets, in its order */
} spsh__plan_view;

/**
 * Reads a plan. Datasets named on the command line take the place of those of the plan that have
 * the same id, wherever they were when it was made.
 *
 * @param operands  the plan, then datasets; borrowed until free
 * @return SPSH_EXIT_DONE, or what was reported
 */
int spsh__plan_view_open(const char *command, char *const *operands, int operand_count,
                         spsh__plan_view *ret_view);
void spsh__plan_view_free(spsh__plan_view *view);

#endif
