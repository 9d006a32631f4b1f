/* check_facts.c - facts that the checks of a machine need beside the probe. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/library.h"
#include "lib/device/check.h"
#include "lib/device/sysfs.h"

/* PCI classes 0x0300 and 0x0302 are display and 3D controllers. The class file has two more
 * digits. */
static bool is_nvidia_card(const char *root, const char *name)
{
	char vendor[16], class[16];

	return gt_sysfs_line(
	           vendor, sizeof(vendor), root, "/sys/bus/pci/devices/%s/vendor", name) &&
	       !strcmp(vendor, "0x10de") &&
	       gt_sysfs_line(class, sizeof(class), root, "/sys/bus/pci/devices/%s/class", name) &&
	       !strncmp(class, "0x03", 4);
}

static bool find_nvidia_card(const char *root)
{
	struct dirent *entry;
	bool found = false;
	char path[4096];
	DIR *folder;

	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root);
	folder = opendir(path);
	while (folder && !found && (entry = readdir(folder)))
		found = entry->d_name[0] != '.' && is_nvidia_card(root, entry->d_name);
	if (folder)
		closedir(folder);
	return found;
}

static struct gt_maybe read_limit(int which)
{
	struct rlimit limit;

	if (getrlimit(which, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return (struct gt_maybe){ 0 };
	return (struct gt_maybe){ true, limit.rlim_cur };
}

static struct gt_maybe read_shm(const char *root)
{
	struct statvfs fs;
	char path[4096];

	snprintf(path, sizeof(path), "%s/dev/shm", root);
	if (statvfs(path, &fs))
		return (struct gt_maybe){ 0 };
	return (struct gt_maybe){ true, (uint64_t)fs.f_blocks * fs.f_frsize };
}

/* CUDA opens /dev/nvidiactl, /dev/nvidia-uvm and a file of each GPU. */
static void find_closed_file(char name[32], const char *root)
{
	struct dirent *entry;
	char path[4096];
	DIR *folder;

	*name = '\0';
	snprintf(path, sizeof(path), "%s/dev", root);
	folder = opendir(path);
	while (folder && !*name && (entry = readdir(folder))) {
		if (strncmp(entry->d_name, "nvidia", 6) || strlen(entry->d_name) > 20)
			continue;
		snprintf(path, sizeof(path), "%s/dev/%s", root, entry->d_name);
		if (access(path, R_OK | W_OK) && errno == EACCES)
			snprintf(name, 32, "/dev/%.20s", entry->d_name);
	}
	if (folder)
		closedir(folder);
}

static bool has_library(const char *name)
{
	static const struct gt_library any = { .code = GT_EDEVICE };
	void *handle;

	gt_library_open(&handle, &any, name, GT_ERR_IGNORED);
	gt_library_close(handle);
	return handle;
}

void gt_check_facts_read(struct gt_check_facts *out, const struct gt_probe *probe, const char *root)
{
	root = root ? root : "";
	*out = (struct gt_check_facts){
		.nvidia_card = find_nvidia_card(root),
		.nccl = probe->visible > 1 && has_library("libnccl.so.2"),
		.cudnn = probe->visible > 0 && has_library("libcudnn.so.9"),
		.oldest_gpu = &gt_cuda_oldest_gpu ? gt_cuda_oldest_gpu : 0,
		.shm_bytes = read_shm(root),
		.open_files = read_limit(RLIMIT_NOFILE),
		.address_bytes = read_limit(RLIMIT_AS),
		.locked_bytes = read_limit(RLIMIT_MEMLOCK),
	};
	find_closed_file(out->closed_file, root);
	if (probe->cuda_available)
		gt_cuda_driver_ask(&out->cuda);
}
