/* fault_plan_cache.c: a cache directory changes only the speed, never the results, whatever it
 * contains. */
#include <dirent.h>
#include <fcntl.h>
#include <xxhash.h>

#include "fault_alloc.h"
#include "plan/plan_internal.h"
#include "plan_kit.h"
#include "test_file.h"

static uint64_t seed;

typedef struct cache_file {
    char path[900];
    uint8_t *data;
    size_t size_bytes;
} cache_file;

static uint32_t list_files(const char *folder, cache_file *files, uint32_t max)
{
    DIR *directory = opendir(folder);
    uint32_t count = 0;
    for (struct dirent *entry = NULL; directory != NULL && (entry = readdir(directory)) != NULL;) {
        struct stat info;
        if (entry->d_name[0] == '.')
            continue;
        REQUIRE(count < max);
        cache_file *f = &files[count++];
        (void)snprintf(f->path, sizeof(f->path), "%s/%s", folder, entry->d_name);
        REQUIRE(stat(f->path, &info) == 0);
        f->size_bytes = (size_t)info.st_size;
        f->data = (uint8_t *)malloc(f->size_bytes);
        FILE *stream = fopen(f->path, "rb");
        REQUIRE(f->data != NULL && stream != NULL);
        REQUIRE(fread(f->data, 1, f->size_bytes, stream) == f->size_bytes);
        REQUIRE(fclose(stream) == 0);
    }
    if (directory != NULL)
        (void)closedir(directory);
    return count;
}

/* Hash the batches from a position in the second epoch on, and the counts: everything that a cache
 * could change. */
static uint64_t hash_of_plan(const plan_kit *kit, const spsh_plan_options *opt)
{
    spsh_plan *plan = plan_kit_plan(kit, opt);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    spsh_position place = {.epoch = 1, .window = 7};
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    uint8_t cursor[SPSH_CURSOR_BYTES];
    uint64_t batches = 0;
    uint64_t hash = 0;
    spsh_cursor_encode(plan, &place, 0, cursor);
    REQUIRE(spsh_sampler_seek(sampler, &place, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < 25; i++) {
        REQUIRE(spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK);
        uint64_t state = hash ^ plan_kit_hash(&batch);
        hash = test_random(&state);
    }
    REQUIRE(spsh_plan_batch_count(plan, 1, &batches, NULL) == SPSH_OK);
    hash += batches;
    const spsh_plan_info *info = spsh_plan_info_get(plan);
    const uint64_t values[] = {
        info->utterance_count, info->microseconds,    info->longest_microseconds,
        info->window_count,    info->domain_count,    info->sample_rate_hz_max,
        info->channels_max,    info->skipped_count,   info->filtered_count,
        info->duration_count,  info->duplicate_count, info->speaker_count,
        info->too_long_count};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        uint64_t state = hash ^ values[i];
        hash = test_random(&state);
    }
    for (size_t i = 0; i < sizeof(cursor); i++)
        hash = hash * 31 + cursor[i];
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
    return hash;
}

static plan_kit make_kit(char cache[700], spsh_plan_options *opt)
{
    plan_kit kit = {.dataset = NULL};
    plan_kit_fill(&kit, 70000, 4, seed);
    for (uint64_t p = 1; p < kit.count; p++) {
        kit.rows[p].domain = p < 66000 ? 3 : kit.rows[p].domain; /* one run without offsets */
        kit.rows[p].copy_of = p % 10 == 3 && p < 60000 ? p - 2 : 0;
    }
    plan_kit_open(&kit, 1);
    (void)snprintf(cache, 700, "%s/cache", kit.folder);
    opt->unit = SPSH_UNIT_SECONDS;
    opt->alpha = 0.5;
    opt->window_utterances = 3000;
    opt->speaker_utterances_max = 100000;
    opt->utterance_seconds_max = 19.5;
    return kit;
}

static void test_the_order_is_the_same(void)
{
    char cache[700];
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit kit = make_kit(cache, &opt);
    cache_file files[8];
    for (uint32_t once = 0; once < 2; once++) {
        opt.duplicates = once == 0 ? SPSH_DUPLICATES_ALL : SPSH_DUPLICATES_ONCE;
        opt.cache_dir = NULL;
        uint64_t want = hash_of_plan(&kit, &opt);
        opt.cache_dir = cache;
        for (uint32_t i = 0; i < 3; i++)
            CHECK_U64(hash_of_plan(&kit, &opt), want);
    }
    uint32_t count = list_files(cache, files, 8);
    CHECK_U64(count, 5); /* two scans, two epochs, lengths */
    for (uint32_t i = 0; i < count; i++)
        free(files[i].data);
    plan_kit_close(&kit);
}

static void test_damage_is_as_no_cache(void)
{
    char cache[700];
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit kit = make_kit(cache, &opt);
    uint64_t random = seed;
    cache_file files[8];
    uint64_t want = hash_of_plan(&kit, &opt);
    opt.cache_dir = cache;
    CHECK_U64(hash_of_plan(&kit, &opt), want);
    uint32_t count = list_files(cache, files, 8);
    CHECK_U64(count, 3);
    for (uint32_t i = 0; i < count; i++) {
        cache_file *f = &files[i];
        for (uint32_t round = 0; round < 40; round++) {
            size_t at = round < 12 ? (size_t)round * 8 : test_random(&random) % f->size_bytes;
            size_t size = round % 4 == 3 ? at : f->size_bytes;
            f->data[at] ^= 0x10;
            test_file_write(f->path, f->data, size);
            f->data[at] ^= 0x10;
            CHECK_U64(hash_of_plan(&kit, &opt), want);
            if (strstr(f->path, "lengths") != NULL && size == f->size_bytes && at >= 64) {
                test_file_write(f->path, f->data,
                                f->size_bytes); /* lengths are checked where they are used */
                continue;
            }
            cache_file again[8];
            uint32_t now = list_files(cache, again, 8); /* the damaged file was replaced */
            CHECK_U64(now, count);
            for (uint32_t n = 0; n < now; n++) {
                if (strcmp(again[n].path, f->path) == 0)
                    CHECK(again[n].size_bytes == f->size_bytes &&
                          memcmp(again[n].data, f->data, f->size_bytes) == 0);
                free(again[n].data);
            }
        }
        /* Another plan's file under this name. */
        const cache_file *other = &files[(i + 1) % count];
        test_file_write(f->path, other->data, other->size_bytes);
        CHECK_U64(hash_of_plan(&kit, &opt), want);
    }
    for (uint32_t i = 0; i < count; i++)
        free(files[i].data);
    plan_kit_close(&kit);
}

/* Damage each group of the lengths file. The plan must read the index instead, and remove the file.
 */
static void test_damaged_lengths(void)
{
    char cache[700];
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit kit = make_kit(cache, &opt);
    cache_file files[8];
    uint64_t want = hash_of_plan(&kit, &opt);
    opt.cache_dir = cache;
    CHECK_U64(hash_of_plan(&kit, &opt), want);
    uint32_t count = list_files(cache, files, 8);
    for (uint32_t i = 0; i < count; i++) {
        struct stat info;
        if (strstr(files[i].path, "lengths") != NULL) {
            for (size_t at = 64; at < files[i].size_bytes; at += 100)
                files[i].data[at]++;
            test_file_write(files[i].path, files[i].data, files[i].size_bytes);
            CHECK_U64(hash_of_plan(&kit, &opt), want);
            CHECK(stat(files[i].path, &info) != 0);
            CHECK_U64(hash_of_plan(&kit, &opt), want);
            CHECK(stat(files[i].path, &info) == 0);
        }
        free(files[i].data);
    }
    plan_kit_close(&kit);
}

/* ---- right hashes over wrong numbers ---- */

static void *take_little(void *user, size_t size_bytes)
{
    (void)user;
    return size_bytes > (size_t)1 << 28 ? NULL : malloc(size_bytes);
}

static void give_back(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static uint64_t read_u64(const uint8_t *at)
{
    return spsh__load_u64le(at);
}

static void seal(cache_file *f)
{
    enum { PIECE = 1 << 20 };
    uint64_t body = read_u64(f->data + 16);
    uint64_t pieces = 0;
    for (uint64_t first = 0; first < body; first += PIECE) {
        size_t size = (size_t)(body - first < PIECE ? body - first : PIECE);
        spsh__store_u64le(f->data + body + 8 * pieces++, XXH3_64bits(f->data + first, size));
    }
    spsh__store_u64le(f->data + body + 8 * pieces,
                      XXH3_64bits(f->data + body, (size_t)(8 * pieces)));
}

static uint64_t skipped_count(const plan_kit *kit, const spsh_plan_options *opt)
{
    spsh_plan *plan = plan_kit_plan(kit, opt);
    uint64_t count = spsh_plan_info_get(plan)->skipped_count;
    spsh_plan_close(plan);
    return count;
}

/* A number that only the file contains is read from it, unless the file has the keys of another
 * plan or of another revision of the order. */
static void test_it_is_read_when_its_keys_are_right(void)
{
    enum { DATASET_KEY = 24, SKIPPED = 64 + 2 * 8 };
    char cache[700];
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit kit = make_kit(cache, &opt);
    cache_file files[8];
    opt.cache_dir = cache;
    CHECK_U64(skipped_count(&kit, &opt), 0);
    uint32_t count = list_files(cache, files, 8);
    CHECK_U64(count, 2); /* a scan, lengths */
    for (uint32_t i = 0; i < count; i++) {
        cache_file *f = &files[i];
        for (size_t key = 0; key < 5 && strstr(f->path, "scan") != NULL; key++) {
            f->data[SKIPPED] = 77;
            seal(f);
            test_file_write(f->path, f->data, f->size_bytes);
            CHECK_U64(skipped_count(&kit, &opt), 77);
            f->data[DATASET_KEY + 8 * key] ^= 1;
            seal(f);
            test_file_write(f->path, f->data, f->size_bytes);
            CHECK_U64(skipped_count(&kit, &opt), 0);
            f->data[DATASET_KEY + 8 * key] ^= 1;
        }
        free(f->data);
    }
    plan_kit_close(&kit);
}

/* The served utterances depend on more options than the set that passes. */
static void test_rates_after_resampling(void)
{
    static const uint32_t rates[] = {8000, 0, 48000, 0};
    char cache[700];
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit kit = make_kit(cache, &opt);
    opt.cache_dir = cache;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        opt.sample_rate_hz = rates[i];
        spsh_plan *plan = plan_kit_plan(&kit, &opt);
        CHECK_U64(spsh_plan_info_get(plan)->sample_rate_hz_max, rates[i] == 0 ? 16000 : rates[i]);
        spsh_plan_close(plan);
    }
    plan_kit_close(&kit);
}

/* Any result is permitted except a crash or a sanitizer error. */
static void use_plan(const plan_kit *kit, const spsh_plan_options *opt)
{
    const spsh_dataset *const list[] = {kit->dataset};
    spsh_plan *plan = NULL;
    spsh_sampler *sampler = NULL;
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    const spsh_position place = {.epoch = 1, .window = 7};
    spsh_epoch_report report = SPSH_EPOCH_REPORT_INIT;
    spsh_status rc = spsh_plan_open(list, 1, opt, &plan, NULL);
    if (rc == SPSH_OK)
        rc = spsh_sampler_open(plan, 0, 3, &sampler, NULL);
    if (rc == SPSH_OK && spsh_sampler_seek(sampler, &place, NULL) == SPSH_OK)
        for (uint32_t i = 0; i < 40 && rc == SPSH_OK; i++)
            rc = spsh_sampler_next(sampler, &batch, NULL);
    if (plan != NULL)
        (void)(spsh_plan_report(plan, 1, 2, &report, NULL, NULL) == SPSH_OK);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
}

static void test_misleading_files(void)
{
    char cache[700];
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit kit = make_kit(cache, &opt);
    const spsh_allocator allocator = {take_little, give_back, NULL};
    uint64_t random = seed;
    cache_file files[8];
    opt.cache_dir = cache;
    (void)hash_of_plan(&kit, &opt);
    opt.allocator = &allocator;
    uint32_t count = list_files(cache, files, 8);
    for (uint32_t i = 0; i < count; i++) {
        cache_file *f = &files[i];
        if (strstr(f->path, "lengths") != NULL)
            continue;
        uint8_t *good = (uint8_t *)malloc(f->size_bytes);
        REQUIRE(good != NULL);
        memcpy(good, f->data, f->size_bytes);
        for (uint32_t round = 0; round < 150; round++) {
            size_t end = round < 100 && f->size_bytes > 500 ? 500 : f->size_bytes - 24;
            for (uint32_t change = 0; change < 1 + round % 3; change++) {
                size_t at = 64 + test_random(&random) % (end - 64);
                f->data[at] = round % 2 == 0 ? 0xff : (uint8_t)test_random(&random);
            }
            seal(f);
            test_file_write(f->path, f->data, f->size_bytes);
            use_plan(&kit, &opt);
            memcpy(f->data, good, f->size_bytes);
        }
        test_file_write(f->path, good, f->size_bytes);
        free(good);
    }
    for (uint32_t i = 0; i < count; i++)
        free(files[i].data);
    plan_kit_close(&kit);
}

/* The directory cannot be created or written, or the cache has no memory. */
static void test_no_directory(void)
{
    char cache[700];
    spsh_plan_options opt = SPSH_PLAN_OPTIONS_INIT;
    plan_kit kit = make_kit(cache, &opt);
    uint64_t want = hash_of_plan(&kit, &opt);
    opt.cache_dir = "/nowhere/at/all";
    CHECK_U64(hash_of_plan(&kit, &opt), want);
    test_file_write(cache, (const uint8_t *)"x", 1);
    opt.cache_dir = cache;
    CHECK_U64(hash_of_plan(&kit, &opt), want);
    REQUIRE(remove(cache) == 0);
    opt.cache_dir = cache;
    const spsh_dataset *const list[] = {kit.dataset};
    for (uint32_t round = 0; round < 2; round++) { /* writing it, reading it */
        spsh_status rc = SPSH_E_NO_MEMORY;
        for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
            fault_alloc fault = {.fail_at = fail_at};
            const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
            spsh_plan *plan = NULL;
            REQUIRE(fail_at < 200);
            opt.allocator = &allocator;
            rc = spsh_plan_open(list, 1, &opt, &plan, NULL);
            CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
            spsh_plan_close(plan);
            CHECK_I64(fault.live_count, 0);
        }
    }
    opt.allocator = NULL;
    CHECK_U64(hash_of_plan(&kit, &opt), want);
    plan_kit_close(&kit);
}

TEST_MAIN(fault_plan_cache)
{
    seed = test_seed(1);
    RUN(test_the_order_is_the_same);
    RUN(test_damage_is_as_no_cache);
    RUN(test_damaged_lengths);
    RUN(test_it_is_read_when_its_keys_are_right);
    RUN(test_rates_after_resampling);
    RUN(test_misleading_files);
    RUN(test_no_directory);
    return TEST_RESULT();
}
