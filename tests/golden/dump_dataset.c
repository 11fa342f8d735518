/* dump_dataset.c: prints the contents of a dataset in the same form as spsh_reader.py.
 *
 *     dump_dataset make FOLDER     a dataset with copies over unit borders and overlays
 *     dump_dataset FOLDER          one JSON object per utterance
 */
#include <stdio.h>

#include "base/checksum.h"
#include "speechshard/publish.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

static void print_string(const char *key, spsh_bytes string)
{
    static const char plain[] = "\b\t\n\f\r\"\\";
    printf(", \"%s\": \"", key);
    for (size_t i = 0; i < string.size_bytes; i++) {
        uint8_t c = string.data[i];
        const char *escaped = c == 0 ? NULL : strchr(plain, c);
        if (escaped != NULL)
            printf("\\%c", "btnfr\"\\"[escaped - plain]);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_number(const char *key, uint64_t value)
{
    printf(", \"%s\": %" PRIu64, key, value);
}

static void print_payload(spsh_reader *reader, uint64_t position)
{
    const spsh_record *record = NULL;
    uint8_t hash[16];
    REQUIRE(spsh_reader_record(reader, position, &record, NULL) == SPSH_OK);
    size_t size = (size_t)record->payload_bytes;
    uint8_t *payload = (uint8_t *)malloc(size == 0 ? 1 : size);
    REQUIRE(payload != NULL);
    REQUIRE(spsh_reader_payload(reader, position, 0, payload, size, NULL) == SPSH_OK);
    spsh__hash128(payload, size, hash);
    print_number("payload_bytes", size);
    printf(", \"payload_hash\": \"");
    for (unsigned i = 0; i < 16; i++)
        printf("%02x", hash[i]);
    putchar('"');
    free(payload);
    REQUIRE(spsh_reader_record(reader, position, &record, NULL) == SPSH_OK);
    print_string("recording", record->id);
}

static void print_utterance(const spsh_dataset *dataset, spsh_reader *reader, uint64_t position)
{
    spsh_row row;
    spsh_utterance u;
    bool skipped = false;
    spsh_bytes reason = {NULL, 0};
    REQUIRE(spsh_dataset_rows(dataset, position, 1, &row, NULL) == SPSH_OK);
    REQUIRE(spsh_reader_metadata(reader, position, &u, NULL) == SPSH_OK);
    REQUIRE(spsh_dataset_skipped(dataset, u.id, &skipped, &reason, NULL) == SPSH_OK);
    printf("{\"channels\": %u", row.channels);
    print_number("codec", (uint64_t)row.codec);
    print_string("document", u.document);
    print_string("domain", u.domain);
    if (row.duplicate_of == SPSH_NONE_U64)
        printf(", \"duplicate_of\": null");
    else
        print_number("duplicate_of", row.duplicate_of);
    print_string("extras", u.extras);
    print_string("id", u.id);
    print_string("language", u.language);
    print_payload(reader, position);
    REQUIRE(spsh_reader_metadata(reader, position, &u, NULL) == SPSH_OK);
    print_number("sample_rate_hz", row.sample_rate_hz);
    print_number("samples", row.samples);
    if (skipped)
        print_string("skipped", reason);
    else
        printf(", \"skipped\": null");
    print_string("source", u.source);
    print_string("speaker", u.speaker);
    print_string("split", u.split);
    print_number("start_sample", row.start_sample);
    if ((u.flags & SPSH_UTTERANCE_HAS_TEXT) != 0)
        print_string("text", u.text);
    else
        printf(", \"text\": null");
    printf("}\n");
}

static spsh_bytes text(const char *string)
{
    return (spsh_bytes){(const uint8_t *)string, strlen(string)};
}

static void make(const char *path)
{
    tiny_dataset dataset;
    const spsh_overlay_entry skips[] = {
        {text(tiny_dataset_ids[3]), text("too \"loud\"")},
        {text(tiny_dataset_ids[7]), text("")            },
        {text("nobody"),            text("unknown id")  }
    };
    const spsh_overlay_entry texts[] = {
        {text(tiny_dataset_ids[3]), text("neu\xc3\xa9")},
        {text(tiny_dataset_ids[0]), text("")           },
        {text(tiny_dataset_ids[8]), text("first")      }
    };
    const spsh_overlay_entry later[] = {
        {text(tiny_dataset_ids[8]), text("second\nline")}
    };
    tiny_dataset_write(&dataset, path);
    REQUIRE(tiny_dataset_publish(&dataset, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_overlay_add(path, "bad", SPSH_OVERLAY_SKIP, skips, 3, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh_overlay_add(path, "fix", SPSH_OVERLAY_TRANSCRIPT, texts, 3, NULL, NULL) ==
            SPSH_OK);
    REQUIRE(spsh_overlay_add(path, "fix.2", SPSH_OVERLAY_TRANSCRIPT, later, 1, NULL, NULL) ==
            SPSH_OK);
}

int main(int argc, char **argv)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(argc >= 2);
    if (argc == 3) {
        make(argv[2]);
        return TEST_RESULT();
    }
    if (spsh_dataset_open(argv[1], NULL, &dataset, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(dataset != NULL);
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    for (uint64_t position = 0; position < count; position++)
        print_utterance(dataset, reader, position);
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
    return TEST_RESULT();
}
