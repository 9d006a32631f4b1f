/* rules.h - inside optim: what the rows of optimizers are made of. */
#ifndef GT_OPTIM_RULES_H
#define GT_OPTIM_RULES_H

#include <stddef.h>

#include "lib/optim/optim.h"

/* Where an option lies, and a member of a parameter group that is one. */
#define OPTION(member) offsetof(struct gt_optim_options, member)
#define MEMBER(NAME, TYPE, OPTION_NAME)                                                            \
	{                                                                                          \
		.name = (NAME), .type = GT_MEMBER_##TYPE, .offset = OPTION(OPTION_NAME)            \
	}

/* keeps_states() of an optimizer that always does. */
bool gt_optim_always(const struct gt_optim_options *options);

#endif
