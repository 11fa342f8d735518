/* text_profile.c: reduce a transcript to its words, independent of how it was written down.
 *
 * Each code point is classified before and after its decomposition (compatibility forms, case
 * folding):
 *
 *     letters, digits, marks   are kept
 *     apostrophes of any kind  become U+0027, which is kept only between two word characters
 *     format and ignorable     are removed (joiners, soft hyphens, variation selectors)
 *     everything else          becomes a blank: punctuation, dashes, symbols, controls, white space
 *
 * Then marks are ordered, and the text is composed with NFC. So the whole is NFKC with case
 * folding. utf8proc decomposes single code points and composes the result. This file orders the
 * marks itself, because utf8proc would need 10^12 steps for a run of a million marks. As in
 * Unicode's stream-safe form, marks after the first 30 on one letter are dropped. Unassigned code
 * points are kept.
 *
 * All steps work in the memory of `out`: at most 18 code points of 4 bytes per code point of input.
 *
 * Two shortcuts give the same result. ASCII needs no code points. A lowercase letter that
 * composition would restore is not decomposed until a mark follows it.
 */
#include "text_profile.h"

#include <utf8proc.h>

#include "speechshard/inside.h"

enum {
    POINTS_OF_ONE_MAX = 32,
    MARKS_MAX = 30,
    APOSTROPHE = 0x27,
    BLANK = 0x20,
    DOT_ABOVE = 0x307,
    IOTA_BELOW = 0x345,
    IOTA = 0x3b9
};

const char *spsh__text_profile_name(spsh_text_profile profile)
{
    static const char *const names[] = {"default-1", "cjk-1", "marks-1"};
    return profile < SPSH_TEXT_PROFILE_COUNT ? names[profile] : "unknown";
}

/* The normalized text so far, as code points. */
typedef struct points {
    int32_t *at; /* has capacity for the parts of one more input code point */
    size_t count;
    unsigned marks;      /* number of marks after the last letter */
    bool has_parts;      /* composition may be necessary */
    bool is_precomposed; /* the last letter was not decomposed; a mark after it will decompose it */
    spsh_text_profile profile;
} points;

static bool is_apostrophe(int32_t point)
{
    switch (point) {
    case 0x27:
    case 0x60:
    case 0xb4:
    case 0x2b9:
    case 0x2bb:
    case 0x2bc:
    case 0x2bd:
    case 0x5f3:
    case 0x2018:
    case 0x2019:
    case 0x201b:
    case 0x2032:
    case 0xff07: return true;
    default: return false;
    }
}

/* Scripts that write words without blanks: kana and Han, but not the two combining marks of kana.
 */
static bool is_ideograph(int32_t point)
{
    return point >= 0x3005 &&
           ((point <= 0x3007) ||
            (point >= 0x3040 && point <= 0x30ff && point != 0x3099 && point != 0x309a) ||
            (point >= 0x31f0 && point <= 0x31ff) || (point >= 0x3400 && point <= 0x4dbf) ||
            (point >= 0x4e00 && point <= 0x9fff) || (point >= 0xf900 && point <= 0xfaff) ||
            (point >= 0x1b000 && point <= 0x1b16f) || (point >= 0x20000 && point <= 0x3ffff));
}

static int32_t last_of(const points *p)
{
    return p->count == 0 ? BLANK : p->at[p->count - 1];
}

static void push_blank(points *p)
{
    if (last_of(p) != BLANK)
        p->at[p->count++] = BLANK;
    p->marks = 0;
    p->is_precomposed = false;
}

static void push_starter(points *p, int32_t point)
{
    if (p->profile == SPSH_TEXT_PROFILE_CJK && last_of(p) != BLANK) {
        /* Marks after an ideograph belong to it. */
        const int32_t base = p->at[p->count - 1 - p->marks];
        if (is_ideograph(point) || is_ideograph(base))
            push_blank(p);
    }
    p->at[p->count++] = point;
    p->marks = 0;
    p->is_precomposed = false;
}

/* Whether the mark can be removed and leaves a letter. False for marks with a special class (vowels
 * of Thai, the voiced sound mark of kana) and for marks of class 0 (vowel signs of Indic scripts).
 */
static bool is_diacritic(utf8proc_propval_t class)
{
    return class == 1 || (class >= 10 && class <= 36) || class >= 200;
}

static void take_apart(points *p);

static void push_mark(points *p, int32_t point, utf8proc_propval_t class)
{
    if (p->is_precomposed)
        take_apart(p);
    const int32_t last = last_of(p);
    if (last == BLANK || last == APOSTROPHE || p->marks == MARKS_MAX)
        return; /* no letter before it, or too many marks */
    const int32_t base = p->at[p->count - 1 - p->marks];
    if ((point == DOT_ABOVE && base == 'i') ||
        (point == IOTA_BELOW && (base < 0x370 || base > 0x3ff)) ||
        (p->profile == SPSH_TEXT_PROFILE_MARKS && is_diacritic(class)))
        return;
    size_t to = p->count++;
    while (class > 0 && to > 0 && utf8proc_get_property(p->at[to - 1])->combining_class > class) {
        p->at[to] = p->at[to - 1];
        to--;
    }
    p->at[to] = point;
    p->marks++;
    p->has_parts = true;
}

typedef enum point_kind {
    KIND_LETTER,
    KIND_MARK,
    KIND_APOSTROPHE,
    KIND_NOTHING,
    KIND_BLANK
} point_kind;

static point_kind kind_of(int32_t point, const utf8proc_property_t *property,
                          spsh_text_profile profile)
{
    const unsigned category = (unsigned)property->category;
    if (is_apostrophe(point))
        return KIND_APOSTROPHE;
    if (property->ignorable || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_ME)
        return KIND_NOTHING;
    if (point == 0x640 && profile == SPSH_TEXT_PROFILE_MARKS)
        return KIND_NOTHING; /* tatweel, which only stretches a word */
    if (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC)
        return KIND_MARK;
    if ((category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
        (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) ||
        category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CO)
        return KIND_LETTER;
    return KIND_BLANK;
}

static void push(points *p, int32_t point, point_kind kind, const utf8proc_property_t *property)
{
    switch (kind) {
    case KIND_LETTER: push_starter(p, point); break;
    case KIND_MARK: push_mark(p, point, property->combining_class); break;
    case KIND_APOSTROPHE: push_starter(p, APOSTROPHE); break;
    case KIND_BLANK: push_blank(p); break;
    case KIND_NOTHING: break;
    }
}

static size_t parts_of(int32_t point, utf8proc_option_t how, int32_t parts[POINTS_OF_ONE_MAX])
{
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        point, parts, POINTS_OF_ONE_MAX, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | how, &boundary);
    /* No code point of Unicode has more than 18 parts. One that did would be dropped. */
    return count < 0 || count > POINTS_OF_ONE_MAX ? 0 : (size_t)count;
}

/* Fold a part after the decomposition. The iota below a Greek letter stays a mark here, so that it
 * is ordered after all other marks. compose() turns it into a letter. */
static void push_folded(points *p, int32_t point)
{
    int32_t parts[POINTS_OF_ONE_MAX] = {point};
    const bool is_folded =
        point == IOTA_BELOW || utf8proc_get_property(point)->casefold_seqindex == UINT16_MAX;
    const size_t count =
        is_folded ? 1 : parts_of(point, UTF8PROC_COMPAT | UTF8PROC_CASEFOLD, parts);
    p->has_parts |= count > 1;
    for (size_t i = 0; i < count; i++) {
        const utf8proc_property_t *property = utf8proc_get_property(parts[i]);
        push(p, parts[i], kind_of(parts[i], property, p->profile), property);
    }
}

static void push_parts(points *p, int32_t point)
{
    int32_t parts[POINTS_OF_ONE_MAX];
    const size_t count = parts_of(point, UTF8PROC_COMPAT, parts);
    p->has_parts |= count > 1;
    for (size_t i = 0; i < count; i++)
        push_folded(p, parts[i]);
}

/* Decompose the last letter, because a following mark may change it. */
static void take_apart(points *p)
{
    p->is_precomposed = false;
    push_parts(p, p->at[--p->count]);
}

static bool is_in(int32_t point, int32_t first, int32_t last)
{
    return point >= first && point <= last;
}

/* Letters that composition restores from their canonical parts: no exclusions, no singletons. */
static bool is_composed(int32_t point, const utf8proc_property_t *property)
{
    return property->decomp_type == 0 &&
           (is_in(point, 0xdf, 0x24f) || is_in(point, 0x388, 0x3ff) || is_in(point, 0x400, 0x52f) ||
            is_in(point, 0x620, 0x6ff) || is_in(point, 0x1e00, 0x1eff) ||
            is_in(point, 0x3041, 0x30fe));
}

static void push_input(points *p, int32_t point)
{
    const utf8proc_property_t *property = utf8proc_get_property(point);
    const point_kind kind = kind_of(point, property, p->profile);
    const bool is_hangul = is_in(point, 0xac00, 0xd7a3);
    if (kind != KIND_LETTER && kind != KIND_MARK) {
        push(p, point, kind, property);
    } else if (kind == KIND_LETTER && property->casefold_seqindex == UINT16_MAX &&
               (is_hangul || property->decomp_seqindex == UINT16_MAX)) {
        p->has_parts |= is_in(point, 0x1100, 0x11ff); /* jamo may compose to a syllable */
        push_starter(p, point);
    } else if (kind == KIND_LETTER && property->casefold_seqindex == UINT16_MAX &&
               p->profile != SPSH_TEXT_PROFILE_MARKS && is_composed(point, property)) {
        push_starter(p, point);
        p->is_precomposed = true;
    } else {
        push_parts(p, point);
    }
}

static bool push_ascii(points *p, uint8_t byte)
{
    if (byte >= 0x80)
        return false;
    if ((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9'))
        push_starter(p, byte);
    else if (byte >= 'A' && byte <= 'Z')
        push_starter(p, byte + ('a' - 'A'));
    else if (byte == '\'' || byte == '`')
        push_starter(p, APOSTROPHE);
    else
        push_blank(p);
    return true;
}

static bool is_word(int32_t point)
{
    return point != BLANK && point != APOSTROPHE;
}

/* Convert code points to UTF-8 in place. No code point needs more than the four bytes that it had.
 */
static size_t write_utf8(uint8_t *data, size_t count)
{
    const int32_t *at = (const int32_t *)(const void *)data;
    size_t bytes = 0;
    int32_t before = BLANK;
    bool blank = false;
    for (size_t i = 0; i < count; i++) {
        const int32_t point = at[i];
        const int32_t next = i + 1 < count ? at[i + 1] : BLANK;
        if (point == BLANK) {
            blank = true;
            before = BLANK;
            continue;
        }
        if (point == APOSTROPHE && (!is_word(before) || !is_word(next))) {
            before = APOSTROPHE;
            continue;
        }
        if (blank && bytes > 0)
            data[bytes++] = ' ';
        blank = false;
        before = point;
        bytes += (size_t)utf8proc_encode_char(point, data + bytes);
    }
    return bytes;
}

static size_t compose(const points *p)
{
    for (size_t i = 0; i < p->count; i++)
        p->at[i] = p->at[i] == IOTA_BELOW ? IOTA : p->at[i];
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(p->at, (utf8proc_ssize_t)p->count,
                                                            UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    return count < 0 ? p->count : (size_t)count;
}

static bool is_ascii(spsh_bytes text)
{
    uint8_t any = 0;
    for (size_t i = 0; i < text.size_bytes; i++)
        any |= text.data[i];
    return any < 0x80;
}

static spsh_status normalise_ascii(spsh_bytes text, spsh__builder *out, spsh_error *err)
{
    size_t bytes = 0;
    bool blank = true, apostrophe = false, after_word = false;
    /* Write a blank before each word except the first, and an apostrophe only between two word
     * characters. */
    uint8_t *to = spsh__builder_reserve(out, text.size_bytes + 2);
    if (to == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < text.size_bytes; i++) {
        const uint8_t c = text.data[i];
        const bool is_upper = c >= 'A' && c <= 'Z';
        if (is_upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
            if (blank && bytes > 0)
                to[bytes++] = BLANK;
            else if (apostrophe)
                to[bytes++] = APOSTROPHE;
            to[bytes++] = is_upper ? (uint8_t)(c + ('a' - 'A')) : c;
            blank = apostrophe = false;
            after_word = true;
        } else {
            apostrophe = after_word && (c == '\'' || c == '`');
            blank |= c != '\'' && c != '`';
            after_word = false;
        }
    }
    out->size_bytes = bytes;
    return SPSH_OK;
}

spsh_status spsh__text_normalise(spsh_text_profile profile, spsh_bytes text, spsh__builder *out,
                                 spsh_error *err)
{
    points p = {.profile = profile};
    size_t done = 0;
    size_t capacity = 0;
    spsh__builder_clear(out);
    if (is_ascii(text))
        return normalise_ascii(text, out, err);
    while (done < text.size_bytes) {
        int32_t point = 0;
        if (capacity < p.count + (size_t)2 * POINTS_OF_ONE_MAX) {
            /* Reserve one code point per remaining byte, so that plain text needs only one
             * allocation. */
            out->size_bytes = p.count * sizeof(*p.at);
            const size_t more = text.size_bytes - done + (size_t)2 * POINTS_OF_ONE_MAX;
            if (spsh__builder_reserve(out, more * sizeof(*p.at)) == NULL)
                return SPSH_NO_MEMORY(err);
            p.at = (int32_t *)(void *)out->data;
            capacity = p.count + more;
        }
        if (push_ascii(&p, text.data[done])) {
            done++;
            continue;
        }
        const size_t left = text.size_bytes - done;
        const utf8proc_ssize_t size =
            utf8proc_iterate(text.data + done, left > 4 ? 4 : (utf8proc_ssize_t)left, &point);
        if (size <= 0) { /* not UTF-8 */
            spsh__builder_clear(out);
            return SPSH_OK;
        }
        push_input(&p, point);
        done += (size_t)size;
    }
    out->size_bytes = 0;
    if (p.count == 0)
        return SPSH_OK;
    if (p.has_parts)
        p.count = compose(&p);
    out->size_bytes = write_utf8(out->data, p.count);
    return SPSH_OK;
}
