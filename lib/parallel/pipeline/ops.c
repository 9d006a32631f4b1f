/* ops.c - values on their way from stage to stage, as nodes. */
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/parallel/collective_nodes.h"
#include "lib/parallel/pipeline/stage.h"

/*
 * Emit a node that receives or sends a value. `link` is a value of enum gt_pipe_link, or
 * GT_PIPE_LINKS + i for the group of the tied parameter with index i in gt_pipeline.tied.
 *
 * gt_pipe_recv() returns a value with the type and shape of `like`. The value also has the flag
 * gt_value.low of `like`: with mixed precision, the value is sent in the 16-bit type. The gradient
 * of the returned value is sent back, unless `constant` is true.
 *
 * gt_pipe_send() sends x. The output of its node is a token with the type and shape of `token`; if
 * `token` is NULL, there is no output. The token replaces a result, such as the loss, that only a
 * later stage computes.
 */

/*
 * Why nothing here waits for ever. A send ends when the neighbour receives; it is waited for just
 * before the next one over the same link, or at the end. By the orders of gt_pipeline_order(), a
 * stage p that is about to send chunk c + 1 forward has received all gradients that p + 1 makes
 * before it goes forward with chunk c: p goes forward once more than p + 1 before its first
 * backward pass, and then both alternate (in GPipe there are none so early). So p + 1 is about to
 * receive chunk c, or has done so. Likewise, when p is about to send the gradient of one chunk
 * back, p - 1 has sent all that comes before its receipt of the last one. Only waits to receive
 * remain. They follow the values and their gradients, whose dependencies have no cycle. Links of
 * their own keep one direction from holding up the other.
 *
 * Where one group has the messages of all links, its operations follow each other, and each ends
 * when the stages at the other ends have begun theirs. There a send waits for the stage's next
 * message: if that is a receive, both are one operation, as the neighbour may send, too, before it
 * receives. Example, 1F1B with two stages and three chunks; v are values, g gradients:
 *
 *   stage 0   send v0   send v1, receive g0   send v2, receive g1   receive g2
 *   stage 1   receive v0   send g0, receive v1   send g1, receive v2   send g2
 *
 * One by one, stage 0 would send v1 until stage 1 receives it, which sends g0 until stage 0
 * receives that. test_pipeline_stages.c goes through the orders of many stages and chunks.
 *
 * Gradients of tied parameters (pipeline/tied.c) go to the first stage likewise, each as the last
 * thing of a chunk's backward pass: before a sender waits for the first stage to receive the
 * gradient of chunk c, which it does at chunk c + 1, it has sent everything that the first stage
 * needs to get that far.
 *
 * Virtual ranks (virtual/rewrite.h) are chunks that go through a stage together: they send one
 * value after the other, and all go forward before any goes back. As in GPipe, the next stage is
 * about to receive.
 */

static const char *const names[] = { [GT_PIPE_FROM_BEFORE] = "from-before",
	[GT_PIPE_TO_NEXT] = "to-next",
	[GT_PIPE_FROM_NEXT] = "from-next",
	[GT_PIPE_TO_BEFORE] = "to-before" };

/* Both ends give a message the same name. */
static const char *description_of(const struct gt_call *call)
{
	const struct gt_parallel *p = call->context;
	int link = gt_node_attrs(&call->attrs).pipe.link;

	if (link >= GT_PIPE_LINKS)
		return gt_pipeline_of(p)->tied[link - GT_PIPE_LINKS].slot->name;
	return link == GT_PIPE_FROM_BEFORE || link == GT_PIPE_TO_NEXT ? "values of a stage"
	                                                              : "gradients of a stage";
}

static int infer_pipe(struct gt_node *n, struct gt_err *err)
{
	const union gt_node_attrs attrs = gt_node_attrs(&n->attrs);

	(void)err;
	if (attrs.pipe.ndim < 0)
		n->out[0] = NULL;
	else
		gt_infer_shape(n->out[0], attrs.pipe.dtype, attrs.pipe.ndim, attrs.pipe.shape);
	return 0;
}

static void print_link(const struct gt_node *n, FILE *f)
{
	int link = gt_node_attrs(&n->attrs).pipe.link;

	if (link < GT_PIPE_LINKS)
		fprintf(f, " %s", names[link]);
	else
		fprintf(f, " tied %d", link - GT_PIPE_LINKS);
}

/* The gradient of the sent value comes back; the token stands for the loss of another stage, and
 * its gradient carries nothing. */
static void grad_send(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	(void)d_out;
	if (wanted[0])
		d_in[0] = gt_pipe_recv(g, n->in[0], GT_PIPE_FROM_NEXT, false);
}

static void grad_recv(struct gt_graph *g, struct gt_node *n, struct gt_value *const *d_out,
    const bool *wanted, struct gt_value **d_in)
{
	(void)n;
	(void)wanted;
	(void)d_in;
	gt_pipe_send(g, d_out[0], NULL, GT_PIPE_TO_BEFORE);
}

#define SEND(class)                                                                                \
	{                                                                                          \
		.name = "pipe_send", .min_inputs = 1, .max_inputs = 1, .outputs = 1,               \
		.infer = infer_pipe, .grad = grad_send, .print = print_link,                       \
		.flops = gt_nodes_no_flops, .image_in = 1u << 0, .remote = true, .autocast = class \
	}

/* Where precision is mixed both ends have to know the type: that of the value in the graph of the
 * whole model. */
static const struct gt_op op_send = SEND(GT_AUTOCAST_HIGH), op_send_low = SEND(GT_AUTOCAST_LOW);

#define RECV(is_constant)                                                                          \
	{                                                                                          \
		.name = "pipe_recv", .outputs = 1, .infer = infer_pipe, .grad = grad_recv,         \
		.print = print_link, .flops = gt_nodes_no_flops, .image_out = 1u << 0,             \
		.remote = true, .constant = is_constant, .autocast = GT_AUTOCAST_MARKED            \
	}

/* No gradient goes back to stages that train nothing. */
static const struct gt_op op_recv = RECV(false), op_recv_constant = RECV(true);

static const struct gt_op op_wait = {
	.name = "pipe_wait",
	.min_inputs = 1,
	.max_inputs = 1,
	.infer = gt_nodes_infer_nothing,
	.print = print_link,
	.flops = gt_nodes_no_flops,
	.remote = true,
};

/* Attributes for a node with an output like `like`, or without an output (NULL). */
static union gt_attrs describe_node(const struct gt_value *like, int link, bool wait)
{
	union gt_node_attrs attrs = { 0 };

	attrs.pipe.link = link;
	attrs.pipe.wait = wait;
	attrs.pipe.ndim = -1;
	if (like) {
		attrs.pipe.dtype = like->dtype;
		attrs.pipe.ndim = like->ndim;
		memcpy(attrs.pipe.shape, like->shape, sizeof(attrs.pipe.shape));
	}
	return gt_node_attrs_pack(&attrs);
}

struct gt_value *gt_pipe_recv(
    struct gt_graph *g, const struct gt_value *like, int link, bool constant)
{
	const union gt_attrs attrs = describe_node(like, link, false);
	struct gt_value *v;

	v = gt_emit1(g, constant ? &op_recv_constant : &op_recv, &attrs, 0, NULL);
	if (v)
		v->low = like->low;
	return v;
}

/* The node waits by itself, until gt_pipeline_chunk() puts a wait of its own before x changes. */
struct gt_node *gt_pipe_send(
    struct gt_graph *g, struct gt_value *x, const struct gt_value *token, int link)
{
	const union gt_attrs attrs = describe_node(token, link, true);

	return gt_emit(g, x && x->low ? &op_send_low : &op_send, &attrs, 1, &x);
}

struct gt_node *gt_pipe_wait(struct gt_graph *g, struct gt_value *x, int link)
{
	const union gt_attrs attrs = describe_node(NULL, link, false);

	return gt_emit(g, &op_wait, &attrs, 1, &x);
}

/* The node stays behind its send, where the forward part of a chunk ends. */
static void fill_token(struct gt_graph *g, size_t send)
{
	struct gt_node *n = g->nodes[send];
	struct gt_value *token = n->out[0], *zeros;
	union gt_node_attrs attrs = gt_node_attrs(&n->attrs);

	g->scope = n->scope;
	zeros = gt_fill(g, token->dtype, token->ndim, token->shape, 0);
	if (!zeros)
		return;
	gt_place_last(g, send + 1);
	gt_make_output(zeros->producer, 0, token);
	n->out[0] = NULL;
	attrs.pipe.ndim = -1;
	n->attrs = gt_node_attrs_pack(&attrs);
}

void gt_pipeline_fill_tokens(struct gt_graph *g)
{
	for (size_t i = 0; i < g->node_count && !g->err.code; i++)
		if (gt_is_pipe_send(g->nodes[i]) && g->nodes[i]->out[0])
			fill_token(g, i);
}

bool gt_is_pipe_send(const struct gt_node *n)
{
	return n->op == &op_send || n->op == &op_send_low;
}

bool gt_is_pipe_recv(const struct gt_node *n)
{
	return n->op == &op_recv || n->op == &op_recv_constant;
}

/* ---- kernels ---- */

static struct gt_pipeline *pipeline_of(const struct gt_call *call)
{
	return gt_pipeline_of(call->context);
}

static struct gt_group *group_of(const struct gt_call *call)
{
	const struct gt_pipeline *l = pipeline_of(call);
	int link = gt_node_attrs(&call->attrs).pipe.link;

	return link < GT_PIPE_LINKS ? l->links[link] : l->tied[link - GT_PIPE_LINKS].group;
}

static uint64_t *ticket_of(const struct gt_call *call)
{
	struct gt_pipeline *l = pipeline_of(call);
	int link = gt_node_attrs(&call->attrs).pipe.link;

	return link < GT_PIPE_LINKS ? &l->tickets[link] : &l->tied[link - GT_PIPE_LINKS].ticket;
}

/* The groups of tied parameters whose messages go here have two ranks. */
static int peer_of(const struct gt_call *call)
{
	int link = gt_node_attrs(&call->attrs).pipe.link;

	return link < GT_PIPE_LINKS ? pipeline_of(call)->peers[link] : 1 - group_of(call)->rank;
}

static int run_send(struct gt_call *call, struct gt_err *err)
{
	const union gt_node_attrs attrs = gt_node_attrs(&call->attrs);
	struct gt_pipeline *l = pipeline_of(call);
	struct gt_group *group = group_of(call);
	const struct gt_collective c = { .kind = GT_SEND,
		.in = call->in[0].data,
		.count = gt_tensor_elements(&call->in[0]),
		.dtype = call->in[0].dtype,
		.peer = peer_of(call),
		.what = description_of(call),
		.stream = call->stream };

	if (attrs.pipe.meets && l->all) {
		l->held = c;
		l->held_link = attrs.pipe.link;
		return 0;
	}
	return attrs.pipe.wait ? gt_group_run(group, &c, err)
	                       : gt_group_start(group, &c, ticket_of(call), err);
}

/* Receive, and send the message that waits for this. */
static int exchange(struct gt_pipeline *l, const struct gt_collective *receive, struct gt_err *err)
{
	const struct gt_collective calls[] = { l->held, *receive };

	l->held.in = NULL;
	return gt_group_exchange(l->all, calls, 2, &l->tickets[l->held_link], err);
}

static int run_recv(struct gt_call *call, struct gt_err *err)
{
	struct gt_group *group = group_of(call);
	const struct gt_collective c = { .kind = GT_RECV,
		.out = call->out[0].data,
		.count = gt_tensor_elements(&call->out[0]),
		.dtype = call->out[0].dtype,
		.peer = peer_of(call),
		.what = description_of(call),
		.stream = call->stream };

	return pipeline_of(call)->held.in ? exchange(pipeline_of(call), &c, err)
	                                  : gt_group_run(group, &c, err);
}

static int run_wait(struct gt_call *call, struct gt_err *err)
{
	return gt_group_await(group_of(call), *ticket_of(call), call->stream, err);
}

const struct gt_kernel gt_pipeline_kernels[] = {
	{ .op = "pipe_send", .dtype = GT_F32, .run = run_send },
	{ .op = "pipe_send", .dtype = GT_F64, .run = run_send },
	{ .op = "pipe_send", .dtype = GT_F16, .run = run_send },
	{ .op = "pipe_send", .dtype = GT_BF16, .run = run_send },
	{ .op = "pipe_recv", .dtype = GT_F32, .run = run_recv },
	{ .op = "pipe_recv", .dtype = GT_F64, .run = run_recv },
	{ .op = "pipe_recv", .dtype = GT_F16, .run = run_recv },
	{ .op = "pipe_recv", .dtype = GT_BF16, .run = run_recv },
	{ .op = "pipe_wait", .dtype = GT_F32, .run = run_wait },
	{ .op = "pipe_wait", .dtype = GT_F64, .run = run_wait },
	{ .op = "pipe_wait", .dtype = GT_F16, .run = run_wait },
	{ .op = "pipe_wait", .dtype = GT_BF16, .run = run_wait },
	{ .op = NULL },
};
