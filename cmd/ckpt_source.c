/* ckpt_source.c - a checkpoint and the run that it comes from. */
#include "cmd/ckpt_source.h"

#include <stdlib.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/train/run_dir.h"

static int read_run(struct gt_ckpt_source *s, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/config.json", s->dir);

	s->vocab = gt_asprintf(err, "%s/vocab.json", s->dir);
	if (!path || !s->vocab) {
		free(path);
		return GT_ENOMEM;
	}
	s->config = json_load_file(path, 0, NULL);
	free(path);
	if (access(s->vocab, R_OK)) {
		free(s->vocab);
		s->vocab = NULL;
	}
	return 0;
}

int gt_ckpt_source_open(struct gt_ckpt_source *s, const char *argument, struct gt_err *err)
{
	int rc;

	*s = (struct gt_ckpt_source){ 0 };
	rc = gt_run_dir_resolve(&s->file, &s->dir, argument, err);
	return rc || !s->dir ? rc : read_run(s, err);
}

void gt_ckpt_source_release(struct gt_ckpt_source *s)
{
	free(s->file);
	free(s->dir);
	free(s->vocab);
	json_decref(s->config);
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
