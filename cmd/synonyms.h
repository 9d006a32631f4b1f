/* synonyms.h - words of other programs for options and commands, for hints. */
#ifndef CMD_SYNONYMS_H
#define CMD_SYNONYMS_H

#include "lib/base/opt.h"

extern const struct gt_opt_synonym gt_cmd_synonyms[];

/* Words that are no commands, separated by spaces, and the command to type. The table ends with a
 * row of zeros. */
struct gt_cmd_habit {
	const char *words, *use;
};

extern const struct gt_cmd_habit gt_cmd_habits[];

#endif
