/* test_data_csv.c - tables: numbers far from 0, the place of the target, the first row. */
#include "lib/data/description.h"
#include "tests/unit/data_fixture.h"

/* ---- the first row ---- */

/* The number of samples tells whether the first of two rows is a header. */
static void the_first_row_names_columns(void **state)
{
	static const struct {
		const char *text;
		int samples;
	} cases[] = {
		{ "a,k\n1,x\n", 1 },
		{ "a,b,k\n1,2,x\n", 1 },
		{ "nano,k\n1,x\n", 1 },
		{ "info,k\n1,x\n", 1 },
		{ "1st,b,k\n1,2,x\n", 1 },
		{ ",b,k\n1,2,x\n", 1 },
		{ "NA,b,k\n1,2,x\n", 1 },
		{ "3,y\n1,x\n", 2 },
		{ "a,y\nb,x\n", 2 },
		{ "a,1,y\nb,2,x\n", 2 },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_dataset *data;

		put_text(&f, "t.csv", cases[i].text);
		data = open_data("csv", in(&f, "t.csv"), "", NULL);
		if (gt_dataset_info(data)->samples != cases[i].samples)
			fail_msg(
			    "%s: %d samples", cases[i].text, (int)gt_dataset_info(data)->samples);
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_row_names_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
