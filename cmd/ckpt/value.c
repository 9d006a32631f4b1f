/* value.c - values of a checkpoint as the ckpt commands print them. */
#include "cmd/ckpt/value.h"

#include <inttypes.h>
#include <string.h>

#include "cmd/json_out.h"
#include "lib/base/text.h"

/* ---- text ---- */

void gt_ckpt_print_dims(char out[GT_CKPT_DIMS_SIZE], const int64_t *dims, int n)
{
	size_t at = (size_t)snprintf(out, GT_CKPT_DIMS_SIZE, "[");

	for (int i = 0; i < n; i++)
		at += (size_t)snprintf(
		    out + at, GT_CKPT_DIMS_SIZE - at, "%s%" PRId64, i ? ", " : "", dims[i]);
	snprintf(out + at, GT_CKPT_DIMS_SIZE - at, "]");
}

static size_t print_list(char *out, size_t size, const struct gt_tree *node)
{
	bool tuple = node->kind == GT_TREE_TUPLE;
	size_t at = (size_t)snprintf(out, size, tuple ? "(" : "["), i = 0;

	for (; i < node->seq.count && at + 24 < size; i++) {
		at += (size_t)snprintf(out + at, size - at, i ? ", " : "");
		at += gt_ckpt_print_value(out + at, size - at - 20, node->seq.items[i].value);
	}
	if (i < node->seq.count)
		at += (size_t)snprintf(out + at, size - at, ", ... %zu", node->seq.count);
	at += (size_t)snprintf(out + at, size - at, tuple ? ")" : "]");
	return at;
}

/* A string in quotes, cut between characters where it is long. */
static size_t print_string(char *out, size_t size, const struct gt_tree *node)
{
	size_t n = strlen(node->string.bytes), max = size > 8 ? size - 8 : 0;

	if (n <= max)
		return (size_t)snprintf(out, size, "'%s'", node->string.bytes);
	while (max && (node->string.bytes[max] & 0xc0) == 0x80)
		max--;
	return (size_t)snprintf(out, size, "'%.*s...'", (int)max, node->string.bytes);
}

size_t gt_ckpt_print_value(char *out, size_t size, const struct gt_tree *node)
{
	size_t n;

	switch (node->kind) {
	case GT_TREE_BOOL:
		n = (size_t)snprintf(out, size, node->boolean ? "True" : "False");
		break;
	case GT_TREE_INT:
		n = (size_t)snprintf(out, size, "%" PRId64, node->integer);
		break;
	case GT_TREE_FLOAT:
		n = (size_t)snprintf(out, size, "%.9g", gt_text_real(node->real));
		break;
	case GT_TREE_STRING:
		n = print_string(out, size, node);
		break;
	case GT_TREE_LIST:
	case GT_TREE_TUPLE:
		n = print_list(out, size, node);
		break;
	case GT_TREE_OPAQUE:
		n = (size_t)snprintf(out, size, "%s%s", node->opaque.class_name,
		    node->opaque.args ? " (an object, not loaded)" : "");
		break;
	default:
		n = (size_t)snprintf(out, size, "None");
	}
	return n < size ? n : size - 1;
}

/* ---- JSON ---- */

bool gt_ckpt_has_values(const struct gt_tree *node)
{
	if (node->kind != GT_TREE_DICT)
		return node->kind != GT_TREE_TENSOR;
	for (size_t i = 0; i < node->seq.count; i++)
		if (gt_ckpt_has_values(node->seq.items[i].value))
			return true;
	return !node->seq.count;
}

static void put_key(FILE *out, const struct gt_tree *key)
{
	switch (key->kind) {
	case GT_TREE_STRING:
		gt_json_string(out, key->string.bytes, key->string.length);
		break;
	case GT_TREE_INT:
		fprintf(out, "\"%" PRId64 "\"", key->integer);
		break;
	case GT_TREE_FLOAT:
		fprintf(out, "\"%.17g\"", gt_text_real(key->real));
		break;
	case GT_TREE_BOOL:
		fputs(key->boolean ? "\"True\"" : "\"False\"", out);
		break;
	default:
		fputs(key->kind == GT_TREE_NONE ? "\"None\"" : "\"(object)\"", out);
	}
}

static void put_dict(FILE *out, const struct gt_tree *node)
{
	bool any = false;

	fputc('{', out);
	for (size_t i = 0; i < node->seq.count; i++) {
		if (!gt_ckpt_has_values(node->seq.items[i].value))
			continue;
		if (any)
			fputs(", ", out);
		any = true;
		put_key(out, node->seq.items[i].key);
		fputs(": ", out);
		gt_ckpt_json_value(out, node->seq.items[i].value);
	}
	fputc('}', out);
}

static void put_list(FILE *out, const struct gt_tree *node)
{
	fputc('[', out);
	for (size_t i = 0; i < node->seq.count; i++) {
		if (i)
			fputs(", ", out);
		gt_ckpt_json_value(out, node->seq.items[i].value);
	}
	fputc(']', out);
}

static void put_object(FILE *out, const struct gt_tree *node)
{
	const struct gt_tree *args = node->opaque.args;

	fputs("{\"class\": ", out);
	gt_json_text(out, node->opaque.class_name);
	if (!strcmp(node->opaque.class_name, "builtins.bytes") && args && args->seq.count &&
	    args->seq.items[0].value->kind == GT_TREE_STRING) {
		fprintf(out, ", \"bytes\": %zu}", args->seq.items[0].value->string.length);
		return;
	}
	if (args && args->seq.count) {
		fputs(", \"args\": ", out);
		gt_ckpt_json_value(out, args);
	}
	if (node->opaque.items) {
		fputs(", \"items\": ", out);
		gt_ckpt_json_value(out, node->opaque.items);
	}
	if (node->opaque.state) {
		fputs(", \"state\": ", out);
		gt_ckpt_json_value(out, node->opaque.state);
	}
	fputc('}', out);
}

void gt_ckpt_json_value(FILE *out, const struct gt_tree *node)
{
	switch (node->kind) {
	case GT_TREE_BOOL:
		fputs(node->boolean ? "true" : "false", out);
		break;
	case GT_TREE_INT:
		fprintf(out, "%" PRId64, node->integer);
		break;
	case GT_TREE_FLOAT:
		gt_json_real(out, node->real);
		break;
	case GT_TREE_STRING:
		gt_json_string(out, node->string.bytes, node->string.length);
		break;
	case GT_TREE_LIST:
	case GT_TREE_TUPLE:
		put_list(out, node);
		break;
	case GT_TREE_DICT:
		put_dict(out, node);
		break;
	case GT_TREE_OPAQUE:
		put_object(out, node);
		break;
	default:
		fputs("null", out);
	}
}
