# What `make` needs, below .venv and build; the Makefile runs this file, one run at a time.
#
#     make -f tools/development/install.mk PYTHON=python3.11 runtime test jars
#
# pip installs uv, uv the packages; requirements/*.txt have the hash of every archive. What a rule makes is replaced once
# all of it is there, and marked last: an interrupted run is repeated. A missing program skips tests, each with its
# name; where CI=true it is an error.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --jobs=4

PYTHON ?= python3.11
MADE := .venv/.made
# Bars on a terminal only
QUIET := $(shell [ -t 2 ] || echo --quiet)
uv = PYTHON=$(PYTHON) tools/development/uv pip install $(QUIET) --require-hashes
say = echo "install: $(1)" >&2
missing = { $(call say,$(1); the tests that need it are skipped); [[ "$${CI:-}" != @(true|1) ]]; exit; }
# $(call needs,programs,what to install)
needs = for program in $(1); do command -v $$program >/dev/null || $(call missing,$$program is not on the path: install $(2)); done

.PHONY: runtime console test spark lock jars kcat kerberos prometheus systemd chromium go node old connect sparks

# ------------------------------------------------------------------------------------------- the virtual environment

# A run was interrupted, the tree has moved, or the interpreter is gone: begin again, with packages from uv's cache
ifneq ($(shell [ -x .venv/bin/python ] && [ ! -e $(MADE)/unfinished ] && cat $(MADE)/tree 2>&1),$(CURDIR))
$(shell rm -rf .venv)
endif

# pip puts uv into .venv/uv. The environment itself gets no pip where the interpreter has one: that takes longer than
# everything else
$(MADE)/tree: requirements/lock.txt
	$(call say,virtual environment)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headgate needs Python 3.11 or newer")'
	rm -rf .venv
	if $(PYTHON) -c "import pip" 2>/dev/null; then
		$(PYTHON) -m venv --without-pip .venv
		python=$(PYTHON)
	else
		$(PYTHON) -m venv .venv || { echo "(on Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
		python=.venv/bin/python
	fi
	$$python -m pip --disable-pip-version-check install --root-user-action ignore $(QUIET) --no-compile --require-hashes --target .venv/uv -r $<
	mkdir -p $(MADE)
	echo $(CURDIR) >$@

# What is to be installed before, if it is a goal too: one pip at a time
first = $(filter $(1:%=$(MADE)/%),$(MAKECMDGOALS:%=$(MADE)/%))
# One after another; a run that ends in between leaves `unfinished`, as half a package looks like a whole one
define packages
$(call say,$(1))
touch $(MADE)/unfinished
$(2)
rm $(MADE)/unfinished
touch $@
endef

# The build backends of headgate and of source archives are among the packages of the broker
$(MADE)/runtime: requirements/runtime.txt $(MADE)/tree
	$(call packages,packages of the broker,$(uv) -r $<)
$(MADE)/headgate: pyproject.toml $(MADE)/runtime
	$(call packages,headgate,.venv/uv/bin/uv pip install $(QUIET) --offline --no-deps --no-build-isolation --editable .)
$(MADE)/test: requirements/test.txt $(MADE)/headgate
	$(call packages,packages of the tests,$(uv) -r $<)
# Among the packages of the tests too
$(MADE)/console: requirements/console.txt $(MADE)/headgate | $(call first,test)
	$(call packages,packages of the console,$(uv) -r $<)
# 430 MB, published as a source archive alone: uv keeps the wheel that it makes
$(MADE)/spark: requirements/spark.txt $(MADE)/headgate | $(call first,test console)
	$(call packages,packages of Spark,$(uv) --no-build-isolation -r $<)

runtime: $(MADE)/headgate
console: $(MADE)/console
test: $(MADE)/test
spark: $(MADE)/spark
lock: $(MADE)/tree

# ---------------------------------------------------------------------- old and other packages, each in its own folder

old: $(patsubst compat_tests/matrix/python/%.txt,build/%,$(wildcard compat_tests/matrix/python/old/*.txt))
connect sparks: OPTIONS = --no-build-isolation
connect: $(patsubst compat_tests/spark_versions/%.txt,build/spark/%,$(wildcard compat_tests/spark_versions/client-*.txt))
# 450 MB each; only `make soak` needs them
sparks: $(patsubst compat_tests/spark_versions/%.txt,build/spark/%,$(wildcard compat_tests/spark_versions/[0-9]*.txt))

# Wheels of a library in C, for the one machine that all of its old versions were built for
build/old/confluent-kafka-%: OPTIONS = --python-version 3.7 --python-platform x86_64-manylinux2014
build/old/confluent-kafka-%: CHECK = [ "$$(uname -sm)" = "Linux x86_64" ] || $(call missing,$(@F) has wheels for Linux on x86-64 only)
# Published as source archives alone
build/old/pykafka-%: OPTIONS = --no-binary pykafka --no-build-isolation
build/spark/client-%: OPTIONS = --no-binary pyspark-client --no-build-isolation
build/spark/4.%: OPTIONS = --no-binary pyspark --no-build-isolation

define folder
$(CHECK)
$(call say,$(@F))
rm -rf $@.partial
$(uv) --no-deps --only-binary :all: $(OPTIONS) --target $@.partial -r $<
rm -rf $@
mv $@.partial $@
touch $@
endef

build/old/%: compat_tests/matrix/python/old/%.txt | $(MADE)/headgate
	$(folder)
build/spark/%: compat_tests/spark_versions/%.txt | $(MADE)/headgate
	$(folder)

# --------------------------------------------------------------------------------------------- jars and other programs

JAVA := compat_tests/java
jars: build/jars/.made
# The sets of the changed files, or all, in one run of Maven. -U: a download that failed once is tried again
build/jars/.made: $(JAVA)/pom.xml $(wildcard $(JAVA)/*/pom.xml)
	$(call needs,java mvn,a JDK (17 or newer) and Maven)
	sets=($(patsubst $(JAVA)/%/pom.xml,%,$(filter $(JAVA)/%/pom.xml,$(if $(filter $(JAVA)/pom.xml,$?),$^,$?))))
	$(call say,jars: $${sets[*]})
	rm -rf build/jars/.partial
	export MAVEN_OPTS="$${MAVEN_OPTS:-} -Djansi.noreset=true"
	mvn -q -B -U -Dstyle.color=never -f $< -pl "$$(IFS=,; echo "$${sets[*]}")" \
		-Djars.directory='$(CURDIR)/build/jars/.partial/$${project.artifactId}' package
	for set in "$${sets[@]}"; do
		rm -rf build/jars/$$set
		mv build/jars/.partial/$$set build/jars/$$set
	done
	touch $@

# $(call system_packages,test that all is there,packages,where apt is not): only where the user is root already
define system_packages
$(1) && exit
command -v apt-get >/dev/null || $(call missing,no $(firstword $(2)) is on this machine ($(3)))
[ "$$(id -u)" = 0 ] || $(call missing,no $(firstword $(2)) is on this machine: sudo apt-get install $(2))
$(call say,$(2))
export DEBIAN_FRONTEND=noninteractive
mkdir -p build
exec 9>build/apt.lock
flock 9 # apt does not wait for another apt of the same machine
install=(apt-get install --yes --no-install-recommends -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 $(2))
"$${install[@]}" || { apt-get update -qq; "$${install[@]}"; } # a new machine has no package lists yet
endef

kcat:
	$(call system_packages,command -v kcat >/dev/null,kcat,on macOS: brew install kcat)

prometheus:
	$(call system_packages,command -v prometheus >/dev/null,prometheus,on macOS: brew install prometheus)

# `systemd-analyze` reads unit files, `mmdebstrap` makes the root that stands in for an image of containers
systemd:
	$(call system_packages,command -v systemd-analyze mmdebstrap >/dev/null,systemd mmdebstrap,the tests of services need Debian or Ubuntu)

# With a font, as a page without one shows boxes
chromium:
	$(call system_packages,command -v chromium >/dev/null,chromium fonts-dejavu-core,on other systems: a package of that name)

# A KDC with its programs, the module with which kcat speaks to it, and `gssapi`, which is built with MIT's headers. The
# interpreter's own compiler flags would have it take minutes
KDC := krb5-kdc krb5-admin-server krb5-user libkrb5-dev libsasl2-modules-gssapi-mit
GSSAPI := compat_tests/security/kerberos
.PHONY: kdc
kdc:
	$(call system_packages,dpkg --status $(KDC) >/dev/null 2>&1,$(KDC),the tests of Kerberos need Debian or Ubuntu)

kerberos: build/kerberos
build/kerberos: export CFLAGS := -O0 -g0
build/kerberos: OPTIONS = --no-binary gssapi --build-constraints $(GSSAPI)/gssapi-build.txt
build/kerberos: CHECK = $(call needs,cc krb5-config,a C compiler and MIT Kerberos with its headers)
build/kerberos: $(GSSAPI)/gssapi.txt $(GSSAPI)/gssapi-build.txt | kdc $(MADE)/headgate
	$(folder)

# $(call go_program,name,folder,arguments,package): go.sum has the checksum of every module
define go_program
go: build/go/$(1)
build/go/$(1): $(wildcard compat_tests/go/lines/* compat_tests/go/$(2)/*)
	$$(call needs,go,Go 1.26 or newer)
	$$(call say,$(1))
	rm -f $$@
	# -buildvcs: a tree of another owner is no reason to fail
	go $(firstword $(3)) -C compat_tests/go/$(2) $(wordlist 2,9,$(3)) -mod=readonly -buildvcs=false -o $(CURDIR)/$$@ $(4) ||
		$$(call missing,$(1) is not built (it needs Go 1.26 or newer))
endef
$(eval $(call go_program,franz-go,franz-go,build,.))
$(eval $(call go_program,sarama,sarama,build,.))
$(eval $(call go_program,sarama-1.19,shopify-sarama,build,.))
$(eval $(call go_program,sarama-1.10,shopify-sarama,build -modfile=v1.10.mod -tags=v1_10,.))
$(eval $(call go_program,kafka-go,kafka-go,build,.))
$(eval $(call go_program,kafka-go-0.2,kafka-go,build -modfile=v0.2.mod -tags=v0_2,.))
# The tests of the package itself, of the version that the client pins
$(eval $(call go_program,kgo.test,franz-go,test -c,github.com/twmb/franz-go/pkg/kgo))

node: build/node/.made
build/node/.made: $(addprefix compat_tests/node/,package.json package-lock.json .npmrc)
	$(call needs,node npm,Node.js 18 or newer)
	$(call say,packages of Node.js)
	rm -rf build/node.partial
	mkdir -p build/node.partial
	cp $^ build/node.partial
	npm ci --prefix build/node.partial --ignore-scripts --no-audit --no-fund
	rm -rf build/node
	mv build/node.partial build/node
	touch $@
