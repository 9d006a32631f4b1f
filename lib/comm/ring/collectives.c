/* collectives.c - collectives from neighbour to neighbour, over any kind of peer copies. */
#include <assert.h>

#include "lib/comm/group_backend.h"
#include "lib/comm/ring/peers.h"

/*
 * Source: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 69(2), 2009.
 *
 * Three ranks add up a buffer of three slices: rank r has a[r], b[r], c[r]. In each step a rank
 * works on one slice, the one that came from the rank before, and sends the outcome on:
 *
 *           rank 0                  rank 1                  rank 2
 *   step 0  sends c0                sends a1                sends b2
 *   step 1  gets b2, sends b2+b0    gets c0, sends c0+c1    gets a1, sends a1+a2
 *   step 2  gets a1+a2              gets b2+b0              gets c0+c1
 *           sends a = a1+a2+a0      sends b = b2+b0+b1      sends c = c0+c1+c2
 *   step 3  gets c, sends c         gets a, sends a         gets b, sends b
 *   step 4  gets b                  gets c                  gets a
 *
 * Their buffers after each step (a dot: not written yet):
 *
 *   step 1  .  .  .                 .  .  .                 .  .  .
 *   step 2  a  .  .                 .  b  .                 .  .  c
 *   step 3  a  .  c                 a  b  .                 .  b  c
 *   step 4  a  b  c                 a  b  c                 a  b  c
 *
 * (a1+a2 is sent as two numbers, as it is no part of the tree (a0+a1)+a2: ring/peers.h.)
 *
 * In step s rank r works on slice (r - 1 - s) modulo n. Steps 0 to n - 1 are a reduce-scatter,
 * which ends with slice r on rank r; steps n - 1 to 2n - 2 an all-gather, which begins with it.
 *
 * A slice is cut into GT_RING_CHUNKS chunks, and each step is done for all of them before the next
 * step: while a rank adds up one chunk, the others are on their way. A longer buffer goes around
 * lap by lap.
 *
 * No rank waits for ever: call the work on one chunk in one step an act, and number a rank's acts.
 * The chunk that act n receives was sent in the neighbour's act n - GT_RING_CHUNKS. Act n has a
 * slot to send as soon as the neighbour has consumed the chunk sent GT_RING_SLOTS acts before,
 * which it does in its act n - GT_RING_SLOTS + GT_RING_CHUNKS. Both come before n, so the rank
 * whose act has the smallest number never waits. Empty chunks are left out at both ends, so that
 * the acts which others wait for are, if anything, earlier ones.
 */
_Static_assert(GT_RING_SLOTS > GT_RING_CHUNKS, "an act waits for earlier ones alone");

/* ---- partial sums ---- */

/* A part of the tree over all ranks: those from `from` to `to`. */
struct node {
	int from, to;
};

/* The other child of a node's parent, which becomes *parent. The node is not the root. */
static struct node sibling_of(struct node child, int size, struct node *parent)
{
	struct node at = { 0, size };

	for (;;) {
		int middle = at.from + gt_reduce_left(at.to - at.from);
		struct node left = { at.from, middle }, right = { middle, at.to };

		*parent = at;
		if (child.from == left.from && child.to == left.to)
			return right;
		if (child.from == right.from && child.to == right.to)
			return left;
		at = child.from < middle ? left : right;
	}
}

static int find_node(const struct node *nodes, int count, struct node wanted)
{
	for (int i = 0; i < count; i++)
		if (nodes[i].from == wanted.from && nodes[i].to == wanted.to)
			return i;
	return -1;
}

/* Rank `rank` comes to the partial sums of nodes[count], which become those that it sends. */
static struct gt_ring_hop hop_to(struct node *nodes, int count, int size, int rank)
{
	struct gt_ring_hop hop = { .received = count };
	struct node own = { rank, rank + 1 }, parent;
	int i;

	while (own.to - own.from < size) {
		i = find_node(nodes, count, sibling_of(own, size, &parent));
		if (i < 0)
			break;
		hop.added[hop.added_count++] = i;
		nodes[i].to = nodes[i].from; /* no node any more */
		own = parent;
	}
	for (i = 0; i < count; i++)
		if (nodes[i].to > nodes[i].from) {
			nodes[hop.kept_count] = nodes[i];
			hop.kept[hop.kept_count++] = i;
		}
	assert(hop.kept_count < GT_RING_PARTIALS);
	nodes[hop.kept_count] = own;
	hop.sent = hop.kept_count + 1;
	return hop;
}

/*
 * Rings are ordered groups: each element is summed in the order of a fixed tree over the ranks
 * (lib/comm/group.h). But in a ring the first rank of a sum may be any rank. So a rank sends not
 * one sum, but all partial sums of the tree that are complete so far. Example: the sum over four
 * ranks that begins at rank 1.
 *
 *   rank 1 sends    1
 *   rank 2 sends    1   2             not 1 + 2, which is not a partial sum of (0 + 1) + (2 + 3)
 *   rank 3 sends    1   2 + 3
 *   rank 0 has      (0 + 1) + (2 + 3)
 *
 * A rank adds some of the received partial sums to its own elements: those that it can add without
 * changing the order of the tree. It sends the result, and copies the other partial sums unchanged.
 * The largest number of partial sums that a rank sends is 1 for two ranks, 2 for up to four, 3 for
 * up to eight, and about log2(n) for n ranks.
 */
struct gt_ring_hop gt_ring_hop_of(int size, int first, int k)
{
	struct node nodes[GT_RING_PARTIALS];
	struct gt_ring_hop hop = { 0 };

	for (int i = 0; i <= k; i++)
		hop = hop_to(nodes, hop.sent, size, (first + i) % size);
	return hop;
}

int gt_ring_most_partials(int size)
{
	int max = 1;

	for (int first = 0; first < size; first++) {
		struct node nodes[GT_RING_PARTIALS];
		struct gt_ring_hop hop = { 0 };

		for (int k = 0; k < size; k++) {
			hop = hop_to(nodes, hop.sent, size, (first + k) % size);
			max = hop.sent > max ? hop.sent : max;
		}
	}
	return max;
}

/* ---- one chunk ---- */

/* The work on a chunk: take it from the rank before, or from `in`, put it into `out`, and send it
 * to the next rank. */
struct act {
	bool receives, sends;
	bool adds;  /* `in` is added to the bytes received; otherwise bytes are copied */
	bool whole; /* the result is the sum of all ranks */
	const unsigned char *in;
	unsigned char *out;            /* NULL: the chunk is only sent */
	size_t count;                  /* elements of the chunk */
	size_t stride;                 /* elements from one partial sum to the next */
	const struct gt_ring_hop *hop; /* the partial sums that the act handles, if it `adds` */
};

/* Partial sum `i` of a slot. */
static const void *partial_at(
    const struct gt_collective *c, const struct act *a, const void *slot, int i)
{
	size_t size = gt_dtype_size(gt_reduce_partial(c->dtype));

	return (const unsigned char *)slot + (size_t)i * a->stride * size;
}

/* The partial sums that this rank does not complete. */
static int copy_kept(const struct gt_ring_seat *r, const struct gt_collective *c,
    const struct act *a, const void *came, void *slot, struct gt_err *err)
{
	size_t bytes = a->count * gt_dtype_size(gt_reduce_partial(c->dtype));

	for (int i = 0; i < a->hop->kept_count; i++) {
		void *to = (void *)partial_at(c, a, slot, i);

		if (r->peers->copy(
		        r->self, &to, 1, partial_at(c, a, came, a->hop->kept[i]), bytes, err))
			return err->code;
	}
	return 0;
}

/* `slot` is NULL where nothing is sent. */
static int write_sums(const struct gt_ring_seat *r, const struct gt_collective *c,
    const struct act *a, const void *came, void *slot, struct gt_err *err)
{
	struct gt_reduce_step step = { .partials = a->hop->added_count,
		.in = a->in,
		.count = a->count,
		.dtype = c->dtype,
		.reduction = c->reduction,
		.ranks = a->whole ? r->size : 0 };

	if (a->out)
		step.dst[step.dsts++] = a->out;
	if (slot)
		step.dst[step.dsts++] = (void *)partial_at(c, a, slot, a->hop->kept_count);
	for (int i = 0; i < step.partials; i++)
		step.partial[i] = partial_at(c, a, came, a->hop->added[i]);
	return slot && copy_kept(r, c, a, came, slot, err) ? err->code
	                                                   : r->peers->reduce(r->self, &step, err);
}

static int write_chunk(const struct gt_ring_seat *r, const struct gt_collective *c,
    const struct act *a, const void *came, void *slot, struct gt_err *err)
{
	size_t bytes = a->count * gt_dtype_size(c->dtype);
	void *dst[2];
	int dsts = 0;

	if (a->adds)
		return write_sums(r, c, a, came, slot, err);
	if (a->out)
		dst[dsts++] = a->out;
	if (slot)
		dst[dsts++] = slot;
	return r->peers->copy(r->self, dst, dsts, came ? came : a->in, bytes, err);
}

/* Both ends of a link know when a chunk is empty. */
static int act(const struct gt_ring_seat *r, const struct gt_collective *c, const struct act *a,
    struct gt_err *err)
{
	const struct gt_ring_peers *peers = r->peers;
	const void *came = NULL;
	void *slot = NULL;

	if (!a->count)
		return 0;
	if (a->sends && peers->free_slot(r->self, &slot, err))
		return err->code;
	if (a->receives && peers->arrived(r->self, &came, err))
		return err->code;
	if (write_chunk(r, c, a, came, slot, err) ||
	    (a->receives && peers->consume(r->self, err)) ||
	    (a->sends && peers->signal(r->self, err)))
		return err->code;
	return 0;
}

/* ---- a slice per rank ---- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Elements of a chunk. Partial sums may be wider than the elements, and several. Whole lines of
 * elements, as slices are, if one fits. */
static size_t chunk_of(const struct gt_ring_seat *r, const struct gt_collective *c)
{
	bool moves = c->kind == GT_ALL_GATHER || c->kind == GT_BROADCAST;
	size_t size = gt_dtype_size(moves ? c->dtype : gt_reduce_partial(c->dtype));
	size_t count = r->chunk_bytes / size;

	if (!moves)
		count /= (size_t)r->partials;
	return count < GT_COMM_LINE ? count : count / GT_COMM_LINE * GT_COMM_LINE;
}

/* `count` elements from `at` on: of the buffer for an all-reduce, otherwise of each part. */
struct lap {
	size_t at, count;
	int first, last; /* steps */
	size_t chunk;    /* elements, at most */
};

/* Where slice `slice` of a lap lies, in elements. */
struct place {
	size_t in, out, count;
};

static struct place slice_place(
    const struct gt_ring_seat *r, const struct gt_collective *c, const struct lap *l, int slice)
{
	size_t before = (size_t)slice * (size_t)c->count, from = 0, to = l->count;
	bool gathers = c->kind == GT_ALL_GATHER, scatters = c->kind == GT_REDUCE_SCATTER;

	if (c->kind == GT_ALL_REDUCE)
		gt_slice(l->count, r->size, slice, &from, &to);
	return (struct place){ .in = l->at + from + (scatters ? before : 0),
		.out = l->at + from + (gathers ? before : 0),
		.count = to - from };
}

/* The slice that this rank works on in step `s`. */
static int slice_of(const struct gt_ring_seat *r, int s)
{
	return (r->rank - 1 - s + 2 * r->size) % r->size;
}

/* Chunk `chunk` in step `s`. */
static struct act act_of(const struct gt_ring_seat *r, const struct gt_collective *c,
    const struct lap *l, int s, int chunk)
{
	const int n = r->size, slice = slice_of(r, s);
	const size_t size = gt_dtype_size(c->dtype), max = l->chunk;
	const struct place p = slice_place(r, c, l, slice);
	const size_t skip = least((size_t)chunk * max, p.count);
	struct act a = { .receives = s > l->first,
		.sends = s < l->last,
		.adds = s < n && l->first == 0,
		.whole = s == n - 1,
		.count = least(max, p.count - skip),
		.stride = max };

	if (s < n)
		a.in = (const unsigned char *)c->in + (p.in + skip) * size;
	if (s >= n - 1)
		a.out = (unsigned char *)c->out + (p.out + skip) * size;
	return a;
}

static int go_around(const struct gt_ring_seat *r, const struct gt_collective *c,
    const struct lap *l, struct gt_err *err)
{
	struct gt_ring_hop hop;

	for (int s = l->first; s <= l->last; s++) {
		if (!l->first && s < r->size)
			hop = gt_ring_hop_of(r->size, (slice_of(r, s) + 1) % r->size, s);
		for (int chunk = 0; chunk < GT_RING_CHUNKS; chunk++) {
			struct act a = act_of(r, c, l, s, chunk);

			a.hop = &hop;
			if (act(r, c, &a, err))
				return err->code;
		}
	}
	return 0;
}

static int collect_slices(
    const struct gt_ring_seat *r, const struct gt_collective *c, struct gt_err *err)
{
	const int n = r->size;
	const size_t slices = c->kind == GT_ALL_REDUCE ? (size_t)n : 1;
	const size_t chunk = chunk_of(r, c), count = (size_t)c->count;
	const size_t max = slices * GT_RING_CHUNKS * chunk;
	struct lap l = { .chunk = chunk,
		.first = c->kind == GT_ALL_GATHER ? n - 1 : 0,
		.last = c->kind == GT_REDUCE_SCATTER ? n - 1 : 2 * n - 2 };

	for (; l.at < count; l.at += max) {
		l.count = least(max, count - l.at);
		if (go_around(r, c, &l, err))
			return err->code;
	}
	return 0;
}

/* ---- chunk behind chunk ---- */

/* Once around: a broadcast begins with its root, a reduction ends there. Chunk n waits for chunk n
 * of the rank before, and for the slot that the next rank frees after chunk n - GT_RING_SLOTS. */
static int pass_on(const struct gt_ring_seat *r, const struct gt_collective *c, struct gt_err *err)
{
	const int n = r->size, from_root = (r->rank - c->peer + n) % n;
	const bool sums = c->kind == GT_REDUCE;
	const int place = sums ? (from_root + n - 1) % n : from_root;
	const size_t size = gt_dtype_size(c->dtype), max = chunk_of(r, c);
	const size_t count = (size_t)c->count;
	struct gt_ring_hop hop;

	if (sums)
		hop = gt_ring_hop_of(n, (c->peer + 1) % n, place);
	for (size_t at = 0; at < count; at += max) {
		struct act a = { .receives = place > 0,
			.sends = place < n - 1,
			.adds = sums,
			.whole = place == n - 1,
			.count = least(max, count - at),
			.stride = max,
			.hop = &hop };

		if (sums || !from_root)
			a.in = (const unsigned char *)c->in + at * size;
		if (!sums || !from_root)
			a.out = (unsigned char *)c->out + at * size;
		if (act(r, c, &a, err))
			return err->code;
	}
	return 0;
}

/*
 * The cost of a collective. Let n be the number of ranks, P = gt_ring_most_partials(n), and B the
 * bytes of the whole buffer. Each rank sends the number of bytes below. Partial sums of F16 and
 * BF16 are sent as float32, so they take twice this number of bytes.
 *
 *   reduce-scatter   n - 1 steps, B * (n - 1) / n bytes for each partial sum; 1 to P partial sums
 *   all-gather       n - 1 steps, B * (n - 1) / n bytes
 *   all-reduce       a reduce-scatter and an all-gather
 *   broadcast        B bytes, in chunks that go once around the ring
 *   reduce           B bytes for each partial sum; 1 to P partial sums
 */
int gt_ring_collect(const struct gt_ring_seat *r, const struct gt_collective *c, struct gt_err *err)
{
	if (r->peers->enter(r->self, c, err))
		return err->code;
	return c->kind == GT_BROADCAST || c->kind == GT_REDUCE ? pass_on(r, c, err)
	                                                       : collect_slices(r, c, err);
}
