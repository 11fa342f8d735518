/* text_profile.c: what a transcript says, without how it was written down.
 *
 * Each code point is looked at before and after it is decomposed (compatibility forms, case
 * folded):
 *
 *     letters, digits, marks   stay
 *     apostrophes of any kind  become U+0027, which stays between two of those and nowhere else
 *     format and ignorable     away: joiners, direction marks, soft hyphens, variation selectors
 *     everything else          a blank: punctuation and dashes, symbols, controls, white space
 *
 * Then marks are ordered and what can be composed is (NFC of the result, so the whole is NFKC with
 * case folding). utf8proc does single code points and the composition; the order of marks is ours,
 * because a run of a million marks would take it 10^12 steps: behind 30 marks on one letter, as in
 * Unicode's stream-safe form, the rest is dropped. Unassigned code points stay as they are.
 *
 * All of it happens in the memory of `out`: at most 18 code points of 4 bytes for one of the input.
 */
#include "text_profile.h"

#include <utf8proc.h>

#include "fail.h"

enum { POINTS_OF_ONE_MAX = 32, MARKS_MAX = 30, APOSTROPHE = 0x27, BLANK = 0x20, DOT_ABOVE = 0x307 };

const char *spsh__text_profile_name(spsh__text_profile profile)
{
    static const char *const names[] = {"default-1", "cjk-1", "marks-1"};
    return profile < SPSH__TEXT_PROFILE_COUNT ? names[profile] : "unknown";
}

bool spsh__text_profile_find(const char *name, spsh__text_profile *ret_profile)
{
    for (unsigned i = 0; i < SPSH__TEXT_PROFILE_COUNT; i++) {
        if (strcmp(name, spsh__text_profile_name((spsh__text_profile)i)) == 0) {
            *ret_profile = (spsh__text_profile)i;
            return true;
        }
    }
    return false;
}

/* The text so far, as code points. */
typedef struct points {
    int32_t *at; /* has room for what one code point of the input may become */
    size_t count;
    unsigned marks; /* behind the last letter */
    spsh__text_profile profile;
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

/* Scripts that write words without blanks: kana and Han. */
static bool is_ideograph(int32_t point)
{
    return point >= 0x3005 &&
           ((point <= 0x3007) || (point >= 0x3040 && point <= 0x30ff) ||
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
}

static void push_starter(points *p, int32_t point)
{
    if (p->profile == SPSH__TEXT_PROFILE_CJK && last_of(p) != BLANK) {
        /* Marks behind an ideograph belong to it. */
        size_t base = p->count - 1;
        while (base > 0 && p->marks > 0 && p->count - 1 - base < p->marks)
            base--;
        if (is_ideograph(point) || is_ideograph(p->at[base]))
            push_blank(p);
    }
    p->at[p->count++] = point;
    p->marks = 0;
}

/* Diacritics of letters that are letters without them. Not marks of a class of its own (vowels of
 * Thai, the voiced sound mark of kana) or of none (vowel signs of Indic scripts). */
static bool is_diacritic(utf8proc_propval_t class)
{
    return class == 1 || (class >= 10 && class <= 36) || class >= 200;
}

static void push_mark(points *p, int32_t point, utf8proc_propval_t class)
{
    const int32_t last = last_of(p);
    if (last == BLANK || last == APOSTROPHE || p->marks == MARKS_MAX)
        return; /* on nothing, or on too much */
    if ((point == DOT_ABOVE && last == 'i') ||
        (p->profile == SPSH__TEXT_PROFILE_MARKS && is_diacritic(class)))
        return;
    size_t to = p->count++;
    while (class > 0 && to > 0 && utf8proc_get_property(p->at[to - 1])->combining_class > class) {
        p->at[to] = p->at[to - 1];
        to--;
    }
    p->at[to] = point;
    p->marks++;
}

typedef enum point_kind {
    KIND_LETTER,
    KIND_MARK,
    KIND_APOSTROPHE,
    KIND_NOTHING,
    KIND_BLANK
} point_kind;

static point_kind kind_of(int32_t point, const utf8proc_property_t *property,
                          spsh__text_profile profile)
{
    const unsigned category = (unsigned)property->category;
    if (is_apostrophe(point))
        return KIND_APOSTROPHE;
    if (property->ignorable || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_ME)
        return KIND_NOTHING;
    if (point == 0x640 && profile == SPSH__TEXT_PROFILE_MARKS)
        return KIND_NOTHING; /* tatweel, which stretches a word */
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

static void push_input(points *p, int32_t point)
{
    int32_t parts[POINTS_OF_ONE_MAX];
    int boundary = 0;
    const utf8proc_property_t *property = utf8proc_get_property(point);
    const point_kind kind = kind_of(point, property, p->profile);
    if (kind != KIND_LETTER && kind != KIND_MARK) {
        push(p, point, kind, property);
        return;
    }
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        point, parts, POINTS_OF_ONE_MAX,
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD, &boundary);
    if (count < 0 || count > POINTS_OF_ONE_MAX) {
        push(p, point, kind, property); /* no code point of Unicode is longer than 18 */
        return;
    }
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        property = utf8proc_get_property(parts[i]);
        push(p, parts[i], kind_of(parts[i], property, p->profile), property);
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

/* Code points become UTF-8 in place: no code point takes more than the four bytes it was in. */
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

spsh_status spsh__text_normalise(spsh__text_profile profile, spsh_bytes text, spsh__builder *out,
                                 spsh_error *err)
{
    points p = {.profile = profile};
    size_t done = 0;
    size_t room = 0;
    spsh__builder_clear(out);
    while (done < text.size_bytes) {
        int32_t point = 0;
        if (room < p.count + 2 * POINTS_OF_ONE_MAX) {
            /* As much again as is left, so that plain text is done in one. */
            out->size_bytes = p.count * sizeof(*p.at);
            const size_t more = text.size_bytes - done + 2 * POINTS_OF_ONE_MAX;
            if (spsh__builder_reserve(out, more * sizeof(*p.at)) == NULL)
                return SPSH_DEDUP_NO_MEMORY(err);
            p.at = (int32_t *)(void *)out->data;
            room = p.count + more;
        }
        if (push_ascii(&p, text.data[done])) {
            done++;
            continue;
        }
        const size_t left = text.size_bytes - done;
        const utf8proc_ssize_t size =
            utf8proc_iterate(text.data + done, left > 4 ? 4 : (utf8proc_ssize_t)left, &point);
        if (size <= 0) {
            spsh__builder_clear(out);
            return SPSH_DEDUP_FAIL(err, SPSH_E_SYNTAX, "a text is not UTF-8 at its byte %zu", done);
        }
        push_input(&p, point);
        done += (size_t)size;
    }
    out->size_bytes = 0;
    if (p.count == 0)
        return SPSH_OK;
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(p.at, (utf8proc_ssize_t)p.count,
                                                            UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    out->size_bytes = write_utf8(out->data, count < 0 ? p.count : (size_t)count);
    return SPSH_OK;
}
