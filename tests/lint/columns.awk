# columns.awk - no line is longer than 100 columns: awk -f columns.awk FILE...
#
# A tab goes to the next multiple of eight. A line that is a string literal may be longer: messages
# are kept whole, so that a search for one finds it.

function columns(text,    part, n, i, sum)
{
	n = split(text, part, "\t")
	for (i = 1; i < n; i++)
		sum += length(part[i]) - length(part[i]) % 8 + 8
	return sum + length(part[n])
}

/^[ \t]*"/ { next }

{
	n = columns($0)
	if (n > 100) {
		print FILENAME ":" FNR ": " n " columns, 100 at most"
		bad = 1
	}
}

END { exit bad }
