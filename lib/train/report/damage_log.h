/* damage_log.h - private: log damaged samples by name, and their number at the end. */
#ifndef GT_TRAIN_REPORT_DAMAGE_LOG_H
#define GT_TRAIN_REPORT_DAMAGE_LOG_H

#include "lib/base/log.h"
#include "lib/comm/group.h"
#include "lib/data/core/data.h"

/* Warnings about a data set, of which only the first are logged by name. The caller sets all
 * fields; `named` starts at 0. */
struct gt_damage_log {
	struct gt_damage *damage; /* borrowed; NULL: there is none */
	struct gt_log *log;       /* NULL on ranks other than 0 */
	/* the option that names the data, such as "data"; NULL for inputs of `gtrain predict` */
	const char *option;
	int max;   /* most samples to log by name */
	int named; /* logged so far */
};

enum { GT_DAMAGE_NAMES = 5 }; /* the usual value of `max` */

/* Log a warning for each damaged sample that is new, up to `max`. */
void gt_damage_log_names(struct gt_damage_log *l);

/* Combine the records of all ranks, then log names. A collective call; `group` may be NULL. */
int gt_damage_log_gather(struct gt_damage_log *l, struct gt_group *group, struct gt_err *err);

/* Log the number of damaged samples, if any and if `option` is set. */
void gt_damage_log_count(const struct gt_damage_log *l);

#endif
