/* layout_nemo.c: NeMo manifests whose audio lies in files.
 *
 *     {"audio_filepath": "wav/a.wav", "duration": 4.1, "text": "...", "offset": 12.5, ...}
 *
 * Manifests of archives, whose lines carry a shard_id, are another layout.
 */
#include "layout_nemo.h"
#include "layouts.h"

static const spsh__json_key keys[] = {
    {SPSH__JSON_AUDIO,     "audio_filepath" },
    {SPSH__JSON_AUDIO,     "audio_filename" },
    {SPSH__JSON_TEXT,      "text"           },
    {SPSH__JSON_TEXT,      "normalized_text"},
    {SPSH__JSON_TEXT_FILE, "text_filepath"  },
    {SPSH__JSON_DOMAIN,    "domain"         },
    {SPSH__JSON_SPEAKER,   "speaker"        },
    {SPSH__JSON_LANGUAGE,  "lang"           },
    {SPSH__JSON_LANGUAGE,  "language"       },
    {SPSH__JSON_START,     "offset"         },
    {SPSH__JSON_DURATION,  "duration"       },
    {SPSH__JSON_SKIP,      "_skipme"        },
    {SPSH__JSON_SHARD,     "shard_id"       },
};

static const char *const extensions[] = {".json", ".jsonl", NULL};

const spsh__json_format spsh__nemo_format = {
    .title = "a NeMo manifest",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .required = UINT32_C(1) << SPSH__JSON_AUDIO,
    .excluded = UINT32_C(1) << SPSH__JSON_SHARD,
    .extensions = extensions,
};

static spsh_status nemo_probe(const spsh__view *view, spsh_layout_probe *ret_probe, spsh_error *err)
{
    return spsh__json_manifest_probe(view, &spsh__nemo_format, ret_probe, err);
}

static spsh_status nemo_scan(const spsh_ingest_options *options, const spsh_ingest_sink *sink,
                             spsh_error *err)
{
    return spsh__json_manifest_scan(options, sink, &spsh__nemo_format, err);
}

const spsh_layout spsh__layout_nemo = {
    .name = "nemo",
    .summary = "NeMo manifests: JSON lines with audio_filepath",
    .tier = SPSH_LAYOUT_FORMAT,
    .reads_file = true,
    .probe_fn = nemo_probe,
    .scan_fn = nemo_scan,
};
