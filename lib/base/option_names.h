/* option_names.h - names of options in messages: marked by the library, shown by the program. */
#ifndef GT_BASE_OPTION_NAMES_H
#define GT_BASE_OPTION_NAMES_H

#include <stdarg.h>
#include <stddef.h>

/*
 * In the library, options are members of structs. Each program shows them to its users in its own
 * way, for example as `--batch`. So in formats of the functions in err.h and log.h, names of
 * options are in braces:
 *
 *	gt_err_set(err, GT_EINVAL, "{chunks}: %d do not divide {batch} %d", chunks, batch);
 *
 * In the formatted text, the control character GT_OPTION_MARK is before each name, and the braces
 * are removed. A terminal does not show this character, so the user sees
 *
 *	chunks: 3 do not divide batch 8
 *
 * A program with a command line replaces each mark by "--" with gt_option_names_render(). The user
 * then sees
 *
 *	--chunks: 3 do not divide --batch 8
 *
 * A name consists of lower-case letters, digits and hyphens, or is "%s". All other braces in a
 * format, and all braces in its arguments, are ordinary text. If a formatted text is an argument of
 * another format, its marks stay in the text.
 */
#define GT_OPTION_MARK '\x1f'

/* Format like vsnprintf(), and mark the names of options. `format` has at most 1023 characters. */
void gt_option_names_vformat(char *out, size_t size, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* Copy `text` to `out`, and replace the mark before each name by `prefix`. `size` is the size of
 * `out` in bytes; a longer text is cut off. */
void gt_option_names_render(char *out, size_t size, const char *text, const char *prefix);

#endif
