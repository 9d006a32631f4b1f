/* dnnl.c - a kernel call as a few oneDNN primitives. */
#include "kernels/cpu/dnnl.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/mem.h"

static const char *status_text(dnnl_status_t status)
{
	switch (status) {
	case dnnl_out_of_memory:
		return "out of memory";
	case dnnl_invalid_arguments:
		return "invalid arguments";
	case dnnl_unimplemented:
		return "not implemented";
	case dnnl_runtime_error:
		return "run-time error";
	default:
		return "unexpected status";
	}
}

/* "[2, 3] x [3, 4] -> [2, 4]" of the tensors that are present; cut short where it does not fit. */
static void shapes_text(const struct gt_call *call, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < call->inputs + call->outputs; i++) {
		bool output = i >= call->inputs;
		const struct gt_tensor *t = output ? &call->out[i - call->inputs] : &call->in[i];

		if (!t->present)
			continue;
		for (int d = -1; d <= t->ndim && used < size; d++) {
			int n;

			if (d < 0)
				n = snprintf(text + used, size - used, "%s[",
				    used == 0 ? ""
				    : output  ? " -> "
				              : " x ");
			else if (d == t->ndim)
				n = snprintf(text + used, size - used, "]");
			else
				n = snprintf(text + used, size - used, "%s%lld", d ? ", " : "",
				    (long long)t->shape[d]);
			used += n > 0 ? (size_t)n : 0;
		}
	}
}

int gt_dnnl_check(dnnl_status_t status, const struct gt_call *call, const char *op,
    const char *what, struct gt_err *err)
{
	char shapes[200];

	if (status == dnnl_success)
		return 0;
	shapes_text(call, shapes, sizeof(shapes));
	return gt_err_set(err, status == dnnl_out_of_memory ? GT_ENOMEM : GT_EDEVICE,
	    "%s: oneDNN cannot %s: %s (%s)", op, what, status_text(status), shapes);
}

/*
 * Return true if oneDNN can compute in bfloat16, which needs a processor with AVX-512. A kernel
 * that computes in bfloat16 has this function as its member `accepts` (struct gt_kernel). If oneDNN
 * cannot be opened, return false. The call then gets a kernel that computes in float32, and that
 * kernel's prepare() reports the reason.
 */
bool gt_dnnl_accepts_bf16(const struct gt_call *call)
{
	(void)call;
	if (gt_dnnl_api_load(GT_ERR_IGNORED))
		return false;
	/* An instruction set's number has the bits of those that it includes. */
	return (gt_dnnl_api->get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) ==
	       dnnl_cpu_isa_avx512_core;
}

int gt_dnnl_new(struct gt_call *call, const char *op, struct gt_err *err)
{
	struct gt_dnnl *d;
	int rc = gt_dnnl_api_load(err);

	if (rc < 0)
		return rc;
	d = gt_calloc(1, sizeof(*d), err);
	if (!d)
		return GT_ENOMEM;
	d->op = op;
	call->state = d;
	rc = gt_dnnl_check(
	    gt_dnnl_api->engine_create(&d->engine, dnnl_cpu, 0), call, op, "open the cpu", err);
	if (rc == 0)
		rc = gt_dnnl_check(
		    gt_dnnl_api->stream_create(&d->stream, d->engine, dnnl_stream_default_flags),
		    call, op, "make a stream", err);
	if (rc < 0)
		gt_dnnl_release(call);
	return rc;
}

int gt_dnnl_describe(struct gt_call *call, const struct gt_tensor *t, dnnl_format_tag_t tag,
    gt_dnnl_md *out, struct gt_err *err)
{
	dnnl_data_type_t type = t->dtype == GT_BF16 ? dnnl_bf16 : dnnl_f32;
	struct gt_dnnl *d = call->state;
	dnnl_dims_t dims;
	int rc;

	for (int i = 0; i < t->ndim; i++)
		dims[i] = t->shape[i];
	rc = gt_dnnl_check(
	    gt_dnnl_md_new(out, t->ndim, dims, type, tag), call, d->op, "describe it", err);
	if (rc == 0)
		d->mds[d->mds_count++] = *out;
	return rc;
}

struct gt_dnnl_address gt_dnnl_workspace(struct gt_call *call, size_t bytes)
{
	size_t offset = (call->workspace_bytes + 63) / 64 * 64;

	call->workspace_bytes = offset + bytes;
	return (struct gt_dnnl_address){ GT_DNNL_WORKSPACE, offset };
}

int gt_dnnl_attr(
    const struct gt_call *call, const char *op, dnnl_primitive_attr_t *out, struct gt_err *err)
{
	int rc = gt_dnnl_check(
	    gt_dnnl_api->primitive_attr_create(out), call, op, "make attributes", err);

	if (rc == 0)
		rc = gt_dnnl_check(gt_dnnl_api->primitive_attr_set_scratchpad_mode(
		                       *out, dnnl_scratchpad_mode_user),
		    call, op, "take a scratchpad", err);
	return rc;
}

int gt_dnnl_arg(struct gt_call *call, struct gt_dnnl_step *step, int arg, gt_dnnl_md desc,
    struct gt_dnnl_address address, struct gt_err *err)
{
	struct gt_dnnl *d = call->state;
	int i = step->args_count;
	int rc = gt_dnnl_check(
	    gt_dnnl_api->memory_create(&step->args[i].memory, desc, d->engine, DNNL_MEMORY_NONE),
	    call, d->op, "describe its memory", err);

	if (rc < 0)
		return rc;
	step->args[i].arg = arg;
	step->address[i] = address;
	step->args_count++;
	return 0;
}

/*
 * Append a step with a primitive of `desc`, which must have been made with the attributes of
 * gt_dnnl_attr(). If the primitive needs a scratchpad (temporary memory), this
 * function adds one at the end of the call's workspace and makes it the first argument. *out is
 * borrowed from the call: pass it to gt_dnnl_arg() to append the other arguments. *out is NULL if
 * memory runs out.
 */
int gt_dnnl_step_add(struct gt_call *call, const_dnnl_primitive_desc_t desc,
    struct gt_dnnl_step **out, struct gt_err *err)
{
	struct gt_dnnl *d = call->state;
	struct gt_dnnl_step *step = &d->steps[d->steps_count];
	gt_dnnl_md scratch =
	    gt_dnnl_api->primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
	size_t bytes = gt_dnnl_api->memory_desc_get_size(scratch);
	int rc = gt_dnnl_check(gt_dnnl_api->primitive_desc_clone(&step->desc, desc), call, d->op,
	    "describe its kernel", err);

	*out = NULL;
	if (rc < 0)
		return rc;
	d->steps_count++;
	*out = step;
	if (bytes == 0)
		return 0;
	return gt_dnnl_arg(
	    call, step, DNNL_ARG_SCRATCHPAD, scratch, gt_dnnl_workspace(call, bytes), err);
}

int gt_dnnl_reorder_add(struct gt_call *call, gt_dnnl_md from, struct gt_dnnl_address from_address,
    gt_dnnl_md to, struct gt_dnnl_address to_address, struct gt_err *err)
{
	struct gt_dnnl *d = call->state;
	struct gt_dnnl_step *step;
	dnnl_primitive_attr_t attr = NULL;
	dnnl_primitive_desc_t desc = NULL;
	int rc;

	if ((rc = gt_dnnl_attr(call, d->op, &attr, err)) < 0)
		goto out;
	rc = gt_dnnl_check(
	    gt_dnnl_api->reorder_primitive_desc_create(&desc, from, d->engine, to, d->engine, attr),
	    call, d->op, "reorder its weights", err);
	if (rc < 0)
		goto out;
	if ((rc = gt_dnnl_step_add(call, desc, &step, err)) < 0)
		goto out;
	if ((rc = gt_dnnl_arg(call, step, DNNL_ARG_FROM, from, from_address, err)) < 0)
		goto out;
	rc = gt_dnnl_arg(call, step, DNNL_ARG_TO, to, to_address, err);
out:
	gt_dnnl_api->primitive_desc_destroy(desc);
	gt_dnnl_api->primitive_attr_destroy(attr);
	return rc;
}

static void *data_of(const struct gt_call *call, struct gt_dnnl_address address)
{
	switch (address.memory) {
	case GT_DNNL_IN:
		return call->in[address.at].data;
	case GT_DNNL_OUT:
		return call->out[address.at].data;
	default:
		return (char *)call->workspace + address.at;
	}
}

static int create_primitive(struct gt_call *call, struct gt_dnnl_step *step, struct gt_err *err)
{
	struct gt_dnnl *d = call->state;
	int rc;

	if (step->primitive)
		return 0;
	rc = gt_dnnl_check(gt_dnnl_api->primitive_create(&step->primitive, step->desc), call, d->op,
	    "make its kernel", err);
	gt_dnnl_api->primitive_desc_destroy(step->desc);
	step->desc = NULL;
	return rc;
}

int gt_dnnl_bind(struct gt_call *call, struct gt_err *err)
{
	struct gt_dnnl *d = call->state;
	int rc = 0;

	for (int s = 0; s < d->steps_count && rc == 0; s++) {
		struct gt_dnnl_step *step = &d->steps[s];

		rc = create_primitive(call, step, err);
		for (int i = 0; i < step->args_count && rc == 0; i++)
			rc = gt_dnnl_check(gt_dnnl_api->memory_set_data_handle(step->args[i].memory,
			                       data_of(call, step->address[i])),
			    call, d->op, "bind its memory", err);
	}
	return rc;
}

int gt_dnnl_run(struct gt_call *call, struct gt_err *err)
{
	struct gt_dnnl *d = call->state;
	dnnl_status_t status = dnnl_success;

	for (int s = 0; s < d->steps_count && status == dnnl_success; s++)
		status = gt_dnnl_api->primitive_execute(
		    d->steps[s].primitive, d->stream, d->steps[s].args_count, d->steps[s].args);
	if (status == dnnl_success)
		status = gt_dnnl_api->stream_wait(d->stream);
	return gt_dnnl_check(status, call, d->op, "run", err);
}

void gt_dnnl_release(struct gt_call *call)
{
	struct gt_dnnl *d = call->state;

	if (!d)
		return;
	for (int s = 0; s < d->steps_count; s++) {
		for (int i = 0; i < d->steps[s].args_count; i++)
			gt_dnnl_api->memory_destroy(d->steps[s].args[i].memory);
		gt_dnnl_api->primitive_desc_destroy(d->steps[s].desc);
		gt_dnnl_api->primitive_destroy(d->steps[s].primitive);
	}
	for (int m = 0; m < d->mds_count; m++)
		gt_dnnl_md_free(d->mds[m]);
	gt_dnnl_api->stream_destroy(d->stream);
	gt_dnnl_api->engine_destroy(d->engine);
	free(d);
	call->state = NULL;
}
