/* test_ckpt_hostile.c - files that are cut, flipped, forged or something else entirely. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/zip.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* ---- a file in memory, with a path ---- */

struct file {
	int fd;
	char path[40];
	unsigned char *bytes;
	size_t size;
};

static void file_new(struct file *f, const void *bytes, size_t size)
{
	f->fd = memfd_create("hostile", MFD_CLOEXEC);
	assert_true(f->fd >= 0);
	snprintf(f->path, sizeof(f->path), "/proc/self/fd/%d", f->fd);
	f->bytes = malloc(size ? size : 1);
	f->size = size;
	assert_non_null(f->bytes);
	if (size)
		memcpy(f->bytes, bytes, size);
	assert_int_equal(pwrite(f->fd, bytes, size, 0), size);
}

static void file_free(struct file *f)
{
	close(f->fd);
	free(f->bytes);
}

static int read_values(const struct gt_tree_tensor *t, struct gt_err *err)
{
	int64_t n = gt_ckpt_tensor_count(t);
	unsigned char *data;
	int rc;

	if (n >= 1000)
		return 0;
	data = malloc((size_t)n * gt_dtype_size(t->dtype) + 1);
	rc = gt_ckpt_tensor_read(t, t->dtype, data, err);
	free(data);
	return rc;
}

/* Every walker after us recurses like this and reads like this. */
static int walk(const struct gt_tree *t, size_t *visits, struct gt_err *err)
{
	int rc = 0;

	if (!t || ++*visits > 100000)
		return 0;
	if (t->kind == GT_TREE_LIST || t->kind == GT_TREE_TUPLE || t->kind == GT_TREE_DICT) {
		for (size_t i = 0; !rc && i < t->seq.count; i++) {
			if (t->kind == GT_TREE_DICT)
				rc = walk(t->seq.items[i].key, visits, err);
			if (!rc)
				rc = walk(t->seq.items[i].value, visits, err);
		}
		return rc ? rc : walk(t->seq.attributes, visits, err);
	}
	if (t->kind == GT_TREE_OPAQUE) {
		assert_non_null(t->opaque.class_name);
		rc = walk(t->opaque.args, visits, err);
		if (!rc)
			rc = walk(t->opaque.items, visits, err);
		return rc ? rc : walk(t->opaque.state, visits, err);
	}
	if (t->kind == GT_TREE_STRING)
		assert_int_equal(t->string.bytes[t->string.length], 0);
	return t->kind == GT_TREE_TENSOR ? read_values(&t->tensor, err) : 0;
}

/* Open, walk, search, close: an error with a text, or a tree that holds. */
static int survive(const char *path, struct gt_err *err)
{
	struct gt_state_dict sd;
	struct gt_ckpt *ckpt;
	size_t visits = 0;
	int rc;

	*err = GT_ERR_INIT;
	rc = gt_ckpt_open(&ckpt, path, err);
	if (rc) {
		assert_null(ckpt);
	} else {
		rc = walk(gt_ckpt_root(ckpt), &visits, err);
		if (!gt_state_dict_find(&sd, gt_ckpt_root(ckpt), GT_ERR_IGNORED))
			gt_state_dict_release(&sd);
		gt_ckpt_close(ckpt);
	}
	if (rc)
		assert_true(err->text[0] && err->code == rc);
	return rc;
}

/* ---- the small files ---- */

static struct gt_tree *small_tree(struct gt_arena *a)
{
	static const float w[] = { 1, 2, 3, 4, 5, 6 };
	static const int64_t steps[] = { 7 }, shape[] = { 2, 3 };
	struct gt_tree *root = gt_tree_dict(a, GT_ERR_IGNORED),
	               *sd = gt_tree_dict(a, GT_ERR_IGNORED);
	struct gt_tree *list = gt_tree_list(a, GT_ERR_IGNORED);

	gt_tree_set(sd, "module.w", gt_tree_tensor(a, GT_F32, 2, shape, w, GT_ERR_IGNORED), a,
	    GT_ERR_IGNORED);
	gt_tree_set(sd, "module.n", gt_tree_tensor(a, GT_I64, 0, NULL, steps, GT_ERR_IGNORED), a,
	    GT_ERR_IGNORED);
	gt_tree_set(root, "state_dict", sd, a, GT_ERR_IGNORED);
	gt_tree_append(list, gt_tree_float(a, 0.5, GT_ERR_IGNORED), a, GT_ERR_IGNORED);
	gt_tree_append(list, gt_tree_int(a, 1ll << 40, GT_ERR_IGNORED), a, GT_ERR_IGNORED);
	gt_tree_set(root, "list", list, a, GT_ERR_IGNORED);
	return root;
}

static void small_zip(struct file *f)
{
	char path[] = "/tmp/gtrain-test-XXXXXX";
	struct gt_arena a = { 0 };
	struct gt_mapping map;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(
	    gt_torch_save((struct gt_file_name){ .path = path }, small_tree(&a), GT_ERR_IGNORED),
	    0);
	assert_int_equal(gt_map(&map, path, GT_ERR_IGNORED), 0);
	file_new(f, map.data, map.size);
	gt_unmap(&map);
	unlink(path);
	gt_arena_release(&a);
}

/* Set the checksums of a zip to "none", so that flips reach the bytes they protect. */
static void drop_checksums(struct file *f)
{
	for (size_t i = 0; i + 46 < f->size; i++)
		if (!memcmp(f->bytes + i, "PK\1\2", 4))
			gt_put_le(f->bytes + i + 16, 0, 4);
		else if (!memcmp(f->bytes + i, "PK\3\4", 4))
			gt_put_le(f->bytes + i + 14, 0, 4);
	assert_int_equal(pwrite(f->fd, f->bytes, f->size, 0), f->size);
}

#define P2 "\x80\x02"
#define LEGACY_MAGIC                                                                               \
	P2 "\x8a\x0al\xfc\x9c"                                                                     \
	   "F\xf9 j\xa8P\x19."
#define LEGACY_VERSION P2 "M\xe9\x03."
#define LEGACY_SYSTEM  P2 "}X\x0d\0\0\0little_endian\x88s."
#define LEGACY_KEYS                                                                                \
	P2 "](X\1\0\0\0"                                                                           \
	   "0X\1\0\0\0"                                                                            \
	   "1e."
#define LEGACY_FIRST LEGACY_MAGIC LEGACY_VERSION LEGACY_SYSTEM

/* The same object as a legacy file: the pickle is the zip's, the keys are "0" and "1". */
static void small_legacy(struct file *f)
{
	static const unsigned char counts[2][8] = { { 6 }, { 1 } };
	unsigned char out[4096], *p = out;
	const unsigned char *pickle, *data;
	struct gt_arena a = { 0 };
	struct gt_mapping map;
	struct gt_zip zip;
	struct file source;

	small_zip(&source);
	map = (struct gt_mapping){ source.bytes, source.size, -1, 0 };
	assert_int_equal(gt_zip_read(&zip, &map, &a, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_zip_open_record(&zip, gt_zip_find(&zip, "archive/data.pkl"), &a,
	                     &pickle, GT_ERR_IGNORED),
	    0);
	p = mempcpy(p, LEGACY_FIRST, sizeof(LEGACY_FIRST) - 1);
	p = mempcpy(p, pickle, gt_zip_find(&zip, "archive/data.pkl")->size);
	p = mempcpy(p, LEGACY_KEYS, sizeof(LEGACY_KEYS) - 1);
	for (int i = 0; i < 2; i++) {
		const struct gt_zip_record *r =
		    gt_zip_find(&zip, i ? "archive/data/1" : "archive/data/0");

		assert_int_equal(gt_zip_open_record(&zip, r, &a, &data, GT_ERR_IGNORED), 0);
		p = mempcpy(p, counts[i], 8);
		p = mempcpy(p, data, r->size);
	}
	file_new(f, out, (size_t)(p - out));
	file_free(&source);
	gt_arena_release(&a);
}

static void (*const small[])(struct file *f) = { small_zip, small_legacy };

/* ---- cut and flipped ---- */

static void test_cut(void **state)
{
	struct gt_err err;
	struct file f;

	(void)state;
	for (size_t kind = 0; kind < COUNT(small); kind++) {
		small[kind](&f);
		assert_int_equal(survive(f.path, &err), 0);
		for (size_t i = 0; i < 64; i++) {
			assert_int_equal(ftruncate(f.fd, (off_t)(f.size * i / 64)), 0);
			assert_int_not_equal(survive(f.path, &err), 0);
			assert_int_equal(ftruncate(f.fd, (off_t)f.size), 0);
			assert_int_equal(pwrite(f.fd, f.bytes, f.size, 0), f.size);
		}
		file_free(&f);
	}
}

static void flip_all(struct file *f, size_t *errors, size_t *trees)
{
	struct gt_err err;

	for (size_t i = 0; i < f->size; i++) {
		for (int bit = 0; bit <= 8; bit++) {
			unsigned char c = f->bytes[i] ^ (bit == 8 ? 0xff : 1 << bit);

			assert_int_equal(pwrite(f->fd, &c, 1, (off_t)i), 1);
			++*(survive(f->path, &err) ? errors : trees);
		}
		assert_int_equal(pwrite(f->fd, f->bytes + i, 1, (off_t)i), 1);
	}
}

static void test_flipped(void **state)
{
	struct file f;

	(void)state;
	for (size_t kind = 0; kind < COUNT(small); kind++) {
		size_t errors = 0, trees = 0;

		small[kind](&f);
		drop_checksums(&f);
		flip_all(&f, &errors, &trees);
		print_message("%zu flips: %zu errors, %zu trees\n", errors + trees, errors, trees);
		assert_true(errors && trees);
		file_free(&f);
	}
}

/* With the checksums in place no flip in a record's bytes goes unnoticed. */
static void test_checksum(void **state)
{
	struct gt_arena a = { 0 };
	const unsigned char *bytes;
	struct gt_err err;
	struct gt_mapping map;
	struct gt_zip zip;
	struct file f;

	(void)state;
	small_zip(&f);
	map = (struct gt_mapping){ f.bytes, f.size, -1, 0 };
	assert_int_equal(gt_zip_read(&zip, &map, &a, GT_ERR_IGNORED), 0);
	for (size_t r = 0; r < zip.count; r++) {
		if (strstr(zip.records[r].name, "version") || strstr(zip.records[r].name, "/."))
			continue; /* not read */
		assert_int_equal(
		    gt_zip_open_record(&zip, &zip.records[r], &a, &bytes, GT_ERR_IGNORED), 0);
		for (size_t i = 0; i < zip.records[r].size; i++) {
			unsigned char c = bytes[i] ^ 0x10;

			assert_int_equal(pwrite(f.fd, &c, 1, (off_t)(zip.records[r].data + i)), 1);
			assert_int_equal(survive(f.path, &err), GT_EFORMAT);
			assert_non_null(strstr(err.text, "CRC"));
			assert_int_equal(
			    pwrite(f.fd, bytes + i, 1, (off_t)(zip.records[r].data + i)), 1);
		}
	}
	assert_int_equal(survive(f.path, &err), 0);
	gt_arena_release(&a);
	file_free(&f);
}

/* ---- other files ---- */

static void test_accidents(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *said;
	} cases[] = {
#define FILE_OF(s) s, sizeof(s) - 1
		{ FILE_OF(""), "empty" },
		{ FILE_OF("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
		    "Git LFS" },
		{ FILE_OF("\n <!DOCTYPE HTML><html>"), "web page" },
		{ FILE_OF("\xef\xbb\xbf<HTML>"), "web page" },
		{ FILE_OF("<?xml version='1.0'?>"), "XML" },
		{ FILE_OF("PK\3\4 and the rest is missing"), "cut" },
		{ FILE_OF("\x1f\x8b\x08"), "gzip" },
		{ FILE_OF("BZh91AY"), "bzip2" },
		{ FILE_OF("GGUF\3\0\0\0"), "the file is cut" },
		{ FILE_OF("\x08\x07\x12\x07pytorch"), "ONNX" },
		{ FILE_OF("\x1c\0\0\0TFL3"), "TensorFlow Lite" },
		{ FILE_OF("(dp0\n."), "protocol 0" },
		{ FILE_OF("\x57\xfb\x80\x8b\x24\x75\x47\xdb"), "not a checkpoint" },
		{ FILE_OF("...\x57\xfb\x80\x8b\x24\x75\x47\xdb"), "index of a TensorFlow" },
		{ FILE_OF("L119547037146038801333356L\n."), "does not end" },
		{ FILE_OF("\0\0\0\0\0\0\0\0\0"), "all zeros" },
		{ FILE_OF("hello"), "not a checkpoint" },
		{ FILE_OF("\x80"), "not a checkpoint" },
		{ FILE_OF(P2 "]."), "not one of torch.save" },
		{ FILE_OF(LEGACY_MAGIC P2 "K\1."), "version" },
		{ FILE_OF(LEGACY_FIRST), "does not end" },
		{ FILE_OF("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), "not a checkpoint" },
		{ FILE_OF("PK\3\4PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0\0"), "data.pkl" },
	};
	struct gt_err err;
	struct file f;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		file_new(&f, cases[i].bytes, cases[i].size);
		assert_int_not_equal(survive(f.path, &err), 0);
		if (!strstr(err.text, cases[i].said) || !strstr(err.text, f.path))
			fail_msg("'%s' does not say '%s'", err.text, cases[i].said);
		file_free(&f);
	}
	assert_int_equal(survive("/nonexistent/file.pth", &err), GT_EIO);
	assert_int_equal(survive("/tmp", &err), GT_EIO);
	assert_int_equal(survive("/dev/null", &err), GT_EIO);
}

/* ---- pickles ---- */

static int read_pickle(const void *bytes, size_t size, struct gt_err *err)
{
	struct gt_arena a = { 0 };
	struct gt_tree *tree;
	size_t used = 0, visits = 0;
	int rc = gt_pickle_read(&tree, &a, bytes, size, &used, NULL, err);

	if (!rc)
		walk(tree, &visits, GT_ERR_IGNORED);
	else
		assert_null(tree);
	gt_arena_release(&a);
	return rc;
}

static const struct {
	const char *bytes;
	size_t size;
	const char *said; /* NULL: it can be read */
} pickles[] = {
	{ FILE_OF(""), "does not end" },
	{ FILE_OF("."), "other than one value" },
	{ FILE_OF("NN."), "other than one value" },
	{ FILE_OF("(N."), "other than one value" },
	{ FILE_OF("N"), "does not end" },
	{ FILE_OF("\xff."), "opcode" },
	{ FILE_OF("S'text'\n."), NULL },
	{ FILE_OF("S'text\n."), "quotes" },
	{ FILE_OF("S'\n."), "quotes" },
	{ FILE_OF("S\n."), "quotes" },
	{ FILE_OF("S'\\'\n."), NULL },
	{ FILE_OF("S'\\x4'\n."), NULL },
	{ FILE_OF("V\\u00\n."), "no character" },
	{ FILE_OF("V\\U00110000\n."), "no character" },
	{ FILE_OF("V\\\n."), NULL },
	{ FILE_OF("P1\n."), "PERSID" },
	{ FILE_OF("\x82\1."), "EXT" },
	{ FILE_OF("\x97."), "NEXT_BUFFER" },
	{ FILE_OF("(\x98."), "NEXT_BUFFER" },
	{ FILE_OF("\x80\x06N."), "protocol 6" },
	{ FILE_OF("X\xff\xff\xff\xffx."), "4294967295 bytes" },
	{ FILE_OF("\x8d\xff\xff\xff\xff\xff\xff\xff\xffx."), "18446744073709551615 bytes" },
	{ FILE_OF("\x8b\xff\xff\xff\xff."), "bytes" },
	{ FILE_OF("\x95\xff\xff\xff\xff\xff\xff\xff\x7fN."), "frame" },
	{ FILE_OF("J\1\2"), "4 bytes" },
	{ FILE_OF("X\2\0\0\0\xc3("
	          "."),
	    "UTF-8" },
	{ FILE_OF("X\3\0\0\0\xed\xa0\x80."), NULL }, /* a surrogate, as Python writes it */
	{ FILE_OF("h\0."), "memo 0" },
	{ FILE_OF("Nr\xff\xff\xff\xff."), "memo 4294967295" },
	{ FILE_OF("Np-1\n."), "memo" },
	{ FILE_OF("t."), "no mark" },
	{ FILE_OF("}Ns."), "too few" },
	{ FILE_OF("}(Nu."), "without a value" },
	{ FILE_OF("]NNs."), "not a dict" },
	{ FILE_OF("}Na."), "not a list" },
	{ FILE_OF("N}b."), "not an object" },
	{ FILE_OF("N)R."), "not a class" },
	{ FILE_OF("cos\nsystem\nNR."), "no tuple" },
	{ FILE_OF("cos\nsys"), "does not end" },
	{ FILE_OF("c\nsystem\n."), "is empty" },
	{ FILE_OF("cos\n\n."), "is empty" },
	{ FILE_OF("cos\tx\nsystem\n."), "control character" },
	{ FILE_OF("U\2osU\6system\x93."), NULL },
	{ FILE_OF("U\2osU\6sys\ntm\x93."), "control character" },
	{ FILE_OF("U\2o\nU\6system\x93."), "control character" },
	{ FILE_OF("U\2osU\0\x93."), "is empty" },
	{ FILE_OF("(N)Q."), "persistent" },
	{ FILE_OF("I12x\n."), "no integer" },
	{ FILE_OF("Fx\n."), "no number" },
	{ FILE_OF("}(K\1NK\1Nu."), "twice" },
	{ FILE_OF("}(U\1aNU\1aNu."), "'a' twice" },
	{ FILE_OF("0."), "too few" },
	{ FILE_OF("N(0."), NULL },
	{ FILE_OF("cos\nsystem\n(X\4\0\0\0rm -tR."), NULL },
	{ FILE_OF("(ios\nsystem\n."), NULL },
	{ FILE_OF("]q\0h\0a."), NULL },            /* a list that contains itself */
	{ FILE_OF("}q\0h\0h\0s."), NULL },         /* a dict that is its own key and value */
	{ FILE_OF("cA\nB\n)\x81q\0h\0b."), NULL }, /* an object that is its own state */
	{ FILE_OF("\x80\x04\x95\1\0\0\0\0\0\0\0\x8f\x94(K\1K\2\x90."), NULL },
	{ FILE_OF("\x8a\x00."), NULL },
	{ FILE_OF("L123456789012345678901234567890L\n."), NULL },
	{ FILE_OF("L\n."), "no integer" },
	{ FILE_OF("L-L\n."), "no integer" },
	{ FILE_OF("cA\nB\n)R)R."), NULL }, /* a call's result is called */
	{ FILE_OF("ccopyreg\n_reconstructor\n(cA\nB\ncbuiltins\nobject\nNtR."), NULL },
	{ FILE_OF("ccopyreg\n_reconstructor\n)R."), NULL },
	{ FILE_OF("ccopyreg\n__newobj__\n(cA\nB\ntR."), NULL },
	{ FILE_OF("ccopyreg\n__newobj_ex__\n(cA\nB\nNtR."), NULL },
	{ FILE_OF("c__builtin__\nset\n((ltR."), NULL },
	{ FILE_OF("c_codecs\nencode\n(X\2\0\0\0\xc3\xbfX\6\0\0\0latin1tR."), NULL },
	{ FILE_OF("c_codecs\nencode\n(X\3\0\0\0\xe2\x82\xacX\6\0\0\0latin1tR."), NULL },
};

static void test_pickles(void **state)
{
	struct gt_err err;

	(void)state;
	for (size_t i = 0; i < COUNT(pickles); i++) {
		int rc = read_pickle(pickles[i].bytes, pickles[i].size, &err);

		if (!pickles[i].said && rc)
			fail_msg("case %zu: %s", i, err.text);
		if (pickles[i].said && (!rc || !strstr(err.text, pickles[i].said)))
			fail_msg("case %zu: '%s' does not say '%s'", i, rc ? err.text : "",
			    pickles[i].said);
	}
}

/* Names that would be opcodes are not written; a call that looks like a storage stays a call. */
static void test_writing(void **state)
{
	static const char *const names[] = { "a\nb.c", "a.b\nc", ".b", "a.", "a" };
	struct gt_pickle_writer w;
	struct gt_arena a = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_tree *node = gt_tree_opaque(&a, "a.B", &err), *back;
	size_t size, used;
	char *bytes;

	(void)state;
	for (size_t i = 0; i < COUNT(names); i++) {
		w = (struct gt_pickle_writer){ 0 };
		assert_int_equal(
		    gt_pickle_write(&w, gt_tree_opaque(&a, names[i], &err), &bytes, &size, &err),
		    GT_ENOTSUP);
	}
	node->opaque.args = gt_tree_tuple(&a, &err);
	gt_tree_append(node->opaque.args, gt_tree_string(&a, "storage", &err), &a, &err);
	gt_tree_append(node->opaque.args, gt_tree_opaque(&a, "a.B", &err), &a, &err);
	gt_tree_append(node->opaque.args, gt_tree_bytes(&a, "k\0y", 3, &err), &a, &err);
	gt_tree_append(node->opaque.args, gt_tree_string(&a, "cpu", &err), &a, &err);
	gt_tree_append(node->opaque.args, gt_tree_int(&a, 1, &err), &a, &err);
	w = (struct gt_pickle_writer){ 0 };
	assert_int_equal(gt_pickle_write(&w, node, &bytes, &size, &err), 0);
	assert_int_equal(
	    gt_pickle_read(&back, &a, (unsigned char *)bytes, size, &used, NULL, &err), 0);
	assert_string_equal(back->opaque.class_name, "a.B");
	assert_int_equal(back->opaque.args->seq.items[2].value->string.length, 3);
	free(bytes);
	gt_arena_release(&a);
}

static void test_big_ints(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *text;
	} cases[] = {
		{ FILE_OF("\x8a\x09\0\0\0\0\0\0\0\0\1."), "0x10000000000000000" },
		{ FILE_OF("\x8a\x09\0\0\0\0\0\0\0\0\xff."), "-0x10000000000000000" },
		{ FILE_OF("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xfe."),
		    "-0x10000000000000001" },
		{ FILE_OF("\x8a\x09\1\0\0\0\0\0\0\0\x80."), "-0x7fffffffffffffffff" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_arena a = { 0 };
		struct gt_tree *tree;
		size_t used;

		assert_int_equal(gt_pickle_read(&tree, &a, (const void *)cases[i].bytes,
		                     cases[i].size, &used, NULL, NULL),
		    0);
		assert_string_equal(tree->opaque.class_name, "builtins.int");
		assert_string_equal(
		    tree->opaque.args->seq.items[0].value->string.bytes, cases[i].text);
		gt_arena_release(&a);
	}
}

/* `depth` lists in each other; and lists that hold the one before twice: 2^depth nodes in a few
 * bytes. */
static void test_bombs(void **state)
{
	enum { DEPTH = 100000 };
	unsigned char *deep = malloc(2 * DEPTH + 2), *wide = malloc(64 * 16), *p;
	struct gt_err err;

	(void)state;
	memset(deep, ']', DEPTH);
	memset(deep + DEPTH, 'a', DEPTH - 1);
	deep[2 * DEPTH - 1] = '.';
	assert_int_equal(read_pickle(deep, 2 * DEPTH, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "nested"));
	p = mempcpy(wide, "]q\0", 3);
	for (unsigned char i = 1; i < 60; i++) {
		*p++ = '0';
		p = mempcpy(
		    p, (unsigned char[]){ ']', 'q', i, 'h', i - 1, 'a', 'h', i - 1, 'a' }, 9);
	}
	*p++ = '.';
	assert_int_equal(read_pickle(wide, (size_t)(p - wide), &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "more than"));
	free(deep);
	free(wide);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_flipped),
		cmocka_unit_test(test_checksum),
		cmocka_unit_test(test_accidents),
		cmocka_unit_test(test_pickles),
		cmocka_unit_test(test_writing),
		cmocka_unit_test(test_big_ints),
		cmocka_unit_test(test_bombs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
