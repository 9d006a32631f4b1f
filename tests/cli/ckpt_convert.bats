#!/usr/bin/env bats
# ckpt_convert.bats - gtrain ckpt convert, select, merge: what they say, write and refuse.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	gtrain train --model mlp:4,3,2 --data random --batch 2 --steps 1 --out run -q
	equal "$status" 0
	cp run/model.pth in.pth
}

keys() {
	"$GTRAIN" ckpt ls "$1" --json | jq -r '.tensors[].key' | sort
}

@test "convert goes to every format and back to the same tensors" {
	for to in $(option_words "ckpt convert" to | grep -vxE "hf|pt2|onnx|gguf"); do
		gtrain ckpt convert in.pth --to "$to" -o there
		equal "$status" 0
		equal "$out" ""
		gtrain ckpt convert there --to pth -o back.pth -q
		equal "$status" 0
		equal "$err" ""
		rm -r there # a folder, with dcp
		gtrain ckpt diff in.pth back.pth
		equal "$status" 0
		gtrain ckpt verify back.pth
		equal "$status" 0
	done
}

@test "the ending decides, and --json says what was written" {
	gtrain ckpt convert in.pth -o out.safetensors --json
	equal "$status" 0
	equal "$err" ""
	equal "$(jq -r .format <"$BATS_TEST_TMPDIR/out")" safetensors
	equal "$(jq .tensors <"$BATS_TEST_TMPDIR/out")" "$(keys in.pth | wc -l)"
	gtrain ckpt convert in.pth -o $'\xff.npz' --json # its name is not UTF-8
	equal "$status:$(jq -r .output <"$BATS_TEST_TMPDIR/out")" $'0:\xef\xbf\xbd.npz'
	gtrain ckpt convert in.pth -o out.xyz
	equal "$status" 2
	equal "$err" "gtrain: error: the ending of 'out.xyz' names no format
hint: name the format with --to: pth, legacy, safetensors, npz, dcp, hf, pt2, onnx, gguf"
	[[ ! -e out.xyz ]]
	gtrain ckpt select in.pth --keys '*' -o out.xyz
	[[ $err == *"hint: name the format with --to: pth, legacy, safetensors, npz, dcp" ]]
}

@test "an ending may be in capitals, and one that misleads is warned of" {
	gtrain ckpt convert in.pth -o OUT.PTH -q
	equal "$status" 0
	gtrain ckpt convert in.pth -o out.SafeTensors --json
	equal "$(jq -r .format <"$BATS_TEST_TMPDIR/out")" safetensors
	gtrain ckpt convert in.pth -o x.safetensors --to pth -q
	equal "$status" 0
	[[ $err == *"'x.safetensors' is written as torch-zip: its ending is that of safetensors"* ]]
	gtrain ckpt convert in.pth -o old.pth --to legacy -q
	equal "$err" ""
}

@test "legacy files hold no storages without a type" {
	for type in U16 U32 U64 F8_E4M3 F8_E5M2; do
		case $type in
		U*) name=uint${type#U} bytes=$((${type#U} / 8)) ;;
		F8_E4M3) name=float8_e4m3fn bytes=1 ;;
		F8_E5M2) name=float8_e5m2 bytes=1 ;;
		esac
		header="{\"ids\":{\"dtype\":\"$type\",\"shape\":[1],\"data_offsets\":[0,$bytes]}}"
		{
			printf "\\x$(printf %x ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
			head -c "$bytes" /dev/zero
		} >in.safetensors
		for command in "convert in.safetensors" "select in.safetensors --keys ids" "merge in.safetensors in.pth"; do
			# shellcheck disable=SC2086 # the words of the command
			gtrain ckpt $command -o out.th --to legacy
			equal "$status" 1
			[[ $err == *"'ids' is $name, which the legacy format cannot hold"*"hint: --to pth can"* ]]
			[[ ! -e out.th ]]
		done
		gtrain ckpt convert in.safetensors -o out.pth -q
		equal "$status" 0
	done
	gtrain ckpt convert in.safetensors -o out.th --to legacy --dtype fp16 -q
	equal "$status" 0
}

@test "convert refuses what is wrong and leaves nothing" {
	gtrain ckpt convert -o out.pth
	equal "$status" 2
	gtrain ckpt convert in.pth
	equal "$status" 2
	gtrain ckpt convert in.pth -o in.pth
	equal "$status" 2
	[[ $err == *"is the input"* ]]
	gtrain ckpt convert absent.pth -o out.pth
	equal "$status" 1
	gtrain ckpt convert in.pth -o out.pth --shard-size 1K
	equal "$status" 1
	[[ $err == *"has no shards"* ]]
	gtrain ckpt convert in.pth -o out.npz --dtype bf16
	equal "$status" 1
	size=$(stat -c %s in.pth)
	head -c $((size / 2)) in.pth >cut.pth
	gtrain ckpt convert cut.pth -o out.pth
	equal "$status" 1
	equal "$(ls)" "$(printf 'cut.pth\nerr\nin.pth\nout\nrun')"
}

@test "files of a run are not written over" {
	local to
	cp in.pth run/copy.pth
	ln -s run/model.pth link.pth
	ln -s run folder
	for to in run/model.pth run/checkpoints/step-*.pth link.pth folder/model.pth; do
		gtrain ckpt convert in.pth -o "$to"
		equal "$status:$err" "2:gtrain: error: --output: '$to' would be written over: it is a file of a run
hint: name another file"
	done
	gtrain ckpt convert in.pth -o run/copy.pth -q
	equal "$status" 0
}

@test "a flipped bit in the source is found" {
	gtrain ckpt convert in.pth -o copy.pth -q
	at=$(grep -abo 'archive/data/0' copy.pth | head -1 | cut -d: -f1)
	printf '\377' | dd of=copy.pth bs=1 seek=$((at + 70)) conv=notrunc status=none
	gtrain ckpt convert copy.pth -o out.safetensors
	equal "$status" 1
	[[ ! -e out.safetensors ]]
}

@test "the report names the index of shards" {
	gtrain ckpt convert in.pth -o out.safetensors --shard-size 64
	equal "$status" 0
	[[ $err == *"out.safetensors.index.json: "*" tensors, in shards of safetensors"* ]]
	[[ $err != *KiB* ]]
	gtrain ckpt convert in.pth -o out.safetensors --shard-size 64 --json
	equal "$(jq -r .output <<<"$out")" out.safetensors.index.json
}

@test "shards hold what one file does" {
	gtrain ckpt convert in.pth -o out.safetensors --shard-size 64 -q
	equal "$status" 0
	equal "$(keys out.safetensors.index.json)" "$(keys in.pth)"
}

@test "no file of the input is written over, whatever the name of the output" {
	mkdir sh
	gtrain ckpt convert in.pth -o sh/model.safetensors --shard-size 64 -q
	equal "$status" 0
	sha256sum sh/* >sums
	first=$(echo sh/model-00001-of-*)
	set -- "$first" "sh/model.safetensors.index.json" sh
	for from; do
		gtrain ckpt convert "$from" -o sh/model.safetensors.index.json --shard-size 64
		equal "$status" 2
		gtrain ckpt convert "$from" -o "$first"
		equal "$status" 2
	done
	gtrain ckpt convert sh -o sh/model.safetensors --shard-size 32
	equal "$status" 2
	[[ $err == *"would be written over: it is the input's"* ]]
	gtrain ckpt merge sh in.pth -o "$first"
	equal "$status" 2
	gtrain ckpt convert in.pth -o sh/model.safetensors.index.json
	equal "$status" 2
	[[ $err == *"'.index.json' is the ending of an index of shards"*"--shard-size"* ]]
	sha256sum --quiet -c sums
	gtrain ckpt convert in.pth -o one.safetensors.index.json --shard-size 1G
	equal "$status" 0
	equal "$(keys one.safetensors.index.json)" "$(keys in.pth)"
}

@test "a single file that would hide the new shards is an error, and nothing is written" {
	gtrain ckpt convert in.pth -o sh/model.safetensors -q
	equal "$status" 1
	mkdir sh
	gtrain ckpt convert in.pth -o sh/model.safetensors -q
	equal "$status" 0
	gtrain ckpt convert in.pth -o cut.safetensors --shard-size 64 -q
	for command in "convert in.pth" "merge in.pth in.pth --average" "select in.pth --keys *"; do
		for out in model.safetensors model.safetensors.index.json; do
			# shellcheck disable=SC2086 # the words of the command
			set -f && gtrain ckpt $command -o "sh/$out" --shard-size 64 && set +f
			equal "$status" 2
			[[ $err == *"'sh/model.safetensors' exists, and would be read instead of the shards"*"hint: write the shards to another name"* ]]
		done
	done
	gtrain ckpt convert sh/model.safetensors -o sh/model.safetensors.index.json --shard-size 64
	equal "$status" 2
	[[ $err != *remove* ]] # the input
	gtrain ckpt add-module cut.safetensors.index.json -o sh/model.safetensors.index.json
	equal "$status" 2
	equal "$(ls sh)" model.safetensors
}

@test "a single file beside older shards is read, and the index stays whole" {
	mkdir sh
	gtrain ckpt convert in.pth -o sh/model.safetensors --shard-size 64 -q
	gtrain ckpt add-module in.pth -o new.pth -q
	gtrain ckpt convert new.pth -o sh/model.safetensors -q
	equal "$status" 0
	equal "$(keys sh)" "$(keys new.pth)"
	equal "$(keys sh/model.safetensors)" "$(keys new.pth)"
	gtrain ckpt diff sh/model.safetensors.index.json in.pth
	equal "$status" 0
}

@test "select takes by name and by path" {
	name=$(keys in.pth | head -1)
	gtrain ckpt select in.pth --keys "$name" -o out.pth
	equal "$status" 0
	equal "$(keys out.pth)" "$name"
	gtrain ckpt select in.pth --keys 'nothing*' -o out2.pth
	equal "$status" 1
	[[ $err == *"no name matches 'nothing*'"* ]]
	gtrain ckpt select in.pth --path nowhere -o out2.pth
	equal "$status" 1
	[[ $err == *"nothing is under 'nowhere'"* ]]
	gtrain ckpt select in.pth -o out2.pth
	equal "$status" 2
	[[ ! -e out2.pth ]]
}

@test "merge unites, averages, and lists what differs" {
	gtrain ckpt add-module in.pth -o other.pth -q
	gtrain ckpt merge in.pth other.pth -o out.pth
	equal "$status" 0
	equal "$(keys out.pth)" "$({ keys in.pth; keys other.pth; } | sort)"
	gtrain ckpt merge in.pth in.pth --average -o mean.pth
	equal "$status" 0
	gtrain ckpt diff in.pth mean.pth
	equal "$status" 0
	gtrain ckpt merge in.pth other.pth --average -o mean2.pth
	equal "$status" 1
	[[ $err == *"is in 'in.pth', not in 'other.pth'"* ]]
	gtrain ckpt convert in.pth --dtype fp16 -o half.pth -q
	gtrain ckpt merge in.pth half.pth -o out2.pth
	equal "$status" 1
	[[ $err == *"with different content"* ]]
	gtrain ckpt merge in.pth -o out2.pth
	equal "$status" 2
	[[ ! -e out2.pth && ! -e mean2.pth ]]
}

@test "one tensor alone goes into a .pth, and the hint says so" {
	gtrain ckpt select in.pth --path "$(keys in.pth | head -1)" -o one.safetensors
	equal "$status" 1
	[[ $err == *"the checkpoint is one tensor"*"a .pth takes anything"* ]]
	gtrain ckpt select in.pth --path "$(keys in.pth | head -1)" -o one.pth
	equal "$status" 0
	[[ $err == *": 1 tensor, "* ]]
}
