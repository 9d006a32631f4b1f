/* op_table.h - cases of every op, and a graph of one op, for all tests of ops. */
#ifndef GT_TESTS_COMMON_OP_TABLE_H
#define GT_TESTS_COMMON_OP_TABLE_H

#include "lib/graph/plan.h"

/*
 * The role of a case's input, and the numbers in it. All are functions of the case's label and the
 * input's place.
 */
enum op_arg_kind {
	ARG_NONE,    /* an optional input left out */
	ARG_REAL,    /* a parameter, N(0, 1): differentiated */
	ARG_APART,   /* a parameter whose elements are 1/8 apart, none near 0: for ops with kinks */
	ARG_FIXED,   /* an input, N(0, 1), no gradient asked */
	ARG_RUNNING, /* a buffer, N(0, 1): running means */
	ARG_POSITIVE, /* a buffer in (0.5, 1.5): running variances */
	ARG_COUNTER,  /* a buffer, int64 */
	ARG_SUMS,    /* float64 in any case, last dimension 1 + 2 C: a count, N(0, 1), above half of
	             the count */
	ARG_DOUBLE,  /* float64 in any case, an input in (0.5, 4.5) */
	ARG_IDS,     /* int32 below `limit` */
	ARG_TARGETS, /* likewise, every fifth -100 */
	ARG_MIXED,   /* int32 [rows, 3]: two such classes, and the bits of a weight in [0, 1) */
	ARG_PAST,    /* int32 scalar: `limit` */
	ARG_BYTES,   /* uint8 */
	ARG_BLOCKS,  /* uint8: blocks of `limit` bytes, whose float16 scale is from 0 to below 2 */
	ARG_RNG      /* int64 [4]: seed, step, first, stride */
};

struct op_arg {
	enum op_arg_kind kind;
	int ndim;
	int64_t shape[GT_MAX_DIMS];
	int limit;
};

struct op_case {
	const char *op, *label;
	union gt_attrs attrs;
	struct op_arg in[GT_MAX_INPUTS];
	/* Not NULL: emits the nodes of the case in place of one node with the attributes. */
	struct gt_value *(*build)(struct gt_graph *g, struct gt_value *const *in);
};

/* Ended by a row whose op is NULL. */
extern const struct op_case op_cases[];

/* How far float32 may be from float64, of the largest element of a tensor, and why. */
struct op_tolerance {
	const char *op;
	double f32;
	const char *reason;
};

extern const struct op_tolerance op_tolerances[];

const struct gt_op *op_of(const struct op_case *c);
double op_tolerance_f32(const char *op);
/* The same for float32 or a type of 16 bits, whose inputs are those numbers rounded. */
double op_tolerance(const char *op, enum gt_dtype dtype);
/* Whether the case asks for gradients. */
bool op_case_differentiates(const struct op_case *c);

enum op_run_flags {
	OP_RUN_THROUGH_COPY =
	    1,                /* parameters pass through `copy`, so that the op may work in place */
	OP_RUN_ACCUMULATE = 2 /* gradients add up over runs */
};

/*
 * A case as a graph that ran through the passes and has a plan bound to memory. Where it
 * differentiates, the loss is out[0] times a random vector ("projection"). In a type of 16 bits,
 * parameters and buffers are float32 as in any store; data is cast before the op, and vectors of
 * normalisations stay as they are.
 */
struct op_run {
	const struct op_case *c;
	enum gt_dtype dtype;
	struct gt_graph *graph;
	struct gt_store *store;
	struct gt_plan *plan;
	void *arena;
	struct gt_value *in[GT_MAX_INPUTS];
	double *host[GT_MAX_INPUTS]; /* values of in[], row-major, of the type or float32 */
	struct gt_value *projection;
	double *projection_host;
	int outputs; /* out0, out1, ... are outputs of the graph where they are floating point */
};

int op_run_open(struct op_run *r, const struct op_case *c, enum gt_dtype dtype, unsigned flags,
    struct gt_err *err);
void op_run_close(struct op_run *r);

/* Round everything in host[] to a type of 16 bits, as a run of that type has it. */
void op_run_round(struct op_run *r, enum gt_dtype dtype);

/* Hand over everything in host[] and run. */
int op_run_go(struct op_run *r, struct gt_err *err);

/* A value that the host may read, as doubles; yours to free(). NULL: none has that name. */
double *op_run_output(struct op_run *r, const char *name, int64_t *count);
/* The gradient of input i; yours to free(). */
double *op_run_gradient(struct op_run *r, int i, int64_t *count);

#endif
