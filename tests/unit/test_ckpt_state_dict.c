/* test_ckpt_state_dict.c - the place of a state_dict, the prefixes of its keys, the note. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/tree/classify.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/*
 * A tree in a line: `name` is a tensor, `name=` an integer, `name?` a None, `name@PLACE` a tensor
 * saved there, `name{...}` a dict, `name[...]` a list of one such dict; blanks between them.
 */
static struct gt_tree *parse(const char **p, struct gt_arena *a)
{
	static const float data[1];
	struct gt_tree *dict = gt_tree_dict(a, NULL);

	while (**p && !strchr("}]", **p)) {
		size_t n = strcspn(*p, " {}[]=?@");
		char *key = strndup(*p, n);
		struct gt_tree *value;

		*p += n;
		if (**p == '{' || **p == '[') {
			bool list = *(*p)++ == '[';
			struct gt_tree *inner = parse(p, a);

			++*p;
			value = list ? gt_tree_list(a, NULL) : inner;
			if (list)
				assert_int_equal(gt_tree_append(value, inner, a, NULL), 0);
		} else if (**p == '=') {
			++*p;
			value = gt_tree_int(a, 1, NULL);
		} else if (**p == '?') {
			++*p;
			value = gt_tree_none(a, NULL);
		} else {
			value = gt_tree_tensor(a, GT_F32, 0, NULL, data, NULL);
			if (**p == '@') {
				size_t m = strcspn(++*p, " }]");
				char *place = gt_arena_alloc(a, m + 1, NULL);

				memcpy(place, *p, m);
				value->tensor.storage->location = place;
				*p += m;
			}
		}
		assert_int_equal(gt_tree_set(dict, key, value, a, NULL), 0);
		free(key);
		*p += strspn(*p, " ");
	}
	return dict;
}

static const struct {
	const char *tree, *names, *note;
} found[] = {
	{ "w b", "w b", "" },
	{ "w b?", "w", "" },
	{ "w _extra_state=", "w", "" },
	{ "epoch= state_dict{w}", "w", "state_dict found under 'state_dict'" },
	{ "model{a} state_dict{b}", "a",
	    "state_dict found under 'model'; there is also 'state_dict'" },
	{ "ema{a} model{b}", "b", "state_dict found under 'model'; there is also 'ema'" },
	{ "ema{a} model{module.b}", "b",
	    "state_dict found under 'model'; there is also 'ema'; 'module.' removed from 1 key" },
	{ "a{model{w} ema{w}}", "w", "state_dict found under 'a.model'; there is also 'ema'" },
	{ "model{w} ema{w=}", "w", "state_dict found under 'model'" },
	{ "best{w} model{w} history{loss lr}", "w",
	    "state_dict found under 'model'; there is also 'best'" },
	{ "best model_state_dict{w}", "w", "state_dict found under 'model_state_dict'" },
	{ "state{model{net{w}}}", "w", "state_dict found under 'state.model.net'" },
	{ "model{epoch=} generator{w} epoch=", "w", "state_dict found under 'generator'" },
	{ "module.w module.b", "w b", "'module.' removed from 2 keys" },
	{ "module.w b", "w b", "'module.' removed from 1 key" },
	{ "_orig_mod.module.w module._orig_mod.module.b", "w b",
	    "'module.' and '_orig_mod.' removed from 2 keys" },
	{ "model._orig_mod.module._orig_mod.w", "model.w",
	    "'module.' and '_orig_mod.' removed from 1 key" },
	{ "_fsdp_wrapped_module.a._fsdp_wrapped_module.w b._checkpoint_wrapped_module.module.w",
	    "a.w b.w",
	    "'module.' and '_fsdp_wrapped_module.' and '_checkpoint_wrapped_module.' removed from 2 keys" },
	{ "a._orig_mod.module.module.b.module.w", "a.b.module.w",
	    "'module.' and '_orig_mod.' removed from 1 key" },
	{ "a._orig_mod b._orig_mod. my_orig_mod.w", "a._orig_mod b._orig_mod. my_orig_mod.w", "" },
	{ "_orig_mod.module", "module", "'_orig_mod.' removed from 1 key" },
	{ "module. w", "module. w", "" },
	{ "layer.module.w", "layer.module.w", "" },
	{ "w@cuda:0 b@cuda:0", "w b", "saved on cuda:0" },
	{ "w@cuda:0 b@cuda:1 c@cpu", "w b c", "saved on cuda:0, cuda:1" },
	{ "state_dict{module.w@cuda:0}", "w",
	    "state_dict found under 'state_dict'; 'module.' removed from 1 key; saved on cuda:0" },
};

static void test_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(found); i++) {
		struct gt_arena a = { 0 };
		struct gt_state_dict sd;
		struct gt_err err = GT_ERR_INIT;
		const char *p = found[i].tree;
		char names[200] = "";

		if (gt_state_dict_find(&sd, parse(&p, &a), &err))
			fail_msg("'%s': %s", found[i].tree, err.text);
		for (size_t k = 0; k < sd.count; k++) {
			strcat(strcat(names, k ? " " : ""), sd.entries[k].name);
			assert_ptr_equal(
			    gt_state_dict_get(&sd, sd.entries[k].name), sd.entries[k].tensor);
		}
		assert_string_equal(names, found[i].names);
		assert_string_equal(sd.note, found[i].note);
		assert_null(gt_state_dict_get(&sd, "absent"));
		gt_state_dict_release(&sd);
		gt_arena_release(&a);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *tree, *said;
		bool several; /* state_dicts: another code */
	} cases[] = {
		{ "", "its keys are: none", false },
		{ "epoch= lr=", "'epoch', 'lr'", false },
		{ "state{w{m}} param_groups[lr=]", "state of an optimizer", false },
		{ "optimizer{state{w{m}} param_groups[lr=]} epoch=", "'epoch'", false },
		{ "generator{w} discriminator{w}",
		    "there are 2 state_dicts in the checkpoint: 'generator', 'discriminator'",
		    true },
		{ "G{net{w}} D{module.w b} n= opt{state{w{m}} param_groups[lr=]}",
		    "2 state_dicts in the checkpoint: 'G', 'D'", true },
		{ "a{w} b{w} c{w}", "3 state_dicts", true },
		{ "module.w w", "two keys become 'w'", false },
		{ "module.w _orig_mod.w", "two keys become 'w'", false },
		{ "a._orig_mod.w a.w", "two keys become 'a.w'", false },
		{ "a{a{a{a{a{a{a{a{a{w}}}}}}}}}", "'a'", false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_arena a = { 0 };
		struct gt_state_dict sd;
		struct gt_err err = GT_ERR_INIT;
		const char *p = cases[i].tree;

		assert_int_equal(gt_state_dict_find(&sd, parse(&p, &a), &err),
		    cases[i].several ? GT_ENOTSUP : GT_EFORMAT);
		if (!strstr(err.text, cases[i].said))
			fail_msg("'%s' does not say '%s'", err.text, cases[i].said);
		assert_null(sd.entries);
		gt_arena_release(&a);
	}
}

static void test_classes(void **state)
{
	static const struct {
		const char *tree;
		enum gt_class inside, root; /* its class as a part; as the whole checkpoint */
	} rows[] = {
		{ "", GT_CLASS_OTHER, GT_CLASS_OTHER },
		{ "epoch= lr=", GT_CLASS_OTHER, GT_CLASS_OTHER },
		{ "w?", GT_CLASS_OTHER, GT_CLASS_OTHER },
		{ "model{a.w}", GT_CLASS_OTHER, GT_CLASS_OTHER },
		{ "a.w a.b", GT_CLASS_STATE_DICT, GT_CLASS_STATE_DICT },
		{ "a.w b?", GT_CLASS_STATE_DICT, GT_CLASS_STATE_DICT },
		{ "weight bias", GT_CLASS_STATE_DICT, GT_CLASS_STATE_DICT },
		{ "weight _extra_state{a=}", GT_CLASS_STATE_DICT, GT_CLASS_STATE_DICT },
		{ "weight a._extra_state=", GT_CLASS_STATE_DICT, GT_CLASS_STATE_DICT },
		{ "w b", GT_CLASS_TENSORS, GT_CLASS_TENSORS },
		{ "cpu cuda", GT_CLASS_TENSORS, GT_CLASS_TENSORS },
		{ "a.w a.b config{x=}", GT_CLASS_STATE_DICT, GT_CLASS_STATE_DICT },
		{ "a.w config{x=}", GT_CLASS_MIXED, GT_CLASS_MIXED },
		{ "a.w epoch= lr= step=", GT_CLASS_MIXED, GT_CLASS_STATE_DICT },
		{ "a.w b epoch= lr= step=", GT_CLASS_MIXED, GT_CLASS_MIXED },
		{ "rng epoch=", GT_CLASS_MIXED, GT_CLASS_MIXED },
		{ "state{m} param_groups[lr=]", GT_CLASS_OPTIMIZER, GT_CLASS_OPTIMIZER },
		{ "state{} param_groups[]", GT_CLASS_OPTIMIZER, GT_CLASS_OPTIMIZER },
		{ "state{m} param_groups{lr=}", GT_CLASS_OTHER, GT_CLASS_OTHER },
		{ "state param_groups", GT_CLASS_TENSORS, GT_CLASS_TENSORS },
		{ "state param_groups fc.w", GT_CLASS_STATE_DICT, GT_CLASS_STATE_DICT },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gt_arena a = { 0 };
		const char *p = rows[i].tree;
		const struct gt_tree *tree = parse(&p, &a);

		if (gt_classify(tree, false, NULL) != rows[i].inside ||
		    gt_classify(tree, true, NULL) != rows[i].root)
			fail_msg("'%s' is of class %d, as a whole %d", rows[i].tree,
			    gt_classify(tree, false, NULL), gt_classify(tree, true, NULL));
		gt_arena_release(&a);
	}
}

/* The three files that people use. */
static void test_real(void **state)
{
	static const struct {
		const char *name, *format, *tensor;
		int64_t elements;
	} cases[] = {
		{ "resnet20-12fca82f.th", "torch-legacy", "layer3.2.conv2.weight", 64 * 64 * 9 },
		{ "dqn-conv.pth", "torch-zip", NULL, 0 },
		{ "lpips-alex.pth", "torch-legacy", "lin0.model.1.weight", 64 },
	};
	const char *folder = getenv("GTRAIN_TEST_DATA");
	struct gt_err err = GT_ERR_INIT;
	char path[512];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_state_dict sd;
		struct gt_ckpt *ckpt;

		snprintf(path, sizeof(path), "%s/ckpt/%s", folder ? folder : "../shared/data",
		    cases[i].name);
		if (gt_ckpt_open(&ckpt, path, &err)) {
			print_message("skipped: %s\n", err.text);
			skip();
		}
		assert_string_equal(gt_ckpt_format(ckpt), cases[i].format);
		assert_int_equal(gt_state_dict_find(&sd, gt_ckpt_root(ckpt), &err), 0);
		if (cases[i].tensor) {
			const struct gt_tree_tensor *t = gt_state_dict_get(&sd, cases[i].tensor);

			assert_non_null(t);
			assert_int_equal(gt_ckpt_tensor_count(t), cases[i].elements);
			assert_string_equal(t->storage->location, "cuda:0");
		}
		gt_state_dict_release(&sd);
		gt_ckpt_close(ckpt);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
