#!/usr/bin/env bats
# packages.bats - the source archive and the wheel have the same bytes each time and all files; shells of container files.
# `make check-packages` installs and runs them.
# shellcheck disable=SC2154 # what helpers set

bats_require_minimum_version 1.5.0
load helpers

setup() {
	[ -z "${SANITIZE-}" ] || skip "the build has sanitizers"
	cd "$ROOT" || return
	[ -e MANIFEST ] || git rev-parse --git-dir >/dev/null 2>&1 || skip "git: neither a repository nor an unpacked archive"
	made=$BATS_TEST_TMPDIR/made
	gtrain --version
	version=$(grep -oE '[0-9]+(\.[0-9]+)+' <<<"$out" | head -n 1)
}

make_here() {
	make --no-print-directory "BUILD=$made" "$@"
}

@test "make dist has the files that git tracks, with one time, and the same bytes in another folder, from files of other times and permissions" {
	SOURCE_DATE_EPOCH=1000000000 run -0 make_here dist
	[[ $output == *"/gtrain-$version.tar.gz: "*" files, "*" bytes" ]]
	tar -tvf "$made/packages/gtrain-$version.tar.gz" --utc >"$BATS_TEST_TMPDIR/list"
	equal "$(awk '{ print $4 }' "$BATS_TEST_TMPDIR/list" | sort -u)" 2001-09-09
	if [ -e .git ]; then
		{ git ls-files | while read -r file; do [ ! -e "$file" ] || echo "$file"; done && echo MANIFEST; } | sort |
			diff - <(sed "s,.* gtrain-$version/,," "$BATS_TEST_TMPDIR/list" | sort)
	fi
	mkdir "$BATS_TEST_TMPDIR/other"
	(umask 077 && tar -xf "$made/packages/gtrain-$version.tar.gz" -C "$BATS_TEST_TMPDIR/other")
	cd "$BATS_TEST_TMPDIR/other/gtrain-$version"
	find . -exec touch -d 2001-02-03 {} +
	(umask 027 && TZ=Asia/Tokyo make --no-print-directory "BUILD=$made/again" dist)
	cmp "$made/packages/gtrain-$version.tar.gz" "$made/again/packages/gtrain-$version.tar.gz"
}

@test "a folder that is neither a repository nor an archive has no make dist" {
	mkdir "$BATS_TEST_TMPDIR/bare"
	cp -R --parents Makefile .ci/packages tests/tests.mk tests/fuzz/fuzz.mk "$BATS_TEST_TMPDIR/bare"
	run ! --separate-stderr env GIT_CEILING_DIRECTORIES="$BATS_TEST_TMPDIR" make -C "$BATS_TEST_TMPDIR/bare" --no-print-directory "BUILD=$made" dist
	[[ $stderr == *"no time for the files of packages: no repository of git, no MANIFEST"* ]]
}

@test "make dist ends without an archive if git fails" {
	[ -e .git ] || skip "git: no repository"
	run ! env GIT_DIR=/nowhere VERSION=1.2 SOURCE_DATE_EPOCH=1000 sh .ci/packages/dist "$made"
	equal "$(ls -A "$made")" ""
}

@test "the wheel has the installed files and the libraries of the program, names its C library, and has the same bytes each time" {
	installed=$BATS_TEST_TMPDIR/installed
	mkdir -p "$made" "$installed/bin" "$installed/lib/gtrain" "$installed/lib/pkgconfig" "$installed/share/man/man1"
	cp man/gtrain.1 "$installed/share/man/man1"
	touch "$installed/lib/pkgconfig/gtrain.pc" "$installed/lib/gtrain/libgtrain-mpi.so"
	printf '#include <zlib.h>\nint main(void) { return !zlibVersion(); }\n' >"$BATS_TEST_TMPDIR/small.c"
	${CC:-cc} -o "$installed/bin/gtrain" "$BATS_TEST_TMPDIR/small.c" -lz
	make_wheel=(env "VERSION=$version" SOURCE_DATE_EPOCH=1000000000 python3 .ci/packages/wheel.py --installed "$installed" "$made")
	run -0 "${make_wheel[@]}"
	file=${output%%:*}
	[[ $output == *": 1 libraries, C library 2."* && $file == "$made/gtrain-$version-py3-none-manylinux_2_"*"_$(uname -m).whl" ]]
	mv "$file" "$BATS_TEST_TMPDIR/first.whl"
	touch -d 2001-02-03 "$installed/share/man/man1/gtrain.1"
	(umask 077 && "${make_wheel[@]}")
	cmp "$file" "$BATS_TEST_TMPDIR/first.whl"
	# The sums in RECORD, the names, and the version of the C library, which is that of the newest function that a file needs.
	python3 - "$file" "$version" <<-'END' >"$BATS_TEST_TMPDIR/names"
		import base64, csv, hashlib, io, sys, zipfile
		z, version = zipfile.ZipFile(sys.argv[1]), sys.argv[2]
		rows = list(csv.reader(io.StringIO(z.read(f"gtrain-{version}.dist-info/RECORD").decode())))
		assert [r[0] for r in rows] == z.namelist(), "RECORD has other files"
		for name, digest, size in rows[:-1]:
		    content = z.read(name)
		    sum = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
		    assert digest == "sha256=" + sum and int(size) == len(content), name
		assert f"\nVersion: {version}\n" in z.read(f"gtrain-{version}.dist-info/METADATA").decode()
		assert z.getinfo(f"gtrain-{version}.data/scripts/gtrain").external_attr >> 16 & 0o111 == 0o111
		print(*(n for n in z.namelist() if "dist-info" not in n), sep="\n")
	END
	data=gtrain-$version.data
	equal "$(<"$BATS_TEST_TMPDIR/names")" "$(printf '%s\n' "$data/data/lib/gtrain/libgtrain-mpi.so" "$data/data/libexec/gtrain/libz.so.1" \
		"$data/data/share/man/man1/gtrain.1" "$data/scripts/gtrain" gtrain/__init__.py gtrain/__main__.py)"
	newest=$(objdump -p "$installed/bin/gtrain" "$(ldd "$installed/bin/gtrain" | awk '$1 == "libz.so.1" { print $3 }')" |
		grep -oE 'GLIBC_[0-9]+\.[0-9]+' | sort -V | tail -n 1)
	[[ $file == *"manylinux_$(tr . _ <<<"${newest#GLIBC_}")_"* ]]
	run -1 "${make_wheel[@]}" --open libmissing.so.9
	[[ $output == "make wheel: there is no library libmissing.so.9" ]]
}

@test "shells in container files are without warnings, and install what the Makefile's packages are" {
	command -v shellcheck >/dev/null || skip "shellcheck: not installed"
	for file in .ci/packages/Containerfile .ci/packages/Containerfile.cuda; do
		# A RUN line and those that it continues on are one script.
		awk '/^RUN / { on = 1; sub(/^RUN /, "") } on { print } on && !/\\$/ { on = 0 }' "$file" >"$BATS_TEST_TMPDIR/script"
		equal "$(grep -c 'apt-get update' "$BATS_TEST_TMPDIR/script")" 2
		shellcheck -s sh "$BATS_TEST_TMPDIR/script"
		grep -q 'make deps' "$BATS_TEST_TMPDIR/script"
	done
}
