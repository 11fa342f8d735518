/* text_form.h: transcripts as code points in one of the forms that have names (vocabulary.h), one
 * after the other, without memory. */
#ifndef SPSH_TRAIN_TEXT_FORM_H
#define SPSH_TRAIN_TEXT_FORM_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__POINT_BAD  INT32_C(0xfffd) /* stands for a byte that is not UTF-8 */
#define SPSH__POINT_WORD INT32_C(0x2581) /* begins a word in word pieces; in no text */

typedef enum spsh__text_form {
    SPSH__FORM_NFC = 0,
    SPSH__FORM_LOWER = 1,
    SPSH__FORM_UPPER = 2,
} spsh__text_form;

/* "lower-1" */
const char *spsh__text_form_name(spsh__text_form form);
/* With its version or without. SPSH_E_NOT_FOUND names those there are. */
spsh_status spsh__text_form_find(const char *name, spsh__text_form *ret_form, spsh_error *err);

/* Words with one blank between; nothing for a text without any. Linear in time; of the marks on one
 * letter 30 are taken. Thread-safe. */
void spsh__text_points(spsh__text_form form, spsh_bytes text,
                       void (*point_fn)(void *user, int32_t point), void *user);

#endif
