/* gtrain.h - the library for programs outside: #include <gtrain/gtrain.h>. */
#ifndef GT_GTRAIN_H
#define GT_GTRAIN_H

/*
 * `pkg-config --cflags --libs gtrain` has the flags; tests/example/example.c is a whole program.
 *
 * Fallible functions return 0 or a negative enum gt_code, and put the error into a struct gt_err.
 * gt_..._options_init() fills a struct of options with the defaults of the program gtrain; a
 * program then changes the options it needs to.
 *
 *   train     gt_train_options_init(), gt_train_open(), gt_train_run(), gt_train_close()
 *   evaluate  gt_eval_options_init(), gt_eval_open(), gt_eval_run(), gt_eval_close()
 *   text      gt_sampling_init(), gt_generate()
 *   files     gt_ckpt_open(), gt_state_dict_find(), gt_ckpt_tensor_read(), gt_torch_save(),
 *             gt_verify()
 *   machine   gt_probe_read()
 *
 * Other headers of the library are there, too, as <gtrain/lib/MODULE/NAME.h>; they may change with
 * every version.
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
#include "lib/data/data.h"
#include "lib/device/probe.h"
#include "lib/model/model.h"
#include "lib/optim/optim.h"
#include "lib/train/eval.h"
#include "lib/train/generate.h"
#include "lib/train/report/observer.h"
#include "lib/train/train.h"

#endif
