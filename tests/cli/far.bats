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

	for device in cpu far; do
		gtrain train -q --device $device --model "$1" --data "$2" --seed 3 --out "$device" "${@:3}"
		[ "$status" = 0 ] || { echo "$device: $err"; return 1; }
	done
	cmp cpu/model.pth far/model.pth
	cmp <(plain cpu) <(plain far)
}

# The metrics of a run but for times.
plain() {
	sed -E 's/"(time_s|samples_per_s|tokens_per_s)": ?[0-9.e+-]+//g' "$1/metrics.jsonl"
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
		gtrain train -q --device $device --model mlp:4,3,2 --data random --steps 9 --optimizer sgd --lr 1e30
		[ "$status" = 1 ]
		echo "$err" >$device.err
	done
	cmp cpu.err far.err
	grep -q 'at step 2' far.err
}
