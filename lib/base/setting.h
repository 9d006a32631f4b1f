/* setting.h - describe a setting (key=value) of a model, a kind of data or an augmentation. */
#ifndef GT_BASE_SETTING_H
#define GT_BASE_SETTING_H

/* A row of a table of settings, for the parser, the help and the completions. */
struct gt_setting {
	const char *key;     /* NULL: a value without a key, as in mlp:784,256,10 */
	const char *form;    /* form of the value, such as N or yes|no */
	const char *initial; /* the default as it would be typed, or in words */
	const char *help;    /* lower case, no full stop */
};

#endif
