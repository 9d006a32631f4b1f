#!/usr/bin/env bats
# plan.bats - gtrain plan: memory of the plan that runs, parts that add up, the command line, messages.
# shellcheck disable=SC2034,SC2054,SC2154 # what helpers use and set; commas in options

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

GPT=(--model "gpt:layers=4,heads=2,width=64,block=64,vocab=65" --data "random,samples=1024" --batch 8)

@test "the memory is that of the dry run, for each stage" {
	local words cluster wanted
	while IFS=: read -r cluster ranks words; do
		# shellcheck disable=SC2086
		gtrain train "${GPT[@]}" --nproc "$ranks" $words --dry-run --json
		wanted=$(jq -c '[.stages[]?.memory_bytes] + [.memory_bytes.total] | max' out)
		# shellcheck disable=SC2086
		gtrain plan --cluster "$cluster" "${GPT[@]}" --json -- $words
		equal "$words: $status:$err $(jq -c '.memory_bytes' out)" "$words: 0: $wanted"
	done <<-'END'
		1x1xcpu:1:
		4xcpu:4:--parallel zero2
		1x4xcpu:4:--tensor-parallel 2 --accumulate 2
		1x4xcpu:4:--pipeline-parallel 2 --chunks 4
		2x2xcpu:4:--amp bf16
	END
}

@test "the parts of a step add up to it, and the text has the same figures" {
	gtrain plan --cluster 2x4xH100 "${GPT[@]}" --json -- --pipeline-parallel 2 --tensor-parallel 2 --amp bf16
	equal "$status:$err" "0:"
	equal "$(jq '.stages | map(.times | (.step_s - .compute_s - .waiting_s - .optimizer_s -
		([.communication_s[]] | add)) / .step_s | fabs < 1e-6) | all' out)" true
	equal "$(values out '.layout.data, .layout.tensor, .layout.stages, .samples_per_step, .fits')" "[2,2,2,16,true]"
	step=$(jq '.step_s * 1000' out)
	gtrain plan --cluster 2x4xH100 "${GPT[@]}" -- --pipeline-parallel 2 --tensor-parallel 2 --amp bf16
	[[ $out == *"
step           $(printf %.3f "$step") ms; stage "* ]]
	[[ $out == *"
cluster        2 hosts of 4 x H100
layout         ddp, 2 data-parallel x 2 tensor-parallel x 2 stages of 2 chunks
batch          8 x accumulate 1 x 2 = 16 samples in a step
memory         "* ]]
	[[ $out == *"
command        torchrun --no-python --nnodes 2 --node-rank N --master-addr HOST --nproc-per-node 4 gtrain train --model "*" --pipeline-parallel 2 --tensor-parallel 2 --amp bf16 --device cuda
note           the plan is that of this program's CPU kernels"* ]]
}

@test "the command that is printed runs" {
	gtrain plan --cluster 1x2xcpu --model mlp:8,4,3 --data random,samples=64 --batch 4 --json -- --steps 1 --parallel zero1
	equal "$status:$err" "0:"
	command=$(jq -r .command out)
	equal "$command" "gtrain train --model mlp:8,4,3 --data random,samples=64 --batch 4 --steps 1 --parallel zero1 --nproc 2"
	mkdir bin
	ln -s "$GTRAIN" bin/gtrain
	PATH=$PWD/bin:$PATH bash -c "$command -q --out run" >out 2>err
	[ -s run/model.pth ]
}

@test "a description of a cluster gives its memory, and blocks are recomputed to fit" {
	printf '{"devices_per_host":2,"device":{"name":"small","memory_bytes":%s,"bytes_per_s":1e11,"flops":{"f32":1e12}},"inside":{"bytes_per_s":1e10},"price_per_hour":3}\n' \
		10000000 >small.json
	gtrain plan --cluster small.json "${GPT[@]}"
	equal "$status:$err" "1:"
	[[ $out == *"MiB of the 9.54 MiB of a device: it does not fit"* ]]
	[[ $out == *"
price          "*" for 10^9 tokens"* ]]
	# Lines are wrapped, but for words that are longer, and the command, which is to be copied.
	equal "$(grep -v '^command\|^model' out | awk 'length > 80')" ""
	[[ $out == "model          gpt:"*"
               208k parameters
cluster "* ]]
	gtrain plan --cluster small.json "${GPT[@]}" --json -- --recompute auto
	equal "$status:$err" "0:"
	equal "$(jq '.stages[0] | .recomputed_blocks > 0 and .recomputed_blocks <= .blocks' out)" true
}

@test "names that are not plain text are escaped, and JSON has them all the same" {
	printf '{"device":{"name":"a\\nb","memory_bytes":1e10,"bytes_per_s":1e11,"flops":{"f32":1e12}}}\n' >$'\xff.json'
	gtrain plan --cluster $'\xff.json' "${GPT[@]}"
	equal "$status:$err" "0:"
	[[ $out == *'cluster        1 host of 1 x a\nb'* ]]
	gtrain plan --cluster $'\xff.json' "${GPT[@]}" --json
	equal "$status:$err $(values out '.cluster.name == "\ufffd.json", .cluster.device')" '0: [true,"a\nb"]'
}

@test "wrong clusters, options and data are refused with a line" {
	local words message
	echo '{"device":"H100","host":2}' >key.json
	echo '{"device":' >cut.json
	: >empty.json
	while IFS=@ read -r words message; do
		# shellcheck disable=SC2086
		gtrain plan $words
		equal "$words: $out" "$words: "
		[ "$status" -ne 0 ]
		[[ $err == "gtrain: error: $message"* ]] || equal "$words: $err" "$message"
	done <<-'END'
		--cluster 4x8@--cluster: '4x8' is neither HOSTSxDEVICESxNAME nor a file that ends in .json
		--cluster 8xH999@--cluster: 'H999' is not a known device
		--cluster 200x8xH100@--cluster: 200 hosts of 8 devices are not 1 to 1024 devices
		--cluster none.json@cannot open 'none.json': No such file
		--cluster key.json@key.json: unknown key 'host'
		--cluster cut.json@cut.json:
		--cluster empty.json@empty.json:1: '[' or '{' expected near end of file
		--model mlp --data random@--cluster SPEC|FILE is missing
		--cluster 8xH100 --data random@--model MODEL is missing
		--cluster 8xH100 --model gpt2 --data random -- --nproc 4@--nproc cannot be handed on to gtrain train
		--cluster 8xH100 --model gpt2 --data random -- --dry-run@--dry-run cannot be handed on to gtrain train
		--cluster 8xH100 --model gpt2 --data random -- -h@--help cannot be handed on to gtrain train
		--cluster 8xH100 --model gpt2 --data random -- --hosts a:8,b:8@--hosts cannot be handed on to gtrain train
		--cluster 8xH100 --model gpt2 --data random -- --no-such@unknown option '--no-such'
		--cluster 8xH100 --model gpt2 --data random -- --tensor-parallel 3@--tensor-parallel: 3 does not divide 8 ranks
		--cluster 8xH100 --model mlp --data random -- --parallel dp@the time of --parallel dp is not known
		--cluster 8xH100 --model mlp --data random,samples=64 --batch 64@--data has 64 samples, too few for a step of 512
	END
}

@test "steps on an H200 take the planned time within a fifth" {
	# Milliseconds of tests/bench/results/2026-11-27-h200.txt.
	while IFS=@ read -r model batch ms; do
		gtrain plan --cluster 1xH200 --model "$model" --data random,samples=4096 --batch "$batch" --json -- --amp bf16
		equal "$status:$(jq "(1e3 * .step_s / $ms - 1 | fabs) < 0.2" out)" 0:true
	done <<-'END'
		gpt2@16@30.0
		gpt2@64@118.5
		gpt:layers=6,heads=6,width=384,block=256,vocab=65@64@4.61
		resnet20@1024@6.0
		resnet50@256@34.0
	END
}

@test "a step of fewer samples takes no longer on a GPU" {
	local before=0 batch
	for batch in 1 8; do
		gtrain plan --cluster 1xH200 --model resnet18 --data random,samples=64 --batch $batch --json -- --amp bf16
		equal "$status:$(jq ".step_s > $before" out)" 0:true
		before=$(jq .step_s out)
	done
}

@test "a calibration is measured, and a plan computes with it" {
	gtrain bench calibrate -o here.json --threads 1 --nproc 2 --rounds 1 --steps 2 --model mlp:64,32,10 --data random,samples=512 --batch 64
	equal "$status" 0
	[[ $out == "machine        "*"
step           mlp:64,32,10: "* ]]
	equal "$(values here.json '.format, .device, .threads, .link.ranks, (.steps | length), .steps[0].accumulate, (.products.f32 | length)')" \
		'["gtrain calibration 1","cpu",1,2,1,2,6]'
	equal "$(jq '.ops | has("matmul") and has("update") and has("norm") and has("accumulate") and has("zero gradients")' here.json)" true
	gtrain plan --cluster 1xcpu --calibration here.json --model mlp:64,32,10 --data random,samples=512 --batch 64 --json -- --threads 1 --accumulate 2
	equal "$status:$err $(jq .note out)" "0: null"
	# The plan gives the time that the calibration has found for the same step.
	equal "$(jq --slurpfile c here.json '.step_s / $c[0].steps[0].planned_s | . > 0.999 and . < 1.001' out)" true
	# On a machine of one processor there is none for a second rank.
	equal "$(jq -c '.busy | . == null or (.ranks == 2 and .threads == 1 and .slower > 0 and .ops.matmul > 0)' here.json)" true
	# Ranks of a host slow each other down, each op by its own factor; one rank is alone.
	jq '.busy = null' here.json >alone.json
	jq '.busy = {ranks: 3, threads: 1, slower: 3, ops: (.ops | map_values(. * 3))}' here.json >busy.json
	step_s() {
		gtrain plan --cluster "$1" --calibration "$2" --model mlp:64,32,10 --data random,samples=512 --batch 64 --json -- --threads 1
		jq '.stages[0].times.compute_s' out
	}
	alone=$(step_s 1xcpu alone.json)
	equal "$(step_s 1xcpu busy.json) $(step_s 2xcpu alone.json)" "$alone $alone"
	jq -en "($(step_s 2xcpu busy.json) / $alone - 2 | fabs) < 1e-3 and ($(step_s 4xcpu busy.json) / $(step_s 4xcpu alone.json) - 3 | fabs) < 1e-3"
	jq '.busy.ops.matmul = -1' busy.json >wrong.json
	gtrain plan --cluster 2xcpu --calibration wrong.json --model mlp:64,32,10 --data random,samples=512
	equal "$status:${err%%$'\n'*}" "1:gtrain: error: wrong.json: 'busy' is missing or wrong"
	jq '.machine = "another"' here.json >there.json
	gtrain plan --cluster 1xcpu --calibration there.json --model mlp:64,32,10 --data random,samples=512
	equal "$status:$err" "0:warning: there.json was measured on another machine: another"
	gtrain plan --cluster 8xH100 --calibration here.json --model mlp --data random
	equal "$status:${err%%$'\n'*}" "2:gtrain: error: here.json: the rates of a 'cpu' are not those of a 'H100'"
	gtrain bench calibrate -o here.json --data random
	equal "$status" 2
	for words in "--model nosuch" "--model mlp:4,2 --data random:x"; do # found before the rates are measured
		# shellcheck disable=SC2086
		gtrain bench calibrate -o here.json --rounds 100 $words
		equal "$status" 2
		[[ $err == "gtrain: error: "@("unknown model 'nosuch'"|"data 'random:x' is not"*)$'\n'"hint: "* ]]
	done
	gtrain bench calibrate -o nowhere/here.json
	equal "$status:${err%%$'\n'*}" "1:gtrain: error: cannot write 'nowhere/here.json': No such file or directory"
}

@test "--batch auto is the largest that fits, and the command line has it" {
	local memory=20000000 words
	printf '{"devices_per_host":2,"device":{"name":"small","memory_bytes":%d,"bytes_per_s":1e11,"flops":{"f32":1e12}},"inside":{"bytes_per_s":1e10}}\n' $memory >small.json
	for words in "" "--parallel zero3" "--pipeline-parallel 2 --chunks 2"; do
		# shellcheck disable=SC2086
		gtrain plan --cluster small.json "${GPT[@]:0:4}" --batch auto --json -- $words
		equal "$status" 0
		batch=$(jq .layout.batch out)
		equal "$(jq --argjson m $memory '.memory_bytes <= $m * 63 / 64' out)" true
		[[ $err == "--batch auto: $batch per device ("* && $(jq .command out) == *" --batch $batch "* ]]
		next=$((batch + 1))
		[[ $words != *chunks* ]] || next=$((batch + 2))
		# shellcheck disable=SC2086
		gtrain plan --cluster small.json "${GPT[@]:0:4}" --batch "$next" --json -- $words
		equal "$words: $(jq --argjson m $memory '.memory_bytes > $m * 63 / 64' out)" "$words: true"
	done
	gtrain plan --cluster small.json "${GPT[@]:0:4}" --batch auto --json -- --global-batch 48
	equal "$(jq '.layout | .batch * .accumulate * 2 == 48' out) $(jq '.command | test("--batch auto")' out)" "true false"
	gtrain plan --search --cluster small.json "${GPT[@]:0:4}" --batch auto
	[[ $status == 2 && $err == "gtrain: error: --batch auto cannot be combined with --search"* ]]
}

@test "a search finds a layout that fits, and keeps what is given" {
	gtrain plan --search --cluster 2x4xH100 "${GPT[@]}" --json -- --global-batch 64
	equal "$status:$err" "0:"
	equal "$(jq '[.layouts[] | .fits and .samples_per_step == 64 and .layout.data * .layout.tensor * .layout.stages == 8] | all' out)" true
	equal "$(jq '(.layouts | length) == 5 and .tried >= 5 and (.layouts | map(.step_s) | . == sort)' out)" true
	equal "$(jq '[.layouts[].command | contains("--global-batch") or (contains("--amp bf16") | not)] | any' out)" false
	# One thread finds what several do. The CPU's kernels take memory for each of their threads.
	export OMP_NUM_THREADS=2
	gtrain plan --search --cluster 2x4xH100 "${GPT[@]}" --json -- --global-batch 64
	mv out several
	apart taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/[,-].*//')" "$GTRAIN" plan --search --cluster 2x4xH100 "${GPT[@]}" --json -- --global-batch 64
	equal "$status:$err" "0:"
	cmp out several
	unset OMP_NUM_THREADS
	best=$(jq .layouts[0].step_s out)
	# What the search has found is planned like any other run.
	words=$(jq -r '.layouts[0].command | sub(".* --data [^ ]* "; "") | sub("--device cuda"; "")' out)
	# shellcheck disable=SC2086
	gtrain plan --cluster 2x4xH100 --model "${GPT[1]}" --data "${GPT[3]}" --json -- $words
	equal "$status $(jq .step_s out)" "0 $best"
	gtrain plan --search --cluster 2x4xH100 "${GPT[@]}" --json -- --tensor-parallel 2 --pipeline-parallel 2 --amp off
	equal "$(jq -c '[.layouts[] | [.layout.tensor, .layout.stages]] | unique' out)" "[[2,2]]"
	echo '{"accumulate":4,"batch":2}' >config.json
	gtrain plan --search --cluster 1xcpu --model mlp:8,4,3 --data random,samples=64 --json -- --config config.json
	equal "$(jq '[.layouts[] | .samples_per_step == 8 and
		(.command | contains("--accumulate \(8 / (capture("--batch (?<n>[0-9]+)").n | tonumber))"))] | all' out)" true
	gtrain plan --search --cluster 8xH100 --model gpt:layers=8,heads=2,width=32,block=16,vocab=65 "${GPT[@]:2:2}" --batch 64 --json -- --pipeline-parallel 8
	equal "$status $(jq -c '[.layouts[].layout.stages] | unique' out)" "0 [8]"
	printf '{"devices_per_host":2,"device":{"name":"small","memory_bytes":2000000,"bytes_per_s":1e11,"flops":{"f32":1e12}},"inside":{"bytes_per_s":1e10}}\n' >small.json
	gtrain plan --search --cluster small.json "${GPT[@]}"
	equal "$status:$out" "1:"
	[[ $err == "gtrain: error: none of "*" layouts fits: the smallest needs "*", a device has 1.91 MiB"* ]]
}
