/* make_prints.c: artificial fingerprints of a packed dataset, with as many keys as hours of speech
 * have, for tests of the memory of a join.
 *
 *     make_prints DATASET KEYS CHUNKS SEED
 *
 * Every utterance gets a print of KEYS keys, one per frame, and CHUNKS chunks. All of them are
 * random, so no two agree. Every sixteenth utterance has the digests of the previous one: a copy
 * that is found without comparing audio.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "segment/segment.h"

enum { LEVEL = 100, COPY_EVERY = 16 };

typedef struct maker {
    spsh_dataset *dataset;
    spsh_reader *reader;
    spsh__segment_writer *writer;
    spsh__print print;
    spsh__chunk *chunks;
    size_t chunk_count;
    uint64_t state;
    uint8_t digest[16]; /* digest of the previous utterance */
} maker;

static uint64_t next_random(maker *m)
{
    m->state = m->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return m->state >> 16; /* 48 bits */
}

static void fill(maker *m, uint64_t samples)
{
    const uint32_t chunk = (uint32_t)(samples / (m->chunk_count + 1));
    for (size_t i = 0; i < m->print.frame_count; i++)
        m->print.frames[i] = (spsh__print_frame){(uint32_t)next_random(m), LEVEL, true};
    for (size_t i = 0; i < m->print.key_count; i++)
        m->print.keys[i] = (spsh__print_key){
            next_random(m), i, {(uint8_t)(i % 48), (uint8_t)(i * 7 % 47), (uint8_t)(i * 5 % 43)}
        };
    for (size_t i = 0; i < m->chunk_count; i++)
        m->chunks[i] =
            (spsh__chunk){next_random(m) << 16 | next_random(m) % 65536, i * chunk, chunk};
}

static spsh_status add_row(maker *m, uint64_t position, spsh_error *err)
{
    static const uint32_t mix = 0;
    spsh_utterance utterance;
    spsh_row row;
    spsh_status rc = spsh_dataset_rows(m->dataset, position, 1, &row, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(m->reader, position, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    fill(m, row.samples);
    spsh__segment_entry entry = {
        .row = {.flags = SPSH__ROW_DECODED | SPSH__ROW_LOSSLESS,
                .sample_rate_hz = row.sample_rate_hz,
                .channels = row.channels,
                .samples = row.samples,
                .trim_count = row.samples,
                .bandwidth_hz = 7875,
                .payload_bps = 256000,
                .active_ms = (uint32_t)m->print.frame_count * 16},
        .prints = &m->print,
        .channels = &mix,
        .print_count = 1,
        .chunks = m->chunks,
        .chunk_count = m->chunk_count,
    };
    if (position % COPY_EVERY != 1)
        for (size_t i = 0; i < sizeof(m->digest); i++)
            m->digest[i] = (uint8_t)next_random(m);
    spsh__pack_hash128(utterance.id, entry.row.id_key);
    memcpy(entry.row.pcm_full, m->digest, sizeof(m->digest));
    memcpy(entry.row.pcm_trim, m->digest, sizeof(m->digest));
    memcpy(entry.row.pcm_mono, m->digest, sizeof(m->digest));
    return spsh__segment_writer_add(m->writer, &entry, err);
}

static spsh_status make_all(maker *m, spsh_error *err)
{
    uint64_t position = 0;
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; rc == SPSH_OK && n < spsh_dataset_info_get(m->dataset)->shard_count; n++) {
        spsh_shard_seal seal;
        rc = spsh_dataset_shard(m->dataset, n, &seal, err);
        if (rc == SPSH_OK)
            rc = spsh__segment_writer_reset(m->writer, err);
        for (uint64_t i = 0; rc == SPSH_OK && i < seal.utterance_count; i++)
            rc = add_row(m, position++, err);
        if (rc == SPSH_OK)
            rc = spsh__segment_writer_publish(m->writer, m->dataset, &seal, NULL, err);
    }
    return rc;
}

static spsh_status open_all(maker *m, const char *path, spsh_error *err)
{
    const size_t keys = m->print.key_count;
    m->print.frame_count = keys;
    m->print.frames = calloc(keys + 1, sizeof(*m->print.frames));
    m->print.keys = calloc(keys + 1, sizeof(*m->print.keys));
    m->chunks = calloc(m->chunk_count + 1, sizeof(*m->chunks));
    if (m->print.frames == NULL || m->print.keys == NULL || m->chunks == NULL)
        return SPSH_E_NO_MEMORY;
    spsh_status rc = spsh_dataset_open(path, NULL, &m->dataset, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_open(m->dataset, &m->reader, err);
    return rc == SPSH_OK ? spsh__segment_writer_open(&m->writer, err) : rc;
}

int main(int argc, char **argv)
{
    maker m = {0};
    spsh_error err = SPSH_ERROR_INIT;
    if (argc != 5) {
        fprintf(stderr, "usage: make_prints DATASET KEYS CHUNKS SEED\n");
        return 2;
    }
    m.print.key_count = strtoul(argv[2], NULL, 10);
    m.chunk_count = strtoul(argv[3], NULL, 10);
    m.state = strtoul(argv[4], NULL, 10);
    spsh_status rc = open_all(&m, argv[1], &err);
    if (rc == SPSH_OK)
        rc = make_all(&m, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "make_prints: %s\n", err.message);
    spsh__segment_writer_free(m.writer);
    spsh_reader_close(m.reader);
    spsh_dataset_close(m.dataset);
    spsh__print_free(&m.print);
    free(m.chunks);
    return rc == SPSH_OK ? 0 : 1;
}
