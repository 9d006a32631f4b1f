#!/usr/bin/env bats
# topics.bats - gtrain help models, data, augment, and their manual pages.
# shellcheck disable=SC2016,SC2154 # code for others; what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

# The files that the examples name.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	folders 4 cat dog
	mv images photos
	python3 -c 'import io, sys, tarfile
for shard in 0, 1:
	with tarfile.open(f"shards-{shard}.tar", "w") as tar:
		for i in range(4):
			picture = open(f"photos/{sys.argv[1 + i % 2]}/{i:03}.png", "rb").read()
			for name, data in ((f"{i}.png", picture), (f"{i}.cls", b"%d" % (i % 2))):
				info = tarfile.TarInfo(name)
				info.size = len(data)
				tar.addfile(info, io.BytesIO(data))' cat dog
	cp "$ROOT/LICENSE" input.txt
	{
		echo a,b,c,d,kind
		rows 12 'print(i, i % 3, i % 5, i % 7, "uvw"[i % 3], sep=",")'
	} >flowers.csv
	python3 -c 'import os; os.mkdir("cifar-10-batches-bin")
for n in ["data_batch_%d" % i for i in range(1, 6)] + ["test_batch"]:
	open("cifar-10-batches-bin/%s.bin" % n, "wb").write(b"\3" + bytes(3072))'
	python3 -c 'import struct
open("train.bin", "wb").write(struct.pack("<1000H", *range(1000)))
open("wide.bin", "wb").write(struct.pack("<1000I", *range(1000)))'
	mkdir mnist tok model
	python3 -c 'import sys
sys.path.insert(0, sys.argv[1])
import small_files
small_files.make_data("made")' "$ROOT"/tests/common
	cp made/tok/tokenizer.json tok
	jq '(.model.vocab | length) as $n | .added_tokens += [{"id": ($n + (.added_tokens | length)), "content": "[MASK]", "special": true}]' \
		made/tok/tokenizer.json >model/tokenizer.json
	cp made/chat.jinja model
	for i in {1..60}; do echo "{\"text\": \"text number $i\"}"; done >texts.jsonl
	mv model/chat.jinja model/chat_template.jinja
	printf '{"prompt": "%s+1?", "chosen": "%s", "rejected": "no"}\n' 1 2 2 3 3 4 4 5 >preferences.jsonl
	printf '{"text": "a %s film", "label": "%s"}\n' good yes bad no >reviews.jsonl
	# A network that takes tokens, where there is PyTorch to make one.
	python3 -c 'import sys
sys.path.insert(0, sys.argv[1])
import exported, torch
class Reader(torch.nn.Module):
	def __init__(self):
		super().__init__()
		self.words, self.fc = torch.nn.Embedding(1000, 4), torch.nn.Linear(4, 2)
	def forward(self, input_ids, attention_mask):
		return self.fc(torch.mean(self.words(input_ids) * torch.unsqueeze(attention_mask, -1), [1]))
x = torch.ones(2, 20, dtype=torch.long)
exported.save(Reader(), (x, x), "reader.pt2")' "$ROOT"/tests/common 2>/dev/null || :
	jq -c '.text = (input_line_number | tostring) + " is the number of a text with some words in it"' made/chat.jsonl >train.jsonl
	cp made/[xy].npy .
	# Grey images; and some whose channels may come first or last.
	python3 -c 'import sys
sys.path.insert(0, sys.argv[1])
from small_files import npy, npz, write
grey, both, y = npy("|u1", (24, 5, 4), bytes(480)), npy("|u1", (24, 3, 5, 4), bytes(1440)), npy("<i8", (24,), (bytes(8) + b"\1" + bytes(7)) * 12)
write("./mnist.npz", npz({f"{name}_{split}": array for split in ("train", "val", "test") for name, array in (("x", grey), ("y", y))}))
write("./both.npz", npz({"x": both, "y": y}))
write("./both.npy", both)
write("./labels.npy", y)' "$ROOT"/tests/common
	python3 -c 'import struct
for name, n in (("train", 20), ("t10k", 10)):
	open(f"mnist/{name}-images-idx3-ubyte", "wb").write(struct.pack(">4I", 2051, n, 28, 28) + bytes(i % 251 for i in range(n * 784)))
	open(f"mnist/{name}-labels-idx1-ubyte", "wb").write(struct.pack(">2I", 2049, n) + bytes(i % 10 for i in range(n)))'
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

# One step, and no run directory that another test might find.
short() {
	gtrain "$@" --steps 1 --batch 1 --threads 1 -q --out "$BATS_TEST_TMPDIR/run"
	equal "$status:$err" 0:
	rm -r "$BATS_TEST_TMPDIR/run"
}

# A model that takes the data.
model_of() {
	case $1 in
	text:* | tokens:* | jsonl:* | chat:* | pairs:*) echo gpt ;;
	labelled:*) echo reader.pt2 ;;
	masked:*) echo bert:vocab=50257,layers=1 ;;
	*) echo mlp ;;
	esac
}

@test "text, JSON and manual pages name the same models and kinds, settings, values and defaults" {
	local topic
	for topic in models data; do
		gtrain help "$topic"
		equal "$status" 0
		equal "$(awk 'length > 80' <<<"$out")" ""
		python3 - "$topic" "$ROOT/man/gtrain-$topic.7" "$out" "$("$GTRAIN" help "$topic" --json)" <<-'END'
			import json, re, shlex, sys
			topic, page, text, document = sys.argv[1], open(sys.argv[2]).read(), sys.argv[3], json.loads(sys.argv[4])
			assert list(document) == [topic]
			flat = re.sub(r"\s+", " ", text)
			sections = {}
			for part in page.split("\n.Ss ")[1:]:
			    for name in part[:part.index("\n")].split(", "):
			        sections[name] = part.split("\n.Sh")[0]
			assert set(sections) == {row["name"] for row in document[topic]}, (set(sections), document)
			for row in document[topic]:
			    section, named = sections[row["name"]], set()
			    assert row["name"] in flat and row["summary"] in flat
			    assert topic == "models" or f'for example {shlex.quote(row["example"])}' in flat and row["example"] in section
			    for s in row["settings"]:
			        form = s["form"].replace("|", " | ")
			        assert f'{s["key"]}={s["form"]} ' in flat if s["key"] else f' {s["form"]} ' in flat, s
			        assert s["help"] in flat, s
			        entry = f'.It Cm {s["key"]} Ns = Ns (Ar|Cm) {re.escape(form)}\n' if s["key"] else f'.It Ar {s["form"]}\n'
			        found = re.search(entry + r"((?:(?!\.It |\.El).*\n)*)", section)
			        assert found, (row["name"], s, section)
			        named.add(s["key"])
			        default = s["default"]
			        plain = re.sub(r"\.(Pa|Cm|Ar|Li) ", "", found[0] if s["key"] else "").replace("\n", " ")
			        if s["key"] and default and re.fullmatch(r"[\w.]+", default):
			            assert f"default is {default}" in plain or f'{s["key"]}={default}' in section, (row["name"], s, plain)
			    assert named - {None} == set(re.findall(r"^\.It Cm ([\w.]+) Ns =", section, re.M)), row["name"]
		END
	done
}

@test "a model's settings are printed as they are parsed" {
	gtrain help models --json
	check "$out" '{m["name"]: m["parameters"] for m in d["models"]}["gpt2"] == 124439808
		and {m["name"]: round(m["flops_forward"] / 1e8) for m in d["models"]}["resnet50"] == 82'
	local spec
	while read -r spec; do
		gtrain train --model "$spec" --data "$([[ $spec == @(mlp|lenet|resnet|vit|convnext|mobilenet|bert|roberta|distilbert|modernbert)* ]] && echo random,samples=4 || echo text:input.txt)" \
			--steps 1 --batch 2 --dry-run
		equal "$status:$err" 0:
	done < <(python3 -c 'import json, sys
for m in json.loads(sys.argv[1])["models"]:
	given = [s for s in m["settings"] if s["key"] and (s["default"] or s["form"] == "N")]
	print(m["name"] + ":" * bool(given) + ",".join("%s=%s" % (s["key"], s["default"] or 256) for s in given))
	for s in given:
		for value in s["form"].split("|") if "|" in s["form"] else []:
			print("%s:%s=%s" % (m["name"], s["key"], value))' "$out" | grep -v -e gpt2- -e llama -e vit-large; echo llama:kv_heads=4,theta=500,eps=1e-6,tied=yes,hidden=64)
}

@test "every example of help and of the manual pages runs" {
	local count=0 data=0 words spec
	while read -ra words; do
		short "${words[@]:1}"
		count=$((count + 1))
	done < <({
		"$GTRAIN" help models
		cat "$ROOT/man/gtrain-models.7"
	} | tr -d "'" | sed -nE 's/^( *|\.Dl )(gtrain train )/\2/p')
	((count > 9))
	while read -r spec; do
		data=$((data + 1))
		[[ $spec != labelled:* || -e reader.pt2 ]] || continue
		short train --model "$(model_of "$spec")" --data "$spec"
	done < <("$GTRAIN" help data | sed -n "s/^ *for example '*\([^-'][^']*\)'*/\1/p")
	equal "$data" "$("$GTRAIN" help data --json | jq ".data | length")"
}

@test "every value that a kind of data offers is taken" {
	local spec
	while read -r spec; do
		one_in 2 || continue
		[[ $spec != *level=bpe ]] || spec+=,tokenizer=tok
		[[ $spec != chat:* && $spec != jsonl:*pack=yes ]] || spec+=,tokenizer=model
		[[ $spec != tokens:* ]] || spec+=,vocab=50257
		[[ $spec != tokens:*type=uint32* ]] || spec=${spec/train/wide}
		[[ $spec != npy:* ]] || spec+=,target=y.npy
		[[ $spec != npy:*task=labels* ]] || spec=npy:both.npy,task=labels,target=labels.npy,layout=chw
		[[ $spec != np?:*norm=* ]] || spec+=,layout=chw # of images with 3 channels
		[[ $spec != np?:*layout=[ch]* ]] || spec=${spec/mnist/both} spec=${spec/x.npy/both.npy}
		case $spec in # tables that are so
		*sep=tab) tr , '\t' <flowers.csv >table.csv ;;
		*sep=semicolon) tr , ';' <flowers.csv >table.csv ;;
		*sep=bar) tr , '|' <flowers.csv >table.csv ;;
		csv:*task=regression) spec+=,target=0 && cp flowers.csv table.csv ;;
		*header=no) sed 1d flowers.csv >table.csv ;;
		*) cp flowers.csv table.csv ;;
		esac
		spec=${spec/flowers/table}
		short train --model "$(model_of "$spec")" --data "$spec"
	done < <("$GTRAIN" help data --json | python3 -c 'import json, sys
for kind in json.load(sys.stdin)["data"]:
	for s in kind["settings"]:
		for value in s["form"].split("|") if "|" in s["form"] else []:
			print("%s,%s=%s" % (kind["example"].split(",")[0], s["key"], value))')
}

@test "text, JSON and the manual page name the same augmentations, settings and defaults; examples run" {
	local words count=0
	python3 - "$ROOT/man/gtrain-data.7" "$("$GTRAIN" help augment)" "$("$GTRAIN" help data)" "$("$GTRAIN" help augment --json)" <<-'END'
		import json, re, sys
		page, text, data, document = open(sys.argv[1]).read(), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
		assert data.endswith(text) and max(map(len, text.splitlines())) <= 80
		page = page.split("\n.Sh AUGMENTATION\n")[1].split("\n.Sh ")[0]
		flat = re.sub(r"\s+", " ", text)
		entries = {part.split("\n")[0]: part for part in page.split("\n.It Cm ")[1:]}
		named = set()
		for row in document["augment"]:
		    assert row["name"] in entries and row["summary"] in flat
		    assert f'for example --augment {row["example"]}' in flat
		    named.add(row["name"])
		    for s in row["settings"]:
		        head, default = f'{s["key"]} Ns = Ns Ar {s["form"]}', {4 / 3: "4/3"}.get(float(s["default"]), s["default"])
		        assert f'default is {s["default"]}' in entries[head], s
		        assert f'{s["key"]}={s["form"]} {s["help"]} (default: {default})' in flat, s
		        named.add(head)
		assert named == set(entries), (named, set(entries))
	END
	while read -ra words; do
		short train --model lenet --data images:photos,size=28 "${words[@]}"
		count=$((count + 1))
	done < <("$GTRAIN" help augment | sed -n 's/^ *for example //p')
	((count == 5))
}

@test "help of a topic takes nothing else; a full disk is told" {
	gtrain help models gpt
	equal "$status" 2
	[[ $err == *"unexpected argument 'gpt'"* ]]
	run -1 bash -c '"$GTRAIN" help data 2>&1 >/dev/full'
	[[ $output == "gtrain: error: cannot write to standard output"* ]]
	gtrain help
	[[ $out == *"Topics for 'gtrain help TOPIC':"*"  models "*"  data "* ]]
}

# The commands of a page, one per line: blocks that begin with "gtrain", and lines with "$ gtrain".
commands_of() {
	awk '/^\.Bd/ { block = 1; next } /^\.Ed/ { block = 0 }
		block && /^gtrain / { on = 1 }
		block && on { more = sub(/\\e$/, ""); printf "%s%s", $0, more ? " " : "\n"; on = more }
		sub(/^\.Dl \$ /, "")' "$ROOT/man/$1" | sed 's/\\-/-/g'
}

@test "gtrain-parallel(7): the table of costs is that of --dry-run, and the examples run" {
	use_isa
	local page=$ROOT/man/gtrain-parallel.7 options numbers count=0 command
	while IFS=$'\t' read -r options numbers; do
		# shellcheck disable=SC2086 # several words
		gtrain train --model gpt2 --data random --dry-run $options
		equal "$status" 0
		count=$((count + 1))
		awk -v expected="$numbers" -v options="$options" '
			function mib(number, unit) { return unit == "GiB" ? number * 1024 : number }
			$1 == "communication" { sent = $2 / 1e6 }
			$1 == "parameters" { weights = mib($2, $3) }
			$1 == "gradients" { gradients = mib($2, $3) }
			$1 == "optimizer" { optimizer = mib($2, $3) }
			$1 == "activations" && $3 ~ /iB/ { activations = mib($2, $3) / 1024 }
			function near(a, b, bound) { return a - b <= bound && b - a <= bound }
			END {
				split(expected, e, " ")
				if (near(weights, e[1], 1) && near(gradients, e[2], 1) && near(optimizer, e[3], 1) &&
				    near(activations, e[4], e[4] / 10) && near(sent, e[5], 1))
					exit 0
				print options ":", weights, gradients, optimizer, activations, sent, "and not", expected
				exit 1
			}' <<<"$out"
	done < <(sed 's/\\-/-/g' "$page" | sed -nE 's/^(--batch( [^ ]+)+)  +([0-9. ]+)$/\1\t\3/p')
	equal "$count" 7
	cd "$BATS_TEST_TMPDIR" || return
	mkdir bin
	ln -s "$GTRAIN" bin/gtrain
	count=0
	while read -r command; do
		PATH=$PWD/bin:$PATH bash -c "$command" >result 2>&1 || {
			cat result
			return 1
		}
		count=$((count + 1))
	done < <(commands_of gtrain-parallel.7)
	equal "$count" 3
}

@test "gtrain-tutorial(7): the commands run, on small pictures and two ranks" {
	use_isa
	local command count=0
	mkdir -p "$BATS_TEST_TMPDIR/photos/val" "$BATS_TEST_TMPDIR/bin"
	cp -r photos "$BATS_TEST_TMPDIR/photos/train"
	cd "$BATS_TEST_TMPDIR" || return
	cp -r photos/train/* photos/val/
	mv photos/val/cat/000.png photos/val/cat/1.jpg
	ln -s "$GTRAIN" bin/gtrain
	while read -r command; do
		PATH=$PWD/bin:$PATH bash -c "$command" >result 2>&1 || {
			echo "$command"
			cat result
			return 1
		}
		count=$((count + 1))
	done < <(commands_of gtrain-tutorial.7 |
		sed 's/size=224/size=32/g; s/--nproc 4/--nproc 2/; s/--batch 64/--batch 2/; s/--epochs 90/--epochs 1/')
	equal "$count" 5
	[ -s runs/photos/best.pth ]
	grep -q 'cat\|dog' result
}

@test "pages in Chinese have the commands and programs of the English ones" {
	local page
	for page in "$ROOT"/man/zh_CN/*.7; do
		examples() { sed -n '/^\.Bd -literal/,/^\.Ed/p; /^\.Dl/p' "$1"; }
		equal "$(examples "$page")" "$(examples "$ROOT/man/${page##*/}")"
		equal "$(grep -c '^\.It' "$page")" "$(grep -c '^\.It' "$ROOT/man/${page##*/}")"
	done
}
