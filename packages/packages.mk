# packages.mk - the source archive and Debian packages; the Makefile includes it.
# What packages hold, they take from the list INSTALLED (see "Installing" in the Makefile).

PACKED := $(BUILD)/packages
# Who answers for Debian packages that are given to others.
MAINTAINER ?= The gtrain authors <gtrain@localhost>

# The time of all files in packages: that of the last commit, which an unpacked archive knows from its MANIFEST.
EPOCH   = $(or $(SOURCE_DATE_EPOCH),$(shell [ ! -e .git ] || git log -1 --format=%ct),$(shell sed -n '1s/^. //p' MANIFEST 2>/dev/null),\
          $(error no time for the files of packages: no repository of git, no MANIFEST of an unpacked archive, no SOURCE_DATE_EPOCH))
PACK    = mkdir -p '$(PACKED)' && VERSION='$(VERSION)' SOURCE_DATE_EPOCH='$(EPOCH)'

dist:   ## make the source archive; the same files give the same bytes
	@$(PACK) sh packages/dist '$(PACKED)'

deb: all   ## make Debian packages: gtrain and libgtrain-dev
	@rm -rf '$(PACKED)/deb'
	+@$(MAKE) --no-print-directory install DESTDIR='$(abspath $(PACKED)/deb/installed)' PREFIX=/usr \
	    libdir="/usr/lib/$$(dpkg-architecture -q DEB_HOST_MULTIARCH)" zshdir=/usr/share/zsh/vendor-completions >/dev/null
	@$(PACK) ONEDNN='$(subst .so.,,$(DNNL_SONAME))' LIBRARIES='$(DEPS_BUILD)' MAINTAINER='$(MAINTAINER)' \
	    DEVICES='the CPU$(if $(WITH_CUDA), and on GPUs of NVIDIA)' bash packages/deb '$(PACKED)'

.PHONY: deb dist
