#!/usr/bin/env bats
# probe.bats - gtrain probe on this machine and on pretend ones.
# GTRAIN is the binary, GTRAIN_TESTS the folder with the pretend NVML (made by `make tests`).

# shellcheck disable=SC2030,SC2031 # each test is a subshell, and that is wanted
load helpers

setup() {
	root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	gtrain=${GTRAIN:-$root/build/gtrain}
	fake=$(cd "${GTRAIN_TESTS:-$root/build/tests}/fake" && pwd)
	unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER
	export GTRAIN_NVML=$fake/libnvidia-ml.so.1 LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# check EXPRESSION: the JSON in $output, as d, makes the Python expression true.
check() {
	python3 -c 'import json, sys
d = json.loads(sys.argv[1])
if not eval("(" + sys.argv[2] + ")"):
	sys.exit("not so: " + sys.argv[2] + "\n" + sys.argv[1])' "$output" "$1"
}

# valid: the JSON in $output is as the published schema says.
valid() {
	python3 "$root/tests/common/schema.py" "$root/man/schemas/probe.json" <<<"$output"
}

@test "without a driver it says so and succeeds" {
	GTRAIN_NVML=/nonexistent/libnvidia-ml.so.1 run "$gtrain" probe
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == "GPUs "*"none: no NVIDIA driver (/nonexistent/libnvidia-ml.so.1 not found)" ]]
	[[ $output == *"CPU "* && $output == *"oneDNN "* ]]
}

@test "without a driver the JSON has the reason" {
	GTRAIN_NVML=/nonexistent/libnvidia-ml.so.1 run "$gtrain" probe --json
	[ "$status" -eq 0 ]
	check 'sorted(d) == ["backends", "cpu", "cuda", "gpus"]'
	check 'd["cuda"]["available"] is False and "no NVIDIA driver" in d["cuda"]["reason"]'
	check 'd["cuda"]["driver"] is None and d["cuda"]["runtime"] is None and d["cuda"]["visible"] is None'
	check 'd["gpus"] == []'
}

@test "the CPU is what the system says it is" {
	run "$gtrain" probe --json
	[ "$status" -eq 0 ]
	check "d['cpu']['threads'] == $(getconf _NPROCESSORS_ONLN)"
	check "d['cpu']['allowed'] == $(OMP_NUM_THREADS='' nproc)"
	check '1 <= d["cpu"]["usable"] <= d["cpu"]["allowed"]'
	check "d['cpu']['arch'] == '$(uname -m)'"
	check "d['cpu']['memory_total_bytes'] == 1024 * $(awk '/^MemTotal:/ {print $2}' /proc/meminfo)"
	check 'd["backends"][0] == {"name": "cpu", "available": True, "reason": None}'
}

@test "affinity narrows the CPU" {
	run taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/[,-].*//')" "$gtrain" probe --json
	[ "$status" -eq 0 ]
	check 'd["cpu"]["allowed"] == 1 and d["cpu"]["usable"] == 1'
}

@test "one GPU, every field" {
	run "$gtrain" probe --json
	[ "$status" -eq 0 ]
	# the machine may have NVRTC
	check '__import__("re").fullmatch("None|1[23][.][0-9]+", str(d["cuda"].pop("nvrtc"))) is not None'
	check '[d["cuda"].pop("nvrtc")] and d["cuda"] == {"available": True, "driver": "580.65.06",
		"runtime": "13.0", "reason": None, "visible": None, "count": 1, "devices": [{"device": "cuda:0", "index": 0,
		"pci_bus_id": "00000000:01:00.0", "uuid": "GPU-10000000-0000-4000-8000-000000000000",
		"mig_uuid": None}], "notes": []}'
	check 'd["gpus"] == [{"device": "cuda:0", "index": 0, "name": "NVIDIA Fake 100",
		"uuid": "GPU-10000000-0000-4000-8000-000000000000",
		"pci_bus_id": "00000000:01:00.0", "compute_capability": "9.0",
		"memory_total_bytes": 80 * 2**30, "memory_used_bytes": 0, "memory_free_bytes": 80 * 2**30,
		"utilization_percent": 0, "temperature_c": 40, "power_w": 70.5, "power_limit_w": 700,
		"clock_sm_mhz": 345, "clock_sm_max_mhz": 1980, "clock_memory_mhz": 2619,
		"clock_memory_max_mhz": 2619, "ecc": True, "ecc_uncorrected_errors": 0, "mig": False,
		"mig_uuids": [], "processes": [], "problem": None}]'
}

@test "the published schema holds for every machine, and notices a document that is not as it says" {
	local knobs

	for knobs in FAKE_NVML_COUNT=0 FAKE_NVML_COUNT=1 FAKE_NVML_COUNT=8 "FAKE_NVML_COUNT=8 CUDA_VISIBLE_DEVICES=5,GPU-10000002,0" \
		"CUDA_VISIBLE_DEVICES=" FAKE_NVML_LOST=0 "FAKE_NVML_COUNT=2 FAKE_NVML_LOST=1" FAKE_NVML_FIGURES=3 FAKE_NVML_FIGURES=4 \
		FAKE_NVML_FIGURES=15 FAKE_NVML_PROCESSES=4 FAKE_NVML_CROWD=40 "FAKE_NVML_FULL=0 FAKE_NVML_PID=$$" \
		"FAKE_NVML_COUNT=2 FAKE_NVML_MIXED=1" FAKE_NVML_INIT=9 FAKE_NVML_INIT=4 FAKE_NVML_CUDA=12 FAKE_NVML_ECC_ERRORS=3 \
		FAKE_NVML_CUDA_VERSION=11040 "FAKE_NVML_MIG=0 CUDA_VISIBLE_DEVICES=MIG-20000000-0000-4000-8000-000000000001" \
		"GTRAIN_NVML=/nonexistent" "FAKE_NVML_COUNT=3 GTRAIN_NVML=$fake/libnvidia-ml-old.so.1"; do
		one_in 2 || continue
		# shellcheck disable=SC2086
		run env $knobs "$gtrain" probe --json
		[ "$status" -eq 0 ]
		valid || { echo "with $knobs"; return 1; }
	done
	FAKE_NVML_COUNT=1 run "$gtrain" probe --json
	output=${output/'"index": 0'/'"index": "0"'}
	run valid
	[ "$status" -eq 1 ]
	[[ $output == *".index: '0' is not of type"* ]]
}

@test "a process with memory on a GPU is named" {
	FAKE_NVML_COUNT=2 FAKE_NVML_FULL=1 FAKE_NVML_PID=$$ run "$gtrain" probe --json
	check 'd["gpus"][0]["processes"] == []'
	check "d['gpus'][1]['processes'] == [{'pid': $$, 'name': '$(cat /proc/$$/comm)', 'memory_bytes': 79 * 2**30}]"
	FAKE_NVML_COUNT=2 FAKE_NVML_FULL=1 FAKE_NVML_PID=$$ run "$gtrain" probe
	grep -Eq "^cuda:1 +1 +$$ +79 GiB  $(cat /proc/$$/comm)\$" <<<"$output"
	FAKE_NVML_PROCESSES=4 run "$gtrain" probe --json
	check 'd["gpus"][0]["processes"] is None'
}

@test "the tables of GPUs fit into 80 columns" {
	local line

	export FAKE_NVML_COUNT=8 FAKE_NVML_FULL=3 FAKE_NVML_MIG=2 FAKE_NVML_LOST=4 FAKE_NVML_CROWD=3 FAKE_NVML_ECC_ERRORS=12
	run "$gtrain" probe
	[ "$status" -eq 0 ]
	while IFS= read -r line; do
		[ ${#line} -le 80 ] || { echo "$line"; return 1; }
	done <<<"$output"
	grep -Eq '^cuda:3 +3  NVIDIA Fake 100 +80 GiB  79.5 GiB +512 MiB$' <<<"$output"
	grep -Eq '^cuda:4 +4  the GPU is lost +\? +\? +\?$' <<<"$output"
	grep -Eq '^cuda:5 +5 +9.0  on +50 %  45 C +76/700 W  350/1980 MHz  2619 MHz$' <<<"$output"
}

@test "each device name has its GPU, whether listed by number, UUID or instance" {
	FAKE_NVML_COUNT=8 CUDA_VISIBLE_DEVICES=5,GPU-10000002,0 run "$gtrain" probe --json
	check '[(m["device"], m["index"], m["uuid"][:12], m["mig_uuid"]) for m in d["cuda"]["devices"]] == [
		("cuda:0", 5, "GPU-10000005", None), ("cuda:1", 2, "GPU-10000002", None), ("cuda:2", 0, "GPU-10000000", None)]'
	export FAKE_NVML_COUNT=3 FAKE_NVML_MIG=2 CUDA_VISIBLE_DEVICES=MIG-20000002-0000-4000-8000-000000000001
	run "$gtrain" probe --json
	check 'd["cuda"]["devices"] == [{"device": "cuda:0", "index": 2, "pci_bus_id": "00000000:21:00.0",
		"uuid": "GPU-10000002-0000-4000-8000-000000000000", "mig_uuid": "'"$CUDA_VISIBLE_DEVICES"'"}]'
	run "$gtrain" probe
	grep -q "^cuda:0 *2  00000000:21:00.0  $CUDA_VISIBLE_DEVICES\$" <<<"$output"
}

@test "eight GPUs, three visible in an order of their own" {
	FAKE_NVML_COUNT=8 CUDA_VISIBLE_DEVICES=5,GPU-10000002,0 run "$gtrain" probe --json
	[ "$status" -eq 0 ]
	check '[g["device"] for g in d["gpus"]] ==
		["cuda:2", None, "cuda:1", None, None, "cuda:0", None, None]'
	check 'd["cuda"]["visible"] == "5,GPU-10000002,0" and d["cuda"]["count"] == 3'
	FAKE_NVML_COUNT=8 CUDA_VISIBLE_DEVICES=5,GPU-10000002,0 run "$gtrain" probe
	[ "$status" -eq 0 ]
	[[ $output == *"8, 3 visible to CUDA"* ]]
	[ "$(grep -c '^cuda:' <<<"$output")" -eq 9 ] # in each of three tables
	grep -q '^cuda:0 .* 5  NVIDIA Fake 100 ' <<<"$output"
}

@test "all hidden: GPUs are listed, CUDA is not usable, an empty list is not no list" {
	CUDA_VISIBLE_DEVICES='' run "$gtrain" probe --json
	[ "$status" -eq 0 ]
	check 'd["cuda"]["available"] is False and d["cuda"]["visible"] == ""'
	check '"hidden" in d["cuda"]["reason"]'
	check 'len(d["gpus"]) == 1 and d["gpus"][0]["device"] is None'
}

@test "figures that are not supported are null and '?', not 0" {
	FAKE_NVML_FIGURES=3 run "$gtrain" probe --json
	[ "$status" -eq 0 ]
	check 'all(d["gpus"][0][k] is None for k in ["compute_capability", "memory_total_bytes",
		"memory_free_bytes", "utilization_percent", "temperature_c", "power_w", "mig"])'
	check 'd["cuda"]["available"] is True and d["gpus"][0]["name"] == "NVIDIA Fake 100"'
	FAKE_NVML_FIGURES=3 run "$gtrain" probe
	grep -Eq '^cuda:0 +0  NVIDIA Fake 100 +\? +\? +\?$' <<<"$output"
	grep -Eq '^cuda:0 +0( +\?){7}$' <<<"$output"
}

@test "an old NVML without most functions still counts the GPUs" {
	GTRAIN_NVML=$fake/libnvidia-ml-old.so.1 FAKE_NVML_COUNT=2 run "$gtrain" probe --json
	[ "$status" -eq 0 ]
	check 'len(d["gpus"]) == 2 and d["gpus"][1]["name"] is None and d["cuda"]["driver"] is None'
}

@test "each way of having no usable driver has its own reason" {
	FAKE_NVML_INIT=9 run "$gtrain" probe
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == *"installed but not loaded"* ]]
	FAKE_NVML_INIT=18 run "$gtrain" probe
	[[ ${lines[0]} == *"differ in version"* ]]
	FAKE_NVML_INIT=4 run "$gtrain" probe
	[[ ${lines[0]} == *"no permission"* ]]
	FAKE_NVML_COUNT=0 run "$gtrain" probe
	[[ ${lines[0]} == *"finds no GPU"* ]]
}

@test "GPUs of different models: the order is said to be an assumption" {
	FAKE_NVML_COUNT=2 FAKE_NVML_MIXED=1 run "$gtrain" probe
	[[ $output == *"CUDA may number them in another order; set CUDA_DEVICE_ORDER=PCI_BUS_ID"* ]]
	CUDA_DEVICE_ORDER=PCI_BUS_ID FAKE_NVML_COUNT=2 FAKE_NVML_MIXED=1 run "$gtrain" probe
	[[ $output != *"CUDA_DEVICE_ORDER"* ]]
	FAKE_NVML_COUNT=2 run "$gtrain" probe
	[[ $output != *"CUDA_DEVICE_ORDER"* ]]
}

@test "what the environment holds cannot write to the terminal or break the JSON" {
	export CUDA_VISIBLE_DEVICES=$'0,\e[31m\xff"'
	run "$gtrain" probe
	[ "$status" -eq 0 ]
	[[ $output != *$'\e'* ]]
	run "$gtrain" probe --json
	[ "$status" -eq 0 ]
	check 'd["cuda"]["visible"] == "0,?[31m?\""'
}

# row PATTERN: a line of $output is this, with any number of blanks where the pattern has one.
row() {
	grep -Eq "^${1// / +}\$" <<<"$output" || { echo "no line '$1' in"; echo "$output"; return 1; }
}

@test "--topology is a matrix in the words of nvidia-smi, with a legend of those that occur" {
	FAKE_NVML_COUNT=8 run "$gtrain" probe --topology
	[ "$status" -eq 0 ]
	row ' GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 CPUs NUMA'
	row 'GPU0 X PIX PHB PHB NODE NODE NODE NODE 0-7,16-23 0'
	row 'GPU6 NODE NODE NODE NODE PHB PHB X PIX 32-39,48-55 1'
	row 'PHB PCIe and the host bridge of a CPU'
	[[ $output != *"between NUMA nodes"* && $output != *NVLinks* ]]
	FAKE_NVML_COUNT=9 run "$gtrain" probe --topology
	row 'GPU8 SYS SYS SYS SYS SYS SYS SYS SYS X 32-39,48-55 2'
	run "$gtrain" probe
	[[ $output != *NUMA$'\n'GPU0* && $output != *'the GPU itself'* ]]
}

@test "--topology counts NVLinks to switches and to other GPUs" {
	FAKE_NVML_COUNT=3 FAKE_NVML_SWITCH=12 run "$gtrain" probe --topology
	row 'GPU0 X NV12 NV12 0-7,16-23 0'
	row 'NV# # NVLinks'
	FAKE_NVML_COUNT=4 FAKE_NVML_BRIDGE=4 run "$gtrain" probe --topology
	row 'GPU2 PHB PHB X NV4 0-7,16-23 0'
	FAKE_NVML_COUNT=4 FAKE_NVML_BRIDGE=4 FAKE_NVML_SWITCH=2 run "$gtrain" probe --topology --json
	valid
	check '[(l["gpus"], l["link"], l["nvlinks"]) for l in d["topology"]["links"]] == [([0, 1], "NV", 6), ([0, 2], "NV", 2),
		([0, 3], "NV", 2), ([1, 2], "NV", 2), ([1, 3], "NV", 2), ([2, 3], "NV", 6)]'
	check 'd["topology"]["gpus"][3] == {"index": 3, "cpus": "0-7,16-23", "numa_nodes": "0"}'
}

@test "--topology where the driver tells nothing, a GPU is lost, or there is none" {
	FAKE_NVML_COUNT=2 FAKE_NVML_LINKS=3 run "$gtrain" probe --topology
	row 'GPU0 X [?] [?] [?]'
	FAKE_NVML_COUNT=2 FAKE_NVML_LINKS=3 run "$gtrain" probe --topology --json
	valid
	check 'd["topology"] == {"gpus": [{"index": i, "cpus": None, "numa_nodes": None} for i in (0, 1)],
		"links": [{"gpus": [0, 1], "link": None, "nvlinks": None}]}'
	FAKE_NVML_COUNT=3 FAKE_NVML_LOST=1 FAKE_NVML_SWITCH=18 run "$gtrain" probe --topology
	row 'GPU0 X [?] NV18 0-7,16-23 0'
	row 'GPU1 [?] X [?] [?] [?]'
	GTRAIN_NVML=$fake/libnvidia-ml-old.so.1 run "$gtrain" probe --topology --json
	valid
	GTRAIN_NVML=/nonexistent run "$gtrain" probe --topology
	[ "$status" -eq 0 ]
	[[ $output == *"There is no GPU, and so no topology."* ]]
	GTRAIN_NVML=/nonexistent run "$gtrain" probe --topology --json
	valid
	check 'd["topology"] == {"gpus": [], "links": []}'
}

@test "--check finds problems, each with its fix, and exits with 1 for errors" {
	export FAKE_NVML_COUNT=1
	run bash -c 'ulimit -n 8192; "$0" probe --check' "$gtrain"
	[ "$status" -eq 0 ]
	[[ $output == *$'\ncheck     '* && $output != *$'\nerror: '* ]]
	FAKE_NVML_FULL=0 FAKE_NVML_PID=$$ run "$gtrain" probe --check
	[ "$status" -eq 1 ]
	grep -q "^error: GPU 0 (cuda:0): only 512 MiB of 80 GiB are free; process $$ ($(cat /proc/$$/comm)) has 79 GiB$" <<<"$output"
	grep -q "^  fix: end process $$, or" <<<"$output"
	FAKE_NVML_FULL=0 run "$gtrain" probe
	[ "$status" -eq 0 ]
	FAKE_NVML_ECC_ERRORS=1 run "$gtrain" probe --check --json
	[ "$status" -eq 1 ]
	valid
	check '[f["severity"] for f in d["findings"] if f["id"] == "ecc-errors"] == ["error"]'
	run bash -c 'ulimit -n 256; "$0" probe --check --json' "$gtrain"
	[ "$status" -eq 0 ]
	valid
	check '[f["fix"] for f in d["findings"] if f["id"] == "open-files"] == ["run '"'ulimit -n 65536'"'"]'
	for knobs in FAKE_NVML_INIT=9 FAKE_NVML_INIT=4 FAKE_NVML_INIT=18 FAKE_NVML_CUDA=12 "FAKE_NVML_COUNT=2 FAKE_NVML_LOST=1"; do
		# shellcheck disable=SC2086
		run env $knobs "$gtrain" probe --check
		[ "$status" -eq 1 ] || { echo "$knobs"; return 1; }
	done
	FAKE_NVML_COUNT=2 FAKE_NVML_MIXED=1 run "$gtrain" probe --check
	[[ $output == *"warning: GPU 0 is an NVIDIA Fake 100 and GPU 1 an NVIDIA Fake 50: "* ]]
}

@test "--check asks CUDA, too: it may be unable to use the GPUs that the driver lists" {
	export FAKE_NVML_COUNT=2
	local knobs says
	while IFS='|' read -r knobs says; do
		# shellcheck disable=SC2016,SC2086
		run env $knobs bash -c 'ulimit -n 8192; exec "$0" probe --check' "$gtrain"
		[ "$status" -eq 1 ] || { echo "$knobs: $output"; return 1; }
		grep -qF "error: $says" <<<"$output" || { echo "$knobs: $output"; return 1; }
	done <<-'EOF'
		FAKE_CUDA_INIT=803|CUDA cannot be used: cuInit: system has unsupported display driver / cuda driver combination (error 803)
		FAKE_CUDA_INIT=100|CUDA cannot be used: cuInit: no CUDA-capable device is detected (error 100)
		FAKE_CUDA_COUNT=777|CUDA cannot be used: cuDeviceGetCount: unknown error (error 777)
		FAKE_CUDA_DEVICES=1|CUDA can use 1 of the 2 visible GPUs
	EOF
	FAKE_CUDA_DEVICES=1 CUDA_VISIBLE_DEVICES=1 run bash -c 'ulimit -n 8192; "$0" probe --check' "$gtrain"
	[ "$status" -eq 0 ]
	FAKE_CUDA_INIT=100 run "$gtrain" probe --check --json
	valid
	check '[f["severity"] for f in d["findings"] if f["id"] == "cuda-failed"] == ["error"]'
	FAKE_CUDA_INIT=100 run "$gtrain" probe
	[ "$status" -eq 0 ]
	mkdir "$BATS_TEST_TMPDIR/lib"
	: >"$BATS_TEST_TMPDIR/lib/libcuda.so.1"
	LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/lib run "$gtrain" probe --check
	[ "$status" -eq 1 ]
	[[ $output == *"error: the driver's CUDA library cannot be opened: "*"libcuda.so.1: file too short"* ]]
}

@test "on terminals long lines are broken between words" {
	FAKE_NVML_COUNT=2 FAKE_NVML_MIXED=1 run until_seen 100 99 x probe --check
	[ "$status" -eq 0 ]
	output=${output//$'\r'/}
	[[ $output == *$'set\n          CUDA_DEVICE_ORDER=PCI_BUS_ID'* ]]
	[[ $output == *$'ranks wait for\n  the slower one'* ]]
}

@test "--check does not ask for a driver where there is no card" {
	grep -q '^0x10de$' /sys/bus/pci/devices/*/vendor && skip "cuda: there is a card"
	GTRAIN_NVML=/nonexistent run bash -c 'ulimit -n 8192; "$0" probe --check' "$gtrain"
	[ "$status" -eq 0 ]
	[[ $output == *"check     no problem found"* ]]
}

# until_seen ROWS TIMES TEXT ARGUMENTS: run gtrain, and interrupt it when it has written the text so many times.
until_seen() {
	python3 "$root/tests/common/terminal.py" "$1" "$2" "$3" "$gtrain" "${@:4}"
}

@test "--watch prints reports until SIGINT, and marks lines that changed" {
	FAKE_NVML_COUNT=2 FAKE_NVML_TICK=0 run until_seen 0 3 "every 0.2 s" probe --watch=0.2
	[ "$status" -eq 0 ]
	[ "$(grep -c ', every 0.2 s$' <<<"$output")" -ge 2 ]
	grep -Eq '^  cuda:1 .* 42 C ' <<<"$output" # the first report has no marks
	grep -Eq '^\* cuda:1 .* 43 C ' <<<"$output"
	[[ $output != *$'\n* GPUs'* && $output != *$'\e'* ]]
	FAKE_NVML_TICK=0 run until_seen 0 2 '"backends"' probe --watch=0.2 --json
	[ "$status" -eq 0 ]
	[ "$(jq -s '[.[].gpus[0].temperature_c][0:2] == [41, 42]' <<<"$output")" = true ]
}

@test "--csv prints a line for each GPU, and a header once" {
	FAKE_NVML_COUNT=2 FAKE_NVML_TICK=0 run until_seen 0 3 "cuda:1" probe --watch=0.2 --csv
	((status == 0))
	((${#lines[@]} >= 7 && ${#lines[@]} % 2 == 1))
	[[ ${lines[0]} == time,device,gpu,name,utilization_percent,memory_used_bytes,* ]]
	(($(grep -c ^time <<<"$output") == 1))
	row='^20[0-9-]+T[0-9:]{8}\.[0-9]{3}Z,cuda:0,0,NVIDIA Fake 100,[0-9]+,[0-9]+,[0-9]+,[0-9]+,[0-9]+\.[0-9]{3},'
	[[ ${lines[1]} =~ $row && ${lines[5]} =~ $row ]]
	FAKE_NVML_FIGURES=3 run --separate-stderr "$gtrain" probe --csv
	[[ ${lines[1]} == *,cuda:0,0,*,,,,,,,,, ]]
	CUDA_VISIBLE_DEVICES='' run --separate-stderr "$gtrain" probe --csv
	[[ ${lines[1]} == *Z,,0,NVIDIA* ]]
	GTRAIN_NVML=/nonexistent run --separate-stderr "$gtrain" probe --csv
	((status == 0 && ${#lines[@]} == 1))
	for other in --json --check --topology --bandwidth; do
		run "$gtrain" probe --csv $other
		((status == 2))
		[[ $output == *--csv* ]]
	done
}

@test "--watch draws on terminals, and shows changed words in reverse" {
	FAKE_NVML_TICK=0 run until_seen 100 3 "Ctrl-C ends" probe --watch=0.2
	[ "$status" -eq 0 ]
	[[ $output == *$'\e[2J\e[H'*'; Ctrl-C ends'*$'\e[H'*$'\e[7m42\e[27m C'* ]]
	[[ $output != *'* cuda'* && $output == *backends* ]]
	FAKE_NVML_TICK=0 run until_seen 100 3 "Ctrl-C ends" probe --watch=0.2 --color never
	[ "$status" -eq 0 ]
	[[ $output == *'* cuda:0'* && $output != *$'\e[7m'* ]]
	FAKE_NVML_TICK=0 run until_seen 8 3 "Ctrl-C ends" probe --watch=0.2
	[[ $output == *cuda:0* && $output != *backends* ]]
}

@test "--watch takes its time after '=' only, and one that makes sense" {
	run "$gtrain" probe --watch 5
	[ "$status" -eq 2 ]
	[[ $output == *"write '--watch=5' if it is the value"* ]]
	run "$gtrain" probe --watch=0
	[ "$status" -eq 2 ]
	run "$gtrain" probe --watch=
	[ "$status" -eq 2 ]
}

@test "a result that cannot be written is a failure" {
	for option in "" --json --watch; do
		run bash -c '"$0" probe $1 2>&1 >/dev/full' "$gtrain" "$option"
		[ "$status" -eq 1 ]
		[[ $output == *"No space left on device"* ]]
	done
}

@test "help is a result, a wrong option is wrong usage" {
	run "$gtrain" probe --help
	[ "$status" -eq 0 ]
	[[ $output == *"--json"* ]]
	run bash -c '"$0" probe --jsn 2>/dev/null' "$gtrain"
	[ "$status" -eq 2 ]
	[ -z "$output" ]
}

@test "--bandwidth without a GPU measures the CPU's memory" {
	GTRAIN_NVML=/nonexistent run "$gtrain" probe --bandwidth --json
	[ "$status" -eq 0 ]
	valid
	check 'd["bandwidth"]["cpu_bytes_per_s"] > 1e8 and d["bandwidth"]["devices"] == [] and d["bandwidth"]["peers"] == []'
	run "$gtrain" probe --bandwidth
	[ "$status" -eq 0 ]
	grep -Eq '^CPU +[0-9.]+ in its memory$' <<<"$output"
}
