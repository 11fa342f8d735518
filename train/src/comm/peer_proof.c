/* peer_proof.c: see peer_proof.h. */
#include "peer_proof.h"

#include <nettle/base16.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <string.h>
#include <sys/random.h>

_Static_assert(SPSH__SECRET_BYTES == SHA256_DIGEST_SIZE, "a secret is the hash of a string");
_Static_assert(SPSH__PROOF_BYTES == SHA256_DIGEST_SIZE, "a proof is an HMAC-SHA256");

bool spsh__random_bytes(void *to, size_t size_bytes)
{
    return getrandom(to, size_bytes, 0) == (ssize_t)size_bytes;
}

void spsh__secret_of_text(const char *text, spsh__secret *ret)
{
    struct sha256_ctx hash;
    sha256_init(&hash);
    sha256_update(&hash, strlen(text), (const uint8_t *)text);
    sha256_digest(&hash, sizeof(ret->bytes), ret->bytes);
}

void spsh__secret_write(const spsh__secret *secret, char hex[SPSH__SECRET_HEX_BYTES])
{
    base16_encode_update(hex, sizeof(secret->bytes), secret->bytes);
    hex[SPSH__SECRET_HEX_BYTES - 1] = '\0';
}

bool spsh__secret_read(const char *hex, spsh__secret *ret)
{
    struct base16_decode_ctx decoder;
    size_t size_bytes = sizeof(ret->bytes);
    base16_decode_init(&decoder);
    return strlen(hex) == SPSH__SECRET_HEX_BYTES - 1 &&
           base16_decode_update(&decoder, &size_bytes, ret->bytes, strlen(hex), hex) == 1 &&
           size_bytes == sizeof(ret->bytes);
}

void spsh__proof_make(const spsh__secret *secret, const char *role, const void *bytes,
                      size_t size_bytes, uint8_t proof[SPSH__PROOF_BYTES])
{
    struct hmac_sha256_ctx hash;
    hmac_sha256_set_key(&hash, sizeof(secret->bytes), secret->bytes);
    hmac_sha256_update(&hash, strlen(role) + 1, (const uint8_t *)role);
    hmac_sha256_update(&hash, size_bytes, bytes);
    hmac_sha256_digest(&hash, SPSH__PROOF_BYTES, proof);
    explicit_bzero(&hash, sizeof(hash));
}

bool spsh__proof_is_equal(const uint8_t a[SPSH__PROOF_BYTES], const uint8_t b[SPSH__PROOF_BYTES])
{
    return memeql_sec(a, b, SPSH__PROOF_BYTES) != 0;
}
