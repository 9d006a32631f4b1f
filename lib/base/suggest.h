/* suggest.h - the nearest right word to a mistyped one. */
#ifndef GT_BASE_SUGGEST_H
#define GT_BASE_SUGGEST_H

/*
 * Pass the right words one after the other; the nearest one is kept, the first of equally near
 * ones. A word is near if it begins with `word`, or if at most a third of the letters (at least
 * one) are inserted, dropped, changed or swapped with their neighbour. Words are borrowed; nothing
 * is allocated.
 *
 *	struct gt_suggest near = { .word = "trian" };
 *	gt_suggest_offer(&near, "train");
 *	if (near.best) ...
 *
 * Source: the optimal string alignment distance, Damerau, CACM 7(3), 1964.
 */
struct gt_suggest {
	const char *word;
	const char *best; /* NULL: nothing near */
	int distance;     /* edits between `word` and `best` */
};

void gt_suggest_offer(struct gt_suggest *near, const char *candidate);

#endif
