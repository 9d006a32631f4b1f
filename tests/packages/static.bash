# static.bash - the static program, run where nothing else is, in other Debians, and beside the usual program; run sources this.
#
# BUILD/gtrain-static is made by `make static`; check-packages skips these tests where it is not there.
# shellcheck disable=SC2016,SC2154 # shells of other systems; variables of run

static=$BUILD/gtrain-static

need_static() {
	[ -x "$static" ] || { echo "$static: \`make static\` makes it" >"$work/skip" && return 1; }
}

test_static_is_one_small_file() {
	need_static || return
	! readelf -W -d -l "$static" | grep -E 'NEEDED|INTERP' || return
	! ldd "$static" 2>&1 | grep -v 'not a dynamic executable' || return
	wc -c "$static"
	(($(wc -c <"$static") < 25000000))
}

# FOLDER: the program, a text, and images of each format; neither libraries, nor a shell, nor /proc, nor /dev.
make_bare() {
	[ ! -e "$1" ] || return 0
	mkdir -p "$1"/{tmp,proc,dev,images} && cp "$static" "$1/gtrain" && cp README.md "$1/text.md" || return
	"$PYTHON" -c '
import os, sys
from PIL import Image
for shade in range(10):
    os.makedirs("%s/images/shade%d" % (sys.argv[1], shade))
    for kind in "png", "jpg", "webp":
        Image.new("RGB", (40, 36), (25 * shade, 90, 250 - 25 * shade)).save("%s/images/shade%d/0.%s" % (sys.argv[1], shade, kind))' "$1"
}

# FOLDER ARGUMENTS...: run the program there, and nothing else.
run_bare() {
	chroot "$1" /gtrain "${@:2}"
}

# The same with /proc and /dev, by which ranks begin and find each other.
run_mounted() {
	unshare --mount --pid --fork --kill-child bash -euc '
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		exec chroot "$1" /gtrain "${@:2}"' bash "$@"
}

SMALL_GPT=gpt:layers=2,heads=2,width=64,block=32

test_static_runs_alone() {
	local root=$work/bare

	need_static && need_root || return
	make_bare "$root" || return
	run_bare "$root" train --model "$SMALL_GPT" --data text:/text.md --batch 8 --steps 20 --out /tmp/text 2>"$work/err" || { cat "$work/err" && return 1; }
	! grep warning: "$work/err" || return
	run_bare "$root" train --model resnet20 --data images:/images,size=32 --batch 10 --epochs 3 --out /tmp/images -q || return
	run_bare "$root" train --model resnet20 --data random --batch 4 --steps 2 --amp bf16 --out /tmp/bf16 -q || return
	run_bare "$root" eval --quiet --ckpt /tmp/images --data images:/images || return
	run_bare "$root" predict --ckpt /tmp/images /images/shade1/0.png /images/shade2/0.jpg /images/shade3/0.webp --csv --top 1 || return
	run_bare "$root" generate --ckpt /tmp/text --prompt gtrain --tokens 20 --seed 1 -q || return
	for format in safetensors legacy npz; do
		run_bare "$root" ckpt convert /tmp/text/model.pth --to "$format" -o "/tmp/model.$format" -q || return
		run_bare "$root" ckpt diff /tmp/text/model.pth "/tmp/model.$format" || return
	done
	run_bare "$root" ckpt verify /tmp/images/model.pth | tail -n 1 | grep -qx 'nothing is wrong' || return
	run_bare "$root" report /tmp/text /tmp/images -o /tmp/report.html -q && grep -q '</html>' "$root/tmp/report.html"
}

# ARGUMENTS...: what fails for want of a library has these two lines, and no others.
refused_as_static() {
	! "$@" >/dev/null 2>"$work/err" || return
	cat "$work/err"
	grep -q '^gtrain: error: .*: this is the static gtrain, which opens no libraries$' "$work/err" &&
		grep -qx 'hint: use the gtrain of `make` or `make deb`' "$work/err" && [ "$(wc -l <"$work/err")" -eq 2 ]
}

test_static_says_what_it_cannot() {
	local root=$work/bare

	need_static && need_root || return
	make_bare "$root" || return
	refused_as_static run_bare "$root" data get mnist --to /tmp/mnist || return
	OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 refused_as_static run_bare "$root" bench allreduce --backend mpi --sizes 1K || return
	run_bare "$root" probe | grep 'this is the static gtrain, which opens no libraries'
}

test_static_ranks() {
	local root=$work/bare

	need_static && need_root || return
	make_bare "$root" || return
	for backend in shm tcp; do
		run_mounted "$root" train --nproc 2 --backend "$backend" --model "$SMALL_GPT" --data text:/text.md --batch 8 --steps 6 --out "/tmp/$backend" \
			>"$work/said" 2>&1 || { cat "$work/said" && return 1; }
	done
	run_bare "$root" ckpt diff /tmp/shm/model.pth /tmp/tcp/model.pth || return
	# Without /proc and /dev there is a reason.
	! run_bare "$root" train --nproc 2 --model "$SMALL_GPT" --data text:/text.md --steps 1 --out /tmp/none 2>"$work/err" || return
	cat "$work/err"
	grep -qE '^gtrain: error: .*/(dev|proc)/' "$work/err"
}

# An older and a newer C library than this machine's. /etc/nsswitch.conf names a service that is a library of the system.
test_static_other_systems() {
	local root suite

	need debootstrap && need_static && need_root || return
	for suite in bullseye trixie; do
		root=$SYSTEMS/packages-$suite
		make_chroot "$suite" "$root" || { echo "$suite: no chroot" && return 1; }
		cp "$static" "$root/tmp/gtrain" || return
		in_chroot "$root" "$TRY"'
			try /tmp/gtrain /tmp/run || exit
			rm -rf /tmp/two
			/tmp/gtrain train --nproc 2 --model mlp --data random:8/3,samples=64 --batch 8 --steps 4 --out /tmp/two -q || exit
			echo "hosts: hesiod files dns" >/etc/nsswitch.conf
			grep -qs here.test /etc/hosts || echo "127.0.0.1 here.test" >>/etc/hosts
			for rank in 0 1; do
				MASTER_ADDR=here.test MASTER_PORT=29641 WORLD_SIZE=2 RANK=$rank LOCAL_RANK=$rank /tmp/gtrain bench allreduce --backend tcp \
					--sizes 1K --rounds 1 >/tmp/rank$rank 2>&1 & done
			wait
			grep "^2 ranks" /tmp/rank0 || { cat /tmp/rank0 /tmp/rank1 && exit 1; }' || return
	done
}

# PROGRAM ARGUMENTS...: seconds of processor time of a training by one thread, the less of two. They depend little on the other
# programs of the machine, as the rate would.
train_seconds() {
	local program=$1 TIMEFORMAT=%U

	shift
	for _ in 1 2; do
		rm -rf "$work/timed"
		{ time "$program" train --threads 1 --data random --out "$work/timed" -q "$@" >/dev/null; } 2>&1
	done | sort -g | head -n 1
}

# One oneDNN may be faster than the other, but not by much. Convolutions in bfloat16 are computed in float32. Each line begins with
# the times of the usual program that are allowed.
test_static_is_fast() {
	local arguments line limit usual own slow=0

	need_static || return
	while read -r limit line; do
		read -ra arguments <<<"$line"
		usual=$(train_seconds "$BUILD/gtrain" "${arguments[@]}")
		own=$(train_seconds "$static" "${arguments[@]}")
		awk -v run="${arguments[*]}" -v usual="$usual" -v own="$own" -v limit="$limit" 'BEGIN {
			printf "%s: %.2f s, the usual program %.2f s\n", run, own, usual
			exit !(own > 0 && own <= limit * usual)
		}' || slow=1
	done <<'RUNS'
1.4 --model resnet20 --batch 64 --steps 12
2.5 --model resnet20 --batch 64 --steps 12 --amp bf16
1.4 --model gpt:layers=4,heads=4,width=256,block=128,vocab=8192 --batch 4 --steps 12
1.4 --model gpt:layers=4,heads=4,width=256,block=128,vocab=8192 --batch 4 --steps 12 --amp bf16
RUNS
	((slow == 0))
}
