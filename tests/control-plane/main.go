// Command lockstep-control-plane is a Kubernetes control plane for tests in one binary: etcd, kube-apiserver, the
// garbage collector and the namespace controller, and a supervisor that starts them and never outlives its caller.
//
// Called by the name of one of the programs that it holds (through a symbolic link), it is that program.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// programs are those that answer to their own name; servers.go registers them.
var programs = map[string]func(){}

func main() {
	if program, ok := programs[filepath.Base(os.Args[0])]; ok {
		program()
		return
	}
	if err := up(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lockstep-control-plane:", err)
		os.Exit(1)
	}
}
