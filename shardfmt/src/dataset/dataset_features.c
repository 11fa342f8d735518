/* dataset_features.c: features that a dataset holds, according to its manifest. */
#include <string.h>

#include "base/base_internal.h"
#include "speechshard/dataset.h"
#include "speechshard/features.h"
#include "speechshard/options.h"

static const char text_key[] = "{\"features\":\"";
static const char dtype_key[] = "\",\"dtype\":\"float";
static const char source_key[] = "\",\"source\":\"";

static bool take(spsh_bytes *json, const char *text)
{
    const size_t size = strlen(text);
    if (json->size_bytes < size || memcmp(json->data, text, size) != 0)
        return false;
    json->data += size;
    json->size_bytes -= size;
    return true;
}

/* Take the bytes up to the quote. Strings that our writer stores contain no quote and no escapes.
 */
static bool take_text(spsh_bytes *json, char dst[SPSH_FEATURES_TEXT_BYTES_MAX])
{
    size_t size = 0;
    while (size < json->size_bytes && json->data[size] != '"' && json->data[size] != '\\')
        size++;
    if (size == json->size_bytes || json->data[size] != '"' || size == 0 ||
        size >= SPSH_FEATURES_TEXT_BYTES_MAX)
        return false;
    memcpy(dst, json->data, size);
    dst[size] = '\0';
    json->data += size;
    json->size_bytes -= size;
    return true;
}

static bool take_id(spsh_bytes *json, uint8_t dst[16])
{
    static const char digits[] = "0123456789abcdef";
    if (json->size_bytes < 32)
        return false;
    for (size_t i = 0; i < 32; i++) {
        const char *digit = memchr(digits, json->data[i], 16);
        if (digit == NULL)
            return false;
        const uint8_t value = (uint8_t)(digit - digits);
        dst[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : dst[i / 2] | value);
    }
    json->data += 32;
    json->size_bytes -= 32;
    return true;
}

static bool take_description(spsh_bytes *json, spsh_features_description *d)
{
    if (!take_text(json, d->text) || !take(json, dtype_key))
        return false;
    if (take(json, "16"))
        d->value_bytes = 2;
    else if (take(json, "32"))
        d->value_bytes = 4;
    return d->value_bytes != 0 && take(json, source_key) && take_id(json, d->source_dataset_id) &&
           json->size_bytes > 0 && json->data[0] == '"';
}

spsh_status spsh_features_dataset(const spsh_dataset *dataset,
                                  spsh_features_description *ret_described, spsh_error *err)
{
    spsh_features_description described = SPSH_FEATURES_DESCRIPTION_INIT;
    spsh_bytes json = {NULL, 0};
    spsh_status rc = spsh_result_check(ret_described, sizeof(described), err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_pack_options(dataset, &json, err);
    if (rc != SPSH_OK)
        return rc;
    if (!take(&json, text_key))
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: holds audio, not features",
                         spsh_dataset_path(dataset));
    if (!take_description(&json, &described))
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: the manifest does not state the feature options",
                         spsh_dataset_path(dataset));
    spsh_result_give(ret_described, &described, sizeof(described));
    return SPSH_OK;
}
