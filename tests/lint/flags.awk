# flags.awk - the library does not write options as a command line has them: awk -f flags.awk FILE...
#
# Messages name the option --word as {word}, and programs show it in their own way
# (lib/base/option_names.h). A command line to be typed is quoted as it is, in `backticks` or as
# 'gtrain ...'.

function report(    text)
{
	text = literal
	gsub(/`[^`]*`/, "", text)
	gsub(/'gtrain [^']*'/, "", text)
	if (match(text, /--[a-z%][a-z-]*/)) {
		print FILENAME ":" began ": '" substr(text, RSTART, RLENGTH) "' in a string: write {" \
		    substr(text, RSTART + 2, RLENGTH - 2) "}"
		bad = 1
	}
	literal = ""
}

# Strings with nothing but space between them are one.
function scan(line,    i, c, next_)
{
	for (i = 1; i <= length(line); i++) {
		c = substr(line, i, 1)
		next_ = substr(line, i + 1, 1)
		if (state == "comment") {
			if (c == "*" && next_ == "/") {
				state = ""
				i++
			}
		} else if (state == "string" || state == "char") {
			if (c == "\\") {
				i++
			} else if (c == (state == "string" ? "\"" : "'")) {
				state = ""
			} else if (state == "string") {
				literal = literal c
			}
		} else if (c == "/" && next_ == "*") {
			state = "comment"
			i++
		} else if (c == "\"") {
			if (literal == "")
				began = FNR
			state = "string"
		} else if (c !~ /[ \t]/) {
			report()
			if (c == "'")
				state = "char"
		}
	}
}

FNR == 1 { state = literal = "" }

# Most lines have nothing to scan for.
state == "comment" && !/\*\// { next }
state == "" && literal == "" && !/["'\/]/ { next }

{ scan($0) }

END { exit bad }
