# fish completion for gtrain, printed by 'gtrain help --completion fish'

# Whether the command line begins with these words.
function __gtrain_command
	set -l words (commandline -opc)
	set -l last (math (count $argv) + 1)
	test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end

function __gtrain_no_command
	test (count (commandline -opc)) -eq 1
end

function __gtrain_group
	set -l words (commandline -opc)
	test (count $words) -eq 2; and test $words[2] = $argv[1]
end

complete -c gtrain -f
complete -c gtrain -n __gtrain_no_command -l version -d 'print the version'
complete -c gtrain -n __gtrain_no_command -l help -d 'list the commands'
complete -c gtrain -n __gtrain_no_command -a probe -d 'list the devices and what they can do'
complete -c gtrain -n __gtrain_no_command -a train -d 'train a model'
complete -c gtrain -n __gtrain_no_command -a eval -d 'measure a checkpoint on a data set'
complete -c gtrain -n __gtrain_no_command -a generate -d 'write text with a language model'
complete -c gtrain -n __gtrain_no_command -a bench -d 'measure'
complete -c gtrain -n __gtrain_no_command -a help -d 'help on a command'
complete -c gtrain -n '__gtrain_group bench' -a ckpt -d 'time operations on a checkpoint beside a copy'

complete -c gtrain -n '__gtrain_command probe' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command probe' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command probe' -l verbose -s v -d 'say more on standard error'
complete -c gtrain -n '__gtrain_command probe' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command probe' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command train' -l model -x -d 'what to train: NAME[:key=value,...]'
complete -c gtrain -n '__gtrain_command train' -l data -x -d 'what to train on: KIND:PATH[,key=value...]'
complete -c gtrain -n '__gtrain_command train' -l val -x -d 'data set to evaluate on while training'
complete -c gtrain -n '__gtrain_command train' -l val-split -x -d 'hold out this part of the data to evaluate on'
complete -c gtrain -n '__gtrain_command train' -l init-from -r -F -d 'start from the weights in a checkpoint'
complete -c gtrain -n '__gtrain_command train' -l epochs -x -d 'passes over the data'
complete -c gtrain -n '__gtrain_command train' -l steps -x -d 'updates of the weights'
complete -c gtrain -n '__gtrain_command train' -l batch -x -d 'samples per device and micro-batch'
complete -c gtrain -n '__gtrain_command train' -l accumulate -x -d 'micro-batches whose gradients are averaged into one step'
complete -c gtrain -n '__gtrain_command train' -l seed -x -d 'key of all random numbers: initial weights, order of samples, dropout'
complete -c gtrain -n '__gtrain_command train' -l optimizer -x -a 'sgd adam adamw' -d 'rule that updates the weights'
complete -c gtrain -n '__gtrain_command train' -l lr -x -d 'learning rate, at its highest'
complete -c gtrain -n '__gtrain_command train' -l momentum -x -d 'momentum of sgd'
complete -c gtrain -n '__gtrain_command train' -l nesterov -d 'Nesterov momentum in sgd'
complete -c gtrain -n '__gtrain_command train' -l weight-decay -x -d 'weight decay: decoupled in adamw, added to the gradient in sgd and adam'
complete -c gtrain -n '__gtrain_command train' -l betas -x -d 'decay of the running means of adam and adamw'
complete -c gtrain -n '__gtrain_command train' -l eps -x -d 'keeps adam and adamw from dividing by 0'
complete -c gtrain -n '__gtrain_command train' -l clip -x -d 'scale gradients down to this norm; 0: never'
complete -c gtrain -n '__gtrain_command train' -l lr-schedule -x -a 'constant step cosine wsd' -d 'how the learning rate falls after the warm-up'
complete -c gtrain -n '__gtrain_command train' -l warmup -x -d 'steps in which it rises from 0'
complete -c gtrain -n '__gtrain_command train' -l min-lr -x -d 'where cosine and wsd end'
complete -c gtrain -n '__gtrain_command train' -l lr-step -x -d 'step: steps from one fall to the next'
complete -c gtrain -n '__gtrain_command train' -l lr-gamma -x -d 'step: factor at each fall'
complete -c gtrain -n '__gtrain_command train' -l decay-steps -x -d 'wsd: steps of the decay at the end'
complete -c gtrain -n '__gtrain_command train' -l device -x -a 'cpu' -d 'where to train'
complete -c gtrain -n '__gtrain_command train' -l threads -x -d 'threads that compute'
complete -c gtrain -n '__gtrain_command train' -l workers -x -d 'threads that read data; 0: the training thread does'
complete -c gtrain -n '__gtrain_command train' -l prefetch -x -d 'batches kept ready'
complete -c gtrain -n '__gtrain_command train' -l drop-last -d 'leave out the last batch of an epoch if it is short'
complete -c gtrain -n '__gtrain_command train' -l augment -x -a 'none crop flip crop,flip' -d 'how images are varied: crop, flip'
complete -c gtrain -n '__gtrain_command train' -l out -x -a '(__fish_complete_directories)' -d 'directory of the run'
complete -c gtrain -n '__gtrain_command train' -l config -r -F -d 'options from a config.json; the command line wins'
complete -c gtrain -n '__gtrain_command train' -l resume -r -F -d 'go on from a checkpoint; auto: the latest in --out, if any'
complete -c gtrain -n '__gtrain_command train' -l save-every -x -d 'steps between checkpoints; 0: only at the end'
complete -c gtrain -n '__gtrain_command train' -l keep -x -d 'checkpoints kept; 0: all'
complete -c gtrain -n '__gtrain_command train' -l eval-every -x -d 'steps between evaluations; 0: after each epoch'
complete -c gtrain -n '__gtrain_command train' -l log-every -x -d 'steps between lines of metrics'
complete -c gtrain -n '__gtrain_command train' -l dry-run -d 'print the plan and stop'
complete -c gtrain -n '__gtrain_command train' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command train' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command train' -l verbose -s v -d 'say more on standard error'
complete -c gtrain -n '__gtrain_command train' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command train' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command eval' -l model -x -d 'the architecture: NAME[:key=value,...]'
complete -c gtrain -n '__gtrain_command eval' -l ckpt -r -F -d 'checkpoint file or run directory'
complete -c gtrain -n '__gtrain_command eval' -l data -x -d 'data set to measure on: KIND:PATH[,key=value...]'
complete -c gtrain -n '__gtrain_command eval' -l vocab -r -F -d 'vocabulary that training wrote'
complete -c gtrain -n '__gtrain_command eval' -l map -x -d 'rename keys of the checkpoint; may be given several times'
complete -c gtrain -n '__gtrain_command eval' -l strict -x -a 'yes no' -d 'no: list missing and unexpected keys and go on'
complete -c gtrain -n '__gtrain_command eval' -l batch -x -d 'samples per batch'
complete -c gtrain -n '__gtrain_command eval' -l device -x -a 'cpu' -d 'where to compute'
complete -c gtrain -n '__gtrain_command eval' -l threads -x -d 'threads that compute'
complete -c gtrain -n '__gtrain_command eval' -l workers -x -d 'threads that read data; 0: the computing thread does'
complete -c gtrain -n '__gtrain_command eval' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command eval' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command eval' -l verbose -s v -d 'say more on standard error'
complete -c gtrain -n '__gtrain_command eval' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command eval' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command generate' -l ckpt -r -F -d 'checkpoint file or run directory'
complete -c gtrain -n '__gtrain_command generate' -l model -x -d 'the architecture: NAME[:key=value,...]'
complete -c gtrain -n '__gtrain_command generate' -l vocab -r -F -d 'vocabulary that training wrote'
complete -c gtrain -n '__gtrain_command generate' -l prompt -x -d 'text to go on from'
complete -c gtrain -n '__gtrain_command generate' -l tokens -x -d 'tokens to write'
complete -c gtrain -n '__gtrain_command generate' -l temperature -x -d 'below 1 safer, above 1 wilder; 0: always the likeliest'
complete -c gtrain -n '__gtrain_command generate' -l top-k -x -d 'draw among the N likeliest tokens; 0: all'
complete -c gtrain -n '__gtrain_command generate' -l seed -x -d 'key of the random numbers'
complete -c gtrain -n '__gtrain_command generate' -l threads -x -d 'threads that compute'
complete -c gtrain -n '__gtrain_command generate' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command generate' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command generate' -l verbose -s v -d 'say more on standard error'
complete -c gtrain -n '__gtrain_command generate' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command generate' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command bench ckpt' -F
complete -c gtrain -n '__gtrain_command bench ckpt' -l rounds -x -d 'times that every operation is run'
complete -c gtrain -n '__gtrain_command bench ckpt' -l dir -x -a '(__fish_complete_directories)' -d 'folder for the files that are written'
complete -c gtrain -n '__gtrain_command bench ckpt' -l csv -d 'the table as comma-separated values'
complete -c gtrain -n '__gtrain_command bench ckpt' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command bench ckpt' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command bench ckpt' -l verbose -s v -d 'say more on standard error'
complete -c gtrain -n '__gtrain_command bench ckpt' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command bench ckpt' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command help' -a 'probe train eval generate bench help '
complete -c gtrain -n '__gtrain_command help' -l completion -x -a 'bash zsh fish' -d 'print the script that completes command lines'
complete -c gtrain -n '__gtrain_command help' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command help' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command help' -l verbose -s v -d 'say more on standard error'
complete -c gtrain -n '__gtrain_command help' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command help' -l help -s h -d 'print this help'
