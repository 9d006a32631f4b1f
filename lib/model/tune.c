/* tune.c - which parameters of a model are trained, and how fast. */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/model/arch.h"

/* The rules in the order in which they apply: those that freeze, then those of learning rates. */
struct gt_tuning {
	struct rule {
		const char *option; /* name of the option that gave the rule */
		char *glob;         /* the pattern, without '!' */
		bool others;        /* the rule applies to all parameters that do not match */
		double lr_scale;    /* 0: frozen */
	} * rules;
	size_t count;
};

static bool rule_applies_to(const struct rule *r, const char *name)
{
	return !fnmatch(r->glob, name, 0) != r->others;
}

static int set_glob(struct rule *r, const char *option, const char *glob, struct gt_err *err)
{
	r->option = option;
	r->others = *glob == '!';
	r->glob = gt_strdup(glob + r->others, err);
	if (!r->glob)
		return GT_ENOMEM;
	return *r->glob ? 0 : gt_err_set(err, GT_EINVAL, "{%s}: the pattern is empty", option);
}

/* GLOB=X */
static int set_scale(struct rule *r, const char *text, struct gt_err *err)
{
	const char *equals = strrchr(text, '=');
	double scale = 0;

	if (!equals || !gt_text_parse_double(&scale, equals + 1)) {
		gt_err_set(err, GT_EINVAL, "{lr-scale} '%s' is not of the form GLOB=X", text);
		return gt_err_hint(err, "for example 'fc.*=10'");
	}
	if (!(scale > 0 && (float)scale > 0 && isfinite((float)scale))) {
		gt_err_set(err, GT_EINVAL, "{lr-scale} '%s': the factor must be above 0", text);
		return gt_err_hint(err, "{freeze} keeps parameters as they are");
	}
	if (set_glob(r, "lr-scale", text, err))
		return err->code;
	r->glob[strlen(r->glob) - strlen(equals)] = '\0';
	r->lr_scale = scale;
	return *r->glob ? 0 : gt_err_set(err, GT_EINVAL, "{lr-scale}: the pattern is empty");
}

int gt_tuning_new(struct gt_tuning **out, const struct gt_opt_list *freeze,
    const struct gt_opt_list *lr_scale, struct gt_err *err)
{
	struct gt_tuning *t = gt_calloc(1, sizeof(*t), err);
	int rc = 0;

	*out = NULL;
	if (!t)
		return GT_ENOMEM;
	t->rules = gt_calloc(freeze->count + lr_scale->count, sizeof(*t->rules), err);
	if (!t->rules)
		rc = GT_ENOMEM;
	for (size_t i = 0; !rc && i < freeze->count; i++)
		rc = set_glob(&t->rules[t->count++], "freeze", freeze->items[i], err);
	for (size_t i = 0; !rc && i < lr_scale->count; i++)
		rc = set_scale(&t->rules[t->count++], lr_scale->items[i], err);
	if (rc)
		gt_tuning_free(t);
	else
		*out = t;
	return rc;
}

void gt_tuning_free(struct gt_tuning *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->count; i++)
		free(t->rules[i].glob);
	free(t->rules);
	free(t);
}

int gt_model_check_rules(
    const struct gt_opt_list *freeze, const struct gt_opt_list *lr_scale, struct gt_err *err)
{
	struct gt_tuning *tuning;
	int rc = gt_tuning_new(&tuning, freeze, lr_scale, err);

	gt_tuning_free(tuning);
	return rc;
}

static int fail_rule(const struct rule *r, struct gt_graph *g, const char *example)
{
	gt_graph_scope(g, "%s", "");
	gt_graph_fail(g, GT_EINVAL, "{%s}: the model has no parameter '%s%s'", r->option,
	    r->others ? "!" : "", r->glob);
	if (example)
		gt_err_hint(&g->err,
		    "names are like '%s'; 'gtrain ckpt ls' lists those of a checkpoint", example);
	return gt_graph_status(g, NULL);
}

static int apply_rule(const struct rule *r, struct gt_graph *g)
{
	const char *example = NULL;
	size_t found = 0;

	for (size_t i = 0; i < g->value_count; i++) {
		struct gt_value *v = g->values[i];

		if (!gt_value_is_weight(v))
			continue;
		example = v->name;
		if (!rule_applies_to(r, v->name))
			continue;
		found++;
		if (r->lr_scale > 0) {
			v->lr_scale = r->lr_scale;
		} else {
			v->role = GT_BUFFER;
			v->frozen = true;
		}
	}
	return found ? 0 : fail_rule(r, g, example);
}

/* Add the name of the layer to the list. A list that is too long is cut off. */
static void add_layer(char *list, size_t size, const char *name, size_t length)
{
	size_t used = strlen(list);

	snprintf(list + used, size - used, "%s%.*s.*", used ? ", " : "", (int)length, name);
}

/* Return the length of the prefix, up to a dot, that all names of parameters share:
 * "transformer." */
static size_t common_prefix(const struct gt_graph *g)
{
	const char *first = NULL;
	size_t length = 0;

	for (size_t i = 0; i < g->value_count; i++) {
		const char *name = g->values[i]->name;
		size_t n = 0;

		if (!gt_value_is_weight(g->values[i]))
			continue;
		while (first && n < length && name[n] == first[n])
			n++;
		length = first ? n : strlen(name);
		first = name;
	}
	while (length && first[length - 1] != '.')
		length--;
	return length;
}

/* List the layers of the model: the first part in which the names of its parameters differ, in the
 * order of the model. '!LAYER' trains that layer alone. */
static void hint_layers(struct gt_graph *g)
{
	size_t length = 0, shared = common_prefix(g);
	char list[320] = "";
	const char *last = NULL;

	for (size_t i = 0; i < g->value_count; i++) {
		const char *name = g->values[i]->name;

		if (!gt_value_is_weight(g->values[i]) ||
		    (last && !strncmp(last, name, length) && name[length] == '.'))
			continue;
		last = name;
		length = shared + strcspn(name + shared, ".");
		add_layer(list, sizeof(list), last, length);
	}
	if (last)
		gt_err_hint(&g->err,
		    "{freeze} '!%.*s.*' trains this layer alone; the layers are %s", (int)length,
		    last, list);
}

void gt_tuning_apply(const struct gt_tuning *t, struct gt_graph *g)
{
	bool trains = false;

	for (size_t i = 0; t && i < t->count; i++)
		if (apply_rule(&t->rules[i], g))
			return;
	for (size_t i = 0; i < g->value_count; i++)
		trains = trains || g->values[i]->role == GT_PARAMETER;
	if (t && t->count && !trains) {
		gt_graph_scope(g, "%s", "");
		gt_graph_fail(g, GT_EINVAL, "{freeze} leaves no parameter to be trained");
		hint_layers(g);
	}
}
