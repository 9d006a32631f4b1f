/* mem.h - allocate memory and report errors; an arena for memory that is freed together. */
#ifndef GT_BASE_MEM_H
#define GT_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Allocate zeroed bytes, never NULL for 0 bytes. NULL with err set if memory runs out or n * size
 * overflows. */
void *gt_calloc(size_t n, size_t size, struct gt_err *err);

/* Resize the memory at `old` to n * size bytes, and return its new address. On failure, return NULL
 * with err set; `old` then stays valid. */
void *gt_reallocarray(void *old, size_t n, size_t size, struct gt_err *err);

/* Return a copy of a string, or a formatted one, for free(). NULL with err set. */
char *gt_strdup(const char *s, struct gt_err *err);

char *gt_asprintf(struct gt_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ensure memory for one more element of `size` bytes, of an array that has `count`; `items` is the
 * address of its pointer. Errors: GT_ENOMEM; the array is then unchanged. */
int gt_grow(void *items, size_t count, size_t *capacity, size_t size, struct gt_err *err);

/* Return the least multiple of `unit` that is not below n, which is not negative. */
static inline int64_t gt_round_up(int64_t n, int64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* An arena: all memory that is allocated in it is freed together. A zeroed struct is an empty
 * arena. Set `limit` if the contents of a file determine how much memory is allocated. */
struct gt_arena {
	struct gt_arena_block *block; /* list of memory blocks */
	size_t used;                  /* bytes allocated */
	size_t limit;                 /* maximum number of bytes to allocate; 0: no limit */
};

/* Allocate `size` zeroed bytes, aligned to 16 bytes. They are valid until gt_arena_release(). NULL
 * with err set if memory runs out or the limit is exceeded. */
void *gt_arena_alloc(struct gt_arena *arena, size_t size, struct gt_err *err);

/* Return a copy of a string, allocated in the arena. NULL with err set on failure. */
char *gt_arena_strdup(struct gt_arena *arena, const char *s, struct gt_err *err);

/* Free all memory of the arena. The arena is then empty, and can be used again. */
void gt_arena_release(struct gt_arena *arena);

#endif
