#!/usr/bin/env bats
# eval.bats - gtrain eval and gtrain generate.
# shellcheck disable=SC2016,SC2054,SC2154,SC2012 # code for others; commas in options; what helpers set; ls sorts

bats_require_minimum_version 1.5.0
load helpers
load runs

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	cat "$ROOT"/LICENSE >text.txt
	"$GTRAIN" train --model "$GPT" --data text:text.txt --steps 40 --batch 8 --lr 1e-2 --out text -q
	"$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 30 --out table -q
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

@test "eval prints exactly the promised keys, of a run directory, a checkpoint, a state_dict" {
	local ckpt
	for ckpt in table table/checkpoints/step-00000030.pth table/model.pth; do
		gtrain eval --ckpt $ckpt --data "$RANDOM_DATA" --json
		equal "$status" 0
		check "$out" 'list(d) == ["loss", "top1", "top5", "perplexity", "n"] and d["n"] == 64
			and d["top5"] == 1 and abs(d["perplexity"] - 2.718281828459045 ** d["loss"]) < 1e-6'
		[ "${first=$out}" = "$out" ]
	done
	cp table/model.pth alone.pth
	gtrain eval --ckpt alone.pth --data "$RANDOM_DATA" --json
	equal "$out" "$first"
	forget alone.pth
	gtrain eval --ckpt alone.pth --data "$RANDOM_DATA" --json
	equal "$status" 2
	[[ $err == *"--model is missing"*"hint: --model"* ]]
	gtrain eval --ckpt alone.pth --data "$RANDOM_DATA" --json --model mlp:8,16,3
	equal "$out" "$first"
}

@test "a vit takes the names of torchvision before 0.13, and a tied llama is written under both of its names" {
	local first model="vit:image=8,patch=4,layers=2,heads=2,width=16,classes=3" data="random:,samples=20"
	"$GTRAIN" train --model $model --data $data --batch 4 --steps 5 --out vit -q
	gtrain eval --ckpt vit/model.pth --model $model --data $data --json
	equal "$status" 0
	first=$out
	"$GTRAIN" ckpt rename vit/model.pth -o new.pth --map 'mlp\.0\.=mlp.linear_1.' --map 'mlp\.3\.=mlp.linear_2.'
	gtrain eval --ckpt new.pth --model $model --data $data --json
	equal "$status" 0
	equal "$out" "$first"
	"$GTRAIN" ckpt rename vit/model.pth -o new.pth --map 'layer_1\.mlp\.0\.=layer_7.mlp.linear_1.'
	gtrain eval --ckpt new.pth --model $model --data $data --json
	equal "$status" 1
	[[ $err == *"encoder.layers.encoder_layer_1.mlp.0.weight"* ]]
	model=llama:layers=1,heads=2,kv_heads=1,width=16,block=8
	"$GTRAIN" train --model $model,tied=yes --data text:text.txt --batch 4 --steps 5 --out tied -q
	"$GTRAIN" train --model $model --data text:text.txt --batch 4 --steps 5 --out untied -q
	gtrain ckpt ls tied/model.pth
	[[ $out == *lm_head.weight* ]]
	gtrain eval --ckpt tied/model.pth --model $model --data text:text.txt --json
	equal "$status" 0
	first=$out
	gtrain eval --ckpt tied --data text:text.txt --json
	equal "$out" "$first"
	gtrain eval --ckpt untied --data text:text.txt --json
	[ "$out" != "$first" ]
}

@test "the numbers depend neither on the batch nor on the workers; tails count once" {
	local batch workers wanted
	for data in text:text.txt "$RANDOM_DATA"; do
		run=table
		[[ $data == text* ]] && run=text
		wanted=
		for batch in 1 5 64 1000; do
			for workers in 0 3; do
				gtrain eval --ckpt $run --data "$data" --batch $batch --workers $workers --json
				equal "$status" 0
				: "${wanted:=$out}"
				check "[$wanted, $out]" 'd[0]["n"] == d[1]["n"] and d[0]["top1"] == d[1]["top1"]
					and all(abs(d[0][k] - d[1][k]) < 1e-6 * (1 + d[0][k]) for k in d[0])'
			done
		done
	done
	gtrain eval --ckpt text --data text:text.txt --json
	check "$out" "d['n'] == $(wc -m <text.txt) - 1"
}

@test "keys are renamed, listed, or refused" {
	gtrain eval --ckpt table/model.pth --model mlp:8,16,3 --data "$RANDOM_DATA" --map '^2\.=4.'
	equal "$status" 1
	[[ $err == *"2 keys are missing, the first is '2.weight'; 2 unexpected, the first is '4.weight'"*"hint: --map"* ]]
	gtrain eval --ckpt table/model.pth --data "$RANDOM_DATA" --map '^2\.=4.' --strict=no --json
	equal "$status" 0
	[[ $err == *"missing key '2.weight'"*"unexpected key '4.bias'"* ]]
	# Names that no --map changes, read when the checkpoint is closed.
	gtrain ckpt rename table/model.pth --map '^2\.=4.' -o renamed.pth -q
	gtrain eval --ckpt renamed.pth --model mlp:8,16,3 --data "$RANDOM_DATA" --strict=no --json
	equal "$status" 0
	[[ $err == *"missing key '2.weight'"*"unexpected key '4.bias'"* ]]
	# generate has no --map.
	gtrain ckpt rename text/model.pth --map '^transformer.wpe=w' -o renamed.pth -q
	gtrain generate --ckpt renamed.pth
	[[ $err == *"1 keys are missing, the first is 'transformer.wpe.weight'; 1 unexpected, "*"hint: 'gtrain ckpt rename' renames keys of a checkpoint" ]]
	gtrain eval --ckpt table/model.pth --data "$RANDOM_DATA" --map '^2\.=4.' --map '^([0-9])=n\1' \
		--map 'n4=2' --map '^n=' --json
	equal "$status" 0
	gtrain eval --ckpt table/model.pth --data "$RANDOM_DATA" --map '(=x'
	equal "$status" 2
	[[ $err == *"'(=x': the regular expression is wrong at byte 1: "* ]]
	gtrain eval --ckpt table/model.pth --data "$RANDOM_DATA" --map 'bias=weight'
	equal "$status" 2
	[[ $err == *"two keys of the checkpoint are '0.weight'"* ]]
	gtrain eval --ckpt table/model.pth --data "$RANDOM_DATA" --model mlp:8,17,3
	equal "$status" 1
	[[ $err == *"tensor '0.weight' has shape [16, 8], the model wants [17, 8]"* ]]
}

@test "what is no checkpoint is refused in a line" {
	mkdir -p nothing
	echo '<!DOCTYPE html><html>404</html>' >page.pth
	head -c 900 table/model.pth >cut.pth
	: >empty.pth
	local file
	for file in nothing page.pth cut.pth empty.pth missing.pth text.txt /dev/null; do
		gtrain eval --ckpt $file --model mlp:8,16,3 --data "$RANDOM_DATA" --json
		equal "$status" 1
		equal "$out" ""
		[[ $err == "gtrain: error: "*"$file"* ]]
		(($(wc -l <<<"$err") <= 2))
		gtrain eval --ckpt $file --data "$RANDOM_DATA"
		equal "$status" 1
		[[ $err == "gtrain: error: "*"$file"* && $err != *"'$file': '$file'"* ]]
	done
}

@test "the same seed writes the same text, another seed another" {
	gtrain generate --ckpt text --tokens 60 --seed 5
	equal "$status" 0
	local first=$out
	gtrain generate --ckpt text/model.pth --tokens 60 --seed 5 --threads 1
	equal "$out" "$first"
	gtrain generate --ckpt text --tokens 60 --seed 6
	[ "$out" != "$first" ]
}

@test "temperature 0 is greedy, and so is top-k 1" {
	gtrain generate --ckpt text --prompt Permission --tokens 60 --temperature 0
	equal "$status" 0
	local first=$out
	equal ${#out} 70
	gtrain generate --ckpt text --prompt Permission --tokens 60 --temperature 2 --top-k 1 --seed 9
	equal "$out" "$first"
	gtrain generate --ckpt text --prompt Permission --tokens 60 --temperature 1e-300
	equal "$out" "$first"
	gtrain generate --ckpt text --prompt Permission --tokens 60 --temperature 2 --top-p 0 --seed 9
	equal "$out" "$first"
}

@test "top-p 1 draws among all, less among fewer, and no other number is taken" {
	gtrain generate --ckpt text --prompt Permission --tokens 60 --temperature 1 --seed 3
	equal "$status" 0
	local first=$out
	gtrain generate --ckpt text --prompt Permission --tokens 60 --temperature 1 --seed 3 --top-p 1
	equal "$out" "$first"
	gtrain generate --ckpt text --prompt Permission --tokens 60 --temperature 1 --seed 3 --top-p 0.3
	equal "$status" 0
	[ "$out" != "$first" ]
	local p
	for p in 1.01 -0.1 nan most; do
		gtrain generate --ckpt text --tokens 5 --top-p $p
		equal "$status" 2
		equal "$out" ""
		[[ $err == *"--top-p"* ]]
	done
}

@test "generate --dtype keeps weights in fewer bytes, by default in those of the checkpoint" {
	local type greedy=(--prompt Permission --tokens 60 --temperature 0 -v) low=(--ckpt low.pth --model "$GPT" --vocab text/vocab.json)
	for type in fp32 bf16 fp16 q8_0 q4_0; do
		gtrain generate --ckpt text "${greedy[@]}" --dtype $type
		equal "$status" 0
		equal ${#out} 70
		[[ $type == fp32 || $err == *"weights are kept in $type"* ]]
	done
	gtrain generate --ckpt text "${greedy[@]}"
	[[ $err != *"weights are kept in"* ]]
	"$GTRAIN" ckpt convert text/model.pth -o low.pth --dtype bf16 -q
	gtrain generate "${low[@]}" "${greedy[@]}"
	equal "$status" 0
	[[ $err == *"weights are kept in bf16"* ]]
	local first=$out
	gtrain generate "${low[@]}" "${greedy[@]}" --dtype fp32
	equal "$out" "$first"
	[[ $err != *"weights are kept in"* ]]
	gtrain generate "${low[@]}" "${greedy[@]}" --amp bf16
	equal "$status" 0
	[[ $err != *"weights are kept in"* ]]
	# Where some matrices have another type, this one would change them.
	"$GTRAIN" ckpt select text/model.pth --keys 'transformer.h.*' --dtype bf16 -o layers.pth -q
	"$GTRAIN" ckpt select text/model.pth --keys 'transformer.[wl]*' -o others.pth -q
	"$GTRAIN" ckpt merge layers.pth others.pth -o mixed.pth -q
	gtrain generate --ckpt mixed.pth "${low[@]:2}" "${greedy[@]}"
	equal "$status" 0
	[[ $err != *"weights are kept in"* ]]
	gtrain generate --ckpt text --dtype q8_0 --amp bf16
	equal "$status" 2
	[[ $err == *"--dtype q8_0 cannot be combined with --amp"* ]]
	gtrain generate --ckpt text --dtype q8_0 --tensor-parallel 2
	equal "$status" 2
	[[ $err == *"--dtype q8_0 cannot be combined with --tensor-parallel"* ]]
	gtrain generate --ckpt text --load-in-4bit
	[[ $err == *"--dtype q4_0"* ]]
}

@test "a prompt longer than the block goes on from its end" {
	gtrain generate --ckpt text --prompt "is hereby granted, free of charge" --tokens 30 --temperature 0
	equal "$status" 0
	local first=${out: -30}
	gtrain generate --ckpt text --prompt "d, free of charge" --tokens 30 --temperature 0
	equal "${out: -30}" "$first"
}

@test "generate --json, and what it cannot do" {
	gtrain generate --ckpt text --prompt "Copy" --tokens 20 --json
	equal "$status" 0
	check "$out" 'list(d) == ["prompt", "text"] and d["text"].startswith(d["prompt"]) and len(d["text"]) == 24'
	gtrain generate --ckpt text --prompt "~é" --tokens 20
	equal "$status" 1
	equal "$out" ""
	[[ $err == *"the character '~' (U+007E)"* ]]
	gtrain generate --ckpt text --prompt "" --tokens 20
	equal "$status" 2
	gtrain generate --ckpt table --tokens 5
	equal "$status" 2
	run -1 bash -c '"$GTRAIN" generate -q --ckpt text --tokens 5 2>&1 >/dev/full'
	equal "$output" "gtrain: error: cannot write the text: No space left on device
hint: the file system is full: see \`df\` for bytes, \`df -i\` for files"
	run -1 bash -c '"$GTRAIN" generate --ckpt text --tokens 5 --json 2>&1 >/dev/full'
	run -1 bash -c '"$GTRAIN" eval --ckpt table --data "$RANDOM_DATA" -q 2>&1 >/dev/full'
	equal "$output" "gtrain: error: cannot write to standard output: No space left on device"
}

@test "a byte-level model speaks JSON whatever bytes it writes" {
	head -c 4000 /dev/urandom >bytes
	gtrain train --model "$GPT" --data text:bytes,level=byte --steps 2 --batch 4 --out bytes-run -q
	equal "$status" 0
	gtrain generate --ckpt bytes-run --tokens 64 --temperature 1 --json
	equal "$status" 0
	check "$out" 'len(d["text"]) > 20 and "\ufffd" in d["text"]'
}
