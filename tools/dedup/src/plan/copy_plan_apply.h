/* copy_plan_apply.h: a plan of deduplication in force, and undone: a skip overlay in each dataset.
 *
 *     spsh__copy_view_apply(plan, paths, io, &facts, err);
 *     spsh__copy_view_revert(plan, paths, io, &facts, err);
 *
 * Nothing that is sealed changes. The overlay's name holds the plan's hash, so a plan finds its own
 * again, whatever other overlays came since.
 */
#ifndef SPSH_COPY_PLAN_APPLY_H
#define SPSH_COPY_PLAN_APPLY_H

#include "copy_plan.h"

#define SPSH__COPY_VIEW_NAME_BYTES 24
/* "dedupe-0f3c5a7b9d1e" */
void spsh__copy_view_name(const spsh__copy_plan *plan, char ret_name[SPSH__COPY_VIEW_NAME_BYTES]);

typedef struct spsh__copy_view_facts {
    size_t dataset_count;     /* with something to drop */
    size_t changed_count;     /* of those, by this call */
    uint64_t utterance_count; /* that the plan drops */
} spsh__copy_view_facts;

/**
 * Adds the overlay to every dataset that loses utterances, or to none: what was added is removed
 * when another one fails. Datasets that have it already are left alone.
 *
 * @param paths  where the plan's datasets are, in its order; NULL: where the plan says
 * @return SPSH_E_MISMATCH when a dataset is another one, or holds other utterances, than the plan
 * was made for; also when an utterance that was kept is skipped by now, so that its copies are
 * wanted
 */
spsh_status spsh__copy_view_apply(const spsh__copy_plan *plan, const char *const *paths,
                                  const spsh_io *io, spsh__copy_view_facts *ret_facts,
                                  spsh_error *err);

/* Removes it where it is in force. After a failure the same call goes on. */
spsh_status spsh__copy_view_revert(const spsh__copy_plan *plan, const char *const *paths,
                                   const spsh_io *io, spsh__copy_view_facts *ret_facts,
                                   spsh_error *err);

#endif
