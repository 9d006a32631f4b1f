/* documents.h - private: data sets of documents, one or several in each sample. */
#ifndef GT_DATA_CHAT_DOCUMENTS_H
#define GT_DATA_CHAT_DOCUMENTS_H

#include <jansson.h>

#include "lib/data/chat/pack.h"
#include "lib/data/core/source.h"
#include "lib/data/text/json_lines.h"

struct gt_document {
	int32_t *ids; /* [count] a token that is a target, or ~id for another token */
	size_t count;
};

struct gt_document_list {
	struct gt_document *items; /* [count] */
	size_t count, capacity;
};

/* Append a document of ids[count], which are zeros. Errors: GT_ENOMEM. */
int gt_document_add(
    struct gt_document **out, struct gt_document_list *list, size_t count, struct gt_err *err);
void gt_document_list_release(struct gt_document_list *list);

struct gt_documents;

/* Conversations, texts, or pairs of answers. */
struct gt_document_kind {
	const char *name;    /* as in "3 conversations" */
	int each;            /* documents of a sample: 1, or 2 of a pair (gt_sample_form.paired) */
	const char *targets; /* as in "5 of 9 tokens are answers" */
	const char *none;    /* as in "the file has no conversation with an answer" */
	/* why the tokenizer has to be one of subwords, and a hint */
	const char *needs_subwords, *tokenizer_hint;
	/* Append the documents of a row of the file. Several threads call this at once. */
	int (*encode)(const struct gt_documents *d, struct gt_document_list *out, const json_t *row,
	    struct gt_err *err);
	/* Save what the tokenizer's file does not have, beside it. */
	int (*save)(const struct gt_documents *d, struct gt_file_name file, struct gt_err *err);
	void (*release)(struct gt_documents *d);
};

/* The first member of the struct of each kind. */
struct gt_documents {
	struct gt_source source;
	const struct gt_document_kind *kind;
	struct gt_tokenizer *tok;
	size_t most; /* tokens of a sample */
	struct gt_json_lines lines;
	struct gt_document_list *of_line; /* [lines.count] */
	struct gt_document_list all;      /* in the order of lines */
	bool packed;                      /* several documents in each sample */
	struct gt_packed_rows rows;       /* if packed: the samples, of documents of `all` */
	float *reference;                 /* [samples] of pairs; NULL: other documents */
};

/* Set the kind of *d, which is zero and was allocated. `source.ops->close` frees it. */
void gt_documents_init(struct gt_documents *d, const struct gt_document_kind *kind);

/* Choose d->tok. Errors: GT_EINVAL if it is not one of subwords; those of gt_tokenizer_choose(). */
int gt_documents_choose_tokenizer(struct gt_documents *d, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);

/* Read all rows of the file, after the kind has what encode() needs, and make samples of them.
 * Errors: GT_EINVAL if there is no target; those of encode() and gt_json_lines_open(). */
int gt_documents_read(struct gt_documents *d, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);

#endif
