/* bytes.c - tokenizers of bytes: a segment cut into words by patterns, stage by stage. */
#include <string.h>

#include "lib/data/bpe/inside.h"

static int run_stages(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n,
    struct gt_bpe_ids *out, struct gt_err *err);

/* A piece with a space before it, unless it has one. */
static int add_space(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n,
    struct gt_bpe_ids *out, struct gt_err *err)
{
	int rc;

	if (n && *p == ' ')
		return run_stages(w, at + 1, p, n, out, err);
	rc = gt_bpe_worker_reserve(w, at, n + 1, err);
	if (rc)
		return rc;
	w->buffers[at][0] = ' ';
	memcpy(w->buffers[at] + 1, p, n);
	return run_stages(w, at + 1, w->buffers[at], n + 1, out, err);
}

/* Find the next piece of text [n] from *pos on. Pieces that a stage keeps go to the next stage. */
static int take_match(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n,
    size_t *pos, struct gt_bpe_ids *out, struct gt_err *err)
{
	const struct gt_bpe_stage *stage = &w->bpe->stages[at];
	size_t start, end;
	int rc = gt_bpe_match(stage->pattern, w->matcher, p, n, *pos, &start, &end, err);

	if (!rc && start > *pos && !stage->drop_gaps)
		rc = run_stages(w, at + 1, p + *pos, start - *pos, out, err);
	if (!rc && end > start && !stage->drop_matches)
		rc = run_stages(w, at + 1, p + start, end - start, out, err);
	*pos = end;
	return rc;
}

static int run_stages(struct gt_bpe_worker *w, int at, const unsigned char *p, size_t n,
    struct gt_bpe_ids *out, struct gt_err *err)
{
	size_t pos = 0;
	int rc = 0;

	if (at == w->bpe->stage_count)
		return gt_bpe_word(w, p, n, out, err);
	if (!w->bpe->stages[at].pattern)
		return add_space(w, at, p, n, out, err);
	while (!rc && pos < n)
		rc = take_match(w, at, p, n, &pos, out, err);
	return rc;
}

/* The segment's own prefix is there already. */
int gt_bpe_split_bytes(struct gt_bpe_worker *w, struct gt_bpe_chunk *chunk, struct gt_err *err)
{
	const struct gt_bpe *bpe = w->bpe;
	int first = bpe->stage_count && !bpe->stages[0].pattern, rc = 0;
	size_t pos = chunk->from;

	chunk->marks = 0;
	if (first == bpe->stage_count) {
		chunk->end = chunk->n;
		return gt_bpe_word(w, chunk->p, chunk->n, &chunk->ids, err);
	}
	while (!rc && pos < chunk->until) {
		if (chunk->marks < GT_BPE_MARKS) {
			chunk->mark_at[chunk->marks] = pos;
			chunk->mark_ids[chunk->marks++] = chunk->ids.count;
		}
		rc = take_match(w, first, chunk->p, chunk->n, &pos, &chunk->ids, err);
	}
	chunk->end = pos;
	return rc;
}
