#!/usr/bin/env bats
# out_of_memory.bats - what does not fit into memory names the command's own purpose and options.
# shellcheck disable=SC2034,SC2154 # what helpers use and set

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

@test "eval and predict: too large a batch names them, and the batch that fits" {
	"$GTRAIN" train -q --model mlp:4,3000,3000,3 --data random:4/3,samples=8 --steps 1 --optimizer sgd --out run
	limited 400000 eval --ckpt run --data random:4/3,samples=60000 --batch 60000
	equal "$status $out" "1 "
	[[ $err == *"error: the evaluation needs "*" of memory, this machine has "*" MiB; it needs "*" parameters, "*" activations"* ]]
	[[ $err == *$'\nhint: it fits with --batch '* ]]
	seq -f '%g,1,2,3' 60000 >inputs.csv
	limited 400000 predict --ckpt run inputs.csv --batch 60000
	equal "$status $out" "1 "
	[[ $err == *"error: the prediction needs "*" of memory, this machine has "*" MiB; it needs "* ]]
	[[ $err == *$'\nhint: it fits with --batch '* ]]
	[[ $err != *evaluation* ]]
}

@test "generate: too little memory names the text, and no option that generate does not have" {
	seq 1 200 >text.txt
	"$GTRAIN" train -q --model gpt:layers=2,heads=1,width=1408,block=16 --data text:text.txt --steps 1 --batch 1 --optimizer sgd --out run
	limited 66000 generate --ckpt run --prompt 1 --tokens 40
	equal "$status $out" "1 "
	[[ $err == *"error: the generation needs "*" of memory, this machine has "*" MiB; it needs 182 MiB parameters, "*" keys and values, "*" activations"* ]]
	[[ $err == *"hint: use a device with more memory: it does not fit with --tokens 16 ("*") either" ]]
	[[ $err != *batch* ]]
}
