# chroot.bash - new systems of Debian in folders, and commands that run there; tests/systems/run and tests/packages/run share it.
#
# data    the folder of the tests' data, mounted at /data, if there is one
# MIRROR  the mirror of Debian's packages; by default the one that this machine's apt uses

find_mirror() {
	[ -z "${MIRROR-}" ] || { echo "$MIRROR" && return; }
	# shellcheck disable=SC2016 # apt's own names
	apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 2>/dev/null |
		awk '$1 == "Debian" && $2 == "Debian" && !found { print $3; found = 1 }'
}

# SUITE FOLDER: a new Debian. Nothing stands there before it is whole.
make_chroot() {
	local mirror

	[ ! -e "$2" ] || return 0
	mirror=$(find_mirror)
	[ -n "$mirror" ] || die "apt on this machine knows no mirror of Debian; set MIRROR=http://..."
	rm -rf "$2.part"
	debootstrap --variant=minbase "$1" "$2.part" "$mirror" >"$2.log" 2>&1 ||
		{ rm -rf "$2.part" && return 1; }
	# The way to the mirror is this machine's.
	apt-config dump | grep -iE '^Acquire::[a-z:]*proxy' >"$2.part/etc/apt/apt.conf.d/01proxy"
	mv "$2.part" "$2"
}

# FOLDER COMMAND: run it there. The mounts are in a namespace of their own, and end with it, as do all its processes.
in_chroot() {
	# shellcheck disable=SC2016 # the inner shell's own
	unshare --mount --pid --fork --kill-child bash -euc '
		root=$1 data=$2
		mount -t proc proc "$root/proc"
		mount -t sysfs -o ro sysfs "$root/sys"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/dev/shm"
		mkdir -p "$root/data"
		[ ! -d "$data" ] || mount --bind "$data" "$root/data"
		shift 2
		exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 GTRAIN_TEST_DATA=/data "$@"
	' bash "$1" "${data-}" ${JOBS:+"JOBS=$JOBS"} ${TIMEOUT:+"TIMEOUT=$TIMEOUT"} "T=${T-}" "REQUIRE=${REQUIRE-}" bash -c "$2"
}
