/* ckpt_tree.c - for ckpt.py, safetensors.py: print a checkpoint's tree, copy or convert it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/write.h"

static void print_hex(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < size; i++)
		printf("%02x", p[i]);
}

/* dtype, shape, stride, offset, location, requires_grad, the elements in order. */
static int print_tensor(const struct gt_tree_tensor *t, struct gt_err *err)
{
	size_t size = (size_t)gt_ckpt_tensor_count(t) * gt_dtype_size(t->dtype);
	void *data = gt_calloc(1, size, err);
	int rc = data ? gt_ckpt_tensor_read(t, t->dtype, data, err) : GT_ENOMEM;

	printf("tensor %s [", gt_ckpt_tensor_type(t));
	for (int i = 0; i < t->ndim; i++)
		printf("%s%" PRId64, i ? "," : "", t->shape[i]);
	printf("] [");
	for (int i = 0; i < t->ndim; i++)
		printf("%s%" PRId64, i ? "," : "", t->stride[i]);
	printf("] %" PRId64 " %s %d ", t->offset, t->storage->location, t->requires_grad);
	if (!rc)
		print_hex(data, size);
	free(data);
	return rc;
}

static int print_tree(const struct gt_tree *t, struct gt_err *err);

static int print_items(const char *name, const struct gt_tree *t, struct gt_err *err)
{
	int rc = 0;

	printf("%s %zu\n", name, t->seq.count);
	for (size_t i = 0; !rc && i < t->seq.count; i++) {
		if (t->kind == GT_TREE_DICT)
			rc = print_tree(t->seq.items[i].key, err);
		if (!rc)
			rc = print_tree(t->seq.items[i].value, err);
	}
	return rc;
}

static int print_tree(const struct gt_tree *t, struct gt_err *err)
{
	int rc = 0;

	switch (t->kind) {
	case GT_TREE_NONE:
		printf("none");
		break;
	case GT_TREE_BOOL:
		printf("bool %d", t->boolean);
		break;
	case GT_TREE_INT:
		printf("int %" PRId64, t->integer);
		break;
	case GT_TREE_FLOAT:
		printf("float ");
		print_hex(&t->real, sizeof(t->real));
		break;
	case GT_TREE_STRING:
		printf("string ");
		print_hex(t->string.bytes, t->string.length);
		break;
	case GT_TREE_LIST:
		return print_items("list", t, err);
	case GT_TREE_TUPLE:
		return print_items("tuple", t, err);
	case GT_TREE_DICT:
		return print_items("dict", t, err);
	case GT_TREE_TENSOR:
		rc = print_tensor(&t->tensor, err);
		break;
	case GT_TREE_OPAQUE:
		printf("opaque %s", t->opaque.class_name);
		break;
	}
	putchar('\n');
	return rc;
}

static int print_state(const struct gt_tree *root, struct gt_err *err)
{
	struct gt_state_dict sd;
	int rc = gt_state_dict_find(&sd, root, err);

	if (rc)
		return rc;
	printf("%s\n", sd.note);
	for (size_t i = 0; !rc && i < sd.count; i++) {
		printf("%s ", sd.entries[i].name);
		rc = print_tensor(sd.entries[i].tensor, err);
		putchar('\n');
	}
	gt_state_dict_release(&sd);
	return rc;
}

/* The state_dict as a file of another format, in shards of so many bytes if not 0. */
static int write_state(const struct gt_tree *root, const char *path, const char *format,
    uint64_t shard_bytes, struct gt_err *err)
{
	const struct gt_ckpt_write_options options = { .shard_bytes = shard_bytes };
	struct gt_arena arena = { 0 };
	struct gt_state_dict sd;
	struct gt_tree *flat = gt_tree_dict(&arena, err);
	int rc = flat ? gt_state_dict_find(&sd, root, err) : GT_ENOMEM;

	for (size_t i = 0; !rc && i < sd.count; i++) {
		struct gt_tree *node = gt_tree_new(&arena, GT_TREE_TENSOR, err);

		if (node)
			node->tensor = *sd.entries[i].tensor;
		rc = gt_tree_set(flat, sd.entries[i].name, node, &arena, err);
	}
	if (!rc)
		rc = gt_ckpt_write(path, format, flat, &options, err);
	if (flat)
		gt_state_dict_release(&sd);
	gt_arena_release(&arena);
	return rc;
}

int main(int argc, char **argv)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_ckpt *ckpt = NULL;
	int rc;

	if (argc < 3 || (!strcmp(argv[1], "copy") && argc < 4) ||
	    (!strcmp(argv[1], "write") && argc < 5)) {
		fprintf(stderr, "usage: ckpt_tree print|state FILE, ckpt_tree copy FILE OUT,\n"
		                "       ckpt_tree write FILE OUT FORMAT [SHARD-BYTES]\n");
		return 2;
	}
	rc = gt_ckpt_open(&ckpt, argv[2], &err);
	if (!rc && !strcmp(argv[1], "print")) {
		printf("%s\n", gt_ckpt_format(ckpt));
		rc = print_tree(gt_ckpt_root(ckpt), &err);
	} else if (!rc && !strcmp(argv[1], "state")) {
		rc = print_state(gt_ckpt_root(ckpt), &err);
	} else if (!rc && !strcmp(argv[1], "write")) {
		rc = write_state(gt_ckpt_root(ckpt), argv[3], argv[4],
		    argc > 5 ? strtoull(argv[5], NULL, 10) : 0, &err);
	} else if (!rc) {
		rc = gt_torch_save(
		    (struct gt_file_name){ .path = argv[3] }, gt_ckpt_root(ckpt), &err);
	}
	gt_ckpt_close(ckpt);
	if (!rc && !fflush(stdout) && !ferror(stdout))
		return 0;
	fprintf(stderr, "ckpt_tree: %s\n", err.text);
	if (err.hint[0])
		fprintf(stderr, "hint: %s\n", err.hint);
	return 1;
}
