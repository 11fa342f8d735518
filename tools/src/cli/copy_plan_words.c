/* copy_plan_words.c: what `apply` and `revert` share. */
#include "copy_plan_words.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Puts the path where the plan has a dataset with its id. */
static int place_dataset(const char *plan_path, const char *path, spsh__plan_view *view)
{
    spsh_dataset *dataset = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    bool is_there = false;
    if (spsh_dataset_open(path, NULL, &dataset, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    for (size_t i = 0; i < spsh__copy_plan_dataset_count(view->plan); i++) {
        if (memcmp(spsh__copy_plan_dataset(view->plan, i)->id,
                   spsh_dataset_info_get(dataset)->dataset_id, 16) != 0)
            continue;
        view->paths[i] = path;
        is_there = true;
    }
    spsh_dataset_close(dataset);
    if (is_there)
        return SPSH_EXIT_DONE;
    spsh__cli_error("%s: none of the datasets that %s is about", path, plan_path);
    return SPSH_EXIT_FAILED;
}

int spsh__plan_view_open(const char *command, char *const *operands, int operand_count,
                         spsh__plan_view *ret_view)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__plan_view view = {NULL, NULL};
    int rc = SPSH_EXIT_DONE;
    if (spsh__copy_plan_open(spsh_io_default(), operands[0], &view.plan, &err) != SPSH_OK)
        return spsh__cli_fail(command, &err);
    const size_t count = spsh__copy_plan_dataset_count(view.plan);
    view.paths = (const char **)calloc(count + 1, sizeof(*view.paths));
    if (view.paths == NULL) {
        spsh__plan_view_free(&view);
        return spsh__cli_fail_memory();
    }
    for (size_t i = 0; i < count; i++)
        view.paths[i] = spsh__copy_plan_dataset(view.plan, i)->path;
    for (int i = 1; i < operand_count && rc == SPSH_EXIT_DONE; i++)
        rc = place_dataset(operands[0], operands[i], &view);
    if (rc == SPSH_EXIT_DONE) {
        *ret_view = view;
        view = (spsh__plan_view){NULL, NULL};
    }
    spsh__plan_view_free(&view);
    return rc;
}

void spsh__plan_view_free(spsh__plan_view *view)
{
    spsh__copy_plan_free(view->plan);
    free((void *)view->paths);
}
