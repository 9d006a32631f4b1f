#!/usr/bin/env bats
# allocations.bats - the training loop takes no memory: longer runs allocate as often as short ones.

load helpers

setup() {
	counter=$(realpath "${GTRAIN_TESTS:-$ROOT/build/tests}")/fake/count_allocations.so
	if ldd "$GTRAIN" | grep -qE 'asan|tsan' || nm "$GTRAIN" | grep -qE '__asan_init|__tsan_init'; then
		skip "the sanitizers bring their own allocator"
	fi
	cd "$BATS_TEST_TMPDIR" || return
}

# How often gtrain asks for memory in a run of $1 steps of the model and data given.
allocations() {
	local steps=$1
	shift
	LD_PRELOAD=$counter "$GTRAIN" train "$@" --steps "$steps" --warmup 3 --log-every 1 \
		--save-every 0 --out "run-$steps" 2>err
	rm -r "run-$steps"
	sed -n 's/^allocations: //p' err
}

same_for_any_length() {
	local short long

	short=$(allocations 6 "$@")
	long=$(allocations 24 "$@")
	[ "$short" -gt 10 ]
	equal "$long" "$short"
}

@test "a GPT with dropout and clipping" {
	same_for_any_length --model gpt:layers=2,heads=2,width=32,block=16,dropout=0.1,vocab=20 --data random --batch 4 \
		--clip 1
}

@test "a file for TensorBoard" {
	same_for_any_length --model mlp --data random:8/3 --batch 8 --tensorboard
}

@test "a ResNet with augmentation, over the end of epochs" {
	use_isa
	same_for_any_length --model resnet20 --data random,samples=20 --batch 8 --augment crop,flip,jitter:hue=0.1,mixup --optimizer sgd
}

@test "an MLP with accumulated micro-batches" {
	same_for_any_length --model mlp --data random:8/3 --batch 8 --accumulate 3 --optimizer adam
}
