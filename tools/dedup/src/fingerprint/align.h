/* align.h: decide whether two recordings are copies, from their prints and signals.
 *
 *     spsh__print_make(16000, pcm_a, count_a, &a, err);
 *     spsh__print_make(48000, pcm_b, count_b, &b, err);
 *     if (spsh__align_search(&a, &b, &limits, &offset))
 *         rc = spsh__align(&a, &b, offset, &limits, &found, err);
 *
 * Fingerprints find candidates, waveforms decide. If the same voice reads a sentence twice, bits
 * and envelopes are similar, but the waveforms do not correlate. Tones correlate with each other,
 * but their bits differ. Silence has equal bits, but no active frames. So every class that may drop
 * an utterance requires all the evidence.
 */
#ifndef SPSH_DEDUP_ALIGN_H
#define SPSH_DEDUP_ALIGN_H

#include "coherence.h"
#include "fingerprint.h"
#include "speechshard/dedup.h"

/* Thresholds of the decision; spsh__align_limits_default has the fitted values. Durations are
 * seconds of active speech.
 */
typedef struct spsh__align_limits {
    uint32_t version;
    double bit_worth;    /* bit error rate at which a frame is neutral evidence */
    double gap_cost;     /* excess of wrong bits that ends a run: about 2 s of other sound */
    double ber_max[3];   /* maximum bit error rate of a match from active_min_s, 1.5 s, and 2.5 s
                            on */
    double active_min_s; /* minimum active speech of a match */
    double tiny_s;       /* ncc_tiny and white_tiny apply below this */
    double short_s;      /* ncc_short and white_short apply below this */
    double probable_s;   /* minimum for probable_copy */
    double long_s;       /* ber_long and envelope_long apply from here on */
    double words_min_hz; /* minimum distinct words per second: fewer are a tone or a hum */
    double tonality_max;
    double ncc_sure;      /* sufficient whatever the bit error rate */
    double ncc_with_bits; /* sufficient with ber_sure */
    double ber_sure;
    double ncc_tiny;
    double ncc_short;
    double white_min; /* minimum ncc_white: a vowel's fundamental can correlate without it */
    double white_tiny;
    double white_short;
    double white_with_bits; /* ncc_white that suffices for short stretches with ber_sure */
    double ncc_block;       /* minimum for a good block of 200 ms */
    double ncc_gap;         /* below this a block is bad; two bad blocks split a run if bits
                               disagree, too */
    double coverage_min;    /* minimum share of a recording's active speech to cover all of it */
    double slope_min_ppm;
    double speed_max_ppm; /* maximum drift to try if the waveforms do not agree */
    double ber_probable;  /* maximum for probable_copy, with envelope_probable */
    double envelope_probable;
    double ber_long; /* maximum for probable_copy from long_s on, with envelope_long */
    double envelope_long;
    double spread_max_ms;     /* maximum spread of block lags for same_performance */
    double share_performance; /* minimum share of good blocks for same_performance */
    double slope_max_ppm;     /* maximum drift between two microphones on one clock */
    uint32_t blocks_performance;
    double envelope_performance;
} spsh__align_limits;

extern const spsh__align_limits spsh__align_limits_default;

typedef struct spsh__alignment {
    spsh_copy_class kind;
    uint64_t a_first; /* in samples at 8 kHz */
    uint64_t b_first;
    uint64_t count;
    double lag;        /* position in b of a's sample 0: b_first - a_first plus a correction,
                          fractional */
    double active_s;   /* active speech in the common part */
    double coverage_a; /* share of a's active frames that are in the common part */
    double coverage_b;
    double ber;      /* bit error rate over the active frames */
    double words_hz; /* distinct words per second */
    double tonality;
    double ncc;
    double ncc_white;
    double envelope; /* 0 if the waveform was sufficient */
    spsh__drift drift;
    spsh__correlation unscaled; /* after removal of the drift; 0 if not tried */
    bool is_inverted;           /* the polarity is inverted */
} spsh__alignment;

/* The frames of a recording, and a callback for its signal. The callback is used only if the bits
 * agree. */
typedef struct spsh__align_side {
    const spsh__print_frame *frames;
    size_t frame_count;
    uint64_t sample_count; /* at 8 kHz */
    /* Write the samples [first, first + count) to dst. The range is inside the signal. */
    spsh_status (*samples_fn)(const void *user, uint64_t first, size_t count, int32_t *dst,
                              spsh_error *err);
    const void *user;
} spsh__align_side;

/* Make the side of a print with samples (spsh__print_collect_all), which is borrowed. */
spsh__align_side spsh__align_side_of(const spsh__print *print);

#define SPSH__ALIGN_RUNS_MAX 8

/* The runs that two recordings share at one offset. */
typedef struct spsh__align_list {
    spsh__alignment items[SPSH__ALIGN_RUNS_MAX]; /* the first is the best run, of any class */
    size_t count;
    size_t count_max;     /* input: maximum number of runs, 1 to SPSH__ALIGN_RUNS_MAX */
    uint64_t frame_pairs; /* compared pairs of frames */
} spsh__align_list;

/**
 * Find the offset with the best agreement of the prints (frame in b minus frame in a).
 *
 * @return whether any offset has active_min_s in common. The time grows with the product of the
 * lengths.
 */
bool spsh__align_search(const spsh__print *a, const spsh__print *b,
                        const spsh__align_limits *limits, int64_t *ret_offset);

/**
 * Judge a against b near an offset (within 4 frames) that a search or a key join proposed.
 *
 * Recordings that were assembled from the same pieces may share several runs at one offset, with
 * other sound between the runs. The runs after the first have at least short_s of active speech and
 * a class from same_recording to time_scaled.
 *
 * @return SPSH_OK, SPSH_E_NO_MEMORY or the result of samples_fn. Thread-safe. Waveforms are
 * compared over at most one minute of a run, so the memory is bounded (15 MB) for any length. The
 * time grows with the number of frames.
 */
spsh_status spsh__align_sides(const spsh__align_side *a, const spsh__align_side *b, int64_t offset,
                              const spsh__align_limits *limits, spsh__align_list *found,
                              spsh_error *err);

/* Judge two prints with samples, and return only the first run. */
spsh_status spsh__align(const spsh__print *a, const spsh__print *b, int64_t offset,
                        const spsh__align_limits *limits, spsh__alignment *ret_alignment,
                        spsh_error *err);

#endif
