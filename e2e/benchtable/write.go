package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// none stands where there is nothing to say.
const none = "-"

// write prints the table: a row for each measure that there is a figure of, and
// after them what else was measured.
func write(out io.Writer, r *results) error {
	if len(r.order) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "measure\tobjects\tUpright\taim\tmet\tpeers")
	short, repeats := false, 1
	for _, m := range rows(r) {
		figure, count := r.median(m.key)
		repeats = max(repeats, count)
		objects := r.objects[m.key]
		short = short || objects < m.objects
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", m.label, countOf(objects), m.format(figure),
			aimOf(m), verdict(m, figure, objects), orNone(m.peer))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	if repeats > 1 {
		fmt.Fprintf(out, "Figures are medians of up to %d runs.\n", repeats)
	}
	if short {
		fmt.Fprintln(out, "This is a short form: the aims and the peers' figures are for more objects.")
	}
	return nil
}

// rows returns the known measures that there are figures of and then the others.
func rows(r *results) []measure {
	var found []measure
	for _, m := range measures {
		if slices.Contains(r.order, m.key) {
			found = append(found, m)
		}
	}
	for _, k := range r.order {
		if !slices.ContainsFunc(measures, func(m measure) bool { return m.benchmark == k.benchmark }) {
			found = append(found, measure{key: k, label: k.benchmark + ", " + k.unit, format: formatOf(k.unit)})
		}
	}
	return found
}

func aimOf(m measure) string {
	switch {
	case m.aim == nil:
		return none
	case *m.aim == 0:
		return "0"
	default:
		return "at most " + m.format(*m.aim)
	}
}

func verdict(m measure, figure float64, objects int) string {
	switch {
	case m.aim == nil:
		return none
	case figure <= *m.aim:
		return "yes"
	case objects < m.objects:
		return "NO (short)"
	default:
		return "NO"
	}
}

func countOf(objects int) string {
	if objects == 0 {
		return none
	}
	return strconv.Itoa(objects)
}

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}
