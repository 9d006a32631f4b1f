/* nccl_sums.cc - outputs of a simulated NCCL: sums in the order of a ring, and copies. */
#include "tests/cudasim/lib/nccl_ranks.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "lib/base/half.h"

size_t nccl_size_of(int dtype)
{
	switch (dtype) {
	case GT_NCCL_U8:
		return 1;
	case GT_NCCL_F16:
	case GT_NCCL_BF16:
		return 2;
	case GT_NCCL_I32:
	case GT_NCCL_F32:
		return 4;
	default:
		return 8;
	}
}

/* ---- arithmetic ---- */

struct real {
	double x;
	int64_t i;
};

static real load(const char *p, int dtype)
{
	real r = {};
	uint16_t half;
	float x;
	int32_t i;

	if (dtype == GT_NCCL_F64) {
		memcpy(&r.x, p, 8);
	} else if (dtype == GT_NCCL_F32) {
		memcpy(&x, p, 4);
		r.x = x;
	} else if (dtype == GT_NCCL_I32) {
		memcpy(&i, p, 4);
		r.i = i;
	} else if (dtype == GT_NCCL_I64) {
		memcpy(&r.i, p, 8);
	} else {
		memcpy(&half, p, 2);
		r.x = dtype == GT_NCCL_F16 ? gt_float_of_f16(half) : gt_float_of_bf16(half);
	}
	return r;
}

static void store(char *p, int dtype, real r)
{
	float x = (float)r.x;
	int32_t i = (int32_t)r.i;
	uint16_t half;

	if (dtype == GT_NCCL_F64) {
		memcpy(p, &r.x, 8);
	} else if (dtype == GT_NCCL_F32) {
		memcpy(p, &x, 4);
	} else if (dtype == GT_NCCL_I32) {
		memcpy(p, &i, 4);
	} else if (dtype == GT_NCCL_I64) {
		memcpy(p, &r.i, 8);
	} else {
		half = dtype == GT_NCCL_F16 ? gt_f16_of_float(x) : gt_bf16_of_float(x);
		memcpy(p, &half, 2);
	}
}

static real rounded(real r, int dtype)
{
	char bytes[8];

	store(bytes, dtype, r);
	return load(bytes, dtype);
}

static real combine(real a, real b, int reduction)
{
	if (reduction == GT_NCCL_MAX)
		return { fmax(a.x, b.x), a.i > b.i ? a.i : b.i };
	return { a.x + b.x, (int64_t)((uint64_t)a.i + (uint64_t)b.i) };
}

/* ---- the work ---- */

/* An element of all ranks, in the order in which the sum goes round from rank `first` on. */
static real reduce(const std::vector<const char *> &ranks, const call &c, size_t first)
{
	size_t n = ranks.size();
	real sum = {};

	for (size_t k = 0; k < n; k++) {
		real x = load(ranks[(first + k) % n], c.dtype);

		if (c.reduction == GT_NCCL_AVG)
			x.x = rounded({ x.x / (double)n, 0 }, c.dtype).x;
		sum = k ? rounded(combine(sum, x, c.reduction), c.dtype) : x;
	}
	if (c.reduction == GT_NCCL_AVG)
		sum.i /= (int64_t)n;
	return sum;
}

static void take_sums(const member &m, const call &c)
{
	size_t n = m.size, size = nccl_size_of(c.dtype), bytes = c.count * size;
	size_t from = c.kind == REDUCE_SCATTER ? (size_t)m.rank * c.count : 0;
	size_t all = c.kind == REDUCE_SCATTER ? n * c.count : c.count;
	std::vector<char> in(n * bytes);
	std::vector<const char *> element(n);

	for (size_t r = 0; r < n; r++)
		nccl_read(m, c, (int)r, from * size, &in[r * bytes], bytes);
	for (size_t i = 0; i < c.count; i++) {
		for (size_t r = 0; r < n; r++)
			element[r] = &in[r * bytes + i * size];
		store((char *)c.out + i * size, c.dtype,
		    reduce(element, c, ((from + i) * n / all + 1) % n));
	}
}

void nccl_take(const member &m, const call &c)
{
	size_t bytes = c.count * nccl_size_of(c.dtype);

	if (c.kind == ALL_REDUCE || c.kind == REDUCE_SCATTER ||
	    (c.kind == REDUCE && c.peer == m.rank))
		take_sums(m, c);
	if (c.kind == BROADCAST || c.kind == RECEIVE)
		nccl_read(m, c, c.peer, 0, c.out, bytes);
	for (int r = 0; c.kind == ALL_GATHER && r < (int)m.size; r++)
		nccl_read(m, c, r, 0, (char *)c.out + (size_t)r * bytes, bytes);
}
