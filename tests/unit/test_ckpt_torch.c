/* test_ckpt_torch.c - gt_ckpt_open() reads files of gt_torch_save(); failures leave nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/zip/zip.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* ---- a folder that only the test uses, and the trees of one case ---- */

struct fixture {
	char folder[64], path[96];
	struct gt_arena arena;
	struct gt_err err;
	struct gt_tree *root;
	struct gt_ckpt *ckpt;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	snprintf(f->folder, sizeof(f->folder), "/tmp/gtrain-test-XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	snprintf(f->path, sizeof(f->path), "%s/file.pth", f->folder);
	f->root = gt_tree_dict(&f->arena, &f->err);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	gt_ckpt_close(f->ckpt);
	unlink(f->path);
	rmdir(f->folder);
	gt_arena_release(&f->arena);
	free(f);
	return 0;
}

static void put(struct fixture *f, const char *key, struct gt_tree *value)
{
	assert_int_equal(gt_tree_set(f->root, key, value, &f->arena, &f->err), 0);
}

static int save(const char *path, const struct gt_tree *root, struct gt_err *err)
{
	return gt_torch_save((struct gt_file_name){ .path = path }, root, err);
}

/* Write the root, read it back. */
static const struct gt_tree *round_trip(struct fixture *f)
{
	if (save(f->path, f->root, &f->err) || gt_ckpt_open(&f->ckpt, f->path, &f->err))
		fail_msg("%s", f->err.text);
	assert_string_equal(gt_ckpt_format(f->ckpt), "torch-zip");
	return gt_ckpt_root(f->ckpt);
}

static size_t files_in(const char *folder)
{
	DIR *dir = opendir(folder);
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

/* ---- values ---- */

static void test_dtypes(void **state)
{
	struct fixture *f = *state;
	unsigned char data[GT_RAW8][6 * 16];
	const int64_t shape[] = { 2, 3 };
	const struct gt_tree *root;

	for (int d = 0; d < GT_RAW8; d++) {
		for (size_t i = 0; i < sizeof(data[d]); i++)
			data[d][i] = d == GT_BOOL ? i & 1 : (unsigned char)(i * 7 + (size_t)d);
		put(f, gt_dtype_name((enum gt_dtype)d),
		    gt_tree_tensor(&f->arena, (enum gt_dtype)d, 2, shape, data[d], &f->err));
	}
	root = round_trip(f);
	assert_int_equal(root->seq.count, GT_RAW8);
	for (int d = 0; d < GT_RAW8; d++) {
		const struct gt_tree *node = gt_tree_get(root, gt_dtype_name((enum gt_dtype)d));
		unsigned char back[6 * 16];

		assert_non_null(node);
		assert_int_equal(node->kind, GT_TREE_TENSOR);
		assert_int_equal(node->tensor.dtype, d);
		assert_int_equal(node->tensor.ndim, 2);
		assert_memory_equal(node->tensor.shape, shape, sizeof(shape));
		assert_int_equal((uintptr_t)node->tensor.storage->bytes % GT_ZIP_ALIGN, 0);
		assert_int_equal(
		    gt_ckpt_tensor_read(&node->tensor, (enum gt_dtype)d, back, NULL), 0);
		assert_memory_equal(back, data[d], 6 * gt_dtype_size((enum gt_dtype)d));
	}
}

static void test_scalars(void **state)
{
	static const int64_t ints[] = { 0, 1, 255, 256, 65535, 65536, -1, INT32_MAX, INT32_MIN,
		(int64_t)INT32_MAX + 1, (int64_t)INT32_MIN - 1, INT64_MAX, INT64_MIN };
	static const double floats[] = { 0.0, -0.0, 0.1, 1e300, -5e-324, INFINITY };
	struct fixture *f = *state;
	struct gt_tree *list = gt_tree_list(&f->arena, &f->err);
	struct gt_tree *tuple = gt_tree_tuple(&f->arena, &f->err);
	const struct gt_tree *root;

	for (size_t i = 0; i < COUNT(ints); i++)
		gt_tree_append(list, gt_tree_int(&f->arena, ints[i], &f->err), &f->arena, &f->err);
	for (size_t i = 0; i < COUNT(floats); i++)
		gt_tree_append(
		    tuple, gt_tree_float(&f->arena, floats[i], &f->err), &f->arena, &f->err);
	put(f, "ints", list);
	put(f, "floats", tuple);
	put(f, "true", gt_tree_bool(&f->arena, true, &f->err));
	put(f, "false", gt_tree_bool(&f->arena, false, &f->err));
	put(f, "none", gt_tree_none(&f->arena, &f->err));
	put(f, "ключ 鍵 🔑", gt_tree_string(&f->arena, "värde\n", &f->err));
	put(f, "", gt_tree_list(&f->arena, &f->err));
	gt_tree_set_int(f->root, -7, gt_tree_tuple(&f->arena, &f->err), &f->arena, &f->err);
	root = round_trip(f);
	list = gt_tree_get(root, "ints")->seq.count ? (void *)gt_tree_get(root, "ints") : NULL;
	assert_int_equal(list->kind, GT_TREE_LIST);
	for (size_t i = 0; i < COUNT(ints); i++)
		assert_true(list->seq.items[i].value->integer == ints[i]);
	tuple = (void *)gt_tree_get(root, "floats");
	assert_int_equal(tuple->kind, GT_TREE_TUPLE);
	for (size_t i = 0; i < COUNT(floats); i++)
		assert_memory_equal(&tuple->seq.items[i].value->real, &floats[i], sizeof(double));
	assert_true(gt_tree_get(root, "true")->boolean);
	assert_false(gt_tree_get(root, "false")->boolean);
	assert_int_equal(gt_tree_get(root, "none")->kind, GT_TREE_NONE);
	assert_string_equal(gt_tree_get(root, "ключ 鍵 🔑")->string.bytes, "värde\n");
	assert_int_equal(gt_tree_get(root, "")->kind, GT_TREE_LIST);
	assert_int_equal(gt_tree_get_int(root, -7)->kind, GT_TREE_TUPLE);
	assert_null(gt_tree_get_int(root, 7));
	assert_null(gt_tree_get(root, "absent"));
}

/* A shared tensor is shared again, a second dtype on the same memory is not; empty ones read as
 * empty. */
static void test_storages(void **state)
{
	static const float data[] = { 1, 2, 3, 4 };
	struct fixture *f = *state;
	const int64_t four = 4, two = 2, none[] = { 3, 0 };
	const struct gt_tree *root, *a, *b, *part, *other;

	put(f, "part", gt_tree_tensor(&f->arena, GT_F32, 1, &two, data, &f->err));
	put(f, "a", gt_tree_tensor(&f->arena, GT_F32, 1, &four, data, &f->err));
	put(f, "b", gt_tree_tensor(&f->arena, GT_F32, 1, &four, data, &f->err));
	put(f, "other", gt_tree_tensor(&f->arena, GT_I32, 1, &four, data, &f->err));
	put(f, "empty", gt_tree_tensor(&f->arena, GT_F32, 2, none, NULL, &f->err));
	put(f, "scalar", gt_tree_tensor(&f->arena, GT_F32, 0, NULL, data + 2, &f->err));
	root = round_trip(f);
	a = gt_tree_get(root, "a");
	b = gt_tree_get(root, "b");
	part = gt_tree_get(root, "part");
	other = gt_tree_get(root, "other");
	assert_string_equal(a->tensor.storage->key, b->tensor.storage->key);
	assert_string_equal(a->tensor.storage->key, part->tensor.storage->key);
	assert_string_not_equal(a->tensor.storage->key, other->tensor.storage->key);
	assert_ptr_equal(a->tensor.storage, b->tensor.storage);
	assert_int_equal(part->tensor.shape[0], 2);
	assert_memory_equal(part->tensor.storage->bytes, data, sizeof(data));
	assert_int_equal(gt_ckpt_tensor_count(&gt_tree_get(root, "empty")->tensor), 0);
	assert_int_equal(gt_tree_get(root, "empty")->tensor.shape[0], 3);
	assert_int_equal(gt_tree_get(root, "scalar")->tensor.ndim, 0);
}

/* Bytes of the other endianness are written in the host's. */
static void test_swapped(void **state)
{
	static const unsigned char data[] = { 0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0 };
	struct fixture *f = *state;
	const int64_t two = 2;
	struct gt_tree *t = gt_tree_tensor(&f->arena, GT_F32, 1, &two, data, &f->err);
	const struct gt_tree *back;
	float values[2];

	t->tensor.storage->swapped = true;
	put(f, "w", t);
	back = gt_tree_get(round_trip(f), "w");
	assert_false(back->tensor.storage->swapped);
	assert_int_equal(gt_ckpt_tensor_read(&back->tensor, GT_F32, values, NULL), 0);
	assert_true(values[0] == 1.5f && values[1] == -2.0f);
}

/* ---- refusals and failures ---- */

static void test_refusals(void **state)
{
	struct fixture *f = *state;
	struct gt_tree opaque = { .kind = GT_TREE_OPAQUE, .opaque = { .class_name = "(cycle)" } };
	struct gt_tree *list = gt_tree_list(&f->arena, &f->err), *deep;

	put(f, "x", &opaque);
	assert_int_equal(save(f->path, f->root, &f->err), GT_ENOTSUP);
	assert_non_null(strstr(f->err.text, "contains itself"));
	gt_tree_append(list, list, &f->arena, &f->err);
	assert_int_equal(save(f->path, list, &f->err), GT_EINVAL);
	f->root = gt_tree_dict(&f->arena, &f->err);
	put(f, "x", gt_tree_none(&f->arena, &f->err));
	put(f, "x", gt_tree_none(&f->arena, &f->err));
	assert_int_not_equal(save(f->path, f->root, &f->err), 0);
	deep = gt_tree_list(&f->arena, &f->err);
	for (int i = 0; i < 1000; i++) {
		list = gt_tree_list(&f->arena, &f->err);
		gt_tree_append(list, deep, &f->arena, &f->err);
		deep = list;
	}
	assert_int_not_equal(save(f->path, deep, &f->err), 0);
	assert_int_not_equal(save(f->path, NULL, NULL), 0);
	assert_int_not_equal(save("/dev/null", f->root, &f->err), 0);
	assert_int_not_equal(save(f->folder, f->root, &f->err), 0);
	assert_int_equal(files_in(f->folder), 0);
}

/* A NULL passes through nested calls, with the first error's code. */
static void test_nested_failure(void **state)
{
	struct fixture *f = *state;
	struct gt_tree *bad = gt_tree_tensor(&f->arena, GT_F32, 33, NULL, NULL, &f->err);

	assert_null(bad);
	assert_int_equal(gt_tree_set(f->root, "x", bad, &f->arena, &f->err), GT_EINVAL);
	assert_int_equal(f->root->seq.count, 0);
	assert_int_not_equal(gt_tree_append(NULL, NULL, &f->arena, NULL), 0);
}

/* When the disk is full at any point, the old file stands and nothing else is in the folder. */
static void test_full_disk(void **state)
{
	static const float data[5000];
	struct fixture *f = *state;
	const int64_t n = 5000;
	struct rlimit old, limit;
	struct stat before, after;

	put(f, "w", gt_tree_tensor(&f->arena, GT_F32, 1, &n, data, &f->err));
	round_trip(f);
	assert_int_equal(stat(f->path, &before), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	for (rlim_t at = 0; at < (rlim_t)before.st_size; at += 997) {
		int rc;

		limit = (struct rlimit){ at, old.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		rc = save(f->path, f->root, &f->err);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_int_equal(rc, GT_EIO);
		assert_non_null(strstr(f->err.text, "too large"));
		assert_int_equal(files_in(f->folder), 1);
		assert_int_equal(stat(f->path, &after), 0);
		assert_true(after.st_ino == before.st_ino && after.st_size == before.st_size);
	}
	signal(SIGXFSZ, SIG_DFL);
}

static void test_permissions(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	mode_t old = umask(027);

	round_trip(f);
	umask(old);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(chmod(f->path, 0600), 0);
	assert_int_equal(save(f->path, f->root, &f->err), 0);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

/* The same tree gives the same bytes: nothing of the clock or of addresses is in the file. */
static void test_reproducible(void **state)
{
	static const float x[] = { 1, 2 }, y[] = { 3, 4 };
	struct fixture *f = *state;
	struct gt_mapping first, second;
	const int64_t two = 2;

	put(f, "x", gt_tree_tensor(&f->arena, GT_F32, 1, &two, x, &f->err));
	put(f, "y", gt_tree_tensor(&f->arena, GT_F32, 1, &two, y, &f->err));
	assert_int_equal(save(f->path, f->root, &f->err), 0);
	assert_int_equal(gt_map(&first, f->path, &f->err), 0);
	assert_int_equal(save(f->path, f->root, &f->err), 0);
	assert_int_equal(gt_map(&second, f->path, &f->err), 0);
	assert_int_equal(first.size, second.size);
	assert_memory_equal(first.data, second.data, first.size);
	gt_unmap(&first);
	gt_unmap(&second);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_dtypes),
		CASE(test_scalars),
		CASE(test_storages),
		CASE(test_swapped),
		CASE(test_refusals),
		CASE(test_nested_failure),
		CASE(test_full_disk),
		CASE(test_permissions),
		CASE(test_reproducible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
