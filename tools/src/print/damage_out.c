/* damage_out.c: print damage. Ids and messages come from untrusted files, so the output cannot
 * control a terminal or break a line. */
#include "damage_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static void print_text(const char *text)
{
    spsh__text_print(stdout, (spsh_bytes){(const uint8_t *)text, strlen(text)}, 0);
}

void spsh__damage_print(const spsh_damage *damage)
{
    print_text(damage->file);
    printf(": %s", damage->part);
    if (damage->offset_bytes != SPSH_OFFSET_NONE)
        printf(" at %" PRIu64, damage->offset_bytes);
    if (damage->id.size_bytes != 0) {
        printf(", ");
        spsh__text_print(stdout, damage->id, 0);
    }
    if (damage->utterances != 0)
        printf(", %" PRIu64 " utterance%s", damage->utterances, damage->utterances == 1 ? "" : "s");
    printf(": ");
    print_text(damage->message);
    printf("\n");
}

bool spsh__damage_print_json(spsh_json *json, const char *type, const char *dataset,
                             const spsh_damage *damage)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__json_put_string(json, "type", type);
    spsh__json_put_string(json, "dataset", dataset);
    spsh__json_put_string(json, "file", damage->file);
    spsh__json_put_string(json, "part", damage->part);
    if (damage->offset_bytes != SPSH_OFFSET_NONE)
        spsh__json_put_u64(json, "offset", damage->offset_bytes);
    if (damage->size_bytes != 0)
        spsh__json_put_u64(json, "size", damage->size_bytes);
    if (damage->id.size_bytes != 0)
        spsh__json_put_text(json, "id", damage->id);
    spsh__json_put_u64(json, "utterances", damage->utterances);
    spsh__json_put_string(json, "message", damage->message);
    return spsh__json_write_line(json, stdout, &err) == SPSH_OK;
}
