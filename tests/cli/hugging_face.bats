#!/usr/bin/env bats
# hugging_face.bats - folders of Hugging Face: what is read, refused and written.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	head -c 3000 "$ROOT/LICENSE" >text.txt
}

# A run, and the folder made of it.
exported() {
	gtrain train --model "$GPT" --data text:text.txt --steps 3 --batch 2 --out run -q
	equal "$status" 0
	gtrain ckpt convert run --to hf -o hf
	equal "$status" 0
}

loss() {
	"$GTRAIN" eval "$@" --data text:text.txt --json -q | jq .loss
}

# The folder checkpoint-3 of Hugging Face's Trainer: the weights of hf, and an optimizer of PyTorch's old format.
checkpoint_of_trainer() {
	cp -r hf checkpoint-3
	python3 - <<-'END'
		import json, pickle, struct
		header = open("hf/model.safetensors", "rb").read()
		header = json.loads(header[8:8 + struct.unpack("<Q", header[:8])[0]])
		group = {"lr": 0.1, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False,
		         "params": list(range(len([key for key in header if key != "__metadata__"])))}
		with open("checkpoint-3/optimizer.pt", "wb") as f:
		    for part in 0x1950a86a20f9469cfc6c, 1001, {"little_endian": True}, {"state": {}, "param_groups": [group]}, []:
		        pickle.dump(part, f, protocol=2)
		json.dump({"global_step": 3, "epoch": 0}, open("checkpoint-3/trainer_state.json", "w"))
	END
}

# with EXPRESSION: config.json of hf, changed by jq, in the folder bad.
with() {
	rm -rf bad && cp -r hf bad && rm bad/generation_config.json && jq "$1" hf/config.json >bad/config.json
}

# head_added FILE DELTA: add a tensor lm_head.weight to a safetensors file, a copy of the embedding but for DELTA, which
# is added to the bytes of its last element.
head_added() {
	python3 -c 'import json, sys
raw = open(sys.argv[1], "rb").read()
size = int.from_bytes(raw[:8], "little")
header, data = json.loads(raw[8:8 + size]), bytearray(raw[8 + size:])
facts = header.pop("__metadata__", {})
header["__metadata__"] = {k: v for k, v in facts.items() if k == "gtrain.about"}
name = "transformer.wte.weight" if "transformer.wte.weight" in header else "model.embed_tokens.weight"
wte = header.setdefault(name, header.get("lm_head.weight"))
begin, end = wte["data_offsets"]
header["lm_head.weight"] = {**wte, "data_offsets": [len(data), len(data) + end - begin]}
data += data[begin:end - 4] + bytes((c + int(sys.argv[2])) % 256 for c in data[end - 4:end])
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(len(text).to_bytes(8, "little") + text + data)' "$@"
}

# says TEXT: it is part of standard error.
says() {
	[[ $err == *"$1"* ]] || {
		printf 'wanted: %s\nin:     %s\n' "$1" "$err"
		return 1
	}
}

@test "a run becomes a folder that is read back to the same loss" {
	exported
	[[ $err == "no tokenizer is written: transformers has none for a vocabulary of characters or bytes"* ]]
	equal "$(ls hf)" $'config.json\ngeneration_config.json\nmodel.safetensors'
	check "$(<hf/config.json)" 'd["model_type"] == "gpt2" and d["n_embd"] == 16 and d["n_inner"] == 64
		and d["bos_token_id"] is None and d["architectures"] == ["GPT2LMHeadModel"]'
	equal "$(loss --ckpt hf --vocab run/vocab.json)" "$(loss --ckpt run)"
	gtrain ckpt convert run --to hf -o half --dtype bf16
	# The size is that of the file, which has two bytes for each number.
	[[ $err == *"half: 16 tensors, $(stat -c %s half/model.safetensors | awk '{ printf "%.1f KiB", $1 / 1024 }'), hf" ]]
	gtrain ckpt convert run --to hf -o small --dtype bf16 --shard-size 4K --json
	equal "$status" 0
	check "$out" 'd["format"] == "hf" and d["output"] == "small" and d["tensors"] == 16'
	[[ -e small/model.safetensors.index.json ]]
	equal "$(jq -r .torch_dtype small/config.json)" bfloat16
	gtrain eval --ckpt small --vocab run/vocab.json --data text:text.txt -q
	equal "$status" 0
}

@test "--model and --init-from take a folder, and the run does not need it later" {
	exported
	mkdir sub && mv hf sub/hf
	gtrain train --model sub/hf/ --init-from sub/hf --data text:text.txt --steps 2 --batch 2 -q
	equal "$status" 0
	equal "$(cd runs && echo hf-*)" "$(ls runs)"
	mv runs/hf-* other && rm -r sub
	check "$(<other/config.json)" 'd["model"].startswith("gpt2:layers=1,heads=2,width=16,") and d["names"] == "auto"'
	gtrain train --resume other --steps 4
	equal "$status" 0
	gtrain generate --ckpt other --tokens 3 -q
	equal "$status" 0
}

@test "--model takes the weights of a folder, and --init random leaves them" {
	local folder more wanted
	exported
	cp -r hf bare && rm bare/model.safetensors
	while IFS='|' read -r folder more wanted; do
		# shellcheck disable=SC2086 # several words
		gtrain train --model "$folder" $more --data text:text.txt --steps 2 --batch 2 --lr 1e-4 --out new
		equal "$status" 0
		says "$wanted"
		cp -r new "$folder-${more##* }"
		# config.json repeats the run.
		gtrain train --config new/config.json --out again -q
		equal "$(jq -c .loss again/metrics.jsonl)" "$(jq -c .loss new/metrics.jsonl)"
		rm -r new again
	done <<-'END'
		hf||weights from hf
		hf|--init random|--init random: the weights in 'hf' are not used
		hf|--init-from run|weights from run/checkpoints/step-00000003.pth
		bare||'bare' has no weights: the run starts from random weights
		bare|--init random|'bare' has no weights: the run starts from random weights
	END
	check "$(<hf-/config.json)" 'd["init-from"] == "hf" and d["init"] is None and d["model"].startswith("gpt2:")'
	check "$(<hf-random/config.json)" 'd["init-from"] is None and d["init"] == "random"'
	equal "$(jq .loss hf-random/metrics.jsonl)" "$(jq .loss bare-/metrics.jsonl)"
	[[ $(jq .loss hf-/metrics.jsonl) != "$(jq .loss hf-random/metrics.jsonl)" ]]
	gtrain train --config hf-/config.json --init random --out new
	equal "$status" 0
	[[ $err != *"weights from"* ]]
	equal "$(jq .loss new/metrics.jsonl)" "$(jq .loss hf-random/metrics.jsonl)"
	# The same command begins a run and goes on with it, with its own weights.
	gtrain train --model hf --data text:text.txt --steps 4 --batch 2 --lr 1e-4 --out hf- --resume auto
	equal "$status" 0
	says "resuming from hf-/checkpoints/step-00000002.pth"
	[[ $err != *"weights from"* ]]
}

@test "--init conflicts with other sources of weights" {
	exported
	local more wanted
	while IFS='|' read -r more wanted; do
		# shellcheck disable=SC2086 # several words
		gtrain train --model hf --data text:text.txt --steps 2 --out new $more
		equal "$status" 2
		says "$wanted"
		[[ ! -e new ]]
	done <<-'END'
		--init random --init-from run|--init-from cannot be combined with --init
		--init random --resume run/checkpoints/step-00000003.pth|--init has no effect with --resume
		--init zeros|--init: 'zeros' is not one of random
	END
}

@test "--init-from supplies --model from a run, a checkpoint, a folder" {
	exported
	for from in run run/model.pth run/checkpoints/step-00000003.pth hf; do
		gtrain train --init-from "$from" --data text:text.txt --steps 1 --batch 2 --out new
		equal "$status" 0
		says "weights from $from"
		check "$(<new/config.json)" 'd["model"].startswith(("gpt:layers=1,heads=2,width=16,", "gpt2:layers=1,heads=2,width=16,"))'
		rm -r new
	done
	gtrain ckpt convert run -o plain.npz
	gtrain train --init-from plain.npz --data text:text.txt --steps 1 --out new
	equal "$status" 2
	says "--model is missing, and neither 'plain.npz' nor a config.json of its run says it"
	[[ ! -e new && ! -e runs ]]
}

@test "a folder's name counts behind those of models, and one that is missing is said" {
	exported
	mv hf gpt2
	gtrain train --model gpt2 --data text:text.txt --steps 1 --batch 1 --dry-run
	equal "$status" 0
	[[ $out == *"gpt2, 124439808 parameters"* ]]
	gtrain train --model ./gpt2 --data text:text.txt --steps 1 --batch 1 --dry-run
	equal "$status" 0
	[[ $out == *"gpt2, 4"???" parameters"* ]]
	gtrain train --model ./nosuch --data text:text.txt --steps 1
	equal "$status" 1
	[[ $err == *"--model: cannot open the folder './nosuch'"* ]]
	mkdir empty
	gtrain eval --model ./empty --ckpt run --data text:text.txt
	equal "$status" 1
	[[ $err == *"--model: the folder './empty' has no config.json"* ]]
	gtrain train --model run --data text:text.txt --steps 1 --out other
	equal "$status" 2
	equal "$err" "gtrain: error: --model: 'run' is a run of gtrain, not a folder of transformers
hint: --init-from run takes its model and weights for a new run, --resume auto --out run continues it"
	gtrain train --model run/model.pth --data text:text.txt --steps 1 --out other
	equal "$status" 2
	equal "$err" "gtrain: error: --model: 'run/model.pth' is a file, not a folder of transformers
hint: weights of a checkpoint are taken with --init-from run/model.pth"
	gtrain train --model gpt --init-from random --data text:text.txt --steps 1 --out other
	equal "$status" 1
	[[ $err == *"'random': No such file or directory"*"hint: --init random starts from random weights" ]]
}

@test "a tied model refuses a head of its own, and takes one that is a copy" {
	exported
	local wanted delta llama
	wanted=$(loss --ckpt run)
	for delta in 0 1; do
		rm -rf own && cp -r hf own && head_added own/model.safetensors $delta
		[[ $delta == 1 ]] || {
			equal "$(loss --ckpt own --vocab run/vocab.json)" "$wanted"
			continue
		}
		for command in "eval --ckpt own --vocab run/vocab.json --data text:text.txt" \
			"train --model ./own --init-from own --data text:text.txt --steps 1" \
			"train --model ./own --init-from own --strict no --data text:text.txt --steps 1" \
			"eval --ckpt own/model.safetensors --model $GPT --names huggingface --vocab run/vocab.json --data text:text.txt"; do
			# shellcheck disable=SC2086
			gtrain $command
			equal "$status" 1
			[[ $err == *"own"*": tensors 'transformer.wte.weight' and 'lm_head.weight' differ, but the model uses one tensor for both"* ||
				$err == *"own"*": tensors 'lm_head.weight' and 'transformer.wte.weight' differ, but the model uses one tensor for both"* ]] || {
				echo "$command: $err"
				return 1
			}
		done
	done
	# A llama is tied or not: its head is ignored in neither case.
	llama=llama:layers=1,heads=2,width=16,block=16
	gtrain train --model $llama,tied=yes --data text:text.txt --steps 1 --batch 2 --out tied -q
	gtrain ckpt convert tied --to hf -o other
	cp other/model.safetensors tied.safetensors
	equal "$(loss --ckpt tied.safetensors --model $llama,tied=yes --vocab tied/vocab.json)" "$(loss --ckpt tied)"
	head_added tied.safetensors 1
	gtrain eval --ckpt tied.safetensors --model $llama,tied=yes --vocab tied/vocab.json --data text:text.txt
	equal "$status" 1
	[[ $err == *"'model.embed_tokens.weight'"*"'lm_head.weight'"*" differ"* || $err == *"'lm_head.weight'"*"'model.embed_tokens.weight' differ"* ]]
	gtrain eval --ckpt tied.safetensors --model $llama --vocab tied/vocab.json --data text:text.txt
	equal "$status" 0
	# Nor is it left out of a folder that is written.
	gtrain ckpt convert tied -o whole.safetensors
	head_added whole.safetensors 1
	gtrain ckpt convert whole.safetensors --to hf -o none
	equal "$status" 1
	[[ $err == *"'whole.safetensors': tensors 'model.embed_tokens.weight' and 'lm_head.weight' differ"* && ! -e none ]]
}

@test "settings that are not known are refused by name, and nothing is ignored" {
	exported
	local change part
	while IFS='|' read -r change part; do
		with "$change"
		for command in "train --model ./bad --steps 1 --data text:text.txt" "generate --ckpt bad" \
			"train --model $GPT --init-from bad --steps 1 --data text:text.txt"; do
			# shellcheck disable=SC2086
			gtrain $command
			[[ $status == 1 && $err == *"bad/config.json': $part"* && $err != *"gtrain help"* ]] || {
				echo "$change: $status: $err"
				return 1
			}
		done
		[[ ! -e runs ]]
	done <<-'END'
		.sliding_window = 4|'sliding_window' is a setting that gtrain does not know
		.scale_attn_by_inverse_layer_idx = true|'scale_attn_by_inverse_layer_idx' is true, which is not supported
		.n_layer = 1e30|'n_layer': model 'gpt2': '1e+30' is not a value for 'layers'
		.n_layer = 0|'n_layer': model 'gpt2': '0' is not a value for 'layers'
		.n_head = 3|'n_head' is 3, which does not divide 'n_embd', 16
		.n_layer = {"a": 1}|'n_layer' has a value that is not supported
		.model_type = "t5"|'model_type': 't5' is not supported
		.eos_token_id = "x"|'eos_token_id' must be an id
	END
}

@test "hostile files are refused at once" {
	exported
	python3 -c 'print("{\"model_type\":\"gpt2\",\"x\":" + "[" * 100000 + "]" * 100000 + "}")' >deep
	python3 -c 'print("{\"model_type\":\"gpt2\",\"x\":[" + "0," * 3000000 + "0]}")' >long
	printf '{"model_type":"gpt2","model_type":"gpt2"}' >twice
	local file part
	while IFS='|' read -r file part; do
		rm -rf bad && cp -r hf bad && cp "$file" bad/config.json
		gtrain train --model ./bad --steps 1 --data text:text.txt
		equal "$status" 1
		[[ $err == *"bad/config.json'$part"* ]] || {
			echo "$file: $err"
			return 1
		}
		gtrain eval --ckpt bad --data text:text.txt
		[[ $status != 0 ]]
	done <<-'END'
		deep|: line 1: maximum parsing depth reached
		long|: 6000030 bytes, more than 4194304
		twice|: line 1: duplicate object key
		/dev/null|: line 1: '[' or '{' expected
	END
	rm bad/config.json && mkfifo bad/config.json
	gtrain train --model ./bad --steps 1 --data text:text.txt
	equal "$status" 1
	with .
	echo '[' >bad/generation_config.json
	gtrain generate --ckpt bad --vocab run/vocab.json
	equal "$status" 1
	[[ $err == *"bad/generation_config.json'"* ]]
	with '.eos_token_id = [range(20)]'
	gtrain generate --ckpt bad --vocab run/vocab.json
	[[ $err == *"'eos_token_id' must be an id, or a list of at most 16"* ]]
}

@test "a run keeps the tokens that begin and end texts, and text ends before the latter" {
	exported
	with '.eos_token_id = [3, 200]' && echo '{"add_bos_token": false}' >bad/tokenizer_config.json
	gtrain train --model ./bad --init-from bad --data text:text.txt --steps 1 --batch 2 --lr 1e-9 --out again -q
	equal "$status" 0
	check "$(<again/config.json)" 'd["about"]["data"]["eos"] == [3, 200] and d["about"]["data"]["bos"] is None'
	# The likeliest token of all: it ends the text at once.
	local id
	id=$(python3 -c 'import json, sys
tokens = json.load(open("run/vocab.json"))["tokens"]
print(tokens.index(sys.argv[1]))' "$("$GTRAIN" generate --ckpt run --prompt a --tokens 1 --temperature 0 -q | tail -c +2 | head -c 1)")
	with ".eos_token_id = $id"
	gtrain generate --ckpt bad --vocab run/vocab.json --prompt a --tokens 5 --temperature 0 -q
	equal "$out" a
	with ".bos_token_id = 500" && echo '{"add_bos_token": true}' >bad/tokenizer_config.json
	gtrain generate --ckpt bad --vocab run/vocab.json
	[[ $status != 0 && $err == *"the token 500, which begins texts, is not in the vocabulary"* ]]
}

@test "weights of another shape, or other settings, are told" {
	exported
	with '.n_embd = 32'
	gtrain train --model ./bad --init-from bad --data text:text.txt --steps 1 --out r
	equal "$status" 1
	[[ $err == *"has shape "*"the model wants "* ]]
	checkpoint_of_trainer
	local model="${GPT/heads=2/heads=4}" words
	for words in "train --init-from hf --steps 1 --out a" "train --init-from run --steps 1 --out b" \
		"train --resume checkpoint-3 --steps 4 --out c --optimizer sgd" "eval --ckpt run" "eval --ckpt hf" \
		"predict --ckpt run" "generate --ckpt run --tokens 1"; do
		[[ $words == predict* ]] && set -- text.txt || set -- --data text:text.txt
		[[ $words == generate* ]] && set --
		# shellcheck disable=SC2086 # several words
		gtrain $words --model "$model" "$@"
		[[ $status == 0 && $err == *"--model gpt:layers=1,"*"heads=4"*"has the weights of gpt"*":layers=1,heads=2,"* ]] || {
			echo "$words: $err"
			return 1
		}
		rm -rf a b c
		# shellcheck disable=SC2086
		gtrain $words --model "$GPT" "$@"
		[[ $status == 0 && $err != *"has the weights of"* ]] || {
			echo "$words: $err"
			return 1
		}
	done
}

@test "a folder with weights alone is not a run to go on with, nor the directory of one" {
	exported
	for options in "" "--model hf --data text:text.txt --out new"; do
		# shellcheck disable=SC2086 # several words
		gtrain train --resume hf $options
		equal "$status" 1
		equal "$err" "gtrain: error: 'hf' is no training checkpoint: it has the weights alone
hint: --init-from starts a new run from its weights"
	done
	gtrain train --resume auto --out hf --model hf --data text:text.txt
	equal "$status" 1
	[[ $err == *"'hf/config.json' is there already and belongs to no run"* ]]
}

@test "--names is for files of programs that have the model" {
	exported
	gtrain eval --ckpt hf/model.safetensors --model "$GPT" --vocab run/vocab.json --data text:text.txt --names timm
	equal "$status" 2
	[[ $err == *"--names timm: there is no model 'gpt'"* ]]
	gtrain train --model "$GPT" --data text:text.txt --steps 1 --names timm
	equal "$status" 2
	[[ $err == *"--names has no effect with these options"* ]]
}

@test "images bring the names of their classes, and how they are normalized" {
	folders 2 cat dog
	gtrain train --model vit:layers=1,heads=2,width=16,patch=4 --data images:images,mean=0.5,std=0.25 --steps 1 --batch 2 --out run -q
	equal "$status" 0
	gtrain ckpt convert run --to hf -o hf
	equal "$status" 0
	check "$(<hf/config.json)" 'd["id2label"] == {"0": "cat", "1": "dog"} and d["image_size"] == 32 and d["num_channels"] == 3'
	check "$(<hf/preprocessor_config.json)" 'd["image_mean"] == [0.5] * 3 and d["crop_size"] == {"height": 32, "width": 32}'
	gtrain predict --ckpt hf images/cat/000.png --json -q
	check "$out" '{c["class"] for c in d["predictions"][0]["classes"]} == {"cat", "dog"}'
	gtrain generate --ckpt hf
	equal "$status" 2
	[[ $err == *"'hf' has model 'vit-base', which is no language model"* ]]
	gtrain predict --ckpt hf/model.safetensors --model ./hf images/cat/000.png
	equal "$status" 1
	[[ $err == *"20 keys are missing"*"hint: the keys are the names of huggingface: add --names huggingface"* ]]
	gtrain predict --ckpt hf/model.safetensors --model ./hf images/cat/000.png --names huggingface -q
	equal "$status" 0
	gtrain predict --ckpt hf/model.safetensors --model lenet --read size=28 images/cat/000.png
	[[ $status == 1 && $err == *"hint: --map "* ]]
	jq '.do_pad = true' hf/preprocessor_config.json >p && mv p hf/preprocessor_config.json
	gtrain predict --ckpt hf images/cat/000.png
	equal "$status" 1
	[[ $err == *"'do_pad' is true, which is not supported"* ]]
}

@test "a regression keeps its meaning and the scale of its target" {
	folders 1 cat
	python3 -c 'import random, struct, sys
sys.path.insert(0, sys.argv[1])
from small_files import npy, write
write("./x.npy", npy("|u1", (8, 12, 12), random.Random(1).randbytes(8 * 144)))
write("./y.npy", npy("<f4", (8,), struct.pack("<8f", *range(8))))' "$ROOT"/tests/common
	gtrain train --model vit:layers=1,heads=2,width=16,patch=4 --data npy:x.npy,target=y.npy,task=regression --steps 2 --batch 8 --out run -q
	equal "$status" 0
	# Arrays have no scale of their own: plant one, as other data may have it.
	python3 -c 'import zipfile
with zipfile.ZipFile("run/model.pth") as old, zipfile.ZipFile("scaled.pth", "w") as new:
	for name in old.namelist():
		new.writestr(name, old.read(name).replace(b"""{"mean":0.0,"std":1.0}""", b"""{"mean":1e2,"std":8.0}"""))'
	for from in run scaled.pth; do
		gtrain ckpt convert "$from" --to hf -o hf --shard-size 8K
		equal "$status" 0
		[[ $from == run || $err == *"(target - mean) / std, with mean 100 and std 8"* ]]
		check "$(<hf/config.json)" 'd["id2label"] == {"0": "LABEL_0"} and d["problem_type"] == "regression"'
		for part in "predict images/cat/000.png" "eval --data npy:x.npy,target=y.npy"; do
			# shellcheck disable=SC2086 # several words
			"$GTRAIN" $part --ckpt "$from" --json -q >"$from.json"
			# shellcheck disable=SC2086
			equal "$("$GTRAIN" $part --ckpt hf --json -q)" "$(<"$from.json")"
		done
		rm -r hf
	done
	check "$(jq -s 'map(.r2)' run.json scaled.pth.json)" 'd[1] < -100 < d[0]'
}

@test "one class remains one class, and several labels are no regression" {
	folders 2 cat
	gtrain train --model vit:layers=1,heads=2,width=16,patch=4 --data images:images,size=12 --steps 1 --batch 2 --out run -q
	gtrain ckpt convert run --to hf -o hf
	equal "$status" 0
	gtrain eval --ckpt hf --data images:images,size=12 --json -q
	check "$out" 'd["top1"] == 1'
	jq '.problem_type = "regression" | .id2label = {"0": "x", "1": "y"}' hf/config.json >p && mv p hf/config.json
	gtrain predict --ckpt hf images/cat/000.png
	equal "$status" 1
	[[ $err == *"'hf/config.json': 'problem_type' is 'regression' with 2 labels"* ]]
}

@test "a folder that names no labels has two, or as many as num_labels says" {
	folders 2 0 1
	gtrain train --model vit:layers=1,heads=2,width=16,patch=4 --data images:images,size=12 --steps 1 --batch 2 --out run -q
	gtrain ckpt convert run --to hf -o hf
	local wanted change
	wanted=$("$GTRAIN" predict --ckpt hf images/0/000.png -q)
	for change in . '.num_labels = 2'; do
		jq "del(.id2label, .label2id) | $change" hf/config.json >p && cp -r hf two && mv p two/config.json
		gtrain predict --ckpt two images/0/000.png -q
		equal "$out" "$wanted"
		gtrain eval --ckpt two --data images:images,size=12 -q
		equal "$status" 0
		rm -r two
	done
	jq "del(.id2label, .label2id) | .num_labels = 3" hf/config.json >p && mv p hf/config.json
	gtrain predict --ckpt hf images/0/000.png
	equal "$status" 1
	equal "$err" "gtrain: error: hf: the last layer has 2 classes, but the model has 3
hint: is it a checkpoint of this model, with these settings?"
}

@test "a folder with files, a model of gtrain's own and a file without a model are refused, and nothing is left" {
	exported
	gtrain ckpt convert run --to hf -o hf
	equal "$status" 2
	[[ $err == *"the folder 'hf' is not empty"* ]]
	equal "$(loss --ckpt hf --vocab run/vocab.json)" "$(loss --ckpt run)"
	gtrain ckpt convert hf --to hf -o other
	equal "$status" 2
	[[ $err == *"'hf' is a folder of Hugging Face's already"* ]]
	gtrain ckpt convert hf/model.safetensors --to hf -o other
	equal "$status" 2
	[[ $err == *"'hf/model.safetensors' does not say its model, and lies in no run that does"* ]]
	gtrain train --model mlp:4,3,2 --data random --batch 2 --steps 1 --out plain -q
	gtrain generate --ckpt plain
	equal "$status" 2
	[[ $err == *"'plain/"*"' has model 'mlp', which is no language model"* ]]
	gtrain ckpt convert plain --to hf -o other
	equal "$status" 1
	[[ $err == *"model 'mlp' has no counterpart among Hugging Face's"* ]] || {
		echo "$err"
		return 1
	}
	gtrain train --model "$GPT,bias=no" --data text:text.txt --steps 1 --batch 2 --out bare -q
	gtrain ckpt convert bare --to hf -o other
	[[ $status != 0 && $err == *"a model with bias=no has no counterpart"* ]]
	[[ ! -e other ]]
	gtrain ckpt select run --to hf -o other
	equal "$status" 2
	(ulimit -f 1 && trap '' XFSZ && "$GTRAIN" ckpt convert run --to hf -o other) && return 1
	[[ ! -e other ]]
	mkdir other
	(ulimit -f 1 && trap '' XFSZ && "$GTRAIN" ckpt convert run --to hf -o other) && return 1
	equal "$(ls -A other)" ""
}
