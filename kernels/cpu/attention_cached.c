/* attention_cached.c - attention of new tokens over the cached keys and values of a text. */
#include "kernels/cpu/parallel.h"

#include <omp.h>
#include <string.h>

#include "lib/graph/fault.h"

/*
 * One (sample, head of keys) is one piece of work for one thread: it appends the new keys and
 * values, then takes the rows one after the other. A row's scores lie in the thread's workspace. A
 * row reads each cached key and value once, so that memory decides for one token, and nothing is
 * packed. For a long prompt attention.c would be faster, but there the products of the layers take
 * the time.
 */

/* Sizes of a call. */
struct sizes {
	int64_t B, T, heads, D;
	int64_t kv_heads, group; /* heads of keys and values; of queries for each of them */
	int64_t capacity, past;  /* positions of a cache, and how many are filled */
	int64_t window;          /* 0: none */
	double cap;              /* 0: none */
};

static struct sizes cached_attention_sizes(const struct gt_call *call)
{
	const int64_t *qkv = call->in[0].shape, *keys = call->in[2].shape;

	int64_t heads = call->attrs.attention.heads;

	return (struct sizes){ qkv[0], qkv[1], heads, keys[3], keys[1], heads / keys[1], keys[2], 0,
		call->attrs.attention.window, call->attrs.attention.cap };
}

/* Return the first position that the token at `at` attends to. */
static int64_t first_in_window(const struct sizes *s, int64_t at)
{
	return s->window && at >= s->window ? at + 1 - s->window : 0;
}

/* Bytes of one thread's scores. */
static size_t scores_bytes(const struct gt_call *call)
{
	size_t bytes =
	    (size_t)cached_attention_sizes(call).capacity * gt_dtype_size(call->in[0].dtype);

	return (bytes + 63) / 64 * 64;
}

static int prepare_cached_attention(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	call->workspace_bytes = (size_t)omp_get_max_threads() * scores_bytes(call);
	return 0;
}

static int check_past(const struct sizes *s, struct gt_err *err)
{
	if (s->past >= 0 && s->past <= s->capacity - s->T)
		return 0;
	return gt_fault_set(
	    err, &(struct gt_fault){ GT_FAULT_CACHE, { s->T, s->past, s->capacity } });
}

#define REAL_BITS 32
#include "kernels/cpu/attention_cached.inc"
#define REAL_BITS 64
#include "kernels/cpu/attention_cached.inc"

const struct gt_kernel GT_ISA(gt_cpu_attention_cached_kernels)[] = {
	GT_ROWS(attention_cached, .prepare = prepare_cached_attention),
	{ .op = NULL },
};
