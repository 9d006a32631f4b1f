/* chat.c - a conversation: a line of the user, an answer of the model. */
#include "cmd/generate/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

/* An answer while it is written, to standard output and for the next prompt. */
struct answer {
	const struct gt_chat *chat;
	struct gt_token_writer shown, kept;
	bool ended; /* by a token, or by a signal */
};

static int emit(void *self, int32_t id, struct gt_err *err)
{
	struct answer *a = self;

	a->ended = gt_data_token_ends(a->chat->specials, id) ||
	           gt_conversation_ends(a->chat->conversation, id) || a->chat->stop->stop_requested;
	if (a->ended)
		return GT_GENERATE_END;
	gt_token_writer_put(&a->shown, id);
	gt_token_writer_put(&a->kept, id);
	if (ferror(stdout) || fflush(stdout))
		return gt_err_sys(err, "cannot write the text");
	return 0;
}

/* Set *ids to the tokens of the conversation, without the oldest messages if they are too many for
 * the model; NULL: the last message alone is. The caller frees them. */
static int encode(const struct gt_chat *chat, int32_t **ids, size_t *count, struct gt_err *err)
{
	const size_t block = (size_t)chat->generator->block;
	int forgotten = 0, rc;

	while (!(rc = gt_conversation_prompt(chat->conversation, ids, count, err)) &&
	       *count >= block) {
		free(*ids);
		*ids = NULL;
		if (!gt_conversation_forget(chat->conversation)) {
			gt_log_warn(chat->log,
			    "the message is left out: with it there are %zu tokens, and the model "
			    "takes %zu",
			    *count, block - 1);
			return 0;
		}
		forgotten++;
	}
	if (!rc && forgotten)
		gt_log_warn(chat->log,
		    "the conversation is longer than the model's block: %d of the oldest messages "
		    "are left out, with their answers",
		    forgotten);
	return rc;
}

/* Write the answer to the prompt that the generator has. */
static int write_answer(
    struct gt_chat *chat, FILE *kept, const struct gt_sampling *sampling, struct gt_err *err)
{
	const int64_t left = chat->generator->block - chat->generator->count;
	struct answer a = { .chat = chat };
	int rc;

	a.shown = (struct gt_token_writer){ .tok = chat->tokenizer,
		.out = stdout,
		.begun = true,
		.terminal = isatty(STDOUT_FILENO) };
	a.kept = (struct gt_token_writer){ .tok = chat->tokenizer, .out = kept, .begun = true };
	chat->stop->graceful = true;
	rc = gt_generate(
	    chat->generator, left < chat->tokens ? left : chat->tokens, sampling, emit, &a, err);
	chat->stop->graceful = false;
	gt_token_writer_end(&a.shown);
	gt_token_writer_end(&a.kept);
	putchar('\n');
	if (!rc && !a.ended && left < chat->tokens)
		gt_log_warn(chat->log, "the answer ends here: the model takes no more tokens");
	return rc;
}

/* Answer the last message. */
static int answer(struct gt_chat *chat, struct gt_err *err)
{
	int32_t *ids = NULL;
	char *text = NULL;
	size_t count = 0, size = 0;
	FILE *kept;
	int rc = encode(chat, &ids, &count, err);

	if (rc)
		return rc;
	if (!ids) {
		gt_conversation_take_back(chat->conversation);
		return 0;
	}
	gt_generator_rewrite(chat->generator, ids, count);
	free(ids);
	kept = open_memstream(&text, &size);
	if (!kept)
		return gt_err_sys(err, "cannot hold the text");
	rc = write_answer(chat, kept, &chat->sampling, err);
	chat->sampling.seed++;
	if (fclose(kept) && !rc)
		rc = gt_err_sys(err, "cannot hold the text");
	if (!rc)
		rc = gt_conversation_add(chat->conversation, "assistant", text, size, err);
	free(text);
	return rc;
}

/* Return the length of a line without its end. */
static size_t length_of(const char *line, ssize_t size)
{
	while (size && (line[size - 1] == '\n' || line[size - 1] == '\r'))
		size--;
	return (size_t)size;
}

static int answer_line(
    struct gt_chat *chat, const char *line, size_t size, long number, struct gt_err *err)
{
	int rc = gt_conversation_add(chat->conversation, "user", line, size, err);

	if (rc)
		return gt_err_prefix(err, "standard input, line %ld", number);
	rc = answer(chat, err);
	if (chat->stop->asked == SIGTERM || chat->stop->asked == SIGHUP)
		gt_cmd_end_by_signal(chat->stop->asked);
	chat->stop->stop_requested = false;
	return rc;
}

int gt_chat_run(struct gt_chat *chat, struct gt_err *err)
{
	const bool asks = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	const char *prompt = asks ? "> " : "";
	char *line = NULL;
	size_t capacity = 0;
	ssize_t size;
	int rc = 0;

	for (long number = 1; !rc; number++) {
		size_t length;

		fputs(prompt, stdout);
		fflush(stdout);
		size = getline(&line, &capacity, stdin);
		if (size < 0)
			break;
		length = length_of(line, size);
		if (length)
			rc = answer_line(chat, line, length, number, err);
	}
	if (!rc && ferror(stdin))
		rc = gt_err_sys(err, "cannot read standard input");
	if (!rc && asks)
		putchar('\n');
	free(line);
	return rc;
}
