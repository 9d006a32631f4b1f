#!/usr/bin/env bats
# run_list.bats - gtrain runs: the table of run directories, their states, and the options that differ.
# shellcheck disable=SC2016,SC2154 # inner shells expand; what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# states: NAME STATE of all runs.
states() {
	jq -r '.runs[] | "\(.name) \(.state)\(if .reason then ": " + .reason else "" end)"' "$BATS_TEST_TMPDIR/out"
}

names() {
	jq -r '[.runs[].name] | join(" ")' "$BATS_TEST_TMPDIR/out"
}

@test "runs prints a line for each run below a folder" {
	make_run runs/b lr=0.02
	make_run runs/deep/a steps=50 total=200 tokens=yes model=gpt data=text:t.txt
	make_run elsewhere
	mkdir -p runs/no/run
	ln -s ../elsewhere runs/link
	cp -r elsewhere runs/.hidden
	gtrain runs
	equal "$status:$err" "0:"
	equal "$out" "NAME    MODEL  DATA          STEPS            BEST  TIME  STATE
b       mlp    mnist:x     100/100   top-1 86.47 %  0:10  done
deep/a  gpt    text:t.txt   50/200  val loss 2.476  0:05  stopped"
	gtrain runs runs/b
	[[ $out == *$'\nruns/b  mlp'* ]]
	make_run long/run model=gpt:layers=4,heads=4,width=128,eps=1e-05,block=64
	gtrain runs long
	[[ $out == *$'\nrun   gpt:layers=4,heads=4,width=128,eps=1e-05,block..  mnist:x'* ]]
	gtrain runs runs/ runs/b/ runs/b --json
	equal "$(jq -c '[.runs[].path]' out)" '["runs/b","runs/deep/a"]'
	gtrain runs runs/b elsewhere --json
	equal "$(names)" "elsewhere runs/b"
	equal "$(values out '.runs[1] | .path, .step, .steps, .best, .time_s, .host, .started')" \
		'["runs/b",100,100,{"split":"val","key":"top1","value":0.864664716763387,"step":100},10,null,null]'
}

@test "runs sorts by each column" {
	local key wanted
	make_run runs/a steps=30 lr=0.02 model=z data=y
	make_run runs/b steps=50 lr=0.01 model=y data=z state=failed wall=yes
	make_run runs/c steps=40 lr=0.01 model=x data=x tokens=yes
	mkdir -p runs/d/checkpoints
	echo '{"model": "w", "data": "w"}' >runs/d/config.json
	while read -r key wanted; do
		gtrain runs --json --sort "$key"
		equal "$key: $(names)" "$key: $wanted"
	done <<-'END'
		name a b c d
		model d c b a
		data d c a b
		steps b c a d
		best a b c d
		time b c a d
		state a c d b
		started b a c d
	END
}

@test "the state comes from status.json and the lock, and without them from the files" {
	make_run runs/done state=done total=900
	make_run runs/failed state=failed reason="the loss is NaN"
	make_run runs/killed state=running host="$(uname -n)"
	make_run runs/locked state=running
	make_run runs/other-host state=running host=nobodys.example
	make_run runs/stopped state=stopped reason=SIGINT
	make_run runs/old-done
	make_run runs/old-epoch epochs=1
	make_run runs/old-epochs epochs=2
	make_run runs/old-killed epochs=1
	make_run runs/old-locked total=900
	make_run runs/old-stopped total=900
	touch -d 'now + 1 minute' runs/old-{epoch,epochs,stopped}/model.pth
	flock runs/locked flock runs/old-locked "$GTRAIN" runs --json >out
	equal "$(states)" "done done
failed failed: the loss is NaN
killed stopped: the process ended without a status
locked running
old-done done
old-epoch done
old-epochs stopped
old-killed stopped
old-locked running
old-stopped stopped
other-host running
stopped stopped: SIGINT"
	equal "$(values out '.runs[1] | .host, .pid, .exit_status, .started, .ended')" '[null,4711,1,1700000003.25,1700000013.5]'
}

@test "--compare prints the options that differ, and no others" {
	make_run runs/a lr=0.01
	make_run runs/b lr=0.02
	gtrain runs --compare
	equal "$status:${out##*$'\n\n'}" "0:OPTION  a     b
lr      0.01  0.02"
	gtrain runs --compare --json
	equal "$(jq -c .differ out)" '[{"option":"lr","values":[0.01,0.02]}]'
	make_run runs/c lr=0.01 data=npy:"$(printf 'x%.0s' {1..200})"
	gtrain runs --compare
	[[ $out == *$'\n\ndata\n  a  mnist:x\n  b  mnist:x\n  c  npy:xxx'*$'\nlr\n  a  0.01\n  b  0.02\n  c  0.01' ]]
	cp -r runs/a runs/a2
	gtrain runs runs/a runs/a2 --compare
	equal "${out##*$'\n\n'}" "the runs have the same options"
	gtrain runs runs/a --compare
	[[ $status == 2 && $err == *"error: --compare needs two runs, and there is one"* ]]
}

@test "the best of equal accuracies has the lowest loss, as best.pth does" {
	local step loss
	make_run runs/a steps=0 total=40
	while read -r step loss; do
		printf '{"split":"val","step":%s,"loss":%s,"top1":0.5,"time_s":1}\n' "$step" "$loss"
	done >runs/a/metrics.jsonl <<-'END'
		10 1.5
		20 1.25
		30 1.25
		40 1.75
	END
	gtrain runs --json
	equal "$(values out '.runs[0] | .best.value, .best.step, .steps')" '[0.5,20,40]'
}

@test "metrics with anything in them are read as far as they are metrics" {
	make_run runs/a steps=10
	{
		printf '{"split":"train","step":11,"loss":null,"time_s":1.1}\n'
		printf '{"split":"train","step":12,"loss":NaN}\n'
		printf '{"split":"train","step":13,"loss":"low"}\n'
		printf '{"split":"train","step":-1,"loss":1}\n{"split":"train","step":1e300,"loss":1}\n{"split":"train","step":99999999999999999,"loss":1}\n'
		printf '{"note":"mine"}\n[1]\n\n{"split":"test","step":77}\n\0\377\n'
		head -c 3000000 /dev/zero | tr '\0' x
		printf '\n{"split":"train","step":14,"loss":-1.5,"time_s":1.4}\n'
		printf '{"split":"train","step":15,"lo'
	} >>runs/a/metrics.jsonl
	gtrain runs --json
	equal "$status:$err" "0:"
	equal "$(jq -c '.runs[0] | [.step, .best.step, .time_s]' out)" '[14,10,1.4]'
	# a run that went back to an earlier step
	make_run runs/b steps=10
	sed -i '/"val"/d' runs/b/metrics.jsonl
	printf '{"split":"train","step":5,"loss":9,"time_s":2}\n' >>runs/b/metrics.jsonl
	gtrain runs runs/b --json
	check=$(jq -c '.runs[0] | [.step, .best.step]' out)
	equal "$check" '[5,4]'
}

@test "config.json and status.json with anything in them are no failure" {
	local text
	make_run runs/a
	for text in '' '[]' 'null' '{' '{"model": 7, "state": 7, "host": [], "pid": "x", "started": -5}' "$(printf '[%.0s' {1..4000})"; do
		printf '%s' "$text" >runs/a/status.json
		gtrain runs --json
		equal "$status:$(states)" "0:a done"
	done
	rm runs/a/status.json
	echo '{' >runs/a/config.json
	gtrain runs
	[[ $status == 0 && $out == *$'\na     -      -       100  top-1 63.21 %  0:10  stopped' ]]
	rm runs/a/metrics.jsonl
	mkfifo runs/a/metrics.jsonl
	make_run runs/b
	gtrain runs
	[[ $status == 0 && $err == "warning: 'runs/a/metrics.jsonl' is a device or pipe, not a regular file" && $out == *$'\nb '* ]]
}

@test "names from files cannot move the cursor of a terminal" {
	make_run $'runs/\e[2Jred' model=$'\e]0;x\a' data=$'a\xe2\x80\xaeb' state=failed reason=$'\e[31m'
	gtrain runs
	equal "$(tail -n +2 <<<"$out")" '\x1b[2Jred  \x1b]0;x\x07  a\u202eb  100/100  top-1 63.21 %  0:10  failed: \x1b[31m'
	gtrain runs --json
	equal "$(jq -r '.runs[0].reason' out)" $'\e[31m'
}

@test "a folder without runs is no failure, a folder that is missing is one" {
	mkdir runs
	gtrain runs
	equal "$status:$out:$err" "0::no run in 'runs'"
	gtrain runs --json
	equal "$(jq -c . out)" '{"runs":[]}'
	rmdir runs
	gtrain runs
	[[ $status == 1 && $out == "" && $err == *"cannot open the directory 'runs'"*$'\nhint: '* ]]
	make_run runs/a
	run -1 bash -c '"$GTRAIN" runs >/dev/full'
}
