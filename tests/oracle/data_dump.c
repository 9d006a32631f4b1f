/* data_dump.c - print the samples of a data set, for scripts that compare it with others. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/data/core/data.h"

static int dump(struct gt_dataset *data, const struct gt_draw *draw, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(data);
	void *input = malloc(info->input_bytes);
	int32_t *target = malloc(info->targets * sizeof(*target));
	int rc = 0;

	for (int64_t i = 0; i < info->samples && !rc; i++) {
		rc = gt_dataset_read(data, i, draw, input, target, err);
		if (rc)
			break;
		fwrite(input, 1, info->input_bytes, stdout);
		fwrite(target, sizeof(*target), info->targets, stdout);
	}
	free(input);
	free(target);
	return rc;
}

/* data_dump SPEC [AUGMENT SEED EPOCH]: the inputs and targets of all samples, one after the other,
 * on standard output; on standard error a line "kind samples height width channels features block
 * classes". With AUGMENT, as they are trained on in this epoch of a run with this seed. */
int main(int argc, char **argv)
{
	struct gt_data_request request = { 0 };
	struct gt_draw draw = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data = NULL;
	const struct gt_data_info *info;
	int rc = 0;

	if (argc != 2 && argc != 5)
		return 2;
	if (argc == 5) {
		draw.train = true;
		draw.seed = strtoull(argv[3], NULL, 10);
		draw.epoch = (uint32_t)strtoul(argv[4], NULL, 10);
		rc = gt_augment_parse(&draw.augment, argv[2], &err);
	}
	request.parts = draw.augment.chosen[GT_AUGMENT_RRC];
	if (!rc)
		rc = gt_dataset_open(&data, argv[1], &request, &err);
	if (!rc) {
		info = gt_dataset_info(data);
		fprintf(stderr, "%d %lld %d %d %d %d %d %d\n", info->form.kind,
		    (long long)info->samples, info->form.height, info->form.width,
		    info->form.channels, info->form.features, info->form.block, info->form.classes);
		rc = dump(data, &draw, &err);
	}
	if (rc)
		fprintf(stderr, "error: %s\nhint: %s\n", err.text, err.hint);
	gt_dataset_close(data);
	return rc || fflush(stdout) ? 1 : 0;
}
