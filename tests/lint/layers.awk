# layers.awk - check #include lines against layers.txt: awk -f layers.awk layers.txt FILE...

# Is path inside folder, or the file itself?
function inside(path, folder)
{
	return path == folder || index(path, folder "/") == 1
}

function complain(text)
{
	print FILENAME ":" FNR ": " text
	bad = 1
}

FNR == NR {
	if ($0 ~ /^#/ || NF == 0)
		next
	name = $1
	sub(/:$/, "", name)
	row[name] = " "
	for (i = 2; i <= NF; i++)
		row[name] = row[name] $i " "
	next
}

FNR == 1 {
	mine = ""
	for (name in row)
		if (inside(FILENAME, name) && length(name) > length(mine))
			mine = name
	if (mine == "")
		complain("no row of layers.txt is for this folder")
	n = split(mine " " row[mine], allowed, " ")
}

/^[ \t]*#[ \t]*include[ \t]*"/ && mine != "" {
	split($0, part, "\"")
	for (i = 1; i <= n; i++)
		if (inside(part[2], allowed[i]))
			next
	complain(mine " may not include \"" part[2] "\"")
}

END { exit bad }
