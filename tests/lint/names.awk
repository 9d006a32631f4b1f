# names.awk - names that a header declares begin with gt_ or GT_, and its guard is its path:
# lib/base/err.h has GT_BASE_ERR_H. awk -f names.awk HEADER...
#
# Names that NVIDIA's management library defines keep its prefix, NVML_. The interface of programs, lib/gtrain.h, has names of
# its own, gtrain_ and GTRAIN_, and lib/api/ completes its type.

function complain(text)
{
	print FILENAME ":" FNR ": " text
	bad = 1
}

# Comments go first, those of several lines too; what is left is code.
{
	while (1) {
		if (comment) {
			if (!(at = index($0, "*/"))) {
				$0 = ""
				break
			}
			$0 = substr($0, at + 2)
			comment = 0
		}
		if (!(at = index($0, "/*")))
			break
		rest = substr($0, at + 2)
		head = substr($0, 1, at - 1)
		if (end = index(rest, "*/")) {
			$0 = head " " substr(rest, end + 2)
		} else {
			$0 = head
			comment = 1
			break
		}
	}
}

FNR == 1 {
	guard = FILENAME
	sub(/^lib\//, "", guard)
	gsub(/[^A-Za-z0-9]/, "_", guard)
	guard = "GT_" toupper(guard)
	seen = 0
	listing = 0
	api = FILENAME == "lib/gtrain.h" || FILENAME ~ /^lib\/api\//
}

# The names of the interface are checked like others, without the rest of its prefix.
api && !/^#ifndef/ {
	gsub(/GTRAIN_/, "GT_")
	gsub(/gtrain_/, "gt_")
	gsub(/struct gtrain([ ;]|$)/, "struct gt_run ")
}

/^#ifndef/ && !seen {
	seen = 1
	if ($2 != guard)
		complain("the guard is " $2 ", not " guard)
}

/^#[ \t]*define/ {
	name = $0
	sub(/^#[ \t]*define[ \t]+/, "", name)
	if (name !~ /^(GT_|gt_|NVML_)/)
		complain("a macro without GT_: " name)
}

/^(struct|enum|union)[ \t]+[A-Za-z_]/ && !/[();]/ && $2 !~ /^gt_/ { complain("a type without gt_: " $2) }

# A function: its name stands before the first parenthesis of a line that is not indented.
/^[A-Za-z_][A-Za-z0-9_ *]*\(/ && !/^(typedef|extern|static_assert|_Static_assert|return)/ {
	name = $0
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
	if (name !~ /^(gt_|GT_)/)
		complain("a function without gt_: " name)
}

/^enum[^;()]*\{/ { listing = 1 }

# Enumerators, one to a line or all on the line of the enum.
listing {
	text = $0
	sub(/^enum[^{]*\{/, "", text)
	if (text ~ /\}/)
		listing = 0
	sub(/\}.*/, "", text)
	n = split(text, part, ",")
	for (i = 1; i <= n; i++) {
		gsub(/[ \t]|=.*/, "", part[i])
		if (part[i] ~ /^[A-Za-z_]+[A-Za-z0-9_]*$/ && part[i] !~ /^(GT|NVML)_/)
			complain("an enumerator without GT_: " part[i])
	}
}

END { exit bad }
