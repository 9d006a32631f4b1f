#!/usr/bin/env bats
# frame.bats - what every use of gtrain has in common: help, hints, exit statuses.
# shellcheck disable=SC2016,SC2086 # inner shells expand; a command may be two words

bats_require_minimum_version 1.5.0

setup() {
	load helpers
}

@test "without a command, usage is on standard error with status 2" {
	gtrain
	equal "$status" 2
	equal "$out" ""
	equal "${err%%$'\n'*}" "usage: gtrain [--version] [--help] COMMAND [ARGUMENTS]"
}

@test "help and --help list the commands on standard output" {
	gtrain help
	equal "$status" 0
	equal "$err" ""
	[[ $out == "usage: gtrain "*"Commands:"*"  help "* ]]
	local listed=$out
	gtrain --help
	equal "$status" 0
	equal "$out" "$listed"
}

@test "--version prints one line" {
	gtrain --version
	equal "$status" 0
	[[ $out =~ ^gtrain\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
	equal "$err" ""
}

@test "help COMMAND is COMMAND --help" {
	local command
	while read -r command; do
		gtrain help $command
		equal "$status" 0
		local help=$out
		[[ $help != *"(null)"* ]]
		gtrain $command --help
		equal "$status" 0
		equal "$out" "$help"
		equal "$err" ""
	done < <(commands)
}

@test "a mistyped command gets a hint" {
	gtrain hlep
	equal "$status" 2
	equal "$out" ""
	equal "$err" "gtrain: error: 'hlep' is not a command
hint: did you mean 'help'?"
	gtrain help hlep
	equal "$status" 2
	equal "$err" "gtrain: error: 'hlep' is not a command
hint: did you mean 'help'?"
}

@test "a word near nothing is sent to the list" {
	gtrain xyzzy
	equal "$status" 2
	equal "$err" "gtrain: error: 'xyzzy' is not a command
hint: 'gtrain help' lists the commands"
}

@test "a mistyped option gets a hint" {
	gtrain --verison
	equal "$status" 2
	equal "$err" "gtrain: error: unknown option '--verison'
hint: did you mean '--version'?"
	gtrain -V
	equal "$status:$err" "2:gtrain: error: unknown option '-V'
hint: did you mean '--version'?"
	gtrain help --quite
	equal "$status" 2
	equal "$out" ""
	equal "$err" "gtrain: error: unknown option '--quite'
hint: did you mean '--quiet'?"
}

@test "options that contradict each other are refused" {
	gtrain help -qv
	equal "$status" 2
	equal "${err%%$'\n'*}" "gtrain: error: --quiet cannot be combined with --verbose"
}

@test "too many words are refused" {
	gtrain help help help
	equal "$status" 2
	equal "${err%%$'\n'*}" "gtrain: error: unexpected argument 'help'"
	gtrain train --recompute atuo
	equal "$status" 2
	equal "$err" "gtrain: error: --recompute: 'atuo' is not one of none, all, auto
hint: did you mean 'auto'?"
}

@test "every command refuses a bad option with status 2 and an empty standard output" {
	local command
	while read -r command; do
		gtrain $command --no-such-option
		equal "$status" 2
		equal "$out" ""
		equal "${err%%$'\n'*}" "gtrain: error: unknown option '--no-such-option'"
	done < <(commands)
}

@test "results that cannot be written are a failure" {
	local command
	while read -r command; do
		run -1 bash -c '"$GTRAIN" $1 --help 2>&1 >/dev/full' - "$command"
		equal "$output" \
			"gtrain: error: cannot write to standard output: No space left on device"
	done < <(commands)
	run -1 bash -c '"$GTRAIN" --version 2>&1 >/dev/full'
}

@test "a closed standard output is a failure" {
	run -1 bash -c '"$GTRAIN" --version 2>&1 >&-'
	equal "$output" "gtrain: error: cannot write to standard output: Bad file descriptor"
}

@test "a reader that has gone is a failure, not a signal, and needs no words" {
	run -0 bash -c '
		{ sleep 0.2; "$GTRAIN" help 2>"$1"; echo "$?" >"$2"; } | true
		cat "$2"' - "$BATS_TEST_TMPDIR/err" "$BATS_TEST_TMPDIR/status"
	equal "$output" 1
	equal "$(<"$BATS_TEST_TMPDIR/err")" ""
}

@test "color is asked for, or left to the terminal and NO_COLOR" {
	local escape=$'\033'
	gtrain help --color=always
	[[ $out == *"$escape"* ]]
	gtrain help
	[[ $out != *"$escape"* ]]
	# script gives the program a terminal
	command -v script >/dev/null || skip "script is not here"
	export TERM=xterm
	run env -u NO_COLOR script -qec '"$GTRAIN" help' /dev/null
	[[ $output == *"$escape"* ]]
	run env NO_COLOR=1 script -qec '"$GTRAIN" help' /dev/null
	[[ $output != *"$escape"* ]]
	run env NO_COLOR= script -qec '"$GTRAIN" help' /dev/null
	[[ $output == *"$escape"* ]]
	run env -u NO_COLOR script -qec '"$GTRAIN" help --color=never' /dev/null
	[[ $output != *"$escape"* ]]
	run env -u NO_COLOR TERM=dumb script -qec '"$GTRAIN" help' /dev/null
	[[ $output != *"$escape"* ]]
}

@test "help --json is one JSON document that knows every command and option" {
	gtrain help --json
	equal "$status" 0
	local names
	names=$(python3 -c 'import json, sys
for c in json.load(sys.stdin)["commands"]:
    print(c["name"], *sorted(o["name"] for o in c["options"]))' <<<"$out")
	local wanted
	wanted=$(commands | while read -r c; do
		# shellcheck disable=SC2046
		echo "$c" $(help_options "$c")
	done)
	equal "$names" "$wanted"
}
