/* options.c - the options of `gtrain train`. */
#include "cmd/train/options.h"

#include "cmd/recipes.h"
#include "lib/train/shared_options.h"

#include <math.h>

#define RUN_OFFSET(member) offsetof(struct gt_train_cli, train.member)
#define AT(member)         GT_OPT_FIELD(struct gt_train_cli, member)
#define RECIPES            gt_cmd_recipe_names

const struct gt_opt gt_train_rows[] = {
#include "lib/train/option_rows.inc"

	GT_CMD_COMMON(struct gt_train_cli), { 0 }
};
