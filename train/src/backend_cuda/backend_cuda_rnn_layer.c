/* backend_cuda_rnn_layer.c: the two cuDNN algorithms.
 *
 * Weights are packed into cuDNN's weight space before each call (for 1024 units, 16 MB are read and
 * written), and gradients are added back to the floats of the arena. If cuDNN wants more reserve
 * than the caller provides, a separate piece is kept per reserve address. The piece grows on
 * demand, but not between a forward and its backward, which have the same shape. A real call with
 * zeros tests PERSIST_STATIC. If the inputs are not a multiple of 128, the test is repeated with
 * columns of zeros added.
 *
 * The blocks of a persistent kernel wait for each other. cuDNN does not guarantee that two such
 * kernels at once both get all of their blocks. Lane 1 therefore runs its calls after the work
 * enqueued on lane 0, and lane 0 then waits for them. Two persistent layers of cuDNN never run at
 * once, not even in graphs.
 */
#include "backend_cuda_rnn_state.h"

enum { PADDED_INPUTS = 128 };

typedef struct layer_work {
    void *layer;
    bool is_alone;
    spsh__cudnn_call call;
} layer_work;

static spsh_status follow(spsh__backend *b, void *stream, void *other, spsh_error *err)
{
    void *turn = spsh__rnn_of(b)->turn;
    const spsh_status rc = spsh_cuda_event_record(b->cuda, turn, other, err);
    return rc == SPSH_OK ? spsh_cuda_event_wait(b->cuda, turn, stream, err) : rc;
}

static spsh_status put_layer(spsh__backend *b, void *stream, const void *arguments, spsh_error *err)
{
    const layer_work *w = arguments;
    void *first = b->ops->stream_fn(b);
    const bool takes_turns = w->is_alone && w->call.lane != 0;
    spsh_status rc = takes_turns ? follow(b, stream, first, err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh__rnn_of(b)->entry->layer_call_fn(w->layer, stream, &w->call, err);
    return rc == SPSH_OK && takes_turns ? follow(b, first, stream, err) : rc;
}

static layer_work work_of(const spsh__rnn_choice *c, const spsh__cudnn_call *call,
                          spsh__cudnn_step step)
{
    layer_work w = {c->layer, c->algorithm == SPSH__RNN_CUDNN_PERSISTENT, *call};
    w.call.step = step;
    return w;
}

static void call_layer(spsh__backend *b, const spsh__rnn_choice *c, spsh__cudnn_step step,
                       const spsh__cudnn_call *call)
{
    const layer_work w = work_of(c, call, step);
    spsh__cuda_put(b, put_layer, &w, sizeof(w));
}

static spsh__backend_buffer at(const spsh__backend *b, spsh__backend_buffer buffer, size_t i)
{
    return spsh__at(b->ops, buffer, i);
}

/* One matrix or bias between our arena and the weight space. */
static void add_part(spsh__rnn_work *w, spsh__device_array ours, spsh__device_array theirs,
                     const spsh__rnn_part *extent, bool is_back)
{
    spsh__rnn_part *part = &w->job.pack.parts[w->l.blocks_y++];
    *part = *extent;
    part->from = is_back ? theirs : ours;
    part->to = is_back ? ours : theirs;
    if (is_back) {
        part->from_stride = extent->to_stride;
        part->to_stride = extent->from_stride;
        part->adds = 1;
    }
}

/* is_back: copy gradients back, and add them to the arena. */
static void pack_weights(spsh__backend *b, const spsh__rnn_choice *c, const spsh__rnn_weights *ours,
                         void *theirs, bool is_back)
{
    const spsh__rnn_shape *s = &c->shape;
    const uint32_t gates = spsh__rnn_gates(s);
    const size_t hidden = s->hidden, wider = s->inputs > hidden ? s->inputs : hidden;
    const spsh__backend_buffer space = {theirs, b->has_half};
    spsh__device_array to = spsh__cuda_array(b, space);
    spsh__rnn_work w;
    memset(&w, 0, sizeof(w));
    for (uint32_t i = 0; i < 2 * gates; i++) {
        const bool is_input = i < gates;
        const size_t columns = is_input ? s->inputs : hidden, gate = i % gates;
        const spsh__backend_buffer matrix = is_input ? ours->input : ours->recurrent;
        const spsh__backend_buffer bias = is_input ? ours->input_bias : ours->recurrent_bias;
        const spsh__rnn_part matrix_extent = {.row_count = hidden,
                                              .columns = (uint32_t)columns,
                                              .from_stride = columns,
                                              .to_stride = is_input ? c->inputs : hidden};
        const spsh__rnn_part bias_extent = {.row_count = 1, .columns = s->hidden};
        to.data = (char *)theirs + c->sizes.parts[i].matrix;
        add_part(&w, spsh__cuda_array(b, at(b, matrix, gate * hidden * columns)), to,
                 &matrix_extent, is_back);
        if (bias.data == NULL)
            continue;
        to.data = (char *)theirs + c->sizes.parts[i].bias;
        add_part(&w, spsh__cuda_array(b, at(b, bias, gate * hidden)), to, &bias_extent, is_back);
    }
    spsh__rnn_use(&w, ours->input.data, spsh__cuda_bytes(ours->input, gates * hidden * s->inputs),
                  is_back);
    spsh__rnn_use(&w, ours->recurrent.data,
                  spsh__cuda_bytes(ours->recurrent, gates * hidden * hidden), is_back);
    spsh__rnn_use(&w, ours->input_bias.data, gates * hidden * sizeof(float), is_back);
    spsh__rnn_use(&w, ours->recurrent_bias.data, gates * hidden * sizeof(float), is_back);
    spsh__rnn_use(&w, theirs, c->sizes.weights, !is_back);
    w.l.blocks_x = spsh__cuda_blocks(b, hidden * wider);
    spsh__rnn_put(b, &w, SPSH__RNN_PACK, sizeof(w.job.pack));
}

/* Copy rows of `columns` elements. Their strides may be larger. */
static void copy_rows(spsh__backend *b, const spsh__rnn_part *part)
{
    const spsh__backend_buffer from = {part->from.data, part->from.kind != SPSH__DEVICE_F32};
    const spsh__backend_buffer to = {part->to.data, part->to.kind != SPSH__DEVICE_F32};
    spsh__rnn_work w;
    memset(&w, 0, sizeof(w));
    w.job.pack.parts[0] = *part;
    w.l.blocks_y = 1;
    w.l.blocks_x = spsh__cuda_blocks(b, part->row_count * part->columns);
    spsh__rnn_use(&w, from.data, spsh__cuda_bytes(from, part->row_count * part->from_stride),
                  false);
    spsh__rnn_use(&w, to.data, spsh__cuda_bytes(to, part->row_count * part->to_stride), true);
    spsh__rnn_put(b, &w, SPSH__RNN_PACK, sizeof(w.job.pack));
}

static size_t wide_rows_bytes(const spsh__rnn_choice *c, bool is_half)
{
    return spsh__round_up(spsh__rnn_rows(&c->shape) * c->inputs * spsh__rnn_element_bytes(is_half),
                          SPSH__RNN_ALIGNMENT);
}

/* Return x with the width of the layer, padded if needed. NULL: out of memory, recorded as the
 * failure. */
static const void *wide_x(spsh__backend *b, const spsh__rnn_choice *c, spsh__backend_buffer x)
{
    const spsh__rnn_shape *s = &c->shape;
    if (c->inputs == s->inputs)
        return x.data;
    void *wide = spsh__cuda_scratch(b, 2, wide_rows_bytes(c, x.is_half));
    if (wide == NULL)
        return NULL;
    const spsh__rnn_part part = {.from = spsh__cuda_array(b, x),
                                 .to = spsh__cuda_array(b, (spsh__backend_buffer){wide, x.is_half}),
                                 .row_count = spsh__rnn_rows(s),
                                 .columns = s->inputs,
                                 .from_stride = s->inputs,
                                 .to_stride = c->inputs};
    spsh__rnn_zero(b, wide, wide_rows_bytes(c, x.is_half));
    copy_rows(b, &part);
    return wide;
}

/* Return the separate piece for this reserve; a new one has no memory yet. NULL: out of memory. */
static spsh__rnn_own_reserve *own_reserve(spsh__backend *b, const void *key)
{
    spsh__rnn_state *self = spsh__rnn_of(b);
    spsh__rnn_own_reserve *own = self->reserves;
    while (own != NULL && own->key != key)
        own = own->next;
    if (own != NULL)
        return own;
    own = spsh__new(&b->allocator, 1, sizeof(*own));
    if (own == NULL)
        return NULL;
    own->key = key;
    own->next = self->reserves;
    self->reserves = own;
    return own;
}

/* Grow by at least a quarter. Freeing the old memory drops the graphs that refer to it. */
static spsh_status grow_reserve(spsh__backend *b, spsh__rnn_own_reserve *own, size_t size_bytes,
                                spsh_error *err)
{
    const size_t least = own->count + own->count / 4, count = size_bytes / sizeof(float) + 1;
    const size_t wanted = count > least ? count : least;
    if (own->count >= count)
        return SPSH_OK;
    b->ops->free_fn(b, own->memory);
    own->memory.data = NULL;
    own->count = 0;
    const spsh_status rc = b->ops->alloc_fn(b, wanted, &own->memory, err);
    if (rc == SPSH_OK)
        own->count = wanted;
    return rc;
}

/* NULL: out of memory, recorded as the failure. */
static void *reserve_of(spsh__backend *b, const spsh__rnn_choice *c, spsh__backend_buffer reserve)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (c->sizes.reserve <= spsh__cuda_bytes(reserve, spsh__cuda_rnn_reserve(&c->shape)))
        return reserve.data;
    spsh__rnn_own_reserve *own = own_reserve(b, reserve.data);
    const spsh_status rc =
        own == NULL ? SPSH_NO_MEMORY(&err) : grow_reserve(b, own, c->sizes.reserve, &err);
    spsh__cuda_failed(b, rc, &err);
    return rc == SPSH_OK ? own->memory.data : NULL;
}

/* Prepare weights, work space, reserve, and x for a call. */
static bool start_call(spsh__backend *b, const spsh__rnn_choice *c, const spsh__rnn_weights *w,
                       spsh__backend_buffer x, spsh__cudnn_call *call)
{
    void *weights = spsh__cuda_scratch(b, 0, c->sizes.weights);
    call->lane = spsh__cuda_lane(b);
    call->weights = weights;
    call->work = spsh__cuda_scratch(b, 1, c->sizes.work);
    call->x = wide_x(b, c, x);
    if (weights == NULL || call->work == NULL || call->x == NULL)
        return false;
    if (c->inputs != c->shape.inputs)
        spsh__rnn_zero(b, weights, c->sizes.weights);
    pack_weights(b, c, w, weights, false);
    return true;
}

void spsh__rnn_layer_run_forward(spsh__backend *b, const spsh__rnn_choice *c,
                                 const spsh__rnn_pass *p)
{
    spsh__cudnn_call call = {.y = p->y.data, .reserve = reserve_of(b, c, p->reserve)};
    if (call.reserve != NULL && start_call(b, c, p->weights, p->x, &call))
        call_layer(b, c, SPSH__CUDNN_FORWARD, &call);
}

void spsh__rnn_layer_run_backward(spsh__backend *b, const spsh__rnn_choice *c,
                                  const spsh__rnn_grad *g)
{
    const spsh__rnn_shape *s = &c->shape;
    const bool is_half = g->x.is_half, is_wide = c->inputs != s->inputs;
    const size_t gradient_bytes = spsh__round_up(c->sizes.weights, SPSH__RNN_ALIGNMENT);
    spsh__cudnn_call call = {.dy = g->dy.data, .y = g->y.data};
    char *memory = spsh__cuda_scratch(b, 3, gradient_bytes + wide_rows_bytes(c, is_half));
    call.reserve = reserve_of(b, c, g->reserve);
    if (memory == NULL || call.reserve == NULL || !start_call(b, c, g->weights, g->x, &call))
        return;
    call.dweights = memory;
    call.dx = is_wide || g->dx.data == NULL ? memory + gradient_bytes : g->dx.data;
    spsh__rnn_zero(b, call.dweights, gradient_bytes);
    call_layer(b, c, SPSH__CUDNN_BACKWARD_DATA, &call);
    call_layer(b, c, SPSH__CUDNN_BACKWARD_WEIGHTS, &call);
    pack_weights(b, c, g->gradients, call.dweights, true);
    if (!is_wide || g->dx.data == NULL)
        return;
    const spsh__rnn_part part = {.from =
                                     spsh__cuda_array(b, (spsh__backend_buffer){call.dx, is_half}),
                                 .to = spsh__cuda_array(b, g->dx),
                                 .row_count = spsh__rnn_rows(s),
                                 .columns = s->inputs,
                                 .from_stride = c->inputs,
                                 .to_stride = s->inputs};
    copy_rows(b, &part);
}

/* ----------------------------------------------------------------------------- supported shapes */

void spsh__rnn_close_layer(const spsh__rnn_state *self, spsh__rnn_choice *c)
{
    if (c->layer != NULL)
        self->entry->layer_close_fn(c->layer);
    c->layer = NULL;
}

/* Try the three calls of a layer with zeroed memory of the sizes of its shape. */
static spsh_status try_layer(spsh__backend *b, const spsh__rnn_choice *c, char *memory,
                             const size_t *sizes, spsh_error *err)
{
    void *stream = spsh__cuda_stream(b), *at_part[8];
    for (uint32_t i = 0; i < 8; i++) {
        at_part[i] = memory;
        memory += sizes[i];
    }
    const spsh__cudnn_call call = {.lane = spsh__cuda_lane(b),
                                   .x = at_part[0],
                                   .weights = at_part[1],
                                   .dy = at_part[2],
                                   .y = at_part[3],
                                   .dx = at_part[4],
                                   .dweights = at_part[5],
                                   .work = at_part[6],
                                   .reserve = at_part[7]};
    spsh_status rc = SPSH_OK;
    for (uint32_t step = 0; step < SPSH__CUDNN_STEPS && rc == SPSH_OK; step++) {
        const layer_work w = work_of(c, &call, (spsh__cudnn_step)step);
        rc = put_layer(b, stream, &w, err);
    }
    return rc == SPSH_OK ? spsh_cuda_synchronize(b->cuda, stream, err) : rc;
}

static spsh_status probe(spsh__backend *b, const spsh__rnn_choice *c, spsh_error *err)
{
    const size_t x = wide_rows_bytes(c, b->has_half);
    const size_t y = spsh__round_up(spsh__rnn_rows(&c->shape) * c->shape.hidden *
                                        spsh__rnn_element_bytes(b->has_half),
                                    SPSH__RNN_ALIGNMENT);
    const size_t weights = spsh__round_up(c->sizes.weights, SPSH__RNN_ALIGNMENT);
    const size_t sizes[8] = {x,
                             weights,
                             y,
                             y,
                             x,
                             weights,
                             spsh__round_up(c->sizes.work, SPSH__RNN_ALIGNMENT),
                             spsh__round_up(c->sizes.reserve, SPSH__RNN_ALIGNMENT)};
    void *memory = NULL;
    size_t all = SPSH__RNN_ALIGNMENT;
    for (uint32_t i = 0; i < 8; i++)
        all += sizes[i];
    spsh__cuda_count_trial(b, all);
    spsh_status rc = spsh_cuda_alloc(b->cuda, b->device, all, &memory, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh_cuda_fill(b->cuda, memory, 0, all, spsh__cuda_stream(b), err);
    if (rc == SPSH_OK)
        rc = try_layer(b, c, memory, sizes, err);
    spsh_cuda_free(b->cuda, memory);
    return rc;
}

static spsh_status open_layer(spsh__backend *b, spsh__rnn_choice *c, uint32_t inputs,
                              spsh_error *err)
{
    const spsh__rnn_state *self = spsh__rnn_of(b);
    spsh__cudnn_plan plan = {c->shape, c->has_two_biases,
                             c->algorithm == SPSH__RNN_CUDNN_PERSISTENT,
                             spsh__cuda_array(b, (spsh__backend_buffer){NULL, b->has_half}).kind};
    plan.shape.inputs = inputs;
    c->inputs = inputs;
    return self->entry->layer_open_fn(self->device, &plan, &c->layer, &c->sizes, err);
}

spsh_status spsh__rnn_fit_cudnn(spsh__backend *b, spsh__rnn_choice *c, spsh_error *err)
{
    return open_layer(b, c, c->shape.inputs, err);
}

/* Find a choice for the same layer and passes with another length, made under the same conditions:
 * requested algorithm and spared multiprocessors. */
static const spsh__rnn_choice *find_alike(const spsh__rnn_state *self, const spsh__rnn_choice *c)
{
    for (const spsh__rnn_choice *one = self->choices; one != NULL; one = one->next) {
        if (one->shape.cell == c->shape.cell && one->shape.batch == c->shape.batch &&
            one->shape.inputs == c->shape.inputs && one->shape.hidden == c->shape.hidden &&
            one->has_two_biases == c->has_two_biases && one->passes == c->passes &&
            one->asked == c->asked && one->spared == c->spared)
            return one;
    }
    return NULL;
}

spsh_status spsh__rnn_fit_cudnn_persistent(spsh__backend *b, spsh__rnn_choice *c, spsh_error *err)
{
    const spsh__rnn_state *self = spsh__rnn_of(b);
    const spsh__rnn_choice *alike = find_alike(self, c);
    const uint32_t wide = spsh__rnn_round_up(c->shape.inputs, PADDED_INPUTS);
    if (alike != NULL && alike->algorithm != SPSH__RNN_CUDNN_PERSISTENT)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "same reason as for other lengths");
    if (alike != NULL)
        return open_layer(b, c, alike->inputs, err);
    for (uint32_t inputs = c->shape.inputs;; inputs = wide) {
        spsh_status rc = open_layer(b, c, inputs, err);
        if (rc == SPSH_OK)
            rc = probe(b, c, err);
        if (rc == SPSH_OK)
            return SPSH_OK;
        spsh__rnn_close_layer(self, c);
        if (inputs == wide)
            return rc;
    }
}
