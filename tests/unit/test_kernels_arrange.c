/* test_kernels_arrange.c - copies by strides against loops over single elements. */
#include "lib/graph/arrangement.h"
#include "tests/common/kernel_cases.h"

static const enum gt_dtype types[] = { GT_F32, GT_BF16, GT_U8, GT_I64 };

/* Copy a piece one element at a time. */
static void copy_piece(
    struct gt_tensor *y, const struct gt_tensor *x, const struct gt_arrange_piece *p)
{
	size_t size = gt_dtype_size(y->dtype);

	for (int64_t k = 0; k < gt_arrange_piece_elements(p); k++) {
		int64_t from = p->from.first, to = p->to.first, left = k;

		for (int64_t i = p->ndim; i-- > 0; left /= p->shape[i]) {
			from += left % p->shape[i] * p->from.strides[i];
			to += left % p->shape[i] * p->to.strides[i];
		}
		memcpy((char *)y->data + (size_t)to * size, (char *)x->data + (size_t)from * size,
		    size);
	}
}

static enum gt_dtype row_of(enum gt_dtype type)
{
	return gt_dtype_is_real(type) ? type : GT_F32;
}

/* Run an arrangement of inputs with `elements` elements each. */
static void check_set(
    const struct test_set *set, const struct gt_arrangement *a, int inputs, const int64_t *elements)
{
	for (size_t t = 0; t < COUNT(types); t++) {
		struct gt_tensor want = test_tensor1(types[t], gt_arrangement_elements(a));
		struct gt_call c = { .inputs = inputs, .outputs = 1 };
		size_t bytes = (size_t)gt_tensor_elements(&want) * gt_dtype_size(types[t]);
		struct gt_err err = GT_ERR_INIT;

		c.attrs.arrange.arrangement = a;
		memset(want.data, 0, bytes);
		for (int k = 0; k < inputs; k++) {
			c.in[k] = test_tensor1(types[t], elements[k]);
			test_random_int(&c.in[k], (uint32_t)(31 + k), 1, 250);
		}
		for (int64_t k = 0; k < a->count; k++)
			copy_piece(&want, &c.in[a->pieces[k].input], &a->pieces[k]);
		c.out[0] = test_tensor1(types[t], gt_arrangement_elements(a));
		for (int threads = 1; threads <= 2; threads++) {
			omp_set_num_threads(threads);
			memset(c.out[0].data, 0xff, bytes);
			if (test_run(set->set, "arrange", row_of(types[t]), &c, &err))
				fail_msg("%s: %s", set->name, err.text);
			assert_memory_equal(c.out[0].data, want.data, bytes);
		}
		free(want.data);
		test_release(&c);
	}
}

static void check(const struct gt_arrangement *a, int inputs, const int64_t *elements)
{
	struct test_set set[3];
	int sets = test_sets(set);
	struct gt_err err = GT_ERR_INIT;

	if (gt_arrangement_check(a, inputs, elements, &err))
		fail_msg("%s", err.text);
	for (int s = 0; s < sets; s++)
		if (!test_lacks(&set[s], "arrange", GT_F32,
		        &(struct gt_call){ .attrs.arrange.arrangement = a }))
			check_set(&set[s], a, inputs, elements);
}

static void set_row_major(int64_t *strides, int ndim, const int64_t *shape)
{
	int64_t step = 1;

	for (int i = ndim; i-- > 0; step *= shape[i])
		strides[i] = step;
}

/* ---- permutations, of sizes around those of tiles, blocks and vectors ---- */

static void check_permutation(int ndim, const int64_t *shape, const int *order)
{
	struct gt_arrangement a = { .ndim = ndim, .count = 1 };
	struct gt_arrange_piece *p = &a.pieces[0];
	int64_t strides[GT_MAX_DIMS];

	p->ndim = ndim;
	set_row_major(strides, ndim, shape);
	for (int i = 0; i < ndim; i++) {
		a.shape[i] = p->shape[i] = shape[order[i]];
		p->from.strides[i] = strides[order[i]];
	}
	set_row_major(p->to.strides, ndim, a.shape);
	check(&a, 1, (int64_t[]){ gt_arrangement_elements(&a) });
}

static void test_permutations(void **state)
{
	static const struct {
		int ndim;
		int64_t shape[GT_MAX_DIMS];
		int order[GT_MAX_DIMS];
	} cases[] = {
		{ 1, { 1 }, { 0 } },
		{ 1, { 70000 }, { 0 } },
		{ 2, { 3, 5 }, { 1, 0 } },
		{ 2, { 64, 64 }, { 1, 0 } },
		{ 2, { 130, 67 }, { 1, 0 } },
		{ 2, { 33, 1031 }, { 1, 0 } },
		{ 2, { 1031, 33 }, { 1, 0 } },
		{ 2, { 40000, 3 }, { 1, 0 } },
		{ 2, { 3, 40000 }, { 1, 0 } },
		{ 3, { 5, 70, 66 }, { 0, 2, 1 } },
		{ 3, { 64, 3, 65 }, { 2, 1, 0 } },
		{ 4, { 3, 17, 5, 64 }, { 0, 2, 1, 3 } },
		{ 4, { 3, 17, 5, 7 }, { 0, 2, 1, 3 } },
		{ 4, { 7, 65, 33, 2 }, { 0, 2, 1, 3 } },
		{ 5, { 3, 4, 5, 6, 7 }, { 4, 2, 0, 3, 1 } },
		{ 6, { 2, 4, 7, 4, 7, 6 }, { 0, 1, 3, 2, 4, 5 } },
		{ 8, { 2, 3, 2, 3, 2, 3, 2, 3 }, { 7, 0, 6, 1, 5, 2, 4, 3 } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		check_permutation(cases[i].ndim, cases[i].shape, cases[i].order);
}

/* ---- random pieces: gaps between elements, any order of dimensions, steps backwards ---- */

static int64_t draw(uint32_t *count, int64_t below)
{
	return (int64_t)gt_philox_below(gt_philox_u64(77, (*count)++, 0, 0), (uint64_t)below);
}

/* Draw the places of a piece on one side. Returns the elements of the tensor. */
static int64_t draw_places(
    const struct gt_arrange_piece *p, struct gt_places *places, uint32_t *count)
{
	int order[GT_MAX_DIMS] = { 0 };
	int64_t end = 1;

	for (int i = 0; i < p->ndim; i++) {
		int k = (int)draw(count, i + 1);

		order[i] = order[k];
		order[k] = i;
	}
	places->first = draw(count, 3);
	for (int i = 0; i < p->ndim; i++) {
		int64_t step = end + draw(count, 4) / 3 * draw(count, 4);
		bool down = !draw(count, 4);

		places->strides[order[i]] = down ? -step : step;
		places->first += down ? step * (p->shape[order[i]] - 1) : 0;
		end = step * p->shape[order[i]];
	}
	return places->first + end + draw(count, 3);
}

static void test_random_pieces(void **state)
{
	enum { PIECES = 150 };
	uint32_t count = 0;

	(void)state;
	for (int k = 0; k < PIECES; k++) {
		struct gt_arrangement a = { .ndim = 1, .count = 1 };
		struct gt_arrange_piece *p = &a.pieces[0];
		int64_t elements, most = 20000;

		p->ndim = draw(&count, 6);
		for (int64_t i = 0; i < p->ndim; i++) {
			p->shape[i] = 1 + draw(&count, draw(&count, 3) ? 9 : 90);
			if (p->shape[i] > most)
				p->shape[i] = most;
			most /= p->shape[i];
		}
		elements = draw_places(p, &p->from, &count);
		a.shape[0] = draw_places(p, &p->to, &count);
		check(&a, 1, &elements);
	}
}

/* ---- several pieces ---- */

/* Two matrices side by side, with a column of zeros between and rows of zeros below. */
static void test_pieces(void **state)
{
	static const int64_t sizes[][3] = { { 3, 4, 5 }, { 300, 64, 128 }, { 70, 1, 1000 } };

	(void)state;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		int64_t rows = sizes[i][0], a = sizes[i][1], b = sizes[i][2], cols = a + 1 + b;
		struct gt_arrangement y = { .ndim = 2,
			.shape = { rows + 2, cols },
			.count = 2,
			.pieces = {
			    { 0, 2, { rows, a }, { 0, { a, 1 } }, { 0, { cols, 1 } } },
			    { 1, 2, { rows, b }, { 0, { b, 1 } }, { a + 1, { cols, 1 } } },
			} };

		check(&y, 2, (int64_t[]){ rows * a, rows * b });
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_permutations),
		cmocka_unit_test(test_random_pieces),
		cmocka_unit_test(test_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
