/* tokenize.c - speed of a tokenizer on a text, as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/data/bpe/bpe.h"

/*
 * bench_tokenize TOKENIZER FILE TIMES: the file, so many times over, tokenized in memory by the
 * cores that the process may use. Prints
 *
 *   seconds     for all of it, the opening of the tokenizer left out
 *   mb_s        10^6 bytes of text per second
 *   tokens      how many there are
 */
static int count_tokens(void *self, const int32_t *ids, size_t count, struct gt_err *err)
{
	(void)ids;
	(void)err;
	*(long long *)self += (long long)count;
	return 0;
}

static int fail(const struct gt_err *err)
{
	fprintf(stderr, "bench_tokenize: %s\n", err->text);
	return 1;
}

int main(int argc, char **argv)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_mapping map;
	struct gt_bpe *bpe;
	long long tokens = 0;
	size_t times = argc == 4 ? (size_t)atol(argv[3]) : 0, size;
	double started;
	char *text;

	if (!times)
		return 2;
	if (gt_bpe_open(&bpe, (struct gt_file_name){ .path = argv[1] }, &err) ||
	    gt_map(&map, argv[2], &err))
		return fail(&err);
	size = map.size * times;
	text = gt_calloc(times, map.size, &err);
	if (!text)
		return fail(&err);
	for (size_t i = 0; i < times; i++)
		memcpy(text + i * map.size, map.data, map.size);
	started = gt_clock_s();
	if (gt_bpe_encode(bpe, text, size, count_tokens, NULL, &tokens, NULL, &err))
		return fail(&err);
	started = gt_clock_s() - started;
	printf("{\"seconds\": %.6g, \"mb_s\": %.6g, \"tokens\": %lld}\n", started,
	    (double)size / 1e6 / started, tokens);
	free(text);
	gt_unmap(&map);
	gt_bpe_close(bpe);
	return 0;
}
