/* philox.h - counted random numbers: a pure function of key and counter, without state. */
#ifndef GT_BASE_PHILOX_H
#define GT_BASE_PHILOX_H

#include <math.h>
#include <stdint.h>

/*
 * Philox4x32-10: 128 random bits from a 64-bit key and a 128-bit counter.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 *
 * gtrain's convention: the key is the run's seed; counter words 0 and 1 count elements (or
 * samples), word 2 is the stream (which node, parameter or purpose: enum gt_rng_stream or a
 * node's id), word 3 the step or epoch. Two draws must differ in one of these words.
 */
static inline void gt_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/* Streams (counter word 2) that are not a graph node's; node ids stay below GT_RNG_BASE. */
enum gt_rng_stream {
	GT_RNG_BASE = 0x40000000,
	GT_RNG_SHUFFLE = GT_RNG_BASE, /* the sampler's permutation; word 3 is the epoch */
	GT_RNG_SPLIT,                 /* which samples are held out; word 3 is 0 */
	GT_RNG_AUGMENT,               /* crops and flips; words 0, 1 the sample, word 3 the epoch */
	GT_RNG_DATA,     /* random data sets; words 0 the element, 1 the kind, 3 the sample */
	GT_RNG_WINDOW,   /* the shift of a text's windows; word 3 the epoch */
	GT_RNG_GENERATE, /* sampling of tokens; word 0 the token's position */
	GT_RNG_JITTER,   /* colours; words 0, 1 the sample, word 3 the epoch */
	GT_RNG_RRC,      /* resized crops; words 0, 1 the sample, word 3 the epoch */
	GT_RNG_MIXUP,    /* weights of mixtures; words 0, 1 the group (gt_mixup_weight()), word 3
	                    the epoch */
	GT_RNG_INIT = 0x50000000 /* + the parameter's index; words 0, 1 the element */
};

/* 64 random bits: words 0 and 1 of the block at (element, stream, step). */
static inline uint64_t gt_philox_u64(uint64_t key, uint64_t element, uint32_t stream, uint32_t step)
{
	const uint32_t counter[4] = { (uint32_t)element, (uint32_t)(element >> 32), stream, step };
	uint32_t out[4];

	gt_philox(key, counter, out);
	return (uint64_t)out[1] << 32 | out[0];
}

/* 24 random bits as a float in [0, 1), every value exact. */
static inline float gt_philox_float(uint32_t bits)
{
	return (float)(bits >> 8) * 0x1p-24f;
}

/* 53 random bits as a double in [0, 1). */
static inline double gt_philox_double(uint64_t bits)
{
	return (double)(bits >> 11) * 0x1p-53;
}

/* A number below n (n > 0), by multiply-shift: bias below n / 2^64. */
static inline uint64_t gt_philox_below(uint64_t bits, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)bits * n) >> 64);
}

/* Four standard normals from the four words of a block, by Box and Muller (Ann. Math. Stat. 29(2),
 * 1958). Each uniform number has 32 bits, so no result lies beyond 6.8 standard deviations. */
static inline void gt_philox_normals(const uint32_t w[4], float out[4])
{
	for (int i = 0; i < 4; i += 2) {
		double radius = sqrt(-2.0 * log(((double)w[i] + 0.5) * 0x1p-32)); /* of (0, 1) */
		double angle = (double)w[i + 1] * (6.283185307179586 * 0x1p-32);

		out[i] = (float)(radius * cos(angle));
		out[i + 1] = (float)(radius * sin(angle));
	}
}

#endif
