/* fuzz_train_settings.c: writing an accepted configuration or vocabulary and reading it again
 * produces the same text. A vocabulary decodes its own encodings. */
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "labels/vocabulary.h"

enum { LABELS = 4096, TEXT_BYTES = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_config(const char *text, size_t size)
{
    spsh__config *config = NULL;
    spsh__config *again = NULL;
    const spsh_status rc = spsh__config_parse(text, size, NULL, &config, NULL);
    must((rc == SPSH_OK) == (config != NULL));
    if (rc != SPSH_OK)
        return;
    char *written = spsh__config_text(config);
    must(written != NULL);
    must(spsh__config_parse(written, strlen(written), NULL, &again, NULL) == SPSH_OK);
    char *twice = spsh__config_text(again);
    must(twice != NULL && strcmp(written, twice) == 0);
    must(spsh__config_resolve(config, size, NULL) != SPSH_OK ||
         spsh__schedule_rate(config, size) >= 0);
    free(written);
    free(twice);
    spsh__config_free(config);
    spsh__config_free(again);
}

static void check_codes(const spsh__vocabulary *v, spsh_bytes text)
{
    static uint32_t labels[LABELS];
    static char decoded[TEXT_BYTES];
    uint32_t count = 0;
    uint32_t dropped = 0;
    const spsh_status rc = spsh__vocabulary_encode(v, text, labels, LABELS, &count, &dropped, NULL);
    must(rc == SPSH_OK || rc == SPSH_E_LIMIT);
    for (uint32_t i = 0; i < count; i++)
        must(labels[i] > 0 && labels[i] < spsh__vocabulary_size(v));
    (void)spsh__vocabulary_decode(v, labels, count, decoded, sizeof(decoded));
    (void)spsh__vocabulary_normalise(v, text, decoded, sizeof(decoded));
}

static void check_vocabulary(const char *text, size_t size)
{
    spsh__vocabulary *v = NULL;
    spsh__vocabulary *again = NULL;
    const spsh_status rc = spsh__vocabulary_parse(text, size, "fuzz", &v, NULL);
    must((rc == SPSH_OK) == (v != NULL));
    if (rc != SPSH_OK)
        return;
    char *written = spsh__vocabulary_text(v);
    must(written != NULL);
    must(spsh__vocabulary_parse(written, strlen(written), "again", &again, NULL) == SPSH_OK);
    char *twice = spsh__vocabulary_text(again);
    must(twice != NULL && strcmp(written, twice) == 0);
    check_codes(again, (spsh_bytes){(const uint8_t *)text, size});
    free(written);
    free(twice);
    spsh__vocabulary_free(v);
    spsh__vocabulary_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = size == 0 ? "" : (const char *)data;
    check_config(text, size);
    check_vocabulary(text, size);
    return 0;
}
