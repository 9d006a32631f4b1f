/* options.c - the options of `gtrain bench`. */
#include "cmd/bench/options.h"

#include "lib/train/shared_options.h"

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
	    .help = "how ranks exchange data: auto, shm, ring, mpi, nccl; one or more" },
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
/* clang-format on */
