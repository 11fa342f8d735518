/* py_pack.c: speechshard.pack and merge, over pack.h. */
#include <string.h>

#include "py_work.h"
#include "speechshard/decimal.h"
#include "speechshard/nearest_word.h"
#include "speechshard/options.h"
#include "speechshard/pack.h"

enum { LAYOUTS_MAX = 64, WARNING_BYTES = 512 };

static PyObject *report_class;

typedef struct pack_call {
    spsh__py_work work;
    spsh__py_texts corpora, columns;
    const char *output, *layout, *domain, *split, *part_text;
    uint64_t rejects_max_ppm;
    uint64_t rate_hz, shard_bytes, memory_bytes, jobs;
    int codec, dedupe, order, split_from, wds_key, decoder;
    const char *plugin; /* path of FFmpeg's plug-in; NULL: search for the plug-in */
    uint64_t part, part_count, lease_s;
    bool trusts_headers, follows_links, is_strict;
    bool is_plan_only, merges_parts;
    bool is_merge; /* a call of merge, not of pack */
    spsh_pack_options options;
    spsh_pack_report *report;
    spsh__py_job *job;
    char warning[WARNING_BYTES]; /* the last warning */
} pack_call;

/* ---- arguments ---- */

/* "5%", "5", 5, or 0.5: percent, as millionths. */
static int take_percent(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                        void *place)
{
    double percent = -1;
    const char *text = NULL;
    if (!PyUnicode_Check(value)) {
        percent = PyFloat_AsDouble(value);
        if (percent == -1.0 && PyErr_Occurred() != NULL)
            return -1;
    } else if (spsh__py_take_text(keyword, value, work, (void *)&text) != 0) {
        return -1;
    } else {
        const size_t bytes = spsh_decimal_scan(text, strlen(text), &percent);
        const size_t end = bytes + strspn(text + bytes, " %");
        percent = bytes == 0 || text[end] != '\0' ? -1 : percent;
    }
    if (!(percent >= 0 && percent <= 100))
        return SPSH_PY_FAIL(PyExc_ValueError,
                            "%s must be a percentage from 0 to 100, such as 2.5 or \"2.5%%\"",
                            keyword->name);
    const uint64_t ppm = (uint64_t)(percent * 1e4 + 0.5);
    *(uint64_t *)place = ppm == 0 ? SPSH_PACK_REJECTS_NONE : ppm;
    return 0;
}

static int take_layout(const spsh__py_keyword *keyword, PyObject *value, spsh__py_work *work,
                       void *place)
{
    const char *names[LAYOUTS_MAX] = {NULL};
    const char *name = NULL;
    if (spsh__py_take_text(keyword, value, work, (void *)&name) != 0)
        return -1;
    *(const char **)place = name;
    for (size_t i = 0; i < spsh_pack_layout_count() && i + 1 < LAYOUTS_MAX; i++) {
        names[i] = spsh_pack_layout_name(i);
        if (strcmp(names[i], name) == 0)
            return 0;
    }
    const char *near = spsh_nearest_word(name, strlen(name), names);
    if (near == NULL)
        return SPSH_PY_FAIL(PyExc_ValueError,
                            "layout %R: no such layout; `speechshard pack --layout list` names all",
                            value);
    return SPSH_PY_FAIL(PyExc_ValueError, "layout %R: no such layout; did you mean \"%s\"?", value,
                        near);
}

static const spsh__py_choice codecs[] = {
    {"keep", SPSH_PACK_KEEP},
    {"flac", SPSH_PACK_FLAC},
    {"pcm",  SPSH_PACK_PCM },
    {NULL,   0             }
};
static const spsh__py_choice dedupes[] = {
    {"none",  SPSH_PACK_DEDUPE_NONE },
    {"bytes", SPSH_PACK_DEDUPE_BYTES},
    {"pcm",   SPSH_PACK_DEDUPE_PCM  },
    {NULL,    0                     }
};
static const spsh__py_choice orders[] = {
    {"hash",   0},
    {"source", 1},
    {NULL,     0}
};
static const spsh__py_choice split_froms[] = {
    {"name", 0},
    {"none", 1},
    {NULL,   0}
};
static const spsh__py_choice wds_keys[] = {
    {"first-dot", 0},
    {"last-dot",  1},
    {NULL,        0}
};

static const spsh__py_choice decoders[] = {
    {"builtin", 0},
    {"ffmpeg",  1},
    {NULL,      0}
};

#define AT(member_) offsetof(pack_call, member_)
/* clang-format off */
static const spsh__py_keyword keywords[] = {
    {"corpora",       spsh__py_take_paths, AT(corpora),         NULL,        0, 0},
    {"output",        spsh__py_take_path,  AT(output),          NULL,        0, 0},
    {"layout",        take_layout,         AT(layout),          NULL,        0, 0},
    {"codec",         spsh__py_take_word,  AT(codec),           codecs,      0, 0},
    {"dedupe",        spsh__py_take_word,  AT(dedupe),          dedupes,     0, 0},
    {"rate",          spsh__py_take_count, AT(rate_hz),         NULL,
     SPSH_PACK_RATE_HZ_MIN, SPSH_PACK_RATE_HZ_MAX},
    {"order",         spsh__py_take_word,  AT(order),           orders,      0, 0},
    {"domain",        spsh__py_take_text,  AT(domain),          NULL,        0, 0},
    {"column",        spsh__py_take_texts, AT(columns),         NULL,        0, 0},
    {"split_from",    spsh__py_take_word,  AT(split_from),      split_froms, 0, 0},
    {"split",         spsh__py_take_names, AT(split),           NULL,        0, 0},
    {"shard_size",    spsh__py_take_size,  AT(shard_bytes),     NULL,
     SPSH_PACK_SHARD_BYTES_MIN, SPSH_PACK_SHARD_BYTES_MAX},
    {"trust_headers", spsh__py_take_flag,  AT(trusts_headers),  NULL,        0, 0},
    {"wds_key",       spsh__py_take_word,  AT(wds_key),         wds_keys,    0, 0},
    {"decoder",       spsh__py_take_word,  AT(decoder),         decoders,    0, 0},
    {"follow_links",  spsh__py_take_flag,  AT(follows_links),   NULL,        0, 0},
    {"strict",        spsh__py_take_flag,  AT(is_strict),       NULL,        0, 0},
    {"max_rejects",   take_percent,        AT(rejects_max_ppm), NULL,        0, 0},
    {"part",          spsh__py_take_text,  AT(part_text),       NULL,        0, 0},
    {"plan_only",     spsh__py_take_flag,  AT(is_plan_only),    NULL,        0, 0},
    {"merge",         spsh__py_take_flag,  AT(merges_parts),    NULL,        0, 0},
    {"lease",         spsh__py_take_count, AT(lease_s),         NULL,        1, SPSH_PACK_LEASE_S_MAX},
    {"jobs",          spsh__py_take_count, AT(jobs),            NULL,        1, SPSH_PACK_THREADS_MAX},
    {"memory",        spsh__py_take_size,  AT(memory_bytes),    NULL,
     SPSH_PACK_MEMORY_BYTES_MIN, 0},
    SPSH_PY_WORK_KEYWORDS
};
/* clang-format on */

static const spsh__py_function function = {"pack", keywords, 2, 2, NULL};

/* clang-format off */
static const spsh__py_keyword merge_keywords[] = {
    {"output",        spsh__py_take_path,  AT(output),          NULL,        0, 0},
    {"memory",        spsh__py_take_size,  AT(memory_bytes),    NULL,
     SPSH_PACK_MEMORY_BYTES_MIN, 0},
    {"lease",         spsh__py_take_count, AT(lease_s),         NULL,        1, SPSH_PACK_LEASE_S_MAX},
    SPSH_PY_WORK_KEYWORDS
};
/* clang-format on */

static const spsh__py_function merge_function = {"merge", merge_keywords, 1, 1, NULL};

static void on_log(void *user, spsh_log_level level, const char *text)
{
    pack_call *c = (pack_call *)user;
    if (level == SPSH_LOG_WARNING)
        PyOS_snprintf(c->warning, sizeof(c->warning), "%s", text);
    spsh__py_job_log(c->job, level, text);
}

static int on_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    return spsh__py_job_progress(((pack_call *)user)->job, phase, done, total);
}

static void fill(pack_call *c)
{
    spsh_pack_options *o = &c->options;
    *o = (spsh_pack_options)SPSH_PACK_OPTIONS_INIT;
    o->corpora = c->corpora.items;
    o->corpus_count = c->corpora.count;
    o->output = c->output;
    o->layout_name = c->layout;
    o->domain_rule = c->domain;
    o->split_filter = c->split;
    o->column_rules = c->columns.items;
    o->column_rule_count = c->columns.count;
    o->rejects_max_ppm = c->rejects_max_ppm;
    o->shard_bytes = c->shard_bytes;
    o->memory_bytes = c->memory_bytes;
    o->threads = (uint32_t)c->jobs;
    o->rate_hz = (uint32_t)c->rate_hz;
    o->codec = (spsh_pack_codec)c->codec;
    o->dedupe = (spsh_pack_dedupe)c->dedupe;
    o->ignores_split_names = c->split_from == 1;
    o->keeps_source_order = c->order == 1;
    o->trusts_headers = c->trusts_headers;
    o->follows_links = c->follows_links;
    o->has_keys_to_last_dot = c->wds_key == 1;
    o->is_strict = c->is_strict;
    o->is_part = c->part_text != NULL;
    o->part = (uint32_t)c->part;
    o->part_count = (uint32_t)c->part_count;
    o->is_plan_only = c->is_plan_only;
    o->merges_parts = c->merges_parts;
    o->lease_s = (uint32_t)c->lease_s;
    o->log_fn = on_log;
    o->progress_fn = on_progress;
    o->user = c;
}

/* ---- the report ---- */

#define FACT(kind_, name_, member_) SPSH_PY_FACT(kind_, spsh_pack_facts, name_, member_)
static const spsh__py_fact facts_of_pack[] = {
    FACT(TRUTH, "already_packed", is_already_packed),
    FACT(TRUTH, "withheld", is_withheld),
    FACT(TRUTH, "too_many_rejects", has_too_many_rejects),
    FACT(TRUTH, "share", is_share),
    FACT(NUMBER, "units", unit_count),
    FACT(NUMBER, "units_packed", units_packed),
    FACT(NUMBER, "units_taken_over", units_taken_over),
    FACT(NUMBER, "units_left", units_left),
    FACT(NUMBER, "rows_in", rows_in),
    FACT(NUMBER, "packed", packed),
    FACT(NUMBER, "rejected", rejected),
    FACT(NUMBER, "merged", merged),
    FACT(NUMBER, "excluded", excluded),
    FACT(NUMBER, "without_text", without_text),
    FACT(NUMBER, "duplicates", duplicate_count),
    FACT(NUMBER, "shards", shard_count),
    FACT(NUMBER, "source_bytes", source_bytes),
    FACT(NUMBER, "payload_bytes", payload_bytes),
    FACT(NUMBER, "pcm_bytes", pcm_bytes),
    FACT(NUMBER, "audio_ms", audio_ms),
    FACT(NUMBER, "decoder_limit", undecodable),
    FACT(NUMBER, "unverified", unverified),
    FACT(NUMBER, "kept_as_is", kept_as_is),
    FACT(NUMBER, "resampled", resampled),
    FACT(NUMBER, "headers_trusted", headers_trusted),
    FACT(NUMBER, "segments_clamped", segments_clamped),
    FACT(REAL, "seconds", seconds),
    FACT(REAL, "min_seconds", min_seconds),
    FACT(REAL, "max_seconds", max_seconds),
    SPSH_PY_FACTS_END,
};

static PyObject *percentiles(const spsh_pack_facts *f)
{
    return Py_BuildValue("{i:d,i:d,i:d,i:d,i:d}", 1, f->percent_1_seconds, 25,
                         f->percent_25_seconds, 50, f->percent_50_seconds, 75,
                         f->percent_75_seconds, 99, f->percent_99_seconds);
}

static PyObject *source_facts(const void *report, size_t index)
{
    static const spsh__py_fact facts[] = {
        SPSH_PY_FACT(NUMBER, spsh_pack_source, "rows_in", rows_in),
        SPSH_PY_FACT(NUMBER, spsh_pack_source, "packed", packed),
        SPSH_PY_FACT(NUMBER, spsh_pack_source, "rejected", rejected),
        SPSH_PY_FACT(NUMBER, spsh_pack_source, "merged", merged),
        SPSH_PY_FACT(NUMBER, spsh_pack_source, "excluded", excluded),
        SPSH_PY_FACTS_END,
    };
    const spsh_pack_source *source = spsh_pack_report_source(report, index);
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_file(dict, "corpus", source->corpus) != 0 ||
                         spsh__py_dict_file(dict, "root", source->root) != 0 ||
                         spsh__py_dict_string(dict, "layout", source->layout) != 0 ||
                         spsh__py_facts_put(dict, source, facts) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static PyObject *reject_facts(const void *report, size_t index)
{
    const spsh_pack_reject *reject = spsh_pack_report_reject(report, index);
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_string(dict, "reason", reject->reason) != 0 ||
                         spsh__py_dict_u64(dict, "lines", reject->lines) != 0 ||
                         spsh__py_dict_u64(dict, "rows", reject->rows) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static PyObject *part_facts(const spsh_pack_part *part)
{
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_text(dict, "name", part->name) != 0 ||
                         spsh__py_dict_u64(dict, "utterances", part->utterances) != 0 ||
                         spsh__py_dict_real(dict, "seconds", part->seconds) != 0 ||
                         spsh__py_dict_u64(dict, "copies", part->copies) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static PyObject *domain_facts(const void *report, size_t index)
{
    return part_facts(spsh_pack_report_domain(report, index));
}

static PyObject *split_facts(const void *report, size_t index)
{
    return part_facts(spsh_pack_report_split(report, index));
}

static PyObject *kind_facts(const void *report, size_t index)
{
    const spsh_pack_kind *kind = spsh_pack_report_kind(report, index);
    const char *codec = kind->sample_rate_hz == 0 ? NULL : spsh_codec_name(kind->codec);
    PyObject *dict = PyDict_New();
    if (dict != NULL && (spsh__py_dict_string(dict, "codec", codec) != 0 ||
                         spsh__py_dict_u64(dict, "sample_rate_hz", kind->sample_rate_hz) != 0 ||
                         spsh__py_dict_u64(dict, "channels", kind->channels) != 0 ||
                         spsh__py_dict_u64(dict, "utterances", kind->utterances) != 0 ||
                         spsh__py_dict_real(dict, "seconds", kind->seconds) != 0))
        Py_CLEAR(dict);
    return spsh__py_facts(dict);
}

static PyObject *warning_text(const void *report, size_t index)
{
    const char *text = spsh_pack_report_warning(report, index);
    return spsh__py_text((spsh_bytes){(const uint8_t *)text, strlen(text)});
}

static int put_lists(PyObject *dict, const spsh_pack_report *report)
{
    const spsh_pack_facts *f = spsh_pack_report_facts(report);
    const struct {
        const char *name;
        size_t count;
        spsh__py_element_fn *element_fn;
    } lists[] = {
        {"sources",  f->source_count,  source_facts},
        {"rejects",  f->reject_count,  reject_facts},
        {"domains",  f->domain_count,  domain_facts},
        {"splits",   f->split_count,   split_facts },
        {"audio",    f->kind_count,    kind_facts  },
        {"warnings", f->warning_count, warning_text},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        if (spsh__py_dict_take(dict, lists[i].name,
                               spsh__py_facts_list(report, lists[i].count, lists[i].element_fn)) !=
            0)
            return -1;
    return 0;
}

static PyObject *make_report(const pack_call *c)
{
    const spsh_pack_facts *f = spsh_pack_report_facts(c->report);
    PyObject *dict = PyDict_New();
    if (dict != NULL &&
        (spsh__py_dict_file(dict, "output", c->output) != 0 ||
         spsh__py_dict_hex(dict, "dataset_id", f->dataset_id, sizeof(f->dataset_id)) != 0 ||
         spsh__py_dict_truth(dict, "ok", !f->is_withheld && !f->has_too_many_rejects) != 0 ||
         spsh__py_facts_put(dict, f, facts_of_pack) != 0 ||
         spsh__py_dict_take(dict, "percentiles", percentiles(f)) != 0 ||
         put_lists(dict, c->report) != 0))
        Py_CLEAR(dict);
    return spsh__py_report(report_class, dict);
}

/* ---- the function ---- */

static spsh_status run(void *call, spsh__py_job *job, spsh_error *err)
{
    pack_call *c = (pack_call *)call;
    spsh_ffmpeg *ffmpeg = NULL;
    spsh_status rc = SPSH_OK;
    c->job = job;
    if (c->decoder == 1)
        rc = spsh_ffmpeg_open(c->plugin, &ffmpeg, err);
    c->options.ffmpeg = ffmpeg;
    if (rc == SPSH_OK)
        rc = c->is_merge ? spsh_pack_merge(&c->options, &c->report, err)
                         : spsh_pack(&c->options, &c->report, err);
    spsh_ffmpeg_close(ffmpeg);
    return rc;
}

/* Replace names of spsh_pack_options in an error by the keywords. */
static void rename_options(spsh_error *err)
{
    static const spsh_option_name names[] = {
        {"column_rules",          "column"         },
        {"domain_rule",           "domain"         },
        {"follows_links",         "follow_links"   },
        {"has_keys_to_last_dot",  "wds_key"        },
        {"ignores_split_names",   "split_from"     },
        {"is_part",               "part"           },
        {"is_plan_only",          "plan_only"      },
        {"is_strict",             "strict"         },
        {"keeps_source_order",    "order"          },
        {"layout_name",           "layout"         },
        {"lease_s",               "lease"          },
        {"merges_parts",          "merge"          },
        {"memory_bytes",          "memory"         },
        {"rate_hz",               "rate"           },
        {"rejects_max_ppm",       "max_rejects"    },
        {"shard_bytes",           "shard_size"     },
        {"split_filter",          "split"          },
        {"threads",               "jobs"           },
        {"trusts_headers",        "trust_headers"  },
        {"SPSH_PACK_KEEP",        "codec=\"keep\"" },
        {"SPSH_PACK_REJECTS_ALL", "max_rejects=100"},
    };
    spsh_options_rename(err, names, sizeof(names) / sizeof(names[0]));
}

/* The error about damaged archives does not name them, but the warning before the error does. */
static void fail(const pack_call *c, spsh_error *err)
{
    PyObject *advice = NULL;
    if (err->status == SPSH_E_TRUNCATED && c->warning[0] != '\0') {
        advice = PyUnicode_DecodeUTF8(c->warning, (Py_ssize_t)strlen(c->warning), "replace");
        if (advice == NULL)
            return;
    }
    rename_options(err);
    spsh__py_raise_advice(err, advice);
    Py_XDECREF(advice);
}

static int find_plugin(pack_call *c)
{
    PyObject *path = spsh__py_environment_path("SPEECHSHARD_FFMPEG_PLUGIN");
    if (path == NULL)
        return -1;
    if (path == Py_None) {
        Py_DECREF(path);
        return 0;
    }
    c->plugin = spsh__py_keep(c->work.kept, path);
    return c->plugin == NULL ? -1 : 0;
}

static PyObject *call(bool is_merge, PyObject *args, PyObject *given)
{
    pack_call c = {.is_merge = is_merge};
    spsh_error err = SPSH_ERROR_INIT;
    PyObject *report = NULL;
    if (spsh__py_arguments_parse(is_merge ? &merge_function : &function, args, given, &c.work) ==
            0 &&
        spsh__py_part_take(&c.work, c.part_text, &c.part, &c.part_count) == 0) {
        fill(&c);
        if (find_plugin(&c) != 0)
            goto out;
        const spsh_status rc = spsh__py_job_run(&c.work, run, &c, &err);
        if (rc == SPSH_OK && PyErr_Occurred() == NULL)
            report = make_report(&c);
        else if (PyErr_Occurred() == NULL)
            fail(&c, &err);
        spsh_pack_report_free(c.report);
    }
out:
    spsh__py_arguments_clear(&c.work);
    return report;
}

static PyObject *pack(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    return call(false, args, given);
}

static PyObject *merge(PyObject *module, PyObject *args, PyObject *given)
{
    (void)module;
    return call(true, args, given);
}

static char merge_doc[] =
    "merge($module, /, output, *, memory=\"256M\", lease=60, progress=None, log=None)\n"
    "--\n\n"
    "Publish a dataset that was packed in parts. Returns a PackReport.\n\n"
    "    for part in range(16):                      # on many machines, at the same time\n"
    "        speechshard.pack(corpus, output, part=f\"{part}/16\")\n"
    "    speechshard.merge(output)\n\n"
    "Raises NotFoundError, which names units, if not all units are packed. A dataset that is\n"
    "published already is left as it is. The bytes are those of one pack without parts.\n"
    "help(speechshard.pack) describes progress and log.\n";

static char doc[] =
    "pack($module, /, corpora, output, *, layout=None, codec=None, dedupe=None, rate=None, "
    "order=\"hash\", domain=None, column=None, split_from=\"name\", split=None, "
    "shard_size=\"1G\", trust_headers=False, wds_key=\"first-dot\", "
    "decoder=\"builtin\", follow_links=False, strict=False, max_rejects=None, part=None, "
    "plan_only=False, merge=False, lease=60, jobs=None, "
    "memory=\"256M\", progress=None, log=None)\n"
    "--\n\n"
    "Pack speech corpora into a dataset of checksummed shards. Returns a PackReport.\n\n"
    "    report = speechshard.pack(\"LibriSpeech\", \"libri.spsh\", codec=\"pcm\", jobs=2)\n"
    "    print(report.packed, report.seconds, report.rejects)\n\n"
    "corpora is a folder, an archive, a manifest, or a list of them. The keywords are the options\n"
    "of `speechshard pack`; `speechshard pack --help` describes them. Sizes are bytes, or text\n"
    "such as \"512M\". split and column take one str or a list. max_rejects is a percentage.\n\n"
    "The same input and options produce the same bytes as the command. A pack that was stopped\n"
    "resumes when the same call, or the same command, is repeated.\n\n"
    "part=\"3/16\" packs the fourth share of 16, and units of machines that are lost; merge()\n"
    "publishes the dataset after all parts. report.share is true if nothing was published.\n"
    "\"auto\" takes the part from a job array or from mpirun, and \"auto/16\" only its number.\n\n"
    "report.ok is false if strict=True withheld the dataset, or if more rows were rejected than\n"
    "max_rejects allows. The command exits with 1 then. report.rejects has the reasons.\n\n"
    "  progress  f(phase, done, total), called on this thread at most 20 times per second, and at\n"
    "            the end of each phase; total is 0 if it is unknown. An exception in f stops the\n"
    "            pack, as Ctrl-C does. True: a bar of tqdm, which must be installed\n"
    "  log       log(level, text), with the levels of the module logging; default: its logger\n"
    "            \"speechshard\"\n";

static PyMethodDef methods[] = {
    {"pack",  SPSH_PY_KEYWORDS(pack),  METH_VARARGS | METH_KEYWORDS, doc      },
    {"merge", SPSH_PY_KEYWORDS(merge), METH_VARARGS | METH_KEYWORDS, merge_doc},
    {NULL,    NULL,                    0,                            NULL     },
};

int spsh__py_pack_init(PyObject *module)
{
    report_class =
        spsh__py_report_class(module, "PackReport",
                              "Outcome of speechshard.pack. Each row of the corpora counts once:\n"
                              "rows_in == packed + rejected + merged + excluded.");
    return report_class == NULL ? -1 : PyModule_AddFunctions(module, methods);
}
