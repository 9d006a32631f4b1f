/* options.c - the options of `gtrain bench`. */
#include "cmd/bench/options.h"

#include "cmd/bench/train.h"
#include "lib/train/amp.h"
#include "lib/train/shared_options.h"
#include "lib/train/train.h"

const char *const gt_bench_train_modes[] = { [0] = "single",
	[1 + GT_PARALLEL_DDP] = "ddp",
	[1 + GT_PARALLEL_MIRRORED] = "mirrored",
	[1 + GT_PARALLEL_DP] = "dp",
	[1 + GT_PARALLEL_ZERO1] = "zero1",
	[1 + GT_PARALLEL_ZERO2] = "zero2",
	[1 + GT_PARALLEL_ZERO3] = "zero3",
	[1 + GT_PARALLEL_KINDS] = NULL };

/* clang-format off */
#define GT_BENCH_ROUNDS(cli_type, member, what) \
	{ "rounds", 0, GT_OPT_INT, GT_OPT_FIELD(cli_type, member), "N", \
	    "number of measurements of each " what, .initial = "5", .min = 1, \
	    .max = GT_BENCH_MAX_ROUNDS }
#define GT_BENCH_SECONDS(cli_type, member) \
	{ "seconds", 0, GT_OPT_DURATION, GT_OPT_FIELD(cli_type, member), "TIME", \
	    "length of a round in seconds; it has at least one run", .initial = "0.05", \
	    .flags = GT_OPT_ABOVE, .max = 3600 }

#define AT(member) GT_OPT_FIELD(struct gt_bench_allreduce_cli, member)

const struct gt_opt gt_bench_allreduce_options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	GT_OPTION_NPROC(AT(nproc),
	    "number of ranks (processes on this host)", .initial = "2"),
	{ "sizes", 0, GT_OPT_STRING, AT(sizes), "FROM..TO",
	    "sizes of the buffer in bytes, each twice the one before", .initial = "1K..256M" },
	GT_OPTION_DEVICE(AT(device), "LIST",
	    "devices of the ranks: cpu or cuda"),
	{ "dtype", 0, GT_OPT_CHOICE, AT(dtype), .help = "type of the elements",
	    .words = gt_bench_dtypes, .initial = "fp32" },
	{ "buffers", 0, GT_OPT_CHOICE, AT(buffers), .words = gt_bench_buffers,
	    .initial = "shared",
	    .help = "memory that all ranks share, as for gradients, or each rank's own" },
	{ "backend", 0, GT_OPT_STRING, AT(backends), "LIST", .words = gt_comm_backend_names,
	    .initial = "auto",
	    .help = "how ranks exchange data: auto, shm, ring, tcp, mpi, nccl; one or more" },
	{ "rounds", 0, GT_OPT_INT, AT(rounds), "N", "number of measurements of each size",
	    .initial = "5", .min = 1, .max = GT_BENCH_MAX_ROUNDS },
	GT_OPTION_TIMEOUT(AT(comm.timeout_s), "1m"),
	{ "csv", 0, GT_OPT_FLAG, AT(csv), .help = "print the table as comma-separated values",
	    .excludes = "json" },
	GT_CMD_COMMON(struct gt_bench_allreduce_cli),
	{ 0 }
};

#undef AT
#define AT(member) GT_OPT_FIELD(struct gt_bench_ckpt_cli, member)

const struct gt_opt gt_bench_ckpt_options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	{ "rounds", 0, GT_OPT_INT, AT(rounds), "N", "number of runs of each operation",
	    .initial = "3", .min = 1, .max = GT_BENCH_MAX_ROUNDS },
	{ "dir", 0, GT_OPT_STRING, AT(dir), "DIR", "folder for the files that are written",
	    .otherwise = "that of the checkpoint", .complete = GT_COMPLETE_DIR },
	{ "csv", 0, GT_OPT_FLAG, AT(csv), .help = "print the table as comma-separated values",
	    .excludes = "json" },
	GT_CMD_COMMON(struct gt_bench_ckpt_cli),
	{ 0 }
};

#undef AT
#define AT(member) GT_OPT_FIELD(struct gt_bench_gemm_cli, member)

const struct gt_opt gt_bench_gemm_options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	GT_OPTION_DEVICE(AT(device), "LIST",
	    "devices, one after the other: cpu, cuda, cuda:0,cuda:1"),
	{ "shapes", 0, GT_OPT_STRING, AT(shapes), "MxNxK[,...]",
	    "products of [M, K] and [K, N]", .otherwise = "M = N = K, and gpt2's products" },
	{ "dtype", 0, GT_OPT_STRING, AT(dtypes), "LIST",
	    "types of the matrices: fp32, tf32, fp16, bf16", .initial = "fp32,bf16,fp16" },
	GT_BENCH_ROUNDS(struct gt_bench_gemm_cli, rounds, "product"),
	GT_BENCH_SECONDS(struct gt_bench_gemm_cli, seconds),
	{ "csv", 0, GT_OPT_FLAG, AT(csv), .help = "print the table as comma-separated values",
	    .excludes = "json" },
	GT_CMD_COMMON(struct gt_bench_gemm_cli),
	{ 0 }
};

#undef AT
#define AT(member) GT_OPT_FIELD(struct gt_bench_copy_cli, member)

const struct gt_opt gt_bench_copy_options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	GT_OPTION_DEVICE(AT(device), "LIST",
	    "devices to measure, and all pairs of them: cpu, cuda, cuda:0,cuda:1"),
	{ "sizes", 0, GT_OPT_STRING, AT(sizes), "FROM..TO",
	    "sizes of a copy in bytes, each twice the one before", .initial = "64K..64M" },
	GT_BENCH_ROUNDS(struct gt_bench_copy_cli, rounds, "copy"),
	GT_BENCH_SECONDS(struct gt_bench_copy_cli, seconds),
	{ "csv", 0, GT_OPT_FLAG, AT(csv), .help = "print the table as comma-separated values",
	    .excludes = "json" },
	GT_CMD_COMMON(struct gt_bench_copy_cli),
	{ 0 }
};

#undef AT
#define AT(member) GT_OPT_FIELD(struct gt_bench_train_cli, member)

const struct gt_opt gt_bench_train_options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	{ "model", 0, GT_OPT_STRING, AT(model), "MODEL",
	    "model to train, as for gtrain train", .complete = GT_COMPLETE_MODEL,
	    .flags = GT_OPT_REQUIRED },
	{ "data", 0, GT_OPT_STRING, AT(data), "DATA",
	    "training data, as for gtrain train", .complete = GT_COMPLETE_DATA,
	    .flags = GT_OPT_REQUIRED },
	{ "batch", 0, GT_OPT_INT, AT(batch), "N", "samples that a device computes at once",
	    .initial = "64", .min = 1, .max = GT_TRAIN_MAX_BATCHES },
	{ "modes", 0, GT_OPT_STRING, AT(modes), "LIST", .words = gt_bench_train_modes,
	    .complete = GT_COMPLETE_WORDS, .initial = "single,ddp",
	    .help = "ways to train: single (one rank), ddp, mirrored, dp, zero1, zero2, zero3" },
	{ "nproc", 0, GT_OPT_STRING, AT(nproc), "LIST",
	    "numbers of ranks, for each mode but single", .initial = "1,2" },
	{ "amp", 0, GT_OPT_STRING, AT(amp), "LIST", .words = gt_amp_names,
	    .complete = GT_COMPLETE_WORDS, .initial = "off",
	    .help = "mixed precision: off, bf16, bf16-autocast, fp16" },
	GT_OPTION_DEVICE(AT(device), "LIST",
	    "devices to train on, one per rank: cpu, cuda, cuda:1, cuda:0,2"),
	GT_OPTION_RANK_THREADS(AT(threads), 4096),
	GT_BENCH_ROUNDS(struct gt_bench_train_cli, rounds, "row"),
	{ "steps", 0, GT_OPT_INT, AT(steps), "N", "steps of each run that are measured",
	    .initial = "20", .min = 1, .max = GT_BENCH_TRAIN_STEPS },
	{ "discard", 0, GT_OPT_INT, AT(discard), "N",
	    "steps at the beginning of each run that are not measured", .initial = "3",
	    .max = GT_BENCH_TRAIN_STEPS },
	{ "bound", 0, GT_OPT_DOUBLE, AT(bound), "F",
	    "a row below this fraction of the expected rate is degraded, and the exit status 1",
	    .initial = "0.8", .max = 1 },
	{ "dir", 0, GT_OPT_STRING, AT(dir), "DIR", "folder for temporary run directories",
	    .otherwise = "TMPDIR, or /tmp", .complete = GT_COMPLETE_DIR },
	{ "csv", 0, GT_OPT_FLAG, AT(csv), .help = "print the table as comma-separated values",
	    .excludes = "json" },
	{ "markdown", 0, GT_OPT_FLAG, AT(markdown), .help = "print the table as Markdown",
	    .excludes = "csv" },
	GT_CMD_COMMON(struct gt_bench_train_cli),
	{ 0 }
};

#undef AT
#define AT(member) GT_OPT_FIELD(struct gt_bench_loader_cli, member)

const struct gt_opt gt_bench_loader_options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	{ "data", 0, GT_OPT_STRING, AT(data), "DATA", "data set, as for gtrain train",
	    .complete = GT_COMPLETE_DATA, .flags = GT_OPT_REQUIRED },
	{ "model", 0, GT_OPT_STRING, AT(model), "MODEL",
	    "model that the samples are read for, as for gtrain train",
	    .complete = GT_COMPLETE_MODEL, .otherwise = "the samples have a form of their own" },
	{ "batch", 0, GT_OPT_INT, AT(batch), "N", "samples in a batch", .initial = "64", .min = 1,
	    .max = GT_TRAIN_MAX_BATCHES },
	{ "augment", 0, GT_OPT_STRING, AT(augment), "LIST",
	    "augmentation of images, as for gtrain train", .initial = "none",
	    .complete = GT_COMPLETE_AUGMENT },
	{ "workers", 0, GT_OPT_STRING, AT(workers), "LIST",
	    "numbers of threads that read; 0: the thread that takes the batches reads",
	    .initial = "0,1,2,4" },
	{ "prefetch", 0, GT_OPT_INT, AT(prefetch), "N", "number of batches that are kept ready",
	    .initial = "4", .min = 1, .max = 1024 },
	{ "step-rate", 0, GT_OPT_DOUBLE, AT(step_rate), "STEPS/S",
	    "steps per second that need a batch each; the exit status is 1 if no row has it",
	    .flags = GT_OPT_ABOVE, .max = 1e9 },
	GT_BENCH_ROUNDS(struct gt_bench_loader_cli, rounds, "row"),
	{ "seconds", 0, GT_OPT_DURATION, AT(seconds), "TIME",
	    "length of a round in seconds; it has at least one batch", .initial = "0.5",
	    .flags = GT_OPT_ABOVE, .max = 3600 },
	{ "csv", 0, GT_OPT_FLAG, AT(csv), .help = "print the table as comma-separated values",
	    .excludes = "json" },
	GT_CMD_COMMON(struct gt_bench_loader_cli),
	{ 0 }
};

#undef AT
#define AT(member) GT_OPT_FIELD(struct gt_bench_sweep_cli, member)

const struct gt_opt gt_bench_sweep_options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	{ "model", 0, GT_OPT_STRING, AT(train.model), "MODEL",
	    "model to train, as for gtrain train", .complete = GT_COMPLETE_MODEL,
	    .flags = GT_OPT_REQUIRED },
	{ "data", 0, GT_OPT_STRING, AT(train.data), "DATA",
	    "training data, as for gtrain train", .complete = GT_COMPLETE_DATA,
	    .flags = GT_OPT_REQUIRED },
	{ "batch", 0, GT_OPT_STRING, AT(batches), "LIST", "samples that a device computes at once",
	    .initial = "8,16,32,64,128" },
	{ "bucket-size", 0, GT_OPT_STRING, AT(buckets), "LIST",
	    "sizes of buckets, tried with the fastest batch on several ranks",
	    .initial = "1M,4M,16M,64M", .needs = { { "nproc" } } },
	{ "backend", 0, GT_OPT_STRING, AT(backends), "LIST", .words = gt_comm_backend_names,
	    .initial = "auto",
	    .help = "how ranks exchange data; others are tried with the fastest batch, bucket",
	    .needs = { { "nproc" } } },
	{ "parallel", 0, GT_OPT_CHOICE, AT(parallel), .words = gt_parallel_names,
	    .initial = "ddp", .help = "the way in which several ranks train" },
	{ "nproc", 0, GT_OPT_INT, AT(nproc), "N", "number of ranks", .initial = "1", .min = 1,
	    .max = GT_SHM_MAX_RANKS },
	{ "amp", 0, GT_OPT_CHOICE, AT(amp), .words = gt_amp_names, .initial = "off",
	    .help = "mixed precision: data type of products and convolutions" },
	GT_OPTION_DEVICE(AT(train.device), "LIST",
	    "devices to train on, one per rank: cpu, cuda, cuda:1, cuda:0,2"),
	GT_OPTION_RANK_THREADS(AT(train.threads), 4096),
	{ "rounds", 0, GT_OPT_INT, AT(train.rounds), "N", "number of runs of each row",
	    .initial = "3", .min = 1, .max = GT_BENCH_MAX_ROUNDS },
	{ "steps", 0, GT_OPT_INT, AT(train.steps), "N", "steps of each run that are measured",
	    .initial = "10", .min = 1, .max = GT_BENCH_TRAIN_STEPS },
	{ "discard", 0, GT_OPT_INT, AT(train.discard), "N",
	    "steps at the beginning of each run that are not measured", .initial = "3",
	    .max = GT_BENCH_TRAIN_STEPS },
	{ "dir", 0, GT_OPT_STRING, AT(train.dir), "DIR", "folder for temporary run directories",
	    .otherwise = "TMPDIR, or /tmp", .complete = GT_COMPLETE_DIR },
	{ "csv", 0, GT_OPT_FLAG, AT(train.csv),
	    .help = "print the table as comma-separated values", .excludes = "json" },
	GT_CMD_COMMON(struct gt_bench_sweep_cli),
	{ 0 }
};

#undef AT
#define AT(member) GT_OPT_FIELD(struct gt_bench_calibrate_cli, member)

const struct gt_opt gt_bench_calibrate_options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	{ "output", 'o', GT_OPT_STRING, AT(output), "FILE", "file for the measured rates",
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED },
	GT_OPTION_DEVICE(AT(device), "DEVICE", "device to measure: cpu, cuda, cuda:1"),
	GT_OPTION_NPROC(AT(nproc),
	    "ranks of the all-reduce, and that train together; 1: neither is measured",
	    .initial = "2"),
	GT_OPTION_RANK_THREADS(AT(threads), 4096),
	{ "model", 0, GT_OPT_STRING, AT(model), "MODEL",
	    "model whose ops are measured, as for gtrain train", .complete = GT_COMPLETE_MODEL,
	    .otherwise = "a small gpt, and resnet20" },
	{ "data", 0, GT_OPT_STRING, AT(data), "DATA", "data for --model, as for gtrain train",
	    .complete = GT_COMPLETE_DATA, .needs = { { "model" } }, .otherwise = "random" },
	{ "batch", 0, GT_OPT_INT, AT(batch), "N", "samples in a micro-batch of --model",
	    .needs = { { "model" } }, .initial = "16", .min = 1, .max = GT_TRAIN_MAX_BATCHES },
	{ "steps", 0, GT_OPT_INT, AT(steps), "N", "steps of each model that are measured",
	    .initial = "5", .min = 1, .max = 64 },
	GT_BENCH_ROUNDS(struct gt_bench_calibrate_cli, rounds, "product, copy and all-reduce"),
	{ "dir", 0, GT_OPT_STRING, AT(dir), "DIR", "folder for temporary run directories",
	    .otherwise = "TMPDIR, or /tmp", .complete = GT_COMPLETE_DIR },
	GT_CMD_COMMON(struct gt_bench_calibrate_cli),
	{ 0 }
};
/* clang-format on */
