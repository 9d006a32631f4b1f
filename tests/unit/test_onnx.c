/* test_onnx.c - fields of protocol buffers, and models of ONNX that are not written. */
#include "lib/ckpt/onnx/onnx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/protobuf.h"

/* Each field, and its bytes as the encoding's documents have them. */
static void fields_are_encoded(void **state)
{
	static const unsigned char expected[] = {
		/* the number 150, and a negative one in ten bytes */
		0x08, 0x96, 0x01, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
		/* a text, and field 16, whose key has two bytes */
		0x1a, 0x02, 'h', 'i', 0x82, 0x01, 0x01, 'x',
		/* 1.5, two numbers, a message */
		0x25, 0x00, 0x00, 0xc0, 0x3f, 0x28, 0x00, 0x28, 0x7f, 0x32, 0x02, 0x08, 0x01,
		/* the start of 300 bytes */
		0x3a, 0xac, 0x02
	};
	struct gt_buf b = { 0 }, inner = { 0 };
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	gt_protobuf_int(&b, 1, 150);
	gt_protobuf_int(&b, 2, -1);
	gt_protobuf_text(&b, 3, "hi");
	gt_protobuf_bytes(&b, 16, "x", 1);
	gt_protobuf_float(&b, 4, 1.5f);
	gt_protobuf_ints(&b, 5, 2, (const int64_t[]){ 0, 127 });
	gt_protobuf_int(&inner, 1, 1);
	gt_protobuf_message(&b, 6, &inner);
	gt_protobuf_start(&b, 7, 300);
	assert_int_equal(gt_buf_check(&b, &err), 0);
	assert_int_equal(b.length, sizeof(expected));
	assert_memory_equal(b.text, expected, sizeof(expected));
	assert_null(inner.text);
	gt_buf_release(&b);
}

/* A storage whose elements must not be read. */
static int fail_read(void *self, uint64_t offset, void *out, size_t size, struct gt_err *err)
{
	(void)self;
	(void)offset;
	(void)out;
	(void)size;
	return gt_err_set(err, GT_EIO, "the weight was read");
}

/* A model with one weight of these rows and columns. */
static int write_weight(
    int64_t rows, int64_t columns, enum gt_dtype dtype, const char *path, struct gt_err *err)
{
	const int64_t shape[] = { rows, columns }, stride[] = { columns, 1 };
	struct gt_storage storage = {
		.read = fail_read, .size_bytes = (size_t)(rows * columns) * 4, .key = "0"
	};
	const struct gt_tree_tensor tensor = {
		.dtype = GT_F32, .ndim = 2, .shape = shape, .stride = stride, .storage = &storage
	};
	struct gt_onnx *m;
	int rc = gt_onnx_new(&m, err);

	if (rc)
		return rc;
	gt_onnx_add_weight(m, "fc.weight", dtype, &tensor);
	rc = gt_onnx_write(path, m, &(struct gt_ckpt_write_options){ .no_sync = true }, err);
	gt_onnx_free(m);
	return rc;
}

/* Sizes on both sides of the limit: below it, the weight is read, which fails. */
static void large_models_are_refused(void **state)
{
	const struct {
		int64_t columns;
		enum gt_dtype dtype;
		int code;
		const char *words;
	} rows[] = {
		{ (1 << 15) - 1, GT_F32, GT_EIO, "the weight was read" },
		{ 1 << 15, GT_F32, GT_ENOTSUP, "less than 2 GiB" },
		{ 1 << 16, GT_F32, GT_ENOTSUP, "the network has 4" },
		{ 4, GT_C64, GT_ENOTSUP, "'fc.weight' has the type complex64" },
	};
	char folder[] = "/tmp/test_onnx-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/net.onnx", folder);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_err err = GT_ERR_INIT;

		assert_int_equal(write_weight(1 << 14, rows[i].columns, rows[i].dtype, path, &err),
		    rows[i].code);
		assert_non_null(strstr(err.text, rows[i].words));
	}
	assert_int_equal(rmdir(folder), 0); /* nothing was written */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_encoded),
		cmocka_unit_test(large_models_are_refused),
	};

	return cmocka_run_group_tests_name("onnx", tests, NULL, NULL);
}
