#!/usr/bin/env bats
# eval_files.bats - files that eval and predict read and write: predictions, checkpoints of others, faults of data.
# shellcheck disable=SC2016,SC2154 # code for others; what helpers set

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
	before=$(find . -type f -exec sha256sum {} + | sort)
	while read -r file words; do
		# shellcheck disable=SC2086 # several words
		gtrain eval --data images:images --predictions "$file" $words
		equal "$status:$out" 2:
		[[ $err == "gtrain: error: --predictions: '$file' "*$'\n'"hint: name another file"* ]]
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
		[[ $err == *"'pictures.tar' is a file of the data"* ]]
	done
	gtrain eval --data webdataset:pictures.tar,classes=words/names --ckpt run --predictions words/names
	equal "$status:$out" 2:
	equal "$(find . -type f -exec sha256sum {} + | sort)" "$before"
	gtrain eval --data images:images --ckpt run --predictions run/p.csv
	equal "$status" 0
	equal "$(wc -l <run/p.csv)" 9
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
	equal "$(find . -name '*.tmp-*')" ""
}
