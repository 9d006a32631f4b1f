# manual_program.bash - the programs in gtrain-lib(3), as files.

# manual_program NUMBER: print program NUMBER of the manual page.
manual_program() {
	awk -v number="$1" '/^\.Ed/ { inside = 0 } inside && at == number { print } /^\.Bd -literal/ { at++; inside = 1 }' \
		man/gtrain-lib.3 | sed "s/\\\\-/-/g; s/\\\\(aq/'/g; s/\\\\e/\\\\/g"
}
