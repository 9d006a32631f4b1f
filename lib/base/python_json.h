/* python_json.h - parse JSON as Python's json module writes it. */
#ifndef GT_BASE_PYTHON_JSON_H
#define GT_BASE_PYTHON_JSON_H

#include <jansson.h>
#include <stddef.h>

/*
 * Parse a JSON text like json_loadb(), but accept two kinds of values that json_loadb() refuses and
 * Python writes:
 *
 *   1000000000000000019884624838656  an integer that int64_t cannot hold becomes a real number
 *   NaN, Infinity, -Infinity         they become strings: "NaN", "Infinity" and "-Infinity"
 *
 * All other integers stay exact. A value of these two kinds does no harm if the caller does not use
 * its key. If the caller uses the key, it finds a value of the wrong type: a real number in place
 * of an integer, or a string in place of a number.
 *
 * `flags` are flags of json_loadb(), except JSON_DISABLE_EOF_CHECK. If the text has a value of
 * these two kinds, `error->position` and `error->column` may be too large; `error->line` is right.
 * Release the result with json_decref(). NULL with *error set on failure.
 * Source: Python's json module, "Standard Compliance and Interoperability".
 */
json_t *gt_python_json_loadb(const char *text, size_t size, size_t flags, json_error_t *error);

#endif
