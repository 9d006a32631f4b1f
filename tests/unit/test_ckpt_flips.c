/* test_ckpt_flips.c - single bits of a file flipped: an error, or nothing that anyone reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/tree/tree.h"

/*
 * A checkpoint that gtrain wrote is opened from memory with one bit flipped, its digests are
 * checked, every tensor is read. If no step fails, all names, types, shapes and values, of tensors
 * and of other values, must be unchanged.
 *   GT_FLIPS   how many flips of each file; 100000
 *   GT_SEED    for the same ones again
 */
enum { FLIPS = 100000, MAX_ELEMENTS = 64 };

/* ---- the files written ---- */

static const float weight[24] = { 1, -2, 3.5, 4, 5, 6, 7, 8, 9, 10, 11, 12 },
                   moments[24] = { 1e-9F };
static const uint16_t half[5] = { 0x3c00, 0, 0x7bff, 1, 0x8000 };
static const int64_t batches[1] = { 1234567890123 };
static const unsigned char mask[3] = { 1, 0, 1 };
static const float steps[1] = { 70 };

static void put(struct gt_tree *dict, const char *key, struct gt_tree *value, struct gt_arena *a)
{
	struct gt_err err = GT_ERR_INIT;

	if (gt_tree_set(dict, key, value, a, &err))
		fail_msg("'%s': %s", key, err.text);
}

static struct gt_tree *tensor(
    struct gt_arena *a, enum gt_dtype dtype, int ndim, const int64_t *shape, const void *data)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_tree *node = gt_tree_tensor(a, dtype, ndim, shape, data, &err);

	assert_non_null(node);
	return node;
}

/* Two names of one tensor, a view of it that is transposed, several types, one without elements. */
static void put_model(struct gt_tree *dict, const char *prefix, bool views, struct gt_arena *a)
{
	static const int64_t matrix[2] = { 4, 6 }, five[1] = { 5 }, three[1] = { 3 },
	                     none[1] = { 0 };
	static const int64_t shape[2] = { 5, 3 }, stride[2] = { 1, 6 };
	struct gt_tree *tied = tensor(a, GT_F32, 2, matrix, weight), *view;
	const struct {
		const char *name;
		struct gt_tree *value;
	} entries[] = {
		{ "embed.weight", tied },
		{ "head.weight", tensor(a, GT_F32, 2, matrix, weight) },
		{ "head.bias", tensor(a, GT_F16, 1, five, half) },
		{ "norm.num_batches_tracked", tensor(a, GT_I64, 0, NULL, batches) },
		{ "mask", tensor(a, GT_BOOL, 1, three, mask) },
		{ "empty", tensor(a, GT_F32, 1, none, weight + 20) },
	};
	char name[80];

	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		snprintf(name, sizeof(name), "%s%s", prefix, entries[i].name);
		put(dict, name, entries[i].value, a);
	}
	if (!views)
		return;
	view = gt_tree_new(a, GT_TREE_TENSOR, GT_ERR_IGNORED);
	assert_non_null(view);
	view->tensor = tied->tensor;
	view->tensor.shape = shape;
	view->tensor.stride = stride;
	view->tensor.offset = 1;
	put(dict, "view", view, a);
}

static struct gt_tree *adam(struct gt_arena *a)
{
	static const int64_t matrix[2] = { 4, 6 };
	struct gt_tree *optimizer = gt_tree_dict(a, NULL), *state = gt_tree_dict(a, NULL);
	struct gt_tree *one = gt_tree_dict(a, NULL), *group = gt_tree_dict(a, NULL);
	struct gt_tree *groups = gt_tree_list(a, NULL), *betas = gt_tree_tuple(a, NULL);

	put(one, "step", tensor(a, GT_F32, 0, NULL, steps), a);
	put(one, "exp_avg", tensor(a, GT_F32, 2, matrix, moments), a);
	assert_int_equal(gt_tree_set_int(state, 0, one, a, NULL), 0);
	assert_int_equal(gt_tree_append(betas, gt_tree_float(a, 0.9, NULL), a, NULL), 0);
	assert_int_equal(gt_tree_append(betas, gt_tree_float(a, 0.999, NULL), a, NULL), 0);
	put(group, "lr", gt_tree_float(a, 1e-3, NULL), a);
	put(group, "betas", betas, a);
	put(group, "amsgrad", gt_tree_bool(a, false, NULL), a);
	put(group, "foreach", gt_tree_none(a, NULL), a);
	assert_int_equal(gt_tree_append(groups, group, a, NULL), 0);
	put(optimizer, "state", state, a);
	put(optimizer, "param_groups", groups, a);
	return optimizer;
}

static struct gt_tree *training(struct gt_arena *a)
{
	struct gt_tree *root = gt_tree_dict(a, NULL), *model = gt_tree_dict(a, NULL);

	model->seq.ordered = true;
	put_model(model, "", true, a);
	put(root, "model", model, a);
	put(root, "optimizer", adam(a), a);
	put(root, "epoch", gt_tree_int(a, 300, NULL), a);
	put(root, "name", gt_tree_string(a, "a run", NULL), a);
	return root;
}

/* The values that safetensors can hold. */
static struct gt_tree *flat(struct gt_arena *a)
{
	static const int64_t matrix[2] = { 4, 6 };
	struct gt_tree *root = gt_tree_dict(a, NULL);

	put_model(root, "model.", false, a);
	put(root, "optimizer.state.0.step", tensor(a, GT_F32, 0, NULL, steps), a);
	put(root, "optimizer.state.0.exp_avg", tensor(a, GT_F32, 2, matrix, moments), a);
	return root;
}

/* The bytes of the file that a writer makes; yours to free(). */
static unsigned char *written(const char *format, struct gt_tree *root, size_t *size)
{
	char path[] = "/tmp/gtrain-flips-XXXXXX";
	struct gt_err err = GT_ERR_INIT;
	int fd = mkstemp(path);
	struct gt_mapping map;
	unsigned char *bytes;

	assert_true(fd >= 0);
	close(fd);
	if (gt_ckpt_write(path, format, root, NULL, &err) || gt_map(&map, path, &err))
		fail_msg("%s", err.text);
	unlink(path);
	bytes = malloc(map.size);
	assert_non_null(bytes);
	memcpy(bytes, map.data, map.size);
	*size = map.size;
	gt_unmap(&map);
	return bytes;
}

/* ---- the files read ---- */

enum outcome { REFUSED, SAME, MISSED };

static bool same_text(const struct gt_tree *a, const struct gt_tree *b)
{
	return a->string.length == b->string.length &&
	       !memcmp(a->string.bytes, b->string.bytes, a->string.length);
}

/* `a` of the sound file is known to be readable. */
static enum outcome compare_tensors(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	unsigned char x[MAX_ELEMENTS * 8] = { 0 }, y[MAX_ELEMENTS * 8] = { 0 };
	struct gt_err err = GT_ERR_INIT;

	if (gt_ckpt_tensor_count(b) > MAX_ELEMENTS)
		return gt_storage_check(b->storage, &err) ? REFUSED : MISSED;
	if (gt_ckpt_tensor_read(b, b->dtype, y, &err))
		return REFUSED;
	if (gt_ckpt_tensor_read(a, a->dtype, x, &err))
		fail_msg("%s", err.text);
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	               !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)) &&
	               a->requires_grad == b->requires_grad &&
	               !strcmp(a->storage->location, b->storage->location) &&
	               !memcmp(x, y, sizeof(x))
	           ? SAME
	           : MISSED;
}

static enum outcome compare(const struct gt_tree *a, const struct gt_tree *b);

/* An error anywhere counts: a program that reads all of the file meets it. */
static enum outcome compare_items(const struct gt_tree *a, const struct gt_tree *b)
{
	enum outcome all =
	    a->seq.count == b->seq.count && a->seq.ordered == b->seq.ordered ? SAME : MISSED;

	for (size_t i = 0; i < a->seq.count && i < b->seq.count; i++) {
		const struct gt_tree_item *x = &a->seq.items[i], *y = &b->seq.items[i];
		enum outcome one = compare(x->value, y->value);

		if (one == REFUSED)
			return REFUSED;
		if (one == MISSED || (x->key && compare(x->key, y->key) != SAME))
			all = MISSED;
	}
	return all;
}

static enum outcome compare(const struct gt_tree *a, const struct gt_tree *b)
{
	if (a->kind != b->kind)
		return MISSED;
	switch (a->kind) {
	case GT_TREE_NONE:
		return SAME;
	case GT_TREE_BOOL:
		return a->boolean == b->boolean ? SAME : MISSED;
	case GT_TREE_INT:
		return a->integer == b->integer ? SAME : MISSED;
	case GT_TREE_FLOAT:
		return !memcmp(&a->real, &b->real, sizeof(a->real)) ? SAME : MISSED;
	case GT_TREE_STRING:
		return same_text(a, b) ? SAME : MISSED;
	case GT_TREE_TENSOR:
		return compare_tensors(&a->tensor, &b->tensor);
	case GT_TREE_OPAQUE: /* there is none in the sound file */
		return MISSED;
	default:
		return compare_items(a, b);
	}
}

static enum outcome outcome_of(const struct gt_tree *sound, const unsigned char *bytes, size_t size)
{
	struct gt_err err = GT_ERR_INIT;
	enum outcome outcome = REFUSED;
	struct gt_ckpt *ckpt;

	if (gt_ckpt_open_memory(&ckpt, bytes, size, &err))
		return REFUSED;
	if (!gt_digest_check(ckpt, false, NULL, &err))
		outcome = compare(sound, gt_ckpt_root(ckpt));
	gt_ckpt_close(ckpt);
	return outcome;
}

/* ---- the flips ---- */

static uint64_t next(uint64_t *x) /* xorshift64 */
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void flip_all(const char *format, struct gt_tree *root)
{
	uint64_t flips = number("GT_FLIPS", FLIPS), seed = number("GT_SEED", (uint64_t)time(NULL));
	uint64_t random = seed * 2 + 1, counts[MISSED + 1] = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_ckpt *sound;
	unsigned char *bytes, *copy;
	size_t size;

	bytes = written(format, root, &size);
	copy = malloc(size);
	assert_non_null(copy);
	memcpy(copy, bytes, size);
	if (gt_ckpt_open_memory(&sound, bytes, size, &err))
		fail_msg("%s", err.text);
	assert_int_equal(outcome_of(gt_ckpt_root(sound), copy, size), SAME);
	for (uint64_t i = 0; i < flips; i++) {
		uint64_t bit = next(&random) % (size * 8);
		enum outcome outcome;

		copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
		outcome = outcome_of(gt_ckpt_root(sound), copy, size);
		counts[outcome]++;
		if (outcome == MISSED && counts[MISSED] <= 10)
			print_message("%s: bit %d of byte %llu was missed\n", format,
			    (int)(bit % 8), (unsigned long long)(bit / 8));
		copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	print_message(
	    "%s, %zu bytes, seed %llu: %llu flips: %llu errors, %llu harmless, %llu missed\n",
	    format, size, (unsigned long long)seed, (unsigned long long)flips,
	    (unsigned long long)counts[REFUSED], (unsigned long long)counts[SAME],
	    (unsigned long long)counts[MISSED]);
	gt_ckpt_close(sound);
	free(copy);
	free(bytes);
	assert_int_equal(counts[MISSED], 0);
	assert_true(counts[REFUSED] > flips / 2); /* most bits matter */
}

static void test_torch_zip(void **state)
{
	struct gt_arena a = { 0 };

	(void)state;
	flip_all("torch-zip", training(&a));
	gt_arena_release(&a);
}

static void test_safetensors(void **state)
{
	struct gt_arena a = { 0 };

	(void)state;
	flip_all("safetensors", flat(&a));
	gt_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_torch_zip),
		cmocka_unit_test(test_safetensors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
