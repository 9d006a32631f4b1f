/* sizes.h - private: sizes of tensors that are not numbers yet: "s77", "64*s77". */
#ifndef GT_MODEL_IMPORT_SIZES_H
#define GT_MODEL_IMPORT_SIZES_H

#include <stdbool.h>
#include <stdint.h>

enum { GT_MAX_SYMBOLS = 32 };

/* The numbers that stand for the symbols of a network, in one graph. */
struct gt_symbols {
	struct gt_symbol {
		const char *name; /* such as "s77", with `length` bytes; borrowed */
		int length;
		int64_t value;
	} symbols[GT_MAX_SYMBOLS];
	int count;
};

/*
 * Give a symbol its number. `expression` must be a symbol alone, such as
 *
 *   Symbol('s77', positive=True, integer=True)
 *
 * Return false if it is anything else, if the symbol has another number already, or if there are
 * too many symbols.
 */
bool gt_symbols_set(struct gt_symbols *s, const char *expression, int64_t value);

/*
 * Compute an expression in the form of sympy's srepr(), such as
 *
 *   Mul(Integer(64), Symbol('s77', positive=True, integer=True))
 *
 * Return false for a symbol without a number, a function that is not known, text that is no such
 * expression, a division by 0, and a result beyond 64 bits.
 */
bool gt_symbols_compute(const struct gt_symbols *s, const char *expression, int64_t *out);

#endif
