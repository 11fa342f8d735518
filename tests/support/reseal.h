/* reseal.h: make every checksum of a .spsh file in memory right again, after its fields were
 * changed.
 *
 * So a test of a rule, and a fuzzer, get behind the first checksum. Works on any bytes: what does
 * not look like a structure is left alone.
 */
#ifndef RESEAL_H
#define RESEAL_H

#include <stddef.h>
#include <stdint.h>

void reseal(uint8_t *data, size_t size_bytes);

/* The same, except that page checksums of payloads stay as they are. */
void reseal_but_pages(uint8_t *data, size_t size_bytes);

#endif
