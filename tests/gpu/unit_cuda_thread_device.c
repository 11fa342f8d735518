/* unit_cuda_thread_device.c PLUGIN SHIM: recurrent layers and NCCL leave a thread's device as it
 * was. PLUGIN contains the plug-in's own objects over a runtime without CUDA (fake_cudart.c), which
 * tracks the device of each thread. SHIM: tests/support/nccl_shim.c.
 */
#include "cuda/device_nccl.h"
#include "cuda/device_rnn.h"
#include "device_test.h"
#include "fake_cudart.h"
#include "spsh_test.h"

enum { OWN = 1, OTHER = 0 }; /* the device of this thread, and the one that the calls use */

static spsh_cuda *cuda;
static fake_device_fn *device_fn;

static void *find(const char *symbol)
{
    void *found = spsh_cuda_symbol(cuda, symbol);
    REQUIRE(found != NULL);
    return found;
}

static void test_recurrent_layers(void)
{
    static const spsh__rnn_grid_job job;
    const spsh__device_train_plan plan = {.device = OTHER, .precision = SPSH__BF16};
    const spsh__cudnn_plan layer_plan = {
        .shape = {SPSH__CELL_LSTM, 1, 1, 1, 1}
    };
    const spsh__rnn_launch launch = {.kernel = SPSH__RNN_FORWARD,
                                     .kind = SPSH__DEVICE_BF16,
                                     .job = &job,
                                     .job_bytes = sizeof(job),
                                     .blocks_x = 1,
                                     .blocks_y = 1};
    spsh__device_rnn_entry_fn *entry_fn = NULL;
    void *symbol = find(SPSH__DEVICE_RNN_SYMBOL), *state = NULL, *layer = NULL, *stream = NULL;
    void *memory = NULL; /* all operands of the layer */
    spsh__cudnn_sizes sizes;
    memcpy(&entry_fn, &symbol, sizeof(entry_fn));
    const spsh__device_rnn_entry *entry = entry_fn();
    REQUIRE(spsh_cuda_stream_open(cuda, OTHER, 0, &stream, NULL) == SPSH_OK);
    REQUIRE(spsh_cuda_alloc(cuda, OTHER, 65536, &memory, NULL) == SPSH_OK);
    REQUIRE(entry->open_fn(&plan, &state, NULL) == SPSH_OK);
    CHECK_I64(device_fn(), OWN);
    CHECK(entry->resident_fn(state, SPSH__RNN_FORWARD, SPSH__DEVICE_BF16, 1024) > 0 ||
          entry->limits_fn(state).blocks == 0);
    CHECK_I64(device_fn(), OWN);
    CHECK_I64(entry->launch_fn(state, stream, &launch, NULL), SPSH_OK);
    CHECK_I64(device_fn(), OWN);
    REQUIRE(entry->layer_open_fn(state, &layer_plan, &layer, &sizes, NULL) == SPSH_OK);
    CHECK_I64(device_fn(), OWN);
    const spsh__cudnn_call call = {
        .x = memory, .y = memory, .weights = memory, .work = memory, .reserve = memory};
    CHECK_I64(entry->layer_call_fn(layer, stream, &call, NULL), SPSH_OK);
    CHECK_I64(device_fn(), OWN);
    entry->layer_close_fn(layer);
    CHECK_I64(device_fn(), OWN);
    entry->close_fn(state);
    CHECK_I64(device_fn(), OWN);
    spsh_cuda_stream_close(cuda, stream);
    spsh_cuda_free(cuda, memory);
}

static void test_nccl(const char *shim)
{
    spsh__nccl_plan plan = {.device = OTHER, .rank = 0, .world_size = 1, .blocks_max = 1};
    float value = 0;
    const spsh__collective sum = {SPSH__COLLECTIVE_SUM, &value, 1};
    spsh__device_nccl_entry_fn *entry_fn = NULL;
    void *symbol = find(SPSH__DEVICE_NCCL_SYMBOL), *library = NULL, *state = NULL;
    memcpy(&entry_fn, &symbol, sizeof(entry_fn));
    const spsh__device_nccl_entry *entry = entry_fn();
    REQUIRE(entry->load_fn(shim, &library, NULL) == SPSH_OK);
    REQUIRE(entry->id_fn(library, &plan.id, NULL) == SPSH_OK);
    REQUIRE(entry->open_fn(library, &plan, &state, NULL) == SPSH_OK);
    CHECK_I64(device_fn(), OWN);
    CHECK_I64(entry->state_fn(state, NULL), SPSH_OK);
    CHECK_I64(device_fn(), OWN);
    CHECK_I64(entry->start_fn(state, &sum, NULL, NULL), SPSH_OK);
    CHECK_I64(device_fn(), OWN);
    entry->close_fn(state, 1);
    CHECK_I64(device_fn(), OWN);
    entry->unload_fn(library);
}

TEST_MAIN(unit_cuda_thread_device)
{
    int before = 0;
    REQUIRE(argc == 3);
    const int refused = device_test_open(argv[1], &cuda, NULL);
    if (refused != 0)
        return refused;
    void *symbol = find(FAKE_DEVICE_SYMBOL);
    memcpy(&device_fn, &symbol, sizeof(device_fn));
    REQUIRE(spsh_cuda_enter(cuda, OWN, &before, NULL) == SPSH_OK);
    RUN(test_recurrent_layers);
    test_nccl(argv[2]);
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}
