/* layout_nemo.c: NeMo manifests whose audio is stored in files.
 *
 *     {"audio_filepath": "wav/a.wav", "duration": 4.1, "text": "...", "offset": 12.5, ...}
 *
 * Manifests of archives, whose lines have a shard_id, are another layout (layout_nemo_tarred.c).
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

const spsh_layout spsh__layout_nemo = {
    .name = "nemo",
    .summary = "NeMo manifests: JSON lines with audio_filepath",
    .tier = SPSH_LAYOUT_FORMAT,
    .reads_file = true,
    .json = &spsh__nemo_format,
};
