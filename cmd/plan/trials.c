/* trials.c - layouts that were planned, each once, by several threads. */
#include "cmd/plan/trials.h"

#include <stdlib.h>

void gt_plan_trials_open(
    struct gt_plan_trials *trials, const struct gt_train *t, const struct gt_cluster *cluster)
{
	*trials = (struct gt_plan_trials){ .t = t, .cluster = cluster };
	pthread_mutex_init(&trials->lock, NULL);
}

static void free_trial(struct gt_plan_trial *trial)
{
	if (trial)
		gt_plan_layout_release(&trial->layout);
	free(trial);
}

void gt_plan_trials_close(struct gt_plan_trials *trials)
{
	for (size_t i = 0; i < trials->count; i++)
		free_trial(trials->list[i]);
	free(trials->list);
	pthread_mutex_destroy(&trials->lock);
}

static bool are_same(const struct gt_train_options *a, const struct gt_train_options *b)
{
	const struct gt_parallel_options *p = &a->parallel, *q = &b->parallel;

	return a->batch == b->batch && a->accumulate == b->accumulate &&
	       a->recompute == b->recompute && p->kind == q->kind && p->tensor == q->tensor &&
	       p->stages == q->stages && p->chunks == q->chunks;
}

static const struct gt_plan_trial *find_trial(
    struct gt_plan_trials *trials, const struct gt_train_options *o)
{
	const struct gt_plan_trial *found = NULL;

	pthread_mutex_lock(&trials->lock);
	for (size_t i = 0; i < trials->count && !found; i++)
		if (are_same(&trials->list[i]->layout.options, o))
			found = trials->list[i];
	pthread_mutex_unlock(&trials->lock);
	return found;
}

static int add_trial(struct gt_plan_trials *trials, struct gt_plan_trial *trial, struct gt_err *err)
{
	int rc;

	pthread_mutex_lock(&trials->lock);
	rc = gt_grow(&trials->list, trials->count, &trials->capacity, sizeof(*trials->list), err);
	if (!rc)
		trials->list[trials->count++] = trial;
	pthread_mutex_unlock(&trials->lock);
	return rc;
}

int gt_plan_try(const struct gt_plan_trial **out, struct gt_plan_trials *trials,
    const struct gt_train_options *options, size_t group, struct gt_err *err)
{
	struct gt_plan_trial *new;
	int rc;

	*out = find_trial(trials, options);
	if (*out)
		return 0;
	new = gt_calloc(1, sizeof(*new), err);
	if (!new)
		return GT_ENOMEM;
	new->group = group;
	new->why = (struct gt_err)GT_ERR_INIT;
	rc = gt_plan_layout(&new->layout, trials->t, options, trials->cluster, true, &new->why);
	if (rc == GT_ENOMEM)
		*err = new->why;
	else
		rc = add_trial(trials, new, err);
	if (rc)
		free_trial(new);
	else
		*out = new;
	return rc;
}

void gt_plan_each_trial(struct gt_plan_trials *trials,
    void (*note)(void *self, const struct gt_plan_trial *trial), void *self)
{
	pthread_mutex_lock(&trials->lock);
	for (size_t i = 0; i < trials->count; i++)
		note(self, trials->list[i]);
	pthread_mutex_unlock(&trials->lock);
}
