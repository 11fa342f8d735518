/* index_dataset.c: rows in memory become the index's cells. */
#include "index_dataset.h"

#include "base/checksum.h"
#include "dataset/manifest.h"
#include "index_files.h"
#include "spsh_test.h"

typedef struct by_id {
    uint64_t hash, position;
} by_id;

typedef struct table {
    const index_row *rows;
    by_id *by_id; /* sorted */
} table;

static const char *const words[SPSH_NAME_KINDS] = {"domain", "split", "speaker", "language",
                                                   "document"};

static uint32_t name_number(const index_row *row, uint32_t kind)
{
    const uint32_t numbers[SPSH_NAME_KINDS] = {row->domain, row->split, row->speaker, row->language,
                                               0};
    return numbers[kind];
}

static index_names make_names(const index_row *rows, uint64_t count, uint32_t kind)
{
    uint32_t most = 0;
    for (uint64_t p = 0; p < count; p++)
        if (name_number(&rows[p], kind) > most)
            most = name_number(&rows[p], kind);
    index_names names = index_names_make(words[kind], 1, most);
    REQUIRE(names.bytes != NULL);
    return names;
}

static uint64_t id_hash(uint64_t position)
{
    char id[24];
    int length = snprintf(id, sizeof(id), "u%" PRIu64, position);
    return spsh__hash64(id, (size_t)length);
}

static int compare_ids(const void *a, const void *b)
{
    const by_id *x = (const by_id *)a;
    const by_id *y = (const by_id *)b;
    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : (x->position > y->position ? 1 : -1);
}

static uint64_t cell(const void *user, uint32_t column, uint64_t p)
{
    const table *t = (const table *)user;
    const index_row *row = &t->rows[p];
    switch (column) {
    case SPSH__INDEX_ID_HASH: return id_hash(p);
    case SPSH__INDEX_BY_ID: return t->by_id[p].position;
    case SPSH__INDEX_PAYLOAD_RECORD: return p;
    case SPSH__INDEX_RECORD_OFFSET: return 4096 + p * 4096;
    case SPSH__INDEX_RECORD_BYTES: return 4096;
    case SPSH__INDEX_SAMPLES: return row->samples;
    case SPSH__INDEX_SAMPLE_RATE_HZ: return row->sample_rate_hz == 0 ? 16000 : row->sample_rate_hz;
    case SPSH__INDEX_CHANNELS: return row->channels == 0 ? 1 : row->channels;
    case SPSH__INDEX_CODEC: return SPSH_CODEC_PCM;
    case SPSH__INDEX_FLAGS:
        return SPSH_UTTERANCE_HAS_TEXT | (row->copy_of == 0 ? 0 : SPSH_UTTERANCE_DUPLICATE);
    case SPSH__INDEX_DUPLICATE_OF: return row->copy_of - 1;
    case SPSH__INDEX_TEXT_BYTES: return row->text_bytes;
    default: break;
    }
    if (column >= SPSH__INDEX_DOMAIN)
        return name_number(row, column - SPSH__INDEX_DOMAIN) - UINT32_C(1);
    return 0;
}

void index_dataset_write(const char *path, const index_row *rows, uint64_t count, uint8_t tag)
{
    uint8_t dataset_id[16] = "index dataset";
    table t = {rows, (by_id *)calloc((size_t)count + 1, sizeof(by_id))};
    index_files files = {.path = path,
                         .dataset_id = dataset_id,
                         .utterance_count = count,
                         .shard_count = 1,
                         .shard_bytes = UINT64_C(1) << 30,
                         .cell_fn = cell,
                         .user = &t};
    spsh_error err = SPSH_ERROR_INIT;
    dataset_id[15] = tag;
    REQUIRE(t.by_id != NULL && mkdir(path, 0777) == 0);
    for (uint64_t p = 0; p < count; p++)
        t.by_id[p] = (by_id){id_hash(p), p};
    qsort(t.by_id, (size_t)count, sizeof(*t.by_id), compare_ids);
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++)
        files.names[kind] = make_names(rows, count, kind);
    if (index_files_write(&files, &err) != SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++)
        index_names_free(&files.names[kind]);
    free(t.by_id);
}
