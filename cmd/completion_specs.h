/* completion_specs.h - print shell code that completes the values of --model, --data, --augment. */
#ifndef GT_CMD_COMPLETION_SPECS_H
#define GT_CMD_COMPLETION_SPECS_H

#include <stdio.h>

#include "cmd/cmd.h"

/*
 * Print the shell functions that complete the value of --model, --data or --augment, such as
 * "gpt:layers=4,bias=no". They complete names (gpt), settings (layers), the values of settings (no)
 * and, for --data, the path. The functions are a part of the completion script
 * (gt_cmd_print_completion()).
 *
 * The shell functions are called `_gtrain_spec LIST TYPED` in bash, `_gtrain_LIST` in zsh and
 * `__gtrain_spec LIST` in fish. LIST is model, data or augment. TYPED is the part of the value that
 * the user has typed so far.
 */
void gt_cmd_print_spec_functions(FILE *f, enum gt_shell shell);

#endif
