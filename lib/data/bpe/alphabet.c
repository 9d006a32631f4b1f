/* alphabet.c - bytes as the characters that GPT-2 writes for them, and white space. */
#include "lib/data/bpe/inside.h"

/*
 * Bytes that are printed in Latin-1 stand for themselves. The others, 68 of them, are the
 * characters from U+0100 on, in their order: a space is U+0120, a line break U+010A.
 */
static bool is_itself(unsigned byte)
{
	return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

uint32_t gt_bpe_letter_of(unsigned char byte)
{
	uint32_t before = 0;

	if (is_itself(byte))
		return byte;
	for (unsigned b = 0; b < byte; b++)
		before += !is_itself(b);
	return 0x100 + before;
}

int gt_bpe_byte_of(uint32_t letter)
{
	uint32_t left = letter - 0x100;

	if (letter < 0x100)
		return is_itself(letter) ? (int)letter : -1;
	for (unsigned b = 0; b < 0x100; b++)
		if (!is_itself(b) && !left--)
			return (int)b;
	return -1;
}

bool gt_bpe_is_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
	       c == 0x205F || c == 0x3000;
}
