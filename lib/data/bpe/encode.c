/* encode.c - a text cut into chunks, which threads tokenize, and put together in order. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/thread_pool.h"
#include "lib/data/bpe/inside.h"

/*
 * Chunks have to begin where words begin. Tokenizers of characters know such places (chars.c). With
 * patterns nobody knows, as a match may depend on all that came before; but the matches behind a
 * place between two words depend on the text alone. So a chunk begins at a guess, and notes the
 * first places between its words. Where the chunk before ends in one of these, all ids from there
 * on are right; where it does not, the chunk is tokenized again from that end on.
 *
 *   text      the cat sat|on the mat. It ...
 *   chunk 0   [the][ cat][ sat]                ends at the guess: chunk 1 is right
 *   chunk 0   [the][ cat][ saton]              ends at 14, a place of chunk 1: [on] is dropped
 *   chunk 1               [on][ the][ mat]
 */
enum { CHUNK = 1 << 16, WAVE = 1024, LOOK = 1 << 12 };

/* In a text of so many bytes, words repeat, and a worker remembers them. Its memory for that, of 4
 * MiB, takes longer to get than a short text takes to tokenize. */
enum { REPEATS = 1 << 15 };

/* Work of one thread: some items, or a chunk of one item. */
struct task {
	size_t item, items; /* items 0: a chunk */
	struct gt_bpe_chunk chunk;
	size_t bytes;
	bool continues; /* the chunk before is of the same item */
};

struct encoding {
	const struct gt_bpe *bpe;
	struct gt_bpe_items items;
	unsigned char *copies; /* copies of items, with a space before them */
	struct task *tasks;    /* [most] */
	size_t most;           /* tasks of a wave */
	size_t count;          /* number of tasks in this wave */
	size_t next, at;       /* the next item and byte to be tokenized */
	size_t end;            /* where the last chunk of an item ended */

	pthread_mutex_t lock; /* guards the members below */
	struct gt_bpe_worker *idle;
	gt_bpe_watch *watch;
	void *self;
	int64_t done, total;
};

/* ---- workers ---- */

static int take_worker(struct encoding *e, struct gt_bpe_worker **out, struct gt_err *err)
{
	pthread_mutex_lock(&e->lock);
	*out = e->idle;
	if (e->idle)
		e->idle = e->idle->next;
	pthread_mutex_unlock(&e->lock);
	return *out ? 0 : gt_bpe_worker_open(out, e->bpe, e->total >= REPEATS, err);
}

static void give_worker(struct encoding *e, struct gt_bpe_worker *w, size_t bytes)
{
	pthread_mutex_lock(&e->lock);
	w->next = e->idle;
	e->idle = w;
	e->done += (int64_t)bytes;
	if (e->watch && bytes)
		e->watch(e->self, e->done, e->total);
	pthread_mutex_unlock(&e->lock);
}

/* ---- a task ---- */

static int run_chunk(struct gt_bpe_worker *w, struct gt_bpe_chunk *chunk, struct gt_err *err)
{
	chunk->ids.count = 0;
	return gt_bpe_has_pieces(w->bpe) ? gt_bpe_split_pieces(w, chunk, err)
	                                 : gt_bpe_split_chars(w, chunk, err);
}

static bool has_prefix(const struct gt_bpe *bpe, const struct gt_bpe_item *item)
{
	const struct gt_bpe_chars *c = &bpe->chars;

	return !gt_bpe_has_pieces(bpe) && c->prefix_size &&
	       (c->when == GT_BPE_PREFIX_ALWAYS ||
	           (c->when == GT_BPE_PREFIX_FIRST && item->begins));
}

static int run_items(
    struct encoding *e, struct gt_bpe_worker *w, struct task *t, struct gt_err *err)
{
	struct gt_bpe_ids all = t->chunk.ids;
	int rc = 0;

	all.count = 0;
	for (size_t i = t->item; i < t->item + t->items && !rc; i++) {
		const struct gt_bpe_item *item = &e->items.items[i];
		struct gt_bpe_chunk one = { .p = item->p,
			.n = item->n,
			.until = item->n,
			.begins = item->begins,
			.prefixed = has_prefix(e->bpe, item),
			.ids = all };

		if (item->id >= 0)
			rc = gt_bpe_ids_put(&one.ids, &(uint32_t){ (uint32_t)item->id }, 1, err);
		else
			rc = gt_bpe_has_pieces(e->bpe) ? gt_bpe_split_pieces(w, &one, err)
			                               : gt_bpe_split_chars(w, &one, err);
		all = one.ids;
	}
	t->chunk.ids = all;
	return rc;
}

static int run_task(void *self, size_t i, struct gt_err *err)
{
	struct encoding *e = self;
	struct task *t = &e->tasks[i];
	struct gt_bpe_worker *w;
	int rc = take_worker(e, &w, err);

	if (rc)
		return rc;
	rc = t->items ? run_items(e, w, t, err) : run_chunk(w, &t->chunk, err);
	give_worker(e, w, rc ? 0 : t->bytes);
	return rc;
}

/* ---- where chunks begin ---- */

/* A place at or after `at` where a word probably begins: before the space or line feed that follows
 * something else. In any case before a character. */
static size_t guess(const unsigned char *p, size_t n, size_t at)
{
	for (size_t i = at; i < n && i < at + LOOK; i++)
		if ((p[i] == ' ' || p[i] == '\n') && p[i - 1] > ' ')
			return i;
	while (at < n && (p[at] & 0xC0) == 0x80)
		at++;
	return at;
}

/* Whether a space is put before each segment. */
static bool adds_space(const struct gt_bpe *bpe)
{
	return bpe->stage_count && bpe->stages[0].kind == GT_BPE_SPACE;
}

/* Whether a segment is one piece, however long it is. */
static bool is_uncut(const struct gt_bpe *bpe)
{
	int first = adds_space(bpe);

	return gt_bpe_has_pieces(bpe) &&
	       (bpe->stage_count == first || bpe->stages[first].kind != GT_BPE_SPLIT);
}

static void plan_chunk(struct encoding *e, struct task *t)
{
	const struct gt_bpe_item *item = &e->items.items[e->next];
	size_t to = e->at + CHUNK;

	if (item->n - e->at <= 2 * CHUNK)
		to = item->n;
	else if (gt_bpe_has_pieces(e->bpe))
		to = guess(item->p, item->n, to);
	else
		to = gt_bpe_chars_cut(e->bpe, item->p, item->n, to);
	t->item = e->next;
	t->items = 0;
	t->continues = e->at > 0;
	t->bytes = to - e->at;
	t->chunk.p = item->p;
	t->chunk.n = item->n;
	t->chunk.from = e->at;
	t->chunk.until = to;
	t->chunk.begins = item->begins;
	t->chunk.prefixed = !e->at && has_prefix(e->bpe, item);
	e->at = to;
	if (to == item->n) {
		e->next++;
		e->at = 0;
	}
}

static bool is_small(const struct encoding *e, size_t i)
{
	return e->items.items[i].n <= 2 * CHUNK || e->items.items[i].id >= 0 || is_uncut(e->bpe);
}

static void plan_items(struct encoding *e, struct task *t)
{
	t->item = e->next;
	t->bytes = 0;
	while (e->next < e->items.count && t->bytes < CHUNK && is_small(e, e->next))
		t->bytes += e->items.items[e->next++].n;
	t->items = e->next - t->item;
}

static void plan_wave(struct encoding *e)
{
	for (e->count = 0; e->count < e->most && e->next < e->items.count; e->count++) {
		struct task *t = &e->tasks[e->count];

		if (!e->at && is_small(e, e->next))
			plan_items(e, t);
		else
			plan_chunk(e, t);
	}
}

/* ---- putting together ---- */

/* How many of a chunk's first ids the chunk before has had; runs it again if nothing tells. */
static int find_overlap(
    struct encoding *e, struct gt_bpe_chunk *chunk, size_t *skip, struct gt_err *err)
{
	struct gt_bpe_worker *w;
	int rc;

	*skip = 0;
	if (chunk->from == e->end)
		return 0;
	for (size_t i = 0; i < chunk->marks; i++)
		if (chunk->mark_at[i] == e->end) {
			*skip = chunk->mark_ids[i];
			return 0;
		}
	rc = take_worker(e, &w, err);
	if (rc)
		return rc;
	chunk->from = e->end;
	rc = run_chunk(w, chunk, err);
	give_worker(e, w, 0);
	return rc;
}

static int put_wave(struct encoding *e, gt_bpe_sink *sink, void *self, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < e->count && !rc; i++) {
		struct task *t = &e->tasks[i];
		size_t skip = 0;

		if (!t->items && t->continues)
			rc = find_overlap(e, &t->chunk, &skip, err);
		e->end = t->chunk.end;
		if (!rc && t->chunk.ids.count > skip)
			rc = sink(self, t->chunk.ids.ids + skip, t->chunk.ids.count - skip, err);
	}
	return rc;
}

/* ---- the text ---- */

/* Segments that need a space before them, copied. */
static int copy_items(struct encoding *e, struct gt_err *err)
{
	const struct gt_bpe *bpe = e->bpe;
	size_t total = 0, at = 0;

	if (!adds_space(bpe))
		return 0;
	for (size_t i = 0; i < e->items.count; i++)
		if (e->items.items[i].id < 0 && e->items.items[i].p[0] != ' ')
			total += e->items.items[i].n + 1;
	e->copies = gt_calloc(total, 1, err);
	if (!e->copies)
		return GT_ENOMEM;
	for (size_t i = 0; i < e->items.count; i++) {
		struct gt_bpe_item *item = &e->items.items[i];

		if (item->id >= 0 || item->p[0] == ' ')
			continue;
		e->copies[at] = ' ';
		memcpy(e->copies + at + 1, item->p, item->n);
		item->p = e->copies + at;
		at += ++item->n;
	}
	return 0;
}

static void release_encoding(struct encoding *e)
{
	for (size_t i = 0; e->tasks && i < e->most; i++)
		free(e->tasks[i].chunk.ids.ids);
	while (e->idle) {
		struct gt_bpe_worker *w = e->idle;

		e->idle = w->next;
		gt_bpe_worker_close(w);
	}
	free(e->tasks);
	free(e->copies);
	gt_bpe_items_release(&e->items);
	pthread_mutex_destroy(&e->lock);
}

static int encode(struct encoding *e, const unsigned char *p, size_t n, gt_bpe_sink *sink,
    void *self, struct gt_err *err)
{
	const struct gt_bpe *bpe = e->bpe;
	int rc = gt_bpe_added_split(
	    &bpe->added, bpe->normalizes ? &bpe->normalizers : NULL, p, n, &e->items, err);

	if (!rc)
		rc = copy_items(e, err);
	if (!rc) {
		/* Each task but the last has at least CHUNK bytes, or ends before a large item. */
		e->most = n / CHUNK < WAVE / 2 ? 2 * (n / CHUNK) + 1 : WAVE;
		e->tasks = gt_calloc(e->most, sizeof(*e->tasks), err);
		rc = e->tasks ? 0 : GT_ENOMEM;
	}
	while (!rc && e->next < e->items.count) {
		plan_wave(e);
		rc = gt_thread_pool_run(0, e->count, run_task, e, err);
		if (!rc)
			rc = put_wave(e, sink, self, err);
	}
	return rc;
}

/* Copy the text if a pattern needs a text that no other process can change; otherwise set *own to
 * NULL. */
static int copy_text(unsigned char **own, const struct gt_bpe *bpe, const unsigned char *p,
    size_t size, struct gt_err *err)
{
	bool wanted = false;

	*own = NULL;
	for (int i = 0; i < bpe->stage_count; i++)
		wanted |=
		    bpe->stages[i].pattern && gt_bpe_pattern_is_interpreted(bpe->stages[i].pattern);
	if (!wanted)
		return 0;
	*own = gt_calloc(size, 1, err);
	if (!*own)
		return GT_ENOMEM;
	if (size)
		memcpy(*own, p, size);
	return 0;
}

/*
 * Tokenize a text on all processors, and hand its ids to `sink`. The ids do not depend on the
 * number of processors. Threads work on chunks of the text. A chunk begins where a word certainly
 * begins, or at a guessed position that is later compared with the end of the previous chunk
 * (encode.c).
 *
 *   sink, watch   called with `self`; `watch` may be NULL
 *   *repaired     number of ill-formed parts that were read as U+FFFD; may be NULL
 *
 * Memory: the text is processed about 64 MiB at a time, which limits the memory used, with two
 * exceptions. The merges of a single long word need memory for the whole word. And the whole text
 * is copied in four cases: it is not UTF-8; a normalizer changes it, other than Prepend and Replace
 * of a character; the tokenizer adds a space before it; PCRE2 interprets a pattern, because it
 * cannot compile patterns to machine code on this machine.
 *
 * The text may be a mapped file. If another process writes to the file at the same time, the ids
 * may be wrong, but memory is not damaged.
 *
 * Errors: GT_EFORMAT (a pattern that takes too many steps), GT_ENOMEM, and errors of the sink.
 */
int gt_bpe_encode(const struct gt_bpe *bpe, const char *text, size_t size, gt_bpe_sink *sink,
    gt_bpe_watch *watch, void *self, int64_t *repaired, struct gt_err *err)
{
	struct encoding e = { .bpe = bpe, .watch = watch, .self = self };
	const unsigned char *p = (const unsigned char *)text;
	unsigned char *copy = NULL, *own;
	int64_t parts = 0;
	int rc = copy_text(&own, bpe, p, size, err);

	p = own ? own : p;
	if (!rc)
		rc = gt_bpe_repair(&copy, &size, &parts, p, size, err);
	if (!rc) {
		pthread_mutex_init(&e.lock, NULL);
		e.total = (int64_t)size;
		rc = encode(&e, copy ? copy : p, size, sink, self, err);
		release_encoding(&e);
	}
	free(copy);
	free(own);
	if (repaired)
		*repaired = parts;
	return rc;
}
