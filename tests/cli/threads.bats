#!/usr/bin/env bats
# threads.bats - gtrain train on ranks that are threads, and --verify-parallel: what is refused, what is said.
# shellcheck disable=SC2012,SC2034,SC2054,SC2154 # ls counts; what helpers set; commas in options

bats_require_minimum_version 1.5.0
load helpers

export OMP_NUM_THREADS=1
MLP=(--model mlp:5,16,3 --data random:5/3,samples=100)

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

@test "launchers that start processes are refused, with what to do" {
	export RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29999
	for mode in mirrored dp "dp --dry-run"; do
		# shellcheck disable=SC2086 # several words
		gtrain train "${MLP[@]}" --parallel $mode --out run
		mode=${mode% *}
		equal "$status" 2
		equal "$err" "gtrain: error: --parallel $mode: its ranks are threads of one process, but torchrun has started 2 processes
hint: take --parallel ddp, or start gtrain by itself with --nproc 2"
	done
	[ ! -e run ]
}

@test "threads are not restarted" {
	gtrain train "${MLP[@]}" --parallel dp --nproc 2 --max-restarts 1 --out run
	equal "$status" 2
	[[ $err == *"--max-restarts has no effect with --parallel dp"* ]]
}

@test "dp refuses what has no sense where rank 0 has the weights" {
	for option in --broadcast-buffers=no --check-replicas=5 --compress=bf16; do
		gtrain train --model resnet20 --data random: --parallel dp --nproc 2 "$option" --out run
		equal "$status" 2
		[[ $err == *"${option%=*}"*"--parallel dp"*"hint: "* ]]
	done
	[ ! -e run ]
}

@test "dp takes --sync-bn, but leaves no rank without samples that others wait for" {
	RESNET=(--model resnet20 --data random:,samples=9 --parallel dp --nproc 4 --batch 2 --sync-bn)
	gtrain train "${RESNET[@]}" --out run
	equal "$status" 2
	equal "$err" "gtrain: error: --sync-bn: a short last batch of 1 sample leaves rank 3 of 4 without one
hint: only the last batch of an epoch is so small, with 1 sample: --drop-last leaves it out"
	[ ! -e run ]
	gtrain train "${RESNET[@]}" --drop-last --steps 2 --out run
	equal "$status" 0
	# without statistics to wait for, it may have none
	gtrain train "${MLP[@]/100/9}" --parallel dp --nproc 4 --batch 2 --sync-bn --steps 2 --out mlp
	equal "$status" 0
}

@test "one rank of mirrored and dp is a rank like any other" {
	for mode in ddp mirrored dp; do
		gtrain train "${MLP[@]}" --parallel $mode --steps 7 --batch 30 --out $mode --json
		equal "$status" 0
	done
	cmp ddp/model.pth mirrored/model.pth
	cmp ddp/model.pth dp/model.pth
}

@test "a dry run tells of dp what rank 0 sends, and writes nothing" {
	gtrain train "${MLP[@]}" --parallel dp --nproc 3 --batch 4 --dry-run --json
	equal "$status" 0
	# weights: 5 x 16 + 16 + 16 x 3 + 3, each padded to 16 numbers; 4 inputs of 5 and 4 outputs of 3
	jq -e '.communicated_bytes_per_step == 2 * 4 * (80 + 16 + 48 + 16 + 4 * 5 + 4 * 3)' <<<"$out"
	jq -e '.ranks == 3' <<<"$out"
	[ ! -e runs ]
}

@test "--verify-parallel and mixup: refused, as ranks mix other images, unless --reproducible" {
	gtrain train --model lenet --data random,samples=40 --augment mixup --batch 4 --nproc 2 --verify-parallel
	equal "$status" 2
	[[ $err == *"--augment mixup: several ranks mix other images than one rank"*"with --reproducible all mix the same"* ]]
	gtrain train --model lenet --data random,samples=40 --augment mixup --batch 4 --nproc 2 --verify-parallel --reproducible
	equal "$status" 0
}

@test "--verify-parallel: a table, all modes are one rank" {
	gtrain train --model mlp:5,16,8,3 --data random:5/3,samples=100 --batch 6 --nproc 3 --verify-parallel
	equal "$status" 0
	[[ $out == "mode "*"ranks  last batch "* ]]
	for mode in accumulate ddp mirrored zero1 zero2 zero3 dp gpipe 1f1b tensor; do
		grep -q "^$mode .* same$" <<<"$out"
	done
	equal "$err" ""
	[ ! -e runs ]
}

@test "--verify-parallel on 4 ranks also compares combinations, with an optimizer that takes whole matrices" {
	gtrain train --model gpt:layers=2,heads=4,width=16,block=8,vocab=31 --data random:,samples=64 --batch 4 --nproc 4 --optimizer muon --verify-parallel --json
	equal "$status" 0
	jq -e '(.modes | length) == 22 and all(.modes[]; .same)' <<<"$out"
	jq -e 'any(.modes[]; .mode == "zero3 x tensor 2 x 1f1b 2")' <<<"$out"
}

@test "--verify-parallel --backend ring: modes whose sums go from neighbour to neighbour are one rank" {
	gtrain train --model mlp:5,16,8,3 --data random:5/3,samples=100 --batch 6 --nproc 3 --verify-parallel --backend ring --json
	equal "$status" 0
	jq -e '[.modes[] | select(.same != null)] | length >= 6 and all(.same)' <<<"$out"
	ring=$(jq '[.modes[].weight]' <<<"$out")
	gtrain train --model mlp:5,16,8,3 --data random:5/3,samples=100 --batch 6 --nproc 3 --verify-parallel --json
	equal "$ring" "$(jq '[.modes[].weight]' <<<"$out")" # the same order of sums
}

@test "--backend ring gives the same bits in every run, and those of shm" {
	for mode in ddp mirrored zero2; do
		for run in ring-1 ring-2 shm-1; do
			gtrain train "${MLP[@]}" --parallel $mode --nproc 3 --backend ${run%-*} --steps 9 --batch 4 --out $mode-$run
			equal "$status" 0
		done
		cmp $mode-ring-1/model.pth $mode-ring-2/model.pth
		cmp $mode-ring-1/model.pth $mode-shm-1/model.pth
	done
}

@test "--reproducible gives the same bits with any number of ranks of a ring" {
	for nproc in 1 2 4; do
		gtrain train "${MLP[@]}" --reproducible --nproc $nproc --backend ring --steps 9 --batch $((8 / nproc)) --out same-$nproc
		equal "$status" 0
	done
	cmp same-1/model.pth same-2/model.pth
	cmp same-1/model.pth same-4/model.pth
}

@test "--reproducible is refused with one line with nccl, before anything starts" {
	for words in "" "--nproc 2" "--parallel mirrored --nproc 2" "--dry-run" "--nproc 2 --verify-parallel"; do
		# shellcheck disable=SC2086
		gtrain train "${MLP[@]}" --batch 8 --reproducible --backend nccl $words
		equal "$status" 2
		equal "$err" "gtrain: error: --reproducible cannot be combined with --backend nccl, which adds up in an order of its own choice
hint: --backend shm adds up in a fixed order"
	done
	[ ! -e runs ]
}

@test "--backend nccl is refused where there are no GPUs" {
	for words in "" "--nproc 2" "--parallel mirrored --nproc 2"; do
		# shellcheck disable=SC2086
		gtrain train "${MLP[@]}" --batch 8 --backend nccl $words
		equal "$status" 2
		equal "${err%%$'\n'*}" "gtrain: error: --backend nccl is not for devices of 'cpu'"
	done
	[ ! -e runs ]
}

@test "--verify-parallel --json" {
	gtrain train "${MLP[@]}" --batch 6 --verify-parallel --json
	equal "$status" 0
	jq -e '.steps == 5 and all(.modes[]; .same and .loss <= 1e-6)' <<<"$out"
	jq -e '[.modes[] | select(.mode == "dp")][0] | .ranks == 2 and .last_batch == 7' <<<"$out"
}

@test "--verify-parallel says which modes are left out, which is no failure" {
	gtrain train "${MLP[@]}" --batch 6 --nproc 3 --verify-parallel
	equal "$status" 0
	for mode in gpipe 1f1b; do
		grep -q "^$mode  *-  *-  *-  *-  *-  left out: .*3 stages" <<<"$out"
	done
	gtrain train "${MLP[@]}" --batch 6 --nproc 3 --verify-parallel --json
	equal "$status" 0
	jq -e '[.modes[] | select(.why_not != "") | .mode] == ["gpipe", "1f1b"]' <<<"$out"
	jq -e 'all(.modes[] | select(.why_not != ""); .same == null and .gradient == null)' <<<"$out"
}

@test "--verify-parallel --reproducible asks for the same bits" {
	gtrain train "${MLP[@]}" --batch 8 --verify-parallel --reproducible --json
	equal "$status" 0
	jq -e 'all(.modes[] | select(.mode != "tensor"); .same and .loss == 0 and .gradient == 0 and .weight == 0)' <<<"$out"
	gtrain train "${MLP[@]}" --batch 8 --verify-parallel --reproducible
	equal "$status" 0
	[[ $out == *"; bounds: 0, 0, 0; of tensor: 1e-06, 0.0001, 0.001" ]]
	gtrain train --model mlp:5,8,3 --data random:5/3,samples=40 --batch 2 --nproc 4 --verify-parallel --reproducible
	equal "$status" 0
	[[ $out == *"; bounds: 0, 0, 0; of tensor and 6 more: 1e-06, 0.0001, 0.001" ]]
	gtrain train "${MLP[@]}" --batch 8 --nproc 3 --verify-parallel --reproducible
	equal "$status" 2
	[[ $err == *"--reproducible: 3 ranks; it takes 1, 2, 4 or 8 ranks for a global batch of 24"* ]]
	gtrain train "${MLP[@]}" --batch 1 --accumulate 8 --verify-parallel --reproducible
	equal "$status" 2
	[[ $err == *"--accumulate 8, where a rank does a step in 4 parts"* ]]
	gtrain train --model mlp:5,9,3 --data random:5/3,samples=5 --batch 4 --verify-parallel --reproducible
	equal "$status" 2
	[[ $err == *"5 samples are fewer than 8 parts of a step"* ]]
}

@test "--verify-parallel refuses options of a run, and hints at no other one that it refuses" {
	local option value
	while read -r option value; do
		gtrain train "${MLP[@]}" --verify-parallel --nproc 2 "--$option$value"
		equal "$status" 2
		equal "$err" "gtrain: error: --$option has no effect with --verify-parallel
hint: leave one of the two out"
	done <<-END
		broadcast-buffers =no
		parallel =zero1
		tensor-parallel =2
		sequence-parallel
		pipeline-parallel =2
		chunks =2
		schedule =gpipe
		amp =bf16
		max-restarts =1
	END
}

# bats test_tags=thorough
@test "--verify-parallel of a model with batch normalisation" {
	gtrain train --model resnet20 --data random:,samples=20 --batch 2 --nproc 2 --verify-parallel
	equal "$status" 0
	for mode in ddp mirrored zero1 zero2 zero3 dp gpipe 1f1b; do
		grep -q "^$mode .* same$" <<<"$out"
	done
	grep -q "^accumulate .* left out: batch normalization" <<<"$out"
}
