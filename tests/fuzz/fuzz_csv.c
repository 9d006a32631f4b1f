/* fuzz_csv.c - fuzz target: a separator and a table, which is read, written anew and read again. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/table/csv_reader.h"
#include "tests/fuzz/fuzz.h"

/* The table as it is written: each field in quotes. */
struct text {
	char *at;
	size_t used, capacity;
};

static void put(struct text *t, char c)
{
	if (t->used == t->capacity) {
		t->capacity = t->capacity ? 2 * t->capacity : 256;
		t->at = realloc(t->at, t->capacity);
		fuzz_require(t->at);
	}
	t->at[t->used++] = c;
}

static void put_row(struct text *t, const struct gt_csv_reader *r)
{
	for (size_t i = 0; i < r->count; i++) {
		if (i)
			put(t, r->separator);
		put(t, '"');
		for (const char *p = r->fields[i]; *p; p++) {
			put(t, *p);
			if (*p == '"')
				put(t, '"');
		}
		put(t, '"');
	}
	put(t, '\n');
}

/* Lines count upwards, and a row ends before the bytes do. */
static void check_row(const struct gt_csv_reader *r, long before)
{
	fuzz_require(r->count > 0 && r->at <= r->end);
	fuzz_require(r->line > before && r->next_line >= r->line);
}

/* Whether two readers have the same fields in their rows. */
static void compare(const struct gt_csv_reader *a, const struct gt_csv_reader *b)
{
	fuzz_require(a->count == b->count);
	for (size_t i = 0; i < a->count; i++)
		fuzz_require(!strcmp(a->fields[i], b->fields[i]));
}

static struct gt_csv_reader reader(const char *bytes, size_t size, char separator)
{
	return (struct gt_csv_reader){
		.at = bytes, .end = bytes + size, .separator = separator, .next_line = 1
	};
}

void fuzz_csv(const unsigned char *bytes, size_t size)
{
	static const char separators[] = { ',', '\t', ';', '|' };
	char separator = separators[size ? bytes[0] % 4 : 0];
	const char *table = (const char *)bytes + !!size;
	struct gt_csv_reader r = reader(table, size - !!size, separator), again;
	struct gt_err err = GT_ERR_INIT;
	struct text text = { 0 };
	long before = 0;
	int rc;

	while ((rc = gt_csv_next_row(&r, &err)) > 0) {
		check_row(&r, before);
		before = r.line;
		put_row(&text, &r);
	}
	if (rc < 0)
		fuzz_check_error(rc, &err);
	gt_csv_reader_release(&r);
	r = reader(table, size - !!size, separator);
	again = reader(text.at ? text.at : "", text.used, separator);
	while (gt_csv_next_row(&again, &err) > 0) {
		fuzz_require(gt_csv_next_row(&r, &err) > 0);
		compare(&r, &again);
	}
	fuzz_require(again.at == again.end);
	gt_csv_reader_release(&r);
	gt_csv_reader_release(&again);
	free(text.at);
}
