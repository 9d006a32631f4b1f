/* cuda.c - a pretend libcuda: FAKE_CUDA_DEVICES GPUs; the statuses FAKE_CUDA_INIT and _COUNT. */
#include <stdlib.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *devices);
int cuGetErrorString(int status, const char **text);

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text ? atoi(text) : otherwise;
}

int cuInit(unsigned flags)
{
	return flags ? 1 : number("FAKE_CUDA_INIT", 0);
}

/* As many as NVML has, unless told otherwise. */
int cuDeviceGetCount(int *devices)
{
	*devices = number("FAKE_CUDA_DEVICES", 1000);
	return number("FAKE_CUDA_COUNT", 0);
}

int cuGetErrorString(int status, const char **text)
{
	static const struct {
		int status;
		const char *text;
	} rows[] = { { 100, "no CUDA-capable device is detected" },
		{ 803, "system has unsupported display driver / cuda driver combination" } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].status == status) {
			*text = rows[i].text;
			return 0;
		}
	return 1;
}
