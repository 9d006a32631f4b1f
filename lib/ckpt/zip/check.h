/* check.h - inside ckpt: the checks of gt_zip_read() on local headers and places of records. */
#ifndef GT_CKPT_ZIP_CHECK_H
#define GT_CKPT_ZIP_CHECK_H

#include "lib/ckpt/zip/zip.h"

/* Check the name of the directory entry at byte `at`: a plain path. */
int gt_zip_check_name(const char *name, size_t length, size_t at, struct gt_err *err);

/* Compare each record's local header with the directory, set where its bytes are, and check that
 * records overlap neither each other nor the directory. */
int gt_zip_check_places(struct gt_zip *zip, struct gt_err *err);

#endif
