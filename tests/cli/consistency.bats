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

# What `gtrain help` describes besides commands.
topics() {
	printf 'models\ndata\naugment\nresume\nrecipes\n'
}

# The whole word that bash would put in place of the last one of a line, for each offer.
bash_completes() {
	bash -c 'source "$1"
		read -ra COMP_WORDS < <(sed "s/[:=]/ & /g" <<<"$2")
		[[ $2 != *[:=\ ] ]] || COMP_WORDS+=("")
		COMP_LINE=$2 COMP_POINT=${#2} COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gtrain
		word=${2##* }; before=; [[ $word != *[:=]* ]] || before=${word%"${word##*[:=]}"}
		printf "%s\n" "${COMPREPLY[@]/#/$before}"' - "$BATS_TEST_TMPDIR/gtrain.bash" "$1"
}

# The same for zsh: the functions of its completion system are replaced.
zsh_completes() {
	zsh -fc 'source <(sed "s/^_gtrain .*//; /^#compdef/d" $1)
		compset() { local cut=${PREFIX##${~2}}; IPREFIX+=${PREFIX%$cut}; PREFIX=$cut }
		compadd() {
			local w
			while [[ $1 != -- ]]; do shift; done; shift
			for w; do [[ $w != $PREFIX* ]] || print -r -- $IPREFIX$w; done
		}
		_files() { print -rl -- $IPREFIX${^$(print -l $PREFIX*(N))} }
		PREFIX=${3##*=} PREFIX=$3 IPREFIX=
		_gtrain_$2' - "$BATS_TEST_TMPDIR/_gtrain" "$1" "$2"
}

# Long options and commands that bash offers for the words of a command line.
bash_offers() {
	bash -c 'source "$1"; shift
		COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gtrain
		printf "%s\n" "${COMPREPLY[@]}"' - "$BATS_TEST_TMPDIR/gtrain.bash" "$@"
}

fish_offers() {
	fish --no-config -c 'source $argv[1]; complete -C $argv[2]' \
		"$BATS_TEST_TMPDIR/gtrain.fish" "$1" | cut -f1
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

@test "the bash completion offers the options of --help" {
	local command
	"$GTRAIN" help --completion bash >"$BATS_TEST_TMPDIR/gtrain.bash"
	bash -n "$BATS_TEST_TMPDIR/gtrain.bash"
	shellcheck -s bash "$BATS_TEST_TMPDIR/gtrain.bash"
	while read -r command; do
		equal "$(bash_offers gtrain $command -- | sed 's/^--//' | sort)" \
			"$(help_options "$command")"
		equal "$(bash_offers gtrain $command --color = a)" "$(printf 'auto\nalways')"
		equal "$(bash_offers gtrain $command --color '=')" \
			"$(printf 'auto\nalways\nnever')"
	done < <(commands)
	equal "$(bash_offers gtrain '' | grep -v ^-)" "$(words)"
	equal "$(bash_offers gtrain help '' | grep -v ^-)" "$(words; topics)"
	equal "$(bash_offers gtrain ckpt '' | grep -v ^-)" "$(words ckpt)"
}

@test "the fish completion offers the options of --help" {
	command -v fish >/dev/null || skip "fish is not here"
	local command
	"$GTRAIN" help --completion fish >"$BATS_TEST_TMPDIR/gtrain.fish"
	fish -n "$BATS_TEST_TMPDIR/gtrain.fish"
	while read -r command; do
		equal "$(fish_offers "gtrain $command --" | sed 's/^--//; s/=$//' | sort -u)" \
			"$(help_options "$command")"
	done < <(commands)
	equal "$(fish_offers 'gtrain ' | sort)" "$(words | sort)"
	equal "$(fish_offers 'gtrain ckpt ' | sort)" "$(words ckpt | sort)"
	equal "$(fish_offers 'gtrain help --completion ' | sort)" "$(printf 'bash\nfish\nzsh')"
}

@test "the zsh completion offers the options of --help" {
	command -v zsh >/dev/null || skip "zsh is not here"
	local command
	"$GTRAIN" help --completion zsh >"$BATS_TEST_TMPDIR/_gtrain"
	zsh -n "$BATS_TEST_TMPDIR/_gtrain"
	while read -r command; do
		# _arguments stands for itself: print what it is told to offer
		equal "$(zsh -fc 'words=(gtrain ${=2} -); CURRENT=$#words
			_arguments() { print -rl -- "$@" }
			source $1' - "$BATS_TEST_TMPDIR/_gtrain" "$command" |
			sed -nE 's/^(\([^)]*\))?\*?--([a-z0-9-]+)=?\[.*/\2/p' | sort)" \
			"$(help_options "$command")"
	done < <(commands)
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
	CASES
}

@test "models, data and augmentations are completed: names, paths, settings and their values" {
	local option typed wanted
	cd "$BATS_TEST_TMPDIR" || return
	mkdir -p photos
	"$GTRAIN" help --completion bash >gtrain.bash
	"$GTRAIN" help --completion zsh >_gtrain
	"$GTRAIN" help --completion fish >gtrain.fish
	while IFS='|' read -r option typed wanted; do
		wanted=$(tr ' ' '\n' <<<"$wanted" | sort)
		equal "$(bash_completes "gtrain train --$option $typed" | sort)" "$wanted"
		equal "$(bash_completes "gtrain train --$option=$typed" | sed "s/^--$option=//" | sort)" "$wanted"
		! command -v zsh >/dev/null || equal "$(zsh_completes "$option" "$typed" | sort)" "$wanted"
		! command -v fish >/dev/null ||
			equal "$(fish_offers "gtrain train --$option $typed" | sed 's,/$,,' | sort)" "$wanted"
	done < <(spec_cases)
}

@test "the completions that are kept are the ones gtrain prints" {
	{
		diff "$ROOT/completions/gtrain.bash" <("$GTRAIN" help --completion bash) &&
			diff "$ROOT/completions/_gtrain" <("$GTRAIN" help --completion zsh) &&
			diff "$ROOT/completions/gtrain.fish" <("$GTRAIN" help --completion fish)
	} || {
		echo "run make completions"
		return 1
	}
}
