/* reseal.h: correct every checksum of a .spsh file in memory after a change of its fields.
 *
 * It lets tests of a rule and fuzzers get past the first checksum. Works on any bytes: bytes that
 * are not a structure are unchanged.
 */
#ifndef RESEAL_H
#define RESEAL_H

#include <stddef.h>
#include <stdint.h>

void reseal(uint8_t *data, size_t size_bytes);

/* The same, except that page checksums of payloads stay as they are. */
void reseal_but_pages(uint8_t *data, size_t size_bytes);

#endif
