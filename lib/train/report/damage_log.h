/* damage_log.h - inside train: damaged samples, named when found and counted at the end. */
#ifndef GT_TRAIN_REPORT_DAMAGE_LOG_H
#define GT_TRAIN_REPORT_DAMAGE_LOG_H

#include "lib/base/log.h"
#include "lib/comm/group.h"
#include "lib/data/data.h"

/* The warnings for one data set of a job. Set the first four fields. A data set may hold thousands
 * of damaged samples, so a job logs the names of the first few only. */
struct gt_damage_log {
	struct gt_damage *damage; /* borrowed; NULL: no sample can be damaged */
	struct gt_log *log;       /* on rank 0; NULL on other ranks */
	/* the option that names the data set; NULL for inputs of predict */
	const char *option;
	int most; /* names to log */
	int named;
};

enum { GT_DAMAGE_NAMES = 5 }; /* the usual value of `most` */

/* Warn of each damaged sample found since the last call, until `most` samples are named. If there
 * is no new one, the cost is one comparison. */
void gt_damage_log_names(struct gt_damage_log *l);

/* A collective call: add the damaged samples that all ranks have found to the record of every rank,
 * then warn as above. `group` may be NULL. Errors: GT_ENOMEM, those of the group. */
int gt_damage_log_gather(struct gt_damage_log *l, struct gt_group *group, struct gt_err *err);

/* Warn with the number of damaged samples, if there are any. */
void gt_damage_log_count(const struct gt_damage_log *l);

#endif
