# packages.mk - the source archive, Debian packages, the wheel; the Makefile includes it.
# What packages hold, they take from the list INSTALLED (see "Installing" in the Makefile).

PACKED := $(BUILD)/packages
# Who answers for Debian packages that are given to others.
MAINTAINER ?= The gtrain authors <gtrain@localhost>

# The time of all files in packages: that of the last commit, which an unpacked archive knows from its MANIFEST.
EPOCH   = $(or $(SOURCE_DATE_EPOCH),$(shell [ ! -e .git ] || git log -1 --format=%ct),$(shell sed -n '1s/^. //p' MANIFEST 2>/dev/null),\
          $(error no time for the files of packages: no repository of git, no MANIFEST of an unpacked archive, no SOURCE_DATE_EPOCH))
PACK    = mkdir -p '$(PACKED)' && VERSION='$(VERSION)' SOURCE_DATE_EPOCH='$(EPOCH)'

dist:   ## make the source archive; the same files give the same bytes
	@$(PACK) sh .ci/packages/dist '$(PACKED)'

deb: all   ## make Debian packages: gtrain, libgtrain0 and libgtrain-dev
	@rm -rf '$(PACKED)/deb'
	+@$(MAKE) --no-print-directory install DESTDIR='$(abspath $(PACKED)/deb/installed)' PREFIX=/usr \
	    libdir="/usr/lib/$$(dpkg-architecture -q DEB_HOST_MULTIARCH)" zshdir=/usr/share/zsh/vendor-completions >/dev/null
	@$(PACK) ONEDNN='$(subst .so.,,$(DNNL_SONAME))' LIBRARIES='$(DEPS_BUILD)' MAINTAINER='$(MAINTAINER)' \
	    DEVICES='the CPU$(if $(WITH_CUDA), and on GPUs of NVIDIA)' bash .ci/packages/deb '$(PACKED)'

# The static program ----------------------------------------------------------------------------
# Debian has no static library of oneDNN: DNNL_STATIC names a folder with include/dnnl.h and lib/libdnnl.a of oneDNN 2 or 3. The
# default is compiled from source, which takes half an hour on two cores. The program is built in a folder of its own: without ISA-L,
# of which Debian has no static library, and without libraries that are opened at run time. musl has none of the libraries in Debian.
DNNL_STATIC ?= build/onednn
STATIC_CPP   = $(CPPFLAGS) -I$(DNNL_STATIC)/include -DGT_STATIC

static: $(DNNL_STATIC)/lib/libdnnl.a   ## make build/gtrain-static, one file for the CPU that runs on any Linux (the first time half an hour)
	@$(if $(SANITIZE),echo 'make static: a static program has no sanitizers' >&2; exit 1)
	+@$(MAKE) --no-print-directory BUILD='$(BUILD)/static' CUDA=0 ISAL=0 MPI=0 CPPFLAGS='$(STATIC_CPP)' \
	    DNNL_STATIC='$(DNNL_STATIC)' '$(BUILD)/static/gtrain-static'
	@ln -f '$(BUILD)/static/gtrain-static' '$(BUILD)/gtrain-static'
	@printf '%s: %s bytes\n' '$(BUILD)/gtrain-static' "$$(wc -c <'$(BUILD)/gtrain-static')"

# The linker warns of getaddrinfo() and of dlopen(), which libgomp would call for GPUs: cmd/main.c and lib/base/library.c see to them.
$(BUILD)/gtrain-static: $(CMD_OBJ) $(BUILD)/libgtrain.a $(DNNL_STATIC)/lib/libdnnl.a
	$(call say,LINK,$@)$(CC) -static -s -fopenmp -Wl,--gc-sections $(LDFLAGS) -o $@ $^ \
	    $(shell pkg-config --static --libs $(PACKAGES)) -lstdc++ -lm

build/onednn/lib/libdnnl.a: .ci/packages/onednn
	+@JOBS='$(JOBS)' .ci/packages/onednn build/onednn

# Python ----------------------------------------------------------------------------------------
wheel: all $(BUILD)/gtrain-wheel   ## make a wheel of pip with the program and its libraries
	@rm -rf '$(PACKED)/wheel'
	+@$(MAKE) --no-print-directory install PROGRAM='$(BUILD)/gtrain-wheel' DESTDIR='$(abspath $(PACKED)/wheel)' PREFIX=/installed >/dev/null
	@$(PACK) $(PYTHON) .ci/packages/wheel.py --installed '$(PACKED)/wheel/installed' --open '$(DNNL_SONAME)' '$(PACKED)'

# Its libraries are those of the wheel, also where they need each other: that takes an RPATH, as a RUNPATH is for its own alone.
# `pip install --target` leaves out folders of "lib".
$(BUILD)/gtrain-wheel: $(CMD_OBJ) $(BUILD)/libgtrain.a
	$(call say,LINK,$@)$(CC) $(GT_LDFLAGS) -s -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../libexec/gtrain' -o $@ $^ $(GT_LIBS)

# Tests -----------------------------------------------------------------------------------------
deps-packages: deps-test   ## ... and those that make packages and test them
	@sh .ci/deps $(DEPS_PACKAGES)

check-packages: deps-packages   ## make all packages, and install, run and remove them (root, slow): T=deb some of them
	$(AGAIN) check-packages-run

check-packages-run: all
	@BUILD='$(BUILD)' PYTHON='$(PYTHON)' DNNL_STATIC='$(DNNL_STATIC)' T='$(T)' tests/packages/run

check-static: deps-packages   ## make the static program, run it in chroots, measure it beside the usual one (root, slow)
	$(AGAIN) check-static-run

check-static-run: all static
	@BUILD='$(BUILD)' DNNL_STATIC='$(DNNL_STATIC)' T=static tests/packages/run

.PHONY: check-packages check-packages-run check-static check-static-run deb deps-packages dist static wheel
