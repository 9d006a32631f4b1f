#!/usr/bin/env bats
# consistency.bats - help, manual pages and completions name the same options.
# shellcheck disable=SC2016,SC2086 # inner shells expand; a command may be two words

bats_require_minimum_version 1.5.0

setup() {
	load helpers
}

# `help` has no page of its own: gtrain.1 describes it.
page() {
	if [[ $1 == help ]]; then
		echo "$ROOT/man/gtrain.1"
	else
		echo "$ROOT/man/gtrain-${1// /-}.1"
	fi
}

# The long options in a page's lists, sorted.
page_options() {
	sed -n '/^\.It Fl/s/.*Fl -\([a-z0-9-]*\).*/\1/p' "$1" | sort
}

# The topics that `gtrain help` describes besides commands.
topics() {
	"$GTRAIN" help | sed -n '/^Topics for/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# The whole words that bash would put in place of the last one of a line.
bash_offers() {
	bash -c 'source "$1"; compopt() { :; }
		COMP_LINE=$2 COMP_POINT=${#2}; _gtrain "$GTRAIN"
		word=${2##* }; before=; [[ $word != *[:=]* ]] || before=${word%"${word##*[:=]}"}
		printf "%s\n" "${COMPREPLY[@]/#/$before}"' - "$ROOT/completions/gtrain.bash" "$1"
}

# The same for zsh: the functions of its completion system are replaced.
zsh_offers() {
	zsh -fc 'source <(sed "s/^_gtrain .*//; /^#compdef/d" $1)
		compset() { PREFIX=${PREFIX#${~2}}; IPREFIX=$2 }
		_describe() {
			local w
			for w in "${(@P)4}"; do
				w=${${w/(#m)[^\\]:*/$MATCH[1]}//\\:/:}
				[[ $w != "$PREFIX"* ]] || print -r -- $w
			done
		}
		_files() { print -rl -- $IPREFIX${^$(print -l $PREFIX*(N))} }
		setopt extendedglob
		words=("${(@s: :)2}") words[1]=$GTRAIN CURRENT=$#words PREFIX=$words[-1]
		_gtrain' - "$ROOT/completions/_gtrain" "$1"
}

fish_offers() {
	PATH=${GTRAIN%/*}:$PATH fish --no-config -c 'source $argv[1]; complete -C $argv[2]' \
		"$ROOT/completions/gtrain.fish" "$1" | cut -f1
}

# Those shells of bash, zsh and fish that are here.
shells() {
	local shell
	for shell in bash zsh fish; do
		! command -v $shell >/dev/null || echo $shell
	done
}

@test "there is a manual page for each command, without a mark from mandoc" {
	local command
	while read -r command; do
		[ -f "$(page "$command")" ] || {
			echo "gtrain $command has no page $(page "$command")"
			return 1
		}
		run -0 mandoc -T lint -W warning "$(page "$command")"
		equal "$output" ""
	done < <(commands)
}

@test "each manual page lists the options of --help" {
	local command
	while read -r command; do
		equal "$(page_options "$(page "$command")")" "$(help_options "$command")" || {
			echo "the options of $(page "$command") are not those of gtrain $command --help"
			return 1
		}
	done < <(commands)
}

@test "manual pages have every word that options take" {
	local command option words text word
	while IFS=$'\t' read -r command option words; do
		text=$(sed -n "/^\.It \(Fl [a-zA-Z] , \)\?Fl -$option\( \|\$\)/,/^\.It Fl/p" "$(page "$command")")
		for word in $words; do
			[[ " ${text//$'\n'/ } " == *" $word "* ]] || {
				echo "$(page "$command") lacks '$word' of --$option"
				return 1
			}
		done
	done < <("$GTRAIN" help --json |
		jq -r '.commands[] | .name as $c | .options[] | select(.type == "choice") | [$c, .name, (.words | join(" "))] | @tsv')
}

@test "manual pages have the default of each option" {
	local command option default text
	while IFS=$'\t' read -r command option default; do
		text=$(sed -n "/^\.It \(Fl [a-zA-Z] , \)\?Fl -$option\( \|\$\)/,/^\.It Fl/p" "$(page "$command")")
		[[ " ${text//$'\n'/ } " == *" $default"[\ .,]* ]] || {
			echo "$(page "$command") lacks the default '$default' of --$option"
			return 1
		}
	done < <("$GTRAIN" help --json |
		jq -r '.commands[] | .name as $c | .options[] | select(.default and (.otherwise | not)) | [$c, .name, .default] | @tsv')
}

@test "gtrain-train.1 has the table of 'help resume', which has every option that a run keeps" {
	equal "$(sed -n '/^\.Ss Resuming with other options/,/^\.Ed/p' "$ROOT/man/gtrain-train.1" |
		sed '1,/^\.Bd/d; /^\.Ed/d; s/\\-/-/g' | tr -s ' \n' ' ')" "$("$GTRAIN" help resume | tr -s ' \n' ' ')"
	"$GTRAIN" train --model mlp --data random:8/3,samples=64 --steps 1 --out "$BATS_TEST_TMPDIR/run" -q
	equal "$("$GTRAIN" help resume --json | jq -r '.resume[].option')" \
		"$(jq -r 'del(.about) | keys_unsorted[]' "$BATS_TEST_TMPDIR/run/config.json")"
}

@test "gtrain.1 names every command" {
	local command
	while read -r command; do
		grep -qx ".It Cm ${command% *}" "$ROOT/man/gtrain.1" || {
			echo "gtrain.1 does not name ${command% *}"
			return 1
		}
		[[ $command != *' '* ]] || grep -qx ".It Cm ${command#* }" "$ROOT/man/gtrain-${command% *}.1" || {
			echo "gtrain-${command% *}.1 does not name ${command#* }"
			return 1
		}
	done < <(commands)
}

@test "completion offers the options of --help, and the values of --color" {
	local command
	while read -r command; do
		equal "$("$GTRAIN" --complete $command -- | sed -n 's/^--\([^\t]*\).*/\1/p' | sort)" "$(help_options "$command")"
		equal "$("$GTRAIN" --complete $command --color a)" "word space "$'\n'"auto"$'\n'"always"
		equal "$("$GTRAIN" --complete $command --color=n)" "word space --color="$'\n'"--color=never"
	done < <(commands)
}

@test "completion offers an option once, also by its letter, unless it collects values" {
	[[ $("$GTRAIN" --complete ckpt rename -) == *$'\n-o\twrite'* ]]
	[[ $("$GTRAIN" --complete ckpt rename -o x -) != *$'\n--output\t'* ]]
	[[ $("$GTRAIN" --complete ckpt rename --map a=b --quiet --) == *$'\n--map\t'* ]]
	[[ $("$GTRAIN" --complete ckpt rename --map a=b --quiet --) != *--quiet* ]]
	equal "$("$GTRAIN" --complete train --tf32=)" "word space --tf32="$'\n--tf32=yes\n--tf32=no'
	equal "$("$GTRAIN" --complete train --device cpu,)" "word space cpu,"$'\n'"cpu,cuda"
	equal "$("$GTRAIN" --complete ckpt ls '')" "file space "
	equal "$("$GTRAIN" --complete train --out=ru)" "directory space --out="
	equal "$("$GTRAIN" --complete nosuch '')" "word space "
	equal "$("$GTRAIN" --complete | wc -l)" $(($(words | wc -l) + 1))
	run -1 bash -c '"$GTRAIN" --complete train - >/dev/full'
}

@test "each shell offers commands, options and topics" {
	local shell
	for shell in $(shells); do
		equal "$(${shell}_offers 'gtrain ' | sort)" "$(words | sort)"
		equal "$(${shell}_offers 'gtrain ckpt ' | sort)" "$(words ckpt | sort)"
		equal "$(${shell}_offers 'gtrain -' | sort)" "--help"$'\n'"--version"
		equal "$(${shell}_offers 'gtrain help ' | sort)" "$( (words && topics) | sort -u)"
		equal "$(${shell}_offers 'gtrain ckpt verify --' | sed 's/^--//' | sort)" "$(help_options 'ckpt verify')"
		equal "$(${shell}_offers 'gtrain probe --color=a' | sort)" "--color=always"$'\n'"--color=auto"
	done
}

# OPTION | WHAT IS TYPED | OFFERS, in any order
spec_cases() {
	cat <<-'CASES'
		model|mlp|mlp
		model|gpt2-|gpt2-large gpt2-medium gpt2-xl
		model|gpt:he|gpt:heads=
		model|gpt:layers=4,b|gpt:layers=4,bias= gpt:layers=4,block=
		model|gpt:layers=4,bias=n|gpt:layers=4,bias=no
		model|gpt2:gelu=|gpt2:gelu=erf gpt2:gelu=tanh
		model|resnet50:c|resnet50:classes=
		model|lenet:x|
		data|im|images:
		data|images:pho|images:photos
		data|images:photos,m|images:photos,mean=
		data|images:photos,size=64,ch|images:photos,size=64,channels=
		data|mnist:m,split=t|mnist:m,split=test mnist:m,split=train
		data|mn|mnist: mnist
		data|sh|shakespeare
		data|fashion-mnist,sp|fashion-mnist,split=
		data|random,s|random,samples=
		augment|fl|flip
		augment|crop,f|crop,flip
		augment|crop,jitter:h|crop,jitter:hue=
		augment|jitter:hue=0.1:con|jitter:hue=0.1:contrast=
		augment|jitter:hue=0.1,c|jitter:hue=0.1,crop
		augment|flip:x|
		augment|flip,f|
		model|gpt:bias=no,b|gpt:bias=no,block=
	CASES
}

@test "models, data and augmentations are completed: names, paths, settings and their values" {
	local option typed wanted shell
	cd "$BATS_TEST_TMPDIR" || return
	mkdir -p photos
	while IFS='|' read -r option typed wanted; do
		wanted=$(tr ' ' '\n' <<<"$wanted" | sort)
		for shell in $(shells); do
			equal "$(${shell}_offers "gtrain train --$option $typed" | sed 's,/$,,' | sort)" "$wanted"
			equal "$(${shell}_offers "gtrain train --$option=$typed" | sed "s/^--$option=//; s,/$,," | sort)" "$wanted"
		done
	done < <(spec_cases)
}
