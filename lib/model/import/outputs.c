/* outputs.c - what a network returns: its scores, or the loss that it computes itself. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/python_json.h"
#include "lib/model/import/network.h"

/*
 * The module's forward() returns a tensor, a tuple, or a dict (of Hugging Face a dataclass that is
 * one). The file lists the tensors in output_specs, and their names in a text of JSON, out_spec:
 *
 *   [1, {"type": "builtins.dict", "context": "[\"loss\", \"logits\"]",
 *        "children_spec": [{"type": null, ...}, {"type": null, ...}]}]
 *
 * A child that is a tuple has children of its own. Leaves are numbered as in output_specs.
 *
 * The loss is the output with the name "loss", else the first output if it is one number, else the
 * only output that is one number. Source: torch/utils/_pytree.py, PyTorch 2.15.
 */

/* Return whether a value is a number of floating point, which has no dimensions. */
static bool is_loss_value(const struct gt_network *n, const char *name)
{
	enum gt_dtype dtype;
	int number;
	const json_t *sizes = gt_network_value(n, name, &number);

	return json_is_array(sizes) && !json_array_size(sizes) &&
	       gt_exported_dtype(number, &dtype) && gt_dtype_is_float(dtype);
}

/* Parse a text of JSON within the file's JSON; NULL: it is none. */
static json_t *parse_inner(const json_t *text)
{
	json_error_t why;

	return json_is_string(text) ? gt_python_json_loadb(json_string_value(text),
	                                  json_string_length(text), 0, &why)
	                            : NULL;
}

/* A leaf has no type. An empty tuple or dict has one, and no leaves. */
static size_t count_leaves(const json_t *spec)
{
	const json_t *children = json_object_get(spec, "children_spec"), *child;
	size_t count = 0, i;

	if (!json_is_string(json_object_get(spec, "type")))
		return 1;
	json_array_foreach(children, i, child) count += count_leaves(child);
	return count;
}

/* Return the number of the leaf with the key "loss", SIZE_MAX if there is none. */
static size_t find_loss_leaf(const json_t *spec)
{
	const json_t *children = json_object_get(spec, "children_spec");
	json_t *keys = parse_inner(json_object_get(spec, "context"));
	size_t leaf = 0, i;
	bool found = false;

	for (i = 0; i < json_array_size(keys) && !found; i++) {
		const char *key = json_string_value(json_array_get(keys, i));

		found = key && !strcmp(key, "loss");
		leaf += found ? 0 : count_leaves(json_array_get(children, i));
	}
	json_decref(keys);
	return found ? leaf : SIZE_MAX;
}

static size_t find_named_loss(const struct gt_network *n)
{
	const json_t *calls =
	    json_object_get(json_object_get(n->json, "graph_module"), "module_call_graph");
	const json_t *signature = json_object_get(json_array_get(calls, 0), "signature");
	json_t *spec = parse_inner(json_object_get(signature, "out_spec"));
	size_t leaf = find_loss_leaf(json_array_get(spec, 1));

	json_decref(spec);
	return leaf;
}

int gt_network_read_outputs(struct gt_network *n, struct gt_err *err)
{
	const json_t *signature =
	    json_object_get(json_object_get(n->json, "graph_module"), "signature");
	const json_t *specs = json_object_get(signature, "output_specs"), *spec;
	size_t i, leaf = 0, named = find_named_loss(n), numbers = 0;
	const char *first = NULL, *number = NULL; /* output, and output that is a number */

	json_array_foreach(specs, i, spec)
	{
		const json_t *output = json_object_get(spec, "user_output");
		const json_t *tensor = json_object_get(json_object_get(output, "arg"), "as_tensor");
		const char *name = json_string_value(json_object_get(tensor, "name"));
		bool is_number = name && is_loss_value(n, name);

		if (name && !n->output_count++)
			first = name;
		if (name && !is_number && !n->output)
			n->output = name;
		if (is_number && !numbers++)
			number = name;
		if (is_number && leaf == named)
			n->loss = name;
		leaf += output != NULL;
	}
	if (!n->loss && (numbers == 1 || first == number))
		n->loss = number;
	n->output = n->output ? n->output : first;
	return first ? 0 : gt_err_set(err, GT_ENOTSUP, "the network returns no tensor");
}
