/* pack_options.h: the results that a pack gathers. The options are those of speechshard/pack.h with
 * the defaults filled in: rejects_max_ppm is a number from 0 to 1,000,000. */
#ifndef SPSH_PACK_OPTIONS_H
#define SPSH_PACK_OPTIONS_H

#include "rejects.h"
#include "speechshard/pack.h"
#include "speechshard/publish.h"

#define SPSH__PACK_WORK_DIRECTORY ".pack"

/** Counts of rows and audio. They depend only on the input and the options. */
typedef struct spsh__pack_counts {
    uint64_t packed;        /* utterances */
    uint64_t records;       /* payloads stored */
    uint64_t copies;        /* recordings that refer to a stored payload of their unit */
    uint64_t source_bytes;  /* size of packed recordings, copies included */
    uint64_t payload_bytes; /* stored audio */
    uint64_t pcm_bytes;     /* decoded size of packed recordings in their native format */
    uint64_t audio_ms;      /* length of packed recordings */
    uint64_t undecodable;   /* kept byte for byte although the decoder library fails on them */
    uint64_t unverified;    /* no header count or MD5 to compare the decode with */
    uint64_t kept_as_is;    /* codec option does not apply: not int16, or already FLAC */
    uint64_t resampled;
    uint64_t segments_clamped; /* segments that ended up to 10 ms after their recording */
    uint64_t text_missing;     /* utterances without a transcript */
    uint64_t decode_unjudged;  /* recordings that --trust-headers accepted without decoding */
} spsh__pack_counts;

#define SPSH__PACK_COUNTS_WORDS (sizeof(spsh__pack_counts) / sizeof(uint64_t))

struct spsh__facts; /* defined in pack_facts.h */

typedef struct spsh__pack_result {
    spsh__pack_counts counts;
    spsh__reject_counts rejects;
    spsh_dataset_info info;
    uint64_t row_count;        /* utterances that the layouts offered */
    uint64_t decode_ns;        /* this run: processor time of decoding, */
    uint64_t decode_audio_ms;  /* and the length of the decoded audio */
    struct spsh__facts *facts; /* for reports; NULL if already packed; freed by
                                  spsh__pack_result_free */
    bool already_packed;       /* the dataset was complete: nothing was done */
    bool too_many_rejects;     /* more than rejects_max_ppm; published nevertheless */
    bool withheld;             /* strict, and a row was rejected: not published, state is kept */
    bool is_share;             /* nothing was published: the call was for a part, or a plan */
    bool is_plan_only;         /* only the plan was made */
    char **corpora;            /* absolute paths; freed by spsh__pack_result_free */
    size_t corpus_count;
    uint64_t unit_count;       /* units of the plan; 0 if already packed */
    uint64_t planned;          /* utterances of the plan */
    uint64_t units_packed;     /* by this call, of which some were */
    uint64_t units_taken_over; /* begun by processes that stopped or gave no sign of life */
    uint64_t units_left;       /* still being packed by other processes */
} spsh__pack_result;

/** Return SPSH_E_CANCELED with a message that explains how to resume. */
spsh_status spsh__pack_canceled(spsh_error *err);
/** Call progress_fn, if set. SPSH_E_CANCELED if it cancels. */
SPSH_NODISCARD spsh_status spsh__pack_progress(const spsh_pack_options *options, const char *phase,
                                               uint64_t done, uint64_t total, spsh_error *err);

/** Check the caller's options and fill in the defaults. for_merge: no corpora are needed.
 * SPSH_E_INVALID_ARG. */
SPSH_NODISCARD spsh_status spsh__pack_options_take(const spsh_pack_options *options, bool for_merge,
                                                   spsh_pack_options *ret_taken, spsh_error *err);

#endif
