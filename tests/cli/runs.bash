# runs.bash - small runs for the tests of train, eval and generate.

# One turn of OpenMP's waiting: several test files may run at a time on few cores.
export GOMP_SPINCOUNT=2000 RANDOM_DATA=random:8/3,samples=64
# shellcheck disable=SC2034 # the tests read it
GPT=gpt:layers=1,heads=2,width=16,block=16

# make_run DIR KEY=VALUE...: a run directory that no run has written.
make_run() {
	python3 "$ROOT/tests/common/made_runs.py" "$@"
}

# check JSON EXPRESSION: the document, as d, makes the Python expression true.
check() {
	python3 -c 'import json, sys
d = json.loads(sys.argv[1])
if not eval("(" + sys.argv[2] + ")"):
	sys.exit("not so: " + sys.argv[2] + "\n" + sys.argv[1])' "$1" "$2"
}

# lines FILE EXPRESSION: the objects of a .jsonl file, as d, make the Python expression true; t and v
# are those of training and of validation.
lines() {
	python3 -c 'import json, math, sys
text = open(sys.argv[1]).read()
assert text.endswith("\n"), "a torn line"
d = [json.loads(l, parse_constant=lambda x: sys.exit("not JSON: " + x)) for l in text.splitlines()]
t, v = [[x for x in d if x["split"] == s] for s in ("train", "val")]
if not eval("(" + sys.argv[2] + ")"):
	sys.exit("not so: " + sys.argv[2] + "\n" + text)' "$1" "$2"
}

# rows N STATEMENT: run a Python statement for i from 0 to N - 1.
rows() {
	python3 -c "for i in range($1): $2"
}

# folders N CLASS...: N small grey PNG files of each class below images/, classes of different looks.
folders() {
	python3 -c 'import os, struct, sys, zlib
def chunk(kind, data):
	return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for k, name in enumerate(sys.argv[2:]):
	os.makedirs(f"images/{name}")
	for i in range(int(sys.argv[1])):
		rows = b"".join(b"\0" + bytes((80 * k + (x * (k + 1) + y * i + i) % 60) % 256
			for x in range(12)) for y in range(12))
		open(f"images/{name}/{i:03}.png", "wb").write(b"\x89PNG\r\n\x1a\n"
			+ chunk(b"IHDR", struct.pack(">IIBBBBB", 12, 12, 8, 0, 0, 0, 0))
			+ chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))' "$@"
}

# forget FILE...: leave out the facts about the run, as a file that went through arrays does.
forget() {
	local file
	for file; do
		gtrain ckpt convert "$file" -o arrays.npz && gtrain ckpt convert arrays.npz -o forgotten.pth && mv forgotten.pth "$file" && rm arrays.npz
	done
}

# saves OPTIONS WORD...: save in the middle of a run with these options, and go on from there. It has the bits of the run itself.
saves() {
	local words=(train -q --model "gpt:layers=2,heads=2,width=32,block=16,dropout=0.1" --data text:text.txt --batch 4 --seed 3
		--steps 4 --save-every 2 "${@:2}")

	rm -rf first second
	# shellcheck disable=SC2086 # words
	gtrain "${words[@]}" $1 --out first
	equal "$status" 0
	# shellcheck disable=SC2086
	gtrain "${words[@]}" $1 --resume first/checkpoints/step-00000002.* --out second
	equal "$status" 0
	cmp first/model.pth second/model.pth
}
