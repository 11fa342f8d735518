/* file_names.c: see file_names.h. The kernel treats file names as bytes, and reports treat them as
 * text. This file converts between the two.
 */
#include "file_names.h"

#include "speechshard/inside.h"

#define PARSED_DIGITS_MAX ((size_t)18)

/* Extensions that the packer decodes come first. The others are recognized so that the file is
 * reported as unsupported, or as not audio if it has no header, instead of being overlooked. */
static const char *const audio_extensions[] = {
    "wav", "flac", "mp3", "opus", "ogg", "oga",  "wave", "gsm",  "m4a", "aac",
    "wma", "webm", "amr", "sph",  "aif", "aiff", "aifc", "au",   "snd", "caf",
    "w64", "rf64", "voc", "spx",  "mka", "g722", "alaw", "ulaw", "sln",
};

static const char *const sidecar_suffixes[SPSH__SIDECAR_RANKS] = {
    ".txt", ".lab", ".trn", ".normalized.txt", ".original.txt",
};

static uint8_t lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + ('a' - 'A')) : byte;
}

int spsh__bytes_compare(spsh_bytes a, spsh_bytes b)
{
    const size_t common = a.size_bytes < b.size_bytes ? a.size_bytes : b.size_bytes;
    const int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0)
        return order;
    return a.size_bytes < b.size_bytes ? -1 : a.size_bytes > b.size_bytes;
}

spsh_bytes spsh__bytes_trim(spsh_bytes text, const char *edges)
{
    const size_t count = strlen(edges);
    while (text.size_bytes > 0 && memchr(edges, text.data[0], count) != NULL)
        text = (spsh_bytes){text.data + 1, text.size_bytes - 1};
    while (text.size_bytes > 0 && memchr(edges, text.data[text.size_bytes - 1], count) != NULL)
        text.size_bytes--;
    return text;
}

spsh_bytes spsh__without_mark(spsh_bytes text)
{
    const bool has_mark = text.size_bytes >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0;
    return has_mark ? (spsh_bytes){text.data + 3, text.size_bytes - 3} : text;
}

bool spsh__bytes_equal_nocase(spsh_bytes a, spsh_bytes b)
{
    if (a.size_bytes != b.size_bytes)
        return false;
    for (size_t i = 0; i < a.size_bytes; i++) {
        if (lower(a.data[i]) != lower(b.data[i]))
            return false;
    }
    return true;
}

bool spsh__has_extension(spsh_bytes name, const char *extension)
{
    const spsh_bytes own = spsh__bytes_of(extension);
    return name.size_bytes > own.size_bytes &&
           spsh__bytes_equal_nocase(
               (spsh_bytes){name.data + name.size_bytes - own.size_bytes, own.size_bytes}, own);
}

size_t spsh__digits_at(spsh_bytes text, size_t at)
{
    size_t end = at;
    while (end < text.size_bytes && text.data[end] >= '0' && text.data[end] <= '9')
        end++;
    return end - at;
}

bool spsh__parse_digits(spsh_bytes text, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (text.size_bytes == 0 || text.size_bytes > PARSED_DIGITS_MAX ||
        spsh__digits_at(text, 0) != text.size_bytes)
        return false;
    for (size_t i = 0; i < text.size_bytes; i++)
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    *ret_number = number;
    return true;
}

static bool is_hex(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || (lower(byte) >= 'a' && lower(byte) <= 'f');
}

/* Whether one of eight bytes is a control character, '%' or no ASCII. Sums and differences set the
 * high bit of such a byte; a carry or borrow can only come from a byte that sets its own. */
static bool has_unplain(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t percents = word ^ (ones * '%');
    return ((word | (word + ones) | (word - ones * 0x20) | (percents - ones)) & (ones * 0x80)) != 0;
}

void spsh__name_append(spsh__builder *out, spsh_bytes name)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t plain = 0;
    size_t i = 0;
    while (i < name.size_bytes) {
        uint64_t word = 0;
        if (name.size_bytes - i >= sizeof(word)) {
            memcpy(&word, name.data + i, sizeof(word));
            if (!has_unplain(word)) {
                i += sizeof(word);
                continue;
            }
        }
        const uint8_t byte = name.data[i];
        if (byte >= 0x20 && byte < 0x7f && byte != '%') {
            i++;
            continue;
        }
        size_t length = spsh__utf8_sequence((spsh_bytes){name.data + i, name.size_bytes - i});
        if (byte < 0x20 || byte == 0x7f)
            length = 0;
        if (byte == '%' && name.size_bytes - i > 2 && is_hex(name.data[i + 1]) &&
            is_hex(name.data[i + 2]))
            length = 0;
        if (length != 0) {
            i += length;
            continue;
        }
        const char escape[3] = {'%', hex[byte >> 4], hex[byte & 15]};
        spsh__builder_append(out, name.data + plain, i - plain);
        spsh__builder_append(out, escape, sizeof(escape));
        plain = ++i;
    }
    if (name.size_bytes > plain)
        spsh__builder_append(out, name.data + plain, name.size_bytes - plain);
}

/* A name that is only an extension (".wav") has no stem: return its whole size. */
size_t spsh__audio_stem(spsh_bytes path)
{
    size_t dot = path.size_bytes;
    while (dot > 0 && path.data[dot - 1] != '.' && path.data[dot - 1] != '/')
        dot--;
    if (dot < 2 || path.data[dot - 1] != '.' || path.data[dot - 2] == '/')
        return path.size_bytes;
    const spsh_bytes extension = {path.data + dot, path.size_bytes - dot};
    for (size_t i = 0; i < sizeof(audio_extensions) / sizeof(audio_extensions[0]); i++) {
        if (spsh__bytes_equal_nocase(extension, spsh__bytes_of(audio_extensions[i])))
            return dot - 1;
    }
    return path.size_bytes;
}

bool spsh__is_audio_name(spsh_bytes name)
{
    return spsh__audio_stem(name) != name.size_bytes;
}

static bool ends_with(spsh_bytes name, spsh_bytes suffix)
{
    if (name.size_bytes < suffix.size_bytes)
        return false;
    const size_t at = name.size_bytes - suffix.size_bytes;
    return spsh__bytes_equal_nocase((spsh_bytes){name.data + at, suffix.size_bytes}, suffix);
}

bool spsh__is_split_name(spsh_bytes name)
{
    static const char *const splits[] = {"train",      "training", "dev",     "val",  "valid",
                                         "validation", "test",     "testing", "eval", "evaluation"};
    for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
        if (spsh__bytes_equal(name, spsh__bytes_of(splits[i])))
            return true;
    }
    return false;
}

bool spsh__is_clip_folder(const char *name)
{
    static const char *const names[] = {"clips", "audio", "audios", "wav", "wavs"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

spsh_bytes spsh__leading_split(spsh_bytes name)
{
    static const char *const splits[] = {"train", "dev", "test"};
    for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
        const size_t length = strlen(splits[i]);
        if (name.size_bytes >= length && memcmp(name.data, splits[i], length) == 0 &&
            (name.size_bytes == length || name.data[length] == '-' || name.data[length] == '_'))
            return (spsh_bytes){name.data, length};
    }
    return (spsh_bytes){0};
}

bool spsh__is_ignored_name(const char *name)
{
    static const char *const prefixes[] = {"._", ".git"};
    static const char *const names[] = {".DS_Store", "Thumbs.db", ".cache"};
    static const char *const suffixes[] = {".lock", ".incomplete", ".part"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (ends_with(spsh__bytes_of(name), spsh__bytes_of(suffixes[i])))
            return true;
    }
    return false;
}

size_t spsh__sidecar_stem(spsh_bytes name, unsigned rank)
{
    const spsh_bytes suffix = spsh__bytes_of(sidecar_suffixes[rank]);
    return ends_with(name, suffix) ? name.size_bytes - suffix.size_bytes : 0;
}

size_t spsh__sidecar_text(uint8_t *text, size_t size_bytes, uint64_t *ret_line_ends)
{
    size_t in = 0;
    size_t out = 0;
    uint64_t line_ends = 0;
    if (size_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        in = 3;
    while (size_bytes > in && (text[size_bytes - 1] == '\n' || text[size_bytes - 1] == '\r'))
        size_bytes--;
    while (in < size_bytes) {
        uint8_t byte = text[in++];
        if (byte == '\r' && in < size_bytes && text[in] == '\n')
            byte = text[in++];
        if (byte == '\n' || byte == '\r') {
            byte = ' ';
            line_ends++;
        }
        text[out++] = byte;
    }
    *ret_line_ends = line_ends;
    return out;
}
