/* machine.c - the speed of the machine itself: sgemm, copy and triad, as JSON. */
#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * bench_machine [SECONDS]: medians of the runs that fit into SECONDS (default 0.5) for each of
 *
 *   sgemm_gflop_s  dnnl_sgemm, 2048 cubed
 *   copy_gb_s      memcpy of 512 MB, read + write
 *   triad_gb_s     a = b + s c over 1 GB in all, plain stores, two reads + write
 *
 * Threads are OpenMP's (OMP_NUM_THREADS).
 */
enum { CUBE = 2048, RUNS_MAX = 1024, CHUNK = 1 << 20 };

static const size_t buffer_bytes = (size_t)512 * 1000 * 1000;

struct buffers {
	char *a, *b; /* [buffer_bytes]; the triad sees both as one */
	float *x, *y, *z;
};

/* Touched by the threads that will use it, in the order in which they will. */
static void *memory(size_t bytes)
{
	size_t chunks = (bytes + CHUNK - 1) / CHUNK;
	char *p = aligned_alloc(64, chunks * CHUNK);

	if (!p) {
		fprintf(stderr, "bench_machine: no memory for %zu bytes\n", bytes);
		exit(1);
	}
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < chunks; i++)
		memset(p + i * CHUNK, 0, CHUNK);
	return p;
}

static void sgemm(const struct buffers *m)
{
	if (dnnl_sgemm('N', 'N', CUBE, CUBE, CUBE, 1, m->x, CUBE, m->y, CUBE, 0, m->z, CUBE) !=
	    dnnl_success) {
		fputs("bench_machine: dnnl_sgemm failed\n", stderr);
		exit(1);
	}
}

static void copy(const struct buffers *m)
{
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < buffer_bytes; i += CHUNK)
		memcpy(m->a + i, m->b + i, CHUNK < buffer_bytes - i ? CHUNK : buffer_bytes - i);
}

static size_t triad_count(void)
{
	return buffer_bytes * 2 / 3 / sizeof(float) / 16 * 16;
}

static void triad(const struct buffers *m)
{
	const size_t n = triad_count();
	float *restrict a = (float *)(void *)m->a;
	const float *restrict b = a + n, *restrict c = b + n;

#pragma omp parallel for simd schedule(static)
	for (size_t i = 0; i < n; i++)
		a[i] = b[i] + 3.0f * c[i];
}

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return a < b ? -1 : a > b;
}

/* Median seconds of a run; the first is not counted. */
static double measure(void (*run)(const struct buffers *), const struct buffers *m, double seconds)
{
	double times[RUNS_MAX], began;
	int count = 0;

	run(m);
	began = omp_get_wtime();
	do {
		double start = omp_get_wtime();

		run(m);
		times[count++] = omp_get_wtime() - start;
	} while (count < RUNS_MAX && (count < 3 || omp_get_wtime() - began < seconds));
	qsort(times, (size_t)count, sizeof(*times), by_value);
	return (times[(count - 1) / 2] + times[count / 2]) / 2;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.5;
	size_t cube_bytes = (size_t)CUBE * CUBE * sizeof(float);
	struct buffers m = { .a = memory(2 * buffer_bytes) };
	double sgemm_s, copy_s, triad_s;

	m.b = m.a + buffer_bytes;
	m.x = memory(cube_bytes);
	m.y = memory(cube_bytes);
	m.z = memory(cube_bytes);
	sgemm_s = measure(sgemm, &m, seconds);
	copy_s = measure(copy, &m, seconds);
	triad_s = measure(triad, &m, seconds);
	printf("{\"threads\":%d,\"sgemm_gflop_s\":%.1f,\"copy_gb_s\":%.1f,\"triad_gb_s\":%.1f}\n",
	    omp_get_max_threads(), 2.0 * CUBE * CUBE * CUBE / sgemm_s * 1e-9,
	    2.0 * (double)buffer_bytes / copy_s * 1e-9,
	    3.0 * (double)(triad_count() * sizeof(float)) / triad_s * 1e-9);
	free(m.a);
	free(m.x);
	free(m.y);
	free(m.z);
	return 0;
}
