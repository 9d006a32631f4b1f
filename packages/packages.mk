# packages.mk - the source archive; the Makefile includes it.

PACKED := $(BUILD)/packages

# The time of all files in packages: that of the last commit, which an unpacked archive knows from its MANIFEST.
EPOCH   = $(or $(SOURCE_DATE_EPOCH),$(shell [ ! -e .git ] || git log -1 --format=%ct),$(shell sed -n '1s/^. //p' MANIFEST 2>/dev/null),\
          $(error no time for the files of packages: no repository of git, no MANIFEST of an unpacked archive, no SOURCE_DATE_EPOCH))
PACK    = mkdir -p '$(PACKED)' && VERSION='$(VERSION)' SOURCE_DATE_EPOCH='$(EPOCH)'

dist:   ## make the source archive; the same files give the same bytes
	@$(PACK) sh packages/dist '$(PACKED)'

.PHONY: dist
