/* group_call.c - calls that ranks compare and name, and the shares of a buffer. */
#include <stdio.h>
#include <string.h>

#include "lib/comm/group_backend.h"

struct gt_group_call gt_group_call_of(const struct gt_collective *c, uint64_t number)
{
	struct gt_group_call call = { .number = number, .kind = (uint8_t)c->kind };

	if (c->kind != GT_BARRIER) {
		call.count = c->count;
		call.dtype = (uint8_t)c->dtype;
	}
	if (c->kind == GT_ALL_REDUCE || c->kind == GT_REDUCE || c->kind == GT_REDUCE_SCATTER)
		call.reduction = (uint8_t)c->reduction;
	if (c->kind == GT_BROADCAST || c->kind == GT_REDUCE)
		call.peer = c->peer;
	if (c->what)
		memccpy(call.what, c->what, '\0', sizeof(call.what) - 1);
	return call;
}

void gt_slice(size_t m, int size, int rank, size_t *from, size_t *to)
{
	size_t per = (m + (size_t)size - 1) / (size_t)size;

	per = (per + GT_COMM_LINE - 1) / GT_COMM_LINE * GT_COMM_LINE;
	*from = per * (size_t)rank < m ? per * (size_t)rank : m;
	*to = m - *from < per ? m : *from + per;
}

/* An insertion keeps the order of equals. */
int gt_choose(int *members, const struct gt_split_choice *all, int size, int color)
{
	int count = 0;

	for (int r = 0; r < size; r++) {
		int i = count;

		if (all[r].color != color)
			continue;
		for (; i > 0 && all[members[i - 1]].key > all[r].key; i--)
			members[i] = members[i - 1];
		members[i] = r;
		count++;
	}
	return count;
}

/* ---- in words ---- */

static const char *const kinds[] = {
	[GT_ALL_REDUCE] = "all-reduce",
	[GT_REDUCE_SCATTER] = "reduce-scatter",
	[GT_ALL_GATHER] = "all-gather",
	[GT_REDUCE] = "reduce",
	[GT_BROADCAST] = "broadcast",
	[GT_SEND] = "send",
	[GT_RECV] = "recv",
	[GT_BARRIER] = "barrier",
};

static const char *const reductions[] = { [GT_SUM] = "sum", [GT_AVG] = "avg", [GT_MAX] = "max" };

static const char *kind_name(uint8_t kind)
{
	return kind < sizeof(kinds) / sizeof(*kinds) ? kinds[kind] : "something unknown";
}

/* "all-reduce 'bucket 3'" */
struct gt_text gt_group_call_short(const struct gt_group_call *c)
{
	struct gt_text t;
	int quote = c->what[0] ? '\'' : 0;

	if (quote)
		snprintf(t.s, sizeof(t.s), "%s '%.*s'", kind_name(c->kind), GT_COMM_LABEL_BYTES,
		    c->what);
	else
		snprintf(t.s, sizeof(t.s), "%s", kind_name(c->kind));
	return t;
}

struct gt_text gt_collective_text(const struct gt_collective *c)
{
	struct gt_group_call call = gt_group_call_of(c, 0);

	return gt_group_call_short(&call);
}

struct gt_text gt_group_call_text(const struct gt_group_call *c)
{
	struct gt_text t = gt_group_call_short(c);
	size_t used = strlen(t.s);

	if (c->kind == GT_BARRIER || c->dtype >= GT_DTYPE_COUNT)
		return t;
	used += (size_t)snprintf(t.s + used, sizeof(t.s) - used, " of %lld %s", (long long)c->count,
	    gt_dtype_name(c->dtype));
	if ((c->kind == GT_ALL_REDUCE || c->kind == GT_REDUCE || c->kind == GT_REDUCE_SCATTER) &&
	    c->reduction < sizeof(reductions) / sizeof(*reductions))
		used += (size_t)snprintf(
		    t.s + used, sizeof(t.s) - used, ", %s", reductions[c->reduction]);
	if (c->kind == GT_BROADCAST || c->kind == GT_REDUCE)
		snprintf(t.s + used, sizeof(t.s) - used, "%s rank %d",
		    c->kind == GT_REDUCE ? ", to" : " from", c->peer);
	return t;
}

int gt_call_differs(struct gt_err *err, int rank, const struct gt_group_call *mine, int other,
    const struct gt_group_call *theirs)
{
	gt_err_set(err, GT_EINVAL, "collective number %llu: rank %d calls %s, but rank %d %s",
	    (unsigned long long)mine->number, rank, gt_group_call_text(mine).s, other,
	    gt_group_call_text(theirs).s);
	return gt_err_hint(err, "all ranks must call the same collectives in the same order");
}

int gt_call_unmatched(struct gt_err *err, int from, const struct gt_group_call *sent, int to,
    const struct gt_group_call *wanted)
{
	if (sent->number == wanted->number && sent->count == wanted->count &&
	    sent->dtype == wanted->dtype)
		return 0;
	gt_err_set(err, GT_EINVAL, "message number %llu from rank %d to rank %d: %s, but %s",
	    (unsigned long long)wanted->number, from, to, gt_group_call_text(sent).s,
	    gt_group_call_text(wanted).s);
	return gt_err_hint(err, "sends and receives must match, in number and in size");
}

static int name_lost(struct gt_err *err, const struct gt_lost *l)
{
	struct gt_text now = gt_group_call_short(l->call);
	unsigned long long number = l->call->number;

	if (l->call->kind == GT_SEND || l->call->kind == GT_RECV)
		return gt_err_set(err, GT_EIO, "%s %s %s %s %s rank %d (message %llu between them)",
		    l->who, l->verb, l->preposition, now.s, l->call->kind == GT_SEND ? "of" : "by",
		    l->by, number);
	if (l->begun)
		return gt_err_set(err, GT_EIO, "%s %s in %s (number %llu), which it has begun",
		    l->who, l->verb, now.s, number);
	if (!l->last)
		return gt_err_set(err, GT_EIO,
		    "%s %s %s %s (number %llu): it took part in none yet", l->who, l->verb,
		    l->preposition, now.s, number);
	return gt_err_set(err, GT_EIO,
	    "%s %s %s %s (number %llu): the last one that it took part in was number %llu, %s",
	    l->who, l->verb, l->preposition, now.s, number, number - 1,
	    gt_group_call_short(l->last).s);
}

int gt_call_lost(struct gt_err *err, const struct gt_lost *l)
{
	name_lost(err, l);
	err->lost = l->rank + 1;
	return err->code;
}

int gt_call_gone(struct gt_err *err)
{
	gt_err_hint(err, "look at that rank's output, or its log");
	return gt_err_follow(err);
}
