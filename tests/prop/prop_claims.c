/* prop_claims.c [PARTS UNITS RUNS]: a simulation of many parts that share units by claims, in memory
 * and with a virtual clock. Parts are killed, stop for longer than their lease and continue, start
 * late, and see changes of others after a delay; replies are lost. In each run every unit has one
 * commit record at the end, no generation has two owners, and only owners write to their folders.
 *
 * The parts decide as pack_units.c does: first their share, then all units, until each is done or
 * belongs to a living part. A scheduler starts a part again while units are left.
 */
#include "claim/claim.h"
#include "spsh_test.h"

#include <fcntl.h>

#define SECOND     UINT64_C(1000000000)
#define LEASE_S    60U
#define TABLE      (1U << 19)
#define OPEN_FILES 64
#define PATH_SIZE  48
#define NOBODY     UINT32_MAX

typedef struct sim_file {
    struct sim_file *next;
    uint64_t made_ns;
    uint64_t removed_ns; /* 0: exists */
    uint64_t changed_ns;
    uint32_t maker;
    bool is_folder;
    uint16_t sizes[2]; /* before and after the last change */
    char path[PATH_SIZE];
    char contents[2][256];
} sim_file;

typedef struct unit_state {
    uint64_t done_ns; /* 0: not done */
    uint32_t winner;
} unit_state;

typedef struct pending_unit {
    uint32_t unit;
    spsh__claim_watch watch;
} pending_unit;

typedef enum part_step { SCANNING, PACKING, ENDED } part_step;

typedef struct sim_part {
    uint32_t index;
    uint32_t process; /* number of the process, also a client of the file system */
    part_step step;
    bool scanned_all; /* pending holds all units that may not be done */
    bool packed;      /* in this pass */
    uint32_t share_at;
    uint64_t unknown;
    uint64_t until_ns; /* when the unit is packed */
    uint64_t work_ns;  /* how long that takes */
    spsh__claims claims;
    spsh__own_claim claim;
    uint32_t unit;
    pending_unit *pending;
    size_t pending_count;
    size_t pending_capacity;
    size_t pending_at;
    char refreshed[PATH_SIZE];
    uint64_t refreshed_ns;
} sim_part;

typedef struct sim_event {
    uint64_t at_ns;
    uint32_t part;
    uint32_t process;
} sim_event;

static struct {
    uint32_t part_count;
    uint32_t unit_count;
    uint64_t now_ns;
    uint64_t work_ns; /* time in which units were packed, */
    uint64_t lost_ns; /* and the share of attempts that did not win */
    uint64_t deaths, pauses, lost_replies, restarts, takeovers, losers, calls;
    uint32_t processes;
    sim_part *parts;
    unit_state *units;
    sim_file **table;
    sim_file *open[OPEN_FILES];
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

/* ---- the shared folder ---- */

static uint32_t hash_of(const char *path)
{
    uint32_t hash = 2166136261U;
    for (; *path != '\0'; path++)
        hash = (hash ^ (uint8_t)*path) * 16777619U;
    return (hash ^ hash >> 15) % TABLE;
}

static sim_file *find(const char *path)
{
    sim_file *file = sim.table[hash_of(path)];
    while (file != NULL && strcmp(file->path, path) != 0)
        file = file->next;
    return file;
}

static uint64_t delay_ns(const sim_part *part)
{
    return (part->process * UINT64_C(2654435761) % 7) * SECOND; /* up to 6 s */
}

/* Whether the part sees the last change of the file's name. */
static bool is_fresh(const sim_part *part, const sim_file *file, uint64_t changed_ns)
{
    const size_t length = strlen(part->refreshed);
    return file->maker == part->process || sim.now_ns - changed_ns >= delay_ns(part) ||
           (part->refreshed_ns == sim.now_ns && strncmp(file->path, part->refreshed, length) == 0);
}

static bool is_seen(const sim_part *part, const sim_file *file)
{
    if (file == NULL)
        return false;
    if (file->removed_ns != 0)
        return !is_fresh(part, file, file->removed_ns);
    return is_fresh(part, file, file->made_ns);
}

static sim_file *insert(const char *path, uint32_t maker, bool is_folder)
{
    sim_file *file = find(path);
    if (file == NULL) {
        const uint32_t slot = hash_of(path);
        file = calloc(1, sizeof(*file));
        REQUIRE(file != NULL && strlen(path) < PATH_SIZE);
        (void)snprintf(file->path, sizeof(file->path), "%s", path);
        file->next = sim.table[slot];
        sim.table[slot] = file;
    }
    file->made_ns = file->changed_ns = sim.now_ns;
    file->removed_ns = 0;
    file->maker = maker;
    file->is_folder = is_folder;
    file->sizes[0] = file->sizes[1] = 0;
    return file;
}

/* Nobody but the owner of a folder changes what is in it. */
static void check_owner(const sim_part *part, const char *path)
{
    char folder[PATH_SIZE];
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    const sim_file *file = find(folder);
    CHECK(file != NULL && file->maker == part->process);
}

static int sim_open(void *user, const char *path, int flags, mode_t mode)
{
    sim_part *part = user;
    sim_file *file = find(path);
    int fd = 0;

    (void)mode;
    sim.calls++;
    if ((flags & O_DIRECTORY) != 0) {
        (void)snprintf(part->refreshed, sizeof(part->refreshed), "%s", path);
        part->refreshed_ns = sim.now_ns;
    } else if ((flags & O_CREAT) != 0) {
        check_owner(part, path);
        file = insert(path, part->process, false);
    } else if (!is_seen(part, file)) {
        return -ENOENT;
    }
    if (file == NULL || file->removed_ns != 0)
        return file == NULL ? -ENOENT : -ESTALE;
    while (fd < OPEN_FILES && sim.open[fd] != NULL)
        fd++;
    if (fd == OPEN_FILES) /* descriptors of owners that are packing */
        return -EMFILE;
    sim.open[fd] = file;
    return fd;
}

/* Descriptors that stay open while a unit is packed are kept with the part instead. */
static int sim_close(void *user, int fd)
{
    (void)user;
    sim.open[fd] = NULL;
    return 0;
}

static int64_t sim_pread(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes)
{
    const sim_part *part = user;
    const sim_file *file = sim.open[fd];
    const size_t version =
        file->maker == part->process || sim.now_ns - file->changed_ns >= delay_ns(part) ? 1 : 0;
    const size_t size = file->sizes[version];

    if (offset_bytes >= size)
        return 0;
    if (size_bytes > size - offset_bytes)
        size_bytes = size - (size_t)offset_bytes;
    memcpy(dst, file->contents[version] + offset_bytes, size_bytes);
    return (int64_t)size_bytes;
}

static int64_t sim_pwrite(void *user, int fd, const void *src, size_t size_bytes,
                          uint64_t offset_bytes)
{
    const sim_part *part = user;
    sim_file *file = sim.open[fd];

    sim.calls++;
    CHECK(file->maker == part->process);
    REQUIRE(offset_bytes == 0 && size_bytes <= sizeof(file->contents[0]));
    memcpy(file->contents[0], file->contents[1], sizeof(file->contents[0]));
    file->sizes[0] = file->sizes[1];
    memcpy(file->contents[1], src, size_bytes);
    file->sizes[1] = (uint16_t)size_bytes;
    file->changed_ns = sim.now_ns;
    return (int64_t)size_bytes;
}

static int sim_fsync(void *user, int fd)
{
    (void)user, (void)fd;
    return 0;
}

static int sim_stat(void *user, const char *path, struct stat *ret_stat)
{
    sim.calls++;
    memset(ret_stat, 0, sizeof(*ret_stat));
    return is_seen(user, find(path)) ? 0 : -ENOENT;
}

static int sim_rename(void *user, const char *from, const char *to)
{
    const sim_part *part = user;
    sim_file *source = find(from);

    sim.calls++;
    check_owner(part, to);
    REQUIRE(source != NULL);
    sim_file *target = insert(to, part->process, false);
    memcpy(target->contents, source->contents, sizeof(target->contents));
    memcpy(target->sizes, source->sizes, sizeof(target->sizes));
    target->sizes[0] = target->sizes[1]; /* no older content under this name */
    memcpy(target->contents[0], target->contents[1], sizeof(target->contents[0]));
    for (size_t fd = 0; fd < OPEN_FILES; fd++)
        if (sim.open[fd] == source)
            sim.open[fd] = target;
    source->removed_ns = sim.now_ns;
    return 0;
}

static int remove_name(const sim_part *part, const char *path)
{
    sim_file *file = find(path);
    sim.calls++;
    if (file == NULL || file->removed_ns != 0)
        return -ENOENT;
    CHECK(file->maker == part->process);
    file->removed_ns = sim.now_ns;
    return 0;
}

static int sim_remove(void *user, const char *path)
{
    return remove_name(user, path);
}

static int sim_mkdir(void *user, const char *path, mode_t mode)
{
    const sim_part *part = user;
    const sim_file *file = find(path);

    (void)mode;
    sim.calls++;
    if (file != NULL && file->removed_ns == 0)
        return -EEXIST;
    if (file != NULL && !is_fresh(part, file, file->removed_ns))
        return -EEXIST; /* the client still knows the folder that was removed */
    const bool is_lost = chance(500);
    sim.lost_replies += is_lost ? 1 : 0;
    (void)insert(path, is_lost ? NOBODY : part->process, true);
    return is_lost ? (chance(2) ? -EEXIST : -EIO) : 0;
}

static uint64_t sim_now(void *user)
{
    (void)user;
    return sim.now_ns;
}

static const spsh_io sim_calls = {
    .open_fn = sim_open,
    .close_fn = sim_close,
    .pread_fn = sim_pread,
    .pwrite_fn = sim_pwrite,
    .fsync_fn = sim_fsync,
    .stat_fn = sim_stat,
    .rename_fn = sim_rename,
    .unlink_fn = sim_remove,
    .mkdir_fn = sim_mkdir,
    .rmdir_fn = sim_remove,
};
static const spsh__claim_host sim_host = {NULL, sim_now, NULL, NULL};

/* ---- events ---- */

static void swap_events(size_t a, size_t b)
{
    const sim_event event = sim.heap[a];
    sim.heap[a] = sim.heap[b];
    sim.heap[b] = event;
}

static void schedule(const sim_part *part, uint64_t delay)
{
    if (sim.heap_count == sim.heap_capacity) {
        sim.heap_capacity = sim.heap_capacity * 2 + 64;
        sim.heap = realloc(sim.heap, sim.heap_capacity * sizeof(*sim.heap));
        REQUIRE(sim.heap != NULL);
    }
    size_t at = sim.heap_count++;
    sim.heap[at] = (sim_event){sim.now_ns + delay, part->index, part->process};
    for (; at > 0 && sim.heap[at].at_ns < sim.heap[(at - 1) / 2].at_ns; at = (at - 1) / 2)
        swap_events(at, (at - 1) / 2);
}

static sim_event next_event(void)
{
    const sim_event first = sim.heap[0];
    sim.heap[0] = sim.heap[--sim.heap_count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < sim.heap_count && sim.heap[child].at_ns < sim.heap[least].at_ns)
                least = child;
        if (least == at)
            return first;
        swap_events(at, least);
        at = least;
    }
}

/* ---- parts ---- */

static void start_part(sim_part *part, uint64_t delay)
{
    free(part->pending);
    *part = (sim_part){.index = part->index, .process = ++sim.processes};
    part->share_at = part->index;
    part->claims = (spsh__claims){.io = &sim_calls,
                                  .directory = "d",
                                  .host = &sim_host,
                                  .lease_s = LEASE_S,
                                  .random = part->process};
    (void)snprintf(part->claims.owner, sizeof(part->claims.owner), "%" PRIu32, part->process);
    schedule(part, delay);
}

static bool sees_done(const sim_part *part, uint32_t unit, bool is_refreshed)
{
    const unit_state *u = &sim.units[unit];
    return u->done_ns != 0 && (is_refreshed || u->winner == part->process ||
                               sim.now_ns - u->done_ns >= delay_ns(part));
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

/* Try to claim a unit. True if it is being packed now. false and *ret_fails: the part ends. */
static bool take_unit(sim_part *part, uint32_t unit, spsh__claim_watch *watch, bool *ret_fails)
{
    /* Each part's `io` has the part as its user. */
    spsh_io io = sim_calls;
    spsh__claim_state claimed = SPSH__CLAIM_UNKNOWN;
    char name[32];

    io.user = part;
    part->claims.io = &io;
    (void)snprintf(name, sizeof(name), "unit-%06" PRIu32, unit);
    const spsh_status rc =
        spsh__claim_try(&part->claims, name, watch, &part->claim, &claimed, NULL, NULL);
    bool won = rc == SPSH_OK && claimed == SPSH__CLAIM_WON;
    *ret_fails = rc != SPSH_OK;
    CHECK(rc == SPSH_OK || rc == SPSH_E_IO);
    if (won && part->claim.generation > 1) {
        sim.takeovers++;
        if (sees_done(part, unit, true)) {
            spsh__claim_remove(&part->claim);
            won = false;
        }
    }
    part->unknown += rc == SPSH_OK && claimed == SPSH__CLAIM_UNKNOWN ? 1 : 0;
    if (won) {
        part->unit = unit;
        part->step = PACKING;
        part->work_ns = SECOND * (20 + below(200));
        part->until_ns = sim.now_ns + part->work_ns;
        sim.work_ns += part->work_ns;
        /* Between events, no descriptor is open in the table. */
        sim.open[part->claim.fd] = NULL;
    }
    return won;
}

/* Give the claim a descriptor for a moment. */
static void beat(sim_part *part)
{
    spsh_io io = sim_calls;
    char path[PATH_SIZE];

    (void)snprintf(path, sizeof(path), "d/%.30s/alive", part->claim.folder);
    sim_file *file = find(path);
    REQUIRE(file != NULL);
    io.user = part;
    part->claims.io = &io;
    part->claim.claims = &part->claims;
    part->claim.fd = 0;
    sim.open[0] = file;
    spsh__claim_beat(&part->claim);
    sim.open[0] = NULL;
}

static void finish_unit(sim_part *part)
{
    unit_state *u = &sim.units[part->unit];

    if (u->done_ns == 0) {
        *u = (unit_state){sim.now_ns, part->process};
    } else {
        sim.losers++;
        sim.lost_ns += part->work_ns;
    }
    part->step = SCANNING;
    part->packed = true;
}

/* Look at units until one is claimed or the pass ends. */
static bool visit_share(sim_part *part, bool *ret_fails)
{
    while (part->share_at < sim.unit_count) {
        const uint32_t unit = part->share_at;
        spsh__claim_watch watch = {0};
        part->share_at += sim.part_count;
        if (!sees_done(part, unit, false) && take_unit(part, unit, &watch, ret_fails))
            return true;
        if (*ret_fails)
            return false;
    }
    return false;
}

/* The first pass over all units fills pending; the following passes look only at these. */
static void list_pending(sim_part *part)
{
    const spsh__claim_watch none = {0};

    for (uint32_t i = 0; i < sim.unit_count; i++) {
        const uint32_t unit = (part->index + i) % sim.unit_count;
        if (!sees_done(part, unit, false))
            add_pending(part, unit, &none);
    }
    part->scanned_all = true;
}

static bool visit_pending(sim_part *part, bool *ret_fails)
{
    while (part->pending_at < part->pending_count) {
        pending_unit *pending = &part->pending[part->pending_at];
        if (sees_done(part, pending->unit, false)) {
            *pending = part->pending[--part->pending_count];
            continue;
        }
        part->pending_at++;
        if (take_unit(part, pending->unit, &pending->watch, ret_fails))
            return true;
        if (*ret_fails)
            return false;
    }
    return false;
}

static void scan(sim_part *part)
{
    bool fails = false;

    if (visit_share(part, &fails))
        return;
    if (!fails && !part->scanned_all)
        list_pending(part);
    if (!fails && visit_pending(part, &fails))
        return;
    if (fails) { /* the scheduler starts it again */
        start_part(part, 60 * SECOND);
        return;
    }
    if (part->unknown == 0 && !part->packed) {
        part->step = ENDED;
        return;
    }
    part->pending_at = 0;
    part->unknown = 0;
    part->packed = false;
    schedule(part, 5 * SECOND); /* spsh__pack_wait, but rarer */
}

static void run_part(sim_part *part)
{
    if (chance(1000)) { /* killed; most machines come back */
        sim.deaths++;
        part->step = ENDED;
        if (!chance(4))
            start_part(part, SECOND * below(600));
        return;
    }
    if (part->step == PACKING && sim.now_ns >= part->until_ns)
        finish_unit(part);
    else if (part->step == PACKING)
        beat(part);
    if (part->step == SCANNING)
        scan(part);
    if (part->step != PACKING)
        return;
    const bool pauses = chance(1000);
    const uint64_t next = SECOND * LEASE_S / SPSH__CLAIM_BEATS;
    sim.pauses += pauses ? 1 : 0;
    schedule(part, pauses                               ? SECOND * (LEASE_S + below(900))
                   : part->until_ns < sim.now_ns + next ? part->until_ns - sim.now_ns
                                                        : next);
}

static uint64_t undone(void)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < sim.unit_count; i++)
        count += sim.units[i].done_ns == 0 ? 1 : 0;
    return count;
}

static void run_events(void)
{
    while (sim.heap_count > 0) {
        const sim_event event = next_event();
        sim_part *part = &sim.parts[event.part];
        sim.now_ns = event.at_ns;
        if (event.process == part->process && part->step != ENDED)
            run_part(part);
        if (sim.heap_count == 0 && undone() > 0) { /* the merge names missing units */
            sim.restarts++;
            start_part(&sim.parts[below(sim.part_count)], 0);
        }
        REQUIRE(sim.now_ns < 100 * 24 * 3600 * SECOND);
    }
}

static void free_table(void)
{
    for (uint32_t i = 0; i < TABLE; i++) {
        while (sim.table[i] != NULL) {
            sim_file *file = sim.table[i];
            sim.table[i] = file->next;
            free(file);
        }
    }
    free(sim.table);
}

static void run_once(void)
{
    memset(&sim, 0, sizeof(sim));
    sim.part_count = (uint32_t)part_total;
    sim.unit_count = (uint32_t)unit_total;
    sim.now_ns = SECOND;
    sim.parts = calloc(sim.part_count, sizeof(*sim.parts));
    sim.units = calloc(sim.unit_count, sizeof(*sim.units));
    sim.table = calloc(TABLE, sizeof(sim_file *));
    REQUIRE(sim.parts != NULL && sim.units != NULL && sim.table != NULL);
    (void)insert("d", NOBODY, true);
    for (uint32_t i = 0; i < sim.part_count; i++) {
        sim.parts[i].index = i;
        start_part(&sim.parts[i], SECOND * below(120));
    }
    run_events();
    CHECK_U64(undone(), 0);
    CHECK(sim.lost_ns * 10 < sim.work_ns);
    printf("%.1f h, %" PRIu64 " deaths, %" PRIu64 " pauses, %" PRIu64 " lost replies, %" PRIu64
           " takeovers, %" PRIu64 " restarts by hand, %" PRIu64 " units packed twice (%.3f %% of"
           " the work), %.1f calls per unit\n",
           (double)sim.now_ns / (double)SECOND / 3600, sim.deaths, sim.pauses, sim.lost_replies,
           sim.takeovers, sim.restarts, sim.losers, 100 * (double)sim.lost_ns / (double)sim.work_ns,
           (double)sim.calls / sim.unit_count);
    for (uint32_t i = 0; i < sim.part_count; i++)
        free(sim.parts[i].pending);
    free(sim.parts);
    free(sim.units);
    free(sim.heap);
    free_table();
}

static void test_runs(void)
{
    for (unsigned long run = 0; run < run_total && test_failures == 0; run++)
        run_once();
}

TEST_MAIN(prop_claims)
{
    part_total = argc > 1 ? strtoul(argv[1], NULL, 10) : 20;
    unit_total = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    run_total = argc > 3 ? strtoul(argv[3], NULL, 10) : 100;
    state = test_seed(4711);
    RUN(test_runs);
    return TEST_RESULT();
}
