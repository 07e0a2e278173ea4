package recommender_test

import (
	"fmt"
	"time"

	"example.com/upright/internal/recommender"
)

// This is the worked example in docs/recommendations.md.
func ExampleHistory_Recommend() {
	const mebi = 1 << 20
	history := recommender.New(recommender.DefaultHalfLife)
	midnight := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	for minute := range 12 * 60 {
		at := midnight.Add(time.Duration(minute) * time.Minute)
		cores, bytes := 0.2, int64(180*mebi)
		if minute >= 10*60 {
			cores, bytes = 0.35, 220*mebi
		}
		if err := history.AddCPU(at, cores); err != nil {
			panic(err)
		}
		if err := history.AddMemory(at, bytes); err != nil {
			panic(err)
		}
	}
	printRecommendation := func(title string) {
		r := history.Recommend(recommender.DefaultPolicy(1))
		fmt.Printf("%s: CPU %dm, from %dm to %dm; memory %dMi, from %dMi to %dMi\n", title,
			r.CPU.Target, r.CPU.LowerBound, r.CPU.UpperBound,
			r.Memory.Target/mebi, r.Memory.LowerBound/mebi, r.Memory.UpperBound/mebi)
	}
	printRecommendation("after half a day")
	if err := history.AddOOMKill(midnight.Add(12*time.Hour), 256*mebi); err != nil {
		panic(err)
	}
	printRecommendation("after an OOM kill")
	// Output:
	// after half a day: CPU 411m, from 248m to 1234m; memory 260Mi, from 259Mi to 780Mi
	// after an OOM kill: CPU 411m, from 248m to 1234m; memory 423Mi, from 421Mi to 1269Mi
}
