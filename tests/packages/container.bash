# container.bash - check container files, and follow their commands in chroots, where no program for containers runs.
#
# SYSTEMS  the folder of the chroots; a system of Debian is made once, and copied for each stage

# FILE: its instructions, one a line: the name, a tab, the rest. Lines that end in \ are joined; comments are left out.
list_instructions() {
	awk '/^[ \t]*#/ { next }
		{ more = sub(/\\$/, ""); text = text $0 }
		more { next }
		text ~ /[^ \t]/ { name = text; sub(/[ \t].*/, "", name); sub(/^[^ \t]+[ \t]+/, "", text); print name "\t" text }
		{ text = "" }' "$1"
}

# FILE: the packages that its commands install by apt-get, each once; files (./x, /x) are not among them.
list_packages() {
	list_instructions "$1" | sed -n 's/^RUN\t//p' | sed 's/&&\|;/\n/g' | awk '$1 == "apt-get" && $2 == "install" {
		for (i = 3; i <= NF; i++)
			if ($i !~ /^-/ && $i !~ /\//)
				print $i
	}' | sort -u
}

# FILE ROOT: packages of the file that apt in the system ROOT does not know.
list_unknown_packages() {
	local package

	list_packages "$1" | while read -r package; do
		in_chroot "$2" "apt-cache show $package >/dev/null 2>&1" </dev/null || echo "$package"
	done
}

# FILE FOLDER: instructions that take a file which neither `make dist` put into FOLDER (ADD) nor an earlier command made (COPY).
list_unmade() {
	local name rest made=

	list_instructions "$1" | while IFS=$'\t' read -r name rest; do
		case $name in
		ADD) compgen -G "$2/${rest% *}" >/dev/null || echo "$name $rest" ;;
		RUN) made+=" $rest " ;;
		COPY)
			rest=${rest#--from=* }
			[[ $made == *" ${rest% *} "* ]] || echo "$name $rest"
			;;
		esac
	done
}

# IMAGE FOLDER: make a folder with the system of an image of Debian.
start_stage() {
	local suite=${1##*debian:}

	suite=${suite%-slim}
	[[ $1 == docker.io/library/debian:* ]] || { echo "FROM $1: not an image of Debian" && return 1; }
	make_chroot "$suite" "$SYSTEMS/$suite-base" && rm -rf "$2" && mkdir -p "$(dirname "$2")" && cp -a "$SYSTEMS/$suite-base" "$2"
}

# FILE CONTEXT FOLDER: follow the file; the stages are FOLDER/0, FOLDER/1 ... The last one is the system of the container, whose
# folder, working directory and command are left in container_root, container_folder and container_command. DEBIAN=trixie in the
# environment has the effect of --build-arg.
# shellcheck disable=SC2034 # for the caller
follow_containerfile() {
	local name rest n=-1 source
	local -A stages=()

	container_folder=/ container_command=
	while IFS=$'\t' read -r name rest <&3; do
		case $name in
		ARG) [[ -v ${rest%%=*} ]] || local "$rest" ;;
		FROM)
			# shellcheck disable=SC2016 # a name in the file
			read -r source _ name <<<"${rest//'${DEBIAN}'/${DEBIAN-}}"
			container_root=$3/$((++n)) container_folder=/
			[ -z "$name" ] || stages[$name]=$container_root
			start_stage "$source" "$container_root"
			;;
		ADD)
			# Archives are unpacked, so says the reference of container files.
			for source in $2/${rest% *}; do
				tar --extract --file="$source" --no-same-owner --directory="$container_root${rest##* }" || break
			done
			;;
		COPY)
			[[ $rest =~ ^--from=([a-z]+)\ ([^ ]+)\ ([^ ]+)$ ]] &&
				cp -a "${stages[${BASH_REMATCH[1]}]}${BASH_REMATCH[2]}" "$container_root${BASH_REMATCH[3]}"
			;;
		WORKDIR) container_folder=$rest && mkdir -p "$container_root$rest" ;;
		RUN) in_chroot "$container_root" "cd $container_folder && exec sh -c $(printf %q "$rest")" </dev/null ;;
		ENTRYPOINT) container_command=$(jq -r 'join(" ")' <<<"$rest") ;;
		CMD) ;;
		*) echo "an instruction that this test does not follow" && false ;;
		esac || { echo "failed: $name $rest" && return 1; }
	done 3< <(list_instructions "$1")
}
