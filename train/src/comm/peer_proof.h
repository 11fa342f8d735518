/* peer_proof.h: the secret that all ranks of a run share, and proofs that a peer knows it. The only
 * user of libnettle.
 *
 * A proof is the HMAC-SHA256 of a role and of all bytes that both peers have sent so far, nonces of
 * both included. A proof of another connection, or of the other role, therefore never matches.
 */
#ifndef SPSH_TRAIN_PEER_PROOF_H
#define SPSH_TRAIN_PEER_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPSH__SECRET_BYTES = 32,
    SPSH__SECRET_HEX_BYTES = 2 * SPSH__SECRET_BYTES + 1, /* including the NUL */
    SPSH__PROOF_BYTES = 32,
};

typedef struct spsh__secret {
    uint8_t bytes[SPSH__SECRET_BYTES];
} spsh__secret;

/* Fill with random bytes from the kernel. size_bytes: at most 256. Return false on failure. */
bool spsh__random_bytes(void *to, size_t size_bytes);

/* Compute the SHA-256 of a string that the user chose. */
void spsh__secret_of_text(const char *text, spsh__secret *ret);

/* Write or read a secret as lowercase hexadecimal digits, NUL-terminated. read returns false if
 * `hex` has any other content. */
void spsh__secret_write(const spsh__secret *secret, char hex[SPSH__SECRET_HEX_BYTES]);
bool spsh__secret_read(const char *hex, spsh__secret *ret);

/* Make a proof. role: a string literal, different for each use of the secret. */
void spsh__proof_make(const spsh__secret *secret, const char *role, const void *bytes,
                      size_t size_bytes, uint8_t proof[SPSH__PROOF_BYTES]);

/* Compare in a time that does not depend on the bytes. */
bool spsh__proof_is_equal(const uint8_t a[SPSH__PROOF_BYTES], const uint8_t b[SPSH__PROOF_BYTES]);

#endif
