/* damage_log.h - private: log damaged samples by name, and their number at the end. */
#ifndef GT_TRAIN_REPORT_DAMAGE_LOG_H
#define GT_TRAIN_REPORT_DAMAGE_LOG_H

#include "lib/base/log.h"
#include "lib/comm/group.h"
#include "lib/data/core/data.h"

/* The state of the warnings about one data set. The caller sets all fields; `named` starts at 0. A
 * data set may hold thousands of damaged samples, so only the first ones are logged by name. */
struct gt_damage_log {
	struct gt_damage *damage; /* the record of damaged samples, borrowed; NULL: there is none */
	struct gt_log *log;       /* the log on rank 0; NULL on other ranks */
	/* the option that names the data set, such as "data"; NULL: the data set is the input of
	 * `gtrain predict`, which is not an option */
	const char *option;
	int max;   /* largest number of samples to log by name */
	int named; /* samples logged by name so far */
};

enum { GT_DAMAGE_NAMES = 5 }; /* the usual value of `max` */

/* Log a warning for each damaged sample that was found since the last call, until `max` samples
 * have been logged. If no damage was found so far, this takes only one comparison. */
void gt_damage_log_names(struct gt_damage_log *l);

/* Give every rank the record of the damaged samples of all ranks, then call gt_damage_log_names().
 * A collective call of the ranks of `group`, which may be NULL. Errors: GT_ENOMEM; any error of the
 * group. */
int gt_damage_log_gather(struct gt_damage_log *l, struct gt_group *group, struct gt_err *err);

/* Log a warning with the number of damaged samples, if it is not 0 and `option` is not NULL. */
void gt_damage_log_count(const struct gt_damage_log *l);

#endif
