/* recurrent.c - a layer of an LSTM or GRU over all steps, and its gradient. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/parallel.h"
#include "lib/base/mem.h"

/*
 * The samples of a batch do not depend on each other, so a thread takes some of them through all
 * steps and waits for no other thread. It keeps their states in buffers of its own, which stay in
 * the cache. All threads read one packed copy of the weight: the rows of a step are multiplied by
 * a panel of it while the panel is in the L1 cache. A row is computed in the same way wherever it
 * stands, so results do not depend on the number of threads.
 */
enum {
	MOST_ROWS = 32,     /* rows of a thread: their states stay in the cache */
	FORK_MIN = 1 << 17, /* multiply-adds that are worth a second thread */
	LINE_BYTES = 64
};

struct recurrent {
	int64_t samples, steps, hidden;
	int64_t gates; /* gates of a hidden feature, by which rows of gates are longer */
	bool reverse;
	int64_t k, n;       /* rows and columns of the matrix that a step multiplies by */
	int64_t wide, tall; /* a row of gates, and of states, in a buffer: padded to panels */
	int64_t rows;       /* samples of a piece of work, fewer in the last */
	int threads;
	/* bytes of the packed weight, of the row of zeros behind it, and of a thread's buffers */
	size_t packed_bytes, zero_bytes, thread_bytes;
};

/* `states` has the sizes of the states. `backward`: steps multiply gates by the weight; else, they
 * multiply states. */
static int prepare_recurrent(struct gt_call *call, const struct gt_tensor *states,
    const struct gt_tensor *w, bool backward, struct gt_err *err)
{
	struct recurrent *r = gt_calloc(1, sizeof(*r), err);
	int64_t size = (int64_t)gt_dtype_size(w->dtype);
	int64_t panel = GT_PANEL_VECTORS * GT_VECTOR_BYTES / size, all;

	if (!r)
		return GT_ENOMEM;
	call->state = r;
	r->samples = states->shape[0];
	r->steps = states->shape[1];
	r->hidden = states->shape[2];
	r->gates = w->shape[0] / w->shape[1];
	r->reverse = call->attrs.recurrent.reverse;
	all = r->gates * r->hidden;
	r->k = backward ? all : r->hidden;
	r->n = backward ? r->hidden : all;
	r->wide = gt_round_up(all, panel);
	r->tall = gt_round_up(r->hidden, panel);
	r->threads = (int)gt_min(omp_get_max_threads(), gt_ceil_div(r->samples, GT_PANEL_ROWS));
	if (r->samples * r->steps * all * r->hidden < FORK_MIN)
		r->threads = 1;
	r->rows = gt_round_up(gt_ceil_div(r->samples, r->threads), GT_PANEL_ROWS);
	r->rows = gt_min(r->rows, MOST_ROWS);
	r->packed_bytes = (size_t)(r->k * gt_round_up(r->n, panel) * size);
	r->zero_bytes = (size_t)gt_round_up(r->hidden * size, LINE_BYTES);
	r->thread_bytes = (size_t)(r->rows * (r->wide + 2 * r->tall) * size);
	call->workspace_bytes =
	    r->packed_bytes + r->zero_bytes + (size_t)r->threads * r->thread_bytes;
	return 0;
}

static int prepare_forward(struct gt_call *call, struct gt_err *err)
{
	return prepare_recurrent(call, &call->out[0], &call->in[1], false, err);
}

static void release_recurrent(struct gt_call *call)
{
	free(call->state);
	call->state = NULL;
}

static int prepare_backward(struct gt_call *call, struct gt_err *err)
{
	return prepare_recurrent(call, &call->in[2], &call->in[0], true, err);
}

/* The step that is computed as number i. */
static int64_t step_of(const struct recurrent *r, int64_t i)
{
	return r->reverse ? r->steps - 1 - i : i;
}

/* Return row (b, step i) of a tensor [samples, steps, width], or `missing` if there is no tensor or
 * i is before the first step. */
static void *row_of(
    const struct recurrent *r, const struct gt_tensor *t, int64_t b, int64_t i, const void *missing)
{
	int64_t at = (b * r->steps + step_of(r, i)) * gt_tensor_last(t);

	if (!t->present || i < 0)
		return (void *)missing;
	return (char *)t->data + at * (int64_t)gt_dtype_size(t->dtype);
}

/* Return row b of a tensor [samples, hidden], or `missing`. */
static void *state_of(const struct gt_tensor *t, int64_t b, const void *missing)
{
	if (!t->present)
		return (void *)missing;
	return (char *)t->data + b * gt_tensor_last(t) * (int64_t)gt_dtype_size(t->dtype);
}

#define REAL_BITS 32
#include "kernels/cpu/recurrent.inc"
#define REAL_BITS 64
#include "kernels/cpu/recurrent.inc"

const struct gt_kernel GT_ISA(gt_cpu_recurrent_kernels)[] = {
	GT_ROWS(lstm, .prepare = prepare_forward, .release = release_recurrent),
	GT_ROWS(lstm_grad, .prepare = prepare_backward, .release = release_recurrent),
	GT_ROWS(gru, .prepare = prepare_forward, .release = release_recurrent),
	GT_ROWS(gru_grad, .prepare = prepare_backward, .release = release_recurrent),
	{ .op = NULL },
};
