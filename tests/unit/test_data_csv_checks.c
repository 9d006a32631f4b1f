/* test_data_csv_checks.c - tables that are hardly meant as they would be read: errors, warnings. */
#include "lib/data/core/description.h"
#include "tests/unit/data_fixture.h"

/* A table of `rows` rows, made by `row` from the number of the row. It is opened to train on. */
struct table {
	const char *header; /* NULL: none */
	int rows;
	void (*row)(FILE *file, int i);
	const char *options;
	const char *error, *hint; /* NULL: the table is read */
	const char *note;         /* a part of the warning; NULL: there is none */
	const char *reading;      /* a part of the line about the reading; NULL: any */
};

static void label_first(FILE *f, int i)
{
	fprintf(f, "%d,%d,0\n", i % 3, i % 7);
}

static void label_last(FILE *f, int i)
{
	fprintf(f, "%d,%d,%s\n", i * 7 % 100, i % 7, i % 2 ? "a" : "b");
}

static void prices(FILE *f, int i)
{
	fprintf(f, "%d,%d\n", i % 9, 100 * (i * 37 % 250) + 5000);
}

static void ages(FILE *f, int i)
{
	fprintf(f, "%d,%d\n", i % 9, 17 + i * 7 % 60);
}

static void hundred_classes(FILE *f, int i)
{
	fprintf(f, "%d,%d\n", i % 9, i % 100);
}

static void one_class_each(FILE *f, int i)
{
	fprintf(f, "%d,%d\n", i % 9, i);
}

static void sparse(FILE *f, int i)
{
	static const int codes[] = { 10, 250, 3000 };

	fprintf(f, "%d,%d\n", i % 9, codes[i % 3]);
}

static void wine(FILE *f, int i)
{
	fprintf(f, "%d,%d\n", i % 9, 3 + i % 6);
}

static void signs(FILE *f, int i)
{
	fprintf(f, "%d,%d\n", i % 9, i % 2 ? 1 : -1);
}

static void names(FILE *f, int i)
{
	fprintf(f, "%d,name%d,%d\n", i % 9, i, i % 2);
}

static void word_classes(FILE *f, int i)
{
	fprintf(f, "%d,%d,name%d\n", i % 9, i % 2, i);
}

static void thousands(FILE *f, int i)
{
	fprintf(f, "\"1,%03d\",%d,%s\n", i, i % 5, i % 2 ? "a" : "b");
}

static void mixed_thousands(FILE *f, int i)
{
	fprintf(f, i % 2 ? "\"1,%03d\",%s\n" : "%d,%s\n", i, i % 4 ? "a" : "b");
}

static void per_cent(FILE *f, int i)
{
	fprintf(f, "%d%%,%d,%s\n", i % 4, i % 5, i % 2 ? "a" : "b");
}

static void euros(FILE *f, int i)
{
	fprintf(f, "%d,\xE2\x82\xAC%d.50\n", i % 4, i % 30);
}

static void dates(FILE *f, int i)
{
	fprintf(f, "%02d.%02d.2024,%d,%s\n", i % 3 + 1, i % 2 + 1, i % 5, i % 2 ? "a" : "b");
}

static void both_signs(FILE *f, int i)
{
	fprintf(f, "\"1.%03d,%d\",%d,%s\n", i, i % 9, i % 5, i % 2 ? "a" : "b");
}

static void decimal_comma(FILE *f, int i)
{
	fprintf(f, "0,%d;%d,5;%s\n", i % 9 + 1, i % 5, i % 2 ? "a" : "b");
}

static void comma_and_point(FILE *f, int i)
{
	fprintf(f, "0,%d;%d.5;%s\n", i % 9 + 1, i % 5, i % 2 ? "a" : "b");
}

static void late_point(FILE *f, int i)
{
	fprintf(f, i < 1200 ? "0,%d;%s\n" : "0.%d;%s\n", i % 9 + 1, i % 2 ? "a" : "b");
}

static void comma_target(FILE *f, int i)
{
	fprintf(f, "%d\t%d,25\n", i % 9, i % 5);
}

static void quoted_comma(FILE *f, int i)
{
	fprintf(f, "\"0,%d\",%s\n", i % 9 + 1, i % 2 ? "a" : "b");
}

static void indexed(FILE *f, int i)
{
	fprintf(f, "%d,%d,%s\n", i, i % 7, i % 2 ? "a" : "b");
}

static void shuffled(FILE *f, int i)
{
	fprintf(f, "%d,%d,%s\n", i * 7 % 31, i % 7, i % 2 ? "a" : "b");
}

static void bad_header(FILE *f, int i)
{
	fprintf(f, "\"%d\";\"a\"\n", i);
}

static const struct table tables[] = {
	/* a target with one value */
	{ "label,a,b", 30, label_first, "",
	    "column 'b' is the target, but has the same value, '0', in all rows",
	    "if the target is 'label', add target=label", NULL, NULL },
	{ "n,a,b", 30, label_first, ",task=regression", "column 'b' is the target", "target=COLUMN",
	    NULL, NULL },
	{ NULL, 30, label_first, "", "column 2 is the target", "target=COLUMN", NULL, NULL },
	{ "label,a,b", 30, label_first, ",target=label", NULL, NULL, NULL, NULL },
	/* a column whose name says that it is the target */
	{ "Class,a,b", 30, label_last, "", NULL, NULL,
	    "the target is column 'b', the last one; if it is 'Class', add target=Class", NULL },
	{ "Class,a,b", 30, label_last, ",target=b", NULL, NULL, NULL, NULL },
	{ "y,a,label", 30, label_last, "", NULL, NULL, NULL, NULL },
	{ "y,a,b", 30, label_last, ",skip=y", NULL, NULL, NULL, NULL },
	/* whole numbers as targets */
	{ "a,price", 300, prices, "", NULL, NULL, NULL,
	    "250 different whole numbers, from 5000 to 29900, in 300 samples: regression, as with "
	    "task=regression" },
	{ "a,age", 300, ages, "", NULL, NULL, NULL, "task=regression" },
	{ "a,n", 100, one_class_each, "", NULL, NULL, NULL, "task=regression" },
	{ "a,n", 20, one_class_each, "", NULL, NULL, NULL, "the first row names the columns" },
	{ "a,n", 400, hundred_classes, "", NULL, NULL, NULL, "the first row names the columns" },
	{ "a,quality", 30, wine, "", NULL, NULL, NULL, "the first row names the columns" },
	{ "a,code", 30, sparse, "",
	    "column 'code': 3 different whole numbers from 10 to 3000 are too far apart",
	    "task=regression predicts the number; for 3 classes, number them from 0 to 2", NULL,
	    NULL },
	{ "a,code", 30, sparse, ",task=classification", NULL, NULL, NULL, NULL },
	{ "a,sign", 30, signs, "", "the target '-1' is out of range", "task=regression", NULL,
	    NULL },
	/* words */
	{ "a,name,b", 40, names, "",
	    "column 'name' has 40 different words in 40 rows, such as 'name0'",
	    "skip=name leaves the column out; categories=name", NULL, NULL },
	{ "a,name,b", 40, names, ",categories=name", NULL, NULL, NULL, NULL },
	{ "a,name,b", 40, names, ",skip=name", NULL, NULL, NULL, NULL },
	{ "a,name,b", 19, names, "", NULL, NULL, NULL, NULL },
	{ "a,b,name", 40, word_classes, "",
	    "column 'name', the target, has 40 different classes in 40 rows", "target=COLUMN", NULL,
	    NULL },
	{ "a,b,name", 40, word_classes, ",task=classification", NULL, NULL, NULL, NULL },
	/* numbers in other forms */
	{ "n,a,k", 30, thousands, "", "column 'n': '1,000' is not a number",
	    "a decimal comma (decimal=comma), without other signs; categories=n", NULL, NULL },
	{ NULL, 30, thousands, "", "column 0: '1,000' is not a number", "categories=0", NULL,
	    NULL },
	{ "n,a,k", 30, thousands, ",decimal=comma", NULL, NULL, NULL, NULL },
	{ "n,a,k", 30, thousands, ",categories=n", NULL, NULL, NULL, NULL },
	{ "n,k", 30, mixed_thousands, "", "line 3, column 'n': '1,001' is not a number",
	    "decimal=comma", NULL, NULL },
	{ "n,a,k", 5, per_cent, "", "column 'n': '0%' is not a number",
	    "write numbers as digits with a decimal point", NULL, NULL },
	{ "n,price", 60, euros, "",
	    "column 'price': the target '\xE2\x82\xAC"
	    "0.50' is not a number",
	    "without other signs", NULL, NULL },
	{ "day,a,k", 30, dates, "", NULL, NULL, NULL, "column 'day' has categories (6 words)" },
	{ "n,a,k", 30, both_signs, "", "column 'n': '1.000,0' is not a number",
	    "without other signs", NULL, NULL },
	{ "x;y;k", 30, decimal_comma, ",sep=;", NULL, NULL, NULL,
	    "numbers have a decimal comma, as with decimal=comma" },
	{ NULL, 30, decimal_comma, ",sep=;", NULL, NULL, NULL, "decimal=comma" },
	{ NULL, 30, decimal_comma, ",sep=;,decimal=point", "column 0: '0,1' is not a number",
	    "decimal=comma", NULL, NULL },
	{ "x;y;k", 30, comma_and_point, ",sep=;", "column 'x': '0,1' is not a number",
	    "decimal=comma", NULL, NULL },
	{ "x;k", 1300, late_point, ",sep=;", "line 1202, column 'x': '0.4' is not a number",
	    "or a decimal comma (decimal=comma)", NULL, NULL },
	{ "x\tk", 30, comma_target, ",sep=tab", NULL, NULL, NULL, "the target has fractions" },
	{ "x,k", 30, quoted_comma, "", NULL, NULL, NULL, "decimal=comma" },
	/* columns that number the rows */
	{ ",a,k", 30, indexed, "", NULL, NULL,
	    "column 0 seems to number the rows, but is used as a feature: skip=0", NULL },
	{ ",a,k", 30, shuffled, "", NULL, NULL,
	    "column 0 seems to number the rows, but is used as a feature: skip=0", NULL },
	{ "b,a,k", 30, shuffled, "", NULL, NULL, NULL, NULL },
	{ "ID,a,k", 30, indexed, "", NULL, NULL,
	    "column 'ID' seems to number the rows, but is used as a feature: skip=ID", NULL },
	{ "PassengerId,a,k", 30, indexed, "", NULL, NULL, "skip=PassengerId", NULL },
	{ "ID,a,k", 30, indexed, ",skip=ID", NULL, NULL, NULL, NULL },
	{ "day,a,k", 30, indexed, "", NULL, NULL, NULL, NULL },
	{ "a_id,b,k", 30, label_last, "", NULL, NULL, NULL, NULL },
	/* separators */
	{ "\"x\";\"k\"", 3, bad_header, "", "line 1: field 1 goes on after its closing quote",
	    "if a semicolon separates the fields, add sep=semicolon", NULL, NULL },
	{ "x\tk", 30, comma_target, ",sep=bar", "the rows have 1 field",
	    "if a tab separates the fields, add sep=tab", NULL, NULL },
};

static void check_table(const struct fixture *f, size_t at)
{
	const struct table *c = &tables[at];
	const struct gt_data_request request = { .fit = true };
	const struct gt_data_info *info;
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;
	FILE *file = create(f, "t.csv");
	char spec[512];

	if (c->header)
		fprintf(file, "%s\n", c->header);
	for (int i = 0; i < c->rows; i++)
		c->row(file, i);
	assert_int_equal(fclose(file), 0);
	snprintf(spec, sizeof(spec), "csv:%s%s", in(f, "t.csv"), c->options);
	if (gt_dataset_open(&data, spec, &request, &err)) {
		if (!c->error || !strstr(err.text, c->error) || !strstr(err.hint, c->hint))
			fail_msg("case %zu: '%s'\n'%s'", at, err.text, err.hint);
		return;
	}
	info = gt_dataset_info(data);
	if (c->error)
		fail_msg("case %zu: no error '%s'", at, c->error);
	if (c->note ? !info->note || !strstr(info->note, c->note) : info->note != NULL)
		fail_msg("case %zu: warning '%s'", at, info->note);
	if (c->reading && (!info->interpretation || !strstr(info->interpretation, c->reading)))
		fail_msg("case %zu: '%s'", at, info->interpretation);
	gt_dataset_close(data);
}

static void odd_tables_are_named(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		check_table(&f, i);
	fixture_close(&f);
}

/* The same numbers, with a point and with a comma, are the same samples. */
static void a_decimal_comma_is_read(void **state)
{
	static const char *const texts[] = { "x;k\n0.25;a\n1.5e3;b\n-7;a\n.5;b\n",
		"x;k\n0,25;a\n1,5e3;b\n-7;a\n,5;b\n" };
	const struct gt_draw draw = { 0 };
	float samples[2][4];
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (int i = 0; i < 2; i++) {
		struct gt_dataset *data;

		put_text(&f, "t.csv", texts[i]);
		data = open_data("csv", in(&f, "t.csv"), ",sep=;", NULL);
		assert_int_equal(gt_dataset_fit(data, NULL), 0);
		for (int k = 0; k < 4; k++) {
			int32_t target;

			assert_int_equal(
			    gt_dataset_read(data, k, &draw, &samples[i][k], &target, NULL), 0);
			assert_int_equal(target, k % 2);
		}
		gt_dataset_close(data);
	}
	assert_memory_equal(samples[0], samples[1], sizeof(samples[0]));
	fixture_close(&f);
}

/* ---- files that are not plain text in UTF-8 ---- */

static const struct {
	const char *bytes;
	size_t size;
	const char *error, *hint;
} files[] = {
	{ "\xFF\xFE"
	  "a\0,\0b\0\n\0",
	    10, "text in UTF-16", "iconv -f UTF-16 -t UTF-8" },
	{ "\xFE\xFF"
	  "\0a\0,\0b\0\n",
	    10, "text in UTF-16", "iconv" },
	{ "1\0,\0002\0\n\0003\0,\0004\0\n\0", 16, "a zero byte, as in text in UTF-16", "iconv" },
	{ "PK\x03\x04....", 8, "a zip archive, such as an Excel workbook (.xlsx) or NumPy's .npz",
	    "save the sheet" },
	{ "BZh9....", 8, "compressed by bzip2", "bunzip2" },
	{ "\x28\xB5\x2F\xFD....", 8, "compressed by zstd", "unzstd" },
	{ "PAR1....", 8, "a Parquet file", "pandas" },
	{ "1,2\n3,\0\n", 8, "line 2 has a zero byte", "iconv" },
	{ "1,2\n3,caf\xE9\n", 11, "line 2 is not UTF-8: byte 0xE9", "iconv -f latin1 -t utf-8" },
};

static void other_files_are_named(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		char spec[512];

		put_bytes(&f, "t.csv", files[i].bytes, files[i].size);
		snprintf(spec, sizeof(spec), "csv:%s", in(&f, "t.csv"));
		assert_int_equal(gt_dataset_open(&data, spec, NULL, &err), GT_EFORMAT);
		if (!strstr(err.text, files[i].error) || !strstr(err.hint, files[i].hint))
			fail_msg("case %zu: '%s'\n'%s'", i, err.text, err.hint);
	}
	fixture_close(&f);
}

/* A table compressed by gzip is read; one that was cut is an error, and so is one that takes more
 * memory than there may be. */
static void gzip_is_read(void **state)
{
	static char text[3 << 20];
	struct gt_data_request request = { 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_dataset *data;
	size_t size = 0;
	struct fixture f;
	char spec[512];

	(void)state;
	fixture_open(&f);
	for (int i = 0; i < 200000; i++)
		size += (size_t)snprintf(text + size, 16, "%d,%d\n", i, i % 3);
	put_gz(&f, "t.csv.gz", text, size);
	data = open_data("csv", in(&f, "t.csv.gz"), "", NULL);
	assert_int_equal(gt_dataset_info(data)->samples, 200000);
	assert_int_equal(gt_dataset_info(data)->form.classes, 3);
	gt_dataset_close(data);
	snprintf(spec, sizeof(spec), "csv:%s", in(&f, "t.csv.gz"));
	request.memory_bytes = 2 << 20;
	assert_int_equal(gt_dataset_open(&data, spec, &request, &err), GT_ENOMEM);
	cut_file(&f, "t.csv.gz", 20);
	assert_int_equal(gt_dataset_open(&data, spec, NULL, &err), GT_EFORMAT);
	assert_non_null(strstr(err.text, "truncated gzip data"));
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(odd_tables_are_named),
		cmocka_unit_test(a_decimal_comma_is_read),
		cmocka_unit_test(other_files_are_named),
		cmocka_unit_test(gzip_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
