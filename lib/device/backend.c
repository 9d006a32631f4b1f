/* backend.c - the one list of backends. */
#include "lib/device/backend.h"

#include <string.h>

const struct gt_backend *const gt_backends[] = { &gt_cpu_backend, NULL };

const struct gt_backend *gt_backend_find(const char *name)
{
	for (int i = 0; gt_backends[i]; i++)
		if (!strcmp(gt_backends[i]->name, name))
			return gt_backends[i];
	return NULL;
}
