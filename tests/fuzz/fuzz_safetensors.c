/* fuzz_safetensors.c - fuzz target: a safetensors file, one of its own. */
#include "tests/fuzz/fuzz.h"

void fuzz_safetensors(const unsigned char *bytes, size_t size)
{
	fuzz_open(bytes, size);
}
