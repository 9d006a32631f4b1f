/* test_ranges.c - the range kernels of simulated GPUs beside the CPU's, in several orders. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

#include "kernels/cuda/cuda.h"
#include "lib/base/half.h"
#include "lib/base/philox.h"
#include "tests/cudasim/cudasim.h"

enum { BUFFERS = 7, ORDERS = 3, MUON_WORK = 3, COPY = 4 };
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Buffers of n floats; Muon's workspace is longer, and one holds working copies. */
struct flat {
	float *x[BUFFERS];
	size_t bytes[BUFFERS];
	struct gt_step_scalars *s;
	int64_t *first;
};

struct range_case {
	const char *name;
	int (*run)(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
	    int64_t n, const struct range_case *c, struct gt_err *err);
	double tolerance; /* of the largest element of a buffer; 0: the same bits */
	struct gt_update_options o;
	bool exact, skip;
	float scale;   /* of the loss; 0: none */
	bool overflow; /* a gradient is infinite */
	float weight;
	enum gt_dtype dtype; /* of an update: that of the working copy, unless GT_F32 */
};

static void ok(int rc, const struct gt_err *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

/* ---- the cases ---- */

static int run_add(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	(void)c;
	return b->ranges()->add(stream, f->x[0], f->x[1], n, err);
}

/* All of a step but the updates. */
static int run_step(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	(void)c;
	return b->steps()->begin_step(stream, f->s, err) ||
	       b->steps()->add_losses(stream, f->s, f->x[0], n, err) ||
	       b->steps()->add_losses(stream, f->s, f->x[1], n / 2 + 1, err) ||
	       b->steps()->squares(stream, f->x[1], n, f->s, err) ||
	       b->steps()->squares(stream, f->x[2], n / 3, f->s, err) ||
	       b->steps()->begin_update(stream, f->s, err);
}

static struct gt_update_options options_of(const struct range_case *c, const struct flat *f)
{
	struct gt_update_options o = c->o;

	o.lr_scale = o.lr_scale > 0 ? o.lr_scale : 1;
	o.copy = c->dtype == GT_F32 ? NULL : (uint16_t *)f->x[COPY];
	o.copy_type = c->dtype;
	return o;
}

static int update_range(const struct gt_backend *b, enum gt_update_kind kind,
    struct gt_stream *stream, const struct gt_update_range *r, const struct gt_step_scalars *s,
    struct gt_err *err)
{
	const struct gt_update u = { .ranges = r, .n = 1 };

	return b->steps()->updates[kind]->run(stream, &u, s, err);
}

static int run_sgd(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	const struct gt_update_options o = options_of(c, f);
	const struct gt_update_range r = { .p = f->x[0],
		.g = f->x[1],
		.states = { o.momentum != 0 ? f->x[2] : NULL },
		.count = n,
		.o = &o };

	return update_range(b, GT_UPDATE_SGD, stream, &r, f->s, err) ||
	       b->steps()->begin_update(stream, f->s, err) ||
	       update_range(b, GT_UPDATE_SGD, stream, &r, f->s, err);
}

static int run_adam(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	const struct gt_update_options o = options_of(c, f);
	const struct gt_update_range r = {
		.p = f->x[0], .g = f->x[1], .states = { f->x[2], f->x[3] }, .count = n, .o = &o
	};

	return update_range(b, GT_UPDATE_ADAM, stream, &r, f->s, err);
}

static int run_adan(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	const struct gt_step_kernels *k = b->steps();
	const struct gt_update_options o = options_of(c, f);
	const struct gt_update_range r = { .p = f->x[0],
		.g = f->x[1],
		.states = { f->x[2], f->x[5], f->x[3], f->x[6] },
		.count = n,
		.o = &o };

	return k->begin_update(stream, f->s, err) ||
	       update_range(b, GT_UPDATE_ADAN, stream, &r, f->s, err) ||
	       k->begin_update(stream, f->s, err) ||
	       update_range(b, GT_UPDATE_ADAN, stream, &r, f->s, err);
}

static int64_t muon_rows(int64_t n)
{
	return (int64_t)sqrt((double)(n < 3000 ? n : 3000));
}

static int64_t muon_elements(int64_t n)
{
	return (n < 3000 ? n : 3000) / muon_rows(n) * muon_rows(n);
}

/* Update the matrix in the first three buffers; the fourth is its workspace. */
static int update_matrix(const struct gt_step_kernels *k, struct gt_stream *stream,
    const struct flat *f, int64_t rows, int64_t cols, const void *cache,
    const struct gt_update_options *o, struct gt_err *err)
{
	const struct gt_update_range r = {
		.p = f->x[0], .g = f->x[1], .states = { f->x[2] }, .count = rows * cols, .o = o
	};
	const struct gt_update u = {
		.ranges = &r, .n = 1, .rows = rows, .cols = cols, .work = f->x[3], .cache = cache
	};

	return k->updates[GT_UPDATE_MUON]->run(stream, &u, f->s, err);
}

/* The same phase by phase, as ranks that hold shards of the matrix do. */
static int update_in_phases(const struct gt_step_kernels *k, struct gt_stream *stream,
    const struct flat *f, int64_t rows, int64_t cols, const struct gt_update_options *o,
    struct gt_err *err)
{
	const struct gt_update_kernel *muon = k->updates[GT_UPDATE_MUON];
	const struct gt_update_range r = {
		.p = f->x[0], .g = f->x[1], .states = { f->x[2] }, .count = rows * cols, .o = o
	};
	struct gt_update u = { .ranges = &r, .n = 1, .rows = rows, .cols = cols, .work = f->x[3] };
	int rc;

	u.phase = GT_UPDATE_AVERAGE;
	rc = muon->run(stream, &u, f->s, err);
	u.phase = GT_UPDATE_ORTHOGONALIZE;
	rc = rc ? rc : muon->run(stream, &u, f->s, err);
	rc = rc ? rc
	        : k->copy_rows(stream, u.work, cols, u.work + rows * cols, cols, cols, rows, err);
	u.phase = GT_UPDATE_STEP;
	return rc ? rc : muon->run(stream, &u, f->s, err);
}

/* The most square matrix that has room, and its transpose. */
static int run_muon(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	const struct gt_update_options o = options_of(c, f);
	int64_t rows = muon_rows(n), cols = muon_elements(n) / rows;

	return update_matrix(b->steps(), stream, f, rows, cols, NULL, &o, err) ||
	       update_in_phases(b->steps(), stream, f, cols, rows, &o, err);
}

/* Rows of different strides, into the middle of others. */
static int run_copy_rows(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	int64_t length = n / 7, rows = length ? 3 : 0;

	(void)c;
	return b->steps()->copy_rows(
	    stream, f->x[0] + n / 9, 2 * length, f->x[1], length + 1, length, rows, err);
}

static int run_lerp(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	return b->ranges()->lerp(stream, f->x[0], f->x[1], n, c->weight, err);
}

static int run_swap(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	(void)c;
	return b->ranges()->swap(stream, f->x[0], f->x[1], n, err);
}

/* There, and back again to another place. */
static int run_halves(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	return b->ranges()->narrow(stream, (uint16_t *)f->x[0], f->x[1], n, c->dtype, err) ||
	       b->ranges()->widen(stream, f->x[2], (uint16_t *)f->x[0], n, c->dtype, err);
}

static int run_find(const struct gt_backend *b, struct gt_stream *stream, const struct flat *f,
    int64_t n, const struct range_case *c, struct gt_err *err)
{
	return b->ranges()->find_nonfinite(
	    stream, f->first, f->x[3], c->dtype == GT_F64 ? n / 2 : n, c->dtype, err);
}

static const struct range_case cases[] = {
	{ "add", run_add, .tolerance = 0 },
	{ "step", run_step, .tolerance = 1e-12 },
	{ "step", run_step, .tolerance = 1e-12, .exact = true },
	{ "step", run_step, .tolerance = 1e-12, .exact = true, .skip = true },
	{ "step", run_step, .tolerance = 1e-12, .overflow = true },
	{ "step", run_step, .tolerance = 1e-12, .scale = 1024 },
	{ "step", run_step, .tolerance = 1e-12, .scale = 1024, .exact = true },
	{ "step", run_step, .tolerance = 1e-12, .scale = 1024, .overflow = true },
	{ "step", run_step, .tolerance = 1e-12, .scale = 0x1p-14f, .overflow = true },
	{ "step", run_step, .tolerance = 1e-12, .scale = 0x1p127f },
	{ "sgd", run_sgd, .tolerance = 1e-6 },
	{ "sgd", run_sgd, .tolerance = 1e-6, .o = { .lr_scale = 0.3f, .weight_decay = 0.01f } },
	{ "sgd", run_sgd, .tolerance = 1e-6,
	    .o = { .lr_scale = 0.3f,
	        .momentum = 0.9f,
	        .weight_decay = 0.01f,
	        .use_fallback_lr = 1 } },
	{ "sgd", run_sgd, .tolerance = 1e-6, .o = { .momentum = 0.9f, .dampening = 0.25f } },
	{ "sgd", run_sgd, .tolerance = 1e-6,
	    .o = { .momentum = 0.9f, .nesterov = 1, .weight_decay = 0.01f } },
	{ "sgd", run_sgd, .tolerance = 1e-6, .dtype = GT_BF16 },
	{ "sgd", run_sgd, .tolerance = 1e-6, .o = { .momentum = 0.9f }, .dtype = GT_F16 },
	{ "sgd", run_sgd, .tolerance = 0, .o = { .momentum = 0.9f }, .skip = true },
	{ "sgd", run_sgd, .tolerance = 0, .o = { .momentum = 0.9f }, .skip = true,
	    .dtype = GT_F16 },
	{ "adam", run_adam, .tolerance = 1e-6,
	    .o = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8f } },
	{ "adam", run_adam, .tolerance = 1e-6,
	    .o = { .beta1 = 0.9,
	        .beta2 = 0.95,
	        .eps = 1e-6f,
	        .weight_decay = 0.1f,
	        .use_fallback_lr = 1 } },
	{ "adam", run_adam, .tolerance = 1e-6,
	    .o = { .lr_scale = 0.3f,
	        .beta1 = 0.9,
	        .beta2 = 0.999,
	        .eps = 1e-8f,
	        .weight_decay = 0.1f,
	        .decoupled = 1 } },
	{ "adam", run_adam, .tolerance = 0, .o = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8f },
	    .skip = true },
	{ "adam", run_adam, .tolerance = 1e-6, .o = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8f },
	    .dtype = GT_BF16 },
	{ "adan", run_adan, .tolerance = 2e-6, .o = { .eps = 1e-6f } },
	{ "adan", run_adan, .tolerance = 2e-6,
	    .o = { .lr_scale = 0.3f, .eps = 1e-6f, .weight_decay = 0.1f }, .dtype = GT_BF16 },
	{ "adan", run_adan, .tolerance = 0, .o = { .eps = 1e-6f }, .skip = true },
	{ "muon", run_muon, .tolerance = 2e-5, .o = { .momentum = 0.95f, .step_scale = 0.2f },
	    .dtype = GT_F16 },
	{ "muon", run_muon, .tolerance = 2e-5,
	    .o = { .lr_scale = 0.3f,
	        .momentum = 0.95f,
	        .weight_decay = 0.1f,
	        .step_scale = 0.2f } },
	{ "lerp", run_lerp, .tolerance = 1e-7, .weight = 0 },
	{ "lerp", run_lerp, .tolerance = 1e-7, .weight = 0.25f },
	{ "lerp", run_lerp, .tolerance = 1e-7, .weight = 0.9f },
	{ "lerp", run_lerp, .tolerance = 0, .weight = 1 },
	{ "swap", run_swap, .tolerance = 0 },
	{ "copy_rows", run_copy_rows, .tolerance = 0 },
	{ "halves", run_halves, .dtype = GT_F16 },
	{ "halves", run_halves, .dtype = GT_BF16 },
	{ "find", run_find, .dtype = GT_F32 },
	{ "find", run_find, .dtype = GT_F64 },
	{ "find", run_find, .dtype = GT_I64 },
};

/* ---- numbers ---- */

/* Of all sizes in buffer 1, some beyond those of 16 bits; squares of second moments, so none below
 * 0, in buffer 3, with two that are not finite where the search takes place. */
static float number(const struct range_case *c, int buffer, int64_t i, int64_t n)
{
	uint64_t bits = gt_philox_u64(7, (uint64_t)i, (uint32_t)buffer, 0);
	float x = gt_philox_float((uint32_t)bits) - 0.5f;

	if (buffer == 2 && c->overflow && !i)
		return INFINITY;
	if (buffer == 1 && (c->run == run_halves || c->exact) && i % 5)
		return ldexpf(x, (int)(bits >> 32) % 60);
	if (buffer == 3 && c->run == run_find && (i == n * 2 / 3 || i == n - 1))
		return i % 2 ? NAN : -INFINITY;
	return buffer == 3 ? x * x : x;
}

static void fill(struct flat *f, const struct range_case *c, int64_t n)
{
	for (int b = 0; b < BUFFERS; b++) {
		f->bytes[b] = (size_t)n * sizeof(float);
		if (b == MUON_WORK && c->run == run_muon)
			f->bytes[b] *= 4;
		f->x[b] = malloc(f->bytes[b]);
		assert_non_null(f->x[b]);
		for (int64_t i = 0; i < (int64_t)(f->bytes[b] / sizeof(float)); i++)
			f->x[b][i] = number(c, b, i, n);
	}
	f->s = calloc(1, sizeof(*f->s));
	f->first = calloc(1, sizeof(*f->first));
	assert_true(f->s && f->first);
	f->s->block = (struct gt_step_block){ .lr = 0.1f,
		.fallback_lr = 0.02f,
		.clip = 0.5f,
		.beta1 = 0.9,
		.beta2 = 0.999,
		.stop = 1,
		.exact = c->exact,
		.growth = 2,
		.backoff = 0.5f,
		.growth_interval = c->scale != 0 ? 3 : 0 };
	f->s->result = (struct gt_step_result){ .loss = 2,
		.grad_factor = 0.5f,
		.scale = c->scale,
		.growth_tracker = 2,
		.skip = c->skip,
		.diverged = c->skip,
		.bias1 = 0.3f,
		.bias2_sqrt = 0.2f,
		.squares = { 3 } };
}

static void flat_free(struct flat *f)
{
	for (int b = 0; b < BUFFERS; b++)
		free(f->x[b]);
	free(f->s);
	free(f->first);
}

/* ---- on a device ---- */

static void *to_device(const struct gt_device *d, const void *host, size_t bytes)
{
	struct gt_err err = GT_ERR_INIT;
	void *p;

	ok(gt_device_alloc(d, bytes, &p, &err), &err);
	ok(gt_device_write(d, p, host, bytes, &err), &err);
	return p;
}

static void from_device(const struct gt_device *d, void *host, void *p, size_t bytes)
{
	struct gt_err err = GT_ERR_INIT;

	ok(gt_device_read(d, host, p, bytes, &err), &err);
	gt_device_free(d, p, bytes);
}

static void run_on_device(
    const struct gt_device *d, struct flat *f, const struct range_case *c, int64_t n)
{
	struct gt_err err = GT_ERR_INIT;
	struct flat far = *f;

	for (int b = 0; b < BUFFERS; b++)
		far.x[b] = to_device(d, f->x[b], f->bytes[b]);
	far.s = to_device(d, f->s, sizeof(*f->s));
	far.first = to_device(d, f->first, sizeof(*f->first));
	ok(c->run(d->backend, d->compute, &far, n, c, &err), &err);
	for (int b = 0; b < BUFFERS; b++)
		from_device(d, f->x[b], far.x[b], f->bytes[b]);
	from_device(d, f->s, far.s, sizeof(*f->s));
	from_device(d, f->first, far.first, sizeof(*f->first));
}

static bool close_to(double got, double want, double tolerance)
{
	return got == want || (isnan(got) && isnan(want)) ||
	       fabs(got - want) <= tolerance * (1 + fabs(want));
}

/* An exact sum has several forms: this is the one whose digits are below 2^24. */
static void normalize(double *digits, const struct gt_step_result *r)
{
	double carry = 0;

	memcpy(digits, r->squares, sizeof(r->squares));
	for (int i = 0; i + 1 < GT_SQUARES; i++) {
		digits[i] += carry;
		carry = floor(digits[i] / (1 << 24));
		digits[i] -= carry * (1 << 24);
	}
}

static void compare_squares(
    const struct range_case *c, const struct gt_step_result *a, const struct gt_step_result *b)
{
	double got[GT_SQUARES], want[GT_SQUARES];

	if (!c->exact) {
		if (!close_to(a->squares[0], b->squares[0], c->tolerance))
			fail_msg("%s: a sum of squares of %.17g, not %.17g", c->name, a->squares[0],
			    b->squares[0]);
		return;
	}
	normalize(got, a);
	normalize(want, b);
	for (int i = 0; i < GT_SQUARES; i++)
		if (!close_to(got[i], want[i], 0))
			fail_msg("%s: digit %d is %.17g, not %.17g", c->name, i, got[i], want[i]);
}

static void compare_results(
    const struct range_case *c, const struct gt_step_result *a, const struct gt_step_result *b)
{
	if (!close_to(a->loss, b->loss, 0) || !close_to(a->stop, b->stop, 0) ||
	    !close_to(a->grad_norm, b->grad_norm, 1e-6) ||
	    !close_to(a->grad_factor, b->grad_factor, 1e-6) || a->skip != b->skip ||
	    a->diverged != b->diverged || !close_to(a->scale, b->scale, 0) ||
	    a->growth_tracker != b->growth_tracker || a->steps != b->steps ||
	    !close_to(a->bias1, b->bias1, 1e-6) || !close_to(a->bias2_sqrt, b->bias2_sqrt, 1e-6))
		fail_msg("%s: loss %.17g, not %.17g; norm %.9g, not %.9g; scale %g, not %g",
		    c->name, a->loss, b->loss, (double)a->grad_norm, (double)b->grad_norm,
		    (double)a->scale, (double)b->scale);
	compare_squares(c, a, b);
}

/* The working copy has the device's own parameters, rounded. */
static void compare_copy(const struct range_case *c, const struct flat *f, int64_t n)
{
	const uint16_t *copy = (const uint16_t *)f->x[COPY];
	int64_t count = c->run == run_muon ? muon_elements(n) : n;

	for (int64_t i = 0; i < count; i++) {
		float x = f->x[0][i];

		if (copy[i] != (c->dtype == GT_F16 ? gt_f16_of_float(x) : gt_bf16_of_float(x)))
			fail_msg("%s: the copy of element %lld of %lld is %04x, of %.9g", c->name,
			    (long long)i, (long long)n, copy[i], (double)x);
	}
}

static bool has_copy(const struct range_case *c)
{
	return c->dtype != GT_F32 && (c->run == run_sgd || c->run == run_adam ||
	                                 c->run == run_adan || c->run == run_muon);
}

static void compare(
    const struct range_case *c, const struct flat *got, const struct flat *want, int64_t n)
{
	for (int b = 0; b < BUFFERS; b++) {
		if (b == MUON_WORK && c->run == run_muon)
			continue;
		if (b == COPY && has_copy(c) && !c->skip) {
			compare_copy(c, got, n);
			continue;
		}
		if (c->tolerance == 0 && memcmp(got->x[b], want->x[b], want->bytes[b]))
			fail_msg("%s: other bits in buffer %d of %lld", c->name, b, (long long)n);
		for (int64_t i = 0; c->tolerance != 0 && i < n; i++)
			if (!close_to(got->x[b][i], want->x[b][i], c->tolerance))
				fail_msg("%s: element %lld of %lld in buffer %d is %.9g, not %.9g",
				    c->name, (long long)i, (long long)n, b, (double)got->x[b][i],
				    (double)want->x[b][i]);
	}
	compare_results(c, &got->s->result, &want->s->result);
	assert_int_equal(*got->first, *want->first);
}

static void same_bits(const struct range_case *c, const struct flat *x, const struct flat *y)
{
	for (int b = 0; b < BUFFERS; b++)
		if (memcmp(x->x[b], y->x[b], x->bytes[b]))
			fail_msg("%s: buffer %d depends on the order of threads", c->name, b);
	if (memcmp(x->s, y->s, sizeof(*x->s)) || *x->first != *y->first)
		fail_msg("%s: a result depends on the order of threads", c->name);
}

static void check_case(const struct gt_device *d, const struct range_case *c, int64_t n)
{
	struct gt_err err = GT_ERR_INIT;
	struct flat want, first, again;

	fill(&want, c, n);
	ok(c->run(&gt_cpu_backend, NULL, &want, n, c, &err), &err);
	fill(&first, c, n);
	cudasim_seed(1);
	run_on_device(d, &first, c, n);
	compare(c, &first, &want, n);
	for (uint64_t seed = 2; seed <= ORDERS; seed++) {
		fill(&again, c, n);
		cudasim_seed(seed);
		run_on_device(d, &again, c, n);
		same_bits(c, &first, &again);
		flat_free(&again);
	}
	flat_free(&want);
	flat_free(&first);
}

static void test_cases(void **state)
{
	static const int64_t counts[] = { 1, 3, 17, 1000, 9001 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;

	(void)state;
	ok(gt_device_open(&d, &gt_cuda_backend, 1, &err), &err);
	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t n = 0; n < COUNT(counts); n++)
			check_case(d, &cases[i], counts[n]);
	gt_device_close(d);
}

/* ---- Muon by cuBLASLt ---- */

/* Matrices that are large enough are multiplied by the library, once they are prepared. The result
 * is the CPU's, and is captured and replayed like any work. */
static void muon_by_library(struct gt_device *d, int64_t rows, int64_t cols, bool by_library)
{
	const struct range_case c = { "muon", run_muon, .tolerance = 1e-4 };
	const struct gt_update_options o = { .lr_scale = 1, .momentum = 0.95f, .step_scale = 0.2f };
	const struct gt_step_kernels *k = d->backend->steps(), *cpu = gt_cpu_backend.steps();
	const struct gt_update_kernel *muon = k->updates[GT_UPDATE_MUON];
	void *cache = NULL;
	int64_t n = rows * cols;
	struct gt_err err = GT_ERR_INIT;
	struct gt_capture *captured;
	struct flat want, got, far;
	long before;

	fill(&want, &c, n);
	fill(&got, &c, n);
	far = got;
	for (int b = 0; b < BUFFERS; b++)
		far.x[b] = to_device(d, got.x[b], got.bytes[b]);
	far.s = to_device(d, got.s, sizeof(*got.s));
	ok(muon->prepare(&cache, rows, cols, &err), &err);
	ok(muon->prepare(&cache, rows, cols, &err), &err);
	before = cudasim_products.queued;
	ok(d->backend->capture_begin(d->compute, &err), &err);
	ok(update_matrix(k, d->compute, &far, rows, cols, cache, &o, &err), &err);
	ok(d->backend->capture_end(&captured, d->compute, &err), &err);
	for (int step = 0; step < 2; step++) {
		ok(update_matrix(cpu, NULL, &want, rows, cols, NULL, &o, &err), &err);
		ok(d->backend->replay(d->compute, captured, &err), &err);
	}
	for (int b = 0; b < BUFFERS; b++)
		from_device(d, got.x[b], far.x[b], got.bytes[b]);
	from_device(d, got.s, far.s, sizeof(*got.s));
	d->backend->capture_free(captured);
	muon->free_cache(cache);
	assert_int_equal(cudasim_products.queued - before, by_library ? 3 * GT_MUON_STEPS : 0);
	compare(&c, &got, &want, n);
	flat_free(&want);
	flat_free(&got);
}

static void test_muon_by_library(void **state)
{
	static const struct {
		int64_t rows, cols;
		bool by_library;
	} shapes[] = { { 128, 136, true }, { 136, 128, true }, { 128, 128, true },
		{ 24, 136, false }, { 129, 131, false } };
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;

	(void)state;
	ok(gt_device_open(&d, &gt_cuda_backend, 0, &err), &err);
	for (size_t i = 0; i < COUNT(shapes); i++)
		muon_by_library(d, shapes[i].rows, shapes[i].cols, shapes[i].by_library);
	gt_device_close(d);
}

static void check_whole(const void *table, size_t bytes, const char *name)
{
	void *functions[16] = { 0 };

	assert_true(bytes <= sizeof(functions));
	memcpy(functions, table, bytes);
	for (size_t i = 0; i < bytes / sizeof(void *); i++)
		if (!functions[i])
			fail_msg("member %zu of %s is NULL", i, name);
}

/* The tables are written by position, so a forgotten member leaves NULL at their ends. */
static void test_whole(void **state)
{
	(void)state;
	check_whole(gt_cuda_backend.ranges(), sizeof(struct gt_range_kernels), "gt_cuda_ranges");
	check_whole(gt_cuda_backend.steps(), sizeof(struct gt_step_kernels), "gt_cuda_steps");
}

/* No elements, nothing to do. */
static void test_none(void **state)
{
	static const struct gt_update_options o = { .lr_scale = 1 };
	static const struct gt_update_range empty[2] = { { .o = &o }, { .o = &o } };
	static const struct gt_update none = { .n = 0 }, nothing = { .ranges = empty, .n = 2 };
	const struct gt_range_kernels *k = gt_cuda_backend.ranges();
	const struct gt_step_kernels *steps = gt_cuda_backend.steps();
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;
	long before;

	(void)state;
	ok(gt_device_open(&d, &gt_cuda_backend, 0, &err), &err);
	before = cudasim_kernels();
	ok(k->add(d->compute, NULL, NULL, 0, &err), &err);
	ok(steps->squares(d->compute, NULL, 0, NULL, &err), &err);
	ok(k->lerp(d->compute, NULL, NULL, 0, 1, &err), &err);
	ok(steps->updates[GT_UPDATE_SGD]->run(d->compute, &none, NULL, &err), &err);
	for (int kind = 0; kind < GT_UPDATE_KINDS; kind++)
		ok(steps->updates[kind]->run(d->compute, &nothing, NULL, &err), &err);
	ok(gt_device_sync(d, &err), &err);
	assert_int_equal(cudasim_kernels(), before);
	gt_device_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_muon_by_library),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
