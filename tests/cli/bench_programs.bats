#!/usr/bin/env bats
# bench_programs.bats - each program of tests/bench/ works: it runs once, in its smallest size.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

tests=${GTRAIN_TESTS:-$ROOT/build/tests}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# NAME ARGUMENT...: run a program; $out has its output.
bench() {
	local program=$tests/bench_$1

	[ -e "$program" ] || skip "bench_$1: not built"
	out=$("$program" "${@:2}")
}

# small EXPRESSION: print a small file that tests/common/small_files.py makes.
small() {
	"${PYTHON:-/usr/bin/python3}" -c 'import random, sys
sys.path.insert(0, sys.argv[1])
import small_files
made = eval(sys.argv[2], {"rng": random.Random(1), **vars(small_files)})
sys.stdout.buffer.write(made if isinstance(made, bytes) else made.encode())' "$ROOT/tests/common" "$1"
}

@test "kernels: attention, convolutions and products, with a bias and without" {
	bench kernels 0
	[[ $out == *"dnnl_sgemm 512 cubed: "* ]]
	for row in "attention B 12" "attention_grad B 12" "conv2d 64 -> 64" "conv2d_input_grad 64 -> 64" \
		"conv2d_weight_grad 64 -> 64" "nanoGPT qkv y " "nanoGPT qkv dw " "gpt2 proj y [256 x 768 x 768] NN + bias"; do
		[[ $out == *$'\n'"$row"*" GFLOP/s "* ]]
	done
}

@test "machine: sgemm, copy and triad" {
	bench machine 0
	check "$out" 'all(d[k] > 0 for k in ("threads", "sgemm_gflop_s", "copy_gb_s", "triad_gb_s"))'
}

@test "profile: a step of a convolutional net and of a GPT, node by node and in evaluation" {
	bench profile lenet 2 1
	[[ $out == *$'\n'"conv2d "*$'\n'"whole step "* ]]
	bench profile -n -o sgd "$GPT,vocab=20" 2 1
	[[ $out == *"attention"*$'\n'"whole step "* ]]
	bench profile -e lenet 2 1
	[[ $out != *conv2d_weight_grad* && $out == *$'\n'"whole step "* ]]
}

@test "map: expressions, interpreted and as chosen; a device of no known kind is refused" {
	bench map cpu 65536
	for row in "chain of ten  " "chain of ten, broadcast " "x * sigmoid(x) " "gelu by hand "; do
		[[ $'\n'$out == *$'\n'"$row"*" float32 "*" GB/s"*$'\n'"$row"*" bfloat16 "*" GB/s"* ]]
	done
	run ! --separate-stderr "$tests/bench_map" 7
	equal "$stderr" "usage: bench_map [cpu|cuda:N [BYTES]]"
}

@test "generate: a prompt and a few tokens; a model without a vocabulary is refused" {
	bench generate "$GPT,vocab=20" 4 4 <<<go
	check "$out" 'd["prompt_s"] > 0 and d["tokens_per_s"] > 0 and d["token_gb"] > 0'
	bench generate "$GPT,vocab=20" 4 4 q4_0 <<<go
	check "$out" 'd["tokens_per_s"] > 0 and d["read_gb_s"] > 0 and d["token_gb"] > 0'
	run ! --separate-stderr "$tests/bench_generate" "$GPT" 4 4 q5 <<<go
	equal "$stderr" "bench_generate: no type 'q5'"
	run ! --separate-stderr "$tests/bench_generate" "$GPT" 4 4 <<<go
	equal "$stderr" "bench_generate: MODEL needs a vocabulary: write vocab=N"
}

@test "tokenize: a text, twice" {
	small 'tokenizer()' >tokenizer.json
	small 'TEXT' >text.txt
	bench tokenize tokenizer.json text.txt 2
	check "$out" 'd["tokens"] > 0 and d["mb_s"] > 0'
}

@test "loader: batches of a folder of images, and its JPEG files decoded" {
	mkdir -p images/a images/b
	small 'jpeg(rng, 16)' >images/a/1.jpg
	[ -s images/a/1.jpg ] || skip "pillow: not installed"
	cp images/a/1.jpg images/b/1.jpg
	bench loader load images:images,size=8 none 1 2 <<<0.01
	check "$out" 'd["images_per_s"] > 0'
	bench loader decode images 1 8 0 <<<0.01
	check "$out" 'd["images_per_s"] > 0'
}

@test "each program of tests/bench/ has a test here" {
	for source in "$ROOT"/tests/bench/*.c; do
		grep -q "^	bench $(basename "$source" .c) " "$BATS_TEST_FILENAME"
	done
}
