/* option_table.c - the options of `gtrain train` as fields of struct gt_train_options. */
#include "lib/train/option_table.h"

#include <math.h>

#include "lib/base/opt_json.h"
#include "lib/train/shared_options.h"
#include "lib/train/state.h"

#define RUN_OFFSET(member) offsetof(struct gt_train_options, member)
#define AT(member)         0, 0
#define RECIPES            NULL

static const struct gt_opt table[] = {
#include "lib/train/option_rows.inc"
	{ 0 }
};

const struct gt_opt *gt_train_option_table(void)
{
	return table;
}

void gt_train_options_init(struct gt_train_options *out)
{
	*out = (struct gt_train_options){ 0 };
	gt_opt_set_defaults(table, out);
}

json_t *gt_train_fixed_options(const struct gt_train *t, struct gt_err *err)
{
	struct gt_train_options options = t->o;
	const struct gt_opts opts = { .table = table, .values = &options };

	return gt_opts_fixed_to_json(&opts, err);
}

json_t *gt_train_own_config(const struct gt_train *t, struct gt_err *err)
{
	struct gt_train_options options = t->o;
	const struct gt_opts opts = { .table = table, .values = &options };

	options.nproc = gt_train_world(t);
	return gt_opts_to_json(&opts, err);
}
