/* fuzz_librispeech.c: the text of SPEAKERS.TXT and of .trans.txt, both from one input, and the
 * sidecar texts and names.
 */
#include <stdlib.h>

#include "common/byte_builder.h"
#include "common/file_names.h"
#include "common/row_reader.h"
#include "ingest/layouts/layout_librispeech.h"
#include "speechshard/inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void read_speakers(const spsh__text_input *input)
{
    spsh__librispeech_readers readers = {0};
    must(spsh__librispeech_readers_add(input, &readers, NULL) == SPSH_OK);
    const size_t count = readers.count;
    for (size_t i = 0; i < count; i++) {
        const spsh__librispeech_reader *reader = &readers.readers[i];
        must(i == 0 || readers.readers[i - 1].id < reader->id);
        must(spsh__librispeech_readers_find(&readers, reader->id) == reader);
        must(reader->sex[0] != '\0' || memchr(reader->sex, '\0', sizeof(reader->sex)) != NULL);
    }
    /* Reading the same file again, since every archive contains a copy, changes nothing. */
    must(spsh__librispeech_readers_add(input, &readers, NULL) == SPSH_OK);
    must(readers.count == count);
    spsh__librispeech_readers_free(&readers);
}

static void read_transcripts(const spsh__text_input *input)
{
    const spsh__dialect dialect = {.kind = SPSH__DIALECT_KALDI};
    spsh__row_reader *reader = NULL;
    spsh__librispeech_key key;
    spsh__row row;
    must(spsh__row_reader_new(input, &dialect, &reader, NULL) == SPSH_OK);
    while (spsh__row_reader_next(reader, &row, NULL) == SPSH_OK) {
        must(row.problem == NULL && row.field_count == 2 && row.fields[0].size_bytes > 0);
        if (!spsh__librispeech_key_parse(row.fields[0], &key))
            continue;
        must(key.reader.size_bytes + key.chapter.size_bytes + key.index.size_bytes + 2 ==
             row.fields[0].size_bytes);
    }
    spsh__row_reader_free(reader);
}

static void read_sidecar(const uint8_t *data, size_t size)
{
    uint64_t line_ends = 0;
    uint8_t *copy = malloc(size);
    must(copy != NULL || size == 0);
    if (size > 0)
        memcpy(copy, data, size);
    const size_t text_bytes = spsh__sidecar_text(copy, size, &line_ends);
    must(text_bytes <= size && line_ends <= size);
    must(text_bytes == 0 || memchr(copy, '\n', text_bytes) == NULL);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const spsh__text_memory memory = {data, size};
    spsh__text_input input = spsh__text_input_memory(&memory, "fuzz");
    spsh__builder name = {0};
    input.window_bytes = 16;
    read_speakers(&input);
    read_transcripts(&input);
    read_sidecar(data, size);
    spsh__name_append(&name, (spsh_bytes){data, size});
    must(!name.failed && spsh__utf8_valid(spsh__builder_bytes(&name)));
    spsh__builder_free(&name);
    return 0;
}
