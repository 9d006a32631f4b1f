/* fuzz_exported.c - fuzz target: an archive of torch.export, whose network becomes a graph. */
#include "tests/fuzz/fuzz.h"

void fuzz_exported(const unsigned char *bytes, size_t size)
{
	fuzz_network(bytes, size, "net.pt2");
}
