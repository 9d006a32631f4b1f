#!/usr/bin/env bats
# tables.bats - tables of numbers and words: trained on, evaluated, asked about.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

# Rows of a number, a word and a class that depends on both.
table() {
	echo "x;colour;kind"
	rows "$1" 'print(1000 + i % 7 * 100, ("red", "\"light; blue\"", "green")[i % 3], ("no", "yes")[i % 7 + 3 * (i % 3) > 5], sep=";")'
}

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	table 60 >table.csv
	table 21 | sed 's/$/\r/' >val.csv
	"$GTRAIN" train --model mlp --data 'csv:table.csv,sep=;' --batch 12 --steps 60 --seed 1 --out run 2>log
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

@test "a run remembers words and scale for eval, predict and --resume" {
	grep -q "column 'colour' has categories (3 words)" log
	python3 - <<-'END'
		import csv, json, statistics
		columns = json.load(open("run/config.json"))["about"]["data"]["columns"]
		x = [float(row["x"]) for row in csv.DictReader(open("table.csv"), delimiter=";")]
		assert columns[1] == {"name": "colour", "words": ["green", "light; blue", "red"]}, columns
		assert abs(columns[0]["mean"] / statistics.mean(x) - 1) < 1e-6
		assert abs(columns[0]["std"] / statistics.pstdev(x) - 1) < 1e-6
	END
	gtrain eval --ckpt run --data 'csv:val.csv,sep=;'
	[[ $out == *" of 21)"* ]]
	# The loss of a step over all samples, with weights that stay, is that of an evaluation, also of one part after the other.
	local still=(--batch 60 --steps 1 --optimizer sgd --lr 1e-30 --warmup 0 --log-every 1 -q) part parts=()
	gtrain train --model mlp --data 'csv:table.csv,sep=;' "${still[@]}" --out still
	for part in '1[0-2]' '1[3-6]'; do
		grep -e ^x -e "^$part" table.csv >part.csv
		gtrain eval --ckpt still --data csv:part.csv --json
		parts+=("$out")
	done
	check "[$(jq .loss still/metrics.jsonl), ${parts[0]}, ${parts[1]}]" 'abs(d[0] - sum(p["loss"] * p["n"] for p in d[1:]) / 60) < 1e-5 and d[1]["n"] + d[2]["n"] == 60'
	folders 6 cat dog
	gtrain train --model lenet --data images:images,channels=1,size=12,mean=0.3,std=0.2 "${still[@]}" --out pictures
	gtrain eval --ckpt pictures --data images:images --json
	check "[$(jq .loss pictures/metrics.jsonl), $(jq .loss <<<"$out")]" 'abs(d[0] - d[1]) < 1e-5'
	# The same rows in another order of columns, with one more, and without their class.
	grep -v light table.csv >plain.csv
	gtrain eval --ckpt run --data 'csv:plain.csv,sep=;' --predictions wanted.csv
	awk -F';' '{ print $2 "\t" $1 "\tmore" }' plain.csv >inputs.csv
	gtrain predict --ckpt run --read sep=tab --top 1 --csv inputs.csv
	((status == 0))
	equal "$(sed 1d <<<"$out" | cut -d, -f3,4)" "$(sed 1d wanted.csv | cut -d, -f3,4)"
	gtrain train --config run/config.json --resume run --steps 80 --out more -q
	((status == 0))
	equal "$(python3 -c 'import json; print(json.load(open("run/config.json"))["about"] == json.load(open("more/config.json"))["about"])')" True
}

@test "a word that training lacks, and a missing value, are refused by line and column" {
	printf 'x;colour;kind\n1000;red;no\n1000;pink;no\n' >pink.csv
	gtrain eval --ckpt run --data 'csv:pink.csv,sep=;'
	((status == 1))
	[[ $err == *"'pink.csv': line 3, column 'colour': 'pink' is not among the words that the model was trained with"* ]]
	gtrain predict --ckpt run --read 'sep=;' pink.csv
	((status == 1))
	[[ $err == *"line 3, column 'colour': 'pink'"*"hint: change the word"* ]]
	printf 'x;colour;kind\n1000;red;no\n1000;red;maybe\n' >maybe.csv
	gtrain eval --ckpt run --data 'csv:maybe.csv,sep=;'
	((status == 1))
	[[ $err == *"'maybe.csv': line 3: class 'maybe' is not in the data trained on"* ]]
	sed 's/;/,/g' pink.csv >commas.csv
	gtrain predict --ckpt run commas.csv
	((status == 1))
	[[ $err == *"hint: "*"--read sep=comma"* ]]
	printf 'x;colour;kind\n1000;red;no\n;red;no\n' >gap.csv
	gtrain eval --ckpt run --data 'csv:gap.csv,sep=;'
	((status == 1))
	[[ $err == *"'gap.csv': line 3, column 'x': the value is missing"* ]]
}

@test "a target with fractions, or task=regression, is a number to predict" {
	rows 40 'print(i, ("a", "b")[i % 2], 3 * i + 0.5, sep=",")' >prices.csv
	gtrain train --model mlp:3,1 --data csv:prices.csv --val-split 0.2 --batch 8 --steps 60 --lr 0.1 --optimizer sgd --out prices
	((status == 0))
	[[ $err == *"{data}"* ]] && return 1
	[[ $err == *"the target has fractions: regression"*"val loss "*"R2 0.99"* ]]
	gtrain eval --ckpt prices --data csv:prices.csv
	[[ $out == *"MSE "*"MAE "*"R2 0.99"* ]]
	gtrain predict --ckpt prices --csv - <<<"20,a"
	[[ ${out#*$'\n'-:1,} == 6[01].* ]]
	gtrain predict --ckpt prices --top 2 - <<<"20,a"
	((status == 2))
	[[ $err == *"--top: the model predicts numbers, not classes"* ]]
	for option in --per-class --confusion; do
		gtrain eval --ckpt prices --data csv:prices.csv $option
		((status == 2))
		[[ $err == *"$option: the model predicts numbers, not classes"* ]]
	done
	gtrain eval --ckpt prices --data csv:prices.csv,task=classification
	((status == 1))
	[[ $err == *"is not a whole number"* ]]
	gtrain eval --ckpt run --data 'csv:val.csv,sep=;,task=regression'
	((status == 1))
	[[ $err == *"line 2, column 'kind': the target 'no' is not a number"* ]]
	rows 8 'print(i, i, sep=",")' >whole.csv
	gtrain train --model mlp:1,1 --data csv:whole.csv,task=regression --batch 8 --steps 1 --out whole -q
	((status == 0))
	gtrain eval --ckpt whole --data csv:whole.csv,target=0 --json
	check "$out" 'd["n"] == 8 and "mse" in d'
	gtrain eval --ckpt whole --data csv:whole.csv,task=classification
	((status == 2))
	[[ $err == *"the targets are classes, but the model was trained on numbers"* ]]
}

@test "standardise=no takes numbers as they are" {
	rows 40 'print(i % 2 + 3, i % 2, sep=",")' >numbers.csv
	gtrain train --model mlp --data csv:numbers.csv,standardise=no --batch 8 --steps 1 --out raw -q
	gtrain eval --ckpt raw --data csv:numbers.csv --json
	wanted=$out
	gtrain eval --ckpt raw/model.pth --model mlp:1,256,2 --data csv:numbers.csv --json
	equal "$out" "$wanted"
	gtrain eval --ckpt run --data 'csv:val.csv,sep=;,standardise=no'
	[[ $err == *"standardise=no, but the model was trained on standardized columns"* ]]
}

@test "numbers far from 0 keep their digits" {
	rows 200 'print(1700000000 + i * 7 % 60, 1700000000 + i * 7 % 60 * 3 + 0.5, ("early", "late")[i * 7 % 60 > 29], sep=",")' >times.csv
	gtrain train --model mlp --data csv:times.csv,skip=1 --epochs 60 --lr .01 --out times -q
	gtrain eval --ckpt times --data csv:times.csv,skip=1 --json
	check "$out" 'd["top1"] > 0.99'
	gtrain train --model mlp --data csv:times.csv,target=1,skip=2 --epochs 60 --lr .01 --out late -q
	gtrain eval --ckpt late --data csv:times.csv,target=1,skip=2 --predictions p.csv --json
	echo "$out" >late.json
	python3 - <<-'END'
		import csv, json
		rows = list(csv.DictReader(open("p.csv")))
		mse = sum((float(r["target"]) - float(r["predicted"])) ** 2 for r in rows) / len(rows)
		assert abs(mse / json.load(open("late.json"))["mse"] - 1) < 1e-4, mse
		assert [r["target"] for r in rows] == [line.split(",")[1] for line in open("times.csv")], rows[:3]
	END
	gtrain predict --ckpt late --csv - < <(cut -d, -f1 times.csv)
	equal "$(sed 1d <<<"$out" | cut -d, -f2)" "$(sed 1d p.csv | cut -d, -f3)"
	gtrain train --model mlp --data csv:times.csv,skip=1,standardise=no --steps 1 --out flat -q
	equal "$err" "gtrain: error: 'times.csv': column 0: float32 has one number for all its numbers, so standardise=no makes them equal
hint: leave out standardise=no, or subtract a constant from the column"
}

@test "without a header, the target is where it was in training" {
	rows 60 'print(3 * (i % 7) + i % 5 + 0.5, i % 7, i % 5, sep=",")' >first.csv
	(echo y,a,b && cat first.csv) >named.csv
	gtrain train --model mlp --data csv:first.csv,target=0 --epochs 60 --lr .01 --out first -q
	gtrain train --model mlp --data csv:named.csv,target=y --epochs 60 --lr .01 --out named -q
	gtrain eval --ckpt first --data csv:first.csv,target=0
	local wanted=$out
	for run in first named; do
		for data in first named; do
			gtrain eval --ckpt $run --data csv:$data.csv -q
			equal "$out $err" "$wanted "
		done
		gtrain eval --ckpt $run --data csv:first.csv,target=2 -q
		equal "$err" "warning: --data: the target is column 2, but the model was trained on column 0"
		gtrain predict --ckpt $run first.csv
		[[ $status == 1 && $err == *"hint: if the rows have the target, leave it out: column 0, counted from 0"* ]]
	done
	gtrain train --config first/config.json --data csv:first.csv --val csv:first.csv --resume first --epochs 61 --out resumed --json -q
	check "$out" 'd["val"]["r2"] > 0.9'
	gtrain train --model mlp --data csv:first.csv --init-from first --steps 1 --out begun --json
	[[ $err == *"the target keeps the mean and standard deviation"* ]]
	gtrain train --model mlp --data csv:first.csv,target=1 --init-from first --steps 1 --out other
	[[ $err == *"the target is column 1, not column 0 as in the training: its mean and standard deviation are measured anew"* ]]
}

# Passengers as in Titanic's table: missing numbers, missing words, names and tickets that nearly all differ.
passengers() {
	python3 - "$1" <<-'END'
		import sys
		print("PassengerId,Survived,Pclass,Name,Sex,Age,Ticket,Fare,Cabin,Embarked")
		for i in range(int(sys.argv[1])):
		    sex, pclass = ("male", "female")[i * 7 % 5 > 2], i % 3 + 1
		    age = "" if i % 5 == 0 else 1 + i * 7 % 70 + i % 2 / 2
		    ticket, cabin = (f"A/5 {i}", 1000 + i)[i % 2], "" if i % 4 else f"C{i % 9}"
		    print(i + 1, int(sex == "female" or pclass == 1), pclass, f"Doe Mr {i}", sex, age, ticket, i % 90 + 0.25, cabin,
		          "" if i == 61 else "SCQ"[i % 3], sep=",")
	END
}

@test "a table with holes leads on to settings that train, evaluate and predict" {
	passengers 300 >titanic.csv
	local data=csv:titanic.csv,target=Survived
	gtrain train --model mlp --data $data --epochs 1 --out no
	[[ $status == 1 && $err == *"column 'Age': the value is missing"*"hint: missing=mean or missing=median fills in numbers"* ]]
	gtrain train --model mlp --data $data,missing=median --epochs 1 --out no
	[[ $status == 1 && $err == *"column 'Ticket': '1001' is a number, but line 2 has 'A/5 0'"*"skip=Ticket leaves it out"* ]]
	gtrain train --model mlp --data $data,missing=median,skip=Ticket --epochs 1 --out no
	[[ $status == 1 && $err == *"column 'Name' has 300 different words in 300 rows"*"skip=Name leaves the column out"* ]]
	gtrain train --model mlp --data $data,missing=median,skip=Ticket/Name --epochs 1 --out no
	[[ $status == 0 && $err == *"warning: --data: column 'PassengerId' seems to number the rows"*"skip=PassengerId"* ]]
	data+=,missing=median,skip=Ticket/Name/PassengerId
	gtrain train --model mlp --data $data --val-split 0.2 --steps 100 --out titanic
	[[ $status == 0 && $err != *warning* ]]
	gtrain eval --ckpt titanic --data csv:titanic.csv --predictions wanted.csv --json
	((status == 0))
	check "$out" 'd["n"] == 300 and d["top1"] > 0.95'
	gtrain predict --ckpt titanic --top 1 --csv titanic.csv
	((status == 0))
	equal "$(sed 1d <<<"$out" | cut -d, -f3)" "$(sed 1d wanted.csv | cut -d, -f3)"
	python3 - <<-'END'
		import csv, json, statistics
		data = json.load(open("titanic/config.json"))["about"]["data"]
		columns = {c["name"]: c for c in data["columns"]}
		assert data["missing"] == "median", data
		assert columns["Embarked"]["words"] == ["", "C", "Q", "S"], columns["Embarked"]
		ages = [float(r["Age"]) for r in csv.DictReader(open("titanic.csv")) if r["Age"]]
		assert abs(columns["Age"]["fill"] - statistics.median(ages)) < 12, columns["Age"]
	END
	gtrain eval --ckpt titanic --data csv:titanic.csv,missing=drop
	[[ $status == 0 && $err == *"rows are left out"* ]]
	gtrain eval --ckpt titanic --data csv:titanic.csv,missing=mean
	[[ $status == 2 && $err == *"missing=mean, but the model was trained with missing=median"* ]]
	gtrain train --config titanic/config.json --resume titanic --steps 120 --out longer -q
	equal "$status $(python3 -c 'import json; print(json.load(open("titanic/config.json"))["about"] == json.load(open("longer/config.json"))["about"])')" "0 True"
}

@test "predictions of a table without a column of the training say what to do" {
	passengers 60 | cut -d, -f2,3,5,8 >few.csv
	gtrain train --model mlp --data csv:few.csv,target=Survived --steps 2 --out few -q
	((status == 0))
	cut -d, -f2,3 few.csv >fewer.csv
	gtrain predict --ckpt few fewer.csv
	[[ $status == 1 && $err == *"there is no column 'Fare', but the model was trained with it"*"hint: add the column"* && $err != *damaged* ]]
	gzip -k few.csv
	gtrain predict --ckpt few few.csv.gz
	((status == 0))
	gtrain predict --ckpt few - < <(gzip -c few.csv)
	[[ $status == 1 && $err == *"standard input: the file is no table but compressed by gzip"* ]]
}

@test "a word in a column of numbers: a sign for missing values, or another separator" {
	printf 'a,y\n?,0\n1,0\n-,1\n2,0\n' >t.csv
	gtrain train --model mlp --data csv:t.csv,header=yes --steps 1 --out separated -q
	[[ $status == 1 && $err == *"line 2, column 'a': the value is missing ('?')"*"missing=mean"* ]]
	gtrain train --model mlp --data csv:t.csv,header=yes,missing=mean --steps 1 --out separated
	[[ $status == 0 && $out$err == *"missing=mean: 2 values of column 'a' filled in"* ]]
	rm -r separated
	{ echo a,b,y && for i in {0..7}; do echo "$([ "$i" != 1 ] || echo 2500),$i,$((i % 2))"; done; } >held-out.csv
	gtrain train --model mlp --data csv:held-out.csv,missing=median --val-split 0.5 --steps 1 --out separated -q
	[[ $status == 1 && $err == *"column 'a' has no value in the rows to train on"*"skip="* ]]
	printf 'a,y\n1,0\nx,1\n2,0\n' >t.csv
	gtrain train --model mlp --data csv:t.csv --steps 1 --out separated -q
	[[ $status == 1 && $err == *"line 3, column 'a': 'x' is not a number"*"if the value is missing, leave the field empty"*"categories=a"* ]]
	printf 'a,y\n1,0.5\n2,1.5\n3,1\n' >t.csv
	gtrain train --model mlp --data csv:t.csv --steps 1 --out separated -q
	equal "$status" 0
	sed -i 's/,/;/; s/[.]/,/' t.csv
	gtrain predict --ckpt separated t.csv
	[[ $status == 1 && $err == *"hint: if a semicolon separates the fields, add --read sep=semicolon" ]]
	gtrain predict --ckpt separated t.csv --read sep=semicolon -q
	equal "$status:$(wc -l <<<"$out")" 0:3
}

@test "other tables are read with the separator and the decimal comma of the training" {
	rows 40 'print(i, "," , i % 10, ";", "ab"[i % 2], ";", 3 * i, ",5", sep="")' | sed '1i size;kind;price' >comma.csv
	"$GTRAIN" train -q --model mlp --data csv:comma.csv,sep=semicolon --val csv:comma.csv --steps 9 --out comma 2>/dev/null
	printf 'size;kind\n7,125;a\n' >one.csv
	gtrain predict --ckpt comma one.csv
	equal "$status:${out%% *}" 0:one.csv:2
	# The fault is the word, not the numbers beside it.
	printf 'size;kind\n7,5;a\nmuch;b\n' >word.csv
	gtrain predict --ckpt comma word.csv
	equal "$status" 1
	[[ $err == *"'word.csv': line 3, column 'size': 'much' is not a number"* ]]
	gtrain eval --ckpt comma --data csv:comma.csv
	equal "$status" 0
	printf 'size,kind\n7.5,a\n' >point.csv
	gtrain predict --ckpt comma point.csv
	equal "$status" 1
	[[ $err == *"hint: if another character separates the fields, add --read sep=comma" ]]
	gtrain predict --ckpt comma point.csv --read sep=comma
	equal "$status" 0
}

@test "predictions of a table from which rows are left out name the lines" {
	printf 'x;colour;kind\n;red;no\n1000;red;no\n1100;;yes\n1200;green;yes\n' >holes.csv
	gtrain eval --ckpt run --data csv:holes.csv,missing=drop --predictions p.csv
	equal "$status" 0
	equal "$(cut -d, -f1 p.csv)" $'sample\nholes.csv:3\nholes.csv:5'
}

@test "whole numbers as classes: gaps and many classes are told" {
	rows 60 'print(i % 7, i % 5 + 1, sep=",")' | sed '1i x,stars' >stars.csv
	gtrain train --model mlp --data csv:stars.csv --dry-run
	[[ $err == *"the target has 5 different whole numbers, from 1 to 5: 6 classes, 1 of them without a sample; task=regression predicts the number"* ]]
	rows 90 'print(i % 7, i % 23, sep=",")' | sed '1i x,visits' >visits.csv
	gtrain train --model mlp --data csv:visits.csv --dry-run
	[[ $err == *"the target has 23 different whole numbers, from 0 to 22: classes, as with task=classification; task=regression predicts the number"* ]]
}

# A table with two columns of labels.
labels_table() {
	local i
	echo "a,b,wet,cold" >labels.csv
	for i in {1..12}; do
		echo "$i.5,$((i * 7 % 5)),$((i % 2)),$((i % 3 == 0))" >>labels.csv
	done
}

@test "labels that cannot be read, or are not those of the training, are refused in a line" {
	local data text
	labels_table
	while IFS='|' read -r data text; do
		gtrain train --model mlp --data "csv:labels.csv,$data" --steps 1 --out never -q
		equal "${err%$'\n'hint: \'gtrain help data\'*}" "gtrain: error: 'labels.csv': ${text/@/$'\n'hint: }"
		[ "$status" != 0 ] && [ ! -e never ]
	done <<-END
		labels=wet/a|line 2, column 'a': the label '1.5' is not 1 or 0@a label is 1 if it holds, else 0
		labels=wet/wet|data option 'labels=wet/wet': column 'wet' is a label already
		labels=wet,target=cold|data options 'labels' and 'target' cannot be combined
		labels=wet,task=regression|data options 'labels' and 'task' cannot be combined
		labels=wet,skip=wet|data option 'skip=wet': column 'wet' is a label already
		labels=wet/dry|data option 'labels=wet/dry': there is no column 'dry'@columns: 'a' to 'cold', or 0 to 3
	END
	gtrain train --model mlp --data csv:labels.csv,labels=none,target=wet --steps 1 --out classes -q
	equal "$status" 0
	gtrain train --model mlp --data csv:labels.csv,labels=wet/cold --steps 2 --out labelled -q
	equal "$status" 0
	gtrain eval --ckpt labelled --data csv:labels.csv -q
	[[ $out == "loss "*"  labels right "*" of 24)  precision "* ]]
	gtrain eval --ckpt labelled --data csv:labels.csv,labels=wet -q
	equal "$status:${err%%$'\n'*}" "2:gtrain: error: the 1 labels are not the 2 that the model was trained on"
	gtrain eval --ckpt labelled --data csv:labels.csv,target=wet -q
	equal "$status:${err%%$'\n'*}" "1:gtrain: error: the targets are classes, but the model was trained on labels"
	gtrain eval --ckpt labelled --data csv:labels.csv --confusion -q
	equal "$status:${err%%$'\n'*}" "2:gtrain: error: --confusion: the model predicts labels, not classes"
	sed 1d labels.csv >bare.csv
	gtrain eval --ckpt labelled --data csv:bare.csv -q
	equal "$status:$err" "1:gtrain: error: 'bare.csv': there is no column 'wet' of a label that the model was trained on"$'\n'"hint: labels=COLUMN/... names the columns of the 2 labels"
	sed -i s/cold/warm/ labels.csv
	gtrain eval --ckpt labelled --data csv:labels.csv -q
	equal "$err" "gtrain: error: 'labels.csv': there is no column 'cold' of a label that the model was trained on"$'\n'"hint: labels=COLUMN/... names the columns of the 2 labels"
}
