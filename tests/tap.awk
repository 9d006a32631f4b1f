# tap.awk - turn one test file's TAP into part of the whole: renumbered, named, counted.
#
# Variables: job, the name put before each test; rc and ms, its exit status and how long it took; cpu,
# the user and system time of its processes as bash prints them (1m2.345s 0m0.678s); filter, T of make
# check; required, REQUIRE of it; counts, the file with the counts so far; failures, the file that gets
# the lines of failed tests and the first lines of their messages, for a list at the end; times, the one
# that gets the CPU time of each job.
# A file that dies, stops short of its plan or has no plan is itself a failed test.

BEGIN {
	getline line < counts
	close(counts)
	split(line, n, " ")
	passed = n[1]
	failed = n[2]
	skipped = n[3]
	plan = -1
	words = split(tolower(required), word, ",")
	gsub(/,/, ".", cpu) # the decimal point of some locales
	split(cpu, used, " ")
}

# Return whether REQUIRE forbids a skip with this reason.
function forbidden(reason,    i)
{
	for (i = 1; i <= words; i++)
		if (word[i] != "" && index(tolower(reason), word[i]))
			return 1
	return 0
}

# Print lines of a failed test, and keep the first few.
function complain(lines,    line, n, i)
{
	printf "%s", lines
	n = split(lines, line, "\n")
	for (i = 1; i < n && kept < 10; i++) {
		print line[i] >> failures
		kept++
	}
}

# Count and print one test; 0 if the filter leaves it out.
function point(ok, name, directive)
{
	if (filter != "" && !index(job, filter) && !index(name, filter)) {
		said = ""
		return 0
	}
	if (directive != "" && forbidden(directive)) {
		ok = 0
		name = name " (skipped although required: " directive ")"
		directive = ""
	}
	shown++
	if (directive != "")
		skipped++
	else if (ok)
		passed++
	else
		failed++
	name = passed + failed + skipped " - " job ": " name
	if (directive != "")
		print "ok " name " # SKIP " directive
	else if (ok)
		print "ok " name
	else {
		kept = 0
		complain("not ok " name "\n" said)
	}
	said = ""
	return 1
}

# The seconds of a time that bash prints: 62.345 for 1m2.345s.
function seconds(text,    part)
{
	split(text, part, /[ms]/)
	return 60 * part[1] + part[2]
}

# ok 3 - name; ok 3 name # skip why; not ok 3 # SKIP name (cmocka, which said why before)
/^(not )?ok( |$)/ {
	seen++
	ok = /^ok/
	rest = $0
	sub(/^(not )?ok *[0-9]* *-? */, "", rest)
	directive = ""
	if (match(rest, /# *[Ss][Kk][Ii][Pp]:? */)) {
		directive = substr(rest, RSTART + RLENGTH)
		rest = substr(rest, 1, RSTART - 1)
		sub(/ +$/, "", rest)
		if (rest == "") {
			rest = directive
			directive = last
		}
		if (directive == "")
			directive = "no reason given"
	}
	if (!ok && directive == "")
		bad++
	# What a test said stands before its line or, for a failed one, after it.
	after = point(ok, rest, directive) && !ok && directive == ""
	last = ""
	next
}

/^1\.\.[0-9]+/ {
	plan = substr($0, 4) + 0
	if (plan == 0 && match($0, /# *[Ss][Kk][Ii][Pp]:? */)) {
		seen++
		plan = 1
		point(1, "all of it", substr($0, RSTART + RLENGTH))
	}
	next
}

/^(TAP version|# [0-9]+ - SUCCESS|$)/ { next }

{
	text = $0
	sub(/^# ?/, "", text)
	last = text
	if (after)
		complain("# " text "\n")
	else
		said = said "# " text "\n"
	tail = tail "# " text "\n"
	if (length(tail) > 8000)
		tail = substr(tail, length(tail) - 6000)
}

END {
	why = ""
	if (rc == 124 || rc == 137)
		why = "stopped after " int(ms / 1000) " seconds"
	else if (plan < 0)
		why = "no plan, exit status " rc
	else if (seen != plan)
		why = seen + 0 " of " plan " tests, exit status " rc
	else if (rc != 0 && !bad)
		why = "every test passed, yet exit status " rc
	if (why != "") {
		said = tail
		filter = ""
		point(0, why, "")
	}
	if (shown) {
		spent = seconds(used[1]) + seconds(used[2])
		printf "# %s: %.2f s, %.2f s of CPU time\n", job, ms / 1000, spent
		print spent, job >> times
	}
	print passed, failed, skipped > counts
}
