/* options.c - the options of `gtrain train`. */
#include "cmd/train/options.h"

#include "cmd/ranks.h"
#include "cmd/recipes.h"

#include <math.h>

/* Where an option that the command alone reads goes, and one of the library's. */
#define AT(member)  GT_OPT_FIELD(struct gt_train_cli, member)
#define RUN(member) AT(train.member)
#define GIVEN(name) .given = { offsetof(struct gt_train_cli, train.given), GT_GIVEN_##name }

/* optim.beta1 and, behind it, optim.beta2. */
#define BETAS offsetof(struct gt_train_cli, train.optim.beta1), sizeof(double[2])

/* Options that defaults of others depend on. */
static const char *const optimizer[] = { "optimizer", NULL };
static const char *const highest[] = { "optimizer", "adjust-lr", NULL };
static const char *const rate[] = { "optimizer", "adjust-lr", "lr", "lr-schedule", NULL };
static const char *const length[] = { "steps", "epochs", "batch", "accumulate", NULL };
static const char *const fall[] = { "lr-schedule", "steps", "epochs", "batch", "accumulate", NULL };

/* Words that are a value beside the names of files. */
static const char *const resume_words[] = { "auto", NULL };

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "Model and data" },
	{ "model", 0, GT_OPT_STRING, RUN(model), "MODEL",
	    "model to train: NAME[:key=value,...], or a Hugging Face folder",
	    .otherwise = "--init-from, --config or --resume gives it",
	    .complete = GT_COMPLETE_MODEL, .flags = GT_OPT_REQUIRED },
	{ "data", 0, GT_OPT_STRING, RUN(data), "DATA",
	    "training data: KIND:PATH or NAME[,key=value...]; 'gtrain help data' lists them",
	    .otherwise = "--config or --resume gives it", .complete = GT_COMPLETE_DATA,
	    .flags = GT_OPT_REQUIRED },
	{ "val", 0, GT_OPT_STRING, RUN(val), "DATA", "data set for evaluations during training",
	    .otherwise = "no evaluations", .complete = GT_COMPLETE_DATA, .excludes = "val-split" },
	{ "val-split", 0, GT_OPT_DOUBLE, RUN(val_split), "F",
	    "hold out this fraction of the data for evaluation", .min = 0, .max = 1,
	    .flags = GT_OPT_ABOVE | GT_OPT_BELOW, .excludes = "val" },
	{ "init-from", 0, GT_OPT_STRING, RUN(init_from), "CKPT",
	    "start from the weights in a checkpoint, a run or a Hugging Face folder",
	    .complete = GT_COMPLETE_FILE, .excludes = "init" },
	{ "init", 0, GT_OPT_CHOICE, RUN(initial), .words = gt_initial_names,
	    .excludes = "init-from",
	    .otherwise = "the weights in the folder that --model names, if any",
	    .help = "random: start from random weights" },
	{ "map", 0, GT_OPT_LIST, RUN(load.map), "REGEX=REPLACEMENT",
	    .help = "rename keys of --init-from, or of another program's checkpoint for --resume; "
	            "may be given several times" },
	GT_CMD_NAMES(struct gt_train_cli, train.load.names, "keys of --init-from"),
	{ "strict", 0, GT_OPT_YESNO, RUN(load.lenient),
	    .help = "no: list missing and unexpected keys of --init-from, and continue",
	    .initial = "yes", .flags = GT_OPT_INVERTED },

	{ "freeze", 0, GT_OPT_LIST, RUN(freeze), "GLOB",
	    .help = "do not train parameters that match; !GLOB: those that do not match; may be "
	            "given several times" },
	{ "lr-scale", 0, GT_OPT_LIST, RUN(lr_scale), "GLOB=X",
	    .help = "multiply the learning rate of parameters that match by X; may be given "
	            "several times" },

	{ .type = GT_OPT_HEADING, .help = "Length and precision" },
	{ "epochs", 0, GT_OPT_INT, RUN(epochs), "N", "number of passes over the data",
	    .otherwise = "10, but at least 1000 steps for tables, unless --steps is given",
	    .min = 1, .max = 1e9, .excludes = "steps" },
	{ "steps", 0, GT_OPT_INT, RUN(steps), "N", "number of updates of the weights", .min = 1,
	    .max = 1e12,
	    .excludes = "epochs" },
	{ "batch", 0, GT_OPT_INT, RUN(batch), "N", "samples that a device computes at once",
	    .initial = "64", .min = 1, .max = GT_TRAIN_MAX_BATCHES },
	{ "accumulate", 0, GT_OPT_INT, RUN(accumulate), "N",
	    "micro-batches whose gradients are averaged into one step", .initial = "1", .min = 1,
	    .max = GT_TRAIN_MAX_BATCHES },
	{ "seed", 0, GT_OPT_INT, RUN(seed), "N",
	    "seed of all random numbers: initial weights, order of samples, dropout",
	    .initial = "0", .max = INFINITY },
	{ "reproducible", 0, GT_OPT_FLAG, RUN(parallel.reproducible),
	    .help = "give bit-identical results on 1, 2, 4 and 8 ranks" },
	{ "amp", 0, GT_OPT_CHOICE, RUN(amp), .words = gt_amp_names, .initial = "off",
	    .help = "mixed precision: data type of products and convolutions" },
	GT_CMD_TF32(struct gt_train_cli, train.tf32),

	{ .type = GT_OPT_HEADING, .help = "Optimizer" },
	{ "optimizer", 0, GT_OPT_CHOICE, RUN(optim.kind), .words = gt_optim_names,
	    .initial = "adamw",
	    .help = "rule that updates the weights" },
	{ "lr", 0, GT_OPT_DOUBLE, RUN(lr_schedule.lr), "X", "highest learning rate",
	    .otherwise = "depends on optimizer and model", .max = INFINITY, .flags = GT_OPT_ABOVE,
	    .follows = highest, GIVEN(LR) },
	{ "adam-lr", 0, GT_OPT_DOUBLE, RUN(adam_lr), "X",
	    "with muon: highest learning rate of parameters that adamw updates",
	    .otherwise = "depends on the model", .max = INFINITY, .flags = GT_OPT_ABOVE,
	    GIVEN(ADAM_LR) },
	{ "adjust-lr", 0, GT_OPT_CHOICE, RUN(optim.adjust_lr), .words = gt_adjust_lr_names,
	    .initial = "original",
	    .help = "with muon: how the learning rate depends on a matrix's shape" },
	{ "momentum", 0, GT_OPT_DOUBLE, RUN(optim.momentum), "X", "momentum of sgd and muon",
	    .otherwise = "0.9 for sgd, 0.95 for muon", .max = 1, .flags = GT_OPT_BELOW,
	    .follows = optimizer, GIVEN(MOMENTUM) },
	{ "nesterov", 0, GT_OPT_FLAG, RUN(optim.nesterov), .help = "Nesterov momentum in sgd",
	    GIVEN(NESTEROV) },
	{ "weight-decay", 0, GT_OPT_DOUBLE, RUN(optim.weight_decay), "X",
	    "weight decay: decoupled in adamw and muon, added to the gradient in sgd and adam",
	    .otherwise = "depends on optimizer and model", .max = INFINITY, .follows = optimizer,
	    GIVEN(WEIGHT_DECAY) },
	{ "betas", 0, GT_OPT_PAIR, BETAS, "A,B",
	    "decay of the running means of adam and adamw", .initial = "0.9,0.999", .max = 1,
	    .flags = GT_OPT_BELOW, GIVEN(BETAS) },
	{ "eps", 0, GT_OPT_DOUBLE, RUN(optim.eps), "X",
	    "small number that keeps adam and adamw from dividing by 0",
	    .initial = "1e-8", .max = INFINITY, .flags = GT_OPT_ABOVE, GIVEN(EPS) },
	{ "clip", 0, GT_OPT_DOUBLE, RUN(optim.clip), "X",
	    "scale gradients with a larger norm down to this norm; 0: never", .initial = "0",
	    .max = INFINITY },

	{ "ema", 0, GT_OPT_DOUBLE, RUN(ema), "X",
	    "keep a running mean of the weights with this decay, and evaluate it",
	    .otherwise = "none", .max = 1, .flags = GT_OPT_ABOVE | GT_OPT_BELOW },

	{ .type = GT_OPT_HEADING, .help = "Learning rate over time" },
	{ "lr-schedule", 0, GT_OPT_CHOICE, RUN(lr_schedule.kind), .words = gt_schedule_names,
	    .initial = "cosine", .help = "how the learning rate changes after the warm-up" },
	{ "warmup", 0, GT_OPT_INT, RUN(lr_schedule.warmup), "N",
	    "steps in which the learning rate rises from 0",
	    .otherwise = "100, at most a tenth of the steps", .max = 1e12, .follows = length,
	    GIVEN(WARMUP) },
	{ "min-lr", 0, GT_OPT_DOUBLE, RUN(lr_schedule.min_lr), "X",
	    "lowest learning rate after the warm-up",
	    .otherwise = "a tenth of --lr; 0 with step", .max = INFINITY, .follows = rate,
	    GIVEN(MIN_LR) },
	{ "lr-step", 0, GT_OPT_INT, RUN(lr_schedule.every), "N",
	    "with step: steps between two reductions of the learning rate",
	    .otherwise = "a third of the steps", .min = 1,
	    .max = 1e12, .follows = fall, GIVEN(LR_STEP) },
	{ "lr-gamma", 0, GT_OPT_DOUBLE, RUN(lr_schedule.gamma), "X",
	    "with step: factor of each reduction",
	    .initial = "0.1", .max = 1, .flags = GT_OPT_ABOVE },
	{ "decay-steps", 0, GT_OPT_INT, RUN(lr_schedule.decay), "N",
	    "with wsd: steps of the decay at the end", .otherwise = "a fifth of the steps",
	    .min = 1, .max = 1e12, .follows = fall, GIVEN(DECAY_STEPS) },

	{ .type = GT_OPT_HEADING, .help = "Machine and loading" },
	GT_CMD_DEVICE(struct gt_train_cli, train.device, "LIST",
	    "devices to train on, one per rank: cpu, cuda, cuda:1, cuda:0,2"),
	{ "threads", 0, GT_OPT_INT, AT(threads), "N",
	    "number of threads that compute, on each rank",
	    .otherwise = "1 with --reproducible, else OMP_NUM_THREADS, else the processors, "
	                 "divided among ranks",
	    .min = 1, .max = 4096 },
	{ "recompute", 0, GT_OPT_CHOICE, RUN(recompute), .words = gt_recompute_names,
	    .initial = "none", .implied = "all",
	    .help = "compute blocks again in the backward pass, to save memory; auto: as few as "
	            "needed" },
	{ "workers", 0, GT_OPT_INT, RUN(workers), "N",
	    "number of threads that read data; 0: the training thread reads", .initial = "2",
	    .max = 256 },
	{ "prefetch", 0, GT_OPT_INT, RUN(prefetch), "N", "number of batches that are kept ready",
	    .initial = "4", .min = 1, .max = 1024 },
	{ "pin-memory", 0, GT_OPT_YESNO, RUN(pageable), .initial = "yes",
	    .help = "read batches into memory that a GPU copies from while it computes",
	    .flags = GT_OPT_INVERTED },
	{ "drop-last", 0, GT_OPT_FLAG, RUN(drop_last),
	    .help = "leave out the last step of an epoch if it is short" },
	{ "augment", 0, GT_OPT_STRING, RUN(augment), "LIST",
	    "augmentation of images: NAME[:key=value...],...; 'gtrain help augment' lists them",
	    .initial = "none", .complete = GT_COMPLETE_AUGMENT },
	{ "strict-data", 0, GT_OPT_FLAG, RUN(strict_data),
	    .help = "stop at an image that cannot be decoded, instead of skipping it" },

	{ .type = GT_OPT_HEADING, .help = "Ranks" },
	GT_CMD_NPROC(struct gt_train_cli, train.nproc,
	    "number of ranks (processes or threads) that train together", GT_CMD_RANK_PER_GPU),
	{ "parallel", 0, GT_OPT_CHOICE, RUN(parallel.kind), .words = gt_parallel_names,
	    .initial = "ddp",
	    .help = "how ranks divide the work" },
	GT_CMD_BACKEND(struct gt_train_cli, comm.backend),
	{ "tensor-parallel", 0, GT_OPT_INT, RUN(parallel.tensor), "N",
	    "number of ranks that share each layer and read the same samples", .initial = "1",
	    .min = 1, .max = 256 },
	{ "sequence-parallel", 0, GT_OPT_FLAG, RUN(parallel.sequence),
	    .help = "with --tensor-parallel: also divide norms, residuals and dropout among the "
	            "ranks" },
	{ "bucket-size", 0, GT_OPT_SIZE, RUN(parallel.bucket_bytes), "SIZE",
	    "bytes of gradients that one collective sums", .initial = "25M", .min = 1, .max = INFINITY },
	{ "pipeline-parallel", 0, GT_OPT_INT, RUN(parallel.stages), "N",
	    "number of stages of a pipeline, each on its own ranks", .initial = "1",
	    .min = 1, .max = 256 },
	{ "chunks", 0, GT_OPT_INT, RUN(parallel.chunks), "N",
	    "number of chunks of a batch in a pipeline",
	    .otherwise = "the stages, or fewer if they do not divide the batch", .min = 1,
	    .max = 65536 },
	{ "schedule", 0, GT_OPT_CHOICE, RUN(parallel.pipeline_schedule),
	    .words = gt_pipeline_schedule_names, .initial = "1f1b",
	    .help = "order in which a stage of a pipeline computes the chunks" },
	{ "compress", 0, GT_OPT_CHOICE, RUN(parallel.compress), .words = gt_compress_names,
	    .initial = "none",
	    .help = "data type in which gradients are sent" },
	{ "sync-bn", 0, GT_OPT_FLAG, RUN(parallel.sync_bn),
	    .help = "compute batch normalization over the samples of all ranks" },
	{ "broadcast-buffers", 0, GT_OPT_YESNO, RUN(parallel.own_buffers), .initial = "yes",
	    .help = "no: every rank evaluates with running statistics of its own",
	    .flags = GT_OPT_INVERTED },
	{ "check-replicas", 0, GT_OPT_INT, RUN(parallel.check_every), "N",
	    "steps between comparisons of the ranks' weights; 0: never", .initial = "0",
	    .max = 1e12 },
	GT_CMD_TIMEOUT(struct gt_train_cli, comm.timeout_s, "10m"),
	{ "max-restarts", 0, GT_OPT_INT, AT(max_restarts), "N",
	    "restart all ranks from the last checkpoint, at most N times",
	    .initial = "0", .max = 1e6 },

	{ "verify-parallel", 0, GT_OPT_FLAG, AT(verify_parallel),
	    .help = "compare each parallel mode with one rank, and stop",
	    .flags = GT_OPT_ONCE },

	{ .type = GT_OPT_HEADING, .help = "Run directory" },
	{ "out", 0, GT_OPT_STRING, RUN(out), "DIR", "directory of the run",
	    .otherwise = "runs/MODEL-DATE-TIME", .complete = GT_COMPLETE_DIR,
	    .flags = GT_OPT_ONCE },
	{ "config", 0, GT_OPT_STRING, AT(config), "FILE|RECIPE",
	    "read options from a config.json or a recipe; the command line wins",
	    .words = gt_cmd_recipe_names, .complete = GT_COMPLETE_FILE,
	    .flags = GT_OPT_ONCE },
	{ "resume", 0, GT_OPT_STRING, RUN(resume), "auto|CKPT",
	    "continue from a checkpoint; auto: the latest in --out, if any",
	    .otherwise = "start a new run", .words = resume_words, .complete = GT_COMPLETE_FILE,
	    .flags = GT_OPT_ONCE },
	{ "save-every", 0, GT_OPT_INT, RUN(save_every), "N",
	    "steps between checkpoints; 0: only at the end", .initial = "1000", .max = 1e12 },
	{ "keep", 0, GT_OPT_INT, RUN(keep), "N", "number of checkpoints to keep; 0: all",
	    .initial = "3", .max = 1e9 },
	{ "eval-every", 0, GT_OPT_INT, RUN(eval_every), "N",
	    "steps between evaluations; 0: after each epoch", .initial = "0", .max = 1e12 },
	{ "patience", 0, GT_OPT_INT, RUN(patience), "N",
	    "stop after N evaluations without improvement; 0: never", .initial = "0",
	    .max = 1e9 },
	{ "log-every", 0, GT_OPT_INT, AT(log_every), "N", "steps between lines of metrics",
	    .initial = "10", .min = 1, .max = 1e12 },
	{ "profile", 0, GT_OPT_STRING, RUN(profile), "wait=N,warmup=N,active=N",
	    "record where the time of some steps goes; parts left out are wait=1, "
	    "warmup=1 and active=3",
	    .flags = GT_OPT_ONCE },
	{ "dry-run", 0, GT_OPT_FLAG, AT(dry_run), .help = "print the plan and stop",
	    .flags = GT_OPT_ONCE },

	GT_CMD_COMMON(struct gt_train_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_train_options(void)
{
	return table;
}
