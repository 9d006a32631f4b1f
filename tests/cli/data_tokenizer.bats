#!/usr/bin/env bats
# data_tokenizer.bats - gtrain data tokenizer: the file, what is printed, faults.
bats_require_minimum_version 1.5.0

setup() {
	load helpers
	cd "$BATS_TEST_TMPDIR" || return
	printf 'aab aab\nab\xff' >t.txt
}

@test "a tokenizer is trained, and a model trains with it" {
	gtrain data tokenizer t.txt t.txt --vocab 259 -o tokenizer.json
	[[ $out == "tokenizer.json: 259 tokens, 2 merges, from 5 different words in 0.0 MB, in "* ]]
	[[ $err == *"are not UTF-8 are read as U+FFFD: 2" ]]
	equal "$(jq -c '.model.merges' tokenizer.json)" '[["a","b"],["a","ab"]]'
	equal "$(jq -c '[.model.vocab["<|endoftext|>","!","ab","aab"]]' tokenizer.json)" '[0,1,257,258]'
	gtrain data tokenizer t.txt --min-frequency 3 -o other.json --json
	equal "$(jq -c '[.path, .tokens, .merges, .words, .bytes]' <<<"$out")" '["other.json",258,1,5,11]'
	gtrain train --model gpt:layers=1,width=8,heads=1,block=4 --data text:t.txt,level=bpe,tokenizer=tokenizer.json \
		--steps 1 --batch 1 --out run
	cmp run/tokenizer.json tokenizer.json
}

@test "faults leave the file as it was" {
	echo old >tokenizer.json
	run -1 "$GTRAIN" data tokenizer missing.txt -o tokenizer.json
	[[ $output == *"'missing.txt'"* ]]
	run -2 "$GTRAIN" data tokenizer t.txt --vocab 256 -o tokenizer.json
	run -2 "$GTRAIN" data tokenizer -o tokenizer.json
	run -2 "$GTRAIN" data tokenizer t.txt
	run -1 "$GTRAIN" data tokenizer t.txt -o missing/tokenizer.json
	equal "$(<tokenizer.json)" old
}
