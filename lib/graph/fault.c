/* fault.c - the words for faults that kernels find in their data. */
#include "lib/graph/fault.h"

static int set_text(struct gt_err *err, enum gt_fault_kind kind, const long long *v)
{
	switch (kind) {
	case GT_FAULT_ID:
		return gt_err_set(err, GT_EFORMAT,
		    "embedding: id %lld at [%lld, %lld] is outside the table of %lld rows", v[0],
		    v[1], v[2], v[3]);
	case GT_FAULT_POSITIONS:
		return gt_err_set(err, GT_EFORMAT,
		    "embedding: %lld tokens behind %lld others are more than %lld positions", v[0],
		    v[1], v[2]);
	case GT_FAULT_CACHE:
		return gt_err_set(err, GT_EFORMAT,
		    "attention: %lld tokens behind %lld others do not fit into a cache of %lld",
		    v[0], v[1], v[2]);
	case GT_FAULT_TARGET:
		return gt_err_set(err, GT_EFORMAT,
		    "cross_entropy: target %lld of row %lld is not one of %lld classes", v[0], v[1],
		    v[2]);
	case GT_FAULT_INDEX:
		return gt_err_set(err, GT_EFORMAT,
		    "index %lld of row %lld is outside of its %lld elements", v[0], v[1], v[2]);
	case GT_FAULT_GROUP:
		return gt_err_set(err, GT_EFORMAT,
		    "grouped_matmul: group %lld ends at row %lld, behind the end %lld of the group "
		    "before it and %lld rows",
		    v[1], v[0], v[2], v[3]);
	}
	return gt_err_set(err, GT_EFORMAT, "a kernel found a fault of unknown kind %d", (int)kind);
}

int gt_fault_set(struct gt_err *err, const struct gt_fault *fault)
{
	long long v[GT_FAULT_VALUES];

	for (int i = 0; i < GT_FAULT_VALUES; i++)
		v[i] = fault->values[i];
	set_text(err, fault->kind, v);
	if (fault->kind == GT_FAULT_ID)
		gt_err_hint(
		    err, "ids are numbered from 0; a larger table or vocabulary has more of them");
	if (fault->kind == GT_FAULT_TARGET)
		gt_err_hint(err, "the data has more classes or tokens than the model");
	return err->code;
}
