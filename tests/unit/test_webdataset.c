/* test_webdataset.c - archives in the form of WebDataset, and patterns that name many. */
#include "lib/data/core/description.h"
#include "lib/data/core/shard_names.h"
#include "tests/unit/tar_fixture.h"

/* ---- patterns ---- */

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern;
		const char *names; /* divided by blanks; @ is the folder. An error begins with ! */
	} rows[] = {
		{ "a.tar", "a.tar" },
		{ "none.tar", "none.tar" },
		{ "x{0..2}.tar", "x0.tar x1.tar x2.tar" },
		{ "x{08..11}", "x08 x09 x10 x11" },
		{ "x{8..011}", "x008 x009 x010 x011" },
		{ "x{9..11}y", "x9y x10y x11y" },
		{ "x{000..000}", "x000" },
		{ "{0..1}-{a,b}.tar", "0-a.tar 0-b.tar 1-a.tar 1-b.tar" },
		{ "{a,,bc}x", "ax x bcx" },
		{ "{a}x", "ax" },
		{ "{..}x", "..x" },
		{ "{1..x}", "1..x" },
		{ "{0..0000000001}", "0..0000000001" }, /* ten digits are a word */
		{ "@/*.tar", "@/a.tar @/b.tar" },
		{ "@/{b,a}.t?r", "@/b.tar @/a.tar" },
		{ "@/[x].gz", "@/[x].gz" }, /* there is a file of this name */
		{ "@/{0..1}", "@/{0..1}" },
		{ "@/c*.tar", "!there is no file '@/c*.tar'" },
		{ "x{0..2", "!the braces of 'x{0..2' are not closed" },
		{ "x{{0..2}}", "!the braces of" },
		{ "x{3..2}", "!the range '{3..2}' does not go up" },
		{ "{0..999999999}",
		    "!the range '{0..999999999}' does not go up, or has more than" },
		{ "{a}{a}{a}{a}{a}{a}{a}{a}", "aaaaaaaa" },
		{ "{}{}{}{}{}{}{}{}{}", "!a pattern with 9 pairs of braces, 8 at most" },
		{ "{0..300}{0..300}", "!the pattern names more than 65536 files" },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_text(&f, "b.tar", "");
	put_text(&f, "a.tar", "");
	put_text(&f, "[x].gz", "");
	put_text(&f, "{0..1}", "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char pattern[200] = "", found[400] = "", wanted[400] = "", *to;
		struct gt_err err = GT_ERR_INIT;
		struct gt_shard_names names;
		const char *from;

		for (from = rows[i].pattern, to = pattern; *from; from++)
			to += sprintf(
			    to, "%.*s", *from == '@' ? 64 : 1, *from == '@' ? f.folder : from);
		for (from = rows[i].names, to = wanted; *from; from++)
			to += sprintf(
			    to, "%.*s", *from == '@' ? 64 : 1, *from == '@' ? f.folder : from);
		if (gt_shard_names(&names, pattern, &err)) {
			if (*wanted != '!' || !strstr(err.text, wanted + 1))
				fail_msg("%s: '%s'", pattern, err.text);
			continue;
		}
		for (size_t k = 0; k < names.count; k++)
			strcat(strcat(found, k ? " " : ""), names.names[k]);
		assert_string_equal(found, wanted);
		gt_shard_names_release(&names);
	}
	fixture_close(&f);
}

/* ---- samples ---- */

static void add_text(struct archive *a, const char *name, const char *text)
{
	add_entry(a, name, '0', text, strlen(text));
}

static void make_shard(struct archive *a, int number)
{
	a->size = 0;
	add_entry(a, "train/", '5', "", 0);
	add_png(a, "train/000.png", 10 * number);
	add_text(a, "train/000.cls", "2");
	add_text(a, "train/000.json", "{\"text\": \"cls 7\"}");
	add_text(a, "train/001.cls", " 0\r\n"); /* in any order */
	add_text(a, "train/001.txt", "a caption");
	add_png(a, "train/001.PNG", 10 * number + 1);
	add_text(a, "train/notes.json", "{}"); /* no sample */
	add_png(a, "train/.002.png", 9);       /* hidden */
	add_png(a, "train/003.seg.png", 9);    /* something else of the sample */
	add_text(a, "train/003.cls", "1");
	add_png(a, "./train/003.png", 10 * number + 2);
	add_end(a);
}

static void check_shards(struct gt_dataset *data, int shards, const char *front)
{
	static const int classes[] = { 2, 0, 1 };
	static const char *const names[] = { "000.png", "001.PNG", "003.png" };
	char wanted[200];

	assert_int_equal(gt_dataset_info(data)->samples, 3 * shards);
	assert_int_equal(gt_dataset_info(data)->form.height, 5);
	for (int i = 0; i < 3 * shards; i++) {
		check_sample(data, i, i / 3 * 10 + i % 3, classes[i % 3]);
		snprintf(wanted, sizeof(wanted), "%s%d.tar%s/train/%s", front, i / 3,
		    i / 3 == 1 ? ".gz" : "", names[i % 3]);
		assert_string_equal(gt_dataset_sample_name(data, i), wanted);
	}
}

static void test_samples_of_several_shards(void **state)
{
	static struct archive a;
	struct gt_data_description d;
	struct gt_dataset *data;
	char spec[300];
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (int i = 0; i < 3; i++) {
		snprintf(spec, sizeof(spec), "x-%d.tar%s", i, i == 1 ? ".gz" : "");
		make_shard(&a, i);
		if (i == 1)
			put_gz(&f, spec, a.bytes, a.size);
		else
			put_bytes(&f, spec, a.bytes, a.size);
	}
	data = open_data("webdataset", in(&f, "x-[0-9].*"), "", NULL);
	check_shards(data, 3, in(&f, "x-"));
	assert_int_equal(gt_dataset_info(data)->form.classes, 3);
	gt_data_describe(&d, data);
	assert_null(d.class_names);
	gt_dataset_close(data);
	put_text(&f, "names", "\xEF\xBB\xBF\x61nt\nbee\r\ncow\n\xC3\xA9mu");
	snprintf(spec, sizeof(spec), ",classes=%s", in(&f, "names"));
	data = open_data("webdataset", in(&f, "x-0.tar"), spec, NULL);
	check_shards(data, 1, in(&f, "x-"));
	assert_int_equal(gt_dataset_info(data)->form.classes, 4);
	gt_data_describe(&d, data);
	assert_string_equal(d.class_names[0], "ant"); /* a mark before the text is no part of it */
	assert_string_equal(d.class_names[1], "bee");
	assert_string_equal(d.class_names[3], "\xC3\xA9mu");
	gt_dataset_close(data);
	fixture_close(&f);
}

/* Images that are too large to be decoded in advance are read out of their archives. */
static void test_reading_later(void **state)
{
	static struct archive a;
	struct gt_dataset *data;
	uint8_t *pixels = malloc(4096 * 4096 * 3);
	struct fixture f;

	(void)state;
	assert_non_null(pixels);
	fixture_open(&f);
	make_shard(&a, 0);
	put_bytes(&f, "0.tar", a.bytes, a.size);
	make_shard(&a, 4);
	put_gz(&f, "1.tar.gz", a.bytes, a.size);
	data = open_data("webdataset", in(&f, "?.tar*"), ",size=4096", NULL);
	for (int i = 0; i < 6; i += 3) {
		int32_t target;

		assert_int_equal(
		    gt_dataset_read(data, i, &eval_draw, pixels, &target, GT_ERR_IGNORED), 0);
		assert_int_equal(target, 2);
		assert_int_equal(pixels[0], pixel(i ? 40 : 0, 0));
	}
	gt_dataset_close(data);
	free(pixels);
	fixture_close(&f);
}

/* ---- faults of archives ---- */

/* "NAME=TEXT NAME=TEXT ...": files of an archive, an image where the text is IMAGE. */
static void make_files(struct archive *a, const char *files)
{
	char copy[400], *rest, *file;

	a->size = 0;
	snprintf(copy, sizeof(copy), "%s", files);
	for (file = strtok_r(copy, " ", &rest); file; file = strtok_r(NULL, " ", &rest)) {
		char *text = strchr(file, '=');

		*text++ = '\0';
		if (!strcmp(text, "IMAGE"))
			add_png(a, file, 1);
		else
			add_text(a, file, text);
	}
	add_end(a);
}

static void test_wrong_archives(void **state)
{
	static const struct {
		const char *files, *options;
		int code;
		const char *text; /* a part of the error */
	} rows[] = {
		{ "a.jpg=IMAGE", "", GT_EFORMAT, "t.tar/a.jpg' has no .cls file beside it" },
		{ "a.cls=1", "", GT_EFORMAT, "t.tar/a.cls' has no image beside it" },
		{ "a.jpg=IMAGE b.cls=1 a.cls=1 b.png=IMAGE", "", GT_EFORMAT,
		    "t.tar/a.jpg' has no .cls file beside it" },
		{ "a.jpg=IMAGE a.png=IMAGE a.cls=1", "", GT_EFORMAT,
		    "t.tar/a.png' are one sample" },
		{ "a.jpg=IMAGE a.cls=1 a.cls=1", "", GT_EFORMAT, "t.tar/a.cls' are one sample" },
		{ "a.jpg=IMAGE a.cls=cat", "", GT_EFORMAT,
		    "t.tar/a.cls': 'cat' is not the number of a class" },
		{ "a.jpg=IMAGE a.cls=", "", GT_EFORMAT, "'' is not the number of a class" },
		{ "a.jpg=IMAGE a.cls=-1", "", GT_EFORMAT, "'-1' is not the number of a class" },
		{ "a.jpg=IMAGE a.cls=1.0", "", GT_EFORMAT, "'1.0' is not the number" },
		{ "a.jpg=IMAGE a.cls=1048576", "", GT_EFORMAT, "'1048576' is not the number" },
		{ "a.jpg=IMAGE a.cls=99999999999999999999999999999", "", GT_EFORMAT,
		    "is not the number of a class" },
		{ "a.jpg=IMAGE a.cls=123456789012345678901234567890123", "", GT_EFORMAT,
		    "'a.cls' has 33 bytes, more than a class's 32" },
		{ "a.jpg=IMAGE a.cls=2", ",classes=@/names", GT_EFORMAT,
		    "t.tar/a.cls': class 2, but '@/names' has 2 names" },
		{ "a.jpg=IMAGE a.cls=0", ",classes=@/none", GT_EIO, "cannot open '@/none'" },
		{ "a.jpg=IMAGE a.cls=0", ",classes=@/empty", GT_EFORMAT, "'@/empty' is empty" },
		{ "a.jpg=IMAGE a.cls=0", ",classes=@/gap", GT_EFORMAT,
		    "'@/gap', line 2: not the name of a class" },
		{ "a.jpg=IMAGE a.cls=0", ",classes=@/twice", GT_EFORMAT,
		    "'@/twice': the class 'a' is there twice" },
		{ "a.json={} b.txt=x", "", GT_EINVAL, "t.tar' holds no images" },
		{ "a.jpg=IMAGE a.cls=0", ",split=x", GT_EINVAL, "unknown option 'split'" },
		{ "a.png=text a.cls=0", "", GT_EFORMAT,
		    "t.tar/a.png': neither a JPEG, a PNG nor a WebP" },
	};
	static struct archive a;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_text(&f, "names", "a\nb\n");
	put_text(&f, "empty", "");
	put_text(&f, "gap", "a\n\nb\n");
	put_text(&f, "twice", "a\nb\na\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;
		char spec[300], wanted[300], *at;
		int rc;

		make_files(&a, rows[i].files);
		put_bytes(&f, "t.tar", a.bytes, a.size);
		at = strchr(rows[i].options, '@');
		snprintf(spec, sizeof(spec), "webdataset:%s", in(&f, "t.tar"));
		if (at)
			snprintf(spec + strlen(spec), 100, ",classes=%s%s", f.folder, at + 1);
		else
			strcat(spec, rows[i].options);
		at = strchr(rows[i].text, '@');
		if (at)
			snprintf(wanted, sizeof(wanted), "%.*s%s%s", (int)(at - rows[i].text),
			    rows[i].text, f.folder, at + 1);
		else
			strcpy(wanted, rows[i].text);
		rc = gt_dataset_open(&data, spec, NULL, &err);
		if (rc != rows[i].code || !strstr(err.text, wanted))
			fail_msg("%s: %d '%s'\nwanted %d '%s'", rows[i].files, rc, err.text,
			    rows[i].code, wanted);
	}
	fixture_close(&f);
}

/* However a shard is cut, it is refused, not misread. */
static void test_cut_archives(void **state)
{
	static struct archive a;
	struct fixture f;
	char spec[300];

	(void)state;
	fixture_open(&f);
	make_shard(&a, 0);
	snprintf(spec, sizeof(spec), "webdataset:%s", in(&f, "t.tar"));
	for (size_t size = 100; size < a.size - 1024; size += 200) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_dataset *data;

		put_bytes(&f, "t.tar", a.bytes, size);
		assert_int_equal(gt_dataset_open(&data, spec, NULL, &err), GT_EFORMAT);
		assert_non_null(
		    strstr(err.text, size < 512 ? "nor a tar" : "is cut short at byte"));
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_samples_of_several_shards),
		cmocka_unit_test(test_reading_later),
		cmocka_unit_test(test_wrong_archives),
		cmocka_unit_test(test_cut_archives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
