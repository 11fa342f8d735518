/* unit_loader_data.c: the loader returns real speech, packed unchanged, with samples that match the
 * hash stored at packing. */
#include "base/base_internal.h"
#include "base/checksum.h"
#include "loader_kit.h"
#include "talk_dataset.h"

enum { FILES_MAX = 60 };

static char work[512], path[600];
static spsh_dataset *dataset;
static uint32_t utterance_count;

/* As FORMAT.md defines it, for int16 on a little-endian machine. */
static void hash_pcm(const int16_t *pcm, uint64_t samples, uint32_t rate_hz, uint8_t ret_hash[16])
{
    uint8_t prefix[16] = {0};
    spsh__hasher *hasher = spsh__hasher_new(spsh_allocator_default());
    REQUIRE(hasher != NULL);
    spsh__store_u32le(prefix, SPSH_SAMPLE_I16);
    spsh__store_u32le(prefix + 4, 1);
    spsh__store_u32le(prefix + 8, rate_hz);
    spsh__hasher_reset128(hasher);
    spsh__hasher_update(hasher, prefix, sizeof(prefix));
    spsh__hasher_update(hasher, pcm, samples * sizeof(*pcm));
    spsh__hasher_digest128(hasher, ret_hash);
    spsh__hasher_free(hasher);
}

static void check_hashes(const spsh_loader_options *opt)
{
    spsh_loader *loader = NULL;
    spsh_reader *reader = NULL;
    const spsh_batch *batch = NULL;
    uint32_t seen = 0;
    require(spsh_loader_open((const spsh_dataset *const *)&dataset, 1, opt, &loader, &err));
    require(spsh_reader_open(dataset, &reader, &err));
    while (spsh_loader_next(loader, &batch, &err) == SPSH_OK) {
        for (uint32_t n = 0; n < batch->utterance_count; n++) {
            const spsh_batch_utterance *u = &batch->utterances[n];
            const spsh_record *record = NULL;
            uint8_t hash[16];
            require(spsh_reader_record(reader, u->item.position, &record, &err));
            hash_pcm(batch->i16 + u->offset, u->samples, batch->sample_rate_hz, hash);
            CHECK(memcmp(hash, record->pcm_hash, sizeof(hash)) == 0);
            seen++;
        }
        spsh_loader_release(loader, batch);
    }
    CHECK_I64(err.status, SPSH_E_END);
    CHECK_U64(seen, utterance_count);
    spsh_reader_close(reader);
    spsh_loader_close(loader);
}

static void test_hashes(void)
{
    spsh_loader_options opt = SPSH_LOADER_OPTIONS_INIT;
    spsh_plan_options plan = SPSH_PLAN_OPTIONS_INIT;
    plan.batch_seconds_max = 60;
    opt.plan = &plan;
    check_hashes(&opt);
    opt.engine = SPSH_ENGINE_PREAD;
    opt.flags = SPSH_LOADER_DIRECT;
    opt.decode_threads = 4;
    check_hashes(&opt);
    opt.memory_bytes = 9 << 20; /* records exceed the read buffers, so they are read in parts */
    check_hashes(&opt);
}

TEST_MAIN(unit_loader_data)
{
    char source[512];
    test_data_path(source, sizeof(source), "librispeech-351");
    test_temp_dir(work, sizeof(work));
    (void)snprintf(path, sizeof(path), "%s/speech", work);
    utterance_count = talk_dataset_pack(path, source, FILES_MAX);
    REQUIRE(utterance_count > 0);
    require(spsh_dataset_open(path, NULL, &dataset, &err));
    RUN(test_hashes);
    spsh_dataset_close(dataset);
    test_remove_tree(work);
    return TEST_RESULT();
}
