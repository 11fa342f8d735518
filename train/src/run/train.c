/* train.c: spsh_train: selects the world of a run: a process, a simulated cluster, or a record. */
#include "speechshard/train.h"

#include "run_one_process.h"
#include "speechshard/options.h"

spsh_status spsh_train(const spsh_train_options *options, spsh_train_result *ret_result,
                       spsh_error *err)
{
    spsh_train_options known = SPSH_TRAIN_OPTIONS_INIT;
    spsh__run_world world = {.ops = &spsh__process_world};
    spsh_train_result result = SPSH_TRAIN_RESULT_INIT;
    spsh_status rc = spsh_result_check(ret_result, sizeof(result), err);
    if (rc == SPSH_OK)
        rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc != SPSH_OK)
        return rc;
    if (known.run == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "run is NULL: a run needs a folder");
    if (known.replay != NULL)
        rc = spsh__run_replayed(&known, &result, err);
    else if (known.simulate != NULL)
        rc = spsh__run_simulated(&known, &result, err);
    else
        rc = spsh__run_in(&known, &world, &result, err);
    if (rc == SPSH_OK || rc == SPSH_E_CANCELED)
        spsh_result_give(ret_result, &result, sizeof(result));
    return rc;
}
