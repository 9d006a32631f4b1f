# bash completion for gtrain: the program answers with the candidates (cmd/complete.c).
_gtrain()
{
	local words word kind space prefix front='' breaks=${COMP_WORDBREAKS//[^:=]/}

	# COMP_WORDS also divides words at ':' and '='. The dot keeps an empty last word.
	# shellcheck disable=SC2162 # a backslash quotes a space
	read -a words <<<"${COMP_LINE:0:COMP_POINT}."
	word=${words[-1]%.}
	words[-1]=$word
	{ read -r kind space prefix; mapfile -t COMPREPLY; } < <("$1" --complete "${words[@]:1}" 2>/dev/null)
	COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
	[[ $space != nospace ]] || compopt -o nospace
	if [[ $kind == file || $kind == directory ]]; then
		compopt -o filenames
		mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -P "$prefix" -A "$kind" -- "${word#"$prefix"}")
	fi
	# bash replaces the text behind the last ':' or '='.
	[[ ! $breaks ]] || front=${word%"${word##*["$breaks"]}"}
	COMPREPLY=("${COMPREPLY[@]#"$front"}")
}

complete -F _gtrain gtrain
