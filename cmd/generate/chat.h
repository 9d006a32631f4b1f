/* chat.h - a conversation at standard input and output. */
#ifndef GT_CMD_GENERATE_CHAT_H
#define GT_CMD_GENERATE_CHAT_H

#include "cmd/stop.h"
#include "lib/data/chat/conversation.h"
#include "lib/data/core/description.h"
#include "lib/train/generate.h"

/* A conversation. All members are the caller's. */
struct gt_chat {
	struct gt_conversation *conversation;
	struct gt_generator *generator; /* for open texts */
	const struct gt_tokenizer *tokenizer;
	const struct gt_data_specials *specials; /* their ends end an answer, too */
	struct gt_sampling sampling;             /* answer i is drawn with the seed + i */
	int64_t tokens;                          /* of an answer, at most */
	struct gt_log *log;
	struct gt_stop *stop; /* a signal ends an answer, or between two of them the process */
};

/* Read lines of standard input to its end, and write the answer to each of them. Errors: GT_EINVAL
 * for a line that is not UTF-8, GT_EIO; those of gt_generate() and gt_conversation_prompt(). */
int gt_chat_run(struct gt_chat *chat, struct gt_err *err);

#endif
