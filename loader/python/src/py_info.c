/* py_info.c: Dataset.info: the totals of the manifest, with the keys of `speechshard info --json`.
 *
 * It omits the counts for which that command reads the whole index (recordings, codecs,
 * transcripts).
 */
#include "py_binding.h"

/* dict[name] += utterances; a missing entry counts as 0. */
static int add_count(PyObject *dict, PyObject *name, uint64_t utterances)
{
    PyObject *old = PyDict_GetItemWithError(dict, name);
    if (old == NULL && PyErr_Occurred() != NULL)
        return -1;
    uint64_t sum = utterances + (old == NULL ? 0 : PyLong_AsUnsignedLongLong(old));
    PyObject *value = PyLong_FromUnsignedLongLong(sum);
    int rc = value == NULL ? -1 : PyDict_SetItem(dict, name, value);
    Py_XDECREF(value);
    return rc;
}

static int put_domain(PyObject *domains, spsh_bytes name, uint64_t utterances, double seconds)
{
    PyObject *entry = PyDict_New();
    if (entry == NULL)
        return -1;
    if (spsh__py_dict_text(entry, "name", name) == 0 &&
        spsh__py_dict_u64(entry, "utterances", utterances) == 0 &&
        spsh__py_dict_real(entry, "seconds", seconds) == 0)
        return spsh__py_list_take(domains, entry);
    Py_DECREF(entry);
    return -1;
}

static bool same_name(spsh_bytes a, spsh_bytes b)
{
    return a.size_bytes == b.size_bytes &&
           (a.size_bytes == 0 || memcmp(a.data, b.data, a.size_bytes) == 0);
}

typedef struct group_sums {
    uint64_t samples;
    double seconds;
    PyObject *domains, *splits, *rates;
} group_sums;

/* Add one group to splits and rates. The key of a missing split is the empty string. */
static int count_group(group_sums *sums, const spsh_dataset_group *group)
{
    PyObject *split = spsh__py_text(group->split);
    PyObject *rate = PyLong_FromUnsignedLong(group->sample_rate_hz);
    int rc = split == NULL || rate == NULL ? -1 : 0;
    if (rc == 0)
        rc = add_count(sums->splits, split, group->utterance_count);
    if (rc == 0)
        rc = add_count(sums->rates, rate, group->utterance_count);
    Py_XDECREF(split);
    Py_XDECREF(rate);
    sums->samples += group->samples;
    sums->seconds += (double)group->samples / group->sample_rate_hz;
    return rc;
}

/* Sum the groups of each domain. They are adjacent, because groups are sorted by domain. */
static int put_groups(const spsh_dataset *dataset, group_sums *sums)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dataset_group group, first = {.utterance_count = 0};
    uint64_t utterances = 0;
    double seconds = 0;
    uint64_t count = spsh_dataset_group_count(dataset);
    for (uint64_t i = 0; i < count; i++) {
        if (spsh_dataset_group_get(dataset, i, &group, &err) != SPSH_OK)
            return SPSH_PY_RAISE(&err);
        if (i > 0 && !same_name(first.domain, group.domain)) {
            if (put_domain(sums->domains, first.domain, utterances, seconds) != 0)
                return -1;
            utterances = 0;
            seconds = 0;
        }
        first = group;
        utterances += group.utterance_count;
        seconds += (double)group.samples / group.sample_rate_hz;
        if (count_group(sums, &group) != 0)
            return -1;
    }
    return count == 0 ? 0 : put_domain(sums->domains, first.domain, utterances, seconds);
}

static PyObject *dataset_id(const spsh_dataset_info *info)
{
    PyObject *bytes =
        PyBytes_FromStringAndSize((const char *)info->dataset_id, sizeof(info->dataset_id));
    PyObject *hex = bytes == NULL ? NULL : PyObject_CallMethod(bytes, "hex", NULL);
    Py_XDECREF(bytes);
    return hex;
}

static int put_totals(PyObject *dict, const spsh_dataset_info *info)
{
    const struct {
        const char *key;
        uint64_t value;
    } totals[] = {
        {"generation",           info->generation          },
        {"shards",               info->shard_count         },
        {"utterances",           info->utterance_count     },
        {"payloads",             info->record_count        },
        {"duplicates",           info->duplicate_count     },
        {"bytes",                info->shard_bytes         },
        {"payload_bytes",        info->payload_bytes       },
        {"unused_payload_bytes", info->unused_payload_bytes},
        {"speakers",             info->speaker_count       },
        {"source_rows",          info->source_row_count    },
        {"rejects",              info->reject_count        },
    };
    int rc = spsh__py_dict_take(dict, "dataset_id", dataset_id(info));
    for (size_t i = 0; rc == 0 && i < sizeof(totals) / sizeof(totals[0]); i++)
        rc = spsh__py_dict_u64(dict, totals[i].key, totals[i].value);
    return rc;
}

static int put_served(PyObject *dict, const spsh_dataset *dataset)
{
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t skipped = 0;
    if (spsh_dataset_skipped_positions(dataset, NULL, 0, &skipped, &err) != SPSH_OK)
        return SPSH_PY_RAISE(&err);
    const uint64_t all = spsh_dataset_info_get(dataset)->utterance_count;
    return spsh__py_dict_u64(dict, "served", all - skipped) == 0
               ? spsh__py_dict_u64(dict, "skipped", skipped)
               : -1;
}

static int add_language(PyObject *names, const spsh_dataset *dataset, uint32_t number)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_bytes name = {NULL, 0};
    if (spsh_dataset_name(dataset, SPSH_NAME_LANGUAGE, number, &name, &err) == SPSH_OK)
        return spsh__py_list_take(names, spsh__py_text(name));
    return SPSH_PY_RAISE(&err);
}

static PyObject *language_names(const spsh_dataset *dataset)
{
    PyObject *names = PyList_New(0);
    int rc = names == NULL ? -1 : 0;
    uint64_t count = spsh_dataset_name_count(dataset, SPSH_NAME_LANGUAGE);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = add_language(names, dataset, i);
    if (rc != 0)
        Py_CLEAR(names);
    return names;
}

PyObject *spsh__py_info(const spsh_dataset *dataset)
{
    PyObject *dict = PyDict_New();
    group_sums sums = {.domains = PyList_New(0), .splits = PyDict_New(), .rates = PyDict_New()};
    if (dict == NULL || sums.domains == NULL || sums.splits == NULL || sums.rates == NULL ||
        put_totals(dict, spsh_dataset_info_get(dataset)) != 0 || put_served(dict, dataset) != 0 ||
        put_groups(dataset, &sums) != 0 || spsh__py_dict_u64(dict, "samples", sums.samples) != 0 ||
        spsh__py_dict_real(dict, "seconds", sums.seconds) != 0 ||
        PyDict_SetItemString(dict, "domains", sums.domains) != 0 ||
        PyDict_SetItemString(dict, "splits", sums.splits) != 0 ||
        PyDict_SetItemString(dict, "sample_rates", sums.rates) != 0 ||
        spsh__py_dict_take(dict, "languages", language_names(dataset)) != 0)
        Py_CLEAR(dict);
    Py_XDECREF(sums.domains);
    Py_XDECREF(sums.splits);
    Py_XDECREF(sums.rates);
    return dict;
}
