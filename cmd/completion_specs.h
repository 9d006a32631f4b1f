/* completion_specs.h - completion of the values of --model, --data and --augment. */
#ifndef GT_CMD_COMPLETION_SPECS_H
#define GT_CMD_COMPLETION_SPECS_H

#include <stdio.h>

#include "cmd/cmd.h"

/*
 * Print the functions of a shell's completion script that complete a model, a data set or a list of
 * augmentations. Their argument LIST is model, data or augment: in bash `_gtrain_spec LIST TYPED`,
 * in zsh `_gtrain_LIST`, in fish `__gtrain_spec LIST`. Names, settings and the values of settings
 * are completed, and the path of data.
 */
void gt_cmd_print_spec_functions(FILE *f, enum gt_shell shell);

#endif
