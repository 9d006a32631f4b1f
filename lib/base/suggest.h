/* suggest.h - find the valid word that is most similar to a mistyped word. */
#ifndef GT_BASE_SUGGEST_H
#define GT_BASE_SUGGEST_H

#include <stdbool.h>

/* Set `word`, and offer all valid words: `best` is then the most similar, the first of equals.
 * Words are borrowed. */
struct gt_suggest {
	const char *word;
	const char *best; /* NULL: no word was similar */
	int distance;     /* number of edits from `word` to `best` */
};

/* Compare a valid word with near->word, and keep it as `best` if it is more similar. */
void gt_suggest_offer(struct gt_suggest *near, const char *candidate);

/* Return whether two names are equal without case, dashes and underscores: "batch_size" is
 * "batchSize". */
bool gt_suggest_same_letters(const char *a, const char *b);

/* Return whether one of `words`, separated by spaces, has the letters of `name`. */
bool gt_suggest_has_word(const char *words, const char *name);

#endif
