/* bench_key_join.c: joining the keys of many utterances to pairs: time, memory, disk, and whether
 * planted copies are found.
 *
 *     bench_key_join UTTERANCES[/PARTS] MODE MEMORY_MIB THREADS FILE...       MODE: mild or deep
 *
 * Real keys are made from the audio files. A generated key takes each of its three 16-bit words,
 * and its weak positions, from independently drawn real keys. So the bits of a word depend on each
 * other as in speech. Equal words are slightly more frequent than in speech, because they are drawn
 * from only some thousand keys (words 320 ms apart are nearly independent). An utterance has 5 to
 * 20 keys (12.5 on average, as in 3.6 s at 3.5 keys per second). One utterance in a thousand is a
 * copy of another, 7 frames later. The copy lacks a fifth of the keys, a third of its keys have a
 * flipped weak bit, and frames differ by up to one. Temporary files go to TMPDIR. Output: JSON.
 *
 * PARTS simulates more utterances than the disk holds: only the keys of that many of the join's
 * 1,024 partitions are made, at the density of all utterances. The partitions are those of random
 * real keys. Processor time per probe then predicts the whole. Nothing is planted.
 */
#include <inttypes.h>
#include <sndfile.h>
#include <sys/resource.h>

#include "bench_kit.h"
#include "join/key_join.h"

enum { KEYS_MAX = 1 << 20, KEYS_OF_ONE = 20, PLANTED_EVERY = 1000, SHIFT = 7 };

static spsh__print_key real_keys[KEYS_MAX];
static size_t real_count;

static void take_file(const char *path)
{
    SF_INFO info = {0};
    SNDFILE *sound = sf_open(path, SFM_READ, &info);
    must(sound != NULL && info.samplerate >= 8000, path);
    const size_t channels = (size_t)info.channels;
    int16_t *pcm = calloc((size_t)info.frames * channels + 1, sizeof(*pcm));
    must(pcm != NULL, "memory");
    const size_t count = (size_t)sf_readf_short(sound, pcm, info.frames);
    (void)sf_close(sound);
    for (size_t i = 0; i < count; i++)
        pcm[i] = pcm[i * channels];
    spsh__print print = {0};
    check_ok(spsh__print_make((uint32_t)info.samplerate, pcm, count, &print, &failure));
    for (size_t i = 0; i < print.key_count && real_count < KEYS_MAX; i++)
        real_keys[real_count++] = print.keys[i];
    spsh__print_free(&print);
    free(pcm);
}

static const spsh__print_key *draw(uint64_t *state)
{
    return &real_keys[next_random(state) % real_count];
}

/* Make the keys of an utterance, always the same. */
static size_t make_keys(uint64_t utterance, spsh__print_key *keys)
{
    uint64_t state = mix64(utterance + 1);
    const size_t count = 5 + (size_t)(next_random(&state) % (KEYS_OF_ONE - 4));
    uint64_t frame = 4;
    for (size_t i = 0; i < count; i++) {
        keys[i] = *draw(&state);
        keys[i].bits = (draw(&state)->bits & UINT64_C(0xffff00000000)) |
                       (draw(&state)->bits & UINT64_C(0xffff0000)) |
                       (draw(&state)->bits & UINT64_C(0xffff));
        keys[i].frame = frame;
        frame += 4 + next_random(&state) % 28;
    }
    return count;
}

static uint64_t source_of(uint64_t copy)
{
    uint64_t state = mix64(copy ^ UINT64_C(0x5bd1e995));
    return next_random(&state) % (copy / PLANTED_EVERY) * PLANTED_EVERY + 1 +
           next_random(&state) % (PLANTED_EVERY - 1);
}

static bool is_copy(uint64_t utterance)
{
    return utterance > 0 && utterance % PLANTED_EVERY == 0;
}

static size_t make_copy(uint64_t utterance, spsh__print_key *keys)
{
    uint64_t state = mix64(utterance ^ UINT64_C(0x27d4eb2f));
    const size_t count = make_keys(source_of(utterance), keys);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (next_random(&state) % 5 == 0)
            continue;
        keys[kept] = keys[i];
        if (next_random(&state) % 3 == 0)
            keys[kept].bits ^= UINT64_C(1)
                               << keys[kept].weak[next_random(&state) % SPSH__KEY_WEAK_MAX];
        keys[kept].frame += SHIFT - 1 + next_random(&state) % 3;
        kept++;
    }
    return kept;
}

/* Fill the partitions of `parts` random real keys as `utterances` would. A weak bit among the upper
 * bits adds records to other partitions: 1.78 per key. So each partition gets as many keys more. */
static void add_sample(spsh__key_join *join, uint64_t utterances, size_t parts)
{
    const unsigned shift = SPSH__KEY_BITS - 10;
    uint64_t state = 25;
    bool is_taken[1024] = {false};
    size_t taken = 0;
    static const spsh__print_key *tops[KEYS_MAX];
    for (size_t i = 0; i < parts; i++)
        is_taken[draw(&state)->bits >> shift] = true;
    for (size_t i = 0; i < real_count; i++)
        if (is_taken[real_keys[i].bits >> shift])
            tops[taken++] = &real_keys[i];
    const double share = (double)taken / (double)real_count;
    const uint64_t count = (uint64_t)((double)utterances * 12.5 * 1.78 * share);
    for (uint64_t i = 0; taken > 0 && i < count; i++) {
        spsh__print_key key = *tops[next_random(&state) % taken];
        key.bits = (key.bits & UINT64_C(0xffff00000000)) |
                   (draw(&state)->bits & UINT64_C(0xffff0000)) |
                   (draw(&state)->bits & UINT64_C(0xffff));
        check_ok(spsh__key_join_add(
            join, (uint64_t)((double)i / (double)count * (double)utterances), &key, 1, &failure));
    }
}

static bool is_found(const spsh__candidate *candidate)
{
    return is_copy(candidate->b) && source_of(candidate->b) == candidate->a &&
           candidate->offset >= SHIFT - 3 && candidate->offset <= SHIFT + 3;
}

/* Processor time of all threads. */
static double all_cpu_seconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    must(argc > 5, "usage: bench_key_join UTTERANCES mild|deep MEMORY_MIB THREADS FILE...");
    char *parts = NULL;
    const uint64_t utterances = strtoull(argv[1], &parts, 0);
    const bool is_deep = strcmp(argv[2], "deep") == 0;
    const spsh__key_join_options options = {
        .mode = is_deep ? SPSH__JOIN_DEEP : SPSH__JOIN_MILD,
        .temporary_path = getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR"),
        .memory_bytes = strtoull(argv[3], NULL, 0) << 20,
        .threads = (uint32_t)strtoul(argv[4], NULL, 0)};
    spsh__key_join *join = NULL;
    spsh__print_key keys[KEYS_OF_ONE];
    spsh__candidate candidate;
    spsh__join_facts facts;
    struct rusage usage;
    spsh_status rc = SPSH_OK;
    uint64_t planted = 0;
    uint64_t found = 0;
    uint64_t last_found = 0;

    for (int i = 5; i < argc; i++)
        take_file(argv[i]);
    const double start = now_ms();
    const double cpu_start = all_cpu_seconds();
    check_ok(spsh__key_join_open(&options, &join, &failure));
    if (*parts == '/')
        add_sample(join, utterances, strtoul(parts + 1, NULL, 0));
    for (uint64_t i = 0; *parts == '\0' && i < utterances; i++) {
        const size_t count = is_copy(i) ? make_copy(i, keys) : make_keys(i, keys);
        planted += is_copy(i);
        check_ok(spsh__key_join_add(join, i, keys, count, &failure));
    }
    const double added = now_ms();
    rc = spsh__key_join_next(join, &candidate, &failure);
    const double joined = now_ms();
    for (; rc == SPSH_OK; rc = spsh__key_join_next(join, &candidate, &failure)) {
        found += is_found(&candidate) && candidate.b != last_found;
        last_found = is_found(&candidate) ? candidate.b : last_found;
    }
    must(rc == SPSH_E_END, "join");
    const double end = now_ms();
    const double cpu_end = all_cpu_seconds();
    spsh__key_join_facts(join, &facts);
    spsh__key_join_free(join);
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("{\"utterances\": %" PRIu64 ", \"mode\": \"%s\", \"memory_mib\": %s, \"threads\": %s, "
           "\"real_keys\": %zu, \"keys\": %" PRIu64 ", \"probes\": %" PRIu64 ", \"hits\": %" PRIu64
           ", \"candidates\": %" PRIu64 ", \"crowded_keys\": %" PRIu64 ",\n",
           utterances, is_deep ? "deep" : "mild", argv[3], argv[4], real_count, facts.key_count,
           facts.probe_count, facts.hit_count, facts.candidate_count, facts.crowded_count);
    printf(" \"planted\": %" PRIu64 ", \"found\": %" PRIu64
           ", \"add_s\": %.1f, \"join_s\": %.1f, \"count_s\": %.1f, \"total_s\": %.1f, "
           "\"cpu_s\": %.2f, \"rss_mib\": %ld, \"spilled_mib\": %.0f, \"space_mib\": %.0f}\n",
           planted, found, (added - start) / 1e3, (joined - added) / 1e3, (end - joined) / 1e3,
           (end - start) / 1e3, cpu_end - cpu_start, usage.ru_maxrss / 1024,
           (double)facts.spilled_bytes / 1048576,
           (double)spsh__key_join_space(options.mode, facts.key_count, 0, options.memory_bytes) /
               1048576);
    return 0;
}
