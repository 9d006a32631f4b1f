/* snapshot_match.h - private: find the model's parameters in the optimizer of a checkpoint. */
#ifndef GT_TRAIN_RUN_SNAPSHOT_MATCH_H
#define GT_TRAIN_RUN_SNAPSHOT_MATCH_H

#include "lib/train/run/snapshot_layout.h"

/* The rules by which names in a checkpoint of another program become names of the model. */
struct gt_snapshot_naming {
	/* rules "REGEX=REPLACEMENT", applied one after the other to every name; NULL: no rules */
	const char *const *maps;
	/* Storage for the rule that gt_snapshot_find_naming() makes. With such a rule, `maps`
	 * points to `own`, and own[0] points to `cut`. */
	const char *own[2];
	char cut[80];
};

/*
 * Set *out to the rules of the user, s->maps. If there are none, look at the first word of each
 * name: the part up to the first '.'. If all names of the state_dict have the same first word, and
 * no name of the model begins with this word, set *out to a rule that removes the word. An example
 * is "model." in "model.conv1.weight": a LightningModule puts the name of its attribute before the
 * names. *out must not be copied or moved. Errors: GT_ENOMEM.
 */
int gt_snapshot_find_naming(struct gt_snapshot_naming *out, const struct gt_snapshot *s,
    const struct gt_state_dict *sd, struct gt_err *err);

/* The order that the search assumed for the parameters of a group. For a file of another program,
 * the assumption may be wrong, except for GT_ORDER_CERTAIN. */
enum gt_snapshot_order {
	GT_ORDER_CERTAIN,    /* gtrain wrote the file, or the place was found by name */
	GT_ORDER_MODEL,      /* the order of declaration in the model */
	GT_ORDER_STATE_DICT, /* the order of the state_dict in the file */
};

/* The place of a parameter in the file's "optimizer". */
struct gt_snapshot_place {
	int64_t number;               /* the parameter's number, which is its key in "state" */
	size_t group;                 /* index of its group in "param_groups" */
	enum gt_snapshot_order order; /* of the parameters in this group */
};

/* The parameters that the optimizer updates, and their places in a file. */
struct gt_snapshot_match {
	struct gt_snapshot_groups groups;
	struct gt_snapshot_place *places; /* [groups.count] places[i] is for groups.slots[i] */
	/* The next two fields are set for another program's file. */
	/* number of parameters that have weight decay in the file, and none in this run */
	size_t undecayed;
	double base_lr; /* learning rate in the file for parameters whose lr_scale is 1 */
};

/*
 * Find the parameters of s->store in the optimizer of the file `saved`. `options` are the options
 * of the run's optimizer.
 *
 * If another program wrote the file and its groups have "param_names", as PyTorch writes them since
 * version 2.6, parameters are found by name. In this case the file may have any groups, and any
 * order of parameters in them. Prefixes and s->maps apply to these names as they apply to the names
 * of weights. The file may have or lack parameters that this run has frozen.
 *
 * Otherwise parameters are found by position. The file must have the groups of snapshot_layout.h,
 * or one group of all parameters. The function assumes that the parameters of each group are in the
 * order of declaration in the model. But for a file that another program wrote with torch.save, it
 * assumes the order of the state_dict `sd`, if `sd` has all parameters of the group.
 *
 * The groups of another program's file may have their own learning rates and may lack weight decay.
 * If the file has several groups, the learning rates of two parameters must have the same ratio as
 * their lr_scale. A parameter without weight decay in the file must have none in this run.
 *
 * `naming` is used only for files of other programs. Release *out even after an error. Errors:
 * GT_EFORMAT if the file has other parameters or is damaged; GT_EINVAL if learning rates or weight
 * decays break the rules above; GT_ENOMEM.
 */
int gt_snapshot_match(struct gt_snapshot_match *out, const struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved,
    const struct gt_state_dict *sd, const struct gt_snapshot_naming *naming, struct gt_err *err);
void gt_snapshot_match_release(struct gt_snapshot_match *match);

#endif
