/* commands.c - the commands' work on a file that opens, for fuzz targets: ls, edits, verify. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/ckpt/tools/stats.h"
#include "lib/ckpt/tools/verify.h"
#include "tests/fuzz/fuzz.h"

enum {
	STATS_MOST = 16,      /* tensors */
	STATS_BYTES = 1 << 16 /* of a tensor */
};

static void list(const struct gt_tree *root)
{
	const struct gt_tree_tensor *tensors[STATS_MOST];
	struct gt_stats stats[STATS_MOST];
	struct gt_err err = GT_ERR_INIT;
	struct gt_inventory inventory;
	size_t count = 0;
	int rc = gt_inventory_make(&inventory, root, &err);

	if (rc) {
		fuzz_check_error(rc, &err);
		return;
	}
	for (size_t i = 0; i < inventory.tensor_count && count < STATS_MOST; i++)
		if (inventory.tensors[i].bytes <= STATS_BYTES)
			tensors[count++] = &inventory.tensors[i].value->tensor;
	rc = gt_stats_of(stats, tensors, count, 1, NULL, &err);
	if (rc)
		fuzz_check_error(rc, &err);
	for (size_t i = 0; i < count && !rc; i++)
		fuzz_require(stats[i].nan + stats[i].inf + stats[i].zeros <= stats[i].count);
	gt_inventory_release(&inventory);
}

static void edit(const struct gt_ckpt *ckpt)
{
	static const char *const rename[] = { "^.*weight=x", "a(.)=\\1b", NULL };
	static const char *const remap[] = { "cuda:*=cpu", "cpu=cuda:0", NULL };
	static const struct gt_edit_request requests[] = {
		{ GT_EDIT_STRIP, NULL },
		{ GT_EDIT_ADD, NULL },
		{ GT_EDIT_RENAME, rename },
		{ GT_EDIT_REMAP, remap },
	};
	struct gt_err err = GT_ERR_INIT;
	struct gt_edit change;

	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		int rc = gt_edit_compute(&change, ckpt, &requests[i], &err);

		if (rc)
			fuzz_check_error(rc, &err);
		else
			gt_edit_release(&change);
	}
}

void fuzz_commands(const struct gt_ckpt *ckpt)
{
	list(gt_ckpt_root(ckpt));
	edit(ckpt);
}

void fuzz_verify(const unsigned char *bytes, size_t size)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_verify verify;
	char path[40];
	int fd = memfd_create("fuzz", MFD_CLOEXEC), rc;

	fuzz_require(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = gt_verify(&verify, path, 1, NULL, &err);
	if (rc)
		fuzz_check_error(rc, &err);
	else
		gt_verify_release(&verify);
	close(fd);
}
