# unread.awk - name options whose value no code reads: awk -f unread.awk FILE...
#
# A row of a table of options names the field of the option as RUN(member), RUN_PAIR(member) or
# AT(member). Some line that is no such row has to read the member: `->member` or `.member` behind a
# name, not as the target of an assignment.

function note_fields(line,    field) {
	while (match(line, /(^|[^A-Z_])(RUN|RUN_PAIR|AT)\([a-z0-9_.]+\)/)) {
		field = substr(line, RSTART, RLENGTH)
		line = substr(line, RSTART + RLENGTH)
		sub(/^.*\(/, "", field)
		sub(/\)$/, "", field)
		if (!(field in place))
			place[field] = FILENAME ":" FNR
	}
}

function note_reads(line,    word, rest) {
	while (match(line, /[A-Za-z0-9_)\]](->|\.)[a-z_][a-z0-9_]*/)) {
		word = substr(line, RSTART, RLENGTH)
		# The next access may begin with the last character of this word.
		rest = substr(line, RSTART + RLENGTH)
		line = substr(line, RSTART + RLENGTH - 1)
		sub(/^.*(->|\.)/, "", word)
		if (rest !~ /^[ \t]*=([^=]|$)/)
			read[word] = 1
	}
}

/GT_OPT.*[^A-Z_](RUN|RUN_PAIR|AT)\(/ { note_fields($0); next }
{ note_reads($0) }

END {
	for (field in place) {
		member = field
		sub(/^.*\./, "", member)
		if (member in read)
			continue
		print place[field] ": no code reads the option's field '" field "'"
		bad = 1
	}
	exit bad
}
