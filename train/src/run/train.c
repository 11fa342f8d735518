/* train.c: spsh_train: the world of a run: a process of its own, a simulated cluster, or a record.
 */
#include "speechshard/train.h"

#include "run_one_process.h"
#include "speechshard/options.h"

spsh_status spsh_train(const spsh_train_options *options, spsh_train_result *ret_result,
                       spsh_error *err)
{
    spsh_train_options known = SPSH_TRAIN_OPTIONS_INIT;
    spsh__run_world world = {.ops = &spsh__process_world};
    const spsh_status rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc != SPSH_OK)
        return rc;
    if (known.run == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a run needs a folder");
    if (known.replay != NULL)
        return spsh__run_replayed(&known, ret_result, err);
    if (known.simulate != NULL)
        return spsh__run_simulated(&known, ret_result, err);
    return spsh__run_in(&known, &world, ret_result, err);
}
