//go:build !assets

package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// Whoever has these servers already (KUBEBUILDER_ASSETS) builds with the tag `assets`, which leaves them out.
func init() {
	programs["etcd"] = func() { etcdmain.Main(os.Args) }
	programs["kube-apiserver"] = func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) }
	programs["kubectl"] = func() {
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	}
}
