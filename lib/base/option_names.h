/* option_names.h - names of options in messages: marked by the library, shown by the program. */
#ifndef GT_BASE_OPTION_NAMES_H
#define GT_BASE_OPTION_NAMES_H

#include <stdarg.h>
#include <stddef.h>

/*
 * The library knows options as members of structs, and programs show them in their own way. So
 * formats for err.h and log.h have names in braces:
 *
 *         gt_err_set(err, GT_EINVAL, "{chunks}: %d do not divide {batch} %d", chunks, batch);
 *
 * In the text, the braces become the control character GT_OPTION_MARK before the name, which
 * terminals do not show. The program gtrain replaces it by "--". A name has lower-case letters,
 * digits and hyphens, or is "%s". Other braces are text.
 */
#define GT_OPTION_MARK '\x1f'

/* Format like vsnprintf(), with marks. `format` has at most 1023 characters. */
void gt_option_names_vformat(char *out, size_t size, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* Copy a text with `prefix` in place of marks. A longer text is cut off. */
void gt_option_names_render(char *out, size_t size, const char *text, const char *prefix);

#endif
