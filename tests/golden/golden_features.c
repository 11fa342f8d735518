/* golden_features.c: features agree with those that other programs compute from the same samples.
 *
 *     test_features              with every instruction set of this processor
 *
 * tests/golden/features/ has signals, options as text, and rows of values by torchaudio,
 * kaldi-native-fbank, Whisper, librosa and by the formulas of FEATURES.md in double precision;
 * tests/golden/features_reference.py makes them. It documents the lines of vectors.txt and the
 * distance of each program from the formulas. The largest differences are printed.
 */
#include <math.h>

#include "features/featgen_state.h"
#include "spsh_test.h"
#include "test_number.h"

enum { SIGNALS_MAX = 64, SEEN_MAX = 256, NAME_BYTES = 64, WORDS_MAX = 16 };

static const char *const isa_names[] = {"scalar", "sse2", "neon", "avx2", "avx512"};

typedef struct signal {
    char name[NAME_BYTES];
    uint32_t rate_hz;
    size_t count;
    int16_t *samples;
} signal;

/* Largest difference from one program over the cases of one preset, with its tolerance. */
typedef struct seen {
    char preset[NAME_BYTES];
    char who[NAME_BYTES];
    char unit[8];
    uint64_t value_count;
    double difference, share; /* share: of the tolerance */
    char worst_case[NAME_BYTES];
} seen;

typedef struct vectors {
    FILE *pcm, *values;
    signal signals[SIGNALS_MAX];
    size_t signal_count;
    seen table[SEEN_MAX];
    size_t seen_count;
    size_t case_count, isa_count;
    /* name of the current case */
    char name[NAME_BYTES];
    char preset[NAME_BYTES];
    float *rows;
    uint64_t frames;
    uint32_t dim;
} vectors;

static FILE *open_file(const char *name)
{
    char path[1024];
    char relative[NAME_BYTES + 32];
    (void)snprintf(relative, sizeof(relative), "tests/golden/features/%s", name);
    test_source_path(path, sizeof(path), relative);
    FILE *file = fopen(path, "rb");
    REQUIRE(file != NULL);
    return file;
}

static void *new_array(size_t count, size_t element_bytes)
{
    void *memory = calloc(count + 1, element_bytes);
    REQUIRE(memory != NULL);
    return memory;
}

static void read_u16le(FILE *file, uint16_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[2];
        REQUIRE(fread(bytes, 1, sizeof(bytes), file) == sizeof(bytes));
        words[i] = (uint16_t)(bytes[0] | bytes[1] << 8);
    }
}

static uint64_t number(const char *word)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(word, &end, 10);
    REQUIRE(errno == 0 && end != word && *end == '\0');
    return value;
}

static double real(const char *word)
{
    const char *end = NULL;
    const double value = test_number(word, &end);
    REQUIRE(end != word && *end == '\0');
    return value;
}

static void copy_name(char *name, const char *word)
{
    const int length = snprintf(name, NAME_BYTES, "%s", word);
    REQUIRE(length > 0 && length < NAME_BYTES);
}

static void read_signal(vectors *v, char *const *words)
{
    REQUIRE(v->signal_count < SIGNALS_MAX);
    signal *s = &v->signals[v->signal_count++];
    copy_name(s->name, words[1]);
    s->rate_hz = (uint32_t)number(words[2]);
    s->count = (size_t)number(words[3]);
    uint16_t *pcm = new_array(s->count, sizeof(*pcm));
    s->samples = new_array(s->count, sizeof(*s->samples));
    read_u16le(v->pcm, pcm, s->count);
    if (s->count > 0)
        memcpy(s->samples, pcm, s->count * sizeof(*pcm));
    free(pcm);
}

static const signal *find_signal(const vectors *v, const char *name)
{
    const signal *found = NULL;
    for (size_t i = 0; i < v->signal_count; i++)
        if (strcmp(v->signals[i].name, name) == 0)
            found = &v->signals[i];
    REQUIRE(found != NULL);
    return found;
}

static void compute_rows(spsh_featgen *featgen, const spsh__frames_isa *isa,
                         const spsh_feature_input *input, float *rows)
{
    spsh_featgen_worker *worker = NULL;
    spsh_error err = {0};
    featgen->isa = isa; /* before a worker reads it */
    REQUIRE(spsh_featgen_worker_open(featgen, &worker, &err) == SPSH_OK);
    if (spsh_featgen_compute(worker, input, rows, &err) != SPSH_OK) {
        fprintf(stderr, "%s\n", err.message);
        CHECK(false);
    }
    spsh_featgen_worker_close(worker);
}

/* Compute the values of the case in plain C. The other instruction sets, and float input, must
 * produce identical bits. */
static void compute_case(vectors *v, spsh_featgen *featgen, const signal *s)
{
    const size_t value_count = (size_t)v->frames * v->dim;
    const spsh_feature_input input = {.i16 = s->samples, .sample_count = s->count};
    float *again = new_array(value_count, sizeof(*again));
    float *samples = new_array(s->count, sizeof(*samples));
    v->rows = new_array(value_count, sizeof(*v->rows));
    for (size_t i = 0; i < s->count; i++)
        samples[i] = (float)s->samples[i] / 32768.0F;
    const spsh_feature_input floats = {.f32 = samples, .sample_count = s->count};

    v->isa_count = 0;
    for (size_t i = 0; i < sizeof(isa_names) / sizeof(isa_names[0]); i++) {
        const spsh__frames_isa *isa = spsh__frames_isa_named(isa_names[i]);
        if (isa == NULL)
            continue;
        float *rows = v->isa_count++ == 0 ? v->rows : again;
        compute_rows(featgen, isa, &input, rows);
        CHECK(memcmp(v->rows, rows, value_count * sizeof(*rows)) == 0);
        compute_rows(featgen, isa, &floats, again);
        if (memcmp(v->rows, again, value_count * sizeof(*again)) != 0) {
            fprintf(stderr, "%s: %s with float samples\n", v->name, isa->name);
            CHECK(false);
        }
    }
    CHECK(v->isa_count > 0);
    free(again);
    free(samples);
}

static void read_case(vectors *v, char *const *words)
{
    const char *text = words[5];
    const uint64_t frames = number(words[3]);
    spsh_error err = {0};
    spsh_feature_options options = SPSH_FEATURE_OPTIONS_INIT;
    spsh_featgen *featgen = NULL;
    free(v->rows);
    v->rows = NULL;
    copy_name(v->name, words[1]);
    (void)snprintf(v->preset, sizeof(v->preset), "%.*s", (int)strcspn(text, ","), text);
    v->dim = (uint32_t)number(words[4]);
    const signal *s = find_signal(v, words[2]);
    v->case_count++;
    if (spsh_feature_options_parse(text, &options, &err) != SPSH_OK) {
        fprintf(stderr, "%s: %s\n", v->name, err.message);
        REQUIRE(false);
    }
    CHECK_U64(options.sample_rate_hz, s->rate_hz);
    REQUIRE(spsh_featgen_open(&options, NULL, &featgen, &err) == SPSH_OK);
    v->frames = spsh_featgen_frame_count(featgen, s->count);
    if (v->frames != frames || spsh_featgen_dim(featgen) != v->dim) {
        fprintf(stderr, "%s: %" PRIu64 " frames of %u, not of %" PRIu64 "\n", v->name, v->frames,
                spsh_featgen_dim(featgen), frames);
        REQUIRE(false);
    }
    compute_case(v, featgen, s);
    spsh_featgen_close(featgen);
}

static seen *seen_of(vectors *v, const char *who, const char *unit)
{
    for (size_t i = 0; i < v->seen_count; i++)
        if (strcmp(v->table[i].preset, v->preset) == 0 && strcmp(v->table[i].who, who) == 0 &&
            strcmp(v->table[i].unit, unit) == 0)
            return &v->table[i];
    REQUIRE(v->seen_count < SEEN_MAX);
    seen *found = &v->table[v->seen_count++];
    (void)snprintf(found->preset, sizeof(found->preset), "%s", v->preset);
    (void)snprintf(found->who, sizeof(found->who), "%s", who);
    (void)snprintf(found->unit, sizeof(found->unit), "%s", unit);
    return found;
}

static float read_f32le(FILE *file)
{
    uint16_t halves[2];
    float value = 0;
    read_u16le(file, halves, 2);
    const uint32_t bits = halves[0] | (uint32_t)halves[1] << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void read_values(vectors *v, char *const *words)
{
    const char *who = words[1];
    const char *unit = words[2];
    const double tolerance = real(words[3]);
    const uint64_t first = number(words[4]);
    const uint64_t count = number(words[5]);
    const uint64_t step = number(words[6]);
    const uint32_t column = (uint32_t)number(words[7]);
    double difference = 0;
    double largest = 0;
    REQUIRE(v->rows != NULL && count > 0 && first + (count - 1) * step < v->frames);
    for (uint64_t k = 0; k < count; k++) {
        const float *row = v->rows + (size_t)(first + k * step) * v->dim;
        for (uint32_t d = column; d < v->dim; d++) {
            const double wanted = (double)read_f32le(v->values);
            const double apart = fabs((double)row[d] - wanted);
            difference = isnan(difference) || apart <= difference ? difference : apart;
            largest = fmax(largest, fabs(wanted));
        }
    }
    if (strcmp(unit, "rel") == 0 && largest > 0)
        difference /= largest;
    seen *s = seen_of(v, who, unit);
    s->value_count += count * (v->dim - column);
    if (!(difference / tolerance <= s->share)) {
        s->share = difference / tolerance;
        (void)snprintf(s->worst_case, sizeof(s->worst_case), "%s", v->name);
    }
    s->difference = fmax(s->difference, difference);
    if (!(difference <= tolerance)) {
        fprintf(stderr, "%s: %g from %s, %g is allowed\n", v->name, difference, who, tolerance);
        CHECK(false);
    }
}

static void print_table(const vectors *v)
{
    printf("%-15s %-11s %8s %11s %4s  %s\n", "preset", "who", "values", "difference", "unit",
           "nearest to its tolerance");
    for (size_t i = 0; i < v->seen_count; i++) {
        const seen *s = &v->table[i];
        printf("%-15s %-11s %8" PRIu64 " %11.2e %4s  %.2f %s\n", s->preset, s->who, s->value_count,
               s->difference, s->unit, s->share, s->worst_case);
    }
    printf("%zu cases, %zu instruction sets\n", v->case_count, v->isa_count);
}

static void read_line(vectors *v, char *line)
{
    char *words[WORDS_MAX];
    char *rest = NULL;
    size_t count = 0;
    for (char *word = strtok_r(line, " \n", &rest); word != NULL;
         word = strtok_r(NULL, " \n", &rest)) {
        if (count < WORDS_MAX)
            words[count] = word;
        count++;
    }
    REQUIRE(count > 0);
    if (words[0][0] == '#')
        return;
    if (strcmp(words[0], "signal") == 0 && count == 4)
        read_signal(v, words);
    else if (strcmp(words[0], "case") == 0 && count == 6)
        read_case(v, words);
    else if (strcmp(words[0], "values") == 0 && count == 8)
        read_values(v, words);
    else
        REQUIRE(false);
}

static void test_vectors(void)
{
    static vectors v;
    char line[SPSH_FEATURE_TEXT_BYTES_MAX + 256];
    FILE *text = open_file("vectors.txt");
    v.pcm = open_file("signals.i16");
    v.values = open_file("values.f32");
    while (fgets(line, sizeof(line), text) != NULL)
        read_line(&v, line);
    CHECK(v.case_count > 50);
    CHECK(fgetc(v.pcm) == EOF && fgetc(v.values) == EOF); /* both files were read to the end */
    print_table(&v);
    free(v.rows);
    for (size_t i = 0; i < v.signal_count; i++)
        free(v.signals[i].samples);
    (void)fclose(text);
    (void)fclose(v.pcm);
    (void)fclose(v.values);
}

TEST_MAIN(golden_features)
{
    RUN(test_vectors);
    return TEST_RESULT();
}
