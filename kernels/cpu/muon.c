/* muon.c - the update of Muon: momentum, made orthogonal by Newton-Schulz iterations. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl_api.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"

/* A row-major matrix [rows, cols] in the workspace, and its products. */
struct iteration {
	int64_t rows, cols, side; /* side: the smaller of the two */
	float *x, *next;          /* [rows, cols] */
	float *gram, *poly;       /* [side, side] */
};

/* buf = buf + (1 - momentum) (g - buf), and x the same step once more from there to g (Nesterov):
 * torch's lerp. */
static void advance(
    float *x, float *buf, const float *g, int64_t count, float momentum, float factor)
{
	float fresh = 1.0f - momentum;

#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++) {
		float d = g[i] * factor;
		float b = buf[i] + fresh * (d - buf[i]);

		buf[i] = b;
		x[i] = b + fresh * (d - b);
	}
}

/* x / max(its Frobenius norm, eps) */
static int normalize(struct gt_stream *stream, float *x, int64_t count, struct gt_err *err)
{
	struct gt_step_scalars sum = { 0 };
	int rc = GT_ISA(gt_cpu_steps).squares(stream, x, count, &sum, err);
	float scale;

	scale = (float)(1 / fmax(sqrt(sum.result.squares[0]), gt_muon_eps));
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		x[i] *= scale;
	return rc;
}

static int check_sgemm_status(dnnl_status_t status, const struct iteration *s, struct gt_err *err)
{
	if (status == dnnl_success)
		return 0;
	return gt_err_set(err, GT_EDEVICE, "muon: oneDNN's sgemm fails on a matrix of %lld x %lld",
	    (long long)s->rows, (long long)s->cols);
}

/* With A = X X^T, or X^T X where that is smaller: X becomes a X + (b A + c A A) X, or the same with
 * the polynomial on the right, as if X were transposed. */
static int iterate(struct iteration *s, struct gt_err *err)
{
	const double *k = gt_muon_coefficients;
	int64_t n = s->side, rows = s->rows, cols = s->cols;
	bool tall = rows > cols;
	float *x = s->x;
	int rc;

	rc = check_sgemm_status(gt_dnnl_api->sgemm(tall ? 'T' : 'N', tall ? 'N' : 'T', n, n,
	                            tall ? rows : cols, 1.0f, x, cols, x, cols, 0.0f, s->gram, n),
	    s, err);
	memcpy(s->poly, s->gram, (size_t)(n * n) * sizeof(float));
	memcpy(s->next, x, (size_t)(rows * cols) * sizeof(float));
	if (!rc)
		rc = check_sgemm_status(gt_dnnl_api->sgemm('N', 'N', n, n, n, (float)k[2], s->gram,
		                            n, s->gram, n, (float)k[1], s->poly, n),
		    s, err);
	if (!rc)
		rc = check_sgemm_status(
		    gt_dnnl_api->sgemm('N', 'N', rows, cols, n, 1.0f, tall ? x : s->poly, n,
		        tall ? s->poly : x, cols, (float)k[0], s->next, cols),
		    s, err);
	s->x = s->next;
	s->next = x;
	return rc;
}

static void take_step(float *p, const float *x, int64_t count, const struct gt_update_options *o,
    const struct gt_step_scalars *s)
{
	float lr = s->block.lr * o->lr_scale;
	float shrink = 1.0f - lr * o->weight_decay, step = lr * o->step_scale;

#pragma omp parallel for schedule(static) if (count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i += GT_GRAIN) {
		int64_t end = gt_min(i + GT_GRAIN, count);

#pragma omp simd
		for (int64_t k = i; k < end; k++)
			p[k] = p[k] * shrink - step * x[k];
		gt_write_copy(p + i, i, end - i, o);
	}
}

/* The result is in the second matrix of the workspace, as the number of iterations is odd. */
_Static_assert(GT_MUON_STEPS % 2, "each iteration swaps the two matrices");

static int orthogonalize(struct gt_stream *stream, const struct gt_update *u, struct gt_err *err)
{
	int64_t count = u->rows * u->cols, side = gt_min(u->rows, u->cols);
	struct iteration it = { .rows = u->rows,
		.cols = u->cols,
		.side = side,
		.x = u->work,
		.next = u->work + count,
		.gram = u->work + 2 * count,
		.poly = u->work + 2 * count + side * side };
	int rc = normalize(stream, it.x, count, err);

	for (int i = 0; !rc && i < GT_MUON_STEPS; i++)
		rc = iterate(&it, err);
	return rc;
}

/* There is no prepare(): oneDNN's sgemm needs none. */
static int update_muon(struct gt_stream *stream, const struct gt_update *u,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	const struct gt_update_range *r = u->ranges;
	bool whole = u->phase == GT_UPDATE_WHOLE;
	int64_t all = u->rows * u->cols, count = whole ? all : r->count;
	int rc = gt_dnnl_api_load(err);

	if (rc || s->result.skip)
		return rc;
	if (whole || u->phase == GT_UPDATE_AVERAGE)
		advance(u->work, r->states[0], r->g, count, r->o->momentum, s->result.grad_factor);
	if (whole || u->phase == GT_UPDATE_ORTHOGONALIZE)
		rc = orthogonalize(stream, u, err);
	if (!rc && (whole || u->phase == GT_UPDATE_STEP))
		take_step(r->p, u->work + (whole ? all : 0), count, r->o, s);
	return rc;
}

const struct gt_update_kernel GT_ISA(gt_cpu_muon) = { .run = update_muon };
