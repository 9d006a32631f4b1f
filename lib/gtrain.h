/* gtrain.h - train neural networks from a program: the interface of the library. */
#ifndef GT_GTRAIN_H
#define GT_GTRAIN_H

#include <stdint.h>

/*
 * `pkg-config --cflags --libs gtrain` prints the flags for the compiler and the linker; the manual
 * page gtrain-lib(3) has complete programs in C and Fortran. A run is what `gtrain train` has, too:
 * the same options, the same steps bit by bit, the same checkpoints.
 *
 *   struct gtrain *run;
 *   struct gtrain_error error;
 *   double loss;
 *
 *   if (gtrain_open(&run, "model=mlp\n" "data=csv:iris.csv\n" "steps=100", &error))
 *           return puts(error.text);
 *   for (int i = 0; i < 100; i++)
 *           if (gtrain_step(run, NULL, 0, &loss, &error))
 *                   return puts(error.text);
 *   gtrain_save(run, "iris.pth", "weights", NULL);
 *   gtrain_close(run);
 *
 * Errors. Functions return 0, or a negative enum gtrain_code, which *error describes. `error` may
 * be NULL. The library never ends the process, prints nothing (but see the option `log`), handles
 * no signals and keeps no state outside of its runs, apart from libraries that it has opened.
 *
 * Ownership. gtrain_close() frees all memory of a run. The caller owns the arrays that it passes,
 * and may change or free them as soon as a function returns.
 *
 * Threads. One thread at a time may use a run; several threads may use a run each. Kernels use
 * OpenMP: OMP_NUM_THREADS is the number of their threads.
 *
 * Versions. Programs that were built with this header run with each later libgtrain.so.0: functions
 * are added, and none is changed. The structs below never grow. New options and numbers are new
 * words in texts.
 */

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GTRAIN_API __attribute__((visibility("default")))
#else
#define GTRAIN_API
#endif

enum gtrain_code {
	GTRAIN_OK = 0,
	GTRAIN_EINVAL = -1,   /* an argument, option or array is wrong */
	GTRAIN_ENOMEM = -2,   /* memory ran out */
	GTRAIN_EIO = -3,      /* a file could not be read or written */
	GTRAIN_EFORMAT = -4,  /* the contents of a file are wrong */
	GTRAIN_EDEVICE = -5,  /* a device is missing or has failed */
	GTRAIN_ENOTSUP = -6,  /* the request is valid, but the library cannot do it */
	GTRAIN_EDIVERGED = -7 /* the loss, a gradient or a weight is not finite */
};

struct gtrain_error {
	int32_t code;   /* enum gtrain_code */
	char text[512]; /* one line: what is wrong; options are named as in gtrain_open() */
	char hint[512]; /* one line: how to solve it; "" if that is not known */
};

/* The types of elements. */
enum gtrain_dtype {
	GTRAIN_FLOAT32 = 1,
	GTRAIN_FLOAT64 = 2,
	GTRAIN_FLOAT16 = 3,
	GTRAIN_BFLOAT16 = 4,
	GTRAIN_INT64 = 5,
	GTRAIN_INT32 = 6,
	GTRAIN_UINT8 = 7
};

enum { GTRAIN_MAX_DIMS = 8 };

/* An array in host memory, whose last dimension is contiguous, then the one before, and so on (C's
 * order; Fortran's arrays have the same dimensions in reverse). */
struct gtrain_tensor {
	const char *name;
	void *data;
	int32_t dtype; /* enum gtrain_dtype */
	int32_t ndim;
	int64_t shape[GTRAIN_MAX_DIMS]; /* [ndim] */
};

struct gtrain; /* a run: model, optimizer, data */

/* Return the version of the library, such as "0.1.0". */
GTRAIN_API const char *gtrain_version(void);

/*
 * Open a run. `options` has a line "name=value" for each option, separated by "\n". The options are
 * those of `gtrain train`, without dashes (gtrain-train(1)); flags have the value "yes". Left out,
 * an option has its default. *out is NULL on failure.
 *
 *   model      NAME[:key=value,...], FILE.pt2, FILE.onnx or a folder of transformers
 *   data       KIND:PATH[,...] (gtrain-data(7)): gtrain_step() reads the samples itself; or
 *              memory[:INPUTS/CLASSES][,samples=N][,target=class|number|labels]: the caller passes
 *              them, in batches. Without INPUTS/CLASSES they have the shape that the model takes.
 *              samples=N is the length of an epoch, whose last step may be short; without it each
 *              step has the same number of samples.
 *   val        data for gtrain_evaluate()
 *   resume     a run directory, or a checkpoint, from which the run continues. Its directory gives
 *              the options that are left out. A run on pairs (gtrain-data(7)) needs a directory.
 *   init-from  a checkpoint or run with the initial weights
 *   log        where notes and warnings go: "stderr", or a file, to which they are appended. By
 *              default they are not written.
 *
 * Options about ranks, the run directory and the terminal are errors: a run has one rank, and
 * writes no files but those of gtrain_save().
 */
GTRAIN_API int gtrain_open(struct gtrain **out, const char *options, struct gtrain_error *error);

/* Close a run. NULL is fine. */
GTRAIN_API void gtrain_close(struct gtrain *run);

/*
 * Do one optimizer step. If the data are in memory, batch[count] has the samples of the step:
 * `batch` times `accumulate` of the options, or the number "samples" (gtrain_number()). Otherwise
 * count is 0.
 *
 * The arrays may have any order. Their first dimension is the number of samples:
 *
 *   input    vectors  float32 [samples, INPUTS]
 *            images   uint8 [samples, height, width, channels]
 *            texts    int32 or int64 [samples, block]
 *   NAME     for a network of the user's own with several inputs: each by its name, in its type;
 *            truth values are uint8
 *   target   class    int32 or int64 [samples]; texts: [samples, block], the next tokens; -100
 *                     does not count
 *            number   float32 [samples]
 *            labels   float32 [samples, CLASSES], 0 or 1
 *
 * *loss is the mean loss of the step. If `loss` is NULL, the call does not wait for the device:
 * steps then overlap on a GPU, and errors of a step may come from a later call.
 *
 * Errors: GTRAIN_EINVAL before the step for wrong arrays, or at the end of the run, after `steps`
 *         or `epochs`. After other errors the run can only be read and closed.
 */
GTRAIN_API int gtrain_step(struct gtrain *run, const struct gtrain_tensor *batch, int count,
    double *loss, struct gtrain_error *error);

/* Measure the mean loss of the samples in batch[count], of any number, or, if count is 0, of the
 * data `val`, without a step. *loss may be NULL. gtrain_number() has the other results. */
GTRAIN_API int gtrain_evaluate(struct gtrain *run, const struct gtrain_tensor *batch, int count,
    double *loss, struct gtrain_error *error);

/* Compute the outputs of the network, in evaluation mode, for the samples of batch[count], which
 * needs no target: output->data gets float32 [samples, outputs]. The caller sets dtype and shape of
 * *output, too; its name is ignored. The data of the run must be in memory. */
GTRAIN_API int gtrain_predict(struct gtrain *run, const struct gtrain_tensor *batch, int count,
    struct gtrain_tensor *output, struct gtrain_error *error);

/*
 * Set *out to a number of the run:
 *
 *   step, steps      steps done, and those of the whole run
 *   samples          samples that the next step takes
 *   outputs          outputs of gtrain_predict() for a sample; 0: none
 *   tensors          tensors of gtrain_describe()
 *   train/loss, train/lr, train/grad_norm
 *                    of the last step; NaN before the first
 *   val/loss, val/samples, val/top1, val/top5, val/accuracy, val/precision, val/recall, val/f1,
 *   val/mse, val/mae, val/r2
 *                    of the last gtrain_evaluate(); NaN before it
 */
GTRAIN_API int gtrain_number(
    struct gtrain *run, const char *name, double *out, struct gtrain_error *error);

/* Describe tensor number `index`, from 0 on, of the model's state_dict: *out has its name (valid
 * until gtrain_close()), type and shape, and no data. Errors: GTRAIN_EINVAL after the last one. */
GTRAIN_API int gtrain_describe(
    struct gtrain *run, int64_t index, struct gtrain_tensor *out, struct gtrain_error *error);

/* Copy a parameter or buffer, tensor->name, to or from tensor->data. The caller sets its type and
 * shape, too, which must be those of gtrain_describe(). */
GTRAIN_API int gtrain_read(
    struct gtrain *run, const struct gtrain_tensor *tensor, struct gtrain_error *error);
GTRAIN_API int gtrain_write(
    struct gtrain *run, const struct gtrain_tensor *tensor, struct gtrain_error *error);

/* Write a file that PyTorch and `gtrain` open. `what` is "checkpoint": the whole state, for the
 * option `resume`; or "weights": the state_dict of the model, for `gtrain eval` and `init-from`. A
 * name that ends like another format, such as ".safetensors", is an error. An error leaves an
 * earlier file of this name as it was. */
GTRAIN_API int gtrain_save(
    struct gtrain *run, const char *path, const char *what, struct gtrain_error *error);

#ifdef __cplusplus
}
#endif

#endif
