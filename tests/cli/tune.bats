#!/usr/bin/env bats
# tune.bats - train --freeze and --lr-scale: what is trained, in every mode, and what is refused.
# shellcheck disable=SC2086,SC2154 # several words; what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

RULES="--freeze transformer.w* --freeze transformer.h.0.* --lr-scale *attn*=3"

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	head -c 4000 "$ROOT/LICENSE" >text.txt
	fit --batch 8 $RULES --out one
	fit --batch 8 --steps 1 --freeze '!transformer.ln_f.bias' --out start
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
	set -f
}

fit() {
	"$GTRAIN" train --model gpt:layers=2,heads=2,width=32,block=16 --data text:text.txt --optimizer sgd --lr 0.2 --lr-schedule constant \
		--steps 4 --threads 1 -q "$@"
}

# The names of the tensors in which two checkpoints differ by more than a part in 1e6.
differ() {
	"$GTRAIN" ckpt diff "$1" "$2" --tolerance 1e-6 | awk '$1 == "numbers" { print $2 }' | sort
}

@test "frozen parameters keep their bits, all others move" {
	equal "$("$GTRAIN" ckpt diff start/model.pth one/model.pth | awk '$1 == "numbers" { print $2 }' | grep -E 'w[tp]e|h\.0|lm_head')" ""
	equal "$(differ start/model.pth one/model.pth | grep -c 'h\.1\.\|ln_f')" 14
}

@test "every mode trains what one rank trains" {
	local mode
	while read -r mode; do
		fit $RULES $mode --out other
		equal "$(differ one/model.pth other/model.pth)" ""
		rm -r other
	done <<-'MODES'
		--nproc 2 --batch 4
		--nproc 2 --batch 4 --parallel zero1
		--nproc 2 --batch 4 --parallel zero3
		--nproc 2 --batch 4 --parallel mirrored
		--nproc 2 --batch 4 --parallel dp
		--nproc 2 --batch 8 --pipeline-parallel 2 --chunks 2
		--nproc 2 --batch 8 --pipeline-parallel 2 --chunks 2 --schedule 1f1b
		--nproc 2 --batch 8 --tensor-parallel 2
		--nproc 2 --batch 8 --tensor-parallel 2 --sequence-parallel
		--nproc 4 --batch 8 --tensor-parallel 2 --pipeline-parallel 2 --chunks 2
		--batch 8 --recompute
		--batch 2 --accumulate 4
	MODES
}

@test "adapters: every mode trains what one rank trains, and nothing else" {
	local mode
	fit --batch 8 --lora r=2,alpha=4 --ema 0.9 --out adapted
	equal "$(differ start/model.pth adapted/model.pth)" transformer.ln_f.bias # which `start` has trained
	equal "$("$GTRAIN" ckpt ls adapted/model.pth | grep -c 'lora_[AB]')" 16
	while read -r mode; do
		fit --lora r=2,alpha=4 --ema 0.9 $mode --out other
		equal "$(differ adapted/model_ema.pth other/model_ema.pth)" ""
		rm -r other
	done <<-'MODES'
		--nproc 2 --batch 4
		--nproc 2 --batch 4 --parallel zero1
		--nproc 2 --batch 4 --parallel zero2
		--nproc 2 --batch 4 --parallel zero3
		--nproc 2 --batch 4 --parallel mirrored
		--nproc 2 --batch 4 --parallel dp
		--nproc 2 --batch 8 --pipeline-parallel 2 --chunks 2
		--nproc 2 --batch 8 --tensor-parallel 2
		--batch 2 --accumulate 4 --recompute
	MODES
	cp -r adapted goes
	fit --batch 8 --lora r=2,alpha=4 --ema 0.9 --out goes --resume auto --steps 6
	fit --batch 8 --lora r=2,alpha=4 --ema 0.9 --out whole --steps 6
	equal "$(differ goes/model.pth whole/model.pth)" ""
	rm -r goes whole
}

@test "adapters: dropout of their inputs is the same on all ranks" {
	fit --batch 8 --lora r=2,dropout=0.2 --out alone
	fit --batch 8 --lora r=2 --out without
	[ -n "$(differ alone/model.pth without/model.pth)" ]
	fit --batch 4 --nproc 2 --lora r=2,dropout=0.2 --out two
	equal "$(differ alone/model.pth two/model.pth)" ""
	fit --batch 8 --lora r=2,dropout=0.2 --recompute --out again
	equal "$(differ alone/model.pth again/model.pth)" ""
	rm -r alone without two again
}

@test "adapters: frozen weights in bfloat16 take half of the memory, and the steps are the same" {
	local mode
	while read -r mode; do
		fit --amp bf16 --lora r=2 $mode --out wide
		fit --amp bf16 --lora r=2,frozen=bf16 $mode --out narrow
		equal "$("$GTRAIN" ckpt diff wide/model.pth narrow/model.pth | awk '$1 == "numbers" { print $2 }' | grep lora_)" ""
		rm -r wide narrow
	done <<-'MODES'
		--batch 8
		--nproc 2 --batch 4 --parallel zero3
		--nproc 2 --batch 8 --pipeline-parallel 2 --chunks 2
		--nproc 2 --batch 8 --tensor-parallel 2
	MODES
	fit --batch 8 --amp bf16 --lora r=2 --dry-run --json >wide.json
	fit --batch 8 --amp bf16 --lora r=2,frozen=bf16 --dry-run --json >narrow.json
	# 2 layers, each with 12 x 32 x 32 numbers in matrices
	check "[$(<wide.json), $(<narrow.json)]" 'd[0]["memory_bytes"]["buffers"] - d[1]["memory_bytes"]["buffers"] == 2 * 2 * 12 * 32 * 32'
	fit --batch 8 --amp bf16 --lora r=2,frozen=bf16 --out whole
	fit --batch 8 --amp bf16 --lora r=2,frozen=bf16 --steps 2 --out goes
	fit --batch 8 --amp bf16 --lora r=2,frozen=bf16 --out goes --resume auto
	gtrain ckpt diff whole/model.pth goes/model.pth
	equal "$status" 0
	rm -r whole goes
}

# Write FILE.safetensors anew with its matrices between hidden features as q8_0 has them: 32 numbers of a column, which a product
# adds up, are multiples of a float16 scale.
round_to_q8_0() {
	python3 - "$1" <<-'PYTHON'
		import json, re, struct, sys
		path = sys.argv[1]
		data = bytearray(open(path, "rb").read())
		size = struct.unpack("<Q", data[:8])[0]
		header = json.loads(data[8:8 + size])
		header.pop("__metadata__")  # which has checksums
		for name, tensor in header.items():
		    if not re.search(r"(attn|mlp)\..*weight$", name):
		        continue
		    first, columns = 8 + size + tensor["data_offsets"][0], tensor["shape"][1]
		    for block in range(tensor["shape"][0] // 32 * columns):
		        at = [first + 4 * ((block // columns * 32 + row) * columns + block % columns) for row in range(32)]
		        x = [struct.unpack_from("<f", data, a)[0] for a in at]
		        step = struct.unpack("<f", struct.pack("<f", max(map(abs, x)) / 127))[0]
		        scale = struct.unpack("<e", struct.pack("<e", step))[0]
		        for a, v in zip(at, x):
		            struct.pack_into("<f", data, a, scale * round(v / step) if step else 0)
		text = json.dumps(header).encode()
		open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
	PYTHON
}

@test "adapters: frozen weights in blocks are those that the blocks hold, in every mode" {
	local mode
	"$GTRAIN" ckpt convert one/model.pth -o base.safetensors
	cp base.safetensors rounded.safetensors
	round_to_q8_0 rounded.safetensors
	while read -r mode; do
		fit --lora r=2 $mode --init-from rounded.safetensors --out wide
		fit --lora r=2,frozen=q8_0 $mode --init-from base.safetensors --out blocks
		equal "$("$GTRAIN" ckpt diff wide/model.pth blocks/model.pth | awk '$1 == "numbers" { print $2 }')" ""
		rm -r wide blocks
	done <<-'MODES'
		--batch 8
		--batch 8 --amp bf16
		--batch 8 --recompute
		--batch 2 --accumulate 4
		--nproc 2 --batch 4 --parallel zero3
		--nproc 2 --batch 8 --pipeline-parallel 2 --chunks 2
		--nproc 2 --batch 8 --tensor-parallel 2
	MODES
	fit --batch 8 --lora r=2 --init-from base.safetensors --out wide
	fit --batch 8 --lora r=2,frozen=q8_0 --init-from base.safetensors --out whole
	[ -n "$(differ wide/model.pth whole/model.pth)" ]
	fit --batch 8 --lora r=2,frozen=q8_0 --init-from base.safetensors --steps 2 --out goes
	fit --batch 8 --lora r=2,frozen=q8_0 --out goes --resume auto
	gtrain ckpt diff whole/model.pth goes/model.pth
	equal "$status" 0
	rm -r wide whole goes
}

@test "adapters: frozen weights in blocks take a quarter of the memory, and are widened one by one" {
	local kind
	fit --batch 8 --lora r=2 --dry-run --json >fp32.json
	for kind in bf16 q8_0 q4_0; do
		fit --batch 8 --lora r=2,frozen=$kind --dry-run --json >$kind.json
		fit --batch 8 --lora r=2,frozen=$kind --amp fp16 --dry-run --json >half-$kind.json
	done
	# 2 layers, each with 12 x 32 x 32 numbers in matrices, of which one has up to 4 x 32 x 32
	check "[$(<fp32.json), $(<bf16.json), $(<q8_0.json), $(<q4_0.json)]" '
		[d[0]["memory_bytes"]["buffers"] - x["memory_bytes"]["buffers"] for x in d[1:]] == [24 * 1024 * 2, 24 * 1024 * 94 // 32, 24 * 1024 * 110 // 32]
		and all(x["memory_bytes"]["arena"] - d[0]["memory_bytes"]["arena"] <= 3 * 4 * 4096 for x in d[1:])
		and all(x["parameters"] == d[0]["parameters"] for x in d)'
	fit --batch 8 --lora r=2 --amp fp16 --dry-run --json >half.json
	check "[$(<half.json), $(<half-bf16.json), $(<half-q8_0.json), $(<half-q4_0.json)]" '
		all(x["memory_bytes"]["arena"] - d[0]["memory_bytes"]["arena"] <= 3 * 4 * 4096 for x in d[1:])'
	for kind in fp32 q4_0; do
		fit --batch 8 --lora r=2,frozen=$kind --nproc 2 --pipeline-parallel 2 --dry-run --json >stages-$kind.json
	done
	check "[$(<stages-fp32.json), $(<stages-q4_0.json)]" '[s["parameters"] for s in d[0]["stages"]] == [s["parameters"] for s in d[1]["stages"]]'
}

@test "adapters: frozen weights have no gradients and no state" {
	gtrain train --model gpt:layers=2,heads=2,width=64,block=16,vocab=64 --data random,samples=8 --batch 2 --lora r=2,targets=*.c_attn --dry-run --json
	equal "$status" 0
	# 2 layers, each with matrices of 2 x 64 and 192 x 2
	check "$out" 'd["parameters"] - d["frozen_parameters"] == 2 * (2 * 64 + 192 * 2)
		and d["memory_bytes"]["gradients"] < 5000 and d["memory_bytes"]["optimizer"] < 10000'
}

@test "the bits do not depend on the number of ranks with --reproducible" {
	fit $RULES --reproducible --batch 8 --out alone
	fit $RULES --reproducible --batch 4 --nproc 2 --out two
	fit $RULES --reproducible --batch 8 --nproc 2 --pipeline-parallel 2 --out stages
	gtrain ckpt diff alone/model.pth two/model.pth
	equal "$status" 0
	gtrain ckpt diff alone/model.pth stages/model.pth
	equal "$status" 0
}

@test "frozen layers take no gradients, no state, and no backward pass" {
	gtrain train --model resnet18:image=32,classes=4 --data random,samples=8 --batch 2 --freeze '!fc.*' --dry-run --json
	equal "$status" 0
	check "$out" 'd["parameters"] - d["frozen_parameters"] == 512 * 4 + 4
		and d["memory_bytes"]["gradients"] < 10000 and d["memory_bytes"]["optimizer"] < 20000'
	local frozen=$out
	gtrain train --model resnet18:image=32,classes=4 --data random,samples=8 --batch 2 --dry-run --json
	check "[$frozen, $out]" 'd[0]["flops_per_step"] < 0.4 * d[1]["flops_per_step"]
		and d[0]["parameters"] == d[1]["parameters"] and "frozen_parameters" not in d[1]'
	gtrain train --model mlp:4,3,2 --data random:4/2,samples=8 --freeze 0.* --dry-run
	[[ $out == "model          mlp, 23 parameters, 15 of them frozen"* ]]
}

@test "checkpoints have a group for each learning rate; a run goes on with the same rules alone" {
	gtrain ckpt ls one/checkpoints/step-00000004.pth --json
	check "$out" '[(len(g["params"]), round(g["lr"] / d["values"]["lr_scheduler"]["_last_lr"][0], 6))
		for g in d["values"]["optimizer"]["param_groups"]] == [(2, 3), (2, 1), (8, 1), (2, 3)]'
	cp -r one goes
	fit --batch 8 --out goes --resume auto --steps 6 $RULES
	fit --batch 8 --out whole --steps 6 $RULES
	equal "$(differ goes/model.pth whole/model.pth)" ""
	run -2 fit --batch 8 --out goes --resume auto --steps 8 --freeze '*.ln_1.*'
	[[ $output == *"it was trained with another --freeze"* ]]
	run -2 fit --batch 8 --out goes --resume auto --steps 8 ${RULES/=3/=2}
	[[ $output == *"it was trained with another --lr-scale"* ]]
	run -2 fit --batch 8 --out start --resume auto --steps 8 $RULES
	[[ $output == *"it was trained with another --freeze"* ]]
}

@test "rules that cannot be followed are refused in one line" {
	local rule text
	while IFS='|' read -r rule text; do
		run -2 fit --batch 8 $rule --out none
		[[ $(grep -c error: <<<"$output") == 1 && $output == *"$text"* && ! -e none ]] || {
			printf '%s\n' "$rule" "$output"
			return 1
		}
	done <<-'CASES'
		--freeze h.0|--freeze: the model has no parameter 'h.0'
		--freeze !*|--freeze: the model has no parameter '!*'
		--freeze * |--freeze leaves no parameter to be trained
		--freeze !|--freeze: the pattern is empty
		--lora r=0|--lora: '0' is not a value for 'r'
		--lora alpha=0|--lora: '0' is not a value for 'alpha'
		--lora dropout=1|--lora: '1' is not a value for 'dropout'
		--lora rslora|--lora: '' is not a value for 'rslora'
		--lora targets=|--lora: '' is not a value for 'targets'
		--lora train=|--lora: '' is not a value for 'train'
		--lora train=x.y|--lora train: the model has no layer 'x.y'
		--lora frozen=fp16|--lora: 'fp16' is not a value for 'frozen'
		--lora frozen=q8_0|--lora frozen=q8_0 needs a base that checkpoints can name
		--lora rank=2|--lora: unknown setting 'rank'
		--lora r=2,r=3|--lora: 'r' is given twice
		--lora targets=x.*|--lora: the model has no linear layer 'x.*'
		--lora targets=*.wte|--lora: the model has no linear layer '*.wte'
		--lora none|give settings such as r=8,alpha=16, or a folder with an adapter_config.json
		--lora r=2 --freeze *|--freeze leaves no parameter to be trained
		--lr-scale *|--lr-scale '*' is not of the form GLOB=X
		--lr-scale *=x|--lr-scale '*=x' is not of the form GLOB=X
		--lr-scale *=0|--lr-scale '*=0': the factor must be above 0
		--lr-scale *=-1|--lr-scale '*=-1': the factor must be above 0
		--lr-scale *=1e-60|--lr-scale '*=1e-60': the factor must be above 0
		--lr-scale =2|--lr-scale: the pattern is empty
		--lr-scale *.c=2|--lr-scale: the model has no parameter '*.c'
		--lr-scale * --nproc 2|--lr-scale '*' is not of the form GLOB=X
	CASES
}

@test "a prefix that all keys have is removed wherever weights are loaded, and a line says so" {
	local prefix wanted said wrappers="'module.' and '_orig_mod.' removed from 17 keys"
	head -c 3000 "$ROOT/LICENSE" >text.txt
	gtrain train --model "$GPT" --data text:text.txt --steps 3 --batch 2 --out run -q
	wanted=$("$GTRAIN" eval --ckpt run --data text:text.txt --json -q | jq .loss)
	while IFS='|' read -r prefix said; do
		gtrain ckpt rename run/model.pth -o p.pth --map "^=$prefix" -q
		equal "$status" 0
		said="weights from p.pth: $said"$'\n'
		gtrain eval --ckpt p.pth --data text:text.txt --json
		equal "$(jq .loss <<<"$out")" "$wanted"
		[[ $err$'\n' == *"$said"* ]]
		gtrain predict --ckpt p.pth text.txt
		[[ $status == 0 && $err$'\n' == *"$said"* ]]
		gtrain generate --ckpt p.pth --tokens 2
		[[ $status == 0 && $err$'\n' == *"$said"* ]]
		gtrain train --init-from p.pth --data text:text.txt --steps 1 --batch 2 --out new
		[[ $status == 0 && $err$'\n' == *"$said"* ]]
		rm -r new
	done <<-CASES
		net.|'net.' removed from 17 keys
		_orig_mod.module.|$wrappers
		model._orig_mod.module.|$wrappers; 'model.' removed from 17 keys
	CASES
	# Not all keys have it, or the rest are not the model's.
	gtrain ckpt rename run/model.pth -o p.pth --map '^transformer\.h=net.transformer.h' -q
	gtrain eval --ckpt p.pth --data text:text.txt
	[[ $status == 1 && $err == *"the first is 'net.transformer.h"* ]]
	gtrain ckpt rename run/model.pth -o p.pth --map '^[^.]*\.=net.other.' -q
	gtrain eval --ckpt p.pth --data text:text.txt
	[[ $status == 1 && $err == *"the first is 'net.other."* ]]
}
