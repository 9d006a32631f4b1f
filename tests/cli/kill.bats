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
	sed 's/"\([a-z]*_\(per_\)\?s\|data_wait\)":[^,}]*[,}]//g' "$1"
}

@test "text with dropout and accumulation survives SIGKILL at random moments" {
	data=text:$ROOT/LICENSE
	survive --model "$GPT,dropout=0.2" --data "$data" --val-split 0.1 --batch 4 --accumulate 3 \
		--steps 120 --save-every 1 --log-every 1 --eval-every 40
}

@test "augmented images survive SIGKILL at random moments" {
	folders 30 a b
	data=images:images,channels=1,size=12
	survive --model lenet --data "$data" --val-split 0.2 --augment crop,flip --batch 16 --steps 150 \
		--optimizer sgd --save-every 2 --log-every 1 --workers 2 --keep 0
}

@test "SIGINT and SIGTERM finish the step, save and exit with 0; resumed, the bits are the same" {
	local signal options=(--model "$GPT,dropout=0.1" --data "text:$ROOT/LICENSE" --batch 8
		--steps 150 --log-every 1 --val-split 0.1)
	gtrain train "${options[@]}" --out whole -q
	equal "$status" 0
	for signal in INT TERM; do
		rm -rf "with $signal"
		start "${options[@]}" --out "with $signal"
		wait_for "with $signal/metrics.jsonl" '"step":7,'
		kill -"$signal" "$pid"
		wait "$pid"
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
