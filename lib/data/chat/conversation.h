/* conversation.h - a conversation with a model, which its chat template turns into tokens. */
#ifndef GT_DATA_CHAT_CONVERSATION_H
#define GT_DATA_CHAT_CONVERSATION_H

#include "lib/data/core/data.h"

struct gt_conversation;

/* Begin a conversation. `tok`, which is borrowed, was opened from the file or folder `tokenizer`,
 * beside which the chat template is (gt_tokenizer_config_read()). Errors: GT_EINVAL if there is no
 * template; GT_EFORMAT, GT_ENOTSUP, GT_EIO, GT_ENOMEM. */
int gt_conversation_open(struct gt_conversation **out, const struct gt_tokenizer *tok,
    struct gt_file_name tokenizer, struct gt_err *err);
void gt_conversation_close(struct gt_conversation *c); /* NULL is fine */

/* Add a message of the role "system", "user" or "assistant". Errors: GT_EFORMAT for a text that is
 * not UTF-8; GT_ENOMEM. */
int gt_conversation_add(
    struct gt_conversation *c, const char *role, const char *text, size_t size, struct gt_err *err);

/* Remove the last message. */
void gt_conversation_take_back(struct gt_conversation *c);

/* Forget the oldest message of the user, with all up to the next one. Return false if there is no
 * next one. */
bool gt_conversation_forget(struct gt_conversation *c);

/* Set *ids, which the caller frees, to the tokens of the messages and of the prompt for an answer.
 * Errors: those of a template that refuses the messages; GT_ENOMEM. */
int gt_conversation_prompt(
    const struct gt_conversation *c, int32_t **ids, size_t *count, struct gt_err *err);

/* Return whether a token ends an answer: the token that ends texts, or the added token that the
 * template writes behind an answer. */
bool gt_conversation_ends(const struct gt_conversation *c, int32_t id);

#endif
