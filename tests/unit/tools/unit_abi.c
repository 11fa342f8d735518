/* unit_abi.c: the ABI promises of the public headers (docs/ARCHITECTURE.md, "The ABI"). Frozen
 * structures keep their sizes. Older and newer callers get exactly the fields that they know.
 * tests/lint/check_abi.py reads the two lists. */
#include "speechshard/augment.h"
#include "speechshard/dedup.h"
#include "speechshard/featgen_cuda.h"
#include "speechshard/features.h"
#include "speechshard/hear.h"
#include "speechshard/loader.h"
#include "speechshard/options.h"
#include "speechshard/pack.h"
#include "speechshard/pcm_cuda.h"
#include "speechshard/publish.h"
#include "speechshard/read_engine.h"
#include "speechshard/settings.h"
#include "speechshard/statistics.h"
#include "speechshard/table_file.h"
#include "speechshard/train.h"
#include "speechshard/verify.h"
#include "spsh_test.h"
#include "talk_dataset.h"

/* ---- frozen: name, size in bytes on 64-bit machines ---- */

#define FROZEN(name_, bytes_)                                                                      \
    _Static_assert(sizeof(void *) != 8 || sizeof(name_) == (bytes_), #name_ " is frozen")

FROZEN(spsh_allocator, 24);
FROZEN(spsh_arena, 24);
FROZEN(spsh_audio_info, 56);
FROZEN(spsh_audio_source, 24);
FROZEN(spsh_augment_draw, 640);
FROZEN(spsh_augment_input, 56);
FROZEN(spsh_augment_mask_draw, 16);
FROZEN(spsh_augment_subject, 80);
FROZEN(spsh_bad_record, 520);
FROZEN(spsh_batch_utterance, 160);
FROZEN(spsh_bytes, 16);
FROZEN(spsh_cuda_feature_batch, 96);
FROZEN(spsh_cuda_mask, 8);
FROZEN(spsh_cuda_pcm_batch, 48);
FROZEN(spsh_cuda_pcm_utterance, 40);
FROZEN(spsh_dataset_group, 56);
FROZEN(spsh_domain_report, 24);
FROZEN(spsh_error, 496);
FROZEN(spsh_feature_batch, 40);
FROZEN(spsh_feature_input, 40);
FROZEN(spsh_feature_sums, 32);
FROZEN(spsh_features_info, 40);
FROZEN(spsh_io, 144);
FROZEN(spsh_item, 64);
FROZEN(spsh_memory_source, 16);
FROZEN(spsh_option_name, 16);
FROZEN(spsh_overlay_entry, 32);
FROZEN(spsh_pcm_info, 24);
FROZEN(spsh_pcm_part, 40);
FROZEN(spsh_position, 24);
FROZEN(spsh_read_completion, 64);
FROZEN(spsh_record, 112);
FROZEN(spsh_record_place, 32);
FROZEN(spsh_row, 112);
FROZEN(spsh_seek_point, 16);
FROZEN(spsh_shard_row, 64);
FROZEN(spsh_shard_seal, 72);
FROZEN(spsh_speech, 24);
FROZEN(spsh_statistics_content, 72);
FROZEN(spsh_statistics_sums, 24);
FROZEN(spsh_table_column, 24);
FROZEN(spsh_table_file_content, 120);
FROZEN(spsh_table_file_info, 80);
FROZEN(spsh_train_domain, 48);
FROZEN(spsh_train_set, 24);
FROZEN(spsh_train_simulated, 344);
FROZEN(spsh_train_unknown, 24);
FROZEN(spsh_utterance, 176);
FROZEN(spsh_weight, 24);

/* ---- lent structures, returned as pointers to const ---- */

#define LENT(name_) _Static_assert(_Alignof(name_) <= _Alignof(max_align_t), #name_)

LENT(spsh_audit_example);
LENT(spsh_audit_leak);
LENT(spsh_audit_split);
LENT(spsh_batch);
LENT(spsh_boilerplate);
LENT(spsh_copy_cluster);
LENT(spsh_copy_match);
LENT(spsh_copy_member);
LENT(spsh_damage);
LENT(spsh_dedup_source);
LENT(spsh_dedupe_facts);
LENT(spsh_dedupe_sum);
LENT(spsh_explain_check);
LENT(spsh_explain_facts);
LENT(spsh_explain_side);
LENT(spsh_pack_facts);
LENT(spsh_pack_kind);
LENT(spsh_pack_part);
LENT(spsh_pack_reject);
LENT(spsh_pack_source);
LENT(spsh_plan_info);
LENT(spsh_repair_manifest);
LENT(spsh_setting);
LENT(spsh_train_estimate);
LENT(spsh_train_simulation);

/* ---- results ---- */

static char work[512], path[600];
static spsh_dataset *dataset;
static spsh_loader *loader;
static const spsh_plan *plan;
static spsh_error err;

static spsh_status give_stats(void *ret)
{
    spsh_loader_stats_get(loader, (spsh_loader_stats *)ret);
    return SPSH_OK;
}

static spsh_status give_domain(void *ret)
{
    return spsh_plan_domain_get(plan, 0, (spsh_plan_domain *)ret, &err);
}

static spsh_status give_report(void *ret)
{
    return spsh_plan_report(plan, 0, 0, (spsh_epoch_report *)ret, NULL, &err);
}

static spsh_status give_planned(void *ret)
{
    spsh_sampler *sampler = NULL;
    spsh_status rc = spsh_sampler_open(plan, 0, 1, &sampler, &err);
    if (rc == SPSH_OK)
        rc = spsh_sampler_next(sampler, (spsh_planned_batch *)ret, &err);
    spsh_sampler_close(sampler);
    return rc;
}

static spsh_status give_heard(void *ret)
{
    spsh_hearing *hearing = NULL;
    spsh_status rc = spsh_hearing_open(dataset, 0, NULL, &hearing, &err);
    if (rc == SPSH_OK)
        rc = spsh_hearing_listen(hearing, 0, (spsh_heard *)ret, &err);
    spsh_hearing_close(hearing);
    return rc;
}

static spsh_status give_verified(void *ret)
{
    return spsh_verify(path, NULL, (spsh_verify_result *)ret, &err);
}

static spsh_status give_repaired(void *ret)
{
    static unsigned copies;
    char shard[700], copy[700];
    spsh_shard_seal seal;
    (void)snprintf(copy, sizeof(copy), "%s/copy%u", work, copies++);
    REQUIRE(spsh_io_make_directory(spsh_io_default(), copy, &err) == SPSH_OK);
    REQUIRE(spsh_dataset_shard(dataset, 0, &seal, &err) == SPSH_OK);
    talk_dataset_shard(path, 0, shard, sizeof(shard));
    return spsh_repair_shard(shard, NULL, copy, NULL, (spsh_repair_result *)ret, &err);
}

static spsh_status give_overlay(void *ret)
{
    return spsh_dataset_overlay(dataset, 0, (spsh_overlay_info *)ret, &err);
}

static spsh_status give_features(void *ret)
{
    return spsh_feature_options_parse("whisper-logmel", (spsh_feature_options *)ret, &err);
}

static spsh_status give_preset(void *ret)
{
    return spsh_feature_options_preset("kaldi-mfcc", (spsh_feature_options *)ret, &err);
}

static spsh_status give_augment(void *ret)
{
    return spsh_augment_options_parse("deepspeech", (spsh_augment_options *)ret, &err);
}

static spsh_status give_world(void *ret)
{
    return spsh_train_world_find((spsh_train_world *)ret, &err);
}

static spsh_status give_part(void *ret)
{
    return spsh_job_part_find("2/3", (spsh_job_part *)ret, &err);
}

/* Functions that fill a result. stats_get has no status to reject a size with. */
static const struct {
    const char *name;
    spsh_status (*give_fn)(void *ret);
    size_t size_bytes;
} results[] = {
    {"spsh_loader_stats_get",       give_stats,    sizeof(spsh_loader_stats)   },
    {"spsh_plan_domain_get",        give_domain,   sizeof(spsh_plan_domain)    },
    {"spsh_plan_report",            give_report,   sizeof(spsh_epoch_report)   },
    {"spsh_sampler_next",           give_planned,  sizeof(spsh_planned_batch)  },
    {"spsh_hearing_listen",         give_heard,    sizeof(spsh_heard)          },
    {"spsh_verify",                 give_verified, sizeof(spsh_verify_result)  },
    {"spsh_repair_shard",           give_repaired, sizeof(spsh_repair_result)  },
    {"spsh_dataset_overlay",        give_overlay,  sizeof(spsh_overlay_info)   },
    {"spsh_feature_options_parse",  give_features, sizeof(spsh_feature_options)},
    {"spsh_feature_options_preset", give_preset,   sizeof(spsh_feature_options)},
    {"spsh_augment_options_parse",  give_augment,  sizeof(spsh_augment_options)},
    {"spsh_train_world_find",       give_world,    sizeof(spsh_train_world)    },
    {"spsh_job_part_find",          give_part,     sizeof(spsh_job_part)       },
};

enum { CANARY = 0xa5, ROOM_BYTES = 1024, NEWER_BYTES = 24 };

typedef union storage {
    size_t struct_size;
    uint8_t bytes[ROOM_BYTES];
} storage;

static spsh_status fill(size_t n, size_t struct_size, storage *ret)
{
    memset(ret, CANARY, sizeof(*ret));
    ret->struct_size = struct_size;
    return results[n].give_fn(ret);
}

static void check_bytes(const storage *r, size_t from, size_t to, uint8_t want)
{
    for (size_t i = from; i < to; i++)
        if (r->bytes[i] != want) {
            CHECK_U64(i, to);
            return;
        }
}

/* A caller that knows half of a result gets that half. */
static void check_older(size_t n)
{
    storage r;
    const size_t known = results[n].size_bytes;
    for (size_t size = sizeof(size_t); size <= known; size += known / 2 & ~(size_t)7) {
        CHECK_I64(fill(n, size, &r), SPSH_OK);
        CHECK_U64(r.struct_size, size);
        check_bytes(&r, size, sizeof(r), CANARY);
    }
}

/* A caller that knows a larger structure gets zeros at its end. */
static void check_newer(size_t n)
{
    storage r;
    const size_t known = results[n].size_bytes;
    CHECK_I64(fill(n, known + NEWER_BYTES, &r), SPSH_OK);
    CHECK_U64(r.struct_size, known + NEWER_BYTES);
    check_bytes(&r, known, known + NEWER_BYTES, 0);
    check_bytes(&r, known + NEWER_BYTES, sizeof(r), CANARY);
}

/* An unset size: nothing is written. */
static void check_unset(size_t n)
{
    static const size_t sizes[] = {0, sizeof(size_t) - 1, SIZE_MAX};
    storage r;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const spsh_status rc = fill(n, sizes[i], &r);
        CHECK_I64(rc, n == 0 ? SPSH_OK : SPSH_E_INVALID_ARG);
        check_bytes(&r, sizeof(size_t), sizeof(r), CANARY);
    }
}

static void test_results(void)
{
    for (size_t n = 0; n < sizeof(results) / sizeof(results[0]); n++) {
        const int before = test_failures;
        REQUIRE(results[n].size_bytes + NEWER_BYTES < ROOM_BYTES);
        check_older(n);
        check_newer(n);
        check_unset(n);
        if (test_failures != before)
            fprintf(stderr, "    %s\n", results[n].name);
    }
}

/* ---- options that are not passed to an open function ---- */

/* Options of an older caller keep their meaning. */
static void test_older_feature_options(void)
{
    union {
        spsh_feature_options known;
        uint8_t bytes[sizeof(spsh_feature_options)];
    } features = {.known = SPSH_FEATURE_OPTIONS_INIT};
    spsh_featgen *featgen = NULL;
    REQUIRE(spsh_feature_options_preset("kaldi-fbank", &features.known, &err) == SPSH_OK);
    const size_t size = offsetof(spsh_feature_options, energy_floor);
    memset(features.bytes + size, CANARY, sizeof(features.bytes) - size);
    features.known.struct_size = size;
    CHECK_I64(spsh_feature_options_check(&features.known, &err), SPSH_OK);
    REQUIRE(spsh_featgen_open(&features.known, NULL, &featgen, &err) == SPSH_OK);
    CHECK(spsh_featgen_features(featgen)->norm == SPSH_NORM_NONE);
    CHECK_U64(spsh_featgen_features(featgen)->struct_size, sizeof(spsh_feature_options));
    spsh_featgen_close(featgen);
}

static void open_all(void)
{
    const spsh_overlay_entry entry = {
        .id = {(const uint8_t *)"s0-u1", 5}
    };
    test_temp_dir(work, sizeof(work));
    (void)snprintf(path, sizeof(path), "%s/talk", work);
    talk_dataset_make(path, TALK_PLAIN);
    REQUIRE(spsh_overlay_add(path, "skips", SPSH_OVERLAY_SKIP, &entry, 1, NULL, &err) == SPSH_OK);
    REQUIRE(spsh_dataset_open(path, NULL, &dataset, &err) == SPSH_OK);
    REQUIRE(spsh_loader_open((const spsh_dataset *const *)&dataset, 1, NULL, &loader, &err) ==
            SPSH_OK);
    plan = spsh_loader_plan(loader);
}

TEST_MAIN(unit_abi)
{
    open_all();
    RUN(test_results);
    RUN(test_older_feature_options);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
    test_remove_tree(work);
    return TEST_RESULT();
}
