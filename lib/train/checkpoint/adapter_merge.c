/* adapter_merge.c - add an adapter to the weights of its layers. */
#include "lib/train/checkpoint/adapter_merge.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/tools/convert.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/model/lora.h"
#include "lib/train/checkpoint/adapter.h"
#include "lib/train/checkpoint/pretrained.h"

enum { PIECE = 4096 }; /* elements that are computed at a time */

/* A weight that is computed when it is read: W + left * right, where left is [rows, rank] and right
 * [rank, columns]. */
struct merged {
	const struct gt_tree_tensor *weight;
	const char *module;
	int64_t rank, columns;
	float *left, *right;
};

/* ---- numbers ---- */

/* Compute elements [first, first + count) of left * right, in the order of rows. */
static void multiply_piece(const struct merged *m, int64_t first, int64_t count, float *out)
{
	int64_t done = 0;

	while (done < count) {
		const int64_t row = (first + done) / m->columns,
		              column = (first + done) % m->columns;
		const int64_t rest = m->columns - column,
		              n = rest < count - done ? rest : count - done;

		memset(out + done, 0, (size_t)n * sizeof(*out));
		for (int64_t k = 0; k < m->rank; k++) {
			const float factor = m->left[row * m->rank + k];
			const float *from = m->right + k * m->columns + column;

			for (int64_t i = 0; i < n; i++)
				out[done + i] += factor * from[i];
		}
		done += n;
	}
}

/* Compute elements [first, first + count) of the merged weight. */
static int merge_piece(
    const struct merged *m, int64_t first, int64_t count, void *out, struct gt_err *err)
{
	const int64_t stride = 1;
	const size_t n = (size_t)count;
	float weight[PIECE], sum[PIECE];
	struct gt_tree_tensor part = *m->weight;
	bool finite;

	part.ndim = 1;
	part.shape = &count;
	part.stride = &stride;
	part.offset += first;
	if (gt_ckpt_tensor_read(&part, GT_F32, weight, err))
		return err->code;
	multiply_piece(m, first, count, sum);
	if (gt_cast(GT_F32, sum, part.dtype, out, n, err) ||
	    gt_cast(part.dtype, out, GT_F32, sum, n, err))
		return err->code;
	finite = gt_cast_finite(GT_F32, weight, n);
	for (int64_t i = 0; i < count; i++)
		weight[i] += sum[i];
	if (gt_cast(GT_F32, weight, part.dtype, out, n, err))
		return err->code;
	if (!finite || gt_cast_finite(part.dtype, out, n))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "the sum of '%.120s.weight' and the adapter is too large for %s", m->module,
	    gt_dtype_name(part.dtype));
}

static int read_merged(void *self, uint64_t offset, void *out, size_t bytes, struct gt_err *err)
{
	const struct merged *m = self;
	const size_t size = gt_dtype_size(m->weight->dtype);
	const int64_t first = (int64_t)(offset / size), count = (int64_t)(bytes / size);
	int rc = 0;

	for (int64_t i = 0; !rc && i < count; i += PIECE)
		rc = merge_piece(m, first + i, count - i < PIECE ? count - i : PIECE,
		    (char *)out + (size_t)i * size, err);
	return rc;
}

/* ---- tensors ---- */

struct merge {
	const struct gt_lora *lora;
	const struct gt_state_dict *adapter;
	bool transposed;  /* weights are [in, out] */
	const char *path; /* of the model */
	struct gt_arena *arena;
};

static const struct gt_tree_tensor *find_matrix(
    const struct merge *m, const char *module, bool is_b, char name[GT_LORA_WEIGHT_NAME])
{
	gt_lora_name_weight(name, module, is_b);
	return gt_state_dict_get(m->adapter, name);
}

/* Read a matrix of the adapter, transposed if the layers have weights [in, out], times a factor. */
static int read_matrix(float **out, const struct merge *m, const char *module, bool is_b,
    double factor, struct gt_err *err)
{
	char name[GT_LORA_WEIGHT_NAME];
	const struct gt_tree_tensor *t = find_matrix(m, module, is_b, name);
	const int64_t rows = t->shape[0], columns = t->shape[1];
	const size_t count = (size_t)(rows * columns);
	float *as_is = gt_calloc(count, sizeof(*as_is), err);
	int rc = as_is ? gt_ckpt_tensor_read(t, GT_F32, as_is, err) : GT_ENOMEM;

	if (!rc && !gt_cast_finite(GT_F32, as_is, count))
		rc = gt_err_set(err, GT_EFORMAT, "it holds NaN or Inf");
	*out = rc ? NULL : gt_arena_alloc(m->arena, count * sizeof(**out), err);
	for (int64_t i = 0; *out && i < rows; i++)
		for (int64_t k = 0; k < columns; k++)
			(*out)[m->transposed ? k * rows + i : i * columns + k] =
			    as_is[i * columns + k] * (float)factor;
	free(as_is);
	return *out ? 0 : gt_err_prefix(err, "the adapter's tensor '%s'", name);
}

static bool has_shape(const struct gt_tree_tensor *t, int64_t rows, int64_t columns)
{
	return t && t->ndim == 2 && t->shape[0] == rows && t->shape[1] == columns;
}

static bool is_contiguous(const struct gt_tree_tensor *t)
{
	return t->stride[1] == 1 && t->stride[0] == t->shape[1];
}

static int check_layer(const struct merge *m, const char *module, const struct gt_tree_tensor *w,
    const struct gt_tree_tensor *a, const struct gt_tree_tensor *b, struct gt_err *err)
{
	const bool t = m->transposed;

	if (w->ndim != 2 || !has_shape(a, m->lora->rank, w->shape[t ? 0 : 1]) ||
	    !has_shape(b, w->shape[t ? 1 : 0], m->lora->rank))
		return gt_err_set(err, GT_EFORMAT,
		    "the adapter's weights of '%.120s' do not fit to those of the layer", module);
	if (w->dtype != GT_F32 && w->dtype != GT_F16 && w->dtype != GT_BF16)
		return gt_err_set(err, GT_ENOTSUP, "'%.120s.weight' is of type %s", module,
		    gt_ckpt_tensor_type(w));
	return is_contiguous(w)
	           ? 0
	           : gt_err_set(err, GT_ENOTSUP,
	                 "the elements of '%.120s.weight' are not in the order of rows", module);
}

/* Replace the tensor of a layer by one that is computed. */
static int merge_layer(
    struct merge *m, const char *module, struct gt_tree *node, struct gt_err *err)
{
	char name[GT_LORA_WEIGHT_NAME];
	const struct gt_tree_tensor *a = find_matrix(m, module, false, name),
	                            *b = find_matrix(m, module, true, name), *w = &node->tensor;
	struct merged *merged = gt_arena_alloc(m->arena, sizeof(*merged), err);
	struct gt_tree *made;
	int rc = merged ? check_layer(m, module, w, a, b, err) : GT_ENOMEM;

	if (rc)
		return rc;
	*merged = (struct merged){ .module = gt_arena_strdup(m->arena, module, err),
		.rank = m->lora->rank,
		.columns = w->shape[1] };
	/* W is [out, in]: B A. W is [in, out]: the transposed A times the transposed B. */
	rc = read_matrix(&merged->left, m, module, !m->transposed, gt_lora_scale(m->lora), err);
	if (!rc)
		rc = read_matrix(&merged->right, m, module, m->transposed, 1, err);
	if (rc)
		return rc;
	made = gt_tree_tensor(m->arena, w->dtype, 2, w->shape, NULL, err);
	merged->weight = gt_arena_alloc(m->arena, sizeof(*w), err);
	if (!made || !merged->weight || !merged->module)
		return GT_ENOMEM;
	memcpy((void *)merged->weight, w, sizeof(*w));
	made->tensor.storage->read = read_merged;
	made->tensor.storage->self = merged;
	*node = *made;
	return 0;
}

/* The weights of a run that has an adapter say so, and would be taken for such a run's. */
static int check_plain(const struct gt_state_dict *sd, const char *path, struct gt_err *err)
{
	for (size_t i = 0; i < sd->count; i++) {
		if (!gt_lora_is_adapter(sd->entries[i].name, NULL, NULL))
			continue;
		gt_err_set(err, GT_EINVAL, "'%.200s' has an adapter of its own", path);
		return gt_err_hint(err, "name the weights that the adapter was trained for");
	}
	return 0;
}

/* Check that the adapter has each layer of the model that it says it has. */
static int check_whole(const struct merge *m, const struct gt_adapter *adapter,
    const struct gt_state_dict *sd, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < sd->count; i++) {
		char module[GT_LORA_NAME], name[GT_LORA_WEIGHT_NAME];

		gt_lora_name_trained(name, sd->entries[i].name);
		if (gt_lora_is_trained(m->lora, sd->entries[i].name, NULL, NULL))
			rc = gt_state_dict_get(m->adapter, name)
			         ? 0
			         : gt_err_set(err, GT_EFORMAT, "'%s' has no '%.120s'",
			               adapter->weights, name);
		else if (gt_lora_name_module(module, sd->entries[i].name) &&
		         !find_matrix(m, module, false, name))
			rc = gt_adapter_check_absent(
			    adapter, module, sd->entries[i].tensor->ndim, err);
	}
	return rc;
}

/* Merge a layer, which the state_dict must have. */
static int find_and_merge(
    struct merge *m, struct gt_tree *dict, const char *module, const char *path, struct gt_err *err)
{
	char name[GT_LORA_NAME + 16];
	struct gt_tree *node;

	snprintf(name, sizeof(name), "%s.weight", module);
	node = (struct gt_tree *)gt_tree_get(dict, name);
	if (node && node->kind == GT_TREE_TENSOR)
		return merge_layer(m, module, node, err);
	gt_err_set(err, GT_EFORMAT, "'%.200s' has no '%.200s', for which the adapter has weights",
	    path, name);
	return gt_err_hint(err, "is it the model that the adapter was trained for? `gtrain ckpt "
	                        "convert RUN --to hf` writes that of a run, whatever its names");
}

static bool same_shape(const struct gt_tree *node, const struct gt_tree_tensor *t)
{
	bool same = node && node->kind == GT_TREE_TENSOR && node->tensor.ndim == t->ndim;

	for (int i = 0; same && i < t->ndim; i++)
		same = node->tensor.shape[i] == t->shape[i];
	return same;
}

/* Return whether a language model in a folder has one table for the tokens that it reads and those
 * that it writes. */
static bool has_tied_tables(const char *path, const struct gt_tree *dict)
{
	json_t *config = NULL, *tied;
	const char *class;
	bool found = false;

	if (gt_pretrained_read_file(&config, path, "config.json", GT_ERR_IGNORED) || !config)
		return false;
	class = json_string_value(json_array_get(json_object_get(config, "architectures"), 0));
	tied = json_object_get(config, "tie_word_embeddings");
	if (class && strstr(class, "LM"))
		found = tied ? json_is_true(tied)
		             : !gt_tree_get(dict, "lm_head.weight") &&
		                   !gt_tree_get(dict, "embed_out.weight");
	json_decref(config);
	return found;
}

/* PEFT keeps two tables where the model has one: a trained one cannot take the place of both. */
static int check_table(const struct merge *m, const struct gt_tree *dict, const char *name,
    const struct gt_tree_tensor *t, struct gt_err *err)
{
	static const char *const tables[] = { "embed_tokens.weight", "wte.weight",
		"word_embeddings.weight", "embed_in.weight", "lm_head.weight", "embed_out.weight",
		"tok_embeddings.weight" };

	for (size_t i = 0; t->ndim == 2 && i < sizeof(tables) / sizeof(*tables); i++) {
		if (!gt_text_ends_with(name, tables[i]) || !has_tied_tables(m->path, dict))
			continue;
		gt_err_set(err, GT_ENOTSUP,
		    "the adapter trained '%s' as a table of its own, and the model uses it twice",
		    name);
		return gt_err_hint(err, "PEFT's merge_and_unload() makes a model with two tables");
	}
	return 0;
}

/* Put a parameter of a trained module in the place of the model's. The adapter's file is closed
 * before the weights are written, so it is copied. */
static int take_trained(const struct merge *m, const struct gt_tree *dict, const char *name,
    const char *path, const struct gt_tree_tensor *t, struct gt_err *err)
{
	struct gt_tree *node = (struct gt_tree *)gt_tree_get(dict, name), *made;
	enum gt_dtype type;
	int64_t count = 1;
	void *data;

	if (check_table(m, dict, name, t, err))
		return err->code;
	if (!same_shape(node, t)) {
		gt_err_set(err, GT_EFORMAT,
		    "'%.200s' has no '%.200s' of the shape that the adapter trained", path, name);
		return gt_err_hint(err, "`gtrain ckpt convert RUN --to hf` writes the model of a "
		                        "run with its adapter and its classes");
	}
	type = node->tensor.dtype;
	if (gt_dtype_is_float(t->dtype) != gt_dtype_is_float(type))
		return gt_err_set(err, GT_EFORMAT, "the adapter's tensor '%s' is of type %s", name,
		    gt_ckpt_tensor_type(t));
	for (int i = 0; i < t->ndim; i++)
		count *= t->shape[i];
	data = gt_arena_alloc(m->arena, (size_t)count * gt_dtype_size(type), err);
	made = data ? gt_tree_tensor(m->arena, type, t->ndim, t->shape, data, err) : NULL;
	if (made && !gt_ckpt_tensor_read(t, type, data, err) && gt_dtype_is_float(type) &&
	    !gt_cast_finite(type, data, (size_t)count))
		gt_err_set(err, GT_EFORMAT, "it holds NaN or Inf, or a number too large for %s",
		    gt_dtype_name(type));
	if (err->code)
		return gt_err_prefix(err, "the adapter's tensor '%s'", name);
	*node = *made;
	return 0;
}

static int merge_all(struct merge *m, struct gt_tree *dict, const char *path, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < m->adapter->count; i++) {
		const struct gt_state_entry *e = &m->adapter->entries[i];
		const char *trained = gt_lora_without_prefix(e->name);
		char module[GT_LORA_NAME];
		bool is_b = true;

		if (trained)
			rc = take_trained(m, dict, trained, path, e->tensor, err);
		else if (gt_lora_is_adapter(e->name, module, &is_b) && !is_b)
			rc = find_and_merge(m, dict, module, path, err);
	}
	return rc;
}

int gt_adapter_merge(struct gt_tree **out, const struct gt_tree *base, const char *path,
    const char *folder, struct gt_arena *arena, struct gt_err *err)
{
	struct gt_state_dict sd = { 0 }, weights = { 0 };
	struct gt_adapter adapter = { 0 };
	struct gt_ckpt *ckpt = NULL;
	struct gt_lora lora = { 0 };
	int rc = gt_adapter_open(&adapter, folder, err);

	if (!rc)
		rc = gt_lora_parse(&lora, adapter.spec, err);
	if (!rc)
		rc = gt_ckpt_open(&ckpt, adapter.weights, err);
	if (!rc)
		rc = gt_state_dict_find_as_is(&weights, gt_ckpt_root(ckpt), err);
	if (!rc)
		rc = gt_state_dict_find_as_is(&sd, base, err);
	if (!rc)
		rc = check_plain(&sd, path, err);
	*out = rc ? NULL : gt_convert_state_dict(&sd, arena, err);
	if (!rc && !*out)
		rc = GT_ENOMEM;
	if (!rc) {
		struct merge m = { .lora = &lora,
			.adapter = &weights,
			.transposed = adapter.transposed,
			.path = path,
			.arena = arena };

		rc = merge_all(&m, *out, path, err);
		if (!rc)
			rc = check_whole(&m, &adapter, &sd, err);
	}
	gt_state_dict_release(&sd);
	gt_state_dict_release(&weights);
	gt_ckpt_close(ckpt);
	gt_lora_release(&lora);
	gt_adapter_release(&adapter);
	return rc;
}
