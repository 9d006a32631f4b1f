/* packed_texts.c - texts of which several are packed into each sample. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/data/chat/documents.h"
#include "lib/data/text/choose.h"
#include "lib/data/text/config.h"

struct texts {
	struct gt_documents documents;
	const char *field, *end; /* the member of a row with its text, and the text behind it */
	json_t *config;          /* that of the tokenizer; NULL: none */
};

/* Cut a text into documents of at most `most` tokens and the token after them, so that each token
 * but the first is a target once. */
static int cut_text(
    struct gt_document_list *out, const int32_t *ids, size_t count, size_t most, struct gt_err *err)
{
	for (size_t at = 0; at + 1 < count; at += most) {
		size_t n = count - at < most + 1 ? count - at : most + 1;
		struct gt_document *document;

		if (gt_document_add(&document, out, n, err))
			return err->code;
		memcpy(document->ids, ids + at, n * sizeof(*ids));
	}
	return 0;
}

static int encode_text(const struct gt_documents *d, struct gt_document_list *out,
    const json_t *row, struct gt_err *err)
{
	const struct texts *t = (const struct texts *)d;
	struct gt_buf b = { 0 };
	const char *text;
	int32_t *ids = NULL;
	size_t size, count = 0;
	int rc = gt_json_lines_text(&text, &size, row, t->field, err);

	if (rc)
		return rc;
	gt_buf_add(&b, text, size);
	gt_buf_puts(&b, t->end);
	rc = gt_buf_check(&b, err);
	if (!rc)
		rc = gt_tokenizer_encode(d->tok, b.text, b.length, &ids, &count, err);
	if (!rc)
		rc = cut_text(out, ids, count, d->most, err);
	gt_buf_release(&b);
	free(ids);
	return rc;
}

static int save_config(const struct gt_documents *d, struct gt_file_name file, struct gt_err *err)
{
	const struct texts *t = (const struct texts *)d;

	return t->config ? gt_tokenizer_config_save(t->config, file, err) : 0;
}

static void release_config(struct gt_documents *d)
{
	json_decref(((struct texts *)d)->config);
}

static const struct gt_document_kind texts = {
	.name = "documents",
	.each = 1,
	.targets = "targets",
	.none = "no text of two tokens",
	.needs_subwords = "pack=yes needs a tokenizer of subwords",
	.tokenizer_hint = "tokenizer=DIR: a folder with tokenizer.json",
	.encode = encode_text,
	.save = save_config,
	.release = release_config,
};

static int open_texts(struct texts *t, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	const char *field = gt_spec_value(spec, "field");
	struct gt_documents *d = &t->documents;
	int rc;

	d->packed = true;
	t->field = gt_arena_strdup(&d->source.names, field ? field : "text", err);
	if (!t->field)
		return GT_ENOMEM;
	rc = gt_documents_choose_tokenizer(d, spec, request, err);
	if (!rc)
		rc = gt_tokenizer_config_read(&t->config, gt_tokenizer_place(spec, request), err);
	t->end = gt_rows_end(spec, t->config);
	return rc ? rc : gt_documents_read(d, spec, request, err);
}

int gt_text_open_packed(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct texts *t = gt_calloc(1, sizeof(*t), err);
	int rc;

	if (!t)
		return GT_ENOMEM;
	gt_documents_init(&t->documents, &texts);
	rc = open_texts(t, spec, request, err);
	if (rc)
		t->documents.source.ops->close(&t->documents.source);
	else
		*out = &t->documents.source;
	return rc;
}
