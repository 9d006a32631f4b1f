/* cudnn.cc - stands in for cuDNN, over the memory and the streams of the simulator. */
#include "kernels/cuda/cudnn/api.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "lib/base/half.h"
#include "tests/cudasim/inside.h"
#include "tests/cudasim/tf32.h"

/*
 * A library of its own, which gtrain opens as it opens the real one; the functions of the simulator
 * that it calls are the program's. As the real one, it refuses attributes of the wrong descriptor,
 * type or number, changes of a finalized descriptor, parts that are not finalized, attributes that
 * are missing, tensors of one operation that do not fit together; and at a run memory that is no
 * device's, too short or not aligned as the tensor said, a workspace that is missing or too small,
 * and a handle of another device. Sums are in float64, and rounded once.
 */

enum { SAME_KNOB = 2 }; /* all engines have a setting of this type */

/* In the order in which they are proposed. `mode` is that of the heuristics. */
static const struct engine {
	int mode;
	int64_t number;
	double ms;
	size_t workspace_bytes;
	int note; /* -1: none */
	bool no_plan, fails;
	double wrong; /* relative error of its results: 0.05 makes them 5% too large */
} engines[] = {
	{ GT_CUDNN_HEUR_A, 7, 0.04, 0, -1, false, false, 0 },
	{ GT_CUDNN_HEUR_A, 3, 0.001, 0, GT_CUDNN_NOTE_NONDETERMINISTIC, false, false, 0 },
	{ GT_CUDNN_HEUR_A, 5, 0.002, 0, GT_CUDNN_NOTE_TENSOR_CORE, false, false, 0 },
	{ GT_CUDNN_HEUR_A, 9, 0.01, 1 << 16, -1, false, false, 0 },
	{ GT_CUDNN_HEUR_A, 10, 0.0005, 0, -1, false, false, 0.05 },
	{ GT_CUDNN_HEUR_A, 8, 0.003, 0, GT_CUDNN_NOTE_WINOGRAD, false, false, 0 },
	{ GT_CUDNN_HEUR_B, 9, 0.01, 1 << 16, -1, false, false, 0 }, /* once more */
	{ GT_CUDNN_HEUR_B, 2, 0.001, 0, GT_CUDNN_NOTE_REDUCED_SUMS, false, false, 0 },
	{ GT_CUDNN_HEUR_B, 1, 0.001, (size_t)512 << 20, -1, false, false, 0 },
	{ GT_CUDNN_HEUR_FALLBACK, 4, 0.001, 0, -1, true, false, 0 },
	{ GT_CUDNN_HEUR_FALLBACK, 6, 0.001, 0, -1, false, true, 0 },
};

/* ---- descriptors ---- */

struct value {
	int64_t count;
	std::vector<char> bytes;

	template <class T> T at(size_t i = 0) const
	{
		T x;

		memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
		return x;
	}
};

struct descriptor {
	int kind;
	bool finalized;
	std::map<int, value> values;
	const struct engine *engine; /* of an engine, its configuration, knob and plan */
	const descriptor *operation; /* of a graph, and all that comes of it */

	const descriptor *part(int attribute) const
	{
		return values.at(attribute).at<const descriptor *>();
	}

	template <class T> T get(int attribute) const
	{
		return values.at(attribute).at<T>();
	}
};

/* The attributes that may be set. All must be set before a descriptor is finalized. */
static const struct rule {
	int kind, attribute, type;
	int64_t count;
} rules[] = {
	{ GT_CUDNN_TENSOR, GT_CUDNN_TENSOR_TYPE, GT_CUDNN_DATA_TYPE, 1 },
	{ GT_CUDNN_TENSOR, GT_CUDNN_TENSOR_SIZES, GT_CUDNN_INT64, 4 },
	{ GT_CUDNN_TENSOR, GT_CUDNN_TENSOR_STRIDES, GT_CUDNN_INT64, 4 },
	{ GT_CUDNN_TENSOR, GT_CUDNN_TENSOR_ID, GT_CUDNN_INT64, 1 },
	{ GT_CUDNN_TENSOR, GT_CUDNN_TENSOR_ALIGNMENT, GT_CUDNN_INT64, 1 },
	{ GT_CUDNN_CONVOLUTION, GT_CUDNN_CONVOLUTION_DIMS, GT_CUDNN_INT64, 1 },
	{ GT_CUDNN_CONVOLUTION, GT_CUDNN_CONVOLUTION_COMPUTE, GT_CUDNN_DATA_TYPE, 1 },
	{ GT_CUDNN_CONVOLUTION, GT_CUDNN_CONVOLUTION_MODE, GT_CUDNN_MODE, 1 },
	{ GT_CUDNN_CONVOLUTION, GT_CUDNN_CONVOLUTION_PADS_BEFORE, GT_CUDNN_INT64, 2 },
	{ GT_CUDNN_CONVOLUTION, GT_CUDNN_CONVOLUTION_PADS_AFTER, GT_CUDNN_INT64, 2 },
	{ GT_CUDNN_CONVOLUTION, GT_CUDNN_CONVOLUTION_STRIDES, GT_CUDNN_INT64, 2 },
	{ GT_CUDNN_CONVOLUTION, GT_CUDNN_CONVOLUTION_DILATIONS, GT_CUDNN_INT64, 2 },
	{ GT_CUDNN_FORWARD, GT_CUDNN_FORWARD_X, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_FORWARD, GT_CUDNN_FORWARD_W, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_FORWARD, GT_CUDNN_FORWARD_Y, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_FORWARD, GT_CUDNN_FORWARD_CONVOLUTION, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_FORWARD, GT_CUDNN_FORWARD_ALPHA, GT_CUDNN_FLOAT, 1 },
	{ GT_CUDNN_FORWARD, GT_CUDNN_FORWARD_BETA, GT_CUDNN_FLOAT, 1 },
	{ GT_CUDNN_INPUT_GRAD, GT_CUDNN_INPUT_GRAD_DX, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_INPUT_GRAD, GT_CUDNN_INPUT_GRAD_W, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_INPUT_GRAD, GT_CUDNN_INPUT_GRAD_DY, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_INPUT_GRAD, GT_CUDNN_INPUT_GRAD_CONVOLUTION, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_INPUT_GRAD, GT_CUDNN_INPUT_GRAD_ALPHA, GT_CUDNN_FLOAT, 1 },
	{ GT_CUDNN_INPUT_GRAD, GT_CUDNN_INPUT_GRAD_BETA, GT_CUDNN_FLOAT, 1 },
	{ GT_CUDNN_WEIGHT_GRAD, GT_CUDNN_WEIGHT_GRAD_X, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_WEIGHT_GRAD, GT_CUDNN_WEIGHT_GRAD_DW, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_WEIGHT_GRAD, GT_CUDNN_WEIGHT_GRAD_DY, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_WEIGHT_GRAD, GT_CUDNN_WEIGHT_GRAD_CONVOLUTION, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_WEIGHT_GRAD, GT_CUDNN_WEIGHT_GRAD_ALPHA, GT_CUDNN_FLOAT, 1 },
	{ GT_CUDNN_WEIGHT_GRAD, GT_CUDNN_WEIGHT_GRAD_BETA, GT_CUDNN_FLOAT, 1 },
	{ GT_CUDNN_GRAPH, GT_CUDNN_GRAPH_HANDLE, GT_CUDNN_HANDLE, 1 },
	{ GT_CUDNN_GRAPH, GT_CUDNN_GRAPH_OPS, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_HEURISTICS, GT_CUDNN_HEURISTICS_GRAPH, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_HEURISTICS, GT_CUDNN_HEURISTICS_MODE, GT_CUDNN_HEUR_MODE, 1 },
	{ GT_CUDNN_PLAN, GT_CUDNN_PLAN_HANDLE, GT_CUDNN_HANDLE, 1 },
	{ GT_CUDNN_PLAN, GT_CUDNN_PLAN_CONFIG, GT_CUDNN_DESCRIPTOR, 1 },
	{ GT_CUDNN_PACK, GT_CUDNN_PACK_IDS, GT_CUDNN_INT64, 3 },
	{ GT_CUDNN_PACK, GT_CUDNN_PACK_POINTERS, GT_CUDNN_POINTER, 3 },
	{ GT_CUDNN_PACK, GT_CUDNN_PACK_WORKSPACE, GT_CUDNN_POINTER, 1 },
	{ GT_CUDNN_CONFIG, -1, 0, 0 },
	{ GT_CUDNN_ENGINE, -1, 0, 0 },
	{ GT_CUDNN_KNOB_CHOICE, -1, 0, 0 },
};

static size_t size_of_attribute(int type)
{
	return type == GT_CUDNN_DATA_TYPE || type == GT_CUDNN_MODE || type == GT_CUDNN_HEUR_MODE ||
	               type == GT_CUDNN_FLOAT
	           ? 4
	           : 8;
}

static thread_local std::string last_error;

static int fail_with(int status, const char *text)
{
	last_error = text;
	return status;
}

extern "C" size_t cudnnGetVersion()
{
	const char *there = getenv("CUDASIM_CUDNN");

	return there && !strcmp(there, "yes") ? cudasim_cudnn.version : 0;
}

extern "C" const char *cudnnGetErrorString(int status)
{
	return status == GT_CUDNN_NOT_FINALIZED      ? "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"
	       : status == GT_CUDNN_NOT_SUPPORTED    ? "CUDNN_STATUS_NOT_SUPPORTED"
	       : status == GT_CUDNN_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
	                                             : "CUDNN_STATUS_BAD_PARAM";
}

extern "C" void cudnnGetLastErrorString(char *text, size_t bytes)
{
	snprintf(text, bytes, "%s", last_error.c_str());
	last_error.clear();
}

extern "C" int cudnnBackendCreateDescriptor(int kind, void **out)
{
	*out = nullptr;
	for (const rule &r : rules)
		if (r.kind == kind) {
			*out = new descriptor{ kind, false, {}, nullptr, nullptr };
			return GT_CUDNN_SUCCESS;
		}
	return fail_with(GT_CUDNN_BAD_PARAM, "no such descriptor");
}

extern "C" int cudnnBackendDestroyDescriptor(void *d)
{
	delete (descriptor *)d;
	return GT_CUDNN_SUCCESS;
}

extern "C" int cudnnBackendSetAttribute(
    void *to, int attribute, int type, int64_t count, const void *values)
{
	descriptor *d = (descriptor *)to;
	size_t bytes = (size_t)count * size_of_attribute(type);

	if (d->finalized)
		return fail_with(GT_CUDNN_BAD_PARAM, "the descriptor is finalized");
	for (const rule &r : rules)
		if (r.kind == d->kind && r.attribute == attribute && r.type == type &&
		    r.count == count) {
			d->values[attribute] = { count,
				{ (const char *)values, (const char *)values + bytes } };
			return GT_CUDNN_SUCCESS;
		}
	return fail_with(GT_CUDNN_BAD_PARAM, "no such attribute of this type and number");
}

/* ---- supported combinations ---- */

/* A convolution, whichever of its tensors is computed. */
struct problem {
	const descriptor *x, *w, *y, *convolution;
	float alpha, beta;
};

static problem problem_of(const descriptor *o)
{
	int x = o->kind == GT_CUDNN_FORWARD      ? GT_CUDNN_FORWARD_X
	        : o->kind == GT_CUDNN_INPUT_GRAD ? GT_CUDNN_INPUT_GRAD_DX
	                                         : GT_CUDNN_WEIGHT_GRAD_X;
	int w = o->kind == GT_CUDNN_FORWARD      ? GT_CUDNN_FORWARD_W
	        : o->kind == GT_CUDNN_INPUT_GRAD ? GT_CUDNN_INPUT_GRAD_W
	                                         : GT_CUDNN_WEIGHT_GRAD_DW;
	int y = o->kind == GT_CUDNN_FORWARD      ? GT_CUDNN_FORWARD_Y
	        : o->kind == GT_CUDNN_INPUT_GRAD ? GT_CUDNN_INPUT_GRAD_DY
	                                         : GT_CUDNN_WEIGHT_GRAD_DY;
	int first = o->kind == GT_CUDNN_FORWARD      ? GT_CUDNN_FORWARD_ALPHA
	            : o->kind == GT_CUDNN_INPUT_GRAD ? GT_CUDNN_INPUT_GRAD_ALPHA
	                                             : GT_CUDNN_WEIGHT_GRAD_ALPHA;

	/* alpha, beta and the convolution follow each other in each kind */
	return { o->part(x), o->part(w), o->part(y), o->part(first + 2), o->get<float>(first),
		o->get<float>(first + 1) };
}

static int64_t dim(const descriptor *t, size_t i)
{
	return t->values.at(GT_CUDNN_TENSOR_SIZES).at<int64_t>(i);
}

static int64_t stride(const descriptor *t, size_t i)
{
	return t->values.at(GT_CUDNN_TENSOR_STRIDES).at<int64_t>(i);
}

static int64_t number(const descriptor *c, int attribute, size_t i = 0)
{
	return c->values.at(attribute).at<int64_t>(i);
}

static size_t size_of(const descriptor *t)
{
	return t->get<int>(GT_CUDNN_TENSOR_TYPE) == GT_CUDNN_F32 ? 4 : 2;
}

/* Contiguous, channels-last or not. */
static bool is_whole_tensor(const descriptor *t)
{
	int64_t image = dim(t, 1) * dim(t, 2) * dim(t, 3);
	bool last =
	    stride(t, 1) == 1 && stride(t, 3) == dim(t, 1) && stride(t, 2) == dim(t, 1) * dim(t, 3);
	bool plain =
	    stride(t, 3) == 1 && stride(t, 2) == dim(t, 3) && stride(t, 1) == dim(t, 2) * dim(t, 3);
	int64_t alignment = number(t, GT_CUDNN_TENSOR_ALIGNMENT);

	for (size_t i = 0; i < 4; i++)
		if (dim(t, i) < 1)
			return false;
	return stride(t, 0) == image && (last || plain) && alignment >= (int64_t)size_of(t) &&
	       !(alignment & (alignment - 1));
}

static bool fits_together(const problem &p)
{
	const descriptor *c = p.convolution;
	bool same = dim(p.x, 0) == dim(p.y, 0) && dim(p.x, 1) % dim(p.w, 1) == 0 &&
	            dim(p.w, 0) % (dim(p.x, 1) / dim(p.w, 1)) == 0 && dim(p.w, 0) == dim(p.y, 1);

	for (size_t i = 0; i < 2; i++)
		same =
		    same &&
		    dim(p.y, 2 + i) ==
		        (dim(p.x, 2 + i) + number(c, GT_CUDNN_CONVOLUTION_PADS_BEFORE, i) +
		            number(c, GT_CUDNN_CONVOLUTION_PADS_AFTER, i) -
		            number(c, GT_CUDNN_CONVOLUTION_DILATIONS, i) * (dim(p.w, 2 + i) - 1) -
		            1) / number(c, GT_CUDNN_CONVOLUTION_STRIDES, i) +
		            1;
	return same && p.x->get<int>(GT_CUDNN_TENSOR_TYPE) == p.w->get<int>(GT_CUDNN_TENSOR_TYPE) &&
	       p.x->get<int>(GT_CUDNN_TENSOR_TYPE) == p.y->get<int>(GT_CUDNN_TENSOR_TYPE) &&
	       stride(p.x, 1) == 1 && stride(p.y, 1) == 1; /* no engine takes others here */
}

static bool is_convolution(const descriptor *c)
{
	return number(c, GT_CUDNN_CONVOLUTION_DIMS) == 2 &&
	       c->get<int>(GT_CUDNN_CONVOLUTION_COMPUTE) == GT_CUDNN_F32 &&
	       c->get<int>(GT_CUDNN_CONVOLUTION_MODE) == GT_CUDNN_CROSS_CORRELATION;
}

static int check_parts(const descriptor *d)
{
	for (const rule &r : rules) {
		if (r.kind != d->kind || r.attribute < 0)
			continue;
		if (!d->values.count(r.attribute))
			return fail_with(GT_CUDNN_BAD_PARAM, "an attribute is missing");
		if (r.type == GT_CUDNN_DESCRIPTOR && !d->part(r.attribute)->finalized)
			return fail_with(GT_CUDNN_NOT_FINALIZED, "a part is not finalized");
		if (r.type == GT_CUDNN_HANDLE && !d->get<void *>(r.attribute))
			return fail_with(GT_CUDNN_BAD_PARAM, "no handle");
	}
	return GT_CUDNN_SUCCESS;
}

extern "C" int cudnnBackendFinalize(void *descriptor_)
{
	descriptor *d = (descriptor *)descriptor_;
	int status = check_parts(d);

	if (status)
		return status;
	switch (d->kind) {
	case GT_CUDNN_TENSOR:
		if (!is_whole_tensor(d))
			return fail_with(GT_CUDNN_BAD_PARAM, "sizes, strides or alignment");
		break;
	case GT_CUDNN_CONVOLUTION:
		if (!is_convolution(d))
			return fail_with(GT_CUDNN_NOT_SUPPORTED, "such a convolution");
		break;
	case GT_CUDNN_FORWARD:
	case GT_CUDNN_INPUT_GRAD:
	case GT_CUDNN_WEIGHT_GRAD:
		if (!fits_together(problem_of(d)))
			return fail_with(GT_CUDNN_BAD_PARAM, "tensors that do not fit together");
		break;
	case GT_CUDNN_GRAPH:
		d->operation = d->part(GT_CUDNN_GRAPH_OPS);
		break;
	case GT_CUDNN_HEURISTICS:
		d->operation = d->part(GT_CUDNN_HEURISTICS_GRAPH)->operation;
		break;
	case GT_CUDNN_PLAN:
		d->engine = d->part(GT_CUDNN_PLAN_CONFIG)->engine;
		d->operation = d->part(GT_CUDNN_PLAN_CONFIG)->operation;
		if (d->engine->no_plan)
			return fail_with(GT_CUDNN_NOT_SUPPORTED, "no plan");
		break;
	}
	d->finalized = true;
	return GT_CUDNN_SUCCESS;
}

/* ---- engines ---- */

/* Fill in the i-th descriptor that the caller has made, unless there is no room for it. */
static int fill(
    void *values, int64_t i, int64_t wanted, int kind, const engine *e, const descriptor *operation)
{
	descriptor *to = i < wanted ? ((descriptor **)values)[i] : nullptr;

	if (i >= wanted)
		return GT_CUDNN_SUCCESS;
	if (!to || to->kind != kind || to->finalized)
		return fail_with(GT_CUDNN_BAD_PARAM, "no descriptor to fill in");
	to->engine = e;
	to->operation = operation;
	to->finalized = true;
	return GT_CUDNN_SUCCESS;
}

static int propose(const descriptor *d, int64_t wanted, int64_t *count, void *values)
{
	int status = GT_CUDNN_SUCCESS;

	for (const engine &e : engines)
		if (e.mode == d->get<int>(GT_CUDNN_HEURISTICS_MODE) && !status)
			status =
			    fill(values, (*count)++, wanted, GT_CUDNN_CONFIG, &e, d->operation);
	return status;
}

extern "C" int cudnnBackendGetAttribute(
    const void *from, int attribute, int type, int64_t wanted, int64_t *count, void *values)
{
	const descriptor *d = (const descriptor *)from;

	*count = 0;
	if (!d->finalized)
		return fail_with(GT_CUDNN_NOT_FINALIZED, "the descriptor is not finalized");
	if (attribute == GT_CUDNN_HEURISTICS_RESULTS && type == GT_CUDNN_DESCRIPTOR)
		return propose(d, wanted, count, values);
	*count = 1;
	if (attribute == GT_CUDNN_CONFIG_ENGINE && type == GT_CUDNN_DESCRIPTOR)
		return fill(values, 0, wanted, GT_CUDNN_ENGINE, d->engine, d->operation);
	if (attribute == GT_CUDNN_CONFIG_KNOBS && type == GT_CUDNN_DESCRIPTOR)
		return fill(values, 0, wanted, GT_CUDNN_KNOB_CHOICE, d->engine, d->operation);
	if (attribute == GT_CUDNN_KNOB_CHOICE_TYPE && type == GT_CUDNN_KNOB)
		*(int *)values = SAME_KNOB;
	else if (attribute == GT_CUDNN_ENGINE_NOTES && type == GT_CUDNN_NOTE && d->engine->note < 0)
		*count = 0;
	else if (attribute == GT_CUDNN_ENGINE_NOTES && type == GT_CUDNN_NOTE)
		*(int *)values = d->engine->note;
	else if ((attribute == GT_CUDNN_KNOB_CHOICE_VALUE || attribute == GT_CUDNN_ENGINE_INDEX) &&
	         type == GT_CUDNN_INT64)
		*(int64_t *)values = d->engine->number;
	else if (attribute == GT_CUDNN_PLAN_WORKSPACE && type == GT_CUDNN_INT64)
		*(int64_t *)values = (int64_t)d->engine->workspace_bytes;
	else
		return fail_with(GT_CUDNN_BAD_PARAM, "no such attribute of this type");
	return GT_CUDNN_SUCCESS;
}

/* ---- runs ---- */

struct handle {
	int device;
	cudaStream_t stream;
};

extern "C" int cudnnCreate(void **out)
{
	int device;

	*out = nullptr;
	if (cudasim_cudnn.create_fails || cudaGetDevice(&device) != cudaSuccess)
		return fail_with(cudasim_cudnn.create_fails, "no GPU");
	*out = new handle{ device, nullptr };
	return GT_CUDNN_SUCCESS;
}

extern "C" int cudnnSetStream(void *h, cudaStream_t stream)
{
	((handle *)h)->stream = stream;
	__atomic_store_n(
	    &cudasim_cudnn.stream, stream, __ATOMIC_RELAXED); /* ranks may be threads */
	return GT_CUDNN_SUCCESS;
}

/* A tensor in memory, as float64. */
struct image {
	int64_t size[4], stride[4];
	int type;
	void *p;

	image(const descriptor *t, void *memory)
	    : type(t->get<int>(GT_CUDNN_TENSOR_TYPE)), p(memory)
	{
		for (size_t i = 0; i < 4; i++) {
			size[i] = dim(t, i);
			stride[i] = ::stride(t, i);
		}
	}

	int64_t at(int64_t n, int64_t c, int64_t h, int64_t w) const
	{
		return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
	}

	/* All elements in the order of memory. */
	std::vector<double> read(bool tf32) const
	{
		std::vector<double> out((size_t)(size[0] * stride[0]));

		for (size_t i = 0; i < out.size(); i++) {
			if (type == GT_CUDNN_F16)
				out[i] = gt_float_of_f16(((const uint16_t *)p)[i]);
			else if (type == GT_CUDNN_BF16)
				out[i] = gt_float_of_bf16(((const uint16_t *)p)[i]);
			else if (tf32)
				out[i] = cudasim_tf32(((const float *)p)[i]);
			else
				out[i] = ((const float *)p)[i];
		}
		return out;
	}

	void write(const std::vector<double> &v) const
	{
		for (size_t i = 0; i < v.size(); i++) {
			if (type == GT_CUDNN_F16)
				((uint16_t *)p)[i] = gt_f16_of_float((float)v[i]);
			else if (type == GT_CUDNN_BF16)
				((uint16_t *)p)[i] = gt_bf16_of_float((float)v[i]);
			else
				((float *)p)[i] = (float)v[i];
		}
	}
};

struct work {
	image x, w, y;
	int kind;
	int64_t step[2], pad[2], dilation[2];
	const engine *e;
	unsigned char *workspace;
};

/* The first channel of x in the group of output o. */
static int64_t first_channel(const work &k, int64_t o)
{
	int64_t groups = k.x.size[1] / k.w.size[1];

	return o / (k.w.size[0] / groups) * k.w.size[1];
}

/* Every product of the convolution, added to the tensor that is computed. read() has checked all
 * accesses. */
__attribute__((no_sanitize("address", "undefined"))) static void convolve(
    const work &k, double *x, double *w, double *y)
{
	for (int64_t n = 0; n < k.y.size[0]; n++)
		for (int64_t o = 0; o < k.y.size[1]; o++)
			for (int64_t i = 0; i < k.y.size[2]; i++)
				for (int64_t j = 0; j < k.y.size[3]; j++)
					for (int64_t c = 0, first = first_channel(k, o);
					     c < k.w.size[1]; c++)
						for (int64_t u = 0; u < k.w.size[2]; u++)
							for (int64_t v = 0; v < k.w.size[3]; v++) {
								int64_t row = i * k.step[0] +
								              u * k.dilation[0] -
								              k.pad[0],
								        column = j * k.step[1] +
								                 v * k.dilation[1] -
								                 k.pad[1];
								double *px =
								           x + k.x.at(n, first + c,
								                   row, column),
								       *pw = w + k.w.at(o, c, u, v),
								       *py = y + k.y.at(n, o, i, j);

								if (row < 0 || column < 0 ||
								    row >= k.x.size[2] ||
								    column >= k.x.size[3])
									continue;
								if (k.kind == GT_CUDNN_FORWARD)
									*py += *px * *pw;
								else if (k.kind ==
								         GT_CUDNN_INPUT_GRAD)
									*px += *py * *pw;
								else
									*pw += *px * *py;
							}
}

/* A workspace is written to from end to end, as a copy of the weight in another form would be. */
static void run(void *closure)
{
	const work &k = *(work *)closure;
	const image &out = k.kind == GT_CUDNN_FORWARD      ? k.y
	                   : k.kind == GT_CUDNN_INPUT_GRAD ? k.x
	                                                   : k.w;
	bool tf32 = k.e->note == GT_CUDNN_NOTE_TENSOR_CORE;
	std::vector<double> x = k.x.read(tf32), w = k.w.read(tf32), y = k.y.read(tf32);
	std::vector<double> &result = &out == &k.y ? y : &out == &k.x ? x : w;

	if (k.e->workspace_bytes)
		memset(k.workspace, 0x5a, k.e->workspace_bytes);
	result.assign(result.size(), 0);
	convolve(k, x.data(), w.data(), y.data());
	for (double &v : result)
		v *= 1 + k.e->wrong;
	out.write(result);
	cudasim_ms += cudasim_cudnn.slow ? 1000 * k.e->ms : k.e->ms;
}

/* The memory of a tensor, or nullptr: it has none that will do. */
static void *memory_of(const descriptor *t, const descriptor *pack)
{
	size_t bytes = (size_t)(dim(t, 0) * stride(t, 0)) * size_of(t);

	for (size_t i = 0; i < 3; i++) {
		void *p = pack->values.at(GT_CUDNN_PACK_POINTERS).at<void *>(i);

		if (number(pack, GT_CUDNN_PACK_IDS, i) == number(t, GT_CUDNN_TENSOR_ID) &&
		    cudasim_can_use(p, bytes) &&
		    (uintptr_t)p % (uintptr_t)number(t, GT_CUDNN_TENSOR_ALIGNMENT) == 0)
			return p;
	}
	return nullptr;
}

extern "C" int cudnnBackendExecute(void *h_, void *plan_, void *pack_)
{
	const handle *h = (const handle *)h_;
	const descriptor *plan = (const descriptor *)plan_, *pack = (const descriptor *)pack_;
	int device = -1;

	if (!plan || !pack || !plan->finalized || !pack->finalized || plan->kind != GT_CUDNN_PLAN ||
	    pack->kind != GT_CUDNN_PACK)
		return fail_with(GT_CUDNN_NOT_FINALIZED, "no plan, or no pack");
	if (cudaGetDevice(&device) != cudaSuccess || h->device != device ||
	    plan->get<void *>(GT_CUDNN_PLAN_HANDLE) != h_)
		return fail_with(GT_CUDNN_BAD_PARAM, "a handle of another device");
	if (cudasim_cudnn.execute_fails || plan->engine->fails)
		return fail_with(GT_CUDNN_EXECUTION_FAILED, "");

	problem p = problem_of(plan->operation);
	void *x = memory_of(p.x, pack), *w = memory_of(p.w, pack), *y = memory_of(p.y, pack);
	void *workspace = pack->get<void *>(GT_CUDNN_PACK_WORKSPACE);
	size_t need = plan->engine->workspace_bytes;

	if (!x || !w || !y || p.alpha != 1 || p.beta != 0)
		return fail_with(GT_CUDNN_BAD_PARAM, "memory of a tensor");
	if (need && !cudasim_can_use(workspace, need))
		return fail_with(GT_CUDNN_BAD_PARAM, "a workspace that is missing or too small");
	__atomic_fetch_add(&cudasim_cudnn.queued, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&cudasim_cudnn.engine, plan->engine->number, __ATOMIC_RELAXED);
	cudasim_launch(
	    dim3(1), dim3(1), 0, h->stream, run, [](void *closure) { delete (work *)closure; },
	    new work{ image(p.x, x), image(p.w, w), image(p.y, y), plan->operation->kind,
	        { number(p.convolution, GT_CUDNN_CONVOLUTION_STRIDES, 0),
	            number(p.convolution, GT_CUDNN_CONVOLUTION_STRIDES, 1) },
	        { number(p.convolution, GT_CUDNN_CONVOLUTION_PADS_BEFORE, 0),
	            number(p.convolution, GT_CUDNN_CONVOLUTION_PADS_BEFORE, 1) },
	        { number(p.convolution, GT_CUDNN_CONVOLUTION_DILATIONS, 0),
	            number(p.convolution, GT_CUDNN_CONVOLUTION_DILATIONS, 1) },
	        plan->engine, (unsigned char *)workspace });
	return cudaGetLastError() == cudaSuccess ? GT_CUDNN_SUCCESS : GT_CUDNN_EXECUTION_FAILED;
}
