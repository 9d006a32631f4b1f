/* verify_tensors.c - the tensors of a file: their checksums, digests, NaN and Inf. */
#include <stdlib.h>

#include "lib/ckpt/format.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/tools/verify_steps.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/tree.h"

/*
 * The bytes of tensors are nearly all of a file, and reading them takes most of the time. So they
 * are read once for all checks: the sums of their records, and NaN and Inf.
 */

/* ---- reading ---- */

static int compare_bytes(const void *a, const void *b)
{
	const struct gt_known_sum *x = a, *y = b;

	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

const struct gt_known_sum *gt_known_sum_find(
    const struct gt_known_sums *sums, const void *bytes, uint64_t size)
{
	const struct gt_known_sum like = { .bytes = bytes }, *found = NULL;

	if (sums && sums->count)
		found = bsearch(&like, sums->items, sums->count, sizeof(like), compare_bytes);
	return found && found->size == size ? found : NULL;
}

static int keep_sums(struct gt_verify_tensors *t, struct gt_err *err)
{
	struct gt_known_sums *sums = &t->sums;

	sums->items = gt_calloc(t->inventory.tensor_count, sizeof(*sums->items), err);
	if (!sums->items)
		return GT_ENOMEM;
	for (size_t i = 0; i < t->inventory.tensor_count; i++) {
		const struct gt_storage *s = t->tensors[i]->storage;

		if (t->scans[i].summed)
			sums->items[sums->count++] =
			    (struct gt_known_sum){ s->bytes, s->size_bytes, t->scans[i].crc };
	}
	if (sums->count)
		qsort(sums->items, sums->count, sizeof(*sums->items), compare_bytes);
	return 0;
}

int gt_verify_scan(struct gt_verify *v, struct gt_verify_tensors *t, const struct gt_ckpt *ckpt,
    size_t threads, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	size_t count;

	*t = (struct gt_verify_tensors){ 0 };
	if (gt_inventory_make_tensors(&t->inventory, gt_ckpt_root(ckpt), &found))
		return gt_verify_find(v, GT_FINDING_UNREAD, found.hint, err,
		    "the tensors could not be looked at: %s", found.text);
	count = t->inventory.tensor_count;
	v->tensors = count;
	t->tensors = gt_calloc(count, sizeof(*t->tensors), err);
	t->scans = gt_calloc(count, sizeof(*t->scans), err);
	if (!t->tensors || !t->scans)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		t->tensors[i] = &t->inventory.tensors[i].value->tensor;
	if (gt_scan_of(t->scans, t->tensors, count, threads, &found))
		return gt_verify_absorb(v, &found, GT_FINDING_NOTE, err);
	t->scanned = true;
	return keep_sums(t, err);
}

void gt_verify_tensors_release(struct gt_verify_tensors *t)
{
	gt_inventory_release(&t->inventory);
	free(t->tensors);
	free(t->scans);
	free(t->sums.items);
}

/* ---- findings ---- */

/*
 * A storage whose sum has been compared, with a finding if it differs: its elements may still be
 * read.
 */
static void trust(const struct gt_verify_tensors *t)
{
	for (size_t i = 0; i < t->inventory.tensor_count; i++)
		atomic_store(&t->tensors[i]->storage->checked, true);
}

/* Sums in formats without records. */
static int compare_sums(
    struct gt_verify *v, const struct gt_verify_tensors *t, size_t threads, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	int rc = 0;

	for (size_t i = 0; i < t->inventory.tensor_count && !rc; i++) {
		struct gt_storage *s = t->tensors[i]->storage;

		if (t->inventory.tensors[i].first == i && s->has_crc)
			v->checked_bytes += s->size_bytes;
		if (!t->scanned || !t->scans[i].summed || atomic_load(&s->checked))
			continue;
		if (gt_storage_compare(s, t->scans[i].crc, &found))
			rc = gt_verify_absorb(v, &found, GT_FINDING_UNREAD, err);
		atomic_store(&s->checked, true);
	}
	if (!rc && gt_storages_check(t->tensors, NULL, t->inventory.tensor_count, threads, &found))
		rc = gt_verify_absorb(v, &found, GT_FINDING_UNREAD, err);
	return rc;
}

/* Digests belong to elements, CRCs of records to storages: where a tensor is a storage, one is as
 * good as the other, and records have been compared. */
static int check_digests(struct gt_verify *v, const struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;

	return gt_digest_check(ckpt, true, &found)
	           ? gt_verify_absorb(v, &found, GT_FINDING_UNREAD, err)
	           : 0;
}

static int report_numbers(
    struct gt_verify *v, const struct gt_verify_tensors *t, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < t->inventory.tensor_count && !rc; i++) {
		const struct gt_scan *s = &t->scans[i];

		if (s->nan || s->inf)
			rc = gt_verify_find(v, GT_FINDING_NUMBER, "", err,
			    "tensor '%.200s' holds %llu NaN and %llu Inf among %llu elements",
			    t->inventory.tensors[i].key, (unsigned long long)s->nan,
			    (unsigned long long)s->inf, (unsigned long long)s->count);
	}
	return rc;
}

int gt_verify_report_tensors(struct gt_verify *v, struct gt_verify_tensors *t,
    const struct gt_ckpt *ckpt, size_t threads, struct gt_err *err)
{
	int rc = 0;

	if (!t->tensors) /* too much to be listed, and told of */
		return 0;
	if (v->records)
		trust(t);
	else
		rc = compare_sums(v, t, threads, err);
	if (!rc)
		rc = check_digests(v, ckpt, err);
	return rc || !t->scanned ? rc : report_numbers(v, t, err);
}
