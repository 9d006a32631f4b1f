/* test_naming.c - the prefix that all names of a checkpoint have, and the model has not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <string.h>

#include "lib/train/checkpoint/naming.h"

/* The names of the model, ended by NULL. */
static bool knows(void *self, const char *name)
{
	const char *const *model = self;

	while (*model && strcmp(*model, name))
		model++;
	return *model;
}

#define LONG "a23456789_123456789_123456789_123456789_123456789_123456789_"

static const struct {
	const char *names[5];
	const char *map; /* of the user */
	const char *prefix, *rule;
} cases[] = {
	{ { "0.weight", "0.bias" }, NULL, "", NULL },
	{ { "net.0.weight", "net.0.bias" }, NULL, "net.", "^net\\.=" },
	{ { "a.b.0.weight", "a.b.0.bias" }, NULL, "a.b.", "^a\\.b\\.=" },
	/* The model knows one of them, and the others are errors of the file. */
	{ { "net.0.weight", "net.1.weight" }, NULL, "net.", "^net\\.=" },
	{ { "0.weight", "0.other" }, NULL, "", NULL },
	/* Not all have the prefix, or the model knows none without it. */
	{ { "net.0.weight", "head.0.bias" }, NULL, "", NULL },
	{ { "net.0.weight", "0.bias" }, NULL, "", NULL },
	{ { "net.other" }, NULL, "", NULL },
	{ { "net.0.weightless" }, NULL, "", NULL },
	{ { "" }, NULL, "", NULL },
	{ { NULL }, NULL, "", NULL },
	{ { ".0.weight" }, NULL, "", NULL },
	{ { "net-1.0.weight" }, NULL, "", NULL },
	/* The rules of the user count alone. */
	{ { "net.0.weight", "net.0.bias" }, "^x=", "", "^x=" },
	{ { LONG ".0.weight" }, NULL, LONG ".", "^" LONG "\\.=" },
	{ { LONG "." LONG ".0.weight" }, NULL, "", NULL },
};

static void prefixes(void **state)
{
	static const char *model[] = { "0.weight", "0.bias", NULL };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *maps[] = { cases[i].map, NULL };
		struct gt_naming n;
		size_t count = 0;

		while (cases[i].names[count])
			count++;
		gt_naming_find(&n, maps, cases[i].names, count, knows, model);
		if (strcmp(n.prefix, cases[i].prefix) != 0)
			fail_msg("row %zu: prefix '%s'", i, n.prefix);
		if (!cases[i].rule != !n.maps || (n.maps && strcmp(n.maps[0], cases[i].rule) != 0))
			fail_msg("row %zu: rule '%s'", i, n.maps ? n.maps[0] : "none");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefixes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
