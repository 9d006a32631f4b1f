/* rules.h - private: optimizers outside rules.c, and helpers to describe an optimizer. */
#ifndef GT_OPTIM_RULES_H
#define GT_OPTIM_RULES_H

#include <stddef.h>

#include "lib/optim/optim.h"

/* Rows (optim.h) of optimizers in files of their own: muon.c, adan.c. */
extern const struct gt_optim_rule gt_optim_muon, gt_optim_adan;

/* GT_OPTIM_OPTION() is the offset of an option, which is a member of struct gt_optim_options.
 * GT_OPTIM_MEMBER() initializes a struct gt_optim_member whose value is that of an option. */
#define GT_OPTIM_OPTION(member) offsetof(struct gt_optim_options, member)
#define GT_OPTIM_MEMBER(NAME, TYPE, OPTION_NAME)                                                   \
	{                                                                                          \
		.name = (NAME), .type = GT_MEMBER_##TYPE, .offset = GT_OPTIM_OPTION(OPTION_NAME)   \
	}

/* Return true. Optimizers that keep their states with any options use this function as
 * gt_optim_rule.keeps_states. */
bool gt_optim_always(const struct gt_optim_options *options);

#endif
