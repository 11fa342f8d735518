/* py_verify.c: speechshard.verify, over verify.h. */
#include <string.h>

#include "py_work.h"
#include "speechshard/publish.h"
#include "speechshard/verify.h"

enum { JOBS_MAX = 256 };

static PyObject *report_class;

/* A copy of a spsh_damage, since its strings are borrowed. */
typedef struct damage {
    struct damage *next;
    uint64_t offset_bytes, size_bytes, utterances;
    size_t id_bytes;
    const char *file, *part, *message, *id; /* in texts */
    char texts[];
} damage;

typedef struct verify_call {
    spsh__py_work work;
    const char *dataset, *part;
    uint64_t jobs, part_number, part_count;
    bool decodes, is_cached;
    spsh_verify_result result;
    damage *first, **end;
    spsh__py_job *job;
    bool has_no_memory;
} verify_call;

#define AT(member_) offsetof(verify_call, member_)
static const spsh__py_keyword keywords[] = {
    {"dataset", spsh__py_take_path,  AT(dataset),   NULL, 0, 0       },
    {"decode",  spsh__py_take_flag,  AT(decodes),   NULL, 0, 0       },
    {"cached",  spsh__py_take_flag,  AT(is_cached), NULL, 0, 0       },
    {"jobs",    spsh__py_take_count, AT(jobs),      NULL, 1, JOBS_MAX},
    {"part",    spsh__py_take_text,  AT(part),      NULL, 0, 0       },
    SPSH_PY_WORK_KEYWORDS
};

static const spsh__py_function function = {"verify", keywords, 1, 1, NULL};

/* ---- the job ---- */

static const char *put_text(char **at, const char *text, size_t size_bytes)
{
    char *copy = *at;
    if (size_bytes > 0)
        memcpy(copy, text, size_bytes);
    copy[size_bytes] = '\0';
    *at += size_bytes + 1;
    return copy;
}

static int on_damage(void *user, const spsh_damage *found)
{
    verify_call *c = (verify_call *)user;
    const size_t file = strlen(found->file), part = strlen(found->part);
    const size_t message = strlen(found->message);
    damage *added =
        (damage *)malloc(sizeof(*added) + file + part + message + found->id.size_bytes + 4);
    c->has_no_memory = added == NULL;
    if (added == NULL)
        return 1;
    char *at = added->texts;
    added->next = NULL;
    added->offset_bytes = found->offset_bytes;
    added->size_bytes = found->size_bytes;
    added->utterances = found->utterances;
    added->file = put_text(&at, found->file, file);
    added->part = put_text(&at, found->part, part);
    added->message = put_text(&at, found->message, message);
    added->id = put_text(&at, (const char *)found->id.data, found->id.size_bytes);
    added->id_bytes = found->id.size_bytes;
    *c->end = added;
    c->end = &added->next;
    return 0;
}

static int on_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    return spsh__py_job_progress(((verify_call *)user)->job, phase, done, total);
}

static spsh_status run(void *call, spsh__py_job *job, spsh_error *err)
{
    verify_call *c = (verify_call *)call;
    spsh_verify_options options = SPSH_VERIFY_OPTIONS_INIT;
    c->job = job;
    options.damage_fn = on_damage;
    options.progress_fn = on_progress;
    options.user = c;
    options.jobs = (uint32_t)c->jobs;
    options.part = c->part_number;
    options.part_count = c->part_count;
    options.flags = (c->decodes ? SPSH_VERIFY_DECODE : 0) | (c->is_cached ? SPSH_VERIFY_CACHED : 0);
    const spsh_status rc = spsh_verify(c->dataset, &options, &c->result, err);
    return c->has_no_memory ? SPSH_E_NO_MEMORY : rc;
}

/* ---- the report ---- */

static PyObject *damage_facts(const damage *found)
{
    PyObject *dict = PyDict_New();
    PyObject *offset = found->offset_bytes == SPSH_OFFSET_NONE
                           ? NULL
                           : PyLong_FromUnsignedLongLong(found->offset_bytes);
    if (offset == NULL) {
        Py_INCREF(Py_None);
        offset = Py_None;
    }
    if (dict != NULL &&
        (spsh__py_dict_string(dict, "file", found->file) != 0 ||
         spsh__py_dict_string(dict, "part", found->part) != 0 ||
         PyDict_SetItemString(dict, "offset", offset) != 0 ||
         spsh__py_dict_u64(dict, "size", found->size_bytes) != 0 ||
         spsh__py_dict_text(dict, "id",
                            (spsh_bytes){(const uint8_t *)found->id, found->id_bytes}) != 0 ||
         spsh__py_dict_u64(dict, "utterances", found->utterances) != 0 ||
         spsh__py_dict_string(dict, "message", found->message) != 0))
        Py_CLEAR(dict);
    Py_DECREF(offset);
    return spsh__py_facts(dict);
}

static PyObject *damage_list(const verify_call *c)
{
    PyObject *list = PyList_New(0);
    for (const damage *at = c->first; list != NULL && at != NULL; at = at->next)
        if (spsh__py_list_take(list, damage_facts(at)) != 0)
            Py_CLEAR(list);
    return list;
}

static int on_leftover(void *user, const char *name)
{
    return spsh__py_list_take((PyObject *)user, PyUnicode_DecodeFSDefault(name));
}

static PyObject *leftover_list(const verify_call *c)
{
    PyObject *list = PyList_New(0);
    if (list != NULL && c->part_number == 0)
        spsh_dataset_leftovers(c->dataset, on_leftover, list);
    if (PyErr_Occurred() != NULL)
        Py_CLEAR(list);
    return list;
}

#define FACT(kind_, name_, member_) SPSH_PY_FACT(kind_, spsh_verify_result, name_, member_)
static PyObject *make_report(const verify_call *c)
{
    static const spsh__py_fact facts[] = {
        FACT(NUMBER, "files", files),           FACT(NUMBER, "bytes", bytes),
        FACT(NUMBER, "blocks", blocks),         FACT(NUMBER, "recordings", records),
        FACT(NUMBER, "utterances", utterances), FACT(NUMBER, "damaged", damage_count),
        FACT(TRUTH, "direct", direct),          SPSH_PY_FACTS_END,
    };
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_file(dict, "dataset", c->dataset) != 0 ||
                         spsh__py_dict_truth(dict, "ok", c->result.damage_count == 0) != 0 ||
                         spsh__py_facts_put(dict, &c->result, facts) != 0 ||
                         spsh__py_dict_string(dict, "engine", c->result.engine) != 0 ||
                         spsh__py_dict_take(dict, "damage", damage_list(c)) != 0 ||
                         spsh__py_dict_take(dict, "leftovers", leftover_list(c)) != 0))
        Py_CLEAR(dict);
    return spsh__py_report(report_class, dict);
}

/* ---- the function ---- */

static PyObject *verify(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    verify_call c = {.result = SPSH_VERIFY_RESULT_INIT, .end = NULL};
    spsh_error err = SPSH_ERROR_INIT;
    PyObject *report = NULL;
    c.end = &c.first;
    if (spsh__py_arguments_parse(&function, args, given, &c.work) == 0 &&
        spsh__py_part_take(&c.work, c.part, &c.part_number, &c.part_count) == 0) {
        const spsh_status rc = spsh__py_job_run(&c.work, run, &c, &err);
        if (rc == SPSH_OK && PyErr_Occurred() == NULL)
            report = make_report(&c);
        else if (c.has_no_memory && PyErr_Occurred() == NULL)
            PyErr_NoMemory();
        else if (PyErr_Occurred() == NULL)
            spsh__py_raise(&err);
    }
    while (c.first != NULL) {
        damage *next = c.first->next;
        free(c.first);
        c.first = next;
    }
    spsh__py_arguments_clear(&c.work);
    return report;
}

static char doc[] =
    "verify($module, /, dataset, *, decode=False, cached=False, jobs=None, part=None, "
    "progress=None, log=None)\n"
    "--\n\n"
    "Check every byte of a dataset, or of a single .spsh file. Returns a VerifyReport.\n\n"
    "    report = speechshard.verify(\"corpus.spsh\")\n"
    "    for damage in report.damage:\n"
    "        print(damage.file, damage.offset, damage.id, damage.message)\n\n"
    "report.ok is true if there is no damage. Raises an exception only if the check cannot run.\n"
    "With part I/N, it checks every N-th shard, from shard I on; part 0 also checks the rest.\n"
    "The keywords are the options of `speechshard verify`. progress counts bytes, in one phase;\n"
    "help(speechshard.pack) describes part, progress, and log.\n";

static PyMethodDef methods[] = {
    {"verify", SPSH_PY_KEYWORDS(verify), METH_VARARGS | METH_KEYWORDS, doc },
    {NULL,     NULL,                     0,                            NULL},
};

int spsh__py_verify_init(PyObject *module)
{
    report_class = spsh__py_report_class(
        module, "VerifyReport",
        "Outcome of speechshard.verify. damage lists the damaged parts: file, part, offset, size,\n"
        "id, utterances (lost), message. leftovers names files that a killed command left.");
    return report_class == NULL ? -1 : PyModule_AddFunctions(module, methods);
}
