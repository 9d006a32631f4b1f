/* verify_signature.c - gtrain ckpt verify --signature: print how files differ from signed ones. */
#include <inttypes.h>

#include "cmd/ckpt/verify.h"
#include "cmd/json_out.h"
#include "lib/base/text.h"

static const struct {
	const char *word, *text; /* `text` follows the name */
} kinds[] = {
	[GT_SIGN_CHANGED] = { "changed", "has other bytes than when it was signed" },
	[GT_SIGN_MISSING] = { "missing", "was signed, and is not there" },
	[GT_SIGN_ADDED] = { "added", "was not there when the model was signed" },
	[GT_SIGN_MOVED] = { "moved", "was signed, and is now" },
};

static void print_name(const char *name)
{
	putchar('\'');
	gt_log_put(stdout, name);
	putchar('\'');
}

static void print_text(const struct gt_sign_check *check, bool color)
{
	const struct gt_sign_facts *f = &check->facts;
	char bytes[GT_TEXT_SIZE];

	printf("signed by the %s key %.12s...: %zu file%s, %s\n", f->curve, f->key, f->files,
	    f->files == 1 ? "" : "s", gt_text_bytes(bytes, f->bytes));
	for (size_t i = 0; i < check->count; i++) {
		const struct gt_sign_difference *d = &check->differences[i];

		printf("%s%s:%s ", color ? "\033[31m" : "", kinds[d->kind].word,
		    color ? "\033[0m" : "");
		print_name(d->name);
		printf(" %s", kinds[d->kind].text);
		if (d->now) {
			putchar(' ');
			print_name(d->now);
		}
		putchar('\n');
	}
	for (size_t i = 0; i < check->left_count; i++) {
		fputs("not signed: ", stdout);
		print_name(check->left_out[i]);
		fputs(" is there, and the signature leaves it out\n", stdout);
	}
	if (!check->count)
		printf("all %sfiles are as they were signed\n", check->left_count ? "other " : "");
}

static void print_json(const struct gt_sign_check *check)
{
	const struct gt_sign_facts *f = &check->facts;

	printf("{\"ok\": %s, \"model\": ", check->count ? "false" : "true");
	gt_json_text(stdout, check->model);
	printf(", \"key\": \"%s\", \"curve\": \"%s\", \"files\": %zu, \"bytes\": %" PRIu64
	       ", \"differences\": [",
	    f->key, f->curve, f->files, f->bytes);
	for (size_t i = 0; i < check->count; i++) {
		const struct gt_sign_difference *d = &check->differences[i];

		printf(
		    "%s{\"kind\": \"%s\", \"name\": ", i ? ",\n  " : "\n  ", kinds[d->kind].word);
		gt_json_text(stdout, d->name);
		fputs(", \"now\": ", stdout);
		if (d->now)
			gt_json_text(stdout, d->now);
		else
			fputs("null", stdout);
		putchar('}');
	}
	fputs("], \"left_out\": [", stdout);
	for (size_t i = 0; i < check->left_count; i++) {
		fputs(i ? ", " : "", stdout);
		gt_json_text(stdout, check->left_out[i]);
	}
	fputs("]}\n", stdout);
}

int gt_ckpt_verify_signature(struct gt_cmd_env *env, const struct gt_sign_check_options *options,
    bool json, struct gt_err *err)
{
	struct gt_sign_check check;
	int rc = gt_sign_check(&check, options, err);

	if (!rc && json)
		print_json(&check);
	else if (!rc)
		print_text(&check, env->color);
	if (check.count)
		env->status = GT_EXIT_FAILED;
	gt_sign_check_release(&check);
	return rc;
}
