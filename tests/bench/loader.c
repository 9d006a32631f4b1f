/* loader.c - images per second of the loader, and of libjpeg-turbo alone. */
#include <fts.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jpeglib.h wants stdio.h before it. */
#include <jpeglib.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/data/core/data.h"

/*
 * bench_loader load SPEC AUGMENT WORKERS BATCH: batches of the data set, shuffled, as training
 * reads them.
 * bench_loader decode FOLDER THREADS EIGHTHS SQUARE: the .jpg files of a folder of class folders,
 * kept in memory, decoded by libjpeg-turbo to RGB at EIGHTHS/8 of their size, in memory that is
 * used again. With SQUARE 1 only the columns of the square in the middle are decoded.
 *
 * Each line of standard input is a number of seconds. It is answered by a line of JSON,
 * {"images_per_s": RATE}, measured for that time. Batches that were ready before are not counted.
 */
enum { PREFETCH = 4, MAX_THREADS = 64 };

static void check(int rc, const struct gt_err *err)
{
	if (rc < 0) {
		fprintf(stderr, "bench_loader: %s\n", err->text);
		exit(1);
	}
}

/* Answer each line of standard input with the rate that `rate` measures for so many seconds. */
static int serve(double (*rate)(void *context, double seconds), void *context)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		double seconds = strtod(line, NULL);

		if (seconds <= 0)
			return 2;
		printf("{\"images_per_s\": %.6g}\n", rate(context, seconds));
		fflush(stdout);
	}
	return 0;
}

/* ---- the loader ---- */

static double load_rate(void *context, double seconds)
{
	struct gt_loader *loader = context;
	const struct gt_batch *batch;
	struct gt_err err = GT_ERR_INIT;
	int64_t images = 0;
	double began;

	for (int i = 0; i < PREFETCH + 2; i++)
		check(gt_loader_next(loader, &batch, &err), &err);
	began = gt_clock_s();
	while (gt_clock_s() - began < seconds) {
		check(gt_loader_next(loader, &batch, &err), &err);
		images += batch->count;
	}
	return (double)images / (gt_clock_s() - began);
}

static int load(const char *spec, const char *augment, int workers, int batch)
{
	struct gt_loader_options o = { .workers = workers,
		.prefetch = PREFETCH,
		.draw = { .train = true, .seed = 1 },
		.sampler = { .seed = 1, .world = 1, .batch = batch, .shuffle = true } };
	struct gt_data_request request = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_loader *loader;
	struct gt_dataset *data;
	int rc;

	check(gt_augment_parse(&o.draw.augment, augment, &err), &err);
	request.parts = o.draw.augment.chosen[GT_AUGMENT_RRC];
	check(gt_dataset_open(&data, spec, &request, &err), &err);
	o.sampler.samples = gt_dataset_info(data)->samples;
	check(gt_loader_open(&loader, data, &o, &err), &err);
	rc = serve(load_rate, loader);
	gt_loader_close(loader);
	gt_dataset_close(data);
	return rc;
}

/* ---- libjpeg-turbo ---- */

struct file {
	unsigned char *bytes;
	size_t size;
};

struct decoder {
	struct file *files;
	size_t count, capacity;
	unsigned eighths;
	bool square;
	int threads;
	double seconds;
};

struct thread {
	pthread_t id;
	const struct decoder *decoder;
	size_t first; /* file to begin with */
	long images;
};

static void add_file(struct decoder *d, const char *path)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_mapping map;
	struct file *f;

	check(gt_map(&map, path, &err), &err);
	check(gt_grow(&d->files, d->count, &d->capacity, sizeof(*d->files), &err), &err);
	f = &d->files[d->count++];
	f->size = map.size;
	f->bytes = gt_calloc(map.size, 1, &err);
	check(f->bytes ? 0 : GT_ENOMEM, &err);
	memcpy(f->bytes, map.data, map.size);
	gt_unmap(&map);
}

/* Add all .jpg files below a folder. */
static void add_folder(struct decoder *d, char *folder)
{
	char *roots[] = { folder, NULL };
	FTS *fts = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
	FTSENT *entry;

	while (fts && (entry = fts_read(fts)))
		if (entry->fts_info == FTS_F && gt_text_ends_with(entry->fts_path, ".jpg"))
			add_file(d, entry->fts_path);
	if (fts)
		fts_close(fts);
}

/* `rows` is memory for 16 rows of any of the files. */
static void decode(struct jpeg_decompress_struct *j, const struct file *f, const struct decoder *d,
    unsigned char *rows)
{
	JSAMPROW row[16];

	jpeg_mem_src(j, f->bytes, f->size);
	jpeg_read_header(j, TRUE);
	j->out_color_space = JCS_RGB;
	j->scale_num = d->eighths;
	j->scale_denom = 8;
	jpeg_start_decompress(j);
	if (d->square && j->output_width > j->output_height) {
		JDIMENSION width = j->output_height, left = (j->output_width - width) / 2;

		jpeg_crop_scanline(j, &left, &width);
	}
	for (int i = 0; i < 16; i++)
		row[i] = rows + (size_t)i * j->output_width * 3;
	while (j->output_scanline < j->output_height)
		jpeg_read_scanlines(j, row, 16);
	jpeg_finish_decompress(j);
}

static void *run_thread(void *context)
{
	struct thread *t = context;
	const struct decoder *d = t->decoder;
	unsigned char *rows = malloc((size_t)16 * JPEG_MAX_DIMENSION * 3);
	struct jpeg_decompress_struct j;
	struct jpeg_error_mgr errors;
	double began = gt_clock_s();

	j.err = jpeg_std_error(&errors);
	jpeg_create_decompress(&j);
	for (size_t i = t->first; rows && gt_clock_s() - began < d->seconds; i++) {
		decode(&j, &d->files[i % d->count], d, rows);
		t->images++;
	}
	jpeg_destroy_decompress(&j);
	free(rows);
	return NULL;
}

static double decode_rate(void *context, double seconds)
{
	struct decoder *d = context;
	struct thread threads[MAX_THREADS];
	double began = gt_clock_s();
	long images = 0;

	d->seconds = seconds;
	for (int i = 0; i < d->threads; i++) {
		threads[i] = (struct thread){ .decoder = d,
			.first = d->count * (size_t)i / (size_t)d->threads };
		if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]))
			exit(1);
	}
	for (int i = 0; i < d->threads; i++) {
		pthread_join(threads[i].id, NULL);
		images += threads[i].images;
	}
	return (double)images / (gt_clock_s() - began);
}

static int decode_all(char *folder, int threads, int eighths, bool square)
{
	struct decoder d = { .threads = threads, .eighths = (unsigned)eighths, .square = square };
	int rc;

	if (threads < 1 || threads > MAX_THREADS || eighths < 1 || eighths > 8)
		return 2;
	add_folder(&d, folder);
	if (!d.count) {
		fprintf(stderr, "bench_loader: no .jpg files in '%s'\n", folder);
		return 1;
	}
	rc = serve(decode_rate, &d);
	for (size_t i = 0; i < d.count; i++)
		free(d.files[i].bytes);
	free(d.files);
	return rc;
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "load"))
		return load(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
	if (argc == 6 && !strcmp(argv[1], "decode"))
		return decode_all(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
	fprintf(stderr, "usage: bench_loader load SPEC AUGMENT WORKERS BATCH\n"
	                "       bench_loader decode FOLDER THREADS EIGHTHS SQUARE\n");
	return 2;
}
