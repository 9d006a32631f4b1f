/* snapshot_shapes.c - the groups of an optimizer's parameters, told apart by shapes of states. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/train/checkpoint/snapshot_match.h"

/*
 * torch.optim numbers the parameters of its first group, then those of the second, and so on. The
 * groups of nearly all programs are lists made from named_parameters(), so that each has its
 * parameters in this order, but a file does not tell which of them each group holds. Example, a
 * model with the parameters
 *
 *   0.weight [8, 4]   0.bias [8]   2.weight [3, 8]   2.bias [3]
 *
 * and a file whose groups hold states of the shapes [8, 4], [3, 8] and [8], [3]. Take the model's
 * parameters one by one: each must be the next one of a group, with the shape of its state. Here
 * only one way leads to the end, and it tells the group of each parameter.
 *
 * If several ways do, the states of one parameter could be taken for those of another. The search
 * is then made again with more rules: the learning rates of groups must have the ratios of
 * {lr-scale}; and then also, weight decay must be that of a new run. If there are several ways
 * still, that is an error.
 */
enum rules { SHAPES, RATES, DECAY, RULES };

/* The search gives up after this number of attempts to place a parameter. */
enum { MOST_ATTEMPTS = 200000 };

/* A group of the file that holds parameters. */
struct group {
	size_t first, count; /* places in struct search.places */
	size_t next;         /* number of these places that parameters have taken */
	double lr, decay;
};

struct search {
	const struct gt_slot *const *slots; /* [count] in the order of the groups */
	size_t count;
	const struct gt_snapshot_place *places; /* [count] group after group */
	const struct gt_tree **states;          /* [count] of places[], NULL: none */
	struct group *groups;                   /* [group_count] */
	size_t group_count;
	enum gt_optim_kind kind;
	double base_lr; /* the rate of parameters whose lr_scale is 1 */
	enum rules rules;
	size_t *chosen; /* [count] the group of each parameter, in the way that is tried */
	size_t *found;  /* [count] the same of the first way that was found */
};

bool gt_snapshot_fits(const struct gt_slot *slot, const struct gt_tree *tensor)
{
	if (!tensor || tensor->kind != GT_TREE_TENSOR || tensor->tensor.ndim != slot->ndim)
		return false;
	for (int i = 0; i < slot->ndim; i++)
		if (tensor->tensor.shape[i] != slot->shape[i])
			return false;
	return true;
}

/* Whether a state may be that of a parameter. SGD without momentum has no states, so nothing speaks
 * against it. */
static bool fits_state(
    enum gt_optim_kind kind, const struct gt_slot *slot, const struct gt_tree *state)
{
	const char *name = gt_optim_rule_of(kind, slot)->states[0].name;
	const struct gt_tree *tensor = gt_tree_get(state, name);

	if (!state || state->kind != GT_TREE_DICT || !state->seq.count)
		return true;
	return tensor && (tensor->kind == GT_TREE_NONE || gt_snapshot_fits(slot, tensor));
}

static bool may_take(const struct search *s, const struct group *g, const struct gt_slot *slot)
{
	double wanted = s->base_lr * slot->lr_scale;

	if (g->next == g->count || !fits_state(s->kind, slot, s->states[g->first + g->next]))
		return false;
	if (s->rules >= RATES && fabs(g->lr - wanted) > 1e-6 * wanted)
		return false;
	return s->rules < DECAY || (g->decay > 0) == slot->decay;
}

/* Find the first group, from number `from` on, that may take parameter i. */
static bool choose_group(struct search *s, size_t i, size_t from)
{
	for (size_t k = from; k < s->group_count; k++)
		if (may_take(s, &s->groups[k], s->slots[i])) {
			s->chosen[i] = k;
			s->groups[k].next++;
			return true;
		}
	return false;
}

/* Count the ways in which groups can take all parameters: 0, 1, or 2 for more; also 2 if that takes
 * too long. */
static int count_ways(struct search *s, enum rules rules)
{
	size_t i = 0, from = 0;
	int ways = 0;

	s->rules = rules;
	for (size_t k = 0; k < s->group_count; k++)
		s->groups[k].next = 0;
	for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
		if (i < s->count && choose_group(s, i, from)) {
			i++;
			from = 0;
			continue;
		}
		if (i == s->count && ++ways == 1)
			memcpy(s->found, s->chosen, s->count * sizeof(*s->found));
		if (ways > 1 || !i)
			return ways;
		i--;
		s->groups[s->chosen[i]].next--;
		from = s->chosen[i] + 1;
	}
	return 2;
}

/* The rate of the first group, and that of a parameter with the smallest factor. */
static double find_base(const struct search *s)
{
	double rate = s->groups[0].lr, scale = s->slots[0]->lr_scale;

	for (size_t i = 1; i < s->group_count; i++)
		rate = fmin(rate, s->groups[i].lr);
	for (size_t i = 1; i < s->count; i++)
		scale = fmin(scale, s->slots[i]->lr_scale);
	return rate / scale;
}

static void read_groups(struct search *s, const struct gt_tree *groups)
{
	const struct gt_tree *params;
	size_t at = 0;

	for (size_t i = 0; (params = gt_snapshot_group_params(groups, i)); i++) {
		struct group *g = &s->groups[s->group_count];

		if (!params->seq.count)
			continue;
		*g = (struct group){ .first = at, .count = params->seq.count };
		gt_snapshot_read_group(groups, i, &g->lr, &g->decay);
		at += g->count;
		s->group_count++;
	}
	s->base_lr = find_base(s);
}

static int fail_shapes(
    const struct gt_tree *groups, enum gt_snapshot_order order, struct gt_err *err)
{
	char counts[120];

	gt_snapshot_list_counts(counts, sizeof(counts), groups);
	gt_err_set(err, GT_EFORMAT,
	    "the optimizer's groups hold states of %s parameters, whose shapes do not follow the "
	    "order of the %s",
	    counts, order == GT_ORDER_STATE_DICT ? "state_dict" : "model's parameters");
	err->mismatch = true;
	return gt_err_hint(err,
	    "groups with the names of their parameters (PyTorch 2.6, an optimizer made from "
	    "named_parameters()) may have any order; {init-from} starts a new run");
}

static int fail_ambiguous(const struct gt_tree *groups, struct gt_err *err)
{
	char counts[120];

	gt_snapshot_list_counts(counts, sizeof(counts), groups);
	gt_err_set(err, GT_EFORMAT,
	    "the optimizer's groups hold %s parameters, and their states do not tell which ones",
	    counts);
	err->mismatch = true;
	return gt_err_hint(err,
	    "save names of parameters with the optimizer (PyTorch 2.6, an optimizer made from "
	    "named_parameters()); {init-from} starts a new run from the weights");
}

/* Sort the places of the file into the order of the parameters, by the way that was found. */
static int sort_places(struct gt_snapshot_match *m, struct search *s, struct gt_err *err)
{
	struct gt_snapshot_place *sorted = gt_calloc(s->count, sizeof(*sorted), err);

	if (!sorted)
		return GT_ENOMEM;
	for (size_t k = 0; k < s->group_count; k++)
		s->groups[k].next = 0;
	for (size_t i = 0; i < s->count; i++) {
		struct group *g = &s->groups[s->found[i]];

		sorted[i] = m->places[g->first + g->next++];
	}
	free(m->places);
	m->places = sorted;
	return 0;
}

static int search_ways(
    struct gt_snapshot_match *m, struct search *s, const struct gt_tree *groups, struct gt_err *err)
{
	int ways = 2;

	for (enum rules rules = SHAPES; ways > 1 && rules < RULES; rules++) {
		ways = count_ways(s, rules);
		if (!ways && rules == SHAPES)
			return fail_shapes(groups, m->order, err);
		m->assumed = rules == DECAY;
	}
	return ways == 1 ? sort_places(m, s, err) : fail_ambiguous(groups, err);
}

/* m->groups.slots has all parameters, in the order that each group of the file has, too. m->places
 * has the places in the file, group after group. */
int gt_snapshot_match_shapes(struct gt_snapshot_match *m, const struct gt_optim_options *options,
    const struct gt_tree *optimizer, struct gt_err *err)
{
	const struct gt_tree *groups = gt_tree_get(optimizer, "param_groups");
	const struct gt_tree *state = gt_tree_get(optimizer, "state");
	struct search s = { .slots = m->groups.slots,
		.count = m->groups.count,
		.places = m->places,
		.kind = options->kind };
	int rc = GT_ENOMEM;

	s.states = gt_calloc(s.count, sizeof(*s.states), err);
	s.groups = gt_calloc(s.count, sizeof(*s.groups), err);
	s.chosen = gt_calloc(s.count, sizeof(*s.chosen), err);
	s.found = gt_calloc(s.count, sizeof(*s.found), err);
	if (s.states && s.groups && s.chosen && s.found) {
		for (size_t i = 0; i < s.count; i++)
			s.states[i] = gt_tree_get_int(state, m->places[i].number);
		read_groups(&s, groups);
		rc = search_ways(m, &s, groups, err);
	}
	free(s.states);
	free(s.groups);
	free(s.chosen);
	free(s.found);
	return rc;
}
