/* storages.c - many storages compared with their checksums, by threads. */
#include <stdint.h>
#include <stdlib.h>

#include "lib/base/thread_pool.h"
#include "lib/ckpt/tree/runs.h"

static int compare_pointers(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (struct gt_storage *const *)a;
	uintptr_t y = (uintptr_t) * (struct gt_storage *const *)b;

	return (x > y) - (x < y);
}

static int check(void *self, size_t task, struct gt_err *err)
{
	struct gt_storage **storages = self;

	return gt_storage_check(storages[task], err);
}

int gt_storages_check(const struct gt_tree_tensor *const *tensors, const bool *skip, size_t count,
    size_t threads, struct gt_err *err)
{
	struct gt_storage **storages = gt_calloc(count, sizeof(struct gt_storage *), err);
	size_t n = 0, unique = 0;
	int rc;

	if (!storages)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (!skip || !skip[i])
			storages[n++] = tensors[i]->storage;
	if (n)
		qsort(storages, n, sizeof(struct gt_storage *), compare_pointers);
	for (size_t i = 0; i < n; i++)
		if (!i || storages[i] != storages[i - 1])
			storages[unique++] = storages[i];
	rc = gt_thread_pool_run(threads, unique, check, storages, err);
	free(storages);
	return rc;
}
