package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// emptyCell is the content of a cell without a value.
const emptyCell = "-"

// write prints the table: first a row for each known measure that has a figure, then
// the other figures.
func write(out io.Writer, r *results) error {
	if len(r.order) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "measure\tobjects\tUpright\taim\tmet\tpeers")
	short, repeats := false, 1
	for _, row := range rows(r) {
		figure, count := r.median(row.series)
		repeats = max(repeats, count)
		short = short || row.series.objects < row.measure.objects
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", row.measure.label, countOf(row.series.objects), row.measure.format(figure),
			aimOf(row.measure), verdict(row.measure, figure, row.series.objects), orNone(row.measure.peer))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	if repeats > 1 {
		fmt.Fprintf(out, "Figures are medians of up to %d runs.\n", repeats)
	}
	if short {
		fmt.Fprintln(out, "This is the short form: the aims and the peers' figures are for more objects.")
	}
	return nil
}

// row is a row of the table.
type row struct {
	measure measure
	series  series
}

// rows returns the rows of the known measures that have figures, and then the others.
func rows(r *results) []row {
	var found []row
	for _, m := range measures {
		for _, s := range r.order {
			if s.key == m.key {
				found = append(found, row{m, s})
			}
		}
	}
	for _, s := range r.order {
		if !slices.ContainsFunc(measures, func(m measure) bool { return m.benchmark == s.benchmark }) {
			label := s.benchmark + ", " + s.unit
			found = append(found, row{measure{key: s.key, label: label, format: formatOf(s.unit)}, s})
		}
	}
	return found
}

func aimOf(m measure) string {
	switch {
	case m.aim == nil:
		return emptyCell
	case *m.aim == 0:
		return "0"
	default:
		return "at most " + m.format(*m.aim)
	}
}

func verdict(m measure, figure float64, objects int) string {
	switch {
	case m.aim == nil:
		return emptyCell
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
		return emptyCell
	}
	return strconv.Itoa(objects)
}

func orNone(text string) string {
	if text == "" {
		return emptyCell
	}
	return text
}
