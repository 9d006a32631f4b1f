/* test_augment.c - lists of augmentations, and the data that each may be applied to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/data/core/data.h"

static void test_lists(void **state)
{
	static const struct {
		const char *list;
		bool crop, flip, jitter;
		double values[GT_AUGMENT_SETTINGS]; /* of jitter */
	} rows[] = {
		{ "", false, false, false, { 0 } },
		{ "none", false, false, false, { 0 } },
		{ "crop,flip", true, true, false, { 0 } },
		{ "flip,none,crop", true, true, false, { 0 } },
		{ "jitter", false, false, true, { 0.4, 0.4, 0.4, 0 } },
		{ "jitter:hue=0.5,crop", true, false, true, { 0.4, 0.4, 0.4, 0.5 } },
		{ "jitter:contrast=0:brightness=10", false, false, true, { 10, 0, 0.4, 0 } },
	};
	struct gt_augment a;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(gt_augment_parse(&a, rows[i].list, NULL), 0);
		assert_int_equal(a.chosen[GT_AUGMENT_CROP], rows[i].crop);
		assert_int_equal(a.chosen[GT_AUGMENT_FLIP], rows[i].flip);
		assert_int_equal(a.chosen[GT_AUGMENT_JITTER], rows[i].jitter);
		assert_int_equal(
		    gt_augment_any(&a), rows[i].crop || rows[i].flip || rows[i].jitter);
		assert_memory_equal(
		    a.value[GT_AUGMENT_JITTER], rows[i].values, sizeof(rows[i].values));
	}
}

static void test_wrong_lists(void **state)
{
	static const struct {
		const char *list, *text, *hint; /* parts of them */
	} rows[] = {
		{ "crop,spin", "unknown augmentation 'spin'",
		    "known: rrc, crop, flip, jitter, mixup, none" },
		{ "crop,,flip", "unknown augmentation ''", "separated by commas" },
		{ "none:x=1", "unknown augmentation 'none'", "" },
		{ "jitterx", "unknown augmentation 'jitterx'", "" },
		{ "flip,flip", "augmentation 'flip' is given twice", "" },
		{ "flip:p=1", "augmentation 'flip' has no setting 'p'", "" },
		{ "jitter:hu=0", "augmentation 'jitter' has no setting 'hu'",
		    "brightness, contrast, saturation, hue" },
		{ "jitter:hue", "setting 'hue' of augmentation 'jitter' is not of the form",
		    "jitter:key=value" },
		{ "jitter:", "setting '' of augmentation 'jitter' is not of the form", "" },
		{ "jitter:=1", "setting '=1' of augmentation 'jitter' is not of the form", "" },
		{ "jitter:hue=0.6", "'jitter': 'hue=0.6' is not a number from 0 to 0.5", "" },
		{ "jitter:hue=-0.1", "'hue=-0.1' is not a number", "" },
		{ "jitter:hue=nan,flip", "'hue=nan' is not a number", "" },
		{ "jitter:hue=0.1x", "'hue=0.1x' is not a number", "" },
		{ "jitter:hue=,flip", "'hue=' is not a number", "" },
		{ "jitter:contrast=1e9", "'contrast=1e9' is not a number from 0 to 10", "" },
		{ "rrc:min-scale=1.1", "'min-scale=1.1' is not a number from 0 to 1", "" },
		{ "rrc:scale=0.1", "'rrc' has no setting 'scale'", "min-scale, max-scale" },
		{ "rrc:min-scale=0", "'rrc': scale from 0 to 1", "" },
		{ "rrc:max-scale=0.05", "'rrc': scale from 0.08 to 0.05", "" },
		{ "flip,rrc:min-ratio=2", "ratio from 2 to 1.33333: each is to be above 0", "" },
		{ "mixup:alpha=0", "augmentation 'mixup': alpha is to be above 0",
		    "leave 'mixup' out of" },
		{ "mixup:alpha=1001", "'alpha=1001' is not a number from 0 to 1000", "" },
		{ "mixup:beta=1", "augmentation 'mixup' has no setting 'beta'", "alpha" },
		{ "jitter:hue=0:hue=0", "augmentation 'jitter': 'hue' is given twice", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_augment a;

		assert_int_equal(gt_augment_parse(&a, rows[i].list, &err), GT_EINVAL);
		if (!strstr(err.text, rows[i].text) || !strstr(err.hint, rows[i].hint))
			fail_msg("%s: '%s', hint '%s'", rows[i].list, err.text, err.hint);
	}
}

static void test_samples_that_fit(void **state)
{
	static const struct {
		const char *list;
		enum gt_sample_kind kind;
		int channels;
		bool regression;
		const char *text; /* NULL: fits */
	} rows[] = {
		{ "crop,flip,jitter", GT_SAMPLE_IMAGE, 3, false, NULL },
		{ "jitter", GT_SAMPLE_IMAGE, 1, false, NULL },
		{ "crop,flip", GT_SAMPLE_IMAGE, 4, false, NULL },
		{ "flip,jitter", GT_SAMPLE_IMAGE, 4, false,
		    "augmentation 'jitter' takes images of 1 or 3 channels, not 4" },
		{ "mixup", GT_SAMPLE_IMAGE, 4, false, NULL },
		{ "mixup", GT_SAMPLE_IMAGE, 1, true,
		    "augmentation 'mixup' takes images with classes, not with numbers" },
		{ "flip", GT_SAMPLE_IMAGE, 1, true, NULL },
		{ "mixup", GT_SAMPLE_VECTOR, 0, false, "only images can be augmented" },
		{ "mixup", GT_SAMPLE_TOKENS, 0, false, "only images can be augmented" },
		{ "none", GT_SAMPLE_VECTOR, 0, false, NULL },
		{ "flip", GT_SAMPLE_VECTOR, 0, false, "only images can be augmented" },
		{ "jitter", GT_SAMPLE_TOKENS, 0, false, "only images can be augmented" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct gt_data_info info = {
			.form = { .kind = rows[i].kind,
			    .channels = rows[i].channels,
			    .target = rows[i].regression ? GT_SAMPLE_NUMBER : GT_SAMPLE_CLASS }
		};
		struct gt_err err = GT_ERR_INIT;
		struct gt_augment a;

		assert_int_equal(gt_augment_parse(&a, rows[i].list, &err), 0);
		assert_int_equal(gt_augment_check(&a, &info, &err), rows[i].text ? GT_EINVAL : 0);
		assert_string_equal(err.text, rows[i].text ? rows[i].text : "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_wrong_lists),
		cmocka_unit_test(test_samples_that_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
