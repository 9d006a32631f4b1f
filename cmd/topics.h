/* topics.h - subjects that `gtrain help` describes besides commands: models, data, resume. */
#ifndef GT_CMD_TOPICS_H
#define GT_CMD_TOPICS_H

#include <jansson.h>
#include <stdio.h>

#include "lib/base/err.h"

/* A row of the table of topics. The last row has no name. */
struct gt_cmd_topic {
	const char *name;
	const char *summary; /* half a line: lower case, no full stop */
	int (*print)(FILE *out, struct gt_err *err);
	json_t *(*describe)(struct gt_err *err); /* yours; NULL on an error */
};

const struct gt_cmd_topic *gt_cmd_topics(void);

/* NULL if there is no such topic. */
const struct gt_cmd_topic *gt_cmd_topic_find(const char *name);

#endif
