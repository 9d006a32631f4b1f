#!/usr/bin/env bats
# readme.bats - the commands in the README are run, one after the other, and print its output.

load helpers

setup_file() {
	use_isa
}

# The tour of the README, with steps of 2 samples in place of 16: the runs take most of the time, and nothing below depends on their losses.
tour() {
	sed -E 's/^(\$ gtrain train .*) --batch 16 /\1 --batch 2 /; s/^(run: .*) steps of 16 samples, 1[03] epochs$/\1 steps of 2 samples, 2 epochs/' \
		"$ROOT/README.md"
}

@test "the tour of the README works as it is written, but for the size of batches" {
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
	done < <(tour | sed -n 's/^\$ \(gtrain .*\)/\1/p')
	[ "$count" -ge 16 ]
	[ -s runs/gpl/model.pth ]
	[ -s runs/gpl/checkpoints/step-00000400.pth ]
	[ -s gpl.safetensors ]
	[ -s gpl.html ]
	[ -s mean.pth ]
	# Times, losses and kernels are those of a machine.
	# shellcheck disable=SC2016 # backquotes of Markdown
	while IFS= read -r line; do
		grep -qxF -- "$line" results || {
			echo "not printed: $line"
			return 1
		}
	done < <(tour | sed -n '/^```console/,/^```/p' |
		grep -vE '^```|^\$|^\.\.\.|^$|^NAME |^batch |loss |tokens/s|^done:|^memory:| ms$|FLOP|^  (activations|total) |^activations would')
}

@test "the table of the README is trained on, and its rows predicted" {
	cd "$BATS_TEST_TMPDIR" || return
	awk 'BEGIN { print "area,region,price"; for (i = 0; i < 200; i++) print i % 37 + 40 "," substr("ABC", i % 3 + 1, 1) "," 1000 * (i % 37) + i % 3 }' >houses.csv
	head -n 4 houses.csv | cut -d, -f1-2 >new_houses.csv
	grep -E '^gtrain (train|predict) .*houses' "$ROOT/README.md" >commands
	equal "$(wc -l <commands)" 2
	mkdir bin
	ln -s "$GTRAIN" bin/gtrain
	PATH=$PWD/bin:$PATH bash -e commands >out
	equal "$(tail -n 3 out | cut -d' ' -f1)" $'new_houses.csv:2\nnew_houses.csv:3\nnew_houses.csv:4'
}
