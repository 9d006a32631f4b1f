/* matmul.c - matrix products: oneDNN for float32 and bfloat16, plain loops for float64. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl.h"

/*
 * The rule for float32: with a bias and a not transposed, oneDNN's inner product, which adds the
 * bias while the result is still in registers; everything else, dnnl_sgemm. Both run the same
 * packing sgemm inside, which reaches the machine's rate on all shapes of GPTs, transposed operands
 * included; the matmul primitive falls to half of it on wide results and long sums (768 -> 3072
 * forward, the gradient of a 50257-row head), so it isn't used. In bfloat16 it is the only one that
 * takes all transpositions, and reaches several times the rate of float32 where the processor has
 * AMX.
 */

struct sizes {
	int64_t m, n, k;
};

static struct sizes matmul_sizes(const struct gt_call *call)
{
	const struct gt_tensor *a = &call->in[0], *b = &call->in[1];
	struct sizes s = { gt_tensor_rows(a), gt_tensor_last(b), gt_tensor_last(a) };

	if (call->attrs.matmul.trans_a) {
		s.m = gt_tensor_last(a);
		s.k = gt_tensor_rows(a);
	}
	if (call->attrs.matmul.trans_b)
		s.n = gt_tensor_rows(b);
	return s;
}

/* ---- oneDNN: inner product (float32 with bias), matmul (bfloat16) ---- */

static bool has_bias(const struct gt_call *call)
{
	return gt_optional_input(call, 2);
}

static bool is_linear(const struct gt_call *call)
{
	return has_bias(call) && !call->attrs.matmul.trans_a;
}

/* Both primitives: how they see the shapes and the formats of b and the bias, and their call. */
struct product_kind {
	bool b_by_rows;    /* b is [n, k], else [k, n] */
	bool bias_is_flat; /* the bias is [n], else [1, n] */
	dnnl_status_t (*create)(dnnl_primitive_desc_t *out, const struct gt_dnnl_product *p,
	    dnnl_engine_t engine, const_dnnl_primitive_attr_t attr);
};

static const struct product_kind product_linear = { true, true, gt_dnnl_inner_product };
static const struct product_kind product_matmul = { false, false, gt_dnnl_matmul };

static int describe_matrix(struct gt_call *call, int64_t rows, int64_t columns, bool transposed,
    gt_dnnl_md *out, struct gt_err *err)
{
	const struct gt_tensor t = {
		.dtype = call->in[0].dtype, .ndim = 2, .shape = { rows, columns }
	};

	return gt_dnnl_describe(call, &t, transposed ? dnnl_ba : dnnl_ab, out, err);
}

static int describe_bias(
    struct gt_call *call, const struct product_kind *kind, gt_dnnl_md *out, struct gt_err *err)
{
	const struct gt_tensor *bias = gt_optional_input(call, 2);

	*out = NULL;
	if (!bias)
		return 0;
	if (kind->bias_is_flat)
		return gt_dnnl_describe(call, bias, dnnl_a, out, err);
	return describe_matrix(call, 1, gt_tensor_last(bias), false, out, err);
}

static int describe_product(struct gt_call *call, const struct product_kind *kind,
    struct gt_dnnl_product *p, struct gt_err *err)
{
	struct sizes s = matmul_sizes(call);
	bool trans_a = call->attrs.matmul.trans_a, trans_b = call->attrs.matmul.trans_b;
	int rc;

	if ((rc = describe_matrix(call, s.m, s.k, trans_a, &p->a, err)) < 0)
		return rc;
	if (kind->b_by_rows)
		rc = describe_matrix(call, s.n, s.k, !trans_b, &p->b, err);
	else
		rc = describe_matrix(call, s.k, s.n, trans_b, &p->b, err);
	if (rc < 0)
		return rc;
	if ((rc = describe_bias(call, kind, &p->bias, err)) < 0)
		return rc;
	return describe_matrix(call, s.m, s.n, false, &p->y, err);
}

static int product_step(struct gt_call *call, const struct gt_dnnl_product *p,
    dnnl_primitive_desc_t desc, struct gt_err *err)
{
	const struct gt_dnnl_address a = { GT_DNNL_IN, 0 }, b = { GT_DNNL_IN, 1 },
	                             bias = { GT_DNNL_IN, 2 }, y = { GT_DNNL_OUT, 0 };
	struct gt_dnnl_step *step;
	int rc;

	if ((rc = gt_dnnl_step_add(call, desc, &step, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_arg(call, step, DNNL_ARG_SRC, p->a, a, err)) < 0)
		return rc;
	if ((rc = gt_dnnl_arg(call, step, DNNL_ARG_WEIGHTS, p->b, b, err)) < 0)
		return rc;
	if (p->bias && (rc = gt_dnnl_arg(call, step, DNNL_ARG_BIAS, p->bias, bias, err)) < 0)
		return rc;
	return gt_dnnl_arg(call, step, DNNL_ARG_DST, p->y, y, err);
}

static int product_prepare(
    struct gt_call *call, const struct product_kind *kind, struct gt_err *err)
{
	struct gt_dnnl_product p;
	dnnl_primitive_attr_t attr = NULL;
	dnnl_primitive_desc_t desc = NULL;
	struct gt_dnnl *dnnl;
	int rc;

	if ((rc = gt_dnnl_new(call, "matmul", err)) < 0)
		return rc;
	dnnl = call->state;
	if ((rc = describe_product(call, kind, &p, err)) < 0)
		goto out;
	if ((rc = gt_dnnl_attr(call, "matmul", &attr, err)) < 0)
		goto out;
	rc = gt_dnnl_check(
	    kind->create(&desc, &p, dnnl->engine, attr), call, "matmul", "do this product", err);
	if (rc == 0)
		rc = product_step(call, &p, desc, err);
out:
	gt_dnnl_api->primitive_desc_destroy(desc);
	gt_dnnl_api->primitive_attr_destroy(attr);
	if (rc < 0)
		gt_dnnl_release(call);
	return rc;
}

static int linear_prepare(struct gt_call *call, struct gt_err *err)
{
	return product_prepare(call, &product_linear, err);
}

static int matmul_prepare(struct gt_call *call, struct gt_err *err)
{
	return product_prepare(call, &product_matmul, err);
}

/* ---- float32: sgemm ---- */

static int sgemm_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)call;
	return gt_dnnl_api_load(err);
}

static int64_t stride_of_a(const struct gt_cpu_product *p)
{
	return p->a_stride ? p->a_stride : p->trans_a ? p->m : p->k;
}

static int multiply_f32(const struct gt_cpu_product *p, float *y, const float *a, const float *b,
    const struct gt_call *call, struct gt_err *err)
{
	dnnl_status_t status = gt_dnnl_api->sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N',
	    p->m, p->n, p->k, 1.0f, a, stride_of_a(p), b, p->trans_b ? p->k : p->n,
	    p->add ? 1.0f : 0.0f, y, p->y_stride ? p->y_stride : p->n);

	return gt_dnnl_check(status, call, call->kernel->op, "run sgemm", err);
}

/* ---- float64 ---- */

enum {
	K_BLOCK = 64,      /* rows of b that stay in the cache while rows of y pass by */
	FORK_MIN = 1 << 17 /* products that are worth a second thread */
};

/* y[i, :] += sum over k of a[i, k] b[k, :] */
static void rows_f64(double *y, const double *a, int64_t a_row, int64_t a_col, const double *b,
    const struct sizes *s)
{
	for (int64_t k0 = 0; k0 < s->k; k0 += K_BLOCK) {
		int64_t k1 = k0 + K_BLOCK < s->k ? k0 + K_BLOCK : s->k;

#pragma omp parallel for schedule(static) if (s->m * s->n * (k1 - k0) >= FORK_MIN)
		for (int64_t i = 0; i < s->m; i++)
			for (int64_t k = k0; k < k1; k++) {
				double f = a[i * a_row + k * a_col];

				for (int64_t j = 0; j < s->n; j++)
					y[i * s->n + j] += f * b[k * s->n + j];
			}
	}
}

/* y[i, j] += sum over k of a[i, k] b[j, k] */
static void dots_f64(double *y, const double *a, int64_t a_row, int64_t a_col, const double *b,
    const struct sizes *s)
{
#pragma omp parallel for schedule(static) if (s->m * s->n * s->k >= FORK_MIN)
	for (int64_t i = 0; i < s->m; i++)
		for (int64_t j = 0; j < s->n; j++) {
			double sum = 0;

#pragma omp simd reduction(+ : sum)
			for (int64_t k = 0; k < s->k; k++)
				sum += a[i * a_row + k * a_col] * b[j * s->k + k];
			y[i * s->n + j] += sum;
		}
}

static void multiply_f64(
    const struct gt_cpu_product *p, double *y, const double *a, const double *b)
{
	const struct sizes s = { p->m, p->n, p->k };
	int64_t stride = stride_of_a(p), row = p->trans_a ? 1 : stride;
	int64_t col = p->trans_a ? stride : 1;

	if (!p->add)
		memset(y, 0, (size_t)(s.m * s.n) * sizeof(*y));
	if (p->trans_b)
		dots_f64(y, a, row, col, b, &s);
	else
		rows_f64(y, a, row, col, b, &s);
}

/* ---- both ---- */

int gt_cpu_multiply(const struct gt_cpu_product *p, void *y, const void *a, const void *b,
    const struct gt_call *call, struct gt_err *err)
{
	if (p->dtype == GT_F32)
		return multiply_f32(p, y, a, b, call, err);
	multiply_f64(p, y, a, b);
	return 0;
}

static int multiply_run(struct gt_call *call, struct gt_err *err)
{
	struct sizes s = matmul_sizes(call);
	const struct gt_cpu_product p = { call->out[0].dtype, call->attrs.matmul.trans_a,
		call->attrs.matmul.trans_b, has_bias(call), s.m, s.n, s.k, 0, 0 };
	size_t bytes = (size_t)s.n * gt_dtype_size(p.dtype);
	char *y = call->out[0].data;

	if (has_bias(call))
		for (int64_t i = 0; i < s.m; i++)
			memcpy(y + (size_t)i * bytes, call->in[2].data, bytes);
	return gt_cpu_multiply(&p, y, call->in[0].data, call->in[1].data, call, err);
}

const struct gt_kernel gt_cpu_matmul_kernels[] = {
	{ "matmul", GT_F32, is_linear, linear_prepare, gt_dnnl_bind, gt_dnnl_run, gt_dnnl_release },
	{ "matmul", GT_F32, .prepare = sgemm_prepare, .run = multiply_run },
	{ "matmul", GT_BF16, gt_dnnl_accepts_bf16, matmul_prepare, gt_dnnl_bind, gt_dnnl_run,
	    gt_dnnl_release },
	{ "matmul", GT_F64, .run = multiply_run },
	{ 0 },
};
