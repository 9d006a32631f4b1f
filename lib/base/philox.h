/* philox.h - the random number generator Philox, a function of a key and a counter. */
#ifndef GT_BASE_PHILOX_H
#define GT_BASE_PHILOX_H

#include <stdint.h>

#include "lib/base/host_device.h"

enum { GT_PHILOX_ROUNDS = 10 };

/* A round of Philox4x32-10. The words are single variables, so that compilers can vectorize
 * loops. */
static inline GT_HOST_DEVICE void gt_philox_round(
    uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3, uint32_t *k0, uint32_t *k1)
{
	uint64_t p0 = (uint64_t)0xD2511F53u * *c0, p1 = (uint64_t)0xCD9E8D57u * *c2;

	*c0 = (uint32_t)(p1 >> 32) ^ *c1 ^ *k0;
	*c1 = (uint32_t)p1;
	*c2 = (uint32_t)(p0 >> 32) ^ *c3 ^ *k1;
	*c3 = (uint32_t)p0;
	*k0 += 0x9E3779B9u;
	*k1 += 0xBB67AE85u;
}

/*
 * Philox4x32-10: compute a block of 128 random bits. Two draws must not have the same key and
 * counter:
 *
 *   key         the seed of the run
 *   words 0, 1  the index of the element or the sample, low half first
 *   word 2      the stream (enum gt_rng_stream), or the id of a graph node
 *   word 3      the step or the epoch
 *
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
static inline GT_HOST_DEVICE void gt_philox(
    uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

	for (int round = 0; round < GT_PHILOX_ROUNDS; round++)
		gt_philox_round(&c0, &c1, &c2, &c3, &k0, &k1);
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/* Streams, with the other words of the counter, which else are 0. Lower values are ids of nodes. */
enum gt_rng_stream {
	GT_RNG_BASE = 0x40000000,
	GT_RNG_SHUFFLE = GT_RNG_BASE, /* order of samples; 0, 1: position; 3: epoch */
	GT_RNG_SPLIT,                 /* samples for validation; 0, 1: position; the key is 0 */
	GT_RNG_AUGMENT,               /* crops and flips; 0, 1: sample; 3: epoch */
	GT_RNG_DATA,                  /* random data sets; 0: element; 1: kind of draw; 3: sample */
	GT_RNG_WINDOW,                /* offset of a text's first sample; 3: epoch */
	GT_RNG_GENERATE,              /* tokens; 0, 1: index of the generated token */
	GT_RNG_JITTER,                /* color jitter; 0, 1: sample; 3: epoch */
	GT_RNG_RRC,                   /* random resized crops; 0, 1: sample; 3: epoch */
	GT_RNG_MIXUP, /* gt_mixup_weight(); 0, 1: group * GT_MIXUP_BLOCKS + block; 3: epoch */
	GT_RNG_MASK,  /* hidden tokens; 0, 1: place in the texts; 3: epoch */
	GT_RNG_INIT = 0x50000000 /* + index of the parameter: initial values; 0, 1: element / 4 */
};

/* Return words 0 and 1 of a block. */
static inline uint64_t gt_philox_u64(uint64_t key, uint64_t element, uint32_t stream, uint32_t step)
{
	const uint32_t counter[4] = { (uint32_t)element, (uint32_t)(element >> 32), stream, step };
	uint32_t out[4];

	gt_philox(key, counter, out);
	return (uint64_t)out[1] << 32 | out[0];
}

/* Return the upper 24 bits as a float in [0, 1). */
static inline float gt_philox_float(uint32_t bits)
{
	return (float)(bits >> 8) * 0x1p-24f;
}

/* Return the upper 53 bits as a double in [0, 1). */
static inline double gt_philox_double(uint64_t bits)
{
	return (double)(bits >> 11) * 0x1p-53;
}

/* Return an integer from 0 to n - 1. Probabilities differ from 1 / n by less than 2^-64. */
static inline uint64_t gt_philox_below(uint64_t bits, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)bits * n) >> 64);
}

#endif
