/* fuzz_legacy.c - fuzz target: a torch legacy file, five pickles and the storages. */
#include "tests/fuzz/fuzz.h"

void fuzz_legacy(const unsigned char *bytes, size_t size)
{
	fuzz_open(bytes, size);
}
