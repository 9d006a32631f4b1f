/* chat.c - conversations, whose answers are trained on, and pairs of answers to a prompt. */
#include "lib/base/mem.h"
#include "lib/data/chat/answers.h"
#include "lib/data/chat/documents.h"
#include "lib/data/text/choose.h"

struct chat {
	struct gt_documents documents;
	struct gt_chat_format format;
	enum gt_chat_answers answers;
};

static int encode_conversation(const struct gt_documents *d, struct gt_document_list *out,
    const json_t *row, struct gt_err *err)
{
	const struct chat *c = (const struct chat *)d;
	struct gt_chat_messages messages = { 0 };
	int rc = gt_chat_messages_read(&messages, row, err);

	if (!rc)
		rc = gt_chat_encode(out, &c->format, d->tok, &messages, c->answers, err);
	gt_chat_messages_release(&messages);
	return rc;
}

static int save_format(const struct gt_documents *d, struct gt_file_name file, struct gt_err *err)
{
	return gt_chat_format_save(&((const struct chat *)d)->format, file, err);
}

static void release_format(struct gt_documents *d)
{
	gt_chat_format_release(&((struct chat *)d)->format);
}

static const struct gt_document_kind conversations = {
	.name = "conversations",
	.each = 1,
	.targets = "answers",
	.none = "no conversation with an answer",
	.needs_subwords = "conversations need a tokenizer with special tokens",
	.tokenizer_hint = "tokenizer=DIR: a folder with tokenizer.json and tokenizer_config.json",
	.encode = encode_conversation,
	.save = save_format,
	.release = release_format,
};

/* The documents of a sample: the better answer, and the other one, each behind the prompt. */
static int encode_pair(const struct gt_documents *d, struct gt_document_list *out,
    const json_t *row, struct gt_err *err)
{
	const struct chat *c = (const struct chat *)d;
	struct gt_chat_messages answers[2];
	int rc = gt_chat_pair_read(answers, row, err);

	for (size_t i = 0; !rc && i < 2; i++) {
		rc = gt_chat_encode(out, &c->format, d->tok, &answers[i], GT_CHAT_ALL, err);
		if (!rc && out->count != i + 1)
			rc = gt_err_set(err, GT_EFORMAT,
			    "\"%s\" has no answer of the role assistant",
			    i ? "rejected" : "chosen");
	}
	gt_chat_messages_release(&answers[0]);
	gt_chat_messages_release(&answers[1]);
	return rc;
}

static const struct gt_document_kind pairs = {
	.name = "pairs",
	.each = 2,
	.targets = "answers",
	.none = "no pair of answers",
	.needs_subwords = "pairs of answers need a tokenizer with special tokens",
	.tokenizer_hint = "tokenizer=DIR: a folder with tokenizer.json and tokenizer_config.json",
	.encode = encode_pair,
	.save = save_format,
	.release = release_format,
};

static int open_format(struct chat *c, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	int rc = gt_chat_format_open(&c->format, gt_spec_value(spec, "template"),
	    gt_spec_value(spec, "date"), gt_tokenizer_place(spec, request), err);

	if (rc == GT_EINVAL && !c->format.source && !*err->hint)
		gt_err_hint(err,
		    "give template=FILE; or put chat_template.jinja, or a tokenizer_config.json that "
		    "has one, into the folder of the tokenizer");
	return rc;
}

/* The token that ends an answer: that is where generation stops. */
static int find_end(struct chat *c, struct gt_err *err)
{
	int32_t *end = &c->documents.source.specials.ends[0];
	int rc = gt_chat_find_eos(end, &c->format, c->documents.tok, err);

	c->documents.source.specials.end_count = *end >= 0;
	return rc;
}

/* Read the settings that conversations alone have. */
static int read_settings(struct chat *c, const struct gt_spec *spec, struct gt_err *err)
{
	static const char *const answers[] = { "all", "last", "each", NULL };
	int which = GT_CHAT_ALL, rc = gt_spec_choice(spec, "answers", answers, &which, err);

	c->answers = (enum gt_chat_answers)which;
	return rc ? rc : gt_spec_yes_no(spec, "pack", &c->documents.packed, err);
}

static int open_rows(struct chat *c, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_documents *d = &c->documents;
	int rc = read_settings(c, spec, err);

	if (!rc)
		rc = gt_documents_choose_tokenizer(d, spec, request, err);
	if (!rc)
		rc = open_format(c, spec, request, err);
	if (!rc)
		rc = gt_documents_read(d, spec, request, err);
	return rc ? rc : find_end(c, err);
}

static int open_kind(struct gt_source **out, const struct gt_document_kind *kind,
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err)
{
	struct chat *c = gt_calloc(1, sizeof(*c), err);
	int rc;

	if (!c)
		return GT_ENOMEM;
	gt_documents_init(&c->documents, kind);
	rc = open_rows(c, spec, request, err);
	if (rc)
		c->documents.source.ops->close(&c->documents.source);
	else
		*out = &c->documents.source;
	return rc;
}

static int open_chat(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return open_kind(out, &conversations, spec, request, err);
}

static int open_pairs(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	return open_kind(out, &pairs, spec, request, err);
}

/* Pairs have those after the first two. */
static const struct gt_setting settings[] = {
	{ "answers", "all|last|each", "all",
	    "answers that are trained on: all in one sample, the last, or each in its own" },
	{ "pack", "yes|no", "no",
	    "several conversations in a sample, which do not attend to each other" },
	{ "tokenizer", "PATH", "that of the run",
	    "a tokenizer.json, or a folder with one and with the chat template" },
	{ "template", "FILE", "that of the tokenizer", "a chat template" },
	{ "date", "YYYY-MM-DD", "not defined", "the day that the template writes as today" }, { 0 }
};

const struct gt_source_kind gt_chat_kind = {
	.form = { .name = "chat",
	    .path = "FILE|FOLDER|PATTERN",
	    .summary = "conversations in JSON lines, whose answers are trained on",
	    .settings = settings,
	    .example = "chat:train.jsonl,tokenizer=model" },
	.json_lines = true,
	.open = open_chat,
};

const struct gt_source_kind gt_pairs_kind = {
	.form = { .name = "pairs",
	    .path = "FILE|FOLDER|PATTERN",
	    .summary = "a better and a worse answer to each prompt, in JSON lines",
	    .settings = settings + 2,
	    .example = "pairs:preferences.jsonl,tokenizer=model" },
	.json_lines = true,
	.open = open_pairs,
};
