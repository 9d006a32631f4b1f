/* rules.h - private: the rows of the optimizers, and helpers to describe an optimizer. */
#ifndef GT_OPTIM_RULES_H
#define GT_OPTIM_RULES_H

#include <stddef.h>

#include "lib/optim/optim.h"

/* gt_optim_sgd and so on: in rules.c, or in a file of their own. */
#define GT_OPTIM_ROW(NAME, name) extern const struct gt_optim_rule gt_optim_##name;
GT_OPTIMIZERS(GT_OPTIM_ROW)
#undef GT_OPTIM_ROW

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
