// Package frrk8s stands in for the package of this name in MetalLB, whose speaker alone uses it: what it needs of frr-k8s is newer than
// the newest release that the module proxy has.
package frrk8s

import v1beta1 "github.com/metallb/frr-k8s/api/v1beta1"

// ConfigName is never called: the controller configures no routers.
func ConfigName(string) string { panic("the controller configures no routers") }

// ConfigToDump is never called either.
func ConfigToDump(v1beta1.FRRConfiguration) (string, error) {
	panic("the controller configures no routers")
}
