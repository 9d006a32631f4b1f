#!/usr/bin/env bats
# train.bats - gtrain train: the run directory, what is said meanwhile, and what the options do.

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
