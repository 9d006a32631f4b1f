/* answers.h - private: conversations as tokens, with the tokens of the answers. */
#ifndef GT_DATA_CHAT_ANSWERS_H
#define GT_DATA_CHAT_ANSWERS_H

#include "lib/data/chat/documents.h"
#include "lib/data/chat/format.h"
#include "lib/data/chat/messages.h"
#include "lib/data/core/data.h"

/* The answers that are trained on. */
enum gt_chat_answers {
	GT_CHAT_ALL,  /* all of a conversation, in one sample */
	GT_CHAT_LAST, /* the last one */
	GT_CHAT_EACH  /* all, each in a sample of its own, behind the messages before it */
};

/*
 * Append the samples of a conversation; none if it has no answer.
 *
 * The template says which tokens are an answer: those that overlap a {% generation %} block. A
 * template without such blocks is rendered again without the answer, with the prompt for it, and
 * with the answer as the last message:
 *
 *   prompt   <user> 1+1? <end> <model>
 *   answer   <user> 1+1? <end> <model> 2 <end>
 *   all      <user> 1+1? <end> <model> 2 <end> <user> ...
 *                                      ^^^^^^^
 *
 * Errors: GT_EFORMAT if the template writes the messages before in another way then; those of
 * gt_jinja_render() and gt_tokenizer_encode().
 */
int gt_chat_encode(struct gt_document_list *out, const struct gt_chat_format *f,
    const struct gt_tokenizer *tok, const struct gt_chat_messages *messages,
    enum gt_chat_answers answers, struct gt_err *err);

#endif
