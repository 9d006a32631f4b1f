#!/usr/bin/env bats
# train.bats - gtrain train: the run directory, what is said meanwhile, and what the options do.
# shellcheck disable=SC2016,SC2054,SC2154,SC2012 # code for others; commas in options; what helpers set; ls sorts

bats_require_minimum_version 1.5.0
load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# ---- what is validated on ----

@test "validation text is read with the vocabulary of the training text" {
	printf 'abcdefgh %.0s' {1..60} >train.txt
	printf 'bcdefgh a%.0s' {1..30} >val.txt # the same circle of characters, another first one
	gtrain train --model "$GPT" --data text:train.txt --val text:val.txt --steps 60 --batch 8 \
		--lr 1e-2 --out run --json
	equal "$status" 0
	check "$out" 'd["val"]["loss"] < 1.5' # wrongly numbered it is above 5
	printf 'xyz%.0s' {1..60} >other.txt
	gtrain train --model "$GPT" --data text:train.txt --val text:other.txt --steps 1 --out other
	equal "$status" 1
	[[ $err == *"--val: 'other.txt': the character 'x'"* ]]
	[ ! -e other ]
}

@test "classes of validation data are those of the same name" {
	rows 30 'print(i % 3, i % 5, "abc"[i % 3], sep=",")' >train.csv
	rows 30 'print(2, i % 5, "c", sep=",")' >val.csv
	rows 30 'print(2, i % 5, "z", sep=",")' >other.csv
	gtrain train --model mlp:2,16,3 --data csv:train.csv --val csv:val.csv --steps 60 --lr 1e-2 \
		--batch 10 --out run --json
	equal "$status" 0
	check "$out" 'd["val"]["top1"] == 1 and d["val"]["n"] == 30'
	gtrain train --model mlp:2,16,3 --data csv:train.csv --val csv:other.csv --steps 1 --out other
	equal "$status" 1
	equal "$err" "gtrain: error: --val: 'other.csv': line 1: class 'z' is not in the data trained on, which has 'a', 'b', 'c'
hint: classes are matched by their names"
	folders 20 a b c
	mkdir val
	cp -r images/c val/
	gtrain train --model lenet --data images:images,channels=1,size=12 \
		--val images:val,channels=1,size=12 --steps 30 --batch 20 --lr 1e-2 --out pictures --json
	equal "$status" 0
	check "$out" 'd["val"]["top1"] > 0.9 and d["val"]["n"] == 20'
}

# ---- going on, and not mixing runs ----

@test "a finished run resumed says its result again and changes nothing" {
	gtrain train --model mlp --data "$RANDOM_DATA" --batch 8 --steps 12 --val-split 0.2 --out run -q
	equal "$status" 0
	cp -r run before
	gtrain train --resume auto --out run --json
	equal "$status" 0
	check "$out" 'd["step"] == 12 and not d["stopped"] and d["val"]["n"] == 13'
	cmp run/metrics.jsonl before/metrics.jsonl
	cmp run/model.pth before/model.pth
	cmp run/best.pth before/best.pth
}

@test "a directory with checkpoints is no place for another run" {
	gtrain train --model mlp --data "$RANDOM_DATA" --batch 8 --steps 4 --out run -q
	equal "$status" 0
	gtrain train --model mlp --data "$RANDOM_DATA" --batch 8 --steps 2 --out run
	equal "$status" 2
	equal "$err" "gtrain: error: 'run' holds a run that is at step 4 already
hint: --resume auto goes on with it; another --out begins anew"
	# Nor is one that another process writes into.
	flock run sleep 1 &
	sleep 0.2
	gtrain train --resume auto --out run --steps 6
	equal "$status" 1
	equal "${err##*$'\n'gtrain}" ": error: another run is writing into 'run'
hint: --out names the directory of the run"
	wait
}

@test "what a run cannot change is refused when it is resumed" {
	local case said
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --batch 8 --steps 4 --out run -q
	equal "$status" 0
	for case in "--model mlp:8,7,3" "--seed 1" "--optimizer sgd" "--val-split 0.5" "--ema 0.9" --reproducible \
		"--freeze 0.*" "--lora r=2" "--lr-scale *=2"; do
		# shellcheck disable=SC2086 # two words
		gtrain train --resume auto --out run --steps 6 $case
		equal "$status" 2
		equal "${err#*pth: }" "it was trained with another ${case% *}: $("$GTRAIN" help resume --json |
			jq -r --arg name "${case% *}" '.resume[] | select("--" + .option == $name and .fixed).text')
hint: leave ${case% *} as it was; --init-from starts a new run from its weights"
	done
	gtrain train --resume auto --out run --steps 3
	equal "$status" 2
	[[ $err == *"step-00000004.pth: at step 4, but the run ends at step 3"* ]]
	# A dry run says so, too.
	for case in "--steps 3" "--steps 6 --seed 1"; do
		# shellcheck disable=SC2086 # two words
		gtrain train --resume auto --out run $case
		said=$err
		# shellcheck disable=SC2086
		gtrain train --resume auto --out run $case --dry-run
		equal "$status:$err" "2:$said"
	done
	# The same samples in each step, cut otherwise, are the same run; so is another learning rate.
	gtrain train --resume auto --out run --steps 6 --batch 4 --accumulate 2 --lr 1e-4
	equal "$status" 0
}

# forget FILE KEY: make a checkpoint one that lacks this key.
forget() {
	python3 - "$@" <<-'END'
		import sys, zipfile
		old = zipfile.ZipFile(sys.argv[1])
		parts = {name: old.read(name) for name in old.namelist()}
		pickle, = [name for name in parts if name.endswith("data.pkl")]
		key = sys.argv[2].encode()
		assert key in parts[pickle]
		parts[pickle] = parts[pickle].replace(key, b"x" * len(key))
		new = zipfile.ZipFile(sys.argv[1], "w")
		[new.writestr(name, data) for name, data in parts.items()]
		new.close()
	END
}

@test "a run with a validation split goes on only with as many samples" {
	local on=(train --resume auto --steps 6 --data random:8/3,samples=80) more
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --val-split 0.25 --batch 8 --steps 4 --out split -q
	equal "$status" 0
	for more in "" --dry-run; do
		# shellcheck disable=SC2086 # none or one
		gtrain "${on[@]}" --out split $more
		equal "$status" 2
		equal "${err##*pth: }" "--data has 80 samples, but 64 in the training so far: --val-split would hold out samples that the run has trained on
hint: give --data as it was; --init-from starts a new run from the weights"
	done
	# As many samples of other data are allowed, and more without a split.
	gtrain "${on[@]:0:5}" --data random:8/3,samples=64 --out split
	equal "$status" 0
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --batch 8 --steps 4 --out plain -q
	gtrain "${on[@]}" --out plain
	equal "$status" 0
}

@test "a run goes on with another batch behind the samples that it has read, and says what changes" {
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --val-split 0.25 --batch 4 --steps 16 --lr 1e-3 --log-every 1 --out run -q
	equal "$status" 0
	# 48 samples: 12 steps an epoch. 16 samples of the second one are read.
	gtrain train --resume auto --out run --batch 8 --epochs 3 --clip 1 --log-every 2
	equal "$status" 0
	equal "$(grep -e ' -> ' <<<"$err")" "--epochs none -> 3: the run ends at step 26
--batch 4 -> 8: an epoch has 6 steps now, not 12
--clip 0 -> 1: from the next step on
--log-every 1 -> 2: from the next step on"
	lines run/metrics.jsonl '[x["step"] for x in v] == [12, 16, 20, 26] and all(a["time_s"] <= b["time_s"] for a, b in zip(d, d[1:]))
		and [x["epoch"] for x in t if x["step"] > 16] == [1, 1, 2, 2, 2] and t[-1]["step"] == 26'
	# Once more, from the middle of an epoch that was counted twice: 4 of 6 steps are 32 samples, or 10 of 3, and 2 again.
	gtrain train --resume run/checkpoints/step-00000016.pth --out on --batch 8 --epochs 3 --save-every 4 --keep 0 -q
	gtrain train --resume on/checkpoints/step-00000020.pth --out third --batch 3 --epochs 3
	equal "$status" 0
	[[ $err == *"--batch 8 -> 3: an epoch has 16 steps now, not 6"*"done: 36 steps"* ]]
}

@test "a run goes on with momentum that it did not have, and without" {
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --batch 8 --optimizer sgd --momentum 0 --steps 4 --out run -q
	gtrain train --resume auto --out run --momentum 0.9 --steps 6
	equal "$status" 0
	[[ $err == *"--momentum 0 -> 0.9: from the next step on; if it was 0, the momentum buffers start at zero"* ]]
	gtrain train --resume auto --out run --momentum 0 --steps 8 -q
	equal "$status" 0
}

@test "more threads than processors are warned of" {
	local many=$(($(nproc) + 1))
	gtrain train --model mlp --data "$RANDOM_DATA" --steps 1 --threads $many -q --out a
	equal "$err" "warning: --threads $many: with 1 rank, that is more than the $(nproc) processors here, and slower"
	OMP_NUM_THREADS=$many gtrain train --model mlp --data "$RANDOM_DATA" --steps 1 -q --out b
	equal "$err" "warning: OMP_NUM_THREADS $many: with 1 rank, that is more than the $(nproc) processors here, and slower"
	gtrain train --model mlp --data "$RANDOM_DATA" --steps 1 --threads 1 -q --out c
	equal "$err" ""
}

@test "a warm-up that is not shorter than the run is warned of, once" {
	local warning="warning: --warmup 5 is not below the 5 steps of this run: the learning rate rises until the end and never reaches --lr"

	gtrain train --model mlp --data "$RANDOM_DATA" --steps 5 --warmup 5 -q --nproc 2 --out a
	equal "$status" 0
	equal "$err" "$warning"
	gtrain train --model mlp --data "$RANDOM_DATA" --steps 5 --warmup 5 -q --lr-schedule wsd --decay-steps 9 --out b
	equal "$err" "$warning"
	gtrain train --model mlp --data "$RANDOM_DATA" --steps 5 --warmup 4 -q --out c
	equal "$err" ""
}

@test "temporary files of a killed run go" {
	mkdir -p run/checkpoints
	touch run/model.pth.tmp-4711-0 run/checkpoints/step-00000001.pth.tmp-99-12 run/notes.tmp-mine
	gtrain train --model mlp --data "$RANDOM_DATA" --steps 1 --out run -q
	equal "$status" 0
	equal "$(cd run && find . -name '*tmp*')" ./notes.tmp-mine
}

# ---- the run directory ----

@test "the run directory is as promised, and its config.json repeats the run to the bit" {
	folders 14 a b
	gtrain train --model lenet --data images:images,channels=1,size=12 --val-split 0.2 --batch 4 --epochs 3 \
		--augment flip --log-every 1 --save-every 2 --keep 2 --out run -q
	equal "$status" 0
	equal "$out$err" ""
	equal "$(cd run && find . | sort | xargs)" ". ./best.pth ./checkpoints ./checkpoints/step-00000016.pth ./checkpoints/step-00000018.pth ./config.json ./details.json ./metrics.jsonl ./model.pth ./status.json"
	lines run/metrics.jsonl 'all(list(x) == "split step epoch loss lr grad_norm samples_per_s data_wait time_s wall_time memory_bytes".split()
			and 0 <= x["data_wait"] <= 1 for x in t)
		and all(list(x) == "split step loss top1 top5 perplexity n time_s wall_time memory_bytes".split() for x in v)
		and [x["step"] for x in t] == list(range(1, 19)) and [x["epoch"] for x in t] == [0] * 6 + [1] * 6 + [2] * 6
		and [x["step"] for x in v] == [6, 12, 18] and all(x["n"] == 6 for x in v)'
	# Every option, none left open but those that have no value, and a description of the data.
	check "$(<run/config.json)" 'd.pop("about")["data"]["class-names"] == ["a", "b"] and sorted(d) == sorted(set('"$("$GTRAIN" help --json | python3 -c '
import json, sys
print([o["name"] for c in json.load(sys.stdin)["commands"] if c["name"] == "train" for o in c["options"]])')"') \
		- {"out", "config", "resume", "global-batch", "profile", "dry-run", "verify-parallel", "hosts", "ssh", "help", "json", "quiet", "verbose", "color"})
		and [k for k in d if d[k] is None and k not in ("val", "init-from", "init", "class-weights", "lora", "steps", "threads", "chunks", "adam-lr", "ema")] == []'
	gtrain train --config run/config.json --out again -q
	equal "$status" 0
	cmp run/model.pth again/model.pth
	cmp run/best.pth again/best.pth
	cmp run/config.json again/config.json
	gtrain train --config run/config.json --out other --seed 1 --epochs 1 -q
	run ! cmp -s run/model.pth other/model.pth
}

@test "text has tokens_per_s, and the last step a line" {
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --batch 8 --steps 3 --threads 1 --out one -q
	equal "$status" 0
	lines one/metrics.jsonl 'len(d) == 1 and d[0]["step"] == 3
		and list(d[0]) == "split step epoch loss lr grad_norm samples_per_s tokens_per_s data_wait time_s wall_time memory_bytes".split()'
	[ -s one/vocab.json ]
}

@test "rates are of all steps alike, also before an evaluation, a checkpoint and the end" {
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --val text:"$ROOT"/LICENSE --batch 8 --steps 7 --eval-every 3 --save-every 4 \
		--log-every 1 --threads 1 --out run -q
	equal "$status" 0
	# Together, the steps take no longer than the run; none takes less than a ten thousandth of a second.
	lines run/metrics.jsonl 'len(t) == 7 and all(x["tokens_per_s"] < 1e4 * 8 * 16 for x in t)
		and sum(8 * 16 / x["tokens_per_s"] for x in t) <= t[-1]["time_s"]'
}

@test "threads don't change the bits" {
	grep -q avx512f /proc/cpuinfo || skip "processor: without AVX-512, oneDNN chooses among products by the number of threads"
	use_isa
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --batch 8 --steps 3 --threads 1 --out one -q
	equal "$status" 0
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --batch 8 --steps 3 --threads 2 --workers 0 --out two -q
	equal "$status" 0
	cmp one/model.pth two/model.pth
}

@test "progress is plain lines without a terminal, drawn on one, absent when quiet" {
	local arguments=(train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 400)
	gtrain "${arguments[@]}" --log-every 200 --out plain
	equal "$out" ""
	[[ $err == "data: 64 rows of 8 numbers, 3 classes
run: cpu, 400 steps of 8 samples, 50 epochs
batch 8 x accumulate 1 x 1 rank = 8
memory: "*" total"$'\n'"step 200/400 50% epoch 25/50 loss "*" elapsed 0:"*$'\n'"step 400/400 100% epoch 50/50 loss "*$'\n'"done: 400 steps in 0:"*", loss "*", run directory plain
next: gtrain predict --ckpt plain FILE..." ]]
	[[ $err != *$'\r'* && $err != *$'\033'* ]]
	gtrain "${arguments[@]}" --val-split 0.1 --json --out json
	python3 -c 'import json, sys; d = json.loads(sys.argv[1]); assert sorted(d) == ["out", "step", "steps", "stopped", "train_s", "val"]' "$out"
	equal "$(wc -l <<<"$out")" 1
	command -v script >/dev/null || skip "script is not here"
	TERM=xterm run script -qec "'$GTRAIN' ${arguments[*]} --out drawn" /dev/null
	[[ $output == *$'\r'"step "*$'\033[K'* ]]
	[[ $output == *$'\033[Kstep '+([0-9])"/400 "+([0-9])"% "*"loss "* ]]
	TERM=xterm run script -qec "'$GTRAIN' ${arguments[*]} --out quiet --quiet" /dev/null
	equal "$output" ""
}

@test "a run says what it has found, how it ended, and what comes next" {
	local i
	printf 'a,b,y\n' >rows.csv
	for i in 1 2 3 4 5 6 7 8; do echo "$i,$((i % 3)),x" >>rows.csv; done
	sed 's/x$/&.5/; s/,x/,/; 2s/5$/25/' rows.csv >numbers.csv
	python3 -c 'import array; array.array("H", [i % 50 for i in range(999)]).tofile(open("ids.bin", "wb"))'
	gtrain train --model mlp:8,16,3 --data "$RANDOM_DATA" --val-split 0.25 --batch 64 --accumulate 2 --steps 2 \
		--nproc 2 --parallel zero1 --out 'two ranks'
	equal "$status" 0
	[[ $err == *"data: 48 rows of 8 numbers, 3 classes; 16 for validation"$'\n'* ]]
	[[ $err == *"run: cpu, 2 ranks (zero1, shm), 2 steps of 256 samples, 2 epochs"$'\nbatch 64 x accumulate 2 x 2 ranks = 256\n'* ]]
	[[ $err == *"warning: --batch 64: a step would take 256 samples, but there are 48, so each step reads all of them; "* ]]
	[[ $err == *$'\n'"best: step "[12]", top-1 "*" %, two ranks/best.pth"$'\n'"done: 2 steps in 0:"*", loss "*", run directory two ranks
next: gtrain predict --ckpt 'two ranks' FILE..." ]]
	[[ $err != *top-5* ]]
	gtrain train --model mlp:8,16,3 --data "$RANDOM_DATA" --steps 1 --out plain # the default of --batch is no choice
	[[ $err != *warning* ]]
	gtrain eval --ckpt plain --data "$RANDOM_DATA"
	[[ $out == "loss "*" of 64)" && $err == "weights from plain/"*$'\n'"evaluated 64 samples in "* && $err != *"found under"* ]] # nothing of the key that has the weights
	gtrain train --model mlp:2,4,1 --data csv:numbers.csv,target=y --steps 1 --out numbers
	[[ $err == *"data: 8 rows of 2 numbers, numbers as targets"$'\n'"run: cpu, 1 step of 64 samples, 1 epoch"$'\n'* ]]
	gtrain train --model gpt:layers=1,heads=1,width=8,block=8,vocab=50 --data tokens:ids.bin,vocab=50 --val-split 0.2 --steps 1 --out ids
	[[ $err == *"data: "*" blocks of 8 tokens, vocabulary of 50; "*$'\n'"best: step 1, val loss "*$'\n'"done: 1 step in "*"
next: gtrain eval --ckpt ids --data tokens:ids.bin,vocab=50" ]]
	# shellcheck disable=SC2046 # words
	"$GTRAIN" $(sed -n 's/^next: gtrain //p' <<<"$err") --quiet >/dev/null
	gtrain train --model gpt:layers=1,heads=1,width=8,block=8 --data "text:$ROOT/LICENSE" --steps 1 --out text
	[[ $err == *$'\n'"next: gtrain generate --ckpt text" ]]
	gtrain train --model mlp:8,16,1 --data random:8/1 --steps 1 --out one
	[[ $err == *$'\n'"warning: --data has one class, so every answer is right, and nothing is learned"$'\n'* ]]
	gtrain train --model mlp:8,16,3 --data "$RANDOM_DATA" --steps 1 --nproc 64 --dry-run
	[[ $err != *warning* ]]
}

@test "ranks are called gtrain" {
	"$GTRAIN" train --model mlp:8,9,3 --data "$RANDOM_DATA" --nproc 2 --steps 100000000 --log-every 10 --out run -q --save-every 0 &
	local launcher=$! ranks=() i
	for ((i = 0; i < 500 && ${#ranks[@]} < 2; i++)); do
		mapfile -t ranks < <(pgrep -P $launcher -x gtrain)
		sleep 0.02
	done
	equal "${#ranks[@]}" 2
	for ((i = 0; i < 500; i++)); do
		[ ! -s run/metrics.jsonl ] || break
		sleep 0.02
	done
	[[ $(tr '\0' ' ' <"/proc/${ranks[0]}/cmdline") == "gtrain train --"* ]]
	kill -TERM $launcher
	wait $launcher || status=$?
	equal "$status" 143
}

@test "what ranks would refuse is refused before they are started" {
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --nproc 2 --batch 2 --accumulate 8 --reproducible --out run
	equal "$status" 2
	equal "$err" "gtrain: error: --reproducible: --accumulate 8, where a rank does a step in 4 parts
hint: --accumulate 4, with a larger --batch"
	[ ! -e run ]
}

@test "ranks that would be refused leave the logs of the run that is there alone" {
	RUN=(--model mlp:8,9,3 --data "$RANDOM_DATA" --nproc 2 --steps 3 --out run)
	gtrain train "${RUN[@]}" -q
	equal "$status" 0
	gtrain train "${RUN[@]}"
	equal "$status" 2
	[[ $err == *"'run' holds a run that is at step 3 already"* ]]
	exec {lock}<run
	flock "$lock"
	gtrain train "${RUN[@]}" --resume auto --steps 6
	equal "$status" 1
	[[ $err == *"another run is writing into 'run'"* ]]
	gtrain train "${RUN[@]}" --dry-run
	equal "$status" 0
	exec {lock}<&-
	equal "$(cat run/log/*)" ""
	gtrain train "${RUN[@]}" --resume auto --steps 6
	equal "$status" 0
}

@test "a run that could not begin takes away what it made, and nothing else" {
	gtrain train --model mlp:8,9,3 --data csv:missing.csv --nproc 2 --out fresh
	equal "$status" 1
	equal "$err" "gtrain: error: cannot open 'missing.csv': No such file or directory
hint: check the path and the permissions"
	[ ! -e fresh ]
	mkdir -p mine/log
	echo precious >mine/log/rank-0.log
	gtrain train --model mlp:8,9,3 --data csv:missing.csv --nproc 2 --out mine
	equal "$status" 1
	[[ $(head -n 1 mine/log/rank-0.log) == precious ]]
}

@test "a profile has the reductions of each micro-batch, and the gathers of each step" {
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --nproc 2 --batch 4 --accumulate 2 --steps 6 --threads 1 \
		--parallel zero2 --profile wait=2,active=3 --out run -q --json
	equal "$status" 0
	# of one bucket, all is waited for
	check "$out" 'd["profile"]["collectives_s"] > 0 and d["profile"]["hidden"] == 0'
	lines run/metrics.jsonl 'all(0 <= x["late"] <= 1 and x["late_rank"] in (0, 1) for x in t)'
	for rank in 0 1; do
		# a step at the end of an epoch has fewer micro-batches
		equal "$(jq -c '[.traceEvents[].name] | [([.[] | select(. == "embedding")] | length) as $runs |
			$runs > 3, $runs == ([.[] | select(. == "bucket 0")] | length),
			([.[] | select(. == "gather of bucket 0")] | length)]' <(zcat "run/trace/rank-$rank.json.gz"))" '[true,true,3]'
	done
}

@test "a profile knows of no collective where ranks share the model alone" {
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --nproc 2 --pipeline-parallel 2 --batch 4 --steps 4 \
		--threads 1 --profile active=2 --out run -q --json
	equal "$status" 0
	check "$out" 'd["profile"]["collectives_s"] == 0 and d["profile"]["step_s"] > 0'
	lines run/metrics.jsonl 'not any("late" in x for x in t)'
}

@test "a profile has every kernel of its steps, on every rank" {
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --nproc 2 --batch 4 --steps 8 --threads 1 --workers 1 \
		--profile wait=2,active=3 --out run --json -q
	equal "$status" 0
	check "$out" 'd["profile"]["first"] == 4 and d["profile"]["last"] == 6 and
		0 <= d["profile"]["hidden"] <= 1 and
		0 < d["profile"]["collectives_s"] and 0 < d["profile"]["step_s"]'
	for rank in 0 1; do
		check "$(zcat "run/trace/rank-$rank.json.gz")" 'all(e["pid"] == '"$rank"' for e in d["traceEvents"]) and
			[sum(e["name"] == n for e in d["traceEvents"]) for n in
				("step", "optimizer", "embedding", "all_reduce_wait", "bucket 0")] == [3] * 5 and
			all(e["dur"] >= 0 for e in d["traceEvents"] if e["ph"] == "X")'
	done
	equal "$(python3 "$ROOT/tests/common/check_trace.py" run/trace/rank-{0,1}.json.gz | uniq)" \
		"compute, communicator data, loader thread 0; 3 arrows; bytes flops ranks scope share_of_limit"
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --batch 4 --steps 4 --profile wait=0,warmup=3 --out short --json
	equal "$status" 0 # three steps are asked for, one is left
	check "$out" 'd["profile"]["first"] == d["profile"]["last"] == 4 and d["profile"]["collectives_s"] == 0'
	# the first and the last cycle of several, and one that the end of the run cuts short
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --batch 4 --steps 8 --profile wait=0,warmup=1,active=2,repeat=0 --out cycles --json
	equal "$status" 0
	check "$out" 'd["profile"]["cycles"] == 3 and d["profile"]["first"] == d["profile"]["last"] == 8 and
		d["profile"]["other_steps"] == 0 and 0 < d["profile"]["bound_share"] <= 1 and d["profile"]["bound"] in
			("data", "products", "arithmetic", "memory", "launch", "update", "host")'
	# the table of operations, the limits, and the line that says what to change
	[[ $err == *$'\noperation '*" of the limit"$'\n'*"limits: "*" GFLOP/s in products of float32, "*" GB/s from memory, measured"* ]]
	[[ $err == *"the step is bound by "*" % of its time): "* ]]
	equal "$(ls cycles/trace)" $'rank-0-2.json.gz\nrank-0-3.json.gz\nrank-0.json.gz'
	for cycle in ":2" "-2:2" "-3:1"; do
		equal "$(zcat "cycles/trace/rank-0${cycle%:*}.json.gz" | grep -c '"name":"step"')" "${cycle#*:}"
	done

	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --batch 4 --steps 2 --profile active=1 --out none --json
	equal "$status" 0
	check "$out" '"profile" not in d'
	[[ $err == *"--profile: the run was over before the first step to be recorded, number 3"* ]]
	[ ! -e none/trace ]
	for bad in wait=1,wait=2 repeat=x "wait=1," active=0 wait=-1 steps=3 wait=1,,active=2 wait=x; do
		gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --steps 2 --profile "$bad" --out bad
		equal "$status" 2
		[[ $err == *"--profile: "*"is not as wait=1,warmup=1,active=3,repeat=1"* ]]
	done
	[ ! -e bad ]
}

@test "a dry run prints the plan and writes nothing" {
	gtrain train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --dry-run
	equal "$status" 0
	[[ $out == *"195 parameters"*"64 samples, 8 steps per epoch"*"memory per device"* ]]
	gtrain train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --dry-run --json --out run
	check "$out" 'd["parameters"] == 195 and d["steps"] == 1000 and d["memory_bytes"]["total"]
		== sum(d["memory_bytes"][k] for k in d["memory_bytes"] if k != "total")'
	equal "$(find . ! -name . ! -name out ! -name err)" ""
	check "$out" 'd["launches"] == d["kernels"] == sum(o["launches"] for o in d["ops"])
		and abs(d["flops_per_step"] - sum(o["flops"] for o in d["ops"])) < 1
		and d["bytes_per_step"] == sum(o["bytes"] for o in d["ops"]) and [b["name"] for b in d["model_blocks"]] == ["0", "2"]'
	gtrain train --model gpt:layers=2,width=8,heads=2,block=4,vocab=5 --data random --batch 2 --accumulate 3 --dry-run -v
	equal "$status" 0
	[[ $out == *"in each of 2 blocks"*"op "*"launches"*"GFLOP"*"matmul "*"total "* ]]
	[ "$(awk '$1 == "matmul" { print $2 }' <<<"$out")" = 81 ]
}

@test "of ranks that a launcher has started, the first one prints the plan of a dry run" {
	local rank port=$((15000 + RANDOM % 15000))
	for rank in 1 0; do
		RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
			"$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --dry-run -q >plan$rank &
	done
	wait -n
	wait -n
	grep -q "on each of 2 ranks" plan0
	[ ! -s plan1 ]
}

# ---- steps and batches ----

@test "accumulation is a larger batch, in the short last step of an epoch too" {
	# 52 samples: steps of 16, 16, 16 and 4; by eights, the last step has a single short micro-batch.
	local case common=(train --model mlp:8,16,3 --data random:8/3,samples=52 --epochs 3 --log-every 1 --lr 1e-2 -q)
	gtrain "${common[@]}" --batch 16 --out whole
	for case in "8 2" "4 4" "2 8" "6 3"; do
		gtrain "${common[@]}" --batch "${case% *}" --accumulate "${case#* }" --out "by ${case% *}"
		equal "$status" 0
		[ "$case" != "6 3" ] || continue # another size of step
		python3 - whole "by ${case% *}" <<-'E'
			import json, sys
			a, b = ([json.loads(l) for l in open(d + "/metrics.jsonl")] for d in sys.argv[1:])
			assert len(a) == len(b) == 12
			for x, y in zip(a, b):
			    assert abs(x["loss"] - y["loss"]) < 1e-5 and abs(x["grad_norm"] - y["grad_norm"]) < 1e-4, (x, y)
			# divided by 16, the sum over the 4 that are left would be a quarter
			assert min(x["loss"] for x in a[3::4]) > max(x["loss"] for x in a) / 3, a
		E
	done
	lines "by 6/metrics.jsonl" 'len(t) == 9' # 9 micro-batches an epoch, the last of 4
	gtrain "${common[@]}" --batch 16 --drop-last --out dropped
	lines dropped/metrics.jsonl 'len(t) == 9'
	gtrain "${common[@]}" --batch 64 --drop-last --out none
	equal "$status" 2
	[[ $err == *"52 samples are fewer than one step of 64"*"hint: "* ]]
	for case in "8 2" "4 4" "2 8"; do # what is left out is a short step, not a short micro-batch
		gtrain "${common[@]}" --batch "${case% *}" --accumulate "${case#* }" --drop-last --out "dropped by ${case% *}"
		equal "$status" 0
		lines "dropped by ${case% *}/metrics.jsonl" 'len(t) == 9'
	done
	gtrain "${common[@]}" --batch 16 --accumulate 4 --drop-last --out none
	equal "$status" 2
	[[ $err == *"52 samples are fewer than one step of 64"*"hint: "* ]]
	gtrain "${common[@]}" --batch 64 --out tail
	lines tail/metrics.jsonl 'len(t) == 3'
}

@test "the short last step may have chunks where the full one has none; frozen weights are parameters of a stage" {
	local stages="--nproc 2 --pipeline-parallel 2"

	# shellcheck disable=SC2086
	gtrain train --model lenet --data random,samples=11 --batch 7 $stages --epochs 1 --log-every 1 -q --out run
	equal "$status $err" "0 "
	gtrain train --model lenet --data random,samples=11 --batch 7 --epochs 1 --log-every 1 -q --out one
	lines run/metrics.jsonl "len(t) == 2"
	equal "$(jq -s 'map(.loss * 1e4 | round)' run/metrics.jsonl)" "$(jq -s 'map(.loss * 1e4 | round)' one/metrics.jsonl)"
	# shellcheck disable=SC2086
	gtrain train --model lenet --data random,samples=8 --batch 2 --freeze '!fc3.*' $stages --dry-run --json
	check "$out" "sum(s['parameters'] for s in d['stages']) == d['parameters']"
}

@test "learning rates follow their formulas" {
	local case common=(train --model mlp:8,3 --data "$RANDOM_DATA" --steps 40 --lr 0.1 --log-every 1 -q)
	local after='[0.1 * (i + 1) / 6 for i in range(5)] +'
	while IFS='|' read -r case wanted; do
		rm -rf run
		# shellcheck disable=SC2086 # words
		gtrain "${common[@]}" $case --out run
		equal "$status" 0
		lines run/metrics.jsonl "all(abs(x['lr'] - y) < 1e-8 for x, y in zip(t, $wanted)) and len(t) == 40"
	done <<-E
		--lr-schedule constant --warmup 0|[0.1] * 40
		--lr-schedule constant --warmup 5|$after [0.1] * 35
		--lr-schedule step --warmup 5 --lr-step 10 --lr-gamma 0.5 --min-lr 0|$after [0.1 * 0.5 ** (i // 10) for i in range(35)]
		--lr-schedule cosine --warmup 5 --min-lr 0.02|$after [0.02 + 0.04 * (1 + math.cos(math.pi * i / 35)) for i in range(35)]
		--lr-schedule step --warmup 5 --lr-step 10|$after [0.1 * 0.1 ** (i // 10) for i in range(35)]
		--lr-schedule wsd --decay-steps 40 --min-lr 0|[0.1 * (40 - i) / 40 for i in range(40)]
		--lr-schedule wsd --warmup 5 --decay-steps 8 --min-lr 0.02|$after [0.1] * 27 + [0.02 + 0.08 * (8 - i) / 8 for i in range(8)]
		|[0.1 * (i + 1) / 5 for i in range(4)] + [0.01 + 0.045 * (1 + math.cos(math.pi * i / 36)) for i in range(36)]
	E
}

@test "a run starts from the weights of another" {
	gtrain train --model "$GPT" --data text:"$ROOT"/LICENSE --batch 8 --steps 90 --lr 1e-2 --out first -q
	equal "$status" 0
	local from
	tail -c 500 "$ROOT"/LICENSE >part.txt # fewer characters: the vocabulary must stay the first one's
	for from in first first/model.pth first/checkpoints/step-00000090.pth; do
		rm -rf second
		gtrain train --model "$GPT" --data text:part.txt --init-from $from --batch 8 --steps 1 --out second
		equal "$status" 0
		cmp first/vocab.json second/vocab.json
		lines second/metrics.jsonl 't[0]["loss"] < 3'
	done
}

@test "the target of a regression that begins with the weights of a classifier is standardized" {
	rows 24 "print(i % 5, i % 7, 'ab'[i % 2], sep=',')" >classes.csv
	rows 24 "print(i % 5, i % 7, 200000.5 + 1000 * i, sep=',')" >prices.csv
	gtrain train --model mlp:2,4,2 --data csv:classes.csv --steps 2 --batch 8 -q --out first
	equal "$status $err" "0 "
	gtrain train --model mlp:2,4,1 --data csv:prices.csv --init-from first --steps 2 --batch 8 --log-every 1 --out run
	equal "$status" 0
	[[ $err == *"'2.weight' starts with random weights, because --data has numbers as targets"* ]]
	lines run/metrics.jsonl "all(x['loss'] < 10 for x in t)"
}

@test "a run that began with the weights of another goes on without them" {
	local begin=(--model "$GPT" --data text:"$ROOT"/LICENSE --batch 8 --save-every 1)
	gtrain train "${begin[@]}" --steps 1 --out first -q
	equal "$status" 0
	gtrain train "${begin[@]}" --init-from first --steps 2 --out second -q
	equal "$status" 0
	rm -r first
	gtrain train --resume auto --out second --steps 3
	equal "$status" 0
	[[ $err == *"resuming from second/checkpoints/step-00000002.pth"* && $err != *"weights from"* ]]
}

@test "--patience ends a run that gets no better, also when it goes on" {
	RUN=(--model mlp:8,9,3 --data "$RANDOM_DATA" --val-split 0.25 --batch 8 --optimizer sgd --lr 1e-30 --epochs 9 -q)
	gtrain train "${RUN[@]}" --patience 3 --out run --json
	equal "$status" 0
	check "$out" 'd["step"] == 24 and d["steps"] == 54 and not d["stopped"]'
	lines run/metrics.jsonl '[x["step"] for x in v] == [6, 12, 18, 24] and len({x["loss"] for x in v}) == 1'
	[[ -e run/model.pth && -e run/checkpoints/step-00000024.pth ]]
	gtrain train --resume auto --out run
	equal "$status" 0
	[[ $err == *"no better evaluation in the last 3: the best was at step 6"*"done: 24 steps"* ]]
	cp -r run older
	gtrain train --resume auto --out run --patience 5 -q
	lines run/metrics.jsonl '[x["step"] for x in v] == [6, 12, 18, 24, 30, 36]'
	# A checkpoint that lacks an entry is of an earlier commit.
	forget older/checkpoints/step-00000024.pth evaluations_since
	gtrain train --resume older/checkpoints/step-00000024.pth --out on --patience 5
	[[ $status == 1 && $err == *"'best': it has no 'evaluations_since': an earlier commit of gtrain "*" wrote the file"$'\n'"hint: --init-from starts a new run from its weights" ]]
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --patience 3 --out none
	equal "$status" 2
	[[ $err == *"--patience counts evaluations, and there are none"* ]]
}

@test "on other validation data, the best evaluation begins anew" {
	rows 12 "print(i, i, 'ab'[i % 2], sep=',')" >rows.csv
	echo 1,1,a >a.csv && echo 1,1,b >b.csv
	# One of the two is right from the beginning, the other never.
	for first in a b; do
		gtrain train --model mlp --data csv:rows.csv --val csv:$first.csv --batch 4 --steps 3 --lr 1e-30 --out run -q
		equal "$status" 0
		rm run/best.pth
		gtrain train --resume auto --out run --steps 5
		[[ $status == 0 && $err != *"no longer counts"* && ! -e run/best.pth ]]
		gtrain train --resume auto --out run --steps 6 --val csv:rows.csv,target=2
		equal "$status" 0
		[[ $err == *"--val: the best evaluation so far, at step 3, used other data and no longer counts"* && -e run/best.pth ]]
		rm run/best.pth
		other=$(tr ab ba <<<$first)
		gtrain train --resume auto --out run --steps 7 --val csv:"$other".csv
		[[ $status == 0 && -e run/best.pth ]]
		rm -r run
	done
	gtrain train --model mlp --data csv:rows.csv --val-split 0.5 --batch 4 --steps 3 --out run -q
	cp rows.csv more.csv
	gtrain train --resume auto --out run --steps 6 --data csv:more.csv
	[[ $status == 0 && $err == *"--data: the best evaluation so far, at step "* ]]
}

@test "a run that goes on with another --lr brings its floor along, and keeps the rest" {
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --epochs 2 --lr 2e-3 --out run -q
	gtrain train --resume auto --out run --epochs 4 --lr 1e-4 -q
	equal "$status" 0
	equal "$(values run/config.json '.lr, .["min-lr"], .warmup, .epochs')" '[0.0001,1e-05,0,4]'
	gtrain train --resume auto --out run --epochs 6 -q
	equal "$(values run/config.json '.lr, .["min-lr"], .epochs')" '[0.0001,1e-05,6]'
	gtrain train --resume auto --out run --epochs 8 --lr 1e-2 --min-lr 1e-3 -q
	equal "$(values run/config.json '.lr, .["min-lr"]')" '[0.01,0.001]'
}

@test "a run that goes on with another --lr-schedule computes its steps again" {
	local from more to
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --steps 6 --lr-schedule constant --out constant -q
	gtrain train --model mlp:8,9,3 --data "$RANDOM_DATA" --steps 6 --lr-schedule step --lr-step 5 --out step -q
	while IFS='|' read -r from more to; do
		rm -rf on
		# shellcheck disable=SC2086 # several words
		gtrain train --resume $from/checkpoints/step-00000006.pth --out on -q $more
		equal "$status:$err" 0:
		equal "$more $(values on/config.json '.["lr-step"], .["decay-steps"]')" "$more $to"
	done <<-END
		constant|--steps 30 --lr-schedule step|[10,6]
		constant|--steps 30 --lr-schedule wsd|[10,6]
		constant|--steps 30 --lr-schedule wsd --decay-steps 9|[10,9]
		constant|--steps 30 --lr-schedule constant|[2,1]
		constant|--steps 30|[2,1]
		step|--steps 30 --lr-schedule step|[5,1]
		step|--steps 30|[5,1]
	END
}

@test "config.json names the model with all settings, and gtrain's version; shorter names mean the same" {
	cd "$BATS_TEST_TMPDIR" || return
	gtrain train --model gpt:layers=1,width=16 --data text:"$ROOT/LICENSE" --batch 2 --steps 1 --out run -q
	equal "$status:$err" 0:
	check "$(<run/config.json)" 'd["model"] == "gpt:layers=1,heads=4,width=16,eps=1e-05,block=64,dropout=0,bias=yes,gelu=tanh"
		and d["about"]["version"] == "'"$("$GTRAIN" --version | cut -d' ' -f2)"'"'
	gtrain train --model gpt:layers=1,width=16,bias=yes --data text:"$ROOT/LICENSE" --batch 2 --steps 2 --out run --resume auto -q
	equal "$status:$err" 0:
	gtrain eval --ckpt run --model gpt:width=16,layers=1 --data text:"$ROOT/LICENSE" -q
	equal "$status:$err" 0:
	gtrain eval --ckpt run --model gpt:width=16,layers=1,gelu=erf --data text:"$ROOT/LICENSE" -q
	[[ $err == *"--model gpt:width=16,layers=1,gelu=erf: 'run/checkpoints/step-00000002.pth' has the weights of gpt:layers=1,heads=4,"* ]]
	gtrain train --model gpt:width=16,layers=2 --data text:"$ROOT/LICENSE" --batch 2 --steps 3 --out run --resume auto -q
	equal "$status" 2
	[[ $err == *"it was trained with another --model"* ]]
}
