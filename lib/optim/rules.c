/* rules.c - the optimizers: one row each. */
#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/optim/rules.h"

const char *const gt_optim_names[GT_OPTIM_KINDS + 1] = {
#define OPTIM_NAME(NAME, name) [GT_##NAME] = #name,
	GT_OPTIMIZERS(OPTIM_NAME)
};

/* ---- sgd ---- */

static const struct gt_optim_state_row sgd_states[] = { { "momentum_buffer", -FLT_MAX, FLT_MAX },
	{ .name = NULL } };
static const char *const sgd_settings[] = { "momentum", "nesterov", NULL };
static const struct gt_optim_member sgd_members[] = {
	GT_OPTIM_MEMBER("momentum", NUMBER, momentum),
	GT_OPTIM_MEMBER("dampening", NUMBER, dampening),
	GT_OPTIM_MEMBER("nesterov", BOOL, nesterov),
	{ .name = NULL },
};

static bool has_momentum(const struct gt_optim_options *o)
{
	return o->momentum != 0;
}

/* ---- adam, adamw ---- */

/* exp_avg_sq is a mean of squares. Gradients whose squares overflow leave it infinite, so exp_avg,
 * a mean of gradients, is below the root of the largest number. */
static const struct gt_optim_state_row adam_states[] = { { "exp_avg", -0x1p64F, 0x1p64F },
	{ "exp_avg_sq", 0, FLT_MAX }, { .name = NULL } };
static const char *const adam_settings[] = { "betas", "eps", NULL };
static const struct gt_optim_member adam_members[] = {
	GT_OPTIM_MEMBER("betas", PAIR, beta1),
	GT_OPTIM_MEMBER("eps", NUMBER, eps),
	{ .name = "amsgrad", .type = GT_MEMBER_FALSE },
	{ .name = "capturable", .type = GT_MEMBER_FALSE },
	{ .name = NULL },
};
_Static_assert(
    GT_OPTIM_OPTION(beta2) == GT_OPTIM_OPTION(beta1) + sizeof(double), "betas are a pair");

bool gt_optim_always(const struct gt_optim_options *o)
{
	(void)o;
	return true;
}

/* ---- the table ---- */

/* Weight decay: ResNets with SGD use 1e-4 (He et al.); with AdamW, torch's default is 0.01, and
 * language models customarily take GPT-3's 0.1. */
const struct gt_optim_rule gt_optim_sgd = { .update = GT_UPDATE_SGD,
	.states = sgd_states,
	.members = sgd_members,
	.group = { .has = { "momentum", "dampening" }, .lacks = { "betas", "alpha" } },
	.settings = sgd_settings,
	.decay = { .images = 1e-4 },
	.momentum = 0.9,
	.keeps_states = has_momentum };

const struct gt_optim_rule gt_optim_adam = { .update = GT_UPDATE_ADAM,
	.states = adam_states,
	.members = adam_members,
	.group = { .has = { "betas", "amsgrad" }, .lacks = { "momentum_decay" } },
	.settings = adam_settings,
	.counts_steps = true,
	.adaptive = true,
	.keeps_states = gt_optim_always };

const struct gt_optim_rule gt_optim_adamw = { .update = GT_UPDATE_ADAM,
	.states = adam_states,
	.members = adam_members,
	.group = { .has = { "betas", "amsgrad" }, .lacks = { "momentum_decay" } },
	.settings = adam_settings,
	.counts_steps = true,
	.adaptive = true,
	.decay = { .tokens = 0.1, .images = 0.01, .other = 0.01 },
	.keeps_states = gt_optim_always,
	.decoupled = true };

static const struct gt_optim_rule *const rules[] = {
#define OPTIM_ROW(NAME, name) [GT_##NAME] = &gt_optim_##name,
	GT_OPTIMIZERS(OPTIM_ROW)
};

const struct gt_optim_rule *gt_optim_rule(enum gt_optim_kind kind)
{
	return rules[kind];
}

const struct gt_optim_rule *gt_optim_rule_of(enum gt_optim_kind kind, const struct gt_slot *slot)
{
	const struct gt_optim_rule *rule = rules[kind];

	return rule->operand == GT_OPERAND_TENSORS && !rule->takes(slot) ? rules[rule->fallback]
	                                                                 : rule;
}

bool gt_optim_reads(enum gt_optim_kind kind, const char *setting)
{
	const char *const *name = rules[kind]->settings;

	while (*name && strcmp(*name, setting))
		name++;
	return *name;
}

void gt_optim_readers(char *out, size_t size, const char *setting)
{
	size_t used = 0;

	*out = '\0';
	for (int kind = 0; kind < GT_OPTIM_KINDS && used < size; kind++)
		if (gt_optim_reads((enum gt_optim_kind)kind, setting))
			used += (size_t)snprintf(out + used, size - used, "%s%s",
			    used ? " or " : "", gt_optim_names[kind]);
}
