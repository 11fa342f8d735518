/* align.h: is this the same recording? What two prints and two signals say, and a class.
 *
 *     spsh__print_make(16000, pcm_a, count_a, &a, err);
 *     spsh__print_make(48000, pcm_b, count_b, &b, err);
 *     if (spsh__align_search(&a, &b, &limits, &offset))
 *         rc = spsh__align(&a, &b, offset, &limits, &found, err);
 *
 * Fingerprints find, waveforms decide: a sentence that the same voice reads again comes close in
 * bits and in envelopes, but its waveform does not correlate; tones correlate with each other, but
 * differ in bits; silence has equal bits, but nothing active. So every class that may drop
 * something needs all.
 */
#ifndef SPSH_DEDUP_ALIGN_H
#define SPSH_DEDUP_ALIGN_H

#include "coherence.h"
#include "fingerprint.h"
#include "speechshard/dedup.h"

/* Every threshold of the rule; spsh__align_limits_default has the fitted ones. Seconds are active.
 */
typedef struct spsh__align_limits {
    uint32_t version;
    double bit_worth;    /* bit error rate at which a frame speaks neither for nor against */
    double gap_cost;     /* wrong bits beyond that which end a run: some 2 s of other sound */
    double ber_max[3];   /* from active_min_s, 1.5 s and 2.5 s on: above it, no match */
    double active_min_s; /* less proves nothing */
    double tiny_s;       /* below it ncc_tiny and white_tiny are asked for */
    double short_s;      /* below it ncc_short and white_short */
    double probable_s;   /* less is no probable_copy */
    double long_s;       /* from it on bits alone weigh more */
    double words_min_hz; /* distinct words a second: fewer are a tone or a hum */
    double tonality_max;
    double ncc_sure;      /* enough by itself */
    double ncc_with_bits; /* enough with ber_sure */
    double ber_sure;
    double ncc_tiny;
    double ncc_short;
    double white_min; /* a vowel's fundamental alone can correlate: the whitened must follow */
    double white_tiny;
    double white_short;
    double white_with_bits; /* whitened, enough for the short with ber_sure */
    double ncc_block;       /* a block of 200 ms agrees */
    double ncc_gap;         /* below it it does not, and two such divide a run if bits say so too */
    double coverage_min;    /* of the active speech of a recording, to call it all */
    double slope_min_ppm;
    double speed_max_ppm; /* drifts that are tried when the waveforms do not agree as they are */
    double ber_probable;  /* for probable_copy, with envelope_probable */
    double envelope_probable;
    double ber_long; /* the same from long_s on */
    double envelope_long;
    double spread_max_ms;     /* of block lags, for same_performance */
    double share_performance; /* of blocks in step */
    double slope_max_ppm;     /* two microphones of one clock */
    uint32_t blocks_performance;
    double envelope_performance;
} spsh__align_limits;

extern const spsh__align_limits spsh__align_limits_default;

typedef struct spsh__alignment {
    spsh_copy_class kind;
    uint64_t a_first; /* samples of 8 kHz */
    uint64_t b_first;
    uint64_t count;
    double lag;        /* b's sample for a's sample 0: b_first - a_first, corrected, fractional */
    double active_s;   /* of the common part */
    double coverage_a; /* of a's active frames, those in the common part */
    double coverage_b;
    double ber;      /* bit error rate over active frames */
    double words_hz; /* distinct words a second */
    double tonality;
    double ncc;
    double ncc_white;
    double envelope; /* 0 where the waveform has decided already */
    spsh__drift drift;
    spsh__correlation unscaled; /* with the drift undone; 0 where it was not tried */
    bool is_inverted;           /* polarity */
} spsh__alignment;

/* A recording as its frames and a way to its signal, which is asked for only where bits agree. */
typedef struct spsh__align_side {
    const spsh__print_frame *frames;
    size_t frame_count;
    uint64_t sample_count; /* of 8 kHz */
    /* Samples [first, first + count), all inside the signal, into dst. */
    spsh_status (*samples_fn)(const void *user, uint64_t first, size_t count, int32_t *dst,
                              spsh_error *err);
    const void *user;
} spsh__align_side;

/* Of a print with samples (spsh__print_collect_all), which is borrowed. */
spsh__align_side spsh__align_side_of(const spsh__print *print);

#define SPSH__ALIGN_RUNS_MAX 8

/* What two recordings have in common at one offset. */
typedef struct spsh__align_list {
    spsh__alignment items[SPSH__ALIGN_RUNS_MAX]; /* the first is the run worth most, of any class */
    size_t count;
    size_t count_max;     /* given: how many are wanted, 1 to SPSH__ALIGN_RUNS_MAX */
    uint64_t frame_pairs; /* compared */
} spsh__align_list;

/**
 * The offset (a's frame plus offset is b's frame) at which the prints agree best, of all offsets.
 *
 * @return whether any offset has active_min_s in common. Time: the product of the lengths.
 */
bool spsh__align_search(const spsh__print *a, const spsh__print *b,
                        const spsh__align_limits *limits, int64_t *ret_offset);

/**
 * Judges a against b near an offset that search or keys proposed (within 4 frames).
 *
 * Recordings that were put together from the same pieces may have several runs in common at one
 * offset, with other sound between: those after the first have at least short_s of active speech
 * and a class that says what is shared (same_recording to time_scaled).
 *
 * @return SPSH_OK, SPSH_E_NO_MEMORY or what samples_fn returned. Thread-safe. Waveforms are
 * compared over at most a minute of a run, so memory is bounded (15 MB) whatever the lengths; time
 * grows with the number of frames.
 */
spsh_status spsh__align_sides(const spsh__align_side *a, const spsh__align_side *b, int64_t offset,
                              const spsh__align_limits *limits, spsh__align_list *found,
                              spsh_error *err);

/* The first run alone, of two prints with samples. */
spsh_status spsh__align(const spsh__print *a, const spsh__print *b, int64_t offset,
                        const spsh__align_limits *limits, spsh__alignment *ret_alignment,
                        spsh_error *err);

#endif
