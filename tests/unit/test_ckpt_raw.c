/* test_ckpt_raw.c - tensors of types that gtrain does not compute with, in every format. */
#include "tests/unit/ckpt_fixture.h"

#include "lib/ckpt/format.h"
#include "lib/ckpt/tree/tree.h"

/* A safetensors file of this header and so many bytes, none of them alike. */
static void write_header(const char *path, const char *header, size_t data)
{
	uint64_t length = strlen(header);
	FILE *out = fopen(path, "wb");

	assert_non_null(out);
	for (int i = 0; i < 8; i++)
		fputc((int)(length >> (8 * i) & 255), out);
	fputs(header, out);
	for (size_t i = 0; i < data; i++)
		fputc((int)(37 * i + 1) & 255, out);
	assert_int_equal(fclose(out), 0);
}

/* Types that gtrain does not compute with: carried by their bytes, under their names. */
struct raw_case {
	const char *type, *shape;
	size_t bytes;
	const char *name; /* in the tree */
	enum gt_dtype dtype;
	int64_t last;          /* the last dimension in the tree; -1: a scalar */
	const char *pth, *npz; /* the error for the format; NULL: it can hold the tensor */
};

static const struct raw_case raw_cases[] = {
	{ "F8_E8M0", "[2,3]", 6, "float8_e8m0fnu", GT_RAW8, 3, NULL, "numpy has no float8" },
	{ "F8_E4M3FNUZ", "[5]", 5, "float8_e4m3fnuz", GT_RAW8, 5, NULL, "numpy has no" },
	{ "F8_E5M2FNUZ", "[0,4]", 0, "float8_e5m2fnuz", GT_RAW8, 4, NULL, "numpy has no" },
	{ "F4", "[3,6]", 9, "float4_e2m1fn_x2", GT_RAW8, 3, NULL, "numpy has no float4" },
	{ "F6_E2M3", "[2,4]", 6, "F6_E2M3", GT_RAW8, 3, "'a': a tensor of F6_E2M3", "F6_E2M3" },
	/* types that are not in the table */
	{ "Q7", "[2]", 8, "Q7", GT_RAW32, 2, "'a': a tensor of Q7", "numpy has no Q7" },
	{ "Q7", "[]", 8, "Q7", GT_RAW64, -1, "'a': a tensor of Q7", "numpy has no Q7" },
	{ "Q7", "[2,8]", 6, "Q7", GT_RAW8, 3, "'a': a tensor of Q7", "numpy has no Q7" },
	{ "Q_128", "[3]", 48, "Q_128", GT_RAW8, 48, "'a': a tensor of Q_128", "numpy has" },
};

static const struct gt_tree_tensor *open_raw(struct fixture *f, const struct raw_case *c)
{
	const struct gt_tree *a;

	gt_ckpt_close(f->ckpt);
	f->ckpt = NULL;
	if (gt_ckpt_open(&f->ckpt, f->path, &f->err))
		fail_msg("%s: %s", c->type, f->err.text);
	a = gt_tree_get(gt_ckpt_root(f->ckpt), "a");
	assert_true(a && a->kind == GT_TREE_TENSOR);
	assert_string_equal(gt_ckpt_tensor_type(&a->tensor), c->name);
	assert_int_equal(a->tensor.dtype, c->dtype);
	assert_int_equal(a->tensor.ndim ? a->tensor.shape[a->tensor.ndim - 1] : -1, c->last);
	return &a->tensor;
}

/* Write the open file in another format: it works, or it fails, leaves no file, and the hint names
 * the formats that can hold the tensor. */
static void write_other(struct fixture *f, const char *format, const char *fault, const char *hint)
{
	char *path = gt_asprintf(&f->err, "%s.other", f->path);
	int rc = gt_ckpt_write(path, format, gt_ckpt_root(f->ckpt), NULL, &f->err);

	if (rc != (fault ? GT_ENOTSUP : 0) || (fault && !strstr(f->err.text, fault)))
		fail_msg("%s: %d '%s'", format, rc, f->err.text);
	if (fault)
		assert_string_equal(f->err.hint, hint);
	assert_int_equal(access(path, F_OK), fault ? -1 : 0);
	unlink(path);
	free(path);
	f->err = GT_ERR_INIT;
}

static void test_raw_types(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(raw_cases); i++) {
		const struct raw_case *c = &raw_cases[i];
		const struct gt_tree_tensor *t;
		unsigned char before[48], after[48];
		char text[256];

		snprintf(text, sizeof(text),
		    "{\"a\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}", c->type,
		    c->shape, c->bytes);
		write_header(f->path, text, c->bytes);
		t = open_raw(f, c);
		assert_int_equal(gt_ckpt_tensor_read(t, t->dtype, before, &f->err), 0);
		assert_int_equal(gt_ckpt_tensor_read(t, GT_F32, after, GT_ERR_IGNORED), GT_ENOTSUP);
		if (gt_ckpt_write(f->path, "safetensors", gt_ckpt_root(f->ckpt), NULL, &f->err))
			fail_msg("%s", f->err.text);
		t = open_raw(f, c);
		assert_int_equal(gt_ckpt_tensor_read(t, t->dtype, after, &f->err), 0);
		assert_memory_equal(before, after, c->bytes);
		snprintf(text, sizeof(text), "\"%s\",\"shape\":%s", c->type, c->shape);
		assert_non_null(memmem(f->ckpt->map.data, f->ckpt->map.size, text, strlen(text)));
		write_other(f, "torch-zip", c->pth, "safetensors can hold it");
		write_other(f, "npz", c->npz,
		    c->pth ? "safetensors can hold it" : "safetensors and .pth can hold it");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { IN_FOLDER(test_raw_types) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
