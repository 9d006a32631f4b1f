#!/usr/bin/env bats
# recipes.bats - gtrain help recipes, and train --config NAME.
# shellcheck disable=SC2016 # inner shells expand

bats_require_minimum_version 1.5.0

setup() {
	load helpers
	load runs
	use_isa # recipes are not of small networks
	cd "$BATS_TEST_TMPDIR" || return
}

names() {
	"$GTRAIN" help recipes --json | jq -r '.recipes[].name'
}

@test "help recipes has those of cmd/recipes, each with its texts, and none says --data" {
	gtrain help recipes
	equal "$status" 0
	[[ $out == *"nanogpt-char: train a character-level GPT"*"for example --data text:input.txt"* ]]
	[[ $out == *'tokenizer=$HOME/.cache/gtrain/data/gpt2 \
      --init-from $HOME/.cache/gtrain/data/gpt2'* && $out == *" --val images:imagenet,split=val"* ]]
	equal "$(awk 'length > 80' <<<"$out")" ""
	equal "$(names)" "$(cd "$ROOT/cmd/recipes" && printf '%s\n' *.json | sed 's/\.json$//')"
	gtrain help recipes --json
	check "$out" 'all(r["title"] and r["data"] and r["text"] and "model" in r["options"] and "data" not in r["options"]
		for r in d["recipes"])'
	run -1 bash -c '"$GTRAIN" help recipes 2>&1 >/dev/full'
}

@test "each recipe is understood: a dry run plans it, and its options are those of the file" {
	local name data
	rows 4000 'print("to be, or not to be:", i * 7919 % 1000)' >input.txt
	while read -r name; do
		data=random # the model decides its shape, but for the characters of a text
		[[ $name != *char ]] || data=text:input.txt
		gtrain train --config "$name" --data $data --dry-run --json
		[ "$status" -eq 0 ] || { printf '%s: %s\n' "$name" "$err"; return 1; }
		check "$out" 'd["parameters"] > 0'
	done < <(names)
}

@test "the small recipes take steps on generated data; the command line wins" {
	rows 4000 'print("to be, or not to be:", i * 7919 % 1000)' >input.txt
	gtrain train --config nanogpt-char --data text:input.txt --steps 2 --batch 2 --warmup 0 --eval-every 2 --out shakes -q
	equal "$status:$err" 0:
	equal "$(values shakes/config.json '.steps, .batch, .["val-split"], .betas, .clip, .lr')" '[2,2,0.1,[0.9,0.99],1,0.001]'
	gtrain train --config cifar10-resnet20 --data random --batch 2 --steps 2 --warmup 1 --out cifar -q
	equal "$status:$err" 0:
	equal "$(values cifar/config.json '.optimizer, .augment, .epochs, .steps')" '["sgd","crop,flip",null,2]'
	gtrain train --config mnist-lenet --data random:,samples=48 --batch 4 --steps 2 --out digits -q
	equal "$status:$err" 0:
	lines digits/metrics.jsonl 'len(v) == 1 and v[0]["n"] == 4'
}

@test "photographs are fine-tuned from the file that data get stores" {
	local weights=data/resnet18/resnet18-f37072fd.pth i
	mkdir -p photos/{ant,bee} "${weights%/*}"
	for i in 1 2 3; do
		python3 -c 'import sys, zlib, struct
def chunk(kind, data):
	return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\0" + bytes((x * y * int(sys.argv[1])) % 251 for x in range(3 * 40)) for y in range(30))
sys.stdout.buffer.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", 40, 30, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))' $i |
			tee photos/ant/$i.png >photos/bee/$i.png
	done
	gtrain train --model resnet18:image=32 --data random,samples=4 --steps 1 --batch 2 --out pretrained -q
	equal "$status:$err" 0:
	gtrain ckpt select pretrained/checkpoints/*.pth --path model -o "$weights"
	equal "$status" 0
	gtrain train --config photos-finetune --data images:photos,size=64,norm=imagenet --init-from "$weights" --batch 4 --steps 1 --out run
	equal "$status" 0
	[[ $err == *"fc"* ]]
	check "$(<run/config.json)" 'd["about"]["data"]["classes"] == 2 and d["about"]["data"]["mean"] == [0.485, 0.456, 0.406] and d["augment"].startswith("rrc")'
}

@test "a file comes before a recipe, a folder does not; a name of neither, and a recipe without data, are told" {
	echo '{"model": "mlp:8,4,3", "steps": 1}' >mnist-lenet
	gtrain train --config mnist-lenet --data "$RANDOM_DATA" --out mine -q
	equal "$status" 0
	equal "$(jq -r .model mine/config.json)" mlp:8,4,3
	gtrain train --config mnist-lenett
	equal "$status" 1
	equal "$err" "gtrain: error: --config: there is neither a file nor a recipe 'mnist-lenett'
hint: did you mean 'mnist-lenet'?"
	gtrain train --config nothing-like-it
	equal "$err" "gtrain: error: --config: there is neither a file nor a recipe 'nothing-like-it'
hint: 'gtrain help recipes' lists the recipes"
	mkdir nanogpt-char
	gtrain train --config nanogpt-char
	equal "$status" 2
	equal "$err" "gtrain: error: --data DATA is missing
hint: for example --data text:input.txt; 'gtrain help recipes' says more"
}

@test "--config completes names and files" {
	equal "$("$GTRAIN" --complete train --config nano)" "file space "$'\n'"nanogpt-char"
	touch nanofile
	equal "$(bash -c 'source "$ROOT/completions/gtrain.bash"; compopt() { :; }
		COMP_LINE="gtrain train --config nano" COMP_POINT=26; _gtrain "$GTRAIN"
		printf "%s\n" "${COMPREPLY[@]}"' | sort)" "$(printf 'nanofile\nnanogpt-char')"
}
