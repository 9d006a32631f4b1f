#!/usr/bin/env bats
# train.bats - gtrain train: the run directory, what is said meanwhile, and what the options do.

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
	equal "$status" 2
	equal "$err" "gtrain: error: --val: class 'z' is not in the data trained on
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
	gtrain train --model mlp --data $RANDOM_DATA --batch 8 --steps 12 --val-split 0.2 --out run -q
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
	gtrain train --model mlp --data $RANDOM_DATA --batch 8 --steps 4 --out run -q
	equal "$status" 0
	gtrain train --model mlp --data $RANDOM_DATA --batch 8 --steps 2 --out run
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
	local case
	gtrain train --model mlp:8,9,3 --data $RANDOM_DATA --batch 8 --steps 4 --out run -q
	equal "$status" 0
	for case in "--model mlp:8,7,3" "--batch 4" "--seed 1" "--optimizer sgd" --drop-last \
		"--val-split 0.5" "--accumulate 2"; do
		# shellcheck disable=SC2086 # two words
		gtrain train --resume auto --out run --steps 6 $case
		equal "$status" 2
		equal "${err#*pth: }" "it was trained with another ${case% *}
hint: leave ${case% *} as it was; --init-from starts a new run from its weights"
	done
	gtrain train --resume auto --out run --steps 3
	equal "$status" 2
	[[ $err == *"step-00000004.pth is at step 4, the run ends at 3"* ]]
	# The same samples in each step, cut otherwise, are the same run; so is another learning rate.
	gtrain train --resume auto --out run --steps 6 --batch 4 --accumulate 2 --lr 1e-4
	equal "$status" 0
}

@test "temporary files of a killed run go" {
	mkdir -p run/checkpoints
	touch run/model.pth.tmp-4711-0 run/checkpoints/step-00000001.pth.tmp-99-12 run/notes.tmp-mine
	gtrain train --model mlp --data $RANDOM_DATA --steps 1 --out run -q
	equal "$status" 0
	equal "$(cd run && find . -name '*tmp*')" ./notes.tmp-mine
}
