/* muon_products.c - the products of Muon by cuBLASLt, for matrices that are large enough. */
#include "kernels/cuda/optim/muon.h"

#include <stdlib.h>

#include "kernels/cuda/library/product.h"
#include "lib/base/mem.h"

/* From this side on; smaller matrices are multiplied by muon.cu. ALIGNED: elements in 32 bytes. */
enum { LEAST_SIDE = 128, ALIGNED = 8 };

struct gt_muon_cache {
	int64_t rows, cols;
	struct gt_product *gram, *poly, *next; /* in the order in which they run */
	struct gt_muon_cache *more;            /* the products for other shapes */
};

static void free_one(struct gt_muon_cache *m)
{
	gt_product_free(m->next);
	gt_product_free(m->poly);
	gt_product_free(m->gram);
	free(m);
}

void gt_muon_products_free(struct gt_muon_cache *cache)
{
	while (cache) {
		struct gt_muon_cache *m = cache;

		cache = m->more;
		free_one(m);
	}
}

const struct gt_muon_cache *gt_muon_products_find(
    const struct gt_muon_cache *cache, int64_t rows, int64_t cols)
{
	while (cache && (cache->rows != rows || cache->cols != cols))
		cache = cache->more;
	return cache;
}

/* The work of an update holds two matrices of this shape and two squares, one behind the other. */
static bool takes(int64_t rows, int64_t cols)
{
	int64_t side = rows < cols ? rows : cols;

	return side >= LEAST_SIDE && rows * cols % ALIGNED == 0 && side * side % ALIGNED == 0;
}

static int make_next_product(struct gt_muon_cache *m, struct gt_err *err)
{
	bool tall = m->rows > m->cols;
	int64_t side = tall ? m->cols : m->rows;
	struct gt_product_shape s = { .dtype = GT_F32, .untimed = true, .no_workspace = true };

	s.m = s.n = side;
	s.k = tall ? m->rows : m->cols;
	s.trans_a = tall;
	s.trans_b = !tall;
	if (gt_product_new(&m->gram, &s, err))
		return err->code;
	s.k = side;
	s.trans_a = s.trans_b = false;
	if (gt_product_new(&m->poly, &s, err))
		return err->code;
	s.m = m->rows;
	s.n = m->cols;
	return gt_product_new(&m->next, &s, err);
}

int gt_muon_products_add(
    struct gt_muon_cache **cache, int64_t rows, int64_t cols, struct gt_err *err)
{
	struct gt_muon_cache *m;

	if (!takes(rows, cols) || gt_muon_products_find(*cache, rows, cols))
		return 0;
	m = gt_calloc(1, sizeof(*m), err);
	if (!m)
		return GT_ENOMEM;
	m->rows = rows;
	m->cols = cols;
	if (make_next_product(m, err)) {
		free_one(m);
		return gt_err_prefix(err, "muon");
	}
	m->more = *cache;
	*cache = m;
	return 0;
}

int gt_muon_products_run(const struct gt_muon_cache *m, struct gt_stream *stream, float *next,
    const float *x, float *gram, float *poly, struct gt_err *err)
{
	const double *k = gt_muon_coefficients;
	bool tall = m->rows > m->cols;
	int rc = gt_product_run(m->gram, stream, gram, x, x, NULL, 1, 0, NULL, err);

	if (!rc)
		rc = gt_product_run(m->poly, stream, poly, gram, gram, gram, k[2], k[1], NULL, err);
	return rc ? rc
	          : gt_product_run(m->next, stream, next, tall ? x : poly, tall ? poly : x, x, 1,
	                k[0], NULL, err);
}
