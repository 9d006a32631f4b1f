/* open_tokenizer.c - the tokenizer of a language model: the user's, or that of its training. */
#include "lib/train/checkpoint/argument.h"

/* Another tokenizer than the model's may be meant, if the user has named it. */
static int check_tokenizer(const struct gt_tokenizer *tok,
    const struct gt_data_description *trained_on, struct gt_file_name file, struct gt_log *log,
    struct gt_err *err)
{
	int rc = gt_tokenizer_check(tok, trained_on, file, err);

	if (rc != GT_EINVAL)
		return rc;
	if (log)
		gt_log_warn(log, "%s", err->text);
	return 0;
}

int gt_run_ckpt_open_tokenizer(struct gt_tokenizer **out, const struct gt_run_ckpt *ckpt,
    struct gt_data_description *trained_on, const char *given, struct gt_log *log,
    struct gt_err *err)
{
	struct gt_file_name file;
	struct gt_err why = GT_ERR_INIT;
	int rc = 0;

	*out = NULL;
	gt_run_ckpt_choose_vocab(trained_on, &file, ckpt, given);
	if (trained_on->tokenizer)
		rc = gt_tokenizer_copy(out, trained_on->tokenizer, err);
	else if (file.path)
		rc = gt_tokenizer_open(out, file, err);
	else if (!*trained_on->tokenizer_digest) {
		gt_err_set(err, GT_EINVAL,
		    "{vocab} is missing, and '%s' has no vocab.json beside it", ckpt->path);
		rc = gt_err_hint(err,
		    "{vocab} FILE: the vocab.json of the run that trained it; "
		    "{tokenizer} DIR: the tokenizer of a model of another program");
	}
	if (!rc)
		rc = check_tokenizer(*out, trained_on, file, log, err);
	if (!rc && log && gt_run_ckpt_check_given(ckpt, trained_on, *out, given, &why))
		gt_log_warn(log, "%s", why.text);
	return rc;
}
