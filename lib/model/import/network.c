/* network.c - read the JSON of a network: its weights, its input and its output. */
#include "lib/model/import/network.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/python_json.h"
#include "lib/base/text.h"
#include "lib/model/import/lower.h"

enum {
	SCHEMA = 8, /* major version of torch/_export/serde/schema.py */
	MIN_OPSET = 13,
	MAX_OPSET = 23
};

/* ---- what is expected of the file ---- */

static int check_opset(const struct gt_network *n, struct gt_err *err)
{
	if (n->opset >= MIN_OPSET && n->opset <= MAX_OPSET)
		return 0;
	gt_err_set(err, GT_ENOTSUP, "a model of ONNX's opset %d, and gtrain reads %d to %d",
	    n->opset, MIN_OPSET, MAX_OPSET);
	return gt_err_hint(err, "export it with opset_version=20, or convert it with "
	                        "onnx.version_converter.convert_version(model, 20)");
}

static int check_network_version(const struct gt_network *n, struct gt_err *err)
{
	const json_t *major = json_object_get(json_object_get(n->json, "schema_version"), "major");
	const json_t *level = json_array_get(json_object_get(n->json, "verifiers"), 0);

	if (n->is_onnx)
		return check_opset(n, err);
	if (json_integer_value(major) != SCHEMA) {
		gt_err_set(err, GT_ENOTSUP,
		    "a network in version %lld of torch.export's format, not %d",
		    (long long)json_integer_value(major), SCHEMA);
		return gt_err_hint(err, "export it with PyTorch 2.9 or newer");
	}
	if (!json_is_string(level) || strcmp(json_string_value(level), "TRAINING") != 0) {
		gt_err_set(err, GT_ENOTSUP, "a network that was decomposed after its export");
		return gt_err_hint(
		    err, "save the result of torch.export.export(), without run_decompositions()");
	}
	return 0;
}

static int find_lists(struct gt_network *n, struct gt_err *err)
{
	const json_t *graph = json_object_get(json_object_get(n->json, "graph_module"), "graph");

	n->nodes = json_object_get(graph, "nodes");
	n->values = json_object_get(graph, "tensor_values");
	n->sizes = json_object_get(graph, "sym_int_values");
	if (json_is_array(n->nodes) && json_is_object(n->values))
		return 0;
	return gt_err_set(err, GT_EFORMAT, "a graph without nodes or tensor_values");
}

static int read_network_json(struct gt_network *n, struct gt_err *err)
{
	const struct gt_exported *exported = gt_ckpt_exported(n->ckpt);
	const json_t *opset;
	json_error_t why;

	if (!exported) {
		gt_err_set(
		    err, GT_ENOTSUP, "a checkpoint (%s), not a network", gt_ckpt_format(n->ckpt));
		return gt_err_hint(err,
		    "export the module: torch.export.save(torch.export.export(module, (example,)), "
		    "'net.pt2'); see EXPORTED NETWORKS in gtrain-models(7)");
	}
	n->json = gt_python_json_loadb(
	    exported->graph, exported->graph_bytes, JSON_REJECT_DUPLICATES, &why);
	if (!n->json)
		return gt_err_set(err, GT_EFORMAT, "the graph: JSON: %.120s", why.text);
	opset = json_object_get(json_object_get(n->json, "graph_module"), "opset");
	n->is_onnx = opset != NULL;
	n->opset = (int)json_integer_value(opset);
	return 0;
}

/* ---- inputs and outputs ---- */

static const char *tensor_name(const json_t *argument)
{
	return json_string_value(json_object_get(json_object_get(argument, "as_tensor"), "name"));
}

const char *gt_network_input(const struct gt_network *n, enum gt_network_role role)
{
	for (int i = 0; i < n->input_count; i++)
		if (n->inputs[i].role == role)
			return n->inputs[i].name;
	return NULL;
}

/* The kinds of inputs that are tensors of the archive. */
static const struct {
	const char *spec, *name_key; /* keys in input_specs */
	enum gt_network_kind kind;
} tensor_specs[] = {
	{ "parameter", "parameter_name", GT_NETWORK_PARAMETER },
	{ "buffer", "buffer_name", GT_NETWORK_BUFFER },
	{ "tensor_constant", "tensor_constant_name", GT_NETWORK_CONSTANT },
};

/* The tensors of the archive by their names, and the parameters of the network by their elements:
 * networks may have many. */
struct tensor_indexes {
	struct gt_index weights, constants; /* struct gt_tree_item */
	struct gt_index parameters;         /* struct gt_network_tensor */
};

static int compare_keys(const void *a, const void *b)
{
	const struct gt_tree *x = ((const struct gt_tree_item *)a)->key,
	                     *y = ((const struct gt_tree_item *)b)->key;
	const size_t m = x->string.length, n = y->string.length;
	int order = memcmp(x->string.bytes, y->string.bytes, m < n ? m : n);

	return order ? order : (m > n) - (m < n);
}

static int compare_elements(const void *a, const void *b)
{
	const struct gt_tree_tensor *x = ((const struct gt_network_tensor *)a)->tensor,
	                            *y = ((const struct gt_network_tensor *)b)->tensor;
	const size_t dims = (size_t)x->ndim * sizeof(*x->shape);
	int order;

	if (x->storage != y->storage)
		return (uintptr_t)x->storage < (uintptr_t)y->storage ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (x->dtype != y->dtype || x->ndim != y->ndim)
		return x->dtype != y->dtype ? (int)x->dtype - (int)y->dtype : x->ndim - y->ndim;
	order = dims ? memcmp(x->shape, y->shape, dims) : 0;
	return order || !dims ? order : memcmp(x->stride, y->stride, dims);
}

static int index_dict(struct gt_index *out, const struct gt_tree *dict, struct gt_err *err)
{
	out->compare = compare_keys;
	if (!dict || dict->kind != GT_TREE_DICT)
		return 0;
	for (size_t i = 0; i < dict->seq.count; i++) {
		const struct gt_tree_item *item = &dict->seq.items[i];

		if (item->key->kind == GT_TREE_STRING && item->value->kind == GT_TREE_TENSOR &&
		    !gt_index_add(out, item, err))
			return GT_ENOMEM;
	}
	return 0;
}

static const struct gt_tree *find_tree(const struct gt_index *index, const char *name)
{
	const struct gt_tree key = { .kind = GT_TREE_STRING, .string = { name, strlen(name) } };
	const struct gt_tree_item like = { .key = &key }, *found = gt_index_find(index, &like);

	return found ? found->value : NULL;
}

static int add_network_tensor(struct gt_network *n, struct tensor_indexes *x, const char *argument,
    const char *name, enum gt_network_kind kind, struct gt_err *err)
{
	struct gt_network_tensor *t = &n->tensors[n->tensor_count++];
	const struct gt_tree *tree = find_tree(&x->weights, name);
	const struct gt_network_tensor *first;

	if (kind == GT_NETWORK_CONSTANT || !tree) {
		tree = find_tree(&x->constants, name);
		kind = GT_NETWORK_CONSTANT;
	}
	if (!tree)
		return gt_err_set(err, GT_EFORMAT, "the archive has no tensor '%.200s'", name);
	*t = (struct gt_network_tensor){
		.argument = argument, .name = name, .tensor = &tree->tensor, .kind = kind
	};
	if (kind != GT_NETWORK_PARAMETER)
		return 0;
	first = gt_index_add(&x->parameters, t, err);
	t->same = first != t ? first : NULL;
	return first ? 0 : GT_ENOMEM;
}

static int add_user_input(struct gt_network *n, const json_t *spec, struct gt_err *err)
{
	const char *name = tensor_name(json_object_get(spec, "arg"));
	int dtype;

	if (!name)
		return 0; /* a number or None, which the export has put into the graph */
	if (!json_array_size(gt_network_value(n, name, &dtype))) {
		gt_err_set(err, GT_ENOTSUP,
		    "the input '%.200s' has no dimensions, of which the first is the batch", name);
		return gt_err_hint(err, "export the module with a number in its place");
	}
	if (n->input_count == GT_MAX_FIELDS)
		return gt_err_set(
		    err, GT_ENOTSUP, "the network takes more than %d tensors", GT_MAX_FIELDS);
	if (strlen(name) >= GT_FIELD_NAME)
		return gt_err_set(err, GT_ENOTSUP,
		    "the input '%.200s' has a name of more than %d bytes", name, GT_FIELD_NAME - 1);
	n->inputs[n->input_count++] = (struct gt_network_input){ .name = name };
	return 0;
}

static int read_input_spec(
    struct gt_network *n, struct tensor_indexes *x, const json_t *spec, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(tensor_specs) / sizeof(*tensor_specs); i++) {
		const json_t *row = json_object_get(spec, tensor_specs[i].spec);
		const char *argument =
		    json_string_value(json_object_get(json_object_get(row, "arg"), "name"));
		const char *name =
		    json_string_value(json_object_get(row, tensor_specs[i].name_key));

		if (!row)
			continue;
		if (!argument || !name)
			return gt_err_set(err, GT_EFORMAT, "an input of the graph without a name");
		return add_network_tensor(n, x, argument, name, tensor_specs[i].kind, err);
	}
	if (json_object_get(spec, "user_input"))
		return add_user_input(n, json_object_get(spec, "user_input"), err);
	if (json_object_get(spec, "constant_input"))
		return 0;
	return gt_err_set(err, GT_ENOTSUP, "an input of the graph that is no tensor");
}

/* Two weights with one name would be one in a checkpoint. */
static int check_names(const struct gt_network *n, struct gt_err *err)
{
	json_t *names = json_object();
	int rc = names ? 0 : GT_ENOMEM;

	for (size_t i = 0; i < n->tensor_count && !rc; i++) {
		const char *name = n->tensors[i].name;

		if (json_object_get(names, name))
			rc = gt_err_set(
			    err, GT_EFORMAT, "two inputs of the graph are '%.200s'", name);
		else if (json_object_set_new(names, name, json_true()))
			rc = gt_err_set(err, GT_ENOMEM, "no memory for the names of weights");
	}
	json_decref(names);
	return rc;
}

static int read_inputs(struct gt_network *n, const json_t *signature, struct gt_err *err)
{
	const json_t *specs = json_object_get(signature, "input_specs"), *spec;
	struct tensor_indexes x = { .parameters.compare = compare_elements };
	int rc = index_dict(&x.weights, gt_ckpt_root(n->ckpt), err);
	size_t i;

	if (!rc)
		rc = index_dict(&x.constants, gt_ckpt_exported(n->ckpt)->constants, err);
	n->tensors = gt_calloc(json_array_size(specs), sizeof(*n->tensors), err);
	if (!n->tensors)
		rc = GT_ENOMEM;
	json_array_foreach(specs, i, spec) if (!rc) rc = read_input_spec(n, &x, spec, err);
	gt_index_release(&x.weights);
	gt_index_release(&x.constants);
	gt_index_release(&x.parameters);
	if (!rc)
		rc = check_names(n, err);
	if (!rc && !n->input_count)
		rc = gt_err_set(err, GT_ENOTSUP, "the network takes no tensor as its data");
	return rc;
}

/* ---- aliases and dropout ---- */

static int list_aliases(struct gt_network *n, struct gt_err *err)
{
	size_t count = 0;

	n->aliases = gt_calloc(n->tensor_count + 1, sizeof(*n->aliases), err);
	if (!n->aliases)
		return GT_ENOMEM;
	for (size_t i = 0; i < n->tensor_count; i++)
		if (n->tensors[i].same)
			n->aliases[count++] = (struct gt_model_alias){ n->tensors[i].name,
				n->tensors[i].same->name, true };
	return 0;
}

/* Return the probability to drop that an argument is: `p` of a dropout, `dropout_p` of attention,
 * `dropout` of a recurrent network, or what is left by `p` of a draw of paths to keep. */
static double read_probability(const char *target, const json_t *input)
{
	const char *name = json_string_value(json_object_get(input, "name"));
	double p = json_number_value(json_object_get(json_object_get(input, "arg"), "as_float"));

	if (!name || !target)
		return 0;
	if (!strcmp(name, "p") && strstr(target, "bernoulli"))
		return 1 - p;
	if (!strcmp(name, "dropout_p") || !strcmp(name, "dropout") ||
	    (!strcmp(name, "p") && strstr(target, "dropout")))
		return p;
	return 0;
}

/* Count an argument that tells the mode of the module at the export. */
static void count_mode(struct gt_network *n, const json_t *input)
{
	const char *name = json_string_value(json_object_get(input, "name"));
	const json_t *mode = json_object_get(json_object_get(input, "arg"), "as_bool");

	if (!name || !mode || (strcmp(name, "train") != 0 && strcmp(name, "training") != 0))
		return;
	if (json_is_true(mode))
		n->training++;
	else
		n->evaluating++;
}

static void find_dropout(struct gt_network *n)
{
	const json_t *node, *input;
	size_t i, k;

	json_array_foreach(n->nodes, i, node)
	{
		const char *target = json_string_value(json_object_get(node, "target"));

		json_array_foreach(json_object_get(node, "inputs"), k, input)
		{
			double p = read_probability(target, input);

			count_mode(n, input);
			if (p > n->dropout)
				n->dropout = p;
		}
	}
}

const json_t *gt_network_value(const struct gt_network *n, const char *name, int *dtype)
{
	const json_t *value = json_object_get(n->values, name);

	*dtype = (int)json_integer_value(json_object_get(value, "dtype"));
	return json_object_get(value, "sizes");
}

static int read_network(struct gt_network *n, struct gt_err *err)
{
	const json_t *signature;
	int rc = read_network_json(n, err);

	if (!rc)
		rc = check_network_version(n, err);
	if (!rc)
		rc = find_lists(n, err);
	if (rc)
		return rc;
	signature = json_object_get(json_object_get(n->json, "graph_module"), "signature");
	rc = read_inputs(n, signature, err);
	if (!rc)
		rc = gt_network_read_outputs(n, err);
	gt_network_choose_target(n);
	if (!rc)
		rc = list_aliases(n, err);
	if (!rc)
		find_dropout(n);
	return !rc && n->is_onnx ? gt_lower_examine(n, err) : rc;
}

int gt_network_open(struct gt_network **out, const char *path, struct gt_err *err)
{
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open(&ckpt, path, err);

	*out = NULL;
	return rc ? rc : gt_network_of(out, ckpt, path, err);
}

int gt_network_of(
    struct gt_network **out, struct gt_ckpt *ckpt, const char *path, struct gt_err *err)
{
	struct gt_network *n = gt_calloc(1, sizeof(*n), err);
	const char *slash = strrchr(path, '/');
	int rc;

	*out = NULL;
	if (!n) {
		gt_ckpt_close(ckpt);
		return GT_ENOMEM;
	}
	n->ckpt = ckpt;
	n->file = gt_arena_strdup(&n->arena, slash ? slash + 1 : path, err);
	rc = n->file ? read_network(n, err) : GT_ENOMEM;
	if (rc)
		gt_err_prefix(err, "'%s'", path);
	if (rc)
		gt_network_close(n);
	else
		*out = n;
	return rc;
}

bool gt_network_is_path(const char *spec)
{
	return gt_text_ends_with(spec, ".pt2") || gt_text_ends_with(spec, ".onnx");
}

void gt_network_keep_patterns(struct gt_network *n)
{
	n->keep_patterns = true;
}

double gt_network_dropout(const struct gt_network *n)
{
	return n->dropout;
}

bool gt_network_computes_loss(const struct gt_network *n)
{
	return n->loss != NULL;
}

int gt_network_folded_norms(const struct gt_network *n)
{
	return n->folded_norms;
}

bool gt_network_was_evaluating(const struct gt_network *n)
{
	return n->evaluating && !n->training;
}

const char *gt_network_last_function(const struct gt_network *n)
{
	const char *aten = "torch.ops.aten.", *last = NULL;
	const json_t *node;
	size_t i;

	json_array_foreach(n->nodes, i, node)
	{
		const char *target = json_string_value(json_object_get(node, "target"));
		const char *result =
		    tensor_name(json_array_get(json_object_get(node, "outputs"), 0));

		if (target && result && !strcmp(result, n->output))
			last = target;
	}
	if (last && n->is_onnx)
		last = gt_lower_function(last);
	return last && !strncmp(last, aten, strlen(aten)) ? last + strlen(aten) : last;
}

const char *gt_network_file(const struct gt_network *n)
{
	return n->file;
}

bool gt_network_same(const struct gt_network *a, const struct gt_network *b)
{
	const struct gt_exported *x = gt_ckpt_exported(a->ckpt), *y = gt_ckpt_exported(b->ckpt);

	return x->graph_bytes == y->graph_bytes && !memcmp(x->graph, y->graph, x->graph_bytes);
}

const struct gt_model_alias *gt_network_aliases(const struct gt_network *n)
{
	return n->aliases;
}

void gt_network_close(struct gt_network *n)
{
	if (!n)
		return;
	free(n->aliases);
	free(n->tensors);
	json_decref(n->json);
	gt_ckpt_close(n->ckpt);
	gt_arena_release(&n->arena);
	free(n);
}
