/* test_kernels_map.c - map and sum of random shapes against plain loops; large ones; NaN. */
#include "lib/graph/map_program.h"
#include "tests/common/device.h"
#include "tests/common/kernel_cases.h"

static unsigned seed;

static int64_t draw(int64_t low, int64_t high)
{
	return low + rand_r(&seed) % (high - low + 1);
}

/* ---- tensors of any shape ---- */

/* Return where the element with these coordinates of a shape with `ndim` dimensions lies in t,
 * which is broadcast to that shape. */
static int64_t place_of(const struct gt_tensor *t, int ndim, const int64_t *coordinates)
{
	int64_t own[GT_MAX_DIMS] = { 0 }, at = 0;

	for (int d = 0; d < t->ndim; d++)
		own[d] = t->shape[d] == 1 ? 0 : coordinates[ndim - t->ndim + d];
	if (t->ndim == 4)
		return test_at(t, own[0], own[1], own[2], own[3]);
	for (int d = 0; d < t->ndim; d++)
		at = at * t->shape[d] + own[d];
	return at;
}

/* Advance to the next coordinates of a shape. Return false after the last ones. */
static bool next_place(int ndim, const int64_t *shape, int64_t *coordinates)
{
	for (int d = ndim - 1; d >= 0; d--) {
		if (++coordinates[d] < shape[d])
			return true;
		coordinates[d] = 0;
	}
	return false;
}

static struct gt_tensor whole_numbers(
    enum gt_dtype dtype, int ndim, const int64_t *shape, int64_t low, int64_t high)
{
	struct gt_tensor t = test_tensor(dtype, ndim, shape);

	if (ndim == 4)
		t.layout = draw(0, 1) ? GT_CHANNELS_LAST : GT_PLAIN;
	test_random_int(&t, (uint32_t)draw(1, 1 << 30), low, high);
	return t;
}

static int draw_shape(int most, int64_t *shape)
{
	int ndim = (int)draw(0, most);

	for (int d = 0; d < ndim; d++)
		shape[d] = draw(1, 5);
	if (ndim && draw(0, 2) == 0)
		shape[draw(0, ndim - 1)] = draw(30, 300);
	return ndim;
}

/* A tensor that can be broadcast to a shape. */
static struct gt_tensor draw_input(enum gt_dtype dtype, int ndim, const int64_t *shape, int64_t low)
{
	int own = draw(0, 2) ? ndim : (int)draw(0, ndim);
	int64_t size[GT_MAX_DIMS];

	for (int d = 0; d < own; d++)
		size[d] = draw(0, 2) ? shape[ndim - own + d] : 1;
	return whole_numbers(dtype, own, size, low, 4);
}

static enum gt_dtype draw_real(void)
{
	static const enum gt_dtype types[] = { GT_F32, GT_F32, GT_F64, GT_BF16, GT_F16 };

	return types[draw(0, 4)];
}

/* ---- map ---- */

/* y = a * b + c: exact for small whole numbers */
static const struct gt_map_program scaled_sum = { 3, 1, 0, 1, 2, 2, { 0 },
	{ { GT_F_MUL, 4, { 0, 1, 0 } }, { GT_F_ADD, 3, { 4, 2, 0 } } } };

static void draw_map(struct gt_call *c)
{
	static const enum gt_dtype counted[] = { GT_U8, GT_BOOL, GT_I32, GT_I64 };
	enum gt_dtype real = draw_real();
	int64_t shape[GT_MAX_DIMS];
	int ndim = draw_shape(GT_MAX_DIMS - 2, shape);

	*c = (struct gt_call){ .inputs = 3, .outputs = 1 };
	c->attrs.map.program = &scaled_sum;
	c->in[0] = draw_input(real, ndim, shape, -3);
	c->in[1] = draw_input(real, ndim, shape, -3);
	c->in[2] = draw_input(draw(0, 1) ? real : counted[draw(0, 3)], ndim, shape, 0);
	c->out[0] = test_tensor(real, ndim, shape);
	if (ndim == 4 && draw(0, 1))
		c->out[0].layout = GT_PLAIN;
}

static void check_map(const struct gt_call *c, const char *set)
{
	const struct gt_tensor *y = &c->out[0];
	int64_t at[GT_MAX_DIMS] = { 0 };

	do {
		double in[3], got = test_get(y, place_of(y, y->ndim, at));

		for (int i = 0; i < 3; i++)
			in[i] = test_get(&c->in[i], place_of(&c->in[i], y->ndim, at));
		if (got != in[0] * in[1] + in[2])
			fail_msg("%s %s: %g * %g + %g is %g", set, gt_dtype_name(y->dtype), in[0],
			    in[1], in[2], got);
	} while (next_place(y->ndim, y->shape, at));
}

static void run(const struct test_set *set, const char *op, struct gt_call *c)
{
	struct gt_err err = GT_ERR_INIT;

	if (test_run(set->set, op, c->in[0].dtype, c, &err))
		fail_msg("%s %s: %s", op, set->name, err.text);
}

static void broadcasts(void **state)
{
	struct test_set set[3];
	int sets = test_sets(set), cases = test_device_is_cpu() ? 3000 : 60;

	(void)state;
	seed = 17;
	for (int i = 0; i < cases; i++) {
		struct gt_call c;

		draw_map(&c);
		for (int s = 0; s < sets; s++) {
			run(&set[s], "map", &c);
			check_map(&c, set[s].name);
		}
		test_release(&c);
	}
}

/* Large enough for two threads, and for blocks and runs that end in the middle. */
static void large_maps(void **state)
{
	static const int64_t sizes[][5] = { { 3, 20011, 20011 }, { 20011, 3, 3 }, { 700, 101, 1 },
		{ 1, 70001, 1 }, { 1300, 65, 65 } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (size_t i = 0; i < COUNT(sizes) && test_device_is_cpu(); i++)
		for (int type = 0; type < 3; type++)
			for (int s = 0; s < sets; s++) {
				static const enum gt_dtype types[] = { GT_F32, GT_F64, GT_BF16 };
				struct gt_call c = { .inputs = 3, .outputs = 1 };
				enum gt_dtype f = types[type];

				c.attrs.map.program = &scaled_sum;
				c.in[0] = whole_numbers(f, 2, sizes[i], -3, 4);
				c.in[1] = whole_numbers(f, 1, sizes[i] + 2, -3, 4);
				c.in[2] = whole_numbers(f, 2, sizes[i], 0, 4);
				c.out[0] = test_tensor(f, 2, sizes[i]);
				for (int threads = 1; threads <= 2; threads++) {
					omp_set_num_threads(threads);
					run(&set[s], "map", &c);
					check_map(&c, set[s].name);
				}
				test_release(&c);
			}
}

/* y may be the memory of a. */
static void maps_in_place(void **state)
{
	struct test_set set[3];

	(void)state;
	seed = 5;
	for (int s = test_sets(set); s-- > 0;) {
		const int64_t shape[] = { 7, 331 };
		struct gt_call c = { .inputs = 3, .outputs = 1 }, whole;

		c.attrs.map.program = &scaled_sum;
		for (int i = 0; i < 3; i++)
			c.in[i] = whole_numbers(GT_F32, 2, shape, -3, 4);
		c.out[0] = test_tensor(GT_F32, 2, shape);
		run(&set[s], "map", &c);
		check_map(&c, set[s].name);
		whole = c;
		whole.out[0] = c.in[0];
		run(&set[s], "map", &whole);
		EACH(i, c.out[0])
		assert_true(test_get(&whole.out[0], i) == test_get(&c.out[0], i));
		test_release(&c);
	}
}

/* Compute y = function(x[0], x[1], x[2]), then `then` of that and x[3]: in one program, or apart in
 * two. */
static void compute_pair(const struct test_set *set, int function, int then, bool apart,
    const struct gt_tensor *x, struct gt_tensor y)
{
	const struct gt_map_program both = { 4, 1, 0, 1, 2, 2, { 0 },
		{ { (uint8_t)function, 5, { 0, 1, 2 } }, { (uint8_t)then, 4, { 3, 5 } } } };
	const struct gt_map_program first = { 3, 1, 0, 0, 1, 1, { 0 },
		{ { (uint8_t)function, 3, { 0, 1, 2 } } } };
	const struct gt_map_program second = { 2, 1, 0, 0, 1, 1, { 0 },
		{ { (uint8_t)then, 2, { 0, 1 } } } };
	struct gt_call c = { .inputs = 4, .outputs = 1, .in = { x[0], x[1], x[2], x[3] } };

	c.out[0] = y;
	c.attrs.map.program = &both;
	if (apart) {
		c.inputs = 3;
		c.attrs.map.program = &first;
		run(set, "map", &c);
		c.inputs = 2;
		c.in[0] = x[3];
		c.in[1] = y;
		c.attrs.map.program = &second;
	}
	run(set, "map", &c);
}

/* A step and the sum or product after it are one loop, with the bits of two. */
static void pairs_of_steps(void **state)
{
	static const enum gt_dtype types[] = { GT_F32, GT_F64 };
	struct test_set set[3];
	int sets = test_device_is_cpu() ? test_sets(set) : 0;

	(void)state;
	for (int k = 0; k < 2 * 2 * sets * GT_FUNCTION_COUNT; k++) {
		int function = k / 4 / sets, then = k & 1 ? GT_F_MUL : GT_F_ADD;
		const struct test_set *s = &set[k / 4 % sets];
		const int64_t shape[] = { 7, 331 };
		struct gt_tensor x[4], y[2];

		for (int i = 0; i < 6; i++)
			*(i < 4 ? &x[i] : &y[i - 4]) = test_tensor(types[k >> 1 & 1], 2, shape);
		for (int i = 0; i < 4; i++)
			test_random(&x[i], 3 + (uint32_t)i, 0.1f, 2);
		for (int apart = 0; apart < 2; apart++)
			compute_pair(s, function, then, apart, x, y[apart]);
		EACH(i, y[0])
		if (test_get(&y[0], i) != test_get(&y[1], i))
			fail_msg("%s: function %d, %s: %.17g in one loop, %.17g in two", s->name,
			    function, then == GT_F_ADD ? "added" : "multiplied", test_get(&y[0], i),
			    test_get(&y[1], i));
		for (int i = 0; i < 6; i++)
			free(i < 4 ? x[i].data : y[i - 4].data);
	}
}

/* A result that is read again, or that is an output, stays one. */
static void results_that_are_read_again(void **state)
{
	/* y = (a * b + c) * (a * b), and z = a * b */
	static const struct gt_map_program again = { 3, 2, 0, 2, 4, 4, { 0 },
		{ { GT_F_MUL, 5, { 0, 1 } }, { GT_F_ADD, 6, { 5, 2 } }, { GT_F_COPY, 4, { 5 } },
		    { GT_F_MUL, 3, { 6, 5 } } } };
	/* z = a * b, y = z + c */
	static const struct gt_map_program output = { 3, 2, 0, 0, 2, 2, { 0 },
		{ { GT_F_MUL, 4, { 0, 1 } }, { GT_F_ADD, 3, { 4, 2 } } } };
	const struct gt_map_program *programs[] = { &again, &output };
	struct test_set set[3];

	(void)state;
	seed = 29;
	for (int k = 2 * test_sets(set); k-- > 0;) {
		const int64_t shape[] = { 3, 301 };
		struct gt_call c = { .inputs = 3, .outputs = 2 };

		c.attrs.map.program = programs[k % 2];
		for (int i = 0; i < 3; i++)
			c.in[i] = whole_numbers(GT_F32, 2, shape, -3, 4);
		c.out[0] = test_tensor(GT_F32, 2, shape);
		c.out[1] = test_tensor(GT_F32, 2, shape);
		run(&set[k / 2], "map", &c);
		EACH(i, c.out[0])
		{
			double z = test_get(&c.in[0], i) * test_get(&c.in[1], i);
			double y = z + test_get(&c.in[2], i);

			assert_true(test_get(&c.out[1], i) == z);
			assert_true(test_get(&c.out[0], i) == (k % 2 ? y : y * z));
		}
		test_release(&c);
	}
}

/* ---- sum ---- */

static void draw_sum(struct gt_call *c, int64_t *kept)
{
	enum gt_dtype real = draw_real();
	int64_t shape[GT_MAX_DIMS], out[GT_MAX_DIMS];
	int ndim = draw_shape(6, shape), n = 0;

	*c = (struct gt_call){ .inputs = 1, .outputs = 1 };
	c->attrs.sum.dims = (unsigned)draw(0, (1 << ndim) - 1);
	c->attrs.sum.keep = draw(0, 1);
	c->in[0] = whole_numbers(real, ndim, shape, -1, 2);
	for (int d = 0; d < ndim; d++) {
		bool summed = c->attrs.sum.dims >> d & 1;

		kept[d] = summed ? 1 : shape[d];
		if (!summed || c->attrs.sum.keep)
			out[n++] = kept[d];
	}
	c->out[0] = test_tensor(real, n, out);
	/* only a result with the dimensions of an image may lie as one */
	if (n == 4)
		c->out[0].layout = n == ndim ? c->in[0].layout : GT_PLAIN;
}

static void check_sum(const struct gt_call *c, const int64_t *kept, const char *set)
{
	const struct gt_tensor *x = &c->in[0], *y = &c->out[0];
	struct gt_tensor wide = { .present = true, .dtype = GT_F64, .ndim = x->ndim };
	int64_t at[GT_MAX_DIMS] = { 0 }, from[GT_MAX_DIMS] = { 0 };
	double *sums = calloc((size_t)gt_tensor_elements(y), sizeof(*sums));

	assert_non_null(sums);
	memcpy(wide.shape, kept, sizeof(wide.shape));
	/* the dimensions that remain are those of y, row-major unless y is an image */
	wide.layout = y->ndim == x->ndim ? y->layout : GT_PLAIN;
	do
		sums[place_of(&wide, x->ndim, at)] += test_get(x, place_of(x, x->ndim, at));
	while (next_place(x->ndim, x->shape, at));
	do {
		int64_t i = place_of(&wide, x->ndim, from);

		/* 16-bit types hold whole numbers up to 256 */
		if (test_get(y, i) != sums[i] && fabs(sums[i]) <= 256)
			fail_msg("%s %s, dimensions %#x of %d: %g, not %g", set,
			    gt_dtype_name(x->dtype), c->attrs.sum.dims, x->ndim, test_get(y, i),
			    sums[i]);
	} while (next_place(x->ndim, kept, from));
	free(sums);
}

static void sums(void **state)
{
	struct test_set set[3];
	int count = test_sets(set), cases = test_device_is_cpu() ? 2000 : 60;

	(void)state;
	seed = 23;
	for (int i = 0; i < cases; i++) {
		int64_t kept[GT_MAX_DIMS] = { 0 };
		struct gt_call c;

		draw_sum(&c, kept);
		for (int s = 0; s < count; s++) {
			run(&set[s], "sum", &c);
			check_sum(&c, kept, set[s].name);
		}
		test_release(&c);
	}
}

/* Sums of many terms: close to those in double, with the same bits for two threads. */
static void large_sums(void **state)
{
	static const struct {
		int64_t rows, cols;
		unsigned dims;
	} cases[] = { { 3, 70001, 2 }, { 70001, 3, 1 }, { 300, 1300, 1 }, { 300, 1300, 2 },
		{ 301, 1025, 3 } };
	struct test_set set[3];
	int sets = test_sets(set);

	(void)state;
	for (size_t i = 0; i < COUNT(cases) && test_device_is_cpu(); i++)
		for (int s = 0; s < sets; s++) {
			int64_t rows = cases[i].rows, cols = cases[i].cols;
			int64_t n = cases[i].dims == 1 ? cols : cases[i].dims == 2 ? rows : 1;
			struct gt_call c = { .inputs = 1, .outputs = 1 };
			struct gt_tensor one = test_tensor1(GT_F32, n);
			double *want = calloc((size_t)n, sizeof(*want));

			c.attrs.sum.dims = cases[i].dims;
			c.in[0] = test_tensor2(GT_F32, rows, cols);
			test_random(&c.in[0], 3, 0, 1);
			c.out[0] = one;
			omp_set_num_threads(1);
			run(&set[s], "sum", &c);
			c.out[0] = test_tensor1(GT_F32, n);
			omp_set_num_threads(2);
			run(&set[s], "sum", &c);
			EACH(k, c.in[0])
			want[n == 1 ? 0 : n == cols ? k % cols : k / cols] += test_get(&c.in[0], k);
			assert_memory_equal(one.data, c.out[0].data, (size_t)n * sizeof(float));
			for (int64_t k = 0; k < n; k++)
				if (!(fabs(test_get(&one, k) - want[k]) <= 2e-6 * want[k]))
					fail_msg("%s: sum %lld is %.9g, not %.9g", set[s].name,
					    (long long)k, test_get(&one, k), want[k]);
			free(want);
			free(one.data);
			test_release(&c);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(broadcasts),
		cmocka_unit_test(large_maps),
		cmocka_unit_test(maps_in_place),
		cmocka_unit_test(pairs_of_steps),
		cmocka_unit_test(results_that_are_read_again),
		cmocka_unit_test(sums),
		cmocka_unit_test(large_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
