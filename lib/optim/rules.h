/* rules.h - inside optim: rows of optimizers in separate files, and helpers for all rows. */
#ifndef GT_OPTIM_RULES_H
#define GT_OPTIM_RULES_H

#include <stddef.h>

#include "lib/optim/optim.h"

extern const struct gt_optim_rule gt_optim_muon; /* muon.c */

/* GT_OPTIM_OPTION() is the offset of a member of struct gt_optim_options. GT_OPTIM_MEMBER() is the
 * initializer of a struct gt_optim_member that has the value of this option. */
#define GT_OPTIM_OPTION(member) offsetof(struct gt_optim_options, member)
#define GT_OPTIM_MEMBER(NAME, TYPE, OPTION_NAME)                                                   \
	{                                                                                          \
		.name = (NAME), .type = GT_MEMBER_##TYPE, .offset = GT_OPTIM_OPTION(OPTION_NAME)   \
	}

/* Return true. This is gt_optim_rule.keeps_states of optimizers that always keep their states. */
bool gt_optim_always(const struct gt_optim_options *options);

#endif
