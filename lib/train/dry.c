/* dry.c - a dry run warns of plans for which this machine or its GPUs have too little memory. */
#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/train/memory_limit.h"
#include "lib/train/state.h"

/* Fill bytes[stages]: the memory that a rank of each stage needs. */
static int read_stages(uint64_t *bytes, const struct gt_train *t, int stages, struct gt_err *err)
{
	struct gt_session_memory m;
	int rc = 0;

	for (int i = 0; !rc && i < stages; i++) {
		if (stages > 1)
			rc = gt_train_stage_memory(&m, t, i, err);
		else
			gt_train_memory(&m, t);
		bytes[i] = m.total;
	}
	return rc;
}

/*
 * Find the device whose ranks need most memory together. Ranks take the devices in turn, and each
 * stage has as many ranks in a row. Four ranks, two stages of 3 and 1 GiB, two GPUs: GPU 0 has the
 * ranks 0 and 2, which need 3 + 1 GiB, and so has GPU 1. With one stage all ranks need the same.
 */
static void find_fullest(
    struct gt_memory_planned *out, const uint64_t *bytes, int stages, const struct gt_train *t)
{
	int ranks = gt_train_host_ranks(t), sharing = t->s.sharing;
	int devices = (ranks + sharing - 1) / sharing;

	*out = (struct gt_memory_planned){ 0 };
	for (int d = 0; d < devices; d++) {
		struct gt_memory_planned here = { .alike = true };

		for (int r = d; r < ranks; r += devices) {
			uint64_t mine = bytes[(int64_t)r * stages / ranks];

			here.alike &= mine == bytes[(int64_t)d * stages / ranks];
			here.bytes += mine;
			here.ranks++;
		}
		if (here.bytes > out->bytes)
			*out = here;
	}
}

int gt_train_warn_of_memory(
    struct gt_train *t, const struct gt_session_purpose *purpose, struct gt_err *err)
{
	int stages = t->o.parallel.stages > 1 ? t->o.parallel.stages : 1;
	uint64_t *bytes = gt_calloc((size_t)stages, sizeof(*bytes), err);
	struct gt_memory_planned planned;
	struct gt_err why = GT_ERR_INIT;
	int rc = bytes ? read_stages(bytes, t, stages, err) : GT_ENOMEM;

	if (!rc) {
		find_fullest(&planned, bytes, stages, t);
		if (gt_memory_limit_check_plans(&t->s, purpose, t, &planned, &why) == GT_ENOMEM)
			gt_log_warn(t->log, "%s; %s", why.text, why.hint);
	}
	free(bytes);
	return rc;
}
