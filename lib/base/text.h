/* text.h - parse and print numbers, sizes and times. */
#ifndef GT_BASE_TEXT_H
#define GT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Parse a decimal number. The whole string must be the number. Return true, or false if the string
 * is empty, contains spaces or other text, is hexadecimal, "inf" or "nan", or is out of range. *out
 * is unchanged if the result is false.
 */
bool gt_text_parse_int(int64_t *out, const char *s);
bool gt_text_parse_double(double *out, const char *s);

/* Parse a size, such as "4096", "64K" or "1.5G", to bytes. The units K, M and G, upper or lower
 * case, are powers of 1024. Return false for a negative size, for a fraction of a byte, for 2^63
 * bytes or more, and for wrong text; *out_bytes is then unchanged. */
bool gt_text_parse_size(int64_t *out_bytes, const char *s);

/* Parse a duration, such as "90", "90s", "1.5m" or "2h", to seconds. Return false for a negative
 * duration and for wrong text. */
bool gt_text_parse_duration(double *out_seconds, const char *s);

/* The buffer of the printing functions, which return it, so that calls can be arguments of
 * printf(). */
enum { GT_TEXT_SIZE = 32 };

/* Print a number of bytes as "512 B", "1.5 KiB" or "25 MiB". The unit is a power of 1024. The
 * number has at most three digits (four below 1 KiB), and a fraction has no zeros at its end. */
char *gt_text_bytes(char out[GT_TEXT_SIZE], uint64_t bytes);

/* Print a count as "999", "17.2k", "1.25M" or "124M". The unit is a power of 1000. The number has
 * at most three digits, and a fraction has no zeros at its end. */
char *gt_text_count(char out[GT_TEXT_SIZE], double count);

/* Return `value`, but remove the sign of a NaN. The sign of a NaN has no meaning, but printf()
 * prints it ("-nan"). Call this function for the arguments of printf(). */
double gt_text_real(double value);

/* Print a number with 15 significant digits, or with 16 or 17 if strtod() needs them to return the
 * same double. Zeros at the end are left out: "-7", "0.1", "1700000000.5". */
char *gt_text_number(char out[GT_TEXT_SIZE], double value);

/* Print a duration, in whole seconds, as "0:21", "12:05", "1:02:03" or "2d 03:04:05". A negative
 * number, a NaN or more than 1e12 seconds mean that the duration is unknown, and are printed as
 * "-:--". */
char *gt_text_duration(char out[GT_TEXT_SIZE], double seconds);

/* Return whether `s` ends with `ending`. */
bool gt_text_ends_with(const char *s, const char *ending);

/* Decode the UTF-8 code point that begins at `p`, and write it to *code. `left` is the number of
 * bytes that can be read at `p`; it must not be 0. Return the length of the code point in bytes, or
 * 0 if the bytes are not valid UTF-8. Surrogates and overlong forms are not valid. */
int gt_text_utf8(const unsigned char *p, size_t left, uint32_t *code);

/* Encode a code point as UTF-8, and return its length in bytes, at most 4. Only these bytes of
 * `out` are written. A surrogate is encoded, too (gt_text_is_surrogate()). */
int gt_text_put_utf8(unsigned char *out, uint32_t code);

/* Return whether more bytes could make these a code point. `size` must not be 0. */
bool gt_text_utf8_is_begun(const unsigned char *p, size_t size);

/* If the bytes at `p` do not begin with a valid code point, return how many of them count as one
 * damaged character: as many as could have become a code point, and at least one. Source: The
 * Unicode Standard, D93b. */
size_t gt_text_utf8_damaged(const unsigned char *p, size_t left);

/* Return the number of bytes at the start of `bytes` that are valid UTF-8. The result is `size` if
 * all bytes are valid. */
size_t gt_text_utf8_bytes(const void *bytes, size_t size);

/* Return whether there are bytes, and no control characters but tabs, line ends and form feeds. */
bool gt_text_is_plain(const void *bytes, size_t size);

/* Return whether a string is valid UTF-8. */
bool gt_text_is_utf8(const char *s);

/* Return whether the first 3 bytes are a surrogate, U+D800 to U+DFFF, encoded in the way of UTF-8.
 * A string in Python may contain single surrogates. Python's pickles encode them in this form (the
 * error handler 'surrogatepass'). */
bool gt_text_is_surrogate(const void *bytes, size_t size);

#endif
