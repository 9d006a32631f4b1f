/* setting.h - a key=value pair that models and kinds of data take, described in a table. */
#ifndef GT_BASE_SETTING_H
#define GT_BASE_SETTING_H

/* One row. The parser, its hints, the manual and the completions all read it. */
struct gt_setting {
	const char *key;     /* NULL: the value stands alone, as in mlp:784,256,10 */
	const char *form;    /* form of the value: N, yes|no, a/b/c; choices are divided by | */
	const char *initial; /* the default, as it would be written, or in words */
	const char *help;    /* half a line: lower case, no full stop */
};

#endif
