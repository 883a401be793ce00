// Command lockstep-clients does with an API server what programs written with Kubernetes' own libraries do, and prints what they see:
// the same lines for every server that behaves alike.
//
//	lockstep-clients client-go KUBECONFIG
//	lockstep-clients controller-runtime KUBECONFIG
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// How long anything is waited for; only a server that never gets there takes as long.
const patience = 2 * time.Minute

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lockstep-clients:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("use: lockstep-clients client-go|controller-runtime KUBECONFIG")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[2])
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 200
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	programs := map[string]func(context.Context, *rest.Config) error{
		"client-go":          clientGo,
		"controller-runtime": controllerRuntime,
	}
	program, known := programs[os.Args[1]]
	if !known {
		return fmt.Errorf("unknown program %q", os.Args[1])
	}
	return program(ctx, config)
}

// Prints what an error is to a program: its reason and whose fault it is, field by field.
func refused(what string, err error) {
	fmt.Printf("%s: %s", what, apierrors.ReasonForError(err))
	if status, ok := err.(apierrors.APIStatus); ok && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			fmt.Printf(" [%s %s]", cause.Type, cause.Field)
		}
	}
	fmt.Println()
}

func eventually(ctx context.Context, what string, probe func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, probe); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Println(what)
	return nil
}
