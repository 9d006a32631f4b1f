/* zip_layout.h - inside ckpt: what every byte of a zip archive is for, and which are dead. */
#ifndef GT_CKPT_ZIP_LAYOUT_H
#define GT_CKPT_ZIP_LAYOUT_H

#include "lib/ckpt/zip.h"

/* A record where it lies: its local header, which repeats the directory's entry, and its bytes. */
struct gt_zip_place {
	const struct gt_zip_record *record;
	uint64_t start, data,
	    end;         /* of the header; of the bytes; behind them and their descriptor */
	char wrong[160]; /* how the header disagrees with the directory; "": it does not */
};

/*
 * Look at the local header of a record. GT_EFORMAT where there is none or the record goes past the
 * end of the file; disagreement is no error, it goes to place->wrong.
 */
int gt_zip_look(const struct gt_zip *zip, const struct gt_zip_record *record,
    struct gt_zip_place *place, struct gt_err *err);

/*
 * Bytes of the file that nothing refers to: what edits in place have left behind. Gaps of less than
 * an alignment between records count too. Errors: as gt_zip_look(), GT_ENOMEM.
 */
int gt_zip_dead_bytes(const struct gt_zip *zip, uint64_t *out, struct gt_err *err);

/*
 * Where the file would have to be cut to be the archive that it was before something was appended:
 * the last end record before byte *below (at most `reach` bytes before) whose directory can be
 * read. *below gets where it stands, to go on from there. False when there is none. Records are not
 * checked.
 */
bool gt_zip_earlier(
    const struct gt_mapping *map, uint64_t *below, uint64_t reach, uint64_t *out_size);

/* To an error of opening a damaged archive add the hint that it can be mended, if an earlier state
 * of it stands in its last 16 MiB. Returns err->code. */
int gt_zip_hint_repair(const struct gt_mapping *map, struct gt_err *err);

#endif
