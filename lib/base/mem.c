/* mem.c - memory that reports its failure, and an arena. */
#include "lib/base/mem.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *gt_calloc(size_t n, size_t size, struct gt_err *err)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		gt_err_set(err, GT_ENOMEM, "out of memory: %zu x %zu bytes wanted", n, size);
	return p;
}

void *gt_reallocarray(void *old, size_t n, size_t size, struct gt_err *err)
{
	void *p = reallocarray(old, n ? n : 1, size ? size : 1);

	if (!p)
		gt_err_set(err, GT_ENOMEM, "out of memory: %zu x %zu bytes wanted", n, size);
	return p;
}

char *gt_strdup(const char *s, struct gt_err *err)
{
	char *p = strdup(s);

	if (!p)
		gt_err_set(err, GT_ENOMEM, "out of memory: a string of %zu bytes", strlen(s));
	return p;
}

char *gt_asprintf(struct gt_err *err, const char *format, ...)
{
	char *p = NULL;
	va_list ap;
	int length;

	va_start(ap, format);
	length = vasprintf(&p, format, ap);
	va_end(ap);
	if (length < 0) {
		gt_err_set(err, GT_ENOMEM, "out of memory: a formatted string");
		return NULL;
	}
	return p;
}

int gt_grow(void *items, size_t count, size_t *capacity, size_t size, struct gt_err *err)
{
	void **array = items;
	size_t wanted;
	void *p;

	if (count < *capacity)
		return 0;
	wanted = *capacity ? *capacity * 2 : 8;
	p = gt_reallocarray(*array, wanted, size, err);
	if (!p)
		return GT_ENOMEM;
	*array = p;
	*capacity = wanted;
	return 0;
}

struct gt_arena_block {
	struct gt_arena_block *next;
	size_t used, size;
	_Alignas(16) unsigned char bytes[];
};

enum { BLOCK_BYTES = 64 * 1024 };

/* Add a block for at least `size` bytes. A large request gets its own block, which is listed after
 * the first one, so that the rest of the first one stays in use. */
static struct gt_arena_block *add_block(struct gt_arena *arena, size_t size, struct gt_err *err)
{
	bool own = size > BLOCK_BYTES / 4;
	size_t block_size = own ? size : BLOCK_BYTES;
	struct gt_arena_block *b = gt_calloc(1, sizeof(*b) + block_size, err);
	struct gt_arena_block **link = own && arena->block ? &arena->block->next : &arena->block;

	if (!b)
		return NULL;
	b->size = block_size;
	b->next = *link;
	*link = b;
	return b;
}

void *gt_arena_alloc(struct gt_arena *arena, size_t size, struct gt_err *err)
{
	struct gt_arena_block *b = arena->block;
	void *p;

	if (size > SIZE_MAX / 2) {
		gt_err_set(err, GT_ENOMEM, "out of memory: %zu bytes wanted", size);
		return NULL;
	}
	size = (size + 15) & ~(size_t)15;
	if (arena->limit && (arena->used > arena->limit || size > arena->limit - arena->used)) {
		gt_err_set(
		    err, GT_ENOMEM, "more than %zu bytes of memory are asked for", arena->limit);
		return NULL;
	}
	if (!b || b->size - b->used < size)
		b = add_block(arena, size, err);
	if (!b)
		return NULL;
	p = b->bytes + b->used;
	b->used += size;
	arena->used += size;
	return p;
}

char *gt_arena_strdup(struct gt_arena *arena, const char *s, struct gt_err *err)
{
	size_t size = strlen(s) + 1;
	char *p = gt_arena_alloc(arena, size, err);

	return p ? memcpy(p, s, size) : NULL;
}

void gt_arena_release(struct gt_arena *arena)
{
	while (arena->block) {
		struct gt_arena_block *b = arena->block;

		arena->block = b->next;
		free(b);
	}
	arena->used = 0;
}
