/* unit_segment.c: a segment returns its contents; every changed byte, every cut, and every invalid
 * value is reported with the file's name. */
#include "segment/fingerprint_run.h"
#include "segment/segment.h"
#include "segment/segment_columns.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

enum {
    ROWS = 4, /* rows of the tiny dataset's first shard */
    PRINTS_MAX = 3,
    FRAMES_MAX = 900,
    KEYS_MAX = 60,
    CHUNKS_MAX = 9,
};

static char folder[256];
static char segment_path[400];
static tiny_dataset tiny;
static spsh_dataset *dataset;
static spsh_shard_seal seals[2];

/* An entry with the memory that it points to. */
typedef struct made_entry {
    spsh__segment_entry entry;
    spsh__print prints[PRINTS_MAX];
    uint32_t channels[PRINTS_MAX];
    spsh__print_frame frames[PRINTS_MAX][FRAMES_MAX];
    spsh__print_key keys[PRINTS_MAX][KEYS_MAX];
    spsh__chunk chunks[CHUNKS_MAX];
} made_entry;

static made_entry entries[ROWS];

static void fill_hash(uint8_t hash[16], uint64_t *seed)
{
    for (size_t i = 0; i < 16; i++)
        hash[i] = (uint8_t)test_random(seed);
}

static void make_print(made_entry *made, size_t n, uint64_t *seed)
{
    const size_t frames = n == 1 ? 0 : FRAMES_MAX - (size_t)(test_random(seed) % 100);
    const size_t keys = n == 1 ? 0 : KEYS_MAX - (size_t)(test_random(seed) % 10);
    for (size_t i = 0; i < frames; i++)
        made->frames[n][i] = (spsh__print_frame){.word = (uint32_t)test_random(seed),
                                                 .level = (uint8_t)(test_random(seed) % 128),
                                                 .is_active = test_random(seed) % 2 == 0};
    for (size_t i = 0; i < keys; i++)
        made->keys[n][i] = (spsh__print_key){
            .bits = test_random(seed) >> 16,
            .frame = i * 5 + 4,
            .weak = {(uint8_t)(test_random(seed) % 48), 47, 0}
        };
    made->prints[n] = (spsh__print){
        .frames = made->frames[n], .frame_count = frames, .keys = made->keys[n], .key_count = keys};
    made->channels[n] = (uint32_t)n;
}

/* Rows with 1, 0, 3 and 1 prints; the second is an alias. */
static void make_entries(void)
{
    static const size_t print_counts[ROWS] = {1, 0, 3, 1};
    uint64_t seed = 7;
    for (size_t r = 0; r < ROWS; r++) {
        made_entry *made = &entries[r];
        spsh__segment_row *row = &made->entry.row;
        memset(made, 0, sizeof(*made));
        fill_hash(row->id_key, &seed);
        row->flags = r == 1 ? SPSH__ROW_ALIAS : SPSH__ROW_DECODED | SPSH__ROW_WHOLE;
        for (size_t n = 0; n < print_counts[r]; n++)
            make_print(made, n, &seed);
        made->entry.prints = made->prints;
        made->entry.channels = made->channels;
        made->entry.print_count = print_counts[r];
        made->entry.chunks = made->chunks;
        if (r == 1)
            continue;
        row->sample_rate_hz = 16000;
        row->channels = 1 + (uint32_t)r;
        row->samples = 1000000 + r;
        fill_hash(row->payload_hash, &seed);
        fill_hash(row->pcm_full, &seed);
        fill_hash(row->pcm_trim, &seed);
        fill_hash(row->pcm_mono, &seed);
        row->trim_first = 5;
        row->trim_count = row->samples - 5;
        row->bandwidth_hz = 7875;
        row->clipped_count = 12;
        row->payload_bps = 128000;
        row->active_ms = 100 * 16;
        made->entry.chunk_count = CHUNKS_MAX - r;
        for (size_t i = 0; i < made->entry.chunk_count; i++)
            made->chunks[i] = (spsh__chunk){test_random(&seed), i * 5000, 4000 + (uint32_t)i};
    }
}

static void publish(const spsh_shard_seal *seal, const spsh_io *io)
{
    spsh__segment_writer *writer = NULL;
    REQUIRE(spsh__segment_writer_open(&writer, NULL) == SPSH_OK);
    for (size_t r = 0; r < ROWS; r++)
        REQUIRE(spsh__segment_writer_add(writer, &entries[r].entry, NULL) == SPSH_OK);
    REQUIRE(spsh__segment_writer_publish(writer, dataset, seal, io, NULL) == SPSH_OK);
    spsh__segment_writer_free(writer);
}

static spsh__segment *open_segment(void)
{
    spsh__segment *segment = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc = spsh__segment_open(dataset, &seals[0], NULL, &segment, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
    return segment;
}

/* ---- reading what was written ---- */

static void check_print(const spsh__segment *segment, uint64_t number, size_t row, size_t n)
{
    const spsh__print *want = &entries[row].prints[n];
    spsh__segment_print print;
    spsh__print_frame frames[FRAMES_MAX];
    spsh__print_key keys[KEYS_MAX];
    REQUIRE(spsh__segment_print_get(segment, number, &print, NULL) == SPSH_OK);
    CHECK_U64(print.row, row);
    CHECK_U64(print.channel, n);
    CHECK_U64(print.frame_count, want->frame_count);
    CHECK_U64(print.key_count, want->key_count);
    REQUIRE(print.frame_count <= FRAMES_MAX && print.key_count <= KEYS_MAX);
    CHECK_I64(spsh__segment_frames(segment, print.first_frame, print.frame_count, frames, NULL),
              SPSH_OK);
    CHECK_I64(spsh__segment_keys(segment, print.first_key, print.key_count, keys, NULL), SPSH_OK);
    bool same = true;
    for (size_t i = 0; i < want->frame_count; i++)
        same = same && frames[i].word == want->frames[i].word &&
               frames[i].level == want->frames[i].level &&
               frames[i].is_active == want->frames[i].is_active;
    for (size_t i = 0; i < want->key_count; i++)
        same = same && keys[i].bits == want->keys[i].bits && keys[i].frame == want->keys[i].frame &&
               memcmp(keys[i].weak, want->keys[i].weak, sizeof(keys[i].weak)) == 0;
    CHECK(same);
}

static void check_row(const spsh__segment *segment, size_t r, uint64_t *print, uint64_t *chunk)
{
    spsh__segment_row want = entries[r].entry.row;
    spsh__segment_row row;
    spsh__chunk chunks[CHUNKS_MAX];
    want.first_print = *print;
    want.print_count = entries[r].entry.print_count;
    want.first_chunk = *chunk;
    want.chunk_count = entries[r].entry.chunk_count;
    memset(&row, 0, sizeof(row));
    REQUIRE(spsh__segment_row_get(segment, r, &row, NULL) == SPSH_OK);
    CHECK(memcmp(row.id_key, want.id_key, 16) == 0);
    CHECK(memcmp(row.payload_hash, want.payload_hash, 16) == 0);
    CHECK(memcmp(row.pcm_full, want.pcm_full, 16) == 0);
    CHECK(memcmp(row.pcm_trim, want.pcm_trim, 16) == 0);
    CHECK(memcmp(row.pcm_mono, want.pcm_mono, 16) == 0);
    CHECK_U64(row.flags, want.flags);
    CHECK_U64(row.sample_rate_hz, want.sample_rate_hz);
    CHECK_U64(row.channels, want.channels);
    CHECK_U64(row.samples, want.samples);
    CHECK_U64(row.trim_first, want.trim_first);
    CHECK_U64(row.trim_count, want.trim_count);
    CHECK_U64(row.first_print, want.first_print);
    CHECK_U64(row.print_count, want.print_count);
    CHECK_U64(row.first_chunk, want.first_chunk);
    CHECK_U64(row.chunk_count, want.chunk_count);
    CHECK_U64(row.bandwidth_hz, want.bandwidth_hz);
    CHECK_U64(row.clipped_count, want.clipped_count);
    CHECK_U64(row.payload_bps, want.payload_bps);
    CHECK_U64(row.active_ms, want.active_ms);
    CHECK_I64(spsh__segment_chunks(segment, row.first_chunk, row.chunk_count, chunks, NULL),
              SPSH_OK);
    for (size_t i = 0; i < want.chunk_count; i++)
        CHECK(chunks[i].hash == entries[r].chunks[i].hash &&
              chunks[i].first_sample == entries[r].chunks[i].first_sample &&
              chunks[i].samples == entries[r].chunks[i].samples);
    for (size_t n = 0; n < want.print_count; n++)
        check_print(segment, *print + n, r, n);
    *print += want.print_count;
    *chunk += want.chunk_count;
}

static void test_what_goes_in_comes_out(void)
{
    uint64_t print = 0;
    uint64_t chunk = 0;
    uint64_t aliases = 0;
    spsh__print_key keys[4 * KEYS_MAX];
    publish(&seals[0], NULL);
    spsh__segment *segment = open_segment();
    CHECK_U64(spsh__segment_counts_get(segment)->rows, ROWS);
    for (size_t r = 0; r < ROWS; r++)
        check_row(segment, r, &print, &chunk);
    CHECK_U64(spsh__segment_counts_get(segment)->prints, print);
    CHECK_U64(spsh__segment_counts_get(segment)->chunks, chunk);
    CHECK_I64(spsh__segment_flag_count(segment, SPSH__ROW_ALIAS, &aliases, NULL), SPSH_OK);
    CHECK_U64(aliases, 1);
    CHECK_I64(spsh__segment_check(segment, NULL), SPSH_OK);
    /* Keys of several prints at once, from the middle of one on. */
    const uint64_t count = spsh__segment_counts_get(segment)->keys;
    REQUIRE(count > 7 && count <= sizeof(keys) / sizeof(keys[0]));
    CHECK_I64(spsh__segment_keys(segment, 7, count - 7, keys, NULL), SPSH_OK);
    CHECK(keys[0].bits == entries[0].keys[0][7].bits);
    CHECK(keys[count - 8].bits == entries[3].keys[0][entries[3].prints[0].key_count - 1].bits);
    spsh__segment_close(segment);
}

static void test_ranges_are_bounded(void)
{
    spsh__segment *segment = open_segment();
    spsh__segment_row row;
    spsh__segment_print print;
    spsh__print_key key;
    spsh__print_frame frame;
    spsh__chunk chunk;
    const uint64_t keys = spsh__segment_counts_get(segment)->keys;
    CHECK_I64(spsh__segment_row_get(segment, ROWS, &row, NULL), SPSH_E_CORRUPT);
    CHECK_I64(spsh__segment_row_get(segment, UINT64_MAX, &row, NULL), SPSH_E_CORRUPT);
    CHECK_I64(
        spsh__segment_print_get(segment, spsh__segment_counts_get(segment)->prints, &print, NULL),
        SPSH_E_CORRUPT);
    CHECK_I64(spsh__segment_keys(segment, keys, 1, &key, NULL), SPSH_E_CORRUPT);
    CHECK_I64(spsh__segment_keys(segment, keys, 0, &key, NULL), SPSH_OK);
    CHECK_I64(spsh__segment_keys(segment, 1, UINT64_MAX, &key, NULL), SPSH_E_CORRUPT);
    CHECK_I64(spsh__segment_frames(segment, UINT64_MAX, 2, &frame, NULL), SPSH_E_CORRUPT);
    CHECK_I64(
        spsh__segment_chunks(segment, spsh__segment_counts_get(segment)->chunks, 1, &chunk, NULL),
        SPSH_E_CORRUPT);
    spsh__segment_close(segment);
}

static void load(uint8_t **ret_data, size_t *ret_size)
{
    REQUIRE(spsh_io_read_file(spsh_io_default(), segment_path, SIZE_MAX, NULL, ret_data, ret_size,
                              NULL) == SPSH_OK);
}

static void store(const uint8_t *data, size_t size)
{
    FILE *file = fopen(segment_path, "wb");
    REQUIRE(file != NULL);
    REQUIRE(fwrite(data, 1, size, file) == size);
    REQUIRE(fclose(file) == 0);
}

/* Joined pieces have the bytes that one writer makes, which are the same on every machine. */
static void test_pieces_make_the_same_bytes(void)
{
    static const uint8_t golden[16] = {0x0d, 0xe0, 0x54, 0x90, 0x0f, 0x1e, 0x1c, 0xce,
                                       0xf9, 0xc9, 0xa3, 0x37, 0x3d, 0x65, 0x9c, 0xa2};
    spsh__segment_writer *whole = NULL;
    spsh__segment_writer *piece = NULL;
    uint8_t *first = NULL;
    uint8_t *second = NULL;
    uint8_t root[16];
    size_t first_size = 0;
    size_t second_size = 0;
    load(&first, &first_size);
    REQUIRE(spsh__segment_writer_open(&whole, NULL) == SPSH_OK);
    REQUIRE(spsh__segment_writer_open(&piece, NULL) == SPSH_OK);
    for (size_t r = 0; r < ROWS; r += 2) {
        REQUIRE(spsh__segment_writer_reset(piece, NULL) == SPSH_OK);
        CHECK_I64(spsh__segment_writer_add(piece, &entries[r].entry, NULL), SPSH_OK);
        CHECK_I64(spsh__segment_writer_add(piece, &entries[r + 1].entry, NULL), SPSH_OK);
        CHECK_I64(spsh__segment_writer_append(whole, piece, NULL), SPSH_OK);
    }
    CHECK_I64(spsh__segment_writer_publish(whole, dataset, &seals[0], NULL, NULL), SPSH_OK);
    load(&second, &second_size);
    CHECK(first_size == second_size && memcmp(first, second, first_size) == 0);
    spsh__segment *segment = open_segment();
    spsh__segment_root_hash(segment, root);
    spsh__segment_close(segment);
    if (memcmp(root, golden, 16) != 0) {
        test_fail(__FILE__, __LINE__, "the bytes of a segment have changed: a new version?");
        for (size_t i = 0; i < 16; i++)
            fprintf(stderr, "0x%02x, ", root[i]);
        fprintf(stderr, "\n");
    }
    spsh__segment_writer_free(whole);
    spsh__segment_writer_free(piece);
    free(first);
    free(second);
}

/* ---- invalid segments ---- */

/* Open the segment, and read everything. Return the first failure. */
static spsh_status read_all(const spsh_shard_seal *seal, spsh_error *err)
{
    static spsh__print_frame frames[FRAMES_MAX];
    static spsh__print_key keys[FRAMES_MAX];
    static spsh__chunk chunks[FRAMES_MAX];
    spsh__segment *segment = NULL;
    spsh_status rc = spsh__segment_open(dataset, seal, NULL, &segment, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint64_t r = 0; r < ROWS && rc == SPSH_OK; r++) {
        spsh__segment_row row;
        rc = spsh__segment_row_get(segment, r, &row, err);
        if (rc == SPSH_OK && row.chunk_count < FRAMES_MAX)
            rc = spsh__segment_chunks(segment, row.first_chunk, row.chunk_count, chunks, err);
    }
    for (uint64_t p = 0; p < spsh__segment_counts_get(segment)->prints && rc == SPSH_OK; p++) {
        spsh__segment_print print;
        rc = spsh__segment_print_get(segment, p, &print, err);
        if (rc == SPSH_OK && print.key_count < FRAMES_MAX)
            rc = spsh__segment_keys(segment, print.first_key, print.key_count, keys, err);
        if (rc == SPSH_OK && print.frame_count < FRAMES_MAX)
            rc = spsh__segment_frames(segment, print.first_frame, print.frame_count, frames, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__segment_check(segment, err);
    spsh__segment_close(segment);
    return rc;
}

static void test_every_cut_is_told(void)
{
    uint8_t *data = NULL;
    size_t size = 0;
    load(&data, &size);
    for (size_t cut = 0; cut < size; cut += cut % 4096 == 0 && cut > 0 ? 4095 : 1024) {
        spsh_error err = SPSH_ERROR_INIT;
        store(data, cut);
        CHECK(read_all(&seals[0], &err) != SPSH_OK);
        CHECK(strstr(err.message, "fingerprints/000000-000.spsh") != NULL);
    }
    store(data, size);
    CHECK_I64(read_all(&seals[0], NULL), SPSH_OK);
    free(data);
}

/* Only damage to one footer copy is not an error: the other copy replaces it. */
static void test_every_flip_is_told(void)
{
    uint8_t *data = NULL;
    size_t size = 0;
    uint64_t seed = test_seed(11);
    load(&data, &size);
    for (size_t page = 0; page < size; page += 512) {
        const size_t at = page + (size_t)(test_random(&seed) % 512);
        const uint8_t bit = (uint8_t)(1U << (test_random(&seed) % 8));
        spsh_error err = SPSH_ERROR_INIT;
        data[at] ^= bit;
        store(data, size);
        const spsh_status rc = read_all(&seals[0], &err);
        data[at] ^= bit;
        if (at >= size - 8192) {
            CHECK(rc == SPSH_OK);
            continue;
        }
        CHECK(rc == SPSH_E_CORRUPT || (at < 4096 && rc == SPSH_E_NOT_SPEECHSHARD));
        CHECK(strstr(err.message, "fingerprints/000000-000.spsh") != NULL);
        if (at >= 4096 && rc == SPSH_E_CORRUPT) /* the page with the bit */
            CHECK(err.offset_bytes <= at && at < err.offset_bytes + 65536);
    }
    store(data, size);
    free(data);
}

/* Publishes the segment's columns with one element of one of them changed. */
static void publish_changed(spsh__segment_column column, uint64_t element, const void *value)
{
    spsh_table_file *file = NULL;
    spsh_table_column columns[SPSH__SEGMENT_COLUMN_COUNT];
    uint8_t *memory[SPSH__SEGMENT_COLUMN_COUNT];
    char directory[300];
    REQUIRE(spsh_table_file_open(segment_path, NULL, NULL, &file, NULL) == SPSH_OK);
    for (unsigned i = 0; i < SPSH__SEGMENT_COLUMN_COUNT; i++) {
        const spsh__segment_column_info *info = &spsh__segment_columns[i];
        const uint64_t count = spsh_table_file_count(file, info->id);
        spsh_bytes bytes = {NULL, 0};
        REQUIRE(spsh_table_file_column(file, info->id, 0, count, &bytes, NULL) == SPSH_OK);
        memory[i] = malloc(bytes.size_bytes + 1);
        REQUIRE(memory[i] != NULL);
        memcpy(memory[i], bytes.data, bytes.size_bytes);
        columns[i] = (spsh_table_column){info->id, info->element_bytes, count, memory[i]};
        if (i == (unsigned)column) {
            REQUIRE(element < count);
            memcpy(memory[i] + element * info->element_bytes, value, info->element_bytes);
        }
    }
    (void)snprintf(directory, sizeof(directory), "%s/" SPSH__SEGMENT_DIRECTORY,
                   spsh_dataset_path(dataset));
    const spsh_table_file_content content = {.directory = directory,
                                             .name = "000000-000.spsh",
                                             .info = *spsh_table_file_info_get(file),
                                             .columns = columns,
                                             .column_count = SPSH__SEGMENT_COLUMN_COUNT,
                                             .mode = SPSH_PUBLISH_REPLACE};
    CHECK_I64(spsh_table_file_publish(&content, NULL, NULL), SPSH_OK);
    spsh_table_file_close(file);
    for (unsigned i = 0; i < SPSH__SEGMENT_COLUMN_COUNT; i++)
        free(memory[i]);
}

/* Checksums are right in all of these. */
static void test_values_that_cannot_be(void)
{
    static const struct {
        const char *what;
        spsh__segment_column column;
        uint64_t element;
        uint8_t value[16];
        spsh_status want;
    } rules[] = {
        {"version",              SPSH__SEGMENT_VERSIONS,    0, {9},                          SPSH_E_VERSION },
        {"print version",        SPSH__SEGMENT_VERSIONS,    1, {9},                          SPSH_E_VERSION },
        {"shard's file id",      SPSH__SEGMENT_SHARD,       0, {1},                          SPSH_E_MISMATCH},
        {"shard's root hash",    SPSH__SEGMENT_SHARD,       1, {1},                          SPSH_E_MISMATCH},
        {"unknown flag",         SPSH__SEGMENT_FLAGS,       2, {0, 1},                       SPSH_E_CORRUPT },
        {"trimmed beyond",       SPSH__SEGMENT_TRIM_FIRST,  0, {6},                          SPSH_E_CORRUPT },
        {"trimmed far beyond",
         SPSH__SEGMENT_TRIM_FIRST,                          0,
         {0, 0, 0, 0, 0, 0, 0, 255},
         SPSH_E_CORRUPT                                                                                     },
        {"prints descend",       SPSH__SEGMENT_PRINT_BEGIN, 1, {9},                          SPSH_E_CORRUPT },
        {"chunks beyond",        SPSH__SEGMENT_CHUNK_BEGIN, 4, {255},                        SPSH_E_CORRUPT },
        {"print of no row",      SPSH__SEGMENT_PRINT_ROW,   3, {4},                          SPSH_E_CORRUPT },
        {"frames beyond",        SPSH__SEGMENT_FRAME_BEGIN, 5, {0, 0, 0, 0, 0, 0, 0, 128},   SPSH_E_CORRUPT },
        {"keys descend",         SPSH__SEGMENT_KEY_BEGIN,   1, {0, 0, 1},                    SPSH_E_CORRUPT },
        {"first weak place",     SPSH__SEGMENT_KEYS,        2, {1, 2, 3, 4, 5, 6, 48},       SPSH_E_CORRUPT },
        {"second weak place",    SPSH__SEGMENT_KEYS,        2, {1, 2, 3, 4, 5, 6, 0, 12},    SPSH_E_CORRUPT },
        {"bits above",           SPSH__SEGMENT_KEYS,        2, {1, 2, 3, 4, 5, 6, 0, 16},    SPSH_E_CORRUPT },
        {"third weak place",     SPSH__SEGMENT_KEYS,        2, {1, 2, 3, 4, 5, 6, 0, 0, 48}, SPSH_E_CORRUPT },
        {"key behind its print",
         SPSH__SEGMENT_KEYS,                                2,
         {1, 2, 3, 4, 5, 6, 0, 0, 0, 240},
         SPSH_E_CORRUPT                                                                                     },
        {"empty chunk",          SPSH__SEGMENT_CHUNKS,      1, {1},                          SPSH_E_CORRUPT },
        {"chunk behind its row",
         SPSH__SEGMENT_CHUNKS,                              1,
         {1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 255, 255},
         SPSH_E_CORRUPT                                                                                     },
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        spsh_error err = SPSH_ERROR_INIT;
        publish(&seals[0], NULL);
        publish_changed(rules[i].column, rules[i].element, rules[i].value);
        const spsh_status rc = read_all(&seals[0], &err);
        CHECK_I64(rc, rules[i].want);
        if (rc != rules[i].want)
            fprintf(stderr, "    %s: %s\n", rules[i].what, err.message);
        CHECK(strstr(err.message, "fingerprints/000000-000.spsh") != NULL);
    }
    publish(&seals[0], NULL);
    CHECK_I64(read_all(&seals[0], NULL), SPSH_OK);
}

/* An intact segment under another shard's name, and a missing segment. */
static void test_another_shards_segment(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__segment *segment = NULL;
    char other[420];
    uint8_t *data = NULL;
    size_t size = 0;
    (void)snprintf(other, sizeof(other), "%s/" SPSH__SEGMENT_DIRECTORY "/000000-001.spsh",
                   spsh_dataset_path(dataset));
    CHECK_I64(spsh__segment_open(dataset, &seals[1], NULL, &segment, &err), SPSH_E_NOT_FOUND);
    load(&data, &size);
    REQUIRE(rename(segment_path, other) == 0);
    CHECK_I64(spsh__segment_open(dataset, &seals[1], NULL, &segment, &err), SPSH_E_MISMATCH);
    CHECK(strstr(err.message, "000000-001.spsh") != NULL);
    CHECK_I64(spsh__segment_open(dataset, &seals[0], NULL, &segment, &err), SPSH_E_NOT_FOUND);
    /* The number of rows is wrong: the second shard of the tiny dataset has three. */
    publish(&seals[1], NULL);
    CHECK_I64(spsh__segment_open(dataset, &seals[1], NULL, &segment, &err), SPSH_E_CORRUPT);
    store(data, size);
    CHECK_I64(read_all(&seals[0], NULL), SPSH_OK);
    free(data);
}

/* Segments of another version or with a damaged page must be made again. */
static void test_what_is_unsound_is_made_anew(void)
{
    spsh__fingerprint_run_options options = {.threads = 1, .part_count = 1};
    spsh_fingerprint_facts facts;
    const char *path = spsh_dataset_path(dataset);
    const uint8_t version[4] = {9};
    uint8_t *data = NULL;
    uint8_t *again = NULL;
    size_t size = 0;
    size_t again_size = 0;
    REQUIRE(unlink(segment_path) == 0);
    REQUIRE(spsh__fingerprint_run(path, &options, &facts, NULL) == SPSH_OK);
    CHECK_U64(facts.shard_count, TINY_SHARDS);
    load(&data, &size);
    publish_changed(SPSH__SEGMENT_VERSIONS, 0, version);
    CHECK_I64(spsh__fingerprint_run(path, &options, &facts, NULL), SPSH_OK);
    CHECK_U64(facts.made_count, 1);
    load(&again, &again_size);
    CHECK(again_size == size && memcmp(data, again, size) == 0);
    free(again);
    again = malloc(size);
    REQUIRE(again != NULL);
    memcpy(again, data, size);
    again[4096 + 40 * SPSH__SEGMENT_COLUMN_COUNT] ^= 1; /* padding */
    store(again, size);
    free(again);
    options.check_pages = true;
    CHECK_I64(spsh__fingerprint_run(path, &options, &facts, NULL), SPSH_OK);
    CHECK_U64(facts.made_count, 1);
    load(&again, &again_size);
    CHECK(again_size == size && memcmp(data, again, size) == 0);
    free(again);
    free(data);
    options.part = 1;
    CHECK_I64(spsh__fingerprint_run(path, &options, &facts, NULL), SPSH_E_INVALID_ARG);
}

/* Values that do not fit into a key or chunk are rejected on writing. */
static void test_limits_of_the_writer(void)
{
    spsh__segment_writer *writer = NULL;
    spsh__print_key key = {.frame = UINT64_C(1) << 58};
    spsh__print_frame frame = {.word = 1};
    spsh__print print = {.frames = &frame, .frame_count = 1, .keys = &key, .key_count = 1};
    spsh__chunk chunk = {.samples = UINT32_C(1) << 20};
    const uint32_t channel = 0;
    spsh__segment_entry entry = {.prints = &print, .channels = &channel, .print_count = 1};
    REQUIRE(spsh__segment_writer_open(&writer, NULL) == SPSH_OK);
    CHECK_I64(spsh__segment_writer_add(writer, &entry, NULL), SPSH_E_LIMIT);
    entry = (spsh__segment_entry){.chunks = &chunk, .chunk_count = 1};
    CHECK_I64(spsh__segment_writer_add(writer, &entry, NULL), SPSH_E_LIMIT);
    chunk = (spsh__chunk){.samples = 1, .first_sample = UINT64_C(1) << 44};
    CHECK_I64(spsh__segment_writer_add(writer, &entry, NULL), SPSH_E_LIMIT);
    spsh__segment_writer_free(writer);
}

TEST_MAIN(unit_segment)
{
    char path[300];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/d.spsh", folder);
    (void)snprintf(segment_path, sizeof(segment_path), "%s/" SPSH__SEGMENT_DIRECTORY "/%s", path,
                   "000000-000.spsh");
    tiny_dataset_write(&tiny, path);
    REQUIRE(tiny_dataset_publish(&tiny, SPSH_DEDUPE_NONE, NULL, NULL, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_dataset_open(path, NULL, &dataset, NULL) == SPSH_OK);
    REQUIRE(spsh_dataset_shard(dataset, 0, &seals[0], NULL) == SPSH_OK);
    REQUIRE(spsh_dataset_shard(dataset, 1, &seals[1], NULL) == SPSH_OK);
    make_entries();
    RUN(test_what_goes_in_comes_out);
    RUN(test_ranges_are_bounded);
    RUN(test_pieces_make_the_same_bytes);
    RUN(test_every_cut_is_told);
    RUN(test_every_flip_is_told);
    RUN(test_values_that_cannot_be);
    RUN(test_another_shards_segment);
    RUN(test_limits_of_the_writer);
    RUN(test_what_is_unsound_is_made_anew);
    spsh_dataset_close(dataset);
    test_remove_tree(folder);
    return TEST_RESULT();
}
