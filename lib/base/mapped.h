/* mapped.h - private: a table of the files that are mapped, for gt_map_path_at() (file.h). */
#ifndef GT_BASE_MAPPED_H
#define GT_BASE_MAPPED_H

#include <stddef.h>

/*
 * Add a mapping to the table, with a copy of `path` in which gt_log_character() has escaped control
 * characters. If the table is full or the escaped path is too long, do not add the mapping. Any
 * thread may call this function and gt_mapped_remove() at any time.
 */
void gt_mapped_add(const void *start, size_t size, const char *path);

/* Remove the mapping that begins at `start`, if it is in the table. Call this before munmap(). */
void gt_mapped_remove(const void *start);

#endif
