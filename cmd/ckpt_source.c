/* ckpt_source.c - a checkpoint and the run that it comes from. */
#include "cmd/ckpt_source.h"

int gt_ckpt_source_open(struct gt_ckpt_source *s, const char *argument, struct gt_err *err)
{
	int rc;

	*s = (struct gt_ckpt_source){ 0 };
	rc = gt_run_source_open(&s->run, argument, err);
	s->file = s->run.path;
	s->config = s->run.config;
	s->vocab = gt_run_source_vocab(&s->run);
	return rc;
}

void gt_ckpt_source_release(struct gt_ckpt_source *s)
{
	gt_run_source_release(&s->run);
	*s = (struct gt_ckpt_source){ 0 };
}

const char *gt_ckpt_source_model(
    const struct gt_ckpt_source *s, const char *given, struct gt_err *err)
{
	const char *model = given;

	if (!model)
		model = json_string_value(json_object_get(s->config, "model"));
	if (!model) {
		gt_err_set(err, GT_EINVAL,
		    "--model is missing, and '%s' has no config.json that says it", s->file);
		gt_err_hint(err, "--model NAME[:key=value,...], for example resnet20");
	}
	return model;
}
