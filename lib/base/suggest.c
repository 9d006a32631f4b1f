/* suggest.c - the nearest right word to a mistyped one. */
#include "lib/base/suggest.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 48 }; /* longer than every command and option */

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* Return the number of edits from a [m] to b [n], m, n <= LONGEST. A swap of two neighbours is one
 * edit. */
static int distance(const char *a, size_t m, const char *b, size_t n)
{
	int row[3][LONGEST + 1]; /* rows i - 2, i - 1 and i of the table, rotating */
	int *before = row[0], *above = row[1], *here = row[2];

	for (size_t j = 0; j <= n; j++)
		above[j] = (int)j;
	for (size_t i = 1; i <= m; i++) {
		int *rotate = before;

		here[0] = (int)i;
		for (size_t j = 1; j <= n; j++) {
			int change = above[j - 1] + (a[i - 1] != b[j - 1]);

			here[j] = least(change, least(above[j], here[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				here[j] = least(here[j], before[j - 2] + 1);
		}
		before = above;
		above = here;
		here = rotate;
	}
	return above[n];
}

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
void gt_suggest_offer(struct gt_suggest *near, const char *candidate)
{
	size_t m = strlen(near->word), n = strlen(candidate);
	int far = m < 6 ? 1 : (int)(m / 3);
	int d;

	if (!m || m > LONGEST || n > LONGEST)
		return;
	d = distance(near->word, m, candidate, n);
	if (m >= 2 && m < n && !strncmp(near->word, candidate, m))
		d = 1;
	if (d <= far && (!near->best || d < near->distance)) {
		near->best = candidate;
		near->distance = d;
	}
}

/* Return the next letter in lower case, skipping dashes and underscores; 0 at the end. */
static char next_letter(const char **p, const char *end)
{
	while (*p < end && (**p == '-' || **p == '_'))
		++*p;
	return *p < end ? (char)tolower((unsigned char)*(*p)++) : '\0';
}

static bool same_letters(const char *a, size_t a_length, const char *b, size_t b_length)
{
	const char *a_end = a + a_length, *b_end = b + b_length;
	char letter;

	do {
		letter = next_letter(&a, a_end);
		if (letter != next_letter(&b, b_end))
			return false;
	} while (letter);
	return true;
}

bool gt_suggest_same_letters(const char *a, const char *b)
{
	return same_letters(a, strlen(a), b, strlen(b));
}

bool gt_suggest_has_word(const char *words, const char *name)
{
	while (*words) {
		size_t length = strcspn(words, " ");

		if (same_letters(words, length, name, strlen(name)))
			return true;
		words += length;
		words += strspn(words, " ");
	}
	return false;
}
