/* test_data_mnist.c - idx files under all the names that they go by, and their classes. */
#include "tests/unit/data_fixture.h"

enum { MAX_FILES = 6, COUNT = 40 };

/* Images and labels of a data set, whose labels are 0, 1, ..., largest, 0, ... */
struct set {
	const char *images, *labels; /* .gz: compressed */
	int largest;
};

static void put(const struct fixture *f, const char *folder, const char *name, const uint8_t *bytes,
    size_t size)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (strlen(name) > 3 && !strcmp(name + strlen(name) - 3, ".gz"))
		put_gz(f, path, bytes, size);
	else
		put_bytes(f, path, bytes, size);
}

/* The number of samples tells data sets apart. */
static void put_set(const struct fixture *f, const char *folder, const struct set *set, int count)
{
	uint8_t bytes[2048];
	size_t size;

	put(f, folder, set->images, bytes, make_idx(bytes, count, 4));
	size = make_idx(bytes, count, 0);
	for (int i = 0; i < count; i++)
		bytes[8 + i] = (uint8_t)(i % (set->largest + 1));
	put(f, folder, set->labels, bytes, size);
}

#define PLAIN(part, largest)                                                                       \
	{                                                                                          \
		part "-images-idx3-ubyte", part "-labels-idx1-ubyte", largest                      \
	}

/* Each data set has one sample more than the one before it; the first has COUNT. */
static void test_names(void **state)
{
	static const struct {
		struct set sets[MAX_FILES];
		const char *options;
		bool held_out;
		int read, classes; /* which of the sets is read, from 0; -1: an error */
		const char *says;  /* the line about the split, or the error */
	} cases[] = {
		{ { PLAIN("train", 9), PLAIN("t10k", 9) }, "", false, 0, 10, "split=train" },
		{ { PLAIN("train", 9), PLAIN("t10k", 9) }, "", true, 1, 10, "split=test" },
		{ { PLAIN("train", 9) }, "", true, 0, 10, "split=train" },
		{ { PLAIN("train", 3) }, "", false, 0, 10, "split=train" },
		{ { PLAIN("train", 25) }, "", false, 0, 26, "split=train" },
		{ { PLAIN("train", 38) }, ",split=train", false, 0, 39, NULL },
		{ { { "train-images.idx3-ubyte", "train-labels.idx1-ubyte", 9 },
		      { "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte", 9 } },
		    ",split=test", false, 1, 10, NULL },
		{ { { "train-images.idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", 9 } }, "", false,
		    0, 10, "split=train" },
		{ { { "train-images-idx3-ubyte/train-images-idx3-ubyte", "train-labels.idx1-ubyte",
		      9 } },
		    "", false, 0, 10, "split=train" },
		{ { PLAIN("raw/train", 9) }, "", false, 0, 10, "split=train" },
		{ { PLAIN("MNIST/raw/train", 9), PLAIN("MNIST/raw/t10k", 9) }, ",split=test", false,
		    1, 10, NULL },
		{ { PLAIN("FashionMNIST/raw/t10k", 9) }, "", true, 0, 10, "split=test" },
		{ { PLAIN("KMNIST/raw/train", 9), PLAIN("MNIST/raw/train", 9) }, "", false, -1, 0,
		    "has idx files in 'MNIST/raw' and in 'KMNIST/raw'" },
		{ { PLAIN("train", 9), PLAIN("MNIST/raw/train", 9) }, "", false, 0, 10,
		    "split=train" },
		{ { PLAIN("EMNIST/raw/emnist-letters-train", 26),
		      PLAIN("EMNIST/raw/emnist-letters-test", 26),
		      PLAIN("EMNIST/raw/emnist-digits-train", 9) },
		    ",subset=letters,split=test", false, 1, 27, NULL },
		{ { PLAIN("emnist-letters-train", 26) }, "", false, 0, 27, "split=train" },
		{ { PLAIN("emnist-letters-train", 26), PLAIN("train", 9) }, "", false, 1, 10,
		    "split=train" },
		{ { PLAIN("emnist-letters-train", 26), PLAIN("train", 9) },
		    ",subset=emnist-letters", false, 0, 27, "split=train" },
		{ { PLAIN("emnist-letters-train", 26), PLAIN("emnist-digits-train", 9) }, "", false,
		    -1, 0, "has several data sets" },
		{ { PLAIN("emnist-letters-train", 26) }, ",subset=let", false, -1, 0,
		    "has no idx files of a subset 'let'" },
		{ { PLAIN("train", 9) }, ",subset=letters", false, -1, 0,
		    "has no idx files of a subset 'letters'" },
		{ { PLAIN("mytrain", 9) }, "", false, -1, 0, "No such file" },
	};
	struct fixture f;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gt_data_request request = { .held_out = cases[i].held_out };
		struct gt_err err = GT_ERR_INIT;
		const struct gt_data_info *info;
		struct gt_dataset *data;
		char folder[20], spec[400];
		const char *says;
		int rc;

		snprintf(folder, sizeof(folder), "c%zu", i);
		for (int k = 0; k < MAX_FILES && cases[i].sets[k].images; k++)
			put_set(&f, folder, &cases[i].sets[k], COUNT + k);
		snprintf(spec, sizeof(spec), "mnist:%s/%s%s", f.folder, folder, cases[i].options);
		rc = gt_dataset_open(&data, spec, &request, &err);
		info = rc ? NULL : gt_dataset_info(data);
		says = rc ? err.text : info->interpretation;
		if (!rc != (cases[i].read >= 0) || !says != !cases[i].says ||
		    (says && !strstr(says, cases[i].says)) ||
		    (!rc && (info->samples != COUNT + cases[i].read ||
		                info->form.classes != cases[i].classes)))
			fail_msg("case %zu: code %d, %s", i, rc, says ? says : "no line");
		gt_dataset_close(data);
	}
	fixture_close(&f);
}

/* Two data sets of one folder are different files. */
static void test_same_files(void **state)
{
	static const struct set sets[] = { PLAIN("EMNIST/raw/emnist-letters-train", 26),
		PLAIN("EMNIST/raw/emnist-digits-train", 9) };
	static const char *const others[] = { ",subset=letters", ",subset=digits" };
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_set(&f, "e", &sets[0], 20);
	put_set(&f, "e", &sets[1], 20);
	for (int i = 0; i < 2; i++) {
		struct gt_dataset *a = open_data("mnist", in(&f, "e"), ",subset=letters", NULL);
		struct gt_dataset *b =
		    open_data("mnist", in(&f, i ? "e" : "e/EMNIST/raw"), others[i], NULL);

		assert_int_equal(gt_dataset_same_files(a, b), !i);
		gt_dataset_close(a);
		gt_dataset_close(b);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_same_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
