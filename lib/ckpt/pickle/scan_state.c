/* scan_state.c - bytes, stack and memo of the machine that scans pickles. */
#include "lib/ckpt/pickle/scan_state.h"

#include <stdlib.h>

enum {
	WINDOW_FIRST = 4 << 10, /* bytes to read at first; most files and strings are no pickles */
	LONG_LINES_MAX = 256 << 20, /* bytes of lines that do not fit in a window */
};

/* An entry of the memo that is beyond the table. */
struct far_entry {
	uint64_t index;
	struct gt_scan_value value;
};

/* ---- ends ---- */

int gt_scan_end(struct gt_scan *s)
{
	s->ended = true;
	return 0;
}

static int gt_scan_end_of_bytes(struct gt_scan *s)
{
	s->out->exhausted = true;
	return gt_scan_end(s);
}

int gt_scan_end_by_limit(struct gt_scan *s)
{
	s->out->limited = true;
	return gt_scan_end(s);
}

/* ---- bytes ---- */

/* The next n bytes, which are there and at most GT_SCAN_WINDOW_MAX. */
static int show_next_bytes(struct gt_scan *s, size_t n, const unsigned char **p)
{
	size_t want = s->window_bytes ? 2 * s->window_bytes : WINDOW_FIRST;
	unsigned char *grown;
	int rc;

	if (s->map->fd < 0) {
		*p = s->map->data + s->start + s->at;
		return 0;
	}
	if (s->at >= s->window_at && s->at + n <= s->window_at + s->window_bytes) {
		*p = s->window + (s->at - s->window_at);
		return 0;
	}
	want = want < n ? n : want < GT_SCAN_WINDOW_MAX ? want : GT_SCAN_WINDOW_MAX;
	if (want > s->size - s->at)
		want = (size_t)(s->size - s->at);
	if (want > s->window_capacity) {
		grown = gt_reallocarray(s->window, want, 1, s->err);
		if (!grown)
			return GT_ENOMEM;
		s->window = grown;
		s->window_capacity = want;
	}
	s->window_bytes = 0;
	rc = gt_map_peek(s->map, s->start + s->at, s->window, want, s->err);
	if (rc)
		return rc;
	s->window_at = s->at;
	s->window_bytes = want;
	*p = s->window;
	return 0;
}

int gt_scan_take_number(struct gt_scan *s, size_t width)
{
	const unsigned char *p;
	int rc;

	if (s->size - s->at < width)
		return gt_scan_end_of_bytes(s);
	rc = show_next_bytes(s, width, &p);
	if (!rc)
		s->number = gt_get_le(p, width);
	s->at += width;
	return rc;
}

int gt_scan_take_block(struct gt_scan *s, size_t width)
{
	int rc = gt_scan_take_number(s, width);

	if (rc || s->ended)
		return rc;
	s->length = s->number;
	if (s->length > s->size - s->at)
		return gt_scan_end_of_bytes(s);
	s->shown = s->length < GT_SCAN_WINDOW_MAX ? (size_t)s->length : GT_SCAN_WINDOW_MAX;
	rc = show_next_bytes(s, s->shown, &s->bytes);
	s->at += s->length;
	return rc;
}

/* A line, whose end is searched in windows that grow. Of a longer one only its end is found. */
int gt_scan_take_line(struct gt_scan *s)
{
	size_t n = WINDOW_FIRST, seen = 0;
	bool fits = true;

	for (;;) {
		const unsigned char *p, *end;
		size_t here = s->size - s->at < n ? (size_t)(s->size - s->at) : n;
		int rc = show_next_bytes(s, here, &p);

		if (rc)
			return rc;
		end = memchr(p + seen, '\n', here - seen);
		if (end) {
			s->bytes = fits ? p : NULL;
			s->length = s->shown = (size_t)(end - p);
			s->at += s->length + 1;
			return 0;
		}
		if (here < n)
			return gt_scan_end_of_bytes(s);
		if (n < GT_SCAN_WINDOW_MAX) {
			seen = n;
			n *= 2;
			continue;
		}
		if (s->long_bytes > LONG_LINES_MAX)
			return gt_scan_end_by_limit(s);
		seen = 0;
		fits = false;
		s->at += n;
		s->long_bytes += n;
	}
}

/* ---- stack and memo ---- */

size_t gt_scan_base(const struct gt_scan *s)
{
	return s->mark_count ? s->marks[s->mark_count - 1].depth : 0;
}

/* A pickle may push millions of values, so those that are alike take one entry. */
int gt_scan_push(struct gt_scan *s, struct gt_scan_value v)
{
	struct gt_scan_value *top = s->depth > gt_scan_base(s) ? &s->stack[s->depth - 1] : NULL;

	if (v.kind == GT_SCAN_OTHER && top && top->kind == GT_SCAN_OTHER &&
	    top->index < UINT32_MAX) {
		top->index++;
		return 0;
	}
	if (s->depth == GT_SCAN_ENTRIES_MAX)
		return gt_scan_end_by_limit(s);
	if (gt_grow(&s->stack, s->depth, &s->stack_capacity, sizeof(*s->stack), s->err))
		return GT_ENOMEM;
	s->stack[s->depth++] = v;
	return 0;
}

bool gt_scan_top(const struct gt_scan *s, struct gt_scan_value *v)
{
	if (s->depth == gt_scan_base(s))
		return false;
	*v = s->stack[s->depth - 1];
	if (v->kind == GT_SCAN_OTHER)
		*v = gt_scan_other;
	return true;
}

void gt_scan_pop(struct gt_scan *s, size_t n)
{
	s->arg_count = n;
	for (size_t i = n; i-- > 0;) {
		if (!gt_scan_top(s, &s->args[i])) {
			gt_scan_end(s);
			return;
		}
		if (s->args[i].kind != GT_SCAN_OTHER || !--s->stack[s->depth - 1].index)
			s->depth--;
	}
}

void gt_scan_pop_mark(struct gt_scan *s)
{
	struct gt_scan_marks *mark;

	if (!s->mark_count) {
		gt_scan_end(s);
		return;
	}
	mark = &s->marks[s->mark_count - 1];
	s->arg_count = 0;
	for (size_t i = mark->depth; i < s->depth && s->arg_count < GT_SCAN_MAX_ARGS; i++) {
		bool alike = s->stack[i].kind == GT_SCAN_OTHER;

		for (uint32_t k = alike ? s->stack[i].index : 1;
		     k && s->arg_count < GT_SCAN_MAX_ARGS; k--)
			s->args[s->arg_count++] = alike ? gt_scan_other : s->stack[i];
	}
	s->depth = mark->depth;
	if (!--mark->count)
		s->mark_count--;
}

int gt_scan_push_mark(struct gt_scan *s)
{
	if (s->mark_count && s->marks[s->mark_count - 1].depth == s->depth) {
		s->marks[s->mark_count - 1].count++;
		return 0;
	}
	if (s->mark_count == GT_SCAN_ENTRIES_MAX)
		return gt_scan_end_by_limit(s);
	if (gt_grow(&s->marks, s->mark_count, &s->mark_capacity, sizeof(*s->marks), s->err))
		return GT_ENOMEM;
	s->marks[s->mark_count++] = (struct gt_scan_marks){ s->depth, 1 };
	return 0;
}

/* The entry of the memo with this index, made if there is none. Most pickles count up from 0. */
static int find_entry(struct gt_scan *s, uint64_t index, struct gt_scan_value **out)
{
	struct far_entry *far = NULL;

	if (index > s->memo_count || (index == s->memo_count && s->far.tree))
		far = gt_index_find(&s->far, &index);
	if (far) {
		*out = &far->value;
		return 0;
	}
	if (s->memo_entries == GT_SCAN_ENTRIES_MAX && index >= s->memo_count)
		return gt_scan_end_by_limit(s);
	if (index == s->memo_count) {
		if (gt_grow(&s->memo, s->memo_count, &s->memo_capacity, sizeof(*s->memo), s->err))
			return GT_ENOMEM;
		s->memo_count++;
		s->memo_entries++;
	}
	if (index < s->memo_count) {
		*out = &s->memo[index];
		return 0;
	}
	far = gt_arena_alloc(s->arena, sizeof(*far), s->err);
	if (!far)
		return GT_ENOMEM;
	*far = (struct far_entry){ .index = index };
	s->memo_entries++;
	*out = &far->value;
	return gt_index_add(&s->far, far, s->err) ? 0 : GT_ENOMEM;
}

int gt_scan_put_memo(struct gt_scan *s, uint64_t index)
{
	struct gt_scan_value v, *entry;
	int rc;

	if (!gt_scan_top(s, &v))
		return gt_scan_end(s);
	rc = find_entry(s, index, &entry);
	if (!rc && !s->ended)
		*entry = v;
	return rc;
}

int gt_scan_get_memo(struct gt_scan *s, uint64_t index)
{
	const struct far_entry *far;

	if (index < s->memo_count)
		return gt_scan_push(s, s->memo[index]);
	far = gt_index_find(&s->far, &index);
	return far ? gt_scan_push(s, far->value) : gt_scan_end(s);
}
