/* saved_dcp.c - number the parameters in the optimizer of a distributed checkpoint. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/index.h"
#include "lib/train/checkpoint/saved.h"

/*
 * torch.optim numbers parameters. The keys of a distributed checkpoint are strings:
 *
 *   numbers  {"state": {"0": ...}, "param_groups": [{"params": [0, 1], ...}]}
 *            state_dict() of an optimizer, and gtrain
 *   names    {"state": {"fc.weight": ...}, "param_groups": [{"params": ["fc.weight", ...], ...}]}
 *            get_optimizer_state_dict() of torch.distributed.checkpoint.state_dict
 *
 * Both become {"state": {0: ...}}. Names also become "param_names", as torch.optim has them. A dict
 * without entries is not in the file, so "state" may be missing.
 */

struct named {
	const char *name;
	int64_t number;
};

struct numbering {
	struct gt_arena *arena;
	struct gt_index names;
	int64_t count; /* parameters with names */
};

/* Copy a list of names to `numbers` and `names`; numbers stay as they are. */
static int number_params(struct numbering *n, const struct gt_tree *params, struct gt_tree *numbers,
    struct gt_tree *names, struct gt_err *err)
{
	for (size_t i = 0; i < params->seq.count; i++) {
		struct gt_tree *value = params->seq.items[i].value;
		struct named *one;

		if (value->kind != GT_TREE_STRING) {
			if (gt_tree_append(numbers, value, n->arena, err))
				return GT_ENOMEM;
			continue;
		}
		one = gt_arena_alloc(n->arena, sizeof(*one), err);
		if (!one)
			return GT_ENOMEM;
		*one = (struct named){ value->string.bytes, n->count++ };
		if (gt_index_add(&n->names, one, err) != one)
			return err->code ? err->code
			                 : gt_err_set(err, GT_EFORMAT,
			                       "its optimizer has the parameter '%.200s' twice",
			                       one->name);
		if (gt_tree_append(
		        numbers, gt_tree_int(n->arena, one->number, err), n->arena, err) ||
		    gt_tree_append(names, value, n->arena, err))
			return GT_ENOMEM;
	}
	return 0;
}

static struct gt_tree *number_group(
    struct numbering *n, const struct gt_tree *group, struct gt_err *err)
{
	struct gt_tree *out = gt_tree_dict(n->arena, err);
	struct gt_tree *numbers = gt_tree_list(n->arena, err), *names = gt_tree_list(n->arena, err);

	for (size_t i = 0; i < group->seq.count; i++) {
		const struct gt_tree_item *item = &group->seq.items[i];
		bool params = item->value->kind == GT_TREE_LIST &&
		              item->key->kind == GT_TREE_STRING &&
		              !strcmp(item->key->string.bytes, "params");

		if (!out || !numbers || !names || item->key->kind != GT_TREE_STRING)
			break;
		if (params && number_params(n, item->value, numbers, names, err))
			return NULL;
		if (gt_tree_set(out, item->key->string.bytes, params ? numbers : item->value,
		        n->arena, err))
			return NULL;
	}
	if (out && names && names->seq.count &&
	    gt_tree_set(out, "param_names", names, n->arena, err))
		return NULL;
	return err->code ? NULL : out;
}

/* Return the groups, or NULL with err set; a value that is no list of dicts is left as it is. */
static struct gt_tree *number_groups(
    struct numbering *n, struct gt_tree *groups, struct gt_err *err)
{
	struct gt_tree *out = gt_tree_list(n->arena, err);

	if (!out || groups->kind != GT_TREE_LIST)
		return out ? groups : NULL;
	for (size_t i = 0; i < groups->seq.count; i++) {
		struct gt_tree *group = groups->seq.items[i].value;

		if (group->kind == GT_TREE_DICT)
			group = number_group(n, group, err);
		if (!group || gt_tree_append(out, group, n->arena, err))
			return NULL;
	}
	return out;
}

/* Find the number that a key of "state" means. */
static int find_number(
    int64_t *out, const struct numbering *n, const struct gt_tree *key, struct gt_err *err)
{
	const struct named *one;
	char again[24];

	if (key->kind != GT_TREE_STRING)
		return gt_err_set(
		    err, GT_EFORMAT, "its optimizer's state has a key that is no text");
	one = gt_index_find(&n->names, &key->string.bytes);
	*out = one ? one->number : strtoll(key->string.bytes, NULL, 10);
	snprintf(again, sizeof(again), "%" PRId64, *out);
	if (one || (!n->count && !strcmp(again, key->string.bytes)))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "its optimizer has a state of '%.200s', which is in none of its groups",
	    key->string.bytes);
}

static struct gt_tree *number_state(
    const struct numbering *n, const struct gt_tree *state, struct gt_err *err)
{
	struct gt_tree *out = gt_tree_dict(n->arena, err);

	for (size_t i = 0; out && state && i < state->seq.count; i++) {
		int64_t number = 0;

		if (find_number(&number, n, state->seq.items[i].key, err))
			return NULL;
		if (gt_tree_set_int(out, number, state->seq.items[i].value, n->arena, err))
			return NULL;
	}
	return out;
}

int gt_saved_number_params(struct gt_saved *s, struct gt_err *err)
{
	struct gt_tree *groups = (struct gt_tree *)gt_tree_get(s->optimizer, "param_groups");
	const struct gt_tree *state = gt_tree_get(s->optimizer, "state");
	struct numbering n = { .arena = &s->arena, .names.compare = gt_index_by_name };
	struct gt_tree *out, *numbered;

	if (!groups || (state && state->kind != GT_TREE_DICT))
		return 0;
	out = gt_tree_dict(&s->arena, err);
	groups = out ? number_groups(&n, groups, err) : NULL;
	numbered = groups ? number_state(&n, state, err) : NULL;
	gt_index_release(&n.names);
	if (!numbered || gt_tree_set(out, "state", numbered, &s->arena, err) ||
	    gt_tree_set(out, "param_groups", groups, &s->arena, err))
		return err->code;
	s->optimizer = out;
	return 0;
}
