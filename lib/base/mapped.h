/* mapped.h - private: a table of the files that are mapped, for gt_map_path_at() (file.h). */
#ifndef GT_BASE_MAPPED_H
#define GT_BASE_MAPPED_H

#include <stddef.h>

/*
 * Add a mapping to the table. `path` is copied, in the form of gt_log_put(). If the table is full
 * or this form is too long, the mapping is left out. Any thread may call this function and the next
 * one at any time.
 */
void gt_mapped_add(const void *start, size_t size, const char *path);

/* Remove the mapping that begins at `start`, if it is in the table. Call this before munmap(). */
void gt_mapped_remove(const void *start);

#endif
