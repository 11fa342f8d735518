/* plan_change_out.h: the result of `apply` and `revert` as JSON. */
#ifndef SPSH_PLAN_CHANGE_OUT_H
#define SPSH_PLAN_CHANGE_OUT_H

#include "speechshard/dedup.h"

/* Print what a plan changed in its datasets. Returns the exit status. */
int spsh__plan_change_json(const char *plan_path, const spsh_copy_plan_facts *facts);

#endif
