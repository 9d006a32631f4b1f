/* start_lines.c - lines about the data, the ranks and the length of a run that begins. */
#include "lib/train/report/start_lines.h"

enum { TEXT = GT_FIELDS_TEXT + 16 };

/* "images of 32x32 with 3 channels", "rows of 4 numbers", "blocks of 64 tokens", "samples of
 * image uint8 [8, 8, 3], age float32 [1]" */
static void describe_sample(char text[TEXT], const struct gt_data_info *info)
{
	char fields[GT_FIELDS_TEXT];

	if (info->form.field_count)
		snprintf(text, TEXT, "samples of %s", gt_sample_fields_text(fields, &info->form));
	else if (info->form.kind == GT_SAMPLE_TOKENS)
		snprintf(text, TEXT, "%s of %d tokens", info->form.paired ? "pairs" : "blocks",
		    info->form.block);
	else if (info->form.kind == GT_SAMPLE_IMAGE)
		snprintf(text, TEXT, "images of %dx%d with %d channel%s", info->form.height,
		    info->form.width, info->form.channels, info->form.channels == 1 ? "" : "s");
	else
		snprintf(text, TEXT, "rows of %d number%s", info->form.features,
		    info->form.features == 1 ? "" : "s");
}

const char *gt_describe_targets(char text[GT_TARGETS_TEXT], const struct gt_data_info *info)
{
	if (info->form.target == GT_SAMPLE_NUMBER)
		snprintf(text, GT_TARGETS_TEXT, "numbers as targets");
	else if (info->form.target == GT_SAMPLE_LABELS)
		snprintf(text, GT_TARGETS_TEXT, "%d label%s", info->form.classes,
		    info->form.classes == 1 ? "" : "s");
	else if (info->form.kind == GT_SAMPLE_TOKENS)
		snprintf(text, GT_TARGETS_TEXT, "vocabulary of %d", info->form.classes);
	else
		snprintf(text, GT_TARGETS_TEXT, "%d class%s", info->form.classes,
		    info->form.classes == 1 ? "" : "es");
	return text;
}

/* "4 ranks (zero2, tensor parallel 2, shm), " */
static void describe_ranks(char text[TEXT], const struct gt_ranks_report *r)
{
	char tensor[40] = "", stages[40] = "";

	if (r->tensor > 1)
		snprintf(tensor, sizeof(tensor), ", tensor parallel %d", r->tensor);
	if (r->stages > 1)
		snprintf(stages, sizeof(stages), ", pipeline of %d stages", r->stages);
	if (r->ranks > 1)
		snprintf(text, TEXT, "%d ranks (%s%s%s, %s), ", r->ranks, r->mode, tensor, stages,
		    r->backend);
	else
		*text = '\0';
}

/* Log "batch 8 x accumulate 2 x 2 ranks = 32". Ranks that share a model or a layer read the same
 * samples and do not count. */
static void log_batch(struct gt_log *log, const struct gt_ranks_report *r)
{
	const int64_t readers = r->step / (r->batch * r->accumulate);

	gt_log_info(log, "batch %lld x accumulate %lld x %lld %s%s = %lld", (long long)r->batch,
	    (long long)r->accumulate, (long long)readers,
	    readers < r->ranks ? "data-parallel " : "", readers == 1 ? "rank" : "ranks",
	    (long long)r->step);
}

void gt_start_lines_log(struct gt_log *log, const struct gt_start_report *r)
{
	char sample[TEXT], targets[GT_TARGETS_TEXT], ranks[TEXT], val[40] = "";

	if (!r->info)
		return;
	describe_sample(sample, r->info);
	gt_describe_targets(targets, r->info);
	describe_ranks(ranks, &r->ranks);
	if (r->val_samples)
		snprintf(val, sizeof(val), "; %lld for validation", (long long)r->val_samples);
	gt_log_info(log, "data: %lld %s, %s%s", (long long)r->samples, sample, targets, val);
	gt_log_info(log, "run: %s, %s%lld step%s of %lld sample%s, %lld epoch%s", r->ranks.device,
	    ranks, (long long)r->total, r->total == 1 ? "" : "s", (long long)r->ranks.step,
	    r->ranks.step == 1 ? "" : "s", (long long)r->epochs, r->epochs == 1 ? "" : "s");
	log_batch(log, &r->ranks);
}

void gt_start_lines_warn(struct gt_log *log, const struct gt_start_report *r, bool batch_given)
{
	const struct gt_data_info *info = r->info;

	if (!info)
		return;
	if (info->form.classes == 1 && info->form.target == GT_SAMPLE_CLASS &&
	    info->form.kind != GT_SAMPLE_TOKENS)
		gt_log_warn(log,
		    "{data} has one class%s%s%s, so every answer is right, and nothing is learned",
		    r->class_name ? " ('" : "", r->class_name ? r->class_name : "",
		    r->class_name ? "')" : "");
	if (batch_given && r->ranks.step > r->samples)
		gt_log_warn(log,
		    "{batch} %lld: a step would take %lld samples, but there are %lld, so each step "
		    "reads all of them; a smaller {batch} gives more steps in an epoch",
		    (long long)r->ranks.batch, (long long)r->ranks.step, (long long)r->samples);
}
