/* sha256.c - SHA-256 and HMAC-SHA256. */
#include "lib/base/sha256.h"

#include <string.h>

/* FIPS 180-4, 4.2.2: the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constant[64] = { 0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5,
	0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
	0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152,
	0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
	0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624,
	0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3,
	0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2 };

static uint32_t rotate(uint32_t x, int bits)
{
	return x >> bits | x << (32 - bits);
}

/* FIPS 180-4, 6.2.2, steps 1 to 4, in its letters. */
static void compress(uint32_t state[8], const unsigned char *block)
{
	uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3];
	uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

	for (int t = 0; t < 16; t++)
		w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
		       (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
	for (int t = 16; t < 64; t++) {
		uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
		uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;

		w[t] = w[t - 16] + s0 + w[t - 7] + s1;
	}
	for (int t = 0; t < 64; t++) {
		uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
		uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constant[t] + w[t];
		uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
		uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));

		h = g, g = f, f = e, e = d + t1;
		d = c, c = b, b = a, a = t1 + t2;
	}
	state[0] += a, state[1] += b, state[2] += c, state[3] += d;
	state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

/* FIPS 180-4, 5.3.3: the fractional parts of the square roots of the first eight primes. */
void gt_sha256_init(struct gt_sha256 *sha)
{
	*sha = (struct gt_sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } };
}

void gt_sha256_update(struct gt_sha256 *sha, const void *bytes, size_t size)
{
	const unsigned char *p = bytes;

	while (size) {
		size_t used = sha->size % GT_SHA256_BLOCK, n = GT_SHA256_BLOCK - used;

		n = n < size ? n : size;
		memcpy(sha->block + used, p, n);
		sha->size += n;
		p += n;
		size -= n;
		if (sha->size % GT_SHA256_BLOCK == 0)
			compress(sha->state, sha->block);
	}
}

/* FIPS 180-4, 5.1.1: a one bit, zeros, and the length in bits fill up the last block. */
void gt_sha256_finish(struct gt_sha256 *sha, unsigned char out[GT_SHA256_SIZE])
{
	static const unsigned char padding[GT_SHA256_BLOCK] = { 0x80 };
	uint64_t bits = 8 * sha->size;
	size_t used = sha->size % GT_SHA256_BLOCK;
	unsigned char length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)(bits >> (56 - 8 * i));
	gt_sha256_update(sha, padding, (used < 56 ? 56 : 56 + GT_SHA256_BLOCK) - used);
	gt_sha256_update(sha, length, sizeof(length));
	for (int i = 0; i < GT_SHA256_SIZE; i++)
		out[i] = (unsigned char)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
	explicit_bzero(sha, sizeof(*sha));
}

/* RFC 2104: H(key ^ opad, H(key ^ ipad, text)), the key filled up with zeros to a block. */
void gt_hmac_init(struct gt_hmac *hmac, const void *key, size_t size)
{
	unsigned char block[GT_SHA256_BLOCK] = { 0 };

	if (size > sizeof(block)) {
		gt_sha256_init(&hmac->inner);
		gt_sha256_update(&hmac->inner, key, size);
		gt_sha256_finish(&hmac->inner, block);
	} else if (size) {
		memcpy(block, key, size);
	}
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36;
	gt_sha256_init(&hmac->inner);
	gt_sha256_update(&hmac->inner, block, sizeof(block));
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36 ^ 0x5c;
	gt_sha256_init(&hmac->outer);
	gt_sha256_update(&hmac->outer, block, sizeof(block));
	explicit_bzero(block, sizeof(block));
}

void gt_hmac_update(struct gt_hmac *hmac, const void *bytes, size_t size)
{
	gt_sha256_update(&hmac->inner, bytes, size);
}

void gt_hmac_finish(struct gt_hmac *hmac, unsigned char out[GT_SHA256_SIZE])
{
	gt_sha256_finish(&hmac->inner, out);
	gt_sha256_update(&hmac->outer, out, GT_SHA256_SIZE);
	gt_sha256_finish(&hmac->outer, out);
}

bool gt_sha256_same(const unsigned char a[GT_SHA256_SIZE], const unsigned char b[GT_SHA256_SIZE])
{
	volatile unsigned char differ = 0; /* so that no compiler finds a way to stop early */

	for (int i = 0; i < GT_SHA256_SIZE; i++)
		differ = differ | (a[i] ^ b[i]);
	return !differ;
}
