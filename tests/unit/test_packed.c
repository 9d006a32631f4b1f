/* test_packed.c - weights in blocks: the blocks, and products and lookups of them. */
#include "kernels/cpu/decode.h"
#include "lib/base/blocks.h"
#include "tests/common/calls.h"
#include "tests/common/device.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const enum gt_block blocks[] = { GT_BLOCK_BF16, GT_BLOCK_F16, GT_BLOCK_Q8_0, GT_BLOCK_Q4_0 };

static bool is_whole(enum gt_block block, int64_t k)
{
	return k % gt_block_types[block].elements == 0;
}

/* ---- the blocks ---- */

/* The largest error of an element of 32, of which `largest` is the largest: half of a step, or of
 * q4_0 a whole one, as it has no 8; and the rounding of the scale to float16, below 6e-5 to a
 * multiple of 2^-24. */
static double error_of(enum gt_block block, double x, double largest)
{
	switch (block) {
	case GT_BLOCK_BF16:
		return fabs(x) * 0x1p-8;
	case GT_BLOCK_F16:
		return fabs(x) * 0x1p-11 + 0x1p-25;
	case GT_BLOCK_Q8_0:
		return largest * (0.5 / 127 + 0x1p-11) + 127 * 0x1p-25;
	default:
		return largest * (1.0 / 8 + 0x1p-11) + 8 * 0x1p-25;
	}
}

static void encode_row(const float *x, int64_t k, enum gt_block block, unsigned char *to)
{
	const struct gt_block_type *type = &gt_block_types[block];

	for (int64_t i = 0; i < k; i += type->elements, to += type->bytes)
		type->encode(x + i, to);
}

static void test_errors_are_bounded(void **state)
{
	enum { K = 320 };
	struct gt_tensor x = test_tensor1(GT_F32, K);
	unsigned char row[K * 4], again[K * 4];
	float y[K];

	(void)state;
	test_random(&x, 7, -3, 3);
	for (int e = 0; e < 32; e++) /* a block of zeros, and one of small numbers */
		test_put(&x, e, 0), test_put(&x, 32 + e, 1e-3 * test_get(&x, 32 + e));
	for (size_t b = 0; b < COUNT(blocks); b++) {
		encode_row(x.data, K, blocks[b], row);
		gt_decode_row(y, row, K, blocks[b]);
		for (int i = 0; i < K; i++) {
			const double exact = test_get(&x, i);
			double largest = 0;

			for (int e = i / 32 * 32; e < i / 32 * 32 + 32; e++)
				largest = fmax(largest, fabs(test_get(&x, e)));
			if (!(fabs(y[i] - exact) <= error_of(blocks[b], exact, largest)))
				fail_msg("%s: %g is %g", gt_block_names[blocks[b]], exact, y[i]);
		}
		encode_row(y, K, blocks[b], again);
		if (memcmp(row, again, gt_block_row_bytes(blocks[b], K)) != 0)
			fail_msg(
			    "%s: decoded elements have other blocks", gt_block_names[blocks[b]]);
	}
	free(x.data);
}

static void test_the_limit_is_the_first_infinite_number(void **state)
{
	(void)state;
	for (size_t b = 0; b < COUNT(blocks); b++) {
		const float limit = gt_block_types[blocks[b]].limit;
		float x[GT_BLOCK_MOST] = { 0 }, y[GT_BLOCK_MOST];
		unsigned char row[GT_BLOCK_MOST * sizeof(float)];

		for (int i = 0; i < 4; i++) {
			const float size = i / 2 ? limit : nextafterf(limit, 0);

			x[5] = i % 2 ? -size : size;
			encode_row(x, GT_BLOCK_MOST, blocks[b], row);
			gt_decode_row(y, row, GT_BLOCK_MOST, blocks[b]);
			assert_int_equal(!isfinite(y[5]), i / 2);
		}
	}
}

static void test_rows_that_are_not_whole_blocks(void **state)
{
	(void)state;
	assert_int_equal(gt_block_for(GT_BLOCK_Q4_0, 64), GT_BLOCK_Q4_0);
	assert_int_equal(gt_block_for(GT_BLOCK_Q4_0, 65), GT_BLOCK_F16);
	assert_int_equal(gt_block_for(GT_BLOCK_BF16, 65), GT_BLOCK_BF16);
	assert_int_equal(gt_block_row_bytes(GT_BLOCK_Q8_0, 64), 68);
	assert_int_equal(gt_block_row_bytes(GT_BLOCK_Q4_0, 64), 36);
	assert_int_equal(gt_block_row_bytes(GT_BLOCK_F16, 65), 130);
}

/* ---- products ---- */

struct packed_case {
	int64_t m, n, k;
};

/* A table or weight [n, k] of random numbers. */
static struct gt_tensor packed_tensor(enum gt_block block, int64_t n, int64_t k)
{
	const size_t bytes = gt_block_row_bytes(block, k);
	struct gt_tensor plain = test_tensor2(GT_F32, n, k);
	struct gt_tensor t = test_tensor2(GT_U8, n, (int64_t)bytes);

	test_random(&plain, 3, -1, 1);
	for (int64_t r = 0; r < n; r++)
		encode_row((float *)plain.data + r * k, k, block,
		    (unsigned char *)t.data + (size_t)r * bytes);
	free(plain.data);
	return t;
}

static struct gt_call packed_call(enum gt_block block, const struct packed_case *c, bool bias)
{
	struct gt_call call = { .inputs = 3, .outputs = 1 };

	call.attrs.matmul.trans_b = true;
	call.attrs.matmul.block = block;
	call.in[0] = test_tensor3(GT_F32, 1, c->m, c->k);
	call.in[1] = packed_tensor(block, c->n, c->k);
	call.in[2] = test_tensor1(GT_F32, c->n);
	call.in[2].present = bias;
	call.out[0] = test_tensor3(GT_F32, 1, c->m, c->n);
	test_random(&call.in[0], 1, -1, 1);
	test_random(&call.in[2], 2, -1, 1);
	/* numbers of other sizes in each block */
	for (int64_t i = 0; i < c->m * c->k; i++)
		test_put(&call.in[0], i, test_get(&call.in[0], i) * pow(4, (double)(i / 32 % 5)));
	return call;
}

/* Check row i and column r: a sum in float64 of the decoded weight. A factor of a quantized one was
 * rounded to a multiple of largest / 32767, and the sum is in float32. */
static void check_element(const struct gt_call *call, const struct packed_case *c,
    const float *weight, int64_t i, int64_t r, const char *set)
{
	const bool rounds = gt_block_is_quantized(call->attrs.matmul.block) && c->m <= 4;
	double sum = call->in[2].present ? test_get(&call->in[2], r) : 0, bound = fabs(sum);
	double rounding = 0, got = test_get(&call->out[0], i * c->n + r);

	for (int64_t p = 0; p < c->k; p += 32) {
		double largest = 0, weights = 0;

		for (int64_t e = p; e < p + 32 && e < c->k; e++) {
			const double a = test_get(&call->in[0], i * c->k + e);

			sum += a * weight[e];
			bound += fabs(a * weight[e]);
			weights += fabs(weight[e]);
			largest = fmax(largest, fabs(a));
		}
		rounding += largest / 65534 * weights;
	}
	bound = 1e-6 * bound + (rounds ? 1.001 * rounding : 0);
	if (!(fabs(got - sum) <= bound))
		fail_msg("%s, %s: m %d n %d k %d: element [%d, %d] is %g, not %g within %g", set,
		    gt_block_names[call->attrs.matmul.block], (int)c->m, (int)c->n, (int)c->k,
		    (int)i, (int)r, got, sum, bound);
}

static void check_product(
    const struct test_set *set, const struct packed_case *c, enum gt_block block, bool bias)
{
	struct gt_call call = packed_call(block, c, bias);
	float *weight = test_alloc((size_t)c->k * sizeof(*weight)), *one;
	const size_t bytes = (size_t)(c->m * c->n) * sizeof(*one);

	omp_set_num_threads(1);
	test_launch(set->set, "matmul", GT_F32, &call);
	for (int64_t r = 0; r < c->n; r++) {
		gt_decode_row(weight,
		    (const unsigned char *)call.in[1].data + r * call.in[1].shape[1], c->k, block);
		for (int64_t i = 0; i < c->m; i++)
			check_element(&call, c, weight, i, r, set->name);
	}
	one = test_alloc(bytes);
	memcpy(one, call.out[0].data, bytes);
	omp_set_num_threads(2);
	test_launch(set->set, "matmul", GT_F32, &call);
	if (c->m <= 4 && memcmp(one, call.out[0].data, bytes) != 0)
		fail_msg("%s, %s: other bits with two threads", set->name, gt_block_names[block]);
	free(one);
	free(weight);
	test_release(&call);
}

static void test_products(void **state)
{
	static const struct packed_case cases[] = { { 1, 1, 32 }, { 1, 65, 96 }, { 4, 3, 64 },
		{ 3, 17, 1 }, { 1, 9, 17 }, { 2, 5, 100 }, { 1, 70, 768 }, { 1, 30, 3072 },
		{ 5, 33, 96 }, { 37, 700, 768 }, { 6, 19, 35 } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	test_device_host_only();
	for (size_t i = 0; i < COUNT(cases) * COUNT(blocks) * (size_t)sets; i++) {
		const struct packed_case *c = &cases[i / COUNT(blocks) % COUNT(cases)];
		const enum gt_block block = blocks[i % COUNT(blocks)];

		if (is_whole(block, c->k))
			check_product(&set[i / COUNT(blocks) / COUNT(cases)], c, block, i % 2 == 0);
	}
}

/* Numbers that are not finite are seen in every result; blocks of small ones are zero, or as they
 * are. */
static void test_numbers_that_are_not_finite(void **state)
{
	static const double odd[] = { NAN, INFINITY, -INFINITY };
	static const struct packed_case c = { 1, 5, 64 };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	test_device_host_only();
	for (size_t i = 0; i < COUNT(odd) * COUNT(blocks) * (size_t)sets; i++) {
		struct gt_call call = packed_call(blocks[i / COUNT(odd) % COUNT(blocks)], &c, true);

		test_put(&call.in[0], 40, odd[i % COUNT(odd)]);
		test_launch(set[i / COUNT(odd) / COUNT(blocks)].set, "matmul", GT_F32, &call);
		for (int64_t r = 0; r < c.n; r++)
			assert_false(isfinite(test_get(&call.out[0], r)));
		for (int64_t p = 0; p < c.k; p++)
			test_put(&call.in[0], p, p % 2 ? 1e-39 : 0);
		test_launch(set[i / COUNT(odd) / COUNT(blocks)].set, "matmul", GT_F32, &call);
		for (int64_t r = 0; r < c.n; r++)
			assert_true(
			    fabs(test_get(&call.out[0], r) - test_get(&call.in[2], r)) < 1e-30);
		test_release(&call);
	}
}

/* ---- lookups ---- */

/* Rows of positions: none are added, those behind earlier tokens, or those of given places. */
enum { WITHOUT, BEHIND, PLACED, POSITIONS };

static void check_lookup(const struct test_set *set, enum gt_block block, int positions)
{
	enum { B = 2, T = 3, V = 11, K = 96, PAST = 2 };
	struct gt_call call = { .inputs = 5, .outputs = 1 };
	float row[K];

	call.attrs.embedding.block = block;
	call.attrs.embedding.width = K;
	call.in[0] = packed_tensor(block, V, K);
	call.in[1] = test_tensor2(GT_I32, B, T);
	call.in[2] = test_tensor2(GT_F32, T + PAST, K);
	call.in[3] = test_tensor(GT_I32, 0, NULL);
	call.in[4] = test_tensor2(GT_I32, B, T);
	call.in[2].present = positions != WITHOUT;
	call.in[3].present = positions == BEHIND;
	call.in[4].present = positions == PLACED;
	call.out[0] = test_tensor3(GT_F32, B, T, K);
	test_random_int(&call.in[1], 5, 0, V);
	test_random(&call.in[2], 6, -1, 1);
	test_put(&call.in[3], 0, PAST);
	test_random_int(&call.in[4], 7, 0, T + PAST);
	test_launch(set->set, "embedding", GT_F32, &call);
	for (int i = 0; i < B * T; i++) {
		int place = positions == PLACED ? (int)test_get(&call.in[4], i) : PAST + i % T;

		gt_decode_row(row,
		    (const unsigned char *)call.in[0].data +
		        (int64_t)test_get(&call.in[1], i) * call.in[0].shape[1],
		    K, block);
		for (int c = 0; c < K; c++) {
			const float at = (float)test_get(&call.in[2], place * K + c);

			assert_true((float)test_get(&call.out[0], i * K + c) ==
			            (positions ? row[c] + at : row[c]));
		}
	}
	test_put(&call.in[1], 4, V);
	test_refuses(set, "embedding", GT_F32, &call,
	    "embedding: id 11 at [1, 1] is outside the table of 11 rows");
	test_release(&call);
}

static void test_lookups(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	test_device_host_only();
	for (int s = 0; s < sets; s++)
		for (size_t i = 0; i < COUNT(blocks) * POSITIONS; i++)
			check_lookup(&set[s], blocks[i / POSITIONS], (int)(i % POSITIONS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors_are_bounded),
		cmocka_unit_test(test_the_limit_is_the_first_infinite_number),
		cmocka_unit_test(test_rows_that_are_not_whole_blocks),
		cmocka_unit_test(test_products),
		cmocka_unit_test(test_numbers_that_are_not_finite),
		cmocka_unit_test(test_lookups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
