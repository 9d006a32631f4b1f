#!/usr/bin/env bats
# options.bats - what options of train and eval mean together, and what people are told.

load helpers
load runs

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	small=(--model "mlp:8,16,3" --data random:8/3 --batch 8)
}

@test "an option that nothing makes use of is refused, and nothing is written" {
	while read -r name options; do
		# shellcheck disable=SC2086 # several words
		gtrain train "${small[@]}" --steps 2 --out never $options
		equal "$status" 2
		[[ $err == "gtrain: error: --$name has no effect with these options"$'\n'"hint: use it with "* ]]
		[ ! -e never ]
	done <<-END
		momentum --momentum 0.5
		nesterov --nesterov --optimizer adam
		betas --betas 0.9,0.99 --optimizer sgd
		eps --eps 1e-7 --optimizer sgd
		lr-step --lr-step 5
		lr-gamma --lr-gamma 0.5 --lr-schedule wsd
		decay-steps --decay-steps 5
		min-lr --min-lr 1e-5 --lr-schedule constant
		eval-every --eval-every 1
		adam-lr --adam-lr 0.1
		adjust-lr --adjust-lr match_rms_adamw
		sequence-parallel --sequence-parallel
		chunks --chunks 2
		schedule --schedule gpipe
	END
}

@test "options that exclude or need each other are refused, and nothing is written" {
	local options text
	while IFS='|' read -r options text; do
		# shellcheck disable=SC2086 # several words
		gtrain train "${small[@]}" $options
		equal "$status" 2
		equal "${err%%$'\n'*}" "gtrain: error: $text"
		[ ! -e never ]
	done <<-END
		--steps 2 --resume auto|--resume=auto needs --out
		--steps 2 --resume auto --out never --init-from x|--init-from has no effect with --resume
		--steps 2 --map a=b|--map has no effect with these options
		--steps 2 --names timm|--names has no effect with these options
		--steps 2 --strict=no|--strict has no effect with these options
		--steps 2 --patience 2|--patience counts evaluations, and there are none
		--steps 2 --epochs 2|--epochs cannot be combined with --steps
		--steps 2 --val random:8/3 --val-split 0.1|--val cannot be combined with --val-split
	END
}

numbers() {
	printf 'x,y\n' > t.csv
	for i in $(seq 1 40); do echo "$i.5,$((i * i)).25" >> t.csv; done
	small=(--model "mlp:1,4,1" --data csv:t.csv --batch 8 --lr-schedule constant)
}

@test "a loss that is unknown, or not for such targets, is refused in a line" {
	local loss text
	numbers
	while IFS='|' read -r loss text; do
		gtrain train "${small[@]}" --steps 2 --loss "$loss" --out never -q
		equal "$status" 2
		equal "$err" "gtrain: error: --loss${text/@/$'\n'hint: }"
		[ ! -e never ]
	done <<-END
		hubert|: unknown loss 'hubert'@did you mean 'huber'?
		l2|: unknown loss 'l2'@the squared error is mse
		hinge-of-some-kind|: unknown loss 'hinge-of-some-kind'@known are cross-entropy for classes, mse, l1, huber and smooth-l1 for numbers, bce for labels, dpo for pairs of texts, output for that of the network
		huber:beta=1|: 'huber' has no setting 'beta'@write huber:delta=X
		smooth-l1:delta=1|: 'smooth-l1' has no setting 'delta'@write smooth-l1:beta=X
		huber:|: 'huber' has no setting ''@write huber:delta=X
		huber:delta=0|: '0' is not a value for 'delta'@it is a number above 0
		huber:delta=1x|: '1x' is not a value for 'delta'@it is a number above 0
		cross-entropy:label-smoothing=1|: '1' is not a value for 'label-smoothing'@it is a number from 0 to below 1
		cross-entropy:label-smoothing=.1,ignore-index=1.5|: '1.5' is not a value for 'ignore-index'@it is a whole number, such as -100
		cross-entropy:ignore=1|: 'cross-entropy' has no setting 'ignore'@write cross-entropy:label-smoothing=X,ignore-index=N
		dpo:gamma=1|: 'dpo' has no setting 'gamma'@write dpo:beta=X,label-smoothing=X
		dpo| dpo is for pairs of texts, but the targets are numbers@use mse, l1, huber or smooth-l1; data of the kind pairs has them
		mse:delta=1|: 'mse' has no setting 'delta'@it has no settings
		cross-entropy:ignore-index=1,ignore-index=1|: 'ignore-index' is given twice@'gtrain help train' and its manual page list its options
		bce| bce is for labels, but the targets are numbers@use mse, l1, huber or smooth-l1; a table has labels with labels=COLUMN/..., arrays with task=labels
		cross-entropy| cross-entropy is for classes, but the targets are numbers@use mse, l1, huber or smooth-l1
	END
	gtrain train --model mlp:8,16,3 --data random:8/3 --steps 2 --loss huber --out never
	equal "$status" 2
	equal "${err%%$'\n'*}" "gtrain: error: --loss huber is for numbers, but the targets are classes"
	gtrain train --model lenet --data random --steps 2 --augment mixup --loss cross-entropy:ignore-index=3 --out never
	equal "$status:$err" "2:gtrain: error: --loss cross-entropy:ignore-index=N cannot be combined with --augment mixup"$'\n'"hint: leave one of them out"
}

@test "a class to ignore that no target has is warned of" {
	local ignored said
	printf '%s\n' a,b 1,red 2,blue 3,red 4,green 5,blue 6,green >t.csv
	while IFS='|' read -r ignored said; do
		gtrain train --model mlp --data csv:t.csv --steps 1 --loss "cross-entropy:ignore-index=$ignored" --out "ignored$ignored" -q
		equal "$status:$err" "0:$said"
	done <<-END
		1|
		3|warning: ignore-index=3: no target of --data is ignored
		-100|warning: ignore-index=-100: no target of --data is ignored
	END
}

@test "class weights that do not fit the data are refused in a line" {
	local weights text
	while IFS='|' read -r weights text; do
		gtrain train "${small[@]}" --steps 2 --class-weights "$weights" --out never -q
		equal "$status" 2
		equal "$err" "gtrain: error: --class-weights${text/@/$'\n'hint: }"
		[ ! -e never ]
	done <<-END
		1,2| has 2 weights, but the data have 3 classes@give a weight for each class, or balanced
		1,-2,3|: '-2' is not a weight@give balanced, or a number from 0 for each class: 1,2.5,1
		1,2,|: '' is not a weight@give balanced, or a number from 0 for each class: 1,2.5,1
		1,1e39,2|: '1e39' is not a weight@give balanced, or a number from 0 for each class: 1,2.5,1
		1,nan,2|: 'nan' is not a weight@give balanced, or a number from 0 for each class: 1,2.5,1
		balance|: 'balance' is not a weight@give balanced, or a number from 0 for each class: 1,2.5,1
		0,0,0|: the sum of the weights is 0@give balanced, or some weights above 0
	END
	gtrain train --model gpt:vocab=9 --data random --steps 2 --class-weights balanced --out never -q
	equal "$status:$err" "2:gtrain: error: --class-weights is for samples with a class, but the targets are tokens"$'\n'"hint: leave --class-weights out"
	numbers
	gtrain train "${small[@]}" --steps 2 --class-weights balanced --out never -q
	equal "$status:$err" "2:gtrain: error: --class-weights is for samples with a class, but the targets are numbers"$'\n'"hint: leave --class-weights out"
	[ ! -e never ]
}

@test "config.json has the loss, which eval measures, and a resumed run may take another" {
	numbers
	gtrain train "${small[@]}" --steps 4 --val csv:t.csv --eval-every 2 --out run -q
	equal "$(jq -r .loss run/config.json)" mse
	gtrain train "${small[@]}" --steps 4 --loss huber --out huber -q
	equal "$(jq -r .loss huber/config.json)" huber:delta=1
	gtrain train --config huber/config.json --loss l1 --out l1 -q
	equal "$(jq -r .loss l1/config.json)" l1
	gtrain eval --ckpt l1/model.pth --data csv:t.csv --json -q
	equal "$status" 0
	std=$(jq .about.data.target.std l1/config.json)
	jq -e "(.loss * $std / .mae - 1) | fabs < 1e-5" <<<"$out"
	gtrain train --resume auto --out run --steps 8 --loss l1
	equal "$status" 0
	[[ $err == *"--loss mse -> l1: from the next step on, also in evaluations"* ]]
	[[ $err == *"--loss: the best evaluation so far, at step 4, used another loss and no longer counts"* ]]
	equal "$(jq -r .loss run/config.json)" l1
}

@test "options for the weights of --init-from are refused where --resume has weights" {
	local option
	gtrain train "${small[@]}" --steps 2 --out first -q
	gtrain train "${small[@]}" --steps 2 --init-from first --out second -q
	for option in "--init-from first" "--names timm" --strict=no; do
		# shellcheck disable=SC2086 # two words
		gtrain train --resume second --steps 4 $option
		equal "$status:${err%%$'\n'*}" "2:gtrain: error: ${option%%[ =]*} has no effect with --resume"
	done
	gtrain train --resume second --steps 4 -q
	equal "$status" 0
}

@test "a value that config.json cannot hold is refused, and nothing is written" {
	local path=$'caf\xe9.txt' ranks
	printf 'some text, long enough for a block' >"$path"
	for ranks in 1 2; do
		gtrain train --model gpt:layers=1,heads=1,width=8,block=8 --data "text:$path" --batch 2 --steps 2 --nproc $ranks --out never
		equal "$status" 2
		equal "$err" "gtrain: error: --data: not UTF-8, so a JSON file cannot hold the value
hint: if it is a path, rename the file or the folder"
		[ ! -e never ]
	done
}

@test "with --config, what is derived from an option follows that option" {
	gtrain train "${small[@]}" --steps 20 --out a -q
	equal "$status" 0
	equal "$(values a/config.json '.lr, .["min-lr"], .warmup, .["weight-decay"]')" '[0.001,0.0001,2,0.01]'
	grep -q '^    0\.9,$' a/config.json # as one would write it: not 0.90000000000000002
	gtrain train --config a/config.json --lr 0.1 --out b -q
	equal "$(values b/config.json '.lr, .["min-lr"], .warmup')" '[0.1,0.01,2]'
	gtrain train --config a/config.json --optimizer sgd --out c -q
	equal "$(values c/config.json '.lr, .["min-lr"], .["weight-decay"]')" '[0.05,0.005,0]'
	gtrain train --config a/config.json --steps 300 --out d -q
	equal "$(values d/config.json '.warmup, .["lr-step"], .["decay-steps"]')" '[30,100,60]'
	gtrain train --config a/config.json --lr-schedule step --out f -q
	equal "$(values f/config.json '.lr, .["min-lr"]')" '[0.001,0]'
	gtrain train "${small[@]}" --steps 20 --optimizer muon --out g -q
	equal "$(values g/config.json '.lr, .["min-lr"]')" '[0.02,0.002]'
	gtrain train --config g/config.json --adjust-lr match_rms_adamw --out h -q
	equal "$(values h/config.json '.lr, .["min-lr"]')" '[0.001,0.0001]'
	gtrain train --config a/config.json --lr 1e-6 --min-lr 1e-7 --steps 2 --out e -q
	equal "$status" 0
}

@test "--resume FILE goes on elsewhere with the options of its run, on any number of ranks" {
	local more
	gtrain train "${small[@]}" --steps 2 --lr 0.25 --optimizer sgd --out a -q
	while read -r more; do
		rm -rf on
		# shellcheck disable=SC2086 # several words
		gtrain train --resume a/checkpoints/step-00000002.pth --steps 3 --out on -q $more
		equal "$err" ""
		equal "$status" 0
		equal "$(values on/config.json '.lr, .optimizer, .model')" '[0.25,"sgd","mlp:8,16,3"]'
	done <<-END

		--nproc 2 --batch 4
		--nproc 2 --batch 4 --parallel mirrored
		--nproc 2 --batch 4 ${small[@]:0:4}
	END
	rm -rf on
	mkdir on
	gtrain train --resume a --steps 3 --out on -q
	equal "$status" 0
	equal "$(values on/config.json '.lr, .optimizer, .model')" '[0.25,"sgd","mlp:8,16,3"]'
}

@test "a run goes on with another --amp, and a warning names both" {
	local from to more rest
	for from in off bf16 fp16; do
		gtrain train "${small[@]}" --steps 2 --amp $from --out $from -q
	done
	while IFS='|' read -r from to more rest; do
		rm -rf on
		# shellcheck disable=SC2086 # several words
		gtrain train --resume $from/checkpoints/step-00000002.pth --steps 3 --out on -q $to $more
		equal "$status" 0
		equal "$err" "${rest:+warning: }$rest"
	done <<-END
		off||
		fp16||
		fp16|--amp fp16|
		fp16|--amp bf16||--amp bf16: the run was trained with --amp fp16, whose loss scale is left out
		fp16|--amp off|--nproc 2 --batch 4|--amp off: the run was trained with --amp fp16, whose loss scale is left out
		bf16|--amp off||--amp off: the run was trained with --amp bf16
		off|--amp bf16|--nproc 2 --batch 4 --parallel mirrored|--amp bf16: the run was trained with --amp off
		off|--amp fp16||--amp fp16: the run was trained with --amp off; the loss scale begins at 65536
	END
	cp fp16/checkpoints/step-00000002.pth alone.pth # no config.json: the default
	gtrain train "${small[@]}" --resume alone.pth --steps 3 --out alone -q
	equal "$status" 0
	equal "$err" "warning: --amp off: the run was trained with --amp fp16, whose loss scale is left out"
}

@test "--resume DIR goes on with the run in it; a folder without one is told so" {
	gtrain train "${small[@]}" --steps 4 --out a -q
	gtrain train --resume a --steps 6
	equal "$status" 0
	[[ $err == *"resuming from a/checkpoints/step-00000004.pth"*"done: 6 steps"* ]]
	gtrain train --resume auto --out nowhere
	equal "$status" 1
	[[ $err == "gtrain: error: there is no run in 'nowhere' to go on with"* ]]
	gtrain train --resume a/config.json
	equal "$status" 1
	[[ $err == *"'a/config.json' has the options of a run, and is no checkpoint"*"hint: name the run's directory: 'a'" ]]
}

@test "--resume DIR needs a checkpoint in it; without one the folder stays as it is" {
	local before words
	gtrain train "${small[@]}" --steps 4 --out whole -q
	rm -r whole/checkpoints
	cp -r whole cut
	rm cut/model.pth
	mkdir whole/checkpoints
	gtrain train --steps 6 --resume whole/checkpoints
	[[ $status == 1 && $err == *"hint: did you mean --resume whole?" ]]
	rmdir whole/checkpoints
	mkdir empty
	before=$(find whole cut empty -printf '%p %T@\n' | sort)
	for words in whole "whole --out whole" "whole --out new" "whole/ --nproc 2" "whole --config whole/config.json" \
		cut "cut --out new" "cut --dry-run" empty; do
		# shellcheck disable=SC2086 # several words
		gtrain train --steps 6 --resume $words
		equal "$status" 1
		[[ $err == "gtrain: error: '${words%% *}' has no checkpoint to go on with"* ]]
		[[ $words != whole* || $err == *"hint: --init-from ${words%% *}/model.pth starts a new run from its weights" ]]
		[[ $words == whole* || $err == *"hint: --resume auto starts a new run if there is none" ]]
	done
	equal "$(find whole cut empty -printf '%p %T@\n' | sort)" "$before"
	[ ! -e new ] && [ ! -e runs ]
	gtrain train --resume auto --out cut --steps 6 # may start a new run
	equal "$status" 0
	[[ $err == *"done: 6 steps"* ]]
}

@test "a config.json that is somebody else's is neither a run's nor overwritten" {
	gtrain train "${small[@]}" --steps 1 --out a -q
	mkdir foreign
	echo '{"model_type": "gpt2"}' >foreign/config.json
	echo '{"!": 0}' >foreign/vocab.json
	cp a/model.pth foreign
	gtrain eval --ckpt foreign/model.pth --model mlp:8,16,3 --data random:8/3 -q
	equal "$status" 0
	gtrain train "${small[@]}" --steps 1 --out foreign
	equal "$status" 1
	[[ $err == *"'foreign/config.json' is there already and belongs to no run"* ]]
	equal "$(<foreign/config.json)" '{"model_type": "gpt2"}'
}

@test "stray files among the checkpoints don't count as checkpoints" {
	gtrain train "${small[@]}" --steps 4 --out a -q
	touch a/checkpoints/step-9.pth a/checkpoints/step-00000099.pth.bak
	gtrain train --resume auto --out a --steps 5
	equal "$status" 0
	[[ $err == *"resuming from a/checkpoints/step-00000004.pth"* ]]
}

@test "a seed that no double holds must agree on resuming, too" {
	gtrain train "${small[@]}" --seed 9007199254740992 --steps 2 --out a -q
	gtrain train --resume auto --out a --seed 9007199254740993 --steps 4
	equal "$status" 2
	[[ $err == *"another --seed"* ]]
}

@test "messages show control characters and don't obey them" {
	gtrain $'tr\e[31main\nx'
	equal "$status" 2
	[[ $err == *'tr\x1b[31main\nx'* && $err != *$'\e'* ]]
}

@test "a dry run tells the cost of a model that no machine holds" {
	# Ranks that are threads would share memory for all gradients before they plan.
	for ranks in "" "--parallel mirrored --nproc 2" "--parallel dp --nproc 2"; do
		# shellcheck disable=SC2086 # several words
		gtrain train --model gpt:layers=96,width=12288,heads=96,block=64,vocab=50257 --data random --batch 1 --dry-run --json $ranks
		equal "$status" 0
		[ "$(jq .parameters <<<"$out")" -gt 170000000000 ]
	done
}

@test "a stopped run's metrics reach to its last step" {
	"$GTRAIN" train "${small[@]}" --steps 1000000 --log-every 1000000 --save-every 0 --out a 2>err &
	for ((i = 0; i < 100; i++)); do
		[ -s a/metrics.jsonl ] || [ -e a/config.json ] && break
		sleep 0.05
	done
	sleep 0.3
	kill -INT $! 2>/dev/null || true
	kill -TERM $!
	wait $! || status=$?
	[ "$status" -eq 130 ] || [ "$status" -eq 143 ] # two signals that come at once are one
	grep -q "stopping after this step" err
	equal "$(jq -c .step a/metrics.jsonl)" "$(sed -n 's/^stopped after step \([0-9]*\) .*/\1/p' err)"
}

@test "eval warns of numbers that mean less than they seem to" {
	gtrain train --model gpt:layers=1,heads=1,width=8,eps=1e-05,block=8 --data "text:$ROOT/LICENSE" --batch 2 --steps 1 --out t -q
	cp t/model.pth alone.pth
	gtrain eval --ckpt alone.pth --data "text:$ROOT/LICENSE" -q
	equal "$err" ""
	forget alone.pth
	gtrain eval --ckpt alone.pth --model gpt:layers=1,heads=1,width=8,eps=1e-05,block=8 --data "text:$ROOT/LICENSE" -q
	[[ $err == "warning: 'alone.pth' does not say its vocabulary"* ]]
	gtrain eval --ckpt alone.pth --model gpt:layers=1,heads=1,width=8,eps=1e-05,block=8 --data "text:$ROOT/LICENSE" --vocab t/vocab.json -q
	equal "$err" ""
	gtrain eval --ckpt t --model gpt:layers=1,heads=2,width=8,block=8 --data "text:$ROOT/LICENSE" -q
	[[ $err == *"'t/checkpoints/step-00000001.pth' has the weights of gpt:layers=1,heads=1,width=8,eps=1e-05,block=8"* ]]
}

@test "train says where a text's characters may have other numbers than in training" {
	local model=(--model "gpt:layers=1,heads=1,width=8,block=8" --batch 2 -q) text="text:$ROOT/LICENSE"
	local says="does not say its vocabulary, so the tokens of the text get numbers of their own"
	gtrain train "${model[@]}" --data "$text" --steps 1 --out t
	cp t/model.pth alone.pth
	forget alone.pth
	gtrain train "${model[@]}" --data "$text" --val-split 0.1 --init-from alone.pth --steps 1 --out u
	equal "$status $err" "0 warning: 'alone.pth' $says"
	gtrain train "${model[@]}" --data "$text" --init-from t --steps 1 --out v
	equal "$status $err" "0 "
	# A checkpoint of a run of which nothing else is left, by a version that did not describe data.
	python3 -c 'import zipfile
with zipfile.ZipFile("t/checkpoints/step-00000001.pth") as old, zipfile.ZipFile("step.pth", "w") as new:
	for name in old.namelist():
		new.writestr(name, old.read(name).replace(b"gtrain.about", b"gtrain.other"))'
	gtrain train "${model[@]}" --data "$text" --resume step.pth --steps 2 --out w
	equal "$status" 2
	[[ $err == "gtrain: error: 'step.pth' $says"*"hint: resume from the directory of its run"* ]]
	# A run on ids of tokens has no vocabulary.
	python3 -c 'import array; array.array("H", range(64)).tofile(open("ids.bin", "wb"))'
	gtrain train "${model[@]}" --data tokens:ids.bin,vocab=90 --steps 1 --out ids
	gtrain train "${model[@]}" --data "$text" --resume ids --steps 2
	equal "$status" 2
	[[ $err == "gtrain: error: "*"$says"*"hint: give --data as ids of tokens, as in training" ]]
	gtrain train "${model[@]}" --data "$text" --resume t/checkpoints/step-00000001.pth --steps 2 --out x
	equal "$status $err" "0 "
	head -c 4000 /dev/zero >ids.bin
	gtrain train "${model[@]}" --data tokens:ids.bin,vocab=100 --val "$text" --steps 1 --out y
	equal "$status" 2
	[[ $err == "gtrain: error: --val: the training data have no vocabulary, so the tokens of the text get numbers of their own"* ]]
	gtrain train "${model[@]}" --data tokens:ids.bin,vocab=256 --val "$text",level=byte --steps 1 --out y
	equal "$status $err" "0 "
}

# What fits one stage may not fit another: no option is promised, and the needs of all stages are added up.
@test "a pipeline that does not fit is told with the sum of its stages" {
	gtrain train --model gpt2:layers=16,width=1024,heads=16,vocab=256 --data random --batch 65536 --nproc 2 --pipeline-parallel 2 --chunks 2 --steps 1
	equal "$status" 1
	[[ $err == *"of its 2 ranks this one needs "*"hint: use a smaller --batch, --recompute, more stages or a smaller model"* ]]
}

@test "options and modes can be combined as the table in train's manual says" {
	local -a modes option
	local line word cell i count=0 plan=(train --model "gpt:vocab=65,layers=4,width=16,heads=4,block=16" --data random --batch 8 --steps 2 --nproc 4 --dry-run -q)
	local -A given=([pipeline]="--pipeline-parallel 2" [tensor]="--tensor-parallel 2")
	local -A value=([--pipeline-parallel]=2 [--tensor-parallel]=2 [--sequence-parallel]="--tensor-parallel 2" [--compress]=bf16
		[--check-replicas]=1 [--max-restarts]=1)

	mapfile -t lines < <(sed -n '/^\.Ss Modes and options/,/^\.Ed/p' "$ROOT/man/gtrain-train.1" | sed -n '/^\.Bd/,/^\.Ed/p' | sed '1d;$d;s/\\-/-/g')
	read -ra modes <<<"${lines[0]}"
	equal "${#modes[@]}" 8
	for line in "${lines[@]:1}"; do
		read -r word _ <<<"$line"
		for i in "${!modes[@]}"; do
			# The columns below the mode's name.
			cell=${lines[0]%%" ${modes[i]}"*}
			cell=${line:${#cell}+1:${#modes[i]}}
			cell=${cell// /}
			[ -n "$cell" ] || continue
			read -ra option <<<"$word ${value[$word]-} ${given[${modes[i]}]:---parallel ${modes[i]}}"
			gtrain "${plan[@]}" "${option[@]}"
			if { [ "$cell" = + ] && [ "$status" != 0 ]; } || { [ "$cell" = - ] && [ "$status" != 2 ]; }; then
				echo "${option[*]}: $cell in the table, but exit status $status: $err"
				return 1
			fi
			count=$((count + 1))
		done
	done
	equal "$count" 61
}
