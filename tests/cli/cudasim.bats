#!/usr/bin/env bats
# cudasim.bats - the program on simulated GPUs (tests/cudasim/).
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and that is wanted

load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	export GTRAIN=$GTRAIN_TESTS/cudasim/gtrain-sim
	unset CUDA_DEVICE_MAX_CONNECTIONS CUDA_MODULE_LOADING
}

@test "bench gemm: every type on every GPU, beside the peak" {
	gtrain bench gemm --device cuda --shapes 17x9x33 --rounds 1 --seconds 0.001 --json
	equal "$status" 0
	equal "$(jq -r '[.rows[] | "\(.device) \(.type)"] | join(",")' <<<"$out")" \
		"cuda:0 fp32,cuda:0 bf16,cuda:0 fp16,cuda:1 fp32,cuda:1 bf16,cuda:1 fp16"
	# 2 multiprocessors of compute capability 9.0 at 1 GHz: 256 and 4096 operations each
	echo "$out" >gemm.json
	equal "$(values gemm.json '.rows[0, 1, 2] | .peak_flops_per_s')" "[512000000000,8192000000000,8192000000000]"
	equal "$(jq -c '[.rows[] | .share_of_peak * .peak_flops_per_s / .flops_per_s | round] | unique' <<<"$out")" "[1]"
	gtrain bench gemm --device cuda:1 --shapes 17x9x33 --dtype fp32 --rounds 1 --seconds 0.001
	equal "$status" 0
	[[ $out == *"cuda:1: simulated GPU"*"of peak"*" %"* ]]
}

@test "bench gemm: tf32 has a row and a peak of its own, on GPUs that have it" {
	gtrain bench gemm --device cuda:0 --shapes 17x9x33 --dtype fp32,tf32 --rounds 1 --seconds 0.001 --json
	equal "$status" 0
	echo "$out" >gemm.json
	equal "$(values gemm.json '.rows[] | [.type, .peak_flops_per_s, .time_s > 0]')" \
		'[["fp32",512000000000,true],["tf32",4096000000000,true]]'
	for device in cuda:0 cpu; do
		CUDASIM_MAJOR=7 gtrain bench gemm --device $device --shapes 8x8x8 --dtype tf32 --rounds 1 --seconds 0.001
		equal "$status" 0
		[[ $out == *"tf32 "*" not supported"* ]]
	done
}

@test "train --tf32 has other bits; config.json and a resumed run keep it; eval --tf32 measures with it" {
	local run="train --model mlp:5,16,3 --data random:5/3,samples=40 --device cuda:0 --batch 8" whole
	for tf32 in "" --tf32; do
		# shellcheck disable=SC2086
		gtrain $run $tf32 --steps 6 --save-every 3 --out run$tf32
		equal "$status" 0
	done
	if cmp run/model.pth run--tf32/model.pth; then return 1; fi
	equal "$(jq .tf32 run--tf32/config.json) $(jq .tf32 run/config.json)" "true false"
	gtrain train --config run--tf32/config.json --out run--tf32 --resume auto --steps 9
	equal "$status" 0
	equal "$(jq .tf32 run--tf32/config.json)" true
	gtrain eval --ckpt run --data random:5/3,samples=40 --device cuda:0 --json
	whole=$(jq .loss <<<"$out")
	gtrain eval --ckpt run --data random:5/3,samples=40 --device cuda:0 --json --tf32
	equal "$status" 0
	[[ $(jq .loss <<<"$out") != "$whole" ]]
}

@test "without --nproc, every GPU that --device lists has a rank" {
	local words="train --model mlp:5,16,3 --data random:5/3,samples=40 --steps 2 --batch 4 -q"
	export CUDASIM_DEVICES=3
	for list in cuda cuda:2,0 cuda:1; do
		# shellcheck disable=SC2086
		gtrain $words --device $list --out "run-$list"
		equal "$status $err" "0 "
	done
	equal "$(jq -c .nproc run-cuda/config.json run-cuda:2,0/config.json run-cuda:1/config.json | tr '\n' ' ')" "3 2 1 "
	# shellcheck disable=SC2086
	gtrain $words --device cuda --nproc 3 --out three
	cmp run-cuda/model.pth three/model.pth
	# shellcheck disable=SC2086
	gtrain $words --device cuda --nproc 1 --out one
	equal "$(jq .nproc one/config.json)" 1
	# shellcheck disable=SC2086
	gtrain $words --device cuda --dry-run --json
	equal "$(jq .ranks <<<"$out")" 3
	gtrain eval --ckpt one --data random:5/3,samples=40 --batch 4 --device cuda --json
	equal "$status $(jq .n <<<"$out")" "0 40"
	gtrain eval --ckpt one --data random:5/3,samples=40 --device cuda --backend mpi # one rank alone would not need mpirun
	[[ $err == *"mpirun -n 3 gtrain eval"* ]]
}

@test "where threads share a GPU, kernels are loaded at the start, and there are 32 queues" {
	local run="train --model mlp:5,16,3 --data random:5/3,samples=40 --steps 2 --batch 4 -v" row words list again
	for row in "--parallel mirrored --nproc 2|cuda:0|2" "--parallel mirrored --nproc 3|cuda|2" "--verify-parallel|cuda:1|2" \
		"--parallel mirrored|cuda|0" "--parallel ddp --nproc 2|cuda:0|0" "--parallel mirrored --nproc 2|cpu|0"; do
		IFS='|' read -r words list again <<<"$row"
		# shellcheck disable=SC2086
		gtrain $run $words --device $list --out "run-${row//[ |]/-}"
		equal "$status" 0
		equal "$row: $(grep -cE "starting again with (CUDA_MODULE_LOADING=EAGER|CUDA_DEVICE_MAX_CONNECTIONS=32)$" <<<"$err")" "$row: $again"
	done
	# shellcheck disable=SC2086
	CUDA_MODULE_LOADING=LAZY gtrain $run --parallel mirrored --nproc 2 --device cuda:0 --out lazy
	[[ $status == 0 && $err == *CONNECTIONS=32* && $err != *EAGER* ]]
	# shellcheck disable=SC2086
	CUDA_DEVICE_MAX_CONNECTIONS=31 gtrain $run --parallel mirrored --nproc 2 --device cuda:0 --out queues
	[[ $status == 0 && $err != *CONNECTIONS* && $err == *EAGER* ]]
}

@test "Muon on ranks that share layers has the curve of one rank" {
	for ranks in 1 2; do
		gtrain train -q --device cuda --model gpt:layers=1,heads=2,width=16,block=8,vocab=65 --data random:,samples=32 --optimizer muon --lr 5e-3 \
			--steps 4 --log-every 1 --batch 4 --nproc $ranks --tensor-parallel $ranks --out "run$ranks"
		equal "$status" 0
		jq -s '[.[].loss | select(.)]' "run$ranks/metrics.jsonl" >"$ranks.json"
	done
	jq -en --slurpfile one 1.json --slurpfile two 2.json '[$one[0], $two[0]] | transpose | length == 4 and all(.[]; .[0] / .[1] - 1 | fabs < 1e-6)'
}

@test "ranks that are processes have CUDA's number of queues, but stages of a pipeline have 32" {
	local run="train --model gpt:layers=2,heads=2,width=16,block=8,vocab=65,dropout=0 --data random: --device cuda:0 --batch 4" words victim
	for words in "--parallel ddp:0" "--tensor-parallel 2:0" "--pipeline-parallel 2:1"; do
		# shellcheck disable=SC2086
		"$GTRAIN" $run ${words%:*} --nproc 2 --steps 1000000 --save-every 0 --out run -q >out 2>err 3>&- &
		find_rank_1 $!
		equal "${words%:*}:$(tr '\0' '\n' <"/proc/$victim/environ" | grep -cx CUDA_DEVICE_MAX_CONNECTIONS=32)" "$words"
		# NCCL starts their collectives in the order of the calls
		equal "$(tr '\0' '\n' <"/proc/$victim/environ" | grep -cx NCCL_LAUNCH_ORDER_IMPLICIT=1)" 1
		kill -KILL $!
		wait $! || true
		rm -r run
	done
}

@test "a driver that is older than the build's toolkit is named, with the remedies" {
	CUDASIM_DRIVER=12040 gtrain train --model mlp:5,16,3 --data random:5/3,samples=40 --steps 1 --device cuda --out run
	equal "$status" 1
	[[ $err == *"the driver runs CUDA up to 12.4, and this build needs 13.0"*"hint: install driver 580.65.06 or later, or build gtrain with a toolkit of CUDA 12"* ]]
	CUDASIM_DRIVER=0 gtrain bench gemm --device cuda
	equal "$status" 1
	[[ $err == *"there is no NVIDIA driver"*"hint: 'gtrain probe' shows the state of the driver"* ]]
}

@test "predict: ranks on GPUs cannot share standard input, so it has one rank" {
	printf 'a,b,y\n1,2,0\n2,1,1\n1,3,0\n3,1,1\n' >t.csv
	gtrain train --model mlp:2,2 --data csv:t.csv --steps 2 --batch 2 -q --out run
	equal "$status $err" "0 "
	for input in - t.csv; do
		gtrain predict --ckpt run --device cuda --csv --top 1 $input <t.csv
		equal "$status $(sed 1d <<<"$out" | wc -l)" "0 4"
	done
}

@test "--tf32 is refused on the CPU and on GPUs that lack it" {
	local words
	gtrain train --model mlp:5,16,3 --data random:5/3,samples=40 --steps 1 --device cuda:0 --out run
	equal "$status" 0
	for words in "train --model mlp:5,16,3 --data random:5/3,samples=40 --steps 1 --out other" \
		"eval --ckpt run --data random:5/3,samples=40" "predict --ckpt run run/model.pth" "generate --ckpt run"; do
		# shellcheck disable=SC2086
		gtrain $words --tf32
		((status != 0))
		[[ $err == *"tf32 needs a GPU, and device 'cpu' is not a GPU"* ]]
		# shellcheck disable=SC2086
		CUDASIM_MAJOR=7 gtrain $words --tf32 --device cuda
		((status != 0))
		[[ $err == *"tf32 needs compute capability 8.0, and cuda:0, simulated GPU, has 7.0"* ]]
	done
}

@test "amp bf16: a GPU without it is named before the work" {
	local words

	gtrain train --model mlp:5,16,3 --data random:5/3,samples=40 --steps 1 --device cuda:0 --out run
	equal "$status" 0
	for words in "train --model mlp:5,16,3 --data random:5/3,samples=40 --steps 1 --out other" "eval --ckpt run --data random:5/3,samples=40"; do
		# shellcheck disable=SC2086
		CUDASIM_MAJOR=7 gtrain $words --amp bf16 --device cuda
		equal "$status $out" "1 "
		[[ $err == *"--amp: bfloat16 needs compute capability 8.0, and cuda:0, simulated GPU, has 7.0"*"hint: --amp fp16"* ]]
	done
	[ ! -e other ]
}

@test "a GPU for which the build has no kernels is refused before the work" {
	CUDASIM_MAJOR=6 gtrain train --model mlp:5,16,3 --data random:5/3,samples=40 --steps 1 --device cuda:0 --out run
	equal "$status $out" "1 "
	equal "$err" "gtrain: error: cuda:0 has compute capability 6.0, and this build has kernels for 7.0 and above
hint: 'gtrain probe --check' says how to fix it"
	[ ! -e run ]
}

@test "bench gemm: what does not fit into a GPU's memory is left out" {
	export CUDASIM_MEMORY=1000000
	gtrain bench gemm --device cuda:0 --shapes 4096x4096x8,8x8x8 --dtype fp32 --rounds 1 --seconds 0.001
	equal "$status" 0
	[[ $out == *"too large"* ]]
}

@test "bench gemm: what the library cannot do is a row, costs no other its time, and has a title of its peak" {
	export CUDASIM_MAJOR=7
	gtrain bench gemm --device cuda:0 --shapes 8x8x8 --dtype bf16,fp16 --rounds 1 --seconds 0.001
	equal "$status" 0
	[[ $out == *"GB/s  of peak"*"bf16 "*" not supported"* ]]
	equal "$(awk '$1 == "cuda:0" && $2 ~ /16$/ { print $2, $NF == "%" }' <<<"$out")" $'bf16 0\nfp16 1'
	gtrain bench gemm --device cuda:0 --shapes 8x8x8 --dtype bf16,fp16 --rounds 1 --seconds 0.001 --json
	equal "$(jq -c '[.rows[] | [.time_s == null, .peak_flops_per_s != null]]' <<<"$out")" "[[true,false],[false,true]]"
}

@test "bench: what a GPU has no memory for wants smaller sizes" {
	for command in copy "allreduce --nproc 2"; do
		# shellcheck disable=SC2086
		CUDASIM_MEMORY=2000000 gtrain bench $command --device cuda --sizes 2M
		equal "$status" 1
		[[ $err == *"cuda:"*"no memory: "*"hint: use smaller --sizes"* ]]
		[[ $err != *"batch"* ]]
	done
}

@test "bench allreduce says why GPUs do not reach each other in the fastest way" {
	CUDASIM_DEVICES=1 gtrain bench allreduce --device cuda --nproc 2 --sizes 1K --rounds 1
	equal "$status" 0
	equal "$(grep -c 'GPUs reach each other by ring: ranks 0 and 1 share the GPU cuda:0' <<<"$err")" 1
	CUDASIM_PEERS=no gtrain bench allreduce --device cuda --nproc 3 --sizes 1K --rounds 1
	equal "$status" 0
	equal "$(grep -c 'GPUs reach each other by way of the host: .*; cuda:0 .* of rank 0 cannot access the memory of ' <<<"$err")" 1
	for peers in yes no; do
		CUDASIM_PEERS=$peers gtrain bench allreduce --device cuda --nproc 2 --sizes 1K --rounds 1
		equal "$status $err" "0 "
	done
	gtrain bench allreduce --device cuda --nproc 2 --sizes 1K --rounds 1 --backend shm
	equal "$status" 0
	equal "$err" ""
}

@test "bench allreduce: processes form a ring on one GPU, or on one each, where NCCL connects them, too" {
	local devices backends words

	for devices in 1 4; do
		backends=ring,shm
		[ $devices = 1 ] || backends=nccl,$backends
		for words in "--nproc 2 --sizes 64K" "--nproc 3 --dtype bf16 --sizes 32K" "--nproc 4 --dtype fp16 --sizes 4K"; do
			# shellcheck disable=SC2086
			CUDASIM_DEVICES=$devices gtrain bench allreduce --device cuda $words --rounds 1 --backend $backends --json
			equal "$status $err" "0 "
			equal "$(jq -r '[.backends[].backend] | join(",")' <<<"$out")" ${backends/shm/staged}
			equal "$(jq -c '[.backends[].rows[] | .out_of_place.wrong, .in_place.wrong] | unique' <<<"$out")" "[0]"
		done
	done
}

@test "train --reproducible: the same bits on 1, 2 and 4 processes that share a GPU" {
	export CUDASIM_DEVICES=1
	for mode in ddp zero2; do
		for n in 1 2 4; do
			gtrain train --model mlp:5,16,3 --data random:5/3,samples=40 --device cuda --batch $((8 / n)) --nproc $n \
				--parallel $mode --steps 4 --reproducible --out $mode-$n
			equal "$status" 0
		done
		cmp $mode-1/model.pth $mode-2/model.pth
		cmp $mode-1/model.pth $mode-4/model.pth
	done
}

# PROCESS...: the numbers of the files without a name that they have open.
shared_files() {
	local files=("${@/#//proc/}")

	find "${files[@]/%//fd}" -lname '/memfd:*' -exec stat -L -c %i {} + 2>/dev/null | sort -u
}

# LAUNCHER: wait for its rank 1, whose number is in victim.
find_rank_1() {
	local child

	victim=''
	for ((i = 0; i < 500; i++)); do
		for child in $(pgrep -P "$1"); do
			tr '\0' '\n' <"/proc/$child/environ" 2>/dev/null | grep -qx RANK=1 && victim=$child
		done
		[ -z "$victim" ] || return 0
		sleep 0.01
	done
	return 1
}

# BACKEND DEVICES: three ranks train, and rank 1 is killed. Its name is in err, and the collective.
kill_rank_1() {
	local victim pid from

	CUDASIM_DEVICES=$2 "$GTRAIN" train --model mlp:5,16,3 --data random:5/3,samples=40 --device cuda --batch 4 --nproc 3 \
		--backend "$1" --timeout 60 --steps 1000000 --save-every 0 --out run >out 2>err 3>&- &
	pid=$!
	find_rank_1 $pid
	until grep -q loss run/metrics.jsonl 2>/dev/null; do
		kill -0 $pid
		sleep 0.02
	done
	shared_files "$victim" >shared
	[ -s shared ]
	from=$SECONDS
	kill -KILL "$victim"
	status=0
	wait $pid || status=$?
	equal "$status" 1
	((SECONDS - from < 60))
	equal "$(grep -c "rank 1 was killed by SIGKILL" err)" 1
	equal "$(grep -cE "error: rank 1 (died|left the group) (before|in) all-reduce" err)" 1
	equal "$(pgrep -P $pid)" ""
	# shellcheck disable=SC2046 # numbers
	equal "$(shared_files $(pgrep .) | comm -12 - shared)" ""
	rm -r run
}

@test "train: a rank that is killed is named, the others end, and no memory that they shared is left" {
	kill_rank_1 ring 1
	kill_rank_1 nccl 3
	CUDASIM_NCCL=silent kill_rank_1 nccl 3
}

@test "bench copy: host and device both ways, within, and between GPUs" {
	gtrain bench copy --device cuda --sizes 1K..2K --rounds 1 --seconds 0.001 --json
	equal "$status" 0
	equal "$(jq -r '[.rows[] | select(.bytes == 2048) | "\(.copy) \(.from) \(.to)"] | join(",")' <<<"$out")" \
		"pinned-in host cuda:0,pageable-in host cuda:0,pinned-out cuda:0 host,pageable-out cuda:0 host,within cuda:0 cuda:0,$(
		)pinned-in host cuda:1,pageable-in host cuda:1,pinned-out cuda:1 host,pageable-out cuda:1 host,within cuda:1 cuda:1,$(
		)peer cuda:0 cuda:1,peer cuda:1 cuda:0,peers cuda:0 cuda:1"
	# both ways move twice the bytes
	equal "$(jq -c '[.rows[] | select(.bytes == 1024) | .bytes_per_s * .time_s / 1024 | round]' <<<"$out")" "[1,1,1,1,1,1,1,1,1,1,1,1,2]"
	equal "$(jq -c '[.rows[] | .direct] | unique' <<<"$out")" "[null,true]"
}

@test "bench copy: a table per GPU and per pair, which says the way" {
	gtrain bench copy --device cuda:0,cuda:1 --sizes 1K..4K --rounds 1 --seconds 0.001
	equal "$status" 0
	[[ $out == *"cuda:0: simulated GPU"*"pinned in  pageable in  pinned out  pageable out  within"*"cuda:0 and cuda:1: copies are direct"*"cuda:0 > cuda:1  cuda:1 > cuda:0  both ways"* ]]
	for peers in no full; do
		CUDASIM_PEERS=$peers gtrain bench copy --device cuda --sizes 1K --rounds 1 --seconds 0.001
		equal "$status" 0
		[[ $out == *"cuda:0 and cuda:1: copies go through the host"* ]]
	done
	gtrain bench copy --device cuda:1 --sizes 1K --rounds 1 --seconds 0.001
	equal "$status" 0
	[[ $out != *" and "* ]]
}

# The schema holds for the document in $out.
valid() {
	python3 "$ROOT/tests/common/schema.py" "$ROOT/man/schemas/probe.json" <<<"$out"
}

# As many GPUs by the driver's library as the simulator has.
with_gpus() {
	export GTRAIN_NVML=$GTRAIN_TESTS/fake/libnvidia-ml.so.1 FAKE_NVML_COUNT=$1 CUDASIM_DEVICES=$1
	export LD_LIBRARY_PATH=$GTRAIN_TESTS/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} # libcuda, which --check asks
	export CUDASIM_MEMORY=4000000 # the buffers of the measurements are small then
}

@test "probe --bandwidth: rates of every copy, and data of every pair compared" {
	with_gpus 3
	gtrain probe --bandwidth --json
	equal "$status" 0
	valid
	equal "$(jq -c '[.bandwidth.devices[] | .device, ([.[] | numbers | . > 0] | all)]' <<<"$out")" \
		'["cuda:0",true,"cuda:1",true,"cuda:2",true]'
	equal "$(jq -c '[.bandwidth.peers[] | [.direct, .words_checked > 100000, .words_wrong, .bytes_per_s > 0]] | unique' <<<"$out")" \
		'[[true,true,0,true]]'
	equal "$(jq '.bandwidth.peers | length' <<<"$out")" 6
	equal "$(jq '.bandwidth.problem' <<<"$out")" null
}

# COMMAND...: with a clock that runs a thousand times as fast. Each copy is measured for a time, which is short then.
in_no_time() {
	LD_PRELOAD=$GTRAIN_TESTS/fake/fast_clock.so ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 "$@"
}

@test "probe --bandwidth as text: tables of 80 columns, signs where they are needed" {
	with_gpus 2
	gtrain probe --bandwidth
	equal "$status" 0
	[[ $out == *"pinned in  pageable in"*"from / to"*"both ways"*"data of all pairs were compared, and arrive as they were"* ]]
	[[ $out != *"* through"* ]]
	CUDASIM_PEERS=no in_no_time gtrain probe --bandwidth
	[[ $out == *"* through the host: the driver does not allow direct copies"* ]]
	CUDASIM_PEERS=wrong in_no_time gtrain probe --bandwidth
	[[ $out == *"! data arrive wrong"* && $out != *"as they were"* ]]
	with_gpus 8
	in_no_time gtrain probe --bandwidth
	[[ $out == *"cuda:6  cuda:7"* ]]
	equal "$(awk 'length > 80' <<<"$out")" ""
}

@test "probe --check does not believe the driver that GPUs reach each other" {
	with_gpus 2
	CUDASIM_PEERS=wrong gtrain probe --check --json
	equal "$status" 1
	valid
	equal "$(jq -r '.findings[] | select(.id == "peer-data") | "\(.severity): \(.text)"' <<<"$out" | head -1)" \
		"error: data from cuda:0 arrive wrong on cuda:1 (1 of 262144 words), although the driver reports direct access"
	equal "$(jq '[.findings[] | select(.id == "peer-data")] | length' <<<"$out")" 2
	for peers in yes no; do
		CUDASIM_PEERS=$peers gtrain probe --check --json
		equal "$(jq '[.findings[] | select(.id == "peer-data")] | length' <<<"$out")" 0
	done
}

@test "probe: GPUs that cannot be measured are told, and are no failure" {
	with_gpus 2
	CUDASIM_MEMORY=300000 gtrain probe --bandwidth --json
	equal "$status" 0
	valid
	[[ $(jq -r .bandwidth.problem <<<"$out") == "cuda:"*"no memory: "* ]]
	CUDASIM_MEMORY=300000 gtrain probe --check --json
	equal "$(jq -r '.findings[] | select(.id == "copies-untested") | .severity' <<<"$out")" warning
}

# What a run needs that does not fit: the figures of each option are those of its dry run.
GPT=(--model "gpt:layers=3,heads=2,width=32,block=64,dropout=0" --data text:text.txt --batch 8 --steps 1 --seed 1)

# OPTION...: the memory of a dry run on a GPU, in bytes, and as it is printed.
need() {
	"$GTRAIN" train "${GPT[@]}" --device cuda:0 --dry-run --json "$@" | jq .memory_bytes.total
}
printed() {
	"$GTRAIN" train "${GPT[@]}" --device cuda:0 --dry-run "$@" | sed -n 's/^  total *//p'
}

@test "train: what does not fit into a GPU tells the options that do, with the figures of their plans" {
	local all half

	seq 1 2000 >text.txt
	all=$(need) half=$(need --batch 4 --accumulate 2)
	export CUDASIM_MEMORY=$((half + 800000))
	[ $((all - half)) -gt 1000000 ]
	gtrain train "${GPT[@]}" --device cuda:0 --out run
	equal "$status" 1
	[[ $err == *"error: the run needs $(printed) of memory, cuda:0 has "*" free of "*", and "*" of it stay free; it needs "*" parameters, "*" gradients, "*" optimizer state, "*" activations, "*" batches"* ]]
	[[ $err == *"hint: it fits with "*"--recompute ($(printed --recompute))"* ]]
	[[ $err == *"--batch 4 --accumulate 2 ($(printed --batch 4 --accumulate 2))"* ]]
	[[ $err == *"; not with "*"--device cuda --nproc 2 --parallel zero1 ($(printed --device cuda --nproc 2 --parallel zero1))"* ]]
	[ ! -e run ]
	gtrain train -q "${GPT[@]}" --device cuda:0 --out run --batch 4 --accumulate 2
	equal "$err" ""
	equal "$status" 0
}

@test "train: what fits in no way says so" {
	seq 1 2000 >text.txt
	CUDASIM_MEMORY=500000 gtrain train "${GPT[@]}" --device cuda:0 --out run
	equal "$status" 1
	[[ $err == *"hint: use a smaller model: it does not fit with --recompute ("*"--batch 1 --accumulate 8 ("*"--recompute --batch 1 --accumulate 8 ("*") either"* ]]
}

@test "train: a dry run takes no memory of a GPU, and warns of what does not fit" {
	local options
	seq 1 2000 >text.txt
	export CUDASIM_MEMORY=1000
	for options in "" "--recompute=auto" "--nproc 2 --pipeline-parallel 2"; do
		# shellcheck disable=SC2086
		gtrain train "${GPT[@]}" --device cuda:0 --dry-run $options
		equal "$status" 0
		[[ $out == *$'\n  total '* ]]
		[[ $err == "warning: the run needs "*" of memory, cuda:0 has 1000 B free of 1000 B, and "*"; use a smaller "* ]]
	done
}

@test "train: --recompute=auto plans what fits no GPU, and the stages of a dry run" {
	seq 1 2000 >text.txt
	CUDASIM_MEMORY=500000 gtrain train "${GPT[@]}" --device cuda:0 --recompute=auto --out run
	equal "$status" 1
	[[ $err == *"hint: use a smaller model: it does not fit with --batch 1 --accumulate 8 ("* ]]
	gtrain train "${GPT[@]}" --device cuda:0 --recompute=auto --nproc 2 --pipeline-parallel 2 --dry-run --json
	equal "$status" 0
	equal "$(jq -c '[.stages[].recomputed_blocks]' <<<"$out")" "[0,0]"
}

@test "train: the memory of rings between GPUs is part of the plan" {
	seq 1 2000 >text.txt
	gtrain train "${GPT[@]}" --device cuda:0 --nproc 2 --dry-run
	[[ $out == *$'\n  collectives  256 KiB\n'* ]]
	gtrain train "${GPT[@]}" --device cuda:0 --nproc 2 --batch 1 -v --out run
	[[ $err == *"memory per rank: "*" batches, 256 KiB collectives, $(printed --nproc 2 --batch 1) total"* ]]
	CUDASIM_MEMORY=2000000 gtrain train "${GPT[@]}" --device cuda:0 --nproc 2 --out short
	[[ $err == *"it needs for 2 ranks, each "*" batches, 32.2 KiB collectives"* ]]
	gtrain train "${GPT[@]}" --device cuda:0 --nproc 2 --backend shm --dry-run
	[[ $out == *$'\n  collectives  0 B\n'* ]]
}

# Accumulation makes up for a smaller batch as far as its option goes.
@test "train: what fits with fewer samples in a step says that" {
	local options
	seq 1 2000 >text.txt
	export CUDASIM_MEMORY
	CUDASIM_MEMORY=$(($(need --batch 4) + 800000))
	for options in "--accumulate 65536" "--batch 32 --accumulate 2 --reproducible"; do
		# shellcheck disable=SC2086
		gtrain train "${GPT[@]}" --device cuda:0 $options --out run
		equal "$status" 1
		[[ $err == *"it fits with "*"--batch "*", of fewer samples in a step ("* ]]
	done
	gtrain train "${GPT[@]}" --device cuda:0 --batch 7 --out run
	[[ $err == *"it fits with "*"--batch 3 --accumulate 2 ("* ]]
}

@test "train: the processes that hold a full GPU are named" {
	seq 1 2000 >text.txt
	with_gpus 2
	export CUDASIM_MEMORY=500000 FAKE_NVML_FULL=1 FAKE_NVML_PID=$$
	gtrain train "${GPT[@]}" --device cuda:1 --out run
	equal "$status" 1
	[[ $err == *"cuda:1 has "*"; process $$ ($(cat /proc/$$/comm)) 79 GiB; it needs"* ]]
	gtrain train "${GPT[@]}" --device cuda:0 --out run
	[[ $err != *process* ]]
	unset FAKE_NVML_FULL
	FAKE_NVML_CROWD=5 gtrain train "${GPT[@]}" --device cuda:0 --out run
	[[ $err == *"; process 4999997 1 MiB, process 4999998 1 MiB, process 4999999 1 MiB and 2 more; it needs"* ]]
}

@test "train: ranks that share a GPU do not count each other's memory twice" {
	local i
	seq 1 2000 >text.txt
	export CUDASIM_MEMORY
	CUDASIM_MEMORY=$((2 * $(need --batch 2 --nproc 2 --parallel mirrored) + 1000000))
	for i in 1 2 3; do
		gtrain train -q "${GPT[@]}" --device cuda:0 --batch 2 --nproc 2 --parallel mirrored --out "run$i"
		equal "$err" ""
	done
}

@test "train: ranks need memory where they share a GPU, and not where each has one" {
	seq 1 2000 >text.txt
	export CUDASIM_MEMORY
	CUDASIM_MEMORY=$(($(need --batch 2 --nproc 2 --parallel mirrored) * 3 / 2))
	gtrain train "${GPT[@]}" --device cuda:0 --batch 2 --nproc 2 --parallel mirrored --out run
	equal "$status" 1
	[[ $err == *"it needs for 2 ranks, each "*"hint: it fits with "* ]]
	gtrain train -q "${GPT[@]}" --device cuda:0,cuda:1 --batch 2 --nproc 2 --parallel mirrored --out run
	equal "$err" ""
	equal "$status" 0
}

# WORD...: the command on two ranks, each of which sees one GPU: those that gpu0 and gpu1 name, as NAME=VALUE.
# The port is below 32768, because Linux gives ports from there on to any connection. If rank 0 could not listen,
# rank 1 would wait for it for 600 s, so timeout(1) ends it.
each_with_a_gpu() {
	local port=$((20000 + RANDOM % 10000)) other

	export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port CUDASIM_DEVICES=1
	# shellcheck disable=SC2086 # several variables
	env $gpu1 RANK=1 LOCAL_RANK=1 timeout 60 "$GTRAIN" "$@" >out1 2>err1 3>&- &
	other=$!
	# shellcheck disable=SC2086
	env $gpu0 RANK=0 LOCAL_RANK=0 "$GTRAIN" "$@" >out0 2>err0 && status=0 || status=$?
	wait $other || true
	err=$(cat err0 err1)
}

@test "train: ranks that each see a GPU of their own as cuda:0 do not share it" {
	local gpu0=CUDASIM_FIRST=3 gpu1

	seq 1 2000 >text.txt
	export CUDASIM_MEMORY
	CUDASIM_MEMORY=$(($(need --batch 2 --nproc 2) * 3 / 2))
	for gpu1 in CUDASIM_FIRST=3 CUDASIM_FIRST=4 "CUDASIM_FIRST=3 CUDASIM_INSTANCE=1"; do
		each_with_a_gpu train -q "${GPT[@]}" --batch 2 --device cuda:0 --backend shm --out run
		if [ "$gpu1" = "$gpu0" ]; then
			equal "$status" 1
			[[ $err == *"it needs for 2 ranks, each "* ]]
		else
			equal "$status $err" "0 "
			rm -r run
		fi
	done
}

@test "train: CUDA_VISIBLE_DEVICES chooses the GPUs that ranks number" {
	seq 1 2000 >text.txt
	CUDA_VISIBLE_DEVICES=1 gtrain train -q "${GPT[@]}" --batch 1 --device cuda:0 --out run
	equal "$status $err" "0 "
	CUDA_VISIBLE_DEVICES=1 gtrain train -q "${GPT[@]}" --device cuda:1 --out other
	equal "$status" 1
	[[ $err == *"cuda:1"* ]]
	CUDA_VISIBLE_DEVICES=1,0 gtrain train -q "${GPT[@]}" --batch 1 --device cuda --nproc 2 --tensor-parallel 2 --reproducible --out two
	equal "$status $err" "0 "
}

@test "bench allreduce: ranks on two instances of a GPU form no ring, and NCCL does not connect them" {
	local gpu0="CUDASIM_FIRST=3 CUDASIM_INSTANCE=1" gpu1="CUDASIM_FIRST=3 CUDASIM_INSTANCE=2"

	each_with_a_gpu bench allreduce --device cuda --sizes 1K --rounds 1 --backend ring
	equal "$status" 1
	[[ $err == *"cannot access the memory of "*", another instance of that GPU"* ]]
	each_with_a_gpu bench allreduce --device cuda --sizes 1K --rounds 1 --backend nccl
	equal "$status" 1
	[[ $err == *"ranks 0 and 1 share the GPU cuda:0 (0000:04:00.0), and NCCL takes one rank for each GPU"* ]]
}

# OPTION...: the memory of an evaluation of run/ on a GPU, as the error of one that is full prints it.
eval_needs() {
	CUDASIM_MEMORY=700000 gtrain eval --ckpt run --data text:text.txt --device cuda:0 "$@"
	sed -n 's/.*: the evaluation needs \(.*\) of memory, cuda:0 has .*/\1/p' <<<"$err"
}
train_run() {
	seq 1 2000 >text.txt
	"$GTRAIN" train -q "${GPT[@]}" --device cpu --out run
}

@test "eval: what does not fit into a GPU tells the options that do, with the figures of their plans" {
	local all half amp

	train_run
	export CUDASIM_MEMORY=1000000
	half=$(eval_needs --batch 4) all=$(eval_needs --batch 64) amp=$(eval_needs --batch 64 --amp bf16)
	[ -n "$half" ] && [ -n "$amp" ] && [ "$half" != "$all" ]
	gtrain eval --ckpt run --data text:text.txt --device cuda:0 --batch 64
	equal "$status" 1
	equal "$out" ""
	[[ $err == *"error: the evaluation needs $all of memory, cuda:0 has "*" free of "*"; it needs "*" parameters, "*" activations, "*" batches"* ]]
	[[ $err != *gradients* && $err != *optimizer* ]]
	[[ $err == *"hint: it fits with --batch 4 ($half), --device cpu ("*"); not with --amp bf16 ($amp)"* ]]
	seq 1 60 >short.txt
	gtrain eval -q --ckpt run --data text:short.txt --device cuda:0 --batch 4
	equal "$err" ""
	equal "$status" 0
	CUDASIM_MEMORY=450000 gtrain eval --ckpt run --data text:text.txt --device cuda:0
	[[ $err == *"hint: it fits with --device cpu ("*"); not with --batch 1 ("*"--amp bf16 ("*"--batch 1 --amp bf16 ("* ]]
}

@test "generate: a text that does not fit into a GPU tells the options that do" {
	train_run
	export CUDASIM_MEMORY=712000
	gtrain generate --ckpt run --device cuda:0 --prompt "$(seq 1 12)" --tokens 200
	equal "$status" 1
	equal "$out" ""
	[[ $err == *"error: the generation needs "*" of memory, cuda:0 has "*" free of "*"; it needs "*" parameters, "*" keys and values, "*" activations"* ]]
	[[ $err == *"hint: it fits with "*"--tokens 39 ("*"--device cpu ("* ]]
	gtrain generate -q --ckpt run --device cuda:0,cuda:1 --prompt 1
	equal "$status" 2
	[[ $err == *"--device cuda:0,cuda:1: one rank computes on one device"* ]]
	gtrain generate -q --ckpt run --device cuda:0 --prompt "$(seq 1 12)" --tokens 39 --temperature 0
	equal "$err" ""
	equal "$status" 0
	local alone=$out
	unset CUDASIM_MEMORY
	gtrain generate -q --ckpt run --device cuda:0,cuda:1 --prompt "$(seq 1 12)" --tokens 39 --temperature 0 --tensor-parallel 2
	equal "$err" ""
	equal "$out" "$alone"
}

@test "train --profile: times are the GPU's, and the host has a row of its own" {
	gtrain train --model "gpt:layers=1,heads=2,width=16,block=4,vocab=13" --data random:,samples=32 --device cuda:0 --batch 4 \
		--steps 8 --workers 1 --profile wait=2,warmup=2,active=3 --out run -q --json
	equal "$status" 0
	# The clock of a simulated GPU goes on by 100 us in a kernel, and not while the host works.
	cat >times.py <<-'EOF'
		import gzip, json
		events = [e for e in json.load(gzip.open("run/trace/rank-0.json.gz"))["traceEvents"] if e["ph"] == "X"]
		kernels = [e for e in events if e["cat"] == "kernel"]
		steps = [e for e in events if e["name"] == "step"]
		updates = [e for e in events if e["name"] == "optimizer"]
		for e in kernels + steps + updates:
		    assert abs(e["dur"] / 100 - round(e["dur"] / 100)) < 0.01, e
		    assert e["dur"] > 99 or e["name"] == "fill", e
		for a, b in zip(kernels, kernels[1:]):
		    assert a["ts"] + a["dur"] < b["ts"] + 1, (a, b)
		for step in steps:
		    inside = [e for e in kernels + updates if step["ts"] <= e["ts"] + e["dur"] / 2 < step["ts"] + step["dur"]]
		    rest = step["dur"] - sum(e["dur"] for e in inside)
		    assert len(inside) == (len(kernels) + 3) / 3 and 0 < rest < 500, rest  # kernels that begin a step, add up losses
		print([e["name"] for e in events if e["tid"] == 3])
	EOF
	equal "$(python3 times.py)" "$(python3 -c 'print(["queue step", "wait for data"] * 3)')"
	equal "$(python3 "$ROOT/tests/common/check_trace.py" run/trace/rank-0.json.gz)" \
		"compute stream, copy stream, host, loader thread 0; 0 arrows; bytes flops scope share_of_limit"
	jq -e '.profile.step_s * 3e4 | (. - round | fabs) < 0.01' <<<"$out"
}

@test "train --profile: collectives have the GPU's times, by rings and by way of the host" {
	for way in ring shm; do
		CUDASIM_DEVICES=2 gtrain train --model mlp:5,16,3 --data random:5/3,samples=40 --device cuda:0,1 --backend $way --batch 4 \
			--parallel zero1 --steps 5 --workers 1 --profile active=2 --out run-$way -q --json
		equal "$status" 0
		equal "$(python3 "$ROOT/tests/common/check_trace.py" run-$way/trace/rank-{0,1}.json.gz | sed 's/communicator data (2), //' | uniq)" \
			"compute stream, collectives stream, copy stream, host, communicator data, loader thread 0; 2 arrows; bytes flops ranks scope share_of_limit"
		equal "$(jq -c '[.traceEvents[] | select(.cat == "collective") | .name] | group_by(.) | map([.[0], length])' <(zcat run-$way/trace/rank-1.json.gz))" \
			'[["bucket 0",2],["gather of bucket 0",2]]'
	done
	# kernels of the simulator add up a ring's gradients; by way of the host, the host does
	jq -e '[.traceEvents[] | select(.cat == "collective") | .dur / 100] | all(. > 0.99 and (. - round | fabs) < 0.01)' <(zcat run-ring/trace/rank-1.json.gz)
}

@test "tests/bench/gpu.py: one slow step does not change the time of an op" {
	cat >median.py <<-'EOF'
		import gzip, json, sys
		sys.path.insert(0, sys.argv[1])
		import gpu
		spans = [("kernel", "add", 0, 1), ("kernel", "add", 10, 2), ("step", "step", 0, 99),
		         ("kernel", "add", 100, 1), ("kernel", "add", 110, 80), ("step", "step", 100, 99),
		         ("kernel", "add", 200, 1), ("kernel", "add", 210, 2), ("step", "step", 200, 99)]
		with gzip.open("trace.json.gz", "wt") as f:
		    json.dump({"traceEvents": [{"name": "process_name"}] + [dict(zip(("cat", "name", "ts", "dur"), s)) for s in spans]}, f)
		print({name: round(seconds * 1e6) for name, seconds in gpu.spans_by_op("trace.json.gz")[0].items()})
	EOF
	equal "$(PYTHONDONTWRITEBYTECODE=1 python3 median.py "$ROOT/tests/bench")" "{'add': 3}"
}

@test "tests/bench/gpu.py: products, copies, steps and ops, beside another program's" {
	local tests=$BATS_TEST_DIRNAME/..

	echo '{"rows": [{"name": "gpt bf16 B2 eager", "value": 100, "unit": "tokens/s"}]}' >peers.json
	python3 "$tests/bench/gpu.py" --tiny --steps 8 --peers peers.json --json gpu.json >table.txt
	grep -q 'tokens/s .* x eager$' table.txt
	equal "$(jq -r '[.rows[].unit] | unique | join(",")' gpu.json)" "GB/s,TFLOP/s,tokens/s,us/step"
	jq -e '.rows | map(select(.name | endswith(": matmul"))) | length == 1 and .[0].value > 0' gpu.json
}

@test "train: the copies of checkpoints that a thread writes are in pinned memory, and part of the plan" {
	yes 'the quick brown fox jumps over the lazy dog' | head -60 >text.txt
	saves --save-async --device cuda:0
	saves "--save-async --save-sharded" --device cuda:0,cuda:1 --parallel zero3
	gtrain train --model mlp:100,50,10 --data random:100/10,samples=64 --batch 8 --device cuda:0 --save-async --dry-run --json
	equal "$status" 0
	echo "$out" >plan.json
	# weights and two moments of AdamW; each tensor takes a multiple of 16 elements
	equal "$(values plan.json '.memory_bytes.pinned_checkpoint_copy')" "[$((3 * 4 * (5008 + 64 + 512 + 16)))]"
}
