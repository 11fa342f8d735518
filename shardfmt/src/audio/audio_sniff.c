/* audio_sniff.c: detect the codec from the first bytes, and describe bytes of no known codec.
 *
 * Magic numbers decide. MP3 has no magic number: it is accepted if two consecutive frame headers
 * agree, which random bytes do once in 10^9. Tags (ID3v2) may precede MP3 and FLAC and are skipped.
 * Headerless GSM is detected only by the file name and by the 0xd that starts each frame.
 */
#include "audio_internal.h"

#include <strings.h>

#define ID3_HEAD_BYTES 10
#define ID3_TAGS_MAX   8
#define TAR_MAGIC      257

/* Audio and other containers that are rejected by name. */
static const struct {
    size_t offset;
    size_t size;
    const char *magic;
    bool is_audio;
    const char *name;
} foreign[] = {
    {0,         4,  "FORM",                    true,  "AIFF"                        },
    {0,         4,  ".snd",                    true,  "Sun AU"                      },
    {0,         4,  "dns.",                    true,  "DEC AU"                      },
    {0,         4,  "caff",                    true,  "Apple CAF"                   },
    {0,         7,  "NIST_1A",                 true,  "NIST SPHERE"                 },
    {0,         4,  "RIFX",                    true,  "big-endian WAV (RIFX)"       },
    {0,         4,  "riff",                    true,  "Sony Wave64"                 },
    {0,         5,  "#!AMR",                   true,  "AMR"                         },
    {0,         4,  "wvpk",                    true,  "WavPack"                     },
    {0,         4,  "MAC ",                    true,  "Monkey's Audio"              },
    {0,         4,  "TTA1",                    true,  "True Audio"                  },
    {0,         4,  "MPCK",                    true,  "Musepack"                    },
    {0,         3,  "MP+",                     true,  "Musepack"                    },
    {0,         4,  "ajkg",                    true,  "Shorten"                     },
    {0,         14, "Creative Voice",          true,  "Creative VOC"                },
    {0,         4,  "MThd",                    true,  "MIDI"                        },
    {0,         4,  "\x64\xa3\x01\x00",        true,  "IRCAM"                       },
    {0,         4,  "\x64\xa3\x02\x00",        true,  "IRCAM"                       },
    {4,         4,  "ftyp",                    true,  "MP4"                         },
    {0,         4,  "\x1a\x45\xdf\xa3",        true,  "Matroska or WebM"            },
    {0,         4,  "\x30\x26\xb2\x75",        true,  "ASF (WMA)"                   },
    {0,         2,  "\x0b\x77",                true,  "AC-3"                        },
    {0,         4,  "\x00\x00\x01\xba",        true,  "MPEG program stream"         },
    {0,         4,  "RIFF",                    false, "a RIFF file that is not WAVE"},
    {0,         2,  "\x1f\x8b",                false, "gzip data"                   },
    {0,         3,  "BZh",                     false, "bzip2 data"                  },
    {0,         6,
     "\xfd"
     "7zXZ",                                   false, "xz data"                     },
    {0,         4,  "\x28\xb5\x2f\xfd",        false, "Zstandard data"              },
    {0,         4,  "PK\x03\x04",              false, "a zip archive"               },
    {0,         6,  "7z\xbc\xaf\x27\x1c",      false, "a 7z archive"                },
    {0,         4,  "Rar!",                    false, "a RAR archive"               },
    {0,         4,  "PAR1",                    false, "a Parquet file"              },
    {0,         4,  "\x89PNG",                 false, "a PNG image"                 },
    {0,         3,  "\xff\xd8\xff",            false, "a JPEG image"                },
    {0,         4,  "GIF8",                    false, "a GIF image"                 },
    {0,         4,  "%PDF",                    false, "a PDF document"              },
    {0,         4,
     "\x7f"
     "ELF",                                    false, "an ELF program"              },
    {0,         23, "version https://git-lfs", false, "a Git LFS pointer"           },
    {TAR_MAGIC, 5,  "ustar",                   false, "a tar archive"               },
};

static bool has_magic(spsh_bytes head, size_t offset, const char *magic, size_t size)
{
    return head.size_bytes >= offset + size && memcmp(head.data + offset, magic, size) == 0;
}

static size_t skip_space(spsh_bytes head)
{
    size_t i = 0;
    if (has_magic(head, 0, "\xef\xbb\xbf", 3))
        i = 3;
    while (i < head.size_bytes && (head.data[i] == ' ' || head.data[i] == '\t' ||
                                   head.data[i] == '\r' || head.data[i] == '\n'))
        i++;
    return i;
}

static bool starts_with_word(spsh_bytes head, size_t begin, const char *word)
{
    size_t size = strlen(word);
    return head.size_bytes - begin >= size &&
           strncasecmp((const char *)head.data + begin, word, size) == 0;
}

/* UTF-8 without control characters; the last character may be cut. */
static bool is_text(spsh_bytes head)
{
    for (size_t i = 0; i < head.size_bytes; i++) {
        uint8_t c = head.data[i];
        if (c == 0x7f || (c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f'))
            return false;
    }
    for (size_t cut = 0; cut < 4 && cut < head.size_bytes; cut++)
        if (spsh__utf8_valid((spsh_bytes){head.data, head.size_bytes - cut}))
            return true;
    return false;
}

static bool is_zero(spsh_bytes head)
{
    for (size_t i = 0; i < head.size_bytes; i++)
        if (head.data[i] != 0)
            return false;
    return true;
}

/* Return the kind of text that the bytes look like, or NULL if they are not text. */
static const char *describe_text(spsh_bytes head)
{
    if (!is_text(head))
        return NULL;
    size_t begin = skip_space(head);
    if (starts_with_word(head, begin, "<!doctype html") || starts_with_word(head, begin, "<html"))
        return "an HTML page";
    if (starts_with_word(head, begin, "<"))
        return "XML";
    if (starts_with_word(head, begin, "{") || starts_with_word(head, begin, "["))
        return "JSON";
    return "text";
}

/* Return the length of an ID3v2 tag with its head and footer; 0 if bytes do not start with one. */
static uint64_t id3_tag_bytes(spsh_bytes bytes)
{
    if (bytes.size_bytes < ID3_HEAD_BYTES || memcmp(bytes.data, "ID3", 3) != 0 ||
        bytes.data[3] == 0xff || bytes.data[4] == 0xff)
        return 0;
    uint64_t size = 0;
    for (int i = 6; i < ID3_HEAD_BYTES; i++) {
        if (bytes.data[i] >= 0x80)
            return 0;
        size = size << 7 | bytes.data[i];
    }
    bool has_footer = (bytes.data[5] & 0x10) != 0;
    return size + ID3_HEAD_BYTES + (has_footer ? ID3_HEAD_BYTES : 0);
}

/* Return the codec of the bytes after any tag. */
static spsh_codec sniff_body(spsh_bytes body, bool is_whole_file)
{
    if (has_magic(body, 0, "fLaC", 4))
        return SPSH_CODEC_FLAC;
    if (has_magic(body, 8, "WAVE", 4) &&
        (has_magic(body, 0, "RIFF", 4) || has_magic(body, 0, "RF64", 4) ||
         has_magic(body, 0, "BW64", 4)))
        return SPSH_CODEC_WAV;
    if (has_magic(body, 0, "OggS", 4) && body.size_bytes > 26) {
        size_t packet = 27 + (size_t)body.data[26];
        if (has_magic(body, packet, "OpusHead", 8))
            return SPSH_CODEC_OPUS;
        if (has_magic(body, packet, "\x01vorbis", 7))
            return SPSH_CODEC_VORBIS;
        return SPSH_CODEC_UNKNOWN;
    }
    if (spsh__mp3_is_frame_pair(body, is_whole_file))
        return SPSH_CODEC_MP3;
    return SPSH_CODEC_UNKNOWN;
}

static bool name_is_gsm(const char *name)
{
    size_t length = name == NULL ? 0 : strlen(name);
    return length >= 4 && strcasecmp(name + length - 4, ".gsm") == 0;
}

spsh_codec spsh_audio_sniff(const void *head, size_t head_bytes, const char *name)
{
    spsh_bytes bytes = {(const uint8_t *)head, head_bytes};
    if (head == NULL || head_bytes == 0)
        return SPSH_CODEC_UNKNOWN;
    bool is_whole_file = head_bytes < SPSH__WINDOW_BYTES;
    for (int i = 0; i < ID3_TAGS_MAX; i++) {
        uint64_t tag_bytes = id3_tag_bytes(bytes);
        if (tag_bytes == 0)
            break;
        if (tag_bytes >= bytes.size_bytes) /* the tag hides the rest; opening looks past it */
            return SPSH_CODEC_MP3;
        bytes.data += tag_bytes;
        bytes.size_bytes -= (size_t)tag_bytes;
    }
    spsh_codec codec = sniff_body(bytes, is_whole_file);
    if (codec == SPSH_CODEC_UNKNOWN && name_is_gsm(name) && (bytes.data[0] & 0xf0) == 0xd0)
        return SPSH_CODEC_GSM;
    return codec;
}

spsh_status spsh__id3_skip(spsh__audio_window *window, uint64_t *ret_offset, spsh_error *err)
{
    uint64_t offset = 0;
    for (int i = 0; i < ID3_TAGS_MAX; i++) {
        spsh_bytes head = {NULL, 0};
        spsh_status rc = spsh__window_get(window, offset, ID3_HEAD_BYTES, &head, err);
        if (rc != SPSH_OK)
            return rc;
        uint64_t tag_bytes = id3_tag_bytes(head);
        if (tag_bytes == 0)
            break;
        offset += tag_bytes;
    }
    if (offset > window->source->size_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, window->source->size_bytes,
                            "the ID3 tag ends at byte %llu, the file at %llu",
                            (unsigned long long)offset,
                            (unsigned long long)window->source->size_bytes);
    *ret_offset = offset;
    return SPSH_OK;
}

static spsh_status refuse_ogg(spsh_bytes head, spsh_error *err)
{
    size_t packet = head.size_bytes > 26 ? 27 + (size_t)head.data[26] : head.size_bytes;
    const char *name = "Ogg of an unknown kind";
    if (has_magic(head, packet,
                  "\x7f"
                  "FLAC",
                  5))
        name = "Ogg FLAC";
    else if (has_magic(head, packet, "Speex   ", 8))
        name = "Ogg Speex";
    else if (has_magic(head, packet, "\x80theora", 7))
        name = "Ogg Theora";
    else if (has_magic(head, packet, "fishead", 7))
        name = "Ogg with a skeleton";
    return SPSH_FAIL_AT(err, SPSH_E_UNSUPPORTED, 0, "%s is not among the codecs that are read",
                        name);
}

spsh_status spsh__audio_refuse(spsh_bytes head, spsh_error *err)
{
    if (head.size_bytes == 0)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "the file is empty");
    if (has_magic(head, 0, "OggS", 4))
        return refuse_ogg(head, err);
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        if (!has_magic(head, foreign[i].offset, foreign[i].magic, foreign[i].size))
            continue;
        if (foreign[i].is_audio)
            return SPSH_FAIL_AT(err, SPSH_E_UNSUPPORTED, 0,
                                "%s is not among the codecs that are read", foreign[i].name);
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "not audio: looks like %s", foreign[i].name);
    }
    const char *layer = spsh__mpeg_other_layer(head);
    if (layer != NULL)
        return SPSH_FAIL_AT(err, SPSH_E_UNSUPPORTED, 0, "%s is not among the codecs that are read",
                            layer);
    const char *text = describe_text(head);
    if (text != NULL)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "not audio: looks like %s", text);
    if (is_zero(head))
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "not audio: the file starts with %zu zero bytes",
                            head.size_bytes);
    return SPSH_FAIL_AT(
        err, SPSH_E_AUDIO, 0, "not audio of a known kind: starts with %02x %02x %02x", head.data[0],
        head.size_bytes > 1 ? head.data[1] : 0, head.size_bytes > 2 ? head.data[2] : 0);
}

spsh_status spsh__audio_detect(spsh__audio_window *window, spsh_codec *ret_codec, spsh_error *err)
{
    spsh_bytes head = {NULL, 0};
    uint64_t offset = 0;
    spsh_status rc = spsh__id3_skip(window, &offset, err);
    if (rc == SPSH_OK)
        rc = spsh__window_get(window, offset, SPSH__WINDOW_BYTES, &head, err);
    if (rc != SPSH_OK)
        return rc;
    bool is_whole = offset + head.size_bytes == window->source->size_bytes;
    *ret_codec = head.size_bytes == 0 ? SPSH_CODEC_UNKNOWN : sniff_body(head, is_whole);
    if (*ret_codec == SPSH_CODEC_UNKNOWN)
        return spsh__audio_refuse(head, err);
    if (offset != 0 && *ret_codec != SPSH_CODEC_MP3 && *ret_codec != SPSH_CODEC_FLAC)
        return SPSH_FAIL_AT(err, SPSH_E_UNSUPPORTED, 0, "%s after an ID3 tag",
                            spsh_codec_name(*ret_codec));
    return SPSH_OK;
}
