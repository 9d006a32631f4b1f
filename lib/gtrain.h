/* gtrain.h - the public header of the gtrain library: programs #include <gtrain/gtrain.h>. */
#ifndef GT_GTRAIN_H
#define GT_GTRAIN_H

/*
 * `pkg-config --cflags --libs gtrain` prints the flags for the compiler and the linker.
 * tests/example/example.c is a complete program.
 *
 * A function that can fail returns 0 on success. On failure it returns a negative enum gt_code, and
 * sets the error in a struct gt_err. A function gt_..._options_init() sets a struct of options to
 * the defaults of the command line program gtrain. After that, set those options that need other
 * values. The main functions are:
 *
 *   train     gt_train_options_init(), gt_train_open(), gt_train_run(), gt_train_close()
 *   evaluate  gt_eval_options_init(), gt_eval_open(), gt_eval_run(), gt_eval_close()
 *   generate  gt_sampling_init(), gt_generate()
 *   files     gt_ckpt_open(), gt_state_dict_find(), gt_ckpt_tensor_read(), gt_torch_save(),
 *             gt_verify()
 *   machine   gt_probe_read()
 *
 * Only the headers below and those that they include are installed, as <gtrain/lib/MODULE/NAME.h>.
 */
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/progress.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/tools/convert.h"
#include "lib/ckpt/tools/diff.h"
#include "lib/ckpt/tools/verify.h"
#include "lib/comm/comm.h"
#include "lib/data/core/data.h"
#include "lib/device/probe.h"
#include "lib/model/model.h"
#include "lib/optim/optim.h"
#include "lib/train/eval.h"
#include "lib/train/generate.h"
#include "lib/train/report/observer.h"
#include "lib/train/train.h"

#endif
