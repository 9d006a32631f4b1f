#!/usr/bin/env bats
# tokens.bats - tokens in files of llm.c and nanoGPT.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	mkdir raw headed 'r[1]' r1
	python3 - <<-'END'
		import struct
		ids = [i * i % 41 for i in range(900)]
		put = lambda path, data: open(path, "wb").write(data)
		pack = lambda form, part: struct.pack("<%d%s" % (len(part), form), *part)
		head = lambda n, magic=20240520, version=1: struct.pack("<256i", magic, version, n, *[0] * 253)
		put("one.bin", pack("H", ids))
		put("wide.bin", pack("I", ids))
		for i, (a, b) in enumerate(((0, 333), (333, 340), (340, 900))):
		    put("raw/%d.bin" % i, pack("H", ids[a:b]))
		    put("r[1]/%d.bin" % i, pack("H", ids[a:b]))
		    put("headed/%d.bin" % i, head(b - a) + pack("H", ids[a:b]))
		put("headed32.bin", head(900, 20240801, 7) + pack("I", ids))
		put("t[1]*.bin", pack("H", ids))
		put("t1.bin", pack("H", ids[:100])) # names that the patterns above match
		put("r1/0.bin", pack("H", ids[:100]))
		put("odd.bin", b"123")
		put("large.bin", pack("H", ids[:300] + [41] + ids[:300]))
		put("cut.bin", head(500) + pack("H", ids[:400]))
		put("long.bin", head(500) + pack("H", ids[:600]))
		put("half.bin", head(500) + pack("H", ids[:500]) + b"1")
		put("version.bin", head(300, version=2) + pack("H", ids[:300]))
	END
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

gpt=(train --model "gpt:layers=1,heads=2,width=16,block=16" --batch 4 --steps 12 --seed 1 -q --out)

@test "shards, names, headers and types are one stream: the same curve and the same evaluation" {
	local spec wanted="" loss
	for spec in one.bin raw headed 'raw/*.bin' 'raw/{0..2}.bin' 'r[1]' 't[1]*.bin' headed32.bin \
		wide.bin,type=uint32; do
		rm -rf run
		gtrain "${gpt[@]}" run --data "tokens:$spec,vocab=41" --val-split 0.2
		equal "$status:$err" 0:
		gtrain eval --ckpt run --data "tokens:$spec" --json
		check "$out" 'd["n"] == 899'
		loss=$out$(grep -o '"loss":[^,]*' run/metrics.jsonl)
		equal "$loss" "${wanted:=$loss}"
	done
	gtrain eval --ckpt run --data tokens:headed --json --nproc 2
	equal "$out" "${wanted%%\"loss\":[0-9]*}"
}

@test "files that are damaged or beyond the vocabulary are refused" {
	local row
	while IFS='|' read -r row want code; do
		gtrain "${gpt[@]}" none --data "tokens:$row"
		[[ $status == "$code" && $err == *"$want"* ]] || { echo "$row: $status $err"; return 1; }
	done <<-'END'
		odd.bin,vocab=41|'odd.bin': 3 bytes are no whole number of tokens|1
		large.bin,vocab=41|'large.bin': token 41 at byte 600 is beyond the vocabulary of 41|1
		cut.bin,vocab=41|'cut.bin': the header says 500 tokens, but there are bytes for 400|1
		long.bin,vocab=41|'long.bin': the header says 500 tokens, but there are bytes for 600|1
		half.bin,vocab=41|'half.bin': the header says 500 tokens, but there are bytes for 500 and a part of one|1
		version.bin,vocab=41|'version.bin': version 2 of llm.c's tokens, not 1|1
		missing.bin,vocab=41|cannot open 'missing.bin'|1
		r*.bin,vocab=41|there is no file 'r*.bin'|1
		one.bin|the vocabulary size of the tokens is not known|2
		one.bin,type=float,vocab=9|no such choice|2
	END
}

@test "tokens of 32 bits that are read as 16 bits get a warning" {
	python3 -c 'import struct
open("wide.bin", "wb").write(struct.pack("<400I", *(i % 41 for i in range(400))))'
	local said="every second token of 'wide.bin' is 0, as in a file of uint32: add type=uint32"
	gtrain "${gpt[@]}" none --data tokens:wide.bin,vocab=41 --dry-run
	[[ $status == 0 && $err == *"warning: --data: $said"* ]]
	for type in uint16 uint32; do
		gtrain "${gpt[@]}" none --data tokens:wide.bin,vocab=41,type=$type --dry-run
		[[ $status == 0 && $err != *"every second"* ]]
	done
}
