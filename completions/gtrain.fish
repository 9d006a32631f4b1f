# fish completion for gtrain: the program answers with the candidates (cmd/complete.c).
function __gtrain_complete
	set -l words (commandline -opc)
	set -l word (string unescape -- (commandline -ct); or commandline -ct)
	set -l answer ($words[1] --complete $words[2..] "$word" 2>/dev/null)
	set -l head (string split ' ' -- $answer[1])
	set -l path (string sub -s (math 1 + (string length -- "$head[3]")) -- "$word")

	string join \n -- $answer[2..]
	switch "$head[1]"
		case file
			string join \n -- "$head[3]"(__fish_complete_path "$path")
		case directory
			string join \n -- "$head[3]"(__fish_complete_directories "$path")
	end
end

complete -c gtrain -f -a '(__gtrain_complete)'
