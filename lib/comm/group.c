/* group.c - calls of groups: checked here, done by the backend. */
#include <limits.h>
#include <math.h>

#include "lib/comm/group_backend.h"

static bool reduces(const struct gt_collective *c)
{
	return c->kind == GT_ALL_REDUCE || c->kind == GT_REDUCE || c->kind == GT_REDUCE_SCATTER;
}

static bool has_peer(const struct gt_collective *c)
{
	return c->kind == GT_REDUCE || c->kind == GT_BROADCAST || c->kind == GT_SEND ||
	       c->kind == GT_RECV;
}

static bool can_reduce(enum gt_dtype dtype)
{
	return dtype == GT_F32 || dtype == GT_F64 || dtype == GT_F16 || dtype == GT_BF16 ||
	       dtype == GT_I32 || dtype == GT_I64;
}

bool gt_group_reads(const struct gt_group *g, const struct gt_collective *c)
{
	return c->kind == GT_BROADCAST ? c->peer == g->rank : c->kind != GT_RECV;
}

bool gt_group_writes(const struct gt_group *g, const struct gt_collective *c)
{
	return c->kind == GT_REDUCE ? c->peer == g->rank : c->kind != GT_SEND;
}

static bool misaligned(const void *p, size_t size)
{
	return (uintptr_t)p % size;
}

/* The alignment of a complex number is that of its parts. */
static size_t alignment(enum gt_dtype dtype)
{
	return dtype == GT_C64 || dtype == GT_C128 ? gt_dtype_size(dtype) / 2
	                                           : gt_dtype_size(dtype);
}

static int check_buffers(
    const struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	const void *in = gt_group_reads(g, c) ? c->in : c->out;
	const void *out = gt_group_writes(g, c) ? c->out : c->in;

	if (!in || !out)
		return gt_err_set(err, GT_EINVAL, "a collective without a buffer");
	if (misaligned(in, alignment(c->dtype)) || misaligned(out, alignment(c->dtype)))
		return gt_err_set(err, GT_EINVAL, "a collective's buffer is not aligned to its %s",
		    gt_dtype_name(c->dtype));
	return 0;
}

static int check_collective(
    const struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	if ((unsigned)c->kind > GT_BARRIER)
		return gt_err_set(err, GT_EINVAL, "no collective has the number %d", (int)c->kind);
	if (c->kind == GT_BARRIER)
		return 0;
	if ((unsigned)c->dtype >= GT_DTYPE_COUNT)
		return gt_err_set(err, GT_EINVAL, "no type has the number %d", (int)c->dtype);
	if (c->count < 0 ||
	    (uint64_t)c->count > PTRDIFF_MAX / gt_dtype_size(c->dtype) / (size_t)g->size)
		return gt_err_set(
		    err, GT_EINVAL, "a collective of %lld elements", (long long)c->count);
	if (reduces(c) && !can_reduce(c->dtype))
		return gt_err_set(err, GT_ENOTSUP, "elements of type %s are not reduced",
		    gt_dtype_name(c->dtype));
	if (reduces(c) && (unsigned)c->reduction > GT_MAX)
		return gt_err_set(
		    err, GT_EINVAL, "no reduction has the number %d", (int)c->reduction);
	if (has_peer(c) && (c->peer < 0 || c->peer >= g->size))
		return gt_err_set(
		    err, GT_EINVAL, "rank %d is not in a group of %d", c->peer, g->size);
	if ((c->kind == GT_SEND || c->kind == GT_RECV) && c->peer == g->rank)
		return gt_err_set(err, GT_EINVAL, "rank %d cannot send to itself", g->rank);
	return c->count ? check_buffers(g, c, err) : 0;
}

int gt_group_run(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	return check_collective(g, c, err) ? err->code : g->ops->run(g, c, err);
}

int gt_group_check_calls(struct gt_group *g, const struct gt_collective *c, struct gt_err *err)
{
	if (!g->ops->check_calls)
		return gt_err_set(
		    err, GT_ENOTSUP, "ranks do not meet in a group of '%s'", g->ops->name);
	return check_collective(g, c, err) ? err->code : g->ops->check_calls(g, c, err);
}

int gt_group_check_peers(struct gt_group *g, bool *gone, struct gt_err *err)
{
	*gone = false;
	return g->ops->check_peers ? g->ops->check_peers(g, gone, err) : 0;
}

int gt_group_fail(struct gt_group *g, struct gt_err *err)
{
	return g->ops->fail ? g->ops->fail(g, err) : err->code;
}

int gt_group_share(struct gt_group *g, size_t bytes, void **out, struct gt_err *err)
{
	*out = NULL;
	if (!g->ops->share)
		return gt_err_set(
		    err, GT_ENOTSUP, "ranks of a group of '%s' share no memory", g->ops->name);
	return g->ops->share(g, bytes, out, err);
}

int gt_group_start(
    struct gt_group *g, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	uint64_t unused;

	return check_collective(g, c, err) ? err->code
	                                   : g->ops->start(g, c, ticket ? ticket : &unused, err);
}

static int check_exchange(
    const struct gt_group *g, const struct gt_collective *c, int count, struct gt_err *err)
{
	int rc = 0;

	if (count < 0 || count > GT_GROUP_EXCHANGED)
		return gt_err_set(err, GT_EINVAL, "an exchange of %d messages", count);
	for (int i = 0; !rc && i < count; i++) {
		rc = check_collective(g, &c[i], err);
		if (!rc && c[i].kind != GT_RECV &&
		    (c[i].kind != GT_SEND || (i && c[i - 1].kind != GT_SEND)))
			rc = gt_err_set(err, GT_EINVAL, "an exchange is sends, and then receives");
	}
	return rc;
}

int gt_group_exchange(struct gt_group *g, const struct gt_collective *c, int count,
    uint64_t *ticket, struct gt_err *err)
{
	int rc = check_exchange(g, c, count, err);

	if (!rc && count && g->ops->exchange)
		return g->ops->exchange(g, c, count, ticket, err);
	/* Sends go on in the background where receives follow, and need not otherwise. */
	for (int i = 0; !rc && i < count; i++)
		rc = c[i].kind != c[count - 1].kind ? g->ops->start(g, &c[i], ticket, err)
		                                    : g->ops->run(g, &c[i], err);
	return rc;
}

int gt_group_wait(struct gt_group *g, uint64_t ticket, struct gt_err *err)
{
	return g->ops->wait(g, ticket, err);
}

int gt_group_await(
    struct gt_group *g, uint64_t ticket, struct gt_stream *stream, struct gt_err *err)
{
	return g->ops->await ? g->ops->await(g, ticket, stream, err) : g->ops->wait(g, ticket, err);
}

double gt_group_waited_s(const struct gt_group *g, int rank)
{
	return g->ops->waited_s ? g->ops->waited_s(g, rank) : NAN;
}

void gt_group_stop(struct gt_group *g)
{
	g->ops->stop(g);
}

int gt_group_alloc(struct gt_group *g, size_t bytes, void **out, struct gt_err *err)
{
	return g->ops->alloc(g, bytes, out, err);
}

void gt_group_release(struct gt_group *g, void *memory)
{
	if (memory)
		g->ops->release(g, memory);
}

int gt_group_split(
    struct gt_group **out, struct gt_group *g, int color, int key, struct gt_err *err)
{
	*out = NULL;
	return g->ops->split(out, g, color, key, err);
}

void gt_group_free(struct gt_group *g)
{
	if (g)
		g->ops->free(g);
}

int gt_all_reduce(struct gt_group *g, void *buffer, int64_t count, enum gt_dtype dtype,
    enum gt_reduction reduction, struct gt_err *err)
{
	struct gt_collective c = { .kind = GT_ALL_REDUCE,
		.in = buffer,
		.out = buffer,
		.count = count,
		.dtype = dtype,
		.reduction = reduction };

	return gt_group_run(g, &c, err);
}

int gt_broadcast(struct gt_group *g, void *buffer, int64_t count, enum gt_dtype dtype, int root,
    struct gt_err *err)
{
	struct gt_collective c = { .kind = GT_BROADCAST,
		.in = buffer,
		.out = buffer,
		.count = count,
		.dtype = dtype,
		.peer = root };

	return gt_group_run(g, &c, err);
}

int gt_barrier(struct gt_group *g, struct gt_err *err)
{
	return gt_group_run(g, &(struct gt_collective){ .kind = GT_BARRIER }, err);
}
