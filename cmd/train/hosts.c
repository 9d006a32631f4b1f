/* hosts.c - the values of --hosts and --ssh. */
#include "cmd/train/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/train/threads.h"

/* Without a terminal of its own, and without questions that several of them would ask at once. */
static const char default_ssh[] = "ssh -T -o BatchMode=yes";

static int split_ssh(
    struct gt_cmd_hosts *out, const char *program, struct gt_arena *arena, struct gt_err *err)
{
	char *text = gt_arena_strdup(arena, program, err), *rest;
	int count = 0;

	if (!text)
		return GT_ENOMEM;
	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (count == GT_CMD_SSH_WORDS)
			return gt_err_set(
			    err, GT_EINVAL, "--ssh: more than %d words", GT_CMD_SSH_WORDS);
		out->ssh[count++] = word;
	}
	return count ? 0 : gt_err_set(err, GT_EINVAL, "--ssh: no program");
}

int gt_cmd_hosts_read(
    struct gt_cmd_hosts *out, struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err)
{
	const char *ssh = cli->ssh ? cli->ssh : getenv("GTRAIN_SSH");
	int ranks;

	if (!cli->hosts)
		return 0;
	if (gt_opts_source(&env->opts, "nproc") == GT_OPT_COMMAND_LINE) {
		gt_err_set(err, GT_EINVAL, "--nproc cannot be combined with --hosts");
		return gt_err_hint(err, "--hosts a:8,b:8 starts 8 ranks on each host");
	}
	if (gt_launch_parse_hosts(
	        out->host, &out->count, &ranks, cli->hosts, &env->opts.arena, err))
		return err->code;
	cli->train.nproc = ranks;
	return split_ssh(out, ssh && *ssh ? ssh : default_ssh, &env->opts.arena, err);
}

int gt_cmd_hosts_check(bool *launches, const struct gt_cmd_hosts *hosts,
    const struct gt_train_cli *cli, const struct gt_world *world, struct gt_err *err)
{
	if (!hosts->count || world->source == GT_WORLD_GTRAIN)
		return 0;
	if (world->source != GT_WORLD_ALONE) {
		gt_err_set(err, GT_EINVAL, "--hosts: the launcher (%s) has started this process",
		    gt_world_source_name(world->source));
		return gt_err_hint(err, "leave out --hosts under a launcher");
	}
	if (gt_cmd_is_threads(cli)) {
		gt_err_set(err, GT_EINVAL, "--hosts cannot be combined with threads as ranks");
		return gt_err_hint(err, "use it with a --parallel mode of processes");
	}
	*launches = true;
	return 0;
}
