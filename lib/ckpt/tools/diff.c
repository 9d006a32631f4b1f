/* diff.c - two checkpoints name by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/tools/diff_numbers.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/tree/runs.h"
#include "lib/ckpt/tree/tree.h"

/* A name in one of the files. */
struct entry {
	const char *key;
	size_t order; /* entries of one key keep theirs */
	const struct gt_tree *value;
	const struct gt_tree_tensor *tensor; /* or NULL */
};

struct side {
	struct gt_inventory inventory;
	struct gt_state_dict dict;
	struct entry *entries;
	size_t count;
};

/* ---- values ---- */

static bool is_number(const struct gt_tree *node)
{
	return node->kind == GT_TREE_BOOL || node->kind == GT_TREE_INT ||
	       node->kind == GT_TREE_FLOAT;
}

static bool same_number(const struct gt_tree *a, const struct gt_tree *b, double tolerance)
{
	double x = 0, y = 0;

	if (a->kind == GT_TREE_INT && b->kind == GT_TREE_INT && a->integer == b->integer)
		return true;
	gt_tree_as_float(a, &x);
	gt_tree_as_float(b, &y);
	if (a->kind == GT_TREE_INT && b->kind == GT_TREE_INT && x == y)
		return tolerance >= 1; /* integers that only doubles confuse */
	return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance;
}

static bool same_value(const struct gt_tree *a, const struct gt_tree *b, double tolerance);

static bool same_items(const struct gt_tree *a, const struct gt_tree *b, double tolerance)
{
	if (a->seq.count != b->seq.count)
		return false;
	for (size_t i = 0; i < a->seq.count; i++)
		if (!same_value(a->seq.items[i].value, b->seq.items[i].value, tolerance))
			return false;
	return true;
}

/* An object's parts have rows of their own, but for arguments that are plain. */
static bool same_object(const struct gt_tree *a, const struct gt_tree *b, double tolerance)
{
	const struct gt_tree *x = a->opaque.args, *y = b->opaque.args;

	if (strcmp(a->opaque.class_name, b->opaque.class_name) || !x != !y)
		return false;
	return !x || !gt_inventory_is_plain(x) || !gt_inventory_is_plain(y) ||
	       same_items(x, y, tolerance);
}

/* Whether two values that are no tensors are the same. */
static bool same_value(const struct gt_tree *a, const struct gt_tree *b, double tolerance)
{
	if (is_number(a) && is_number(b))
		return same_number(a, b, tolerance);
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case GT_TREE_STRING:
		return a->string.length == b->string.length &&
		       !memcmp(a->string.bytes, b->string.bytes, a->string.length);
	case GT_TREE_LIST:
	case GT_TREE_TUPLE:
		return same_items(a, b, tolerance);
	case GT_TREE_OPAQUE:
		return same_object(a, b, tolerance);
	default:
		return true;
	}
}

/* ---- names ---- */

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	return order ? order : (x->order > y->order) - (x->order < y->order);
}

static int list_inventory(struct side *s, const struct gt_tree *root, struct gt_err *err)
{
	const struct gt_inventory *v = &s->inventory;
	int rc = gt_inventory_make(&s->inventory, root, err);

	if (rc)
		return rc;
	s->entries = gt_calloc(v->tensor_count + v->value_count, sizeof(*s->entries), err);
	if (!s->entries)
		return GT_ENOMEM;
	for (size_t i = 0; i < v->tensor_count; i++, s->count++)
		s->entries[s->count] = (struct entry){ v->tensors[i].key, s->count,
			v->tensors[i].value, &v->tensors[i].value->tensor };
	for (size_t i = 0; i < v->value_count; i++, s->count++)
		s->entries[s->count] =
		    (struct entry){ v->values[i].key, s->count, v->values[i].value, NULL };
	return 0;
}

static int list_dict(struct side *s, const struct gt_tree *root, struct gt_err *err)
{
	int rc = gt_state_dict_find(&s->dict, root, err);

	if (rc)
		return rc;
	s->entries = gt_calloc(s->dict.count, sizeof(*s->entries), err);
	if (!s->entries)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->dict.count; i++, s->count++)
		s->entries[i] =
		    (struct entry){ s->dict.entries[i].name, i, NULL, s->dict.entries[i].tensor };
	return 0;
}

static int list_side(
    struct side *s, const struct gt_diff_side *side, bool state_dict, struct gt_err *err)
{
	const struct gt_tree *root = gt_ckpt_root(side->ckpt);
	int rc = state_dict ? list_dict(s, root, err) : list_inventory(s, root, err);

	if (rc)
		return gt_err_prefix(err, "'%s'", side->path);
	if (s->count)
		qsort(s->entries, s->count, sizeof(*s->entries), compare_entries);
	return 0;
}

static void release_side(struct side *s)
{
	free(s->entries);
	gt_state_dict_release(&s->dict);
	gt_inventory_release(&s->inventory);
}

/* ---- rows ---- */

static int add_row(struct gt_diff *d, enum gt_diff_kind kind, const struct entry *a,
    const struct entry *b, struct gt_err *err)
{
	struct gt_diff_row *row;

	if (gt_grow(&d->rows, d->count, &d->capacity, sizeof(*d->rows), err))
		return GT_ENOMEM;
	row = &d->rows[d->count];
	*row = (struct gt_diff_row){ .kind = kind,
		.key = gt_arena_strdup(&d->arena, (a ? a : b)->key, err),
		.a = a ? a->value : NULL,
		.b = b ? b->value : NULL,
		.tensor_a = a ? a->tensor : NULL,
		.tensor_b = b ? b->tensor : NULL };
	d->count += row->key != NULL;
	return row->key ? 0 : GT_ENOMEM;
}

static bool same_shape(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	return a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape));
}

/* Both files have the name. A pair of tensors becomes a row until their numbers are known. */
static int add_pair(struct gt_diff *d, const struct entry *a, const struct entry *b,
    double tolerance, struct gt_err *err)
{
	if (a->tensor && b->tensor) {
		d->tensors++;
		return add_row(d,
		    !same_shape(a->tensor, b->tensor)      ? GT_DIFF_SHAPE
		    : a->tensor->dtype != b->tensor->dtype ? GT_DIFF_DTYPE
		                                           : GT_DIFF_NUMBERS,
		    a, b, err);
	}
	d->values++;
	if (!a->tensor && !b->tensor && same_value(a->value, b->value, tolerance))
		return 0;
	return add_row(d, GT_DIFF_VALUE, a, b, err);
}

static int match(struct gt_diff *d, const struct side *a, const struct side *b, double tolerance,
    struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0, k = 0; !rc && (i < a->count || k < b->count);) {
		const struct entry *x = i < a->count ? &a->entries[i] : NULL;
		const struct entry *y = k < b->count ? &b->entries[k] : NULL;
		int order = !x ? 1 : !y ? -1 : strcmp(x->key, y->key);

		if (order < 0)
			rc = add_row(d, GT_DIFF_ONLY_A, x, NULL, err);
		else if (order > 0)
			rc = add_row(d, GT_DIFF_ONLY_B, NULL, y, err);
		else
			rc = add_pair(d, x, y, tolerance, err);
		i += order <= 0;
		k += order >= 0;
	}
	return rc;
}

static int check_side(
    const struct side *s, const struct gt_diff_side *side, size_t threads, struct gt_err *err)
{
	const struct gt_tree_tensor **tensors = gt_calloc(s->count, sizeof(*tensors), err);
	size_t n = 0;
	int rc;

	if (!tensors)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].tensor)
			tensors[n++] = s->entries[i].tensor;
	rc = gt_digest_check(side->ckpt, false, err);
	if (!rc)
		rc = gt_storages_check(tensors, NULL, n, threads, err);
	free(tensors);
	return rc ? gt_err_prefix(err, "'%s'", side->path) : 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct gt_diff_row *x = a, *y = b;

	return strcmp(x->key, y->key);
}

/* The numbers of all pairs; then pairs that are alike in everything are rows no more. */
static int compare_tensors(
    struct gt_diff *d, const struct gt_diff_options *options, struct gt_err *err)
{
	struct gt_diff_row *pairs = gt_calloc(d->count, sizeof(*pairs), err);
	size_t n = 0, kept = 0;
	int rc = pairs ? 0 : GT_ENOMEM;

	for (size_t i = 0; i < d->count && !rc; i++) {
		bool pair = d->rows[i].kind == GT_DIFF_NUMBERS || d->rows[i].kind == GT_DIFF_DTYPE;

		if (pair)
			pairs[n++] = d->rows[i];
		else
			d->rows[kept++] = d->rows[i];
	}
	if (!rc)
		rc = gt_diff_numbers(pairs, n, options->tolerance, options->threads, err);
	for (size_t i = 0; i < n && !rc; i++)
		if (pairs[i].kind == GT_DIFF_DTYPE || pairs[i].differing)
			d->rows[kept++] = pairs[i];
	if (!rc)
		d->count = kept;
	if (!rc && kept)
		qsort(d->rows, kept, sizeof(*d->rows), compare_rows);
	free(pairs);
	return rc;
}

/* ---- the hint ---- */

static size_t count_only(const struct gt_diff *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->count; i++)
		n += (d->rows[i].kind == GT_DIFF_ONLY_A || d->rows[i].kind == GT_DIFF_ONLY_B) &&
		     (d->rows[i].tensor_a || d->rows[i].tensor_b);
	return n;
}

/* Whether the state_dicts would have more names in common, were wrappers and prefixes taken off. */
static int count_agreement(struct gt_diff *d, const struct gt_diff_side *a,
    const struct gt_diff_side *b, struct gt_err *err)
{
	struct side x = { 0 }, y = { 0 };
	size_t same = 0;
	int rc = list_side(&x, a, true, err);

	if (!rc)
		rc = list_side(&y, b, true, err);
	for (size_t i = 0, k = 0; !rc && i < x.count && k < y.count;) {
		int order = strcmp(x.entries[i].key, y.entries[k].key);

		same += !order;
		i += order <= 0;
		k += order >= 0;
	}
	if (!rc && same > d->tensors)
		d->agree = same;
	release_side(&x);
	release_side(&y);
	return rc == GT_ENOMEM ? rc : 0; /* no state_dict, no hint */
}

static int keep_note(const char **note, const struct side *s, struct gt_diff *d, struct gt_err *err)
{
	*note = gt_arena_strdup(&d->arena, s->dict.note ? s->dict.note : "", err);
	return *note ? 0 : GT_ENOMEM;
}

int gt_diff_make(struct gt_diff *out, const struct gt_diff_side *a, const struct gt_diff_side *b,
    const struct gt_diff_options *options, struct gt_err *err)
{
	struct side x = { 0 }, y = { 0 };
	int rc;

	*out = (struct gt_diff){ 0 };
	rc = list_side(&x, a, options->state_dict, err);
	if (!rc)
		rc = list_side(&y, b, options->state_dict, err);
	if (!rc)
		rc = match(out, &x, &y, options->tolerance, err);
	if (!rc)
		rc = check_side(&x, a, options->threads, err);
	if (!rc)
		rc = check_side(&y, b, options->threads, err);
	if (!rc)
		rc = compare_tensors(out, options, err);
	if (!rc)
		rc = keep_note(&out->note[0], &x, out, err);
	if (!rc)
		rc = keep_note(&out->note[1], &y, out, err);
	if (!rc && !options->state_dict && count_only(out))
		rc = count_agreement(out, a, b, err);
	release_side(&x);
	release_side(&y);
	if (rc)
		gt_diff_release(out);
	return rc;
}

void gt_diff_release(struct gt_diff *d)
{
	free(d->rows);
	gt_arena_release(&d->arena);
	*d = (struct gt_diff){ 0 };
}
