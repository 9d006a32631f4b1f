/* loader.c - batches read ahead by threads, handed out in order. */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/base/thread_pool.h"
#include "lib/data/core/source.h"

/*
 * Batches are numbered through all epochs: number = epoch * batches + step. Batch `number` lives in
 * slot number % slots. A worker claims the next number when its slot is free, reads it
 * without the lock, and marks the slot ready; the caller waits for the numbers one after the other.
 */
enum { ALIGNMENT = 64, MAX_WORKERS = 256, MAX_PREFETCH = 4096 };

struct slot {
	struct gt_batch batch;
	int64_t *index;  /* [batch] */
	uint8_t *pixels; /* mixup: the samples as they were read, [batch, input_bytes]; else NULL */
	int32_t *classes; /* mixup: their classes, [batch]; else NULL */
	int64_t number;
	bool ready;
	int rc;
	struct gt_err err;
};

/* The permutation of one epoch. Two of them, for workers may be an epoch ahead of each other. */
struct order {
	int64_t *index; /* [samples] */
	int64_t epoch;  /* -1: none yet */
	int users;      /* batches being read from it */
	bool ready;     /* written */
};

struct gt_loader {
	struct gt_dataset *data;
	struct gt_loader_options options;
	size_t input_bytes, targets; /* sizes of a sample as it is read */
	bool mixes;
	int64_t batches; /* per epoch */
	int64_t end;     /* number after the last batch */

	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t work;  /* a worker may find something to do */
	pthread_cond_t ready; /* a slot is ready */
	struct slot *slots;
	int slot_count;
	struct order orders[2];
	int64_t claimed;   /* next number to be claimed */
	int64_t delivered; /* next number to be handed out */
	int64_t released;  /* slots of the numbers below are free */
	int readers;       /* threads that have begun */
	atomic_bool stop;
	pthread_t *threads;
	int thread_count;
};

/* Whether the next number can be claimed: not the end, its slot free, its epoch's order there or
 * replaceable. Only workers on the heels of each other ever see the last fail. */
static bool may_claim(const struct gt_loader *l)
{
	const struct order *o;
	int64_t epoch;

	if (l->claimed >= l->end || l->claimed >= l->released + l->slot_count)
		return false;
	epoch = l->claimed / l->batches;
	o = &l->orders[epoch % 2];
	return o->epoch == epoch ? o->ready : o->users == 0;
}

/* Write the order of a new epoch, without the lock: for a million samples it takes a while. */
static void make_order(struct gt_loader *l, struct order *o, int64_t epoch)
{
	o->epoch = epoch;
	o->ready = false;
	pthread_mutex_unlock(&l->lock);
	gt_sampler_permutation(&l->options.sampler, (uint32_t)epoch, o->index);
	pthread_mutex_lock(&l->lock);
	o->ready = true;
	pthread_cond_broadcast(&l->work);
}

/* Claim the next number, which may_claim() allows. Called and returns with the lock held. */
static struct slot *claim(struct gt_loader *l)
{
	int64_t number = l->claimed++, epoch = number / l->batches;
	struct slot *slot = &l->slots[number % l->slot_count];
	struct order *o = &l->orders[epoch % 2];

	slot->number = number;
	slot->ready = false;
	slot->batch.epoch = (uint32_t)epoch;
	slot->batch.step = number % l->batches;
	o->users++;
	if (o->epoch != epoch)
		make_order(l, o, epoch);
	return slot;
}

/* Mix the samples that were read, those of each virtual rank by themselves. */
static void mix(const struct gt_loader *l, const struct slot *slot)
{
	const struct gt_draw *draw = &l->options.draw;
	const struct gt_sampler *s = &l->options.sampler;
	const struct gt_batch *b = &slot->batch;
	int groups = s->virtual_ranks > 1 ? s->virtual_ranks : 1, count = b->count / groups;

	for (int i = 0; i < groups; i++) {
		int64_t number = b->step * s->world + s->rank + i;
		double weight = gt_mixup_weight(draw->augment.value[GT_AUGMENT_MIXUP][0],
		    draw->seed, (uint64_t)number, b->epoch);
		size_t first = (size_t)i * (size_t)count;

		gt_mixup_rows((float *)b->input + first * l->input_bytes,
		    (struct gt_mixed_target *)b->target + first,
		    slot->pixels + first * l->input_bytes, slot->classes + first, count,
		    l->input_bytes, (float)weight);
	}
}

/* Read the batch of a claimed slot, without the lock. */
static void fill_batch_slot(
    struct gt_loader *l, struct slot *slot, const int64_t *order, int reader)
{
	struct gt_draw draw = l->options.draw;
	struct gt_batch *b = &slot->batch;
	char *input = l->mixes ? (char *)slot->pixels : b->input;
	int32_t *target = l->mixes ? slot->classes : b->target;

	draw.epoch = b->epoch;
	slot->rc = 0;
	b->reader = reader;
	b->read.began = gt_clock_s();
	b->count = gt_sampler_batch(&l->options.sampler, order, b->step, slot->index);
	for (int i = 0; i < b->count && !slot->rc && !l->stop; i++)
		slot->rc = gt_dataset_read(l->data, slot->index[i], &draw,
		    input + i * l->input_bytes, target + i * l->targets, &slot->err);
	if (l->mixes && !slot->rc && !l->stop)
		mix(l, slot);
	b->read.ended = gt_clock_s();
}

/* Claim, read and mark one batch. The lock is held at both ends. */
static void read_one(struct gt_loader *l, int reader)
{
	struct slot *slot = claim(l);
	struct order *o = &l->orders[slot->batch.epoch % 2];

	pthread_mutex_unlock(&l->lock);
	fill_batch_slot(l, slot, o->index, reader);
	pthread_mutex_lock(&l->lock);
	slot->ready = true;
	pthread_cond_signal(&l->ready);
	if (--o->users == 0)
		pthread_cond_broadcast(&l->work);
}

static void *load_batches(void *context)
{
	struct gt_loader *l = context;
	int reader;

	pthread_mutex_lock(&l->lock);
	reader = l->readers++;
	while (!l->stop) {
		if (may_claim(l))
			read_one(l, reader);
		else
			pthread_cond_wait(&l->work, &l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* Whether the next batch has been read. Called with the lock held. */
static bool next_is_read(const struct gt_loader *l)
{
	const struct slot *slot = &l->slots[l->delivered % l->slot_count];

	return slot->ready && slot->number == l->delivered;
}

bool gt_loader_ready(struct gt_loader *l)
{
	bool ready;

	pthread_mutex_lock(&l->lock);
	ready = !l->thread_count || l->delivered >= l->end || next_is_read(l);
	pthread_mutex_unlock(&l->lock);
	return ready;
}

int gt_loader_next(struct gt_loader *l, const struct gt_batch **batch, struct gt_err *err)
{
	struct slot *slot;
	int rc = 0;

	*batch = NULL;
	pthread_mutex_lock(&l->lock);
	if (l->released < l->delivered - l->options.hold) {
		l->released = l->delivered - l->options.hold;
		pthread_cond_broadcast(&l->work);
	}
	if (l->delivered < l->end) {
		slot = &l->slots[l->delivered % l->slot_count];
		while (!next_is_read(l)) {
			if (l->thread_count)
				pthread_cond_wait(&l->ready, &l->lock);
			else
				read_one(l, -1);
		}
		rc = slot->rc;
		/* A failed batch stays where it is: asking again gives the error again. */
		if (rc && err)
			*err = slot->err;
		if (!rc) {
			l->delivered++;
			*batch = &slot->batch;
			rc = 1;
		}
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* n * size bytes for inputs or targets of a batch; from the caller's allocator where it has one. */
static void *alloc_batch(const struct gt_loader *l, size_t n, size_t size, struct gt_err *err)
{
	const struct gt_loader_memory *m = &l->options.memory;
	size_t bytes;
	void *p = NULL;

	if (__builtin_mul_overflow(n, size, &bytes) ||
	    (!m->alloc && posix_memalign(&p, ALIGNMENT, bytes + !bytes))) {
		gt_err_set(err, GT_ENOMEM, "out of memory: %zu x %zu bytes wanted", n, size);
		return NULL;
	}
	if (m->alloc && m->alloc(m->self, bytes, &p, err))
		return NULL;
	return p;
}

static void free_batch(const struct gt_loader *l, void *p, size_t bytes)
{
	const struct gt_loader_memory *m = &l->options.memory;

	if (!m->alloc)
		free(p);
	else if (p)
		m->free(m->self, p, bytes);
}

/* Return the bytes of the input of one sample in a batch. */
static size_t batch_input_bytes(const struct gt_loader *l)
{
	return l->mixes ? l->input_bytes * sizeof(float) : l->input_bytes;
}

static size_t batch_target_bytes(const struct gt_loader *l)
{
	return l->mixes ? sizeof(struct gt_mixed_target) : l->targets * sizeof(int32_t);
}

static int alloc_mixed(const struct gt_loader *l, struct slot *s, struct gt_err *err)
{
	size_t batch = (size_t)l->options.sampler.batch;

	if (!l->mixes)
		return 0;
	s->pixels = gt_calloc(batch, l->input_bytes, err);
	s->classes = gt_calloc(batch, sizeof(*s->classes), err);
	return s->pixels && s->classes ? 0 : GT_ENOMEM;
}

static int alloc_slots(struct gt_loader *l, struct gt_err *err)
{
	size_t batch = (size_t)l->options.sampler.batch;

	l->slots = gt_calloc((size_t)l->slot_count, sizeof(*l->slots), err);
	if (!l->slots)
		return GT_ENOMEM;
	for (int i = 0; i < l->slot_count; i++) {
		struct slot *s = &l->slots[i];

		s->index = gt_calloc(batch, sizeof(*s->index), err);
		s->batch.input_bytes = batch_input_bytes(l);
		s->batch.input = alloc_batch(l, batch, s->batch.input_bytes, err);
		s->batch.target = alloc_batch(l, batch, batch_target_bytes(l), err);
		if (!s->index || !s->batch.input || !s->batch.target || alloc_mixed(l, s, err))
			return GT_ENOMEM;
	}
	for (int i = 0; i < 2; i++) {
		l->orders[i].epoch = -1;
		l->orders[i].index =
		    gt_calloc((size_t)l->options.sampler.samples, sizeof(int64_t), err);
		if (!l->orders[i].index)
			return GT_ENOMEM;
	}
	return 0;
}

/* Set the sizes of a loader, from which gt_loader_bytes() computes its memory. */
static void set_sizes(struct gt_loader *l, const struct gt_data_info *info)
{
	const struct gt_loader_options *o = &l->options;

	l->input_bytes = info->input_bytes;
	l->targets = info->targets;
	l->mixes = o->draw.train && gt_augment_mixes(&o->draw.augment);
	/* More than are kept ready: the caller's own. */
	l->slot_count = (o->workers ? o->prefetch : 0) + 1 + o->hold;
}

uint64_t gt_loader_bytes(const struct gt_dataset *data, const struct gt_loader_options *options)
{
	struct gt_loader l = { .options = *options };
	uint64_t sample;

	set_sizes(&l, gt_dataset_info(data));
	sample = sizeof(*l.slots->index) + batch_input_bytes(&l) + batch_target_bytes(&l);
	if (l.mixes)
		sample += l.input_bytes + sizeof(*l.slots->classes);
	return (uint64_t)l.slot_count * (uint64_t)options->sampler.batch * sample +
	       2 * sizeof(int64_t) * (uint64_t)options->sampler.samples;
}

static int check_options(
    const struct gt_data_info *info, const struct gt_loader_options *o, struct gt_err *err)
{
	const struct gt_sampler *s = &o->sampler;

	if (s->samples < 1 || s->samples > info->samples || s->world < 1 || s->rank < 0 ||
	    s->rank >= s->world || s->batch < 1)
		return gt_err_set(err, GT_EINVAL,
		    "loader: %lld samples of %lld, rank %d of %d, batches of %d",
		    (long long)s->samples, (long long)info->samples, s->rank, s->world, s->batch);
	if (o->workers < 0 || o->workers > MAX_WORKERS)
		return gt_err_set(
		    err, GT_EINVAL, "%d workers: must be 0 to %d", o->workers, MAX_WORKERS);
	if (o->prefetch < 1 || o->prefetch > MAX_PREFETCH)
		return gt_err_set(err, GT_EINVAL, "prefetch of %d batches: must be 1 to %d",
		    o->prefetch, MAX_PREFETCH);
	if (gt_augment_check(&o->draw.augment, info, err))
		return err->code;
	if (s->drop_last && gt_sampler_batches(s) == 0) {
		gt_err_set(err, GT_EINVAL,
		    "%lld samples make no full batch of %d on each of %d rank%s",
		    (long long)s->samples, s->batch, s->world, s->world == 1 ? "" : "s");
		return gt_err_hint(err, "use a smaller batch, or keep the last one");
	}
	return 0;
}

/* Where to begin and to end, as numbers of batches. */
static int set_range(struct gt_loader *l, struct gt_err *err)
{
	const struct gt_loader_options *o = &l->options;
	int64_t first;

	l->batches = gt_sampler_batches(&o->sampler);
	l->end = INT64_MAX;
	if (o->first_epoch < 0 || o->first_step < 0 || o->epochs < 0 ||
	    __builtin_mul_overflow(o->first_epoch, l->batches, &first) ||
	    __builtin_add_overflow(first, o->first_step, &first) ||
	    (o->epochs && __builtin_mul_overflow(o->epochs, l->batches, &l->end)))
		return gt_err_set(err, GT_EINVAL, "loader: epoch %lld, step %lld of %lld epochs",
		    (long long)o->first_epoch, (long long)o->first_step, (long long)o->epochs);
	if (l->batches == 0) /* a rank that has no samples */
		l->end = first;
	l->claimed = l->delivered = l->released = first;
	return 0;
}

static int start_workers(struct gt_loader *l, struct gt_err *err)
{
	int rc = 0;

	l->threads = gt_calloc((size_t)l->options.workers, sizeof(*l->threads), err);
	if (!l->threads)
		return GT_ENOMEM;
	/* The count is read by the caller only, so the workers need not wait for it. */
	for (int i = 0; i < l->options.workers && !rc; i++) {
		rc = gt_thread_start(&l->threads[i], load_batches, l, err);
		l->thread_count += !rc;
	}
	return rc;
}

int gt_loader_open(struct gt_loader **out, struct gt_dataset *data,
    const struct gt_loader_options *options, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(data);
	struct gt_loader *l;
	int rc = check_options(info, options, err);

	*out = NULL;
	if (rc)
		return rc;
	l = gt_calloc(1, sizeof(*l), err);
	if (!l)
		return GT_ENOMEM;
	l->data = data;
	l->options = *options;
	set_sizes(l, info);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	pthread_cond_init(&l->ready, NULL);
	rc = set_range(l, err);
	if (!rc)
		rc = alloc_slots(l, err);
	if (!rc)
		rc = start_workers(l, err);
	if (rc)
		gt_loader_close(l);
	else
		*out = l;
	return rc;
}

static void free_slots(struct gt_loader *l)
{
	size_t batch = (size_t)l->options.sampler.batch;

	for (int i = 0; l->slots && i < l->slot_count; i++) {
		free(l->slots[i].index);
		free(l->slots[i].pixels);
		free(l->slots[i].classes);
		free_batch(l, l->slots[i].batch.input, batch * batch_input_bytes(l));
		free_batch(l, l->slots[i].batch.target, batch * batch_target_bytes(l));
	}
	free(l->slots);
	free(l->orders[0].index);
	free(l->orders[1].index);
}

void gt_loader_close(struct gt_loader *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_broadcast(&l->work);
	pthread_mutex_unlock(&l->lock);
	for (int i = 0; i < l->thread_count; i++)
		pthread_join(l->threads[i], NULL);
	pthread_cond_destroy(&l->ready);
	pthread_cond_destroy(&l->work);
	pthread_mutex_destroy(&l->lock);
	free_slots(l);
	free(l->threads);
	free(l);
}
