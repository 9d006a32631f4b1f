/* csv_text.h - private: the text of a table, from a file, a gzip file, or standard input. */
#ifndef GT_DATA_TABLE_CSV_TEXT_H
#define GT_DATA_TABLE_CSV_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/data/core/data.h"

struct gt_byte_stream;

/* A text in memory, which is UTF-8 without zero bytes. Zero it before it is opened. */
struct gt_csv_text {
	const char *at; /* [size] without a byte order mark */
	size_t size;
	struct gt_byte_stream *stream; /* the file, which has the bytes unless `owned` has them */
	void *owned;                   /* bytes of standard input or of a gzip file; or NULL */
};

/* Read a text, or fail if it is no text in UTF-8. The errors name the path. */
int gt_csv_text_open(struct gt_csv_text *out, const char *path, bool is_stdin,
    const struct gt_data_request *request, struct gt_err *err);
/* Release it, also after a failure. */
void gt_csv_text_close(struct gt_csv_text *text);
/* Add the name of the text to an error, and return the error's code. */
int gt_csv_text_prefix(const char *path, bool is_stdin, struct gt_err *err);

#endif
