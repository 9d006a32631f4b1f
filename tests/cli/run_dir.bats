#!/usr/bin/env bats
# run_dir.bats - a run directory from a stranger: nothing outside is written, nothing hangs, no line is lost.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

# A finished run of two steps, and files that lie outside of it.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	head -c 2000 "${BATS_TEST_DIRNAME}/../../LICENSE" >text.txt
	"$(realpath "${GTRAIN:-build/gtrain}")" train --model gpt:layers=1,heads=1,width=8,block=8 \
		--data text:text.txt --batch 4 --steps 2 --val-split 0.2 --log-every 1 --ema 0.9 --out base -q
	mkdir -p base/log base/trace outside/folder
	touch base/log/rank-0.log base/trace/rank-0.json.gz outside/folder/events.out.tfevents.1
	for name in config.json metrics.jsonl status.json details.json vocab.json model.pth best.pth model_ema.pth; do
		cp base/$name outside/folder/
	done
	cp base/checkpoints/*.pth outside/folder/
	echo precious >outside/folder/rank-0.log
	cp outside/folder/rank-0.log outside/folder/rank-0.json
	cp outside/folder/rank-0.log outside/folder/step-00000002.pth.tmp-1-0
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
	rm -rf run
}

# plant KIND PATH: put something else in the place of a file or a folder of the run.
plant() {
	mkdir -p "$(dirname "$2")"
	rm -rf "$2"
	case $1 in
	link) ln -s "$PWD/outside/folder/$(basename "$2")" "$2" ;;
	dangling) ln -s "$PWD/outside/none" "$2" ;;
	fifo) mkfifo "$2" ;;
	folder) mkdir "$2" ;;
	socket) python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$2" ;;
	linked-folder) ln -s "$PWD/outside/folder" "$2" ;;
	esac
}

outside() {
	find outside -printf '%p %y %s\n' | sort
	find outside -type f -exec cksum {} + | sort
}

# refused FILE ARGUMENT...: the command says at once, in one line, that FILE is not as it should be.
refused() {
	local file=$1
	shift
	gtrain_in 10 "$@" || return
	[[ $status == 1 && $err == "gtrain: error: "*"'$file' is a"*", not a "*$'\nhint: '* &&
		$(wc -l <<<"$err") == 2 && $(outside) == "$before" ]] && return
	printf '%s\nstatus %s: %s\n' "$*" "$status" "$err"
	diff <(echo "$before") <(outside)
	return 1
}

# gtrain_in SECONDS ARGUMENT...
gtrain_in() {
	local seconds=$1
	shift
	status=0
	timeout -k 1 "$seconds" "$GTRAIN" "$@" >out 2>err || status=$?
	err=$(<err)
}

FILES="config.json metrics.jsonl status.json details.json vocab.json model.pth best.pth model_ema.pth checkpoints/step-00000002.pth log/rank-0.log trace/rank-0.json.gz events.out.tfevents.1"
KINDS="link dangling fifo folder socket"

@test "a new run refuses what is no regular file in the place of each of its files" {
	local file kind
	before=$(outside)
	for file in $FILES; do
		for kind in $KINDS; do
			one_in 3 || continue
			rm -rf run
			plant "$kind" "run/$file"
			refused "run/$file" train --config base/config.json --out run -q
		done
	done
	for file in checkpoints log trace; do
		for kind in linked-folder dangling fifo socket; do
			rm -rf run
			plant $kind run/$file
			refused run/$file train --config base/config.json --out run -q
		done
	done
}

@test "so does a run that goes on" {
	local file kind
	before=$(outside)
	for file in $FILES; do
		for kind in $KINDS; do
			one_in 3 || continue
			rm -rf run
			cp -r base run
			plant "$kind" "run/$file"
			refused "run/$file" train --resume auto --out run --steps 3 -q
		done
	done
	for file in checkpoints log trace; do
		rm -rf run
		cp -r base run
		plant linked-folder run/$file
		refused run/$file train --resume auto --out run --steps 3 -q
		refused run/$file train --resume run --steps 3 --nproc 2 -q
	done
}

@test "ranks and profiles write no log and no trace through a link" {
	local kind
	before=$(outside)
	for kind in $KINDS; do
		rm -rf run
		plant "$kind" run/log/rank-1.log
		refused run/log/rank-1.log train --config base/config.json --batch 2 --nproc 2 --out run -q
		rm -rf run
		plant "$kind" run/trace/rank-1.json.gz
		refused run/trace/rank-1.json.gz train --config base/config.json --batch 2 --nproc 2 \
			--profile active=1,wait=0,warmup=0 --out run -q
	done
}

@test "eval, generate and --init-from refuse what they would read" {
	local file kind
	before=$(outside)
	for file in config.json vocab.json best.pth checkpoints/step-00000002.pth model.pth; do
		for kind in $KINDS; do
			one_in 3 || continue
			rm -rf run
			cp -r base run
			[[ $file == best.pth ]] || rm run/best.pth
			[[ $file != model.pth ]] || rm -r run/checkpoints
			[[ $file != vocab.json ]] || forget run/checkpoints/*.pth
			plant "$kind" "run/$file"
			refused "run/$file" eval --ckpt run --data text:text.txt -q
			refused "run/$file" generate --ckpt run --prompt a --tokens 2 -q
			[[ $kind != fifo ]] || refused "run/$file" train --config base/config.json --init-from run --out new -q
		done
	done
	rm -rf run
	cp -r base run
	plant linked-folder run/checkpoints
	refused run/checkpoints eval --ckpt run --data text:text.txt -q
	[ ! -e new ]
}

@test "--out may be a link, a checkpoint that is named too, and files may have other hard links" {
	mkdir -p real
	ln -s real run
	gtrain_in 10 train --config base/config.json --out run -q
	equal "$status" 0
	equal "$(readlink run)" real
	cmp real/model.pth base/model.pth
	ln -sf real/checkpoints/step-00000002.pth named.pth
	gtrain_in 10 eval --ckpt named.pth --model gpt:layers=1,heads=1,width=8,block=8 --vocab base/vocab.json \
		--data text:text.txt -q
	equal "$status" 0
	ln real/model.pth other.pth
	ln real/metrics.jsonl other.jsonl
	cp other.jsonl before.jsonl
	gtrain_in 10 train --resume auto --out run --steps 3 -q
	equal "$status" 0
	cmp other.pth base/model.pth
	cmp other.jsonl before.jsonl # the run's lines go on in a copy
	grep -q '"step":3,' run/metrics.jsonl
	rm -r run real
	# Dangling, it leads to no directory that could be made.
	ln -s nowhere run
	gtrain_in 10 train --config base/config.json --out run -q
	equal "$status" 1
	[ ! -e nowhere ]
}

@test "a file that is named beside somebody else's linked config.json is read" {
	mkdir run
	cp base/model.pth run/
	echo '{"architectures": []}' >theirs.json
	ln -s ../theirs.json run/config.json
	gtrain_in 10 eval --ckpt run/model.pth --model gpt:layers=1,heads=1,width=8,block=8 --vocab base/vocab.json \
		--data text:text.txt -q
	equal "$status" 0
}

@test "a checkpoint file of a run whose config.json is a link is refused" {
	cp -r base run
	rm run/config.json
	ln -s ../base/config.json run/config.json
	gtrain_in 10 eval --ckpt run/checkpoints/step-00000002.pth --data text:text.txt -q
	equal "$status" 1
	[[ $err == *"'run/config.json' is a symbolic link, not a regular file"* ]]
	rm run/metrics.jsonl # then nothing shows that it is a run
	forget run/checkpoints/step-00000002.pth
	gtrain_in 10 eval --ckpt run/checkpoints/step-00000002.pth --data text:text.txt -q
	equal "$status" 2
	[[ $err == *"--model is missing, and neither 'run/checkpoints/step-00000002.pth' nor a config.json"* ]]
	gtrain_in 10 eval --ckpt base/checkpoints/step-00000002.pth --data text:text.txt -q
	equal "$status" 0
}

@test "a pipe is refused at once wherever a file is asked for" {
	local arguments
	mkfifo -m 600 pipe.$$.pth # a name that no other test has
	while read -r arguments; do
		# shellcheck disable=SC2086 # words
		gtrain_in 10 ${arguments//PIPE/pipe.$$.pth}
		[[ $status == 1 && $err == *"pipe.$$.pth"*"is a device or pipe"* ]] || {
			echo "$arguments: $status: $err"
			return 1
		}
	done <<-E
		train --config PIPE --out new
		train --model mlp --data csv:PIPE --out new
		train --model gpt --data text:PIPE --out new
		train --model lenet --data images:PIPE --out new
		train --model mlp --data random --init-from PIPE --out new
		train --model mlp --data random --resume PIPE --out new
		eval --ckpt PIPE --model mlp --data random
		eval --ckpt base --vocab PIPE --data text:text.txt
		generate --ckpt base --vocab PIPE --prompt a
		ckpt ls PIPE
		ckpt verify PIPE
		ckpt diff PIPE PIPE
		ckpt convert base/model.pth -o PIPE
	E
	rm pipe.$$.pth
	[ ! -e new ]
}

# ---- metrics.jsonl ----

# own STEP...: lines as gtrain writes them.
own() {
	local step
	for step in "$@"; do
		printf '{"split":"train","step":%d,"epoch":0,"loss":1,"lr":0.1,"grad_norm":1,"samples_per_s":1,"time_s":0.1}\n' "$step"
	done
}

@test "a run that goes on drops its own lines of later steps and a torn one, and nothing else" {
	local last foreign
	foreign=$'# by hand\n\n{"step":99,"note":"lr was lowered"}\n{"split":"test","step":99,"loss":1}
{"split":"train","step":99,"mine":1}\n[1]\n\xff\x01 {"split":"train","step":99}\n'
	while IFS='|' read -r last kept; do
		rm -rf run
		cp -r base run
		{
			own 1
			printf %s "$foreign"
			own 2 3
			printf %s "$foreign"
			own 4 5
			printf %b "$last"
		} >run/metrics.jsonl
		gtrain train --resume auto --out run --steps 3 --save-every 0 -q
		equal "$status" 0
		{
			own 1
			printf %s "$foreign"
			own 2
			printf %s "$foreign"
			printf %b "$kept"
		} >wanted
		cmp -n "$(stat -c %s wanted)" wanted run/metrics.jsonl
		tail -c +"$(($(stat -c %s wanted) + 1))" run/metrics.jsonl >rest
		lines rest '[x["step"] for x in t] == [3]'
	done <<-'E'
		|
		{"spl|
		{"split":"train","step":2,"ep|
		{"split":"train","step":6,"loss":1}|
		{"split":"train","step":2,"loss":1}|{"split":"train","step":2,"loss":1}\n
		a note|a note\n
		{"mine": 1}|{"mine": 1}\n
	E
}

@test "a run that goes on recognises every line that it wrote itself" {
	local model data keys
	folders 10 a b
	while read -r model data keys; do
		rm -rf run
		gtrain train --model "$model" --data "$data" --val-split 0.2 --batch 4 --steps 4 --save-every 2 \
			--log-every 1 --eval-every 1 --out run -q
		equal "$status" 0
		rm run/checkpoints/step-00000004.pth
		gtrain train --resume auto --out run -q
		equal "$status" 0
		lines run/metrics.jsonl '[x["step"] for x in t] == [x["step"] for x in v] == [1, 2, 3, 4]
			and all(len(x) == '"$keys"' for x in t)'
	done <<-'E'
		gpt:layers=1,heads=1,width=8,block=8 text:text.txt 12
		lenet images:images,channels=1,size=12 11
	E
}

@test "metrics.jsonl is written anew only where a line is dropped" {
	local inode
	cp -r base run
	printf 'a note' >>run/metrics.jsonl
	inode=$(stat -c %i run/metrics.jsonl)
	gtrain train --resume auto --out run --steps 3 -q
	equal "$status" 0
	equal "$(stat -c %i run/metrics.jsonl)" "$inode"
	cmp -n "$(stat -c %s base/metrics.jsonl)" base/metrics.jsonl run/metrics.jsonl
	grep -qx 'a note' run/metrics.jsonl
}

# ---- status.json ----

# is_status STATE STATUS REASON: status.json has this content, and the times of this run.
is_status() {
	jq -e --arg state "$1" --argjson status "$2" --arg reason "$3" --arg host "$(uname -n)" --argjson now "$(date +%s)" '
		.state == $state and .exit_status == $status and .host == $host and .pid > 0 and
		(.reason // "" | contains($reason)) and (.reason == null) == ($reason == "") and
		(.started - $now | fabs) < 600 and
		(if $state == "running" then .ended == null else .ended >= .started end)' run/status.json >/dev/null && return
	cat run/status.json
	return 1
}

@test "status.json says that a run goes on, and how it ended" {
	local pid i
	gtrain_in 30 train --config base/config.json --out run -q
	is_status "done" 0 ""
	rm -rf run
	gtrain_in 30 train --config base/config.json --steps 60 --lr 1e30 --out run -q
	equal "$status" 1
	is_status failed 1 "at step"
	[[ $(jq -r .reason run/status.json) == "$(sed -n 's/^gtrain: error: //p' err)" ]]
	rm -rf run
	gtrain_in 30 train --config base/config.json --eval-every 1 --patience 1 --steps 4000 --lr 1e-30 --out run -q
	is_status "done" 0 "no better evaluation in the last 1"
	rm -rf run
	"$GTRAIN" train --config base/config.json --steps 100000000 --nproc 2 --out run -q 2>err 3>&- &
	pid=$!
	for ((i = 0; i < 500; i++)); do
		[[ -s run/status.json ]] && (($(wc -l <run/metrics.jsonl) > 1)) && break
		sleep 0.02
	done
	is_status running null ""
	[[ $(</proc/"$(jq .pid run/status.json)"/comm) == gtrain ]]
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	equal "$status" 143
	is_status stopped 143 SIGTERM
}

@test "a status.json that cannot be written at the end is a warning" {
	local pid i
	"$GTRAIN" train --config base/config.json --steps 100000000 --out run 2>err 3>&- &
	pid=$!
	for ((i = 0; i < 500; i++)); do
		[[ -s run/status.json ]] && break
		sleep 0.02
	done
	rm run/status.json
	mkdir run/status.json
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	equal "$status" 143
	grep -q '^warning: .*status.json' err
	[[ -s run/model.pth ]]
}

# ---- signals ----

@test "the first signal ends a wait before the first step" {
	local signal pid i slow
	slow=$(realpath "${GTRAIN_TESTS:-$ROOT/build/tests}")/fake/slow_lock.so
	if nm "$GTRAIN" | grep -qE '__asan_init|__tsan_init'; then
		skip "the sanitizers come before what is preloaded"
	fi
	for signal in INT TERM; do
		rm -rf run
		# a shell starts what it puts in the background with SIGINT ignored
		LD_PRELOAD=$slow python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$GTRAIN" train --config base/config.json --out run -q 2>err 3>&- &
		pid=$!
		for ((i = 0; i < 500; i++)); do
			grep -qs 'flock waits' err && break
			sleep 0.02
		done
		kill -"$signal" "$pid"
		for ((i = 0; i < 250; i++)); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.02
		done
		kill -KILL "$pid" 2>/dev/null || true
		status=0
		wait "$pid" || status=$?
		equal "$status" "$((128 + $(kill -l $signal)))"
	done
}

@test "a new run does not overwrite results or other files in --out" {
	local file
	for file in model.pth model_ema.pth best.pth metrics.jsonl vocab.json tokenizer.json trace/rank-0.json.gz; do
		rm -rf run
		mkdir -p run/trace
		[[ $file == trace/* ]] || rmdir run/trace
		echo mine >"run/$file"
		gtrain train --config base/config.json --out run -q
		equal "$status" 1
		[[ $err == *"'run/$file' exists already, and a run writes a file of this name"*"move it away, or give another --out"* ]]
		equal "$(ls run):$(<"run/$file")" "${file%/*}:mine"
	done
	rm -rf run
	cp -r base run
	rm -r run/checkpoints
	for file in "" "--resume auto"; do
		# shellcheck disable=SC2086 # two words
		gtrain train --config base/config.json --out run -q $file
		[[ $status == 1 && $err == *"'run/model.pth' exists already"* ]]
	done
	cmp run/metrics.jsonl base/metrics.jsonl
	# A run that was killed before its first checkpoint starts again where --resume auto asks for it.
	rm run/model.pth run/model_ema.pth
	gtrain train --config base/config.json --out run -q
	[[ $status == 1 && $err == *"'run/best.pth' exists already"*"--resume auto starts this run again"* ]]
	rm run/best.pth
	gtrain train --config base/config.json --out run -q
	[[ $status == 1 && $err == *"'run/metrics.jsonl' exists already"*"--resume auto starts this run again"* ]]
	cmp run/metrics.jsonl base/metrics.jsonl
	cp -r run other
	gtrain train --config base/config.json --out other -q --resume auto
	equal "$status:$err" 0:
	# One that was killed before its first step has no results.
	: >run/metrics.jsonl
	gtrain train --config base/config.json --out run -q
	equal "$status:$err" 0:
}

@test "--resume DIR continues the run in DIR, also where --config has the options" {
	local config
	for config in "" "--config base/config.json"; do
		rm -rf run
		cp -r base run
		# shellcheck disable=SC2086 # two words
		gtrain train $config --resume run --steps 5
		equal "$status:$(jq -s 'map(.step) | max' run/metrics.jsonl)" 0:5
		[ ! -e runs ]
	done
}

@test "a new run directory is not put among the images that a run reads" {
	local folder
	mkdir -p pets && cd pets || return
	folders 2 train/cat train/dog
	for folder in images/train images/train/new images/train/cat/new/run/; do
		gtrain train --model mlp:144,2 --data images:images/train,channels=1,size=12 --steps 1 --out "$folder" -q
		[[ $status == 2 && $err == "gtrain: error: --out: '$folder' is in the input folder '"* ]]
		equal "$(find images -type d | sort | xargs)" "images images/train images/train/cat images/train/dog"
	done
	mkdir linked
	ln -s ../images/train/cat ../images/train/dog linked
	for folder in images/train/dog images/train/dog/run; do
		gtrain train --model mlp:144,2 --data images:linked,channels=1,size=12 --steps 1 --out $folder -q
		[[ $status == 2 && $err == "gtrain: error: --out: '$folder' is in the input folder '"*"/linked/dog'"* ]]
	done
	gtrain train --model mlp:144,2 --data images:images,channels=1,size=12 --steps 1 --out images/run -q
	equal "$status:$err" 0:
}

@test "runs without --out that begin at once get a directory each; one that fails leaves none" {
	local run=("$GTRAIN" train --model "$GPT" --batch 1 --steps 1 -q) ids=() id
	mkdir new && cd new || return
	for _ in 1 2 3 4; do
		"${run[@]}" --data text:../text.txt &
		ids+=($!)
	done
	for id in "${ids[@]}"; do
		wait "$id"
	done
	equal "$(cd runs && echo gpt-*/model.pth | wc -w)" 4
	rm -r runs
	for id in "" "--nproc 2"; do
		# shellcheck disable=SC2086 # two words
		"${run[@]}" --data text:none.txt $id 2>/dev/null && return 1
		equal "$(ls)" ""
	done
}

@test "a refused resume leaves the logs of the ranks as they were" {
	local more
	gtrain train --model mlp:8,4,3 --data "$RANDOM_DATA" --steps 4 --batch 16 --nproc 2 --out run -q
	equal "$status" 0
	echo "a line of the first launch" >>run/log/rank-1.log
	cp -r run/log before
	for more in "--seed 7" "--seed 7 --nproc 4" "--steps 2" "--freeze 0.*"; do
		# shellcheck disable=SC2086 # several words
		gtrain train --resume run --steps 8 $more
		[[ $status != 0 && $err == *"error: run/checkpoints/step-00000004.pth: "* ]]
		diff -r before run/log
	done
	gtrain train --resume run --steps 8
	equal "$status" 0
	[[ $(<run/log/rank-0.log) == *"resuming from run/checkpoints/step-00000004.pth"* ]]
	# A run that has begun keeps its lines, however it ends.
	gtrain train --resume run --steps 12 --lr 1e30
	[[ $status != 0 && $(<run/log/rank-0.log) == *"--lr"*"1e+30"* ]]
	# A new run that is refused leaves nothing.
	gtrain train --model mlp:8,4,3 --data "$RANDOM_DATA" --steps 4 --nproc 2 --init-from run/nothing --out new
	[[ $status != 0 && ! -e new ]]
}

@test "a learning rate that jumps when a run goes on is told with both values" {
	local more wanted
	gtrain train --model mlp:8,4,3 --data "$RANDOM_DATA" --steps 20 --batch 16 --lr 0.1 --optimizer sgd --warmup 2 --out run -q
	equal "$status" 0
	while IFS='|' read -r more wanted; do
		rm -rf on && cp -r run on
		# shellcheck disable=SC2086 # several words
		gtrain train --resume on $more
		equal "$status" 0
		if [[ $wanted ]]; then
			[[ $err == *"the learning rate goes from 0.0107 to $wanted"* ]] || {
				echo "$more: $err"
				return 1
			}
		else
			[[ $err != *"learning rate goes"* ]]
		fi
	done <<-'END'
		--steps 40|0.0587 at step 21, because the cosine now ends at step 40
		--epochs 10|0.0587 at step 21, because the cosine now ends at step 40
		--steps 40 --lr 0.2|0.117 at step 21, because --lr changed
		--steps 40 --lr-schedule constant|0.1 at step 21, because --lr-schedule changed
		--steps 40 --min-lr 0.05|0.0771 at step 21, because --min-lr changed
		--steps 20 --lr 0.2|
	END
	gtrain train --model mlp:8,4,3 --data "$RANDOM_DATA" --steps 8 --batch 16 --lr 0.1 --lr-schedule constant --out flat -q
	gtrain train --resume flat --steps 16
	[[ $status == 0 && $err != *"learning rate goes"* ]]
}
