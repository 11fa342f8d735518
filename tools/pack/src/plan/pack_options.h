/* pack_options.h: what spsh__pack (pack_run.h) is asked for, and what it returns. */
#ifndef SPSH_PACK_OPTIONS_H
#define SPSH_PACK_OPTIONS_H

#include "rejects.h"
#include "speechshard/publish.h"

#define SPSH__PACK_WORK_DIRECTORY ".pack"

typedef enum spsh__pack_codec {
    SPSH__PACK_KEEP = 0,
    SPSH__PACK_FLAC = 1,
    SPSH__PACK_PCM = 2,
} spsh__pack_codec;

/** How far a phase is. */
typedef struct spsh__pack_progress {
    const char *phase;                /* "unpack", "scan", "pack", "merge" */
    uint64_t done_items, total_items; /* utterances; total 0: unknown */
    uint64_t done_bytes, total_bytes; /* of source audio */
    uint64_t reject_rows;
} spsh__pack_progress;

typedef struct spsh__pack_options {
    const char *const *corpora; /* what the user pointed at; "-": an archive on standard input */
    size_t corpus_count;
    const char *output;         /* the dataset's directory; made if it is not there */
    const char *layout;         /* NULL: detect each */
    const char *domain_rule;    /* NULL: the layout's */
    const char *split_filter;   /* NULL: all */
    const char *const *columns; /* "FIELD=NAME" each: columns of tables */
    size_t column_count;
    bool no_split_names; /* names of tables do not give splits */
    spsh__pack_codec codec;
    spsh_dedupe dedupe;
    bool source_order; /* else by hash of the recording's id */
    bool trust_headers;
    bool follow_links;
    bool key_to_last_dot; /* of WebDataset members; else to the first */
    uint32_t rate_hz;     /* 0: as it is */
    uint64_t shard_bytes;
    uint32_t jobs;            /* worker threads, at least 1 */
    uint64_t memory_bytes;    /* for audio in flight and for sorting */
    bool strict;              /* publish nothing if a row is rejected */
    uint64_t rejects_max_ppm; /* rows lost, in millionths, that are still a success */
    const spsh_io *io;
    spsh_log_fn log_fn;                                                  /* may be NULL */
    int (*progress_fn)(void *user, const spsh__pack_progress *progress); /* non-zero: cancel */
    void *user;
} spsh__pack_options;

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
    uint64_t row_count; /* utterances that the layouts offered */
    uint64_t unit_count;
    uint64_t units_resumed;    /* committed by an earlier, interrupted run */
    uint64_t decode_ns;        /* this run: processor time in decoders of what is stored, */
    uint64_t decode_audio_ms;  /* and the audio that they decoded */
    struct spsh__facts *facts; /* for reports; NULL when already packed; spsh__pack_result_free */
    bool already_packed;       /* the dataset was there: nothing was done */
    bool too_many_rejects;     /* more than rejects_max_ppm; published all the same */
    bool withheld; /* strict, and something was rejected: not published, state is kept */
} spsh__pack_result;

#endif
