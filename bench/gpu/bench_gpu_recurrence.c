/* bench_gpu_recurrence.c PLUGIN: recurrent layers on a GPU, microseconds per frame of each fallback
 * (train/src/backend_cuda/backend_cuda_rnn.h).
 *
 *     bench_gpu_recurrence build/release/libspeechshard-cuda.so
 *
 * A layer of DeepSpeech 2: LSTM, 1024 units, 1024 inputs, 750 frames (15 s), batches of 16 to 128.
 * `forward`, `backward`: only one direction; `both_forward`, `both_backward`: two directions in
 * parallel, as in a bidirectional layer. All work of the pass is included: the product
 * with the input, and in the backward pass the gradients of weights and input. Work is launched
 * from graphs, as in training; times are measured by CUDA events: the median of ROUNDS rounds.
 * `chosen` names the fallback that was selected. If it is not the requested one, nothing is timed.
 *
 * Prints one JSON object. Without a device: {"measured": false, "reason": ...}, exit status 0.
 */
#include "bench_device.h"

#include "backend_cuda/backend_cuda_rnn.h"

enum { HIDDEN = 1024, FRAMES = 750, ROUNDS = 5, WARM = 3 };

static void *first_event, *last_event;
static uint64_t segment_key;
static const char *separator = "";

typedef struct pass {
    spsh__backend *b;
    spsh__rnn_shape s;
    spsh__backend_buffer weights[4], gradients[4], x, y, reserve, dy, dx;
} pass;

static const size_t weight_counts[4] = {(size_t)4 * HIDDEN * HIDDEN, (size_t)4 * HIDDEN *HIDDEN,
                                        (size_t)4 * HIDDEN, (size_t)4 * HIDDEN};

static spsh__backend_buffer device_values(spsh__backend *b, size_t count, bool is_half)
{
    spsh__backend_buffer buffer = {NULL, false};
    check_ok(is_half ? b->ops->alloc_half_fn(b, count, &buffer, &failure)
                     : b->ops->alloc_fn(b, count, &buffer, &failure));
    return buffer;
}

/* Around 0, as large as a trained layer's. */
static void fill(spsh__backend *b, spsh__backend_buffer to, size_t count, float size)
{
    uint64_t state = count;
    float *values = calloc(count, sizeof(*values));
    must(values != NULL, "memory");
    for (size_t i = 0; i < count; i++)
        values[i] = size * ((float)(next_random(&state) >> 40) / (float)(1 << 23) - 1);
    b->ops->write_f32_fn(b, to, values, count);
    free(values);
}

static void open_pass(pass *p, spsh__backend *b, uint32_t batch)
{
    const size_t count = (size_t)FRAMES * batch * HIDDEN;
    *p = (pass){
        .b = b, .s = {SPSH__CELL_LSTM, FRAMES, batch, HIDDEN, HIDDEN}
    };
    for (int i = 0; i < 4; i++) {
        p->weights[i] = device_values(b, weight_counts[i], b->has_half && i < 2);
        p->gradients[i] = device_values(b, weight_counts[i], false);
        fill(b, p->weights[i], weight_counts[i], 0.03125F);
    }
    p->x = device_values(b, count, b->has_half);
    p->y = device_values(b, count, b->has_half);
    p->dy = device_values(b, count, b->has_half);
    p->dx = device_values(b, count, b->has_half);
    p->reserve = device_values(b, b->ops->rnn_reserve_fn(&p->s), b->has_half);
    fill(b, p->x, count, 1);
    fill(b, p->dy, count, 1e-3F);
}

static void close_pass(pass *p)
{
    const spsh__backend_buffer all[] = {p->x, p->y, p->dy, p->dx, p->reserve};
    for (int i = 0; i < 4; i++) {
        p->b->ops->free_fn(p->b, p->weights[i]);
        p->b->ops->free_fn(p->b, p->gradients[i]);
    }
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        p->b->ops->free_fn(p->b, all[i]);
}

/* Run one pass, or two as the directions of a layer. */
static void run_passes(const pass *passes, uint32_t count, bool is_backward)
{
    spsh__backend *b = passes[0].b;
    const spsh__rnn_shape *s = &passes[0].s;
    spsh__rnn_weights w[2], gradients[2];
    spsh__rnn_pass forward[2];
    spsh__rnn_grad g[2];
    for (uint32_t i = 0; i < count; i++) {
        const pass *p = &passes[i];
        w[i] = (spsh__rnn_weights){p->weights[0], p->weights[1], p->weights[2], p->weights[3]};
        gradients[i] =
            (spsh__rnn_weights){p->gradients[0], p->gradients[1], p->gradients[2], p->gradients[3]};
        forward[i] = (spsh__rnn_pass){&w[i], p->x, p->y, p->reserve};
        g[i] = (spsh__rnn_grad){.weights = &w[i],
                                .gradients = &gradients[i],
                                .x = p->x,
                                .y = p->y,
                                .reserve = p->reserve,
                                .dy = p->dy,
                                .dx = p->dx};
    }
    if (count == 2 && is_backward)
        b->ops->rnn_both_backward_fn(b, s, g);
    else if (count == 2)
        b->ops->rnn_both_forward_fn(b, s, forward);
    else if (is_backward)
        b->ops->rnn_backward_fn(b, s, g);
    else
        b->ops->rnn_forward_fn(b, s, w, forward->x, forward->y, forward->reserve);
}

/* Milliseconds of one segment: forward or backward of one pass, or of two side by side. */
static double segment_ms(const pass *passes, uint32_t count, bool is_backward)
{
    spsh__backend *b = passes[0].b;
    const spsh__graph_segment segment = {segment_key, (count - 1) * 2 + (is_backward ? 1 : 0)};
    void *stream = b->ops->stream_fn(b);
    float ms = 0;
    check_ok(spsh_cuda_event_record(cuda, first_event, stream, &failure));
    if (!b->ops->segment_begin_fn(b, &segment))
        run_passes(passes, count, is_backward);
    b->ops->segment_end_fn(b);
    check_ok(spsh_cuda_event_record(cuda, last_event, stream, &failure));
    check_ok(spsh_cuda_event_synchronize(cuda, last_event, &failure));
    check_ok(spsh_cuda_event_ms(cuda, first_event, last_event, &ms, &failure));
    check_ok(b->ops->status_fn(b, &failure));
    return (double)ms;
}

/* Forward comes before each backward: it fills the reserve that backward uses up. */
static void time_passes(const pass *passes, uint32_t count, const char *prefix)
{
    double forward[ROUNDS], backward[ROUNDS];
    for (int round = -WARM; round < ROUNDS; round++) {
        const double ms = segment_ms(passes, count, false);
        const double back_ms = segment_ms(passes, count, true);
        if (round >= 0) {
            forward[round] = ms * 1e3 / FRAMES;
            backward[round] = back_ms * 1e3 / FRAMES;
        }
    }
    printf(",\n     \"%sforward_us_per_frame\": %.3f, \"%sbackward_us_per_frame\": %.3f", prefix,
           figure_of(forward, ROUNDS).median, prefix, figure_of(backward, ROUNDS).median);
}

static void run_algorithm(const pass *passes, const char *precision, spsh__rnn_algorithm algorithm)
{
    spsh__backend *b = passes[0].b;
    const char *name = spsh__rnn_algorithm_name(algorithm);
    spsh__cuda_rnn_choose(b, algorithm);
    run_passes(passes, 1, false); /* chooses */
    check_ok(b->ops->status_fn(b, &failure));
    const char *text = spsh__cuda_rnn_text(b, &passes[0].s, true, 1);
    const size_t length = strlen(name);
    printf("%s\n    {\"precision\": \"%s\", \"batch\": %u, \"rung\": \"%s\", \"chosen\": ",
           separator, precision, passes[0].s.batch, name);
    print_json_text(text);
    separator = ",";
    if (strncmp(text, name, length) == 0 && strcspn(text + length, ":,") == 0) {
        segment_key++;
        time_passes(passes, 1, "");
        time_passes(passes, 2, "both_");
    }
    printf("}");
    (void)fflush(stdout);
}

static void run_precision(spsh__precision precision, const char *name)
{
    const spsh__backend_options options = {
        .name = "cuda", .cuda = cuda, .precision = precision, .has_graphs = true};
    spsh__backend *b = NULL;
    check_ok(spsh__backend_open_with(&options, NULL, &b, &failure));
    for (uint32_t batch = 16; batch <= 128; batch *= 2) {
        pass passes[2];
        open_pass(&passes[0], b, batch);
        open_pass(&passes[1], b, batch);
        for (int algorithm = SPSH__RNN_PERSISTENT; algorithm < SPSH__RNN_ALGORITHMS; algorithm++)
            run_algorithm(passes, name, (spsh__rnn_algorithm)algorithm);
        close_pass(&passes[0]);
        close_pass(&passes[1]);
    }
    spsh__backend_close(b);
}

int main(int argc, char **argv)
{
    spsh_cuda_device device = SPSH_CUDA_DEVICE_INIT;
    must(argc == 2, "usage: bench_gpu_recurrence PLUGIN");
    open_device(argv[1], &device);
    check_ok(spsh_cuda_event_open(cuda, 0, 1, &first_event, &failure));
    check_ok(spsh_cuda_event_open(cuda, 0, 1, &last_event, &failure));
    printf(
        "{\n  \"measured\": true, \"device\": \"%s\",\n  \"layer\": \"LSTM, %d inputs, %d units, "
        "%d frames\",\n  \"results\": [",
        device.name, HIDDEN, HIDDEN, FRAMES);
    run_precision(SPSH__BF16, "bf16");
    run_precision(SPSH__FP16, "fp16");
    run_precision(SPSH__FP32, "fp32");
    printf("\n  ]\n}\n");
    spsh_cuda_event_close(cuda, first_event);
    spsh_cuda_event_close(cuda, last_event);
    spsh_cuda_close(cuda);
    return 0;
}
