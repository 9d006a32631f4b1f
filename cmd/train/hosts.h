/* hosts.h - the values of --hosts and --ssh. */
#ifndef GT_CMD_TRAIN_HOSTS_H
#define GT_CMD_TRAIN_HOSTS_H

#include "cmd/train/options.h"
#include "lib/comm/launch/launch.h"
#include "lib/comm/world/world.h"

enum { GT_CMD_SSH_WORDS = 32 };

struct gt_cmd_hosts {
	struct gt_launch_host host[GT_LAUNCH_HOSTS];
	int count;
	char *ssh[GT_CMD_SSH_WORDS + 1]; /* ended by NULL */
};

/* Parse --hosts, if it is given, and set --nproc to the number of ranks. Errors: GT_EINVAL, also
 * with --nproc; GT_ENOMEM. */
int gt_cmd_hosts_read(
    struct gt_cmd_hosts *out, struct gt_cmd_env *env, struct gt_train_cli *cli, struct gt_err *err);

/* Whether this process starts the ranks. Errors: GT_EINVAL under another launcher, and with a mode
 * whose ranks are threads. */
int gt_cmd_hosts_check(bool *launches, const struct gt_cmd_hosts *hosts,
    const struct gt_train_cli *cli, const struct gt_world *world, struct gt_err *err);

#endif
