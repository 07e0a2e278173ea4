package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
)

// spdx is the media type of an SBOM.
const spdx = "text/spdx+json"

// document is an SPDX 2.3 document (https://spdx.github.io/spdx-spec/v2.3).
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []module       `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// module is a Go module as an SPDX package.
type module struct {
	ID            string      `json:"SPDXID"`
	Name          string      `json:"name"`
	Version       string      `json:"versionInfo,omitempty"`
	Location      string      `json:"downloadLocation"`
	FilesAnalyzed bool        `json:"filesAnalyzed"`
	References    []reference `json:"externalRefs,omitempty"`
}

// reference is the package URL of a module. Scanners for vulnerabilities look it up.
type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const (
	documentID = "SPDXRef-DOCUMENT"
	mainID     = "SPDXRef-Module-0"
	noLocation = "NOASSERTION"
)

// describe returns the SBOM of a Go binary: the modules that it was built from.
func describe(binary string, from revision) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the modules of the binary: %w", err)
	}
	bill := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: documentID, Name: "upright",
		Namespace: "https://" + info.Main.Path + "/sbom/" + from.commit,
		Creation:  creation{Created: from.time.Format("2006-01-02T15:04:05Z"), Creators: []string{"Tool: tools/image"}},
		Packages: []module{
			{ID: mainID, Name: info.Main.Path, Version: from.version, Location: noLocation},
			newModule(1, "stdlib", info.GoVersion[len("go"):]),
		},
	}
	for _, dependency := range info.Deps {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		bill.Packages = append(bill.Packages, newModule(len(bill.Packages), dependency.Path, dependency.Version))
	}
	bill.Relationships = []relationship{{documentID, "DESCRIBES", mainID}}
	for _, dependency := range bill.Packages[1:] {
		bill.Relationships = append(bill.Relationships, relationship{mainID, "DEPENDS_ON", dependency.ID})
	}
	encoded, err := json.MarshalIndent(bill, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the SBOM: %w", err)
	}
	return encoded, nil
}

// newModule returns a module with its package URL (https://github.com/package-url/purl-spec).
func newModule(n int, path, version string) module {
	locator := (&url.URL{Scheme: "pkg", Opaque: "golang/" + path + "@" + url.PathEscape(version)}).String()
	return module{
		ID: fmt.Sprintf("SPDXRef-Module-%d", n), Name: path, Version: version, Location: noLocation,
		References: []reference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: locator}},
	}
}
