/* cpu_kernels_body.h: cpu_kernels.h in terms of vec, LANES, TILE_ROWS, GRAD_TAPS and the few
 * functions that a file of an instruction set defines before it includes this.
 *
 * exp(x) = 2^n e^r, n the nearest integer to x / ln 2: adding 1.5 * 2^23 rounds, and leaves n in
 * the low bits, and a shift moves it to the exponent. e^r is the Taylor polynomial of degree 7 (|r|
 * < 0.347: 5e-9 off). tanh is computed from e^2x. Near 0, where that formula cancels, it is a
 * polynomial of degree 9.
 */
#include <string.h>

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { BLOCK_VECTORS = 64 }; /* vectors whose sum is a float; such sums are added in double */

INLINE vec vec_all(float value)
{
    return value - (vec){0};
}

/* Load count lanes; the other lanes are `fill`. */
INLINE vec load_or(const float *from, size_t count, float fill)
{
    if (count >= LANES)
        return vec_load(from);
    float lanes[LANES];
    for (size_t i = 0; i < LANES; i++)
        lanes[i] = i < count ? from[i] : fill;
    return vec_load(lanes);
}

INLINE vec load_some(const float *from, size_t count)
{
    return load_or(from, count, 0);
}

INLINE void store_some(float *to, vec value, size_t count)
{
    if (count >= LANES) {
        vec_store(to, value);
        return;
    }
    float lanes[LANES];
    vec_store(lanes, value);
    for (size_t i = 0; i < count; i++)
        to[i] = lanes[i];
}

INLINE vec vec_exp(vec x)
{
    x = vec_min(vec_all(88.0f), vec_max(vec_all(-87.0f), x));
    const vec rounded = vec_fma(x, vec_all(1.44269504f), vec_all(12582912.0f));
    const vec n = rounded - vec_all(12582912.0f);
    vec r = vec_fma(n, vec_all(-0.693145751953125f), x);
    r = vec_fma(n, vec_all(-1.42860682e-6f), r);
    vec p = vec_fma(r, vec_all(1.0f / 5040), vec_all(1.0f / 720));
    p = vec_fma(p, r, vec_all(1.0f / 120));
    p = vec_fma(p, r, vec_all(1.0f / 24));
    p = vec_fma(p, r, vec_all(1.0f / 6));
    p = vec_fma(p, r, vec_all(0.5f));
    p = vec_fma(p, r, vec_all(1.0f));
    p = vec_fma(p, r, vec_all(1.0f));
    const uvec power = ((uvec)rounded << 23) + (127u << 23);
    return p * (vec)power;
}

INLINE vec vec_logistic(vec x)
{
    return vec_all(1.0f) / (vec_all(1.0f) + vec_exp(-x));
}

INLINE vec vec_tanh(vec x)
{
    const uvec sign = (uvec)x & 0x80000000u;
    const vec size = (vec)((uvec)x & 0x7fffffffu);
    const vec e = vec_exp(size + size);
    const vec large = vec_all(1.0f) - vec_all(2.0f) / (e + vec_all(1.0f));
    const vec square = x * x;
    vec p = vec_fma(square, vec_all(62.0f / 2835), vec_all(-17.0f / 315));
    p = vec_fma(p, square, vec_all(2.0f / 15));
    p = vec_fma(p, square, vec_all(-1.0f / 3));
    p = vec_fma(p * square, x, x);
    return vec_pick(size < vec_all(0.3f), p, (vec)((uvec)large | sign));
}

/* Fold in halves: combine the upper lanes with the lower ones. */
INLINE float lane_sum(vec value)
{
    float lanes[LANES];
    vec_store(lanes, value);
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

/* --- tiles --- */

INLINE void tile_of(const spsh__cpu_tile *t, const size_t vectors)
{
    vec sum[TILE_ROWS][SPSH__TILE_VECTORS];
    UNROLL
    for (size_t r = 0; r < TILE_ROWS; r++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++)
            sum[r][v] = vec_all(0);
    }
    const float *rows = t->rows;
    for (size_t k = 0; k < t->depth; k++, rows += TILE_ROWS) {
        const float *columns = t->columns + (t->offsets != NULL ? t->offsets[k] : k * t->step);
        vec x[SPSH__TILE_VECTORS];
        UNROLL
        for (size_t v = 0; v < vectors; v++)
            x[v] = vec_load(columns + v * LANES);
        UNROLL
        for (size_t r = 0; r < TILE_ROWS; r++) {
            const vec w = vec_all(rows[r]);
            UNROLL
            for (size_t v = 0; v < vectors; v++)
                sum[r][v] = vec_fma(w, x[v], sum[r][v]);
        }
    }
    UNROLL
    for (size_t r = 0; r < TILE_ROWS; r++) {
        UNROLL
        for (size_t v = 0; v < vectors; v++)
            vec_store(t->out + r * t->out_stride + v * LANES, sum[r][v]);
    }
}

TARGET static void tile(const spsh__cpu_tile *t)
{
    if (t->vectors == 3)
        tile_of(t, 3);
    else if (t->vectors == 2)
        tile_of(t, 2);
    else
        tile_of(t, 1);
}

INLINE void taps_grad_of(const spsh__cpu_taps_grad *g, const size_t taps)
{
    vec sum[SPSH__GRAD_CHANNELS][GRAD_TAPS];
    UNROLL
    for (size_t o = 0; o < SPSH__GRAD_CHANNELS; o++) {
        UNROLL
        for (size_t k = 0; k < taps; k++)
            sum[o][k] = vec_all(0);
    }
    for (size_t line = 0; line < g->lines; line++) {
        const float *dy = g->dy + line * g->dy_line;
        const float *x = g->x + line * g->x_line;
        for (size_t at = 0; at < g->vectors * LANES; at += LANES) {
            vec d[SPSH__GRAD_CHANNELS];
            UNROLL
            for (size_t o = 0; o < SPSH__GRAD_CHANNELS; o++)
                d[o] = vec_load(dy + o * g->dy_channel + at);
            UNROLL
            for (size_t k = 0; k < taps; k++) {
                const vec value = vec_load(x + g->taps[k] + at);
                UNROLL
                for (size_t o = 0; o < SPSH__GRAD_CHANNELS; o++)
                    sum[o][k] = vec_fma(d[o], value, sum[o][k]);
            }
        }
    }
    UNROLL
    for (size_t o = 0; o < SPSH__GRAD_CHANNELS; o++) {
        UNROLL
        for (size_t k = 0; k < taps; k++)
            g->out[o * SPSH__GRAD_TAPS_MAX + k] += lane_sum(sum[o][k]);
    }
}

TARGET static void taps_grad(const spsh__cpu_taps_grad *g)
{
    if (g->tap_count == GRAD_TAPS)
        taps_grad_of(g, GRAD_TAPS);
    else
        taps_grad_of(g, GRAD_TAPS - 1);
}

/* --- cells --- */

TARGET static void lstm(const spsh__cpu_cell *c)
{
    const size_t hidden = c->hidden;
    for (size_t j = 0; j < hidden; j += LANES) {
        const size_t count = hidden - j;
        vec sum[4];
        UNROLL
        for (size_t gate = 0; gate < 4; gate++) {
            const size_t at = gate * hidden + j;
            sum[gate] = load_some(c->gates + at, count) + load_some(c->bias + at, count) +
                        load_some(c->product + at, count);
        }
        const vec i = vec_logistic(sum[0]), f = vec_logistic(sum[1]);
        const vec g = vec_tanh(sum[2]), o = vec_logistic(sum[3]);
        const vec inner = vec_fma(f, load_some(c->before + j, count), i * g);
        store_some(c->gates + j, i, count);
        store_some(c->gates + hidden + j, f, count);
        store_some(c->gates + 2 * hidden + j, g, count);
        store_some(c->gates + 3 * hidden + j, o, count);
        store_some(c->inner + j, inner, count);
        store_some(c->h + j, o * vec_tanh(inner), count);
    }
}

TARGET static void lstm_grad(const spsh__cpu_cell_grad *g)
{
    const size_t hidden = g->hidden;
    const vec one = vec_all(1);
    for (size_t j = 0; j < hidden; j += LANES) {
        const size_t count = hidden - j;
        float *gates = g->gates + j;
        const vec dh = load_some(g->dh + j, count) + load_some(g->product + j, count);
        const vec i = load_some(gates, count), f = load_some(gates + hidden, count);
        const vec n = load_some(gates + 2 * hidden, count);
        const vec o = load_some(gates + 3 * hidden, count);
        const vec t = vec_tanh(load_some(g->inner + j, count));
        const vec dc = vec_fma(dh * o, one - t * t, load_some(g->carry + j, count));
        const vec before = load_some(g->before + j, count);
        store_some(gates, dc * n * i * (one - i), count);
        store_some(gates + hidden, dc * before * f * (one - f), count);
        store_some(gates + 2 * hidden, dc * i * (one - n * n), count);
        store_some(gates + 3 * hidden, dh * t * o * (one - o), count);
        store_some(g->carry + j, dc * f, count);
    }
}

/* bias: of r, z, n, and the factor of the reset gate, in this order. */
TARGET static void gru(const spsh__cpu_cell *c)
{
    const size_t hidden = c->hidden;
    for (size_t j = 0; j < hidden; j += LANES) {
        const size_t count = hidden - j;
        vec sum[3], product[3];
        UNROLL
        for (size_t gate = 0; gate < 3; gate++) {
            const size_t at = gate * hidden + j;
            sum[gate] = load_some(c->gates + at, count) + load_some(c->bias + at, count);
            product[gate] = load_some(c->product + at, count);
        }
        const vec r = vec_logistic(sum[0] + product[0]), z = vec_logistic(sum[1] + product[1]);
        const vec inner = product[2] + load_some(c->bias + 3 * hidden + j, count);
        const vec n = vec_tanh(vec_fma(r, inner, sum[2]));
        store_some(c->gates + j, r, count);
        store_some(c->gates + hidden + j, z, count);
        store_some(c->gates + 2 * hidden + j, n, count);
        store_some(c->inner + j, inner, count);
        store_some(c->h + j, vec_fma(z, load_some(c->before + j, count) - n, n), count);
    }
}

TARGET static void gru_grad(const spsh__cpu_cell_grad *g)
{
    const size_t hidden = g->hidden;
    const vec one = vec_all(1);
    for (size_t j = 0; j < hidden; j += LANES) {
        const size_t count = hidden - j;
        float *gates = g->gates + j;
        const vec dh = load_some(g->dh + j, count) + load_some(g->product + j, count) +
                       load_some(g->carry + j, count);
        const vec r = load_some(gates, count), z = load_some(gates + hidden, count);
        const vec n = load_some(gates + 2 * hidden, count);
        const vec before = load_some(g->before + j, count);
        const vec dn = dh * (one - z) * (one - n * n);
        const vec dr = dn * load_some(g->inner + j, count);
        store_some(gates, dr * r * (one - r), count);
        store_some(gates + hidden, dh * (before - n) * z * (one - z), count);
        store_some(gates + 2 * hidden, dn, count);
        store_some(g->inner + j, dn * r, count);
        store_some(g->carry + j, dh * z, count);
    }
}

/* --- sums --- */

INLINE double lanes_in_double(vec value)
{
    float lanes[LANES];
    vec_store(lanes, value);
    double sum = 0;
    for (size_t i = 0; i < LANES; i++)
        sum += (double)lanes[i];
    return sum;
}

INLINE size_t block_end(size_t start, size_t count)
{
    const size_t block = (size_t)BLOCK_VECTORS * LANES;
    return count - start < block ? count : start + block;
}

TARGET static double sum_of(const float *x, size_t count)
{
    double total = 0;
    for (size_t start = 0, end; start < count; start = end) {
        end = block_end(start, count);
        vec sum = vec_all(0);
        for (size_t i = start; i < end; i += LANES)
            sum += load_some(x + i, end - i);
        total += lanes_in_double(sum);
    }
    return total;
}

TARGET static double square_sum(const float *x, float mean, size_t count)
{
    double total = 0;
    for (size_t start = 0, end; start < count; start = end) {
        end = block_end(start, count);
        vec sum = vec_all(0);
        for (size_t i = start; i < end; i += LANES) {
            const vec d = load_or(x + i, end - i, mean) - vec_all(mean);
            sum = vec_fma(d, d, sum);
        }
        total += lanes_in_double(sum);
    }
    return total;
}

TARGET static double dot(const float *x, float mean, const float *y, size_t count)
{
    double total = 0;
    for (size_t start = 0, end; start < count; start = end) {
        end = block_end(start, count);
        vec sum = vec_all(0);
        for (size_t i = start; i < end; i += LANES) {
            const vec d = load_or(x + i, end - i, mean) - vec_all(mean);
            sum = vec_fma(d, load_some(y + i, end - i), sum);
        }
        total += lanes_in_double(sum);
    }
    return total;
}

TARGET static float max_of(const float *x, size_t count)
{
    vec most = vec_all(x[0]);
    for (size_t i = 0; i < count; i += LANES)
        most = vec_max(most, load_or(x + i, count - i, x[0]));
    float lanes[LANES];
    vec_store(lanes, most);
    for (size_t i = 1; i < LANES; i++)
        lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
    return lanes[0];
}

TARGET static double exp_of(const float *x, float less, float *y, size_t count)
{
    double total = 0;
    for (size_t start = 0, end; start < count; start = end) {
        end = block_end(start, count);
        vec sum = vec_all(0);
        for (size_t i = start; i < end; i += LANES) {
            const vec e = vec_exp(load_or(x + i, end - i, less) - vec_all(less));
            if (y != NULL)
                store_some(y + i, e, end - i);
            sum += e;
        }
        const size_t filled = (LANES - (end - start) % LANES) % LANES;
        total += lanes_in_double(sum) - (double)filled; /* each of these lanes contributed e^0 */
    }
    return total;
}

TARGET static void column_sums(const float *x, size_t stride, size_t rows, float *sums,
                               size_t width)
{
    for (size_t c = 0; c < width; c += LANES) {
        vec sum = vec_all(0);
        for (size_t r = 0; r < rows; r++)
            sum += load_some(x + r * stride + c, width - c);
        store_some(sums + c, sum, width - c);
    }
}

/* --- one element at a time --- */

TARGET static void affine(float a, const float *x, float c, float *y, size_t count)
{
    for (size_t i = 0; i < count; i += LANES)
        store_some(y + i, vec_fma(vec_all(a), load_some(x + i, count - i), vec_all(c)), count - i);
}

TARGET static void blend(const float abc[3], const float *x, const float *y, float *z, size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        const vec part = vec_fma(vec_all(abc[1]), load_some(y + i, count - i), vec_all(abc[2]));
        store_some(z + i, vec_fma(vec_all(abc[0]), load_some(x + i, count - i), part), count - i);
    }
}

TARGET static void multiply_add(const float *x, const float *y, float *z, size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        const vec product = load_some(x + i, count - i);
        store_some(z + i,
                   vec_fma(product, load_some(y + i, count - i), load_some(z + i, count - i)),
                   count - i);
    }
}

TARGET static void clip(float limit, const float *x, float *y, size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        const vec value = vec_max(vec_all(0), load_some(x + i, count - i));
        store_some(y + i, vec_min(vec_all(limit), value), count - i);
    }
}

TARGET static void clip_grad(float limit, const float *y, const float *dy, float *dx, size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        const vec value = load_some(y + i, count - i);
        const ivec passes = (value > vec_all(0)) & (value < vec_all(limit));
        store_some(dx + i, vec_pick(passes, load_some(dy + i, count - i), vec_all(0)), count - i);
    }
}

TARGET static void sgd(const spsh__sgd_factors *o, float *w, const float *g, float *moment,
                       size_t count)
{
    const vec momentum = vec_all(o->momentum);
    for (size_t i = 0; i < count; i += LANES) {
        const size_t left = count - i;
        const vec weight = load_some(w + i, left);
        vec step = load_some(g + i, left) * vec_all(o->gradient_scale);
        step = vec_fma(weight, vec_all(o->decay), step);
        if (moment != NULL) {
            const vec kept = vec_fma(momentum, load_some(moment + i, left), step);
            store_some(moment + i, kept, left);
            step = o->is_nesterov ? vec_fma(momentum, kept, step) : kept;
        }
        store_some(w + i, vec_fma(vec_all(-o->rate), step, weight), left);
    }
}

TARGET static void adamw(const spsh__adamw_factors *o, float *w, const float *g,
                         float *const moments[2], size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        const size_t left = count - i;
        const vec gradient = load_some(g + i, left) * vec_all(o->gradient_scale);
        vec mean = vec_all(o->beta1) * load_some(moments[0] + i, left);
        mean = vec_fma(vec_all(o->gain1), gradient, mean);
        vec square = vec_all(o->beta2) * load_some(moments[1] + i, left);
        square = vec_fma(vec_all(o->gain2) * gradient, gradient, square);
        store_some(moments[0] + i, mean, left);
        store_some(moments[1] + i, square, left);
        const vec size = vec_fma(vec_sqrt(square), vec_all(o->root), vec_all(o->epsilon));
        const vec weight = load_some(w + i, left) * vec_all(o->keep);
        store_some(w + i, vec_fma(vec_all(-o->step), mean / size, weight), left);
    }
}

static const spsh__cpu_kernels kernels = {
    .name = NAME,
    .lanes = LANES,
    .tile_rows = TILE_ROWS,
    .grad_taps = GRAD_TAPS,
    .tile_fn = tile,
    .taps_grad_fn = taps_grad,
    .lstm_fn = lstm,
    .lstm_grad_fn = lstm_grad,
    .gru_fn = gru,
    .gru_grad_fn = gru_grad,
    .sum_fn = sum_of,
    .square_sum_fn = square_sum,
    .dot_fn = dot,
    .max_fn = max_of,
    .exp_fn = exp_of,
    .column_sums_fn = column_sums,
    .affine_fn = affine,
    .blend_fn = blend,
    .multiply_add_fn = multiply_add,
    .clip_fn = clip,
    .clip_grad_fn = clip_grad,
    .sgd_fn = sgd,
    .adamw_fn = adamw,
};
