/* bpe_dump.c - texts to ids and back, for the script that compares with tokenizers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/bpe/bpe.h"

/* A length or count, then the counted items; NULL at the end. */
static void *read_block(size_t size, uint32_t *count)
{
	char *block;

	if (fread(count, sizeof(*count), 1, stdin) != 1)
		return NULL;
	block = malloc(*count * size + 1);
	if (!block || fread(block, size, *count, stdin) != *count)
		exit(1);
	return block;
}

struct answer {
	int32_t *ids;
	uint32_t count;
};

static int collect(void *self, const int32_t *ids, size_t count, struct gt_err *err)
{
	struct answer *a = self;

	(void)err;
	a->ids = realloc(a->ids, (a->count + count) * sizeof(*ids));
	if (!a->ids)
		exit(1);
	memcpy(a->ids + a->count, ids, count * sizeof(*ids));
	a->count += (uint32_t)count;
	return 0;
}

static int encode(const struct gt_bpe *bpe, struct gt_err *err)
{
	uint32_t size;
	char *text;
	int rc = 0;

	while (!rc && (text = read_block(1, &size))) {
		struct answer a = { 0 };

		rc = gt_bpe_encode(bpe, text, size, collect, NULL, &a, NULL, err);
		fwrite(&a.count, sizeof(a.count), 1, stdout);
		if (a.count)
			fwrite(a.ids, sizeof(*a.ids), a.count, stdout);
		free(a.ids);
		free(text);
	}
	return rc;
}

static int decode(const struct gt_bpe *bpe)
{
	uint32_t count;
	int32_t *ids;

	while ((ids = read_block(sizeof(*ids), &count))) {
		char *text = NULL;
		size_t size = 0, length;
		FILE *out = open_memstream(&text, &size);
		uint32_t written;

		for (uint32_t i = 0; i < count; i++) {
			const char *token = gt_bpe_text(bpe, ids[i], !i, &length);

			if (!token)
				return 1;
			fwrite(token, 1, length, out);
		}
		fclose(out);
		written = (uint32_t)size;
		fwrite(&written, sizeof(written), 1, stdout);
		fwrite(text, 1, size, stdout);
		free(text);
		free(ids);
	}
	return 0;
}

/*
 * bpe_dump TOKENIZER encode|decode: answers each (length, bytes) of standard input with (count,
 * ids), or the other way round. Lengths and counts are uint32, ids int32.
 */
int main(int argc, char **argv)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_bpe *bpe;
	int rc;

	if (argc != 3)
		return 2;
	rc = gt_bpe_open(&bpe, (struct gt_file_name){ .path = argv[1] }, &err);
	if (!rc)
		rc = strcmp(argv[2], "encode") ? decode(bpe) : encode(bpe, &err);
	if (rc)
		fprintf(stderr, "%s\n", err.text);
	else
		gt_bpe_close(bpe);
	return rc || fflush(stdout);
}
