/* backend_cuda_rnn.c: recurrent layers of the backend `cuda`: the choice of an algorithm for each
 * shape (backend_cuda_rnn.h), and the operators. The algorithms are in _rnn_own.c and _rnn_layer.c.
 */
#include "backend_cuda_rnn_state.h"

#include <stdio.h>

const char *spsh__rnn_algorithm_name(spsh__rnn_algorithm algorithm)
{
    static const char *const names[SPSH__RNN_ALGORITHMS] = {
        "auto", "persistent", "cudnn-persistent", "cudnn", "stepwise"};
    return names[algorithm];
}

/* The size that our algorithms need with 16 bits: for an LSTM, 4 + 2 elements per unit and row.
 * With floats one element is unused, because this function does not know the kind. */
size_t spsh__cuda_rnn_reserve(const spsh__rnn_shape *s)
{
    const size_t rows = spsh__rnn_rows(s) * s->hidden * spsh__rnn_gates(s);
    return spsh__rnn_inner_bytes(s, true) / sizeof(uint16_t) + rows;
}

/* ----------------------------------------------------------------------------------- enqueueing */

static spsh_status put_launch(spsh__backend *b, void *stream, const void *arguments,
                              spsh_error *err)
{
    const spsh__rnn_state *self = spsh__rnn_of(b);
    const spsh__rnn_work *w = arguments;
    spsh__rnn_launch l = w->l;
    l.job = (const char *)arguments + offsetof(spsh__rnn_work, job);
    l.uses = w->uses;
    return self->entry->launch_fn(self->device, stream, &l, err);
}

void spsh__rnn_put(spsh__backend *b, spsh__rnn_work *w, spsh__rnn_kernel kernel, size_t job_bytes)
{
    w->l.kernel = kernel;
    w->l.job_bytes = job_bytes;
    spsh__cuda_put(b, put_launch, w, offsetof(spsh__rnn_work, job) + job_bytes);
}

void spsh__rnn_use(spsh__rnn_work *w, const void *begin, size_t size_bytes, bool is_write)
{
    if (begin != NULL && size_bytes != 0)
        w->uses[w->l.use_count++] = (spsh__device_use){begin, size_bytes, is_write};
}

typedef struct zero_work {
    void *memory;
    size_t size_bytes;
} zero_work;

static spsh_status put_zero(spsh__backend *b, void *stream, const void *arguments, spsh_error *err)
{
    const zero_work *w = arguments;
    return spsh_cuda_fill(b->cuda, w->memory, 0, w->size_bytes, stream, err);
}

void spsh__rnn_zero(spsh__backend *b, void *memory, size_t size_bytes)
{
    const zero_work w = {memory, size_bytes};
    spsh__cuda_put(b, put_zero, &w, sizeof(w));
}

void spsh__rnn_begin_pass(spsh__backend *b, const spsh__rnn_choice *c, uint32_t i)
{
    if (c->passes == 1)
        return;
    if (i == 0)
        spsh__cuda_fork(b);
    spsh__cuda_choose_lane(b, i);
}

void spsh__rnn_join_passes(spsh__backend *b, const spsh__rnn_choice *c)
{
    if (c->passes > 1)
        spsh__cuda_join(b);
}

/* --------------------------------------------------------------------------------------- choice */

static spsh_status fit(spsh__backend *b, spsh__rnn_choice *c, spsh_error *err)
{
    const spsh__device_kind kind =
        spsh__cuda_array(b, (spsh__backend_buffer){NULL, b->has_half}).kind;
    const bool is_cudnn =
        c->algorithm == SPSH__RNN_CUDNN || c->algorithm == SPSH__RNN_CUDNN_PERSISTENT;
    if (is_cudnn && b->is_deterministic)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "its sums may differ from run to run");
    switch (c->algorithm) {
    case SPSH__RNN_PERSISTENT: return spsh__rnn_fit_persistent(spsh__rnn_of(b), c, kind, err);
    case SPSH__RNN_CUDNN_PERSISTENT: return spsh__rnn_fit_cudnn_persistent(b, c, err);
    case SPSH__RNN_CUDNN: return spsh__rnn_fit_cudnn(b, c, err);
    default: return SPSH_OK;
    }
}

static uint32_t first_algorithm(const spsh__backend *b, const spsh__rnn_choice *c)
{
    if (c->asked != SPSH__RNN_AUTO)
        return c->asked;
    return b->has_half ? SPSH__RNN_PERSISTENT : SPSH__RNN_CUDNN_PERSISTENT;
}

/* Choose the first algorithm that fits, and note why earlier ones do not. */
static spsh__rnn_choice *choose(spsh__backend *b, spsh__rnn_choice *c)
{
    spsh__rnn_state *self = spsh__rnn_of(b);
    char refusals[sizeof(c->text)] = "";
    for (uint32_t algorithm = first_algorithm(b, c); algorithm < SPSH__RNN_ALGORITHMS;
         algorithm++) {
        spsh_error err = SPSH_ERROR_INIT;
        c->algorithm = (spsh__rnn_algorithm)algorithm;
        if (fit(b, c, &err) == SPSH_OK)
            break;
        const size_t used = strlen(refusals);
        (void)snprintf(refusals + used, sizeof(refusals) - used, ", not %s (%.100s)",
                       spsh__rnn_algorithm_name(c->algorithm), err.message);
    }
    if (c->algorithm != SPSH__RNN_PERSISTENT)
        (void)snprintf(
            c->text, sizeof(c->text), "%s%s%.340s", spsh__rnn_algorithm_name(c->algorithm),
            c->layer != NULL && c->inputs != c->shape.inputs ? ", inputs padded" : "", refusals);
    c->next = self->choices;
    self->choices = c;
    self->choice_count++;
    return c;
}

/* Find a choice, and move it to the front. */
static spsh__rnn_choice *find_choice(spsh__rnn_state *self, const spsh__rnn_shape *s,
                                     bool has_two_biases, uint32_t passes)
{
    for (spsh__rnn_choice **at = &self->choices, *c = *at; c != NULL; at = &c->next, c = *at) {
        if (c->shape.frames == s->frames && c->shape.batch == s->batch &&
            c->shape.cell == s->cell && c->shape.inputs == s->inputs &&
            c->shape.hidden == s->hidden && c->has_two_biases == has_two_biases &&
            c->passes == passes && c->asked == self->algorithm && c->spared == self->spared) {
            *at = c->next;
            c->next = self->choices;
            self->choices = c;
            return c;
        }
    }
    return NULL;
}

/* Close the least recently used choice if there are too many. */
static void forget_choice(spsh__backend *b)
{
    spsh__rnn_state *self = spsh__rnn_of(b);
    spsh__rnn_choice **last = &self->choices;
    if (self->choice_count < SPSH__RNN_CHOICES)
        return;
    while ((*last)->next != NULL)
        last = &(*last)->next;
    spsh__rnn_close_layer(self, *last);
    spsh__free(&b->allocator, *last);
    *last = NULL;
    self->choice_count--;
}

/* Return NULL on failure, which is recorded, and for empty shapes. */
static const spsh__rnn_choice *choice_of(spsh__backend *b, const spsh__rnn_shape *s,
                                         const spsh__rnn_weights *w, spsh__backend_buffer x,
                                         uint32_t passes)
{
    spsh__rnn_state *self = spsh__rnn_of(b);
    const bool has_two_biases = w->recurrent_bias.data != NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__cuda_has_failed(b) || spsh__rnn_is_empty(s))
        return NULL;
    if (x.is_half != b->has_half || w->input.is_half != b->has_half ||
        w->recurrent.is_half != b->has_half || w->input_bias.is_half || w->recurrent_bias.is_half) {
        spsh__cuda_failed(
            b,
            SPSH_FAIL(&err, SPSH_E_INVALID_ARG,
                      "backend cuda: a buffer of a recurrent layer has the wrong precision"),
            &err);
        return NULL;
    }
    spsh__rnn_choice *c = find_choice(self, s, has_two_biases, passes);
    if (c != NULL)
        return c;
    forget_choice(b);
    c = spsh__new(&b->allocator, 1, sizeof(*c));
    if (c == NULL) {
        spsh__cuda_failed(b, SPSH_NO_MEMORY(&err), &err);
        return NULL;
    }
    c->shape = *s;
    c->has_two_biases = has_two_biases;
    c->passes = passes;
    c->asked = self->algorithm;
    c->spared = self->spared;
    return choose(b, c);
}

void spsh__cuda_rnn_choose(spsh__backend *b, spsh__rnn_algorithm algorithm)
{
    spsh__rnn_of(b)->algorithm = algorithm;
}

void spsh__cuda_spare(spsh__backend *b, uint32_t multiprocessors)
{
    spsh__rnn_of(b)->spared = multiprocessors;
}

const char *spsh__cuda_rnn_text(const spsh__backend *b, const spsh__rnn_shape *s,
                                bool has_two_biases, uint32_t passes)
{
    const spsh__rnn_choice *c = find_choice(spsh__rnn_of(b), s, has_two_biases, passes);
    return c == NULL ? "" : c->text;
}

static bool is_news(const spsh__rnn_state *self, const spsh__rnn_choice *c)
{
    for (const spsh__rnn_choice *one = self->choices; one != NULL; one = one->next) {
        if (one->is_logged && one->algorithm == c->algorithm && one->shape.cell == c->shape.cell &&
            one->shape.inputs == c->shape.inputs && one->shape.hidden == c->shape.hidden)
            return false;
    }
    return true;
}

bool spsh__cuda_rnn_news(spsh__backend *b, char *text, size_t size_bytes)
{
    const spsh__rnn_state *self = spsh__rnn_of(b);
    for (spsh__rnn_choice *c = self->choices; c != NULL; c = c->next) {
        const bool is_first = !c->is_logged && is_news(self, c);
        c->is_logged = true;
        if (!is_first)
            continue;
        (void)snprintf(text, size_bytes, "%s of %u units, %u inputs: %s",
                       c->shape.cell == SPSH__CELL_LSTM ? "LSTM" : "GRU", c->shape.hidden,
                       c->shape.inputs, c->text);
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------- operators
 */

static bool is_own(const spsh__rnn_choice *c)
{
    return c->algorithm == SPSH__RNN_PERSISTENT || c->algorithm == SPSH__RNN_STEPWISE;
}

static void forward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_pass *p,
                    uint32_t passes)
{
    const spsh__rnn_choice *c = choice_of(b, s, p->weights, p->x, passes);
    if (c == NULL)
        return;
    if (is_own(c)) {
        spsh__rnn_own_forward(b, c, p);
        return;
    }
    for (uint32_t i = 0; i < passes; i++) {
        spsh__rnn_begin_pass(b, c, i);
        spsh__rnn_layer_run_forward(b, c, &p[i]);
    }
    spsh__rnn_join_passes(b, c);
}

static void backward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_grad *g,
                     uint32_t passes)
{
    const spsh__rnn_choice *c = choice_of(b, s, g->weights, g->x, passes);
    if (c == NULL)
        return;
    if (is_own(c)) {
        spsh__rnn_own_backward(b, c, g);
        return;
    }
    for (uint32_t i = 0; i < passes; i++) {
        spsh__rnn_begin_pass(b, c, i);
        spsh__rnn_layer_run_backward(b, c, &g[i]);
    }
    spsh__rnn_join_passes(b, c);
}

void spsh__cuda_rnn_forward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_weights *w,
                            spsh__backend_buffer x, spsh__backend_buffer y,
                            spsh__backend_buffer reserve)
{
    const spsh__rnn_pass pass = {w, x, y, reserve};
    forward(b, s, &pass, 1);
}

void spsh__cuda_rnn_backward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_grad *g)
{
    backward(b, s, g, 1);
}

void spsh__cuda_rnn_both_forward(spsh__backend *b, const spsh__rnn_shape *s,
                                 const spsh__rnn_pass passes[2])
{
    forward(b, s, passes, 2);
}

void spsh__cuda_rnn_both_backward(spsh__backend *b, const spsh__rnn_shape *s,
                                  const spsh__rnn_grad g[2])
{
    backward(b, s, g, 2);
}

spsh_status spsh__cuda_rnn_open(spsh__backend *b, void **ret_state, spsh_error *err)
{
    const spsh__device_train_plan plan = {b->device, b->precision, b->is_deterministic};
    union {
        void *symbol;
        spsh__device_rnn_entry_fn *entry_fn;
    } found = {.symbol = spsh_cuda_symbol(b->cuda, SPSH__DEVICE_RNN_SYMBOL)};
    if (found.symbol == NULL || found.entry_fn()->jobs_bytes != SPSH__RNN_JOBS_BYTES)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "backend cuda: the recurrent layers of the plug-in and of this library "
                         "are from different builds; install both from the same build");
    spsh__rnn_state *self = spsh__new(&b->allocator, 1, sizeof(*self));
    if (self == NULL)
        return SPSH_NO_MEMORY(err);
    self->entry = found.entry_fn();
    spsh_status rc = spsh_cuda_event_open(b->cuda, b->device, 0, &self->turn, err);
    if (rc == SPSH_OK)
        rc = self->entry->open_fn(&plan, &self->device, err);
    if (rc != SPSH_OK) {
        spsh_cuda_event_close(b->cuda, self->turn);
        spsh__free(&b->allocator, self);
        return rc;
    }
    *ret_state = self;
    return SPSH_OK;
}

void *spsh__cuda_rnn_swap(spsh__backend *b, void *reserves)
{
    spsh__rnn_state *self = spsh__rnn_of(b);
    spsh__rnn_own_reserve *before = self->reserves;
    self->reserves = reserves;
    return before;
}

void spsh__cuda_rnn_forget(spsh__backend *b, void *reserves)
{
    for (spsh__rnn_own_reserve *own = reserves, *next = NULL; own != NULL; own = next) {
        next = own->next;
        spsh__free(&b->allocator, own);
    }
}

void spsh__cuda_rnn_close(spsh__backend *b, void *state)
{
    spsh__rnn_state *self = state;
    if (self == NULL)
        return;
    for (spsh__rnn_choice *c = self->choices, *next = NULL; c != NULL; c = next) {
        next = c->next;
        spsh__rnn_close_layer(self, c);
        spsh__free(&b->allocator, c);
    }
    for (spsh__rnn_own_reserve *own = self->reserves, *next = NULL; own != NULL; own = next) {
        next = own->next;
        b->ops->free_fn(b, own->memory);
        spsh__free(&b->allocator, own);
    }
    self->entry->close_fn(self->device);
    spsh_cuda_event_close(b->cuda, self->turn);
    spsh__free(&b->allocator, self);
}
