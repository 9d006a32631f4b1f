#!/usr/bin/env bats
# onednn.bats - oneDNN is opened by what computes: that says why it cannot, the rest does without.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

# The SONAME of the oneDNN that this build opens, and Debian's package that holds it.
soname=$(grep -aoE 'libdnnl\.so\.[0-9.]+' "$GTRAIN" | head -n 1)
package=libdnnl${soname#libdnnl.so.}

# Folders for LD_LIBRARY_PATH: a oneDNN that is no library, and one that is another.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	mkdir text other
	echo 'not a library' >"text/$soname"
	cp "${GTRAIN_TESTS:-$ROOT/build/tests}/fake/libnvidia-ml.so.1" "other/$soname"
	"$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 2 --out run -q
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

@test "training says why it cannot be opened, what to do, and leaves nothing" {
	LD_LIBRARY_PATH=text gtrain train --model resnet20 --data random --batch 2 --steps 1 --out none
	equal "$status" 1
	equal "$out" ""
	[[ $err == *"cannot open oneDNN: text/$soname: "*$'\n'"hint: install oneDNN "*"Debian's package $package" ]]
	[ ! -e none ]
}

@test "each kernel that wants it says so: products, with a bias and without, and convolutions" {
	local model

	for model in mlp:8,16,3 "$GPT,vocab=20" lenet; do
		LD_LIBRARY_PATH=text gtrain train --model "$model" --data random --steps 1 --dry-run
		equal "$status" 1
		[[ $err == *"cannot open oneDNN: "* ]]
	done
}

@test "a library that lacks a function is not oneDNN" {
	LD_LIBRARY_PATH=other gtrain eval --ckpt run/model.pth --model mlp:8,16,3 --data "$RANDOM_DATA"
	equal "$status" 1
	[[ $err == *"$soname has no function 'dnnl_"*$'\n'"hint: install oneDNN "*"Debian's package $package" ]]
}

@test "probe succeeds, and the CPU is not available" {
	LD_LIBRARY_PATH=text gtrain probe
	equal "$status" 0
	[[ $out == *"no oneDNN, OpenMP with "*"cpu: cannot open oneDNN: "*" (install oneDNN "* ]]
	LD_LIBRARY_PATH=text gtrain probe --json
	equal "$status" 0
	check "$out" 'd["cpu"]["math"]["onednn"] is None and d["cpu"]["math"]["isa"] is None'
	check "$out" '[b["available"] for b in d["backends"]] == [False, False]'
	check "$out" 'd["backends"][0]["reason"].startswith("cannot open oneDNN: ")'
	LD_LIBRARY_PATH=text gtrain probe --check
	[[ $out == *"error: the CPU cannot compute: cannot open oneDNN: "*"  fix: install oneDNN "*"$package" ]]
}

@test "the library that is opened is the one that a program is linked with" {
	command -v objdump >/dev/null || skip "objdump: not installed"
	local linked=${GTRAIN_TESTS:-$ROOT/build/tests}/bench_machine

	[ -e "$linked" ] || skip "bench_machine: not built"
	equal "$(objdump -p "$linked" | awk '$1 == "NEEDED" && /dnnl/ { print $2 }')" "$soname"
}

@test "checkpoints and help do without" {
	LD_LIBRARY_PATH=text gtrain ckpt ls run/model.pth
	equal "$status" 0
	LD_LIBRARY_PATH=text gtrain ckpt verify run/model.pth
	equal "$status" 0
	LD_LIBRARY_PATH=text gtrain help
	equal "$status" 0
}
