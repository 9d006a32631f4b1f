#!/usr/bin/env bats
# habits.bats - what people write by habit is understood, or the hint leads on.

load helpers
load runs

# shellcheck disable=SC2054 # one word
small=(--model mlp:8,6,3 --data random:8/3,samples=32 --batch 8)

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# Train with --data $1: the hint has to be $2.
data_hint() {
	gtrain train --model mlp --data "$1" --dry-run
	equal "$status:$err" "2:gtrain: error: unknown kind of data '${1%%[:,]*}'
hint: did you mean '$2'?"
}

@test "a path without its kind: the hint has the kind" {
	mkdir -p {photos,named}/{cat,dog} mnist dots cifar-10-batches-bin texts shards tokens 'a,b/c'
	printf 'a,b,c\n1,2,x\n' | tee iris.csv iris.tsv numbers table.dat 'a,b/t.csv' >two.csv
	printf 'a\tb\n1\t2\n' >tabs.dat
	printf 'Once upon a time,\nthere was a word.\n' | tee story.txt story named/README.txt >texts/a.txt
	printf '\0\1' | tee x.npy x.npz photos.tar photos.tar.gz train.bin unknown mnist/train-images-idx3-ubyte >dots/t10k-labels.idx1-ubyte
	echo '{"text": "a"}' >rows.jsonl
	echo '{"messages": []}' >talk.jsonl
	touch cifar-10-batches-bin/data_batch_1.bin shards/s-0.tar tokens/train.bin
	while IFS='|' read -r path meant; do
		data_hint "$path" "$meant"
	done <<-'END'
		iris.csv|csv:iris.csv
		iris.csv,target=c|csv:iris.csv,target=c
		./iris.tsv|csv:./iris.tsv,sep=tab
		table.dat|csv:table.dat
		tabs.dat|csv:tabs.dat,sep=tab
		story.txt|text:story.txt
		story|text:story
		x.npy|npy:x.npy,target=TARGETS.npy
		x.npz|npz:x.npz
		photos.tar|images:photos.tar
		photos.tar.gz|images:photos.tar.gz
		photos|images:photos
		photos/|images:photos/
		named|images:named
		train.bin|tokens:train.bin
		texts|text:texts
		shards|webdataset:shards/*.tar
		cifar-10-batches-bin|cifar10:cifar-10-batches-bin
		mnist/train-images-idx3-ubyte|mnist:mnist
		dots/t10k-labels.idx1-ubyte|mnist:dots
		dots|mnist:dots
		imagefolder:photos|images:photos
		table:iris.csv|csv:iris.csv
		rows.jsonl|jsonl:rows.jsonl
		talk.jsonl|chat:talk.jsonl
	END
	gtrain train --model mlp --data tokens --dry-run
	equal "$status:$err" "2:gtrain: error: data 'tokens' has no path
hint: did you mean 'tokens:tokens'?"
	gtrain train --model mlp --data unknown --dry-run
	[[ $err == *"hint: write KIND:PATH; kinds: text, "* ]]
	gtrain train --model mlp --data 'a\,b/t.csv' --dry-run
	[[ $err == *"hint: did you mean 'csv:a\,b/t.csv'?" ]]
}

@test "a kind or a data set that is mistyped gets a hint" {
	data_hint image:nothing images:nothing
	data_hint cifar100:there cifar10:there
	data_hint mnst mnist
	data_hint randm:4/2,samples=8 random:4/2,samples=8
}

@test "a number in place of a data set is a share" {
	gtrain train --model mlp --data random:4/2 --val 0.1
	equal "$status:$err" "2:gtrain: error: --val: '0.1' is not the name of a data set
hint: --val-split 0.1 holds out this part of the data"
	gtrain train --model mlp --data random:4/2 --val 10
	[[ $err == *"hint: --val-split F holds out a part of the data"* ]]
}

@test "the nearest setting of a model, of data, of an augmentation" {
	while IFS='|' read -r model data augment hint; do
		gtrain train --model "$model" --data "$data" --augment "${augment:-none}" --dry-run
		equal "$status:${err##*hint: }" "2:$hint"
	done <<-'END'
		gpt:layer=3|random||did you mean 'layers=3'? It takes: layers heads width eps hidden block vocab dropout bias gelu
		gpt:Heads=3|random||did you mean 'heads=3'? It takes: layers heads width eps hidden block vocab dropout bias gelu
		mlp|random:4/2,sample=5||did you mean 'samples=5'? Known options: samples
		gpt|text:f,block=32||block is a setting of --model, as in NAME:block=32
		lenet|random|flip:p=1|it has none, so write 'flip' alone
		lenet|random|rrc:minscale=1|did you mean 'min-scale'? Its settings: min-scale, max-scale, min-ratio, max-ratio
		lenet|random|flips|did you mean 'flip'? Known: rrc, crop, flip, jitter, mixup, none
	END
}

@test "--config takes a run directory" {
	gtrain train "${small[@]}" --steps 2 --out runs/a -q
	gtrain train --config runs/a --out runs/b -q
	equal "$status" 0
	equal "$(jq -c '[.model, .steps]' runs/b/config.json)" "$(jq -c '[.model, .steps]' runs/a/config.json)"
	gtrain train --config runs
	equal "$status:$err" "1:gtrain: error: --config: 'runs' is a folder without config.json
hint: name one of its runs: 'runs/a', 'runs/b'"
	mkdir empty
	gtrain train --config empty
	equal "$status:$err" "1:gtrain: error: --config: 'empty' is a folder without config.json
hint: name a configuration file or a run"
}

@test "a folder of runs in place of a run: the hint names them" {
	gtrain train "${small[@]}" --steps 2 --out runs/a -q
	cp -r runs/a runs/b
	local command
	while read -r command; do
		# shellcheck disable=SC2086 # several words
		gtrain $command
		equal "$status:$err" "1:gtrain: error: 'runs' is a folder of runs, and no checkpoint
hint: name one of them: 'runs/a', 'runs/b'"
	done <<-'END'
		ckpt ls runs
		ckpt convert runs -o x.npz
		ckpt strip-module runs -o x.pth
		ckpt diff runs runs/a
		eval --ckpt runs --data random
		predict --ckpt runs x.jpg
		generate --ckpt runs
		train --resume runs
		train --model mlp --data random --init-from runs
	END
	mkdir runs/c runs/d runs/e
	touch runs/c/metrics.jsonl runs/d/metrics.jsonl
	gtrain ckpt ls runs
	[[ $err == *"'runs/a', 'runs/b', 'runs/c' and 1 more" ]]
	cp runs/a/model.pth runs/
	gtrain ckpt ls runs
	[[ $err != *"folder of runs"* ]]
}

@test "a model that does not fit the data: the hint names one that does" {
	yes 'hello world' | head -n 100 >h.txt
	printf 'a,b,c\n1,2,x\n3,4,y\n1,2,x\n3,4,y\n' >t.csv
	printf 'zebra zebra zebra\n' >z.txt
	mkdir digits # 2 images of 5x5 pixels
	{ printf '\0\0\10\3\0\0\0\2\0\0\0\5\0\0\0\5'; head -c 50 /dev/zero; } >digits/train-images-idx3-ubyte
	printf '\0\0\10\1\0\0\0\2\0\1' >digits/train-labels-idx1-ubyte
	local model data option hint
	while IFS='|' read -r model data option hint; do
		# shellcheck disable=SC2086 # an option, or none
		gtrain train --model "$model" --data "$data" $option --dry-run
		equal "$status:${err##*hint: }" "2:$hint"
	done <<-'END'
		gpt:width=130,heads=4|text:h.txt||the width has to be a multiple of 4, such as width=132
		llama:width=36,heads=4|text:h.txt||the width has to be a multiple of 8, such as width=40
		resnet18|mnist:digits||the data have 5x5 pixels: --model mlp takes images of any size, and size=N with data of the kinds images and webdataset makes other squares
		resnet20|csv:t.csv||the data are rows of numbers: --model mlp takes them
		gpt|csv:t.csv||the data are rows of numbers: --model mlp takes them
		mlp|text:h.txt||the data are text: --model gpt or llama takes them
		mlp:1,8,2|csv:t.csv||--model mlp:2,8,2 fits the data, and mlp alone fits any
		lenet|random:3x32x32/4||INPUTS is a number, as in random:784/10; images come from random alone, which takes the shape of --model
		mlp|csv:t.csv|--freeze=*|--freeze '!2.*' trains this layer alone; the layers are 0.*, 2.*
		lenet|random|--freeze=*|--freeze '!fc3.*' trains this layer alone; the layers are conv1.*, conv2.*, fc1.*, fc2.*, fc3.*
		gpt|text:h.txt|--freeze=*|--freeze '!transformer.ln_f.*' trains this layer alone; the layers are transformer.wte.*, transformer.wpe.*, transformer.h.*, transformer.ln_f.*
	END
	gtrain train --model gpt:layers=1,heads=1,width=8,block=8 --data text:h.txt --steps 1 --out run -q
	gtrain eval --ckpt run --data text:z.txt
	[[ $status == 1 && $err == *"is not in the vocabulary"*"a model that is trained on text:FILE,level=byte or level=bpe reads any text" ]]
}

@test "well-known weights and tokenizers: the hint says where they are, or fetches them" {
	export XDG_CACHE_HOME=$PWD/cache
	yes 'hello world' | head -n 100 >h.txt
	local where
	where=$(realpath .)/cache/gtrain/data
	gtrain train --model gpt2 --data text:h.txt,level=bpe,tokenizer=gpt2
	equal "$status:${err##*hint: }" "1:\`gtrain data get gpt2-tokenizer\` fetches it into '$where/gpt2-tokenizer'; give that path"
	gtrain train --model gpt2 --data text:h.txt --init-from gpt2
	equal "$status:${err##*hint: }" "1:\`gtrain data get gpt2\` fetches it into '$where/gpt2'; give that path"
	gtrain eval --ckpt gpt2 --data text:h.txt
	equal "$status:${err##*hint: }" "1:\`gtrain data get gpt2\` fetches it into '$where/gpt2'; give that path"
	gtrain eval --ckpt mnist --data text:h.txt
	equal "$status:${err##*hint: }" "1:check the path and the permissions"
	mkdir -p "$where/gpt2-tokenizer"
	truncate -s 1355256 "$where/gpt2-tokenizer/tokenizer.json"
	gtrain train --model gpt2 --data text:h.txt,level=bpe,tokenizer=gpt2-tokenizer
	equal "$status:${err##*hint: }" "1:the path of the well-known 'gpt2-tokenizer' is '$where/gpt2-tokenizer'"
}

@test "--resume auto needs --out, and a run that is done says so" {
	local more
	for more in "" "--model mlp --data random:4/2"; do
		# shellcheck disable=SC2086 # several words
		gtrain train --resume auto $more
		equal "$status:$err" "2:gtrain: error: --resume=auto needs --out
hint: --out DIR names the run to go on with, and --resume RUN needs no --out"
	done
	gtrain train "${small[@]}" --steps 4 --out run -q
	gtrain train --resume run
	[[ $status == 0 && $err == *"the run has done all of its 4 steps, so nothing is left to train; a larger --steps goes on"* ]]
	gtrain train --resume run --steps 6
	[[ $status == 0 && $err != *"nothing is left"* ]]
	# The file of another step under the name of a later one.
	mv run/checkpoints/step-00000004.pth run/checkpoints/step-00000009.pth
	rm -f run/checkpoints/step-00000006.pth
	gtrain train --resume run --steps 12
	equal "$status:${err##*hint: }" \
		"2:its newest file, 'step-00000009.pth', holds step 4: move it away, or give it the name of its step"
}

@test "options that have no effect with one rank say so" {
	gtrain train "${small[@]}" --steps 2 --out run -q --max-restarts 3 --backend ring --compress fp16 --check-replicas 2 --bucket-size 1M
	equal "$status:$err" "0:warning: --backend has no effect with one rank
warning: --bucket-size has no effect with one rank
warning: --compress has no effect with one rank
warning: --check-replicas has no effect with one rank
warning: --max-restarts has no effect with one rank"
	gtrain train --config run/config.json --out again -q
	equal "$status:$err" "0:"
	gtrain train "${small[@]}" --steps 2 --nproc 2 --batch 4 --out two -q --max-restarts 3 --backend ring
	equal "$status:$err" "0:"
}

@test "a flag takes =no, so that a resumed run can do without it" {
	gtrain train "${small[@]}" --optimizer sgd --nesterov --drop-last --steps 2 --out a -q
	equal "$(jq -c '[.nesterov, .["drop-last"]]' a/config.json)" "[true,true]"
	gtrain train --resume a --steps 4 --nesterov=no --drop-last=no -q
	equal "$status:$err" "0:"
	equal "$(jq -c '[.nesterov, .["drop-last"]]' a/config.json)" "[false,false]"
	gtrain train --config a --drop-last=yes --out b -q
	equal "$(jq -c '[.nesterov, .["drop-last"]]' b/config.json)" "[false,true]"
	gtrain train "${small[@]}" --sync-bn no
	equal "$status:$err" "2:gtrain: error: unexpected argument 'no'
hint: write '--sync-bn=no' if it is the value"
	gtrain train "${small[@]}" --no-pin-memory
	equal "${err##*hint: }" "did you mean '--pin-memory=no'?"
	gtrain train --help
	[[ $out == *"Options without a value also take =yes and =no: --nesterov=no"* ]]
}

@test "a tilde stands for the user's folder where no shell expands it" {
	printf 'a,b\n1,x\n2,y\n3,x\n4,y\n' >t.csv
	export HOME=$PWD/'home, sweet'
	mkdir -p "$HOME/photos"
	mv t.csv "$HOME/t.csv"
	gtrain train --model mlp --data csv:~/t.csv --steps 2 --out=~/run -q
	equal "$status:$err" "0:"
	[ -e "$HOME/run/model.pth" ]
	gtrain eval --ckpt=~/run --data 'csv:~/t.csv' --predictions=~/p.csv -q
	equal "$status:$err" "0:"
	[ -e "$HOME/p.csv" ]
	gtrain train --config=~/run/config.json --out again -q
	equal "$status:$err" "0:"
	# shellcheck disable=SC2088 # as another program may pass it
	gtrain train --model mlp --data '~/t.csv' --dry-run
	[[ $err == *"did you mean 'csv:"*"/t.csv'?" ]]
	gtrain train --model gpt --data 'text:~/no.txt,level=bpe,tokenizer=~/none' --dry-run
	[[ $status == 1 && $err == *"'$HOME/no"* ]]
	[ ! -e '~' ]
}

@test "commands of other programs are led to the right one" {
	while IFS='|' read -r command hint; do
		gtrain "$command" runs/a --fast
		equal "$status:$err" "2:gtrain: error: '$command' is not a command
hint: did you mean '$hint'?"
	done <<-'END'
		fit|gtrain train --model MODEL --data DATA
		finetune|gtrain train --init-from CKPT --data DATA
		fine-tune|gtrain train --init-from CKPT --data DATA
		resume|gtrain train --resume RUN
		test|gtrain eval --ckpt RUN --data DATA
		validate|gtrain eval --ckpt RUN --data DATA
		infer|gtrain predict --ckpt RUN INPUT...
		export|gtrain ckpt convert RUN -o OUT
		convert|gtrain ckpt convert
		diff|gtrain ckpt diff
		ls|gtrain ckpt ls FILE
		download|gtrain data get NAME
		info|gtrain probe
	END
}

@test "values of options: any case, and other programs' words lead on" {
	local option value text
	gtrain train "${small[@]}" --optimizer AdamW --parallel DDP --lr-schedule Cosine --dry-run
	equal "$status" 0
	while read -r option value text; do
		gtrain train "${small[@]}" --"$option" "$value"
		equal "$status" 2
		[[ $err == *"--$option: '$value' is not one of "*$'\n'"hint: $text" ]]
	done <<-'END'
		parallel fsdp did you mean 'zero3'?
		amp float16 did you mean 'fp16'?
		optimizer adamx did you mean 'adam'?
		optimizer rmsprop 'gtrain train --help' lists the options
	END
	while IFS='|' read -r option value text; do
		gtrain train "${small[@]}" --"$option" "$value"
		equal "$status" 2
		[[ $err == *"--$option: '$value' is not a "*$'\n'"hint: $text" ]]
	done <<-'END'
		val-split|20%|did you mean '0.2'?
		val-split|120%|hold out this fraction of the data for evaluation
		save-every|epoch|steps between checkpoints; 0: only at the end
		lr|auto|highest learning rate
	END
}

@test "a reproducible run counts the samples of its step, not those of virtual ranks" {
	gtrain train "${small[@]}" --steps 2 --out run --reproducible
	equal "$status" 0
	[[ $err == *"run: cpu, 2 steps of 8 samples, "* ]]
	gtrain train "${small[@]}" --steps 2 --batch 4 --nproc 2 --out ranks --reproducible
	equal "$status" 0
	[[ $err == *" steps of 8 samples, "*$'\nbatch 4 x accumulate 1 x 2 ranks = 8\n'* ]]
}
