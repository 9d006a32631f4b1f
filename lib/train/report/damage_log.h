/* damage_log.h - inside train: damaged samples, named when found and counted at the end. */
#ifndef GT_TRAIN_REPORT_DAMAGE_LOG_H
#define GT_TRAIN_REPORT_DAMAGE_LOG_H

#include "lib/base/log.h"
#include "lib/comm/group.h"
#include "lib/data/data.h"

/* Of one data set of a job. Set the first four fields; the names that a job logs are few, as a data
 * set may hold thousands of damaged samples. */
struct gt_damage_log {
	struct gt_damage *damage; /* borrowed; NULL: no sample can be damaged */
	struct gt_log *log;       /* of rank 0; NULL on the others */
	const char *option;       /* that names the data set; NULL: inputs of predict */
	int most;                 /* names to log */
	int named;
};

enum { GT_DAMAGE_NAMES = 5 }; /* a good number for `most` */

/* Warn of each sample that was found to be damaged since the last call, until `most` are named.
 * Costs a comparison where there is none. */
void gt_damage_log_names(struct gt_damage_log *l);

/* A collective call: add what all ranks have found to each one's record, and name it as above.
 * `group` may be NULL. Errors: GT_ENOMEM, those of the group. */
int gt_damage_log_gather(struct gt_damage_log *l, struct gt_group *group, struct gt_err *err);

/* Warn of how many samples are damaged, if any is. */
void gt_damage_log_count(const struct gt_damage_log *l);

#endif
