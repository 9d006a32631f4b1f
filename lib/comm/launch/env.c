/* env.c - the environment of a rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/comm/launch/job.h"

/* The launcher sets these for every rank; values that it finds belong to another job. */
static const char *const names[] = { "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
	"MASTER_ADDR", "MASTER_PORT", "GTRAIN_SECRET", "GTRAIN_RESTART", "GTRAIN_LISTEN_FD",
	"GTRAIN_COLUMNS" };

enum { NAMES = sizeof(names) / sizeof(*names), MAX_ADDED = NAMES + 1 };

static bool is_ours(const char *variable)
{
	size_t size = strcspn(variable, "=");

	for (int i = 0; i < NAMES; i++)
		if (strlen(names[i]) == size && !memcmp(variable, names[i], size))
			return true;
	return false;
}

void gt_launch_free_environment(char **env)
{
	for (size_t i = 0; env && env[i]; i++)
		free(env[i]);
	free(env);
}

/* `out` has MAX_ADDED elements; err tells whether all could be made. */
static void add_rank_variables(char **out, const struct gt_rank_env *r, struct gt_err *err)
{
	const struct {
		const char *name;
		int value;
	} numbers[] = { { "RANK", r->rank }, { "WORLD_SIZE", r->size }, { "LOCAL_RANK", r->rank },
		{ "LOCAL_WORLD_SIZE", r->size }, { "MASTER_PORT", r->port },
		{ "GTRAIN_RESTART", r->restart } };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers) && !err->code; i++)
		*out++ = gt_asprintf(err, "%s=%d", numbers[i].name, numbers[i].value);
	if (!err->code)
		*out++ = gt_strdup("MASTER_ADDR=127.0.0.1", err);
	if (!err->code)
		*out++ = gt_asprintf(err, "GTRAIN_SECRET=%s", r->secret);
	if (!err->code && !r->rank)
		*out++ = gt_asprintf(err, "GTRAIN_LISTEN_FD=%d", r->listen_fd);
	if (!err->code && !r->rank && r->columns)
		*out++ = gt_asprintf(err, "GTRAIN_COLUMNS=%d", r->columns);
	if (!err->code && r->threads)
		*out++ = gt_asprintf(err, "OMP_NUM_THREADS=%d", r->threads);
}

char **gt_launch_environment(const struct gt_rank_env *rank, struct gt_err *err)
{
	size_t count = 0, kept = 0;
	char **env;

	while (environ[count])
		count++;
	env = gt_calloc(count + MAX_ADDED + 1, sizeof(*env), err);
	if (!env)
		return NULL;
	err->code = GT_OK;
	for (size_t i = 0; i < count && !err->code; i++)
		if (!is_ours(environ[i]))
			env[kept++] = gt_strdup(environ[i], err);
	if (!err->code)
		add_rank_variables(env + kept, rank, err);
	if (err->code) {
		gt_launch_free_environment(env);
		return NULL;
	}
	return env;
}
