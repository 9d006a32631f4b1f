# internal.awk - keep others from the headers of internal.txt: awk -f internal.awk internal.txt FILE...

function complain(text)
{
	print FILENAME ":" FNR ": " text
	bad = 1
}

# lib/ckpt of lib/ckpt/zip/zip.h
function module(path,    part)
{
	split(path, part, "/")
	return part[1] "/" part[2]
}

FNR == NR {
	if ($0 !~ /^#/ && NF)
		internal[$1] = 1
	next
}

FNR == 1 && FILENAME ~ /^lib\/.*\.h$/ {
	split(FILENAME, part, "/")
	says = index($0, " - inside " part[2] ": ") > 0
	if (says && !(FILENAME in internal))
		complain("this header calls itself internal, but internal.txt does not")
	if (!says && FILENAME in internal)
		complain("the first line of an internal header says \"inside " part[2] ": ...\"")
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
	split($0, part, "\"")
	if (!(part[2] in internal) || FILENAME ~ /^tests\//)
		next
	if (module(FILENAME) != module(part[2]))
		complain("\"" part[2] "\" is for " module(part[2]) " alone (internal.txt)")
	else if (FILENAME ~ /\.h$/ && !(FILENAME in internal))
		complain("this header is installed, \"" part[2] "\" is not (internal.txt)")
}

END {
	for (path in internal)
		if ((getline line < path) <= 0) {
			print "internal.txt: there is no " path
			bad = 1
		}
	exit bad
}
