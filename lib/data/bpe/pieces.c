/* pieces.c - a segment cut into words by the stages of a pre_tokenizer. */
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/bpe/inside.h"

/* A part of a text: a match of a pattern, a gap, or several of them that are one piece. */
struct part {
	size_t start, end;
	bool match;
};

/* A walk over the parts of a text p [n] that a stage cuts. */
struct walk {
	const unsigned char *p;
	size_t n, at;           /* parts before byte `at` were handed out */
	size_t searched;        /* matches before this byte were found */
	bool begins;            /* the text is at the beginning of the whole text */
	struct part waiting[2]; /* [waits]: parts from byte `at` on that were found already */
	int waits;
	struct part piece; /* result of find_piece() */
};

static int run_stage(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n, bool begins,
    struct gt_bpe_ids *out, struct gt_err *err);

/* Run the stages from `at` on; behind the last one, a piece is a word. */
static inline int run_stages(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n,
    bool begins, struct gt_bpe_ids *out, struct gt_err *err)
{
	return at == w->bpe->stage_count ? gt_bpe_word(w, p, n, out, err)
	                                 : run_stage(w, at, p, n, begins, out, err);
}

/* ---- stages that change a piece ---- */

/* A piece with a space before it, unless it has one. */
static int add_space(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n, bool begins,
    struct gt_bpe_ids *out, struct gt_err *err)
{
	int rc;

	if (n && *p == ' ')
		return run_stages(w, at + 1, p, n, begins, out, err);
	rc = gt_bpe_worker_reserve(w, at, n + 1, err);
	if (rc)
		return rc;
	w->buffers[at][0] = ' ';
	memcpy(w->buffers[at] + 1, p, n);
	return run_stages(w, at + 1, w->buffers[at], n + 1, begins, out, err);
}

static int add_marks(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n, bool begins,
    struct gt_bpe_ids *out, struct gt_err *err)
{
	const struct gt_bpe_stage *stage = &w->bpe->stages[at];
	unsigned char mark[4], c, *to;
	size_t length = (size_t)gt_text_put_utf8(mark, stage->mark), used = 0;
	bool prefix =
	    stage->when == GT_BPE_PREFIX_ALWAYS || (stage->when == GT_BPE_PREFIX_FIRST && begins);
	int rc = gt_bpe_worker_reserve(w, at, 4 * n + 4, err);

	if (rc)
		return rc;
	to = w->buffers[at];
	prefix = prefix && *p != ' ' && (n < length || memcmp(p, mark, length) != 0);
	if (prefix)
		for (size_t k = 0; k < length; k++)
			to[used++] = mark[k];
	for (size_t i = 0; i < n; i++) {
		c = p[i]; /* others may write to the text: it is read once */
		if (c != ' ')
			to[used++] = c;
		for (size_t k = 0; c == ' ' && k < length; k++)
			to[used++] = mark[k];
	}
	return run_stages(w, at + 1, to, used, begins, out, err);
}

static int add_letters(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n,
    bool begins, struct gt_bpe_ids *out, struct gt_err *err)
{
	size_t used = 0;
	int rc = gt_bpe_worker_reserve(w, at, 2 * n, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		used += (size_t)gt_text_put_utf8(w->buffers[at] + used, w->bpe->letters[p[i]]);
	return run_stages(w, at + 1, w->buffers[at], used, begins, out, err);
}

/* ---- stages that cut a piece ---- */

/* Hand out the next match or gap. An inverted pattern has gaps for matches. */
static int find_part(
    struct gt_bpe_worker *w, int at, struct walk *t, struct part *out, struct gt_err *err)
{
	const struct gt_bpe_stage *stage = &w->bpe->stages[at];
	size_t start, end;
	int rc;

	if (!t->waits) {
		rc = gt_bpe_match(
		    stage->pattern, w->matcher, t->p, t->n, t->searched, &start, &end, err);
		if (rc)
			return rc;
		if (start > t->at)
			t->waiting[t->waits++] = (struct part){ t->at, start, stage->invert };
		if (end > start)
			t->waiting[t->waits++] = (struct part){ start, end, !stage->invert };
		t->searched = end;
	}
	*out = t->waiting[0];
	t->waiting[0] = t->waiting[1];
	t->waits--;
	t->at = out->end;
	return 0;
}

/* Take back the part that was handed out last. */
static void return_part(struct walk *t, const struct part *part)
{
	t->waiting[1] = t->waiting[0];
	t->waiting[0] = *part;
	t->waits++;
	t->at = part->start;
}

/* Whether the part that follows `before` belongs to the same piece. */
static bool belongs(
    enum gt_bpe_behavior behavior, const struct part *before, const struct part *part)
{
	switch (behavior) {
	case GT_BPE_PREVIOUS:
		return part->match && !before->match;
	case GT_BPE_NEXT:
		return before->match && !part->match;
	case GT_BPE_CONTIGUOUS:
		return part->match == before->match;
	default:
		return false;
	}
}

/* Find the next piece. A piece ends where the next one begins, so a walk that begins there finds
 * the same pieces. */
static int find_piece(struct gt_bpe_worker *w, int at, struct walk *t, struct gt_err *err)
{
	struct part next;
	int rc = find_part(w, at, t, &t->piece, err);

	while (!rc && t->at < t->n) {
		rc = find_part(w, at, t, &next, err);
		if (rc)
			return rc;
		if (!belongs(w->bpe->stages[at].behavior, &t->piece, &next)) {
			return_part(t, &next);
			break;
		}
		t->piece.end = next.end;
		t->piece.match = next.match;
	}
	return rc;
}

/* Hand the next piece to the next stage. */
static int take_piece(
    struct gt_bpe_worker *w, int at, struct walk *t, struct gt_bpe_ids *out, struct gt_err *err)
{
	int rc = find_piece(w, at, t, err);

	return rc ? rc
	          : run_stages(w, at + 1, t->p + t->piece.start, t->piece.end - t->piece.start,
	                t->begins && !t->piece.start, out, err);
}

/* The same where each match and each gap is a piece, or is dropped: the usual case. */
static int take_match(
    struct gt_bpe_worker *w, int at, struct walk *t, struct gt_bpe_ids *out, struct gt_err *err)
{
	const struct gt_bpe_stage *stage = &w->bpe->stages[at];
	bool removes = stage->behavior == GT_BPE_REMOVED;
	size_t from = t->at, start, end;
	int rc = gt_bpe_match(stage->pattern, w->matcher, t->p, t->n, from, &start, &end, err);

	if (!rc && start > from && !(removes && stage->invert))
		rc = run_stages(w, at + 1, t->p + from, start - from, t->begins && !from, out, err);
	if (!rc && end > start && !(removes && !stage->invert))
		rc =
		    run_stages(w, at + 1, t->p + start, end - start, t->begins && !start, out, err);
	t->at = end;
	return rc;
}

/* Cut a text from t->at up to the first end of a piece at or after `until`. The chunk's marks are
 * set if it is not NULL. */
static int cut(struct gt_bpe_worker *w, int at, struct walk *t, size_t until,
    struct gt_bpe_chunk *chunk, struct gt_bpe_ids *out, struct gt_err *err)
{
	bool plain = w->bpe->stages[at].behavior <= GT_BPE_REMOVED;
	int rc = 0;

	while (!rc && t->at < until) {
		if (chunk && chunk->marks < GT_BPE_MARKS) {
			chunk->mark_at[chunk->marks] = t->at;
			chunk->mark_ids[chunk->marks++] = out->count;
		}
		rc = plain ? take_match(w, at, t, out, err) : take_piece(w, at, t, out, err);
	}
	return rc;
}

static int run_stage(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n, bool begins,
    struct gt_bpe_ids *out, struct gt_err *err)
{
	struct walk walk;

	switch (w->bpe->stages[at].kind) {
	case GT_BPE_SPACE:
		return add_space(w, at, p, n, begins, out, err);
	case GT_BPE_MARK:
		return add_marks(w, at, p, n, begins, out, err);
	case GT_BPE_LETTERS:
		return add_letters(w, at, p, n, begins, out, err);
	case GT_BPE_SPLIT:
		break;
	}
	walk = (struct walk){ .p = p, .n = n, .begins = begins };
	return cut(w, at, &walk, n, NULL, out, err);
}

/* The segment's own space is there already. */
int gt_bpe_split_pieces(struct gt_bpe_worker *w, struct gt_bpe_chunk *chunk, struct gt_err *err)
{
	const struct gt_bpe *bpe = w->bpe;
	int first = bpe->stage_count && bpe->stages[0].kind == GT_BPE_SPACE, rc;
	struct walk walk = { .p = chunk->p,
		.n = chunk->n,
		.at = chunk->from,
		.searched = chunk->from,
		.begins = chunk->begins };

	chunk->marks = 0;
	if (first == bpe->stage_count || bpe->stages[first].kind != GT_BPE_SPLIT) {
		chunk->end = chunk->n;
		return run_stages(w, first, chunk->p, chunk->n, chunk->begins, &chunk->ids, err);
	}
	rc = cut(w, first, &walk, chunk->until, chunk, &chunk->ids, err);
	chunk->end = walk.at;
	return rc;
}
