/* markdown.h - private: texts in the Markdown that TensorBoard shows. */
#ifndef GT_TRAIN_TENSORBOARD_MARKDOWN_H
#define GT_TRAIN_TENSORBOARD_MARKDOWN_H

#include "lib/base/buf.h"

/* Add a text as one line, in which no character has a meaning of its own. */
void gt_markdown_add(struct gt_buf *b, const char *text);

/* Add a paragraph that is shown as it is. */
void gt_markdown_add_verbatim(struct gt_buf *b, const char *text, size_t size);

#endif
