/* text.h - parse and print numbers, sizes and times. */
#ifndef GT_BASE_TEXT_H
#define GT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Parsing. All of `s` must be the value. Empty text, blanks, only a sign, hexadecimal, "inf", "nan"
 * and anything after the value return false, and so does overflow; *out is then unchanged.
 */
bool gt_text_parse_int(int64_t *out, const char *s);
bool gt_text_parse_double(double *out, const char *s);

/* "4096", "64K", "1.5G", in powers of 1024 (K, M, G, either case); never negative. False for a
 * fraction of a byte. */
bool gt_text_parse_size(int64_t *out_bytes, const char *s);

/* "90", "90s", "1.5m", "2h"; never negative. */
bool gt_text_parse_duration(double *out_seconds, const char *s);

/*
 * Printing. The functions write at most GT_TEXT_SIZE bytes, including the terminator, and return
 * `out`. So calls with different buffers can be arguments of one printf().
 */
enum { GT_TEXT_SIZE = 32 };

/* "512 B", "1.5 KiB", "25 MiB": three digits, powers of 1024. */
char *gt_text_bytes(char out[GT_TEXT_SIZE], uint64_t bytes);

/* "999", "17.2k", "1.25M", "124M": three digits, powers of 1000. */
char *gt_text_count(char out[GT_TEXT_SIZE], double count);

/*
 * A number for printf() that may not be finite: a NaN loses its sign, which has no meaning and
 * would be printed as "-nan".
 */
double gt_text_real(double value);

/* "0:21", "12:05", "1:02:03", "2d 03:04:05": whole seconds; "-:--" when unknown (negative or
 * NaN). */
char *gt_text_duration(char out[GT_TEXT_SIZE], double seconds);

/* Whether the last letters of `s` are `ending`. */
bool gt_text_ends_with(const char *s, const char *ending);

/* Decode one UTF-8 code point (strictly: no surrogates, nothing overlong) from `left` > 0 bytes;
 * returns its length, or 0 if the bytes are not UTF-8. */
int gt_text_utf8(const unsigned char *p, size_t left, uint32_t *code);

/* The number of bytes at the start that are valid UTF-8; it is `size` if all are. */
size_t gt_text_utf8_bytes(const void *bytes, size_t size);
bool gt_text_is_utf8(const char *s);

/* Whether the first 3 bytes encode a surrogate, U+D800 to U+DFFF, in the manner of UTF-8. Python's
 * strings may contain single surrogates, which its pickles encode like this ('surrogatepass'). */
bool gt_text_is_surrogate(const void *bytes, size_t size);

#endif
