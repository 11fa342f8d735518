/* fuzz_segment.c: a changed fingerprint segment, with or without corrected checksums. It is opened
 * and read like in a set of utterances: rows, prints, keys, frames, and chunks, all within the
 * counts that the rows state.
 *
 * The first byte chooses one of two segments; the rest is a patch (tests/support/patch.h).
 */
#include "memory_dataset.h"
#include "patch.h"
#include "segment/segment.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

enum { READ_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static memory_dataset memory;
static spsh_io io;
static spsh_dataset *dataset;
static spsh_shard_seal seals[2];
static memory_file *segments[2];
static memory_file good[2];
static patch_base bases[2];

/* Every row except the first has a print of 40 frames, 5 keys, and 3 chunks. */
static void publish(const spsh_dataset *source, const spsh_shard_seal *seal)
{
    spsh__print_frame frames[40];
    spsh__print_key keys[5];
    spsh__chunk chunks[3];
    const spsh__print print = {.frames = frames, .frame_count = 40, .keys = keys, .key_count = 5};
    const uint32_t channel = 0;
    spsh__segment_writer *writer = NULL;
    REQUIRE(spsh__segment_writer_open(&writer, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < 40; i++)
        frames[i] = (spsh__print_frame){.word = i * 77777, .level = 60, .is_active = i > 9};
    for (uint32_t i = 0; i < 5; i++)
        keys[i] = (spsh__print_key){.bits = i * UINT64_C(0x123456789), .frame = 8 * i};
    for (uint32_t i = 0; i < 3; i++)
        chunks[i] = (spsh__chunk){.hash = i, .first_sample = 100 * i, .samples = 99};
    for (uint64_t i = 0; i < seal->utterance_count; i++) {
        const size_t has_print = i > 0;
        const spsh__segment_entry entry = {
            .row = {.flags = SPSH__ROW_DECODED, .samples = 300, .trim_count = 299},
            .prints = &print,
            .channels = &channel,
            .print_count = has_print,
            .chunks = chunks,
            .chunk_count = 3 * has_print
        };
        REQUIRE(spsh__segment_writer_add(writer, &entry, NULL) == SPSH_OK);
    }
    REQUIRE(spsh__segment_writer_publish(writer, source, seal, NULL, NULL) == SPSH_OK);
    spsh__segment_writer_free(writer);
}

static void make_base(void)
{
    char root[512];
    char path[600];
    tiny_dataset tiny;
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    test_temp_dir(root, sizeof(root));
    (void)snprintf(path, sizeof(path), "%s/tiny", root);
    tiny_dataset_write(&tiny, path);
    REQUIRE(tiny_dataset_publish(&tiny, SPSH_DEDUPE_NONE, NULL, NULL, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_dataset_open(path, NULL, &dataset, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < 2; i++) {
        REQUIRE(spsh_dataset_shard(dataset, i, &seals[i], NULL) == SPSH_OK);
        publish(dataset, &seals[i]);
    }
    spsh_dataset_close(dataset);
    memory_dataset_load(&memory, path);
    test_remove_tree(root);
    io = memory_dataset_table(&memory);
    opt.io = &io;
    REQUIRE(spsh_dataset_open("fuzz", &opt, &dataset, NULL) == SPSH_OK);
    segments[0] = memory_dataset_file(&memory, SPSH__SEGMENT_DIRECTORY "/000000-000.spsh");
    segments[1] = memory_dataset_file(&memory, SPSH__SEGMENT_DIRECTORY "/000000-001.spsh");
    for (size_t i = 0; i < 2; i++) {
        good[i] = *segments[i];
        patch_base_init(&bases[i], good[i].data, good[i].size_bytes);
    }
}

static void read_chunks(const spsh__segment *segment, const spsh__segment_row *row)
{
    static spsh__chunk chunks[READ_MAX];
    if (row->chunk_count > READ_MAX ||
        spsh__segment_chunks(segment, row->first_chunk, row->chunk_count, chunks, NULL) != SPSH_OK)
        return;
    for (uint64_t i = 0; i < row->chunk_count; i++)
        REQUIRE(chunks[i].first_sample + chunks[i].samples <= row->samples);
}

static void read_print(const spsh__segment *segment, uint64_t number)
{
    static spsh__print_frame frames[READ_MAX];
    static spsh__print_key keys[READ_MAX];
    spsh__segment_print print;
    if (spsh__segment_print_get(segment, number, &print, NULL) != SPSH_OK)
        return;
    REQUIRE(print.row < spsh__segment_counts_get(segment)->rows);
    if (print.frame_count <= READ_MAX &&
        spsh__segment_frames(segment, print.first_frame, print.frame_count, frames, NULL) ==
            SPSH_OK)
        for (uint64_t i = 0; i < print.frame_count; i++)
            REQUIRE(frames[i].level < 128);
    if (print.key_count > READ_MAX ||
        spsh__segment_keys(segment, print.first_key, print.key_count, keys, NULL) != SPSH_OK)
        return;
    for (uint64_t i = 0; i < print.key_count; i++)
        REQUIRE(keys[i].bits >> SPSH__KEY_BITS == 0 && keys[i].weak[0] < SPSH__KEY_BITS &&
                keys[i].weak[1] < SPSH__KEY_BITS && keys[i].weak[2] < SPSH__KEY_BITS);
}

static void read_segment(const spsh_shard_seal *seal)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__segment *segment = NULL;
    const spsh_status rc = spsh__segment_open(dataset, seal, &io, &segment, &err);
    REQUIRE(rc == err.status && (rc == SPSH_OK) == (segment != NULL));
    if (rc != SPSH_OK)
        return;
    REQUIRE(spsh__segment_counts_get(segment)->rows == seal->utterance_count);
    for (uint64_t i = 0; i < spsh__segment_counts_get(segment)->rows; i++) {
        spsh__segment_row row;
        if (spsh__segment_row_get(segment, i, &row, NULL) == SPSH_OK)
            read_chunks(segment, &row);
    }
    for (uint64_t i = 0; i < spsh__segment_counts_get(segment)->prints; i++)
        read_print(segment, i);
    (void)spsh__segment_check(segment, NULL);
    spsh__segment_close(segment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (dataset == NULL)
        make_base();
    if (size_bytes == 0)
        return 0;
    const int chosen = data[0] % 2;
    memory_file *changed = segments[chosen];
    changed->data = patch_apply(&bases[chosen], data + 1, size_bytes - 1, &changed->size_bytes);
    read_segment(&seals[chosen]);
    free(changed->data);
    *changed = good[chosen];
    return 0;
}
