/* api.h - private: the parts of a run of gtrain.h. */
#ifndef GT_API_API_H
#define GT_API_API_H

#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/gtrain.h"
#include "lib/train/stepper.h"

/* The options of a run, and those of `gtrain train` that are errors here. */
struct gt_api_options {
	struct gt_train_options train;
	const char *log; /* "stderr", or a file; NULL: nothing is logged */
#include "lib/train/program_fields.inc"
};

struct gtrain {
	struct gt_api_options options; /* strings are those of `opts`, or of the run */
	struct gt_opts opts;
	char *text; /* the lines of the options, which `opts` borrows */
	struct gt_log log;
	struct gt_train *train;
	struct gt_stepper *stepper;
	bool evaluated; /* `metrics` has a result */
	struct gt_metrics metrics;
};

/* Copy an error of the library to that of a caller, which may be NULL. Return its code. */
int gt_api_fail(struct gtrain_error *out, const struct gt_err *err);

/* Return 0 if the handle and the other pointer are not NULL, else GT_EINVAL. */
int gt_api_check(
    const struct gtrain *run, const void *pointer, const char *name, struct gt_err *err);

/* ---- options.c ---- */

/* Set run->options and run->log from the lines of gtrain_open(). */
int gt_api_read_options(struct gtrain *run, const char *lines, struct gt_err *err);

/* ---- batch.c ---- */

/* Put the arrays of a caller together to a batch of samples such as those of `data`. Targets are
 * needed only if `with_targets`. *memory is for free(), even after an error. Errors: GT_EINVAL. */
int gt_api_pack(struct gt_batch *out, void **memory, const struct gt_dataset *data,
    const struct gtrain_tensor *tensors, int count, bool with_targets, struct gt_err *err);

/* ---- tensor.c ---- */

/* Return the name of a type, such as "float32"; NULL: it is none. */
const char *gt_api_dtype_name(int32_t dtype);

/* Check that an array has data, a type and a shape, and write "float32 [2, 3]" to `text`. */
enum { GT_API_FORM = 224 };
int gt_api_check_tensor(const struct gtrain_tensor *t, char text[GT_API_FORM], struct gt_err *err);

#endif
