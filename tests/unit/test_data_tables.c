/* test_data_tables.c - CSV, idx and random data, and how samples are divided. */
#include "lib/data/core/description.h"
#include "tests/unit/data_fixture.h"

static const struct gt_draw eval_draw;

struct csv_case {
	const char *text, *options;
	int features, classes, samples;
	float first[3]; /* features of the first sample */
	int target;     /* of the first sample */
	float last[3];
	int last_target;
};

static const struct csv_case csv_cases[] = {
	{ "1,2,0\n3,4,1\n", "", 2, 2, 2, { 1, 2 }, 0, { 3, 4 }, 1 },
	/* a header, the target named, CRLF, no line end at the end */
	{ "x,class,y\r\n1,2,3\r\n4,0,6", ",target=class", 2, 3, 2, { 1, 3 }, 2, { 4, 6 }, 0 },
	/* CR alone, as old Macs wrote it, also in quotes; CR before CRLF is a blank line */
	{ "x,class,y\r1,2,3\r\r\n4,0,6\r", ",target=class", 2, 3, 2, { 1, 3 }, 2, { 4, 6 }, 0 },
	{ "1,\"x\ry\"\r2,\"x\ry\"\r", "", 1, 1, 2, { 1 }, 0, { 2 }, 0 },
	{ "x,class,y\n1,2,3\n4,0,6\n", ",target=1", 2, 3, 2, { 1, 3 }, 2, { 4, 6 }, 0 },
	{ "km/h,y\n1,2\n0,6\n", ",target=km/h", 1, 2, 2, { 2 }, 1, { 6 }, 0 },
	/* words are numbered in sorted order */
	{ "1,dog\n2,cat\n3,eel\n4,cat\n", "", 1, 3, 4, { 1 }, 1, { 4 }, 0 },
	/* quotes, spaces, blank lines, a byte order mark */
	{ "\xEF\xBB\xBF \"a, \"\"b\"\"\" , t\n\n \"1.5e1\" , \"x\ny\"\n\n-2,x\n", "", 1, 2, 2,
	    { 15 }, 1, { -2 }, 0 },
	{ "n,1st\n1,\"a\"\n2,a\n", ",target=1st", 1, 1, 2, { 1 }, 0, { 2 }, 0 },
	/* an index column without a name */
	{ ",x,class\n0,5,1\n1,6,0\n", "", 2, 2, 2, { 0, 5 }, 1, { 1, 6 }, 0 },
	/* whole numbers may be written as fractions */
	{ "1,1.0\n2,0.0\n", "", 1, 2, 2, { 1 }, 1, { 2 }, 0 },
	{ "0.1,7\n", "", 1, 8, 1, { 0.1f }, 7, { 0.1f }, 7 },
	/* words are features in the order of their bytes */
	{ "red,1,0\nBlue,2,1\nred,3,0\n", "", 3, 2, 3, { 0, 1, 1 }, 0, { 0, 1, 3 }, 0 },
	{ "c,n,k\nred,1,0\nBlue,2,1\n", "", 3, 2, 2, { 0, 1, 1 }, 0, { 1, 0, 2 }, 1 },
	/* numbers are words where that is asked for */
	{ "7,0\n11,1\nx,0\n", ",categories=0", 3, 2, 3, { 0, 1, 0 }, 0, { 0, 0, 1 }, 0 },
	/* other separators; a tab keeps fields apart, spaces do not */
	{ "1;2,5;0\n", ",sep=;,categories=1", 2, 1, 1, { 1, 1 }, 0, { 1, 1 }, 0 },
	{ "1\t 2 \t0\n", ",sep=tab", 2, 1, 1, { 1, 2 }, 0, { 1, 2 }, 0 },
	{ "1|2|0\n", ",sep=bar", 2, 1, 1, { 1, 2 }, 0, { 1, 2 }, 0 },
	/* columns that are skipped may hold anything, even nothing */
	{ "id,x,y,class\na,1,2,0\n,3,4,1\n", ",skip=id", 2, 2, 2, { 1, 2 }, 0, { 3, 4 }, 1 },
	/* the last column that is not skipped is the target; a name twice, but used once */
	{ "x,y,class,id\n1,2,0,a\n3,4,1,b\n", ",skip=id", 2, 2, 2, { 1, 2 }, 0, { 3, 4 }, 1 },
	{ "x,y,x,class\n1,2,9,0\n3,4,9,1\n", ",skip=2", 2, 2, 2, { 1, 2 }, 0, { 3, 4 }, 1 },
	/* whether there is a header is decided by its setting first */
	{ "a,b\nc,d\n", ",header=yes", 1, 1, 1, { 1 }, 0, { 1 }, 0 },
	{ "1,2\n3,1\n", ",header=yes", 1, 2, 1, { 3 }, 1, { 3 }, 1 },
	{ "a,b\nc,d\n", ",header=no", 2, 2, 2, { 1, 0 }, 0, { 0, 1 }, 1 },
};

static void check_row(struct gt_dataset *data, int64_t i, const float *wanted, int target)
{
	float input[3];
	int32_t got;

	assert_int_equal(gt_dataset_read(data, i, &eval_draw, input, &got, NULL), 0);
	assert_memory_equal(input, wanted, gt_dataset_info(data)->input_bytes);
	assert_int_equal(got, target);
}

static void test_csv(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(csv_cases) / sizeof(*csv_cases); i++) {
		const struct csv_case *c = &csv_cases[i];
		struct gt_dataset *data;
		const struct gt_data_info *info;

		put_text(&f, "t.csv", c->text);
		data = open_data("csv", in(&f, "t.csv"), c->options, NULL);
		info = gt_dataset_info(data);
		assert_int_equal(info->form.kind, GT_SAMPLE_VECTOR);
		assert_int_equal(info->form.features, c->features);
		assert_int_equal(info->form.classes, c->classes);
		assert_int_equal(info->samples, c->samples);
		assert_int_equal(info->targets, 1);
		check_row(data, 0, c->first, c->target);
		check_row(data, c->samples - 1, c->last, c->last_target);
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

/* Mean and standard deviation are those of the samples that are trained on; a column that does not
 * vary, and one of words, keep theirs. Other data for the model are read by them. */
static void test_csv_scale(void **state)
{
	struct gt_dataset *whole, *parts[2] = { NULL, NULL }, *other;
	struct gt_data_description described, known;
	struct gt_data_request request = { .like = &known };
	struct gt_err err = GT_ERR_INIT;
	float input[4], x[2];
	struct fixture f;
	int32_t target;
	json_t *json;

	(void)state;
	fixture_open(&f);
	put_text(&f, "t.csv", "x,same,c,k\n1,5,a,0\n2,5,b,1\n4,5,a,0\n");
	put_text(&f, "o.csv", "x,same,c,k\n8,6,b,1\n");
	put_text(&f, "u.csv", "x,same,c,k\n8,6,z,1\n");
	whole = open_data("csv", in(&f, "t.csv"), "", NULL);
	assert_int_equal(gt_dataset_split(whole, 0.34, &parts[0], &parts[1], NULL), 0);
	assert_int_equal(gt_dataset_info(parts[0])->samples, 2);
	for (int i = 0; i < 2; i++) {
		gt_dataset_read(parts[0], i, &eval_draw, input, &target, NULL);
		x[i] = input[0];
	}
	assert_int_equal(gt_dataset_fit(parts[0], &err), 0);
	gt_data_describe(&described, parts[0]);
	assert_int_equal(described.column_count, 3);
	assert_true(described.columns[0].mean == (x[0] + x[1]) / 2);
	assert_true(described.columns[0].std == (x[1] - x[0]) / 2);
	assert_true(described.columns[1].mean == 5 && described.columns[1].std == 1);
	json = gt_data_description_to_json(&described, false, &err);
	assert_int_equal(gt_data_description_from_json(&known, json, &err), 0);
	json_decref(json);
	assert_string_equal(known.columns[2].words[1], "b");
	other = open_data("csv", in(&f, "o.csv"), "", &request);
	assert_int_equal(gt_dataset_fit(other, &err), 0); /* nothing is measured */
	gt_dataset_read(other, 0, &eval_draw, input, &target, NULL);
	assert_true(input[0] == (float)((8 - known.columns[0].mean) / known.columns[0].std));
	assert_true(input[1] == 1 && input[2] == 0 && input[3] == 1);
	gt_dataset_close(other);
	other = open_data("csv", in(&f, "o.csv"), ",standardise=no", &request);
	gt_dataset_read(other, 0, &eval_draw, input, &target, NULL);
	assert_true(input[0] == 8 && input[1] == 6);
	assert_non_null(strstr(gt_dataset_info(other)->overruled, "standardise=no"));
	gt_dataset_close(other);
	assert_true(gt_dataset_open(&other, "csv:/dev/null", &request, &err) < 0);
	{
		char spec[256];

		snprintf(spec, sizeof(spec), "csv:%s", in(&f, "u.csv"));
		assert_int_equal(gt_dataset_open(&other, spec, &request, &err), GT_EFORMAT);
		assert_non_null(strstr(err.text, "u.csv': line 2, column 'c': 'z' is not among"));
		assert_non_null(strstr(err.text, "the words that the model"));
	}
	gt_data_description_release(&known);
	for (int i = 0; i < 2; i++)
		gt_dataset_close(parts[i]);
	gt_dataset_close(whole);
	fixture_close(&f);
}

/* Records of a label and three planes become pixels of three channels. */
static void test_cifar10(void **state)
{
	static uint8_t bytes[2 * 3073], input[3072];
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;
	struct fixture f;
	char name[40], spec[160];
	int32_t target;

	(void)state;
	fixture_open(&f);
	put_text(&f, "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
	for (int i = 1; i <= 5; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)(k * 7 + (size_t)i);
		bytes[0] = (uint8_t)i;
		bytes[3073] = 9;
		snprintf(name, sizeof(name), "data_batch_%d.bin", i);
		put_bytes(&f, name, bytes, sizeof(bytes));
	}
	data = open_data("cifar10", f.folder, ",mean=0.5,std=0.25/0.5/1", NULL);
	assert_int_equal(gt_dataset_info(data)->samples, 10);
	assert_true(gt_dataset_info(data)->form.std[1] == 0.5f &&
	            gt_dataset_info(data)->form.mean[2] == 0.5f);
	assert_int_equal(gt_dataset_read(data, 6, &eval_draw, input, &target, &err), 0);
	assert_int_equal(target, 4);
	for (int k = 0; k < 3072; k++)
		assert_int_equal(input[k], (uint8_t)((1 + k % 3 * 1024 + k / 3) * 7 + 4));
	assert_int_equal(gt_dataset_read(data, 7, &eval_draw, input, &target, &err), 0);
	assert_int_equal(target, 9);
	gt_dataset_close(data);
	bytes[3073] = 10;
	put_bytes(&f, "test_batch.bin", bytes, sizeof(bytes));
	data = open_data("cifar10", f.folder, ",split=test", NULL);
	assert_int_equal(gt_dataset_read(data, 1, &eval_draw, input, &target, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "test_batch.bin': label 10 of sample 1 is not below 10"));
	gt_dataset_close(data);
	cut_file(&f, "data_batch_3.bin", 1);
	snprintf(spec, sizeof(spec), "cifar10:%s", f.folder);
	assert_int_equal(gt_dataset_open(&data, spec, NULL, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "data_batch_3.bin': 6145 bytes are no records of 3073"));
	fixture_close(&f);
}

static void check_mnist(const struct fixture *f, const char *options, int samples, float mean)
{
	struct gt_dataset *data = open_data("mnist", f->folder, options, NULL);
	const struct gt_data_info *info = gt_dataset_info(data);
	uint8_t input[16];
	int32_t target;

	assert_int_equal(info->samples, samples);
	assert_int_equal(info->form.height, 4);
	assert_int_equal(info->form.width, 4);
	assert_int_equal(info->form.channels, 1);
	assert_int_equal(info->form.classes, 10);
	assert_int_equal(info->input_bytes, 16);
	assert_true(info->form.mean[0] == mean && info->form.std[0] == 0.3081f);
	assert_int_equal(gt_dataset_read(data, 13, &eval_draw, input, &target, NULL), 0);
	assert_int_equal(target, 3);
	for (int i = 0; i < 16; i++)
		assert_int_equal(input[i], (uint8_t)((13 * 16 + i) * 7));
	gt_dataset_close(data);
}

static void test_mnist(void **state)
{
	uint8_t bytes[2048];
	struct fixture f;
	size_t n;

	(void)state;
	fixture_open(&f);
	n = make_idx(bytes, 20, 4);
	put_gz(&f, "t10k-images-idx3-ubyte.gz", bytes, n);
	n = make_idx(bytes, 20, 0);
	put_bytes(&f, "t10k-labels-idx1-ubyte", bytes, n);
	check_mnist(&f, "", 20, 0.1307f);
	n = make_idx(bytes, 30, 4);
	put_bytes(&f, "train-images-idx3-ubyte", bytes, n);
	n = make_idx(bytes, 30, 0);
	put_gz(&f, "train-labels-idx1-ubyte.gz", bytes, n);
	check_mnist(&f, "", 30, 0.1307f);
	check_mnist(&f, ",split=test,mean=0.5", 20, 0.5f);
	for (int i = 0; i < 3; i++) {
		static const char *const options[] = { "", ",split=train", ",split=test" };
		struct gt_dataset *a = open_data("mnist", f.folder, "", NULL);
		struct gt_dataset *b = open_data("mnist", f.folder, options[i], NULL);

		assert_int_equal(gt_dataset_same_files(a, b), i < 2);
		assert_int_equal(gt_dataset_info(b)->interpretation != NULL, !i);
		gt_dataset_close(a);
		gt_dataset_close(b);
	}
	fixture_close(&f);
}

/* A label that another program changes after it was checked is an error, not a class. */
static void test_mnist_changed(void **state)
{
	uint8_t bytes[1024], input[16];
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;
	struct fixture f;
	int32_t target;
	char path[256];
	FILE *file;

	(void)state;
	fixture_open(&f);
	put_bytes(&f, "train-images-idx3-ubyte", bytes, make_idx(bytes, 20, 4));
	put_bytes(&f, "train-labels-idx1-ubyte", bytes, make_idx(bytes, 20, 0));
	data = open_data("mnist", f.folder, "", NULL);
	assert_int_equal(gt_dataset_read(data, 3, &eval_draw, input, &target, &err), 0);
	assert_int_equal(target, 3);
	snprintf(path, sizeof(path), "%s/train-labels-idx1-ubyte", f.folder);
	file = fopen(path, "r+");
	assert_non_null(file);
	assert_int_equal(fseek(file, 8 + 3, SEEK_SET), 0);
	assert_int_equal(fputc(200, file), 200);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(gt_dataset_read(data, 3, &eval_draw, input, &target, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "label 200 of sample 3"));
	gt_dataset_close(data);
	fixture_close(&f);
}

static void test_random_follows_the_request(void **state)
{
	static const struct {
		const char *path;
		struct gt_data_request request;
		enum gt_sample_kind kind;
		size_t input_bytes, targets;
	} cases[] = {
		{ "12/3", { .form = { .block = 8, .classes = 7 } }, GT_SAMPLE_VECTOR, 48, 1 },
		{ "", { .form = { .features = 5, .classes = 3 } }, GT_SAMPLE_VECTOR, 20, 1 },
		{ "", { .form = { .height = 4, .width = 6, .channels = 3, .classes = 3 } },
		    GT_SAMPLE_IMAGE, 72, 1 },
		{ "", { .form = { .block = 8, .classes = 3 } }, GT_SAMPLE_TOKENS, 32, 8 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_dataset *data =
		    open_data("random", cases[i].path, ",samples=50", &cases[i].request);
		const struct gt_data_info *info = gt_dataset_info(data);
		char a[72], b[72];
		int32_t target[8], again[8];
		int different = 0;

		assert_int_equal(info->form.kind, cases[i].kind);
		assert_int_equal(info->samples, 50);
		assert_int_equal(info->input_bytes, cases[i].input_bytes);
		assert_int_equal(info->targets, cases[i].targets);
		assert_int_equal(info->form.classes, 3);
		for (int64_t k = 0; k < 50; k++) {
			assert_int_equal(gt_dataset_read(data, k, &eval_draw, a, target, NULL), 0);
			for (size_t t = 0; t < info->targets; t++)
				assert_in_range(target[t], 0, 2);
			different += k && memcmp(a, b, info->input_bytes);
			assert_int_equal(gt_dataset_read(data, k, &eval_draw, b, again, NULL), 0);
			assert_memory_equal(a, b, info->input_bytes);
			assert_memory_equal(target, again, info->targets * sizeof(*target));
		}
		assert_true(different > 40);
		assert_int_equal(gt_dataset_save_vocab(data,
		                     (struct gt_file_name){ .path = "/nowhere/at/all" }, NULL),
		    0);
		gt_dataset_close(data);
	}
}

/* The nearest of the classes' means, taken from the first half, names the class of the rest. */
static void test_random_can_be_learned(void **state)
{
	enum { SAMPLES = 600, FEATURES = 16, CLASSES = 3 };
	const struct gt_data_request request = { .seed = 9 };
	struct gt_dataset *data = open_data("random", "16/3", ",samples=600", &request);
	double mean[CLASSES][FEATURES] = { 0 };
	int count[CLASSES] = { 0 }, right = 0;
	float x[FEATURES];
	int32_t target;

	(void)state;
	for (int i = 0; i < SAMPLES; i++) {
		double best = 1e30;
		int guess = 0;

		assert_int_equal(gt_dataset_read(data, i, &eval_draw, x, &target, NULL), 0);
		for (int c = 0; c < CLASSES; c++) {
			double d = count[c] ? 0 : 1e30;

			for (int k = 0; k < FEATURES && count[c]; k++)
				d +=
				    (x[k] - mean[c][k] / count[c]) * (x[k] - mean[c][k] / count[c]);
			if (d < best) {
				best = d;
				guess = c;
			}
		}
		right += i >= SAMPLES / 2 && guess == target;
		for (int k = 0; k < FEATURES && i < SAMPLES / 2; k++)
			mean[target][k] += x[k];
		count[target] += i < SAMPLES / 2;
	}
	for (int c = 0; c < CLASSES; c++)
		assert_true(count[c] > SAMPLES / 2 / CLASSES / 2);
	assert_true(right > SAMPLES / 2 * 9 / 10);
	gt_dataset_close(data);
}

/* Mark which rows of 0.csv a view holds: the first feature is the row's number. */
static void mark_rows(struct gt_dataset *view, int *seen)
{
	for (int64_t i = 0; i < gt_dataset_info(view)->samples; i++) {
		int32_t target;
		float x;

		assert_int_equal(gt_dataset_read(view, i, &eval_draw, &x, &target, NULL), 0);
		seen[(int)x]++;
	}
}

static void put_numbered_csv(const struct fixture *f, int rows)
{
	FILE *file = create(f, "0.csv");

	for (int i = 0; i < rows; i++)
		fprintf(file, "%d,%d\n", i, i % 2);
	fclose(file);
}

static void test_samples_are_divided(void **state)
{
	static const struct {
		int rows;
		double fraction;
		int held;
	} cases[] = { { 100, 0.1, 10 }, { 7, 0.5, 4 }, { 2, 0.01, 1 }, { 3, 0.99, 2 } };
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gt_data_request seeds[2] = { { .seed = 1 }, { .seed = 2 } };
		int seen[3][100] = { 0 };

		put_numbered_csv(&f, cases[i].rows);
		for (int s = 0; s < 2; s++) {
			struct gt_dataset *train, *val;
			struct gt_dataset *data = open_data("csv", in(&f, "0.csv"), "", &seeds[s]);

			assert_int_equal(
			    gt_dataset_split(data, cases[i].fraction, &train, &val, NULL), 0);
			gt_dataset_close(data);
			assert_int_equal(gt_dataset_info(val)->samples, cases[i].held);
			mark_rows(val, seen[s]);
			gt_dataset_close(val);
			mark_rows(train, seen[2]);
			gt_dataset_close(train);
		}
		/* The same whatever the run's seed; nothing twice, nothing left out. */
		assert_memory_equal(seen[0], seen[1], sizeof(seen[0]));
		for (int r = 0; r < cases[i].rows; r++)
			assert_int_equal(2 * seen[0][r] + seen[2][r], 2);
	}
	fixture_close(&f);
}

static void test_a_part_is_divided_again(void **state)
{
	struct gt_dataset *data, *train, *val, *part[2], *none[2];
	int seen[100] = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_numbered_csv(&f, 100);
	data = open_data("csv", in(&f, "0.csv"), "", NULL);
	assert_int_equal(gt_dataset_split(data, 0.3, &train, &val, &err), 0);
	assert_int_equal(gt_dataset_split(train, 0.5, &part[0], &part[1], &err), 0);
	gt_dataset_close(train);
	mark_rows(part[0], seen);
	mark_rows(part[1], seen);
	mark_rows(val, seen);
	for (int i = 0; i < 100; i++)
		assert_int_equal(seen[i], 1);
	assert_int_equal(gt_dataset_split(data, 1.0, &none[0], &none[1], &err), GT_EINVAL);
	assert_non_null(strstr(err.text, "between 0 and 1"));
	assert_int_equal(gt_dataset_read(data, 100, &eval_draw, seen, seen, &err), GT_EINVAL);
	assert_int_equal(gt_dataset_read(data, -1, &eval_draw, seen, seen, &err), GT_EINVAL);
	gt_dataset_close(data);
	gt_dataset_close(val);
	gt_dataset_close(part[1]);
	gt_dataset_close(part[0]);
	assert_null(none[0]);
	assert_null(none[1]);
	fixture_close(&f);
}

static void test_real_mnist(void **state)
{
	static const int first[4] = { 7, 2, 1, 0 };
	struct gt_dataset *data;
	uint8_t input[784];
	int32_t target;
	double sum = 0;

	(void)state;
	real_data("mnist/t10k-images-idx3-ubyte.gz");
	data = open_data("mnist", real_data("mnist"), ",split=test", NULL);
	assert_int_equal(gt_dataset_info(data)->samples, 10000);
	assert_int_equal(gt_dataset_info(data)->form.height, 28);
	for (int64_t i = 0; i < 10000; i++) {
		assert_int_equal(gt_dataset_read(data, i, &eval_draw, input, &target, NULL), 0);
		if (i < 4)
			assert_int_equal(target, first[i]);
		for (int k = 0; k < 784; k++)
			sum += input[k];
	}
	assert_true(sum / 255 / 784 / 10000 > 0.13 && sum / 255 / 784 / 10000 < 0.135);
	gt_dataset_close(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cifar10),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_csv_scale),
		cmocka_unit_test(test_mnist),
		cmocka_unit_test(test_mnist_changed),
		cmocka_unit_test(test_random_follows_the_request),
		cmocka_unit_test(test_random_can_be_learned),
		cmocka_unit_test(test_samples_are_divided),
		cmocka_unit_test(test_a_part_is_divided_again),
		cmocka_unit_test(test_real_mnist),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
