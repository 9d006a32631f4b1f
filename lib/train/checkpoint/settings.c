/* settings.c - the settings of the optimizer in another program's checkpoint. */
#include "lib/train/checkpoint/settings.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/text.h"

/* How a setting of a group is treated. */
enum treatment {
	TAKEN, /* an option of the run takes its value */
	GROUP, /* a number of 0 or more, which each group may have of its own */
	OFF,   /* an error unless it is off */
	/* the setting does not change results, belongs to a scheduler, or is read elsewhere */
	IGNORED,
};

enum type { NUMBER, TRUTH, PAIR };

/* The settings of groups in torch.optim, and those that its schedulers add. */
static const struct setting {
	const char *key;
	enum treatment treatment;
	/* For TAKEN: the option, the type of its value, its bit in gt_train_options.given, and its
	 * place in struct gt_optim_options. */
	const char *option;
	enum type type;
	unsigned given;
	size_t offset;
} settings[] = {
#define OPTION(member) offsetof(struct gt_optim_options, member)
	{ "momentum", TAKEN, "momentum", NUMBER, GT_GIVEN_MOMENTUM, OPTION(momentum) },
	{ "nesterov", TAKEN, "nesterov", TRUTH, GT_GIVEN_NESTEROV, OPTION(nesterov) },
	{ "betas", TAKEN, "betas", PAIR, GT_GIVEN_BETAS, OPTION(beta1) },
	{ "eps", TAKEN, "eps", NUMBER, GT_GIVEN_EPS, OPTION(eps) },
#undef OPTION
	{ .key = "lr", .treatment = GROUP },
	{ .key = "initial_lr", .treatment = GROUP },
	{ .key = "weight_decay", .treatment = GROUP },
	{ .key = "amsgrad", .treatment = OFF },
	{ .key = "maximize", .treatment = OFF },
	{ .key = "dampening", .treatment = OFF },
	{ .key = "params", .treatment = IGNORED },
	{ .key = "param_names", .treatment = IGNORED },
	{ .key = "decoupled_weight_decay", .treatment = IGNORED }, /* name_of() reads it */
	{ .key = "foreach", .treatment = IGNORED },
	{ .key = "fused", .treatment = IGNORED },
	{ .key = "capturable", .treatment = IGNORED },
	{ .key = "differentiable", .treatment = IGNORED },
	{ .key = "max_lr", .treatment = IGNORED },
	{ .key = "min_lr", .treatment = IGNORED },
	{ .key = "base_momentum", .treatment = IGNORED },
	{ .key = "max_momentum", .treatment = IGNORED },
	{ .key = "swa_lr", .treatment = IGNORED },
};

enum { SETTINGS = sizeof(settings) / sizeof(*settings) };

static const struct setting *find_setting(const char *key)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (!strcmp(settings[i].key, key))
			return &settings[i];
	return NULL;
}

static bool is_list_or_tuple(const struct gt_tree *node)
{
	return node->kind == GT_TREE_LIST || node->kind == GT_TREE_TUPLE;
}

/* A number of a checkpoint may be a tensor, too. */
static int read_setting(
    double *out, const struct gt_tree *node, const char *key, struct gt_err *err)
{
	int rc = gt_tree_read_float(node, out, err);

	if (rc < 0)
		return gt_err_prefix(err, "its optimizer's setting '%s'", key);
	return rc ? 0
	          : gt_err_set(
	                err, GT_EFORMAT, "its optimizer's setting '%s' is not a number", key);
}

static int read_values(
    double out[2], const struct setting *s, const struct gt_tree *node, struct gt_err *err)
{
	out[1] = 0;
	if (s->type != PAIR)
		return read_setting(out, node, s->key, err);
	if (!is_list_or_tuple(node) || node->seq.count != 2)
		return gt_err_set(err, GT_EFORMAT,
		    "its optimizer's setting '%s' is not a pair of numbers", s->key);
	if (read_setting(&out[0], node->seq.items[0].value, s->key, err))
		return err->code;
	return read_setting(&out[1], node->seq.items[1].value, s->key, err);
}

static int check_values(const struct setting *s, const double values[2], struct gt_err *err)
{
	for (int i = 0; i < 2; i++) {
		if (s->treatment == OFF && values[i] != 0)
			return gt_err_set(err, GT_ENOTSUP,
			    "its optimizer has %s=%g, which is not supported", s->key,
			    gt_text_real(values[i]));
		if (!(values[i] >= 0 && isfinite(values[i])))
			return gt_err_set(err, GT_EFORMAT,
			    "its optimizer has %s=%g, which is not a finite number of 0 or more",
			    s->key, gt_text_real(values[i]));
		if (s->type == PAIR && values[i] >= 1)
			return gt_err_set(err, GT_EFORMAT,
			    "its optimizer has %s=%g, which is not below 1", s->key,
			    gt_text_real(values[i]));
	}
	return 0;
}

/* Check the settings of a group. Those that are None are off. */
static int check_group(const struct gt_tree *group, struct gt_err *err)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct gt_tree *node = gt_tree_get(group, settings[i].key);
		double values[2];

		if (settings[i].treatment == IGNORED || !node || node->kind == GT_TREE_NONE)
			continue;
		if (read_values(values, &settings[i], node, err) ||
		    check_values(&settings[i], values, err))
			return err->code;
	}
	return 0;
}

/* Whether a group has parameters, so that its settings count. */
static bool is_filled(const struct gt_tree *group)
{
	const struct gt_tree *params = gt_tree_get(group, "params");

	return params && is_list_or_tuple(params) && params->seq.count;
}

/* The optimizer of a group, where the run's leaves some parameters to another one. */
static const struct gt_optim_rule *rule_of(const struct gt_tree *group, enum gt_optim_kind kind)
{
	const struct gt_optim_rule *rule = gt_optim_rule(kind);

	if (rule->operand == GT_OPERAND_TENSORS && gt_tree_get(group, "betas"))
		return gt_optim_rule(rule->fallback);
	return rule;
}

static const struct gt_optim_member *find_member(const struct gt_optim_rule *rule, const char *key)
{
	const struct gt_optim_member *m = rule->members;

	while (m->name && strcmp(m->name, key))
		m++;
	return m->name ? m : NULL;
}

/* The values of a setting that is an option of the group's optimizer; false where it has none. They
 * have been checked. */
static bool find_values(
    double values[2], const struct setting *s, const struct gt_tree *group, enum gt_optim_kind kind)
{
	const struct gt_tree *node = gt_tree_get(group, s->key);
	const struct gt_optim_member *m = find_member(rule_of(group, kind), s->key);
	bool option = m && (m->type == GT_MEMBER_NUMBER || m->type == GT_MEMBER_PAIR ||
	                       m->type == GT_MEMBER_BOOL);

	return option && is_filled(group) && node && node->kind != GT_TREE_NONE &&
	       !read_values(values, s, node, GT_ERR_IGNORED);
}

/* The numbers of a setting that gtrain does not let the user choose. */
static bool is_constant(const struct gt_optim_member *m, const struct gt_tree *node)
{
	double number;

	if (m->type == GT_MEMBER_CONSTANTS && m->count > 1) {
		if (!is_list_or_tuple(node) || node->seq.count != (size_t)m->count)
			return false;
		for (int i = 0; i < m->count; i++)
			if (!gt_tree_as_float(node->seq.items[i].value, &number) ||
			    number != m->constants[i])
				return false;
		return true;
	}
	if (!gt_tree_as_float(node, &number))
		return false;
	return m->type == GT_MEMBER_TRUE      ? number != 0
	       : m->type == GT_MEMBER_INTEGER ? number == m->count
	                                      : number == *m->constants;
}

/* Whether a setting is the word that an option has; none is the first one. */
static bool is_word(
    const struct gt_optim_member *m, const struct gt_tree *node, const struct gt_optim_options *o)
{
	int chosen = *(const int *)((const char *)o + m->offset);

	return node->kind == GT_TREE_NONE
	           ? !chosen
	           : node->kind == GT_TREE_STRING && !strcmp(node->string.bytes, m->words[chosen]);
}

/* Check the settings that are constants of gtrain's optimizer, or words. */
static int check_constants(
    const struct gt_tree *group, const struct gt_optim_options *o, struct gt_err *err)
{
	for (const struct gt_optim_member *m = rule_of(group, o->kind)->members; m->name; m++) {
		const struct gt_tree *node = gt_tree_get(group, m->name);
		bool same = true;

		if (node && m->type == GT_MEMBER_WORD)
			same = is_word(m, node, o);
		else if (node && (m->type == GT_MEMBER_CONSTANTS || m->type == GT_MEMBER_INTEGER ||
		                     m->type == GT_MEMBER_TRUE))
			same = is_constant(m, node);
		if (!same)
			return gt_err_set(err, GT_ENOTSUP,
			    "its optimizer has another '%s' than this run computes with", m->name);
	}
	return 0;
}

/* Find the values of a setting, which must be the same in all groups that have it. Groups may
 * differ in the learning rate and in weight decay alone. */
static int find_common(bool *found, double values[2], const struct setting *s,
    const struct gt_train *t, struct gt_err *err)
{
	const struct gt_tree *group;
	size_t first = 0;
	double other[2];

	*found = false;
	for (size_t i = 0; (group = gt_saved_param_group(&t->saved, i)); i++) {
		if (!find_values(other, s, group, t->o.optim.kind))
			continue;
		if (!*found) {
			*found = true;
			first = i;
			memcpy(values, other, sizeof(other));
		}
		if (values[0] == other[0] && values[1] == other[1])
			continue;
		gt_err_set(err, GT_ENOTSUP,
		    "the groups %zu and %zu of its optimizer have different %s", first, i, s->key);
		return gt_err_hint(err, "{init-from} starts a new run from its weights alone");
	}
	return 0;
}

static int check_groups(const struct gt_train *t, struct gt_err *err)
{
	const struct gt_tree *group;

	for (size_t i = 0; (group = gt_saved_param_group(&t->saved, i)); i++)
		if (check_group(group, err) || check_constants(group, &t->o.optim, err))
			return err->code;
	return 0;
}

/* Groups may have no weight decay, as biases often have; the others have the same one. */
static int find_weight_decay(double *out, const struct gt_saved *s, bool given, struct gt_err *err)
{
	const struct gt_tree *group;

	*out = 0;
	for (size_t i = 0; (group = gt_saved_param_group(s, i)); i++) {
		double value = 0;

		if (gt_tree_read_float(gt_tree_get(group, "weight_decay"), &value, err) < 0)
			return err->code;
		if (value == 0 || value == *out || !is_filled(group))
			continue;
		if (*out > 0 && !given) {
			gt_err_set(err, GT_ENOTSUP,
			    "the groups of its optimizer have weight decays of %g and %g", *out,
			    value);
			return gt_err_hint(err, "{weight-decay} X replaces these values by X");
		}
		*out = value;
	}
	return 0;
}

/* Write the value of a setting as one types it. */
static void print_values(char out[80], const struct setting *s, const double values[2])
{
	if (s->type == PAIR)
		snprintf(out, 80, "%g,%g", values[0], values[1]);
	else if (s->type == TRUTH)
		snprintf(out, 80, "%s", values[0] != 0 ? "on" : "off");
	else
		snprintf(out, 80, "%g", values[0]);
}

static void warn_of_option(
    const struct gt_train *t, const struct setting *s, const double theirs[2], const double ours[2])
{
	char there[80], here[80];

	if (gt_train_rank(t) || (theirs[0] == ours[0] && theirs[1] == ours[1]))
		return;
	print_values(there, s, theirs);
	print_values(here, s, ours);
	gt_log_warn(
	    t->log, "its optimizer has %s=%s; {%s} %s counts", s->key, there, s->option, here);
}

/* Set an option of the run to the value in the checkpoint, unless the user has set it. */
static int take_setting(struct gt_train *t, const struct setting *s, struct gt_err *err)
{
	void *field = (char *)&t->o.optim + s->offset;
	double theirs[2], ours[2] = { 0 };
	bool found;

	if (find_common(&found, theirs, s, t, err))
		return err->code;
	if (!found)
		return 0;
	if (t->o.given & s->given) {
		if (s->type == TRUTH)
			ours[0] = *(bool *)field;
		else
			memcpy(ours, field, s->type == PAIR ? sizeof(ours) : sizeof(*ours));
		warn_of_option(t, s, theirs, ours);
		return 0;
	}
	if (s->type == TRUTH)
		*(bool *)field = theirs[0] != 0;
	else
		memcpy(field, theirs, s->type == PAIR ? sizeof(theirs) : sizeof(*theirs));
	t->o.given |= s->given;
	return 0;
}

/* A setting that is not in the table may belong to an optimizer that only looks like this one. */
static void warn_of_unknown(const struct gt_train *t, const struct gt_tree *group)
{
	char names[200] = "";
	size_t used = 0;

	for (size_t i = 0; group->kind == GT_TREE_DICT && i < group->seq.count; i++) {
		const struct gt_tree *key = group->seq.items[i].key;

		if (key->kind == GT_TREE_STRING && !find_setting(key->string.bytes) &&
		    !find_member(rule_of(group, t->o.optim.kind), key->string.bytes) &&
		    used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s'%s'",
			    used ? ", " : "", key->string.bytes);
	}
	if (*names && !gt_train_rank(t))
		gt_log_warn(t->log,
		    "settings of its optimizer that torch.optim does not have are ignored: %s",
		    names);
}

/*
 * Check the settings in the groups of the optimizer of t->saved, which another program wrote.
 * Then set momentum, nesterov, betas, eps and weight decay of this run to those of the checkpoint,
 * unless an option of this run sets them. If such an option differs from the checkpoint, log a
 * warning. Settings that cannot change results, such as `foreach`, are ignored. If a group has
 * settings that torch.optim does not have, log a warning with their names.
 *
 * Errors:
 *
 *   GT_ENOTSUP  gtrain does not support a setting, such as amsgrad or dampening
 *   GT_ENOTSUP  groups of parameters differ in settings other than `lr` and `weight_decay`
 *   GT_ENOTSUP  groups have different weight decays above 0, and no option of this run sets the
 *               weight decay
 *   GT_EFORMAT  a setting is not a number, or a learning rate, weight decay, momentum or eps is
 *               NaN, infinite or negative
 */
int gt_adopt_settings(struct gt_train *t, struct gt_err *err)
{
	const bool given = t->o.given & GT_GIVEN_WEIGHT_DECAY;
	double decay;

	if (check_groups(t, err) || find_weight_decay(&decay, &t->saved, given, err))
		return err->code;
	for (size_t i = 0; i < SETTINGS; i++)
		if (settings[i].treatment == TAKEN && take_setting(t, &settings[i], err))
			return err->code;
	if (!given)
		t->o.optim.weight_decay = decay;
	t->o.given |= GT_GIVEN_WEIGHT_DECAY;
	warn_of_unknown(t, gt_saved_param_group(&t->saved, 0));
	return 0;
}
