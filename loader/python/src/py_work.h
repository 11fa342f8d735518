/* py_work.h: shared by the functions that do what a subcommand of `speechshard` does: pack, dedupe,
 * apply, revert, audit, explain, verify, train.
 *
 * Each of them reads its arguments with a table of keywords (py_keywords.c) into a structure that
 * begins with a spsh__py_work, calls the C library in a separate thread (py_job.c), and returns a
 * report: an object with attributes (py_convert.c).
 */
#ifndef SPSH_PY_WORK_H
#define SPSH_PY_WORK_H

#include "py_binding.h"

/* ---- py_keywords.c: arguments ---- */

/* First member of the arguments of every function. */
typedef struct spsh__py_work {
    PyObject *kept;     /* list of the objects that the arguments point into */
    PyObject *progress; /* callable, or NULL */
    PyObject *log;      /* callable */
    bool has_bar;       /* progress=True: progress has a method close */
} spsh__py_work;

typedef struct spsh__py_texts {
    const char **items; /* NULL-terminated; NULL: not given */
    size_t count;
} spsh__py_texts;

typedef struct spsh__py_keyword spsh__py_keyword;
/* place: the argument's member. Returns 0, or -1 with an exception set. */
typedef int spsh__py_keyword_fn(const spsh__py_keyword *keyword, PyObject *value,
                                spsh__py_work *work, void *place);

struct spsh__py_keyword {
    const char *name;
    spsh__py_keyword_fn *parse_fn;
    size_t offset; /* offset of the member in the arguments */
    const spsh__py_choice *choices;
    uint64_t min, max; /* max 0: no upper limit */
};

typedef struct spsh__py_function {
    const char *name;
    const spsh__py_keyword *keywords; /* positional ones first; the name of the last is NULL */
    Py_ssize_t positional_count, required_count;
    /* Take a keyword with a dot that is not in the table. NULL: it is an error, as without a dot */
    int (*other_fn)(PyObject *name, PyObject *value, spsh__py_work *work);
} spsh__py_function;

/* Read arguments into a zeroed structure, which begins with a spsh__py_work. None is the default of
 * every argument. Ends with spsh__py_arguments_clear, also after a failure. */
int spsh__py_arguments_parse(const spsh__py_function *function, PyObject *args, PyObject *keywords,
                             spsh__py_work *work);
void spsh__py_arguments_clear(spsh__py_work *work);

/* Type of the member: */
spsh__py_keyword_fn spsh__py_take_text;  /* const char *; str */
spsh__py_keyword_fn spsh__py_take_path;  /* const char *; str, bytes, os.PathLike, Dataset */
spsh__py_keyword_fn spsh__py_take_names; /* const char *, with commas between; str or strings */
spsh__py_keyword_fn spsh__py_take_texts; /* spsh__py_texts; str or strings */
spsh__py_keyword_fn spsh__py_take_paths; /* spsh__py_texts; a path or paths */
spsh__py_keyword_fn spsh__py_take_word;  /* int, by choices */
spsh__py_keyword_fn spsh__py_take_flag;  /* bool */
spsh__py_keyword_fn spsh__py_take_count; /* uint64_t in min ... max; int */
spsh__py_keyword_fn spsh__py_take_size;  /* uint64_t in min ... max; int, or str such as "1G" */
spsh__py_keyword_fn spsh__py_take_progress, spsh__py_take_log; /* no member */

/* The rows that end each table. */
#define SPSH_PY_WORK_KEYWORDS                                                                      \
    {"progress", spsh__py_take_progress, 0, NULL, 0, 0},                                           \
        {"log", spsh__py_take_log, 0, NULL, 0, 0},                                                 \
    {                                                                                              \
        NULL, NULL, 0, NULL, 0, 0                                                                  \
    }

/* Parse the value of part, as --part does, and log a part that the environment sets. NULL changes
 * nothing. Call after spsh__py_arguments_parse. */
int spsh__py_part_take(const spsh__py_work *work, const char *text, uint64_t *ret_part,
                       uint64_t *ret_count);
/* Write the call as Python, for pages that show how they were made. Kept by work. */
const char *spsh__py_call_text(const char *function, PyObject *args, PyObject *keywords,
                               spsh__py_work *work);

/* ---- py_job.c: a call of the C library ---- */

typedef struct spsh__py_job spsh__py_job;
typedef spsh_status spsh__py_job_fn(void *call, spsh__py_job *job, spsh_error *err);

/**
 * Call job_fn in a thread, without the interpreter lock. Meanwhile the calling thread hands
 * progress and messages on to Python, and looks for signals. If Python raises, the job is canceled,
 * and this returns after it has ended.
 *
 * @return the job's status. An exception may be set with any status; then it counts.
 */
spsh_status spsh__py_job_run(spsh__py_work *work, spsh__py_job_fn *job_fn, void *call,
                             spsh_error *err);

/* For job_fn: callbacks of the libraries. user: the job. Any thread. */
int spsh__py_job_progress(void *user, const char *phase, uint64_t done, uint64_t total);
void spsh__py_job_log(void *user, spsh_log_level level, const char *text);
void spsh__py_job_line(void *user, uint64_t step, const char *line);
const volatile int *spsh__py_job_stop(const spsh__py_job *job);

/* ---- py_convert.c: reports ---- */

/* Make a class of reports and add it to the module. */
PyObject *spsh__py_report_class(PyObject *module, const char *name, const char *doc);
/* Takes dict, which becomes the attributes. NULL with an exception set, also if dict is NULL. */
PyObject *spsh__py_report(PyObject *class, PyObject *dict);
/* The same for a part of a report. */
PyObject *spsh__py_facts(PyObject *dict);

typedef struct spsh__py_fact {
    const char *name; /* NULL: the end */
    enum { SPSH_PY_FACT_NUMBER, SPSH_PY_FACT_REAL, SPSH_PY_FACT_TRUTH } kind;
    spsh__py_field field;
} spsh__py_fact;
/* clang-format off */
#define SPSH_PY_FACT(kind_, type_, name_, member_)                                                 \
    {(name_), SPSH_PY_FACT_##kind_, {offsetof(type_, member_), sizeof(((const type_ *)NULL)->member_)}}
#define SPSH_PY_FACTS_END {NULL, SPSH_PY_FACT_NUMBER, {0, 0}}
/* clang-format on */
/* Put members of a structure into dict: unsigned numbers, double, bool. */
int spsh__py_facts_put(PyObject *dict, const void *structure, const spsh__py_fact *facts);
int spsh__py_dict_truth(PyObject *dict, const char *key, bool value);
int spsh__py_dict_string(PyObject *dict, const char *key, const char *value); /* NULL: None */
int spsh__py_dict_file(PyObject *dict, const char *key, const char *path);    /* NULL: None */
int spsh__py_dict_hex(PyObject *dict, const char *key, const uint8_t *bytes, size_t size_bytes);
/* Make a list of the elements 0 to count - 1 of an object. */
typedef PyObject *spsh__py_element_fn(const void *of, size_t index);
PyObject *spsh__py_facts_list(const void *of, size_t count, spsh__py_element_fn *element_fn);

/* ---- py_copies.c: shared by dedupe, audit, and explain ---- */

typedef struct spsh_dedup_sources spsh_dedup_sources;
typedef struct spsh_dedupe_result spsh_dedupe_result;
typedef struct spsh_copy_match spsh_copy_match;
typedef struct spsh_dedup_cost spsh_dedup_cost;

/* Add "DATASET:SPLITS" texts. is_real: paths without links and dots. -1 with an exception set. */
int spsh__py_sources_add(spsh_dedup_sources *sources, const spsh__py_texts *names, bool is_test,
                         bool is_real);
/* New bytes: a path without links and dots. */
PyObject *spsh__py_real_path(const char *path);
/* Raise err. If it is about damage below one of the paths, name the call that lists the damage. */
void spsh__py_raise_for(const char *const *paths, size_t count, const spsh_error *err);
void spsh__py_raise_for_sources(const spsh_dedup_sources *sources, spsh_error *err);
PyObject *spsh__py_match_facts(const spsh_copy_match *match);
int spsh__py_cost_init(PyObject *module);
/* A CostEstimate. */
PyObject *spsh__py_cost(const spsh_dedup_cost *cost);

/* ---- py_clusters.c ---- */

int spsh__py_clusters_init(PyObject *module);
/* A sequence of clusters. Takes the result. */
PyObject *spsh__py_clusters_new(spsh_dedupe_result *result);

/* ---- the functions ---- */

int spsh__py_pack_init(PyObject *module);
int spsh__py_dedupe_init(PyObject *module);
int spsh__py_audit_init(PyObject *module);
int spsh__py_explain_init(PyObject *module);
int spsh__py_verify_init(PyObject *module);
int spsh__py_train_init(PyObject *module);

#endif
