/* tensor.c - tensors of the state_dict, by name. */
#include <stdio.h>
#include <string.h>

#include "lib/api/api.h"

static const struct {
	int32_t dtype; /* enum gtrain_dtype */
	enum gt_dtype own;
} dtypes[] = {
	{ GTRAIN_FLOAT32, GT_F32 },
	{ GTRAIN_FLOAT64, GT_F64 },
	{ GTRAIN_FLOAT16, GT_F16 },
	{ GTRAIN_BFLOAT16, GT_BF16 },
	{ GTRAIN_INT64, GT_I64 },
	{ GTRAIN_INT32, GT_I32 },
	{ GTRAIN_UINT8, GT_U8 },
};

enum { DTYPES = sizeof(dtypes) / sizeof(*dtypes) };

const char *gt_api_dtype_name(int32_t dtype)
{
	for (int i = 0; i < DTYPES; i++)
		if (dtypes[i].dtype == dtype)
			return gt_dtype_name(dtypes[i].own);
	return NULL;
}

/* Return the number of a type in gtrain.h; 0: it has none. */
static int32_t find_dtype(enum gt_dtype own)
{
	for (int i = 0; i < DTYPES; i++)
		if (dtypes[i].own == own)
			return dtypes[i].dtype;
	return 0;
}

int gt_api_check_tensor(const struct gtrain_tensor *t, char text[GT_API_FORM], struct gt_err *err)
{
	const char *dtype = gt_api_dtype_name(t->dtype);
	size_t used;

	if (!dtype)
		return gt_err_set(
		    err, GT_EINVAL, "tensor '%s': unknown type %d", t->name, (int)t->dtype);
	if (t->ndim < 0 || t->ndim > GTRAIN_MAX_DIMS)
		return gt_err_set(
		    err, GT_EINVAL, "tensor '%s': %d dimensions", t->name, (int)t->ndim);
	used = (size_t)snprintf(text, GT_API_FORM, "%s [", dtype);
	for (int i = 0; i < t->ndim; i++)
		used += (size_t)snprintf(text + used, GT_API_FORM - used, "%s%lld", i ? ", " : "",
		    (long long)t->shape[i]);
	snprintf(text + used, GT_API_FORM - used, "]");
	return t->data ? 0 : gt_err_set(err, GT_EINVAL, "tensor '%s' has no data", t->name);
}

static int describe_slot(struct gtrain_tensor *out, const struct gt_slot *slot, struct gt_err *err)
{
	_Static_assert((int)GT_MAX_DIMS <= (int)GTRAIN_MAX_DIMS, "a tensor of the model fits");

	const struct gt_slot plain = gt_slot_plain(slot);

	*out = (struct gtrain_tensor){
		.name = slot->name, .dtype = find_dtype(plain.dtype), .ndim = plain.ndim
	};
	for (int i = 0; i < plain.ndim; i++)
		out->shape[i] = plain.shape[i];
	return out->dtype ? 0
	                  : gt_err_set(err, GT_ENOTSUP, "tensor '%s' is %s", slot->name,
	                        gt_dtype_name(plain.dtype));
}

int gtrain_describe(
    struct gtrain *run, int64_t index, struct gtrain_tensor *out, struct gtrain_error *error)
{
	struct gt_err err = GT_ERR_INIT;
	const struct gt_slot *slot = NULL;

	if (gt_api_check(run, out, "out", &err))
		return gt_api_fail(error, &err);
	*out = (struct gtrain_tensor){ 0 };
	if (index >= 0)
		slot = gt_stepper_slot(run->stepper, (size_t)index);
	if (slot)
		describe_slot(out, slot, &err);
	else
		gt_err_set(&err, GT_EINVAL, "there is no tensor number %lld", (long long)index);
	return gt_api_fail(error, &err);
}

/* Find the tensor with the name, type and shape of the caller's. */
static const struct gt_slot *find_slot(
    struct gtrain *run, const struct gtrain_tensor *t, struct gt_err *err)
{
	char given[GT_API_FORM], own[GT_API_FORM];
	const struct gt_slot *slot;
	struct gtrain_tensor wanted;

	if (gt_api_check(run, t, "tensor", err) ||
	    gt_api_check(run, t->name, "tensor->name", err) || gt_api_check_tensor(t, given, err))
		return NULL;
	slot = gt_stepper_find(run->stepper, t->name);
	if (!slot) {
		gt_err_set(err, GT_EINVAL, "the model has no tensor '%s'", t->name);
		return NULL;
	}
	if (slot->packing.block) {
		gt_err_set(err, GT_ENOTSUP, "tensor '%s' is stored in blocks of %s", slot->name,
		    gt_block_names[slot->packing.block]);
		return NULL;
	}
	if (describe_slot(&wanted, slot, err))
		return NULL;
	wanted.data = t->data;
	if (gt_api_check_tensor(&wanted, own, err))
		return NULL;
	if (!strcmp(given, own))
		return slot;
	gt_err_set(err, GT_EINVAL, "tensor '%s' is %s, not %s", t->name, own, given);
	return NULL;
}

int gtrain_read(struct gtrain *run, const struct gtrain_tensor *tensor, struct gtrain_error *error)
{
	struct gt_err err = GT_ERR_INIT;
	const struct gt_slot *slot = find_slot(run, tensor, &err);

	if (slot)
		gt_stepper_read(run->stepper, slot, tensor->data, &err);
	return gt_api_fail(error, &err);
}

int gtrain_write(struct gtrain *run, const struct gtrain_tensor *tensor, struct gtrain_error *error)
{
	struct gt_err err = GT_ERR_INIT;
	const struct gt_slot *slot = find_slot(run, tensor, &err);

	if (slot)
		gt_stepper_write(run->stepper, slot, tensor->data, &err);
	return gt_api_fail(error, &err);
}
