/* mpi_allreduce.c - times of MPI's all-reduce in place, lines of bytes and seconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5 };

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double time_calls(float *x, int count, int calls)
{
	double start;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 0; i < calls; i++)
		MPI_Allreduce(MPI_IN_PLACE, x, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	return (MPI_Wtime() - start) / calls;
}

int main(int argc, char **argv)
{
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 1; i < argc; i++) {
		long bytes = atol(argv[i]);
		float *x = calloc(1, (size_t)bytes);
		double times[ROUNDS], each;
		int calls;

		if (!x)
			MPI_Abort(MPI_COMM_WORLD, 1);
		time_calls(x, (int)(bytes / 4), 2);
		each = time_calls(x, (int)(bytes / 4), 3);
		calls = (int)(0.04 / each) + 1;
		MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
		for (int k = 0; k < ROUNDS; k++)
			times[k] = time_calls(x, (int)(bytes / 4), calls);
		qsort(times, ROUNDS, sizeof(*times), by_size);
		if (!rank)
			printf("%ld %.9f\n", bytes, times[ROUNDS / 2]);
		free(x);
	}
	MPI_Finalize();
	return 0;
}
