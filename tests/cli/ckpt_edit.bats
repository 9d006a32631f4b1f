#!/usr/bin/env bats
# ckpt_edit.bats - gtrain ckpt strip-module, add-module, rename, remap: what they say, write and refuse.
# shellcheck disable=SC2016,SC2154 # code for others; what helpers set

bats_require_minimum_version 1.5.0
load helpers

DATA=${GTRAIN_TEST_DATA:-$ROOT/../shared/data}/ckpt

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	# A zip and a legacy file without Python: names that DataParallel would give.
	gtrain train --model mlp:4,3,2 --data random --batch 2 --steps 1 --out run -q
	equal "$status" 0
	gtrain ckpt add-module run/model.pth -o in.pth -q
	equal "$status" 0
}

keys() {
	"$GTRAIN" ckpt ls "$1" --json | jq -r '.tensors[].key'
}

@test "strip-module takes off what add-module puts there" {
	keys run/model.pth >plain
	equal "$(keys in.pth)" "$(sed 's/^/module./' plain)"
	gtrain ckpt strip-module in.pth -o out.pth
	equal "$status" 0
	equal "$out" ""
	[[ $err =~ ^"'module.' removed from $(wc -l <plain) names in 1 state_dict; "[0-9.]+" "(Ki)?B" written, "[0-9.]+" "(Ki)?B" moved in "[0-9]+" ms"$ ]]
	keys out.pth | diff plain -
	gtrain strip-module in.pth --in-place
	equal "$status" 0
	[[ $err == *" of the file are dead now"* ]]
	keys in.pth | diff plain -
	gtrain ckpt diff in.pth out.pth
	equal "$status" 0
	gtrain ckpt verify in.pth
	equal "$status" 0
	gtrain ckpt verify out.pth
	equal "$status" 0
}

@test "without anything to change, in place writes nothing and -o a copy" {
	cp run/model.pth own.pth
	gtrain ckpt strip-module own.pth --in-place
	equal "$status" 0
	equal "$err" "nothing to change: no name has the prefix of a wrapper, such as 'module.', in 1 state_dict; nothing written"
	cmp run/model.pth own.pth
	gtrain ckpt strip-module own.pth -o copy.pth
	equal "$status" 0
	gtrain ckpt diff own.pth copy.pth
	equal "$status" 0
}

@test "a dry run prints the changes and writes nothing" {
	cp in.pth before
	gtrain ckpt rename in.pth --map '^module\.=net.' --dry-run
	equal "$status" 0
	equal "$(head -1 <<<"$out")" "'$(keys in.pth | head -1)' -> '$(keys in.pth | head -1 | sed s/module/net/)'"
	equal "$(wc -l <<<"$out")" "$(keys in.pth | wc -l)"
	[[ $err == *"; nothing written" ]]
	gtrain ckpt rename in.pth --map '^module\.=net.' --dry-run --json -q
	equal "$(jq -c '[.dry_run, .output, .written_bytes, .changes[0].what, .changes[0].where]' <<<"$out")" \
		'[true,null,0,"name",""]'
	equal "$(jq '.changes | length' <<<"$out")" "$(keys in.pth | wc -l)"
	cmp before in.pth
}

@test "--json tells what was done" {
	gtrain ckpt strip-module in.pth --in-place --json -q
	equal "$status" 0
	equal "$err" ""
	equal "$(jq -c '[.input, .output, .dry_run, .changed, .replaced, .moved_bytes]' <<<"$out")" \
		"[\"in.pth\",null,false,$(keys in.pth | wc -l),false,0]"
	jq -e '.dead_bytes > 0 and .written_bytes > 0 and .time_s >= 0 and .changes == null' <<<"$out"
}

@test "remap changes devices, in any kind of file" {
	gtrain ckpt remap in.pth --map 'cpu=cuda:1' -o gpu.pth
	equal "$status" 0
	[[ $err == *"storages changed: cpu to cuda:1; "* ]]
	equal "$("$GTRAIN" ckpt ls gpu.pth --json | jq -r '.tensors[].device' | sort -u)" cuda:1
	gtrain ckpt remap gpu.pth --map 'cuda=cpu' --in-place
	equal "$err" "nothing to change: no storage is on a device that the map names; the last storage is on 'cuda:1'; nothing written"
	gtrain ckpt remap gpu.pth --map 'cuda:*=cpu' --in-place -q
	equal "$("$GTRAIN" ckpt ls gpu.pth --json | jq -r '.tensors[].device' | sort -u)" cpu
}

@test "a legacy file is replaced by a copy, through a link too" {
	[ -d "$DATA" ] || skip "data: no $DATA"
	cp "$DATA/resnet20-12fca82f.th" real.th
	chmod 640 real.th
	ln -s real.th link.th
	gtrain ckpt strip-module link.th --in-place
	equal "$status" 0
	[[ $err == *"the legacy format has no room for a new pickle: a new file has taken the place of 'link.th'" ]]
	[ -L link.th ]
	equal "$(stat -c %a real.th)" 640
	equal "$(keys real.th | grep -c module)" 0
	gtrain ckpt add-module real.th -o back.th -q
	gtrain ckpt diff back.th "$DATA/resnet20-12fca82f.th"
	equal "$status" 0
}

@test "a run directory stands for its latest checkpoint, but not in place" {
	gtrain ckpt add-module run -o new.pth
	equal "$status" 0
	[[ $err == *"run is a run; its latest checkpoint is run/checkpoints/step-00000001.pth"* ]]
	gtrain ckpt strip-module new.pth -o old.pth
	gtrain ckpt diff run old.pth
	equal "$status" 0
	gtrain ckpt add-module run --in-place
	equal "$status" 2
	equal "$err" "gtrain: error: --in-place: 'run' is a run, and not the path of a file
hint: name a file; the latest checkpoint of this run is run/checkpoints/step-00000001.pth"
}

@test "wrong usage is refused" {
	gtrain ckpt strip-module in.pth
	equal "$status" 2
	equal "$err" "gtrain: error: where should the result go?
hint: -o OUT writes a new file, --in-place changes this one, --dry-run none"
	gtrain ckpt strip-module -o out.pth
	equal "$status" 2
	gtrain ckpt strip-module in.pth -o out.pth --in-place
	equal "$status" 2
	gtrain ckpt remap in.pth -o out.pth
	equal "$status" 2
	gtrain ckpt rename in.pth -o out.pth --map '('
	equal "$status" 2
	gtrain ckpt add-module in.pth -o out.pth --prefix module
	equal "$status" 2
	[ ! -e out.pth ]
}

@test "the input under another name is no output" {
	ln in.pth same.pth
	cp in.pth before
	for other in in.pth ./in.pth same.pth; do
		gtrain ckpt strip-module in.pth -o "$other"
		equal "$status" 2
		equal "$err" "gtrain: error: '$other' is the input itself
hint: --in-place changes a file where it lies"
	done
	cmp before in.pth
}

@test "shards are edited into other files, and those of torch not at all" {
	gtrain ckpt convert in.pth -o model.safetensors --shard-size 64 -q
	index=model.safetensors.index.json
	gtrain ckpt strip-module $index -o $index
	equal "$status" 2
	equal "$err" "gtrain: error: '$index' is the input itself
hint: write other files, -o DIR/model.safetensors.index.json"
	gtrain ckpt strip-module $index --in-place
	equal "$status" 1
	[[ $err == *"shards cannot be edited in place"*"hint: write other files, -o DIR/$index" ]]
	names=$(keys in.pth | sed 's/.*/"&": "in.pth"/' | paste -sd,)
	echo "{\"weight_map\": {$names}}" >pytorch_model.bin.index.json
	for out in pytorch_model.bin.index.json other.bin.index.json; do
		gtrain ckpt strip-module pytorch_model.bin.index.json -o $out
		equal "$status" 1
		[[ $err == *"a file of format torch-shards cannot be edited"*"hint: 'gtrain ckpt convert'"* ]]
	done
}

@test "names that would collide are listed, and nothing is written" {
	cp in.pth before
	gtrain ckpt rename in.pth --map '^.*$=x' --in-place
	equal "$status" 1
	[[ $err == *" of the state_dict would be there twice: "*"become 'x'"*"hint: nothing was written"* ]]
	cmp before in.pth
}

@test "what cannot be written is said, and leaves nothing" {
	gtrain ckpt strip-module in.pth -o none/out.pth
	equal "$status" 1
	gtrain ckpt strip-module in.pth -o /dev/full
	equal "$status" 1
	gtrain ckpt strip-module missing.pth --in-place
	equal "$status" 1
	equal "$(find . -name '*.tmp-*')" ""
}

@test "a file replaced in place says that other hard links keep the old one" {
	gtrain ckpt convert in.pth --to legacy -o old.pth -q
	equal "$status" 0
	ln old.pth other.pth
	gtrain ckpt strip-module old.pth --in-place
	equal "$status" 0
	[[ $err == *"1 other hard link to it still leads to the old file"* ]]
	equal "$(keys old.pth)" "$(keys run/model.pth)"
	equal "$(keys other.pth)" "$(keys in.pth)"
}

@test "-o writes through a link" {
	ln -s there.pth link.pth
	gtrain ckpt strip-module in.pth -o link.pth -q
	equal "$status" 0
	equal "$(readlink link.pth)" there.pth
	keys there.pth | diff <(keys run/model.pth) -
}

@test "a full disk is told of the file that is written" {
	[[ ${SANITIZE-} != *thread* ]] || skip "its run-time keeps its memory in a file"
	for to in pth legacy safetensors; do
		gtrain ckpt convert in.pth --to "$to" -o "x.$to" -q
		equal "$status" 0
		(
			ulimit -f 0
			exec 2>&1
			"$GTRAIN" ckpt strip-module "x.$to" -o out
		) | cat >said
		[[ $(<said) =~ "copying 'x.$to' to 'out': cannot "|"cannot write 'out'" ]]
		gtrain ckpt strip-module "x.$to" -o none/out
		[[ $err == "gtrain: error: cannot write 'none/out'"* ]]
	done
	equal "$(find . -name '*.tmp-*')" ""
	(
		ulimit -f 0
		exec 2>&1
		"$GTRAIN" ckpt merge --average in.pth in.pth -o o.pth
	) | cat >said
	[[ $(<said) == "gtrain: error: the means, kept in '.' meanwhile: cannot write "* ]]
}
