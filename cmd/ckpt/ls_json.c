/* ls_json.c - a checkpoint's content as JSON. */
#include <inttypes.h>
#include <string.h>

#include "cmd/ckpt/ls.h"
#include "cmd/ckpt/value.h"
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

static void put_listed_tensor(
    FILE *out, const struct gt_inventory_row *row, const struct gt_stats *stats)
{
	const struct gt_tree_tensor *t = &row->value->tensor;

	fputs("{\"key\": ", out);
	gt_json_text(out, row->key);
	fputs(", \"path\": [", out);
	put_path(out, row->path);
	fprintf(out, "], \"dtype\": \"%s\"", gt_ckpt_tensor_type(t));
	put_dims(out, "shape", t->shape, t->ndim);
	fputs(", \"device\": ", out);
	gt_json_text(out, t->storage->location);
	fprintf(out, ", \"storage\": %zu, \"offset\": %" PRId64, row->storage, t->offset);
	put_dims(out, "stride", t->stride, t->ndim);
	fprintf(out, ", \"bytes\": %" PRIu64 ", \"storage_bytes\": %zu", row->bytes,
	    t->storage->size_bytes);
	if (row->hidden)
		fputs(", \"persistent\": false", out);
	fprintf(out, ", \"shared\": %s, \"contiguous\": %s, \"requires_grad\": %s",
	    row->shared ? "true" : "false", row->contiguous ? "true" : "false",
	    t->requires_grad ? "true" : "false");
	if (t->storage->packed) {
		fputs(", \"stored_as\": ", out);
		gt_json_text(out, t->storage->packed);
	}
	if (t->storage->key[0]) {
		fputs(", \"storage_key\": ", out);
		gt_json_text(out, t->storage->key);
	}
	if (stats)
		put_stats(out, stats);
	fputc('}', out);
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
		put_listed_tensor(out, &v->tensors[i], l->stats ? &l->stats[i] : NULL);
	}
	fputs(v->tensor_count ? "\n], \"values\": " : "], \"values\": ", out);
	if (root->kind == GT_TREE_DICT) {
		gt_ckpt_json_value(out, root);
	} else { /* values is an object whatever the file holds */
		fputs("{", out);
		if (gt_ckpt_has_values(root)) {
			fputs("\"\": ", out);
			gt_ckpt_json_value(out, root);
		}
		fputs("}", out);
	}
	if (gt_ckpt_metadata(l->ckpt)) {
		fputs(", \"metadata\": ", out);
		gt_ckpt_json_value(out, gt_ckpt_metadata(l->ckpt));
	}
	fprintf(out,
	    ", \"elements\": %" PRIu64 ", \"storage_bytes\": %" PRIu64 ", \"storages\": %zu, "
	    "\"file_bytes\": %" PRIu64 ", \"dead_bytes\": %" PRIu64 "}\n",
	    v->elements, v->storage_bytes, v->storage_count, l->file_bytes, l->dead_bytes);
}
