/* conv.c - convolutions in the words of cuDNN's backend interface. */
#include "kernels/cuda/cudnn/conv.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

enum {
	PROPOSALS = 64, /* engines that one heuristic may propose */
	KNOBS = 64,     /* most knobs of an engine: there are 44 types in version 9.19 */
	NOTES = 32,
	ALIGNMENT = 16, /* alignment of tensors that plans rely on; tensors have 32 or more */
	DIMS = 4,
	X = 1, /* names of tensors in a plan */
	W = 2,
	Y = 3
};

struct engine {
	void *config, *plan; /* plan: NULL before it is made */
	int64_t workspace_bytes;
};

struct gt_cudnn_conv {
	struct gt_cudnn_shape shape;
	struct gt_cudnn_target target;
	void *x, *w, *y, *convolution, *operation, *graph, *pack;
	int count;
	struct engine engines[GT_CUDNN_MAX_ENGINES];
	struct gt_choice choices[GT_CUDNN_MAX_ENGINES];
};

int gt_cudnn_conv_count(const struct gt_cudnn_conv *c)
{
	return c->count;
}

const struct gt_choice *gt_cudnn_conv_choices(const struct gt_cudnn_conv *c)
{
	return c->choices;
}

/* ---- descriptors ---- */

struct attribute {
	int name, type;
	int64_t count;
	const void *values; /* NULL ends a list */
};

static void drop_descriptor(void **descriptor)
{
	if (*descriptor)
		gt_cudnn->BackendDestroyDescriptor(*descriptor);
	*descriptor = NULL;
}

/* A finalized descriptor with these attributes. */
static int make_descriptor(
    void **out, int kind, const struct attribute *a, const char *what, struct gt_err *err)
{
	int status = gt_cudnn->BackendCreateDescriptor(kind, out);

	for (; !status && a->values; a++)
		status = gt_cudnn->BackendSetAttribute(*out, a->name, a->type, a->count, a->values);
	if (!status)
		status = gt_cudnn->BackendFinalize(*out);
	if (gt_cudnn_check(status, what, err))
		drop_descriptor(out);
	return status ? err->code : 0;
}

static int type_of(enum gt_dtype dtype)
{
	return dtype == GT_F16 ? GT_CUDNN_F16 : dtype == GT_BF16 ? GT_CUDNN_BF16 : GT_CUDNN_F32;
}

static int make_tensor(void **out, const struct gt_cudnn_shape *s, int64_t id, const int64_t *size,
    bool channels_last, struct gt_err *err)
{
	const int64_t image = size[1] * size[2] * size[3], alignment = ALIGNMENT;
	const int64_t last[DIMS] = { image, 1, size[3] * size[1], size[1] };
	const int64_t plain[DIMS] = { image, size[2] * size[3], size[3], 1 };
	const int type = type_of(s->dtype);
	const struct attribute list[] = { { GT_CUDNN_TENSOR_TYPE, GT_CUDNN_DATA_TYPE, 1, &type },
		{ GT_CUDNN_TENSOR_SIZES, GT_CUDNN_INT64, DIMS, size },
		{ GT_CUDNN_TENSOR_STRIDES, GT_CUDNN_INT64, DIMS, channels_last ? last : plain },
		{ GT_CUDNN_TENSOR_ID, GT_CUDNN_INT64, 1, &id },
		{ GT_CUDNN_TENSOR_ALIGNMENT, GT_CUDNN_INT64, 1, &alignment }, { 0 } };

	return make_descriptor(out, GT_CUDNN_TENSOR, list, "cuDNN: a tensor", err);
}

static int make_convolution(struct gt_cudnn_conv *c, struct gt_err *err)
{
	const struct gt_window *w = &c->shape.window;
	const int64_t dims = 2, pads[] = { w->pad[0], w->pad[1] },
	              strides[] = { w->stride[0], w->stride[1] },
	              dilations[] = { w->dilation[0], w->dilation[1] };
	const int compute = GT_CUDNN_F32, mode = GT_CUDNN_CROSS_CORRELATION;
	const struct attribute list[] = {
		{ GT_CUDNN_CONVOLUTION_DIMS, GT_CUDNN_INT64, 1, &dims },
		{ GT_CUDNN_CONVOLUTION_COMPUTE, GT_CUDNN_DATA_TYPE, 1, &compute },
		{ GT_CUDNN_CONVOLUTION_MODE, GT_CUDNN_MODE, 1, &mode },
		{ GT_CUDNN_CONVOLUTION_PADS_BEFORE, GT_CUDNN_INT64, dims, pads },
		{ GT_CUDNN_CONVOLUTION_PADS_AFTER, GT_CUDNN_INT64, dims, pads },
		{ GT_CUDNN_CONVOLUTION_STRIDES, GT_CUDNN_INT64, dims, strides },
		{ GT_CUDNN_CONVOLUTION_DILATIONS, GT_CUDNN_INT64, dims, dilations },
		{ 0 },
	};

	return make_descriptor(
	    &c->convolution, GT_CUDNN_CONVOLUTION, list, "cuDNN: a convolution", err);
}

/* The same attributes have other numbers for each kind. */
static int make_operation(struct gt_cudnn_conv *c, struct gt_err *err)
{
	static const struct {
		int x, w, y, convolution, alpha, beta;
	} names[] = {
		[GT_CUDNN_FORWARD] = { GT_CUDNN_FORWARD_X, GT_CUDNN_FORWARD_W, GT_CUDNN_FORWARD_Y,
		    GT_CUDNN_FORWARD_CONVOLUTION, GT_CUDNN_FORWARD_ALPHA, GT_CUDNN_FORWARD_BETA },
		[GT_CUDNN_INPUT_GRAD] = { GT_CUDNN_INPUT_GRAD_DX, GT_CUDNN_INPUT_GRAD_W,
		    GT_CUDNN_INPUT_GRAD_DY, GT_CUDNN_INPUT_GRAD_CONVOLUTION,
		    GT_CUDNN_INPUT_GRAD_ALPHA, GT_CUDNN_INPUT_GRAD_BETA },
		[GT_CUDNN_WEIGHT_GRAD] = { GT_CUDNN_WEIGHT_GRAD_X, GT_CUDNN_WEIGHT_GRAD_DW,
		    GT_CUDNN_WEIGHT_GRAD_DY, GT_CUDNN_WEIGHT_GRAD_CONVOLUTION,
		    GT_CUDNN_WEIGHT_GRAD_ALPHA, GT_CUDNN_WEIGHT_GRAD_BETA },
	};
	const float one = 1, zero = 0;
	const int kind = c->shape.kind;
	const struct attribute list[] = {
		{ names[kind].x, GT_CUDNN_DESCRIPTOR, 1, &c->x },
		{ names[kind].w, GT_CUDNN_DESCRIPTOR, 1, &c->w },
		{ names[kind].y, GT_CUDNN_DESCRIPTOR, 1, &c->y },
		{ names[kind].convolution, GT_CUDNN_DESCRIPTOR, 1, &c->convolution },
		{ names[kind].alpha, GT_CUDNN_FLOAT, 1, &one },
		{ names[kind].beta, GT_CUDNN_FLOAT, 1, &zero },
		{ 0 },
	};

	return make_descriptor(&c->operation, kind, list, "cuDNN: an operation", err);
}

static int make_graph(struct gt_cudnn_conv *c, struct gt_err *err)
{
	const struct attribute list[] = {
		{ GT_CUDNN_GRAPH_OPS, GT_CUDNN_DESCRIPTOR, 1, &c->operation },
		{ GT_CUDNN_GRAPH_HANDLE, GT_CUDNN_HANDLE, 1,
		    c->target.handle ? &c->target.handle : NULL },
		{ 0 },
	};

	return make_descriptor(&c->graph, GT_CUDNN_GRAPH, list, "cuDNN: a graph", err);
}

/* A weight of 1 x 1 lies channels-last, too; cuDNN brings others into that form by itself. */
static int describe_conv_graph(struct gt_cudnn_conv *c, struct gt_err *err)
{
	const struct gt_cudnn_shape *s = &c->shape;

	if (make_tensor(&c->x, s, X, s->x, true, err) ||
	    make_tensor(&c->w, s, W, s->w, s->w[2] * s->w[3] == 1, err) ||
	    make_tensor(&c->y, s, Y, s->y, true, err) || make_convolution(c, err) ||
	    make_operation(c, err))
		return err->code;
	return make_graph(c, err);
}

/* ---- engines ---- */

/* float32 through tensor cores is rounded to TF32. */
static bool allows(const struct gt_cudnn_shape *s, int note)
{
	switch (note) {
	case GT_CUDNN_NOTE_NONDETERMINISTIC:
	case GT_CUDNN_NOTE_DOWN_CONVERT:
	case GT_CUDNN_NOTE_REDUCED_SUMS:
		return false;
	case GT_CUDNN_NOTE_TENSOR_CORE:
		return s->dtype != GT_F32 || s->tf32;
	case GT_CUDNN_NOTE_FFT:
	case GT_CUDNN_NOTE_WINOGRAD:
	case GT_CUDNN_NOTE_WINOGRAD_4X4:
	case GT_CUDNN_NOTE_WINOGRAD_6X6:
	case GT_CUDNN_NOTE_WINOGRAD_13X13:
		return s->relaxed;
	default:
		return true;
	}
}

/* Read at most `wanted` values of an attribute. *count is the number of values read. */
static int get(const void *from, int attribute, int type, int64_t wanted, int64_t *count, void *out)
{
	int status = gt_cudnn->BackendGetAttribute(from, attribute, type, wanted, count, out);

	if (*count > wanted)
		*count = wanted;
	return status;
}

/*
 * Make `max` empty descriptors and let the library fill in those that it has: it fills
 * descriptors of its caller, and makes none.
 */
static int get_all(
    const void *from, int attribute, int kind, int64_t max, int64_t *count, void **out)
{
	int status = 0;

	*count = 0;
	memset(out, 0, (size_t)max * sizeof(*out));
	for (int64_t i = 0; i < max && !status; i++)
		status = gt_cudnn->BackendCreateDescriptor(kind, &out[i]);
	return status ? status : get(from, attribute, GT_CUDNN_DESCRIPTOR, max, count, out);
}

static void drop_all(void **descriptors, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		drop_descriptor(&descriptors[i]);
}

/* FNV-1a. */
static uint64_t hash(uint64_t so_far, int64_t more)
{
	for (int i = 0; i < 8; i++)
		so_far = (so_far ^ ((uint64_t)more >> 8 * i & 255)) * 0x100000001b3;
	return so_far;
}

/*
 * The settings of an engine, as one number: an engine with other settings is another algorithm,
 * and a choice has few words to name it.
 */
static int hash_knobs(const void *config, uint64_t *out)
{
	void *knobs[KNOBS];
	int64_t count = 0, one = 0, value = 0;
	int status =
	    get_all(config, GT_CUDNN_CONFIG_KNOBS, GT_CUDNN_KNOB_CHOICE, KNOBS, &count, knobs);

	*out = 0xcbf29ce484222325;
	for (int64_t i = 0; i < count && !status; i++) {
		int type = 0;

		status = get(knobs[i], GT_CUDNN_KNOB_CHOICE_TYPE, GT_CUDNN_KNOB, 1, &one, &type);
		if (!status)
			status = get(
			    knobs[i], GT_CUDNN_KNOB_CHOICE_VALUE, GT_CUDNN_INT64, 1, &one, &value);
		*out = hash(hash(*out, type), value);
	}
	drop_all(knobs, KNOBS);
	return status;
}

/* Whether a proposal may be used, and the words that name it. Number 0 is no engine of cuDNN. */
static bool examine(const struct gt_cudnn_shape *s, const void *config, struct gt_choice *out)
{
	int notes[NOTES];
	int64_t count = 0, one = 0, number = 0;
	void *engine;
	int status = get_all(config, GT_CUDNN_CONFIG_ENGINE, GT_CUDNN_ENGINE, 1, &one, &engine);
	bool allowed = true;

	if (!status)
		status = get(engine, GT_CUDNN_ENGINE_INDEX, GT_CUDNN_INT64, 1, &one, &number);
	if (!status)
		status = get(engine, GT_CUDNN_ENGINE_NOTES, GT_CUDNN_NOTE, NOTES, &count, notes);
	drop_descriptor(&engine);
	*out = (struct gt_choice){ .words = { (uint64_t)number + 1 } };
	if (status || hash_knobs(config, &out->words[1]))
		return false;
	for (int64_t i = 0; i < count; i++)
		allowed = allowed && allows(s, notes[i]);
	return allowed;
}

static bool is_new(const struct gt_cudnn_conv *c, const struct gt_choice *choice)
{
	for (int i = 0; i < c->count; i++)
		if (!memcmp(&c->choices[i], choice, sizeof(*choice)))
			return false;
	return true;
}

/* Add the proposals of one of the heuristics, until there are enough. One that cannot say anything
 * about this convolution adds none. */
static void ask(struct gt_cudnn_conv *c, int mode)
{
	const struct attribute list[] = {
		{ GT_CUDNN_HEURISTICS_GRAPH, GT_CUDNN_DESCRIPTOR, 1, &c->graph },
		{ GT_CUDNN_HEURISTICS_MODE, GT_CUDNN_HEUR_MODE, 1, &mode },
		{ GT_CUDNN_HEURISTICS_PROPERTIES, GT_CUDNN_DESCRIPTOR, 1,
		    c->target.handle ? NULL : &c->target.properties },
		{ 0 },
	};
	struct gt_err ignored = GT_ERR_INIT;
	struct gt_choice choice;
	void *heuristics = NULL, *configs[PROPOSALS];
	int64_t count = 0;

	if (make_descriptor(&heuristics, GT_CUDNN_HEURISTICS, list, "cuDNN: heuristics", &ignored))
		return;
	if (get_all(heuristics, GT_CUDNN_HEURISTICS_RESULTS, GT_CUDNN_CONFIG, PROPOSALS, &count,
	        configs))
		count = 0;
	for (int64_t i = 0; i < count && c->count < GT_CUDNN_MAX_ENGINES; i++) {
		if (!examine(&c->shape, configs[i], &choice) || !is_new(c, &choice))
			continue;
		c->choices[c->count] = choice;
		c->engines[c->count++].config = configs[i];
		configs[i] = NULL;
	}
	drop_all(configs, PROPOSALS);
	drop_descriptor(&heuristics);
}

/*
 * Describe a convolution and ask cuDNN for engines. Call gt_cudnn_open() first. The caller frees
 * *out with gt_cudnn_conv_free(). gtrain can use an engine if the engine is deterministic, sums in
 * float32, and does not round GT_F32 to TF32 unless shape->tf32 is set. Engines that use Winograd
 * or FFT also need shape->relaxed. *out holds the first GT_CUDNN_MAX_ENGINES of the engines that
 * gtrain can use, or fewer if cuDNN does not propose so many. If there are none,
 * gt_cudnn_conv_count() returns 0.
 *
 * Errors: GT_ENOMEM; GT_EDEVICE if the library rejects a descriptor.
 */
int gt_cudnn_conv_new(struct gt_cudnn_conv **out, const struct gt_cudnn_shape *shape,
    struct gt_cudnn_target target, struct gt_err *err)
{
	static const int modes[] = { GT_CUDNN_HEUR_A, GT_CUDNN_HEUR_B, GT_CUDNN_HEUR_FALLBACK };
	struct gt_cudnn_conv *c = gt_calloc(1, sizeof(*c), err);

	*out = NULL;
	if (!c)
		return GT_ENOMEM;
	c->shape = *shape;
	c->target = target;
	if (describe_conv_graph(c, err)) {
		gt_cudnn_conv_free(c);
		return err->code;
	}
	for (int i = 0; i < 3 && c->count < GT_CUDNN_MAX_ENGINES; i++)
		ask(c, modes[i]);
	*out = c;
	return 0;
}

void gt_cudnn_conv_free(struct gt_cudnn_conv *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->count; i++) {
		drop_descriptor(&c->engines[i].plan);
		drop_descriptor(&c->engines[i].config);
	}
	drop_descriptor(&c->pack);
	drop_descriptor(&c->graph);
	drop_descriptor(&c->operation);
	drop_descriptor(&c->convolution);
	drop_descriptor(&c->x);
	drop_descriptor(&c->w);
	drop_descriptor(&c->y);
	free(c);
}

/* ---- plans ---- */

int gt_cudnn_conv_plan(struct gt_cudnn_conv *c, int i, size_t *workspace_bytes, struct gt_err *err)
{
	struct engine *o = &c->engines[i];
	const struct attribute by_handle = { GT_CUDNN_PLAN_HANDLE, GT_CUDNN_HANDLE, 1,
		&c->target.handle };
	const struct attribute by_properties = { GT_CUDNN_PLAN_PROPERTIES, GT_CUDNN_DESCRIPTOR, 1,
		&c->target.properties };
	const struct attribute list[] = { c->target.handle ? by_handle : by_properties,
		{ GT_CUDNN_PLAN_CONFIG, GT_CUDNN_DESCRIPTOR, 1, &o->config }, { 0 } };
	int64_t one = 0;

	*workspace_bytes = 0;
	if (!o->plan && make_descriptor(&o->plan, GT_CUDNN_PLAN, list, "cuDNN: a plan", err))
		return err->code;
	if (gt_cudnn_check(
	        get(o->plan, GT_CUDNN_PLAN_WORKSPACE, GT_CUDNN_INT64, 1, &one, &o->workspace_bytes),
	        "cuDNN: a plan's workspace", err))
		return err->code;
	*workspace_bytes = (size_t)o->workspace_bytes;
	return 0;
}

int gt_cudnn_conv_bind(
    struct gt_cudnn_conv *c, void *x, void *w, void *y, void *workspace, struct gt_err *err)
{
	const int64_t ids[] = { X, W, Y };
	void *const pointers[] = { x, w, y };
	const struct attribute list[] = { { GT_CUDNN_PACK_IDS, GT_CUDNN_INT64, 3, ids },
		{ GT_CUDNN_PACK_POINTERS, GT_CUDNN_POINTER, 3, pointers },
		{ GT_CUDNN_PACK_WORKSPACE, GT_CUDNN_POINTER, 1, &workspace }, { 0 } };

	drop_descriptor(&c->pack);
	return make_descriptor(&c->pack, GT_CUDNN_PACK, list, "cuDNN: pointers", err);
}

int gt_cudnn_conv_run(const struct gt_cudnn_conv *c, int i, cudaStream_t stream, struct gt_err *err)
{
	if (gt_cudnn_check(gt_cudnn->SetStream(c->target.handle, stream), "cudnnSetStream", err))
		return err->code;
	return gt_cudnn_check(
	    gt_cudnn->BackendExecute(c->target.handle, c->engines[i].plan, c->pack),
	    "cudnnBackendExecute", err);
}

void gt_cudnn_conv_finish(const struct gt_cudnn_conv *c)
{
	gt_cudnn->SetStream(c->target.handle, NULL);
}
