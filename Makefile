# gtrain - build, install; tests/tests.mk has the tests.  `make help` lists the targets; config.mak may set the knobs.

# Knobs ---------------------------------------------------------------------------------------
-include config.mak
PREFIX   ?= /usr/local
DESTDIR  ?=
SANITIZE ?=
OPT      ?= -O3 -g
WERROR   ?= -Werror
CFLAGS   ?=
CPPFLAGS ?=
LDFLAGS  ?=
PYTHON   ?= /usr/bin/python3
JOBS     ?= $(shell nproc 2>/dev/null || echo 1)
comma    := ,
hash     := \#
BUILD    ?= build$(if $(SANITIZE),/$(subst $(comma),-,$(SANITIZE)))

# gcc's OpenMP runtime is not built for the thread sanitizer: with two threads the sanitizer
# reports false races, or hangs. clang's tells the sanitizer of its barriers through libarcher, and stands
# in for gcc's where oneDNN calls that. So SANITIZE=thread means clang, unless CC says otherwise;
# then set OMP_NUM_THREADS=1.
ifeq ($(origin CC),default)
CC := $(if $(findstring thread,$(SANITIZE)),clang,cc)
endif

# The compiler of the simulator of CUDA, of the same family.
ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),clang++,c++)
endif

# Debian packages; a/b means that either will do ----------------------------------------------
DEPS_BUILD := gcc libc6-dev make pkg-config/pkgconf zlib1g-dev libjansson-dev libpng-dev \
              libjpeg-dev/libjpeg62-turbo-dev/libjpeg-turbo8-dev libdnnl-dev libisal-dev \
              libpcre2-dev libutf8proc-dev nettle-dev libgmp-dev libwebp-dev libjs-dygraphs
DEPS_TEST  := g++ libcmocka-dev bats python3-torch libopenblas0 python3-numpy python3-pil jq shellcheck mandoc \
              clang-format clang-tidy fish gfortran zsh tmux libopenmpi-dev openmpi-bin iproute2 procps libcurl4/libcurl4t64
# cmake, curl and xz-utils are for the static oneDNN.
DEPS_PACKAGES := cmake curl xz-utils binutils dpkg-dev lintian debootstrap python3-pip python3-venv
DEPS_TSAN  := clang libclang-rt-14-dev/libclang-rt-dev libomp-14-dev/libomp-dev

# Flags ---------------------------------------------------------------------------------------
VERSION  := 0.1.0
PACKAGES := zlib jansson libpng libjpeg libwebp libpcre2-8 libutf8proc nettle hogweed gmp
# Taken where it is there; `make ISAL=0` does without.
ISAL     ?= $(shell pkg-config --exists libisal 2>/dev/null && echo 1 || echo 0)
PACKAGES += $(if $(filter 1,$(ISAL)),libisal)
# For ranks on several hosts; the program itself does without. `make MPI=1` insists, MPI=0 leaves it.
# mpicc alone does not say that MPI's headers are installed.
MPI      ?= auto
MPICC    ?= mpicc
WITH_MPI := $(if $(filter auto,$(MPI)),$(shell echo '$(hash)include <mpi.h>' | $(MPICC) -fsyntax-only -x c - >/dev/null 2>&1 && echo 1),$(MPI))
PKG_FLAGS := $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
PKG_LIBS  := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null)

# oneDNN's header names its major version, which chooses kernels/cpu/dnnl_vN.c. The library names the
# file that programs open (its SONAME), which Debian's name of the package follows: libdnnl.so.3.6 is in
# the package libdnnl3.6. The library is opened when the CPU backend needs it (kernels/cpu/dnnl_api.c).
DNNL_MAJOR := $(shell printf '%s\n' '$(hash)include <dnnl.h>' 'gtrain_major DNNL_VERSION_MAJOR' | \
              $(CC) $(CPPFLAGS) -E -P -x c - 2>/dev/null | sed -n 's/^gtrain_major \([0-9]*\)$$/\1/p')
DNNL_LIB   := $(firstword $(wildcard $(patsubst -L%,%/libdnnl.so,$(filter -L%,$(LDFLAGS)))) \
              $(shell $(CC) -print-file-name=libdnnl.so 2>/dev/null))
DNNL_SONAME := $(or $(shell objdump -p $(DNNL_LIB) 2>/dev/null | awk '$$1 == "SONAME" { print $$2 }'),libdnnl.so.$(DNNL_MAJOR))
DNNL_CPP   := -DGT_DNNL_SONAME='"$(DNNL_SONAME)"' -DGT_DNNL_PACKAGE='"$(subst .so.,,$(DNNL_SONAME))"'

SAN_FLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all \
             -fno-omit-frame-pointer)
# Rows of tables leave out members that are 0: only clang warns of them within designated members. It also warns of loops that
# a sanitizer keeps it from vectorizing. Formats that are no literals are among the defaults of clang and of Ubuntu's gcc.
GT_WARN   := -Wall -Wextra $(WERROR) -Wformat-security -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla \
             -Wpointer-arith $(if $(findstring clang,$(CC)),-Wno-missing-field-initializers -Wno-pass-failed)
GT_CPP    := -I. -D_GNU_SOURCE -DGT_VERSION='"$(VERSION)"' $(PKG_FLAGS) \
             $(if $(filter 1,$(ISAL)),-DGT_WITH_ISAL) $(DNNL_CPP) $(CPPFLAGS)
# One set of objects serves the program, libgtrain.a and libgtrain.so: code of a program that may lie anywhere in memory
# (PIE, which is usual) and code of a shared library differ only in symbols that others could replace, and hidden ones cannot be.
GT_CFLAGS := -std=gnu11 $(OPT) $(GT_WARN) -fPIC -fvisibility=hidden -fopenmp -fno-math-errno -fno-trapping-math \
             -ffp-contract=off $(SAN_FLAGS) $(CFLAGS)
GT_LDFLAGS := -fopenmp -Wl,--as-needed $(SAN_FLAGS) $(LDFLAGS)
GT_LIBS    = $(CUDA_LIBS) $(PKG_LIBS) -lm -ldl -lpthread

# Kernels for GPUs. `make CUDA=1` insists on a toolkit, CUDA=0 does without.
CUDA      ?= auto
CUDA_ARCH ?= 80 90
NVCC      ?= $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
# Under sanitizers the simulator runs the kernels: nvcc's code is none of their business.
WITH_CUDA := $(if $(filter auto,$(CUDA)),$(if $(NVCC),$(if $(SANITIZE),,1)),$(filter 1,$(CUDA)))
CUDA_HOME = $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
# Machine code for each, and for GPUs to come what their driver compiles.
CUDA_CODE := $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
             -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))
# The lowest compute capability with machine code.
CUDA_CPP  := -DGT_CUDA_OLDEST_GPU=$(firstword $(shell printf '%s\n' $(CUDA_ARCH:a=) | sort -n))
# The run-time is in the binary; the driver's library is opened when a GPU is first asked for.
CUDA_LIBS  = $(if $(WITH_CUDA),-L$(CUDA_HOME)/lib64 -lcudart_static -lsupc++ -lrt)
CUDA_ABI_FLAGS = -std=c++17 -O1 -fPIC -Wall -Wextra $(WERROR) -Wshadow -I. -D_GNU_SOURCE
# Lines of kernels are for profilers; like the rest of the debug information, OPT may leave them out.
NVCC_FLAGS = -std=c++17 -O3 $(if $(filter -g,$(OPT)),-lineinfo) $(CUDA_CODE) -Xptxas -warn-spills \
             $(if $(WERROR),-Werror all-warnings -Xptxas -Werror) -ccbin '$(CXX)' \
             -Xcompiler '$(subst $() $(),$(comma),-fPIC -fvisibility=hidden -Wall -Wextra $(WERROR) -Wshadow)' -I. -D_GNU_SOURCE

# CPU kernels are compiled once per instruction set; the backend picks a table when it starts, so
# one binary runs everywhere and nothing here needs -march=native.
ifeq ($(shell uname -m),x86_64)
ISAS := base avx2 avx512
else
ISAS := base
endif
ISA_base   :=
ISA_avx2   := -march=x86-64-v3
ISA_avx512 := -march=x86-64-v4 -mprefer-vector-width=512
KERNEL_CFLAGS := -ffp-contract=fast

# Sources -------------------------------------------------------------------------------------
# Files with GT_ISA are compiled once per instruction set, the others once; oneDNN's major version
# chooses one of dnnl_v*.c.
KERNELS_ISA  := $(shell grep -l GT_ISA kernels/cpu/*.c)
KERNELS_ONCE := $(filter-out $(KERNELS_ISA) kernels/cpu/dnnl_v%.c,$(wildcard kernels/cpu/*.c)) \
                $(wildcard kernels/cpu/dnnl_v$(DNNL_MAJOR).c)
# What mpicc compiles into a library of its own, see lib/comm/mpi/calls.h.
MPI_SRC  := lib/comm/mpi/calls.c
LIB_SRC  := $(filter-out $(MPI_SRC),$(wildcard lib/*/*.c lib/*/*/*.c)) $(KERNELS_ONCE)
CMD_SRC  := $(wildcard cmd/*.c cmd/*/*.c)
CUDA_SRC := $(wildcard kernels/cuda/*/*.cu kernels/cuda/*/*.c)
# What compares declarations with those of NVIDIA's libraries: host code, which nvcc would take longer to compile.
CUDA_ABI := $(wildcard kernels/cuda/*/*.cc)

LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) \
            $(foreach isa,$(ISAS),$(KERNELS_ISA:%.c=$(BUILD)/obj/$(isa)/%.o))
RECIPES  := $(wildcard cmd/recipes/*.json)
# The page of `gtrain report`. dygraphs draws its curves; without it, the page has static pictures alone.
DYGRAPHS ?= /usr/share/javascript/dygraphs
REPORT   := cmd/report/page.html cmd/report/page.css cmd/report/page.js \
            $(if $(DYGRAPHS),$(wildcard $(DYGRAPHS)/dygraph.min.css $(DYGRAPHS)/dygraph.min.js))
CMD_OBJ  := $(CMD_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/recipes.o $(BUILD)/obj/report.o
MPI_SO   := $(if $(filter 1,$(WITH_MPI)),$(BUILD)/libgtrain-mpi.so)
CUDA_OBJ := $(if $(WITH_CUDA),$(patsubst %,$(BUILD)/obj/cuda/%.o,$(CUDA_SRC) $(CUDA_ABI)))

# One short line per command; make V=1 shows the commands. $(call say,WHAT,FILE)
V  ?=
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2);)

# The shared library exports the functions of lib/gtrain.h alone. A change that breaks programs raises the number, which
# lib/api/gtrain.map has, too; sanitizers want their run-time in the program, so builds with them have none.
SO_NAME := libgtrain.so.0
SO      := $(if $(SANITIZE),,$(BUILD)/$(SO_NAME))

# Building ------------------------------------------------------------------------------------
all: $(BUILD)/gtrain $(MPI_SO) $(SO)   ## build build/gtrain and the libraries (the default)

$(BUILD)/gtrain: $(CMD_OBJ) $(BUILD)/libgtrain.a
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -o $@ $^ $(GT_LIBS)

$(BUILD)/libgtrain.a: $(LIB_OBJ) $(CUDA_OBJ) $(BUILD)/sources
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $(LIB_OBJ) $(CUDA_OBJ)

# nodelete: threads of OpenMP and libraries that it has opened outlive a program's dlclose().
$(BUILD)/$(SO_NAME): $(filter $(BUILD)/obj/lib/api/%,$(LIB_OBJ)) $(BUILD)/libgtrain.a lib/api/gtrain.map
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -shared -Wl,-soname,$(SO_NAME) -Wl,--version-script=lib/api/gtrain.map \
	    -Wl,-z,defs -Wl,-z,nodelete -o $@ $(filter %.o %.a,$^) $(GT_LIBS)
	@ln -sf $(SO_NAME) $(BUILD)/libgtrain.so

$(BUILD)/libgtrain-mpi.so: $(MPI_SRC) $(MPI_SRC:.c=.h) $(BUILD)/flags
	$(call say,MPI,$@)OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC) -I. -D_GNU_SOURCE -std=gnu11 $(GT_WARN) -O2 -g \
	    -fPIC -shared -fvisibility=hidden $(CFLAGS) -o $@ $< $(LDFLAGS)

# The list of backends has this one where it is built.
$(BUILD)/obj/lib/device/backend.o: GT_CPP += $(if $(WITH_CUDA),-DGT_WITH_CUDA)
$(BUILD)/obj/lib/device/backend.o: $(BUILD)/cuda

# The instruction wgmma exists in sm_90a alone: not in sm_90, and not in the code for GPUs to come. So
# these files are for Hopper GPUs only; without 90 in CUDA_ARCH they have no kernels.
$(BUILD)/obj/cuda/kernels/cuda/attention/attention_wgmma%.o: private CUDA_CODE := $(if $(filter 90 90a,$(CUDA_ARCH)), \
    -gencode arch=compute_90a$(comma)code=sm_90a -DGT_SM90A,$(CUDA_CODE))

# map.cu says why.
$(BUILD)/obj/cuda/kernels/cuda/elementwise/map.cu.o: private NVCC_FLAGS += -fmad=false

$(BUILD)/obj/cuda/%.cu.o: %.cu $(BUILD)/cuda
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(BUILD)/obj/cuda/%.c.o: %.c $(BUILD)/cuda
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) -isystem $(CUDA_HOME)/include $(CUDA_CPP) $(GT_CPP) $(GT_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/cuda/%.cc.o: %.cc $(BUILD)/cuda
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) -isystem $(CUDA_HOME)/include $(CUDA_ABI_FLAGS) -MMD -MP -c -o $@ $<

define isa_rule
$(BUILD)/obj/$(1)/%.o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< ($(1))')$(CC) $(GT_CPP) -DGT_ISA_NAME=$(1) $(GT_CFLAGS) $(KERNEL_CFLAGS) $(ISA_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS),$(eval $(call isa_rule,$(isa))))

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(GT_CPP) $(GT_CFLAGS) -MMD -MP -c -o $@ $<

# Recipes and the page of reports are texts in the program. $(call embed,HEADER,TYPE,ARRAY,MORE) FILE...
embed = LC_ALL=C awk -v header=$(1) -v type='struct $(2)' -v array=$(3) $(4) -f cmd/embed.awk

$(BUILD)/recipes: FORCE
	@$(call stamp,$(RECIPES))

$(BUILD)/recipes.c: cmd/embed.awk $(RECIPES) $(BUILD)/recipes
	$(call say,TEXT,$@)$(call embed,cmd/recipes.h,gt_cmd_recipe,gt_cmd_recipes,-v ending=.json -v names=gt_cmd_recipe_names) $(RECIPES) >$@

$(BUILD)/report: FORCE
	@$(call stamp,$(REPORT))

$(BUILD)/report.c: cmd/embed.awk $(REPORT) $(BUILD)/report
	$(call say,TEXT,$@)$(call embed,cmd/report/report.h,gt_report_file,gt_report_files) $(REPORT) >$@

$(BUILD)/obj/recipes.o $(BUILD)/obj/report.o: $(BUILD)/obj/%.o: $(BUILD)/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(GT_CPP) $(GT_CFLAGS) -MMD -MP -c -o $@ $<

# Stamps that change when the flags or the list of sources do, so that what depends on them is
# built again. $(call stamp,TEXT)
stamp = mkdir -p $(@D) && { echo '$(subst ','\'',$(1))' | cmp -s - $@ || echo '$(subst ','\'',$(1))' >$@; }

$(BUILD)/flags: FORCE
	@pkg-config --exists --print-errors $(PACKAGES) || { \
	    echo "gtrain needs the libraries $(PACKAGES) and dnnl; \`make deps' installs them" >&2; exit 1; }
	@test -e kernels/cpu/dnnl_v$(DNNL_MAJOR).c || { echo "gtrain needs oneDNN 2 or 3 and its header dnnl.h;" \
	    "$(if $(DNNL_MAJOR),this is oneDNN $(DNNL_MAJOR),there is none here: \`make deps' installs it)" >&2; exit 1; }
	@$(call stamp,$(CC) $(GT_CPP) $(GT_CFLAGS) $(KERNEL_CFLAGS) $(foreach isa,$(ISAS),$(ISA_$(isa))))

$(BUILD)/cuda: FORCE
	@$(if $(filter 1-,$(CUDA)-$(NVCC)),echo "CUDA=1: no nvcc on the path or in /usr/local/cuda/bin" >&2; exit 1)
	@$(call stamp,$(if $(WITH_CUDA),$(NVCC) $(NVCC_FLAGS),no kernels for GPUs: \
	    $(if $(filter 0,$(CUDA)),CUDA=0,$(if $(SANITIZE),SANITIZE,no nvcc on the path or in /usr/local/cuda/bin))))
	@$(if $(WITH_CUDA),,cmp -s $@ $@.told || { cat $@; cp $@ $@.told; })

$(BUILD)/sources: FORCE
	@$(call stamp,$(LIB_OBJ) $(CUDA_OBJ) $(SHARED_OBJ))

# Setting up ----------------------------------------------------------------------------------
deps:   ## install the Debian packages that a build needs, those that are missing
	@sh .ci/deps $(DEPS_BUILD)

deps-test: deps   ## ... and those that the tests need
	@sh .ci/deps --optional $(DEPS_TEST) $(if $(findstring thread,$(SANITIZE)),$(DEPS_TSAN))

# What needs packages calls make again once they are there: only then is pkg-config's answer right.
AGAIN = +@$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))

demo: deps   ## build, then show what gtrain does
	$(AGAIN) demo-run

demo-run: all
	@GTRAIN='$(BUILD)/gtrain' sh tests/demo.sh

include tests/fuzz/fuzz.mk
include tests/tests.mk
include .ci/packages/packages.mk

# Installing ----------------------------------------------------------------------------------
bindir     := $(PREFIX)/bin
libdir     := $(PREFIX)/lib
includedir := $(PREFIX)/include
mandir     := $(PREFIX)/share/man
zshdir     := $(PREFIX)/share/zsh/site-functions
INSTALL    ?= install
# The program that is installed: another link of it (.ci/packages/packages.mk), in a wheel.
PROGRAM    := $(BUILD)/gtrain

# FROM:TO of every file that is installed, without the modes.
INSTALLED  = $(PROGRAM):$(bindir)/gtrain \
             $(BUILD)/libgtrain.a:$(libdir)/libgtrain.a \
             $(if $(SO),$(SO):$(libdir)/$(SO_NAME)) \
             $(if $(MPI_SO),$(MPI_SO):$(PREFIX)/lib/gtrain/libgtrain-mpi.so) \
             $(BUILD)/gtrain.pc:$(libdir)/pkgconfig/gtrain.pc \
             lib/gtrain.h:$(includedir)/gtrain.h \
             $(foreach m,$(wildcard man/*.1),$(m):$(mandir)/man1/$(notdir $(m))) \
             $(foreach m,$(wildcard man/*.3),$(m):$(mandir)/man3/$(notdir $(m))) \
             $(foreach m,$(wildcard man/*.7),$(m):$(mandir)/man7/$(notdir $(m))) \
             $(foreach m,$(wildcard man/zh_CN/*.7),$(m):$(mandir)/zh_CN/man7/$(notdir $(m))) \
             $(foreach s,$(wildcard man/schemas/*.json),$(s):$(PREFIX)/share/gtrain/$(s:man/%=%)) \
             $(foreach r,$(RECIPES),$(r):$(PREFIX)/share/gtrain/recipes/$(notdir $(r))) \
             $(foreach c,$(wildcard completions/gtrain.bash),$(c):$(PREFIX)/share/bash-completion/completions/gtrain) \
             $(foreach c,$(wildcard completions/_gtrain),$(c):$(zshdir)/_gtrain) \
             $(foreach c,$(wildcard completions/gtrain.fish),$(c):$(PREFIX)/share/fish/vendor_completions.d/gtrain.fish)

install: all $(BUILD)/gtrain.pc   ## install under DESTDIR/PREFIX
	@set -e; for pair in $(INSTALLED); do \
	    from="$${pair%%:*}" to="$(DESTDIR)$${pair#*:}"; mode=644; \
	    case "$$to" in */bin/*) mode=755 ;; esac; \
	    echo "install $$to"; $(INSTALL) -D -m $$mode "$$from" "$$to"; done
	$(if $(SO),ln -sf $(SO_NAME) '$(DESTDIR)$(libdir)/libgtrain.so')

uninstall:   ## remove what install put there
	@set -e; for pair in $(INSTALLED) :$(libdir)/libgtrain.so; do rm -f "$(DESTDIR)$${pair#*:}"; done

# The libraries that libgtrain.a needs are for `pkg-config --static`. Requires.private would also ask for their headers.
$(BUILD)/gtrain.pc: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(patsubst $(PREFIX)/%,$${prefix}/%,$(libdir))' 'includedir=$${prefix}/include' '' \
	    'Name: gtrain' 'Description: training of neural networks' \
	    'Version: $(VERSION)' 'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lgtrain' \
	    'Libs.private: $(PKG_LIBS) $(CUDA_LIBS) -fopenmp -lm -ldl -lpthread' >$@

# Looking around ------------------------------------------------------------------------------
map:   ## print where changes begin, the index of the code, and its largest files and functions
	@tests/lint/map

help:   ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile .ci/packages/packages.mk tests/tests.mk tests/fuzz/fuzz.mk
	@echo "knobs: BUILD CC CFLAGS CUDA=auto|0|1 CUDA_ARCH='80 90' CXX DESTDIR DNNL_STATIC DYGRAPHS JOBS MAINTAINER MPI=auto|0|1 MPICC OPT PREFIX PYTHON SANITIZE=address,undefined|thread V=1 WERROR"

clean:   ## remove everything built
	rm -rf build

# Dependencies are written beside the objects. Without this rule, make tries its built-in rules on each of these files.
%.d: ;

FORCE:
.PHONY: all clean demo demo-run deps deps-test help install map uninstall FORCE
.SECONDARY:
.DELETE_ON_ERROR:
-include $(patsubst %.o,%.d,$(LIB_OBJ) $(CMD_OBJ) $(CUDA_OBJ))
