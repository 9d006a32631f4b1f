/* environment.h - private: read the variables of an environment. */
#ifndef GT_COMM_WORLD_ENVIRONMENT_H
#define GT_COMM_WORLD_ENVIRONMENT_H

#include <stdbool.h>

#include "lib/comm/world/world.h"

/* An environment: get(self, NAME) returns the value of the variable NAME. */
struct gt_world_env {
	gt_world_get_fn *get;
	void *self;
};

/* Return the value of a variable, or NULL if the variable is not set or is empty. */
const char *gt_world_variable(const struct gt_world_env *env, const char *name);

/* Set *out to the value of a variable, an integer from `low` to `high`. GT_EINVAL if the variable
 * is not set, or if its value is not a decimal integer in this range. */
int gt_world_number(int *out, const struct gt_world_env *env, const char *name, int low, int high,
    struct gt_err *err);

/* Set world->address to an address of `length` bytes, without the brackets of "[::1]". `name` is
 * the variable that contains the address, for error messages. GT_EINVAL if the address is empty or
 * too long. */
int gt_world_set_address(struct gt_world *world, const char *address, size_t length,
    const char *name, struct gt_err *err);

/* Return whether an address, without brackets, is one of the loopback interface. */
bool gt_world_is_loopback(const char *address);

/* Return whether an address, without brackets, is this host's. A name may be looked up. */
bool gt_world_is_this_host(const char *address);

/* Return whether this process is a task of a Slurm step (srun). The batch script itself is not a
 * task. */
bool gt_world_in_slurm_step(const struct gt_world_env *env);

/* Return Slurm's list of the nodes of the step. If there is none, return the list of the nodes of
 * the job. NULL: there is no list. */
const char *gt_world_slurm_nodes(const struct gt_world_env *env);

/* Set *out to the number of tasks on this node. If Slurm has set no variable with this number, *out
 * is unchanged. */
int gt_world_slurm_local_size(int *out, const struct gt_world_env *env, struct gt_err *err);

/* Set world->address, the address of rank 0, to the first node in Slurm's list. */
int gt_world_slurm_address(
    struct gt_world *world, const struct gt_world_env *env, struct gt_err *err);

/* Set the ranks, the address and the other members of *world from `text`, the value of
 * TF_CONFIG. */
int gt_world_tf_config(struct gt_world *world, const char *text, struct gt_err *err);

#endif
