#!/usr/bin/env bats
# report.bats - gtrain report: the page of HTML, and curves of text.
# shellcheck disable=SC2016,SC2154 # inner shells expand; what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# page FILE EXPRESSION...: the page is well-formed and asks for nothing, and Python expressions about it are true.
page() {
	python3 "$ROOT/tests/common/html_page.py" "$@"
}

@test "the page of a run has its curves, figures and options, and asks for nothing" {
	make_run run tokens=yes wall=yes state=done host=box lr=0.02
	gtrain report run
	equal "$status:$out:$err" "0::run/report.html"
	page run/report.html 'p["titles"] == ["Loss", "Accuracy", "Perplexity", "Learning rate", "Gradient norm", "Throughput",
		"Share of peak", "Memory", "Waiting for data", "Environment", "Options"]' \
		'p["tags"]["svg"] == 9 and p["tags"]["script"] == 3' \
		'all(t in p["text"] for t in ("100/100", "32k tokens/s", "2 GiB", "val loss", "mnist:x", "box", "4711", "0.9,0.999"))' \
		'not live or [s["label"] for s in c["loss"]] == ["training", "validation"]' \
		'not live or c["loss"][1]["step"] == list(range(10, 101, 10)) and c["memory"][0]["y"] == [2] * 100' \
		'p["data"]["refresh"] == 0'
	sed -i -E 's/("memory_bytes": ?)[0-9.e+]+/\180e6/' run/metrics.jsonl
	gtrain report run --text
	[[ $out == *$'\nMemory (MiB)\n'*'memory 76.29'$'\n'* ]]
}

@test "several runs share the charts, and a table has the options that differ" {
	make_run runs/slow
	make_run runs/fast lr=0.03 steps=60 wall=yes
	gtrain report runs -o both.html --json -q
	equal "$status:$err" "0:"
	equal "$(jq -c '[.output, .runs[].name]' <<<"$out")" '["both.html","fast","slow"]'
	page both.html '"2 runs" in p["text"] and "Options that differ" in p["text"] and p["tags"]["table"] == 2 and p["tags"]["details"] == 2' \
		'not live or [s["label"] for s in c["loss"]] == ["fast, training", "fast, validation", "slow, training", "slow, validation"]' \
		'not live or [s["color"] for s in c["loss"]] == [0, 0, 1, 1] and [s["label"] for s in c["memory"]] == ["fast"]'
	gtrain report runs -o $'\xff.html' --json -q
	equal "$status:$(jq -r .output <<<"$out")" $'0:\xef\xbf\xbd.html'
	gtrain report runs
	equal "$status" 2
	[[ $err == *"--output"*"2 runs"* ]]
	cp -r runs/slow runs/twin
	gtrain report runs/slow runs/twin -o same.html
	page same.html '"The runs have the same options." in p["text"]'
}

# Run directories, options, classes, hosts and reasons with names that try to leave the place where they stand.
hostile_runs() {
	PYTHONPATH=$ROOT/tests/common python3 -c 'import json, os, made_runs
names = ["</script><script>alert(1)</script>", "\"\x27><img src=x onerror=alert(1)>", "<!--<script>", "]]>&lt;&#x3c;",
	"\x1b[31m\x01\n\t", "\u202egnp.exe\u2066", "{{page.js}}{{data}}", "x" * 200]
for i, name in enumerate(names):
	about = json.dumps({"version": name, "data": {"classes": 2, name: name, "names": [name] * 3}})
	made_runs.make(f"runs/{i}" + name.replace("/", "_"), lr=f"0.0{i}", model=name, data=f"<b>{i}", about=about, state="failed",
		host=f"<i>{i}", reason=name)
made_runs.make("runs/8</script><script>alert(8)</script>", steps="9")
made_runs.make(b"runs/9\xff\xfe broken".decode("utf-8", "surrogateescape"), steps="10", total="11")'
}

@test "names of users are text in every place of the page" {
	hostile_runs
	gtrain report runs -o all.html
	equal "$status" 0
	page all.html 'p["tags"]["script"] == 3 and "img" not in p["tags"]' \
		'"<img src=x onerror=alert(1)>" in p["text"] and "\\u202egnp.exe\\u2066" in p["text"] and "\\x1b[31m\\x01\\n\\t" in p["text"]' \
		'"{{page.js}}{{data}}" in p["text"] and "\\xff\\xfe broken" in p["text"]' \
		'not live or c["loss"][0]["label"] == "0<_script><script>alert(1)<_script>, training"' \
		'not live or "8</script><script>alert(8)</script>, training" in [s["label"] for s in c["loss"]]'
	gtrain report runs/0* -o one.html
	equal "$status" 0
	page one.html 'p["tags"]["script"] == 3 and "</script><script>alert(1)</script>" in p["text"]'
	gtrain report runs --text
	equal "$status:$(LC_ALL=C grep -c '[^[:print:]]' out)" "0:0"
}

@test "a run of classes shows its confusion matrix, the worst images and its parameters" {
	folders 12 cat 'a "dog" <b>' bird
	gtrain train --model lenet --data images:images,channels=1,size=12 --val-split 0.5 --steps 8 --eval-every 4 --batch 8 --out run -q
	equal "$status:$err" "0:"
	local n best wrong parameters
	n=$(jq -s 'map(select(.split == "val"))[0].n' run/metrics.jsonl)
	best=$("$GTRAIN" runs run --json | jq '.runs[0].best.step')
	wrong=$(jq '[.evaluation.pairs[] | select(.[0] != .[1])[2]] | add // 0' run/details.json)
	equal "$(jq -c '[.evaluation | .step, .classes, ([.pairs[][2]] | add)]' run/details.json)" "[$best,3,$n]"
	equal "$(jq '.evaluation.misses | length' run/details.json)" $((wrong < 8 ? wrong : 8))
	((wrong > 0))
	parameters=$("$GTRAIN" train --config run --dry-run --json | jq .parameters)
	gtrain report run
	equal "$status:$err" "0:run/report.html"
	page run/report.html 'p["titles"][-6:] == ["Confusion matrix", "Wrong predictions with the highest probability", "Model", "Environment", "Options", "Data"]' \
		"p['tags']['img'] == $((wrong < 8 ? wrong : 8)) and 'The best evaluation, at step $best' in p['text']" \
		"'$parameters parameters in ' in p['text'] and 'a \"dog\" <b>' in p['text']"
	# A resumed run keeps them until there is a better evaluation.
	jq -c .evaluation run/details.json >before
	gtrain train --resume auto --out run --steps 9 --eval-every 100 --lr 1e-9 -q
	jq -e --argjson step "$best" '.evaluation.step == $step' run/details.json >/dev/null && cmp before <(jq -c .evaluation run/details.json)
	# More classes than a matrix has.
	rows 300 'print(i, i % 7, i * i % 30, sep=",")' >table.csv
	gtrain train --model mlp --data csv:table.csv --val-split 0.5 --steps 3 --out many -q
	gtrain report many -o many.html
	page many.html '"Predicted as" in p["text"] and "img" not in p["tags"]'
}

@test "a language model with --tensorboard shows the text that it writes" {
	rows 300 'print("to be, or not to be", i)' >text.txt
	gtrain train --model "$GPT" --data text:text.txt --val-split 0.2 --steps 2 --batch 4 --tensorboard --out run -q
	gtrain report run
	page run/report.html '"Text" in p["titles"] and "img" not in p["tags"]' "$(jq '.evaluation.prompt' run/details.json)"' .replace("\n", "") in p["text"]'
}

@test "details.json with anything in it is no failure" {
	local text
	make_run run about='{"data": {"classes": 2, "class-names": ["<i>", 7]}}'
	for text in '' '[]' '{' '{"parameters": 7, "evaluation": []}' '{"parameters": [7, {"name": 7}, {"name": "<b>.1.x", "shape": [1e308, 1e308]}]}' \
		'{"evaluation": {"step": -1, "classes": 2, "pairs": []}}' '{"evaluation": {"step": 1, "classes": 99999999999, "pairs": []}}' \
		'{"evaluation": {"step": 1, "classes": 2, "pairs": [[0, 2, 1], [-1, 0, 1], [0], 7, ["a", "b", "c"], [0, 1, 5]],
		"misses": [7, {}, {"class": 0, "predicted": 9}, {"class": 1, "predicted": 0, "probability": 1e308},
		{"class": 0, "predicted": 1, "sample": "</td><script>", "probability": "x",
		"png": "\"><script>alert(1)</script>"}], "text": "<script>", "prompt": 7}}' "$(printf '[%.0s' {1..4000})"; do
		printf '%s' "$text" >run/details.json
		gtrain report run
		equal "$status" 0
		page run/report.html 'p["tags"]["script"] == 3 and "img" not in p["tags"] and "inf %" not in p["text"]'
	done
}

@test "100,000 steps: a curve has 4,000 points, with the lowest and the highest" {
	make_run run steps=0 total=100000
	python3 -c 'import json, math
for s in range(1, 100001):
	loss = 9.5 if s == 77777 else -3.25 if s == 33333 else math.sin(s / 1000)
	print(json.dumps({"split": "train", "step": s, "loss": loss, "lr": 1 / s, "grad_norm": math.cos(s * s), "samples_per_s": s % 977,
		"tokens_per_s": s % 991, "data_wait": s % 7 / 7, "memory_bytes": s % 1000 * 1e6, "time_s": s * 0.1}))' >run/metrics.jsonl
	gtrain report run -o big.html
	equal "$status" 0
	page big.html 'p["bytes"] < 2.5e6 and all(len(s["y"]) <= 4000 for chart in c.values() for s in chart)' \
		'not live or (s := c["loss"][0]) and len(s["y"]) > 3000 and
		s["y"][s["step"].index(77777)] == 9.5 and s["y"][s["step"].index(33333)] == -3.25 and s["step"][0] == 1 and s["step"][-1] == 100000' \
		'not live or all(a < b for a, b in zip(c["loss"][0]["step"], c["loss"][0]["step"][1:]))'
}

@test "damaged metrics leave the curves that can be read, and a note" {
	make_run run steps=20
	printf '{"split":"train","step":21,"loss":null,"lr":1e308}\n{"split":"train","step":22,"loss":NaN}\n{"split":"train","step":23,"lr":-1e308,"l' >>run/metrics.jsonl
	gtrain report run -o page.html
	equal "$status" 0
	page page.html '"1 line of metrics.jsonl cannot be read. The last line of metrics.jsonl is cut off. The loss was not finite in 1 line." in p["text"]' \
		'not live or len(c["loss"][0]["y"]) == 20 and c["lr"][0]["y"][-1] == 1e308'
	: >run/metrics.jsonl
	gtrain report run -o page.html
	page page.html '"There are no metrics yet." in p["text"] and "svg" not in p["tags"]'
	gtrain report run --text
	equal "$status:$out:$err" "0::there are no metrics yet"
	printf '{"split":"train","step":1,"loss":2}\n' >run/metrics.jsonl
	gtrain report run -o page.html
	page page.html 'p["tags"]["svg"] == 1'
	for data in '"step":9007199254740992,"loss":1e308' '"step":0,"loss":-1e308' '"step":3,"loss":0' '"step":4,"loss":5e-324'; do
		printf '{"split":"train",%s}\n' "$data" >>run/metrics.jsonl
		gtrain report run -o page.html
		equal "$status" 0
		page page.html 'p["tags"]["svg"] == 1 and "nan" not in p["text"] and "inf" not in p["text"]'
		run ! grep -E '[ML][^"]* -?(inf|nan)' page.html
		gtrain report run --text
		equal "$status" 0
	done
}

@test "the ticks of a flat curve are different numbers" {
	make_run flat
	jq -c 'if has("perplexity") then .perplexity = 1 else . end' flat/metrics.jsonl >metrics
	mv metrics flat/metrics.jsonl
	gtrain report flat
	equal "$status" 0
	python3 - flat/report.html <<-'END'
		import re, sys
		charts = [re.findall(r'class="y"[^>]*>([^<]*)<', chart) for chart in open(sys.argv[1]).read().split('class="still"')[1:]]
		assert ["0.999", "0.9995", "1", "1.0005", "1.001"] in charts, charts
	END
}

@test "no run, too many runs, and outputs that would be lost" {
	mkdir -p none
	gtrain report none -o page.html
	[[ $status == 1 && $err == *"there is no run in 'none'"*$'\nhint: '* && ! -e page.html ]]
	gtrain report
	[[ $status == 2 && $out == "" ]]
	gtrain report missing
	[[ $status == 1 && $err == *"cannot open the directory 'missing'"* ]]
	make_run run
	cp run/metrics.jsonl before
	for file in metrics.jsonl config.json checkpoints/../metrics.jsonl checkpoints/step-00000001.pth; do
		gtrain report run -o "run/$file"
		[[ $status == 2 && $err == *"'run/$file' is a file of the run"* ]]
	done
	cmp run/metrics.jsonl before
	for file in metrics.jsonl checkpoints/step-00000001.pth events.out.tfevents.1; do
		touch "run/$file"
		ln -sf "run/$file" link
		gtrain report run -o link
		[[ $status == 2 && $err == *"'link' is a file of the run"* ]]
	done
	cmp run/metrics.jsonl before
	echo precious >outside
	ln -s ../outside run/report.html
	gtrain report run
	equal "$status:$(<outside)" "1:precious"
	gtrain report run -o no/such/page.html
	equal "$status" 1
	gtrain report run -o /dev/full
	[[ $status == 1 && -c /dev/full ]]
	for i in {1..33}; do cp -r run "many/$i" 2>/dev/null || { mkdir -p many && cp -r run "many/$i"; }; done
	gtrain report many -o page.html
	[[ $status == 1 && $err == *"33 runs are too many"*$'\nhint: '* ]]
	gtrain report run --interval 1s
	[[ $status == 2 && $err == *"--interval"* ]]
}

@test "--follow writes the page anew until the run ends" {
	make_run run steps=20 total=60
	exec {lock}<run
	flock "$lock"
	"$GTRAIN" report run --follow --interval 0.2s -o live.html 2>err {lock}<&- &
	local pid=$!
	for _ in {1..100}; do [[ ! -e live.html ]] || break; sleep 0.05; done
	page live.html 'p["data"]["refresh"] == 0.2 and "running" in p["text"] and "20/60" in p["text"]'
	printf '{"split":"train","step":60,"loss":0.5,"lr":0.001,"time_s":9}\n' >>run/metrics.jsonl
	for _ in {1..100}; do ! grep -q 60/60 live.html || break; sleep 0.05; done
	grep -q 60/60 live.html
	kill -0 $pid
	exec {lock}<&-
	wait $pid
	page live.html 'p["data"]["refresh"] == 0 and "running" not in p["text"] and "done" in p["text"]'
	equal "$(<err)" "live.html: written anew until the run ends; Ctrl-C stops"
	equal "$(find . -name '*.tmp-*')" ""
}

@test "Ctrl-C ends --follow, and leaves the page" {
	make_run run
	exec {lock}<run
	flock "$lock"
	python3 -c 'import os, signal, subprocess, sys, time
run = subprocess.Popen(sys.argv[1:], stderr=subprocess.DEVNULL)
while not os.path.exists("live.html"):
	time.sleep(0.02)
run.send_signal(signal.SIGINT)
sys.exit(run.wait() != -signal.SIGINT)' "$GTRAIN" report run --follow -o live.html
	page live.html '"running" in p["text"]'
}

@test "--text draws curves of braille or of ASCII characters" {
	local columns
	make_run runs/a lr=0.03
	make_run runs/b
	gtrain report runs/a --text
	equal "$status:$err" "0:"
	[[ $out == "Loss"$'\n'"          * training "*"          + validation "*"step 0 "*"100"* && $out == *"| "*"***"* ]]
	LC_ALL=C awk '/[^\t -~]/ { exit 1 }' out
	gtrain report runs --text
	[[ $out == *"* a, training "*$'\n'"          + a, validation "*$'\n'"          o b, training "* ]]
	LC_ALL=C.UTF-8 gtrain report runs/a --text --color=always
	[[ $out == *$'\e[34m━\e[0m training '*$'\e[33m━\e[0m validation '* && $out == *⠤* && $out == *│* ]]
	LC_ALL=C.UTF-8 gtrain report runs/a --text
	[[ $out != *$'\e'* && $(grep -c 'step 0' out) == 9 ]]
	columns=$(python3 -c 'print(max(len(l.rstrip("\n")) for l in open("out", encoding="utf-8")))')
	((columns <= 80))
	[ ! -e runs/a/report.html ]
	gtrain report runs/a --text -o page.html
	[[ $out == Loss* && -e page.html ]]
	gtrain report runs/a --text --json
	equal "$status" 2
	run -1 bash -c '"$GTRAIN" report runs/a --text >/dev/full'
}

@test "a browser draws every chart without an error" {
	command -v chromium >/dev/null || skip "chromium: not installed"
	make_run runs/a lr=0.03 wall=yes
	make_run "runs/</script>" steps=40
	gtrain report runs -o page.html
	page page.html live || skip "dygraphs: not built in"
	timeout 60 chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=2000 --enable-logging=stderr \
		--dump-dom "file://$PWD/page.html" >dom 2>log
	run ! grep CONSOLE log
	grep -q '<html lang="en" class="scripted">' dom
	equal "$(grep -o '<canvas' dom | wc -l)" "$((2 * $(grep -o '<figure' page.html | wc -l)))"
}
