/* merge_mean.c - the mean of several state_dicts, tensor by tensor. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/index.h"
#include "lib/base/thread_pool.h"
#include "lib/ckpt/tools/merge_mean.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/finite.h"
#include "lib/ckpt/tree/flat.h"
#include "lib/ckpt/tree/tree.h"

enum { PIECE = 64 << 10, ALIGN = 64, MAX_THREADS = 4 };

/* A tensor of the result: where it goes, and what it is the mean of. */
struct target {
	struct gt_tree_tensor *result;
	const struct gt_tree_tensor **from; /* [count] */
	uint64_t offset;
	struct target *tied;   /* what this is another name of; else NULL */
	atomic_bool differs;   /* integers that are not the same everywhere */
	atomic_bool nonfinite; /* some of its numbers are NaN or infinite */
};

struct piece {
	struct target *target;
	int64_t first;
	size_t count; /* elements */
};

struct mean {
	const struct gt_merge_input *inputs; /* [count] */
	size_t count;                        /* of checkpoints */
	struct target *targets;
	size_t target_count;
	struct piece *pieces;
	size_t piece_count;
	int fd;
};

/* ---- what belongs together ---- */

static int hint_at_names(struct gt_err *err)
{
	return gt_err_hint(err,
	    "'gtrain ckpt diff' lists the differences; 'gtrain ckpt rename' and "
	    "'select' make names agree");
}

static int check_alike(const struct mean *m, const struct gt_tree_tensor *a,
    const struct gt_tree_tensor *b, const char *name, size_t file, struct gt_err *err)
{
	const char *first = m->inputs[0].path, *other = m->inputs[file].path;

	if (a->dtype != b->dtype) {
		gt_err_set(err, GT_EFORMAT, "'%.120s' is %s in '%.120s', %s in '%.120s'", name,
		    gt_dtype_name(a->dtype), first, gt_dtype_name(b->dtype), other);
		return gt_err_hint(err, "'gtrain ckpt convert --dtype' changes the type");
	}
	if (a->ndim != b->ndim ||
	    (a->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)))) {
		gt_err_set(err, GT_EFORMAT,
		    "'%.120s' has one shape in '%.120s' and another in '%.120s'", name, first,
		    other);
		return gt_err_hint(err, "'gtrain ckpt diff' prints both; are they of one model?");
	}
	return 0;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct gt_tree_item *)a)->key->string.bytes,
	    ((const struct gt_tree_item *)b)->key->string.bytes);
}

/* Find each tensor of the first state_dict in another one of as many. */
static int match(struct mean *m, struct gt_tree *const *parts, size_t file, struct gt_err *err)
{
	const struct gt_tree *first = parts[0], *other = parts[file];
	struct gt_index index = { .compare = compare_keys };
	int rc = 0;

	for (size_t i = 0; !rc && i < other->seq.count; i++)
		if (!gt_index_add(&index, &other->seq.items[i], err))
			rc = GT_ENOMEM;
	for (size_t i = 0; !rc && i < first->seq.count; i++) {
		const char *name = first->seq.items[i].key->string.bytes;
		const struct gt_tree_item *found = gt_index_find(&index, &first->seq.items[i]);

		if (!found) {
			gt_err_set(err, GT_EFORMAT, "'%.120s' is in '%.120s', not in '%.120s'",
			    name, m->inputs[0].path, m->inputs[file].path);
			rc = hint_at_names(err);
			break;
		}
		m->targets[i].from[file] = &found->value->tensor;
		rc = check_alike(
		    m, m->targets[i].from[0], m->targets[i].from[file], name, file, err);
	}
	if (!rc && other->seq.count != first->seq.count) {
		gt_err_set(err, GT_EFORMAT, "'%.120s' has %zu tensors, '%.120s' has %zu",
		    m->inputs[file].path, other->seq.count, m->inputs[0].path, first->seq.count);
		rc = hint_at_names(err);
	}
	gt_index_release(&index);
	return rc;
}

/* The tensors of the result: those of the first, contiguous. */
static int plan(
    struct mean *m, struct gt_merge_mean *out, struct gt_tree *const *parts, struct gt_err *err)
{
	const struct gt_tree *first = parts[0];

	for (size_t i = 0; i < m->target_count; i++) {
		const struct gt_tree_tensor *t = &first->seq.items[i].value->tensor;
		struct gt_tree *node =
		    gt_tree_tensor(&out->arena, t->dtype, t->ndim, t->shape, NULL, err);

		m->targets[i].from =
		    gt_arena_alloc(&out->arena, m->count * sizeof(*m->targets[i].from), err);
		if (!node || !m->targets[i].from ||
		    gt_tree_push(out->root, first->seq.items[i].key, node, &out->arena, err))
			return err->code;
		m->targets[i].result = &node->tensor;
		m->targets[i].from[0] = t;
	}
	return 0;
}

/* See gt_ckpt_tensor_repeats_too_much(). */
static int check_repeats(const struct mean *m, struct gt_err *err)
{
	struct gt_ckpt_tensor_use *uses = gt_calloc(m->target_count * m->count, sizeof(*uses), err);
	size_t n = 0;
	int rc;

	if (!uses)
		return GT_ENOMEM;
	for (size_t i = 0; i < m->target_count; i++)
		for (size_t k = 0; k < m->count; k++) {
			const struct gt_tree_tensor *t = m->targets[i].from[k];

			uses[n++] = (struct gt_ckpt_tensor_use){ t->storage,
				(uint64_t)gt_ckpt_tensor_count(t) * gt_dtype_size(t->dtype) };
		}
	rc = gt_ckpt_tensor_repeats_too_much(uses, n, err);
	free(uses);
	return rc;
}

/* By what they are in the first file, then in the second, and so on. */
static int compare_targets(const void *a, const void *b, void *self)
{
	const struct target *x = *(struct target *const *)a, *y = *(struct target *const *)b;
	const struct mean *m = self;
	int order = 0;

	for (size_t k = 0; !order && k < m->count; k++)
		order = gt_flat_compare(x->from[k], y->from[k]);
	return order;
}

/* Tensors that are one in every file have one mean. */
static int tie(struct mean *m, struct gt_err *err)
{
	struct target **sorted = gt_calloc(m->target_count, sizeof(*sorted), err);
	size_t n = 0;

	if (!sorted)
		return GT_ENOMEM;
	for (size_t i = 0; i < m->target_count; i++)
		if (gt_ckpt_tensor_count(m->targets[i].result))
			sorted[n++] = &m->targets[i];
	qsort_r(sorted, n, sizeof(*sorted), compare_targets, m);
	for (size_t i = 1; i < n; i++) {
		struct target *one = sorted[i - 1]->tied ? sorted[i - 1]->tied : sorted[i - 1];

		if (compare_targets(&one, &sorted[i], m))
			continue;
		sorted[i]->tied = one;
		sorted[i]->result->storage = one->result->storage;
	}
	free(sorted);
	return 0;
}

/* One after the other in the file. */
static void place(struct mean *m, uint64_t *bytes)
{
	for (size_t i = 0; i < m->target_count; i++) {
		const struct gt_tree_tensor *t = m->targets[i].result;

		if (m->targets[i].tied)
			continue;
		m->targets[i].offset = *bytes;
		*bytes += (t->storage->size_bytes + ALIGN - 1) / ALIGN * ALIGN;
		m->piece_count += ((size_t)gt_ckpt_tensor_count(t) + PIECE - 1) / PIECE;
	}
}

static int cut(struct mean *m, struct gt_err *err)
{
	size_t n = 0;

	m->pieces = gt_calloc(m->piece_count, sizeof(*m->pieces), err);
	if (!m->pieces)
		return GT_ENOMEM;
	for (size_t i = 0; i < m->target_count; i++) {
		int64_t count = gt_ckpt_tensor_count(m->targets[i].result);

		for (int64_t at = 0; !m->targets[i].tied && at < count; at += PIECE)
			m->pieces[n++] = (struct piece){ &m->targets[i], at,
				(size_t)(count - at < PIECE ? count - at : PIECE) };
	}
	return 0;
}

/* ---- the mean ---- */

/* What a complex number is made of; other types are made of themselves. */
static enum gt_dtype part_of(enum gt_dtype dtype)
{
	return dtype == GT_C64 ? GT_F32 : dtype == GT_C128 ? GT_F64 : dtype;
}

static int average(const struct mean *m, const struct piece *p, unsigned char *raw, double *sum,
    double *value, struct gt_err *err)
{
	enum gt_dtype dtype = p->target->result->dtype, part = part_of(dtype);
	size_t n = p->count * (gt_dtype_size(dtype) / gt_dtype_size(part));
	int rc = 0;

	memset(sum, 0, n * sizeof(*sum));
	for (size_t k = 0; !rc && k < m->count; k++) {
		rc = gt_merge_take(p->target->from[k], p->first, p->count, raw, err);
		if (!rc)
			rc = gt_cast(part, raw, GT_F64, value, n, err);
		for (size_t i = 0; !rc && i < n; i++)
			sum[i] += value[i];
	}
	for (size_t i = 0; i < n; i++)
		sum[i] /= (double)m->count;
	if (!rc)
		rc = gt_cast(GT_F64, sum, part, raw, n, err);
	if (!rc && !gt_all_finite(part, raw, n))
		atomic_store(&p->target->nonfinite, true);
	return rc;
}

/* Of integers the first is taken, and the others are compared. */
static int agree(const struct mean *m, const struct piece *p, unsigned char *raw,
    unsigned char *other, struct gt_err *err)
{
	size_t bytes = p->count * gt_dtype_size(p->target->result->dtype);
	int rc = gt_merge_take(p->target->from[0], p->first, p->count, raw, err);

	for (size_t k = 1; !rc && k < m->count; k++) {
		rc = gt_merge_take(p->target->from[k], p->first, p->count, other, err);
		if (!rc && memcmp(raw, other, bytes))
			atomic_store(&p->target->differs, true);
	}
	return rc;
}

static int work(void *self, size_t task, struct gt_err *err)
{
	struct mean *m = self;
	const struct piece *p = &m->pieces[task];
	enum gt_dtype dtype = p->target->result->dtype;
	size_t size = gt_dtype_size(dtype);
	unsigned char *raw = gt_calloc(p->count, size, err);
	double *sum = gt_calloc(4 * p->count, sizeof(*sum), err); /* complex: two of each */
	int rc = raw && sum ? 0 : GT_ENOMEM;

	if (!rc && gt_dtype_is_float(part_of(dtype)))
		rc = average(m, p, raw, sum, sum + 2 * p->count, err);
	else if (!rc)
		rc = agree(m, p, raw, (unsigned char *)sum, err);
	if (!rc)
		rc = gt_write_at(m->fd, p->target->offset + (uint64_t)p->first * size, raw,
		    p->count * size, err);
	free(raw);
	free(sum);
	return rc;
}

static int compute(struct mean *m, struct gt_err *err)
{
	size_t threads = gt_thread_pool_size(0);
	int rc = 0;

	for (size_t i = 0; !rc && i < m->target_count; i++)
		for (size_t k = 0; !rc && k < m->count; k++)
			rc = gt_storage_check(m->targets[i].from[k]->storage, err);
	if (rc)
		return rc;
	return gt_thread_pool_run(
	    threads < MAX_THREADS ? threads : MAX_THREADS, m->piece_count, work, m, err);
}

/* ---- the file ---- */

static int open_unnamed(int *fd, const char *folder, struct gt_err *err)
{
	char *path;

	*fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (*fd >= 0)
		return 0;
	path = gt_asprintf(err, "%s/.gtrain-mean-XXXXXX", folder);
	if (!path)
		return GT_ENOMEM;
	*fd = mkostemp(path, O_CLOEXEC); /* file systems without O_TMPFILE */
	if (*fd >= 0)
		unlink(path);
	else
		gt_err_sys(err, "cannot make a temporary file in '%s'", folder);
	free(path);
	return *fd >= 0 ? 0 : GT_EIO;
}

/* Give the tensors of the result the memory of the file. */
static int attach(struct mean *m, struct gt_merge_mean *out, uint64_t bytes, struct gt_err *err)
{
	void *p = NULL;

	if (ftruncate(m->fd, (off_t)bytes))
		return gt_err_sys(err, "cannot write the means");
	if (bytes)
		p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, m->fd, 0);
	if (p == MAP_FAILED)
		return gt_err_sys(err, "cannot map the means");
	out->map = (struct gt_mapping){ p, bytes, m->fd };
	for (size_t i = 0; i < m->target_count; i++) {
		struct gt_storage *s = m->targets[i].result->storage;

		if (m->targets[i].tied)
			continue;
		s->bytes = out->map.data + m->targets[i].offset;
		s->map = &out->map;
		s->file_offset = m->targets[i].offset;
	}
	return 0;
}

static int fill(struct mean *m, struct gt_merge_mean *out, struct gt_tree *const *parts,
    const char *folder, struct gt_err *err)
{
	uint64_t bytes = 0;
	int rc;

	m->target_count = parts[0]->seq.count;
	m->targets = gt_calloc(m->target_count, sizeof(*m->targets), err);
	rc = m->targets ? plan(m, out, parts, err) : GT_ENOMEM;
	for (size_t k = 1; !rc && k < m->count; k++)
		rc = match(m, parts, k, err);
	if (!rc)
		rc = check_repeats(m, err);
	if (!rc)
		rc = tie(m, err);
	if (!rc) {
		place(m, &bytes);
		rc = cut(m, err);
	}
	if (!rc)
		rc = open_unnamed(&m->fd, folder, err);
	if (rc)
		return rc;
	rc = compute(m, err);
	if (!rc)
		rc = attach(m, out, bytes, err);
	return rc == GT_EIO ? gt_err_prefix(err, "the means, kept in '%s' meanwhile", folder) : rc;
}

static void report(const struct mean *m, struct gt_buf *note)
{
	size_t differ = 0, nonfinite = 0;

	for (size_t i = 0; i < m->target_count; i++) {
		differ += atomic_load(&m->targets[i].differs);
		nonfinite += atomic_load(&m->targets[i].nonfinite);
	}
	gt_buf_printf(note, "mean of %zu checkpoints, %zu tensor%s\n", m->count, m->target_count,
	    m->target_count == 1 ? "" : "s");
	if (differ)
		gt_buf_printf(note,
		    "%zu tensor%s of integers differ%s: the first file's were taken\n", differ,
		    differ == 1 ? "" : "s", differ == 1 ? "s" : "");
	if (nonfinite)
		gt_buf_printf(note, "%zu tensor%s of the mean hold%s NaN or Inf\n", nonfinite,
		    nonfinite == 1 ? "" : "s", nonfinite == 1 ? "s" : "");
}

int gt_merge_average(struct gt_merge_mean *out, const struct gt_merge_input *inputs, size_t count,
    const char *folder, struct gt_buf *note, struct gt_err *err)
{
	struct mean m = { .inputs = inputs, .count = count, .fd = -1 };
	struct gt_tree **parts = gt_calloc(count, sizeof(struct gt_tree *), err);
	int rc = parts ? 0 : GT_ENOMEM;

	*out = (struct gt_merge_mean){ 0 };
	out->root = gt_tree_dict(&out->arena, err);
	if (!out->root)
		rc = GT_ENOMEM;
	for (size_t i = 0; !rc && i < count; i++)
		rc = gt_merge_part(&parts[i], &inputs[i], &out->arena, note, err);
	if (!rc)
		rc = fill(&m, out, parts, folder, err);
	if (!rc) {
		out->root->seq.ordered = parts[0]->seq.ordered;
		out->root->seq.attributes = parts[0]->seq.attributes;
		report(&m, note);
	}
	if (!out->map.data && m.fd >= 0)
		close(m.fd);
	free(m.targets);
	free(m.pieces);
	free(parts);
	return rc;
}

void gt_merge_release(struct gt_merge_mean *mean)
{
	gt_unmap(&mean->map);
	gt_arena_release(&mean->arena);
	*mean = (struct gt_merge_mean){ 0 };
}
