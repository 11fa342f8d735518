/* plan_change_out.c: see plan_change_out.h. */
#include "plan_change_out.h"

#include "cli/cli.h"

int spsh__plan_change_json(const char *plan_path, const spsh_copy_plan_facts *facts)
{
    spsh_json *json = spsh__json_new();
    spsh__json_put_string(json, "plan", plan_path);
    spsh__json_put_string(json, "overlay", facts->overlay);
    spsh__json_put_u64(json, "datasets", facts->dataset_count);
    spsh__json_put_u64(json, "datasets_changed", facts->changed_count);
    spsh__json_put_u64(json, "utterances", facts->utterance_count);
    return spsh__cli_json(json);
}
