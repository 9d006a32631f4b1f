/* product.c - a product's descriptors, and the choice of its algorithm. */
#include "kernels/cuda/library/product.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/library/cublaslt.h"
#include "kernels/cuda/library/fastest.h"
#include "lib/base/mem.h"

/*
 * The products of product.h, in detail.
 *
 * Each element of y and of sums is a sum that is computed in float32 (float64 for F64) and rounded
 * once. There are two exceptions: if k is divided, an element is rounded twice; and cuBLASLt's
 * kernels for ragged rows may round an element more than once. Both are described below. If `tf32`
 * is set, a and b of F32 are rounded to 10 bits of mantissa and multiplied by tensor cores.
 *
 * An algorithm of cuBLASLt is not used if its sums depend on the order in which thread blocks
 * finish. So one algorithm always gives the same bits for the same product on the same GPU. Another
 * algorithm may give other bits.
 *
 * cuBLASLt's matrices are column-major, so for cuBLASLt the memory of y holds y^T. Therefore gtrain
 * asks cuBLASLt for y^T = op(b)^T * op(a)^T.
 *
 * The fast kernels of cuBLASLt read and write 16 bytes at a time. They need rows of a, b and y that
 * begin and end at multiples of 16 bytes. A row length (n for y, k or m for a) is called ragged if
 * it is not a multiple of 16 bytes. Rows can begin at such multiples and still have a ragged
 * length, for example rows of 50257 logits with a stride of 50264. For such rows, cuBLASLt uses
 * kernels that access one element at a time. In bfloat16 on an H200, these kernels computed such
 * logits at 95 TFLOP/s; the fast kernels compute products of other sizes at 700 TFLOP/s. So gtrain
 * divides such a product into two products of cuBLASLt: the main part takes the largest multiple of
 * 32 bytes from the ragged size, and the rest takes the remaining elements, at most 15. In the
 * table, n0, m0 and k0 are the sizes of the main part.
 *
 *   ragged   requires                       main part           rest
 *   n        trans_b, y_stride              columns below n0    columns from n0 on
 *   m        trans_a, a_stride              rows below m0       rows from m0 on
 *   k        a_stride, nothing transposed   terms below k0      terms from k0 on
 *
 * If k is divided, the rest is computed first, with the caller's beta. The main part is then added
 * to y. So the rest, a small summand, is rounded twice: once to the type of y, together with
 * beta * c, and once in the sum. If n or m is divided, each element of y is rounded only once.
 *
 * Products are not divided in these cases:
 *
 *   - The type is F64, or F32 without tf32. It is not known whether ragged sizes of these types are
 *     slow.
 *   - The product has a bias or an epilogue, or is a batch of products.
 *   - Rows of a, b or y do not begin at multiples of 16 bytes, as in a contiguous tensor with
 *     ragged rows. The main part would be as slow as the whole product.
 *   - Rows of both a and y have a ragged length, or the ragged length is below 32 bytes.
 *   - m * n * k is less than GT_PRODUCT_DIVIDED. At the speeds above, the fast kernels then save
 *     less than 5 us, about the time that the second kernel takes.
 */

/* ALIGNMENT: tensors begin at multiples of 32 bytes (16-bit copies of weights) or of 64 (others).
 * ACCESS: the bytes that cuBLASLt's fast kernels read or write at a time. */
enum { ALIGNMENT = 32, ACCESS = 16, CANDIDATES = 16 };

/* Part of the key under which choices are remembered. Increase it when the measurement changes, so
 * that older choices are no longer found. In revision 2, algorithms are timed in turns and multiply
 * random numbers, not zeros. */
enum { REVISION = 2 };

struct gt_product {
	struct gt_product_shape shape;
	void *handle, *desc, *a, *b, *y; /* `a` and `b` as shape names them */
	struct gt_lt_candidate chosen;
	/* NULL, or the second part of a divided product; this struct is then the main part. */
	struct gt_product *rest;
	size_t rest_a, rest_b, rest_y; /* bytes from the start of a, b and y to the rest's data */
	bool adds;                     /* k is divided: add the main part to the rest's result */
};

size_t gt_product_workspace(const struct gt_product *p)
{
	size_t own = p->chosen.workspace_bytes, rest = p->rest ? gt_product_workspace(p->rest) : 0;

	return own > rest ? own : rest;
}

void gt_product_free(struct gt_product *p)
{
	if (!p)
		return;
	gt_product_free(p->rest);
	if (p->desc)
		gt_lt->MatmulDescDestroy(p->desc);
	if (p->a)
		gt_lt->MatrixLayoutDestroy(p->a);
	if (p->b)
		gt_lt->MatrixLayoutDestroy(p->b);
	if (p->y)
		gt_lt->MatrixLayoutDestroy(p->y);
	free(p);
}

/* ---- descriptors ---- */

static int type_of(enum gt_dtype dtype)
{
	switch (dtype) {
	case GT_F64:
		return GT_LT_F64;
	case GT_F16:
		return GT_LT_F16;
	case GT_BF16:
		return GT_LT_BF16;
	default:
		return GT_LT_F32;
	}
}

static int set_number(struct gt_product *p, int attribute, int32_t value, struct gt_err *err)
{
	return gt_lt_check(gt_lt->MatmulDescSetAttribute(p->desc, attribute, &value, sizeof(value)),
	    "cublasLtMatmulDescSetAttribute", err);
}

/* A row-major matrix as it lies in memory, or a batch of these. */
struct matrix {
	enum gt_dtype dtype;
	int64_t rows, cols, row; /* row: elements from one to the next */
	int64_t batch, step;     /* 0, 0: a single one */
};

/*
 * How y [2, 3] = a [2, 4] b [4, 3] is described. A row-major [r, c] is a column-major [c, r]:
 *
 *   gtrain               cuBLASLt
 *   y [2, 3]             D [3, 2] = y^T
 *   b [4, 3]             A [3, 4] = b^T, its left side
 *   a [2, 4]             B [4, 2] = a^T, its right side
 *
 * so D = A B without a transposition. With trans_a, memory holds [4, 2], and B is transposed.
 */
static struct matrix a_of(const struct gt_product_shape *s)
{
	struct matrix m = { s->dtype, s->trans_a ? s->k : s->m, s->trans_a ? s->m : s->k,
		s->a_stride, s->batch, s->a_step };

	m.row = m.row ? m.row : m.cols;
	return m;
}

static struct matrix b_of(const struct gt_product_shape *s)
{
	struct matrix m = { s->dtype, s->trans_b ? s->n : s->k, s->trans_b ? s->k : s->n, 0,
		s->batch, s->b_step };

	m.row = m.cols;
	return m;
}

static struct matrix y_of(const struct gt_product_shape *s)
{
	enum gt_dtype dtype = s->wide ? gt_dtype_wide(s->dtype) : s->dtype;

	return (struct matrix){ dtype, s->m, s->n, s->y_stride ? s->y_stride : s->n, s->batch,
		s->y_step };
}

static int describe_batch(void *layout, struct matrix m, struct gt_err *err)
{
	const int32_t count = (int32_t)m.batch;
	int status =
	    gt_lt->MatrixLayoutSetAttribute(layout, GT_LT_BATCH_COUNT, &count, sizeof(count));

	if (!status)
		status = gt_lt->MatrixLayoutSetAttribute(
		    layout, GT_LT_BATCH_STEP, &m.step, sizeof(m.step));
	return gt_lt_check(status, "cublasLtMatrixLayoutSetAttribute", err);
}

/* Describe a row-major matrix as a column-major one, with rows and columns exchanged. */
static int describe_matrix(void **out, struct matrix m, struct gt_err *err)
{
	int rc = gt_lt_check(gt_lt->MatrixLayoutCreate(
	                         out, type_of(m.dtype), (uint64_t)m.cols, (uint64_t)m.rows, m.row),
	    "cublasLtMatrixLayoutCreate", err);

	return rc || m.batch < 2 ? rc : describe_batch(*out, m, err);
}

int gt_product_set_bias(struct gt_product *p, const void *bias, struct gt_err *err)
{
	return gt_lt_check(
	    gt_lt->MatmulDescSetAttribute(p->desc, GT_LT_BIAS_POINTER, &bias, sizeof(bias)),
	    "cublasLtMatmulDescSetAttribute", err);
}

int gt_product_set_aux(struct gt_product *p, const void *aux, struct gt_err *err)
{
	return gt_lt_check(
	    gt_lt->MatmulDescSetAttribute(p->desc, GT_LT_AUX_POINTER, &aux, sizeof(aux)),
	    "cublasLtMatmulDescSetAttribute", err);
}

static bool has_aux(const struct gt_product_shape *s)
{
	return s->end == GT_PRODUCT_GELU_KEEP || s->end == GT_PRODUCT_GELU_GRAD;
}

/* A vector that the library is told of as the bias: it, or sums. */
static bool has_vector(const struct gt_product_shape *s)
{
	return s->bias || s->end == GT_PRODUCT_SUMS_A || s->end == GT_PRODUCT_SUMS_B;
}

/* The library's left side is b, its right side a. */
static int32_t epilogue_of(const struct gt_product_shape *s)
{
	switch (s->end) {
	case GT_PRODUCT_GELU:
		return s->bias ? GT_LT_EPILOGUE_GELU_BIAS : GT_LT_EPILOGUE_GELU;
	case GT_PRODUCT_GELU_KEEP:
		return s->bias ? GT_LT_EPILOGUE_GELU_AUX_BIAS : GT_LT_EPILOGUE_GELU_AUX;
	case GT_PRODUCT_GELU_GRAD:
		return GT_LT_EPILOGUE_DGELU;
	case GT_PRODUCT_SUMS_A:
		return GT_LT_EPILOGUE_BGRADB;
	case GT_PRODUCT_SUMS_B:
		return GT_LT_EPILOGUE_BGRADA;
	default:
		return s->bias ? GT_LT_EPILOGUE_BIAS : GT_LT_EPILOGUE_NONE;
	}
}

/* Tell the library the epilogue and the alignment of its buffers: its algorithms depend on them. */
static int describe_end(struct gt_product *p, struct gt_err *err)
{
	const struct gt_product_shape *s = &p->shape;
	/* Only the alignment of these addresses matters here. They are replaced before the product
	 * runs. */
	const void *somewhere = (const void *)(uintptr_t)ALIGNMENT;
	int rc = set_number(p, GT_LT_EPILOGUE, epilogue_of(s), err);

	if (!rc && has_aux(s))
		rc = gt_lt_check(
		    gt_lt->MatmulDescSetAttribute(p->desc, GT_LT_AUX_LEADING, &s->n, sizeof(s->n)),
		    "cublasLtMatmulDescSetAttribute", err);
	if (!rc && has_aux(s))
		rc = gt_product_set_aux(p, somewhere, err);
	return rc || !has_vector(s) ? rc : gt_product_set_bias(p, somewhere, err);
}

static bool rounds_to_tf32(const struct gt_product_shape *s)
{
	return s->tf32 && s->dtype == GT_F32;
}

static int arithmetic_of(const struct gt_product_shape *s)
{
	if (s->dtype == GT_F64)
		return GT_LT_COMPUTE_F64;
	return rounds_to_tf32(s) ? GT_LT_COMPUTE_F32_TF32 : GT_LT_COMPUTE_F32;
}

static int describe_product(struct gt_product *p, struct gt_err *err)
{
	const struct gt_product_shape *s = &p->shape;

	if (gt_lt_check(gt_lt->MatmulDescCreate(
	                    &p->desc, arithmetic_of(s), s->dtype == GT_F64 ? GT_LT_F64 : GT_LT_F32),
	        "cublasLtMatmulDescCreate", err))
		return err->code;
	if (set_number(
	        p, GT_LT_TRANS_A, s->trans_b ? GT_LT_TRANSPOSED : GT_LT_NOT_TRANSPOSED, err) ||
	    set_number(p, GT_LT_TRANS_B, s->trans_a ? GT_LT_TRANSPOSED : GT_LT_NOT_TRANSPOSED, err))
		return err->code;
	if (describe_matrix(&p->a, a_of(s), err) || describe_matrix(&p->b, b_of(s), err) ||
	    describe_matrix(&p->y, y_of(s), err))
		return err->code;
	return describe_end(p, err);
}

/* ---- running ---- */

static int queue_product(const struct gt_product *p, const struct gt_lt_candidate *with,
    cudaStream_t stream, void *y, const void *a, const void *b, const void *c, double alpha,
    double beta, void *workspace, struct gt_err *err)
{
	/* The factors have the type of the arithmetic: double for F64, float for all others. */
	const float alpha32 = (float)alpha, beta32 = (float)beta;
	bool wide = p->shape.dtype == GT_F64;

	return gt_lt_check(gt_lt->Matmul(p->handle, p->desc, wide ? (const void *)&alpha : &alpha32,
	                       b, p->b, a, p->a, wide ? (const void *)&beta : &beta32, c, p->y, y,
	                       p->y, &with->algorithm, workspace, with->workspace_bytes, stream),
	    "cublasLtMatmul", err);
}

int gt_product_run(const struct gt_product *p, struct gt_stream *stream, void *y, const void *a,
    const void *b, const void *c, double alpha, double beta, void *workspace, struct gt_err *err)
{
	/* The library requires an address of c even with beta 0, when it does not read c. */
	c = c ? c : y;
	if (p->rest) {
		if (gt_product_run(p->rest, stream, (char *)y + p->rest_y,
		        (const char *)a + p->rest_a, (const char *)b + p->rest_b,
		        (const char *)c + p->rest_y, alpha, beta, workspace, err))
			return err->code;
		c = p->adds ? y : c;
		beta = p->adds ? 1 : beta;
	}
	return queue_product(p, &p->chosen, stream->queue, y, a, b, c, alpha, beta, workspace, err);
}

/* ---- candidates ---- */

static uint64_t most_workspace(const struct gt_product *p)
{
	return p->shape.no_workspace ? 0 : GT_PRODUCT_WORKSPACE;
}

/* Return how many bytes the addresses of a matrix, or of all of a batch, are multiples of. */
static uint32_t alignment_of(struct matrix m)
{
	size_t bytes = (size_t)(m.rows * m.row) * gt_dtype_size(m.dtype);
	uint32_t alignment = ALIGNMENT;

	while (m.batch > 1 && bytes % alignment)
		alignment /= 2;
	return alignment;
}

static int set_preferences(const struct gt_product *p, void *preference, struct gt_err *err)
{
	const struct gt_product_shape *s = &p->shape;
	const struct {
		int attribute;
		uint32_t value;
	} numbers[] = {
		/* The other ways of reduction round to the type of y more than once. */
		{ GT_LT_REDUCTIONS, GT_LT_REDUCE_IN_WORKSPACE },
		{ GT_LT_ALIGNMENT_A, alignment_of(b_of(s)) }, /* its left side is b */
		{ GT_LT_ALIGNMENT_B, alignment_of(a_of(s)) },
		{ GT_LT_ALIGNMENT_C, alignment_of(y_of(s)) },
		{ GT_LT_ALIGNMENT_D, alignment_of(y_of(s)) },
	};
	uint64_t max = most_workspace(p);
	int status =
	    gt_lt->MatmulPreferenceSetAttribute(preference, GT_LT_MAX_WORKSPACE, &max, sizeof(max));

	for (size_t i = 0; !status && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		status = gt_lt->MatmulPreferenceSetAttribute(
		    preference, numbers[i].attribute, &numbers[i].value, sizeof(numbers[i].value));
	return gt_lt_check(status, "cublasLtMatmulPreferenceSetAttribute", err);
}

/* Move the candidates that can be used to the front. Return their number. */
static int keep_usable(const struct gt_product *p, struct gt_lt_candidate *c, int count)
{
	int kept = 0;

	for (int i = 0; i < count; i++)
		if (c[i].status == GT_LT_SUCCESS && c[i].workspace_bytes <= most_workspace(p))
			c[kept++] = c[i];
	return kept;
}

static int set_unsupported(const struct gt_product *p, struct gt_err *err)
{
	const struct gt_product_shape *s = &p->shape;

	return gt_err_set(err, GT_ENOTSUP,
	    "cuBLASLt has no algorithm for a product of %" PRId64 " x %" PRId64 " and %" PRId64
	    " x %" PRId64 " in %s",
	    s->m, s->k, s->k, s->n, gt_dtype_name(s->dtype));
}

static int find_candidates(
    struct gt_product *p, struct gt_lt_candidate *out, int *count, struct gt_err *err)
{
	void *preference = NULL;
	int status = gt_lt->MatmulPreferenceCreate(&preference), rc;

	*count = 0;
	rc = gt_lt_check(status, "cublasLtMatmulPreferenceCreate", err);
	if (!rc)
		rc = set_preferences(p, preference, err);
	if (!rc) {
		status = gt_lt->MatmulAlgoGetHeuristic(
		    p->handle, p->desc, p->b, p->a, p->y, p->y, preference, CANDIDATES, out, count);
		/* Either may be said of a type with an epilogue it does not have. */
		if (status != GT_LT_NOT_SUPPORTED && status != GT_LT_INVALID_VALUE)
			rc = gt_lt_check(status, "cublasLtMatmulAlgoGetHeuristic", err);
	}
	if (preference)
		gt_lt->MatmulPreferenceDestroy(preference);
	/* A library may propose algorithms that need more than the limit, or that it then rejects.
	 */
	*count = rc ? 0 : keep_usable(p, out, *count);
	return rc || *count ? rc : set_unsupported(p, err);
}

/* ---- the choice ---- */

/* The candidates of a product, and the memory that they are timed with. */
struct trial {
	struct gt_product *product;
	const struct gt_lt_candidate *candidates;
	int count;
	char *a, *b, *y, *workspace;
};

static size_t bytes_of(struct matrix m)
{
	int64_t others = m.batch > 1 ? (m.batch - 1) * m.step : 0;

	return gt_aligned_bytes((size_t)(others + m.rows * m.row) * gt_dtype_size(m.dtype));
}

/* Return the bytes that hold the vector that the library calls the bias, or aux. */
static size_t bytes_of_vector(const struct gt_product_shape *s)
{
	return bytes_of((struct matrix){ y_of(s).dtype, 1, s->m + s->n, s->m + s->n, 0, 0 });
}

static size_t bytes_of_aux(const struct gt_product_shape *s)
{
	return has_aux(s) ? bytes_of((struct matrix){ s->dtype, s->m, s->n, s->n, 0, 0 }) : 0;
}

static int prepare_trial(void *self, size_t *bytes, struct gt_err *err)
{
	const struct trial *t = self;
	const struct gt_product_shape *s = &t->product->shape;
	size_t work = 0;

	(void)err;
	/* The trial's workspace is the largest of all candidates; the product's is that of the
	 * chosen one. */
	for (int i = 0; i < t->count; i++)
		if (t->candidates[i].workspace_bytes > work)
			work = t->candidates[i].workspace_bytes;
	*bytes = bytes_of(a_of(s)) + bytes_of(b_of(s)) + bytes_of(y_of(s)) + bytes_of_vector(s) +
	         bytes_of_aux(s) + work;
	return 0;
}

static int place_trial(void *self, char *memory, struct gt_err *err)
{
	struct trial *t = self;
	const struct gt_product_shape *s = &t->product->shape;
	char *vector, *aux;

	t->a = memory;
	t->b = t->a + bytes_of(a_of(s));
	t->y = t->b + bytes_of(b_of(s));
	vector = t->y + bytes_of(y_of(s));
	aux = vector + bytes_of_vector(s);
	t->workspace = aux + bytes_of_aux(s);
	if (has_aux(s) && gt_product_set_aux(t->product, aux, err))
		return err->code;
	return has_vector(s) ? gt_product_set_bias(t->product, vector, err) : 0;
}

static int queue_trial(void *self, int i, struct gt_stream *stream, struct gt_err *err)
{
	const struct trial *t = self;

	return queue_product(t->product, &t->candidates[i], stream->queue, t->y, t->a, t->b, t->y,
	    1, 0, t->workspace, err);
}

static void product_choice_key(char out[GT_CHOICE_KEY], const struct gt_product_shape *s)
{
	static const char *const ends[] = { [GT_PRODUCT_GELU] = ":gelu",
		[GT_PRODUCT_GELU_KEEP] = ":gelu-keep",
		[GT_PRODUCT_GELU_GRAD] = ":gelu-grad",
		[GT_PRODUCT_SUMS_A] = ":sums-a",
		[GT_PRODUCT_SUMS_B] = ":sums-b" };
	char rows[96] = "";

	if (s->a_stride || s->y_stride)
		snprintf(rows, sizeof(rows), ":%" PRId64 ",%" PRId64, s->a_stride, s->y_stride);
	else if (s->batch > 1)
		snprintf(rows, sizeof(rows), ":%" PRId64 "*%" PRId64 ",%" PRId64 ",%" PRId64,
		    s->batch, s->a_step, s->b_step, s->y_step);
	snprintf(out, GT_CHOICE_KEY, "%d:%s:%c%c:%" PRId64 "x%" PRId64 "x%" PRId64 "%s%s%s%s%s%s",
	    REVISION, rounds_to_tf32(s) ? "tf32" : gt_dtype_name(s->dtype), s->trans_a ? 't' : 'n',
	    s->trans_b ? 't' : 'n', s->m, s->n, s->k, s->bias ? ":bias" : "",
	    s->wide ? ":wide" : "", s->end ? ends[s->end] : "", rows, s->untimed ? ":untimed" : "",
	    s->no_workspace ? ":bare" : "");
}

static int choose_product(
    struct gt_product *p, const struct gt_lt_candidate *c, int count, struct gt_err *err)
{
	struct gt_choice choices[CANDIDATES];
	struct trial trial = { .product = p, .candidates = c, .count = count };
	struct gt_candidates candidates = { .what = "timing a product",
		.library = "cublaslt",
		.version = gt_lt->GetVersion(),
		.count = count,
		.choices = choices,
		.numbers = true,
		.untimed = p->shape.untimed,
		.prepare = prepare_trial,
		.place = place_trial,
		.queue = queue_trial,
		.self = &trial };
	char key[GT_CHOICE_KEY];
	int best, rc;

	_Static_assert(sizeof(choices[0]) == sizeof(c->algorithm), "a choice is an algorithm");
	for (int i = 0; i < count; i++)
		memcpy(&choices[i], &c[i].algorithm, sizeof(choices[i]));
	/* Everything that changes the candidates or their times is part of the key. */
	product_choice_key(key, &p->shape);
	candidates.key = key;
	rc = gt_fastest(&candidates, &best, err);
	if (!rc && best < 0)
		return set_unsupported(p, err);
	if (!rc)
		p->chosen = c[best];
	return rc;
}

static int make_whole(
    struct gt_product **out, const struct gt_product_shape *shape, struct gt_err *err)
{
	struct gt_lt_candidate candidates[CANDIDATES] = { 0 };
	struct gt_product *p = gt_calloc(1, sizeof(*p), err);
	int count = 0, rc;

	*out = NULL;
	if (!p)
		return GT_ENOMEM;
	p->shape = *shape;
	rc = gt_lt_open(&p->handle, err);
	if (!rc)
		rc = describe_product(p, err);
	if (!rc)
		rc = find_candidates(p, candidates, &count, err);
	if (!rc)
		rc = choose_product(p, candidates, count, err);
	if (rc)
		gt_product_free(p);
	else
		*out = p;
	return rc;
}

/* ---- divided products ---- */

static bool multiplies_on_tensor_cores(const struct gt_product_shape *s)
{
	return gt_dtype_size(s->dtype) == 2 || rounds_to_tf32(s);
}

static bool rows_begin_aligned(struct matrix m)
{
	return m.row * (int64_t)gt_dtype_size(m.dtype) % ACCESS == 0;
}

static bool rows_end_aligned(struct matrix m)
{
	return m.cols * (int64_t)gt_dtype_size(m.dtype) % ACCESS == 0;
}

/* The size that is ragged, if there is one and all rows begin aligned; else NULL. Rows of b have no
 * gaps, so they end as they begin. */
static int64_t *ragged_size(struct gt_product_shape *s)
{
	bool a = rows_end_aligned(a_of(s)), y = rows_end_aligned(y_of(s));

	if (!rows_begin_aligned(a_of(s)) || !rows_begin_aligned(b_of(s)) ||
	    !rows_begin_aligned(y_of(s)) || a == y)
		return NULL;
	if (a)
		return &s->n;
	return s->trans_a ? &s->m : &s->k;
}

/* Divide *main, and put the rest into *rest. Return false and leave *main if it stays whole. */
static bool divide_product(struct gt_product_shape *main, struct gt_product_shape *rest)
{
	int64_t *size = ragged_size(main), unit = ALIGNMENT / (int64_t)gt_dtype_size(main->dtype);

	if (!size || *size < unit || main->bias || main->end || main->batch > 1 ||
	    !multiplies_on_tensor_cores(main) ||
	    (double)main->m * (double)main->n * (double)main->k < GT_PRODUCT_DIVIDED)
		return false;
	*rest = *main;
	*ragged_size(rest) %= unit;
	*size -= *size % unit;
	return true;
}

/* Store in p where the data of the rest begin in a, b and y. In the divided dimension they begin
 * where the main part ends; the other two sizes of both parts are equal. */
static void place_rest(struct gt_product *p, const struct gt_product_shape *rest)
{
	const struct gt_product_shape *s = &p->shape;
	struct matrix b = b_of(s), y = y_of(s);
	size_t size = gt_dtype_size(s->dtype), y_size = gt_dtype_size(y.dtype);

	p->adds = s->k != rest->k;
	if (s->n != rest->n) {
		p->rest_b = (size_t)(s->n * b.row) * size;
		p->rest_y = (size_t)s->n * y_size;
	} else if (s->m != rest->m) {
		p->rest_a = (size_t)s->m * size;
		p->rest_y = (size_t)(s->m * y.row) * y_size;
	} else {
		p->rest_a = (size_t)s->k * size;
		p->rest_b = (size_t)(s->k * b.row) * size;
	}
}

/*
 * Prepare a product on the calling thread's current device. The caller frees *out with
 * gt_product_free().
 *
 * When a shape is used for the first time, this function times the algorithms that cuBLASLt
 * proposes, on its own stream and in its own device memory. The fastest algorithm is remembered
 * (choices.h). If there is not enough memory for timing, the first proposed algorithm is used. The
 * two parts of a divided product are timed and remembered one by one, as shapes of their own.
 *
 * Errors: GT_ENOMEM; GT_EDEVICE; GT_ENOTSUP if cuBLASLt has no algorithm for the product.
 */
int gt_product_new(
    struct gt_product **out, const struct gt_product_shape *shape, struct gt_err *err)
{
	struct gt_product_shape main = *shape, rest;
	bool divided = divide_product(&main, &rest);
	int rc = make_whole(out, &main, err);

	if (rc || !divided)
		return rc;
	rc = make_whole(&(*out)->rest, &rest, err);
	if (rc) {
		gt_product_free(*out);
		*out = NULL;
		return rc;
	}
	place_rest(*out, &rest);
	return 0;
}

/* Add the cost of `runs` runs to a call. call->launches grows by 2 for each run if p is divided,
 * otherwise by 1. more_bytes_read and more_bytes_written grow by the bytes that a divided product
 * moves in addition to a whole product: it reads a twice if n is divided, and b twice if m is
 * divided. If k is divided, it writes y twice and reads y once more. */
void gt_product_add_cost(const struct gt_product *p, int64_t runs, struct gt_call *call)
{
	const struct gt_product_shape *rest = p->rest ? &p->rest->shape : NULL;
	double size = (double)gt_dtype_size(p->shape.dtype), bytes;

	call->launches += (int)runs * (rest ? 2 : 1);
	if (!rest)
		return;
	if (p->adds) {
		bytes = (double)(rest->m * rest->n) * (double)gt_dtype_size(y_of(rest).dtype);
		call->more_bytes_written += (double)runs * bytes;
	} else if (p->shape.m != rest->m) {
		bytes = (double)(rest->k * rest->n) * size;
	} else {
		bytes = (double)(rest->m * rest->k) * size;
	}
	call->more_bytes_read += (double)runs * bytes;
}
