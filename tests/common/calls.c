/* calls.c - calls of kernels made by hand. */
#include "tests/common/calls.h"

#include "lib/base/half.h"
#include "tests/common/device.h"

/* Of the backend that GTRAIN_TEST_BACKEND names. */
static struct gt_cpu_set device_set;

int test_sets(struct test_set out[3])
{
	int n = 0;

	if (!test_device_is_cpu()) {
		const struct gt_backend *b = test_device(0)->backend;

		device_set = (struct gt_cpu_set){ b->kernels(), b->ranges(), b->steps() };
		out[0] = (struct test_set){ b->name, &device_set };
		return 1;
	}
	out[n++] = (struct test_set){ "base", &gt_cpu_set_base };
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		out[n++] = (struct test_set){ "avx2", &gt_cpu_set_avx2 };
	if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512bw"))
		out[n++] = (struct test_set){ "avx512", &gt_cpu_set_avx512 };
#endif
	return n;
}

void *test_alloc(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	assert_non_null(p);
	/* NaN: whatever a kernel does not write, or takes to be zero, shows. */
	memset(p, 0xff, bytes);
	return p;
}

struct gt_tensor test_tensor(enum gt_dtype dtype, int ndim, const int64_t *shape)
{
	struct gt_tensor t = { .present = true, .dtype = dtype, .ndim = ndim };

	if (ndim == 4)
		t.layout = GT_CHANNELS_LAST;
	for (int i = 0; i < ndim; i++)
		t.shape[i] = shape[i];
	t.data = test_alloc((size_t)gt_tensor_elements(&t) * gt_dtype_size(dtype));
	return t;
}

struct gt_tensor test_tensor1(enum gt_dtype dtype, int64_t n)
{
	return test_tensor(dtype, 1, &n);
}

struct gt_tensor test_tensor2(enum gt_dtype dtype, int64_t a, int64_t b)
{
	return test_tensor(dtype, 2, (int64_t[]){ a, b });
}

struct gt_tensor test_tensor3(enum gt_dtype dtype, int64_t a, int64_t b, int64_t c)
{
	return test_tensor(dtype, 3, (int64_t[]){ a, b, c });
}

struct gt_tensor test_tensor4(enum gt_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w)
{
	return test_tensor(dtype, 4, (int64_t[]){ n, c, h, w });
}

struct gt_window test_window(int kernel, int stride, int pad)
{
	return (struct gt_window){ { kernel, kernel }, { stride, stride }, { pad, pad }, { 1, 1 } };
}

double test_get(const struct gt_tensor *t, int64_t i)
{
	switch (t->dtype) {
	case GT_F32:
		return (double)((const float *)t->data)[i];
	case GT_F64:
		return ((const double *)t->data)[i];
	case GT_BF16:
		return (double)gt_float_of_bf16(((const uint16_t *)t->data)[i]);
	case GT_F16:
		return (double)gt_float_of_f16(((const uint16_t *)t->data)[i]);
	case GT_I64:
		return (double)((const int64_t *)t->data)[i];
	case GT_I32:
		return (double)((const int32_t *)t->data)[i];
	default:
		return (double)((const uint8_t *)t->data)[i];
	}
}

void test_put(struct gt_tensor *t, int64_t i, double v)
{
	switch (t->dtype) {
	case GT_F32:
		((float *)t->data)[i] = (float)v;
		break;
	case GT_F64:
		((double *)t->data)[i] = v;
		break;
	case GT_BF16:
		((uint16_t *)t->data)[i] = gt_bf16_of_float((float)v);
		break;
	case GT_F16:
		((uint16_t *)t->data)[i] = gt_f16_of_float((float)v);
		break;
	case GT_I64:
		((int64_t *)t->data)[i] = (int64_t)v;
		break;
	case GT_I32:
		((int32_t *)t->data)[i] = (int32_t)v;
		break;
	default:
		((uint8_t *)t->data)[i] = (uint8_t)v;
	}
}

int64_t test_at(const struct gt_tensor *t, int64_t n, int64_t c, int64_t h, int64_t w)
{
	const int64_t *s = t->shape;

	if (t->layout == GT_CHANNELS_LAST)
		return ((n * s[2] + h) * s[3] + w) * s[1] + c;
	return ((n * s[1] + c) * s[2] + h) * s[3] + w;
}

void test_random(struct gt_tensor *t, uint32_t seed, double low, double high)
{
	int64_t n = gt_tensor_elements(t);

	for (int64_t i = 0; i < n; i++) {
		uint64_t bits = gt_philox_u64(seed, (uint64_t)i, 0, 0);

		test_put(t, i, (double)(float)(low + (high - low) * gt_philox_double(bits)));
	}
}

void test_random_int(struct gt_tensor *t, uint32_t seed, int64_t low, int64_t high)
{
	int64_t n = gt_tensor_elements(t);

	for (int64_t i = 0; i < n; i++)
		test_put(t, i,
		    (double)(low + (int64_t)gt_philox_below(gt_philox_u64(seed, (uint64_t)i, 0, 0),
		                       (uint64_t)(high - low))));
}

const struct gt_kernel *test_row(
    const struct gt_cpu_set *set, const char *op, enum gt_dtype dtype, const struct gt_call *call)
{
	struct gt_call asked = *call;

	for (int i = 0; set->tables[i]; i++)
		for (const struct gt_kernel *k = set->tables[i]; k->op; k++) {
			asked.kernel = k;
			if (!strcmp(k->op, op) && k->dtype == dtype &&
			    (!k->accepts || k->accepts(&asked)))
				return k;
		}
	return NULL;
}

bool test_lacks(
    const struct test_set *set, const char *op, enum gt_dtype dtype, const struct gt_call *call)
{
	return set->set == &device_set && !test_row(set->set, op, dtype, call);
}

/* ---- calls on a device ---- */

enum { TENSORS = GT_MAX_INPUTS + GT_MAX_OUTPUTS };

static struct gt_tensor *tensor_of(struct gt_call *call, int i)
{
	return i < GT_MAX_INPUTS ? &call->in[i] : &call->out[i - GT_MAX_INPUTS];
}

static bool is_used(const struct gt_call *call, int i)
{
	return i < GT_MAX_INPUTS
	           ? i < call->inputs && call->in[i].present
	           : i - GT_MAX_INPUTS < call->outputs && call->out[i - GT_MAX_INPUTS].present;
}

/* The first tensor that has the same memory of the host as tensor i. */
static int first_of(struct gt_call *call, int i)
{
	for (int k = 0; k < i; k++)
		if (is_used(call, k) && tensor_of(call, k)->data == tensor_of(call, i)->data)
			return k;
	return i;
}

static size_t bytes_of(const struct gt_tensor *t)
{
	return (size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype);
}

/* Give each tensor of `far` device memory with the host's numbers; those that share memory do. */
static int copy_in(struct gt_call *far, struct gt_call *call, struct gt_err *err)
{
	const struct gt_device *d = test_device(0);

	for (int i = 0; i < TENSORS; i++) {
		struct gt_tensor *t = tensor_of(far, i), *host = tensor_of(call, i);

		if (!is_used(call, i))
			continue;
		if (first_of(call, i) < i)
			t->data = tensor_of(far, first_of(call, i))->data;
		else if (gt_device_alloc(d, bytes_of(t), &t->data, err) ||
		         gt_device_write(d, t->data, host->data, bytes_of(t), err))
			return err->code;
	}
	return 0;
}

/* Releases the call after an error, too. */
static void copy_out(struct gt_call *far, struct gt_call *call, struct gt_err *err)
{
	const struct gt_device *d = test_device(0);

	for (int i = 0; i < TENSORS; i++) {
		struct gt_tensor *t = tensor_of(far, i), *host = tensor_of(call, i);

		if (!is_used(call, i) || first_of(call, i) < i)
			continue;
		if (t->data)
			gt_device_read(
			    d, host->data, t->data, bytes_of(t), err->code ? GT_ERR_IGNORED : err);
		gt_device_free(d, t->data, bytes_of(t));
	}
}

/* The simulator's count of kernels; other devices have none. */
__attribute__((weak)) extern long cudasim_kernels(void);

/* The row has said how many kernels it queues. A call without elements queues fewer. */
static void check_launches(const struct gt_call *far, long launches)
{
	bool empty = far->inputs && !gt_tensor_elements(&far->in[0]);

	if (cudasim_kernels && !empty && launches != far->launches)
		fail_msg(
		    "%s queues %ld kernels and says %d", far->kernel->op, launches, far->launches);
}

static int run_prepared(const struct gt_kernel *k, struct gt_call *far, struct gt_err *err)
{
	const struct gt_device *d = test_device(0);
	int rc = gt_device_alloc(d, far->workspace_bytes, &far->workspace, err);
	long before;

	if (rc)
		return rc;
	test_device_ruin(far->workspace, far->workspace_bytes);
	rc = k->bind ? k->bind(far, err) : 0;
	before = cudasim_kernels ? cudasim_kernels() : 0;
	if (!rc)
		rc = k->run(far, err);
	if (!rc)
		rc = gt_device_sync(d, err);
	if (!rc && cudasim_kernels)
		check_launches(far, cudasim_kernels() - before);
	gt_device_free(d, far->workspace, far->workspace_bytes);
	return rc;
}

static int run_on_device(const struct gt_kernel *k, struct gt_call *call, struct gt_err *err)
{
	struct gt_call far = *call;
	int rc;

	far.kernel = k;
	far.launches = 1;
	far.stream = test_device(0)->compute;
	for (int i = 0; i < TENSORS; i++)
		tensor_of(&far, i)->data = NULL;
	if (k->prepare && k->prepare(&far, err))
		return err->code;
	rc = copy_in(&far, call, err);
	if (!rc)
		rc = run_prepared(k, &far, err);
	copy_out(&far, call, err);
	if (k->release)
		k->release(&far);
	return rc ? rc : err->code;
}

int test_run(const struct gt_cpu_set *set, const char *op, enum gt_dtype dtype,
    struct gt_call *call, struct gt_err *err)
{
	const struct gt_kernel *k = test_row(set, op, dtype, call);
	int rc;

	if (!k)
		fail_msg("no kernel for %s %s", op, gt_dtype_name(dtype));
	if (set == &device_set)
		return run_on_device(k, call, err);
	call->kernel = k;
	rc = k->prepare ? k->prepare(call, err) : 0;
	if (!rc)
		call->workspace = test_alloc(call->workspace_bytes);
	if (!rc && k->bind)
		rc = k->bind(call, err);
	if (!rc)
		rc = k->run(call, err);
	if (k->release)
		k->release(call);
	free(call->workspace);
	call->workspace = NULL;
	return rc;
}

void test_refuses(const struct test_set *set, const char *op, enum gt_dtype dtype,
    struct gt_call *call, const char *text)
{
	struct gt_err err = GT_ERR_INIT;
	char want[sizeof(err.text)];

	snprintf(want, sizeof(want), "%s%s%s", set->set == &device_set ? set->name : "",
	    set->set == &device_set ? ":0: " : "", text);
	assert_int_equal(test_run(set->set, op, dtype, call, &err), GT_EFORMAT);
	assert_string_equal(err.text, want);
}

void test_release(struct gt_call *call)
{
	for (int i = 0; i < call->outputs; i++) {
		for (int j = 0; j < call->inputs; j++)
			if (call->out[i].data == call->in[j].data)
				call->out[i].data = NULL;
		free(call->out[i].data);
	}
	for (int j = 0; j < call->inputs; j++)
		free(call->in[j].data);
}

static void copy_data(struct gt_tensor *t)
{
	struct gt_tensor copy = test_tensor(t->dtype, t->ndim, t->shape);

	memcpy(copy.data, t->data, (size_t)gt_tensor_elements(t) * gt_dtype_size(t->dtype));
	t->data = copy.data;
}

void test_copy(struct gt_call *to, const struct gt_call *from)
{
	*to = *from;
	for (int i = 0; i < to->inputs; i++)
		if (to->in[i].data)
			copy_data(&to->in[i]);
	for (int i = 0; i < to->outputs; i++) {
		int in = 0;

		while (in < from->inputs && from->in[in].data != from->out[i].data)
			in++;
		if (in < from->inputs)
			to->out[i].data = to->in[in].data;
		else if (to->out[i].data)
			copy_data(&to->out[i]);
	}
}

static void check(int rc, const struct gt_err *err)
{
	if (rc < 0)
		fail_msg("%s", err->text);
}

void test_launch(
    const struct gt_cpu_set *set, const char *op, enum gt_dtype dtype, struct gt_call *call)
{
	const struct gt_kernel *k = test_row(set, op, dtype, call);

	if (!k)
		fail_msg("no kernel for %s %s", op, gt_dtype_name(dtype));
	if (set == &device_set) {
		struct gt_err err = GT_ERR_INIT;

		check(run_on_device(k, call, &err), &err);
		return;
	}
	test_launch_row(k, call);
}

void test_launch_row(const struct gt_kernel *k, struct gt_call *call)
{
	struct gt_err err = GT_ERR_INIT;
	void *data[GT_MAX_INPUTS + GT_MAX_OUTPUTS];

	for (int i = 0; i < GT_MAX_INPUTS + GT_MAX_OUTPUTS; i++) {
		struct gt_tensor *t =
		    i < GT_MAX_INPUTS ? &call->in[i] : &call->out[i - GT_MAX_INPUTS];

		data[i] = t->data;
		t->data = NULL;
	}
	call->workspace_bytes = 0;
	call->state = NULL;
	call->kernel = k;
	if (k->prepare)
		check(k->prepare(call, &err), &err);
	call->workspace = aligned_alloc(64, (call->workspace_bytes + 127) / 64 * 64);
	assert_non_null(call->workspace);
	memset(call->workspace, 0xff, call->workspace_bytes);
	for (int i = 0; i < GT_MAX_INPUTS + GT_MAX_OUTPUTS; i++)
		*(i < GT_MAX_INPUTS ? &call->in[i].data : &call->out[i - GT_MAX_INPUTS].data) =
		    data[i];
	if (k->bind)
		check(k->bind(call, &err), &err);
	for (int twice = 0; twice < 2; twice++)
		check(k->run(call, &err), &err);
	if (k->release)
		k->release(call);
	free(call->workspace);
}

double test_distance(const struct gt_tensor *a, const struct gt_tensor *b)
{
	double max = 0, largest = 1e-30;

	assert_int_equal(gt_tensor_elements(a), gt_tensor_elements(b));
	for (int64_t i = 0; i < gt_tensor_elements(a); i++) {
		double x = test_get(a, i), y = test_get(b, i);

		if (!(fabs(x - y) <= max))
			max = fabs(x - y);
		if (max != max)
			return max;
		largest = fmax(largest, fabs(y));
	}
	return max / largest;
}
