/* libfuzzer.c - one fuzz target as libFuzzer calls it; FUZZ_TARGET is its function. */
#include <stdint.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	FUZZ_TARGET(bytes, size);
	return 0;
}
