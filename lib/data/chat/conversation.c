/* conversation.c - a conversation with a model, message by message. */
#include "lib/data/chat/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/bpe/bpe.h"
#include "lib/data/chat/format.h"

struct gt_conversation {
	const struct gt_tokenizer *tok;
	struct gt_chat_format format;
	json_t *messages;
	int32_t ends[2]; /* tokens that end an answer; -1: none */
};

/* Set *out to the first token of the text if that is an added one; else to -1. */
static int find_added_token(
    int32_t *out, const struct gt_conversation *c, const char *text, struct gt_err *err)
{
	int32_t *ids = NULL;
	size_t count = 0;
	int rc = gt_tokenizer_encode(c->tok, text, strlen(text), &ids, &count, err);

	*out = !rc && count && gt_bpe_is_added(gt_tokenizer_bpe(c->tok), *ids) ? *ids : -1;
	free(ids);
	return rc;
}

/* The template writes an answer, and perhaps a token that ends it. A template that refuses the two
 * messages, or changes the answer, says nothing. */
static int find_end_of_turn(struct gt_conversation *c, struct gt_err *err)
{
	static const char answer[] = "answer";
	json_t *messages = json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "user", "content", "question",
	    "role", "assistant", "content", answer);
	struct gt_jinja_text t = { 0 };
	const char *at = NULL, *next;
	int rc = 0;

	if (!messages)
		return gt_err_set(err, GT_ENOMEM, "out of memory: a conversation");
	if (!gt_chat_render(&t, &c->format, messages, 2, NULL, false, GT_ERR_IGNORED))
		for (next = strstr(t.text, answer); next; next = strstr(next + 1, answer))
			at = next;
	if (at)
		rc = find_added_token(&c->ends[1], c, at + strlen(answer), err);
	gt_jinja_text_release(&t);
	json_decref(messages);
	return rc;
}

int gt_conversation_open(struct gt_conversation **out, const struct gt_tokenizer *tok,
    struct gt_file_name tokenizer, struct gt_err *err)
{
	struct gt_conversation *c = gt_calloc(1, sizeof(*c), err);
	int rc = c ? 0 : GT_ENOMEM;

	*out = c;
	if (rc)
		return rc;
	c->tok = tok;
	c->ends[0] = c->ends[1] = -1;
	c->messages = json_array();
	if (!c->messages)
		rc = gt_err_set(err, GT_ENOMEM, "out of memory: a conversation");
	if (!rc && !gt_tokenizer_bpe(tok))
		rc = gt_err_set(err, GT_EINVAL,
		    "conversations need a tokenizer with a chat template, and the vocabulary is one "
		    "of characters or bytes");
	if (!rc)
		rc = gt_chat_format_open(&c->format, NULL, NULL, tokenizer, err);
	if (!rc)
		rc = gt_chat_find_eos(&c->ends[0], &c->format, tok, err);
	if (!rc)
		rc = find_end_of_turn(c, err);
	if (rc) {
		gt_conversation_close(c);
		*out = NULL;
	}
	return rc;
}

void gt_conversation_close(struct gt_conversation *c)
{
	if (!c)
		return;
	gt_chat_format_release(&c->format);
	json_decref(c->messages);
	free(c);
}

int gt_conversation_add(
    struct gt_conversation *c, const char *role, const char *text, size_t size, struct gt_err *err)
{
	json_t *content = json_stringn(text, size), *message;

	if (!content)
		return gt_err_set(err, GT_EFORMAT, "a message is not UTF-8");
	message = json_pack("{s:s,s:o}", "role", role, "content", content);
	if (!message || json_array_append_new(c->messages, message))
		return gt_err_set(err, GT_ENOMEM, "out of memory: a conversation");
	return 0;
}

void gt_conversation_take_back(struct gt_conversation *c)
{
	if (json_array_size(c->messages))
		json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

static bool is_of_user(const struct gt_conversation *c, size_t i)
{
	const json_t *role = json_object_get(json_array_get(c->messages, i), "role");

	return !strcmp(json_string_value(role), "user");
}

bool gt_conversation_forget(struct gt_conversation *c)
{
	size_t count = json_array_size(c->messages), first = 0, next;

	while (first < count && !is_of_user(c, first))
		first++;
	next = first + 1;
	while (next < count && !is_of_user(c, next))
		next++;
	if (next >= count)
		return false;
	for (; next > first; next--)
		json_array_remove(c->messages, first);
	return true;
}

int gt_conversation_prompt(
    const struct gt_conversation *c, int32_t **ids, size_t *count, struct gt_err *err)
{
	struct gt_jinja_text t;
	int rc = gt_chat_render(
	    &t, &c->format, c->messages, json_array_size(c->messages), NULL, true, err);

	*ids = NULL;
	if (!rc)
		rc = gt_tokenizer_encode(c->tok, t.text, t.size, ids, count, err);
	gt_jinja_text_release(&t);
	return rc;
}

bool gt_conversation_ends(const struct gt_conversation *c, int32_t id)
{
	return id >= 0 && (id == c->ends[0] || id == c->ends[1]);
}
