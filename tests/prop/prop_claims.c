/* prop_claims.c [PARTS UNITS RUNS]: a simulation of many parts that share units by claims, in
 * memory and with a virtual clock. Parts are killed between and within claims, stop for longer than
 * their lease and continue, start late or twice, and see changes of others after a delay. Replies
 * are lost. In each run every unit has one commit record at the end, and the folder of its attempt
 * exists. No generation has two owners, only owners write to their folders, and no unit is taken
 * from a process that shows signs of life.
 *
 * PARTS 0: each run has its own numbers of parts and units, lease, delay, drift of clocks, and
 * rates of deaths, stops, and lost replies. A run depends only on its seed, the first number of its
 * line. To repeat it, set SPEECHSHARD_TEST_SEED to that seed and RUNS to 1.
 *
 * The parts decide as pack_units.c does: first their share, then all units, until each is done or
 * belongs to a living part. A scheduler starts a part again while units are left. Stops and delays
 * happen between claims only, and share records are not simulated.
 *
 * A full-size run has a million beats, and few of them are read. So a beat is written when its
 * record is read, by the code under test and with the time at which it was due.
 */
#include "claim/claim.h"
#include "spsh_test.h"

#include <fcntl.h>

#define SECOND        UINT64_C(1000000000)
#define NOBODY        UINT32_MAX
#define NEVER         UINT64_MAX
#define CONTENT_BYTES 128
#define RECORD_FD     1 /* the only descriptors: of a record, and of a folder */
#define FOLDER_FD     2

/* The folder of a claim, and its record. */
typedef struct claim_files {
    uint64_t made_ns; /* 0: the folder never existed */
    uint64_t removed_ns;
    uint64_t record_made_ns;
    uint64_t record_removed_ns;
    uint64_t changed_ns;
    uint32_t maker;
    uint32_t slot; /* slot of the maker */
    bool has_temporary;
    uint16_t sizes[2]; /* before and after the last change */
    /* Beat number beats_first + k is due at beats_from_ns + k * beats_step_ns, for k in 1 ...
     * beats_count. The last written beat is beats_written. */
    uint64_t beats_from_ns;
    uint64_t beats_step_ns;
    uint64_t beats_first;
    uint64_t beats_count;
    uint64_t beats_written;
    struct claim_files *next; /* next generation of the unit */
    char contents[2][CONTENT_BYTES];
} claim_files;

/* How a unit was finished. */
typedef struct unit_state {
    uint32_t winner;
    uint32_t generation;
} unit_state;

typedef struct pending_unit {
    uint32_t unit;
    spsh__claim_watch watch;
} pending_unit;

typedef enum part_step { SCANNING, PACKING, ENDED } part_step;

typedef struct sim_part {
    uint32_t number;  /* part number; two processes may have the same */
    uint32_t process; /* number of the process, also a client of the file system */
    part_step step;
    bool dies;          /* at its next event, */
    uint64_t dies_in;   /* or after this number of calls */
    bool is_stopped;    /* until its next event, */
    bool has_stopped;   /* or earlier in this unit */
    uint64_t delay_ns;  /* after which it sees changes of others */
    int64_t drift_ppm;  /* drift of its clock */
    uint64_t clock_ns;  /* what its clock showed at time 0 */
    bool is_first_pass; /* over all units; later ones are over pending units */
    bool looks_first;
    bool packed; /* in this pass */
    uint64_t unknown;
    uint64_t share_at; /* in the first pass: share, counted from the own one, */
    uint64_t place_at; /* and place in it */
    uint64_t until_ns; /* when the unit is packed */
    uint64_t work_ns;  /* how long that takes */
    spsh__claims claims;
    spsh__own_claim claim;
    claim_files *files;
    uint32_t unit;
    pending_unit *pending;
    size_t pending_count;
    size_t pending_capacity;
    size_t pending_at;
    size_t pending_kept;
    const claim_files *refreshed;
    uint64_t refreshed_ns;
} sim_part;

typedef struct sim_event {
    uint64_t at_ns;
    uint32_t slot;
    uint32_t process;
} sim_event;

static struct {
    uint32_t part_count;
    uint32_t slot_count; /* parts, and second processes of parts */
    uint32_t unit_count;
    uint32_t share_units; /* maximum number of units in a share */
    uint32_t lease_s;
    uint64_t delay_max_s;
    int64_t drift_max_ppm;
    uint64_t events_per_death;
    uint64_t events_per_stop;
    uint64_t calls_per_loss;
    bool is_varied;
} shape;

static struct {
    uint64_t now_ns;
    uint64_t work_ns; /* time in which units were packed, */
    uint64_t lost_ns; /* and the share of attempts that did not win */
    uint64_t deaths, stops, lost_replies, restarts, takeovers, losers, tries;
    uint32_t processes;
    uint32_t undone;
    sim_part *current;  /* that makes calls */
    sim_part *parts;    /* by slot */
    uint64_t *done_ns;  /* by share; 0: not done. Apart, because it is read most */
    unit_state *units;  /* by unit */
    uint64_t *visible;  /* by share: number of units at its start that all parts see as done */
    claim_files *first; /* by unit: the first generations; kept for the next run */
    claim_files *open;
    sim_event *heap;
    size_t heap_count;
    size_t heap_capacity;
} sim;

static uint64_t state;
static unsigned long part_total, unit_total, run_total;

static uint64_t below(uint64_t limit)
{
    return test_random(&state) % limit;
}

static bool chance(uint64_t one_in)
{
    return below(one_in) == 0;
}

/* ---- beats ---- */

static int64_t write_content(claim_files *files, const void *src, size_t size_bytes)
{
    REQUIRE(size_bytes <= CONTENT_BYTES);
    memcpy(files->contents[0], files->contents[1], CONTENT_BYTES);
    files->sizes[0] = files->sizes[1];
    memcpy(files->contents[1], src, size_bytes);
    files->sizes[1] = (uint16_t)size_bytes;
    files->changed_ns = sim.now_ns;
    return (int64_t)size_bytes;
}

/* Let the owner write its beat of this number, at this time. */
static void write_beat(claim_files *files, uint64_t number, uint64_t at_ns)
{
    sim_part *const reader = sim.current;
    claim_files *const open = sim.open;
    const uint64_t now_ns = sim.now_ns;
    sim_part owner = {.process = files->maker, .dies_in = NEVER};
    spsh__own_claim claim = {.claims = &owner.claims, .fd = RECORD_FD, .beats = number - 1};

    owner.claims = reader->claims;
    owner.claims.random = files->maker;
    (void)snprintf(owner.claims.owner, sizeof(owner.claims.owner), "%" PRIu32, files->maker);
    sim.current = &owner;
    sim.open = files;
    sim.now_ns = at_ns;
    spsh__claim_beat(&claim);
    sim.current = reader;
    sim.open = open;
    sim.now_ns = now_ns;
    files->beats_written = number;
    CHECK_U64(claim.beats, number);
}

/* Write the beats that were due until now. A record has two versions, so the last two suffice. */
static void write_due_beats(claim_files *files)
{
    uint64_t due = 0;

    if (files->beats_count > 0)
        due = (sim.now_ns - files->beats_from_ns) / files->beats_step_ns;
    if (due > files->beats_count)
        due = files->beats_count;
    for (uint64_t k = due > 1 ? due - 1 : 1; k <= due; k++)
        if (files->beats_first + k > files->beats_written)
            write_beat(files, files->beats_first + k,
                       files->beats_from_ns + k * files->beats_step_ns);
}

/* ---- the shared folder ---- */

typedef enum path_kind { FOLDER, RECORD, TEMPORARY } path_kind;

static uint64_t take_number(const char **at)
{
    uint64_t number = 0;
    REQUIRE(**at >= '0' && **at <= '9');
    for (; **at >= '0' && **at <= '9'; (*at)++)
        number = number * 10 + (uint64_t)(**at - '0');
    return number;
}

/* Find the files of d/unit-U.gK, d/unit-U.gK/alive, or d/unit-U.gK/alive.new. */
static claim_files *find(const char *path, path_kind *ret_kind, bool makes)
{
    REQUIRE(memcmp(path, "d/unit-", 7) == 0);
    path += 7;
    const uint64_t unit = take_number(&path);
    REQUIRE(unit < shape.unit_count && memcmp(path, ".g", 2) == 0);
    path += 2;
    const uint64_t generation = take_number(&path);
    if (*path == '\0')
        *ret_kind = FOLDER;
    else if (strcmp(path, "/alive") == 0)
        *ret_kind = RECORD;
    else
        *ret_kind = TEMPORARY;
    REQUIRE(generation > 0 && (*ret_kind != TEMPORARY || strcmp(path, "/alive.new") == 0));
    claim_files *files = &sim.first[unit];
    for (uint64_t k = 1; files != NULL && k < generation; k++) {
        if (files->next == NULL && makes)
            files->next = calloc(1, sizeof(*files));
        files = files->next;
    }
    return files;
}

/* Whether the current part sees a change of a name in the folder, or of the folder's. */
static bool is_fresh(const claim_files *files, uint64_t changed_ns)
{
    const sim_part *part = sim.current;
    return files->maker == part->process || sim.now_ns - changed_ns >= part->delay_ns ||
           (part->refreshed == files && part->refreshed_ns == sim.now_ns);
}

static bool is_seen(const claim_files *files, uint64_t made_ns, uint64_t removed_ns)
{
    if (made_ns == 0)
        return false;
    return removed_ns != 0 ? !is_fresh(files, removed_ns) : is_fresh(files, made_ns);
}

/* Whether the current part has died, so that its call does nothing. */
static bool is_dead(void)
{
    sim_part *part = sim.current;

    if (part->dies_in == NEVER)
        return false;
    if (part->dies_in > 0) {
        part->dies_in--;
        return false;
    }
    part->dies = true;
    return true;
}

static bool loses_reply(void)
{
    const bool is_lost = chance(shape.calls_per_loss);
    sim.lost_replies += is_lost ? 1 : 0;
    return is_lost;
}

/* Only the owner of a folder changes names in it. */
static void check_owner(const claim_files *files)
{
    CHECK(files != NULL && files->removed_ns == 0 && files->maker == sim.current->process);
}

static int sim_open(void *user, const char *path, int flags, mode_t mode)
{
    path_kind kind = FOLDER;
    claim_files *files = find(path, &kind, false);

    (void)user, (void)mode;
    if (is_dead())
        return -EIO;
    if ((flags & O_DIRECTORY) != 0) {
        REQUIRE(kind == FOLDER);
        sim.current->refreshed = files;
        sim.current->refreshed_ns = sim.now_ns;
        return files == NULL || files->made_ns == 0 || files->removed_ns != 0 ? -ENOENT : FOLDER_FD;
    }
    if ((flags & O_CREAT) != 0) {
        REQUIRE(kind == TEMPORARY);
        check_owner(files);
        files->has_temporary = true;
        files->sizes[0] = files->sizes[1] = 0;
    } else {
        REQUIRE(kind == RECORD);
        if (files == NULL || !is_seen(files, files->record_made_ns, files->record_removed_ns))
            return -ENOENT;
        if (files->record_removed_ns != 0)
            return -ESTALE;
        write_due_beats(files);
    }
    sim.open = files;
    return RECORD_FD;
}

static int sim_close(void *user, int fd)
{
    (void)user;
    if (fd == RECORD_FD)
        sim.open = NULL;
    return 0;
}

static int64_t sim_pread(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes)
{
    const sim_part *part = sim.current;
    const claim_files *files = sim.open;

    (void)user, (void)fd;
    const size_t version =
        files->maker == part->process || sim.now_ns - files->changed_ns >= part->delay_ns ? 1 : 0;
    const size_t size = files->sizes[version];
    if (is_dead())
        return -EIO;
    if (offset_bytes >= size)
        return 0;
    if (size_bytes > size - offset_bytes)
        size_bytes = size - (size_t)offset_bytes;
    memcpy(dst, files->contents[version] + offset_bytes, size_bytes);
    return (int64_t)size_bytes;
}

static int64_t sim_pwrite(void *user, int fd, const void *src, size_t size_bytes,
                          uint64_t offset_bytes)
{
    (void)user, (void)fd;
    if (is_dead())
        return -EIO;
    CHECK(sim.open->maker == sim.current->process);
    REQUIRE(offset_bytes == 0);
    return write_content(sim.open, src, size_bytes);
}

static int sim_fsync(void *user, int fd)
{
    (void)user, (void)fd;
    return is_dead() ? -EIO : 0;
}

static int sim_stat(void *user, const char *path, struct stat *ret_stat)
{
    path_kind kind = FOLDER;
    const claim_files *files = find(path, &kind, false);

    (void)user;
    if (is_dead())
        return -EIO;
    REQUIRE(kind == FOLDER);
    memset(ret_stat, 0, sizeof(*ret_stat));
    return files != NULL && is_seen(files, files->made_ns, files->removed_ns) ? 0 : -ENOENT;
}

/* Publish a record. No older content is under its new name. */
static int sim_rename(void *user, const char *from, const char *to)
{
    path_kind kinds[2] = {FOLDER, FOLDER};
    claim_files *files = find(from, &kinds[0], false);

    (void)user;
    if (is_dead())
        return -EIO;
    REQUIRE(find(to, &kinds[1], false) == files && kinds[0] == TEMPORARY && kinds[1] == RECORD);
    check_owner(files);
    REQUIRE(files->has_temporary);
    files->has_temporary = false;
    files->record_made_ns = sim.now_ns;
    files->record_removed_ns = 0;
    files->sizes[0] = files->sizes[1];
    memcpy(files->contents[0], files->contents[1], CONTENT_BYTES);
    return loses_reply() ? -EIO : 0;
}

static int sim_unlink(void *user, const char *path)
{
    path_kind kind = FOLDER;
    claim_files *files = find(path, &kind, false);

    (void)user;
    if (is_dead())
        return -EIO;
    check_owner(files);
    if (kind == TEMPORARY) {
        const bool existed = files->has_temporary;
        files->has_temporary = false;
        return existed ? 0 : -ENOENT;
    }
    if (files->record_made_ns == 0 || files->record_removed_ns != 0)
        return -ENOENT;
    files->record_removed_ns = sim.now_ns;
    files->beats_count = 0;
    return 0;
}

static int sim_rmdir(void *user, const char *path)
{
    path_kind kind = FOLDER;
    claim_files *files = find(path, &kind, false);

    (void)user;
    if (is_dead())
        return -EIO;
    check_owner(files);
    if (files->has_temporary || (files->record_made_ns != 0 && files->record_removed_ns == 0))
        return -ENOTEMPTY;
    files->removed_ns = sim.now_ns;
    return 0;
}

static int sim_mkdir(void *user, const char *path, mode_t mode)
{
    path_kind kind = FOLDER;
    claim_files *files = find(path, &kind, true);

    (void)user, (void)mode;
    if (is_dead())
        return -EIO;
    REQUIRE(kind == FOLDER && files != NULL);
    if (files->made_ns != 0 && files->removed_ns == 0)
        return -EEXIST;
    if (files->made_ns != 0 && !is_fresh(files, files->removed_ns))
        return -EEXIST; /* the client still knows the folder that was removed */
    const bool is_lost = loses_reply();
    files->made_ns = sim.now_ns;
    files->removed_ns = 0;
    files->record_made_ns = files->record_removed_ns = 0;
    files->beats_count = files->beats_first = files->beats_written = 0;
    files->maker = is_lost ? NOBODY : sim.current->process;
    files->slot = (uint32_t)(sim.current - sim.parts);
    return is_lost ? (chance(2) ? -EEXIST : -EIO) : 0;
}

static uint64_t sim_now(void *user)
{
    const sim_part *part = sim.current;
    (void)user;
    return part->clock_ns + sim.now_ns +
           (uint64_t)((int64_t)(sim.now_ns / 1000000) * part->drift_ppm);
}

/* How long a duration on the clock of a part takes. */
static uint64_t true_ns(const sim_part *part, uint64_t ns)
{
    return (uint64_t)((int64_t)(ns / 1000) * 1000000 / (1000000 + part->drift_ppm)) * 1000;
}

static const spsh_io sim_calls = {
    .open_fn = sim_open,
    .close_fn = sim_close,
    .pread_fn = sim_pread,
    .pwrite_fn = sim_pwrite,
    .fsync_fn = sim_fsync,
    .stat_fn = sim_stat,
    .rename_fn = sim_rename,
    .unlink_fn = sim_unlink,
    .mkdir_fn = sim_mkdir,
    .rmdir_fn = sim_rmdir,
};
static const spsh__claim_host sim_host = {NULL, sim_now, NULL, NULL};

/* ---- events ---- */

static void schedule(const sim_part *part, uint64_t delay)
{
    if (sim.heap_count == sim.heap_capacity) {
        sim.heap_capacity = sim.heap_capacity * 2 + 64;
        sim.heap = realloc(sim.heap, sim.heap_capacity * sizeof(*sim.heap));
        REQUIRE(sim.heap != NULL);
    }
    const sim_event event = {sim.now_ns + delay, (uint32_t)(part - sim.parts), part->process};
    size_t at = sim.heap_count++;
    for (; at > 0 && event.at_ns < sim.heap[(at - 1) / 2].at_ns; at = (at - 1) / 2)
        sim.heap[at] = sim.heap[(at - 1) / 2];
    sim.heap[at] = event;
}

static sim_event next_event(void)
{
    const sim_event first = sim.heap[0];
    const sim_event last = sim.heap[--sim.heap_count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < sim.heap_count && sim.heap[child + 1].at_ns < sim.heap[child].at_ns)
            child++;
        if (child >= sim.heap_count || sim.heap[child].at_ns >= last.at_ns)
            break;
        sim.heap[at] = sim.heap[child];
        at = child;
    }
    sim.heap[at] = last;
    return first;
}

/* ---- parts ---- */

/* Start a process of a part. It replaces an earlier one. */
static void start_part(sim_part *part, uint64_t delay)
{
    pending_unit *pending = part->pending;
    const size_t capacity = part->pending_capacity;

    *part = (sim_part){.number = part->number, .process = ++sim.processes, .dies_in = NEVER};
    part->pending = pending;
    part->pending_capacity = capacity;
    part->is_first_pass = true;
    part->delay_ns = below(shape.delay_max_s + 1) * SECOND;
    part->clock_ns = below(SECOND * 1000000);
    part->drift_ppm = (int64_t)below(2 * (uint64_t)shape.drift_max_ppm + 1) - shape.drift_max_ppm;
    part->claims = (spsh__claims){.io = &sim_calls,
                                  .directory = "d",
                                  .host = &sim_host,
                                  .lease_s = shape.lease_s,
                                  .random = part->process};
    (void)snprintf(part->claims.owner, sizeof(part->claims.owner), "%" PRIu32, part->process);
    schedule(part, delay);
}

/* Most machines come back. */
static void kill_part(sim_part *part)
{
    sim.deaths++;
    part->step = ENDED;
    if (!chance(4))
        start_part(part, SECOND * below(600));
}

/* Units of a share are next to each other. */
static uint64_t *done_of(uint64_t unit)
{
    return &sim.done_ns[unit % shape.part_count * shape.share_units + unit / shape.part_count];
}

static bool sees_done(const sim_part *part, uint32_t unit, bool is_refreshed)
{
    const uint64_t done_ns = *done_of(unit);
    return done_ns != 0 && (is_refreshed || sim.now_ns - done_ns >= part->delay_ns ||
                            sim.units[unit].winner == part->process);
}

/* Pack until the next event: the part stops, dies, or has packed the unit. */
static void pack_on(sim_part *part)
{
    claim_files *files = part->files;
    const uint64_t step_ns = true_ns(part, SECOND * shape.lease_s / SPSH__CLAIM_BEATS);
    const uint64_t left_ns = part->until_ns - sim.now_ns;
    uint64_t beats = 0;

    part->dies = false;
    part->is_stopped = chance(shape.events_per_stop);
    while (!part->is_stopped && !part->dies && (beats + 1) * step_ns < left_ns) {
        part->dies = chance(shape.events_per_death);
        beats += part->dies ? 0 : 1;
        part->is_stopped = !part->dies && chance(shape.events_per_stop);
    }
    files->beats_first = files->beats_written;
    files->beats_from_ns = sim.now_ns;
    files->beats_step_ns = step_ns;
    files->beats_count = beats;
    if (part->is_stopped) {
        sim.stops++;
        part->has_stopped = true;
        schedule(part, beats * step_ns + SECOND * (shape.lease_s + below(15 * shape.lease_s)));
    } else if (part->dies) {
        schedule(part, (beats + 1) * step_ns);
    } else {
        part->dies = chance(shape.events_per_death);
        schedule(part, left_ns);
    }
}

/* No unit is taken from a process that packs it, unless the process will die or has stopped. Its
 * first beat after a stop may come too late. */
static void check_takeover(uint32_t unit, uint32_t generation)
{
    const claim_files *files = &sim.first[unit];

    for (uint32_t k = 1; k + 1 < generation; k++)
        files = files->next;
    const sim_part *owner = &sim.parts[files->slot];
    CHECK(owner->process != files->maker || owner->step != PACKING || owner->files != files ||
          owner->has_stopped || owner->dies);
}

static void begin_unit(sim_part *part, uint32_t unit)
{
    path_kind kind = FOLDER;
    char path[80];

    (void)snprintf(path, sizeof(path), "d/%.64s", part->claim.folder);
    part->files = find(path, &kind, false);
    check_owner(part->files);
    part->unit = unit;
    part->has_stopped = false;
    part->step = PACKING;
    part->work_ns = SECOND * (20 + below(200));
    part->until_ns = sim.now_ns + part->work_ns;
    sim.work_ns += part->work_ns;
}

static void finish_unit(sim_part *part)
{
    uint64_t *done_ns = done_of(part->unit);

    CHECK(part->files->removed_ns == 0 && part->files->maker == part->process);
    if (*done_ns == 0) {
        *done_ns = sim.now_ns;
        sim.units[part->unit] = (unit_state){part->process, part->claim.generation};
        sim.undone--;
    } else {
        sim.losers++;
        sim.lost_ns += part->work_ns;
    }
    part->step = SCANNING;
    part->packed = true;
}

/* unit-UUUUUU, without the cost of snprintf. */
static void write_name(uint32_t unit, char name[32])
{
    memcpy(name, "unit-000000", 12);
    for (size_t at = 10; unit > 0; at--, unit /= 10)
        name[at] = (char)('0' + unit % 10);
}

typedef enum visit_result { IS_DONE, IS_PENDING, IS_MINE, HAS_FAILED } visit_result;

/* Take the unit if it is free. As visit_unit in pack_units.c. */
static visit_result visit_unit(sim_part *part, uint32_t unit, spsh__claim_watch *watch)
{
    const bool looks = part->looks_first || watch->generation > 0;
    spsh__claim_state claimed = SPSH__CLAIM_UNKNOWN;
    char name[32];

    if (looks && sees_done(part, unit, false))
        return IS_DONE;
    sim.tries++;
    write_name(unit, name);
    const spsh_status rc =
        spsh__claim_try(&part->claims, name, watch, &part->claim, &claimed, NULL, NULL);
    CHECK(rc == SPSH_OK || rc == SPSH_E_IO);
    if (rc != SPSH_OK)
        return HAS_FAILED;
    if (claimed != SPSH__CLAIM_WON || part->claim.generation > 1)
        part->looks_first = true;
    if (claimed == SPSH__CLAIM_WON && part->claim.generation > 1) {
        sim.takeovers++;
        check_takeover(unit, part->claim.generation);
        if (sees_done(part, unit, true)) {
            spsh__claim_remove(&part->claim);
            return IS_DONE;
        }
    }
    if (claimed == SPSH__CLAIM_WON) {
        begin_unit(part, unit);
        return IS_MINE;
    }
    if (!looks && sees_done(part, unit, false))
        return IS_DONE;
    part->unknown += claimed == SPSH__CLAIM_UNKNOWN ? 1 : 0;
    return IS_PENDING;
}

static void add_pending(sim_part *part, uint32_t unit, const spsh__claim_watch *watch)
{
    if (part->pending_count == part->pending_capacity) {
        part->pending_capacity = part->pending_capacity * 2 + 16;
        part->pending = realloc(part->pending, part->pending_capacity * sizeof(*part->pending));
        REQUIRE(part->pending != NULL);
    }
    part->pending[part->pending_count++] = (pending_unit){unit, *watch};
}

/* Skip units that every part sees as done. */
static uint64_t skip_visible(uint64_t share, uint64_t place)
{
    const uint64_t *done_ns = &sim.done_ns[share * shape.share_units];
    uint64_t *visible = &sim.visible[share];

    while (*visible < shape.share_units && done_ns[*visible] != 0 &&
           sim.now_ns - done_ns[*visible] >= shape.delay_max_s * SECOND)
        (*visible)++;
    return place < *visible ? *visible : place;
}

/* The first pass over all units, from the own share on. */
static visit_result visit_shares(sim_part *part)
{
    for (; part->share_at < shape.part_count; part->share_at++, part->place_at = 0) {
        const uint64_t share = (part->number + part->share_at) % shape.part_count;
        for (;;) {
            spsh__claim_watch watch = {0};
            if (part->looks_first)
                part->place_at = skip_visible(share, part->place_at);
            const uint64_t unit = share + part->place_at * shape.part_count;
            if (unit >= shape.unit_count)
                break;
            part->place_at++;
            const visit_result result = visit_unit(part, (uint32_t)unit, &watch);
            if (result == IS_PENDING)
                add_pending(part, (uint32_t)unit, &watch);
            if (result == IS_MINE || result == HAS_FAILED)
                return result;
        }
        part->looks_first = true;
    }
    return IS_DONE;
}

/* A later pass over the units that were not done in the previous one. */
static visit_result visit_pending(sim_part *part)
{
    while (part->pending_at < part->pending_count) {
        pending_unit *pending = &part->pending[part->pending_at++];
        const visit_result result = visit_unit(part, pending->unit, &pending->watch);
        if (result == IS_PENDING)
            part->pending[part->pending_kept++] = *pending;
        if (result == IS_MINE || result == HAS_FAILED)
            return result;
    }
    part->pending_count = part->pending_kept;
    return IS_DONE;
}

/* spsh__pack_wait, but rarer. */
static void wait_for_others(sim_part *part)
{
    schedule(part, true_ns(part, SECOND * shape.lease_s / SPSH__CLAIM_BEATS / 2));
}

/* Visit units until one is claimed, or nothing is left to do. */
static void scan(sim_part *part)
{
    if (chance(2 * shape.events_per_death))
        part->dies_in = below(12);
    while (part->step == SCANNING) {
        const visit_result result = part->is_first_pass ? visit_shares(part) : visit_pending(part);
        if (part->dies_in != NEVER) {
            kill_part(part);
            return;
        }
        if (result == HAS_FAILED) { /* the scheduler starts it again */
            start_part(part, 60 * SECOND);
            return;
        }
        if (result == IS_MINE)
            break;
        const bool ends = part->unknown == 0 && !part->packed;
        const bool waits = !ends && !part->packed;
        part->is_first_pass = false;
        part->pending_at = part->pending_kept = 0;
        part->unknown = 0;
        part->packed = false;
        if (ends)
            part->step = ENDED;
        if (waits) {
            wait_for_others(part);
            return;
        }
    }
    if (part->step == PACKING)
        pack_on(part);
}

static void run_part(sim_part *part)
{
    sim.current = part;
    if (part->dies ||
        ((part->is_stopped || part->step == SCANNING) && chance(shape.events_per_death))) {
        kill_part(part);
        return;
    }
    if (part->step == PACKING && sim.now_ns < part->until_ns) { /* it has stopped, and continues */
        write_due_beats(part->files);
        write_beat(part->files, part->files->beats_written + 1, sim.now_ns);
        pack_on(part);
        return;
    }
    if (part->step == PACKING)
        finish_unit(part);
    scan(part);
}

static void run_events(void)
{
    while (sim.heap_count > 0) {
        const sim_event event = next_event();
        sim_part *part = &sim.parts[event.slot];
        sim.now_ns = event.at_ns;
        if (event.process == part->process && part->step != ENDED)
            run_part(part);
        if (sim.heap_count == 0 && sim.undone > 0) { /* the merge names missing units */
            sim.restarts++;
            start_part(&sim.parts[below(shape.part_count)], 0);
        }
        REQUIRE(sim.now_ns < 1000 * 24 * 3600 * SECOND);
    }
}

/* ---- runs ---- */

/* A number of about equal chances for each magnitude. */
static uint32_t any_size(uint64_t most)
{
    uint64_t limit = most;
    while (limit > 1 && chance(3))
        limit = limit / 4 + 1;
    return 1 + (uint32_t)below(limit);
}

static void choose_shape(void)
{
    static const uint32_t leases_s[] = {5, 10, 30, 60, 120, 600, 3600};
    static const uint64_t rates[] = {30, 100, 1000, 10000};

    shape.is_varied = part_total == 0;
    shape.part_count = shape.is_varied ? any_size(1000) : (uint32_t)part_total;
    shape.unit_count = shape.is_varied ? any_size(unit_total) : (uint32_t)unit_total;
    shape.share_units = (shape.unit_count + shape.part_count - 1) / shape.part_count;
    shape.lease_s = shape.is_varied ? leases_s[below(7)] : 60;
    shape.delay_max_s = shape.is_varied ? below(shape.lease_s < 60 ? shape.lease_s : 60) : 6;
    shape.drift_max_ppm = shape.is_varied ? (int64_t)below(100000) : 500;
    /* A short lease has more events per unit, and units must have a chance to be finished. */
    const uint64_t scale = shape.lease_s < 60 ? 60 / shape.lease_s : 1;
    shape.events_per_death = scale * (shape.is_varied ? rates[below(4)] : 1000);
    shape.events_per_stop = scale * (shape.is_varied ? rates[below(4)] : 1000);
    shape.calls_per_loss = shape.is_varied ? rates[below(4)] : 500;
    shape.slot_count = shape.part_count + shape.part_count / 50 + (uint32_t)below(2);
}

static void begin_run(void)
{
    claim_files *const first = sim.first;

    REQUIRE(shape.part_count > 0 && shape.unit_count > 0);
    REQUIRE(shape.slot_count > 0 && shape.share_units > 0);
    memset(&sim, 0, sizeof(sim));
    sim.first = first;
    for (uint32_t unit = 0; unit < shape.unit_count; unit++)
        memset(&sim.first[unit], 0, offsetof(claim_files, contents));
    sim.now_ns = SECOND;
    sim.undone = shape.unit_count;
    sim.parts = calloc(shape.slot_count, sizeof(*sim.parts));
    sim.units = calloc(shape.unit_count, sizeof(*sim.units));
    sim.visible = calloc(shape.part_count, sizeof(*sim.visible));
    sim.done_ns = calloc(shape.part_count, shape.share_units * sizeof(*sim.done_ns));
    REQUIRE(sim.parts != NULL && sim.units != NULL && sim.visible != NULL && sim.done_ns != NULL);
    for (uint32_t slot = 0; slot < shape.slot_count; slot++) {
        const bool is_second = slot >= shape.part_count;
        sim.parts[slot].number = is_second ? (uint32_t)below(shape.part_count) : slot;
        start_part(&sim.parts[slot], SECOND * below(is_second ? 10000 : 120));
    }
}

/* Each commit record names an attempt of the winner, and the attempt's folder exists. */
static void check_units(void)
{
    CHECK_U64(sim.undone, 0);
    for (uint32_t unit = 0; unit < shape.unit_count; unit++) {
        const unit_state *u = &sim.units[unit];
        const claim_files *files = &sim.first[unit];
        for (uint32_t k = 1; files != NULL && k < u->generation; k++)
            files = files->next;
        CHECK(*done_of(unit) != 0 && files != NULL && files->made_ns != 0 &&
              files->removed_ns == 0 && files->maker == u->winner);
    }
    CHECK(shape.is_varied || sim.lost_ns * 10 < sim.work_ns);
}

static void end_run(void)
{
    for (uint32_t slot = 0; slot < shape.slot_count; slot++)
        free(sim.parts[slot].pending);
    for (uint32_t unit = 0; unit < shape.unit_count; unit++) {
        while (sim.first[unit].next != NULL) {
            claim_files *files = sim.first[unit].next;
            sim.first[unit].next = files->next;
            free(files);
        }
    }
    free(sim.parts);
    free(sim.units);
    free(sim.visible);
    free(sim.done_ns);
    free(sim.heap);
}

static void run_once(uint64_t seed)
{
    state = seed;
    choose_shape();
    begin_run();
    run_events();
    check_units();
    printf("%" PRIu64 ": %" PRIu32 " parts, %" PRIu32 " units, %.1f h, %" PRIu64 " deaths, %" PRIu64
           " stops, %" PRIu64 " lost replies, %" PRIu64 " takeovers, %" PRIu64
           " restarts by hand, %" PRIu64 " units packed twice (%.3f %% of the work), %.1f tries per"
           " unit, %s\n",
           seed, shape.part_count, shape.unit_count, (double)sim.now_ns / (double)SECOND / 3600,
           sim.deaths, sim.stops, sim.lost_replies, sim.takeovers, sim.restarts, sim.losers,
           100 * (double)sim.lost_ns / (double)sim.work_ns, (double)sim.tries / shape.unit_count,
           test_failures == 0 ? "ok" : "FAILED");
    end_run();
}

static void test_runs(void)
{
    const uint64_t seed = test_seed(4711);

    sim.first = calloc(unit_total, sizeof(*sim.first));
    REQUIRE(sim.first != NULL);
    for (unsigned long run = 0; run < run_total && test_failures == 0; run++)
        run_once(seed + run);
    free(sim.first);
}

TEST_MAIN(prop_claims)
{
    part_total = argc > 1 ? strtoul(argv[1], NULL, 10) : 20;
    unit_total = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    run_total = argc > 3 ? strtoul(argv[3], NULL, 10) : 100;
    RUN(test_runs);
    return TEST_RESULT();
}
