/* ckpt_dump.c - for ckpt_forms.py: all that was read of a checkpoint, a line for each node. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/ckpt.h"

/* Storages in the order in which they are met. */
struct seen {
	const struct gt_storage **storages;
	size_t count, capacity;
};

static void print_hex(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < size; i++)
		printf("%02x", p[i]);
}

static size_t number_of(struct seen *seen, const struct gt_storage *storage)
{
	for (size_t i = 0; i < seen->count; i++)
		if (seen->storages[i] == storage)
			return i;
	if (gt_grow(&seen->storages, seen->count, &seen->capacity, sizeof(*seen->storages),
	        GT_ERR_IGNORED))
		return 0;
	seen->storages[seen->count] = storage;
	return seen->count++;
}

/* dtype, shape, stride, offset, storage's key, location, requires_grad, the elements. */
static int print_tensor(struct seen *seen, const struct gt_tree_tensor *t, struct gt_err *err)
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
	printf("] %" PRId64 " #%zu %s %d ", t->offset, number_of(seen, t->storage),
	    t->storage->location, t->requires_grad);
	if (!rc)
		print_hex(data, size);
	free(data);
	return rc;
}

static int print_tree(struct seen *seen, const struct gt_tree *t, struct gt_err *err);

static int print_part(
    struct seen *seen, const char *name, const struct gt_tree *part, struct gt_err *err)
{
	if (!part)
		return 0;
	printf("%s\n", name);
	return print_tree(seen, part, err);
}

static int print_items(
    struct seen *seen, const char *name, const struct gt_tree *t, struct gt_err *err)
{
	int rc = 0;

	printf("%s %zu\n", name, t->seq.count);
	for (size_t i = 0; !rc && i < t->seq.count; i++) {
		if (t->kind == GT_TREE_DICT)
			rc = print_tree(seen, t->seq.items[i].key, err);
		if (!rc)
			rc = print_tree(seen, t->seq.items[i].value, err);
	}
	return rc ? rc : print_part(seen, "attributes", t->seq.attributes, err);
}

static int print_opaque(struct seen *seen, const struct gt_tree *t, struct gt_err *err)
{
	int rc;

	printf("opaque %s\n", t->opaque.class_name);
	rc = print_part(seen, "args", t->opaque.args, err);
	if (!rc)
		rc = print_part(seen, "items", t->opaque.items, err);
	return rc ? rc : print_part(seen, "state", t->opaque.state, err);
}

static int print_tree(struct seen *seen, const struct gt_tree *t, struct gt_err *err)
{
	int rc;

	switch (t->kind) {
	case GT_TREE_NONE:
		printf("none\n");
		return 0;
	case GT_TREE_BOOL:
		printf("bool %d\n", t->boolean);
		return 0;
	case GT_TREE_INT:
		printf("int %" PRId64 "\n", t->integer);
		return 0;
	case GT_TREE_FLOAT:
		printf("float ");
		print_hex(&t->real, sizeof(t->real));
		putchar('\n');
		return 0;
	case GT_TREE_STRING:
		printf("string ");
		print_hex(t->string.bytes, t->string.length);
		putchar('\n');
		return 0;
	case GT_TREE_LIST:
		return print_items(seen, "list", t, err);
	case GT_TREE_TUPLE:
		return print_items(seen, "tuple", t, err);
	case GT_TREE_DICT:
		return print_items(seen, "dict", t, err);
	case GT_TREE_TENSOR:
		rc = print_tensor(seen, &t->tensor, err);
		putchar('\n');
		return rc ? rc : print_part(seen, "attributes", t->tensor.attributes, err);
	case GT_TREE_OPAQUE:
		return print_opaque(seen, t, err);
	}
	return 0;
}

static int print_state(struct seen *seen, const struct gt_tree *root, struct gt_err *err)
{
	struct gt_state_dict sd;
	int rc = gt_state_dict_find(&sd, root, err);

	if (rc)
		return rc;
	printf("%s\n", sd.note);
	for (size_t i = 0; !rc && i < sd.count; i++) {
		print_hex(sd.entries[i].name, strlen(sd.entries[i].name));
		putchar(' ');
		rc = print_tensor(seen, sd.entries[i].tensor, err);
		putchar('\n');
	}
	gt_state_dict_release(&sd);
	return rc;
}

/* Files one after the other, each ended by a line: "end", or "error TEXT" with its hint. */
static void print_file(const char *how, const char *path)
{
	struct gt_err err = GT_ERR_INIT;
	struct seen seen = { 0 };
	struct gt_ckpt *ckpt = NULL;
	int rc = gt_ckpt_open(&ckpt, path, &err);

	if (!rc)
		printf("%s\n", gt_ckpt_format(ckpt));
	if (!rc && !strcmp(how, "tree"))
		rc = print_tree(&seen, gt_ckpt_root(ckpt), &err);
	else if (!rc && !strcmp(how, "state"))
		rc = print_state(&seen, gt_ckpt_root(ckpt), &err);
	gt_ckpt_close(ckpt);
	free(seen.storages);
	if (rc)
		printf("error %s (%s)\n", err.text, err.hint);
	else
		printf("end\n");
}

int main(int argc, char **argv)
{
	if (argc < 3 ||
	    (strcmp(argv[1], "tree") && strcmp(argv[1], "state") && strcmp(argv[1], "open"))) {
		fprintf(stderr, "usage: ckpt_dump tree|state|open FILE...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		print_file(argv[1], argv[i]);
	return fflush(stdout) || ferror(stdout);
}
