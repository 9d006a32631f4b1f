/* sha256.h - SHA-256, and the keyed hash made of it, for proving that one knows a secret. */
#ifndef GT_BASE_SHA256_H
#define GT_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GT_SHA256_SIZE = 32, GT_SHA256_BLOCK = 64 };

/*
 * A hash under way: init, update as often as there are bytes, finish. It allocates nothing. It is
 * for messages of some kilobytes, so it is written to be read, not to be fast.
 *
 * Source: FIPS 180-4, Secure Hash Standard.
 */
struct gt_sha256 {
	uint32_t state[8];
	uint64_t size; /* bytes so far */
	unsigned char block[GT_SHA256_BLOCK];
};

void gt_sha256_init(struct gt_sha256 *sha);
void gt_sha256_update(struct gt_sha256 *sha, const void *bytes, size_t size);
void gt_sha256_finish(struct gt_sha256 *sha, unsigned char out[GT_SHA256_SIZE]);

/*
 * HMAC-SHA256: a hash that only who knows the key can make. Used as the one above; finish wipes the
 * key. A key of any length will do, one shorter than 32 bytes is as weak as it is short.
 *
 * Source: RFC 2104; test vectors in RFC 4231.
 */
struct gt_hmac {
	struct gt_sha256 inner, outer;
};

void gt_hmac_init(struct gt_hmac *hmac, const void *key, size_t size);
void gt_hmac_update(struct gt_hmac *hmac, const void *bytes, size_t size);
void gt_hmac_finish(struct gt_hmac *hmac, unsigned char out[GT_SHA256_SIZE]);

/* Whether two hashes are the same, in a time that does not tell where they differ. */
bool gt_sha256_same(const unsigned char a[GT_SHA256_SIZE], const unsigned char b[GT_SHA256_SIZE]);

#endif
