/* fuzz_onnx.c - fuzz target: a model of ONNX, whose graph becomes one of gtrain. */
#include "tests/fuzz/fuzz.h"

void fuzz_onnx(const unsigned char *bytes, size_t size)
{
	fuzz_network(bytes, size, "net.onnx");
}
