/* kaldi_command.c: split a command into words like a shell, with one small parser per program.
 *
 * A command is accepted only if every word is known. An unknown option or effect could cut the
 * audio, change its speed, or read another file, so that the transcript would not match.
 */
#include "kaldi_command.h"

#include "common/file_names.h"

#define WORDS_MAX ((size_t)32)

/** NUL-terminated words of one command. */
typedef struct words {
    spsh__builder text;
    size_t starts[WORDS_MAX];
    size_t count;
} words;

static const char *word_at(const words *w, size_t i)
{
    return i < w->count ? (const char *)w->text.data + w->starts[i] : "";
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Take one word at *at. Returns false if the word needs shell evaluation. */
static bool take_word(spsh_bytes text, size_t *at, spsh__builder *out)
{
    uint8_t quote = 0;
    size_t i = *at;
    for (; i < text.size_bytes && (quote != 0 || !is_blank(text.data[i])); i++) {
        const uint8_t c = text.data[i];
        if (quote == 0 && (c == '\'' || c == '"')) {
            quote = c;
        } else if (c == quote) {
            quote = 0;
        } else {
            const char *special = quote == '\''  ? ""
                                  : quote == '"' ? "$`\\"
                                                 : "$`\\|&;<>()*?[]~!{}#";
            if (c == '\0' || strchr(special, c) != NULL)
                return false;
            spsh__builder_append(out, &c, 1);
        }
    }
    *at = i;
    spsh__builder_append(out, "", 1);
    return quote == 0 && !out->failed;
}

static bool split_words(spsh_bytes text, words *w)
{
    size_t at = 0;
    for (;;) {
        while (at < text.size_bytes && is_blank(text.data[at]))
            at++;
        if (at == text.size_bytes)
            return w->count > 0;
        if (w->count == WORDS_MAX)
            return false;
        w->starts[w->count++] = w->text.size_bytes;
        if (!take_word(text, &at, &w->text))
            return false;
    }
}

/* Whether word is one of the NULL-terminated list. */
static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcmp(word, *list) == 0)
            return true;
    }
    return false;
}

static bool is_number(const char *word)
{
    const size_t length = strlen(word);
    return length > 0 && strspn(word, "0123456789.k-") == length;
}

/* Set the path. A command may name its file only once. */
static bool set_path(spsh__kaldi_source *source, const char *word)
{
    if (source->path.size_bytes > 0 || word[0] == '\0' || strcmp(word, "-") == 0)
        return false;
    spsh__builder_append_text(&source->path, word);
    return true;
}

/* cat F; flac -c -d -s F */
static bool parse_plain(const words *w, const char *const *flags, spsh__kaldi_source *source)
{
    for (size_t i = 1; i < w->count; i++) {
        const char *word = word_at(w, i);
        if (!is_one_of(word, flags) && (word[0] == '-' || !set_path(source, word)))
            return false;
    }
    return source->path.size_bytes > 0;
}

static bool flac_decodes(const words *w)
{
    static const char *const decode[] = {"-d",   "--decode", "-cd",  "-dc",
                                         "-dcs", "-cds",     "-csd", NULL};
    for (size_t i = 1; i < w->count; i++) {
        if (is_one_of(word_at(w, i), decode))
            return true;
    }
    return false;
}

/* Advance *at past the options of sox before a file. */
static bool skip_sox_options(const words *w, size_t *at)
{
    static const char *const flags[] = {"-q", "-D", "-G", "-S", "-V0", "-V1", "-V2", "-V3", NULL};
    static const char *const with_value[] = {"-t", "-r", "-b", "-c", "-e", "-v", NULL};
    while (word_at(w, *at)[0] == '-' && word_at(w, *at)[1] != '\0') {
        if (is_one_of(word_at(w, *at), with_value))
            (*at)++;
        else if (!is_one_of(word_at(w, *at), flags))
            return false;
        (*at)++;
    }
    return true;
}

/* Parse an effect. Only effects that preserve timing and words are accepted: rate, channels,
 * dither, level. */
static bool parse_effect(const words *w, size_t *at, spsh__kaldi_source *source)
{
    static const char *const numbered[] = {"rate", "channels", "gain", "vol", "norm", NULL};
    static const char *const rate_flags[] = {"-q", "-l", "-m", "-h", "-v", "-n", "-s", NULL};
    const char *effect = word_at(w, (*at)++);
    if (strcmp(effect, "dither") == 0)
        return true;
    if (strcmp(effect, "remix") == 0) {
        const char *channel = word_at(w, (*at)++);
        if (strcmp(channel, "1") == 0 || strcmp(channel, "2") == 0)
            spsh__builder_append_text(&source->channel, channel);
        else if (strcmp(channel, "-") != 0 && strcmp(channel, "1,2") != 0)
            return false;
        return true;
    }
    if (!is_one_of(effect, numbered))
        return false;
    while (is_one_of(word_at(w, *at), rate_flags))
        (*at)++;
    *at += is_number(word_at(w, *at));
    return true;
}

/* sox [options] F [options] - [effects] */
static bool parse_sox(const words *w, spsh__kaldi_source *source)
{
    size_t at = 1;
    if (!skip_sox_options(w, &at) || !set_path(source, word_at(w, at++)))
        return false;
    if (!skip_sox_options(w, &at) || strcmp(word_at(w, at++), "-") != 0)
        return false;
    while (at < w->count) {
        if (!parse_effect(w, &at, source))
            return false;
    }
    return true;
}

/* ffmpeg [options] -i F [options] - */
static bool parse_ffmpeg(const words *w, spsh__kaldi_source *source)
{
    static const char *const flags[] = {"-nostdin", "-hide_banner", "-y", "-vn", "-nostats", NULL};
    static const char *const with_value[] = {"-loglevel", "-v",  "-threads", "-f", "-acodec",
                                             "-c:a",      "-ar", "-ac",      NULL};
    static const char *const outputs[] = {"-", "pipe:", "pipe:1", NULL};
    bool output = false;
    for (size_t i = 1; i < w->count; i++) {
        const char *word = word_at(w, i);
        if (strcmp(word, "-i") == 0) {
            if (output || !set_path(source, word_at(w, ++i)))
                return false;
        } else if (is_one_of(word, outputs)) {
            output = true;
        } else if (is_one_of(word, with_value)) {
            i++;
        } else if (!is_one_of(word, flags)) {
            return false;
        }
    }
    return output && source->path.size_bytes > 0;
}

static const char *parse_command(const words *w, spsh__kaldi_source *source)
{
    static const char *const cat_flags[] = {NULL};
    static const char *const flac_flags[] = {"-c",   "-d",       "-s",       "-F",       "-cd",
                                             "-dc",  "-dcs",     "-cds",     "-csd",     "-sdc",
                                             "-scd", "--decode", "--silent", "--stdout", NULL};
    static const char changes[] =
        "the command does more than decode a file or change its rate, channels, or level";
    const char *slash = strrchr(word_at(w, 0), '/');
    const char *program = slash == NULL ? word_at(w, 0) : slash + 1;
    if (strcmp(program, "cat") == 0)
        return parse_plain(w, cat_flags, source) ? NULL : changes;
    if (strcmp(program, "flac") == 0)
        return flac_decodes(w) && parse_plain(w, flac_flags, source) ? NULL : changes;
    if (strcmp(program, "sox") == 0)
        return parse_sox(w, source) ? NULL : changes;
    if (strcmp(program, "ffmpeg") == 0)
        return parse_ffmpeg(w, source) ? NULL : changes;
    if (strcmp(program, "gunzip") == 0 || strcmp(program, "zcat") == 0)
        return "compressed audio is not unpacked here; unpack it, and name the unpacked file";
    if (strcmp(program, "sph2pipe") == 0)
        return "SPHERE files are not supported; convert them to wav or flac";
    return "commands are not run";
}

/* "file.ark:1234": one of many recordings inside a Kaldi archive. */
static bool is_archive_offset(spsh_bytes entry)
{
    size_t at = entry.size_bytes;
    while (at > 0 && entry.data[at - 1] >= '0' && entry.data[at - 1] <= '9')
        at--;
    return at > 1 && at < entry.size_bytes && entry.data[at - 1] == ':';
}

void spsh__kaldi_source_parse(spsh_bytes entry, spsh__kaldi_source *source)
{
    words w = {0};
    spsh__builder_clear(&source->path);
    spsh__builder_clear(&source->channel);
    source->is_command = false;
    source->problem = NULL;
    if (entry.size_bytes == 0) {
        source->problem = "the entry names no file";
    } else if (entry.data[entry.size_bytes - 1] == '|') {
        source->is_command = true;
        entry.size_bytes--;
        source->problem =
            split_words(entry, &w)
                ? parse_command(&w, source)
                : "commands are not run, and this one cannot be parsed without a shell";
        source->path.failed |= w.text.failed;
        spsh__builder_free(&w.text);
    } else if (entry.data[0] == '|') {
        source->problem = "commands are not run";
    } else if (is_archive_offset(entry)) {
        source->problem = "audio inside a Kaldi archive (.ark:offset) is not read";
    } else {
        spsh__builder_append_bytes(&source->path, entry);
    }
}

void spsh__kaldi_source_free(spsh__kaldi_source *source)
{
    SPSH__BUILDERS_FREE(&source->path, &source->channel);
}
