/* diff.c - two checkpoints name by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/meter.h"
#include "lib/base/thread_pool.h"
#include "lib/ckpt/tools/diff.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/cursor.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"

/* Elements: of a task, and compared at a time. */
enum { PIECE = 1 << 20, BLOCK = 1024 };

/* A name in one of the files. */
struct entry {
	const char *key;
	const struct gt_path *path; /* or NULL */
	size_t order;               /* entries of one key keep theirs */
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

static uint64_t integers_apart(int64_t a, int64_t b)
{
	return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

static bool same_number(const struct gt_tree *a, const struct gt_tree *b, double tolerance)
{
	double x = 0, y = 0;

	/* Doubles would take 2^60 and 2^60 + 100 for equal. */
	if (a->kind == GT_TREE_INT && b->kind == GT_TREE_INT)
		return (double)integers_apart(a->integer, b->integer) <= tolerance;
	gt_tree_as_float(a, &x);
	gt_tree_as_float(b, &y);
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

/* Compare the text of two keys, then their types: 1 is not '1', and an item of a list is not an
 * item of a tuple. */
static int compare_keys(const struct entry *x, const struct entry *y)
{
	int order = strcmp(x->key, y->key);

	return order ? order : gt_path_compare_types(x->path, y->path);
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = compare_keys(x, y);

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
		s->entries[s->count] = (struct entry){ v->tensors[i].key, v->tensors[i].path,
			s->count, v->tensors[i].value, &v->tensors[i].value->tensor };
	for (size_t i = 0; i < v->value_count; i++, s->count++)
		s->entries[s->count] = (struct entry){ v->values[i].key, v->values[i].path,
			s->count, v->values[i].value, NULL };
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
		s->entries[i] = (struct entry){ s->dict.entries[i].name, NULL, i, NULL,
			s->dict.entries[i].tensor };
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

static int add_diff_row(struct gt_diff *d, enum gt_diff_kind kind, const struct entry *a,
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
		return add_diff_row(d,
		    !same_shape(a->tensor, b->tensor)         ? GT_DIFF_SHAPE
		    : !gt_raw_same_type(a->tensor, b->tensor) ? GT_DIFF_DTYPE
		                                              : GT_DIFF_NUMBERS,
		    a, b, err);
	}
	d->values++;
	if (!a->tensor && !b->tensor && same_value(a->value, b->value, tolerance))
		return 0;
	return add_diff_row(d, GT_DIFF_VALUE, a, b, err);
}

static int match(struct gt_diff *d, const struct side *a, const struct side *b, double tolerance,
    struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0, k = 0; !rc && (i < a->count || k < b->count);) {
		const struct entry *x = i < a->count ? &a->entries[i] : NULL;
		const struct entry *y = k < b->count ? &b->entries[k] : NULL;
		int order = !x ? 1 : !y ? -1 : compare_keys(x, y);

		if (order < 0)
			rc = add_diff_row(d, GT_DIFF_ONLY_A, x, NULL, err);
		else if (order > 0)
			rc = add_diff_row(d, GT_DIFF_ONLY_B, NULL, y, err);
		else
			rc = add_pair(d, x, y, tolerance, err);
		d->types += order && x && y && !strcmp(x->key, y->key);
		i += order <= 0;
		k += order >= 0;
	}
	return rc;
}

static int check_side(const struct side *s, const struct gt_diff_side *side,
    const struct gt_diff_options *options, struct gt_err *err)
{
	const struct gt_tree_tensor **tensors = gt_calloc(s->count, sizeof(*tensors), err);
	size_t n = 0;
	int rc;

	if (!tensors)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->count; i++)
		if (s->entries[i].tensor)
			tensors[n++] = s->entries[i].tensor;
	rc = gt_digest_check(side->ckpt, false, NULL, err);
	if (!rc)
		rc = gt_storages_check(tensors, NULL, n, options->threads, options->progress, err);
	free(tensors);
	return rc ? gt_err_prefix(err, "'%s'", side->path) : 0;
}

/* ---- numbers: pairs of tensors of one shape, by pieces and threads ---- */

/* The differences of one piece, or of all. */
struct tally {
	uint64_t differing, one_nan;
	double max_abs, max_rel;
};

struct pair {
	struct gt_tree_tensor a, b;
	int64_t dims[2][2 * GT_TREE_MAX_DIMS];
	uint64_t count, repeats;
	enum gt_cast_kind kind; /* REAL for two that meet as doubles */
};

struct piece {
	struct gt_piece elements;
	struct tally tally;
};

struct comparison {
	struct pair *pairs;
	struct gt_pieces pieces;
	double tolerance;
	struct gt_meter meter; /* bytes of the first of each pair */
};

/* Equal numbers and two NaN have no distance; infinities of one sign are equal. */
static double distance(double a, double b)
{
	return a == b || (isnan(a) && isnan(b)) ? 0 : fabs(a - b);
}

/* Elements of `width` numbers each: a complex number is two, and its size is its magnitude. */
static void count_reals(
    struct tally *t, const double *a, const double *b, size_t n, size_t width, double tolerance)
{
	for (size_t i = 0; i < n; i += width) {
		size_t k = i + width - 1;
		double d = distance(a[i], b[i]), size = fmax(fabs(a[i]), fabs(b[i]));

		if (k > i) {
			double e = distance(a[k], b[k]);

			d = isnan(d) || isnan(e) ? NAN : hypot(d, e);
			size = fmax(hypot(a[i], a[k]), hypot(b[i], b[k]));
		}
		if (isnan(d)) { /* one number is NaN on one side alone */
			t->one_nan++;
			t->differing++;
			continue;
		}
		t->max_abs = fmax(t->max_abs, d);
		if (d <= tolerance)
			continue;
		t->differing++;
		t->max_rel = fmax(t->max_rel, isinf(size) ? 1 : d / size);
	}
}

/* Elements that are no numbers: equal bytes or not. */
static void count_bytes(
    struct tally *t, const unsigned char *a, const unsigned char *b, size_t n, size_t size)
{
	for (size_t i = 0; i < n; i++)
		t->differing += memcmp(a + i * size, b + i * size, size) != 0;
}

static void count_integers(
    struct tally *t, const int64_t *a, const int64_t *b, size_t n, double bias, double tolerance)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t gap =
		    a[i] > b[i] ? (uint64_t)a[i] - (uint64_t)b[i] : (uint64_t)b[i] - (uint64_t)a[i];
		double size = fmax(fabs((double)a[i] + bias), fabs((double)b[i] + bias));

		if (!gap)
			continue;
		t->max_abs = fmax(t->max_abs, (double)gap);
		if ((double)gap <= tolerance)
			continue;
		t->differing++;
		t->max_rel = fmax(t->max_rel, size > 0 ? (double)gap / size : 1);
	}
}

/* Runs of n elements; where the types are the same, equal bytes are equal elements. */
static void compare_run(const struct comparison *c, const struct pair *p, const void *run_a,
    const void *run_b, size_t n, struct tally *t)
{
	enum gt_dtype a = p->a.dtype, b = p->b.dtype;
	union {
		double real[2 * BLOCK];
		int64_t whole[BLOCK];
	} x, y;
	size_t width = p->kind == GT_CAST_COMPLEX ? 2 : 1;

	if (a == b && !memcmp(run_a, run_b, n * gt_dtype_size(a)))
		return;
	if (p->kind == GT_CAST_RAW) {
		count_bytes(t, run_a, run_b, n, gt_dtype_size(a));
	} else if (p->kind == GT_CAST_INTEGER) {
		gt_cast_integer(a, run_a, n, x.whole);
		gt_cast_integer(b, run_b, n, y.whole);
		count_integers(t, x.whole, y.whole, n, a == GT_U64 ? 0x1p63 : 0, c->tolerance);
	} else {
		gt_cast_real(a, run_a, n, x.real);
		gt_cast_real(b, run_b, n, y.real);
		count_reals(t, x.real, y.real, width * n, width, c->tolerance);
	}
}

static int compare_piece(void *self, size_t task, struct gt_err *err)
{
	struct comparison *c = self;
	struct piece *piece = gt_pieces_get(&c->pieces, task);
	const struct gt_piece *e = &piece->elements;
	const struct pair *p = &c->pairs[e->job];
	struct gt_cursor a = {
		.tensor = &p->a, .at = e->at, .end = e->at + e->count, .max = BLOCK
	};
	struct gt_cursor b = a;
	const void *run_a, *run_b;
	size_t n;
	int rc;

	b.tensor = &p->b;
	while ((rc = gt_cursor_next(&a, &run_a, &n, err)) > 0 &&
	       (rc = gt_cursor_next(&b, &run_b, &n, err)) > 0)
		compare_run(c, p, run_a, run_b, n, &piece->tally);
	gt_cursor_release(&a);
	gt_cursor_release(&b);
	gt_meter_add(&c->meter, e->count * gt_dtype_size(p->a.dtype));
	return rc;
}

/* How two types meet; false: not at all. */
static bool meet(enum gt_dtype a, enum gt_dtype b, enum gt_cast_kind *kind)
{
	enum gt_cast_kind x = gt_cast_kind(a), y = gt_cast_kind(b);

	*kind = x == y && (a == GT_U64) == (b == GT_U64) ? x : GT_CAST_REAL;
	if (x == GT_CAST_RAW || y == GT_CAST_RAW)
		return a == b;
	return x == y || (x != GT_CAST_COMPLEX && y != GT_CAST_COMPLEX);
}

/* Tensors that lie alike are read as they lie. */
static void plan_pair(struct pair *p, const struct gt_diff_row *row)
{
	const struct gt_tree_tensor *a = row->tensor_a, *b = row->tensor_b;

	p->a = *a;
	p->b = *b;
	p->repeats = 1;
	if (!memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof(*a->stride))) {
		gt_ckpt_tensor_in_storage_order(&p->a, a, p->dims[0], &p->repeats);
		gt_ckpt_tensor_in_storage_order(&p->b, b, p->dims[1], &p->repeats);
	}
	if (meet(a->dtype, b->dtype, &p->kind) &&
	    (p->kind != GT_CAST_RAW || gt_raw_same_type(a, b)))
		p->count = (uint64_t)gt_ckpt_tensor_count(&p->a);
}

static int plan_comparison(
    struct comparison *c, const struct gt_diff_row *rows, size_t count, struct gt_err *err)
{
	struct gt_repeats repeats = { 0 };
	int rc = 0;

	c->pairs = gt_calloc(count, sizeof(*c->pairs), err);
	if (!c->pairs)
		return GT_ENOMEM;
	for (size_t i = 0; i < count && !rc; i++) {
		struct pair *p = &c->pairs[i];

		plan_pair(p, &rows[i]);
		rc = gt_repeats_add(
		    &repeats, p->a.storage, p->count * gt_dtype_size(p->a.dtype), err);
		if (!rc)
			rc = gt_repeats_add(
			    &repeats, p->b.storage, p->count * gt_dtype_size(p->b.dtype), err);
	}
	rc = gt_repeats_end(&repeats, rc, err);
	for (size_t i = 0; i < count && !rc; i++)
		rc = gt_pieces_add(&c->pieces, i, c->pairs[i].count, PIECE, err);
	return rc;
}

static uint64_t count_bytes_read(const struct comparison *c, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += c->pairs[i].count * gt_dtype_size(c->pairs[i].a.dtype);
	return bytes;
}

/*
 * Compare the elements of rows[count], which have both tensors, of one shape; sets differing,
 * count, one_nan, max_abs, max_rel. Types that cannot be compared (a complex with a real one) are
 * left at count 0. Storages are not checked.
 */
static int compare_numbers(struct gt_diff_row *rows, size_t count,
    const struct gt_diff_options *options, struct gt_err *err)
{
	struct comparison c = { .tolerance = options->tolerance,
		.pieces.size = sizeof(struct piece) };
	int rc = plan_comparison(&c, rows, count, err);

	if (!rc) {
		gt_meter_begin(
		    &c.meter, options->progress, "comparing, MiB", count_bytes_read(&c, count));
		rc = gt_thread_pool_run(options->threads, c.pieces.count, compare_piece, &c, err);
		gt_meter_end(&c.meter);
	}
	for (size_t i = 0; i < count && !rc; i++)
		rows[i].count = c.pairs[i].count * c.pairs[i].repeats;
	for (size_t k = 0; k < c.pieces.count && !rc; k++) {
		const struct piece *piece = gt_pieces_get(&c.pieces, k);
		const struct tally *t = &piece->tally;
		struct gt_diff_row *row = &rows[piece->elements.job];
		uint64_t repeats = c.pairs[piece->elements.job].repeats;

		row->differing += t->differing * repeats;
		row->one_nan += t->one_nan * repeats;
		row->max_abs = fmax(row->max_abs, t->max_abs);
		row->max_rel = fmax(row->max_rel, t->max_rel);
	}
	for (size_t i = 0; i < count && !rc; i++)
		if (c.pairs[i].kind == GT_CAST_RAW)
			rows[i].max_abs = rows[i].max_rel = NAN;
	free(c.pieces.items);
	free(c.pairs);
	return rc;
}

/* ---- the rows that are left ---- */

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
		rc = compare_numbers(pairs, n, options, err);
	for (size_t i = 0; i < n && !rc; i++)
		if (pairs[i].kind == GT_DIFF_DTYPE || pairs[i].differing)
			d->rows[kept++] = pairs[i];
	if (!rc)
		d->count = kept;
	if (!rc && kept)
		qsort(d->rows, kept, sizeof(*d->rows), gt_index_by_name);
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

/* Whether the state_dicts would have more names in common, were wrappers and prefixes removed. */
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
		rc = check_side(&x, a, options, err);
	if (!rc)
		rc = check_side(&y, b, options, err);
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
