/* adan.c - Adan: means of gradients, of their differences, and of squares. */
#include <float.h>

#include "lib/optim/rules.h"

/*
 * Source: X. Xie et al., arXiv 2208.06677. With the gradient g and the betas of the authors'
 * program, which are 1 minus those of the paper, a step is
 *
 *   difference    d = g - g of the last step; 0 in the first step
 *   exp_avg       m = beta1 m + (1 - beta1) g
 *   exp_avg_diff  v = beta2 v + (1 - beta2) d
 *   exp_avg_sq    n = beta3 n + (1 - beta3) (g + beta2 d)^2
 *   parameter     p = (p - lr (m / (1 - beta1^t) + beta2 v / (1 - beta2^t))
 *                          / (sqrt(n / (1 - beta3^t)) + eps)) / (1 + lr weight_decay)
 *
 * The state neg_pre_grad is -g. Names are those of the authors' program.
 */

static const struct gt_optim_state_row states[] = { { "exp_avg", -FLT_MAX, FLT_MAX },
	{ "exp_avg_diff", -FLT_MAX, FLT_MAX }, { "exp_avg_sq", 0, FLT_MAX },
	{ "neg_pre_grad", -FLT_MAX, FLT_MAX }, { .name = NULL } };
static const double betas[] = { GT_ADAN_BETA1, GT_ADAN_BETA2, GT_ADAN_BETA3 };
static const char *const settings[] = { "eps", NULL };
static const struct gt_optim_member members[] = {
	{ .name = "betas", .type = GT_MEMBER_CONSTANTS, .constants = betas, .count = 3 },
	GT_OPTIM_MEMBER("eps", NUMBER, eps),
	{ .name = "no_prox", .type = GT_MEMBER_FALSE },
	{ .name = NULL },
};

/* Weight decay as in the paper. */
const struct gt_optim_rule gt_optim_adan = {
	.update = GT_UPDATE_ADAN,
	.states = states,
	.members = members,
	.settings = settings,
	.counts_steps = true,
	.adaptive = true,
	.decay = { .tokens = 0.02, .images = 0.02, .other = 0.02 },
	.keeps_states = gt_optim_always,
	.decoupled = true,
};
