/* augment_json.c: a draw as a line of JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "options/decimal_text.h"
#include "speechshard/augment.h"
#include "speechshard/featgen.h"
#include "speechshard/inside.h"

/* Text written so far. size also counts the text beyond the capacity. */
typedef struct line {
    char *text;
    size_t capacity, size;
} line;

static void put_char(line *out, char c)
{
    if (out->size + 1 < out->capacity)
        out->text[out->size] = c;
    out->size++;
}

static void put(line *out, const char *text)
{
    for (; *text != '\0'; text++)
        put_char(out, *text);
}

static void put_string(line *out, const char *text)
{
    put_char(out, '"');
    for (; *text != '\0'; text++) {
        char escape[8];
        if (*text == '"' || *text == '\\') {
            put_char(out, '\\');
            put_char(out, *text);
        } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            (void)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)*text);
            put(out, escape);
        } else {
            put_char(out, *text);
        }
    }
    put_char(out, '"');
}

static void put_whole(line *out, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%" PRIu64, value);
    put(out, digits);
}

static void put_float(line *out, float value)
{
    char digits[SPSH__DECIMAL_BYTES_MAX];
    (void)spsh__decimal_write(value, digits);
    put(out, digits);
}

/* Append "name": after the members that the object already has. */
static void put_name(line *out, const char *name)
{
    put(out, out->size > 1 ? ", " : "");
    put_string(out, name);
    put(out, ": ");
}

static void put_sounds(line *out, const spsh_augment_draw *draw,
                       const spsh_augment_subject *subject)
{
    if (draw->has_room) {
        put_name(out, "room");
        put(out, "{");
        if (subject->room_id != NULL) {
            put(out, "\"id\": ");
            put_string(out, subject->room_id);
        }
        put(out, "}");
    }
    if (draw->has_noise) {
        put_name(out, "noise");
        put(out, "{");
        if (subject->noise_id != NULL) {
            put(out, "\"id\": ");
            put_string(out, subject->noise_id);
            put(out, ", \"start\": ");
            put_whole(out, subject->noise_start);
            put(out, ", ");
        }
        put(out, "\"snr_db\": ");
        put_float(out, draw->snr_db);
        put(out, "}");
    }
}

/* Append one mask. *many: masks precede it. */
static void put_mask(line *out, const char *name, uint64_t first, uint64_t count, bool *many)
{
    if (count == 0)
        return;
    if (!*many) {
        put_name(out, name);
        put(out, "[");
    }
    put(out, *many ? ", [" : "[");
    put_whole(out, first);
    put(out, ", ");
    put_whole(out, count);
    put(out, "]");
    *many = true;
}

static void put_masks(line *out, const spsh_augment_draw *draw, const spsh_augment_subject *subject)
{
    bool many = false;
    for (uint32_t i = 0; i < draw->time_masks; i++) {
        uint64_t first = 0;
        uint64_t count = 0;
        spsh_augment_time_mask(draw, i, subject->frame_count, &first, &count);
        put_mask(out, "time_masks", first, count, &many);
    }
    put(out, many ? "]" : "");
    many = false;
    for (uint32_t i = 0; i < draw->frequency_masks; i++) {
        uint32_t first = 0;
        uint32_t count = 0;
        spsh_augment_frequency_mask(draw, i, subject->dim, &first, &count);
        put_mask(out, "frequency_masks", first, count, &many);
    }
    put(out, many ? "]" : "");
}

size_t spsh_augment_draw_json(const spsh_augment_draw *draw, const spsh_augment_subject *subject,
                              char *text, size_t capacity_bytes)
{
    line out = {text, capacity_bytes, 0};
    put(&out, "{");
    if (draw->speed_percent != 100) {
        put_name(&out, "speed");
        put_float(&out, (float)draw->speed_percent / 100);
        put_name(&out, "samples");
        put_whole(&out, spsh_augment_sample_count(draw, subject->sample_count));
    }
    put_sounds(&out, draw, subject);
    if (draw->has_gain) {
        put_name(&out, "gain_db");
        put_float(&out, draw->gain_db);
    }
    put_masks(&out, draw, subject);
    put(&out, "}");
    if (capacity_bytes > 0)
        text[out.size < capacity_bytes ? out.size : capacity_bytes - 1] = '\0';
    return out.size;
}
