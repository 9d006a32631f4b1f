/* open.c - MPI in this process: the library is found, begun and ended. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/comm/mpi/state.h"

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

/*
 * Open MPI opens its components with dlopen(), and these look for libmpi's symbols in the global
 * scope: "your application must load libmpi with the RTLD_GLOBAL option" (docs.open-mpi.org, tuning
 * apps, dynamic loading). libmpi, which libgtrain-mpi.so loads, gets the same scope. It is never
 * closed: MPI leaves threads and handlers behind.
 */
static int load_mpi_library(const struct gt_mpi_calls **out, struct gt_err *err)
{
	char path[4096 + 32];
	const struct gt_mpi_calls *calls;
	void *library;

	if (find_library(path, sizeof(path), err))
		return err->code;
	library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		const char *why = dlerror();

		gt_err_set(err, GT_EDEVICE, "cannot open MPI: %s", why ? why : path);
		return gt_err_hint(err, "install MPI, Debian's package openmpi-bin");
	}
	calls = dlsym(library, GT_MPI_CALLS_SYMBOL);
	if (!calls || calls->version != GT_MPI_CALLS_VERSION || calls->bytes != sizeof(*calls)) {
		gt_err_set(err, GT_EDEVICE, "'%s' is not of this version of gtrain", path);
		return gt_err_hint(err, "build and install both together: `make install`");
	}
	*out = calls;
	return 0;
}

int gt_mpi_error(struct gt_mpi *mpi, int error, const char *doing, struct gt_err *err)
{
	char text[256] = "";

	mpi->calls->explain(error, text, sizeof(text));
	return gt_err_set(err, GT_EIO, "MPI cannot %s: %s", doing, text);
}

int gt_mpi_open(struct gt_mpi **out, int *rank, int *size, struct gt_err *err)
{
	struct gt_mpi *mpi = gt_calloc(1, sizeof(*mpi), err);
	int e;

	*out = NULL;
	if (!mpi)
		return err->code;
	if (load_mpi_library(&mpi->calls, err)) {
		free(mpi);
		return err->code;
	}
	e = mpi->calls->init(&mpi->rank, &mpi->size, &mpi->tag_max);
	if (e) {
		if (e < 0)
			gt_err_set(err, GT_EDEVICE,
			    "MPI cannot be begun: it was before, or knows nothing of threads");
		else
			gt_mpi_error(mpi, e, "begin", err);
		free(mpi);
		return err->code;
	}
	*rank = mpi->rank;
	*size = mpi->size;
	*out = mpi;
	return 0;
}

int gt_mpi_finish(struct gt_mpi *mpi, struct gt_group *all, struct gt_err *err)
{
	struct gt_collective c = { .kind = GT_BARRIER, .what = "the end" };
	int e;

	if (mpi->finished)
		return 0;
	if (gt_group_run(all, &c, err))
		return err->code;
	/* Requests that are open would be MPI's no more. */
	gt_mpi_leave((struct gt_mpi_group *)all, false);
	mpi->finished = true;
	e = mpi->calls->finalize();
	return e ? gt_err_set(err, GT_EIO, "MPI cannot end: error %d", e) : 0;
}

void gt_mpi_free(struct gt_mpi *mpi)
{
	if (mpi)
		free(mpi->hosts);
	free(mpi);
}
