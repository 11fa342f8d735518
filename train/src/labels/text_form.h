/* text_form.h: transcripts as a stream of code points in a named form (vocabulary.h), without
 * allocation. */
#ifndef SPSH_TRAIN_TEXT_FORM_H
#define SPSH_TRAIN_TEXT_FORM_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__POINT_BAD INT32_C(0xfffd) /* replaces a byte that is not UTF-8 */
#define SPSH__POINT_WORD                                                                           \
    INT32_C(0x2581) /* begins a word in word pieces; does not occur in
                                            transcripts */

typedef enum spsh__text_form {
    SPSH__FORM_NFC = 0,
    SPSH__FORM_LOWER = 1,
    SPSH__FORM_UPPER = 2,
} spsh__text_form;

/* "lower-1" */
const char *spsh__text_form_name(spsh__text_form form);
/* Find a form by its name, with or without the version. SPSH_E_NOT_FOUND lists the known names. */
spsh_status spsh__text_form_find(const char *name, spsh__text_form *ret_form, spsh_error *err);

/* Call point_fn for each code point: words with one blank in between, nothing for a transcript
 * without words. Linear in time. At most 30 marks on one letter are used. Thread-safe. */
void spsh__text_points(spsh__text_form form, spsh_bytes text,
                       void (*point_fn)(void *user, int32_t point), void *user);

#endif
