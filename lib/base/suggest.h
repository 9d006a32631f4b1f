/* suggest.h - find the valid word that is most similar to a mistyped word. */
#ifndef GT_BASE_SUGGEST_H
#define GT_BASE_SUGGEST_H

#include <stdbool.h>

/*
 * Set `word` to the mistyped word, and pass all valid words to gt_suggest_offer() one after the
 * other. Afterwards `best` is the most similar valid word; if several are equally similar, the
 * first.
 *
 * A valid word is similar if a small number of edits changes `word` into it. An edit inserts,
 * removes or changes a letter, or swaps two neighbouring letters. The maximum number of edits is a
 * third of the length of `word`, but at least 1. If a valid word begins with `word`, and `word` has
 * two letters or more, all the missing letters together count as one edit. An empty word and words
 * of more than 48 bytes are similar to none.
 *
 * Words are borrowed, and no memory is allocated.
 *
 *	struct gt_suggest near = { .word = "trian" };
 *	gt_suggest_offer(&near, "train");
 *	if (near.best) ...
 *
 * Source: Damerau, CACM 7(3), 1964 (the optimal string alignment distance).
 */
struct gt_suggest {
	const char *word;
	const char *best; /* NULL: no word was similar */
	int distance;     /* number of edits from `word` to `best` */
};

/* Compare a valid word with near->word, and update near->best. */
void gt_suggest_offer(struct gt_suggest *near, const char *candidate);

/* Return whether two names have the same letters. Case, dashes and underscores do not count: so
 * "batch_size" and "batchSize" are "batch-size". */
bool gt_suggest_same_letters(const char *a, const char *b);

/* Return whether one of `words`, which are separated by spaces, has the letters of `name`. */
bool gt_suggest_has_word(const char *words, const char *name);

#endif
