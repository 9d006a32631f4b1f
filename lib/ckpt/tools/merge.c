/* merge.c - several state_dicts made one: the union of their names, sums of their values. */
#include "lib/ckpt/tools/merge.h"

#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/meter.h"
#include "lib/base/thread_pool.h"
#include "lib/ckpt/tools/merge_steps.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/flat.h"
#include "lib/ckpt/tree/metadata.h"
#include "lib/ckpt/tree/raw.h"
#include "lib/ckpt/tree/tree.h"

enum {
	COMPARED = 1 << 20, /* bytes of two tensors at a time */
	ALIGN = 64,
	MAX_THREADS = 4
};

/* ---- equality ---- */

static bool same_shape(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	return a->ndim == b->ndim &&
	       (!a->ndim || !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)));
}

/* Whether every byte is the same. */
static int compare_tensor_bytes(
    const struct gt_tree_tensor *a, const struct gt_tree_tensor *b, bool *same, struct gt_err *err)
{
	size_t size = gt_dtype_size(a->dtype), n;
	struct gt_cursor x = gt_merge_cursor(a, 0, COMPARED / size),
	                 y = gt_merge_cursor(b, 0, COMPARED / size);
	const void *run_x, *run_y;
	int rc = gt_storage_check(a->storage, err);

	*same = true;
	if (!rc)
		rc = gt_storage_check(b->storage, err);
	while (!rc && *same && (rc = gt_cursor_next(&x, &run_x, &n, err)) > 0 &&
	       (rc = gt_cursor_next(&y, &run_y, &n, err)) > 0) {
		*same = !memcmp(run_x, run_y, n * size);
		rc = 0;
	}
	gt_cursor_release(&x);
	gt_cursor_release(&y);
	return rc;
}

/* ---- the union ---- */

struct name {
	const char *text;
	const struct gt_tree_tensor *tensor;
};

struct merge {
	struct gt_tree *root;
	struct gt_arena *arena;
	struct gt_index names;
	size_t twice;
	struct gt_name_list differ; /* names with different content */
};

static int meet_again(
    struct merge *m, const struct name *old, const struct gt_tree_tensor *t, struct gt_err *err)
{
	bool same = gt_raw_same_type(old->tensor, t) && same_shape(old->tensor, t);
	int rc = same ? compare_tensor_bytes(old->tensor, t, &same, err) : 0;

	m->twice++;
	if (rc || same)
		return rc;
	gt_name_list_add(&m->differ, "'%.50s'", old->text);
	return 0;
}

static int add_merged_tensor(struct merge *m, const struct gt_tree_item *item, struct gt_err *err)
{
	struct name *name = gt_arena_alloc(m->arena, sizeof(*name), err), *first;

	if (!name)
		return GT_ENOMEM;
	*name = (struct name){ item->key->string.bytes, &item->value->tensor };
	first = gt_index_add(&m->names, name, err);
	if (!first)
		return GT_ENOMEM;
	if (first != name)
		return meet_again(m, first, &item->value->tensor, err);
	return gt_tree_push(m->root, item->key, item->value, m->arena, err);
}

static int merge_metadata(struct gt_tree *root, struct gt_tree *const *parts, size_t count,
    struct gt_arena *arena, struct gt_buf *note, struct gt_err *err)
{
	size_t differ;
	int rc = gt_metadata_merge(root, parts, count, &differ, arena, err);

	if (differ)
		gt_buf_printf(note,
		    "%zu entr%s of the metadata differ%s between files: the first file that has "
		    "one gives its value\n",
		    differ, differ == 1 ? "y" : "ies", differ == 1 ? "s" : "");
	return rc;
}

/* The state_dict of a file, as a tree in the arena. */
static int take_part(struct gt_tree **out, const struct gt_merge_input *input,
    struct gt_arena *arena, struct gt_buf *note, struct gt_err *err)
{
	struct gt_state_dict sd;
	int rc = gt_state_dict_find_as_is(&sd, input->root, err);

	if (rc)
		return gt_err_prefix(err, "'%.120s'", input->path);
	rc = gt_convert_check_types(&sd, err);
	if (rc) {
		gt_err_prefix(err, "'%.120s'", input->path);
	} else {
		*out = gt_convert_state_dict(&sd, arena, err);
		gt_convert_note(note, input->path, input->root, &sd);
		rc = *out ? 0 : GT_ENOMEM;
	}
	gt_state_dict_release(&sd);
	return rc;
}

static int fail_names(struct gt_name_list *names, struct gt_err *err)
{
	size_t n = names->count;

	gt_err_set(err, GT_EFORMAT, "%zu name%s with different content: %s", n, n == 1 ? "" : "s",
	    gt_name_list_text(names));
	return gt_err_hint(
	    err, "{average} takes the mean; ckpt rename or select make names differ");
}

/*
 * Build a dict with the tensors of the state_dicts of `count` trees, in the order of the trees.
 * Names do not change. The dict also gets the metadata of the state_dicts: the versions of modules,
 * and texts (gt_metadata_merge()). *out is in `arena`, and borrows the tensors of the trees. The
 * function appends lines to `note`:
 *   - for each tree, the place of its state_dict, and the parts that are left out;
 *   - the number of metadata entries that differ between trees, if it is not 0;
 *   - the number of tensors in the result.
 * If a name occurs in several trees, its tensors must have the same type, shape and bytes.
 * Otherwise the function fails with GT_EFORMAT; the message contains the number of names whose
 * tensors differ, and the first few of these names.
 */
int gt_merge_union(struct gt_tree **out, const struct gt_merge_input *inputs, size_t count,
    struct gt_arena *arena, struct gt_buf *note, struct gt_err *err)
{
	struct merge m = { .arena = arena,
		.root = gt_tree_dict(arena, err),
		.names.compare = gt_index_by_name,
		.differ.max = 4 };
	struct gt_tree **parts = gt_calloc(count, sizeof(struct gt_tree *), err);
	int rc = m.root && parts ? 0 : GT_ENOMEM;

	for (size_t i = 0; !rc && i < count; i++) {
		rc = take_part(&parts[i], &inputs[i], arena, note, err);
		if (!rc && !i)
			m.root->seq.ordered = parts[i]->seq.ordered;
		for (size_t k = 0; !rc && k < parts[i]->seq.count; k++)
			rc = add_merged_tensor(&m, &parts[i]->seq.items[k], err);
	}
	gt_index_release(&m.names);
	if (!rc && m.differ.count)
		rc = fail_names(&m.differ, err);
	gt_name_list_release(&m.differ);
	if (!rc)
		rc = merge_metadata(m.root, parts, count, arena, note, err);
	free(parts);
	if (rc)
		return rc;
	*out = m.root;
	gt_buf_printf(note, "%zu tensor%s; %zu were in several files, the same in each\n",
	    m.root->seq.count, m.root->seq.count == 1 ? "" : "s", m.twice);
	return 0;
}

/* ---- the mean: tensors that belong together ---- */

static int hint_at_names(struct gt_err *err)
{
	return gt_err_hint(err,
	    "'gtrain ckpt diff' lists the differences; 'gtrain ckpt rename' and "
	    "'select' make names agree");
}

static int check_alike(const struct gt_merge_work *m, const struct gt_tree_tensor *a,
    const struct gt_tree_tensor *b, const char *name, size_t file, struct gt_err *err)
{
	const char *first = m->inputs[0].path, *other = m->inputs[file].path;

	if (!gt_raw_same_type(a, b)) {
		gt_err_set(err, GT_EFORMAT, "'%.120s' is %s in '%.120s', %s in '%.120s'", name,
		    gt_ckpt_tensor_type(a), first, gt_ckpt_tensor_type(b), other);
		return gt_err_hint(err, "'gtrain ckpt convert --dtype' changes the type");
	}
	if (!same_shape(a, b)) {
		gt_err_set(err, GT_EFORMAT,
		    "'%.120s' has one shape in '%.120s' and another in '%.120s'", name, first,
		    other);
		return gt_err_hint(err, "'gtrain ckpt diff' prints both; are they of one model?");
	}
	return 0;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct gt_tree_item *)a)->key->string.bytes,
	    ((const struct gt_tree_item *)b)->key->string.bytes);
}

/* Find each tensor of the first state_dict in another one of as many. */
static int match(
    struct gt_merge_work *m, struct gt_tree *const *parts, size_t file, struct gt_err *err)
{
	const struct gt_tree *first = parts[0], *other = parts[file];
	struct gt_index index = { .compare = compare_keys };
	int rc = 0;

	for (size_t i = 0; !rc && i < other->seq.count; i++)
		if (!gt_index_add(&index, &other->seq.items[i], err))
			rc = GT_ENOMEM;
	for (size_t i = 0; !rc && i < first->seq.count; i++) {
		const char *name = first->seq.items[i].key->string.bytes;
		const struct gt_tree_item *found = gt_index_find(&index, &first->seq.items[i]);

		if (!found) {
			gt_err_set(err, GT_EFORMAT, "'%.120s' is in '%.120s', not in '%.120s'",
			    name, m->inputs[0].path, m->inputs[file].path);
			rc = hint_at_names(err);
			break;
		}
		m->targets[i].from[file] = &found->value->tensor;
		rc = check_alike(
		    m, m->targets[i].from[0], m->targets[i].from[file], name, file, err);
	}
	if (!rc && other->seq.count != first->seq.count) {
		gt_err_set(err, GT_EFORMAT, "'%.120s' has %zu tensors, '%.120s' has %zu",
		    m->inputs[file].path, other->seq.count, m->inputs[0].path, first->seq.count);
		rc = hint_at_names(err);
	}
	gt_index_release(&index);
	return rc;
}

/* The tensors of the result: those of the first, contiguous. */
static int plan_means(struct gt_merge_work *m, struct gt_merge_mean *out,
    struct gt_tree *const *parts, struct gt_err *err)
{
	const struct gt_tree *first = parts[0];

	for (size_t i = 0; i < m->target_count; i++) {
		const struct gt_tree_tensor *t = &first->seq.items[i].value->tensor;
		const enum gt_dtype *as = m->how->as;
		enum gt_dtype dtype = as && gt_dtype_is_float(t->dtype) ? *as : t->dtype;
		struct gt_tree *node =
		    gt_tree_tensor(&out->arena, dtype, t->ndim, t->shape, NULL, err);

		m->targets[i].from =
		    gt_arena_alloc(&out->arena, m->parts * sizeof(*m->targets[i].from), err);
		m->targets[i].least =
		    gt_arena_alloc(&out->arena, m->count * sizeof(*m->targets[i].least), err);
		if (!node || !m->targets[i].from || !m->targets[i].least ||
		    gt_tree_push(out->root, first->seq.items[i].key, node, &out->arena, err))
			return err->code;
		node->tensor.raw = t->raw;
		m->targets[i].result = &node->tensor;
		m->targets[i].from[0] = t;
	}
	return 0;
}

static int check_repeats(const struct gt_merge_work *m, struct gt_err *err)
{
	struct gt_repeats repeats = { 0 };
	int rc = 0;

	for (size_t i = 0; i < m->target_count && !rc; i++)
		for (size_t k = 0; k < m->parts && !rc; k++) {
			const struct gt_tree_tensor *t = m->targets[i].from[k];

			rc = gt_repeats_add(&repeats, t->storage,
			    (uint64_t)gt_ckpt_tensor_count(t) * gt_dtype_size(t->dtype), err);
		}
	return gt_repeats_end(&repeats, rc, err);
}

/* By what they are in the first file, then in the second, and so on. */
static int compare_targets(const void *a, const void *b, void *self)
{
	const struct gt_merge_target *x = *(struct gt_merge_target *const *)a,
	                             *y = *(struct gt_merge_target *const *)b;
	const struct gt_merge_work *m = self;
	int order = 0;

	for (size_t k = 0; !order && k < m->parts; k++)
		order = gt_flat_compare(x->from[k], y->from[k]);
	return order;
}

/* Tensors that are one in every file have one mean. */
static int tie(struct gt_merge_work *m, struct gt_err *err)
{
	struct gt_merge_target **sorted = gt_calloc(m->target_count, sizeof(*sorted), err);
	size_t n = 0;

	if (!sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < m->target_count; i++)
		if (gt_ckpt_tensor_count(m->targets[i].result))
			sorted[n++] = &m->targets[i];
	qsort_r(sorted, n, sizeof(*sorted), compare_targets, m);
	for (size_t i = 1; i < n; i++) {
		struct gt_merge_target *one =
		    sorted[i - 1]->tied ? sorted[i - 1]->tied : sorted[i - 1];

		if (compare_targets(&one, &sorted[i], m))
			continue;
		sorted[i]->tied = one;
		sorted[i]->result->storage = one->result->storage;
	}
	free(sorted);
	return 0;
}

/* One after the other in the file. */
static int place(struct gt_merge_work *m, uint64_t *bytes, struct gt_err *err)
{
	int rc = 0;

	m->pieces.size = sizeof(struct gt_piece);
	for (size_t i = 0; i < m->target_count && !rc; i++) {
		const struct gt_tree_tensor *t = m->targets[i].result;

		if (m->targets[i].tied)
			continue;
		m->targets[i].offset = *bytes;
		*bytes += (t->storage->size_bytes + ALIGN - 1) / ALIGN * ALIGN;
		rc = gt_pieces_add(
		    &m->pieces, i, (uint64_t)gt_ckpt_tensor_count(t), GT_MERGE_PIECE, err);
	}
	return rc;
}

/* ---- the work ---- */

/* Combine the pieces; the result has `bytes` bytes. */
static int compute(struct gt_merge_work *m, uint64_t bytes, struct gt_err *err)
{
	size_t threads = gt_thread_pool_size(0);
	int rc = 0;

	threads = threads < MAX_THREADS ? threads : MAX_THREADS;
	for (size_t i = 0; !rc && i < m->target_count; i++)
		rc = gt_storages_check(
		    m->targets[i].from, NULL, m->parts, threads, m->how->progress, err);
	if (!rc)
		rc = gt_merge_measure(m, threads, err);
	if (rc)
		return rc;
	gt_meter_begin(&m->meter, m->how->progress, "combining, MiB", bytes);
	rc = gt_thread_pool_run(threads, m->pieces.count, gt_merge_piece, m, err);
	gt_meter_end(&m->meter);
	return rc;
}

/* ---- the file ---- */

static int open_unnamed(int *fd, const char *folder, struct gt_err *err)
{
	char *path;

	*fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (*fd >= 0)
		return 0;
	path = gt_asprintf(err, "%s/.gtrain-mean-XXXXXX", folder);
	if (!path)
		return GT_ENOMEM;
	*fd = mkostemp(path, O_CLOEXEC); /* file systems without O_TMPFILE */
	if (*fd >= 0)
		unlink(path);
	else
		gt_err_sys(err, "cannot make a temporary file in '%s'", folder);
	free(path);
	return *fd >= 0 ? 0 : GT_EIO;
}

/* Give the tensors of the result the memory of the file. */
static int attach_mean_file(
    struct gt_merge_work *m, struct gt_merge_mean *out, uint64_t bytes, struct gt_err *err)
{
	void *p = NULL;

	if (ftruncate(m->fd, (off_t)bytes))
		return gt_err_sys(err, "cannot write the means");
	if (bytes)
		p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, m->fd, 0);
	if (p == MAP_FAILED)
		return gt_err_sys(err, "cannot map the means");
	out->map = (struct gt_mapping){ p, bytes, m->fd, 0 };
	for (size_t i = 0; i < m->target_count; i++) {
		struct gt_storage *s = m->targets[i].result->storage;

		if (m->targets[i].tied)
			continue;
		s->bytes = out->map.data + m->targets[i].offset;
		s->map = &out->map;
		s->file_offset = m->targets[i].offset;
	}
	return 0;
}

/* Tensors of raw types have no mean: they have to be the same everywhere. */
static int check_raw(const struct gt_merge_work *m, const struct gt_tree *first, struct gt_err *err)
{
	for (size_t i = 0; i < m->target_count; i++)
		if (m->targets[i].result->raw && atomic_load(&m->targets[i].differs))
			return gt_err_set(err, GT_ENOTSUP,
			    "'%.120s' differs, and gtrain has no mean of %s",
			    first->seq.items[i].key->string.bytes,
			    gt_ckpt_tensor_type(m->targets[i].result));
	return 0;
}

static int fill_means(struct gt_merge_work *m, struct gt_merge_mean *out,
    struct gt_tree *const *parts, const char *folder, struct gt_err *err)
{
	uint64_t bytes = 0;
	int rc;

	m->target_count = parts[0]->seq.count;
	m->targets = gt_calloc(m->target_count, sizeof(*m->targets), err);
	rc = m->targets ? plan_means(m, out, parts, err) : GT_ENOMEM;
	for (size_t k = 1; !rc && k < m->parts; k++)
		rc = match(m, parts, k, err);
	if (!rc)
		rc = check_repeats(m, err);
	if (!rc)
		rc = tie(m, err);
	if (!rc)
		rc = place(m, &bytes, err);
	if (!rc)
		rc = open_unnamed(&m->fd, folder, err);
	if (rc)
		return rc;
	rc = compute(m, bytes, err);
	if (!rc)
		rc = check_raw(m, parts[0], err);
	if (!rc)
		rc = attach_mean_file(m, out, bytes, err);
	return rc == GT_EIO ? gt_err_prefix(err, "the means, kept in '%s' meanwhile", folder) : rc;
}

static void report(const struct gt_merge_work *m, struct gt_buf *note)
{
	size_t differ = 0, nonfinite = 0, linear = 0;

	for (size_t i = 0; i < m->target_count; i++) {
		differ += atomic_load(&m->targets[i].differs);
		nonfinite += atomic_load(&m->targets[i].nonfinite);
		linear += m->targets[i].linear;
	}
	if (m->how->base)
		gt_buf_printf(note, "'%.120s' with the differences of %zu checkpoint%s, ",
		    m->how->base->path, m->count, m->count == 1 ? "" : "s");
	else
		gt_buf_printf(note, "%s of %zu checkpoints, ",
		    m->how->slerp ? "interpolation" : "mean", m->count);
	gt_buf_printf(note, "%zu tensor%s\n", m->target_count, m->target_count == 1 ? "" : "s");
	if (linear)
		gt_buf_printf(note,
		    "%zu tensor%s nearly parallel or zero: interpolated on a line\n", linear,
		    linear == 1 ? " is" : "s are");
	if (differ)
		gt_buf_printf(note,
		    "%zu tensor%s of integers differ%s: the first file's were taken\n", differ,
		    differ == 1 ? "" : "s", differ == 1 ? "s" : "");
	if (nonfinite)
		gt_buf_printf(note, "%zu tensor%s of the %s hold%s NaN or Inf\n", nonfinite,
		    nonfinite == 1 ? "" : "s", m->how->slerp ? "result" : "mean",
		    nonfinite == 1 ? "s" : "");
}

/* Set the divisor of the sums. Weights whose sum is zero have no mean, also where rounding leaves a
 * rest of it, as of 0.1 + 0.2 - 0.3. */
static int find_divisor(struct gt_merge_work *m, struct gt_err *err)
{
	double size = 0;

	m->divisor = 1;
	if (m->how->base || m->how->slerp)
		return 0;
	m->divisor = 0;
	for (size_t k = 0; k < m->count; k++) {
		const double weight = m->how->weights ? m->how->weights[k] : 1;

		m->divisor += weight;
		size += fabs(weight);
	}
	if (!isfinite(size))
		return gt_err_set(err, GT_EINVAL, "the sum of the weights is too large");
	if (m->divisor == 0 || fabs(m->divisor) < size * (double)m->count * DBL_EPSILON)
		return gt_err_set(
		    err, GT_EINVAL, "the sum of the weights is 0, so there is no mean");
	return 0;
}

/*
 * Combine the state_dicts of `count` trees, tensor by tensor:
 *
 *   mean   sum(w x) / sum(w), with weights w
 *   base   b + sum(w (x - b)); DARE leaves out elements of x - b by chance
 *   TIES   b + sum'(w (x - b)) / count', where the elements of each x - b that are not among its
 *          largest are 0, and the sum and the count are of those with the sign of sum(x - b)
 *   SLERP  (sin((1 - t) a) x + sin(t a) y) / sin(a), where a is the angle between the tensors x
 *          and y as vectors. If |cos(a)| is above 0.9995, or one of them is zero,
 *          (1 - t) x + t y.
 *
 * All trees must have the same names, with the same types and shapes; otherwise the function
 * fails with GT_EFORMAT, and the message names a tensor that differs, or gives the numbers of
 * tensors. Floats and complex numbers are summed in float64, in the order of the trees. The sum is
 * rounded once, to the type of the tensor. If how->as is not NULL, floats are rounded to this type
 * instead. Integers and bools, such as num_batches_tracked, are taken from the first tree. The
 * function appends lines to `note` with the numbers of checkpoints and tensors, of integer and bool
 * tensors that differ between trees, of results that contain NaN or Inf, and of metadata entries
 * that differ. Tied tensors (several names for one tensor) stay tied if they are tied in all trees.
 * For comparison: AveragedModel of torch.optim.swa_utils computes a running mean during the
 * training, and copies buffers such as num_batches_tracked by default.
 *
 * The results are written to an unnamed file in `folder`. This file has the size of one checkpoint.
 * Call gt_merge_release() in every case.
 *
 * Sources: Ilharco et al., "Editing models with task arithmetic", arXiv 2212.04089; Yu et al.,
 * "Language models are super Mario" (DARE), arXiv 2311.03099; Yadav et al., "TIES-Merging", arXiv
 * 2306.01708; Shoemake, "Animating rotation with quaternion curves" (SLERP), SIGGRAPH 1985.
 *
 * Memory: a few MiB per thread. Errors: GT_EFORMAT, also for a damaged input; GT_EINVAL if the
 * weights of a mean sum to 0; GT_ENOTSUP if strides repeat the same elements too often
 * (gt_repeats_end(), tree/tree.h); GT_EIO; GT_ENOMEM.
 */
int gt_merge_combine(struct gt_merge_mean *out, const struct gt_merge_input *inputs, size_t count,
    const struct gt_merge_how *how, const char *folder, struct gt_buf *note, struct gt_err *err)
{
	struct gt_merge_work m = {
		.count = count, .parts = count + (how->base != NULL), .how = how, .fd = -1
	};
	struct gt_tree **parts = gt_calloc(m.parts, sizeof(struct gt_tree *), err);
	int rc = parts ? find_divisor(&m, err) : GT_ENOMEM;

	*out = (struct gt_merge_mean){ 0 };
	m.inputs = gt_calloc(m.parts, sizeof(*m.inputs), err);
	out->root = gt_tree_dict(&out->arena, err);
	if (!out->root || !m.inputs)
		rc = GT_ENOMEM;
	for (size_t i = 0; !rc && i < m.parts; i++) {
		m.inputs[i] = i < count ? inputs[i] : *how->base;
		rc = take_part(&parts[i], &m.inputs[i], &out->arena, note, err);
	}
	if (!rc)
		rc = fill_means(&m, out, parts, folder, err);
	if (!rc) {
		out->root->seq.ordered = parts[0]->seq.ordered;
		report(&m, note);
		rc = merge_metadata(out->root, parts, count, &out->arena, note, err);
	}
	if (!out->map.data && m.fd >= 0)
		close(m.fd);
	free(m.targets);
	free(m.pieces.items);
	free(m.inputs);
	free(parts);
	return rc;
}

void gt_merge_release(struct gt_merge_mean *mean)
{
	gt_unmap(&mean->map);
	gt_arena_release(&mean->arena);
	*mean = (struct gt_merge_mean){ 0 };
}
