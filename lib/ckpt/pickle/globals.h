/* globals.h - inside ckpt: which of the globals that a pickle names PyTorch itself would load. */
#ifndef GT_CKPT_PICKLE_GLOBALS_H
#define GT_CKPT_PICKLE_GLOBALS_H

/* How torch.load(weights_only=True) treats a global. */
enum gt_global_verdict {
	GT_GLOBAL_ALLOWED,  /* on its list */
	GT_GLOBAL_UNLISTED, /* refused there: a class of some model or library */
	GT_GLOBAL_DANGEROUS /* runs commands or code, opens files: no checkpoint needs it */
};

/* Of "module.name", Python 2's modules included ("__builtin__.set"). */
enum gt_global_verdict gt_global_classify(const char *name);

#endif
