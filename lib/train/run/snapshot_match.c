/* snapshot_match.c - the model's parameters in the optimizer of a checkpoint. */
#include "lib/train/run/snapshot_match.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/edit/rename.h"

/* ---- names ---- */

static const char word_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/* The length of a prefix that all names have and the model has not. 0: there is none. */
static size_t strange_prefix(const char *const *names, size_t count, const struct gt_store *store)
{
	const char *first = count ? names[0] : "";
	size_t length = strspn(first, word_letters) + 1;

	if (first[length - 1] != '.')
		return 0;
	for (size_t i = 0; i < count; i++)
		if (strncmp(names[i], first, length))
			return 0;
	for (size_t i = 0; i < store->slot_count; i++)
		if (!strncmp(store->slots[i].name, first, length))
			return 0;
	return length;
}

static void find_naming(struct gt_snapshot_naming *n, const struct gt_snapshot *s,
    const char *const *names, size_t count)
{
	size_t prefix = s->maps ? 0 : strange_prefix(names, count, s->store);

	*n = (struct gt_snapshot_naming){ .maps = s->maps };
	if (!prefix || prefix >= sizeof(n->cut) - 8)
		return;
	snprintf(n->cut, sizeof(n->cut), "^%.*s\\.=", (int)prefix - 1, names[0]);
	n->own[0] = n->cut;
	n->maps = n->own;
}

/* The caller frees the list. */
static const char **names_of(const struct gt_state_dict *sd, struct gt_err *err)
{
	const char **names = gt_calloc(sd->count, sizeof(*names), err);

	for (size_t i = 0; names && i < sd->count; i++)
		names[i] = sd->entries[i].name;
	return names;
}

int gt_snapshot_find_naming(struct gt_snapshot_naming *out, const struct gt_snapshot *s,
    const struct gt_state_dict *sd, struct gt_err *err)
{
	const char **names = names_of(sd, err);

	if (!names)
		return GT_ENOMEM;
	find_naming(out, s, names, sd->count);
	free(names);
	return 0;
}

/* Set slots[i] to the parameter that names[i] means; NULL: none. */
static int find_slots(const struct gt_slot **slots, const char *const *names, size_t count,
    const struct gt_snapshot *s, const struct gt_snapshot_naming *naming, struct gt_err *err)
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

/* The parameters that a file's group numbers; NULL where it has none. */
static const struct gt_tree *group_params(const struct gt_tree *groups, size_t i)
{
	const struct gt_tree *params = NULL;

	if (groups && groups->kind == GT_TREE_LIST && i < groups->seq.count)
		params = gt_tree_get(groups->seq.items[i].value, "params");
	return params && params->kind == GT_TREE_LIST ? params : NULL;
}

/* Numbers of parameters, as in "3, 4 and 1". */
static void list_counts(char *out, size_t size, const size_t *counts, size_t n)
{
	size_t used = 0;

	snprintf(out, size, "none");
	for (size_t i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%zu",
		    !i          ? ""
		    : i + 1 < n ? ", "
		                : " and ",
		    counts[i]);
}

enum { MOST_LISTED = 10 };

static size_t count_frozen(const struct gt_store *store)
{
	size_t n = 0;

	for (size_t i = 0; i < store->slot_count; i++)
		n += store->slots[i].frozen;
	return n;
}

/* The file has other groups than this optimizer. */
static int fail_groups(const struct gt_snapshot_groups *g, const struct gt_store *store,
    const struct gt_tree *groups, struct gt_err *err)
{
	size_t counts[MOST_LISTED], n = 0, frozen = count_frozen(store), total = 0;
	char there[120], here[120];
	const struct gt_tree *params;

	for (size_t i = 0; (params = group_params(groups, i)); i++) {
		total += params->seq.count;
		if (i < MOST_LISTED)
			counts[n++] = params->seq.count;
	}
	list_counts(there, sizeof(there), counts, n);
	for (n = 0; n < MOST_LISTED && n < g->group_count; n++)
		counts[n] = g->groups[n].count;
	list_counts(here, sizeof(here), counts, n);
	gt_err_set(err, GT_EFORMAT, "the optimizer's groups hold %s parameters, here they are %s",
	    there, here);
	err->mismatch = true;
	if (frozen && total == g->count + frozen)
		return gt_err_hint(err,
		    "{freeze} keeps %zu parameter%s out of the groups: leave it out, or start a "
		    "new run from the weights, with {init-from}",
		    frozen, frozen == 1 ? "" : "s");
	return gt_err_hint(err,
	    "first those that decay, then the others, each by their {lr-scale}; or all in one "
	    "group");
}

static int read_number(
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

/* Whether names count; read_names() reports a group without names among others with names. */
static bool has_names(const struct gt_tree *groups)
{
	for (size_t i = 0; group_params(groups, i); i++)
		if (names_of_group(groups, i))
			return true;
	return false;
}

/* The names of a group, which torch.optim gives to all groups or to none. */
static int read_names(struct named *n, const struct gt_tree *groups, size_t group,
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
		if (read_number(&n->places[n->count], params, i, err))
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
	size_t count = 0;
	int rc = 0;

	for (size_t i = 0; (params = group_params(groups, i)); i++)
		count += params->seq.count;
	n->names = gt_calloc(count, sizeof(*n->names), err);
	n->places = gt_calloc(count, sizeof(*n->places), err);
	n->slots = gt_calloc(count, sizeof(*n->slots), err);
	if (!n->names || !n->places || !n->slots)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && (params = group_params(groups, i)); i++)
		rc = read_names(n, groups, i, params, err);
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

/* Where each slot of the store is among the named ones, from 1; 0: nowhere. */
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

static int match_by_name(struct gt_snapshot_match *m, const struct gt_snapshot *s,
    const struct gt_tree *groups, struct gt_err *err)
{
	struct gt_snapshot_naming naming;
	struct named n = { 0 };
	int rc = read_named(&n, groups, err);

	if (!rc) {
		find_naming(&naming, s, n.names, n.count);
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
    const struct gt_snapshot_naming *naming, struct gt_err *err)
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

/* Put a group's slots into the order of the file's state_dict, that of the modules of the network
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
static int sort_groups(struct gt_snapshot_match *m, const struct gt_snapshot *s,
    const struct gt_saved *saved, const struct gt_state_dict *sd,
    const struct gt_snapshot_naming *naming, struct gt_err *err)
{
	bool pickle = !strncmp(gt_ckpt_format(saved->files[0]), "torch", 5);
	size_t *keys = gt_calloc(s->store->slot_count, sizeof(*keys), err);
	int rc = !keys ? GT_ENOMEM : pickle ? find_keys(keys, s, sd, naming, err) : 0;

	for (size_t i = 0, at = 0; !rc && i < m->groups.group_count; i++) {
		size_t end = at + m->groups.groups[i].count;
		enum gt_snapshot_order order =
		    sort_by_keys(m->groups.slots + at, end - at, s->store, keys);

		for (; at < end; at++)
			m->places[at].order = order;
	}
	free(keys);
	return rc;
}

/* One group: torch's order is that of declaration. */
static void take_one_group(struct gt_snapshot_groups *g, const struct gt_store *store)
{
	g->count = 0;
	for (size_t i = 0; i < store->slot_count; i++)
		if (store->slots[i].role == GT_PARAMETER)
			g->slots[g->count++] = &store->slots[i];
	g->group_count = 1;
	g->groups[0].count = g->count;
}

static int match_by_position(struct gt_snapshot_match *m, const struct gt_snapshot *s,
    const struct gt_tree *groups, struct gt_err *err)
{
	struct gt_snapshot_groups *g = &m->groups;
	const struct gt_tree *params = group_params(groups, 0);
	size_t at = 0;

	if (params && params->seq.count == g->count && !group_params(groups, 1))
		take_one_group(g, s->store);
	if (group_params(groups, g->group_count))
		return fail_groups(g, s->store, groups, err);
	for (size_t i = 0; i < g->group_count; i++) {
		params = group_params(groups, i);
		if (!params || params->seq.count != g->groups[i].count)
			return fail_groups(g, s->store, groups, err);
		for (size_t k = 0; k < params->seq.count; k++, at++) {
			m->places[at].group = i;
			if (read_number(&m->places[at], params, k, err))
				return err->code;
		}
	}
	return 0;
}

/* ---- rates and weight decay of another program's groups ---- */

/* The rate and the weight decay of a group of another program's file. */
static void read_group(const struct gt_tree *groups, size_t i, double *lr, double *decay)
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

static int check_parameter(
    struct gt_snapshot_match *m, const struct gt_slot *slot, double decay, struct gt_err *err)
{
	if (slot->decay && decay == 0)
		return fail_decay(slot->name, err);
	m->undecayed += !slot->decay && decay > 0;
	return 0;
}

/* The ratios of learning rates must be those of {lr-scale}, and a parameter without weight decay
 * there must have none here. A single group may have any rate. */
static int check_rates(struct gt_snapshot_match *m, const struct gt_optim_options *options,
    const struct gt_tree *groups, struct gt_err *err)
{
	const struct gt_slot *const *slots = m->groups.slots;
	bool one = !group_params(groups, 1);
	double first, lr, decay;
	int rc = 0;

	read_group(groups, m->groups.count ? m->places[0].group : 0, &first, &decay);
	m->base_lr = one || !m->groups.count ? first : first / slots[0]->lr_scale;
	for (size_t i = 0; !rc && i < m->groups.count; i++) {
		read_group(groups, m->places[i].group, &lr, &decay);
		if (!one &&
		    fabs(lr * slots[0]->lr_scale - first * slots[i]->lr_scale) > 1e-6 * first)
			return fail_rates(slots[0]->name, first, slots[i]->name, lr, err);
		if (options->weight_decay > 0)
			rc = check_parameter(m, slots[i], decay, err);
	}
	return rc;
}

/* ---- all of it ---- */

static int match_foreign(struct gt_snapshot_match *m, const struct gt_snapshot *s,
    const struct gt_saved *saved, const struct gt_state_dict *sd,
    const struct gt_snapshot_naming *naming, const struct gt_tree *groups, struct gt_err *err)
{
	int rc;

	if (has_names(groups))
		return match_by_name(m, s, groups, err);
	rc = match_by_position(m, s, groups, err);
	return rc ? rc : sort_groups(m, s, saved, sd, naming, err);
}

int gt_snapshot_match(struct gt_snapshot_match *out, const struct gt_snapshot *s,
    const struct gt_optim_options *options, const struct gt_saved *saved,
    const struct gt_state_dict *sd, const struct gt_snapshot_naming *naming, struct gt_err *err)
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
	if (!saved->foreign)
		return match_by_position(out, s, groups, err);
	rc = match_foreign(out, s, saved, sd, naming, groups, err);
	return rc ? rc : check_rates(out, options, groups, err);
}

void gt_snapshot_match_release(struct gt_snapshot_match *match)
{
	gt_snapshot_groups_release(&match->groups);
	free(match->places);
}
