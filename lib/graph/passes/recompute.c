/* recompute.c - the forward part of a block is computed again for its backward part. */
#include <stdlib.h>
#include <string.h>

#include "lib/graph/pass.h"
#include "lib/graph/passes/recompute_shares.h"

/*
 * Three blocks, forward and backward, as the passes before leave them. Block 0 makes x1 for block
 * 1, and t0 are its other results that its backward part reads:
 *
 *   x1 t0 = F0(x0)   x2 t1 = F1(x1)   loss t2 = F2(x2)   B2(x2, t2)   B1(x1, t1)   B0(x0, t0)
 *
 * With blocks 0 and 1 computed again, t0 and t1 end with F0 and F1, and copies t' come later:
 *
 *   x1 = F0(x0)   x2 = F1(x1)   loss t2 = F2(x2)   B2(x2, t2)
 *   t1' = F1'(x1)   B1(x1, t1')   t0' = F0'(x0)   B0(x0, t0')
 *
 * F' are the nodes of F that t needs, in the same order. They read the same values as F does, so
 * t' has the bits of t.
 *
 * Blocks are the repeated modules of a model, which profiles name, too (gt_scope_block()). Where
 * they need far more memory than equal shares of the forward part (recompute_shares.c), the shares
 * are the blocks: modules may have other names, be few and large, or contain nothing but a layer.
 */

/* A value is small if its node has another input or output that is SMALL times as large. */
enum { SMALL = 32 };

struct block {
	const char *scope; /* NULL: a share */
	size_t length;     /* length of the block's name at the start of `scope` */
	/* bytes of values that the backward part reads and a copy can compute again */
	size_t bytes;
	/* the block has the loss, so its values exist when the backward part begins */
	bool last;
	bool chosen, emitted;
};

struct pass {
	struct gt_graph *g;
	size_t middle; /* index of the first node of the backward part */
	struct block *blocks;
	size_t block_count;
	int *block_of; /* [nodes] index in blocks, for nodes of the forward part */
	int *home;    /* [values] block of the node that makes the value; -1: none, or it is kept */
	bool *wanted; /* [values] a copy computes the value */
	bool *is_read;            /* [values] the backward part reads the value */
	bool *is_kept;            /* [values] a copy reads the value, which no copy computes */
	struct gt_value **copies; /* [values] the value that the copy computes */
};

static bool applies_recompute(const struct gt_pass_options *options)
{
	return options->loss && options->recompute;
}

/* Return whether a node may run again with the same result: it writes no input, no other node
 * writes its inputs, and no rank or host waits for it. */
static bool is_repeatable(const struct gt_node *n)
{
	if (n->op->remote || (n->op->writes && !n->op->repeat))
		return false;
	for (int k = 0; !n->op->repeat && k < n->inputs; k++)
		if (n->in[k] && gt_value_changes(n->in[k]))
			return false;
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k] && (n->out[k]->role != GT_TEMPORARY || n->out[k]->within))
			return false;
	return true;
}

/* Return whether v is small, such as statistics of rows or channels, and thus cheap to keep. */
static bool is_small(const struct gt_node *n, const struct gt_value *v)
{
	size_t max = 0;

	for (int k = 0; k < n->inputs + n->outputs; k++) {
		const struct gt_value *x = k < n->inputs ? n->in[k] : n->out[k - n->inputs];

		if (x && !gt_value_is_weight(x) && gt_value_bytes(x) > max)
			max = gt_value_bytes(x);
	}
	return gt_value_bytes(v) <= max / SMALL;
}

/* Set the block of each value that a copy of the block could compute. */
static void find_homes(struct pass *p)
{
	for (size_t i = 0; i < p->g->value_count; i++)
		p->home[i] = -1;
	for (size_t i = 0; i < p->middle; i++) {
		const struct gt_node *n = p->g->nodes[i];

		for (int k = 0; k < n->outputs && is_repeatable(n); k++)
			if (n->out[k] && !(k && n->op->repeat) && !is_small(n, n->out[k]))
				p->home[n->out[k]->id] = p->block_of[i];
	}
	p->blocks[p->block_of[p->middle - 1]].last = true;
	for (size_t i = 0; i < p->middle; i++)
		for (int k = 0; k < p->g->nodes[i]->inputs; k++) {
			const struct gt_value *v = p->g->nodes[i]->in[k];

			if (v && p->home[v->id] != p->block_of[i])
				p->home[v->id] = -1;
		}
}

static struct block *home_of(const struct pass *p, const struct gt_value *v)
{
	return v && p->home[v->id] >= 0 ? &p->blocks[p->home[v->id]] : NULL;
}

static void find_read(struct pass *p)
{
	for (size_t i = p->middle; i < p->g->node_count; i++)
		for (int k = 0; k < p->g->nodes[i]->inputs; k++)
			if (p->g->nodes[i]->in[k])
				p->is_read[p->g->nodes[i]->in[k]->id] = true;
}

/* Mark the values that the backward part reads and copies can compute; count their bytes by
 * blocks. */
static void find_wanted(struct pass *p)
{
	for (size_t i = 0; i < p->g->value_count; i++) {
		const struct gt_value *v = p->g->values[i];
		struct block *b = home_of(p, v);

		p->wanted[i] = p->is_read[i] && b && !b->last;
		if (p->wanted[i] && !v->producer->op->view)
			b->bytes += gt_value_bytes(v);
	}
}

/* Choose up to r->max blocks that free most. Among equal blocks, the first is chosen, because its
 * values would be kept longest. */
static void choose_blocks(struct pass *p, struct gt_recompute *r)
{
	r->blocks = r->done = 0;
	for (size_t i = 0; i < p->block_count; i++)
		r->blocks += p->blocks[i].bytes > 0;
	for (; r->done < r->blocks && r->done < r->max; r->done++) {
		struct block *best = NULL;

		for (size_t i = 0; i < p->block_count; i++)
			if (!p->blocks[i].chosen && (!best || p->blocks[i].bytes > best->bytes))
				best = &p->blocks[i];
		best->chosen = true;
	}
}

static bool is_wanted(const struct pass *p, const struct gt_node *n)
{
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k] && p->wanted[n->out[k]->id])
			return true;
	return false;
}

/* Mark the values that the copies themselves read. */
static void want_inputs(struct pass *p)
{
	for (size_t i = p->middle; i-- > 0;) {
		const struct gt_node *n = p->g->nodes[i];

		for (int k = 0; is_wanted(p, n) && k < n->inputs; k++)
			if (home_of(p, n->in[k]))
				p->wanted[n->in[k]->id] = true;
	}
}

/* ---- the choice of blocks ---- */

static int find_block(struct pass *p, const char *scope)
{
	size_t length = gt_scope_block(scope), i = 0;

	while (i < p->block_count &&
	       (p->blocks[i].length != length || memcmp(p->blocks[i].scope, scope, length) != 0))
		i++;
	if (i == p->block_count)
		p->blocks[p->block_count++] = (struct block){ .scope = scope, .length = length };
	return (int)i;
}

/* Find homes and bytes for the blocks of p->block_of. */
static void find_contents(struct pass *p)
{
	for (size_t i = 0; i < p->block_count; i++) {
		p->blocks[i].bytes = 0;
		p->blocks[i].last = false;
	}
	find_homes(p);
	find_wanted(p);
}

/* Return the bytes of a value that is kept until the backward part. */
static size_t kept_bytes(const struct pass *p, const struct gt_value *v)
{
	bool kept = v && v->role == GT_TEMPORARY && !p->wanted[v->id] &&
	            (p->is_read[v->id] || p->is_kept[v->id]);

	return kept ? gt_value_bytes(v) : 0;
}

/* The bytes that are kept until the backward part, and those of the largest block. */
static size_t count_peak(struct pass *p)
{
	size_t kept = 0, largest = 0;

	want_inputs(p);
	memset(p->is_kept, 0, p->g->value_count * sizeof(*p->is_kept));
	for (size_t i = p->middle; i-- > 0;) {
		const struct gt_node *n = p->g->nodes[i];

		for (int k = 0; k < n->inputs; k++)
			if (n->in[k] && is_wanted(p, n) && !home_of(p, n->in[k]))
				p->is_kept[n->in[k]->id] = true;
		for (int k = 0; k < n->outputs && !n->op->view; k++)
			kept += kept_bytes(p, n->out[k]);
	}
	for (size_t i = 0; i < p->block_count; i++)
		if (p->blocks[i].bytes > largest)
			largest = p->blocks[i].bytes;
	return kept + largest;
}

static void take_modules(struct pass *p)
{
	memset(p->blocks, 0, p->middle * sizeof(*p->blocks));
	p->block_count = 0;
	for (size_t i = 0; i < p->middle; i++)
		p->block_of[i] = find_block(p, p->g->nodes[i]->scope);
	find_contents(p);
}

/* The values that could be computed again if the whole forward part were one block. */
static int take_shares(struct pass *p, struct gt_err *err)
{
	int count;

	memset(p->block_of, 0, p->middle * sizeof(*p->block_of));
	memset(p->blocks, 0, p->middle * sizeof(*p->blocks));
	p->block_count = 1;
	find_homes(p);
	for (size_t i = 0; i < p->g->value_count; i++)
		p->wanted[i] = p->is_read[i] && p->home[i] >= 0;
	count = gt_recompute_shares(p->g, p->middle, p->wanted, p->block_of, err);
	if (count < 0)
		return count;
	p->block_count = (size_t)count;
	find_contents(p);
	return 0;
}

static int find_blocks(struct pass *p, struct gt_err *err)
{
	size_t modules, shares;
	int rc;

	find_read(p);
	take_modules(p);
	modules = count_peak(p);
	rc = take_shares(p, err);
	if (rc)
		return rc;
	shares = count_peak(p);
	if (shares >= modules / 5 * 4)
		take_modules(p);
	else
		find_contents(p);
	return 0;
}

/* ---- the copies ---- */

/* Make a node read the values of the copies if there are any. */
static void redirect(struct pass *p, struct gt_node *n)
{
	for (int k = 0; k < n->inputs; k++)
		if (n->in[k] && p->copies[n->in[k]->id])
			n->in[k] = p->copies[n->in[k]->id];
}

static void emit_copy(struct pass *p, const struct gt_node *n)
{
	struct gt_node *copy;

	p->g->scope = n->scope;
	copy = n->op->repeat ? n->op->repeat(p->g, n) : gt_node_copy(p->g, n);
	if (!copy)
		return;
	copy->is_repeat = true;
	for (int k = 0; k < copy->outputs; k++)
		if (copy->out[k]) {
			copy->out[k]->layout = n->out[k]->layout;
			p->copies[n->out[k]->id] = copy->out[k];
		}
	redirect(p, copy);
}

/* Emit the copies at the end of the list, which begins with the forward part. */
static void emit_block(struct pass *p, struct block *b)
{
	b->emitted = true;
	for (size_t i = 0; i < p->middle; i++)
		if (&p->blocks[p->block_of[i]] == b && is_wanted(p, p->g->nodes[i]))
			emit_copy(p, p->g->nodes[i]);
}

static void emit_backward(struct pass *p, struct gt_node *const *nodes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (int k = 0; k < nodes[i]->inputs; k++) {
			struct block *b = home_of(p, nodes[i]->in[k]);

			if (b && b->chosen && !b->emitted)
				emit_block(p, b);
		}
		redirect(p, nodes[i]);
		gt_append_node(p->g, nodes[i]);
	}
}

static int recompute(
    struct pass *p, struct gt_recompute *r, struct gt_node **backward, struct gt_err *err)
{
	size_t count = p->g->node_count - p->middle;

	if (find_blocks(p, err))
		return err->code;
	choose_blocks(p, r);
	if (!r->done)
		return 0;
	want_inputs(p);
	memcpy(backward, p->g->nodes + p->middle, count * sizeof(struct gt_node *));
	p->g->node_count = p->middle;
	emit_backward(p, backward, count);
	return gt_graph_status(p->g, err);
}

static int run_recompute(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	struct pass p = { .g = g, .middle = gt_node_index(g, options->loss->producer) + 1 };
	struct gt_node **backward = gt_calloc(g->node_count, sizeof(struct gt_node *), err);
	int rc = GT_ENOMEM;

	p.blocks = gt_calloc(p.middle, sizeof(*p.blocks), err);
	p.block_of = gt_calloc(p.middle, sizeof(*p.block_of), err);
	p.home = gt_calloc(g->value_count, sizeof(*p.home), err);
	p.wanted = gt_calloc(g->value_count, sizeof(*p.wanted), err);
	p.is_read = gt_calloc(g->value_count, sizeof(*p.is_read), err);
	p.is_kept = gt_calloc(g->value_count, sizeof(*p.is_kept), err);
	p.copies = gt_calloc(g->value_count, sizeof(struct gt_value *), err);
	if (backward && p.blocks && p.block_of && p.home && p.wanted && p.is_read && p.is_kept &&
	    p.copies)
		rc = recompute(&p, options->recompute, backward, err);
	free(backward);
	free(p.blocks);
	free(p.block_of);
	free(p.home);
	free(p.wanted);
	free(p.is_read);
	free(p.is_kept);
	free(p.copies);
	return rc;
}

const struct gt_pass gt_pass_recompute = {
	.name = "recompute",
	.purpose = "compute the forward part of blocks again instead of keeping its results",
	.applies = applies_recompute,
	.run = run_recompute,
};
