/* remap.c - the devices that storages were saved on, changed by FROM=TO. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/torch/torch.h"

/*
 * A location is a tag that torch.load hands to the first of its functions that knows it. Source:
 * torch/serialization.py, register_package() and the _..._tag() functions, PyTorch 1.13 and 2.4.
 */
static const struct {
	const char *name;
	bool indexed; /* "cuda:0"; otherwise the name is all */
} types[] = {
	{ "cpu", false },
	{ "cuda", true },
	{ "mps", false },
	{ "xpu", true },
	{ "hpu", true },
	{ "npu", true },
};

enum { COUNT_TYPES = sizeof(types) / sizeof(*types), INDEX_MAX = 1023, TEXT_BYTES = 32 };

struct rule {
	char from[TEXT_BYTES]; /* a device as files name it ("cuda:0"), "cuda:*" or "*" */
	char to[TEXT_BYTES];
	bool known; /* the type of the device is in the table above */
	size_t hits;
};

/* Write "cuda" as "cuda:0", and check the name; false if it is not a device. */
static bool normalize(char out[TEXT_BYTES], const char *text, bool pattern)
{
	size_t length = strcspn(text, ":");
	const char *index = text[length] ? text + length + 1 : NULL;
	int64_t number = 0;

	for (int i = 0; i < COUNT_TYPES; i++) {
		if (strlen(types[i].name) != length || memcmp(types[i].name, text, length))
			continue;
		if (!types[i].indexed)
			return snprintf(out, TEXT_BYTES, "%s", types[i].name) > 0 && !index;
		if (pattern && index && !strcmp(index, "*"))
			return snprintf(out, TEXT_BYTES, "%s:*", types[i].name) > 0;
		if (index &&
		    (!gt_text_parse_int(&number, index) || number < 0 || number > INDEX_MAX))
			return false;
		return snprintf(out, TEXT_BYTES, "%s:%d", types[i].name, (int)number) > 0;
	}
	return false;
}

static int fail_on_rule(const char *word, const char *what, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "'%.100s': %s", word, what);
	return gt_err_hint(err,
	    "as in 'cuda:0=cpu', 'cuda:*=cuda:0', '*=cpu'; devices are cpu, cuda:N, mps, "
	    "xpu:N, hpu:N, npu:N");
}

/* Parse FROM=TO. FROM may be a tag that occurs only in the file; the caller reports it if not. */
static int parse_rule(struct rule *r, const char *word, struct gt_err *err)
{
	const char *equals = strchr(word, '=');
	char from[TEXT_BYTES];

	if (!equals || equals == word || !equals[1])
		return fail_on_rule(word, "not FROM=TO", err);
	if ((size_t)(equals - word) >= sizeof(from))
		return fail_on_rule(word, "no device has the name before '='", err);
	memcpy(from, word, (size_t)(equals - word));
	from[equals - word] = '\0';
	*r = (struct rule){ .known = true };
	if (!strcmp(from, "*") || !normalize(r->from, from, true)) {
		r->known = !strcmp(from, "*");
		memcpy(r->from, from, sizeof(from));
	}
	if (!normalize(r->to, equals + 1, false))
		return fail_on_rule(word, "no device has the name after '='", err);
	return 0;
}

static bool rule_matches(const char *from, const char *location)
{
	size_t length = strlen(from);

	if (!strcmp(from, "*") || !strcmp(from, location))
		return true;
	if (length < 2 || strcmp(from + length - 2, ":*"))
		return false;
	return !strncmp(from, location, length - 1) ||
	       (!strncmp(from, location, length - 2) && !location[length - 2]);
}

static struct rule *find_rule(struct rule *rules, size_t count, const char *location)
{
	for (size_t i = 0; i < count; i++)
		if (rule_matches(rules[i].from, location) || /* "cuda" in a file is cuda:0 */
		    (!strchr(location, ':') &&
		        !strncmp(rules[i].from, location, strlen(location)) &&
		        !strcmp(rules[i].from + strlen(location), ":0")))
			return &rules[i];
	return NULL;
}

/* ---- the note ---- */

static int compare_changes(const void *a, const void *b)
{
	const struct gt_edit_change *x = a, *y = b;

	return strcmp(x->where, y->where);
}

/* A storage is as often in the pickle as tensors look at it. 0: out of memory. */
static size_t count_storages(const struct gt_edit *e, struct gt_err *err)
{
	struct gt_index storages = { .compare = compare_changes };
	const void *first = e;
	size_t n = 0;

	for (size_t i = 0; first && i < e->count; i++) {
		first = gt_index_add(&storages, &e->changes[i], err);
		n += first == &e->changes[i];
	}
	gt_index_release(&storages);
	return first ? n : 0;
}

static int note_locations(struct gt_edit *e, const struct gt_ckpt *ckpt, const struct rule *rules,
    size_t count, struct gt_err *err)
{
	const struct gt_torch_location *last = ckpt->locations;
	struct gt_buf note = { 0 };
	const char *comma = "";
	size_t storages;

	if (e->count) {
		storages = count_storages(e, err);
		if (!storages)
			return GT_ENOMEM;
		gt_buf_printf(
		    &note, "device of %zu storage%s changed: ", storages, storages == 1 ? "" : "s");
		for (size_t i = 0; i < count; i++) {
			if (!rules[i].hits)
				continue;
			gt_buf_printf(&note, "%s%s to %s", comma, rules[i].from, rules[i].to);
			comma = ", ";
		}
	} else if (last) {
		gt_buf_printf(&note,
		    "nothing to change: no storage is on a device that the map names; the last storage is on '%.40s'",
		    last->storage->location);
	} else {
		gt_buf_puts(&note, "nothing to change: the file names no devices");
	}
	e->note = gt_buf_keep(&note, &e->arena, err);
	return e->note ? 0 : GT_ENOMEM;
}

/* ---- the whole ---- */

static int remap(
    struct gt_edit *edit, struct rule *r, const struct gt_torch_location *l, struct gt_err *err)
{
	struct gt_edit_change c = { .use = GT_EDIT_LOCATION,
		.where = l->storage->key,
		.from = l->storage->location,
		.at = l->at };

	r->hits += strcmp(r->to, c.from) != 0;
	c.to = gt_arena_strdup(&edit->arena, r->to, err);
	return c.to ? gt_edit_push(edit, &c, err) : GT_ENOMEM;
}

static void reverse(struct gt_edit *e)
{
	for (size_t i = 0; i < e->count / 2; i++) {
		struct gt_edit_change c = e->changes[i];

		e->changes[i] = e->changes[e->count - 1 - i];
		e->changes[e->count - 1 - i] = c;
	}
}

static int check_hits(
    const struct rule *rules, size_t count, const char *const *words, struct gt_err *err)
{
	for (size_t i = 0; i < count; i++)
		if (!rules[i].known && !rules[i].hits)
			return fail_on_rule(words[i],
			    "the name before '=' is neither a device nor in the file", err);
	return 0;
}

int gt_edit_locations(
    struct gt_edit *edit, const struct gt_ckpt *ckpt, const char *const *words, struct gt_err *err)
{
	struct rule *rules;
	size_t count = 0;
	int rc = 0;

	while (words && words[count])
		count++;
	rules = gt_calloc(count, sizeof(*rules), err);
	if (!rules)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < count; i++)
		rc = parse_rule(&rules[i], words[i], err);
	for (const struct gt_torch_location *l = ckpt->locations; !rc && l; l = l->next) {
		struct rule *r = find_rule(rules, count, l->storage->location);

		if (r)
			rc = remap(edit, r, l, err);
	}
	reverse(edit); /* the list has the last one first */
	if (!rc)
		rc = check_hits(rules, count, words, err);
	if (!rc)
		rc = note_locations(edit, ckpt, rules, count, err);
	free(rules);
	return rc;
}
