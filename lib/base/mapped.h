/* mapped.h - private: a table of the files that are mapped, for gt_map_path_at() (file.h). */
#ifndef GT_BASE_MAPPED_H
#define GT_BASE_MAPPED_H

#include <stddef.h>

/* Add a mapping with an escaped copy of its path, if there is a place and the path is short enough.
 * Both functions are for any thread. */
void gt_mapped_add(const void *start, size_t size, const char *path);

/* Remove the mapping at `start`, if it is in the table, before munmap(). */
void gt_mapped_remove(const void *start);

#endif
