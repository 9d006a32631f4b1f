#!/usr/bin/env bats
# bpe.bats - tokenizers of byte-pair encoding: train, resume, eval, generate, and the tokens that are kept.
# shellcheck disable=SC2016,SC2154,SC2012 # code for others; what helpers set; ls counts

bats_require_minimum_version 1.5.0
load helpers
load runs

ON_PAIRS=text:text.txt,level=bpe,tokenizer=tok

setup_file() {
	use_isa # a vocabulary makes large products
	cd "$BATS_FILE_TMPDIR" || return
	export XDG_CACHE_HOME=$PWD/cache
	cat "$ROOT"/LICENSE >text.txt
	python3 -c 'import sys
sys.path.insert(0, sys.argv[1])
import small_files
text = small_files.tokenizer()
small_files.write("tok/tokenizer.json", text)
small_files.write("other/tokenizer.json", text.replace("qu i", "o u").replace("\"qui\"", "\"ou\""))' "$ROOT"/tests/common
	"$GTRAIN" train --model "$GPT" --data $ON_PAIRS --steps 30 --batch 8 --lr 1e-2 --out run -q
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
	export XDG_CACHE_HOME=$PWD/cache
}

@test "a run keeps its tokenizer, which eval, generate and resume use" {
	cmp tok/tokenizer.json run/tokenizer.json
	[ ! -e run/vocab.json ]
	gtrain eval --ckpt run --data text:text.txt --json
	equal "$status" 0
	check "$out" 'd["loss"] < 6 and d["n"] > 100'
	local loss=$out
	gtrain eval --ckpt run --data $ON_PAIRS --json
	equal "$out" "$loss"
	gtrain generate --ckpt run --prompt "the software" --tokens 20
	equal "$status" 0
	[[ $out == "the software"* ]]
	cp -r run again
	gtrain train --resume again --out again --model "$GPT" --data $ON_PAIRS --steps 32 --batch 8 --lr 1e-2 -q
	equal "$status" 0
	cmp tok/tokenizer.json again/tokenizer.json
}

@test "a folder of Hugging Face's puts the token before texts that gtrain does" {
	gtrain ckpt convert run --to hf -o plain -q
	cmp tok/tokenizer.json plain/tokenizer.json
	jq '.bos_token_id = 4' plain/config.json >config.json && mv config.json plain
	echo '{"add_bos_token": true}' >plain/tokenizer_config.json
	gtrain train --model plain --init-from plain --data text:text.txt --batch 2 --steps 1 --out begun -q
	gtrain ckpt convert begun --to hf -o folder -q
	equal "$status" 0
	check "$(<folder/tokenizer.json)" 'd["post_processor"]["single"][0] == {"SpecialToken": {
		"id": [t for t, i in d["model"]["vocab"].items() if i == 4][0], "type_id": 0}}'
	equal "$(jq 'del(.post_processor)' folder/tokenizer.json)" "$(jq 'del(.post_processor)' tok/tokenizer.json)"
}

@test "a folder of Hugging Face's has no other tokens around texts" {
	local token left processor
	token=$(jq '.model.vocab | to_entries[] | select(.value == 4).key' tok/tokenizer.json)
	mkdir around
	while read -r left && read -r processor; do
		jq ".post_processor = $processor" tok/tokenizer.json >around/tokenizer.json
		gtrain train --model "$GPT" --data text:text.txt,level=bpe,tokenizer=around --batch 2 --steps 1 --out trained -q
		equal "$status" 0
		gtrain ckpt convert trained --to hf -o exported -q
		equal "$status" 0
		equal "$(jq -c '[.post_processor | .single?[]? | keys[]] + [.post_processor.type?]' exported/tokenizer.json)" "$left"
		rm -r trained exported
	done <<-EOF
		[null]
		{type: "RobertaProcessing", sep: [$token, 4], cls: [$token, 4], trim_offsets: true, add_prefix_space: false}
		["SpecialToken","Sequence","TemplateProcessing"]
		{type: "TemplateProcessing", single: [{SpecialToken: {id: $token, type_id: 0}}, {Sequence: {id: "A", type_id: 0}}, {SpecialToken: {id: $token, type_id: 0}}], special_tokens: {($token): {id: $token, ids: [4], tokens: [$token]}}}
	EOF
}

@test "a copied checkpoint knows its tokenizer by the digest" {
	cp run/model.pth alone.pth
	gtrain eval --ckpt run --data text:text.txt --json
	local loss=$out
	gtrain eval --ckpt alone.pth --data text:text.txt
	equal "$status" 1
	equal "$err" "gtrain: error: the tokenizer that the model was trained with is missing
hint: tokenizer=DIR in --data names it (generate: --tokenizer DIR); its run has a tokenizer.json"
	gtrain eval --ckpt alone.pth --data text:text.txt --tokenizer tok --json -q
	equal "$out" "$loss"
	equal "$err" ""
	gtrain eval --ckpt alone.pth --data text:text.txt --tokenizer other/tokenizer.json --json -q
	equal "$status" 0
	equal "$err" "warning: --data: the model was trained with another tokenizer than 'other/tokenizer.json'"
	gtrain eval --ckpt alone.pth --data text:text.txt,tokenizer=other
	[[ $err == *"tokenizer=other is not the tokenizer that"*"hint: give tokenizer.json from the directory of the checkpoint's run" ]]
	gtrain generate --ckpt alone.pth --prompt the --tokens 3
	equal "$status" 1
	gtrain generate --ckpt alone.pth --prompt the --tokens 3 --tokenizer tok
	equal "$status" 0
	gtrain generate --ckpt alone.pth --prompt the --tokens 3 --tokenizer other
	equal "$status" 0
	equal "$err" "warning: the model was trained with another tokenizer than 'other'"
}

@test "another tokenizer than the run's is refused" {
	local other=text:text.txt,level=bpe,tokenizer=other
	gtrain eval --ckpt run --data $other
	equal "$status" 2
	[[ $err == *"tokenizer=other is not the tokenizer that the model was trained with"*"hint: leave out tokenizer="* ]]
	mkdir -p short
	jq -c '.added_tokens = [] | .model.vocab |= with_entries(select(.value < 260)) | .model.merges |= .[:4]' \
		tok/tokenizer.json >short/tokenizer.json
	gtrain generate --ckpt run --tokenizer short
	equal "$status" 1
	[[ $err == *"has shape ["*"hint: 'short' has "*" tokens, but the model was trained with "* ]]
	gtrain train --resume run --out run --model "$GPT" --data $other --steps 31 --batch 8 -q
	equal "$status" 2
	gtrain train --init-from run --out new --model "$GPT" --data $other --steps 1 --batch 8 -q
	equal "$status" 2
	gtrain train --model "$GPT" --data $ON_PAIRS --val $other --steps 1 --batch 8 --out new -q
	equal "$status" 2
	[ ! -e new ]
	cp -r run changed
	cp other/tokenizer.json changed/
	gtrain eval --ckpt changed --data text:text.txt
	equal "$status" 1
	[[ $err == *"'changed/tokenizer.json' is not the tokenizer that the model was trained with"* ]]
	gtrain eval --ckpt run --data text:text.txt --tokenizer tok --vocab x
	equal "$status" 2
}

@test "a checkpoint of another program is used with GPT-2's two files" {
	python3 -c 'import json
d = json.load(open("tok/tokenizer.json"))["model"]
json.dump(d["vocab"], open("vocab.json", "w"))
open("merges.txt", "w").write("#version: 0.2\n" + "\n".join(d["merges"]) + "\n")'
	mkdir -p files && mv vocab.json merges.txt files/
	gtrain ckpt convert run/model.pth -o weights.npz
	gtrain ckpt convert weights.npz -o foreign.pth --to pth
	gtrain eval --ckpt run --data text:text.txt --json
	local loss=$out
	gtrain eval --ckpt foreign.pth --model "$GPT" --data text:text.txt --tokenizer files --json -q
	equal "$status" 0
	equal "$out" "$loss"
	gtrain generate --ckpt run --prompt "quick " --tokens 12
	local text=$out
	gtrain generate --ckpt foreign.pth --model "$GPT" --tokenizer files --prompt "quick " --tokens 12
	equal "$out" "$text"
}

@test "tokens of a large text are kept for ranks and later runs" {
	rows 60000 'print("line", i, "of the quick fox")' >large.txt
	gtrain train --model "$GPT" --data text:large.txt,level=bpe,tokenizer=tok --steps 1 --batch 4 --nproc 2 --out large
	equal "$status" 0
	[[ $err == *"tokenized 1."*" MiB into "*" tokens in "*"kept in $XDG_CACHE_HOME/gtrain/tokens/"* ]]
	equal "$(grep -c tokenized <<<"$err")" 1
	equal "$(ls cache/gtrain/tokens | wc -l)" 1
	gtrain eval --ckpt large --data text:large.txt --json
	[[ $err != *tokenized* ]]
	local loss=$out
	printf x | dd of="$(echo cache/gtrain/tokens/*.ids)" bs=1 seek=4321 conv=notrunc status=none
	gtrain eval --ckpt large --data text:large.txt --json
	[[ $err == *tokenized* ]]
	equal "$out" "$loss"
	XDG_CACHE_HOME=/dev/null gtrain eval --ckpt large --data text:large.txt --json
	[[ $err == *"warning: --data: the tokens of the text are not kept: "* ]]
	equal "$out" "$loss"
}
