/* test_ckpt_walk.c - the parts of nodes of every kind, in their order. */
#include "lib/ckpt/tree/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/buf.h"

static struct gt_arena arena;
static struct gt_err err;

static int release(void **state)
{
	(void)state;
	gt_arena_release(&arena);
	return 0;
}

static struct gt_tree *text(const char *s)
{
	return gt_tree_string(&arena, s, &err);
}

/* "key:a0 value:b0 attributes:c", of texts. */
static void put_parts(struct gt_buf *out, const struct gt_tree *node)
{
	static const char *const names[] = { "key", "value", "attributes", "args", "items",
		"state" };
	struct gt_walk w = { 0 };

	while (gt_walk_next(node, &w)) {
		assert_ptr_equal(w.node, *w.slot);
		gt_buf_printf(out, "%s%s", out->length ? " " : "", names[w.part]);
		if (w.node->kind == GT_TREE_STRING)
			gt_buf_printf(out, ":%s", w.node->string.bytes);
		if (w.part <= GT_PART_VALUE)
			gt_buf_printf(out, "@%zu", w.index);
	}
	assert_false(gt_walk_next(node, &w)); /* it stays at its end */
	assert_false(gt_walk_next(node, &w));
}

static struct gt_tree *dict(bool attributes)
{
	struct gt_tree *d = gt_tree_dict(&arena, &err);

	gt_tree_set(d, "a", text("x"), &arena, &err);
	gt_tree_set(d, "b", text("y"), &arena, &err);
	d->seq.attributes = attributes ? text("z") : NULL;
	return d;
}

static struct gt_tree *list(size_t count)
{
	struct gt_tree *l = gt_tree_list(&arena, &err);

	while (count--)
		gt_tree_append(l, text("v"), &arena, &err);
	return l;
}

/* Of args, items and state those whose letter is given. */
static struct gt_tree *object(const char *parts)
{
	struct gt_tree *o = gt_tree_opaque(&arena, "a.B", &err);

	o->opaque.args = strchr(parts, 'a') ? gt_tree_tuple(&arena, &err) : NULL;
	o->opaque.items = strchr(parts, 'i') ? list(1) : NULL;
	o->opaque.state = strchr(parts, 's') ? text("s") : NULL;
	return o;
}

static struct gt_tree *tensor(bool attributes)
{
	struct gt_tree *t = gt_tree_tensor(&arena, GT_F32, 0, NULL, NULL, &err);

	t->tensor.attributes = attributes ? dict(false) : NULL;
	return t;
}

static void parts_in_order(void **state)
{
	const struct {
		const struct gt_tree *node;
		const char *parts;
	} rows[] = {
		{ text("leaf"), "" },
		{ gt_tree_none(&arena, &err), "" },
		{ gt_tree_dict(&arena, &err), "" },
		{ dict(false), "key:a@0 value:x@0 key:b@1 value:y@1" },
		{ dict(true), "key:a@0 value:x@0 key:b@1 value:y@1 attributes:z" },
		{ list(0), "" },
		{ list(3), "value:v@0 value:v@1 value:v@2" },
		{ object(""), "" },
		{ object("ais"), "args items state:s" },
		{ object("s"), "state:s" },
		{ object("as"), "args state:s" },
		{ object("i"), "items" },
		{ tensor(false), "" },
		{ tensor(true), "attributes" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_buf out = { 0 };

		put_parts(&out, rows[i].node);
		assert_string_equal(gt_buf_text(&out), rows[i].parts);
		gt_buf_release(&out);
	}
}

static void parts_may_be_exchanged(void **state)
{
	struct gt_tree *d = dict(true), *other = text("other");
	struct gt_walk w = { 0 };

	(void)state;
	while (gt_walk_next(d, &w))
		*w.slot = other;
	assert_ptr_equal(d->seq.items[0].key, other);
	assert_ptr_equal(d->seq.items[1].value, other);
	assert_ptr_equal(d->seq.attributes, other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_in_order),
		cmocka_unit_test(parts_may_be_exchanged),
	};

	return cmocka_run_group_tests(tests, NULL, release);
}
