/* recordings.h: the recordings of a list, for benchmarks whose truth is known.
 *
 * A list has lines of family, group, id, and path, separated by tabs. Family `source` holds the
 * originals. A copy has the group and id of its source. copies_kit.py writes such a list. An error
 * stops the program.
 */
#ifndef RECORDINGS_H
#define RECORDINGS_H

#include "fingerprint/fingerprint.h"

enum { SOURCES_MAX = 4096 };

typedef struct recording {
    char family[64];
    char group[64];
    char id[128];
    char path[1024];
    spsh__print print; /* empty until recording_make_print */
    int16_t *pcm;      /* the first channel */
    size_t count;
    uint32_t rate_hz;
} recording;

/* Call take_fn with each readable source of the list, or with each readable copy. take_fn owns the
 * recording. */
void recordings_read(const char *list, bool is_source,
                     void (*take_fn)(void *user, const recording *file), void *user);
void recording_make_print(recording *file);
void recording_free(recording *file);

/* Return a random start of a clip of `length` samples. At least three quarters of its frames are
 * active, by the print of the whole recording. A clip that is mostly a pause would test something
 * else. If 50 attempts find no such start, return the last one. length: at most the recording's. */
size_t recording_clip_start(const recording *file, const spsh__print *whole, size_t length,
                            uint64_t *random_state);

#endif
