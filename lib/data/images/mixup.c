/* mixup.c - mix the images of a batch with each other: torchvision's RandomMixup. */
#include <math.h>

#include "lib/base/philox.h"
#include "lib/data/core/source.h"

/*
 * A weight w is drawn from Beta(alpha, alpha) for each group of samples, and sample i becomes
 * w x[i] + (1 - w) x[i - 1], where the last sample stands before the first.
 *
 * Sources: Zhang, Cisse, Dauphin and Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR
 * 2018; torchvision, references/classification/transforms.py, RandomMixup.
 */

int gt_mixup_check(const double *settings, struct gt_err *err)
{
	if (settings[0] > 0)
		return 0;
	gt_err_set(err, GT_EINVAL, "augmentation 'mixup': alpha is to be above 0");
	return gt_err_hint(err, "leave 'mixup' out of {augment} to mix nothing");
}

/* ---- the weight ---- */

/* A uniform number in (0, 1). */
static double uniform(uint32_t word)
{
	return ((double)word + 0.5) * 0x1p-32;
}

static double normal(uint32_t a, uint32_t b)
{
	return sqrt(-2 * log(uniform(a))) * cos(uniform(b) * 6.283185307179586);
}

/*
 * The logarithm of a number from Gamma(shape, 1), shape >= 1, and a uniform number beside it. Each
 * attempt draws from a block of its own, beginning at `element`; more than 95 % of them are taken.
 *
 * Source: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3),
 * 2000.
 */
static double log_gamma_variate(
    double *beside, double shape, uint64_t seed, uint64_t element, uint32_t epoch)
{
	double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);

	for (;; element++) {
		const uint32_t counter[4] = { (uint32_t)element, (uint32_t)(element >> 32),
			GT_RNG_MIXUP, epoch };
		uint32_t word[4];
		double x, v;

		gt_philox(seed, counter, word);
		x = normal(word[0], word[1]);
		v = 1 + c * x;
		v *= v * v;
		if (v <= 0 || log(uniform(word[2])) >= x * x / 2 + d - d * v + d * log(v))
			continue;
		*beside = uniform(word[3]);
		return log(d * v);
	}
}

/*
 * Beta(alpha, alpha) is a / (a + b) with a and b from Gamma(alpha, 1). Below 1, Gamma(alpha) is
 * Gamma(alpha + 1) times u^(1 / alpha), which a small alpha makes less than any double: so the
 * quotient a / b is made of logarithms.
 */
double gt_mixup_weight(double alpha, uint64_t seed, uint64_t number, uint32_t epoch)
{
	double shape = alpha < 1 ? alpha + 1 : alpha, a, b, u, v, ratio;

	a = log_gamma_variate(&u, shape, seed, number * GT_MIXUP_BLOCKS, epoch);
	b = log_gamma_variate(
	    &v, shape, seed, number * GT_MIXUP_BLOCKS + GT_MIXUP_BLOCKS / 2, epoch);
	ratio = b - a;
	if (alpha < 1)
		ratio += (log(v) - log(u)) / alpha;
	return 1 / (1 + exp(ratio));
}

/* ---- the mixture ---- */

void gt_mixup_rows(float *out, struct gt_mixed_target *target, const uint8_t *pixels,
    const int32_t *classes, int count, size_t size, float weight)
{
	float rest = 1 - weight;

	for (int i = 0; i < count; i++) {
		int partner = i ? i - 1 : count - 1;
		const uint8_t *x = pixels + (size_t)i * size;
		const uint8_t *y = pixels + (size_t)partner * size;
		float *to = out + (size_t)i * size;

		for (size_t k = 0; k < size; k++)
			to[k] = weight * (float)x[k] + rest * (float)y[k];
		target[i] = (struct gt_mixed_target){ { classes[i], classes[partner] }, weight };
	}
}
