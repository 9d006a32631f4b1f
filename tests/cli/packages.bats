#!/usr/bin/env bats
# packages.bats - the source archive has the same bytes each time and all files.
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
	cp -R --parents Makefile packages tests/tests.mk tests/fuzz/fuzz.mk "$BATS_TEST_TMPDIR/bare"
	run ! --separate-stderr env GIT_CEILING_DIRECTORIES="$BATS_TEST_TMPDIR" make -C "$BATS_TEST_TMPDIR/bare" --no-print-directory "BUILD=$made" dist
	[[ $stderr == *"no time for the files of packages: no repository of git, no MANIFEST"* ]]
}
