/* synonyms.c - words of torchrun, Lightning, transformers, accelerate, Keras and others. */
#include "cmd/synonyms.h"

#include <stddef.h>

/* The columns are those of struct gt_opt_synonym. The first row with a word counts, so a row for
 * one command stands above the row for all. */
/* clang-format off */
const struct gt_opt_synonym gt_cmd_synonyms[] = {
	/* generate, predict, eval, ckpt, data get */
	{ "max-tokens max-new-tokens max-length num-tokens n-tokens n-predict max-gen-len "
	  "length steps",
	    "tokens", NULL, NULL, NULL },
	{ "input text start query input-text prompt-text", "prompt", NULL, NULL, NULL },
	{ "interactive interactive-first conversation chat-mode cnv", "chat", NULL, NULL, NULL },
	{ "system-prompt sys system-message", "system", NULL, NULL, NULL },
	{ "temp", "temperature", NULL, NULL, NULL },
	{ "greedy no-sample deterministic", "temperature", "0", NULL, NULL },
	{ "nucleus top-prob", "top-p", NULL, NULL, NULL },
	{ "top-k", "top", NULL, NULL, "read" },
	{ "input inputs image images file files source",
	    "read", NULL,
	    "inputs are words without an option: gtrain predict --ckpt RUN INPUT...",
	    NULL },
	{ "output out output-file save-to",
	    "csv", NULL,
	    "results go to standard output: gtrain predict --csv ... > FILE",
	    "read" },
	{ "tasks benchmark", "task", NULL, NULL, NULL },
	{ "output out output-file save-predictions output-predictions",
	    "predictions", NULL, NULL, NULL },
	{ "checkpoint checkpoint-path ckpt-path ckpt-file weights load load-from load-weights "
	  "resume model-path run run-dir init-from from pretrained model-name-or-path restore",
	    "ckpt", NULL, NULL, NULL },
	{ "out output-file output-path save-path dest destination", "output", NULL, NULL, NULL },
	{ "format output-format export", "to", NULL, NULL, "weights-only" },
	{ "precision torch-dtype", "dtype", NULL, NULL, "weights-only" },
	{ "fp16 half float16", "dtype", "fp16", NULL, "weights-only" },
	{ "bf16 bfloat16", "dtype", "bf16", NULL, "weights-only" },
	{ "quantize quantization quant weight-dtype weight-type wtype",
	    "dtype", NULL, NULL, "prompt" },
	{ "load-in-8bit int8 q8", "dtype", "q8_0", NULL, "prompt" },
	{ "load-in-4bit int4 q4", "dtype", "q4_0", NULL, "prompt" },
	{ "load-in-8bit", "lora", NULL, "--lora r=8,alpha=16,frozen=q8_0", NULL },
	{ "load-in-4bit qlora", "lora", NULL, "--lora r=8,alpha=16,frozen=q4_0", NULL },
	{ "max-shard-size", "shard-size", NULL, NULL, NULL },
	{ "density", "ties", NULL, NULL, NULL },
	{ "base-model base-model-id", "base", NULL, NULL, NULL },
	{ "lora-r lora-rank r max-rank", "rank", NULL, NULL, "targets" },
	{ "target-modules include-regex lora-target-modules", "targets", NULL, NULL, NULL },
	{ "private-key public-key signing-key pubkey", "key", NULL, NULL, NULL },
	{ "signature sig", "output", NULL, NULL, "symlinks" },
	{ "sig signature-path model-sig", "signature", NULL, NULL, NULL },
	{ "ignore-paths exclude", "ignore", NULL, NULL, NULL },
	{ "allow-symlinks follow-symlinks", "symlinks", NULL, NULL, NULL },
	{ "output output-dir out out-dir dir folder data-dir root path dest cache-dir",
	    "to", NULL, NULL, "mirror" },
	{ "overwrite force-download redownload", "force", NULL, NULL, NULL },
	{ "interval refresh loop n", "watch", NULL, NULL, NULL },

	/* model, data */
	{ "arch architecture model-name network net model-type backbone model-name-or-path",
	    "model", NULL, NULL, NULL },
	{ "dropout drop drop-rate attention-dropout hidden-dropout hidden-dropout-prob "
	  "resid-pdrop",
	    "model", "NAME:dropout=P", NULL, "epochs" },
	{ "layers n-layer n-layers num-layers num-hidden-layers depth",
	    "model", "NAME:layers=N", NULL, "epochs" },
	{ "heads n-head n-heads num-heads num-attention-heads",
	    "model", "NAME:heads=N", NULL, "epochs" },
	{ "width n-embd hidden-size d-model embed-dim hidden-dim n-embed dim embedding-size",
	    "model", "NAME:width=N", NULL, "epochs" },
	{ "block block-size max-seq-length max-seq-len seq-len seq-length sequence-length "
	  "context-length max-length n-ctx n-positions model-max-length context-size",
	    "model", "NAME:block=N", NULL, "epochs" },
	{ "vocab vocab-size", "model", "NAME:vocab=N", NULL, "epochs" },
	{ "classes num-classes n-classes num-labels nb-classes",
	    "model", "NAME:classes=N", NULL, "epochs" },
	{ "dataset train-data train-file train-dir train-path train-dataset data-path data-dir "
	  "data-root dataset-name dataset-path root",
	    "data", NULL, NULL, NULL },
	{ "test-data test-file eval-data eval-file eval-dataset val-data val",
	    "data", NULL, NULL, "predictions" },
	{ "img-size image-size input-size resolution crop-size size resize",
	    "data", "images:FOLDER,size=N", NULL, NULL },
	{ "mean std normalize norm", "data", "images:FOLDER,mean=A/B/C,std=A/B/C", NULL, NULL },
	{ "target target-column label label-column labels class-column",
	    "data", "csv:FILE,target=COLUMN", NULL, NULL },
	{ "text-column text-column-name text-column-names sentence-column text-field",
	    "data", "labelled:FILE,text=NAME", NULL, NULL },
	{ "mlm mlm-probability mask-probability masked-lm", "data", "masked:FILE,rate=X", NULL,
	    NULL },
	{ "preference preferences preference-data chosen rejected", "data", "pairs:FILE", NULL,
	    NULL },
	{ "dpo dpo-beta preference-loss loss-type", "loss", "dpo", NULL, NULL },
	{ "ref-model reference-model model-ref", "loss",
	    NULL, "--loss dpo compares with the weights that the run begins with", NULL },
	{ "pack packing packed sample-packing use-packing", "data", "chat:FILE,pack=yes", NULL,
	    NULL },
	{ "sep delimiter separator", "data", "csv:FILE,sep=semicolon", NULL, NULL },
	{ "tokenizer tokenizer-name tokenizer-path tokenizer-file",
	    "data", "text:PATH,level=bpe,tokenizer=DIR", NULL, "epochs" },
	{ "tokenizer-name tokenizer-path tokenizer-file vocab-file",
	    "tokenizer", NULL, NULL, NULL },
	{ "val-data valid valid-data validation validation-data validation-file validation-set "
	  "eval-data eval-file eval-dataset test-data test-file val-dir val-file val-path "
	  "dev-file dev-data eval-path",
	    "val", NULL, NULL, NULL },
	{ "validation-split valid-split val-ratio val-size val-fraction val-percent valid-size "
	  "test-size test-split eval-split validation-split-percentage split holdout",
	    "val-split", NULL, NULL, NULL },
	{ "eval evaluate do-eval test do-test evaluation validate",
	    "val", NULL,
	    "--val DATA and --val-split F evaluate during training; 'gtrain eval --ckpt RUN "
	    "--data DATA' measures a run",
	    NULL },
	{ "do-train train",
	    "data", NULL,
	    "'gtrain train' needs no such option; --data DATA names the data",
	    "epochs" },

	/* the start of a run */
	{ "checkpoint checkpoint-path ckpt ckpt-path load load-checkpoint load-from "
	  "load-from-checkpoint",
	    "init-from", NULL,
	    "--resume CKPT continues a run; --init-from CKPT starts a new run from the weights",
	    NULL },
	{ "pretrained pretrained-model pretrained-weights pretrained-path from-pretrained "
	  "finetune finetune-from load-weights weights init-checkpoint init-ckpt init-weights "
	  "pretrained-model-name-or-path pretrained-checkpoint pretrain",
	    "init-from", NULL, NULL, NULL },
	{ "auto-resume continue resume-training restart", "resume", "auto", NULL, NULL },
	{ "resume-from resume-from-checkpoint resume-path resume-checkpoint restore "
	  "restore-from continue-from",
	    "resume", NULL, NULL, NULL },
	{ "config-file config-path cfg conf hparams yaml args-file hyperparameters params-file",
	    "config", NULL, NULL, NULL },
	{ "freeze-layers freeze-backbone frozen-layers linear-probe freeze-encoder "
	  "freeze-params",
	    "freeze", NULL, NULL, NULL },
	{ "lr-mult lr-multiplier backbone-lr layer-decay layer-lr-decay",
	    "lr-scale", NULL, NULL, NULL },
	{ "not-strict non-strict load-strict ignore-mismatched-sizes",
	    "strict", "no", NULL, NULL },
	{ "rename key-map mapping rename-keys", "map", NULL, NULL, NULL },

	/* amount of training */
	{ "global-batch-size total-batch-size effective-batch-size train-global-batch-size "
	  "effective-batch total-batch",
	    "global-batch", NULL, NULL, NULL },
	{ "batch-size train-batch-size per-device-train-batch-size per-gpu-train-batch-size "
	  "per-device-eval-batch-size per-device-batch-size per-gpu-batch-size eval-batch-size "
	  "val-batch-size test-batch-size train-micro-batch-size-per-gpu micro-batch-size "
	  "mini-batch-size minibatch local-batch-size bs samples-per-gpu",
	    "batch", NULL, NULL, NULL },
	{ "gradient-accumulation-steps gradient-accumulation accumulate-grad-batches "
	  "accumulation-steps accum-steps accum-iter grad-accum grad-accum-steps "
	  "grad-accumulation grad-accumulation-steps update-freq accum iter-size",
	    "accumulate", NULL, NULL, NULL },
	{ "max-epochs max-epoch num-epochs num-train-epochs n-epochs nb-epochs nb-epoch "
	  "total-epochs train-epochs epoch ep",
	    "epochs", NULL, NULL, NULL },
	{ "max-steps num-steps n-steps train-steps num-train-steps max-train-steps total-steps "
	  "training-steps max-iters max-iter max-iterations iterations num-iterations num-iters "
	  "n-iters train-iters total-iters iters iter max-updates max-update "
	  "total-training-steps",
	    "steps", NULL, NULL, NULL },
	{ "random-seed manual-seed rng-seed global-seed random-state seed-everything",
	    "seed", NULL, NULL, NULL },
	{ "deterministic use-deterministic-algorithms full-determinism cudnn-deterministic "
	  "determinism deterministic-algorithms",
	    "reproducible", NULL, NULL, NULL },
	{ "early-stopping early-stop early-stopping-patience early-stop-patience es-patience "
	  "stop-after",
	    "patience", NULL, NULL, NULL },

	/* numbers */
	{ "fp16 half float16 use-fp16 fp16-full-eval", "amp", "fp16", NULL, NULL },
	{ "bf16 bfloat16 use-bf16 bf16-full-eval", "amp", "bf16", NULL, NULL },
	{ "fp32 float32 no-amp no-fp16 full-precision", "amp", "off", NULL, NULL },
	{ "mixed-precision precision torch-dtype compute-dtype autocast use-amp data-type apex "
	  "amp-dtype amp-level half-precision",
	    "amp", NULL, NULL, NULL },
	{ "dtype", "amp", NULL, NULL, "batch" },
	{ "allow-tf32 use-tf32", "tf32", NULL, NULL, NULL },
	{ "gradient-checkpointing activation-checkpointing grad-checkpointing "
	  "checkpoint-activations recompute-activations recompute-granularity use-checkpoint "
	  "remat enable-gradient-checkpointing",
	    "recompute", NULL, NULL, NULL },

	/* optimizer and learning rate */
	{ "optim opt optimiser optimizer-name optimizer-type algorithm",
	    "optimizer", NULL, NULL, NULL },
	{ "*", "optimizer", NULL, NULL, NULL },
	{ "learning-rate base-lr base-learning-rate max-lr init-lr initial-lr peak-lr lrate "
	  "alpha blr",
	    "lr", NULL, NULL, NULL },
	{ "scheduler lr-scheduler lr-scheduler-type sched lr-policy lr-decay-style "
	  "scheduler-type decay-lr lr-sched cosine-schedule",
	    "lr-schedule", NULL, NULL, NULL },
	{ "cosine cos-lr", "lr-schedule", "cosine", NULL, NULL },
	{ "warmup-epochs warmup-ratio warmup-fraction warmup-proportion lr-warmup-epochs",
	    "warmup", NULL, "--warmup N counts steps", NULL },
	{ "warmup-steps num-warmup-steps lr-warmup-steps warmup-iters lr-warmup-iters "
	  "warmup-updates warmup-iterations n-warmup-steps",
	    "warmup", NULL, NULL, NULL },
	{ "lr-min lr-end eta-min end-lr final-lr min-learning-rate lr-final",
	    "min-lr", NULL, NULL, NULL },
	{ "lr-step-size step-size lr-decay-epochs lr-steps lr-drop", "lr-step", NULL, NULL, NULL },
	{ "gamma lr-decay lr-decay-rate decay-rate lr-decay-factor lr-factor",
	    "lr-gamma", NULL, NULL, NULL },
	{ "lr-decay-iters lr-decay-steps cooldown cooldown-steps",
	    "decay-steps", NULL, NULL, NULL },
	{ "wd l2 l2-reg weight-decay-rate regularization reg lambda",
	    "weight-decay", NULL, NULL, NULL },
	{ "mom sgd-momentum", "momentum", NULL, NULL, NULL },
	{ "adam-betas adam-beta1 adam-beta2 beta1 beta2 beta opt-betas optimizer-betas",
	    "betas", NULL, NULL, NULL },
	{ "epsilon adam-eps adam-epsilon opt-eps optimizer-eps", "eps", NULL, NULL, NULL },
	{ "clip-grad clip-grad-norm clip-gradients clip-norm grad-clip grad-clip-norm "
	  "grad-norm-clip gradient-clip gradient-clip-val gradient-clipping max-grad-norm "
	  "max-norm global-clipnorm clip-value",
	    "clip", NULL, NULL, NULL },
	{ "ema-decay model-ema model-ema-decay use-ema exponential-moving-average ema-rate "
	  "averaging",
	    "ema", NULL, NULL, NULL },

	/* devices and ranks */
	{ "cpu no-cuda use-cpu no-gpu", "device", "cpu", NULL, NULL },
	{ "cuda use-cuda use-gpu gpu", "device", "cuda", NULL, NULL },
	{ "gpus num-gpus n-gpus n-gpu gpu-ids gpu-id device-ids cuda-visible-devices devices "
	  "gpus-per-node num-devices visible-devices",
	    "device", NULL,
	    "--device cuda:0,cuda:1 names the devices, and starts one rank for each; --nproc N "
	    "starts N ranks",
	    "nproc" },
	{ "accelerator devices gpus platform", "device", NULL, NULL, NULL },
	{ "nproc-per-node procs-per-node processes-per-node",
	    "nproc", NULL,
	    "did you mean '--nproc N'? With torchrun: torchrun --no-python --nproc-per-node N "
	    "gtrain ...",
	    NULL },
	{ "num-processes num-procs nprocs world-size np ranks num-ranks n-ranks processes "
	  "num-process distributed-world-size n",
	    "nproc", NULL, NULL, NULL },
	{ "hostfile host host-list machines", "hosts", NULL,
	    "did you mean '--hosts a:8,b:8'? It starts ranks by ssh", NULL },
	{ "nnodes num-nodes num-machines nodes machine-rank node-rank master-addr master-port "
	  "main-process-ip main-process-port rdzv-endpoint rdzv-backend rdzv-id",
	    "nproc", NULL,
	    "torchrun, srun and mpirun start ranks on several hosts: torchrun --nnodes 2 --no-python "
	    "... gtrain ...; '--hosts a:8,b:8' does so by ssh",
	    "timeout" },
	{ "local-rank rank local-world-size",
	    "nproc", NULL,
	    "leave it out: gtrain takes its rank from the variables of the launcher",
	    "timeout" },
	{ "strategy distribute-strategy distribution-strategy distributed-strategy "
	  "parallel-mode sharding-strategy parallelism zero zero-stage zero-optimization stage "
	  "deepspeed distributed-type ddp-type",
	    "parallel", NULL, NULL, NULL },
	{ "ddp distributed-data-parallel data-parallel distributed multi-gpu",
	    "parallel", "ddp", NULL, NULL },
	{ "fsdp fsdp2 use-fsdp fully-sharded-data-parallel zero3",
	    "parallel", "zero3", NULL, NULL },
	{ "zero1 distributed-optimizer use-distributed-optimizer use-zero",
	    "parallel", "zero1", NULL, NULL },
	{ "zero2", "parallel", "zero2", NULL, NULL },
	{ "mirrored mirrored-strategy", "parallel", "mirrored", NULL, NULL },
	{ "dist-backend distributed-backend ddp-backend process-group-backend comm-backend",
	    "backend", NULL, NULL, NULL },
	{ "nccl use-nccl", "backend", "nccl", NULL, NULL },
	{ "gloo", "backend", "shm", NULL, NULL },
	{ "tensor-parallel-size tensor-model-parallel-size tensor-model-parallel tp tp-size "
	  "tp-degree tensor-parallel-degree",
	    "tensor-parallel", NULL, NULL, NULL },
	{ "pipeline-parallel-size pipeline-model-parallel-size pipeline-model-parallel pp "
	  "pp-size pipeline-parallel-degree",
	    "pipeline-parallel", NULL, NULL, NULL },
	{ "sp use-sequence-parallel", "sequence-parallel", NULL, NULL, NULL },
	{ "num-microbatches microbatches n-microbatches num-chunks", "chunks", NULL, NULL, NULL },
	{ "pipeline-schedule pp-schedule", "schedule", NULL, NULL, NULL },
	{ "bucket-cap-mb ddp-bucket-cap-mb reduce-bucket-size allreduce-bucket-size bucket",
	    "bucket-size", NULL, NULL, NULL },
	{ "fp16-allreduce fp16-compression", "compress", "fp16", NULL, NULL },
	{ "gradient-compression compression ddp-comm-hook comm-hook",
	    "compress", NULL, NULL, NULL },
	{ "sync-batchnorm use-sync-bn", "sync-bn", NULL, NULL, NULL },
	{ "ddp-broadcast-buffers", "broadcast-buffers", NULL, NULL, NULL },
	{ "ddp-timeout dist-timeout distributed-timeout nccl-timeout "
	  "distributed-timeout-minutes",
	    "timeout", NULL, NULL, NULL },
	{ "restarts num-restarts", "max-restarts", NULL, NULL, NULL },
	{ "num-threads n-threads intra-op-threads omp-num-threads num-cpu-threads-per-process "
	  "cpu-threads",
	    "threads", NULL, NULL, NULL },

	/* reading data */
	{ "num-workers n-workers data-workers loader-workers dataloader-num-workers "
	  "num-data-workers dataloader-workers",
	    "workers", NULL, NULL, NULL },
	{ "prefetch-factor dataloader-prefetch-factor prefetch-batches",
	    "prefetch", NULL, NULL, NULL },
	{ "pin-mem dataloader-pin-memory", "pin-memory", NULL, NULL, NULL },
	{ "dataloader-drop-last", "drop-last", NULL, NULL, NULL },
	{ "aug augmentation augmentations data-augmentation auto-augment aa transforms",
	    "augment", NULL, NULL, NULL },
	{ "mixup cutmix mixup-alpha", "augment", "mixup", NULL, NULL },
	{ "hflip horizontal-flip random-flip flip", "augment", "flip", NULL, NULL },
	{ "random-crop crop", "augment", "crop", NULL, NULL },
	{ "color-jitter jitter", "augment", "jitter", NULL, NULL },

	/* files and output */
	{ "output-dir output output-path out-dir save-dir save-path save-to save log-dir "
	  "exp-dir experiment experiment-name exp-name work-dir run-dir run-name name "
	  "default-root-dir checkpoint-dir checkpoints-dir ckpt-dir model-dir results-dir "
	  "result-dir dir project project-dir",
	    "out", NULL, NULL, NULL },
	{ "save-steps save-interval save-freq save-frequency save-period checkpoint-interval "
	  "checkpointing-steps checkpoint-every checkpoint-freq ckpt-interval ckpt-every "
	  "every-n-train-steps save-every-n-steps save-strategy",
	    "save-every", NULL, NULL, NULL },
	{ "save-total-limit total-limit keep-last keep-checkpoints max-checkpoints max-to-keep "
	  "save-top-k keep-checkpoint-max checkpoints-total-limit num-checkpoints",
	    "keep", NULL, NULL, NULL },
	{ "eval-steps eval-interval eval-freq eval-frequency eval-strategy evaluation-strategy "
	  "val-check-interval val-interval val-every val-freq check-val-every-n-epoch "
	  "test-interval validation-freq validate-every eval-every-n-steps",
	    "eval-every", NULL, NULL, NULL },
	{ "log-interval log-steps log-freq log-frequency log-every-n-steps logging-steps "
	  "logging-interval logging-strategy print-freq print-every print-interval "
	  "report-interval disp-interval steps-per-print",
	    "log-every", NULL, NULL, NULL },
	{ "profiler profiling", "profile", NULL, NULL, NULL },

	/* train: what gtrain does not have, or does unasked */
	{ "sample-weight sample-weights pos-weight", "class-weights", NULL, NULL, NULL },
	{ "label-smoothing smoothing label-smoothing-factor", "loss",
	    "cross-entropy:label-smoothing=X", NULL, NULL },
	{ "ignore-index", "loss", "cross-entropy:ignore-index=N", NULL, NULL },
	{ "criterion loss-fn loss-function objective", "loss", NULL, NULL, NULL },
	{ "mse-loss l2-loss", "loss", "mse", NULL, NULL },
	{ "l1-loss mae-loss", "loss", "l1", NULL, NULL },
	{ "bce-loss bce-with-logits multi-label", "loss", "bce", NULL, NULL },
	{ "huber-loss huber-delta", "loss", "huber", NULL, NULL },
	{ "metrics metric", "epochs", NULL,
	    "evaluations measure accuracy for classes, and errors and R2 for numbers, unasked", NULL },
	{ "wandb use-wandb wandb-project mlflow comet report-to logger loggers "
	  "logging-dir tb-dir callbacks tensorboard-dir",
	    "tensorboard", NULL,
	    "every run writes metrics.jsonl, a line of JSON for each report, into its folder; "
	    "--tensorboard adds a file for TensorBoard",
	    NULL },
	{ "compile torch-compile jit", "epochs", NULL,
	    "gtrain plans the whole graph before the first step; nothing is to be asked for",
	    NULL },
	{ "peft adapter adapters use-lora use-peft lora-r lora-rank lora-alpha lora-dropout "
	  "lora-target-modules lora-modules",
	    "lora", NULL, "--lora r=8,alpha=16,targets='*.[qv]_proj',dropout=0.05", NULL },
	{ "modules-to-save lora-modules-to-save additional-target", "lora", NULL,
	    "--lora r=8,alpha=16,train=classifier", NULL },
	{ "fast-dev-run plan summary dry", "dry-run", NULL, NULL, NULL },
	{ "silent disable-tqdm no-progress-bar no-progress q", "quiet", NULL, NULL, NULL },
	{ "debug verbosity log-level", "verbose", NULL, NULL, NULL },
	{ "no-color no-colour colour", "color", NULL, NULL, NULL },
	{ "usage", "help", NULL, NULL, NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};
/* clang-format on */

/* clang-format off */
const struct gt_cmd_habit gt_cmd_habits[] = {
	{ "fit run launch learn trainer start pretrain", "gtrain train --model MODEL --data DATA" },
	{ "finetune transfer", "gtrain train --init-from CKPT --data DATA" },
	{ "resume continue restart", "gtrain train --resume RUN" },
	{ "torchrun distributed ddp accelerate", "gtrain train --nproc N ..." },
	{ "dry-run summary estimate estimate-memory", "gtrain train --dry-run ..." },
	{ "recipe", "gtrain help recipes" },
	{ "test validate val evaluate score accuracy metrics measure",
	    "gtrain eval --ckpt RUN --data DATA" },
	{ "infer inference classify detect label", "gtrain predict --ckpt RUN INPUT..." },
	{ "sample complete completion prompt write", "gtrain generate --ckpt RUN --prompt TEXT" },
	{ "chat talk", "gtrain generate --ckpt RUN --chat" },
	{ "export to-hf to-safetensors save cast to-fp16 to-bf16",
	    "gtrain ckpt convert RUN -o OUT" },
	{ "average soup", "gtrain ckpt merge --average A B -o OUT" },
	{ "merge-adapter merge-and-unload export-lora",
	    "gtrain ckpt merge-lora MODEL --lora ADAPTER -o OUT" },
	{ "dare task-arithmetic mergekit", "gtrain ckpt merge A B --base CKPT -o OUT" },
	{ "extract-adapter mergekit-extract-lora extract svd",
	    "gtrain ckpt extract-lora TUNED --base BASE --rank R -o DIR" },
	{ "slerp interpolate", "gtrain ckpt merge A B --slerp 0.5 -o OUT" },
	{ "ties ties-merging dare-ties", "gtrain ckpt merge A B --base CKPT --ties 0.2 -o OUT" },
	{ "gguf llama.cpp", "gtrain ckpt convert RUN -o model.gguf" },
	{ "devices gpus gpu info env status monitor smi top list-devices nvidia-smi",
	    "gtrain probe" },
	{ "ls list inspect show keys list-tensors info print dump tree cat view summary",
	    "gtrain ckpt ls FILE" },
	{ "check validate-checkpoint scan repair fix validate", "gtrain ckpt verify FILE" },
	{ "compare", "gtrain ckpt diff A B" },
	{ "download fetch get pull", "gtrain data get NAME" },
	{ "datasets list-data list show available", "gtrain data ls" },
	{ "benchmark perf speed", "gtrain bench allreduce" },
	{ "models", "gtrain help models" },
	{ "version v", "gtrain --version" },
	{ "usage man", "gtrain help" },
	{ NULL, NULL },
};
/* clang-format on */
