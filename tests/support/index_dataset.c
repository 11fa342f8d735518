/* index_dataset.c: columns in memory, written as the packer's index writer writes them. */
#include "index_dataset.h"

#include "checksum.h"
#include "manifest.h"
#include "spsh_test.h"

enum { COLUMNS = SPSH__INDEX_COLUMN_LAST - SPSH__INDEX_COLUMN_FIRST + 1, SECTIONS = COLUMNS + 10 };

typedef struct names {
    uint64_t *ends;
    char *bytes;
    uint64_t count, size_bytes;
} names;

typedef struct by_id {
    uint64_t hash, position;
} by_id;

static const char *const words[SPSH_NAME_KINDS] = {"domain", "split", "speaker", "language",
                                                   "document"};

static void publish(const spsh__columns_file *file)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__columns_publish(spsh_io_default(), spsh_allocator_default(), file, NULL, &err) !=
        SPSH_OK)
        test_stop(__FILE__, __LINE__, err.message);
}

static void *take(uint64_t size_bytes)
{
    void *memory = calloc(1, (size_t)size_bytes + 1);
    REQUIRE(memory != NULL);
    return memory;
}

static uint32_t name_number(const index_row *row, uint32_t kind)
{
    const uint32_t numbers[SPSH_NAME_KINDS] = {row->domain, row->split, row->speaker, row->language,
                                               0};
    return numbers[kind];
}

static names make_names(const index_row *rows, uint64_t count, uint32_t kind)
{
    names n = {NULL, NULL, 0, 0};
    for (uint64_t p = 0; p < count; p++)
        if (name_number(&rows[p], kind) > n.count)
            n.count = name_number(&rows[p], kind);
    n.ends = (uint64_t *)take(8 * n.count);
    n.bytes = (char *)take(24 * n.count);
    for (uint64_t i = 0; i < n.count; i++) {
        int length = snprintf(n.bytes + n.size_bytes, 24, "%s%u", words[kind], (unsigned)i + 1);
        n.size_bytes += (uint64_t)length;
        n.ends[i] = n.size_bytes;
    }
    return n;
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

static uint64_t cell(const index_row *row, uint32_t column, uint64_t p)
{
    switch (column) {
    case SPSH__INDEX_ID_HASH: return id_hash(p);
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

static uint8_t *make_column(const index_row *rows, uint64_t count, uint32_t column)
{
    uint32_t width = spsh__index_element_bytes(column);
    uint8_t *bytes = (uint8_t *)take(width * count);
    by_id *ids = column == SPSH__INDEX_BY_ID ? (by_id *)take(count * sizeof(by_id)) : NULL;
    for (uint64_t p = 0; ids != NULL && p < count; p++)
        ids[p] = (by_id){id_hash(p), p};
    if (ids != NULL)
        qsort(ids, (size_t)count, sizeof(*ids), compare_ids);
    for (uint64_t p = 0; p < count; p++) {
        uint64_t value = ids != NULL ? ids[p].position : cell(&rows[p], column, p);
        for (uint32_t i = 0; i < width; i++)
            bytes[p * width + i] = (uint8_t)(value >> (8 * i));
    }
    free(ids);
    return bytes;
}

static void write_index(const char *path, const index_row *rows, uint64_t count,
                        const uint8_t dataset_id[16], spsh__footer *ret_footer)
{
    spsh__column columns[SECTIONS];
    names made[SPSH_NAME_KINDS];
    uint8_t *bytes[COLUMNS];
    uint32_t used = 0;
    for (uint32_t c = 0; c < COLUMNS; c++) {
        uint32_t id = SPSH__INDEX_COLUMN_FIRST + c;
        bytes[c] = make_column(rows, count, id);
        columns[used++] = (spsh__column){id, spsh__index_element_bytes(id), count, bytes[c]};
    }
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        uint32_t id = SPSH__INDEX_NAME_ENDS + 2 * kind;
        made[kind] = make_names(rows, count, kind);
        columns[used++] = (spsh__column){id, 8, made[kind].count, made[kind].ends};
        columns[used++] = (spsh__column){id + 1, 1, made[kind].size_bytes, made[kind].bytes};
    }
    spsh__header header = {.kind = SPSH__KIND_INDEX, .ordinal = 1};
    spsh__section sections[SECTIONS];
    uint8_t page[SPSH__PAGE_BYTES];
    spsh_file_writer *file = NULL;
    spsh__section_writer *writer = NULL;
    memcpy(header.dataset_id, dataset_id, 16);
    spsh__generation_file_id(dataset_id, 1, "index", header.file_id);
    spsh__header_encode(&header, page);
    for (uint32_t i = 0; i < used; i++)
        sections[i] = (spsh__section){columns[i].id, columns[i].element_bytes, columns[i].count};
    REQUIRE(spsh_file_writer_open(spsh_io_default(), path, "index-00000001.spsh", 0, NULL, &file,
                                  NULL) == SPSH_OK);
    REQUIRE(spsh_file_writer_write(file, page, sizeof(page), NULL) == SPSH_OK);
    REQUIRE(spsh__section_writer_open(file, &header, sections, used, NULL, &writer, NULL) ==
            SPSH_OK);
    for (uint32_t i = 0; i < used; i++)
        REQUIRE(spsh__section_append(writer, columns[i].id, columns[i].elements, columns[i].count,
                                     NULL) == SPSH_OK);
    REQUIRE(spsh__section_writer_finish(writer, NULL, 0, 0, count, ret_footer, NULL) == SPSH_OK);
    REQUIRE(spsh_file_writer_publish(file, SPSH_PUBLISH_NEW, NULL) == SPSH_OK);
    spsh__section_writer_free(writer);
    spsh_file_writer_free(file);
    for (uint32_t c = 0; c < COLUMNS; c++)
        free(bytes[c]);
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS; kind++) {
        free(made[kind].ends);
        free(made[kind].bytes);
    }
}

static void write_manifest(const char *path, const index_row *rows, uint64_t count,
                           const uint8_t dataset_id[16], const spsh__footer *index)
{
    static const uint64_t zeros[2];
    static const uint64_t shard_bytes = UINT64_C(1) << 30;
    names domains = make_names(rows, count, SPSH_NAME_DOMAIN);
    names splits = make_names(rows, count, SPSH_NAME_SPLIT);
    names speakers = make_names(rows, count, SPSH_NAME_SPEAKER);
    const uint64_t begins[2] = {0, count};
    const uint64_t totals[SPSH__TOTALS] = {count, count, 0, 0, 0, speakers.count, 0, count};
    const uint64_t generation = 1;
    const spsh__column columns[] = {
        {SPSH__MANIFEST_SHARD_FILE_ID,        16, 1,                  zeros             },
        {SPSH__MANIFEST_SHARD_ROOT_HASH,      16, 1,                  zeros             },
        {SPSH__MANIFEST_SHARD_BYTES,          8,  1,                  &shard_bytes      },
        {SPSH__MANIFEST_SHARD_UNIT,           4,  1,                  zeros             },
        {SPSH__MANIFEST_SHARD_NUMBER,         4,  1,                  zeros             },
        {SPSH__MANIFEST_UTTERANCE_BEGIN,      8,  2,                  begins            },
        {SPSH__MANIFEST_RECORD_BEGIN,         8,  2,                  begins            },
        {SPSH__MANIFEST_GROUP_DOMAIN,         4,  0,                  NULL              },
        {SPSH__MANIFEST_GROUP_SPLIT,          4,  0,                  NULL              },
        {SPSH__MANIFEST_GROUP_SAMPLE_RATE_HZ, 4,  0,                  NULL              },
        {SPSH__MANIFEST_GROUP_UTTERANCES,     8,  0,                  NULL              },
        {SPSH__MANIFEST_GROUP_SAMPLES,        8,  0,                  NULL              },
        {SPSH__MANIFEST_TOTALS,               8,  SPSH__TOTALS,       totals            },
        {SPSH__MANIFEST_INDEX_FILE_ID,        16, 1,                  index->file_id    },
        {SPSH__MANIFEST_INDEX_ROOT_HASH,      16, 1,                  index->root_hash  },
        {SPSH__MANIFEST_INDEX_BYTES,          8,  1,                  &index->file_bytes},
        {SPSH__MANIFEST_INDEX_GENERATION,     8,  1,                  &generation       },
        {SPSH__MANIFEST_OVERLAY_FILE_ID,      16, 0,                  NULL              },
        {SPSH__MANIFEST_OVERLAY_ROOT_HASH,    16, 0,                  NULL              },
        {SPSH__MANIFEST_OVERLAY_BYTES,        8,  0,                  NULL              },
        {SPSH__MANIFEST_OVERLAY_NAME_ENDS,    8,  0,                  NULL              },
        {SPSH__MANIFEST_OVERLAY_NAMES,        1,  0,                  NULL              },
        {SPSH__MANIFEST_OPTIONS,              1,  0,                  NULL              },
        {SPSH__MANIFEST_DOMAIN_ENDS,          8,  domains.count,      domains.ends      },
        {SPSH__MANIFEST_DOMAINS,              1,  domains.size_bytes, domains.bytes     },
        {SPSH__MANIFEST_SPLIT_ENDS,           8,  splits.count,       splits.ends       },
        {SPSH__MANIFEST_SPLITS,               1,  splits.size_bytes,  splits.bytes      },
    };
    spsh__columns_file file = {
        .directory = path,
        .name = "manifest.spsh",
        .header = {.kind = SPSH__KIND_MANIFEST, .ordinal = 1},
        .columns = columns,
        .column_count = sizeof(columns) / sizeof(columns[0]),
        .utterance_count = count,
        .mode = SPSH_PUBLISH_NEW
    };
    memcpy(file.header.dataset_id, dataset_id, 16);
    spsh__generation_file_id(dataset_id, 1, "manifest", file.header.file_id);
    publish(&file);
    free(domains.ends);
    free(domains.bytes);
    free(splits.ends);
    free(splits.bytes);
    free(speakers.ends);
    free(speakers.bytes);
}

void index_dataset_write(const char *path, const index_row *rows, uint64_t count, uint8_t tag)
{
    uint8_t dataset_id[16] = "index dataset";
    spsh__footer index;
    dataset_id[15] = tag;
    REQUIRE(mkdir(path, 0777) == 0);
    write_index(path, rows, count, dataset_id, &index);
    write_manifest(path, rows, count, dataset_id, &index);
}
