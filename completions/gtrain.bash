# bash completion for gtrain, printed by 'gtrain help --completion bash'

# The words that may follow: names, settings of one, values of a setting.
_gtrain_words()
{
	case $1 in
	model) echo 'mlp lenet resnet20 resnet32 resnet44 resnet56 resnet110 resnet18 resnet34 resnet50 resnet101 resnet152 gpt gpt2 gpt2-medium gpt2-large gpt2-xl vit vit-tiny vit-small vit-base vit-large llama tinyllama llama2-7b llama3-8b ' ;;
	model:resnet18) echo 'image= classes= zero_init_residual= ' ;;
	model:resnet18:zero_init_residual) echo 'yes no' ;;
	model:resnet34) echo 'image= classes= zero_init_residual= ' ;;
	model:resnet34:zero_init_residual) echo 'yes no' ;;
	model:resnet50) echo 'image= classes= zero_init_residual= ' ;;
	model:resnet50:zero_init_residual) echo 'yes no' ;;
	model:resnet101) echo 'image= classes= zero_init_residual= ' ;;
	model:resnet101:zero_init_residual) echo 'yes no' ;;
	model:resnet152) echo 'image= classes= zero_init_residual= ' ;;
	model:resnet152:zero_init_residual) echo 'yes no' ;;
	model:gpt) echo 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= ' ;;
	model:gpt:bias) echo 'yes no' ;;
	model:gpt:gelu) echo 'erf tanh' ;;
	model:gpt2) echo 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= ' ;;
	model:gpt2:bias) echo 'yes no' ;;
	model:gpt2:gelu) echo 'erf tanh' ;;
	model:gpt2-medium) echo 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= ' ;;
	model:gpt2-medium:bias) echo 'yes no' ;;
	model:gpt2-medium:gelu) echo 'erf tanh' ;;
	model:gpt2-large) echo 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= ' ;;
	model:gpt2-large:bias) echo 'yes no' ;;
	model:gpt2-large:gelu) echo 'erf tanh' ;;
	model:gpt2-xl) echo 'layers= heads= width= eps= hidden= block= vocab= dropout= bias= gelu= ' ;;
	model:gpt2-xl:bias) echo 'yes no' ;;
	model:gpt2-xl:gelu) echo 'erf tanh' ;;
	model:vit) echo 'layers= heads= width= eps= patch= hidden= image= classes= dropout= ' ;;
	model:vit-tiny) echo 'layers= heads= width= eps= patch= hidden= image= classes= dropout= ' ;;
	model:vit-small) echo 'layers= heads= width= eps= patch= hidden= image= classes= dropout= ' ;;
	model:vit-base) echo 'layers= heads= width= eps= patch= hidden= image= classes= dropout= ' ;;
	model:vit-large) echo 'layers= heads= width= eps= patch= hidden= image= classes= dropout= ' ;;
	model:llama) echo 'layers= heads= width= kv_heads= theta= eps= tied= hidden= block= vocab= ' ;;
	model:llama:tied) echo 'yes no' ;;
	model:tinyllama) echo 'layers= heads= width= kv_heads= theta= eps= tied= hidden= block= vocab= ' ;;
	model:tinyllama:tied) echo 'yes no' ;;
	model:llama2-7b) echo 'layers= heads= width= kv_heads= theta= eps= tied= hidden= block= vocab= ' ;;
	model:llama2-7b:tied) echo 'yes no' ;;
	model:llama3-8b) echo 'layers= heads= width= kv_heads= theta= eps= tied= hidden= block= vocab= ' ;;
	model:llama3-8b:tied) echo 'yes no' ;;
	data) echo 'text: tokens: images: webdataset: mnist: cifar10: csv: npy: npz: random: mnist fashion-mnist cifar10 shakespeare ' ;;
	data:text) echo 'level= tokenizer= ' ;;
	data:text:level) echo 'char byte bpe' ;;
	data:tokens) echo 'vocab= type= ' ;;
	data:tokens:type) echo 'uint16 uint32' ;;
	data:images) echo 'split= size= resize= crop= interpolation= reduce= channels= norm= mean= std= ' ;;
	data:images:interpolation) echo 'bilinear bicubic lanczos' ;;
	data:images:reduce) echo 'yes no' ;;
	data:images:channels) echo '1 3' ;;
	data:images:norm) echo 'imagenet none' ;;
	data:webdataset) echo 'classes= size= resize= crop= interpolation= reduce= channels= norm= mean= std= ' ;;
	data:webdataset:interpolation) echo 'bilinear bicubic lanczos' ;;
	data:webdataset:reduce) echo 'yes no' ;;
	data:webdataset:channels) echo '1 3' ;;
	data:webdataset:norm) echo 'imagenet none' ;;
	data:mnist) echo 'split= subset= mean= std= ' ;;
	data:mnist:split) echo 'train test' ;;
	data:cifar10) echo 'split= norm= mean= std= ' ;;
	data:cifar10:split) echo 'train test' ;;
	data:cifar10:norm) echo 'imagenet none' ;;
	data:csv) echo 'target= task= sep= decimal= header= skip= categories= missing= standardise= ' ;;
	data:csv:task) echo 'auto classification regression' ;;
	data:csv:sep) echo 'comma tab semicolon bar' ;;
	data:csv:decimal) echo 'auto point comma' ;;
	data:csv:header) echo 'auto yes no' ;;
	data:csv:missing) echo 'error mean median drop category' ;;
	data:csv:standardise) echo 'yes no' ;;
	data:npy) echo 'target= task= layout= norm= mean= std= ' ;;
	data:npy:task) echo 'auto classification regression' ;;
	data:npy:layout) echo 'auto hwc chw' ;;
	data:npy:norm) echo 'imagenet none' ;;
	data:npz) echo 'input= target= split= task= layout= norm= mean= std= ' ;;
	data:npz:split) echo 'train val test' ;;
	data:npz:task) echo 'auto classification regression' ;;
	data:npz:layout) echo 'auto hwc chw' ;;
	data:npz:norm) echo 'imagenet none' ;;
	data:random) echo 'samples= ' ;;
	data:fashion-mnist) echo 'split= subset= mean= std= ' ;;
	data:fashion-mnist:split) echo 'train test' ;;
	data:shakespeare) echo 'level= tokenizer= ' ;;
	data:shakespeare:level) echo 'char byte bpe' ;;
	augment) echo 'rrc crop flip jitter mixup none ' ;;
	augment:rrc) echo 'min-scale= max-scale= min-ratio= max-ratio= ' ;;
	augment:jitter) echo 'brightness= contrast= saturation= hue= ' ;;
	augment:mixup) echo 'alpha= ' ;;
	esac
}

# Complete a model, a data set or a list of augmentations. bash divides words
# at ':' and '=': it replaces the text behind the last of them.
_gtrain_spec()
{
	local list=$1 typed=$2 breaks='' name item rest words

	[[ $COMP_WORDBREAKS == *:* ]] && breaks+=:
	[[ $COMP_WORDBREAKS == *=* ]] && breaks+='='
	rest=$typed
	[[ $breaks ]] && rest=${typed##*["$breaks"]}
	[[ $list == augment ]] && typed=${typed##*,}
	name=${typed%%[:,]*} item=${typed##*[:,]}
	compopt -o nospace 2>/dev/null
	if [[ $typed != *[:,]* ]]; then
		words=$(_gtrain_words "$list")
	elif [[ $list == data && $typed != *,* ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -P "${rest%"$item"}" -f -- "$item")
		return
	elif [[ $item == *=* ]]; then
		words=$(_gtrain_words "$list:$name:${item%%=*}")
		item=${item#*=}
	else
		words=$(_gtrain_words "$list:$name")
	fi
	mapfile -t COMPREPLY < <(compgen -P "${rest%"$item"}" -W "$words" -- "$item")
}

_gtrain()
{
	local line=${COMP_LINE:0:COMP_POINT} typed
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} words=

	COMPREPLY=()
	# bash splits '--name=value' at the '='
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	# a model or data set that is divided has its option further back
	typed=${line##*[[:space:]]}
	if [[ $typed == --*=* ]]; then
		prev=${typed%%=*} typed=${typed#*=}
	elif [[ $typed == *[:=]* ]]; then
		line=${line%"$typed"}
		line=${line%"${line##*[![:space:]]}"}
		prev=${line##*[[:space:]]}
	fi
	((COMP_CWORD == 1)) && command='' prev=''
	if [[ $command == data ]]; then
		command+=-${COMP_WORDS[2]}
		((COMP_CWORD == 2)) && command=data- prev=''
	fi
	if [[ $command == ckpt ]]; then
		command+=-${COMP_WORDS[2]}
		((COMP_CWORD == 2)) && command=ckpt- prev=''
	fi
	if [[ $command == bench ]]; then
		command+=-${COMP_WORDS[2]}
		((COMP_CWORD == 2)) && command=bench- prev=''
	fi
	case $command:$prev in
	probe:--watch) words='--watch --topology --bandwidth --check --json --quiet --verbose --color --help ' ;;
	probe:--color) words='auto always never' ;;
	train:--model) _gtrain_spec model "$typed"; return ;;
	train:--data) _gtrain_spec data "$typed"; return ;;
	train:--val) _gtrain_spec data "$typed"; return ;;
	train:--val-split) return ;;
	train:--init-from) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	train:--init) words='random' ;;
	train:--map) return ;;
	train:--names) words='auto torchvision timm huggingface' ;;
	train:--strict) words='yes no' ;;
	train:--freeze) return ;;
	train:--lr-scale) return ;;
	train:--epochs) return ;;
	train:--steps) return ;;
	train:--batch) return ;;
	train:--accumulate) return ;;
	train:--seed) return ;;
	train:--amp) words='off bf16 bf16-autocast fp16' ;;
	train:--optimizer) words='sgd adam adamw muon' ;;
	train:--lr) return ;;
	train:--adam-lr) return ;;
	train:--adjust-lr) words='original match_rms_adamw' ;;
	train:--momentum) return ;;
	train:--weight-decay) return ;;
	train:--betas) return ;;
	train:--eps) return ;;
	train:--clip) return ;;
	train:--ema) return ;;
	train:--lr-schedule) words='constant step cosine wsd' ;;
	train:--warmup) return ;;
	train:--min-lr) return ;;
	train:--lr-step) return ;;
	train:--lr-gamma) return ;;
	train:--decay-steps) return ;;
	train:--device) words='cpu cuda' ;;
	train:--threads) return ;;
	train:--recompute) words='none all auto --model --data --val --val-split --init-from --init --map --names --strict --freeze --lr-scale --epochs --steps --batch --accumulate --seed --reproducible --amp --tf32 --optimizer --lr --adam-lr --adjust-lr --momentum --nesterov --weight-decay --betas --eps --clip --ema --lr-schedule --warmup --min-lr --lr-step --lr-gamma --decay-steps --device --threads --recompute --workers --prefetch --pin-memory --drop-last --augment --strict-data --nproc --parallel --backend --tensor-parallel --sequence-parallel --bucket-size --pipeline-parallel --chunks --schedule --compress --sync-bn --broadcast-buffers --check-replicas --timeout --max-restarts --verify-parallel --out --config --resume --save-every --keep --eval-every --patience --log-every --profile --dry-run --json --quiet --verbose --color --help ' ;;
	train:--workers) return ;;
	train:--prefetch) return ;;
	train:--pin-memory) words='yes no' ;;
	train:--augment) _gtrain_spec augment "$typed"; return ;;
	train:--nproc) return ;;
	train:--parallel) words='ddp mirrored dp zero1 zero2 zero3' ;;
	train:--backend) words='auto shm ring mpi nccl' ;;
	train:--tensor-parallel) return ;;
	train:--bucket-size) return ;;
	train:--pipeline-parallel) return ;;
	train:--chunks) return ;;
	train:--schedule) words='gpipe 1f1b' ;;
	train:--compress) words='none fp16 bf16' ;;
	train:--broadcast-buffers) words='yes no' ;;
	train:--check-replicas) return ;;
	train:--timeout) return ;;
	train:--max-restarts) return ;;
	train:--out) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	train:--config) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -W 'cifar10-resnet20 gpt2-124m gpt2-finetune imagenet-resnet50 mnist-lenet nanogpt-char photos-finetune' -- "$cur")
		return
		;;
	train:--resume) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -W 'auto' -- "$cur")
		return
		;;
	train:--save-every) return ;;
	train:--keep) return ;;
	train:--eval-every) return ;;
	train:--patience) return ;;
	train:--log-every) return ;;
	train:--profile) return ;;
	train:--color) words='auto always never' ;;
	eval:--ckpt) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	eval:--data) _gtrain_spec data "$typed"; return ;;
	eval:--model) _gtrain_spec model "$typed"; return ;;
	eval:--vocab) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	eval:--tokenizer) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	eval:--predictions) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	eval:--map) return ;;
	eval:--names) words='auto torchvision timm huggingface' ;;
	eval:--strict) words='yes no' ;;
	eval:--batch) return ;;
	eval:--amp) words='off bf16 bf16-autocast fp16' ;;
	eval:--device) words='cpu cuda' ;;
	eval:--threads) return ;;
	eval:--workers) return ;;
	eval:--nproc) return ;;
	eval:--backend) words='auto shm ring mpi nccl' ;;
	eval:--timeout) return ;;
	eval:--color) words='auto always never' ;;
	predict:--ckpt) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	predict:--model) _gtrain_spec model "$typed"; return ;;
	predict:--read) return ;;
	predict:--top) return ;;
	predict:--map) return ;;
	predict:--names) words='auto torchvision timm huggingface' ;;
	predict:--strict) words='yes no' ;;
	predict:--batch) return ;;
	predict:--amp) words='off bf16 bf16-autocast fp16' ;;
	predict:--device) words='cpu cuda' ;;
	predict:--threads) return ;;
	predict:--workers) return ;;
	predict:--nproc) return ;;
	predict:--backend) words='auto shm ring mpi nccl' ;;
	predict:--timeout) return ;;
	predict:--color) words='auto always never' ;;
	generate:--ckpt) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	generate:--model) _gtrain_spec model "$typed"; return ;;
	generate:--vocab) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	generate:--tokenizer) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	generate:--prompt) return ;;
	generate:--tokens) return ;;
	generate:--temperature) return ;;
	generate:--top-k) return ;;
	generate:--top-p) return ;;
	generate:--seed) return ;;
	generate:--device) words='cpu cuda' ;;
	generate:--threads) return ;;
	generate:--color) words='auto always never' ;;
	data-get:--to) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	data-get:--mirror) return ;;
	data-get:--retries) return ;;
	data-get:--timeout) return ;;
	data-get:--color) words='auto always never' ;;
	data-ls:--to) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	data-ls:--color) words='auto always never' ;;
	bench-allreduce:--nproc) return ;;
	bench-allreduce:--sizes) return ;;
	bench-allreduce:--device) words='cpu cuda' ;;
	bench-allreduce:--dtype) words='fp32 fp16 bf16' ;;
	bench-allreduce:--buffers) words='shared plain' ;;
	bench-allreduce:--backend) return ;;
	bench-allreduce:--rounds) return ;;
	bench-allreduce:--timeout) return ;;
	bench-allreduce:--color) words='auto always never' ;;
	bench-ckpt:--rounds) return ;;
	bench-ckpt:--dir) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	bench-ckpt:--color) words='auto always never' ;;
	bench-copy:--device) words='cpu cuda' ;;
	bench-copy:--sizes) return ;;
	bench-copy:--rounds) return ;;
	bench-copy:--seconds) return ;;
	bench-copy:--color) words='auto always never' ;;
	bench-gemm:--device) words='cpu cuda' ;;
	bench-gemm:--shapes) return ;;
	bench-gemm:--dtype) return ;;
	bench-gemm:--rounds) return ;;
	bench-gemm:--seconds) return ;;
	bench-gemm:--color) words='auto always never' ;;
	ckpt-ls:--threads) return ;;
	ckpt-ls:--color) words='auto always never' ;;
	ckpt-verify:--threads) return ;;
	ckpt-verify:--color) words='auto always never' ;;
	ckpt-diff:--tolerance) return ;;
	ckpt-diff:--threads) return ;;
	ckpt-diff:--color) words='auto always never' ;;
	ckpt-strip-module:--prefix) return ;;
	ckpt-strip-module:--output) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	ckpt-strip-module:--sync) words='yes no' ;;
	ckpt-strip-module:--color) words='auto always never' ;;
	ckpt-add-module:--prefix) return ;;
	ckpt-add-module:--output) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	ckpt-add-module:--sync) words='yes no' ;;
	ckpt-add-module:--color) words='auto always never' ;;
	ckpt-remap:--map) return ;;
	ckpt-remap:--output) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	ckpt-remap:--sync) words='yes no' ;;
	ckpt-remap:--color) words='auto always never' ;;
	ckpt-rename:--map) return ;;
	ckpt-rename:--output) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	ckpt-rename:--sync) words='yes no' ;;
	ckpt-rename:--color) words='auto always never' ;;
	ckpt-select:--path) return ;;
	ckpt-select:--keys) return ;;
	ckpt-select:--output) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	ckpt-select:--to) words='pth legacy safetensors npz' ;;
	ckpt-select:--dtype) words='fp32 fp16 bf16' ;;
	ckpt-select:--shard-size) return ;;
	ckpt-select:--sync) words='yes no' ;;
	ckpt-select:--color) words='auto always never' ;;
	ckpt-convert:--output) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	ckpt-convert:--to) words='pth legacy safetensors npz hf' ;;
	ckpt-convert:--dtype) words='fp32 fp16 bf16' ;;
	ckpt-convert:--shard-size) return ;;
	ckpt-convert:--sync) words='yes no' ;;
	ckpt-convert:--color) words='auto always never' ;;
	ckpt-merge:--output) 
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	ckpt-merge:--to) words='pth legacy safetensors npz' ;;
	ckpt-merge:--dtype) words='fp32 fp16 bf16' ;;
	ckpt-merge:--shard-size) return ;;
	ckpt-merge:--sync) words='yes no' ;;
	ckpt-merge:--color) words='auto always never' ;;
	help:--completion) words='bash zsh fish' ;;
	help:--color) words='auto always never' ;;
	:) words='probe train eval predict generate data bench ckpt help --version --help' ;;
	data-:) words='get ls --help' ;;
	ckpt-:) words='ls verify diff strip-module add-module remap rename select convert merge --help' ;;
	bench-:) words='allreduce ckpt copy gemm --help' ;;
	probe:*) words='--watch --topology --bandwidth --check --json --quiet --verbose --color --help ' ;;
	train:*) words='--model --data --val --val-split --init-from --init --map --names --strict --freeze --lr-scale --epochs --steps --batch --accumulate --seed --reproducible --amp --tf32 --optimizer --lr --adam-lr --adjust-lr --momentum --nesterov --weight-decay --betas --eps --clip --ema --lr-schedule --warmup --min-lr --lr-step --lr-gamma --decay-steps --device --threads --recompute --workers --prefetch --pin-memory --drop-last --augment --strict-data --nproc --parallel --backend --tensor-parallel --sequence-parallel --bucket-size --pipeline-parallel --chunks --schedule --compress --sync-bn --broadcast-buffers --check-replicas --timeout --max-restarts --verify-parallel --out --config --resume --save-every --keep --eval-every --patience --log-every --profile --dry-run --json --quiet --verbose --color --help ' ;;
	eval:*) words='--ckpt --data --model --vocab --tokenizer --per-class --confusion --predictions --map --names --strict --batch --amp --tf32 --device --threads --workers --strict-data --nproc --backend --timeout --json --quiet --verbose --color --help ' ;;
	predict:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--ckpt --model --read --top --csv --map --names --strict --batch --amp --tf32 --device --threads --workers --nproc --backend --timeout --json --quiet --verbose --color --help '
		;;
	generate:*) words='--ckpt --model --vocab --tokenizer --prompt --tokens --temperature --top-k --top-p --seed --device --tf32 --threads --json --quiet --verbose --color --help ' ;;
	data-get:*) words='mnist fashion-mnist cifar10 shakespeare gpt2-tokenizer gpt2 resnet18 resnet34 resnet50 vit-base --to --force --mirror --retries --timeout --json --quiet --verbose --color --help ' ;;
	data-ls:*) words='mnist fashion-mnist cifar10 shakespeare gpt2-tokenizer gpt2 resnet18 resnet34 resnet50 vit-base --to --json --quiet --verbose --color --help ' ;;
	bench-allreduce:*) words='--nproc --sizes --device --dtype --buffers --backend --rounds --timeout --csv --json --quiet --verbose --color --help ' ;;
	bench-ckpt:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--rounds --dir --csv --json --quiet --verbose --color --help '
		;;
	bench-copy:*) words='--device --sizes --rounds --seconds --csv --json --quiet --verbose --color --help ' ;;
	bench-gemm:*) words='--device --shapes --dtype --rounds --seconds --csv --json --quiet --verbose --color --help ' ;;
	ckpt-ls:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--stats --all --threads --json --quiet --verbose --color --help '
		;;
	ckpt-verify:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--repair --strict --threads --json --quiet --verbose --color --help '
		;;
	ckpt-diff:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--tolerance --state-dict --threads --json --quiet --verbose --color --help '
		;;
	ckpt-strip-module:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--prefix --output --in-place --dry-run --sync --json --quiet --verbose --color --help '
		;;
	ckpt-add-module:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--prefix --output --in-place --dry-run --sync --json --quiet --verbose --color --help '
		;;
	ckpt-remap:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--map --output --in-place --dry-run --sync --json --quiet --verbose --color --help '
		;;
	ckpt-rename:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--map --output --in-place --dry-run --sync --json --quiet --verbose --color --help '
		;;
	ckpt-select:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--path --keys --output --to --dtype --shard-size --sync --json --quiet --verbose --color --help '
		;;
	ckpt-convert:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--output --to --dtype --shard-size --sync --weights-only --json --quiet --verbose --color --help '
		;;
	ckpt-merge:*) 
		if [[ $cur != -* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		words='--average --output --to --dtype --shard-size --sync --json --quiet --verbose --color --help '
		;;
	help:*) words='probe train eval predict generate data bench ckpt help models data augment resume recipes --completion --json --quiet --verbose --color --help ' ;;
	*) return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _gtrain gtrain
