/* fuzz_copy_plan.c: a plan from any source is read or rejected. The hash would reject nearly all
 * inputs, so it is corrected first, unless the first byte says otherwise.
 *
 * An accepted plan keeps its promises: drops are inside their datasets, ids exist, and only reasons
 * that may drop an utterance drop one.
 */
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "plan/copy_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_plan(const spsh__copy_plan *plan)
{
    uint64_t next = 0;
    must(spsh__copy_plan_dataset_count(plan) > 0);
    for (size_t i = 0; i < spsh__copy_plan_dataset_count(plan); i++) {
        const spsh__copy_plan_source *d = spsh__copy_plan_dataset(plan, i);
        must(d->path[0] != '\0' && d->first_drop == next);
        next += d->drop_count;
        for (uint64_t k = 0; k < d->drop_count; k++) {
            const spsh__plan_drop drop = spsh__copy_plan_drop(plan, d->first_drop + k);
            must(drop.id.size_bytes > 0 && drop.kept_id.size_bytes > 0);
            must(drop.kept_dataset < spsh__copy_plan_dataset_count(plan));
            must(spsh__tier_may_drop(drop.tier));
            must(drop.kind == SPSH_COPY_SAME_RECORDING || drop.kind == SPSH_COPY_CONTAINED);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spsh__builder text = {0};
    spsh__copy_plan *plan = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (size == 0)
        return 0;
    spsh__builder_append(&text, data + 1, size - 1);
    if (data[0] % 8 != 0) {
        char hex[33];
        uint8_t hash[16];
        spsh__pack_hash128(spsh__builder_bytes(&text), hash);
        spsh__hex128(hash, hex);
        spsh__builder_append_text(&text, "{\"end\":\"");
        spsh__builder_append_text(&text, hex);
        spsh__builder_append_text(&text, "\"}\n");
    }
    const spsh__text_memory memory = {text.data, text.size_bytes};
    spsh__text_input input = spsh__text_input_memory(&memory, "fuzz");
    input.window_bytes = 16 + (size_t)data[0];
    const spsh_status rc = spsh__copy_plan_parse(&input, text.size_bytes, &plan, &err);
    must((rc == SPSH_OK) == (plan != NULL));
    must(rc == SPSH_OK || err.message[0] != '\0');
    if (plan != NULL)
        check_plan(plan);
    spsh__copy_plan_free(plan);
    spsh__builder_free(&text);
    return 0;
}
