/* choose.c - the tokenizer of a text: that of the model, or that of the spec. */
#include "lib/data/text/choose.h"

#include <string.h>

#include "lib/data/core/source.h"
#include "lib/data/text/config.h"

/* The model's own vocabulary, or the one that was asked for. */
static int open_known(
    struct gt_tokenizer **tok, const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_tokenizer *like = request->like ? request->like->tokenizer : NULL;

	if (like)
		return gt_tokenizer_copy(tok, like, err);
	return request->vocab.path ? gt_tokenizer_open(tok, request->vocab, err) : 0;
}

/* A tokenizer of the spec is that of the model, or there is no model yet. */
static int open_given(struct gt_tokenizer **tok, const char *path,
    const struct gt_data_request *request, struct gt_err *err)
{
	const char *trained = request->like ? request->like->tokenizer_digest : "";
	bool same, known = *tok != NULL;
	struct gt_tokenizer *given;
	int rc = gt_tokenizer_new_bpe(&given, (struct gt_file_name){ .path = path }, err);

	if (rc)
		return rc;
	if (known)
		trained = gt_tokenizer_digest(*tok);
	same = (!known && !*trained) || !strcmp(trained, gt_tokenizer_digest(given));
	gt_tokenizer_close(*tok);
	*tok = given;
	if (same)
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "tokenizer=%s is not the tokenizer that the model was trained with", path);
	return gt_err_hint(
	    err, known ? "leave out tokenizer= to read the text as in training"
	               : "give tokenizer.json from the directory of the checkpoint's run");
}

/* The tokenizer of a run's folder must be the run's; one that the user names may be another. */
static int check_digest(const struct gt_tokenizer *tok, struct gt_source *source,
    const struct gt_data_request *request, struct gt_err *err)
{
	int rc = gt_tokenizer_check(tok, request->like, request->vocab, err);

	if (rc != GT_EINVAL)
		return rc;
	return gt_source_keep(&source->info.note, source, err->text, err);
}

int gt_tokenizer_choose(struct gt_tokenizer **tok, enum gt_tokenizer_level *level,
    struct gt_source *source, const struct gt_spec *spec, const struct gt_data_request *request,
    struct gt_err *err)
{
	const char *given = gt_spec_value(spec, "tokenizer");
	bool has_level = gt_spec_value(spec, "level");
	int wanted = given ? GT_LEVEL_BPE : GT_LEVEL_CHAR;
	int rc = gt_spec_choice(spec, "level", gt_tokenizer_levels, &wanted, err);

	if (!rc && given && wanted != GT_LEVEL_BPE)
		rc = gt_err_set(err, GT_EINVAL, "tokenizer=%s is for level=bpe", given);
	if (!rc)
		rc = open_known(tok, request, err);
	if (!rc && given)
		rc = open_given(tok, given, request, err);
	if (rc)
		return rc;
	*level = (enum gt_tokenizer_level)wanted;
	if (!*tok && wanted != GT_LEVEL_BPE)
		return gt_tokenizer_check(NULL, request->like, request->vocab, err);
	if (!*tok) {
		gt_err_set(err, GT_EINVAL, "level=bpe needs a tokenizer");
		return gt_err_hint(err, "tokenizer=DIR: a folder with tokenizer.json");
	}
	*level = gt_tokenizer_level(*tok);
	if (has_level && wanted != (int)*level)
		return gt_err_set(err, GT_EINVAL, "level=%s, but the vocabulary is of level %s",
		    gt_tokenizer_levels[wanted], gt_tokenizer_levels[*level]);
	return check_digest(*tok, source, request, err);
}

int gt_tokenizer_choose_subwords(struct gt_tokenizer **tok, struct gt_source *source,
    const struct gt_spec *spec, const struct gt_data_request *request, const char *needs,
    const char *hint, struct gt_err *err)
{
	enum gt_tokenizer_level level = GT_LEVEL_CHAR;
	int rc = gt_tokenizer_choose(tok, &level, source, spec, request, err);

	if (rc || (*tok && gt_tokenizer_bpe(*tok)))
		return rc;
	gt_err_set(err, GT_EINVAL, "%s", needs);
	return gt_err_hint(err, "%s", hint);
}

struct gt_file_name gt_tokenizer_place(
    const struct gt_spec *spec, const struct gt_data_request *request)
{
	const char *given = gt_spec_value(spec, "tokenizer");

	return given ? (struct gt_file_name){ .path = given } : request->vocab;
}

const char *gt_rows_end(const struct gt_spec *spec, const json_t *config)
{
	const char *given = gt_spec_value(spec, "end");
	const char *token = json_string_value(gt_tokenizer_special(config, "eos_token"));

	return given ? given : token ? token : "\n";
}
