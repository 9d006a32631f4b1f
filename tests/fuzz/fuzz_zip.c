/* fuzz_zip.c - fuzz target: a torch zip archive; zip_mutate.c keeps its checksums right. */
#include "tests/fuzz/fuzz.h"

void fuzz_zip(const unsigned char *bytes, size_t size)
{
	fuzz_open(bytes, size);
}
