#!/usr/bin/env bats
# bench_train.bats - gtrain bench train: rows, verdicts, output, refusals, status.

bats_require_minimum_version 1.5.0

setup() {
	load helpers
	export OMP_NUM_THREADS=1
	work=$BATS_TEST_TMPDIR/work
	mkdir "$work"
	tiny=(--model "mlp:16,8,4" --data random --batch 4 --rounds 1 --steps 4 --discard 2 --dir "$work")
}

bench() {
	gtrain bench train "${tiny[@]}" "$@"
	equal "$(ls "$work")" ""
}

# The columns of the table that do not depend on the machine: mode, ranks, amp.
rows() {
	jq -c '.rows[] | [.mode, .ranks, .amp]' <<<"$out" | tr -d '\n'
}

@test "a row for each precision, mode and number of ranks; single has one rank" {
	bench --modes single,ddp --nproc 2,1 --amp off,bf16 --bound 0 --json
	equal "$status" 0
	equal "$(rows)" '["single",1,"off"]["ddp",2,"off"]["ddp",1,"off"]["single",1,"bf16"]["ddp",2,"bf16"]["ddp",1,"bf16"]'
	equal "$(jq -c '[.batch, .steps, .discard, .rounds, .device]' <<<"$out")" '[4,4,2,1,"cpu"]'
}

@test "figures follow from each other: step time, speed-up, efficiency, expected rate" {
	bench --modes single,mirrored,zero1 --nproc 2 --bound 0 --json
	equal "$status" 0
	jq -e '(.rows[0].samples_per_s / (1 - .rows[0].data_wait)) as $one | .rows[0].samples_per_s as $measured |
		def near($a; $b): ($a - $b) | fabs < 1e-5 * $b;
		all(.rows[]; (4 * .ranks) as $samples |
			near(.samples_per_s * .step_s; $samples) and near(.speed_up; .samples_per_s / $measured) and
			near(.efficiency; .speed_up / .ranks) and near(.of_expected; .samples_per_s / .expected_samples_per_s) and
			.step_p25_s <= .step_s and .step_s <= .step_p75_s and .steps == 4 and .tokens_per_s == null and
			.memory_bytes > .planned_memory_bytes and .planned_memory_bytes > 0 and .verdict == "normal" and .cause == null) and
		.rows[0].allreduce_s == null and .rows[1].allreduce_s == .rows[2].allreduce_s and .rows[1].allreduce_s > 0' <<<"$out"
	# Two ranks of one thread use two processors if there are two.
	usable=$("$GTRAIN" probe --json | jq '[.cpu.usable, 2] | min')
	jq -e --argjson usable "$usable" '(.rows[0].samples_per_s / (1 - .rows[0].data_wait)) as $one |
		.rows[1] | (8 / (8 / ($one * $usable) + .allreduce_s) / .expected_samples_per_s - 1) | fabs < 1e-5' <<<"$out"
}

@test "a row below the bound is degraded by its wait for data, and the status is 1" {
	bench --modes single --bound 1 --json -- --workers 0
	equal "$status" 1
	equal "$(jq -c '.rows[0] | [.verdict, .cause, .data_wait > 0]' <<<"$out")" '["degraded","data wait",true]'
	bench --modes single --bound 1 --quiet -- --workers 0
	equal "$status" 1
	[[ $out == *"degraded: data wait" ]]
}

@test "combinations that train refuses have rows with the reason, beside the others" {
	bench --modes single,ddp --nproc 2 --quiet --markdown -- --pipeline-parallel 2
	equal "$status $err" "0 "
	equal "$(sed -n '2p;3p' <<<"$out")" \
		"| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| single | 1 | off |  |  |  |  |  |  |  |  | refused: --pipeline-parallel: 2 stages do not divide 1 rank |"
	[[ $(sed -n 4p <<<"$out") == "| ddp | 2 | off | "*" | not compared |" ]]
	bench --modes single,ddp --nproc 2 --json -- --pipeline-parallel 2
	equal "$(jq -c '[.rows[0].verdict, .rows[0].samples_per_s, .rows[1].speed_up]' <<<"$out")" '["refused",null,null]'
	# A step of both stages has the samples of one rank.
	jq -e '.rows[1] | (.samples_per_s * .step_s - 4) | fabs < 1e-4' <<<"$out"
}

@test "if all rows are refused, the command fails with the first reason" {
	bench --modes single -- --no-such 1
	equal "$status" 1
	equal "$err" "gtrain: error: no row could be measured: unknown option '--no-such'"
	[[ $out == *"refused: unknown option '--no-such'"* ]]
}

@test "a run that fails has a row with its error, and the status is 1" {
	bench --modes single --quiet --json -- --lr 1e30
	equal "$status" 1
	equal "$(jq -r '.rows[0].verdict' <<<"$out")" failed
	[[ $(jq -r '.rows[0].cause' <<<"$out") == *"at step"* ]]
	[[ $err == *"no row could be measured: "*"at step"* ]]
}

@test "text, CSV and Markdown have the same rows" {
	bench --modes single,ddp --nproc 2 --bound 0 --quiet
	equal "$status" 0
	equal "$(head -1 <<<"$out")" "mlp:16,8,4 on random, batch 4, cpu; medians of 4 steps"
	equal "$(awk 'NR > 2 { print $1, $2, $3, $NF }' <<<"$out")" $'single 1 off normal\nddp 2 off normal'
	bench --modes single,ddp --nproc 2 --bound 0 --quiet --csv
	equal "$(cut -d, -f1-3,18 <<<"$out")" $'mode,ranks,amp,verdict\nsingle,1,off,normal\nddp,2,off,normal'
	equal "$(awk -F, '{ print NF }' <<<"$out" | sort -u)" 19
	bench --modes single,ddp --nproc 2 --bound 0 --quiet --markdown
	equal "$(grep -c '^| .* |$' <<<"$out")" 4
	equal "$(awk -F'|' '{ print NF }' <<<"$out" | sort -u)" 14
}

@test "a language model is measured in tokens" {
	gtrain bench train --model gpt:layers=1,heads=1,width=8,block=16,vocab=32 --data random --batch 2 --modes single --rounds 1 --steps 2 --discard 1 --bound 0 --json
	equal "$status" 0
	jq -e '.rows[0] | .tokens_per_s / .samples_per_s == 16' <<<"$out"
}

@test "a signal ends the ranks; the rows that are done are printed" {
	"$GTRAIN" bench train "${tiny[@]}" --modes single,ddp --nproc 2 --rounds 100 --csv >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" &
	until grep -q "round 2 of 100: ddp" "$BATS_TEST_TMPDIR/err"; do
		kill -0 $!
		sleep 0.05
	done
	kill -TERM $!
	status=0
	wait $! || status=$?
	equal "$status" 143
	equal "$(cut -d, -f1,2 "$BATS_TEST_TMPDIR/out")" $'mode,ranks\nsingle,1\nddp,2'
	equal "$(ls "$work")" ""
	run ! pgrep -f "$work"
}

@test "a signal ends a run that would take minutes" {
	"$GTRAIN" bench train --model mlp:1024,1024,1024,4 --data random --modes ddp --nproc 2 --steps 10000 --dir "$work" --csv \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" &
	until [[ -s $(echo "$work"/*/run/metrics.jsonl) ]]; do
		kill -0 $!
		sleep 0.05
	done
	began=$SECONDS
	kill -INT $!
	status=0
	wait $! || status=$?
	equal "$status" 130
	((SECONDS - began < 60))
	equal "$(cut -d, -f1,2,18 "$BATS_TEST_TMPDIR/out")" $'mode,ranks,verdict\nddp,2,not measured'
	equal "$(ls "$work")" ""
	run ! pgrep -f "$work"
}

@test "bad values" {
	for words in "--modes pipeline" "--modes single,single" "--amp fp64" "--nproc 0" "--nproc 1,,2" "--nproc 2,2" "--nproc 65" \
		"--bound 1.5" "--steps 0" "--rounds 0" "--markdown --csv" "--markdown --json" "-- --steps 3" "-- --nproc=3" "-- --"; do
		# shellcheck disable=SC2086
		bench $words
		equal "$words: $status $out" "$words: 2 "
		[[ $err == "gtrain: error: "* ]]
	done
	bench --nproc 1,x
	equal "$err" "gtrain: error: --nproc: 'x' is not a number from 1 to 64
hint: as in --nproc 1,2,4"
	bench -- --out here
	equal "$err" "gtrain: error: --out cannot be handed on to gtrain train
hint: options before '--' choose model, data, modes, ranks and steps"
	gtrain bench train --model mlp
	equal "$status" 2
	gtrain bench train --model mlp:2,2 --data random --dir "$work/none"
	equal "$status" 1
	[[ $err == *"cannot make the folder '$work/none/"* ]]
}

@test "the modes are those of train, and single" {
	equal "$(option_words "bench train" modes)" "single
$(option_words train parallel)"
}

@test "bench sweep: batches first, then bucket sizes with the fastest, and its command line" {
	gtrain bench sweep --model "mlp:16,8,4" --data random --batch 4,8 --bucket-size 4K,1M --nproc 2 --rounds 1 --steps 3 --discard 1 --dir "$work" --json -- --seed 1
	equal "$status:$(ls "$work")" "0:"
	jq -e '(.rows | length) == 4 and [.rows[:2][].batch] == [4, 8] and [.rows[].bucket_bytes] == [null, null, 4096, 1048576] and
		(.rows[:2] | max_by(.samples_per_s).batch) as $best | all(.rows[2:][]; .batch == $best) and
		([.rows[] | select(.fastest)] | length) == 1 and (.rows | max_by(.samples_per_s).fastest) and
		all(.rows[]; (.samples_per_s * .step_s / (2 * .batch) - 1 | fabs) < 1e-4 and .memory_bytes > 0 and .why == null)' <<<"$out"
	# The command line is that of a run.
	line=$(jq -r .command <<<"$out")
	[[ $line == "gtrain train --seed 1 --model mlp:16,8,4 --data random --batch "*" --parallel ddp --nproc 2 --amp off --device cpu" ]]
	# shellcheck disable=SC2086
	gtrain ${line#gtrain } --dry-run
	equal "$status" 0
	gtrain bench sweep --model "mlp:16,8,4" --data random,samples=64 --batch 4,5 --rounds 1 --steps 2 --discard 0 --dir "$work" -q -- --global-batch 8
	equal "$status" 0
	[[ $out == *"4  default"*"fastest"*"5  default"*"refused"*"batch 5 refused: --global-batch 8 is not --batch 5 x 1 rank"*"gtrain train --global-batch 8 "* ]]
	equal "$(head -n -1 <<<"$out" | awk 'length > 80')" "" # but for the command
	# A step has no more samples than the data.
	gtrain bench sweep --model "mlp:16,8,4" --data random,samples=64 --batch 100 --rounds 1 --steps 1 --discard 0 --dir "$work" -q --csv
	equal "$status" 0
	python3 -c 'import csv, sys
row, = csv.DictReader(sys.argv[1].splitlines())
assert abs(float(row["samples_per_s"]) * float(row["step_s"]) / 64 - 1) < 1e-4 and row["fastest"] == "true", row' "$out"
	gtrain bench sweep --model "mlp:16,8,4" --data random,samples=64 --batch 4 --bucket-size 1M --backend shm,tcp,nccl --nproc 2 --rounds 1 --steps 2 \
		--discard 0 --dir "$work" --json
	equal "$status" 0
	jq -e '[.rows[].backend] == ["shm", "shm", "tcp", "nccl"] and .rows[3].why != null and all(.rows[:3][]; .samples_per_s > 0) and
		([.rows[] | select(.fastest)][0].backend as $best | .command | contains("--backend " + $best))' <<<"$out"
	gtrain bench sweep --model mlp --data random -- --backend shm
	equal "$status:${err%%$'\n'*}" "2:gtrain: error: --backend cannot be handed on to gtrain train"
	gtrain bench sweep --model mlp --data random -- --bucket-size 1M
	equal "$status:${err%%$'\n'*}" "2:gtrain: error: --bucket-size cannot be handed on to gtrain train"
	for option in "--backend shm" "--bucket-size 1M"; do
		# shellcheck disable=SC2086 # an option and its value
		gtrain bench sweep --model mlp --data random $option
		equal "$status:${err%%$'\n'*}" "2:gtrain: error: ${option% *} has no effect with these options"
	done
}
