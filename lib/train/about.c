/* about.c - facts about a run that config.json keeps beside its options. */
#include "lib/train/about.h"

#include "lib/base/opt_json.h"

json_t *gt_about_add(const json_t *config, const struct gt_dataset *data, struct gt_err *err)
{
	struct gt_data_description d;
	json_t *described, *both = json_copy((json_t *)config);

	gt_data_describe(&d, data);
	described = gt_data_description_to_json(&d, err);
	if (both && described &&
	    !json_object_set_new(both, GT_OPT_ABOUT, json_pack("{s:O}", "data", described))) {
		json_decref(described);
		return both;
	}
	json_decref(described);
	json_decref(both);
	gt_err_set(err, GT_ENOMEM, "out of memory: the run's configuration");
	return NULL;
}

int gt_about_read(struct gt_data_description *out, const json_t *config, struct gt_err *err)
{
	const json_t *data = json_object_get(json_object_get(config, GT_OPT_ABOUT), "data");
	const char *words = json_string_value(json_object_get(config, "data"));

	*out = (struct gt_data_description){ 0 };
	if (data && gt_data_description_from_json(out, data, err))
		return gt_err_prefix(err, "'%s', 'data'", GT_OPT_ABOUT);
	if (!data && words && gt_data_description_from_spec(out, words, err))
		return gt_err_prefix(err, "'data'");
	return 0;
}
