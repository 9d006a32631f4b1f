/* collectives.c - collectives of all ranks: through rank areas, in place, or through staging. */
#include <sched.h>
#include <string.h>

#include "lib/comm/shm/segment.h"

/*
 * synchronize(): each rank moves its phase on and waits for those of the others. Others read after
 * a meeting the data that a rank has written before it. Each collective begins with a meeting at
 * which calls are compared, and then takes one of three ways, the same on all ranks:
 *
 *   small     the data lie in the rank areas before the first meeting; nothing more is needed
 *   in place  all buffers are in memory that all see: each does its share, then a second meeting
 *   staged    piece by piece through GT_SHM_STAGING_SLOTS buffers of each rank, which go around
 *
 * A staged piece k is copied in before meeting k and read after it, by all-reduce once more after
 * meeting k + 1. So its buffer is free after meeting k + 2, before piece k + 3 is copied in.
 */

/* Announce that this rank has reached the next meeting, and wait until all others have. */
static int synchronize(struct gt_shm *g, struct gt_err *err)
{
	const int me = g->group.rank;

	gt_shm_flag_set(&g->areas[me].phase, ++g->phase);
	for (int r = 0; r < g->group.size; r++)
		if (r != me && gt_shm_flag_wait(g, &g->areas[r].phase, g->phase, r, err))
			return err->code;
	return 0;
}

/* ---- the work of a collective ---- */

struct work {
	const struct gt_collective *c;
	int size, me;
	size_t element, count, bytes; /* size of one rank's part, if the buffer has parts */
	const unsigned char *in;      /* NULL: this rank contributes no data */
	unsigned char *out;           /* NULL: this rank gets no result */
	size_t in_bytes, out_bytes;   /* sizes of the whole buffers */
	unsigned parity; /* the call uses posted[parity] and small[parity] of an area */
};

static struct work work_of(const struct gt_shm *g, const struct gt_collective *c)
{
	struct work w = { .c = c, .size = g->group.size, .me = g->group.rank };
	size_t n = (size_t)w.size;

	if (c->kind == GT_BARRIER)
		return w;
	w.element = gt_dtype_size(c->dtype);
	w.count = (size_t)c->count;
	w.bytes = w.count * w.element;
	w.in = c->kind == GT_BROADCAST && c->peer != w.me ? NULL : c->in;
	w.out = c->kind == GT_REDUCE && c->peer != w.me ? NULL : c->out;
	w.in_bytes = c->kind == GT_REDUCE_SCATTER ? n * w.bytes : w.bytes;
	w.out_bytes = c->kind == GT_ALL_GATHER ? n * w.bytes : w.bytes;
	return w;
}

/* A group of one. */
static void alone(const struct work *w)
{
	gt_copy_bytes(w->out, w->in, w->bytes);
}

/* ---- the first meeting ---- */

static int compare_posted_calls(struct gt_shm *g, struct gt_err *err)
{
	for (int r = 0; r < g->group.size; r++) {
		struct gt_group_call theirs = g->areas[r].posted[g->number % 2].call;

		if (!memcmp(&theirs, &g->call, sizeof(theirs)))
			continue;
		gt_call_differs(err, g->names[g->group.rank], &g->call, g->names[r], &theirs);
		return gt_shm_fail(g, err);
	}
	return 0;
}

int gt_shm_announce(struct gt_shm *g, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_shm_rank_area *area = &g->areas[g->group.rank];

	g->call = gt_group_call_of(c, ++g->number);
	g->entrance = g->phase + 1;
	if (gt_shm_check(g, err))
		return err->code;
	atomic_store_explicit(&area->cpu, sched_getcpu(), memory_order_relaxed);
	area->posted[g->number % 2].call = g->call;
	return 0;
}

int gt_shm_check_calls(struct gt_shm *g, struct gt_err *err)
{
	return synchronize(g, err) ? err->code : compare_posted_calls(g, err);
}

static int enter_shm_collective(struct gt_shm *g, struct work *w, struct gt_err *err)
{
	struct gt_shm_rank_area *area = &g->areas[w->me];

	if (gt_shm_announce(g, w->c, err))
		return err->code;
	w->parity = g->number % 2;
	if (w->in_bytes > GT_SHM_SMALL_BYTES) {
		area->posted[w->parity].in = gt_shm_place_of(g, w->in, w->in ? w->in_bytes : 0);
		area->posted[w->parity].out = gt_shm_place_of(g, w->out, w->out ? w->out_bytes : 0);
	} else if (w->in) {
		gt_copy_bytes(area->small[w->parity], w->in, w->in_bytes);
	}
	return gt_shm_check_calls(g, err);
}

/* ---- the small way ---- */

static void finish_small(struct gt_shm *g, const struct work *w)
{
	const void *src[GT_SHM_RANKS_MAX];
	size_t skip = w->c->kind == GT_REDUCE_SCATTER ? (size_t)w->me * w->bytes : 0;

	for (int r = 0; r < w->size; r++)
		src[r] = g->areas[r].small[w->parity] + skip;
	gt_finish_small(w->c, w->out, src, w->size);
}

/* ---- in place ---- */

/* Where all ranks' buffers are; whether all are where they can be seen. */
struct places {
	unsigned char *in[GT_SHM_RANKS_MAX], *out[GT_SHM_RANKS_MAX];
	bool all_in, all_out;
};

static void find_places(struct places *p, const struct gt_shm *g, const struct work *w)
{
	*p = (struct places){ .all_in = true, .all_out = true };
	for (int r = 0; r < w->size; r++) {
		const struct gt_shm_rank_area *area = &g->areas[r];

		p->in[r] = gt_shm_at(g, r, area->posted[w->parity].in, w->in_bytes);
		p->out[r] = gt_shm_at(g, r, area->posted[w->parity].out, w->out_bytes);
		p->all_in = p->all_in && p->in[r];
		p->all_out = p->all_out && p->out[r];
	}
}

/* Whether the collective can be done in place, which all ranks find alike. */
static bool in_place(const struct places *p, const struct work *w)
{
	if (w->c->kind == GT_BROADCAST)
		return p->in[w->c->peer];
	if (w->c->kind == GT_REDUCE)
		return p->all_in && p->out[w->c->peer];
	return p->all_in && (p->all_out || w->c->kind != GT_ALL_REDUCE);
}

/* Reduce this rank's slice into the buffers of all ranks, or of one. */
static void reduce_in_place(const struct places *p, const struct work *w)
{
	const void *src[GT_SHM_RANKS_MAX];
	void *dst[GT_SHM_RANKS_MAX];
	size_t from, to;
	int dsts = 0;

	gt_slice(w->count, w->size, w->me, &from, &to);
	for (int r = 0; r < w->size; r++) {
		src[r] = p->in[r] + from * w->element;
		if (w->c->kind == GT_ALL_REDUCE || r == w->c->peer)
			dst[dsts++] = p->out[r] + from * w->element;
	}
	gt_reduce(dst, dsts, src, w->size, to - from, w->c->dtype, w->c->reduction);
}

static int finish_in_place(
    struct gt_shm *g, const struct places *p, const struct work *w, struct gt_err *err)
{
	const void *src[GT_SHM_RANKS_MAX];

	switch (w->c->kind) {
	case GT_ALL_REDUCE:
	case GT_REDUCE:
		reduce_in_place(p, w);
		break;
	case GT_REDUCE_SCATTER:
		for (int r = 0; r < w->size; r++)
			src[r] = p->in[r] + (size_t)w->me * w->bytes;
		gt_reduce(
		    (void *[]){ w->out }, 1, src, w->size, w->count, w->c->dtype, w->c->reduction);
		break;
	case GT_ALL_GATHER:
		for (int i = 0; i < w->size; i++) {
			int r = (w->me + i) % w->size;

			gt_copy_bytes(
			    w->out + (size_t)r * w->bytes, r == w->me ? w->in : p->in[r], w->bytes);
		}
		break;
	default:
		gt_copy_bytes(w->out, w->in ? w->in : p->in[w->c->peer], w->bytes);
	}
	/*
	 * Until here other ranks read this rank's buffers, or write them; afterwards its caller
	 * may change them.
	 */
	return synchronize(g, err);
}

/* ---- staged ---- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void next_piece(struct gt_shm *g)
{
	g->piece = (g->piece + 1) % GT_SHM_STAGING_SLOTS;
}

/* A piece of the buffers. Between two meetings a rank reduces its slice of the piece that all have
 * copied in, copies out the slices of the previous piece that others have reduced, and copies in
 * the next piece. */
struct piece {
	size_t at, count, from,
	    to; /* elements: in the buffer; in the piece, of this rank's slice */
	uint32_t number;
};

static struct piece piece_at(const struct gt_shm *g, const struct work *w, size_t at)
{
	struct piece p = { .at = at, .number = g->piece };

	p.count = least(g->piece_bytes / w->element, w->count - at);
	gt_slice(p.count, w->size, w->me, &p.from, &p.to);
	return p;
}

/* Copy in all slices of a piece but this rank's own, which no other rank reads before it is
 * reduced. */
static void all_reduce_copy_in(const struct gt_shm *g, const struct work *w, const struct piece *p)
{
	unsigned char *staging = gt_shm_staging(g, w->me, p->number);
	const unsigned char *in = w->in + p->at * w->element;

	gt_copy_bytes(staging, in, p->from * w->element);
	gt_copy_bytes(
	    staging + p->to * w->element, in + p->to * w->element, (p->count - p->to) * w->element);
}

static void all_reduce_slice(const struct gt_shm *g, const struct work *w, const struct piece *p)
{
	size_t skip = p->from * w->element, whole = (p->at + p->from) * w->element;
	const void *src[GT_SHM_RANKS_MAX];
	void *dst[2] = { gt_shm_staging(g, w->me, p->number) + skip };
	int dsts = 1;

	for (int r = 0; r < w->size; r++)
		src[r] = r == w->me ? w->in + whole : gt_shm_staging(g, r, p->number) + skip;
	if (w->out)
		dst[dsts++] = w->out + whole;
	gt_reduce(dst, dsts, src, w->size, p->to - p->from, w->c->dtype, w->c->reduction);
}

static void all_reduce_copy_out(const struct gt_shm *g, const struct work *w, const struct piece *p)
{
	for (int i = 1; w->out && i < w->size; i++) {
		int r = (w->me + i) % w->size;
		size_t from, to;

		gt_slice(p->count, w->size, r, &from, &to);
		gt_copy_bytes(w->out + (p->at + from) * w->element,
		    gt_shm_staging(g, r, p->number) + from * w->element, (to - from) * w->element);
	}
}

/*
 * Example: two ranks, 8 elements, pieces of 4. A rank's slice of a piece is half of it.
 *
 *             rank 0                                   rank 1
 *   piece 0   copies in 2 3                            copies in 0 1
 *   synchronize
 *             reduces 0 1                              reduces 2 3
 *   piece 1   copies in 6 7                            copies in 4 5
 *   synchronize
 *             reduces 4 5, takes 2 3 from rank 1       reduces 6 7, takes 0 1 from rank 0
 *   synchronize
 *             takes 6 7                                takes 4 5
 */
static int all_reduce_staged(struct gt_shm *g, const struct work *w, struct gt_err *err)
{
	struct piece now, before = { 0 };

	for (size_t at = 0; at < w->count || before.count; at += now.count, before = now) {
		now = piece_at(g, w, at);
		all_reduce_copy_in(g, w, &now);
		if (synchronize(g, err))
			return err->code;
		all_reduce_slice(g, w, &now);
		all_reduce_copy_out(g, w, &before);
		if (now.count)
			next_piece(g);
	}
	return 0;
}

static int reduce_scatter_staged(struct gt_shm *g, const struct work *w, struct gt_err *err)
{
	const size_t max = g->piece_bytes / w->element / (size_t)w->size, part = max * w->element;
	const void *src[GT_SHM_RANKS_MAX];

	for (size_t at = 0; at < w->count; at += max) {
		size_t m = least(max, w->count - at), skip = at * w->element;

		for (int r = 0; r < w->size; r++)
			if (r != w->me)
				gt_copy_bytes(gt_shm_staging(g, w->me, g->piece) + (size_t)r * part,
				    w->in + (size_t)r * w->bytes + skip, m * w->element);
		if (synchronize(g, err))
			return err->code;
		for (int r = 0; r < w->size; r++)
			src[r] = r == w->me ? w->in + (size_t)r * w->bytes + skip
			                    : gt_shm_staging(g, r, g->piece) + (size_t)w->me * part;
		gt_reduce(
		    (void *[]){ w->out + skip }, 1, src, w->size, m, w->c->dtype, w->c->reduction);
		next_piece(g);
	}
	return 0;
}

/* All-gather and broadcast: ranks with an input copy it in, the others copy it out. */
static int copies_staged(struct gt_shm *g, const struct work *w, struct gt_err *err)
{
	const size_t max = g->piece_bytes / w->element * w->element;
	const bool gather = w->c->kind == GT_ALL_GATHER;

	for (size_t at = 0; at < w->bytes; at += max) {
		size_t m = least(max, w->bytes - at);

		if (w->in)
			gt_copy_bytes(gt_shm_staging(g, w->me, g->piece), w->in + at, m);
		if (synchronize(g, err))
			return err->code;
		for (int i = 0; i < w->size; i++) {
			int r = (w->me + i) % w->size;

			if (gather || r == w->c->peer)
				gt_copy_bytes(w->out + (gather ? (size_t)r * w->bytes : 0) + at,
				    r == w->me ? w->in + at : gt_shm_staging(g, r, g->piece), m);
		}
		next_piece(g);
	}
	return 0;
}

static int finish_staged(struct gt_shm *g, const struct work *w, struct gt_err *err)
{
	switch (w->c->kind) {
	case GT_ALL_REDUCE:
	case GT_REDUCE:
		return all_reduce_staged(g, w, err);
	case GT_REDUCE_SCATTER:
		return reduce_scatter_staged(g, w, err);
	default:
		return copies_staged(g, w, err);
	}
}

int gt_shm_collect(struct gt_shm *g, const struct gt_collective *c, struct gt_err *err)
{
	struct work w = work_of(g, c);
	struct places places;

	if (w.size == 1) {
		alone(&w);
		return 0;
	}
	if (enter_shm_collective(g, &w, err))
		return err->code;
	if (w.in_bytes <= GT_SHM_SMALL_BYTES) {
		finish_small(g, &w);
		return 0;
	}
	find_places(&places, g, &w);
	if (in_place(&places, &w))
		return finish_in_place(g, &places, &w, err);
	return finish_staged(g, &w, err);
}
