/* bitmap_font.c: see bitmap_font.h.
 *
 * A letter is a text of its rows from the top of capitals on, each the character '@' + its five
 * bits: "NQQQ_QQ" is
 *
 *     N  .###.      Accents are the same, of two rows. Text is decomposed (NFD), so that a letter
 *     Q  #...#      comes before its accents; over small letters they stand two rows lower.
 *     Q  #...#
 *     Q  #...#
 *     _  #####
 *     Q  #...#
 *     Q  #...#
 */
#include "bitmap_font.h"

#include <string.h>
#include <utf8proc.h>

enum {
    FIRST = 0x20,
    LAST = 0x7e,
    CAPITAL_TOP = SPSH__FONT_BASE - 7,
    DECOMPOSED_MAX = 32, /* code points of one */
};

/* clang-format off */
static const char *const letters[LAST - FIRST + 1] = {
    "", "DDDDD@D", "JJJ", "JJ_J_JJ", "DOTNE^D", "XYBDHSC", "LRTHURM", "DDD",
    "BDHHHDB", "HDBBBDH", "@DUNUD", "@DD_DD", "@@@@@FDH", "@@@_", "@@@@@LL", "@ABDHP",
    "NQSUYQN", "DLDDDDN", "NQABDH_", "_BDBAQN", "BFJR_BB", "_P^AAQN", "FHP^QQN", "_ABDHHH",
    "NQQNQQN", "NQQOABL", "@LL@LL", "@LL@LDH", "BDHPHDB", "@@_@_", "HDBABDH", "NQABD@D",
    "NQAMUUN", "NQQQ_QQ", "^QQ^QQ^", "NQPPPQN", "\\RQQQR\\", "_PP^PP_", "_PP^PPP", "NQPWQQO",
    "QQQ_QQQ", "NDDDDDN", "GBBBBRL", "QRTXTRQ", "PPPPPP_", "Q[UUQQQ", "QQYUSQQ", "NQQQQQN",
    "^QQ^PPP", "NQQQURM", "^QQ^TRQ", "OPPNAA^", "_DDDDDD", "QQQQQQN", "QQQQQJD", "QQQUUUJ",
    "QQJDJQQ", "QQQJDDD", "_ABDHP_", "NHHHHHN", "@PHDBA", "NBBBBBN", "DJQ", "@@@@@@@_",
    "HDB", "@@NAOQO", "PPVYQQ^", "@@NPPQN", "AAMSQQO", "@@NQ_PN", "FIH\\HHH", "@@OQQOAAN",
    "PPVYQQQ", "D@LDDDN", "B@FBBBBRL", "PPRTXTR", "LDDDDDN", "@@ZUUQQ", "@@VYQQQ", "@@NQQQN",
    "@@^QQ^PPP", "@@MSQOAAA", "@@VYPPP", "@@NPNA^", "HH\\HHIF", "@@QQQSM", "@@QQQJD", "@@QQUUJ",
    "@@QJDJQ", "@@QQQOAAN", "@@_BDH_", "BDDHDDB", "DDDDDDD", "HDDBDDH", "@@HUB",
};
static const struct {
    int32_t code;
    const char *rows;
    int top; /* 0: above the letter; else the row */
} accents[] = {
    {0x300, "HD", 0}, {0x301, "BD", 0}, {0x302, "DJ", 0}, {0x303, "MR", 0}, {0x304, "@N", 0},
    {0x306, "QN", 0}, {0x307, "@D", 0}, {0x308, "@J", 0}, {0x30a, "DD", 0}, {0x30b, "IR", 0},
    {0x30c, "JD", 0}, {0x323, "D@", 10}, {0x326, "DH", 9}, {0x327, "DH", 9}, {0x328, "DF", 9},
};
/* What is written with others. */
static const struct {
    int32_t code;
    const char *text;
} others[] = {
    {0xa0, " "}, {0xa1, "!"}, {0xa9, "(c)"}, {0xab, "<<"}, {0xb7, "."}, {0xbb, ">>"}, {0xbf, "?"},
    {0xc6, "AE"}, {0xd7, "x"}, {0xd8, "O"}, {0xdf, "ss"}, {0xe6, "ae"}, {0xf8, "o"}, {0x110, "D"},
    {0x111, "d"}, {0x131, "i"}, {0x141, "L"}, {0x142, "l"}, {0x152, "OE"}, {0x153, "oe"},
    {0x2010, "-"}, {0x2011, "-"}, {0x2012, "-"}, {0x2013, "-"}, {0x2014, "-"}, {0x2018, "'"},
    {0x2019, "'"}, {0x201a, ","}, {0x201c, "\""}, {0x201d, "\""}, {0x201e, "\""}, {0x2026, "..."},
    {0x2032, "'"}, {0x2033, "\""}, {0x2212, "-"},
};
/* clang-format on */

static const char box[] = "_QQQQQ_";

static spsh__glyph draw(const char *rows, int top)
{
    spsh__glyph glyph = {{0}};
    for (int y = top; rows[y - top] != '\0' && y < SPSH__FONT_HEIGHT; y++)
        glyph.rows[y] = (uint8_t)(rows[y - top] - '@');
    return glyph;
}

/* Above capitals and tall letters, else upon the small ones, where a dot makes room. */
static void add_accent(spsh__glyph *glyph, size_t accent)
{
    const bool is_tall = (glyph->rows[CAPITAL_TOP + 1] != 0);
    int top = is_tall ? 0 : CAPITAL_TOP;
    if (accents[accent].top != 0)
        top = accents[accent].top;
    else if (!is_tall)
        glyph->rows[CAPITAL_TOP] = 0;
    for (int y = 0; accents[accent].rows[y] != '\0' && top + y < SPSH__FONT_HEIGHT; y++)
        glyph->rows[top + y] |= (uint8_t)(accents[accent].rows[y] - '@');
}

typedef struct line {
    spsh__glyph *cells;
    size_t capacity, count;
} line;

static void put(line *out, spsh__glyph glyph)
{
    if (out->count < out->capacity)
        out->cells[out->count] = glyph;
    out->count++;
}

static void put_letters(line *out, const char *text)
{
    for (; *text != '\0'; text++)
        put(out, draw(letters[*text - FIRST], CAPITAL_TOP));
}

/* One code point that cannot be taken apart. */
static void put_code(line *out, int32_t code)
{
    if (code >= FIRST && code <= LAST) {
        const char letter[2] = {(char)code, '\0'};
        put_letters(out, letter);
        return;
    }
    for (size_t i = 0; i < sizeof(accents) / sizeof(accents[0]); i++) {
        if (accents[i].code != code)
            continue;
        if (out->count > 0 && out->count <= out->capacity)
            add_accent(&out->cells[out->count - 1], i);
        return;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (others[i].code == code) {
            put_letters(out, others[i].text);
            return;
        }
    }
    const utf8proc_category_t kind = utf8proc_category(code);
    if (kind != UTF8PROC_CATEGORY_CF && kind != UTF8PROC_CATEGORY_MN)
        put(out, draw(box, CAPITAL_TOP));
}

size_t spsh__font_cells(spsh_bytes text, spsh__glyph *cells, size_t capacity)
{
    line out = {cells, capacity, 0};
    for (size_t at = 0; at < text.size_bytes;) {
        int32_t code = 0;
        int32_t parts[DECOMPOSED_MAX];
        int last_boundclass = 0;
        const utf8proc_ssize_t left = (utf8proc_ssize_t)(text.size_bytes - at);
        const utf8proc_ssize_t length = utf8proc_iterate(text.data + at, left, &code);
        if (length <= 0) {
            put(&out, draw(box, CAPITAL_TOP));
            at++;
            continue;
        }
        at += (size_t)length;
        const utf8proc_ssize_t count = utf8proc_decompose_char(
            code, parts, DECOMPOSED_MAX, UTF8PROC_DECOMPOSE, &last_boundclass);
        for (utf8proc_ssize_t i = 0; i < count && i < DECOMPOSED_MAX; i++)
            put_code(&out, parts[i]);
    }
    return out.count;
}
