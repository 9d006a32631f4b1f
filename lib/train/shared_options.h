/* shared_options.h - rows of options that several commands have. */
#ifndef GT_TRAIN_SHARED_OPTIONS_H
#define GT_TRAIN_SHARED_OPTIONS_H

#include "lib/base/opt.h"
#include "lib/comm/comm.h"
#include "lib/comm/shm/shm.h"
#include "lib/device/name.h"
#include "lib/model/names.h"

/* Rows for the option tables of commands. `field` is GT_OPT_FIELD(), `form` the value in the help,
 * `text` the help, and `keys` what --names is about; the last arguments are further members.
 * --nproc has .initial = "2" or GT_OPTION_RANK_PER_GPU. */
/* clang-format off */
#define GT_OPTION_DEVICE(field, form, text, ...) \
	{ "device", 0, GT_OPT_STRING, field, form, text, .initial = "cpu", \
	    .words = gt_device_words, .complete = GT_COMPLETE_WORDS, ##__VA_ARGS__ }
#define GT_OPTION_TF32(field, ...) \
	{ "tf32", 0, GT_OPT_FLAG, field, \
	    .help = "round factors of float32 products to TF32, on a GPU's tensor cores", \
	    ##__VA_ARGS__ }
#define GT_OPTION_NAMES(field, keys, ...) \
	{ "names", 0, GT_OPT_CHOICE, field, "PROGRAM", \
	    .help = "the program that named the " keys "; torchvision's names are gtrain's own", \
	    .words = gt_names_words, .initial = "auto", ##__VA_ARGS__ }
#define GT_OPTION_NPROC(field, text, ...) \
	{ "nproc", 0, GT_OPT_INT, field, "N", text, .min = 1, .max = GT_SHM_MAX_RANKS, __VA_ARGS__ }
#define GT_OPTION_RANK_PER_GPU .otherwise = "one per GPU of --device; 1 on the CPU"
#define GT_OPTION_BACKEND(field, ...) \
	{ "backend", 0, GT_OPT_CHOICE, field, .words = gt_comm_backend_names, .initial = "auto", \
	    .help = "how ranks exchange data; auto: shm or mpi, between GPUs nccl or ring", \
	    ##__VA_ARGS__ }
#define GT_OPTION_TIMEOUT(field, default_time, ...) \
	{ "timeout", 0, GT_OPT_DURATION, field, "TIME", \
	    "give up on a rank that does not respond within this time", .initial = default_time, \
	    .max = 1e6, .flags = GT_OPT_ABOVE, ##__VA_ARGS__ }
/* clang-format on */

#endif
