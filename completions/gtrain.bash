# bash completion for gtrain, printed by 'gtrain help --completion bash'

_gtrain()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} words=

	COMPREPLY=()
	# bash splits '--name=value' at the '='
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	((COMP_CWORD == 1)) && command='' prev=''
	case $command:$prev in
	help:--completion) words='bash zsh fish' ;;
	help:--color) words='auto always never' ;;
	:) words='help --version --help' ;;
	help:*) words='help --completion --json --quiet --verbose --color --help ' ;;
	*) return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _gtrain gtrain
