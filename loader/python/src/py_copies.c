/* py_copies.c: datasets, errors, and matches for dedupe, audit, and explain, over dedup.h. */
#include <errno.h>
#include <string.h>

#include "py_work.h"
#include "speechshard/dedup.h"
#include "speechshard/options.h"

/* ---- datasets ---- */

PyObject *spsh__py_real_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (real == NULL) {
        spsh_error err = SPSH_ERROR_INIT;
        spsh_error_set(&err, errno == ENOENT ? SPSH_E_NOT_FOUND : SPSH_E_IO, errno,
                       SPSH_OFFSET_NONE, "%s: %s", path,
                       errno == ENOENT ? "no such dataset" : "cannot be found");
        return spsh__py_raise(&err);
    }
    PyObject *bytes = PyBytes_FromString(real);
    free(real);
    return bytes;
}

/* New bytes: "DATASET:SPLITS" with the real path. */
static PyObject *real_name(const spsh_dedup_source *given)
{
    PyObject *path = spsh__py_real_path(given->path);
    if (path == NULL || given->splits == NULL)
        return path;
    PyObject *name = PyBytes_FromFormat("%s:%s", PyBytes_AsString(path), given->splits);
    Py_DECREF(path);
    return name;
}

static int add_real(spsh_dedup_sources *sources, const char *name, spsh_side side)
{
    spsh_dedup_sources *given = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    PyObject *real = NULL;
    spsh_status rc = spsh_dedup_sources_new(&given, &err);
    if (rc == SPSH_OK)
        rc = spsh_dedup_sources_add(given, name, side, NULL, &err);
    if (rc == SPSH_OK) {
        real = real_name(spsh_dedup_sources_get(given, 0));
        if (real != NULL)
            rc = spsh_dedup_sources_add(sources, PyBytes_AsString(real), side, NULL, &err);
    }
    spsh_dedup_sources_free(given);
    if (rc != SPSH_OK)
        spsh__py_raise(&err);
    const bool failed = rc != SPSH_OK || real == NULL;
    Py_XDECREF(real);
    return failed ? -1 : 0;
}

int spsh__py_sources_add(spsh_dedup_sources *sources, const spsh__py_texts *names, bool is_test,
                         bool is_real)
{
    const spsh_side side = is_test ? SPSH_SIDE_TEST : SPSH_SIDE_TRAIN;
    for (size_t i = 0; i < names->count; i++) {
        spsh_error err = SPSH_ERROR_INIT;
        if (is_real) {
            if (add_real(sources, names->items[i], side) != 0)
                return -1;
        } else if (spsh_dedup_sources_add(sources, names->items[i], side, NULL, &err) != SPSH_OK) {
            return SPSH_PY_RAISE(&err);
        }
    }
    return 0;
}

/* ---- errors ---- */

/* Return the part of a message after the dataset's path. NULL: it names another path. */
static const char *rest_of(const char *message, const char *path)
{
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    const bool begins = strncmp(message, path, bytes) == 0;
    return begins && strchr("/:", message[bytes]) != NULL ? message + bytes : NULL;
}

static bool is_damage(spsh_status status)
{
    return status == SPSH_E_CORRUPT || status == SPSH_E_TRUNCATED || status == SPSH_E_MISMATCH ||
           status == SPSH_E_NOT_SPEECHSHARD;
}

void spsh__py_raise_for(const char *const *paths, size_t count, const spsh_error *err)
{
    static const char prints[] = "fingerprints/";
    PyObject *advice = NULL;
    for (size_t i = 0; advice == NULL && is_damage(err->status) && i < count; i++) {
        const char *rest = rest_of(err->message, paths[i]);
        if (rest == NULL)
            continue;
        const bool is_print = strncmp(rest + strspn(rest, "/"), prints, sizeof(prints) - 1) == 0;
        PyObject *path = PyUnicode_DecodeFSDefault(paths[i]);
        if (path == NULL)
            return;
        advice = PyUnicode_FromFormat(
            is_print ? "`speechshard fingerprint %U` makes damaged fingerprints again"
                     : "speechshard.verify(\"%U\") lists the damage",
            path);
        Py_DECREF(path);
        if (advice == NULL)
            return;
    }
    spsh__py_raise_advice(err, advice);
    Py_XDECREF(advice);
}

void spsh__py_raise_for_sources(const spsh_dedup_sources *sources, spsh_error *err)
{
    static const spsh_option_name names[] = {
        {"work_path",       "work"   },
        {"plan_path",       "output" },
        {"html_path",       "html"   },
        {"alias_path",      "aliases"},
        {"folder",          "output" },
        {"memory_bytes",    "memory" },
        {"threads",         "jobs"   },
        {"SPSH_SIDE_TRAIN", "train"  },
        {"SPSH_SIDE_TEST",  "test"   },
    };
    const size_t count = spsh_dedup_sources_count(sources);
    const char **paths = (const char **)calloc(count + 1, sizeof(*paths));
    if (paths == NULL) {
        PyErr_NoMemory();
        return;
    }
    for (size_t i = 0; i < count; i++)
        paths[i] = spsh_dedup_sources_get(sources, i)->path;
    spsh_options_rename(err, names, sizeof(names) / sizeof(names[0]));
    spsh__py_raise_for(paths, count, err);
    free((void *)paths);
}

/* ---- matches ---- */

#define FACT(kind_, name_, member_) SPSH_PY_FACT(kind_, spsh_copy_match, name_, member_)
PyObject *spsh__py_match_facts(const spsh_copy_match *match)
{
    static const spsh__py_fact facts[] = {
        FACT(REAL, "a_start", a_start_s),
        FACT(REAL, "b_start", b_start_s),
        FACT(REAL, "seconds", a_seconds),
        FACT(NUMBER, "rate_hz", rate_hz),
        FACT(NUMBER, "a_first", a_first),
        FACT(NUMBER, "b_first", b_first),
        FACT(NUMBER, "count", count),
        FACT(NUMBER, "a_channel", a_channel),
        FACT(NUMBER, "b_channel", b_channel),
        FACT(REAL, "active_seconds", active_seconds),
        FACT(REAL, "coverage_a", coverage_a),
        FACT(REAL, "coverage_b", coverage_b),
        FACT(REAL, "ber", ber),
        FACT(REAL, "words_hz", words_hz),
        FACT(REAL, "tonality", tonality),
        FACT(REAL, "ncc", ncc),
        FACT(REAL, "ncc_white", ncc_white),
        FACT(REAL, "envelope", envelope),
        FACT(REAL, "block_share", block_share),
        FACT(REAL, "slope_ppm", slope_ppm),
        FACT(REAL, "spread_ms", spread_ms),
        FACT(REAL, "scale", scale),
        FACT(REAL, "similarity", similarity),
        FACT(TRUTH, "inverted", is_inverted),
        SPSH_PY_FACTS_END,
    };
    PyObject *dict = PyDict_New();
    if (dict != NULL &&
        (spsh__py_dict_string(dict, "kind", spsh_copy_class_text(match->kind)) != 0 ||
         spsh__py_dict_string(dict, "tier", spsh_copy_tier_text(match->tier)) != 0 ||
         spsh__py_facts_put(dict, match, facts) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

/* ---- estimates ---- */

static PyObject *cost_class;

#define COST(kind_, name_, member_) SPSH_PY_FACT(kind_, spsh_dedup_cost, name_, member_)
PyObject *spsh__py_cost(const spsh_dedup_cost *cost)
{
    static const spsh__py_fact facts[] = {
        COST(REAL, "train_seconds", train_seconds),
        COST(REAL, "test_seconds", test_seconds),
        COST(REAL, "fingerprint_seconds", fingerprint_seconds),
        COST(REAL, "fingerprint_core_seconds", fingerprint_core_seconds),
        COST(NUMBER, "fingerprint_bytes", fingerprint_bytes),
        COST(NUMBER, "keys", key_count),
        COST(NUMBER, "temporary_bytes", temporary_bytes),
        SPSH_PY_FACTS_END,
    };
    PyObject *dict = PyDict_New();
    if (dict != NULL && spsh__py_facts_put(dict, cost, facts) != 0)
        Py_CLEAR(dict);
    return spsh__py_report(cost_class, dict);
}

int spsh__py_cost_init(PyObject *module)
{
    cost_class = spsh__py_report_class(
        module, "CostEstimate",
        "Cost of a dedupe or an audit, with estimate=True: audio of both sides; audio without\n"
        "fingerprints, the time that these take on one core, and their bytes; keys to compare; "
        "and\n"
        "the temporary bytes that work needs at most.");
    return cost_class == NULL ? -1 : 0;
}
