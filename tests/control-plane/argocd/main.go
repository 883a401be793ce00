// Command lockstep-argocd is the two parts of Argo CD that deploy Applications, as subcommands: the application controller and the
// repo-server. Both are Argo CD's own; the rest of Argo CD's program is left out.
package main

import (
	"os"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/spf13/cobra"
)

func main() {
	program := &cobra.Command{Use: "lockstep-argocd", SilenceUsage: true}
	program.AddCommand(controller.NewCommand(), reposerver.NewCommand())
	// It prints the error.
	if program.Execute() != nil {
		os.Exit(1)
	}
}
