/* collectives.c - collectives over messages: announcements, then slices and results. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/comm/messages/state.h"

/*
 * A call with more data than an announcement holds is processed piece by piece. The slices of a
 * piece are sent to the ranks that reduce them, and the results are sent back. Meanwhile the slices
 * of the next piece are sent, and received in the other half of the staging area. Collectives
 * differ only in their slices and results, and in the ranks that exchange them:
 *
 *                   slices                                   results
 *   all-reduce      slice r of the piece: all to r           slice r, reduced: r to all
 *   reduce          the same                                 slice r, reduced: r to the one
 *   reduce-scatter  slice of part r: all to r                      -
 *   all-gather      -                                        of part r: r to all
 *   broadcast       slice r: root to r, to where it belongs  slice r: r to all but the root
 *
 * In an all-reduce each of n ranks sends 2 * (n - 1) / n times the bytes of the buffer. Each column
 * takes n - 1 messages per rank. These numbers of bytes and of phases are the smallest possible,
 * but a tree of ranks would need fewer messages.
 */

struct work {
	const struct gt_collective *c;
	int size, me;
	size_t element, count, bytes; /* size of one rank's part, if the buffer has parts */
	const unsigned char *in;
	unsigned char *out; /* NULL: this rank gets nothing */
	bool root;          /* this rank is the root of a broadcast */
};

static struct work work_of(const struct gt_msg_group *g, const struct gt_collective *c)
{
	struct work w = { .c = c, .size = g->group.size, .me = g->group.rank };

	if (c->kind == GT_BARRIER)
		return w;
	w.element = gt_dtype_size(c->dtype);
	w.count = (size_t)c->count;
	w.bytes = w.count * w.element;
	w.root = c->kind == GT_BROADCAST && c->peer == w.me;
	w.in = c->kind == GT_BROADCAST && !w.root ? NULL : c->in;
	w.out = c->kind == GT_REDUCE && c->peer != w.me ? NULL : c->out;
	return w;
}

static bool reduces(const struct work *w)
{
	return w->c->kind == GT_ALL_REDUCE || w->c->kind == GT_REDUCE ||
	       w->c->kind == GT_REDUCE_SCATTER;
}

/* ---- the comparison of calls, which is all of a small call ---- */

/* Write the announcement for rank r: the call, and the data if they fit. */
static void write_announcement(struct gt_msg_group *g, const struct work *w, int r)
{
	size_t skip = w->c->kind == GT_REDUCE_SCATTER ? (size_t)r * w->bytes : 0;

	g->out[r].call = g->call;
	if (w->in && w->bytes <= GT_MSG_ANNOUNCEMENT_BYTES)
		gt_copy_bytes(g->out[r].data, w->in + skip, w->bytes);
}

static int exchange_announcements(struct gt_msg_group *g, const struct work *w, struct gt_err *err)
{
	bool holds = w->in && w->bytes <= GT_MSG_ANNOUNCEMENT_BYTES;

	for (int r = 0; r < w->size; r++) {
		if (r != w->me && gt_msg_receive(g, &g->sets[GT_MSG_SET_MEETING], r, &g->in[r],
		                      sizeof(g->in[r]), GT_MSG_TAG_ANNOUNCEMENT, err))
			return err->code;
		write_announcement(g, w, r);
	}
	for (int i = 1; i < w->size; i++) {
		int r = (w->me + i) % w->size;

		if (gt_msg_send(g, &g->sets[GT_MSG_SET_MEETING], r, &g->out[r],
		        sizeof(g->call) + (holds ? w->bytes : 0), GT_MSG_TAG_ANNOUNCEMENT, err))
			return err->code;
	}
	return gt_msg_await(g, &g->sets[GT_MSG_SET_MEETING], err);
}

static int compare_calls(struct gt_msg_group *g, const struct work *w, struct gt_err *err)
{
	g->last = g->met;
	g->call = g->met = gt_group_call_of(w->c, ++g->number);
	g->begun = false;
	if (gt_msg_check(g, err) || exchange_announcements(g, w, err))
		return err->code;
	g->begun = true;
	for (int r = 0; r < w->size; r++)
		if (r != w->me && memcmp(&g->in[r].call, &g->call, sizeof(g->call)) != 0) {
			gt_call_differs(
			    err, g->ranks[w->me], &g->call, g->ranks[r], &g->in[r].call);
			return gt_msg_fail(g, err);
		}
	return 0;
}

static void finish_small(struct gt_msg_group *g, const struct work *w, const void **src)
{
	for (int r = 0; r < w->size; r++)
		src[r] = r == w->me ? g->out[r].data : g->in[r].data;
	gt_finish_small(w->c, w->out, src, w->size);
}

/* ---- larger ones ---- */

struct piece {
	size_t at, count; /* elements of the buffer or of the part; 0: there is none */
	int turn;         /* 0 and 1 take turns */
};

/* Return the number of elements of a piece. Its slices fit into one half of the staging area. */
static size_t piece_count(const struct gt_msg_group *g, const struct work *w)
{
	size_t count = g->piece_bytes / w->element;

	if (w->c->kind == GT_REDUCE_SCATTER)
		count /= (size_t)w->size;
	return count ? count : 1;
}

static struct piece piece_at(const struct work *w, size_t at, size_t max, int turn)
{
	size_t left = at < w->count ? w->count - at : 0;

	return (struct piece){ at, left < max ? left : max, turn };
}

/* Where slice r of the piece begins in the buffer, in bytes, and how many bytes it has. Parts are
 * not cut. */
static size_t slice_at(const struct work *w, const struct piece *p, int r, size_t *bytes)
{
	size_t from = 0, to = p->count;

	if (w->c->kind == GT_ALL_REDUCE || w->c->kind == GT_REDUCE || w->c->kind == GT_BROADCAST)
		gt_slice(p->count, w->size, r, &from, &to);
	*bytes = (to - from) * w->element;
	return (p->at + from) * w->element;
}

static unsigned char *staging_of(const struct gt_msg_group *g, const struct piece *p, int r)
{
	return g->staging + ((size_t)p->turn * (size_t)g->group.size + (size_t)r) * g->staging_part;
}

/* Slices of at most so many bytes of each rank; a line more, for they are rounded up to lines. */
static int need_staging(struct gt_msg_group *g, const struct work *w, struct gt_err *err)
{
	size_t n = (size_t)w->size, part = (g->piece_bytes / n + GT_COMM_LINE * sizeof(double)) /
	                                   GT_COMM_LINE * GT_COMM_LINE;

	if (!reduces(w) || g->staging)
		return 0;
	g->staging = gt_calloc(2 * n, part, err);
	g->staging_part = part;
	return g->staging ? 0 : gt_msg_fail(g, err);
}

static int send_slices(
    struct gt_msg_group *g, const struct work *w, const struct piece *p, struct gt_err *err)
{
	size_t bytes, mine_bytes, mine = slice_at(w, p, w->me, &mine_bytes);
	struct gt_msg_set *set = &g->sets[GT_MSG_SET_SLICES + p->turn];

	if (w->c->kind == GT_BROADCAST && !w->root)
		return mine_bytes ? gt_msg_receive(g, set, w->c->peer, w->out + mine, mine_bytes,
		                        GT_MSG_TAG_SLICE, err)
		                  : 0;
	for (int r = 0; reduces(w) && mine_bytes && r < w->size; r++)
		if (r != w->me && gt_msg_receive(g, set, r, staging_of(g, p, r), mine_bytes,
		                      GT_MSG_TAG_SLICE, err))
			return err->code;
	for (int i = 1; i < w->size; i++) {
		int r = (w->me + i) % w->size;
		size_t skip = w->c->kind == GT_REDUCE_SCATTER ? (size_t)r * w->bytes : 0;
		const unsigned char *from = w->in + skip + slice_at(w, p, r, &bytes);

		if (bytes && gt_msg_send(g, set, r, from, bytes, GT_MSG_TAG_SLICE, err))
			return err->code;
	}
	return 0;
}

static int begin_piece(
    struct gt_msg_group *g, const struct work *w, const struct piece *p, struct gt_err *err)
{
	if (!p->count || w->c->kind == GT_ALL_GATHER)
		return 0;
	return send_slices(g, w, p, err);
}

/* Where this rank's slice is reduced: in the result, or in a buffer from which it is sent. */
static unsigned char *reduced_at(
    const struct gt_msg_group *g, const struct work *w, const struct piece *p, size_t at)
{
	return w->out ? w->out + at : staging_of(g, p, w->me);
}

/* All parts of this rank's slice have come: reduce them. */
static void use_slices(
    const struct gt_msg_group *g, const struct work *w, const struct piece *p, const void **src)
{
	size_t bytes, at = slice_at(w, p, w->me, &bytes);
	size_t skip = w->c->kind == GT_REDUCE_SCATTER ? (size_t)w->me * w->bytes : 0;

	if (!reduces(w)) {
		if (w->root && w->in != w->out)
			gt_copy_bytes(w->out + p->at * w->element, w->in + p->at * w->element,
			    p->count * w->element);
		if (w->c->kind == GT_ALL_GATHER)
			gt_copy_bytes(w->out + (size_t)w->me * w->bytes + at, w->in + at, bytes);
		return;
	}
	for (int r = 0; r < w->size; r++)
		src[r] = r == w->me ? w->in + skip + at : staging_of(g, p, r);
	gt_reduce((void *[]){ reduced_at(g, w, p, at) }, 1, src, w->size, bytes / w->element,
	    w->c->dtype, w->c->reduction);
}

/* Whether a rank lacks the slices that others have. */
static bool wants_results(const struct work *w, int r)
{
	if (w->c->kind == GT_REDUCE)
		return r == w->c->peer;
	return w->c->kind != GT_BROADCAST || r != w->c->peer;
}

static int send_results(
    struct gt_msg_group *g, const struct work *w, const struct piece *p, struct gt_err *err)
{
	const bool parts = w->c->kind == GT_ALL_GATHER, wants = wants_results(w, w->me);
	size_t bytes, mine_bytes, mine = slice_at(w, p, w->me, &mine_bytes);
	const unsigned char *from;
	struct gt_msg_set *set = &g->sets[GT_MSG_SET_RESULTS + p->turn];

	if (w->c->kind == GT_REDUCE_SCATTER)
		return 0;
	for (int r = 0; r < w->size; r++) {
		size_t at = slice_at(w, p, r, &bytes) + (parts ? (size_t)r * w->bytes : 0);

		if (r != w->me && bytes && wants &&
		    gt_msg_receive(g, set, r, w->out + at, bytes, GT_MSG_TAG_RESULT, err))
			return err->code;
	}
	from = reduced_at(g, w, p, mine + (parts ? (size_t)w->me * w->bytes : 0));
	for (int i = 1; mine_bytes && i < w->size; i++) {
		int r = (w->me + i) % w->size;

		if (wants_results(w, r) &&
		    gt_msg_send(g, set, r, from, mine_bytes, GT_MSG_TAG_RESULT, err))
			return err->code;
	}
	return 0;
}

static int finish_large(
    struct gt_msg_group *g, const struct work *w, const void **src, struct gt_err *err)
{
	size_t max = piece_count(g, w);
	struct piece now = piece_at(w, 0, max, 0), next;

	if (need_staging(g, w, err) || begin_piece(g, w, &now, err))
		return err->code;
	for (; now.count; now = next) {
		next = piece_at(w, now.at + now.count, max, !now.turn);
		if (begin_piece(g, w, &next, err) ||
		    gt_msg_await(g, &g->sets[GT_MSG_SET_SLICES + now.turn], err))
			return err->code;
		use_slices(g, w, &now, src);
		if (gt_msg_await(g, &g->sets[GT_MSG_SET_RESULTS + !now.turn], err) ||
		    send_results(g, w, &now, err))
			return err->code;
	}
	return gt_msg_await(g, &g->sets[GT_MSG_SET_RESULTS], err)
	           ? err->code
	           : gt_msg_await(g, &g->sets[GT_MSG_SET_RESULTS + 1], err);
}

int gt_msg_collect(struct gt_msg_group *g, const struct gt_collective *c, struct gt_err *err)
{
	struct work w = work_of(g, c);
	const void **src;
	int rc;

	if (w.size == 1) {
		gt_copy_bytes(w.out, w.in, w.bytes);
		return 0;
	}
	src = gt_calloc((size_t)w.size, sizeof(*src), err);
	if (!src)
		return gt_msg_fail(g, err);
	rc = compare_calls(g, &w, err);
	if (!rc && w.bytes <= GT_MSG_ANNOUNCEMENT_BYTES)
		finish_small(g, &w, src);
	else if (!rc)
		rc = finish_large(g, &w, src, err);
	free(src);
	return rc;
}

int gt_msg_check_calls(struct gt_msg_group *g, const struct gt_collective *c, struct gt_err *err)
{
	struct work w = work_of(g, c);

	w.in = NULL;
	return w.size == 1 ? 0 : compare_calls(g, &w, err);
}
