/* ckpt_source.h - what --ckpt names: a file, and the run that it comes from. */
#ifndef GT_CMD_CKPT_SOURCE_H
#define GT_CMD_CKPT_SOURCE_H

#include "lib/train/run_source.h"

/* Not to be copied. */
struct gt_ckpt_source {
	struct gt_run_source run;  /* owns what follows */
	const char *file;          /* the path of the checkpoint to read */
	struct gt_file_name vocab; /* the run's vocabulary; path NULL: there is none */
	const json_t *config;      /* the run's config.json, or NULL */
};

int gt_ckpt_source_open(struct gt_ckpt_source *out, const char *argument, struct gt_err *err);
void gt_ckpt_source_release(struct gt_ckpt_source *s);

/* The model to build: as given, or as the run's configuration says; an error with a hint if
 * neither. */
const char *gt_ckpt_source_model(
    const struct gt_ckpt_source *s, const char *given, struct gt_err *err);

#endif
