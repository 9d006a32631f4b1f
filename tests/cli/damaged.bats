#!/usr/bin/env bats
# damaged.bats - images that cannot be decoded: left out, named, counted; and --strict-data.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers
load runs

MLP=mlp:144,2

# 16 images of each class, of which seven are damaged, each in its own way.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	folders 16 cat dog
	cp -r images good
	python3 - <<-'END'
		import struct, zlib
		good = open("images/cat/000.png", "rb").read()
		def header(width, height):
		    data = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
		    return good[:12] + data + struct.pack(">I", zlib.crc32(data)) + good[33:]
		# A JPEG of 16 x 16 gray pixels with one code in each table, cut short within its only block of data.
		jpeg = (b"\xff\xd8\xff\xdb\0\x43\0" + bytes([1] * 64) + b"\xff\xc0\0\x0b\x08\0\x10\0\x10\1\1\x11\0" +
		        b"".join(b"\xff\xc4\0\x14" + bytes([t, 1]) + bytes(15) + b"\0" for t in (0, 16)) + b"\xff\xda\0\x08\1\1\0\0\x3f\0\0")
		files = {"cat/001.png": jpeg[:-3], "cat/004.png": b"", "cat/007.png": b"no image, but a text\n",
		         "dog/002.png": good[:50] + bytes([good[50] ^ 1]) + good[51:], "dog/003.png": header(1 << 20, 1 << 20),
		         "dog/010.png": header(8000, 8000), "dog/011.png": good[:40]}
		for name, data in files.items():
		    open("images/" + name, "wb").write(data)
	END
	"$GTRAIN" train --model $MLP --data images:good,channels=1,size=12 --batch 8 --steps 10 --out good-run -q
	"$GTRAIN" train --model $MLP --data images:images,channels=1,size=12 --batch 8 --steps 10 --out run -q 2>/dev/null
}

setup() {
	cd "$BATS_FILE_TMPDIR" || return
}

named() {
	grep -o "warning: .*; left out$" <<<"$err"
}

@test "training names five damaged images and counts all, once, and goes on" {
	local ranks
	for ranks in 1 2 4; do
		gtrain train --model $MLP --data images:images,channels=1,size=12 --batch $((8 / ranks)) --nproc $ranks --epochs 2 --out named
		equal "$status" 0
		equal "$(named | wc -l)" 5
		equal "$(named | sed 's/.*\/\(.*\/....png\).*/\1/' | tr '\n' ' ')" "cat/001.png cat/004.png cat/007.png dog/002.png dog/003.png "
		equal "$(grep -o '[^ ]*data: damaged images left out: .*' <<<"$err")" "--data: damaged images left out: 7 of 32; --strict-data makes them an error"
		rm -r named
	done
}

@test "batches, and so the weights, do not depend on ranks and workers" {
	use_isa # the product is large
	local given first=
	# Images of 1024 x 1024 pixels take more than is decoded in advance.
	cp -r images many
	for given in cat/{1..9} dog/{1..9}; do
		cp -r "good/${given%/*}" "many/$given"
	done
	for given in "--batch 8 --nproc 1 --workers 0" "--batch 4 --nproc 2 --workers 4"; do
		# shellcheck disable=SC2086 # several words
		gtrain train --model mlp:1048576,2 --data images:many,channels=1,size=1024 --steps 40 --reproducible --out many-run $given
		equal "$status" 0
		equal "$(grep -o 'left out: .* of [0-9]*' <<<"$err")" "left out: 7 of 320"
		# shellcheck disable=SC2012
		first=${first:-$(sha256sum <many-run/model.pth)}
		equal "$(sha256sum <many-run/model.pth)" "$first"
		rm -r many-run
	done
}

@test "the loss of a step counts the images that are left, and their places" {
	# A batch of everything: the mean over 32 places, of which 7 count nothing.
	gtrain train --model $MLP --data images:images,channels=1,size=12 --batch 32 --steps 1 --lr 1e-9 --log-every 1 --seed 3 --out whole -q
	local left
	left=$(tail -1 whole/metrics.jsonl)
	gtrain eval --ckpt whole --data images:images -q --json
	check "[$left, $out]" 'abs(d[0]["loss"] * 32 / 25 - d[1]["loss"]) < 1e-5'
}

@test "mixtures with damaged images: the loss leaves their classes out, whatever ranks and workers" {
	local given first=
	for given in "--batch 8 --nproc 1 --workers 1" "--batch 4 --nproc 2 --workers 4" "--batch 2 --nproc 4 --workers 0"; do
		# shellcheck disable=SC2086 # several words
		gtrain train --model $MLP --data images:images,channels=1,size=12 --steps 20 --augment mixup --reproducible --out mixed $given
		equal "$status" 0
		[[ $err == *"left out: 7 of 32"* ]]
		# shellcheck disable=SC2012
		first=${first:-$(sha256sum <mixed/model.pth)}
		equal "$(sha256sum <mixed/model.pth)" "$first"
		rm -r mixed
	done
	# With weights near 0 every class is about ln 2: of 32 places, 7 count nothing, and mixtures share what is left.
	gtrain train --model $MLP --data images:images,channels=1,size=12 --batch 32 --steps 1 --lr 1e-9 --log-every 1 --seed 3 --out mixed \
		--augment mixup:alpha=1000 -q
	check "$(tail -1 mixed/metrics.jsonl)" '0.3 < d["loss"] * 32 / 25 < 1.4'
	gtrain train --model $MLP --data images:images,channels=1,size=12 --steps 3 --augment mixup --strict-data --out strict -q
	equal "$status" 1
}

@test "eval leaves damaged images out of all its numbers, and tells how many" {
	local given
	for given in "" "--nproc 2 --batch 5"; do
		# shellcheck disable=SC2086 # several words
		gtrain eval --ckpt run --data images:images --json --per-class --confusion --predictions p.csv $given
		equal "$status" 0
		check "$out" 'd["n"] == 25 and d["damaged"] == 7 and sum(c["n"] for c in d["classes"]) == 25 and sum(map(sum, d["confusion"])) == 25'
		equal "$(wc -l <p.csv)" 26
		equal "$(named | wc -l)" 5
		[[ $err == *"--data: damaged images left out: 7 of 32; --strict-data"* ]]
	done
	gtrain eval --ckpt run --data images:images
	[[ $out == *" of 25)  damaged 7" ]]
	gtrain eval --ckpt run --data images:good --json
	check "$out" '"damaged" not in d and d["n"] == 32'
}

@test "--strict-data stops at a damaged image, and names it" {
	gtrain train --model $MLP --data images:images,channels=1,size=12 --steps 3 --strict-data --out strict -q
	equal "$status" 1
	[[ $err == "gtrain: error: 'images/cat/001.png': corrupt JPEG"* ]]
	gtrain train --model $MLP --data images:good,channels=1,size=12 --val images:images --steps 3 --strict-data --out strict -q
	equal "$status" 1
	[[ $err == "gtrain: error: --val: 'images/cat/001.png': corrupt JPEG"* ]]
	gtrain eval --ckpt run --data images:images --strict-data
	equal "$status:$out" 1:
	[[ $err == *"error: 'images/cat/001.png': corrupt JPEG"* ]]
	gtrain train --model $MLP --data images:good,channels=1,size=12 --steps 3 --strict-data --out strict -q
	equal "$status:$err" 0:
}

@test "damaged images of a validation set are told of it; those of a part that is held out, of the data" {
	gtrain train --model $MLP --data images:good,channels=1,size=12 --val images:images --steps 3 --out val
	equal "$status" 0
	[[ $err == *"--val: damaged images left out: 7 of 32"* && $err != *"--data: damaged"* ]]
	lines val/metrics.jsonl 'v[-1]["n"] == 25'
	gtrain train --model $MLP --data images:images,channels=1,size=12 --val-split 0.5 --steps 3 --out held
	equal "$status" 0
	equal "$(grep -c "damaged images" <<<"$err")" 1
	[[ $err == *"--data: damaged images left out: 7 of 32"* ]]
}

@test "predict names every damaged input, answers the others, and fails" {
	local given
	for given in "" "--nproc 2 --batch 3"; do
		# shellcheck disable=SC2086 # several words
		gtrain predict --ckpt run images good/cat/000.png --csv --top 1 $given
		equal "$status" 1
		equal "$(sed 1d <<<"$out" | wc -l)" 26
		[[ $out != *images/cat/001.png* && $out == *images/cat/002.png*images/dog/015.png*good/cat/000.png* ]]
		equal "$(named | wc -l)" 7
		[[ $err == *"warning: 'images/cat/004.png': neither a JPEG, a PNG nor a WebP; left out"*"gtrain: error: 7 of 33 inputs could not be read"* ]]
	done
	gtrain predict --ckpt run good/cat/000.png images/cat/004.png images/dog/011.png --json
	equal "$status" 1
	check "$out" '[p["input"] for p in d["predictions"]] == ["good/cat/000.png"] and d["damaged"] == ["images/cat/004.png", "images/dog/011.png"]'
	gtrain predict --ckpt run images/cat/004.png images/dog/011.png
	equal "$status:$out" 1:
	[[ $err == *"'images/dog/011.png'"*"error: none of the 2 images can be decoded; the first: 'images/cat/004.png': neither"* ]]
}
