/* sign.h - sign the files of a model, and check files against a signature. */
#ifndef GT_CKPT_SIGN_SIGN_H
#define GT_CKPT_SIGN_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/mem.h"
#include "lib/base/progress.h"

/*
 * Signatures have the format of OpenSSF's model-signing v1.0, method "key": a list of files with
 * their SHA-256, as a statement of in-toto, in an envelope of DSSE that an ECDSA key has signed, in
 * a bundle of Sigstore as JSON. The key's curve is P-256, P-384 or P-521. Files are in PEM or DER.
 *
 * A model is a file, or a folder with all files below it. A folder's list leaves out the ignored
 * paths, which the signature names: the signature itself, .git, .github, .gitattributes and
 * .gitignore, and those of the caller.
 */

enum { GT_SIGN_HEX = 65 }; /* a SHA-256 as hexadecimal digits, with the zero byte */

/* What signed: facts for the user. */
struct gt_sign_facts {
	const char *curve;     /* "P-256"; borrowed from a table */
	char key[GT_SIGN_HEX]; /* SHA-256 of the public key's PEM, which names the key */
	size_t files;          /* files of the model, without ignored ones */
	uint64_t bytes;        /* in these files */
};

struct gt_sign_options {
	const char *path;          /* the model */
	const char *key;           /* file with the private key */
	const char *output;        /* the signature */
	const char *const *ignore; /* [ignore_count] paths below the model's folder to leave out */
	size_t ignore_count;
	bool symlinks;  /* sign the targets of symbolic links to files; else a link is an error */
	size_t threads; /* that read files; 0: one per processor, at most 16 */
	struct gt_progress *progress; /* or NULL */
};

/* Sign a model, and write the signature. Errors: GT_EINVAL, also if `output` is a file that is no
 * signature; GT_EIO; GT_EFORMAT for a damaged key, and for links and files that cannot be signed;
 * GT_ENOTSUP for another kind of key. */
int gt_sign(struct gt_sign_facts *out, const struct gt_sign_options *options, struct gt_err *err);

enum gt_sign_kind {
	GT_SIGN_CHANGED, /* the file has other bytes */
	GT_SIGN_MISSING, /* there is no such file */
	GT_SIGN_ADDED,   /* the signature does not name the file */
	GT_SIGN_MOVED    /* the file has another name now */
};

/* A difference between the files and the signature. */
struct gt_sign_difference {
	enum gt_sign_kind kind;
	/* the file, relative to the model; "." is the model if it is one file. A signature by parts
	 * of files has NAME:START:END. */
	const char *name;
	const char *now; /* moved: the present name */
};

struct gt_sign_check {
	struct gt_sign_facts facts;
	const char *model;                      /* name of the model when it was signed */
	struct gt_sign_difference *differences; /* [count], by name; none: all is as signed */
	size_t count;
	/* [left_count] ignored paths and links to folders that are there, by name: nobody has
	 * signed them */
	const char **left_out;
	size_t left_count;
	struct gt_arena arena; /* memory of all of it */
};

struct gt_sign_check_options {
	const char *path;      /* the model */
	const char *signature; /* file */
	const char *key;       /* file with the public key */
	size_t threads;
	struct gt_progress *progress;
};

/*
 * Check a model against a signature. Differences are no errors. Symbolic links are followed if they
 * were when the model was signed. Release *out also after an error. Errors: GT_EFORMAT if another
 * key signed, the signature was changed, or a file is damaged; GT_ENOTSUP for other methods,
 * such as certificates; GT_EIO, GT_ENOMEM.
 */
int gt_sign_check(
    struct gt_sign_check *out, const struct gt_sign_check_options *options, struct gt_err *err);
void gt_sign_check_release(struct gt_sign_check *check);

#endif
