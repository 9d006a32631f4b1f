/* random.c - samples out of nothing, with something in them to learn. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/normals.h"
#include "lib/base/philox.h"
#include "lib/data/core/form.h"
#include "lib/data/core/source.h"

/*
 * Everything is a function of (seed, sample). Vectors: standard normal noise around a corner of the
 * hypercube [-1, 1]^features that belongs to the class. Images: a pattern of two grey levels that
 * belongs to the class under noise of half the range. Tokens: each is the one before it plus one,
 * modulo the vocabulary, but for a quarter that are drawn anew.
 */

enum { DEFAULT_SAMPLES = 1024 };

/*
 * Word 1 of the counter is the kind of draw; classes' patterns use word 3 = UINT32_MAX, which no
 * sample has.
 */
enum { DRAW_NOISE, DRAW_LABEL };

struct randoms {
	struct gt_source source;
	uint64_t seed;
	/* classes that the spec asks for; 0: info.form.classes, which may be those of a model */
	int classes;
};

static uint32_t count_classes(const struct randoms *r)
{
	return (uint32_t)(r->classes ? r->classes : r->source.info.form.classes);
}

static void draw_block(
    const struct randoms *r, uint32_t element, uint32_t what, uint32_t sample, uint32_t bits[4])
{
	const uint32_t counter[4] = { element, what, GT_RNG_DATA, sample };

	gt_philox(r->seed, counter, bits);
}

static void read_vector(const struct randoms *r, uint32_t sample, uint32_t label, float *x)
{
	/* the draws of draw_block() with DRAW_NOISE */
	const struct gt_philox_draw noise = { .key = r->seed,
		.block = (uint64_t)DRAW_NOISE << 32,
		.stream = GT_RNG_DATA,
		.step = sample };
	uint32_t pattern[4];

	gt_draw_normals(&noise, r->source.info.form.features, x);
	for (int i = 0; i < r->source.info.form.features; i++) {
		if (i % 128 == 0)
			draw_block(r, (uint32_t)i / 128, label, UINT32_MAX, pattern);
		x[i] += pattern[i % 128 / 32] >> i % 32 & 1 ? 1.0f : -1.0f;
	}
}

/* Turn the noise of fields of whole numbers and truth values into 0 and 1. Each row of a table of
 * embeddings has at least two. A mask hides nothing. */
static void round_fields(const struct gt_sample_form *form, char *input)
{
	for (int i = 0; i < form->field_count; i++) {
		const struct gt_sample_field *f = &form->fields[i];
		char *at = input + gt_sample_field_at(form, i);
		bool mask = gt_field_meaning(f) == GT_FIELD_MASK;

		for (int64_t k = 0; f->type != GT_FIELD_FLOAT && k < gt_field_values(f); k++) {
			float real;
			int32_t whole;

			memcpy(&real, at + (size_t)k * sizeof(real), sizeof(real));
			whole = mask || real > 0;
			real = (float)whole;
			if (f->type == GT_FIELD_INT)
				memcpy(at + (size_t)k * sizeof(whole), &whole, sizeof(whole));
			else
				memcpy(at + (size_t)k * sizeof(real), &real, sizeof(real));
		}
	}
}

/* Four bytes, each of which is 0 or 1: the low bits of x. 0b1011 becomes 0x01000101. */
static uint32_t spread_bits(uint32_t x)
{
	return (x & 0xF) * 0x00204081u & 0x01010101u;
}

/* Each byte is 32 + 7 bits of noise + 64 where the pattern's bit is set: at most 223, so that four
 * bytes are added as one number. A word's lowest byte is its first element. */
static void read_image(const struct randoms *r, uint32_t sample, uint32_t label, uint8_t *x)
{
	size_t bytes = r->source.info.input_bytes;
	uint32_t noise[4], pattern[4];

	for (size_t i = 0; i < bytes; i += 16) {
		if (i % 128 == 0)
			draw_block(r, (uint32_t)(i / 128), label, UINT32_MAX, pattern);
		draw_block(r, (uint32_t)(i / 16), DRAW_NOISE, sample, noise);
		for (size_t k = 0; k < 4; k++) {
			uint32_t bits = pattern[i % 128 / 32] >> (i % 32 + 4 * k);

			noise[k] =
			    0x20202020u + (noise[k] & 0x7F7F7F7Fu) + (spread_bits(bits) << 6);
		}
		memcpy(x + i, noise, bytes - i < 16 ? bytes - i : 16);
	}
}

static void read_tokens(const struct randoms *r, uint32_t sample, int32_t *input, int32_t *target)
{
	uint32_t bits[4], classes = count_classes(r), token = 0;

	for (int i = 0; i <= r->source.info.form.block; i++) {
		draw_block(r, (uint32_t)i, DRAW_NOISE, sample, bits);
		if (i == 0 || bits[0] >> 30 == 0)
			token = (uint32_t)((uint64_t)bits[1] * classes >> 32);
		else
			token = token + 1 == classes ? 0 : token + 1;
		if (i < r->source.info.form.block)
			input[i] = (int32_t)token;
		if (i > 0)
			target[i - 1] = (int32_t)token;
	}
}

static int32_t label_of(const struct randoms *r, uint32_t sample)
{
	uint32_t bits[4];

	draw_block(r, 0, DRAW_LABEL, sample, bits);
	return (int32_t)((uint64_t)bits[0] * count_classes(r) >> 32);
}

static int32_t class_of_random(const struct gt_source *self, int64_t index)
{
	const struct randoms *r = (const struct randoms *)self;

	return self->info.form.kind == GT_SAMPLE_TOKENS ? -1 : label_of(r, (uint32_t)index);
}

static int read_random(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct randoms *r = (const struct randoms *)self;
	uint32_t label, sample = (uint32_t)index;

	(void)part;
	(void)draw;
	(void)err;
	if (self->info.form.kind == GT_SAMPLE_TOKENS) {
		read_tokens(r, sample, input, target);
		return 0;
	}
	label = (uint32_t)label_of(r, sample);
	if (self->info.form.kind == GT_SAMPLE_IMAGE)
		read_image(r, sample, label, input);
	else
		read_vector(r, sample, label, input);
	round_fields(&self->info.form, input);
	*target = (int32_t)label;
	return 0;
}

static void close_random(struct gt_source *self)
{
	gt_arena_release(&self->names);
	free(self);
}

static const struct gt_source_ops random_ops = {
	.read = read_random, .class_of = class_of_random, .close = close_random
};

static int open_random(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info info = { .samples = DEFAULT_SAMPLES };
	struct randoms *r;
	int rc;

	rc = gt_spec_integer(spec, "samples", 1, INT_MAX, &info.samples, err);
	if (!rc)
		rc = gt_form_choose(&info, spec, request, err);
	if (rc)
		return rc;
	r = gt_calloc(1, sizeof(*r), err);
	if (!r)
		return GT_ENOMEM;
	r->source.ops = &random_ops;
	r->source.info = info;
	r->source.length = info.samples;
	r->seed = request->seed;
	r->classes = *spec->path ? info.form.classes : 0;
	*out = &r->source;
	return 0;
}

static const struct gt_setting settings[] = { { "samples", "N", "1024", "number of samples" },
	{ 0 } };

const struct gt_source_kind gt_random_kind = {
	.form = { .name = "random",
	    .path = "INPUTS/CLASSES",
	    .summary = "noise with a pattern for each class; without a path, shaped for the model",
	    .settings = settings,
	    .example = "random:16/4,samples=256" },
	.pathless = true,
	.open = open_random,
};
