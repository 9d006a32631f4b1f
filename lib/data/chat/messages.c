/* messages.c - rows of conversations in the forms that people have. */
#include "lib/data/chat/messages.h"

#include <string.h>

/* Names of roles in ShareGPT's rows, and those of templates. */
static const struct {
	const char *from, *role;
} roles[] = {
	{ "human", "user" },
	{ "user", "user" },
	{ "gpt", "assistant" },
	{ "assistant", "assistant" },
	{ "chatgpt", "assistant" },
	{ "model", "assistant" },
	{ "bing", "assistant" },
	{ "bard", "assistant" },
	{ "system", "system" },
	{ "tool", "tool" },
	{ "observation", "tool" },
	{ "function_response", "tool" },
};

static int fail_memory(struct gt_err *err)
{
	return gt_err_set(err, GT_ENOMEM, "out of memory: a conversation");
}

static int add_message(json_t *list, const char *role, json_t *content, struct gt_err *err)
{
	json_t *message = json_pack("{s:s,s:O}", "role", role, "content", content);

	return json_array_append_new(list, message) ? fail_memory(err) : 0;
}

/* ---- OpenAI ---- */

/* The reasoning of an answer under one of its names, or NULL. */
static json_t *find_reasoning(const json_t *message)
{
	static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		json_t *value = json_object_get(message, names[i]);

		if (value && !json_is_null(value))
			return value;
	}
	return NULL;
}

static int copy_message(json_t *list, const json_t *from, struct gt_err *err)
{
	json_t *message, *object = (json_t *)from, *value, *reasoning = find_reasoning(from);
	const char *key;
	int failed = 0;

	if (!json_is_string(json_object_get(from, "role")))
		return gt_err_set(
		    err, GT_EFORMAT, "message %zu has no \"role\"", json_array_size(list) + 1);
	message = json_object();
	if (reasoning)
		failed |= json_object_set(message, "thinking", reasoning);
	json_object_foreach(object, key, value)
	{
		if (!json_is_null(value))
			failed |= json_object_set(message, key, value);
	}
	if (reasoning)
		failed |= json_object_set(message, "reasoning_content", reasoning);
	return json_array_append_new(list, message) || failed ? fail_memory(err) : 0;
}

static int copy_messages(json_t *list, const json_t *from, const char *name, struct gt_err *err)
{
	const json_t *message;
	size_t i;
	int rc = 0;

	if (!json_is_array(from))
		return gt_err_set(err, GT_EFORMAT, "\"%s\" is not a list of messages", name);
	json_array_foreach(from, i, message)
	{
		if (!rc)
			rc = copy_message(list, message, err);
	}
	return rc;
}

/* ---- ShareGPT ---- */

static int convert_message(json_t *list, const json_t *from, struct gt_err *err)
{
	const char *name = json_string_value(json_object_get(from, "from"));
	json_t *value = json_object_get(from, "value");

	if (json_object_get(from, "role"))
		return copy_message(list, from, err);
	if (!name || !json_is_string(value))
		return gt_err_set(err, GT_EFORMAT, "message %zu has no \"from\" and \"value\"",
		    json_array_size(list) + 1);
	for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++)
		if (!strcmp(roles[i].from, name))
			return add_message(list, roles[i].role, value, err);
	gt_err_set(err, GT_ENOTSUP, "message %zu is from '%.60s'", json_array_size(list) + 1, name);
	return gt_err_hint(err, "known: human, gpt, system, tool and words that mean these");
}

static int convert_messages(
    struct gt_chat_messages *out, const json_t *row, const json_t *from, struct gt_err *err)
{
	json_t *system = json_object_get(row, "system");
	const json_t *message;
	size_t i;
	int rc = 0;

	if (!json_is_array(from))
		return gt_err_set(err, GT_EFORMAT, "\"conversations\" is not a list of messages");
	if (json_string_length(system))
		rc = add_message(out->list, "system", system, err);
	json_array_foreach(from, i, message)
	{
		if (!rc)
			rc = convert_message(out->list, message, err);
	}
	return rc;
}

/* ---- prompt and completion ---- */

/* Texts are a message each. */
static int add_part(
    json_t *list, json_t *part, const char *name, const char *role, struct gt_err *err)
{
	return json_is_string(part) ? add_message(list, role, part, err)
	                            : copy_messages(list, part, name, err);
}

static int start_messages(struct gt_chat_messages *out, const json_t *row, struct gt_err *err)
{
	const json_t *tools = json_object_get(row, "tools");

	*out = (struct gt_chat_messages){ .list = json_array() };
	if (!out->list)
		return fail_memory(err);
	if (tools && !json_is_null(tools) && !json_is_array(tools))
		return gt_err_set(err, GT_EFORMAT, "\"tools\" is not a list");
	out->tools = json_array_size(tools) ? tools : NULL;
	return 0;
}

int gt_chat_messages_read(struct gt_chat_messages *out, const json_t *row, struct gt_err *err)
{
	json_t *messages = json_object_get(row, "messages"),
	       *conversations = json_object_get(row, "conversations"),
	       *prompt = json_object_get(row, "prompt"),
	       *completion = json_object_get(row, "completion");
	int rc = start_messages(out, row, err);

	if (rc)
		return rc;
	if (messages) {
		rc = copy_messages(out->list, messages, "messages", err);
	} else if (conversations) {
		rc = convert_messages(out, row, conversations, err);
	} else if (prompt && completion) {
		rc = add_part(out->list, prompt, "prompt", "user", err);
		out->first = json_array_size(out->list);
		if (!rc)
			rc = add_part(out->list, completion, "completion", "assistant", err);
	} else {
		gt_err_set(err, GT_EFORMAT,
		    "the row has neither \"messages\", \"conversations\", nor \"prompt\" and "
		    "\"completion\"");
		rc = json_object_get(row, "text")
		         ? gt_err_hint(err, "plain texts are data of the kind jsonl")
		         : err->code;
	}
	return rc;
}

/* ---- pairs ---- */

/* The messages that both begin with. */
static size_t count_common(const json_t *a, const json_t *b)
{
	size_t n = 0;

	while (n < json_array_size(a) && n < json_array_size(b) &&
	       json_equal(json_array_get(a, n), json_array_get(b, n)))
		n++;
	return n;
}

/* Whether an answer is a conversation that has the prompt in it: it does not begin with an answer
 * of the model. */
static bool is_whole(const json_t *answer)
{
	const json_t *first = json_array_get(answer, 0);
	const char *role = json_string_value(json_object_get(first, "role"));

	return role && strcmp(role, "assistant") != 0;
}

/* Data sets that have the prompt in both answers often name its text, too. */
static int read_answer(
    struct gt_chat_messages *out, const json_t *row, const char *name, struct gt_err *err)
{
	json_t *prompt = json_object_get(row, "prompt"), *answer = json_object_get(row, name);
	int rc = start_messages(out, row, err);

	if (rc)
		return rc;
	if (json_is_string(prompt) ? !is_whole(answer) : json_is_array(prompt))
		rc = add_part(out->list, prompt, "prompt", "user", err);
	else if (json_is_string(answer))
		rc = gt_err_set(
		    err, GT_EFORMAT, "\"%s\" is a text, and there is no \"prompt\"", name);
	out->first = json_array_size(out->list);
	return rc ? rc : add_part(out->list, answer, name, "assistant", err);
}

/* Find the messages that both begin with, behind which each must have others. */
static int find_prompt(struct gt_chat_messages out[2], struct gt_err *err)
{
	const size_t common = count_common(out[0].list, out[1].list);
	const size_t count[] = { json_array_size(out[0].list), json_array_size(out[1].list) };

	if (!common)
		return gt_err_set(
		    err, GT_EFORMAT, "\"chosen\" and \"rejected\" have no prompt in common");
	if (common == count[0] && common == count[1])
		return gt_err_set(err, GT_EFORMAT, "\"chosen\" and \"rejected\" are the same");
	for (int i = 0; i < 2; i++)
		if (common == count[i])
			return gt_err_set(err, GT_EFORMAT,
			    "\"%s\" has no message behind those of \"%s\"",
			    i ? "rejected" : "chosen", i ? "chosen" : "rejected");
	out[0].first = out[1].first = common > out[0].first ? common : out[0].first;
	return 0;
}

int gt_chat_pair_read(struct gt_chat_messages out[2], const json_t *row, struct gt_err *err)
{
	int rc;

	out[0] = out[1] = (struct gt_chat_messages){ 0 };
	if (!json_object_get(row, "chosen") || !json_object_get(row, "rejected")) {
		gt_err_set(err, GT_EFORMAT, "the row has no \"chosen\" and \"rejected\"");
		return gt_err_hint(
		    err, "conversations without a worse answer are data of the kind chat");
	}
	rc = read_answer(&out[0], row, "chosen", err);
	if (!rc)
		rc = read_answer(&out[1], row, "rejected", err);
	return rc ? rc : find_prompt(out, err);
}

void gt_chat_messages_release(struct gt_chat_messages *m)
{
	json_decref(m->list);
	*m = (struct gt_chat_messages){ 0 };
}

int gt_chat_is_answer(const struct gt_chat_messages *m, size_t i)
{
	const char *role = json_string_value(json_object_get(json_array_get(m->list, i), "role"));

	return i >= m->first && !strcmp(role, "assistant");
}
