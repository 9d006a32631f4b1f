/* kernel_cases.h - cases of kernels, checked on every instruction set against plain loops. */
#ifndef GT_TESTS_COMMON_KERNEL_CASES_H
#define GT_TESTS_COMMON_KERNEL_CASES_H

#include "tests/common/calls.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define EACH(i, t) for (int64_t i = 0; i < gt_tensor_elements(&(t)); i++)

#define EACH_PIXEL(t)                                                                              \
	for (int64_t b = 0; b < (t).shape[0]; b++)                                                 \
		for (int64_t h = 0; h < (t).shape[2]; h++)                                         \
			for (int64_t w = 0; w < (t).shape[3]; w++)

/* Sizes of a case: rows and columns, or images [B, C, H, W]; last, the case's variant. */
enum { VARIANT = 4 };
typedef const int64_t kernel_sizes[5];

/*
 * A case makes a call with its inputs filled, in either type, and knows the answer: `naive` fills
 * the outputs (and inputs that the op changes) of a float64 call with plain loops over logical
 * indices.
 */
struct kernel_case {
	const char *op;
	void (*make)(struct gt_call *c, enum gt_dtype f, kernel_sizes d);
	void (*naive)(struct gt_call *c);
	/* Of float32, relative to 1 + |value|; 1e-11 in float64. Sums over some 3000 rows of values
	 * around 1 end near 0 by cancellation; they get 2e-5, about 3e-7 of the root of the sum of
	 * squares. */
	double tolerance;
	int variant;    /* for make() */
	int overwrites; /* the input whose memory out[0] may take, plus 1 */
	bool keeps_nan; /* one NaN in input 0 must be seen in output 0 */
};

/* Which sizes a table of cases is run on; the last of each is large enough for a second thread. */
enum kernel_kind { KERNEL_ROWS, KERNEL_LONG_ROWS, KERNEL_IMAGES, KERNEL_TOKENS };

/*
 * Run every case on every instruction set of this processor, in both types, with one thread and
 * with two (which must give the same bits), the second time in place where the op may.
 */
void kernel_check(const struct kernel_case *cases, size_t count, enum kernel_kind kind);

/* Rows of 16 bits, where there are some: the result is that of float32, rounded once. */
void kernel_check_half(const struct kernel_case *cases, size_t count, enum kernel_kind kind);

/* Every row of the tables that these cases are of is one of them, or `also` by name. */
void kernel_check_covered(const struct kernel_case *cases, size_t count, const char *also);

/* An image, or a vector with an element for each channel, of random numbers. */
void kernel_image(
    struct gt_tensor *t, enum gt_dtype f, kernel_sizes d, uint32_t seed, double low, double high);
void kernel_channels(
    struct gt_tensor *t, enum gt_dtype f, kernel_sizes d, uint32_t seed, double low, double high);

#endif
