/* ckpt_ls_json.c - a checkpoint's content as JSON. */
#include <inttypes.h>
#include <string.h>

#include "cmd/ckpt_ls.h"
#include "cmd/json_out.h"

/* ---- tensors ---- */

static void put_dims(FILE *out, const char *name, const int64_t *dims, int n)
{
	fprintf(out, ", \"%s\": [", name);
	for (int i = 0; i < n; i++)
		fprintf(out, "%s%" PRId64, i ? ", " : "", dims[i]);
	fputc(']', out);
}

static void put_path(FILE *out, const struct gt_path *path)
{
	if (!path)
		return;
	put_path(out, path->parent);
	if (path->parent)
		fputs(", ", out);
	if (path->name)
		gt_json_string(out, path->name, path->length);
	else
		fprintf(out, "%" PRId64, path->number);
}

static void put_stats(FILE *out, const struct gt_stats *s)
{
	fputs(", \"stats\": {\"min\": ", out);
	gt_json_real(out, s->min);
	fputs(", \"max\": ", out);
	gt_json_real(out, s->max);
	fputs(", \"mean\": ", out);
	gt_json_real(out, s->mean);
	fputs(", \"std\": ", out);
	gt_json_real(out, s->std);
	fprintf(out, ", \"nan\": %" PRIu64 ", \"inf\": %" PRIu64 ", \"zeros\": %" PRIu64 "}",
	    s->nan, s->inf, s->zeros);
}

static void put_tensor(FILE *out, const struct gt_inventory_row *row, const struct gt_stats *stats)
{
	const struct gt_tree_tensor *t = &row->value->tensor;

	fputs("{\"key\": ", out);
	gt_json_text(out, row->key);
	fputs(", \"path\": [", out);
	put_path(out, row->path);
	fprintf(out, "], \"dtype\": \"%s\"", gt_dtype_name(t->dtype));
	put_dims(out, "shape", t->shape, t->ndim);
	fputs(", \"device\": ", out);
	gt_json_text(out, t->storage->location);
	fprintf(out, ", \"storage\": %zu, \"offset\": %" PRId64, row->storage, t->offset);
	put_dims(out, "stride", t->stride, t->ndim);
	fprintf(out, ", \"bytes\": %" PRIu64 ", \"storage_bytes\": %zu", row->bytes,
	    t->storage->size_bytes);
	fprintf(out, ", \"shared\": %s, \"contiguous\": %s, \"requires_grad\": %s",
	    row->shared ? "true" : "false", row->contiguous ? "true" : "false",
	    t->requires_grad ? "true" : "false");
	if (t->storage->key[0]) {
		fputs(", \"storage_key\": ", out);
		gt_json_text(out, t->storage->key);
	}
	if (stats)
		put_stats(out, stats);
	fputc('}', out);
}

/* ---- values ---- */

static void put_value(FILE *out, const struct gt_tree *node);

/* What is left of a node when tensors, and dicts of nothing but tensors, are taken away. */
static bool has_values(const struct gt_tree *node)
{
	if (node->kind != GT_TREE_DICT)
		return node->kind != GT_TREE_TENSOR;
	for (size_t i = 0; i < node->seq.count; i++)
		if (has_values(node->seq.items[i].value))
			return true;
	return !node->seq.count;
}

static void put_key(FILE *out, const struct gt_tree *key)
{
	switch (key->kind) {
	case GT_TREE_STRING:
		gt_json_string(out, key->string.bytes, key->string.length);
		break;
	case GT_TREE_INT:
		fprintf(out, "\"%" PRId64 "\"", key->integer);
		break;
	case GT_TREE_FLOAT:
		fprintf(out, "\"%.17g\"", key->real);
		break;
	case GT_TREE_BOOL:
		fputs(key->boolean ? "\"True\"" : "\"False\"", out);
		break;
	default:
		fputs(key->kind == GT_TREE_NONE ? "\"None\"" : "\"(object)\"", out);
	}
}

static void put_dict(FILE *out, const struct gt_tree *node)
{
	bool any = false;

	fputc('{', out);
	for (size_t i = 0; i < node->seq.count; i++) {
		if (!has_values(node->seq.items[i].value))
			continue;
		if (any)
			fputs(", ", out);
		any = true;
		put_key(out, node->seq.items[i].key);
		fputs(": ", out);
		put_value(out, node->seq.items[i].value);
	}
	fputc('}', out);
}

static void put_list(FILE *out, const struct gt_tree *node)
{
	fputc('[', out);
	for (size_t i = 0; i < node->seq.count; i++) {
		if (i)
			fputs(", ", out);
		put_value(out, node->seq.items[i].value);
	}
	fputc(']', out);
}

static void put_object(FILE *out, const struct gt_tree *node)
{
	const struct gt_tree *args = node->opaque.args;

	fputs("{\"class\": ", out);
	gt_json_text(out, node->opaque.class_name);
	if (!strcmp(node->opaque.class_name, "builtins.bytes") && args && args->seq.count &&
	    args->seq.items[0].value->kind == GT_TREE_STRING) {
		fprintf(out, ", \"bytes\": %zu}", args->seq.items[0].value->string.length);
		return;
	}
	if (args && args->seq.count) {
		fputs(", \"args\": ", out);
		put_value(out, args);
	}
	if (node->opaque.items) {
		fputs(", \"items\": ", out);
		put_value(out, node->opaque.items);
	}
	if (node->opaque.state) {
		fputs(", \"state\": ", out);
		put_value(out, node->opaque.state);
	}
	fputc('}', out);
}

/* Tensors in a list keep their places, as null; they are all in "tensors". */
static void put_value(FILE *out, const struct gt_tree *node)
{
	switch (node->kind) {
	case GT_TREE_BOOL:
		fputs(node->boolean ? "true" : "false", out);
		break;
	case GT_TREE_INT:
		fprintf(out, "%" PRId64, node->integer);
		break;
	case GT_TREE_FLOAT:
		gt_json_real(out, node->real);
		break;
	case GT_TREE_STRING:
		gt_json_string(out, node->string.bytes, node->string.length);
		break;
	case GT_TREE_LIST:
	case GT_TREE_TUPLE:
		put_list(out, node);
		break;
	case GT_TREE_DICT:
		put_dict(out, node);
		break;
	case GT_TREE_OPAQUE:
		put_object(out, node);
		break;
	default:
		fputs("null", out);
	}
}

void gt_ckpt_ls_json(FILE *out, const struct gt_ckpt_listing *l)
{
	const struct gt_inventory *v = &l->inventory;
	const struct gt_tree *root = gt_ckpt_root(l->ckpt);

	fputs("{\"format\": ", out);
	gt_json_text(out, gt_ckpt_format(l->ckpt));
	fputs(", \"tensors\": [", out);
	for (size_t i = 0; i < v->tensor_count; i++) {
		fputs(i ? ",\n  " : "\n  ", out);
		put_tensor(out, &v->tensors[i], l->stats ? &l->stats[i] : NULL);
	}
	fputs(v->tensor_count ? "\n], \"values\": " : "], \"values\": ", out);
	if (root->kind == GT_TREE_DICT) {
		put_dict(out, root);
	} else { /* values is an object whatever the file holds */
		fputs("{", out);
		if (has_values(root)) {
			fputs("\"\": ", out);
			put_value(out, root);
		}
		fputs("}", out);
	}
	fprintf(out,
	    ", \"elements\": %" PRIu64 ", \"storage_bytes\": %" PRIu64 ", \"storages\": %zu, "
	    "\"file_bytes\": %" PRIu64 ", \"dead_bytes\": %" PRIu64 "}\n",
	    v->elements, v->storage_bytes, v->storage_count, l->file_bytes, l->dead_bytes);
}
