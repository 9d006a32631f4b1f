/* topics.h - the topics of `gtrain help` that are not commands: models, data and others. */
#ifndef GT_CMD_TOPICS_H
#define GT_CMD_TOPICS_H

#include <jansson.h>
#include <stdio.h>

#include "lib/base/err.h"

/* A row of the table of topics. In the last row, `name` is NULL. */
struct gt_cmd_topic {
	const char *name;
	const char *summary;                         /* a short phrase: lower case, no full stop */
	int (*print)(FILE *out, struct gt_err *err); /* prints the topic as text */
	/* Returns the topic as JSON, which the caller frees, or NULL on an error. */
	json_t *(*describe)(struct gt_err *err);
};

/* Return the table of topics. */
const struct gt_cmd_topic *gt_cmd_topics(void);

/* Return the row of a topic, or NULL if there is no such topic. */
const struct gt_cmd_topic *gt_cmd_topic_find(const char *name);

#endif
