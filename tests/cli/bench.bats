#!/usr/bin/env bats
# bench.bats - gtrain bench measures, and leaves nothing behind.

bats_require_minimum_version 1.5.0

setup() {
	load helpers
	folder=$BATS_TEST_TMPDIR/folder
	mkdir "$folder"
	printf 'not a checkpoint' >"$folder/file"
}

@test "bench ckpt prints a row per operation beside cp's, and removes its files" {
	gtrain bench ckpt "$folder/file" --rounds 1
	equal "$status" 0
	[[ $out == *$'\ncp '*' 1.00 '* ]]
	[[ $out == *$'\nread '* ]]
	equal "$(ls "$folder")" file
	equal "$(<"$folder/file")" "not a checkpoint"
}

@test "bench ckpt names what was refused, in JSON and CSV too" {
	gtrain bench ckpt "$folder/file" --rounds 1 --json
	equal "$status" 0
	"$GTRAIN" ckpt strip-module "$folder/file" -o "$folder/out" 2>"$BATS_TEST_TMPDIR/said" || true
	equal "gtrain: error: $(jq -r '.rows[] | select(.operation == "strip-module") | .failed' <<<"$out")" "$(head -1 "$BATS_TEST_TMPDIR/said")"
	equal "$(jq '.rows[] | select(.operation == "cp") | .ratio_to_cp == 1' <<<"$out")" true
	gtrain bench ckpt "$folder/file" --rounds 1 --csv
	equal "${out%%$'\n'*}" operation,time_s,fastest_s,bytes_per_s,ratio_to_cp,peak_bytes
}

@test "bench ckpt without a file, with a missing one, with a folder" {
	gtrain bench ckpt
	equal "$status" 2
	equal "${err%%$'\n'*}" "gtrain: error: no file is named"
	gtrain bench ckpt "$folder/none"
	equal "$status" 1
	[[ $err == *"cannot open '$folder/none'"* ]]
	gtrain bench ckpt "$folder"
	equal "$status" 1
	[[ $err == *"is not a file"* ]]
}

@test "bench ckpt says why it cannot write" {
	gtrain bench ckpt "$folder/file" --dir "$folder/none"
	equal "$status" 1
	[[ $err =~ "error: cannot copy '$folder/file' to '$folder/none/".*"No such file or directory" ]]
}

@test "bench ckpt removes its files when a signal stops it" {
	"$GTRAIN" bench ckpt "$folder/file" --rounds 50 2>"$BATS_TEST_TMPDIR/said" >&2 &
	until [[ $(ls "$folder") == *bench* ]]; do kill -0 $!; done
	kill -TERM $!
	status=0
	wait $! || status=$?
	equal "$status" 1
	[[ $(<"$BATS_TEST_TMPDIR/said") == *"error: stopped by a signal"* ]]
	equal "$(ls "$folder")" file
}

@test "bench allreduce prints nccl-tests' columns, and every sum is right" {
	for words in "" "--buffers plain" "--dtype bf16" "--nproc 3 --dtype fp16" "--backend ring" "--backend ring --nproc 3 --dtype bf16"; do
		one_in 2 || continue
		# shellcheck disable=SC2086
		gtrain bench allreduce --sizes 1K..64K --rounds 1 $words
		equal "$status" 0
		[[ $out == *"#wrong"* ]]
		equal "$(awk '$1 ~ /^[0-9]+$/ && NF == 12 { n++; wrong += $8 + $12 } END { print n, wrong + 0 }' <<<"$out")" "7 0"
	done
}

@test "bench allreduce in JSON and CSV, by rank 0 alone" {
	gtrain bench allreduce --sizes 4K --rounds 1 --json
	equal "$status" 0
	equal "$(jq -r '[.ranks, .backend, .rows[0].size, .rows[0].in_place.wrong] | join(" ")' <<<"$out")" "2 shm 4096 0"
	gtrain bench allreduce --sizes 4K --rounds 1 --backend ring --nproc 4 --json
	equal "$(jq -r '[.ranks, .backend, .rows[0].out_of_place.wrong] | join(" ")' <<<"$out")" "4 ring 0"
	gtrain bench allreduce --sizes 4K --rounds 1 --csv
	equal "$(wc -l <<<"$out")" 2
}

@test "bench allreduce: several backends in turn" {
	gtrain bench allreduce --sizes 4K --rounds 1 --backend ring,shm --json
	equal "$status" 0
	equal "$(jq -c '[.backends[] | [.backend, .rows[0].in_place.wrong]]' <<<"$out")" '[["ring",0],["shm",0]]'
	gtrain bench allreduce --sizes 4K --rounds 1 --backend shm,ring --csv
	equal "$(cut -d, -f1,13 <<<"$out")" $'size,backend\n4096,shm\n4096,ring'
	gtrain bench allreduce --sizes 4K --rounds 1 --backend shm,ring
	equal "$(grep -c "average bus bandwidth" <<<"$out")" 2
	gtrain bench allreduce --backend shm,shm
	equal "$status $err" "2 gtrain: error: --backend: 'shm' is listed twice
hint: use one or more of auto, shm, ring, tcp, mpi, nccl, separated by commas"
	for list in "shm," ",shm" bad; do
		gtrain bench allreduce --backend "$list"
		equal "$status" 2
		[[ $err == *"--backend: '"*"' is not a valid value"* ]]
	done
}

@test "bench allreduce refuses sizes that are none" {
	for sizes in 0 4 K..1M 1M..1K 1K.. -1; do
		gtrain bench allreduce --sizes="$sizes"
		equal "$status" 2
		[[ $err == *"--sizes: '$sizes'"* ]]
	done
}

@test "bench: sizes above the limit, and sizes that memory has no room for" {
	for command in allreduce copy; do
		gtrain bench $command --sizes 2048G
		equal "$status" 2
		equal "${err%%$'\n'*}" "gtrain: error: --sizes: '2048G' is more than 1024G"
		gtrain bench $command --sizes 1024G
		equal "$status" 1
		[[ $err == *"cpu:0: no memory: "*" free"*"hint: use smaller --sizes"* ]]
	done
}

@test "bench allreduce: nccl is for GPUs, which are looked for first" {
	gtrain bench allreduce --backend nccl
	equal "$status" 2
	equal "$err" "gtrain: error: --backend nccl is not for devices of 'cpu'
hint: it connects GPUs: --device cuda; --backend auto takes the fastest way"
	gtrain bench allreduce --device cpu:7
	equal "$status" 1
	[[ $err == *"cpu:7"* ]]
}

@test "bench allreduce: backends of one host refuse ranks of several" {
	export RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29999
	for backend in shm ring; do
		gtrain bench allreduce --backend $backend
		equal "$status" 2
		[[ $err == *"2 ranks on several hosts (1 on this one): --backend $backend is for those of one host"*"hint: --backend tcp"* ]]
	done
}

@test "bench gemm prints a row per type and shape" {
	gtrain bench gemm --shapes 64x32x16,3x5x7 --rounds 1 --seconds 0.001
	equal "$status" 0
	equal "$(awk '$1 == "cpu" && NF == 8 { printf "%s %s %s %s;", $2, $3, $4, $5 }' <<<"$out")" \
		"fp32 64 32 16;fp32 3 5 7;bf16 64 32 16;bf16 3 5 7;fp16 64 32 16;fp16 3 5 7;"
}

@test "bench gemm in JSON and CSV: operations and bytes over the time, no peak of the CPU" {
	gtrain bench gemm --shapes 64x32x16 --dtype bf16 --rounds 1 --seconds 0.001 --json
	equal "$status" 0
	equal "$(jq -c '.rows[0] | [.device, .type, .m, .n, .k, .peak_flops_per_s, .share_of_peak]' <<<"$out")" \
		'["cpu","bf16",64,32,16,null,null]'
	equal "$(jq -c '.rows[0] | [.flops_per_s * .time_s, .bytes_per_s * .time_s | round]' <<<"$out")" "[65536,7168]"
	gtrain bench gemm --shapes 64x32x16 --rounds 1 --seconds 0.001 --csv
	equal "$(wc -l <<<"$out")" 4
}

@test "bench gemm refuses shapes, types and devices that are none" {
	for shapes in 64x64 64x64x64x64 0x1x1 1x-1x1 1xax1 "64x64x64," 16777217x1x1; do
		gtrain bench gemm --shapes "$shapes"
		equal "$status" 2
		[[ $err == *"--shapes: '"*"is not MxNxK"* ]]
	done
	gtrain bench gemm --dtype fp32,fp64
	equal "$status" 2
	[[ $err == *"--dtype: 'fp64' is not a type"* ]]
	gtrain bench gemm --device cpu:7 --shapes 1x1x1
	[ "$status" != 0 ]
	[[ $err == *"--device cpu:7: "* ]]
	gtrain bench gemm --device cpu,cpu --shapes 1x1x1 # no option of other commands in the hint
	[[ $err == *"'cpu:0' is listed twice"*"hint: name each device once; "* && $err != *nproc* ]]
}

@test "bench gemm leaves out what does not fit into memory" {
	gtrain bench gemm --shapes 16777216x16777216x1,8x8x8 --dtype fp32 --rounds 1 --seconds 0.001 --json
	equal "$status" 0
	equal "$(jq -c '[.rows[] | .time_s == null]' <<<"$out")" "[true,false]"
}

@test "bench copy on the CPU: the memory's own copies, a line per size" {
	gtrain bench copy --sizes 1K..8K --rounds 1 --seconds 0.001
	equal "$status" 0
	equal "$(awk '$2 == "KiB" && NF == 3 && $3 > 0' <<<"$out" | wc -l)" 4
	gtrain bench copy --sizes 4K --rounds 1 --seconds 0.001 --json
	equal "$status" 0
	equal "$(jq -c '.rows[] | [.copy, .from, .to, .bytes, .direct, (.bytes_per_s * .time_s | round)]' <<<"$out")" \
		'["within","cpu","cpu",4096,null,4096]'
	gtrain bench copy --sizes 1K..2K --rounds 1 --seconds 0.001 --csv
	equal "$(wc -l <<<"$out")" 3
	gtrain bench copy --sizes 4K --csv --json
	equal "$status" 2
	[[ $err == *"--csv cannot be combined with --json"* ]]
	gtrain bench copy --sizes 4
	equal "$status" 2
	[[ $err == *"--sizes: '4'"* ]]
}

@test "bench loader: rates by workers follow from each other, and a need is compared" {
	gtrain bench loader --data random:6/3,samples=500 --batch 50 --workers 2,0 --rounds 3 --seconds 0.02 --json --step-rate 1
	equal "$status:$err" "0:"
	jq -e '.samples == 500 and .batch == 50 and .needed_samples_per_s == 50 and .enough_workers == 0 and
		.bytes_per_sample == 28 and [.rows[].workers] == [2, 0] and
		all(.rows[]; .samples_per_s > 0 and .samples_per_s_p25 <= .samples_per_s and .samples_per_s <= .samples_per_s_p75 and
			(.bytes_per_s / .samples_per_s - 28 | fabs) < 1e-3 and (.of_need * 50 / .samples_per_s - 1 | fabs) < 1e-3)' <<<"$out"
	gtrain bench loader --data random:6/3,samples=500 --workers 1 --rounds 1 --seconds 0.01 --step-rate 1e9
	equal "$status:$err" "1:"
	[[ $out == "500 samples of 28 B, in batches of 64; medians of 1 rounds
workers"*"of the need
"*"1e+09 steps a second need 64000000000 samples/s: training would wait for data" ]]
	gtrain bench loader --data random,samples=64 --model resnet20 --augment flip --workers 0 --rounds 1 --seconds 0.01 --csv
	equal "$status $(head -1 <<<"$out")" "0 workers,samples_per_s,samples_per_s_p25,samples_per_s_p75,bytes_per_s,of_need"
	gtrain bench loader --data random:6/3,samples=100 --model resnet20
	equal "$status:${err%%$'\n'*}" "2:gtrain: error: model 'resnet20' takes square images of 8x8 pixels or more"
	gtrain bench loader --data random --workers 1,1
	equal "$status:${err%%$'\n'*}" "2:gtrain: error: --workers: '1' is listed twice"
	gtrain bench loader --data csv:none.csv
	equal "$status" 1
}

@test "bench calibrate ends by the signal that it gets, and writes no file" {
	cd "$BATS_TEST_TMPDIR"
	run -129 timeout --preserve-status -s HUP 0.7 "$GTRAIN" bench calibrate -o x.json --rounds 100 -q
	[ ! -e x.json ]
}
