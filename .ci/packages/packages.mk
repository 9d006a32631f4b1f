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
	@BUILD='$(BUILD)' PYTHON='$(PYTHON)' T='$(T)' tests/packages/run

.PHONY: check-packages check-packages-run deb deps-packages dist wheel
