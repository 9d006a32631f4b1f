/* muon.c - Muon: momentum made orthogonal for hidden matrices, AdamW for all else. */
#include <float.h>
#include <math.h>

#include "lib/optim/rules.h"

/*
 * Source: K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024. Names
 * and arithmetic are those of torch.optim.Muon; `use_muon` tells its param_groups from those of
 * AdamW, as in the authors' MuonWithAuxAdam.
 */

const char *const gt_adjust_lr_names[] = {
	[GT_ADJUST_ORIGINAL] = "original",
	[GT_ADJUST_MATCH_RMS_ADAMW] = "match_rms_adamw",
	[GT_ADJUST_KINDS] = NULL,
};

/* The authors' rate. Under match_rms_adamw AdamW's suits. */
static const double original_lr = 0.02;

static const struct gt_optim_state_row states[] = { { "momentum_buffer", -FLT_MAX, FLT_MAX },
	{ .name = NULL } };
static const char *const settings[] = { "momentum", "adjust-lr", "adam-lr", "betas", "eps", NULL };
static const struct gt_optim_member members[] = {
	GT_OPTIM_MEMBER("momentum", NUMBER, momentum),
	{ .name = "nesterov", .type = GT_MEMBER_TRUE },
	{ .name = "ns_coefficients",
	    .type = GT_MEMBER_CONSTANTS,
	    .constants = gt_muon_coefficients,
	    .count = 3 },
	{ .name = "eps", .type = GT_MEMBER_CONSTANTS, .constants = &gt_muon_eps, .count = 1 },
	{ .name = "ns_steps", .type = GT_MEMBER_INTEGER, .count = GT_MUON_STEPS },
	{ .name = "adjust_lr_fn",
	    .type = GT_MEMBER_WORD,
	    .offset = GT_OPTIM_OPTION(adjust_lr),
	    .words = gt_adjust_lr_names },
	{ .name = "use_addmm", .type = GT_MEMBER_TRUE },
	{ .name = "use_muon", .type = GT_MEMBER_TRUE },
	{ .name = NULL },
};

static bool takes(const struct gt_slot *slot)
{
	return slot->hidden;
}

static double default_lr(const struct gt_optim_options *o)
{
	return o->adjust_lr == GT_ADJUST_ORIGINAL ? original_lr : 0;
}

/* torch.optim.Muon's adjust_lr_fn. */
static void adjust(
    struct gt_update_options *update, const struct gt_optim_options *o, int64_t rows, int64_t cols)
{
	double scale;

	if (o->adjust_lr == GT_ADJUST_MATCH_RMS_ADAMW)
		scale = 0.2 * sqrt((double)(rows > cols ? rows : cols));
	else
		scale = sqrt(fmax(1, (double)rows / (double)cols));
	update->step_scale = (float)scale;
}

/* Weight decay as AdamW's. */
const struct gt_optim_rule gt_optim_muon = {
	.operand = GT_OPERAND_TENSORS,
	.takes = takes,
	.fallback = GT_ADAMW,
	.update = GT_UPDATE_MUON,
	.work = gt_muon_work,
	.states = states,
	.members = members,
	.group = { .has = { "ns_steps" } },
	.settings = settings,
	.momentum = 0.95,
	.adaptive = true,
	.decay = { .tokens = 0.1, .images = 0.01, .other = 0.01 },
	.default_lr = default_lr,
	.keeps_states = gt_optim_always,
	.adjust = adjust,
	.decoupled = true,
};
