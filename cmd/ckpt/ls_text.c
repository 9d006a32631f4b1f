/* ls_text.c - a checkpoint's content as a table. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ckpt/ls.h"
#include "cmd/ckpt/value.h"
#include "cmd/table_out.h"
#include "lib/base/text.h"

enum {
	NOTE_SIZE = 1024,
	VALUE_SIZE = 72,
	VALUES_SHOWN = 20, /* without --all */
	STATS_COLUMNS = 7,
	PLAIN_COLUMNS = 5
};

/* ---- tensors ---- */

/* The unusual properties of its place in its storage. */
static void print_note(
    char out[NOTE_SIZE], const struct gt_inventory *v, const struct gt_inventory_row *row)
{
	const struct gt_tree_tensor *t = &row->value->tensor;
	const struct gt_inventory_row *first = &v->tensors[row->first];
	char size[GT_TEXT_SIZE], stride[GT_CKPT_DIMS_SIZE];
	size_t at = 0;

	out[0] = '\0';
	if (row->hidden)
		at = (size_t)snprintf(out, NOTE_SIZE, "not persistent: not in the state_dict%s",
		    first != row ? "; " : "");
	if (first != row)
		at += (size_t)snprintf(
		    out + at, NOTE_SIZE - at, "shares the storage of %.150s", first->key);
	if (t->storage->packed)
		at += (size_t)snprintf(
		    out + at, NOTE_SIZE - at, "%sstored as %s", at ? "; " : "", t->storage->packed);
	if (at >= NOTE_SIZE || (!row->partial && row->contiguous))
		return;
	if (at)
		at += (size_t)snprintf(out + at, NOTE_SIZE - at, "; ");
	if (row->partial)
		at += (size_t)snprintf(out + at, NOTE_SIZE - at, "view of %s from element %" PRId64,
		    gt_text_bytes(size, t->storage->size_bytes), t->offset);
	if (row->contiguous)
		return;
	gt_ckpt_print_dims(stride, t->stride, t->ndim);
	snprintf(out + at, NOTE_SIZE - at, "%sstride %.300s", row->partial ? ", " : "", stride);
}

/* Four digits tell enough; a missing figure is a dash. */
static void print_real(char out[GT_TEXT_SIZE], double value)
{
	if (isnan(value))
		strcpy(out, "-");
	else
		snprintf(out, GT_TEXT_SIZE, "%.4g", value);
}

static void print_stats(char cell[STATS_COLUMNS][GT_TEXT_SIZE], const struct gt_stats *s)
{
	const double reals[] = { s->min, s->max, s->mean, s->std };
	const uint64_t counts[] = { s->nan, s->inf, s->zeros };

	for (int i = 0; i < 4; i++)
		print_real(cell[i], reals[i]);
	for (int i = 0; i < 3; i++)
		snprintf(cell[4 + i], GT_TEXT_SIZE, "%" PRIu64, counts[i]);
}

static void tensor_row(struct gt_table *table, const struct gt_ckpt_listing *l, size_t i)
{
	const struct gt_inventory_row *row = &l->inventory.tensors[i];
	const struct gt_tree_tensor *t = &row->value->tensor;
	char shape[GT_CKPT_DIMS_SIZE], bytes[GT_TEXT_SIZE], note[NOTE_SIZE];
	char stats[STATS_COLUMNS][GT_TEXT_SIZE];
	const char *cells[GT_TABLE_COLUMNS] = { *row->key ? row->key : "(the file)",
		gt_ckpt_tensor_type(t), shape, t->storage->location, bytes };
	size_t n = PLAIN_COLUMNS;

	gt_ckpt_print_dims(shape, t->shape, t->ndim);
	gt_text_bytes(bytes, row->bytes);
	print_note(note, &l->inventory, row);
	if (l->stats) {
		print_stats(stats, &l->stats[i]);
		for (int k = 0; k < STATS_COLUMNS; k++)
			cells[n++] = stats[k];
	}
	cells[n++] = note;
	gt_table_row(table, cells, n);
}

static void print_tensors(FILE *out, const struct gt_ckpt_listing *l)
{
	static const char *const head[] = { "key", "dtype", "shape", "device", "bytes", "min",
		"max", "mean", "std", "NaN", "Inf", "zeros" };
	struct gt_table table = { .out = out, .measuring = true };
	size_t columns = PLAIN_COLUMNS + (l->stats ? STATS_COLUMNS : 0);

	for (size_t c = PLAIN_COLUMNS - 1; c < columns; c++)
		table.right[c] = true;
	for (int round = 0; round < 2; round++) {
		table.measuring = !round;
		fputs(round && l->color ? "\033[1m" : "", out);
		gt_table_row(&table, head, columns);
		fputs(round && l->color ? "\033[0m" : "", out);
		for (size_t i = 0; i < l->inventory.tensor_count; i++)
			tensor_row(&table, l, i);
	}
}

/* ---- other values ---- */

static void print_values(FILE *out, const struct gt_ckpt_listing *l)
{
	const struct gt_inventory *v = &l->inventory;
	struct gt_table table = { .out = out };
	size_t shown = l->all || v->value_count <= VALUES_SHOWN ? v->value_count : VALUES_SHOWN;
	char value[256];

	for (int round = 0; round < 2; round++) {
		table.measuring = !round;
		for (size_t i = 0; i < shown; i++) {
			const char *key = v->values[i].key;
			const char *cells[] = { *key ? key : "(the file)", value };

			gt_ckpt_print_value(value,
			    v->values[i].value->kind == GT_TREE_OPAQUE ? sizeof(value) : VALUE_SIZE,
			    v->values[i].value);
			gt_table_row(&table, cells, 2);
		}
	}
	if (shown < v->value_count)
		fprintf(out, "... and %zu more values; --all shows them\n", v->value_count - shown);
}

/* The settings of a model, of which all are shown. */
static void print_metadata(FILE *out, const struct gt_tree *metadata)
{
	struct gt_table table = { .out = out };
	char value[256];

	for (int round = 0; round < 2; round++) {
		table.measuring = !round;
		for (size_t i = 0; i < metadata->seq.count; i++) {
			const struct gt_tree_item *item = &metadata->seq.items[i];
			const char *cells[] = { item->key->string.bytes, value };

			gt_ckpt_print_value(value, VALUE_SIZE, item->value);
			gt_table_row(&table, cells, 2);
		}
	}
}

/* ---- the whole ---- */

static void print_summary(FILE *out, const struct gt_ckpt_listing *l)
{
	const struct gt_inventory *v = &l->inventory;
	char bytes[GT_TEXT_SIZE], file[GT_TEXT_SIZE], dead[GT_TEXT_SIZE];

	fprintf(out, "%s, %s: %zu tensor%s of %" PRIu64 " elements, %s in %zu storage%s",
	    gt_ckpt_format(l->ckpt), gt_text_bytes(file, l->file_bytes), v->tensor_count,
	    v->tensor_count == 1 ? "" : "s", v->elements, gt_text_bytes(bytes, v->storage_bytes),
	    v->storage_count, v->storage_count == 1 ? "" : "s");
	if (l->dead_bytes)
		fprintf(out, "; %s dead, `gtrain ckpt convert` reclaims them",
		    gt_text_bytes(dead, l->dead_bytes));
	fputc('\n', out);
}

void gt_ckpt_ls_text(FILE *out, const struct gt_ckpt_listing *l)
{
	print_summary(out, l);
	if (l->inventory.tensor_count) {
		fputc('\n', out);
		print_tensors(out, l);
	}
	if (l->inventory.value_count) {
		fputc('\n', out);
		print_values(out, l);
	}
	if (gt_ckpt_metadata(l->ckpt)) {
		fputc('\n', out);
		print_metadata(out, gt_ckpt_metadata(l->ckpt));
	}
}
