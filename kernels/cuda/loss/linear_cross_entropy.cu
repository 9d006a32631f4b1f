/* linear_cross_entropy.cu - a head and its loss: products, softmax and gradients by chunks. */
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "kernels/cuda/library/fastest.h"
#include "kernels/cuda/library/product.h"
#include "kernels/cuda/loss/exp_logits.cuh"
#include "kernels/cuda/loss/loss.cuh"

extern "C" {
#include "lib/base/mem.h"
}

/*
 * A chunk of rows is one buffer in the workspace: a product makes logits there, a kernel puts their
 * gradients in place of them, and two products multiply these on. Rows begin at multiples of 8
 * elements, so that products and the kernel access 16 bytes at a time whatever the vocabulary. The
 * kernel and the products skip the elements between the end of a row and the next. If a row does
 * not end at such a multiple, large products are divided (product.h).
 *
 * The gradient by w is the sum of the chunks' products, in float32 (float64 for that type): each
 * chunk but the first reads and writes all of it. Both products by w read all of w. So chunks are
 * much larger than the L2 cache. In bfloat16, 16384 rows of gpt2 are 2 chunks of at most a GiB,
 * which move 9.1 GB; 7 of 256 MiB would move 11.4 GB. Of 32 MiB, which stay in the cache, there
 * would be 52, and they would move 24 GB of weights and their gradients to save the 8.2 GB of the
 * logits. Chunks are of the same size again in each step, so a plan can be replayed.
 *
 * In bfloat16 with gradients there is a second way, which passes over the logits once less each
 * way: own kernels write their exponentials at once (exp_logits.cuh). Their product takes longer
 * than a library's, and less time passes in memory, so both ways are timed once for a shape.
 */
enum { PACK = GT_TEAM_PACK };

/* For one row: its term of the loss, and its gradients in place of its logits. */
template <class T> struct linear_cross_entropy_f {
	typedef typename gt_wide<T>::type wide;
	typedef typename gt_map_buffer<T, true, true>::template lanes<PACK> pack;
	T *logits;
	double *of_row; /* [all rows] */
	gt_targets target;
	const wide *weight, *dloss; /* dloss: nullptr without gradients */
	int64_t classes, stride, first;

	/* All of the row's packs that this thread has, with -infinity past the end. */
	template <class TEAM, class F> __device__ __forceinline__ void each(T *x, F f) const
	{
		for (int64_t i = (int64_t)TEAM::lane() * PACK; i < classes;
		     i += (int64_t)TEAM::SIZE * PACK) {
			pack v = { x, {} };

			v.load(i);
			for (int k = 0; k < PACK; k++)
				if (i + k >= classes)
					v.v[k] = -(wide)INFINITY;
			f(v, i);
		}
	}

	/* 0, or NaN, for each class. */
	template <class TEAM> __device__ __forceinline__ void fill(T *x, wide value) const
	{
		each<TEAM>(x, [&](pack &v, int64_t i) {
			for (int k = 0; k < PACK; k++)
				v.v[k] = value;
			v.store(i);
		});
	}

	template <class TEAM> __device__ __forceinline__ void counts(T *x, int64_t r) const
	{
		int64_t t = target.of_row[r];
		gt_lse<wide> lse;
		wide all, scale, own = 0;
		bool here = false;

		each<TEAM>(x, [&](pack &v, int64_t i) {
			lse.take(v.v);
			if (t < i || t >= i + PACK)
				return;
			here = true;
			for (int k = 0; k < PACK; k++)
				own = i + k == t ? v.v[k] : own;
		});
		all = lse.template of_team<TEAM>();
		if (here)
			of_row[r] = (double)all - (double)own;
		if (!dloss)
			return;
		scale = *dloss * *weight;
		each<TEAM>(x, [&](pack &v, int64_t i) {
			for (int k = 0; k < PACK; k++) {
				v.v[k] = scale * gt_exp(v.v[k] - all);
				if (i + k == t)
					v.v[k] -= scale;
			}
			v.store(i);
		});
	}

	template <class TEAM, bool PACKED> __device__ void row(int64_t local) const
	{
		T *x = logits + local * stride;
		int64_t r = first + local;
		gt_target kind = target.kind(r);

		if (kind == GT_TARGET_COUNTS) {
			counts<TEAM>(x, r);
			return;
		}
		if (TEAM::lane() == 0)
			of_row[r] = kind == GT_TARGET_BAD ? NAN : 0;
		if (dloss)
			fill<TEAM>(x, kind == GT_TARGET_BAD ? (wide)NAN : 0);
	}
};

template <class W> struct linear_cross_entropy_sum : gt_loss_sum<W> {
	const double *of_row;

	__device__ void add(double *sums, int64_t r) const
	{
		sums[0] += of_row[r];
	}
};

/* ---- plans ---- */

/* Products of a chunk's rows. */
struct chunk {
	int64_t rows;
	struct gt_product *logits, *by_x, *by_w; /* without gradients the last two are NULL */
};

struct head {
	int64_t rows, width, classes, stride;
	struct chunk full, rest; /* rest: of the rows that are left, or none */
	bool exps;               /* exponentials take the place of logits */
	/* Bytes into the workspace, behind the logits; the second and third with exponentials. */
	size_t of_row_at, xs_at, numbers_at, work_at;
};

static void release_chunk(struct chunk *c)
{
	gt_product_free(c->logits);
	gt_product_free(c->by_x);
	gt_product_free(c->by_w);
}

static void release_head(struct gt_call *call)
{
	struct head *h = (struct head *)call->state;

	if (h) {
		release_chunk(&h->full);
		release_chunk(&h->rest);
	}
	free(h);
	call->state = nullptr;
}

/*
 * The three products of a chunk, of x [rows, width], w [classes, width] and d, the gradient in
 * place of the logits, whose rows are `stride` apart:
 *
 *   logits   [rows, classes] = x w^T
 *   by_x     dx [rows, width] = d w
 *   by_w     dw [classes, width] += d^T x     over chunks, so in the wide type
 */
static int make_chunk(struct chunk *c, const struct head *h, const struct gt_call *call,
    int64_t rows, struct gt_err *err)
{
	struct gt_product_shape s = {};

	c->rows = rows;
	s.dtype = call->in[0].dtype;
	s.untimed = call->untimed;
	s.tf32 = call->attrs.head.tf32;
	s.trans_b = true;
	s.m = rows;
	s.n = h->classes;
	s.k = h->width;
	s.y_stride = h->stride;
	if (gt_product_new(&c->logits, &s, err))
		return err->code;
	if (!gt_optional_input(call, 4))
		return 0;
	s.trans_b = false;
	s.n = h->width;
	s.k = h->classes;
	s.y_stride = 0;
	s.a_stride = h->stride;
	if (gt_product_new(&c->by_x, &s, err))
		return err->code;
	s.trans_a = true;
	s.wide = gt_dtype_wide(s.dtype) != s.dtype;
	s.m = h->classes;
	s.k = rows;
	return gt_product_new(&c->by_w, &s, err);
}

static size_t larger(size_t bytes, const struct gt_product *p)
{
	size_t own = p ? gt_product_workspace(p) : 0;

	return own > bytes ? own : bytes;
}

/* Products run one after the other, so they share one workspace. */
static size_t work_bytes(const struct chunk *c)
{
	return larger(larger(larger(0, c->logits), c->by_x), c->by_w);
}

/* Place the workspace for the way that is chosen. */
static void lay_out_workspace(struct head *h, struct gt_call *call)
{
	int per_row = gt_optional_input(call, 3) ? 1 : GT_STATS;
	size_t work = work_bytes(&h->full), rest = work_bytes(&h->rest);
	size_t size = gt_dtype_size(call->in[0].dtype);
	int64_t xs = h->exps ? h->full.rows * h->width : 0;
	int64_t numbers = h->exps ? gt_exp_logits_floats(h->full.rows, h->classes) : 0;

	h->of_row_at = gt_aligned_bytes((size_t)(h->full.rows * h->stride) * size);
	h->xs_at = h->of_row_at + gt_aligned_bytes((size_t)(h->rows * per_row) * sizeof(double));
	h->numbers_at = h->xs_at + gt_aligned_bytes((size_t)xs * size);
	h->work_at = h->numbers_at + gt_aligned_bytes((size_t)numbers * sizeof(float));
	call->workspace_bytes = h->work_at + (work > rest ? work : rest);
}

/* Products and kernels for `chunks` chunks. */
static void count_chunks(
    const struct head *h, const struct chunk *c, int64_t chunks, struct gt_call *call)
{
	call->launches += (int)chunks * (h->exps ? GT_EXP_LOGITS_KERNELS : 1);
	if (!h->exps)
		gt_product_add_cost(c->logits, chunks, call);
	if (!c->by_x)
		return;
	gt_product_add_cost(c->by_x, chunks, call);
	gt_product_add_cost(c->by_w, chunks, call);
}

/* All chunks, and the sum. Exponentials are neither read nor written again for a softmax. */
static void count(const struct head *h, struct gt_call *call)
{
	double logits = (double)(h->rows * h->classes) * sizeof(gt_bf16);

	call->launches = 1;
	count_chunks(h, &h->full, h->rows / h->full.rows, call);
	if (h->rest.rows)
		count_chunks(h, &h->rest, 1, call);
	if (!h->exps)
		return;
	call->more_bytes_read += gt_exp_logits_bytes_read(h->rows, h->width, h->classes) - logits;
	call->more_bytes_written +=
	    gt_exp_logits_bytes_written(h->rows, h->width, h->classes) - logits;
}

/* ---- running ---- */

/* A call, and its workspace. */
template <class T> struct linear_cross_entropy_run {
	struct gt_call *call;
	const struct head *h;
	T *logits;
	double *of_row;
	void *work;
};

#define NAME "linear_cross_entropy"

/* Rows from `first` on: their losses and gradients, or their summands in the statistics. */
template <class T>
static int losses_of_rows(
    const linear_cross_entropy_run<T> &c, int64_t first, int64_t rows, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	struct gt_stream *stream = c.call->stream;
	int64_t classes = c.h->classes, stride = c.h->stride;
	gt_targets target = { gt_in_data<int32_t>(c.call, 2), classes, stream->faults };

	if (!gt_optional_input(c.call, 3)) {
		gt_classify_stats<T> f = { c.of_row, c.logits, target, classes, stride, first };

		return gt_by_teams(stream, NAME, rows, classes, f, err);
	}
	linear_cross_entropy_f<T> f = { c.logits, c.of_row, target, gt_in_data<wide>(c.call, 3),
		gt_in_data<wide>(c.call, 4), classes, stride, first };

	return gt_by_teams<false>(stream, NAME, rows, classes, f, err);
}

template <class T>
static int with_softmax(const linear_cross_entropy_run<T> &c, const struct chunk *chunk,
    int64_t first, struct gt_err *err)
{
	const T *x = gt_in_data<T>(c.call, 0) + first * c.h->width, *w = gt_in_data<T>(c.call, 1);
	int rc = gt_product_run(
	    chunk->logits, c.call->stream, c.logits, x, w, c.logits, 1, 0, c.work, err);

	return rc ? rc : losses_of_rows(c, first, chunk->rows, err);
}

/* The same by exponentials. */
static gt_exp_logits exponentials_of(
    const linear_cross_entropy_run<gt_bf16> &c, const struct chunk *chunk, int64_t first)
{
	const struct head *h = c.h;
	char *memory = (char *)c.call->workspace;
	gt_exp_logits a = {};

	a.rows = chunk->rows;
	a.width = h->width;
	a.classes = h->classes;
	a.stride = h->stride;
	a.x = gt_in_data<gt_bf16>(c.call, 0) + first * h->width;
	a.w = gt_in_data<gt_bf16>(c.call, 1);
	a.target = { gt_in_data<int32_t>(c.call, 2), h->classes, c.call->stream->faults };
	a.first = first;
	a.weight = gt_in_data<float>(c.call, 3);
	a.dloss = gt_in_data<float>(c.call, 4);
	a.e = c.logits;
	a.xs = (gt_bf16 *)(memory + h->xs_at);
	a.of_row = c.of_row;
	a.workspace = (float *)(memory + h->numbers_at);
	return a;
}

/* dx of a chunk's rows, and their summand in dw, of d and of x or the rows in its place. */
template <class T>
static int multiply_on(const linear_cross_entropy_run<T> &c, const struct chunk *chunk,
    int64_t first, const T *x, struct gt_err *err)
{
	T *dx = gt_out_data<T>(c.call, 2) + first * c.h->width;
	void *dw = c.call->out[3].data;
	int rc = gt_product_run(chunk->by_x, c.call->stream, dx, c.logits, gt_in_data<T>(c.call, 1),
	    dx, 1, 0, c.work, err);

	return rc ? rc
	          : gt_product_run(chunk->by_w, c.call->stream, dw, c.logits, x, dw, 1,
	                first ? 1 : 0, c.work, err);
}

template <class T>
static int queue_head_chunk(const linear_cross_entropy_run<T> &c, const struct chunk *chunk,
    int64_t first, struct gt_err *err)
{
	if constexpr (std::is_same<T, gt_bf16>::value) {
		gt_exp_logits a = exponentials_of(c, chunk, first);

		if (c.h->exps)
			return gt_exp_logits_queue(c.call->stream, a, err) ||
			               multiply_on(c, chunk, first, (const T *)a.xs, err) ||
			               gt_exp_logits_scale(c.call->stream, a,
			                   gt_out_data<T>(c.call, 2) + first * c.h->width, err)
			           ? err->code
			           : 0;
	}
	if (with_softmax(c, chunk, first, err) || !chunk->by_x)
		return err->code;
	return multiply_on(c, chunk, first, gt_in_data<T>(c.call, 0) + first * c.h->width, err);
}

template <class T> static int sum(const linear_cross_entropy_run<T> &c, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;

	if (!gt_optional_input(c.call, 3)) {
		gt_classify_stats_sum f = { { gt_out_data<double>(c.call, 1) }, c.of_row };

		return gt_sum_rows<GT_STATS>(c.call->stream, NAME, c.h->rows, f, err);
	}
	linear_cross_entropy_sum<wide> f = {
		{ gt_out_data<wide>(c.call), gt_in_data<wide>(c.call, 3) }, c.of_row
	};

	return gt_sum_rows<1>(c.call->stream, NAME, c.h->rows, f, err);
}

template <class T>
static linear_cross_entropy_run<T> run_of(struct gt_call *call, const struct head *h)
{
	char *memory = (char *)call->workspace;

	return { call, h, (T *)memory, (double *)(memory + h->of_row_at), memory + h->work_at };
}

template <class T> static int run_linear_cross_entropy(struct gt_call *call, struct gt_err *err)
{
	const struct head *h = (const struct head *)call->state;
	const linear_cross_entropy_run<T> c = run_of<T>(call, h);
	int64_t first = 0;

	for (; h->rows - first >= h->full.rows; first += h->full.rows)
		if (queue_head_chunk(c, &h->full, first, err))
			return err->code;
	if (first < h->rows && queue_head_chunk(c, &h->rest, first, err))
		return err->code;
	return sum(c, err);
}

/* ---- the choice between the two ways ---- */

static bool has_ways(const struct gt_call *call)
{
	return call->in[0].dtype == GT_BF16 && gt_optional_input(call, 4) &&
	       gt_exp_logits_fit(gt_tensor_last(&call->in[0]), gt_tensor_rows(&call->in[1]));
}

/* The revision of the kernels of both ways. Choices that another revision has remembered do not
 * count. */
enum { REVISION = 2 };

/* A first chunk, in memory of its own, without the products that both ways have. */
struct trial {
	struct gt_call call;
	struct head head;
};

/* The inputs, then dx, then the workspace. */
static size_t trial_bytes(const struct gt_tensor *t)
{
	return gt_aligned_bytes((size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype));
}

static int prepare_trial(void *self, size_t *bytes, struct gt_err *)
{
	struct trial *t = (struct trial *)self;

	t->head.exps = true; /* this way takes more memory */
	lay_out_workspace(&t->head, &t->call);
	*bytes = t->call.workspace_bytes + trial_bytes(&t->call.out[2]);
	for (int i = 0; i < t->call.inputs; i++)
		*bytes += trial_bytes(&t->call.in[i]);
	return 0;
}

static int place_trial(void *self, char *memory, struct gt_err *)
{
	struct trial *t = (struct trial *)self;

	for (int i = 0; i < t->call.inputs; i++) {
		t->call.in[i].data = memory;
		memory += trial_bytes(&t->call.in[i]);
	}
	t->call.out[2].data = memory;
	t->call.workspace = memory + trial_bytes(&t->call.out[2]);
	return 0;
}

static int queue_trial(void *self, int way, struct gt_stream *stream, struct gt_err *err)
{
	struct trial *t = (struct trial *)self;
	const struct chunk *chunk = &t->head.full;
	linear_cross_entropy_run<gt_bf16> c = run_of<gt_bf16>(&t->call, &t->head);
	gt_exp_logits a;

	t->call.stream = stream;
	if (way)
		return with_softmax(c, chunk, 0, err);
	a = exponentials_of(c, chunk, 0);
	return gt_exp_logits_queue(stream, a, err) ||
	               gt_exp_logits_scale(stream, a, gt_out_data<gt_bf16>(&t->call, 2), err)
	           ? err->code
	           : 0;
}

static int choose_head_way(struct gt_call *call, struct gt_err *err)
{
	struct head *h = (struct head *)call->state;
	struct trial trial = { *call, *h };
	struct gt_choice choices[2] = {};
	struct gt_candidates candidates = {};
	char key[GT_CHOICE_KEY];
	int best = 0;

	snprintf(key, sizeof(key), NAME ":%" PRId64 "x%" PRId64 "x%" PRId64, h->full.rows,
	    h->classes, h->width);
	choices[1].words[0] = 1;
	candidates.what = "timing a head";
	candidates.library = "gtrain";
	candidates.version = REVISION;
	candidates.key = key;
	candidates.count = 2;
	candidates.choices = choices;
	candidates.prepare = prepare_trial;
	candidates.place = place_trial;
	candidates.queue = queue_trial;
	candidates.self = &trial;
	if (!call->untimed && gt_fastest(&candidates, &best, err))
		return err->code;
	h->exps = best == 0;
	return 0;
}

static int prepare_linear_cross_entropy(struct gt_call *call, struct gt_err *err)
{
	struct head *h = (struct head *)gt_calloc(1, sizeof(*h), err);
	int64_t chunk = call->attrs.head.rows;
	int rc = 0;

	if (!h)
		return GT_ENOMEM;
	call->state = h;
	h->rows = gt_tensor_rows(&call->in[0]);
	h->width = gt_tensor_last(&call->in[0]);
	h->classes = gt_tensor_rows(&call->in[1]);
	h->stride = (h->classes + PACK - 1) / PACK * PACK;
	chunk = chunk < h->rows ? chunk : h->rows;
	rc = make_chunk(&h->full, h, call, chunk, err);
	if (!rc && h->rows % chunk)
		rc = make_chunk(&h->rest, h, call, h->rows % chunk, err);
	if (!rc && has_ways(call))
		rc = choose_head_way(call, err);
	if (rc) {
		release_head(call);
		return rc;
	}
	lay_out_workspace(h, call);
	count(h, call);
	return 0;
}

#define ROW(type, T)                                                                               \
	{                                                                                          \
		NAME, type, nullptr, prepare_linear_cross_entropy, nullptr,                        \
		    run_linear_cross_entropy<T>, release_head                                      \
	}

const struct gt_kernel gt_cuda_linear_cross_entropy_kernels[] = {
	ROW(GT_F32, float),
	ROW(GT_F64, double),
	ROW(GT_BF16, gt_bf16),
	ROW(GT_F16, gt_f16),
	{},
};
