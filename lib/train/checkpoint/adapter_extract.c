/* adapter_extract.c - make an adapter of the difference between two models. */
#include "lib/train/checkpoint/adapter_extract.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/tree/cast.h"
#include "lib/train/checkpoint/low_rank.h"

enum {
	PIECE = 64 << 10, /* elements that are compared at a time, or a row of more */
	NAMES = 4         /* a message names so many tensors that are left out */
};

/* The tensors of one name. */
struct pair {
	const char *name;
	const struct gt_tree_tensor *tuned, *base;
	bool differs;
	bool tied;   /* another name has the same memory, in either checkpoint */
	bool layer;  /* it may be in the adapter */
	double norm; /* squared norm of the difference; set for floating-point numbers alone */
};

struct extraction {
	const struct gt_adapter_extract *e;
	struct gt_extracted *out;
	struct pair *pairs; /* [count] */
	size_t count;
};

/* ---- differences ---- */

static bool is_real(const struct gt_tree_tensor *t)
{
	return gt_cast_kind(t->dtype) == GT_CAST_REAL;
}

/* Read slices of a tensor, from index `first` of its first dimension on. */
static int read_slices(const struct gt_tree_tensor *t, int64_t first, int64_t count,
    enum gt_dtype as, void *out, struct gt_err *err)
{
	struct gt_tree_tensor part = *t;
	int64_t shape[GT_TREE_MAX_DIMS];

	if (t->ndim) {
		memcpy(shape, t->shape, (size_t)t->ndim * sizeof(*shape));
		shape[0] = count;
		part.shape = shape;
		part.offset += first * t->stride[0];
	}
	return gt_ckpt_tensor_read(&part, as, out, err);
}

/* Subtract numbers, add the squares to the norm, and write the differences to `out`, if it is not
 * NULL. Equal numbers do not differ, even if they are infinite. */
static int subtract(
    struct pair *p, const double *x, const double *y, size_t n, float *out, struct gt_err *err)
{
	for (size_t i = 0; i < n; i++) {
		const double difference = x[i] == y[i] ? 0 : x[i] - y[i];

		if (!isfinite((float)difference))
			return gt_err_set(err, GT_EFORMAT,
			    "'%.120s' differs by NaN, Inf or a number beyond float32", p->name);
		p->norm += difference * difference;
		p->differs |= difference != 0;
		if (out)
			out[i] = (float)difference;
	}
	return 0;
}

/* Compare the tensors of a pair. `out` receives the differences, or is NULL. */
static int compare_pair(struct pair *p, float *out, struct gt_err *err)
{
	const int64_t all = gt_ckpt_tensor_count(p->tuned),
	              slices = p->tuned->ndim ? p->tuned->shape[0] : 1;
	const int64_t inner = slices ? all / slices : 0;
	const int64_t step = inner && inner < PIECE ? PIECE / inner : 1;
	const bool real = is_real(p->tuned);
	const enum gt_dtype as = real ? GT_F64 : p->tuned->dtype;
	const size_t size = gt_dtype_size(as), bytes = (size_t)(step * inner) * size;
	char *x = all ? gt_calloc(2, bytes, err) : NULL;
	int rc = x || !all ? 0 : GT_ENOMEM;

	p->norm = 0;
	for (int64_t i = 0; !rc && all && i < slices; i += step) {
		const int64_t count = slices - i < step ? slices - i : step;
		const size_t n = (size_t)(count * inner);

		rc = read_slices(p->tuned, i, count, as, x, err);
		if (!rc)
			rc = read_slices(p->base, i, count, as, x + bytes, err);
		if (!rc && real)
			rc = subtract(p, (double *)x, (double *)(x + bytes), n,
			    out ? out + i * inner : NULL, err);
		else if (!rc)
			p->differs |= memcmp(x, x + bytes, n * size) != 0;
	}
	free(x);
	return rc;
}

/* ---- pairs ---- */

static int check_pair(const struct gt_adapter_extract *e, const struct pair *p, struct gt_err *err)
{
	const struct gt_tree_tensor *t = p->tuned, *b = p->base;

	if (!b) {
		gt_err_set(err, GT_EFORMAT, "'%.120s' is in '%.120s', not in '%.120s'", p->name,
		    e->tuned.path, e->base.path);
		return gt_err_hint(err,
		    "'gtrain ckpt diff' lists the differences; 'gtrain ckpt rename' makes names "
		    "agree");
	}
	if (t->ndim != b->ndim || memcmp(t->shape, b->shape, (size_t)t->ndim * sizeof(*t->shape)))
		return gt_err_set(err, GT_EFORMAT,
		    "'%.120s' has one shape in '%.120s' and another in '%.120s'", p->name,
		    e->tuned.path, e->base.path);
	if (t->dtype != b->dtype && !(is_real(t) && is_real(b)))
		return gt_err_set(err, GT_EFORMAT, "'%.120s' is %s in '%.120s', %s in '%.120s'",
		    p->name, gt_ckpt_tensor_type(t), e->tuned.path, gt_ckpt_tensor_type(b),
		    e->base.path);
	return 0;
}

static int compare_places(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	const uintptr_t x = (uintptr_t)a->storage, y = (uintptr_t)b->storage;

	if (x != y)
		return x < y ? -1 : 1;
	return (a->offset > b->offset) - (a->offset < b->offset);
}

static int compare_tuned(const void *a, const void *b)
{
	return compare_places((*(struct pair *const *)a)->tuned, (*(struct pair *const *)b)->tuned);
}

static int compare_base(const void *a, const void *b)
{
	return compare_places((*(struct pair *const *)a)->base, (*(struct pair *const *)b)->base);
}

/* Mark the names that share their memory with others. */
static int find_tied(struct extraction *x, struct gt_err *err)
{
	int (*const orders[])(const void *, const void *) = { compare_tuned, compare_base };
	struct pair **sorted = gt_calloc(x->count, sizeof(*sorted), err);
	size_t n = 0;

	if (!sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < x->count; i++)
		if (gt_ckpt_tensor_count(x->pairs[i].tuned))
			sorted[n++] = &x->pairs[i];
	for (int k = 0; k < 2; k++) {
		qsort(sorted, n, sizeof(*sorted), orders[k]);
		for (size_t i = 1; i < n; i++)
			if (!orders[k](&sorted[i - 1], &sorted[i]))
				sorted[i - 1]->tied = sorted[i]->tied = true;
	}
	free(sorted);
	return 0;
}

/* Return whether a module is an embedding, by the usual names. */
static bool is_embedding(const char *module)
{
	static const char *const names[] = { "wte", "wpe", "shared" };
	const char *dot = strrchr(module, '.'), *last = dot ? dot + 1 : module;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(last, names[i]))
			return true;
	return strstr(last, "embed") != NULL;
}

/* Find the matrices that may be in the adapter. */
static int find_layers(struct extraction *x, struct gt_err *err)
{
	const char *targets = x->e->targets, *left;
	uint64_t found = 0;

	for (size_t i = 0; i < x->count; i++) {
		struct pair *p = &x->pairs[i];
		char module[GT_LORA_NAME];

		if (p->tuned->ndim != 2 || !is_real(p->tuned) ||
		    !gt_lora_name_module(module, p->name))
			continue;
		p->layer =
		    (targets ? gt_lora_matches(targets, p->name, &found) : !is_embedding(module)) &&
		    !p->tied;
	}
	left = targets ? gt_lora_unmatched(targets, found) : NULL;
	if (!left)
		return 0;
	return gt_err_set(err, GT_EINVAL, "{targets}: '%.120s' has no matrix '%.*s'",
	    x->e->tuned.path, (int)strcspn(left, "|"), left);
}

static int find_pairs(struct extraction *x, const struct gt_state_dict *tuned,
    const struct gt_state_dict *base, struct gt_err *err)
{
	int rc = 0;

	x->count = tuned->count;
	x->pairs = gt_arena_alloc(&x->out->arena, (x->count + 1) * sizeof(*x->pairs), err);
	if (!x->pairs)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < x->count; i++) {
		const char *name = tuned->entries[i].name;

		x->pairs[i] = (struct pair){ .name = name,
			.tuned = tuned->entries[i].tensor,
			.base = gt_state_dict_get(base, name) };
		rc = check_pair(x->e, &x->pairs[i], err);
	}
	if (!rc && tuned->count != base->count)
		rc = gt_err_set(err, GT_EFORMAT, "'%.120s' has %zu tensors, '%.120s' has %zu",
		    x->e->tuned.path, tuned->count, x->e->base.path, base->count);
	if (!rc)
		rc = find_tied(x, err);
	if (!rc)
		rc = find_layers(x, err);
	for (size_t i = 0; !rc && i < x->count; i++)
		rc = compare_pair(&x->pairs[i], NULL, err);
	return rc;
}

/* ---- which of them the adapter has ---- */

/* List the layers, the modules without an adapter, and the tensors that are left out. */
static int sort_out(struct extraction *x, struct gt_err *err)
{
	struct gt_extracted *out = x->out;
	const char **plain = gt_arena_alloc(&out->arena, (x->count + 1) * sizeof(*plain), err);
	char module[GT_LORA_NAME];

	out->layers = gt_arena_alloc(&out->arena, (x->count + 1) * sizeof(*out->layers), err);
	if (!plain || !out->layers)
		return GT_ENOMEM;
	out->contents.plain = plain;
	for (size_t i = 0; i < x->count; i++) {
		const struct pair *p = &x->pairs[i];
		const char *name = NULL;

		if (gt_lora_name_module(module, p->name)) {
			name = gt_arena_strdup(&out->arena, module, err);
			if (!name)
				return GT_ENOMEM;
		}
		if (p->layer && p->differs) {
			out->layers[out->count++] =
			    (struct gt_extracted_layer){ .module = name, .norm = p->norm };
			continue;
		}
		if (name)
			plain[out->contents.plain_count++] = name;
		if (!p->differs)
			continue;
		out->left_out++;
		out->norm_left_out += p->norm;
		gt_name_list_add(&out->names, "'%.80s'", p->name);
	}
	return 0;
}

static int check_rest(const struct extraction *x, struct gt_err *err)
{
	struct gt_extracted *out = x->out;
	double all = out->norm_left_out;

	for (size_t i = 0; i < out->count; i++)
		all += out->layers[i].norm;
	if (!out->count && !out->left_out)
		return gt_err_set(err, GT_EFORMAT, "'%.120s' and '%.120s' have the same weights",
		    x->e->tuned.path, x->e->base.path);
	if (!out->count)
		return gt_err_set(err, GT_EFORMAT,
		    "no layer differs that an adapter may have; these tensors do: %s",
		    gt_name_list_text(&out->names));
	if (x->e->force || out->norm_left_out <= all / 2)
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "%.0f %% of the squared difference is in tensors that the adapter leaves out: %s",
	    100 * out->norm_left_out / all, gt_name_list_text(&out->names));
	return gt_err_hint(err,
	    "{targets} names layers; biases, norms and tied weights cannot be in an adapter; "
	    "{force} extracts the rest");
}

/* ---- the adapter ---- */

static int add_weight(struct gt_extracted *out, const char *module, bool is_b, const float *data,
    int64_t rows, int64_t columns, struct gt_err *err)
{
	const int64_t shape[] = { rows, columns };
	char name[GT_LORA_WEIGHT_NAME];
	struct gt_tree *t = gt_tree_tensor(&out->arena, GT_F32, 2, shape, data, err);

	gt_lora_name_weight(name, module, is_b);
	return t ? gt_tree_set(out->contents.weights, name, t, &out->arena, err) : GT_ENOMEM;
}

static void transpose(float *out, const float *in, int64_t rows, int64_t columns)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t k = 0; k < columns; k++)
			out[k * rows + i] = in[i * columns + k];
}

/* Compute A and B of a layer. If weights are [in, out], the product is of the transposed A and the
 * transposed B. */
static int extract_layer(
    struct gt_extracted *out, struct gt_extracted_layer *layer, struct pair *p, struct gt_err *err)
{
	const int64_t rows = p->tuned->shape[0], columns = p->tuned->shape[1];
	const int64_t rank = out->lora.rank;
	const bool t = out->contents.transposed;
	const size_t m = (size_t)(rows * rank), n = (size_t)(rank * columns);
	float *difference = gt_calloc((size_t)(rows * columns), sizeof(*difference), err);
	float *left = gt_calloc(m, sizeof(*left), err), *right = gt_calloc(n, sizeof(*right), err);
	float *a = gt_arena_alloc(&out->arena, (t ? m : n) * sizeof(*a), err);
	float *b = gt_arena_alloc(&out->arena, (t ? n : m) * sizeof(*b), err);
	int rc = difference && left && right && a && b ? 0 : GT_ENOMEM;

	if (!rc)
		rc = compare_pair(p, difference, err);
	if (!rc)
		rc = gt_low_rank(left, right, &layer->kept, difference, rows, columns, rank, err);
	if (!rc && t) {
		transpose(a, left, rows, rank);
		transpose(b, right, rank, columns);
	} else if (!rc) {
		memcpy(a, right, n * sizeof(*a));
		memcpy(b, left, m * sizeof(*b));
	}
	if (!rc)
		rc = add_weight(out, layer->module, false, a, rank, t ? rows : columns, err);
	if (!rc)
		rc = add_weight(out, layer->module, true, b, t ? columns : rows, rank, err);
	free(difference);
	free(left);
	free(right);
	return rc;
}

static int extract_layers(struct extraction *x, struct gt_err *err)
{
	struct gt_extracted *out = x->out;
	size_t layer = 0;
	int rc = 0;

	out->contents.weights = gt_tree_dict(&out->arena, err);
	if (!out->contents.weights)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < x->count; i++)
		if (x->pairs[i].layer && x->pairs[i].differs)
			rc = extract_layer(out, &out->layers[layer++], &x->pairs[i], err);
	return rc;
}

int gt_adapter_extract(
    struct gt_extracted *out, const struct gt_adapter_extract *e, struct gt_err *err)
{
	struct extraction x = { .e = e, .out = out };
	struct gt_state_dict tuned = { 0 }, base = { 0 };
	int rc;

	out->lora = (struct gt_lora){ .rank = (int)e->rank, .alpha = (double)e->rank };
	out->contents.lora = &out->lora;
	out->names.max = NAMES;
	rc = gt_state_dict_find_as_is(&tuned, e->tuned.root, err);
	if (rc)
		gt_err_prefix(err, "'%.120s'", e->tuned.path);
	else if ((rc = gt_state_dict_find_as_is(&base, e->base.root, err)))
		gt_err_prefix(err, "'%.120s'", e->base.path);
	if (!rc)
		rc = find_pairs(&x, &tuned, &base, err);
	if (!rc)
		rc = sort_out(&x, err);
	if (!rc)
		rc = check_rest(&x, err);
	if (!rc)
		rc = extract_layers(&x, err);
	gt_state_dict_release(&tuned);
	gt_state_dict_release(&base);
	return rc;
}

void gt_extracted_release(struct gt_extracted *x)
{
	gt_name_list_release(&x->names);
	gt_arena_release(&x->arena);
	*x = (struct gt_extracted){ 0 };
}
