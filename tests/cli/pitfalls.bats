#!/usr/bin/env bats
# pitfalls.bats - gtrain-pitfalls(7): its form, and those of its answers that no other test shows.
# shellcheck disable=SC2030,SC2031,SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# An entry is a heading with the test of its answer, what happens with a thread, and the answer. `make check-pitfalls` has an edit for
# each, without which its test fails.
@test "each pitfall of the manual has a thread, an answer, and a test that is there" {
	python3 - "$ROOT" <<-'END'
		import glob, os, re, sys
		root = sys.argv[1]
		page = open(f"{root}/man/gtrain-pitfalls.7").read()
		entries = re.split(r"^\.Ss ", page.split("\n.Sh SEE ALSO\n")[0], flags=re.M)[1:]
		assert len(entries) >= 30, len(entries)
		threads, edits = set(), open(f"{root}/tests/pitfalls/edits.txt").read()
		for entry in entries:
		    heading, test, text = re.match(r"(.*)\n(.*)\n((?:.*\n?)*)", entry).groups()
		    found = re.fullmatch(r'\.\\" test: (cli|oracle|unit)/(\w+) "(.+)"', test)
		    assert found, f"{heading}: no test: {test}"
		    assert f"\n\n{heading}\n" in edits, f"{heading}: no row in tests/pitfalls/edits.txt"
		    kind, name, title = found.groups()
		    path = f"{root}/tests/{kind}/{name}.{dict(cli='bats', oracle='py', unit='c')[kind]}"
		    assert os.path.exists(path), f"{heading}: no {path}"
		    source = open(path).read()
		    titles = {"cli": f'\n@test "{title}" {{', "unit": f"cmocka_unit_test({title})"}
		    assert titles.get(kind, title) in source, f"{heading}: {path} has no test '{title}'"
		    thread = re.findall(r"^\.Lk https://github\.com/([\w.-]+/[\w.-]+)/issues/(\d+) (\S+)", text, re.M)
		    assert len(thread) == 1 and thread[0][2] == "%s#%s" % thread[0][:2], f"{heading}: {thread}"
		    threads.add(thread[0][2])
		    answer = re.findall(r"^\.Em (\w+) :$", text, re.M)
		    assert len(answer) == 1 and answer[0] in ("Impossible", "Repaired", "Refused", "Told"), f"{heading}: {answer}"
		assert len(threads) == len(entries), "a thread stands in two entries"
		for other in glob.glob(f"{root}/man/*/gtrain-pitfalls.7"):
		    same = [re.findall(r'^\.Lk \S+|^\.\\" test: .*', p, re.M) for p in (page, open(other).read())]
		    assert same[0] == same[1], f"{other} has other threads or tests"
	END
	local page
	for page in "$ROOT"/man/gtrain-pitfalls.7 "$ROOT"/man/*/gtrain-pitfalls.7; do
		[ -e "$page" ] || continue
		run -0 mandoc -T lint -W warning "$page"
		equal "$output" ""
	done
}

# says: each line of standard input has options of a run, and the text of a line that it prints.
says() {
	local more said
	while IFS='|' read -r more said; do
		# shellcheck disable=SC2086 # several words
		gtrain train --model mlp --data "$RANDOM_DATA" --batch 4 --steps 1 --out run $more
		equal "$status" 0
		[[ $err == *"$said"* ]] || {
			echo "$more: $err"
			return 1
		}
		rm -r run
	done
}

@test "ranks are ddp unless another mode is asked for" {
	says <<-'END'
		--nproc 2|2 ranks (ddp, shm)
		--nproc 2 --parallel dp|2 ranks (dp
	END
}

@test "a run says how many samples a step has, and of how many ranks and micro-batches" {
	says <<-'END'
		--nproc 2|batch 4 x accumulate 1 x 2 ranks = 8
		--accumulate 3|batch 4 x accumulate 3 x 1 rank = 12
		--nproc 2 --accumulate 3|batch 4 x accumulate 3 x 2 ranks = 24
	END
}

@test "ranks among which samples do not divide take as many steps, and a line says so" {
	local nproc
	for nproc in 2 3 4; do
		gtrain train --model mlp:8,16,3 --data random:8/3,samples=7 --nproc $nproc --batch 1 --epochs 2 --log-every 1 --out "run-$nproc"
		equal "$status" 0
		[[ $err == *"7 samples do not divide among $nproc ranks: "* ]]
		lines "run-$nproc/metrics.jsonl" "len(t) == 2 * -(-7 // $nproc)"
	done
}

@test "the learning rate follows the steps, whatever the ranks and micro-batches" {
	local more first=
	for more in "--batch 8" "--batch 4 --nproc 2" "--batch 2 --nproc 4" "--batch 2 --accumulate 4" "--batch 2 --accumulate 2 --nproc 2"; do
		# shellcheck disable=SC2086 # several words
		gtrain train --model mlp:8,16,3 --data "$RANDOM_DATA" --epochs 2 --lr 0.1 --warmup 3 --log-every 1 --out run -q $more
		equal "$status" 0
		: "${first:=$(jq -c .lr run/metrics.jsonl)}"
		equal "$(jq -c .lr run/metrics.jsonl)" "$first"
		rm -r run
	done
	equal "$(wc -l <<<"$first")" 16
}

@test "a step whose targets are all ignored has the loss 0 and changes nothing" {
	rows 8 'print(i, i % 3, -100 if i < 7 else i % 2, sep=",")' >table.csv
	local nproc
	for nproc in 1 2; do
		gtrain train --model mlp:2,8,2 --data csv:table.csv --batch 1 --nproc $nproc --epochs 2 --log-every 1 --out "run-$nproc" -q \
			--loss cross-entropy:ignore-index=-100
		equal "$status" 0
		lines "run-$nproc/metrics.jsonl" "sum(x['loss'] == 0 for x in t) == len(t) - 2 and all(x['grad_norm'] == 0 for x in t if x['loss'] == 0)"
	done
}

@test "gradients in float16 are clipped by their norm without the scale" {
	local amp
	for amp in off fp16; do
		gtrain train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 16 --steps 20 --optimizer sgd --momentum 0 --lr 0.5 --warmup 0 \
			--clip 0.2 --amp $amp --log-every 1 --out $amp -q
		equal "$status" 0
		lines $amp/metrics.jsonl "all(x['grad_norm'] > 0.2 for x in t) and t[-1]['loss'] < 0.7 * t[0]['loss']"
	done
	check "$(jq -s -c 'map(.loss)' off/metrics.jsonl fp16/metrics.jsonl)" 'all(abs(a - b) < 1e-3 for a, b in zip(d[:20], d[20:]))'
}

@test "an evaluation with batch normalization does not depend on the batch" {
	local batch first=
	gtrain train --model resnet20 --data random:,samples=12 --batch 4 --steps 2 --out run -q
	equal "$status" 0
	for batch in 1 5 12; do
		gtrain eval --ckpt run --data random:,samples=12 --batch $batch --json
		equal "$status" 0
		: "${first:=$out}"
		check "[$first, $out]" 'd[0]["top1"] == d[1]["top1"] and abs(d[0]["loss"] - d[1]["loss"]) < 1e-5'
	done
}

@test "augmented pictures depend on the seed and the epoch, not on the workers" {
	local workers
	folders 12 cat dog
	for workers in 0 1 3; do
		gtrain train --model lenet --data images:images,channels=1,size=12 --augment crop,flip --batch 8 --epochs 2 --threads 1 \
			--workers $workers --out "run-$workers" -q
		equal "$status" 0
		cmp run-0/model.pth "run-$workers/model.pth"
	done
	gtrain train --model lenet --data images:images,channels=1,size=12 --batch 8 --epochs 2 --threads 1 --out plain -q
	run ! cmp -s run-0/model.pth plain/model.pth
	# One picture under many names, and weights that stay: only other draws make another loss.
	local picture seed more=()
	cp images/cat/001.png alike.png
	for picture in images/*/*; do cp alike.png "$picture"; done
	for seed in 0 1; do
		gtrain train --model lenet --data images:images,channels=1,size=12 --augment crop,flip --batch 1 --epochs 2 --seed $seed \
			--optimizer sgd --lr 1e-30 --warmup 0 --log-every 1 --out "alike-$seed" -q "${more[@]}"
		equal "$status" 0
		lines "alike-$seed/metrics.jsonl" "len({x['loss'] for x in t[:24]}) > 12 and sorted(x['loss'] for x in t[:24]) != sorted(x['loss'] for x in t[24:])"
		more=(--init-from alike-0/model.pth)
	done
	run ! cmp -s <(jq .loss alike-0/metrics.jsonl | sort) <(jq .loss alike-1/metrics.jsonl | sort)
}

@test "runs that begin at once need no free port" {
	local run pids=()
	python3 -c 'import socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
	s.bind(("", 29500))
	s.listen()
except OSError:
	pass # somebody else has it
time.sleep(60)' 3>&- &
	local holder=$!
	for run in a b; do
		"$GTRAIN" train --model mlp:8,16,3 --data "$RANDOM_DATA" --nproc 2 --batch 8 --steps 50 --out $run -q 3>&- &
		pids+=($!)
	done
	status=0
	wait "${pids[0]}" || status=1
	wait "${pids[1]}" || status=1
	kill $holder
	equal "$status" 0
	cmp a/model.pth b/model.pth
}

# Ranks of a launcher, each in a folder of its own, so that a file of rank 1 would be seen.
@test "rank 0 alone writes the model and the checkpoints" {
	local port=$((15000 + RANDOM % 15000)) rank other
	mkdir 0 1
	for rank in 1 0; do
		(
			cd $rank || exit
			RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port exec timeout 60 "$GTRAIN" train \
				--model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 6 --save-every 2 --val-split 0.2 --out run -q
		) 3>&- &
		other=${other-$!}
	done
	wait $!
	wait "$other"
	equal "$(cd 0/run && echo *.pth checkpoints/*)" "best.pth model.pth checkpoints/step-00000002.pth checkpoints/step-00000004.pth checkpoints/step-00000006.pth"
	equal "$(ls 1)" ""
}

@test "a checkpoint that was saved on a GPU is read where there is none" {
	gtrain train --model mlp:8,16,3 --data "$RANDOM_DATA" --batch 8 --steps 2 --out run -q
	gtrain eval --ckpt run --data "$RANDOM_DATA" --json
	local wanted=$out
	gtrain ckpt remap run/model.pth --map 'cpu=cuda:7' -o gpu.pth -q
	gtrain eval --ckpt gpu.pth --model mlp:8,16,3 --data "$RANDOM_DATA" --json
	equal "$status" 0
	[[ $err == *"saved on cuda:7"* ]]
	equal "$(jq .loss <<<"$out")" "$(jq .loss <<<"$wanted")"
	gtrain train --resume run --steps 3 -q
	equal "$status" 0
}
