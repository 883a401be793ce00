#!/bin/bash
# Builds what the tests need to run against real Kubernetes, once, into a cache outside the checkout, and prints the
# directory that holds it.
#
#   build.sh         lockstep-control-plane, etcd, kube-apiserver, kubectl
#   build.sh helm    helm
#   build.sh pubsub  lockstep-pubsub
#   build.sh clients lockstep-clients
#   build.sh metallb metallb-controller, and the definitions of its kinds
#   build.sh argocd  lockstep-argocd, and the definitions of its kinds
#
# build.sh --if-built WHAT builds nothing: it prints the directory if it is there, else nothing.
#
# KUBEBUILDER_ASSETS, if set, names a directory with etcd and kube-apiserver to use instead of building these.
# LOCKSTEP_CACHE names the cache; the default is ~/.cache/lockstep.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

cache="${LOCKSTEP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep}"

fail() {
  echo "build.sh: $*" >&2
  exit 1
}

# The module asks for its version of Go; an older Go (1.21 or later) fetches it.
need_go() {
  export GOTOOLCHAIN="${GOTOOLCHAIN:-auto}" GOFLAGS="${GOFLAGS:-} -buildvcs=false"
  command -v go >/dev/null && return
  if [ -x /usr/local/go/bin/go ]; then
    PATH="$PATH:/usr/local/go/bin"
  elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing Go (apt-get install golang-go)" >&2
    { apt-get update -q && apt-get install -q -y --no-install-recommends golang-go; } >&2
  else
    fail "Go is needed to build Kubernetes for the tests: install Go 1.21 or later from https://go.dev/dl or your
distribution (Debian: apt-get install golang-go), or set KUBEBUILDER_ASSETS and install Go all the same: the
controllers of the test control plane are built in any case"
  fi
}

# Runs `go build -v` and counts the packages that it names; whatever else it says goes through.
go_build() {
  go build -v -trimpath "$@" 2>&1 | awk -v what="$what" '
    / / || /^#/ { print; fflush(); next }
    ++n % 100 == 0 { printf "building %s: %d packages compiled\n", what, n; fflush() }' >&2
}

build_control_plane() {
  local version
  version="$(go list -m -f '{{.Version}}' k8s.io/kubernetes)"
  go_build ${tags:+-tags "$tags"} -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
    -o "$1/lockstep-control-plane" .
  if [ -n "$tags" ]; then
    for program in etcd kube-apiserver; do
      ln -s "$KUBEBUILDER_ASSETS/$program" "$1/$program"
    done
    [ ! -x "$KUBEBUILDER_ASSETS/kubectl" ] || ln -s "$KUBEBUILDER_ASSETS/kubectl" "$1/kubectl"
  else
    for program in etcd kube-apiserver kubectl; do
      ln -s lockstep-control-plane "$1/$program"
    done
  fi
}

build_helm() {
  (cd helm && go_build -ldflags "-s -w" -o "$1/helm" helm.sh/helm/v4/cmd/helm)
}

build_pubsub() {
  (cd pubsub && go_build -ldflags "-s -w" -o "$1/lockstep-pubsub" .)
}

build_clients() {
  (cd clients && go_build -ldflags "-s -w" -o "$1/lockstep-clients" .)
}

build_metallb() {
  (
    cd metallb
    go mod download go.universe.tf/metallb
    module="$(go list -m -f '{{.Dir}}' go.universe.tf/metallb)"
    cp -r "$module" "$1/source"
    chmod -R u+w "$1/source"
    rm -r "$1/source/internal/bgp/frrk8s"
    cp -r frrk8s "$1/source/internal/bgp"
    cp go.mod go.sum "$1"
    go mod edit -replace="go.universe.tf/metallb=$1/source" "$1/go.mod"
    go_build -modfile "$1/go.mod" -ldflags "-s -w" -o "$1/metallb-controller" go.universe.tf/metallb/controller
    mv "$1/source/config/crd/bases" "$1/definitions"
    rm -r "$1/source" "$1/go.mod" "$1/go.sum"
  )
}

# Argo CD says its version in its log.
build_argocd() {
  (
    cd argocd
    module=github.com/argoproj/argo-cd/v3
    version="$(go list -m -f '{{.Version}}' "$module")"
    go_build -ldflags "-s -w -X $module/common.version=${version#v}" -o "$1/lockstep-argocd" .
    mkdir "$1/definitions"
    cp "$(go list -m -f '{{.Dir}}' "$module")"/manifests/crds/app{lication,project}-crd.yaml "$1/definitions"
    chmod u+w "$1"/definitions/*
  )
}

builds=yes
if [ "${1:-}" = --if-built ]; then
  builds=
  shift
fi
what="${1:-control-plane}"
tags=""
case "$what" in
  control-plane) sources=(go.mod go.sum ./*.go); tags="${KUBEBUILDER_ASSETS:+assets}" ;;
  helm) sources=(helm/go.mod helm/go.sum) ;;
  pubsub) sources=(pubsub/go.mod pubsub/go.sum pubsub/*.go) ;;
  clients) sources=(clients/go.mod clients/go.sum clients/*.go) ;;
  metallb) sources=(metallb/go.mod metallb/go.sum metallb/frrk8s/*.go) ;;
  argocd) sources=(argocd/go.mod argocd/go.sum argocd/*.go) ;;
  *) fail "what is '$what'? Give nothing, helm, pubsub, clients, metallb or argocd" ;;
esac
if [ -n "$tags" ]; then
  for program in etcd kube-apiserver; do
    [ -x "$KUBEBUILDER_ASSETS/$program" ] ||
      fail "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS holds no $program that can be run; name a directory that does, or
unset it to have them built"
  done
fi
need_go
key="$({ cat "${sources[@]}" build.sh; go env GOVERSION GOOS GOARCH; echo "${tags:+$KUBEBUILDER_ASSETS}"; } |
  sha256sum | cut -c1-16)"
built="$cache/$what-$key"

if [ ! -d "$built" ]; then
  [ -n "$builds" ] || exit 0
  mkdir -p "$cache"
  exec 9>"$cache/$what.lock"
  flock 9
  if [ ! -d "$built" ]; then
    echo "building $what into $built; this happens once and takes some minutes" >&2
    rm -rf "$cache/$what".??????
    partial="$(mktemp -d "$cache/$what.XXXXXX")"
    trap 'rm -rf "$partial"' EXIT
    chmod 755 "$partial"
    "build_${what//-/_}" "$partial"
    mv -T "$partial" "$built"
  fi
fi
echo "$built"
