package main

// measure is a row of the table.
type measure struct {
	key
	label  string
	format func(float64) string
	// objects is the number of objects that the aim and the peer's figure are for.
	objects int
	// aim is the highest figure that meets the aim; nil if there is no aim.
	aim *float64
	// peer is the figure of other projects for the same measure.
	peer string
}

// measures are the rows, in order. The peers' figures were measured in the same
// way as Upright's: on a machine with 2 cores, with a v1.36.3 control plane and
// simulated nodes. "Memcached sample" is the one in kubebuilder's documentation,
// "Foo" is kubernetes/sample-controller, "VPA" is the recommender of the Vertical
// Pod Autoscaler. Each run also measures the costs of a full list and of a whole
// Deployment: see the rows "for comparison".
var measures = []measure{
	{
		key:    key{"Owners/objects", "writes/object"},
		label:  "Writes per object, with events: from creation until one minute after Available",
		format: number, objects: 600, aim: new(3.0),
		peer: "6.0 Memcached sample; 5.5 Foo, 45 of 300 done after 70 s",
	},
	{
		key:    key{"Owners/objects", "max-writes/object"},
		label:  "  maximum for one object",
		format: number, objects: 600, aim: new(3.0),
	},
	{
		key:    key{"Owners/objects", "events/object"},
		label:  "  events per object",
		format: number, objects: 600,
	},
	{
		key:    key{"Owners/objects", "writes-in-minute-after"},
		label:  "Writes, without the lease: in the minute after all are Available",
		format: number, objects: 600, aim: new(0.0),
	},
	{
		key:    key{"Owners/objects", "writes-in-minute-after-restart"},
		label:  "  in the minute after the manager restarts",
		format: number, objects: 600, aim: new(0.0),
	},
	{
		key:    key{"Owners/objects", "early-available"},
		label:  "Objects with Available=True before their Deployment is available",
		format: number, objects: 600, aim: new(0.0),
		peer: "82 of 300 Memcached sample",
	},
	{
		key:    key{"Burst/objects", "s-to-available"},
		label:  "Busyboxes created at the same time: time until all are Available",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Burst/objects", "objects/s"},
		label:  "  objects per second",
		format: number, objects: 1000,
	},
	{
		key:    key{"Burst/objects", "p99-queue-s"},
		label:  "  time in the work queue, p99",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"DeploymentEvent/scalers/index", "sec/op"},
		label:  "Mapping a Deployment's event to its scalers, with the index",
		format: seconds, objects: 10_000, aim: new(10e-6),
		peer: "66 ms full list",
	},
	{
		key:    key{"DeploymentEvent/scalers/index", "B/op"},
		label:  "  bytes allocated",
		format: size, objects: 10_000,
		peer: "52 MB full list",
	},
	{
		key:    key{"DeploymentEvent/scalers/index", "API-requests"},
		label:  "  API requests in total",
		format: number, objects: 10_000, aim: new(0.0),
	},
	{
		key:    key{"DeploymentEvent/scalers/list", "sec/op"},
		label:  "  with a full list, for comparison",
		format: seconds, objects: 10_000,
	},
	{
		key:    key{"DeploymentEvent/scalers/list", "B/op"},
		label:  "  bytes allocated with a full list",
		format: size, objects: 10_000,
	},
	{
		key:    key{"ReconcileOfManyPods/pods", "sec/op"},
		label:  "A reconcile with nothing to do, of a Deployment with many pods of 3 containers",
		format: seconds, objects: 5000, aim: new(20e-3),
	},
	{
		key:    key{"CachedDeployment/deployments/upright", "B/deployment"},
		label:  "Heap per cached Deployment that Upright does not own",
		format: size, objects: 10_000, aim: new(1.5 * 1024),
		peer: "5.9 to 7.6 KiB whole Deployments",
	},
	{
		key:    key{"CachedDeployment/deployments/whole", "B/deployment"},
		label:  "  if cached as a whole, for comparison",
		format: size, objects: 10_000,
	},
	{
		key:    key{"Recommend/scalers", "s-to-recommended"},
		label:  "VerticalScalers: time from the manager's start until all have a recommendation",
		format: seconds, objects: 1000, aim: new(20.0),
	},
	{
		key:    key{"Recommend/scalers", "writes/cycle"},
		label:  "  writes per cycle between checkpoints, after weeks of steady usage",
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
		label:  "  requests per cycle, after weeks of steady usage",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "lease-requests/cycle"},
		label:  "  requests per cycle for the lease",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "reconciles/cycle"},
		label:  "  reconciles per cycle, after weeks of steady usage",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "CPU-s/cycle"},
		label:  "  CPU time per cycle, after weeks of steady usage",
		format: seconds, objects: 1000, aim: new(0.4),
		peer: "2.1 s VPA 1.8",
	},
	{
		key:    key{"Recommend/scalers", "resident-B"},
		label:  "  maximum resident memory in these cycles",
		format: megabytes, objects: 1000, aim: new(70e6),
		peer: "138 MB VPA 1.8",
	},
	{
		key:    key{"Recommend/scalers", "peak-B"},
		label:  "  maximum resident memory since the start",
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
		label:  "  status writes per cycle in the first 3 minutes of a history",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "first-events/scaler"},
		label:  "  events per scaler until then",
		format: number, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "first-CPU-s/cycle"},
		label:  "  CPU time per cycle in these minutes",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Recommend/scalers", "first-peak-B"},
		label:  "  maximum resident memory until then",
		format: megabytes, objects: 1000,
	},
	{
		key:    key{"PodCreation/deployments", "s-with-policy"},
		label:  "Creating a pod, by the number of Deployments in the SizeTable, median",
		format: seconds,
	},
	{
		key:    key{"PodCreation/deployments", "s-without-policy"},
		label:  "  without the admission policy",
		format: seconds,
	},
	{
		key:    key{"PodCreation/deployments", "s-added"},
		label:  "  added by the admission policy",
		format: seconds, aim: new(1.5e-3),
		peer: "a webhook's round trip: 5 to 10 ms",
	},
	{
		key:    key{"SizeTable/burst/scalers", "writes"},
		label:  "Writes of a SizeTable when the sizes of all its Deployments change at once",
		format: number, aim: new(10.0),
	},
	{
		key:    key{"SizeTable/burst/scalers", "s-after-last-change"},
		label:  "  until it is complete, after the last change",
		format: seconds,
	},
	{
		key:    key{"SizeTable/nothing-to-do/scalers", "sec/op"},
		label:  "  a reconcile with nothing to do",
		format: seconds,
	},
	{
		key:    key{"StatusToPod/scalers", "p50-s"},
		label:  "From a VerticalScaler's status to a pod created with its size, median",
		format: seconds,
	},
	{
		key:    key{"StatusToPod/scalers", "p99-s"},
		label:  "  p99",
		format: seconds, aim: new(1.0),
	},
	{
		key:    key{"Apply/scalers", "p99-change-s"},
		label:  "From a Deployment's change to the reconcile of its VerticalScaler, p99",
		format: seconds, objects: 1000, aim: new(0.05),
		peer: "VPA checks once a minute",
	},
	{
		key:    key{"Apply/scalers", "p50-change-s"},
		label:  "  median",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "others-reconciles"},
		label:  "Reconciles of VerticalScalers while other Deployments change for a minute",
		format: number, objects: 1000, aim: new(0.0),
	},
	{
		key:    key{"Apply/scalers", "others-changes/min"},
		label:  "  changes per minute",
		format: number, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "p99-oom-kill-s"},
		label:  "From an OOM kill to the resized pod, p99",
		format: seconds, objects: 1000, aim: new(1.0),
	},
	{
		key:    key{"Apply/scalers", "p50-oom-kill-s"},
		label:  "  median",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "s-to-resize-all"},
		label:  "All recommendations change at the same time: time until all pods (2 each) are resized",
		format: seconds, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "resizes/pod"},
		label:  "  resize requests per pod",
		format: number, objects: 1000, aim: new(1.0),
	},
	{
		key:    key{"Apply/scalers", "max-resizes/pod"},
		label:  "  maximum for one pod",
		format: number, objects: 1000, aim: new(1.0),
	},
	{
		key:    key{"Apply/scalers", "table-writes"},
		label:  "  writes of the SizeTable",
		format: number, objects: 1000, aim: new(60.0),
	},
	{
		key:    key{"Apply/scalers", "status-writes/scaler"},
		label:  "  status writes per VerticalScaler",
		format: number, objects: 1000,
	},
	{
		key:    key{"Apply/scalers", "events/scaler"},
		label:  "  events per VerticalScaler",
		format: number, objects: 1000,
	},
	{
		key:    key{"Reaction/rounds", "p99-target-s"},
		label:  "From a Deployment's creation or deletion to its VerticalScaler's status, p99",
		format: seconds, objects: 50, aim: new(1.0),
		peer: "VPA checks once a minute",
	},
	{
		key:    key{"Reaction/rounds", "p50-target-s"},
		label:  "  median",
		format: seconds, objects: 50,
	},
	{
		key:    key{"Reaction/rounds", "p99-HPA-s"},
		label:  "From an HPA's creation or deletion to the VerticalScaler's status, p99",
		format: seconds, objects: 50, aim: new(1.0),
	},
	{
		key:    key{"Reaction/rounds", "p50-HPA-s"},
		label:  "  median",
		format: seconds, objects: 50,
	},
	{
		key:    key{"Reaction/rounds", "p99-LimitRange-s"},
		label:  "From a LimitRange's creation or deletion to the VerticalScaler's status, p99",
		format: seconds, objects: 50, aim: new(1.0),
	},
	{
		key:    key{"Reaction/rounds", "p50-LimitRange-s"},
		label:  "  median",
		format: seconds, objects: 50,
	},
	{
		key:    key{"Reaction/rounds", "p99-free-name-s"},
		label:  "From a Deployment's deletion to the Deployment of an owner that waits for the name, p99",
		format: seconds, objects: 50, aim: new(1.0),
	},
	{
		key:    key{"Reaction/rounds", "p50-free-name-s"},
		label:  "  median",
		format: seconds, objects: 50,
	},
	{
		key:    key{"Reaction/rounds", "max-takeover-s"},
		label:  "From the leader's end to the first write of a standby, maximum",
		format: seconds, objects: 50, aim: new(10.0),
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "sec/op"},
		label:  "Processing one reading of the usage of 2 pods per scaler",
		format: seconds,
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "allocs/op"},
		label:  "  allocations",
		format: number,
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "B/op"},
		label:  "  bytes allocated",
		format: size,
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "API-requests"},
		label:  "  API requests in total",
		format: number, objects: 1000, aim: new(0.0),
	},
	{
		key:    key{"UsageCycle/scalers/cycle", "heap-B"},
		label:  "  heap of histories, caches and filter",
		format: size,
	},
	{
		key:    key{"UsageCycle/growth", "time-ratio"},
		label:  "Processing usage, 10 times as many scalers: ratio of the times",
		format: number,
	},
	{
		key:    key{"UsageCycle/growth", "allocations-ratio"},
		label:  "  ratio of the allocations",
		format: number,
	},
	{
		key:    key{"UsageCycle/growth", "bytes-ratio"},
		label:  "  ratio of the bytes allocated",
		format: number,
	},
	{
		key:    key{"UsageCycle/growth", "heap-ratio"},
		label:  "  ratio of the heap sizes",
		format: number,
	},
	{
		key:    key{"AddSample", "sec/op"},
		label:  "Adding a CPU and a memory sample to a container's history",
		format: seconds,
	},
	{
		key:    key{"AddSample", "allocs/op"},
		label:  "  allocations",
		format: number, aim: new(0.0),
	},
	{
		key:    key{"Percentile", "sec/op"},
		label:  "A CPU and a memory percentile from two weeks of samples",
		format: seconds,
	},
	{
		key:    key{"Percentile", "allocs/op"},
		label:  "  allocations",
		format: number, aim: new(0.0),
	},
	{
		key:    key{"Recommend", "sec/op"},
		label:  "A complete recommendation from two weeks of samples",
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
		label:  "  creating the checkpoint",
		format: seconds,
	},
	{
		key:    key{"Restore", "sec/op"},
		label:  "  restoring the checkpoint",
		format: seconds,
	},
}
