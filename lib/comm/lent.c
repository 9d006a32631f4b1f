/* lent.c - device memory that a group has allocated for its callers. */
#include "lib/comm/lent.h"

#include <stdlib.h>

#include "lib/base/mem.h"

struct gt_device_block {
	void *p;
	size_t bytes;
	struct gt_device_block *next;
};

int gt_device_blocks_alloc(struct gt_device_block **list, const struct gt_device *device,
    size_t bytes, void **out, struct gt_err *err)
{
	struct gt_device_block *one = gt_calloc(1, sizeof(*one), err);

	*out = NULL;
	if (!one || gt_device_alloc(device, bytes, out, err)) {
		free(one);
		return err->code;
	}
	*one = (struct gt_device_block){ *out, bytes, *list };
	*list = one;
	return 0;
}

static void drop_lent_block(struct gt_device_block **at, const struct gt_device *device)
{
	struct gt_device_block *one = *at;

	*at = one->next;
	gt_device_free(device, one->p, one->bytes);
	free(one);
}

void gt_device_blocks_release(
    struct gt_device_block **list, const struct gt_device *device, const void *memory)
{
	for (struct gt_device_block **at = list; *at; at = &(*at)->next)
		if ((*at)->p == memory) {
			drop_lent_block(at, device);
			return;
		}
}

void gt_device_blocks_free(struct gt_device_block **list, const struct gt_device *device)
{
	while (*list)
		drop_lent_block(list, device);
}
