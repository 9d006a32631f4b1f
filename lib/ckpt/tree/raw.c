/* raw.c - the table of types that gtrain carries by their bytes. */
#include "lib/ckpt/tree/raw.h"

#include <string.h>

/*
 * Types whose byte order inside an element is not that of one number (complex32) have no row: they
 * would be wrong in a file of another byte order.
 * Source: torch/storage.py, _new_dtypes() of PyTorch 2.9; safetensors 0.8, tensor.rs, Dtype.
 */
static const struct gt_raw_type types[] = {
	{ "float8_e8m0fnu", "F8_E8M0", 8, GT_RAW8 },
	{ "float8_e4m3fnuz", "F8_E4M3FNUZ", 8, GT_RAW8 },
	{ "float8_e5m2fnuz", "F8_E5M2FNUZ", 8, GT_RAW8 },
	{ "float4_e2m1fn_x2", "F4", 4, GT_RAW8 },
	{ NULL, "F6_E2M3", 6, GT_RAW8 },
	{ NULL, "F6_E3M2", 6, GT_RAW8 },
	{ "bits8", NULL, 8, GT_RAW8 },
	{ "bits1x8", NULL, 8, GT_RAW8 },
	{ "bits2x4", NULL, 8, GT_RAW8 },
	{ "bits4x2", NULL, 8, GT_RAW8 },
	{ "bits16", NULL, 16, GT_RAW16 },
};

enum { TYPE_COUNT = sizeof(types) / sizeof(*types) };

const struct gt_raw_type *gt_raw_of_torch(const char *name)
{
	static const char module[] = "torch.";

	if (strncmp(name, module, sizeof(module) - 1))
		return NULL;
	name += sizeof(module) - 1;
	for (int i = 0; i < TYPE_COUNT; i++)
		if (types[i].torch && !strcmp(types[i].torch, name))
			return &types[i];
	return NULL;
}

const struct gt_raw_type *gt_raw_of_safetensors(const char *name)
{
	for (int i = 0; i < TYPE_COUNT; i++)
		if (types[i].safetensors && !strcmp(types[i].safetensors, name))
			return &types[i];
	return NULL;
}

const struct gt_raw_type *gt_raw_new(
    struct gt_arena *a, const char *name, unsigned bits, struct gt_err *err)
{
	struct gt_raw_type *type = gt_arena_alloc(a, sizeof(*type), err);

	if (!type)
		return NULL;
	*type = (struct gt_raw_type){ .safetensors = name, .bits = bits, .dtype = GT_RAW8 };
	if (bits == 16)
		type->dtype = GT_RAW16;
	else if (bits == 32)
		type->dtype = GT_RAW32;
	else if (bits == 64)
		type->dtype = GT_RAW64;
	return type;
}

/* Bits of the unit in which the tree counts: of an element, or of a byte. */
static int64_t unit_bits(const struct gt_raw_type *type)
{
	return 8 * (int64_t)gt_dtype_size(type->dtype);
}

bool gt_raw_pack(const struct gt_raw_type *type, int64_t elements, int64_t *units)
{
	int64_t bits;

	if (__builtin_mul_overflow(elements, (int64_t)type->bits, &bits) || bits % unit_bits(type))
		return false;
	*units = bits / unit_bits(type);
	return true;
}

bool gt_raw_unpack(const struct gt_raw_type *type, int64_t units, int64_t *elements)
{
	int64_t bits;

	if (__builtin_mul_overflow(units, unit_bits(type), &bits) || bits % type->bits)
		return false;
	*elements = bits / type->bits;
	return true;
}

const char *gt_ckpt_tensor_type(const struct gt_tree_tensor *t)
{
	if (!t->raw)
		return gt_dtype_name(t->dtype);
	return t->raw->torch ? t->raw->torch : t->raw->safetensors;
}

bool gt_raw_same_type(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	if (a->dtype != b->dtype || !a->raw != !b->raw)
		return false;
	return !a->raw || !strcmp(gt_ckpt_tensor_type(a), gt_ckpt_tensor_type(b));
}
