/* option_names.h - names of options in messages. */
#ifndef GT_BASE_OPTION_NAMES_H
#define GT_BASE_OPTION_NAMES_H

#include <stdarg.h>
#include <stddef.h>

/*
 * The library's options are members of structs; a program shows them to its users in its own way,
 * for instance as `--batch`. Formats of gt_err_set(), gt_log_warn() and the functions beside them
 * therefore have names of options in braces:
 *
 *	gt_err_set(err, GT_EINVAL, "{chunks}: %d do not divide {batch} %d", chunks, batch);
 *
 * In the resulting text, GT_OPTION_MARK stands before each name. Terminals do not show this control
 * character: unrendered, the text reads "chunks: 3 do not divide batch 8". A program with a command
 * line shows gt_option_names_render(..., "--"): "--chunks: 3 do not divide --batch 8".
 *
 * A name in braces consists of lower-case letters, digits and hyphens, or is "%s". All other
 * braces, and braces in arguments, are ordinary text. A resulting text may be the argument of
 * another format.
 */
#define GT_OPTION_MARK '\x1f'

/* As vsnprintf(), with names of options. Formats have at most 1023 characters. */
void gt_option_names_vformat(char *out, size_t size, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* Write `text` with `before` in front of each name; cut off where out[size] is too small. */
void gt_option_names_render(char *out, size_t size, const char *text, const char *before);

#endif
