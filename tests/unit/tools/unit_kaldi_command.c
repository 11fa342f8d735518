/* unit_kaldi_command.c: the files that entries of wav.scp refer to. An entry that is not fully
 * understood is rejected. */
#include "spsh_test.h"

#include "common/file_names.h"
#include "ingest/metadata/kaldi_command.h"

static const struct {
    const char *entry;
    const char *path; /* NULL: the entry cannot be packed */
    const char *channel;
} entries[] = {
    {"a.wav",                                             "a.wav",                "" },
    {"dir with blank/a.wav",                              "dir with blank/a.wav", "" },
    {"flac -c -d -s a.flac |",                            "a.flac",               "" },
    {"/usr/bin/flac -dcs a.flac|",                        "a.flac",               "" },
    {"flac -c -s a.flac |",                               NULL,                   "" },
    {"flac -c -d -s --skip=10 a.flac |",                  NULL,                   "" },
    {"flac -c -d -s a.flac b.flac |",                     NULL,                   "" },
    {"cat 'a b.wav' |",                                   "a b.wav",              "" },
    {"cat a.wav b.wav |",                                 NULL,                   "" },
    {"cat |",                                             NULL,                   "" },
    {"cat a*.wav |",                                      NULL,                   "" },
    {"cat \"$HOME/a.wav\" |",                             NULL,                   "" },
    {"cat '$HOME/a.wav' |",                               "$HOME/a.wav",          "" },
    {"cat a.wav | sox - -t wav - |",                      NULL,                   "" },
    {"cat a.wav > b ; cat b |",                           NULL,                   "" },
    {"cat `echo a` |",                                    NULL,                   "" },
    {"cat 'open |",                                       NULL,                   "" },
    {"sox a.mp3 -t wav - |",                              "a.mp3",                "" },
    {"sox -t mp3 a.mp3 -t wav -r 16k -b 16 - |",          "a.mp3",                "" },
    {"sox a.wav -t wav - remix 2 |",                      "a.wav",                "2"},
    {"sox a.wav -t wav - rate -h 8k dither channels 1 |", "a.wav",                "" },
    {"sox a.wav -t wav - speed 0.9 |",                    NULL,                   "" },
    {"sox a.wav -t wav - trim 1 2 |",                     NULL,                   "" },
    {"sox a.wav b.wav -t wav - |",                        NULL,                   "" },
    {"sox a.wav -t wav b.wav |",                          NULL,                   "" },
    {"sox -m a.wav -t wav - |",                           NULL,                   "" },
    {"ffmpeg -i a.m4a -f wav -ar 16000 -ac 1 pipe:1 |",   "a.m4a",                "" },
    {"ffmpeg -ss 3 -i a.m4a -f wav - |",                  NULL,                   "" },
    {"ffmpeg -i a.m4a -af atempo=2 -f wav - |",           NULL,                   "" },
    {"ffmpeg -i a.m4a b.wav |",                           NULL,                   "" },
    {"gunzip -c a.wav.gz |",                              NULL,                   "" },
    {"sph2pipe -f wav -p -c 1 a.sph |",                   NULL,                   "" },
    {"rm -rf / |",                                        NULL,                   "" },
    {"| tee a.wav",                                       NULL,                   "" },
    {"|",                                                 NULL,                   "" },
    {"",                                                  NULL,                   "" },
    {"raw.ark:12345",                                     NULL,                   "" },
    {"a:b.wav",                                           "a:b.wav",              "" },
};

static void test_entries(void)
{
    spsh__kaldi_source source = {0};
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        spsh__kaldi_source_parse(spsh__bytes_of(entries[i].entry), &source);
        if ((source.problem == NULL) != (entries[i].path != NULL))
            printf("entry: %s\n", entries[i].entry);
        CHECK((source.problem == NULL) == (entries[i].path != NULL));
        if (source.problem != NULL || entries[i].path == NULL)
            continue;
        CHECK_STR(spsh__builder_text(&source.path), entries[i].path);
        CHECK_STR(spsh__builder_text(&source.channel), entries[i].channel);
    }
    spsh__kaldi_source_free(&source);
}

TEST_MAIN(unit_kaldi_command)
{
    RUN(test_entries);
    return TEST_RESULT();
}
