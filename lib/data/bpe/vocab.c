/* vocab.c - the tokens of a vocabulary by id and by text, and the merges by pair. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "lib/data/bpe/inside.h"

/*
 * A fold multiplies to 128 bits and adds the halves without carry. With secret factors nobody can
 * choose keys that collide, and it takes one multiplication for 8 bytes.
 * Source: Wang Yi, wyhash, 2019; Go's run-time hashes strings so (runtime/hash64.go).
 */
static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t gt_bpe_hash(const struct gt_bpe_key *key, const unsigned char *p, size_t n)
{
	uint64_t h = key->words[0] ^ n, word;

	for (; n >= 8; p += 8, n -= 8) {
		memcpy(&word, p, 8);
		h = fold(h ^ word, key->words[1]);
	}
	word = 0;
	for (size_t i = 0; i < n; i++)
		word |= (uint64_t)p[i] << (8 * i);
	return fold(h ^ word, key->words[1]);
}

uint64_t gt_bpe_hash_pair(const struct gt_bpe_key *key, uint32_t a, uint32_t b)
{
	return fold(((uint64_t)a << 32 | b) ^ key->words[0], key->words[1]);
}

/* A key that no file can know; results do not depend on it. Without the system's random numbers
 * (before the kernel has any), the time and the place of memory are hard to guess, too. */
void gt_bpe_key_draw(struct gt_bpe_key *key, const void *memory)
{
	struct timespec now;

	if (getrandom(key->words, sizeof(key->words), GRND_NONBLOCK) != sizeof(key->words)) {
		clock_gettime(CLOCK_REALTIME, &now);
		key->words[0] = (uint64_t)(uintptr_t)memory * 0x9E3779B97F4A7C15u;
		key->words[1] = (uint64_t)now.tv_nsec * 0xD1B54A32D192ED03u;
	}
	/* A factor with bits set in both halves: 0 would map all keys to 0. */
	key->words[1] |= (uint64_t)1 << 63 | 1;
}

/* The next power of two of at least twice `count`. */
static size_t table_size(size_t count)
{
	size_t size = 16;

	while (size < 2 * count)
		size *= 2;
	return size;
}

int gt_bpe_vocab_init(struct gt_bpe_vocab *v, int size, struct gt_err *err)
{
	size_t slots = table_size((size_t)size);

	gt_bpe_key_draw(&v->key, v);
	v->size = size;
	v->tokens = gt_calloc((size_t)size, sizeof(*v->tokens), err);
	v->slots = v->tokens ? gt_calloc(slots, sizeof(*v->slots), err) : NULL;
	v->mask = (uint32_t)slots - 1;
	return v->slots ? 0 : GT_ENOMEM;
}

/* The slot of these bytes, or the free one where they belong. */
static uint32_t *find_slot(const struct gt_bpe_vocab *v, const unsigned char *p, size_t n)
{
	uint32_t at = (uint32_t)gt_bpe_hash(&v->key, p, n) & v->mask;

	for (;; at = (at + 1) & v->mask) {
		const struct gt_bpe_string *s;

		if (!v->slots[at])
			return &v->slots[at];
		s = &v->tokens[v->slots[at] - 1];
		if (s->n == n && !memcmp(s->p, p, n))
			return &v->slots[at];
	}
}

int gt_bpe_vocab_add(
    struct gt_bpe_vocab *v, int32_t id, const char *text, size_t n, struct gt_err *err)
{
	unsigned char *copy;
	uint32_t *slot;

	if (v->tokens[id].p)
		return gt_err_set(err, GT_EFORMAT, "two tokens have the id %d", (int)id);
	copy = gt_arena_alloc(&v->arena, n + 1, err);
	if (!copy)
		return GT_ENOMEM;
	memcpy(copy, text, n);
	slot = find_slot(v, copy, n);
	if (*slot)
		return gt_err_set(err, GT_EFORMAT, "token '%.80s' has two ids", text);
	v->tokens[id] = (struct gt_bpe_string){ copy, (uint32_t)n };
	*slot = (uint32_t)id + 1;
	return 0;
}

int32_t gt_bpe_vocab_find(const struct gt_bpe_vocab *v, const unsigned char *p, size_t n)
{
	return (int32_t)*find_slot(v, p, n) - 1;
}

/* ---- merges ---- */

int gt_bpe_merges_init(struct gt_bpe_vocab *v, size_t count, struct gt_err *err)
{
	size_t slots = table_size(count);

	v->merges = gt_calloc(slots, sizeof(*v->merges), err);
	if (!v->merges)
		return GT_ENOMEM;
	v->merge_mask = (uint32_t)slots - 1;
	for (size_t i = 0; i < slots; i++)
		v->merges[i].id = UINT32_MAX;
	return 0;
}

static struct gt_bpe_merge *find_merge(const struct gt_bpe_vocab *v, uint32_t left, uint32_t right)
{
	uint32_t at = (uint32_t)gt_bpe_hash_pair(&v->key, left, right) & v->merge_mask;

	for (;; at = (at + 1) & v->merge_mask) {
		struct gt_bpe_merge *m = &v->merges[at];

		if (m->id == UINT32_MAX || (m->left == left && m->right == right))
			return m;
	}
}

void gt_bpe_merges_add(struct gt_bpe_vocab *v, const struct gt_bpe_merge *merge)
{
	*find_merge(v, merge->left, merge->right) = *merge;
}

const struct gt_bpe_merge *gt_bpe_merges_find(
    const struct gt_bpe_vocab *v, uint32_t left, uint32_t right)
{
	const struct gt_bpe_merge *m = find_merge(v, left, right);

	return m->id == UINT32_MAX ? NULL : m;
}

void gt_bpe_vocab_release(struct gt_bpe_vocab *v)
{
	free(v->tokens);
	free(v->slots);
	free(v->merges);
	gt_arena_release(&v->arena);
	*v = (struct gt_bpe_vocab){ 0 };
}
