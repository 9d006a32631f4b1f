#!/usr/bin/env bats
# predict.bats - gtrain predict.
# shellcheck disable=SC2016,SC2154 # code for others; what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	folders 6 cat dog
	"$GTRAIN" train --model lenet --data images:images,channels=1,size=12,mean=0.4,std=0.3 --batch 4 --steps 20 \
		--lr 1e-3 --out pictures -q
	{
		echo a,b,kind
		rows 40 'print(i % 2 + i / 100, i / 50, ("no", "yes")[i % 2], sep=",")'
	} >table.csv
	"$GTRAIN" train --model mlp:2,8,2 --data csv:table.csv --batch 8 --steps 40 --lr 0.1 --out table -q
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

# The answers of eval, in the columns of predict --csv --top 1: input, class, probability.
evaluated() {
	"$GTRAIN" eval --ckpt "$1" --data "$2" --predictions p.csv -q >eval.txt
	sed 1d p.csv | cut -d, -f1,3,4
}

@test "the answers are those of eval, for images and rows, whatever the batch and the ranks" {
	local wanted more
	wanted=$(evaluated pictures images:images | sed 's,^,images/,')
	for more in "" "--batch 1 --workers 0" "--batch 5 --nproc 2" "--nproc 3 --batch 1"; do
		# shellcheck disable=SC2086 # several words
		gtrain predict --ckpt pictures --csv --top 1 images $more
		equal "$status" 0
		equal "$(sed 1d <<<"$out" | cut -d, -f1,3,4)" "$wanted"
	done
	gtrain predict --ckpt pictures --csv --top 1 images/cat images/dog --nproc 2
	equal "$status" 0
	equal "$(sed 1d <<<"$out" | cut -d, -f1,3,4)" "$wanted"
	wanted=$(evaluated table csv:table.csv | cut -d, -f2-)
	gtrain predict --ckpt table --csv --top 1 table.csv
	equal "$(sed 1d <<<"$out" | cut -d, -f3,4)" "$wanted"
	equal "$(sed -n '2p;$p' <<<"$out" | cut -d, -f1)" $'table.csv:2\ntable.csv:41'
}

@test "text, CSV and JSON hold the same numbers; probabilities of all classes add up to 1" {
	gtrain predict --ckpt pictures images/dog/000.png images/cat/003.png --json
	equal "$status" 0
	check "$out" 'list(d) == ["predictions"] and [p["input"] for p in d["predictions"]]
		== ["images/dog/000.png", "images/cat/003.png"] and all(
		sorted(c["class"] for c in p["classes"]) == ["cat", "dog"] and
		abs(sum(c["probability"] for c in p["classes"]) - 1) < 1e-5 and
		p["classes"][0]["probability"] >= p["classes"][1]["probability"] for p in d["predictions"])'
	local json=$out
	gtrain predict --ckpt pictures images/dog/000.png images/cat/003.png --csv
	equal "$out" "$(python3 -c 'import json, sys
print("input,rank,class,probability")
for p in json.loads(sys.argv[1])["predictions"]:
	for i, c in enumerate(p["classes"]):
		print(p["input"], i + 1, c["class"], "%.6g" % c["probability"], sep=",")' "$json")"
	gtrain predict --ckpt pictures images/dog/000.png images/cat/003.png
	equal "$(tr -s ' ' <<<"$out")" "$(python3 -c 'import json, sys
for p in json.loads(sys.argv[1])["predictions"]:
	print(p["input"], *("%s %.2f %%" % (c["class"], 100 * c["probability"]) for c in p["classes"]))' "$json")"
}

@test "more classes than fit into a line get a line each; classes without names are numbers" {
	"$GTRAIN" train --model mlp:8,4,9 --data random:8/9,samples=32 --batch 8 --steps 2 --out nine -q
	echo 1,2,3,4,5,6,7,8 >row.csv
	gtrain predict --ckpt nine --top 7 row.csv
	equal "$(wc -l <<<"$out")" 1
	gtrain predict --ckpt nine --top 100 row.csv
	equal "$(wc -l <<<"$out")" 9
	equal "$(tr -s ' ' <<<"$out" | cut -d' ' -f2 | sort | tr -d '\n')" 012345678
	[[ $out == row.csv:1* ]]
}

@test "columns are found by their names, in any order, among others; without names by their place" {
	local wanted
	gtrain predict --ckpt table --csv table.csv
	wanted=$(cut -d, -f2- <<<"$out")
	awk -F, '{ print NR "," $2 "," $3 "," $1 }' table.csv | sed 's/^1,/id,/' >other.csv
	for given in "other.csv" "- <other.csv" "- < <(sed 1d table.csv | cut -d, -f1,2)"; do
		eval "gtrain predict --ckpt table --csv $given"
		equal "$status" 0
		equal "$(cut -d, -f2- <<<"$out")" "$wanted"
	done
	equal "$(sed -n 2p <<<"$out" | cut -d, -f1)" -:1
}

@test "standard input may be an image; a checkpoint that was copied elsewhere knows its classes" {
	cp pictures/model.pth alone.pth
	gtrain predict --ckpt pictures images/cat/001.png --csv
	local wanted=${out//images\/cat\/001.png/-}
	gtrain predict --ckpt alone.pth --csv - <images/cat/001.png
	equal "$out" "$wanted"
	gtrain predict --ckpt alone.pth --csv - < <(cat images/cat/001.png)
	equal "$out" "$wanted"
}

@test "a checkpoint of another program wants mean and std; what differs from training is told" {
	cp pictures/model.pth bare.pth
	forget bare.pth
	gtrain predict --ckpt bare.pth --model lenet images/cat/001.png
	equal "$status" 1
	[[ $err == *"has shape"* ]]
	cp table/model.pth bare.pth
	forget bare.pth
	gtrain predict --ckpt bare.pth --model mlp:2,8,2 table.csv --read mean=0.5
	equal "$status" 2
	gtrain predict --ckpt pictures images/cat/001.png --read mean=0.5
	equal "$status" 0
	[[ $err == *"--read: mean=0.5, but the model was trained with mean=0.4"* ]]
	"$GTRAIN" train --model resnet20 --data random,samples=32 --batch 8 --steps 1 --out net -q
	cp net/model.pth bare.pth
	forget bare.pth
	gtrain predict --ckpt bare.pth --model resnet20 images/cat/001.png
	equal "$status" 0
	[[ $err == *"'bare.pth' does not say how pixels were normalized"* ]]
	gtrain predict --ckpt bare.pth --model resnet20 images/cat/001.png --read mean=0.5,std=0.2 -q
	equal "$err" ""
}

@test "a checkpoint whose last layer alone has another number of classes is told with the setting" {
	local vit=vit:image=12,patch=4,layers=1,heads=2,width=16 pictures=images:images,channels=3,size=12
	gtrain train --model "$vit" --data "$pictures" --batch 8 --steps 1 --out vit -q
	cp vit/model.pth bare.pth
	forget bare.pth
	gtrain predict --ckpt bare.pth --model "$vit" images/cat/001.png -q
	equal "$status" 1
	[[ $err == *"bare.pth: the last layer has 2 classes, but the model has 1000
hint: add the setting classes=2 to --model"* ]]
	gtrain predict --ckpt bare.pth --model "$vit,classes=2" images/cat/001.png -q
	equal "$status" 0
	gtrain predict --ckpt bare.pth --model "${vit/16/8}" images/cat/001.png -q
	[[ $status == 1 && $err == *"has shape "*"hint: is it a checkpoint of this model"* ]]
	rm -rf three && cp -r images three && cp -r images/cat three/cow
	gtrain eval --ckpt bare.pth --model "$vit" --data "${pictures/images:images/images:three}" -q
	equal "$status" 1
	[[ $err == *"the last layer has 2 classes, but the model has 3
hint: use --data with 2 classes, or check that the checkpoint is of --model"* ]]
}

@test "the tokens that may follow each line of a text, as generate writes them" {
	local prompt token at=0
	"$GTRAIN" train --model "$GPT" --data text:"$ROOT/LICENSE" --steps 30 --batch 4 --lr 1e-2 --out speaks -q
	printf 'Permission is \r\n\n  \nTHE SOFTWARE IS' >lines.txt
	gtrain predict --ckpt speaks lines.txt -q
	equal "$status:$err" 0:
	[[ $out == "lines.txt:1  '"*" %"*$'\n'"lines.txt:4  '"*" %" ]]
	gtrain predict --ckpt speaks --top 2 --json - <lines.txt -q
	for prompt in 'Permission is ' 'THE SOFTWARE IS'; do
		"$GTRAIN" generate --ckpt speaks --prompt "$prompt" --tokens 1 --temperature 0 --json -q >written
		token=$(python3 -c 'import json, sys; print(repr(json.load(open("written"))["text"][int(sys.argv[1]):]))' "${#prompt}")
		check "$out" "d['predictions'][$at]['classes'][0]['class'] == $token"
		at=$((at + 1))
	done
	check "$out" '[p["input"] for p in d["predictions"]] == ["-:1", "-:4"]'
	gtrain predict --ckpt speaks --top 2 --csv lines.txt -q
	[[ $out == "input,rank,class,probability"$'\n'"lines.txt:1,1,"* && $(wc -l <<<"$out") -ge 5 ]]
}

@test "what cannot be answered is refused in one line" {
	local given status_wanted text
	echo text >text.txt
	echo 1,2,3 >wide.csv
	echo 1,x >word.csv
	echo 1,2 >two.csv
	printf 'a,c\n1,2\n' >column.csv
	python3 -c 'import struct
head = b"""{"0.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"0.bias":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}}"""
open("nan.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<6f", 1, 2, 3, 4, 5, float("nan")))'
	"$GTRAIN" train --model "$GPT" --data text:"$ROOT/LICENSE" --steps 1 --batch 2 --out words -q
	python3 -c 'open("ids.bin", "wb").write(bytes(400))'
	"$GTRAIN" train --model "$GPT,vocab=9" --data tokens:ids.bin,vocab=9,type=uint16 --steps 1 --batch 2 --out ids -q
	printf 'fine\n\303\251\n' >odd.txt
	printf '\n \r\n' >blank.txt
	mkdir -p empty gifs
	printf 'GIF89a...........' | tee cat.gif >gifs/1.gif
	while IFS='|' read -r given status_wanted text; do
		eval "gtrain predict $given -q"
		equal "$status" "$status_wanted"
		[[ $err == *"$text"* && $(grep -c error: <<<"$err") == 1 && $out == "" ]] || {
			printf '%s:\n%s\n' "$given" "$err"
			return 1
		}
	done <<-'CASES'
		--ckpt pictures|2|no input is named
		--ckpt pictures missing.png|1|cannot open 'missing.png'
		--ckpt pictures text.txt|1|'text.txt': neither a JPEG, a PNG nor a WebP
		--ckpt pictures empty|2|'empty' holds no images
		--ckpt pictures - -|2|standard input is named 2 times
		--ckpt pictures - --nproc 2|2|2 ranks cannot share standard input
		--ckpt pictures - </dev/null|1|neither a JPEG, a PNG nor a WebP
		--ckpt pictures cat.gif|1|'cat.gif': GIF is a format that gtrain does not read
		--ckpt pictures gifs|2|'gifs' holds no images that gtrain reads, but files of GIF
		--ckpt pictures images --read split=a|2|unknown option 'split'
		--ckpt pictures images --json --csv|2|--csv
		--ckpt table wide.csv|1|rows of 3 features, but the model was trained on 2
		--ckpt table word.csv|1|'x' is not a number
		--ckpt table column.csv|1|no column 'b', but the model was trained with it
		--ckpt table - </dev/null|1|there are no rows
		--ckpt nan.safetensors --model mlp:2,2 two.csv|1|the answer to 'two.csv:1' is not finite
		--ckpt words odd.txt|1|'odd.txt': line 2: the character
		--ckpt words blank.txt|1|'blank.txt': there are no lines with text
		--ckpt words text.txt --read level=byte|2|unknown option 'level'
		--ckpt ids text.txt|2|there is no tokenizer or vocabulary
	CASES
}
