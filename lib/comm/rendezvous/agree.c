/* agree.c - compare the settings with which two ranks were started. */
#include "lib/comm/rendezvous/messages.h"

/* One line of an agreement, "KEY VALUE"; both point into its text. */
struct item {
	const char *key, *value;
	size_t key_size, value_size;
};

/* Parse the item at *text, and move *text past it. Return false at the end. */
static bool next_item(struct item *out, const char **text)
{
	size_t line;

	*text += strspn(*text, "\n");
	line = strcspn(*text, "\n");
	*out = (struct item){ .key = *text, .key_size = strcspn(*text, " \n") };
	out->value = *text + out->key_size + (out->key_size < line);
	out->value_size = line - (size_t)(out->value - *text);
	*text += line;
	return line > 0;
}

static bool find_item(struct item *out, const char *text, const struct item *like)
{
	while (next_item(out, &text))
		if (out->key_size == like->key_size && !memcmp(out->key, like->key, like->key_size))
			return true;
	return false;
}

/* Fail with both values, each cut to the length that fits into a message. */
static int differs(const struct item *key, const struct item *ours, const struct item *theirs,
    int their_rank, struct gt_err *err)
{
	static const struct item nothing = { "", "", 0, 0 };
	const struct item *a = ours ? ours : &nothing, *b = theirs ? theirs : &nothing;
	int max = 120;

	gt_err_set(err, GT_EINVAL, "%.*s differs: '%.*s' on rank 0, '%.*s' on rank %d",
	    (int)(key->key_size < 40 ? key->key_size : 40), key->key,
	    a->value_size < (size_t)max ? (int)a->value_size : max, a->value,
	    b->value_size < (size_t)max ? (int)b->value_size : max, b->value, their_rank);
	return gt_err_hint(err, "start all ranks with the same version and the same options");
}

int gt_agreement_compare(const char *ours, const char *theirs, int their_rank, struct gt_err *err)
{
	struct item mine, other;
	const char *p = ours;

	while (next_item(&mine, &p)) {
		bool found = find_item(&other, theirs, &mine);

		if (!found || mine.value_size != other.value_size ||
		    memcmp(mine.value, other.value, mine.value_size) != 0)
			return differs(&mine, &mine, found ? &other : NULL, their_rank, err);
	}
	for (p = theirs; next_item(&other, &p);)
		if (!find_item(&mine, ours, &other))
			return differs(&other, NULL, &other, their_rank, err);
	return 0;
}
