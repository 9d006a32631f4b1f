/* low_rank.c - approximate a matrix by the product of two thin ones. */
#include "lib/train/checkpoint/low_rank.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/normals.h"
#include "lib/base/thread_pool.h"

enum {
	MORE = 10,   /* vectors beside those that are wanted, so that few iterations suffice */
	ROUNDS = 16, /* at most so many iterations */
	SWEEPS = 40, /* of the Jacobi method, which takes about 8 */
	BLOCK = 64,  /* rows or columns of the matrix in a task */
	LANES = 8    /* partial sums of a scalar product */
};

/* ---- products of the matrix and thin ones ---- */

/* out[rows, width] = matrix in[columns, width], or with the matrix transposed, out[columns, width]
 * = matrix^T in[rows, width]. */
struct product {
	const float *matrix;
	int64_t rows, columns, width;
	const double *in;
	double *out;
	bool transposed;
};

static void add_scaled(double *out, double factor, const double *in, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		out[i] += factor * in[i];
}

/* Compute a block of rows of the product. */
static int multiply_block(void *self, size_t task, struct gt_err *err)
{
	const struct product *p = self;
	const int64_t l = p->width, first = (int64_t)task * BLOCK;
	const int64_t all = p->transposed ? p->columns : p->rows;
	const int64_t end = first + BLOCK < all ? first + BLOCK : all;

	(void)err;
	memset(p->out + first * l, 0, (size_t)((end - first) * l) * sizeof(*p->out));
	if (!p->transposed)
		for (int64_t i = first; i < end; i++)
			for (int64_t j = 0; j < p->columns; j++)
				add_scaled(p->out + i * l, (double)p->matrix[i * p->columns + j],
				    p->in + j * l, l);
	else
		for (int64_t i = 0; i < p->rows; i++)
			for (int64_t j = first; j < end; j++)
				add_scaled(p->out + j * l, (double)p->matrix[i * p->columns + j],
				    p->in + i * l, l);
	return 0;
}

static int multiply(
    struct product p, bool transposed, const double *in, double *out, struct gt_err *err)
{
	const int64_t all = transposed ? p.columns : p.rows;

	p.transposed = transposed;
	p.in = in;
	p.out = out;
	return gt_thread_pool_run(0, (size_t)((all + BLOCK - 1) / BLOCK), multiply_block, &p, err);
}

/* ---- vectors ---- */

/* Sums by lanes, which compilers make vector instructions of. */
static double dot(const double *x, const double *y, int64_t n)
{
	double lanes[LANES] = { 0 }, sum = 0;
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++)
			lanes[k] += x[i + k] * y[i + k];
	for (; i < n; i++)
		sum += x[i] * y[i];
	for (int k = 0; k < LANES; k++)
		sum += lanes[k];
	return sum;
}

static void scale(double *x, double factor, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] *= factor;
}

static void transpose(double *out, const double *in, int64_t rows, int64_t columns)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			out[j * rows + i] = in[i * columns + j];
}

/*
 * Make the columns of x [n, l] orthonormal, by Gram and Schmidt's method, twice. A column that
 * depends on those before it, but for rounding, becomes zero. `work` has the size of x; it receives
 * the columns as rows.
 */
static void orthonormalise(double *x, double *work, int64_t n, int64_t l)
{
	transpose(work, x, n, l);
	for (int64_t c = 0; c < l; c++) {
		double *v = work + c * n;
		const double before = sqrt(dot(v, v, n));
		double after;

		for (int twice = 0; twice < 2; twice++)
			for (int64_t b = 0; b < c; b++)
				add_scaled(v, -dot(v, work + b * n, n), work + b * n, n);
		after = sqrt(dot(v, v, n));
		scale(v, after > 1e-13 * before ? 1 / after : 0, n);
	}
	transpose(x, work, l, n);
}

/* ---- the singular values of a small matrix ---- */

/* Rotate two columns so that they are orthogonal, and the columns of v with them. Return whether
 * they were not. */
static bool rotate(double *x, double *y, double *v, double *w, int64_t l)
{
	const double xx = dot(x, x, l), yy = dot(y, y, l), xy = dot(x, y, l);
	double zeta, t, c, s;

	if (!(fabs(xy) > 1e-14 * sqrt(xx) * sqrt(yy)))
		return false;
	zeta = (yy - xx) / (2 * xy);
	t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + hypot(1, zeta));
	c = 1 / hypot(1, t);
	s = c * t;
	for (int64_t i = 0; i < l; i++) {
		const double a = x[i], b = v[i];

		x[i] = c * a - s * y[i];
		y[i] = s * a + c * y[i];
		v[i] = c * b - s * w[i];
		w[i] = s * b + c * w[i];
	}
	return true;
}

/* Find V such that the columns of X V are orthogonal. Both are [l, l], with columns as rows; x
 * becomes X V, and v becomes V. */
static void diagonalise(double *x, double *v, int64_t l)
{
	bool rotated = true;

	for (int64_t i = 0; i < l * l; i++)
		v[i] = i % (l + 1) == 0;
	for (int sweep = 0; rotated && sweep < SWEEPS; sweep++) {
		rotated = false;
		for (int64_t a = 0; a < l; a++)
			for (int64_t b = a + 1; b < l; b++)
				rotated |= rotate(x + a * l, x + b * l, v + a * l, v + b * l, l);
	}
}

/* ---- the approximation ---- */

/* Arrays of the work. A [rows, l] and a [columns, l] matrix, each with as much to work in, and
 * small ones. */
struct work {
	double *q, *q_work, *z, *z_work, *p, *x, *v;
};

static int make_work(struct work *w, int64_t rows, int64_t columns, int64_t l, struct gt_err *err)
{
	const size_t m = (size_t)(rows * l), n = (size_t)(columns * l), small = (size_t)(l * l);

	w->q = gt_calloc(2 * m + 3 * n + 2 * small, sizeof(*w->q), err);
	if (!w->q)
		return GT_ENOMEM;
	w->q_work = w->q + m;
	w->z = w->q_work + m;
	w->z_work = w->z + n;
	w->p = w->z_work + n;
	w->x = w->p + n;
	w->v = w->x + small;
	return 0;
}

static int draw(double *out, int64_t count, struct gt_err *err)
{
	const struct gt_philox_draw from = { 0 };
	float *normals = gt_calloc((size_t)count, sizeof(*normals), err);

	if (!normals)
		return GT_ENOMEM;
	gt_draw_normals(&from, count, normals);
	for (int64_t i = 0; i < count; i++)
		out[i] = (double)normals[i];
	free(normals);
	return 0;
}

/* Find orthonormal vectors q [rows, l] for which z = matrix^T q is as large as it gets: iterate
 * until its norm hardly grows. */
static int find_subspace(struct work *w, const struct product *p, struct gt_err *err)
{
	const int64_t l = p->width;
	double size = 0, last;
	int rc = draw(w->z, p->columns * l, err);

	for (int round = 0; !rc; round++) {
		rc = multiply(*p, false, w->z, w->q, err);
		if (rc)
			break;
		orthonormalise(w->q, w->q_work, p->rows, l);
		rc = multiply(*p, true, w->q, w->z, err);
		last = size;
		size = dot(w->z, w->z, p->columns * l);
		if (rc || (round && size - last <= 1e-6 * size) || round + 1 == ROUNDS)
			break;
		orthonormalise(w->z, w->z_work, p->columns, l);
	}
	return rc;
}

/* Return the index of the largest value. */
static int64_t find_largest(const double *values, int64_t l)
{
	int64_t best = 0;

	for (int64_t i = 1; i < l; i++)
		if (values[i] > values[best])
			best = i;
	return best;
}

/*
 * With z = P X, where P has orthonormal columns and X is [l, l], the matrix is near q z^T = q X^T
 * P^T. The columns of X V are orthogonal, of lengths s, so X^T = V (X V)^T, and
 *
 *   q X^T P^T = sum over k of (q V_k) (P (X V)_k)^T,    the product of a vector of length 1 and
 *                                                       one of length s_k.
 */
static void write_factors(float *left, float *right, double *kept, const struct work *w,
    const struct product *p, int64_t rank)
{
	const int64_t l = p->width, count = rank < l ? rank : l;
	double *sizes = w->q_work; /* [l] */

	*kept = 0;
	for (int64_t k = 0; k < l; k++)
		sizes[k] = sqrt(dot(w->x + k * l, w->x + k * l, l));
	for (int64_t k = 0; k < count; k++) {
		const int64_t best = find_largest(sizes, l);
		const double s = sizes[best], root = sqrt(s);

		*kept += s * s;
		sizes[best] = -1;
		for (int64_t i = 0; s > 0 && i < p->rows; i++)
			left[i * rank + k] = (float)(root * dot(w->q + i * l, w->v + best * l, l));
		for (int64_t j = 0; s > 0 && j < p->columns; j++)
			right[k * p->columns + j] =
			    (float)(dot(w->p + j * l, w->x + best * l, l) / root);
	}
}

/* Compute X = P^T z, with its columns as rows. */
static void project(double *x, const double *p, const double *z, int64_t columns, int64_t l)
{
	memset(x, 0, (size_t)(l * l) * sizeof(*x));
	for (int64_t j = 0; j < columns; j++)
		for (int64_t c = 0; c < l; c++)
			add_scaled(x + c * l, z[j * l + c], p + j * l, l);
}

int gt_low_rank(float *left, float *right, double *kept, const float *matrix, int64_t rows,
    int64_t columns, int64_t rank, struct gt_err *err)
{
	const int64_t least = rows < columns ? rows : columns;
	const int64_t l = rank + MORE < least ? rank + MORE : least;
	const struct product p = { .matrix = matrix, .rows = rows, .columns = columns, .width = l };
	struct work w = { 0 };
	int rc;

	*kept = 0;
	memset(left, 0, (size_t)(rows * rank) * sizeof(*left));
	memset(right, 0, (size_t)(rank * columns) * sizeof(*right));
	if (!l)
		return 0;
	rc = make_work(&w, rows, columns, l, err);
	if (!rc)
		rc = find_subspace(&w, &p, err);
	if (!rc) {
		memcpy(w.p, w.z, (size_t)(columns * l) * sizeof(*w.p));
		orthonormalise(w.p, w.z_work, columns, l);
		project(w.x, w.p, w.z, columns, l);
		diagonalise(w.x, w.v, l);
		write_factors(left, right, kept, &w, &p, rank);
	}
	free(w.q);
	return rc;
}
