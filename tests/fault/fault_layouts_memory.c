/* fault_layouts_memory.c: each allocation of a scan fails, first alone, then together with all
 * later ones.
 *
 * A scan must end with SPSH_E_NO_MEMORY or return everything that it returns with enough memory. A
 * brief lack of memory must not drop an utterance or change its id.
 */
#include "spsh_test.h"

#include "archive_kit.h"
#include "fail_malloc.h"
#include "ingest/layouts/layouts.h"

/** Hash of everything that a scan returned. The order counts, and is the same in every scan. */
typedef struct digest {
    uint64_t value, items;
} digest;

static void add(digest *d, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        d->value = (d->value ^ bytes[i]) * UINT64_C(0x100000001b3);
}

static spsh_status take_item(void *user, const spsh_ingest_item *item, spsh_error *err)
{
    digest *d = user;
    const spsh_bytes values[] = {item->id,     item->recording_id, item->source, item->text,
                                 item->domain, item->split,        item->extras, item->speaker};
    (void)err;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        add(d, values[i].data, values[i].size_bytes);
    add(d, item->audio.path, strlen(item->audio.path));
    d->items++;
    return SPSH_OK;
}

static spsh_status take_reject(void *user, const spsh_reject *reject, spsh_error *err)
{
    digest *d = user;
    (void)err;
    add(d, &reject->reason, sizeof(reject->reason));
    add(d, reject->source.data, reject->source.size_bytes);
    return SPSH_OK;
}

static spsh_status take_note(void *user, const char *note, spsh_error *err)
{
    digest *d = user;
    (void)err;
    add(d, note, strlen(note));
    return SPSH_OK;
}

static spsh_status take_problem(void *user, const spsh__view_problem *problem, spsh_error *err)
{
    digest *d = user;
    (void)err;
    add(d, &problem->kind, sizeof(problem->kind));
    add(d, problem->path, strlen(problem->path));
    return SPSH_OK;
}

static const char *scratch; /* folder of the running test; NULL: archives are in files */

static spsh_status scan(const spsh_layout *layout, const char *root, uint64_t at,
                        digest *ret_digest)
{
    spsh__view *view = NULL;
    digest d = {0};
    const spsh__view_observer observer = {.problem_fn = take_problem, .user = &d};
    const spsh__view_options view_options = {
        .root = root, .scratch_directory = scratch, .follow_links = true, .observer = &observer};
    const spsh_ingest_sink sink = {
        .emit_fn = take_item, .reject_fn = take_reject, .note_fn = take_note, .user = &d};
    fail_malloc.calls = 0;
    fail_malloc.at = at;
    spsh_status rc = spsh__view_open(&view_options, &view, NULL);
    const spsh_ingest_options options = {.view = view};
    if (rc == SPSH_OK)
        rc = spsh__view_index_archives(view, NULL);
    if (rc == SPSH_OK)
        rc = spsh__layout_scan(layout, &options, &sink, NULL);
    if (rc == SPSH_OK)
        rc = spsh__view_scan_ends(view, &observer, NULL);
    fail_malloc.at = UINT64_MAX;
    spsh__view_close(view);
    if (scratch != NULL) {
        test_remove_tree(scratch);
        REQUIRE(mkdir(scratch, 0777) == 0);
    }
    *ret_digest = d;
    return rc;
}

static uint64_t stride; /* from one allocation that fails to the next */

static void check_layout(const char *name, const char *root)
{
    const spsh_layout *layout = spsh__layout_find(name);
    digest want;
    digest got;
    REQUIRE(layout != NULL);
    REQUIRE(scan(layout, root, UINT64_MAX, &want) == SPSH_OK);
    CHECK(want.items > 0);
    for (int mode = 0; mode < 2; mode++) {
        uint64_t failed = 0;
        fail_malloc.later_too = mode == 1;
        for (uint64_t at = stride == 1 ? 0 : (uint64_t)mode;; at += stride) {
            const spsh_status rc = scan(layout, root, at, &got);
            CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
            CHECK(rc != SPSH_OK || got.value == want.value);
            if (fail_malloc.calls <= at)
                break;
            failed += rc == SPSH_E_NO_MEMORY;
        }
        CHECK(failed > 10 / stride);
    }
}

static void make(const char *root, const char *name, const char *text)
{
    char path[1024];
    REQUIRE((size_t)snprintf(path, sizeof(path), "%s/%s", root, name) < sizeof(path));
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        REQUIRE(mkdir(path, 0777) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void test_every_allocation_failure(void)
{
    char root[512];
    test_temp_dir(root, sizeof(root));
    make(root, "SPEAKERS.TXT", "60 | M | dev-clean | 20.18 | |CBW|Simon\n");
    make(root, "dev-clean/60/1/60-1.trans.txt", "60-1-0000 A\n60-1-0001 B\n60-1-0002 C\n");
    make(root, "dev-clean/60/1/60-1-0000.flac", "x");
    make(root, "dev-clean/60/1/60-1-0001.flac", "x");
    make(root, "dev-clean/60/1/60-1-0001.wav", "x");
    make(root, "dev-clean/60/1/60-1-0009.wav", "x");
    make(root, "dev-clean/60/1/60-1-0009.txt", "text");
    make(root, "clips/a.mp3", "x");
    make(root, "clips/a.wav", "x");
    make(root, "clips/a.json",
         "{\"text\": \"a\\u00e9\", \"speaker\": \"s\\u00e9\", \"lang\": \"de\", \"snr\": 1, "
         "\"domain\": null}");
    make(root, "dev-clean/60/1/60-1-0009.json", "{\"text\": \"x\", \"speaker_id\": 7}");
    make(root, "dev-clean/60/1/60-1-0000.json", "{broken");
    make(root, "t.csv",
         "path,text,start,end,extra\na.mp3,\"x "
         "\"\"y\"\"\",0,1,e\na.wav,z,,,\nb.wav,q,,,\nclips/a,t,,,\n");
    check_layout("librispeech", root);
    check_layout("table", root);
    check_layout("folder", root);
    test_remove_tree(root);
}

static void test_json_manifests(void)
{
    char root[512];
    test_temp_dir(root, sizeof(root));
    make(root, "a.wav", "x");
    make(root, "train.json",
         "{\"audio_filepath\":\"a.wav\",\"text\":\"\\u00e4\",\"x\":[1],\"speaker\":\"\\u00e4\"}\n"
         "{\"audio_filepath\":\"a.wav\",\"offset\":1,\"text_filepath\":\"a.txt\"}\n{\n"
         "{\"audio_filepath\":\"gone.wav\"}\n");
    make(root, "data.list", "{\"key\":\"k\",\"wav\":\"a.wav\",\"txt\":\"t\"}\n");
    make(root, "ps/clean.json",
         "{\"identifier\":\"i\\u00e4\",\"training_data\":{\"name\":[\"a\\u00e4.flac\",\"b.flac\"],"
         "\"label\":[\"\\u00e4\",\"t\"],\"duration_ms\":[1,2]}}\n");
    make(root, "ps/clean/a\xc3\xa4.flac", "x");
    check_layout("nemo", root);
    check_layout("wenet", root);
    check_layout("peoples-speech", root);
    test_remove_tree(root);
}

static void test_formats(void)
{
    char root[512];
    test_temp_dir(root, sizeof(root));
    make(root, "corpus/a.wav", "x");
    make(root, "corpus/b.wav", "x");
    make(root, "train/wav.scp",
         "b cat ../corpus/b.wav |\na ../corpus/a.wav\nc sox c.wav -t wav - speed 2 |\nd gone\n");
    make(root, "train/segments", "u1 a 0 1\nu2 b 0 -1\nu3 c 0 1\nu4 d 0 1\nu5 a 1 0\n");
    make(root, "train/text", "u1 one\nu2 two\nu9 nine\n");
    make(root, "train/utt2spk", "u2 s\nu1 s\n");
    make(root, "train/spk2gender", "s f\n");
    make(root, "train/reco2file_and_channel", "a a A\n");
    make(root, "metadata.csv", "file_name,text,n\ncorpus/a.wav,\"t \"\"\",1\ngone.wav,t,2\n");
    make(root, "more/metadata.jsonl",
         "{\"a_file_name\":\"\\u0061.wav\",\"text\":\"\\u00e4\",\"speaker\":\"\\u00e4\"}\n{\n");
    make(root, "more/a.wav", "x");
    make(root, "small/1/book/c.flac", "x");
    make(root, "small/1/book/c.json",
         "{\"book_meta\":{\"id\":\"2\",\"title\":\"\\u00e4\"},\"snr\":1}");
    check_layout("kaldi", root);
    check_layout("audiofolder", root);
    check_layout("libri-light", root);
    test_remove_tree(root);
}

static void test_archives(void)
{
    static const test_member train[] = {
        TEST_FILE("dev-clean/60/1/60-1.trans.txt", "60-1-0000 A\n60-1-0001 B\n60-1-0002 C\n"),
        TEST_FILE("dev-clean/60/1/60-1-0000.flac", "x"),
        TEST_MEMBER("dev-clean/60/1/60-1-0001.flac", 'h', "dev-clean/60/1/60-1-0000.flac"),
        TEST_MEMBER("dev-clean/60/1/60-1-0002.flac", 'h', "gone"),
        TEST_FILE("SPEAKERS.TXT", "60 | M | dev-clean | 20.18 | |CBW|Simon\n"),
        TEST_FILE("../out", "x"),
    };
    static const test_member more[] = {
        TEST_FILE("SPEAKERS.TXT", "60 | M | dev-clean | 20.18 | |CBW|Simon\n"),
        TEST_FILE("dev-clean/60/1/60-1-0003.flac", "y"),
        TEST_FILE("dev-clean/60/1/60-1-0003.flac", "z"),
    };
    static const test_member flat[] = {TEST_FILE("t.tsv", "1"), TEST_FILE("a.wav", "x")};
    static const test_member other[] = {TEST_FILE("t.tsv", "2"), TEST_FILE("a.wav", "x")};
    char root[512];
    char path[1024];
    char folder[512];
    test_temp_dir(root, sizeof(root));
    test_temp_dir(folder, sizeof(folder));
    scratch = folder;
    (void)snprintf(path, sizeof(path), "%s/a.tar.gz", root);
    test_archive_write(path, "pax", "gzip", train, 6);
    (void)snprintf(path, sizeof(path), "%s/b.zip", root);
    test_archive_write(path, "zip", NULL, more, 3);
    check_layout("librispeech", root);
    (void)snprintf(path, sizeof(path), "%s/a.tar.gz", root);
    test_archive_write(path, "gnutar", NULL, flat, 2);
    (void)snprintf(path, sizeof(path), "%s/b.zip", root);
    test_archive_write(path, "gnutar", NULL, other, 2);
    check_layout("folder", root);
    check_layout("folder", path);
    scratch = NULL;
    test_remove_tree(folder);
    test_remove_tree(root);
}

#define CV "client_id\tpath\tsentence\tlocale\tage\tage\n"

static void test_corpora(void)
{
    char root[512];
    test_temp_dir(root, sizeof(root));
    make(root, "a/audio/de/train/de_train_0/common_voice_de_1.mp3", "x");
    make(root, "a/audio/de/train/de_train_1/common_voice_de_2.mp3", "x");
    make(root, "a/transcript/de/train.tsv",
         CV "c\tcommon_voice_de_1\tA\tde\tteens\tx\nc\tcommon_voice_de_2.mp3\tB\tde\t\t\n");
    make(root, "a/transcript/cy/train.tsv", CV "c\tcommon_voice_cy_2.mp3\tB\tcy\t\t\n");
    make(root, "b/en/clips/common_voice_en_1.mp3", "x");
    make(root, "b/en/clips/common_voice_en_2.mp3", "x");
    make(root, "b/en/train.tsv", CV "c\tcommon_voice_en_1.mp3\tA\ten\t\t\n");
    make(root, "b/fr/clips/common_voice_fr_1.mp3", "x");
    check_layout("common-voice", root);
    make(root, "s/audios/x.mp3", "x");
    make(root, "s/ss-corpus-de.tsv",
         "client_id\taudio_id\taudio_file\ttranscription\n"
         "c\t1\tx.mp3\tA\nc\t2\ty.mp3\tB\n");
    check_layout("common-voice-spontaneous", root);
    make(root, "o/cv-valid-dev/s-0.mp3", "x");
    make(root, "o/cv-valid-dev.csv", "filename,text,up_votes\ncv-valid-dev/s-0.mp3,\"a\"\"\",1\n");
    check_layout("common-voice-2017", root);
    make(root, "transcribed_data/de/2009/20090112-x.ogg", "x");
    make(root, "transcribed_data/de/asr_dev.tsv",
         "id\traw_text\tnormalized_text\n20090112-x\tA\ta\n20090112-y\tA\ta\n");
    check_layout("voxpopuli", root);
    make(root, "mls_polish/dev/audio/1/2/1_2_000001.flac", "x");
    make(root, "mls_polish/dev/audio/1_2_000002.flac", "x");
    make(root, "mls_polish/dev/audio/1_2_000009.flac", "x");
    make(root, "mls_polish/dev/transcripts.txt", "1_2_000001\ta\n1_2_000002\tb\n1_2_000003\tc\n");
    make(root, "mls_polish/dev/segments.txt", "1_2_000001\tu\t1\t2\n");
    make(root, "mls_polish/metainfo.txt", "1 | F | dev | 1 | 2 | t | c\n");
    check_layout("mls", root);
    make(root, "mdc/schema.yaml",
         "dataset_id: d\ntask: ASR\nindex_file: i.csv\nbase_audio_path:\n- w\n- v/${b}\ncolumns:\n"
         "  audio_path:\n    source_column: a\n    file_extension: .wav\n"
         "  text:\n    source_column: b\n    dtype: file_content\n  speaker:\n    source_column: "
         "c\n");
    make(root, "mdc/below/i.csv", "a,b,c,d\nx,x,s,1\ny,y.txt,,\nz,z,s,\n");
    make(root, "mdc/below/w/x.wav", "x");
    make(root, "mdc/below/v/y.txt/y.wav", "x");
    check_layout("mdc", root);
    test_remove_tree(root);
}

static void test_lhotse_and_gigaspeech(void)
{
    static const char recording[] =
        "{\"id\":\"r\\u00e4\",\"sources\":[{\"type\":\"file\",\"channels\":[0],\"source\":"
        "\"/moved/audio/a.wav\"}],\"sampling_rate\":16000,\"duration\":2}";
    char text[2048];
    char root[512];
    test_temp_dir(root, sizeof(root));
    make(root, "audio/a.wav", "x");
    (void)snprintf(text, sizeof(text),
                   "%s\n{\"id\":\"c\",\"sources\":[{\"type\":\"command\",\"source\":"
                   "\"cat audio/a.wav\"}],\"sampling_rate\":8000}\n{\n",
                   recording);
    make(root, "d_recordings_train.jsonl", text);
    make(
        root, "d_supervisions_train.jsonl",
        "{\"id\":\"s\\u00e4\",\"recording_id\":\"r\\u00e4\",\"start\":0,\"duration\":1,\"text\":"
        "\"\\u00e4\",\"custom\":{\"a\":1}}\n"
        "{\"id\":\"t\",\"recording_id\":\"c\",\"start\":0,\"duration\":1,\"speaker\":\"\\u00e4\"}\n"
        "{\"id\":\"u\",\"recording_id\":\"gone\",\"start\":0,\"duration\":1}\n");
    check_layout("lhotse", root);
    (void)snprintf(
        text, sizeof(text),
        "{\"id\":\"c\\u00e4\",\"type\":\"MonoCut\",\"start\":0,\"duration\":1,"
        "\"custom\":{\"b\":2},\"supervisions\":[{\"id\":\"x\",\"start\":0,\"duration\":1,"
        "\"text\":\"\\u00e4\"}],\"recording\":%s}\n"
        "{\"id\":\"m\",\"type\":\"MixedCut\"}\n",
        recording);
    make(root, "d_cuts_train.jsonl", text);
    check_layout("lhotse", root);
    make(root, "GigaSpeech.json",
         "{\"audios\": [{\"path\": \"audio/a.wav\", \"aid\": \"\\u00e4\", \"url\": \"u\", "
         "\"segments\": [{\"sid\": \"\\u00e4\", \"begin_time\": 0, \"end_time\": 1, \"text_tn\": "
         "\"\\u00e4\", \"speaker\": \"\\u00e4\", \"subsets\": [\"{XL}\"]}, 1]}, "
         "{\"path\": \"gone\", \"aid\": \"g\", \"segments\": [{}]}, 2]}");
    make(root, "metadata/xs_metadata/xs_chunks_0000_metadata.csv",
         "sid,speaker,text_tn,source\nA,N/A,\"a \"\"b\"\"\",0\nB,x,b,1\n");
    make(root, "audio/xs_files/xs_chunks_0000/A.wav", "x");
    check_layout("gigaspeech", root);
    test_remove_tree(root);
}

static void test_samples(void)
{
    static const test_member first[] = {
        TEST_FILE("1.json", "{\"text\":\"\\u00e4\",\"lang\":\"\\u00e4\",\"x\":1,\"source\":2}"),
        TEST_FILE("1.wav", "x"),
        TEST_FILE("2.txt", "t"),
        TEST_FILE("2.wav", "x"),
        TEST_FILE("2.WAV", "x"),
        TEST_FILE("1.txt", "late"),
    };
    static const test_member second[] = {
        TEST_FILE("2.json", "{\"id\":\"\\u00e4\",\"extras\":{\"a\":1}}"),
        TEST_FILE("2.wav", "y"),
        TEST_FILE("3.json", "{\"reject\":{\"reason\":\"unreadable\",\"detail\":\"\\u00e4\"}}"),
        TEST_FILE("4.wav", "y"),
    };
    static const char lines[] =
        "{\"audio_filepath\":\"1.wav\",\"shard_id\":0,\"text\":\"\\u00e4\"}\n"
        "{\"audio_filepath\":\"1-sub1.flac\",\"shard_id\":0,\"offset\":1}\n"
        "{\"audio_filepath\":\"4.wav\",\"shard_id\":1,\"_skipme\":true}\n"
        "{\"audio_filepath\":\"gone.wav\",\"shard_id\":7}\n";
    char root[512];
    char folder[512];
    char path[1024];
    test_temp_dir(root, sizeof(root));
    test_temp_dir(folder, sizeof(folder));
    scratch = folder;
    (void)snprintf(path, sizeof(path), "%s/talks_0.tar", root);
    test_archive_write(path, "gnutar", NULL, first, 6);
    (void)snprintf(path, sizeof(path), "%s/talks_1.tar", root);
    test_archive_write(path, "gnutar", NULL, second, 4);
    make(root, "data.list", "\n/x/talks_1.tar\ntalks_1.tar\nhttp://x/talks_2.tar\n");
    check_layout("webdataset", root);
    check_layout("wenet-shards", root);
    make(root, "sharded_manifests/manifest_0.json", lines);
    check_layout("nemo-tarred", root);
    make(root, "tarred_audio_manifest.json", lines);
    check_layout("nemo-tarred", root);
    scratch = NULL;
    test_remove_tree(folder);
    test_remove_tree(root);
}

TEST_MAIN(fault_layouts_memory)
{
    stride = test_stride(argc, argv, 5);
    RUN(test_every_allocation_failure);
    RUN(test_json_manifests);
    RUN(test_archives);
    RUN(test_samples);
    RUN(test_formats);
    RUN(test_corpora);
    RUN(test_lhotse_and_gigaspeech);
    return TEST_RESULT();
}
