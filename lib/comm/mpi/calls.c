/* calls.c - MPI behind a table: the whole of libgtrain-mpi.so. */
#include "lib/comm/mpi/calls.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(struct gt_msg_request), "a request fits");

/* MPI is one per process, and so is its lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int done_with(int error)
{
	pthread_mutex_unlock(&lock);
	return error;
}

static MPI_Request get(const struct gt_msg_request *request)
{
	MPI_Request r;

	memcpy(&r, &request->handle, sizeof(r));
	return r;
}

static void put_mpi_request(struct gt_msg_request *request, MPI_Request r)
{
	request->handle = 0;
	memcpy(&request->handle, &r, sizeof(r));
}

static int init_locked(int *rank, int *size, int *tag_max)
{
	int was = 0, level = MPI_THREAD_SINGLE, found = 0, *max = NULL, e;

	MPI_Initialized(&was);
	if (was)
		return -1;
	e = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
	if (e)
		return e;
	if (level < MPI_THREAD_SERIALIZED)
		return -1;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	MPI_Comm_size(MPI_COMM_WORLD, size);
	e = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&max, &found);
	*tag_max = found ? *max : 32767; /* the least that MPI guarantees */
	return e;
}

static int init(int *rank, int *size, int *tag_max)
{
	pthread_mutex_lock(&lock);
	return done_with(init_locked(rank, size, tag_max));
}

static int finalize(void)
{
	pthread_mutex_lock(&lock);
	return done_with(MPI_Finalize());
}

static int send_bytes(struct gt_msg_request *out, const void *p, int bytes, int rank, int tag)
{
	MPI_Request r = MPI_REQUEST_NULL;
	int e;

	pthread_mutex_lock(&lock);
	e = MPI_Isend(p, bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &r);
	put_mpi_request(out, r);
	return done_with(e);
}

static int receive_bytes(struct gt_msg_request *out, void *p, int bytes, int rank, int tag)
{
	MPI_Request r = MPI_REQUEST_NULL;
	int e;

	pthread_mutex_lock(&lock);
	e = MPI_Irecv(
	    p, bytes, MPI_BYTE, rank < 0 ? MPI_ANY_SOURCE : rank, tag, MPI_COMM_WORLD, &r);
	put_mpi_request(out, r);
	return done_with(e);
}

static int test(struct gt_msg_request *request, int *done)
{
	MPI_Request r = get(request);
	int e;

	pthread_mutex_lock(&lock);
	*done = 0;
	e = MPI_Test(&r, done, MPI_STATUS_IGNORE);
	put_mpi_request(request, r);
	return done_with(e);
}

static int cancel(struct gt_msg_request *request)
{
	MPI_Request r = get(request);

	pthread_mutex_lock(&lock);
	return done_with(MPI_Cancel(&r));
}

static int forget(struct gt_msg_request *request)
{
	MPI_Request r = get(request);

	pthread_mutex_lock(&lock);
	return done_with(MPI_Request_free(&r));
}

static void explain_mpi_error(int error, char *text, int size)
{
	char whole[MPI_MAX_ERROR_STRING] = "";
	int length = 0;

	pthread_mutex_lock(&lock);
	MPI_Error_string(error, whole, &length);
	snprintf(text, (size_t)size, "%.*s", length, whole);
	done_with(0);
}

extern const struct gt_mpi_calls gt_mpi_calls;

__attribute__((visibility("default"))) const struct gt_mpi_calls gt_mpi_calls = {
	.version = GT_MPI_CALLS_VERSION,
	.bytes = sizeof(struct gt_mpi_calls),
	.init = init,
	.finalize = finalize,
	.send = send_bytes,
	.receive = receive_bytes,
	.test = test,
	.cancel = cancel,
	.forget = forget,
	.explain = explain_mpi_error,
};
