/* pair_audio.h: two utterances on one time line, around their match. Pictures and numbers of a pair
 * are made from this.
 *
 *     spsh__pair_window_make(set, &match, &window, err);
 *     ... window->a.low[i], window->blocks[i], window->gain_db ...
 *     spsh__pair_window_free(window);
 *
 *        t = 0                     match_first_s        + match_s                      seconds
 *        a |------------------------|======================|-----------------------------|
 *        b            |-------------|======================|---|
 *
 * Audio is decoded in pieces, and the window is at most one minute long.
 */
#ifndef SPSH_DEDUP_PAIR_AUDIO_H
#define SPSH_DEDUP_PAIR_AUDIO_H

#include "set/match.h"
#include "set/print_set.h"

#define SPSH__PAIR_COLUMNS   480
#define SPSH__PAIR_SECONDS   60.0
#define SPSH__PAIR_BLOCK_S   0.2
#define SPSH__PAIR_BLOCK_MAX 300

typedef struct spsh__pair_lane {
    const spsh_dataset *dataset;
    uint64_t position;
    spsh_row row;
    double total_s;
    double first_s; /* position in the recording at t = 0, in seconds; negative: the recording
                       begins later */
    double speed;   /* seconds of the recording per second of the time line */
    float low[SPSH__PAIR_COLUMNS], high[SPSH__PAIR_COLUMNS]; /* per column, -1 to 1; high < low: no
                                                                audio */
    float peak;
    spsh__print print; /* print of the window only, with its 8 kHz signal */
} spsh__pair_lane;

typedef struct spsh__pair_window {
    double seconds;
    double match_first_s, match_s;
    spsh__pair_lane a, b;
    float blocks[SPSH__PAIR_BLOCK_MAX]; /* maximum magnitude of correlation per block; negative: too
                                           quiet */
    size_t block_count;                 /* number of blocks from match_first_s */
    bool has_gain;
    double gain_db; /* level of b relative to a within the match, 300 to 3,400 Hz */
} spsh__pair_window;

/* Make the window of a match. If the match has no samples (count 0), the window begins at the start
 * of both utterances. Returns the error codes of reading audio. */
spsh_status spsh__pair_window_make(const spsh__print_set *set, const spsh__match *match,
                                   spsh__pair_window **ret_window, spsh_error *err);
void spsh__pair_window_free(spsh__pair_window *window);

/* Open an utterance without reading its audio. Sets row, duration, and speed. */
spsh_status spsh__pair_lane_open(const spsh__print_set *set, uint64_t ordinal, double speed,
                                 spsh__pair_lane *lane, spsh_error *err);

/* Start and duration of a match in each utterance, in seconds of that utterance. */
typedef struct spsh__pair_place {
    double a_first_s, a_s;
    double b_first_s;
} spsh__pair_place;
spsh__pair_place spsh__pair_place_of(const spsh__match *match);
/* Return the public form of a match. */
spsh_copy_match spsh__pair_match_show(const spsh__match *match);

/* Read a range of one channel (0: the mix) in pieces. Samples outside of the utterance are silence.
 */
typedef struct spsh__pair_source {
    const spsh_dataset *dataset;
    uint64_t position;
    spsh_row row;
    uint32_t channel;
    int64_t first; /* first sample; negative: before the utterance begins */
    uint64_t count;
    spsh_status (*mono_fn)(void *user, const int16_t *samples, size_t count, spsh_error *err);
    void *user;
} spsh__pair_source;
spsh_status spsh__pair_read(const spsh__pair_source *source, spsh_error *err);

#endif
