/* explain_words.c: show each limit that was applied to the measurements, and the verdict in words.
 *
 * The checks are those of align.c, in the same order. The first failed check decides. If none
 * fails, the checks that define the class decide.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "explain.h"

static spsh_explain_check *add(spsh__explain_facts *f, const char *what, const char *unit,
                               double found, double limit, bool is_at_most)
{
    spsh_explain_check *check = &f->checks[f->shown.check_count++];
    *check = (spsh_explain_check){what, unit, found, limit, is_at_most, false, false};
    check->is_passed = is_at_most ? found <= limit : found >= limit;
    return check;
}

static void describe(spsh__explain_facts *f, const char *format, ...) SPSH_PRINTF(2, 3);
static void describe(spsh__explain_facts *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(f->verdict, sizeof(f->verdict), format, args);
    va_end(args);
}

static double ber_limit(const spsh__explain_facts *f, double active_s)
{
    return f->limits.ber_max[active_s < 1.5 ? 0 : active_s < 2.5 ? 1 : 2];
}

/* ---- the waveform ---- */

typedef struct wave_rule {
    double ncc, white;
    bool is_eased; /* limits are lower because few bits are wrong */
} wave_rule;

/* The limits of align.c for the waveform, which depend on the active speech and the bit error rate.
 */
static wave_rule wave_rule_for(const spsh__align_limits *limits, const spsh__match *m)
{
    const bool is_clean = m->ber <= limits->ber_sure;
    const double flat = fabs(m->ncc_white);
    if (m->active_s < limits->tiny_s)
        return (wave_rule){limits->ncc_tiny, limits->white_tiny, false};
    if (m->active_s < limits->short_s && is_clean && flat >= limits->white_with_bits)
        return (wave_rule){limits->white_with_bits, limits->white_with_bits, true};
    if (m->active_s < limits->short_s)
        return (wave_rule){limits->ncc_short, limits->white_short, false};
    return (wave_rule){is_clean ? limits->ncc_with_bits : limits->ncc_sure, limits->white_min,
                       is_clean};
}

static void check_wave(spsh__explain_facts *f, const spsh__match *m)
{
    const wave_rule rule = wave_rule_for(&f->limits, m);
    add(f, rule.is_eased ? "correlation (lower limit because of few wrong bits)" : "correlation",
        "", fmax(fabs(m->ncc), fabs(m->ncc_white)), rule.ncc, false);
    add(f, "whitened correlation", "", fabs(m->ncc_white), rule.white, false);
}

/* ---- the checks ---- */

static bool is_of_waveform(spsh_copy_class kind)
{
    return kind == SPSH_COPY_SAME_RECORDING || kind == SPSH_COPY_CONTAINED ||
           kind == SPSH_COPY_SHARED_SEGMENT;
}

static void check_steps(spsh__explain_facts *f, const spsh__match *m)
{
    if (m->kind == SPSH_COPY_TIME_SCALED || m->tier == SPSH_TIER_SCALED) {
        add(f, "difference in speed", "ppm", fabs(1 / m->scale - 1) * 1e6, f->limits.slope_min_ppm,
            false);
        return;
    }
    if (m->kind == SPSH_COPY_SAME_PERFORMANCE || m->kind == SPSH_COPY_REREAD) {
        add(f, "blocks with a common lag", "%", 100 * m->block_share,
            100 * f->limits.share_performance, false);
        add(f, "envelope (limit of one performance)", "", m->envelope,
            f->limits.envelope_performance, false);
    }
    if (m->kind == SPSH_COPY_PROBABLE_COPY || m->kind == SPSH_COPY_REREAD) {
        const bool is_long = m->active_s >= f->limits.long_s && m->ber > f->limits.ber_probable;
        add(f, "bit error rate (limit of a codec's copy)", "", m->ber,
            is_long ? f->limits.ber_long : f->limits.ber_probable, true);
        add(f, "envelope (limit of a codec's copy)", "", m->envelope,
            is_long ? f->limits.envelope_long : f->limits.envelope_probable, false);
    }
}

static void check_all(spsh__explain_facts *f, const spsh__match *m)
{
    add(f, "common active speech", "s", m->active_s, f->limits.active_min_s, false);
    add(f, "distinct bit patterns", "/s", m->words_hz, f->limits.words_min_hz, false);
    add(f, "bit error rate", "", m->ber, ber_limit(f, m->active_s), true);
    if (m->kind == SPSH_COPY_NONE && !f->checks[2].is_passed)
        return; /* the search stopped here, so nothing else was measured */
    add(f, "tonality", "", m->tonality, f->limits.tonality_max, true);
    if (m->kind == SPSH_COPY_NONE)
        return;
    check_wave(f, m);
    if (is_of_waveform(m->kind)) {
        add(f, "share of a's active speech", "%", 100 * m->coverage_a, 100 * f->limits.coverage_min,
            false);
        add(f, "share of b's active speech", "%", 100 * m->coverage_b, 100 * f->limits.coverage_min,
            false);
    }
    check_steps(f, m);
}

/* ---- words ---- */

static void describe_same(spsh__explain_facts *f, const spsh__match *m)
{
    static const char *const heads[] = {"", "The same recording", "One contains the other",
                                        "They share a segment"};
    const spsh_explain_check *wave = &f->checks[4];
    const double share_a = 100 * m->coverage_a;
    const double share_b = 100 * m->coverage_b;
    for (size_t i = 2; i < f->shown.check_count; i++)
        f->checks[i].decides = i == 2 || i == 4 || i >= 6;
    describe(f,
             "%s: the fingerprints agree (bit error rate %.3f, at most %.2f is allowed), and so do "
             "the waveforms (correlation %.3f, at least %.2f is needed). The common part holds "
             "%.0f %% of a's active speech and %.0f %% of b's; with at least %.0f %%, it counts as "
             "the whole recording%s.",
             heads[m->kind], m->ber, ber_limit(f, m->active_s), wave->found, wave->limit, share_a,
             share_b, 100 * f->limits.coverage_min,
             m->is_inverted ? ". The polarity is inverted" : "");
}

static void describe_none(spsh__explain_facts *f, const spsh__match *m)
{
    for (size_t i = 0; i < f->shown.check_count; i++) {
        spsh_explain_check *check = &f->checks[i];
        if (check->is_passed)
            continue;
        check->decides = true;
        describe(f,
                 "Not a copy: at the position where the two agree best, %s is %.3g%s%s, but %s "
                 "%.3g is required. The later checks were skipped.",
                 check->what, check->found, check->unit[0] == '\0' ? "" : " ", check->unit,
                 check->is_at_most ? "at most" : "at least", check->limit);
        return;
    }
    describe(f,
             "Not a copy: the %.2f s of active speech that a and b have in common are too short.",
             m->active_s);
}

static void describe_reread(spsh__explain_facts *f, const spsh__match *m)
{
    const spsh_explain_check *wave = &f->checks[4];
    f->checks[4].decides = !f->checks[4].is_passed;
    f->checks[5].decides = !f->checks[5].is_passed;
    describe(f,
             "Not a copy: for %.2f s the fingerprints agree (bit error rate %.3f, at most %.2f is "
             "allowed), but the waveforms do not: the correlation is %.3f and the whitened "
             "correlation %.3f, but this much speech needs %.2f and %.2f. One voice that repeats "
             "the same words or sounds has this effect.",
             m->active_s, m->ber, ber_limit(f, m->active_s), wave->found, f->checks[5].found,
             wave->limit, f->checks[5].limit);
}

static void describe_class(spsh__explain_facts *f, const spsh__match *m)
{
    switch (m->kind) {
    case SPSH_COPY_SAME_RECORDING:
    case SPSH_COPY_CONTAINED:
    case SPSH_COPY_SHARED_SEGMENT: describe_same(f, m); break;
    case SPSH_COPY_TIME_SCALED:
        f->checks[f->shown.check_count - 1].decides = true;
        describe(f,
                 "The same recording at another speed: with b's speed divided by %.5f, the "
                 "correlation of the waveforms is %.3f (whitened %.3f). Never dropped, because it "
                 "may be an intended augmentation.",
                 m->scale, fabs(m->ncc), fabs(m->ncc_white));
        break;
    case SPSH_COPY_PROBABLE_COPY:
        describe(f,
                 "Probably a copy through a codec that does not preserve the waveform: the bit "
                 "error rate %.3f and the envelope %.2f indicate a copy, but the correlation %.3f "
                 "does not. Never dropped; listen to decide.",
                 m->ber, m->envelope, fabs(m->ncc));
        break;
    case SPSH_COPY_SAME_PERFORMANCE:
        describe(f,
                 "The same performance through another microphone: %.0f %% of the blocks have a "
                 "common lag within %.2f ms, and the envelope is %.2f, but the waveforms differ "
                 "(correlation %.3f). Never dropped; between train and test it is a leak.",
                 100 * m->block_share, m->spread_ms, m->envelope, fabs(m->ncc));
        break;
    case SPSH_COPY_REREAD: describe_reread(f, m); break;
    case SPSH_COPY_NONE:
    case SPSH_COPY_CLASS_COUNT: describe_none(f, m); break;
    }
}

/* ---- the verdict ---- */

static bool describe_exact(spsh__explain_facts *f)
{
    f->shown.kind = SPSH_COPY_SAME_RECORDING;
    f->shown.may_drop = true;
    if (f->shown.is_one_record) {
        f->shown.tier = SPSH_TIER_BYTES;
        describe(f, "The same recording: the stored bytes are equal, or both utterances use one "
                    "stored record.");
    } else if (f->shown.has_equal_pcm || f->shown.has_equal_trimmed || f->shown.has_equal_mono) {
        f->shown.tier = SPSH_TIER_PCM;
        describe(f, "The same recording: every decoded sample is equal%s.",
                 f->shown.has_equal_pcm       ? ""
                 : f->shown.has_equal_trimmed ? ", except for digital silence around them"
                                              : ", except that one repeats the channel");
    } else {
        return false;
    }
    return true;
}

void spsh__explain_judge(spsh__explain_facts *f)
{
    const spsh__match *m = &f->best;
    const bool is_measured = m->count > 0 && m->active_s > 0;
    if (is_measured)
        check_all(f, m);
    if (describe_exact(f))
        return;
    f->shown.tier = m->tier;
    f->shown.kind = m->kind;
    f->shown.may_drop = spsh__tier_may_drop(m->tier) &&
                        (m->kind == SPSH_COPY_SAME_RECORDING || m->kind == SPSH_COPY_CONTAINED);
    if ((f->rows[0].flags & f->rows[1].flags & SPSH__ROW_DECODED) == 0)
        describe(f, "Unknown: the audio of %s cannot be decoded, and the stored bytes differ.",
                 (f->rows[0].flags & SPSH__ROW_DECODED) == 0 ? "a" : "b");
    else if (is_measured)
        describe_class(f, m);
    else if (!f->is_searched)
        describe(f, "Not a copy as far as known: no keys agree, and the two are too long to "
                    "compare at every offset.");
    else
        describe(f, "Not a copy: at no offset do the two have %.2g s of active speech in common.",
                 f->limits.active_min_s);
}
