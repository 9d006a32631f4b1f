#!/usr/bin/env bats
# ckpt_look.bats - gtrain ckpt ls, verify and diff from outside.
# shellcheck disable=SC2016,SC2054,SC2154 # backticks in hints; commas in options; what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	"$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 2 --out run -q
	"$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 3 --out other -q
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

@test "ls prints a table" {
	gtrain ckpt ls run/model.pth
	equal "$status" 0
	equal "$err" ""
	equal "$out" "torch-zip, $(size_of run/model.pth): 4 tensors of 195 elements, 780 B in 4 storages

key       dtype    shape    device  bytes
0.weight  float32  [16, 8]  cpu     512 B
0.bias    float32  [16]     cpu      64 B
2.weight  float32  [3, 16]  cpu     192 B
2.bias    float32  [3]      cpu      12 B"
}

# As ls gives it: two or three digits of KiB.
size_of() {
	awk -v n="$(wc -c <"$1")" 'BEGIN { k = n / 1024; s = sprintf(k < 9.995 ? "%.2f" : "%.1f", k)
		sub(/\.?0+$/, "", s); print s " KiB" }'
}

@test "ls says what is no tensor, some of it or all" {
	gtrain ckpt ls run/checkpoints/step-00000002.pth
	equal "$status" 0
	[[ $out == *$'\nstep '*'2'* && $out == *"more values; --all shows them" ]]
	gtrain ckpt ls -a run/checkpoints/step-00000002.pth
	[[ $out == *$'\nstep '*'2'* && $out != *"--all"* ]]
}

@test "ls --json is one document, with --stats for each tensor" {
	gtrain ckpt ls --json --stats run/model.pth
	equal "$status" 0
	equal "$(jq -c '[.format, .tensors[0].key, .tensors[0].path, .tensors[0].dtype, .tensors[0].shape,
		.tensors[0].device, .tensors[0].storage, .tensors[0].offset, .tensors[0].stride, .values]' <<<"$out")" \
		'["torch-zip","0.weight",["0.weight"],"float32",[16,8],"cpu",0,0,[8,1],{}]'
	equal "$(jq -c '[.tensors[].stats | .nan + .inf]' <<<"$out")" '[0,0,0,0]'
	equal "$(jq -c 'all(.tensors[].stats; .min <= .mean and .mean <= .max and .std > 0)' <<<"$out")" true
	gtrain ckpt ls --json run/checkpoints/step-00000002.pth
	equal "$(jq .values.step <<<"$out")" 2
}

@test "ls prints control characters of keys so that no terminal obeys them" {
	sed 's/2\.weight/2\x1b[1mxx\n/' run/model.pth >raw.pth
	gtrain ckpt ls raw.pth
	[[ $err$out != *$'\x1b'* ]]
}

@test "ls has colors when asked, and not by NO_COLOR" {
	gtrain ckpt ls --color=always run/model.pth
	[[ $out == *$'\x1b[1mkey'* ]]
	NO_COLOR=1 gtrain ckpt ls run/model.pth
	[[ $out != *$'\x1b'* ]]
}

@test "each asks for its files, and says which one cannot be read" {
	local command
	for command in ls verify diff; do
		gtrain ckpt $command
		equal "$status" 2
		equal "$out" ""
		[[ $err == *"hint: gtrain ckpt $command "* ]]
		gtrain ckpt $command missing.pth run/model.pth
		[[ $err$out == *"'missing.pth'"* || $err == *"unexpected argument 'run/model.pth'"* ]]
		gtrain ckpt $command --threads 0 run/model.pth run/model.pth
		equal "$status" 2
	done
	gtrain ckpt ls missing.pth
	equal "$status" 1
	mkdir -p empty
	gtrain ckpt ls empty
	equal "$status" 1
	[[ $err == *"'empty' is a directory without a checkpoint in it"* ]]
}

@test "a full disk is a failure" {
	local command
	for command in "ls run/model.pth" "ls --json run/model.pth" "verify run/model.pth" "verify --json run/model.pth" \
		"diff run/model.pth run/model.pth"; do
		# shellcheck disable=SC2086
		run -1 --separate-stderr bash -c '"$GTRAIN" ckpt "$@" >/dev/full' - $command
		# shellcheck disable=SC2154
		[[ $stderr == *"cannot write to standard output"* ]]
	done
}

@test "diff: 0 for the same, 1 for different, 2 for wrong usage" {
	gtrain ckpt diff run/model.pth run/model.pth
	equal "$status" 0
	equal "$out" "the same: 4 tensors"
	gtrain ckpt diff run/model.pth other/model.pth
	equal "$status" 1
	[[ $out == $'A: run/model.pth\nB: other/model.pth\nnumbers  0.bias '*' differ, by at most '*'4 differences; 4 tensors and 0 other values are in both' ]]
	gtrain ckpt diff --tolerance 1000 run/model.pth other/model.pth
	equal "$status" 0
	gtrain ckpt diff --tolerance nan run/model.pth other/model.pth
	equal "$status" 2
	gtrain ckpt diff --json run/model.pth other/model.pth
	equal "$status" 1
	equal "$(jq -c '[.same, (.differences | length), .differences[0].kind]' <<<"$out")" '[false,4,"numbers"]'
}

@test "diff finds the state_dict inside a checkpoint when asked to" {
	gtrain ckpt diff run/model.pth run/checkpoints/step-00000002.pth
	equal "$status" 1
	[[ $err == *"--state-dict compares them so"* ]]
	gtrain ckpt diff --state-dict run/model.pth run/checkpoints/step-00000002.pth
	equal "$status" 0
	[[ $err == *"found under 'model'"* ]]
}

@test "verify: a sound file, a flipped bit, JSON" {
	gtrain ckpt verify run/model.pth
	equal "$status" 0
	[[ $out == *"4 tensors, "*" records, "*" compared with checksums"*$'\nnothing is wrong' ]]
	cp run/model.pth flipped.pth
	at=$(grep -abo 'archive/data/0' flipped.pth | head -1 | cut -d: -f1)
	printf '\377' | dd of=flipped.pth bs=1 seek=$((at + 70)) conv=notrunc status=none
	gtrain ckpt verify flipped.pth
	equal "$status" 1
	[[ $out == *"damage: "* ]]
	gtrain ckpt verify --json flipped.pth
	equal "$status" 1
	equal "$(jq -c '[.ok, .findings[0].kind]' <<<"$out")" '[false,"damage"]'
}

@test "verify of a folder: a row for each checkpoint, also for those that only a link leads to" {
	mkdir -p models/hub models/deep/er empty
	cp run/model.pth models/a.pth
	head -c 300 run/model.pth >models/deep/cut.bin
	ln -s ../../../run models/deep/er/run # the files of the run, two of them checkpoints
	ln -s ../a.pth models/hub/again.pth   # was checked
	ln -s .. models/hub/loop
	printf 'cposix\nsystem\n(S"id"\ntR.' >models/hub/settings.dat # a pickle of no checkpoint
	echo text >models/README.md
	mkfifo models/pipe
	ln -s nowhere models/gone.pth
	ln -s nowhere models/gone.txt
	head -c 300 /dev/zero >models/__0_0.distcp # a part of a checkpoint whose .metadata is missing
	cp run/model.pth models/model.pth # is no reason to take the folder for a run
	gtrain ckpt verify models
	equal "$status" 1
	equal "$(awk '$1 == "ok" || $1 == "FAILED" { print $1, $NF }' <<<"$out" | sort)" "FAILED models/__0_0.distcp
FAILED models/deep/cut.bin
FAILED models/gone.pth
FAILED models/hub/settings.dat
ok models/a.pth
ok models/deep/er/run/checkpoints/step-00000002.pth
ok models/deep/er/run/model.pth
ok models/model.pth"
	[[ $out == *"calls 'posix.system'"*$'\n\n8 checkpoints, 4 failed; '*" other files" ]]
	gtrain ckpt verify --json models
	equal "$status" 1
	equal "$(jq -c '[.ok, .failed, (.files | length), .files[0].path, .files[0].tensors]' <<<"$out")" \
		'[false,4,8,"models/__0_0.distcp",0]'
	gtrain ckpt verify models/a.pth run absent.pth
	equal "$status" 1
	[[ $out == *"ok "*"run/checkpoints/step-00000002.pth"*"FAILED "*"cannot open 'absent.pth'"*"3 checkpoints, 1 failed" ]]
	gtrain ckpt verify models/a.pth run
	equal "$status" 0
	gtrain ckpt verify empty
	equal "$status:$err" "1:gtrain: error: no checkpoint in 'empty'"
	gtrain ckpt verify --repair models
	equal "$status" 2
	[[ $err == *"--repair takes the path of one file"* ]]
}

@test "verify of a folder: folders with links to each other are searched once" {
	local i
	for i in {1..30}; do
		mkdir -p "linked/$i"
		ln -s "../$((i + 1))" "linked/$i/a"
		ln -s "../$((i + 1))" "linked/$i/b"
	done
	mkdir linked/31
	cp run/model.pth linked/31
	run -0 timeout 20 "$GTRAIN" ckpt verify linked/1
	[[ $output == *"linked/1/a/a/"*"/model.pth"*"1 checkpoint, 0 failed" ]]
}

@test "verify of a folder: shards are checked once, with their index" {
	mkdir -p sharded
	gtrain ckpt select run/model.pth --keys '0.*' -o sharded/x-1.safetensors -q
	gtrain ckpt select run/model.pth --keys '2.*' -o sharded/x-2.safetensors -q
	echo '{"weight_map": {"0.weight": "x-1.safetensors", "0.bias": "x-1.safetensors",
		"2.weight": "x-2.safetensors", "2.bias": "x-2.safetensors"}}' >sharded/x.index.json
	cp run/model.pth sharded/z.pth
	gtrain ckpt verify run sharded/..
	[[ $out == *"sharded/x.index.json"* && $out != *"sharded/x-1"* ]]
}

@test "verify --repair leaves a sound file alone, and what cannot be mended" {
	cp run/model.pth copy.pth
	gtrain ckpt verify --repair copy.pth
	equal "$status" 0
	[[ $err == *"nothing to cut off"* ]]
	cmp run/model.pth copy.pth
	head -c 900 run/model.pth >cut.pth
	cp cut.pth before.pth
	gtrain ckpt verify --repair cut.pth
	equal "$status" 1
	[[ $err == *"no earlier state of the file is sound"* ]]
	cmp cut.pth before.pth
}

# 8 GiB of zeros that no disk holds: time enough to cut the file while it is read.
@test "a file that becomes shorter while it is read is an error with a reason" {
	cd "$BATS_TEST_TMPDIR" || return
	head='{"w":{"dtype":"F32","shape":[2147483648],"data_offsets":[0,8589934592]}}'
	for command in "ls --stats" verify "convert -o out.npz"; do
		printf '\x48\0\0\0\0\0\0\0%s' "$head" >cut.safetensors
		truncate -s 8589934672 cut.safetensors
		# shellcheck disable=SC2086
		"$GTRAIN" ckpt $command cut.safetensors >out 2>err &
		until grep -q cut.safetensors "/proc/$!/maps"; do kill -0 $!; done
		truncate -s 4096 cut.safetensors
		status=0
		wait $! || status=$?
		equal "$status" 1
		[[ $(<err) == "gtrain: error: "*"'cut.safetensors': a file became shorter while it was read"$'\n'"hint: "* ]]
		equal "$(find . -name 'out*')" ./out
	done
}

@test "a run directory stands for its latest checkpoint" {
	gtrain ckpt ls run/checkpoints/step-00000002.pth
	expected=$out
	gtrain ckpt ls run
	equal "$status" 0
	equal "$out" "$expected"
	equal "$err" "run is a run; its latest checkpoint is run/checkpoints/step-00000002.pth"
	gtrain ckpt verify -q run
	equal "$status" 0
	gtrain ckpt diff -q run run/checkpoints/step-00000002.pth
	equal "$status" 0
	gtrain ckpt convert -q run -o of_run.safetensors
	equal "$status" 0
	gtrain ckpt diff -q of_run.safetensors run/model.pth
	equal "$status" 0
}
