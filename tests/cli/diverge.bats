#!/usr/bin/env bats
# diverge.bats - weights and results that are not finite.
# shellcheck disable=SC2016,SC2054,SC2154,SC2086 # code for others; commas in options; what helpers set; words

bats_require_minimum_version 1.5.0
load helpers
load runs

# A run of 3 steps with a checkpoint of each, and a model of text.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	"$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 3 --save-every 1 --val-split 0.25 --out good -q
	"$GTRAIN" train --model "$GPT" --data text:"$ROOT"/LICENSE --batch 2 --steps 1 --out text -q
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	cp -r "$BATS_FILE_TMPDIR"/{good,text} .
	modes="--nproc 1
--reproducible
--nproc 2
--nproc 2 --parallel mirrored
--nproc 2 --parallel dp
--nproc 2 --parallel zero1
--nproc 2 --parallel zero2
--nproc 2 --parallel zero3
--nproc 2 --parallel zero3 --reproducible
--nproc 2 --tensor-parallel 2
--nproc 2 --pipeline-parallel 2
--nproc 4 --tensor-parallel 2 --pipeline-parallel 2
--nproc 4 --pipeline-parallel 2 --parallel zero1"
	table=(train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --timeout 20)
}

# spoil FROM TO KEY VALUE: copy a checkpoint in which the last number of one tensor is this one.
spoil() {
	python3 - "$@" <<-'EOF'
		import json, os, struct, subprocess, sys, zipfile
		source, target, key, value = sys.argv[1:]
		listed = json.loads(subprocess.run([os.environ["GTRAIN"], "ckpt", "ls", "--json", source],
		    check=True, capture_output=True, text=True).stdout)
		record = "/data/" + next(t["storage_key"] for t in listed["tensors"] if t["key"] == key)
		with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
		    for name in old.namelist():
		        data = old.read(name)
		        if name.endswith(record):
		            data = data[:-4] + struct.pack("<f", float(value))
		        if not name.endswith(".gtrain/digests"):
		            new.writestr(name, data)
	EOF
}

# The message of a run that ends with weights which are not finite after so many steps.
diverged() {
	equal "$status" 1
	[[ $err =~ gtrain:\ error:\ the\ parameter\ \'[02]\.(weight|bias)\'\ holds\ (-?inf|nan)\ after\ step\ $1$'\n'"hint: a lower --lr, a longer --warmup or --clip 1 keeps it finite" ]]
	equal "$(grep -c '^gtrain: error' <<<"$err")" 1
}

@test "weights that are not finite after the only step end the run, in every mode" {
	local mode
	while read -r mode; do
		rm -rf run
		gtrain "${table[@]}" --optimizer sgd --steps 1 --lr 1e39 --out run -q $mode
		echo "$mode: $err"
		diverged 1
		[ ! -e run/model.pth ]
		equal "$(ls run/checkpoints)" ""
		lines run/metrics.jsonl 'len(d) == 1'
	done <<<"$modes"
}

# A unit that no sample reaches: its bias has no gradient, and doubles by weight decay.
@test "a single number that is not finite is found on whichever rank it is" {
	local mode
	spoil good/model.pth large.pth 0.bias -3e38
	while read -r mode; do
		rm -rf run
		gtrain "${table[@]}" --init-from large.pth --optimizer sgd --momentum 0 --weight-decay 1 --lr 3 --lr-schedule constant \
			--warmup 0 --steps 1 --out run -q $mode
		echo "$mode: $err"
		diverged 1
		[[ $err == *"the parameter '0.bias' holds inf after step 1"* ]]
		equal "$(find run -name '*.pth')" ""
	done <<<"$modes"
}

# The square of a gradient of 1e25 is beyond float32, and adam then divides by inf: weights stand still.
@test "state of the optimizer that is not finite ends the run" {
	rows 16 'print(f"1e25,{i},{i % 2}")' >large.csv
	gtrain train --model mlp:2,2 --data csv:large.csv,standardise=no --batch 16 --optimizer adam --steps 1 --out run -q
	equal "$status" 1
	[[ $err == "gtrain: error: the optimizer's 'exp_avg_sq' of '0.weight' holds inf after step 1"$'\n'"hint: "* ]]
	equal "$(find run -name '*.pth')" ""
}

@test "a run that diverges in its last step leaves what it had before" {
	local before
	before=$(cd good && sha256sum best.pth model.pth checkpoints/*)
	gtrain train --resume good --steps 4 --lr 1e39 -q
	diverged 4
	(cd good && sha256sum -c --quiet) <<<"$before"
	equal "$(ls good/checkpoints)" "$(printf 'step-0000000%d.pth\n' 1 2 3)"
	equal "$(find good -name '*.tmp-*')" ""
	gtrain train --resume auto --out good --steps 5 --lr 1e-3
	equal "$status" 0
	[[ $err == *"resuming from good/checkpoints/step-00000003.pth"*"done: 5 steps"* ]]
}

@test "training does not begin from a checkpoint that is not finite" {
	local value word key at=good/checkpoints/step-00000003.pth
	while read -r key value word; do
		spoil $at bad.pth "$key" "$value"
		gtrain "${table[@]}" --steps 5 --resume bad.pth --val-split 0.25 --out never -q
		equal "$status" 1
		[[ $err == "gtrain: error: bad.pth: $word"$'\n'"hint: 'gtrain ckpt verify'"* ]]
		[ ! -e never ]
	done <<-END
		model.2.bias nan tensor '2.bias' holds nan
		model.0.weight -inf tensor '0.weight' holds -inf
		optimizer.state.1.exp_avg_sq inf optimizer state 'exp_avg_sq' of '0.bias' holds inf
	END
	# No score is larger than NaN: best.pth would never be written again.
	python3 - $at bad.pth <<-'EOF'
		import re, sys, zipfile
		nan = b"\x7f\xf8" + bytes(6)
		with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w") as new:
		    for name in old.namelist():
		        new.writestr(name, re.sub(rb"(score.{0,9}?G).{8}", lambda m: m[1] + nan, old.read(name), flags=re.S))
	EOF
	gtrain "${table[@]}" --steps 5 --resume bad.pth --val-split 0.25 --out never -q
	equal "$status" 1
	[[ $err == "gtrain: error: bad.pth: 'best': its score is nan"* ]]
	# Numbers of steps that no run has done; one more than the last would overflow.
	for steps in 5f000000 7f61b1e6 7fc00000 3f000000 bf800000; do
		python3 - $at bad.pth $steps <<-'EOF'
			import sys, zipfile
			three, other = b"\0\0\x40\x40", bytes.fromhex(sys.argv[3])[::-1]
			with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w") as new:
			    for name in old.namelist():
			        if ".gtrain" not in name:
			            data = old.read(name)
			            new.writestr(name, other if data == three else data)
		EOF
		gtrain "${table[@]}" --steps 5 --resume bad.pth --val-split 0.25 --out never -q
		equal "$status" 1
		[[ $err == "gtrain: error: bad.pth: optimizer state 'step' of parameter 0 is no number of steps"* ]]
		[ ! -e never ]
	done
	spoil good/model.pth bad.pth 0.bias inf
	for mode in "" "--nproc 2 --parallel mirrored"; do
		gtrain "${table[@]}" --steps 5 --init-from bad.pth --out never -q $mode
		equal "$status" 1
		[[ $err == *"gtrain: error: bad.pth: tensor '0.bias' holds inf"* ]]
	done
	spoil $at bad.pth model.2.bias nan
	mv bad.pth $at
	gtrain train --resume good --steps 5 -q
	equal "$status" 1
	[[ $err == *"holds nan"*"hint: with this file out of the way, --resume auto takes the one before it" ]]
}

@test "generate stops at logits that are not finite, and says which weights are not" {
	local vocab=text/vocab.json
	spoil text/model.pth bad.pth transformer.ln_f.bias nan
	for json in "" --json; do
		gtrain generate --ckpt bad.pth --model "$GPT" --vocab $vocab --prompt the --tokens 5 $json
		equal "$status" 1
		equal "$err" "gtrain: error: the logits of token 1 hold nan
hint: bad.pth: the parameter 'transformer.ln_f.bias' holds nan; try an earlier checkpoint"
	done
	equal "$out" ""
	# Finite weights whose product is not.
	spoil text/model.pth bad.pth transformer.ln_f.bias 3e38
	spoil bad.pth worse.pth transformer.wte.weight 3e38
	gtrain generate --ckpt worse.pth --model "$GPT" --vocab $vocab --prompt the --tokens 5
	equal "$status" 1
	equal "$err" "gtrain: error: the logits of token 1 hold inf
hint: 'gtrain ckpt ls --stats' shows the range of each tensor of a checkpoint"
}

@test "no result is printed as -nan" {
	local value
	for value in nan -nan inf; do
		spoil good/model.pth bad.pth 2.bias $value
		gtrain eval --ckpt bad.pth --model mlp:8,16,3 --data "$RANDOM_DATA"
		equal "$status" 0
		[[ $out == "loss nan "* && $err == *"the loss is not finite"* ]]
		gtrain eval --ckpt bad.pth --model mlp:8,16,3 --data "$RANDOM_DATA" --json
		check "$out" 'd["loss"] is None and d["perplexity"] is None'
	done
	spoil text/model.pth bad.pth transformer.ln_f.bias -nan
	gtrain eval --ckpt bad.pth --model "$GPT" --vocab text/vocab.json --data text:"$ROOT"/LICENSE
	[[ $out == "loss nan  perplexity nan "* ]]
	# A number that is no tensor's: the learning rate.
	python3 - <<-'EOF'
		import struct, zipfile
		with zipfile.ZipFile("good/checkpoints/step-00000003.pth") as old, zipfile.ZipFile("lr.pth", "w") as new:
		    for name in old.namelist():
		        new.writestr(name, old.read(name).replace(b"G" + struct.pack(">d", 0.9), b"G\xff\xf8" + bytes(6)))
	EOF
	gtrain ckpt ls lr.pth
	[[ $out == *nan* && $out != *-nan* ]]
}

@test "the mean of checkpoints says if it is not finite" {
	spoil good/model.pth bad.pth 2.bias inf
	gtrain ckpt merge --average good/model.pth bad.pth -o mean.pth
	equal "$status" 0
	[[ $err == *"1 tensor of the mean holds NaN or Inf"* ]]
	gtrain ckpt merge --average good/model.pth good/best.pth -o mean2.pth
	[[ $err != *"NaN or Inf"* ]]
}
