# embed.awk - recipes as a C file: the texts of FILE.json, by their names.
BEGIN { print "#include \"cmd/recipes.h\"\n\nconst struct gt_cmd_recipe gt_cmd_recipes[] = {" }
FNR == 1 {
	if (count)
		print "\t},"
	name = FILENAME
	sub(/.*\//, "", name)
	sub(/\.json$/, "", name)
	names[count++] = name
	printf "\t{ \"%s\",\n", name
}
{
	gsub(/\\/, "\\\\")
	gsub(/"/, "\\\"")
	printf "\t  \"%s\\n\"\n", $0
}
END {
	print "\t},\n\t{ 0 },\n};\n\nconst char *const gt_cmd_recipe_names[] = {"
	for (i = 0; i < count; i++)
		printf "\t\"%s\",\n", names[i]
	print "\t0,\n};"
}
