/* rules.h - inside optim: rows that have a file of their own, and helpers for all rows. */
#ifndef GT_OPTIM_RULES_H
#define GT_OPTIM_RULES_H

#include <stddef.h>

#include "lib/optim/optim.h"

extern const struct gt_optim_rule gt_optim_muon; /* muon.c */

/* The offset of an option, and a member of a parameter group that holds an option. */
#define GT_OPTIM_OPTION(member) offsetof(struct gt_optim_options, member)
#define GT_OPTIM_MEMBER(NAME, TYPE, OPTION_NAME)                                                   \
	{                                                                                          \
		.name = (NAME), .type = GT_MEMBER_##TYPE, .offset = GT_OPTIM_OPTION(OPTION_NAME)   \
	}

/* keeps_states() of an optimizer that always has states. It returns true. */
bool gt_optim_always(const struct gt_optim_options *options);

#endif
