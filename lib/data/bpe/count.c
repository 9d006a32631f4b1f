/* count.c - the different words of texts, counted by all processors. */
#include "lib/data/bpe/count.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/meter.h"
#include "lib/base/thread_pool.h"

enum { CHUNK = 1 << 20, FIRST_SLOTS = 1 << 12 };

static int grow_slots(struct gt_bpe_counts *c, struct gt_err *err)
{
	size_t size = c->slots ? 2 * ((size_t)c->mask + 1) : FIRST_SLOTS;
	uint32_t *slots;

	if (size > UINT32_MAX / 2)
		return gt_err_set(err, GT_ENOMEM, "more than %u different words", UINT32_MAX / 4);
	slots = gt_calloc(size, sizeof(*slots), err);
	if (!slots)
		return GT_ENOMEM;
	free(c->slots);
	c->slots = slots;
	c->mask = (uint32_t)size - 1;
	for (size_t i = 0; i < c->count; i++) {
		uint32_t at = (uint32_t)gt_bpe_hash(&c->key, c->words[i].p, c->words[i].n);

		for (at &= c->mask; slots[at]; at = (at + 1) & c->mask)
			;
		slots[at] = (uint32_t)i + 1;
	}
	return 0;
}

static int add_word(
    struct gt_bpe_counts *c, const unsigned char *p, size_t n, int64_t times, struct gt_err *err)
{
	uint32_t at;
	unsigned char *copy;

	if ((!c->slots || 2 * c->count > c->mask) && grow_slots(c, err))
		return GT_ENOMEM;
	at = (uint32_t)gt_bpe_hash(&c->key, p, n) & c->mask;
	for (; c->slots[at]; at = (at + 1) & c->mask) {
		struct gt_bpe_counted *word = &c->words[c->slots[at] - 1];

		if (word->n == n && !memcmp(word->p, p, n)) {
			word->times += times;
			return 0;
		}
	}
	copy = gt_arena_alloc(&c->arena, n, err);
	if (!copy || gt_grow(&c->words, c->count, &c->capacity, sizeof(*c->words), err))
		return GT_ENOMEM;
	memcpy(copy, p, n);
	c->words[c->count++] = (struct gt_bpe_counted){ copy, n, times };
	c->slots[at] = (uint32_t)c->count;
	return 0;
}

void gt_bpe_counts_release(struct gt_bpe_counts *c)
{
	free(c->words);
	free(c->slots);
	gt_arena_release(&c->arena);
	*c = (struct gt_bpe_counts){ 0 };
}

/* ---- many threads ---- */

/* The words that one thread has counted. */
struct counter {
	struct gt_bpe_counts counts;
	struct gt_bpe_matcher *matcher;
	struct counter *next;
};

struct job {
	struct gt_bpe_pattern *pattern;
	const unsigned char *text; /* [size] */
	size_t size;
	struct gt_meter meter;
	pthread_mutex_t lock; /* guards `idle` */
	struct counter *idle;
};

static void close_counter(struct counter *c)
{
	gt_bpe_counts_release(&c->counts);
	gt_bpe_matcher_close(c->matcher);
	free(c);
}

static int take_counter(struct counter **out, struct job *job, struct gt_err *err)
{
	struct counter *c;

	pthread_mutex_lock(&job->lock);
	c = *out = job->idle;
	if (c)
		job->idle = c->next;
	pthread_mutex_unlock(&job->lock);
	if (c)
		return 0;
	c = gt_calloc(1, sizeof(*c), err);
	if (!c)
		return GT_ENOMEM;
	gt_bpe_key_draw(&c->counts.key, c);
	if (gt_bpe_matcher_open(&c->matcher, err)) {
		free(c);
		return GT_ENOMEM;
	}
	*out = c;
	return 0;
}

/* The first place at or after `at` where a line begins. */
static size_t find_line(const unsigned char *p, size_t n, size_t at)
{
	const unsigned char *feed;

	if (!at || at >= n)
		return at < n ? at : n;
	feed = memchr(p + at - 1, '\n', n - at + 1);
	return feed ? (size_t)(feed - p) + 1 : n;
}

static int count_line(struct counter *c, const struct gt_bpe_pattern *pattern,
    const unsigned char *p, size_t n, struct gt_err *err)
{
	int rc = 0;

	for (size_t at = 0, start, end; at < n && !rc; at = end) {
		rc = gt_bpe_match(pattern, c->matcher, p, n, at, &start, &end, err);
		if (!rc && start > at)
			rc = add_word(&c->counts, p + at, start - at, 1, err);
		if (!rc && end > start)
			rc = add_word(&c->counts, p + start, end - start, 1, err);
	}
	return rc;
}

static int count_chunk(void *self, size_t i, struct gt_err *err)
{
	struct job *job = self;
	size_t at = find_line(job->text, job->size, i * CHUNK);
	size_t until = find_line(job->text, job->size, (i + 1) * CHUNK);
	struct counter *c;
	int rc = take_counter(&c, job, err);

	if (rc)
		return rc;
	while (at < until && !rc) {
		size_t end = find_line(job->text, job->size, at + 1);

		rc = count_line(c, job->pattern, job->text + at, end - at, err);
		gt_meter_add(&job->meter, end - at);
		at = end;
	}
	pthread_mutex_lock(&job->lock);
	c->next = job->idle;
	job->idle = c;
	pthread_mutex_unlock(&job->lock);
	return rc;
}

int gt_bpe_count(struct gt_bpe_counts *counts, const unsigned char *text, size_t size,
    struct gt_progress *progress, struct gt_err *err)
{
	struct job job = { .text = text, .size = size };
	unsigned char *own = NULL;
	int rc = gt_bpe_pattern_open_perl(&job.pattern, GT_BPE_GPT2_WORDS, err);

	if (!rc && gt_bpe_pattern_is_interpreted(job.pattern)) {
		job.text = own = gt_calloc(size, 1, err);
		if (own)
			memcpy(own, text, size);
		rc = own ? 0 : GT_ENOMEM;
	}
	if (rc) {
		gt_bpe_pattern_close(job.pattern);
		return rc;
	}
	if (!counts->slots)
		gt_bpe_key_draw(&counts->key, counts);
	pthread_mutex_init(&job.lock, NULL);
	gt_meter_begin(&job.meter, progress, "reading, MiB", size);
	rc = gt_thread_pool_run(0, (size + CHUNK - 1) / CHUNK, count_chunk, &job, err);
	gt_meter_end(&job.meter);
	while (job.idle) {
		struct counter *c = job.idle;

		job.idle = c->next;
		for (size_t i = 0; i < c->counts.count && !rc; i++)
			rc = add_word(counts, c->counts.words[i].p, c->counts.words[i].n,
			    c->counts.words[i].times, err);
		close_counter(c);
	}
	pthread_mutex_destroy(&job.lock);
	gt_bpe_pattern_close(job.pattern);
	free(own);
	return rc;
}
