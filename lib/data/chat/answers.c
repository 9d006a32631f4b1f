/* answers.c - conversations as tokens, with the tokens of the answers. */
#include "lib/data/chat/answers.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

struct work {
	const struct gt_chat_format *format;
	const struct gt_tokenizer *tok;
	const struct gt_chat_messages *messages;
	struct gt_err *err;
};

/* A rendered text, and its tokens. */
struct text {
	struct gt_jinja_text rendered;
	int32_t *ids; /* [count] */
	size_t count;
};

static void release_text(struct text *t)
{
	gt_jinja_text_release(&t->rendered);
	free(t->ids);
	*t = (struct text){ 0 };
}

/* Render the first `count` messages, with the prompt for an answer or without. */
static int render(struct text *out, const struct work *w, size_t count, bool prompt)
{
	int rc;

	*out = (struct text){ 0 };
	rc = gt_chat_render(&out->rendered, w->format, w->messages->list, count, w->messages->tools,
	    prompt, w->err);
	return rc ? rc
	          : gt_tokenizer_encode(w->tok, out->rendered.text, out->rendered.size, &out->ids,
	                &out->count, w->err);
}

/* The number of tokens with which both texts begin. */
static size_t common_tokens(const int32_t *a, size_t a_count, const int32_t *b, size_t b_count)
{
	size_t n = 0;

	while (n < a_count && n < b_count && a[n] == b[n])
		n++;
	return n;
}

/* ---- marking ---- */

/* A sample that has the tokens of a text, none of them an answer. */
static int add_sample(struct gt_document_list *out, const struct text *t,
    struct gt_document **sample, struct gt_err *err)
{
	if (gt_document_add(sample, out, t->count, err))
		return err->code;
	for (size_t i = 0; i < t->count; i++)
		(*sample)->ids[i] = ~t->ids[i];
	return 0;
}

static void mark_answer(struct gt_document *s, const struct text *t, size_t begin, size_t end)
{
	for (size_t i = begin; i < end && i < s->count; i++)
		s->ids[i] = t->ids[i];
}

/* Set *count to the tokens before byte `at` of a text; *cut: a token is on both sides of it. */
static int tokens_before(
    size_t *count, bool *cut, const struct work *w, const struct text *t, size_t at)
{
	int32_t *ids = NULL;
	size_t n;
	int rc = gt_tokenizer_encode(w->tok, t->rendered.text, at, &ids, &n, w->err);

	*count = rc ? 0 : common_tokens(ids, n, t->ids, t->count);
	*cut = !rc && *count < n;
	free(ids);
	return rc;
}

/* Mark the tokens that overlap a generation block. */
static int mark_blocks(struct gt_document *s, const struct work *w, const struct text *t)
{
	for (size_t i = 0; i < t->rendered.mark_count; i++) {
		const struct gt_jinja_span *span = &t->rendered.marks[i];
		size_t begin, end;
		bool cut;
		int rc = tokens_before(&begin, &cut, w, t, span->begin);

		if (!rc)
			rc = tokens_before(&end, &cut, w, t, span->end);
		if (rc)
			return rc;
		if (span->end > span->begin)
			mark_answer(s, t, begin, end + cut);
	}
	return 0;
}

static int fail_answer(const struct work *w, size_t i)
{
	gt_err_set(w->err, GT_EFORMAT,
	    "the chat template writes the messages before message %zu in another way when others "
	    "follow",
	    i + 1);
	if (w->messages->first) /* marks are not read then, and pairs have no such setting */
		return w->err->code;
	return gt_err_hint(w->err,
	    "answers=each trains each answer behind the messages before it; or mark the answers by "
	    "{%% generation %%} in the template");
}

/* Mark message `i` of a text of `count` messages. */
static int mark_message(
    struct gt_document *s, const struct work *w, const struct text *t, size_t i, size_t count)
{
	struct text prompt, answer = { 0 };
	size_t begin = 0, end = t->count;
	int rc = render(&prompt, w, i, true);

	if (!rc) {
		begin = common_tokens(prompt.ids, prompt.count, t->ids, t->count);
		if (prompt.rendered.size > t->rendered.size ||
		    memcmp(prompt.rendered.text, t->rendered.text, prompt.rendered.size) != 0)
			rc = fail_answer(w, i);
	}
	if (!rc && i + 1 < count) {
		rc = render(&answer, w, i + 1, false);
		end = common_tokens(answer.ids, answer.count, t->ids, t->count);
		/* Templates may write a token behind the last message. */
		if (!rc && (end + 1 < answer.count || end < begin))
			rc = fail_answer(w, i);
	}
	if (!rc)
		mark_answer(s, t, begin, end);
	release_text(&prompt);
	release_text(&answer);
	return rc;
}

/* ---- samples ---- */

/* All answers of the first `count` messages. */
static int encode_all(struct gt_document_list *out, const struct work *w, size_t count)
{
	struct gt_document *sample;
	struct text t;
	int rc = render(&t, w, count, false);

	if (!rc)
		rc = add_sample(out, &t, &sample, w->err);
	if (!rc && gt_jinja_has_marks(w->format->template) && !w->messages->first)
		rc = mark_blocks(sample, w, &t);
	else
		for (size_t i = 0; !rc && i < count; i++)
			if (gt_chat_is_answer(w->messages, i))
				rc = mark_message(sample, w, &t, i, count);
	release_text(&t);
	return rc;
}

/* Message `i`, behind those before it. */
static int encode_one(struct gt_document_list *out, const struct work *w, size_t i)
{
	struct gt_document *sample;
	struct text t;
	int rc = render(&t, w, i + 1, false);

	if (!rc)
		rc = add_sample(out, &t, &sample, w->err);
	if (!rc)
		rc = mark_message(sample, w, &t, i, i + 1);
	release_text(&t);
	return rc;
}

int gt_chat_encode(struct gt_document_list *out, const struct gt_chat_format *f,
    const struct gt_tokenizer *tok, const struct gt_chat_messages *messages,
    enum gt_chat_answers answers, struct gt_err *err)
{
	const struct work w = { .format = f, .tok = tok, .messages = messages, .err = err };
	size_t count = json_array_size(messages->list);
	int rc = 0;

	while (count && !gt_chat_is_answer(messages, count - 1))
		count--;
	if (!count)
		return 0;
	if (answers == GT_CHAT_ALL)
		return encode_all(out, &w, count);
	if (answers == GT_CHAT_LAST)
		return encode_one(out, &w, count - 1);
	for (size_t i = 0; !rc && i < count; i++)
		if (gt_chat_is_answer(messages, i))
			rc = encode_one(out, &w, i);
	return rc;
}
