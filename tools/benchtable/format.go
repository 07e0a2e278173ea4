package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// formatOf returns the format for the values of a benchmark unit.
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

// round keeps three significant digits, and all digits before the decimal point.
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

// megabytes is for resident memory: the figures of the peers are in MB.
func megabytes(figure float64) string { return number(figure/1e6) + " MB" }

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
