package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// measure is a row of the table.
type measure struct {
	key
	label  string
	format func(float64) string
	// objects is the number of them that the aim and the peer's figure are for.
	objects int
	// aim is what the figure should at most be; nil where there is no aim.
	aim *float64
	// peer is what others need for the same.
	peer string
}

// measures are the rows, in order. The peers' figures were measured in the same
// way as ours: on a machine with 2 cores, with a v1.36.3 control plane and
// simulated nodes. The Memcached sample is that of kubebuilder's documentation,
// Foo that of kubernetes/sample-controller. The cost of a full list and of a
// whole Deployment is also measured in each run, by the rows below theirs.
var measures = []measure{
	{
		key:    key{"Owners/objects", "writes/object"},
		label:  "Writes per object, events included: from apply to Available and a minute on",
		format: number, objects: 600, aim: new(3.0),
		peer: "6.0 Memcached sample; 5.5 Foo, 45 of 300 done after 70 s",
	},
	{
		key:    key{"Owners/objects", "max-writes/object"},
		label:  "  the most for any one object",
		format: number, objects: 600, aim: new(3.0),
	},
	{
		key:    key{"Owners/objects", "events/object"},
		label:  "  of them events, per object",
		format: number, objects: 600,
	},
	{
		key:    key{"Owners/objects", "writes-in-minute-after"},
		label:  "Writes but for the lease: in the minute after all are Available",
		format: number, objects: 600, aim: new(0.0),
	},
	{
		key:    key{"Owners/objects", "writes-in-minute-after-restart"},
		label:  "  in the minute after a restart of the manager",
		format: number, objects: 600, aim: new(0.0),
	},
	{
		key:    key{"Owners/objects", "early-available"},
		label:  "Objects Available=True before their Deployment is",
		format: number, objects: 600, aim: new(0.0),
		peer: "82 of 300 Memcached sample",
	},
	{
		key:    key{"Burst/objects", "s-to-available"},
		label:  "Busyboxes created at once: time until all are Available",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Burst/objects", "objects/s"},
		label:  "  objects per second",
		format: number, objects: 1000,
	},
	{
		key:    key{"Burst/objects", "p99-queue-s"},
		label:  "  wait in the work queue, p99",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"DeploymentEvent/scalers/index", "sec/op"},
		label:  "A Deployment's event to its scalers, by the index",
		format: seconds, objects: 10_000, aim: new(10e-6),
		peer: "66 ms full list",
	},
	{
		key:    key{"DeploymentEvent/scalers/index", "B/op"},
		label:  "  allocated",
		format: size, objects: 10_000,
		peer: "52 MB full list",
	},
	{
		key:    key{"DeploymentEvent/scalers/index", "API-requests"},
		label:  "  API requests in all",
		format: number, objects: 10_000, aim: new(0.0),
	},
	{
		key:    key{"DeploymentEvent/scalers/list", "sec/op"},
		label:  "  by a full list, for comparison",
		format: seconds, objects: 10_000,
	},
	{
		key:    key{"DeploymentEvent/scalers/list", "B/op"},
		label:  "  allocated by a full list",
		format: size, objects: 10_000,
	},
	{
		key:    key{"CachedDeployment/deployments/upright", "B/deployment"},
		label:  "Heap per cached Deployment that Upright does not own",
		format: size, objects: 10_000, aim: new(1.5 * 1024),
		peer: "5.9 to 7.6 KiB whole Deployments",
	},
	{
		key:    key{"CachedDeployment/deployments/whole", "B/deployment"},
		label:  "  cached whole, for comparison",
		format: size, objects: 10_000,
	},
}

// formatOf returns how to write a figure of a unit that testing reports.
func formatOf(unit string) func(float64) string {
	switch {
	case unit == "sec/op":
		return seconds
	case strings.HasPrefix(unit, "B/"):
		return size
	default:
		return number
	}
}

func number(figure float64) string { return strconv.FormatFloat(round(figure), 'f', -1, 64) }

// round keeps three digits and all before the point.
func round(figure float64) float64 {
	if figure >= 100 {
		return float64(int64(figure + 0.5))
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(figure, 'g', 3, 64), 64)
	if err != nil {
		return figure
	}
	return rounded
}

func seconds(figure float64) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if whole := unit.size.Seconds(); figure >= whole {
			return number(figure/whole) + " " + unit.name
		}
	}
	return number(figure*1e9) + " ns"
}

func size(figure float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if figure >= unit.size {
			return fmt.Sprintf("%s %s", number(figure/unit.size), unit.name)
		}
	}
	return number(figure) + " B"
}
