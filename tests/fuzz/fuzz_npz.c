/* fuzz_npz.c - fuzz target: a numpy archive or array. */
#include "tests/fuzz/fuzz.h"

void fuzz_npz(const unsigned char *bytes, size_t size)
{
	fuzz_open(bytes, size);
}
