/* hear_words.c: see hear_words.h. */
#include "hear_words.h"

#include <inttypes.h>

#include "common/svg.h"
#include "selection.h"

enum { MEMORY_GIB = 8 /* memory for one utterance: enough for hours */ };

/* Reject an augmentation without datasets to draw from. The loader's own message names no option of
 * the command. */
static int check_drawn(const char *command, const char *what, float probability,
                       const spsh_cli_texts *paths)
{
    if (probability <= 0 || paths->count > 0)
        return SPSH_EXIT_DONE;
    return spsh__cli_usage(
        command,
        "--augment: %s_probability is %g, but no datasets of %ss are given; give --%s DATASET",
        what, (double)probability, what, what);
}

int spsh__hear_request_make(const char *command, const spsh__hear_words *words,
                            spsh__hear_request *request)
{
    spsh__hear_request *r = request;
    spsh_error err = SPSH_ERROR_INIT;
    *r = (spsh__hear_request){.loader = SPSH_LOADER_OPTIONS_INIT,
                              .plan = SPSH_PLAN_OPTIONS_INIT,
                              .features = SPSH_FEATURE_OPTIONS_INIT,
                              .augment = SPSH_AUGMENT_OPTIONS_INIT};
    r->loader.plan = &r->plan;
    r->plan.seed = words->seed;
    r->loader.memory_bytes = (uint64_t)MEMORY_GIB << 30;
    if (words->features != NULL) {
        if (spsh_feature_options_parse(words->features, &r->features, &err) != SPSH_OK)
            return spsh__cli_usage(command, "--features: %s", err.message);
        r->loader.features = &r->features;
    }
    if (words->augment != NULL) {
        if (spsh_augment_options_parse(words->augment, &r->augment, &err) != SPSH_OK)
            return spsh__cli_usage(command, "--augment: %s", err.message);
        r->loader.augment = &r->augment;
    }
    if (words->augment == NULL && words->noises.count + words->rooms.count > 0)
        return spsh__cli_usage(command, "--noise and --room need --augment TEXT");
    int rc = SPSH_EXIT_DONE;
    if (words->augment != NULL)
        rc = check_drawn(command, "noise", r->augment.noise_probability, &words->noises);
    if (rc == SPSH_EXIT_DONE && words->augment != NULL)
        rc = check_drawn(command, "room", r->augment.room_probability, &words->rooms);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    rc = spsh__datasets_open_all(words->noises.items, words->noises.count, &r->noises);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__datasets_open_all(words->rooms.items, words->rooms.count, &r->rooms);
    if (rc != SPSH_EXIT_DONE) {
        spsh__hear_request_free(r);
        return rc;
    }
    r->loader.noises = (const spsh_dataset *const *)r->noises.items;
    r->loader.noise_count = r->noises.count;
    r->loader.rooms = (const spsh_dataset *const *)r->rooms.items;
    r->loader.room_count = r->rooms.count;
    return SPSH_EXIT_DONE;
}

void spsh__hear_request_free(spsh__hear_request *request)
{
    spsh__datasets_close(&request->noises);
    spsh__datasets_close(&request->rooms);
}

/* ---- descriptions for people ---- */

static void begin(spsh__builder *out, size_t start)
{
    spsh__builder_append_text(out, out->size_bytes > start ? ", " : "");
}

/* Append "first to last" of each mask. Empty masks are omitted. */
static void print_masks(spsh__builder *out, const spsh_augment_draw *draw,
                        const spsh_augment_subject *s, bool in_time)
{
    const uint32_t masks = in_time ? draw->time_masks : draw->frequency_masks;
    const char *before = in_time ? "frames " : "bins ";
    for (uint32_t i = 0; i < masks; i++) {
        uint64_t first = 0, count = 0;
        uint32_t bin = 0, bins = 0;
        if (in_time) {
            spsh_augment_time_mask(draw, i, s->frame_count, &first, &count);
        } else {
            spsh_augment_frequency_mask(draw, i, s->dim, &bin, &bins);
            first = bin;
            count = bins;
        }
        if (count == 0)
            continue;
        spsh__html_format(out, "%s%" PRIu64 " to %" PRIu64, before, first, first + count - 1);
        before = " and ";
    }
}

void spsh__hear_print(spsh__builder *out, const spsh_augment_draw *draw,
                      const spsh_augment_subject *subject)
{
    const size_t start = out->size_bytes;
    if (draw->speed_percent != 100)
        spsh__html_format(out, "speed %.4g (%" PRIu64 " samples)", draw->speed_percent / 100.0,
                          spsh_augment_sample_count(draw, subject->sample_count));
    if (draw->has_room) {
        begin(out, start);
        spsh__builder_append_text(out, "room ");
        spsh__builder_append_text(out, subject->room_id != NULL ? subject->room_id : "");
    }
    if (draw->has_noise) {
        begin(out, start);
        spsh__builder_append_text(out, "noise ");
        spsh__builder_append_text(out, subject->noise_id != NULL ? subject->noise_id : "");
        spsh__html_format(out, " from its sample %" PRIu64 " on at %.1f dB", subject->noise_start,
                          (double)draw->snr_db);
    }
    if (draw->has_gain) {
        begin(out, start);
        spsh__html_format(out, "gain %.1f dB", (double)draw->gain_db);
    }
    for (int in_time = 1; in_time >= 0; in_time--) {
        spsh__builder masks = {0};
        print_masks(&masks, draw, subject, in_time == 1);
        if (masks.size_bytes > 0) {
            begin(out, start);
            spsh__builder_append_text(out, "without ");
            spsh__builder_append_bytes(out, spsh__builder_bytes(&masks));
        }
        out->failed = out->failed || masks.failed;
        spsh__builder_free(&masks);
    }
    if (out->size_bytes == start)
        spsh__builder_append_text(out, "as it is");
}
