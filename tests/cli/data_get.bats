#!/usr/bin/env bats
# data_get.bats - gtrain data get and ls, with a server of this machine in place of the publishers.
# shellcheck disable=SC2016 # inner shells expand

bats_require_minimum_version 1.5.0

# A name that is none, whatever servers of names say, or whether there are any: a label is too long.
no_host=$(printf 'x%.0s' {1..70}).invalid

setup() {
	load helpers
	cd "$BATS_TEST_TMPDIR" || return
	unset http_proxy https_proxy all_proxy HTTPS_PROXY ALL_PROXY
	export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
	folder=$XDG_CACHE_HOME/gtrain/data
}

teardown() {
	[[ -z ${server-} ]] || kill "$server" 2>/dev/null || true
}

# A mirror has one real file: the copy of Shakespeare that this machine may have.
start_mirror() {
	local text=${GTRAIN_TEST_DATA:-$ROOT/../shared/data}/tinyshakespeare.txt

	[[ -r $text ]] || skip "data: no '$text'"
	needs_curl
	mkdir -p files/shakespeare
	cp "$text" files/shakespeare/input.txt
	serve files
}

serve() {
	rm -f port
	python3 "$ROOT/tests/common/file_server.py" "$1" port >requests 3>&- &
	server=$!
	for ((i = 0; i < 100; i++)); do
		[[ ! -s port ]] || break
		sleep 0.05
	done
	mirror=http://127.0.0.1:$(<port)
}

needs_curl() {
	gtrain data get shakespeare --mirror http://127.0.0.1:1 --to nowhere
	[[ $err != *"cannot open libcurl"* ]] || skip "curl: $err"
}

@test "a set is fetched, checked and told how to be trained on; the next call asks nobody" {
	start_mirror
	gtrain train --model gpt --data shakespeare --dry-run
	equal "$status" 1
	equal "$err" "gtrain: error: data set 'shakespeare' is not in '$folder'
hint: fetch it: \`gtrain data get shakespeare\`; or write text:PATH"
	gtrain data get shakespeare --mirror "$mirror/whole/"
	equal "$status" 0
	equal "$out" "shakespeare: $folder/shakespeare
  gtrain train --model gpt --data shakespeare"
	equal "$err" "fetching 'input.txt' from ${mirror#http://}, 1.06 MiB"
	cmp files/shakespeare/input.txt "$folder/shakespeare/input.txt"
	equal "$(ls "$folder/shakespeare")" input.txt
	gtrain data get shakespeare shakespeare --mirror "$mirror/whole" --json
	equal "$status:$err" 0:
	equal "$(jq -c '[.sets[] | [.name, .path, .data, .fetched]]' <<<"$out")" \
		"[[\"shakespeare\",\"$folder/shakespeare\",\"shakespeare\",0],[\"shakespeare\",\"$folder/shakespeare\",\"shakespeare\",0]]"
	equal "$(wc -l <requests)" 1
	gtrain data get shakespeare --mirror "$mirror/whole" --force -q
	equal "$status:$err" 0:
	equal "$(wc -l <requests)" 2
	equal "$(gtrain data ls --json; jq -c '[.sets[] | select(.there) | .name]' <<<"$out")" '["shakespeare"]'
	gtrain train --model gpt --data shakespeare,level=byte --dry-run -q
	equal "$status" 0
}

@test "the folder of sets is a mirror; the command that is printed is one, whatever the folder's name" {
	start_mirror
	gtrain data get shakespeare --mirror "$mirror/whole" --to "it's a, folder/" -q
	equal "$status" 0
	PATH=$(dirname "$GTRAIN"):$PATH bash -c "$(tail -n 1 <<<"$out") --dry-run -q" >plan
	grep -q parameters plan
	kill "$server"
	serve "it's a, folder"
	gtrain data get shakespeare --mirror "$mirror/whole" -q
	equal "$status" 0
	cmp files/shakespeare/input.txt "$folder/shakespeare/input.txt"
}

@test "what an interrupted call has fetched is not fetched again" {
	local part
	start_mirror
	python3 "$ROOT/tests/common/terminal.py" 24 1 ETA "$GTRAIN" data get shakespeare --mirror "$mirror/stall" >drawn || status=$?
	equal "$status" 1 # ended by the signal
	[[ $(<drawn) == *'KiB '*'/1089'*'['*'>'*']'*'% input.txt '*'/s ETA '* ]]
	part=$(stat -c %s "$folder/shakespeare/input.txt.part")
	((part > 0 && part <= 557697))
	gtrain data ls
	equal "$(awk '$1 == "shakespeare" { print $4 }' <<<"$out")" no
	gtrain data get shakespeare --mirror "$mirror/whole"
	equal "$status" 0
	[[ $err == "fetching 'input.txt' from "*", from "*" of 1.06 MiB on" ]]
	equal "$(tail -n 1 requests)" "whole shakespeare/input.txt bytes=$part-"
	cmp files/shakespeare/input.txt "$folder/shakespeare/input.txt"
}

@test "a server that falls silent is given up, and what it sent stays" {
	start_mirror
	gtrain data get shakespeare --mirror "$mirror/stall" --timeout 1s --retries 0
	equal "$status" 1
	[[ $err == *"error: cannot fetch 'input.txt' from 127.0.0.1"*": Operation too slow"* ]]
	equal "$(stat -c %s "$folder/shakespeare/input.txt.part")" 557697
	# One that never spoke is not asked again.
	gtrain data get shakespeare --mirror "$mirror/silent" --timeout 1s --retries 5
	equal "$status" 1
	[[ $err == *": Operation too slow"* ]]
	equal "$(grep -c silent requests)" 1
}

# WAY|ERROR
failures() {
	cat <<-'CASES'
		wrong|is not the file that is published: another SHA-256
		404|HTTP status 404
		403|HTTP status 403
		500|HTTP status 500
		204|the file there has 0 bytes, not 1115394
	CASES
}

@test "each failure ends in a line, a hint, and no file" {
	local way reason
	start_mirror
	while IFS='|' read -r way reason; do
		gtrain data get shakespeare --mirror "$mirror/$way" --retries 0 -q
		equal "$status:$out" 1:
		[[ $err == "gtrain: error: "*"input.txt"*"127.0.0.1"*"$reason"$'\n'"hint: without a network: download https://raw"*"put it into '$folder/shakespeare', and run this again" ]]
		equal "$(wc -l <<<"$err")" 2
		equal "$(ls "$folder/shakespeare")" ""
	done < <(failures)
}

@test "without a network, and without libcurl, the files may be brought by hand" {
	needs_curl
	gtrain data get mnist --mirror http://127.0.0.1:1
	equal "$status" 1
	[[ $err == *"cannot fetch 'train-images-idx3-ubyte.gz' from 127.0.0.1:1: "*$'\n'"hint: without a network: download "*"put it into '$folder/mnist'"* ]]
	gtrain data get cifar10 --mirror "http://$no_host" -q
	[[ $err == "gtrain: error: cannot fetch 'cifar-10-binary.tar.gz' from $no_host: the name of the host is not known, or there is no network"* ]]
	mkdir no
	touch no/libcurl.so.4 no/libcurl-gnutls.so.4
	LD_LIBRARY_PATH=$PWD/no gtrain data get mnist -q
	equal "$status" 1
	[[ $err == "gtrain: error: cannot open libcurl, which downloads: "*$'\n'"hint: install libcurl, Debian's package libcurl4" ]]
	start_mirror
	mkdir -p "$folder/shakespeare"
	cp files/shakespeare/input.txt "$folder/shakespeare"
	LD_LIBRARY_PATH=$PWD/no gtrain data get shakespeare -q
	equal "$status:$err" 0:
}

@test "ls says names, sizes, addresses and checksums" {
	gtrain data ls
	equal "$status:$err" 0:
	equal "$(awk 'NR > 1 { print $1 }' <<<"$out" | xargs)" "$("$GTRAIN" --complete data get "" | sed 1d | xargs)"
	gtrain data ls mnist
	[[ $out == "mnist: 70,000 digits"*"folder: $folder/mnist"*"https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz"* ]]
	gtrain data ls --json
	equal "$(jq -c '[.sets[] | .bytes == ([.files[].bytes] | add)] | unique' <<<"$out")" '[true]'
	equal "$(jq -c '[.sets[].files[] | .sha256 | length] | unique' <<<"$out")" '[64]'
	gtrain data ls --json --to elsewhere cifar10
	equal "$(jq -c '.sets[] | [.name, .there, .path, .data]' <<<"$out")" \
		'["cifar10",false,"elsewhere/cifar10","cifar10:elsewhere/cifar10/cifar-10-batches-bin"]'
	[ ! -e elsewhere ]
	XDG_CACHE_HOME='' HOME='' gtrain data ls
	equal "$status" 1
	[[ $err == *"there is no folder for caches: HOME is not set"$'\n'"hint: name a folder with --to" ]]
}

# STATUS|ARGUMENTS|ERROR
wrong_usage() {
	cat <<-'CASES'
		2||no data set is named
		2|mnst|did you mean 'mnist'?
		2|../mnist|there is no data set '../mnist' to fetch
		2|mnist ''|there is no data set '' to fetch
		2|mnist --mirror file:///etc|--mirror: 'file:///etc' is not an address of HTTP
		2|mnist --mirror http://|--mirror: 'http://' is not an address of HTTP
		2|mnist --mirror ''|--mirror: the value is empty
		1|mnist --mirror 'http://a b:c/'|cannot fetch 'train-images-idx3-ubyte.gz'
		2|mnist --timeout 0|--timeout: '0'
		2|mnist --retries -1|--retries: '-1'
		1|mnist --to /proc/nothing|cannot make the directory '/proc/nothing'
		1|mnist --to file|'file/mnist'
		2|mnist --to ''|--to: the value is empty
		1|mnist --to folder|'folder/mnist/train-images-idx3-ubyte.gz' is a directory
		1|shakespeare --to folder|'folder/shakespeare/input.txt' is not the file that is published: 5 bytes, not 1115394
		1|cifar10 --to folder|cifar-10-batches-bin/data_batch_1.bin' is not the file that is published: 0 bytes
	CASES
}

@test "the name of weights leads to their file, or to the command that fetches them" {
	local weights="$folder/resnet18/resnet18-f37072fd.pth"
	gtrain train --model resnet18 --data random --init-from resnet18 --dry-run
	equal "$status:$err" "1:gtrain: error: cannot open the checkpoint 'resnet18': No such file or directory
hint: \`gtrain data get resnet18\` fetches it into '$weights'; give that path"
	mkdir -p "$folder/resnet18"
	truncate -s 46830571 "$weights"
	gtrain train --model resnet18 --data random --init-from resnet18 --dry-run
	equal "$status:$err" "1:gtrain: error: cannot open the checkpoint 'resnet18': No such file or directory
hint: the path of the well-known 'resnet18' is '$weights'"
	gtrain data get resnet18 # holes in place of weights
	equal "$status" 1
	[[ $err == *"'$weights' is not the file that is published: another SHA-256"* ]]
	gtrain data ls vit-base
	[[ $out == *"license: BSD 3-Clause"*"there: no"*"https://download.pytorch.org/models/vit_b_16-c867db91.pth"* ]]
}

@test "wrong names, addresses and folders are told, and nothing of the user's is lost" {
	local code arguments reason
	needs_curl
	touch file
	mkdir -p folder/{mnist/train-images-idx3-ubyte.gz,shakespeare,cifar10/cifar-10-batches-bin}
	echo mine >folder/shakespeare/input.txt
	touch folder/cifar10/cifar-10-batches-bin/data_batch_1.bin
	while IFS='|' read -r code arguments reason; do
		eval "gtrain data get -q --mirror http://127.0.0.1:1 $arguments"
		equal "$arguments: $status:$out" "$arguments: $code:"
		[[ $err == "gtrain: error: "*"$reason"* ]] || { echo "$arguments: $err"; return 1; }
	done < <(wrong_usage)
	equal "$(<folder/shakespeare/input.txt)" mine
}

@test "a name stands for kind and path of the set in the cache, once it has its size" {
	mkdir -p "$folder/shakespeare"
	truncate -s 1115393 "$folder/shakespeare/input.txt"
	gtrain train --model gpt --data shakespeare,level=byte --dry-run
	equal "$status" 1
	[[ $err == *"data set 'shakespeare' is not in '$folder'"* ]]
	truncate -s 1115394 "$folder/shakespeare/input.txt"
	gtrain train --model gpt --data shakespeare,level=byte --dry-run -q
	equal "$status:$err" 0:
	[[ $out == *17429\ samples* ]]
	gtrain train --model gpt --data shakespeare,size=3 --dry-run
	[[ $err == *"unknown option 'size' for 'text' data"* ]]
	gtrain train --model gpt --data gpt2 --dry-run # weights: nothing to train on
	equal "$status" 2
	[[ $err == *"unknown kind of data 'gpt2'"* ]]
	XDG_CACHE_HOME='' HOME='' gtrain train --model lenet --data mnist --dry-run
	equal "$status" 2
	[[ $err == *"data 'mnist' has no path"* ]]
}

@test "data that are not there lead to the command that fetches them" {
	local kind
	for kind in mnist cifar10; do
		gtrain train --model mlp --data "$kind:nowhere" --dry-run
		equal "$status" 1
		[[ $err == *$'\n'"hint: "*"\`gtrain data get $kind\` fetches"* ]]
	done
}

@test "libcurl is not linked, so that other commands start without it" {
	run -0 ldd "$GTRAIN"
	[[ $output == *libz.so* && $output != *libcurl* ]]
}

@test "results that cannot be written are a failure" {
	run -1 bash -c '"$GTRAIN" data ls 2>&1 >/dev/full'
	run -1 bash -c '"$GTRAIN" data ls --json 2>&1 >/dev/full'
}

@test "names of sets are completed" {
	[[ $("$GTRAIN" --complete data get fa) == $'word space \nfashion-mnist' ]]
	[[ $("$GTRAIN" --complete data ls mnist cif) == $'word space \ncifar10' ]]
}

@test "help data has the kinds, help data get the command" {
	gtrain help data
	[[ $out == "--data KIND:PATH"*"'gtrain data get NAME' fetches."*"--augment NAME"* ]]
	gtrain help data get
	[[ $out == "usage: gtrain data get NAME..."* ]]
	gtrain data
	equal "$err" "gtrain: error: 'data' needs a command after it
hint: 'gtrain data --help' lists the commands"
}
