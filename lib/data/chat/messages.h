/* messages.h - private: rows of conversations in the forms that people have. */
#ifndef GT_DATA_CHAT_MESSAGES_H
#define GT_DATA_CHAT_MESSAGES_H

#include <jansson.h>
#include <stddef.h>

#include "lib/base/err.h"

/* A conversation. */
struct gt_chat_messages {
	json_t *list;        /* [{"role", "content", ...}] */
	const json_t *tools; /* borrowed from the row; NULL: none */
	size_t first;        /* answers before this message are not trained on */
};

/*
 * Read a row of one of these forms:
 *
 *   {"messages": [{"role": "user", "content": "..."}, ...]}             OpenAI
 *   {"conversations": [{"from": "human", "value": "..."}, ...]}         ShareGPT
 *   {"prompt": "...", "completion": "..."}                              or lists of messages
 *
 * "tools" is a list of functions; "system" of a ShareGPT row is a message before the others. As in
 * transformers, members with null are left out, and the reasoning of an answer has both of its
 * names. Release *out, also after an error. Errors: GT_EFORMAT.
 */
int gt_chat_messages_read(struct gt_chat_messages *out, const json_t *row, struct gt_err *err);
/*
 * Read a row with a better and a worse answer, in one of the forms that TRL reads:
 *
 *   {"prompt": "...", "chosen": "...", "rejected": "..."}          or lists of messages
 *   {"chosen": [messages], "rejected": [messages]}                 with the prompt in both
 *
 * The prompt is what both begin with, and at least one message; a text "prompt" beside lists that
 * begin with it is not read. All answers behind it are trained on. out[0] is the better one.
 * Release both, also after an error. Errors: GT_EFORMAT.
 */
int gt_chat_pair_read(struct gt_chat_messages out[2], const json_t *row, struct gt_err *err);

void gt_chat_messages_release(struct gt_chat_messages *m);

/* Return whether message `i` is an answer of the model. */
int gt_chat_is_answer(const struct gt_chat_messages *m, size_t i);

#endif
