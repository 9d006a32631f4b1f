#!/usr/bin/env bats
# readme.bats - the commands in the README are run, one after the other, and print its output.

load helpers

@test "the tour of the README works as it is written" {
	local command line count=0
	nm "$GTRAIN" | grep -qE '__asan_init|__tsan_init' && skip "the build has sanitizers"
	[ -r /usr/share/common-licenses/GPL-3 ] || skip "the text of the tour is not here"
	mkdir "$BATS_TEST_TMPDIR/bin"
	ln -s "$GTRAIN" "$BATS_TEST_TMPDIR/bin/gtrain"
	cd "$BATS_TEST_TMPDIR" || return
	while read -r command; do
		PATH=$PWD/bin:$PATH bash -c "$command" >result 2>&1 </dev/null || {
			printf '%s\n' "$command"
			cat result
			return 1
		}
		cat result >>results
		count=$((count + 1))
	done < <(sed -n 's/^\$ \(gtrain .*\)/\1/p' "$ROOT/README.md")
	[ "$count" -ge 13 ]
	[ -s runs/gpl/model.pth ]
	[ -s runs/gpl/checkpoints/step-00000400.pth ]
	[ -s gpl.safetensors ]
	[ -s mean.pth ]
	# Times, losses and kernels are those of a machine.
	# shellcheck disable=SC2016 # backquotes of Markdown
	while IFS= read -r line; do
		grep -qxF -- "$line" results || {
			echo "not printed: $line"
			return 1
		}
	done < <(sed -n '/^```console/,/^```/p' "$ROOT/README.md" |
		grep -vE '^```|^\$|^\.\.\.|^$|loss |tokens/s|^done:|^memory:| ms$|FLOP|^  (activations|total) |^activations would')
}
