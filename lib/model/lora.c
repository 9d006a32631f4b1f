/* lora.c - low-rank adapters beside the linear layers of a model. */
#include "lib/model/lora.h"

#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/suggest.h"
#include "lib/base/text.h"
#include "lib/graph/pass.h"
#include "lib/model/arch.h"

static const char prefix[] = "base_model.model.";
static_assert(sizeof(prefix) == GT_LORA_PREFIX + 1, "the length of the prefix");
static const char weight_of_a[] = ".lora_A.weight", weight_of_b[] = ".lora_B.weight";

/* ---- settings ---- */

static const struct {
	const char *values; /* in words */
	double min, max;
	bool above, below; /* the number must be larger than min, or less than max */
	bool whole;
} limits[] = {
	[GT_LORA_RANK] = { "a whole number from 1 to 65536", 1, GT_LORA_MAX_RANK, .whole = true },
	[GT_LORA_ALPHA] = { "a number above 0, and at most 1e6", 0, 1e6, .above = true },
	[GT_LORA_DROPOUT] = { "a number from 0 to below 1", 0, 1, .below = true },
};

const char *gt_lora_set(struct gt_lora *l, enum gt_lora_number setting, double value)
{
	const bool low =
	    limits[setting].above ? value > limits[setting].min : value >= limits[setting].min;
	const bool high =
	    limits[setting].below ? value < limits[setting].max : value <= limits[setting].max;

	if (!low || !high || (limits[setting].whole && value != floor(value)))
		return limits[setting].values;
	if (setting == GT_LORA_RANK)
		l->rank = (int)value;
	else
		*(setting == GT_LORA_ALPHA ? &l->alpha : &l->dropout) = value;
	return NULL;
}

bool gt_lora_is_targets(const char *text)
{
	return *text && *text != '|' && !strstr(text, "||") && text[strlen(text) - 1] != '|';
}

static bool parse_root(struct gt_lora *l, const char *text, struct gt_err *err)
{
	(void)err;
	l->root = !strcmp(text, "yes");
	return l->root || !strcmp(text, "no");
}

static bool parse_frozen(struct gt_lora *l, const char *text, struct gt_err *err)
{
	(void)err;
	for (int b = 0; gt_block_names[b]; b++)
		if (b != GT_BLOCK_F16 && !strcmp(gt_block_names[b], text)) {
			l->frozen = (enum gt_block)b;
			return true;
		}
	return false;
}

static bool parse_patterns(char **out, const char *text, struct gt_err *err)
{
	*out = gt_lora_is_targets(text) ? gt_strdup(text, err) : NULL;
	return *out != NULL;
}

static bool parse_targets(struct gt_lora *l, const char *text, struct gt_err *err)
{
	return parse_patterns(&l->targets, text, err);
}

static bool parse_trained(struct gt_lora *l, const char *text, struct gt_err *err)
{
	return parse_patterns(&l->trained, text, err);
}

/* A setting is a number, or has a function that parses it. */
static const struct key {
	const char *name;
	enum gt_lora_number number;
	const char *form;
	bool (*parse)(struct gt_lora *l, const char *text, struct gt_err *err);
} keys[] = {
	{ "r", GT_LORA_RANK, NULL, NULL },
	{ "alpha", GT_LORA_ALPHA, NULL, NULL },
	{ "targets", 0, "GLOB[|GLOB...]", parse_targets },
	{ "train", 0, "GLOB[|GLOB...]", parse_trained },
	{ "dropout", GT_LORA_DROPOUT, NULL, NULL },
	{ "rslora", 0, "yes|no", parse_root },
	{ "frozen", 0, "fp32|bf16|q8_0|q4_0", parse_frozen },
};

enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static int fail_key(const char *key, struct gt_err *err)
{
	struct gt_suggest near = { .word = key };

	gt_err_set(err, GT_EINVAL, "{lora}: unknown setting '%.60s'", key);
	for (int i = 0; i < KEYS; i++)
		gt_suggest_offer(&near, keys[i].name);
	if (near.best)
		return gt_err_hint(err, "did you mean '%s'?", near.best);
	return gt_err_hint(err, "for example {lora} 'r=8,alpha=16,targets=*.[qv]_proj'");
}

static bool parse_value(
    struct gt_lora *l, const struct key *key, const char *text, struct gt_err *err)
{
	double x;

	if (key->parse)
		return key->parse(l, text, err);
	return gt_text_parse_double(&x, text) && !gt_lora_set(l, key->number, x);
}

/* Parse key=value. The key must not have its bit in *given, which is then set. */
static int parse_pair(struct gt_lora *l, unsigned *given, char *pair, struct gt_err *err)
{
	char *value = strchr(pair, '=');
	int i = 0;

	if (value)
		*value++ = '\0';
	while (i < KEYS && strcmp(keys[i].name, pair) != 0)
		i++;
	if (i == KEYS)
		return fail_key(pair, err);
	if (*given >> i & 1)
		return gt_err_set(err, GT_EINVAL, "{lora}: '%s' is given twice", pair);
	*given |= 1u << i;
	if (value && parse_value(l, &keys[i], value, err))
		return 0;
	if (err->code)
		return err->code;
	gt_err_set(
	    err, GT_EINVAL, "{lora}: '%.60s' is not a value for '%s'", value ? value : "", pair);
	if (keys[i].parse)
		return gt_err_hint(err, "write %s=%s", pair, keys[i].form);
	return gt_err_hint(err, "'%s' is %s", pair, limits[keys[i].number].values);
}

int gt_lora_parse(struct gt_lora *out, const char *spec, struct gt_err *err)
{
	char *copy = gt_strdup(spec, err), *rest = copy, *pair;
	unsigned given = 0;
	int rc = copy ? 0 : GT_ENOMEM;

	*out = (struct gt_lora){ .rank = 8, .alpha = 8 };
	while (!rc && (pair = strsep(&rest, ",")))
		rc = parse_pair(out, &given, pair, err);
	free(copy);
	if (rc)
		gt_lora_release(out);
	return rc;
}

int gt_lora_check(const char *spec, struct gt_err *err)
{
	struct gt_lora l;
	int rc = gt_lora_parse(&l, spec, err);

	if (!rc)
		gt_lora_release(&l);
	return rc;
}

void gt_lora_release(struct gt_lora *l)
{
	free(l->targets);
	free(l->trained);
	*l = (struct gt_lora){ 0 };
}

char *gt_lora_spec(const struct gt_lora *l, struct gt_err *err)
{
	return gt_asprintf(err, "r=%d,alpha=%.15g%s%s%s%s,dropout=%.15g,rslora=%s,frozen=%s",
	    l->rank, l->alpha, l->targets ? ",targets=" : "", l->targets ? l->targets : "",
	    l->trained ? ",train=" : "", l->trained ? l->trained : "", l->dropout,
	    l->root ? "yes" : "no", gt_block_names[l->frozen]);
}

double gt_lora_scale(const struct gt_lora *l)
{
	return l->alpha / (l->root ? sqrt((double)l->rank) : (double)l->rank);
}

/* ---- names ---- */

bool gt_lora_is_adapter(const char *name, char module[GT_LORA_NAME], bool *is_b)
{
	const size_t first = sizeof(prefix) - 1, last = sizeof(weight_of_a) - 1;
	const size_t length = strlen(name);
	const char *leaf = name + (length > last ? length - last : 0);
	bool b = !strcmp(leaf, weight_of_b);

	if (length <= first + last || length - first - last >= GT_LORA_NAME ||
	    strncmp(name, prefix, first) != 0 || (!b && strcmp(leaf, weight_of_a) != 0))
		return false;
	if (module)
		snprintf(module, GT_LORA_NAME, "%.*s", (int)(length - first - last), name + first);
	if (is_b)
		*is_b = b;
	return true;
}

void gt_lora_name_weight(char out[GT_LORA_WEIGHT_NAME], const char *module, bool is_b)
{
	snprintf(
	    out, GT_LORA_WEIGHT_NAME, "%s%s%s", prefix, module, is_b ? weight_of_b : weight_of_a);
}

const char *gt_lora_without_prefix(const char *name)
{
	const size_t first = sizeof(prefix) - 1;

	return strncmp(name, prefix, first) != 0 || gt_lora_is_adapter(name, NULL, NULL)
	           ? NULL
	           : name + first;
}

void gt_lora_name_trained(char out[GT_LORA_WEIGHT_NAME], const char *name)
{
	snprintf(out, GT_LORA_WEIGHT_NAME, "%s%s", prefix, name);
}

bool gt_lora_name_module(char module[GT_LORA_NAME], const char *weight)
{
	static const char leaf[] = ".weight";
	const size_t length = strlen(weight), last = sizeof(leaf) - 1;

	if (length <= last || length - last >= GT_LORA_NAME || strcmp(weight + length - last, leaf))
		return false;
	snprintf(module, GT_LORA_NAME, "%.*s", (int)(length - last), weight);
	return true;
}

/* Return the bits of the patterns that match a name. */
static uint64_t find_matches(const char *patterns, const char *name)
{
	uint64_t found = 0;
	int i = 0;

	for (const char *at = patterns; at; i++) {
		const char *end = strchr(at, '|');
		char glob[GT_LORA_NAME];

		snprintf(glob, sizeof(glob), "%.*s", end ? (int)(end - at) : -1, at);
		if (!fnmatch(glob, name, 0))
			found |= UINT64_C(1) << (i < 63 ? i : 63);
		at = end ? end + 1 : NULL;
	}
	return found;
}

bool gt_lora_matches(const char *targets, const char *weight, uint64_t *found)
{
	char module[GT_LORA_NAME];
	uint64_t matches;

	if (!gt_lora_name_module(module, weight))
		return false;
	matches = find_matches(targets, module) | find_matches(targets, weight);
	*found |= matches;
	return matches != 0;
}

bool gt_lora_is_trained(
    const struct gt_lora *l, const char *name, char module[GT_LORA_NAME], uint64_t *found)
{
	uint64_t all = 0;

	if (!l || !l->trained || strlen(name) >= GT_LORA_NAME ||
	    gt_lora_is_adapter(name, NULL, NULL))
		return false;
	for (const char *end = strchr(name, '.'); end; end = strchr(end + 1, '.')) {
		char outer[GT_LORA_NAME];
		uint64_t matches;

		snprintf(outer, sizeof(outer), "%.*s", (int)(end - name), name);
		matches = find_matches(l->trained, outer);
		if (matches && !all && module)
			strcpy(module, outer);
		all |= matches;
	}
	if (found)
		*found |= all;
	return all != 0;
}

bool gt_lora_has(const struct gt_lora *l, const char *name)
{
	return gt_lora_is_adapter(name, NULL, NULL) || gt_lora_is_trained(l, name, NULL, NULL);
}

const char *gt_lora_unmatched(const char *targets, uint64_t found)
{
	const char *at = targets;

	for (int i = 0; at && found >> (i < 63 ? i : 63) & 1; i++) {
		at = strchr(at, '|');
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* ---- the graph ---- */

static bool is_looked_up(const struct gt_graph *g, const struct gt_value *weight)
{
	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == weight && g->nodes[i]->op->lookups >> k & 1)
				return true;
	return false;
}

/* Return whether a node is a linear layer that the settings mean. A matrix that is an embedding's
 * table, too, is none. */
static bool is_target(
    const struct gt_lora *l, const struct gt_graph *g, const struct gt_node *n, uint64_t *found)
{
	const struct gt_value *w = n->op == &gt_op_matmul ? n->in[1] : NULL;
	char module[GT_LORA_NAME];

	if (!w || !gt_value_is_weight(w) || w->ndim != 2 || n->attrs.matmul.trans_a ||
	    !gt_lora_name_module(module, w->name) || gt_lora_is_adapter(w->name, NULL, NULL) ||
	    gt_lora_is_trained(l, w->name, NULL, NULL) || is_looked_up(g, w))
		return false;
	return l->targets ? gt_lora_matches(l->targets, w->name, found) : w->hidden;
}

/* Move the node of v, which was emitted last, to place *at, and step behind it. */
static struct gt_value *place(struct gt_graph *g, size_t *at, struct gt_value *v)
{
	if (v)
		gt_place_last(g, (*at)++);
	return v;
}

/* Return the parameter of an adapter; two nodes may have the same layer. */
static struct gt_value *declare(struct gt_graph *g, const struct gt_value *weight, bool is_b,
    int64_t rows, int64_t columns, struct gt_init init)
{
	char module[GT_LORA_NAME], name[GT_LORA_WEIGHT_NAME];
	struct gt_value *v;

	gt_lora_name_module(module, weight->name);
	gt_lora_name_weight(name, module, is_b);
	v = gt_graph_find_stored(g, name);
	if (v)
		return v;
	v = gt_parameter(g, name, GT_F32, 2, (int64_t[]){ rows, columns }, init, true);
	if (v)
		v->hidden = weight->hidden;
	return v;
}

/* Add the product of an adapter to that of node `index`. Return the sum. */
static struct gt_value *adapt_node(
    const struct gt_lora *l, struct gt_graph *g, size_t index, struct gt_value *rng)
{
	const struct gt_node *n = g->nodes[index];
	const struct gt_value *w = n->in[1];
	const bool tb = n->attrs.matmul.trans_b;
	const int64_t in = w->shape[tb ? 1 : 0], out = w->shape[tb ? 0 : 1];
	struct gt_value *a, *b, *x = n->in[0], *y = n->out[0];
	size_t at = index + 1;

	a = declare(g, w, false, l->rank, in, gt_init_torch(in));
	b = declare(g, w, true, out, l->rank, gt_init_zeros);
	g->scope = n->scope;
	if (rng && l->dropout > 0)
		x = place(g, &at, gt_dropout(g, x, rng, l->dropout));
	x = place(g, &at, gt_matmul(g, x, a, NULL, false, true));
	if (gt_lora_scale(l) != 1)
		x = place(g, &at,
		    gt_apply(g, GT_F_MUL,
		        (struct gt_map_operand[]){
		            { .value = x }, { true, gt_lora_scale(l), NULL } }));
	x = place(g, &at, gt_matmul(g, x, b, NULL, false, true));
	x = place(g, &at, gt_add(g, y, x));
	if (x)
		gt_replace_uses(g, at, y, x);
	return x;
}

static bool is_multiplied(const struct gt_graph *g, const struct gt_value *weight)
{
	for (size_t i = 0; i < g->node_count; i++)
		if (g->nodes[i]->op == &gt_op_matmul && g->nodes[i]->in[1] == weight)
			return true;
	return false;
}

/* PEFT keeps two matrices where the embedding and the last layer have one. */
static void check_tied(const struct gt_lora *l, struct gt_graph *g)
{
	for (size_t i = 0; i < g->value_count; i++) {
		const struct gt_value *v = g->values[i];

		if (v->role != GT_PARAMETER || !gt_lora_is_trained(l, v->name, NULL, NULL) ||
		    !is_looked_up(g, v) || !is_multiplied(g, v))
			continue;
		gt_graph_scope(g, "%s", "");
		gt_graph_fail(g, GT_ENOTSUP,
		    "{lora} train: '%s' is an embedding, and the weight of a layer, too", v->name);
		gt_err_hint(&g->err, "an adapter has one of them; train the model without {lora}");
		return;
	}
}

/* Running statistics that training changes must be a part of the adapter: its base has others. */
static void check_statistics(const struct gt_lora *l, struct gt_graph *g)
{
	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++) {
			const struct gt_value *v = g->nodes[i]->in[k];
			char module[GT_LORA_NAME];

			if (!(g->nodes[i]->op->writes >> k & 1) || !v || v->role != GT_BUFFER ||
			    !v->name || gt_lora_is_trained(l, v->name, NULL, NULL))
				continue;
			snprintf(module, sizeof(module), "%.*s",
			    (int)(strrchr(v->name, '.') ? strrchr(v->name, '.') - v->name : 0),
			    v->name);
			gt_graph_scope(g, "%s", "");
			gt_graph_fail(g, GT_ENOTSUP,
			    "{lora}: training changes '%s', which is in no adapter", v->name);
			gt_err_hint(&g->err,
			    "'train=%s' in {lora} trains such a layer as a whole, and saves it",
			    module);
			return;
		}
}

/* Freeze the parameters that the adapter does not have. Return the bits of the patterns that match
 * one that is trained. */
static uint64_t freeze_others(const struct gt_lora *l, struct gt_graph *g)
{
	uint64_t found = 0;

	for (size_t i = 0; i < g->value_count; i++) {
		struct gt_value *v = g->values[i];

		if (v->role != GT_PARAMETER || gt_lora_is_adapter(v->name, NULL, NULL) ||
		    gt_lora_is_trained(l, v->name, NULL, &found))
			continue;
		v->role = GT_BUFFER;
		v->frozen = true;
	}
	return found;
}

/* Store a weight in another type, and return what has its elements in float32. A weight with other
 * readers than products is not divided into blocks. */
static struct gt_value *store_as(struct gt_graph *g, struct gt_value *w, enum gt_block frozen)
{
	if (gt_block_is_quantized(frozen) && w->hidden && gt_pack_weight(g, w, frozen))
		return gt_decode(g, w, GT_F32);
	w->dtype = GT_BF16;
	return gt_cast_to(g, w, GT_F32);
}

/* Let all nodes from index `first` on, which is the first reader of w, read `copy`, which was
 * emitted last. */
static void read_copy(
    struct gt_graph *g, size_t first, const struct gt_value *w, struct gt_value *copy)
{
	gt_place_last(g, first);
	for (size_t i = first + 1; w->packing.transposed && i < g->node_count; i++)
		if (g->nodes[i]->inputs > 1 && g->nodes[i]->in[1] == w)
			g->nodes[i]->attrs.matmul.trans_b = true;
	gt_replace_uses(g, first + 1, w, copy);
}

static size_t find_reader(const struct gt_graph *g, const struct gt_value *v)
{
	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == v)
				return i;
	return g->node_count;
}

/* Store the weights of linear layers in another type. A product reads a copy in float32; mixed
 * precision lets it read one in its own type, or the weight itself (autocast.c). The copy ends with
 * the product, because the gradient reads another one (reread.c). */
static void store_weights_as(struct gt_graph *g, enum gt_block frozen)
{
	for (size_t i = 0; i < g->node_count && !g->err.code; i++) {
		struct gt_node *n = g->nodes[i];
		struct gt_value *w = n->op == &gt_op_matmul ? n->in[1] : NULL, *copy;

		if (!w || !w->frozen || w->ndim != 2 || w->dtype != GT_F32 || is_looked_up(g, w))
			continue;
		g->scope = n->scope;
		copy = store_as(g, w, frozen);
		if (copy)
			read_copy(g, find_reader(g, w), w, copy);
	}
}

/* Name the first pattern of train= that matches no module, and a module. */
static void check_trained(const struct gt_lora *l, struct gt_graph *g, uint64_t found)
{
	const char *at = gt_lora_unmatched(l->trained, found), *last = NULL;
	char module[GT_LORA_NAME];

	if (!at)
		return;
	for (size_t k = 0; k < g->value_count; k++)
		if (g->values[k]->name && gt_lora_name_module(module, g->values[k]->name) &&
		    !gt_lora_is_adapter(g->values[k]->name, NULL, NULL))
			last = g->values[k]->name;
	gt_graph_scope(g, "%s", "");
	gt_graph_fail(
	    g, GT_EINVAL, "{lora} train: the model has no layer '%.*s'", (int)strcspn(at, "|"), at);
	if (last && gt_lora_name_module(module, last))
		gt_err_hint(&g->err, "names of layers are like '%s'", module);
}

/* Name the first pattern that matches no layer, and a layer. */
static void check_found(const struct gt_lora *l, struct gt_graph *g, uint64_t found)
{
	const char *at = gt_lora_unmatched(l->targets, found), *example = NULL;

	if (l->targets && !at)
		return;
	for (size_t k = 0; !example && k < g->node_count; k++)
		if (g->nodes[k]->op == &gt_op_matmul && gt_value_is_weight(g->nodes[k]->in[1]))
			example = g->nodes[k]->in[1]->name;
	gt_graph_scope(g, "%s", "");
	if (l->targets)
		gt_graph_fail(g, GT_EINVAL, "{lora}: the model has no linear layer '%.*s'",
		    (int)strcspn(at, "|"), at);
	else
		gt_graph_fail(g, GT_EINVAL, "{lora}: the model has no linear layer");
	if (example)
		gt_err_hint(&g->err, "names of their weights are like '%s'", example);
}

struct gt_value *gt_lora_apply(
    const struct gt_lora *l, struct gt_graph *g, struct gt_value *result, struct gt_value *rng)
{
	const char *scope = g->scope;
	uint64_t found = 0, trained;
	size_t count = 0;

	for (size_t i = 0; i < g->node_count && !g->err.code; i++) {
		struct gt_value *y = g->nodes[i]->out[0], *sum;

		if (!is_target(l, g, g->nodes[i], &found))
			continue;
		sum = adapt_node(l, g, i, rng);
		result = y == result ? sum : result;
		count++;
	}
	if (!g->err.code && l->trained)
		check_tied(l, g);
	if (!g->err.code)
		check_statistics(l, g);
	trained = freeze_others(l, g);
	if (l->frozen)
		store_weights_as(g, l->frozen);
	g->scope = scope;
	if (!g->err.code && l->trained)
		check_trained(l, g, trained);
	if (!g->err.code && (l->targets || !count))
		check_found(l, g, found);
	return result;
}
