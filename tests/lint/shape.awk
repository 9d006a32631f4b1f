# shape.awk - lengths of files and functions: awk -f shape.awk FILE...
#
# Relies on the house style: a function's opening and closing brace stand alone in column one.
# Prints "LINES FILE" and "LINES FILE:LINE NAME", which the caller judges or sorts.

function end_file()
{
	if (file != "")
		print lines, file
}

FNR == 1 {
	end_file()
	file = FILENAME
	start = 0
	head = 0
}

{ lines = FNR }

# The line on which a definition begins; it may go on over indented lines.
/^[A-Za-z_].*\(/ && !start {
	head = FNR
	name = $0
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
}

/^\{$/ && head { start = head }

/^\}$/ && start {
	print FNR - start + 1, FILENAME ":" start, name
	start = 0
	head = 0
}

END { end_file() }
