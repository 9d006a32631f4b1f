/* test_ckpt_safetensors.c - safetensors: every rule of the format, round trips, flipped bits. */
#include "tests/unit/ckpt_fixture.h"

#include "lib/ckpt/format.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/write.h"

static void write_bytes(const char *path, const void *bytes, size_t size)
{
	FILE *out;

	unlink(path); /* ext4 makes a file that is truncated and written again wait for the disk */
	out = fopen(path, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(bytes, 1, size, out), size);
	assert_int_equal(fclose(out), 0);
}

/* A file of this header, its length as it is or `length`, and so many bytes of data. */
static void write_raw(const char *path, const char *header, uint64_t length, size_t data)
{
	char *bytes = calloc(1, 8 + strlen(header) + data);

	assert_non_null(bytes);
	length = length ? length : strlen(header);
	for (int i = 0; i < 8; i++)
		bytes[i] = (char)(length >> (8 * i));
	memcpy(bytes + 8, header, strlen(header));
	write_bytes(path, bytes, 8 + strlen(header) + data);
	free(bytes);
}

/* Lengths whose first two bytes are those of a pickle: 0x80 and a protocol. */
static void test_lengths_like_pickles(void **state)
{
	static const char header[] =
	    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
	struct fixture *f = *state;
	char text[66688 + 1];

	for (int protocol = 0; protocol <= 6; protocol++)
		for (int high = 0; high <= 1; high++) {
			int length = 0x80 + 256 * protocol + 65536 * high;
			struct gt_ckpt *ckpt;

			if (length >= (int)sizeof(text))
				continue;
			snprintf(text, sizeof(text), "%-*s", length, header);
			write_raw(f->path, text, 0, 8);
			if (gt_ckpt_open(&ckpt, f->path, &f->err))
				fail_msg("a header of %d bytes: %s", length, f->err.text);
			assert_string_equal(gt_ckpt_format(ckpt), "safetensors");
			gt_ckpt_close(ckpt);
		}
}

static const struct gt_tree *open_again(struct fixture *f)
{
	gt_ckpt_close(f->ckpt);
	f->ckpt = NULL;
	if (gt_ckpt_open(&f->ckpt, f->path, &f->err))
		fail_msg("%s", f->err.text);
	return gt_ckpt_root(f->ckpt);
}

static void write_tree(struct fixture *f, const struct gt_tree *root)
{
	if (gt_ckpt_write(f->path, "safetensors", root, NULL, &f->err))
		fail_msg("%s", f->err.text);
}

/* ---- rules ---- */

#define T(name, type, shape, offsets)                                                              \
	"\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define F32 T("a", "F32", "[2]", "[0,8]")
/* gtrain's entries: a wrong CRC-32 of the header; those of no tensors, and the end of the header */
#define CRC     "\"gtrain.crc32.header\":\"00000000\""
#define NO_CRCS "\"gtrain.crc32.tensors\":\"\"}}"

static const struct {
	const char *header;
	uint64_t length; /* 0: of the header */
	size_t data;
	int rc;
	const char *text; /* in the message */
} rules[] = {
	{ "{" F32 "}", 0, 8, 0, NULL },
	{ "{}", 0, 0, 0, NULL },
	{ "{\"__metadata__\":{},"
	  "\"a\" : {\"shape\":[], \"data_offsets\":[0,2],\"dtype\":\"BF16\"} }   ",
	    0, 2, 0, NULL },
	{ "{" T("e", "F64", "[3,0]", "[0,0]") "," F32 "," T("z", "I8", "[0]", "[8,8]") "}", 0, 8, 0,
	    NULL },
	{ "{" T("b", "F32", "[2]", "[8,16]") "," F32 "}", 0, 16, 0, NULL },
	{ "{" T("a", "F8_E8M0", "[4]", "[0,4]") "}", 0, 4, 0, NULL },
	{ "{" T("a", "F4", "[4]", "[0,2]") "}", 0, 2, 0, NULL },
	/* the length */
	{ "{" F32 "}", 100000001, 8, GT_EFORMAT, "a header of 100000001 bytes" },
	{ "{" F32 "}", UINT64_MAX, 8, GT_EFORMAT, "a header of 18446744073709551615 bytes" },
	{ "{" F32 "}", 1000, 8, GT_EFORMAT, "it ends after 70 bytes, its header after 1008" },
	{ "{" F32 "}", 0, 5, GT_EFORMAT, "3 of its 70 bytes are missing" },
	{ "{" F32 "}", 0, 9, GT_EFORMAT, "1 bytes at the end of the file belong to no tensor" },
	/* the text */
	{ " {" F32 "}", 0, 8, GT_EFORMAT, "no known format" },
	{ "{" F32, 0, 8, GT_EFORMAT, "it ends at byte 61 where ',' or '}' is due" },
	{ "{" F32 ",}", 0, 8, GT_EFORMAT, "byte 62 is not a key" },
	{ "{" F32 "}x", 0, 8, GT_EFORMAT, "ends at byte 62, but more follows" },
	{ "{" F32 F32 "}", 0, 8, GT_EFORMAT, "byte 61 is not ',' or '}'" },
	{ "{\"a\" 1}", 0, 8, GT_EFORMAT, "byte 13 is not ':'" },
	{ "{\"\\ud800\":1}", 0, 8, GT_EFORMAT, "JSON: " },
	{ "{\"\xff\":1}", 0, 8, GT_EFORMAT, "JSON: " },
	{ "{\"\\u0000\":1}", 0, 8, GT_EFORMAT, "JSON: " },
	/* names */
	{ "{" F32 "," F32 "}", 0, 8, GT_EFORMAT, "tensor 'a': the header has it twice" },
	{ "{\"__metadata__\":{},\"__metadata__\":{}}", 0, 0, GT_EFORMAT, "__metadata__ twice" },
	{ "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, 0, GT_EFORMAT, "the key 'k' twice" },
	{ "{\"__metadata__\":{\"k\":1}}", 0, 0, GT_EFORMAT, "the value of 'k' is no string" },
	{ "{\"__metadata__\":[]}", 0, 0, GT_EFORMAT, "__metadata__: JSON: byte 24 is not '{'" },
	/* the fields */
	{ "{\"a\":1}", 0, 0, GT_EFORMAT, "tensor 'a': its entry is no object" },
	{ "{\"a\":{}}", 0, 0, GT_EFORMAT, "tensor 'a': it has no dtype" },
	{ "{\"a\":{\"dtype\":\"F32\"}}", 0, 0, GT_EFORMAT, "tensor 'a': it has no shape" },
	{ "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, 0, GT_EFORMAT, "duplicate" },
	{ "{" T("a", "Q7", "[3]", "[0,8]") "}", 0, 8, GT_ENOTSUP,
	    "the dtype 'Q7' is not known, and 3 elements of it do not fill 8 bytes" },
	{ "{" T("a", "Q7", "[2]", "[0,0]") "}", 0, 0, GT_ENOTSUP, "the dtype 'Q7' is not known" },
	{ "{" T("a", "Q7", "[]", "[0,80]") "}", 0, 80, GT_ENOTSUP, "the dtype 'Q7' is not known" },
	{ "{" T("a", "Q7", "[4,2]", "[0,3]") "}", 0, 3, GT_ENOTSUP,
	    "tensor 'a': its last dimension does not fill whole bytes of Q7" },
	{ "{" T("a", "Q7", "[4294967296,4294967296]", "[0,8]") "}", 0, 8, GT_EFORMAT,
	    "its shape overflows" },
	{ "{" T("a", "Q-7", "[2]", "[0,8]") "}", 0, 8, GT_ENOTSUP, "'Q-7' is not the name" },
	{ "{" T("a", "", "[2]", "[0,8]") "}", 0, 8, GT_ENOTSUP, "'' is not the name" },
	{ "{" T("a", "f32", "[2]", "[0,8]") "}", 0, 8, GT_ENOTSUP, "'f32' is not the name" },
	{ "{" T("a", "F32", "[-2]", "[0,8]") "}", 0, 8, GT_EFORMAT, "a size in its shape is no" },
	{ "{" T("a", "F32", "[2.0]", "[0,8]") "}", 0, 8, GT_EFORMAT, "a size in its shape is no" },
	{ "{" T("a", "F32", "[[2]]", "[0,8]") "}", 0, 8, GT_EFORMAT, "a size in its shape is no" },
	{ "{" T("a", "F32", "[9223372036854775808]", "[0,8]") "}", 0, 8, GT_EFORMAT, "JSON: " },
	{ "{" T("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, 0, GT_EFORMAT,
	    "its shape overflows" },
	{ "{" T("a", "U8", "[4611686018427387904]", "[0,0]") "}", 0, 0, GT_EFORMAT,
	    "its shape overflows" },
	{ "{" T("a", "F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
	      "[0,4]") "}",
	    0, 4, GT_ENOTSUP, "33 dimensions" },
	{ "{" T("a", "F4", "[3]", "[0,2]") "}", 0, 2, GT_EFORMAT, "do not fill whole bytes" },
	{ "{" T("a", "F32", "[2]", "[0]") "}", 0, 8, GT_EFORMAT, "are not two counts" },
	{ "{" T("a", "F32", "[2]", "[0,8,8]") "}", 0, 8, GT_EFORMAT, "are not two counts" },
	{ "{" T("a", "F32", "[2]", "[-8,0]") "}", 0, 8, GT_EFORMAT, "are not two counts" },
	{ "{" T("a", "F32", "[2]", "[8,0]") "}", 0, 8, GT_EFORMAT, "end before they begin" },
	/* the ranges */
	{ "{" T("a", "F32", "[3]", "[0,8]") "}", 0, 8, GT_EFORMAT,
	    "its shape takes 12 bytes of F32, its data_offsets are 8 apart" },
	{ "{" F32 "," T("b", "F32", "[2]", "[4,12]") "}", 0, 12, GT_EFORMAT,
	    "tensor 'b': its bytes 4 to 12 of the data overlap those of 'a'" },
	{ "{" F32 "," T("b", "F32", "[2]", "[0,8]") "}", 0, 8, GT_EFORMAT, "overlap" },
	{ "{" F32 "," T("b", "F32", "[2]", "[12,20]") "}", 0, 20, GT_EFORMAT,
	    "tensor 'b': the bytes 8 to 12 of the data, before it, belong to no tensor" },
	{ "{" T("a", "U8", "[9223372036854775800]", "[0,9223372036854775800]") "}", 0, 8,
	    GT_EFORMAT, "its shape overflows" },
	/* gtrain's own entries */
	{ "{\"__metadata__\":{\"gtrain.crc32.header\":\"00000000\"}}", 0, 0, GT_EFORMAT,
	    "'gtrain.crc32.header' without 'gtrain.crc32.tensors'" },
	{ "{\"__metadata__\":{\"gtrain.crc32.tensors\":\"\"}}", 0, 0, GT_EFORMAT,
	    "'gtrain.crc32.tensors' without 'gtrain.crc32.header'" },
	{ "{\"__metadata__\":{\"gtrain.crc32.tensors\":\"\",\"gtrain.crc32.header\":\"x\"}}", 0, 0,
	    GT_EFORMAT, "is no CRC-32" },
	{ GT_ST_START "00000000\"," NO_CRCS, 0, 0, GT_EFORMAT, "its CRC-32 is " },
	/* damage in the start of gtrain's header */
	{ GT_ST_MARK "{\"format\":\"qt\"," CRC "," NO_CRCS, 0, 0, GT_EFORMAT, "its CRC-32 is " },
	{ GT_ST_MARK "{\"gormat\":\"pt\"," CRC "," NO_CRCS, 0, 0, GT_EFORMAT, "its CRC-32 is " },
};

/* A wrong CRC-32 in a header that another program has written. */
static const struct {
	const char *header;
	size_t data;
} stale[] = {
	{ "{\"__metadata__\":{\"gtrain.crc32.tensors\":\"\"," CRC "}}", 0 },
	/* as gtrain writes it, but without the spaces */
	{ "{\"__metadata__\":" GT_ST_ENTRIES "00000000\"," NO_CRCS, 0 },
	{ "{\"__metadata__\":{\"gormat\":\"pt\"," CRC "," NO_CRCS, 0 },
	{ "{\"__metadata__\":" GT_ST_ENTRIES
	  "00000000\",\"gtrain.crc32.tensors\":\"00000000\",\"gtrain.tied\":\"1\",\"x\":\"y\"}," F32
	  "}",
	    8 },
};

static void test_stale(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(stale); i++) {
		struct gt_ckpt *ckpt;
		struct gt_err err = GT_ERR_INIT;

		write_raw(f->path, stale[i].header, 0, stale[i].data);
		if (gt_ckpt_open(&ckpt, f->path, &err))
			fail_msg("%s: %s", stale[i].header, err.text);
		if (!ckpt->st_header->stale)
			fail_msg("%s: not stale", stale[i].header);
		gt_ckpt_close(ckpt);
	}
}

static void test_rules(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < COUNT(rules); i++) {
		struct gt_ckpt *ckpt;
		struct gt_err err = GT_ERR_INIT;
		int rc;

		write_raw(f->path, rules[i].header, rules[i].length, rules[i].data);
		rc = gt_ckpt_open(&ckpt, f->path, &err);
		if (rc != rules[i].rc || (rc && !strstr(err.text, rules[i].text)))
			fail_msg("%s: %d '%s'", rules[i].header, rc, err.text);
		gt_ckpt_close(ckpt);
	}
}

/* ---- round trips ---- */

static struct gt_tree *put(struct fixture *f, struct gt_tree *root, const char *name,
    enum gt_dtype dtype, int ndim, const int64_t *shape, const void *data)
{
	struct gt_tree *node = gt_tree_tensor(&f->arena, dtype, ndim, shape, data, &f->err);

	assert_int_equal(gt_tree_set(root, name, node, &f->arena, &f->err), 0);
	return node;
}

static void test_dtypes(void **state)
{
	struct fixture *f = *state;
	unsigned char data[GT_RAW8][6 * 16], back[6 * 16];
	const int64_t shape[] = { 2, 3 };
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);
	const struct gt_tree *read;

	for (int d = 0; d < GT_RAW8; d++) {
		for (size_t i = 0; i < sizeof(data[d]); i++)
			data[d][i] = d == GT_BOOL ? i & 1 : (unsigned char)(i * 7 + (size_t)d);
		if (d != GT_C128)
			put(f, root, gt_dtype_name((enum gt_dtype)d), (enum gt_dtype)d, 2, shape,
			    data[d]);
	}
	write_tree(f, root);
	read = open_again(f);
	assert_string_equal(gt_ckpt_format(f->ckpt), "safetensors");
	assert_int_equal(read->seq.count, GT_RAW8 - 1);
	for (int d = 0; d < GT_RAW8; d++) {
		const struct gt_tree *node = gt_tree_get(read, gt_dtype_name((enum gt_dtype)d));

		assert_true(!node == (d == GT_C128));
		if (!node)
			continue;
		assert_int_equal(node->tensor.dtype, d);
		assert_memory_equal(node->tensor.shape, shape, sizeof(shape));
		assert_true(node->tensor.storage->has_crc);
		assert_int_equal(
		    (uintptr_t)node->tensor.storage->bytes % gt_dtype_size(node->tensor.dtype), 0);
		assert_int_equal(
		    gt_ckpt_tensor_read(&node->tensor, node->tensor.dtype, back, &f->err), 0);
		assert_memory_equal(back, data[d], 6 * gt_dtype_size(node->tensor.dtype));
	}
}

/* Names of all sorts, scalars, empty tensors, a view with strides. */
static void test_shapes(void **state)
{
	static const float data[] = { 0, 1, 2, 3, 4, 5 };
	static const float turned[] = { 0, 3, 1, 4, 2, 5 };
	static const char *const names[] = { "", "a.b.c", "\"quoted\\\"", "gr\xc3\xb6\xc3\x9f.x",
		"tab\there", "\xf0\x9f\x92\xa1" };
	struct fixture *f = *state;
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err), *view;
	const int64_t flat[] = { 6 }, shape[] = { 3, 2 }, stride[] = { 1, 3 }, none[] = { 4, 0 };
	const struct gt_tree *read, *node;
	float back[6];

	for (size_t i = 0; i < COUNT(names); i++)
		put(f, root, names[i], GT_F32, 1, flat, data);
	root->seq.items[1].value->tensor.offset = 0;
	put(f, root, "scalar", GT_F32, 0, NULL, &data[4]);
	put(f, root, "empty", GT_F32, 2, none, NULL);
	view = put(f, root, "view", GT_F32, 1, flat, data);
	view->tensor.ndim = 2;
	view->tensor.shape = shape;
	view->tensor.stride = stride;
	write_tree(f, root);
	read = open_again(f);
	assert_int_equal(read->seq.count, COUNT(names) + 3);
	for (size_t i = 0; i < COUNT(names); i++) {
		node = gt_tree_get(read, names[i]);
		assert_non_null(node);
		assert_int_equal(gt_ckpt_tensor_read(&node->tensor, GT_F32, back, &f->err), 0);
		assert_memory_equal(back, data, sizeof(data));
	}
	node = gt_tree_get(read, "scalar");
	assert_int_equal(gt_ckpt_tensor_read(&node->tensor, GT_F32, back, &f->err), 0);
	assert_true(back[0] == 4 && node->tensor.ndim == 0);
	assert_int_equal(gt_ckpt_tensor_count(&gt_tree_get(read, "empty")->tensor), 0);
	node = gt_tree_get(read, "view");
	assert_int_equal(gt_ckpt_tensor_read(&node->tensor, GT_F32, back, &f->err), 0);
	assert_memory_equal(back, turned, sizeof(turned));
}

/* The header of the file at f->path, zero-terminated; free() it. */
static char *header_of(struct fixture *f)
{
	unsigned char length[8];
	FILE *in = fopen(f->path, "rb");
	uint64_t n = 0;
	char *text;

	assert_non_null(in);
	assert_int_equal(fread(length, 1, 8, in), 8);
	for (int i = 7; i >= 0; i--)
		n = n << 8 | length[i];
	assert_int_equal(n % 8, 0);
	text = calloc(1, n + 1);
	assert_non_null(text);
	assert_int_equal(fread(text, 1, n, in), n);
	fclose(in);
	return text;
}

/* Larger elements first, then names: the library's order of types, which is more than sizes. */
static void test_layout(void **state)
{
	static const double data[2] = { 1, 2 };
	static const char *const order[] = { "\"u64\"", "\"i64\"", "\"b.f64\"", "\"c.f64\"",
		"\"f32\"", "\"bf16\"", "\"f16\"", "\"u8\"", "\"bool\"" };
	static const enum gt_dtype types[] = { GT_U64, GT_I64, GT_F64, GT_F64, GT_F32, GT_BF16,
		GT_F16, GT_U8, GT_BOOL };
	struct fixture *f = *state;
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);
	const int64_t one[] = { 1 };
	const char *at;
	char *text;

	for (size_t i = COUNT(order); i--;) {
		char name[16];

		snprintf(name, sizeof(name), "%.*s", (int)strlen(order[i]) - 2, order[i] + 1);
		put(f, root, name, types[i], 1, one, &data[i % 2]);
	}
	write_tree(f, root);
	text = header_of(f);
	at = text;
	for (size_t i = 0; i < COUNT(order); i++) {
		at = strstr(at, order[i]);
		assert_non_null(at);
	}
	free(text);
}

static void test_ties_and_metadata(void **state)
{
	static const float data[] = { 1, 2, 3, 4 };
	struct fixture *f = *state;
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);
	struct gt_tree *metadata = gt_tree_dict(&f->arena, &f->err);
	const int64_t four[] = { 4 }, two[] = { 2 };
	const struct gt_tree *read;
	char *text;

	put(f, root, "wte.weight", GT_F32, 1, four, data);
	put(f, root, "lm_head.weight", GT_F32, 1, four, data);
	put(f, root, "part", GT_F32, 1, two, data);
	gt_tree_set(
	    metadata, "view", gt_tree_string(&f->arena, "part", &f->err), &f->arena, &f->err);
	gt_tree_set(
	    metadata, "licence", gt_tree_string(&f->arena, "none", &f->err), &f->arena, &f->err);
	root->seq.attributes = gt_tree_dict(&f->arena, &f->err);
	gt_tree_set(root->seq.attributes, GT_ST_METADATA, metadata, &f->arena, &f->err);
	for (int round = 0; round < 2; round++) {
		write_tree(f, round ? gt_ckpt_root(f->ckpt) : root);
		text = header_of(f);
		assert_non_null(strstr(text, "\"wte.weight\":\"lm_head.weight\""));
		assert_non_null(strstr(text, "\"format\":\"pt\""));
		assert_non_null(strstr(text, "\"licence\":\"none\""));
		assert_null(strstr(text, "\"wte.weight\":{"));
		free(text);
		read = open_again(f);
		assert_int_equal(read->seq.count, 3);
		assert_ptr_equal(gt_tree_get(read, "wte.weight")->tensor.storage,
		    gt_tree_get(read, "lm_head.weight")->tensor.storage);
		assert_ptr_not_equal(gt_tree_get(read, "part")->tensor.storage,
		    gt_tree_get(read, "lm_head.weight")->tensor.storage);
		read = gt_tree_get(read->seq.attributes, GT_ST_METADATA);
		assert_true(gt_tree_is_string(gt_tree_get(read, "view"), "part"));
		assert_int_equal(read->seq.count, 3); /* format, view, licence */
	}
}

static void test_refused(void **state)
{
	static const double data[2] = { 1, 2 };
	struct fixture *f = *state;
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err), *bad;
	const int64_t one[] = { 1 };
	struct {
		const char *name;
		struct gt_tree *value;
		const char *text;
	} cases[] = {
		{ "epoch", gt_tree_int(&f->arena, 3, &f->err),
		    "'epoch' is an integer: safetensors holds tensors only" },
		{ "c", gt_tree_tensor(&f->arena, GT_C128, 1, one, data, &f->err),
		    "tensor 'c' is complex128" },
		{ "__metadata__", gt_tree_tensor(&f->arena, GT_F32, 1, one, data, &f->err),
		    "which safetensors reserves" },
		{ "\xff", gt_tree_tensor(&f->arena, GT_F32, 1, one, data, &f->err), "not UTF-8" },
		{ "o", gt_tree_opaque(&f->arena, "a.B", &f->err), "object of class 'a.B'" },
	};

	put(f, root, "fine", GT_F32, 1, one, data);
	for (size_t i = 0; i < COUNT(cases); i++) {
		bad = gt_tree_dict(&f->arena, &f->err);
		gt_tree_set(bad, "fine", root->seq.items[0].value, &f->arena, &f->err);
		gt_tree_set(bad, cases[i].name, cases[i].value, &f->arena, &f->err);
		assert_int_equal(
		    gt_ckpt_write(f->path, "safetensors", bad, NULL, &f->err), GT_ENOTSUP);
		if (!strstr(f->err.text, cases[i].text))
			fail_msg("%s", f->err.text);
		assert_int_equal(access(f->path, F_OK), -1);
	}
}

static void test_cast(void **state)
{
	static const float data[] = { 1, -2.5, 65504, 1e-9F };
	static const int64_t steps[] = { 7 };
	struct fixture *f = *state;
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);
	const int64_t four[] = { 4 };
	const struct gt_ckpt_write_options options = { .cast = true, .dtype = GT_F16 };
	const struct gt_tree *read;
	float back[4];

	put(f, root, "w", GT_F32, 1, four, data);
	put(f, root, "steps", GT_I64, 0, NULL, steps);
	assert_int_equal(gt_ckpt_write(f->path, "safetensors", root, &options, &f->err), 0);
	read = open_again(f);
	assert_int_equal(gt_tree_get(read, "w")->tensor.dtype, GT_F16);
	assert_int_equal(gt_tree_get(read, "steps")->tensor.dtype, GT_I64);
	assert_int_equal(
	    gt_ckpt_tensor_read(&gt_tree_get(read, "w")->tensor, GT_F32, back, &f->err), 0);
	assert_true(back[0] == 1 && back[1] == -2.5 && back[2] == 65504 && back[3] == 0);
}

/* ---- damage ---- */

/* Whether all can be read, with the values that were written. */
static bool same_values(
    const char *path, const char *name, const void *data, size_t size, bool *refused)
{
	struct gt_ckpt *ckpt;
	const struct gt_tree *root, *node;
	unsigned char back[64];
	bool same;

	*refused = true;
	if (gt_ckpt_open(&ckpt, path, GT_ERR_IGNORED))
		return false;
	root = gt_ckpt_root(ckpt);
	node = gt_tree_get(root, name);
	same =
	    root->seq.count == 2 && node && node->kind == GT_TREE_TENSOR && gt_tree_get(root, "b");
	for (size_t i = 0; i < root->seq.count; i++) {
		struct gt_tree *t = root->seq.items[i].value;

		if (t->kind != GT_TREE_TENSOR ||
		    (size_t)gt_ckpt_tensor_count(&t->tensor) * gt_dtype_size(t->tensor.dtype) >
		        64 ||
		    gt_ckpt_tensor_read(&t->tensor, t->tensor.dtype, back, GT_ERR_IGNORED)) {
			gt_ckpt_close(ckpt);
			return false;
		}
		if (t == node)
			same = same && !memcmp(back, data, size);
	}
	*refused = false;
	gt_ckpt_close(ckpt);
	return same;
}

/* Every bit of a file: its flip is refused, whatever it means. */
static void test_flips(void **state)
{
	static const float data[] = { 1, 2, 3, 4 };
	struct fixture *f = *state;
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);
	const int64_t four[] = { 4 }, two[] = { 2 };
	unsigned char bytes[1024];
	size_t size, undetected = 0;
	bool refused;
	FILE *in;

	put(f, root, "layer.weight", GT_F32, 1, four, data);
	put(f, root, "b", GT_F32, 1, two, data);
	write_tree(f, root);
	assert_true(same_values(f->path, "layer.weight", data, sizeof(data), &refused));
	in = fopen(f->path, "rb");
	size = fread(bytes, 1, sizeof(bytes), in);
	fclose(in);
	assert_in_range(size, 100, sizeof(bytes) - 1);
	for (size_t bit = 0; bit < 8 * size; bit++) {
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		write_bytes(f->path, bytes, size);
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		same_values(f->path, "layer.weight", data, sizeof(data), &refused);
		undetected += !refused;
	}
	assert_int_equal(undetected, 0);
}

/* Every length that a cut can leave, with the missing bytes where the header gives them. */
static void test_cuts(void **state)
{
	static const float data[] = { 1, 2, 3, 4 };
	struct fixture *f = *state;
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);
	const int64_t four[] = { 4 };
	unsigned char bytes[1024];
	struct gt_ckpt *ckpt;
	size_t size;
	FILE *in;

	put(f, root, "w", GT_F32, 1, four, data);
	write_tree(f, root);
	in = fopen(f->path, "rb");
	size = fread(bytes, 1, sizeof(bytes), in);
	fclose(in);
	for (size_t length = 0; length < size; length++) {
		struct gt_err err = GT_ERR_INIT;

		write_bytes(f->path, bytes, length);
		assert_int_equal(gt_ckpt_open(&ckpt, f->path, &err), GT_EFORMAT);
		if (length > 8 && !strstr(err.text, "the file is cut"))
			fail_msg("%zu: %s", length, err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_rules),
		IN_FOLDER(test_stale),
		IN_FOLDER(test_lengths_like_pickles),
		IN_FOLDER(test_dtypes),
		IN_FOLDER(test_shapes),
		IN_FOLDER(test_layout),
		IN_FOLDER(test_ties_and_metadata),
		IN_FOLDER(test_refused),
		IN_FOLDER(test_cast),
		IN_FOLDER(test_flips),
		IN_FOLDER(test_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
