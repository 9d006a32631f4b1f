/* task_text.h - private: texts changed as Python's functions for strings change them. */
#ifndef GT_TRAIN_TASK_TEXT_H
#define GT_TRAIN_TASK_TEXT_H

#include "lib/base/buf.h"

/* Return the length of the text, of `size` bytes, without the white space at its end: str.rstrip().
 * Set *skip, unless NULL, to the bytes of white space at its beginning. */
size_t gt_task_strip(const char *text, size_t size, size_t *skip);

/* Return the number of words: 1 and the stretches of white space, as re.split(r"\s+", text). */
int64_t gt_task_words_of(const char *text, size_t size);

/* Return the number of characters. */
int64_t gt_task_characters(const char *text, size_t size);

/* Append a text in lower case, but for its first character: str.capitalize(). The few characters
 * that become several, such as the sharp s in the first place, stay as they are. */
void gt_task_capitalize(struct gt_buf *out, const char *text, size_t size);

/* Append a text of HellaSwag without the marks of WikiHow, such as "[header]" and "[step]". */
void gt_task_clean(struct gt_buf *out, const char *text, size_t size);

#endif
