module lockstep/metallb

go 1.26.0

tool go.universe.tf/metallb/controller

require go.universe.tf/metallb v0.16.2
