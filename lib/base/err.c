/* err.c - errors as values. */
#include "lib/base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/option_names.h"

int gt_err_set(struct gt_err *err, int code, const char *format, ...)
{
	va_list ap;

	assert(err);
	err->code = code;
	err->hint[0] = '\0';
	err->follows = err->device_memory = err->mismatch = err->lasting = false;
	err->lost = 0;
	va_start(ap, format);
	gt_option_names_vformat(err->text, sizeof(err->text), format, ap);
	va_end(ap);
	return code;
}

/* Return a hint for an errno that has one cause, or "". */
static const char *hint_of(int error)
{
	switch (error) {
	case ENOENT:
	case ENOTDIR:
	case EACCES:
	case EROFS:
	case EISDIR:
	case ELOOP:
	case ENAMETOOLONG:
		return "check the path and the permissions";
	case EMFILE:
		return "this process has too many files open: see `ulimit -n`";
	case ENFILE:
		return "the system has too many files open: close other programs";
	case EFBIG:
		return "the file would be too large: see `ulimit -f` and the file system's limit";
	case ENOSPC:
		return "the file system is full: see `df` for bytes, `df -i` for files";
	case EDQUOT:
		return "your disk quota is used up: `quota` shows it";
	case EIO:
		return "the disk may be failing: see the system's log";
	default:
		return "";
	}
}

int gt_err_sys(struct gt_err *err, const char *format, ...)
{
	int saved = errno;
	va_list ap;
	size_t used;

	assert(err);
	err->code = saved == ENOMEM ? GT_ENOMEM : GT_EIO;
	snprintf(err->hint, sizeof(err->hint), "%s", hint_of(saved));
	err->follows = err->device_memory = err->mismatch = false;
	err->lost = 0;
	err->lasting = saved == ENOSPC || saved == EDQUOT || saved == EFBIG || saved == EROFS;
	va_start(ap, format);
	gt_option_names_vformat(err->text, sizeof(err->text), format, ap);
	va_end(ap);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s", strerror(saved));
	return err->code;
}

int gt_err_hint(struct gt_err *err, const char *format, ...)
{
	va_list ap;

	assert(err);
	va_start(ap, format);
	gt_option_names_vformat(err->hint, sizeof(err->hint), format, ap);
	va_end(ap);
	return err->code;
}

int gt_err_follow(struct gt_err *err)
{
	assert(err);
	err->follows = true;
	return err->code;
}

int gt_err_prefix(struct gt_err *err, const char *format, ...)
{
	char old[sizeof(err->text)];
	va_list ap;
	size_t used;

	assert(err);
	memcpy(old, err->text, sizeof(old));
	va_start(ap, format);
	gt_option_names_vformat(err->text, sizeof(err->text), format, ap);
	va_end(ap);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s", old);
	return err->code;
}
