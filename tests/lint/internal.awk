# internal.awk - keep others from a module's private headers: awk -f internal.awk FILE...
#
# A header is private to its module, lib/ckpt for lib/ckpt/zip/zip.h, where its first line says so:
# "/* zip.h - private: ... */". Files of the module and tests include it, and no others; so
# no header that others may include includes it.

function complain(text)
{
	print FILENAME ":" FNR ": " text
	bad = 1
}

function module(path,    part)
{
	split(path, part, "/")
	return part[1] "/" part[2]
}

function is_private(path,    line)
{
	if (path !~ /^lib\/.*\.h$/)
		return 0
	if (!(path in private)) {
		line = ""
		getline line < path
		close(path)
		private[path] = index(line, " - private: ") > 0
	}
	return private[path]
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
	split($0, part, "\"")
	if (!is_private(part[2]) || FILENAME ~ /^tests\//)
		next
	if (module(FILENAME) != module(part[2]))
		complain("\"" part[2] "\" is private to " module(part[2]))
	else if (FILENAME ~ /\.h$/ && !is_private(FILENAME))
		complain("other modules may include this header, but not \"" part[2] "\"")
}

END { exit bad }
