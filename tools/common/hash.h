/* hash.h: the packer's hashes, from xxHash. Only hash.c includes xxHash. */
#ifndef SPSH_PACK_HASH_H
#define SPSH_PACK_HASH_H

#include <stdbool.h>

#include "speechshard/base.h"

/* XXH3-64 and XXH3-128 (canonical form), seed 0. */
uint64_t spsh__pack_hash64(spsh_bytes data);
void spsh__pack_hash128(spsh_bytes data, uint8_t ret_hash[16]);

/* XXH3-128 of data that is added piece by piece. */
typedef struct spsh__pack_hasher spsh__pack_hasher;
spsh__pack_hasher *spsh__pack_hasher_new(void);          /* NULL: no memory */
void spsh__pack_hasher_reset(spsh__pack_hasher *hasher); /* reset to the state after new */
void spsh__pack_hasher_add(spsh__pack_hasher *hasher, spsh_bytes data);
void spsh__pack_hasher_digest(spsh__pack_hasher *hasher, uint8_t ret_hash[16]);
void spsh__pack_hasher_free(spsh__pack_hasher *hasher);

/* Format as 32 lower-case digits and a NUL. parse returns false for any other text. */
void spsh__hex128(const uint8_t hash[16], char ret_text[33]);
bool spsh__hex128_parse(const char *text, uint8_t ret_hash[16]);

#endif
