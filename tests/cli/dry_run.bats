#!/usr/bin/env bats
# dry_run.bats - gtrain train --dry-run: needs no memory and no other rank, and warns of what does not fit.
# shellcheck disable=SC2034,SC2054,SC2154 # what helpers use and set; commas in options

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

WIDE=(--model "mlp:1000,8000,8000,10" --data "random,samples=8" --batch 8)
DEEP=(--model "gpt:layers=4,heads=2,width=64,block=64,vocab=65" --data "random,samples=1024")

# Plan with 400 MB of address space, whatever the machine has.
plan_limited() {
	limited 400000 train "$@" --dry-run
}

@test "a dry run prints the plan of a run that does not fit, and warns of that" {
	plan_limited "${WIDE[@]}"
	equal "$status" 0
	total=$(sed -n 's/^  total *//p' out)
	[[ $total == *GiB ]]
	[[ $err == "warning: the run needs $total of memory, this machine has "*" MiB; it needs 275 MiB parameters, "*"; use a smaller model"* ]]
	[[ $err != *--dry-run* ]]
	equal "$(wc -l <err)" 1
	plan_limited "${WIDE[@]}" -q --json
	equal "$status $(jq .ranks out)" "0 1"
	[[ $err == "warning: the run needs "* ]]
	plan_limited --model mlp:4,3,2 --data random,samples=8
	equal "$status $err" "0 "
}

@test "the warning of a dry run names the options that fit" {
	plan_limited "${DEEP[@]}" --batch 400
	equal "$status" 0
	[[ $err == *"; it fits with --recompute ("*"--batch "* ]]
}

@test "a dry run counts the memory of all ranks, and of all stages of a pipeline" {
	plan_limited "${DEEP[@]}" --batch 8
	equal "$status $err" "0 "
	plan_limited "${DEEP[@]}" --batch 8 --nproc 64
	[[ $err == "warning: the run needs "*" it needs for 64 ranks, each "* ]]
	plan_limited "${DEEP[@]}" --batch 1024 --nproc 2 --pipeline-parallel 2 --json
	need=$(jq '[.stages[].memory_bytes] | add / 1048576 | floor' out)
	[[ $err == "warning: the run needs $need"*" MiB of memory, this machine has "*" MiB; of its 2 ranks the first one needs "*"use a smaller --batch, --recompute, more stages or a smaller model" ]]
}

@test "--global-batch computes --accumulate from the ranks that read samples of their own" {
	local words wanted
	while IFS=: read -r wanted words; do
		# shellcheck disable=SC2086
		gtrain train "${DEEP[@]}" $words --dry-run --json
		equal "$words: $status $(jq -c '[.accumulate, .batch]' <<<"$out")" "$words: 0 $wanted"
	done <<-END
		[4,8]:--batch 8 --global-batch 32
		[1,64]:--global-batch 64
		[2,8]:--batch 8 --nproc 2 --global-batch 32
		[2,8]:--batch 8 --nproc 2 --global-batch 32 --parallel dp
		[4,8]:--batch 8 --nproc 2 --global-batch 64 --reproducible
		[2,8]:--batch 8 --nproc 4 --global-batch 32 --tensor-parallel 2
		[4,8]:--batch 8 --nproc 2 --global-batch 32 --pipeline-parallel 2
	END
	while IFS=: read -r wanted words; do
		# shellcheck disable=SC2086
		gtrain train "${DEEP[@]}" $words --dry-run
		equal "$words: $status" "$words: 2"
		[[ $err == "gtrain: error: --global-batch "*" is not --batch "$wanted* && $(wc -l <<<"$err") == 2 ]] || {
			echo "$err"
			return 1
		}
	done <<-END
		8 x 2 ranks times a number from 1 to 65536*nearest is --global-batch 48:--batch 8 --nproc 2 --global-batch 41
		8 x 1 rank times *nearest is --global-batch 8:--batch 8 --global-batch 3
		8 x 2 data-parallel ranks *nearest is --global-batch 32:--batch 8 --nproc 4 --tensor-parallel 2 --global-batch 30
		1 x 1 rank *nearest is --global-batch 65536:--batch 1 --global-batch 65537
	END
	gtrain train "${DEEP[@]}" --accumulate 2 --global-batch 128 --dry-run
	[[ $status == 2 && $err == *"--accumulate"*"--global-batch"* ]]
}

@test "--batch auto takes a batch that fits, and a resumed run keeps it" {
	plan_limited "${DEEP[@]}" --batch auto --json
	equal "$status" 0
	[[ $err =~ ^"--batch auto: "([0-9]+)" per device ("[0-9.]+" MiB of "([0-9]+).*" MiB)"$ ]]
	local batch=${BASH_REMATCH[1]} free=${BASH_REMATCH[2]}
	equal "$(jq --argjson b "$batch" --argjson f "$free" '.batch == $b and .memory_bytes.total / 1048576 <= $f + 1' out)" true
	plan_limited "${DEEP[@]}" --batch auto --nproc 2 --global-batch $((4 * batch)) --json
	equal "$(jq --argjson b "$batch" '.batch * .accumulate * 2 == 4 * $b and .batch <= $b' out)" true
	plan_limited "${DEEP[@]}" --batch auto --nproc 2 --global-batch 8
	[[ $err == "--batch auto: 4 per device, as many as --global-batch has ("* ]]
	# The number goes into config.json, and another amount of memory does not change it.
	echo '{"batch":"auto"}' >auto.json
	gtrain train --model mlp:4,8,3 --data random,samples=100 --config auto.json --steps 2 --out run
	[[ $err == "--batch auto: 100 per device, as many as an epoch has ("* ]]
	equal "$status $(jq .batch run/config.json)" "0 100"
	jq '.batch = 30' run/config.json >config && mv config run/config.json
	gtrain train --resume run --batch auto --steps 3
	[[ $status == 0 && $err == *"--batch auto: 100 per device, as before"* ]]
	equal "$(jq .batch run/config.json)" 100
	# A batch of the resumed run that no longer fits is named.
	gtrain train "${DEEP[@]}" --batch 100 --steps 1 --out big
	plan_limited --resume big --batch auto --steps 2
	[[ $err == *"--batch auto: 100 per device, as before, needs "*", and a device has "*"a smaller --batch with more --accumulate"* ]]
}

@test "--batch auto names the need of one sample, and the options that it is not for" {
	plan_limited --model mlp:4,9000,3000,3 --data random:4/3,samples=8 --batch auto
	equal "$status $out" "1 "
	[[ $err == "gtrain: error: --batch auto: 1 sample needs "*" MiB, and a device has "*"
hint: use --recompute or a smaller model" ]]
	gtrain train "${DEEP[@]}" --batch auto --verify-parallel
	[[ $status == 2 && $err == *"--batch auto cannot be combined with --verify-parallel"* ]]
	local words wanted
	while IFS=@ read -r wanted words; do
		# shellcheck disable=SC2086
		gtrain train "${DEEP[@]}" $words --dry-run
		[[ $status == 2 && $err == "gtrain: error: "$wanted* ]] || {
			echo "$words: $status $err"
			return 1
		}
	done <<-'END'
		--batch auto cannot be combined with --recompute auto@--batch auto --recompute=auto
		--global-batch 7 is not --batch 1 x 2 ranks@--batch auto --nproc 2 --global-batch 7
		--batch: 'aut' is not a whole number from 1 to 65536, nor auto@--batch aut
		--batch: '0' is not a number from 1 to 65536, nor auto@--batch 0
	END
}

@test "ranks that another program starts plan alone" {
	local variables="WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 TORCHELASTIC_RUN_ID=x"

	# shellcheck disable=SC2086
	out=$(env $variables RANK=0 LOCAL_RANK=0 "$GTRAIN" train --model mlp:4,3,2 --data random,samples=8 --dry-run --json)
	equal "$(jq .ranks <<<"$out")" 2
	# shellcheck disable=SC2086
	equal "$(env $variables RANK=1 LOCAL_RANK=1 "$GTRAIN" train --model mlp:4,3,2 --data random,samples=8 --dry-run)" ""
}
