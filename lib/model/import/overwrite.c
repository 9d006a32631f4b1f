/* overwrite.c - tensors whose elements a node overwrites, and the other names of these elements. */
#include <string.h>

#include "lib/graph/arrangement.h"
#include "lib/model/import/fold.h"
#include "lib/model/import/network.h"

/*
 * Nodes of gtrain's graph overwrite nothing: for a function that does, the importer emits a new
 * value. Each other name of the same elements gets a new value when it is read the next time. The
 * tensor that a view belongs to is its owner, whose writes are kept in their order.
 *
 *   a = zeros [2, 3]           the owner
 *   b = slice(a, 1, 1, 3)      its places 1, 2, 4 and 5
 *   c = copy_(b, x)            a write of x to b
 *   d = relu(a)                reads a: x at the places of b, and zeros at the others
 *
 * The places of a view are found by its function in fold.c: it views a constant, and so tells the
 * first element and the strides.
 */
struct gt_write {
	struct gt_binding *to;
	struct gt_value *value;
	struct gt_write *next;
};

static struct gt_binding *owner_of(struct gt_binding *b)
{
	return b->owner ? b->owner : b;
}

void gt_import_overwrite(struct gt_import *im, struct gt_binding *of, struct gt_binding *result)
{
	struct gt_binding *owner = owner_of(of);
	struct gt_write *w = gt_arena_alloc(&im->g->arena, sizeof(*w), &im->g->err);
	struct gt_write **last = &owner->pending;

	if (!w)
		return;
	*w = (struct gt_write){ .to = of, .value = result->value };
	while (*last)
		last = &(*last)->next;
	*last = w;
	owner->overwritten = gt_import_target(im);
	result->owner = owner;
	result->viewed = of;
	result->seen = ++owner->writes;
}

/* ---- places ---- */

/* Call the function of a view for the places of the tensor that it views. NULL: they are not known,
 * as of a function without a row in fold.c, or one that may copy. */
static struct gt_constant *view_places(
    struct gt_import *im, struct gt_binding *b, struct gt_constant *viewed)
{
	struct gt_binding *of = b->viewed, before = *of;
	const json_t *node = im->node;
	const struct gt_fold *fold = im->fold;
	struct gt_replay replay = { .part = b->part };

	im->node = b->node;
	im->fold = gt_fold_find(json_string_value(json_object_get(b->node, "target")));
	im->replay = &replay;
	of->constant = viewed;
	of->seen = owner_of(of)->writes;
	if (im->fold)
		im->fold->fold(im);
	of->constant = before.constant;
	of->seen = before.seen;
	im->replay = NULL;
	im->node = node;
	im->fold = fold;
	return replay.found && replay.found->storage == viewed->storage ? replay.found : NULL;
}

/* Return where the elements of b are among those of its owner; NULL if that is not known. */
static struct gt_constant *places_of(struct gt_import *im, struct gt_binding *b)
{
	struct gt_constant *viewed;

	if (b->places || b == owner_of(b) || !b->viewed)
		return b->places;
	viewed = places_of(im, b->viewed);
	b->places = viewed && b->node ? view_places(im, b, viewed) : viewed;
	return b->places;
}

/* Return whether the places of a view are all those of its owner, in their order. */
static bool is_whole(const struct gt_constant *places, const struct gt_constant *all)
{
	int64_t stride = 1;

	for (int i = places->ndim; i-- > 0; stride *= places->shape[i])
		if (places->shape[i] > 1 && places->stride[i] != stride)
			return false;
	return places->elements == all->elements && stride == gt_constant_count(all);
}

/* Describe a copy between a view, whose elements are `inner`, and its owner, whose are `outer`. A
 * dimension along which all elements are the same has one place. */
static void describe_copy(struct gt_arrange_piece *p, const struct gt_constant *places,
    const struct gt_constant *all, struct gt_places *inner, struct gt_places *outer)
{
	int64_t stride = 1;

	p->ndim = places->ndim;
	outer->first = places->elements - all->elements;
	for (int i = places->ndim; i-- > 0; stride *= p->shape[i]) {
		p->shape[i] = places->stride[i] ? places->shape[i] : 1;
		outer->strides[i] = places->stride[i];
		inner->strides[i] = stride;
	}
}

static bool has_shape(const struct gt_value *v, const struct gt_constant *c)
{
	return v->ndim == c->ndim &&
	       !memcmp(v->shape, c->shape, (size_t)v->ndim * sizeof(*v->shape));
}

/* Return the elements at the places of a view. */
static struct gt_value *take(struct gt_import *im, struct gt_value *all,
    const struct gt_constant *places, const struct gt_constant *owner)
{
	struct gt_arrangement a = { .ndim = places->ndim, .count = 1 };
	struct gt_arrange_piece *p = &a.pieces[0];
	struct gt_value *v;

	if (is_whole(places, owner))
		return gt_reshape(im->g, all, places->ndim, places->shape);
	describe_copy(p, places, owner, &p->to, &p->from);
	memcpy(a.shape, p->shape, sizeof(a.shape));
	v = gt_arrange(im->g, 1, &all, &a);
	return v && !has_shape(v, places) ? gt_expand(im->g, v, places->ndim, places->shape) : v;
}

/* Return all elements of an owner with v at the places of a view. The view's places are those where
 * ones, copied as v is, are not 0. */
static struct gt_value *put(struct gt_import *im, struct gt_value *all,
    const struct gt_constant *places, const struct gt_constant *owner, struct gt_value *v)
{
	struct gt_arrangement a = { .ndim = 1, .shape = { all->shape[0] }, .count = 1 };
	struct gt_arrange_piece *p = &a.pieces[0];
	struct gt_map_operand operands[3] = { { .value = NULL } };
	struct gt_value *ones;

	if (!has_shape(v, places))
		return gt_import_fail(im, "overwrites elements of another shape");
	if (is_whole(places, owner))
		return gt_reshape(im->g, v, 1, all->shape);
	describe_copy(p, places, owner, &p->from, &p->to);
	if (gt_arrange_piece_elements(p) != gt_constant_count(places))
		return gt_import_fail(im, "overwrites elements that several places share");
	ones = gt_fill(im->g, GT_F32, v->ndim, v->shape, 1);
	operands[0].value = gt_arrange(im->g, 1, &ones, &a);
	operands[1].value = gt_arrange(im->g, 1, &v, &a);
	operands[2].value = all;
	return gt_apply(im->g, GT_F_WHERE, operands);
}

/* ---- new values ---- */

/* Return the elements of an owner in a row, as they are before its pending writes. */
static struct gt_value *begin_elements(struct gt_import *im, struct gt_binding *owner)
{
	struct gt_value *v = owner->value;

	if (owner->elements)
		return owner->elements;
	if (owner->constant)
		v = gt_import_value(im, owner->constant);
	if (!v)
		return NULL;
	owner->places = gt_constant_new(&im->constants, v->dtype, v->ndim, v->shape);
	return gt_reshape(im->g, v, 1, (int64_t[]){ gt_value_elements(v) });
}

/* Do the pending writes of an owner. Return false if the places of one are not known. */
static bool update_elements(struct gt_import *im, struct gt_binding *owner)
{
	struct gt_value *all = begin_elements(im, owner);

	for (struct gt_write *w = owner->pending; w && all && owner->places; w = w->next) {
		const struct gt_constant *places = places_of(im, w->to);

		all = places ? put(im, all, places, owner->places, w->value) : NULL;
	}
	if (!all || !owner->places)
		return false;
	owner->pending = NULL;
	owner->elements = all;
	return true;
}

bool gt_import_refresh(struct gt_import *im, struct gt_binding *b)
{
	struct gt_binding *owner = owner_of(b);
	const struct gt_constant *places;

	if (b->seen == owner->writes)
		return true;
	if (owner->tensor || !update_elements(im, owner))
		return false;
	places = places_of(im, b);
	b->value = places ? take(im, owner->elements, places, owner->places) : NULL;
	b->constant = NULL;
	b->seen = owner->writes;
	return b->value;
}
