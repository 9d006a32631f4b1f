/* test_ckpt_npz.c - numpy's arrays: every rule of the header, archives there and back. */
#include "tests/unit/ckpt_fixture.h"

#include "lib/ckpt/format.h"
#include "lib/ckpt/npz/npy.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/write.h"

/* ---- headers ---- */

/* An array in memory: a header of version `major`, then `data` zeros. */
static size_t build(unsigned char *out, int major, const char *header, size_t length, size_t data)
{
	size_t width = major == 1 ? 2 : 4, n = strlen(header);

	memcpy(out, "\x93NUMPY", 6);
	out[6] = (unsigned char)major;
	out[7] = 0;
	length = length ? length : n;
	for (size_t i = 0; i < width; i++)
		out[8 + i] = (unsigned char)(length >> (8 * i));
	memcpy(out + 8 + width, header, n);
	memset(out + 8 + width + n, 0, data);
	return 8 + width + n + data;
}

#define D(descr, order, shape)                                                                     \
	"{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"

static const struct {
	const char *header;
	size_t length; /* 0: of the header */
	size_t data;
	int major, rc;
	const char *text;
} rules[] = {
	{ D("<f4", "False", "(2, 3)"), 0, 24, 1, 0, NULL },
	{ D("<f4", "False", "(2, 3)"), 0, 24, 2, 0, NULL },
	{ D("<f4", "False", "(2, 3)"), 0, 24, 3, 0, NULL },
	{ D("|b1", "False", "(5,)"), 0, 5, 1, 0, NULL },
	{ D(">c16", "True", "()"), 0, 16, 1, 0, NULL },
	{ D("<u8", "False", "(3L, 0L)"), 0, 0, 1, 0, NULL },
	{ "{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"=i2\"}    ", 0, 2, 1, 0, NULL },
	/* sizes */
	{ D("<f4", "False", "(2, 3)"), 0, 23, 1, GT_EFORMAT, "1 of its 24 bytes are missing" },
	{ D("<f4", "False", "(2, 3)"), 0, 25, 1, GT_EFORMAT, "1 bytes more than its 24" },
	{ D("<f4", "False", "(2, 3)"), 1000, 24, 1, GT_EFORMAT, "bytes of its header are missing" },
	{ D("<f4", "False", "(2, 3)"), 70000, 24, 2, GT_EFORMAT, "a header of 70000 bytes" },
	{ D("<f4", "False", "(9223372036854775807, 2)"), 0, 8, 1, GT_EFORMAT, "overflows" },
	{ D("<f4", "False", "(9223372036854775808,)"), 0, 8, 1, GT_EFORMAT, "a count below 2^63" },
	{ D("<f4", "False", "(-1,)"), 0, 8, 1, GT_EFORMAT, "a count" },
	{ D("<f4", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"),
	    0, 4, 1, GT_ENOTSUP, "more than 32 dimensions" },
	/* types */
	{ D("|O", "False", "(1,)"), 0, 8, 1, GT_ENOTSUP, "an array of objects ('|O')" },
	{ D("<V2", "False", "(1,)"), 0, 2, 1, GT_ENOTSUP, "an array of raw bytes ('<V2')" },
	{ D("<U4", "False", "(1,)"), 0, 16, 1, GT_ENOTSUP, "the dtype '<U4'" },
	{ D("f4", "False", "(1,)"), 0, 4, 1, GT_ENOTSUP, "the dtype 'f4'" },
	{ "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 0, 4, 1, GT_ENOTSUP,
	    "an array of structures" },
	/* the dict */
	{ D("<f4", "0", "(1,)"), 0, 4, 1, GT_EFORMAT, "True or False at byte 44" },
	{ D("<f4", "False", "[1]"), 0, 4, 1, GT_EFORMAT, "a tuple" },
	{ D("<f4", "False", "(1)"), 0, 4, 1, GT_EFORMAT, "a tuple" },
	{ D("<f4", "False", "(1 2)"), 0, 8, 1, GT_EFORMAT, "',' or ')'" },
	{ "{'descr': '<f4', 'shape': (1,)}", 0, 4, 1, GT_EFORMAT, "lacks descr, fortran_order" },
	{ "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 0, 4, 1,
	    GT_EFORMAT, "the key 'descr' twice" },
	{ "{'descr': '<f4', 'x': 1, 'fortran_order': False, 'shape': (1,)}", 0, 4, 1, GT_EFORMAT,
	    "the key 'x'" },
	{ "{'descr': '<f4' 'fortran_order': False}", 0, 4, 1, GT_EFORMAT, "',' or '}'" },
	{ "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (1,)}", 0, 4, 1, GT_EFORMAT,
	    "a plain string" },
	{ "{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}", 0, 4, 1, GT_EFORMAT,
	    "something else than a string at byte 20" },
	{ D("<f4", "False", "(1,)") "x", 0, 4, 1, GT_EFORMAT, "blanks" },
	{ "{'descr': '<f4", 0, 0, 1, GT_EFORMAT, "the end of a string" },
	{ "", 0, 0, 1, GT_EFORMAT, "'{'" },
	{ D("<f4", "False", "(1,)"), 0, 4, 4, GT_ENOTSUP, "version 4.0" },
};

static void test_rules(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(rules); i++) {
		unsigned char bytes[512];
		size_t size =
		    build(bytes, rules[i].major, rules[i].header, rules[i].length, rules[i].data);
		struct gt_err err = GT_ERR_INIT;
		struct gt_ckpt *ckpt;
		int rc = gt_ckpt_open_memory(&ckpt, bytes, size, &err);

		if (rc != rules[i].rc || (rc && !strstr(err.text, rules[i].text)))
			fail_msg("%s: %d '%s'", rules[i].header, rc, err.text);
		gt_ckpt_close(ckpt);
	}
}

/* Big-endian elements, the first index that of neighbours. */
static void test_order(void **state)
{
	static const char header[] = D(">i2", "True", "(2, 3)");
	static const int64_t expected[] = { 1, 3, 5, 2, 4, 6 };
	unsigned char bytes[512];
	size_t size = build(bytes, 1, header, 0, 12);
	struct gt_err err = GT_ERR_INIT;
	const struct gt_tree *node;
	struct gt_ckpt *ckpt;
	int64_t back[6];

	(void)state;
	for (size_t i = 0; i < 6; i++)
		bytes[size - 12 + 2 * i + 1] = (unsigned char)(i + 1);
	assert_int_equal(gt_ckpt_open_memory(&ckpt, bytes, size, &err), 0);
	assert_string_equal(gt_ckpt_format(ckpt), "npy");
	node = gt_tree_get(gt_ckpt_root(ckpt), "arr_0");
	assert_non_null(node);
	assert_int_equal(gt_ckpt_tensor_read(&node->tensor, GT_I64, back, &err), 0);
	assert_memory_equal(back, expected, sizeof(expected));
	gt_ckpt_close(ckpt);
}

/* An archive without arrays is an end record; the same bytes before others are no archive. */
static void test_no_arrays(void **state)
{
	unsigned char bytes[24] = "PK\5\6";
	struct gt_err err = GT_ERR_INIT;
	struct gt_ckpt *ckpt;

	(void)state;
	assert_int_equal(gt_ckpt_open_memory(&ckpt, bytes, 22, &err), 0);
	assert_string_equal(gt_ckpt_format(ckpt), "npz");
	assert_int_equal(gt_ckpt_root(ckpt)->seq.count, 0);
	gt_ckpt_close(ckpt);
	bytes[8] = 1; /* a record, of which there is no room */
	assert_int_equal(gt_ckpt_open_memory(&ckpt, bytes, 22, &err), GT_EFORMAT);
	assert_int_equal(gt_ckpt_open_memory(&ckpt, bytes, 24, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "not a checkpoint"));
}

/* The very bytes that numpy 1.24 writes for this array. */
static void test_format(void **state)
{
	static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
	const int64_t shape[] = { 2, 3 };
	unsigned char expected[128], *header;
	size_t size;

	(void)state;
	memset(expected, ' ', sizeof(expected));
	memcpy(expected, "\x93NUMPY\1\0v\0", 10);
	memcpy(expected + 10, text, sizeof(text) - 1);
	expected[127] = '\n';
	assert_int_equal(gt_npy_format(&header, &size, GT_F32, 2, shape, GT_ERR_IGNORED), 0);
	assert_int_equal(size, sizeof(expected));
	assert_memory_equal(header, expected, size);
	free(header);
	assert_int_equal(
	    gt_npy_format(&header, &size, GT_BF16, 2, shape, GT_ERR_IGNORED), GT_ENOTSUP);
}

/* ---- archives ---- */

static void put(struct fixture *f, struct gt_tree *root, const char *name, enum gt_dtype dtype,
    int ndim, const int64_t *shape, const void *data)
{
	struct gt_tree *node = gt_tree_tensor(&f->arena, dtype, ndim, shape, data, &f->err);

	assert_int_equal(gt_tree_set(root, name, node, &f->arena, &f->err), 0);
}

static bool numpy_has(enum gt_dtype dtype)
{
	return dtype != GT_BF16 && dtype != GT_F8_E4M3 && dtype != GT_F8_E5M2;
}

static void test_dtypes(void **state)
{
	struct fixture *f = *state;
	unsigned char data[GT_RAW8][6 * 16], back[6 * 16];
	const int64_t shape[] = { 2, 3 }, none[] = { 0, 5 };
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);
	const struct gt_tree *read;

	put(f, root, "a/scalar", GT_BOOL, 0, NULL, "\1");
	put(f, root, "empty", GT_F64, 2, none, NULL);
	put(f, root, "w", GT_I8, 0, NULL, "\2");
	put(f, root, "W", GT_I8, 0, NULL, "\3");
	for (int d = 0; d < GT_RAW8; d++) {
		for (size_t i = 0; i < sizeof(data[d]); i++)
			data[d][i] = d == GT_BOOL ? i & 1 : (unsigned char)(i * 7 + (size_t)d);
		if (numpy_has((enum gt_dtype)d))
			put(f, root, gt_dtype_name((enum gt_dtype)d), (enum gt_dtype)d, 2, shape,
			    data[d]);
	}
	if (gt_ckpt_write(f->path, "npz", root, NULL, &f->err))
		fail_msg("%s", f->err.text);
	if (gt_ckpt_open(&f->ckpt, f->path, &f->err))
		fail_msg("%s", f->err.text);
	read = gt_ckpt_root(f->ckpt);
	assert_string_equal(gt_ckpt_format(f->ckpt), "npz");
	assert_int_equal(read->seq.count, root->seq.count);
	for (size_t i = 4; i < read->seq.count; i++) {
		const struct gt_tree_tensor *t = &read->seq.items[i].value->tensor;

		assert_string_equal(read->seq.items[i].key->string.bytes, gt_dtype_name(t->dtype));
		assert_memory_equal(t->shape, shape, sizeof(shape));
		assert_true(t->storage->has_crc);
		assert_int_equal((uintptr_t)t->storage->bytes % 64, 0);
		assert_int_equal(gt_ckpt_tensor_read(t, t->dtype, back, &f->err), 0);
		assert_memory_equal(back, data[t->dtype], 6 * gt_dtype_size(t->dtype));
	}
	assert_int_equal(gt_tree_get(read, "a/scalar")->tensor.ndim, 0);
	assert_int_equal(*(const char *)gt_tree_get(read, "w")->tensor.storage->bytes, 2);
	assert_int_equal(*(const char *)gt_tree_get(read, "W")->tensor.storage->bytes, 3);
	assert_int_equal(gt_tree_get(read, "empty")->tensor.shape[1], 5);
}

static void test_refused(void **state)
{
	static const float data[] = { 1 };
	static const struct {
		const char *first, *second;
		enum gt_dtype dtype;
		const char *text;
	} cases[] = {
		{ "a", "b", GT_BF16, "tensor 'b': numpy has no bfloat16" },
		{ "a", "../b", GT_F32, "tensor '../b': this name is no plain relative path" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);

		put(f, root, cases[i].first, GT_F32, 0, NULL, data);
		put(f, root, cases[i].second, cases[i].dtype, 0, NULL, data);
		assert_int_equal(gt_ckpt_write(f->path, "npz", root, NULL, &f->err), GT_ENOTSUP);
		if (!strstr(f->err.text, cases[i].text))
			fail_msg("%s", f->err.text);
		assert_int_equal(access(f->path, F_OK), -1);
	}
}

/* Each bit of the archive: a flip is refused, or changes no name and no value. */
static void test_flips(void **state)
{
	static const float data[] = { 1, 2, 3, 4 };
	struct fixture *f = *state;
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);
	const int64_t four[] = { 4 };
	unsigned char bytes[2048];
	size_t size;
	FILE *in;

	put(f, root, "weight", GT_F32, 1, four, data);
	assert_int_equal(gt_ckpt_write(f->path, "npz", root, NULL, &f->err), 0);
	in = fopen(f->path, "rb");
	size = fread(bytes, 1, sizeof(bytes), in);
	fclose(in);
	assert_in_range(size, 100, sizeof(bytes) - 1);
	for (size_t bit = 0; bit < 8 * size; bit++) {
		struct gt_ckpt *ckpt;
		float back[16];

		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		if (!gt_ckpt_open_memory(&ckpt, bytes, size, GT_ERR_IGNORED)) {
			const struct gt_tree *read = gt_ckpt_root(ckpt),
			                     *w = gt_tree_get(read, "weight");

			if (!w || w->tensor.dtype != GT_F32 ||
			    gt_ckpt_tensor_count(&w->tensor) != 4)
				fail_msg("bit %zu", bit);
			if (!gt_ckpt_tensor_read(&w->tensor, GT_F32, back, GT_ERR_IGNORED) &&
			    memcmp(back, data, sizeof(data)) != 0)
				fail_msg("bit %zu", bit);
			gt_ckpt_close(ckpt);
		}
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
}

/* Eight bytes in a pickle, as arrays of every type that numpy has and we have. */
static void test_pickled_arrays(void **state)
{
	static const struct {
		const char *name;
		enum gt_dtype dtype;
	} types[] = { { "f4", GT_F32 }, { "f2", GT_F16 }, { "i8", GT_I64 }, { "i1", GT_I8 },
		{ "u1", GT_U8 }, { "u2", GT_U16 }, { "u4", GT_U32 }, { "u8", GT_U64 },
		{ "b1", GT_BOOL }, { "c8", GT_C64 } };

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		unsigned char pickle[] =
		    "\x80\2cnumpy.core.multiarray\n_reconstruct\n)R"
		    "(K\1(K?tcnumpy\ndtype\n(U\2??tR(K\3U\1<tb\x89U\10abcdefghtb.";
		size_t size = sizeof(pickle) - 1, used, count = 8 / gt_dtype_size(types[i].dtype);
		unsigned char *shape = memchr(pickle, '?', size);
		struct gt_err err = GT_ERR_INIT;
		struct gt_arena arena = { 0 };
		struct gt_tree *root, *array = NULL;

		*shape = (unsigned char)count;
		memcpy(
		    memchr(shape + 1, '?', size - (size_t)(shape + 1 - pickle)), types[i].name, 2);
		if (gt_pickle_read(&root, &arena, pickle, size, &used, NULL, &err) ||
		    gt_pickle_numpy(&array, root, &arena, &err))
			fail_msg("%s: %s", types[i].name, err.text);
		if (!array)
			fail_msg("%s: not taken for an array", types[i].name);
		assert_int_equal(array->tensor.dtype, types[i].dtype);
		assert_int_equal(gt_ckpt_tensor_count(&array->tensor), count);
		gt_arena_release(&arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pickled_arrays),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_no_arrays),
		cmocka_unit_test(test_format),
		IN_FOLDER(test_dtypes),
		IN_FOLDER(test_refused),
		IN_FOLDER(test_flips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
