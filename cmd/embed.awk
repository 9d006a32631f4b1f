# embed.awk - files as a C array of rows {name, text}.
#
# awk -v header=HEADER -v type='struct TYPE' -v array=NAME [-v ending=.json] [-v names=NAME] -f embed.awk FILE...
#
# HEADER declares the array, and `names` if it is given: the names alone, ended by NULL. A name is that of the file, without
# its folders and without `ending`. The places of source maps, which browsers would look for, are left out.
function close_row()
{
	if (count)
		print "\t\"\" },"
}
BEGIN { printf "#include \"%s\"\n\nconst %s %s[] = {\n", header, type, array }
FNR == 1 {
	close_row()
	name = FILENAME
	sub(/.*\//, "", name)
	if (ending != "" && substr(name, length(name) - length(ending) + 1) == ending)
		name = substr(name, 1, length(name) - length(ending))
	list[count++] = name
	print "\t{ \"" name "\","
}
{
	sub(/\/[\/*]# sourceMappingURL=[^ ]*( \*\/)?$/, "")
	gsub(/[\\"]/, "\\\\&")
	print "\t  \"" $0 "\\n\""
}
END {
	close_row()
	print "\t{ 0 },\n};"
	if (names == "")
		exit
	print "\nconst char *const " names "[] = {"
	for (i = 0; i < count; i++)
		print "\t\"" list[i] "\","
	print "\t0,\n};"
}
