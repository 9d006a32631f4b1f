/* test_ckpt_scan.c - verify names the dangerous global of pickles and zips that break rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "lib/base/buf.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/tools/verify.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static char path[] = "/tmp/gtrain-scan-XXXXXX";

static int set_up(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 || close(fd);
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(path);
}

static void verify(struct gt_verify *v, const void *bytes, size_t size)
{
	struct gt_err err = GT_ERR_INIT;
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
	if (gt_verify(v, path, 1, NULL, &err))
		fail_msg("%s", err.text);
}

static const struct gt_verify_global *find(const struct gt_verify *v, const char *name)
{
	for (size_t i = 0; i < v->global_count; i++)
		if (!strcmp(v->globals[i].name, name))
			return &v->globals[i];
	return NULL;
}

static const char *find_text(const struct gt_verify *v, const char *part)
{
	for (size_t i = 0; i < v->finding_count; i++)
		if (strstr(v->findings[i].text, part))
			return v->findings[i].text;
	return NULL;
}

/* ---- pickles ---- */

#define BYTES(text) text, sizeof(text) - 1

/* Every pickle here would run its call, or import its global, before Python fails at the rest. */
static const struct {
	const char *name, *bytes;
	size_t size;
	bool called;
	const char *global; /* NULL: none may be found */
} pickles[] = {
	{ "without PROTO", BYTES("cos\nsystem\n(S'x'\ntR."), true, "os.system" },
	{ "a call without a tuple", BYTES("cos\nsystem\nNR."), true, "os.system" },
	{ "a memo of far indices", BYTES("Vos\np7\n0Vsystem\np3\n0g7\ng3\n\x93(Vx\ntR."), true,
	    "os.system" },
	{ "indices as int() takes them", BYTES("Vos\np 7 \n0Vsystem\np+3\n0g7\ng3\n\x93)R."), true,
	    "os.system" },
	{ "a memo written with MEMOIZE beyond a gap",
	    BYTES("Vos\np5\n0Vsystem\n\x94"
	          "0h\5h\1\x93)R."),
	    true, "os.system" },
	{ "a string with escapes", BYTES("S'o\\x73'\nS'sys\\164em'\n\x93)R."), true, "os.system" },
	{ "a text with escapes", BYTES("V\\u006fs\nVsystem\n\x93)R."), true, "os.system" },
	{ "a number that is none", BYTES("Iabc\ncos\nsystem\n)R."), true, "os.system" },
	{ "text that is not UTF-8",
	    BYTES("X\1\0\0\0\xff"
	          "cos\nsystem\n)R."),
	    true, "os.system" },
	{ "an unknown protocol",
	    BYTES("\x80\x09"
	          "cos\nsystem\n)R."),
	    true, "os.system" },
	{ "a frame that lies",
	    BYTES("\x80\4\x95\xff\xff\0\0\0\0\0\0"
	          "cos\nsystem\n)R."),
	    true, "os.system" },
	{ "a frame in a frame",
	    BYTES("\x80\4\x95\4\0\0\0\0\0\0\0\x95\1\0\0\0\0\0\0\0"
	          "cos\nsystem\n)R."),
	    true, "os.system" },
	{ "a persistent id as text", BYTES("Pid\n0cos\nsystem\n)R."), true, "os.system" },
	{ "a registered class",
	    BYTES("\x82\1"
	          "0cos\nsystem\n)R."),
	    true, "os.system" },
	{ "a buffer elsewhere",
	    BYTES("\x97\x98"
	          "0cos\nsystem\n)R."),
	    true, "os.system" },
	{ "a state for a number", BYTES("I1\nNbcos\nsystem\n)R."), true, "os.system" },
	{ "an item for a number", BYTES("I1\nNacos\nsystem\n)R."), true, "os.system" },
	{ "a dict of one", BYTES("(I1\ndcos\nsystem\n)R."), true, "os.system" },
	{ "an argument that is cut", BYTES("cbuiltins\nexec\n(X>\nf = open()"), false,
	    "builtins.exec" },
	{ "no STOP", BYTES("cos\nsystem\n)R"), true, "os.system" },
	{ "INST", BYTES("(ios\nsystem\n."), true, "os.system" },
	{ "OBJ", BYTES("(cos\nsystem\no."), true, "os.system" },
	{ "NEWOBJ_EX",
	    BYTES("\x80\4"
	          "cos\nsystem\n)}\x92."),
	    true, "os.system" },
	{ "the second of two", BYTES("I1\n.cos\nsystem\n)R."), true, "os.system" },
	{ "a pickle in a long string of one that breaks",
	    BYTES("\x80\4"
	          "B\x10\0\0\0"
	          "cos\nsystem\n)R.  \xff"),
	    true, "os.system" },
	{ "a global behind a wrong one", BYTES("cno\n\n)R.cos\nsystem\n)R."), false, NULL },
	{ "a stack that is empty", BYTES("0cos\nsystem\n)R."), false, NULL },
	{ "a memo that is empty", BYTES("h\0cos\nsystem\n)R."), false, NULL },
	{ "text", BYTES("cos and sin\n(1.\nvalues of a curve\n)R."), false, NULL },
};

static void test_prefixes(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(pickles); i++) {
		const struct gt_verify_global *g;
		struct gt_verify v;

		verify(&v, pickles[i].bytes, pickles[i].size);
		g = pickles[i].global ? find(&v, pickles[i].global) : NULL;
		if (!pickles[i].global && v.kinds[GT_FINDING_GLOBAL])
			fail_msg("%s: %s is found", pickles[i].name, v.globals[0].name);
		if (pickles[i].global && (!g || !g->dangerous || g->called != pickles[i].called ||
		                             !v.kinds[GT_FINDING_GLOBAL]))
			fail_msg("%s: %s", pickles[i].name, g ? "another verdict" : "not found");
		gt_verify_release(&v);
	}
}

/* Attributes of a module, set before a name of it is looked up. */
static void test_changed(void **state)
{
	static const char pickle[] = "\x80\4"
	                             "Vjson\nVtool\n\x93}Vx\nVy\nsb.";
	const struct gt_verify_global *g;
	struct gt_verify v;

	(void)state;
	verify(&v, pickle, sizeof(pickle) - 1);
	g = find(&v, "json.tool");
	assert_non_null(g);
	assert_true(g->changed && g->dangerous);
	assert_non_null(find_text(&v, "sets attributes"));
	gt_verify_release(&v);
}

/* A line of 300 MiB, in a file that is a hole but for its start. */
static void test_long_line(void **state)
{
	struct gt_verify v;
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	verify(&v, "cos\nsystem\n0V", 13);
	gt_verify_release(&v);
	assert_int_equal(truncate(path, 300 << 20), 0);
	assert_int_equal(gt_verify(&v, path, 1, NULL, &err), 0);
	assert_non_null(find(&v, "os.system"));
	assert_non_null(find_text(&v, "larger than gtrain follows"));
	gt_verify_release(&v);
}

/* ---- zips ---- */

static const char evil[] = "\x80\2"
                           "cos\nsystem\n)R.";

/* A zip of one record. Where the local header and the directory differ, the former comes first. */
struct zip {
	const char *prefix; /* bytes before it */
	const char *names[2];
	unsigned flags[2], methods[2];
	int sizes[2]; /* added to the right ones */
	bool deflated, two_directories, two_ends, cut;
};

static void put_fields(
    struct gt_buf *b, const struct zip *z, bool central, uint32_t crc, size_t packed, size_t size)
{
	const char *name = z->names[central] ? z->names[central] : z->names[0];

	gt_buf_add_le(b, z->flags[central], 2);
	gt_buf_add_le(b, z->methods[central], 2);
	gt_buf_add_le(b, 0, 4);
	gt_buf_add_le(b, crc, 4);
	gt_buf_add_le(b, (uint64_t)((int64_t)packed + z->sizes[central]), 4);
	gt_buf_add_le(b, (uint64_t)((int64_t)size + z->sizes[central]), 4);
	gt_buf_add_le(b, strlen(name), 2);
	gt_buf_add_le(b, 0, 2);
}

static void put_directory(
    struct gt_buf *b, const struct zip *z, uint32_t crc, size_t packed, size_t header)
{
	const char *name = z->names[1] ? z->names[1] : z->names[0];

	gt_buf_add(b, "PK\1\2\24\0\24\0", 8);
	put_fields(b, z, true, crc, packed, sizeof(evil) - 1);
	gt_buf_add_le(b, 0, 6);
	gt_buf_add_le(b, 0, 4);
	gt_buf_add_le(b, header, 4);
	gt_buf_add(b, name, strlen(name));
}

static void put_end(struct gt_buf *b, size_t start, size_t bytes, size_t comment)
{
	gt_buf_add(b, "PK\5\6\0\0\0\0\1\0\1\0", 12);
	gt_buf_add_le(b, bytes, 4);
	gt_buf_add_le(b, start, 4);
	gt_buf_add_le(b, comment, 2);
}

static size_t pack(unsigned char *out, size_t size, bool deflated)
{
	z_stream z = { .next_out = out,
		.avail_out = (uInt)size,
		.next_in = (Bytef *)(uintptr_t)evil,
		.avail_in = sizeof(evil) - 1 };

	if (!deflated) {
		memcpy(out, evil, sizeof(evil) - 1);
		return sizeof(evil) - 1;
	}
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return z.total_out;
}

static void build(struct gt_buf *b, const struct zip *z)
{
	unsigned char packed[256];
	size_t size = pack(packed, sizeof(packed), z->deflated), header, start = 0, end = 0;
	uint32_t crc = (uint32_t)crc32(0, (const Bytef *)evil, sizeof(evil) - 1);

	gt_buf_add(b, z->prefix ? z->prefix : "", z->prefix ? strlen(z->prefix) : 0);
	header = b->length;
	gt_buf_add(b, "PK\3\4\24\0", 6);
	put_fields(b, z, false, crc, size, sizeof(evil) - 1);
	gt_buf_add(b, z->names[0], strlen(z->names[0]));
	gt_buf_add(b, packed, size);
	for (int i = 0; i <= z->two_directories; i++) {
		start = b->length;
		put_directory(b, z, crc, size, header);
		end = b->length;
	}
	put_end(b, z->two_directories ? start - (end - start) : start, end - start,
	    z->two_ends ? 22 : 0);
	if (z->two_ends)
		put_end(b, start, end - start, 7);
	if (z->cut)
		b->length -= 30;
}

/* Each is refused, the difference is named, and the global is found that one reader would call. */
static void test_zips(void **state)
{
	static const struct {
		const char *name, *said;
		struct zip zip;
	} cases[] = {
		{ "encrypted, it says", "but its bytes are plain",
		    { .names = { "a/data.pkl" }, .flags = { 1, 1 } } },
		{ "strongly", "but its bytes are plain",
		    { .names = { "a/data.pkl" }, .flags = { 0x40, 0x40 } } },
		{ "deflated and encrypted", "but its bytes are plain",
		    { .names = { "a/data.pkl" },
		        .flags = { 1, 1 },
		        .methods = { 8, 8 },
		        .deflated = true } },
		{ "encrypted in one place", "is encrypted",
		    { .names = { "a/data.pkl" }, .flags = { 0, 1 } } },
		{ "two names", "another name than the directory",
		    { .names = { "a/x", "a/data.pkl" } } },
		{ "two methods", "another method than the directory",
		    { .names = { "a/data.pkl" }, .methods = { 0, 8 }, .deflated = true } },
		{ "two methods, the other way", "another method than the directory",
		    { .names = { "a/data.pkl" }, .methods = { 8, 0 } } },
		{ "two sizes", "another size than the directory",
		    { .names = { "a/data.pkl" }, .sizes = { -9, 0 } } },
		{ "no size", "another size than the directory",
		    { .names = { "a/data.pkl" }, .sizes = { 0, -14 } } },
		{ "two directories", "does not end at byte",
		    { .names = { "a/data.pkl" }, .two_directories = true } },
		{ "two end records", "two end records",
		    { .names = { "a/data.pkl" }, .two_ends = true } },
		{ "no end record", "cut", { .names = { "a/data.pkl" }, .cut = true } },
		{ "behind a pickle", "a zip archive of 1 record begins at byte 4",
		    { .prefix = "I1\n.", .names = { "a/data.pkl" } } },
		{ "behind text", "a zip archive of 1 record begins at byte 5",
		    { .prefix = "#!sh\n", .names = { "a/data.pkl" } } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct gt_verify_global *g;
		struct gt_buf b = { 0 };
		struct gt_verify v;

		build(&b, &cases[i].zip);
		verify(&v, b.text, b.length);
		g = find(&v, "os.system");
		if (!g || !g->called)
			fail_msg("%s: the call is not found", cases[i].name);
		if (!find_text(&v, cases[i].said) || !v.kinds[GT_FINDING_GLOBAL])
			fail_msg("%s: '%s' is not said, but '%s'", cases[i].name, cases[i].said,
			    v.findings[0].text);
		gt_verify_release(&v);
		free(b.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_zips),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
