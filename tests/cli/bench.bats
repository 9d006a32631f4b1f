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
	equal "$(jq -r '.rows[] | select(.operation == "verify") | .failed' <<<"$out")" refused
	equal "$(jq '.rows[] | select(.operation == "cp") | .ratio_to_cp == 1' <<<"$out")" true
	gtrain bench ckpt "$folder/file" --rounds 1 --csv
	equal "${out%%$'\n'*}" operation,time_s,bytes_per_s,ratio_to_cp,peak_bytes
}

@test "bench ckpt without a file, with a missing one, with a folder" {
	gtrain bench ckpt
	equal "$status" 2
	equal "${err%%$'\n'*}" "gtrain: error: FILE is missing"
	gtrain bench ckpt "$folder/none"
	equal "$status" 1
	[[ $err == *"cannot open '$folder/none'"* ]]
	gtrain bench ckpt "$folder"
	equal "$status" 1
	[[ $err == *"is not a file"* ]]
}
