/* open.c - MPI in this process: the library is found and begun; messages over it. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/library.h"
#include "lib/base/mem.h"
#include "lib/comm/mpi/calls.h"
#include "lib/comm/mpi/mpi.h"

#define LIBRARY "libgtrain-mpi.so"

/* ---- the library ---- */

/* Where it may lie, seen from the program: in a build, for its tests, and installed. */
static const char *const places[] = { "", "../", "../lib/gtrain/" };

static int no_library(struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP, "there is no %s: this gtrain was built without MPI", LIBRARY);
	return gt_err_hint(err, "install MPI (Debian's libopenmpi-dev and openmpi-bin) and build "
	                        "again, `make MPI=1`; or name the library in GTRAIN_MPI");
}

static int find_library(char *path, size_t size, struct gt_err *err)
{
	const char *named = getenv("GTRAIN_MPI");
	char self[4096];
	ssize_t n;

	if (named && *named) {
		snprintf(path, size, "%s", named);
		return 0;
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	if (strrchr(self, '/'))
		strrchr(self, '/')[1] = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if ((size_t)snprintf(path, size, "%s%s" LIBRARY, self, places[i]) < size &&
		    !access(path, R_OK))
			return 0;
	return no_library(err);
}

struct pointers {
	const struct gt_mpi_calls *calls;
};

static const struct gt_library_function functions[] = {
	{ GT_MPI_CALLS_SYMBOL, offsetof(struct pointers, calls), true },
	{ 0 },
};

/*
 * Open MPI opens its components with dlopen(), and these look for libmpi's symbols in the global
 * scope: "your application must load libmpi with the RTLD_GLOBAL option" (docs.open-mpi.org, tuning
 * apps, dynamic loading). libmpi, which libgtrain-mpi.so loads, gets the same scope. It is never
 * closed: MPI leaves threads and handlers behind.
 */
static const struct gt_library mpi_library = {
	.functions = functions,
	.cannot_open = "cannot open MPI",
	.hint = "install MPI, Debian's package openmpi-bin",
	.code = GT_EDEVICE,
	.global = true,
};

static int load_mpi_library(const struct gt_mpi_calls **out, struct gt_err *err)
{
	char path[4096 + 32] = LIBRARY;
	struct pointers found;
	void *handle;

	if (!gt_library_is_static() && find_library(path, sizeof(path), err))
		return err->code;
	if (gt_library_open(&handle, &mpi_library, path, err) ||
	    gt_library_find(&found, &mpi_library, handle, path, err))
		return err->code;
	if (!found.calls || found.calls->version != GT_MPI_CALLS_VERSION ||
	    found.calls->bytes != sizeof(*found.calls)) {
		gt_err_set(err, GT_EDEVICE, "'%s' is not of this version of gtrain", path);
		return gt_err_hint(err, "build and install both together: `make install`");
	}
	*out = found.calls;
	return 0;
}

/* ---- messages ---- */

struct mpi {
	struct gt_messenger messenger;
	const struct gt_mpi_calls *calls;
};

static const struct gt_mpi_calls *calls_of(struct gt_messenger *m)
{
	return ((struct mpi *)m)->calls;
}

static int mpi_send(struct gt_messenger *m, struct gt_msg_request *out, const void *p, size_t bytes,
    int rank, int tag)
{
	return calls_of(m)->send(out, p, (int)bytes, rank, tag);
}

static int mpi_receive(
    struct gt_messenger *m, struct gt_msg_request *out, void *p, size_t bytes, int rank, int tag)
{
	return calls_of(m)->receive(out, p, (int)bytes, rank, tag);
}

static int mpi_test(struct gt_messenger *m, struct gt_msg_request *request, int *done)
{
	return calls_of(m)->test(request, done);
}

static int mpi_cancel(struct gt_messenger *m, struct gt_msg_request *request)
{
	return calls_of(m)->cancel(request);
}

static int mpi_forget(struct gt_messenger *m, struct gt_msg_request *request)
{
	return calls_of(m)->forget(request);
}

/* Every test() moves all messages on. */
static void mpi_progress(struct gt_messenger *m, double seconds)
{
	(void)m;
	if (seconds > 0)
		nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * seconds) }, NULL);
}

static void mpi_explain(struct gt_messenger *m, int error, char *text, size_t size)
{
	calls_of(m)->explain(error, text, (int)size);
}

static int mpi_finish(struct gt_messenger *m)
{
	return calls_of(m)->finalize();
}

/* MPI itself is not told. */
static void mpi_free(struct gt_messenger *m)
{
	free(m);
}

static const struct gt_messenger_ops ops = {
	.name = "mpi",
	.send = mpi_send,
	.receive = mpi_receive,
	.test = mpi_test,
	.cancel = mpi_cancel,
	.forget = mpi_forget,
	.progress = mpi_progress,
	.explain = mpi_explain,
	.finish = mpi_finish,
	.free = mpi_free,
};

int gt_mpi_open(struct gt_messenger **out, struct gt_err *err)
{
	struct mpi *mpi = gt_calloc(1, sizeof(*mpi), err);
	struct gt_messenger *m = &mpi->messenger;
	char text[256] = "";
	int e;

	*out = NULL;
	if (!mpi)
		return err->code;
	m->ops = &ops;
	if (load_mpi_library(&mpi->calls, err)) {
		free(mpi);
		return err->code;
	}
	e = mpi->calls->init(&m->rank, &m->size, &m->tag_max);
	if (e) {
		if (e > 0)
			mpi->calls->explain(e, text, sizeof(text));
		gt_err_set(err, e < 0 ? GT_EDEVICE : GT_EIO, "MPI cannot be begun: %s",
		    e < 0 ? "it was before, or knows nothing of threads" : text);
		free(mpi);
		return err->code;
	}
	*out = m;
	return 0;
}
