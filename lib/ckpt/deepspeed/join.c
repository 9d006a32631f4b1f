/* join.c - the float32 weights of DeepSpeed, from the partitions that ZeRO's optimizer keeps. */
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/deepspeed/deepspeed.h"
#include "lib/ckpt/tree/join.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"

/*
 * The optimizer has groups of parameters, and a flat vector for each group. Example: two ranks, and
 * parameters a of 5 elements and b of 3.
 *
 *   stages 1, 2   the vector is a0 a1 a2 a3 a4 b0 b1 b2, and padding; rank 0 has its first half
 *                 (a0 to a3), rank 1 the second one (a4 to b2)
 *   stage 3       each parameter is divided by itself, padded to a multiple of the ranks: rank 0
 *                 has a0 a1 a2 b0 b1, rank 1 a3 a4 and padding, b2 and padding
 *
 * Buffers are whole in rank 0's model states. Parameters that are not trained are whole there, too,
 * in stages 1 and 2, and divided in stage 3. Source: deepspeed/utils/zero_to_fp32.py, 0.19.8.
 */

struct joiner {
	const struct gt_deepspeed_ranks *ranks;
	struct gt_arena *arena;
	struct gt_tree *root;
	uint64_t compared; /* gt_join.compared */
};

/* A growing list of the pieces of one tensor, seen as a vector. */
struct pieces {
	struct gt_join_box *boxes;
	size_t count, capacity;
};

static int fail_name(const char *name, const char *what, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "'%.200s': %s", name, what);
}

/* ---- the values of a dict, sorted by name ---- */

struct named {
	const char *name;
	const struct gt_tree *value;
};

struct names {
	struct named *items;
	size_t count;
};

/* `dict` may be NULL. The caller frees items. */
static int sort_names(struct names *out, const struct gt_tree *dict, struct gt_err *err)
{
	size_t count = gt_tree_is(dict, GT_TREE_DICT) ? dict->seq.count : 0;

	*out = (struct names){ gt_calloc(count, sizeof(*out->items), err), 0 };
	if (!out->items)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (gt_tree_is_text(dict->seq.items[i].key))
			out->items[out->count++] =
			    (struct named){ dict->seq.items[i].key->string.bytes,
				    gt_tree_value(dict, i) };
	qsort(out->items, out->count, sizeof(*out->items), gt_index_by_name);
	return 0;
}

/* Return the tensor with this name, or NULL. */
static const struct gt_tree *find_tensor(const struct names *names, const char *name)
{
	const struct named *found =
	    bsearch(&name, names->items, names->count, sizeof(*found), gt_index_by_name);

	return found && gt_tree_is(found->value, GT_TREE_TENSOR) ? found->value : NULL;
}

/* ---- one tensor ---- */

/* Add the elements [at, at + count) of a vector as the elements from `offset` on. */
static int add_piece(struct joiner *j, struct pieces *p, const struct gt_tree_tensor *vector,
    int64_t at, int64_t count, int64_t offset, struct gt_err *err)
{
	struct gt_tree_tensor *view;
	int64_t *dims;

	if (!count)
		return 0;
	if (gt_grow(&p->boxes, p->count, &p->capacity, sizeof(*p->boxes), err))
		return GT_ENOMEM;
	view = gt_arena_alloc(j->arena, sizeof(*view), err);
	dims = gt_arena_alloc(j->arena, 3 * sizeof(*dims), err);
	if (!view || !dims)
		return GT_ENOMEM;
	dims[0] = count;
	dims[1] = vector->stride[0];
	dims[2] = offset;
	*view = *vector;
	view->shape = &dims[0];
	view->stride = &dims[1];
	view->offset += at * vector->stride[0];
	view->requires_grad = view->parameter = false;
	view->attributes = NULL;
	p->boxes[p->count++] = (struct gt_join_box){ &dims[2], &dims[0], view };
	return 0;
}

/* Add a tensor of this shape and of the type of `like`, which the pieces make up, to the result. */
static int add_joined(struct joiner *j, const char *name, const struct gt_tree_tensor *like,
    int ndim, const int64_t *shape, const struct pieces *p, struct gt_err *err)
{
	struct gt_tree *node = gt_tree_tensor(j->arena, like->dtype, ndim, shape, NULL, err);
	int64_t count = node ? gt_ckpt_tensor_count(&node->tensor) : 0;
	const struct gt_join join = { name, like->dtype, 1, &count, p->boxes, p->count,
		&j->compared };

	if (!node)
		return err->code;
	node->tensor.raw = like->raw;
	if (gt_join_storage(&node->tensor.storage, &join, j->arena, err))
		return gt_err_prefix(err, "'%.200s'", name);
	return gt_tree_set(j->root, name, node, j->arena, err);
}

/* ---- what the files say ---- */

static int read_shape(int64_t shape[GT_TREE_MAX_DIMS], int *ndim, int64_t *count, const char *name,
    const struct gt_tree *size, struct gt_err *err)
{
	int64_t unused[GT_TREE_MAX_DIMS];

	if (!gt_tree_is(size, GT_TREE_TUPLE) || size->seq.count > GT_TREE_MAX_DIMS)
		return fail_name(name, "its shape is no torch.Size", err);
	*ndim = (int)size->seq.count;
	for (int i = 0; i < *ndim; i++) {
		if (!gt_tree_is_count(gt_tree_value(size, (size_t)i)))
			return fail_name(name, "its shape has a number that is no count", err);
		shape[i] = gt_tree_value(size, (size_t)i)->integer;
	}
	if (!gt_ckpt_tensor_contiguous_stride(*ndim, shape, unused))
		return fail_name(name, "its shape overflows", err);
	*count = 1;
	for (int i = 0; i < *ndim; i++)
		*count *= shape[i];
	return 0;
}

/* Return the groups of a rank: a list of vectors of one type, a number. NULL with err set. */
static const struct gt_tree *groups_of(const struct joiner *j, size_t rank, struct gt_err *err)
{
	const char *key =
	    j->ranks->stage == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
	const struct gt_tree *groups = gt_tree_get(j->ranks->optimizers[rank], key);
	const struct gt_tree *first;

	if (!gt_tree_is(groups, GT_TREE_LIST)) {
		gt_err_set(err, GT_EFORMAT, "rank %zu has no list '%s'", rank, key);
		return NULL;
	}
	for (size_t i = 0; i < groups->seq.count; i++) {
		const struct gt_tree *vector = gt_tree_value(groups, i);

		first = gt_tree_value(groups, 0);
		if (vector->kind == GT_TREE_TENSOR && vector->tensor.ndim == 1 &&
		    !vector->tensor.raw && vector->tensor.dtype == first->tensor.dtype)
			continue;
		gt_err_set(
		    err, GT_EFORMAT, "rank %zu: '%s' has a value that is no vector", rank, key);
		return NULL;
	}
	return groups;
}

static const struct gt_tree_tensor *vector_of(const struct gt_tree *groups, size_t group)
{
	return &gt_tree_value(groups, group)->tensor;
}

/* Return the groups' dicts of shapes, in rank 0's model states. NULL with err set. */
static const struct gt_tree *shapes_of(const struct joiner *j, struct gt_err *err)
{
	const struct gt_tree *shapes = gt_tree_get(j->ranks->models[0], "param_shapes");
	bool sound = gt_tree_is(shapes, GT_TREE_LIST);

	for (size_t i = 0; sound && i < shapes->seq.count; i++) {
		const struct gt_tree *dict = gt_tree_value(shapes, i);

		sound = dict->kind == GT_TREE_DICT;
		for (size_t k = 0; sound && k < dict->seq.count; k++)
			sound = gt_tree_is_text(dict->seq.items[k].key);
	}
	if (sound)
		return shapes;
	gt_err_set(err, GT_EFORMAT, "the model states have no list of dicts 'param_shapes'");
	return NULL;
}

/* ---- stages 1 and 2 ---- */

/* A position in the vector of a group: an element of a rank's partition. */
struct position {
	size_t rank;
	int64_t at;
};

/* Take the next `count` elements of a group's vector, as pieces. */
static int take(struct joiner *j, struct pieces *p, const struct gt_tree *const *groups,
    size_t group, struct position *pos, int64_t count, struct gt_err *err)
{
	int64_t done = 0;
	int rc = 0;

	while (!rc && done < count) {
		const struct gt_tree_tensor *vector;
		int64_t n;

		if (pos->rank == j->ranks->count)
			return gt_err_set(err, GT_EFORMAT,
			    "the ranks' partitions end before its last %lld elements",
			    (long long)(count - done));
		vector = vector_of(groups[pos->rank], group);
		n = vector->shape[0] - pos->at;
		if (n > count - done)
			n = count - done;
		if (p)
			rc = add_piece(j, p, vector, pos->at, n, done, err);
		pos->at += n;
		done += n;
		if (pos->at == vector->shape[0])
			*pos = (struct position){ pos->rank + 1, 0 };
	}
	return rc;
}

/* The number of padding elements behind a parameter; without a list of them, 0. */
static int64_t padding_of(const struct joiner *j, size_t group, size_t i)
{
	const struct gt_tree *all =
	    gt_tree_get(j->ranks->optimizers[0], "param_alignment_paddings");
	const struct gt_tree *list =
	    gt_tree_is(all, GT_TREE_LIST) ? gt_tree_value(all, group) : NULL;
	const struct gt_tree *n = gt_tree_is(list, GT_TREE_LIST) ? gt_tree_value(list, i) : NULL;

	return gt_tree_is_count(n) ? n->integer : 0;
}

/* Vectors are padded to a multiple of twice the ranks, so that much may be left at most. */
static int check_rest(const struct joiner *j, const struct gt_tree *const *groups, size_t group,
    const struct position *pos, struct gt_err *err)
{
	int64_t rest = -pos->at;

	for (size_t r = pos->rank; r < j->ranks->count; r++)
		if (__builtin_add_overflow(rest, vector_of(groups[r], group)->shape[0], &rest))
			rest = INT64_MAX;
	if (rest < 2 * (int64_t)j->ranks->count)
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "the ranks' partitions of group %zu have %lld elements more than its parameters", group,
	    (long long)rest);
}

static int join_group(struct joiner *j, const struct gt_tree *const *groups, size_t group,
    const struct gt_tree *shapes, struct gt_err *err)
{
	struct position pos = { 0 };
	int64_t shape[GT_TREE_MAX_DIMS], count;
	int ndim, rc = 0;

	for (size_t i = 0; i < shapes->seq.count && !rc; i++) {
		const char *name = shapes->seq.items[i].key->string.bytes;
		struct pieces p = { 0 };

		rc = read_shape(shape, &ndim, &count, name, gt_tree_value(shapes, i), err);
		if (!rc && take(j, &p, groups, group, &pos, count, err))
			rc = gt_err_prefix(err, "'%.200s'", name);
		if (!rc)
			rc = add_joined(j, name, vector_of(groups[0], group), ndim, shape, &p, err);
		free(p.boxes);
		if (!rc && take(j, NULL, groups, group, &pos, padding_of(j, group, i), err))
			rc = gt_err_prefix(err, "'%.200s'", name);
	}
	return rc ? rc : check_rest(j, groups, group, &pos, err);
}

/* ---- stage 3 ---- */

/* Add `count` elements from `at` on of the vectors of a rank, seen as one, at `offset`. */
static int take_part(struct joiner *j, struct pieces *p, const struct gt_tree *groups, int64_t at,
    int64_t count, int64_t offset, struct gt_err *err)
{
	int rc = 0;

	for (size_t g = 0; g < groups->seq.count && count && !rc; g++) {
		const struct gt_tree_tensor *vector = vector_of(groups, g);
		int64_t n = vector->shape[0] - at;

		if (n <= 0) {
			at -= vector->shape[0];
			continue;
		}
		n = n < count ? n : count;
		rc = add_piece(j, p, vector, at, n, offset, err);
		count -= n;
		offset += n;
		at = 0;
	}
	if (!rc && count)
		rc = gt_err_set(err, GT_EFORMAT,
		    "a rank's partition ends before the last %lld elements of its part",
		    (long long)count);
	return rc;
}

/* Each rank has `part` elements of a parameter; the last ones may be padding. */
static int64_t part_of(const struct joiner *j, int64_t count)
{
	int64_t ranks = (int64_t)j->ranks->count;

	return count / ranks + (count % ranks != 0);
}

static int64_t clip_part(int64_t count, int64_t part, size_t rank)
{
	int64_t left = count - (int64_t)rank * part;

	return left < 0 ? 0 : left < part ? left : part;
}

static int join_parts(struct joiner *j, const struct gt_tree *const *groups,
    const struct gt_tree *shapes, struct gt_err *err)
{
	int64_t shape[GT_TREE_MAX_DIMS], count, at = 0, all = 0;
	int ndim, rc = 0;

	for (size_t g = 0; g < shapes->seq.count && !rc; g++) {
		const struct gt_tree *dict = gt_tree_value(shapes, g);

		for (size_t i = 0; i < dict->seq.count && !rc; i++) {
			const char *name = dict->seq.items[i].key->string.bytes;
			struct pieces p = { 0 };
			int64_t part;

			rc = read_shape(shape, &ndim, &count, name, gt_tree_value(dict, i), err);
			if (rc)
				break;
			part = part_of(j, count);
			for (size_t r = 0; r < j->ranks->count && !rc; r++)
				rc = take_part(j, &p, groups[r], at, clip_part(count, part, r),
				    (int64_t)r * part, err);
			if (rc)
				gt_err_prefix(err, "'%.200s'", name);
			else
				rc = add_joined(
				    j, name, vector_of(groups[0], 0), ndim, shape, &p, err);
			free(p.boxes);
			at += part;
		}
	}
	for (size_t g = 0; !rc && g < groups[0]->seq.count; g++)
		all += vector_of(groups[0], g)->shape[0];
	if (!rc && at != all)
		rc = gt_err_set(err, GT_EFORMAT,
		    "the partition of rank 0 has %lld elements, its parameters have %lld",
		    (long long)all, (long long)at);
	return rc;
}

/* ---- trained parameters ---- */

static int join_trained(struct joiner *j, struct gt_err *err)
{
	const struct gt_tree **groups = gt_calloc(j->ranks->count, sizeof(*groups), err);
	const struct gt_tree *shapes = groups ? shapes_of(j, err) : NULL;
	int rc = shapes ? 0 : err->code;

	for (size_t r = 0; r < j->ranks->count && !rc; r++) {
		groups[r] = groups_of(j, r, err);
		rc = groups[r] ? 0 : err->code;
		if (!rc && groups[r]->seq.count != groups[0]->seq.count)
			rc = gt_err_set(err, GT_EFORMAT, "rank %zu has %zu groups, rank 0 has %zu",
			    r, groups[r]->seq.count, groups[0]->seq.count);
	}
	if (!rc && j->ranks->stage != 3 && shapes->seq.count != groups[0]->seq.count)
		rc = gt_err_set(err, GT_EFORMAT,
		    "the model states have shapes of %zu groups, the optimizer has %zu",
		    shapes->seq.count, groups[0]->seq.count);
	if (!rc && j->ranks->stage == 3 && !groups[0]->seq.count)
		rc = gt_err_set(err, GT_EFORMAT, "the optimizer has no groups");
	if (!rc && j->ranks->stage == 3)
		rc = join_parts(j, groups, shapes, err);
	for (size_t g = 0; !rc && j->ranks->stage != 3 && g < shapes->seq.count; g++)
		rc = join_group(j, groups, g, gt_tree_value(shapes, g), err);
	free(groups);
	return rc;
}

/* ---- the others ---- */

/* The parameters that are not trained, of each rank whose model states are read. */
struct frozen {
	struct names *ranks;
	size_t count;
};

static int fail_missing(const char *name, size_t rank, struct gt_err *err)
{
	return gt_err_set(
	    err, GT_EFORMAT, "'%.200s': the model states of rank %zu do not have it", name, rank);
}

/* In stage 3, each rank has a part of a parameter. */
static int join_frozen(struct joiner *j, const struct frozen *f, const char *name,
    const struct gt_tree *size, struct gt_err *err)
{
	const struct gt_tree *first = find_tensor(&f->ranks[0], name);
	int64_t shape[GT_TREE_MAX_DIMS], count, part;
	struct pieces p = { 0 };
	int ndim, rc = read_shape(shape, &ndim, &count, name, size, err);

	if (rc)
		return rc;
	part = part_of(j, count);
	for (size_t r = 0; r < j->ranks->count && !rc; r++) {
		const struct gt_tree *fragment = find_tensor(&f->ranks[r], name);
		int64_t n = clip_part(count, part, r);

		if (!fragment)
			rc = fail_missing(name, r, err);
		else if (fragment->tensor.ndim != 1 || fragment->tensor.shape[0] < n ||
		         !gt_raw_same_type(&fragment->tensor, &first->tensor))
			rc = fail_name(name, "a rank's part of it has another size or type", err);
		else
			rc = add_piece(j, &p, &fragment->tensor, 0, n, (int64_t)r * part, err);
	}
	if (!rc)
		rc = add_joined(j, name, &first->tensor, ndim, shape, &p, err);
	free(p.boxes);
	return rc;
}

static int add_frozen_named(struct joiner *j, const struct frozen *f, const char *name,
    const struct gt_tree *size, struct gt_err *err)
{
	const struct gt_tree *whole = find_tensor(&f->ranks[0], name);

	if (!whole)
		return fail_missing(name, 0, err);
	if (j->ranks->stage == 3)
		return join_frozen(j, f, name, size, err);
	return gt_tree_set(j->root, name, (struct gt_tree *)whole, j->arena, err);
}

static int add_frozen(struct joiner *j, struct gt_err *err)
{
	const struct gt_tree *shapes = gt_tree_get(j->ranks->models[0], "frozen_param_shapes");
	struct frozen f = { gt_calloc(j->ranks->count, sizeof(*f.ranks), err), 0 };
	int rc = f.ranks ? 0 : GT_ENOMEM;

	if (!gt_tree_is(shapes, GT_TREE_DICT)) {
		free(f.ranks);
		return rc;
	}
	for (; f.count < j->ranks->model_count && !rc; f.count++)
		rc = sort_names(&f.ranks[f.count],
		    gt_tree_get(j->ranks->models[f.count], "frozen_param_fragments"), err);
	for (size_t i = 0; i < shapes->seq.count && !rc; i++) {
		const struct gt_tree *key = shapes->seq.items[i].key;

		if (gt_tree_is_text(key))
			rc = add_frozen_named(
			    j, &f, key->string.bytes, gt_tree_value(shapes, i), err);
		else
			rc = gt_err_set(
			    err, GT_EFORMAT, "a key of 'frozen_param_shapes' is no text");
	}
	for (size_t i = 0; f.ranks && i < f.count; i++)
		free(f.ranks[i].items);
	free(f.ranks);
	return rc;
}

/* Buffers of half precision become float32, too. */
static int add_buffer(
    struct joiner *j, const char *name, const struct gt_tree *buffer, struct gt_err *err)
{
	const struct gt_tree_tensor *t = &buffer->tensor;
	struct gt_tree *node;
	int rc;

	if (!gt_dtype_is_float(t->dtype) || t->dtype == GT_F32)
		return gt_tree_set(j->root, name, (struct gt_tree *)buffer, j->arena, err);
	rc = gt_join_one(&node, name, t, GT_F32, j->arena, err);
	return rc ? rc : gt_tree_set(j->root, name, node, j->arena, err);
}

static int add_buffers(struct joiner *j, struct gt_err *err)
{
	const struct gt_tree *names = gt_tree_get(j->ranks->models[0], "buffer_names");
	const struct gt_tree *module = gt_tree_get(j->ranks->models[0], "module");
	struct names values;
	int rc;

	if (!gt_tree_is(names, GT_TREE_LIST) || !gt_tree_is(module, GT_TREE_DICT))
		return gt_err_set(
		    err, GT_EFORMAT, "the model states have no 'buffer_names' or no 'module'");
	rc = sort_names(&values, module, err);
	for (size_t i = 0; i < names->seq.count && !rc; i++) {
		const struct gt_tree *name = gt_tree_value(names, i);
		const struct gt_tree *buffer =
		    gt_tree_is_text(name) ? find_tensor(&values, name->string.bytes) : NULL;

		/* Buffers that are not persistent have a name, and no value. */
		if (buffer)
			rc = add_buffer(j, name->string.bytes, buffer, err);
	}
	free(values.items);
	return rc;
}

/* Other names of parameters. */
static int add_shared(struct joiner *j, struct gt_err *err)
{
	const struct gt_tree *shared = gt_tree_get(j->ranks->models[0], "shared_params");
	struct names names;
	int rc = sort_names(&names, j->root, err);

	for (size_t i = 0; gt_tree_is(shared, GT_TREE_DICT) && i < shared->seq.count && !rc; i++) {
		const struct gt_tree *name = shared->seq.items[i].key;
		const struct gt_tree *other = gt_tree_value(shared, i), *kept;
		struct gt_tree *node;

		kept = gt_tree_is_text(other) ? find_tensor(&names, other->string.bytes) : NULL;
		if (!kept || !gt_tree_is_text(name))
			continue;
		node = gt_tree_new(j->arena, GT_TREE_TENSOR, err);
		if (!node) {
			rc = GT_ENOMEM;
			break;
		}
		node->tensor = kept->tensor;
		rc = gt_tree_set(j->root, name->string.bytes, node, j->arena, err);
	}
	free(names.items);
	return rc;
}

int gt_deepspeed_join(struct gt_tree **out, const struct gt_deepspeed_ranks *ranks,
    struct gt_arena *arena, struct gt_err *err)
{
	struct joiner j = { .ranks = ranks, .arena = arena, .root = gt_tree_dict(arena, err) };
	int rc = j.root ? add_buffers(&j, err) : GT_ENOMEM;

	if (!rc)
		rc = add_frozen(&j, err);
	if (!rc)
		rc = join_trained(&j, err);
	if (!rc)
		rc = add_shared(&j, err);
	if (!rc)
		rc = gt_tree_check(j.root, NULL, err);
	if (rc)
		return rc;
	j.root->seq.ordered = true;
	*out = j.root;
	return 0;
}
