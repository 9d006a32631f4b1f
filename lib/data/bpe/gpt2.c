/* gpt2.c - GPT-2's vocab.json and merges.txt as a tokenizer.json. */
#include <string.h>

#include "lib/data/bpe/inside.h"

/* A line of merges.txt: two tokens with a space between; the first line may tell a version. */
static int add_line(json_t *merges, const char *line, size_t n, size_t number, struct gt_err *err)
{
	const char *space = memchr(line, ' ', n);
	json_t *merge;

	if (n >= 8 && !memcmp(line, "#version", 8))
		return 0;
	if (!space || space == line || space == line + n - 1 ||
	    memchr(space + 1, ' ', n - (size_t)(space - line) - 1))
		return gt_err_set(err, GT_EFORMAT, "line %zu is not two tokens", number);
	merge = json_stringn(line, n);
	if (!merge)
		return gt_err_set(err, GT_EFORMAT, "line %zu is not UTF-8", number);
	if (json_array_append_new(merges, merge))
		return gt_err_set(err, GT_ENOMEM, "out of memory: the tokenizer");
	return 0;
}

static int read_merges(json_t *merges, const char *text, size_t size, struct gt_err *err)
{
	size_t number = 1;
	int rc = 0;

	if (size > GT_BPE_MAX_FILE)
		return gt_err_set(
		    err, GT_EFORMAT, "%zu bytes, more than %d", size, GT_BPE_MAX_FILE);
	for (const char *p = text, *end = text + size; p < end && !rc; number++) {
		const char *feed = memchr(p, '\n', (size_t)(end - p)), *stop = feed ? feed : end;
		size_t n = (size_t)(stop - p);

		if (n && p[n - 1] == '\r')
			n--;
		rc = add_line(merges, p, n, number, err);
		p = stop + 1;
	}
	return rc;
}

static json_t *added_tokens(const json_t *vocab)
{
	static const char end[] = "<|endoftext|>";
	json_t *id = json_object_get(vocab, end);

	if (!id)
		return json_array();
	return json_pack("[{s:O,s:s,s:b,s:b,s:b,s:b,s:b}]", "id", id, "content", end, "single_word",
	    0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1);
}

int gt_bpe_convert_gpt2(
    json_t **out, const json_t *vocab, const char *merges, size_t size, struct gt_err *err)
{
	json_t *list = json_array();
	int rc = list ? read_merges(list, merges, size, err)
	              : gt_err_set(err, GT_ENOMEM, "out of memory: the tokenizer");

	*out = NULL;
	if (!rc) {
		*out = json_pack("{s:s,s:o,s:n,s:{s:s,s:b,s:b,s:b},s:{s:s},s:{s:s,s:O,s:O}}",
		    "version", "1.0", "added_tokens", added_tokens(vocab), "normalizer",
		    "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
		    "use_regex", 1, "decoder", "type", "ByteLevel", "model", "type", "BPE", "vocab",
		    vocab, "merges", list);
		if (!*out)
			rc = gt_err_set(err, GT_ENOMEM, "out of memory: the tokenizer");
	}
	json_decref(list);
	return rc;
}
