/* program.c - from a model to plans that run. */
#include "lib/train/program.h"

#include <stdlib.h>
#include <string.h>

#include "lib/device/cpu.h"
#include "lib/graph/pass.h"
#include "lib/parallel/replicate.h"

void gt_model_input_of(struct gt_model_input *out, const struct gt_data_info *info)
{
	static const enum gt_model_kind kinds[] = {
		[GT_DATA_IMAGE] = GT_MODEL_IMAGE,
		[GT_DATA_VECTOR] = GT_MODEL_VECTOR,
		[GT_DATA_TOKENS] = GT_MODEL_TOKENS,
	};

	*out = (struct gt_model_input){
		.kind = kinds[info->kind],
		.height = info->height,
		.width = info->width,
		.channels = info->channels,
		.features = info->features,
		.block = info->block,
		.classes = info->classes,
	};
	memcpy(out->mean, info->mean, sizeof(out->mean));
	memcpy(out->std, info->std, sizeof(out->std));
}

void gt_data_request_of(
    struct gt_data_request *out, const struct gt_model *model, uint64_t seed, int ranks)
{
	struct gt_model_input wish;

	gt_model_wishes(model, &wish);
	*out = (struct gt_data_request){
		.block = wish.block,
		.height = wish.height,
		.width = wish.width,
		.channels = wish.channels,
		.features = wish.features,
		.classes = wish.classes,
		.seed = seed,
		.memory_bytes = gt_cpu_memory_bytes() / 2 / (uint64_t)ranks,
	};
}

int gt_program_store(struct gt_store **out, const struct gt_model *model,
    const struct gt_model_input *in, const struct gt_device *device, bool with_gradients,
    struct gt_parallel *parallel, struct gt_err *err)
{
	struct gt_graph *g = NULL;
	struct gt_model_io io;
	int rc;

	*out = NULL;
	rc = gt_graph_new(&g, err);
	if (!rc)
		rc = gt_model_build(model, g, in, 1, GT_MODEL_TRAIN, &io, err);
	if (!rc && parallel)
		rc = gt_parallel_rewrite(parallel, g, err);
	if (!rc)
		rc = gt_store_new(out, g, device, with_gradients, err);
	if (!rc && parallel)
		rc = gt_parallel_attach(parallel, *out, err);
	gt_graph_free(g);
	return rc;
}

/* Passes may have put another value behind a public name; that of an input may be gone, where other
 * ranks see to it. */
static void find_io(struct gt_program *p)
{
	struct gt_value **inputs[] = { &p->io.input, &p->io.target, &p->io.rng, &p->io.weight };
	static const char *const input_names[] = { "input", "target", "rng", "weight" };
	struct gt_value **values[] = { &p->io.loss, &p->io.stats, &p->io.logits };
	static const char *const names[] = { "loss", "stats", "logits" };

	for (int i = 0; i < 4; i++)
		*inputs[i] = gt_graph_find(p->graph, input_names[i]);
	for (int i = 0; i < 3; i++) {
		struct gt_value *v = gt_graph_find(p->graph, names[i]);

		if (v)
			*values[i] = v;
	}
}

static int find_chunks(struct gt_program *p, struct gt_err *err)
{
	p->others = gt_calloc((size_t)p->chunks, sizeof(*p->others), err);
	if (!p->others)
		return GT_ENOMEM;
	for (int i = 1; i < p->chunks; i++)
		p->others[i - 1] = (struct gt_model_io){
			.input = gt_replica_of(p->graph, p->io.input, i),
			.target = gt_replica_of(p->graph, p->io.target, i),
			.rng = gt_replica_of(p->graph, p->io.rng, i),
			.weight = gt_replica_of(p->graph, p->io.weight, i),
			.loss = gt_replica_of(p->graph, p->io.loss, i),
		};
	return 0;
}

static const struct gt_model_io *chunk_io(const struct gt_program *p, int chunk)
{
	return chunk ? &p->others[chunk - 1] : &p->io;
}

int gt_program_init(
    struct gt_program *p, const struct gt_program_options *o, int batch, struct gt_err *err)
{
	struct gt_pass_options passes = { .accumulate =
		                              o->accumulate && !gt_parallel_adds(o->parallel),
		.images = o->store->device->backend->image_layout };
	bool train = o->purpose == GT_MODEL_TRAIN;
	int first, mine = batch, rc;

	*p = (struct gt_program){ .batch = batch,
		.chunks = train ? gt_parallel_chunks(o->parallel, batch) : 1,
		.turns = train && gt_parallel_hosts(o->parallel) };
	if (train && o->parallel)
		gt_parallel_part(o->parallel, batch, &first, &mine);
	p->shares = p->chunks > 1 ? batch / mine : 1;
	rc = gt_graph_new(&p->graph, err);
	if (!rc)
		rc = gt_model_build(o->model, p->graph, o->input, mine ? mine / p->chunks : 1,
		    o->purpose, &p->io, err);
	if (!rc && o->parallel)
		rc = gt_parallel_rewrite(o->parallel, p->graph, err);
	if (!rc && train && o->parallel)
		rc = gt_parallel_scatter(o->parallel, p->graph, batch / p->chunks, err);
	if (rc)
		goto out;
	find_io(p);
	passes.loss = p->io.loss;
	rc = gt_passes_run(p->graph, &passes, err);
	if (!rc)
		find_io(p);
	if (!rc && o->parallel)
		rc = train ? gt_parallel_insert(o->parallel, p->graph, p->chunks, err)
		           : gt_parallel_insert_forward(o->parallel, p->graph, err);
	if (!rc)
		rc = find_chunks(p, err);
	if (!rc)
		rc = gt_plan_new(&p->plan, p->graph, o->store,
		    o->parallel ? gt_parallel_kernels(o->parallel) : NULL, err);
	if (rc)
		goto out;
	p->input_bytes = p->io.input ? gt_value_bytes(p->io.input) * (size_t)p->chunks : 0;
	p->target_bytes = p->io.target ? gt_value_bytes(p->io.target) * (size_t)p->chunks : 0;
	return 0;
out:
	gt_program_release(p);
	return rc;
}

void gt_program_release(struct gt_program *p)
{
	gt_plan_free(p->plan);
	gt_graph_free(p->graph);
	free(p->others);
	*p = (struct gt_program){ 0 };
}

/* A chunk's part of a batch, whose inputs have so many bytes: of one share after the other. */
static int feed_chunk(struct gt_program *p, int chunk, const struct gt_value *v, const void *batch,
    size_t bytes, struct gt_err *err)
{
	size_t piece = bytes / (size_t)(p->chunks * p->shares);
	int rc = 0;

	for (int i = 0; v && !rc && i < p->shares; i++)
		rc = gt_plan_write_part(p->plan, v, (size_t)i * piece,
		    (const char *)batch + (size_t)(i * p->chunks + chunk) * piece, piece, err);
	return rc;
}

int gt_program_feed(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < p->chunks; i++) {
		const struct gt_model_io *io = chunk_io(p, i);

		rc = feed_chunk(p, i, io->input, batch->input, p->input_bytes, err);
		if (!rc)
			rc = feed_chunk(p, i, io->target, batch->target, p->target_bytes, err);
	}
	return rc;
}

int gt_program_set(
    struct gt_program *p, float weight, const int64_t rng[GT_RNG_FIELDS], struct gt_err *err)
{
	int64_t mine[GT_RNG_FIELDS];
	int rc = 0;

	memcpy(mine, rng, sizeof(mine));
	for (int i = 0; !rc && i < p->chunks; i++) {
		const struct gt_model_io *io = chunk_io(p, i);

		if (io->weight)
			rc = gt_plan_write(p->plan, io->weight, &weight, sizeof(weight), err);
		if (!rc && io->rng)
			rc = gt_plan_write(p->plan, io->rng, mine, sizeof(mine), err);
		mine[GT_RNG_FIRST] += p->turns ? 1 : p->batch / p->chunks * rng[GT_RNG_STRIDE];
	}
	return rc;
}

/* Of so many chunks, summed as ranks sum up (comm/group.h). */
static int add_losses(struct gt_program *p, int first, int count, double *loss, struct gt_err *err)
{
	double rest = 0;
	float part;
	int half = 1, rc;

	if (count == 1) {
		rc = gt_plan_read(p->plan, chunk_io(p, first)->loss, &part, sizeof(part), err);
		*loss = rc ? 0 : (double)part;
		return rc;
	}
	while (2 * half < count)
		half *= 2;
	rc = add_losses(p, first, half, loss, err);
	if (!rc)
		rc = add_losses(p, first + half, count - half, &rest, err);
	*loss += rest;
	return rc;
}

int gt_program_loss(struct gt_program *p, double *loss, struct gt_err *err)
{
	return add_losses(p, 0, p->chunks, loss, err);
}

int gt_program_pair_init(struct gt_program_pair *pair, const struct gt_program_options *options,
    int64_t samples, int batch, bool drop_last, struct gt_err *err)
{
	int rest = (int)(samples % batch), rc = 0;

	*pair =
	    (struct gt_program_pair){ .together = gt_parallel_forward_together(options->parallel) };
	if (pair->together && !samples)
		rest = 1; /* for the batches of others */
	if (samples >= batch)
		rc = gt_program_init(&pair->full, options, batch, err);
	if (!rc && rest && !drop_last)
		rc = gt_program_init(&pair->tail, options, rest, err);
	if (rc)
		gt_program_pair_release(pair);
	return rc;
}

void gt_program_pair_release(struct gt_program_pair *pair)
{
	gt_program_release(&pair->full);
	gt_program_release(&pair->tail);
}

struct gt_program *gt_program_for(struct gt_program_pair *pair, int count)
{
	if (count && pair->full.batch == count)
		return &pair->full;
	return count && pair->tail.batch == count ? &pair->tail : NULL;
}

static size_t arena_of(const struct gt_program *p)
{
	return p->plan ? gt_plan_arena_bytes(p->plan) : 0;
}

size_t gt_program_pair_arena(const struct gt_program_pair *pair)
{
	size_t full = arena_of(&pair->full), tail = arena_of(&pair->tail);

	return full > tail ? full : tail;
}

int gt_program_pair_bind(struct gt_program_pair *pair, void *arena, struct gt_err *err)
{
	int rc = pair->full.plan ? gt_plan_bind(pair->full.plan, arena, err) : 0;

	if (!rc && pair->tail.plan)
		rc = gt_plan_bind(pair->tail.plan, arena, err);
	return rc;
}
