#!/usr/bin/env bats
# kill.bats - runs that are stopped, killed at any moment, and resumed: the same bits as never stopped.
# shellcheck disable=SC2016,SC2054,SC2154,SC2012 # code for others; commas in options; what helpers set; ls sorts

bats_require_minimum_version 1.5.0
load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# start ARGUMENT...: gtrain train in the background; $pid.
start() {
	"$GTRAIN" train "$@" >out 2>err 3>&- &
	pid=$!
}

# The same with SIGINT as at a terminal: a shell starts what it puts in the background with SIGINT ignored.
start_afresh() {
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$GTRAIN" train "$@" >out 2>err 3>&- &
	pid=$!
}

# wait_for FILE PATTERN: until a line of the file matches.
wait_for() {
	local i
	for ((i = 0; i < 500; i++)); do
		grep -qs -e "$2" "$1" && return
		sleep 0.02
	done
	echo "no '$2' in $1"
	cat err
	return 1
}

# readable FILE...: whole and well-formed, as eval sees it.
readable() {
	local f
	for f in "$@"; do
		[ -e "$f" ] || continue
		"$GTRAIN" eval --ckpt "$f" --data "$data" -q >/dev/null || return
	done
}

# survive ARGUMENT...: train in `whole` undisturbed, in `run` under random kills; the ends are equal.
survive() {
	local seed=$((RANDOM)) kills=0 sleep_ms
	echo "seed of the kills: $seed"
	RANDOM=$seed
	"$GTRAIN" train "$@" --out whole -q
	for ((;;)); do
		start "$@" --out run --resume auto -q
		((kills < 12)) || break
		sleep_ms=$((30 + RANDOM % 170))
		sleep "$(printf "0.%03d" "$sleep_ms")"
		if ! kill -KILL "$pid" 2>/dev/null; then
			((kills == 0)) || break
			rm -rf run # it was over before anything happened: once more
			continue
		fi
		wait "$pid" || true
		((++kills))
		readable run/checkpoints/*.pth run/best.pth run/model.pth
	done
	wait "$pid"
	echo "killed $kills times"
	((kills > 0))
	cmp whole/model.pth run/model.pth
	[ ! -e whole/best.pth ] || cmp whole/best.pth run/best.pth
	cmp "whole/checkpoints/$(ls whole/checkpoints | tail -1)" "run/checkpoints/$(ls run/checkpoints | tail -1)"
	equal "$(find run -name '*.tmp-*')" ""
	lines run/metrics.jsonl '[x["step"] for x in t] == list(range(1, 1 + len(t)))
		and len({x["step"] for x in v}) == len(v)'
	# But for the clock, the record is the same.
	equal "$(untimed run/metrics.jsonl)" "$(untimed whole/metrics.jsonl)"
}

untimed() {
	sed 's/"\([a-z]*_\(per_\)\?s\|data_wait\|wall_time\|memory_bytes\)":[^,}]*[,}]//g' "$1"
}

@test "text with dropout and accumulation survives SIGKILL at random moments" {
	data=text:$ROOT/LICENSE
	survive --model "$GPT,dropout=0.2" --data "$data" --val-split 0.1 --batch 4 --accumulate 3 \
		--steps 120 --save-every 1 --log-every 1 --eval-every 40
}

# bats test_tags=thorough
@test "augmented images survive SIGKILL at random moments" {
	folders 30 a b
	data=images:images,channels=1,size=12
	survive --model lenet --data "$data" --val-split 0.2 --augment crop,flip --batch 16 --steps 150 \
		--optimizer sgd --save-every 2 --log-every 1 --workers 2 --keep 0
}

@test "SIGINT, SIGTERM and SIGHUP finish the step, save and end the process; resumed, the bits are the same" {
	local signal options=(--model "$GPT,dropout=0.1" --data "text:$ROOT/LICENSE" --batch 8
		--steps 150 --log-every 1 --val-split 0.1)
	gtrain train "${options[@]}" --out whole -q
	equal "$status" 0
	for signal in INT TERM HUP; do
		rm -rf "with $signal"
		start "${options[@]}" --out "with $signal"
		wait_for "with $signal/metrics.jsonl" '"step":7,'
		kill -"$signal" "$pid"
		status=0
		wait "$pid" || status=$?
		equal "$status" "$((128 + $(kill -l $signal)))"
		grep -q "go on with: gtrain train --resume auto --out 'with $signal'" err
		lines "with $signal/metrics.jsonl" "len(t) < 150"
		equal "$(ls "with $signal/checkpoints")" "$(printf 'step-%08d.pth' \
			"$(sed -n 's/^stopped after step \([0-9]*\) of .*/\1/p' err)")"
		sh -c "${GTRAIN%/*}/$(sed -n 's/.*go on with: //p' err) --quiet"
		cmp whole/model.pth "with $signal/model.pth"
		cmp whole/best.pth "with $signal/best.pth"
		equal "$(untimed "with $signal/metrics.jsonl")" "$(untimed whole/metrics.jsonl)"
	done
}

@test "a second signal stops at once" {
	data=text.txt
	cat "$ROOT"/lib/train/*.c >$data
	start --model gpt:layers=2,width=128,block=64 --data text:$data --batch 64 --accumulate 400 \
		--steps 1000 --out run
	wait_for run/config.json '}' # the step takes very long
	sleep 0.3
	kill -INT "$pid"
	sleep 0.3
	kill -0 "$pid"
	kill -INT "$pid"
	wait "$pid" || status=$?
	equal "$status" 130
	equal "$(tail -n 1 err)" "warning: stopped at once: nothing was saved"
	# a checkpoint of step 1, and a step 2 that takes very long
	gtrain train --model gpt:layers=2,width=128,block=64 --data text:$data --batch 64 --steps 1 --out run -q
	equal "$status" 0
	start --resume auto --out run --steps 1000 --accumulate 400
	wait_for err 'the run ends at step'
	sleep 0.5
	kill -INT "$pid"
	sleep 0.3
	kill -INT "$pid"
	status=0
	wait "$pid" || status=$?
	equal "$status" 130
	equal "$(tail -n 1 err)" "warning: stopped at once: nothing was saved since the checkpoint of step 1"
}

@test "a run with ranks ends by the signal, after saving or at once" {
	local signal number
	for signal in INT TERM HUP; do
		number=$(kill -l $signal)
		start_afresh --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 1000000 --nproc 2 --max-restarts 2 \
			--log-every 1000 --out "run-$signal"
		wait_for "run-$signal/metrics.jsonl" '"step":1000,'
		kill -"$signal" "$pid"
		status=0
		wait "$pid" || status=$?
		equal "$status" "$((128 + number))"
		grep -q "^stopped after step .*, saved; go on with" err
		[[ $(<err) != *warning* ]]
	done
	start_afresh --model gpt:layers=2,width=128,block=64 --data "text:$ROOT/lib/train/open.c" --batch 64 --accumulate 400 \
		--steps 1000 --nproc 2 --out slow
	wait_for slow/config.json '}'
	sleep 0.3
	kill -INT "$pid"
	sleep 0.3
	kill -INT "$pid"
	status=0
	wait "$pid" || status=$?
	equal "$status" 130
	equal "$(tail -n 2 err)" "warning: asked a second time: the ranks are killed
warning: nothing was saved"
}

@test "under nohup, SIGHUP does not end a run" {
	nohup "$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 1000000 --log-every 1000 --out run \
		>out 2>err 3>&- &
	pid=$!
	wait_for run/metrics.jsonl '"step":1000,'
	kill -HUP "$pid"
	wait_for run/metrics.jsonl "\"step\":$(($(wc -l <run/metrics.jsonl) * 1000 + 2000)),"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	equal "$status" 143
}

# A shell that gets SIGINT with its command ends only if the command ends by SIGINT.
@test "Ctrl-C ends the loop or the list that a run is in" {
	cat >loop.sh <<-EOF
		for seed in 1 2 3; do
			"$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --steps 1000000 --log-every 1000 --seed \$seed --out seed-\$seed && echo and
			echo after
		done
	EOF
	python3 "$ROOT/tests/common/terminal.py" 24 1 "step 1000/" bash loop.sh >said || status=$?
	[[ $(<said) == *"stopped after step"*"go on with"* ]]
	[[ $(<said) != *after$'\r\n'* && $(<said) != *and$'\r\n'* ]]
	[ -e seed-1 ] && [ ! -e seed-2 ]
}

@test "--resume auto in an empty directory begins, with a file it goes on elsewhere" {
	local options=(--model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --log-every 1 -q)
	mkdir run
	gtrain train "${options[@]}" --steps 20 --save-every 6 --keep 0 --out run --resume auto
	equal "$status" 0
	equal "$(echo run/checkpoints/*)" "$(printf 'run/checkpoints/step-%08d.pth ' 6 12 18)run/checkpoints/step-00000020.pth"
	gtrain train --config run/config.json --resume run/checkpoints/step-00000012.pth --out other -q
	equal "$status" 0
	cmp run/model.pth other/model.pth
	lines other/metrics.jsonl '[x["step"] for x in t] == list(range(13, 21))'
	gtrain train "${options[@]}" --steps 20 --resume run/model.pth --out third
	equal "$status" 1
	equal "$err" "gtrain: error: run/model.pth: no training checkpoint: it has no state of an optimizer
hint: --init-from starts a new run from its weights alone"
	gtrain train "${options[@]}" --resume auto
	equal "$status" 2
	[ ! -e third ] && [ ! -e runs ]
}
