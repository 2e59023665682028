#!/bin/sh
# The release before this one, really built: image, bundle, the bundle's image, chart. Upgrades are tested from it, and the
# CRD is compared with its CRD. All is kept in .cache/previous-release/VERSION.
#
#   hack/previous-release.sh            build it (IMAGE_TAG_BASE, MEMCACHED_IMAGE, CONTAINER_TOOL; PUSH=true pushes)
#   hack/previous-release.sh version    print its version
#   hack/previous-release.sh crd        print its CRD
#
# It is the newest tag vX.Y.Z older than the version in the source. As long as there is none, it is the commit FIRST, which
# ended the work on the core, as version FIRST_VERSION: it has no packaging yet, and gets this tree's around its own program,
# CRD, rights and samples.
set -eu
cd "$(dirname "$0")/.."
FIRST=907917fe367149ef493692ff05be9f10bd5f1421
FIRST_VERSION=0.0.1
CRD=config/crd/bases/cache.example.com_memcacheds.yaml

current=v$(sed -n 's/^__version__ = "\(.*\)"/\1/p' operator/memcached_operator/__init__.py)
tag=
for candidate in $(git tag --list 'v[0-9]*.[0-9]*.[0-9]*' --sort=version:refname); do
    older=$(printf '%s\n' "$candidate" "$current" | sort -V | head -n 1)
    if [ "$candidate" != "$current" ] && [ "$candidate" = "$older" ]; then tag=$candidate; fi
done
commit=${tag:-$FIRST}
version=$FIRST_VERSION
if [ -n "$tag" ]; then version=${tag#v}; fi
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "previous-release: no commit $commit here: a shallow clone? (git fetch --unshallow --tags)" >&2
    exit 1
fi

case ${1:-build} in
version)
    echo "$version"
    exit
    ;;
crd) exec git show "$commit:$CRD" ;;
build) ;;
*)
    sed -n '5,7s/^# *//p' "$0" >&2
    exit 2
    ;;
esac

base=${IMAGE_TAG_BASE:-example.com/memcached-operator}
engine=${CONTAINER_TOOL:-docker}
operand=${MEMCACHED_IMAGE:-docker.io/library/memcached:1.6.45}
image=$base:v$version
bundle=$base-bundle:v$version
kept=.cache/previous-release/$version
key="$(git rev-parse "$commit^{commit}") $image $operand"

show() { # to stderr: stdout is for paths
    echo "previous-release: $*" >&2
}

take() { # take FOLDER COMMIT [PATH...]: files of a commit
    folder=$1
    shift
    git archive --format=tar "$@" | tar -xf - -C "$folder"
}

sources() { # sources FOLDER
    if [ -n "$tag" ]; then
        take "$1" "$tag"
        return
    fi
    git ls-files | while IFS= read -r file; do if [ -f "$file" ]; then echo "$file"; fi; done | tar -cf - -T - | tar -xf - -C "$1"
    for path in operator/memcached_operator config/crd config/rbac config/samples requirements.txt; do
        rm -rf "${1:?}/$path"
        take "$1" "$commit" "$path"
    done
    printf '"""A Kubernetes operator that runs memcached."""\n\n__version__ = "%s"\n' "$version" \
        >"$1/operator/memcached_operator/__init__.py"
    # The chart's CRD is made of the CRD.
    .venv/bin/python - "$1" <<'PYTHON'
import sys
from pathlib import Path

import yaml

from memcached_operator.codegen import chart, files

root = Path(sys.argv[1])
crd = yaml.safe_load((root / files.CRD).read_text())
policy = yaml.safe_load((root / files.ADMISSION_POLICY).read_text())
templates = chart.templates(crd, policy, notice="Made by hack/previous-release.sh.")
(root / files.CHART / "templates" / "crd.yaml").write_text(templates["crd.yaml"])
PYTHON
}

if [ "$(cat "$kept/key" 2>/dev/null)" != "$key" ]; then
    rm -rf "$kept"
    mkdir -p "$kept/source"
    show "$version from $commit"
    sources "$kept/source"
    ln -s "$PWD/.venv" "$kept/source/.venv"
    (
        cd "$kept/source"
        # A release has generators of its own; FIRST is packed by ours.
        if [ -n "$tag" ]; then export PYTHONPATH="$PWD/operator"; fi
        make="${MAKE:-make} --old-file=.venv/.ready VERSION=$version IMG=$image BUNDLE_IMG=$bundle MEMCACHED_IMAGE=$operand"
        $make CONTAINER_TOOL="$engine" REVISION="$commit" docker-build
        .venv/bin/python hack/bundle.py --version "$version" --image "$image" --memcached-image "$operand" \
            --channels candidate --default-channel candidate
        $make CONTAINER_TOOL="$engine" bundle-build
        $make helm-package
    ) >"$kept/log" 2>&1 || { tail -n 20 "$kept/log" >&2; show "failed; all of it is in $kept/log"; exit 1; }
    cp -R "$kept/source/bundle" "$kept/bundle"
    cp "$kept"/source/dist/*.tgz "$kept/"
    echo "$key" >"$kept/key"
fi
if [ "${PUSH:-}" = true ]; then
    "$engine" push "$image" >&2
    "$engine" push "$bundle" >&2
fi
show "image $image, bundle image $bundle"
ls -d "$PWD/$kept"/bundle "$PWD/$kept"/*.tgz
