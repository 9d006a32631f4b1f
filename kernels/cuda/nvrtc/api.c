/* api.c - NVRTC, opened at run time, and the compilation of one source. */
#include "kernels/cuda/nvrtc/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/library.h"
#include "lib/base/mem.h"
#include "lib/device/nvrtc.h"

static const struct gt_library_function functions[] = {
#define FUNCTION(result, name, arguments)                                                          \
	{ "nvrtc" #name, offsetof(struct gt_nvrtc_api, name), false },
	GT_NVRTC_FUNCTIONS(FUNCTION)
#undef FUNCTION
	    { 0 },
};

static const struct gt_library nvrtc = { .functions = functions, .code = GT_EDEVICE };

int gt_nvrtc_find(struct gt_nvrtc_api *out, int driver, struct gt_err *err)
{
	void *handle;

	if (gt_nvrtc_open(&handle, &out->version, driver, err))
		return err->code;
	return gt_library_find(out, &nvrtc, handle, "NVRTC", err);
}

static int check_nvrtc(
    const struct gt_nvrtc_api *api, int status, const char *what, struct gt_err *err)
{
	if (!status)
		return 0;
	return gt_err_set(err, GT_EDEVICE, "NVRTC %d.%d: %s: %s", api->version / 1000,
	    api->version % 1000 / 10, what, api->GetErrorString(status));
}

/* Return the first line of the log with an error in it, or else its first line. Cuts the log. */
static const char *find_error_line(char *log)
{
	const char *first = log, *line;

	while ((line = strsep(&log, "\n")))
		if (strstr(line, "error"))
			return line;
	return first;
}

static int add_log(
    const struct gt_nvrtc_api *api, void *program, const char *name, struct gt_err *err)
{
	size_t bytes = 0;
	char *log = NULL;

	if (!api->GetProgramLogSize(program, &bytes) && bytes > 1)
		log = gt_calloc(bytes + 1, 1, GT_ERR_IGNORED);
	if (log && !api->GetProgramLog(program, log))
		gt_err_set(err, GT_EDEVICE, "NVRTC %d.%d: %s: %s", api->version / 1000,
		    api->version % 1000 / 10, name, find_error_line(log));
	free(log);
	return err->code;
}

static int take_cubin(
    char **cubin, size_t *bytes, const struct gt_nvrtc_api *api, void *program, struct gt_err *err)
{
	if (check_nvrtc(api, api->GetCUBINSize(program, bytes), "nvrtcGetCUBINSize", err))
		return err->code;
	*cubin = gt_calloc(*bytes, 1, err);
	if (!*cubin)
		return GT_ENOMEM;
	if (!check_nvrtc(api, api->GetCUBIN(program, *cubin), "nvrtcGetCUBIN", err))
		return 0;
	free(*cubin);
	*cubin = NULL;
	return err->code;
}

/*
 * nvcc compiles map.cu without contraction, too (Makefile): a compiled program has the same bits as
 * an interpreted one. The other options that round, such as those of divisions, have the same
 * defaults as nvcc's.
 */
int gt_nvrtc_compile(char **cubin, size_t *bytes, const struct gt_nvrtc_api *api,
    const char *source, const char *name, int arch, struct gt_err *err)
{
	char target[32];
	const char *const options[] = { target, "-std=c++17", "-fmad=false" };
	void *program = NULL;
	int rc, status;

	*cubin = NULL;
	snprintf(target, sizeof(target), "-arch=sm_%d", arch);
	rc = check_nvrtc(api, api->CreateProgram(&program, source, name, 0, NULL, NULL),
	    "nvrtcCreateProgram", err);
	if (rc)
		return rc;
	status = api->CompileProgram(program, (int)(sizeof(options) / sizeof(*options)), options);
	rc = check_nvrtc(api, status, "nvrtcCompileProgram", err);
	if (rc)
		rc = add_log(api, program, name, err);
	else
		rc = take_cubin(cubin, bytes, api, program, err);
	api->DestroyProgram(&program);
	return rc;
}
