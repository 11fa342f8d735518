/* recordings.c: lines of a list, libsndfile over their files. */
#include "recordings.h"

#include <sndfile.h>

#include "bench_kit.h"

enum { LINE_MAX_BYTES = 4096 };

static bool parse(char *line, recording *ret_file)
{
    char *fields[4];
    for (size_t i = 0; i < 4; i++) {
        fields[i] = strsep(&line, "\t\n");
        if (fields[i] == NULL)
            return false;
    }
    *ret_file = (recording){0};
    (void)snprintf(ret_file->family, sizeof(ret_file->family), "%s", fields[0]);
    (void)snprintf(ret_file->group, sizeof(ret_file->group), "%s", fields[1]);
    (void)snprintf(ret_file->id, sizeof(ret_file->id), "%s", fields[2]);
    (void)snprintf(ret_file->path, sizeof(ret_file->path), "%s", fields[3]);
    return true;
}

/* Samples of the first channel. */
static bool load(recording *file)
{
    SF_INFO info = {0};
    SNDFILE *sound = sf_open(file->path, SFM_READ, &info);
    if (sound == NULL || info.frames <= 0 || info.samplerate < 8000) {
        fprintf(stderr, "%s: not read\n", file->path);
        if (sound != NULL)
            (void)sf_close(sound);
        return false;
    }
    const size_t channels = (size_t)info.channels;
    int16_t *pcm = calloc((size_t)info.frames * channels + 1, sizeof(*pcm));
    must(pcm != NULL, "memory");
    file->count = (size_t)sf_readf_short(sound, pcm, info.frames);
    file->rate_hz = (uint32_t)info.samplerate;
    (void)sf_close(sound);
    for (size_t i = 0; i < file->count; i++)
        pcm[i] = pcm[i * channels];
    file->pcm = pcm;
    return true;
}

void recordings_read(const char *list, bool is_source,
                     void (*take_fn)(void *user, const recording *file), void *user)
{
    char line[LINE_MAX_BYTES];
    FILE *lines = fopen(list, "r");
    must(lines != NULL, list);
    while (fgets(line, sizeof(line), lines) != NULL) {
        recording file;
        if (parse(line, &file) && (strcmp(file.family, "source") == 0) == is_source && load(&file))
            take_fn(user, &file);
    }
    (void)fclose(lines);
}

void recording_make_print(recording *file)
{
    check_ok(spsh__print_make(file->rate_hz, file->pcm, file->count, &file->print, &failure));
}

void recording_free(recording *file)
{
    free(file->pcm);
    spsh__print_free(&file->print);
}

static bool is_speech(const recording *file, const spsh__print *whole, size_t start, size_t length)
{
    const double hop = (double)file->rate_hz / SPSH__PRINT_HZ;
    const size_t first = (size_t)((double)start / hop);
    const size_t count = (size_t)((double)length / hop);
    size_t active = 0;
    for (size_t i = first; i < first + count && i < whole->frame_count; i++)
        active += whole->frames[i].is_active;
    return active * 4 >= count * 3;
}

size_t recording_clip_start(const recording *file, const spsh__print *whole, size_t length,
                            uint64_t *random_state)
{
    size_t start = 0;
    for (int attempt = 0; attempt < 50; attempt++) {
        start = (size_t)(next_random(random_state) % (file->count - length + 1));
        if (is_speech(file, whole, start, length))
            break;
    }
    return start;
}
