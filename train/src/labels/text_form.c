/* text_form.c: decompose a letter and its combining marks, sort the parts, compose them, and pass
 * them on, then continue with the next letter. Only marks and the later parts of Hangul syllables
 * combine with preceding characters, so no more has to be buffered. The result is NFC (NFKC) of the
 * transcript.
 *
 * nfc    controls and white space become blanks; everything else stays
 * lower  letters, digits and marks stay, in lower case; apostrophes of any kind become U+0027,
 *        which stays between letters or digits; joiners, soft hyphens and other invisible
 *        characters are removed; everything else becomes a blank
 */
#include "text_form.h"

#include <utf8proc.h>

#include "speechshard/inside.h"

enum {
    PARTS_MAX = 32,  /* parts per code point; Unicode needs at most 18 */
    BEHIND_MAX = 30, /* maximum number of marks per letter: Unicode's stream-safe form */
    APOSTROPHE = 0x27,
    BLANK = 0x20,
    DOT_ABOVE = 0x307,
    CLASS_ABOVE = 230,
    JAMO_FIRST = 0x1160,
    JAMO_LAST = 0x11ff
};

static const char *const names[] = {"nfc-1", "lower-1", "upper-1"};
enum { FORMS = sizeof(names) / sizeof(names[0]), VERSION_BYTES = 2 };

const char *spsh__text_form_name(spsh__text_form form)
{
    return names[form];
}

spsh_status spsh__text_form_find(const char *name, spsh__text_form *ret_form, spsh_error *err)
{
    const size_t size = strlen(name);
    for (size_t i = 0; i < FORMS; i++) {
        const size_t full = strlen(names[i]);
        if ((size == full || size == full - VERSION_BYTES) && memcmp(name, names[i], size) == 0) {
            *ret_form = (spsh__text_form)i;
            return SPSH_OK;
        }
    }
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                     "unknown text profile '%.100s'; expected nfc-1, lower-1, or upper-1", name);
}

typedef struct forming {
    spsh__text_form form;
    void (*point_fn)(void *user, int32_t point);
    void *user;
    int32_t at[1 + BEHIND_MAX]; /* a letter and the marks that combine with it */
    size_t count;
    bool has_some;                    /* point_fn has been called */
    bool is_in_word;                  /* the last code point belongs to a word */
    bool owes_blank, owes_apostrophe; /* to pass on before the next code point of a word */
} forming;

/* ---- passing on ---- */

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
    case 0x1ffd: /* canonically equivalent to U+00B4 */
    case 0x2018:
    case 0x2019:
    case 0x201b:
    case 0x2032:
    case 0xff07: return true;
    default: return false;
    }
}

static bool is_mark(utf8proc_category_t category)
{
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
           category == UTF8PROC_CATEGORY_ME;
}

static void hand_on(forming *f, int32_t point)
{
    if (f->owes_blank && f->has_some)
        f->point_fn(f->user, BLANK);
    if (f->owes_apostrophe)
        f->point_fn(f->user, APOSTROPHE);
    f->point_fn(f->user, point);
    f->owes_blank = false;
    f->owes_apostrophe = false;
    f->has_some = true;
    f->is_in_word = true;
}

static void take_blank(forming *f)
{
    f->owes_blank = true;
    f->owes_apostrophe = false;
    f->is_in_word = false;
}

static void take_apostrophe(forming *f)
{
    f->owes_apostrophe = f->is_in_word;
    f->is_in_word = false;
}

static void take_plain(forming *f, int32_t point)
{
    const utf8proc_category_t category = utf8proc_category(point);
    const bool is_blank = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZS ||
                          category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP ||
                          point == SPSH__POINT_WORD;
    if (is_blank)
        take_blank(f);
    else
        hand_on(f, point);
}

static void take_cased(forming *f, int32_t point)
{
    const utf8proc_category_t category = utf8proc_category(point);
    if (is_apostrophe(point)) /* also decomposed ones: U+0149 has an apostrophe and an n */
        take_apostrophe(f);
    else if (is_mark(category) && !f->is_in_word)
        return; /* a mark without a letter */
    else if (is_mark(category) || point == SPSH__POINT_BAD ||
             (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
             (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) ||
             category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CO)
        hand_on(f, point);
    else
        take_blank(f);
}

/* ---- composing ---- */

static void flush(forming *f)
{
    size_t count = f->count;
    f->count = 0;
    if (count > 1) {
        const utf8proc_ssize_t composed = utf8proc_normalize_utf32(
            f->at, (utf8proc_ssize_t)count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        count = composed < 0 ? count : (size_t)composed;
    }
    for (size_t i = 0; i < count; i++) {
        if (f->form == SPSH__FORM_NFC)
            take_plain(f, f->at[i]);
        else
            take_cased(f, f->at[i]);
    }
}

/* True for joiners, direction marks, soft hyphens, and enclosing marks. They are removed before
 * composing, because they would separate a mark from its letter. */
static bool is_nothing(const forming *f, const utf8proc_property_t *property)
{
    return f->form != SPSH__FORM_NFC &&
           (property->ignorable || property->category == UTF8PROC_CATEGORY_CF ||
            property->category == UTF8PROC_CATEGORY_ME);
}

/* Is it an i without a mark above it? */
static bool is_bare_i(const forming *f)
{
    for (size_t i = 1; i < f->count; i++)
        if (utf8proc_get_property(f->at[i])->combining_class == CLASS_ABOVE)
            return false;
    return f->count > 0 && f->at[0] == 'i';
}

/* Insert a mark after marks of lower or equal combining class (canonical order). */
static void take_part(forming *f, int32_t part)
{
    const utf8proc_property_t *property = utf8proc_get_property(part);
    if (is_nothing(f, property))
        return;
    const bool is_behind = f->count > 0 && (is_mark((utf8proc_category_t)property->category) ||
                                            (part >= JAMO_FIRST && part <= JAMO_LAST));
    if (!is_behind)
        flush(f);
    if (f->count > BEHIND_MAX)
        return;
    if (f->form == SPSH__FORM_LOWER && part == DOT_ABOVE && is_bare_i(f))
        return; /* the letter i already has a dot */
    size_t to = f->count++;
    const utf8proc_propval_t class = property->combining_class;
    while (class > 0 && to > 0 && utf8proc_get_property(f->at[to - 1])->combining_class > class) {
        f->at[to] = f->at[to - 1];
        to--;
    }
    f->at[to] = part;
}

/* Change case before composing, so that a letter with a mark has one form for either input case. */
static int32_t cased(const forming *f, int32_t part)
{
    if (f->form == SPSH__FORM_NFC || is_mark(utf8proc_category(part)))
        return part;
    return f->form == SPSH__FORM_LOWER ? utf8proc_tolower(part) : utf8proc_toupper(part);
}

static void take_point(forming *f, int32_t point)
{
    int32_t parts[PARTS_MAX];
    int boundary = 0;
    if (f->form != SPSH__FORM_NFC && is_apostrophe(point))
        point = APOSTROPHE; /* compatibility decomposition would make U+00B4 a blank and a mark */
    const int how =
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (f->form == SPSH__FORM_NFC ? 0 : UTF8PROC_COMPAT);
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(point, parts, PARTS_MAX, (utf8proc_option_t)how, &boundary);
    for (utf8proc_ssize_t i = 0; i < count && count <= PARTS_MAX; i++)
        take_part(f, cased(f, parts[i]));
}

void spsh__text_points(spsh__text_form form, spsh_bytes text,
                       void (*point_fn)(void *user, int32_t point), void *user)
{
    forming f = {.form = form, .point_fn = point_fn, .user = user};
    size_t done = 0;
    while (done < text.size_bytes) {
        int32_t point = text.data[done];
        utf8proc_ssize_t size = 1;
        if (point >= 0x80) {
            const size_t left = text.size_bytes - done;
            size =
                utf8proc_iterate(text.data + done, left > 4 ? 4 : (utf8proc_ssize_t)left, &point);
        }
        take_point(&f, size > 0 ? point : SPSH__POINT_BAD);
        done += size > 0 ? (size_t)size : 1;
    }
    flush(&f);
}
