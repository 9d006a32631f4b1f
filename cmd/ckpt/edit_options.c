/* edit_options.c - what the commands that edit a checkpoint are told. */
#include "cmd/ckpt/edit.h"

#define AT(member) GT_OPT_FIELD(struct gt_ckpt_edit_cli, member)

/* clang-format off */

/* What they share, behind their own option. */
#define WHERE_TO \
	{ .type = GT_OPT_HEADING, .help = "Where the result goes" }, \
	{ "output", 'o', GT_OPT_STRING, AT(output), "OUT", "write a new file", \
	    .complete = GT_COMPLETE_FILE, .excludes = "in-place" }, \
	{ "in-place", 0, GT_OPT_FLAG, AT(in_place), \
	    .help = "change the file where it lies; only metadata is written", \
	    .excludes = "output" }, \
	{ "dry-run", 0, GT_OPT_FLAG, AT(dry_run), \
	    .help = "print the changes and write nothing" }, \
	{ "sync", 0, GT_OPT_YESNO, AT(sync), .initial = "yes", \
	    .help = "no: do not wait until the result is on the disk" }, \
	\
	GT_CMD_COMMON(struct gt_ckpt_edit_cli), \
	{ 0 }

static const struct gt_opt strip_module[] = {
	{ .type = GT_OPT_HEADING, .help = "What to change" },
	{ "prefix", 0, GT_OPT_LIST, AT(words), "PREFIX",
	    "take off this instead; may be given several times",
	    .otherwise = "module. and _orig_mod., in any order" },
	WHERE_TO
};

static const struct gt_opt add_module[] = {
	{ .type = GT_OPT_HEADING, .help = "What to change" },
	{ "prefix", 0, GT_OPT_LIST, AT(words), "PREFIX", "put this before the names",
	    .otherwise = "module." },
	WHERE_TO
};

static const struct gt_opt rename_table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to change" },
	{ "map", 0, GT_OPT_LIST, AT(words), "REGEX=REPLACEMENT",
	    "rename what matches; may be given several times", .flags = GT_OPT_REQUIRED },
	WHERE_TO
};

static const struct gt_opt remap[] = {
	{ .type = GT_OPT_HEADING, .help = "What to change" },
	{ "map", 0, GT_OPT_LIST, AT(words), "FROM=TO",
	    "devices, as in cuda:*=cpu; may be given several times", .flags = GT_OPT_REQUIRED },
	WHERE_TO
};
/* clang-format on */

const struct gt_opt *gt_cmd_ckpt_strip_module_options(void)
{
	return strip_module;
}

const struct gt_opt *gt_cmd_ckpt_add_module_options(void)
{
	return add_module;
}

const struct gt_opt *gt_cmd_ckpt_rename_options(void)
{
	return rename_table;
}

const struct gt_opt *gt_cmd_ckpt_remap_options(void)
{
	return remap;
}
