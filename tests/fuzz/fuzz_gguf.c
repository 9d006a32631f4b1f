/* fuzz_gguf.c - fuzz target: a GGUF file. */
#include "tests/fuzz/fuzz.h"

void fuzz_gguf(const unsigned char *bytes, size_t size)
{
	fuzz_open(bytes, size);
}
