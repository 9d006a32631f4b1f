/* shared_options.h - rows of options that several commands have. */
#ifndef GT_TRAIN_SHARED_OPTIONS_H
#define GT_TRAIN_SHARED_OPTIONS_H

#include "lib/base/opt.h"
#include "lib/comm/comm.h"
#include "lib/comm/shm/shm.h"
#include "lib/device/name.h"
#include "lib/model/names.h"
#include "lib/train/amp.h"

/* Rows for the option tables of commands. `field` is GT_OPT_FIELD(), `form` the value in the help,
 * `text` the help, and `keys` what --names is about; the last arguments are further members.
 * --nproc has .initial = "2", .otherwise or GT_OPTION_RANK_PER_GPU. */
/* clang-format off */
#define GT_OPTION_CKPT(field) \
	{ "ckpt", 0, GT_OPT_STRING, field, "CKPT", \
	    "checkpoint file, run directory, or Hugging Face folder", \
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED }
#define GT_OPTION_CKPT_MODEL(field) \
	{ "model", 0, GT_OPT_STRING, field, "MODEL", \
	    "the architecture: NAME[:key=value,...], or a Hugging Face folder", \
	    .otherwise = "as in the checkpoint or its run", .complete = GT_COMPLETE_MODEL }
#define GT_OPTION_LORA(field) \
	{ "lora", 0, GT_OPT_STRING, field, "ADAPTER", \
	    "folder with an adapter of PEFT or gtrain, which is added to the weights", \
	    .otherwise = "that of the checkpoint, if it has one", .complete = GT_COMPLETE_DIR }
#define GT_OPTION_VOCAB(field) \
	{ "vocab", 0, GT_OPT_STRING, field, "FILE", "vocabulary that training wrote", \
	    .otherwise = "that of the checkpoint or its run", .complete = GT_COMPLETE_FILE, \
	    .excludes = "tokenizer" }
#define GT_OPTION_TOKENIZER(field) \
	{ "tokenizer", 0, GT_OPT_STRING, field, "TOKENIZER", \
	    "tokenizer.json, or a folder with it or with GPT-2's vocab.json and merges.txt", \
	    .otherwise = "that of the run of --ckpt", .complete = GT_COMPLETE_FILE, \
	    .excludes = "vocab" }
#define GT_OPTION_MAP(field) \
	{ "map", 0, GT_OPT_LIST, field, "REGEX=REPLACEMENT", \
	    .help = "rename keys of the checkpoint; may be given several times" }
#define GT_OPTION_STRICT(field) \
	{ "strict", 0, GT_OPT_YESNO, field, \
	    .help = "no: list missing and unexpected keys, and continue", .initial = "yes", \
	    .flags = GT_OPT_INVERTED }
#define GT_OPTION_RANK_THREADS(field, most) \
	{ "threads", 0, GT_OPT_INT, field, "N", "number of threads that compute, on each rank", \
	    .otherwise = "OMP_NUM_THREADS, else the processors, divided among ranks", .min = 1, \
	    .max = most }
#define GT_OPTION_DEVICE(field, form, text, ...) \
	{ "device", 0, GT_OPT_STRING, field, form, text, .initial = "cpu", \
	    .words = gt_device_words, .complete = GT_COMPLETE_WORDS, ##__VA_ARGS__ }
#define GT_OPTION_AMP(field) \
	{ "amp", 0, GT_OPT_CHOICE, field, .words = gt_amp_names, .initial = "off", \
	    .help = "mixed precision: data type of products and convolutions" }
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
#define GT_OPTION_TENSOR(field) \
	{ "tensor-parallel", 0, GT_OPT_INT, field, "N", \
	    "number of ranks that share each layer, and hold a part of its weights", \
	    .initial = "1", .min = 1, .max = 256 }
#define GT_OPTION_RANK_PER_GPU .otherwise = "one per GPU of --device; 1 on the CPU"
#define GT_OPTION_BACKEND(field, ...) \
	{ "backend", 0, GT_OPT_CHOICE, field, .words = gt_comm_backend_names, .initial = "auto", \
	    .help = "how ranks exchange data; auto: shm, tcp or mpi, between GPUs nccl or ring", \
	    ##__VA_ARGS__ }
#define GT_OPTION_TIMEOUT(field, default_time, ...) \
	{ "timeout", 0, GT_OPT_DURATION, field, "TIME", \
	    "give up on a rank that does not respond within this time", .initial = default_time, \
	    .max = 1e6, .flags = GT_OPT_ABOVE, ##__VA_ARGS__ }
/* clang-format on */

#endif
