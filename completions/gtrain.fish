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

# The words that may follow: names, settings of one, values of a setting.
function __gtrain_words
	switch $argv[1]
		case model
			string split -n ' ' 'mlp lenet resnet20 resnet32 resnet44 resnet56 resnet110 resnet18 resnet34 resnet50 resnet101 resnet152 gpt gpt2 gpt2-medium gpt2-large gpt2-xl vit vit-tiny vit-small vit-base vit-large llama tinyllama llama2-7b llama3-8b '
		case model:resnet18
			string split -n ' ' 'image= classes= zero_init_residual= '
		case model:resnet18:zero_init_residual
			string split -n ' ' 'yes no'
		case model:resnet34
			string split -n ' ' 'image= classes= zero_init_residual= '
		case model:resnet34:zero_init_residual
			string split -n ' ' 'yes no'
		case model:resnet50
			string split -n ' ' 'image= classes= zero_init_residual= '
		case model:resnet50:zero_init_residual
			string split -n ' ' 'yes no'
		case model:resnet101
			string split -n ' ' 'image= classes= zero_init_residual= '
		case model:resnet101:zero_init_residual
			string split -n ' ' 'yes no'
		case model:resnet152
			string split -n ' ' 'image= classes= zero_init_residual= '
		case model:resnet152:zero_init_residual
			string split -n ' ' 'yes no'
		case model:gpt
			string split -n ' ' 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= '
		case model:gpt:bias
			string split -n ' ' 'yes no'
		case model:gpt:gelu
			string split -n ' ' 'erf tanh'
		case model:gpt2
			string split -n ' ' 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= '
		case model:gpt2:bias
			string split -n ' ' 'yes no'
		case model:gpt2:gelu
			string split -n ' ' 'erf tanh'
		case model:gpt2-medium
			string split -n ' ' 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= '
		case model:gpt2-medium:bias
			string split -n ' ' 'yes no'
		case model:gpt2-medium:gelu
			string split -n ' ' 'erf tanh'
		case model:gpt2-large
			string split -n ' ' 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= '
		case model:gpt2-large:bias
			string split -n ' ' 'yes no'
		case model:gpt2-large:gelu
			string split -n ' ' 'erf tanh'
		case model:gpt2-xl
			string split -n ' ' 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= '
		case model:gpt2-xl:bias
			string split -n ' ' 'yes no'
		case model:gpt2-xl:gelu
			string split -n ' ' 'erf tanh'
		case model:vit
			string split -n ' ' 'layers= heads= width= eps= patch= hidden= image= classes= dropout= '
		case model:vit-tiny
			string split -n ' ' 'layers= heads= width= eps= patch= hidden= image= classes= dropout= '
		case model:vit-small
			string split -n ' ' 'layers= heads= width= eps= patch= hidden= image= classes= dropout= '
		case model:vit-base
			string split -n ' ' 'layers= heads= width= eps= patch= hidden= image= classes= dropout= '
		case model:vit-large
			string split -n ' ' 'layers= heads= width= eps= patch= hidden= image= classes= dropout= '
		case model:llama
			string split -n ' ' 'layers= heads= width= kv_heads= theta= eps= tied= hidden= block= vocab= '
		case model:llama:tied
			string split -n ' ' 'yes no'
		case model:tinyllama
			string split -n ' ' 'layers= heads= width= kv_heads= theta= eps= tied= hidden= block= vocab= '
		case model:tinyllama:tied
			string split -n ' ' 'yes no'
		case model:llama2-7b
			string split -n ' ' 'layers= heads= width= kv_heads= theta= eps= tied= hidden= block= vocab= '
		case model:llama2-7b:tied
			string split -n ' ' 'yes no'
		case model:llama3-8b
			string split -n ' ' 'layers= heads= width= kv_heads= theta= eps= tied= hidden= block= vocab= '
		case model:llama3-8b:tied
			string split -n ' ' 'yes no'
		case data
			string split -n ' ' 'text: tokens: images: webdataset: mnist: cifar10: csv: npy: npz: random: mnist fashion-mnist cifar10 shakespeare '
		case data:text
			string split -n ' ' 'level= tokenizer= '
		case data:text:level
			string split -n ' ' 'char byte bpe'
		case data:tokens
			string split -n ' ' 'vocab= type= '
		case data:tokens:type
			string split -n ' ' 'uint16 uint32'
		case data:images
			string split -n ' ' 'split= size= resize= crop= interpolation= reduce= channels= norm= mean= std= '
		case data:images:interpolation
			string split -n ' ' 'bilinear bicubic lanczos'
		case data:images:reduce
			string split -n ' ' 'yes no'
		case data:images:channels
			string split -n ' ' '1 3'
		case data:images:norm
			string split -n ' ' 'imagenet none'
		case data:webdataset
			string split -n ' ' 'classes= size= resize= crop= interpolation= reduce= channels= norm= mean= std= '
		case data:webdataset:interpolation
			string split -n ' ' 'bilinear bicubic lanczos'
		case data:webdataset:reduce
			string split -n ' ' 'yes no'
		case data:webdataset:channels
			string split -n ' ' '1 3'
		case data:webdataset:norm
			string split -n ' ' 'imagenet none'
		case data:mnist
			string split -n ' ' 'split= subset= mean= std= '
		case data:mnist:split
			string split -n ' ' 'train test'
		case data:cifar10
			string split -n ' ' 'split= norm= mean= std= '
		case data:cifar10:split
			string split -n ' ' 'train test'
		case data:cifar10:norm
			string split -n ' ' 'imagenet none'
		case data:csv
			string split -n ' ' 'target= task= sep= decimal= header= skip= categories= missing= standardise= '
		case data:csv:task
			string split -n ' ' 'auto classification regression'
		case data:csv:sep
			string split -n ' ' 'comma tab semicolon bar'
		case data:csv:decimal
			string split -n ' ' 'auto point comma'
		case data:csv:header
			string split -n ' ' 'auto yes no'
		case data:csv:missing
			string split -n ' ' 'error mean median drop category'
		case data:csv:standardise
			string split -n ' ' 'yes no'
		case data:npy
			string split -n ' ' 'target= task= layout= norm= mean= std= '
		case data:npy:task
			string split -n ' ' 'auto classification regression'
		case data:npy:layout
			string split -n ' ' 'auto hwc chw'
		case data:npy:norm
			string split -n ' ' 'imagenet none'
		case data:npz
			string split -n ' ' 'input= target= split= task= layout= norm= mean= std= '
		case data:npz:split
			string split -n ' ' 'train val test'
		case data:npz:task
			string split -n ' ' 'auto classification regression'
		case data:npz:layout
			string split -n ' ' 'auto hwc chw'
		case data:npz:norm
			string split -n ' ' 'imagenet none'
		case data:random
			string split -n ' ' 'samples= '
		case data:fashion-mnist
			string split -n ' ' 'split= subset= mean= std= '
		case data:fashion-mnist:split
			string split -n ' ' 'train test'
		case data:shakespeare
			string split -n ' ' 'level= tokenizer= '
		case data:shakespeare:level
			string split -n ' ' 'char byte bpe'
		case augment
			string split -n ' ' 'rrc crop flip jitter mixup none '
		case augment:rrc
			string split -n ' ' 'min-scale= max-scale= min-ratio= max-ratio= '
		case augment:jitter
			string split -n ' ' 'brightness= contrast= saturation= hue= '
		case augment:mixup
			string split -n ' ' 'alpha= '
	end
end

# Complete a model, a data set or a list of augmentations.
function __gtrain_spec
	set -l typed (string replace -r -- '^--[a-z-]+=' '' (commandline -ct))
	set -l list $argv[1]
	set -l front (string replace -r -- '[^:,]*$' '' "$typed")
	test $list = augment; and set typed (string replace -r -- '.*,' '' "$typed")
	if not string match -q -r -- '[:,]' "$typed"
		string replace -r -- '^' "$front" (__gtrain_words $list)
		return
	end
	set -l name (string replace -r -- '[:,].*' '' $typed)
	set -l item (string replace -r -- '.*[:,]' '' $typed)
	if test $list = data; and not string match -q -- '*,*' $typed
		string replace -r -- '^' $front (__fish_complete_path "$item")
	else if string match -q -- '*=*' $item
		set -l key (string replace -r -- '=.*' '' $item)
		string replace -r -- '^' "$front$key=" (__gtrain_words $list:$name:$key)
	else
		string replace -r -- '^' $front (__gtrain_words $list:$name)
	end
end

complete -c gtrain -f
complete -c gtrain -n __gtrain_no_command -l version -d 'print the version'
complete -c gtrain -n __gtrain_no_command -l help -d 'list the commands'
complete -c gtrain -n __gtrain_no_command -a probe -d 'list the devices and their capabilities'
complete -c gtrain -n __gtrain_no_command -a train -d 'train a model'
complete -c gtrain -n __gtrain_no_command -a eval -d 'measure a checkpoint on a data set'
complete -c gtrain -n __gtrain_no_command -a predict -d 'predict classes, numbers, or next tokens'
complete -c gtrain -n __gtrain_no_command -a generate -d 'write text with a language model'
complete -c gtrain -n __gtrain_no_command -a data -d 'list and fetch well-known data sets'
complete -c gtrain -n __gtrain_no_command -a bench -d 'measure the speed of this machine'
complete -c gtrain -n __gtrain_no_command -a ckpt -d 'inspect and rewrite checkpoints'
complete -c gtrain -n __gtrain_no_command -a help -d 'describe a command or a topic'
complete -c gtrain -n '__gtrain_group data' -a get -d 'fetch well-known data sets'
complete -c gtrain -n '__gtrain_group data' -a ls -d 'list well-known data sets, and show which exist here'
complete -c gtrain -n '__gtrain_group ckpt' -a ls -d 'list tensors and other values'
complete -c gtrain -n '__gtrain_group ckpt' -a verify -d 'check structure, checksums, globals, NaN and Inf'
complete -c gtrain -n '__gtrain_group ckpt' -a diff -d 'compare two checkpoints of any formats'
complete -c gtrain -n '__gtrain_group ckpt' -a strip-module -d 'remove prefixes of wrappers from names'
complete -c gtrain -n '__gtrain_group ckpt' -a add-module -d 'put module. in front of names'
complete -c gtrain -n '__gtrain_group ckpt' -a remap -d 'change the devices that storages were saved on'
complete -c gtrain -n '__gtrain_group ckpt' -a rename -d 'change names by regular expressions'
complete -c gtrain -n '__gtrain_group ckpt' -a select -d 'write a part of a checkpoint as a file'
complete -c gtrain -n '__gtrain_group ckpt' -a convert -d 'write in another format or data type'
complete -c gtrain -n '__gtrain_group ckpt' -a merge -d 'write the union or the mean of several files'
complete -c gtrain -n '__gtrain_group bench' -a allreduce -d 'time the all-reduce of a buffer'
complete -c gtrain -n '__gtrain_group bench' -a ckpt -d 'time operations on a checkpoint, and a copy of it'
complete -c gtrain -n '__gtrain_group bench' -a copy -d 'time copies between the host and devices by size'
complete -c gtrain -n '__gtrain_group bench' -a gemm -d 'time products of matrices by shape and type'

complete -c gtrain -n '__gtrain_command probe' -l watch -x -d 'repeat every SECONDS (1 if not given), and mark changes'
complete -c gtrain -n '__gtrain_command probe' -l topology -d 'print how GPUs are linked, and the CPUs near them'
complete -c gtrain -n '__gtrain_command probe' -l bandwidth -d 'measure the speed of copies, and check data copied between GPUs'
complete -c gtrain -n '__gtrain_command probe' -l check -d 'report problems; exit with 1 if a run would fail'
complete -c gtrain -n '__gtrain_command probe' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command probe' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command probe' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command probe' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command probe' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command train' -l model -x -a '(__gtrain_spec model)' -d 'model to train: NAME[:key=value,...], or a Hugging Face folder'
complete -c gtrain -n '__gtrain_command train' -l data -x -a '(__gtrain_spec data)' -d 'training data: KIND:PATH or NAME[,key=value...]; \'gtrain help data\' lists them'
complete -c gtrain -n '__gtrain_command train' -l val -x -a '(__gtrain_spec data)' -d 'data set for evaluations during training'
complete -c gtrain -n '__gtrain_command train' -l val-split -x -d 'hold out this fraction of the data for evaluation'
complete -c gtrain -n '__gtrain_command train' -l init-from -r -F -d 'start from the weights in a checkpoint, a run or a Hugging Face folder'
complete -c gtrain -n '__gtrain_command train' -l init -x -a 'random' -d 'random: start from random weights'
complete -c gtrain -n '__gtrain_command train' -l map -x -d 'rename keys of --init-from, or of another program\'s checkpoint for --resume; may be given several times'
complete -c gtrain -n '__gtrain_command train' -l names -x -a 'auto torchvision timm huggingface' -d 'the program that named the keys of --init-from; torchvision\'s names are gtrain\'s own'
complete -c gtrain -n '__gtrain_command train' -l strict -x -a 'yes no' -d 'no: list missing and unexpected keys of --init-from, and continue'
complete -c gtrain -n '__gtrain_command train' -l freeze -x -d 'do not train parameters that match; !GLOB: those that do not match; may be given several times'
complete -c gtrain -n '__gtrain_command train' -l lr-scale -x -d 'multiply the learning rate of parameters that match by X; may be given several times'
complete -c gtrain -n '__gtrain_command train' -l epochs -x -d 'number of passes over the data'
complete -c gtrain -n '__gtrain_command train' -l steps -x -d 'number of updates of the weights'
complete -c gtrain -n '__gtrain_command train' -l batch -x -d 'samples that a device computes at once'
complete -c gtrain -n '__gtrain_command train' -l accumulate -x -d 'micro-batches whose gradients are averaged into one step'
complete -c gtrain -n '__gtrain_command train' -l seed -x -d 'seed of all random numbers: initial weights, order of samples, dropout'
complete -c gtrain -n '__gtrain_command train' -l reproducible -d 'give bit-identical results on 1, 2, 4 and 8 ranks'
complete -c gtrain -n '__gtrain_command train' -l amp -x -a 'off bf16 bf16-autocast fp16' -d 'mixed precision: data type of products and convolutions'
complete -c gtrain -n '__gtrain_command train' -l tf32 -d 'round factors of float32 products to TF32, on a GPU\'s tensor cores'
complete -c gtrain -n '__gtrain_command train' -l optimizer -x -a 'sgd adam adamw muon' -d 'rule that updates the weights'
complete -c gtrain -n '__gtrain_command train' -l lr -x -d 'highest learning rate'
complete -c gtrain -n '__gtrain_command train' -l adam-lr -x -d 'with muon: highest learning rate of parameters that adamw updates'
complete -c gtrain -n '__gtrain_command train' -l adjust-lr -x -a 'original match_rms_adamw' -d 'with muon: how the learning rate depends on a matrix\'s shape'
complete -c gtrain -n '__gtrain_command train' -l momentum -x -d 'momentum of sgd and muon'
complete -c gtrain -n '__gtrain_command train' -l nesterov -d 'Nesterov momentum in sgd'
complete -c gtrain -n '__gtrain_command train' -l weight-decay -x -d 'weight decay: decoupled in adamw and muon, added to the gradient in sgd and adam'
complete -c gtrain -n '__gtrain_command train' -l betas -x -d 'decay of the running means of adam and adamw'
complete -c gtrain -n '__gtrain_command train' -l eps -x -d 'small number that keeps adam and adamw from dividing by 0'
complete -c gtrain -n '__gtrain_command train' -l clip -x -d 'scale gradients with a larger norm down to this norm; 0: never'
complete -c gtrain -n '__gtrain_command train' -l ema -x -d 'keep a running mean of the weights with this decay, and evaluate it'
complete -c gtrain -n '__gtrain_command train' -l lr-schedule -x -a 'constant step cosine wsd' -d 'how the learning rate changes after the warm-up'
complete -c gtrain -n '__gtrain_command train' -l warmup -x -d 'steps in which the learning rate rises from 0'
complete -c gtrain -n '__gtrain_command train' -l min-lr -x -d 'lowest learning rate after the warm-up'
complete -c gtrain -n '__gtrain_command train' -l lr-step -x -d 'with step: steps between two reductions of the learning rate'
complete -c gtrain -n '__gtrain_command train' -l lr-gamma -x -d 'with step: factor of each reduction'
complete -c gtrain -n '__gtrain_command train' -l decay-steps -x -d 'with wsd: steps of the decay at the end'
complete -c gtrain -n '__gtrain_command train' -l device -x -a 'cpu cuda' -d 'devices to train on, one per rank: cpu, cuda, cuda:1, cuda:0,2'
complete -c gtrain -n '__gtrain_command train' -l threads -x -d 'number of threads that compute, on each rank'
complete -c gtrain -n '__gtrain_command train' -l recompute -a 'none all auto' -d 'compute blocks again in the backward pass, to save memory; auto: as few as needed'
complete -c gtrain -n '__gtrain_command train' -l workers -x -d 'number of threads that read data; 0: the training thread reads'
complete -c gtrain -n '__gtrain_command train' -l prefetch -x -d 'number of batches that are kept ready'
complete -c gtrain -n '__gtrain_command train' -l pin-memory -x -a 'yes no' -d 'read batches into memory that a GPU copies from while it computes'
complete -c gtrain -n '__gtrain_command train' -l drop-last -d 'leave out the last step of an epoch if it is short'
complete -c gtrain -n '__gtrain_command train' -l augment -x -a '(__gtrain_spec augment)' -d 'augmentation of images: NAME[:key=value...],...; \'gtrain help augment\' lists them'
complete -c gtrain -n '__gtrain_command train' -l strict-data -d 'stop at an image that cannot be decoded, instead of skipping it'
complete -c gtrain -n '__gtrain_command train' -l nproc -x -d 'number of ranks (processes or threads) that train together'
complete -c gtrain -n '__gtrain_command train' -l parallel -x -a 'ddp mirrored dp zero1 zero2 zero3' -d 'how ranks divide the work'
complete -c gtrain -n '__gtrain_command train' -l backend -x -a 'auto shm ring mpi nccl' -d 'how ranks exchange data; auto: shm or mpi, between GPUs nccl or ring'
complete -c gtrain -n '__gtrain_command train' -l tensor-parallel -x -d 'number of ranks that share each layer and read the same samples'
complete -c gtrain -n '__gtrain_command train' -l sequence-parallel -d 'with --tensor-parallel: also divide norms, residuals and dropout among the ranks'
complete -c gtrain -n '__gtrain_command train' -l bucket-size -x -d 'bytes of gradients that one collective sums'
complete -c gtrain -n '__gtrain_command train' -l pipeline-parallel -x -d 'number of stages of a pipeline, each on its own ranks'
complete -c gtrain -n '__gtrain_command train' -l chunks -x -d 'number of chunks of a batch in a pipeline'
complete -c gtrain -n '__gtrain_command train' -l schedule -x -a 'gpipe 1f1b' -d 'order in which a stage of a pipeline computes the chunks'
complete -c gtrain -n '__gtrain_command train' -l compress -x -a 'none fp16 bf16' -d 'data type in which gradients are sent'
complete -c gtrain -n '__gtrain_command train' -l sync-bn -d 'compute batch normalization over the samples of all ranks'
complete -c gtrain -n '__gtrain_command train' -l broadcast-buffers -x -a 'yes no' -d 'no: every rank evaluates with running statistics of its own'
complete -c gtrain -n '__gtrain_command train' -l check-replicas -x -d 'steps between comparisons of the ranks\' weights; 0: never'
complete -c gtrain -n '__gtrain_command train' -l timeout -x -d 'give up on a rank that does not respond within this time'
complete -c gtrain -n '__gtrain_command train' -l max-restarts -x -d 'restart all ranks from the last checkpoint, at most N times'
complete -c gtrain -n '__gtrain_command train' -l verify-parallel -d 'compare each parallel mode with one rank, and stop'
complete -c gtrain -n '__gtrain_command train' -l out -x -a '(__fish_complete_directories)' -d 'directory of the run'
complete -c gtrain -n '__gtrain_command train' -l config -a 'cifar10-resnet20 gpt2-124m gpt2-finetune imagenet-resnet50 mnist-lenet nanogpt-char photos-finetune' -r -F -d 'read options from a config.json or a recipe; the command line wins'
complete -c gtrain -n '__gtrain_command train' -l resume -a 'auto' -r -F -d 'continue from a checkpoint; auto: the latest in --out, if any'
complete -c gtrain -n '__gtrain_command train' -l save-every -x -d 'steps between checkpoints; 0: only at the end'
complete -c gtrain -n '__gtrain_command train' -l keep -x -d 'number of checkpoints to keep; 0: all'
complete -c gtrain -n '__gtrain_command train' -l eval-every -x -d 'steps between evaluations; 0: after each epoch'
complete -c gtrain -n '__gtrain_command train' -l patience -x -d 'stop after N evaluations without improvement; 0: never'
complete -c gtrain -n '__gtrain_command train' -l log-every -x -d 'steps between lines of metrics'
complete -c gtrain -n '__gtrain_command train' -l profile -x -d 'record where the time of some steps goes; parts left out are wait=1, warmup=1 and active=3'
complete -c gtrain -n '__gtrain_command train' -l dry-run -d 'print the plan and stop'
complete -c gtrain -n '__gtrain_command train' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command train' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command train' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command train' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command train' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command eval' -l ckpt -r -F -d 'checkpoint file, run directory, or Hugging Face folder'
complete -c gtrain -n '__gtrain_command eval' -l data -x -a '(__gtrain_spec data)' -d 'data set to measure on: KIND:PATH or NAME[,key=value...]'
complete -c gtrain -n '__gtrain_command eval' -l model -x -a '(__gtrain_spec model)' -d 'the architecture: NAME[:key=value,...], or a Hugging Face folder'
complete -c gtrain -n '__gtrain_command eval' -l vocab -r -F -d 'vocabulary that training wrote'
complete -c gtrain -n '__gtrain_command eval' -l tokenizer -r -F -d 'tokenizer.json, or a folder with it or with GPT-2\'s vocab.json and merges.txt'
complete -c gtrain -n '__gtrain_command eval' -l per-class -d 'print the number of correct predictions for each class'
complete -c gtrain -n '__gtrain_command eval' -l confusion -d 'print the confusion matrix: which class is predicted as which'
complete -c gtrain -n '__gtrain_command eval' -l predictions -r -F -d 'write each sample\'s target and prediction as CSV'
complete -c gtrain -n '__gtrain_command eval' -l map -x -d 'rename keys of the checkpoint; may be given several times'
complete -c gtrain -n '__gtrain_command eval' -l names -x -a 'auto torchvision timm huggingface' -d 'the program that named the keys of the checkpoint; torchvision\'s names are gtrain\'s own'
complete -c gtrain -n '__gtrain_command eval' -l strict -x -a 'yes no' -d 'no: list missing and unexpected keys, and continue'
complete -c gtrain -n '__gtrain_command eval' -l batch -x -d 'samples per batch'
complete -c gtrain -n '__gtrain_command eval' -l amp -x -a 'off bf16 bf16-autocast fp16' -d 'mixed precision: data type of products and convolutions'
complete -c gtrain -n '__gtrain_command eval' -l tf32 -d 'round factors of float32 products to TF32, on a GPU\'s tensor cores'
complete -c gtrain -n '__gtrain_command eval' -l device -x -a 'cpu cuda' -d 'devices to compute on, one per rank: cpu, cuda, cuda:1, cuda:0,2'
complete -c gtrain -n '__gtrain_command eval' -l threads -x -d 'number of threads that compute, on each rank'
complete -c gtrain -n '__gtrain_command eval' -l workers -x -d 'number of threads that read data; 0: the computing thread reads'
complete -c gtrain -n '__gtrain_command eval' -l strict-data -d 'stop at an image that cannot be decoded, instead of skipping it'
complete -c gtrain -n '__gtrain_command eval' -l nproc -x -d 'number of ranks (processes) that divide the batches'
complete -c gtrain -n '__gtrain_command eval' -l backend -x -a 'auto shm ring mpi nccl' -d 'how ranks exchange data; auto: shm or mpi, between GPUs nccl or ring'
complete -c gtrain -n '__gtrain_command eval' -l timeout -x -d 'give up on a rank that does not respond within this time'
complete -c gtrain -n '__gtrain_command eval' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command eval' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command eval' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command eval' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command eval' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command predict' -F
complete -c gtrain -n '__gtrain_command predict' -l ckpt -r -F -d 'checkpoint file, run directory, or Hugging Face folder'
complete -c gtrain -n '__gtrain_command predict' -l model -x -a '(__gtrain_spec model)' -d 'the architecture: NAME[:key=value,...], or a Hugging Face folder'
complete -c gtrain -n '__gtrain_command predict' -l read -x -d 'how to read images (size, resize, crop, norm, mean, std, ...) or tables (sep, decimal, header, standardise)'
complete -c gtrain -n '__gtrain_command predict' -l top -x -d 'number of classes or tokens for each input, the likeliest first'
complete -c gtrain -n '__gtrain_command predict' -l csv -d 'write CSV: input,rank,class,probability'
complete -c gtrain -n '__gtrain_command predict' -l map -x -d 'rename keys of the checkpoint; may be given several times'
complete -c gtrain -n '__gtrain_command predict' -l names -x -a 'auto torchvision timm huggingface' -d 'the program that named the keys of the checkpoint; torchvision\'s names are gtrain\'s own'
complete -c gtrain -n '__gtrain_command predict' -l strict -x -a 'yes no' -d 'no: list missing and unexpected keys, and continue'
complete -c gtrain -n '__gtrain_command predict' -l batch -x -d 'inputs per batch'
complete -c gtrain -n '__gtrain_command predict' -l amp -x -a 'off bf16 bf16-autocast fp16' -d 'mixed precision: data type of products and convolutions'
complete -c gtrain -n '__gtrain_command predict' -l tf32 -d 'round factors of float32 products to TF32, on a GPU\'s tensor cores'
complete -c gtrain -n '__gtrain_command predict' -l device -x -a 'cpu cuda' -d 'devices to compute on, one per rank: cpu, cuda, cuda:1, cuda:0,2'
complete -c gtrain -n '__gtrain_command predict' -l threads -x -d 'number of threads that compute, on each rank'
complete -c gtrain -n '__gtrain_command predict' -l workers -x -d 'number of threads that read inputs; 0: the computing thread reads'
complete -c gtrain -n '__gtrain_command predict' -l nproc -x -d 'number of ranks (processes) that divide the inputs'
complete -c gtrain -n '__gtrain_command predict' -l backend -x -a 'auto shm ring mpi nccl' -d 'how ranks exchange data; auto: shm or mpi, between GPUs nccl or ring'
complete -c gtrain -n '__gtrain_command predict' -l timeout -x -d 'give up on a rank that does not respond within this time'
complete -c gtrain -n '__gtrain_command predict' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command predict' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command predict' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command predict' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command predict' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command generate' -l ckpt -r -F -d 'checkpoint file, run directory, or Hugging Face folder'
complete -c gtrain -n '__gtrain_command generate' -l model -x -a '(__gtrain_spec model)' -d 'the architecture: NAME[:key=value,...], or a Hugging Face folder'
complete -c gtrain -n '__gtrain_command generate' -l vocab -r -F -d 'vocabulary that training wrote'
complete -c gtrain -n '__gtrain_command generate' -l tokenizer -r -F -d 'tokenizer.json, or a folder with it or with GPT-2\'s vocab.json and merges.txt'
complete -c gtrain -n '__gtrain_command generate' -l prompt -x -d 'text to continue'
complete -c gtrain -n '__gtrain_command generate' -l tokens -x -d 'write at most this many tokens'
complete -c gtrain -n '__gtrain_command generate' -l temperature -x -d 'below 1: likelier tokens, above 1: more varied text; 0: always the likeliest token'
complete -c gtrain -n '__gtrain_command generate' -l top-k -x -d 'draw among the N likeliest tokens; 0: all'
complete -c gtrain -n '__gtrain_command generate' -l top-p -x -d 'draw among the likeliest tokens whose probabilities add up to X'
complete -c gtrain -n '__gtrain_command generate' -l seed -x -d 'seed of the random numbers'
complete -c gtrain -n '__gtrain_command generate' -l device -x -a 'cpu cuda' -d 'device to compute on: cpu, cuda (the first GPU) or cuda:1'
complete -c gtrain -n '__gtrain_command generate' -l tf32 -d 'round factors of float32 products to TF32, on a GPU\'s tensor cores'
complete -c gtrain -n '__gtrain_command generate' -l threads -x -d 'number of threads that compute'
complete -c gtrain -n '__gtrain_command generate' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command generate' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command generate' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command generate' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command generate' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command data get' -a 'mnist fashion-mnist cifar10 shakespeare gpt2-tokenizer gpt2 resnet18 resnet34 resnet50 vit-base '
complete -c gtrain -n '__gtrain_command data get' -l to -x -a '(__fish_complete_directories)' -d 'folder of data sets, each in a folder of its name'
complete -c gtrain -n '__gtrain_command data get' -l force -d 'also fetch files that exist, and replace them'
complete -c gtrain -n '__gtrain_command data get' -l mirror -x -d 'fetch URL/NAME/FILE in place of the publishers\' files'
complete -c gtrain -n '__gtrain_command data get' -l retries -x -d 'number of retries if a server fails or cuts the connection'
complete -c gtrain -n '__gtrain_command data get' -l timeout -x -d 'give up on a server that is slower than 1000 bytes/s for this time'
complete -c gtrain -n '__gtrain_command data get' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command data get' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command data get' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command data get' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command data get' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command data ls' -a 'mnist fashion-mnist cifar10 shakespeare gpt2-tokenizer gpt2 resnet18 resnet34 resnet50 vit-base '
complete -c gtrain -n '__gtrain_command data ls' -l to -x -a '(__fish_complete_directories)' -d 'folder of data sets, each in a folder of its name'
complete -c gtrain -n '__gtrain_command data ls' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command data ls' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command data ls' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command data ls' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command data ls' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command bench allreduce' -l nproc -x -d 'number of ranks (processes on this host)'
complete -c gtrain -n '__gtrain_command bench allreduce' -l sizes -x -d 'sizes of the buffer in bytes, each twice the one before'
complete -c gtrain -n '__gtrain_command bench allreduce' -l device -x -a 'cpu cuda' -d 'devices of the ranks: cpu or cuda'
complete -c gtrain -n '__gtrain_command bench allreduce' -l dtype -x -a 'fp32 fp16 bf16' -d 'type of the elements'
complete -c gtrain -n '__gtrain_command bench allreduce' -l buffers -x -a 'shared plain' -d 'memory that all ranks share, as for gradients, or each rank\'s own'
complete -c gtrain -n '__gtrain_command bench allreduce' -l backend -a 'auto shm ring mpi nccl' -x -d 'how ranks exchange data: auto, shm, ring, mpi, nccl; one or more'
complete -c gtrain -n '__gtrain_command bench allreduce' -l rounds -x -d 'number of measurements of each size'
complete -c gtrain -n '__gtrain_command bench allreduce' -l timeout -x -d 'give up on a rank that does not respond within this time'
complete -c gtrain -n '__gtrain_command bench allreduce' -l csv -d 'print the table as comma-separated values'
complete -c gtrain -n '__gtrain_command bench allreduce' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command bench allreduce' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command bench allreduce' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command bench allreduce' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command bench allreduce' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command bench ckpt' -F
complete -c gtrain -n '__gtrain_command bench ckpt' -l rounds -x -d 'number of runs of each operation'
complete -c gtrain -n '__gtrain_command bench ckpt' -l dir -x -a '(__fish_complete_directories)' -d 'folder for the files that are written'
complete -c gtrain -n '__gtrain_command bench ckpt' -l csv -d 'print the table as comma-separated values'
complete -c gtrain -n '__gtrain_command bench ckpt' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command bench ckpt' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command bench ckpt' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command bench ckpt' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command bench ckpt' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command bench copy' -l device -x -a 'cpu cuda' -d 'devices to measure, and all pairs of them: cpu, cuda, cuda:0,cuda:1'
complete -c gtrain -n '__gtrain_command bench copy' -l sizes -x -d 'sizes of a copy in bytes, each twice the one before'
complete -c gtrain -n '__gtrain_command bench copy' -l rounds -x -d 'number of measurements of each copy'
complete -c gtrain -n '__gtrain_command bench copy' -l seconds -x -d 'length of a round in seconds; it has at least one run'
complete -c gtrain -n '__gtrain_command bench copy' -l csv -d 'print the table as comma-separated values'
complete -c gtrain -n '__gtrain_command bench copy' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command bench copy' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command bench copy' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command bench copy' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command bench copy' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command bench gemm' -l device -x -a 'cpu cuda' -d 'devices, one after the other: cpu, cuda, cuda:0,cuda:1'
complete -c gtrain -n '__gtrain_command bench gemm' -l shapes -x -d 'products of [M, K] and [K, N]'
complete -c gtrain -n '__gtrain_command bench gemm' -l dtype -x -d 'types of the matrices: fp32, tf32, fp16, bf16'
complete -c gtrain -n '__gtrain_command bench gemm' -l rounds -x -d 'number of measurements of each product'
complete -c gtrain -n '__gtrain_command bench gemm' -l seconds -x -d 'length of a round in seconds; it has at least one run'
complete -c gtrain -n '__gtrain_command bench gemm' -l csv -d 'print the table as comma-separated values'
complete -c gtrain -n '__gtrain_command bench gemm' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command bench gemm' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command bench gemm' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command bench gemm' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command bench gemm' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt ls' -F
complete -c gtrain -n '__gtrain_command ckpt ls' -l stats -d 'also print min, max, mean, std, NaN, Inf and zeros of tensors'
complete -c gtrain -n '__gtrain_command ckpt ls' -l all -s a -d 'list all values that are not tensors, not only the first 20'
complete -c gtrain -n '__gtrain_command ckpt ls' -l threads -x -d 'number of threads that read for --stats'
complete -c gtrain -n '__gtrain_command ckpt ls' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt ls' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt ls' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt ls' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt ls' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt verify' -F
complete -c gtrain -n '__gtrain_command ckpt verify' -l repair -d 'first repair a zip file whose last edit was interrupted'
complete -c gtrain -n '__gtrain_command ckpt verify' -l strict -d 'exit with 1 also for NaN and Inf'
complete -c gtrain -n '__gtrain_command ckpt verify' -l threads -x -d 'number of threads that read the file'
complete -c gtrain -n '__gtrain_command ckpt verify' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt verify' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt verify' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt verify' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt verify' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt diff' -F
complete -c gtrain -n '__gtrain_command ckpt diff' -l tolerance -x -d 'elements that differ by at most X are equal'
complete -c gtrain -n '__gtrain_command ckpt diff' -l state-dict -d 'compare only the state_dicts, without prefixes of wrappers'
complete -c gtrain -n '__gtrain_command ckpt diff' -l threads -x -d 'number of threads that read the files'
complete -c gtrain -n '__gtrain_command ckpt diff' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt diff' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt diff' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt diff' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt diff' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt strip-module' -F
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l prefix -x -d 'remove this prefix; may be given several times'
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l output -s o -r -F -d 'write a new file'
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l in-place -d 'change the file itself'
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l dry-run -d 'print the changes and write nothing'
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l sync -x -a 'yes no' -d 'no: do not wait until the result is on the disk'
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt strip-module' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt add-module' -F
complete -c gtrain -n '__gtrain_command ckpt add-module' -l prefix -x -d 'put this in front of names'
complete -c gtrain -n '__gtrain_command ckpt add-module' -l output -s o -r -F -d 'write a new file'
complete -c gtrain -n '__gtrain_command ckpt add-module' -l in-place -d 'change the file itself'
complete -c gtrain -n '__gtrain_command ckpt add-module' -l dry-run -d 'print the changes and write nothing'
complete -c gtrain -n '__gtrain_command ckpt add-module' -l sync -x -a 'yes no' -d 'no: do not wait until the result is on the disk'
complete -c gtrain -n '__gtrain_command ckpt add-module' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt add-module' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt add-module' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt add-module' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt add-module' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt remap' -F
complete -c gtrain -n '__gtrain_command ckpt remap' -l map -x -d 'change device FROM to TO, as in cuda:*=cpu; may be given several times'
complete -c gtrain -n '__gtrain_command ckpt remap' -l output -s o -r -F -d 'write a new file'
complete -c gtrain -n '__gtrain_command ckpt remap' -l in-place -d 'change the file itself'
complete -c gtrain -n '__gtrain_command ckpt remap' -l dry-run -d 'print the changes and write nothing'
complete -c gtrain -n '__gtrain_command ckpt remap' -l sync -x -a 'yes no' -d 'no: do not wait until the result is on the disk'
complete -c gtrain -n '__gtrain_command ckpt remap' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt remap' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt remap' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt remap' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt remap' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt rename' -F
complete -c gtrain -n '__gtrain_command ckpt rename' -l map -x -d 'replace the first match in each name; may be given several times'
complete -c gtrain -n '__gtrain_command ckpt rename' -l output -s o -r -F -d 'write a new file'
complete -c gtrain -n '__gtrain_command ckpt rename' -l in-place -d 'change the file itself'
complete -c gtrain -n '__gtrain_command ckpt rename' -l dry-run -d 'print the changes and write nothing'
complete -c gtrain -n '__gtrain_command ckpt rename' -l sync -x -a 'yes no' -d 'no: do not wait until the result is on the disk'
complete -c gtrain -n '__gtrain_command ckpt rename' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt rename' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt rename' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt rename' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt rename' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt select' -F
complete -c gtrain -n '__gtrain_command ckpt select' -l path -x -d 'the value under a key, such as model or model.state_dict'
complete -c gtrain -n '__gtrain_command ckpt select' -l keys -x -d 'tensors whose names match, such as \'layer1.*\'; may be given several times'
complete -c gtrain -n '__gtrain_command ckpt select' -l output -s o -r -F -d 'the file to write'
complete -c gtrain -n '__gtrain_command ckpt select' -l to -x -a 'pth legacy safetensors npz' -d 'format: pth, legacy (before PyTorch 1.6), safetensors, npz'
complete -c gtrain -n '__gtrain_command ckpt select' -l dtype -x -a 'fp32 fp16 bf16' -d 'convert floating-point tensors to this type'
complete -c gtrain -n '__gtrain_command ckpt select' -l shard-size -x -d 'safetensors: write shards with at most SIZE bytes of tensors each'
complete -c gtrain -n '__gtrain_command ckpt select' -l sync -x -a 'yes no' -d 'no: do not wait until the result is on the disk'
complete -c gtrain -n '__gtrain_command ckpt select' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt select' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt select' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt select' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt select' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt convert' -F
complete -c gtrain -n '__gtrain_command ckpt convert' -l output -s o -r -F -d 'the file to write'
complete -c gtrain -n '__gtrain_command ckpt convert' -l to -x -a 'pth legacy safetensors npz hf' -d 'format: pth, legacy (before PyTorch 1.6), safetensors, npz, hf (a folder for Hugging Face\'s transformers)'
complete -c gtrain -n '__gtrain_command ckpt convert' -l dtype -x -a 'fp32 fp16 bf16' -d 'convert floating-point tensors to this type'
complete -c gtrain -n '__gtrain_command ckpt convert' -l shard-size -x -d 'safetensors: write shards with at most SIZE bytes of tensors each'
complete -c gtrain -n '__gtrain_command ckpt convert' -l sync -x -a 'yes no' -d 'no: do not wait until the result is on the disk'
complete -c gtrain -n '__gtrain_command ckpt convert' -l weights-only -d 'leave out objects that torch.load(weights_only=True) refuses'
complete -c gtrain -n '__gtrain_command ckpt convert' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt convert' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt convert' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt convert' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt convert' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command ckpt merge' -F
complete -c gtrain -n '__gtrain_command ckpt merge' -l average -d 'write the mean of each tensor; all files must have the same tensors'
complete -c gtrain -n '__gtrain_command ckpt merge' -l output -s o -r -F -d 'the file to write'
complete -c gtrain -n '__gtrain_command ckpt merge' -l to -x -a 'pth legacy safetensors npz' -d 'format: pth, legacy (before PyTorch 1.6), safetensors, npz'
complete -c gtrain -n '__gtrain_command ckpt merge' -l dtype -x -a 'fp32 fp16 bf16' -d 'convert floating-point tensors to this type'
complete -c gtrain -n '__gtrain_command ckpt merge' -l shard-size -x -d 'safetensors: write shards with at most SIZE bytes of tensors each'
complete -c gtrain -n '__gtrain_command ckpt merge' -l sync -x -a 'yes no' -d 'no: do not wait until the result is on the disk'
complete -c gtrain -n '__gtrain_command ckpt merge' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command ckpt merge' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command ckpt merge' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command ckpt merge' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command ckpt merge' -l help -s h -d 'print this help'

complete -c gtrain -n '__gtrain_command help' -a 'probe train eval predict generate data bench ckpt help models data augment resume recipes '
complete -c gtrain -n '__gtrain_command help' -l completion -x -a 'bash zsh fish' -d 'print the script that completes command lines'
complete -c gtrain -n '__gtrain_command help' -l json -d 'write one JSON document to standard output, nothing else'
complete -c gtrain -n '__gtrain_command help' -l quiet -s q -d 'only warnings and errors on standard error'
complete -c gtrain -n '__gtrain_command help' -l verbose -s v -d 'print more on standard error'
complete -c gtrain -n '__gtrain_command help' -l color -x -a 'auto always never' -d 'colors; auto: on terminals, unless NO_COLOR is set'
complete -c gtrain -n '__gtrain_command help' -l help -s h -d 'print this help'
