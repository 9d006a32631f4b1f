/* test_ckpt_shards.c - checkpoints in shards, and edits of names where nothing else is. */
#include "tests/unit/ckpt_fixture.h"

#include <jansson.h>
#include <sys/stat.h>

#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/write.h"

static const float data[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };

/* ---- building and looking ---- */

/* A dict of tensors of `count` elements each: "a.w", "b.w", ..., each starting one further on. */
static struct gt_tree *tensors(struct fixture *f, const char *prefix, int n, int64_t count)
{
	struct gt_tree *root = gt_tree_dict(&f->arena, &f->err);

	for (int i = 0; i < n; i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s%c.w", prefix, 'a' + i);
		assert_int_equal(
		    gt_tree_set(root, name,
		        gt_tree_tensor(&f->arena, GT_F32, 1, &count, data + i, &f->err), &f->arena,
		        &f->err),
		    0);
	}
	return root;
}

static void save(struct fixture *f, const char *name, const struct gt_tree *root, uint64_t shard)
{
	const struct gt_ckpt_write_options options = { .shard_bytes = shard };

	if (gt_ckpt_write(ckpt_file(f, name), "safetensors", root, &options, &f->err))
		fail_msg("%s", f->err.text);
}

static void put_text(struct fixture *f, const char *name, const char *text)
{
	FILE *out;

	unlink(ckpt_file(f, name));
	out = fopen(f->path, "w");
	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
}

/* That name has n tensors named as tensors() does, with their values and checked sums. */
static void expect(struct fixture *f, const char *name, const char *prefix, int n, int64_t count)
{
	const struct gt_tree *root;

	gt_ckpt_close(f->ckpt);
	f->ckpt = NULL;
	if (gt_ckpt_open(&f->ckpt, ckpt_file(f, name), &f->err))
		fail_msg("%s", f->err.text);
	root = gt_ckpt_root(f->ckpt);
	assert_int_equal(root->seq.count, n);
	for (int i = 0; i < n; i++) {
		const struct gt_tree *node;
		float back[COUNT(data)];
		char key[64];

		snprintf(key, sizeof(key), "%s%c.w", prefix, 'a' + i);
		node = gt_tree_get(root, key);
		assert_non_null(node);
		assert_true(node->tensor.storage->has_crc);
		assert_int_equal(gt_ckpt_tensor_count(&node->tensor), count);
		assert_int_equal(gt_ckpt_tensor_read(&node->tensor, GT_F32, back, &f->err), 0);
		assert_memory_equal(back, data + i, (size_t)count * sizeof(*back));
	}
}

static bool exists(struct fixture *f, const char *name)
{
	return !access(ckpt_file(f, name), F_OK);
}

/* ---- shards ---- */

static void test_split(void **state)
{
	struct fixture *f = *state;
	char text[1024] = "";
	FILE *in;

	save(f, "model.safetensors", tensors(f, "", 5, 4), 32);
	assert_true(exists(f, "model-00001-of-00003.safetensors"));
	assert_true(exists(f, "model-00003-of-00003.safetensors"));
	assert_false(exists(f, "model.safetensors"));
	expect(f, "model.safetensors.index.json", "", 5, 4);
	assert_string_equal(gt_ckpt_format(f->ckpt), "safetensors-shards");
	expect(f, "", "", 5, 4); /* the folder */
	in = fopen(ckpt_file(f, "model.safetensors.index.json"), "r");
	assert_non_null(in);
	assert_true(fread(text, 1, sizeof(text) - 1, in) > 0);
	fclose(in);
	assert_string_equal(text, "{\n"
	                          "  \"metadata\": {\n"
	                          "    \"total_size\": 80\n"
	                          "  },\n"
	                          "  \"weight_map\": {\n"
	                          "    \"a.w\": \"model-00001-of-00003.safetensors\",\n"
	                          "    \"b.w\": \"model-00001-of-00003.safetensors\",\n"
	                          "    \"c.w\": \"model-00002-of-00003.safetensors\",\n"
	                          "    \"d.w\": \"model-00002-of-00003.safetensors\",\n"
	                          "    \"e.w\": \"model-00003-of-00003.safetensors\"\n"
	                          "  }\n"
	                          "}\n");
}

/* One file where it is enough; one for each tensor where none fits. */
static void test_sizes(void **state)
{
	struct fixture *f = *state;

	save(f, "one.safetensors", tensors(f, "", 3, 4), 48);
	assert_false(exists(f, "one.safetensors.index.json"));
	expect(f, "one.safetensors", "", 3, 4);
	save(f, "each.safetensors", tensors(f, "", 3, 4), 1);
	assert_true(exists(f, "each-00003-of-00003.safetensors"));
	expect(f, "each.safetensors.index.json", "", 3, 4);
}

/* No tensors are one file without tensors; an index of none would not open, so none is written.
 * (In both cases split() once wrote past its array, which only a sanitizer sees here.) */
static void test_no_tensors(void **state)
{
	const struct gt_ckpt_write_options options = { .shard_bytes = 16 };
	struct fixture *f = *state;
	struct gt_tree *root = tensors(f, "", 0, 4);

	save(f, "none.safetensors", root, 16);
	assert_false(exists(f, "none.safetensors.index.json"));
	expect(f, "none.safetensors", "", 0, 4);
	assert_int_equal(
	    gt_ckpt_write(ckpt_file(f, "none.index.json"), "safetensors", root, &options, &f->err),
	    GT_ENOTSUP);
	assert_non_null(strstr(f->err.text, "an index that lists no tensors"));
	assert_false(exists(f, "none.safetensors.index.json"));
	assert_false(exists(f, "none-00001-of-00001.safetensors"));
}

/* A tied tensor goes with the one that is kept, wherever it stands. */
static void test_tied(void **state)
{
	struct fixture *f = *state;
	struct gt_tree *root = tensors(f, "", 4, 4);
	const struct gt_tree *read;

	gt_tree_set(root, "zz", root->seq.items[0].value, &f->arena, &f->err);
	save(f, "model.safetensors", root, 16);
	assert_int_equal(
	    gt_ckpt_open(&f->ckpt, ckpt_file(f, "model.safetensors.index.json"), &f->err), 0);
	read = gt_ckpt_root(f->ckpt);
	assert_int_equal(read->seq.count, 5);
	assert_ptr_equal(
	    gt_tree_get(read, "zz")->tensor.storage, gt_tree_get(read, "a.w")->tensor.storage);
}

#define MAP(entries) "{\"metadata\":{},\"weight_map\":{" entries "}}"
#define ONE          "model-00001-of-00002.safetensors"
#define TWO          "model-00002-of-00002.safetensors"

static void test_bad_indexes(void **state)
{
	static const struct {
		const char *index;
		int rc;
		const char *text;
	} cases[] = {
		{ MAP("\"a.w\":\"" ONE "\",\"b.w\":\"" TWO "\""), 0, NULL },
		{ " \n{\"weight_map\":{\"b.w\":\"" TWO "\"}}\n", 0, NULL },
		{ MAP("\"a.w\":\"" TWO "\",\"b.w\":\"" ONE "\""), GT_EFORMAT,
		    "tensor 'a.w' is in shard '" ONE "', the index says '" TWO "'" },
		{ MAP("\"a.w\":\"" ONE "\",\"c.w\":\"" TWO "\""), GT_EFORMAT,
		    "tensor 'c.w' is missing: its shard '" TWO "' does not have it" },
		{ MAP("\"a.w\":\"" ONE "\",\"a.w\":\"" ONE "\""), GT_EFORMAT,
		    "weight_map has 'a.w' twice" },
		{ MAP("\"a.w\":\"gone.safetensors\""), GT_EIO, "gone.safetensors" },
		{ MAP("\"a.w\":\"../" ONE "\""), GT_EFORMAT, "no name of a file in this folder" },
		{ MAP("\"a.w\":\"/etc/passwd\""), GT_EFORMAT, "no name of a file in this folder" },
		{ MAP("\"a.w\":\"..\""), GT_EFORMAT, "no name of a file in this folder" },
		{ MAP("\"a.w\":\"\""), GT_EFORMAT, "no name of a file in this folder" },
		{ MAP("\"a.w\":\"bad.index.json\""), GT_EFORMAT,
		    "an index among the shards of an index" },
		{ MAP("\"a.w\":1"), GT_EFORMAT, "the value of 'a.w' is no string" },
		{ "{\"metadata\":{\"total_size\":99999999999999999999},\"weight_map\":{"
		  "\"a.w\":\"" ONE "\"}}",
		    0, NULL },
		{ MAP(""), GT_EFORMAT, "lists no tensors" },
		{ "{\"weight_map\":{},\"weight_map\":{}}", GT_EFORMAT, "weight_map twice" },
		{ "{\"weight_map\":[]}", GT_EFORMAT, "JSON: byte 14 is not '{'" },
		{ MAP("\"a.w\":\"" ONE "\"") "x", GT_EFORMAT, "more follows" },
		{ "{\"weight_map\":{\"a.w\":\"x", GT_EFORMAT, "JSON: " },
		{ MAP("\"a.w\":\"" ONE "\",\"copy\":\"twice.safetensors\""), GT_EFORMAT,
		    "tensor 'a.w' is in two shards" },
	};
	struct fixture *f = *state;

	save(f, "model.safetensors", tensors(f, "", 2, 4), 16);
	save(f, "twice.safetensors", tensors(f, "", 1, 4), 0);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_ckpt *ckpt;
		int rc;

		put_text(f, "bad.index.json", cases[i].index);
		rc = gt_ckpt_open(&ckpt, ckpt_file(f, "bad.index.json"), &err);
		if (rc != cases[i].rc || (rc && !strstr(err.text, cases[i].text)))
			fail_msg("%s: %d '%s'", cases[i].index, rc, err.text);
		gt_ckpt_close(ckpt);
	}
}

static void save_torch(struct fixture *f, const char *name, int n)
{
	const struct gt_file_name file = { .path = ckpt_file(f, name) };

	assert_int_equal(gt_torch_save(file, tensors(f, "", n, 4), &f->err), 0);
}

/* Hugging Face's older way: shards that torch.save wrote. */
static void test_torch_shards(void **state)
{
	struct fixture *f = *state;

	save_torch(f, "pytorch_model-00001-of-00001.bin", 2);
	put_text(f, "pytorch_model.bin.index.json",
	    MAP("\"a.w\":\"pytorch_model-00001-of-00001.bin\",\"b.w\":\"pytorch_model-00001-of-"
	        "00001.bin\""));
	expect(f, "", "", 2, 4);
	assert_string_equal(gt_ckpt_format(f->ckpt), "torch-shards");
}

static void test_folders(void **state)
{
	struct fixture *f = *state;
	struct gt_ckpt *ckpt;

	assert_int_equal(gt_ckpt_open(&ckpt, f->folder, &f->err), GT_EIO);
	assert_non_null(strstr(f->err.text, "a directory without a checkpoint in it"));
	/* The last first: each file that is added counts before those that are there. */
	save(f, "other.safetensors", tensors(f, "", 5, 4), 16);
	expect(f, "", "", 5, 4);
	save_torch(f, "pytorch_model-00001-of-00001.bin", 2);
	put_text(
	    f, "pytorch_model.bin.index.json", MAP("\"a.w\":\"pytorch_model-00001-of-00001.bin\""));
	expect(f, "", "", 2, 4);
	save_torch(f, "pytorch_model.bin", 4);
	expect(f, "", "", 4, 4);
	save(f, "model.safetensors", tensors(f, "", 3, 4), 16);
	expect(f, "", "", 3, 4);
	save(f, "model.safetensors", tensors(f, "", 1, 4), 0);
	expect(f, "", "", 1, 4);
	/* An index without its shards, as an interrupted download leaves it. */
	put_text(f, "model.safetensors.index.json", MAP("\"a.w\":\"gone.safetensors\""));
	expect(f, "", "", 1, 4);
}

/* ---- edits ---- */

/* `output` NULL: in place. */
static int edit(struct fixture *f, const char *input, const char *output, enum gt_edit_kind kind,
    const char *word, struct gt_edit_result *result)
{
	const char *words[] = { word, NULL };
	const struct gt_edit_request request = { kind, word ? words : NULL };
	struct gt_edit_target target = { .input = input, .output = output, .no_sync = true };
	struct gt_edit change;
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open(&ckpt, input, &f->err);

	assert_int_equal(rc, 0);
	rc = gt_edit_compute(&change, ckpt, &request, &f->err);
	assert_int_equal(rc, 0);
	rc = gt_edit_apply(ckpt, &change, &target, result, &f->err);
	gt_edit_release(&change);
	gt_ckpt_close(ckpt);
	return rc;
}

static off_t size_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void test_edit_in_place(void **state)
{
	struct fixture *f = *state;
	struct gt_edit_result result;
	char path[128];
	off_t size;

	save(f, "m.safetensors", tensors(f, "module.", 3, 4), 0);
	strcpy(path, ckpt_file(f, "m.safetensors"));
	size = size_of(path);
	assert_int_equal(edit(f, path, NULL, GT_EDIT_STRIP, NULL, &result), 0);
	assert_false(result.replaced);
	assert_int_equal(result.copied_bytes, 0);
	assert_int_equal(size_of(path), size);
	expect(f, "m.safetensors", "", 3, 4);
	/* the prefix is added again: there is room */
	assert_int_equal(edit(f, path, NULL, GT_EDIT_ADD, NULL, &result), 0);
	assert_false(result.replaced);
	assert_int_equal(size_of(path), size);
	expect(f, "m.safetensors", "module.", 3, 4);
	/* but not twice */
	assert_int_equal(edit(f, path, NULL, GT_EDIT_ADD, "much.longer.prefix.", &result), 0);
	assert_true(result.replaced && result.why);
	assert_int_equal(size_of(path), size + 4096);
	expect(f, "m.safetensors", "much.longer.prefix.module.", 3, 4);
	/* now there is */
	assert_int_equal(edit(f, path, NULL, GT_EDIT_ADD, "again.", &result), 0);
	assert_false(result.replaced);
	expect(f, "m.safetensors", "again.much.longer.prefix.module.", 3, 4);
}

static void test_edit_copy(void **state)
{
	struct fixture *f = *state;
	struct gt_edit_result result;
	char input[128], output[128];

	save(f, "m.safetensors", tensors(f, "module.", 3, 4), 0);
	strcpy(input, ckpt_file(f, "m.safetensors"));
	strcpy(output, ckpt_file(f, "out.safetensors"));
	assert_int_equal(edit(f, input, output, GT_EDIT_STRIP, NULL, &result), 0);
	assert_int_equal(result.copied_bytes, 48);
	expect(f, "out.safetensors", "", 3, 4);
	expect(f, "m.safetensors", "module.", 3, 4);
	assert_int_equal(edit(f, input, output, GT_EDIT_RENAME, "w$=gr\xc3\xbc\"n", &result), 0);
	gt_ckpt_close(f->ckpt);
	assert_int_equal(gt_ckpt_open(&f->ckpt, output, &f->err), 0);
	assert_non_null(gt_tree_get(gt_ckpt_root(f->ckpt), "module.a.gr\xc3\xbc\"n"));
	assert_int_equal(
	    edit(f, input, output, GT_EDIT_RENAME, "^module.a.w$=__metadata__", &result),
	    GT_EINVAL);
	assert_int_equal(edit(f, input, NULL, GT_EDIT_REMAP, "cpu=cuda:0", &result), 0);
	assert_int_equal(result.written_bytes, 0); /* the file names no devices */
	expect(f, "m.safetensors", "module.", 3, 4);
}

/* Both names of a tied tensor change, in a file whose own CRC is right afterwards. */
static void test_edit_tied(void **state)
{
	struct fixture *f = *state;
	struct gt_edit_result result;
	struct gt_tree *root = tensors(f, "module.", 2, 4);
	const struct gt_tree *read;
	char path[128];

	gt_tree_set(root, "module.tied.w", root->seq.items[0].value, &f->arena, &f->err);
	save(f, "m.safetensors", root, 0);
	strcpy(path, ckpt_file(f, "m.safetensors"));
	assert_int_equal(edit(f, path, NULL, GT_EDIT_STRIP, NULL, &result), 0);
	assert_int_equal(gt_ckpt_open(&f->ckpt, path, &f->err), 0);
	read = gt_ckpt_root(f->ckpt);
	assert_int_equal(read->seq.count, 3);
	assert_ptr_equal(
	    gt_tree_get(read, "a.w")->tensor.storage, gt_tree_get(read, "tied.w")->tensor.storage);
}

/* Put members into the metadata of an index, and others before it. */
static void add_members(const char *path, const char *inside, const char *before)
{
	static const char begin[] = "{\n  \"metadata\": {";
	char text[4096] = "";
	FILE *f = fopen(path, "r+");

	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	assert_memory_equal(text, begin, sizeof(begin) - 1);
	rewind(f);
	assert_true(
	    fprintf(f, "{%s, \"metadata\": {%s,%s", before, inside, text + sizeof(begin) - 1) > 0);
	assert_int_equal(fclose(f), 0);
}

/* An object of the index in a file. */
static json_t *member_of(const char *path, const char *name)
{
	json_t *index = json_load_file(path, 0, NULL), *value = json_object_get(index, name);

	json_incref(value);
	json_decref(index);
	assert_non_null(value);
	return value;
}

/* An edit keeps members of the index that other programs wrote. Only total_size changes. */
static void test_edit_keeps_members(void **state)
{
	struct fixture *f = *state;
	struct gt_edit_result result;
	char input[128], output[128];
	json_t *metadata, *note;

	save(f, "model.safetensors", tensors(f, "module.", 5, 4), 32);
	strcpy(input, ckpt_file(f, "model.safetensors.index.json"));
	strcpy(output, ckpt_file(f, "clean.safetensors.index.json"));
	add_members(input, "\"format\": \"pt\"", "\"note\": [1, {\"a\": null}]");
	assert_int_equal(edit(f, input, output, GT_EDIT_STRIP, NULL, &result), 0);
	note = member_of(output, "note");
	assert_true(json_array_size(note) == 2);
	json_decref(note);
	metadata = member_of(output, "metadata");
	assert_true(json_integer_value(json_object_get(metadata, "total_size")) == 80);
	assert_string_equal(json_string_value(json_object_get(metadata, "format")), "pt");
	json_decref(metadata);
	expect(f, "clean.safetensors.index.json", "", 5, 4);
}

static void test_edit_shards(void **state)
{
	struct fixture *f = *state;
	struct gt_edit_result result;
	char input[128], output[128];

	save(f, "model.safetensors", tensors(f, "module.", 5, 4), 32);
	strcpy(input, ckpt_file(f, "model.safetensors.index.json"));
	strcpy(output, ckpt_file(f, "clean.safetensors.index.json"));
	assert_int_equal(edit(f, input, output, GT_EDIT_STRIP, NULL, &result), 0);
	assert_int_equal(result.copied_bytes, 80);
	expect(f, "clean.safetensors.index.json", "", 5, 4);
	expect(f, "model.safetensors.index.json", "module.", 5, 4);
	assert_int_equal(edit(f, input, NULL, GT_EDIT_STRIP, NULL, &result), GT_ENOTSUP);
	assert_non_null(strstr(f->err.text, "in place"));
	strcpy(output, ckpt_file(f, "model.safetensors"));
	assert_int_equal(edit(f, input, output, GT_EDIT_STRIP, NULL, &result), GT_EINVAL);
	assert_non_null(strstr(f->err.text, "would be written over"));
	expect(f, "model.safetensors.index.json", "module.", 5, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_split),
		IN_FOLDER(test_sizes),
		IN_FOLDER(test_no_tensors),
		IN_FOLDER(test_tied),
		IN_FOLDER(test_bad_indexes),
		IN_FOLDER(test_torch_shards),
		IN_FOLDER(test_folders),
		IN_FOLDER(test_edit_in_place),
		IN_FOLDER(test_edit_copy),
		IN_FOLDER(test_edit_tied),
		IN_FOLDER(test_edit_keeps_members),
		IN_FOLDER(test_edit_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
