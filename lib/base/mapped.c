/* mapped.c - a table of the files that are mapped. */
#include "lib/base/mapped.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/log.h"

enum { FILES = 64, PATH_BYTES = 1024 };

/* The table has no lock, because a signal handler reads it: a thread takes a free row, fills it,
 * and stores `start` last. A handler looks only at rows whose `start` is set. The row that it looks
 * for stays, because the interrupted thread still reads this mapping. */
static struct {
	atomic_flag taken;
	atomic_uintptr_t start; /* 0: the row is not complete */
	atomic_size_t size;
	char path[PATH_BYTES]; /* path in the form of gt_log_put() */
} mapped_files[FILES];

/* Write a path in the form of gt_log_put(), as a handler cannot do this. Return false if the text
 * is too long. */
static bool show_path(char out[PATH_BYTES], const char *path)
{
	size_t used = 0;

	for (; *path && used + GT_LOG_CHARACTER <= PATH_BYTES; used += strlen(out + used))
		path += gt_log_character(out + used, path);
	out[used] = '\0';
	return !*path;
}

void gt_mapped_add(const void *start, size_t size, const char *path)
{
	char shown[PATH_BYTES];
	size_t i = 0;

	if (!show_path(shown, path))
		return;
	while (i < FILES && atomic_flag_test_and_set(&mapped_files[i].taken))
		i++;
	if (i == FILES)
		return;
	strcpy(mapped_files[i].path, shown);
	atomic_store(&mapped_files[i].size, size);
	atomic_store(&mapped_files[i].start, (uintptr_t)start);
}

void gt_mapped_remove(const void *start)
{
	for (size_t i = 0; i < FILES; i++) {
		if (atomic_load(&mapped_files[i].start) != (uintptr_t)start)
			continue;
		atomic_store(&mapped_files[i].start, 0);
		atomic_flag_clear(&mapped_files[i].taken);
		return;
	}
}

const char *gt_map_path_at(const void *address)
{
	for (size_t i = 0; i < FILES; i++) {
		uintptr_t start = atomic_load(&mapped_files[i].start);

		if (start && (uintptr_t)address >= start &&
		    (uintptr_t)address - start < atomic_load(&mapped_files[i].size))
			return mapped_files[i].path;
	}
	return NULL;
}
