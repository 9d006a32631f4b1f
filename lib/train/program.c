/* program.c - from a model to plans that run. */
#include "lib/train/program.h"

#include <stdlib.h>
#include <string.h>

#include "lib/device/cpu.h"
#include "lib/parallel/virtual/replicate.h"

void gt_data_request_of(
    struct gt_data_request *out, const struct gt_model *model, uint64_t seed, int ranks)
{
	struct gt_model_input wish;

	gt_model_preferred_input(model, &wish);
	*out = (struct gt_data_request){
		.form = wish.form,
		.fixed_size = wish.fixed_size,
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
	if (!rc)
		rc = gt_parallel_rewrite(parallel, g, err);
	if (!rc)
		rc = gt_store_new(out, g, device, with_gradients, err);
	if (!rc)
		rc = gt_parallel_attach(parallel, *out, err);
	gt_graph_free(g);
	return rc;
}

/* Passes may have put another value behind a public name, or have removed a value that other ranks
 * have. */
static void find_io(struct gt_program *p)
{
	struct gt_value **parts[] = { &p->io.input, &p->io.target, &p->io.rng, &p->io.weight,
		&p->io.past, &p->io.scale, &p->io.class_weight, &p->io.margin };
	static const char *const part_names[] = { "input", "target", "rng", "weight", "past",
		"scale", "class_weight", "margin" };
	struct gt_value **values[] = { &p->io.loss, &p->io.stats, &p->io.logits };
	static const char *const names[] = { "loss", "stats", "logits" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		*parts[i] = gt_graph_find(p->graph, part_names[i]);
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
			.class_weight = gt_replica_of(p->graph, p->io.class_weight, i),
			.scale = gt_replica_of(p->graph, p->io.scale, i),
			.loss = gt_replica_of(p->graph, p->io.loss, i),
		};
	return 0;
}

static const struct gt_model_io *chunk_io(const struct gt_program *p, int chunk)
{
	return chunk ? &p->others[chunk - 1] : &p->io;
}

/* The host writes all settings of a run by one copy, so these inputs lie in one temporary. Each
 * begins at a cache line. */
enum { SETTING_BYTES = 64, SETTINGS = 2 };

static void place_setting(
    struct gt_program *p, int chunk, int which, struct gt_value *v, struct gt_value *settings)
{
	if (!v || !settings)
		return;
	v->within = settings;
	v->within_first =
	    (int64_t)(chunk * SETTINGS + which) * SETTING_BYTES / (int64_t)gt_dtype_size(v->dtype);
	p->setting_bytes = (size_t)(p->chunks * SETTINGS * SETTING_BYTES);
}

static void make_settings(struct gt_program *p)
{
	int64_t bytes = (int64_t)p->chunks * SETTINGS * SETTING_BYTES;
	struct gt_value *settings;

	if (!p->io.weight && !p->io.rng)
		return;
	settings = gt_temporary(p->graph, GT_U8, bytes);
	for (int i = 0; i < p->chunks; i++) {
		place_setting(p, i, 0, chunk_io(p, i)->weight, settings);
		place_setting(p, i, 1, chunk_io(p, i)->rng, settings);
	}
}

int gt_program_init(
    struct gt_program *p, const struct gt_program_options *o, int batch, struct gt_err *err)
{
	struct gt_pass_options passes = { .images = o->store->device->backend->image_layout,
		.precision = o->precision,
		.copies = o->precision.low != GT_F32 && o->store->copies &&
		          o->store->copies->dtype == o->precision.low,
		.kernels = o->store->device->backend->kernels(),
		.logits_bytes = o->store->device->backend->logits_bytes,
		.logits_align = o->store->device->backend->logits_align,
		.recompute = &p->recompute };
	bool train = o->purpose == GT_MODEL_TRAIN;
	int first, mine = batch, rc;

	*p = (struct gt_program){ .batch = batch,
		.recompute = { .max = o->recompute },
		.chunks = train ? gt_parallel_chunks(o->parallel, batch) : 1,
		.virtual_parts = train && gt_parallel_parts_are_virtual(o->parallel),
		.setting_count = 2 * (o->runs > 1 ? o->runs : 1) + 1,
		.host_class_weights = o->input->class_weights,
		.device = o->store->device };
	if (train)
		gt_parallel_part(o->parallel, batch, &first, &mine);
	p->rank_parts = p->chunks > 1 ? batch / mine : 1;
	passes.accumulate = o->accumulate;
	if (gt_parallel_adds(o->parallel)) /* then only the parts of a run add up in the graph */
		passes.accumulate = p->chunks > 1 && !p->virtual_parts;
	rc = gt_graph_new(&p->graph, err);
	if (!rc)
		rc = gt_model_build(o->model, p->graph, o->input, mine ? mine / p->chunks : 1,
		    o->purpose, &p->io, err);
	if (!rc)
		rc = gt_parallel_rewrite(o->parallel, p->graph, err);
	if (!rc && train)
		rc = gt_parallel_scatter(o->parallel, p->graph, batch / p->chunks, err);
	if (rc)
		goto out;
	find_io(p);
	passes.loss = p->io.loss;
	rc = gt_passes_run(p->graph, &passes, err);
	if (!rc)
		find_io(p);
	if (!rc)
		rc = train ? gt_parallel_insert(o->parallel, p->graph, p->chunks, err)
		           : gt_parallel_insert_forward(o->parallel, p->graph, err);
	if (!rc)
		rc = find_chunks(p, err);
	if (!rc && train)
		make_settings(p);
	if (!rc)
		rc = gt_store_add_caches(o->store, p->graph, err);
	if (!rc)
		rc = gt_plan_new(
		    &p->plan, p->graph, o->store, gt_parallel_kernels(o->parallel), err);
	if (rc)
		goto out;
	p->input_bytes = p->io.input ? gt_value_bytes(p->io.input) * (size_t)p->chunks : 0;
	p->target_bytes = p->io.target ? gt_value_bytes(p->io.target) * (size_t)p->chunks : 0;
	return 0;
out:
	gt_program_release(p);
	return rc;
}

/* A batch is staged where its way to the device takes time that the device can use. Where device
 * memory is the host's, inputs are copied straight from the batch. */
static bool stages(const struct gt_program *p)
{
	return !p->device->backend->host_memory;
}

static size_t staging_bytes(const struct gt_program *p)
{
	return stages(p) ? p->input_bytes + p->target_bytes : 0;
}

/* One loss is added up where it lies. */
static size_t losses_bytes(const struct gt_program *p)
{
	return p->chunks > 1 ? (size_t)p->chunks * sizeof(*p->losses) : 0;
}

static size_t class_weight_bytes(const struct gt_program *p)
{
	return p->io.class_weight ? gt_value_bytes(p->io.class_weight) : 0;
}

/* NULL where `bytes` is 0. */
static int take_device_memory(
    const struct gt_device *d, size_t bytes, void **out, struct gt_err *err)
{
	*out = NULL;
	return bytes ? gt_device_alloc(d, bytes, out, err) : 0;
}

static void release_memory(struct gt_program *p)
{
	const struct gt_device *d = p->device;

	if (!d)
		return;
	gt_device_free(d, p->staging, staging_bytes(p));
	gt_device_free(d, p->losses, losses_bytes(p));
	gt_device_free(d, p->class_weights, class_weight_bytes(p));
	if (p->settings)
		d->backend->host_free(
		    d->index, p->settings, p->setting_bytes * (size_t)p->setting_count);
	for (int i = 0; p->settings_copied && i < p->setting_count; i++)
		d->backend->event_free(p->settings_copied[i]);
	free(p->settings_copied);
	d->backend->event_free(p->batch_copied[0]);
	d->backend->event_free(p->batch_copied[1]);
	d->backend->event_free(p->staging_read);
}

void gt_program_release(struct gt_program *p)
{
	release_memory(p);
	gt_plan_free(p->plan);
	gt_graph_free(p->graph);
	free(p->others);
	*p = (struct gt_program){ 0 };
}

/* ---- in and out ---- */

static int take_settings(struct gt_program *p, struct gt_err *err)
{
	const struct gt_device *d = p->device;
	void *memory;

	if (!p->setting_bytes)
		return 0;
	p->settings_copied = gt_calloc((size_t)p->setting_count, sizeof(struct gt_event *), err);
	if (!p->settings_copied)
		return GT_ENOMEM;
	if (d->backend->host_alloc(
	        d->index, p->setting_bytes * (size_t)p->setting_count, &memory, err))
		return gt_err_prefix(err, "settings of %d runs of a plan", p->setting_count);
	p->settings = memory;
	for (int i = 0; i < p->setting_count; i++)
		if (d->backend->event_new(&p->settings_copied[i], d->index, err))
			return err->code;
	return 0;
}

static int take_class_weights(struct gt_program *p, struct gt_err *err)
{
	size_t bytes = class_weight_bytes(p);
	void *memory;
	int rc = take_device_memory(p->device, bytes, &memory, err);

	p->class_weights = memory;
	return rc || !bytes ? rc
	                    : gt_device_write(p->device, memory, p->host_class_weights, bytes, err);
}

int gt_program_bind(struct gt_program *p, void *arena, struct gt_err *err)
{
	const struct gt_device *d = p->device;
	void *memory;

	if (gt_plan_bind(p->plan, arena, err) || take_settings(p, err) ||
	    take_device_memory(d, staging_bytes(p), &memory, err))
		return err->code;
	p->staging = memory;
	if (take_device_memory(d, losses_bytes(p), &memory, err))
		return err->code;
	p->losses = memory;
	if (take_class_weights(p, err))
		return err->code;
	if (d->backend->event_new(&p->batch_copied[0], d->index, err) ||
	    d->backend->event_new(&p->batch_copied[1], d->index, err) ||
	    d->backend->event_new(&p->staging_read, d->index, err))
		return err->code;
	return 0;
}

/* Copy a chunk's samples from a batch, in which v's input has `bytes`: its part of each share. */
static int take_chunk(struct gt_program *p, int chunk, const struct gt_value *v, const void *batch,
    size_t bytes, struct gt_err *err)
{
	size_t piece = bytes / (size_t)(p->chunks * p->rank_parts);
	char *to = v ? gt_plan_address(p->plan, v) : NULL;
	int rc = 0;

	for (int i = 0; v && !rc && i < p->rank_parts; i++)
		rc = p->device->backend->copy(p->device->compute, to + (size_t)i * piece,
		    (const char *)batch + (size_t)(i * p->chunks + chunk) * piece, piece, err);
	return rc;
}

static int take_batch(
    struct gt_program *p, const void *input, const void *target, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < p->chunks; i++) {
		const struct gt_model_io *io = chunk_io(p, i);

		rc = take_chunk(p, i, io->input, input, p->input_bytes, err);
		if (!rc)
			rc = take_chunk(p, i, io->target, target, p->target_bytes, err);
	}
	return rc;
}

void gt_program_watch(struct gt_program *p, struct gt_marks *marks, struct gt_span *span)
{
	p->marks = marks;
	p->copied = span;
}

static int mark_copy(
    const struct gt_program *p, struct gt_stream *stream, bool end, struct gt_err *err)
{
	if (!p->marks)
		return 0;
	return gt_marks_add(p->marks, stream, end ? &p->copied->ended : &p->copied->began, err);
}

/* Copy a batch to `staging`, after the inputs of the previous run were copied from it. */
static int stage(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err)
{
	const struct gt_device *d = p->device;
	const struct gt_backend *b = d->backend;
	int rc = b->event_wait(d->copies, p->staging_read, err);

	if (!rc)
		rc = mark_copy(p, d->copies, false, err);
	if (!rc && p->input_bytes)
		rc = b->copy_in(d->copies, p->staging, batch->input, p->input_bytes, err);
	if (!rc && p->target_bytes)
		rc = b->copy_in(
		    d->copies, p->staging + p->input_bytes, batch->target, p->target_bytes, err);
	if (!rc)
		rc = mark_copy(p, d->copies, true, err);
	if (!rc)
		rc = b->event_record(p->batch_copied[p->fed % 2], d->copies, err);
	return rc ? rc : b->event_wait(d->compute, p->batch_copied[p->fed % 2], err);
}

static int feed_staged(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err)
{
	int rc = stage(p, batch, err);

	if (!rc)
		rc = take_batch(p, p->staging, p->staging + p->input_bytes, err);
	return rc ? rc : p->device->backend->event_record(p->staging_read, p->device->compute, err);
}

static int feed_in_place(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err)
{
	int rc = mark_copy(p, p->device->compute, false, err);

	if (!rc)
		rc = take_batch(p, batch->input, batch->target, err);
	if (!rc)
		rc = mark_copy(p, p->device->compute, true, err);
	return rc ? rc
	          : p->device->backend->event_record(
	                p->batch_copied[p->fed % 2], p->device->compute, err);
}

/*
 * Copy a batch to the inputs of this rank's plan. The batch must have exactly p->batch samples. An
 * input or targets that the plan does not have, as in some pipeline stages, are not copied. The
 * memory of the batch is in use until the event of gt_program_fed() is done.
 *
 * If the device has its own memory, the batch is first copied to staging memory on the device's
 * copy stream. So the copy can run during the previous run of the plan.
 */
int gt_program_feed(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err)
{
	int rc = stages(p) ? feed_staged(p, batch, err) : feed_in_place(p, batch, err);

	p->fed++;
	return rc;
}

struct gt_event *gt_program_fed(const struct gt_program *p)
{
	return p->batch_copied[(p->fed + 1) % 2];
}

/* The next one's memory, once the copy from it is done. */
static int next_settings(struct gt_program *p, char **settings, struct gt_err *err)
{
	const struct gt_backend *b = p->device->backend;
	int slot = (int)(p->set % p->setting_count);

	*settings = p->settings + (size_t)slot * p->setting_bytes;
	return b->event_done(p->settings_copied[slot])
	           ? 0
	           : b->event_sync(p->settings_copied[slot], err);
}

static int copy_settings(struct gt_program *p, const char *settings, struct gt_err *err)
{
	const struct gt_model_io *first = chunk_io(p, 0);
	const struct gt_device *d = p->device;
	char *address = first->weight
	                    ? gt_plan_address(p->plan, first->weight)
	                    : (char *)gt_plan_address(p->plan, first->rng) - SETTING_BYTES;
	int slot = (int)(p->set++ % p->setting_count);
	int rc = d->backend->copy_in(d->compute, address, settings, p->setting_bytes, err);

	return rc ? rc : d->backend->event_record(p->settings_copied[slot], d->compute, err);
}

/* A plan may use the memory of its inputs for other values after their last use. */
static int copy_class_weights(struct gt_program *p, struct gt_err *err)
{
	const struct gt_device *d = p->device;
	int rc = 0;

	for (int i = 0; p->class_weights && !rc && i < p->chunks; i++)
		rc = d->backend->copy(d->compute,
		    gt_plan_address(p->plan, chunk_io(p, i)->class_weight), p->class_weights,
		    class_weight_bytes(p), err);
	return rc;
}

int gt_program_set(
    struct gt_program *p, float weight, const int64_t rng[GT_RNG_FIELDS], struct gt_err *err)
{
	int64_t mine[GT_RNG_FIELDS];
	char *settings;

	if (!p->setting_bytes)
		return 0;
	if (copy_class_weights(p, err) || next_settings(p, &settings, err))
		return err->code;
	memcpy(mine, rng, sizeof(mine));
	for (int i = 0; i < p->chunks; i++) {
		char *at = settings + (size_t)(i * SETTINGS * SETTING_BYTES);

		memcpy(at, &weight, sizeof(weight));
		memcpy(at + SETTING_BYTES, mine, sizeof(mine));
		mine[GT_RNG_FIRST] +=
		    p->virtual_parts ? 1 : p->batch / p->chunks * rng[GT_RNG_STRIDE];
	}
	return copy_settings(p, settings, err);
}

int gt_program_set_scale(
    struct gt_program *p, const struct gt_step_scalars *scalars, struct gt_err *err)
{
	const struct gt_device *d = p->device;
	int rc = 0;

	for (int i = 0; !rc && i < p->chunks; i++) {
		const struct gt_value *v = chunk_io(p, i)->scale;

		if (v)
			rc = d->backend->copy(d->compute, gt_plan_address(p->plan, v),
			    &scalars->result.scale, sizeof(scalars->result.scale), err);
	}
	return rc;
}

int gt_program_add_loss(struct gt_program *p, struct gt_step_scalars *scalars, struct gt_err *err)
{
	const struct gt_device *d = p->device;
	const float *losses = gt_plan_address(p->plan, p->io.loss);
	int rc = 0;

	if (p->chunks > 1)
		losses = p->losses;
	for (int i = 0; p->chunks > 1 && !rc && i < p->chunks; i++)
		rc = d->backend->copy(d->compute, p->losses + i,
		    gt_plan_address(p->plan, chunk_io(p, i)->loss), sizeof(*losses), err);
	return rc ? rc
	          : d->backend->steps()->add_losses(d->compute, scalars, losses, p->chunks, err);
}

/* Whether chunks of a batch of this rank are added up like micro-batches. */
static bool adds_chunks(const struct gt_program_options *options, int batch)
{
	return options->purpose == GT_MODEL_TRAIN && batch &&
	       gt_parallel_chunks(options->parallel, batch) > 1 &&
	       !gt_parallel_parts_are_virtual(options->parallel);
}

/* A short last batch may have chunks where the full one has none: 4 samples divide by 2 stages, 7
 * do not. */
int gt_program_pair_init(struct gt_program_pair *pair, const struct gt_program_options *options,
    int64_t samples, int batch, bool drop_last, struct gt_err *err)
{
	struct gt_program_options both = *options;
	int whole = samples >= batch ? batch : 0, rc = 0;
	int rest = drop_last ? 0 : (int)(samples % batch);

	*pair =
	    (struct gt_program_pair){ .together = gt_parallel_forward_together(options->parallel) };
	if (pair->together && !samples && !drop_last)
		rest = 1; /* for the batches of others */
	pair->accumulates =
	    options->runs > 1 || adds_chunks(options, whole) || adds_chunks(options, rest);
	both.accumulate = pair->accumulates;
	if (whole)
		rc = gt_program_init(&pair->full, &both, whole, err);
	if (!rc && rest) {
		rc = gt_program_init(&pair->tail, &both, rest, err);
		if (rc == GT_EINVAL && whole && options->purpose == GT_MODEL_TRAIN)
			gt_err_hint(err,
			    "only the last batch of an epoch is so small, with %d sample%s: "
			    "{drop-last} leaves it out",
			    rest, rest == 1 ? "" : "s");
	}
	if (rc)
		gt_program_pair_release(pair);
	return rc;
}

void gt_program_pair_release(struct gt_program_pair *pair)
{
	gt_program_release(&pair->full);
	gt_program_release(&pair->tail);
}

const struct gt_program *gt_program_pair_any(const struct gt_program_pair *pair)
{
	return pair->full.plan ? &pair->full : &pair->tail;
}

struct gt_program *gt_program_for(struct gt_program_pair *pair, int count)
{
	if (count && pair->full.batch == count)
		return &pair->full;
	return count && pair->tail.batch == count ? &pair->tail : NULL;
}

int gt_program_pair_head(const char *const **names, const struct gt_program_pair *pair,
    const struct gt_model_input *input)
{
	const struct gt_model_io *io = &gt_program_pair_any(pair)->io;

	*names = io->head;
	return input->form.kind == GT_SAMPLE_TOKENS ? 0 : io->head_count;
}

size_t gt_program_staging(const struct gt_program *p)
{
	return p->plan ? staging_bytes(p) + losses_bytes(p) + class_weight_bytes(p) : 0;
}
