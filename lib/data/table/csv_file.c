/* csv_file.c - the bytes of a table: from a file, a gzip file, or standard input. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/data/core/byte_stream.h"
#include "lib/data/table/csv.h"

enum { MAX_STDIN_BYTES = 1 << 30, INFLATE_BYTES = 1 << 20 };

/* ---- files that are no text in UTF-8 ---- */

/* The first bytes of files that people take for tables. */
static const struct {
	const char *bytes;
	size_t size;
	const char *name, *hint;
} others[] = {
	{ "\xFF\xFE", 2, "text in UTF-16 (\"Unicode text\" of Excel)", NULL },
	{ "\xFE\xFF", 2, "text in UTF-16 (\"Unicode text\" of Excel)", NULL },
	{ "PK\x03\x04", 4, "a zip archive, such as an Excel workbook (.xlsx)",
	    "save the sheet as CSV in UTF-8, or unpack the archive" },
	{ "\xD0\xCF\x11\xE0", 4, "an Excel workbook (.xls)", "save the sheet as CSV in UTF-8" },
	{ "PAR1", 4, "a Parquet file", "convert it to CSV, for example with pandas" },
	{ "\x1F\x8B", 2, "compressed by gzip", "unpack it: gunzip FILE" },
	{ "BZh", 3, "compressed by bzip2", "unpack it: bunzip2 FILE" },
	{ "\xFD"
	  "7zXZ",
	    5, "compressed by xz", "unpack it: unxz FILE" },
	{ "\x28\xB5\x2F\xFD", 4, "compressed by zstd", "unpack it: unzstd FILE" },
	{ "SQLite format 3", 15, "an SQLite database",
	    "export a table: sqlite3 -header -csv FILE 'select * from TABLE' > NEW" },
};

static int fail_utf16(const char *name, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "the file is %s, but tables are read in UTF-8", name);
	return gt_err_hint(err, "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW");
}

/* Whether the text looks like UTF-16 without a byte order mark: every other byte is 0. */
static bool is_utf16(const unsigned char *p, size_t size)
{
	size_t n = size < 64 ? size / 2 * 2 : 64, zeros[2] = { 0, 0 };

	for (size_t i = 0; i < n; i++)
		zeros[i % 2] += !p[i];
	return n >= 8 && (zeros[0] > n / 3 || zeros[1] > n / 3) && !(zeros[0] && zeros[1]);
}

static int check_text(const unsigned char *p, size_t size, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		if (size < others[i].size || memcmp(p, others[i].bytes, others[i].size) != 0)
			continue;
		if (!others[i].hint)
			return fail_utf16(others[i].name, err);
		gt_err_set(err, GT_EFORMAT, "the file is no table but %s", others[i].name);
		return gt_err_hint(err, "%s", others[i].hint);
	}
	return is_utf16(p, size) ? fail_utf16("text in UTF-16", err) : 0;
}

/* ---- gzip ---- */

/* The whole text, which the caller frees. Its size is known only at the end, so the memory grows
 * with the bytes that are there. */
static int inflate_all(const struct gt_csv_table *t, struct gt_byte_stream *s, unsigned char **out,
    size_t *size, struct gt_err *err)
{
	size_t capacity = 0;
	uint64_t got;
	int rc;

	do {
		rc = gt_data_check_memory(
		    t->request, 2 * ((uint64_t)*size + INFLATE_BYTES), "the inflated table", err);
		while (!rc && capacity < *size + INFLATE_BYTES)
			rc = gt_grow(out, capacity, &capacity, 1, err);
		if (!rc)
			rc = gt_byte_stream_read(s, *out + *size, INFLATE_BYTES, &got, err);
		if (!rc)
			*size += got;
	} while (!rc && got == INFLATE_BYTES);
	return rc;
}

static int read_stream(struct gt_csv_table *t, struct gt_byte_stream *s, struct gt_err *err)
{
	unsigned char *inflated = NULL;
	const unsigned char *bytes;
	size_t size = 0;
	int rc = 0;

	bytes = gt_byte_stream_bytes(s, &size);
	if (gt_byte_stream_is_gzip(s)) {
		rc = inflate_all(t, s, &inflated, &size, err);
		bytes = inflated;
	}
	if (!rc)
		rc = check_text(bytes, size, err);
	if (!rc)
		rc = gt_csv_read_rows(t, (const char *)bytes, size, err);
	free(inflated);
	return rc;
}

/* ---- all sources ---- */

static int read_stdin(struct gt_csv_table *t, struct gt_err *err)
{
	void *bytes = NULL;
	size_t size = 0;
	int rc = gt_read_to_end(&bytes, &size, STDIN_FILENO, MAX_STDIN_BYTES, err);

	if (!rc)
		rc = check_text(bytes, size, err);
	if (!rc)
		rc = gt_csv_read_rows(t, bytes, size, err);
	free(bytes);
	return rc ? gt_err_prefix(err, "standard input") : 0;
}

int gt_csv_read_file(struct gt_csv_table *t, const char *path, struct gt_err *err)
{
	struct gt_byte_stream *s;
	int rc;

	t->path = path;
	if (t->request->inputs && !strcmp(path, "-"))
		return read_stdin(t, err);
	rc = gt_byte_stream_open(&s, path, err);
	if (rc)
		return rc;
	rc = read_stream(t, s, err);
	gt_byte_stream_close(s);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}
