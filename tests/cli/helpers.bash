# helpers.bash - what the tests of the command line share.

GTRAIN=$(realpath "${GTRAIN:-build/gtrain}")
ROOT=$(realpath "$BATS_TEST_DIRNAME/../..")
export GTRAIN ROOT LC_ALL=C

# Run a command: its standard output, standard error and exit status apart, in $out, $err, $status.
# shellcheck disable=SC2034 # the tests read them
apart() {
	status=0
	"$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || status=$?
	out=$(<"$BATS_TEST_TMPDIR/out")
	err=$(<"$BATS_TEST_TMPDIR/err")
}

gtrain() {
	apart "$GTRAIN" "$@"
}

# limited KIB ARGUMENTS: as gtrain, where a process has KIB of address space beside the program's file, which has 100 MB more with
# kernels for GPUs.
limited() {
	[[ -z ${SANITIZE-} ]] || skip "sanitizers reserve more addresses"
	# shellcheck disable=SC2016 # of that shell
	apart bash -c 'ulimit -v "$1"; exec "${@:2}"' _ "$(($1 + $(stat -Lc %s "$GTRAIN") / 1024))" "$GTRAIN" "${@:2}"
}

# Succeed in one of K calls, beginning with the first; in each if THOROUGH is set, as `make check-thorough` does: for rows of long tables.
one_in() {
	[[ -n ${THOROUGH-} ]] || ((rows_met++ % $1 == 0))
}
rows_met=0

# Let oneDNN use all instructions of the processor, unless the user has chosen; tests/run has short runs use fewer.
use_isa() {
	export ONEDNN_MAX_CPU_ISA=${GTRAIN_TEST_ISA:-DEFAULT}
}

# Fail unless the two are equal; print both, or the lines that differ if there are several: wanted -, found +.
equal() {
	[[ $1 != "$2" ]] || return 0
	if [[ $1$2 == *$'\n'* ]]; then
		diff -U 0 --label wanted --label found <(printf '%s\n' "$2") <(printf '%s\n' "$1")
	else
		printf 'wanted: %s\nfound:  %s\n' "$2" "$1"
	fi
	return 1
}

# values FILE FILTERS: the values that jq's filters, separated by commas, give for a JSON file, as an array. jq 1.7 prints
# numbers as the file has them, jq 1.6 prints 1.0 as 1: so they are computed with, and all versions print them alike.
values() {
	jq -c "[$2] | walk(if type == \"number\" then . + 0 else . end)" "$1"
}

# The first words of commands, from the list that `gtrain help` prints; with a group, its words.
words() {
	"$GTRAIN" help "$@" | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# The names of the commands, one per line; of two words where they are in a group.
commands() {
	"$GTRAIN" help --json | jq -r '.commands[].name'
}

# option_words COMMAND OPTION: the words that an option takes.
option_words() {
	# shellcheck disable=SC2086
	"$GTRAIN" help $1 --json | jq -r --arg name "$2" '.commands[].options[] | select(.name == $name) | .words[]'
}

# The long options in a command's --help, sorted. Its name may be two words.
help_options() {
	# shellcheck disable=SC2086
	"$GTRAIN" $1 --help | sed -n 's/^  \(-[a-z], \|    \)--\([a-z0-9-]*\).*/\2/p' | sort
}
