/* recordings.h: the recordings of a list, for benches whose truth is known.
 *
 * A list has lines of family, group, id and path, tabs between; family `source` are the originals,
 * a copy has the group and id of its source. transform.sh writes such a list. What fails stops the
 * program.
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
    spsh__print print; /* empty until its taker makes it */
    int16_t *pcm;      /* the first channel */
    size_t count;
    uint32_t rate_hz;
} recording;

/* Calls take_fn with each source of the list, or with each copy, that can be read. It is the
 * taker's then. */
void recordings_read(const char *list, bool is_source,
                     void (*take_fn)(void *user, const recording *file), void *user);
void recording_make_print(recording *file);
void recording_free(recording *file);

/* Where a clip of so many samples may start, three quarters of whose frames are active by the whole
 * recording's own measure: one that is mostly a pause is another question. The last of 50 attempts,
 * if none is. length: at most the recording's. */
size_t recording_clip_start(const recording *file, const spsh__print *whole, size_t length,
                            uint64_t *random_state);

#endif
