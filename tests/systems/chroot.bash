# chroot.bash - new systems of Debian and Ubuntu in folders, and commands that run there; tests/systems/run and tests/packages/run share it.
#
# data           the folder of the tests' data, mounted at /data, if there is one
# SYSTEMS        the folder of the chroots
# MIRROR         the mirror of Debian's packages; by default the one that this machine's apt uses
# UBUNTU_MIRROR  the mirror of Ubuntu's packages; by default Ubuntu's own
UBUNTU_MIRROR=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}

find_mirror() {
	[ -z "${MIRROR-}" ] || { echo "$MIRROR" && return; }
	# shellcheck disable=SC2016 # apt's own names
	apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 2>/dev/null |
		awk '$1 == "Debian" && $2 == "Debian" && !found { print $3; found = 1 }'
}

# LOG: print the file of Ubuntu's keys. Debian 12 has no package of them; Debian 13 has one, whose signature the apt there checks.
find_ubuntu_keys() {
	local keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg root=$SYSTEMS/trixie

	if [ ! -e "$keys" ]; then
		keys=$root/opt/ubuntu$keys
		[ -e "$keys" ] || {
			make_chroot trixie "$root" && in_chroot "$root" 'cd /tmp && apt-get update -q && apt-get download -q ubuntu-keyring &&
				dpkg-deb --extract ubuntu-keyring_*.deb /opt/ubuntu'
		} >"$1" 2>&1 </dev/null || return
	fi
	echo "$keys"
}

# SUITE FOLDER: a new Debian or, for noble, Ubuntu. Nothing stands there before it is whole.
make_chroot() {
	local mirror keys script='' options=()

	[ ! -e "$2" ] || return 0
	if [ "$1" = noble ]; then
		# Debian's debootstrap has no script of this name, and those that it has for Ubuntu are all the same file.
		mirror=$UBUNTU_MIRROR script=/usr/share/debootstrap/scripts/gutsy
		keys=$(find_ubuntu_keys "$2.log") || return
		options=('--components=main,universe' "--keyring=$keys")
	else
		mirror=$(find_mirror)
		[ -n "$mirror" ] || die "apt on this machine knows no mirror of Debian; set MIRROR=http://..."
	fi
	rm -rf "$2.part"
	debootstrap --variant=minbase "${options[@]}" "$1" "$2.part" "$mirror" ${script:+"$script"} >"$2.log" 2>&1 ||
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
