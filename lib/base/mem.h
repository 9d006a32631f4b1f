/* mem.h - allocation that reports errors, and an arena for memory that is freed together. */
#ifndef GT_BASE_MEM_H
#define GT_BASE_MEM_H

#include <stddef.h>

#include "lib/base/err.h"

/* n * size zeroed bytes, yours to free(); NULL with err set if memory runs out or n * size
 * overflows. n or size 0 gives a pointer that may be freed. */
void *gt_calloc(size_t n, size_t size, struct gt_err *err);

/* Resize to n * size bytes; on failure NULL with err set, and `old` stays valid. */
void *gt_reallocarray(void *old, size_t n, size_t size, struct gt_err *err);

/* A copy of a string, yours to free(). */
char *gt_strdup(const char *s, struct gt_err *err);

/* A formatted string, yours to free(). */
char *gt_asprintf(struct gt_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Ensure that a growing array can hold one more element. *items holds `count` elements of `size`
 * bytes, and has memory for *capacity; if it is full, its memory is doubled. Returns 0, or
 * GT_ENOMEM with the array unchanged.
 */
int gt_grow(void *items, size_t count, size_t *capacity, size_t size, struct gt_err *err);

/* An arena: allocations are freed together. A zeroed struct is an empty arena. Set `limit` if sizes
 * from a file determine how much memory is allocated. */
struct gt_arena {
	struct gt_arena_block *block;
	size_t used;  /* bytes allocated */
	size_t limit; /* most bytes to allocate; 0: no limit */
};

/* size zeroed bytes aligned to 16, valid until gt_arena_release(); NULL with err set. */
void *gt_arena_alloc(struct gt_arena *arena, size_t size, struct gt_err *err);

/* A copy of a string in the arena. */
char *gt_arena_strdup(struct gt_arena *arena, const char *s, struct gt_err *err);

/* Free everything; the arena is empty and usable again. */
void gt_arena_release(struct gt_arena *arena);

#endif
