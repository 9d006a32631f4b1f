/* fill.c - the bytes of tensors, moved into an output file by several threads. */
#include "lib/ckpt/fill.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/cast.h"
#include "lib/ckpt/crc.h"
#include "lib/ckpt/tree.h"

/*
 * Every place is a task, and so is every storage that no place reads as a whole but whose checksum
 * has to be compared. Tasks are cut into pieces, which the threads take in order; the sums of the
 * pieces are joined in the end.
 */

enum {
	PIECE = 4 << 20,       /* bytes of the output, or of a storage that is only read */
	STEP = 256 << 10,      /* summed and written while it is in the cache */
	NEIGHBOURS = 64 << 10, /* what the system maps around a page that is touched */
	MAX_THREADS = 4
};

enum work {
	WORK_COPY,    /* bytes as they are */
	WORK_CONVERT, /* elements, by way of a buffer */
	WORK_SCAN     /* nothing is written */
};

struct task {
	enum work work;
	struct gt_fill *place; /* NULL for a scan */
	struct gt_storage *storage;
	struct gt_tree_tensor view; /* what is converted */
	int64_t shape, stride;      /* of the view, where the place names a storage */
	uint64_t start, size;       /* bytes of the storage, where they are in a row */
	bool whole;                 /* the storage is read from end to end, each byte once */
	size_t piece_count;
};

struct piece {
	struct task *task;
	uint64_t at, size; /* bytes of the output; of the storage in a scan */
	uint32_t crc, source_crc;
};

struct pool {
	int fd;
	struct task *tasks;
	size_t task_count;
	struct piece *pieces;
	size_t piece_count;
	atomic_size_t next;
	atomic_bool failed, no_copy; /* no_copy: copy_file_range() has refused these files */
	pthread_mutex_t lock;
	struct gt_err *err; /* of the first that failed; under the lock */
};

/* ---- what there is to do ---- */

static void plan_place(struct task *t, struct gt_fill *place)
{
	struct gt_storage *storage = place->tensor ? place->tensor->storage : place->storage;
	size_t size = gt_dtype_size(place->as);

	*t = (struct task){ .place = place, .storage = storage, .size = place->size_bytes };
	if (place->tensor) {
		t->view = *place->tensor;
	} else {
		t->shape = (int64_t)(place->size_bytes / size);
		t->stride = 1;
		t->view = (struct gt_tree_tensor){
			.dtype = place->as,
			.ndim = 1,
			.shape = &t->shape,
			.stride = &t->stride,
			.storage = storage,
		};
	}
	t->work = WORK_CONVERT;
	if (gt_tensor_is_contiguous(&t->view)) {
		t->start = (uint64_t)t->view.offset * gt_dtype_size(t->view.dtype);
		t->size = (uint64_t)gt_tensor_count(&t->view) * gt_dtype_size(t->view.dtype);
		t->whole = !t->start && t->size == storage->size_bytes;
		if (!storage->swapped && t->view.dtype == place->as)
			t->work = WORK_COPY;
	}
}

static bool wants_check(const struct gt_storage *s)
{
	return s->has_crc && !atomic_load_explicit(&s->checked, memory_order_relaxed);
}

/* By storage, those that are read as a whole first. */
static int compare_tasks(const void *a, const void *b)
{
	const struct task *x = *(const struct task *const *)a, *y = *(const struct task *const *)b;

	if (x->storage != y->storage)
		return (uintptr_t)x->storage < (uintptr_t)y->storage ? -1 : 1;
	return (int)y->whole - (int)x->whole;
}

/* Storages of which the places take parts have to be read once more for their sum. */
static int plan_scans(struct pool *p, size_t places, struct gt_err *err)
{
	struct task **by_storage = gt_calloc(places, sizeof(*by_storage), err);

	if (!by_storage)
		return GT_ENOMEM;
	for (size_t i = 0; i < places; i++)
		by_storage[i] = &p->tasks[i];
	qsort(by_storage, places, sizeof(*by_storage), compare_tasks);
	for (size_t i = 0; i < places; i++) {
		struct gt_storage *s = by_storage[i]->storage;

		if ((i && by_storage[i - 1]->storage == s) || by_storage[i]->whole ||
		    !wants_check(s))
			continue;
		p->tasks[p->task_count++] = (struct task){
			.work = WORK_SCAN, .storage = s, .size = s->size_bytes, .whole = true
		};
	}
	free(by_storage);
	return 0;
}

static uint64_t task_bytes(const struct task *t)
{
	return t->work == WORK_SCAN ? t->size : t->place->size_bytes;
}

static int plan_pieces(struct pool *p, struct gt_err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < p->task_count; i++) {
		p->tasks[i].piece_count = (task_bytes(&p->tasks[i]) + PIECE - 1) / PIECE;
		p->piece_count += p->tasks[i].piece_count;
	}
	p->pieces = gt_calloc(p->piece_count, sizeof(*p->pieces), err);
	if (!p->pieces)
		return GT_ENOMEM;
	for (size_t i = 0; i < p->task_count; i++) {
		uint64_t bytes = task_bytes(&p->tasks[i]);

		for (uint64_t at = 0; at < bytes; at += PIECE)
			p->pieces[n++] = (struct piece){ .task = &p->tasks[i],
				.at = at,
				.size = bytes - at < PIECE ? bytes - at : PIECE };
	}
	return 0;
}

static int plan(struct pool *p, struct gt_fill *places, size_t count, struct gt_err *err)
{
	int rc;

	p->tasks = gt_calloc(2 * count, sizeof(*p->tasks), err);
	if (!p->tasks)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct gt_tree_tensor *t = places[i].tensor;

		if (t && !gt_cast_knows(t->dtype, places[i].as))
			return gt_cast(t->dtype, NULL, places[i].as, NULL, 0, err);
		plan_place(&p->tasks[i], &places[i]);
	}
	p->task_count = count;
	rc = plan_scans(p, count, err);
	return rc ? rc : plan_pieces(p, err);
}

/* ---- one piece ---- */

static int put(int fd, const unsigned char *bytes, size_t size, uint64_t at, struct gt_err *err)
{
	while (size) {
		ssize_t n = pwrite(fd, bytes, size, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return gt_err_sys(err, "cannot write %zu bytes at byte %llu", size,
			    (unsigned long long)at);
		bytes += n;
		size -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

/* From page cache to page cache, or on disk even; true when all of it is done. What is refused,
 * and a source that ends early, is left to put(). */
static bool move(
    struct pool *p, const struct gt_storage *s, uint64_t from, uint64_t to, size_t size)
{
	off_t in = (off_t)(s->file_offset + from), out = (off_t)to;

	if (!s->map || s->map->fd < 0 || atomic_load_explicit(&p->no_copy, memory_order_relaxed))
		return false;
	while (size) {
		ssize_t n = copy_file_range(s->map->fd, &in, p->fd, &out, size, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			atomic_store_explicit(&p->no_copy, true, memory_order_relaxed);
			return false;
		}
		size -= (size_t)n;
	}
	return true;
}

/* Give back the pages of [start, start + size) and what came with them. Another thread may be at
 * the edges: it gets them again. */
static void forget(const struct gt_storage *s, uint64_t start, uint64_t size)
{
	uint64_t first, end;

	if (!s->map)
		return;
	first = (s->file_offset + start) / NEIGHBOURS * NEIGHBOURS;
	end = (s->file_offset + start + size + NEIGHBOURS - 1) / NEIGHBOURS * NEIGHBOURS;
	if (end > s->map->size)
		end = s->map->size;
	gt_map_forget(s->map, first, end - first);
}

static int copy_piece(struct pool *p, struct piece *piece, struct gt_err *err)
{
	const struct task *t = piece->task;
	uint64_t from = t->start + piece->at;
	const unsigned char *bytes = (const unsigned char *)t->storage->bytes + from;
	int rc = 0;

	for (uint64_t done = 0, n; !rc && done < piece->size; done += n) {
		n = piece->size - done < STEP ? piece->size - done : STEP;
		piece->crc = gt_crc32(piece->crc, bytes + done, n);
		if (t->work == WORK_COPY &&
		    !move(p, t->storage, from + done, t->place->offset + piece->at + done, n))
			rc = put(p->fd, bytes + done, n, t->place->offset + piece->at + done, err);
	}
	piece->source_crc = piece->crc;
	forget(t->storage, from, piece->size);
	return rc;
}

/* PIECE and STEP are whole numbers of elements of every size. */
static int convert_piece(
    struct pool *p, struct piece *piece, unsigned char *buffer, struct gt_err *err)
{
	const struct task *t = piece->task;
	size_t to = gt_dtype_size(t->place->as), from = gt_dtype_size(t->view.dtype);
	int rc = 0;

	for (uint64_t done = 0, n; !rc && done < piece->size; done += n) {
		uint64_t first = (piece->at + done) / to;

		n = piece->size - done < STEP ? piece->size - done : STEP;
		if (t->whole)
			piece->source_crc = gt_crc32(piece->source_crc,
			    (const unsigned char *)t->storage->bytes + first * from, n / to * from);
		rc = gt_tensor_read_range(
		    &t->view, (int64_t)first, n / to, t->place->as, buffer, err);
		if (rc)
			break;
		if (gt_host_is_big())
			gt_tensor_swap(t->place->as, buffer, n / to);
		piece->crc = gt_crc32(piece->crc, buffer, n);
		rc = put(p->fd, buffer, n, t->place->offset + piece->at + done, err);
	}
	if (gt_tensor_is_contiguous(&t->view))
		forget(t->storage, t->start + piece->at / to * from, piece->size / to * from);
	else
		forget(t->storage, 0, t->storage->size_bytes);
	return rc;
}

/* ---- the threads ---- */

static void fail(struct pool *p, const struct gt_err *err)
{
	pthread_mutex_lock(&p->lock);
	if (!atomic_exchange(&p->failed, true))
		*p->err = *err;
	pthread_mutex_unlock(&p->lock);
}

static void *run(void *self)
{
	struct pool *p = self;
	struct gt_err err = GT_ERR_INIT;
	unsigned char *buffer = NULL;
	size_t i;
	int rc = 0;

	while (!atomic_load(&p->failed) && (i = atomic_fetch_add(&p->next, 1)) < p->piece_count) {
		bool convert = p->pieces[i].task->work == WORK_CONVERT;

		if (convert && !buffer)
			buffer = gt_calloc(1, STEP, &err);
		if (convert)
			rc = buffer ? convert_piece(p, &p->pieces[i], buffer, &err) : GT_ENOMEM;
		else
			rc = copy_piece(p, &p->pieces[i], &err);
		if (rc) {
			fail(p, &err);
			break;
		}
	}
	free(buffer);
	return NULL;
}

/* The caller's thread is one of them; where the system gives no more, they are fewer. */
static void run_all(struct pool *p)
{
	pthread_t threads[MAX_THREADS - 1];
	cpu_set_t cpus;
	size_t want = 1, started = 0;

	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		want = (size_t)CPU_COUNT(&cpus);
	if (want > MAX_THREADS)
		want = MAX_THREADS;
	if (want > p->piece_count)
		want = p->piece_count;
	while (started + 1 < want && !pthread_create(&threads[started], NULL, run, p))
		started++;
	run(p);
	while (started)
		pthread_join(threads[--started], NULL);
}

/* ---- the sums ---- */

static int compare_sum(struct task *t, uint32_t sum, struct gt_err *err)
{
	struct gt_storage *s = t->storage;

	if (!t->whole || !wants_check(s))
		return 0;
	return gt_storage_compare(s, sum, err);
}

static int join(struct pool *p, struct gt_err *err)
{
	const struct piece *piece = p->pieces;
	int rc = 0;

	for (size_t i = 0; !rc && i < p->task_count; i++) {
		struct task *t = &p->tasks[i];
		size_t to = t->place ? gt_dtype_size(t->place->as) : 1;
		size_t from = t->work == WORK_CONVERT ? gt_dtype_size(t->view.dtype) : to;
		uint32_t crc = 0, source_crc = 0;

		for (size_t k = 0; k < t->piece_count; k++, piece++) {
			crc = gt_crc32_join(crc, piece->crc, piece->size);
			source_crc =
			    gt_crc32_join(source_crc, piece->source_crc, piece->size / to * from);
		}
		if (t->place)
			t->place->crc = crc;
		rc = compare_sum(t, t->work == WORK_CONVERT ? source_crc : crc, err);
	}
	return rc;
}

int gt_fill_places(int fd, struct gt_fill *places, size_t count, struct gt_err *err)
{
	struct pool p = { .fd = fd, .lock = PTHREAD_MUTEX_INITIALIZER, .err = err };
	int rc = plan(&p, places, count, err);

	if (!rc) {
		run_all(&p);
		rc = p.failed ? err->code : join(&p, err);
	}
	free(p.tasks);
	free(p.pieces);
	return rc;
}
