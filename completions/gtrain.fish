# fish completion for gtrain, printed by 'gtrain help --completion fish'

function __gtrain_command
	set -l words (commandline -opc)
	test (count $words) -ge 2; and test $words[2] = $argv[1]
end

function __gtrain_no_command
	test (count (commandline -opc)) -eq 1
end

complete -c gtrain -f
complete -c gtrain -n __gtrain_no_command -l version -d 'print the version'
complete -c gtrain -n __gtrain_no_command -l help -d 'list the commands'
complete -c gtrain -n __gtrain_no_command -a help -d 'help on a command'

complete -c gtrain -n '__gtrain_command help' -a 'help '
complete -c gtrain -n '__gtrain_command help' -l completion -x -a 'bash zsh fish' -d 'print the script that completes command lines'
complete -c gtrain -n '__gtrain_command help' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command help' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command help' -l verbose -s v -d 'say more on standard error'
complete -c gtrain -n '__gtrain_command help' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command help' -l help -s h -d 'print this help'
