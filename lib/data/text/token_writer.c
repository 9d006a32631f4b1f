/* token_writer.c - text that is written token by token, character by character. */
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/data/text/tokenizer.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* Take the first bytes off. */
static void drop_held_bytes(struct gt_token_writer *w, int n)
{
	w->held_count -= n;
	memmove(w->held, w->held + n, (size_t)w->held_count);
}

/* A vocabulary is a file from anywhere, and a terminal obeys control characters. */
static void write_character(struct gt_token_writer *w, size_t length)
{
	char text[5] = { 0 }, shown[GT_LOG_CHARACTER];

	if (!w->terminal || w->held[0] == '\n' || w->held[0] == '\t') {
		fwrite(w->held, 1, length, w->out);
		return;
	}
	memcpy(text, w->held, length);
	gt_log_character(shown, text);
	fputs(shown, w->out);
}

/* Write the complete characters among the bytes held; at the `end`, all bytes. */
static void write_held(struct gt_token_writer *w, bool end)
{
	uint32_t code;

	while (w->held_count) {
		int n = w->held_count, length = gt_text_utf8(w->held, (size_t)n, &code);

		if (!length && !end && gt_text_utf8_is_begun(w->held, (size_t)n))
			return;
		if (!length) {
			fputs(replacement, w->out);
			length = (int)gt_text_utf8_damaged(w->held, (size_t)n);
		} else {
			write_character(w, (size_t)length);
		}
		drop_held_bytes(w, length);
	}
}

void gt_token_writer_put(struct gt_token_writer *w, int32_t id)
{
	const struct gt_bpe *bpe = gt_tokenizer_bpe(w->tok);
	bool whole = !bpe && !w->terminal; /* the text of the token is written unchanged */
	size_t length = 0;
	const char *text =
	    bpe ? gt_bpe_text(bpe, id, !w->begun, &length) : gt_tokenizer_text(w->tok, id, &length);

	if (!text)
		return;
	w->begun = true;
	if (whole)
		fwrite(text, 1, length, w->out);
	for (size_t i = 0; !whole && i < length; i++) {
		w->held[w->held_count++] = (unsigned char)text[i];
		write_held(w, false);
	}
}

void gt_token_writer_end(struct gt_token_writer *w)
{
	write_held(w, true);
}
