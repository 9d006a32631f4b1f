/* slurm.c - Slurm's ways of saying how many tasks a node has, and which node is first. */
#include "lib/comm/world/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A batch script has SLURM_PROCID=0 and the number of tasks that it may start, but is none of them:
 * slurmd has started it (SLURM_TASK_PID), and not for a step.
 */
bool gt_world_in_slurm_step(const struct gt_world_env *env)
{
	return gt_world_variable(env, "SLURM_PROCID") &&
	       (gt_world_variable(env, "SLURM_STEP_NUM_TASKS") ||
	           !gt_world_variable(env, "SLURM_TASK_PID"));
}

const char *gt_world_slurm_nodes(const struct gt_world_env *env)
{
	const char *step = gt_world_variable(env, "SLURM_STEP_NODELIST");

	return step ? step : gt_world_variable(env, "SLURM_JOB_NODELIST");
}

/* One entry of a list such as "4(x2),3": a count and for how many nodes it holds. Returns the text
 * after it, NULL where there is no entry. */
static const char *read_count(const char *text, long *count, long *nodes)
{
	char *end;

	*nodes = 1;
	*count = strtol(text, &end, 10);
	if (end == text || *count < 1 || *count > GT_WORLD_MAX_RANKS)
		return NULL;
	if (!strncmp(end, "(x", 2)) {
		text = end + 2;
		*nodes = strtol(text, &end, 10);
		if (end == text || *nodes < 1 || *nodes > GT_WORLD_MAX_RANKS || *end++ != ')')
			return NULL;
	}
	return *end == ',' ? end + 1 : *end ? NULL : end;
}

int gt_world_slurm_local_size(int *out, const struct gt_world_env *env, struct gt_err *err)
{
	static const char *const lists[] = { "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE" };
	const char *name = NULL, *value = NULL;
	int node = 0, before = 0;

	for (size_t i = 0; i < 2 && !value; i++)
		value = gt_world_variable(env, name = lists[i]);
	if (!value) {
		if (!gt_world_variable(env, "SLURM_NTASKS_PER_NODE"))
			return 0;
		return gt_world_number(
		    out, env, "SLURM_NTASKS_PER_NODE", 1, GT_WORLD_MAX_RANKS, err);
	}
	if (gt_world_variable(env, "SLURM_NODEID") &&
	    gt_world_number(&node, env, "SLURM_NODEID", 0, GT_WORLD_MAX_RANKS, err))
		return err->code;
	for (const char *p = value; *p;) {
		long count, nodes;

		p = read_count(p, &count, &nodes);
		if (!p)
			break;
		if (node < before + nodes) {
			*out = (int)count;
			return 0;
		}
		before += (int)nodes;
	}
	return gt_err_set(err, GT_EINVAL, "%s='%s': no count for node %d", name, value, node);
}

/* The first host of "node[01-03,07],x5" is "node01": the text before the bracket, the first number
 * in it, and the text behind it, where there may be another bracket. */
int gt_world_slurm_address(
    struct gt_world *world, const struct gt_world_env *env, struct gt_err *err)
{
	const char *list = gt_world_slurm_nodes(env);
	char host[sizeof(world->address)];
	size_t n = 0;
	bool inside = false, skip = false, bad = false;

	if (!list) {
		gt_err_set(err, GT_EINVAL, "neither MASTER_ADDR nor SLURM_JOB_NODELIST is set");
		return gt_err_hint(err, "MASTER_ADDR is the host of rank 0");
	}
	for (const char *p = list; *p && (inside || *p != ',') && !bad; p++) {
		if (*p == '[' || *p == ']') {
			bad = inside == (*p == '[') || p[1] == (*p == '[' ? ']' : '[');
			inside = *p == '[';
			skip = false;
		} else if (inside && (*p == '-' || *p == ',')) {
			skip = true;
		} else if (!skip && n < sizeof(host)) {
			host[n++] = *p;
		}
	}
	if (bad || inside || !n)
		return gt_err_set(err, GT_EINVAL, "'%s' is not a list of Slurm's nodes", list);
	return gt_world_set_address(world, host, n, "SLURM_JOB_NODELIST", err);
}
