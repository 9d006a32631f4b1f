#!/usr/bin/env bats
# eval_ranks.bats - gtrain eval on several ranks.
# shellcheck disable=SC2016,SC2054,SC2154 # code for others; commas in options; what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	cp "$ROOT"/LICENSE text.txt
	"$GTRAIN" train --model "$GPT" --data text:text.txt --steps 20 --batch 8 --lr 1e-2 --out text -q
	"$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 30 --out table -q
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

# rank N OF ARGUMENT...: gtrain eval as one rank that a launcher has started on this host.
rank() {
	RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=$2 LOCAL_WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
		"$GTRAIN" eval "${@:3}"
}

# With other numbers of threads, products may round in another way: oneDNN's do where there is no AVX-512.
@test "any number of ranks gives the same numbers to the last digit" {
	local run data batch nproc first
	for run in table text; do
		data=$RANDOM_DATA
		[ $run = table ] || data=text:text.txt
		for batch in 3 16 1000; do
			gtrain eval --ckpt $run --data "$data" --batch $batch --json --threads 1
			first=$out
			for nproc in 2 3 4; do
				gtrain eval --ckpt $run --data "$data" --batch $batch --json --threads 1 --nproc $nproc
				equal "$status" 0
				equal "$out" "$first"
				# What rank 0 says, and nothing else.
				equal "$(grep -c "weights from" <<<"$err")" 1
				equal "$(grep -c "rank" <<<"$err")" 0
			done
		done
	done
	gtrain eval --ckpt text --data text:text.txt --json --threads 1 --amp bf16
	first=$out
	gtrain eval --ckpt text --data text:text.txt --json --threads 1 --amp bf16 --nproc 3 --backend ring --workers 0
	equal "$out" "$first"
	gtrain eval --ckpt table --data "$RANDOM_DATA" --threads 1
	first=$out
	gtrain eval --ckpt table --data "$RANDOM_DATA" --threads 1 --nproc 2
	equal "$out" "$first"
}

@test "ranks that a launcher has started evaluate together, and rank 0 prints" {
	gtrain eval --ckpt table --data "$RANDOM_DATA" --json --threads 1
	local first=$out port=$((15000 + RANDOM % 15000))
	rank 1 2 --ckpt table --data "$RANDOM_DATA" --json --threads 1 >other &
	rank 0 2 --ckpt table --data "$RANDOM_DATA" --json --threads 1 >printed
	wait $!
	equal "$(cat printed)" "$first"
	equal "$(cat other)" ""
	port=$((15000 + RANDOM % 15000))
	rank 1 2 --ckpt table --data "$RANDOM_DATA" --batch 3 2>other &
	! rank 0 2 --ckpt table --data "$RANDOM_DATA" 2>errors || return
	! wait $! || return
	[[ $(cat other errors) == *"batch"* ]]
	command -v mpirun >/dev/null || return 0
	mpirun --allow-run-as-root --oversubscribe -n 2 "$GTRAIN" eval --ckpt table --data "$RANDOM_DATA" --json --threads 1 >printed
	equal "$(cat printed)" "$first"
}

@test "a rank that dies ends the evaluation, and a line names it" {
	local victim='' pid
	for ((i = 0; i < 2000; i++)); do cat "$ROOT"/LICENSE; done >long.txt # minutes, if nobody dies
	"$GTRAIN" eval --ckpt text --data text:long.txt --batch 1 --nproc 3 -q >out 2>err 3>&- &
	pid=$!
	for ((i = 0; i < 500; i++)); do
		for child in $(pgrep -P $pid); do
			tr '\0' '\n' <"/proc/$child/environ" 2>/dev/null | grep -qx RANK=1 && victim=$child
		done
		[ -z "$victim" ] || break
		sleep 0.01
	done
	sleep 0.5
	kill -KILL "$victim"
	status=0
	wait $pid || status=$?
	equal "$status" 1
	equal "$(cat out)" ""
	equal "$(grep -c "rank 1 was killed by SIGKILL" err)" 1
	(($(wc -l <err) <= 3))
	equal "$(pgrep -P $pid)" ""
}

@test "the rank that failed is named, not one that noticed it first" {
	python3 -c 'import struct
rows = [[i % 7, i % 5, i % 3] for i in range(64)]
rows[37][2] = float("nan")
def npy(shape, kind, data):
	head = str({"descr": kind, "fortran_order": False, "shape": shape})
	return b"\x93NUMPY\1\0" + struct.pack("<H", 118) + head.ljust(117).encode() + b"\n" + data
open("x.npy", "wb").write(npy((64, 3), "<f4", b"".join(struct.pack("<3f", *r) for r in rows)))
open("y.npy", "wb").write(npy((64,), "<i4", struct.pack("<64i", *[i % 2 for i in range(64)])))'
	local ranks=(--batch 24 --threads 1 --nproc 3 -q) fault="'x.npy': sample 37: feature 2 is nan"
	"$GTRAIN" train --model mlp:3,2 --data random:3/2,samples=8 --batch 8 --steps 1 --out three -q
	for _ in 1 2 3; do
		rm -rf run
		# The held-out samples are read after a step, when the run has begun and keeps its logs.
		gtrain train --model mlp:3,9,2 --data random:3/2,samples=24 --val npy:x.npy,target=y.npy "${ranks[@]}" \
			--steps 1 --out run
		equal "$status:$(grep -c "exited with" <<<"$err")" 1:1
		[[ $err == *"rank 1 exited with status 1; its log is run/log/rank-1.log"$'\n'"rank 1: gtrain: error: $fault"* ]]
		grep -q "$fault" run/log/rank-1.log
		gtrain eval --ckpt three --data npy:x.npy,target=y.npy "${ranks[@]}"
		equal "$status:$out" 1:
		[[ $err == *"rank 1 exited with status 1"$'\n'"rank 1: gtrain: error: $fault"* ]]
	done
}

@test "what ranks would refuse is refused once" {
	local words
	for words in "--ckpt missing" "--ckpt table --device cuda" "--ckpt table --model mlp:" \
		"--ckpt table --backend mpi"; do
		# shellcheck disable=SC2086 # words
		gtrain eval --data "$RANDOM_DATA" --nproc 3 $words
		((status == 1 || status == 2))
		equal "$out" ""
		equal "$(grep -c "error:" <<<"$err")" 1
	done
	for words in "" "--nproc 3"; do
		# shellcheck disable=SC2086 # words
		gtrain eval --ckpt table --data "$RANDOM_DATA" --map '(' $words
		equal "$status" 2
		equal "${err%%$'\n'*}" "gtrain: error: --map: '(' is not REGEX=REPLACEMENT"
		equal "$(wc -l <<<"$err")" 2
	done
	gtrain eval --ckpt table --data csv:missing.csv --nproc 3
	equal "$status" 1
	[[ $err == *"error: cannot open 'missing.csv'"* ]]
	gtrain eval --ckpt table --data "$RANDOM_DATA" --nproc 0
	equal "$status" 2
	gtrain eval --ckpt table --data "$RANDOM_DATA" --nproc 65
	equal "$status" 2
}
