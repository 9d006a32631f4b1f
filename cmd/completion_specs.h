/* completion_specs.h - completion of the values of --model and --data. */
#ifndef GT_CMD_COMPLETION_SPECS_H
#define GT_CMD_COMPLETION_SPECS_H

#include <stdio.h>

#include "cmd/cmd.h"

/*
 * Print the functions of a shell's completion script that complete a model or a data set: in bash
 * `_gtrain_spec model|data TYPED`, in zsh `_gtrain_model` and `_gtrain_data`, in fish
 * `__gtrain_spec model|data`. Names, settings and the values of settings are completed, and the
 * path of data.
 */
void gt_cmd_print_spec_functions(FILE *f, enum gt_shell shell);

#endif
