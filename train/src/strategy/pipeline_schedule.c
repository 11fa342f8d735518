/* pipeline_schedule.c: see pipeline_schedule.h. */
#include "pipeline_schedule.h"

#include "model/model.h"
#include "speechshard/inside.h"

enum { BLOCKS_MAX = SPSH__MODEL_LAYERS_MAX + 2 };

spsh__stages_operation spsh__stages_next(uint32_t window, uint32_t forwards, uint32_t backwards,
                                         bool has_more)
{
    if (forwards > backwards && (!has_more || forwards - backwards >= window))
        return SPSH__STAGES_BACKWARD;
    return has_more ? SPSH__STAGES_FORWARD : SPSH__STAGES_DONE;
}

static spsh_status check_stages(uint32_t stages, uint32_t block_count, spsh_error *err)
{
    if (stages >= 1 && stages <= block_count && block_count <= BLOCKS_MAX)
        return SPSH_OK;
    return SPSH_FAIL(
        err, SPSH_E_INVALID_ARG,
        "train.strategy pipeline: %u processes cannot share a model of %u blocks, because each "
        "needs at least one; start fewer processes, or use another train.strategy",
        stages, block_count);
}

/* best[s][b]: minimum, over all divisions of the first b blocks into s + 1 stages, of the most
 * expensive stage. */
spsh_status spsh__stages_balance(const double *works, uint32_t block_count, uint32_t stages,
                                 uint32_t *firsts, spsh_error *err)
{
    double best[BLOCKS_MAX][BLOCKS_MAX + 1] = {{0}};
    uint32_t last[BLOCKS_MAX][BLOCKS_MAX + 1] = {{0}}; /* the first block of the last stage */
    const spsh_status rc = check_stages(stages, block_count, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t b = 1; b <= block_count; b++)
        best[0][b] = best[0][b - 1] + works[b - 1];
    for (uint32_t s = 1; s < stages; s++) {
        for (uint32_t b = s + 1; b <= block_count; b++) {
            for (uint32_t first = s; first < b; first++) {
                const double own = best[0][b] - best[0][first], before = best[s - 1][first];
                const double dearest = own > before ? own : before;
                if (first > s && dearest >= best[s][b])
                    continue;
                best[s][b] = dearest;
                last[s][b] = first;
            }
        }
    }
    uint32_t end = block_count;
    for (uint32_t s = stages; s-- > 0;) {
        firsts[s] = last[s][end];
        end = firsts[s];
    }
    return SPSH_OK;
}

spsh_status spsh__stages_check_cuts(const uint32_t *cuts, uint32_t cut_count, uint32_t stages,
                                    uint32_t block_count, spsh_error *err)
{
    const spsh_status rc = check_stages(stages, block_count, err);
    if (rc != SPSH_OK)
        return rc;
    if (cut_count + 1 != stages)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "train.stages: %u cuts give %u stages, but there are %u processes",
                         cut_count, cut_count + 1, stages);
    for (uint32_t i = 0; i < cut_count; i++) {
        const uint32_t before = i == 0 ? 0 : cuts[i - 1];
        if (cuts[i] <= before || cuts[i] >= block_count)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "train.stages: cut %u is at block %u; cuts must ascend, from 1 to %u",
                             i + 1, cuts[i], block_count - 1);
    }
    return SPSH_OK;
}
