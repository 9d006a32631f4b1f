/* test_ckpt_verify.c - what verify finds, and torn edits mended whatever byte they end at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/file.h"
#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/ckpt/tools/verify.h"
#include "lib/ckpt/write.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* In memory: each mended file is synced. */
static char folder[] = "/dev/shm/gtrain-verify-XXXXXX";
static char path[64], torn[64];

/* A whole file in memory, yours to free(). */
static unsigned char *slurp(const char *name, size_t *size)
{
	struct gt_mapping map;
	struct gt_err err = GT_ERR_INIT;
	unsigned char *copy;

	assert_int_equal(gt_map(&map, name, &err), 0);
	copy = malloc(map.size);
	assert_non_null(copy);
	memcpy(copy, map.data, map.size);
	*size = map.size;
	gt_unmap(&map);
	return copy;
}

static void spill(const char *name, const unsigned char *bytes, size_t size)
{
	FILE *f = fopen(name, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
}

static void save(const char *name, const float *values, int64_t count)
{
	struct gt_arena a = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_tree *root = gt_tree_dict(&a, &err);

	gt_tree_set(
	    root, "fc.weight", gt_tree_tensor(&a, GT_F32, 1, &count, values, &err), &a, &err);
	gt_tree_set(root, "fc.bias", gt_tree_tensor(&a, GT_F32, 1, &count, values, &err), &a, &err);
	if (gt_torch_save((struct gt_file_name){ .path = name }, root, &err))
		fail_msg("%s", err.text);
	gt_arena_release(&a);
}

static void add_module(const char *name)
{
	struct gt_edit_request request = { GT_EDIT_ADD, NULL };
	struct gt_edit_target target = { .input = name, .no_sync = true };
	struct gt_err err = GT_ERR_INIT;
	struct gt_ckpt *ckpt;
	struct gt_edit edit;

	assert_int_equal(gt_ckpt_open(&ckpt, name, &err), 0);
	if (gt_edit_compute(&edit, ckpt, &request, &err) ||
	    gt_edit_apply(ckpt, &edit, &target, NULL, &err))
		fail_msg("%s", err.text);
	gt_edit_release(&edit);
	gt_ckpt_close(ckpt);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder)) {
		strcpy(folder, "/tmp/gtrain-verify-XXXXXX");
		if (!mkdtemp(folder))
			return 1;
	}
	snprintf(path, sizeof(path), "%s/a.pth", folder);
	snprintf(torn, sizeof(torn), "%s/torn.pth", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	unlink(torn);
	return rmdir(folder);
}

/* ---- torn edits ---- */

static void mend(
    const unsigned char *bytes, size_t size, const unsigned char *wanted, size_t length)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_repair repair;
	struct gt_verify v;
	unsigned char *now;
	size_t now_size;

	spill(torn, bytes, size);
	if (gt_repair(&repair, torn, 0, &err))
		fail_msg("%zu bytes: %s", size, err.text);
	assert_int_equal(repair.old_bytes, size);
	assert_int_equal(repair.new_bytes, length);
	now = slurp(torn, &now_size);
	assert_int_equal(now_size, length);
	assert_memory_equal(now, wanted, length);
	free(now);
	assert_int_equal(gt_verify(&v, torn, 1, NULL, &err), 0);
	assert_int_equal(v.kinds[GT_FINDING_DAMAGE], 0);
	gt_verify_release(&v);
}

/* The tail of an edit in place cut at every byte, or all zeros from there (a file system that has
 * written the length and not the bytes). Twice: the second edit has an edit before it. */
static void test_torn_at_every_byte(void **state)
{
	static const float values[] = { 1, 2, 3 };
	unsigned char *before, *after;
	size_t old_size, new_size;

	(void)state;
	save(path, values, 3);
	for (int round = 0; round < 2; round++) {
		before = slurp(path, &old_size);
		add_module(path);
		after = slurp(path, &new_size);
		assert_true(new_size > old_size);
		assert_memory_equal(after, before, old_size);
		mend(after, new_size, after, new_size);
		for (size_t size = old_size; size < new_size; size++) {
			unsigned char *zeros = calloc(1, new_size);

			assert_non_null(zeros);
			memcpy(zeros, after, size);
			mend(after, size, before, old_size);
			if (memcmp(zeros, after, new_size))
				mend(zeros, new_size, before, old_size);
			free(zeros);
		}
		free(before);
		free(after);
	}
}

/* Opening a torn file says how to mend it; one that is only cut says nothing of the kind. */
static void test_hint(void **state)
{
	static const float values[] = { 1, 2, 3 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_ckpt *ckpt;
	struct gt_repair repair;
	unsigned char *bytes, *now;
	size_t size, plain_size, now_size;

	(void)state;
	save(path, values, 3);
	bytes = slurp(path, &plain_size);
	spill(torn, bytes, plain_size - 9);
	assert_int_equal(gt_ckpt_open(&ckpt, torn, &err), GT_EFORMAT);
	assert_null(strstr(err.hint, "--repair"));
	assert_int_equal(gt_repair(&repair, torn, 0, &err), GT_EFORMAT);
	now = slurp(torn, &now_size);
	assert_int_equal(now_size, plain_size - 9);
	free(now);
	free(bytes);
	add_module(path);
	bytes = slurp(path, &size);
	spill(torn, bytes, size - 9);
	assert_int_equal(gt_ckpt_open(&ckpt, torn, &err), GT_EFORMAT);
	assert_non_null(strstr(err.hint, "`gtrain ckpt verify --repair`"));
	free(bytes);
}

/* Bytes that no edit wrote are named, and kept: a text, and a copy of the archive itself. */
static void test_foreign_bytes(void **state)
{
	static const float values[] = { 1, 2, 3 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_ckpt *ckpt;
	struct gt_repair repair;
	unsigned char *bytes, *both, *now;
	size_t size, more, now_size;

	(void)state;
	save(path, values, 3);
	bytes = slurp(path, &size);
	assert_true(size % 64);
	for (int copy = 0; copy < 2; copy++) {
		more = copy ? size : 5;
		both = malloc(size + more);
		assert_non_null(both);
		memcpy(both, bytes, size);
		memcpy(both + size, copy ? bytes : (const unsigned char *)"notes", more);
		spill(torn, both, size + more);
		err = (struct gt_err)GT_ERR_INIT;
		assert_int_equal(gt_ckpt_open(&ckpt, torn, &err), GT_EFORMAT);
		assert_non_null(
		    strstr(err.hint, copy ? ".distcp" : "bytes are not part of the archive"));
		err = (struct gt_err)GT_ERR_INIT;
		assert_int_equal(gt_repair(&repair, torn, 0, &err), GT_EFORMAT);
		assert_non_null(strstr(err.hint, copy ? ".distcp" : "`head -c"));
		now = slurp(torn, &now_size);
		assert_int_equal(now_size, size + more);
		assert_memory_equal(now, both, now_size);
		free(now);
		free(both);
	}
	free(bytes);
}

/* No earlier state of the file repairs a fault in the tensors themselves. */
static void test_flipped_bit_is_not_mended(void **state)
{
	static const float values[] = { 1, 2, 3 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_repair repair;
	unsigned char *bytes;
	size_t size;

	(void)state;
	save(path, values, 3);
	add_module(path);
	bytes = slurp(path, &size);
	for (size_t i = 0; i + sizeof(values) <= size; i++)
		if (!memcmp(bytes + i, values, sizeof(values)))
			bytes[i + 5] ^= 1;
	spill(torn, bytes, size - 1);
	free(bytes);
	assert_int_equal(gt_repair(&repair, torn, 0, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "no earlier state"));
}

static void test_no_zip(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_repair repair;

	(void)state;
	spill(torn, (const unsigned char *)"text", 4);
	assert_int_equal(gt_repair(&repair, torn, 0, &err), GT_ENOTSUP);
	spill(torn, (const unsigned char *)"", 0);
	assert_int_equal(gt_repair(&repair, torn, 0, &err), GT_ENOTSUP);
	unlink(torn);
	assert_int_equal(gt_repair(&repair, torn, 0, &err), GT_EIO);
}

/* ---- failures ---- */

/* The number of findings of a kind, of a file that holds these bytes. */
static size_t findings(const void *bytes, size_t size, enum gt_finding_kind kind)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_verify v;
	size_t n;

	spill(torn, bytes, size);
	if (gt_verify(&v, torn, 1, NULL, &err))
		fail_msg("%s", err.text);
	n = v.kinds[kind];
	gt_verify_release(&v);
	return n;
}

static size_t flip_all(unsigned char *bytes, size_t size, const void *pattern, size_t length)
{
	size_t found = 0;

	for (size_t i = 0; i + length <= size; i++)
		if (!memcmp(bytes + i, pattern, length)) {
			bytes[i + length / 2] ^= 1;
			found++;
		}
	return found;
}

/*
 * Every tensor whose bytes have changed gets a finding, in each format that has sums; the numbers
 * of damaged tensors are checked all the same.
 */
static void test_all_damage_is_found(void **state)
{
	static const float weight[] = { 1, 2, 3, 4 }, bias[] = { 5, 6, 7, __builtin_inff() };
	static const char *const formats[] = { "torch-zip", "safetensors", "npz" };
	const int64_t count = 4;

	(void)state;
	for (size_t i = 0; i < COUNT(formats); i++) {
		struct gt_arena a = { 0 };
		struct gt_err err = GT_ERR_INIT;
		struct gt_tree *root = gt_tree_dict(&a, &err);
		unsigned char *bytes;
		size_t size;

		gt_tree_set(root, "fc.weight", gt_tree_tensor(&a, GT_F32, 1, &count, weight, &err),
		    &a, &err);
		gt_tree_set(
		    root, "fc.bias", gt_tree_tensor(&a, GT_F32, 1, &count, bias, &err), &a, &err);
		if (gt_ckpt_write(path, formats[i], root, NULL, &err))
			fail_msg("%s", err.text);
		gt_arena_release(&a);
		bytes = slurp(path, &size);
		assert_int_equal(findings(bytes, size, GT_FINDING_DAMAGE), 0);
		assert_int_equal(findings(bytes, size, GT_FINDING_NUMBER), 1);
		assert_int_equal(flip_all(bytes, size, weight, sizeof(weight)), 1);
		assert_int_equal(findings(bytes, size, GT_FINDING_DAMAGE), 1);
		assert_int_equal(flip_all(bytes, size, bias, sizeof(bias)), 1);
		assert_int_equal(findings(bytes, size, GT_FINDING_DAMAGE), 2);
		assert_int_equal(findings(bytes, size, GT_FINDING_NUMBER), 1);
		free(bytes);
	}
}

/* A file that is understood and not supported has not been looked at: that is no note. */
static void test_unsupported_fails(void **state)
{
	static const char version_1002[] =
	    "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xea\x03.";

	(void)state;
	assert_int_equal(findings(version_1002, sizeof(version_1002) - 1, GT_FINDING_UNREAD), 1);
	assert_int_equal(findings(version_1002, sizeof(version_1002) - 1, GT_FINDING_NOTE), 0);
}

static void save_legacy(const char *name, struct gt_tree *root)
{
	struct gt_err err = GT_ERR_INIT;

	if (gt_ckpt_write(name, "torch-legacy", root, NULL, &err))
		fail_msg("%s", err.text);
}

/* Other programs open the zip that is appended to a legacy file. */
static void test_tail_of_legacy(void **state)
{
	struct gt_arena a = { 0 };
	struct gt_err err = GT_ERR_INIT;
	unsigned char *file, *zip;
	size_t size, zip_size;

	(void)state;
	save(path, (const float[]){ 1, 2, 3 }, 3);
	zip = slurp(path, &zip_size);
	save_legacy(path, gt_tree_dict(&a, &err));
	gt_arena_release(&a);
	file = slurp(path, &size);
	assert_int_equal(findings(file, size, GT_FINDING_DAMAGE), 0);
	file = realloc(file, size + zip_size);
	assert_non_null(file);
	memcpy(file + size, zip, zip_size);
	assert_int_equal(findings(file, size + 1, GT_FINDING_DAMAGE), 1);
	assert_int_equal(findings(file, size + zip_size, GT_FINDING_DAMAGE), 1);
	free(file);
	free(zip);
}

/* Verify does not read values, so their number has no limit. */
static void test_many_values(void **state)
{
	struct gt_arena a = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_tree *root = gt_tree_dict(&a, &err), *one = gt_tree_none(&a, &err);
	struct gt_verify v;

	(void)state;
	for (int i = 0; i < 262145; i++)
		assert_int_equal(gt_tree_set_int(root, i, one, &a, &err), 0);
	save_legacy(path, root);
	gt_arena_release(&a);
	if (gt_verify(&v, path, 1, NULL, &err))
		fail_msg("%s", err.text);
	assert_int_equal(v.finding_count, 0);
	gt_verify_release(&v);
}

/* A folder is opened by its files; one without a checkpoint is an error. */
static void test_folder(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_verify v;
	char name[96];

	(void)state;
	snprintf(name, sizeof(name), "%s/pytorch_model.bin", folder);
	assert_int_equal(gt_verify(&v, folder, 1, NULL, &err), GT_EIO);
	save(name, (const float[]){ 1, 2, 3 }, 3);
	if (gt_verify(&v, folder, 1, NULL, &err))
		fail_msg("%s", err.text);
	assert_int_equal(v.tensors, 2);
	assert_int_equal(v.finding_count, 0);
	gt_verify_release(&v);
	unlink(name);
}

/* ---- dead bytes ---- */

static void test_dead_bytes(void **state)
{
	static const float values[] = { 1, 2, 3 };
	struct gt_err err = GT_ERR_INIT;
	uint64_t file, dead, last = 0;
	struct gt_ckpt *ckpt;

	(void)state;
	save(path, values, 3);
	for (int edits = 0; edits < 3; edits++) {
		assert_int_equal(gt_ckpt_open(&ckpt, path, &err), 0);
		assert_int_equal(gt_ckpt_file_usage(ckpt, &file, &dead, &err), 0);
		gt_ckpt_close(ckpt);
		assert_true(edits ? dead > last : dead == 0);
		last = dead;
		add_module(path);
	}
}

/* ---- globals ---- */

static void test_judgement(void **state)
{
	static const struct {
		const char *name;
		enum gt_global_verdict verdict;
	} cases[] = {
		{ "collections.OrderedDict", GT_GLOBAL_ALLOWED },
		{ "torch._utils._rebuild_tensor_v2", GT_GLOBAL_ALLOWED },
		{ "torch.cuda.sparse.ShortTensor", GT_GLOBAL_ALLOWED },
		{ "torch.float8_e4m3fn", GT_GLOBAL_ALLOWED },
		{ "_codecs.encode", GT_GLOBAL_ALLOWED },
		{ "__builtin__.set", GT_GLOBAL_ALLOWED },
		{ "torch.uint64", GT_GLOBAL_ALLOWED },
		{ "torch.uint9", GT_GLOBAL_UNLISTED },
		{ "torch.nn.modules.linear.Linear", GT_GLOBAL_UNLISTED },
		{ "collections.defaultdict", GT_GLOBAL_UNLISTED },
		{ "osmnx.graph", GT_GLOBAL_UNLISTED },
		{ "", GT_GLOBAL_UNLISTED },
		{ "os.system", GT_GLOBAL_DANGEROUS },
		{ "os.path.join", GT_GLOBAL_DANGEROUS },
		{ "posix.system", GT_GLOBAL_DANGEROUS },
		{ "builtins.eval", GT_GLOBAL_DANGEROUS },
		{ "__builtin__.exec", GT_GLOBAL_DANGEROUS },
		{ "builtins.evaluate", GT_GLOBAL_UNLISTED },
		{ "torch.storage._load_from_bytes", GT_GLOBAL_DANGEROUS },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		if (gt_global_classify(cases[i].name) != cases[i].verdict)
			fail_msg("%s", cases[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_torn_at_every_byte),
		cmocka_unit_test(test_hint),
		cmocka_unit_test(test_foreign_bytes),
		cmocka_unit_test(test_flipped_bit_is_not_mended),
		cmocka_unit_test(test_no_zip),
		cmocka_unit_test(test_all_damage_is_found),
		cmocka_unit_test(test_unsupported_fails),
		cmocka_unit_test(test_tail_of_legacy),
		cmocka_unit_test(test_many_values),
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_dead_bytes),
		cmocka_unit_test(test_judgement),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
