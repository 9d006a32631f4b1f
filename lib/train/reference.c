/* reference.c - the margins of pairs of texts with the weights that a run begins with. */
#include "lib/train/reference.h"

#include <stdlib.h>

#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/write.h"
#include "lib/train/run/run_dir.h"

/* Names in the file, and options of the data sets. */
enum { SETS = 2 };
static const char *const names[SETS] = { "data", "val" };

static struct gt_dataset *dataset_of(const struct gt_train *t, int i)
{
	return i ? t->val : t->data;
}

static int64_t count_of(const struct gt_train *t, int i)
{
	const struct gt_dataset *data = dataset_of(t, i);

	return data ? gt_dataset_info(data)->samples : 0;
}

static bool has_pairs(const struct gt_train *t)
{
	return t->s.input.form.paired;
}

static float *alloc_for(const struct gt_train *t, int i, struct gt_err *err)
{
	return gt_calloc((size_t)count_of(t, i), sizeof(float), err);
}

static void give_to_data(const struct gt_train *t, int i, const float *values)
{
	for (int64_t k = 0; k < count_of(t, i); k++)
		*gt_dataset_reference(dataset_of(t, i), k) = values[k];
}

/* ---- measuring ---- */

int gt_reference_plan(struct gt_train *t, struct gt_err *err)
{
	const struct gt_evaluate_options evaluation = gt_train_evaluation(t);

	if (!has_pairs(t) || t->resumes)
		return 0;
	gt_session_add_pair(&t->s, &t->references);
	return gt_evaluate_plan(&t->references, &t->s, t->data, &evaluation, err);
}

static int measure(struct gt_train *t, int i, struct gt_err *err)
{
	struct gt_evaluate_options evaluation = gt_train_evaluation(t);
	struct gt_metrics m;
	int rc;

	if (!count_of(t, i))
		return 0;
	evaluation.margins = alloc_for(t, i, err);
	rc = evaluation.margins ? 0 : GT_ENOMEM;
	if (!rc)
		rc = gt_evaluate(&t->s, i ? &t->evals : &t->references, dataset_of(t, i),
		    &evaluation, &m, NULL, err);
	if (!rc)
		give_to_data(t, i, evaluation.margins);
	free(evaluation.margins);
	return rc;
}

int gt_reference_measure(struct gt_train *t, struct gt_err *err)
{
	int rc;

	if (!has_pairs(t) || t->resumes)
		return 0;
	if (!gt_train_rank(t))
		gt_log_info(t->log, "measuring %lld pairs with the initial weights, the reference",
		    (long long)(count_of(t, 0) + count_of(t, 1)));
	rc = gt_parallel_refresh(t->s.parallel, err);
	if (!rc)
		rc = gt_parallel_share_buffers(t->s.parallel, err);
	for (int i = 0; !rc && i < SETS; i++)
		rc = measure(t, i, err);
	return rc;
}

/* ---- the file ---- */

static void find_checksums(int64_t out[SETS], const struct gt_train *t)
{
	for (int i = 0; i < SETS; i++)
		out[i] = dataset_of(t, i) ? gt_dataset_checksum(dataset_of(t, i)) : 0;
}

static int add_references(struct gt_tree *tree, const struct gt_train *t, int i,
    struct gt_arena *arena, struct gt_err *err)
{
	const int64_t count = count_of(t, i);
	float *values = gt_arena_alloc(arena, (size_t)count * sizeof(*values), err);

	for (int64_t k = 0; values && k < count; k++)
		values[k] = *gt_dataset_reference(dataset_of(t, i), k);
	return values ? gt_tree_set(tree, names[i],
	                    gt_tree_tensor(arena, GT_F32, 1, &count, values, err), arena, err)
	              : GT_ENOMEM;
}

static int write_file(const struct gt_train *t, const char *path, struct gt_err *err)
{
	const int64_t sets = SETS;
	int64_t checksums[SETS];
	struct gt_arena arena = { 0 };
	struct gt_tree *tree = gt_tree_dict(&arena, err);
	int rc = tree ? 0 : GT_ENOMEM;

	find_checksums(checksums, t);
	for (int i = 0; !rc && i < SETS; i++)
		rc = count_of(t, i) ? add_references(tree, t, i, &arena, err) : 0;
	if (!rc)
		rc = gt_tree_set(tree, "checksum",
		    gt_tree_tensor(&arena, GT_I64, 1, &sets, checksums, err), &arena, err);
	if (!rc)
		rc = gt_ckpt_write(path, "safetensors", tree, NULL, err);
	gt_arena_release(&arena);
	return rc;
}

int gt_reference_write(const struct gt_train *t, const struct gt_folder *folder, struct gt_err *err)
{
	char *path;
	int rc = 0;

	if (!has_pairs(t))
		return 0;
	path = gt_folder_path(folder, GT_RUN_REFERENCE, err);
	if (!path)
		return GT_ENOMEM;
	if (!t->resumes || !gt_file_exists((struct gt_file_name){ folder, path }))
		rc = write_file(t, path, err);
	free(path);
	return rc;
}

/* Set out[count] to a tensor of the file. */
static int read_tensor(const struct gt_tree *root, const char *name, enum gt_dtype dtype,
    int64_t count, void *out, struct gt_err *err)
{
	const struct gt_tree *t = gt_tree_get(root, name);

	if (!t || t->kind != GT_TREE_TENSOR || gt_ckpt_tensor_count(&t->tensor) != count)
		return gt_err_set(
		    err, GT_EFORMAT, "it has no '%s' of %lld numbers", name, (long long)count);
	return gt_ckpt_tensor_read(&t->tensor, dtype, out, err);
}

/* Another set of pairs would have the references of these. */
static int read_all(const struct gt_train *t, const struct gt_tree *root, float *const values[SETS],
    struct gt_err *err)
{
	int64_t theirs[SETS], own[SETS];
	int rc = read_tensor(root, "checksum", GT_I64, SETS, theirs, err);

	find_checksums(own, t);
	for (int i = 0; !rc && i < SETS; i++) {
		if (theirs[i] != own[i]) {
			gt_err_set(
			    err, GT_EINVAL, "it is of other pairs than those of {%s}", names[i]);
			return gt_err_hint(err,
			    "give {%s} as it was; {init-from} starts a new run from the weights",
			    names[i]);
		}
		if (count_of(t, i))
			rc = read_tensor(root, names[i], GT_F32, count_of(t, i), values[i], err);
	}
	return rc;
}

static int read_file(const struct gt_train *t, float *const values[SETS], struct gt_err *err)
{
	const struct gt_folder *folder = &t->ckpt.dir.folder;
	char *path = folder->path ? gt_folder_path(folder, GT_RUN_REFERENCE, err) : NULL;
	struct gt_ckpt *file = NULL;
	int rc;

	if (folder->path && !path)
		return GT_ENOMEM;
	if (!path || !gt_file_exists((struct gt_file_name){ folder, path })) {
		free(path);
		gt_err_set(err, GT_EINVAL, "{resume}: there is no %s of the run beside '%s'",
		    GT_RUN_REFERENCE, t->ckpt.path);
		return gt_err_hint(err, "{init-from} starts a new run from its weights");
	}
	rc = gt_ckpt_open_at(&file, (struct gt_file_name){ folder, path }, err);
	if (!rc) {
		rc = read_all(t, gt_ckpt_root(file), values, err);
		if (rc)
			gt_err_prefix(err, "'%s'", path);
	}
	gt_ckpt_close(file);
	free(path);
	return rc;
}

int gt_reference_read(struct gt_train *t, struct gt_err *err)
{
	float *values[SETS] = { NULL };
	int rc = 0;

	if (!has_pairs(t))
		return 0;
	for (int i = 0; !rc && i < SETS; i++) {
		values[i] = alloc_for(t, i, err);
		rc = values[i] ? 0 : GT_ENOMEM;
	}
	if (!rc && !gt_train_rank(t))
		rc = read_file(t, values, err);
	for (int i = 0; !rc && i < SETS; i++) {
		if (t->s.group && count_of(t, i))
			rc = gt_broadcast(t->s.group, values[i], count_of(t, i), GT_F32, 0, err);
		if (!rc)
			give_to_data(t, i, values[i]);
	}
	for (int i = 0; i < SETS; i++)
		free(values[i]);
	return rc;
}
