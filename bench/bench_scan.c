/* bench_scan.c: how many utterances per second each layout finds, and in how much memory.
 *
 *     bench_scan make KIND ROWS FOLDER     a corpus of that layout; clips are hard links
 *     bench_scan scan LAYOUT ROOT          a line of JSON; bench/scan.sh runs it for all
 *
 * Kinds are common-voice, mls, table, audiofolder, nemo, kaldi and kaldi-shuffled. All but mls name
 * the clips in FOLDER/clips, which are made once. A scan is everything that pack does before it
 * reads audio, except sorting the results: folders, rows, ids, and one stat per clip if the layout
 * needs it. The results are counted and dropped.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_kit.h"
#include "ingest/layouts/layouts.h"

#define LINKS_MAX 60000U /* links per file; ext4 allows 65000 */
#define PARTS     2000U  /* speakers of the corpus with a folder per speaker */
#define BOOKS     10U

static const char *const words[] = {"the",   "of",     "water", "station", "seven",    "morning",
                                    "never", "caught", "a",     "people",  "mountain", "quietly",
                                    "and",   "yellow", "to",    "bridge"};

static char folder[3072];
static uint64_t rows;
static uint64_t order_key; /* step between adjacent rows of a file; 0: in order */

static const char *path_in(const char *name)
{
    static char path[4096];
    must(snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path), "path");
    return path;
}

static FILE *create(const char *name)
{
    FILE *file = fopen(path_in(name), "wb");
    must(file != NULL, name);
    return file;
}

static void finish(FILE *file)
{
    must(fclose(file) == 0, "writing");
}

static void make_folder(const char *name)
{
    must(mkdir(path_in(name), 0777) == 0 || errno == EEXIST, name);
}

/* 30 ms of noise as a WAV file: audio that can be packed, but takes little time to read. */
static void write_seed(const char *path, uint64_t number)
{
    static const uint8_t head[44] = {'R', 'I', 'F',  'F',  4,   2,   0,    0,    'W', 'A', 'V',
                                     'E', 'f', 'm',  't',  ' ', 16,  0,    0,    0,   1,   0,
                                     1,   0,   0x40, 0x1f, 0,   0,   0x80, 0x3e, 0,   0,   2,
                                     0,   16,  0,    'd',  'a', 't', 'a',  0xe0, 1,   0,   0};
    uint8_t file[sizeof(head) + 480];
    uint64_t state = number + 1;
    memcpy(file, head, sizeof(head));
    for (size_t i = sizeof(head); i < sizeof(file); i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        file[i] = (uint8_t)(state >> 56);
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    must(fd >= 0 && write(fd, file, sizeof(file)) == (ssize_t)sizeof(file) && close(fd) == 0, path);
}

/* Make a clip: a link with this name to one of a few hundred files. */
static void make_clip(const char *seeds, const char *name, uint64_t number)
{
    char seed[5000];
    (void)snprintf(seed, sizeof(seed), "%s/%s/%" PRIu64, folder, seeds, number / LINKS_MAX);
    if (number % LINKS_MAX == 0)
        write_seed(seed, number);
    must(link(seed, path_in(name)) == 0, name);
}

static void make_clips(void)
{
    char name[64];
    struct stat info;
    if (stat(path_in("clips"), &info) == 0)
        return;
    make_folder("seeds");
    make_folder("clips");
    for (uint64_t i = 0; i < rows; i++) {
        (void)snprintf(name, sizeof(name), "clips/common_voice_en_%08" PRIu64 ".mp3", i);
        make_clip("seeds", name, i);
    }
}

/* Number of the row at a position of the file. A permutation: order_key and rows are coprime. */
static uint64_t row_at(uint64_t place)
{
    return order_key == 0 ? place : place * order_key % rows;
}

static void print_text(FILE *file, uint64_t row)
{
    uint64_t bits = mix64(row);
    for (unsigned i = 0; i < 9; i++, bits >>= 4)
        fprintf(file, "%s%s", i == 0 ? "" : " ", words[bits & 15]);
}

/* 13 columns, as in Common Voice from 17.0 on. prefix: put before each path. */
static void make_table(const char *name, const char *prefix, uint64_t step)
{
    FILE *file = create(name);
    fputs("client_id\tpath\tsentence_id\tsentence\tsentence_domain\tup_votes\tdown_votes\tage\t"
          "gender\taccents\tvariant\tlocale\tsegment\n",
          file);
    for (uint64_t i = 0; i < rows; i += step) {
        const uint64_t id = mix64(i / 64);
        for (unsigned part = 0; part < 8; part++)
            fprintf(file, "%016" PRIx64, mix64(id + part));
        fprintf(file, "\t%scommon_voice_en_%08" PRIu64 ".mp3\t%016" PRIx64 "%016" PRIx64 "\t",
                prefix, i, mix64(i), mix64(i + 1));
        print_text(file, i);
        fputs("\t\t2\t0\ttwenties\tmale_masculine\tUnited States English\t\ten\t\n", file);
    }
    finish(file);
}

static void make_common_voice(void)
{
    make_clips();
    make_table("validated.tsv", "", 1);
    make_table("train.tsv", "", 4);
}

static void make_audiofolder(void)
{
    make_clips();
    FILE *file = create("metadata.csv");
    fputs("file_name,transcription,speaker_id,language\n", file);
    for (uint64_t i = 0; i < rows; i++) {
        fprintf(file, "clips/common_voice_en_%08" PRIu64 ".mp3,\"", i);
        print_text(file, i);
        fprintf(file, "\",speaker-%" PRIu64 ",en\n", i / 64);
    }
    finish(file);
}

static void make_nemo(void)
{
    make_clips();
    FILE *file = create("manifest.json");
    for (uint64_t i = 0; i < rows; i++) {
        fprintf(file,
                "{\"audio_filepath\": \"clips/common_voice_en_%08" PRIu64
                ".mp3\", \"duration\": %" PRIu64 ".%03" PRIu64 ", \"text\": \"",
                i, 4 + i % 11, i % 1000);
        print_text(file, i);
        fprintf(file, "\", \"lang\": \"en\", \"speaker\": \"speaker-%" PRIu64 "\"}\n", i / 64);
    }
    finish(file);
}

/* Make a Kaldi directory. wav.scp is sorted. is_shuffled: text and utt2spk are not. */
static void make_kaldi(const char *name, bool is_shuffled)
{
    static const char *const files[] = {"wav.scp", "text", "utt2spk"};
    make_clips();
    make_folder(name);
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s/%s", name, files[f]);
        FILE *file = create(path);
        order_key = is_shuffled && f > 0 ? UINT64_C(2654435761) : 0;
        for (uint64_t i = 0; i < rows; i++) {
            const uint64_t row = row_at(i);
            fprintf(file, "speaker%08" PRIu64 "-%08" PRIu64 " ", row / 64, row);
            if (f == 0)
                fprintf(file, "clips/common_voice_en_%08" PRIu64 ".mp3", row);
            else if (f == 1)
                print_text(file, row);
            else
                fprintf(file, "speaker%08" PRIu64, row / 64);
            fputc('\n', file);
        }
        finish(file);
    }
}

static void make_mls(void)
{
    char path[128];
    uint64_t number = 0;
    const uint64_t clips = rows / PARTS / BOOKS + 1; /* clips per book */
    make_folder("mls-seeds");
    make_folder("mls");
    make_folder("mls/train");
    make_folder("mls/train/audio");
    FILE *texts = create("mls/train/transcripts.txt");
    FILE *segments = create("mls/train/segments.txt");
    for (unsigned speaker = 0; speaker < PARTS && number < rows; speaker++) {
        (void)snprintf(path, sizeof(path), "mls/train/audio/%u", speaker);
        make_folder(path);
        for (unsigned book = 0; book < BOOKS && number < rows; book++) {
            (void)snprintf(path, sizeof(path), "mls/train/audio/%u/%u", speaker, book);
            make_folder(path);
            for (uint64_t i = 0; i < clips && number < rows; i++, number++) {
                (void)snprintf(path, sizeof(path), "mls/train/audio/%u/%u/%u_%u_%06" PRIu64 ".flac",
                               speaker, book, speaker, book, i);
                make_clip("mls-seeds", path, number);
                fprintf(texts, "%u_%u_%06" PRIu64 "\t", speaker, book, i);
                print_text(texts, number);
                fprintf(segments,
                        "%u_%u_%06" PRIu64 "\thttp://www.archive.org/download/book_%u/chapter_%02u"
                        "_64kb.mp3\t%" PRIu64 ".00\t%" PRIu64 ".00\n",
                        speaker, book, i, book, speaker % 40, i * 20, i * 20 + 15);
                fputc('\n', texts);
            }
        }
    }
    finish(texts);
    finish(segments);
}

static void make(const char *kind)
{
    must(mkdir(folder, 0777) == 0 || errno == EEXIST, folder);
    if (strcmp(kind, "common-voice") == 0) {
        make_common_voice();
    } else if (strcmp(kind, "mls") == 0) {
        make_mls();
    } else if (strcmp(kind, "table") == 0) {
        make_clips();
        make_table("table.tsv", "clips/", 1);
    } else if (strcmp(kind, "audiofolder") == 0) {
        make_audiofolder();
    } else if (strcmp(kind, "nemo") == 0) {
        make_nemo();
    } else {
        must(strncmp(kind, "kaldi", 5) == 0, "no such kind");
        make_kaldi(kind, strcmp(kind, "kaldi-shuffled") == 0);
    }
}

/** Results of a scan. */
typedef struct counts {
    uint64_t items, rejects;
} counts;

static spsh_status take_item(void *user, const spsh_ingest_item *item, spsh_error *error)
{
    counts *c = user;
    (void)item, (void)error;
    c->items++;
    return SPSH_OK;
}

static spsh_status take_reject(void *user, const spsh_reject *reject, spsh_error *error)
{
    counts *c = user;
    (void)reject, (void)error;
    c->rejects++;
    return SPSH_OK;
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void scan(const char *name, const char *root)
{
    counts c = {0};
    spsh__view *view = NULL;
    struct rusage before;
    struct rusage after;
    /* Looks for archives, as pack does. */
    const spsh__view_options view_options = {.root = root, .scratch_directory = P_tmpdir};
    const spsh_ingest_sink sink = {.emit_fn = take_item, .reject_fn = take_reject, .user = &c};
    const spsh_layout *layout = spsh__layout_find(name);
    must(layout != NULL, name);
    (void)getrusage(RUSAGE_SELF, &before);
    const double start_ms = now_ms();
    check(spsh__view_open(&view_options, &view, &failure), root);
    const spsh_ingest_options options = {.view = view};
    check(spsh__layout_scan(layout, &options, &sink, &failure), root);
    spsh__view_close(view);
    const double wall = (now_ms() - start_ms) / 1e3;
    (void)getrusage(RUSAGE_SELF, &after);
    const double user = seconds_of(after.ru_utime) - seconds_of(before.ru_utime);
    const double system = seconds_of(after.ru_stime) - seconds_of(before.ru_stime);
    printf("{\"layout\": \"%s\", \"utterances\": %" PRIu64 ", \"rejects\": %" PRIu64
           ", \"wall_s\": %.3f, \"user_s\": %.3f, \"system_s\": %.3f, \"per_s\": %.0f"
           ", \"per_cpu_s\": %.0f, \"peak_mib\": %.1f}\n",
           name, c.items, c.rejects, wall, user, system, (double)c.items / wall,
           (double)c.items / (user + system), (double)after.ru_maxrss / 1024);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "make") == 0) {
        rows = strtoull(argv[3], NULL, 10);
        must(rows > 0 && snprintf(folder, sizeof(folder), "%s", argv[4]) < (int)sizeof(folder),
             "bench_scan make KIND ROWS FOLDER");
        make(argv[2]);
    } else {
        must(argc == 4 && strcmp(argv[1], "scan") == 0, "bench_scan scan LAYOUT ROOT");
        scan(argv[2], argv[3]);
    }
    return 0;
}
