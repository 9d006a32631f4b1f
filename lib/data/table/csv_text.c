/* csv_text.c - the text of a table, from a file, a gzip file, or standard input. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/data/core/byte_stream.h"
#include "lib/data/table/csv.h"

enum { MAX_STDIN_BYTES = 1 << 30, INFLATE_BYTES = 1 << 20 };

/* ---- files that are no text in UTF-8 ---- */

#define UTF16      "text in UTF-16 (\"Unicode text\" of Excel)"
#define UTF16_HINT "convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW"

/* The first bytes of files that people take for tables. */
static const struct {
	const char *bytes;
	size_t size;
	const char *name, *hint;
} others[] = {
	{ "\xFF\xFE", 2, UTF16, UTF16_HINT },
	{ "\xFE\xFF", 2, UTF16, UTF16_HINT },
	{ "PK\x03\x04", 4, "a zip archive, such as an Excel workbook (.xlsx) or NumPy's .npz",
	    "save the sheet as CSV in UTF-8, unpack the archive, or write the array: "
	    "numpy.savetxt('rows.csv', x, delimiter=',')" },
	{ "\x93NUMPY", 6, "an array of NumPy (.npy)",
	    "write it as CSV: numpy.savetxt('rows.csv', x, delimiter=',')" },
	{ "\xD0\xCF\x11\xE0", 4, "an Excel workbook (.xls)", "save the sheet as CSV in UTF-8" },
	{ "PAR1", 4, "a Parquet file", "convert it to CSV, for example with pandas" },
	{ "\x1F\x8B", 2, "compressed by gzip", "unpack it: gunzip FILE" },
	{ "BZh", 3, "compressed by bzip2", "unpack it: bunzip2 FILE" },
	{ "\xFD\x37zXZ", 5, "compressed by xz", "unpack it: unxz FILE" },
	{ "\x28\xB5\x2F\xFD", 4, "compressed by zstd", "unpack it: unzstd FILE" },
	{ "SQLite format 3", 15, "an SQLite database",
	    "export a table: sqlite3 -header -csv FILE 'select * from TABLE' > NEW" },
};

/* Fail for a byte that no text in UTF-8 has at this place. */
static int fail_byte(const struct gt_csv_text *text, size_t place, struct gt_err *err)
{
	long line = 1;

	for (size_t i = 0; i < place; i++)
		line += text->at[i] == '\n';
	if (!text->at[place]) {
		gt_err_set(err, GT_EFORMAT, "line %ld has a zero byte, as in text in UTF-16", line);
		return gt_err_hint(err, "if it is UTF-16, " UTF16_HINT);
	}
	gt_err_set(err, GT_EFORMAT, "line %ld is not UTF-8: byte 0x%02X", line,
	    (unsigned char)text->at[place]);
	return gt_err_hint(
	    err, "if it is Latin-1, convert it: iconv -f latin1 -t utf-8 FILE > NEW");
}

static int check_text(const struct gt_csv_text *text, struct gt_err *err)
{
	/* Zeros first: a file may be a hole of any size. */
	const char *zero = memchr(text->at, '\0', text->size);
	size_t valid = gt_text_utf8_bytes(text->at, zero ? (size_t)(zero - text->at) : text->size);

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (text->size >= others[i].size &&
		    !memcmp(text->at, others[i].bytes, others[i].size)) {
			gt_err_set(err, GT_EFORMAT, "the file is no table but %s", others[i].name);
			return gt_err_hint(err, "%s", others[i].hint);
		}
	return valid < text->size ? fail_byte(text, valid, err) : 0;
}

/* ---- reading ---- */

/* Inflate a gzip file. Its size is known only at the end, so the memory grows with the bytes. */
static int inflate_text(
    struct gt_csv_text *text, const struct gt_data_request *request, struct gt_err *err)
{
	size_t capacity = 0;

	for (uint64_t got = INFLATE_BYTES; got == INFLATE_BYTES; text->size += got) {
		if (capacity < text->size + INFLATE_BYTES) {
			void *grown;

			capacity = 2 * (text->size + INFLATE_BYTES);
			if (gt_data_check_memory(request, capacity, "the inflated table", err))
				return err->code;
			grown = gt_reallocarray(text->owned, capacity, 1, err);
			if (!grown)
				return GT_ENOMEM;
			text->owned = grown;
		}
		if (gt_byte_stream_read(
		        text->stream, (char *)text->owned + text->size, INFLATE_BYTES, &got, err))
			return err->code;
	}
	text->at = text->owned;
	return 0;
}

int gt_csv_text_read(
    struct gt_csv_text *text, const struct gt_data_request *request, struct gt_err *err)
{
	int rc = 0;

	if (!text->stream) {
		rc = gt_read_to_end(&text->owned, &text->size, STDIN_FILENO, MAX_STDIN_BYTES, err);
		text->at = text->owned;
	} else if (gt_byte_stream_is_gzip(text->stream)) {
		rc = inflate_text(text, request, err);
	} else {
		text->at = (const char *)gt_byte_stream_bytes(text->stream, &text->size);
	}
	if (!text->size)
		text->at = "";
	if (!rc)
		rc = check_text(text, err);
	if (!rc && text->size >= 3 && !memcmp(text->at, "\xEF\xBB\xBF", 3)) { /* byte order mark */
		text->at += 3;
		text->size -= 3;
	}
	return rc;
}

void gt_csv_text_close(struct gt_csv_text *text)
{
	if (text->stream)
		gt_byte_stream_close(text->stream);
	free(text->owned);
	*text = (struct gt_csv_text){ 0 };
}
