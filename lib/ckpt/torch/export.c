/* export.c - read the archives (.pt2) of torch.export.save(), of PyTorch 2.9 and newer. */
#include "lib/ckpt/torch/export.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/index.h"
#include "lib/base/python_json.h"
#include "lib/base/text.h"
#include "lib/ckpt/torch/zip.h"
#include "lib/ckpt/tree/tree.h"

/*
 * The records of an archive, in which NAME is "model" unless the archive has several networks:
 *
 *   ROOT/models/NAME.json                          the graph (struct gt_exported)
 *   ROOT/data/weights/NAME_weights_config.json     the parameters and persistent buffers
 *   ROOT/data/weights/weight_0, weight_1, ...      the bytes of their storages
 *   ROOT/data/constants/NAME_constants_config.json the same for other tensors,
 *   ROOT/data/constants/tensor_0, ...              and their storages
 *
 * A config is a dict of tensors by name:
 *
 *   {"config": {"fc.weight": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {
 *       "dtype": 7, "sizes": [{"as_int": 8}], "strides": [{"as_int": 1}],
 *       "storage_offset": {"as_int": 0}, "requires_grad": true, ...}, ...}, ...}}
 *
 * Two names with one storage are tied weights, or parts of one tensor. PyTorch before 2.9 wrote
 * archives of other forms. Source: torch/export/pt2_archive/_package.py and constants.py,
 * torch/_export/serde/schema.py, PyTorch 2.15.
 */

enum { MAX_TENSORS = 1 << 20 };

/* The numbers of ScalarType in torch/_export/serde/schema.py. */
static const struct {
	int number;
	enum gt_dtype dtype;
} types[] = {
	{ 1, GT_U8 },
	{ 2, GT_I8 },
	{ 3, GT_I16 },
	{ 4, GT_I32 },
	{ 5, GT_I64 },
	{ 6, GT_F16 },
	{ 7, GT_F32 },
	{ 8, GT_F64 },
	{ 10, GT_C64 },
	{ 11, GT_C128 },
	{ 12, GT_BOOL },
	{ 13, GT_BF16 },
	{ 28, GT_U16 },
	{ 29, GT_F8_E4M3 },
	{ 30, GT_F8_E5M2 },
};

/* ---- the tensors ---- */

static bool read_int(const json_t *number, int64_t *out)
{
	const json_t *value = json_object_get(number, "as_int");

	*out = json_integer_value(value);
	return json_is_integer(value);
}

static bool read_ints(const json_t *list, int ndim, int64_t *out)
{
	if (json_array_size(list) != (size_t)ndim)
		return false;
	for (int i = 0; i < ndim; i++)
		if (!read_int(json_array_get(list, (size_t)i), &out[i]))
			return false;
	return true;
}

bool gt_exported_dtype(int number, enum gt_dtype *out)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (number == types[i].number) {
			*out = types[i].dtype;
			return true;
		}
	return false;
}

int gt_exported_number(enum gt_dtype dtype)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (types[i].dtype == dtype)
			return types[i].number;
	return 0;
}

static int read_type(const json_t *meta, enum gt_dtype *out, struct gt_err *err)
{
	const json_t *number = json_object_get(meta, "dtype");
	json_int_t value = json_integer_value(number);

	if (json_is_integer(number) && value == (int)value && gt_exported_dtype((int)value, out))
		return 0;
	return gt_err_set(
	    err, GT_ENOTSUP, "a tensor of type %lld, which gtrain does not know", (long long)value);
}

/* The tensor that `meta` describes, without a storage. */
static struct gt_tree *describe_tensor(
    const json_t *meta, struct gt_arena *arena, struct gt_err *err)
{
	const json_t *sizes = json_object_get(meta, "sizes");
	struct gt_tree *node = gt_tree_new(arena, GT_TREE_TENSOR, err);
	int ndim = (int)json_array_size(sizes);
	int64_t *dims;

	if (!node)
		return NULL;
	if (json_array_size(sizes) > GT_TREE_MAX_DIMS) {
		gt_err_set(err, GT_ENOTSUP, "more than %d dimensions", GT_TREE_MAX_DIMS);
		return NULL;
	}
	dims = gt_arena_alloc(arena, 2 * (size_t)ndim * sizeof(*dims), err);
	if (!dims || read_type(meta, &node->tensor.dtype, err))
		return NULL;
	node->tensor.ndim = ndim;
	node->tensor.shape = dims;
	node->tensor.stride = dims + ndim;
	node->tensor.requires_grad = json_is_true(json_object_get(meta, "requires_grad"));
	if (read_ints(sizes, ndim, dims) &&
	    read_ints(json_object_get(meta, "strides"), ndim, dims + ndim) &&
	    read_int(json_object_get(meta, "storage_offset"), &node->tensor.offset))
		return node;
	gt_err_set(err, GT_EFORMAT, "sizes, strides and offset are not whole numbers");
	return NULL;
}

struct named_storage {
	/* its record in the part's folder; must be first for gt_index_by_name */
	const char *name;
	struct gt_storage storage;
};

/* One of the two folders of tensors. */
struct part {
	struct gt_torch_archive *archive;
	const char *name; /* "weights" or "constants" */
	struct gt_tree *dict;
	struct gt_index storages; /* struct named_storage; tied tensors share one */
};

/* The storage in the record `name` of the part's folder; NULL with err set. */
static struct gt_storage *find_storage(struct part *p, const char *name, struct gt_err *err)
{
	struct named_storage *s = gt_index_find(&p->storages, &name);
	const struct gt_zip_record *r;
	char path[512];

	if (s)
		return &s->storage;
	snprintf(path, sizeof(path), "data/%s/%s", p->name, name);
	r = gt_torch_archive_find(p->archive, path);
	if (!r) {
		gt_err_set(err, GT_EFORMAT, "there is no record '%.200s'", path);
		return NULL;
	}
	s = gt_arena_alloc(p->archive->arena, sizeof(*s), err);
	if (!s || gt_zip_storage(&p->archive->zip, r, p->archive->arena, &s->storage, err))
		return NULL;
	s->name = gt_arena_strdup(p->archive->arena, name, err);
	s->storage.key = s->name;
	s->storage.location = "cpu";
	s->storage.swapped = p->archive->swapped;
	return s->name && gt_index_add(&p->storages, s, err) ? &s->storage : NULL;
}

static int add_tensor(struct part *p, const char *name, const json_t *row, struct gt_err *err)
{
	const char *record = json_string_value(json_object_get(row, "path_name"));
	struct gt_arena *arena = p->archive->arena;
	struct gt_tree *key, *node;

	if (!record || !json_object_get(row, "tensor_meta"))
		return gt_err_set(
		    err, GT_EFORMAT, "its row has no %s", record ? "tensor_meta" : "path_name");
	if (json_is_true(json_object_get(row, "use_pickle")))
		return gt_err_set(err, GT_ENOTSUP,
		    "a tensor of a class of its own, or another object, which is a pickle");
	node = describe_tensor(json_object_get(row, "tensor_meta"), arena, err);
	if (!node)
		return err->code;
	node->tensor.parameter = json_is_true(json_object_get(row, "is_param"));
	node->tensor.storage = find_storage(p, record, err);
	if (!node->tensor.storage || gt_ckpt_tensor_check(&node->tensor, err))
		return err->code;
	key = gt_tree_bytes(arena, name, strlen(name), err);
	return key ? gt_tree_push(p->dict, key, node, arena, err) : GT_ENOMEM;
}

static int read_json(
    struct gt_torch_archive *a, const struct gt_zip_record *r, json_t **out, struct gt_err *err)
{
	const unsigned char *bytes;
	json_error_t why;
	int rc = gt_zip_open_record(&a->zip, r, a->arena, &bytes, err);

	if (rc)
		return rc;
	*out = gt_python_json_loadb((const char *)bytes, r->size, JSON_REJECT_DUPLICATES, &why);
	return *out ? 0
	            : gt_err_set(err, GT_EFORMAT, "record '%s': JSON: %.120s", r->name, why.text);
}

/* Read the tensors of one folder. An archive without constants may lack theirs. */
static int read_part(struct part *p, const char *config, bool optional, struct gt_err *err)
{
	const struct gt_zip_record *r = gt_torch_archive_find(p->archive, config);
	json_t *json = NULL, *row;
	const char *name;
	int rc = 0;

	p->dict = gt_tree_new(p->archive->arena, GT_TREE_DICT, err);
	p->storages.compare = gt_index_by_name;
	if (!p->dict)
		rc = GT_ENOMEM;
	else if (r)
		rc = read_json(p->archive, r, &json, err);
	else if (!optional)
		rc = gt_err_set(err, GT_EFORMAT, "there is no record '%s'", config);
	if (!rc && r && !json_is_object(json_object_get(json, "config")))
		rc = gt_err_set(err, GT_EFORMAT, "record '%s' has no dict 'config'", r->name);
	if (!rc && json_object_size(json_object_get(json, "config")) > MAX_TENSORS)
		rc = gt_err_set(err, GT_ENOTSUP, "more than %d tensors", MAX_TENSORS);
	if (!rc)
		json_object_foreach(json_object_get(json, "config"), name, row)
		{
			rc = add_tensor(p, name, row, err);
			if (rc) {
				gt_err_prefix(err, "'%.200s'", name);
				break;
			}
		}
	gt_index_release(&p->storages);
	json_decref(json);
	return rc;
}

/* ---- the whole ---- */

/* Find ROOT, and the record of the graph: ROOT/models/NAME.json. */
static int find_graph(
    struct gt_torch_archive *a, const struct gt_zip_record **graph, struct gt_err *err)
{
	*graph = NULL;
	for (size_t i = 0; i < a->zip.count; i++) {
		const struct gt_zip_record *r = &a->zip.records[i];
		const char *folder = strstr(r->name, "/models/");

		if (!folder || !gt_text_ends_with(r->name, ".json"))
			continue;
		if (*graph) {
			gt_err_set(err, GT_ENOTSUP,
			    "several networks in one archive: '%.80s', '%.80s'", (*graph)->name,
			    r->name);
			return gt_err_hint(err, "save one network with torch.export.save()");
		}
		*graph = r;
		a->root = r->name;
		a->root_length = (int)(folder - r->name);
	}
	if (*graph)
		return 0;
	gt_err_set(err, GT_ENOTSUP, "a program of torch.export, in the form of PyTorch before 2.9");
	return gt_err_hint(err, "export the network again with PyTorch 2.9 or newer");
}

/* The path of the config of a part, which begins with the name of the graph. */
static void name_config(char path[512], const struct gt_torch_archive *a,
    const struct gt_zip_record *graph, const char *part)
{
	const char *name = graph->name + a->root_length + strlen("/models/");

	snprintf(path, 512, "data/%s/%.*s_%s_config.json", part,
	    (int)(strlen(name) - strlen(".json")), name, part);
}

bool gt_torch_export_is(const struct gt_zip *zip)
{
	for (size_t i = 0; i < zip->count; i++)
		if (gt_text_ends_with(zip->records[i].name, "/archive_format") ||
		    gt_text_ends_with(zip->records[i].name, "serialized_exported_program.json"))
			return true;
	return false;
}

int gt_torch_export_open(struct gt_ckpt *ckpt, struct gt_torch_archive *a, struct gt_err *err)
{
	struct part weights = { .archive = a, .name = "weights" };
	struct part constants = { .archive = a, .name = "constants" };
	struct gt_exported *exported = gt_arena_alloc(a->arena, sizeof(*exported), err);
	struct gt_torch_archive *archive = gt_arena_alloc(a->arena, sizeof(*archive), err);
	const struct gt_zip_record *graph;
	const unsigned char *text;
	char path[512];
	int rc = exported && archive ? find_graph(a, &graph, err) : GT_ENOMEM;

	if (!rc)
		rc = gt_torch_archive_byteorder(a, err);
	if (!rc) {
		name_config(path, a, graph, weights.name);
		rc = read_part(&weights, path, false, err);
	}
	if (!rc) {
		name_config(path, a, graph, constants.name);
		rc = read_part(&constants, path, true, err);
	}
	if (!rc)
		rc = gt_zip_open_record(&a->zip, graph, a->arena, &text, err);
	if (rc)
		return rc;
	*archive = *a;
	*exported =
	    (struct gt_exported){ (const char *)text, graph->size, constants.dict, archive };
	ckpt->format = &gt_format_torch_export;
	ckpt->exported = exported;
	ckpt->root = weights.dict;
	return 0;
}

const struct gt_exported *gt_ckpt_exported(const struct gt_ckpt *ckpt)
{
	return ckpt->exported;
}
