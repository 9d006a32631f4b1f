/* place.c - count the ranks that share a device. */
#include "lib/comm/place.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"

int gt_place_of(int64_t *place, const struct gt_device *device, struct gt_err *err)
{
	char identity[GT_DEVICE_IDENTITY_SIZE], host[256] = "";
	unsigned char digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;
	FILE *boot;

	if (gt_device_identify(device, identity, err))
		return err->code;
	boot = fopen("/proc/sys/kernel/random/boot_id", "r");
	if (!boot || !fgets(host, sizeof(host), boot))
		gethostname(host, sizeof(host) - 1);
	if (boot)
		fclose(boot);
	sha256_init(&sha);
	sha256_update(&sha, strlen(host), (const void *)host);
	sha256_update(&sha, strlen(identity), (const void *)identity);
	sha256_digest(&sha, SHA256_DIGEST_SIZE, digest);
	memcpy(place, digest, sizeof(*place));
	*place &= INT64_MAX >> 1;
	return 0;
}

int gt_place_count(int *count, int64_t place, struct gt_group *group, struct gt_err *err)
{
	int64_t *all;
	int rc;

	*count = 1;
	if (group->size == 1)
		return 0;
	all = gt_calloc((size_t)group->size, sizeof(*all), err);
	if (!all)
		return GT_ENOMEM;
	all[group->rank] = place;
	rc = gt_all_reduce(group, all, group->size, GT_I64, GT_SUM, err);
	for (int r = 0; !rc && r < group->size; r++)
		*count += r != group->rank && all[r] == place;
	free(all);
	return rc;
}
