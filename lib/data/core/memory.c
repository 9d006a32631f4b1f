/* memory.c - samples that the caller of the library has in memory. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/core/form.h"
#include "lib/data/core/source.h"

struct in_memory {
	struct gt_source source;
	struct gt_batch batch; /* borrowed; without an input, training gets its batches by itself */
};

static int read_memory(struct gt_source *self, const struct gt_data_part *part, int64_t index,
    const struct gt_draw *draw, void *input, int32_t *target, struct gt_err *err)
{
	const struct in_memory *m = (const struct in_memory *)self;
	size_t bytes = self->info.input_bytes, targets = self->info.targets;

	(void)part;
	(void)draw;
	if (!m->batch.input)
		return gt_err_set(
		    err, GT_EINVAL, "the samples are in memory, and none were handed over");
	if (index >= m->batch.count) {
		memset(input, 0, bytes);
		for (size_t i = 0; i < targets; i++)
			target[i] = GT_DATA_IGNORE;
		return 0;
	}
	memcpy(input, (const char *)m->batch.input + (size_t)index * bytes, bytes);
	memcpy(target, m->batch.target + (size_t)index * targets, targets * sizeof(*target));
	return 0;
}

static void close_memory(struct gt_source *self)
{
	gt_arena_release(&self->names);
	free(self);
}

static const struct gt_source_ops memory_ops = { .read = read_memory, .close = close_memory };

static struct gt_source *new_memory_source(
    const struct gt_data_info *info, const struct gt_batch *batch, struct gt_err *err)
{
	struct in_memory *m = gt_calloc(1, sizeof(*m), err);

	if (!m)
		return NULL;
	if (batch)
		m->batch = *batch;
	m->source.ops = &memory_ops;
	m->source.in_memory = true;
	m->source.info = *info;
	m->source.length = info->samples;
	m->source.target.std = 1;
	return &m->source;
}

/* Set the meaning of the targets, which a network's outputs leave open. */
static int choose_targets(struct gt_data_info *info, const struct gt_spec *spec, struct gt_err *err)
{
	static const char *const words[] = { [GT_SAMPLE_CLASS] = "class",
		[GT_SAMPLE_NUMBER] = "number",
		[GT_SAMPLE_LABELS] = "labels",
		NULL };
	int target = GT_SAMPLE_CLASS;
	int rc = gt_spec_choice(spec, "target", words, &target, err);

	if (rc)
		return rc;
	if (target != GT_SAMPLE_CLASS && info->form.kind == GT_SAMPLE_TOKENS)
		return gt_err_set(
		    err, GT_EINVAL, "target=%s: the targets of texts are tokens", words[target]);
	if (target == GT_SAMPLE_NUMBER && info->form.classes != 1) {
		gt_err_set(err, GT_EINVAL, "target=number: a sample has %d outputs, not 1",
		    info->form.classes);
		return gt_err_hint(err, "write memory:INPUTS/1,target=number");
	}
	info->form.target = (enum gt_sample_target)target;
	if (target == GT_SAMPLE_LABELS)
		info->targets = (size_t)info->form.classes;
	return 0;
}

static int open_memory(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info info = { .samples = request->memory };
	int rc = gt_spec_integer(spec, "samples", 1, INT_MAX, &info.samples, err);

	if (!rc)
		rc = gt_form_choose(&info, spec, request, err);
	if (!rc)
		rc = choose_targets(&info, spec, err);
	if (rc)
		return rc;
	*out = new_memory_source(&info, NULL, err);
	return *out ? 0 : GT_ENOMEM;
}

struct gt_source *gt_source_of_memory(
    const struct gt_source *like, const struct gt_batch *batch, int64_t samples, struct gt_err *err)
{
	struct gt_data_info info = like->info;

	info.samples = samples;
	return new_memory_source(&info, batch, err);
}

static const struct gt_setting settings[] = { { "samples", "N", "those of a step",
	                                          "number of samples in an epoch" },
	{ "target", "class|number|labels", "class", "meaning of the targets" }, { 0 } };

const struct gt_source_kind gt_memory_kind = {
	.form = { .name = "memory",
	    .path = "INPUTS/CLASSES",
	    .summary = "samples of the calling program; without a path, shaped for the model",
	    .settings = settings,
	    .example = "memory:16/4,samples=256" },
	.pathless = true,
	.open = open_memory,
};
