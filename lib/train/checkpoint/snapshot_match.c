/* snapshot_match.c - the model's parameters in the optimizer of a checkpoint. */
#include "lib/train/checkpoint/snapshot_match.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/edit/rename.h"
#include "lib/train/checkpoint/naming.h"

/* ---- names ---- */

/* The caller frees the list. */
static const char **names_of(const struct gt_state_dict *sd, struct gt_err *err)
{
	const char **names = gt_calloc(sd->count, sizeof(*names), err);

	for (size_t i = 0; names && i < sd->count; i++)
		names[i] = sd->entries[i].name;
	return names;
}

/* Set slots[i] to the parameter that names[i] means; NULL: none. */
static int find_slots(const struct gt_slot **slots, const char *const *names, size_t count,
    const struct gt_snapshot *s, const struct gt_naming *naming, struct gt_err *err)
{
	struct gt_renames renames;
	struct gt_arena arena = { 0 };
	int rc = gt_renames_init(&renames, naming->maps, err);

	for (size_t i = 0; !rc && i < count; i++) {
		const char *name = gt_renames_apply(&renames, names[i], &arena, err);

		rc = name ? 0 : err->code;
		if (name)
			slots[i] = gt_weights_find(s->store, s->model, name);
	}
	gt_renames_release(&renames);
	gt_arena_release(&arena);
	return rc;
}

/* ---- groups of the file ---- */

const struct gt_tree *gt_snapshot_group_params(const struct gt_tree *groups, size_t i)
{
	const struct gt_tree *params = NULL;

	if (groups && groups->kind == GT_TREE_LIST && i < groups->seq.count)
		params = gt_tree_get(groups->seq.items[i].value, "params");
	return params && params->kind == GT_TREE_LIST ? params : NULL;
}

void gt_snapshot_list_counts(char *out, size_t size, const struct gt_tree *groups)
{
	enum { MOST_LISTED = 10 };
	const struct gt_tree *params;
	size_t used = 0;

	snprintf(out, size, "none");
	for (size_t i = 0; i < MOST_LISTED && used < size; i++) {
		params = gt_snapshot_group_params(groups, i);
		if (!params)
			return;
		used += (size_t)snprintf(out + used, size - used, "%s%zu",
		    !i                                        ? ""
		    : gt_snapshot_group_params(groups, i + 1) ? ", "
		                                              : " and ",
		    params->seq.count);
	}
}

size_t gt_snapshot_count_params(const struct gt_tree *groups)
{
	const struct gt_tree *params;
	size_t total = 0;

	for (size_t i = 0; (params = gt_snapshot_group_params(groups, i)); i++)
		total += params->seq.count;
	return total;
}

static size_t count_frozen(const struct gt_store *store)
{
	size_t n = 0;

	for (size_t i = 0; i < store->slot_count; i++)
		n += store->slots[i].frozen;
	return n;
}

/* The file has another number of parameters than this optimizer. */
static int fail_count(
    const struct gt_store *store, size_t count, const struct gt_tree *groups, struct gt_err *err)
{
	size_t frozen = count_frozen(store), total = gt_snapshot_count_params(groups);
	char there[120];

	gt_snapshot_list_counts(there, sizeof(there), groups);
	gt_err_set(err, GT_EFORMAT, "the optimizer's groups hold %s parameters, here they are %zu",
	    there, count);
	err->mismatch = true;
	if (frozen && total == count + frozen)
		return gt_err_hint(err,
		    "{freeze} keeps %zu parameter%s out of the groups: leave it out, or start a "
		    "new run from the weights, with {init-from}",
		    frozen, frozen == 1 ? "" : "s");
	return gt_err_hint(err, "was another network trained, or only a part of this one?");
}

int gt_snapshot_read_number(
    struct gt_snapshot_place *place, const struct gt_tree *params, size_t i, struct gt_err *err)
{
	if (gt_tree_as_int(params->seq.items[i].value, &place->number))
		return 0;
	return gt_err_set(err, GT_EFORMAT, "the optimizer's 'params' are not numbers");
}

/* ---- places by name ---- */

/* The parameters of the file with their names, group after group. */
struct named {
	size_t count;
	const char **names;               /* [count] without the prefixes of wrappers */
	struct gt_snapshot_place *places; /* [count] */
	const struct gt_slot **slots;     /* [count] that the names mean; NULL: none */
	struct gt_arena arena;            /* of names */
};

static const struct gt_tree *names_of_group(const struct gt_tree *groups, size_t i)
{
	return gt_tree_get(groups->seq.items[i].value, "param_names");
}

/* Whether names count; read_group_names() reports a group without names among others with names. */
static bool has_names(const struct gt_tree *groups)
{
	for (size_t i = 0; gt_snapshot_group_params(groups, i); i++)
		if (names_of_group(groups, i))
			return true;
	return false;
}

/* The names of a group, which torch.optim gives to all groups or to none. */
static int read_group_names(struct named *n, const struct gt_tree *groups, size_t group,
    const struct gt_tree *params, struct gt_err *err)
{
	const struct gt_tree *names = names_of_group(groups, group);
	size_t count = 0;

	if (names && names->kind != GT_TREE_LIST)
		goto no_names;
	if (names)
		count = names->seq.count;
	if (count != params->seq.count)
		return gt_err_set(err, GT_EFORMAT,
		    "group %zu of its optimizer has %zu parameters and %zu 'param_names'", group,
		    params->seq.count, count);
	for (size_t i = 0; i < count; i++, n->count++) {
		const struct gt_tree *name = names->seq.items[i].value;

		if (name->kind != GT_TREE_STRING)
			goto no_names;
		n->names[n->count] = gt_state_dict_bare_name(name->string.bytes, &n->arena, err);
		if (!n->names[n->count])
			return GT_ENOMEM;
		n->places[n->count].group = group;
		if (gt_snapshot_read_number(&n->places[n->count], params, i, err))
			return err->code;
	}
	return 0;
no_names:
	return gt_err_set(err, GT_EFORMAT,
	    "group %zu of its optimizer: 'param_names' is no list of names", group);
}

static int read_named(struct named *n, const struct gt_tree *groups, struct gt_err *err)
{
	const struct gt_tree *params;
	size_t count = gt_snapshot_count_params(groups);
	int rc = 0;

	n->names = gt_calloc(count, sizeof(*n->names), err);
	n->places = gt_calloc(count, sizeof(*n->places), err);
	n->slots = gt_calloc(count, sizeof(*n->slots), err);
	if (!n->names || !n->places || !n->slots)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && (params = gt_snapshot_group_params(groups, i)); i++)
		rc = read_group_names(n, groups, i, params, err);
	return rc;
}

static void release_named(struct named *n)
{
	free(n->names);
	free(n->places);
	free(n->slots);
	gt_arena_release(&n->arena);
}

static int fail_name(const char *name, struct gt_err *err)
{
	gt_err_set(
	    err, GT_EFORMAT, "its optimizer has a parameter '%s', which the model has not", name);
	return gt_err_hint(err, "{map} REGEX=REPLACEMENT renames it");
}

/* Find the place of each slot of the store among the named parameters, from 1; 0: it is not among
 * them. */
static int index_named(
    size_t *found, const struct named *n, const struct gt_store *store, struct gt_err *err)
{
	for (size_t i = 0; i < n->count; i++) {
		const struct gt_slot *slot = n->slots[i];

		if (!slot || !gt_slot_is_weight(slot))
			return fail_name(n->names[i], err);
		if (found[slot - store->slots])
			return gt_err_set(err, GT_EFORMAT,
			    "two parameters of its optimizer are '%s'", slot->name);
		found[slot - store->slots] = i + 1;
	}
	return 0;
}

/* Set the places of the parameters from a list of names. */
static int place_named(struct gt_snapshot_match *m, const struct named *n,
    const struct gt_store *store, struct gt_err *err)
{
	size_t *found = gt_calloc(store->slot_count, sizeof(*found), err);
	int rc = found ? index_named(found, n, store, err) : GT_ENOMEM;

	for (size_t i = 0; !rc && i < m->groups.count; i++) {
		const struct gt_slot *slot = m->groups.slots[i];
		size_t at = found[slot - store->slots];

		if (at)
			m->places[i] = n->places[at - 1];
		else
			rc = gt_err_set(
			    err, GT_EFORMAT, "its optimizer has no parameter '%s'", slot->name);
	}
	free(found);
	return rc;
}

/* The model, as gt_naming_find() asks for its names. */
static bool knows_name(void *self, const char *name)
{
	const struct gt_snapshot *s = self;

	return gt_weights_find(s->store, s->model, name);
}

static int match_by_name(struct gt_snapshot_match *m, const struct gt_snapshot *s,
    const struct gt_tree *groups, struct gt_err *err)
{
	struct gt_naming naming;
	struct gt_snapshot self = *s;
	struct named n = { 0 };
	int rc = read_named(&n, groups, err);

	if (!rc) {
		gt_naming_find(&naming, s->maps, n.names, n.count, knows_name, &self);
		rc = find_slots(n.slots, n.names, n.count, s, &naming, err);
	}
	if (!rc)
		rc = place_named(m, &n, s->store, err);
	release_named(&n);
	return rc;
}

/* ---- places by position ---- */

/* The place of each slot among the keys of the state_dict, from 1; 0: none. A tensor with two keys
 * is a parameter at the first of them. */
static int find_keys(size_t *keys, const struct gt_snapshot *s, const struct gt_state_dict *sd,
    const struct gt_naming *naming, struct gt_err *err)
{
	const struct gt_slot **slots = gt_calloc(sd->count, sizeof(*slots), err);
	const char **names = names_of(sd, err);
	int rc = GT_ENOMEM;

	if (slots && names)
		rc = find_slots(slots, names, sd->count, s, naming, err);
	for (size_t i = 0; !rc && i < sd->count; i++)
		if (slots[i] && !keys[slots[i] - s->store->slots])
			keys[slots[i] - s->store->slots] = i + 1;
	free(slots);
	free(names);
	return rc;
}

/* Put the parameters into the order of the file's state_dict, that of the modules of the network
 * which was trained, and so of its parameters() and of its optimizer's groups. A slot without a
 * place there, which has another name in the file, leaves all as declared. */
static enum gt_snapshot_order sort_by_keys(
    const struct gt_slot **slots, size_t count, const struct gt_store *store, const size_t *keys)
{
	for (size_t i = 0; i < count; i++)
		if (!keys[slots[i] - store->slots])
			return GT_ORDER_MODEL;
	for (size_t i = 1; i < count; i++) {
		const struct gt_slot *slot = slots[i];
		size_t k = i;

		for (; k && keys[slots[k - 1] - store->slots] > keys[slot - store->slots]; k--)
			slots[k] = slots[k - 1];
		slots[k] = slot;
	}
	return GT_ORDER_STATE_DICT;
}

/* A state_dict that is no pickle has its keys sorted, so they tell no order. */
static int sort_slots(struct gt_snapshot_match *m, const struct gt_snapshot *s,
    const struct gt_saved *saved, const struct gt_state_dict *sd, const struct gt_naming *naming,
    struct gt_err *err)
{
	bool pickle = !strncmp(gt_ckpt_format(saved->files[0]), "torch", 5);
	size_t *keys = gt_calloc(s->store->slot_count, sizeof(*keys), err);
	int rc = !keys ? GT_ENOMEM : pickle ? find_keys(keys, s, sd, naming, err) : 0;

	if (!rc)
		m->order = sort_by_keys(m->groups.slots, m->groups.count, s->store, keys);
	free(keys);
	return rc;
}

/* All parameters as one group: torch's order is that of declaration. */
static void take_one_group(struct gt_snapshot_groups *g, const struct gt_store *store)
{
	g->count = 0;
	for (size_t i = 0; i < store->slot_count; i++)
		if (store->slots[i].role == GT_PARAMETER)
			g->slots[g->count++] = &store->slots[i];
	g->group_count = 1;
	g->groups[0].count = g->count;
}

/* The places of the parameters in the file, group after group. */
static int number_places(
    struct gt_snapshot_match *m, const struct gt_tree *groups, struct gt_err *err)
{
	const struct gt_tree *params;
	size_t at = 0;

	for (size_t i = 0; (params = gt_snapshot_group_params(groups, i)); i++)
		for (size_t k = 0; k < params->seq.count; k++, at++) {
			m->places[at].group = i;
			if (gt_snapshot_read_number(&m->places[at], params, k, err))
				return err->code;
		}
	return 0;
}

/* Whether the groups have the numbers of parameters that the groups of this run have. */
static bool has_groups_of(const struct gt_snapshot_groups *g, const struct gt_tree *groups)
{
	for (size_t i = 0; i < g->group_count; i++) {
		const struct gt_tree *params = gt_snapshot_group_params(groups, i);

		if (!params || params->seq.count != g->groups[i].count)
			return false;
	}
	return !gt_snapshot_group_params(groups, g->group_count);
}

static size_t count_filled(const struct gt_tree *groups)
{
	const struct gt_tree *params;
	size_t filled = 0;

	for (size_t i = 0; (params = gt_snapshot_group_params(groups, i)); i++)
		filled += params->seq.count > 0;
	return filled;
}

/* Match a file of another program without names: its groups take the parameters in one order. */
static int match_by_order(struct gt_snapshot_match *m, const struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved,
    const struct gt_state_dict *sd, const struct gt_naming *naming, struct gt_err *err)
{
	const struct gt_tree *groups = gt_tree_get(saved->optimizer, "param_groups");
	int rc;

	take_one_group(&m->groups, s->store);
	if (gt_snapshot_count_params(groups) != m->groups.count)
		return fail_count(s->store, m->groups.count, groups, err);
	rc = sort_slots(m, s, saved, sd, naming, err);
	if (!rc)
		rc = number_places(m, groups, err);
	if (!rc && count_filled(groups) > 1)
		rc = gt_snapshot_match_shapes(m, options, saved->optimizer, err);
	return rc;
}

/* ---- rates and weight decay of another program's groups ---- */

void gt_snapshot_read_group(const struct gt_tree *groups, size_t i, double *lr, double *decay)
{
	const struct gt_tree *group = groups->seq.items[i].value;

	*lr = *decay = 0;
	if (!gt_tree_as_float(gt_tree_get(group, "initial_lr"), lr))
		gt_tree_as_float(gt_tree_get(group, "lr"), lr);
	gt_tree_as_float(gt_tree_get(group, "weight_decay"), decay);
}

static int fail_rates(const char *a, double lr_a, const char *b, double lr_b, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL,
	    "its optimizer has the learning rates %g for '%s' and %g for '%s'", lr_a, a, lr_b, b);
	return gt_err_hint(
	    err, "{lr-scale} GLOB=X multiplies the learning rate of the matching parameters by X");
}

static int fail_decay(const char *name, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL,
	    "its optimizer has no weight decay for '%s', which has some in this run", name);
	return gt_err_hint(
	    err, "{weight-decay} 0 continues without weight decay; {init-from} starts a new run");
}

/* A file without any weight decay does not tell which parameters would have some. */
static int check_decay(const struct gt_snapshot_match *m, struct gt_err *err)
{
	for (size_t i = 0; !m->decays && i < m->groups.count; i++)
		if (m->groups.slots[i]->decay)
			return fail_decay(m->groups.slots[i]->name, err);
	return 0;
}

/* The ratios of learning rates must be those of {lr-scale}. A single group may have any rate. */
static int check_rates(
    struct gt_snapshot_match *m, const struct gt_tree *groups, struct gt_err *err)
{
	const struct gt_slot *const *slots = m->groups.slots;
	bool one = !gt_snapshot_group_params(groups, 1);
	double first, lr, decay;

	gt_snapshot_read_group(groups, m->groups.count ? m->places[0].group : 0, &first, &decay);
	m->base_lr = one || !m->groups.count ? first : first / slots[0]->lr_scale;
	for (size_t i = 0; !one && i < m->groups.count; i++) {
		gt_snapshot_read_group(groups, m->places[i].group, &lr, &decay);
		if (fabs(lr * slots[0]->lr_scale - first * slots[i]->lr_scale) > 1e-6 * first)
			return fail_rates(slots[0]->name, first, slots[i]->name, lr, err);
	}
	return 0;
}

/* Find the parameters that have weight decay in the file. */
static void read_decay(struct gt_snapshot_match *m, const struct gt_tree *groups)
{
	for (size_t i = 0; i < m->groups.count; i++) {
		double lr, decay;

		gt_snapshot_read_group(groups, m->places[i].group, &lr, &decay);
		m->places[i].decay = decay > 0;
		m->decays |= decay > 0;
	}
}

/* ---- all of it ---- */

static int find_places(struct gt_snapshot_match *m, const struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved,
    const struct gt_state_dict *sd, const struct gt_naming *naming, struct gt_err *err)
{
	const struct gt_tree *groups = gt_tree_get(saved->optimizer, "param_groups");

	/* A file of gtrain's may have got another optimizer's state since. */
	if (!saved->other_program && has_groups_of(&m->groups, groups))
		return number_places(m, groups, err);
	return has_names(groups) ? match_by_name(m, s, groups, err)
	                         : match_by_order(m, s, options, saved, sd, naming, err);
}

/*
 * Find the parameters of s->store in the optimizer of the file `saved`. `options` are the options
 * of the run's optimizer.
 *
 * A file of gtrain must have the groups of gt_snapshot_groups_of().
 *
 * If another program wrote the file and its groups have "param_names", as PyTorch writes them since
 * version 2.6, parameters are found by name. In this case the file may have any groups, and any
 * order of parameters in them. Prefixes and s->maps apply to these names as they apply to the names
 * of weights. The file may have or lack parameters that this run has frozen.
 *
 * If another program wrote the file without names, each group must have its parameters in the order
 * of declaration in the model. But for a file that another program wrote with torch.save, this is
 * the order of the state_dict `sd`, if `sd` has all parameters. If there are several groups,
 * gt_snapshot_match_shapes() finds the group of each parameter.
 *
 * The groups of another program's file may have their own learning rates and may lack weight decay.
 * If the file has several groups, the learning rates of two parameters must have the same ratio as
 * their lr_scale. If no group has a weight decay, and options->weight_decay is above 0, the run
 * must have no parameter with weight decay.
 *
 * `naming` is used only for files of other programs. Release *out even after an error. Errors:
 * GT_EFORMAT if the file has other parameters or is damaged; GT_EINVAL if learning rates or weight
 * decays break the rules above; GT_ENOMEM.
 */
int gt_snapshot_match(struct gt_snapshot_match *out, const struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved,
    const struct gt_state_dict *sd, const struct gt_naming *naming, struct gt_err *err)
{
	const struct gt_tree *groups = gt_tree_get(saved->optimizer, "param_groups");
	int rc;

	*out = (struct gt_snapshot_match){ 0 };
	rc = gt_snapshot_groups_of(&out->groups, s->store, options->kind, err);
	if (rc)
		return rc;
	out->places = gt_calloc(out->groups.count, sizeof(*out->places), err);
	if (!out->places)
		return GT_ENOMEM;
	rc = find_places(out, s, options, saved, sd, naming, err);
	if (rc)
		return rc;
	read_decay(out, groups);
	if (!saved->other_program)
		return 0;
	if (check_rates(out, groups, err))
		return err->code;
	return options->weight_decay > 0 ? check_decay(out, err) : 0;
}

void gt_snapshot_match_release(struct gt_snapshot_match *match)
{
	gt_snapshot_groups_release(&match->groups);
	free(match->places);
}
