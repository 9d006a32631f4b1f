# language.awk - how often comments say "what" or "who" in place of a noun. awk -f language.awk FILE...
#
# Counts the words of comments in C by module (lib/ckpt, cmd, tests/unit, ...), and these words. Text in
# backquotes is quoted, so it does not count. A module with more than MAX of 1,000 is printed with its places, and fails.
# The measure and its bound are the house style's: zstd, gguf-tools and libgit2 have 0.2 to 0.5.

function module_of(path,    part, n)
{
	n = split(path, part, "/")
	return n > 2 ? part[1] "/" part[2] : part[1]
}

function count(text,    word, n, i)
{
	gsub(/`[^`]*`/, " ", text)
	n = split(tolower(text), word, /[^a-z']+/)
	for (i = 1; i <= n; i++) {
		if (word[i] ~ /^[a-z]/)
			words[module]++
		if (word[i] ~ /^(what|who|whoever|whom)$/) {
			clauses[module]++
			places[module] = places[module] FILENAME ":" FNR ": " original "\n"
		}
	}
}

BEGIN {
	if (!MAX)
		MAX = 2
}

FNR == 1 {
	comment = 0
	module = module_of(FILENAME)
}

{
	original = rest = $0
	while (rest != "") {
		if (comment) {
			if (!(at = index(rest, "*/"))) {
				count(rest)
				break
			}
			count(substr(rest, 1, at - 1))
			rest = substr(rest, at + 2)
			comment = 0
		}
		if (!(at = index(rest, "/*"))) {
			if (FILENAME ~ /\.(cu|cuh|cc)$/ && (at = index(rest, "// ")))
				count(substr(rest, at + 3))
			break
		}
		rest = substr(rest, at + 2)
		comment = 1
	}
}

END {
	for (m in words) {
		rate = clauses[m] * 1000 / words[m]
		if (LIST)
			printf "%-16s %6d words, %4d clauses, %5.1f of 1,000\n", m, words[m], clauses[m], rate
		if (rate <= MAX)
			continue
		printf "%s: %d clauses with what or who in %d words of comments, %.1f of 1,000; %s at most\n", m, clauses[m],
			words[m], rate, MAX
		printf "%s", places[m]
		bad = 1
	}
	exit bad
}
