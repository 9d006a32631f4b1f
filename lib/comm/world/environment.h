/* environment.h - inside comm: one environment being read. */
#ifndef GT_COMM_WORLD_ENVIRONMENT_H
#define GT_COMM_WORLD_ENVIRONMENT_H

#include <stdbool.h>

#include "lib/comm/world/world.h"

struct gt_world_env {
	gt_world_get_fn *get;
	void *self;
};

/* A variable that is there and not empty, or NULL. */
const char *gt_world_variable(const struct gt_world_env *env, const char *name);

/* The whole of a variable as a number from `low` to `high`. */
int gt_world_number(int *out, const struct gt_world_env *env, const char *name, int low, int high,
    struct gt_err *err);

/* Put an address of `length` bytes into the world; `name` is the variable it comes from. */
int gt_world_set_address(struct gt_world *world, const char *address, size_t length,
    const char *name, struct gt_err *err);

/* Slurm: whether this is a task of a step; the list of its nodes, or NULL; the tasks on this node
 * (*out stays where Slurm doesn't tell); the first node as rank 0's address. */
bool gt_world_in_slurm_step(const struct gt_world_env *env);
const char *gt_world_slurm_nodes(const struct gt_world_env *env);
int gt_world_slurm_local_size(int *out, const struct gt_world_env *env, struct gt_err *err);
int gt_world_slurm_address(
    struct gt_world *world, const struct gt_world_env *env, struct gt_err *err);

/* All of TF_CONFIG. */
int gt_world_tf_config(struct gt_world *world, const char *text, struct gt_err *err);

#endif
