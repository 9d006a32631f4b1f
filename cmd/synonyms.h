/* synonyms.h - words of other programs for options, for hints. */
#ifndef CMD_SYNONYMS_H
#define CMD_SYNONYMS_H

#include "lib/base/opt.h"

extern const struct gt_opt_synonym gt_cmd_synonyms[];

#endif
