/* pairs.h - private: pairs of texts, of which the first is the better one, and their loss. */
#ifndef GT_MODEL_PAIRS_H
#define GT_MODEL_PAIRS_H

#include "lib/graph/graph.h"
#include "lib/model/loss.h"

/*
 * Direct preference optimization (DPO) trains on pairs of answers to a prompt, a better one w and a
 * worse one l, and compares the model with the one that the run began with, the reference. With
 * log p(y) the sum of the log-probabilities of the tokens of an answer,
 *
 *   margin     log p(w) - log p(l)
 *   reference  the margin of the model that the run began with, a number of each sample
 *   score      beta * (margin - reference)
 *   loss       -(1 - e) log s(score) - e log s(-score)      with s(x) = 1 / (1 + exp(-x)),
 *                                                           e = label_smoothing
 *
 *   example    beta 0.1, log p: w -20, l -23; of the reference: w -22, l -22
 *              score = 0.1 * (3 - 0) = 0.3, loss = -log s(0.3) = 0.55; 0.69 at the beginning
 *
 * Both texts of a sample are rows of one batch, as in "concatenated forward" of other programs, so
 * every model can train on pairs.
 *
 * Source: Rafailov et al., arXiv 2305.18290; label smoothing: Mitchell, "A note on DPO with noisy
 * preferences", 2023.
 *
 * These functions return NULL if a value is NULL, after an error of the graph.
 */

/* Return the tokens of the input [batch, 2 * block + 1]: int32 [2 * batch, block]. The texts of a
 * sample follow each other. */
struct gt_value *gt_pairs_texts(
    struct gt_graph *g, const struct gt_sample_form *form, struct gt_value *input);

/* Return the margins float32 [batch] of logits [2 * batch, block, classes] and of the target int32
 * [batch, 2 * block], of which negative tokens do not count. */
struct gt_value *gt_pairs_margin(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target);

/* Return the scores float32 [batch]. */
struct gt_value *gt_pairs_scores(struct gt_graph *g, const struct gt_sample_form *form,
    const struct gt_loss *loss, struct gt_value *margin, struct gt_value *input);

/* Return the loss float32 []: its mean over the samples of a step, where `weight` is 1 / (words of
 * all their targets). */
struct gt_value *gt_pairs_loss(struct gt_graph *g, const struct gt_sample_form *form,
    const struct gt_loss *loss, struct gt_value *scores, struct gt_value *weight);

/* Return the statistics of regress_stats: a sample is a label that holds, so its loss is that
 * without label smoothing, and it is right if the score is above 0. */
struct gt_value *gt_pairs_stats(struct gt_graph *g, struct gt_value *scores);

#endif
