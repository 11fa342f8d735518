/* pack_options.h: the results that a pack gathers. Its options are those of speechshard/pack.h,
 * with the defaults filled in: rejects_max_ppm is a number from 0 to 1,000,000. */
#ifndef SPSH_PACK_OPTIONS_H
#define SPSH_PACK_OPTIONS_H

#include "rejects.h"
#include "speechshard/pack.h"
#include "speechshard/publish.h"

#define SPSH__PACK_WORK_DIRECTORY ".pack"

/** What became of the rows, and of the audio. The same for every run with the same input. */
typedef struct spsh__pack_counts {
    uint64_t packed;        /* utterances */
    uint64_t records;       /* payloads stored */
    uint64_t copies;        /* recordings that refer to a stored payload of their unit */
    uint64_t source_bytes;  /* of packed recordings, copies included */
    uint64_t payload_bytes; /* stored */
    uint64_t pcm_bytes;     /* decoded size of packed recordings in their native format */
    uint64_t audio_ms;      /* of packed recordings */
    uint64_t undecodable;   /* kept byte-exact although the decoder library fails on them */
    uint64_t unverified;    /* no header count or MD5 to compare the decode with */
    uint64_t kept_as_is;    /* not int16 (or already flac): the codec option does not fit */
    uint64_t resampled;
    uint64_t segments_clamped; /* ended up to 10 ms behind their recording */
    uint64_t text_missing;     /* utterances without transcript */
    uint64_t decode_unjudged;  /* --trust-headers: taken by their headers */
} spsh__pack_counts;

#define SPSH__PACK_COUNTS_WORDS (sizeof(spsh__pack_counts) / sizeof(uint64_t))

struct spsh__facts; /* pack_facts.h */

typedef struct spsh__pack_result {
    spsh__pack_counts counts;
    spsh__reject_counts rejects;
    spsh_dataset_info info;
    uint64_t row_count;        /* utterances that the layouts offered */
    uint64_t decode_ns;        /* this run: processor time in decoders of what is stored, */
    uint64_t decode_audio_ms;  /* and the audio that they decoded */
    struct spsh__facts *facts; /* for reports; NULL when already packed; spsh__pack_result_free */
    bool already_packed;       /* the dataset was there: nothing was done */
    bool too_many_rejects;     /* more than rejects_max_ppm; published all the same */
    bool withheld; /* strict, and something was rejected: not published, state is kept */
} spsh__pack_result;

/** SPSH_E_CANCELED, with what to do about it. */
spsh_status spsh__pack_canceled(spsh_error *err);
/** Call progress_fn, if there is one. SPSH_E_CANCELED if it says so. */
SPSH_NODISCARD spsh_status spsh__pack_progress(const spsh_pack_options *options, const char *phase,
                                               uint64_t done, uint64_t total, spsh_error *err);

/** Check a caller's options and fill in the defaults. SPSH_E_INVALID_ARG. */
SPSH_NODISCARD spsh_status spsh__pack_options_take(const spsh_pack_options *options,
                                                   spsh_pack_options *ret_taken, spsh_error *err);

#endif
