/* copy_tensors.c - bytes of tensors, copied into an output file by several threads. */
#include "lib/ckpt/tree/copy_tensors.h"

#include <stdlib.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/meter.h"
#include "lib/base/thread_pool.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/tree/cursor.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"

/*
 * Every place is a task, and so is every storage that no place reads as a whole but whose checksum
 * has to be compared. Tasks are cut into pieces, which the threads take in order; the sums of the
 * pieces are joined in the end.
 */

enum {
	PIECE = 4 << 20,   /* bytes of the output, or of a storage that is only read */
	STRIDED = 2 << 20, /* the same where elements have to be looked for, all of it at once */
	STEP = 256 << 10,  /* summed and written while it is in the cache */
	MAX_THREADS = 4
};

struct task {
	struct gt_copy_place *place; /* NULL: the sum of the storage is wanted alone */
	struct gt_tree_tensor view;  /* the tensor, or the storage as one */
	int64_t shape, stride; /* memory for view.shape and view.stride if the view is a storage */
	enum gt_dtype as;
	bool as_is;   /* elements are copied without conversion */
	bool strided; /* elements are not contiguous */
	/* a piece is read by one call: elements are looked for, or a function reads */
	bool at_once;
	bool whole; /* the storage is read from end to end, each byte once */
	uint32_t crc, source_crc;
};

struct piece {
	struct gt_piece elements;
	uint32_t crc, source_crc; /* CRC-32 of the bytes written, and of the bytes read */
	uint64_t overflows;
};

struct pool {
	int fd;
	struct task *tasks;
	size_t task_count;
	struct gt_pieces pieces;
	struct gt_meter meter;
};

/* ---- the list of pieces ---- */

static void plan_task(struct task *t, struct gt_copy_place *place, struct gt_storage *storage,
    uint64_t size_bytes, enum gt_dtype as)
{
	const struct gt_tree_tensor *tensor = place ? place->tensor : NULL;
	const struct gt_tree_tensor all = {
		.dtype = as, .ndim = 1, .shape = &t->shape, .stride = &t->stride, .storage = storage
	};

	*t = (struct task){ .place = place, .stride = 1, .as = as, .view = tensor ? *tensor : all };
	t->shape = (int64_t)(size_bytes / gt_dtype_size(as));
	storage = t->view.storage;
	t->strided = !gt_ckpt_tensor_is_contiguous(&t->view);
	t->at_once = t->strided || storage->read;
	t->whole = gt_ckpt_tensor_is_whole(&t->view);
	t->as_is = t->view.dtype == as && !storage->swapped && !gt_host_is_big();
}

static bool wants_check(const struct gt_storage *s)
{
	return s->has_crc && !atomic_load_explicit(&s->checked, memory_order_relaxed);
}

/* Storages of which the places take parts have to be read once more for their sum. */
static int plan_scans(struct pool *p, size_t places, struct gt_err *err)
{
	struct gt_index read = { 0 };
	int rc = 0;

	for (size_t i = 0; i < places && !rc; i++)
		if (p->tasks[i].whole && !gt_index_add(&read, p->tasks[i].view.storage, err))
			rc = GT_ENOMEM;
	for (size_t i = 0; i < places && !rc; i++) {
		struct gt_storage *s = p->tasks[i].view.storage;

		if (!wants_check(s) || gt_index_find(&read, s))
			continue;
		plan_task(&p->tasks[p->task_count++], NULL, s, s->size_bytes, GT_U8);
		rc = gt_index_add(&read, s, err) ? 0 : GT_ENOMEM;
	}
	gt_index_release(&read);
	return rc;
}

static int plan_pieces(struct pool *p, struct gt_err *err)
{
	int rc = 0;

	p->pieces.size = sizeof(struct piece);
	for (size_t i = 0; i < p->task_count && !rc; i++) {
		const struct task *t = &p->tasks[i];

		rc = gt_pieces_add(&p->pieces, i, (uint64_t)gt_ckpt_tensor_count(&t->view),
		    (t->strided ? STRIDED : PIECE) / gt_dtype_size(t->as), err);
	}
	return rc;
}

static int plan_copies(
    struct pool *p, struct gt_copy_place *places, size_t count, struct gt_err *err)
{
	struct gt_repeats repeats = { 0 };
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++)
		rc = gt_repeats_add(&repeats,
		    places[i].tensor ? places[i].tensor->storage : places[i].storage,
		    places[i].size_bytes, err);
	rc = gt_repeats_end(&repeats, rc, err);
	if (rc)
		return rc;
	p->tasks = gt_calloc(2 * count, sizeof(*p->tasks), err);
	if (!p->tasks)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct gt_tree_tensor *t = places[i].tensor;

		if (t && !gt_cast_supported(t->dtype, places[i].as))
			return gt_cast(t->dtype, NULL, places[i].as, NULL, 0, err);
		plan_task(&p->tasks[i], &places[i], places[i].storage, places[i].size_bytes,
		    places[i].as);
	}
	p->task_count = count;
	rc = plan_scans(p, count, err);
	return rc ? rc : plan_pieces(p, err);
}

/* ---- one piece ---- */

/* Elements as the place wants them. Of those that became infinite, the finite ones are lost. */
static int convert(const struct task *t, struct piece *piece, const void *run, void *out, size_t n,
    struct gt_err *err)
{
	enum gt_dtype from = t->view.dtype;
	int rc = gt_cast(from, run, t->as, out, n, err);

	if (!rc && from != t->as && gt_dtype_is_float(t->as))
		piece->overflows +=
		    gt_cast_infinite(t->as, out, n) - gt_cast_infinite(from, run, n);
	if (!rc && gt_host_is_big())
		gt_ckpt_tensor_swap(t->as, out, n);
	return rc;
}

/* A run of elements, the first of which is the at-th. */
static int put_tensor_run(struct pool *p, struct piece *piece, const void *run, size_t n,
    uint64_t at, unsigned char *buffer, struct gt_err *err)
{
	const struct task *t = &p->tasks[piece->elements.job];
	size_t size = gt_dtype_size(t->as);
	int rc = buffer ? convert(t, piece, run, buffer, n, err) : 0;

	if (rc)
		return rc;
	if (buffer)
		piece->crc = gt_crc32(piece->crc, buffer, n * size);
	if (!t->place || t->place->offset == GT_COPY_NOWHERE)
		return 0;
	return gt_write_at(
	    p->fd, t->place->offset + at * size, buffer ? buffer : run, n * size, err);
}

static int copy_piece(void *self, size_t i, struct gt_err *err)
{
	struct pool *p = self;
	struct piece *piece = gt_pieces_get(&p->pieces, i);
	const struct task *t = &p->tasks[piece->elements.job];
	uint64_t at = piece->elements.at;
	size_t n, size = gt_dtype_size(t->as),
	          max = t->at_once ? piece->elements.count : STEP / size;
	struct gt_cursor c = { .tensor = &t->view,
		.at = at,
		.end = at + piece->elements.count,
		.max = max,
		.sum = t->as_is || t->whole };
	unsigned char *buffer = t->as_is ? NULL : gt_calloc(max, size, err);
	int rc = t->as_is || buffer ? 0 : GT_ENOMEM;
	const void *run;

	for (; !rc && (rc = gt_cursor_next(&c, &run, &n, err)) > 0; at += n)
		rc = put_tensor_run(p, piece, run, n, at, buffer, err);
	gt_meter_add(&p->meter, piece->elements.count * size);
	piece->source_crc = c.crc;
	if (t->as_is)
		piece->crc = c.crc;
	gt_cursor_release(&c);
	free(buffer);
	return rc;
}

/* ---- the sums ---- */

static int finish_copies(struct pool *p, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < p->pieces.count; i++) {
		const struct piece *piece = gt_pieces_get(&p->pieces, i);
		struct task *t = &p->tasks[piece->elements.job];
		uint64_t n = piece->elements.count;

		t->crc = gt_crc32_join(t->crc, piece->crc, n * gt_dtype_size(t->as));
		t->source_crc = gt_crc32_join(
		    t->source_crc, piece->source_crc, n * gt_dtype_size(t->view.dtype));
		if (t->place)
			t->place->overflows += piece->overflows;
	}
	for (size_t i = 0; !rc && i < p->task_count; i++) {
		const struct task *t = &p->tasks[i];

		if (t->place)
			t->place->crc = t->crc;
		if (t->whole && wants_check(t->view.storage))
			rc = gt_storage_compare(t->view.storage, t->source_crc, err);
	}
	return rc;
}

static uint64_t total_bytes(const struct pool *p)
{
	uint64_t total = 0;

	for (size_t i = 0; i < p->task_count; i++)
		total += (uint64_t)gt_ckpt_tensor_count(&p->tasks[i].view) *
		         gt_dtype_size(p->tasks[i].as);
	return total;
}

static int run_copies(int fd, struct gt_copy_place *places, size_t count, size_t threads,
    struct gt_progress *progress, struct gt_err *err)
{
	struct pool p = { .fd = fd };
	int rc = plan_copies(&p, places, count, err);

	if (!rc) {
		gt_meter_begin(
		    &p.meter, progress, fd < 0 ? "reading, MiB" : "writing, MiB", total_bytes(&p));
		rc = gt_thread_pool_run(threads, p.pieces.count, copy_piece, &p, err);
		gt_meter_end(&p.meter);
	}
	if (!rc)
		rc = finish_copies(&p, err);
	free(p.tasks);
	free(p.pieces.items);
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

struct gt_copy_place gt_copy_sum_of_storage(struct gt_storage *storage)
{
	return (struct gt_copy_place){
		.offset = GT_COPY_NOWHERE,
		.size_bytes = storage->size_bytes,
		.storage = storage,
		.as = GT_U8,
	};
}

/*
 * Copy tensors to `count` places of the file `fd`. Places must not overlap; bytes between places
 * are not written. Threads work on pieces of a few MiB. If the source file has a CRC-32 of a
 * storage that is read, the bytes of the storage are compared with this CRC-32.
 *
 * If bytes are copied from a file without a change, their CRC-32 is computed in the mapping of that
 * file. The bytes are then written from the mapping while they are still in the CPU cache.
 * copy_file_range() is not used: the CPU has to read the bytes anyway for their CRC-32, and
 * copy_file_range() would read them again. For 1 GiB on ext4 and 2 threads, a copy with
 * copy_file_range() takes 1.4 s, and this copy takes 0.8 s. copy_file_range() can also let two
 * files share blocks of the disk. But blocks could rarely be shared here: records are aligned to 64
 * bytes, and so rarely begin at the start of a block.
 *
 * The bytes are counted on the progress line `progress`, which may be NULL.
 *
 * Memory: a few MiB per thread, for tensors of any size; mapped pages are released after use.
 * Errors: GT_EFORMAT for a damaged source; GT_EIO; GT_ENOTSUP or GT_EINVAL if elements cannot be
 * converted to `as`, as in gt_ckpt_tensor_read(). After these errors the content of the output is
 * undefined. GT_ENOTSUP also if strides make tensors far larger than their storages
 * (gt_repeats_end(), tree.h); then nothing is written.
 */
int gt_copy_tensors(int fd, struct gt_copy_place *places, size_t count,
    struct gt_progress *progress, struct gt_err *err)
{
	size_t threads = gt_thread_pool_size(0);

	return run_copies(
	    fd, places, count, threads < MAX_THREADS ? threads : MAX_THREADS, progress, err);
}

int gt_copy_sums(struct gt_copy_place *places, size_t count, size_t threads,
    struct gt_progress *progress, struct gt_err *err)
{
	return run_copies(-1, places, count, threads, progress, err);
}

int gt_storages_check(const struct gt_tree_tensor *const *tensors, const bool *skip, size_t count,
    size_t threads, struct gt_progress *progress, struct gt_err *err)
{
	struct gt_copy_place *places = gt_calloc(count, sizeof(*places), err);
	struct gt_index seen = { 0 };
	size_t n = 0;
	int rc = places ? 0 : GT_ENOMEM;

	for (size_t i = 0; i < count && !rc; i++) {
		struct gt_storage *s = tensors[i]->storage;

		if ((skip && skip[i]) || !wants_check(s) || gt_index_find(&seen, s))
			continue;
		places[n++] = gt_copy_sum_of_storage(s);
		rc = gt_index_add(&seen, s, err) ? 0 : GT_ENOMEM;
	}
	gt_index_release(&seen);
	if (!rc)
		rc = gt_copy_sums(places, n, threads, progress, err);
	free(places);
	return rc;
}
