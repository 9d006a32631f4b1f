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
 * With 0 each runs once on less: 256 cubed and buffers of 8 MB. Threads are OpenMP's
 * (OMP_NUM_THREADS).
 */
enum { RUNS_MAX = 1024, CHUNK = 1 << 20 };

struct buffers {
	size_t bytes; /* of a and of b */
	char *a, *b;  /* the triad sees both as one */
	dnnl_dim_t cube;
	float *x, *y, *z; /* [cube, cube] */
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
	const dnnl_dim_t n = m->cube;

	if (dnnl_sgemm('N', 'N', n, n, n, 1, m->x, n, m->y, n, 0, m->z, n) != dnnl_success) {
		fputs("bench_machine: dnnl_sgemm failed\n", stderr);
		exit(1);
	}
}

static void copy(const struct buffers *m)
{
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < m->bytes; i += CHUNK)
		memcpy(m->a + i, m->b + i, CHUNK < m->bytes - i ? CHUNK : m->bytes - i);
}

static size_t triad_count(const struct buffers *m)
{
	return m->bytes * 2 / 3 / sizeof(float) / 16 * 16;
}

static void triad(const struct buffers *m)
{
	const size_t n = triad_count(m);
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
	} while (
	    seconds > 0 && count < RUNS_MAX && (count < 3 || omp_get_wtime() - began < seconds));
	qsort(times, (size_t)count, sizeof(*times), by_value);
	return (times[(count - 1) / 2] + times[count / 2]) / 2;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.5;
	struct buffers m = { .bytes = (size_t)512 * 1000 * 1000, .cube = 2048 };
	size_t cube_bytes;
	double sgemm_s, copy_s, triad_s, n;

	if (seconds <= 0) {
		m.bytes = (size_t)8 * 1000 * 1000;
		m.cube = 256;
	}
	n = (double)m.cube;
	cube_bytes = (size_t)(m.cube * m.cube) * sizeof(float);
	m.a = memory(2 * m.bytes);
	m.b = m.a + m.bytes;
	m.x = memory(cube_bytes);
	m.y = memory(cube_bytes);
	m.z = memory(cube_bytes);
	sgemm_s = measure(sgemm, &m, seconds);
	copy_s = measure(copy, &m, seconds);
	triad_s = measure(triad, &m, seconds);
	printf("{\"threads\":%d,\"sgemm_gflop_s\":%.1f,\"copy_gb_s\":%.1f,\"triad_gb_s\":%.1f}\n",
	    omp_get_max_threads(), 2.0 * n * n * n / sgemm_s * 1e-9,
	    2.0 * (double)m.bytes / copy_s * 1e-9,
	    3.0 * (double)(triad_count(&m) * sizeof(float)) / triad_s * 1e-9);
	free(m.a);
	free(m.x);
	free(m.y);
	free(m.z);
	return 0;
}
