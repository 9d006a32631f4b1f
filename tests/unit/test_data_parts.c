/* test_data_parts.c - folders of images that are parts of the data: for training, for tests. */
#include "tests/unit/tar_fixture.h"

/* A picture of class `ant` for each path, whose seed is its place in the list. */
struct tree {
	const char *paths[6];
};

static void put_tree(const struct fixture *f, const char *below, const struct tree *tree)
{
	for (int i = 0; i < 6 && tree->paths[i]; i++) {
		char name[200];

		snprintf(name, sizeof(name), "%s/%s.png", below, tree->paths[i]);
		put_png(f, name, 6, 5, i + 1);
	}
}

/* The parts of data sets as people name them, and the part that is read. */
static void test_parts(void **state)
{
	static const struct {
		struct tree tree;
		const char *options;
		bool held_out;
		int seed;         /* of the one picture that is read; 0: an error */
		const char *says; /* the line about the choice, or the error; NULL: no line */
	} cases[] = {
#define PLAIN { { "train/a/1", "test/a/1", "val/a/1" } }
		{ PLAIN, "", false, 1, "split=train, by default" },
		{ PLAIN, "", true, 3, "split=val, by default" },
		{ PLAIN, ",split=train", false, 1, NULL },
		{ PLAIN, ",split=test", true, 2, NULL },
		{ PLAIN, ",split=val", false, 3, NULL },
		{ PLAIN, ",split=Validation", false, 3, NULL },
		{ PLAIN, ",split=extra", false, 0, "has no sub-folder 'extra'" },
		{ { { "Training/a/1", "Testing/a/1" } }, "", false, 1,
		    "split=Training, by default" },
		{ { { "Training/a/1", "Testing/a/1" } }, "", true, 2, "split=Testing, by default" },
		{ { { "Training/a/1", "Testing/a/1" } }, ",split=test", false, 2, NULL },
		{ { { "TRAIN/a/1", "VALID/a/1" } }, "", true, 2, "split=VALID, by default" },
		{ { { "training_set/a/1", "test_set/a/1" } }, "", false, 1,
		    "split=training_set, by default" },
		{ { { "seg_train/seg_train/a/1", "seg_test/seg_test/a/1" } }, "", true, 2,
		    "split=seg_test, by default" },
		{ { { "data/training/a/1", "data/validation/a/1" } }, "", false, 1,
		    "split=training, by default" },
		{ { { "train/a/1", "extra/b/1" } }, "", true, 1, "split=train, by default" },
		{ { { "test/a/1" } }, "", false, 1, "split=test, by default" },
		{ { { "__MACOSX/a/1", "b/1" } }, "", false, 2, NULL },
		{ { { "b/__MACOSX/1", "b/1" } }, "", false, 2, NULL },
		{ { { "val/a/1", "Test/a/1" } }, "", false, 0,
		    "has the parts 'val', 'Test', but none to train on" },
		{ { { "train/1", "test/1" } }, "", false, 0,
		    "'train', 'test', are named like parts of the data, but have no class" },
		{ { { "Train/1" } }, "", false, 0, "'Train', are named like parts of the data" },
		{ { { "Training/a/1", "train_images/a/1" } }, "", false, 0,
		    "has 'Training' and 'train_images', which mean the same part" },
		{ { { "Training/a/1", "train/a/1" } }, "", false, 2, "split=train, by default" },
		{ { { "Val/a/1", "valid/a/1", "train/a/1" } }, ",split=dev", false, 0,
		    "has 'Val' and 'valid', which mean the same part" },
		{ { { "Val/a/1", "valid/a/1", "train/a/1" } }, ",split=valid", false, 2, NULL },
#undef PLAIN
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gt_data_request request = { .held_out = cases[i].held_out };
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		char below[20], spec[300];
		const char *says;
		int rc;

		snprintf(below, sizeof(below), "c%zu", i);
		put_tree(&f, below, &cases[i].tree);
		snprintf(spec, sizeof(spec), "images:%s/%s%s", f.folder, below, cases[i].options);
		rc = gt_dataset_open(&data, spec, &request, &err);
		says = rc ? err.text : gt_dataset_info(data)->interpretation;
		if (!rc != !!cases[i].seed || !says != !cases[i].says ||
		    (says && !strstr(says, cases[i].says)))
			fail_msg("case %zu: code %d, %s", i, rc, says ? says : "no line");
		if (!rc) {
			assert_int_equal(gt_dataset_info(data)->samples, 1);
			check_sample(data, 0, cases[i].seed, 0);
		}
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

static void test_a_class_may_be_called_train(void **state)
{
	struct gt_dataset *data;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_png(&f, "boat/1.png", 6, 5, 1);
	put_png(&f, "train/1.png", 6, 5, 2);
	data = open_data("images", f.folder, "", NULL);
	assert_int_equal(gt_dataset_info(data)->form.classes, 2);
	check_sample(data, 1, 2, 1);
	gt_dataset_close(data);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_a_class_may_be_called_train),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
