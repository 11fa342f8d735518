/* pack.h: pack speech corpora into a dataset of checksummed shards.
 *
 *     const char *const corpora[] = {"LibriSpeech"};
 *     spsh_pack_options options = SPSH_PACK_OPTIONS_INIT;
 *     spsh_pack_report *report = NULL;
 *     spsh_error err = SPSH_ERROR_INIT;
 *     options.corpora = corpora;
 *     options.corpus_count = 1;
 *     options.output = "libri.spsh";
 *     if (spsh_pack(&options, &report, &err) == SPSH_OK)
 *         printf("%llu utterances\n", (unsigned long long)spsh_pack_report_facts(report)->packed);
 *     spsh_pack_report_free(report);
 *
 * tests/install/consumer/pack_folder.c is a whole program. In docs/reference, layouts.md describes
 * the corpora, and REPORT.md the files that spsh_pack writes to OUTPUT/reports.
 *
 * A call that fails leaves its outputs untouched, and nothing has to be freed. Nothing is printed.
 * Messages of errors name the members of spsh_pack_options. The reports are parts of the dataset's
 * description: they name the options of the command `speechshard pack`.
 *
 * Memory: allocated with malloc, which cannot be replaced. memory_bytes bounds the largest part.
 * A failed allocation is SPSH_E_NO_MEMORY, and everything that the call allocated is freed.
 *
 * Threads: calls with different outputs may run at the same time. A report does not change: any
 * thread may read it until it is freed.
 */
#ifndef SPEECHSHARD_PACK_H
#define SPEECHSHARD_PACK_H

#include <stdbool.h>

#include "speechshard/ffmpeg.h"
#include "speechshard/io.h"
#include "speechshard/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_PACK_SHARD_BYTES_DEFAULT  (UINT64_C(1) << 30)
#define SPSH_PACK_SHARD_BYTES_MIN      (UINT64_C(64) << 10)
#define SPSH_PACK_SHARD_BYTES_MAX      (UINT64_C(1) << 40)
#define SPSH_PACK_MEMORY_BYTES_DEFAULT (UINT64_C(256) << 20)
#define SPSH_PACK_MEMORY_BYTES_MIN     (UINT64_C(16) << 20)
#define SPSH_PACK_RATE_HZ_MIN          UINT32_C(1000)
#define SPSH_PACK_RATE_HZ_MAX          UINT32_C(768000)
#define SPSH_PACK_THREADS_MAX          UINT32_C(1024)
#define SPSH_PACK_LEASE_S_DEFAULT      UINT32_C(60)
#define SPSH_PACK_LEASE_S_MAX          UINT32_C(86400)

/* Values of rejects_max_ppm besides 1 to 1,000,000. */
#define SPSH_PACK_REJECTS_DEFAULT UINT64_C(0)       /* 10,000: 1 % */
#define SPSH_PACK_REJECTS_ALL     UINT64_C(1000000) /* damaged archives, too */
#define SPSH_PACK_REJECTS_NONE    UINT64_MAX

/** The form in which audio is stored. */
typedef enum spsh_pack_codec {
    SPSH_PACK_CODEC_DEFAULT = 0, /* PCM if rate_hz is set, else KEEP */
    SPSH_PACK_KEEP = 1,          /* the files as they are */
    SPSH_PACK_FLAC = 2,          /* encode int16 audio that is not FLAC */
    SPSH_PACK_PCM = 3,           /* lossless int16 that decodes over ten times faster than FLAC */
} spsh_pack_codec;

/** The recordings that are stored once. */
typedef enum spsh_pack_dedupe {
    SPSH_PACK_DEDUPE_DEFAULT = 0, /* BYTES with codec KEEP, else PCM */
    SPSH_PACK_DEDUPE_NONE = 1,
    SPSH_PACK_DEDUPE_BYTES = 2, /* equal files */
    SPSH_PACK_DEDUPE_PCM = 3,   /* equal decoded audio */
} spsh_pack_dedupe;

/** Everything that the pointers point to is read during spsh_pack only. 0, false, and NULL are the
 * defaults. */
typedef struct spsh_pack_options {
    size_t struct_size;
    const spsh_io *io; /* for the output and for audio; NULL: spsh_io_default */
    spsh_log_fn log_fn;
    /* Phases: "unpack" in bytes of archives, "scan" in files, "pack" in bytes of source audio,
     * "merge" once, and then those of spsh_dataset_publish: "names", "records", and "index" in
     * shards, "groups" in records, "copies" in pairs of records, "ids" and "views" in entries.
     * "wait", 0 of 0, is repeated while other processes make the plan, pack, or merge. A canceled
     * pack resumes when the same call is repeated. */
    spsh_progress_fn progress_fn;
    /* Called before progress_fn in the phase "pack": utterances packed or rejected so far, and rows
     * rejected so far. */
    void (*counts_fn)(void *user, uint64_t utterances, uint64_t rejected_rows);
    void *user;                 /* for the three functions */
    const char *const *corpora; /* required: corpus_count folders, archives, or manifests; or one
                                   "-": an archive on standard input */
    size_t corpus_count;
    const char *output;              /* required: the dataset's folder; made if it is missing */
    const char *layout_name;         /* a spsh_pack_layout_name; NULL: detect each corpus */
    const char *domain_rule;         /* "NAME", "dir:N", or "column:NAME"; NULL: the layout's */
    const char *split_filter;        /* comma-separated splits to pack; NULL: all. Each must have a
                                        row or a table in a corpus */
    const char *const *column_rules; /* column_rule_count strings "FIELD=NAME": read a field of a
                                        table from the column NAME; see spsh_pack_column_is_valid */
    size_t column_rule_count;
    uint64_t rejects_max_ppm; /* maximum share of rejected rows, in millionths, for success; or
                                 SPSH_PACK_REJECTS_*. Up to 16 rows are always allowed. Missing
                                 audio has its own limit of 20 %, unless this one is larger */
    uint64_t shard_bytes; /* size of a shard file: SPSH_PACK_SHARD_BYTES_MIN to _MAX; 0: _DEFAULT */
    uint64_t memory_bytes; /* for audio in flight and sorting; 0: SPSH_PACK_MEMORY_BYTES_DEFAULT;
                              SPSH_PACK_MEMORY_BYTES_MIN at least */
    uint32_t threads;      /* up to SPSH_PACK_THREADS_MAX; 0: one per core, up to 64 */
    uint32_t rate_hz;      /* resample everything, SPSH_PACK_RATE_HZ_MIN to _MAX; 0: do not.
                              Not with SPSH_PACK_KEEP */
    spsh_pack_codec codec;
    spsh_pack_dedupe dedupe;
    bool ignores_split_names;  /* do not derive splits from the file names of several tables */
    bool keeps_source_order;   /* false: order by a hash, so adjacent recordings are unrelated */
    bool trusts_headers;       /* trust lengths in headers instead of decoding; only with KEEP */
    bool follows_links;        /* enter symbolic links to folders */
    bool has_keys_to_last_dot; /* a WebDataset key ends at the last dot; else at the first */
    bool is_strict;            /* publish nothing if a row is rejected */
    const spsh_ffmpeg *ffmpeg; /* decoder for files that audio.h does not read; they are stored as
                                  codec, or as FLAC with KEEP; NULL: they are rejected */
    /* Packing on many machines: each makes the same call, with its own part, on the same output.
     * Then one calls spsh_pack_merge. */
    bool is_part;        /* pack a share of the units. Returns when each unit is packed, or is being
                            packed by a process that is alive */
    bool is_plan_only;   /* make the plan, and pack nothing */
    bool merges_parts;   /* with is_part: also merge, if this call finds all units packed */
    uint32_t part;       /* with is_part: begin with the units part, part + part_count, ... */
    uint32_t part_count; /* 0: unknown. Then begin with the unit of the number `part` */
    uint32_t
        lease_s; /* a process that gives no sign of life for this time loses its units to others;
                         up to SPSH_PACK_LEASE_S_MAX; 0: SPSH_PACK_LEASE_S_DEFAULT */
} spsh_pack_options;

/* clang-format off */
#define SPSH_PACK_OPTIONS_INIT                                                                     \
    {sizeof(spsh_pack_options), NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL,     \
     NULL, 0, 0, 0, 0, 0, 0, SPSH_PACK_CODEC_DEFAULT, SPSH_PACK_DEDUPE_DEFAULT,                    \
     false, false, false, false, false, false, NULL, false, false, false, 0, 0, 0}
/* clang-format on */

/** True if a string is "FIELD=NAME", where FIELD is audio, text, id, speaker, language, domain,
 * split, start, end, or duration. Thread-safe. */
SPSH_API bool spsh_pack_column_is_valid(const char *column_rule);

/** Number of corpus layouts. Thread-safe. */
SPSH_API size_t spsh_pack_layout_count(void);
/** Name of a layout, such as "librispeech", in the order in which they are tried. index: below the
 * count. Thread-safe. */
SPSH_API const char *spsh_pack_layout_name(size_t index);
/** Description of a layout, one line. index: below the count. Thread-safe. */
SPSH_API const char *spsh_pack_layout_summary(size_t index);

/** Outcome of a pack. All pointers that the functions below return are borrowed from it. */
typedef struct spsh_pack_report spsh_pack_report;

/** Facts about utterances and rows. "rows in = packed + rejected + merged + excluded" holds for
 * each source and for the sum of all sources. */
typedef struct spsh_pack_facts {
    uint8_t dataset_id[16];
    bool is_already_packed;    /* the same call finished earlier: nothing was done, and only
                                  dataset_id, packed, shard_count, and duplicate_count are set */
    bool is_withheld;          /* is_strict, and a row was rejected: nothing was published */
    bool has_too_many_rejects; /* more than rejects_max_ppm allows; published nevertheless */
    uint64_t rows_in;
    uint64_t packed; /* utterances */
    uint64_t rejected;
    uint64_t merged;   /* rows merged into the utterance of an earlier row */
    uint64_t excluded; /* rows that split_filter or the corpus excludes */
    uint64_t shard_count;
    uint64_t duplicate_count;  /* utterances that refer to audio stored for another utterance */
    uint64_t source_bytes;     /* size of packed recordings, copies included */
    uint64_t payload_bytes;    /* size of stored audio */
    uint64_t pcm_bytes;        /* size of packed recordings, decoded to their native format */
    uint64_t audio_ms;         /* duration of packed recordings */
    uint64_t undecodable;      /* recordings kept although the decoder fails on them */
    uint64_t unverified;       /* recordings that state no length to verify */
    uint64_t kept_as_is;       /* recordings to which the codec does not apply */
    uint64_t resampled;        /* recordings */
    uint64_t headers_trusted;  /* recordings that were not decoded */
    uint64_t segments_clamped; /* segments that ended up to 10 ms after their recording */
    uint64_t without_text;     /* utterances */
    uint64_t decode_ns;        /* processor time of decoding source files in this call */
    uint64_t decode_audio_ms;  /* duration of the audio decoded in that time */
    double seconds;            /* duration of all utterances of the dataset */
    double min_seconds;        /* shortest utterance */
    double max_seconds;        /* longest utterance */
    double percent_1_seconds;  /* percentiles of the durations */
    double percent_25_seconds;
    double percent_50_seconds;
    double percent_75_seconds;
    double percent_99_seconds;
    size_t source_count;
    size_t reject_count; /* number of reasons */
    size_t warning_count;
    size_t domain_count; /* this and the next two are 0 if nothing was published */
    size_t split_count;
    size_t kind_count;
    bool is_share; /* is_part or is_plan_only, and the dataset was not published: only the following
                      members are set */
    bool is_plan_only;
    uint64_t unit_count;       /* number of units of the plan */
    uint64_t planned;          /* utterances of the plan */
    uint64_t units_packed;     /* units that this call packed */
    uint64_t units_taken_over; /* those of units_packed that another process had begun */
    uint64_t units_left;       /* units that other processes are packing; else all are packed */
} spsh_pack_facts;

/** A corpus, or a folder in it that one layout reads. */
typedef struct spsh_pack_source {
    const char *corpus; /* absolute path, or "-" */
    const char *root;   /* relative to corpus; "." for itself */
    const char *layout;
    uint64_t rows_in, packed, rejected, merged, excluded;
} spsh_pack_source;

/** A reason why rows were rejected, or packed with a remark. */
typedef struct spsh_pack_reject {
    const char *reason; /* as in reports/rejects.jsonl */
    uint64_t lines;     /* number of its lines in reports/rejects.jsonl */
    uint64_t rows;      /* utterances lost; 0: the lines are remarks */
} spsh_pack_reject;

/** A domain or a split. */
typedef struct spsh_pack_part {
    spsh_bytes name; /* empty: no name; may hold any bytes */
    uint64_t utterances;
    double seconds;
    uint64_t copies; /* utterances that refer to audio stored for an earlier utterance */
} spsh_pack_part;

/** Audio of one codec, rate, and number of channels, as it is stored. */
typedef struct spsh_pack_kind {
    spsh_codec codec;
    uint32_t sample_rate_hz; /* 0: sum of all kinds after the first 255 */
    uint32_t channels;
    uint64_t utterances;
    double seconds;
} spsh_pack_kind;

/**
 * Pack corpora into a dataset. The same input and options give the same bytes. State of a pack that
 * did not finish stays in OUTPUT/.pack, and the same call resumes it. Handles no signals.
 *
 * @param ret_report  free with spsh_pack_report_free
 * @return SPSH_OK, also with has_too_many_rejects or is_withheld; SPSH_E_INVALID_ARG: options, or a
 *         corpus that fits two layouts; _NOT_FOUND: a corpus is missing, fits no layout, or has
 *         nothing to pack; _UNKNOWN_NAME: no corpus has a split of split_filter; _EXISTS: output
 *         holds another thing or a pack with other options, or another pack uses it; _TRUNCATED: an
 *         archive or a manifest is damaged (pack the rest with SPSH_PACK_REJECTS_ALL); _CANCELED;
 *         _NO_MEMORY; _NO_SPACE; _IO; or any error of reading the corpora's tables
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pack(const spsh_pack_options *options,
                                              spsh_pack_report **ret_report, spsh_error *err);

/**
 * Publish the dataset of a plan whose units are all packed. Call it once after all parts, or any
 * number of times: a dataset that is published already is left as it is.
 *
 * @param options  only io, the functions, user, output, memory_bytes, and lease_s are read. The
 *                 rest was given to the calls that packed the parts.
 * @return as spsh_pack; SPSH_E_NOT_FOUND also if units are not packed yet, which the message names,
 *         or output has neither a plan nor a dataset
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_pack_merge(const spsh_pack_options *options,
                                                    spsh_pack_report **ret_report, spsh_error *err);

SPSH_API const spsh_pack_facts *spsh_pack_report_facts(const spsh_pack_report *report);
/** index: below source_count. In the order of the corpora. */
SPSH_API const spsh_pack_source *spsh_pack_report_source(const spsh_pack_report *report,
                                                         size_t index);
/** index: below reject_count. Only reasons that have lines. */
SPSH_API const spsh_pack_reject *spsh_pack_report_reject(const spsh_pack_report *report,
                                                         size_t index);
/** index: below domain_count, in descending order of duration. */
SPSH_API const spsh_pack_part *spsh_pack_report_domain(const spsh_pack_report *report,
                                                       size_t index);
/** index: below split_count, in descending order of duration. */
SPSH_API const spsh_pack_part *spsh_pack_report_split(const spsh_pack_report *report, size_t index);
/** index: below kind_count, in descending order of duration. */
SPSH_API const spsh_pack_kind *spsh_pack_report_kind(const spsh_pack_report *report, size_t index);
/** index: below warning_count. A sentence that a person should read. */
SPSH_API const char *spsh_pack_report_warning(const spsh_pack_report *report, size_t index);
/** NULL is fine. */
SPSH_API void spsh_pack_report_free(spsh_pack_report *report);

#ifdef __cplusplus
}
#endif

#endif
