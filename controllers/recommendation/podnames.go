package recommendation

import (
	"fmt"
	"regexp"
)

// podNames returns a regular expression that matches the names of a Deployment's pods and no
// others: <deployment>-<template hash>-<5 characters>, both in the alphabet of
// k8s.io/apimachinery/pkg/util/rand. If a name would exceed 63 characters, Kubernetes truncates
// the part before the last 5.
func podNames(deployment string) string {
	const (
		alphabet     = "[bcdfghjklmnpqrstvwxz2456789]"
		maxGenerated = 63 - 5
		maxHash      = 10
	)
	room := maxGenerated - len(deployment) - len("-") // For the hash and a hyphen.
	switch {
	case room > maxHash:
		return regexp.QuoteMeta(deployment) + "-" + alphabet + "{1,10}-" + alphabet + "{5}"
	case room >= 0:
		whole, cut := fmt.Sprintf("%s{0,%d}-", alphabet, max(room-1, 0)), fmt.Sprintf("%s{%d}", alphabet, room)
		return regexp.QuoteMeta(deployment) + "-(" + whole + "|" + cut + ")" + alphabet + "{5}"
	default:
		return regexp.QuoteMeta(deployment[:maxGenerated]) + alphabet + "{5}"
	}
}
