/* checkpoint_file.c: one checkpoint as sections of a container (FORMAT.md 10), and back.
 *
 * The reader maps the file, checks all its pages, and then checks every rule. Borrowed pointers
 * into the mapping are therefore safe to use. Strings and parameters are small: they are copied
 * into the form that the trainer uses. Floats are borrowed in their stored form: little-endian.
 */
#include "checkpoint_internal.h"

#include <stdio.h>
#include <xxhash.h>

#include "base/double_bits.h"
#include "speechshard/inside.h"
#include "speechshard/table_file.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints lend little-endian floats from a mapping"
#endif

#define ULL(value_) ((unsigned long long)(value_))

enum {
    VERSION = 1,
    SECTION_VERSION = 1,
    SECTION_CONFIG = 2,
    SECTION_VOCABULARY = 3,
    SECTION_COUNTERS = 4,
    SECTION_PARAMETERS = 8,
    SECTION_WEIGHTS = 32,
    SECTION_MOMENTS = 33, /* 33 and 34 */
    SECTION_STATISTICS = 35,
    SECTION_CURSOR = 48,
    SECTION_STRATEGY = 49,
    SECTIONS = 11,
};

enum { /* indices in the section of counters */
       SAMPLES,
       STEP,
       EPOCH,
       GENERATION,
       BEST_SAMPLES,
       BEST_METRIC,
       WORLD_SIZE,
       VIRTUAL_WORLD,
       NEXT_BATCH_HASH,
       WEIGHTS_HASH,
       WALL_SECONDS,
       AUDIO_SECONDS,
       RESTARTS,
       COUNTERS
};

enum {
    ENTRY_BYTES = 112, /* bytes per parameter */
    ENTRY_NAME_BYTES = 64,
    ENTRY_ELEMENTS = ENTRY_BYTES / 16,
    PARAMETERS_MAX = 65536,
    FLAG_DECAYS = 1,
};

static const uint64_t elements_max = UINT64_C(1) << 40;

struct spsh__checkpoint_file {
    spsh_allocator allocator;
    spsh_table_file *table;
    char *config, *vocabulary;
    spsh__parameter *parameters;
};

uint64_t spsh__checkpoint_hash(const float *elements, uint64_t count)
{
    return XXH3_64bits(elements, (size_t)count * sizeof(*elements));
}

/* ---- rules for reading and writing ---- */

/* Return the error in the shape, or NULL if it is valid. The product of its dimensions is the
 * count. */
static const char *find_bad_shape(const spsh__parameter *p)
{
    uint64_t product = 1;
    if (p->rank < 1 || p->rank > 4)
        return "its rank is not in the range 1 to 4";
    for (uint32_t i = 0; i < p->rank; i++) {
        if (p->shape[i] == 0 || product > elements_max / p->shape[i])
            return "its shape has a zero or is too large";
        product *= p->shape[i];
    }
    return product == p->count ? NULL : "its element count differs from the product of its shape";
}

/* *end: end of the previous parameter on entry, end of this parameter on return. */
static const char *find_bad_parameter(const spsh__parameter *p, uint64_t arena_elements,
                                      uint64_t *end)
{
    const char *bad = find_bad_shape(p);
    if (bad != NULL)
        return bad;
    if (p->name[0] == '\0' || memchr(p->name, '\0', sizeof(p->name)) == NULL)
        return "its name is empty or longer than 63 bytes";
    if (p->offset < *end)
        return "it overlaps the parameter before it";
    if (p->offset > arena_elements || p->count > arena_elements - p->offset)
        return "it extends past the end of the weights";
    *end = p->offset + p->count;
    return NULL;
}

spsh_status spsh__checkpoint_check(const spsh__checkpoint *c, spsh_error *err)
{
    const char *bad = NULL;
    uint64_t end = 0;
    if (c->config == NULL || c->vocabulary == NULL)
        bad = "configuration or vocabulary is missing";
    else if (c->weights == NULL || c->arena_elements == 0 || c->arena_elements > elements_max ||
             c->statistics_elements > elements_max)
        bad = "arena";
    else if (c->statistics_elements != 0 && c->statistics == NULL)
        bad = "statistics are missing";
    else if (c->parameters == NULL || c->parameter_count > PARAMETERS_MAX)
        bad = "parameters";
    else if ((c->cursor_size != 0 && c->cursor == NULL) ||
             (c->strategy_size != 0 && c->strategy == NULL))
        bad = "cursor or strategy is missing";
    for (uint32_t i = 0; bad == NULL && i < c->parameter_count; i++)
        bad = find_bad_parameter(&c->parameters[i], c->arena_elements, &end);
    if (bad != NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "cannot write a checkpoint: %s", bad);
    return SPSH_OK;
}

/* ---- writing ---- */

static void encode_parameter(const spsh__parameter *p, uint8_t *entry)
{
    memset(entry, 0, ENTRY_BYTES);
    memcpy(entry, p->name, strlen(p->name));
    spsh__store_u64le(entry + 64, p->offset);
    spsh__store_u64le(entry + 72, p->count);
    for (uint32_t i = 0; i < p->rank; i++)
        spsh__store_u32le(entry + 80 + 4 * (size_t)i, p->shape[i]);
    spsh__store_u32le(entry + 96, p->rank);
    spsh__store_u32le(entry + 100, p->decays ? FLAG_DECAYS : 0);
}

static void encode_counters(const spsh__checkpoint *c, uint64_t counters[COUNTERS])
{
    counters[SAMPLES] = c->samples;
    counters[STEP] = c->step;
    counters[EPOCH] = c->epoch;
    counters[GENERATION] = c->generation;
    counters[BEST_SAMPLES] = c->best_samples;
    counters[BEST_METRIC] = spsh__bits_of_double(c->best_metric);
    counters[WORLD_SIZE] = c->world_size;
    counters[VIRTUAL_WORLD] = c->virtual_world;
    counters[NEXT_BATCH_HASH] = c->next_batch_hash;
    counters[WEIGHTS_HASH] = c->weights_hash;
    counters[WALL_SECONDS] = spsh__bits_of_double(c->wall_seconds);
    counters[AUDIO_SECONDS] = spsh__bits_of_double(c->audio_seconds);
    counters[RESTARTS] = c->restarts;
}

/* The identifier depends on the content, so that pages of two files with the same name are not
 * mixed up. */
static spsh_status make_file_id(const spsh__checkpoint *c, uint8_t file_id[16], spsh_error *err)
{
    uint8_t numbers[24];
    XXH128_canonical_t canonical;
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "checkpoint: hash");
    spsh__store_u64le(numbers, c->generation);
    spsh__store_u64le(numbers + 8, c->samples);
    spsh__store_u64le(numbers + 16, c->weights_hash);
    (void)XXH3_128bits_reset(state);
    (void)XXH3_128bits_update(state, numbers, sizeof(numbers));
    (void)XXH3_128bits_update(state, c->config, strlen(c->config));
    (void)XXH3_128bits_update(state, c->vocabulary, strlen(c->vocabulary));
    (void)XXH3_128bits_update(state, "checkpoint", 10);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    (void)XXH3_freeState(state);
    memcpy(file_id, canonical.digest, 16);
    return SPSH_OK;
}

static spsh_status publish(const char *folder, const spsh__checkpoint *c, const uint8_t *entries,
                           const spsh_io *io, const spsh_allocator *allocator, spsh_error *err)
{
    uint32_t version = VERSION;
    uint64_t counters[COUNTERS];
    char name[SPSH__CHECKPOINT_NAME_BYTES];
    encode_counters(c, counters);
    spsh__checkpoint_name((spsh__checkpoint_place){(uint32_t)c->generation, c->samples}, name);
    const uint64_t first = c->moments[0] != NULL ? c->arena_elements : 0;
    const uint64_t second = c->moments[1] != NULL ? c->arena_elements : 0;
    const spsh_table_column columns[SECTIONS] = {
        {SECTION_VERSION,     4,  1,                                             &version     },
        {SECTION_CONFIG,      1,  strlen(c->config),                             c->config    },
        {SECTION_VOCABULARY,  1,  strlen(c->vocabulary),                         c->vocabulary},
        {SECTION_COUNTERS,    8,  COUNTERS,                                      counters     },
        {SECTION_PARAMETERS,  16, (uint64_t)c->parameter_count * ENTRY_ELEMENTS, entries      },
        {SECTION_WEIGHTS,     4,  c->arena_elements,                             c->weights   },
        {SECTION_MOMENTS,     4,  first,                                         c->moments[0]},
        {SECTION_MOMENTS + 1, 4,  second,                                        c->moments[1]},
        {SECTION_STATISTICS,  4,  c->statistics_elements,                        c->statistics},
        {SECTION_CURSOR,      1,  c->cursor_size,                                c->cursor    },
        {SECTION_STRATEGY,    1,  c->strategy_size,                              c->strategy  },
    };
    spsh_table_file_content content = {
        .directory = folder,
        .name = name,
        .info = {.kind = SPSH_TABLE_CHECKPOINT,
                 .unit = c->samples,
                 .number = (uint32_t)c->generation},
        .columns = columns,
        .column_count = SECTIONS,
        .mode = SPSH_PUBLISH_REPLACE,
        .allocator = allocator,
    };
    const spsh_status rc = make_file_id(c, content.info.file_id, err);
    return rc == SPSH_OK ? spsh_table_file_publish(&content, io, err) : rc;
}

spsh_status spsh__checkpoint_write(const char *folder, const spsh__checkpoint *c, const spsh_io *io,
                                   const spsh_allocator *allocator, spsh_error *err)
{
    uint8_t *entries = (uint8_t *)spsh__new(allocator, (size_t)c->parameter_count + 1, ENTRY_BYTES);
    if (entries == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: parameters", folder);
    for (uint32_t i = 0; i < c->parameter_count; i++)
        encode_parameter(&c->parameters[i], entries + (size_t)i * ENTRY_BYTES);
    const spsh_status rc = publish(folder, c, entries, io, allocator, err);
    spsh__free(allocator, entries);
    return rc;
}

/* ---- reading ---- */

static spsh_status fail_rule(const spsh__checkpoint_file *file, const char *what, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: invalid checkpoint: %s",
                     spsh_table_file_path(file->table), what);
}

/* Reads a whole section. Its width and, unless count is UINT64_MAX, its count must equal the
 * arguments. */
static spsh_status load_section(const spsh__checkpoint_file *file, uint32_t id, uint32_t width,
                                uint64_t count, spsh_bytes *ret, spsh_error *err)
{
    spsh_status rc = spsh_table_file_require(file->table, id, width, count, err);
    if (rc == SPSH_OK)
        rc = spsh_table_file_column(file->table, id, 0, spsh_table_file_count(file->table, id), ret,
                                    err);
    return rc;
}

static spsh_status load_version(const spsh__checkpoint_file *file, spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    const spsh_status rc = load_section(file, SECTION_VERSION, 4, 1, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    const uint32_t version = spsh__load_u32le(bytes.data);
    if (version != VERSION)
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "%s: checkpoint version %u, but this program reads version %d",
                         spsh_table_file_path(file->table), version, VERSION);
    return SPSH_OK;
}

static spsh_status load_text(const spsh__checkpoint_file *file, uint32_t id, char **ret_text,
                             spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    const spsh_status rc = load_section(file, id, 1, UINT64_MAX, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (bytes.size_bytes != 0 && memchr(bytes.data, '\0', bytes.size_bytes) != NULL)
        return fail_rule(file, "configuration or vocabulary contains a zero byte", err);
    char *text = (char *)spsh__new(&file->allocator, bytes.size_bytes + 1, 1);
    if (text == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: configuration or vocabulary of %zu bytes",
                         spsh_table_file_path(file->table), bytes.size_bytes);
    if (bytes.size_bytes != 0)
        memcpy(text, bytes.data, bytes.size_bytes);
    *ret_text = text;
    return SPSH_OK;
}

static spsh_status load_counters(const spsh__checkpoint_file *file, spsh__checkpoint *c,
                                 spsh_error *err)
{
    uint64_t counters[COUNTERS];
    spsh_bytes bytes = {NULL, 0};
    const spsh_table_file_info *info = spsh_table_file_info_get(file->table);
    const spsh_status rc = load_section(file, SECTION_COUNTERS, 8, COUNTERS, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    memcpy(counters, bytes.data, sizeof(counters));
    if (counters[SAMPLES] != info->unit || counters[GENERATION] != info->number)
        return fail_rule(file, "sample count or generation differs from the file header", err);
    if (counters[WORLD_SIZE] > UINT32_MAX || counters[VIRTUAL_WORLD] > UINT32_MAX)
        return fail_rule(file, "the world size is too large", err);
    c->samples = counters[SAMPLES];
    c->step = counters[STEP];
    c->epoch = counters[EPOCH];
    c->generation = counters[GENERATION];
    c->best_samples = counters[BEST_SAMPLES];
    c->best_metric = spsh__double_of_bits(counters[BEST_METRIC]);
    c->world_size = (uint32_t)counters[WORLD_SIZE];
    c->virtual_world = (uint32_t)counters[VIRTUAL_WORLD];
    c->next_batch_hash = counters[NEXT_BATCH_HASH];
    c->weights_hash = counters[WEIGHTS_HASH];
    c->wall_seconds = spsh__double_of_bits(counters[WALL_SECONDS]);
    c->audio_seconds = spsh__double_of_bits(counters[AUDIO_SECONDS]);
    c->restarts = counters[RESTARTS];
    return SPSH_OK;
}

/* Return the error in the entry's bytes past the values; NULL: no error. */
static const char *decode_parameter(const uint8_t *entry, spsh__parameter *p)
{
    static const uint8_t zeros[ENTRY_BYTES];
    memcpy(p->name, entry, ENTRY_NAME_BYTES);
    p->offset = spsh__load_u64le(entry + 64);
    p->count = spsh__load_u64le(entry + 72);
    for (uint32_t i = 0; i < 4; i++)
        p->shape[i] = spsh__load_u32le(entry + 80 + 4 * (size_t)i);
    p->rank = spsh__load_u32le(entry + 96);
    p->decays = spsh__load_u32le(entry + 100) == FLAG_DECAYS;
    const size_t name_bytes = strnlen(p->name, ENTRY_NAME_BYTES);
    if (memcmp(entry + name_bytes, zeros, ENTRY_NAME_BYTES - name_bytes) != 0)
        return "nonzero bytes after its name";
    for (uint32_t i = p->rank; i < 4; i++)
        if (p->shape[i] != 0)
            return "nonzero dimensions after its rank";
    if (spsh__load_u32le(entry + 100) > FLAG_DECAYS || memcmp(entry + 104, zeros, 8) != 0)
        return "unknown flags or nonzero reserved bytes";
    return NULL;
}

static spsh_status load_parameters(spsh__checkpoint_file *file, spsh__checkpoint *c,
                                   spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    uint64_t end = 0;
    const spsh_status rc = load_section(file, SECTION_PARAMETERS, 16, UINT64_MAX, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (bytes.size_bytes % ENTRY_BYTES != 0 || bytes.size_bytes / ENTRY_BYTES > PARAMETERS_MAX)
        return fail_rule(file, "the parameter section has an invalid size", err);
    const size_t count = bytes.size_bytes / ENTRY_BYTES;
    file->parameters =
        (spsh__parameter *)spsh__new(&file->allocator, count + 1, sizeof(spsh__parameter));
    if (file->parameters == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: %zu parameters",
                         spsh_table_file_path(file->table), count);
    for (size_t i = 0; i < count; i++) {
        spsh__parameter *p = &file->parameters[i];
        const char *bad = decode_parameter(bytes.data + i * ENTRY_BYTES, p);
        if (bad == NULL)
            bad = find_bad_parameter(p, c->arena_elements, &end);
        if (bad != NULL)
            return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: invalid checkpoint: parameter %zu: %s",
                             spsh_table_file_path(file->table), i, bad);
    }
    c->parameters = file->parameters;
    c->parameter_count = (uint32_t)count;
    return SPSH_OK;
}

/* Sections start at multiples of 64 bytes of a mapping, so floats can be used in place. */
static spsh_status load_floats(const spsh__checkpoint_file *file, uint32_t id,
                               const float **ret_floats, uint64_t *ret_count, spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    const spsh_status rc = load_section(file, id, 4, UINT64_MAX, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_count = bytes.size_bytes / 4;
    *ret_floats = *ret_count == 0 ? NULL : (const float *)(const void *)bytes.data;
    return SPSH_OK;
}

static spsh_status load_arenas(const spsh__checkpoint_file *file, spsh__checkpoint *c,
                               spsh_error *err)
{
    spsh_status rc = load_floats(file, SECTION_WEIGHTS, &c->weights, &c->arena_elements, err);
    for (uint32_t i = 0; i < 2 && rc == SPSH_OK; i++) {
        uint64_t count = 0;
        rc = load_floats(file, SECTION_MOMENTS + i, &c->moments[i], &count, err);
        if (rc == SPSH_OK && count != 0 && count != c->arena_elements)
            rc = fail_rule(file, "the number of moments differs from the number of weights", err);
    }
    if (rc == SPSH_OK)
        rc = load_floats(file, SECTION_STATISTICS, &c->statistics, &c->statistics_elements, err);
    if (rc == SPSH_OK && c->arena_elements == 0)
        rc = fail_rule(file, "it has no weights", err);
    if (rc == SPSH_OK && spsh__checkpoint_hash(c->weights, c->arena_elements) != c->weights_hash)
        rc = fail_rule(file, "the hash of the weights is wrong", err);
    return rc;
}

static spsh_status load_bytes(const spsh__checkpoint_file *file, spsh__checkpoint *c,
                              spsh_error *err)
{
    spsh_bytes cursor = {NULL, 0};
    spsh_bytes strategy = {NULL, 0};
    spsh_status rc = load_section(file, SECTION_CURSOR, 1, UINT64_MAX, &cursor, err);
    if (rc == SPSH_OK)
        rc = load_section(file, SECTION_STRATEGY, 1, UINT64_MAX, &strategy, err);
    if (rc != SPSH_OK)
        return rc;
    c->cursor = cursor.data;
    c->cursor_size = cursor.size_bytes;
    c->strategy = strategy.data;
    c->strategy_size = strategy.size_bytes;
    return SPSH_OK;
}

static spsh_status load(spsh__checkpoint_file *file, spsh__checkpoint *c, spsh_error *err)
{
    spsh_status rc = spsh_table_file_check(file->table, err);
    if (rc == SPSH_OK)
        rc = load_version(file, err);
    if (rc == SPSH_OK)
        rc = load_counters(file, c, err);
    if (rc == SPSH_OK)
        rc = load_text(file, SECTION_CONFIG, &file->config, err);
    if (rc == SPSH_OK)
        rc = load_text(file, SECTION_VOCABULARY, &file->vocabulary, err);
    if (rc == SPSH_OK)
        rc = load_arenas(file, c, err);
    if (rc == SPSH_OK)
        rc = load_parameters(file, c, err);
    if (rc == SPSH_OK)
        rc = load_bytes(file, c, err);
    c->config = file->config;
    c->vocabulary = file->vocabulary;
    return rc;
}

spsh_status spsh__checkpoint_read(const char *path, const spsh_io *io,
                                  const spsh_allocator *allocator, spsh__checkpoint_file **ret_file,
                                  spsh__checkpoint *ret, spsh_error *err)
{
    spsh__checkpoint c = {0};
    spsh__checkpoint_file *file = (spsh__checkpoint_file *)spsh__new(allocator, 1, sizeof(*file));
    if (file == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: checkpoint", path);
    file->allocator = *allocator;
    spsh_status rc =
        spsh_table_file_open_kind(path, SPSH_TABLE_CHECKPOINT, io, allocator, &file->table, err);
    if (rc == SPSH_OK)
        rc = load(file, &c, err);
    if (rc != SPSH_OK)
        goto out;
    *ret = c;
    *ret_file = file;
    file = NULL;
out:
    spsh__checkpoint_close(file);
    return rc;
}

void spsh__checkpoint_close(spsh__checkpoint_file *file)
{
    if (file == NULL)
        return;
    const spsh_allocator allocator = file->allocator;
    spsh_table_file_close(file->table);
    spsh__free(&allocator, file->config);
    spsh__free(&allocator, file->vocabulary);
    spsh__free(&allocator, file->parameters);
    spsh__free(&allocator, file);
}

/* ---- comparison with a model ---- */

static bool same_parameter(const spsh__parameter *a, const spsh__parameter *b)
{
    bool same = strcmp(a->name, b->name) == 0 && a->rank == b->rank && a->offset == b->offset &&
                a->count == b->count;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

/* "[1024, 672]" */
static void shape_text(const spsh__parameter *p, char text[64])
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < p->rank && i < 4; i++)
        at += (size_t)snprintf(text + at, 64 - at, "%s%u", i == 0 ? "[" : ", ", p->shape[i]);
    (void)snprintf(text + at, 64 - at, "]");
}

spsh_status spsh__checkpoint_match(const spsh__checkpoint *c, const spsh__parameter *parameters,
                                   uint32_t count, uint64_t arena_elements,
                                   uint64_t statistics_elements, spsh_error *err)
{
    char shapes[2][64];
    for (uint32_t i = 0; i < count && i < c->parameter_count; i++) {
        const spsh__parameter *theirs = &c->parameters[i];
        if (same_parameter(theirs, &parameters[i]))
            continue;
        shape_text(theirs, shapes[0]);
        shape_text(&parameters[i], shapes[1]);
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "the checkpoint is of a different model: its parameter %u is %s %s at "
                         "offset %llu, but the model has %s %s at offset %llu",
                         i, theirs->name, shapes[0], ULL(theirs->offset), parameters[i].name,
                         shapes[1], ULL(parameters[i].offset));
    }
    if (count != c->parameter_count || arena_elements != c->arena_elements ||
        statistics_elements != c->statistics_elements)
        return SPSH_FAIL(
            err, SPSH_E_MISMATCH,
            "the checkpoint is of a different model: it has %u parameters with %llu elements, and "
            "%llu statistics; the model has %u parameters with %llu elements, and %llu statistics",
            c->parameter_count, ULL(c->arena_elements), ULL(c->statistics_elements), count,
            ULL(arena_elements), ULL(statistics_elements));
    return SPSH_OK;
}
