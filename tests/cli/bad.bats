#!/usr/bin/env bats
# bad.bats - what people, files and disks do wrong: a line that says what, a hint, nothing left behind.
# shellcheck disable=SC2016,SC2054,SC2154,SC2012 # code for others; commas in options; what helpers set; ls sorts

bats_require_minimum_version 1.5.0
load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	mkdir work
	cd work || return
}

# Both forms of failure, with the words looked for: refused STATUS PATTERN COMMAND ARGUMENT...
# One line of error, at most one of hint; no run directory, nothing on standard output.
refused() {
	local wanted=$1 pattern=$2
	shift 2
	gtrain "$@"
	echo "gtrain $*" && echo "$err"
	equal "$status" "$wanted"
	equal "$out" ""
	[[ $err == "gtrain: error: "*$pattern* ]]
	(($(grep -c . <<<"$err") <= 2))
	[[ $err != *$'\n'* || $err == *$'\n'"hint: "* ]]
	[ ! -e out ] || {
		find out
		return 1
	}
}

train=(train --model mlp --steps 2 --batch 4 --out out -q --data)

@test "data that become shorter during a run are an error that names the file" {
	truncate -s 1M ids.bin
	"$GTRAIN" train --model gpt:layers=1,width=8,heads=1,block=8,vocab=9 --data tokens:ids.bin --steps 1000000 \
		--batch 4 --threads 1 --log-every 1 --out run -q 2>err &
	until [ -s run/metrics.jsonl ]; do kill -0 $!; sleep 0.05; done
	truncate -s 4096 ids.bin
	status=0
	wait $! || status=$?
	equal "$status:$(<err)" "1:gtrain: error: 'ids.bin': a file became shorter while it was read
hint: if another process writes it, wait until that is done; else the disk may be failing"
}

@test "data that is not there, cut, or lies" {
	refused 1 "No such file" "${train[@]}" csv:missing.csv
	refused 1 "No such file" train --model "$GPT" --steps 1 --out out --data text:missing.txt
	refused 1 "missing" "${train[@]}" images:missing
	refused 2 "unknown kind of data 'imags'" "${train[@]}" imags:missing
	refused 2 "unknown kind of data" "${train[@]}" data.csv
	refused 2 "has no path" "${train[@]}" csv
	refused 2 "unknown option 'bogus'" "${train[@]}" "csv:x.csv,bogus=1"
	rows 9 'print(i, "x" if i == 5 else i, i % 2, sep=",")' >word.csv
	refused 1 "line 6, column 1: 'x' is not a number" "${train[@]}" csv:word.csv
	: >empty.csv
	refused 1 "empty.csv" "${train[@]}" csv:empty.csv
	echo short >short.txt
	refused 2 "too few for one block of 16" train --model "$GPT" --steps 1 --out out --data text:short.txt
	mkdir idx
	python3 -c 'import gzip, struct
for name, magic, shape in (("images-idx3", 0x803, (50, 6, 6)), ("labels-idx1", 0x801, (50,))):
	count = 1
	for n in shape: count *= n
	head = struct.pack(">I", magic) + b"".join(struct.pack(">I", n) for n in shape)
	gz = gzip.compress(head + bytes(i * 7 % 10 for i in range(count)))
	open(f"idx/train-{name}-ubyte.gz", "wb").write(gz[:len(gz) // 2] if "images" in name else gz)'
	refused 1 "train-images-idx3-ubyte.gz" "${train[@]}" mnist:idx
	folders 3 a b
	tar czf images.tar.gz images
	head -c 400 images.tar.gz >cut.tar.gz
	refused 1 "cut.tar.gz" "${train[@]}" images:cut.tar.gz
	mkdir images/none
	refused 2 "the class folder 'none' in 'images' has no images" "${train[@]}" images:images
	rmdir images/none
	# A header that promises 9999x9999 pixels, and one that is cut.
	python3 -c 'import struct, zlib
b = bytearray(open("images/a/001.png", "rb").read())
b[16:24] = struct.pack(">II", 9999, 9999)
b[29:33] = struct.pack(">I", zlib.crc32(bytes(b[12:29])))
open("images/a/001.png", "wb").write(b)'
	refused 1 "001.png" "${train[@]}" images:images,size=12 --strict-data
	head -c 60 images/b/001.png >images/a/001.png
	refused 1 "001.png" "${train[@]}" images:images,size=12 --strict-data
	rm -r images/a
	refused 2 "--val: rows of 9 features, but the model was trained on 8" "${train[@]}" "$RANDOM_DATA" --val random:9/3
}

@test "models and settings that make no sense" {
	local text=text:$ROOT/LICENSE
	refused 2 "width=30 does not divide into heads=4" train --model gpt:width=30,heads=4 --data "$text" --out out
	refused 1 "of memory, this machine has" train --model gpt:width=1000000 --data "$text" --out out
	refused 2 "'1000000' is not a value for 'layers'" train --model gpt:layers=1000000 --data "$text" --out out
	refused 1 "memory" train --model gpt:vocab=16777216,width=4096 --data "$text" --out out
	refused 2 "unknown model 'gptx'" train --model gptx --data "$text" --out out
	refused 2 "a GPT takes text" train --model gpt --data "$RANDOM_DATA" --out out
	refused 2 "does not take text" train --model mlp --data "$text" --out out
	refused 2 "goes from 9 to 3, the data has 8 features" train --model mlp:9,3 --data "$RANDOM_DATA" --out out
	refused 1 "--device tpu: this build computes on 'cpu'" "${train[@]}" "$RANDOM_DATA" --device tpu
	# Another build has no such backend, or there is no driver, or no GPU can be seen.
	CUDA_VISIBLE_DEVICES='' refused 1 "--device" "${train[@]}" "$RANDOM_DATA" --device cuda
	refused 2 "--clip 1e-60 is 0 in float32" "${train[@]}" "$RANDOM_DATA" --clip 1e-60
	refused 2 "--eps 1e-60 is 0 in float32" "${train[@]}" "$RANDOM_DATA" --eps 1e-60
	refused 2 "--eps 1e+60 is inf in float32" "${train[@]}" "$RANDOM_DATA" --eps 1e60
	refused 2 "--weight-decay 1e+60 is inf in float32" "${train[@]}" "$RANDOM_DATA" --weight-decay 1e60
	refused 2 "--momentum 0.999999999999 is 1 in float32" "${train[@]}" "$RANDOM_DATA" --optimizer muon --momentum 0.999999999999
	refused 2 "--lr 1e-60 is 0 in float32" "${train[@]}" "$RANDOM_DATA" --lr 1e-60
	refused 2 "--adam-lr 1e+60 is inf in float32" "${train[@]}" "$RANDOM_DATA" --optimizer muon --adam-lr 1e60
	refused 2 "--ema 1e-20 is not between 0 and 1 in float32" "${train[@]}" "$RANDOM_DATA" --ema 1e-20
	refused 2 "--min-lr" "${train[@]}" "$RANDOM_DATA" --lr 0.1 --min-lr 1
	refused 2 "--decay-steps 6 is above the 5 steps that --warmup leaves" "${train[@]}" "$RANDOM_DATA" --steps 5 --lr-schedule wsd --decay-steps 6
	refused 2 "--decay-steps 5 is above the 4 steps that --warmup leaves" "${train[@]}" "$RANDOM_DATA" --steps 5 --lr-schedule wsd --decay-steps 5 --warmup 1
	refused 2 "--lr-step 6 is above the 5 steps that --warmup leaves" "${train[@]}" "$RANDOM_DATA" --steps 5 --lr-schedule step --lr-step 6
	refused 2 "--nesterov needs a --momentum above 0" "${train[@]}" "$RANDOM_DATA" --optimizer sgd --momentum 0 --nesterov
	refused 2 "--batch" "${train[@]}" "$RANDOM_DATA" --batch 0
	refused 2 "only images can be augmented" "${train[@]}" "$RANDOM_DATA" --augment flip
	refused 2 "only images can be augmented" "${train[@]}" "$RANDOM_DATA" --augment mixup --dry-run
	[[ $err == *"leave --augment away"* ]]
	python3 - <<-'END'
		def save(name, dtype, shape, data):
		    text = repr({"descr": dtype, "fortran_order": False, "shape": shape})
		    text += " " * (117 - len(text)) + "\n"
		    open(name, "wb").write(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode() + data)
		save("x.npy", "|u1", (9, 4, 4), bytes(144))
		save("y.npy", "<f4", (9,), b"\0\0\0\x3f" * 8 + b"\0\0\x80\x3f")
	END
	refused 2 "augmentation 'mixup' takes images with classes, not with numbers" train --model mlp:16,1 \
		--data npy:x.npy,target=y.npy --augment mixup --out out
	[[ $err == *"leave 'mixup' out of --augment"* ]]
	refused 2 "augmentation 'mixup': alpha is to be above 0" train --model lenet --data random --augment mixup:alpha=0 --out out
	refused 2 "--model MODEL is missing" train --data "$RANDOM_DATA" --out out
	refused 2 "cannot be combined with" train --model mlp --data "$RANDOM_DATA" --val "$RANDOM_DATA" --val-split 0.1 --out out
	refused 1 "checkpoint 'nothing'" "${train[@]}" "$RANDOM_DATA" --init-from nothing
	refused 1 "checkpoint 'nothing'" "${train[@]}" "$RANDOM_DATA" --resume nothing
	echo 'lr: 1' >config.yaml
	refused 1 "config.yaml: line 1: '[' or '{' expected near 'lr'" "${train[@]}" "$RANDOM_DATA" --config config.yaml
	[[ $err == *$'\n'"hint: a configuration is JSON, such as the config.json of a run" ]]
	echo '{"lr": 1, "lrr": 2}' >config.json
	refused 2 "config.json: unknown option 'lrr'" "${train[@]}" "$RANDOM_DATA" --config config.json
}

@test "a damaged step of an optimizer is no missing one" {
	gtrain train --model mlp --data "$RANDOM_DATA" --optimizer adam --steps 2 --save-every 1 --keep 0 --batch 8 --out run -q
	equal "$status" 0
	for which in 0 -1; do
		python3 - "$which" <<-'EOF'
			import struct, sys, zipfile
			raw = bytearray(open("run/checkpoints/step-00000001.pth", "rb").read())
			with zipfile.ZipFile("run/checkpoints/step-00000001.pth") as z:
			    steps = [i for i in z.infolist() if "/data/" in i.filename and i.file_size == 4
			             and z.read(i) == struct.pack("<f", 1)]
			at = steps[int(sys.argv[1])].header_offset
			raw[at + 30 + sum(struct.unpack("<HH", raw[at + 26:at + 30]))] ^= 1
			open("damaged.pth", "wb").write(raw)
		EOF
		gtrain train --model mlp --data "$RANDOM_DATA" --optimizer adam --steps 2 --batch 8 --out on --resume damaged.pth -q
		equal "$status" 1
		[[ $err == *"optimizer state 'step'"*"is damaged"* ]]
	done
}

@test "a loss that is no longer finite stops the run; checkpoints stay" {
	gtrain train --model mlp --data "$RANDOM_DATA" --optimizer sgd --lr 1e10 --warmup 0 --steps 50 --save-every 1 --log-every 1 --batch 8 --out run -q
	equal "$status" 1
	[[ $err == "gtrain: error: the "*" at step "*"hint: a lower --lr"* ]]
	[ ! -e run/model.pth ]
	equal "$(find run -name '*.tmp-*')" ""
	lines run/metrics.jsonl True
}

@test "a run directory that cannot be one" {
	: >file
	gtrain train --model mlp --data "$RANDOM_DATA" --steps 1 --out file
	equal "$status" 1
	[[ $err == *"file"*"hint: --out names"* ]]
	gtrain train --model mlp --data "$RANDOM_DATA" --steps 1 --out /proc/run
	equal "$status" 1
	mkdir -p run/metrics.jsonl
	gtrain train --model mlp --data "$RANDOM_DATA" --steps 1 --out run
	equal "$status" 1
	[[ $err == *"run/metrics.jsonl"* ]]
	mkdir -p other/model.pth
	gtrain train --model mlp --data "$RANDOM_DATA" --steps 1 --out other -q
	equal "$status" 1
	[[ $err == *"'other/model.pth' is a directory, not a regular file"$'\nhint: '* ]]
}

@test "a file that may not grow, and a full disk, are errors that leave nothing half written" {
	local blocks

	if ldd "$GTRAIN" | grep -q libomp; then
		skip "LLVM's OpenMP writes a file of its own before main()"
	fi
	# In blocks of 1 KiB: the model, the checkpoint, the metrics are what does not fit, in turn. A run needs no metrics to go on.
	for blocks in 0 1 4 12; do
		rm -rf run
		run -$((blocks < 12)) bash -c 'ulimit -f "$1"; "$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 1 \
			--epochs 2 --log-every 1 --save-every 8 --out run -q 2>&1 | head -c 900; exit "${PIPESTATUS[0]}"' - $blocks
		[[ $output == *"File too large"* ]]
		equal "$(find run -name '*.tmp-*')" ""
	done
	equal "$output" "warning: cannot write 'run/metrics.jsonl': File too large; the run goes on"
	for f in run/checkpoints/*.pth; do
		gtrain eval --ckpt "$f" --data "$RANDOM_DATA"
		equal "$status" 0
	done
	# With room again it goes on; the torn line of metrics goes.
	gtrain train --resume auto --out run -q
	equal "$status" 0
	lines run/metrics.jsonl '40 < len(t) < 128 and [x["step"] for x in t] == list(range(1, len(t) + 1))'
	mkdir full
	mount -t tmpfs -o size=64k none full 2>/dev/null || skip "root: cannot mount a small file system"
	gtrain train --model mlp:8,256,3 --data "$RANDOM_DATA" --steps 9 --batch 8 --save-every 1 --keep 0 --out full/run -q
	local left
	left=$(find full -name '*.tmp-*')
	umount full
	equal "$status" 1
	[[ $err == *"No space left on device"* ]]
	equal "$left" ""
}

@test "on a full disk, metrics are a warning, and a checkpoint ends the run, which says so and goes on from the one before" {
	mkdir full
	mount -t tmpfs -o size=256k none full 2>/dev/null || skip "root: cannot mount a small file system"
	gtrain train --model mlp:8,64,3 --data "$RANDOM_DATA" --steps 100000000 --batch 8 --log-every 1 --save-every 500 --out full/run -q
	local failed state runs
	failed="$status $(grep -c ^warning: <<<"$err") $(grep -c "^warning: cannot write 'full/run/metrics.jsonl': No space left on device" <<<"$err")"
	state=$(jq -c '[.state, .exit_status, (.reason | test("No space left on device"))]' full/run/status.json)
	runs=$("$GTRAIN" runs full)
	mount -o remount,size=2m full
	gtrain train --resume auto --out full/run --steps 1600 -q
	lines full/run/metrics.jsonl '[x["step"] for x in t] == list(range(1, 1601))' || status=9
	umount full
	equal "$failed $state $status" '1 1 1 ["failed",1,true] 0'
	[[ $runs == *" failed: "*"No space left on device" ]]
}

@test "a run whose directory is removed says so once, and ends at the next checkpoint" {
	"$GTRAIN" train --model mlp:8,64,3 --data "$RANDOM_DATA" --steps 100000000 --batch 8 --log-every 1 --save-every 20000 --out run -q 2>err &
	local pid=$!
	for _ in {1..100}; do [[ ! -s run/metrics.jsonl ]] || break; sleep 0.05; done
	rm -r run
	wait $pid && status=0 || status=$?
	equal "$status $(grep -c ^warning: err)" "1 1"
	grep -q "^warning: cannot write 'run/metrics.jsonl': it was removed; the run goes on" err
	grep -q "^gtrain: error: .*No such file or directory" err
	[[ ! -e run ]]
}
