/* copy_tensors.c - bytes of tensors, copied into an output file by several threads. */
#include "lib/ckpt/tree/copy_tensors.h"

#include <stdlib.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/thread_pool.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"

/*
 * Every place is a task, and so is every storage that no place reads as a whole but whose checksum
 * has to be compared. Tasks are cut into pieces, which the threads take in order; the sums of the
 * pieces are joined in the end.
 */

enum {
	PIECE = 4 << 20,   /* bytes of the output, or of a storage that is only read */
	GATHER = 2 << 20,  /* the same where elements have to be looked for */
	LITTLE = 32 << 10, /* read without mapping */
	STEP = 256 << 10,  /* summed and written while it is in the cache */
	MAX_THREADS = 4
};

enum work {
	WORK_COPY,    /* bytes as they are */
	WORK_CONVERT, /* elements in a row, by way of a buffer */
	WORK_GATHER,  /* elements of a strided tensor */
	WORK_SCAN     /* nothing is written */
};

struct task {
	enum work work;
	struct gt_copy_place *place; /* NULL for a scan */
	struct gt_storage *storage;
	struct gt_tree_tensor view; /* the tensor, or the storage as one */
	int64_t shape, stride;      /* of the view, where the place names a storage */
	uint64_t start, size;       /* bytes of the storage, where they are in a row */
	bool whole;                 /* the storage is read from end to end, each byte once */
	size_t piece_count;
};

struct piece {
	struct task *task;
	uint64_t at, size; /* bytes of the output; of the storage in a scan */
	uint32_t crc, source_crc;
	uint64_t overflows;
};

struct pool {
	int fd;
	struct task *tasks;
	size_t task_count;
	struct piece *pieces;
	size_t piece_count;
};

/* ---- the list of pieces ---- */

static void plan_place(struct task *t, struct gt_copy_place *place)
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
	t->work = WORK_GATHER;
	if (gt_ckpt_tensor_is_contiguous(&t->view)) {
		t->start = (uint64_t)t->view.offset * gt_dtype_size(t->view.dtype);
		t->size = (uint64_t)gt_ckpt_tensor_count(&t->view) * gt_dtype_size(t->view.dtype);
		t->whole = !t->start && t->size == storage->size_bytes;
		t->work =
		    !storage->swapped && t->view.dtype == place->as ? WORK_COPY : WORK_CONVERT;
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

static uint64_t piece_bytes(const struct task *t)
{
	return t->work == WORK_GATHER ? GATHER : PIECE;
}

static int plan_pieces(struct pool *p, struct gt_err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < p->task_count; i++) {
		struct task *t = &p->tasks[i];

		t->piece_count = (task_bytes(t) + piece_bytes(t) - 1) / piece_bytes(t);
		p->piece_count += t->piece_count;
	}
	p->pieces = gt_calloc(p->piece_count, sizeof(*p->pieces), err);
	if (!p->pieces)
		return GT_ENOMEM;
	for (size_t i = 0; i < p->task_count; i++) {
		struct task *t = &p->tasks[i];
		uint64_t bytes = task_bytes(t), most = piece_bytes(t);

		for (uint64_t at = 0; at < bytes; at += most)
			p->pieces[n++] = (struct piece){
				.task = t, .at = at, .size = bytes - at < most ? bytes - at : most
			};
	}
	return 0;
}

static int check_repeats(const struct gt_copy_place *places, size_t count, struct gt_err *err)
{
	struct gt_ckpt_tensor_use *uses = gt_calloc(count, sizeof(*uses), err);
	int rc;

	if (!uses)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		uses[i] = (struct gt_ckpt_tensor_use){ places[i].tensor ? places[i].tensor->storage
			                                                : places[i].storage,
			places[i].size_bytes };
	rc = gt_ckpt_tensor_repeats_too_much(uses, count, err);
	free(uses);
	return rc;
}

static int plan(struct pool *p, struct gt_copy_place *places, size_t count, struct gt_err *err)
{
	int rc = check_repeats(places, count, err);

	if (rc)
		return rc;
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

/* Write a part of a place, unless it is nowhere. */
static int put(struct pool *p, const struct gt_copy_place *place, const void *bytes, size_t size,
    uint64_t at, struct gt_err *err)
{
	if (place->offset == GT_COPY_NOWHERE)
		return 0;
	return gt_write_at(p->fd, place->offset + at, bytes, size, err);
}

/* Small pieces would map more than they read. */
static int copy_little(struct pool *p, struct piece *piece, struct gt_err *err)
{
	const struct task *t = piece->task;
	unsigned char bytes[LITTLE];
	int rc = gt_map_peek(t->storage->map, t->storage->file_offset + t->start + piece->at, bytes,
	    piece->size, err);

	if (rc)
		return rc;
	piece->crc = piece->source_crc = gt_crc32(0, bytes, piece->size);
	return t->place ? put(p, t->place, bytes, piece->size, piece->at, err) : 0;
}

static int copy_piece(struct pool *p, struct piece *piece, struct gt_err *err)
{
	const struct task *t = piece->task;
	uint64_t from = t->start + piece->at;
	const unsigned char *bytes = (const unsigned char *)t->storage->bytes + from;
	int rc = 0;

	if (piece->size <= LITTLE && t->storage->map)
		return copy_little(p, piece, err);
	for (uint64_t done = 0, n; !rc && done < piece->size; done += n) {
		uint64_t at = piece->at + done;

		n = piece->size - done < STEP ? piece->size - done : STEP;
		piece->crc = gt_crc32(piece->crc, bytes + done, n);
		if (t->place)
			rc = put(p, t->place, bytes + done, n, at, err);
	}
	piece->source_crc = piece->crc;
	gt_storage_forget(t->storage, from, piece->size);
	return rc;
}

/* Elements in the host's byte order, as the place wants them. */
static int put_elements(struct pool *p, struct piece *piece, void *elements, size_t size,
    uint64_t at, struct gt_err *err)
{
	const struct gt_copy_place *place = piece->task->place;

	if (gt_host_is_big())
		gt_ckpt_tensor_swap(place->as, elements, size / gt_dtype_size(place->as));
	piece->crc = gt_crc32(piece->crc, elements, size);
	return put(p, place, elements, size, at, err);
}

/*
 * Count the finite elements from `first` on that became infinite in `out`. Only where there are
 * infinities at all is the source read once more.
 */
static int count_overflows(
    struct piece *piece, int64_t first, size_t n, const void *out, struct gt_err *err)
{
	enum { RUN = 2048 };
	const struct task *t = piece->task;
	enum gt_dtype as = t->place->as;
	double source[RUN];
	int rc = 0;

	if (t->view.dtype == as || !gt_dtype_is_float(as) || !gt_cast_infinite(as, out, n))
		return 0;
	for (size_t at = 0, m; !rc && at < n; at += m) {
		m = n - at < RUN ? n - at : RUN;
		rc = gt_ckpt_tensor_read_range(
		    &t->view, first + (int64_t)at, m, GT_F64, source, err);
		piece->overflows +=
		    gt_cast_infinite(as, (const unsigned char *)out + at * gt_dtype_size(as), m);
		if (!rc)
			piece->overflows -= gt_cast_infinite(GT_F64, source, m);
	}
	return rc;
}

/* PIECE and STEP are whole numbers of elements of every size. */
static int convert_piece(struct pool *p, struct piece *piece, struct gt_err *err)
{
	const struct task *t = piece->task;
	size_t to = gt_dtype_size(t->place->as), from = gt_dtype_size(t->view.dtype);
	const unsigned char *in = (const unsigned char *)t->storage->bytes + t->start;
	unsigned char *buffer = gt_calloc(1, STEP, err);
	int rc = buffer ? 0 : GT_ENOMEM;

	for (uint64_t done = 0, n; !rc && done < piece->size; done += n) {
		uint64_t at = piece->at + done, first = at / to;

		n = piece->size - done < STEP ? piece->size - done : STEP;
		if (t->whole)
			piece->source_crc =
			    gt_crc32(piece->source_crc, in + first * from, n / to * from);
		rc = gt_ckpt_tensor_read_range(
		    &t->view, (int64_t)first, n / to, t->place->as, buffer, err);
		if (!rc)
			rc = count_overflows(piece, (int64_t)first, n / to, buffer, err);
		if (!rc)
			rc = put_elements(p, piece, buffer, n, at, err);
	}
	free(buffer);
	gt_storage_forget(t->storage, t->start + piece->at / to * from, piece->size / to * from);
	return rc;
}

/* One range, so that the storage is read in the order that suits it. */
static int gather_piece(struct pool *p, struct piece *piece, struct gt_err *err)
{
	const struct task *t = piece->task;
	enum gt_dtype as = t->place->as;
	size_t to = gt_dtype_size(as), from = gt_dtype_size(t->view.dtype), n = piece->size / to;
	unsigned char *packed = gt_calloc(n, from, err);
	unsigned char *out = as == t->view.dtype ? packed : gt_calloc(n, to, err);
	int rc = packed && out ? 0 : GT_ENOMEM;

	if (!rc)
		rc = gt_ckpt_tensor_read_range(
		    &t->view, (int64_t)(piece->at / to), n, t->view.dtype, packed, err);
	if (!rc && out != packed)
		rc = gt_cast(t->view.dtype, packed, as, out, n, err);
	if (!rc && out != packed)
		rc = count_overflows(piece, (int64_t)(piece->at / to), n, out, err);
	if (!rc)
		rc = put_elements(p, piece, out, piece->size, piece->at, err);
	if (out != packed)
		free(out);
	free(packed);
	gt_storage_forget(t->storage, 0, t->storage->size_bytes);
	return rc;
}

static int work(void *self, size_t i, struct gt_err *err)
{
	struct pool *p = self;
	struct piece *piece = &p->pieces[i];

	switch (piece->task->work) {
	case WORK_CONVERT:
		return convert_piece(p, piece, err);
	case WORK_GATHER:
		return gather_piece(p, piece, err);
	default:
		return copy_piece(p, piece, err);
	}
}

/* ---- the sums ---- */

/* Join the sums of a task's pieces. */
static void join(const struct task *t, const struct piece *pieces, uint32_t *crc, uint32_t *source)
{
	size_t to = t->work == WORK_CONVERT ? gt_dtype_size(t->place->as) : 1;
	size_t from = t->work == WORK_CONVERT ? gt_dtype_size(t->view.dtype) : 1;

	*crc = *source = 0;
	for (size_t i = 0; i < t->piece_count; i++) {
		*crc = gt_crc32_join(*crc, pieces[i].crc, pieces[i].size);
		*source = gt_crc32_join(*source, pieces[i].source_crc, pieces[i].size / to * from);
	}
}

static int finish(struct pool *p, struct gt_err *err)
{
	const struct piece *pieces = p->pieces;
	int rc = 0;

	for (size_t i = 0; !rc && i < p->task_count; i++) {
		const struct task *t = &p->tasks[i];
		uint32_t crc, source;

		join(t, pieces, &crc, &source);
		for (size_t k = 0; t->place && k < t->piece_count; k++)
			t->place->overflows += pieces[k].overflows;
		pieces += t->piece_count;
		if (t->place)
			t->place->crc = crc;
		if (t->whole && wants_check(t->storage))
			rc = gt_storage_compare(t->storage, source, err);
	}
	return rc;
}

void gt_copy_losses(
    const struct gt_copy_place *places, size_t count, struct gt_ckpt_write_losses *losses)
{
	for (size_t i = 0; losses && i < count; i++) {
		if (places[i].offset == GT_COPY_NOWHERE || !places[i].overflows)
			continue;
		losses->values += places[i].overflows;
		losses->tensors++;
	}
}

struct gt_copy_place gt_copy_sum(const struct gt_tree_tensor *t, enum gt_dtype as)
{
	return (struct gt_copy_place){
		.offset = GT_COPY_NOWHERE,
		.size_bytes = (uint64_t)gt_ckpt_tensor_count(t) * gt_dtype_size(as),
		.tensor = t,
		.as = as,
	};
}

int gt_copy_tensors(int fd, struct gt_copy_place *places, size_t count, struct gt_err *err)
{
	struct pool p = { .fd = fd };
	size_t threads = gt_thread_pool_size(0);
	int rc = plan(&p, places, count, err);

	if (!rc)
		rc = gt_thread_pool_run(
		    threads < MAX_THREADS ? threads : MAX_THREADS, p.piece_count, work, &p, err);
	if (!rc)
		rc = finish(&p, err);
	free(p.tasks);
	free(p.pieces);
	return rc;
}
