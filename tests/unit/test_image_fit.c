/* test_image_fit.c - the settings resize, crop, interpolation and norm: read, saved, compared. */
#include "lib/data/core/description.h"
#include "lib/data/core/spec.h"
#include "tests/unit/data_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* Each setting is read, told as text, and the same after it was saved. */
static void settings_are_read_and_saved(void **state)
{
	static const struct {
		const char *settings;
		struct gt_fit fit;
		const char *text; /* of the size; NULL: an error */
	} cases[] = {
		{ "x", { .kind = GT_FIT_COVER }, "" },
		{ "x,resize=256", { .kind = GT_FIT_SHORTER, .height = 256 }, "resize=256" },
		{ "x,resize=256x320", { .kind = GT_FIT_EXACT, .height = 256, .width = 320 },
		    "resize=256x320" },
		{ "x,resize=squash,interpolation=lanczos",
		    { .kind = GT_FIT_SQUASH, .interpolation = GT_LANCZOS }, "resize=squash" },
		{ "x,resize=no", { .kind = GT_FIT_NONE }, "resize=no" },
		{ "x,crop=0.875,interpolation=bicubic",
		    { .kind = GT_FIT_SHARE, .share = 0.875, .interpolation = GT_BICUBIC },
		    "crop=0.875" },
		{ "x,crop=1", { .kind = GT_FIT_SHARE, .share = 1 }, "crop=1" },
		{ "x,resize=0", { .kind = GT_FIT_COVER }, NULL },
		{ "x,resize=", { .kind = GT_FIT_COVER }, NULL },
		{ "x,resize=-3", { .kind = GT_FIT_COVER }, NULL },
		{ "x,resize= 3", { .kind = GT_FIT_COVER }, NULL },
		{ "x,resize=3x", { .kind = GT_FIT_COVER }, NULL },
		{ "x,resize=3x4x5", { .kind = GT_FIT_COVER }, NULL },
		{ "x,resize=5000", { .kind = GT_FIT_COVER }, NULL },
		{ "x,resize=99999999999999999999", { .kind = GT_FIT_COVER }, NULL },
		{ "x,crop=0", { .kind = GT_FIT_COVER }, NULL },
		{ "x,crop=1.5", { .kind = GT_FIT_COVER }, NULL },
		{ "x,crop=nan", { .kind = GT_FIT_COVER }, NULL },
		{ "x,crop=0.5,resize=9", { .kind = GT_FIT_COVER }, NULL },
		{ "x,interpolation=nearest", { .kind = GT_FIT_COVER }, NULL },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_fit fit = { .kind = GT_FIT_COVER }, saved;
		char name[80], text[GT_FIT_TEXT];
		json_t *json = json_object();
		struct gt_spec spec;
		int rc;

		snprintf(name, sizeof(name), "images:%s", cases[i].settings);
		assert_int_equal(gt_spec_parse(&spec, name, &err), 0);
		rc = gt_fit_from_spec(&fit, &spec, &err);
		if (rc != (cases[i].text ? 0 : GT_EINVAL))
			fail_msg("%s: code %d", name, rc);
		if (!rc) {
			assert_string_equal(gt_fit_text(text, &fit), cases[i].text);
			assert_true(gt_fit_same_size(&fit, &cases[i].fit));
			assert_int_equal(fit.interpolation, cases[i].fit.interpolation);
			assert_int_equal(gt_fit_to_json(&fit, json), 0);
			assert_int_equal(gt_fit_from_json(&saved, json, &err), 0);
			assert_true(gt_fit_same_size(&fit, &saved));
			assert_int_equal(fit.interpolation, saved.interpolation);
		}
		json_decref(json);
		gt_spec_release(&spec);
	}
}

static void saved_settings_may_be_wrong(void **state)
{
	static const char *const cases[] = { "{\"resize\":5}", "{\"resize\":\"5y5\"}",
		"{\"resize\":\"\"}", "{\"crop\":\"1\"}", "{\"crop\":7}", "{\"interpolation\":3}",
		"{\"interpolation\":\"x\"}" };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		json_t *json = json_loads(cases[i], 0, NULL);
		struct gt_err err = GT_ERR_INIT;
		struct gt_fit fit;

		assert_non_null(json);
		assert_int_equal(gt_fit_from_json(&fit, json, &err), GT_EFORMAT);
		json_decref(json);
	}
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Pictures are of 6 x 5 pixels. */
static void data_sets_follow_the_training(void **state)
{
	static const struct {
		const char *options,
		    *trained;      /* trained: the settings of the training; NULL: none */
		int height, width; /* 0: an error */
		const char *adopted, *overruled; /* overruled: or the error */
	} cases[] = {
		{ ",size=4,resize=5", NULL, 4, 4, NULL, NULL },
		{ ",resize=3x4", NULL, 3, 4, NULL, NULL },
		{ ",resize=no", NULL, 5, 6, NULL, NULL },
		{ ",size=4,resize=no", NULL, 4, 4, NULL, NULL },
		{ ",resize=9", NULL, 0, 0, NULL,
		    "resize=9, but the size of the images is not known" },
		{ ",crop=0.5", NULL, 0, 0, NULL,
		    "crop=0.5, but the size of the images is not known" },
		{ ",size=9,resize=8", NULL, 0, 0, NULL,
		    "resize=8 is smaller than the images, which have 9 x 9 pixels" },
		{ ",size=9,resize=9x8", NULL, 0, 0, NULL,
		    "resize=9x8 is smaller than the images, which have 9 x 9 pixels" },
		{ ",size=9,norm=imagenet,std=2", NULL, 0, 0, NULL,
		    "data option 'norm=imagenet' cannot be combined with 'std'" },
		{ ",size=9,norm=imagenet,channels=1", NULL, 0, 0, NULL,
		    "data option 'norm=imagenet' is for images of 3 channels, not 1" },
		{ "", ",size=4,resize=5", 4, 4, "4 x 4 pixels, resize=5", NULL },
		{ "", ",size=4,resize=squash,interpolation=bicubic", 4, 4,
		    "4 x 4 pixels, resize=squash, interpolation=bicubic", NULL },
		{ "", ",size=4", 4, 4, "4 x 4 pixels", NULL },
		{ ",crop=0.5", ",size=4,resize=5", 4, 4, "4 x 4 pixels",
		    "crop=0.5, but the model was trained with resize=5" },
		{ ",crop=0.5", ",size=4", 4, 4, "4 x 4 pixels",
		    "crop=0.5, but the model was trained with the default resize" },
		{ ",interpolation=bilinear", ",size=4,interpolation=bicubic", 4, 4, "4 x 4 pixels",
		    "interpolation=bilinear, but the model was trained with interpolation=bicubic" },
		{ "", ",size=4,norm=imagenet", 4, 4,
		    "4 x 4 pixels, mean=0.485/0.456/0.406, std=0.229/0.224/0.225", NULL },
		{ ",norm=imagenet", ",size=4,mean=0.485/0.456/0.406,std=0.229/0.224/0.225", 4, 4,
		    "4 x 4 pixels", NULL },
		{ ",norm=imagenet", ",size=4,mean=0.5,std=0.229/0.224/0.225", 4, 4, "4 x 4 pixels",
		    "mean=0.485/0.456/0.406, but the model was trained with mean=0.5/0.5/0.5" },
		{ ",size=9,norm=none,mean=0.5", NULL, 0, 0, NULL,
		    "data option 'norm=none' cannot be combined with 'mean'" },
		{ ",norm=none", ",size=4,channels=1", 4, 4, "4 x 4 pixels", NULL },
		{ ",norm=none", ",size=4,mean=0.5", 4, 4, "4 x 4 pixels",
		    "mean=0/0/0, but the model was trained with mean=0.5/0.5/0.5" },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_png(&f, "ant/1.png", 6, 5, 1);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_data_description like = { .kind_known = false };
		struct gt_data_request request = { .like = cases[i].trained ? &like : NULL };
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data, *trained = NULL;
		const struct gt_data_info *info;
		char spec[300];
		int rc;

		if (cases[i].trained) {
			trained = open_data("images", f.folder, cases[i].trained, NULL);
			gt_data_describe(&like, trained);
		}
		snprintf(spec, sizeof(spec), "images:%s%s", f.folder, cases[i].options);
		rc = gt_dataset_open(&data, spec, &request, &err);
		info = rc ? NULL : gt_dataset_info(data);
		if (rc ? cases[i].height || !same(err.text, cases[i].overruled)
		       : info->form.height != cases[i].height ||
		             info->form.width != cases[i].width ||
		             !same(info->adopted, cases[i].adopted) ||
		             !same(info->overruled, cases[i].overruled))
			fail_msg("case %zu: %s; %s; %s", i, rc ? err.text : "opened",
			    info && info->adopted ? info->adopted : "none",
			    info && info->overruled ? info->overruled : "none");
		gt_dataset_close(data);
		gt_dataset_close(trained);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_are_read_and_saved),
		cmocka_unit_test(saved_settings_may_be_wrong),
		cmocka_unit_test(data_sets_follow_the_training),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
