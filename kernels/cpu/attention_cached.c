/* attention_cached.c - attention of new tokens over the cached keys and values of a text. */
#include "kernels/cpu/parallel.h"

#include <omp.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "lib/graph/fault.h"

/*
 * One (sample, head of keys) is one piece of work for one thread: it appends the new keys and
 * values, then takes the rows one after the other. A row's scores lie in the thread's workspace. A
 * row reads each cached key and value once, so that memory decides for one token, and nothing is
 * packed. The tokens of a prompt, which have no others before them, attend to each other as in
 * training: attention.c computes them, and only the caches are written here.
 */
enum { PROMPT = 16 }; /* the least tokens for which packing pays */

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

/* Return whether the tokens of a call without earlier ones can attend to each other as in
 * training. */
static bool may_be_prompt(const struct sizes *s)
{
	return s->T >= PROMPT && s->cap == 0 && (!s->window || s->window >= s->T);
}

/* Make the call of attention.c for a prompt. Its second output, which nobody reads, lies at the
 * beginning of the workspace. */
static int describe_prompt(struct gt_call *inner, size_t *lse_bytes, const struct gt_call *call,
    const struct sizes *s, struct gt_err *err)
{
	const struct gt_kernel *k = GT_ISA(gt_cpu_attention_kernels);
	const enum gt_dtype dtype = call->in[0].dtype;

	while (strcmp(k->op, "attention") != 0 || k->dtype != dtype)
		k++;
	*inner = (struct gt_call){ .kernel = k, .attrs = call->attrs, .inputs = 2, .outputs = 2 };
	inner->attrs.attention.kv_heads = (int)s->kv_heads;
	inner->in[0] = call->in[0];
	inner->out[0] = call->out[0];
	inner->out[1] = (struct gt_tensor){
		.present = true, .dtype = dtype, .ndim = 3, .shape = { s->B, s->heads, s->T }
	};
	*lse_bytes = ((size_t)(s->B * s->heads * s->T) * gt_dtype_size(dtype) + 63) / 64 * 64;
	return k->prepare(inner, err);
}

static int prepare_cached_attention(struct gt_call *call, struct gt_err *err)
{
	const struct sizes s = cached_attention_sizes(call);
	struct gt_call inner;
	size_t bytes;

	call->workspace_bytes = (size_t)omp_get_max_threads() * scores_bytes(call);
	if (!may_be_prompt(&s))
		return 0;
	if (describe_prompt(&inner, &bytes, call, &s, err))
		return err->code;
	bytes += inner.workspace_bytes;
	if (bytes > call->workspace_bytes)
		call->workspace_bytes = bytes;
	return 0;
}

/* Compute the output alone. attention.c takes as many threads as its workspace is for: there may be
 * more now than when this call was prepared. */
static int attend_prompt(struct gt_call *call, const struct sizes *s, struct gt_err *err)
{
	struct gt_call inner;
	size_t bytes;
	int rc = describe_prompt(&inner, &bytes, call, s, err);

	if (rc)
		return rc;
	inner.out[1].data = call->workspace;
	inner.workspace = (char *)call->workspace + bytes;
	if (inner.workspace_bytes > call->workspace_bytes - bytes)
		inner.workspace_bytes = call->workspace_bytes - bytes;
	return inner.kernel->run(&inner, err);
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
