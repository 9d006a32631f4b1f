#!/usr/bin/env bats
# far.bats - training, resuming and evaluating on a device that the host cannot touch: the CPU's bits.
# The device is tests/fake/far: a missing wait, a wrong stream or memory used too early ends the program with an error.

load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	export GTRAIN=$GTRAIN_TESTS/gtrain-far
	yes 'the quick brown fox jumps over the lazy dog' | head -60 >text.txt
}

# MODEL DATA OPTION...: train on both devices, and compare the run directories.
same() {
	local device

	rm -rf cpu far
	for device in cpu far; do
		gtrain train -q --nproc 1 --device $device --model "$1" --data "$2" --seed 3 --out "$device" "${@:3}"
		[ "$status" = 0 ] || { echo "$device: $err"; return 1; }
	done
	cmp cpu/model.pth far/model.pth
	cmp <(plain cpu) <(plain far)
}

# The metrics of a run but for times and memory.
plain() {
	sed -E 's/"(time_s|samples_per_s|tokens_per_s|data_wait|late|late_rank|mfu|wall_time|memory_bytes)": ?[0-9.e+-]+,?//g' "$1/metrics.jsonl"
}

@test "mlp: adamw, clipping, a short last batch" {
	same mlp:20,30,5 random:20/5,samples=50 --epochs 3 --batch 16 --optimizer adamw --clip 0.5
}

@test "lenet: momentum, micro-batches, workers" {
	same lenet random:,samples=64 --steps 6 --batch 8 --accumulate 2 --optimizer sgd --momentum 0.9 --workers 2
}

@test "batches in ordinary memory" {
	same lenet random:,samples=64 --steps 6 --batch 8 --workers 2 --pin-memory=no --val-split 0.2
}

@test "resnet20: running statistics, evaluation" {
	same resnet20 random:,samples=24 --steps 3 --batch 8 --val-split 0.3 --eval-every 2
}

@test "gpt: dropout, evaluation, checkpoints" {
	same gpt:layers=2,heads=2,width=32,block=16,dropout=0.1 text:text.txt --steps 8 --batch 4 --val-split 0.1 \
		--eval-every 3 --save-every 2
}

@test "resnet20 in float16: gradients overflow" {
	same resnet20 random:,samples=24 --steps 6 --batch 1 --amp fp16 --optimizer sgd --lr 0.01 --warmup 0 --val-split 0.3 \
		--save-every 2 --log-every 1
	grep -q '"grad_norm":null,"loss_scale":' far/metrics.jsonl
}

@test "a profile has the collectives of device memory, and the copies of batches" {
	gtrain train -q --nproc 2 --device far --model gpt:layers=2,heads=2,width=32,block=16 --data text:text.txt --batch 4 --steps 3 \
		--workers 1 --threads 1 --bucket-size 16K --profile wait=0,active=2 --out run
	equal "$status" 0
	equal "$(python3 "$ROOT/tests/common/check_trace.py" run/trace/rank-{0,1}.json.gz | uniq)" \
		"compute, copy stream, communicator data, loader thread 0; 14 arrows; bytes flops ranks scope share_of_limit"
}

@test "gpt in bfloat16: dropout, micro-batches" {
	same gpt:layers=2,heads=2,width=32,block=16,dropout=0.1 text:text.txt --steps 6 --batch 4 --accumulate 2 --amp bf16
}

@test "a run goes on from its checkpoint, on either device" {
	same gpt:layers=1,heads=2,width=16,block=8 text:text.txt --steps 4 --batch 4 --optimizer adamw
	for device in cpu far; do
		gtrain train -q --device $device --resume auto --out far --steps 8
		[ "$status" = 0 ] || { echo "$err"; return 1; }
		mv far/model.pth $device.pth
		rm far/checkpoints/step-00000008.pth
	done
	cmp cpu.pth far.pth
}

@test "metrics have the share of the device's peak rate, and the memory of the plan" {
	local case words=(--model "mlp:8,64,3" --data "random:8/3,samples=256" --batch 16 --accumulate 2 --device far)
	for case in "1 1e9" "2 1e9" "1 2e9 --amp bf16"; do
		# shellcheck disable=SC2086
		set -- $case
		rm -rf run
		gtrain train "${words[@]}" --nproc "$1" --threads 1 "${@:3}" --steps 20 --out run -q
		[ "$status" = 0 ] || { echo "$err"; return 1; }
		gtrain train "${words[@]}" --nproc "$1" "${@:3}" --dry-run --json
		jq -es --argjson plan "$out" --argjson ranks "$1" --argjson peak "$2" '.[-1] |
			(.memory_bytes == $plan.memory_bytes.total or $peak > 1e9) and .mfu > 0 and
			(.mfu * $peak / ($plan.flops_per_step * .samples_per_s / (32 * $ranks)) - 1 | fabs) < 0.01' \
			run/metrics.jsonl || { jq -c .memory_bytes <<<"$out"; cat run/metrics.jsonl; return 1; }
	done
}

@test "eval" {
	gtrain train -q --model lenet --data random:,samples=64 --steps 2 --batch 8 --out run
	for device in cpu far; do
		gtrain eval --json --device $device --ckpt run --data random:,samples=50 --batch 16
		[ "$status" = 0 ] || { echo "$err"; return 1; }
		sed -E 's/"seconds": ?[0-9.e+-]+//' <<<"$out" >$device.json
	done
	cmp cpu.json far.json
}

@test "a run that diverges" {
	for device in cpu far; do
		gtrain train -q --nproc 1 --device $device --model mlp:4,3,2 --data random --steps 9 --optimizer sgd --lr 1e30
		[ "$status" = 1 ]
		echo "$err" >$device.err
	done
	cmp cpu.err far.err
	grep -q 'at step 2' far.err
}

# MODE RANKS OPTION...: the same with ranks.
same_ranks() {
	same gpt:layers=2,heads=2,width=16,block=8,dropout=0.1 text:text.txt --steps 4 --batch 4 --clip 0.5 \
		--optimizer adamw --parallel "$1" --nproc "$2" "${@:3}" || { echo "$*"; return 1; }
}

@test "ranks that share the samples, in every mode" {
	for mode in $(option_words train parallel); do
		one_in 2 || continue
		same_ranks "$mode" 2 --accumulate 2
		same_ranks "$mode" 3 --val-split 0.1 --eval-every 2
	done
}

@test "ranks: compression, replicas compared, rings, checkpoints, Muon" {
	same_ranks ddp 2 --compress fp16 --check-replicas 2
	same_ranks ddp 4 --backend ring
	same_ranks zero1 2 --optimizer muon --save-every 2
	same_ranks ddp 2 --optimizer muon --tensor-parallel 2
	same_ranks zero2 2 --ema 0.9 --val-split 0.1 --eval-every 2
	same_ranks zero3 4 --reproducible
}

# bats test_tags=thorough
@test "ranks: running statistics, of each rank or of all" {
	same resnet20 random:,samples=24 --steps 2 --batch 4 --nproc 2 --val-split 0.3 --eval-every 1
	same resnet20 random:,samples=24 --steps 2 --batch 4 --nproc 2 --sync-bn --reproducible
	same resnet20 random:,samples=24 --steps 2 --batch 4 --nproc 2 --parallel dp --val-split 0.3
}

@test "ranks that share the model" {
	local gpt=gpt2:layers=2,heads=2,width=32,block=16

	same $gpt text:text.txt --steps 3 --batch 4 --nproc 4 --pipeline-parallel 2 --clip 1
	same $gpt text:text.txt --steps 3 --batch 4 --nproc 4 --tensor-parallel 2 --clip 1
}

@test "every mode is compared with one rank" {
	for device in cpu far; do
		gtrain train --verify-parallel --device $device --nproc 2 --model gpt:layers=2,heads=2,width=16,block=8 \
			--data text:text.txt --batch 4 --optimizer adamw
		[ "$status" = 0 ] || { echo "$err"; return 1; }
		echo "$out" >$device.txt
	done
	cmp cpu.txt far.txt
}

@test "bench allreduce adds up the memory of devices" {
	for words in "" "--buffers plain --dtype bf16" "--nproc 3"; do
		# shellcheck disable=SC2086
		gtrain bench allreduce --device far --sizes 1K..8K --rounds 1 --json $words
		equal "$status" 0
		jq -e '.backend == "staged" and (.rows | length) == 4 and
			all(.rows[]; .out_of_place.wrong == 0 and .in_place.wrong == 0)' <<<"$out"
	done
}

@test "--recompute=auto leaves room for the other ranks on the device" {
	use_isa # the batch is large
	gtrain train --device far:0 --nproc 2 --parallel mirrored --model gpt:layers=8,width=64,heads=2,block=64,vocab=64 \
		--data random --batch 256 --steps 1 --recompute=auto
	equal "$status" 0
	[[ $err == *"recomputes "[1-8]" of 8 blocks"* ]]
}

@test "checkpoints of a thread, and of which each rank writes a part" {
	saves --save-async --device far
	saves "--save-async --save-sharded" --device far --nproc 2 --parallel zero3
	saves --save-sharded --device far
}
