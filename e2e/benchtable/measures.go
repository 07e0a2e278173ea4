package main

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
// Foo that of kubernetes/sample-controller, VPA the Vertical Pod Autoscaler's
// recommender. The cost of a full list and of a whole Deployment is also measured
// in each run, by the rows below theirs.
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
	{
		key:    key{"Recommend/scalers", "s-to-recommended"},
		label:  "VerticalScalers: from the manager's start until all have a recommendation",
		format: seconds, objects: 1000, aim: new(20.0),
	},
	{
		key:    key{"Recommend/scalers", "writes/cycle"},
		label:  "  writes in a cycle between checkpoints, usage steady for weeks",
		format: number, objects: 1000, aim: new(0.0),
		peer: "2,000 VPA 1.8, checkpoints included",
	},
	{
		key:    key{"Recommend/scalers", "writes-after-restart"},
		label:  "  writes in the cycles after a restart",
		format: number, objects: 1000, aim: new(0.0),
	},
	{
		key:    key{"Recommend/scalers", "requests/cycle"},
		label:  "  requests in a cycle, usage steady for weeks",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "lease-requests/cycle"},
		label:  "  of them for the lease",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "reconciles/cycle"},
		label:  "  reconciles in a cycle, usage steady for weeks",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "CPU-s/cycle"},
		label:  "  processor time of a cycle, usage steady for weeks",
		format: seconds, objects: 1000, aim: new(0.4),
		peer: "2.1 s VPA 1.8",
	},
	{
		key:    key{"Recommend/scalers", "resident-B"},
		label:  "  resident memory, the most in these cycles",
		format: megabytes, objects: 1000, aim: new(70e6),
		peer: "138 MB VPA 1.8",
	},
	{
		key:    key{"Recommend/scalers", "peak-B"},
		label:  "  resident memory, the most since the start",
		format: megabytes, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "checkpoints/interval"},
		label:  "  checkpoints written per scaler and checkpoint interval",
		format: number, objects: 1000, aim: new(1.0),
	},
	{
		key:    key{"Recommend/scalers", "checkpoints-at-stop/scaler"},
		label:  "  checkpoints written per scaler when the manager stops",
		format: number, objects: 1000, aim: new(1.0),
	},
	{
		key:    key{"Recommend/scalers", "first-status-writes/cycle"},
		label:  "  statuses written in a cycle of the first 3 minutes of a history",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "first-events/scaler"},
		label:  "  events written per scaler until then",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "first-CPU-s/cycle"},
		label:  "  processor time of a cycle then",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "first-peak-B"},
		label:  "  resident memory, the most until then",
		format: megabytes, objects: 1000,
	},
	{
		key:    key{"PodCreation/scalers", "s-with-policy"},
		label:  "Creating a pod, with so many VerticalScalers in its namespace, median",
		format: seconds,
	},
	{
		key:    key{"PodCreation/scalers", "s-without-policy"},
		label:  "  without the admission policy",
		format: seconds,
	},
	{
		key:    key{"PodCreation/scalers", "ratio"},
		label:  "  times the time",
		format: number,
	},
	{
		key:    key{"PodCreation/growth", "added-s/scaler"},
		label:  "  added for each VerticalScaler of the namespace",
		format: seconds, aim: new(0.08e-3),
	},
	{
		key:    key{"Apply/scalers", "p99-change-s"},
		label:  "A Deployment's change to the pass over its VerticalScaler, p99",
		format: seconds, objects: 1000, aim: new(0.05),
		peer: "VPA looks once a minute",
	},
	{
		key:    key{"Apply/scalers", "p50-change-s"},
		label:  "  median",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "others-reconciles"},
		label:  "Passes over VerticalScalers while others' Deployments change for a minute",
		format: number, objects: 1000, aim: new(0.0),
	},
	{
		key:    key{"Apply/scalers", "others-changes/min"},
		label:  "  changes in a minute",
		format: number, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "p99-oom-kill-s"},
		label:  "An OOM kill to the resized pod, p99",
		format: seconds, objects: 1000, aim: new(1.0),
	},
	{
		key:    key{"Apply/scalers", "p50-oom-kill-s"},
		label:  "  median",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "s-to-resize-all"},
		label:  "All recommendations change at once: time until all pods, 2 each, are resized",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "resizes/pod"},
		label:  "  writes of a resize per pod",
		format: number, objects: 1000, aim: new(1.0),
	},
	{
		key:    key{"Apply/scalers", "max-resizes/pod"},
		label:  "  the most for any one pod",
		format: number, objects: 1000, aim: new(1.0),
	},
	{
		key:    key{"Apply/scalers", "status-writes/scaler"},
		label:  "  statuses written per VerticalScaler",
		format: number, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "events/scaler"},
		label:  "  events written per VerticalScaler",
		format: number, objects: 1000,
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "sec/op"},
		label:  "Learning from one reading of usage of 2 pods a scaler",
		format: seconds,
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "allocs/op"},
		label:  "  allocations",
		format: number,
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "B/op"},
		label:  "  allocated",
		format: size,
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "API-requests"},
		label:  "  API requests in all",
		format: number, objects: 1000, aim: new(0.0),
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "heap-B"},
		label:  "  heap of histories, caches and filter",
		format: size,
	},
	{
		key:    key{"UsageCycle/growth", "time-ratio"},
		label:  "Learning, 10 times as many scalers: times the time",
		format: number,
	},
	{
		key:    key{"UsageCycle/growth", "allocations-ratio"},
		label:  "  times the allocations",
		format: number,
	},
	{
		key:    key{"UsageCycle/growth", "bytes-ratio"},
		label:  "  times the bytes allocated",
		format: number,
	},
	{
		key:    key{"UsageCycle/growth", "heap-ratio"},
		label:  "  times the heap",
		format: number,
	},
	{
		key:    key{"AddSample", "sec/op"},
		label:  "Adding a sample of CPU and of memory to a container's history",
		format: seconds,
	},
	{
		key:    key{"AddSample", "allocs/op"},
		label:  "  allocations",
		format: number, aim: new(0.0),
	},
	{
		key:    key{"Percentile", "sec/op"},
		label:  "A percentile of CPU and of memory from two weeks of samples",
		format: seconds,
	},
	{
		key:    key{"Percentile", "allocs/op"},
		label:  "  allocations",
		format: number, aim: new(0.0),
	},
	{
		key:    key{"Recommend", "sec/op"},
		label:  "A whole recommendation from two weeks of samples",
		format: seconds,
	},
	{
		key:    key{"Recommend", "allocs/op"},
		label:  "  allocations",
		format: number, aim: new(0.0),
	},
	{
		key:    key{"HistoryAtRest", "B/history"},
		label:  "A container's history in memory",
		format: size, aim: new(1.5 * 1024),
	},
	{
		key:    key{"Checkpoint", "B/checkpoint"},
		label:  "  in a checkpoint, after two weeks of samples",
		format: size, aim: new(1024.0),
	},
	{
		key:    key{"Checkpoint", "sec/op"},
		label:  "  making it",
		format: seconds,
	},
	{
		key:    key{"Restore", "sec/op"},
		label:  "  restoring it",
		format: seconds,
	},
}
