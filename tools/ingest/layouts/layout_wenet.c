/* layout_wenet.c: wenet's raw data lists.
 *
 *     {"key": "BAC009S0002W0122", "wav": "wav/BAC009S0002W0122.wav", "txt": "..."}
 *
 * A line also has start and end in seconds if the recording is longer than the utterance.
 */
#include "ingest/metadata/json_manifest.h"
#include "layouts.h"

static const spsh__json_key keys[] = {
    {SPSH__JSON_ID,       "key"    },
    {SPSH__JSON_AUDIO,    "wav"    },
    {SPSH__JSON_TEXT,     "txt"    },
    {SPSH__JSON_START,    "start"  },
    {SPSH__JSON_END,      "end"    },
    {SPSH__JSON_DOMAIN,   "domain" },
    {SPSH__JSON_SPEAKER,  "speaker"},
    {SPSH__JSON_LANGUAGE, "lang"   },
};

static const char *const extensions[] = {".list", NULL};

static const spsh__json_format format = {
    .title = "a wenet data list",
    .keys = keys,
    .key_count = sizeof(keys) / sizeof(keys[0]),
    .required = UINT32_C(1) << SPSH__JSON_ID | UINT32_C(1) << SPSH__JSON_AUDIO,
    .extensions = extensions,
};

const spsh_layout spsh__layout_wenet = {
    .name = "wenet",
    .summary = "wenet data lists: JSON lines with key, wav and txt",
    .tier = SPSH_LAYOUT_FORMAT,
    .reads_file = true,
    .json = &format,
};
