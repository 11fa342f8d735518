/* pair_audio.h: two utterances on one time line, around what they share: what pictures and figures
 * of a pair are made of.
 *
 *     spsh__pair_window_make(set, &match, &window, err);
 *     ... window->a.low[i], window->blocks[i], window->gain_db ...
 *     spsh__pair_window_free(window);
 *
 *        t = 0                     match_first_s        + match_s                      seconds
 *        a |------------------------|======================|-----------------------------|
 *        b            |-------------|======================|---|
 *
 * Audio is decoded in pieces, and at most a minute of it is looked at.
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
    double first_s; /* its own time at t = 0; negative: it begins later */
    double speed;   /* its own seconds in one of the time line */
    float low[SPSH__PAIR_COLUMNS], high[SPSH__PAIR_COLUMNS]; /* -1 to 1; high < low: none */
    float peak;
    spsh__print print; /* of the window alone, with its signal of 8 kHz */
} spsh__pair_lane;

typedef struct spsh__pair_window {
    double seconds;
    double match_first_s, match_s;
    spsh__pair_lane a, b;
    float blocks[SPSH__PAIR_BLOCK_MAX]; /* magnitude of correlation; negative: too quiet */
    size_t block_count;                 /* from match_first_s on */
    bool has_gain;
    double gain_db; /* of b over a, 300 to 3,400 Hz, over the match */
} spsh__pair_window;

/* A match of no samples (count 0): both from their beginnings. Codes of reading audio. */
spsh_status spsh__pair_window_make(const spsh__print_set *set, const spsh__match *match,
                                   spsh__pair_window **ret_window, spsh_error *err);
void spsh__pair_window_free(spsh__pair_window *window);

/* An utterance without audio yet: row, length, speed. */
spsh_status spsh__pair_lane_open(const spsh__print_set *set, uint64_t ordinal, double speed,
                                 spsh__pair_lane *lane, spsh_error *err);

/* Where the match lies in a and in b, in seconds of their own time. */
typedef struct spsh__pair_place {
    double a_first_s, a_s;
    double b_first_s, b_s;
} spsh__pair_place;
spsh__pair_place spsh__pair_place_of(const spsh__match *match);
/* The match as callers of the library see it. */
spsh_copy_match spsh__pair_match_show(const spsh__match *match);

/* One channel of an utterance (0: the mix), in pieces: what is before its beginning and behind its
 * end is silence. */
typedef struct spsh__pair_source {
    const spsh_dataset *dataset;
    uint64_t position;
    spsh_row row;
    uint32_t channel;
    int64_t first; /* samples */
    uint64_t count;
    spsh_status (*mono_fn)(void *user, const int16_t *samples, size_t count, spsh_error *err);
    void *user;
} spsh__pair_source;
spsh_status spsh__pair_read(const spsh__pair_source *source, spsh_error *err);

#endif
