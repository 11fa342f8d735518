/* cmd_verify.c: `speechshard verify`: print one line per damaged object, and a summary of the
 * checks. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/part.h"
#include "commands.h"
#include "print/damage_out.h"
#include "print/undecodable.h"
#include "speechshard/publish.h"

enum { JOBS_MAX = 256 };

typedef struct report {
    const char *path; /* path of the current dataset */
    bool json;
    spsh_progress progress;
    spsh_json *object;
    bool failed; /* printing failed */
    uint64_t leftovers;
    uint64_t undecodable;
} report;

/* ---- damage ---- */

static int on_damage(void *user, const spsh_damage *damage)
{
    report *r = (report *)user;
    spsh__progress_clear();
    if (r->json)
        r->failed = !spsh__damage_print_json(r->object, "damage", r->path, damage);
    else
        spsh__damage_print(damage);
    return r->failed || spsh__cli_output_failed();
}

static void begin_line(report *r, const char *type)
{
    spsh__json_put_string(r->object, "type", type);
    spsh__json_put_string(r->object, "dataset", r->path);
}

static void end_line(report *r)
{
    r->failed = spsh__json_write_line(r->object, stdout, NULL) != SPSH_OK || r->failed;
}

static void on_undecodable(void *user, spsh_bytes id)
{
    report *r = (report *)user;
    if (!r->json) {
        spsh__cli_message("%s: undecodable, not served: recording \"%.*s\"", r->path,
                          (int)id.size_bytes, (const char *)id.data);
        return;
    }
    begin_line(r, "undecodable");
    spsh__json_put_text(r->object, "id", id);
    end_line(r);
}

/* Count the undecodable recordings. A dataset that cannot be opened is skipped: its damage was
 * reported. */
static void count_undecodable(report *r)
{
    spsh_dataset *dataset = NULL;
    r->undecodable = 0;
    if (spsh_dataset_open(r->path, NULL, &dataset, NULL) != SPSH_OK)
        return;
    r->undecodable = spsh__undecodable_count(dataset, on_undecodable, r);
    spsh_dataset_close(dataset);
}

static int on_progress(void *user, const char *phase, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)phase;
    report *r = (report *)user;
    r->progress.total = total_bytes;
    spsh__progress_update(&r->progress, done_bytes, NULL);
    return 0;
}

/* ---- the summary ---- */

static void print_summary(report *r, const spsh_verify_result *result, uint64_t took_ns)
{
    double seconds = (double)(took_ns + 1) / 1e9;
    if (r->json) {
        begin_line(r, "summary");
        spsh__json_put_u64(r->object, "files", result->files);
        spsh__json_put_u64(r->object, "bytes", result->bytes);
        spsh__json_put_u64(r->object, "blocks", result->blocks);
        spsh__json_put_u64(r->object, "recordings", result->records);
        spsh__json_put_u64(r->object, "utterances", result->utterances);
        spsh__json_put_u64(r->object, "damaged", result->damage_count);
        spsh__json_put_u64(r->object, "leftovers", r->leftovers);
        spsh__json_put_u64(r->object, "undecodable", r->undecodable);
        spsh__json_put_string(r->object, "engine", result->engine);
        spsh__json_put_bool(r->object, "direct", result->direct);
        spsh__json_put_real(r->object, "seconds", seconds);
        end_line(r);
        return;
    }
    spsh__cli_message("%s: %" PRIu64 " files, %" PRIu64 " recordings, %s in %s (%s/s, %s%s): %s",
                      r->path, result->files, result->records, SPSH_SHOW_BYTES(result->bytes),
                      SPSH_SHOW_DURATION(seconds),
                      SPSH_SHOW_BYTES((uint64_t)((double)result->bytes / seconds)), result->engine,
                      result->direct ? ", direct" : "",
                      result->damage_count == 0 ? "no damage" : "damage was found");
    if (r->undecodable > 0)
        spsh__cli_message("%s: %" PRIu64 " undecodable recording%s", r->path, r->undecodable,
                          r->undecodable == 1 ? "" : "s");
}

/* Report a leftover file. It is not damage, because the dataset never refers to it. */
static int on_leftover(void *user, const char *name)
{
    report *r = (report *)user;
    r->leftovers++;
    if (!r->json) {
        spsh__cli_message("%s/%s: left by a killed command; the next edit removes it", r->path,
                          name);
        return 0;
    }
    begin_line(r, "leftover");
    spsh__json_put_string(r->object, "file", name);
    end_line(r);
    return r->failed;
}

/* True if the path is a file of another program, which err then describes. A file with our
 * extension is checked in any case, because its first bytes may be damaged. */
static bool is_foreign(const char *path, spsh_error *err)
{
    static const char extension[] = ".spsh";
    const size_t bytes = strlen(path);
    spsh_dataset *dataset = NULL;
    if (bytes >= sizeof(extension) - 1 &&
        strcmp(path + bytes - (sizeof(extension) - 1), extension) == 0)
        return false;
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    const bool is_ours = spsh_dataset_open(path, NULL, &dataset, err) != SPSH_E_NOT_SPEECHSHARD;
    spsh_dataset_close(dataset);
    return !is_ours;
}

static int verify_one(report *r, const spsh_verify_options *options)
{
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    if (is_foreign(r->path, &err))
        return spsh__cli_fail(NULL, &err);
    uint64_t begin_ns = spsh__cli_now_ns();
    spsh__progress_begin(&r->progress, "verify", "B", 0);
    spsh_status rc = spsh_verify(r->path, options, &result, &err);
    spsh__progress_end(&r->progress);
    if (rc == SPSH_E_CANCELED && (r->failed || spsh__cli_output_failed()))
        return SPSH_EXIT_FAILED;
    if (rc != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    const uint64_t took_ns = spsh__cli_now_ns() - begin_ns;
    r->leftovers = 0;
    r->undecodable = 0;
    if (options->part == 0)
        spsh_dataset_leftovers(r->path, on_leftover, r);
    if (options->part == 0 && (options->flags & SPSH_VERIFY_DECODE) != 0)
        count_undecodable(r);
    print_summary(r, &result, took_ns);
    return result.damage_count == 0 && !r->failed ? SPSH_EXIT_DONE : SPSH_EXIT_FAILED;
}

int spsh__cmd_verify(int argc, char **argv)
{
    bool json = false, decode = false, cached = false;
    uint64_t jobs = 0;
    const char *part = NULL;
    const spsh_cli_option options[] = {
        {"decode", 0, SPSH_CLI_FLAG, NULL,
         "also decode every recording: samples, PCM hash, seek points", &decode, 0, 0},
        {"cached", 0, SPSH_CLI_FLAG, NULL,
         "read through the page cache, which hides damage on the disk", &cached, 0, 0},
        {"jobs", 'j', SPSH_CLI_COUNT, "N", "number of threads (default: one per core)", &jobs, 1,
         JOBS_MAX},
        {"part", 0, SPSH_CLI_TEXT, "I/N",
         "check only every N-th shard, from shard I (0 to N-1) on; part 0 also checks everything "
         "else" SPSH_PART_AUTO_HELP,
         &part, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object per line", &json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "verify",
        "DATASET...",
        NULL,
        "check every byte",
        "Prints one line per damaged part, with file, offset, recording, and the number of "
        "utterances that it affects. DATASET may also be a single .spsh file. Exit status 0: no "
        "damage.",
        "speechshard verify corpus.spsh\n"
        "speechshard verify corpus.spsh --decode --json\n"
        "speechshard verify corpus.spsh --part 0/4      # 1/4, 2/4, 3/4 elsewhere\n",
        options};
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    rc = spsh__part_take("verify", part, &opt.part, &opt.part_count);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    report r = {.json = json, .object = spsh__json_new()};
    if (r.object == NULL)
        return spsh__cli_fail_memory();
    opt.damage_fn = on_damage;
    opt.progress_fn = on_progress;
    opt.user = &r;
    opt.jobs = (uint32_t)jobs;
    opt.flags = (decode ? SPSH_VERIFY_DECODE : 0) | (cached ? SPSH_VERIFY_CACHED : 0);
    rc = SPSH_EXIT_DONE;
    for (int n = 0; n < args.operand_count; n++) {
        r.path = args.operands[n];
        if (verify_one(&r, &opt) != SPSH_EXIT_DONE)
            rc = SPSH_EXIT_FAILED;
    }
    spsh__json_free(r.object);
    return spsh__cli_finish(rc);
}
