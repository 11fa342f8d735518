/* py_store.c: an open dataset and its idle readers, shared by all holders.
 *
 * A reader serves one thread at a time. A thread takes an idle reader, or opens another one. So the
 * number of readers is the maximum number of threads that read at once, usually one.
 */
#include "py_binding.h"

static void store_free(spsh__py_store *store)
{
    for (int i = 0; i < store->reader_count; i++)
        spsh_reader_close(store->readers[i]);
    spsh_dataset_close(store->dataset);
    free(store);
}

spsh__py_store *spsh__py_store_open(const char *path)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh__py_store *store = (spsh__py_store *)calloc(1, sizeof(*store));
    if (store == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    store->holders = 1;
    Py_BEGIN_ALLOW_THREADS;
    rc = spsh_dataset_open(path, NULL, &store->dataset, &err);
    Py_END_ALLOW_THREADS;
    if (rc == SPSH_OK)
        return store;
    free(store);
    spsh__py_raise(&err);
    return NULL;
}

spsh__py_store *spsh__py_store_hold(spsh__py_store *store)
{
    store->holders++;
    return store;
}

void spsh__py_store_drop(spsh__py_store *store)
{
    if (store != NULL && --store->holders == 0)
        store_free(store);
}

spsh_reader *spsh__py_reader_take(spsh__py_store *store)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_reader *reader = NULL;
    if (store->reader_count > 0)
        return store->readers[--store->reader_count];
    if (spsh_reader_open(store->dataset, &reader, &err) != SPSH_OK)
        spsh__py_raise(&err);
    return reader;
}

void spsh__py_reader_give(spsh__py_store *store, spsh_reader *reader)
{
    if (store->reader_count < SPSH_PY_READERS_IDLE_MAX)
        store->readers[store->reader_count++] = reader;
    else
        spsh_reader_close(reader);
}
