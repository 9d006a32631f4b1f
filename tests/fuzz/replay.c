/* replay.c - run fuzz targets on files: the seeds, and earlier findings. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "tests/fuzz/fuzz.h"

static const struct {
	const char *name; /* of the target, and of the folder of its files */
	fuzz_target *run;
} targets[] = {
	{ "pickle", fuzz_pickle },
	{ "zip", fuzz_zip },
	{ "legacy", fuzz_legacy },
	{ "safetensors", fuzz_safetensors },
	{ "npz", fuzz_npz },
	{ "gguf", fuzz_gguf },
	{ "race", fuzz_race },
	{ "tokenizer", fuzz_tokenizer },
	{ "csv", fuzz_csv },
	{ "image", fuzz_image },
	{ "exported", fuzz_exported },
	{ "onnx", fuzz_onnx },
	{ "sequence", fuzz_sequence },
	{ "dcp", fuzz_dcp },
	{ "jinja", fuzz_jinja },
	{ "keys", fuzz_keys },
};

static int files;

/* The bytes are copied, so that a read past their end is one past an allocation. */
static int run_file(fuzz_target *run, const char *path)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_mapping map;
	unsigned char *copy;

	if (gt_map(&map, path, &err)) {
		printf("# %s\n", err.text);
		return 1;
	}
	copy = malloc(map.size ? map.size : 1);
	if (!copy)
		return 1;
	if (map.size)
		memcpy(copy, map.data, map.size);
	run(copy, map.size);
	free(copy);
	gt_unmap(&map);
	files++;
	return 0;
}

static int run_folder(fuzz_target *run, const char *folder)
{
	DIR *dir = opendir(folder);
	char path[4096];
	int failed = 0;

	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		failed |= run_file(run, path);
	}
	if (dir)
		closedir(dir);
	return failed;
}

/* A file that breaks a promise aborts the program, so the test fails. */
int main(int argc, char **argv)
{
	size_t count = sizeof(targets) / sizeof(*targets);
	int bad = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: fuzz_replay FOLDER..., of folders named as the targets\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%zu\n", count + 1);
	for (size_t i = 0; i < count; i++) {
		int failed = 0, before = files;
		char path[2048];

		for (int k = 1; k < argc; k++) {
			snprintf(path, sizeof(path), "%s/%s", argv[k], targets[i].name);
			failed |= run_folder(targets[i].run, path);
		}
		printf("%sok %zu - %s: %d files\n", failed ? "not " : "", i + 1, targets[i].name,
		    files - before);
		bad |= failed;
	}
	printf("%sok %zu - there are files\n", files ? "" : "not ", count + 1);
	return bad || !files;
}
