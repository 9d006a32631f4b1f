#!/usr/bin/env bats
# eval_files.bats - files that eval and predict read and write: predictions, checkpoints of others, faults of data.
# shellcheck disable=SC2016,SC2054,SC2154 # code for others; commas in options; what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	folders 4 cat dog
	"$GTRAIN" train --model lenet --data images:images,channels=1,size=12,mean=0.4,std=0.3 --batch 4 --steps 3 \
		--lr 1e-3 --out pictures -q
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

@test "--predictions writes over nothing that the evaluation reads" {
	local before file words
	cp pictures/model.pth alone.pth
	cp -r pictures run
	ln -s ../images/cat/000.png run/link.csv
	mkdir words
	printf 'cat\ndog\n' >words/names
	tar cf pictures.tar -C images cat/000.png
	mkdir linked
	ln -s ../images/dog ../images/cat linked
	before=$(find . -type f -exec sha256sum {} + | sort)
	while read -r file words; do
		# shellcheck disable=SC2086 # several words
		gtrain eval --data images:images --predictions "$file" $words
		equal "$status:$out" 2:
		[[ $err == "gtrain: error: --predictions: '$file' "*$'\n'"hint: name a"* ]]
	done <<-'END'
		alone.pth --ckpt alone.pth
		run/model.pth --ckpt run
		run/checkpoints/step-00000003.pth --ckpt run
		run/checkpoints/step-00000009.pth --ckpt run/model.pth
		run/config.json --ckpt run
		run/metrics.jsonl --ckpt run --nproc 2
		images/cat/000.png --ckpt run
		images/p.csv --ckpt run
		images/cat/../dog/new.csv --ckpt run
		run/link.csv --ckpt run
		words/names --ckpt run --tokenizer words/names
		words/new --ckpt run --tokenizer words
	END
	for words in images:pictures.tar webdataset:pict*.tar; do
		gtrain eval --data "$words" --ckpt run --predictions pictures.tar
		equal "$status:$out" 2:
		[[ $err == *"'pictures.tar' is an input, and would be overwritten"* ]]
	done
	for file in images/cat/000.png images/cat/new.csv; do
		gtrain eval --data images:linked --ckpt run --predictions $file
		equal "$status:$out" 2:
		[[ $err == *"--predictions: '$file' is in the input folder 'linked/cat'"* ]]
	done
	gtrain eval --data webdataset:pictures.tar,classes=words/names --ckpt run --predictions words/names
	equal "$status:$out" 2:
	equal "$(find . -type f -exec sha256sum {} + | sort)" "$before"
	mkdir lenet # has the name of a model
	for file in run/p.csv lenet/p.csv; do
		gtrain eval --data images:images --ckpt run --model lenet --predictions $file
		equal "$status" 0
		equal "$(wc -l <$file)" 9
	done
}

@test "--predictions is tried before the evaluation" {
	local file
	mkdir folder
	for file in none/p.csv folder; do
		gtrain eval --ckpt pictures --data images:missing --predictions "$file"
		equal "$status:$out" 1:
		[[ $err == *"--predictions: "*"'$file"* ]]
	done
	echo old >p.csv
	gtrain eval --ckpt pictures --data images:missing --predictions p.csv
	equal "$status" 1
	[[ $err == *"'missing'"* ]]
	equal "$(<p.csv)" old
	"$GTRAIN" train --model mlp:8,3 --data random:8/3,samples=8 --steps 1 --batch 4 --out rows -q
	"$GTRAIN" eval --ckpt rows --data random:8/3,samples=99999999 --predictions p.csv --threads 1 -q &
	until [[ $(find . -name 'p.csv.tmp-*') || ! -e /proc/$! ]]; do sleep 0.02; done
	kill $!
	status=0
	wait $! || status=$?
	equal "$status" 143
	equal "$(<p.csv)" old
	equal "$(find . -name '*.tmp-*')" ""
}

@test "an output that is the name of an open file is refused, and the file keeps its bytes" {
	local args name says
	echo earlier >log
	for name in /dev/stdout /dev/fd/1 /proc/self/fd/1; do
		says="cannot write: '$name' is an open file, not the name of one"$'\n'"hint: name a new file"
		for args in "eval --ckpt pictures --data images:images --predictions" "ckpt convert pictures --to npz -o"; do
			status=0
			# shellcheck disable=SC2086 # several words
			"$GTRAIN" $args $name >>log 2>err || status=$?
			equal "$status" 1
			[[ $(<err) == *"$says"* ]]
			# shellcheck disable=SC2086 # several words
			{ "$GTRAIN" $args $name 2>err || echo $? >status; } | cat >piped
			equal "$(<status):$(<piped)" 1:
			[[ $(<err) == *"$says"* ]]
			rm status
		done
	done
	equal "$(<log)" earlier
}

# A checkpoint of pictures that says nothing of its data.
unknown() {
	"$GTRAIN" ckpt convert pictures/model.pth -o unknown.npz
}

@test "a forgotten mean and std, and the order of classes, are said where the checkpoint does not know" {
	local words warning="'unknown.npz' does not say how pixels were normalized: they are used from 0 to 1"
	unknown
	local ev=(eval --ckpt unknown.npz --model lenet --data images:images,channels=1,size=12)
	gtrain "${ev[@]}"
	equal "$status" 0
	[[ $err == *"warning: $warning; add mean=...,std=... of its training to --data"* ]]
	[[ $err == *"'unknown.npz' does not name its classes: they are numbered in the order of the names in --data"* ]]
	for words in ,mean=0,std=1 ,mean=0.4,std=0.3; do
		gtrain "${ev[@]:0:6}" "${ev[6]}$words"
		equal "$status" 0
		[[ $err != *warning* ]]
	done
	"$GTRAIN" train --model lenet --data random:,samples=8 --steps 1 --batch 4 --out noise-images -q
	"$GTRAIN" ckpt convert noise-images/model.pth -o noise.npz
	gtrain eval --ckpt noise.npz --model lenet --data random:,samples=8
	equal "$status" 0
	[[ $err != *warning* ]]
	gtrain eval --ckpt pictures --data images:images
	[[ $err != *"says nothing"* ]]
	gtrain train --model lenet --init-from unknown.npz --data images:images,channels=1,size=12 --steps 1 --batch 4 --out fine -q
	equal "$status" 0
	[[ $err == "warning: $warning; add mean="* ]]
	gtrain train --model lenet --init-from pictures --data images:images --steps 1 --batch 4 --out fine2 -q
	equal "$err" ""
}

# network FILE WEIGHT BIAS: mlp:INPUTS,OUTPUTS of another program, its weight a list of lists.
network() {
	python3 -c 'import json, struct, sys
weight, bias = eval(sys.argv[2], {"nan": float("nan")}), eval(sys.argv[3])
values = sum(weight, []) + bias
at = 4 * (len(values) - len(bias))
head = json.dumps({"0.weight": {"dtype": "F32", "shape": [len(weight), len(weight[0])], "data_offsets": [0, at]},
	"0.bias": {"dtype": "F32", "shape": [len(bias)], "data_offsets": [at, 4 * len(values)]}}).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + struct.pack(f"<{len(values)}f", *values))' "$@"
}

@test "a network with one output and no description predicts a number" {
	network one.safetensors '[[1, 2]]' '[3]'
	printf 'a,b\n1,2\n' >q.csv
	gtrain predict --ckpt one.safetensors --model mlp:2,1 q.csv --csv
	equal "$out" $'input,value\nq.csv:2,8'
	gtrain predict --ckpt one.safetensors --model mlp:2,1 q.csv --json
	check "$out" 'd["predictions"] == [{"input": "q.csv:2", "value": 8}]'
	network two.safetensors '[[1, 2], [0, 0]]' '[3, 0]'
	gtrain predict --ckpt two.safetensors --model mlp:2,2 q.csv --csv --top 1
	[[ $out == *$'\nq.csv:2,1,0,0.99'* ]]
}

@test "an answer that is NaN is no class, in the predictions as in the counts" {
	printf 'a,b,k\n1,2,hi\n0,1,lo\n' >k.csv
	printf 'a,b,k\n1,2,1.5\n0,1,2.5\n' >n.csv
	network nan.safetensors '[[nan, -nan], [nan, 0]]' '[3, 0]'
	local ev=(eval --ckpt nan.safetensors --model mlp:2,2 --data csv:k.csv --per-class --confusion -q)
	gtrain "${ev[@]}" --predictions p.csv
	equal "$status" 0
	[[ $out == *"top-1 0.00 % (0 of 2)"* ]]
	equal "$(<p.csv)" $'sample,class,predicted,probability\n0,hi,,nan\n1,lo,,nan'
	gtrain "${ev[@]}" --json
	check "$out" 'd["loss"] is None and d["top1"] == 0 and d["confusion"] == [[0, 0], [0, 0]]
		and [(c["n"], c["right"]) for c in d["classes"]] == [(1, 0), (1, 0)]'
	network nan1.safetensors '[[-nan, 0]]' '[3]'
	gtrain eval --ckpt nan1.safetensors --model mlp:2,1 --data csv:n.csv --predictions p.csv -q
	equal "$(<p.csv)" $'sample,target,predicted\n0,1.5,nan\n1,2.5,nan'
}

@test "reports on classes take time and memory for the samples, not for all pairs of classes" {
	local n ev
	for n in 20000 200000; do
		"$GTRAIN" train --model mlp:2,$n --data random:2/$n,samples=8 --steps 1 --batch 4 --threads 1 --out n$n -q
		ev=("$GTRAIN" eval --ckpt "n$n" --data "random:2/$n,samples=8" --threads 1 --workers 0 -q)
		timeout 20 "${ev[@]}" --per-class --confusion --predictions p.csv >out
		python3 -c 'import csv
rows = [(int(r["class"]), int(r["predicted"])) for r in csv.DictReader(open("p.csv"))]
share = lambda a, b: [f"{100 * a / b if b else 0:.2f}", "%"]
classes, all_right, sums = sorted({c for row in rows for c in row}), 0, [0, 0, 0]
want = [["class", "samples", "right", "precision", "recall", "F1"]]
for c in classes:
	n, named, right = sum(x == c for x, _ in rows), sum(y == c for _, y in rows), sum(x == y == c for x, y in rows)
	parts = [(right, named), (right, n), (2 * right, n + named)]
	want.append([str(c), str(n), str(right)] + sum((share(*p) for p in parts), []))
	all_right, sums = all_right + right, [s + (a / b if b else 0) for s, (a, b) in zip(sums, parts)]
want.append(["macro", "average", str(len(rows)), str(all_right)] + sum((share(s, len(classes)) for s in sums), []))
want.append(["class", "taken", "for", "samples"])
want += [[str(c), str(k), str(rows.count((c, k)))] for c, k in sorted(set(rows)) if c != k]
got = [line.split() for line in open("out")][1:]
assert got == want, f"{got} is {want}"'
	done
}

@test "the matrix of many classes needs more memory than there may be, which the error says" {
	"$GTRAIN" train --model mlp:2,200000 --data random:2/200000,samples=8 --steps 1 --batch 4 --threads 1 --out many -q
	limited 400000 eval --ckpt many --data random:2/200000,samples=8 --threads 1 --workers 0 -q --confusion --json
	equal "$status" 1
	[[ $err == *"error: out of memory: the results of 200000 classes"$'\n'"hint: the matrix has 200000 x 200000 numbers"* ]]
}

@test "settings that differ from the training are used, and a warning names both" {
	python3 -c 'import random, struct
for name, most in (("a", 50), ("b", 40)):
	open(name + ".bin", "wb").write(struct.pack("<500H", *[random.randrange(most) for _ in range(499)], most - 1))'
	printf 'abcabcabccba%.0s' {1..20} >t.txt
	"$GTRAIN" train --model "$GPT",vocab=50 --data tokens:a.bin --steps 1 --batch 2 --out tokens -q
	"$GTRAIN" train --model mlp:16,4 --data random:16/4,samples=64 --steps 1 --batch 4 --out noise -q
	"$GTRAIN" train --model "$GPT" --data text:t.txt --steps 1 --batch 2 --out chars -q
	python3 -c 'import json
v = json.load(open("chars/vocab.json"))
json.dump({**v, "tokens": v["tokens"][::-1]}, open("other.json", "w"))'
	gtrain eval --ckpt tokens --data tokens:b.bin,vocab=40
	equal "$status" 0
	[[ $err == "warning: --data: vocab=40, but the model was trained with vocab=50"* ]]
	gtrain eval --ckpt tokens --data tokens:a.bin,vocab=40
	equal "$status" 1
	[[ $err == *"'a.bin': token 4"*" is beyond the vocabulary of 40"* ]]
	gtrain eval --ckpt tokens --data tokens:a.bin,vocab=50
	[[ $err != *warning* ]]
	gtrain eval --ckpt noise --data random:16/3,samples=64 --per-class
	equal "$status" 0
	[[ $err == "warning: --data: 3 classes, but the model was trained with 4"* ]]
	equal "$(grep -c '^[0-3]  *[1-9]' <<<"$out")" 3
	gtrain eval --ckpt chars --data text:t.txt --vocab other.json
	equal "$status" 0
	[[ $err == "warning: 'other.json' is not the vocabulary that 'chars/checkpoints/step-00000001.pth' was trained with"* ]]
	gtrain generate --ckpt chars --vocab other.json --tokens 2 --prompt a -q
	[[ $err == "warning: 'other.json' is not the vocabulary"* ]]
	gtrain eval --ckpt chars --data text:t.txt --vocab chars/vocab.json
	[[ $err != *warning* ]]
}

# array FILE TYPE SHAPE BYTES: an .npy file.
array() {
	python3 -c 'import struct, sys
head = f"{{\"descr\": \"{sys.argv[2]}\", \"fortran_order\": False, \"shape\": {sys.argv[3]}, }}".encode()
head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + eval(sys.argv[4]))' "$@"
}

@test "faults of data are not called wrong usage, and name the file" {
	local words wanted
	mkdir -p others/cat others/zebra
	cp images/cat/000.png others/cat
	cp images/dog/000.png others/zebra
	gtrain eval --ckpt pictures --data images:others
	equal "$status" 1
	[[ $err == "gtrain: error: 'others': class 'zebra' is not in the data trained on, which has 'cat', 'dog'"* ]]
	array x.npy '<f4' '(9, 4)' 'bytes(144)'
	array y.npy '<u8' '(9,)' 'struct.pack("<9Q", *range(9))'
	array large.npy '<u8' '(9,)' 'struct.pack("<9Q", *[2**63] * 9)'
	array none.npy '<f4' '(0, 4)' 'b""'
	echo 'hello, this is text' >text.npy
	python3 -c 'import zipfile
with zipfile.ZipFile("d.npz", "w") as z:
	for name in "xy":
		z.write(name + ".npy")
data = open("d.npz", "rb").read()
open("flipped.npz", "wb").write(data[:200] + bytes([data[200] ^ 1]) + data[201:])'
	while read -r words wanted; do
		gtrain train --model mlp:4,9 --data "$words" --steps 1 --batch 9 --out no -q
		equal "$status" 1
		[[ $err == "gtrain: error: "*"$wanted"* ]] || equal "$err" "$wanted"
	done <<-'END'
		npy:x.npy,target=large.npy 'large.npy': the value 9223372036854775808 does not fit int64
		npy:none.npy,target=y.npy array 'none.npy' of float32 [0, 4] has no samples
		npy:text.npy,target=y.npy 'text.npy': not an .npy file
		npy:x.npy,target=text.npy 'text.npy': not an .npy file
		npz:text.npy 'text.npy': not an .npz file
		npz:d.npz,split=test 'd.npz': there is no pair of known names for split=test among the arrays 'x', 'y'
		npz:flipped.npz 'flipped.npz': 'x': sample 
	END
	gtrain eval --ckpt pictures --data random:9/2
	equal "$status" 2
}

@test "predict says which input is missing, and predicts the others" {
	gtrain predict --ckpt pictures images/cat/000.png missing.png images/dog/000.png --json --top 1
	equal "$status" 1
	[[ $err == *"warning: cannot open 'missing.png': No such file or directory; left out"*"error: 1 of 3 inputs could not be read"* ]]
	check "$out" '[p["input"] for p in d["predictions"]] == ["images/cat/000.png", "images/dog/000.png"] and d["damaged"] == ["missing.png"]'
	gtrain predict --ckpt pictures missing.png
	equal "$status:$out" 1:
	[[ $err == *"cannot open 'missing.png'"* ]]
}

@test "numbers of a table are read as they are, with a warning, where the checkpoint does not know their scale" {
	local said kind data=csv:t.csv,skip=0
	local warning="warning: 'bare.npz' does not say how numbers were standardized: they are read as they are"
	rows 20 'print("red blue".split()[i % 2], i + 10, 30 * i, i % 2, sep=",")' >t.csv
	rows 20 'print(i + 0.5, 3 * i + 0.5, sep=",")' >prices.csv
	"$GTRAIN" train --model mlp:2,6,2 --data csv:t.csv,skip=0 --batch 4 --steps 1 --out net -q
	"$GTRAIN" train --model mlp:2,6,2 --data csv:t.csv,skip=1/2 --batch 4 --steps 1 --out words -q
	"$GTRAIN" train --model mlp:1,1 --data csv:prices.csv --batch 4 --steps 1 --out line -q
	for kind in net words line; do "$GTRAIN" ckpt convert $kind/model.pth -o $kind.npz; done

	cp net.npz bare.npz
	local ev=(eval --ckpt bare.npz --model mlp:2,6,2 --data)
	gtrain "${ev[@]}" "$data"
	equal "$status" 0
	said=$out
	[[ $err == *"$warning; if the model was trained so, confirm it with standardise=no in --data"* ]]
	gtrain "${ev[@]}" "$data,standardise=no"
	equal "$status:$out" "0:$said"
	[[ $err != *warning* ]]
	gtrain "${ev[@]}" "$data,standardise=yes"
	equal "$status:$out" 2:
	[[ $err == *"standardise=yes: the mean and standard deviation of the training are not known"* ]]

	# Inputs, too; --read has the setting.
	cut -d, -f2,3 t.csv >inputs.csv
	local pr=(predict --ckpt bare.npz --model mlp:2,6,2 inputs.csv --csv)
	gtrain "${pr[@]}"
	equal "$status" 0
	said=$out
	[[ $err == *"$warning"*"standardise=no in --read"* ]]
	gtrain "${pr[@]}" --read standardise=no
	equal "$status:$out" "0:$said"
	[[ $err != *warning* ]]
	gtrain "${pr[@]}" --read standardise=yes
	equal "$status:$out" 2:
	gtrain predict --ckpt net inputs.csv --read standardise=no
	equal "$status" 0
	[[ $err == *"--read: standardise=no, but the model was trained on standardized columns"* ]]

	# A table without a column of numbers needs no warning, the target of a regression does.
	cp words.npz bare.npz
	gtrain eval --ckpt bare.npz --model mlp:2,6,2 --data csv:t.csv,skip=1/2,standardise=yes
	equal "$status" 0
	[[ $err != *warning* ]]
	printf '%s\n' a,0.5 a,1.5 >same.csv
	cp line.npz bare.npz
	gtrain eval --ckpt bare.npz --model mlp:1,1 --data csv:same.csv
	equal "$status" 0
	[[ $err == *"$warning"* ]]

	# Training measures the numbers of its data.
	gtrain train --model mlp:2,6,2 --init-from net.npz --data csv:t.csv,skip=0,standardise=yes --val csv:t.csv,skip=0,standardise=yes \
		--batch 4 --steps 1 --out on
	equal "$status" 0
	[[ $err != *standardized* ]]
}

# A run that gets worse after its best evaluation: the learning rate is far too large from there on.
@test "a run directory stands for its best evaluation" {
	local data=(--data random:8/3,samples=40)
	gtrain train --model mlp:8,16,3 "${data[@]}" --val-split 0.3 --batch 8 --steps 6 --eval-every 2 --save-every 2 --seed 2 \
		--lr-schedule constant --optimizer sgd --lr 0.3 --out best -q
	((status == 0))
	gtrain train --resume best --lr 30 --steps 12 --out best -q
	((status == 0))
	cmp best/best.pth best/checkpoints/step-00000012.pth && return 1
	gtrain eval --ckpt best/best.pth "${data[@]}"
	local wanted=$out
	[[ $err != *"weights from"* ]]
	gtrain eval --ckpt best/model.pth "${data[@]}"
	[[ $out != "$wanted" ]]
	gtrain eval --ckpt best "${data[@]}"
	equal "$out" "$wanted"
	[[ $err == *"weights from best/best.pth, the best evaluation of the run"* ]]
	echo 1,2,3,4,5,6,7,8 >row.csv
	gtrain predict --ckpt best --csv row.csv
	[[ $status == 0 && $err == *"weights from best/best.pth, the best evaluation of the run"* ]]
	gtrain train --init-from best --model mlp:8,16,3 "${data[@]}" --steps 1 --out begun
	[[ $status == 0 && $err == *"weights from best/best.pth, the best evaluation of the run"* ]]
	# --resume and the commands of checkpoints take the latest one.
	gtrain train --resume best --steps 13 --out more
	[[ $status == 0 && $err == *"resuming from best/checkpoints/step-00000012.pth"* ]]
	gtrain ckpt ls best
	[[ $err == *"best is a run; its latest checkpoint is best/checkpoints/step-00000012.pth"* ]]
	# A run without a best evaluation, here one that goes on in another folder, stands for its latest one.
	[[ ! -e more/best.pth ]]
	gtrain eval --ckpt more "${data[@]}"
	[[ $status == 0 && $err == *"weights from more/checkpoints/step-00000013.pth, the latest state of the run"* ]]
}

@test "a better evaluation of a resumed run is its best one" {
	local data=(--data random:8/3,samples=40)
	gtrain train --model mlp:8,16,3 "${data[@]}" --val "${data[1]}" --batch 8 --steps 2 --lr 0.01 --lr-schedule constant --out later -q
	gtrain eval --ckpt later "${data[@]}" --json
	local first=$out
	gtrain train --resume later --steps 60 -q
	((status == 0))
	gtrain eval --ckpt later "${data[@]}" --json
	check "[$first, $out]" 'd[1]["top1"] > d[0]["top1"]'
	[[ $err == *"later/best.pth, the best evaluation"* ]]
}
