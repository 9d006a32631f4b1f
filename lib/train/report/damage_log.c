/* damage_log.c - warnings about damaged samples: of a whole job, once, by rank 0. */
#include "lib/train/report/damage_log.h"

#include <stdlib.h>

#include "lib/base/mem.h"

void gt_damage_log_names(struct gt_damage_log *l)
{
	char text[GT_DAMAGE_TEXT];

	if (!l->damage || !l->log || !gt_damage_count(l->damage))
		return;
	for (; l->named < l->max && gt_damage_next(l->damage, text); l->named++)
		if (l->option)
			gt_log_warn(l->log, "{%s}: %s; left out", l->option, text);
		else
			gt_log_warn(l->log, "%s; left out", text);
}

/* The records of all ranks, one after the other. */
static int exchange(
    struct gt_damage *d, struct gt_group *group, char *records, size_t bytes, struct gt_err *err)
{
	char *mine = records + (size_t)group->rank * bytes;
	const struct gt_collective all = { .kind = GT_ALL_GATHER,
		.in = mine,
		.out = records,
		.count = (int64_t)bytes,
		.dtype = GT_U8,
		.what = "damaged samples" };
	int rc;

	gt_damage_pack(d, mine);
	rc = gt_group_run(group, &all, err);
	for (int i = 0; !rc && i < group->size; i++)
		if (i != group->rank)
			rc = gt_damage_merge(d, records + (size_t)i * bytes, err);
	return rc;
}

int gt_damage_log_gather(struct gt_damage_log *l, struct gt_group *group, struct gt_err *err)
{
	struct gt_damage *d = l->damage;
	int64_t count = d ? gt_damage_count(d) : 0;
	int rc = 0;

	if (d && group && group->size > 1) {
		rc = gt_all_reduce(group, &count, 1, GT_I64, GT_MAX, err);
		if (!rc && count) {
			size_t bytes = gt_damage_bytes(d);
			char *records = gt_calloc((size_t)group->size, bytes, err);

			rc = records ? exchange(d, group, records, bytes, err) : GT_ENOMEM;
			free(records);
		}
	}
	if (!rc)
		gt_damage_log_names(l);
	return rc;
}

void gt_damage_log_count(const struct gt_damage_log *l)
{
	int64_t count = l->damage && l->log ? gt_damage_count(l->damage) : 0;

	if (count && l->option)
		gt_log_warn(l->log,
		    "{%s}: damaged images left out: %lld of %lld; {strict-data} makes them an error",
		    l->option, (long long)count, (long long)gt_damage_samples(l->damage));
}
