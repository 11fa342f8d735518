/* cluster.c: see cluster.h. A word without '=' is another value of the last key. */
#include "cluster.h"

#include <ctype.h>
#include <stdio.h>

#include "speechshard/decimal.h"
#include "speechshard/inside.h"

#define LEARNERS_MAX UINT32_C(1024)

enum { WORD_BYTES = 640 };

typedef struct unit {
    const char *name;
    double factor;
} unit;

static const unit times[] = {
    {"ns",  1   },
    {"us",  1e3 },
    {"ms",  1e6 },
    {"s",   1e9 },
    {"min", 6e10}
};
static const unit rates[] = {
    {"bit",  0.125   },
    {"Kbit", 0.125e3 },
    {"Mbit", 0.125e6 },
    {"Gbit", 0.125e9 },
    {"Tbit", 0.125e12},
    {"B",    1       },
    {"KB",   1e3     },
    {"MB",   1e6     },
    {"GB",   1e9     }
};

/* Read a number without a sign, and advance *text past it. */
static bool take_number(const char **text, double *ret)
{
    if (**text == '+' || **text == '-')
        return false;
    const size_t size = spsh_decimal_scan(*text, strlen(*text), ret);
    *text += size;
    return size > 0;
}

/* ... with a unit, which ends where letters do. */
static bool take_quantity(const char **text, const unit *units, size_t count, double *ret)
{
    size_t size = 0;
    if (!take_number(text, ret))
        return false;
    while (isalpha((unsigned char)(*text)[size]))
        size++;
    for (size_t i = 0; i < count; i++)
        if (strlen(units[i].name) == size && strncmp(units[i].name, *text, size) == 0) {
            *ret *= units[i].factor;
            *text += size;
            return *ret < 1e18;
        }
    return false;
}

static bool take_time(const char **text, uint64_t *ret_ns)
{
    double ns = 0;
    if (!take_quantity(text, times, sizeof(times) / sizeof(times[0]), &ns))
        return false;
    *ret_ns = (uint64_t)(ns + 0.5);
    return true;
}

static bool take_rate(const char **text, double *ret)
{
    return take_quantity(text, rates, sizeof(rates) / sizeof(rates[0]), ret) && *ret > 0;
}

static bool take_char(const char **text, char c)
{
    if (**text != c)
        return false;
    (*text)++;
    return true;
}

static bool is_whole_count(const char *text, uint64_t max, uint64_t *ret)
{
    return spsh__take_digits(&text, max, ret) && *text == '\0';
}

/* ---- parts that are also separate options ---- */

spsh_status spsh__link_read(const char *text, spsh__link *ret, spsh_error *err)
{
    const char *at = text;
    *ret = (spsh__link){0, 0};
    bool is_good = take_time(&at, &ret->latency_ns);
    if (is_good && *at == '+')
        is_good = take_char(&at, '+') && take_rate(&at, &ret->bytes_per_s);
    if (!is_good) { /* only a bandwidth */
        at = text;
        ret->latency_ns = 0;
        is_good = take_rate(&at, &ret->bytes_per_s);
    }
    if (is_good && *at == '\0')
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "'%s': expected a link as LATENCY+BANDWIDTH, such as 10us+100Gbit", text);
}

/* AT: a time, or a step's number. */
static bool take_at(const char **text, bool *ret_is_step, uint64_t *ret)
{
    const char *at = *text;
    *ret_is_step = spsh__take_digits(&at, UINT64_MAX / 2, ret) && (*at == '\0' || *at == '+');
    if (*ret_is_step) {
        *text = at;
        return true;
    }
    return take_time(text, ret);
}

static bool take_fault(const char *at, bool *ret_is_step, spsh__sim_fault *f)
{
    uint64_t learner = 0, duration_ns = 0;
    if (!spsh__take_digits(&at, UINT32_MAX - 1, &learner) || !take_char(&at, ':'))
        return false;
    f->learner = (uint32_t)learner;
    *ret_is_step = false;
    if (f->kind == SPSH__SIM_SLOW) {
        if (!take_number(&at, &f->factor) || f->factor <= 0)
            return false;
        (void)take_char(&at, 'x');
        return *at == '\0';
    }
    if (!take_at(&at, ret_is_step, &f->from_ns))
        return false;
    if (f->kind == SPSH__SIM_KILL)
        return *at == '\0';
    if (!take_char(&at, '+') || !take_time(&at, &duration_ns) || duration_ns == 0)
        return false;
    f->to_ns = *ret_is_step ? duration_ns : f->from_ns + duration_ns;
    return *at == '\0';
}

spsh_status spsh__fault_read(spsh__sim_fault_kind kind, const char *text, bool *ret_is_step,
                             spsh__sim_fault *ret, spsh_error *err)
{
    static const char *const forms[] = {"LEARNER:FACTORx, such as 3:10x",
                                        "LEARNER:AT+FOR, such as 2:10s+5s",
                                        "LEARNER:AT, such as 1:30s"};
    *ret = (spsh__sim_fault){.kind = kind, .factor = 1};
    if (take_fault(text, ret_is_step, ret))
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "'%s': expected %s", text, forms[kind]);
}

/* ---- words ---- */

static spsh_status read_sizes(spsh__cluster *c, const char *text, spsh_error *err)
{
    uint64_t first = 0, last = 0;
    const char *at = text;
    bool is_good = spsh__take_digits(&at, LEARNERS_MAX, &first) && first > 0;
    last = first;
    if (is_good && strncmp(at, "..", 2) == 0) {
        at += 2;
        is_good = spsh__take_digits(&at, LEARNERS_MAX, &last) && last >= first;
    }
    if (!is_good || *at != '\0')
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "learners=%s: expected numbers from 1 to %u, or a range such as 1..128",
                         text, LEARNERS_MAX);
    for (uint64_t n = first; n <= last; n = n < last && 2 * n > last ? last : 2 * n) {
        if (c->size_count == SPSH__CLUSTER_SIZES_MAX)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "learners: expected at most %u numbers",
                             SPSH__CLUSTER_SIZES_MAX);
        c->sizes[c->size_count++] = (uint32_t)n;
    }
    return SPSH_OK;
}

static spsh_status read_fault(spsh__cluster *c, spsh__sim_fault_kind kind, const char *text,
                              spsh_error *err)
{
    bool is_step = false;
    if (c->fault_count == SPSH__CLUSTER_FAULTS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "expected at most %u of slow, freeze, and kill together",
                         SPSH__CLUSTER_FAULTS_MAX);
    const spsh_status rc =
        spsh__fault_read(kind, text, &is_step, &c->faults[c->fault_count++], err);
    if (rc == SPSH_OK && is_step)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "'%s': expected a time with its unit, such as 30s", text);
    return rc;
}

static spsh_status read_name(spsh__cluster *c, const char *text, spsh_error *err)
{
    if (strcmp(text, "all") == 0) {
        c->has_all_names = true;
        return SPSH_OK;
    }
    if (c->name_count == SPSH__CLUSTER_NAMES_MAX || strlen(text) >= SPSH__CLUSTER_NAME_BYTES)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "strategy=%s: unknown strategy, or too many strategies", text);
    (void)snprintf(c->names[c->name_count++], SPSH__CLUSTER_NAME_BYTES, "%s", text);
    return SPSH_OK;
}

static spsh_status read_step(spsh__cluster *c, const char *text, spsh_error *err)
{
    const char *at = text;
    if (take_time(&at, &c->step_ns) && *at == '\0' && c->step_ns > 0)
        return SPSH_OK;
    c->step_ns = 0;
    if (strlen(text) >= sizeof(c->step_of) || text[0] == '\0')
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "step=%s: expected a time, such as 250ms, or the folder of a run", text);
    (void)snprintf(c->step_of, sizeof(c->step_of), "%s", text);
    return SPSH_OK;
}

static spsh_status read_weights(spsh__cluster *c, const char *text, spsh_error *err)
{
    static const unit counts[] = {
        {"",  1  },
        {"K", 1e3},
        {"M", 1e6},
        {"G", 1e9}
    };
    const char *at = text;
    double number = 0;
    if (take_quantity(&at, counts, 4, &number) && *at == '\0' && number >= 1) {
        c->weights = (uint64_t)number;
        return SPSH_OK;
    }
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "weights=%s: expected a number of weights, such as 100M", text);
}

static spsh_status read_number(const char *key, const char *text, uint64_t max, uint64_t *ret,
                               spsh_error *err)
{
    if (is_whole_count(text, max, ret))
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s=%s: expected a whole number up to %llu", key,
                     text, (unsigned long long)max);
}

static spsh_status read_u32(const char *key, const char *text, uint32_t *ret, spsh_error *err)
{
    uint64_t number = 0;
    const spsh_status rc = read_number(key, text, UINT32_MAX - 1, &number, err);
    *ret = (uint32_t)number;
    return rc;
}

static const char *const fault_names[] = {"slow", "freeze", "kill"};

static spsh_status read_jitter(spsh__cluster *c, const char *text, spsh_error *err)
{
    const char *at = text;
    if (take_number(&at, &c->jitter) && *at == '\0' && c->jitter <= 100)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "jitter=%s: expected a fraction of a step, such as 0.1", text);
}

static spsh_status read_deadline(spsh__cluster *c, const char *text, spsh_error *err)
{
    const char *at = text;
    uint64_t ns = 0;
    if (take_time(&at, &ns) && *at == '\0' && ns >= 1000000 && ns / 1000000 < UINT32_MAX) {
        c->deadline_ms = (uint32_t)(ns / 1000000);
        return SPSH_OK;
    }
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "deadline=%s: expected a time, such as 60s", text);
}

static spsh_status read_value(spsh__cluster *c, const char *key, const char *text, spsh_error *err)
{
    const struct {
        const char *name;
        spsh_status (*read_fn)(spsh__cluster *c, const char *text, spsh_error *err);
    } own[] = {
        {"learners", read_sizes   },
        {"step",     read_step    },
        {"weights",  read_weights },
        {"strategy", read_name    },
        {"jitter",   read_jitter  },
        {"deadline", read_deadline}
    };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strcmp(key, own[i].name) == 0)
            return own[i].read_fn(c, text, err);
    for (int kind = 0; kind < 3; kind++)
        if (strcmp(key, fault_names[kind]) == 0)
            return read_fault(c, (spsh__sim_fault_kind)kind, text, err);
    if (strcmp(key, "link") == 0)
        return spsh__link_read(text, &c->link, err);
    if (strcmp(key, "node_link") == 0)
        return spsh__link_read(text, &c->node_link, err);
    if (strcmp(key, "node") == 0)
        return read_u32(key, text, &c->node_size, err);
    if (strcmp(key, "servers") == 0)
        return read_u32(key, text, &c->servers, err);
    if (strcmp(key, "staleness_max") == 0)
        return read_u32(key, text, &c->bound, err);
    if (strcmp(key, "steps") == 0)
        return read_number(key, text, 1000000, &c->steps, err);
    if (strcmp(key, "seed") == 0)
        return read_number(key, text, UINT64_MAX, &c->seed, err);
    return SPSH_FAIL(
        err, SPSH_E_INVALID_ARG,
        "unknown key '%s'; expected learners, link, node, node_link, slow, freeze, kill, step, "
        "jitter, steps, seed, strategy, weights, deadline, servers, or staleness_max",
        key);
}

/* If there are several clusters, a fault must name a learner of the largest. */
static spsh_status check(const spsh__cluster *c, spsh_error *err)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < c->size_count; i++)
        most = c->sizes[i] > most ? c->sizes[i] : most;
    if (most == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "learners is missing: set learners=8, learners=2,4,8, or learners=1..128");
    for (uint32_t i = 0; i < c->fault_count; i++)
        if (c->faults[i].learner >= most)
            return SPSH_FAIL(
                err, SPSH_E_INVALID_ARG,
                "%s=%u: learner %u does not exist: with %u learners, the numbers are 0 to %u",
                fault_names[c->faults[i].kind], c->faults[i].learner, c->faults[i].learner, most,
                most - 1);
    return SPSH_OK;
}

spsh_status spsh__cluster_read(const char *text, spsh__cluster *ret, spsh_error *err)
{
    char key[WORD_BYTES] = "", word[WORD_BYTES];
    *ret = (spsh__cluster){.bound = UINT32_MAX, .seed = 1};
    while (*text != '\0') {
        const size_t size = strcspn(text, ",");
        if (size >= sizeof(word))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a value of %zu bytes is too long", size);
        memcpy(word, text, size);
        word[size] = '\0';
        text += size + (text[size] == ',' ? 1 : 0);
        char *value = strchr(word, '=');
        if (value == NULL && key[0] == '\0')
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "'%s': expected KEY=VALUE, such as learners=8", word);
        if (value != NULL) {
            *value++ = '\0';
            (void)snprintf(key, sizeof(key), "%s", word);
        }
        const spsh_status rc = read_value(ret, key, value != NULL ? value : word, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return check(ret, err);
}
